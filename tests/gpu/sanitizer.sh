#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# compute-sanitizer over `tenure run`: a right program has no finding, as without Tenure, and a
# write behind a block is found, also inside Tenure's memory. sanitizer/borders.cu is the program.
#
#   tests/gpu/sanitizer.sh
#
# TENURE=/path/to/tenure chooses the command, NVCC the compiler. Exit codes: 0 all as it must be; 1
# not; 77 no GPU with bulk copies (Hopper or later), no nvcc or no compute-sanitizer.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

find_tenure
require_gpu
unset TENURE_DRIVER
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
[ -x "$sanitizer" ] || skip "there is no compute-sanitizer"
[ -x "$nvcc" ] || skip "there is no nvcc"
kind=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1)
[ "${kind%%.*}" -ge 9 ] || skip "a GPU of compute capability $kind has no bulk copies"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$nvcc" -std=c++17 -arch="sm_${kind/./}" -o "$folder/borders" \
    "$(dirname "${BASH_SOURCE[0]}")/sanitizer/borders.cu" -lcuda
failures=0

# Runs a command; its output goes on to `said`, the number of errors to `errors`.
sanitize() { # name, then the command
    said=$("${@:2}" 2>&1) || true
    errors=$(sed -n 's/.*ERROR SUMMARY: \([0-9]*\) error.*/\1/p' <<<"$said" | tail -n 1)
    errors=${errors:-none}
    echo "$1: $errors errors"
}

expect() { # name, number of errors ("some": 1 and more), then the command
    sanitize "$1" "${@:3}"
    if [ "$2" = some ]; then
        grep -q 'Invalid __global__ write' <<<"$said" && return
    elif [ "$errors" = "$2" ]; then
        return
    fi
    echo "not so: $2 errors; it said:"
    echo "$said"
    failures=$((failures + 1))
}

run=("$tenure" run)
for mode in right many; do
    expect "$mode, without Tenure" 0 "$sanitizer" "$folder/borders" "$mode"
    expect "$mode, tenure run outside" 0 "${run[@]}" -- "$sanitizer" "$folder/borders" "$mode"
    expect "$mode, tenure run inside" 0 "$sanitizer" "${run[@]}" -- "$folder/borders" "$mode"
done
expect "overrun, not annotated" 0 "${run[@]}" -- "$sanitizer" --nvtx no "$folder/borders" overrun
expect "overrun" some "${run[@]}" -- "$sanitizer" "$folder/borders" overrun
# What it makes of mapped memory, whoever maps it: shown, not judged.
sanitize "mapped by the program, without Tenure" "$sanitizer" "$folder/borders" mapped
sanitize "memory:mapped" "${run[@]}" --conf memory:mapped -- "$sanitizer" "$folder/borders" right
[ "$failures" -eq 0 ]
