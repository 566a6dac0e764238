# SPDX-License-Identifier: Apache-2.0
"""CuPy's memory from Tenure.

>>> import tenure.cupy
>>> tenure.cupy.install()

An array belongs to the stream that is current when it is made. Its free is ordered on that stream,
whatever stream is current when it dies: the rule of CuPy's own memory pool. If another stream used
the array, say so before it dies, ``tenure.record_use(x, stream)``. Then its memory waits for that
use; CuPy's own pool never does. With ``install(both_streams=True)`` a free also waits for the
stream that is then current.

CuPy's hook for C functions (CFunctionAllocator) is used. It does not say which stream memory is
for, but CuPy has a C function that does. If that function's form is not the known one, Python
functions do the same (PythonFunctionAllocator). That costs about a microsecond more for each array.

Pinned memory (``cupyx.empty_pinned`` and the buffers of CuPy's own copies) comes from host pools. A
free of it assumes that work on any stream may use it, and waits for none.

What ``Stream.begin_capture()`` captures has a pool of its own. Its arrays keep their memory to
themselves until the graph is gone. Arrays from outside that it uses are kept for it.
"""
from __future__ import annotations

import ctypes
import importlib
import sys
from typing import Any, Callable, Dict, List, Optional, Union

import cupy

from . import _library, configure, history as set_history

__all__ = ["OutOfMemoryError", "install", "is_installed", "uninstall"]



def __dir__() -> List[str]:
    return sorted(__all__)


# What install() has replaced: CuPy's allocator, and functions of its streams by name. Empty: not
# installed.
_replaced: List[Any] = []


class OutOfMemoryError(cupy.cuda.memory.OutOfMemoryError):
    """CuPy's own error, with Tenure's sentence: who holds what, and what to do."""

    def __init__(self, text: str) -> None:
        MemoryError.__init__(self, text)

    def __reduce__(self) -> Any:
        return type(self), self.args


def is_installed() -> bool:
    """Whether CuPy's memory comes from Tenure."""
    return bool(_replaced)


# Settings that differ from Tenure's defaults, unless TENURE_CONF or install() say otherwise.
_DEFAULTS = {"peers": "used"}


def install(conf: Union[str, Dict[str, Any], None] = None, history: Optional[str] = None,
            both_streams: bool = False, pinned: bool = True) -> None:
    """Makes Tenure the allocator of CuPy's arrays, from now on. Arrays that exist stay where they
    are. ``conf`` is as in TENURE_CONF, or a dictionary. Settings that neither names are Tenure's
    defaults, except ``peers``, which is ``used``: GPUs that one process uses reach each other's
    memory, as with CuPy's own allocator. ``history`` is ``"light"`` or ``"full"`` to record what
    happens to memory. ``both_streams`` is described above. ``pinned=False`` leaves pinned memory to
    CuPy, as managed memory is. Raises tenure.Error if Tenure cannot serve here."""
    if is_installed():
        return
    configure(_DEFAULTS)
    if conf is not None:
        configure(conf)
    _library.call("tnr_init")
    if history is not None:
        set_history(history)
    current = _current_stream_function()
    if current is None:
        malloc = _python_allocator(both_streams)
    else:
        malloc = _c_allocator(current, both_streams)
    functions = {name: getattr(cupy.cuda.Stream, name) for name in _STREAM_FUNCTIONS}
    _replaced.extend((cupy.cuda.get_allocator(), functions))
    for name, make in _STREAM_FUNCTIONS.items():
        setattr(cupy.cuda.Stream, name, make(functions[name]))
    cupy.cuda.set_allocator(malloc)
    if pinned:
        cupy.cuda.set_pinned_memory_allocator(_pinned_allocator())


def uninstall() -> None:
    """Gives CuPy its allocators back: of pinned memory, its default pool. Memory that came from
    Tenure is still freed there."""
    if is_installed():
        cupy.cuda.set_allocator(_replaced[0])
        cupy.cuda.set_pinned_memory_allocator(cupy.get_default_pinned_memory_pool().malloc)
        for name, function in _replaced[1].items():
            setattr(cupy.cuda.Stream, name, function)
        _replaced.clear()


# ---- the two kinds of allocator ----


class _Param(ctypes.Structure):
    """tenure_cupy of tenure_cupy.h."""

    _fields_ = [("current_stream", ctypes.c_void_p), ("is_freed_on_both", ctypes.c_int)]


def _current_stream_function() -> Optional[int]:
    """The address of CuPy's C function for the current stream; None if it has none of that form. A
    capsule's name is the C signature of what it holds."""
    try:
        capsule = importlib.import_module(
            "cupy_backends.cuda.stream").__pyx_capi__["get_current_stream_ptr"]
    except (ImportError, AttributeError, KeyError):
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    valid = ctypes.pythonapi.PyCapsule_IsValid
    valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
    if not valid(capsule, _SIGNATURE):
        return None
    return pointer(capsule, _SIGNATURE)


