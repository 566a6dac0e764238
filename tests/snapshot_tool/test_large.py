#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Very many records: time grows as they do and no faster, and memory is bounded. Prints what it
measured. A million of them in the long run (TENURE_TEST_LONG); they take about a second each time.
"""
import os
import pathlib
import pickle
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
from command import CommandTest, TENURE  # noqa: E402
import torch_shapes  # noqa: E402

ENTRIES = 1_000_000 if "TENURE_TEST_LONG" in os.environ else 200_000
# Ten times the entries may take so many times the processor time, and no more. A clock would
# measure the machine.
GROWTH_MAX = 30
MEMORY_MAX_MIB = 24 + ENTRIES // 8000


def large_snapshot(entries):
    """A short history, and 2,000 blocks that come and go at other addresses until it is long."""
    content, _ = torch_shapes.snapshot(era=2.14)
    stacks = [one["frames"] for one in content["device_traces"][0]]
    start, size, trace = 0x7D0000000000, 1 << 16, []

    def entry(action, number, at):
        return {"action": action, "addr": start + number % 2000 * size,
                "size": 60000 + number % 999, "stream": 0,
                "frames": stacks[number % len(stacks)],
                "time_us": torch_shapes.START_US - entries + at, "compile_context": "N/A",
                "user_metadata": "", "pool_id": (0, 0)}

    trace.append(dict(entry("segment_map", 0, 0), size=2000 * size))
    number = 0
    while len(trace) < entries:
        trace.append(entry("alloc", number, len(trace)))
        if number >= 1000:
            trace += [entry("free_requested", number - 1000, len(trace)),
                      entry("free_completed", number - 1000, len(trace))]
        number += 1
    for old in range(max(number - 1000, 0), number):
        trace += [entry("free_requested", old, len(trace)),
                  entry("free_completed", old, len(trace))]
    trace.append(dict(entry("segment_unmap", 0, len(trace)), size=2000 * size))
    content["device_traces"][0] = trace + content["device_traces"][0]
    return content

# Records are 64 bytes, and entries leave 48 behind: they may be referred to again.
STREAMED_MIB = 24


class Measured(CommandTest):
    def measured(self, what, *arguments):
        """Runs the command. Returns its processor time, and the most memory that it had. A small
        process starts it: a new process counts the memory of the one that it came from, and ours
        has a million dictionaries."""
        script = ("import resource, subprocess, sys\n"
                  "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=False)\n"
                  "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
                  "print(used.ru_maxrss, used.ru_utime + used.ru_stime)\n"
                  "sys.exit(done.returncode)")
        result = subprocess.run([sys.executable, "-c", script, TENURE, "snapshot",
                                 *map(str, arguments)], capture_output=True, text=True,
                                check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        mib, seconds = (float(number) for number in result.stdout.split())
        print(f"{what}: {seconds:.2f} s, {mib / 1024:.0f} MiB", flush=True)
        return seconds, mib / 1024


class Large(Measured):
    def all_measured(self, entries):
        pickled, converted = self.folder / "a.pickle", self.folder / "a.json"
        with pickled.open("wb") as file:
            pickle.dump(large_snapshot(entries), file)
        print(f"\n{entries} entries, {pickled.stat().st_size >> 10} KiB as a pickle")
        return {what: self.measured(what, *arguments) for what, *arguments in (
            ("summary of the pickle", "summary", pickled),
            ("pickle to JSON", "convert", pickled, converted),
            ("summary of the JSON", "summary", converted),
            ("JSON to pickle", "convert", converted, self.folder / "b.pickle"),
            ("trace", "trace", converted, self.folder / "a.csv"),
            ("trace events", "convert", "--to", "chrome", converted, self.folder / "c.json"),
            ("difference of two", "diff", pickled, converted))}

    def test_many_records(self):
        few = self.all_measured(ENTRIES // 10)
        for what, (seconds, mib) in self.all_measured(ENTRIES).items():
            with self.subTest(what=what):
                self.assertLess(seconds, GROWTH_MAX * max(few[what][0], 0.01))
                self.assertLess(mib, MEMORY_MAX_MIB)

    def test_records_are_not_kept_as_values(self):
        """Summaries of files of 24 MiB: as values these took 70 MiB."""
        for protocol, *options in (2,), (3,), (4,), (5,), (5, "--traces-first"):
            path = self.folder / f"{protocol}.pickle"
            subprocess.run([sys.executable, "-B", HERE / "make_pickle.py", "--mib", "24",
                            "--protocol", str(protocol), *options, path], check=True)
            _, mib = self.measured(" ".join(["protocol", str(protocol), *options]), "summary",
                                   path)
            self.assertLess(mib, STREAMED_MIB + 8)
        path = self.folder / "history.json"
        subprocess.run([os.environ["TENURE_TEST_MAKE_HISTORY"], "300000", path], check=True,
                       env={**os.environ, "TENURE_DRIVER": "sim"})
        _, mib = self.measured("300,000 records of Tenure", "summary", path)
        self.assertLess(mib, 2 * STREAMED_MIB)


if __name__ == "__main__":
    unittest.main(verbosity=2)
