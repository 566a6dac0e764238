# SPDX-License-Identifier: Apache-2.0
"""Sizes as people write them: 8 << 30, "8GiB", "1.5 GB"."""
from __future__ import annotations

import re
from fractions import Fraction
from typing import Union

Size = Union[int, str]

_UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
          "KB": 10 ** 3, "MB": 10 ** 6, "GB": 10 ** 9, "TB": 10 ** 12}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", re.ASCII)


def bytes_of(size: Size) -> int:
    """How many bytes that is. ValueError if it is less than none, or not understood."""
    number = size
    if isinstance(size, str):
        found = _SIZE.fullmatch(size)
        if found is None or found[2].upper() not in _UNITS:
            raise ValueError(f"{size!r} is not a size: give bytes, or a number with KiB, MiB, GiB "
                             "or TiB (or KB, MB, GB, TB) after it, such as \"8GiB\"")
        number = int(Fraction(found[1]) * _UNITS[found[2].upper()])
    if number < 0:  # type: ignore[operator]
        raise ValueError(f"a size is not negative: {size!r}")
    return number  # type: ignore[return-value]
