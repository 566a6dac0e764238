#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The account of the whole process on a real GPU: of what the driver says is used, at most the
# larger of 1 % and 64 MiB is unexplained, for programs that know nothing of Tenure (PyTorch, JAX,
# CuPy, numba, NCCL, CUDA's libraries, and two that are compiled here); and what `tenure top` takes
# of a training run, at most 1 % of its time (account/account.py). Nothing else may use the GPU.
#
#   tests/gpu/account.sh [--json FILE] [--pairs N] [--round-s S] [NAME ...]     without a name, all
#
# One line for each program and one for each view of top: ok, NO or skipped, with the number and its
# target. TENURE=/path/to/tenure chooses the command, NVCC the compiler, PYTHON the interpreter.
# Exit codes: 0 all as it must be; 1 not; 2 bad options; 77 no GPU.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

find_tenure
require_gpu
unset TENURE_DRIVER LD_PRELOAD
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
[ -x "$nvcc" ] || nvcc=
python=${PYTHON:-python3}
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
exec "$python" -B "$repository/tests/gpu/account/account.py" --tenure "$tenure" \
    --python "$python" --nvcc "$nvcc" --gpus "${gpus:-0}" "$@"
