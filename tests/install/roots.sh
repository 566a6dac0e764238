#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tenure's first hour on fresh machines. `tests/install/roots.sh --help`.
#
# Three copies of each fresh root: in the first nothing is done, in the second Tenure is built, and
# into the third comes what the second has made, the .deb and the wheel. So what is missing in a
# package, or in tools/setup, is missing there too.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_root=$(cd "$here/../.." && pwd)

usage() {
    cat <<'TEXT'
usage: tests/install/roots.sh [--suite SUITE ...] [--mirror URL] [--script FILE] [--keyring FILE]
                              [--work DIR] [--keep] [--headers DIR] [--match REGEX] [--jobs N]
                              [--only STEP ...]

For each suite makes a fresh root with debootstrap, and does in it what README.md and
docs/install.md say, on the simulated device:

  quickstart  ./tools/quickstart
  test        ./tools/test --row debug --match REGEX
  package     the .deb and the .tar.gz (cpack), the wheel, and an installation (cmake --install)
  licenses    unpacks each of these and looks for the notices of what is inside
  pages       each page from zero to done, literally, from a clean checkout on (stand-ins for
              PyTorch)
  deb         in another fresh root, the .deb and nothing else: the command
  project     there: CMake projects of ten lines, shared, static, with the simulated device; the
              same by pkg-config; the first example; a manual page; completions
  wheel       there, without the .deb: the wheel in a virtual environment
  pip         there: `pip install .` of a checkout, with what tools/setup installs; then a CMake
              project that takes the same checkout in by FetchContent

  --suite SUITE   bookworm, trixie, noble, ...; may be repeated. Default: bookworm, trixie, noble
  --mirror URL    where its packages are. Default: for Ubuntu's jammy and noble Ubuntu's archive,
                  for others the mirror of this machine's own apt
  --script FILE   debootstrap's script, for a suite that this machine's debootstrap does not know
  --keyring FILE  the keys that the suite is signed with, if debootstrap does not find them. For
                  Ubuntu's default: the package ubuntu-keyring's
  --work DIR      where the roots are made. Default: a folder in TMPDIR. What is there already is
                  used again
  --keep          leave the roots (two to four GB for each suite). Without it they are removed
  --headers DIR   the folder of cuda.h and cudaTypedefs.h, where NVIDIA's server is out of reach
  --match REGEX   which tests `test` runs. Default: ^(unit_|install|cli_manual|docs_|python_)
  --jobs N        compile, and run tests, N at a time (default: the number of cores)
  --only STEP     this step alone, with what an earlier run has left in DIR; may be repeated

Needs root, debootstrap and a mirror; half an hour of two idle cores for each suite. Each step says
what it does; what it prints is in DIR/SUITE.log. A suite whose packages cannot be had is left
out, with the reason. Exit codes: 0 success; 1 a step failed; 2 wrong usage; 77 this machine
can do none of them.
TEXT
}

suites=() only=() mirror='' script='' keyring='' work='' keep=0 headers='' jobs=$(nproc)
match='^(unit_|install|cli_manual|docs_|python_)'
while [[ $# -gt 0 ]]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        --keep) keep=1; shift; continue ;;
        --suite | --mirror | --script | --keyring | --work | --headers | --match | --jobs) ;;
        --only) ;;
        *) echo "roots.sh: do not know '$1'" >&2; usage >&2; exit 2 ;;
    esac
    if [[ $# -lt 2 ]]; then
        echo "roots.sh: $1 needs a value" >&2
        exit 2
    fi
    case $1 in
        --suite) suites+=("$2") ;;
        --mirror) mirror=$2 ;;
        --script) script=$2 ;;
        --keyring) keyring=$2 ;;
        --work) work=$2 ;;
        --headers) headers=$2 ;;
        --match) match=$2 ;;
        --jobs) jobs=$2 ;;
        --only) only+=("$2") ;;
    esac
    shift 2
