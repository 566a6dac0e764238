#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Pinned host memory on a real GPU, of both kinds: what growing, a cached pair and a new block cost
# beside the driver's own, whether copies run at the link's speed, how much is reserved over what
# is live and over what eight threads ask for, what the driver answers for the pointers, and which
# of the machine's sums it counts in.
#
#   tests/gpu/host.sh [--mib N] [--turns N]
#
# TENURE=/path/to/tenure chooses the command; the program lies in ../tests beside its folder, or
# where HOST_PROGRAMS says. Exit codes: 0 all bytes right; 1 not; 2 bad options; 77 no GPU.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
find_tenure
require_gpu

program=${HOST_PROGRAMS:-$(dirname "$tenure")/../tests}/host_memory_cost
if [ ! -x "$program" ]; then
    echo "$program was not found: build it, or set HOST_PROGRAMS" >&2
    exit 2
fi
unset TENURE_DRIVER
code=0
for kind in mapped allocated; do
    echo "== host:$kind"
    TENURE_CONF=host:$kind "$program" "$@" || code=$?
done
exit $code
