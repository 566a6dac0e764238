#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Published weights on a GPU: attached by a second process at the same address within 0.2 s, without
# a copy, a graph of that process replayed on them while publisher and holder are killed, and new
# generations. First, what the driver makes of memory that is mapped for reading alone, and of
# memory that only a descriptor keeps.
#
#   tests/gpu/hold.sh [GIB]      size of the weights (default 60)
#
# TENURE=/path/to/tenure chooses the command; the program lies in ../tests beside its folder. Exit
# codes: 0 all as it must be; 1 not; 77 no GPU.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
find_tenure
require_gpu
program=$(dirname "$tenure")/../tests/hold_weights
[ -x "$program" ] || { echo "$program was not found: build it" >&2; exit 2; }
unset TENURE_DRIVER
worst=0
echo "the driver:"
timeout 300 python3 -B "$(dirname "${BASH_SOURCE[0]}")/hold/protection.py" || worst=1
echo "weights of ${1:-60} GiB:"
timeout 300 "$program" --mib $((${1:-60} * 1024)) || worst=1
exit "$worst"
