#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# nccl-tests, which the user has built, without Tenure and under `tenure run`: no wrong value in any
# mode, and as fast (peers/nccl.py). Two GPUs. NCCL_TESTS names the folder with all_reduce_perf.
#
#   tests/gpu/nccl.sh [check] [speed] [--mode NAME]... [--rounds N] [--jobs N] [--json FILE]
#
# Without check or speed, both; --mode runs one mode only; --jobs checks so many programs at once.
# Modes of two processes want nccl-tests built with MPI=1, and MPIRUN, such as `mpirun`.
# TENURE=/path/to/tenure chooses the command.
# Exit codes: 0 all as it must be; 1 not; 2 bad options; 77 no two GPUs, or no nccl-tests.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

find_tenure
require_gpu
require_gpus 2
[ -n "${NCCL_TESTS:-}" ] || skip "NCCL_TESTS names no folder with nccl-tests' programs"
[ -x "$NCCL_TESTS/all_reduce_perf" ] || skip "there is no all_reduce_perf in $NCCL_TESTS"
export NCCL_NVLS_ENABLE=0
unset TENURE_DRIVER
exec python3 -B "$repository/tests/gpu/peers/nccl.py" "$NCCL_TESTS" "$tenure" "$@"
