#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Colours and progress: on a terminal only, and not where they are unwanted."""
import os
import pty
import subprocess
import unittest

from command import CommandTest, TENURE, TRACES

LONG = ["replay", "--driver", "sim", "--check", "none", "--loops", "1000",
        TRACES / "llama_generate.csv.gz"]


class Terminal(CommandTest):
    def on_terminal(self, *arguments, environment=None, stop_at=None):
        """Runs the command on a terminal of its own and returns what it shows there. With stop_at
        it is ended as soon as that has been seen."""
        variables = dict(os.environ, TERM="xterm")
        variables.pop("NO_COLOR", None)
        variables.update(environment or {})
        ours, theirs = pty.openpty()
        process = subprocess.Popen([TENURE, *map(str, arguments)], env=variables, stdin=theirs,
                                   stdout=theirs, stderr=theirs)
        os.close(theirs)
        shown = b""
        try:
            while stop_at is None or stop_at not in shown:
                try:
                    data = os.read(ours, 65536)
                except OSError:  # the other end was closed
                    break
                if not data:
                    break
                shown += data
        finally:
            if stop_at is not None:
                process.kill()
            process.wait(timeout=1000)
            os.close(ours)
        return shown.decode()

    def test_colours_on_a_terminal(self):
        self.assertIn("\033[1m", self.on_terminal("conf"))

    def test_no_colours_where_unwanted(self):
        for environment in [{"NO_COLOR": "1"}, {"TERM": "dumb"}]:
            self.assertNotIn("\033", self.on_terminal("conf", environment=environment))

    def test_progress_bar(self):
        shown = self.on_terminal(*LONG, stop_at=b" %  ")
        self.assertIn("\rllama_generate", shown)

    def test_short_work_has_no_bar(self):
        shown = self.on_terminal("replay", "--driver", "sim", TRACES / "offload_streams.csv.gz")
        self.assertNotIn("[#", shown)
        self.assertNotIn("[.", shown)

    def test_progress_lines_without_terminal(self):
        with subprocess.Popen([TENURE, *map(str, LONG), "--progress"], text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            line = process.stderr.readline()
            process.kill()
        self.assertRegex(line, r"^llama_generate: \d+ of \d+, \d+ s\n$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
