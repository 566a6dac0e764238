#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
#   check_leak.sh FINDING_A_LEAK TENURE SOURCE
#
# Runs the guide's example of a program that loses memory, and sees that `tenure snapshot diff`
# names the function that does, its file and its line, with the 6 x 3 MiB that it lost, and nothing
# else as growing. Skipped (77) where names cannot be looked up.
#
# Seen to fail: with --no-symbols.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# LeakSanitizer dies of a library that was opened at run time, as libdw is by the command.
export ASAN_OPTIONS=detect_leaks=0
"$1" "$folder"
"$2" snapshot diff "$folder/before.json" "$folder/after.json" 2>&1 | tee "$folder/diff"
if grep -q 'not looked up: .*Install' "$folder/diff"; then
    echo "libdw is not installed"
    exit 77
fi
line=$(grep -n 'tnr_malloc(&result' "$3" | cut -d: -f1)
grep -A 1 "^result_keep finding_a_leak.c:$line .*18.00 MiB" "$folder/diff" |
    grep -q "^  < step_run finding_a_leak.c:"
grep -q '^1 place holds 18.00 MiB more' "$folder/diff"
