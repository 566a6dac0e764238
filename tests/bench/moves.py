#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory against driver time: replays the traces with other settings, on the simulated device.

    moves.py --tenure build/bin/tenure [--csv docs/benchmarks/moves.csv]

One setting at a time is changed. Each combination is run under the schedule `eager` (work is over
as soon as it can be, which gives the numbers of the real device) and under two seeds of `random`,
because where old mappings go depends on when work ends. Reserved over live, chunks and moves are
exact; driver time is modelled by the simulated device's table of an H200. The last column is that
time over the duration of the recorded run.

Takes a minute or two. Exit codes: 0 done; 1 a replay failed; 2 bad input.
"""
import argparse
import csv
import gzip
import json
import os
import pathlib
import subprocess
import sys

SETTINGS = {
    "default": [""],
    "chunk_share": ["128", "256", "512", "768", "1024", "4096"],
    "lend": ["off"],
    "chunk_exact_mb": ["4", "8", "16", "32"],
    "move_burst_ms": ["0", "20", "80", "500"],
    "before": ["lend:off,chunk_exact_mb:4",
               "lend:off,chunk_share:512,chunk_exact_mb:2,chunk_whole_mb:1048576,"
               "chunk_max_mb:1024"],
}
SCHEDULES = ({"TENURE_SIM_SCHEDULE": "eager"},
             {"TENURE_SIM_SCHEDULE": "random", "TENURE_SIM_SEED": "1"},
             {"TENURE_SIM_SCHEDULE": "random", "TENURE_SIM_SEED": "2"})
COLUMNS = ["setting", "value", "trace", "reserved_over_live", "reserved_over_live_most",
           "chunks_created", "chunks_moved", "second_half_driver_allocations",
           "modelled_driver_ms", "recorded_ms", "percent_of_recorded"]


def recorded_ms(trace):
    """How long the recorded run took: the time of the last line."""
    with gzip.open(trace, "rt", encoding="utf-8") as lines:
        last = ""
        for line in lines:
            last = line if line.strip() and not line.startswith("#") else last
    return int(last.rsplit(",", 1)[1]) / 1000


def replay(tenure, conf, schedule, traces):
    command = [tenure, "replay", "--driver", "sim", "--check", "none", "--json"]
    command += ["--conf", conf] if conf else []
    run = subprocess.run([*command, *map(str, traces)], stdout=subprocess.PIPE, text=True,
                         stderr=subprocess.DEVNULL, env={**os.environ, **schedule}, check=False)
    results = [json.loads(line) for line in run.stdout.splitlines()]
    if run.returncode != 0 or len(results) != len(traces):
        raise RuntimeError(f"the replay with '{conf}' ended with code {run.returncode}")
    return {one["trace"]: one for one in results}


def rows_of(setting, value, runs, durations):
    for trace, duration in durations.items():
        ones = [run[trace] for run in runs]

        def mean(key):
            return sum(one[key] for one in ones) / len(ones)
        ms = mean("modelled_driver_ns") / 1e6
        yield {"setting": setting, "value": value, "trace": trace,
               "reserved_over_live": f"{mean('reserved_over_live'):.4f}",
               "reserved_over_live_most":
                   f"{max(one['reserved_over_live'] for one in ones):.4f}",
               "chunks_created": round(mean("chunks_created")),
               "chunks_moved": round(mean("chunks_moved")),
               "second_half_driver_allocations": round(mean("second_half_driver_allocations")),
               "modelled_driver_ms": f"{ms:.2f}", "recorded_ms": f"{duration:.0f}",
               "percent_of_recorded": f"{100 * ms / duration:.3f}"}


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenure", required=True, help="the tenure command")
    parser.add_argument("--csv", type=pathlib.Path,
                        default=root / "docs" / "benchmarks" / "moves.csv")
    arguments = parser.parse_args()
    traces = sorted((root / "tests" / "traces").glob("*.csv.gz"))
    durations = {path.name.removesuffix(".csv.gz"): recorded_ms(path) for path in traces}
    rows, commit = [], ""
    try:
        for setting, values in SETTINGS.items():
            for value in values:
                print(f"{setting} {value}", file=sys.stderr)
                conf = value if setting in ("default", "before") else f"{setting}:{value}"
                runs = [replay(arguments.tenure, conf, one, traces) for one in SCHEDULES]
                commit = next(iter(runs[0].values()))["commit"]
                rows += rows_of(setting, value, runs, durations)
    except (OSError, ValueError, KeyError, RuntimeError) as problem:
        print(f"moves.py: {problem}", file=sys.stderr)
        return 1
    with arguments.csv.open("w", encoding="utf-8", newline="") as out:
        out.write(f"# command='tests/bench/moves.py --tenure tenure' commit={commit} "
                  "gpu='simulated: none' driver_cuda=13.0 cpus=any\n")
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
