# SPDX-License-Identifier: Apache-2.0
"""vLLM's sleep mode with Tenure behind it.

    VLLM_PLUGINS=tenure vllm serve MODEL --enable-sleep-mode

The wheel has an entry point of that name, which calls register() in each of vLLM's processes before
it uses CUDA. Tenure then serves all of PyTorch's memory there, and CuMemAllocator below takes the
place of vLLM's class of that name: the same methods, with Tenure's tags. Each tag is a part of its
own that sleeps and wakes alone. Captured graphs stay good while they sleep.
"""
from __future__ import annotations

import contextlib
import gc
import importlib
import sys
import warnings
from typing import Any, Iterator, List, Optional, Tuple, Union

from . import tags as _tags
from ._library import Error

__all__ = ["CuMemAllocator", "register"]


class CuMemAllocator:
    """Memory of a process by tags. get_instance() has the only one."""

    instance: Optional["CuMemAllocator"] = None
    default_tag: str = "default"

    @staticmethod
    def get_instance() -> "CuMemAllocator":
        if CuMemAllocator.instance is None:
            CuMemAllocator.instance = CuMemAllocator()
        return CuMemAllocator.instance

    def __init__(self) -> None:
        self._used: List[str] = []

    @contextlib.contextmanager
    def use_memory_pool(self, tag: Optional[str] = None) -> Iterator[None]:
        """What the thread allocates inside has the tag: tensors, and the memory of graphs whose
        capture begins there."""
        name = self.default_tag if tag is None else tag
        if not isinstance(name, str):
            raise TypeError(f"a tag is a str, not {type(name).__name__}")
        with _tags.region(name):
            if name not in self._used:
                self._used.append(name)
            yield

    def sleep(self, offload_tags: Union[Tuple[str, ...], str, None] = None) -> None:
        """Gives the memory of all tags back to the driver. Contents of ``offload_tags`` are kept in
        host memory (None: those of the default tag), others are dropped. If that fails, everything
        is awake, with its contents. What sleeps already stays as it is."""
        if offload_tags is None:
            offload_tags = (self.default_tag,)
        kept = (offload_tags,) if isinstance(offload_tags, str) else tuple(offload_tags)
        keeps = [tag for tag in self._used if tag in kept]
        drops = [tag for tag in self._used if tag not in kept]
        if keeps:
            _tags.sleep(*keeps, content="keep")
        if drops:
            try:
                _tags.sleep(*drops, content="discard")
            except Error:
                if keeps:
                    _tags.wake(*keeps)
                raise
        gc.collect()
        _empty_cache()

    def wake_up(self, tags: Optional[List[str]] = None) -> None:
        """Brings the memory of these tags, or of all, back at the same addresses, in this order:
        all of it on a device, or none. Tags that are awake, or were never used, are passed over."""
        wanted = self._used if tags is None else [tag for tag in tags if tag in self._used]
        if wanted:
            _tags.wake(*wanted)

    def get_current_usage(self) -> int:
        """Bytes of all tags, asleep or awake, on all devices of the process."""
        used = 0
        for device in _tags._devices(None):
            for tag in self._used:
                stats = _tags.stats(tag, device)
                used += stats["reserved_bytes.all.current"] + stats["bytes_asleep"]
        return used


def _empty_cache() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch.cuda, "empty_cache"):
        torch.cuda.empty_cache()


def register() -> None:
    """The entry point: puts Tenure under PyTorch and into vLLM. Again does nothing. If Tenure
    cannot serve, it warns, and vLLM keeps its own class."""
    import tenure.torch

    try:
        cumem: Any = importlib.import_module("vllm.device_allocator.cumem")
    except ImportError as problem:
        warnings.warn(f"Tenure does not serve vLLM's sleep mode: {problem}", RuntimeWarning)
        return
    if not tenure.torch.is_installed() and not tenure.torch.install():
        return  # it has said why
    cumem.CuMemAllocator = CuMemAllocator
    cumem.cumem_available = True
