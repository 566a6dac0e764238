#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Programs of NVIDIA's cuda-samples, which the user has, print the same with `tenure run` as without
# it: those with several GPUs, with memory of other processes, and with conditional nodes. Numbers
# are left out of the comparison, since times differ, and so is the order of lines, since some are
# several processes. They are built here with nvcc.
#
#   CUDA_SAMPLES=/path/to/cuda-samples tests/gpu/samples.sh [NAME ...]     without a name, all
#
# TENURE=/path/to/tenure chooses the command, NVCC the compiler.
# Exit codes: 0 all the same; 1 not; 77 no GPU, no nvcc, or no samples.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

find_tenure
require_gpu
nvcc=${NVCC:-nvcc}
command -v "$nvcc" >/dev/null || skip "there is no $nvcc"
samples=${CUDA_SAMPLES:-}
[ -n "$samples" ] || skip "CUDA_SAMPLES names no folder with NVIDIA's cuda-samples"
[ -d "$samples/Samples" ] || skip "there is no folder Samples in $samples"
unset TENURE_DRIVER

names=("$@")
if [ ${#names[@]} = 0 ]; then
    names=(simpleP2P simpleMultiGPU simpleIPC streamOrderedAllocation streamOrderedAllocationP2P
        streamOrderedAllocationIPC graphConditionalNodes MonteCarloMultiGPU
        p2pBandwidthLatencyTest simpleCUFFT_MGPU simpleCUFFT_2d_MGPU simpleCUBLASXT)
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() { # name
    local folder sources
    folder=$(find "$samples/Samples" -type d -name "$1" | head -n 1)
    [ -n "$folder" ] || return 1
    mapfile -t sources < <(find "$folder" -maxdepth 1 \( -name '*.cu' -o -name '*.cpp' \) | sort)
    if grep -q helper_multiprocess "${sources[@]}"; then
        sources+=("$samples/Common/helper_multiprocess.cpp")
    fi
    "$nvcc" -arch=native -std=c++17 -I "$samples/Common" -o "$work/$1" "${sources[@]}" \
        -lcuda -lcufft -lcublas -lcurand >"$work/$1.build" 2>&1
}
for name in "${names[@]}"; do build "$name" || rm -f "$work/$name" & done
wait

# What a program printed, without numbers and without what Tenure says at the end.
said() { # file
    sed -E -e 's/[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?/N/g' -e 's/ +/ /g' "$1" | sort
}
failed=0
for name in "${names[@]}"; do
    if [ ! -x "$work/$name" ]; then
        reason=$(grep -m 1 -i 'error:' "$work/$name.build" 2>/dev/null || echo "no such sample")
        echo "left out  $name: $reason"
        continue
    fi
    native=0 tenure_rc=0
    (cd "$work" && timeout 120 "./$name" >native.txt 2>&1) || native=$?
    (cd "$work" && timeout 120 "$tenure" run -- "./$name" >tenure.txt 2>&1) || tenure_rc=$?
    if [ "$native" = "$tenure_rc" ] && diff <(said "$work/native.txt") <(said "$work/tenure.txt") \
        >"$work/diff.txt"; then
        echo "same      $name (exit code $native)"
    else
        echo "DIFFERS   $name: exit code $native, with Tenure $tenure_rc"
        head -n 12 "$work/diff.txt"
        failed=1
    fi
done
exit "$failed"
