#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the numbers of alloc/base/heuristics.h do: each halved and doubled, the traces replayed.

    heuristics.py [--only REGEX] [--csv docs/benchmarks/heuristics.csv]

Copies the sources, changes one number at a time there, builds, and replays the recorded traces on
the simulated device as moves.py does. Reserved over live and the modelled time in the driver are
exact for a schedule; what a number does to the host's time is not seen here, but by
tests/bench/callgrind.py and on a machine with many processors (`tenure bench`).

Half a minute for each number and value on two cores. Exit codes: 0 done; 1 a build or a replay
failed; 2 bad input.
"""
import argparse
import csv
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import moves

HEADER = pathlib.Path("alloc/base/heuristics.h")
NUMBER = re.compile(r"^    (TNRI_\w+) = (\d+)( << (\d+))?,\s+/\* \[(\w+)\]", re.M)
COLUMNS = ["number", "value", "trace", "reserved_over_live", "modelled_driver_ms", "chunks_created",
           "chunks_moved"]


def numbers_of(text):
    """Of each number: its name, its value, and the row that is its evidence."""
    return [(one[1], int(one[2]) << int(one[4] or 0), one[5]) for one in NUMBER.finditer(text)]


def with_value(text, name, value):
    return re.sub(rf"^(    {name} = )[^,]+,", rf"\g<1>{value},", text, flags=re.M)


def sources_copy(root, scratch):
    for name in ("CMakeLists.txt", "LICENSE", "alloc", "lifetime", "capture", "tools", "tests",
                 "docs"):
        path = root / name
        if path.is_dir():
            shutil.copytree(path, scratch / name)
        else:
            shutil.copy(path, scratch / name)


def build(scratch):
    """The tenure command of the sources as they are in scratch now."""
    folder = scratch / "build"
    for command in (["cmake", "-S", scratch, "-B", folder, "-DTNR_BUILD_TESTS=OFF",
                     "-DCMAKE_BUILD_TYPE=Release"],
                    ["cmake", "--build", folder, "-j2"]):
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             check=False)
        if run.returncode != 0:
            raise RuntimeError(f"{command[0]} failed:\n{run.stdout[-2000:]}")
    return folder / "bin" / "tenure"


def rows_of(name, value, tenure, traces):
    runs = [moves.replay(tenure, "", one, traces) for one in moves.SCHEDULES]
    for trace in sorted(runs[0]):
        def mean(key, trace=trace):
            return sum(run[trace][key] for run in runs) / len(runs)
        yield {"number": name, "value": value, "trace": trace,
               "reserved_over_live": f"{mean('reserved_over_live'):.4f}",
               "modelled_driver_ms": f"{mean('modelled_driver_ns') / 1e6:.2f}",
               "chunks_created": round(mean("chunks_created")),
               "chunks_moved": round(mean("chunks_moved"))}


def measure(root, scratch, only, traces):
    text = (root / HEADER).read_text("utf-8")
    rows = list(rows_of("all", "as they are", build(scratch), traces))
    for name, kept, _ in numbers_of(text):
        for value in (kept // 2, kept * 2):
            if not re.search(only, name):
                continue
            print(f"{name} {value}", file=sys.stderr)
            (scratch / HEADER).write_text(with_value(text, name, value), "utf-8")
            rows += rows_of(name, value, build(scratch), traces)
    return rows


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX", help="numbers with such a name")
    parser.add_argument("--csv", type=pathlib.Path,
                        default=root / "docs" / "benchmarks" / "heuristics.csv")
    arguments = parser.parse_args()
    traces = sorted((root / "tests" / "traces").glob("*.csv.gz"))
    git = subprocess.run(["git", "-C", root, "rev-parse", "--short=12", "HEAD"], text=True,
                         stdout=subprocess.PIPE, check=False)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            sources_copy(root, pathlib.Path(scratch))
            rows = measure(root, pathlib.Path(scratch), arguments.only, traces)
    except (OSError, ValueError, KeyError, RuntimeError) as problem:
        print(f"heuristics.py: {problem}", file=sys.stderr)
        return 1
    with arguments.csv.open("w", encoding="utf-8", newline="") as out:
        out.write(f"# command='tests/bench/heuristics.py' commit={git.stdout.strip()} "
                  "gpu='simulated: none' driver_cuda=13.0 cpus=any\n")
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
