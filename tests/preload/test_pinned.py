#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pinned host memory of programs that know nothing of Tenure: the same answers with and without.

Broken to see them fail, each by itself, in tools/preload/pinned.c: tnr_free instead of
tnr_free_sync (frees_of_what_is_in_use); device_await left out, or the wait for the current context
(frees_wait_for_others); free_serve that leaves what is not live to the driver, which then frees a
slab (wrong_calls); no tnr_trim (idle_memory_goes_back); the setting `host` left as it is
(devices_and_contexts and frees_wait_for_others); is_off not asked (both_kinds); flags not kept
(answers); sizes not rounded to pages (every_way); in describe.c shared_free left out
(memory_that_devices_share_with_the_host).
"""
import json
import os
import unittest

from preloaded import PROGRAMS, WAYS, PreloadTest, engine

BOTH = ["allocated", "mapped"]
DEVICES = {"TENURE_SIM_DEVICES": 2}
RACES = {"TENURE_SIM_RACES": 1, "TENURE_SIM_STRICT": "abort"}


class Pinned(PreloadTest):
    def check_pinned(self, counts, served, passed=0):
        self.assertEqual(counts["pinned_allocations_served"], served, counts)
        self.assertEqual(counts["pinned_allocations_passed_on"], passed, counts)
        self.assertEqual(counts["pinned_frees_served"], served, counts)
        self.assertEqual(counts["pinned_live_blocks"], 0, counts)

    def test_every_way(self):
        for way in WAYS:
            with self.subTest(way=way):
                result = self.check_same(engine(way, "pinned"))
                self.check_pinned(result.counts[0], 120)
                self.assertEqual(result.messages, [])
                self.assertIn("0 large blocks begin beside pages", result.err)

    def test_memory_that_devices_share_with_the_host(self):
        """The driver has half of 8 TiB for it, which no host has."""
        shared = {"TENURE_SIM_INTEGRATED": self.folder / "meminfo", "TENURE_SIM_MEMORY": "8T"}
        result = self.run_with(engine("lookup2", "room"), environment=shared)
        free, total = map(int, result.out.split("\n")[0].split(" of "))
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
        self.assertEqual(total, 8 << 20)
        self.assertLess(free, whole + 64, result.err)
        native = self.run_program(engine("lookup2", "room"), environment=shared)
        self.assertGreater(int(native.out.split()[0]), 4000 << 10)

    def test_both_kinds(self):
        """What the settings leave to the driver, and what is not left to it. A driver of CUDA 13.0
        refuses the scenario's cuMemset on mapped memory; the simulated device does not."""
        for kind in BOTH:
            result = self.check_same(engine("lookup2", "pinned"), ["--conf", f"host:{kind}"])
            self.check_pinned(result.counts[0], 120)
        result = self.check_same(engine("lookup2", "pinned"), ["--conf", "host:off"])
        self.check_pinned(result.counts[0], 0, passed=120)
        result = self.check_same(engine("lookup2", "pinned"), ["--check=host"])
        self.check_pinned(result.counts[0], 0, passed=120)
        result = self.check_same(engine("lookup2", "pinned"), ["--check"])
        self.check_pinned(result.counts[0], 120)

    def test_answers(self):
        for kind in BOTH:
            for way in ["lookup2", "dlsym", "linked"]:
                result = self.check_same(engine(way, "pinned_answers"),
                                         ["--conf", f"host:{kind}"])
                self.check_pinned(result.counts[0], 14, passed=1)

    def test_wrong_calls(self):
        for kind in BOTH:
            result = self.check_same(engine("lookup2", "pinned_wrong"),
                                     ["--conf", f"host:{kind}"])
            self.check_pinned(result.counts[0], 3)
            self.assertEqual(result.counts[0]["pinned_allocations_failed"], 2)
            self.assertEqual(result.messages, [])

    def test_frees_of_what_is_in_use(self):
        """Not without Tenure: it is an error there, for which the driver waits."""
        for kind in BOTH:
            for schedule in ["lazy", "random"]:
                result = self.run_with(
                    engine("lookup2", "pinned_pending"), ["--conf", f"host:{kind}"],
                    environment={**RACES, "TENURE_SIM_SCHEDULE": schedule})
                self.assertEqual(result.code, 0, result.err)
                self.check_pinned(result.counts[0], 60)

    def test_devices_and_contexts(self):
        result = self.check_same(engine("lookup2", "pinned_devices"), environment=DEVICES)
        self.check_pinned(result.counts[0], 1, passed=1)

    def test_frees_wait_for_others(self):
        """Devices and contexts of which Tenure knows nothing."""
        for schedule in ["lazy", "random"]:
            result = self.run_with(
                engine("lookup2", "pinned_far"),
                environment={**RACES, **DEVICES, "TENURE_SIM_SCHEDULE": schedule})
            self.assertEqual(result.code, 0, result.err)
            self.check_pinned(result.counts[0], 19)

    def test_forks_and_resets(self):
        for kind in BOTH:
            result = self.check_same(engine("lookup2", "pinned_ends"),
                                     ["--conf", f"host:{kind}"])
            self.assertEqual(result.counts[0]["pinned_allocations_served"], 4)
            self.assertEqual(result.counts[0]["pinned_frees_served"], 1)
            self.assertEqual(result.messages, [])

    def test_idle_memory_goes_back(self):
        """Where the machine has 800 MB left, a quarter of that may stay idle, and no more."""
        meminfo = self.folder / "meminfo"
        for kind in BOTH:
            for left_mb, kept in [(800, 64 << 20), (8000, 320 << 20)]:
                meminfo.write_text(f"MemAvailable: {left_mb * 1000} kB\n")
                end = self.folder / "end"
                result = self.run_with(
                    engine("lookup2", "pinned_idle"),
                    ["--conf", f"host:{kind}", "--snapshot", end],
                    environment={"LD_PRELOAD": PROGRAMS / "libpreload_small_machine.so",
                                 "SMALL_MACHINE": meminfo})
                self.assertEqual(result.code, 0, result.err)
                host = json.loads(end.read_text())["devices"][1]
                self.assertEqual(host["reserved_bytes"], kept)

    def test_without_pinned_memory(self):
        """Such a program has no host memory of Tenure's, and no line of it."""
        result = self.run_with(engine("lookup2", "basic"), ["--snapshot", self.folder / "end"])
        self.assertEqual(result.code, 0, result.err)
        document = json.loads((self.folder / "end").read_text())
        self.assertEqual([one["index"] for one in document["devices"]], [0])

    def test_snapshots_have_it(self):
        result = self.run_with(engine("lookup2", "pinned"),
                               ["--history", "light", "--snapshot", self.folder / "end"])
        self.assertEqual(result.code, 0, result.err)
        document = json.loads((self.folder / "end").read_text())
        self.assertEqual([one["index"] for one in document["devices"]], [0, 64])


if __name__ == "__main__":
    unittest.main()
