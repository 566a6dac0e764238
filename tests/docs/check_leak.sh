#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
#   check_leak.sh FINDING_A_LEAK TENURE
#
# Runs the guide's example of a program that loses memory, and sees that `tenure snapshot diff`
# names the function that does, with the 6 x 3 MiB that it lost, and nothing else as growing.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" "$folder"
"$2" snapshot diff "$folder/before.json" "$folder/after.json" | tee "$folder/diff"
grep -q 'result_keep' "$folder/diff"
grep -q '18.* MiB' "$folder/diff"
