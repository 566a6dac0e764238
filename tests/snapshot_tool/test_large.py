#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A million records: read in seconds, in memory that is bounded. Prints what it measured."""
import pathlib
import pickle
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from command import CommandTest, TENURE  # noqa: E402
import torch_shapes  # noqa: E402

ENTRIES = 1_000_000
SECONDS_MAX = 20  # a debug build on a busy machine; a release build takes about one
MEMORY_MAX_MIB = 300


def large_snapshot():
    """A short history, and 2,000 blocks that come and go at other addresses until it is long."""
    content, _ = torch_shapes.snapshot(era=2.14)
    stacks = [one["frames"] for one in content["device_traces"][0]]
    start, size, trace = 0x7D0000000000, 1 << 16, []

    def entry(action, number, at):
        return {"action": action, "addr": start + number % 2000 * size,
                "size": 60000 + number % 999, "stream": 0,
                "frames": stacks[number % len(stacks)],
                "time_us": torch_shapes.START_US - ENTRIES + at, "compile_context": "N/A",
                "user_metadata": "", "pool_id": (0, 0)}

    trace.append(dict(entry("segment_map", 0, 0), size=2000 * size))
    number = 0
    while len(trace) < ENTRIES:
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


class Large(CommandTest):
    def measured(self, what, *arguments):
        """Runs the command; its time and the most memory that it had. A small process starts it: a
        new process counts the memory of the one that it came from, and ours has a million
        dictionaries."""
        script = ("import resource, subprocess, sys\n"
                  "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=False)\n"
                  "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
                  "sys.exit(done.returncode)")
        began = time.monotonic()
        result = subprocess.run([sys.executable, "-c", script, TENURE, "snapshot",
                                 *map(str, arguments)], capture_output=True, text=True,
                                check=False)
        seconds = time.monotonic() - began
        self.assertEqual(result.returncode, 0, result.stderr)
        mib = int(result.stdout) / 1024
        print(f"{what}: {seconds:.2f} s, {mib:.0f} MiB", flush=True)
        self.assertLess(seconds, SECONDS_MAX)
        self.assertLess(mib, MEMORY_MAX_MIB)

    def test_million_records(self):
        pickled = self.folder / "a.pickle"
        with pickled.open("wb") as file:
            pickle.dump(large_snapshot(), file)
        print(f"\n{ENTRIES} entries, {pickled.stat().st_size >> 20} MiB as a pickle")
        converted = self.folder / "a.json"
        self.measured("summary of the pickle", "summary", pickled)
        self.measured("pickle to JSON", "convert", pickled, converted)
        self.measured("summary of the JSON", "summary", converted)
        self.measured("JSON to pickle", "convert", converted, self.folder / "b.pickle")
        self.measured("trace", "trace", converted, self.folder / "a.csv")
        self.measured("difference of two", "diff", pickled, converted)


if __name__ == "__main__":
    unittest.main(verbosity=2)
