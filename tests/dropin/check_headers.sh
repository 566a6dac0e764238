#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# check_headers.sh CC: <tenure/cudart_replace.h> and the walkthrough against the headers of an
# installed CUDA toolkit, as C and as C++, with both kinds of default stream, with every warning.
#
# CUDA_HOME names the toolkit. Exit codes: 0 all compile; 1 not; 77 there is no toolkit.
set -euo pipefail

cc=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../..
cuda=
for candidate in "${CUDA_HOME:-/nonexistent}" /usr/local/cuda /usr/local/cuda-*; do
    if [ -e "$candidate/include/cuda_runtime_api.h" ]; then
        cuda=$candidate
        break
    fi
done
[ -n "$cuda" ] || { echo "skipped: there is no CUDA toolkit with cuda_runtime_api.h"; exit 77; }

flags=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror -fsyntax-only
    -isystem "$cuda/include" -I "$root/tools/dropin/include")
for layer in alloc lifetime capture; do flags+=(-I "$root/$layer/include"); done

failed=0
compile() { # compile COMPILER FILE FLAGS...
    local compiler=$1 file=$2
    shift 2
    "$compiler" "${flags[@]}" "$@" "$file" || { echo "$file: $compiler $*" >&2; failed=1; }
}

for streams in -UNONE -DCUDA_API_PER_THREAD_DEFAULT_STREAM; do
    for standard in c99 c17; do
        for file in "$root"/docs/examples/cudart/pipeline*.c "$here/second_file.c"; do
            compile "$cc" "$file" "$streams" -std=$standard -Wstrict-prototypes
        done
    done
    if command -v c++ >/dev/null; then
        for standard in c++11 c++17; do
            compile c++ "$here/every_form.cpp" "$streams" -std=$standard
        done
    fi
done
exit $failed
