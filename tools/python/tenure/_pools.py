# SPDX-License-Identifier: Apache-2.0
"""Pools, limits, trim and sleep: Pool, set_limit, trim, compact, sleep, wake of ``tenure``."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Optional

from . import _library
from ._sizes import Size, bytes_of

HANDLES = {"default": 0, "none": 1, "posix_fd": 2, "fabric": 3}
CONTENTS = {"default": 0, "keep": 1, "discard": 2, "disk": 3}
_NO_LIMIT = ctypes.c_size_t(-1).value


class _PoolOptions(ctypes.Structure):
    """tnr_pool_options."""

    _fields_ = [("struct_bytes", ctypes.c_size_t), ("name", ctypes.c_char_p),
                ("limit_bytes", ctypes.c_size_t), ("release_threshold_bytes", ctypes.c_size_t),
                ("handle_type", ctypes.c_int), ("gpu_direct_rdma", ctypes.c_int),
                ("segment_alloc", ctypes.c_void_p), ("segment_free", ctypes.c_void_p),
                ("segment_user", ctypes.c_void_p), ("segment_bytes", ctypes.c_size_t),
                ("is_shared", ctypes.c_int)]


class _SleepOptions(ctypes.Structure):
    """tnr_sleep_options."""

    _fields_ = [("struct_bytes", ctypes.c_size_t), ("content", ctypes.c_int),
                ("keep_backing", ctypes.c_int), ("pinned_bytes_max", ctypes.c_size_t)]


def number_of(name: str, value: str, numbers: Dict[str, int]) -> int:
    """The number of a choice. ValueError names those that there are."""
    if value not in numbers:
        raise ValueError(f"{name} {value!r} is not one of {', '.join(numbers)}")
    return numbers[value]


def _sleep_options(contents: str, keep_backing: bool, pinned_bytes_max: Size) -> Any:
    return ctypes.byref(_SleepOptions(
        ctypes.sizeof(_SleepOptions), number_of("contents", contents, CONTENTS),
        int(keep_backing), bytes_of(pinned_bytes_max)))


# Pools that were dropped with live blocks. They end when those blocks are gone.
_ending: List[int] = []


def _end(handle: int) -> None:
    status = _library.library().tnr_pool_destroy(handle)
    if status == _library.ERR_BUSY:
        _ending.append(handle)


def _end_those() -> None:
    waiting = _ending[:]
    del _ending[:]
    for handle in waiting:
        _end(handle)


class Pool:
    """Memory apart from all other, on one device, for whichever engine Tenure serves:

    >>> pool = tenure.Pool(name="kv cache", limit_bytes="8GiB")
    >>> with pool:
    ...     cache = torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
    >>> pool.sleep("discard")     # its memory goes back to the driver, its addresses stay
    >>> pool.wake()

    What the calling thread allocates on the device inside of ``with`` comes from the pool. Other
    threads, and other devices, are not affected. Tensors may outlive the ``with`` block, and the
    pool object: a pool that is dropped ends when its last tensor is gone.

    Every size, here and elsewhere in the module, may be a number of bytes or a text such as
    "8GiB". ``limit_bytes`` is the most that the pool may hold (0: no limit of its own).
    ``release_threshold_bytes`` is how much idle memory it keeps (0: the setting). ``handle`` is as
    what its memory can be exported ("default", "none", "posix_fd", "fabric"). ``rdma``: network
    cards may address its memory, so the memory stays where it is. ``shared``: its blocks are for
    tenure.published, in few, large chunks at addresses that are free in other processes."""

    def __init__(self, device: int = 0, *, name: Optional[str] = None, limit_bytes: Size = 0,
                 release_threshold_bytes: Size = 0, handle: str = "default",
                 rdma: bool = False, shared: bool = False) -> None:
        self._handle = 0
        options = _PoolOptions(
            ctypes.sizeof(_PoolOptions), None if name is None else name.encode(),
            bytes_of(limit_bytes), bytes_of(release_threshold_bytes),
            number_of("handle", handle, HANDLES), int(rdma), is_shared=int(shared))
        made = ctypes.c_void_p()
        _end_those()
        _library.call("tnr_pool_create", ctypes.byref(made), device, ctypes.byref(options))
        self._handle, self._device, self._name = made.value or 0, device, name

    @property
    def device(self) -> int:
        """The number of its device."""
        return self._device

    @property
    def handle(self) -> int:
        """The tnr_pool, for functions in C."""
        if not self._handle:
            raise ValueError("the pool was closed")
        return self._handle

    def __repr__(self) -> str:
        name = "" if self._name is None else f" {self._name!r}"
        return f"<tenure.Pool{name} on device {self._device}{'' if self._handle else ', closed'}>"

    def __enter__(self) -> "Pool":
        _library.call("tnr_pool_push", self.handle)
        return self

    def __exit__(self, *_reason: Any) -> None:
        _library.call("tnr_pool_pop", self.handle)

    def stats(self) -> Dict[str, int]:
        """As tenure.stats(), of this pool."""
        return _library.stats(self.handle, self._device)

    def trim(self, keep_bytes: Size = 0) -> int:
        """Gives idle memory back to the driver until the pool holds at most this much; returns how
        much was given back. Waits for work on memory that is free but may still be in use."""
        released = ctypes.c_size_t()
        _library.call("tnr_pool_trim", ctypes.byref(released), self.handle, bytes_of(keep_bytes),
                      self._device)
        return released.value

    def compact(self) -> int:
        """Gives back what is free in the pool, also inside chunks that live tensors have parts of;
        returns how much. Tensors keep addresses and contents. As for sleep(), no work that uses
        the pool's memory may be given to the GPU meanwhile."""
        released = ctypes.c_size_t()
        _library.call("tnr_compact", ctypes.byref(released), self.handle, self._device)
        return released.value

    def set_limit(self, bytes: Optional[Size]) -> None:
        """The most that it may hold from now on; None: no limit of its own."""
        most = _NO_LIMIT if bytes is None else bytes_of(bytes)
        _library.call("tnr_pool_limit_set", self.handle, most, self._device)

    def sleep(self, contents: str = "default", keep_backing: bool = False,
              pinned_bytes_max: Size = 0) -> None:
        """Gives the pool's memory back to the driver until wake(). Its addresses stay. ``contents``
        says what becomes of its tensors' contents, unless set_content() says otherwise for one:
        "keep" (the default), "disk" (kept in files of the folder that the setting contents_dir
        names), or "discard". Nothing may use or allocate its memory meanwhile.
        ``keep_backing`` keeps the host memory for the next sleep. ``pinned_bytes_max`` bounds how
        much of the host memory is pinned."""
        _library.call("tnr_pool_sleep", self.handle, self._device,
                      _sleep_options(contents, keep_backing, pinned_bytes_max))

    def wake(self) -> None:
        """Maps memory at the same addresses again. Error if there is not enough: try again."""
        _library.call("tnr_pool_wake", self.handle, self._device)

    def close(self) -> None:
        """Ends the pool now. Error if tensors of it live."""
        if self._handle:
            _library.call("tnr_pool_destroy", self._handle)
            self._handle = 0

    def __del__(self) -> None:
        handle, self._handle = getattr(self, "_handle", 0), 0
        if handle and _library is not None and _end is not None:  # not at the interpreter's end
            _end(handle)


