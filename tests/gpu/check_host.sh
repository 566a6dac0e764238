#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `tenure run --check=host` on a GPU: the host touches pinned memory during a copy, memory of each
# kind; each error is found, its program goes on and its data arrive, and the twin with the wait is
# silent. Then what a copy takes that is waited for. Kinds of memory that the system does not let a
# process protect are named, and are no failure.
#
#   tests/gpu/check_host.sh [ROUNDS]
#
# TENURE=/path/to/tenure chooses the command, CC the compiler, PYTHON an interpreter. Exit codes: 0
# all as it must be; 1 not; 77 no GPU.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

find_tenure
require_gpu
unset TENURE_DRIVER
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cuda=${CUDA_INCLUDE:-/usr/local/cuda/include}
library=$(ldconfig -p | awk '/libcuda\.so\.1/ { print $NF; exit }')
"${CC:-cc}" -g -std=gnu11 -isystem "$cuda" -o "$folder/host" \
    "$repository/tests/gpu/check_host/host.c" "${library:-/usr/lib/x86_64-linux-gnu/libcuda.so.1}"
failures=0

# expect CODE TOUCHES COMMAND...: the exit code, and how many findings of the kind there are.
expect() {
    local wanted=$1 touches=$2 code=0 said found=0
    shift 2
    rm -f "$folder/findings"
    said=$(timeout 120 "$tenure" run --check=host --findings "$folder/findings" -- "$@" 2>&1) ||
        code=$?
    if [ "$code" = 77 ]; then
        echo "skipped: $*"
        return
    fi
    [ ! -e "$folder/findings" ] || found=$(grep -c '"kind": "host_touch", "certain": true' \
        "$folder/findings") || true
    if grep -q "cannot be protected" <<<"$said"; then
        echo "not protected: $*: $(grep -m1 "cannot be protected" <<<"$said")"
    elif [ "$code" != "$wanted" ] || [ "$found" != "$touches" ]; then
        echo "WRONG: $*: exit code $code, not $wanted, or $found findings, not $touches"
        echo "$said"
        failures=$((failures + 1))
    else
        echo "right: $*: exit code $code, $found findings"
    fi
}

for way in pinned portable mapped combined registered heap huge; do
    expect 99 2 "$folder/host" "$way" wrong
    expect 0 0 "$folder/host" "$way" right
done
expect 99 0 "$folder/host" cross wrong # races, and no touch of the host's
expect 0 0 "$folder/host" cross right
expect 99 1 "${PYTHON:-python3}" "$repository/tests/gpu/check_host/pinned.py" wrong
expect 0 0 "${PYTHON:-python3}" "$repository/tests/gpu/check_host/pinned.py" right

rounds=${1:-2000}
echo "a copy of 1 MiB that is waited for, ns: $("$folder/host" cost "$rounds") bare," \
    "$("$tenure" run --check -- "$folder/host" cost "$rounds" 2>/dev/null) with --check," \
    "$("$tenure" run --check=host -- "$folder/host" cost "$rounds" 2>/dev/null) with --check=host"
exit $((failures > 0))
