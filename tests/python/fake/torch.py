# SPDX-License-Identifier: Apache-2.0
"""A stand-in for PyTorch: as much of its allocator hooks as tenure.torch uses, with their rules.

The allocator's functions are called as PyTorch calls them: through their addresses, with PyTorch's
C signatures. Memory and streams are the simulated device's. `reset(**lacks)` makes a fresh PyTorch;
`lacks` names setters of the allocator that this version shall not have.
"""
import ctypes
import os
import sys
import types

import everyday

__version__ = "2.11.0+fake"
version = types.SimpleNamespace(cuda=os.environ.get("FAKE_TORCH_CUDA", "13.0") or None)
__file__ = os.path.join(os.environ.get("FAKE_TORCH_ROOT", "/nonexistent"), "__init__.py")

MALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)


class Id(ctypes.Structure):
    _fields_ = [("first", ctypes.c_ulonglong), ("second", ctypes.c_ulonglong)]


SETTERS = {
    "set_init_fn": ctypes.CFUNCTYPE(None, ctypes.c_int),
    "set_reset_fn": ctypes.CFUNCTYPE(None),
    "set_memory_fraction_fn": ctypes.CFUNCTYPE(None, ctypes.c_double, ctypes.c_int),
    "set_base_alloc_fn": ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p,
                                          ctypes.POINTER(ctypes.c_size_t)),
    "set_record_stream_fn": ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p),
    "set_begin_allocate_to_pool": ctypes.CFUNCTYPE(None, ctypes.c_int, Id, ctypes.c_void_p),
    "set_end_allocate_to_pool_fn": ctypes.CFUNCTYPE(None, ctypes.c_int, Id),
    "set_release_pool": ctypes.CFUNCTYPE(None, ctypes.c_int, Id),
}


def compiled_with_cxx11_abi():
    return True


class OutOfMemoryError(RuntimeError):
    pass


class Inner:
    """torch._C._CUDAPluggableAllocator."""

    def __init__(self, malloc, free):
        self.malloc, self.free = MALLOC(malloc), FREE(free)
        self.functions = {}

    def __getattr__(self, name):
        if name not in SETTERS or name in state.lacks:
            raise AttributeError(name)

        def setter(address):
            self.functions[name] = SETTERS[name](address)

        return setter

    def call(self, setter, *arguments):
        if setter in self.functions:
            return self.functions[setter](*arguments)
        return None


class CUDAPluggableAllocator:
    def __init__(self, path, malloc, free):
        library = ctypes.CDLL(path)
        self.inner = Inner(ctypes.cast(getattr(library, malloc), ctypes.c_void_p).value,
                           ctypes.cast(getattr(library, free), ctypes.c_void_p).value)

    def allocator(self):
        return self.inner


def change_current_allocator(allocator):
    if state.started:
        raise RuntimeError("Can't swap an already initialized allocator\nframe #0: c10::Error")
    state.allocator = allocator.allocator()


class Stream:
    def __init__(self, handle=0, index=0):
        self.cuda_stream, self.device_index = handle, index


class Tensor:
    """Memory of the current allocator, on the current stream."""

    def __init__(self, bytes):
        lazy_init()
        self.stream, self.bytes = state.stream, bytes
        read_environment()
        if state.allocator is None:
            raise RuntimeError("PyTorch's own allocator, which this stand-in has not")
        self.address = state.allocator.malloc(bytes, 0, state.stream.cuda_stream) or 0
        self.device = 0

    def data_ptr(self):
        return self.address

    def record_stream(self, stream):
        state.allocator.call("set_record_stream_fn", self.address, stream.cuda_stream)

    def __del__(self):
        if getattr(self, "address", 0):
            state.allocator.free(self.address, self.bytes, 0, self.stream.cuda_stream)


class CUDAGraph:
    """Begins a real capture of the simulated device's, through `state.capture`."""

    def capture_begin(self, pool=None, capture_error_mode="global"):
        state.pools.append(pool)
        self.pool_id = pool if pool is not None else (99, 0)
        state.capture("cuStreamBeginCapture_v2", state.stream.cuda_stream, 0)

    def capture_end(self):
        self.graph = ctypes.c_void_p()
        state.capture("cuStreamEndCapture", state.stream.cuda_stream, ctypes.byref(self.graph))
        state.allocator.call("set_end_allocate_to_pool_fn", 0, Id(*self.pool_id))

    def reset(self):
        state.allocator.call("set_release_pool", 0, Id(*self.pool_id))
        state.capture("cuGraphDestroy", self.graph)


