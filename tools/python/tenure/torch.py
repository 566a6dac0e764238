# SPDX-License-Identifier: Apache-2.0
"""PyTorch's memory from Tenure.

>>> import tenure.torch
>>> tenure.torch.install()             # all of it, before CUDA is used
>>> tenure.torch.mempool()             # or only the segments of one torch.cuda.MemPool
>>> with tenure.torch.region("weights"): ...    # memory with a tag: see tenure.tags

If there is a C++ compiler, install() compiles a class that is an allocator of PyTorch's own kind,
once for each version of PyTorch. Without a compiler it uses PyTorch's pluggable interface. Through
that, PyTorch refuses much: docs/engines.md has the list.

    python3 -m tenure.torch status     which of the two it is here, and why
    python3 -m tenure.torch build      compile it now
    python3 -m tenure.torch run PROGRAM [ARGUMENTS]     run a program that knows nothing of Tenure
"""
from __future__ import annotations

import ctypes
import os
import sys
import warnings
from typing import Any, Dict, Iterable, List, Optional, Union

if __name__ == "__main__":  # the command, which may not need PyTorch
    from tenure import _torch_command

    sys.exit(_torch_command.main())

import torch

from . import _library, _pools, _torch_conf, _torch_native, _torch_stats
from . import configure, history as set_history
from ._library import Error
from ._sizes import Size, bytes_of
from .tags import region

__all__ = ["failures", "install", "is_installed", "kind", "memory_stats", "mempool", "region",
           "restore_stats"]


def __dir__() -> List[str]:
    return sorted(__all__)


class _Id(ctypes.Structure):
    """PyTorch's MempoolId_t."""

    _fields_ = [("first", ctypes.c_ulonglong), ("second", ctypes.c_ulonglong)]


# Which function of libtenure_torch.so each optional setter of PyTorch's gets.
_SETTERS = {
    "set_init_fn": "tenure_torch_init",
    "set_reset_fn": "tenure_torch_reset",
    "set_memory_fraction_fn": "tenure_torch_memory_fraction",
    "set_base_alloc_fn": "tenure_torch_base_alloc",
    "set_record_stream_fn": "tenure_torch_record_stream",
    "set_end_allocate_to_pool_fn": "tenure_torch_pool_end",
    "set_release_pool": "tenure_torch_pool_release",
}
# Without these memory would be handed out too early.
_NEEDED = ("set_record_stream_fn", "set_end_allocate_to_pool_fn", "set_release_pool")

# All that install() and mempool() have made. It must live as long as PyTorch may call it.
_kind: Optional[str] = None
_native: Optional[ctypes.CDLL] = None
_waiting: Optional[ctypes.CDLL] = None  # the class, if _wait() has put it there
_kept: list = []


def is_installed() -> bool:
    """Whether install() has made Tenure PyTorch's allocator."""
    return kind() is not None


def kind() -> Optional[str]:
    """How Tenure serves PyTorch: "native", as an allocator of PyTorch's own kind; "pluggable",
    through CUDAPluggableAllocator, which cannot do all; None before install()."""
    global _kind, _native
    if _kind is None and _waiting is not None and _waiting.tenure_native_serves():
        _kind, _native = "native", _waiting
    return _kind


# Settings that differ from Tenure's defaults, unless TENURE_CONF or install() say otherwise.
_DEFAULTS = {"cross_stream": "off", "peers": "used"}


def install(conf: Union[str, Dict[str, Any], None] = None, history: Optional[str] = None,
            strict: bool = False, stats: bool = True, native: Optional[bool] = None) -> bool:
    """Makes Tenure the allocator of all of PyTorch's CUDA memory. Call it before CUDA is first
    used; afterwards PyTorch cannot change its allocator, and this raises RuntimeError.

    ``conf`` is as in TENURE_CONF, or a dictionary; keys of PYTORCH_ALLOC_CONF that mean something
    to Tenure count too, if TENURE_CONF and ``conf`` do not have them. Settings that none of them
    names are Tenure's defaults, except two. ``cross_stream`` is ``off``: memory that a stream has
    freed stays with the stream until memory runs out, as with PyTorch's own allocator. Programs
    such as FSDP2 rely on streams that do not wait for each other; with ``wait`` they hold less
    memory and take longer. ``peers`` is ``used``: GPUs that one process uses reach each
    other's memory, as PyTorch expects when it copies between them. ``history`` is ``"light"`` or
    ``"full"`` to record what happens to memory. Mistakes in either raise.

    ``native`` chooses how. True: as an allocator of PyTorch's own kind, compiled at the first call
    for this version of PyTorch; if that is not possible, Tenure cannot serve. False: through
    PyTorch's pluggable interface. None: the first if possible, else the second, with a warning that
    says why. kind() tells which one it became.

    Returns True. If Tenure cannot serve here (no library, no driver that it can use, a PyTorch
    without the hooks) it warns, leaves PyTorch as it is and returns False; with ``strict`` it
    raises instead.

    Through the pluggable interface PyTorch answers no question about memory. With ``stats`` (the
    default) torch.cuda.memory_stats, memory_allocated, max_memory_allocated, memory_reserved,
    memory_summary, reset_peak_memory_stats, memory_snapshot, torch.cuda.memory._snapshot,
    _dump_snapshot and _record_memory_history then answer from Tenure; restore_stats() undoes that.
    The native class answers them itself.

    Starts the driver (cuInit). So if the process forks later, its children cannot use CUDA. PyTorch
    has the same rule, from its first use of CUDA on."""
    if is_installed():
        raise RuntimeError("tenure.torch.install() was called before: call it once.")
    if torch.cuda.is_initialized():
        raise RuntimeError("tenure.torch.install() comes too late: PyTorch has used CUDA already, "
                           "and cannot change its allocator any more. Call it right after `import "
                           "torch`, before anything is put on a GPU.")
    try:
        library = _library.library()
        configure(_DEFAULTS)
        ignored = _configure_as_pytorch()
        if ignored:
            warnings.warn(ignored, RuntimeWarning, stacklevel=2)
        if conf is not None:
            configure(conf)
        _library.check(library.tnr_init(), "tnr_init")
        compiled = None if native is False else _compiled(bool(native))
        allocator = _make() if compiled is None else None
    except (Error, OSError) as error:
        if getattr(error, "status", 0) == _library.ERR_CONFIG:
            raise
        return _refuse(error, strict)
    if history is not None:
        set_history(history)
    if compiled is not None:
        _install_native(compiled)
    else:
        _install_pluggable(allocator, stats)
    _follow_settings(_torch_conf.keys(conf) if isinstance(conf, str) else conf or ())
    return True


