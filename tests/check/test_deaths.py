#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is told of a program that dies under `tenure run --check`: the memory that its last launches
named. And traps under it: a late access to a guarded block faults, poison tells of one.
"""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

TENURE = os.environ["TENURE"]
ZOO = pathlib.Path(os.environ["PRELOAD_PROGRAMS"]) / "check_zoo"
ENGINE = ZOO.with_name("check_engine")


class Deaths(unittest.TestCase):
    def zoo(self, which, *options, animal="use_after_free", program=ZOO, **environment):
        with tempfile.TemporaryDirectory() as folder:
            variables = {**os.environ, "TMPDIR": folder, "TENURE_SIM_SCHEDULE": "eager",
                         **environment}
            variables.pop("TENURE_DRIVER", None)
            done = subprocess.run(
                [TENURE, "run", "--driver", "sim", *options, "--", program, animal, which],
                env=variables, text=True, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=500, check=False)
            self.assertEqual(os.listdir(folder), [])
        return done

    def test_last_launches(self):
        done = self.zoo("wrong", "--check", ZOO_END="1")
        self.assertEqual(done.returncode, 99)
        self.assertIn("its last launches named memory that was freed", done.stderr)
        told = re.search(r"launch 2 of 2, touch, on stream 0x[0-9a-f]+: 0x[0-9a-f]+, 0 bytes "
                         r"into block 0x[0-9a-f]+ of 1048576 bytes, which was freed [0-9.]+ ms "
                         r"before", done.stderr)
        self.assertIsNotNone(told, done.stderr)
        for what in ["launched at", "allocated at", "freed at"]:
            self.assertRegex(done.stderr, rf"{what}\n +\S+/check_zoo\+0x")

    def test_a_launch_that_the_free_does_not_wait_for(self):
        done = self.zoo("wrong", "--check", animal="free_in_use", ZOO_END="1")
        self.assertRegex(done.stderr, r"touch, on stream .* which was freed [0-9.]+ ms after it")

    def test_of_the_twin_nothing_is_told(self):
        for environment in [{"ZOO_END": "1"}, {}]:
            done = self.zoo("right", "--check", animal="use_after_free", **environment)
            self.assertNotIn("last launches", done.stderr)

    def test_memory_that_is_an_engines_by_then(self):
        """The journal has the driver's blocks alone: of others a launch names nothing."""
        done = self.zoo("right", "--check", animal="dies_after_a_launch", program=ENGINE)
        self.assertIn("died of signal 6", done.stderr)
        self.assertNotIn("last launches", done.stderr)

    def test_one_that_ends_well_is_not_told_of(self):
        done = self.zoo("wrong", "--check")
        self.assertNotIn("last launches", done.stderr)

    def test_guard(self):
        animal = "use_after_free_at_once"
        self.assertEqual(self.zoo("wrong", animal=animal).returncode, 0)
        self.assertNotEqual(self.zoo("wrong", "--conf", "guard:wait", animal=animal).returncode, 0)
        self.assertEqual(self.zoo("right", "--conf", "guard:wait", animal=animal).returncode, 0)

    def test_twins_run_into_no_trap(self):
        for conf in ["guard:on", "guard:wait", "poison:on,canary:on"]:
            for animal in ["free_in_use", "three_streams", "pool", "use_after_free_at_once",
                           "graph_in_use", "thread"]:
                with self.subTest(conf=conf, animal=animal):
                    done = self.zoo("right", "--conf", conf, animal=animal)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertRegex(done.stderr,
                                     r"^(?:tenure: traps: process \d+: (?:nothing|guarded) .*, "
                                     r"could not be 0\)?\n)?$")


if __name__ == "__main__":
    unittest.main()
