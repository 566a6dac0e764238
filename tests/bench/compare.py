#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is one build of the library faster than another? Runs `tenure bench` with each in turn.

    compare.py --tenure build/bin/tenure OLD.so NEW.so [--runs N] [--fastest] [-- OPTION...]

    compare.py --tenure build/bin/tenure old/lib/libtenure.so build/lib/libtenure.so -- \\
        --driver cuda --only pair,mix --threads 1,16

OPTION... are those of `tenure bench`. The command is the same for both, and only the library is put
in its place (LD_PRELOAD), so the difference is the library's. The two take turns, and who begins
alternates, so that whatever disturbs the machine disturbs both. For each row: Tenure's median of
either (the median over the runs), new over old, and the least and the most of that ratio over the
runs. Where these lie on both sides of 1 the runs do not agree, and the row says so: then nothing
was shown. With --fastest it is the fastest round of each run instead, which says more on a machine
that others use too.

Exit codes: 0 done; 1 a run failed, or the two did different work; 2 wrong usage.
"""
import argparse
import csv
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile


class Failed(Exception):
    """A run failed; the text says how."""


def bench_run(tenure, library, options, path, column):
    """Tenure's rows of one run: (ns, checksum) by configuration."""
    command = [str(tenure), "bench", "--csv", str(path), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, "LD_PRELOAD": str(library.resolve())})
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)} with {library} ended with code {done.returncode}:\n"
                     f"{done.stderr.strip()[-1000:]}")
    lines = path.read_text("utf-8").splitlines()[1:]
    return {(row["bench"], int(row["bytes"]), int(row["threads"]), int(row["live_per_thread"])):
            (float(row[column]), row["checksum"])
            for row in csv.DictReader(lines) if row["allocator"] == "tenure" and row["median_ns"]}


def runs_take(arguments):
    """The runs of both, one after the other: two lists of equal length."""
    taken = ([], [])
    column = "min_ns" if arguments.fastest else "median_ns"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "bench.csv"
        for run in range(arguments.runs):
            for index in ((0, 1), (1, 0))[run % 2]:
                library = (arguments.old, arguments.new)[index]
                taken[index].append(bench_run(arguments.tenure, library, arguments.options, path,
                                              column))
                print(f"run {run + 1} of {arguments.runs}: {'new' if index else 'old'}",
                      file=sys.stderr)
    return taken


def verdict(ratios):
    if min(ratios) < 1 < max(ratios):
        return "the runs do not agree"
    return "faster" if max(ratios) < 1 else "slower" if min(ratios) > 1 else "the same"


def rows_print(old, new):
    """One line for each configuration that all runs have."""
    keys = [key for key in old[0] if all(key in run for run in (*old, *new))]
    print(f"{'benchmark':26} {'bytes':>12} {'threads':>7} {'live':>7} {'old ns':>12} "
          f"{'new ns':>12} {'new/old':>8}  least to most")
    for key in keys:
        if len({run[key][1] for run in (*old, *new)}) > 1:
            raise Failed(f"{key}: the two did different work")
        ratios = [after[key][0] / before[key][0] for before, after in zip(old, new)]
        medians = [statistics.median(run[key][0] for run in runs) for runs in (old, new)]
        print(f"{key[0]:26} {key[1]:12} {key[2]:7} {key[3]:7} {medians[0]:12.1f} "
              f"{medians[1]:12.1f} {statistics.median(ratios):8.3f}  {min(ratios):.3f} to "
              f"{max(ratios):.3f}: {verdict(ratios)}")
    return len(keys)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenure", type=pathlib.Path, required=True, help="the tenure command")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of each (default 5)")
    parser.add_argument("--fastest", action="store_true", help="compare the fastest rounds")
    parser.add_argument("old", type=pathlib.Path, metavar="OLD.so")
    parser.add_argument("new", type=pathlib.Path, metavar="NEW.so")
    own, options = sys.argv[1:], []
    if "--" in own:
        own, options = own[:own.index("--")], own[own.index("--") + 1:]
    arguments = parser.parse_args(own)
    arguments.options = options
    for path in (arguments.tenure, arguments.old, arguments.new):
        if not path.is_file():
            parser.error(f"{path} is not there")
    if arguments.runs < 1:
        parser.error("--runs must be at least 1")
    try:
        if rows_print(*runs_take(arguments)) == 0:
            raise Failed("no row was measured by both")
    except Failed as problem:
        print(f"compare.py: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
