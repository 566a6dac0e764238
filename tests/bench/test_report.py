#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests report.py on a small made-up data set: what the page says of it, that --check notices every
change, and that bad data is refused with a reason."""
import contextlib
import gzip
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree

import report

HERE = pathlib.Path(__file__).resolve().parent
FIXTURE = HERE / "fixture"


# What newer runs of `tenure bench` have beyond the fixture, which is of an older one: bench,
# allocator, bytes, threads, live, median, mops, p99.9, worst, driver calls; and of newest runs how
# Tenure served a mix: moved, lent, shared, grown, reserved over live.
NEWER = [
    ("pair", "tenure", 512, 1, 1, 40, 25, 90, 5000, 0),
    ("pair", "pytorch", 512, 1, 1, 480, 2, 900, 9000, 0),
    ("pair_own", "tenure", 4096, 1, 1, 40, 25, 90, 5000, 0),
    ("pair_own", "tenure", 4096, 16, 1, 80, 190, 1200, 5000, 0),
    ("pair_shared", "tenure", 4096, 1, 1, 40, 25, 90, 5000, 0),
    ("pair_shared", "tenure", 4096, 16, 1, 800, 20, 90, 5000, 0),
    ("pair_new", "tenure", 4096, 16, 1, 900, 17, 91, 5000, 0),
    ("mix", "tenure", 0, 1, 2000, 100, 10, 300, 9000, 0),
    ("mix", "tenure", 0, 16, 2000, 120, 120, 300, 9000, 0),
    ("mix_shared", "tenure", 0, 1, 2000, 100, 10, 300, 9000, 0),
    ("mix_shared", "tenure", 0, 16, 125, 1600, 11, 300, 9000, 0),
    ("live", "tenure", 0, 1, 1000, 100, 10, 300, 9000, 0),
    ("live", "tenure", 0, 1, 100000, 250, 4, 300, 9000, 0),
    ("live_large", "tenure", 0, 1, 1000, 100, 10, 300, 9000, 0),
    ("live_large", "tenure", 0, 1, 90000, 150, 4, 300, 9000, 0),
    ("handover", "tenure", 4096, 2, 0, 55, 30, "", "", 0),
    ("handover", "tenure", 4096, 16, 0, 151, 30, "", "", 0),
    ("storm", "tenure", 4096, 1, 1, 1000, 2, "", "", 0),
    ("storm", "driver_event", 4096, 1, 1, 500, 3, "", "", 0),
    ("storm", "tenure", 4096, 16, 1, 1010, 2, "", "", 0),
    ("storm", "driver_event", 4096, 16, 1, 500, 3, "", "", 0),
    ("storm", "tenure", 4096, 2, 1, 900, 2, "", "", 0),
    ("storm", "driver_event", 4096, 2, 1, 600, 3, "", "", 0),
    ("cold_start", "tenure", 1048576, 1, 1, 2.5e8, 0, "", "", 0),
    ("cold_start", "driver_malloc", 1048576, 1, 1, 2e8, 0, "", "", 0),
    ("growth", "tenure", 4 << 30, 1, 1, 6e5, 0, "", "", 12),
    ("growth", "driver_malloc", 4 << 30, 1, 1, 5e5, 0, "", "", 0),
    ("growth_steps", "tenure", 64 << 20, 1, 16, 7e5, 0, "", "", 99),
    ("move", "tenure", 32 << 20, 1, 1, 5e5, 0, "", "", 20),
    ("replay:small", "tenure", 0, 1, 9, 66, 2, 400, 9000, 77),
    ("replay:small", "pytorch", 0, 1, 9, 60, 2, "", "", 0),
    ("replay:large", "tenure", 0, 1, 9, 60, 2, "", "", 0),
    ("replay:large", "pytorch", 0, 1, 9, 60, 2, "", "", 0),
    ("again:small", "tenure", 0, 1, 9, 33, 3, 400, 9000, 0),
    ("again:other", "tenure", 0, 1, 9, 33, 3, 400, 9000, 3),
]


COUNTS = {("mix", 16): (3072, 6, 9, 12, 15, 1.0625), ("live", 1): (0, 0, 0, 0, 0, 1.5)}


def newer_csv(with_counts=False):
    """A CSV of a newer run, or of one of the newest."""
    lines = ['# command="tenure bench" commit=abc gpu="Made-up GPU" driver_cuda=13.0 cpus=16 '
             "clock_ns=21", "bench,allocator,bytes,threads,live_per_thread,rounds,ops_per_thread,"
             "median_ns,min_ns,p99_ns,mops,ratio_to_tenure,checksum,samples,op_p50_ns,op_p99_ns,"
             "op_p999_ns,op_worst_ns,driver_calls" +
             (",served_moved,served_lent,served_shared,served_grown,reserved_over_live"
              if with_counts else "")]
    own = {}
    for bench, name, size, threads, live, median, mops, p999, worst, calls in NEWER:
        base = own.setdefault((bench, size, threads, live), median)
        sampled = p999 != ""
        counts = ""
        if with_counts:
            calls, *served = COUNTS.get((bench, threads), (calls, "", "", "", "", ""))
            counts = "," + ",".join(map(str, served))
        lines.append(f"{bench},{name},{size},{threads},{live},3,64,{median},{median},,{mops},"
                     f"{median / base},7,{64 if sampled else 0},{30 if sampled else ''},"
                     f"{60 if sampled else ''},{p999},{worst},{calls}{counts}")
    return "\n".join(lines) + "\n"


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        self.docs = self.top / "docs"
        for name in ("bench.csv", "replay.json"):
            shutil.copy(FIXTURE / name, self.top / name)

    def run_report(self, *arguments):
        """In this process: to start Python for each was most of the test's time. As a command:
        test_driver_time_of_the_recorded_run, and the test bench_report_check."""
        words = ["report.py", "--docs", str(self.docs),
                 "--recorded", str(FIXTURE / "recorded.csv"), *arguments]
        out, err = io.StringIO(), io.StringIO()
        with unittest.mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(out), \
                contextlib.redirect_stderr(err):
            code = report.main()
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    def take_over(self):
        return self.run_report("--bench", str(self.top / "bench.csv"),
                               "--replay", str(self.top / "replay.json"))

    def make(self):
        done = self.take_over()
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.pages()

    def pages(self):
        """All pages, one behind the other, with links as from docs/benchmarks/."""
        paths = self.docs / "benchmarks.md", *sorted((self.docs / "benchmarks").glob("*.md"))
        return "".join(path.read_text("utf-8") for path in paths).replace("](benchmarks/", "](")

    def edit(self, name, old, new):
        path = self.top / name
        text = path.read_text("utf-8")
        self.assertIn(old, text)
        path.write_text(text.replace(old, new, 1), "utf-8")

    def row(self, page, *cells):
        """The page has a table row that begins with these cells."""
        self.assertRegex(page, r"(?m)^" + re.escape("| " + " | ".join(cells) + " |"))

    # ---- what the page says ----

    def test_pair(self):
        page = self.make()
        self.row(page, "512 B", "40.0", "39.0", "45.0", "480.0", "12.0 x", "300.0", "7.5 x")
        self.row(page, "1 MiB", "41.0", "40.0", "46.0", "492.0", "12.0 x", "missing", "-")

    def test_mix(self):
        page = self.make()
        self.row(page, "1", "2,000", "100.0", "95.0", "200.0", "10.00", "1,234", "0.81", "12.3 x",
                 "500.0", "2.00", "5.0 x")
        self.row(page, "4", "2,000", "200.0", "180.0", "900.0", "20.00", "failed", "-", "-",
                 "8,000", "0.50", "40.0 x")

    def test_other_runs(self):
        """Whole runs that were kept stand beside the page's own, which comes last."""
        page = self.make()
        self.assertIn("## Other runs", page)
        (self.docs / "benchmarks" / "runs").mkdir()
        shutil.copyfile(self.docs / "benchmarks" / "bench.csv",
                        self.docs / "benchmarks" / "runs" / "older.csv")
        self.edit("docs/benchmarks/runs/older.csv", "163840,100.00", "163840,155.00")
        page = self.make()
        rows = [line for line in page.splitlines() if "](runs/older.csv)" in line]
        self.assertEqual(len(rows), 1)
        self.assertIn("| 155.0 | 500.0 |", rows[0])
        (self.top / "bench.csv").write_text(newer_csv(), "utf-8")
        rows = [line for line in self.make().splitlines() if "`](bench.csv)" in line]
        self.assertTrue(rows[0].endswith("| 55.0 | 151.0 | 1.50 x | 1.50 x |"), rows)

    def test_offload(self):
        """Data of a run without --by-hand stays readable: it has no such ratio."""
        old = {"way": "use_wait", "device": "gpu", "in_use_bytes": 1e9, "peak_bytes": 1.2e9,
               "peak_ratio": 1.2, "total_ms": 110, "time_ratio": 1.1, "waits_on_device": 1234,
               "wrong_words": 0}
        new = {**old, "way": "by_hand", "by_hand_ratio": 1, "total_ms": 107, "time_ratio": 1.07}
        self.make()
        (self.docs / "benchmarks" / "offload.json").write_text(
            json.dumps(old) + "\n" + json.dumps(new) + "\n", "utf-8")
        page = self.make()
        self.row(page, "use, wait", "gpu", "0.931 GiB", "1.118 GiB", "1.200", "110.0", "1.100", "-",
                 "1,234", "0")
        self.row(page, "by hand", "gpu", "0.931 GiB", "1.118 GiB", "1.200", "107.0", "1.070",
                 "1.000", "1,234", "0")

    def test_memory(self):
        page = self.make()
        self.row(page, "`small`", "1", "0.931 GiB", "0.941 GiB", "1.010", "0", "1.397 GiB (1.500)",
                 "1.024 GiB (1.100)", "1.118 GiB (1.200)")
        self.row(page, "`absent`", "missing", "-", "-", "-", "-", "2.794 GiB (1.500)")
        self.row(page, "`extra`", "failed", "-", "-", "-", "3", "not recorded")
        self.assertIn("`extra` failed with exit code 4: a block was overwritten", page)
        self.assertRegex(page, r"`waiting`: while it was recorded[\s\S]*?hold\s+3\.725 GiB")

    def test_driver(self):
        page = self.make()
        self.row(page, "`small`", "1,234", "56.7", "77", "8", "9", "4.3", "33.0", "1,376", "0.84")
        self.row(page, "`small`", "1.00", "2.00", "3.00", "4.00", "5.00", "6.00", "7.00", "8.00",
                 "9.00")
        self.assertEqual(page.count("| `extra` | failed |"), 3)
        self.assertEqual(page.count("| `absent` | missing |"), 3)

    def test_provenance(self):
        page = self.make()
        bench = ("| `tenure bench --driver cuda --csv bench.csv` | `0123456789ab` | Made-up GPU | "
                 "CUDA 13.0 | 8 | [bench.csv](bench.csv) |")
        replay = ("| `tenure replay --json` | `0123456789ab` | Made-up GPU | CUDA 13.0 | "
                  "not in the data | [replay.json](replay.json) |")
        self.assertEqual((page.count(bench), page.count(replay)), (3, 3))
        self.assertNotIn("SIMULATED", page)

    def test_simulated(self):
        text = (self.top / "replay.json").read_text("utf-8")
        (self.top / "replay.json").write_text(text.replace('"cuda"', '"sim"'), "utf-8")
        page = self.make()
        self.assertEqual(page.count("**SIMULATED DEVICE"), 3)
        self.assertIn("| simulated: Made-up GPU |", page)

    def test_pictures(self):
        self.make()
        for name, words in (("mix", ["Tenure", "driver pool", "PyTorch", "\u00d7 failed"]),
                            ("memory", ["small", "absent", "1.010", "no result"])):
            path = self.docs / "benchmarks" / f"{name}.svg"
            texts = [element.text for element in xml.etree.ElementTree.parse(path).iter()
                     if element.tag.endswith("text")]
            for word in words:
                self.assertIn(word, texts, name)

    def test_data_is_kept(self):
        self.make()
        for name in ("bench.csv", "replay.json"):
            self.assertEqual((self.docs / "benchmarks" / name).read_bytes(),
                             (FIXTURE / name).read_bytes())

    def test_newer_run(self):
        page = self.make()
        self.assertGreater(page.count("Not measured yet."), 10)
        self.row(page, "4 GiB in one block beside cuMemAlloc", "<= 1.3 x", "not measured yet", "-")
        self.row(page, "random mix, one thread, a free and an allocation", "<= 110 ns", "100.0 ns",
                 "met")
        (self.top / "bench.csv").write_text(newer_csv(), "utf-8")
        page = self.make()
        for cells in [
                ("cached pair, an allocation and its free, every size", "<= 40 ns",
                 "40.0 ns at the worst size", "met"),
                ("cached pair beside PyTorch", ">= 10 x", "12.0 x at the worst size", "met"),
                ("cached pair beside the driver pool", ">= 15 x", "not measured yet", "-"),
                ("random mix, 16 threads on 16 streams", ">= 100 M/s", "120.0 M/s", "met"),
                ("random mix, 16 threads on one stream beside one thread", ">= 1 x",
                 "1.10 x (11.0 of 10.0 M/s)", "met"),
                ("cached pair, 16 threads on one stream beside one thread", ">= 1 x",
                 "0.80 x (20.0 of 25.0 M/s)", "**missed**"),
                ("100,000 live small blocks beside 1,000", "<= 2 x",
                 "2.50 x (1,000: 100 ns, 100,000: 250 ns)", "**missed**"),
                # Fast enough, but with fewer blocks than the target is about.
                ("100,000 live large blocks beside 1,000", "<= 2 x",
                 "1.50 x (1,000: 100 ns, 90,000: 150 ns)", "**missed**"),
                ("a block from thread to thread", "<= 150 ns",
                 "151 ns with 16 threads, 55 with 2", "**missed**"),
                ("four uses beside four bare cuEventRecords, 1 and 16 threads", "<= 2 x",
                 "2.00 x with 1, 2.02 x with 16", "**missed**"),
                ("first pass of a trace beside PyTorch", "<= 1 x",
                 "1.10 x (`small`); 1 of 2 traces within", "**missed**"),
                ("4 GiB in one block beside cuMemAlloc", "<= 1.3 x",
                 "1.20 x (600.00 us of 500.00 us)", "met"),
                ("driver calls of a trace's second pass", "0", "3 (`other`)", "**missed**"),
                ("p99.9 of a cached malloc, 16 threads", "<= 1 us",
                 "1,200 ns own streams, 90 ns one stream", "**missed**"),
                ("reserved / live, every one-stream trace", "<= 1.02", "1.010 (`small`)", "met")]:
            self.row(page, *cells)
        self.row(page, "16", "125", "1,600", "1,600", "-", "11.00")
        self.row(page, "mix of large blocks, 90,000 live", "1", "30.0", "60.0", "300.0", "9,000")
        self.row(page, "allocation, four `tnr_record_use`, free; 2 threads", "900.0", "900.0", "-",
                 "bare cuEventRecord 600.0")
        self.row(page, "fresh process, from nothing to the first block", "250.00 ms", "250.00 ms",
                 "200.00 ms", "1.25")
        self.row(page, "16 x 64 MiB", "700.00 us", "700.00 us", "99", "missing", "-")
        self.row(page, "32 MiB, 16 chunks", "500.00 us", "500.00 us", "20")
        self.row(page, "`small`", "first", "66.0", "30.0", "400.0", "77")
        self.assertIn("less the clock's own time (21 ns in this run)", page)
        for name in ("shared", "live"):
            self.assertIn(f"({name}.svg)", page)
            xml.etree.ElementTree.parse(self.docs / "benchmarks" / f"{name}.svg")
        self.assertEqual(self.run_report("--check").returncode, 0)

    def test_counts(self):
        """Rates are of the operations of all threads and rounds: 3 x 64 x 16 here."""
        (self.top / "bench.csv").write_text(newer_csv(), "utf-8")
        page = self.make()
        self.assertNotIn("Blocks stay live", page)
        (self.top / "bench.csv").write_text(newer_csv(with_counts=True), "utf-8")
        page = self.make()
        self.assertIn("Blocks stay live", page)
        self.row(page, "threads", "live blocks a thread", "Tenure ns", "min", "p99", "M/s",
                 "reserved / live")
        self.row(page, "1", "2,000", "100.0", "100.0", "-", "10.00", "-")
        self.row(page, "16", "2,000", "120.0", "120.0", "-", "120.00", "1.062")
        self.row(page, "own streams", "16", "2,000", "3,072", "1,000,000.0", "1,953.1", "2,929.7",
                 "3,906.2", "4,882.8")
        self.row(page, "small blocks", "1", "1,000", "192", "0.0", "0.0", "0.0", "0.0", "0.0")
        self.row(page, "16", "1", "900.0", "900.0", "-", "17.00")
        self.row(page, "malloc of new threads", "16", "30.0", "60.0", "91.0", "5,000")
        self.assertEqual(self.run_report("--check").returncode, 0)

    def test_driver_time_of_the_recorded_run(self):
        """A trace beside recorded.csv says how long the recorded run took: here 10 s."""
        shutil.copy(FIXTURE / "recorded.csv", self.top / "recorded.csv")
        with gzip.open(self.top / "small.csv.gz", "wt", encoding="utf-8") as file:
            file.write("op,id,bytes,stream,us\na,1,512,0,1000\nF,1,512,0,10001000\n")
        done = subprocess.run(
            [sys.executable, "-B", str(HERE / "report.py"), "--docs", str(self.docs),
             "--recorded", str(self.top / "recorded.csv"), "--bench", str(self.top / "bench.csv"),
             "--replay", str(self.top / "replay.json")],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.row(self.pages(),
                 "driver time of the recorded run's duration", "<= 1 %",
                 "0.57% (`small`); 1 of 1 traces within", "met")

    def test_moves_and_scale(self):
        """Of each combination the worst trace counts, and the sum of the moves."""
        self.make()
        data = self.docs / "benchmarks"
        (data / "moves.csv").write_text(
            "# command='moves.py' commit=abc gpu='simulated: none' driver_cuda=13.0 cpus=any\n"
            "setting,value,trace,reserved_over_live,reserved_over_live_most,chunks_created,"
            "chunks_moved,second_half_driver_allocations,modelled_driver_ms,recorded_ms,"
            "percent_of_recorded\n"
            "default,,small,1.0100,1.02,10,100,0,5.00,1000,0.500\n"
            "default,,serve_streams,1.1000,1.2,20,200,0,15.00,1000,1.500\n"
            "chunk_share,16,small,1.0500,1.06,3,20,0,1.00,1000,0.100\n"
            'before,"chunk_share:512,chunk_exact_mb:2",small,1.03,1.03,3,30,0,2.00,1000,0.2\n',
            "utf-8")
        (data / "scale.csv").write_text(
            "# command='bench_scale' commit=abc gpu='simulated: 8' driver_cuda=13.0 cpus=2\n"
            "blocks,streams,cached_ns,mix_ns,metadata_bytes_per_block,stats_us,snapshot_ms,"
            "trim_us_per_gib,destroy_us,cached_instructions,mix_instructions\n"
            "1000000,1024,55.0,222.0,140,3.25,800.0,12,34,400,\n", "utf-8")
        page = self.make()
        self.row(page, "the default", "1.010", "1.100", "30", "300", "20.0", "1.50 %")
        self.row(page, "`chunk_share:16`", "1.050", "-", "3", "20", "1.0", "0.10 %")
        self.row(page, "`chunk_share:512,chunk_exact_mb:2`", "1.030", "-", "3", "30")
        self.row(page, "1,000,000", "1,024", "55", "222", "400", "-", "140", "3.2", "800.0")
        xml.etree.ElementTree.parse(data / "moves.svg")
        self.assertIn("(moves.svg)", page)
        self.assertEqual(self.run_report("--check").returncode, 0)

    def test_perturbed(self):
        """The mean of all traces, and what the last pass has more than the first."""
        self.make()
        (self.docs / "benchmarks" / "perturbed.csv").write_text(
            "# command='perturbed.py' commit=abc gpu='simulated: none' driver_cuda=13.0 cpus=any\n"
            "trace,conf,passes,tries,mean,least,most,first_mean,first_most,first_modelled_ms\n"
            "small,,20,8,1.0300,1.0200,1.0400,1.0100,1.0150,10.5\n"
            "large,,20,8,1.0100,1.0100,1.0100,1.0000,1.0000,1500.5\n", "utf-8")
        page = self.make()
        self.row(page, "`small`", "1.0100", "1.0150", "1.0300", "1.0400", "10.5")
        self.assertIn("2 traces, 8 variants of each: 1.0050 of live in the first pass, 1.0200 in "
                      "pass 20, 0.0150 more. The first passes spend 1,511 ms",
                      " ".join(page.split()))
        self.assertIn("(perturbed.csv)", page)
        self.assertEqual(self.run_report("--check").returncode, 0)

    def test_instructions_and_changes(self):
        page = self.make()
        self.assertIn("No change is recorded yet.", page)
        data = self.docs / "benchmarks"
        (data / "instructions.csv").write_text(
            '# commit="abc" compiler="gcc 12" build="Release"\n'
            "path,operations,instructions,locked,c_library,functions,text\n"
            "pair,64,502.0,2.00,22.0,tnr_malloc:99.0 C_library:22.0,a pair\n", "utf-8")
        heading = "change,why,predicted,measured,command,commit,decision\n"
        changes = data / "changes.csv"
        changes.write_text(heading + '"a lock less","two, not one",-20 %,-18 %,,abc,kept\n',
                           "utf-8")
        page = self.make()
        self.row(page, "`pair`: a pair", "540", "502", "22", "2.00",
                 "`tnr_malloc` 99, C library 22")
        self.row(page, "`abc`", "`gcc 12`", "`Release`", "not in the data")
        self.row(page, "a lock less", "two, not one", "-20 %", "-18 %", "-", "`abc`", "kept")
        for row, reason in (("a,b,c,d,e,f,perhaps", "the decision is one of"),
                            ("a,b,c", "line 2 has not the columns")):
            changes.write_text(heading + row + "\n", "utf-8")
            done = self.take_over()
            self.assertEqual(done.returncode, 2)
            self.assertIn(reason, done.stderr)

    # ---- --check ----

    def test_check_agrees(self):
        self.make()
        done = self.run_report("--check")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def check_refuses(self, name, old, new):
        self.make()
        path = self.docs / name
        text = path.read_text("utf-8")
        self.assertIn(old, text)
        path.write_text(text.replace(old, new, 1), "utf-8")
        self.assertEqual(self.run_report("--check").returncode, 1, name)

    def test_check_notices(self):
        self.check_refuses("benchmarks.md", "40.0", "30.0")
        self.check_refuses("benchmarks/speed.md", "1,234", "1,235")
        self.check_refuses("benchmarks/bench.csv", "480.00", "481.00")
        self.check_refuses("benchmarks/replay.json", "1010000000", "1020000000")
        self.check_refuses("benchmarks/mix.svg", "<circle", "<circle ")
        self.make()
        (self.docs / "benchmarks" / "memory.svg").unlink()
        self.assertEqual(self.run_report("--check").returncode, 1)

    def test_check_without_data(self):
        self.docs.mkdir()
        self.assertEqual(self.run_report("--check").returncode, 77)
        (self.docs / "benchmarks.md").write_text("numbers from nowhere\n", "utf-8")
        self.assertEqual(self.run_report("--check").returncode, 2)

    # ---- bad data ----

    def refuses(self, name, old, new, reason):
        self.edit(name, old, new)
        done = self.take_over()
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn(reason, done.stderr)
        self.assertFalse((self.docs / "benchmarks.md").exists())
        shutil.copy(FIXTURE / name, self.top / name)

    def test_bad_data(self):
        self.refuses("bench.csv", "# command", "command", "bench.csv: not what")
        self.refuses("bench.csv", " commit=0123456789ab", "", "does not say commit")
        self.refuses("bench.csv", "p99_ns", "p95_ns", "has not the columns")
        self.refuses("bench.csv", "480.00,470.00,", "480.00,", "line 4 has not 13 fields")
        self.refuses("bench.csv", "480.00", "many", "line 4")
        self.refuses("bench.csv", "7.500,11", "7.500,13", "not the same work")
        self.refuses("bench.csv", "pair,driver_pool,512", "pair,tenure,512", "repeats")
        self.refuses("replay.json", '{"trace"', '{trace', "line 1 is not JSON")
        self.refuses("replay.json", '"wall_ns"', '"wall"', "line 1 lacks wall_ns")
        self.refuses("replay.json", '"extra"', '"small"', "repeats the trace small")
        self.refuses("replay.json", "0123456789ab", "ba9876543210", "2 different runs")


if __name__ == "__main__":
    unittest.main()
