# SPDX-License-Identifier: Apache-2.0
"""launches.py CASE ALLOCATOR --steps N --serve: the host's time for a launch, seen from PyTorch.

Speaks as ../engines/cases.py --serve does: prints `ready`, and for each line it reads the seconds
of N bursts of 200 launches, each the least; at the end of its input a line of JSON. A burst is
short enough that no launch waits for the GPU, which is idle when it begins."""
import argparse
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "engines"))

import cases  # pylint: disable=wrong-import-position

BURST = 200


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case")
    parser.add_argument("allocator", choices=cases.ALLOCATORS)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--serve", action="store_true")
    options = parser.parse_args()
    cases.environment(options.allocator)
    torch = cases.start(options.allocator)
    one, other, result = (torch.ones(256, device="cuda") for _ in range(3))

    def burst():
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(BURST):
            torch.add(one, other, out=result)
        return time.perf_counter() - began

    burst()
    print("ready", flush=True)
    for _ in sys.stdin:
        print(options.steps * min(burst() for _ in range(options.steps)), flush=True)
    assert result.eq(2).all().item()
    print(json.dumps({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}))


if __name__ == "__main__":
    main()
