# SPDX-License-Identifier: Apache-2.0
"""libtenure.so for Python: where it is, how its functions are called, and what becomes of its
errors.

There is one libtenure in a process. If the process has one already (`tenure run`, an engine that is
linked with it), that one is used. Otherwise it is searched for, in this order:

1. ``TENURE_LIBRARY``, the path of libtenure.so, if it is set;
2. in ``lib``, ``lib64`` or ``lib/<machine>-linux-gnu`` of this package (a wheel) or of a folder
   above it (an installed prefix, a build directory);
3. in the newest ``build*/lib`` of a folder above this package (a source tree);
4. where the system's loader finds libraries.

Nothing is loaded before it is needed. What is loaded must have this module's version.
"""
from __future__ import annotations

import ctypes
import glob
import json
import os
import threading
from typing import Any, Dict, List, Optional

try:
    from ._version import VERSION
except ImportError:  # the source tree
    VERSION = ""

NAME = "libtenure.so.1"
ERR_CONFIG, ERR_BUSY, ERR_INVALID_STREAM = 13, 21, 23
OUT_OF_MEMORY = (9, 10, 11)  # TNR_ERR_OUT_OF_MEMORY, _LIMIT, _ADDRESS_SPACE


class Error(RuntimeError):
    """A call of Tenure's failed. ``status`` is the number of the tnr_status; the text is Tenure's
    sentence: what went wrong, why, and what to do about it."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class NotFound(Error):
    """libtenure.so, or something that belongs to it, is not where it was looked for."""


def _candidates() -> List[str]:
    found = []
    folder = os.path.abspath(__file__)
    machine = os.uname().machine
    for _ in range(6):
        folder = os.path.dirname(folder)
        for library_folder in ("lib", "lib64", f"lib/{machine}-linux-gnu"):
            found.append(os.path.join(folder, library_folder, NAME))
        builds = glob.glob(os.path.join(glob.escape(folder), "build*", "lib", NAME))
        found += sorted(builds, key=os.path.getmtime, reverse=True)
    return found


def _given() -> Optional[str]:
    """What TENURE_LIBRARY says."""
    given = os.environ.get("TENURE_LIBRARY")
    if given and not os.path.isfile(given):
        raise NotFound(f"TENURE_LIBRARY is {given}, but there is no such file. Set it to the path "
                       "of libtenure.so, or unset it.")
    return os.path.abspath(given) if given else None


def _present() -> Optional[ctypes.CDLL]:
    """The libtenure that the process has already, whatever loaded it."""
    try:
        return ctypes.CDLL(NAME, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None


def _file_of(loaded: ctypes.CDLL) -> str:
    """The file that a library was loaded from."""
    address = ctypes.cast(loaded.tnr_version, ctypes.c_void_p).value or 0
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            first, last = (int(number, 16) for number in line.split(" ", 1)[0].split("-"))
            if first <= address < last and "/" in line:
                return line[line.index("/"):].rstrip("\n")
    return NAME


def path() -> str:
    """The path of libtenure.so, or its bare name if only the system's loader can tell."""
    given, present = _given(), _present()
    if present is not None:
        found = _file_of(present)
        if given and os.path.realpath(given) != os.path.realpath(found):
            raise Error(f"TENURE_LIBRARY is {given}, but {found} is loaded already, and a process "
                        "has one libtenure. Unset TENURE_LIBRARY, or let it name that one.")
        return found
    if given:
        return given
    return next(filter(os.path.isfile, _candidates()), NAME)


def beside(name: str) -> str:
    """The path of a library that lies in the folder ``tenure`` beside libtenure.so."""
    main = path()
    if main == NAME:
        main = _file_of(library())  # known to the loader only
    folder = os.path.dirname(os.path.realpath(main))
    found = os.path.join(folder, "tenure", name)
    if not os.path.isfile(found):
        raise NotFound(f"{name} is not in {os.path.join(folder, 'tenure')}, where it belongs. "
                       "Build and install all of Tenure, or set TENURE_LIBRARY to the libtenure.so "
                       "of an installation that has it.")
    return found


