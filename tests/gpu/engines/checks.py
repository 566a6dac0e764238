# SPDX-License-Identifier: Apache-2.0
"""checks.py native|plain|mempool: what tenure.torch promises besides serving memory, in PyTorch.

With `native` Tenure is an allocator of PyTorch's own kind, with `plain` a pluggable one. `mempool`
is run in a process of its own, since there PyTorch keeps its allocator.

Exit codes: 0 all holds; 1 not.
"""
import os
import subprocess
import sys
import tempfile

import torch

import tenure
import tenure.torch

GIB = 1 << 30
failed = []


def that(good, what):
    print(f"{'ok    ' if good else 'FAILED'} {what}", flush=True)
    if not good:
        failed.append(what)


def out_of_memory(wanted):
    """An error with Tenure's sentence; afterwards everything goes on."""
    kept = torch.ones(1000, device="cuda")
    torch.cuda.set_per_process_memory_fraction(2 * GIB / torch.cuda.mem_get_info()[1])
    try:
        torch.empty(4 * GIB, dtype=torch.uint8, device="cuda")
        that(False, "4 GiB of at most 2 are refused")
    except RuntimeError as error:
        that(type(error) is wanted, f"memory that is short raises {type(error).__name__}")
        that("Tenure" in str(error) and "limit" in str(error),
             f"in words: {str(error).splitlines()[0][:200]}")
    torch.cuda.set_per_process_memory_fraction(1.0)
    that(torch.empty(4 * GIB, dtype=torch.uint8, device="cuda").numel() == 4 * GIB,
         "without the limit they are served")
    that(float(kept.sum()) == 1000, "what was there is as it was")


def statistics():
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    x = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
    that(torch.cuda.memory_allocated() - before == 100 << 20, "torch.cuda.memory_allocated()")
    del x
    that(torch.cuda.memory_allocated() == before, "and after the free")
    that(torch.cuda.max_memory_allocated() - before == 100 << 20, "max_memory_allocated()")
    that(torch.cuda.memory_reserved() >= before, "memory_reserved()")
    torch.cuda.empty_cache()
    that(torch.cuda.memory_reserved() < 100 << 20, "empty_cache() gives memory back")
    that("Allocated memory" in torch.cuda.memory_summary(), "memory_summary()")
    torch.cuda.memory._record_memory_history(max_entries=1000)
    y = torch.ones(1 << 20, device="cuda")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "torch.pickle")
        torch.cuda.memory._dump_snapshot(path)
        that(os.path.getsize(path) > 100, "_dump_snapshot()")
    shot = torch.cuda.memory._snapshot()
    blocks = [b for s in shot["segments"] for b in s["blocks"] if b["address"] == y.data_ptr()]
    that(len(blocks) == 1, "_snapshot() has a tensor's block")
    that(any(t["action"] == "alloc" for d in shot["device_traces"] for t in d), "and its history")
    torch.cuda.memory._record_memory_history(enabled=None)


def uses():
    side, x = torch.cuda.Stream(), torch.ones(64 << 20, device="cuda")
    before = tenure.stats()["bytes_retired"]
    with torch.cuda.stream(side):
        torch.cuda._sleep(400_000_000)
        y = x * 2
    tenure.record_use(x, side)
    del x
    that(tenure.stats()["bytes_retired"] - before == 256 << 20, "a used block waits for its use")
    side.synchronize()
    that(float(y.sum()) == 2 * (64 << 20), "which saw the right values")
    z = torch.ones(10, device="cuda")
    z.record_stream(side)
    tenure.mark("checks")
    try:
        tenure.record_use(12345, side)
        that(False, "foreign memory has no use")
    except tenure.Error as error:
        that("not allocated by Tenure" in str(error), "foreign memory has no use, in words")


def graphs():
    """Pools of graphs come and go with them, and two graphs can share one."""
    x = torch.ones(1 << 20, device="cuda")
    torch.cuda.synchronize()
    pools = tenure.stats()["pools"]
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(first):
        y = (x * 3) + 1
    that(tenure.stats()["pools"] == pools + 1, "a graph has a pool of its own")
    with torch.cuda.graph(second, pool=first.pool()):
        z = (y * 2) - 1
    that(tenure.stats()["pools"] == pools + 1, "a second one shares it")
    first.replay()
    second.replay()
    torch.cuda.synchronize()
    that(float(z.sum()) == 7 * (1 << 20), "their results are right")
    del y, z
    first.reset()
    second.reset()
    for _ in range(200):  # the driver tells of a graph's end from a thread of its own
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        if tenure.stats()["pools"] == pools:
            break
    that(tenure.stats()["pools"] == pools, "and the pool goes with the last of them")


def late_install():
    try:
        tenure.torch.install()
        that(False, "install() twice is refused")
    except RuntimeError as error:
        that("once" in str(error), "install() twice is refused")


def installed(is_native):
    tenure.torch.install(strict=True, native=is_native)
    torch.zeros(1, device="cuda")
    out_of_memory(torch.OutOfMemoryError if is_native else RuntimeError)
    statistics()
    uses()
    graphs()
    late_install()
    tenure._library.call("tnr_validate", -1)
    if is_native:
        return
    tenure.torch.restore_stats()
    try:
        torch.cuda.memory_allocated()
        that(False, "restore_stats() gives the question back to PyTorch")
    except RuntimeError:
        that(True, "restore_stats() gives the question back to PyTorch")


def mempool():
    pool = tenure.torch.mempool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.ones(40 << 20, device="cuda")
    that(tenure.stats()["allocated_bytes.all.current"] >= 160 << 20, "segments are Tenure's")
    that(float(x.sum()) == 40 << 20, "and hold what is written there")
    that(torch.cuda.memory_allocated() >= 160 << 20, "while PyTorch keeps its own statistics")
    del x, pool
    torch.cuda.empty_cache()
    that(tenure.stats()["allocated_bytes.all.current"] == 0, "and come back")
    try:
        tenure.torch.install()
        that(False, "install() after the first use of CUDA is refused")
    except RuntimeError as error:
        that("too late" in str(error), "install() after the first use of CUDA is refused")


def main():
    what = sys.argv[1]
    if what == "mempool":
        mempool()
    else:
        installed(what == "native")
        if what == "native":
            run = subprocess.run([sys.executable, os.path.abspath(__file__), "mempool"])
            that(run.returncode == 0, "checks.py mempool")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
