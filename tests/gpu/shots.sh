#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Real runs for the pictures of docs/: on a GPU with PyTorch, snapshots of a training run, of an
# allocation that failed, and of a use by another stream that is not over; and what `tenure top`
# shows of the training run. On a machine with Chromium, pictures of them:
#
#   tests/gpu/shots.sh --out FOLDER                        # on the GPU
#   node tests/report/take_real.mjs FOLDER docs/images     # where Chromium is; its head says how
#
# TENURE=/path/to/tenure chooses the command. Exit codes: 0 all four are there; 1 one is not; 2 bad
# options; 77 no GPU or no PyTorch.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

out=
while [ $# -gt 0 ]; do
    case $1 in
    --out)
        [ $# -gt 1 ] || { echo "--out needs a folder" >&2; exit 2; }
        out=$2
        shift 2
        ;;
    *)
        echo "unknown option: $1" >&2
        exit 2
        ;;
    esac
done
[ -n "$out" ] || { echo "--out FOLDER says where the files go" >&2; exit 2; }
find_tenure
require_gpu
find_python
require_modules torch
mkdir -p "$out"
out=$(realpath "$out")
programs=$repository/tests/gpu/shots
sockets=$(mktemp -d)
trap 'rm -rf "$sockets"' EXIT
unset TENURE_DRIVER
result=0

ran() { # the file that must be there, and the command
    local file=$1
    shift
    rm -f "$out/$file"
    "$@" || { echo "FAILED: $*" >&2; result=1; }
    [ -s "$out/$file" ] || { echo "FAILED: no $file" >&2; result=1; }
}

run=("$python" -m tenure.torch run)
ran oom.json.gz "${run[@]}" "$programs/oom.py" "$out/oom.json.gz" "$out/oom.txt"
ran lanes.json.gz "${run[@]}" "$programs/lanes.py" "$out/lanes.json.gz"
ran train.json.gz env TENURE_CONF="control:on,control_dir:$sockets" \
    "$python" "$programs/watch.py" "$tenure" "$sockets" "$out/top.txt" \
    "${run[@]}" "$programs/train.py" "$out/train.json.gz"
[ -s "$out/top.txt" ] || { echo "FAILED: no top.txt" >&2; result=1; }
ls -l "$out"
exit $result