done
[[ ${#suites[@]} -gt 0 ]] || suites=(bookworm trixie noble)
steps=(quickstart test package licenses pages deb project wheel pip)
for one in "${only[@]}"; do
    if [[ " ${steps[*]} " != *" $one "* ]]; then
        echo "roots.sh: there is no step '$one'; the steps are: ${steps[*]}" >&2
        exit 2
    fi
done
[[ ${#only[@]} == 0 ]] || steps=("${only[@]}")

skip() { echo "roots.sh: $*"; exit 77; }
leave_out() { echo "==> $suite is left out: $*"; }
step() { echo "==> $suite: $* [$SECONDS s]"; }
fail() {
    tail -25 "$log" >&2
    echo "roots.sh: $suite: $* ($log has all of it)" >&2
    keep=1
    exit 1
}

[[ $(id -u) == 0 ]] || skip "only root can make a root and go there"
command -v debootstrap >/dev/null || skip "there is no debootstrap"

# suite_find: where the suite's packages are, and what debootstrap needs. 1: they cannot be had.
suite_find() {
    source_of=$mirror script_of=$script keys_of=$keyring components=''
    case $suite in
        jammy | noble)
            source_of=${source_of:-http://archive.ubuntu.com/ubuntu}
            # Every suite of Ubuntu's has this one.
            script_of=${script_of:-/usr/share/debootstrap/scripts/gutsy}
            keys_of=${keys_of:-/usr/share/keyrings/ubuntu-archive-keyring.gpg}
            components=main,universe # what building needs is in the second
            ;;
        *)
            [[ -n $source_of ]] || source_of=$(
                apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' \
                    'Created-By: Packages' 2>/dev/null | sed -n 's/^Debian Debian //p' | head -1)
            ;;
    esac
    if [[ -z $source_of ]]; then
        leave_out "apt names no mirror of Debian here: give one with --mirror"
    elif [[ -n $keys_of && ! -e $keys_of ]]; then
        leave_out "there is no $keys_of: install ubuntu-keyring, or name the keys with --keyring"
    else
        return 0
    fi
    return 1
}

own_work=0
if [[ -z $work ]]; then
    work=$(mktemp -d "${TMPDIR:-/tmp}/tenure-roots.XXXXXX")
    own_work=1
fi
mkdir -p "$work"
free_kib=$(df --output=avail -k "$work" | tail -1)
[[ $free_kib -gt $((6 << 20)) ]] || skip "$work has less than 6 GiB left"

roots_remove() {
    [[ $keep == 0 ]] || return 0
    local made
    for made in "${suites[@]}"; do
        rm -rf --one-file-system "$work/$made" "$work/$made.build" "$work/$made.use" \
            "$work/$made.scan"
    done
    [[ $own_work == 0 ]] || rm -rf "$work"
}
trap roots_remove EXIT

# Where a gateway has certificates of its own, the environment says which are trusted, and the root
# trusts the same.
certificates=${SSL_CERT_FILE:-${NODE_EXTRA_CA_CERTS:-}} trusted=''
if [[ -n $certificates ]]; then
    trusted='SSL_CERT_FILE=/try/certificates.crt NODE_EXTRA_CA_CERTS=/try/certificates.crt'
fi

# inside ROOT COMMANDS: in namespaces of its own, so what is mounted there goes with the command.
# Where mounting is refused the root has neither /proc nor terminals.
inside() {
    unshare --mount --pid --fork sh -c 'mount -t proc proc "$0/proc" 2>/dev/null
        mount -t devpts -o newinstance,ptmxmode=0666 devpts "$0/dev/pts" 2>/dev/null &&
            mount --bind "$0/dev/pts/ptmx" "$0/dev/ptmx"
        mount -t tmpfs tmpfs "$0/dev/shm" 2>/dev/null
        exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
            DEBIAN_FRONTEND=noninteractive $2 sh -euc "$1"' "$1" "$2" "$trusted" >>"$log" 2>&1
}

# 1: the packages cannot be had.
root_make() {
    if [[ ! -e $work/$suite/etc/os-release ]]; then
        step "a fresh root, from $source_of"
        rm -rf "${work:?}/$suite"
        if ! debootstrap --variant=minbase ${keys_of:+--keyring="$keys_of"} \
            ${components:+--components="$components"} "$suite" "$work/$suite" "$source_of" \
            ${script_of:+"$script_of"} >>"$log" 2>&1; then
            leave_out "debootstrap failed: $(tail -1 "$log")"
            return 1
        fi
    fi
    inside "$work/$suite" true || skip "chroot is refused here: $(tail -1 "$log")"
}

# root_copy NAME: a copy of the fresh root, which finds servers by the names that this machine uses.
root_copy() {
    rm -rf "$work/$suite.$1"
    cp -a --reflink=auto "$work/$suite" "$work/$suite.$1"
    cp /etc/resolv.conf "$work/$suite.$1/etc/resolv.conf"
    echo force-unsafe-io >"$work/$suite.$1/etc/dpkg/dpkg.cfg.d/fast" # it need not outlive a crash
    mkdir "$work/$suite.$1/try"
    [[ -z $certificates ]] || cp "$certificates" "$work/$suite.$1/try/certificates.crt"
}

# The working tree as it is: what git knows, and what it does not ignore.
source_copy() {
    (cd "$source_root" && git ls-files -z --cached --others --exclude-standard |
        while IFS= read -r -d '' file; do
            [[ ! -e $file ]] || printf '%s\0' "$file"
        done | tar -c --null -T -) | tar -x -C "$1"
}

# headers_copy ROOT: cuda.h where a toolkit has it.
headers_copy() {
    mkdir -p "$1/usr/local/cuda/include"
    if [[ -n $headers ]]; then
        cp -rL "$headers/." "$1/usr/local/cuda/include"
    else # what the build has fetched, as a user would
        cp -r "$work/$suite.build"/root/.cache/tenure/cuda_*/include/. \
            "$1/usr/local/cuda/include" || fail "the build has fetched no cuda.h"
    fi
}

step_quickstart() {
    local root=$work/$suite.build
    root_copy build
    mkdir "$root/try/tenure"
    source_copy "$root/try/tenure"
    [[ -z $headers ]] || headers_copy "$root"
    inside "$root" "cd /try/tenure && ./tools/quickstart --driver sim --jobs $jobs" ||
        fail "tools/quickstart"
}

step_test() {
    local root=$work/$suite.build
    # A clone has a history, which some checks of the sources ask for.
    inside "$root" 'apt-get -qy install --no-install-recommends git && cd /try/tenure &&
        git init -q . && git add -A &&
        git -c user.name=t -c user.email=t@localhost commit -qm all' ||
        fail "making a repository of it"
    inside "$root" "cd /try/tenure && ./tools/test --row debug --jobs $jobs --match '$match'" ||
        fail "tools/test"
    tail -1 "$log"
}

step_package() {
    local root=$work/$suite.build
    inside "$root" 'cd /try/tenure && ./tools/setup --package && (cd build && cpack -G DEB &&
            cpack -G TGZ) &&
        ls build/packages && apt-get -qy install --no-install-recommends python3 &&
        cmake build && cmake --build build --target wheel && ls build/wheel &&
        cmake --install build --prefix /try/prefix' || fail "packages"
    python3 -B "$here/check_glibc.py" --most 2.34 "$root/try/tenure/build/lib" >>"$log" ||
        fail "libraries that need a newer C library"
}

# The tools of this machine look: nothing that a root lacks can hide what is in a package.
step_licenses() {
    local build=$work/$suite.build/try/tenure/build scan=$work/$suite.scan kind path said
    rm -rf "$scan"
    mkdir -p "$scan/tgz"
    dpkg-deb -x "$build"/packages/tenure_*.deb "$scan/deb"
    dpkg-deb -R "$build"/packages/tenure-dbgsym_*.ddeb "$scan/debug"
    tar -x -f "$build"/packages/tenure-*.tar.gz -C "$scan/tgz"
    python3 -m zipfile -e "$build"/wheel/tenure-*.whl "$scan/wheel"
    for kind in deb:deb/usr deb:tgz wheel:wheel debug:debug; do
        path=$scan/${kind#*:}
        said=$(python3 -B "$here/check_licenses.py" --kind "${kind%%:*}" "$path") || fail "$said"
        echo "${kind#*:}: $said" | tee -a "$log"
    done
    said=$(python3 -B "$here/check_licenses.py" "$work/$suite.build/try/prefix") || fail "$said"
    echo "cmake --install: $said" | tee -a "$log"
    rm -rf "$scan"
}

# From the first command of each page on. The second and third find what the first has built.
step_pages() {
    local root=$work/$suite.build page
    inside "$root" 'apt-get -qy install --no-install-recommends python3 python3-venv' ||
        fail "installing Python"
    rm -rf "$root/try/clean"
    mkdir "$root/try/clean"
    source_copy "$root/try/clean"
    for page in replace-cudamalloc find-a-bug; do
        inside "$root" "cd /try/clean && python3 -B tests/docs/follow.py docs/$page.md" ||
            fail "docs/$page.md"
    done
    inside "$root" "cd /try/clean && export PYTHONPATH=/try/clean/tests/python/fake \
        PYTHONWARNINGS=ignore PYTHONDONTWRITEBYTECODE=1 TENURE_CACHE=/nonexistent \
        FAKE_TORCH_DRIVER=/try/clean/build/lib/tenure/libtenure_simcuda.so
        cp tests/fuzz/corpus/torch_3.pickle memory.pickle
        python3 -B tests/docs/follow.py docs/python.md \
            --set TENURE_DRIVER=/try/clean/build/lib/tenure/libtenure_simcuda.so" ||
        fail "docs/python.md"
}

step_deb() {
    local root=$work/$suite.use build=$work/$suite.build/try/tenure/build
    root_copy use
    cp "$build"/packages/tenure_*.deb "$root/try/tenure.deb"
    cp "$build"/wheel/tenure-*.whl "$root/try"
    inside "$root" 'apt-get -q update && apt-get -qy install --no-install-recommends /try/tenure.deb
        tenure --version; tenure doctor --driver sim; ldconfig -p | grep libtenure.so.1
        for shell in bash-completion/completions/tenure zsh/site-functions/_tenure \
            fish/vendor_completions.d/tenure.fish; do test -s /usr/share/$shell; done' ||
        fail "the .deb"
}

step_project() {
    local root=$work/$suite.use
    rm -rf "$root/try/project"
    cp -r "$here/project" "$root/try/project"
    cp "$source_root"/docs/examples/{first,engine}.c "$root/try/project"
    headers_copy "$root"
    inside "$root" 'apt-get -qy install --no-install-recommends gcc libc6-dev pkg-config cmake \
        make man-db' || fail "installing a compiler"
    inside "$root" 'export TENURE_DRIVER=sim; cd /try
        cc /usr/share/doc/tenure/docs/examples/first.c -o first $(pkg-config --cflags --libs tenure)
        ./first
        if TENURE_DRIVER=cuda ./first; then exit 1; fi
        cmake -S project -B project-build; cmake --build project-build
        project-build/shared
        TENURE_DRIVER=$(pkg-config --variable=libdir tenure)/tenure/libtenure_simcuda.so \
            project-build/static
        project-build/simulated
        ldd project-build/shared | grep libtenure.so.1
        if ldd project-build/static | grep libtenure; then exit 1; fi
        cc project/engine.c -o engine $(pkg-config --cflags --libs tenure tenure-simcuda)
        ./engine
        man tenure-snapshot-html | grep -q NAME' ||
        fail "a program could not be built, or did not run"
}

step_wheel() {
    local root=$work/$suite.use
    inside "$root" 'apt-get -qy install --no-install-recommends python3 python3-venv' ||
        fail "installing Python"
    inside "$root" 'apt-get -qy purge --autoremove tenure; cd /try; python3 -m venv env
        env/bin/pip install --no-index tenure-*.whl
        env/bin/tenure doctor --driver sim
        TENURE_DRIVER=sim env/bin/python -c "
import tenure
with tenure.Pool() as pool:
    print(tenure.version(), pool.stats()[\"reserved_bytes.all.current\"])"
        env/bin/pip uninstall -qy tenure; test ! -e env/bin/tenure' || fail "the wheel"
}

step_pip() {
    local root=$work/$suite.use
    rm -rf "$root/try/checkout" "$root/try/fetching"
    mkdir "$root/try/checkout" "$root/try/fetching"
    source_copy "$root/try/checkout"
    # The system's own Python refuses, and says that a virtual environment is what is meant.
    inside "$root" "cd /try/checkout && ./tools/setup
        apt-get -qy install --no-install-recommends python3-pip
        if ! pip install . >../refused 2>&1; then grep -q externally-managed ../refused; fi
        python3 -m venv /try/own; /try/own/bin/pip install .
        cd /try; own/bin/python -m tenure; own/bin/tenure doctor --driver sim
        own/bin/python -m tenure.torch status || test \$? = 1" || fail "pip install ."
    cp "$here/consumer/consumer.c" "$root/try/fetching"
    cat >"$root/try/fetching/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.20)
project(engine LANGUAGES C)
include(FetchContent)
FetchContent_Declare(tenure SOURCE_DIR /try/checkout)
FetchContent_MakeAvailable(tenure)
add_executable(engine consumer.c)
target_link_libraries(engine PRIVATE tenure::tenure)
TEXT
    inside "$root" "cmake -S /try/fetching -B /try/fetching/build -DTNR_BUILD_TOOLS=ON
        cmake --build /try/fetching/build --parallel $jobs
        TENURE_DRIVER=sim /try/fetching/build/engine" || fail "FetchContent"
}

done_count=0
for suite in "${suites[@]}"; do
    log=$work/$suite.log
    : >"$log"
    suite_find && root_make || continue
    for one in "${steps[@]}"; do
        step "$one"
        "step_$one"
    done
    step "everything passed"
    done_count=$((done_count + 1))
    [[ $keep == 1 ]] || rm -rf "$work/$suite" "$work/$suite.build" "$work/$suite.use"
done
[[ $done_count -gt 0 ]] || skip "none of ${suites[*]} could be tried"
