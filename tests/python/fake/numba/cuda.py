# SPDX-License-Identifier: Apache-2.0
"""A stand-in for numba.cuda: its interface for external memory managers."""
import abc
import collections
import contextlib
import ctypes
import sys
import types
import weakref

MemoryInfo = collections.namedtuple("MemoryInfo", "free, total")
state = types.SimpleNamespace(manager=None, refuses_pointers=False)
driver = types.ModuleType("numba.cuda.cudadrv.driver")  # with `binding`: as today's
sys.modules[driver.__name__] = driver


class BaseCUDAMemoryManager(abc.ABC):
    def __init__(self, *arguments, **named):
        if "context" not in named:
            raise RuntimeError("Memory manager requires a context")
        self.context = named.pop("context")

    @abc.abstractmethod
    def memalloc(self, size):
        """Device memory."""

    @abc.abstractmethod
    def memhostalloc(self, size, mapped, portable, wc):
        """Host memory."""

    @abc.abstractmethod
    def mempin(self, owner, pointer, size, mapped):
        """Pins memory."""

    @abc.abstractmethod
    def initialize(self):
        """Makes it ready."""

    @abc.abstractmethod
    def get_ipc_handle(self, memory):
        """A handle."""

    @abc.abstractmethod
    def get_memory_info(self):
        """MemoryInfo."""

    @abc.abstractmethod
    def reset(self):
        """Frees everything."""

    @abc.abstractmethod
    def defer_cleanup(self):
        """A context manager."""

    @property
    @abc.abstractmethod
    def interface_version(self):
        """1."""


class HostOnlyCUDAMemoryManager(BaseCUDAMemoryManager):
    """What of host memory concerns the tests: that those it is made for call it."""

    deallocations = None

    def initialize(self):
        self.deallocations = []

    def memhostalloc(self, size, mapped=False, portable=False, wc=False):
        return size, mapped, portable, wc

    def mempin(self, owner, pointer, size, mapped=False):
        return owner

    def reset(self):
        self.deallocations.clear()

    @contextlib.contextmanager
    def defer_cleanup(self):
        self.deallocations.append("deferred")
        yield
        self.deallocations.pop()


class MemoryPointer:
    def __init__(self, context, pointer, size, owner=None, finalizer=None):
        if state.refuses_pointers:
            raise MemoryError("no host memory")
        if hasattr(driver, "binding") and isinstance(pointer, ctypes.c_void_p):
            pointer = driver.binding.CUdeviceptr(pointer.value)
        self.context, self.device_pointer, self.size = context, pointer, size
        self._finalizer = weakref.finalize(self, finalizer)

    def free(self):
        self._finalizer()

    @property
    def device_pointer_value(self):
        """What copies and launches have of it."""
        if hasattr(driver, "binding"):
            return int(self.device_pointer) or None
        return ctypes.c_size_t.from_param(self.device_pointer) and self.device_pointer.value


class PinnedMemory:
    """Host memory with the address that the buffer protocol of Numba's takes: an int."""

    def __init__(self, context, pointer, size, owner=None, finalizer=None):
        if state.refuses_pointers:
            raise MemoryError("no host memory")
        self.context, self.host_pointer, self.size = context, pointer, size
        self._bufptr_ = pointer if hasattr(driver, "binding") else pointer.value
        if not isinstance(self._bufptr_, (int, type(None))):
            raise TypeError("an address is an int")
        if finalizer is not None:
            weakref.finalize(self, finalizer)


def set_memory_manager(manager):
    state.manager = manager
