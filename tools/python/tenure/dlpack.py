# SPDX-License-Identifier: Apache-2.0
"""Memory of Tenure's that every engine takes by DLPack, and that comes back in the right order.

>>> import tenure.dlpack
>>> a = tenure.dlpack.empty((1024, 1024), "float32", stream=stream)
>>> x = torch.from_dlpack(a)       # cupy.from_dlpack(a), jax.dlpack.from_dlpack(a), ...
>>> del a, x                       # in any order; the last one gives the memory back

An array belongs to the stream that it was made for. A consumer that takes it names a stream of its
own, as DLPack requires. That stream waits on the device for what the array's stream was given so
far. When the consumer drops the array, its use ends there: the memory is handed out again only
behind what the consumer's stream was given up to then. An exporter that omits this gives memory
away while the other stream still works on it. If a consumer uses the array on further streams,
``tenure.record_use(a, stream)`` says so.

What consumers drop comes back from any thread, without the interpreter, and also while the
interpreter ends. Without stream order (``stream=-1``) nothing tells where the use ends. The memory
then waits for what all streams were given, as with cudaFree, without stopping the host. That covers
blocking streams and streams that Tenure has seen. You must record a use by any other stream.

Tried on the simulated device with consumers written for it, and run on an H200.
"""
from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from . import _handle, _library
from ._pools import Pool

__all__ = ["Array", "empty"]

_CUDA = 2  # kDLCUDA
_LEGACY, _PER_THREAD = 1, 2  # the default streams, as DLPack and CUDA number them
_TYPES = {  # DLPack's code, bits, and the letter of an array interface
    "bool": (6, 8, "b"), "int8": (0, 8, "i"), "int16": (0, 16, "i"), "int32": (0, 32, "i"),
    "int64": (0, 64, "i"), "uint8": (1, 8, "u"), "uint16": (1, 16, "u"), "uint32": (1, 32, "u"),
    "uint64": (1, 64, "u"), "float16": (2, 16, "f"), "bfloat16": (4, 16, ""),
    "float32": (2, 32, "f"), "float64": (2, 64, "f"), "complex64": (5, 64, "c"),
    "complex128": (5, 128, "c")}
_END_OWN, _END_STREAM, _END_UNKNOWN = range(3)


