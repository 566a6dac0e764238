# SPDX-License-Identifier: Apache-2.0
"""A stand-in for CuPy: its allocator hook and its streams, on the simulated device."""
import ctypes
import os
import sys
import types

import everyday

__version__ = "14.2.0+fake"
DRIVER = ctypes.CDLL(os.environ["FAKE_TORCH_DRIVER"])


class Stream:
    """Ends its handle when it dies, as CuPy's does, also one that another object has ended: what
    the driver makes of that is CuPy's business, so here it is asked once only."""

    handles = set()

    def __init__(self, null=False, non_blocking=True):
        self.ptr, self.device_id = 0, -1 if null else 0
        if not null:
            self.ptr = everyday.made("cuStreamCreate", int(non_blocking))
            Stream.handles.add(self.ptr)

    @classmethod
    def from_external(cls, foreign):
        """A stream from elsewhere, by the protocol of CUDA's Python packages."""
        version, handle = foreign.__cuda_stream__()
        assert version == 0
        stream = cls.__new__(cls)
        stream.ptr, stream.device_id, stream._foreign_stream_ref = handle, 0, foreign
        return stream

    def __cuda_stream__(self):
        return 0, self.ptr

    def __del__(self):
        if self.ptr in Stream.handles:
            Stream.handles.discard(self.ptr)
            assert DRIVER.cuStreamDestroy_v2(ctypes.c_void_p(self.ptr)) == 0

    def begin_capture(self, mode=2):
        result = DRIVER.cuStreamBeginCapture_v2(ctypes.c_void_p(self.ptr), mode)
        if result != 0:
            raise RuntimeError(f"cuStreamBeginCapture: {result}")

    def end_capture(self):
        return Graph(self.ptr)


class Graph:
    def __init__(self, stream):
        graph = ctypes.c_void_p()
        result = DRIVER.cuStreamEndCapture(ctypes.c_void_p(stream), ctypes.byref(graph))
        if result != 0:
            raise RuntimeError(f"cuStreamEndCapture: {result}")
        self.graph = graph.value

    def __del__(self):
        if getattr(self, "graph", 0):
            assert DRIVER.cuGraphDestroy(ctypes.c_void_p(self.graph)) == 0


class CupyOutOfMemoryError(MemoryError):
    def __init__(self, size, total, limit=0):
        super().__init__(f"{size} of {total}, {limit}")


class Memory:
    def __init__(self, bytes, malloc, free):
        self.free, self.ptr = free, malloc(bytes, 0) if bytes else 0

    def __del__(self):
        if getattr(self, "ptr", 0):
            self.free(self.ptr, 0)


class PythonFunctionAllocator:
    def __init__(self, malloc, free):
        self.functions = malloc, free

    def malloc(self, bytes):
        return Memory(bytes, *self.functions)


class CFunctionAllocator:
    """Calls addresses, as CuPy does, and takes any answer."""

    def __init__(self, param, malloc, free, owner):
        take = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
                                ctypes.c_int)(malloc)
        give = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(free)
        self.functions = (lambda bytes, device: take(param, bytes, device) or 0,
                          lambda address, device: give(param, address, device))

    def malloc(self, bytes):
        return Memory(bytes, *self.functions)


def native_malloc(bytes):
    return Memory(bytes, lambda size, device: 0, None)


def ndarray(bytes):
    """An array's memory, from the current allocator."""
    return state.allocator(bytes)


class PinnedMemoryPointer:
    def __init__(self, mem, offset):
        self.mem, self.ptr = mem, mem.ptr + offset

    def size(self):
        return self.mem.size - (self.ptr - self.mem.ptr)


class PinnedPool:
    """CuPy's own."""

    def malloc(self, size):
        return PinnedMemoryPointer(types.SimpleNamespace(ptr=0, size=size), 0)


def alloc_pinned_memory(size):
    return state.pinned(size)


pinned_pool = PinnedPool()


def get_default_pinned_memory_pool():
    return pinned_pool


null = Stream(null=True)
state = types.SimpleNamespace(allocator=native_malloc, stream=null, pinned=pinned_pool.malloc)
cuda = types.SimpleNamespace(
    Stream=Stream, PythonFunctionAllocator=PythonFunctionAllocator,
    CFunctionAllocator=CFunctionAllocator,
    get_current_stream=lambda: state.stream, get_allocator=lambda: state.allocator,
    set_allocator=lambda allocator: setattr(state, "allocator", allocator),
    set_pinned_memory_allocator=lambda allocator: setattr(state, "pinned", allocator),
    PinnedMemoryPointer=PinnedMemoryPointer, alloc_pinned_memory=alloc_pinned_memory,
    runtime=types.SimpleNamespace(getDevice=lambda: 0),
    memory=types.SimpleNamespace(OutOfMemoryError=CupyOutOfMemoryError))


# cupy_backends.cuda.stream, as Cython exports C functions: a capsule named by the signature.
_current = ctypes.CFUNCTYPE(ctypes.c_ssize_t)(lambda: state.stream.ptr)
_names = []


def export(signature=b"intptr_t (void)"):
    """Makes the module of C functions, with one of that form; None: there is no such function."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p,
                                                   ctypes.c_void_p]
    module = types.ModuleType("cupy_backends.cuda.stream")
    module.__pyx_capi__ = {}
    if signature is not None:
        _names.append(ctypes.create_string_buffer(signature))
        module.__pyx_capi__["get_current_stream_ptr"] = new(
            ctypes.cast(_current, ctypes.c_void_p).value,
            ctypes.cast(_names[-1], ctypes.c_char_p), None)
    for name in ("cupy_backends", "cupy_backends.cuda"):
        sys.modules.setdefault(name, types.ModuleType(name))
    sys.modules["cupy_backends.cuda.stream"] = module


everyday.extend_cupy(sys.modules[__name__])
export(None if os.environ.get("FAKE_CUPY_NO_CAPSULE") else b"intptr_t (void)")
