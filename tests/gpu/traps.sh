#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Poison and canary under `tenure run` on a GPU: each wrong write of tests/preload/traps.c is found,
# however its block is freed and the program ends; the right program has no finding.
#
#   tests/gpu/traps.sh
#
# TENURE=/path/to/tenure chooses the command, CC the compiler. Exit codes: 0 all as it must be; 1
# not; 77 no GPU.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

find_tenure
require_gpu
unset TENURE_DRIVER
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cuda=${CUDA_INCLUDE:-/usr/local/cuda/include}
"${CC:-cc}" -g -std=gnu11 -isystem "$cuda" -o "$folder/traps" \
    "$repository"/tests/preload/{traps,traps_named,mock_runtime}.c -ldl -lpthread
failures=0

# expect CODE FOUND ARGUMENT...: the exit code, and how many findings; 0: nothing found.
expect() {
    local wanted=$1 found=$2 code=0 said
    shift 2
    said=$(timeout 120 "$tenure" run --conf poison:on,canary:on -- "$folder/traps" "$@" \
        2>&1 >/dev/null) || code=$?
    local line="found $found "
    [ "$found" -gt 0 ] || line="nothing found "
    if [ "$code" != "$wanted" ] || ! grep -q "tenure: traps: process [0-9]*: $line" <<<"$said"; then
        echo "WRONG: traps $*: exit code $code, not $wanted, or not: $line"
        echo "$said"
        failures=$((failures + 1))
    else
        echo "right: traps $*: exit code $code, $line"
    fi
}

for end in return reset; do
    expect 0 0 clean "$end"
    expect 99 1 over "$end"
    expect 99 1 async "$end"
    expect 99 1 late "$end"
    expect 99 1 live "$end"
done
exit $((failures > 0))
