# SPDX-License-Identifier: Apache-2.0
"""The name torch_memory_saver, for programs that import it: `python3 -m tenure.memory_saver run`
puts this folder in front. All of it is tenure.memory_saver's."""
from tenure import _saver_calls
from tenure.memory_saver import TorchMemorySaver, configure_subprocess, torch_memory_saver

_saver_calls.export(torch_memory_saver.pause, torch_memory_saver.resume)

__all__ = ["TorchMemorySaver", "configure_subprocess", "torch_memory_saver"]
