#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A CUDA graph that PyTorch captures with all of its memory from Tenure: the audit must read every
# node and prove every address, replays must give the same bits while another thread allocates and
# frees, and the graph's pool must go with the graph.
#
#   tests/gpu/capture_torch.sh [--replays N] [--report PREFIX] [--json FILE] [--quick]
#
# --report PREFIX gets the audit as PREFIX.txt and PREFIX.json, --json FILE the results.
# TENURE=/path/to/tenure chooses the command; the allocator for PyTorch lies in ../tests beside its
# folder, or where CAPTURE_PROGRAMS says. PYTHON chooses another interpreter.
# Exit codes: 0 all as it must be; 1 not; 2 bad options; 77 no GPU, or no PyTorch that can do this.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

options=()
while [ $# -gt 0 ]; do
    case $1 in
    --replays | --report | --json)
        [ $# -gt 1 ] || { echo "$1 needs a value" >&2; exit 2; }
        options+=("$1" "$2")
        shift 2
        ;;
    --quick)
        options+=(--replays 100)
        shift
        ;;
    *)
        echo "unknown option: $1" >&2
        exit 2
        ;;
    esac
done
find_tenure
require_gpu

library=${CAPTURE_PROGRAMS:-$(dirname "$tenure")/../tests}/libcapture_torch.so
if [ ! -e "$library" ]; then
    echo "$library was not found: build it, or set CAPTURE_PROGRAMS" >&2
    exit 2
fi
python=${PYTHON:-python3}
command -v "$python" >/dev/null || skip "there is no $python"
unset TENURE_DRIVER
exec "$python" "$repository/tests/gpu/capture_torch/capture_torch.py" \
    --library "$(realpath "$library")" "${options[@]}"
