#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `tenure run --check` with right programs of PyTorch and CuPy that live in libraries: cuSOLVER,
# cuBLAS, cuFFT, cuSPARSE, CUB, cuDNN, Triton, CUDA graphs. None may have a certain finding
# (check_python/libraries.py, which has the options).
#
#   tests/gpu/check_libraries.sh [--only TEXT] [--jobs N] [--timeout SECONDS] [--out FOLDER]
#
# TENURE=/path/to/tenure chooses the command; the Python module lies in ../python beside its folder,
# or where TENURE_PYTHON says. PYTHON chooses another interpreter.
# Exit codes: 0 none has; 1 one has, or ends otherwise; 2 bad options; 77 no GPU, or no PyTorch.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

find_tenure
require_gpu
find_python
unset TENURE_DRIVER LD_PRELOAD
export TENURE=$tenure
exec "$python" -B "$repository/tests/gpu/check_python/libraries.py" "$@"
