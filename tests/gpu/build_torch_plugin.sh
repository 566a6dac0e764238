#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds tests/bench/torch_allocator.cpp against the PyTorch that python3 finds, for
# `tenure bench --torch`. Prints the plugin's path as its last line.
#
#   tests/gpu/build_torch_plugin.sh [OUTPUT.so]
#
# PYTHON chooses another interpreter, CXX another compiler, CUDA_HOME another CUDA toolkit.
# Exit codes: 0 built; 77 there is no PyTorch with CUDA, or no CUDA runtime header; else an error.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_file="$here/../bench/torch_allocator.cpp"
output=${1:-torch_allocator.so}
python=${PYTHON:-python3}

skip() {
    echo "skipped: $*" >&2
    exit 77
}

command -v "$python" >/dev/null || skip "there is no $python"

# One line each: folder of PyTorch, version, CUDA version, C++ ABI flag, folder of site-packages.
facts=$("$python" - <<'PYTHON'
import os
try:
    import torch
except ImportError:
    raise SystemExit(0)
root = os.path.dirname(torch.__file__)
print(root)
print(torch.__version__)
print(torch.version.cuda or "")
print(int(torch.compiled_with_cxx11_abi()))
print(os.path.dirname(root))
PYTHON
)
[ -n "$facts" ] || skip "$python has no module torch"
mapfile -t fact <<<"$facts"
root=${fact[0]} version=${fact[1]} cuda=${fact[2]} abi=${fact[3]} site=${fact[4]}
[ -n "$cuda" ] || skip "PyTorch $version in $root was built without CUDA"
[ -e "$root/include/c10/cuda/CUDACachingAllocator.h" ] ||
    skip "PyTorch $version in $root came without its C++ headers"

# cuda_runtime_api.h: the toolkit's, or the one in the wheels that PyTorch depends on.
cuda_include=
for candidate in "${CUDA_HOME:-/nonexistent}/include" /usr/local/cuda/include \
    "/usr/local/cuda-$cuda/include" "$site"/nvidia/cu*/include \
    "$site"/nvidia/cuda_runtime/include /usr/include; do
    if [ -e "$candidate/cuda_runtime_api.h" ]; then
        cuda_include=$candidate
        break
    fi
done
[ -n "$cuda_include" ] || skip "cuda_runtime_api.h was not found; set CUDA_HOME"

# libcudart is not linked: the plugin calls only c10, which brings its own along. torch_cuda is
# needed for what it registers when it is loaded: recording a stream asks c10 for it.
"${CXX:-c++}" -std=c++20 -O2 -fPIC -shared -fvisibility=hidden -Wall -Wextra \
    -D_GLIBCXX_USE_CXX11_ABI="$abi" -DTNR_TORCH_VERSION="\"$version (CUDA $cuda)\"" \
    -isystem "$root/include" -isystem "$cuda_include" "$source_file" \
    -L"$root/lib" -Wl,-rpath,"$root/lib" -Wl,--no-as-needed \
    -ltorch_cuda -ltorch_cpu -lc10_cuda -lc10 -o "$output"
echo "built against PyTorch $version (CUDA $cuda) in $root" >&2
realpath "$output"
