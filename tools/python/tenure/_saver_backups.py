# SPDX-License-Identifier: Apache-2.0
"""The copies that get_cpu_backup() hands out with ``zero_copy``, for tenure.memory_saver.

A copy has one address from the first time it is asked for until it is dropped: at a resume that
does not retain it, or at the end of the tensor's memory. Its own memory goes back to the driver
then, unless the program still has a tensor over it."""
from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

_PORTABLE = 1  # cudaHostAllocPortable
_RUNTIMES = (None, "libcudart.so.13", "libcudart.so.12")  # None: what every library sees

Key = Tuple[int, int]  # a tensor's address and bytes


def runtime() -> Optional[ctypes.CDLL]:
    """The CUDA runtime that the process has already."""
    for name in _RUNTIMES:
        try:
            found = ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_NOW if name else os.RTLD_NOW)
        except OSError:
            continue
        if hasattr(found, "cudaHostAlloc"):
            return found
    return None


def pinned(shape: Any, dtype: Any, bytes: int) -> Any:
    """An empty tensor in pinned memory of its own, as torch_memory_saver's backups are; None if the
    runtime gives none. PyTorch's pinned memory would stay with PyTorch at its end."""
    import torch

    cuda, place = runtime(), ctypes.c_void_p()
    if cuda is None or bytes == 0:
        return None
    if cuda.cudaHostAlloc(ctypes.byref(place), ctypes.c_size_t(bytes), _PORTABLE) != 0:
        cuda.cudaGetLastError()  # or the program's next question would hear of it
        return None
    memory = (ctypes.c_ubyte * bytes).from_address(place.value or 0)
    weakref.finalize(memory, cuda.cudaFreeHost, place).atexit = False
    return torch.frombuffer(memory, dtype=torch.uint8).view(dtype).view(shape)


class _Held(NamedTuple):
    copy: Any
    tag: Optional[str]
    end: Any  # the finalizer of the tensor's memory


class Backups:
    def __init__(self) -> None:
        self._held: Dict[Key, _Held] = {}

    def get(self, key: Key) -> Any:
        held = self._held.get(key)
        return None if held is None else held.copy

    def hold(self, key: Key, copy: Any, tag: Optional[str], storage: Any) -> None:
        """Until drop(), or until the tensor's memory ends: PyTorch keeps the object of a storage
        as long as any tensor has it."""
        end = weakref.finalize(storage, self._held.pop, key, None)
        end.atexit = False
        self._held[key] = _Held(copy, tag, end)

    def drop(self, tags: List[Optional[str]]) -> None:
        """Those of memory with these tags; None among them stands for memory without one."""
        for key, held in list(self._held.items()):
            if held.tag in tags and self._held.pop(key, None) is not None:
                held.end.detach()
