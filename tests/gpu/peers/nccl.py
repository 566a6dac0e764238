# SPDX-License-Identifier: Apache-2.0
"""nccl.py: nccl-tests without Tenure and under `tenure run`; nccl.sh calls it.

check: every program in every mode under `tenure run`: no wrong value. A mode that fails without
Tenure too is named and left out. speed: the usual programs, both ways in turns; medians. From
1 MiB the bandwidth must be 0.98 of that without, below it the time within the spread of the runs
without.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

LARGE = 1 << 20
MODES = {
    "one process": (["-g", "2"], {}),
    "threads": (["-t", "2", "-g", "1"], {}),
    "graphs": (["-g", "2", "-G", "2"], {}),
    "registered": (["-g", "2", "-R", "1"], {}),
    "registered, symmetric": (["-g", "2", "-R", "2"], {}),
    "cuMem off": (["-g", "2"], {"NCCL_CUMEM_ENABLE": "0"}),
    "P2P off": (["-g", "2"], {"NCCL_P2P_DISABLE": "1"}),
    "cuMem off, threads": (["-t", "2", "-g", "1"], {"NCCL_CUMEM_ENABLE": "0"}),
}
TIMED = ["all_reduce_perf", "all_gather_perf", "reduce_scatter_perf", "alltoall_perf",
         "sendrecv_perf"]


def run(program, arguments, environment, tenure):
    """What the program printed, and None or why it failed."""
    command = [str(program), *arguments]
    if tenure:
        command = [tenure, "run", "--", *command]
    try:
        done = subprocess.run(command, env={**os.environ, **environment}, text=True, timeout=90,
                              capture_output=True, check=False)
    except subprocess.TimeoutExpired:
        return "", "it took more than 90 s"
    if done.returncode != 0:
        return done.stdout, f"it ended with {done.returncode}: {last_line(done)}"
    if "Out of bounds values : 0 OK" not in done.stdout:
        return done.stdout, "it found wrong values"
    return done.stdout, None


def last_line(done):
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1][:300] if lines else "it said nothing"


def check(programs, tenure, modes, results):
    failed = 0
    for mode in modes:
        arguments, environment = MODES[mode]
        arguments = [*arguments, "-b", "8", "-e", "32M", "-f", "16", "-n", "5", "-w", "1"]
        passed, left = [], []
        for program in programs:
            _, wrong = run(program, arguments, environment, tenure)
            if not wrong:
                passed.append(program.name)
            elif run(program, arguments, environment, None)[1]:
                left.append(program.name)
            else:
                failed += 1
                print(f"FAILED {mode}: {program.name}: {wrong}", flush=True)
                results.append({"mode": mode, "program": program.name, "failed": wrong})
        text = f"; not without Tenure either: {', '.join(left)}" if left else ""
        print(f"{mode:24} {len(passed)} of {len(programs)} right{text}", flush=True)
        results.append({"mode": mode, "right": passed, "not_without_either": left})
    return failed


def rows(printed):
    """{bytes: (microseconds, bus bandwidth)} of what was printed, out of place."""
    found = {}
    for line in printed.splitlines():
        words = line.split()
        if len(words) >= 12 and words[0].isdigit():
            found[int(words[0])] = (float(words[-8]), float(words[-6]))
    return found


def compare(name, native, tenure, results):
    failed = 0
    for size in sorted(native[0]):
        times = [[run[size][0] for run in runs] for runs in (native, tenure)]
        rates = [[run[size][1] for run in runs] for runs in (native, tenure)]
        middle = [statistics.median(values) for values in times]
        ratio = statistics.median(rates[1]) / max(statistics.median(rates[0]), 1e-9)
        good = ratio >= 0.98 if size >= LARGE else middle[1] <= max(times[0])
        failed += not good
        print(f"{name:20} {size:10} B  {middle[0]:9.2f} us ({min(times[0]):.2f} to "
              f"{max(times[0]):.2f}), with Tenure {middle[1]:9.2f} ({min(times[1]):.2f} to "
              f"{max(times[1]):.2f}); bandwidth ratio {ratio:.3f}{'' if good else '  FAILED'}",
              flush=True)
        results.append({"program": name, "bytes": size, "native_us": times[0],
                        "tenure_us": times[1], "ratio": ratio})
    return failed


def speed(folder, tenure, rounds, results):
    failed = 0
    arguments = ["-g", "2", "-b", "1K", "-e", "256M", "-f", "8", "-w", "5", "-n", "50", "-c", "1"]
    for name in TIMED:
        runs = {None: [], tenure: []}
        for turn in range(rounds):
            for way in (None, tenure) if turn % 2 == 0 else (tenure, None):
                printed, wrong = run(folder / name, arguments, {}, way)
                if wrong:
                    print(f"FAILED {name}{' with Tenure' if way else ''}: {wrong}")
                    failed += 1
                else:
                    runs[way].append(rows(printed))
        if all(runs.values()):
            failed += compare(name, runs[None], runs[tenure], results)
    return failed


def facts(tenure):
    """What the numbers belong to."""
    version = subprocess.run([tenure, "--version"], text=True, capture_output=True, check=True)
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                         text=True, capture_output=True, check=True)
    name, driver = gpu.stdout.splitlines()[0].split(", ")
    return {"commit": version.stdout.split("(")[1].split(")")[0], "gpu": name, "driver": driver,
            "command": " ".join(["tests/gpu/nccl.sh", *sys.argv[3:]])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("tenure")
    parser.add_argument("parts", nargs="*", help="check, speed; both without")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mode", action="append", choices=list(MODES), help="check only this one")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    for part in options.parts:
        if part not in ("check", "speed"):
            parser.error(f"{part}: not check or speed")
    programs = sorted(options.folder.glob("*_perf"))
    parts = options.parts or ["check", "speed"]
    results = {"facts": facts(options.tenure), "check": [], "speed": []}
    failed = 0
    if "check" in parts:
        failed += check(programs, options.tenure, options.mode or MODES, results["check"])
    if "speed" in parts:
        failed += speed(options.folder, options.tenure, options.rounds, results["speed"])
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    print("all as it must be" if not failed else f"{failed} FAILED")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
