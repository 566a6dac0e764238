#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenure run --waste`: blocks that lie unused are found, each as what it is, by the place that
allocated it; a program that uses its memory has none.

The idle times that are planted are 1.6 s, those of blocks in use 50 ms, and 400 ms is the bound.
The program has a clock of its own, so that these times are exact.

Broken to see it fail, each by itself: launches do not say when they use a block (launch_visit in
check/launch.c), nor do graphs (check_use_idle in check_use_of_graph, check/rules.c), nor copies and
sets (the same in check_use_span); a wait makes no use longer (check_waste_waited in check/waste.c),
or a copy that waits does not (COPY_AT_ONCE in preload/copy.c); each time counts, however short
(idle_ns); a block that is live at the end does not (check_waste_sums); nothing ends at a free
(age_add in check/blocks.c); a little memory is worth a change, too (is_worth in
check/waste_said.c); the sole stream's blocks are not followed (check/sole.c); a check counts time,
too (check_begin in check/start.c).

Environment: TENURE is the command, PRELOAD_PROGRAMS the folder of the programs.
"""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

TENURE = os.environ["TENURE"]
PROGRAM = pathlib.Path(os.environ["PRELOAD_PROGRAMS"]) / "check_waste"
BOUND_MS, LONG_S = 400, 1.6
# What is planted -> when it lies unused, MiB, what to do about it.
PLANTED = {"early": ("before_first_use", 2, "allocate this later"),
           "late": ("after_last_use", 3, "free this earlier"),
           "between": ("between_uses", 4, "park this"),
           "never": ("never_used", 5, "do without this"),
           "left": ("after_last_use", 6, "free this earlier")}
WHENS = {"never_used", "before_first_use", "between_uses", "after_last_use"}


def run(*arguments, **environment):
    variables = {**os.environ, "TENURE_SIM_SCHEDULE": "lazy", **environment}
    variables.pop("TENURE_DRIVER", None)
    return subprocess.run([TENURE, "run", *arguments], env=variables, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=500, check=False)


class Waste(unittest.TestCase):
    def wasted(self, *blocks, conf="", program=PROGRAM, bound_ms=BOUND_MS):
        """Standard error, and the lines for machines: by place, and of all."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "waste.json")
            done = run(f"--waste={bound_ms}", "--findings", path, "--driver", "sim",
                       *(("--conf", conf) if conf else ()), "--", program, *blocks,
                       TMPDIR=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                lines = [json.loads(line) for line in file]
            self.assertEqual(os.listdir(folder), ["waste.json"])
        *places, whole = lines
        self.assertEqual(whole["waste"], "summary")
        self.assertEqual(whole["shortest_ms"], bound_ms)
        self.assertEqual(whole["worth"], sum(one["worth"] for one in places))
        return done.stderr, {place_of(one): one for one in places}, whole

    def is_silent(self, stderr, places, whole):
        self.assertEqual([one for one in places.values() if one["worth"]], [], stderr)
        self.assertEqual(stderr.count("\n"), 1, stderr)
        self.assertIn(f"process {whole['pid']}: nothing was wasted: no place of the program left "
                      f"1 MiB or more idle for {whole['shortest_ms']} ms at a time", stderr)

    def test_planted(self):
        stderr, places, whole = self.wasted(*PLANTED, "steady", "graph", "set", "freed", "small")
        worth = {name for name, one in places.items() if one["worth"]}
        self.assertEqual(worth, set(PLANTED), stderr)
        for name, (when, mib, advice) in PLANTED.items():
            one = places[name]
            self.assertEqual((one["waste"], one["bytes"], one["blocks"]), (when, mib << 20, 1))
            self.assertGreaterEqual(one[when], one["bytes"] * LONG_S * 0.99, name)
            self.assertEqual({key for key in WHENS if one[key] > 0}, {when}, one)
            self.assertGreater(one["idle_share"], 0.5)
            self.assertAlmostEqual(one["idle_share"], one[when] / one["byte_seconds"], 3)
            self.assertRegex(stderr, rf"waste: {advice}: {mib}\.00 MiB, (idle|unused) for "
                                     rf"\d+ % of the time\n.*1 block, .*\n  allocated by "
                                     rf"cuMemAllocAsync\n      check_waste\S+ \(make_{name}\)")
        self.assertEqual(whole["blocks"], len(PLANTED) + 5)
        self.assertIn("5 places of the program left memory idle", stderr)
        # Too little to change a program for: for machines alone.
        self.assertEqual((places["small"]["waste"], places["small"]["worth"]),
                         ("never_used", False))

    def test_all_is_used(self):
        self.is_silent(*self.wasted("steady", "graph", "set", "freed"))

    def test_with_records(self):
        """Uses are recorded besides: the stream that alone has memory is followed for all that."""
        stderr, places, _ = self.wasted("steady", "late", conf="auto_record:seen")
        self.assertEqual({name for name, one in places.items() if one["worth"]}, {"late"}, stderr)

    def test_work_that_takes_long(self):
        for way in ("waited", "copied"):
            with self.subTest(way):
                stderr, places, whole = self.wasted(way)
                self.is_silent(stderr, places, whole)
                self.assertGreaterEqual(whole["byte_seconds"], LONG_S * 0.99 * 8 * 2**20)

    def test_an_engine(self):
        """One that calls libtenure itself: its blocks are followed, too. Its time is the machine's,
        which may hold it up for longer than any bound but this one."""
        told = self.wasted("record_use", "right", program=PROGRAM.with_name("check_engine"),
                           bound_ms=86400000)
        self.is_silent(*told)
        self.assertEqual(told[2]["blocks"], 5)

    def test_several_processes(self):
        """Each tells of itself; the exit code is the program's."""
        done = run("--waste", "--driver", "sim", "--", "/bin/sh", "-c",
                   'for i in 1 2 3; do "$0" waited; done; exit 4', PROGRAM)
        self.assertEqual(done.returncode, 4)
        self.assertEqual(done.stderr.count("nothing was wasted"), 3, done.stderr)

    def test_no_gpu(self):
        done = run("--waste", "--", "/bin/sh", "-c", "exit 5")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (5, "", ""))

    def test_bad_options(self):
        for arguments, said in [
                (["--waste=0"], "--waste=0: the shortest time that counts, 1 to 86400000 ms"),
                (["--waste=-1"], "--waste=-1: the shortest time"),
                (["--waste=1s"], "--waste=1s: the shortest time"),
                (["--waste=99999999999999999999"], "--waste=99999999999999999999: the shortest"),
                (["--waste="], "--waste=: the shortest time"),
                (["--waste", "--check"], "--check and --waste are two runs"),
                (["--waste", "--leaks"], "--suppress, --leaks and --possible are for --check"),
                (["--findings", "f"], "--findings is for --check, and for --waste")]:
            with self.subTest(arguments):
                done = run(*arguments, "--", "/bin/true")
                self.assertEqual(done.returncode, 2)
                self.assertIn(said, done.stderr)

    def test_a_check_is_none(self):
        """Under a run with --waste, a check of its own is a check."""
        done = run("--check", "--driver", "sim", "--", PROGRAM, "waited",
                   TENURE_PRELOAD_WASTE="1")
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("waste:", done.stderr)

    def test_the_report_has_them(self):
        """What the page makes of them: tests/report/test_views.mjs. Taken back: is_wanted in
        run_and_report (tools/tenure/run.c)."""
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "report.html")
            done = run(f"--waste={BOUND_MS}", "--driver", "sim", "--report", page, "--", PROGRAM,
                       "never", TMPDIR=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(os.listdir(folder), ["report.html"])
            with open(page, encoding="utf-8") as file:
                text = file.read()
        found = re.search(r'id="tenure-findings">(.*?)</script>', text, re.S)
        self.assertEqual([line["waste"] for line in json.loads(found[1])],
                         ["never_used", "summary"])


def place_of(one):
    for frame in one["allocated"]["stack"]:
        found = re.search(r"\(make_(\w+)\)", frame["frame"])
        if found:
            return found.group(1)
    return "?"


if __name__ == "__main__":
    unittest.main()
