#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The benchmarks that `tenure bench` does not have, on the simulated device: TENURE is the program
bench_sections, which is called like the command. tests/cli/test_bench.py has the others.

Without .groups of bench_sections.c test_the_header_names_the_program fails, without .table
test_uses."""
import csv
import unittest

from command import BAD_INPUT, CommandTest

QUICK = ["bench", "--driver", "sim", "--quick"]


class Sections(CommandTest):
    def test_list_and_only(self):
        """Its own sections come first, and then all of the command's."""
        lines = self.run_tenure("bench", "--list").stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines],
                         ["uses", "moves", "handover", "storm", "pair", "cold", "growth", "replay",
                          "threads", "mix", "live"])
        result = self.run_tenure(*QUICK, "--only", "uses,pears", code=BAD_INPUT)
        self.assertIn('no section "pears"', result.stderr)
        for arguments in [], ["replay"]:
            self.assertIn("usage", self.run_tenure(*arguments, code=BAD_INPUT).stderr)

    def test_the_header_names_the_program(self):
        path = self.folder / "out.csv"
        result = self.run_tenure(*QUICK, "--only", "pair,cold,moves", "--csv", path)
        self.assertRegex(result.stderr, r"section moves +\d+\.\d s\nsection pair")
        header, *lines = path.read_text().splitlines()
        self.assertIn('# command="bench_sections bench --driver sim --quick --only', header)
        rows = list(csv.DictReader(lines))
        self.assertEqual({row["bench"] for row in rows},
                         {"move", "pair", "cold_start", "cold_first", "cold_second"})
        self.assertTrue(all(float(row["median_ns"]) > 0 for row in rows))
        self.assertIn("A block that only fits when chunks of 2 MiB move", result.stdout)

    def test_beside(self):
        """The bare events are the driver's own calls."""
        for option in [], ["--beside", "none"]:
            rows = self.json_lines(self.run_tenure(*QUICK, *option, "--only", "uses,storm",
                                                   "--threads", "1", "--json"))
            self.assertEqual({one["allocator"] for one in rows},
                             {"tenure"} if option else {"tenure", "driver_event"})

    def test_handover_and_storm(self):
        rows = self.json_lines(self.run_tenure(*QUICK, "--only", "handover,storm", "--threads",
                                               "1,2,4", "--json"))
        self.assertEqual([(one["bench"], one["allocator"], one["threads"]) for one in rows],
                         [("handover", "tenure", 2), ("handover", "tenure", 4)] +
                         [("storm", name, threads) for threads in (1, 2, 4)
                          for name in ("tenure", "driver_event")])
        for one in rows:
            self.assertIsNone(one["error"])

    def test_moves(self):
        rows = self.json_lines(self.run_tenure(*QUICK, "--only", "moves", "--json"))
        self.assertEqual([(one["allocator"], one["bytes"]) for one in rows],
                         [(name, chunks << 21) for chunks in (2, 16, 256)
                          for name in ("tenure", "driver_malloc")])
        for one in rows:
            self.assertIsNone(one["error"])
        self.assertGreater(rows[4]["driver_calls"], 256)

    def test_uses(self):
        rows = self.json_lines(self.run_tenure(*QUICK, "--only", "uses", "--json"))
        self.assertEqual([(one["bench"], one["allocator"]) for one in rows],
                         [("record_use", "tenure"), ("record_use", "driver_event"),
                          ("record_stream_free", "tenure"), ("alloc_use_free", "tenure"),
                          ("alloc_stream_free", "tenure"), ("pair_waiting_0", "tenure"),
                          ("pair_waiting_1024", "tenure")])
        for one in rows:
            self.assertGreater(one["median_ns"], 0)
            self.assertIsNone(one["error"])
        text = self.run_tenure(*QUICK, "--only", "uses").stdout
        self.assertIn("record_use beside a bare event (limit 1.30)", text)
        self.assertIn("a pair with 1,024 blocks waiting beside none", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