_SIGNATURES = {
    # name: (what it returns, arguments)
    "tnr_version": (ctypes.c_uint, []),
    "tnr_init": (ctypes.c_int, []),
    "tnr_configure": (ctypes.c_int, [ctypes.c_char_p]),
    "tnr_last_error": (ctypes.c_char_p, []),
    "tnr_malloc": (ctypes.c_int, [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_int,
                                  ctypes.c_void_p]),
    "tnr_free": (ctypes.c_int, [ctypes.c_void_p]),
    "tnr_host_malloc_near": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]),
    "tnr_free_sync": (ctypes.c_int, [ctypes.c_void_p]),
    "tnr_pool_malloc": (ctypes.c_int, [ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p,
                                       ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]),
    "tnr_reserve": (ctypes.c_int, [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_int,
                                   ctypes.c_void_p]),
    "tnr_commit_range": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]),
    "tnr_decommit_range": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]),
    "tnr_block_get": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p]),
    "tnr_setting_get": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t]),
    "tnr_sleep_read": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]),
    "tnr_driver_get": (ctypes.c_int, [ctypes.c_void_p]),
    "tnr_free_on": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p]),
    "tnr_record_use": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p]),
    "tnr_stream_created": (ctypes.c_int, [ctypes.c_int, ctypes.c_void_p]),
    "tnr_stream_destroying": (ctypes.c_int, [ctypes.c_int, ctypes.c_void_p]),
    "tnr_capture_attach": (ctypes.c_int, [ctypes.POINTER(ctypes.c_uint64), ctypes.c_int,
                                          ctypes.c_void_p, ctypes.c_void_p]),
    "tnr_capture_ended": (ctypes.c_int, [ctypes.c_uint64, ctypes.c_void_p]),
    "tnr_stats_json": (ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p,
                                         ctypes.c_int]),
    "tnr_stats_reset_peaks": (ctypes.c_int, [ctypes.c_int]),
    "tnr_history_set": (ctypes.c_int, [ctypes.c_size_t, ctypes.c_int]),
    "tnr_frames_source_set": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p]),
    "tnr_mark": (ctypes.c_int, [ctypes.c_char_p]),
    "tnr_stream_name_set": (ctypes.c_int, [ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p]),
    "tnr_memory_walk": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p,
                                       ctypes.c_void_p]),
    "tnr_snapshot_write": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_int]),
    "tnr_trim": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]),
    "tnr_compact": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]),
    "tnr_device_compact": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int]),
    "tnr_limit_set": (ctypes.c_int, [ctypes.c_size_t, ctypes.c_int]),
    "tnr_pool_create": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]),
    "tnr_pool_destroy": (ctypes.c_int, [ctypes.c_void_p]),
    "tnr_pool_push": (ctypes.c_int, [ctypes.c_void_p]),
    "tnr_pool_pop": (ctypes.c_int, [ctypes.c_void_p]),
    "tnr_pool_trim": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
                                     ctypes.c_int]),
    "tnr_pool_limit_set": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]),
    "tnr_pool_sleep": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]),
    "tnr_pool_wake": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int]),
    "tnr_device_sleep": (ctypes.c_int, [ctypes.c_int, ctypes.c_void_p]),
    "tnr_device_wake": (ctypes.c_int, [ctypes.c_int]),
    "tnr_block_content_set": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int]),
    "tnr_park": (ctypes.c_int, [ctypes.POINTER(ctypes.c_size_t), ctypes.c_void_p, ctypes.c_void_p,
                                ctypes.c_int]),
    "tnr_unpark": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p]),
    "tnr_validate": (ctypes.c_int, [ctypes.c_int]),
    "tnr_device_get": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int]),
    "tnr_tag_pool": (ctypes.c_int, [ctypes.POINTER(ctypes.c_void_p), ctypes.c_char_p,
                                    ctypes.c_int]),
    "tnr_tags_sleep": (ctypes.c_int, [ctypes.POINTER(ctypes.c_char_p), ctypes.c_size_t,
                                      ctypes.c_int, ctypes.c_void_p]),
    "tnr_tags_wake": (ctypes.c_int, [ctypes.POINTER(ctypes.c_char_p), ctypes.c_size_t,
                                     ctypes.c_int]),
    "tnr_tag_limit_set": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]),
    "tnr_tag_trim": (ctypes.c_int, [ctypes.POINTER(ctypes.c_size_t), ctypes.c_char_p,
                                    ctypes.c_size_t, ctypes.c_int]),
    "tnr_tag_stats_json": (ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p,
                                             ctypes.c_int]),
    "tnr_tag_name": (ctypes.c_char_p, [ctypes.c_size_t]),
    "tnr_tag_of": (ctypes.c_int, [ctypes.POINTER(ctypes.c_char_p), ctypes.c_void_p]),
    "tnr_publish": (ctypes.c_int, [ctypes.POINTER(ctypes.c_uint64), ctypes.c_char_p,
                                   ctypes.c_void_p, ctypes.c_void_p]),
    "tnr_hold": (ctypes.c_int, [ctypes.POINTER(ctypes.c_uint64), ctypes.c_char_p,
                                ctypes.c_void_p]),
    "tnr_unpublish": (ctypes.c_int, [ctypes.c_char_p]),
    "tnr_published_get": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]),
    "tnr_attach": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int,
                                  ctypes.c_void_p]),
    "tnr_import_close": (ctypes.c_int, [ctypes.c_void_p]),
    "tnr_control_path": (ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]),
    "tnr_outside_set": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p]),
}

