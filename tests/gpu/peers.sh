#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Two GPUs: PyTorch's copies between them, DataParallel, DDP, FSDP2 and collectives of two processes
# with Tenure, bit by bit beside PyTorch's own allocator (peers/peers_torch.py); how fast a GPU
# reads another's memory, and what opening and closing costs (peers/peers_cupy.py).
#
#   tests/gpu/peers.sh [torch] [run] [bandwidth] [--json FILE]      without one of these, all
#
# --json keeps what `bandwidth` measured. `run` is PyTorch's own allocator under `tenure run`.
# TENURE=/path/to/tenure chooses the command; the Python module lies in ../python beside its
# folder, or where TENURE_PYTHON says. PYTHON chooses another interpreter.
# Exit codes: 0 all as it must be; 1 not; 2 bad options; 77 no two GPUs, or no such engine.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

parts=()
json=()
while [ $# -gt 0 ]; do
    case $1 in
    torch | run | bandwidth) parts+=("$1") ;;
    --json)
        json=(--json "${2:?--json needs a file}")
        shift
        ;;
    *)
        echo "peers.sh [torch] [run] [bandwidth] [--json FILE]" >&2
        exit 2
        ;;
    esac
    shift
done
if [ ${#parts[@]} = 0 ]; then parts=(torch run bandwidth); fi
find_tenure
require_gpu
require_gpus 2
find_python
export NCCL_NVLS_ENABLE=0
unset TENURE_DRIVER

failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
program=$repository/tests/gpu/peers/peers_torch.py
compare() { # what, command ...
    local what=$1
    shift
    if ! "$@" >"$folder/$what.json"; then
        echo "FAILED: $what ended with an error"
        failed=1
    elif ! "$python" -B "$program" --compare "$folder/native.json" "$folder/$what.json"; then
        failed=1
    fi
}
for part in "${parts[@]}"; do
    case $part in
    torch | run)
        if [ ! -e "$folder/native.json" ]; then
            require_modules torch
            "$python" -B "$program" native >"$folder/native.json"
        fi
        ;;&
    torch) compare tenure "$python" -B "$program" tenure ;;
    run) compare run "$tenure" run -- "$python" -B "$program" native ;;
    bandwidth)
        commit=$("$tenure" --version | sed -n 's/.*(\([^)]*\)).*/\1/p')
        "$python" -B "$repository/tests/gpu/peers/peers_cupy.py" --commit "$commit" "${json[@]}" ||
            failed=1
        ;;
    esac
done
exit "$failed"
