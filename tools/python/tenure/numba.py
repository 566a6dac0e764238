# SPDX-License-Identifier: Apache-2.0
"""Numba's device memory from Tenure, by Numba's interface for external memory managers.

>>> import tenure.numba
>>> tenure.numba.install()          # before Numba uses a GPU

or without a change to the program, ``NUMBA_CUDA_MEMORY_MANAGER=tenure.numba``.

Numba does not say which stream an array is for. So an array's memory belongs to the legacy default
stream, for which all of Numba's own streams wait. Its free has the meaning of cudaFree, without
stopping the host. A non-blocking stream from elsewhere does not wait for that stream, and a free
does not wait for it: order it by events, or say ``tenure.record_use(array, stream)`` before the
array dies. An array's memory has no IPC handle; ``<tenure/export.h>`` shares memory.

Pinned arrays (``numba.cuda.pinned_array``) lie in the host memory near their device. A free assumes
that work on any stream may use them, and waits for none. Mapped and write-combined arrays, managed
memory, and memory of the program's that Numba pins stay Numba's.

Tried with a stand-in for Numba on the simulated device; run on an H200.
"""
from __future__ import annotations

import contextlib
import ctypes
import importlib
from typing import Any, Callable, Iterator, List

from numba import cuda

from . import _library

__all__ = ["MemoryManager", "install"]


def __dir__() -> List[str]:
    return sorted(__all__)


class _DriverInfo(ctypes.Structure):
    """tnr_driver_info of <tenure/alloc.h>."""

    _fields_ = [("struct_bytes", ctypes.c_size_t), ("path", ctypes.c_char_p),
                ("version", ctypes.c_int), ("simulated", ctypes.c_int),
                ("devices_count", ctypes.c_int)]


def _finalizer(address: int) -> Callable[[], None]:
    """Frees the block. It keeps all that it uses, because memory may be freed while the interpreter
    tears its modules down."""
    free, check = _library.library().tnr_free_sync, _library.check

    def finalize() -> None:
        check(free(address), "freeing an array")

    return finalize


def _pointer(address: int) -> Any:
    """The address in the form that this Numba takes. A Numba with NVIDIA's bindings, as today's
    are, makes their pointer of a c_void_p; an older one wants an integer."""
    driver = importlib.import_module("numba.cuda.cudadrv.driver")
    return (ctypes.c_void_p if hasattr(driver, "binding") else ctypes.c_uint64)(address)


def _host_pointer(address: int) -> Any:
    """The same of host memory: an int where Numba has NVIDIA's bindings."""
    driver = importlib.import_module("numba.cuda.cudadrv.driver")
    return address if hasattr(driver, "binding") else ctypes.c_void_p(address)


class MemoryManager(cuda.HostOnlyCUDAMemoryManager):
    """Numba makes one for each device that it uses."""

    def initialize(self) -> None:
        super().initialize()
        _library.call("tnr_init")

    def memalloc(self, size: int) -> Any:
        """Device memory, as a numba.cuda.MemoryPointer. Short memory raises MemoryError with
        Tenure's sentence: who holds what, and what to do."""
        place = ctypes.c_void_p()
        status = _library.library().tnr_malloc(ctypes.byref(place), size, self.context.device.id,
                                               None)
        if status in _library.OUT_OF_MEMORY:
            raise MemoryError(_library.last_error())
        _library.check(status, "tnr_malloc")
        address = place.value or 0
        finalize = _finalizer(address)
        try:
            return cuda.MemoryPointer(self.context, _pointer(address), size, finalizer=finalize)
        except BaseException:
            finalize()
            raise

    def memhostalloc(self, size: int, mapped: bool = False, portable: bool = False,
                     wc: bool = False) -> Any:
        """Pinned host memory, as a numba.cuda.PinnedMemory; every GPU in use reaches it."""
        if mapped or wc:
            return super().memhostalloc(size, mapped, portable, wc)
        place = ctypes.c_void_p()
        status = _library.library().tnr_host_malloc_near(ctypes.byref(place), size,
                                                         self.context.device.id)
        if status in _library.OUT_OF_MEMORY:
            raise MemoryError(_library.last_error())
        _library.check(status, "tnr_host_malloc_near")
        address = place.value or 0
        finalize = _finalizer(address)
        try:
            return cuda.PinnedMemory(self.context, _host_pointer(address), size,
                                     finalizer=finalize)
        except BaseException:
            finalize()
            raise

    def get_memory_info(self) -> Any:
        """Free and total bytes. Memory that Tenure holds and that is not in use counts as free."""
        info = _DriverInfo(ctypes.sizeof(_DriverInfo))
        _library.call("tnr_driver_get", ctypes.byref(info))
        driver = ctypes.CDLL((info.path or b"").decode())
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        result = driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        if result != 0:
            raise _library.Error(f"cuMemGetInfo failed with error {result} of the driver")
        held = _library.stats(None, self.context.device.id)
        idle = held["reserved_bytes.all.current"] - held["allocated_bytes.all.current"]
        return cuda.MemoryInfo(free=free.value + max(idle, 0), total=total.value)

    def get_ipc_handle(self, memory: Any) -> Any:
        """Refused: CUDA's IPC knows only memory of cudaMalloc."""
        raise NotImplementedError("Tenure's memory has no handle of CUDA's IPC, which knows only "
                                  "memory of cudaMalloc. <tenure/export.h> shares memory between "
                                  "processes.")

    def reset(self) -> None:
        """Numba gives up its context: idle memory goes back to the driver."""
        super().reset()
        _library.call("tnr_trim", None, 0, self.context.device.id)

    @contextlib.contextmanager
    def defer_cleanup(self) -> Iterator[None]:
        """Frees need no deferring: none of them waits."""
        with super().defer_cleanup():
            yield

    @property
    def interface_version(self) -> int:
        """Of Numba's interface, which has had one version."""
        return 1


_numba_memory_manager = MemoryManager  # where NUMBA_CUDA_MEMORY_MANAGER looks


def install() -> None:
    """Makes Tenure the memory manager of Numba. Call it before Numba uses a GPU: it asks for its
    manager once. Raises tenure.Error if Tenure cannot serve here."""
    _library.call("tnr_init")
    cuda.set_memory_manager(MemoryManager)
