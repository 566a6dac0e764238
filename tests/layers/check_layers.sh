#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# check_layers.sh CMAKE CC SOURCE WORK LAYER=PATH:PATH... (lowest layer first)
#
# 1. Builds the small project beside this script as it is (must work) and with an upward include
#    planted, of a public and of an internal header (must not compile, and because of the header).
# 2. Checks that no real layer's include path leads to a higher layer or to the repository root.
set -euo pipefail

cmake=$1 cc=$2 source=$3 work=$4
shift 4
here=$(dirname "${BASH_SOURCE[0]}")

fail() { echo "layers: $*" >&2; exit 1; }

# build_project PLANT: builds the project in which the low layer includes PLANT ("" for nothing).
build_project() {
    rm -rf "$work"
    "$cmake" -S "$here/project" -B "$work" -DCMAKE_C_COMPILER="$cc" -DPLANT="$1" \
        -DMODULES="$source/tools/cmake" >"$work.log" 2>&1 ||
        fail "not configured: $(cat "$work.log")"
    "$cmake" --build "$work" >"$work.log" 2>&1
}

build_project "" || fail "the project does not build without a planted include: $(cat "$work.log")"
for plant in "<tenure/high.h>" "\"top/inside.h\"" "\"high/top/inside.h\""; do
    if build_project "$plant"; then
        fail "the lower layer could include $plant"
    fi
    grep -qE 'fatal error: .*(high|inside)\.h' "$work.log" ||
        fail "$plant failed for another reason: $(cat "$work.log")"
done

higher=() # walked from the top down, so that "higher" is what was seen before
layers=("$@")
for ((i = ${#layers[@]} - 1; i >= 0; i--)); do
    name=${layers[i]%%=*}
    IFS=: read -r -a paths <<<"${layers[i]#*=}"
    [[ ${#paths[@]} -gt 0 ]] || fail "$name has no include path at all"
    for path in "${paths[@]}"; do
        [[ ${path%/} != "$source" ]] || fail "$name sees the repository root, and so every layer"
        for other in "${higher[@]}"; do
            [[ $path/ != "$source/$other/"* ]] || fail "$name sees $path of the higher layer $other"
        done
    done
    higher+=("$name")
done
echo "upward includes do not compile; checked the include paths of: ${layers[*]%%=*}"
