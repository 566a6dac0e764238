#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attributes of the simulated device beside those of a GPU: attributes.sh has the rest. `--self`
tries the comparison, which needs no GPU. Seen to fail where compare() took a GPU's 0 or silence for
the same, and where it compared numbers of PLACE."""
import argparse
import ctypes
import json
import subprocess
import sys

LAST = 160  # CUDA 13 has some 150; numbers that a driver does not know are refused by it
PLACE = {33: "PCI_BUS_ID", 34: "PCI_DEVICE_ID", 50: "PCI_DOMAIN_ID",
         85: "MULTI_GPU_BOARD_GROUP_ID", 131: "NUMA_ID", 134: "HOST_NUMA_ID",
         139: "GPU_PCI_DEVICE_ID", 140: "GPU_PCI_SUBSYSTEM_ID"}


def ask(library):
    """The device's name, and its answers by number."""
    driver = ctypes.CDLL(library)
    name, value = ctypes.create_string_buffer(256), ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGetName(name, 256, 0) != 0:
        raise SystemExit(f"{library} has no device")
    answers = {}
    for number in range(1, LAST):
        if driver.cuDeviceGetAttribute(ctypes.byref(value), number, 0) == 0:
            answers[number] = value.value
    return {"name": name.value.decode(), "answers": answers}


def ask_apart(library):
    """In a process of its own: two drivers in one would share their names."""
    said = subprocess.run([sys.executable, "-B", __file__, "--ask", library], check=True,
                          capture_output=True, text=True).stdout
    found = json.loads(said)
    return found["name"], {int(number): value for number, value in found["answers"].items()}


def compare(real, simulated):
    """(those that differ, those that only the real one has), without what its place gives it."""
    differ = {number: (real.get(number), value) for number, value in simulated.items()
              if value != 0 and number not in PLACE and real.get(number) != value}
    more = {number: value for number, value in real.items()
            if value != 0 and simulated.get(number, 0) == 0 and number not in PLACE}
    return differ, more


def self_test(simulated):
    """An answer that differs is found, one that is missing, and one that only the GPU has; where
    the device stands is not compared."""
    assert compare(simulated, simulated) == ({}, {})
    other = {**simulated, 38: simulated[38] + 1, 33: simulated[33] + 1, 126: 4, 37: 0}
    del other[10]  # the warp
    assert compare(other, simulated) == (
        {38: (simulated[38] + 1, simulated[38]), 37: (0, simulated[37]), 10: (None, 32)},
        {126: 4}), compare(other, simulated)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--simulated")
    parser.add_argument("--real", default="libcuda.so.1")
    parser.add_argument("--ask", metavar="LIBRARY")
    parser.add_argument("--self", action="store_true")
    options = parser.parse_args()
    if options.ask:
        print(json.dumps(ask(options.ask)))
        return 0
    _, simulated = ask_apart(options.simulated)
    assert simulated[16] > 0 and len(simulated) > 100, simulated  # multiprocessors
    if options.self:
        self_test(simulated)
        return 0
    real_name, real = ask_apart(options.real)
    if "H200" not in real_name:
        print(f"skipped: the simulated device plays an H200, and this is {real_name}")
        return 77
    differ, more = compare(real, simulated)
    for number, (there, here) in sorted(differ.items()):
        print(f"attribute {number}: {real_name} says {there}, the simulated device {here}")
    print("only there: " + ", ".join(f"{number}={value}" for number, value in sorted(more.items())))
    print(f"{real_name}: {sum(v != 0 for v in simulated.values())} attributes of the simulated "
          f"device, {len(differ)} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
