#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# check_install.sh CMAKE CC BUILD STAGE LIBDIR STEP
#
# STEP `install` installs BUILD into STAGE and moves the tree, so that everything else proves that
# it works from a place that it was not configured for. The other steps use it: the headers, the
# two ways to link it, the two ways to load it, and the command. Run by ctest with
# TENURE_DRIVER=sim.
set -euo pipefail

cmake=$1 cc=$2 build=$3 stage=$4 libdir=$5 step=$6
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=$stage/moved
work=$stage/work-$step
lib=$prefix/$libdir

fail() { echo "install: $*" >&2; exit 1; }

# What the build directory itself offers must not help.
unset LD_LIBRARY_PATH LD_PRELOAD PKG_CONFIG_PATH CMAKE_PREFIX_PATH
rm -rf "$work"
mkdir -p "$work"

step_install() {
    rm -rf "$stage"
    mkdir -p "$stage"
    "$cmake" --install "$build" --prefix "$stage/first" >"$stage/install.log" ||
        fail "$(cat "$stage/install.log")"
    mv "$stage/first" "$prefix"
    local file
    for file in "$lib/libtenure.so" "$lib/libtenure.so.0" "$lib/tenure/libtenure_simcuda.so" \
        "$lib/libtenure_preload.so" \
        "$lib/pkgconfig/tenure.pc" "$lib/cmake/tenure/tenureConfig.cmake" \
        "$lib/cmake/tenure/tenureConfigVersion.cmake" "$prefix/include/tenure/alloc.h" \
        "$prefix/include/tenure/status.h" "$prefix/bin/tenure" \
        "$prefix/include/tenure/cudart_replace.h" "$lib/tenure/libtenure_torch.so" \
        "$lib/tenure/libtenure_cupy.so" \
        "$prefix/share/tenure/python/tenure/torch.py" \
        "$prefix/share/tenure/python/tenure/native/allocator.hpp" \
        "$prefix/share/tenure/python/tenure/native/host/crt/host_defines.h"; do
        [[ -e $file ]] || fail "$file was not installed"
    done
    # Nothing that is installed as text may name the build directory.
    ! grep -rIl --include='*.cmake' --include='*.pc' --include='*.h' -e "$build" "$prefix" ||
        fail "installed files name the build directory"
    [[ ! -e $lib/libtenure_static.a ]] || fail "the tests' archive was installed"
}

# Each header alone, as C and as C++, by a compiler that forgives nothing.
step_headers() {
    local header standard
    for header in "$prefix"/include/tenure/*.h; do
        # Needs the headers of a CUDA toolkit: tests/dropin compiles it where there is one.
        [[ $header != */cudart_replace.h ]] || continue
        echo "#include <tenure/$(basename "$header")>" >"$work/alone.c"
        # Twice: the include guard.
        echo "#include <tenure/$(basename "$header")>" >>"$work/alone.c"
        echo "int tnr_alone;" >>"$work/alone.c"
        for standard in c99 c11 c17; do
            "$cc" -std=$standard -Wall -Wextra -Wpedantic -Wstrict-prototypes -Werror \
                -fsyntax-only -I "$prefix/include" "$work/alone.c" || fail "$header as $standard"
        done
        for standard in c++11 c++17; do
            g++ -x c++ -std=$standard -Wall -Wextra -pedantic -Werror -fsyntax-only \
                -I "$prefix/include" "$work/alone.c" || fail "$header as $standard"
        done
    done
}

# run_consumer PROGRAM: it must say that it allocated from the simulated device.
run_consumer() {
    local said
    said=$(LD_LIBRARY_PATH=$lib "$1") || fail "$1 ended with code $?: $said"
    echo "$said"
    [[ $said == *"allocated and freed on the simulated device"* ]] || fail "$1 said: $said"
}

step_find_package() {
    "$cmake" -S "$here/consumer" -B "$work/build" -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    "$cmake" --build "$work/build" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    run_consumer "$work/build/consumer"
    # A version that is not compatible is refused.
    ! "$cmake" -S "$here/consumer" -B "$work/refused" -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_PREFIX_PATH="$prefix" -DWANTED_VERSION=7.0 >"$work/log" 2>&1 ||
        fail "find_package(tenure 7.0) accepted version 0.2"
}

step_pkg_config() {
    export PKG_CONFIG_PATH=$lib/pkgconfig
    local flags
    flags=$(pkg-config --cflags --libs tenure) || fail "pkg-config does not know tenure"
    # shellcheck disable=SC2086 # the flags are several words
    "$cc" "$here/consumer/consumer.c" -o "$work/consumer" $flags || fail "flags: $flags"
    run_consumer "$work/consumer"
}

# A plain C program that knows nothing of Tenure at link time.
step_dlopen() {
    "$cc" -std=c11 -Wall -Wextra -Werror -I "$prefix/include" "$here/dlopen_program.c" \
        -o "$work/dlopen_program" -ldl -pthread
    "$work/dlopen_program" "$lib/libtenure.so.0"
}

step_ctypes() {
    python3 "$here/load_by_ctypes.py" "$lib/libtenure.so.0"
}

# The Python module finds its libraries from where it lies, whether installed here or by pip.
step_python() {
    local python=$prefix/share/tenure/python
    PYTHONPATH=$python python3 -B "$here/python_module.py" "$lib" || fail "from $python"
    mkdir -p "$work/site"
    cp -r "$python/tenure" "$work/site"
    PYTHONPATH=$work/site LD_LIBRARY_PATH=$lib python3 -B "$here/python_module.py" "$lib" ||
        fail "from a folder far away, with the loader's help"
    PYTHONPATH=$work/site TENURE_LIBRARY=$lib/libtenure.so.0 \
        python3 -B "$here/python_module.py" "$lib" || fail "with TENURE_LIBRARY"
    ! PYTHONPATH=$work/site python3 -B "$here/python_module.py" "$lib" 2>"$work/said" ||
        fail "a library was found that is not there"
    grep -q "Set TENURE_LIBRARY" "$work/said" || fail "not said what to do: $(cat "$work/said")"
}

step_command() {
    local said
    said=$("$prefix/bin/tenure" --version) || fail "tenure --version ended with code $?"
    [[ $said == *0.2.0* ]] || fail "tenure --version said: $said"
    said=$("$prefix/bin/tenure" doctor --driver sim) || fail "doctor ended with code $?: $said"
    [[ $said == *"$prefix"* || $said == *simul* ]] || fail "tenure doctor said: $said"
    said=$("$prefix/bin/tenure" run -- sh -c 'echo "$LD_PRELOAD"') || fail "run: code $?: $said"
    [[ $said == "$lib/libtenure_preload.so" ]] || fail "tenure run preloads $said"
    # Not piped into grep -q, which may end before ldd has written all: that would fail the pipe.
    [[ $(ldd "$said") == *"libtenure.so.0 => $lib/"* ]] || fail "$said does not find libtenure.so"
}

"step_$step"
