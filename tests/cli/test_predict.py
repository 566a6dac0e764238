#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenure predict`: what PyTorch reserved when the traces were recorded, on an H200, is the judge
of how its allocator is played; sums done by hand say what fits.

Seen to fail: with segments of 10 MiB and more in steps of 1 MiB; without the step to the free
block that can grow least, and with blocks of expandable segments split from 1 MiB on (recorded);
with late frees that come at once (recorded, waits); without giving back what lies free (gives
back), without the pages in the middle of a free block (middle pages), with whole segments kept
that lie free beside used ones; with Tenure's peak taken from a device of no limit (refused);
without moves; with ranges of addresses that begin at 1 GiB, for gpt2_train, llama_generate,
pipeline_train and resnet50_eager (never looser), with what comes and goes taken from the end of
the trace instead of its peak (growth).
"""
import csv
import json
import pickle
import sys
import unittest

from command import BAD_INPUT, CHECK_FAILED, CommandTest, IS_SANITIZED, TRACES

MIB = 1 << 20
CORPUS = TRACES.parent / "fuzz" / "corpus"


def recorded():
    with open(TRACES / "recorded.csv", encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def trace(*lines, head="# workload=x torch=2.11.0 gpu=H200"):
    """Text of a trace of lines "a 7 20" and "F 7": sizes in MiB, an optional stream behind them."""
    text, sizes = [head], {}
    for at, line in enumerate(lines):
        op, block, *rest = line.split()
        if op == "a":
            sizes[block] = (int(float(rest[0]) * MIB), rest[1] if len(rest) > 1 else "0")
        text.append(f"{op},{block},{sizes[block][0]},{sizes[block][1]},{at * 1000000}")
    return "\n".join(text) + "\n"


class Predict(CommandTest):
    def predict(self, *arguments, code=0):
        result = self.run_tenure("predict", "--json", "--other", "0", *arguments, code=code)
        return self.json_lines(result)

    def of_text(self, text, device=None, code=0):
        """One trace, on one device: the device's part, or all."""
        path = self.write("one.csv", text)
        [one] = self.predict(path, *(["--device", device] if device else []), code=code)
        return one["devices"][0] if device else one

    def test_recorded(self):
        """The traces of which is known what PyTorch reserved while they were recorded."""
        rows = recorded()
        self.assertEqual(len(rows), 6)
        got = self.predict(*(TRACES / f"{row['trace']}.csv.gz" for row in rows))
        for row, one in zip(rows, got):
            peak = one["peak_reserved_bytes"]
            with self.subTest(trace=row["trace"]):
                # The recorded runs had a segment of 2 MiB more at most, for what came before.
                self.assertAlmostEqual(peak["torch"], int(row["default"]), delta=2 * MIB)
                if row["trace"] != "offload_streams":  # its waits are of another run, see traces/
                    self.assertEqual(peak["torch_expandable"], int(row["expandable_segments"]))
                self.assertEqual(one["peak_live_bytes"], int(row["held"]))

    def test_never_looser(self):
        """No recorded program reserves more with Tenure than with expandable segments: neither as
        it is, nor where no chunk may move. What is predicted does not depend on the build: under a
        sanitizer, of the smallest three."""
        names = sorted(TRACES.glob("*.csv.gz"), key=lambda path: path.stat().st_size)
        names = names[:3] if IS_SANITIZED else names
        for conf in ("", "move_percent:0,move_burst_ms:0"):
            for one in self.predict("--conf", conf, *names):
                peak = one["peak_reserved_bytes"]
                with self.subTest(trace=one["trace"], conf=conf):
                    self.assertLessEqual(peak["tenure"], peak["torch_expandable"])

    def test_sizes(self):
        """The smallest requests of each kind, by hand: 2 MiB, 20 MiB, their own."""
        for mib, own, expandable in ((1, 2, 2), (1.25, 20, 20), (9.75, 20, 20), (10, 10, 20),
                                     (10.25, 12, 20), (20, 20, 20), (20.25, 22, 40)):
            with self.subTest(mib=mib):
                peak = self.of_text(trace(f"a 1 {mib}"))["peak_reserved_bytes"]
                self.assertEqual(peak["torch"], own * MIB)
                self.assertEqual(peak["torch_expandable"], expandable * MIB)

    def test_streams_share_nothing(self):
        text = trace("a 1 40", "F 1", "f 1", "a 2 40 5")
        peak = self.of_text(text)["peak_reserved_bytes"]
        self.assertEqual([peak["torch"], peak["torch_expandable"]], [80 * MIB, 80 * MIB])

    def test_gives_back(self):
        """What lies free is given back where the device is full, but no part of a segment."""
        text = trace("a 1 40", "F 1", "f 1", "a 2 60")
        one = self.of_text(text, "64MiB")
        self.assertTrue(all(one[name]["fits"] for name in ("tenure", "torch", "torch_expandable")))
        self.assertTrue(one["torch"]["tight"])
        self.assertFalse(self.of_text(text, "1GiB")["torch"]["tight"])
        text = trace("a 1 60", "a 2 15", "F 1", "f 1", "a 3 10", "F 2", "f 2", "a 4 60")
        one = self.of_text(text, "116MiB")
        self.assertEqual(one["torch"]["refused_op"], 5)  # block 3 lies in the segment of 60 MiB
        self.assertEqual(one["torch"]["refused_bytes"], 60 * MIB)
        self.assertEqual(one["torch"]["live_bytes"], 10 * MIB)
        self.assertTrue(one["torch_expandable"]["fits"])

    def test_middle_pages(self):
        """Of an expandable segment the whole pages go back that lie free, and are mapped again."""
        lines = ["a 1 30", "a 2 100", "a 3 30", "F 2", "f 2", "a 4 100 1", "F 4", "f 4", "a 5 95"]
        text = trace(*lines)
        # 160 MiB are mapped, of which 30 to 130 are free: the pages 40 to 120 can go.
        one = self.of_text(text, "180MiB")
        self.assertTrue(one["torch_expandable"]["fits"])
        self.assertEqual(one["torch_expandable"]["peak_reserved_bytes"], 180 * MIB)
        one = self.of_text(text, "179MiB", code=(0, CHECK_FAILED))
        self.assertEqual(one["torch_expandable"]["refused_op"], 4)

    def test_waits(self):
        """A block that other streams use is not there until its free is complete, or waited for."""
        lines = ["a 1 40", "F 1", "a 2 40", "f 1", "a 3 40"]
        one = self.of_text(trace(*lines))
        self.assertEqual(one["peak_live_bytes"], 80 * MIB)
        self.assertEqual(one["peak_reserved_bytes"]["torch"], 80 * MIB)
        self.assertEqual(one["peak_reserved_bytes"]["tenure"] // (10 * MIB), 8)
        one = self.of_text(trace(*lines[:4]), "60MiB")
        self.assertTrue(one["tenure"]["fits"] and one["torch"]["fits"])
        # Tenure's own recordings say when a block was handed out again: nothing of waits.
        one = self.of_text(trace(*lines[:2], "a 2 30", "f 1",
                                 head="# torch=2.11.0, recorded by Tenure"))
        self.assertEqual(one["peak_live_bytes"], 40 * MIB)
        self.assertEqual(one["peak_reserved_bytes"]["torch"], 40 * MIB)

    def test_refused(self):
        text = trace("a 1 200", "a 2 300", "F 1", "f 1", "a 3 100")
        one = self.of_text(text, "400MiB", code=CHECK_FAILED)
        for name in ("tenure", "torch", "torch_expandable"):
            self.assertFalse(one[name]["fits"])
            self.assertEqual((one[name]["refused_op"], one[name]["live_bytes"]), (1, 200 * MIB))
            self.assertLessEqual(one[name]["peak_reserved_bytes"], 400 * MIB)
        said = self.run_tenure("predict", "--other", "0", "--device", "400MiB,1GiB",
                               self.folder / "one.csv", code=CHECK_FAILED).stdout
        self.assertIn("400MiB, Tenure: 300 MiB is refused at 1.0 s, with 200.0 MiB live", said)
        self.assertNotIn("1GiB, Tenure", said)

    def test_growth(self):
        """If what comes and goes is so many times as large it fits, and not if it is larger."""
        def text(times):
            lines = ["a 0 100"]
            for step in range(12):
                lines += [f"a 1{step:02}{part} {30 * times}" for part in range(4)]
                lines += [f"{op} 1{step:02}{part}" for part in range(4) for op in "Ff"]
            return trace(*lines)
        for device in ("400MiB", "1000MiB", "3GiB"):
            one = self.of_text(text(1), device)
            for name in ("tenure", "torch", "torch_expandable"):
                with self.subTest(device=device, name=name):
                    growth = one[name]["growth"]
                    self.assertTrue(self.of_text(text(growth * 0.97), device,
                                                 code=(0, CHECK_FAILED))[name]["fits"])
                    self.assertFalse(self.of_text(text(growth * 1.1), device,
                                                  code=(0, CHECK_FAILED))[name]["fits"])

    def test_snapshot(self):
        """PyTorch's own snapshot, and a trace made of it, come to the same."""
        base, entries, now = 0x7F0000000000, [], 1_790_000_000_000_000

        def note(action, address, size):
            entries.append({"action": action, "addr": address, "size": size, "stream": 0,
                            "time_us": now + len(entries), "frames": []})
        note("segment_alloc", base, 60 * MIB)
        note("alloc", base, 60 * MIB)
        note("free_requested", base, 60 * MIB)
        note("free_completed", base, 60 * MIB)
        note("alloc", base, 50 * MIB)
        block = {"address": base, "size": 50 * MIB, "requested_size": 50 * MIB,
                 "state": "active_allocated", "frames": []}
        rest = {"address": base + 50 * MIB, "size": 10 * MIB, "requested_size": 0,
                "state": "inactive", "frames": []}
        segment = {"device": 0, "address": base, "total_size": 60 * MIB, "stream": 0,
                   "allocated_size": 50 * MIB, "active_size": 50 * MIB,
                   "requested_size": 50 * MIB, "segment_type": "large", "is_expandable": False,
                   "frames": [], "blocks": [block, rest], "segment_pool_id": (0, 0)}
        path = self.write("memory.pickle",
                          pickle.dumps({"segments": [segment], "device_traces": [entries]}))
        [one] = self.predict(path)
        self.assertEqual(one["trace"], "memory.pickle")
        self.assertEqual(one["peak_live_bytes"], 60 * MIB)
        self.assertEqual(one["peak_reserved_bytes"]["torch"], 60 * MIB)
        made = self.folder / "made.csv.gz"
        self.run_tenure("snapshot", "trace", path, made)
        [other] = self.predict(made)
        self.assertEqual(other["peak_reserved_bytes"], one["peak_reserved_bytes"])
        [waits] = self.predict(CORPUS / "torch_waits.pickle")
        self.assertGreater(waits["peak_live_bytes"], 0)

    @unittest.skipIf(IS_SANITIZED, "Python has no sanitizer")
    def test_program(self):
        """A program of the driver API, on the simulated device, which is larger than any GPU."""
        program = ("import ctypes, os; cu = ctypes.CDLL('libcuda.so.1')\n"
                   "context, blocks = ctypes.c_void_p(), []\n"
                   "cu.cuInit(0); cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)\n"
                   "cu.cuCtxSetCurrent(context)\n"
                   "for mib in (300, 100_000, 200_000):\n"
                   "    block = ctypes.c_uint64()\n"
                   "    bytes = ctypes.c_size_t(mib << 20)\n"
                   "    assert cu.cuMemAlloc_v2(ctypes.byref(block), bytes) == 0\n"
                   "    blocks.append(block)\n"
                   "assert cu.cuMemFree_v2(blocks[1]) == 0\n"
                   "raise SystemExit(int(os.environ['CODE']))\n")
        for code in (0, 7):
            result = self.run_tenure(
                "predict", "--json", "--driver", "sim", "--device", "1TiB,250GiB", "--",
                sys.executable, "-c", program, code=CHECK_FAILED,
                environment={"TENURE_DRIVER": None, "CODE": code, "TMPDIR": self.folder})
            [one] = self.json_lines(result)
            self.assertEqual(one["peak_live_bytes"], 300_300 * MIB)
            large, small = one["devices"]
            self.assertTrue(large["tenure"]["fits"])
            self.assertEqual(small["tenure"]["refused_bytes"], 200_000 * MIB)
            self.assertEqual("ended with 7" in result.stderr, code == 7)
            self.assertEqual(list(self.folder.iterdir()), [])
        result = self.run_tenure("predict", "--", "true", code=BAD_INPUT,
                                 environment={"TMPDIR": self.folder})
        self.assertIn("has not used a GPU", result.stderr)
        self.run_tenure("predict", "--", self.folder / "missing", code=BAD_INPUT)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_bad_input(self):
        good = self.write("good.csv", trace("a 1 1"))
        empty = self.write("empty.pickle", pickle.dumps({"segments": [], "device_traces": [[]]}))
        for arguments, said in (
                (["--device", "24", good], '"24" is neither a size'),
                (["--device", "", good], "neither a size"),
                (["--device", "H100", good], "nor one of T4"),
                (["--device", ",".join(["24GiB"] * 9), good], "at most 8 devices"),
                (["--device", "1e99GiB", good], "neither a size"),
                (["--device", "-5GiB", good], "neither a size"),
                (["--other", "much", good], "--other must be a size"),
                (["--other", "30GiB", "--device", "24GiB", good], "leaves nothing of 24GiB"),
                (["--conf", "poison:maybe", good], "poison"),
                ([empty], "there is no history"),
                ([self.folder / "missing.csv"], "cannot be opened"),
                ([self.write("bad.csv", "a,1,2\n")], "bad.csv:1:"),
                ([self.write("bad.pickle", b"\x80\x04garbage")], "bad.pickle"),
                ([good, "--", "true"], "files, or -- and a program"),
                (["--"], "files, or -- and a program"),
                (["--driver", "sim", good], "--driver is for a PROGRAM"),
                ([], "FILE")):
            with self.subTest(said=said):
                result = self.run_tenure("predict", *arguments, code=BAD_INPUT)
                self.assertIn(said, result.stderr)
                self.assertEqual(result.stdout, "")

    def test_sizes_as_people_write_them(self):
        good = self.write("good.csv", trace("a 1 1"))
        sizes = {"1.5GiB": 3 << 29, "1536M": 3 << 29, "1536mib": 3 << 29, "2GB": 2 * 10**9,
                 "0.5T": 1 << 39, "67108864": 1 << 26, "67108865B": (1 << 26) + 1}
        [one] = self.predict(good, "--device", ",".join(sizes))
        self.assertEqual([device["bytes"] for device in one["devices"]], list(sizes.values()))
        for size in ("1.5e300G", "1.G5", "5X", "5MMB", "2000000T", "0x40M", ".5G"):
            self.run_tenure("predict", "--device", size, good, code=BAD_INPUT)

    def test_the_page_and_the_help(self):
        """Docs name what was measured; the help names every device."""
        docs = TRACES.parent.parent / "docs"
        rows = json.loads((docs / "benchmarks/predict.json").read_text())["rows"]
        keys = {"native": "torch", "expandable": "torch_expandable", "tenure": "tenure"}
        off = [abs(row["peak_reserved_bytes"][key] / row["measured"][name] - 1)
               for row in rows for name, key in keys.items()]
        page = " ".join((docs / "predict.md").read_text().split())
        self.assertIn(f"Of these {len(off)} peaks {sum(one == 0 for one in off)} are right to the "
                      f"byte, {sum(one < 0.001 for one in off)} to 0.1 %, and the worst is off by "
                      f"{100 * max(off):.2f} %.", page)
        refused = self.run_tenure("predict", "--device", "X", "x.csv", code=BAD_INPUT).stderr
        known = refused.split("nor one of ")[1].split("\n")[0].split(", ")
        said = self.run_tenure("predict", "--help").stdout
        self.assertGreater(len(known), 10)
        for name in known:
            self.assertIn(name, said)

    def test_a_bad_file_beside_a_good_one(self):
        """Named devices are taken in any case, and a bad file does not keep a good one back."""
        good = self.write("good.csv", trace("a 1 1"))
        result = self.run_tenure("predict", "--json", "--device", "h100-80gb",
                                 self.folder / "missing.csv", good, code=BAD_INPUT)
        [one] = self.json_lines(result)
        self.assertEqual(one["devices"][0]["name"], "H100-80GB")
        self.assertLess(one["devices"][0]["usable_bytes"], one["devices"][0]["bytes"])


if __name__ == "__main__":
    unittest.main()
