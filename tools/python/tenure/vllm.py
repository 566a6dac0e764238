# SPDX-License-Identifier: Apache-2.0
"""vLLM's sleep mode with Tenure behind it.

    VLLM_PLUGINS=tenure vllm serve MODEL --enable-sleep-mode

The wheel has an entry point of that name, which calls register() in each of vLLM's processes before
it uses CUDA. Tenure then serves all of PyTorch's memory there, and CuMemAllocator below takes the
place of vLLM's class of that name: the same methods, with Tenure's tags. Each tag is a part of its
own that sleeps and wakes alone. Captured graphs stay good while they sleep.

What differs: while a tag sleeps, an allocation in its pool fails. pointer_to_data is a picture of
the moment, its handles are good for their sizes and addresses alone, and its cpu_backup_tensor is
always None. There are no create_and_map() and unmap_and_release() of Tenure's: a program that puts
its own in their place is not heard.
"""
from __future__ import annotations

import contextlib
import gc
import importlib
import sys
import warnings
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _walk
from . import tags as _tags
from ._library import Error

__all__ = ["Allocation", "CuMemAllocator", "register"]

# Contents that the program can't make again, whatever a sleep says: state of a running engine, and
# memory of its graphs.
_ALWAYS_KEPT = ("runtime", "cudagraph")


class Allocation(NamedTuple):
    """A block with a tag, as vLLM's AllocationData."""

    handle: Tuple[int, int, int, int]  # device, bytes, address, 0
    tag: str
    cpu_backup_tensor: None = None
    is_asleep: bool = False


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
        self._graph_pool: Any = None
        self.current_tag: str = self.default_tag

    @contextlib.contextmanager
    def use_memory_pool(self, tag: Optional[str] = None) -> Iterator[None]:
        """What the thread allocates inside has the tag: tensors, and the memory of graphs whose
        capture begins there. At its end, memory of the tag that nothing is in goes back."""
        name = self.default_tag if tag is None else tag
        if not isinstance(name, str):
            raise TypeError(f"a tag is a str, not {type(name).__name__}")
        outer = self.current_tag
        with _tags.region(name):
            if name not in self._used:
                self._used.append(name)
            self.current_tag = name
            try:
                yield
            finally:
                self.current_tag = outer
        for device in _tags._devices(None):
            _tags.trim(name, device=device)

    def reuse_memory_pool(self, tag: str) -> contextlib.AbstractContextManager[None]:
        """use_memory_pool() of a tag that was used before."""
        if tag not in self._used:
            raise ValueError(f"nothing was allocated with the tag {tag!r}")
        return self.use_memory_pool(tag)

    @contextlib.contextmanager
    def cudagraph_pool(self) -> Iterator[Any]:
        """The pool that graphs are captured into so that their memory sleeps, too, and keeps its
        contents: for torch.cuda.graph(pool=...)."""
        import torch

        if self._graph_pool is None:
            self._graph_pool = torch.cuda.graph_pool_handle()
        with self.use_memory_pool("cudagraph"):
            yield self._graph_pool

    def sleep(self, offload_tags: Union[Tuple[str, ...], str, None] = None) -> None:
        """Gives the memory of all tags back to the driver. Contents of ``offload_tags`` are kept in
        host memory (None: those of the default tag), and so are those of "runtime" and
        "cudagraph"; others are dropped. If that fails, everything is awake, with its contents. What
        sleeps already stays as it is."""
        kept = _ALWAYS_KEPT + _names((self.default_tag,) if offload_tags is None else offload_tags)
        keeps = [tag for tag in self._used if tag in kept]
        drops = [tag for tag in self._used if tag not in kept]
        with self._unmapping(self._used):
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

    def discard(self, tags: Union[Tuple[str, ...], str]) -> None:
        """Gives the memory of these tags back to the driver, and drops its contents. Other tags
        stay awake. What sleeps already stays as it is."""
        drops = [tag for tag in self._used if tag in _names(tags)]
        if drops:
            with self._unmapping(drops):
                _tags.sleep(*drops, content="discard")

    def wake_up(self, tags: Optional[List[str]] = None) -> None:
        """Brings the memory of these tags, or of all, back at the same addresses, in this order:
        all of it on a device, or none. Where vLLM knows of tags that can wait (DEFERRABLE_TAGS),
        all others come back, too. Tags that are awake, or were never used, are passed over."""
        wanted = self._used if tags is None else [tag for tag in tags if tag in self._used]
        can_wait = _of_vllm("DEFERRABLE_TAGS")
        if tags is not None and can_wait is not None:
            wanted = wanted + [tag for tag in self._used if tag not in (*can_wait, *wanted)]
        if wanted:
            _tags.wake(*wanted)
        self._mapped()

    def get_current_usage(self) -> int:
        """Bytes of all tags, asleep or awake, on all devices of the process."""
        used = 0
        for device in _tags._devices(None):
            for tag in self._used:
                stats = _tags.stats(tag, device)
                used += stats["reserved_bytes.all.current"] + stats["bytes_asleep"]
        return used

    @property
    def pointer_to_data(self) -> Dict[int, Allocation]:
        """The blocks that have a tag, by address. Costs as much as a snapshot."""
        found: Dict[int, Allocation] = {}
        for device in _tags._devices(None):
            asleep = {tag: _tags.stats(tag, device)["bytes_asleep"] > 0 for tag in self._used}
            for address, bytes in _walk.live_blocks(device):
                try:
                    tag = _tags.of(address)
                except Error:
                    continue  # freed meanwhile
                if tag in asleep:
                    found[address] = Allocation((device, bytes, address, 0), tag,
                                                is_asleep=asleep[tag])
        return found

    def release_pools(self) -> None:
        """Nothing: a tag's memory goes with its tensors."""

    close = release_pools

    @contextlib.contextmanager
    def _unmapping(self, tags: Sequence[str]) -> Iterator[None]:
        """What vLLM's parts want to have done before memory of these tags goes (a network card
        forgets it, say). If it stays, because the sleep fails, they hear that it is there."""
        before = _of_vllm("run_before_unmap_hooks")
        try:
            if before is not None:
                before(self.pointer_to_data.values(), list(tags))
            yield
        except BaseException:  # an interrupt, too, or one of those that wanted to hear
            self._mapped()
            raise

    def _mapped(self) -> None:
        after = _of_vllm("run_after_map_hooks")
        if after is not None:
            after(self.pointer_to_data.values())


def _names(tags: Union[Tuple[str, ...], str]) -> Tuple[str, ...]:
    return (tags,) if isinstance(tags, str) else tuple(tags)


def _of_vllm(name: str) -> Any:
    """Something that newer versions of vLLM have beside the class; None: this one has not."""
    return getattr(sys.modules.get("vllm.device_allocator"), name, None)


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
    if cumem.CuMemAllocator is not CuMemAllocator:  # a program may have imported it before
        cumem.CuMemAllocator.get_instance = staticmethod(CuMemAllocator.get_instance)
    cumem.CuMemAllocator = CuMemAllocator
    cumem.cumem_available = True
