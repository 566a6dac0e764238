#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The benchmarks on the simulated device: that they run, do the same work each time, and say
that their numbers are simulated."""
import csv
import unittest

from command import BAD_INPUT, CommandTest

QUICK = ["bench", "--driver", "sim", "--quick"]


class Bench(CommandTest):
    def test_pairs(self):
        rows = self.json_lines(self.run_tenure(*QUICK, "--only", "pair", "--json"))
        self.assertEqual([one["bytes"] for one in rows],
                         [512, 4096, 65536, 1048576, 16777216])
        for one in rows:
            self.assertEqual((one["bench"], one["allocator"]), ("pair", "tenure"))
            self.assertTrue(one["simulated"])
            self.assertGreater(one["median_ns"], 0)
            self.assertLessEqual(one["min_ns"], one["median_ns"])
            self.assertIsNone(one["error"])

    def test_mix_repeats_its_work(self):
        runs = []
        for _ in range(2):
            rows = self.json_lines(self.run_tenure(*QUICK, "--only", "mix", "--threads", "1,2",
                                                   "--json"))
            self.assertEqual([one["threads"] for one in rows], [1, 2])
            for one in rows:
                self.assertGreater(one["mops"], 0)
                self.assertGreater(one["checksum"], 0)
            runs.append([one["checksum"] for one in rows])
        self.assertEqual(runs[0], runs[1])
        self.assertNotEqual(runs[0][0], runs[0][1])

    def test_tables_say_that_it_is_simulated(self):
        text = self.run_tenure(*QUICK, "--threads", "1").stdout
        self.assertIn("simulated device", text.splitlines()[0])
        self.assertIn("SIMULATED", text)
        self.assertNotIn("driver pool", text)
        self.assertIn("live/thread", text)

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

    def test_csv(self):
        path = self.folder / "out.csv"
        self.run_tenure(*QUICK, "--only", "pair", "--csv", path)
        header, *lines = path.read_text().splitlines()
        for word in ["# command=", "commit=", "gpu=", "driver_cuda=", "cpus=", "simulated"]:
            self.assertIn(word, header)
        rows = list(csv.DictReader(lines))
        self.assertEqual(len(rows), 5)
        for row in rows:
            self.assertGreater(float(row["median_ns"]), 0)
            self.assertNotIn(None, row)

    def test_csv_that_cannot_be_written(self):
        result = self.run_tenure(*QUICK, "--only", "pair", "--csv", "/nonexistent/out.csv",
                                 code=BAD_INPUT)
        self.assertIn("/nonexistent/out.csv cannot be written", result.stderr)

    def test_torch_needs_a_gpu(self):
        result = self.run_tenure(*QUICK, "--torch", "plugin.so", code=BAD_INPUT)
        self.assertIn("--torch needs a GPU", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
