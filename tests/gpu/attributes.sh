#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What the simulated device says of itself is what an H200 says: each attribute that it answers with
# another value than 0, by number as in cuda.h. What a GPU answers beyond that is listed.
#
#   tests/gpu/attributes.sh
#
# TENURE=/path/to/tenure chooses the command, PYTHON another interpreter.
# Exit codes: 0 the same; 1 not; 77 no GPU, or it is not an H200.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

find_tenure
require_gpu
python=${PYTHON:-python3}
command -v "$python" >/dev/null || skip "there is no $python"
unset TENURE_DRIVER LD_PRELOAD
exec "$python" -B "$repository/tests/gpu/attributes/compare.py" \
    --simulated "$(dirname "$tenure")/../lib/tenure/libtenure_simcuda.so"
