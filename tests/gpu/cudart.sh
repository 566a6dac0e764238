#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The walkthrough of docs/examples/cudart on a real GPU, with the machine's CUDA runtime: each step
# compiled as its head comment says, as C and with nvcc, and its results checked.
#
#   tests/gpu/cudart.sh
#
# TENURE=/path/to/tenure chooses the command; libtenure.so lies in ../lib beside its folder.
# CUDA_HOME names the toolkit. Exit codes: 0 all as it must be; 1 not; 77 no GPU or no toolkit.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

find_tenure
require_gpu
cuda=${CUDA_HOME:-/usr/local/cuda}
[ -e "$cuda/include/cuda_runtime_api.h" ] || skip "there is no CUDA toolkit in $cuda"
compiler=$(command -v cc || command -v gcc || command -v clang || true)
[ -n "$compiler" ] || skip "there is no C compiler"
library=$(realpath "$(dirname "$tenure")/../lib")
[ -e "$library/libtenure.so" ] || { echo "$library has no libtenure.so" >&2; exit 2; }
unset TENURE_DRIVER

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-O2 -I "$cuda/include" -I "$repository/tools/dropin/include")
for layer in alloc lifetime capture; do flags+=(-I "$repository/$layer/include"); done
links=(-L "$cuda/lib64" -L "$library" -lcudart -ltenure -lpthread)
failed=0
for step in 0 1 2 3; do
    source_file=$repository/docs/examples/cudart/pipeline$step.c
    "$compiler" "${flags[@]}" "$source_file" -o "$work/pipeline$step" "${links[@]}" \
        -Wl,-rpath,"$library" -Wl,-rpath,"$cuda/lib64"
    programs=("$work/pipeline$step")
    if [ -x "$cuda/bin/nvcc" ]; then
        "$cuda/bin/nvcc" "${flags[@]}" "$source_file" -o "$work/nvcc$step" "${links[@]}" \
            -cudart static -Xlinker -rpath="$library"
        programs+=("$work/nvcc$step")
    fi
    for program in "${programs[@]}"; do
        if said=$(cd "$work" && "$program" 2>&1) && [ "$said" = "60 frames, 0 wrong" ]; then
            echo "ok     $(basename "$program"): $said"
        else
            echo "FAILED $(basename "$program"): $said"
            failed=1
        fi
    done
done
[ -s "$work/pipeline.json" ] || { echo "FAILED step 3 wrote no snapshot"; failed=1; }
"$tenure" snapshot summary "$work/pipeline.json" >"$work/summary" || failed=1
sed -n 1,12p "$work/summary"
[ $failed = 0 ] && echo "all checks passed" || echo "some checks failed"
exit $failed
