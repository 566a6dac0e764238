# SPDX-License-Identifier: Apache-2.0
"""cost.py [--ways A,B] [--rounds N] [--processes N] [--steps N] [--json FILE] [--commit TEXT]
cost.py --self

What it costs to follow a PyTorch program, whose allocator is Tenure, in each of these ways:

  bare     by itself: import tenure.torch
  run      under tenure run
  check    under tenure run --check, which puts tenure.torch under it
  seen     under tenure run, auto_record:seen
  waste    under tenure run --waste; only if asked for
  poison, guard   by itself, with that setting

Training steps of GPT-2 (../engines/cases.py), and launches (launches.py). All processes warm up,
then take turns, on the processors that are nearest to the GPU. Of bare, check and seen there are
several, each with every so manieth round: such a program is bound by its host, and differs from
process to process, and from second to second. A step under check may take 1.05 of the bare one's
time, with seen 1.02: the median over rounds, which a few that something else has held up do not
move; the rest is reported. So is the host's memory.

--self leads processes that only pretend through their rounds; it needs neither GPU nor PyTorch.

Exit codes: 0 all holds; 1 not; 2 wrong usage; 77 there is no PyTorch or no GPU.
"""
import argparse
import importlib.util
import itertools
import math
import os
import platform
import statistics
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "torch"), os.path.join(HERE, "..", "engines")]

import engines_torch as engines  # pylint: disable=wrong-import-position
import shown  # pylint: disable=wrong-import-position

LIMITS = {"check": 1.05, "seen": 1.02, "waste": 1.05}  # of a step
# The options of `tenure run`, None: without it; the allocator that the program asks for; settings.
WAYS = {
    "bare": (None, "tenure", ""),
    "run": ((), "tenure", ""),
    "check": (("--check",), "native", ""),
    "seen": ((), "tenure", "auto_record:seen"),
    "waste": (("--waste",), "native", ""),
    "poison": (None, "tenure", "poison:on"),
    "guard": (None, "tenure", "guard:on"),
}
PROGRAMS = {"gpt2_train": os.path.join(HERE, "..", "engines", "cases.py"),
            "launches": os.path.join(HERE, "launches.py")}
BURST = 200


def workers_of(case, options):
    workers = {}
    for way, (under, allocator, settings) in options.ways.items():
        before = () if under is None else (os.environ["TENURE"], "run", *under, "--")
        count = options.processes if way == "bare" or way in LIMITS else 1
        workers[way] = [shown.Worker(case, allocator, options.steps, before, settings)
                        for _ in range(count)]
    return workers


def resident_mib(pid):
    """Memory of a process that has no children, or of the last of its descendants."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            for child in file.read().split():
                return resident_mib(int(child))
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return 0.0


def memory_of(workers):
    return {way: resident_mib(of[0].process.pid) for way, of in workers.items()}


def rounds_of(workers, rounds):
    """Seconds of each way, a list with one for each round; None: one has ended."""
    times = {way: [] for way in workers}
    order = list(workers)
    for turn in range(rounds):
        for i in range(len(order)):
            way = order[(turn + i) % len(order)]
            seconds = workers[way][turn % len(workers[way])].epoch()
            if seconds is None:
                return None
            times[way].append(seconds)
    return times


def middle(values):
    """The median, and its 95 % interval: by how many values may be below it."""
    values, count, below, left_out = sorted(values), len(values), 0.0, 0
    while left_out < (count - 1) // 2:
        below += math.comb(count, left_out) / 2**count
        if below > 0.025:
            break
        left_out += 1
    left_out = max(left_out - 1, 0)
    return statistics.median(values), values[left_out], values[-1 - left_out]


def say(check, case, times, memory, options):
    """One line for each way; returns what was measured."""
    measured = {}
    for way in options.ways:
        ratio, low, high = middle([its / bare for its, bare in zip(times[way], times["bare"])])
        each = statistics.median(times[way]) / options.steps
        text = f"{1e3 * each:.2f} ms a step" if case != "launches" \
            else f"{1e9 * each / BURST:.0f} ns a launch"
        line = (f"{case} {way}: {text}, {ratio:.4f} ({low:.4f} to {high:.4f}) of bare; host "
                f"memory {memory[0][way]:.0f} MiB, {memory[1][way]:.0f} after "
                f"{options.rounds * options.steps} {'steps' if case != 'launches' else 'bursts'}")
        if case != "launches" and way in LIMITS:
            check.that(ratio <= LIMITS[way], line)
        else:
            print("       " + line, flush=True)
        measured[way] = dict(seconds=times[way], ratio=ratio, low=low, high=high,
                             mib_before=memory[0][way], mib_after=memory[1][way])
    return measured


def measure(check, case, options):
    workers = workers_of(case, options)
    for worker in itertools.chain(*workers.values()):
        worker.is_ready()
    before = memory_of(workers)
    times = rounds_of(workers, options.rounds)
    after = memory_of(workers)
    results = {way: [worker.end() for worker in of] for way, of in workers.items()}
    if times is None or None in itertools.chain(*results.values()):
        check.that(False, f"{case} runs in every way")
        return None
    measured = say(check, case, times, (before, after), options)
    runs = [one["losses"] for of in results.values() for one in of if "losses" in one]
    if runs:
        least = min(map(len, runs))
        check.that(len({tuple(run[:least]) for run in runs}) == 1,
                   f"{case}: the losses are the same bit by bit")
    return dict(ways=measured, processes=options.processes,
                **{key: results["bare"][0][key] for key in ("gpu", "torch")})


# A program as cases.py is, without PyTorch.
REHEARSED = """
import json, os, sys
case, allocator = sys.argv[1], sys.argv[2]
checked = os.environ.get("REHEARSED_CHECK") == "1"
print("ready", flush=True)
for _ in sys.stdin:
    if case == "ends" and checked:
        sys.exit(1)
    print(0.3 if case == "slow" and checked else 0.2, flush=True)
