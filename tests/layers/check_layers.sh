#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# check_layers.sh CMAKE CC SOURCE WORK LAYER/ROOM=PATH:PATH... (lowest room first)
#
# 1. Builds the small project beside this script as it is (must work) and with an upward include
#    planted, of a public and of an internal header of the higher layer, and of the room above (must
#    not compile, and because of the header).
# 2. Checks that no real room's include path leads to a higher layer or to the repository root, and
#    that the folder of refused headers stands before its layer's own.
#
# Seen to fail: with `file(WRITE` of tools/cmake/TenureLayer.cmake taken out, "upstairs/room.h"
# compiles; with "${refused}" after the layer's folder there too, and 2. says so of each room.
set -euo pipefail

cmake=$1 cc=$2 source=$3 work=$4
shift 4
here=$(dirname "${BASH_SOURCE[0]}")

fail() { echo "layers: $*" >&2; exit 1; }

# build_project PLANT: builds the project in which the low layer includes PLANT ("" for nothing).
build_project() {
    rm -rf "$work"
    "$cmake" -S "$here/project" -B "$work" -DCMAKE_C_COMPILER="$cc" -DPLANT="$1" \
        -DCMAKE_C_COMPILER_LAUNCHER= -DMODULES="$source/tools/cmake" >"$work.log" 2>&1 ||
        fail "not configured: $(cat "$work.log")"
    "$cmake" --build "$work" >"$work.log" 2>&1
}

build_project "" || fail "the project does not build without a planted include: $(cat "$work.log")"
for plant in "<tenure/high.h>" "\"top/inside.h\"" "\"high/top/inside.h\"" "\"upstairs/room.h\""; do
    if build_project "$plant"; then
        fail "the lower room could include $plant"
    fi
    grep -qE 'fatal error: .*(high|inside)\.h|low/floor lies below upstairs/room\.h' "$work.log" ||
        fail "$plant failed for another reason: $(cat "$work.log")"
done

higher=() # layers, walked from the top down, so that "higher" is what was seen before
rooms=("$@")
for ((i = ${#rooms[@]} - 1; i >= 0; i--)); do
    name=${rooms[i]%%=*}
    layer=${name%%/*}
    IFS=: read -r -a paths <<<"${rooms[i]#*=}"
    [[ ${#paths[@]} -gt 0 ]] || fail "$name has no include path at all"
    refuses=0
    for path in "${paths[@]}"; do
        [[ ${path%/} != "$source" ]] || fail "$name sees the repository root, and so every layer"
        [[ $path != */refused/${name#*/} ]] || refuses=1
        [[ $path != "$source/$layer" || $refuses = 1 ]] ||
            fail "$name sees its layer's folder before the headers that are refused"
        for other in "${higher[@]}"; do
            [[ $other = "$layer" || $path/ != "$source/$other/"* ]] ||
                fail "$name sees $path of the higher layer $other"
        done
    done
    higher+=("$layer")
done
echo "upward includes do not compile; checked the include paths of: ${rooms[*]%%=*}"
