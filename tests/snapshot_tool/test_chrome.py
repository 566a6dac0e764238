#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenure snapshot convert --to chrome`: events that viewers can draw, and numbers that are those
of the snapshot.

Seen to fail: with a waiting block that still counts as live; with reserved memory that begins at
0; with lanes that take what does not nest; with texts written without escapes, or cut inside a
letter; with the smallest slices kept instead of the largest; with contradicting records taken; with
launches as instants though they have ends, in the lanes of blocks, or found by their time alone.
"""
import decimal
import gzip
import json
import pathlib
import pickle
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from command import BAD_INPUT, CommandTest  # noqa: E402
import torch_shapes  # noqa: E402

EXAMPLE = pathlib.Path(__file__).resolve().parent.parent / "snapshot/example.json"
HOSTILE = 'a"b\\c</script>\n\x00\x1f\x7f\ud800' + "\u524d\U0001f600" * 300


def rows(document, table):
    """A table of a snapshot as dictionaries."""
    return [dict(zip(document[table]["columns"], row)) for row in document[table]["rows"]]


def picture(document):
    """What a snapshot's blocks add up to, by device: live, waiting, reserved."""
    sums = {one["index"]: {"live": 0, "waiting": 0, "reserved": one["reserved_bytes"]}
            for one in document["devices"]}
    blocks = rows(document, "blocks")
    for segment in rows(document, "segments"):
        into = sums[document["pools"][segment["pool"]]["device"]]
        first = segment["first_block"]
        for block in blocks[first:first + segment["blocks"]]:
            state = document["states"][block["state"]]
            into["live"] += block["requested_bytes"] if state == "live" else 0
            into["waiting"] += block["bytes"] if state == "retired" else 0
    return sums


class Events:
    """The events of a file, checked for what a viewer relies on."""

    def __init__(self, test, text):
        document = json.loads(text, parse_float=decimal.Decimal)
        self.zero_epoch_us = document["otherData"]["zero_epoch_us"]
        self.processes, threads = {}, set()
        self.counters, self.slices, self.instants = {}, [], []
        for event in document["traceEvents"]:
            test.assertGreaterEqual(event["pid"], 1)
            test.assertGreaterEqual(event["tid"], 1)
            test.assertGreaterEqual(event["ts"], 0)
            test.assertTrue(event["name"])
            phase = event["ph"]
            if phase == "M":
                if event["name"] == "process_name":
                    self.processes[event["pid"]] = event["args"]["name"]
                else:
                    test.assertEqual(event["name"], "thread_name")
                    test.assertNotIn((event["pid"], event["tid"]), threads)
                    threads.add((event["pid"], event["tid"]))
                continue
            test.assertIn(event["pid"], self.processes)
            test.assertIn((event["pid"], event["tid"]), threads)
            if phase == "C":
                test.assertEqual(list(event["args"]), ["bytes"])
                test.assertGreaterEqual(event["args"]["bytes"], 0)
                samples = self.counters.setdefault((event["pid"], event["name"]), [])
                test.assertTrue(not samples or samples[-1][0] <= event["ts"])
                samples.append((event["ts"], event["args"]["bytes"]))
            elif phase == "i":
                test.assertIn(event["s"], "tg")
                self.instants.append(event)
            else:
                test.assertEqual(phase, "X")
                self.slices.append(event)
        self.check_nesting(test)

    def check_nesting(self, test):
        """Of one thread, each slice is over before the next, or has it inside."""
        going_on = {}
        last = 0
        for one in self.slices:
            test.assertGreaterEqual(one["ts"], last)
            last = one["ts"]
            end = one["ts"] + one["dur"]
            outer = going_on.setdefault((one["pid"], one["tid"]), [])
            while outer and outer[-1] <= one["ts"]:
                outer.pop()
            test.assertTrue(not outer or end <= outer[-1])
            outer.append(end)

    def check_sums(self, test):
        """At the latest sample of each moment, the slices that go on are what the counter says."""
        for (pid, name), samples in self.counters.items():
            if name == "reserved":
                continue
            key = "requested_bytes" if name == "live" else "bytes"
            own = [(one["ts"], one["ts"] + one["dur"], "ends" in one["args"], one["args"][key])
                   for one in self.slices if one["pid"] == pid and one["cat"] == name]
            for at, bytes_then in dict(samples).items():
                there = sum(size for begin, end, goes_on, size in own
                            if begin <= at and (at < end or goes_on))
                test.assertEqual(there, bytes_then, f"{name} of {pid} at {at}")

    def check_end(self, test, sums):
        """Each counter ends in what the picture adds up to, by the history and once more."""
        test.assertEqual(len(self.counters), 3 * len(sums))
        for pid, (_, wanted) in enumerate(sorted(sums.items()), 1):
            for name, bytes_then in wanted.items():
                samples = self.counters[pid, name]
                test.assertEqual(samples[-1][1], bytes_then, f"{name} of {pid}")
                test.assertEqual(samples[-2][1], bytes_then, f"{name} of {pid}, by the history")


