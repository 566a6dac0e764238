#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What very large files cost, all of it in one go: a pickle of PyTorch of 1 GiB and a history of
Tenure's of 10,000,000 records; of each a summary, and the report in Chromium.

    scale.py --measure [--mib N] [--records N] [--protocol P]...   makes the files, measures, and
        writes docs/benchmarks/large.json and the table of docs/report.md. It takes 6 GiB of memory
        and, on two processors, about 10 minutes
    scale.py --update     writes the table again from the data
    scale.py              whether the table is what the data say

It needs the environment of the tests in this folder (CMakeLists.txt), and TENURE_TEST_MAKE_HISTORY.
Times are by the clock and of processors: only the latter mean something on a machine that does
other things. TENURE_VIEWER, a folder with a copy of PyTorch's viewer (tests/snapshot/view.mjs says
what of), puts that beside the pickle (measure_viewer.mjs, docs/benchmarks/viewer.json).

Exit codes: 0 measured, or they agree; 1 they do not; 77 there is no browser.
"""
import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import textwrap
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DATA, PAGE = ROOT / "docs/benchmarks/large.json", ROOT / "docs/report.md"
VIEWER = ROOT / "docs/benchmarks/viewer.json"
BEGIN, END = "<!-- begin: large -->\n", "<!-- end: large -->\n"
# What is promised; of the clock on two processors that do nothing else.
TARGETS = {"summary_processor_s": 10, "summary_mib": 1024, "picture_s": 5, "tab_mib": 2048,
           "bands_clock_ms": 33, "lanes_clock_ms": 33}


def used(command, **how):
    """Its seconds by the clock, of processors, and the most memory in MiB. A small process starts
    it: a new process counts the memory of the one that it came from."""
    script = ("import resource, subprocess, sys\n"
              "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=False)\n"
              "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
              "print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)\n"
              "sys.exit(done.returncode)")
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script, *map(str, command)], check=True,
                          stdout=subprocess.PIPE, text=True, **how)
    return [time.monotonic() - began, *map(float, done.stdout.split())]


def file_measure(name, path, folder):
    row = {"file": name, "mib": path.stat().st_size / 2 ** 20}
    (row["summary_clock_s"], row["summary_processor_s"], row["summary_mib"]) = used(
        [os.environ["TENURE"], "snapshot", "summary", path])
    result = folder / "measured.json"
    done = subprocess.run(["node", HERE / "measure.mjs", path, "--json", result], check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    row.update(json.loads(result.read_text("utf-8")))
    return row


def viewer_measure(path, folder):
    """PyTorch's own viewer on the same file: VIEWER is written again, if there is a copy of it."""
    if "TENURE_VIEWER" not in os.environ:
        return
    result = folder / "viewer.json"
    subprocess.run(["node", HERE / "measure_viewer.mjs", "--json", result, path], check=True)
    data = {"command": "tests/report/scale.py --measure", "processors": os.cpu_count(),
            "rows": json.loads(result.read_text("utf-8"))}
    VIEWER.write_text(json.dumps(data, indent=1) + "\n", "utf-8")


def measure(arguments):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for protocol in arguments.protocol or [4]:
            path = folder / f"{protocol}.pickle"
            subprocess.run([sys.executable, "-B", ROOT / "tests/snapshot_tool/make_pickle.py",
                            "--mib", str(arguments.mib), "--protocol", str(protocol), path],
                           check=True)
            row = file_measure(f"PyTorch, protocol {protocol}", path, folder)
            viewer_measure(path, folder)
            rows.append(row)
            path.unlink()
        path = folder / "history.json"
        subprocess.run([os.environ["TENURE_TEST_MAKE_HISTORY"], str(arguments.records), path],
                       check=True, env={**os.environ, "TENURE_DRIVER": "sim"})
        rows.append(file_measure(f"Tenure, {arguments.records:,} records", path, folder))
    with open("/proc/loadavg", encoding="utf-8") as file:
        load = float(file.read().split()[1])
    data = {"rows": rows, "processors": os.cpu_count(), "load": load,
            "machine": platform.machine()}
    DATA.write_text(json.dumps(data, indent=1) + "\n", "utf-8")
    for row in rows:
        for key, most in TARGETS.items():
            print(f"{'ok' if row[key] <= most else 'NO':3} {row['file']:28} {key:20} "
                  f"{row[key]:8.1f} of {most}")


def table():
    if not DATA.exists():
        return "Nothing has been measured yet: `tests/report/scale.py --measure`.\n"
    data = json.loads(DATA.read_text("utf-8"))
    lines = ["| file | | summary | | report | first picture | tab | bands | lanes |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for row in data["rows"]:
        lines.append(
            f"| {row['file']} | {row['mib']:.0f} MiB | {row['summary_clock_s']:.1f} s "
            f"({row['summary_processor_s']:.1f}) | {row['summary_mib']:.0f} MiB | "
            f"{row['written_s']:.0f} s | {row['picture_s']:.1f} s "
            f"({row['picture_processor_s']:.1f}) | {row['tab_mib']:.0f} MiB | "
            f"{row['bands_clock_ms']:.0f} ms ({row['bands_processor_ms']:.0f}) | "
            f"{row['lanes_clock_ms']:.0f} ms ({row['lanes_processor_ms']:.0f}) |")
    words = (f"By the clock (and of processors), on {data['processors']} processors whose load was "
             f"{data['load']:.0f}; frames are the 95th percentile of 120, zoomed and moved.")
    lines += ["", textwrap.fill(words, 100)]
    if VIEWER.exists():
        data = json.loads(VIEWER.read_text("utf-8"))
        lines += ["", "PyTorch's own viewer on such pickles, in the same browser:", "",
                  "| file | first picture | tab |", "|---:|---:|---:|"]
        for row in data["rows"]:
            picture = row["trouble"] or f"{row['seconds']:.1f} s"
            lines.append(f"| {row['mib']:.0f} MiB | {picture} | {row['tab_mib']:.0f} MiB |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--protocol", type=int, action="append", choices=range(2, 6))
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments)
    page = PAGE.read_text("utf-8")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    wanted = before + BEGIN + table() + END + after
    if arguments.measure or arguments.update:
        PAGE.write_text(wanted, "utf-8")
    elif wanted != page:
        print(f"{PAGE} is not what {DATA} says: tests/report/scale.py --update")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
