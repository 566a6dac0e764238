#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What parking must show on a real GPU: a model of 24 layers with a graph for each, whose
# activations are parked between the launches, reserves no more than the same without graphs, its
# steps take at most 1.02 of those where nothing is parked, and the host never waits. (park_layers,
# in park/)
#
#   tests/gpu/park.sh [--layers N] [--mib N] [--steps N] [--writes N]
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
