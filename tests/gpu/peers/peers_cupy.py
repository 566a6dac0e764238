# SPDX-License-Identifier: Apache-2.0
"""peers_cupy.py [--json FILE] [--commit TEXT]: how fast a GPU reads another's memory, Tenure's
beside cudaMalloc's, and what opening and closing memory costs. Prints a table.

A kernel of GPU 1 sums words of GPU 0: five rounds, the two kinds in turn, medians. Exit code 1 if
Tenure's memory is read at less than 0.99 of cudaMalloc's rate, or a sum is wrong.
"""
import argparse
import ctypes
import json
import statistics
import subprocess
import sys
import time

import cupy
import numpy

from tenure import _library

import costs as driver_costs

BYTES = 1 << 30
ROUNDS = 5
NONE, READWRITE = 0, 3
SOURCE = r"""
extern "C" __global__ void total(const uint4 *words, unsigned long long count,
                                 unsigned long long *sum) {
    unsigned long long mine = 0;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
         i < count; i += (unsigned long long)gridDim.x * blockDim.x) {
        uint4 one = words[i];
        mine += one.x + one.y + one.z + one.w;
    }
    atomicAdd(sum, mine);
}
"""


def access(wanted):
    began = time.perf_counter()
    for owner, peer in ((0, 1), (1, 0)):
        _library.call("tnr_device_access_set", owner, peer, wanted)
    return time.perf_counter() - began


def malloc(bytes_count, device):
    ptr = ctypes.c_void_p()
    _library.call("tnr_malloc", ctypes.byref(ptr), ctypes.c_size_t(bytes_count), device, None)
    return ptr.value


def rate(kernel, address, total):
    """GB/s of one reading by GPU 1."""
    with cupy.cuda.Device(1):
        total[...] = 0
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        kernel((1056,), (512,), (numpy.uint64(address), numpy.uint64(BYTES // 16), total))
        end.record()
        end.synchronize()
        return BYTES / cupy.cuda.get_elapsed_time(begin, end) / 1e6


def bandwidth():
    """1 if Tenure's rate is as cudaMalloc's, and the rates of both."""
    with cupy.cuda.Device(1):
        kernel = cupy.RawKernel(SOURCE, "total")
        total = cupy.zeros(1, dtype=cupy.uint64)
        try:
            cupy.cuda.runtime.deviceEnablePeerAccess(0)
        except cupy.cuda.runtime.CUDARuntimeError:
            pass  # it is enabled
    with cupy.cuda.Device(0):
        plain = cupy.cuda.runtime.malloc(BYTES)
    addresses = {"cudaMalloc": plain, "Tenure": malloc(BYTES, 0)}
    _library.call("tnr_device_access_set", 0, 1, READWRITE)
    with cupy.cuda.Device(0):
        for address in addresses.values():
            cupy.cuda.runtime.memset(address, 1, BYTES)
        cupy.cuda.runtime.deviceSynchronize()
    rates, sums = {name: [] for name in addresses}, set()
    for name, address in addresses.items():
        rate(kernel, address, total)  # warm
    for _ in range(ROUNDS):
        for name, address in addresses.items():
            rates[name].append(rate(kernel, address, total))
            sums.add(int(total.get()[0]))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    for name, values in rates.items():
        print(f"GPU 1 reads GPU 0's memory, {name:10}: {medians[name]:7.1f} GB/s "
              f"({min(values):.1f} to {max(values):.1f})")
    ratio = medians["Tenure"] / medians["cudaMalloc"]
    good = ratio >= 0.99 and sums == {0x01010101 * (BYTES // 4)}
    print(f"ratio {ratio:.4f}, sums {'right' if len(sums) == 1 else 'WRONG'}: "
          f"{'ok' if good else 'FAILED'}")
    _library.call("tnr_free", ctypes.c_void_p(addresses["Tenure"]))
    with cupy.cuda.Device(0):
        cupy.cuda.runtime.free(plain)
    return good, {name: {"median": medians[name], "least": min(values), "most": max(values)}
                  for name, values in rates.items()}


def costs(pieces, bytes_each):
    """Opening and closing what exists: so many blocks, each a chunk or more of its own."""
    access(NONE)
    _library.call("tnr_trim", None, ctypes.c_size_t(0), 0)
    blocks = [malloc(bytes_each, 0) for _ in range(pieces)]
    opened = access(READWRITE)
    again = access(READWRITE)
    closed = access(NONE)
    print(f"{pieces} blocks of {bytes_each >> 20} MiB: opened in {opened * 1e3:.2f} ms "
          f"({opened / pieces * 1e6:.0f} us each), again {again * 1e3:.3f} ms, "
          f"closed in {closed * 1e3:.2f} ms ({closed / pieces * 1e6:.0f} us each)")
    for block in blocks:
        _library.call("tnr_free", ctypes.c_void_p(block))
    _library.call("tnr_trim", None, ctypes.c_size_t(0), 0)
    began = time.perf_counter()
    blocks = [malloc(bytes_each, 0) for _ in range(pieces)]
    alone = time.perf_counter() - began
    for block in blocks:
        _library.call("tnr_free", ctypes.c_void_p(block))
    _library.call("tnr_trim", None, ctypes.c_size_t(0), 0)
    access(READWRITE)
    began = time.perf_counter()
    blocks = [malloc(bytes_each, 0) for _ in range(pieces)]
    both = time.perf_counter() - began
    print(f"    new: {alone / pieces * 1e6:.0f} us each for its own GPU, "
          f"{both / pieces * 1e6:.0f} us with a peer")
    access(NONE)
    for block in blocks:
        _library.call("tnr_free", ctypes.c_void_p(block))
    _library.call("tnr_trim", None, ctypes.c_size_t(0), 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--json")
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    _library.call("tnr_configure", b"chunk_exact_mb:2,chunk_share:65536")
    _library.call("tnr_init")
    for device in (0, 1):
        with cupy.cuda.Device(device):
            cupy.cuda.runtime.free(0)
    good, rates = bandwidth()
    costs(512, 2 << 20)
    chunks = driver_costs.measure()
    for what, us in chunks.items():
        print(f"{what:32} {us:7.1f} us a chunk")
    if options.json:
        gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version",
                              "--format=csv,noheader"], text=True, capture_output=True, check=True)
        name, driver = gpu.stdout.splitlines()[0].split(", ")
        facts = {"commit": options.commit, "gpu": name, "driver": driver,
                 "command": "tests/gpu/peers.sh bandwidth"}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"facts": facts, "gb_per_s": rates, "us_a_chunk": chunks}, file, indent=1)
            file.write("\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
