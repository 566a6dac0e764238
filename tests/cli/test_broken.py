#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replay must find an allocator's bugs: a check that cannot fail is no check. The bugs come from
a preloaded library (broken_library.c)."""
import unittest

from command import CHECK_FAILED, CommandTest, FAKES

PRELOAD = FAKES / "libbroken_library.so"


class Broken(CommandTest):
    def replay(self, bug, *arguments, code):
        # Four blocks are live at any time, all of one size, so that overlaps are overwritten.
        lines = []
        for block in range(400):
            lines.append(f"a,{block},{1 << 20},{block % 2},0")
            if block >= 4:
                lines.append(f"F,{block - 4},{1 << 20},{block % 2},0")
        path = self.write("mine.csv", "\n".join(lines) + "\n")
        result = self.run_tenure(
            "replay", "--driver", "sim", "--json", *arguments, path, code=code,
            environment={"LD_PRELOAD": str(PRELOAD), "TENURE_TEST_BUG": bug,
                         # The sanitizer's runtime must come first, and here it does not.
                         "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"})
        [one] = self.json_lines(result)
        return one

    def test_without_a_bug_nothing_is_found(self):
        one = self.replay("none", code=0)
        self.assertEqual(one["pattern_errors"], 0)

    def test_overlapping_blocks_show_in_the_patterns(self):
        for extent in ["ends", "full"]:
            with self.subTest(extent=extent):
                one = self.replay("overlap", "--check", extent, code=CHECK_FAILED)
                self.assertGreater(one["pattern_errors"], 0)
                self.assertIn("not what had been written", one["error"])

    def test_leaked_blocks_are_counted(self):
        one = self.replay("leak", code=CHECK_FAILED)
        self.assertIn("still counted as live", one["error"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
