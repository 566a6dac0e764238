# SPDX-License-Identifier: Apache-2.0
"""lanes.py FILE: batches that come by a copy stream, with record_stream; a snapshot while the last
uses are not over."""
import sys

import torch

import tenure


def fetch(copies, host):
    with torch.cuda.stream(copies):
        return host.to("cuda", non_blocking=True)


def use(batch, weight, copies):
    torch.cuda.current_stream().wait_stream(copies)
    batch.record_stream(torch.cuda.current_stream())
    return (batch @ weight).relu().sum()


def main():
    torch.zeros(1, device="cuda")
    tenure.history("full", 100_000)
    copies = torch.cuda.Stream()
    tenure.name_stream(copies, "copies")
    weight = torch.randn(4096, 4096, device="cuda")
    host = torch.randn(8192, 4096).pin_memory()
    for number in range(24):
        batch = fetch(copies, host)
        if number == 22:
            torch.cuda._sleep(2_000_000_000)  # about a second: what follows waits
        use(batch, weight, copies)
        del batch
    tenure.snapshot(sys.argv[1])
    torch.cuda.synchronize()


main()
