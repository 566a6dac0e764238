#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/coverage counts what gcovr reports, names functions, and applies its list as it says.

The last test reads the list that is kept: each entry must name a function and code that are there.
Counting a line that gcovr leaves out, applying an entry to another function, and an entry that
counts for more branches than were untaken each made a test fail.
"""
import importlib.machinery
import importlib.util
import pathlib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load():
    loader = importlib.machinery.SourceFileLoader("coverage_tool", str(ROOT / "tools/coverage"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


tool = load()

SOURCE = """\
/* A comment with a brace,
{
and a call(of something). */
#define MACRO(x) x

static int is_odd(int number)
{
    return number % 2 == 1 ? 1 : 0;
}

__attribute__((noinline)) static void
long_signature(int first,
               int second)
{
    if (first > 0 && second > 0)
        is_odd(first);
}

static const int table[] = {1, 2};
"""


def line(number, *branches, count=1, **more):
    return {"line_number": number, "count": count, **more,
            "branches": [{"count": taken, "fallthrough": False, "throw": False}
                         for taken in branches]}


DATA = {"files": [{"file": "alloc/a.c", "lines": [
    line(6), line(8, 3, 0), line(15, 1, 0, 0, 0), line(16, count=0),
    line(17, 0, 0, **{"gcovr/noncode": True}), line(18, 0, **{"gcovr/excluded": True})]}]}
LIST = "file,function,branches,code,reason\n"


def source_of(name):
    return tool.Source(SOURCE) if name == "alloc/a.c" else None


def row(function, branches, code="", reason="nothing can make it so"):
    return f"alloc/a.c,{function},{branches},{code},{reason}\n"


class Counting(unittest.TestCase):
    def test_functions(self):
        source = tool.Source(SOURCE)
        names = {number: source.function(number) for number in (2, 6, 8, 9, 10, 12, 15, 17, 19)}
        self.assertEqual(names, {2: "", 6: "is_odd", 8: "is_odd", 9: "is_odd", 10: "",
                                 12: "long_signature", 15: "long_signature", 17: "long_signature",
                                 19: ""})
        self.assertTrue(source.has("is_odd", "% 2 == 1"))
        self.assertFalse(source.has("long_signature", "% 2 == 1"))

    def test_sums(self):
        files, untaken = tool.counted_read(DATA, source_of)
        self.assertEqual(files, {"alloc/a.c": [4, 3, 6, 2]})
        self.assertEqual([(one.function, one.line, one.missing) for one in untaken],
                         [("is_odd", 8, 1), ("long_signature", 15, 3)])
        self.assertEqual(untaken[0].code, "return number % 2 == 1 ? 1 : 0;")

    def judged(self, rows):
        files, untaken = tool.counted_read(DATA, source_of)
        return tool.judge(files, untaken, tool.accepted_read(LIST + rows, source_of))

    def test_listed_branches_are_counted_out(self):
        sums, rest, taken = self.judged(row("long_signature", 2, "first > 0"))
        self.assertEqual(sums["branches_accepted"], 2)
        self.assertAlmostEqual(sums["branches_percent"], 100 * 2 / 6)
        self.assertAlmostEqual(sums["branches_percent_without_accepted"], 100 * 2 / 4)
        self.assertEqual([(one.line, one.missing) for one in rest], [(8, 1), (15, 1)])
        self.assertEqual(taken, [])

    def test_a_listed_branch_that_is_taken_is_reported(self):
        sums, rest, taken = self.judged(row("is_odd", 2))
        self.assertEqual(sums["branches_accepted"], 1) # and not two
        self.assertEqual([(one.function, count) for one, count in taken], [("is_odd", 1)])
        self.assertEqual([one.line for one in rest], [15])

    def test_entries_do_not_share_branches(self):
        sums, _, taken = self.judged(row("long_signature", 2) + row("long_signature", 2, "second"))
        self.assertEqual(sums["branches_accepted"], 3)
        self.assertEqual([count for _, count in taken], [1])


class TheList(unittest.TestCase):
    def check_refused(self, text, why):
        with self.assertRaisesRegex(tool.Problem, why):
            tool.accepted_read(text, source_of)

    def test_what_is_wrong_is_named(self):
        self.check_refused("file,line\n", "the first line must be file,function")
        self.check_refused(LIST + "alloc/a.c,is_odd,1\n", "csv:2: must have 5 fields")
        self.check_refused(LIST + "alloc/b.c,f,1,,for a good reason\n", "no file alloc/b.c")
        self.check_refused(LIST + row("is_even", 1), r"has no is_even\(\)")
        self.check_refused(LIST + row("is_odd", 1, "second > 0"), '"second > 0"')
        self.check_refused(LIST + row("is_odd", "x"), 'a number, not "x"')
        self.check_refused(LIST + row("is_odd", 0), 'a number, not "0"')
        self.check_refused(LIST + row("is_odd", 1, reason="tedious"), "no reason")

    def test_the_one_that_is_kept(self):
        text = (ROOT / tool.ACCEPTED).read_text()
        tool.accepted_read(text, tool.source_reader(ROOT))


if __name__ == "__main__":
    unittest.main()
