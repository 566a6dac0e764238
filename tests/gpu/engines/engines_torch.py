#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""engines_torch.py [--cases A,B] [--steps N] [--json FILE] [--csv FILE] [--commit TEXT]

PyTorch with its own allocator, with that one's expandable segments, and with Tenure: GPT-2 small
and ResNet-50 train and generate with shapes that vary, prefetch with record_stream, and replay a
CUDA graph. Every run is a process of its own, with the same seed and deterministic algorithms.

Must hold for each case: the losses are the same bit by bit; Tenure's peak of reserved memory is
below that of expandable segments; a step takes no longer than with PyTorch's own allocator (but for
--tolerance, which is noise). Then the checks of checks.py: running out of memory, statistics,
snapshots, torch.cuda.MemPool.

Exit codes: 0 all holds; 1 not; 77 there is no PyTorch or no GPU.
"""
import argparse
import csv
import importlib.util
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = ("gpt2_train", "gpt2_generate", "resnet50_train", "resnet50_prefetch", "gpt2_graph")
ALLOCATORS = ("native", "expandable", "tenure")
COLUMNS = ("case", "allocator", "model", "steps", "step_ms", "peak_reserved_mib",
           "peak_allocated_mib", "losses", "driver_ms", "gpu", "driver", "torch", "commit")
MIB = 1 << 20


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def command_output(*command):
    """What a command prints, or "" if it fails or is not there."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return run.stdout.strip() if run.returncode == 0 else ""


def require_torch():
    if importlib.util.find_spec("torch") is None:
        skip("there is no PyTorch")
    said = command_output(sys.executable, "-c", "import torch; print(torch.cuda.is_available())")
    if said != "True":
        skip("PyTorch finds no GPU")


class Checks:
    def __init__(self):
        self.failed = 0

    def that(self, good, what):
        print(f"{'ok    ' if good else 'FAILED'} {what}", flush=True)
        self.failed += not good


def run_case(case, allocator, steps):
    """The results of one process, or None, with its last words printed."""
    run = subprocess.run([sys.executable, os.path.join(HERE, "cases.py"), case, allocator,
                          "--steps", str(steps)], capture_output=True, text=True)
    if run.returncode == 0:
        return json.loads(run.stdout.splitlines()[-1])
    print(f"{case} with {allocator} ended with {run.returncode}:\n{run.stderr[-3000:]}",
          flush=True)
    return None


def compare(case, results, tolerance, check):
    native, expandable, tenure = (results[name] for name in ALLOCATORS)
    for name, result in results.items():
        print(f"       {case} {name}: {result['step_ms']:.2f} ms a step, "
              f"{result['peak_reserved_bytes'] / MIB:.0f} MiB reserved, "
              f"{result['peak_allocated_bytes'] / MIB:.0f} MiB allocated at the peak")
    for name, result in results.items():
        same = result["losses"] == native["losses"]
        check.that(same, f"{case}: {len(native['losses'])} losses, bit by bit, with {name}")
        if "failures" in result:
            check.that(result["failures"] == 0, f"{case}: no call of {name} failed")
    check.that(tenure["peak_reserved_bytes"] < expandable["peak_reserved_bytes"],
               f"{case}: Tenure reserves {tenure['peak_reserved_bytes'] / MIB:.0f} MiB, less than "
               f"the {expandable['peak_reserved_bytes'] / MIB:.0f} of expandable segments")
    ratio = tenure["step_ms"] / native["step_ms"]
    check.that(ratio <= 1 + tolerance, f"{case}: a step takes {ratio:.3f} of native's time")


def run_cases(options, facts, check):
    rows = []
    for case in options.cases.split(","):
        allocators = ALLOCATORS + (("tenure_plain",) if case == "gpt2_graph" else ())
        results = {name: run_case(case, name, options.steps) for name in allocators}
        if None in results.values():
            check.that(False, f"{case} runs with every allocator")
            continue
        compare(case, results, options.tolerance, check)
        for result in results.values():
            result["same_losses"] = result["losses"] == results["native"]["losses"]
            rows.append(result)
        if options.csv:  # after each case: what was measured is not lost if the rest is
            csv_write(options.csv, rows, facts)
    return rows


def run_checks(check):
    for kind in ("native", "plain"):
        run = subprocess.run([sys.executable, os.path.join(HERE, "checks.py"), kind], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(run.stdout, end="")
        check.that(run.returncode == 0, f"checks.py {kind}")


def csv_write(path, rows, facts):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in rows:
            writer.writerow([
                row["case"], row["allocator"], row["model"], row["steps"],
                f"{row['step_ms']:.3f}", f"{row['peak_reserved_bytes'] / MIB:.1f}",
                f"{row['peak_allocated_bytes'] / MIB:.1f}",
                "same" if row["same_losses"] else "different",
                f"{row['driver_ns'] / 1e6:.1f}" if "driver_ns" in row else "",
                row["gpu"], facts["driver"], row["torch"], facts["commit"]])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES), help="default: all")
    parser.add_argument("--steps", type=int, default=16, help="of an epoch; there are three")
    parser.add_argument("--tolerance", type=float, default=0.03, help="of a step's time")
    parser.add_argument("--json", metavar="FILE", help="where the results go")
    parser.add_argument("--csv", metavar="FILE", help="a line for each run")
    parser.add_argument("--commit", default="", help="what was measured, for the results")
    options = parser.parse_args()
    unknown = set(options.cases.split(",")) - set(CASES)
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    require_torch()
    check = Checks()
    facts = dict(commit=options.commit, driver=command_output(
        "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"))
    build = subprocess.run([sys.executable, "-m", "tenure.torch", "build"], text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(build.stdout, end="", flush=True)
    check.that(build.returncode == 0, "python3 -m tenure.torch build")
    rows = run_cases(options, facts, check)
    run_checks(check)
    for row in rows:
        row["losses"] = len(row["losses"])
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(dict(facts, failed=check.failed, runs=rows), file, indent=1)
            file.write("\n")
    print(f"{check.failed} checks failed" if check.failed else "all checks passed")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
