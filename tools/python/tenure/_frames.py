# SPDX-License-Identifier: Apache-2.0
"""Frames of Python in the stacks of the history and of the checker: file, line and function.

libtenure_python.so reads them when Tenure takes a stack (tools/python/frames). It does so without
the interpreter's lock, because PyTorch releases that lock before it allocates. It is loaded when
stacks are wanted.
"""
from __future__ import annotations

import ctypes
import os

from . import _library

_began = False


def begin() -> bool:
    """From now on stacks begin with frames of Python. False: not possible with this Python."""
    global _began
    if not _began:
        _began = _learn()
    return _began


def _learn() -> bool:
    # The frames that are looked at: this function's, that of the one it calls, and its caller's.
    return _ask(ctypes.PyDLL(_library.beside("libtenure_python.so")))


def _ask(frames: ctypes.PyDLL) -> bool:
    if not frames.tenure_python_begin(os.fsencode(os.path.dirname(os.path.abspath(__file__)))):
        return False
    functions = [ctypes.cast(function, ctypes.c_void_p) for function in
                 (frames.tenure_python_take, frames.tenure_python_describe)]
    _library.call("tnr_frames_source_set", *functions)
    return True
