# SPDX-License-Identifier: Apache-2.0
"""Addresses whose pages get memory and lose it one by one, under graphs that know them.

>>> cache = tenure.ranges.Range("64GiB", stream=stream)   # addresses only
>>> cache.commit(7 * cache.page_bytes, cache.page_bytes)  # page 7 has memory
>>> keys = torch.as_tensor(cache, device="cuda")          # a tensor of bytes over all of it
>>> cache.decommit(7 * cache.page_bytes, cache.page_bytes)
>>> cache.close()

What has no memory faults when it is used. Work that the range's stream has by then may still use a
page that is decommitted; another stream's use is recorded with ``tenure.record_use(cache, other)``.
`<tenure/range.h>` has the whole story.
"""
from __future__ import annotations

import ctypes
from typing import Any, Dict

from . import _library
from ._sizes import Size, bytes_of

__all__ = ["Range"]


class _BlockInfo(ctypes.Structure):
    """tnr_block_info."""

    _fields_ = [("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t),
                ("bytes_requested", ctypes.c_size_t), ("bytes_reserved", ctypes.c_size_t),
                ("device", ctypes.c_int), ("stream", ctypes.c_void_p), ("pool", ctypes.c_void_p),
                ("segment", ctypes.c_void_p), ("segment_bytes", ctypes.c_size_t),
                ("reserved", ctypes.c_uint64 * 4)]


class _SettingInfo(ctypes.Structure):
    """tnr_setting_info."""

    _fields_ = [("struct_bytes", ctypes.c_size_t), ("key", ctypes.c_char_p),
                ("type", ctypes.c_char_p), ("default_value", ctypes.c_char_p),
                ("value", ctypes.c_char_p), ("allowed", ctypes.c_char_p),
                ("help", ctypes.c_char_p), ("at_start", ctypes.c_int), ("is_set", ctypes.c_int)]


class Range:
    """Addresses for ``bytes_max`` on a device, for use on ``stream``: as for record_use(), or None
    for the default stream. Without memory at first. Ends with close(), or with the object."""

    def __init__(self, bytes_max: Size, device: int = 0, stream: Any = None) -> None:
        from . import _handle
        address = ctypes.c_void_p()
        self.address = 0
        self.bytes_max = bytes_of(bytes_max)
        if self.bytes_max == 0:
            raise ValueError("a range of 0 bytes has no addresses")
        self._stream = 0 if stream is None else _handle(stream)
        _library.call("tnr_reserve", ctypes.byref(address), self.bytes_max, device, self._stream)
        self.address = address.value or 0

    def commit(self, offset: Size, bytes: Size) -> None:
        """Gives memory to each page that these bytes touch: to all of them, or to none."""
        _library.call("tnr_commit_range", self._there(), bytes_of(offset), bytes_of(bytes))

    def decommit(self, offset: Size, bytes: Size) -> None:
        """Takes the memory from each page that lies wholly inside these bytes."""
        _library.call("tnr_decommit_range", self._there(), bytes_of(offset), bytes_of(bytes))

    @property
    def committed_bytes(self) -> int:
        """Bytes that have memory now."""
        info = _BlockInfo()
        _library.call("tnr_block_get", ctypes.byref(info), self._there())
        return info.bytes

    @property
    def page_bytes(self) -> int:
        """The size of a page: the setting chunk_mb."""
        info = _SettingInfo(struct_bytes=ctypes.sizeof(_SettingInfo))
        index = 0
        while info.key != b"chunk_mb":
            _library.call("tnr_setting_get", ctypes.byref(info), index)
            index += 1
        return int(info.value) << 20

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        return {"shape": (self.bytes_max,), "typestr": "|u1", "data": (self._there(), False),
                "strides": None, "version": 3, "stream": self._stream or 1}

    def close(self) -> None:
        """Frees all of it. Again does nothing."""
        address, self.address = self.address, 0
        if address:
            _library.call("tnr_free", address)

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # the library has ended, and the range with it
            pass

    def _there(self) -> int:
        if not self.address:
            raise ValueError("the range was closed")
        return self.address
