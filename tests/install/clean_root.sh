#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# clean_root.sh SUITE FOLDER PACKAGE.deb [SOURCE]
#
# Installs the package in a fresh root of Debian SUITE (bookworm, trixie), which debootstrap makes
# in FOLDER if it is not there, and uses it as docs/install.md says: the command, the first example,
# an example that calls the driver, a CMake project, the manual. With SOURCE, a checkout, it also
# runs its tools/quickstart in the root, and looks which glibc what was built needs. CUDA_HEADERS in
# the environment is a folder with cuda.h and cudaTypedefs.h, where NVIDIA's server is out of reach.
#
# Needs root, debootstrap and a mirror; not part of any row of tools/test. Exit codes: 0 all is
# well; 1 it is not; 77 this machine cannot do it, and why.
set -euo pipefail

if [[ $# -lt 3 ]]; then
    sed -n '4,14s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
suite=$1 root=$2 deb=$3 source=${4:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

skip() { echo "clean_root: $*"; exit 77; }
fail() { echo "clean_root: $suite: $*" >&2; exit 1; }

[[ $(id -u) == 0 ]] || skip "only root can make one and go there"
if [[ ! -e $root/etc/os-release ]]; then
    command -v debootstrap >/dev/null || skip "there is no debootstrap"
    debootstrap --variant=minbase "$suite" "$root" >"$root.log" 2>&1 ||
        skip "debootstrap failed: $(tail -1 "$root.log")"
fi
cp /etc/resolv.conf "$root/etc/resolv.conf"

# In namespaces of its own: what is mounted there goes with the command. Where mounting is refused
# the root has no /proc, which a plain chroot can do without.
inside() {
    unshare --mount --fork sh -c 'mount -t proc proc "$0/proc" 2>/dev/null
        exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
            DEBIAN_FRONTEND=noninteractive sh -euc "$1"' "$root" "$1"
}
inside true || skip "chroot is refused here"

rm -rf "$root/try"
mkdir "$root/try"
cp "$deb" "$root/try/tenure.deb"
cp -r "$here/consumer" "$root/try/consumer"

inside 'apt-get -q update; apt-get -qy install --no-install-recommends /try/tenure.deb' \
    >"$root/try/log" 2>&1 || fail "$(tail -5 "$root/try/log")"
# With nothing but the package.
inside 'tenure --version; tenure doctor --driver sim >/dev/null
    ldconfig -p | grep libtenure.so.0' ||
    fail "the command does not work"
inside 'apt-get -qy install --no-install-recommends gcc libc6-dev pkg-config cmake make man-db' \
    >"$root/try/log" 2>&1 || fail "$(tail -5 "$root/try/log")"
inside 'export TENURE_DRIVER=sim; cd /try
    cc /usr/share/doc/tenure/docs/examples/first.c -o first $(pkg-config --cflags --libs tenure)
    ./first
    if TENURE_DRIVER=cuda ./first 2>said; then exit 1; else cat said; fi
    cmake -S consumer -B build >log && cmake --build build >>log && build/consumer
    man -w tenure-snapshot-html' || fail "a program could not be built, or did not run"

if [[ -n $source ]]; then
    mkdir "$root/try/source"
    git -C "$source" archive HEAD | tar -x -C "$root/try/source"
    options=''
    if [[ -n ${CUDA_HEADERS:-} ]]; then
        mkdir "$root/try/cuda"
        cp "$CUDA_HEADERS"/cuda*.h "$root/try/cuda"
        options='-- -DTNR_CUDA_INCLUDE=/try/cuda'
    fi
    inside "cd /try/source && ./tools/quickstart --driver sim $options" >"$root/try/log" 2>&1 ||
        fail "quickstart: $(tail -15 "$root/try/log")"
    tail -3 "$root/try/log"
    inside 'cd /try/source && cmake --install build --prefix /try/own >/dev/null &&
        /try/own/bin/tenure --version'
    python3 -B "$here/check_glibc.py" --most 2.34 "$root/try/own/lib" || fail "see above"
fi
echo "clean_root: $suite: all is well"
