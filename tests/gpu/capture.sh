#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What captured graphs must show on a real GPU: a thousand replays that are identical, bit by bit,
# while threads allocate and free at full speed; graphs on one pool; captures that fail; memory
# freed, and graphs destroyed, too early; and how little memory a capture needs, at what time for
# each step.
#
#   tests/gpu/capture.sh [--csv FILE] [--quick]
#
# --csv FILE gets what capture_precision prints. TENURE=/path/to/tenure chooses the command; the
# programs lie in ../tests beside its folder, or where CAPTURE_PROGRAMS says. Exit codes: 0 all as
# it must be; 1 not; 2 bad options; 77 no GPU.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

csv='' options=(--threads 8)
while [ $# -gt 0 ]; do
    case $1 in
    --csv)
        [ $# -gt 1 ] || { echo "$1 needs a file" >&2; exit 2; }
        csv=$2
        shift 2
        ;;
    --quick)
        options=(--threads 4 --replays 200)
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

programs=${CAPTURE_PROGRAMS:-$(dirname "$tenure")/../tests}
for program in capture_experiments capture_precision; do
    if [ ! -x "$programs/$program" ]; then
        echo "$programs/$program was not found: build it, or set CAPTURE_PROGRAMS" >&2
        exit 2
    fi
done
unset TENURE_DRIVER

# All of them run, whatever one says.
worst=0
"$programs/capture_experiments" "${options[@]}" || worst=$?
echo
if [ -n "$csv" ]; then
    "$programs/capture_precision" >"$csv" || worst=$?
else
    "$programs/capture_precision" || worst=$?
fi
exit "$worst"