class _Tensor(ctypes.Structure):
    """dlpack_tensor of tools/python/dlpack/dlpack.h."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("dimensions", ctypes.c_int32),
                ("type_code", ctypes.c_uint8), ("type_bits", ctypes.c_uint8),
                ("type_lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _DriverInfo(ctypes.Structure):
    """tnr_driver_info."""

    _fields_ = [("struct_bytes", ctypes.c_size_t), ("path", ctypes.c_char_p),
                ("version", ctypes.c_int), ("simulated", ctypes.c_int),
                ("devices_count", ctypes.c_int)]


_native_library: Optional[ctypes.CDLL] = None
_driver_library: Optional[ctypes.CDLL] = None


def __dir__() -> List[str]:
    return sorted(__all__)


def _native() -> ctypes.CDLL:
    global _native_library
    if _native_library is None:
        native = ctypes.CDLL(_library.beside("libtenure_python.so"))
        library = _library.library()
        native.tenure_dlpack_begin(*(ctypes.cast(function, ctypes.c_void_p) for function in (
            library.tnr_record_use, library.tnr_free, library.tnr_free_sync)))
        native.tenure_shared_create.restype = ctypes.c_void_p
        native.tenure_shared_create.argtypes = [ctypes.c_void_p]
        native.tenure_shared_drop.restype = None
        native.tenure_shared_drop.argtypes = [ctypes.c_void_p]
        native.tenure_dlpack_export.restype = ctypes.c_void_p
        native.tenure_dlpack_export.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Tensor),
                                                ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
        native.tenure_dlpack_cancel.restype = None
        native.tenure_dlpack_cancel.argtypes = [ctypes.c_void_p, ctypes.c_int]
        _native_library = native
    return _native_library


def _driver() -> ctypes.CDLL:
    global _driver_library
    if _driver_library is None:
        info = _DriverInfo(ctypes.sizeof(_DriverInfo))
        _library.call("tnr_driver_get", ctypes.byref(info))
        _driver_library = ctypes.CDLL((info.path or b"").decode())
    return _driver_library


def _drive(name: str, *arguments: Any) -> None:
    result = getattr(_driver(), name)(*arguments)
    if result != 0:
        raise _library.Error(f"{name} failed with error {result} of the driver")


def _stream_wait(device: int, waiting: int, earlier: int) -> None:
    """One stream waits, on the device, for what the other was given so far."""
    context, event, ignored = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    _drive("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    try:
        _drive("cuCtxPushCurrent_v2", context)
        try:
            _drive("cuEventCreate", ctypes.byref(event), 2)  # without times
            try:
                _drive("cuEventRecord", event, ctypes.c_void_p(earlier))
                _drive("cuStreamWaitEvent", ctypes.c_void_p(waiting), event, 0)
            finally:
                _drive("cuEventDestroy_v2", event)
        finally:
            _drive("cuCtxPopCurrent_v2", ctypes.byref(ignored))
    finally:
        _drive("cuDevicePrimaryCtxRelease_v2", device)


def _strides(shape: Sequence[int]) -> Tuple[int, ...]:
    """The strides of rows one behind the other, in elements."""
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))


class Array:
    """Memory of one device, seen as an array of a shape and type; made by empty(). It has no
    arithmetic; the engines that take it have."""

    _shared: Optional[int] = None

    def __init__(self, shape: Tuple[int, ...], dtype: str, device: int, stream: int,
                 pool: Optional[Pool]) -> None:
        native, library = _native(), _library.library()
        self.shape, self.dtype, self.device, self.stream = shape, dtype, device, stream
        elements = 1
        for length in shape:
            elements *= length
        self.nbytes: int = elements * _TYPES[dtype][1] // 8
        if self.nbytes >= 1 << 63:
            raise MemoryError(f"an array of {self.nbytes} bytes is larger than any device")
        place = ctypes.c_void_p()
        if pool is None:
            status = library.tnr_malloc(ctypes.byref(place), self.nbytes, device, stream)
        else:
            status = library.tnr_pool_malloc(ctypes.byref(place), pool.handle, self.nbytes, device,
                                             stream)
        if status in _library.OUT_OF_MEMORY:
            raise MemoryError(_library.last_error())
        _library.check(status, "allocating an array")
        self._drop = native.tenure_shared_drop  # kept: modules may be gone when it is needed
        self._address = place.value or 0
        self._shared = native.tenure_shared_create(self._address)
        if self._shared is None:
            library.tnr_free(self._address)
            raise MemoryError("no host memory for an array")

    @property
    def address(self) -> int:
        """Where it is."""
        if self._shared is None:
            raise ValueError("the array was closed")
        return self._address

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        code, bits, letter = _TYPES[self.dtype]
        if not letter:
            raise AttributeError(f"an array interface has no {self.dtype}: use DLPack")
        order = "|" if bits == 8 else "<"
        return {"version": 3, "shape": self.shape, "typestr": f"{order}{letter}{bits // 8}",
                "data": (self.address, False), "strides": None, "stream": self.stream or _LEGACY}

    def __dlpack_device__(self) -> Tuple[int, int]:
        """(kDLCUDA, number of the device)."""
        return _CUDA, self.device

    def __dlpack__(self, *, stream: Optional[int] = None,
                   max_version: Optional[Tuple[int, int]] = None,
                   dl_device: Optional[Tuple[int, int]] = None,
                   copy: Optional[bool] = None) -> Any:
        """A capsule for from_dlpack(). ``stream`` is the consumer's: None or 1 the legacy default
        stream, 2 the calling thread's default stream, -1 no order at all, else a handle; 0 means
        nothing in DLPack. ``max_version`` from (1, 0) on gives a versioned capsule. Another device,
        or a copy, is not possible and raises BufferError."""
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the array is on device {self.device} and is not copied to "
                              f"{tuple(dl_device)}")
        if copy:
            raise BufferError("copy=True: an array of Tenure's is handed over as it is. Copy it "
                              "with the engine that takes it")
        if self._shared is None:
            raise BufferError("the array was closed")
        handle, end = self._order(stream)
        versioned = int(max_version is not None and max_version[0] >= 1)
        return self._capsule(versioned, handle, end)

    def _order(self, stream: Optional[int]) -> Tuple[int, int]:
        """Orders the consumer's stream behind the array's. Its handle, and where its use ends."""
        if stream is None:
            stream = _LEGACY
        if isinstance(stream, bool) or not isinstance(stream, int) or stream < -1 or stream == 0:
            raise ValueError(f"stream={stream!r} is not a stream of DLPack's for CUDA: None, -1, 1 "
                             "(legacy default), 2 (per-thread default) or a handle")
        if stream == -1:
            return 0, _END_UNKNOWN
        handle = 0 if stream == _LEGACY else stream
        if handle == self.stream:
            return handle, _END_OWN
        if stream != _PER_THREAD:  # should its use not be recorded, it is waited for with all
            _library.call("tnr_stream_created", self.device, handle)
        if self._address:
            _stream_wait(self.device, handle, self.stream)
        # The per-thread stream is another one in the thread where the consumer's use ends.
        return handle, _END_UNKNOWN if stream == _PER_THREAD else _END_STREAM

    def _capsule(self, versioned: int, handle: int, end: int) -> Any:
        native, count = _native(), len(self.shape)
        numbers = ctypes.c_int64 * count
        code, bits, _ = _TYPES[self.dtype]
        tensor = _Tensor(self._address, _CUDA, self.device, count, code, bits, 1,
                         numbers(*self.shape), numbers(*_strides(self.shape)), 0)
        made = native.tenure_dlpack_export(self._shared, ctypes.byref(tensor), versioned, handle,
                                           end)
        if made is None:
            raise MemoryError("no host memory for a capsule")
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        try:
            return new(made, _NAMES[versioned], ctypes.cast(native.tenure_dlpack_capsule_end,
                                                            ctypes.c_void_p))
        except BaseException:
            native.tenure_dlpack_cancel(made, versioned)
            raise

    def close(self) -> None:
        """Gives the array up, in the order of its stream. Consumers that have taken it keep the
        memory."""
        shared, self._shared = self._shared, None
        if shared is not None:
            self._drop(shared)

    def __enter__(self) -> "Array":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = ", closed" if self._shared is None else ""
        return (f"<tenure.dlpack.Array {self.shape} of {self.dtype} on device {self.device}"
                f"{closed}>")


_NAMES = (b"dltensor", b"dltensor_versioned")  # capsules do not copy them


def empty(shape: Union[int, Sequence[int]], dtype: str = "uint8", *, device: int = 0,
          stream: Any = None, pool: Optional[Pool] = None) -> Array:
    """An array with uninitialised contents. It belongs to ``stream``: a stream of any engine, a
    handle, or None for the legacy default stream. ``pool`` as for Pool; without one, the memory
    comes from the pool that the calling thread is routed to. Short memory raises MemoryError with
    Tenure's sentence."""
    lengths = (shape,) if isinstance(shape, int) else tuple(int(length) for length in shape)
    if any(length < 0 for length in lengths):
        raise ValueError(f"shape {lengths} has a negative length")
    dtype = str(dtype).rsplit(".", 1)[-1]  # torch.float32 is float32
    if dtype not in _TYPES:
        raise ValueError(f"dtype {dtype!r} is not one of {', '.join(_TYPES)}")
    if pool is not None and pool.device != device:
        raise ValueError(f"the pool is of device {pool.device}, not of {device}")
    handle = 0 if stream is None else _handle(stream)
    if handle == _PER_THREAD:
        raise ValueError("the per-thread default stream is another one in every thread: an array "
                         "needs a stream that is the same to all who have it")
    return Array(lengths, dtype, device, 0 if handle == _LEGACY else handle, pool)
