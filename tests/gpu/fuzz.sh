#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fuzzed programs on a real GPU: streams are held by gates that the host opens in the order that a
# seed draws, contents say whether memory had two owners (docs/fuzzing.md, "On a GPU").
#
#   tests/gpu/fuzz.sh [SECONDS [FIRST_SEED]]
#
# SECONDS (default 1200) is all the time that it takes; a tenth of it, of a short time a quarter,
# goes to programs with one planted error each. Programs are those of FIRST_SEED (default 1) and on;
# so that a long run can be several short ones, with different first seeds, which fuzz_sum.py adds
# up. Writes fuzz-FIRST_SEED.json, fuzz-illegal-FIRST_SEED.json, and programs that failed, to $OUT
# or the folder it is started in. TENURE=/path/to/tenure chooses the command. Exit codes: those of
# `tenure fuzz`; 77 no GPU.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

total=${1:-1200} first=${2:-1} out=${OUT:-.}
if [ $# -gt 2 ] || ! [[ $total =~ ^[0-9]+$ && $first =~ ^[0-9]+$ ]] || [ "$total" -lt 10 ]; then
    echo "usage: ${BASH_SOURCE[0]} [SECONDS, 10 or more [FIRST_SEED]]" >&2
    exit 2
fi
find_tenure
require_gpu
unset TENURE_DRIVER
illegal=$((total >= 200 ? total / 10 : total / 4))
worst=0
# Runs one part and shows what it said; the other runs whatever it says.
part() {
    local file=$1 code=0
    shift
    "$tenure" fuzz --driver cuda --seeds "$first.." --keep-going --progress --out "$out" --json \
        "$@" >"$file" || code=$?
    [ "$code" -le "$worst" ] || worst=$code
    [ ! -s "$file" ] || python3 "$repository/tests/gpu/fuzz_sum.py" "$file"
    echo
}

part "$out/fuzz-$first.json" --time $((total - illegal - total / 100 - 1))
part "$out/fuzz-illegal-$first.json" --time "$illegal" --illegal --ops 1500
exit "$worst"
