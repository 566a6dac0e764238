#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Pinned host memory on a real GPU, of both kinds: what growing, a cached pair and a new block cost
# beside the driver's own, whether copies run at the link's speed, how much is reserved over what
# is live and over what eight threads ask for, what the driver answers for the pointers, and which
# of the machine's sums it counts in.
#
#   tests/gpu/host.sh [--mib N] [--turns N]
#   tests/gpu/host.sh pinned [--json FILE] [options; --help has them]
#
# pinned: PyTorch's own pinned memory, a pool of the driver's, and Tenure's of both kinds, as
# PyTorch's programs use them: sizes that users reported, eight threads, a DataLoader, a day of
# offloading (host/pinned.py).
#
# TENURE=/path/to/tenure chooses the command; the program lies in ../tests beside its folder, or
# where HOST_PROGRAMS says. Exit codes: 0 all is right; 1 not; 2 bad options; 77 no GPU, or for
# `pinned` no PyTorch.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
find_tenure
require_gpu
unset TENURE_DRIVER

if [ "${1:-}" = pinned ]; then
    find_python
    unset TENURE_CONF
    commit=$("$tenure" --version | sed -n 's/.*(\([^)]*\)).*/\1/p')
    exec "$python" -B "$repository/tests/gpu/host/pinned.py" --commit "$commit" "${@:2}"
fi

program=${HOST_PROGRAMS:-$(dirname "$tenure")/../tests}/host_memory_cost
if [ ! -x "$program" ]; then
    echo "$program was not found: build it, or set HOST_PROGRAMS" >&2
    exit 2
fi
code=0
for kind in mapped allocated; do
    echo "== host:$kind"
    TENURE_CONF=host:$kind "$program" "$@" || code=$?
done
exit $code
