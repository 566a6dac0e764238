#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A million records: read in seconds, in memory that is bounded. Prints what it measured."""
import os
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
MEMORY_MAX_MIB = 400


def large_snapshot():
    """A short history, and 2,000 blocks that come and go at other addresses until it is long."""
    content, _ = torch_shapes.snapshot(era=2.14)
    stacks = [one["frames"] for one in content["device_traces"][0]]
    start, size, trace = 0x7D0000000000, 1 << 16, []

    def entry(action, number, at):
        return {"action": action, "addr": start + number % 2000 * size, "size": 60000 + number % 999,
                "stream": 0, "frames": stacks[number % len(stacks)],
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
        """Runs the command; its time and the most memory that it had."""
        began = time.monotonic()
        with subprocess.Popen([TENURE, "snapshot", *map(str, arguments)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            shown = process.stderr.read()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - began
        mib = used.ru_maxrss / 1024
        self.assertEqual(process.returncode, 0, shown)
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
