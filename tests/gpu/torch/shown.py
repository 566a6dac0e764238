#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shown.py [--cases A,B] [--rounds N] [--steps N] [--together N] [--json FILE] [--commit TEXT]
shown.py --self

What Tenure must show as PyTorch's allocator, in one call. Each round runs every allocator once, in
an order that turns from round to round, each in a process of its own: PyTorch's own, its expandable
segments, Tenure's class. Cases of two GPUs, gpt2_ddp and gpt2_fsdp2 and the like, are run where
--cases names them.

  steps   the workloads of ../engines/cases.py: the losses are the same bit by bit; Tenure reserves
          at most what expandable segments do and 8 MiB, and where the workload is eager and on one
          stream at most 1.02 of what is live and 8 MiB; the 95 % interval of a step's time over
          that of the faster of PyTorch's two reaches 1.00 or below. A process warms up and then
          waits between its rounds. All run on the processors that are nearest to the GPU, and each
          allocator has several processes, which take turns: a program that is bound by its host
          differs from process to process, and how much is said. --together N: so many workloads
          warm up at once before the first of them is timed
  empty   torch.empty and its free, host time: below the native allocator's
  shapes  torch.compile(mode="reduce-overhead") with 20 shapes: the memory of its private pools is
          at most the native allocator's

--json writes all that was measured, after each workload. --self checks the arithmetic, and leads
processes that only pretend through their rounds; it needs neither GPU nor PyTorch.

Exit codes: 0 all holds; 1 not; 2 wrong usage; 77 there is no PyTorch or no GPU.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ENGINES = os.path.join(os.path.dirname(HERE), "engines")
sys.path.insert(0, ENGINES)

import cases  # noqa: E402
import engines_torch as engines  # noqa: E402

MIB = 1 << 20
ALLOWED = 8 * MIB
ALLOCATORS = ("native", "expandable", "tenure")
ROUNDS_MIN = 7
WARM_UP_LIMIT_S, EPOCH_LIMIT_S = 480, 120
SHAPES = 20
# Eager, and on one stream: what is reserved is compared with what is live.
ONE_STREAM = ("gpt2_train", "resnet50_train", "gpt2_eager", "llama_eager", "resnet50_eager",
              "moe_eager", "graph_eager", "rollout_train", "diffusion")
# Those of two processes are asked for by name, since they want two GPUs.
DEFAULT_CASES = ",".join(f"{model}_{mode}" for mode in cases.MODES if mode not in cases.SHARED
                         for model in cases.PARTS)
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
    """What `run` returns of each allocator and turn, a list by allocator; None: one failed."""
    results = {name: [] for name in ALLOCATORS}
    for turn in range(rounds):
        for i in range(len(ALLOCATORS)):
            name = ALLOCATORS[(turn + i) % len(ALLOCATORS)]
            result = run(name, turn)
            if result is None:
                return None
            results[name].append(result)
    return results


def part_apart(part):
    def run(allocator, _turn):
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


