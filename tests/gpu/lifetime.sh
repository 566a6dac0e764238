#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What lifetimes must show on a real GPU: that a block is free when its recorded use is over, that
# the offload program's memory stays bounded at the speed of an unbounded pool (and how a ring of
# buffers managed by hand does in the same memory), and what recording a use costs.
#
#   tests/gpu/lifetime.sh [--json FILE] [--csv FILE] [--quick]
#
# --json FILE gets the offload program's objects, --csv FILE the numbers of the
# benchmarks.
# TENURE=/path/to/tenure chooses the command; the programs lie in ../tests beside its folder, or
# where LIFETIME_PROGRAMS says. Exit codes: 0 all as it must be; 1 not; 2 bad options; 77 no GPU.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

json='' csv='' quick=()
while [ $# -gt 0 ]; do
    case $1 in
    --json | --csv)
        [ $# -gt 1 ] || { echo "$1 needs a file" >&2; exit 2; }
        printf -v "${1#--}" %s "$2"
        shift 2
        ;;
    --quick)
        quick=(--quick)
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
find_bench

programs=${LIFETIME_PROGRAMS:-$(dirname "$tenure")/../tests}
for program in lifetime_precision lifetime_offload; do
    if [ ! -x "$programs/$program" ]; then
        echo "$programs/$program was not found: build it, or set LIFETIME_PROGRAMS" >&2
        exit 2
    fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset TENURE_DRIVER
worst=0
# Runs one part; the others run whatever it says.
part() {
    local code=0
    "$@" || code=$?
    [ "$code" -eq 0 ] || worst=$code
    echo >&2
}

offload=(--by-hand --waits)
[ ${#quick[@]} -eq 0 ] || offload+=(--rounds 2 --steps 6)
part "$programs/lifetime_precision"
if [ -n "$json" ]; then
    part "$programs/lifetime_offload" "${offload[@]}" --json >"$json"
else
    part "$programs/lifetime_offload" "${offload[@]}"
fi

options=(--driver cuda --only uses "${quick[@]}")
[ -z "$csv" ] || options+=(--csv "$csv")
if path=$("$repository/tests/gpu/build_torch_plugin.sh" "$work/torch_allocator.so"); then
    options+=(--torch "$(tail -n 1 <<<"$path")")
fi
part "$bench" bench "${options[@]}"
exit "$worst"
