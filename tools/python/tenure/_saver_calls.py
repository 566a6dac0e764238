# SPDX-License-Identifier: Apache-2.0
"""tms_pause() and tms_resume() as functions of the process, for programs that look for them by
name: ``ctypes.CDLL(None).tms_pause``, or an extension that is linked with nothing.

libtenure_python.so has them. The module named torch_memory_saver makes them visible when it is
imported, and no other does."""
from __future__ import annotations

import ctypes
import os
import sys
from typing import Any, Callable, List, Optional

from . import _library

_BY_TAG = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)
_UNKNOWN = 999  # cudaErrorUnknown
_kept: List[Any] = []  # what C calls


def _for_c(function: Callable[[Optional[str]], None]) -> Any:
    def called(tag: Optional[bytes]) -> int:
        try:
            function(tag.decode() if tag else None)
        except BaseException as error:  # C has no other way to hear of it, nor of an interrupt
            print(f"torch_memory_saver: {str(error) or type(error).__name__}", file=sys.stderr)
            return _UNKNOWN
        return 0

    return _BY_TAG(called)


def export(pause: Callable[[Optional[str]], None], resume: Callable[[Optional[str]], None]) -> None:
    """Makes both functions visible to the whole process."""
    if _kept:
        return
    calls, path = (_for_c(pause), _for_c(resume)), _library.beside("libtenure_python.so")
    seen = ctypes.CDLL(path, mode=os.RTLD_GLOBAL | os.RTLD_NOW)
    _kept.extend((*calls, seen))
    seen.tenure_saver_begin(*calls)
