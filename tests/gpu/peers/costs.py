# SPDX-License-Identifier: Apache-2.0
"""costs.py: what the driver itself charges for opening memory to a peer and closing it, in chunks
of 2 MiB: a call for each chunk, one call over all, and unmapping and mapping again. Two GPUs.
"""
import ctypes
import time

CHUNKS, BYTES = 256, 2 << 20
OWN, PEER, NONE, READWRITE = 0, 1, 0, 3
cuda = ctypes.CDLL("libcuda.so.1")


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


class Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location),
                ("security", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


def check(result):
    if result != 0:
        raise RuntimeError(f"the driver said {result}")


def address_of(base, chunk):
    return ctypes.c_ulonglong(base + chunk * BYTES)


def access(base, chunk, chunks, device, flags):
    wanted = Access(Location(1, device), flags)
    check(cuda.cuMemSetAccess(address_of(base, chunk), ctypes.c_size_t(chunks * BYTES),
                              ctypes.byref(wanted), ctypes.c_size_t(1)))


def measure():
    """{what: microseconds a chunk}, the last of what is done several times."""
    costs = {}

    def timed(what, work):
        began = time.perf_counter()
        work()
        costs[what] = (time.perf_counter() - began) / CHUNKS * 1e6

    check(cuda.cuInit(0))
    for device in (PEER, OWN):
        context = ctypes.c_void_p()
        check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        check(cuda.cuCtxSetCurrent(context))
    reserved = ctypes.c_ulonglong()
    check(cuda.cuMemAddressReserve(ctypes.byref(reserved), ctypes.c_size_t(CHUNKS * BYTES),
                                   ctypes.c_size_t(0), ctypes.c_ulonglong(0),
                                   ctypes.c_ulonglong(0)))
    base, handles = reserved.value, []
    properties = Properties(1, 1, Location(1, OWN))

    def create():
        for _ in range(CHUNKS):
            handle = ctypes.c_ulonglong()
            check(cuda.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(BYTES),
                                   ctypes.byref(properties), ctypes.c_ulonglong(0)))
            handles.append(handle)

    def place():
        for chunk, handle in enumerate(handles):
            check(cuda.cuMemMap(address_of(base, chunk), ctypes.c_size_t(BYTES),
                                ctypes.c_size_t(0), handle, ctypes.c_ulonglong(0)))

    def again():
        check(cuda.cuMemUnmap(address_of(base, 0), ctypes.c_size_t(CHUNKS * BYTES)))
        place()
        access(base, 0, CHUNKS, OWN, READWRITE)

    def each(flags):
        for chunk in range(CHUNKS):
            access(base, chunk, 1, PEER, flags)

    create()
    timed("map", place)
    timed("own access, one call", lambda: access(base, 0, CHUNKS, OWN, READWRITE))
    for _ in range(2):
        timed("peer opened, a call each", lambda: each(READWRITE))
        timed("peer closed, a call each", lambda: each(NONE))
        timed("peer opened, one call", lambda: access(base, 0, CHUNKS, PEER, READWRITE))
        timed("peer closed, one call", lambda: access(base, 0, CHUNKS, PEER, NONE))
        access(base, 0, CHUNKS, PEER, READWRITE)
        timed("unmapped, mapped, own access", again)
    return costs


if __name__ == "__main__":
    for name, us in measure().items():
        print(f"{name:32} {us:7.1f} us a chunk")
