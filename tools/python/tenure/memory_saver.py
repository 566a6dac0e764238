# SPDX-License-Identifier: Apache-2.0
"""torch_memory_saver's interface, with Tenure behind it, for programs that are written to it:

>>> import tenure.torch
>>> tenure.torch.install()
>>> from tenure.memory_saver import torch_memory_saver
>>> with torch_memory_saver.region(tag="weights", enable_cpu_backup=True):
...     model = load()
>>> with torch_memory_saver.cuda_graph(graph, tag="graph"):
...     step()
>>> torch_memory_saver.pause("weights")
>>> torch_memory_saver.resume("weights")

A program that imports the name ``torch_memory_saver`` runs unchanged, with PyTorch's memory from
Tenure:

    python3 -m tenure.memory_saver run [--conf STR] PROGRAM [ARGUMENTS]

What differs:

- No library has to be preloaded. Both hook modes are the same, and both have cuda_graph().
- A pause waits for the device's running work. A second pause of a tag, or a resume of one that is
  awake, does nothing. A tag that was never used is passed over with a warning.
- Each of them does all of it on a device, or raises and has changed nothing there.
- While a tag is paused, nothing can be allocated in its regions.
- get_cpu_backup() copies. With ``zero_copy`` the copy is kept, and asking again fills the same one.
  Writing to it changes nothing. It is in pinned memory, or for the backend ``mmap`` in ordinary
  memory, and ends with the tensor's memory.
- A CUDA graph that is captured inside a region(), and not by cuda_graph(), keeps its contents.
- Files of ``enable_disk_backup`` have up to 64 MiB each, whatever TMS_DISK_BACKUP_CHUNK_MB says.
  Their room is taken before the pause begins, so a full disk refuses the pause.
- Of the internals there are _ensure_initialized(), _impl._with_region_config(), _impl._mem_pools
  and ``_impl._binary_wrapper.cdll``: tms_get_interesting_region() and its kin, and any function of
  the process. A pool of _mem_pools holds nothing: a tag's memory goes with its tensors.
  _with_region_config() changes what the getters say, and tags nothing: only region() does.
- tms_pause() and tms_resume() are functions of the process once the program has imported the name
  torch_memory_saver. After an error, which is on stderr, they return 999. The other C functions are
  methods of ``cdll`` alone.
- Memory that a program takes by cudaMalloc() itself is not paused.
"""
from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import types
import warnings
from typing import Any, Dict, Iterator, List, Optional, Tuple

from . import _library, _pools, _saver_backups, _under, tags
from ._library import Error

__all__ = ["TorchMemorySaver", "configure_subprocess", "torch_memory_saver"]

DEFAULT = "default"
_MODES = ("preload", "torch")
_BACKENDS = (None, "mmap", "pinned")
_MODULES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_saver")
_INVALID_ARGUMENT, _NOT_LIVE = 1, 8


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in ("1", "true", "yes")


def _content_of(in_memory: bool, on_disk: bool) -> str:
    return "keep" if in_memory else "disk" if on_disk else "discard"


def _initial_backend() -> str:
    return os.environ.get("TMS_INIT_CPU_BACKUP_BACKEND") or "pinned"


class _Calls:
    """The library as programs of torch_memory_saver's see it: what tells the state, and any C
    function that the process has."""

    def __init__(self, state: "_State") -> None:
        self._state = state
        self._process = ctypes.CDLL(None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._state if name.startswith("tms_get_") else self._process, name)


