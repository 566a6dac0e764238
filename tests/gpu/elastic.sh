#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Processes that share a GPU's memory in a group: two and four that replay traces hold at most 1.05
# of what is live in them together; 10 GiB go from an idle one to a busy one in 50 ms; one that is
# killed or stopped keeps the others from nothing.
#
#   tests/gpu/elastic.sh [MIB]      how much is handed over (default 10240)
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
    --library "$library" --traces "$repository/tests/traces" --mib "${1:-10240}"
