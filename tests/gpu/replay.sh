#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Replays the six recorded traces on a real GPU, with every byte of every block checked, and
# compares with the limits that the project promises.
#
#   tests/gpu/replay.sh [--json FILE]      the objects of `tenure replay --json` go to FILE
#
# TENURE=/path/to/tenure chooses the command. Exit codes: 0 within the limits; 1 not; 77 no GPU.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
find_tenure
require_gpu

python=${PYTHON:-python3}
command -v "$python" >/dev/null || skip "the limits are checked by $python, which is not there"
exec "$python" "$repository/tests/traces/replay_all.py" --tenure "$tenure" --driver cuda \
    --driver-seconds 0.4 "$@"
