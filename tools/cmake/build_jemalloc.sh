#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# build_jemalloc.sh TARBALL CACHE PREFIX CC CONFIGURE_FLAGS...
#
# Puts lib/libjemalloc_pic.a and include/jemalloc/jemalloc.h into PREFIX, a folder of one build
# directory. They are built once into CACHE, which all build directories share; a lock keeps two
# builds from doing it at once, and CACHE appears only when it is whole.
set -euo pipefail

tarball=$1 cache=$2 prefix=$3 cc=$4
shift 4

build() {
    local work=$1 jobs
    shift
    jobs=$(nproc 2>/dev/null || echo 2)
    mkdir -p "$work/source" "$work/result/lib" "$work/result/include/jemalloc"
    tar -xjf "$tarball" -C "$work/source" --strip-components=1
    cd "$work/source"
    # A make that runs us passes its job server and variables on; this is a build of its own.
    unset MAKEFLAGS MFLAGS MAKELEVEL
    CC=$cc EXTRA_CFLAGS="-fvisibility=hidden" ./configure "$@" --disable-doc
    make -j"$jobs" build_lib_static
    cp lib/libjemalloc_pic.a "$work/result/lib/"
    cp include/jemalloc/jemalloc.h "$work/result/include/jemalloc/"
    cp COPYING "$work/result/"
}

whole() {
    [[ -f $cache/lib/libjemalloc_pic.a && -f $cache/include/jemalloc/jemalloc.h ]]
}

mkdir -p "$(dirname "$cache")"
exec 9>"$cache.lock"
flock 9
if ! whole; then
    work=$(mktemp -d "$cache.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    # Not `if ! build`: inside a condition the shell would ignore a step that fails.
    set +e
    (set -e; build "$work" "$@") >"$work/log" 2>&1
    result=$?
    set -e
    if [[ $result -ne 0 ]]; then
        cp "$work/log" "$cache.log"
        tail -25 "$work/log" >&2
        echo "jemalloc could not be built; the whole log is $cache.log." >&2
        echo "Tenure can be built without it: cmake -DTNR_METADATA=malloc" >&2
        exit 1
    fi
    rm -rf "$cache"
    mv "$work/result" "$cache"
fi
flock -u 9

mkdir -p "$prefix"
cp -R "$cache/." "$prefix/"
# Its debug information is 40 MB, which each test program would be linked with. Functions keep their
# names.
"$("$cc" -print-prog-name=strip)" --strip-debug "$prefix/lib/libjemalloc_pic.a" || true
# The copies must be newer than anything that the build tool compares them with.
touch "$prefix/lib/libjemalloc_pic.a" "$prefix/include/jemalloc/jemalloc.h"
