#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs `tenure bench` whole on a real GPU: beside the driver's pool, beside PyTorch's own allocator
# if PyTorch is installed with its headers, and with the recorded traces. It ends within 9 minutes
# on a machine with 16 cores: no section begins after BENCH_MS milliseconds (default 380000), and
# how long each took is printed.
#
#   tests/gpu/bench.sh [--csv FILE] [other options of tenure bench]
#
# TENURE=/path/to/tenure chooses the command. Exit codes: those of tenure bench; 77 no GPU.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
find_tenure
require_gpu

began=$SECONDS
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
plugin=()
if path=$("$repository/tests/gpu/build_torch_plugin.sh" "$work/torch_allocator.so"); then
    plugin=(--torch "$(tail -n 1 <<<"$path")")
elif [ $? -ne 77 ]; then
    echo "building the PyTorch plugin failed" >&2
    exit 1
fi
echo "the plugin took $((SECONDS - began)) s" >&2
"$tenure" bench --driver cuda --budget-ms "${BENCH_MS:-380000}" "${plugin[@]}" "$@" \
    "$repository"/tests/traces/*.csv.gz
echo "bench.sh took $((SECONDS - began)) s in all" >&2