class _State:
    """What the calling thread allocates belongs to: as programs ask that look at the internals,
    `torch_memory_saver._impl._binary_wrapper.cdll.tms_get_...()`. Of all this, Tenure itself asks
    only for the backend."""

    def __init__(self) -> None:
        self._thread = threading.local()
        self._binary_wrapper = types.SimpleNamespace(cdll=_Calls(self))
        self._mem_pools: Dict[Tuple[str, bool, bool, str, int], str] = {}

    def _now(self) -> Tuple[bool, bool, str, str]:
        rest = (_is_set("TMS_INIT_ENABLE"), _is_set("TMS_INIT_ENABLE_CPU_BACKUP"), DEFAULT,
                _initial_backend())
        return getattr(self._thread, "now", rest)

    def enter_pool(self, tag: str, enable_cpu_backup: bool, enable_disk_backup: bool,
                   backend: str) -> None:
        """What a region notes in _mem_pools, by torch_memory_saver's key."""
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        device = cuda.current_device() if cuda is not None and cuda.is_initialized() else 0
        self._mem_pools.setdefault((tag, enable_cpu_backup, enable_disk_backup,
                                    backend if enable_cpu_backup else "", device), tag)

    @contextlib.contextmanager
    def _with_region_config(self, tag: str, enable_cpu_backup: bool,
                            cpu_backup_backend: Optional[str] = None,
                            enable_disk_backup: bool = False) -> Iterator[None]:
        before = self._now()
        self._thread.now = (True, enable_cpu_backup, tag, cpu_backup_backend or before[3])
        try:
            yield
        finally:
            self._thread.now = before

    def tms_get_interesting_region(self) -> bool:
        return self._now()[0]

    def tms_get_enable_cpu_backup(self) -> bool:
        return self._now()[1]

    def tms_get_current_tag(self) -> bytes:
        return self._now()[2].encode()

    def tms_get_cpu_backup_backend(self) -> bytes:
        return self._now()[3].encode()


