#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What programs that repeat themselves come to hold, on the simulated device, by `tenure replay`:
small cases of what steady.py shows of whole traces. Broken on purpose, each was seen to fail:

    test_order      without world_order in alloc/memory/arena/alias.c
    test_side_by_side   with tnri_trade_pays always 1
    test_traded_before  with tnri_world_trades without `is_apart`
    test_no_budget  with price_times always 1

    test_repeated.py TENURE
"""
import gzip
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import patterns

TENURE = None
MIB = patterns.MIB
MAPPING = ("create", "map", "access", "unmap", "release")


def replay(text, *, loops=1, conf="", schedule="eager"):
    """The JSON object of a trace's replay."""
    command = [TENURE, "replay", "--driver", "sim", "--check", "none", "--json", "--paced",
               "--loops", str(loops), *(["--conf", conf] if conf else []), "-"]
    run = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True, check=False,
                         env={**os.environ, "TENURE_SIM_SCHEDULE": schedule,
                              "TENURE_SIM_MEMORY": "64G"})
    if run.returncode != 0:
        raise AssertionError(f"code {run.returncode}: {run.stderr}")
    return json.loads(run.stdout)


def mapped(passes):
    return sum(one["driver_calls_by_kind"][kind] for one in passes for kind in MAPPING)


def made(name, fill, times=1):
    """The text of a pass that `fill` writes, in so many times its time."""
    run = patterns.Pass(name)
    fill(run)
    lines = (line.rsplit(",", 1) for line in run.lines)
    return "".join(f"{rest},{int(time) * times}\n" for rest, time in lines)


class Repeated(unittest.TestCase):
    def test_order(self):
        """A pass whose blocks have many places that fit equally well takes the same ones again."""
        def fill(run):
            blocks = run.several([MIB + 512] * 400)
            run.free(*(block for i, block in enumerate(blocks) if i % 4))
            run.free(*run.several([28 * MIB] * 10), *blocks[::4])
        one = replay(made("order", fill), loops=12)
        self.assertEqual(mapped(one["passes"][6:]), 0)
        self.assertLess(one["reserved_over_live"], 1.6)

    def test_side_by_side(self):
        """Two streams that need their most at once: in the end each has its own, and neither waits
        for the other."""
        for schedule in ("eager", "lazy"):
            with self.subTest(schedule=schedule):
                one = replay(patterns.text("gradient_buckets"), loops=12, schedule=schedule)
                last = one["passes"][6:]
                self.assertEqual(sum(each["driver_calls_by_kind"]["order"] for each in last), 0)
                self.assertLess(mapped(last), 200)
                self.assertLess(one["reserved_over_live"], 1.06)

    def test_traded_before(self):
        """Two stages of a pipeline that took memory of each other until the first pass was over:
        what is free goes home again, so that later passes begin alike, and few chunks move."""
        path = pathlib.Path(__file__).parents[1] / "traces" / "pipeline_train.csv.gz"
        one = replay(gzip.decompress(path.read_bytes()).decode(), loops=14)
        self.assertLess(mapped(one["passes"][9:]), 3000)
        self.assertLess(one["reserved_over_live"], 1.02)

    def test_no_budget(self):
        """Streams that take turns lend on when the budget is used up, since the pool would hold far
        more than it needs. Where nothing may be moved at all, each has its own."""
        def fill(run):
            for turn in range(12):
                size = (700 + 100 * (turn % 6)) * patterns.KIB
                run.free(*run.fill(size, 200 * MIB, turn % 6))
        one = replay(made("no_budget", fill), loops=6, conf="move_burst_ms:10,move_percent:0")
        self.assertLess(one["reserved_over_live"], 2)
        one = replay(made("no_budget", fill), loops=6, conf="move_burst_ms:0,move_percent:0")
        self.assertGreater(one["reserved_over_live"], 5)

    def test_lives_on(self):
        """A program that never comes back to nothing: weights stay, gradients go when the next step
        begins, batches differ in turn. After some turns nothing is mapped any more."""
        def fill(run, turns):
            chance = random.Random(7)
            weights = [chance.randrange(300, 9000) * patterns.KIB for _ in range(40)]
            batches = [[chance.randrange(100, 300) * most * patterns.KIB for _ in range(40)]
                       for most in (20, 70, 45)]
            gradients, model = [], run.several(3 * weights)  # the optimizer's, too
            for _ in range(turns):
                for sizes in batches:
                    run.free(*gradients)
                    passed = run.several(sizes)
                    run.free(*passed[::2])
                    passed = passed[1::2] + run.several([2 * size for size in sizes[:18]])
                    gradients = []
                    while passed:
                        gradients.append(run.a(weights[len(gradients)]))
                        run.free(passed.pop(0))
            run.free(*gradients, *model)
        few, many = (replay(made("lives_on", lambda run, n=turns: fill(run, n)),
                            conf="") for turns in (14, 24))
        self.assertGreater(few["chunks_moved"], 50)
        self.assertEqual(mapped([many]), mapped([few]))
        self.assertLess(many["reserved_over_live"], 1.035)


def main():
    global TENURE  # pylint: disable=global-statement
    TENURE = str(pathlib.Path(sys.argv.pop(1)).resolve())
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        unittest.main()


if __name__ == "__main__":
    main()
