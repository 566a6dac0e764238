# SPDX-License-Identifier: Apache-2.0
"""Blocks that a process holds for others under a name, such as the weights of a model.

>>> with tenure.Pool(shared=True):                     # the holder
...     weights = torch.empty(60 << 30, dtype=torch.uint8, device="cuda")
>>> torch.cuda.synchronize()                           # once they are written
>>> tenure.published.publish("weights", weights)       # its generation: 1
>>> weights = tenure.published.attach("weights")       # any other process of the same user
>>> weights.address, weights.nbytes, weights.generation
>>> weights.close()

Nothing is copied. Publishing under a name again makes its next generation. A process that has
attached the former generation keeps it. ``tenure hold`` is a holder as a command.
`<tenure/publish.h>` has the whole story.
"""
from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Tuple

from . import _address, _library

__all__ = ["Attached", "attach", "hold", "latest", "publish", "unpublish"]


class _ImportOptions(ctypes.Structure):
    """tnr_import_options."""

    _fields_ = [("struct_bytes", ctypes.c_size_t), ("same_address", ctypes.c_int),
                ("peers", ctypes.c_uint64), ("read_only", ctypes.c_int)]


class _ImportInfo(ctypes.Structure):
    """tnr_import_info."""

    _fields_ = [("struct_bytes", ctypes.c_size_t), ("ptr", ctypes.c_void_p),
                ("bytes", ctypes.c_size_t), ("device", ctypes.c_int),
                ("device_owner", ctypes.c_int), ("is_read_only", ctypes.c_int),
                ("process", ctypes.c_int), ("generation", ctypes.c_uint64),
                ("published", ctypes.c_char * 64)]


class _PublishOptions(ctypes.Structure):
    """tnr_publish_options."""

    _fields_ = [("struct_bytes", ctypes.c_size_t), ("replace", ctypes.c_int),
                ("older_max", ctypes.c_uint32), ("yields", ctypes.c_int)]


class _PublishedInfo(ctypes.Structure):
    """tnr_published_info."""

    _fields_ = [("struct_bytes", ctypes.c_size_t), ("generation", ctypes.c_uint64),
                ("bytes", ctypes.c_size_t), ("holders", ctypes.c_uint32),
                ("processes", ctypes.c_int * 4)]


def publish(name: str, tensor: Any, replace: bool = False, yields: bool = False) -> int:
    """Publishes the block that a tensor lies in as the next generation of a name, and returns its
    number. The tensor may be dropped. Finish the work that writes it before. ``replace``: also a
    name that other processes hold. ``yields``: the publication ends when a member of the group is
    short of memory and the block has no user (``docs/hold.md``)."""
    options = _PublishOptions(ctypes.sizeof(_PublishOptions), int(replace), 0, int(yields))
    generation = ctypes.c_uint64()
    _library.call("tnr_publish", ctypes.byref(generation), name.encode(), _address(tensor),
                  ctypes.byref(options))
    return generation.value


def hold(name: str) -> int:
    """Makes this process one more holder of the latest generation, and returns its number."""
    generation = ctypes.c_uint64()
    _library.call("tnr_hold", ctypes.byref(generation), name.encode(), None)
    return generation.value


def unpublish(name: str) -> None:
    """Ends what this process holds under a name. Readers keep what they have."""
    _library.call("tnr_unpublish", name.encode())


def latest(name: str) -> Dict[str, Any]:
    """What exists under a name: ``generation``, ``nbytes`` and the ``processes`` that hold it."""
    info = _PublishedInfo(struct_bytes=ctypes.sizeof(_PublishedInfo))
    _library.call("tnr_published_get", ctypes.byref(info), name.encode())
    processes: List[int] = list(info.processes)[:info.holders]
    return {"generation": info.generation, "nbytes": info.bytes, "processes": processes}


class Attached:
    """A published block, mapped here for reading until close(). ``__cuda_array_interface__`` makes
    it an array of bytes to engines; drop those arrays before."""

    def __init__(self, info: _ImportInfo) -> None:
        self.address: int = info.ptr
        self.nbytes: int = info.bytes
        self.device: int = info.device
        self.generation: int = info.generation
        self.process: int = info.process
        self.is_read_only = bool(info.is_read_only)

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        if not self.address:
            raise ValueError("the published block was closed")
        # Not marked as read-only: engines refuse arrays with that mark, though they would only read
        # them.
        data: Tuple[int, bool] = (self.address, False)
        return {"version": 3, "shape": (self.nbytes,), "typestr": "|u1", "data": data,
                "strides": None}

    def close(self) -> None:
        """Gives the block up, once the device's work is over."""
        address, self.address = self.address, 0
        if address:
            _library.call("tnr_import_close", address)

    def __enter__(self) -> "Attached":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def attach(name: str, device: int = 0, same_address: bool = False) -> Attached:
    """Attaches the latest generation of a name. ``same_address``: at the address where its holder
    has it, or not at all."""
    options = _ImportOptions(ctypes.sizeof(_ImportOptions), int(same_address), 0, 1)
    info = _ImportInfo(struct_bytes=ctypes.sizeof(_ImportInfo))
    _library.call("tnr_attach", ctypes.byref(info), name.encode(), device, ctypes.byref(options))
    return Attached(info)
