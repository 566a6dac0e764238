#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs all benchmarks on a real GPU, those of `tenure bench` and those that only developers need
# (tests/bench/bench_sections.c): beside the driver's pool, beside PyTorch's own allocator if there
# is a PyTorch with its headers, and with the recorded traces. It ends within 9 minutes on a machine
# with 16 cores: six are predicted, and no section begins after BENCH_MS milliseconds (default
# 380000). How long each section is predicted to take and took is printed.
#
#   tests/gpu/bench.sh [--csv FILE] [other options of tenure bench]
#   tests/gpu/bench.sh --beside none --only threads,mix --csv mix.csv      Tenure alone
#
# The plugin is not built for a --beside that does not name torch.
#
# TENURE=/path/to/tenure chooses the command, BENCH=/path/to/bench_sections the program (by default
# the one of the same build folder), BENCH_DRIVER=sim the simulated device, to see that the script
# works. Exit codes: those of tenure bench; 77 no GPU.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
find_tenure
driver=${BENCH_DRIVER:-cuda}
[ "$driver" = sim ] || require_gpu
find_bench

began=$SECONDS
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
plugin=()
[ "$driver" = sim ] && wants_torch=0 || wants_torch=1
for ((i = 1; i < $#; i++)); do
    next=$((i + 1))
    [ "${!i}" != --beside ] || [[ ${!next} == *torch* ]] || wants_torch=0
done
if [ "$wants_torch" = 0 ]; then
    :
elif path=$("$repository/tests/gpu/build_torch_plugin.sh" "$work/torch_allocator.so"); then
    plugin=(--torch "$(tail -n 1 <<<"$path")")
elif [ $? -ne 77 ]; then
    echo "building the PyTorch plugin failed" >&2
    exit 1
fi
echo "the plugin took $((SECONDS - began)) s" >&2
"$bench" bench --driver "$driver" --budget-ms "${BENCH_MS:-380000}" "${plugin[@]}" "$@" \
    "$repository"/tests/traces/*.csv.gz
echo "bench.sh took $((SECONDS - began)) s in all" >&2
