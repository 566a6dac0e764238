#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# check_install.sh CMAKE CC BUILD STAGE LIBDIR STEP
#
# STEP `install` installs BUILD into STAGE and moves the tree, so that everything else proves that
# it works from a place that it was not configured for. The other steps use it: the headers, the
# ways to link it, the two ways to load it, the command, the examples as their comments say, a
# prefix with spaces, a second version beside the first, the package. Run by ctest with
# TENURE_DRIVER=sim. Exit code 77: skipped, and why.
set -euo pipefail

cmake=$1 cc=$2 build=$3 stage=$4 libdir=$5 step=$6
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=$stage/moved
work=$stage/work-$step
lib=$prefix/$libdir
# The version of what is installed: of libtenure.so.1.2.3, 1.2.3.
full=$(basename "$(readlink -f "$lib/libtenure.so.1")")
full=${full#libtenure.so.}

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
    for file in "$lib/libtenure.so" "$lib/libtenure.so.1" "$lib/tenure/libtenure_simcuda.so" \
        "$lib/libtenure_preload.so" \
        "$lib/pkgconfig/tenure.pc" "$lib/cmake/tenure/tenureConfig.cmake" \
        "$lib/cmake/tenure/tenureConfigVersion.cmake" "$prefix/include/tenure/alloc.h" \
        "$prefix/include/tenure/status.h" "$prefix/bin/tenure" \
        "$lib/libtenure.a" "$lib/pkgconfig/tenure-simcuda.pc" "$prefix/include/tenure/simcuda.h" \
        "$prefix/share/man/man1/tenure.1" "$prefix/share/man/man1/tenure-snapshot-html.1" \
        "$prefix/share/bash-completion/completions/tenure" \
        "$prefix/share/zsh/site-functions/_tenure" \
        "$prefix/share/fish/vendor_completions.d/tenure.fish" \
        "$prefix/share/doc/tenure/README.md" "$prefix/share/doc/tenure/docs/guide.md" \
        "$prefix/share/doc/tenure/docs/images/report-map.png" \
        "$prefix/share/doc/tenure/docs/examples/CMakeLists.txt" \
        "$prefix/include/tenure/cudart_replace.h" "$prefix/include/tenure/cccl.hpp" \
        "$prefix/include/tenure/tenure.hpp" \
        "$prefix/share/doc/tenure/docs/cpp.md" "$lib/tenure/libtenure_torch.so" \
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
        # These need headers of CUDA's; tests/dropin and tests/simcuda compile them.
        [[ $header != */cudart_replace.h && $header != */simcuda*.h ]] || continue
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
    printf '#include <tenure/tenure.hpp>\ntnr::buffer<float> none;\n' >"$work/alone.cpp"
    for standard in c++11 c++14 c++17 c++20; do
        g++ -std=$standard -Wall -Wextra -Wpedantic -Wshadow -Werror -fsyntax-only \
            -I "$prefix/include" "$work/alone.cpp" || fail "tenure.hpp as $standard"
    done
}

# Another project's build has the sources in it: the library alone, unless it asks for more.
step_fetched() {
    local targets
    cp "$here/consumer/consumer.c" "$work"
    cat >"$work/CMakeLists.txt" <<TEXT
cmake_minimum_required(VERSION 3.20)
project(consumer LANGUAGES C)
include(FetchContent)
FetchContent_Declare(tenure SOURCE_DIR "$(cd "$here/../.." && pwd)")
FetchContent_MakeAvailable(tenure)
add_executable(consumer consumer.c)
target_link_libraries(consumer PRIVATE tenure::tenure)
TEXT
    "$cmake" -S "$work" -B "$work/build" -G "Unix Makefiles" -DCMAKE_C_COMPILER="$cc" \
        >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    targets=$("$cmake" --build "$work/build" --target help)
    grep -q "^\.\.\. consumer$" <<<"$targets" || fail "no consumer in: $targets"
    grep -q "^\.\.\. tenure$" <<<"$targets" || fail "no library in: $targets"
    ! grep -qE "^\.\.\. (tenure_cli|tenure_simcuda|test_)" <<<"$targets" ||
        fail "tools or tests are built in another project: $targets"
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
        fail "find_package(tenure 7.0) accepted version 1.0"
}

