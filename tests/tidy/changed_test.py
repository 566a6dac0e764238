#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/changed.py: files of a real build, and the tests that each reaches, or does not.

  changed_test.py BUILD

Seen to fail: with the headers of `ninja -t deps` not read (life.h); with importers_of() empty
(command.py); with a file of which nothing is known taken for one that reaches none; with folders of
programs taken whole, or with the folder of a test taken for a source (test_conf.c).
"""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import changed  # noqa: E402

ALWAYS = "tidy"


class Changed(unittest.TestCase):
    def reached(self, *files):
        return set(changed.reached(ROOT, BUILD, files))

    def reaches(self, name, tests, others):
        got = self.reached(name)
        self.assertLessEqual({ALWAYS, *tests}, got, name)
        self.assertEqual(set(others) & got, set(), name)

    def test_sources_and_headers(self):
        self.reaches("tests/unit/test_conf.c", ["unit_conf"], ["unit_pool", "snapshot_command"])
        self.reaches("tests/lifetime/life.h", ["lifetime_uses", "capture_reuse"], ["unit_conf"])
        self.reaches("tools/snapshot/thin.c", ["snapshot_command"], ["unit_conf", "lifetime_uses"])
        self.reaches("alloc/memory/arena/find.c", ["unit_conf", "lifetime_uses", "cli_ctl"], [])

    def test_scripts(self):
        self.reaches("tests/cli/command.py", ["cli_ctl", "snapshot_command"], ["unit_conf"])
        self.reaches("tests/abi/check_abi.py", ["abi"], ["unit_conf"])

    def test_pages(self):
        self.reaches("docs/words.md", ["layers_words"], ["unit_conf", "cli_ctl"])

    def test_what_is_not_known_reaches_all(self):
        everything = self.reached("CMakeLists.txt")
        self.assertIn("unit_conf", everything)
        self.assertEqual(self.reached("tools/of/no/kind.txt"), everything)
        self.assertEqual(self.reached("docs/words.md", "alloc/CMakeLists.txt"), everything)


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
