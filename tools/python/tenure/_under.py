# SPDX-License-Identifier: Apache-2.0
"""Tenure under a Python program that knows nothing of it: `tenure run --check` and `python3 -m
tenure.torch run`.

Both start Python with the folder ``_startup`` first in PYTHONPATH. Its sitecustomize calls begin().
After the program has imported PyTorch or CuPy, and before that engine has allocated anything,
Tenure becomes its allocator: for PyTorch when it starts CUDA, for CuPy at the first array. It is
not done at the import. Some programs import, fork, and use the GPU only in their children, and the
import would start the driver in them. The program's own calls come first: if it calls install()
itself, that is not repeated.

This file is loaded by its path, as `_tenure_under`. The package beside it is loaded only when an
engine asks. So a program without an engine pays for nothing.

    TENURE_UNDER           the engines: "torch", "torch,cupy"
    TENURE_PRELOAD_CHECK   1: the checker is in the process, too, and wants to know
"""
from __future__ import annotations

import atexit
import importlib
import importlib.util
import os
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence

HERE = os.path.dirname(os.path.abspath(__file__))
STARTUP = os.path.join(HERE, "_startup")
VARIABLE = "TENURE_UNDER"
_lock = threading.RLock()


def python() -> str:
    """The Python that runs this. It does not always know its own path, as where it was started by
    a name that PATH does not lead to."""
    return sys.executable or os.path.realpath("/proc/self/exe")


def environment(engines: str) -> Dict[str, str]:
    """The variables for a Python that begins with Tenure under it. ValueError: not possible."""
    if os.pathsep in STARTUP:
        raise ValueError(f"{STARTUP} has a colon in its name, which PYTHONPATH cannot hold: "
                         "install Tenure elsewhere")
    before = os.environ.get("PYTHONPATH")
    return {VARIABLE: engines, "PYTHONPATH": STARTUP + (os.pathsep + before if before else "")}


def begin() -> None:
    """Watches for the engines. Called before the program's first line."""
    engines = [name for name in os.environ.get(VARIABLE, "").split(",") if name in _ENGINES]
    if _is_checked():
        check = _checker()
        if check is None:  # a child that the checker was taken away from
            return
        check.tenure_preload_python()
        atexit.register(check.tenure_preload_ending)
        _package("_frames").begin()
    if engines:
        sys.meta_path.insert(0, _Watch(engines))


def _is_checked() -> bool:
    return os.environ.get("TENURE_PRELOAD_CHECK") == "1"


def _checker() -> Any:
    """The functions of the checker, if it is in the process."""
    import ctypes

    everything = ctypes.CDLL(None)
    return everything if hasattr(everything, "tenure_preload_python") else None


# ---- noticing that an engine is imported ----


class _Watch:
    """A finder that finds nothing itself: it makes the engine's own loader call us afterwards."""

    def __init__(self, engines: List[str]) -> None:
        self.engines = engines

    def find_spec(self, name: str, path: Optional[Sequence[str]] = None,
                  target: Any = None) -> Any:
        if name not in self.engines:
            return None
        self.engines.remove(name)
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None and finder is not self else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, _ENGINES[name])
                return spec
        self.engines.append(name)  # it may be found later
        return None


class _Loader:
    """The engine's loader, with one more step after the module was executed."""

    def __init__(self, loader: Any, put: Callable[[Any], None]) -> None:
        self._loader, self._put = loader, put

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        try:
            self._put(module)
        except Exception as error:  # another version of the engine
            _say(module.__name__, error)


def _installed(is_own: bool) -> None:
    """From now on the engine handles its captures itself. `is_own`: the program has called
    install() itself. So it may rely on promises that Tenure makes and the engine does not."""
    check = _checker()
    if check is not None:
        check.tenure_preload_engine()
        if not is_own:
            check.tenure_preload_under()


def _refusal(engine: str) -> str:
    name = {"torch": "PyTorch", "cupy": "CuPy"}[engine]
    if _is_checked():
        return f"check: of {name}'s memory only segments are checked, not what it makes of them"
    return f"{name} keeps its own allocator"


def _say(engine: str, error: object) -> None:
    sys.stderr.write(f"tenure: {_refusal(engine)}: {error}\n")
    sys.stderr.flush()


def _package(name: str) -> Any:
    """A module of the package that this file is in, or of the one that the program has."""
    if "tenure" not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            "tenure", os.path.join(HERE, "__init__.py"), submodule_search_locations=[HERE])
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["tenure"] = module
        spec.loader.exec_module(module)
    return importlib.import_module("tenure." + name)


# ---- PyTorch ----


# The functions of torch._C that start CUDA: the one that Python's ways lead to, and those that do
# it in C++.
_STARTS = ("_cuda_init", "_cuda_record_memory_history", "_cuda_attach_out_of_memory_observer")


def _put_under_torch(torch: Any) -> None:
    """PyTorch's allocator can be changed until PyTorch starts CUDA, which some ways do in C++
    alone: pinned memory, TorchScript, torch.ops, extensions. So the class is put there now, and
    waits. Where there is no class, we see only what leads through Python."""
    if getattr(getattr(torch, "version", None), "cuda", "") is None:
        return  # a PyTorch without CUDA: there is nothing to serve
    try:
        _package("torch")._wait(_refusal("torch"))
    except Exception:  # install() says why, if CUDA is used
        _watch_starts(torch._C)


def _watch_starts(functions: Any) -> None:
    own = {name: getattr(functions, name) for name in _STARTS
           if name == _STARTS[0] or hasattr(functions, name)}

    def watched(name: str) -> Callable[..., Any]:
        def start_with_tenure(*arguments: Any, **named: Any) -> Any:
            with _lock:
                if own:
                    for each, function in own.items():
                        setattr(functions, each, function)
                    own.clear()
                    _install_torch()
            return getattr(functions, name)(*arguments, **named)  # it may be Tenure's now
        return start_with_tenure

    for name in list(own):
        setattr(functions, name, watched(name))


def _install_torch() -> None:
    try:
        tenure_torch = _package("torch")
        is_own = tenure_torch.is_installed()
        if not is_own:
            tenure_torch.install(strict=True)
        _installed(is_own)
    except Exception as error:
        _say("torch", error)


# ---- CuPy ----


def _put_under_cupy(cupy: Any) -> None:
    """CuPy asks its allocator for the first array. If a program sets another allocator before, that
    one stays."""
    own = cupy.cuda.get_allocator()

    def first(bytes: int) -> Any:
        with _lock:
            if cupy.cuda.get_allocator() is first:
                cupy.cuda.set_allocator(own)
                _install_cupy()
        return cupy.cuda.get_allocator()(bytes)

    cupy.cuda.set_allocator(first)


def _install_cupy() -> None:
    try:
        tenure_cupy = _package("cupy")
        is_own = tenure_cupy.is_installed()
        tenure_cupy.install()
        _installed(is_own)
    except Exception as error:
        _say("cupy", error)


_ENGINES: Dict[str, Callable[[Any], None]] = {"torch": _put_under_torch, "cupy": _put_under_cupy}