step_pkg_config() {
    export PKG_CONFIG_PATH=$lib/pkgconfig
    local flags
    flags=$(pkg-config --cflags --libs tenure) || fail "pkg-config does not know tenure"
    # shellcheck disable=SC2086 # the flags are several words
    "$cc" "$here/consumer/consumer.c" -o "$work/consumer" $flags || fail "flags: $flags"
    run_consumer "$work/consumer"
}

# skip REASON: this machine lacks what the step needs.
skip() { echo "install: $*"; exit 77; }

# All that a program can link: by CMake, by pkg-config; and what the archive shows of itself.
step_static() {
    local shown flags
    shown=$(nm -g --defined-only "$lib/libtenure.a" | awk 'NF == 3 && $3 !~ /^tnr_/ { print $3 }')
    [[ -z $shown ]] || fail "libtenure.a shows names that are not tnr_*: $shown"
    cp "$here/consumer/consumer.c" "$work"
    cat >"$work/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.20)
project(consumer LANGUAGES C)
find_package(tenure 1.0 REQUIRED COMPONENTS static)
add_executable(consumer consumer.c)
target_link_libraries(consumer PRIVATE tenure::tenure_static)
TEXT
    "$cmake" -S "$work" -B "$work/build" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" \
        >"$work/log" 2>&1 && "$cmake" --build "$work/build" >>"$work/log" 2>&1 ||
        fail "$(cat "$work/log")"
    [[ $(ldd "$work/build/consumer") != *libtenure* ]] || fail "it was not linked statically"
    # There is no libtenure.so beside which the simulated device would be found.
    TENURE_DRIVER=$lib/tenure/libtenure_simcuda.so run_consumer "$work/build/consumer"
    flags=$(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --static --libs tenure)
    flags=${flags/-ltenure/-l:libtenure.a}
    # shellcheck disable=SC2086 # the flags are several words
    "$cc" -I "$prefix/include" "$work/consumer.c" -o "$work/by_hand" $flags || fail "flags: $flags"
    TENURE_DRIVER=$lib/tenure/libtenure_simcuda.so run_consumer "$work/by_hand"
}

