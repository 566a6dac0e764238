#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_layouts.py PROGRAM: that what callgrind.py counts is a property of the code. Counts of paths
that look handles up must be the same in another folder, with another environment and, to one per
cent, with other distances between the handles. PROGRAM is bench_paths of a Release build; skipped
(77) without valgrind, or of another build.

Seen to fail: with the layouts of kernels found in a table of 256 slots that have room for one each
(tools/check/launch.c), where check_launch takes 1434.1 or 1463.9 and seen_launch 773.0,
802.8 or 832.5; with callgrind.py passing its own environment on.
"""
import os
import pathlib
import shutil
import sys
import tempfile
import unittest
import unittest.mock

import callgrind

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
BUILD = PROGRAM.parents[1]
PATHS = "announce run_ring seen_launch check_launch".split()
SAME, ALIKE = 0.001, 0.01
# What a program needs of a build folder.
NEEDED = ["tests/bench_paths", "lib/libtenure.so.1", "lib/libtenure_preload.so",
          "lib/tenure/libtenure_simcuda.so"]
DRIVER = "tests/preload/driver/libcuda.so.1"


class Layouts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.first = cls.costs(PROGRAM)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    @staticmethod
    def costs(program, layout=0):
        return {count.name: count.cost
                for count in callgrind.paths_count(str(program), PATHS, os.cpu_count(), layout)[1]}

    def assert_near(self, costs, limit, what):
        for name, first in self.first.items():
            self.assertLess(abs(costs[name] / first - 1), limit,
                            f"{name} {what}: {first:.1f} -> {costs[name]:.1f}")

    def test_elsewhere(self):
        """A folder of another length, with 4 KiB more in the environment, or nearly nothing."""
        build = self.folder / ("a folder whose name is longer than that of a build " * 4).strip()
        for name in [*NEEDED, DRIVER]:
            (build / name).parent.mkdir(parents=True, exist_ok=True)
        for name in NEEDED:
            shutil.copy(BUILD / name, build / name)
        (build / DRIVER).symlink_to(build / NEEDED[-1])
        for variables in ({**os.environ, "MORE": "x" * 4096, "HOME": "/nowhere", "LC_ALL": "C",
                           "TENURE_PRELOAD_CHECK": "1"},
                          {"PATH": os.environ["PATH"]}):
            with unittest.mock.patch.dict(os.environ, variables, clear=True):
                self.assert_near(self.costs(build / "tests" / "bench_paths"), SAME,
                                 f"elsewhere, with {len(variables)} variables")

    def test_other_distances(self):
        for layout in range(1, callgrind.LAYOUTS, 2):
            self.assert_near(self.costs(PROGRAM, layout), ALIKE, f"in layout {layout}")


if __name__ == "__main__":
    if not shutil.which("valgrind"):
        print("skipped: there is no valgrind here")
        sys.exit(77)
    FACTS = callgrind.facts_read(callgrind.program_run(str(PROGRAM), "--describe"))
    if FACTS["build"] != callgrind.BUILD:
        print(f"skipped: {PROGRAM} is of a build \"{FACTS['build']}\"")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
