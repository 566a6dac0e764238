#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replaying traces on the simulated device: numbers, options, running out of memory.

Seen to fail: with the project's figures found by the file's name, and with the comment on what
PyTorch reserved left unread (figures); with names of any length (tables). Reports: with the
snapshot taken at the end, without the title, with figures in units of their own, with names written
into pages as they are, and with PyTorch's figures where the two cannot be compared.
"""
import gzip
import html
import json
import random
import re
import shutil
import unittest
from pathlib import Path

from command import BAD_INPUT, CommandTest, IS_SANITIZED, NO_DEVICE, NO_MEMORY, TENURE, TRACES

KEYS = {"trace", "driver", "ops", "peak_live_bytes", "peak_reserved_bytes", "reserved_over_live",
        "driver_calls", "chunks_created", "chunks_moved", "ns_per_op", "pattern_errors",
        "driver_ns", "driver_ns_by_kind", "served", "second_half_driver_allocations"}
MIB = 1 << 20


def random_trace(seed, count, streams=3, largest=8 * MIB):
    """Text of a trace with random sizes, its operations (all blocks freed) and its peak."""
    choose = random.Random(seed)
    lines, live, bytes_live, peak = ["# made by test_replay.py"], {}, 0, 0
    for block in range(count):
        size = choose.choice([1, 511, 512, 513, choose.randrange(1, largest), 2 * MIB])
        stream = choose.randrange(streams)
        lines.append(f"a,{block},{size},{stream},{block}")
        live[block] = (size, stream)
        bytes_live += size
        peak = max(peak, bytes_live)
        while live and choose.random() < 0.5:
            freed = choose.choice(list(live))
            size, stream = live.pop(freed)
            bytes_live -= size
            lines += [f"F,{freed},{size},{stream},{block}", f"f,{freed},{size},{stream},{block}"]
    return "\n".join(lines) + "\n", 2 * count, peak


def holes(step_us):
    """Text of a trace that can only serve its last blocks by moving memory, or by growing."""
    lines = [f"a,{block},{4 * MIB},0,{block * step_us}" for block in range(16)]
    lines += [f"F,{block},{4 * MIB},0,{(16 + block) * step_us}" for block in range(0, 16, 2)]
    lines += [f"a,{block},{8 * MIB},0,{(16 + block) * step_us}" for block in range(16, 20)]
    return "\n".join(lines) + "\n"


class Replay(CommandTest):
    def replay(self, *arguments, **more):
        result = self.run_tenure("replay", "--driver", "sim", "--json", *arguments, **more)
        self.assertIn("simulated device", result.stderr.splitlines()[0])
        return self.json_lines(result)

    def test_standard_input(self):
        """Plain or gzip, with its header; once."""
        text, operations, peak = random_trace(2, 200)
        header = "op,id,bytes,stream,us\n"
        for content in (text, gzip.compress(text.encode()), header + text):
            with open(self.write("piped", content), "rb") as file:
                [one] = self.replay("-", stdin=file)
            self.assertEqual((one["trace"], one["ops"], one["peak_live_bytes"]),
                             ("stdin", operations, peak))
        self.assertEqual(self.replay(self.write("a.csv", header + text))[0]["ops"], operations)
        for content, words in ((header + text + header, f"input:{text.count(chr(10)) + 2}: "),
                               ("", "without any allocation")):
            with open(self.write("piped", content), "rb") as file:
                result = self.run_tenure("replay", "-", code=BAD_INPUT, stdin=file)
            self.assertIn(words, result.stderr)
        result = self.run_tenure("replay", "-", "-", code=BAD_INPUT)
        self.assertIn("can be read once", result.stderr)

    def test_inputs_are_not_written_over(self):
        text = random_trace(3, 50)[0]
        trace = self.write("trace.json", text)
        (self.folder / "link.json").hardlink_to(trace)
        snapshot, copy = self.folder / "made.json", self.folder / "copy.json"
        self.replay("--snapshot", snapshot, trace)
        copy.symlink_to(snapshot)
        before = snapshot.read_bytes()
        for command, inputs in (
                (["replay", "--snapshot", self.folder / "link.json", trace], trace),
                (["bench", "--only", "pair", "--csv", trace, trace], trace),
                (["snapshot", "convert", snapshot, copy], snapshot),
                (["snapshot", "trace", snapshot, snapshot], snapshot),
                (["snapshot", "html", trace, snapshot, "--compare", snapshot], snapshot),
                (["snapshot", "html", snapshot, trace, "--template", trace], trace),
                (["snapshot", "html", snapshot, copy], snapshot)):
            with self.subTest(command=command[:2], inputs=inputs):
                self.assertIn("would be written over",
                              self.run_tenure(*command, code=BAD_INPUT).stderr)
        self.assertEqual((trace.read_text(), snapshot.read_bytes()), (text, before))

    def test_keys_and_numbers(self):
        text, operations, peak = random_trace(1, 500)
        [one] = self.replay(self.write("mine.csv", text))
        self.assertLessEqual(KEYS, set(one))
        self.assertEqual(one["trace"], "mine")
        self.assertEqual(one["driver"], "sim")
        self.assertEqual(one["ops"], operations)
        self.assertEqual(one["peak_live_bytes"], peak)
        self.assertGreaterEqual(one["peak_reserved_bytes"], peak)
        self.assertAlmostEqual(one["reserved_over_live"], one["peak_reserved_bytes"] / peak, 3)
        self.assertEqual(one["pattern_errors"], 0)
        self.assertEqual(sum(one["served"].values()), 500)
        self.assertEqual(one["driver_ns"], sum(one["driver_ns_by_kind"].values()))
        self.assertEqual(one["driver_calls"], sum(one["driver_calls_by_kind"].values()))
        self.assertIsNone(one["error"])

    def test_plain_and_compressed_are_the_same(self):
        text, _, _ = random_trace(2, 200)
        [plain] = self.replay(self.write("one.csv", text))
        [packed] = self.replay(self.write("two.csv.gz", gzip.compress(text.encode())))
        self.assert_same_decisions(plain, packed)

    def test_same_seed_same_decisions(self):
        """In processes of their own, because the device's schedule goes on within one."""
        text, _, _ = random_trace(7, 400, streams=4)
        path = self.write("mine.csv", text)
        for seed in [1, 2, 3]:
            first, second = [self.replay(path, environment={"TENURE_SIM_SEED": seed})[0]
                             for _ in range(2)]
            self.assert_same_decisions(first, second)

    def assert_same_decisions(self, first, second):
        for key in ["ops", "peak_live_bytes", "peak_reserved_bytes", "served", "chunks_created",
                    "chunks_moved", "driver_calls_by_kind"]:
            self.assertEqual(first[key], second[key], key)

    def test_line_ends_of_other_systems(self):
        [one] = self.replay(self.write("dos.csv", "# x\r\na,1,100,0,0\r\nF,1,100,0,1\r\n"))
        self.assertEqual(one["ops"], 2)

    def test_largest_ids_and_streams(self):
        text = f"a,{2**64 - 2},100,{2**64 - 1},{2**64 - 1}\na,0,100,0,0\nF,{2**64 - 2},100,7,0\n"
        [one] = self.replay(self.write("large.csv", text))
        self.assertEqual((one["ops"], one["streams"]), (4, 2))

    def test_id_used_again(self):
        text = "".join(f"a,1,{size},0,0\nF,1,{size},0,0\n" for size in range(1, 50))
        [one] = self.replay(self.write("again.csv", text))
        self.assertEqual((one["ops"], one["peak_live_bytes"]), (98, 49))

    def test_every_extent_of_checking(self):
        text, _, _ = random_trace(3, 150)
        path = self.write("mine.csv", text)
        for extent in ["full", "ends", "none"]:
            with self.subTest(extent=extent):
                [one] = self.replay("--check", extent, path)
                self.assertEqual(one["pattern_errors"], 0)
                # Where the host does not reach the device's memory by its addresses.
                [one] = self.replay("--check", extent, path, environment={"TENURE_SIM_VIEW": "1"})
                self.assertEqual(one["pattern_errors"], 0)

    def test_loops_find_everything_cached(self):
        text, operations, _ = random_trace(4, 300)
        path = self.write("mine.csv", text)
        [once] = self.replay(path)
        [many] = self.replay("--loops", "5", path)
        self.assertEqual(many["ops"], 5 * operations)
        self.assertEqual(sum(many["served"].values()), 1500)
        self.assertGreaterEqual(many["peak_reserved_bytes"], once["peak_reserved_bytes"])

    def test_passes_sum_up(self):
        text, _, _ = random_trace(4, 300)
        [one] = self.replay("--loops", "12", self.write("mine.csv", text))
        passes = one["passes"]
        self.assertEqual(len(passes), 12)
        for kind in ["create", "map", "access", "unmap", "release"]:
            self.assertEqual(sum(each["driver_calls_by_kind"][kind] for each in passes),
                             one["driver_calls_by_kind"][kind], kind)
        for key in ["chunks_created", "chunks_moved"]:
            self.assertEqual(sum(each[key] for each in passes), one[key])
        self.assertEqual(sum(each["lent"] for each in passes), one["served"]["lent"])
        peaks = [each["peak_reserved_bytes"] for each in passes]
        self.assertEqual(peaks, sorted(peaks))
        self.assertEqual(peaks[-1], one["peak_reserved_bytes"])
        self.assertNotIn("passes", self.replay(self.write("mine.csv", text))[0])

    def test_pace_is_what_the_moving_budget_sees(self):
        """All that may be moved is a share of the time that passes: none while it stands still."""
        path = self.write("holes.csv", holes(step_us=1000))
        budget = ["--conf", "move_burst_ms:0,move_percent:100"]
        [still] = self.replay(*budget, path)
        [paced] = self.replay(*budget, "--paced", path)
        self.assertEqual((still["paced"], still["chunks_moved"]), (False, 0))
        self.assertTrue(paced["paced"])
        self.assertGreater(paced["chunks_moved"], 0)
        self.assertLess(paced["peak_reserved_bytes"], still["peak_reserved_bytes"])
        [fast] = self.replay(*budget, "--paced", "--speed", "1000000", path)
        self.assertEqual((fast["speed"], fast["chunks_moved"]), (1000000, 0))

    def test_odd_times_are_said(self):
        lines = "a,1,{0},0,5\na,2,{0},0,4000000005\na,3,{0},0,7\nF,1,{0},0,6\n".format(MIB)
        path = self.write("odd.csv", lines)
        result = self.run_tenure("replay", "--driver", "sim", "--paced", "--loops", "3", path)
        self.assertIn("odd: the time goes back 2 times, first in line 3, at most by 3999999999 us",
                      result.stderr)
        self.assertIn("odd: nothing happens for 4000 s before line 2", result.stderr)
        silent = self.run_tenure("replay", "--driver", "sim", path)
        self.assertEqual(silent.stderr, "")

    def test_no_times_no_pace(self):
        """Said before anything is run, whichever trace it is."""
        good = self.write("good.csv", "a,1,100,0,0\nF,1,100,0,9\n")
        bad = self.write("bad.csv", "a,1,100,0,3\nF,1,100,0,3\n")
        result = self.run_tenure("replay", "--driver", "sim", "--paced", good, bad, code=BAD_INPUT)
        self.assertIn("bad has no times to be paced by: each of its operations is at 3 us",
                      result.stderr)
        self.assertEqual(result.stdout, "")
        ages = self.write("ages.csv", f"a,1,100,0,0\nF,1,100,0,{2**63}\n")
        result = self.run_tenure("replay", "--driver", "sim", "--paced", ages, code=BAD_INPUT)
        self.assertIn("more than a hundred years", result.stderr)
        result = self.run_tenure("replay", "--driver", "sim", "--paced", "--loops", "1000000",
                                 self.write("long.csv", f"a,1,9,0,0\nF,1,9,0,{10**13}\n"),
                                 code=BAD_INPUT)
        self.assertIn("long cannot be paced", result.stderr)
        self.replay(good)
        self.replay(bad)

    def test_table_of_passes(self):
        text, _, _ = random_trace(9, 100)
        path = self.write("mine.csv", text)
        result = self.run_tenure("replay", "--driver", "sim", "--paced", "--loops", "40", path)
        lines = result.stdout.splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith("Passes of mine, paced"))
        shown = [line.split()[0] for line in lines[at + 3:]]
        self.assertEqual(shown, [str(n) for n in [*range(1, 11), 16, 32, 40]])

    def test_each_trace_starts_afresh(self):
        text, operations, _ = random_trace(5, 200, streams=1)
        path = self.write("mine.csv", text)
        # Eager, because a random schedule goes on where the first trace left it.
        first, second = self.replay(path, path, environment={"TENURE_SIM_SCHEDULE": "eager"})
        for one in [first, second]:
            self.assertEqual(one["ops"], operations)
            self.assertEqual(sum(one["served"].values()), 200)
            self.assertGreater(one["chunks_created"], 0)
        self.assertEqual(first["peak_reserved_bytes"], second["peak_reserved_bytes"])

    def test_out_of_memory(self):
        text = "a,1,100000000,0,0\na,2,100000000,0,0\n"
        [one] = self.replay(self.write("big.csv", text), code=NO_MEMORY,
                            environment={"TENURE_SIM_MEMORY": "128M"})
        self.assertEqual(one["exit_code"], NO_MEMORY)
        self.assertIn("TNR_ERR_OUT_OF_MEMORY", one["error"])
        self.assertIn("allocation 2 of the trace", one["error"])

    def test_after_out_of_memory_the_next_trace_runs(self):
        big = self.write("big.csv", "a,1,1000000000,0,0\n")
        small = self.write("small.csv", "a,1,1000000,0,0\n")
        first, second = self.replay(big, small, code=NO_MEMORY,
                                    environment={"TENURE_SIM_MEMORY": "128M"})
        self.assertEqual((first["exit_code"], second["exit_code"]), (NO_MEMORY, 0))

    def test_limit_by_setting(self):
        path = self.write("big.csv", "a,1,100000000,0,0\n")
        [one] = self.replay("--conf", "per_process_memory_fraction:0.01", path, code=NO_MEMORY,
                            environment={"TENURE_SIM_MEMORY": "1G"})
        self.assertRegex(one["error"], "TNR_ERR_(LIMIT|OUT_OF_MEMORY)")

    def test_bad_setting(self):
        path = self.write("one.csv", "a,1,1,0,0\n")
        result = self.run_tenure("replay", "--driver", "sim", "--conf", "nonsense:1", path,
                                 code=BAD_INPUT)
        self.assertIn("nonsense", result.stderr)

    def test_no_device(self):
        """The simulated device is named as a way out where it was not asked for."""
        path = self.write("one.csv", "a,1,1000,0,0\n")
        said = self.run_tenure("replay", "--driver", "sim", path, code=NO_DEVICE,
                               environment={"TENURE_SIM_DEVICES": 0}).stderr
        self.assertIn("`tenure doctor`", said)
        self.assertNotIn("--driver sim", said)
        said = self.run_tenure("replay", "--driver", "/nowhere/libcuda.so", path,
                               code=NO_DEVICE).stderr
        self.assertIn("or use --driver sim.", said)

    def test_second_device(self):
        path = self.write("one.csv", "a,1,1000,0,0\n")
        [one] = self.replay("--device", "1", path, environment={"TENURE_SIM_DEVICES": 2})
        self.assertEqual(one["pattern_errors"], 0)

    def test_table(self):
        result = self.run_tenure("replay", "--driver", "sim", TRACES / "offload_streams.csv.gz")
        lines = result.stdout.splitlines()
        self.assertIn("simulated device", lines[0])
        rows = [line for line in lines if line.startswith("offload_streams ")]
        self.assertEqual(len(rows), 2)
        # PyTorch's recorded figure stands beside ours.
        self.assertIn(" 5.36 ", rows[0])
        self.assertIn("Memory in GiB: ", result.stdout)
        self.assertEqual(rows[1].split()[-1], "0")
        self.assertNotIn("\033", result.stdout)
        self.assertEqual(result.stderr, "")

    def test_figures_are_the_traces_own(self):
        """The project's figures go with the contents of its traces, under any name; a trace of the
        user's has what its PyTorch reserved, or none."""
        theirs = ("# From a snapshot of PyTorch; device 0.\n"
                  f"# Its allocator had {5 * MIB} bytes reserved at the end and {48 * MIB} at its "
                  "peak, as far as is known.\n# op,id,bytes,stream,us\n")
        text, _, peak = random_trace(5, 300)
        own = self.write("gpt2_train.csv.gz", gzip.compress((theirs + text).encode()))
        ours = self.write("renamed.csv", gzip.decompress(
            (TRACES / "serve_streams.csv.gz").read_bytes()))
        found = {one["trace"]: one.get("pytorch_reserved_bytes")
                 for one in self.replay(own, ours, self.write("plain.csv", text))}
        self.assertEqual(found["gpt2_train"], {"as_recorded": 48 * MIB})
        self.assertEqual(set(found["renamed"]),
                         {"default", "expandable_segments", "cudaMallocAsync"})
        self.assertIsNone(found["plain"])
        table = self.run_tenure("replay", "--driver", "sim", own).stdout
        self.assertIn(f"48.00 {48 * MIB / peak:.3f}", table)
        self.assertNotIn("GB", table)

    def reports(self, folder, *traces, code=0):
        return self.run_tenure("replay", "--driver", "sim", "--check", "none", "--reports", folder,
                               *traces, code=code)

    def about(self, page):
        """What stands in a report beside its snapshot."""
        [text] = re.findall(r'id="tenure-about">(.*?)</script>', page.read_text())
        return json.loads(text)

    def test_reports(self):
        """Of each trace one at its peak, titled by the trace, with PyTorch's figures; and a page
        that compares them in one unit."""
        template = Path(TENURE).parent.parent / "share/tenure/report.html"
        if not template.exists():
            self.skipTest("the report was not built")
        folder = self.folder / "reports 100%s"
        odd = self.folder / "a <b> & #1.csv"
        text, _, peak = random_trace(8, 200)
        odd.write_text(text)
        self.reports(folder, TRACES / "serve_streams.csv.gz", TRACES / "offload_streams.csv.gz",
                     odd)
        self.assertEqual({path.name for path in folder.iterdir()},
                         {"index.html", *(f"{name}.{end}" for end in ("html", "json.gz") for name in
                                          ("serve_streams", "offload_streams", "a <b> & #1"))})
        about = self.about(folder / "serve_streams.html")
        self.assertEqual(about["title"], "serve_streams (PyTorch 2.11.0+cu130, H200)")
        figures = {one["name"]: one["bytes"] for one in about["figures"]}
        self.assertEqual(list(figures)[:2], ["live", "Tenure"])
        self.assertEqual((figures["live"], figures["PyTorch expandable"],
                          figures["PyTorch default"]), (488960048, 891289600, 1107296256))
        snapshot = json.loads(gzip.decompress((folder / "serve_streams.json.gz").read_bytes()))
        at = snapshot["blocks"]["columns"].index("requested_bytes")
        state = snapshot["blocks"]["columns"].index("state")
        live = snapshot["states"].index("live")
        self.assertEqual(sum(row[at] for row in snapshot["blocks"]["rows"] if row[state] == live),
                         figures["live"])
        self.assertEqual([one["name"] for one in self.about(folder / "offload_streams.html")
                          ["figures"]], ["live", "Tenure"])
        self.assertEqual(self.about(folder / "a <b> & #1.html")["figures"][0]["bytes"], peak)
        index = (folder / "index.html").read_text()
        self.assertNotIn("a <b> &", index)
        words = " ".join(html.unescape(re.sub("<[^>]*>", " ", index)).split())
        self.assertRegex(words, r"serve_streams PyTorch 2.11.0\+cu130, H200 live 0.46 GiB Tenure "
                                r"0.\d\d GiB 1.\d{3} PyTorch expandable 0.83 GiB 1.823 "
                                r"PyTorch default 1.03 GiB 2.265")
        self.assertIn("PyTorch held 5.04 GiB when it was recorded: freed blocks waited", words)
        self.assertIn("PyTorch's figures were not recorded.", words)
        self.assertIn('href="a%20%3Cb%3E%20%26%20%231.html"', index)
        self.assertNotIn("MiB", index)
        self.assertNotIn("Other reports", index)

    def test_reports_beside_others(self):
        """Reports that lie in the folder already are named in the index; what is none is not."""
        if not (Path(TENURE).parent.parent / "share/tenure/report.html").exists():
            self.skipTest("the report was not built")
        folder = self.folder / "reports"
        folder.mkdir()
        for name in ("training step.html", "a.html", "notes.txt", ".html"):
            (folder / name).write_text("")
        text, _, _ = random_trace(8, 50)
        for _ in range(2):   # the second time, the trace's own page is there already
            self.reports(folder, self.write("one.csv", text))
            index = (folder / "index.html").read_text()
            self.assertIn('<p>Other reports in this folder: <a href="a.html">a</a>, '
                          '<a href="training%20step.html">training step</a></p>', index)
            self.assertEqual(index.count("<a href="), 3)

    def test_reports_that_cannot_be(self):
        text, _, _ = random_trace(8, 20)
        trace = self.write("a.csv", text)
        (self.folder / "more").mkdir()
        twin = Path(shutil.copy(trace, self.folder / "more/a.csv"))
        self.assertIn("two traces are called a", self.reports(self.folder / "x", trace, twin,
                                                              code=BAD_INPUT).stderr)
        result = self.reports(trace, trace, code=1)
        self.assertIn("a.csv: no folder to write reports to: Not a directory", result.stderr)
        self.assertEqual(result.stdout, "")
        for more in ("--snapshot", "--snapshot-at"):
            result = self.run_tenure("replay", "--reports", "x", more, "peak", trace,
                                     code=BAD_INPUT)
            self.assertIn("--reports writes the snapshots itself", result.stderr)
        for figures, words in (("a", "NAME=BYTES, not \"a\""), ("=1", "NAME=BYTES"),
                               ("a=1x", "a number of bytes, not \"1x\""),
                               ("a=99999999999999999999", "a number of bytes"),
                               ("a=1," * 12 + "a=1", "takes 12 at most")):
            result = self.run_tenure("snapshot", "html", "--template", trace, "--figures", figures,
                                     trace, self.folder / "out.html", code=BAD_INPUT)
            self.assertIn(words, result.stderr)

    def test_tables_fit_a_hundred_columns(self):
        text, _, _ = random_trace(6, 300)
        long = self.write("a_trace_of_ours_with_a_rather_long_name.csv", text)
        table = self.run_tenure("replay", "--driver", "sim", TRACES / "gpt2_train.csv.gz",
                                long).stdout
        self.assertIn("a_trace_of_ou...", table)
        for line in table.splitlines():
            if "driver /" not in line:
                self.assertLessEqual(len(line), 100, line)

    def test_schedules_of_the_simulated_device(self):
        """Stream order alone must keep the patterns apart, whatever runs first."""
        text, _, _ = random_trace(6, 60 if IS_SANITIZED else 400, streams=5)
        path = self.write("mine.csv", text)
        for schedule in ["lazy", "random", "eager", "threads"]:
            with self.subTest(schedule=schedule):
                [one] = self.replay("--check", "full", path,
                                    environment={"TENURE_SIM_SCHEDULE": schedule,
                                                 "TENURE_SIM_STRICT": "abort"})
                self.assertEqual(one["pattern_errors"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
