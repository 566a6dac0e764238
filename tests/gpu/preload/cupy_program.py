# SPDX-License-Identifier: Apache-2.0
"""CuPy without its pool: every array is a cudaMalloc of its own. Prints results; its own time on
stderr."""
import sys
import time

import cupy

if "--pool" not in sys.argv:
    cupy.cuda.set_allocator(None)
stream = cupy.cuda.Stream(non_blocking=True)
began = time.perf_counter()
with stream:
    total = cupy.zeros((), dtype=cupy.int64)
    for step in range(200):
        values = cupy.arange(1000 * (step % 17 + 1), dtype=cupy.int64)
        squares = values * values % 1000003
        total += cupy.sort(squares)[::7].sum()
        matrix = (values[:900].reshape(30, 30) % 97).astype(cupy.float64)
        total += (matrix @ matrix).sum().astype(cupy.int64)
    print(int(total))
stream.synchronize()
print(f"seconds: {time.perf_counter() - began:.3f}", file=sys.stderr)
