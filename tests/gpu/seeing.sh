#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Seeing memory on a real GPU: what the history and snapshots cost (seeing_cost), and that PyTorch's
# own tools open snapshots of the six traces, and `tenure snapshot` opens PyTorch's (with PyTorch).
#
#   tests/gpu/seeing.sh [--csv FILE] [--json FILE] [--quick]
#
# TENURE=/path/to/tenure chooses the command; the program lies in ../tests beside its folder, or
# where SEEING_PROGRAMS says. Exit codes: 0 all as it must be; 1 not; 2 bad options; 77 no GPU.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cost=() viewer=()
while [ $# -gt 0 ]; do
    case $1 in
    --csv | --json)
        [ $# -gt 1 ] || { echo "$1 needs a file" >&2; exit 2; }
        if [ "$1" = --csv ]; then cost+=(--csv "$2"); else viewer+=(--json "$2"); fi
        shift 2
        ;;
    --quick)
        cost+=(--rounds 3 --no-limit)
        viewer+=(--quick)
        shift
        ;;
    *)
        echo "unknown option: $1" >&2
        exit 2
        ;;
    esac
done
find_tenure
require_gpu

program=${SEEING_PROGRAMS:-$(dirname "$tenure")/../tests}/seeing_cost
if [ ! -x "$program" ]; then
    echo "$program was not found: build it, or set SEEING_PROGRAMS" >&2
    exit 2
fi
unset TENURE_DRIVER
result=0
"$program" "${cost[@]}" || result=1

python=${PYTHON:-python3}
if command -v "$python" >/dev/null && "$python" -c 'import torch' 2>/dev/null; then
    echo
    "$python" "$repository/tests/gpu/seeing/seeing_torch.py" --tenure "$tenure" \
        --traces "$repository/tests/traces" "${viewer[@]}" || result=1
else
    echo "PyTorch is not there: its tools were not tried"
fi
exit $result
