#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python_module.py LIB: that `import tenure` uses the libtenure.so of that folder, and that what
lies beside it is found."""
import ctypes
import os
import sys
import tempfile

import tenure
from tenure import _library


def main():
    lib = os.path.realpath(sys.argv[1])
    version = tenure.version()
    if len(version) != 3:
        sys.exit(f"version {version}")
    plugin = _library.beside("libtenure_torch.so")
    if os.path.dirname(plugin) != os.path.join(lib, "tenure"):
        sys.exit(f"{plugin} is not of {lib}")
    malloc = ctypes.CDLL(plugin).tenure_torch_malloc
    malloc.restype = ctypes.c_void_p
    malloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    tenure.mark("install test")
    if not malloc(3 << 20, 0, None):
        sys.exit("no memory")
    # One library serves both: what the plugin has allocated is seen here.
    if tenure.stats()["allocated_bytes.all.current"] != 3 << 20:
        sys.exit(f"two libraries in one process: {tenure.stats()}")
    with open("/proc/self/maps", encoding="utf-8") as maps:
        loaded = {line[line.index("/"):].rstrip("\n") for line in maps if "/libtenure.so" in line}
    if len(loaded) != 1 or os.path.dirname(os.path.realpath(loaded.pop())) != lib:
        sys.exit(f"loaded {loaded}, not of {lib}")
    with tempfile.TemporaryDirectory() as folder:
        tenure.snapshot(os.path.join(folder, "memory.json"))
        tenure.snapshot(os.path.join(folder, "memory.pickle.gz"), "pickle.gz")
        if len(os.listdir(folder)) != 2:
            sys.exit("no snapshots")
    print(f"tenure {'.'.join(map(str, version))} from {lib}")


if __name__ == "__main__":
    main()
