#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tenure through the interfaces of others, on a GPU: what an allocation costs through
# <tenure/cccl.hpp> beside cuda_async memory, Thrust and CUB with their temporaries from it; that
# programs of Numba and cuda.core, and of PyTorch and CuPy that hand each other arrays, give the
# same results with Tenure; that arrays of tenure.dlpack come back behind those who took them.
#
#   tests/gpu/interfaces.sh [cccl] [numba] [cuda_core] [engines] [dlpack]
#
# Without words all of them: a minute or two. A line for each measure; what is not installed is
# skipped, with the reason.
#
# TENURE=/path/to/tenure chooses the command; the Python module lies in ../python beside its folder,
# or where TENURE_PYTHON says, libtenure.so in ../lib. PYTHON chooses another interpreter, CUDA_HOME
# the toolkit, CCCL_PROGRAM an interfaces/cccl.cu that is compiled already.
# Exit codes: 0 all as it must be; 1 not; 2 bad options; 77 no GPU.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

for word in "$@"; do
    case $word in
    cccl | numba | cuda_core | engines | dlpack) ;;
    *)
        echo "interfaces.sh: do not know '$word'; there are cccl, numba, cuda_core, engines and" \
            "dlpack" >&2
        exit 2
        ;;
    esac
done
[ $# -gt 0 ] || set -- cccl numba cuda_core engines dlpack
find_tenure
require_gpu
find_python
unset TENURE_DRIVER TENURE_CONF LD_PRELOAD NUMBA_CUDA_MEMORY_MANAGER
library=$(realpath "$(dirname "$tenure")/../lib")
programs=$repository/tests/gpu/interfaces/programs.py
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
line() { printf '%-40s %s\n' "$1" "$2"; }

measure_cccl() {
    local cuda=${CUDA_HOME:-/usr/local/cuda} program=${CCCL_PROGRAM:-}
    if [ -z "$program" ]; then
        if [ ! -x "$cuda/bin/nvcc" ]; then
            line cccl "skipped: there is no nvcc in $cuda"
            return
        fi
        program=$work/cccl
        local flags=(-O2 -std=c++17 -arch=native -I "$repository/tools/dropin/include")
        for layer in alloc lifetime capture; do flags+=(-I "$repository/$layer/include"); done
        if ! "$cuda/bin/nvcc" "${flags[@]}" "$repository/tests/gpu/interfaces/cccl.cu" \
            -o "$program" -L "$library" -ltenure -Xlinker -rpath="$library" >"$work/nvcc" 2>&1; then
            tail -20 "$work/nvcc"
            line cccl "FAILED to compile"
            failed=1
            return
        fi
    fi
    if ! LD_LIBRARY_PATH=$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout 120 "$program"; then
        line cccl FAILED
        failed=1
    fi
}

# program NAME MEMORY: its results go to $work/NAME.MEMORY, its code to `code`.
program() {
    local settings=()
    [ "$2" != environment ] || settings=(NUMBA_CUDA_MEMORY_MANAGER=tenure.numba)
    code=0
    env "${settings[@]}" timeout 120 "$python" -B "$programs" "$1" "$2" \
        >"$work/$1.$2" 2>"$work/$1.$2.err" || code=$?
}

# same NAME MEMORY...: the program's results with its own memory, and with Tenure's.
same() {
    local name=$1 memory
    program "$name" own
    if [ "$code" = 77 ]; then
        line "$name" "$(tail -1 "$work/$name.own")"
        return
    fi
    for memory in own "${@:2}"; do
        [ "$memory" = own ] || program "$name" "$memory"
        if [ "$code" != 0 ]; then
            tail -12 "$work/$name.$memory.err"
            line "$name, $memory" "FAILED with exit code $code"
            failed=1
        elif ! cmp -s "$work/$name.own" "$work/$name.$memory"; then
            diff "$work/$name.own" "$work/$name.$memory" | head -6 || true
            line "$name, $memory" "FAILED: the results differ"
            failed=1
        elif [ "$memory" != own ]; then
            line "$name, $memory" "the same $(wc -l <"$work/$name.own") results; $(tail -1 \
                "$work/$name.$memory.err")"
        fi
    done
}

measure_numba() { same numba install environment; }
measure_cuda_core() { same cuda_core tenure; }
measure_engines() { same engines tenure; }

measure_dlpack() {
    program dlpack tenure
    if [ "$code" = 77 ]; then
        line dlpack "$(tail -1 "$work/dlpack.tenure")"
    elif [ "$code" != 0 ] || [ "$(cat "$work/dlpack.tenure")" != "0 wrong" ]; then
        tail -12 "$work/dlpack.tenure.err"
        line dlpack "FAILED with exit code $code: $(tail -1 "$work/dlpack.tenure")"
        failed=1
    else
        line dlpack "0 wrong; $(tail -1 "$work/dlpack.tenure.err")"
    fi
}

for word in "$@"; do "measure_$word"; done
[ $failed = 0 ] && echo "all checks passed" || echo "some checks failed"
exit $failed
