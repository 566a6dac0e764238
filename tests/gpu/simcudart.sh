#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Programs of the CUDA runtime give the same on a GPU as on the simulated device, where their
# kernels have host versions or do not matter: those of tests/simcudart/cu, built by nvcc with the
# runtime beside them, run on the GPU with NVIDIA's runtime and without one with Tenure's.
#
#   tests/gpu/simcudart.sh
#
# TENURE=/path/to/tenure chooses the command, NVCC the compiler. Exit codes: 0 the same; 1 not; 77
# no GPU, or no nvcc.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

find_tenure
require_gpu
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
[ -x "$nvcc" ] || skip "there is no nvcc"
unset TENURE_DRIVER LD_PRELOAD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
libraries=$(dirname "$(dirname "$nvcc")")/lib64
export LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
worst=0
for name in vector_add streams graphs; do
    "$nvcc" -arch=native -cudart shared -I "$repository/tools/simcuda/include" \
        -o "$work/$name" "$repository/tests/simcudart/cu/$name.cu"
    gpu=0 simulated=0
    "$work/$name" >"$work/gpu" || gpu=$?
    "$tenure" run --check --driver sim -- "$work/$name" >"$work/sim" 2>"$work/said" || simulated=$?
    if [ $gpu -eq 0 ] && [ $simulated -eq 0 ] && cmp -s "$work/gpu" "$work/sim"; then
        echo "$name: the same"
    else
        echo "$name: $gpu on the GPU, $simulated without" >&2
        diff "$work/gpu" "$work/sim" >&2 || true
        cat "$work/said" >&2
        worst=1
    fi
done
exit $worst
