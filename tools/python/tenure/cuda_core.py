# SPDX-License-Identifier: Apache-2.0
"""Tenure as a memory resource of cuda.core, NVIDIA's Python interface to CUDA.

>>> from cuda.core import Device
>>> import tenure.cuda_core
>>> device = Device(); device.set_current()
>>> memory = tenure.cuda_core.MemoryResource(device.device_id)
>>> stream = device.create_stream()
>>> buffer = memory.allocate(1 << 20, stream=stream)
>>> tenure.record_use(int(buffer.handle), side)     # a third stream's use ends here
>>> buffer.close(stream)

A buffer belongs to the stream that it was allocated for. Its end is ordered on that stream and on
the one that close() names: work that both were given so far may still use the buffer. If allocate()
gets no stream, the legacy default stream is meant. cuda.core's own streams do not wait for it, so
name a stream.

Tried with a stand-in for cuda.core on the simulated device, and run on an H200.
"""
from __future__ import annotations

import ctypes
import importlib
from typing import Any, List, Optional, Set

from . import Pool, _handle, _library

try:
    _core: Any = importlib.import_module("cuda.core")
    _core.MemoryResource  # older ones have it elsewhere
except (ImportError, AttributeError):
    _core = importlib.import_module("cuda.core.experimental")

__all__ = ["MemoryResource"]


def __dir__() -> List[str]:
    return sorted(__all__)


class MemoryResource(_core.MemoryResource):  # type: ignore[misc]
    """Memory of a device: from a pool; without one, from the pool that the calling thread is routed
    to (``with tenure.Pool():``), else from the device's default pool."""

    def __init__(self, device_id: int = 0, pool: Optional[Pool] = None) -> None:
        if pool is not None and pool.device != device_id:
            raise ValueError(f"the pool is of device {pool.device}, not of {device_id}")
        _library.call("tnr_init")
        self._device_id, self._pool = int(device_id), pool
        self._unowned: Set[int] = set()  # blocks that no buffer owns yet

    def allocate(self, size: int, stream: Any = None) -> Any:
        """A cuda.core.Buffer, in the order of the stream. Short memory raises MemoryError with
        Tenure's sentence: who holds what, and what to do."""
        place, number = ctypes.c_void_p(), 0 if stream is None else _handle(stream)
        library = _library.library()
        if self._pool is None:
            status = library.tnr_malloc(ctypes.byref(place), size, self._device_id, number)
        else:
            status = library.tnr_pool_malloc(ctypes.byref(place), self._pool.handle, size,
                                             self._device_id, number)
        if status in _library.OUT_OF_MEMORY:
            raise MemoryError(_library.last_error())
        _library.check(status, "allocating a buffer")
        address = place.value or 0
        self._unowned.add(address)
        try:
            return self._buffer(address, size, stream)
        except BaseException:
            if address in self._unowned:  # cuda.core may have given it back itself
                _library.call("tnr_free", address)
            raise
        finally:
            self._unowned.discard(address)

    def _buffer(self, address: int, size: int, stream: Any) -> Any:
        """A buffer that ends on the stream unless close() names another. Without a stream, or if an
        older cuda.core takes none, it ends on the default stream. The block's own stream counts
        anyway."""
        if stream is not None:
            try:
                return _core.Buffer.from_handle(address, size, mr=self, stream=stream)
            except TypeError:  # an older cuda.core, or a stream that is not cuda.core's
                pass
        return _core.Buffer.from_handle(address, size, mr=self)

    def deallocate(self, ptr: Any, size: int, stream: Any = None) -> None:
        """The end of a buffer; the buffer calls this. Without a stream, the end is ordered on the
        buffer's own stream alone. A stream of another device cannot be named: the memory then waits
        for all work that the buffer's device was given so far."""
        self._unowned.discard(int(ptr))
        free_on, invalid = _library.library().tnr_free_on, _library.ERR_INVALID_STREAM
        if stream is None:
            _library.call("tnr_free", int(ptr))
            return
        status = free_on(int(ptr), _handle(stream))
        if status == invalid:
            status = _library.library().tnr_free_sync(int(ptr))
        _library.check(status, "freeing a buffer")

    @property
    def device_id(self) -> int:
        """The number of the device."""
        return self._device_id

    @property
    def is_device_accessible(self) -> bool:
        """Whether a GPU reaches its memory: it does."""
        return True

    @property
    def is_host_accessible(self) -> bool:
        """Whether the host does: it does not."""
        return False

    @property
    def is_managed(self) -> bool:
        """Whether it is managed memory: it is not."""
        return False
