#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What it costs to follow a program: training steps of GPT-2, and launches, of PyTorch with Tenure,
# bare and under `tenure run`, `tenure run --check`, auto_record:seen, poison and guard, in turns.
# Fails where a step under --check takes more than 1.05 of the bare one's time, or with
# auto_record:seen more than 1.02 (check_cost/cost.py, which has the options).
#
#   tests/gpu/check_cost.sh [--ways A,B] [--rounds N] [--processes N] [--steps N] [--json FILE]
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
exec "$python" -B "$repository/tests/gpu/check_cost/cost.py" --commit "$commit" "$@"
