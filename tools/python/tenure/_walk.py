# SPDX-License-Identifier: Apache-2.0
"""Blocks as tnr_memory_walk shows them."""
from __future__ import annotations

import ctypes
from typing import List, Tuple

from . import _library

_LIVE = 0  # TNR_WALKED_LIVE


class _Block(ctypes.Structure):
    """tnr_walked_block."""

    _fields_ = [("base", ctypes.c_size_t), ("bytes", ctypes.c_size_t),
                ("bytes_requested", ctypes.c_size_t), ("state", ctypes.c_int)]


class _Stretch(ctypes.Structure):
    """tnr_stretch."""

    _fields_ = [("base", ctypes.c_size_t), ("bytes", ctypes.c_size_t), ("device", ctypes.c_int),
                ("stream", ctypes.c_void_p), ("pool", ctypes.c_void_p), ("is_small", ctypes.c_int),
                ("blocks", ctypes.POINTER(_Block)), ("blocks_count", ctypes.c_size_t),
                ("reserved", ctypes.c_uint64 * 4)]


_VISIT = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Stretch), ctypes.c_void_p)


def live_blocks(device: int) -> List[Tuple[int, int]]:
    """Address and bytes of each live block of a device, in one consistent picture."""
    found: List[Tuple[int, int]] = []

    def visit(stretch: "ctypes._Pointer[_Stretch]", _: object) -> None:
        blocks = stretch.contents.blocks[:stretch.contents.blocks_count]
        found.extend((one.base, one.bytes) for one in blocks if one.state == _LIVE)

    _library.call("tnr_memory_walk", None, device, _VISIT(visit), None)
    return found
