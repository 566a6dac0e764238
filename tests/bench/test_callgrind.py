#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests callgrind.py without valgrind: what it counts in a profile, and when it says that a path
has become too expensive."""
import contextlib
import io
import pathlib
import tempfile
import unittest

import callgrind

# Two operations of a path: the program calls tnr_malloc, which locks (C library), works in a part
# that the compiler split off, and calls the driver, which calls the C library too.
PROFILE = """version: 1
events: Ir Ge
ob=(1) /build/tests/bench_paths
fl=(1) paths.c
fn=(1) path_measured
10 100
cob=(2) /build/lib/libtenure.so.0.1.0
cfi=(2) api.c
cfn=(2) tnr_malloc
calls=2 20
10 5000 7
+1 11
ob=(2)
fl=(2)
fn=(2)
20 40 2
cfn=(3) block_split.part.0
calls=2 30
* 60
cob=(3) /usr/lib/libc.so.6
cfi=(3) lock.c
cfn=(4) pthread_mutex_lock
calls=2 5
21 16 2
cob=(4) /build/lib/tenure/libtenure_simcuda.so
cfn=(5) cuMemMap
calls=1 9
22 4000 3
fn=(3)
30 60
fn=(6) block_split.constprop.1
31 6 1
ob=(4)
fn=(5)
9 3000 3
cob=(3)
cfn=(4)
calls=1 5
9 1000
ob=(3)
fn=(4)
5 1016 2
"""


def count(**changes):
    values = {"name": "pair", "operations": 2, "text": "a pair", "instructions": 100.0,
              "locked": 2.0, "c_library": 8.0, "functions": {"one": 60.0, "C library": 40.0}}
    return callgrind.Count(**{**values, **changes})


class Callgrind(unittest.TestCase):
    def compare(self, kept, counted):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            grown = callgrind.compare(kept, [counted])
        return grown, out.getvalue()

    def test_what_counts(self):
        profile = callgrind.Profile(PROFILE)
        self.assertEqual(profile.total, 40 + 60 + 6 + 16)
        self.assertEqual(profile.c_library, 16)
        self.assertEqual(profile.locked, 2 + 1 + 2)
        self.assertEqual(profile.functions,
                         {"tnr_malloc": 40, "block_split": 66, "C library": 16})

    def test_table_is_read_as_written(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "table.csv"
            callgrind.table_write(path, {"commit": "abc", "compiler": "gcc 12.2.0"}, [count()])
            facts, counts = callgrind.table_read(path)
        self.assertEqual(facts, {"commit": "abc", "compiler": "gcc 12.2.0"})
        self.assertEqual(vars(counts["pair"]), vars(count()))

    def test_cache(self):
        profile = callgrind.Profile("events: Ir Dr Dw I1mr D1mr D1mw\n"
                                    "ob=(1) /lib/libtenure.so\nfn=(1) tnr_free\n1 10 4 3 2 5 6\n"
                                    "+1 10\nob=(2) /lib/libc.so.6\nfn=(2) memcpy\n1 9 9 9 9 9 9\n")
        self.assertEqual(profile.misses, {"tnr_free": 11})

    def test_limit(self):
        kept = {"pair": count()}  # 100 instructions, 2 of them locked: a cost of 138
        self.assertEqual(self.compare(kept, count(instructions=106.1))[0], 0)
        grown, text = self.compare(kept, count(instructions=106.2,
                                               functions={"one": 50.0, "two": 20.0,
                                                          "C library": 40.0}))
        self.assertEqual(grown, 1)
        self.assertIn("two: 0.0 -> 20.0", text)
        self.assertNotIn("one:", text)

    def test_locked_instructions_weigh_more(self):
        kept = {"pair": count()}
        self.assertEqual(self.compare(kept, count(instructions=101.0, locked=3.0))[0], 1)
        self.assertEqual(self.compare(kept, count(instructions=130.0, locked=0.0))[0], 0)

    def alike(self, few, many):
        with contextlib.redirect_stdout(io.StringIO()):
            return callgrind.compare_alike([count(name="announce", instructions=few),
                                            count(name="announce_many", instructions=many)])

    def test_a_path_among_more_costs_as_much(self):
        self.assertEqual(self.alike(100.0, 113.7), 0)  # 138 to 151.7: 1.0993
        self.assertEqual(self.alike(100.0, 113.9), 1)
        self.assertEqual(self.alike(100.0, 20.0), 0)
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(callgrind.compare_alike([count(name="announce_many")]), 0)

    def settled(self, *costs, kept=100.0):
        """What a path is settled at that costs so much in one layout after the other, and in how
        many of them it was counted."""
        said = []

        def again(names, layout):
            self.assertEqual((names, layout), (["pair"], len(said) + 1))
            said.append(layout)
            return [count(instructions=costs[layout], locked=0.0)]

        with contextlib.redirect_stdout(io.StringIO()):
            counts = callgrind.settle({"pair": count(instructions=kept, locked=0.0)},
                                      [count(instructions=costs[0], locked=0.0)], again)
        return counts[0].cost, 1 + len(said)

    def test_layouts(self):
        """A path is judged by the least; who does not grow is counted once."""
        self.assertEqual(self.settled(104.0), (104.0, 1))
        self.assertEqual(self.settled(120.0, 110.0, 103.0), (103.0, 3))
        self.assertEqual(self.settled(*[120.0, 110.0, 115.0, 130.0, 120.0, 111.0]), (110.0, 6))

    def test_layouts_of_paths_that_cost_the_same(self):
        """Both are counted again."""
        few, many = count(name="announce"), count(name="announce_many", instructions=200.0)

        def again(names, layout):
            self.assertEqual((names, layout), (["announce", "announce_many"], 1))
            return [few, count(name="announce_many", instructions=101.0)]

        with contextlib.redirect_stdout(io.StringIO()):
            counts = callgrind.settle({}, [few, many], again)
        self.assertEqual([one.instructions for one in counts], [100.0, 101.0])

    def test_where_it_runs(self):
        """What the program is given says nothing of the folder, nor of the environment."""
        with tempfile.TemporaryDirectory() as folder:
            seen = set()
            for name in ["a", "a longer name"]:
                library = pathlib.Path(folder) / name / "lib" / "libtenure_preload.so"
                library.parent.mkdir(parents=True)
                library.touch()
                program = library.parents[1] / "tests" / "bench_paths"
                build, called, variables = callgrind.where_it_runs(program, "3")
                self.assertEqual(build, library.parents[1].resolve())
                seen.add((called, tuple(sorted(variables.items()))))
            self.assertEqual(len(seen), 1)
            self.assertNotIn("HOME", variables)

    def test_path_without_a_kept_number(self):
        self.assertEqual(self.compare({}, count())[0], 1)

    def test_other_compiler_is_not_compared(self):
        facts = {"compiler": "gcc 12.2.0", "build": "Release jemalloc", "glibc": "2.36"}
        callgrind.comparable(facts, facts)
        for key in facts:
            with self.assertRaises(callgrind.Problem) as caught:
                callgrind.comparable({**facts, key: "another"}, facts)
            self.assertEqual(caught.exception.code, 77)
            self.assertIn(key, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