def _wait(refusal: str) -> None:
    """For programs that Tenure is put under (_under.py). Makes the class PyTorch's allocator, and
    starts nothing. The class serves from the moment when PyTorch starts CUDA, in Python or in C++.
    If it cannot, it prints why, after ``refusal``, and PyTorch's own allocator serves. Without
    the class it raises, and changes nothing."""
    global _waiting
    _library.library()
    _torch_native.build(is_told=True)
    compiled = _torch_native.load()
    configure(_DEFAULTS)
    notice = _configure_as_pytorch()
    assert compiled is not None
    problem = compiled.tenure_native_wait(refusal.encode(), notice.encode())
    if problem is not None:
        raise Error(problem.decode("utf-8", "replace"))
    _waiting = compiled
    _follow_settings(())


def _follow_settings(given: Iterable[str]) -> None:
    _torch_conf.follow(torch._C, configure,
                       [*_torch_conf.keys(os.environ.get("TENURE_CONF", "")), *given])


def _configure_as_pytorch() -> str:
    """Takes over what PYTORCH_ALLOC_CONF says and TENURE_CONF does not. Returns a sentence about
    the rest, if it is not empty."""
    _torch_conf.settle(torch._C)
    settings, sentences = _torch_conf.read()
    for key, value in settings.items():
        try:
            configure({key: value})
        except Error as error:  # another engine may use the device already
            sentences.append(f"{key}: {error}")
    return ("Of PyTorch's settings these have no effect with Tenure: " + "; ".join(sentences) + "."
            if sentences else "")


def _compiled(is_needed: bool) -> Optional[ctypes.CDLL]:
    """The class, built if needed. Without it: raises if it is required, else says why."""
    try:
        _torch_native.build(is_told=True)
        return _torch_native.load()
    except Error as error:
        if is_needed:
            raise
        warnings.warn("Tenure serves PyTorch through its pluggable interface, which cannot do all: "
                      f"{error}", RuntimeWarning, stacklevel=3)
        return None


# Such as: PyTorch's C++ code has started CUDA, which torch.cuda.is_initialized() does not know of.
_REFUSED = "PyTorch does not take Tenure as its allocator: "


def _install_native(compiled: ctypes.CDLL) -> None:
    global _kind, _native
    problem = compiled.tenure_native_install()
    if problem is not None:
        raise RuntimeError(_REFUSED + problem.decode("utf-8", "replace"))
    _kind, _native = "native", compiled


def _install_pluggable(allocator: Any, stats: bool) -> None:
    global _kind
    try:
        torch.cuda.memory.change_current_allocator(allocator)
    except RuntimeError as error:  # whose text goes on with a page of C++ frames
        raise RuntimeError(_REFUSED + str(error).split("\n", 1)[0]) from None
    _kept.append(allocator)
    _kind = "pluggable"
    if stats:
        _torch_stats.patch()


def failures() -> int:
    """How many of PyTorch's calls Tenure could not serve so far, for lack of memory or otherwise.
    What could be raised has been raised; the rest was printed."""
    if not is_installed():
        return 0
    if _native is not None:
        return _native.tenure_native_failures()
    count = _kept[0].tenure_torch_failures
    count.restype = ctypes.c_ulong
    return count()


def _refuse(error: Exception, strict: bool) -> bool:
    if strict:
        raise error
    warnings.warn(f"Tenure does not serve PyTorch's memory, PyTorch's own allocator does: {error}",
                  RuntimeWarning, stacklevel=3)
    return False


