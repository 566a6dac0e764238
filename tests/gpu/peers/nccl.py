# SPDX-License-Identifier: Apache-2.0
"""nccl.py: nccl-tests without Tenure and under `tenure run`; nccl.sh calls it. With --self alone,
only that it sees what is wrong: with programs that only pretend, without a GPU.

check: every program in every mode under `tenure run`: no wrong value. A mode that fails without
Tenure too is named and left out. speed: the usual programs in one process, and all_reduce in every
other mode, both ways in turns; medians. From 1 MiB the bandwidth must be 0.98 of that without,
below it the time within the spread of the runs without.

Modes of several processes want programs that were built with MPI=1, and MPIRUN, a command to which
`-np 2 PROGRAM` may be added. Without it they are left out, and the output says so.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

LARGE = 1 << 20
# The program's options, variables of its environment, and how many processes it is.
MODES = {
    "one process": (["-g", "2"], {}, 1),
    "threads": (["-t", "2", "-g", "1"], {}, 1),
    "graphs": (["-g", "2", "-G", "2"], {}, 1),
    "registered": (["-g", "2", "-R", "1"], {}, 1),
    "registered, symmetric": (["-g", "2", "-R", "2"], {}, 1),
    "cuMem off": (["-g", "2"], {"NCCL_CUMEM_ENABLE": "0"}, 1),
    "P2P off": (["-g", "2"], {"NCCL_P2P_DISABLE": "1"}, 1),
    "cuMem off, threads": (["-t", "2", "-g", "1"], {"NCCL_CUMEM_ENABLE": "0"}, 1),
    "processes": (["-g", "1"], {}, 2),
    "processes, graphs": (["-g", "1", "-G", "2"], {}, 2),
    "processes, registered": (["-g", "1", "-R", "1"], {}, 2),
    "processes, symmetric": (["-g", "1", "-R", "2"], {}, 2),
    "processes, cuMem off": (["-g", "1"], {"NCCL_CUMEM_ENABLE": "0"}, 2),
    "processes, P2P off": (["-g", "1"], {"NCCL_P2P_DISABLE": "1"}, 2),
}
USUAL = "one process"
TIMED = ["all_reduce_perf", "all_gather_perf", "reduce_scatter_perf", "alltoall_perf",
         "sendrecv_perf"]


def run(program, mode, options, tenure):
    """What the program printed in that mode, and None or why it failed."""
    arguments, environment, processes = MODES[mode]
    command = [str(program), *arguments, *options]
    if tenure:
        command = [tenure, "run", "--", *command]
    if processes > 1:
        command = [*os.environ["MPIRUN"].split(), "-np", str(processes), *command]
    try:
        done = subprocess.run(command, env={**os.environ, **environment}, text=True, timeout=150,
                              capture_output=True, check=False)
    except subprocess.TimeoutExpired:
        return "", "it took more than 150 s"
    if done.returncode != 0:
        return done.stdout, f"it ended with {done.returncode}: {last_line(done)}"
    if "Out of bounds values : 0 OK" not in done.stdout:
        return done.stdout, "it found wrong values"
    return done.stdout, None


def last_line(done):
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1][:300] if lines else "it said nothing"


def check(programs, tenure, modes, jobs, results, keep=lambda: None):
    options = ["-b", "8", "-e", "32M", "-f", "16", "-n", "5", "-w", "1"]

    def look(mode, program):
        """None: right; an empty text: it fails without Tenure too; or what is wrong."""
        _, wrong = run(program, mode, options, tenure)
        return "" if wrong and run(program, mode, options, None)[1] else wrong

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        looks = {mode: [(program.name, pool.submit(look, mode, program)) for program in programs]
                 for mode in modes}
        for mode in modes:
            found = [(name, one.result()) for name, one in looks[mode]]
            for name, wrong in found:
                if wrong:
                    failed += 1
                    print(f"FAILED {mode}: {name}: {wrong}", flush=True)
                    results.append({"mode": mode, "program": name, "failed": wrong})
            passed = [name for name, wrong in found if wrong is None]
            left = [name for name, wrong in found if wrong == ""]
            text = f"; not without Tenure either: {', '.join(left)}" if left else ""
            print(f"{mode:24} {len(passed)} of {len(programs)} right{text}", flush=True)
            results.append({"mode": mode, "right": passed, "not_without_either": left})
            keep()
    return failed


def rows(printed):
    """{bytes: (microseconds, bus bandwidth)} of what was printed, out of place."""
    found = {}
    for line in printed.splitlines():
        words = line.split()
        if len(words) >= 12 and words[0].isdigit():
            found[int(words[0])] = (float(words[-8]), float(words[-6]))
    return found


def holds(size, native_us, tenure_us, ratio):
    """1 if a row is as fast as it must be."""
    if size >= LARGE:
        return ratio >= 0.98
    return statistics.median(tenure_us) <= max(native_us)


def compare(name, mode, native, tenure, results):
    failed = 0
    for size in sorted(native[0]):
        times = [[run[size][0] for run in runs] for runs in (native, tenure)]
        rates = [[run[size][1] for run in runs] for runs in (native, tenure)]
        middle = [statistics.median(values) for values in times]
        ratio = statistics.median(rates[1]) / max(statistics.median(rates[0]), 1e-9)
        good = holds(size, times[0], times[1], ratio)
        failed += not good
        print(f"{name:20} {mode:22} {size:10} B  {middle[0]:9.2f} us ({min(times[0]):.2f} to "
              f"{max(times[0]):.2f}), with Tenure {middle[1]:9.2f} ({min(times[1]):.2f} to "
              f"{max(times[1]):.2f}); bandwidth ratio {ratio:.3f}{'' if good else '  FAILED'}",
              flush=True)
        results.append({"program": name, "mode": mode, "bytes": size, "native_us": times[0],
                        "tenure_us": times[1], "ratio": ratio})
    return failed


def speed(folder, tenure, modes, rounds, results, keep=lambda: None):
    failed = 0
    options = ["-b", "1K", "-e", "256M", "-f", "8", "-w", "5", "-n", "50", "-c", "1"]
    for mode in modes:
        for name in TIMED if mode == USUAL else TIMED[:1]:
            runs = {None: [], tenure: []}
            for turn in range(rounds):
                for way in (None, tenure) if turn % 2 == 0 else (tenure, None):
                    printed, wrong = run(folder / name, mode, options, way)
                    if wrong:
                        print(f"FAILED {mode}: {name}{' with Tenure' if way else ''}: {wrong}")
                        failed += 1
                    else:
                        runs[way].append(rows(printed))
            if all(runs.values()):
                failed += compare(name, mode, runs[None], runs[tenure], results)
            keep()
    return failed


def asked():
    """The command that was given, without where its results go."""
    words = sys.argv[3:]
    if "--json" in words:
        del words[words.index("--json"):words.index("--json") + 2]
    return " ".join(["tests/gpu/nccl.sh", *words])


def facts(tenure):
    """What the numbers belong to."""
    version = subprocess.run([tenure, "--version"], text=True, capture_output=True, check=True)
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                         text=True, capture_output=True, check=True)
    name, driver = gpu.stdout.splitlines()[0].split(", ")
    return {"commit": version.stdout.split("(")[1].split(")")[0], "gpu": name, "driver": driver,
            "command": asked()}


# A program of nccl-tests that needs no GPU: its name says what is wrong with it under Tenure.
REHEARSED = """#!/bin/sh
case "$0:$IS_TENURE" in
*wrong*:1) bounds='Out of bounds values : 1 FAILED' ;;
*ends*:1) echo 'no memory' >&2; exit 3 ;;
*never*) exit 4 ;;
*) bounds='Out of bounds values : 0 OK' ;;
esac
us=10.0 rate=100.0
case "$0:$IS_TENURE" in *slow*:1) us=10.5 rate=95.2 ;; esac
for bytes in 1024 4194304; do
    echo "$bytes 256 float sum -1 $us $rate $rate 0 $us $rate $rate 0"