class Worker:
    """A workload in a process of its own, which runs an epoch when it is told to."""

    PROGRAM = os.path.join(ENGINES, "cases.py")

    def __init__(self, case, allocator, steps, before=(), settings=""):
        """`before`: a command that starts it; `settings`: of Tenure's."""
        self.name = " ".join(filter(None, (case, "with", allocator, settings, *before)))
        environment = {**os.environ, "TENURE_CONF": settings} if settings else None
        # pylint: disable=consider-using-with
        self.said = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(
            [*before, sys.executable, "-B", self.PROGRAM, case, allocator, "--steps", str(steps),
             "--serve"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True,
            env=environment)

    def line(self, limit_s):
        """The next line that it prints, or None: it ended, or took longer."""
        watchdog = threading.Timer(limit_s, self.process.kill)
        watchdog.start()
        try:
            return self.process.stdout.readline().strip() or None
        finally:
            watchdog.cancel()

    def is_ready(self):
        return self.line(WARM_UP_LIMIT_S) == "ready"

    def epoch(self):
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except OSError:
            return None
        seconds = self.line(EPOCH_LIMIT_S)
        return float(seconds) if seconds else None

    def end(self):
        """What it measured, or None, with its last words printed."""
        result = None
        try:
            self.process.stdin.close()
            last = self.line(EPOCH_LIMIT_S)
            result = json.loads(last) if last else None
        except (OSError, ValueError):
            pass
        if self.process.wait() != 0 or result is None:
            self.said.seek(0)
            print(f"{self.name} ended with {self.process.returncode}:\n"
                  f"{self.said.read()[-3000:]}", flush=True)
            result = None
        self.said.close()
        return result


def near_the_gpu():
    """Binds this process, and so all that it starts, to the processors that are nearest to the
    first GPU, if the system says which. Returns them, or an empty string."""
    bus = engines.command_output("nvidia-smi", "--query-gpu=pci.bus_id", "--format=csv,noheader",
                                 "--id=0").lower()
    try:
        with open(f"/sys/bus/pci/devices/{bus[-12:]}/local_cpulist", encoding="ascii") as file:
            said = file.read().strip()
        near = set()
        for part in said.split(","):
            first, _, last = part.partition("-")
            near |= set(range(int(first), int(last or first) + 1))
        os.sched_setaffinity(0, near & os.sched_getaffinity(0))
    except (OSError, ValueError):
        return ""
    return said


def warmed_up(names, options):
    """The workers of so many workloads, lists by name and allocator, once each has warmed up. The
    first allocator comes first by itself: what it compiled the others find in PyTorch's cache."""
    workers = {name: {} for name in names}
    for allocators in (ALLOCATORS[:1], ALLOCATORS[1:]):
        for name in names:
            for allocator in allocators:
                workers[name][allocator] = [Worker(name, allocator, options.steps)
                                            for _ in range(options.processes)]
        for name in names:
            for allocator in allocators:
                for worker in workers[name][allocator]:
                    worker.is_ready()
    return workers


def apart(times, processes):
    """How much the slowest process of an allocator takes of the time of the fastest, at most."""
    medians = {name: [statistics.median(of[i::processes]) for i in range(processes)]
               for name, of in times.items()}
    return max(max(of) / min(of) for of in medians.values())


def show_case(check, case, workers, options):
    times = in_rounds(options.rounds,
                      lambda name, turn: workers[name][turn % options.processes].epoch())
    results = {name: [worker.end() for worker in of] for name, of in workers.items()}
    if times is None or any(None in of for of in results.values()):
        check.that(False, f"{case} runs with every allocator")
        return None
    least = min(len(one["losses"]) for of in results.values() for one in of)
    losses = {tuple(one["losses"][:least]) for of in results.values() for one in of}
    check.that(len(losses) == 1, f"{case}: the losses of all runs are the same bit by bit")
    no_failures(check, case, results)
    peak = {name: max(one["peak_reserved_bytes"] for one in of) for name, of in results.items()}
    ours = results["tenure"][0]
    # Of several streams Tenure tells the sum of their peaks.
    live = min(one["peak_allocated_bytes"] for of in results.values() for one in of)
    check.that(peak["tenure"] <= peak["expandable"] + ALLOWED,
               f"{case}: {peak['tenure'] / MIB:.0f} MiB reserved, expandable segments "
               f"{peak['expandable'] / MIB:.0f}, PyTorch's own {peak['native'] / MIB:.0f}")
    tight = peak["tenure"] / live
    if case in ONE_STREAM:
        check.that(peak["tenure"] <= 1.02 * live + ALLOWED, f"{case}: {tight:.4f} of what is live")
    else:
        print(f"       {case}: {tight:.4f} of what is live", flush=True)
    faster, (ratio, low, high) = compared(times)
    step_ms = 1e3 * statistics.median(times["tenure"]) / options.steps
    asked_ms, calls = (ours[f"epoch_driver_{what}"][cases.EPOCHS:] for what in ("ms", "calls"))
    print(f"       {case}: of a step {statistics.median(asked_ms) / options.steps:.2f} ms in the "
          f"driver for Tenure, {statistics.median(calls) / options.steps:.0f} calls; processes "
          f"of one allocator differ by {100 * (apart(times, options.processes) - 1):.0f} %",
          flush=True)
    check.that(low <= 1.0, f"{case}: a step takes {step_ms:.2f} ms, {ratio:.4f} ({low:.4f} to "
                           f"{high:.4f}) of the time with {faster}")
    return dict(peak_reserved_bytes=peak, peak_allocated_bytes=live, reserved_over_live=tight,
                epoch_seconds=times, faster=faster, ratio=ratio, low=low, high=high,
                driver_ms=asked_ms, driver_calls=calls, same_losses=len(losses) == 1,
                processes_apart=apart(times, options.processes), model=ours["model"],
                gpu=ours["gpu"], torch=ours["torch"])


def show_cases(check, names, options, shown):
    for first in range(0, len(names), options.together):
        group = names[first:first + options.together]
        began = time.monotonic()
        workers = warmed_up(group, options)
        print(f"       {', '.join(group)}: warm after {time.monotonic() - began:.0f} s", flush=True)
        for name in group:
            shown["cases"][name] = show_case(check, name, workers[name], options)
            write(options.json, shown)  # what was measured is not lost if the rest is


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


def asked(words):
    """The command that was given, without what belongs to where it was run."""
    kept, words = [], list(words)
    while words:
        word = words.pop(0)
        if word in ("--json", "--commit"):
            del words[:1]
        else:
            kept.append(word)
    return " ".join(["tests/gpu/torch.sh shown", *kept])


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
    assert in_rounds(3, lambda name, _turn: order.append(name) or {}) is not None
    assert [order[i] for i in (0, 3, 6)] == list(ALLOCATORS) and len(order) == 9
    assert in_rounds(2, lambda name, _turn: None) is None
    assert apart({"native": [1.0, 2.0, 1.0, 2.0], "tenure": [3.0] * 4}, 2) == 2.0
    assert asked(["--commit", "1", "--steps", "6", "--json", "/x"]).endswith("shown --steps 6")
    check_rounds()
    print("the arithmetic and the rounds are right")
    return 0


# A workload's process as cases.py has it, without PyTorch: argv[1] may be what goes wrong.
REHEARSED = """
import json, sys
case, allocator, ours = sys.argv[1], sys.argv[2], sys.argv[2] == "tenure"
if case == "never_ready" and ours:
    sys.exit(1)
print("ready", flush=True)
epochs = 3
for _ in sys.stdin:
    epochs += 1
    if case == "ends" and ours and epochs == 6:
        sys.exit(1)
    print(0.25 if case == "slow" and ours else 0.2, flush=True)
loss = "0x2p0" if case == "other_losses" and ours else "0x1p0"
reserved = 300 if case == "fat" and ours else 100
print(json.dumps(dict(
    losses=[loss] * epochs, peak_reserved_bytes=reserved << 20, peak_allocated_bytes=99 << 20,
    failures=int(case == "failures"), epoch_driver_ms=[0.0] * epochs,
    epoch_driver_calls=[0] * epochs, model="none", gpu="none", torch="none")))
"""


def check_rounds():
    """That processes are led through their rounds, and each thing that is wrong is seen once."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as program:
        program.write(REHEARSED)
        program.flush()
        Worker.PROGRAM, before = program.name, Worker.PROGRAM
        options = argparse.Namespace(rounds=ROUNDS_MIN, processes=2, steps=1, together=1, json=None)
        for name, failed in (("good", 0), ("slow", 1), ("other_losses", 1), ("fat", 1),
                             ("failures", 1), ("ends", 1), ("never_ready", 1)):
            check, shown = engines.Checks(), dict(cases={})
            show_cases(check, [name], options, shown)
            assert check.failed == failed, (name, check.failed)
            assert (shown["cases"][name] is None) == (name in ("ends", "never_ready")), name
        Worker.PROGRAM = before


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--part":
        return run_part(sys.argv[2], sys.argv[3])
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=DEFAULT_CASES)
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN, help="at least 7")
    parser.add_argument("--steps", type=int, default=16, help="of an epoch")
    parser.add_argument("--processes", type=int, default=2, help="of each allocator")
    parser.add_argument("--together", type=int, default=4, help="workloads that warm up at once")
    parser.add_argument("--parts", default="empty,shapes", help="what else, of empty,shapes")
    parser.add_argument("--json", metavar="FILE", help="where the results go")
    parser.add_argument("--commit", default="", help="what was measured, for the results")
    parser.add_argument("--self", action="store_true", help="only check this script")
    options = parser.parse_args()
    if options.self:
        return check_self()
    names = [name for name in options.cases.split(",") if name]
    unknown = set(names) - {*cases.CASES, *cases.SCHEDULES}
    if unknown or options.rounds < ROUNDS_MIN:
        parser.error(f"no such case: {', '.join(sorted(unknown))}" if unknown
                     else f"an interval wants {ROUNDS_MIN} rounds")
    engines.require_torch()
    check = engines.Checks()
    print(f"       processors: {near_the_gpu() or 'any'}", flush=True)
    driver = engines.command_output("nvidia-smi", "--query-gpu=driver_version",
                                    "--format=csv,noheader", "--id=0")
    shown = dict(facts=dict(commit=options.commit, driver=driver, command=asked(
        sys.argv[1:])), rounds=options.rounds, cases={})
    if "empty" in options.parts:
        shown["empty"] = show_empty(check, options)
    if "shapes" in options.parts:
        shown["shapes"] = show_shapes(check)
    show_cases(check, names, options, shown)
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
