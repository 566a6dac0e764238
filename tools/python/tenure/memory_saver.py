# SPDX-License-Identifier: Apache-2.0
"""torch_memory_saver's functions, with Tenure behind them, for programs that are written to it:

>>> import tenure.torch
>>> tenure.torch.install()
>>> from tenure.memory_saver import torch_memory_saver
>>> with torch_memory_saver.region(tag="weights", enable_cpu_backup=True):
...     model = load()
>>> torch_memory_saver.pause("weights")
>>> torch_memory_saver.resume("weights")

No library has to be preloaded. What differs: a second pause does nothing; a pause waits for running
work; a tag that was never used raises an error. The memory of CUDA graphs captured inside a region
is kept, whatever enable_cpu_backup says, because replays need it. Only region, pause and resume are
here.
"""
from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Optional

from . import tags

__all__ = ["pause", "region", "resume", "torch_memory_saver"]


def region(tag: str = "default", enable_cpu_backup: bool = False) -> AbstractContextManager:
    """What the thread allocates inside can be paused by its tag. Contents are lost in a pause,
    unless ``enable_cpu_backup``."""
    return tags.region(tag, content="keep" if enable_cpu_backup else "discard")


def pause(tag: Optional[str] = None) -> None:
    """Gives the memory of the tag, or of all tags, back to the driver."""
    tags.sleep(*(() if tag is None else (tag,)))


def resume(tag: Optional[str] = None) -> None:
    """Brings it back, at the same addresses."""
    tags.wake(*(() if tag is None else (tag,)))


torch_memory_saver = sys.modules[__name__]
