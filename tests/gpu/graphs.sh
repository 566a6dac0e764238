#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Questions about CUDA graphs, tried in PyTorch with its own allocator and with Tenure's: whether
# replays give the same bits, whether they allocate, what breaks a capture and what is left then,
# how long a step takes, and what two ranks must do. graphs/experiments.py has them; docs/graphs.md
# shows what came out. Takes less than four minutes.
#
#   tests/gpu/graphs.sh [--csv FILE] [--only REGEX] [--list] [--seconds N]
#
# TENURE=/path/to/tenure chooses the command; the Python module lies in ../python beside its folder,
# or where TENURE_PYTHON says. PYTHON chooses another interpreter.
# Exit codes: 0 with Tenure all is as it must be; 1 not; 2 bad options; 77 no GPU, or no PyTorch.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

find_tenure
require_gpu
find_python
unset TENURE_DRIVER
export NCCL_NVLS_ENABLE=0 # for the cases of two ranks
"$python" -m tenure.torch build >/dev/null || true # once, not in each process
commit=$("$tenure" --version | sed -n 's/.*(\([^)]*\)).*/\1/p')
exec "$python" -B "$repository/tests/gpu/graphs/experiments.py" --commit "$commit" "$@"
