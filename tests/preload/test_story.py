#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whose memory it is, as `tenure run` tells it: stacks begin at the program's own frame, whichever
way the runtime came; and a program that dies leaves the same story as one that ends.
"""
import ctypes.util
import json
import os
import pathlib
import signal
import subprocess
import unittest

from preloaded import PROGRAMS, TENURE, PreloadTest

SOURCE = pathlib.Path(__file__).resolve().parent / "leak.c"
LINE = 1 + [number for number, line in enumerate(SOURCE.read_text().splitlines())
            if "/* the line */" in line][0]
HAS_SYMBOLS = ctypes.util.find_library("dw") is not None
DEATHS = {"abort": -signal.SIGABRT, "segv": -signal.SIGSEGV, "quit": 5}


class Story(PreloadTest):
    def leak(self, program, end, *options, code=0):
        result = self.run_program([TENURE, "run", *options, "--", PROGRAMS / program, end])
        self.assertEqual(result.code, code, f"{result.out}\n{result.err}")
        return result

    def stacks(self, path, *options):
        """The table of who holds memory, without its head."""
        text = self.run_program([TENURE, "snapshot", "summary", *options, path]).out
        table = text.split("\nAllocated by")[1].split("\n\n")[0].splitlines()
        return table[1:]

    def check_leak(self, path):
        if not HAS_SYMBOLS:
            self.skipTest("libdw is not installed")
        rows = self.stacks(path)
        self.assertTrue(rows[0].startswith(f"leak leak.c:{LINE} < main leak.c:"), rows[0])
        self.assertRegex(rows[0], r" 18.00 MiB +6 ")
        for row in rows:
            for inner in ["cudaMalloc", "libcudart", "malloc_anywhere", "libtenure", "tnr"]:
                self.assertNotIn(inner, row)

    def test_first_frame(self):
        for program in ["preload_leak", "preload_leak_shared"]:
            with self.subTest(program=program):
                path = self.folder / f"{program}.json"
                self.leak(program, "exit", "--history", "full", "--snapshot", path)
                self.check_leak(path)

    def test_first_frame_without_names(self):
        """Beside the program, the runtime's frames are not even in the snapshot."""
        path = self.folder / "leak.json"
        self.leak("preload_leak_shared", "exit", "--history", "full", "--snapshot", path)
        rows = self.stacks(path, "--no-symbols")
        self.assertTrue(rows[0].startswith("leak in preload_leak_shared") or
                        rows[0].startswith("preload_leak_shared+"), rows[0])

    def test_rows_are_wrapped(self):
        path = self.folder / "leak.json"
        self.leak("preload_leak", "exit", "--history", "full", "--snapshot", path)
        rows = self.stacks(path, "--frames", "all")
        self.assertTrue(any(row.startswith("  ") for row in rows), rows)
        self.assertIn("_start", "".join(rows))

    def test_deaths(self):
        for program in ["preload_leak", "preload_leak_shared"]:
            for end, code in DEATHS.items():
                with self.subTest(program=program, end=end):
                    path = self.folder / f"{program}-{end}.json"
                    result = self.leak(program, end, "--history", "full", "--snapshot", path,
                                       "--json", code=code)
                    self.check_leak(path)
                    self.assertEqual(len(result.counts), 1)
                    counts = result.counts[0]
                    self.assertEqual((counts["allocations_served"], counts["frees_served"],
                                      counts["live_blocks"], counts["live_bytes"]),
                                     (7, 1, 6, 18 << 20))
                    self.assertIs(counts["ended_by_itself"], False)
                    address = result.out.splitlines()[-1]
                    told = self.run_program([TENURE, "explain", address, path]).out
                    self.assertIn("of 70000 bytes, which was freed", told)
                    if HAS_SYMBOLS:
                        self.assertRegex(told, r"freed at\n +use leak.c:\d+ <")

    def test_a_signal_from_outside(self):
        path = self.folder / "snapshot-%p.json"
        variables = dict(os.environ)
        variables.pop("TENURE_DRIVER", None)
        variables["LD_LIBRARY_PATH"] = os.environ["PRELOAD_DRIVER"]
        process = subprocess.Popen(
            [TENURE, "run", "--snapshot", path, "--stats", "--", PROGRAMS / "preload_leak",
             "wait"], env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while not process.stdout.readline().startswith("0x"):
            pass
        process.send_signal(signal.SIGTERM)
        _, text = process.communicate(timeout=600)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertIn("died of signal 15", text)
        self.assertIn("6 blocks (18.00 MiB) live when it died", text)
        self.assertEqual(len(list(self.folder.glob("snapshot-[0-9]*.json"))), 1)

    def test_killed(self):
        """Nobody is asked: but the journal is there."""
        result = self.leak("preload_leak", "kill", "--stats", code=-signal.SIGKILL)
        self.assertIn("died of signal 9", result.err)

    def test_a_full_disk(self):
        """There is no room for a journal: the program goes on without, and a line says so. With
        ftruncate in place of posix_fallocate in book_make it dies of SIGBUS."""
        disk = self.folder / "disk"
        disk.mkdir()
        command = (f"mount -t tmpfs -o size=64k none {disk} || exit 77; "
                   f"TMPDIR={disk} exec {TENURE} run --stats -- {PROGRAMS / 'preload_leak'} exit")
        result = self.run_program(["unshare", "--mount", "sh", "-c", command])
        if result.code in (1, 77) and not result.out:
            self.skipTest("this user may not mount a disk")
        self.assertEqual(result.code, 0, result.err)
        self.assertIn("there is no report of its memory", result.err)
        self.assertIn("7 allocations served", result.err)

    def test_pipes_in_the_place_of_files(self):
        """What a program has put where its journal and its findings are looked for afterwards is
        not waited for; neither is a program that is none. Each open was tried without O_NONBLOCK,
        and hung."""
        for script, options in [('mkfifo "$TENURE_PRELOAD_JOURNAL.99"', ["--stats"]),
                                ('for f in "$TENURE_PRELOAD_CHECK_STATE" '
                                 '"$TENURE_PRELOAD_CHECK_SAID" '
                                 '"$TENURE_PRELOAD_CHECK_JSON"; do rm "$f"; mkfifo "$f"; done',
                                 ["--check"])]:
            result = self.run_program([TENURE, "run", *options, "--", "sh", "-c", script])
            self.assertEqual(result.code, 0, result.err)
        os.mkfifo(self.folder / "pipe")
        result = self.run_program([TENURE, "run", "--", self.folder / "pipe"])
        self.assertEqual(result.code, 126)

    def test_a_report_of_one_that_died(self):
        path = self.folder / "report.html"
        rest = self.folder / "rest"
        rest.mkdir()
        result = self.run_program([TENURE, "run", "--report", path, "--",
                                   PROGRAMS / "preload_leak", "abort"],
                                  environment={"TMPDIR": rest})
        self.assertEqual(result.code, -signal.SIGABRT)
        if "the report is in" in result.err:
            self.assertIn("preload_leak", path.read_text())
        else:
            self.assertIn("report", result.err)  # built without the page
        self.assertEqual(list(rest.iterdir()), [])

    def test_one_that_ends_tells_it_once(self):
        path = self.folder / "leak.json"
        result = self.leak("preload_leak", "exit", "--snapshot", path, "--json")
        self.assertEqual(len(result.counts), 1)
        self.assertNotIn("ended_by_itself", result.counts[0])
        self.assertNotIn("journal", result.err)
        self.assertEqual(json.loads(path.read_text())["writer"]["name"], "tenure")

    def check_changed(self, when, *root, end="exit", code=0):
        """A program that becomes another user or changes its root, on the driver of the command.
        The snapshot's folder is root's alone."""
        path = self.folder / "leak.json"
        path.unlink(missing_ok=True)
        result = self.run_program(
            [TENURE, "run", "--driver", "sim", "--snapshot", path, "--json", "--",
             PROGRAMS / "preload_leak", end, when, *root], driver="/nowhere")
        self.assertEqual(result.code, code, f"{result.out}\n{result.err}")
        self.assertEqual(len(result.counts), 1, result.err)
        self.assertEqual((result.counts[0]["allocations_served"],
                          result.counts[0]["live_bytes"]), (7, 18 << 20))
        written = json.loads(path.read_text())
        self.assertEqual(written["writer"]["name"], "tenure run")
        self.assertIn("preload_leak", written["process"]["program"])
        self.assertIn(f"{path} was written from its journal", result.err)
        return result

    @unittest.skipIf(os.geteuid() != 0, "only root becomes another user or changes its root")
    def test_another_user_or_root(self):
        """Taken out and seen to fail: dlopen in driver_keep (no driver in another root), early_open
        in early_begin and is_lost in book_tell (no snapshot), driver_is_found in report_write (the
        parent without a GPU tells statistics, too)."""
        empty = self.folder / "empty"
        empty.mkdir()
        for root in [(), (empty,)]:
            for when in ["before", "after", "child"]:
                with self.subTest(root=root, when=when):
                    result = self.check_changed(when, *root)
                    self.assertIn("could not write its snapshot", result.err)
                    self.assertEqual(list(empty.iterdir()), [])
            for when in ["before", "after"]:
                with self.subTest(root=root, when=when, end="abort"):
                    result = self.check_changed(when, *root, end="abort", code=-signal.SIGABRT)
                    self.assertIn("died of signal 6", result.err)

    def test_a_child_that_dies_too(self):
        """Each has a journal of its own. Without early_renew the two of root's share the parent's
        file, and one of them is not told of."""
        result = self.run_program([TENURE, "run", "--json", "--", PROGRAMS / "preload_leak",
                                   "abort", "both"])
        self.assertEqual(result.code, -signal.SIGABRT, result.err)
        self.assertEqual(len(result.counts), 2, result.err)
        for counts in result.counts:
            self.assertEqual((counts["allocations_served"], counts["live_bytes"]), (7, 18 << 20))
            self.assertIs(counts["ended_by_itself"], False)

    @unittest.skipIf(os.geteuid() != 0, "only root becomes another user")
    def test_a_program_that_another_user_starts(self):
        """It finds the driver, but not the journal; nor does it write where it may not. Without the
        chmod in driver_make it finds no driver."""
        self.folder.chmod(0o755)
        path = self.folder / "leak.json"
        result = self.run_program(
            [TENURE, "run", "--driver", "sim", "--snapshot", path, "--json", "--",
             PROGRAMS / "preload_leak", "exit", "exec"], driver="/nowhere")
        self.assertEqual(result.code, 0, result.err)
        self.assertEqual(result.counts[0]["allocations_served"], 7)
        self.assertRegex(result.err, r"journal\.\d+: Permission denied\. If the program dies")
        self.assertIn(f"{path}", result.err)
        self.assertFalse(path.exists())

    def test_paths_are_checked_first(self):
        (self.folder / "file").write_text("")
        for option in ["--snapshot", "--report"]:
            for path, words in [(self.folder, "Is a directory"),
                                (self.folder / "none" / "x.json", "No such file"),
                                (self.folder / "file" / "x.json", "Not a directory"),
                                ("/proc/x.json", "")]:
                with self.subTest(option=option, path=path):
                    result = self.leak("preload_leak", "exit", option, path, code=2)
                    self.assertEqual(result.out, "")
                    self.assertIn(f"{option} {path}: {words}", result.err)


if __name__ == "__main__":
    unittest.main()
