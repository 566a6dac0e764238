#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What parking must show on a real GPU, with a model of 24 layers and a graph for each. Where
# activations are computed again on the way back, and parked between the launches, it reserves no
# more than the same without graphs. Where they are not, and those of a sixth of the layers are
# parked in host memory, it reserves less than the same without graphs, by those layers. Either way
# its steps take at most 1.02 of those where nothing is parked, and the host never waits.
# (park_layers, in park/)
#
#   tests/gpu/park.sh [--layers N] [--mib N] [--steps N] [--writes N] [--to-host N]
#
# With no options: 13 GB of device memory, 2.2 GB of host memory that can be pinned, a minute.
#
# TENURE=/path/to/tenure chooses the command; the program lies in ../tests beside its folder, or
# where PARK_PROGRAMS says. Exit codes: 0 all as it must be; 1 not; 2 bad options; 77 no GPU.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

find_tenure
require_gpu

program=${PARK_PROGRAMS:-$(dirname "$tenure")/../tests}/park_layers
if [ ! -x "$program" ]; then
    echo "$program was not found: build it, or set PARK_PROGRAMS" >&2
    exit 2
fi
unset TENURE_DRIVER
exec "$program" "$@"
