# SPDX-License-Identifier: Apache-2.0
"""oom.py FILE TEXT: a cache that is never emptied meets a limit; a snapshot of that moment, and the
text of the error."""
import sys

import torch

import tenure

cache = []


def embed(batch):
    return torch.randn(batch, 2048, 1024, device="cuda")


def serve(batch):
    hidden = embed(batch)
    cache.append(hidden)  # the leak
    return hidden.sum()


def main():
    torch.zeros(1, device="cuda")
    tenure.history("full", 100_000)
    tenure.set_limit("4GiB")
    for number in range(1000):
        try:
            serve(8 + number % 3)
        except torch.OutOfMemoryError as problem:
            tenure.snapshot(sys.argv[1])
            with open(sys.argv[2], "w", encoding="utf-8") as file:
                file.write(f"{problem}\n")
            return 0
    print("nothing failed", file=sys.stderr)
    return 1


sys.exit(main())