_SIGNATURE = b"intptr_t (void)"
# What CuPy holds addresses of, for as long as the process runs: arrays outlive uninstall().
_kept: List[Any] = []


def _c_allocator(current: int, both_streams: bool) -> Callable[[int], Any]:
    plugin = ctypes.CDLL(_library.beside("libtenure_cupy.so"))
    param = _Param(current, int(both_streams))
    _kept.append((plugin, param))
    address = [ctypes.cast(function, ctypes.c_void_p).value for function in
               (plugin.tenure_cupy_malloc, plugin.tenure_cupy_free)]
    malloc = cupy.cuda.CFunctionAllocator(ctypes.addressof(param), *address, _kept).malloc

    def malloc_or_raise(bytes: int) -> Any:
        pointer = malloc(bytes)
        if bytes > 0 and pointer.ptr == 0:  # CuPy takes any answer
            raise OutOfMemoryError(_library.last_error())
        return pointer

    return malloc_or_raise


def _python_allocator(both_streams: bool) -> Callable[[int], Any]:
    """All that the functions use is kept by them, because memory may be freed while the interpreter
    tears its modules down."""
    library = _library.library()
    tnr_malloc, tnr_free, tnr_free_on = library.tnr_malloc, library.tnr_free, library.tnr_free_on
    current_stream, check = cupy.cuda.get_current_stream, _library.check
    void_p, reference, is_short = ctypes.c_void_p, ctypes.byref, _library.OUT_OF_MEMORY
    last_error, invalid_stream = _library.last_error, _library.ERR_INVALID_STREAM

    def malloc(bytes: int, device: int) -> int:
        place = void_p()
        status = tnr_malloc(reference(place), bytes, device, current_stream().ptr)
        if status in is_short:
            raise OutOfMemoryError(last_error())
        check(status, "tnr_malloc")
        return place.value or 0

    def free(address: int, device: int) -> None:
        status = invalid_stream
        if both_streams:
            status = tnr_free_on(address, current_stream().ptr)
        if status == invalid_stream:  # another device's
            status = tnr_free(address)
        check(status, "freeing an array")

    return cupy.cuda.PythonFunctionAllocator(malloc, free).malloc


def _pinned_allocator() -> Callable[[int], Any]:
    """Memory has the form of CuPy's PinnedMemory. What its end uses is kept by it, as above."""
    library = _library.library()
    host_malloc, free_sync = library.tnr_host_malloc_near, library.tnr_free_sync
    check = _library.check

    class PinnedMemory:
        def __init__(self, size: int) -> None:
            place = ctypes.c_void_p()
            status = host_malloc(ctypes.byref(place), size, cupy.cuda.runtime.getDevice())
            self.ptr, self.size = 0, size
            if status in _library.OUT_OF_MEMORY:
                raise OutOfMemoryError(_library.last_error())
            check(status, "tnr_host_malloc_near")
            self.ptr = place.value or 0

        def __del__(self) -> None:
            if self.ptr:
                check(free_sync(self.ptr), "freeing pinned memory")

    return lambda size: cupy.cuda.PinnedMemoryPointer(PinnedMemory(size), 0)


# ---- what Tenure must hear of streams ----


def _announced_end(original: Callable[..., None]) -> Callable[..., None]:
    """The end of a stream. Tenure must hear of it first, because the driver gives the same handle
    to a later stream."""
    destroying, is_finalizing = _library.library().tnr_stream_destroying, sys.is_finalizing

    def __del__(self: Any) -> None:
        if getattr(self, "ptr", 0) not in (0, 1, 2) and not is_finalizing():
            destroying(max(self.device_id, 0), self.ptr)
        original(self)

    return __del__


# The numbers that Tenure has given to captures that are under way, by stream.
_captures: Dict[int, int] = {}


def _announced_begin_capture(original: Callable[..., None]) -> Callable[..., None]:
    def begin_capture(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        number = ctypes.c_uint64()
        try:
            _library.call("tnr_capture_attach", ctypes.byref(number), max(self.device_id, 0),
                          self.ptr, None)
        except _library.Error:
            _replaced[1]["end_capture"](self)  # nobody else would
            raise
        _captures[self.ptr] = number.value

    return begin_capture


def _announced_end_capture(original: Callable[..., Any]) -> Callable[..., Any]:
    def end_capture(self: Any) -> Any:
        number, graph = _captures.pop(self.ptr, 0), None
        try:
            graph = original(self)
        finally:
            if number:
                _library.call("tnr_capture_ended", number, getattr(graph, "graph", None))
        return graph

    return end_capture


_STREAM_FUNCTIONS = {"__del__": _announced_end, "begin_capture": _announced_begin_capture,
                     "end_capture": _announced_end_capture}
