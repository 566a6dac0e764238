# SPDX-License-Identifier: Apache-2.0
"""What these tests share: running a program with Tenure under it and without.

Environment: TENURE is the command, PRELOAD_PROGRAMS the folder of the programs, PRELOAD_DRIVER a
folder whose libcuda.so.1 is the simulated device, PRELOAD_FAKES that of the fake drivers.
"""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

TENURE = os.environ["TENURE"]
PROGRAMS = pathlib.Path(os.environ["PRELOAD_PROGRAMS"])
DRIVER = pathlib.Path(os.environ["PRELOAD_DRIVER"])
LIBRARY = os.environ["PRELOAD_LIBRARY"]
ENGINE = PROGRAMS / "preload_engine"
# Every way to the driver; the engine that is linked against it knows one only.
WAYS = ["dlsym", "dlsym-thread", "lookup1", "lookup2", "lookup2-thread", "linked"]


def engine(way, scenario):
    return [PROGRAMS / "preload_engine_linked" if way == "linked" else ENGINE, way, scenario]


class Result:
    """What a program has left: its exit code, its output, and the counts of each process."""

    def __init__(self, done):
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr
        self.counts = [json.loads(line) for line in done.stderr.splitlines()
                       if line.startswith('{"pid"')]

    @property
    def messages(self):
        return [line for line in self.err.splitlines() if line.startswith("tenure: ")]


class PreloadTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, command, environment=None, driver=DRIVER, timeout=1000):
        """Runs a command as it is; a variable that is None is removed."""
        variables = dict(os.environ)
        # The library's own choice of a driver is the program's: nothing need be said.
        variables.pop("TENURE_DRIVER", None)
        variables["LD_LIBRARY_PATH"] = str(driver)
        for name, value in (environment or {}).items():
            if value is None:
                variables.pop(name, None)
            else:
                variables[name] = str(value)
        done = subprocess.run([str(part) for part in command], env=variables, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout,
                              check=False)
        return Result(done)

    def run_with(self, command, options=(), **how):
        return self.run_program([TENURE, "run", "--json", *options, "--", *command], **how)

    def check_same(self, command, options=(), code=0, **how):
        """With and without Tenure: the same output and exit code. Returns the result with it."""
        plain = self.run_program(command, **how)
        self.assertEqual(plain.code, code, f"without Tenure\n{plain.out}\n{plain.err}")
        result = self.run_with(command, options, **how)
        self.assertEqual(result.code, code, f"{result.out}\n{result.err}")
        self.assertEqual(result.out, plain.out)
        return result

    def check_served(self, counts, passed=0, live=0):
        """All allocations but so many were served, and freed but so many."""
        self.assertGreater(counts["allocations_served"], 0)
        self.assertEqual(counts["allocations_passed_on"], passed, counts)
        self.assertEqual(counts["live_blocks"], live, counts)
        if live == 0:
            self.assertEqual(counts["frees_served"], counts["allocations_served"], counts)
