#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What hostile files cost by default: little more than 64 MiB and eight bytes for each of theirs,
and never 1 GiB. In the long run (TENURE_TEST_LONG) files of 256 MiB, plain and compressed, take at
most 10 s of processor time; and a sound snapshot that is large is read.

Without the budget that is earned most of these take all memory that there is.
"""
import gzip
import os
import pickle
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cli"))
from command import CommandTest, TENURE  # noqa: E402
import bombs  # noqa: E402
import test_large  # noqa: E402

MIB = 1 << 20
IS_LONG = "TENURE_TEST_LONG" in os.environ
SIZE = 256 * MIB if IS_LONG else 4 * MIB
# How some are refused.
SAID = {"lists": "more than a snapshot of this size takes", "keys_set_again": "has a key twice",
        "JSON_text": "a text of more than 8 MiB",
        "many_keys": "more than 65536 different lists of keys"}
# What is compressed too in the short run.
PACKED = ("lists", "one entry many times", "JSON lists")
# The command itself, without a snapshot.
COMMAND_MIB = 40
SECONDS_MAX = 10


def cost(*arguments):
    """The exit code, what was said, MiB and seconds of processor time."""
    script = ("import resource, subprocess, sys\n"
              "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=False)\n"
              "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
              "print(done.returncode, used.ru_maxrss / 1024, used.ru_utime + used.ru_stime)")
    result = subprocess.run([sys.executable, "-I", "-S", "-c", script, TENURE, "snapshot",
                             *map(str, arguments)], capture_output=True, text=True, check=True)
    code, mib, seconds = result.stdout.split()
    return int(code), result.stderr, float(mib), float(seconds)


class Bombs(CommandTest):
    def check(self, path):
        code, said, mib, seconds = cost("summary", path)
        print(f"{path.name}: {path.stat().st_size / MIB:.1f} MiB, code {code}, "
              f"{mib:.0f} MiB, {seconds:.1f} s: {said.strip()[-100:]}", flush=True)
        self.assertIn(code, (0, 2, 4), said)
        if code != 0:
            self.assertIn(path.name, said)
        self.assertIn(SAID.get(path.name, ""), said)
        self.assertLess(mib, min(1024, COMMAND_MIB + 64 + 8 * SIZE / MIB))
        if IS_LONG:
            self.assertLess(seconds, SECONDS_MAX)

    def test_bombs(self):
        for name in bombs.BOMBS:
            for ending in ("", ".gz") if IS_LONG or name in PACKED else ("",):
                path = self.folder / f"{name.replace(' ', '_')}{ending}"
                bombs.write(path, name, SIZE)
                with self.subTest(path=path.name):
                    self.check(path)
                path.unlink()

    def test_little_that_becomes_much(self):
        """What 64 KB of gzip hold is not read to its end."""
        path = self.folder / "spaces.json.gz"
        with gzip.open(path, "wb", compresslevel=9) as file:
            file.write(b"{")
            for _ in range(96):
                file.write(b" " * MIB)
        code, said, mib, _ = cost("summary", path)
        self.assertEqual(code, 2)
        self.assertIn("decompresses to more than 300 times its size", said)
        self.assertIn("gunzip", said)
        self.assertLess(mib, COMMAND_MIB)

    def test_sound_snapshots_are_read(self):
        """In every protocol, plain and compressed, without an option."""
        content = test_large.large_snapshot(400_000 if IS_LONG else 8_000)
        for protocol in range(6):
            data = pickle.dumps(content, protocol)
            for ending in ("", ".gz"):
                path = self.folder / f"sound_{protocol}.pickle{ending}"
                path.write_bytes(gzip.compress(data, 6) if ending else data)
                code, said, _, _ = cost("summary", path)
                self.assertEqual(code, 0, said)

    def test_more_is_read_when_it_is_allowed(self):
        """What is refused by default is read as far as it goes where somebody says so."""
        path = self.folder / "lists"
        bombs.write(path, "lists", 4 * MIB)
        code, said, _, _ = cost("summary", path)
        self.assertEqual(code, 4)
        self.assertIn("more than a snapshot of this size takes", said)
        self.assertIn("--max-memory", said)
        code, said, _, _ = cost("summary", "--max-memory", "2048", path)
        self.assertEqual(code, 2)
        self.assertIn("the pickle stops with", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
