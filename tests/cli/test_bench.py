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

    def test_pairs_are_sampled(self):
        """The quantiles are of single operations, each of the sampled round once."""
        for one in self.json_lines(self.run_tenure(*QUICK, "--only", "pair", "--json")):
            self.assertEqual(one["samples"], one["ops_per_thread"])
            self.assertLessEqual(one["op_p50_ns"], one["op_p99_ns"])
            self.assertLessEqual(one["op_p99_ns"], one["op_p999_ns"])
            self.assertLessEqual(one["op_p999_ns"], one["op_worst_ns"])
            self.assertGreater(one["op_worst_ns"], 0)

    def test_threads(self):
        rows = self.json_lines(self.run_tenure(*QUICK, "--only", "threads", "--threads", "1,3",
                                               "--json"))
        self.assertEqual([(one["bench"], one["threads"]) for one in rows],
                         [(bench, threads) for bench in ("pair_own", "pair_shared", "pair_new")
                          for threads in (1, 3)])
        for one in rows:
            # A round ends for all threads with the first that has done its operations.
            # Where the machine is slow, a round has fewer of them.
            most = 1024 if one["bench"] == "pair_new" else 4096
            ops, rest = divmod(one["samples"], one["threads"])
            self.assertEqual(rest, 0)
            self.assertLessEqual(ops, most)
            self.assertLessEqual(one["ops_per_thread"], ops)
            self.assertGreaterEqual(one["ops_per_thread"] * one["threads"], ops)

    def test_mix_repeats_its_work(self):
        runs = []
        for _ in range(2):
            rows = self.json_lines(self.run_tenure(*QUICK, "--only", "mix", "--threads", "1,2",
                                                   "--json"))
            self.assertEqual([(one["bench"], one["threads"], one["live_per_thread"])
                              for one in rows],
                             [("mix", 1, 200), ("mix", 2, 200), ("mix_shared", 1, 200),
                              ("mix_shared", 2, 100)])
            for one in rows:
                self.assertGreater(one["mops"], 0)
                self.assertGreater(one["checksum"], 0)
                # What Tenure counted during the rounds, and the memory at their end.
                self.assertGreaterEqual(one["driver_calls"], one["served_grown"])
                for kind in ("moved", "lent", "shared"):
                    self.assertGreaterEqual(one[f"served_{kind}"], 0)
                self.assertTrue(1 < one["reserved_over_live"] < 2, one)
            runs.append([one["checksum"] for one in rows])
        self.assertEqual(runs[0], runs[1])
        self.assertNotEqual(runs[0][0], runs[0][1])

    def test_live_blocks_of_the_mix(self):
        rows = self.json_lines(self.run_tenure(*QUICK, "--only", "mix", "--threads", "2", "--live",
                                               "50", "--json"))
        self.assertEqual([(one["bench"], one["live_per_thread"]) for one in rows],
                         [("mix", 50), ("mix_shared", 25)])

    def test_beside(self):
        """Without the option it is the driver's own calls here, and its pool only if asked for."""
        for beside, wanted in ((None, {"tenure", "driver_malloc"}), ("none", {"tenure"}),
                               ("driver", {"tenure", "driver_malloc", "driver_pool"})):
            option = ["--beside", beside] if beside else []
            rows = self.json_lines(self.run_tenure(*QUICK, *option, "--only", "cold,growth",
                                                   "--json"))
            self.assertEqual({one["allocator"] for one in rows}, wanted)
        for beside, text in (("none,driver", '"none" is neither'), ("pool", '"pool" is neither'),
                             ("torch", "needs --torch PLUGIN.so")):
            result = self.run_tenure(*QUICK, "--beside", beside, code=BAD_INPUT)
            self.assertIn(text, result.stderr)

    def test_what_is_slow_does_less(self):
        """The simulated pool maps and unmaps each block: its rounds are shorter than Tenure's, and
        yet both did the same work as far as both went."""
        rows = self.json_lines(self.run_tenure(
            "bench", "--driver", "sim", "--beside", "driver", "--only", "mix", "--threads", "1",
            "--rounds", "2", "--live", "100", "--json"))
        self.assertEqual([(one["bench"], one["allocator"]) for one in rows],
                         [(bench, name) for bench in ("mix", "mix_shared")
                          for name in ("tenure", "driver_pool")])
        for own, pool in (rows[:2], rows[2:]):
            self.assertEqual(own["checksum"], pool["checksum"])
            self.assertLess(pool["ops_per_thread"], own["ops_per_thread"])
            for one in (own, pool):
                self.assertEqual(one["rounds"], 2)
                self.assertEqual(one["samples"], one["ops_per_thread"])
            self.assertIn("served_moved", own)
            self.assertNotIn("served_moved", pool)

    def test_threads_of_two_allocators(self):
        """Rounds end at different operations; what is compared is the same."""
        rows = self.json_lines(self.run_tenure(*QUICK, "--beside", "driver", "--only", "threads",
                                               "--threads", "2", "--json"))
        for own, pool in zip(rows[::2], rows[1::2]):
            self.assertEqual((own["bench"], own["checksum"]), (pool["bench"], pool["checksum"]))

    def test_one_that_fails(self):
        """When the pool runs out of memory Tenure's numbers are whole, and its own are void."""
        rows = self.json_lines(self.run_tenure(
            *QUICK, "--beside", "driver", "--only", "mix", "--threads", "2", "--json",
            environment={"TENURE_SIM_FAIL": "cuMemAllocAsync:1000+"}))
        for own, pool in (rows[:2], rows[2:]):
            self.assertEqual((own["rounds"], own["error"]), (3, None))
            self.assertGreaterEqual(own["samples"], 2 * own["ops_per_thread"])
            self.assertIn("OUT_OF_MEMORY", pool["error"])
            self.assertNotIn("median_ns", pool)

    def test_what_does_not_fit_side_by_side(self):
        """170 blocks of 4 MiB in 1 GiB: one allocator after the other."""
        rows = self.json_lines(self.run_tenure(
            *QUICK, "--beside", "driver", "--only", "mix", "--threads", "1", "--live", "170",
            "--json", environment={"TENURE_SIM_MEMORY": "1G"}))
        self.assertEqual([(one["allocator"], one["live_per_thread"], one["rounds"], one["error"])
                          for one in rows],
                         [("tenure", 170, 3, None), ("driver_pool", 170, 3, None)] * 2)

    def test_live(self):
        rows = self.json_lines(self.run_tenure(*QUICK, "--only", "live", "--json"))
        self.assertEqual([(one["bench"], one["live_per_thread"]) for one in rows],
                         [(bench, live) for bench in ("live", "live_large")
                          for live in (50, 100, 500, 5000)])

    def test_cold(self):
        rows = self.json_lines(self.run_tenure(*QUICK, "--only", "cold", "--json"))
        self.assertEqual([(one["bench"], one["allocator"]) for one in rows],
                         [(bench, name) for bench in ("cold_start", "cold_first", "cold_second")
                          for name in ("tenure", "driver_malloc")])
        times = {(one["bench"], one["allocator"]): one["median_ns"] for one in rows}
        for one in rows:
            self.assertIsNone(one["error"])
        self.assertGreater(times["cold_start", "tenure"], times["cold_second", "tenure"])
        # How the command starts a process of the section is no option of a user's.
        self.assertNotIn("child", self.run_tenure("bench", "--help").stdout)

    def test_growth(self):
        rows = self.json_lines(self.run_tenure(*QUICK, "--only", "growth", "--json"))
        own = {(one["bench"], one["bytes"]): one for one in rows if one["allocator"] == "tenure"}
        self.assertEqual(list(own), [("growth", 1 << 30), ("growth", 4 << 30), ("growth", 64 << 30),
                                     ("growth_steps", 64 << 20)])
        for one in own.values():
            self.assertIsNone(one["error"])
            self.assertGreater(one["driver_calls"], 0)

    def test_replay(self):
        path = self.folder / "two.csv"
        path.write_text("a,1,4096,0,0\na,2,512,7,1\nF,1,4096,0,2\nf,1,4096,0,3\n"
                        "a,3,1048576,7,4\n")
        rows = self.json_lines(self.run_tenure(*QUICK, "--only", "replay", "--json", path))
        self.assertEqual([one["bench"] for one in rows], ["replay:two", "again:two"])
        for one in rows:
            self.assertEqual((one["ops_per_thread"], one["samples"], one["rounds"]), (4, 12, 3))
        result = self.run_tenure(*QUICK, "--only", "replay")
        self.assertIn("no TRACE was given", result.stderr)
        result = self.run_tenure(*QUICK, "--only", "replay", self.folder / "none", code=BAD_INPUT)
        self.assertIn("none", result.stderr)

    def test_list_and_only(self):
        lines = self.run_tenure("bench", "--list").stdout.splitlines()
        listed = [line.split()[0] for line in lines]
        self.assertEqual(listed, ["pair", "cold", "growth", "replay", "threads", "mix", "live"])
        result = self.run_tenure(*QUICK, "--only", "pair,pears", code=BAD_INPUT)
        self.assertIn('no section "pears"', result.stderr)
        result = self.run_tenure(*QUICK, "--only", "pair,growth")
        self.assertRegex(result.stderr, r"section pair +\d+\.\d s\nsection growth")

    def test_times_are_predicted(self):
        result = self.run_tenure("bench", "--driver", "sim", "--only", "threads,growth",
                                 "--threads", "2", "--rounds", "1")
        self.assertRegex(result.stderr, r"predicted growth +\d+ s\npredicted threads +\d+ s\n"
                                        r"predicted in all +\d+ s\nsection growth")


    def test_budget(self):
        """No section begins after the time; the CSV has those before."""
        path = self.folder / "out.csv"
        result = self.run_tenure("bench", "--driver", "sim", "--only", "live,pair", "--budget-ms",
                                 "1", "--csv", path)
        self.assertIn("live left out: the 1 ms of --budget-ms are over", result.stderr)
        # On a slow machine the time is over before the first section, and there is no CSV.
        lines = path.read_text().splitlines()[1:] if path.exists() else []
        self.assertLessEqual({row["bench"] for row in csv.DictReader(lines)}, {"pair"})

    def test_tables_say_that_it_is_simulated(self):
        text = self.run_tenure(*QUICK, "--threads", "1").stdout
        self.assertIn("simulated device", text.splitlines()[0])
        self.assertIn("SIMULATED", text)
        self.assertNotIn("driver pool", text)
        self.assertIn("live/thread", text)
        self.assertRegex(text, r"How Tenure served the mixes.*\n.*reserved/live\nmix +1 +200 ")

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
            self.assertNotIn(None, row.values())
            self.assertEqual((row["served_grown"], row["reserved_over_live"]), ("0", ""))

    def test_csv_that_cannot_be_written(self):
        result = self.run_tenure(*QUICK, "--only", "pair", "--csv", "/nonexistent/out.csv",
                                 code=BAD_INPUT)
        self.assertIn("/nonexistent/out.csv cannot be written", result.stderr)

    def test_torch_needs_a_gpu(self):
        result = self.run_tenure(*QUICK, "--torch", "plugin.so", code=BAD_INPUT)
        self.assertIn("--torch needs a GPU", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