def _make() -> Any:
    """The allocator for PyTorch, with all its hooks."""
    path = _library.beside("libtenure_torch.so")
    if not hasattr(torch.cuda.memory, "CUDAPluggableAllocator"):
        raise Error(f"PyTorch {torch.__version__} has no CUDAPluggableAllocator (2.11 has).")
    plugin = ctypes.CDLL(path)
    allocator = torch.cuda.memory.CUDAPluggableAllocator(
        path, "tenure_torch_malloc", "tenure_torch_free")
    inner = allocator.allocator()
    missing = [name for name in _NEEDED if not hasattr(inner, name)]
    if missing:
        raise Error(f"PyTorch {torch.__version__} does not tell its allocator all that Tenure must "
                    f"know: {', '.join(missing)} is missing (2.11 has it).")
    for setter, function in _SETTERS.items():
        if hasattr(inner, setter):
            getattr(inner, setter)(_address(plugin, function))
    thrower = _torch_native.thrower()
    plugin.tenure_torch_raise_set(ctypes.c_void_p(thrower), ctypes.c_void_p(thrower))
    _follow_captures(plugin)
    _kept.extend((plugin, inner))
    return allocator


def _address(library: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


def _follow_captures(plugin: ctypes.CDLL) -> None:
    """Tells Tenure of captures from Python, because PyTorch itself announces them with a
    std::function. torch.cuda.CUDAGraph says which pool it captures into, right after the capture
    has begun."""
    begun = plugin.tenure_torch_capture_begun
    begun.restype, begun.argtypes = None, [ctypes.c_int, _Id, ctypes.c_void_p]
    original = torch.cuda.CUDAGraph.capture_begin

    def capture_begin(self: Any, pool: Any = None, *arguments: Any, **named: Any) -> None:
        if pool is None:
            pool = torch.cuda.graph_pool_handle()  # or nobody but PyTorch would know its number
        original(self, pool, *arguments, **named)
        stream = torch.cuda.current_stream()
        number = pool.id if hasattr(pool, "id") else pool
        begun(stream.device_index, _Id(*number), stream.cuda_stream)

    torch.cuda.CUDAGraph.capture_begin = capture_begin


def memory_stats(device: Any = None) -> Dict[str, int]:
    """torch.cuda.memory_stats() from Tenure, also when install() was told not to take it over.
    Tenure does not keep segments apart by size: "segment" and "reserved_bytes" are 0 but for
    "all"."""
    return _torch_stats.flat(_torch_stats.nested(_torch_stats.index_of(device)))


def restore_stats() -> None:
    """Gives torch.cuda's questions about memory back to PyTorch, which then refuses to answer."""
    _torch_stats.restore()


def mempool(limit_bytes: Size = 0, release_threshold_bytes: Size = 0,
            handle: str = "default", rdma: bool = False, **options: Any) -> Any:
    """A torch.cuda.MemPool whose segments come from Tenure, for ``torch.cuda.use_mem_pool``.
    PyTorch's own allocator stays and carves the segments up. Options go to torch.cuda.MemPool.

    All such pools of a device share one pool of Tenure's. Its properties can be given while it has
    no segments: the most that it may hold, how much idle memory it keeps, as what its memory can be
    exported (``"posix_fd"``, ``"fabric"``, ``"none"``), and whether network cards may address it.

    After install() it is a plain torch.cuda.MemPool, which Tenure serves like all memory; a pool
    with properties is a ``tenure.Pool`` there."""
    number = _pools.number_of("handle", handle, _pools.HANDLES)
    given = (bytes_of(limit_bytes), bytes_of(release_threshold_bytes), number, int(rdma))
    if is_installed():
        return _mempool_installed(given != (0, 0, 0, 0), options)
    path = _library.beside("libtenure_torch.so")
    plugin = ctypes.CDLL(path)
    if given != (0, 0, 0, 0):
        set_options = plugin.tenure_torch_segment_options
        set_options.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_int]
        if set_options(*given) != 0:
            raise RuntimeError("the pool that segments come from has live segments: its properties "
                               "can be given only while it has none")
    allocator = torch.cuda.memory.CUDAPluggableAllocator(
        path, "tenure_torch_segment_malloc", "tenure_torch_segment_free")
    _kept.append(allocator)
    return torch.cuda.MemPool(allocator.allocator(), **options)


def _mempool_installed(has_properties: bool, options: Dict[str, Any]) -> Any:
    if has_properties:
        raise RuntimeError("tenure.torch.install() serves all of PyTorch's memory, and a MemPool "
                           "has no properties of its own there: allocate inside of `with "
                           "tenure.Pool(...):`, which takes the same ones")
    if _kind == "pluggable":
        raise RuntimeError("PyTorch has no MemPool with a pluggable allocator, which Tenure is "
                           "here (`python3 -m tenure.torch status` says why): allocate inside of "
                           "`with tenure.Pool():`")
    return torch.cuda.MemPool(**options)
