#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests compare.py with a command that writes made-up times, one list for each library."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
# Stands for `tenure bench --csv FILE OPTION...`: the next time of the library that is preloaded.
COMMAND = f"""#!{sys.executable}
import json, os, pathlib, sys
library = os.environ.pop("LD_PRELOAD")
state = pathlib.Path(library + ".json")
times = json.loads(state.read_text())
one = times.pop(0)
state.write_text(json.dumps(times))
log = pathlib.Path(library).parent / "log"
log.write_text((log.read_text() if log.exists() else "") + pathlib.Path(library).name[0])
if one is None:
    sys.exit("it broke")
assert sys.argv[4:] == ["--quick"], sys.argv
pathlib.Path(sys.argv[3]).write_text(
    "# command\\nbench,allocator,bytes,threads,live_per_thread,median_ns,min_ns,checksum\\n"
    f"pair,tenure,512,1,1,{{one[0]}},{{one[0] / 2}},{{one[1]}}\\n"
    f"pair,pytorch,512,1,1,9,9,{{one[1]}}\\n")
"""


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name).resolve()
        self.command = self.top / "tenure"
        self.command.write_text(COMMAND, "utf-8")
        self.command.chmod(0o755)

    def compare(self, old, new, *options):
        for name, times in (("old.so", old), ("new.so", new)):
            (self.top / name).touch()
            (self.top / f"{name}.json").write_text(json.dumps(times), "utf-8")
        return subprocess.run(
            [sys.executable, "-B", str(HERE / "compare.py"), "--tenure", str(self.command),
             "--runs", str(len(old)), *options, str(self.top / "old.so"),
             str(self.top / "new.so"), "--", "--quick"],
            capture_output=True, text=True, check=False)

    def test_faster(self):
        done = self.compare([[40, 7], [50, 7], [44, 7]], [[30, 7], [25, 7], [22, 7]])
        self.assertEqual(done.returncode, 0, done.stderr)
        line = done.stdout.splitlines()[-1]
        self.assertEqual(line.split()[:7], ["pair", "512", "1", "1", "44.0", "25.0", "0.500"])
        self.assertTrue(line.endswith("0.500 to 0.750: faster"), line)
        # They take turns, and who begins alternates.
        self.assertEqual((self.top / "log").read_text("utf-8"), "onnoon")

    def test_slower_and_undecided(self):
        self.assertIn(": slower", self.compare([[40, 7]] * 2, [[50, 7]] * 2).stdout)
        self.assertIn(": the runs do not agree",
                      self.compare([[40, 7], [50, 7]], [[50, 7], [40, 7]]).stdout)

    def test_fastest(self):
        line = self.compare([[40, 7]], [[50, 7]], "--fastest").stdout.splitlines()[-1]
        self.assertEqual(line.split()[4:7], ["20.0", "25.0", "1.250"])

    def test_other_work_is_no_comparison(self):
        done = self.compare([[40, 7]], [[30, 8]])
        self.assertEqual(done.returncode, 1)
        self.assertIn("different work", done.stderr)

    def test_a_run_that_fails(self):
        done = self.compare([[40, 7]], [None])
        self.assertEqual(done.returncode, 1)
        self.assertIn("it broke", done.stderr)


if __name__ == "__main__":
    unittest.main()
