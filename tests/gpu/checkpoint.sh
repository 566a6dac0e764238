#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Whether the driver can take a program that uses Tenure off the device and bring it back
# (cuCheckpointProcess*, CUDA 12.8 and newer): awake, asleep with its contents kept, asleep with
# them dropped; with memory that can be exported and with memory that cannot; and, for comparison,
# with PyTorch's own allocator. One line for each.
#
#   tests/gpu/checkpoint.sh [--engine torch|driver] [--json FILE] [...; --help]
#
# TENURE=/path/to/tenure chooses the command; the Python module lies in ../python beside its folder,
# or where TENURE_PYTHON says. PYTHON chooses another interpreter.
# Exit codes: 0 whatever the driver took came back as it was; 1 not; 2 bad options; 77 no GPU, no
# PyTorch, or a driver that takes no process at all.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
find_tenure
require_gpu
find_python
unset TENURE_DRIVER
exec "$python" -B "$repository/tests/gpu/asleep/checkpoint.py" --tenure "$(realpath "$tenure")" "$@"
