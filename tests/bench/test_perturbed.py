#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests perturbed.py: which blocks a try puts where, that rows are what replays say, and that bad
traces are refused.

Broken to see it fail: try 0 changes the trace; blocks are put at its end, or of ids that it uses;
the mean is of other tries than the least and the most; the first pass is the last one; the file
says nothing of the commit; a size is drawn for each line, or also that of small blocks.

Environment: TENURE is the command.
"""
import csv
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import patterns
import perturbed

HERE = pathlib.Path(__file__).resolve().parent
TRACE = ["# a comment", "a,3,3000000,7,10", "a,9,4096,7,20", "F,3,3000000,7,30", "F,9,4096,7,40"]


class Perturbed(unittest.TestCase):
    def test_what_a_try_adds(self):
        self.assertEqual(perturbed.perturbed(TRACE, 0), TRACE)
        for number in range(1, 20):
            found = perturbed.perturbed(TRACE, number)
            self.assertEqual(found, perturbed.perturbed(TRACE, number), "the same each time")
            self.assertEqual(found[:1] + found[4:], TRACE)
            for index, line in enumerate(found[1:4]):
                what, block, size, stream, time_us = line.split(",")
                self.assertEqual((what, block, stream, time_us), ("a", str(10 + index), "7", "10"))
                self.assertEqual(int(size) % 512, 0)
                self.assertTrue(0 < int(size) <= 2 << 20)
        self.assertNotEqual(perturbed.perturbed(TRACE, 1), perturbed.perturbed(TRACE, 2))

    def test_what_a_try_resizes(self):
        lines = [*TRACE, "a,4,3000000,7,50", "F,4,3000000,7,60"]
        self.assertEqual(perturbed.resized(lines, 0, 4), lines)
        drawn = set()
        for number in range(1, 20):
            found = perturbed.resized(lines, number, 4)
            self.assertEqual(found, perturbed.resized(lines, number, 4), "the same each time")
            [size] = {int(line.split(",")[2]) for line in found[1:] if line[2] != "9"}
            self.assertEqual(size % 512, 0)
            self.assertTrue(0.96 * 3000000 - 512 <= size <= 1.04 * 3000000 + 512)
            self.assertEqual([line.replace(str(size), "3000000") for line in found], lines)
            drawn.add(size)
        self.assertGreater(len(drawn), 15)

    def run_tool(self, lines, *options):
        with tempfile.TemporaryDirectory() as folder:
            path, out = pathlib.Path(folder) / "mine.csv", pathlib.Path(folder) / "out.csv"
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            done = subprocess.run(
                [sys.executable, "-B", HERE / "perturbed.py", "--tenure", os.environ["TENURE"],
                 "--csv", out, *options, path], capture_output=True, text=True, check=False)
            text = out.read_text(encoding="utf-8") if out.exists() else ""
        self.made = text.split("\n", 1)[0]
        return done, list(csv.DictReader(text.splitlines()[1:]))

    def test_rows(self):
        done, rows = self.run_tool(TRACE, "--tries", "1", "--conf", "", "--conf", "chunk_max_mb:2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row["conf"] for row in rows], ["", "chunk_max_mb:2"])
        for row in rows:
            self.assertEqual(row["least"], row["mean"])
            self.assertEqual(row["most"], row["mean"])
            self.assertGreaterEqual(float(row["mean"]), 1)
            self.assertEqual(row["first_mean"], row["mean"])
            self.assertEqual(row["first_most"], row["most"])
            self.assertGreater(float(row["first_modelled_ms"]), 0)
        self.assertRegex(self.made, r'^# command=".*--tries 1 --loops 1 --conf \'chunk_max_mb:2\' '
                                    r'mine.csv" commit=\w+')
        self.run_tool(TRACE, "--tries", "2", "--sizes", "3")
        self.assertIn("--tries 2 --loops 1 --sizes 3 mine.csv", self.made)
        done, [row] = self.run_tool(TRACE, "--tries", "4", "--loops", "2")
        self.assertEqual((row["tries"], row["passes"], row["trace"]), ("4", "2", "mine"))
        self.assertLess(float(row["least"]), float(row["most"]))
        self.assertTrue(float(row["least"]) < float(row["mean"]) < float(row["most"]))
        self.assertIn(f"mean {row['mean']}  least {row['least']}  most {row['most']}", done.stdout)
        self.assertEqual(self.run_tool(TRACE, "--tries", "4", "--loops", "2")[1], [row])

    def test_first_and_last_pass(self):
        """What a pass leaves in pieces makes the second one grow."""
        lines = patterns.text("moe_tokens").splitlines()
        _, [once] = self.run_tool(lines, "--tries", "1")
        _, [twice] = self.run_tool(lines, "--tries", "1", "--loops", "2")
        self.assertEqual(twice["first_mean"], once["mean"])
        self.assertEqual(twice["first_modelled_ms"], once["first_modelled_ms"])
        self.assertGreater(float(twice["mean"]), float(twice["first_mean"]))

    def test_bad_input(self):
        for lines, options, code, words in [
                (["# nothing"], [], 2, "without any allocation"),
                (["a,1,x,0,0"], [], 2, "perturbed.csv:1"),
                (TRACE, ["--tries", "0"], 2, "at least 1"),
                (TRACE, ["--sizes", "51"], 2, "0 to 50"),
                (TRACE, ["--conf", "no_such_key:1"], 2, "no_such_key")]:
            done, rows = self.run_tool(lines, *options)
            self.assertEqual((done.returncode, rows), (code, []), done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
