# SPDX-License-Identifier: Apache-2.0
"""What programs of every day call, for the stand-ins for PyTorch and CuPy: as much as the zoo of
errors of lifetime uses (tests/gpu/check_python), with the same driver calls behind it."""
import contextlib
import ctypes
import os
import threading
import types

DRIVER = ctypes.CDLL(os.environ["FAKE_TORCH_DRIVER"])
NON_BLOCKING, NO_TIMING = 1, 2
_thread = threading.local()


def call(name, *arguments):
    """A driver function, in the primary context."""
    if not getattr(_thread, "has_context", False):
        context = ctypes.c_void_p()
        assert DRIVER.cuInit(0) == 0
        assert DRIVER.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert DRIVER.cuCtxSetCurrent(context) == 0
        _thread.has_context = True
    result = getattr(DRIVER, name)(*[
        ctypes.c_uint64(one) if isinstance(one, int) else one for one in arguments])
    if result != 0:
        raise RuntimeError(f"{name}: {result}")


def made(name, *arguments):
    """A handle or an address that the driver gives."""
    handle = ctypes.c_uint64()
    call(name, ctypes.byref(handle), *arguments)
    return handle.value


def event_recorded(stream):
    event = made("cuEventCreate", NO_TIMING)
    call("cuEventRecord", event, stream)
    return event


def launch(graph, stream):
    """Launches an engine's graph, which is made executable the first time."""
    if not hasattr(graph, "executable"):
        graph.executable = made("cuGraphInstantiateWithFlags", graph.graph, 0)
    call("cuGraphLaunch", graph.executable, stream)


# ---- PyTorch -------------------------------------------------------------------------------------


def extend_torch(torch):
    _extend_streams(torch)
    _extend_tensors(torch)
    torch.CUDAGraph.replay = lambda self: launch(self, torch.state.stream.cuda_stream)
    torch.cuda.synchronize = lambda: call("cuCtxSynchronize")


def _extend_streams(torch):
    class Stream(torch.Stream):
        def __init__(self, handle=None, index=0):
            super().__init__(made("cuStreamCreate", NON_BLOCKING) if handle is None else handle,
                             index)

    class Event:
        def record(self, stream):
            self.event = event_recorded(stream.cuda_stream)

    def wait_event(self, event):
        call("cuStreamWaitEvent", self.cuda_stream, event.event, 0)

    def wait_stream(self, other):
        call("cuStreamWaitEvent", self.cuda_stream, event_recorded(other.cuda_stream), 0)

    @contextlib.contextmanager
    def on(stream):
        before, torch.state.stream = torch.state.stream, stream
        yield
        torch.state.stream = before

    @contextlib.contextmanager
    def graph(of):
        call("cuCtxSynchronize")
        with on(Stream()):
            of.capture_begin()
            yield
            of.capture_end()

    torch.Stream.wait_event, torch.Stream.wait_stream = wait_event, wait_stream
    torch.cuda.Stream, torch.cuda.Event, torch.cuda.stream = Stream, Event, on
    torch.cuda.graph = graph


class Storage:
    def __init__(self, tensor):
        self.tensor = tensor

    def resize_(self, bytes):
        assert bytes == 0
        self.tensor.__del__()
        self.tensor.address = 0


