# SPDX-License-Identifier: Apache-2.0
"""CuPy's memory from Tenure.

>>> import tenure.cupy
>>> tenure.cupy.install()

CuPy's hook for C functions (CFunctionAllocator) does not say which stream memory is for; its hook
for Python functions runs where ``cupy.cuda.get_current_stream()`` can be asked. So this is the one
that is used. It costs a call of Python, about a microsecond, for each array; CuPy's own memory
pool takes as long.

An array belongs to the stream that is current when it is made. When it dies, on whatever stream is
then current, its memory waits for both: for its own stream and for that one. CuPy's own pool waits
for neither. Further streams that use an array are told as ever: ``tenure.record_use(x, stream)``.

What ``Stream.begin_capture()`` captures has a pool of its own: its arrays keep their memory to
themselves until the graph is gone, and arrays from outside that it uses are kept for it.
"""
from __future__ import annotations

import ctypes
import sys
from typing import Any, Callable, Dict, List, Optional, Union

import cupy

from . import _library, configure, history as set_history

__all__ = ["OutOfMemoryError", "install", "is_installed", "uninstall"]

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


def install(conf: Union[str, Dict[str, Any], None] = None, history: Optional[str] = None) -> None:
    """Makes Tenure the allocator of CuPy's arrays, from now on; arrays that exist stay where they
    are. ``conf`` is as in TENURE_CONF, or a dictionary; ``history`` is ``"light"`` or ``"full"`` to
    record what happens to memory. Raises tenure.Error if Tenure cannot serve here. Pinned and
    managed memory stay CuPy's."""
    if is_installed():
        return
    if conf is not None:
        configure(conf)
    _library.call("tnr_init")
    if history is not None:
        set_history(history)
    malloc, free = _functions()
    functions = {name: getattr(cupy.cuda.Stream, name) for name in _STREAM_FUNCTIONS}
    _replaced.extend((cupy.cuda.get_allocator(), functions))
    for name, make in _STREAM_FUNCTIONS.items():
        setattr(cupy.cuda.Stream, name, make(functions[name]))
    cupy.cuda.set_allocator(cupy.cuda.PythonFunctionAllocator(malloc, free).malloc)


def uninstall() -> None:
    """Gives CuPy its allocator back. Arrays that came from Tenure are still freed there."""
    if is_installed():
        cupy.cuda.set_allocator(_replaced[0])
        for name, function in _replaced[1].items():
            setattr(cupy.cuda.Stream, name, function)
        _replaced.clear()


def _functions() -> Any:
    """malloc and free for PythonFunctionAllocator. All that they use is theirs, because memory may
    be freed while the interpreter takes its modules down."""
    library = _library.library()
    tnr_malloc, tnr_free_on = library.tnr_malloc, library.tnr_free_on
    current_stream, check, error = cupy.cuda.get_current_stream, _library.check, _library.Error
    void_p, reference, is_short = ctypes.c_void_p, ctypes.byref, _library.OUT_OF_MEMORY

    def malloc(bytes: int, device: int) -> int:
        place = void_p()
        status = tnr_malloc(reference(place), bytes, device, current_stream().ptr)
        if status in is_short:
            raise OutOfMemoryError(library.tnr_last_error().decode("utf-8", "replace"))
        check(status, "tnr_malloc")
        return place.value or 0

    def free(address: int, device: int) -> None:
        stream = current_stream()
        # Another device's stream cannot have used it without being ordered by hand.
        is_other = getattr(stream, "device_id", -1) not in (-1, device)
        status = library.tnr_free(address) if is_other else tnr_free_on(address, stream.ptr)
        check(status, "freeing an array")

    return malloc, free


# ---- what Tenure must hear of streams ----


def _announced_end(original: Callable[..., None]) -> Callable[..., None]:
    """The end of a stream, which Tenure must hear of first: the driver gives the same handle to a
    later stream."""
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
            _library.call("tnr_capture_attach", max(self.device_id, 0), self.ptr, None,
                          ctypes.byref(number))
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
