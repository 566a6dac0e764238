#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What a program of PyTorch's with weights, a cache and 40 captured graphs holds while it sleeps,
# how fast its weights wake, and that its graphs give the same bits after 100 cycles, with frees and
# allocations meanwhile. `tenure ctl` rules it, from another process and from another view of the
# folder.
#
#   tests/gpu/asleep.sh [--engine torch|driver] [--cycles N] [--json FILE] [...; --help]
#
# TENURE=/path/to/tenure chooses the command; the Python module lies in ../python beside its folder,
# or where TENURE_PYTHON says. PYTHON chooses another interpreter.
# Exit codes: 0 all as it must be; 1 not; 2 bad options; 77 no GPU, or no PyTorch.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
find_tenure
require_gpu
find_python
unset TENURE_DRIVER
exec "$python" -B "$repository/tests/gpu/asleep/asleep.py" --tenure "$(realpath "$tenure")" "$@"