done
echo "# $bounds"
"""
# `tenure run -- PROGRAM`, and `mpirun -np 2 PROGRAM`.
PRETENDED = {"tenure": "#!/bin/sh\nshift 2\nIS_TENURE=1 exec \"$@\"\n",
             "mpirun": "#!/bin/sh\nshift 2\nexec \"$@\"\n"}


def check_self():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        texts = {f"{kind}_perf": REHEARSED for kind in ("good", "wrong", "ends", "never", "slow")}
        for path, text in {**texts, **PRETENDED}.items():
            (folder / path).write_text(text)
            (folder / path).chmod(0o700)
        os.environ["MPIRUN"] = str(folder / "mpirun")
        tenure, programs = str(folder / "tenure"), sorted(folder.glob("*_perf"))
        for mode in (USUAL, "processes"):
            found = []
            assert check(programs, tenure, [mode], 2, found) == 2, found
            assert [one["program"] for one in found[:2]] == ["ends_perf", "wrong_perf"], found
            assert found[2]["right"] == ["good_perf", "slow_perf"], found
            assert found[2]["not_without_either"] == ["never_perf"], found
        TIMED[:] = ["good_perf", "slow_perf"]
        timed, kept = [], []
        assert speed(folder, tenure, [USUAL], 3, timed, lambda: kept.append(len(timed))) == 2, timed
        assert [one["bytes"] for one in timed] == [1024, 4194304] * 2 and kept == [2, 4], timed
        assert speed(folder, tenure, ["threads"], 3, []) == 0  # only the first of the programs
        TIMED[:] = ["wrong_perf"]
        assert speed(folder, tenure, [USUAL], 2, []) == 2
    assert holds(1024, [10.0, 12.0], [12.0, 12.0], 0.5) and not holds(1024, [10.0], [10.1], 0.99)
    assert holds(LARGE, [10.0], [10.2], 0.98) and not holds(LARGE, [10.0], [10.3], 0.97)
    print("what is wrong is seen")
    return 0


def main():
    if sys.argv[1:] == ["--self"]:
        return check_self()
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("tenure")
    parser.add_argument("parts", nargs="*", help="check, speed; both without")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mode", action="append", choices=list(MODES), help="only this one")
    parser.add_argument("--jobs", type=int, default=1, help="programs that `check` runs at once")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    for part in options.parts:
        if part not in ("check", "speed"):
            parser.error(f"{part}: not check or speed")
    programs = sorted(options.folder.glob("*_perf"))
    modes = options.mode or list(MODES)
    left = [] if os.environ.get("MPIRUN") else [mode for mode in modes if MODES[mode][2] > 1]
    if left:
        print(f"left out, since MPIRUN names no command: {'; '.join(left)}")
    modes = [mode for mode in modes if mode not in left]
    parts = options.parts or ["check", "speed"]
    results = {"facts": facts(options.tenure), "check": [], "speed": []}

    def keep():  # what was measured is not lost if the rest is
        if options.json:
            options.json.write_text(json.dumps(results, indent=1) + "\n")

    failed = 0
    if "check" in parts:
        failed += check(programs, options.tenure, modes, options.jobs, results["check"], keep)
    if "speed" in parts:
        failed += speed(options.folder, options.tenure, modes, options.rounds, results["speed"],
                        keep)
    print("all as it must be" if not failed else f"{failed} FAILED")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
