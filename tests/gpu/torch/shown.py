#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shown.py [--cases A,B] [--rounds N] [--steps N] [--json FILE] [--commit TEXT] [--self]

What Tenure must show as PyTorch's allocator, in one call. Each round runs every allocator once, in
an order that turns from round to round, each in a process of its own: PyTorch's own, its expandable
segments, Tenure's class.

  steps   the workloads of ../engines/cases.py: the losses are the same bit by bit; Tenure reserves
          at most what expandable segments do and 8 MiB; the 95 % interval of a step's time over
          that of the faster of PyTorch's two reaches 1.00 or below
  empty   torch.empty and its free, host time: below the native allocator's
  shapes  torch.compile(mode="reduce-overhead") with 20 shapes: the memory of its private pools is
          at most the native allocator's

--json writes all that was measured. --self checks the arithmetic and needs neither GPU nor PyTorch.

Exit codes: 0 all holds; 1 not; 2 wrong usage; 77 there is no PyTorch or no GPU.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ENGINES = os.path.join(os.path.dirname(HERE), "engines")
sys.path.insert(0, ENGINES)

import engines_torch as engines  # noqa: E402

MIB = 1 << 20
ALLOWED = 8 * MIB
ALLOCATORS = ("native", "expandable", "tenure")
ROUNDS_MIN = 7
SHAPES = 20
# The two-sided 95 % points of Student's distribution, by degrees of freedom.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306,
           9: 2.262, 10: 2.228, 12: 2.179, 15: 2.131, 20: 2.086, 30: 2.042}


