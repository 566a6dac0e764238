#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# RMM's own C++ tests on the simulated device: builds them by hand, each for both kinds of default
# stream, runs them under `tenure run --driver sim`, and says how many pass, fail and are skipped,
# and which do not pass. Needs sources that you have, nvcc and libcudart of CUDA 13, and the
# packages of googletest, gmock, spdlog and fmt. Nothing of them is part of Tenure. The first run
# takes half an hour on two cores.
#
#   tests/simcudart/rmm.sh RMM CCCL RAPIDS_LOGGER FOLDER    FOLDER: where it builds, kept for the
#                                                           next time
#
# TENURE=/path/to/tenure chooses the command, CUDA the toolkit's folder, JOBS how many at once.
# Exit codes: 0 all passed or skipped; 1 some failed, or were not built; 2 bad arguments.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../gpu/common.sh"

if [ $# != 4 ] || [ ! -d "$1/cpp/tests" ] || [ ! -d "$2/libcudacxx" ] || [ ! -d "$3/cmake" ]; then
    echo "usage: rmm.sh RMM CCCL RAPIDS_LOGGER FOLDER, sources of the first three" >&2
    exit 2
fi
find_tenure
unset TENURE_DRIVER LD_PRELOAD
export rmm out cuda include
rmm=$(realpath "$1/cpp") cccl=$(realpath "$2") logger=$(realpath "$3")
mkdir -p "$4/include/rmm" "$4/o" "$4/legacy" "$4/per-thread"
out=$(realpath "$4") cuda=${CUDA:-/usr/local/cuda} jobs=${JOBS:-$(nproc)}
include="-I$out/include -I$rmm/include -I$rmm -I$rmm/tests -I$cccl/libcudacxx/include"
include+=" -I$cccl/thrust -I$cccl/cub -I$logger/include"
sed -e 's/@_RAPIDS_LOGGER_MACRO_PREFIX@/RMM/g' \
    -e 's/@_RAPIDS_LOGGER_DEFAULT_LOGGER@/rmm::default_logger()/g' \
    "$logger/cmake/logger_macros.hpp.in" >"$out/include/rmm/logger_macros.hpp"

compile() { # source object [option ...]
    local source=$1 object=$2
    shift 2
    [ ! "$object" -nt "$source" ] || return 0
    # shellcheck disable=SC2086
    case $source in
    *.cu) "$cuda/bin/nvcc" -arch=sm_80 -std=c++20 -O0 -Xcompiler -fPIC --extended-lambda \
        --expt-relaxed-constexpr $include "$@" -c -o "$object" "$source" ;;
    *) g++ -std=c++20 -O0 -fPIC -pthread $include -isystem "$cuda/include" "$@" -c \
        -o "$object" "$source" ;;
    esac >"$object.log" 2>&1 || rm -f "$object"
}
# shellcheck disable=SC2317 # xargs calls it
program() { # source folder [option ...]
    local source=$1 name
    name=$(basename "${source%.*}")
    compile "$source" "$out/$2/$name.o" "${@:3}"
    [ ! -e "$out/$2/$name.o" ] || g++ -o "$out/$2/$name" "$out/$2/$name.o" -L"$out" -lrmm \
        -Wl,-rpath,"$out" -L"$cuda/lib64" -L"$cuda/lib64/stubs" -lcudart -lcuda -lgmock_main \
        -lgmock -lgtest -lpthread -ldl
}
export -f compile program

# The library, from the sources that RMM's own build names.
# shellcheck disable=SC2016
sed -n 's/^  \(src\/[^ )]*\.cpp\).*/\1/p' "$rmm/CMakeLists.txt" |
    xargs -P "$jobs" -I{} bash -c 'compile "$rmm/{}" "$out/o/$(echo {} | tr / _).o"'
compile "$logger/src/logger.cpp" "$out/o/logger_of_rapids.o"
g++ -shared -o "$out/librmm.so" "$out"/o/*.o -L"$cuda/lib64" -lcudart -lfmt -lspdlog -ldl

find "$rmm/tests" -name '*_tests.cpp' -o -name '*_tests.cu' | sort >"$out/sources"
xargs -P "$jobs" -I{} bash -c 'program {} legacy' <"$out/sources"
# shellcheck disable=SC2016
xargs -P "$jobs" -I{} bash -c 'program {} per-thread -DCUDA_API_PER_THREAD_DEFAULT_STREAM' \
    <"$out/sources"

worst=0
count() { # pattern file ...
    cat "${@:2}" | grep -cE "$1" || true
}
for kind in legacy per-thread; do
    rm -f "$out/$kind"/*.out
    while read -r source; do
        name=$(basename "${source%.*}")
        if [ ! -x "$out/$kind/$name" ]; then
            echo "$kind: not built: $name:" \
                "$(grep -m 1 -o 'error: .*' "$out/$kind/$name.o.log" || true)"
            worst=1
            continue
        fi
        (cd "$out/$kind" && timeout 600 "$tenure" run --driver sim -- "./$name") \
            >"$out/$kind/$name.out" 2>&1 </dev/null || worst=1
    done <"$out/sources"
    grep -hE '^\[  (FAILED |SKIPPED) \].* \([0-9]+ ms\)$' "$out/$kind"/*.out | sort || true
    echo "$kind: $(count '^\[ RUN ' "$out/$kind"/*.out) tests," \
        "$(count '^\[       OK' "$out/$kind"/*.out) passed," \
        "$(count '^\[  FAILED  \].* \([0-9]+ ms\)$' "$out/$kind"/*.out) failed," \
        "$(count '^\[  SKIPPED \].* \([0-9]+ ms\)$' "$out/$kind"/*.out) skipped"
done
exit $worst