class MemPool:
    def __init__(self, allocator=None, use_on_oom=False):
        self.allocator, self.use_on_oom = allocator, use_on_oom


def read_settings(text):
    """PyTorch's parser. A backend must be the name of the allocator that is there."""
    for pair in filter(None, text.split(",")):
        key, value = pair.split(":", 1)
        there = state.backend if state.allocator is None else "pluggable"
        if key == "backend" and value != there:
            raise RuntimeError("tokenizer[i] == get()->name() INTERNAL ASSERT FAILED")


def read_environment():
    """When it first needs a setting."""
    if not state.is_read:
        state.is_read = True
        read_settings(os.environ.get("PYTORCH_CUDA_ALLOC_CONF",
                                     os.environ.get("PYTORCH_ALLOC_CONF", "")))


def lazy_init():
    """torch.cuda._lazy_init: all ways to the GPU lead here, and from here to torch._C."""
    if not state.initialized:
        _C._cuda_init()
        state.initialized = True


def _cuda_init():
    start_in_cpp()


class State:
    def __init__(self, lacks=()):
        self.initialized, self.started = False, False
        self.allocator, self.stream = None, Stream()
        self.lacks, self.pools, self.handles = set(lacks), [], 0
        self.settings, self.is_read = [], False
        self.backend = "cudaMallocAsync" if "cudaMallocAsync" in os.environ.get(
            "PYTORCH_CUDA_ALLOC_CONF", os.environ.get("PYTORCH_ALLOC_CONF", "")) else "native"

    def capture(self, name, *arguments):
        driver = ctypes.CDLL(os.environ["FAKE_TORCH_DRIVER"])
        result = getattr(driver, name)(*map(handle_of, arguments))
        if result != 0:
            raise RuntimeError(f"{name}: {result}")


def handle_of(argument):
    return ctypes.c_void_p(argument) if isinstance(argument, int) else argument


def graph_pool_handle():
    state.handles += 1
    return (0, state.handles)


def _refuse(*_arguments):
    raise RuntimeError("CUDAPluggableAllocator does not yet support this")


def start_in_cpp():
    """How pinned memory, TorchScript and torch.ops start CUDA: past Python, which does not know."""
    if not state.started:
        state.started = True
        if state.allocator is not None:
            state.allocator.call("set_init_fn", 1)


def _cuda_record_memory_history(*arguments):
    start_in_cpp()
    _refuse(*arguments)


def _cuda_attach_out_of_memory_observer(_observer):
    start_in_cpp()


def reset(lacks=()):
    """A PyTorch that has just been imported."""
    global state
    state = State(lacks)
    _C._cuda_init = _cuda_init
    for name in ("_cuda_memoryStats", "_cuda_resetPeakMemoryStats",
                 "_cuda_resetAccumulatedMemoryStats", "_cuda_getMemoryFraction",
                 "_cuda_memorySnapshot"):
        setattr(_C, name, _refuse)
    _C._cuda_record_memory_history = _cuda_record_memory_history
    _C._cuda_attach_out_of_memory_observer = _cuda_attach_out_of_memory_observer
    _C._accelerator_setAllocatorSettings = _set_allocator_settings


def _set_allocator_settings(text):
    if "colour" in text:
        raise ValueError("Unrecognized key 'colour'")
    read_environment()
    read_settings(text)
    state.settings.append(text)


_C = types.SimpleNamespace()
cuda = types.ModuleType("torch.cuda")
cuda.memory = types.ModuleType("torch.cuda.memory")
cuda.memory.CUDAPluggableAllocator = CUDAPluggableAllocator
cuda.memory.change_current_allocator = change_current_allocator
cuda.is_initialized = lambda: state.initialized
cuda.current_device = lambda: 0
cuda.current_stream = lambda device=None: state.stream
cuda.graph_pool_handle = graph_pool_handle
cuda.CUDAGraph, cuda.MemPool, cuda.Stream = CUDAGraph, MemPool, Stream
cuda.get_device_properties = lambda device: types.SimpleNamespace(total_memory=139 << 30)
sys.modules["torch.cuda"], sys.modules["torch.cuda.memory"] = cuda, cuda.memory
reset()
everyday.extend_torch(sys.modules[__name__])
