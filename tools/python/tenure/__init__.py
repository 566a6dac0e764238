# SPDX-License-Identifier: Apache-2.0
"""Tenure, a CUDA caching allocator and lifetime tracker, from Python.

>>> import tenure.torch
>>> tenure.torch.install()        # before CUDA is used: PyTorch's memory comes from Tenure
>>> import tenure.cupy
>>> tenure.cupy.install()         # the same for CuPy; tenure.numba, tenure.cuda_core likewise

These functions work with the memory of any engine that Tenure serves:

>>> tenure.record_use(x, stream)  # the use of x by that stream ends here
>>> tenure.mark("step 12")        # what this thread does from now on, for the history
>>> tenure.name_stream(stream, "prefetch")   # what snapshots and `tenure top` call it
>>> tenure.stats()["reserved_bytes.all.current"]
>>> tenure.snapshot("memory.json")
>>> with tenure.Pool(limit_bytes="1GiB"): ...       # memory apart
>>> tenure.sleep(); tenure.wake()                   # all of it to the driver, and back
>>> with tenure.tags.region("weights"): ...     # memory that sleeps and wakes by name
>>> tenure.published.attach("weights")          # memory that another process holds
>>> tenure.ranges.Range("64GiB")                # addresses whose pages get memory one by one
>>> tenure.dlpack.empty((1024,), "float32")     # an array that every engine takes by DLPack

Pure Python over ctypes. ``tenure._library`` says where libtenure.so is searched for.
"""
from __future__ import annotations

import ctypes
import importlib
import os
from typing import Any, Dict, List, Optional, Tuple, Union

from . import _frames, _library, _pools
from ._library import Error, NotFound
from ._pools import Pool, compact, set_limit, sleep, trim, wake

__all__ = ["Error", "NotFound", "Pool", "compact", "configure", "history", "mark", "name_stream",
           "park", "record_use", "set_content", "set_limit", "sleep", "snapshot", "stats", "trim",
           "unpark", "version", "wake"]

_FORMATS = {"auto": 0, "json": 1, "pickle": 2, "json.gz": 257, "pickle.gz": 258}
_HISTORY = {"off": 0, "light": 1, "full": 2}


def __dir__() -> List[str]:
    return sorted(__all__ + ["cuda_core", "cupy", "dlpack", "memory_saver", "numba", "published",
                             "ranges", "tags", "torch", "vllm"])


def __getattr__(name: str) -> Any:
    if name in ("torch", "cupy", "numba", "cuda_core", "dlpack", "tags", "memory_saver",
                "published", "ranges", "vllm"):
        try:
            return importlib.import_module("." + name, __name__)
        except ImportError as problem:  # as for any name that isn't there: help() goes on
            raise AttributeError(f"tenure.{name} needs what this Python lacks: {problem}"
                                 ) from problem
    if name == "__version__":
        return _library.VERSION
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def version() -> Tuple[int, int, int]:
    """The version of libtenure.so, as (major, minor, patch)."""
    number = _library.library().tnr_version()
    return number // 10000, number // 100 % 100, number % 100


def configure(conf: Union[str, Dict[str, Any]]) -> None:
    """Changes settings: ``"key:value,key:value"`` as in TENURE_CONF, or a dictionary. An unknown
    key or a bad value raises Error, which names what is allowed, and changes nothing."""
    if not isinstance(conf, str):
        conf = ",".join(f"{key}:{value}" for key, value in conf.items())
    _library.call("tnr_configure", conf.encode())


def history(mode: str, records: int = 0) -> None:
    """Records what happens to memory from now on: ``"off"``, ``"light"`` (some 20 ns for each
    operation) or ``"full"`` (with call stacks: of Python's lines, where a thread runs Python).
    ``records`` is the room; 0 keeps it as it is."""
    if mode not in _HISTORY:
        raise ValueError(f"history {mode!r} is not one of {', '.join(_HISTORY)}")
    if mode == "full":
        _frames.begin()
    _library.call("tnr_history_set", records, _HISTORY[mode])


def mark(text: Optional[str]) -> None:
    """Says what the calling thread does from now on. The thread's records in the history carry the
    text until it says something else. None ends that. Meant for texts that come again."""
    _library.call("tnr_mark", None if text is None else text.encode())


def name_stream(stream: Any, name: Optional[str], device: Optional[int] = None) -> None:
    """Says what a stream is for: snapshots, reports and ``tenure top`` show the name beside its
    handle, until the stream is destroyed. None takes the name away.

    ``stream`` is as in record_use(), except that None is not allowed. The device of a PyTorch
    stream is known; otherwise the device is ``device``, or 0. A destroyed stream must not be
    named."""
    if device is None:
        device = getattr(stream, "device_index", 0)  # PyTorch's
    _library.call("tnr_stream_name_set", device, _handle(stream),
                  None if name is None else name.encode("utf-8", "replace"))


