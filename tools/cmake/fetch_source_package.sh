#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# fetch_source_package.sh PACKAGE FILE SHA256 TARGET
#
# Fetches FILE of the Debian or Ubuntu source package PACKAGE from the mirrors that this machine
# already uses, checks it, and moves it to TARGET. Works whether or not source packages are
# enabled, as any user, and leaves the machine's apt as it was: apt gets a configuration and state
# folders of its own. On failure the last line on stderr is a sentence.
set -euo pipefail

package=$1 file=$2 sha256=$3 target=$4

work=$(mktemp -d "${TMPDIR:-/tmp}/tenure-source.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/parts" "$work/lists/partial" "$work/cache/archives/partial" "$work/get"

# Copies the machine's sources with each "deb" made a "deb-src". First only the entries that look
# like the distribution's own; foreign repositories would only cost time.
write_sources() {
    local pattern=$1 list
    : >"$work/sources.list"
    rm -f "$work/parts/"*
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [[ -r $list ]] || continue
        sed -nE 's/^[[:space:]]*deb(-src)?[[:space:]]+/deb-src /p' "$list" |
            grep -E "$pattern" >>"$work/sources.list" || true
    done
    sort -u -o "$work/sources.list" "$work/sources.list"
    for list in /etc/apt/sources.list.d/*.sources; do
        [[ -r $list ]] || continue
        grep -qE "^URIs:.*($pattern)" "$list" || continue
        sed -E 's/^Types:.*/Types: deb-src/; /^Enabled:/d' "$list" \
            >"$work/parts/$(basename "$list")"
    done
    [[ -s $work/sources.list || -n $(ls -A "$work/parts") ]]
}

if ! write_sources 'debian|ubuntu' && ! write_sources '.'; then
    echo "apt has no package source configured from which $package could be fetched" >&2
    exit 1
fi

apt_own=(apt-get -q
    -o "Dir::Etc::SourceList=$work/sources.list" -o "Dir::Etc::SourceParts=$work/parts"
    -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache"
    -o "APT::Sandbox::User=" -o "Acquire::Languages=none" -o "APT::Update::Post-Invoke-Success="
    -o "Debug::NoLocking=1" -o "Acquire::Retries=2")

# One mirror that does not answer is not the end: what counts is whether the file comes.
"${apt_own[@]}" update >"$work/log" 2>&1 || true
if ! (cd "$work/get" && "${apt_own[@]}" source --download-only --tar-only "$package") \
    >>"$work/log" 2>&1 </dev/null; then
    grep -E '^(E|W):' "$work/log" | tail -5 >&2 || true
    echo "apt could not fetch the source package $package from this machine's mirrors" >&2
    exit 1
fi
if [[ ! -f $work/get/$file ]]; then
    echo "this distribution's $package is another version: $(ls "$work/get" | tr '\n' ' ')" >&2
    exit 1
fi
if ! echo "$sha256  $work/get/$file" | sha256sum --check --status; then
    echo "$file of the source package does not have SHA-256 $sha256" >&2
    exit 1
fi
mkdir -p "$(dirname "$target")"
cp "$work/get/$file" "$target.$$.partial"
mv -f "$target.$$.partial" "$target"
