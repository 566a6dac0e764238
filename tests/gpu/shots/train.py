# SPDX-License-Identifier: Apache-2.0
"""train.py FILE: trains a small transformer for some seconds, and writes a snapshot with stacks
when the activations of a step are all there."""
import sys
import time

import torch
from torch import nn

import tenure


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 8, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width))
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def attend(self, x):
        y = self.first(x)
        return x + self.attention(y, y, y, need_weights=False)[0]

    def forward(self, x):
        x = self.attend(x)
        return x + self.mlp(self.second(x))


def step(model, optimizer, batch, length, path=None):
    x = torch.randn(batch, length, 1024, device="cuda")
    loss = model(x).square().mean()
    if path:
        tenure.snapshot(path)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def main():
    torch.manual_seed(0)
    torch.zeros(1, device="cuda")  # Tenure serves from here on
    tenure.history("full", 400_000)
    model = nn.Sequential(*[Block(1024) for _ in range(8)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for number in range(8):
        tenure.mark(f"step {number}")
        step(model, optimizer, 8 + 2 * (number % 4), 1024, sys.argv[1] if number == 7 else None)
    end = time.monotonic() + 6  # for those who watch
    while time.monotonic() < end:
        step(model, optimizer, 12, 1024)
        torch.cuda.synchronize()


main()
