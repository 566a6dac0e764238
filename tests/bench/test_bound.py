#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests bound.py on cases whose best placement is known, that its check finds blocks that overlap,
that the same seed gives the same, and that bad traces are refused; and that each of patterns.py
frees all that it takes and is as perfect placement says; and what steady.py makes of a replay."""
import pathlib
import random
import subprocess
import sys
import unittest

import bound
import patterns
import settling
import steady

HERE = pathlib.Path(__file__).resolve().parent


def trace(*operations):
    """A trace of words: "a3:5" allocates block 3 with 5 units, "F3" frees it."""
    lines = []
    for word in operations:
        block, _, units = word[1:].partition(":")
        lines.append(f"{word[0]},{block},{int(units or 1) * bound.GRAIN},0,{len(lines)}")
    return bound.Trace(lines, "made")


def units(one, tries=12):
    return bound.Planner(one).search(tries, 1)[0] // bound.GRAIN


class Bound(unittest.TestCase):
    def test_alone(self):
        self.assertEqual(units(trace("a1:5", "F1")), 5)
        self.assertEqual(units(trace("a1:5", "F1", "a2:7", "F2")), 7)
        self.assertEqual(units(trace("a1:5", "a2:7")), 12)

    def test_holes(self):
        """A hole of 2 in the middle is no use to 4; whoever knows puts block 2 elsewhere."""
        self.assertEqual(units(trace("a1:2", "a2:2", "a3:2", "F1", "F3", "a4:4", "F4", "F2")), 6)

    def test_unavoidable(self):
        """Five blocks in a ring of time, each beside the next for a while: two are live at once,
        and an odd ring needs three places."""
        one = trace("a1", "F5", "a2", "F1", "a3", "F2", "a4", "F3", "a5", "F4")
        self.assertEqual(max(one.live(one.sizes)), 2 * bound.GRAIN)
        self.assertEqual(self.exact(one), 3)
        self.assertEqual(units(one), 3)

    def exact(self, one):
        """The best by trying all: each block at 0 or on top of another one, in all orders."""
        sizes, count = [size // bound.GRAIN for size in one.sizes], len(one.sizes)
        together = [[any(s < f and t < e for s, e in one.pieces(i) for t, f in one.pieces(j))
                     for j in range(count)] for i in range(count)]
        best = sum(sizes)

        def put(places, top):
            nonlocal best
            if top >= best:
                return
            if len(places) == count:
                best = top
                return
            for i in set(range(count)) - set(places):
                for low in {0, *(places[j] + sizes[j] for j in places)}:
                    if all(not together[i][j] or low + sizes[i] <= places[j]
                           or low >= places[j] + sizes[j] for j in places):
                        put({**places, i: low}, max(top, low + sizes[i]))
        put({}, 0)
        return best

    def test_exact(self):
        """Small traces by chance: never below the best, and in most cases the best."""
        met, cases = 0, 40
        for seed in range(cases):
            chance, live, words = random.Random(seed), [], []
            for block in range(5):
                while live and chance.random() < 0.4:
                    words.append(f"F{live.pop(chance.randrange(len(live)))}")
                words.append(f"a{block}:{chance.randrange(1, 6)}")
                live.append(block)
            one = trace(*words, *(f"F{block}" for block in live))
            found, best = units(one), self.exact(one)
            self.assertGreaterEqual(found, best, words)
            met += found == best
        self.assertGreaterEqual(met, cases - 2)

    def test_over_the_end(self):
        """Block 1 lives from a pass into the next: until its free it is beside block 2."""
        one = trace("a2:3", "F1", "F2", "a1:4")
        self.assertEqual(one.pieces(1), [(3, 4), (0, 1)])
        self.assertEqual(units(one), 7)
        self.assertEqual(units(trace("F1", "a2:3", "F2", "a1:4")), 4)

    def test_check(self):
        planner = bound.Planner(trace("a1:3", "a2:2", "F1", "F2"))
        planner.check([0, 3 * bound.GRAIN])
        planner.check([2 * bound.GRAIN, 0])
        for places in ([0, 2 * bound.GRAIN], [0, 0], [bound.GRAIN, 0]):
            with self.assertRaises(AssertionError):
                planner.check(places)

    def test_seed(self):
        chance, words = random.Random(3), []
        live = []
        for block in range(150):
            while len(live) > 20:
                words.append(f"F{live.pop(chance.randrange(len(live)))}")
            words.append(f"a{block}:{chance.randrange(1, 400)}")
            live.append(block)
        one = trace(*words)
        found = [bound.bound(one, 14, seed) for seed in range(6)]
        self.assertEqual(found, [bound.bound(one, 14, seed) for seed in range(6)])
        self.assertGreater(len({each["placed_bytes"] for each in found}), 1)

    def test_bad(self):
        for lines, text in ((["a,1,5"], "nothing|"), (["x,1,5,0,0"], "operation"),
                            (["F,1,5,0,0"], "never allocated"), (["a,1"], "not op,id"),
                            (["a,1,5,0,0", "a,1,5,0,0"], "is live already"),
                            (["a,1,0,0,0"], "no bytes"), ([], "nothing is allocated"),
                            (["F,1,5,0,0", "F,1,5,0,0", "a,1,5,0,0"], "freed twice")):
            if text == "nothing|":
                bound.Trace(lines, "made")  # streams and times are not needed
                continue
            with self.assertRaisesRegex(bound.BadTrace, text):
                bound.Trace(lines, "made")

    def test_command(self):
        run = subprocess.run([sys.executable, "-B", HERE / "bound.py", "--json", HERE / "no.csv"],
                             capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 2)
        self.assertIn("no.csv", run.stderr)


class Patterns(unittest.TestCase):
    def test_all(self):
        self.assertEqual(len(patterns.PATTERNS), 26)
        for name, make in patterns.PATTERNS.items():
            self.assertIn("Needs", make.__doc__, name)
            one = bound.Trace(patterns.text(name).splitlines(), name)
            self.assertTrue(all(end < one.events for end in one.ends), name)
            self.assertEqual(patterns.text(name), patterns.text(name))

    def test_peak(self):
        """What is said to need the peak does; of these, the ones that are quickly planned."""
        for name in ("batch_cycle", "resolutions", "lengths_grow", "train_eval", "optimizer_late"):
            self.assertIn("Needs the peak", patterns.PATTERNS[name].__doc__)
            one = bound.Trace(patterns.text(name).splitlines(), name)
            self.assertEqual(bound.bound(one, 1, 1)["ratio"], 1.0, name)


class Steady(unittest.TestCase):
    @staticmethod
    def row(**changes):
        calls = {kind: 0 for kind in (*steady.MAPPING, "event", "order", "wait")}
        passes = [{"reserved_over_live": 1.01, "driver_calls_by_kind": dict(calls),
                   "chunks_moved": 0, "modelled_driver_ns": 0} for _ in range(20)]
        passes[3]["driver_calls_by_kind"]["map"] = 2
        for at, kind in changes.items():
            passes[int(at[1:])]["driver_calls_by_kind"][kind] = 3
        replayed = {"trace": "t", "peak_live_bytes": 8, "passes": passes, "recorded_us": 5}
        return steady.row_of(replayed, "trace", {"peak_live_bytes": 8, "ratio": 1.0, "how": "size",
                                                 "tries": 1})

    def test_calls(self):
        self.assertEqual(self.row()["settled_at"], 4)
        self.assertEqual(self.row()["mapping_calls_last_10"], 0)
        self.assertEqual(self.row(p9="map")["mapping_calls_last_10"], 0)
        for kind in steady.MAPPING:
            self.assertEqual(self.row(p10=kind)["mapping_calls_last_10"], 3)
        self.assertEqual(self.row(p19="wait")["order_calls_last_10"], 3)
        self.assertEqual(self.row(p19="event")["mapping_calls_last_10"], 0)

    def test_misses(self):
        self.assertEqual(settling.misses(self.row()), "")
        self.assertTrue(settling.misses(self.row(p19="create"))
                        .endswith("3 mapping calls in the last ten passes"))
        self.assertTrue(settling.misses({**self.row(p19="create"), "modelled_ms_last_10": "30",
                                         "recorded_ms": "600"})
                        .endswith("passes: 3.0 ms in the driver for each (modelled), 0.50 % of its "
                                  "time"))
        self.assertIn("holds 1.030", settling.misses({**self.row(), "pass_20": "1.0300"}))
        self.assertEqual(settling.misses({**self.row(), "pass_20": "1.0300",
                                          "bound_ratio": "1.0250"}), "")
        self.assertIn("limit is 1.300", settling.misses({**self.row(), "kind": "pattern",
                                                         "pass_20": "1.3100"}))

    def test_another_trace(self):
        with self.assertRaisesRegex(RuntimeError, "another trace"):
            steady.row_of({"trace": "t", "peak_live_bytes": 8, "passes": []}, "trace",
                          {"peak_live_bytes": 9})


if __name__ == "__main__":
    unittest.main()
