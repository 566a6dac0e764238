#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs `tenure bench` on a real GPU, beside the driver's pool and, if PyTorch with its headers is
# installed, beside PyTorch's own allocator.
#
#   tests/gpu/bench.sh [options of tenure bench]
#
# TENURE=/path/to/tenure chooses the command. Exit codes: those of tenure bench; 77 no GPU.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
find_tenure
require_gpu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
plugin=()
if path=$("$repository/tests/gpu/build_torch_plugin.sh" "$work/torch_allocator.so"); then
    plugin=(--torch "$(tail -n 1 <<<"$path")")
elif [ $? -ne 77 ]; then
    echo "building the PyTorch plugin failed" >&2
    exit 1
fi
"$tenure" bench --driver cuda "${plugin[@]}" "$@"
