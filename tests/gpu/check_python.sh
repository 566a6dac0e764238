#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `tenure run --check` with programs of PyTorch and CuPy: errors of lifetime must be found, with the
# call that is missing, and their corrected twins must be silent (check_python/). Without options,
# an error of transformers' own comes after them (docs/found.md).
#
#   tests/gpu/check_python.sh [torch] [cupy] [--json FILE] [--jobs N] [--out FOLDER] [--only TEXT]
#                             [--timeout SECONDS] [--total SECONDS]
#
# Each program is a process of its own, at most N at once (8), for 60 s at most; after 170 s nothing
# more is begun. --out keeps what they print there; without it the folder is named.
#
# TENURE=/path/to/tenure chooses the command; the Python module lies in ../python beside its folder,
# or where TENURE_PYTHON says. PYTHON chooses another interpreter.
# Exit codes: 0 all as it must be; 1 not; 2 bad options; 77 no GPU, or neither PyTorch nor CuPy.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

find_tenure
require_gpu
find_python
unset TENURE_DRIVER LD_PRELOAD
export TENURE=$tenure
code=0
"$python" -B "$repository/tests/gpu/check_python/zoo.py" "$@" || code=$?
[ "$code" = 0 ] || [ "$code" = 77 ] || exit "$code"

# A library's own error (docs/found.md), as it is and with the call that is missing; transformers
# 5.17.0 has it no more. Not with options that choose programs.
[ $# = 0 ] || exit "$code"
for how in "" mend; do
    wanted=99
    [ -z "$how" ] || wanted=0
    got=0
    # shellcheck disable=SC2086
    said=$(timeout 120 "$tenure" run --check -- "$python" -B \
        "$repository/tests/gpu/check_python/offloaded_cache.py" $how 2>&1) || got=$?
    if [ "$got" = 77 ]; then
        echo "transformers: SKIPPED: ${said##*skipped: }"
        break
    elif [ "$got" != "$wanted" ] && [ "$got" != 0 ]; then
        echo "transformers offloaded_cache $how: exit code $got, not $wanted"
        echo "$said" | tail -40
        code=1
    else
        echo "transformers offloaded_cache $how: exit code $got"
        echo "$said" | grep -E "results differ|finding [0-9]+:" || true
    fi
done
exit "$code"
