# SPDX-License-Identifier: Apache-2.0
"""PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF. Keys that mean something to Tenure become
settings of Tenure's. For each other key a sentence says why it has no effect. Tenure also follows
what a program sets while it runs (torch._C._accelerator_setAllocatorSettings)."""
from __future__ import annotations

import os
import re
import warnings
from typing import Any, Callable, Dict, Iterable, List, Tuple

# In PyTorch's order: the first that is set counts.
VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
# The same key, the same meaning.
_TAKEN = ("garbage_collection_threshold", "max_split_size_mb", "per_process_memory_fraction",
          "roundup_power2_divisions")
# Those that can change while devices are in use, with their defaults.
_CHANGED = {"garbage_collection_threshold": "0", "max_split_size_mb": "0",
            "roundup_power2_divisions": "off"}
# PyTorch's functions for that, newest first.
_SETTERS = ("_accelerator_setAllocatorSettings",
            "_cuda_cudaCachingAllocator_set_allocator_settings")
# PyTorch's own host allocator reads them, and continues to.
_PYTORCHS = "pinned_"
_WHY_NOT = {
    "backend": "Tenure is the allocator",
    "expandable_segments": "memory grows in place anyway",
    "expandable_segments_reserve": "addresses are the setting address_space_gb of TENURE_CONF",
    "expandable_segments_reserve_by_class": "addresses are dealt out as streams need them",
    "graph_capture_record_stream_reuse": "captures reuse memory by the graph's edges anyway",
    "large_segment_size_mb": "the size of chunks is the setting chunk_mb of TENURE_CONF",
    "max_non_split_rounding_mb": "nothing is rounded up to a segment",
    "release_lock_on_cudamalloc": "no lock is held in the driver anyway",
    "throw_on_cudamalloc_oom": "running out of memory raises at once anyway",
}
# PyTorch insists that the backend it reads is the allocator it has.
_BACKEND, _BACKENDS = "backend", ("native", "cudaMallocAsync")
# Keys without effect because Tenure does this anyway: no warning.
_SILENT = ("expandable_segments", "graph_capture_record_stream_reuse",
           "release_lock_on_cudamalloc", "throw_on_cudamalloc_oom")
_PAIR = re.compile(r"\s*(\w+)\s*:\s*(\[[^\]]*\]|[^,\[\]]*)\s*(?:,|$)")


def _pairs(text: str) -> List[Tuple[str, str]]:
    found, at = [], 0
    while at < len(text):
        match = _PAIR.match(text, at)
        if match is None:
            break  # PyTorch says what is wrong with it
        found.append((match.group(1), match.group(2).replace(" ", "")))
        at = match.end()
    return found


def read() -> Tuple[Dict[str, str], List[str]]:
    """Makes Tenure's settings of what the environment says for PyTorch's allocator; and a sentence
    for each key that has no effect although users may expect one."""
    return _read(_text())


def _read(text: str) -> Tuple[Dict[str, str], List[str]]:
    settings: Dict[str, str] = {}
    sentences = []
    for key, value in _pairs(text):
        if key in _TAKEN:
            settings[key] = value
        elif not key.startswith(_PYTORCHS) and key not in _SILENT:
            sentences.append(f"{key}: {_WHY_NOT.get(key, 'Tenure knows no such key')}")
    return settings, sentences


def _text() -> str:
    return next((os.environ[name] for name in VARIABLES if os.environ.get(name)), "")


def settle(functions: Any) -> None:
    """Makes PyTorch read its settings while its own allocator is still there. It reads them when
    they are first needed, and if they name a backend that is then not its allocator, it fails with
    an internal assertion."""
    if _BACKEND not in keys(_text()):
        return
    for name in _SETTERS:
        setter = getattr(functions, name, None)
        if setter is not None:
            try:
                setter(_text())
            except Exception:  # they are wrong; PyTorch says so when it needs them
                pass
            return


def _without_backend(text: str) -> str:
    pairs = _pairs(text)
    if not any(key == _BACKEND and value in _BACKENDS for key, value in pairs):
        return text
    return ",".join(f"{key}:{value}" for key, value in pairs if key != _BACKEND)


def keys(text: str) -> List[str]:
    """The keys of a text like those of TENURE_CONF."""
    return [key for key, _ in _pairs(text)]


def follow(functions: Any, configure: Callable[[Dict[str, str]], None],
           settled: Iterable[str]) -> None:
    """From now on Tenure follows PyTorch's setters in ``functions`` (torch._C), after PyTorch
    itself. Keys that mean something to Tenure are changed with ``configure``. Keys that are not
    named go back to their defaults, as PyTorch's do. Keys in ``settled`` stay; a second call adds
    to them."""
    stay = set(settled)
    for name in _SETTERS:
        setter = getattr(functions, name, None)
        if hasattr(setter, "stay"):
            setter.stay.update(stay)
        elif setter is not None:
            setattr(functions, name, _following(setter, configure, stay))


def _following(setter: Callable[[str], Any], configure: Callable[[Dict[str, str]], None],
               stay: "set[str]") -> Callable[[str], Any]:
    def set_settings(text: str) -> Any:
        result = setter(_without_backend(text))  # raises if it is wrong
        settings, sentences = _read(text)
        if settings.pop("per_process_memory_fraction", None) is not None:
            sentences.append("per_process_memory_fraction: counts before install(); use "
                             "torch.cuda.set_per_process_memory_fraction")
        for key, default in _CHANGED.items():
            if key in stay:
                if key in settings:
                    sentences.append(f"{key}: TENURE_CONF or install() has said what it is")
                continue
            try:
                configure({key: settings.get(key, default)})
            except Exception as error:  # a value that only PyTorch takes
                sentences.append(f"{key}: {error}")
        if sentences:
            warnings.warn("Of PyTorch's settings these have no effect with Tenure: "
                          + "; ".join(sentences) + ".", RuntimeWarning, stacklevel=2)
        return result
    set_settings.stay = stay  # type: ignore[attr-defined]
    return set_settings
