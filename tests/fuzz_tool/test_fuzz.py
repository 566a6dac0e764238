#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fuzzer itself: that it runs clean on a fixed set of seeds and on one that nobody chose, that
a seed is a program, that planted errors are caught, that bugs of an allocator are found, shrunk and
replayed, and that its command line says what it means.

The bugs come from a preloaded library (broken_uses.c). FUZZ_PROGRAMS: how many programs are run.
"""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

TENURE = os.environ["TENURE"]
BROKEN = os.environ["TENURE_TEST_BROKEN"]
PROGRAMS = int(os.environ.get("FUZZ_PROGRAMS", "150"))
# Of what the release build runs, 1/n.
PART = 8 if "TENURE_TEST_FEW" in os.environ else 2 if PROGRAMS < 100 else 1
SAFETY, LIVENESS, CRASH, MISSED = 10, 11, 12, 13
# What only programs with --odd have.
ODD = ("capture-break", "capture-beside", "capture-beside-end", "free-host", "miss")


# With --host, and with --ranges.
HOST = ("create-host-pool", "malloc-host", "write-host", "read-host", "trim-host", "limit-host")
RANGES = ("commit-range", "decommit-range", "look-range")


class Fuzz(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def fuzz(self, *arguments, code=0, bug=None):
        environment = dict(os.environ)
        if bug:
            environment.update(LD_PRELOAD=BROKEN, TENURE_TEST_BUG=bug)
            # The sanitizer's runtime must come first, and here it does not.
            environment["ASAN_OPTIONS"] = "verify_asan_link_order=0:detect_leaks=0"
        result = subprocess.run(
            [TENURE, "fuzz", *map(str, arguments)], capture_output=True, text=True,
            env=environment, cwd=self.folder, timeout=1000, check=False)
        codes = code if isinstance(code, tuple) else (code,)
        self.assertIn(result.returncode, codes, result.stdout[-3000:] + result.stderr[-3000:])
        return result

    def report(self, *arguments, **options):
        return json.loads(self.fuzz("--json", *arguments, **options).stdout)

    # ---- what it runs

    def test_fixed_seeds_are_clean_and_cover_everything(self):
        report = self.report("--seeds", f"1..{PROGRAMS}")
        self.assertEqual(report["verdicts"]["ok"], PROGRAMS)
        self.assertGreater(report["operations"], PROGRAMS * 19000)
        if PROGRAMS >= 100:
            never = [name for name, count in report["operations_run"].items() if count == 0]
            self.assertEqual(sorted(never), sorted(["park", "unpark", *ODD, *HOST, *RANGES]))
            for counts in ("served", "freed_because"):
                never = [name for name, count in report[counts].items() if count == 0]
                self.assertEqual(never, [], counts)

    def test_programs_that_park_are_clean(self):
        """Other programs of the same seeds. Memory of parked blocks serves others, or the fuzzer
        has tried nothing."""
        report = self.report("--park", "--seeds", f"1..{max(4, PROGRAMS // 4)}")
        for name in ("park", "unpark", "launch"):
            self.assertGreater(report["operations_run"][name], 0, name)
        self.assertGreater(report["served"]["shared"], 0)

    def test_odd_programs_are_clean(self):
        """Other programs of the same seeds: captures come to nothing in each way, other threads
        capture, host functions free, pools end in misses, and graphs of one device refer to blocks
        of the other."""
        programs = max(8, PROGRAMS // 2)
        report = self.report("--odd", "--ops", 5000, "--seeds", f"1..{programs}")
        self.assertEqual(report["verdicts"]["ok"], programs)
        for name in (*ODD, "launch"):
            self.assertGreater(report["operations_run"][name], programs / 2, name)
        again = self.report("--odd", "--ops", 5000, "--seeds", f"1..{programs}")
        self.assertEqual(again["result"], report["result"])

    def test_host_memory_and_ranges_are_clean(self):
        """Other programs of the same seeds, alone and together with all that there is. That faults
        of the library are found is tried with those of tests/mutants that are listed there."""
        programs = max(8, PROGRAMS // (2 if PROGRAMS >= 150 else 4))  # 150: the long run
        for options, names in ((["--host"], HOST), (["--ranges"], RANGES),
                               (["--host", "--ranges", "--odd", "--park"], (*HOST, *RANGES))):
            report = self.report(*options, "--ops", 5000, "--seeds", f"1..{programs}")
            self.assertEqual(report["verdicts"]["ok"], programs)
            for name in names:
                self.assertGreater(report["operations_run"][name], programs / 2, name)

    def test_an_odd_program_is_the_same_after_others(self):
        """Which programs one process runs is the machine's business. They make threads, and the
        library's spare events lie where the numbers of threads say. When these shared a process,
        one of them had another result than alone (fuzz_child_is_fresh_each without `odd`)."""
        first, last = 97 - 12 // PART, 96
        together = self.report("--odd", "--ops", 5000, "--jobs", 1, "--seeds", f"{first}..{last}")
        alone = [self.report("--odd", "--ops", 5000, "--seeds", seed)["result"]
                 for seed in range(first, last + 1)]
        self.assertEqual(int(together["result"], 16), sum(int(one, 16) for one in alone) % 2**64)

    def test_a_launch_over_a_parked_block_is_refused(self):
        """And a launch is a use: the block is not parked before it is over for the stream. The
        library's own orders are not the model's: of a legacy stream on which nothing was queued
        nobody comes after an unpark."""
        head = ["tenure-fuzz 1", "devices 1", "memory 134217728", "schedule lazy",
                "schedule-seed 1", "begin",
                *(f"create-stream s{i} device d0 blocking {int(i == 4)} told 1" for i in (2, 3, 4))]
        cases = {
            "launch g1 on s2  -- refused": [
                "malloc b0 on s2 from p0 bytes 4194304", "write b0 on s2",
                "capture-begin g1 on s3 from p0 mode 0", "write b0 on s3", "capture-end g1",
                "park b0 on s2 content 2", "launch g1 on s2"],
            "park b0 on s3 content 2  -- skipped": [
                "malloc b0 on s3 from p0 bytes 512", "write b0 on s3", "record e0 on s3 told 1",
                "wait s2 for e0 told 1", "capture-begin g1 on s3 from p0 mode 0", "write b0 on s3",
                "capture-end g1", "launch g1 on s2", "park b0 on s3 content 2"],
            "write b1 on s4  -- skipped": [
                "malloc b0 on s0 from p0 bytes 512", "park b0 on s2 content 2",
                "malloc b1 on s0 from p0 bytes 512", "write b1 on s0", "write b1 on s1",
                "unpark b0 on s0", "write b1 on s4"],
        }
        for said, lines in cases.items():
            with self.subTest(said=said):
                program = self.folder / "parked.txt"
                program.write_text("\n".join((*head, *lines, "")))
                self.assertIn(said, self.fuzz("--replay", program, "--verbose").stderr)

    def test_a_seed_that_nobody_chose(self):
        """The commit's own: other programs with every change."""
        commit = (os.environ.get("TENURE_TEST_COMMIT") or
                  self.report("--seeds", "1", "--ops", "100")["commit"])
        seed = int.from_bytes(commit.encode(), "little") % 1000000 + 1000
        self.fuzz("--seeds", f"{seed}..{seed + PROGRAMS // 5}")

    def test_a_seed_is_a_program(self):
        """Also with another number of processes: guarantee 6, addresses and all."""
        last = 12 // PART
        seeds, others = f"1..{last}", f"2..{last + 1}"
        each = (1, 1, 3) if PART == 1 else (1, 3)
        results = {self.report("--seeds", seeds, "--jobs", jobs)["result"] for jobs in each}
        self.assertEqual(len(results), 1)
        self.assertNotIn(self.report("--seeds", others)["result"], results)

    # ---- what it finds

    def test_planted_errors_are_caught(self):
        """All of them. An error of which something else has taken the effect is not counted, so
        most must have been."""
        for programs, options in ((600, ()), (150, ("--odd",))):
            report = self.report("--illegal", *options, "--seeds", f"1..{programs // PART}",
                                 "--ops", "1500", "--keep-going")
            for kind, planted in report["planted"].items():
                self.assertGreater(planted, 10 // PART, kind)
                self.assertEqual(report["caught"][kind], planted, kind)
            self.assertGreater(sum(report["planted"].values()), programs * 5 / 6 // PART)

    def test_a_failure_may_meet_the_fuzzers_own_call(self):
        """In this program a driver call that was to fail was made for the statistics that are
        checked after operation 997."""
        self.fuzz("--seeds", "9000534..9000534", "--ops", "1100")

    def test_memory_that_old_mappings_kept(self):
        """902158 ran out of memory beside 14 MiB that became free while it asked."""
        self.fuzz("--seeds", "902158")

    def test_a_launch_that_reads_what_no_graph_wrote_is_not_legal(self):
        """The block is of a capture that was aborted. Its memory was given to that as the next
        graph of the pool, which every launch would order; the first graph's may still run."""
        program = self.folder / "unwritten.txt"
        program.write_text("\n".join((
            "tenure-fuzz 1", "devices 1", "memory 134217728", "schedule lazy", "schedule-seed 1",
            "begin", "create-graph-pool p1 device d0",
            *(f"create-stream s{i} device d0 blocking 0 told 1" for i in (2, 5, 6)),
            "capture-begin g1 on s5 from p1 mode 0", "malloc b0 on s5 from p0 bytes 512",
            "write b0 on s5", "free b0", "capture-end g1", "launch g1 on s6",
            "capture-begin g3 on s2 from p1 mode 0", "malloc b20 on s2 from p0 bytes 18",
            "capture-abort g3", "capture-begin g2 on s5 from p0 mode 1", "read b20 on s5",
            "capture-end g2", "launch g2 on s5", "")))
        result = self.fuzz("--replay", program, "--verbose")
        self.assertIn("launch g2 on s5  -- skipped", result.stderr)

    def find(self, bug, code, *arguments):
        """Looks for a bug of the library, shrinks the program, replays it. Returns both."""
        report = self.report("--seeds", "1..50", *arguments, code=code, bug=bug)
        failure = report["failure"]
        program = self.folder / failure["file"]
        text = program.read_text()
        again = self.fuzz("--replay", program, code=code, bug=bug)
        self.assertIn(failure["verdict"], again.stdout)
        fixed = self.fuzz("--replay", program)  # the same program with nothing wrong
        self.assertIn(": ok", fixed.stdout)
        return failure, text[text.index("begin\n"):].splitlines()[1:]

    def test_a_forgotten_use_is_found_and_shrunk(self):
        failure, program = self.find("forget", SAFETY, "--no-faults")
        self.assertIn(failure["check"], ("race", "contents", "ownership"))
        self.assertLess(len(program), 60)
        self.assertTrue(any(line.startswith("record-use") for line in program))

    def test_a_forgotten_free_is_found(self):
        failure, program = self.find("leak", SAFETY)
        self.assertNotIn(failure["check"], ("race", "contents"))
        self.assertLess(len(program), 60)

    def test_a_crash_is_found_and_shrunk(self):
        failure, program = self.find("crash", CRASH)
        self.assertIn("signal 6", failure["text"])
        self.assertLess(len(program), 60)

    def test_a_program_that_fails_after_others_only(self):
        """Programs share a process, and what the one leaves must not be the next one's failure. If
        it is, the report says so."""
        report = self.report("--seeds", "1..3", "--jobs", "1", "--ops", "500", "--no-shrink",
                             code=CRASH, bug="worn")
        self.assertEqual(report["failure"]["seed"], 2)
        self.assertIn("only in a process that ran seeds 1 and 0 others before 2",
                      report["failure"]["text"])

    def test_it_ends_with_more_processes_than_programs(self):
        for jobs, seeds in ((8, 3), (3, 7), (2, 2)):
            report = self.report("--seeds", f"1..{seeds}", "--jobs", jobs, "--ops", "200")
            self.assertEqual(report["programs"], seeds)

    # ---- the command line

    def test_bad_usage(self):
        for arguments in (["--seeds", "x"], ["--seeds", "5..3"], ["--seeds", "1.."], ["--ops", "0"],
                          ["--jobs", "1000"], ["--driver", "gpu"], ["--replay", "missing.txt"]):
            with self.subTest(arguments=arguments):
                self.assertNotEqual(self.fuzz(*arguments, code=2).stderr, "")

    def test_bad_programs_are_refused_with_the_line(self):
        for text, line in (("", "ends before"), ("tenure-fuzz 2\n", "line 1"),
                           ("tenure-fuzz 1\nbegin\nmalloc b1\n", "line 3"),
                           ("tenure-fuzz 1\nbegin\nfree b999\n", "line 3"),
                           ("tenure-fuzz 1\nmemory much\n", "line 2"),
                           ("tenure-fuzz 1\nbegin\nfree b1 b2\n", "line 3")):
            with self.subTest(text=text):
                path = self.folder / "program.txt"
                path.write_text(text)
                self.assertIn(line, self.fuzz("--replay", path, code=2).stderr)

    def test_a_program_that_is_written_reads_the_same(self):
        report = self.report("--seeds", "1..50", "--no-shrink", code=CRASH, bug="crash")
        program = self.folder / report["failure"]["file"]
        printed = self.fuzz("--print", "--replay", program).stdout
        text = program.read_text().splitlines()
        lines = [line for line in text if not line.startswith("#")]
        self.assertEqual(printed.splitlines()[:len(lines)], lines)
        self.assertGreater(len(lines), 50)

    def test_the_program_of_one_seed_is_printed(self):
        """Alone on standard output, so that it can be replayed; also that of one that failed."""
        for bug, code, verdict in ((None, 0, "ok"), ("crash", (0, CRASH), None)):
            with self.subTest(bug=bug):
                printed = self.fuzz("--print", "--seeds", 7, "--ops", 300, code=code, bug=bug)
                lines = printed.stdout.splitlines()
                self.assertIn("tenure-fuzz 1", lines)
                self.assertGreater(len(lines), 50)
                self.assertRegex(printed.stderr, rf"^seed 7: {verdict or 'ok|crash'}")
        printed = self.fuzz("--print", "--seeds", 7, "--ops", 300).stdout
        path = self.folder / "printed.txt"
        path.write_text(printed)
        again = self.fuzz("--print", "--strict", "--replay", path).stdout
        self.assertTrue(again.startswith(printed))
        for arguments in (["--print"], ["--print", "--seeds", "1..2"],
                          ["--print", "--json", "--seeds", "1"]):
            self.assertIn("--print", self.fuzz(*arguments, code=2).stderr)

    def test_time_ends_it(self):
        """The seeds have no end. How many fit into the time is the machine's business."""
        report = self.report("--time", "1", "--seeds", "1..", "--ops", "20")
        self.assertGreaterEqual(report["elapsed_s"], 1)
        self.assertEqual(report["verdicts"]["ok"], report["programs"])


if __name__ == "__main__":
    unittest.main()
