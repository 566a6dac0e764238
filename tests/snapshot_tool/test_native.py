#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots that the library itself wrote: all its formats read alike, and its history is the
program's course of allocations, operation by operation.

Seen to fail: with the extra key of the library's pickles not read; with the frees of a trace left
out.
"""
import gzip
import json
import pathlib
import pickle
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from command import CommandTest, TRACES  # noqa: E402

CHECKERS = pathlib.Path(__file__).resolve().parent.parent / "snapshot"
TRACE = TRACES / "offload_streams.csv.gz"


def operations(lines):
    """(op, bytes, stream by order of appearance) of a trace's lines."""
    streams = {}
    for line in lines:
        if line[0] in "aF":
            op, _, bytes_, stream, _ = line.split(",")
            yield op, int(bytes_), streams.setdefault(stream, len(streams))


class Native(CommandTest):
    def taken(self, name, mode="full", trace=TRACE):
        """A snapshot at the end of a replay."""
        path = self.folder / name
        self.run_tenure("replay", "--driver", "sim", "--check", "none", "--conf",
                        f"history:{mode},history_records:100000,snapshot_at_exit:{path}", trace)
        return path

    def check_file(self, checker, path):
        result = subprocess.run([sys.executable, "-B", CHECKERS / checker, path], text=True,
                                capture_output=True, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def summary(self, path):
        shown = json.loads(self.run_tenure("snapshot", "summary", "--json", path).stdout)
        return {key: shown[key] for key in ["writer", "reserved_bytes", "live_bytes",
                                            "retired_bytes", "free_bytes"]} | {
            "pools": [(one["name"], one["free_bytes"]) for one in shown["pools"]]}

    def test_formats_agree(self):
        expected = self.summary(self.taken("a.json"))
        self.assertEqual(expected["pools"][0][0], "default")
        self.assertGreater(expected["reserved_bytes"], 0)
        for name in ["b.pickle", "c.json.gz", "d.pickle.gz"]:
            self.assertEqual(self.summary(self.taken(name)), expected, name)

    def test_settings_are_those_in_force(self):
        def settings(name):
            path = self.folder / name
            self.run_tenure("replay", "--driver", "sim", "--check", "none", "--conf",
                            "history:light,max_split_size_mb:64,roundup_power2_divisions:4,"
                            f"snapshot_at_exit:{path}", TRACE)
            if name.endswith("json"):
                return json.loads(path.read_bytes())["settings"]
            return pickle.loads(path.read_bytes())["allocator_settings"]
        written = settings("a.pickle")
        self.assertEqual(written["max_split_size_mb"], "64")
        self.assertEqual({**written, "snapshot_at_exit": ""},
                         {**settings("a.json"), "snapshot_at_exit": ""})

    def test_history_is_the_trace(self):
        with gzip.open(TRACE, "rt") as file:
            expected = list(operations(file))
        for name in ["a.json", "a.pickle"]:
            source = self.taken(name, "light")
            lines = self.run_tenure("snapshot", "trace", source, "-").stdout.splitlines()
            written = list(operations(lines))
            # The replay frees at its end what the trace leaves.
            # Not compared as lists: showing how two long ones differ takes forever.
            self.assertGreaterEqual(len(written), len(expected))
            for place, (one, other) in enumerate(zip(written, expected)):
                self.assertEqual(one, other, f"operation {place}")
            self.assertEqual({op for op, _, _ in written[len(expected):]} - {"F"}, set())

    def test_conversions_are_sound(self):
        source = self.taken("a.json")
        self.run_tenure("snapshot", "convert", source, self.folder / "b.pickle")
        self.check_file("check_viewer.py", self.folder / "b.pickle")
        self.run_tenure("snapshot", "convert", self.taken("c.pickle"), self.folder / "c.json")
        self.check_file("check_snapshot.py", self.folder / "c.json")
        self.run_tenure("snapshot", "convert", "--no-symbols", "--to", "tenure", source,
                        self.folder / "d.json")
        self.assertEqual(json.loads((self.folder / "d.json").read_bytes()),
                         json.loads(source.read_bytes()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