def snapshot(path: Union[str, "os.PathLike[str]"], format: str = "auto") -> None:
    """Writes a consistent picture of all memory, with the history, to a file.

    ``"json"`` is Tenure's own format, for `tenure snapshot`. ``"pickle"`` is PyTorch's, for its
    viewer and tools. With ``".gz"`` after it, the file is compressed. ``"auto"`` takes the end
    of the path."""
    if format not in _FORMATS:
        raise ValueError(f"format {format!r} is not one of {', '.join(_FORMATS)}")
    _library.call("tnr_snapshot_write", os.fsencode(path), _FORMATS[format])


def stats(device: int = 0) -> Dict[str, int]:
    """What Tenure holds and has done on a device, by name. If PyTorch has the same statistic, the
    name is that of torch.cuda.memory_stats(): "reserved_bytes.all.peak", for example."""
    return _library.stats(None, device)


def set_content(tensor: Any, contents: str) -> None:
    """Sets what becomes of a tensor's contents in every sleep of its pool: "keep", "discard", or
    "default": as the sleep says. ``tensor`` is as in record_use()."""
    number = _pools.number_of("contents", contents, _pools.CONTENTS)
    _library.call("tnr_block_content_set", _address(tensor), number)


def park(tensor: Any, stream: Any = None, contents: str = "default") -> int:
    """From this point of the stream on, the memory of a tensor may serve others. Its addresses
    stay, for the graphs that know them. Returns how many bytes are parked: whole chunks of 2 MiB or
    more. ``contents`` is "keep" (in pinned host memory), "discard", or "default": as set_content()
    or the pool says, else keep. Until unpark() nothing may use the tensor.

    ``tensor`` and ``stream`` are as in record_use(). The tensor must span all of its block, from
    the block's start."""
    number = _pools.number_of("contents", contents, _pools.CONTENTS)
    handle = _current(tensor) if stream is None else _handle(stream)
    parked = ctypes.c_size_t()
    _library.call("tnr_park", ctypes.byref(parked), _address(tensor), handle, number)
    return parked.value


def unpark(tensor: Any, stream: Any = None) -> None:
    """Brings memory back to a parked tensor, before the stream's next work. The contents are there
    again if they were kept."""
    handle = _current(tensor) if stream is None else _handle(stream)
    _library.call("tnr_unpark", _address(tensor), handle)


def record_use(tensor: Any, stream: Any = None) -> None:
    """The use of a tensor by a stream ends here: work given to the stream so far may use its
    memory, later work does not. Call it after the last launch or copy that touches it; then drop
    the tensor whenever you like. More precise than PyTorch's ``tensor.record_stream(stream)``,
    which keeps the memory until the stream has done all that it was given when the tensor died.

    ``tensor`` is a PyTorch tensor, a CuPy array, anything with ``__cuda_array_interface__``, or an
    address; views will do. ``stream`` is a stream of either, anything with ``__cuda_stream__``, a
    handle, or None for the current stream of the tensor's engine. Memory that is not Tenure's
    raises Error."""
    address = _address(tensor)
    if address:  # a tensor without bytes has no address
        handle = _current(tensor) if stream is None else _handle(stream)
        _library.call("tnr_record_use", address, handle)


def _address(tensor: Any) -> int:
    if isinstance(tensor, int):
        return tensor
    if hasattr(tensor, "data_ptr"):
        return tensor.data_ptr()
    if hasattr(tensor, "__cuda_array_interface__"):
        return tensor.__cuda_array_interface__["data"][0]
    raise TypeError(f"{type(tensor).__name__} is not a tensor on a GPU: it has neither "
                    "data_ptr() nor __cuda_array_interface__")


def _handle(stream: Any) -> int:
    if isinstance(stream, int):
        return stream
    if hasattr(stream, "cuda_stream"):  # PyTorch
        return stream.cuda_stream
    if hasattr(stream, "__cuda_stream__"):
        return stream.__cuda_stream__()[1]
    if hasattr(stream, "ptr"):  # CuPy
        return stream.ptr
    raise TypeError(f"{type(stream).__name__} is not a CUDA stream")


def _current(tensor: Any) -> int:
    """The stream that the tensor's engine launches on now."""
    engine = type(tensor).__module__.split(".")[0]
    if engine == "cupy":
        return importlib.import_module("cupy").cuda.get_current_stream().ptr
    if hasattr(tensor, "data_ptr"):
        torch = importlib.import_module("torch")
        return torch.cuda.current_stream(tensor.device).cuda_stream
    raise TypeError(f"which stream is current is not known for a {type(tensor).__name__}: "
                    "pass it as the second argument")
