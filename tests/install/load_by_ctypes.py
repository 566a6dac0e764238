#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""load_by_ctypes.py LIBRARY: loads libtenure.so as Python engines load plugins, and uses it."""
import ctypes
import sys

OK, ERR_FOREIGN_POINTER, ERR_NOT_LIVE = 0, 6, 8


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.tnr_malloc.argtypes = [
        ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    library.tnr_free.argtypes = [ctypes.c_void_p]
    library.tnr_shutdown.argtypes = [ctypes.c_int]
    library.tnr_last_error.restype = ctypes.c_char_p

    def must(status, wanted=OK):
        if status != wanted:
            sys.exit(f"status {status}, not {wanted}: {library.tnr_last_error().decode()}")

    blocks = []
    for size in (1, 512, 4096, 1 << 20, 3 << 20, 64 << 20):
        pointer = ctypes.c_void_p()
        must(library.tnr_malloc(ctypes.byref(pointer), size, 0, None))
        if not pointer.value or pointer.value % 512:
            sys.exit(f"{size} bytes: a bad address {pointer.value}")
        blocks.append((pointer.value, size))
    blocks.sort()
    for (low, size), (high, _) in zip(blocks, blocks[1:]):
        if low + size > high:
            sys.exit(f"blocks overlap: {low:#x} + {size} > {high:#x}")
    for address, _ in blocks:
        must(library.tnr_free(address))
    must(library.tnr_free(blocks[0][0]), ERR_NOT_LIVE)
    must(library.tnr_free(0x1000), ERR_FOREIGN_POINTER)
    if not library.tnr_last_error():
        sys.exit("an error without a sentence")
    must(library.tnr_shutdown(0))
    print(f"allocated and freed {len(blocks)} blocks through ctypes")


if __name__ == "__main__":
    main()