class TorchMemorySaver:
    """All of it; ``torch_memory_saver`` is the one that programs use."""

    def __init__(self) -> None:
        self._impl = _State()
        self._hook_mode: Optional[str] = None
        self._is_used = False
        self._has_disk = False  # a folder is set
        self._tags: List[str] = []  # of regions, in the order of their first use
        self._graphs: List[str] = []  # of graphs whose contents need not be kept
        self._backends: Dict[Optional[str], str] = {}  # by tag
        self._backups = _saver_backups.Backups()
        # Untagged memory belongs to the default tag, for engines that start so.
        self._has_rest = _is_set("TMS_INIT_ENABLE")
        self.retain_cpu_backup = _is_set("TMS_RETAIN_CPU_BACKUP")

    @property
    def enabled(self) -> bool:
        return True

    @property
    def hook_mode(self) -> str:
        return self._hook_mode or _MODES[0]

    @hook_mode.setter
    def hook_mode(self, mode: str) -> None:
        if mode not in _MODES:
            raise ValueError(f"hook_mode {mode!r} is not one of {', '.join(_MODES)}")
        if self._is_used:
            raise AssertionError("hook_mode is set before the first region, pause or resume")
        self._hook_mode = mode

    @property
    def memory_margin_bytes(self) -> int:
        """So much of the device's memory is left to others: an allocation that would take some of
        it fails. The setting headroom_mb, rounded up."""
        raise NotImplementedError("memory_margin_bytes can only be set")

    @memory_margin_bytes.setter
    def memory_margin_bytes(self, bytes: int) -> None:
        if bytes < 0:
            raise ValueError(f"memory_margin_bytes is {bytes}, and cannot be negative")
        _library.call("tnr_configure", f"headroom_mb:{(bytes + (1 << 20) - 1) >> 20}".encode())

    # ---- where memory comes from ----

    @contextlib.contextmanager
    def region(self, tag: str = DEFAULT, enable_cpu_backup: bool = False,
               enable_disk_backup: bool = False,
               cpu_backup_backend: Optional[str] = None) -> Iterator[None]:
        """What the thread allocates inside can be paused by its tag. Contents are lost in a pause,
        unless ``enable_cpu_backup``, or ``enable_disk_backup``: then they lie in files (see
        set_disk_backup_dir). Regions nest, and the innermost counts."""
        self._check_backup(enable_cpu_backup, cpu_backup_backend)
        if enable_disk_backup:
            if enable_cpu_backup:
                raise AssertionError("enable_cpu_backup and enable_disk_backup: contents are kept "
                                     "in one place; choose one of them")
            self._have_disk()
        self._use(tag, self._tags)
        content = _content_of(enable_cpu_backup, enable_disk_backup)
        with self._impl._with_region_config(tag, enable_cpu_backup, cpu_backup_backend):
            backend = self._note_backend(tag, cpu_backup_backend)
            self._impl.enter_pool(tag, enable_cpu_backup, enable_disk_backup, backend)
            with tags.region(tag, content=content):
                yield

    @contextlib.contextmanager
    def cuda_graph(self, cuda_graph: Any, pool: Any = None, stream: Any = None,
                   capture_error_mode: str = "global", tag: str = DEFAULT,
                   enable_cpu_backup: bool = False,
                   cpu_backup_backend: Optional[str] = None) -> Iterator[None]:
        """torch.cuda.graph() whose memory can be paused by the tag. Its contents are lost then,
        unless ``enable_cpu_backup``: a replay computes them again. With a ``pool`` that other
        graphs have, the first of them says both."""
        import torch

        self._check_backup(enable_cpu_backup, cpu_backup_backend)
        name = tag if enable_cpu_backup else _graphs_of(tag)
        self._use(name, self._tags if enable_cpu_backup else self._graphs)
        self._note_backend(name, cpu_backup_backend)
        with tags.region(name):
            with torch.cuda.graph(cuda_graph, pool=pool, stream=stream,
                                  capture_error_mode=capture_error_mode):
                yield

    @contextlib.contextmanager
    def disable(self, dispose_mem_pool_after_use: bool = True) -> Iterator[None]:
        """What the thread allocates inside stays where it is in a pause, also while everything is
        paused. At the end it goes back to the driver, but for what is still in use."""
        if not dispose_mem_pool_after_use:
            raise NotImplementedError("disable() always gives its memory back at the end")
        self._is_used = True
        _library.call("tnr_pool_push", None)  # or the pool would have the region's tag
        try:
            pool = _pools.Pool(name="disabled")
            try:
                with pool:
                    yield
            finally:
                pool.trim()
                pool.close()
        finally:
            _library.call("tnr_pool_pop", None)

    # ---- away and back ----

    def pause(self, tag: Optional[str] = None) -> None:
        """Gives the memory of the tag, or of all tags, back to the driver."""
        plain, graphs, has_rest = self._named(tag)
        done: List[Any] = []
        try:
            if graphs:
                tags.sleep(*graphs, content="discard")
                done.append(lambda: tags.wake(*graphs))
            if plain:
                tags.sleep(*plain)
                done.append(lambda: tags.wake(*plain))
            if has_rest:
                self._rest("sleep")
        except Error:
            for undo in reversed(done):
                undo()
            raise

    def resume(self, tag: Optional[str] = None) -> None:
        """Brings it back, at the same addresses: all of it, or none."""
        plain, graphs, has_rest = self._named(tag)
        if plain or graphs:
            tags.wake(*plain, *graphs)
        if has_rest:
            self._rest("wake")
        if not self.retain_cpu_backup:
            rest: List[Optional[str]] = [None] if has_rest else []
            self._backups.drop([*plain, *graphs, *rest])

    def get_cpu_backup(self, x: Any, zero_copy: bool = False) -> Any:
        """A tensor on the host with what the pause has kept of the tensor; None if it is not
        paused, or nothing was kept. With ``retain_cpu_backup``, what was asked for with
        ``zero_copy`` stays after a resume, as it was."""
        import torch

        if not x.is_contiguous():
            raise AssertionError("get_cpu_backup() is for contiguous tensors")
        bytes, ptr = x.numel() * x.element_size(), x.data_ptr()
        read, key = _library.library().tnr_sleep_read, (ptr, bytes)
        kept = self._backups.get(key)
        status = read(ctypes.create_string_buffer(1), 0, ptr)
        if status == _INVALID_ARGUMENT:  # it is awake
            return kept if kept is None or zero_copy else kept.clone()
        if status == _NOT_LIVE:
            return None
        tag = tags.of(ptr)
        copy = kept if zero_copy else None
        if copy is None and zero_copy and self._backends.get(tag, _initial_backend()) != "mmap":
            copy = _saver_backups.pinned(x.shape, x.dtype, bytes)
        if copy is None:
            copy = torch.empty(x.shape, dtype=x.dtype, device="cpu")
        _library.check(read(copy.data_ptr(), bytes, ptr), "tnr_sleep_read")
        if zero_copy and kept is None:
            self._backups.hold(key, copy, tag, x.untyped_storage())
        return copy

    def set_disk_backup_dir(self, path: str) -> None:
        """The folder of files that regions with ``enable_disk_backup`` are kept in, made if needed.
        Without it, TMS_DISK_BACKUP_DIR or else /tmp. It should be on a disk: what lies in a tmpfs
        is host memory."""
        os.makedirs(path, exist_ok=True)
        _library.call("tnr_configure", f"contents_dir:'{os.path.abspath(path)}'".encode())
        self._has_disk = True

    # ---- inside ----

    def _ensure_initialized(self) -> None:
        """Nothing is left to do; programs written to the internals call it."""

    def _have_disk(self) -> None:
        if not self._has_disk:
            self.set_disk_backup_dir(os.environ.get("TMS_DISK_BACKUP_DIR") or "/tmp")

    def _note_backend(self, tag: str, named: Optional[str]) -> str:
        """The backend of a tag: what was named for it last, or else what was in force at first."""
        if named is not None or tag not in self._backends:
            self._backends[tag] = named or self._impl.tms_get_cpu_backup_backend().decode()
        return self._backends[tag]

    def _check_backup(self, enable_cpu_backup: bool, backend: Optional[str]) -> None:
        if backend not in _BACKENDS:
            raise ValueError(f"cpu_backup_backend {backend!r} is neither 'pinned' nor 'mmap'")
        if backend is not None and not enable_cpu_backup:
            raise ValueError("cpu_backup_backend requires enable_cpu_backup=True")

    def _use(self, name: str, names: List[str]) -> None:
        self._is_used = True
        if name not in names:
            names.append(name)

    def _named(self, tag: Optional[str]) -> Tuple[List[str], List[str], bool]:
        """Tags of regions, tags of graphs, and whether untagged memory is meant, too."""
        self._is_used = True
        if tag is None:
            return list(self._tags), list(self._graphs), self._has_rest
        plain = [name for name in self._tags if name == tag]
        graphs = [name for name in self._graphs if name == _graphs_of(tag)]
        has_rest = self._has_rest and tag == DEFAULT
        if not plain and not graphs and not has_rest:
            known = self._tags + [name[:-len(_GRAPHS)] for name in self._graphs]
            warnings.warn(f"no region has the tag {tag!r}; there are: {', '.join(known) or 'none'}",
                          RuntimeWarning, stacklevel=3)
        return plain, graphs, has_rest

    def _rest(self, verb: str) -> None:
        """Untagged memory sleeps or wakes, on each device that is in use."""
        content = _content_of(_is_set("TMS_INIT_ENABLE_CPU_BACKUP"),
                              _is_set("TMS_INIT_ENABLE_DISK_BACKUP"))
        if content == "disk":
            self._have_disk()
        options = tags._SleepOptions(ctypes.sizeof(tags._SleepOptions), tags._content(content),
                                     0, 0)
        for device in tags._devices(None):
            if verb == "sleep":
                _library.call("tnr_pool_sleep", None, device, ctypes.byref(options))
            else:
                _library.call("tnr_pool_wake", None, device)


_GRAPHS = ".graphs"


def _graphs_of(tag: str) -> str:
    """Graphs whose contents are dropped have a tag of their own: the pool of a graph keeps its
    contents in a sleep that does not say otherwise."""
    return tag + _GRAPHS


torch_memory_saver = TorchMemorySaver()
region, cuda_graph, disable = (torch_memory_saver.region, torch_memory_saver.cuda_graph,
                               torch_memory_saver.disable)
pause, resume, get_cpu_backup = (torch_memory_saver.pause, torch_memory_saver.resume,
                                 torch_memory_saver.get_cpu_backup)


@contextlib.contextmanager
def configure_subprocess() -> Iterator[None]:
    """Python processes that are started inside have Tenure under PyTorch, and find this module by
    the name torch_memory_saver."""
    given = environment()
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def environment() -> Dict[str, str]:
    """The variables for a Python with Tenure under it, which finds this module by that name."""
    given = _under.environment("torch")
    given["PYTHONPATH"] = _MODULES + os.pathsep + given["PYTHONPATH"]
    return given


if __name__ == "__main__":
    from . import _saver_command

    sys.exit(_saver_command.main())
