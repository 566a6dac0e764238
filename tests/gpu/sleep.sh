#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What sleep and wake must show on a real GPU: that memory really goes back, that every byte and a
# live graph are as before after the wake, at 90 % of the pinned link's bandwidth or more; for the
# wake with a bound on pinned memory, too. The sleep with a bound is reported, and what the host's
# memory alone can do.
#
#   tests/gpu/sleep.sh [--csv FILE] [--quick] [--bound-mib N]
#
# TENURE=/path/to/tenure chooses the command; the program lies in ../tests beside its folder, or
# where SLEEP_PROGRAMS says. Exit codes: 0 all as it must be; 1 not; 2 bad options; 77 no GPU.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

options=()
while [ $# -gt 0 ]; do
    case $1 in
    --csv)
        [ $# -gt 1 ] || { echo "$1 needs a file" >&2; exit 2; }
        options+=(--csv "$2")
        shift 2
        ;;
    --bound-mib)
        [ $# -gt 1 ] || { echo "$1 needs a number" >&2; exit 2; }
        options+=(--bound-mib "$2")
        shift 2
        ;;
    --quick)
        options+=(--mb 2000 --rounds 3)
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

program=${SLEEP_PROGRAMS:-$(dirname "$tenure")/../tests}/sleep_bandwidth
if [ ! -x "$program" ]; then
    echo "$program was not found: build it, or set SLEEP_PROGRAMS" >&2
    exit 2
fi
unset TENURE_DRIVER
exec "$program" "${options[@]}"
