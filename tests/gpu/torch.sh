#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Small everyday programs of PyTorch's users with Tenure as PyTorch's allocator, each in a process
# of its own, one line for each: torch/programs.py has them.
#
#   tests/gpu/torch.sh [--allocator tenure|native] [--only REGEX] [--list]
#   tests/gpu/torch.sh starts [--only REGEX] [--list]
#   tests/gpu/torch.sh shown [--json FILE] [options; --help has them]
#   tests/gpu/torch.sh slow [--json FILE] [options; --help has them]
#
# starts: each way in which PyTorch starts CUDA, first in a program that Tenure is put under
# (torch/starts.py).
#
# shown: what Tenure must show beside PyTorch's own allocator and its expandable segments, by seven
# rounds of each: losses, reserved memory, steps, host time, captured shapes (torch/shown.py).
#
# slow: programs that give memory back and take it again, or ask for what is not there, beside
# PyTorch's own allocator and its expandable segments, in turns (torch/slow.py).
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
export NCCL_NVLS_ENABLE=0 # for cases of two processes
case ${1:-} in
shown | slow)
    commit=$("$tenure" --version | sed -n 's/.*(\([^)]*\)).*/\1/p')
    exec "$python" -B "$repository/tests/gpu/torch/$1.py" --commit "$commit" "${@:2}"
    ;;
esac
if [ "${1:-}" = starts ]; then
    exec "$python" -B "$repository/tests/gpu/torch/starts.py" "${@:2}"
fi
exec "$python" -B "$repository/tests/gpu/torch/programs.py" "$@"