def set_limit(bytes: Optional[Size], device: int = 0) -> None:
    """The most that all pools of a device may hold together; None: no limit."""
    _library.call("tnr_limit_set", _NO_LIMIT if bytes is None else bytes_of(bytes), device)


def trim(device: int = 0, keep_bytes: Size = 0) -> int:
    """Gives idle memory of a device back to the driver until at most this much is held; returns how
    much was given back. As torch.cuda.empty_cache()."""
    released = ctypes.c_size_t()
    _end_those()
    _library.call("tnr_trim", ctypes.byref(released), bytes_of(keep_bytes), device)
    return released.value


def compact(device: int = 0) -> int:
    """Pool.compact() for all pools of a device but those that must keep their memory: of live
    CUDA graphs, shared with other processes, or known to network cards."""
    released = ctypes.c_size_t()
    _end_those()
    _library.call("tnr_device_compact", ctypes.byref(released), device)
    return released.value


def sleep(device: int = 0, contents: str = "default", keep_backing: bool = False,
          pinned_bytes_max: Size = 0) -> None:
    """Pool.sleep() for all pools of a device at once. Graphs' pools keep their contents."""
    _library.call("tnr_device_sleep", device,
                  _sleep_options(contents, keep_backing, pinned_bytes_max))


def wake(device: int = 0) -> None:
    """Pool.wake() for all pools of a device."""
    _library.call("tnr_device_wake", device)
