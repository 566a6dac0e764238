# SPDX-License-Identifier: Apache-2.0
"""What a program or a library of 64-bit Linux needs of others: libraries, and versions of their
symbols. Read from the parts that the loader reads, so that stripped files do as well.

    python3 tenure_elf.py FILE...     a line for each: what it needs
"""
from __future__ import annotations

import struct
import sys
from typing import Dict, Iterator, List, NamedTuple, Set, Tuple

_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRTAB, _VERNEED, _VERNEEDNUM = 1, 5, 0x6FFFFFFE, 0x6FFFFFFF


class Needs(NamedTuple):
    """``libraries``: names in DT_NEEDED. ``versions``: such as GLIBC_2.34, of any of them."""

    libraries: List[str]
    versions: Set[str]


class _File:
    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("no 64-bit ELF file")
        self.data = data
        (start,), (size, count) = struct.unpack_from("<Q", data, 32), struct.unpack_from(
            "<HH", data, 54)
        # Of each part: kind, place in the file, address, bytes in the file.
        self.parts = [self._part(start + size * i) for i in range(count)]
        self.dynamic = list(self._dynamic())
        self.values: Dict[int, int] = dict(self.dynamic)

    def _part(self, place: int) -> Tuple[int, int, int, int]:
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", self.data, place)
        return kind, offset, address, length

    def place_of(self, address: int) -> int:
        for kind, offset, base, length in self.parts:
            if kind == _LOAD and base <= address < base + length:
                return offset + address - base
        raise ValueError(f"address {address:#x} is in no part of the file")

    def _dynamic(self) -> Iterator[Tuple[int, int]]:
        for kind, offset, _, length in self.parts:
            if kind == _DYNAMIC:
                for place in range(offset, offset + length, 16):
                    tag, value = struct.unpack_from("<qQ", self.data, place)
                    if tag == 0:
                        return
                    yield tag, value

    def text(self, offset: int) -> str:
        start = self.place_of(self.values[_STRTAB]) + offset
        return self.data[start:self.data.index(b"\0", start)].decode()

    def versions(self) -> Iterator[str]:
        if _VERNEED not in self.values:
            return
        need = self.place_of(self.values[_VERNEED])
        for _ in range(self.values[_VERNEEDNUM]):
            _, count, _, first, following = struct.unpack_from("<HHIII", self.data, need)
            one = need + first
            for _ in range(count):
                _, _, _, name, after = struct.unpack_from("<IHHII", self.data, one)
                yield self.text(name)
                one += after
            need += following


def needs(path: str) -> Needs:
    """What the file needs. ValueError: this cannot read the file."""
    with open(path, "rb") as file:
        elf = _File(file.read())
    return Needs([elf.text(value) for tag, value in elf.dynamic if tag == _NEEDED],
                 set(elf.versions()))


def glibc_of(path: str) -> Tuple[int, ...]:
    """The oldest C library that the file can use; (0,): it needs none."""
    found = [tuple(map(int, version[6:].split("."))) for version in needs(path).versions
             if version.startswith("GLIBC_") and version[6:7].isdigit()]
    return max(found, default=(0,))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, " ".join(needs(name).libraries), ".".join(map(str, glibc_of(name))))
