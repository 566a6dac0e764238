#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenure run --check`: a program that ends without its exit handlers (_exit, _Exit, quick_exit)
still says what is said at the end, once, and ends with its own code whatever it has interrupted.

Taken out of tools/check/ending.c, each by itself, and seen to fail: _exit; _Exit; at_quick_exit;
the process id (child); the alarm (hangs, which never ends); SIGABRT (breaks: the program dies of
it); the stack of its own (small: the sums are lost); is_first (twice: the sums are said twice). And
-fno-plt in tools/preload/CMakeLists.txt (test_a_stack_that_is_just_large_enough).

Environment: TENURE is the command, PRELOAD_PROGRAMS the folder of the programs.
"""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

TENURE = os.environ["TENURE"]
PROGRAM = pathlib.Path(os.environ["PRELOAD_PROGRAMS"]) / "check_quits"
ENDS = ["", "quit", "Quit", "quick", "late", "thread", "small", "child", "forked",
        "twice"]


class Quits(unittest.TestCase):
    def quit(self, way, *options, arguments=()):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "findings.json"
            variables = {**os.environ, "TMPDIR": folder}
            variables.pop("TENURE_DRIVER", None)
            done = subprocess.run(
                [TENURE, "run", "--driver", "sim", *options, "--findings", path, "--", PROGRAM,
                 way, *arguments], env=variables, text=True, stdin=subprocess.DEVNULL,
                capture_output=True, timeout=500, check=False)
            lines = [json.loads(line) for line in path.read_text().splitlines()]
        self.assertEqual(done.returncode, 7, done.stderr)
        return done, lines

    def test_the_sums_are_said_once(self):
        for way in ENDS:
            with self.subTest(way=way):
                done, lines = self.quit(way, "--check", "--leaks")
                self.assertEqual([line["pid"] for line in lines], [int(done.stdout)], done.stderr)
                self.assertEqual(done.stderr.count("check: nothing found"), 1, done.stderr)
                self.assertEqual(done.stderr.count("1 block (1048576 bytes) live at the end"), 1,
                                 done.stderr)

    def test_a_stack_that_is_just_large_enough(self):
        """Where a handler may call _exit without Tenure, it may do so with it. The least that it
        needs is found by halves."""
        variables = {**os.environ, "TENURE_SIM_SCHEDULE": "lazy"}
        low, high = 0, 1 << 16
        while high - low > 16:
            middle = (low + high) // 2
            code = subprocess.run([PROGRAM, "small", str(middle)], env=variables, check=False,
                                  stdout=subprocess.DEVNULL).returncode
            self.assertIn(code, (7, -signal.SIGSEGV))
            low, high = (low, middle) if code == 7 else (middle, high)
        done, lines = self.quit("small", "--check", arguments=[str(high)])
        self.assertEqual(len(lines), 1, done.stderr)

    def test_waste(self):
        for way in ["", "quit", "quick"]:
            with self.subTest(way=way):
                done, lines = self.quit(way, "--waste=1000000")
                self.assertEqual([line["waste"] for line in lines], ["summary"], done.stderr)

    def test_a_handler_that_interrupted_malloc(self):
        for way in ["hangs", "breaks"]:
            with self.subTest(way=way):
                self.quit(way, "--check", "--leaks")


if __name__ == "__main__":
    unittest.main()
