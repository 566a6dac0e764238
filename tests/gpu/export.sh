#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Exports and imports between two processes on a GPU, and between two GPUs if there are two:
# contents, the same address, either side killed with work under way, and what attaching costs, in
# the usual chunks and in one.
#
#   tests/gpu/export.sh
#
# TENURE=/path/to/tenure chooses the command; the program lies in ../tests beside its folder. Exit
# codes: 0 all as it must be; 1 not; 77 no GPU.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
find_tenure
require_gpu
program=$(dirname "$tenure")/../tests/export_exchange
[ -x "$program" ] || { echo "$program was not found: build it" >&2; exit 2; }
unset TENURE_DRIVER
worst=0
part() {
    echo "$*"
    timeout 300 "$program" "${@:2}" || worst=1
}

part "one GPU:" --mib 1024
TENURE_CONF=chunk_max_mb:2 part "one GPU, chunks of 2 MiB:" --mib 1024
if "$tenure" doctor --driver cuda | grep -q ', [2-9][0-9]* devices'; then
    part "two GPUs:" --mib 1024 --importer 1
fi
exit "$worst"
