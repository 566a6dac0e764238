# SPDX-License-Identifier: Apache-2.0
"""steps.py step MODE [--warm]: how long a step of inference takes, with one length and with several
that vary from step to step. experiments.py calls it; --warm only compiles."""
import random
import statistics
import sys
import time

from common import captured, reserved_mib, row, stage, start, torch

MODES = ("eager", "compile", "reduce_overhead", "captured")
FIXED, VARYING = (128,), (64, 128, 192)
BATCH, LAYERS, STEPS = 4, 3, 200


def inputs(length):
    return torch.randn((BATCH, length, 512), device="cuda", dtype=torch.bfloat16)


def compiled(model, mode):
    kinds = {"compile": "default", "reduce_overhead": "reduce-overhead"}
    return torch.compile(model, mode=kinds[mode], dynamic=False)


class ByHand:
    """A graph for each length, all in one pool, as an engine does it."""

    def __init__(self, model, lengths):
        self.pool, self.graphs = torch.cuda.graph_pool_handle(), {}
        for length in sorted(lengths, reverse=True):
            given = inputs(length)
            self.graphs[length] = (given, *captured(lambda given=given: model(given),
                                                    pool=self.pool))

    def __call__(self, x):
        given, graph, result = self.graphs[x.shape[1]]
        given.copy_(x)
        graph.replay()
        return result


def timed(step, lengths, mode):
    """Microseconds of each step, the wait for the device included."""
    draw, times = random.Random(3), []
    given = {length: inputs(length) for length in lengths}
    for index in range(STEPS + 20):
        x = given[draw.choice(lengths)]
        torch.cuda.synchronize()
        begun = time.perf_counter_ns()
        if mode == "reduce_overhead":
            torch.compiler.cudagraph_mark_step_begin()
        step(x)
        torch.cuda.synchronize()
        times.append((time.perf_counter_ns() - begun) / 1e3)
    return sorted(times[20:])


def main():
    mode = sys.argv[2]
    start()
    model = stage(LAYERS)
    with torch.no_grad():
        step = model if mode == "eager" else ByHand(model, VARYING) if mode == "captured" \
            else compiled(model, mode)
        for name, lengths in (("fixed", FIXED), ("varying", VARYING)):
            for length in lengths * 3:          # compiles and captures
                if mode == "reduce_overhead":
                    torch.compiler.cudagraph_mark_step_begin()
                step(inputs(length))
            torch.cuda.synchronize()
            if "--warm" not in sys.argv:
                times = timed(step, lengths, mode)
                row("step", f"{mode} {name}", True, "",
                    median_us=f"{statistics.median(times):.1f}",
                    p95_us=f"{times[int(0.95 * len(times))]:.1f}", reserved_mib=reserved_mib())


if __name__ == "__main__":
    main()