loss = "0x2p0" if case == "other" and checked else "0x1p0"
print(json.dumps(dict(losses=[loss], gpu="none", torch="none")))
"""
# `tenure`, which only starts the program.
TENURE = """#!/bin/sh
[ "$2" != --waste ] || shift
[ "$2" != --check ] || { export REHEARSED_CHECK=1; shift; }
shift 2
"$@"
"""


def check_self():
    """That each thing that is wrong is seen once."""
    assert middle([3, 1, 2]) == (2, 1, 3)
    assert middle(range(27)) == (13, 7, 19)  # 7 or fewer of 27 throws: 0.96 % on either side
    with tempfile.TemporaryDirectory() as folder:
        program, tenure = os.path.join(folder, "program.py"), os.path.join(folder, "tenure")
        for path, text in ((program, REHEARSED), (tenure, TENURE)):
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
        os.chmod(tenure, 0o700)
        os.environ["TENURE"], shown.Worker.PROGRAM = tenure, program
        options = argparse.Namespace(rounds=3, processes=2, steps=1, ways=WAYS)
        for case, failed in (("good", 0), ("slow", 1), ("other", 1), ("ends", 1)):
            check = engines.Checks()
            measured = measure(check, case, options)
            assert check.failed == failed, (case, check.failed)
            assert (measured is None) == (case == "ends"), case
    print("the rounds are right")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", default=",".join(way for way in WAYS if way != "waste"),
                        help="which of them; bare is always one")
    parser.add_argument("--rounds", type=int, default=27)
    parser.add_argument("--processes", type=int, default=3, help="of bare, check and seen")
    parser.add_argument("--steps", type=int, default=12, help="of a round")
    parser.add_argument("--json", metavar="FILE", help="where the results go")
    parser.add_argument("--commit", default="", help="what was measured, for the results")
    parser.add_argument("--self", action="store_true", help="only check this script")
    options = parser.parse_args()
    if options.self:
        return check_self()
    names = {"bare", *options.ways.split(",")}
    if names - set(WAYS):
        parser.error(f"no such way: {', '.join(sorted(names - set(WAYS)))}")
    options.ways = {way: how for way, how in WAYS.items() if way in names}
    if options.rounds < 2 or options.steps < 1 or options.processes < 1:
        parser.error("at least 2 rounds of one step, of one process")
    if importlib.util.find_spec("torch") is None:
        print("skipped: there is no PyTorch")
        return 77
    # A stack has frames of Python: what they cost depends on its version (docs/check.md).
    check, measured = engines.Checks(), dict(commit=options.commit, by="median",
                                             near=shown.near_the_gpu(),
                                             python=platform.python_version())
    measured["driver"] = engines.command_output(
        "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0")
    for case, program in PROGRAMS.items():
        shown.Worker.PROGRAM = program
        measured[case] = measure(check, case, options)
        shown.write(options.json, measured)
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
