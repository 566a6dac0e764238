#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `tenure predict` against what PyTorch reserves on a GPU: programs of PyTorch, whose snapshot is
# predicted from, and the recorded traces, replayed with memory of PyTorch's allocator. Fails where
# a peak is off by more than 1 % (predict/peaks.py, which has the options).
#
#   tests/gpu/predict.sh [programs] [traces] [--jobs N] [--only REGEX] [--json FILE]
#
# TENURE=/path/to/tenure chooses the command; the Python module lies in ../python beside its folder,
# or where TENURE_PYTHON says. PYTHON chooses another interpreter.
# Exit codes: 0 all holds; 1 not; 2 bad options; 77 no GPU, or no PyTorch.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

find_tenure
require_gpu
find_python
unset TENURE_DRIVER TENURE_CONF LD_PRELOAD
export TENURE=$tenure
commit=$("$tenure" --version | sed -n 's/.*(\([^)]*\)).*/\1/p')
exec "$python" -B "$repository/tests/gpu/predict/peaks.py" --commit "$commit" "$@"