class Pinned:
    """As PyTorch caches it: it never goes back to the driver while the device may use it."""

    is_cuda = False

    def __init__(self, torch, count):
        self.torch, self.bytes = torch, 4 * count
        self.address = made("cuMemAllocHost_v2", self.bytes)

    def copy_(self, other, non_blocking=False):
        call("cuMemcpyAsync", self.address, other.address, self.bytes,
             self.torch.state.stream.cuda_stream)
        return self

    def to(self, device):
        return self.torch.empty(self.bytes // 4, device=device).copy_(self)


def _extend_tensors(torch):
    class Everyday(torch.Tensor):
        """Of float32."""

        is_cuda, hooks = True, None
        copy_ = Pinned.copy_

        def __init__(self, count):
            call("cuInit", 0)  # and the context is current
            self.torch = torch
            super().__init__(4 * count)

        def numel(self):
            return self.bytes // 4

        def untyped_storage(self):
            return Storage(self)

        def fill_(self, value):
            call("cuMemsetD32Async", self.address, int(value), self.numel(),
                 torch.state.stream.cuda_stream)
            return self

        def requires_grad_(self):
            return self

        def __mul__(self, number):
            return Everyday(self.numel()).copy_(self)

        def sin(self):
            hooks = Everyday.hooks
            saved = hooks[0](self) if hooks else self
            found = Everyday(self.numel()).copy_(self)
            found.backward = lambda: hooks[1](saved) if hooks else saved
            return found

        def sum(self):
            return self

    class View(Everyday):
        """Of memory that is not ours."""

        def __init__(self, count, address):
            self.torch, self.bytes, self.address = torch, 4 * count, address

        def __del__(self):
            pass

    def as_tensor(other, device):
        facts = other.__cuda_array_interface__
        return View(facts["shape"][0], facts["data"][0])

    @contextlib.contextmanager
    def saved_tensors_hooks(pack, unpack):
        Everyday.hooks = (pack, unpack)
        yield
        Everyday.hooks = None

    torch.full = lambda shape, value, device: Everyday(shape[0]).fill_(value)
    torch.empty = lambda count, device="cpu", pin_memory=False: (
        Pinned(torch, count) if pin_memory else Everyday(count))
    torch.as_tensor = as_tensor
    torch.autograd = types.SimpleNamespace(graph=types.SimpleNamespace(
        saved_tensors_hooks=saved_tensors_hooks))


# ---- CuPy ----------------------------------------------------------------------------------------


def extend_cupy(cupy):
    class Event:
        def __init__(self, stream):
            self.event = event_recorded(stream)

    class Pointer:
        """cupy.cuda.MemoryPointer: of an array's memory, or of what `memory` says."""

        def __init__(self, memory, offset=0):
            self.memory, self.ptr = memory, memory.ptr + offset

        def memset_async(self, value, bytes, stream):
            call("cuMemsetD8Async", self.ptr, value, bytes, stream.ptr)

        def copy_from_device_async(self, other, bytes, stream):
            call("cuMemcpyAsync", self.ptr, other.ptr, bytes, stream.ptr)

    class Array:
        def __init__(self, count):
            self.data = Pointer(cupy.ndarray(4 * count))

    def wait_event(self, event):
        call("cuStreamWaitEvent", self.ptr, event.event, 0)

    def enter(self):
        self.before, cupy.state.stream = cupy.state.stream, self

    def leave(self, *_error):
        cupy.state.stream = self.before

    class RawKernel:
        """One that fills its first argument with ones; here by a set of the driver's."""

        def __init__(self, source, name):
            pass

        def __call__(self, grid, block, arguments):
            call("cuMemsetD32Async", arguments[0].data.ptr, 1, arguments[1],
                 cupy.state.stream.ptr)

    stream = cupy.cuda.Stream
    stream.record = lambda self: Event(self.ptr)
    stream.synchronize = lambda self: call("cuStreamSynchronize", self.ptr)
    stream.wait_event, stream.__enter__, stream.__exit__ = wait_event, enter, leave
    stream.null = cupy.null
    cupy.Graph.launch = lambda self, stream: launch(self, stream.ptr)
    cupy.empty = lambda count, dtype: Array(count)
    cupy.int32, cupy.RawKernel = int, RawKernel
    cupy.cuda.MemoryPointer = Pointer
    cupy.cuda.UnownedMemory = lambda ptr, bytes, owner: types.SimpleNamespace(ptr=ptr)
    cupy.cuda.Device = lambda: types.SimpleNamespace(
        synchronize=lambda: call("cuCtxSynchronize"))
