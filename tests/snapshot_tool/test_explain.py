#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenure explain`: an address in a block, behind one, in one that was freed, and beside all.
"""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from command import BAD_INPUT, CommandTest  # noqa: E402

EXAMPLE = pathlib.Path(__file__).resolve().parent.parent / "snapshot/example.json"


class Explain(CommandTest):
    def setUp(self):
        super().setUp()
        self.example = json.loads(EXAMPLE.read_text())

    def rows(self, state):
        number = self.example["states"].index(state)
        return [row for row in self.example["blocks"]["rows"] if row[3] == number]

    def explain(self, address, path=EXAMPLE):
        text = self.run_tenure("explain", hex(address), path).stdout
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 130)
        return text, json.loads(self.run_tenure("explain", "--json", hex(address), path).stdout)

    def test_inside(self):
        base, _, requested, *_ = self.rows("live")[0]
        text, told = self.explain(base + 7)
        self.assertIn(f"{base + 7:#x} is 7 bytes into block {base:#x} of {requested} bytes, which "
                      "is live\n", text)
        self.assertIn("allocated at\n    forward model.c:12 < main model.c:80\n", text)
        self.assertEqual((told["block"]["state"], told["block"]["offset"]), ("live", 7))
        self.assertNotIn("below", told)

    def test_behind_the_end(self):
        base, _, requested, *_ = self.rows("live")[0]
        text, told = self.explain(base + requested)
        self.assertIn("0 bytes behind the end of block", text)
        self.assertIn("in its rounding", text)
        self.assertEqual(told["block"]["offset"], requested)

    def test_waiting(self):
        base = self.rows("retired")[0][0]
        text, told = self.explain(base + 1)
        self.assertIn("1 byte into block", text)
        self.assertIn("freed, and waits for work that may use it", text)
        self.assertEqual(told["block"]["state"], "retired")

    def test_beside(self):
        base, _, requested, *_ = self.rows("live")[-1]
        text, told = self.explain(base + requested + 9)
        self.assertIn("has no memory of Tenure's", text)
        self.assertIn(f"is 9 bytes behind the end of block {base:#x}", text)
        self.assertNotIn("allocated once", text)
        self.assertEqual(told["below"]["distance"], 9)
        self.assertTrue(told["below"]["live"])

    def test_nowhere(self):
        text, told = self.explain(0x1000)
        self.assertEqual(text, "0x1000 has no memory of Tenure's, and had none that the snapshot "
                               "knows of\n")
        self.assertEqual(set(told), {"address", "past", "overwritten"})

    def test_freed(self):
        """Two blocks were at one address, one after the other; both are gone."""
        base = self.rows("free")[0][0]
        kinds, columns = self.example["kinds"], self.example["history"]["columns"]
        history = self.example["history"]["rows"]
        sample = dict(zip(columns, history[-1]))
        told = self.example["time"]["taken_ns"]
        for kind, before, requested, stack in [("alloc", 900, 3000, 1), ("free", 800, 3000, 2),
                                               ("alloc", 700, 2000, 2), ("free", 600, 2000, 1)]:
            row = dict(sample, kind=kinds.index(kind), address=base, bytes=4096,
                       requested_bytes=requested, time_ns=told - before * 1000, stack=stack)
            history.append([row[column] for column in columns])
        path = self.folder / "freed.json"
        path.write_text(json.dumps(self.example))
        text, answer = self.explain(base + 100, path)
        self.assertIn(f"was 100 bytes into block {base:#x} of 2000 bytes, which was freed 0.600 ms "
                      "before the snapshot", text)
        self.assertRegex(text, r"allocated at\n    backward.*\n  freed at\n    forward")
        self.assertEqual(answer["freed"]["bytes"], 2000)
        self.assertEqual(answer["freed"]["ns_before"], 600000)
        self.assertEqual([one["kind"] for one in answer["past"]][:4],
                         ["free", "alloc", "free", "alloc"])

    def test_forms_of_addresses(self):
        base = self.rows("live")[0][0]
        digits = f"{base:x}"
        for text in ["0x" + digits, "0X" + digits.upper(), f"0x{digits[:-8]}_{digits[-8:]}"]:
            self.assertIn("is live", self.run_tenure("explain", text, EXAMPLE).stdout)

    def test_bad_input(self):
        for arguments, words in [
            ([], "argument is missing"),
            (["0x10"], "argument is missing"),
            (["", EXAMPLE], '"" is not an address'),
            (["7f00", EXAMPLE], '"7f00" is not an address: write it as 0x'),
            (["0x", EXAMPLE], "not an address"),
            (["0x0", EXAMPLE], "not an address"),
            (["0xfg", EXAMPLE], "not an address"),
            (["0x" + "f" * 17, EXAMPLE], "not an address"),
            (["0x" + "1" * 400, EXAMPLE], "not an address"),
            (["-0x1", EXAMPLE], "unknown option"),
            (["--top", "0", "0x10", EXAMPLE], "--top must be"),
            (["0x10", "/nonexistent"], "No such file"),
            (["0x10", __file__], ""),
        ]:
            with self.subTest(arguments=arguments):
                result = self.run_tenure("explain", *arguments, code=BAD_INPUT)
                self.assertIn(words, result.stderr)
                self.assertIn("explain", result.stderr)
                self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    unittest.main()
