#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# CuPy's streams from elsewhere, which end a handle twice, with CuPy's own allocator and with Tenure
# (handles/cupy_streams.py).
#
#   tests/gpu/cupy_streams.sh [--json FILE] [--rounds N]
#
# TENURE=/path/to/tenure chooses the command; the Python module lies in ../python beside its folder,
# or where TENURE_PYTHON says. PYTHON chooses another interpreter.
# Exit codes: 0 all as it must be; 1 not; 2 bad options; 77 no GPU, or no CuPy with from_external.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

find_tenure
require_gpu
find_python
unset TENURE_DRIVER
exec "$python" -B "$repository/tests/gpu/handles/cupy_streams.py" "$@"
