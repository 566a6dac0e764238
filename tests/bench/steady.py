#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a program that repeats itself comes to hold: replays each trace, and each pattern of
patterns.py, for 100 passes in their recorded time on the simulated device, beside what bound.py
finds for the same pass.

    steady.py --tenure build/bin/tenure [--bounds JSON] [--csv docs/benchmarks/steady.csv]
              [--only NAME[,NAME...]] [--loops N] [--tries N]

"mapping calls" are those of the last ten passes that create, map, give access to, unmap or release
memory. JSON is what `bound.py --json` printed before; what is not in it is computed, which takes
minutes for the largest trace.

Exit codes: 0 done; 1 a replay failed; 2 bad input.
"""
import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import bound
import patterns

LAST = 10
MAPPING = ("create", "map", "access", "unmap", "release")
SHOWN = (1, 2, 4, 10, 20, 50, 100)
COLUMNS = ["trace", "kind", "passes", "peak_live_bytes", "bound_ratio", "bound_how", "bound_tries",
           *(f"pass_{number}" for number in SHOWN), "settled_at", "mapping_calls_last_10",
           "event_calls_last_10", "order_calls_last_10", "moved_last_10", "modelled_ms_last_10",
           "recorded_ms"]


def replay(tenure, path, loops):
    print(path.name, file=sys.stderr)
    command = [tenure, "replay", "--driver", "sim", "--check", "none", "--json", "--paced",
               "--loops", str(loops), str(path)]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         env={**os.environ, "TENURE_SIM_SCHEDULE": "eager"}, check=False)
    if run.returncode != 0:
        raise RuntimeError(f"the replay of {path} ended with code {run.returncode}: "
                           f"{run.stderr.strip()}")
    return json.loads(run.stdout)


def row_of(one, kind, known):
    """A row of the CSV, from a replay and its bound."""
    passes = one["passes"]
    if known["peak_live_bytes"] != one["peak_live_bytes"]:
        raise RuntimeError(f"{one['trace']}: the bound is of another trace: "
                           f"{known['peak_live_bytes']} bytes are live at its peak, and "
                           f"{one['peak_live_bytes']} in the replay")
    last = passes[-LAST:]

    def calls(*kinds):
        return sum(each["driver_calls_by_kind"][kind] for each in last for kind in kinds)
    mapped = [number for number, each in enumerate(passes, 1)
              if any(each["driver_calls_by_kind"][kind] for kind in MAPPING)]
    ratios = {f"pass_{number}": f"{passes[number - 1]['reserved_over_live']:.4f}"
              for number in SHOWN if number <= len(passes)}
    return {"trace": one["trace"], "kind": kind, "passes": len(passes),
            "peak_live_bytes": one["peak_live_bytes"], "bound_ratio": f"{known['ratio']:.4f}",
            "bound_how": known["how"], "bound_tries": known["tries"], **ratios,
            "settled_at": mapped[-1] if mapped else 0,
            "mapping_calls_last_10": calls(*MAPPING), "event_calls_last_10": calls("event"),
            "order_calls_last_10": calls("order", "wait"),
            "moved_last_10": sum(each["chunks_moved"] for each in last),
            "modelled_ms_last_10":
                f"{sum(each['modelled_driver_ns'] for each in last) / 1e6:.3f}",
            "recorded_ms": f"{one['recorded_us'] / 1000:.1f}"}


def bounds_read(path):
    if path is None:
        return {}
    lines = path.read_text("utf-8").splitlines()
    return {one["trace"]: one for one in map(json.loads, lines)}


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenure", required=True, help="the tenure command")
    parser.add_argument("--bounds", type=pathlib.Path, metavar="JSON")
    parser.add_argument("--only", metavar="NAMES", help="some of them, joined by commas")
    parser.add_argument("--loops", type=int, default=100)
    parser.add_argument("--tries", type=int, default=12, help="for bounds (default 12)")
    parser.add_argument("--csv", type=pathlib.Path,
                        default=root / "docs" / "benchmarks" / "steady.csv")
    arguments = parser.parse_args()
    if arguments.loops < 2:
        parser.error("--loops must be at least 2")
    traces = {path.name.removesuffix(".csv.gz"): path
              for path in sorted((root / "tests" / "traces").glob("*.csv.gz"))}
    both = sorted(traces.keys() & set(patterns.PATTERNS))
    if both:
        parser.error(f"{', '.join(both)}: a trace and a pattern have the same name; rename one")
    names = arguments.only.split(",") if arguments.only else [*traces, *patterns.PATTERNS]
    unknown = [name for name in names if name not in traces and name not in patterns.PATTERNS]
    if unknown:
        parser.error(f"--only: there is no {', '.join(unknown)}")
    try:
        with tempfile.TemporaryDirectory() as scratch:
            for name in names:
                if name not in traces:
                    traces[name] = pathlib.Path(scratch) / f"{name}.csv"
                    traces[name].write_text(patterns.text(name), encoding="utf-8")
            found = {name: replay(arguments.tenure, traces[name], arguments.loops)
                     for name in names}
            known = bounds_read(arguments.bounds)
            for name in names:
                if name not in known:
                    known[name] = bound.bound(bound.trace_read(traces[name]), arguments.tries, 1)
        rows = [row_of(one, "pattern" if name in patterns.PATTERNS else "trace", known[name])
                for name, one in found.items()]
        commit = found[names[0]]["commit"]
    except (OSError, ValueError, KeyError, RuntimeError, bound.BadTrace) as problem:
        print(f"steady.py: {problem}", file=sys.stderr)
        return 1
    with arguments.csv.open("w", encoding="utf-8", newline="") as out:
        given = " --bounds JSON" if arguments.bounds else ""
        given += f" --only {arguments.only}" if arguments.only else ""
        given += f" --loops {arguments.loops}" if arguments.loops != 100 else ""
        out.write(f"# command='tests/bench/steady.py --tenure tenure{given}' commit={commit} "
                  "gpu='simulated: none' driver_cuda=13.0 cpus=any\n")
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
