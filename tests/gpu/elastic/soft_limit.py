# SPDX-License-Identifier: Apache-2.0
"""How long a group is above its soft limit after the limit has fallen, while the program does
nothing: from the write of the file to when the driver has the memory back.

    soft_limit.py [FALLS]

A folder plays the control group, as no kernel of today has the device's memory in one: this program
writes there what it has reserved, every half millisecond. Exit codes: 0 never longer than 50 ms; 1
longer."""
import ctypes
import os
import pathlib
import sys
import tempfile
import threading
import time

import tenure
from tenure import _library

MIB = 1 << 20
LIVE, IDLE, FALL = 64 * MIB, 1024 * MIB, 512 * MIB


def call(library, name, *arguments):
    status = getattr(library, name)(*arguments)
    if status != 0:
        raise RuntimeError(f"{name}: {status}")


def bus_of_device():
    driver = ctypes.CDLL(os.environ.get("SOFT_DRIVER", "libcuda.so.1"))
    numbers = [ctypes.c_int() for _ in range(3)]
    call(driver, "cuInit", 0)
    for number, attribute in zip(numbers, (50, 33, 34)):  # PCI domain, bus, device
        call(driver, "cuDeviceGetAttribute", ctypes.byref(number), attribute, 0)
    return "{:04x}:{:02x}:{:02x}.0".format(*(number.value for number in numbers))


def malloc(bytes):
    place = ctypes.c_void_p()
    _library.call("tnr_malloc", ctypes.byref(place), bytes, 0, None)
    return place


def free(place):
    _library.call("tnr_free", place)


def reserved():
    return tenure.stats()["reserved_bytes.all.current"]


class Group:
    """The folder. Files are replaced at once, so that no reader finds half of one."""

    def __init__(self, root):
        own = pathlib.Path("/proc/self/cgroup").read_text().split("::")[-1].split("\n")[0]
        self.folder = pathlib.Path(root + own)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.region = f"nvidia/{bus_of_device()}/vidmem"
        self.is_over = False
        self.put("dmem.low", 1 << 50)
        self.put("dmem.current", 0)
        self.thread = threading.Thread(target=self.follow, daemon=True)

    def put(self, name, number):
        fresh = self.folder / (name + ".fresh")
        fresh.write_text(f"{self.region} {number}\n")
        fresh.rename(self.folder / name)

    def await_current(self, bytes):
        """Until the folder says so, whose thread may have been late."""
        while not (self.folder / "dmem.current").read_text().endswith(f" {bytes}\n"):
            time.sleep(0.0005)

    def follow(self):
        while not self.is_over:
            self.put("dmem.current", reserved())
            time.sleep(0.0005)


def fall(group):
    """Milliseconds until what is idle has gone, as far as the limit wants, and until the first of
    it had gone: before that, the library had not looked."""
    group.put("dmem.low", 1 << 50)
    block = malloc(IDLE)
    free(block)
    limit = LIVE + IDLE - FALL
    time.sleep(0.05)
    before = reserved()
    assert before >= LIVE + IDLE
    group.await_current(before)
    began, first = time.perf_counter(), None
    group.put("dmem.low", limit)
    while (now := reserved()) > limit:
        if now < before and first is None:
            first = time.perf_counter() - began
        if time.perf_counter() - began > 60:
            sys.exit("after 60 s not yet under the limit")
        time.sleep(0.0002)
    took = time.perf_counter() - began
    return 1e3 * took, 1e3 * (took if first is None else first)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory() as root:
        tenure.configure(f"cgroup:{root},control:on,control_dir:{root}/control")
        group = Group(root)
        live = malloc(LIVE)
        group.thread.start()
        took = sorted(fall(group) for _ in range(count))
        group.is_over = True
        group.thread.join()
        free(live)
    totals = [total for total, _ in took]
    print(f"{count} falls by {FALL // MIB} MiB: under the limit after {totals[count // 2]:.1f} ms "
          f"in the median, {totals[count * 95 // 100]:.1f} in 95 of 100, {totals[-1]:.1f} at most; "
          f"the first of the longest had gone after {took[-1][1]:.1f}")
    return 0 if totals[-1] <= 50 else 1


if __name__ == "__main__":
    sys.exit(main())
