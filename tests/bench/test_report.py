#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests report.py on a small made-up data set: what the page says of it, that --check notices every
change, and that bad data is refused with a reason."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
FIXTURE = HERE / "fixture"


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        self.docs = self.top / "docs"
        for name in ("bench.csv", "replay.json"):
            shutil.copy(FIXTURE / name, self.top / name)

    def run_report(self, *arguments):
        return subprocess.run(
            [sys.executable, "-B", str(HERE / "report.py"), "--docs", str(self.docs),
             "--recorded", str(FIXTURE / "recorded.csv"), *arguments],
            capture_output=True, text=True, check=False)

    def take_over(self):
        return self.run_report("--bench", str(self.top / "bench.csv"),
                               "--replay", str(self.top / "replay.json"))

    def make(self):
        done = self.take_over()
        self.assertEqual(done.returncode, 0, done.stderr)
        return (self.docs / "benchmarks.md").read_text("utf-8")

    def edit(self, name, old, new):
        path = self.top / name
        text = path.read_text("utf-8")
        self.assertIn(old, text)
        path.write_text(text.replace(old, new, 1), "utf-8")

    def row(self, page, *cells):
        """The page has a table row that begins with these cells."""
        self.assertRegex(page, r"(?m)^" + re.escape("| " + " | ".join(cells) + " |"))

    # ---- what the page says ----

    def test_pair(self):
        page = self.make()
        self.row(page, "512 B", "40.0", "39.0", "45.0", "480.0", "12.0 x", "300.0", "7.5 x")
        self.row(page, "1 MiB", "41.0", "40.0", "46.0", "492.0", "12.0 x", "missing", "-")

    def test_mix(self):
        page = self.make()
        self.row(page, "1", "2,000", "100.0", "95.0", "200.0", "10.00", "1,234", "0.81", "12.3 x",
                 "500.0", "2.00", "5.0 x")
        self.row(page, "4", "2,000", "200.0", "180.0", "900.0", "20.00", "failed", "-", "-",
                 "8,000", "0.50", "40.0 x")

    def test_offload(self):
        """Data of a run without --by-hand stays readable: it has no such ratio."""
        old = {"way": "use_wait", "device": "gpu", "in_use_bytes": 1e9, "peak_bytes": 1.2e9,
               "peak_ratio": 1.2, "total_ms": 110, "time_ratio": 1.1, "waits_on_device": 1234,
               "wrong_words": 0}
        new = {**old, "way": "by_hand", "by_hand_ratio": 1, "total_ms": 107, "time_ratio": 1.07}
        self.make()
        (self.docs / "benchmarks" / "offload.json").write_text(
            json.dumps(old) + "\n" + json.dumps(new) + "\n", "utf-8")
        page = self.make()
        self.row(page, "use, wait", "gpu", "1.000 GB", "1.200 GB", "1.200", "110.0", "1.100", "-",
                 "1,234", "0")
        self.row(page, "by hand", "gpu", "1.000 GB", "1.200 GB", "1.200", "107.0", "1.070",
                 "1.000", "1,234", "0")

    def test_memory(self):
        page = self.make()
        self.row(page, "`small`", "1", "1.000 GB", "1.010 GB", "1.010", "0", "1.500 GB (1.500)",
                 "1.100 GB (1.100)", "1.200 GB (1.200)")
        self.row(page, "`absent`", "missing", "-", "-", "-", "-", "3.000 GB (1.500)")
        self.row(page, "`extra`", "failed", "-", "-", "-", "3", "not recorded")
        self.assertIn("`extra` failed with exit code 4: a block was overwritten", page)
        self.assertRegex(page, r"`waiting`: while it was recorded[\s\S]*?hold\s+4\.000 GB")

    def test_driver(self):
        page = self.make()
        self.row(page, "`small`", "1,234", "56.7", "77", "8", "9", "4.3", "33.0", "1,376", "0.84")
        self.row(page, "`small`", "1.00", "2.00", "3.00", "4.00", "5.00", "6.00", "7.00", "8.00",
                 "9.00")
        self.assertEqual(page.count("| `extra` | failed |"), 3)
        self.assertEqual(page.count("| `absent` | missing |"), 3)

    def test_provenance(self):
        page = self.make()
        bench = ("| `tenure bench --driver cuda --csv bench.csv` | `0123456789ab` | Made-up GPU | "
                 "CUDA 13.0 | 8 | [bench.csv](benchmarks/bench.csv) |")
        replay = ("| `tenure replay --json` | `0123456789ab` | Made-up GPU | CUDA 13.0 | "
                  "not in the data | [replay.json](benchmarks/replay.json) |")
        self.assertEqual((page.count(bench), page.count(replay)), (3, 3))
        self.assertNotIn("SIMULATED", page)

    def test_simulated(self):
        text = (self.top / "replay.json").read_text("utf-8")
        (self.top / "replay.json").write_text(text.replace('"cuda"', '"sim"'), "utf-8")
        page = self.make()
        self.assertEqual(page.count("**SIMULATED DEVICE"), 3)
        self.assertIn("| simulated: Made-up GPU |", page)

    def test_pictures(self):
        self.make()
        for name, words in (("mix", ["Tenure", "driver pool", "PyTorch", "\u00d7 failed"]),
                            ("memory", ["small", "absent", "1.010", "no result"])):
            path = self.docs / "benchmarks" / f"{name}.svg"
            texts = [element.text for element in xml.etree.ElementTree.parse(path).iter()
                     if element.tag.endswith("text")]
            for word in words:
                self.assertIn(word, texts, name)

    def test_data_is_kept(self):
        self.make()
        for name in ("bench.csv", "replay.json"):
            self.assertEqual((self.docs / "benchmarks" / name).read_bytes(),
                             (FIXTURE / name).read_bytes())

    def test_instructions_and_changes(self):
        page = self.make()
        self.assertIn("No change is recorded yet.", page)
        data = self.docs / "benchmarks"
        (data / "instructions.csv").write_text(
            '# commit="abc" compiler="gcc 12" build="Release"\n'
            "path,operations,instructions,locked,c_library,functions,text\n"
            "pair,64,502.0,2.00,22.0,tnr_malloc:99.0 C_library:22.0,a pair\n", "utf-8")
        heading = "change,why,predicted,measured,command,commit,decision\n"
        changes = data / "changes.csv"
        changes.write_text(heading + '"a lock less","two, not one",-20 %,-18 %,,abc,kept\n',
                           "utf-8")
        page = self.make()
        self.row(page, "`pair`: a pair", "502", "22", "2.00", "`tnr_malloc` 99, C library 22")
        self.row(page, "`abc`", "`gcc 12`", "`Release`", "not in the data")
        self.row(page, "a lock less", "two, not one", "-20 %", "-18 %", "-", "`abc`", "kept")
        for row, reason in (("a,b,c,d,e,f,perhaps", "the decision is one of"),
                            ("a,b,c", "line 2 has not the columns")):
            changes.write_text(heading + row + "\n", "utf-8")
            done = self.take_over()
            self.assertEqual(done.returncode, 2)
            self.assertIn(reason, done.stderr)

    # ---- --check ----

    def test_check_agrees(self):
        self.make()
        done = self.run_report("--check")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def check_refuses(self, name, old, new):
        self.make()
        path = self.docs / name
        text = path.read_text("utf-8")
        self.assertIn(old, text)
        path.write_text(text.replace(old, new, 1), "utf-8")
        self.assertEqual(self.run_report("--check").returncode, 1, name)

    def test_check_notices(self):
        self.check_refuses("benchmarks.md", "40.0", "30.0")
        self.check_refuses("benchmarks/bench.csv", "480.00", "481.00")
        self.check_refuses("benchmarks/replay.json", "1010000000", "1020000000")
        self.check_refuses("benchmarks/mix.svg", "<circle", "<circle ")
        self.make()
        (self.docs / "benchmarks" / "memory.svg").unlink()
        self.assertEqual(self.run_report("--check").returncode, 1)

    def test_check_without_data(self):
        self.docs.mkdir()
        self.assertEqual(self.run_report("--check").returncode, 77)
        (self.docs / "benchmarks.md").write_text("numbers from nowhere\n", "utf-8")
        self.assertEqual(self.run_report("--check").returncode, 2)

    # ---- bad data ----

    def refuses(self, name, old, new, reason):
        self.edit(name, old, new)
        done = self.take_over()
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn(reason, done.stderr)
        self.assertFalse((self.docs / "benchmarks.md").exists())
        shutil.copy(FIXTURE / name, self.top / name)

    def test_bad_data(self):
        self.refuses("bench.csv", "# command", "command", "bench.csv: not what")
        self.refuses("bench.csv", " commit=0123456789ab", "", "does not say commit")
        self.refuses("bench.csv", "p99_ns", "p95_ns", "has not the columns")
        self.refuses("bench.csv", "480.00,470.00,", "480.00,", "line 4 has not 13 fields")
        self.refuses("bench.csv", "480.00", "many", "line 4")
        self.refuses("bench.csv", "7.500,11", "7.500,13", "not the same work")
        self.refuses("bench.csv", "pair,driver_pool,512", "pair,tenure,512", "repeats")
        self.refuses("replay.json", '{"trace"', '{trace', "line 1 is not JSON")
        self.refuses("replay.json", '"wall_ns"', '"wall"', "line 1 lacks wall_ns")
        self.refuses("replay.json", '"extra"', '"small"', "repeats the trace small")
        self.refuses("replay.json", "0123456789ab", "ba9876543210", "2 different runs")


if __name__ == "__main__":
    unittest.main()
