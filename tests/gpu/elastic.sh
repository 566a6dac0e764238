#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Processes that share a GPU's memory in a group: 10 GiB go from an idle one to a busy one in 50 ms;
# one that is killed or stopped keeps the others from nothing; two and four that replay traces hold
# at most 1.05 of what is live in them together; and nothing is left on the device. A line for each,
# with its number and what it must be, in about four minutes.
#
#   tests/gpu/elastic.sh [options of elastic/share.py]
#
#   --only handover,victims,recorded,two,four,tight,load2,load4,leak   some parts
#   --mib N        how much is handed over (default 10240)
#   --seconds N    how much of the traces is replayed (default 12)
#
# TENURE=/path/to/tenure chooses the command; the library lies in ../lib beside its folder. Exit
# codes: 0 all as it must be; 1 not; 77 no GPU.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
find_tenure
require_gpu
library=$(dirname "$tenure")/../lib/libtenure.so
[ -e "$library" ] || { echo "$library was not found: build it" >&2; exit 2; }
unset TENURE_DRIVER
timeout 900 python3 -B "$(dirname "${BASH_SOURCE[0]}")/elastic/share.py" \
    --library "$library" --traces "$repository/tests/traces" "$@"
