# SPDX-License-Identifier: Apache-2.0
"""PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF: keys that mean something to Tenure are settings
of Tenure's; of the others a sentence says why they have no effect."""
from __future__ import annotations

import os
import re
from typing import Dict, List, Tuple

# In PyTorch's order: the first that is set counts.
VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
# The same key, the same meaning.
_TAKEN = ("garbage_collection_threshold", "max_split_size_mb", "per_process_memory_fraction",
          "roundup_power2_divisions")
# PyTorch's own host allocator reads them, and goes on to.
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
# What has no effect because it is so anyway: nothing to warn of.
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
    """Tenure's settings of what the environment says for PyTorch's allocator, and a sentence for
    each key that has no effect though somebody may expect one."""
    settings: Dict[str, str] = {}
    sentences = []
    text = next((os.environ[name] for name in VARIABLES if os.environ.get(name)), "")
    for key, value in _pairs(text):
        if key in _TAKEN:
            settings[key] = value
        elif not key.startswith(_PYTORCHS) and key not in _SILENT:
            sentences.append(f"{key}: {_WHY_NOT.get(key, 'Tenure knows no such key')}")
    return settings, sentences