_lock = threading.Lock()
_loaded: Optional[ctypes.CDLL] = None


def _load() -> ctypes.CDLL:
    where = path()
    try:
        loaded = ctypes.CDLL(where)
        everything = ctypes.CDLL(None)
        if hasattr(everything, "tenure_preload_engine"):
            loaded = everything  # `tenure run`: what it has put before Tenure's functions
    except OSError as error:
        raise NotFound(f"libtenure.so could not be loaded ({error}). Set TENURE_LIBRARY to its "
                       "path, or run from an installed prefix or a build directory of Tenure."
                       ) from None
    try:
        number = loaded.tnr_version()
        version = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
        if VERSION and version != VERSION:
            raise AttributeError(f"it has version {version}")
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
    except AttributeError as error:
        module = os.path.dirname(os.path.abspath(__file__))
        raise Error(f"{where} does not belong to the Python module in {module}, which has version "
                    f"{VERSION or 'of the sources'}: {error}. Install or build both of one version;"
                    " unset TENURE_LIBRARY and LD_LIBRARY_PATH if they lead to an old one, and "
                    "`pip uninstall tenure` takes an old module away.") from None
    return loaded


def library() -> ctypes.CDLL:
    """libtenure.so, loaded at the first call."""
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = _load()
    return _loaded


def last_error() -> str:
    """Tenure's sentence on the calling thread's latest error."""
    return library().tnr_last_error().decode("utf-8", "replace")


def check(status: int, what: str) -> None:
    """Raises Error with Tenure's sentence unless ``status`` is TNR_OK."""
    if status != 0:
        said = last_error()
        raise Error(said if said.startswith(f"{what}: ") else f"{what}: {said}", status)


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a tnr_status."""
    try:
        status = getattr(library(), name)(*arguments)
    except ctypes.ArgumentError:
        wrong = [repr(one) for one in arguments if isinstance(one, (str, float, list, tuple, dict))]
        raise TypeError(f"{name}: {', '.join(wrong) or 'an argument'} has the wrong type; a device "
                        "is a number, as 0, and so are bytes") from None
    check(status, name)


def stats(pool: Optional[int], device: int) -> Dict[str, int]:
    """tnr_stats_json, of a pool or of the whole device."""
    found: Dict[str, int] = json.loads(text("tnr_stats_json", pool, device))
    return found


def text(name: str, *arguments: Any) -> bytes:
    """What a function writes that takes a buffer and its size first and returns how long its text
    is, or 0 if it failed."""
    function, room = getattr(library(), name), 1 << 14
    while True:
        buffer = ctypes.create_string_buffer(room)
        length = function(buffer, room, *arguments)
        if length == 0:
            raise Error(f"{name}: {last_error()}")
        if length < room:
            return buffer.value
        room = length + 1024