# Each example is compiled by the line in its own comment, and runs.
step_examples() {
    export PKG_CONFIG_PATH=$lib/pkgconfig LD_LIBRARY_PATH=$lib
    local source name line count=0
    cp "$prefix"/share/doc/tenure/docs/examples/*.c "$work"
    mkdir "$work/bin"
    ln -s "$(command -v "$cc")" "$work/bin/cc"
    for source in "$work"/*.c; do
        name=$(basename "$source" .c)
        line=$(grep -m1 -oE "cc (-g )?$name\.c .*" "$source") || fail "$name.c has no line"
        (cd "$work" && PATH=$work/bin:$PATH bash -euc "$line") || fail "$name.c: $line"
        (cd "$work" && "./$name" >"$name.log" 2>&1) || fail "$name: $(cat "$work/$name.log")"
        count=$((count + 1))
    done
    [[ $count -ge 10 ]] || fail "only $count examples were installed"
    # And all of them by their CMakeLists.txt.
    "$cmake" -S "$prefix/share/doc/tenure/docs/examples" -B "$work/build" \
        -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" -DSIMULATED=ON >"$work/log" 2>&1 &&
        "$cmake" --build "$work/build" >>"$work/log" 2>&1 || fail "$(cat "$work/log")"
    (cd "$work" && env -u LD_LIBRARY_PATH build/engine >log 2>&1) || fail "$(cat "$work/log")"
    # A machine without cuda.h is told what to do.
    ! "$cmake" -S "$prefix/share/doc/tenure/docs/examples" -B "$work/none" \
        -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" -DSIMULATED=ON \
        -DTENURE_CUDA_INCLUDE=TENURE_CUDA_INCLUDE-NOTFOUND -DCMAKE_FIND_ROOT_PATH=/nowhere \
        -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY >"$work/log" 2>&1 ||
        fail "cuda.h was found where there is none"
    grep -q "Install a CUDA toolkit" "$work/log" || fail "not said what to do: $(cat "$work/log")"
}

# Everything again from a path that a shell takes apart.
step_spaces() {
    local spaced="$work/a prefix with spaces" said code=0
    cp -r "$prefix" "$spaced"
    cp -r "$here/consumer" "$work/a project"
    "$cmake" -S "$work/a project" -B "$work/its build" -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_PREFIX_PATH="$spaced" >"$work/log" 2>&1 &&
        "$cmake" --build "$work/its build" >>"$work/log" 2>&1 || fail "$(cat "$work/log")"
    [[ $(ldd "$work/its build/consumer") == *"$spaced"* ]] || fail "another library was linked"
    run_consumer "$work/its build/consumer"
    export PKG_CONFIG_PATH="$spaced/$libdir/pkgconfig"
    said=$(pkg-config --cflags --libs tenure)
    eval "$cc '$here/consumer/consumer.c' -o '$work/by hand' $said" || fail "flags: $said"
    LD_LIBRARY_PATH="$spaced/$libdir" run_consumer "$work/by hand"
    eval "$cc '$spaced/share/doc/tenure/docs/examples/engine.c' -o '$work/an engine' \
        $(pkg-config --cflags --libs tenure tenure-simcuda)" || fail "engine.c"
    LD_LIBRARY_PATH="$spaced/$libdir" "$work/an engine" >"$work/log" || fail "$(cat "$work/log")"
    "$spaced/bin/tenure" doctor --driver sim >"$work/log" || fail "$(cat "$work/log")"
    # What cannot work says so.
    said=$("$spaced/bin/tenure" run -- true 2>&1) || code=$?
    [[ $code == 2 && $said == *"Install it elsewhere"* ]] || fail "tenure run: $code, $said"
}

# A later version, in a prefix of its own: the same code with another number and one function more,
# linked from the archive.
next_version_make() {
    local next=$1
    cp -r "$prefix" "$next"
    sed -i 's/^#define TNR_VERSION_MINOR .*/#define TNR_VERSION_MINOR 99/
        s/^TNR_API unsigned tnr_version(void);/&\nTNR_API unsigned tnr_newer(void);/' \
        "$next/include/tenure/alloc.h"
    sed -i "s/${full//./\\.}/1.99.0/g; s/\"${full%.*}\"/\"1.99\"/g" \
        "$next/$libdir/cmake/tenure/tenureConfigVersion.cmake"
    cat >"$work/version.c" <<'TEXT'
#include <tenure/alloc.h>
unsigned tnr_version(void) { return TNR_VERSION_NUMBER; }
unsigned tnr_newer(void) { return TNR_VERSION_NUMBER; }
TEXT
    cat >"$work/next.map" <<'TEXT'
TENURE_1.0 { global: tnr_*; local: *; };
TENURE_1.99 { global: tnr_newer; } TENURE_1.0;
TEXT
    objcopy --redefine-sym tnr_version=tnr_version_before "$lib/libtenure.a" "$work/next.a"
    "$cc" -shared -fPIC -I "$next/include" "$work/version.c" -Wl,--whole-archive "$work/next.a" \
        -Wl,--no-whole-archive "-Wl,--version-script=$work/next.map,-z,nodelete" \
        -Wl,-soname,libtenure.so.1 -pthread -ldl -lm -o "$next/$libdir/libtenure.so.$full" ||
        fail "the second version could not be linked"
}

