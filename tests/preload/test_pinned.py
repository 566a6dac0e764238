#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pinned host memory of programs that know nothing of Tenure: the same answers with and without."""
import unittest

from preloaded import WAYS, PreloadTest, engine


class Pinned(PreloadTest):
    def test_every_way(self):
        for way in WAYS:
            with self.subTest(way=way):
                self.check_same(engine(way, "pinned"))

    def test_answers(self):
        self.check_same(engine("lookup2", "pinned_answers"))

    def test_wrong_calls(self):
        self.check_same(engine("lookup2", "pinned_wrong"))

    def test_devices_and_contexts(self):
        self.check_same(engine("lookup2", "pinned_devices"),
                        environment={"TENURE_SIM_DEVICES": 2})

    def test_forks_and_resets(self):
        self.check_same(engine("lookup2", "pinned_ends"))


if __name__ == "__main__":
    unittest.main()
