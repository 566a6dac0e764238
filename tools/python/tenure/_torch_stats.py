# SPDX-License-Identifier: Apache-2.0
"""What torch.cuda says about memory, answered by Tenure.

The functions of torch.cuda that users call (memory_stats, max_memory_allocated, memory_summary ...)
are written in Python over a few functions of torch._C. Only those few are replaced, if the
installed PyTorch has them.
"""
from __future__ import annotations

import os
import pickle
import tempfile
from typing import Any, Callable, Dict, List

import torch

from . import _library, history, snapshot, stats

_SIZES = ("all", "large_pool", "small_pool")
_KINDS = ("current", "peak", "allocated", "freed")
_IDLE = [f"{name}.{size}" for name in ("inactive_split", "inactive_split_bytes")
         for size in _SIZES]
# What PyTorch has and Tenure does not keep: present, with the value 0.
_ZEROES = [f"{name}.{kind}" for name in _IDLE for kind in _KINDS]
_ZEROES += [f"{name}.{kind}" for name in ("oversize_allocations", "oversize_segments")
            for kind in _KINDS]
_SUMS = (".allocated", ".freed")
_COUNTS = ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc",
           "num_device_free")
_RECORDS_MAX = 1 << 24

_originals: Dict[str, Any] = {}
# By device: the sums that reset_accumulated_memory_stats() counts from.
_counted_from: Dict[int, Dict[str, int]] = {}


def index_of(device: Any) -> int:
    """The number of a device as torch.cuda's functions take it: None is the current one."""
    if device is None:
        return torch.cuda.current_device()
    if isinstance(device, int):
        return device
    index = torch.device(device).index
    return torch.cuda.current_device() if index is None else index


def _is_sum(key: str) -> bool:
    return key.endswith(_SUMS) or key in _COUNTS


def nested(device: int) -> Dict[str, Any]:
    """torch._C._cuda_memoryStats: a dictionary for each part of a name."""
    values = dict.fromkeys(_ZEROES, 0)
    values.update(stats(device))
    for key, value in _counted_from.get(device, {}).items():
        values[key] -= value
    for name in _IDLE:
        values[f"{name}.peak"] = values[f"{name}.current"]
    values["max_split_size"] = -1  # PyTorch's "no limit"
    result: Dict[str, Any] = {}
    for key, value in values.items():
        place, parts = result, key.split(".")
        for part in parts[:-1]:
            place = place.setdefault(part, {})
        place[parts[-1]] = value
    return result


def flat(values: Dict[str, Any], prefix: str = "") -> Dict[str, int]:
    """The reverse: names with dots, sorted."""
    result: Dict[str, int] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            result.update(flat(value, f"{prefix}{key}."))
        else:
            result[prefix + key] = value
    return dict(sorted(result.items()))


def _reset_peaks(device: int) -> None:
    _library.call("tnr_stats_reset_peaks", device)


def _reset_sums(device: int) -> None:
    _counted_from[device] = {key: value for key, value in stats(device).items() if _is_sum(key)}


def _memory_fraction(device: int) -> float:
    limit, whole = stats(device)["limit_bytes"], torch.cuda.get_device_properties(device)
    return min(1.0, limit / whole.total_memory)


def _memory_snapshot(*_arguments: Any) -> Any:
    """torch._C._cuda_memorySnapshot: Tenure's snapshot in PyTorch's format, read again."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "snapshot.pickle")
        snapshot(path)
        with open(path, "rb") as file:
            return pickle.load(file)


def _record_history(enabled: Any = "all", context: Any = None, stacks: Any = "all",
                    max_entries: int = 0, *_others: Any, **_named: Any) -> None:
    """torch._C._cuda_record_memory_history. Stacks are those of C and C++ code, recorded if stacks
    of them were asked for."""
    if not enabled:
        history("off")
        return
    records = max_entries if isinstance(max_entries, int) and max_entries <= _RECORDS_MAX else 0
    history("full" if context and stacks == "all" else "light", records)


_REPLACEMENTS: Dict[str, Callable[..., Any]] = {
    "_cuda_memoryStats": nested,
    "_cuda_resetPeakMemoryStats": _reset_peaks,
    "_cuda_resetAccumulatedMemoryStats": _reset_sums,
    "_cuda_getMemoryFraction": _memory_fraction,
    "_cuda_memorySnapshot": _memory_snapshot,
    "_cuda_record_memory_history": _record_history,
}


def replaced() -> List[str]:
    """The functions of torch._C that are Tenure's now."""
    return sorted(_originals)


def patch() -> None:
    """Makes Tenure answer. Does nothing if it does already."""
    for name, function in _REPLACEMENTS.items():
        if name not in _originals and hasattr(torch._C, name):
            _originals[name] = getattr(torch._C, name)
            setattr(torch._C, name, function)


def restore() -> None:
    """Makes PyTorch answer again."""
    for name, function in _originals.items():
        setattr(torch._C, name, function)
    _originals.clear()