step_versions() {
    local next=$work/next version said
    next_version_make "$next"
    for version in 1.0 1.99; do
        "$cmake" -S "$here/consumer" -B "$work/build-$version" -DCMAKE_C_COMPILER="$cc" \
            -DWANTED_VERSION=$version -DCMAKE_PREFIX_PATH="$prefix;$next" >"$work/log" 2>&1 &&
            "$cmake" --build "$work/build-$version" >>"$work/log" 2>&1 || fail "$(cat "$work/log")"
    done
    [[ $(ldd "$work/build-1.0/consumer") == *"$lib/"* ]] || fail "1.0 got another library"
    [[ $(ldd "$work/build-1.99/consumer") == *"$next/"* ]] || fail "1.99 got another library"
    # Each says its own number, at the same time.
    "$work/build-1.0/consumer" >"$work/first.log" &
    local first=$!
    said=$("$work/build-1.99/consumer") || fail "1.99 ended with $?"
    [[ $said == *"by version 19900" ]] || fail "1.99 said: $said"
    wait $first || fail "1.0 ended with $?"
    local major minor patch
    IFS=. read -r major minor patch <<<"$full"
    [[ $(cat "$work/first.log") == *"by version $((major * 10000 + minor * 100 + patch))" ]] ||
        fail "1.0 had another library"
    # A program runs with every later version, without being compiled again ...
    said=$(LD_LIBRARY_PATH=$next/$libdir "$(no_rpath)") || fail "1.0 ended with $? on 1.99"
    [[ $said == *"by version 19900" ]] || fail "1.0 did not get the later library: $said"
    # ... and one that needs a later one is refused when it starts, by name.
    cat >"$work/newer.c" <<'TEXT'
#include <tenure/alloc.h>
int main(void) { return tnr_newer() == 0; }
TEXT
    "$cc" -I "$next/include" "$work/newer.c" -o "$work/newer" -L "$next/$libdir" -ltenure
    LD_LIBRARY_PATH=$next/$libdir "$work/newer" || fail "1.99 does not run with its own library"
    ! said=$(LD_LIBRARY_PATH=$lib "$work/newer" 2>&1) || fail "1.99 ran with 1.0's library"
    [[ $said == *"TENURE_1.99"*"not found"* ]] || fail "not said what is wrong: $said"
}

# The consumer of this version, without a word of where its library is.
no_rpath() {
    "$cc" -I "$prefix/include" "$here/consumer/consumer.c" -o "$work/no_rpath" -L "$lib" -ltenure
    echo "$work/no_rpath"
}

# No symbol of the C library that RHEL 9, Ubuntu 22.04 and Debian 12 do not have.
step_glibc() {
    local most=2.34 own script=$here/check_glibc.py
    python3 -B "$script" --most $most "$lib" || fail "see above"
    own=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)
    # The command takes in archives of the system, which ask for what they like.
    if [[ $(printf '%s\n' 2.37 "$own" | sort -V | tail -1) == 2.37 ]]; then
        python3 -B "$script" --most $most "$prefix/bin" || fail "see above"
    fi
    # That it can fail.
    ! python3 -B "$script" --most 2.3 "$lib" >"$work/log" || fail "a newer symbol was not seen"
    grep -q 'libtenure.so.*: .*@GLIBC_2' "$work/log" || fail "no symbol named: $(cat "$work/log")"
}

# The notices of what is inside; and that the check of them can fail.
step_licenses() {
    python3 -B "$here/check_licenses.py" "$prefix" || fail "see above"
    local name theirs
    for name in jemalloc/COPYING npm/report/node_modules/uplot/LICENSE; do
        theirs=$(basename "$(dirname "$name")").txt
        [[ ! -e $build/$name ]] || cmp "$build/$name" "$here/../../docs/licenses/$theirs" ||
            fail "docs/licenses/$theirs is of another version"
    done
    python3 -B "$here/test_licenses.py" "$prefix" "$cc" "$work" || fail "see above"
}

# The package: what is in it, what it asks for, and that it works where it is unpacked. Not
# compressed: that is cpack's business, and was a third of the step's processor time.
step_deb() {
    command -v dpkg-shlibdeps >/dev/null && command -v file >/dev/null &&
        command -v cpack >/dev/null ||
        skip "no cpack, no dpkg-shlibdeps or no file (tools/setup --package): no .deb is made"
    (cd "$work" && cpack --config "$build/CPackConfig.cmake" -G DEB -B "$work/made" \
        -D CPACK_DEBIAN_COMPRESSION_TYPE=none \
        -D "CPACK_PACKAGE_CONTACT=A Packager <packager@example.org>") \
        >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    local deb root=$work/root said
    deb=$(echo "$work"/made/tenure_*.deb)
    dpkg-deb -x "$deb" "$root"
    [[ $(dpkg-deb -f "$deb" Maintainer) == "A Packager <packager@example.org>" ]] ||
        fail "its maintainer is $(dpkg-deb -f "$deb" Maintainer)"
    said=$(dpkg-deb -f "$deb" Depends)
    [[ $said == *libc6* && $said != *cuda* && $said != *tenure* ]] || fail "it depends on: $said"
    dpkg-deb --ctrl-tarfile "$deb" | tar -xO ./triggers | grep -q ldconfig || fail "no ldconfig"
    [[ -z $(find "$root" -name cuda.h) ]] || fail "NVIDIA's header is in the package"
    diff <(cd "$prefix" && find . -type f ! -path '*/include/tenure/cuda/*' | sort) \
        <(cd "$root/usr" && find . -type f | sort) || fail "it has other files than an installation"
    python3 -B "$here/check_licenses.py" --kind deb "$root/usr" || fail "see above"
    [[ $(dpkg-deb -f "$deb" Recommends) == libdw1 ]] || fail "it does not recommend libdw1"
    said=$("$root/usr/bin/tenure" doctor --driver sim) || fail "doctor ended with code $?: $said"
    # Stripped, with what was taken out in a package of its own.
    for file in "$root/usr/bin/tenure" "$root/usr/lib"*/libtenure.so.1.*; do
        [[ $(file -b "$file") == *", stripped"* ]] || fail "$file is $(file -b "$file")"
    done
    deb=$(echo "$work"/made/tenure-dbgsym_*.ddeb)
    said=$(dpkg-deb -c "$deb") || fail "there is no package of debug symbols"
    [[ $(grep -c '/usr/lib/debug/.build-id/.*\.debug$' <<<"$said") -ge 3 ]] ||
        fail "the package of debug symbols has $said"
}

