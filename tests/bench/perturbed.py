#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What traces hold when they begin a little differently: replays each with a few small blocks more
at its start, in its recorded time, on the simulated device (whose schedule is `random`, unless
TENURE_SIM_SCHEDULE says otherwise).

    perturbed.py --tenure build/bin/tenure [--conf STR]... [--tries N] [--loops N]
                 [--sizes PERCENT] [--csv FILE] [TRACE...]

Where a program's first blocks lie decides where all later ones do, so reserved over live of one
trace is one draw of many: of moe_infer 1.013 to 1.024. A setting that is better in one trace may be
worse in the mean. Try 0 is the trace as it is; each further one has three blocks of up to 2 MiB
before its first allocation, on that one's stream, which stay live. The same number of a try gives
the same blocks for each --conf. With --sizes a further try draws, for each size above 4 KiB,
another one within so many percent, for all blocks of that size, instead of adding blocks: what fits
where is drawn again, and not only where it begins. What is shown is reserved over live at the end
of the last pass: the mean, the least and the most of the tries. The CSV also has the first pass:
the mean, the most, and the mean of the time in the driver that the simulated device models.

Without TRACE, the traces in tests/traces. --conf "" is the default.

Exit codes: 0 done; 1 a replay failed; 2 bad input.
"""
import argparse
import csv
import gzip
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

BLOCKS, GRAIN, GRAINS_MAX, SIZE_KEPT = 3, 512, 4096, 4096
COLUMNS = ["trace", "conf", "passes", "tries", "mean", "least", "most", "first_mean", "first_most",
           "first_modelled_ms"]


class BadTrace(Exception):
    """The text says why."""


def name_of(path):
    return path.name.removesuffix(".gz").removesuffix(".csv")


def lines_read(path):
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
            return file.read().splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as problem:
        raise BadTrace(f"{path}: {problem}") from None


def perturbed(lines, number):
    """The trace with what try `number` puts before its first allocation."""
    if number == 0:
        return lines
    made = [index for index, line in enumerate(lines) if line.startswith("a,")]
    if not made:
        raise ValueError("no line allocates")
    free = 1 + max(int(line.split(",")[1]) for line in lines if line[:2] in ("a,", "F,", "f,"))
    _, _, _, stream, time_us = lines[made[0]].split(",")
    draw = random.Random(number)
    added = [f"a,{free + i},{draw.randrange(1, GRAINS_MAX) * GRAIN},{stream},{time_us}"
             for i in range(BLOCKS)]
    return lines[:made[0]] + added + lines[made[0]:]


def resized(lines, number, percent):
    """The trace with the sizes of try `number`."""
    if number == 0:
        return lines
    draw, sizes, made = random.Random(number), {}, []
    for line in lines:
        words = line.split(",")
        if line[:2] in ("a,", "F,", "f,") and int(words[2]) > SIZE_KEPT:
            size = int(words[2])
            if size not in sizes:
                drawn = size * draw.uniform(1 - percent / 100, 1 + percent / 100)
                sizes[size] = round(drawn / GRAIN) * GRAIN
            words[2] = str(sizes[size])
        made.append(",".join(words))
    return made


def replay(tenure, path, conf, loops):
    command = [tenure, "replay", "--driver", "sim", "--check", "none", "--paced", "--json",
               "--loops", str(loops)]
    command += ["--conf", conf] if conf else []
    run = subprocess.run([*command, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True, check=False,
                         env={"TENURE_SIM_SCHEDULE": "random", **os.environ})
    if run.returncode == 2:
        raise BadTrace(run.stderr.strip())
    if run.returncode != 0:
        raise RuntimeError(f"a replay with '{conf}' ended with code {run.returncode}: "
                           f"{run.stderr.strip()}")
    return json.loads(run.stdout)


def rows_of(arguments, path, scratch):
    """One row for each --conf, and the commit of what was run."""
    lines = lines_read(path)
    found = {conf: [] for conf in arguments.conf}
    for number in range(arguments.tries):
        try:
            text = resized(lines, number, arguments.sizes) if arguments.sizes else perturbed(
                lines, number)
        except ValueError as problem:
            raise BadTrace(f"{path}: {problem}") from None
        (scratch / "perturbed.csv").write_text("\n".join(text) + "\n", encoding="utf-8")
        for conf, runs in found.items():
            runs.append(replay(arguments.tenure, scratch / "perturbed.csv", conf, arguments.loops))
    for conf, runs in found.items():
        yield row_of(name_of(path), conf, arguments, runs), runs[0]["commit"]


def row_of(name, conf, arguments, runs):
    last = [run["reserved_over_live"] for run in runs]
    first = [run["passes"][0] if arguments.loops > 1 else run for run in runs]
    ratios = [one["reserved_over_live"] for one in first]
    ms = statistics.mean(one["modelled_driver_ns"] for one in first) / 1e6
    return {"trace": name, "conf": conf, "passes": arguments.loops, "tries": arguments.tries,
            "mean": f"{statistics.mean(last):.4f}", "least": f"{min(last):.4f}",
            "most": f"{max(last):.4f}", "first_mean": f"{statistics.mean(ratios):.4f}",
            "first_most": f"{max(ratios):.4f}", "first_modelled_ms": f"{ms:.1f}"}


def rows_write(arguments, rows, commit):
    given = "".join(f" --conf '{conf}'" for conf in arguments.conf if conf)
    given += "".join(f" {path.name}" for path in arguments.traces)
    given = (f" --sizes {arguments.sizes}" if arguments.sizes else "") + given
    schedule = os.environ.get("TENURE_SIM_SCHEDULE", "random")
    with arguments.csv.open("w", encoding="utf-8", newline="") as out:
        out.write(f'# command="TENURE_SIM_SCHEDULE={schedule} tests/bench/perturbed.py --tenure '
                  f'tenure --tries {arguments.tries} --loops {arguments.loops}{given}" '
                  f"commit={commit} gpu='simulated: none' driver_cuda=13.0 cpus=any\n")
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=pathlib.Path, metavar="TRACE")
    parser.add_argument("--tenure", required=True, help="the tenure command")
    parser.add_argument("--conf", action="append", help="settings; again for others beside them")
    parser.add_argument("--tries", type=int, default=8, help="with the trace as it is (default 8)")
    parser.add_argument("--loops", type=int, default=1, help="passes (default 1)")
    parser.add_argument("--sizes", type=int, default=0, metavar="PERCENT",
                        help="draw sizes instead of adding blocks")
    parser.add_argument("--csv", type=pathlib.Path, metavar="FILE", help="also write rows there")
    arguments = parser.parse_args()
    if arguments.tries < 1 or arguments.loops < 1:
        parser.error("--tries and --loops must be at least 1")
    if not 0 <= arguments.sizes <= 50:
        parser.error("--sizes must be 0 to 50")
    arguments.conf = arguments.conf or [""]
    traces = arguments.traces or sorted((root / "tests" / "traces").glob("*.csv.gz"))
    rows, commit = [], ""
    try:
        with tempfile.TemporaryDirectory() as scratch:
            for path in traces:
                for row, commit in rows_of(arguments, path, pathlib.Path(scratch)):
                    rows.append(row)
                    print("{trace:16} {conf:24} mean {mean}  least {least}  most {most}"
                          .format(**row), flush=True)
    except BadTrace as problem:
        print(f"perturbed.py: {problem}", file=sys.stderr)
        return 2
    except (OSError, ValueError, KeyError, RuntimeError) as problem:
        print(f"perturbed.py: {problem}", file=sys.stderr)
        return 1
    if arguments.csv:
        rows_write(arguments, rows, commit)
    return 0


if __name__ == "__main__":
    sys.exit(main())
