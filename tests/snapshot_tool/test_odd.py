#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files as people have them: packed, wrapped, of a history that was cut. Each is opened, or refused
for the reason that applies, with what to do.

Seen to fail: with archive_name always null (packed); without the mark of UTF-8 skipped (mark); with
wrapped_find or the check for lists left out (wrapped); with overflow_take left out, and with its
keys not written (overflow); with the contradictions not counted (holes); with empty traces written
(nothing); without annotations_take, without its sort, and with annotations_write left out; with
segments of device -1 not left out, and without what to do (what_to_do); with the report not told
of holes (holes).
"""
import bz2
import collections
import copy
import io
import json
import lzma
import pathlib
import pickle
import sys
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from command import BAD_INPUT, CommandTest  # noqa: E402
import torch_shapes  # noqa: E402


class Odd(CommandTest):
    def summary(self, content, name="a.pickle"):
        path = self.write(name, content if isinstance(content, bytes) else pickle.dumps(content))
        return self.run_tenure("snapshot", "summary", path).stdout

    def refused(self, content, *words):
        path = self.write("a.pickle",
                          content if isinstance(content, bytes) else pickle.dumps(content))
        said = self.run_tenure("snapshot", "summary", path, code=BAD_INPUT).stderr
        for word in words:
            self.assertIn(word, said)

    def test_packed(self):
        plain = pickle.dumps(torch_shapes.snapshot(steps=60)[0], protocol=2)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("archive/data.pkl", plain)
        self.refused(packed.getvalue(), "zip archive", "torch.save", "data.pkl")
        self.refused(bz2.compress(plain), "bzip2", "bunzip2")
        self.refused(lzma.compress(plain), "xz", "unxz")

    def test_a_mark_of_utf_8(self):
        content = torch_shapes.snapshot(steps=60)[0]
        text = json.dumps(content).encode()
        self.assertEqual(self.summary(b"\xef\xbb\xbf" + text, "a.json"),
                         self.summary(text, "a.json"))

    def test_wrapped(self):
        content = torch_shapes.snapshot(seed=3)[0]
        plain = self.summary(content)
        self.assertEqual(self.summary({"snapshot": content, "step": 3, "rank": {"world": 8}}),
                         plain)
        self.refused({"first": content, "second": content}, "this is not a memory snapshot")
        self.refused([content, content], "a list of snapshots", "a file of its own")

    def test_overflow(self):
        """What PyTorch says of its buffer of entries stays, there and back."""
        content = torch_shapes.snapshot(seed=4)[0]
        trace = content["device_traces"][0]
        content["device_traces"][0] = trace[len(trace) // 2:]
        entries = len(content["device_traces"][0])
        self.assertNotIn("not whole", self.summary(content))
        for into in (content, content["allocator_settings"]):
            into["trace_alloc_overflowed"] = [False, True] if into is content else True
            into["trace_alloc_max_entries"] = [entries] * 2 if into is content else entries
            path = self.write("a.pickle", pickle.dumps(content))
            text = self.run_tenure("snapshot", "summary", path).stdout
            self.assertIn(f"not whole: PyTorch keeps {entries} entries", text)
            self.run_tenure("snapshot", "convert", path, self.folder / "a.json")
            history = json.loads((self.folder / "a.json").read_text("utf-8"))["history"]
            self.assertEqual((history["overwritten"], history["capacity"]), (1, entries))
            self.assertEqual(history["complete_since_ns"],
                             history["rows"][0][history["columns"].index("time_ns")])
            self.run_tenure("snapshot", "convert", "--to", "torch", self.folder / "a.json",
                            self.folder / "b.pickle")
            back = pickle.loads((self.folder / "b.pickle").read_bytes())
            self.assertEqual(back["trace_alloc_overflowed"], [True])
            self.assertEqual(back["trace_alloc_max_entries"], [entries])
            del into["trace_alloc_overflowed"], into["trace_alloc_max_entries"]

    def test_holes(self):
        content = torch_shapes.snapshot(seed=5)[0]
        self.assertNotIn("holes", self.summary(content))
        trace = content["device_traces"][0]
        content["device_traces"][0] = trace[:len(trace) * 35 // 100] + \
            trace[len(trace) * 65 // 100:]
        self.assertIn("The history has holes: ", self.summary(content))
        found = json.loads(self.run_tenure("snapshot", "summary", "--json",
                                           self.folder / "a.pickle").stdout)
        self.assertGreater(found["records_contradicting"], 10)
        # The report is told, too; this template has nothing but the place for data.
        page, template = self.folder / "a.html", self.folder / "template.html"
        template.write_text('<script type="application/json" id="tenure-data"></script>')
        self.run_tenure("snapshot", "html", "--template", template, self.folder / "a.pickle", page)
        self.assertTrue(f'"contradicting":{found["records_contradicting"]}}}' in page.read_text())

    def test_annotations(self):
        """The profiler's annotations are marks, in the order of time, and come back."""
        content = torch_shapes.snapshot(steps=60)[0]
        times = [entry["time_us"] for entry in content["device_traces"][0]]
        first, middle, last = times[0], times[len(times) // 2], times[-1]
        content["external_annotations"] = [
            {"stage": "START", "name": "forward", "device": 0, "time_us": middle},
            {"stage": "END", "name": "forward", "device": 0, "time_us": last},
            {"stage": "START", "name": "load", "device": 0, "time_us": first - 50},
            {"name": "no time"}, 7, {"time_us": first}]
        path = self.write("a.pickle", pickle.dumps(content))
        back, again = self.folder / "a.json", self.folder / "b.pickle"
        said = self.run_tenure("snapshot", "convert", "--to", "tenure", path, back).stderr
        self.assertNotIn("annotations", said)
        document = json.loads(back.read_text())
        kinds, history = document["kinds"], document["history"]
        at = {name: history["columns"].index(name) for name in ("time_ns", "kind", "mark")}
        moments = [row[at["time_ns"]] for row in history["rows"]]
        self.assertEqual(moments, sorted(moments))
        self.assertEqual(
            [(document["strings"][row[at["mark"]]], row[at["time_ns"]]) for row in history["rows"]
             if kinds[row[at["kind"]]] == "mark"],
            [("load", 0), ("forward", (middle - first + 50) * 1000),
             ("end of forward", (last - first + 50) * 1000)])
        self.run_tenure("snapshot", "convert", "--to", "torch", path, again)
        written = pickle.loads(again.read_bytes())
        self.assertEqual(written["external_annotations"],
                         [content["external_annotations"][i] for i in (2, 0, 1)])
        self.assertEqual([len(trace) for trace in written["device_traces"]],
                         [len(trace) for trace in content["device_traces"]])

    def test_what_to_do(self):
        """Blocks that don't fill their segment, dictionaries of other kinds, memory of the host."""
        content = copy.deepcopy(torch_shapes.snapshot(steps=60)[0])
        plain = self.summary(content)
        self.refused(collections.OrderedDict(content), "(0x93) imports Python code",
                     "pickle dict(snapshot) in its place")
        self.assertNotIn("dict(snapshot)", self.run_tenure(
            "snapshot", "summary", self.write("a.pickle", pickle.dumps(print)),
            code=BAD_INPUT).stderr)
        host = copy.deepcopy(content["segments"][0])
        host["device"] = -1
        at = host["address"] = 0x7000000000
        for block in host["blocks"]:
            block["address"] = at
            at += block["size"]
        path = self.write("a.pickle", pickle.dumps(
            {**content, "segments": [*content["segments"], host, host]}))
        result = self.run_tenure("snapshot", "summary", path)
        self.assertEqual(result.stdout, plain)
        self.assertIn("pinned host memory (2 segments of device -1) is not kept", result.stderr)
        content["segments"][0]["blocks"] = content["segments"][0]["blocks"][:1]
        self.refused(content, "segments[0]: its blocks are", "Some are left out",
                     "torch.cuda.memory._dump_snapshot")

    def test_zstd(self):
        """Refused by name; this Python can't write it, so the first bytes stand for it."""
        self.refused(b"\x28\xb5\x2f\xfd" + bytes(64), "zstd", "unzstd")

    def test_a_trace_of_nothing(self):
        content = torch_shapes.snapshot(seed=21)[0]
        content["segments"] = []
        path = self.write("a.pickle", pickle.dumps(content))
        said = self.run_tenure("snapshot", "trace", path, self.folder / "a.csv",
                               code=BAD_INPUT).stderr
        self.assertIn("no segments", said)
        self.assertFalse((self.folder / "a.csv").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