class Chrome(CommandTest):
    def converted(self, path, *options, says=""):
        """The events of a snapshot. Nothing is said on stderr but, perhaps, `says`."""
        out = self.folder / "events.json"
        result = self.run_tenure("snapshot", "convert", "--to", "chrome", *options, path, out)
        if says:
            self.assertIn(says, result.stderr)
        else:
            self.assertEqual(result.stderr, "")
        return Events(self, out.read_text("utf-8"))

    def example(self, change=None):
        document = json.loads(EXAMPLE.read_text("utf-8"))
        if change:
            change(document)
        return document, self.write("a.json", json.dumps(document))

    def test_numbers_are_the_snapshots(self):
        document, path = self.example()
        events = self.converted(path, "--no-symbols")
        self.assertEqual(events.zero_epoch_us, document["time"]["zero_epoch_us"])
        events.check_end(self, picture(document))
        events.check_sums(self)
        allocations = [one for one in document["history"]["rows"] if one[1] == 0]
        live = [one for one in events.slices if one["cat"] == "live"]
        self.assertEqual(sorted(one["ts"] * 1000 for one in live),
                         sorted(one[0] for one in allocations))
        self.assertIn({"address": "0x7e0000000600", "bytes": 65536, "requested_bytes": 65536,
                       "pool": "default", "stack": ["backward model.c:40", "main model.c:80"]},
                      [one["args"] for one in live])
        self.assertEqual({one["name"] for one in live}, {"forward", "backward", "2097152 B"})

    def test_instants(self):
        document, path = self.example()
        kinds = document["kinds"]
        wanted = [kinds[row[1]] for row in document["history"]["rows"] if row[1] >= 9]
        events = self.converted(path, "--no-symbols").instants
        self.assertEqual([one["name"].split(":")[0] for one in events], wanted)
        for one in events:
            if one["name"] == "oom":
                self.assertEqual(one["args"]["bytes"], 68719476736)
                self.assertEqual(one["args"]["could_be_had"], 75161927680)
            if one["name"].startswith("capture"):
                self.assertEqual(one["args"]["graph"], 1)
        self.assertIn("mark: step 1", [one["name"] for one in events])

    @staticmethod
    def with_launches(document, ends):
        """Launches for a history: (time of its record or None, time of its end or None, value of
        that, pool, stream)."""
        table = document["history"]["rows"]
        over = document["kinds"].index("launch_over")
        for began, time, value, pool, stream in ends:
            if began is not None:
                table.append([began, 15, 0, 0, 0, pool, stream, 1, 0, 0, 2, 1])
            if time is not None:
                table.append([time, over, 0, 0, 0, pool, stream, 1, 0, 0, 0, value])
        table.sort(key=lambda row: row[0])

    def launches(self, ends, says="", options=()):
        document, path = self.example(lambda one: self.with_launches(one, ends))
        events = self.converted(path, "--no-symbols", *options, says=says)
        events.check_end(self, picture(document))
        if not options:
            events.check_sums(self)
        return events, [one for one in events.slices if one["cat"] == "launch"]

    def test_launches_have_slices(self):
        # The second begins before the first is over; the third was in the other stream at the same
        # moment as the first.
        events, slices = self.launches([(6000000, 6500000, 500000, 1, 0),
                                        (6100000, 6900000, 800000, 1, 0),
                                        (6000000, 7200000, 1200000, 1, 1)])
        self.assertEqual([(one["ts"], one["dur"], one["name"], one["args"]["graph"],
                           one["args"]["pool"], one["args"]["end"]) for one in slices],
                         [(6000, 1200, "decode graph", 1, "decode graph", "seen over"),
                          (6000, 500, "decode graph", 1, "decode graph", "seen over"),
                          (6100, 800, "decode graph", 1, "decode graph", "seen over")])
        self.assertEqual(slices[0]["args"]["stack"][0], "backward model.c:40")
        # Those of one stream that overlap are on two tracks, and on none of its blocks.
        self.assertEqual(len({one["tid"] for one in slices}), 3)
        blocks = {one["tid"] for one in events.slices if one["cat"] != "launch"}
        self.assertFalse(blocks & {one["tid"] for one in slices})
        # The example's own launch has no end, and is a moment as before.
        launches = [one for one in events.instants if one["name"] == "launch"]
        self.assertEqual([one["ts"] for one in launches], [5000])
        self.assertFalse([one for one in events.instants if one["name"] == "launch_over"])

    def test_names_of_launch_tracks(self):
        self.launches([(6000000, 6500000, 500000, 1, 0), (6100000, 6900000, 800000, 1, 0)])
        text = (self.folder / "events.json").read_text("utf-8")
        self.assertIn('"stream 0x5581a0 launches"', text)
        self.assertIn('"stream 0x5581a0 launches +1"', text)

    def test_ends_without_their_launch(self):
        # Overwritten; of another stream; of another pool. What is no time is left out.
        events, slices = self.launches([(None, 6500000, 500000, 1, 0),
                                        (None, 6600000, 1600000, 1, 1),
                                        (None, 6700000, 1700000, 0, 0),
                                        (None, 6800000, 6800001, 1, 0),
                                        (None, 6900000, -1, 1, 0)])
        self.assertEqual([(one["ts"], one["name"], "graph" in one["args"]) for one in slices],
                         [(5000, "a graph", False), (5000, "a graph", False),
                          (6000, "a graph", False)])
        self.assertEqual(len([one for one in events.instants if one["name"] == "launch"]), 1)

    def test_launches_without_a_pool(self):
        # Of a graph that was adopted: on the device of its stream.
        events, slices = self.launches([(6000000, 6500000, 500000, -1, 1),
                                        (6100000, None, 0, -1, 1)])
        self.assertEqual([(one["pid"], "pool" in one["args"]) for one in slices], [(1, False)])
        self.assertEqual([(one["ts"], one["pid"], one["s"]) for one in events.instants
                          if one["name"] == "launch"], [(5000, 1, "t"), (6100, 1, "t")])

    def test_more_launches_than_slices(self):
        ends = [(6000000 + 1000 * i, 6000500 + 1000 * i, 500, 1, 0) for i in range(40)]
        _, slices = self.launches(ends, says="40 launches: the 9 latest are written",
                                  options=("--slices", "9"))
        self.assertEqual([one["ts"] for one in slices], [6031 + i for i in range(9)])

    def test_a_file_of_before_ends(self):
        _, path = self.example()
        now = self.converted(path, "--no-symbols")
        def older(document):
            at = document["kinds"].index("launch_over")
            del document["kinds"][at]
            for row in document["history"]["rows"]:
                row[1] -= row[1] > at
        _, path = self.example(older)
        before = self.converted(path, "--no-symbols")
        self.assertEqual((before.slices, before.instants, before.counters),
                         (now.slices, now.instants, now.counters))

    def test_a_history_that_begins_late(self):
        # At last nothing but the oom is left, and blocks that wait already.
        for first in range(1, 23):
            with self.subTest(first=first):
                def cut(document, first=first):
                    document["history"]["rows"] = document["history"]["rows"][first:]
                document, path = self.example(cut)
                events = self.converted(path, "--no-symbols")
                events.check_end(self, picture(document))
                events.check_sums(self)
                early = [one for one in events.slices if "began" in one["args"]]
                before = json.loads(EXAMPLE.read_text("utf-8"))["history"]["rows"][:first]
                self.assertEqual(len(early), sum(row[1] == 0 for row in before)
                                 - sum(row[1] == 1 for row in before))

    def test_growth(self):
        def grow(document):
            # The block of 3 MiB had 1 MiB first.
            at = next(i for i, row in enumerate(document["history"]["rows"]) if row[0] == 3000000)
            row = document["history"]["rows"][at]
            row[3] = row[4] = 1 << 20
            document["history"]["rows"].insert(
                at + 1, [3100000, 4, row[2], 3 << 20, 3 << 20, 0, 1, 2, 0, 0, 2, 2 << 20])
        document, path = self.example(grow)
        events = self.converted(path, "--no-symbols")
        events.check_end(self, picture(document))
        samples = dict(events.counters[1, "live"])
        self.assertEqual(samples[3100] - samples[3000], 2 << 20)

    def test_contradictions_are_left_out(self):
        def free(document):
            # A free of what is still live at the end.
            table = document["history"]["rows"]
            at = next(i for i, row in enumerate(table) if row[0] == 5000000) + 1
            one = next(row for row in table if row[0] == 2500000)
            table.insert(at, [5000001, 1, *one[2:]])
        def again(document):
            table = document["history"]["rows"]
            table.insert(12, list(table[11]))
        for change in (free, again):
            document, path = self.example(change)
            events = self.converted(path, "--no-symbols", says="1 record left out")
            events.check_end(self, picture(document))
            events.check_sums(self)

    def test_torch(self):
        for era, expandable in [(2.1, False), (2.8, True), (2.14, True)]:
            with self.subTest(era=era):
                content, _ = torch_shapes.snapshot(era=era, expandable=expandable, devices=2)
                path = self.write("a.pickle", pickle.dumps(content))
                again = self.folder / "a.json"
                self.run_tenure("snapshot", "convert", path, again)
                events = self.converted(path)
                self.assertGreater(len(events.slices), 100)
                events.check_end(self, picture(json.loads(again.read_text("utf-8"))))
                events.check_sums(self)

    def test_hostile_texts(self):
        def rename(document):
            document["strings"] = ["", *[HOSTILE + str(i) for i in range(6)]]
            document["process"]["program"] = HOSTILE
            document["devices"][0]["name"] = document["pools"][0]["name"] = HOSTILE
        _, path = self.example(rename)
        events = self.converted(path, "--no-symbols")
        # What is no letter was replaced when it was read; 200 bytes are written.
        begin = 'a"b\\c</script>\n\ufffd\x1f\x7f'
        names = {one["name"] for one in events.slices if "stack" in one["args"]}
        names |= {one["args"]["pool"] for one in events.slices} - {"decode graph"}
        names |= {one["name"] for one in events.instants if one["name"].startswith("mark")}
        for name in names:
            plain = name.removeprefix("mark: ").removesuffix(" (waiting)")
            self.assertTrue(plain.startswith(begin), plain)
            self.assertTrue(plain.endswith("..."))
            self.assertRegex(plain[30:-3], "^[\u524d\U0001f600]+$")
            self.assertLessEqual(len(plain.encode()), 203)
        for name in events.processes.values():
            self.assertLessEqual(len(name.encode()), 203)

    def test_slices_are_bounded(self):
        _, path = self.example()
        whole = self.converted(path, "--no-symbols")
        for count in range(len(whole.slices)):
            events = self.converted(path, "--no-symbols", "--slices", count,
                                    says=f"the {count} largest are written")
            self.assertEqual([one["args"]["bytes"] for one in sorted(
                events.slices, key=lambda one: -one["args"]["bytes"])],
                sorted((one["args"]["bytes"] for one in whole.slices), reverse=True)[:count])
            self.assertEqual(events.counters, whole.counters)
            self.assertEqual(events.instants, whole.instants)

    def test_wrong_use(self):
        _, path = self.example(lambda document: document["history"].update(
            rows=document["history"]["rows"][-1:]))
        for arguments, words in [(["--to", "chrome", path], "there is no history"),
                                 (["--slices", "5", EXAMPLE], "--slices is for --to chrome"),
                                 (["--to", "chrome", "--slices", "x", EXAMPLE], "--slices must"),
                                 (["--to", "Chrome", EXAMPLE], "tenure, torch or chrome")]:
            out = self.folder / "none.json"
            result = self.run_tenure("snapshot", "convert", *arguments, out, code=BAD_INPUT)
            self.assertIn(words, result.stderr)
            self.assertFalse(out.exists())

    def test_compressed(self):
        out = self.folder / "events.json.gz"
        self.run_tenure("snapshot", "convert", "--to", "chrome", EXAMPLE, out)
        Events(self, gzip.decompress(out.read_bytes()).decode())


if __name__ == "__main__":
    unittest.main(verbosity=2)
