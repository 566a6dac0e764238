#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenure run` itself: options, exit codes, signals, environment, snapshots, reports."""
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import unittest

from preloaded import LIBRARY, PROGRAMS, TENURE, PreloadTest, engine


class Command(PreloadTest):
    def run_command(self, *arguments, code=0, **how):
        result = self.run_program([TENURE, "run", *arguments], **how)
        self.assertEqual(result.code, code, f"{result.out}\n{result.err}")
        return result

    def test_the_programs_arguments_and_code(self):
        result = self.run_command("--", "sh", "-c", 'echo "$@"; exit 7', "x", "--stats", "--",
                                  "a b", code=7)
        self.assertEqual(result.out, "--stats -- a b\n")

    def test_without_dashes(self):
        """The first word that is no option's value begins the program's command line. Seen to
        fail with an option's value taken for the program."""
        result = self.run_command("sh", "-c", 'echo "$@"', "x", "--stats", "--", "a b")
        self.assertEqual(result.out, "--stats -- a b\n")
        for options in (("--conf", "reuse:poll"), ("--conf=reuse:poll", "--history", "off")):
            result = self.run_command(*options, "sh", "-c", "echo $TENURE_CONF; exit 7", code=7)
            self.assertIn("reuse:poll", result.out)
        result = self.run_command("./x", code=127)
        self.assertIn("./x", result.err)

    def test_bad_usage(self):
        for arguments in [(), ("--",), ("--stats",), ("--conf", "reuse:poll"), ("--conf",),
                          ("--no-such", "--", "true"),
                          ("--history", "some", "--", "true")]:
            with self.subTest(arguments=arguments):
                self.run_command(*arguments, code=2)

    def test_bad_settings(self):
        result = self.run_command("--conf", "chunk_nb:2", "--", "true", code=2)
        self.assertIn("chunk_mb", result.err)

    def test_program_not_found(self):
        result = self.run_command("--", "./no/such/program", code=127)
        self.assertIn("./no/such/program", result.err)
        self.run_command("--report", self.folder / "r.html", "--", "no-such-program", code=127)

    def test_program_not_executable(self):
        """And what was probably meant. Seen to fail with the system's text alone."""
        path = self.folder / "plain"
        path.write_text("text")
        path.chmod(0o644)
        self.run_command("--", path, code=126)
        script = self.folder / "train.py"
        script.write_text("print(1)\n")
        result = self.run_command(script, code=126)
        self.assertIn(f"`tenure run python3 {script}`", result.err)

    def test_static_program(self):
        if os.uname().machine != "x86_64":
            self.skipTest("the program is for x86-64")
        # The smallest there is: exit(5), in one segment, without a loader's name.
        code = bytes.fromhex("bf05000000b83c0000000f05")
        base = 0x400000
        size = 64 + 56 + len(code)
        header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, 62, 1, base + 120, 64,
                             0, 0, 64, 56, 1, 0, 0, 0)
        segment = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 4096)
        static = self.folder / "static"
        static.write_bytes(header + segment + code)
        static.chmod(0o755)
        self.assertIn("linked statically", self.run_command("--", static, code=5).err)
        self.run_command("--strict", "--", static, code=126)

    def test_killed_by_a_signal(self):
        for options in [(), ("--report", str(self.folder / "r.html"))]:
            done = subprocess.run([TENURE, "run", *options, "--", "sh", "-c", "kill -TERM $$"],
                                  capture_output=True, check=False)
            self.assertEqual(done.returncode, -signal.SIGTERM)

    def test_signals_reach_the_program(self):
        # A signal that comes just before a long sleep would be looked at after it.
        script = ("import signal, sys, time\n"
                  "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(9))\n"
                  "print('ready', flush=True)\n"
                  "while True:\n"
                  "    time.sleep(0.1)\n")
        process = subprocess.Popen([TENURE, "run", "--report", str(self.folder / "r.html"), "--",
                                    sys.executable, "-c", script], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.wait(timeout=1000), 9)
        process.stdout.close()

    def test_the_environment(self):
        show = ["sh", "-c", 'echo "$LD_PRELOAD|$TENURE_CONF"']
        result = self.run_command("--", *show, environment={"LD_PRELOAD": None})
        self.assertEqual(result.out, f"{LIBRARY}|control:try\n")
        result = self.run_command("--history", "full", "--conf", "bin_blocks:4", "--", *show,
                                  environment={"LD_PRELOAD": "libc.so.6",
                                               "TENURE_CONF": "bin_blocks:2"})
        self.assertEqual(result.out, f"{LIBRARY}:libc.so.6|control:try,bin_blocks:2,history:full,"
                                     "bin_blocks:4\n")

    def test_stats(self):
        result = self.run_command("--stats", "--", *engine("lookup2", "basic"))
        self.assertIn("120 allocations served, 0 passed on to the driver", result.err)
        result = self.run_command("--", *engine("lookup2", "basic"))
        self.assertEqual(result.err, "")

    def test_snapshot(self):
        # A relative path is meant from here, wherever the program goes.
        before = pathlib.Path.cwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder)
        program = " ".join(str(part) for part in engine("lookup2", "late"))
        self.run_command("--history", "light", "--snapshot", "end.json", "--", "sh", "-c",
                         f"cd / && exec {program}")
        snapshot = json.loads((self.folder / "end.json").read_text())
        self.assertIn("devices", snapshot)
        text = self.run_program([TENURE, "snapshot", "summary", self.folder / "end.json"])
        self.assertEqual(text.code, 0, text.err)

    def test_snapshots_of_several_processes(self):
        command = " ".join(str(part) for part in engine("lookup2", "async"))
        self.run_command("--snapshot", self.folder / "it's, the end-%p.json", "--", "sh", "-c",
                         f"{command} & {command}; wait")
        found = sorted(self.folder.glob("*.json"))
        self.assertEqual(len(found), 2)
        for path in found:
            self.assertRegex(path.name, r"^it's, the end-\d+\.json$")
            json.loads(path.read_text())

    def test_report(self):
        path = self.folder / "report.html"
        result = self.run_command("--report", path, "--", *engine("lookup2", "order"))
        if "was not built" in result.err:
            self.skipTest("the report was not built")
        self.assertTrue(path.read_text().lstrip().lower().startswith("<!doctype html"))
        self.assertEqual(list(self.folder.glob("*.json")), [])

    def test_report_of_a_program_without_a_gpu(self):
        result = self.run_command("--report", self.folder / "r.html", "--", "false", code=1)
        self.assertIn("no report", result.err)

    def test_programs_that_the_program_starts(self):
        command = " ".join(str(part) for part in engine("lookup2", "basic"))
        result = self.run_with(["sh", "-c", f"{command}; {command}"])
        self.assertEqual(len(result.counts), 2)
        for counts in result.counts:
            self.check_served(counts)

    def test_no_driver_at_all(self):
        self.run_command("--stats", "--", PROGRAMS / "preload_symbols", driver=self.folder)


if __name__ == "__main__":
    unittest.main()