def interval(ratios):
    """The mean of ratios and its 95 % interval, by their logarithms."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    freedom = len(logs) - 1
    student = STUDENT[max(known for known in STUDENT if known <= freedom)]
    half = student * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def compared(times):
    """Times by allocator, one for each round: the faster of PyTorch's two, and Tenure's ratio."""
    faster = min(ALLOCATORS[:2], key=lambda name: statistics.median(times[name]))
    return faster, interval([ours / theirs for ours, theirs in zip(times["tenure"], times[faster])])


# ---- one process ------------------------------------------------------------------------------


def host_time():
    """Nanoseconds for torch.empty and its free, the least of several batches."""
    import torch
    best = math.inf
    for _ in range(30):
        begin = time.perf_counter_ns()
        for _ in range(2000):
            torch.empty(4096, dtype=torch.uint8, device="cuda")
        best = min(best, (time.perf_counter_ns() - begin) / 2000)
    return dict(ns=best)


def captured_shapes():
    """Bytes that the pools of twenty captured shapes have reserved, and what was computed."""
    import torch
    torch._dynamo.config.cache_size_limit = 4 * SHAPES
    layers = torch.nn.Sequential(*(part for _ in range(4) for part in (
        torch.nn.Linear(1024, 1024), torch.nn.GELU()))).cuda().eval()
    model = torch.compile(layers, mode="reduce-overhead", dynamic=False)
    inputs = [torch.randn(64 * (i + 1), 1024, device="cuda") for i in range(SHAPES)]
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before, sums = torch.cuda.memory_reserved(), []
    with torch.no_grad():
        for _ in range(4):
            for given in inputs:
                torch.compiler.cudagraph_mark_step_begin()
                sums.append(float(model(given).double().sum()).hex())
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return dict(bytes=torch.cuda.memory_reserved() - before, sums=sums)


PARTS = {"empty": host_time, "shapes": captured_shapes}


def run_part(part, allocator):
    import cases
    cases.environment(allocator)
    cases.start(allocator)
    result = PARTS[part]()
    if allocator == "tenure":
        import tenure.torch
        result["failures"] = tenure.torch.failures()
    print(json.dumps(result))
    return 0


# ---- rounds -----------------------------------------------------------------------------------


def in_rounds(rounds, run):
    """What `run` returns of each allocator, a list by allocator; None if one of them failed."""
    results = {name: [] for name in ALLOCATORS}
    for turn in range(rounds):
        for i in range(len(ALLOCATORS)):
            name = ALLOCATORS[(turn + i) % len(ALLOCATORS)]
            result = run(name)
            if result is None:
                return None
            results[name].append(result)
    return results


def part_apart(part):
    def run(allocator):
        process = subprocess.run(
            [sys.executable, "-B", os.path.abspath(__file__), "--part", part, allocator],
            capture_output=True, text=True)
        if process.returncode == 0:
            return json.loads(process.stdout.splitlines()[-1])
        print(f"{part} with {allocator} ended with {process.returncode}:\n"
              f"{process.stderr[-3000:]}", flush=True)
        return None
    return run


def no_failures(check, what, results):
    check.that(all(one.get("failures", 0) == 0 for one in results["tenure"]),
               f"{what}: no call of Tenure's failed")


def show_case(check, case, options):
    results = in_rounds(options.rounds, lambda name: engines.run_case(case, name, options.steps))
    if results is None:
        check.that(False, f"{case} runs with every allocator")
        return None
    losses = {tuple(one["losses"]) for of in results.values() for one in of}
    check.that(len(losses) == 1, f"{case}: the losses of all runs are the same bit by bit")
    no_failures(check, case, results)
    peak = {name: max(one["peak_reserved_bytes"] for one in of) for name, of in results.items()}
    check.that(peak["tenure"] <= peak["expandable"] + ALLOWED,
               f"{case}: {peak['tenure'] / MIB:.0f} MiB reserved, expandable segments "
               f"{peak['expandable'] / MIB:.0f}")
    times = {name: [one["step_ms"] for one in of] for name, of in results.items()}
    faster, (ratio, low, high) = compared(times)
    check.that(low <= 1.0, f"{case}: a step takes {ratio:.4f} ({low:.4f} to {high:.4f}) of the "
                           f"time with {faster}")
    live = max(one["peak_allocated_bytes"] for one in results["tenure"])
    return dict(peak_reserved_bytes=peak, peak_allocated_bytes=live, step_ms=times, faster=faster,
                ratio=ratio, low=low, high=high, same_losses=len(losses) == 1)


def show_empty(check, options):
    results = in_rounds(options.rounds, part_apart("empty"))
    if results is None:
        check.that(False, "empty runs with every allocator")
        return None
    no_failures(check, "empty", results)
    times = {name: [one["ns"] for one in of] for name, of in results.items()}
    ratio, low, high = interval([ours / theirs for ours, theirs in
                                 zip(times["tenure"], times["native"])])
    check.that(ratio < 1.0, f"empty: {statistics.median(times['tenure']):.0f} ns, native "
                            f"{statistics.median(times['native']):.0f}: {ratio:.3f} ({low:.3f} to "
                            f"{high:.3f})")
    return dict(ns=times, ratio=ratio, low=low, high=high)


def show_shapes(check):
    results = in_rounds(1, part_apart("shapes"))
    if results is None:
        check.that(False, "shapes runs with every allocator")
        return None
    no_failures(check, "shapes", results)
    check.that(len({tuple(of[0]["sums"]) for of in results.values()}) == 1,
               "shapes: the results are the same bit by bit")
    held = {name: of[0]["bytes"] for name, of in results.items()}
    check.that(held["tenure"] <= held["native"],
               f"shapes: {held['tenure'] / MIB:.0f} MiB, native {held['native'] / MIB:.0f}")
    return held


def check_self():
    """That the arithmetic is right, and that each kind of failure is seen."""
    ratio, low, high = interval([1.0, 1.0, 1.0])
    assert (ratio, low, high) == (1.0, 1.0, 1.0)
    ratio, low, high = interval([0.9, 1.1, 1.0, 0.95, 1.05, 1.02, 0.98])
    assert low < 1.0 < high and abs(math.log(ratio) - (math.log(low) + math.log(high)) / 2) < 1e-9
    assert abs(high / low - 1.121) < 0.01, high / low
    slow = {"native": [10.0] * 7, "expandable": [9.0, 9.1, 9.0, 9.1, 9.0, 9.1, 9.0],
            "tenure": [9.9, 10.0, 9.9, 10.0, 9.9, 10.0, 9.9]}
    faster, (_, low, _) = compared(slow)
    assert faster == "expandable" and low > 1.0
    order = []
    assert in_rounds(3, lambda name: order.append(name) or {}) is not None
    assert [order[i] for i in (0, 3, 6)] == list(ALLOCATORS) and len(order) == 9
    assert in_rounds(2, lambda name: None) is None
    print("the arithmetic is right")
    return 0


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--part":
        return run_part(sys.argv[2], sys.argv[3])
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="gpt2_train,resnet50_train,resnet50_prefetch,gpt2_graph")
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN, help="at least 7")
    parser.add_argument("--steps", type=int, default=16, help="of an epoch; there are three")
    parser.add_argument("--json", metavar="FILE", help="where the results go")
    parser.add_argument("--commit", default="", help="what was measured, for the results")
    parser.add_argument("--self", action="store_true", help="only check the arithmetic")
    options = parser.parse_args()
    if options.self:
        return check_self()
    unknown = set(options.cases.split(",")) - set(engines.CASES)
    if unknown or options.rounds < ROUNDS_MIN:
        parser.error(f"no such case: {', '.join(sorted(unknown))}" if unknown
                     else f"an interval wants {ROUNDS_MIN} rounds")
    engines.require_torch()
    check = engines.Checks()
    shown = dict(commit=options.commit, rounds=options.rounds, cases={})
    for case in options.cases.split(","):
        shown["cases"][case] = show_case(check, case, options)
        write(options.json, shown)  # what was measured is not lost if the rest is
    shown["empty"] = show_empty(check, options)
    shown["shapes"] = show_shapes(check)
    shown["failed"] = check.failed
    write(options.json, shown)
    print(f"{check.failed} checks failed" if check.failed else "all checks passed")
    return 1 if check.failed else 0


def write(path, shown):
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(shown, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    sys.exit(main())
