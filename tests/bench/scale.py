#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs bench_scale, then counts its instructions, and writes docs/benchmarks/scale.csv.

    scale.py build/tests/bench_scale [--csv FILE] [--operations N]

The times are of one run of all rows. The instructions are callgrind's, of a run for each row with
fewer operations, collected in the functions measured_cached and measured_mix alone; the library's
and the simulated device's are told apart, and only the library's are kept: what lies in the C
library counts with neither. Without valgrind, and for a
million blocks, those columns stay empty. Takes about ten minutes.

Exit codes: 0 done; 1 a run failed.
"""
import argparse
import csv
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PATHS = ("cached", "mix")
COUNTED = 2000
COUNTED_BLOCKS_MAX = 100000 # more takes more mappings than callgrind can follow


def instructions(program, path, row):
    """Instructions of the library for one operation of measured_<path>; None where not counted."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind.out"
        run = subprocess.run(
            ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}",
             "--collect-atstart=no", f"--toggle-collect=measured_{path}", program,
             "--blocks", row["blocks"], "--streams", row["streams"],
             "--operations", str(COUNTED)], stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, check=False)
        if run.returncode != 0 or not out.exists():
            print(f"scale.py: no count for {row['blocks']} blocks on {row['streams']} streams: "
                  f"{run.stderr.strip()[-200:]}", file=sys.stderr)
            return None
        return own_sum(out.read_text("utf-8")) / (-(-COUNTED // 256) * 256)


def own_sum(text):
    """The instructions that lie in libtenure itself, from callgrind's own format."""
    objects, ours, total, skip = {}, False, 0, False
    for line in text.splitlines():
        named = re.match(r"ob=\((\d+)\)(?: (.*))?$", line)
        if named:
            if named.group(2):
                objects[named.group(1)] = named.group(2)
            ours = "libtenure.so" in objects.get(named.group(1), "")
        elif line.startswith("cob="):
            named = re.match(r"cob=\((\d+)\)(?: (.*))?$", line)
            if named and named.group(2):
                objects[named.group(1)] = named.group(2)
        elif line.startswith("calls="):
            skip = True  # the next line is what was spent in the call
        elif re.match(r"[+\-*\d]", line):
            if ours and not skip:
                total += int(line.split()[-1])
            skip = False
    return total


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--csv", type=pathlib.Path,
                        default=root / "docs" / "benchmarks" / "scale.csv")
    parser.add_argument("--operations", type=int, default=100000)
    arguments = parser.parse_args()
    run = subprocess.run([arguments.program, "--operations", str(arguments.operations)],
                         stdout=subprocess.PIPE, text=True, check=False)
    lines = run.stdout.splitlines()
    if run.returncode != 0 or len(lines) < 3:
        return 1
    rows = list(csv.DictReader(lines[1:]))
    has_valgrind = shutil.which("valgrind") is not None
    for row in rows:
        for path in PATHS:
            count = instructions(arguments.program, path, row) if has_valgrind and \
                int(row["blocks"]) <= COUNTED_BLOCKS_MAX else None
            row[f"{path}_instructions"] = "" if count is None else f"{count:.0f}"
    with arguments.csv.open("w", encoding="utf-8", newline="") as out:
        out.write(lines[0] + "\n")
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
