#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A loader in PyTorch that fills one pinned buffer for step after step: with `wrong` it does not
wait for the last step's copy. Exit code 77: PyTorch or a GPU is not there.

    pinned.py wrong|right
"""
import sys

try:
    import torch
except ImportError:
    sys.exit(77)
if not torch.cuda.is_available():
    sys.exit(77)

torch.set_num_threads(1)    # each thread that fills is a finding of its own
stream = torch.cuda.Stream()
event = torch.cuda.Event()
buffer = torch.empty(16 << 20, dtype=torch.uint8, pin_memory=True)
with torch.cuda.stream(stream):
    there = torch.empty_like(buffer, device="cuda")
for step in range(4):
    if sys.argv[1] == "right":
        event.synchronize()
    buffer.fill_(step)
    with torch.cuda.stream(stream):
        there.copy_(buffer, non_blocking=True)
        event.record()
torch.cuda.synchronize()
