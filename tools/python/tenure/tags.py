# SPDX-License-Identifier: Apache-2.0
"""Memory by its purpose: one name for weights, another for a cache, and operations by name.

>>> with tenure.tags.region("weights"):        # also tenure.torch.region
...     model = load()
>>> tenure.tags.sleep("weights")                # its memory is the driver's; addresses stay
>>> tenure.tags.wake("weights")                 # contents are there again

What the thread allocates inside a region carries the region's tag, on every device, with any engine
that Tenure serves. Pools that are made there carry it, too, also those of CUDA graphs. A tensor
keeps its tag, wherever it is freed. Regions nest, and the innermost counts.
`<tenure/tag.h>` has the whole story. ``tenure ctl`` does the same from outside the process.
"""
from __future__ import annotations

import contextlib
import ctypes
import json
from typing import Any, Dict, Iterator, List, Optional

from . import _library
from ._sizes import Size, bytes_of
from ._library import Error

__all__ = ["limit", "names", "of", "region", "sleep", "stats", "trim", "wake"]

_CONTENT = {None: 0, "keep": 1, "discard": 2, "disk": 3}


class _SleepOptions(ctypes.Structure):
    """tnr_sleep_options."""

    _fields_ = [("struct_bytes", ctypes.c_size_t), ("content", ctypes.c_int),
                ("keep_backing", ctypes.c_int), ("pinned_bytes_max", ctypes.c_size_t)]


class _DeviceInfo(ctypes.Structure):
    """tnr_device_info."""

    _fields_ = [("struct_bytes", ctypes.c_size_t), ("name", ctypes.c_char * 256),
                ("memory_bytes", ctypes.c_size_t), ("granularity_bytes", ctypes.c_size_t),
                ("compute_major", ctypes.c_int), ("compute_minor", ctypes.c_int),
                ("has_vmm", ctypes.c_int), ("has_posix_fd", ctypes.c_int),
                ("has_fabric", ctypes.c_int), ("has_gpu_direct_rdma", ctypes.c_int),
                ("in_use", ctypes.c_int), ("address_base", ctypes.c_size_t),
                ("address_bytes", ctypes.c_size_t)]


def _devices(device: Optional[int]) -> List[int]:
    """The device that is named, or all that Tenure has memory on."""
    if device is not None:
        return [device]
    found = []
    info = _DeviceInfo(struct_bytes=ctypes.sizeof(_DeviceInfo))
    for index in range(64):
        if _library.library().tnr_device_get(ctypes.byref(info), index) != 0:
            if index == 0:
                raise Error(f"tnr_device_get: {_library.last_error()}")
            break
        if info.in_use:
            found.append(index)
    return found


def _content(word: Optional[str]) -> int:
    if word not in _CONTENT:
        raise ValueError(f"content {word!r} is not one of \"keep\", \"disk\" and \"discard\"")
    return _CONTENT[word]


def _list(tags: Any) -> Any:
    """A list of tags for C. Without tags it is null, which means all tags."""
    return (ctypes.c_char_p * len(tags))(*(tag.encode() for tag in tags)) if tags else None


@contextlib.contextmanager
def region(tag: str, content: Optional[str] = None) -> Iterator[None]:
    """What the calling thread allocates inside carries the tag. ``content`` says what becomes of
    the contents in a sleep that does not say so itself: ``"keep"`` (the default), ``"disk"``
    (kept in files of the folder that the setting contents_dir names), or ``"discard"``."""
    pool = ctypes.c_void_p()
    _library.call("tnr_tag_pool", ctypes.byref(pool), tag.encode(), _content(content))
    _library.call("tnr_pool_push", pool)
    try:
        yield
    finally:
        _library.call("tnr_pool_pop", pool)


def sleep(*tags: str, device: Optional[int] = None, content: Optional[str] = None,
          pinned_bytes_max: Size = 0, keep_backing: bool = False) -> None:
    """Gives the memory of these tags, or of all tags, back to the driver; addresses stay. On each
    device that Tenure uses, or on ``device`` alone, it gives back all of it or none. ``content``
    overrules what regions said. An unknown tag raises Error. Memory that sleeps already stays as it
    is."""
    options = _SleepOptions(ctypes.sizeof(_SleepOptions), _content(content), int(keep_backing),
                            bytes_of(pinned_bytes_max))
    for each in _devices(device):
        _library.call("tnr_tags_sleep", _list(tags), len(tags), each, ctypes.byref(options))


def wake(*tags: str, device: Optional[int] = None) -> None:
    """Brings the memory of these tags, or of all tags, back, in this order. Others sleep on."""
    for each in _devices(device):
        _library.call("tnr_tags_wake", _list(tags), len(tags), each)


def limit(tag: str, bytes: Optional[Size], device: int = 0) -> None:
    """The most that may be reserved for the tag on a device; None: no limit."""
    most = ctypes.c_size_t(-1).value if bytes is None else bytes_of(bytes)
    _library.call("tnr_tag_limit_set", tag.encode(), most, device)


def trim(tag: str, keep_bytes: Size = 0, device: int = 0) -> int:
    """Gives idle memory with the tag back to the driver; returns how many bytes."""
    released = ctypes.c_size_t()
    _library.call("tnr_tag_trim", ctypes.byref(released), tag.encode(), bytes_of(keep_bytes),
                  device)
    return released.value


def stats(tag: str, device: int = 0) -> Dict[str, int]:
    """tenure.stats() of the memory with a tag; "bytes_asleep" is what it has given back."""
    return json.loads(_library.text("tnr_tag_stats_json", tag.encode(), device))


def names() -> List[str]:
    """The tags that there are, in the order in which they were first used."""
    found: List[str] = []
    while True:
        name = _library.library().tnr_tag_name(len(found))
        if name is None:
            return found
        found.append(name.decode())


def of(memory: Any) -> Optional[str]:
    """The tag of a tensor, an array or an address; None if it has none. Memory that is not Tenure's
    raises Error."""
    from . import _address
    name = ctypes.c_char_p()
    _library.call("tnr_tag_of", ctypes.byref(name), _address(memory))
    return None if name.value is None else name.value.decode()