# A plain C program that knows nothing of Tenure at link time.
step_dlopen() {
    "$cc" -std=c11 -Wall -Wextra -Werror -I "$prefix/include" "$here/dlopen_program.c" \
        -o "$work/dlopen_program" -ldl -pthread
    "$work/dlopen_program" "$lib/libtenure.so.1"

    # The thread that serves `tenure ctl` outlives dlclose.
    mkdir -m 700 "$work/control"
    coproc program {
        exec env "TENURE_CONF=control:on,control_dir:$work/control" \
            "$work/dlopen_program" "$lib/libtenure.so.1" serve
    }
    local said number=$program_PID to=${program[1]} from=${program[0]}
    read -r said <&"$from" && [[ $said == closed ]] || fail "it did not come to dlclose: $said"
    said=$("$prefix/bin/tenure" ctl status --dir "$work/control" --pid "$number" 2>&1) ||
        fail "after dlclose nobody answers: $said"
    [[ $said == *"MiB reserved"* ]] || fail "status says: $said"
    exec {to}>&-
    wait "$number" || fail "the program ended with code $?"
}

step_ctypes() {
    python3 "$here/load_by_ctypes.py" "$lib/libtenure.so.1"
}

# The Python module finds its libraries from where it lies, whether installed here or by pip.
step_python() {
    local python=$prefix/share/tenure/python
    PYTHONPATH=$python python3 -B "$here/python_module.py" "$lib" || fail "from $python"
    mkdir -p "$work/site"
    cp -r "$python/tenure" "$work/site"
    PYTHONPATH=$work/site LD_LIBRARY_PATH=$lib python3 -B "$here/python_module.py" "$lib" ||
        fail "from a folder far away, with the loader's help"
    PYTHONPATH=$work/site TENURE_LIBRARY=$lib/libtenure.so.1 \
        python3 -B "$here/python_module.py" "$lib" || fail "with TENURE_LIBRARY"
    ! PYTHONPATH=$work/site python3 -B "$here/python_module.py" "$lib" 2>"$work/said" ||
        fail "a library was found that is not there"
    grep -q "Set TENURE_LIBRARY" "$work/said" || fail "not said what to do: $(cat "$work/said")"
}

step_command() {
    local said
    said=$("$prefix/bin/tenure" --version) || fail "tenure --version ended with code $?"
    [[ $said == *$full* ]] || fail "tenure --version said: $said"
    said=$("$prefix/bin/tenure" doctor --driver sim) || fail "doctor ended with code $?: $said"
    [[ $said == *"$prefix"* || $said == *simul* ]] || fail "tenure doctor said: $said"
    said=$("$prefix/bin/tenure" run -- sh -c 'echo "$LD_PRELOAD"') || fail "run: code $?: $said"
    [[ $said == "$lib/libtenure_preload.so" ]] || fail "tenure run preloads $said"
    # Not piped into grep -q, which may end before ldd has written all: that would fail the pipe.
    [[ $(ldd "$said") == *"libtenure.so.1 => $lib/"* ]] || fail "$said does not find libtenure.so"
}

"step_$step"
