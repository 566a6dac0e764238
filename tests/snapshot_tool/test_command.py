#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenure snapshot` from outside: help, options, words, exit codes, files that cannot be written.

Seen to fail: with the temporary file left behind after an error; with '<' not escaped in JSON;
with a diff that tells stacks apart by their numbers; with blocks that need not tile; with
compressed data that may end early.
"""
import base64
import gzip
import json
import os
import pathlib
import pickle
import re
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from command import BAD_INPUT, CHECK_FAILED, CommandTest, NO_MEMORY, TENURE  # noqa: E402
import torch_shapes  # noqa: E402

COMMANDS = ["summary", "diff", "convert", "trace", "html"]
EXAMPLE = pathlib.Path(__file__).resolve().parent.parent / "snapshot/example.json"
HOLE = '<script type="application/json" id="tenure-data"></script>'


class Usage(CommandTest):
    def test_help(self):
        text = self.run_tenure("snapshot", "--help").stdout
        self.assertEqual(text, self.run_tenure("help", "snapshot").stdout)
        for command in COMMANDS:
            self.assertRegex(text, rf"(?m)^  {command} ")
            own = self.run_tenure("snapshot", command, "--help").stdout
            self.assertIn(f"Usage: tenure snapshot {command}", own)
            self.assertIn("Exit codes:", own)
            self.assertLessEqual(max(map(len, own.splitlines())), 100)

    def test_wrong_usage(self):
        for arguments, words in [
            ([], "Usage:"),
            (["sumary"], '"sumary"'),
            (["summary"], "argument is missing"),
            (["summary", EXAMPLE, "extra"], "unexpected argument"),
            (["summary", "--top", "0", EXAMPLE], "--top must be"),
            (["summary", "--max-memory", "0", EXAMPLE], "--max-memory must be"),
            (["convert", "--to", "csv", EXAMPLE, "-"], "tenure, torch or chrome"),
            (["trace", "--device", "3", EXAMPLE, "-"], "device 3"),
            (["html", "--template", "/nonexistent.html", EXAMPLE, "-"], None),
            (["summary", "/nonexistent"], "No such file"),
            (["summary", "/"], "Is a directory"),
        ]:
            with self.subTest(arguments=arguments):
                result = self.run_tenure("snapshot", *arguments, code=[BAD_INPUT, CHECK_FAILED])
                self.assertIn(words or "cannot be opened", result.stderr)
                self.assertEqual(result.stdout, "")

    def test_no_device_is_needed(self):
        self.run_tenure("snapshot", "summary", EXAMPLE,
                        environment={"TENURE_DRIVER": "/nonexistent/lib.so"})


class Files(CommandTest):
    def test_not_a_snapshot(self):
        for content, words in [
            (b"", "empty"),
            (b"\x7fELF\x02\x01\x01", "at byte 0"),
            (b"{}", "not a memory snapshot"),
            (b"[1]", "segments[0]"),
            (pickle.dumps({"a": 1}), "not a memory snapshot"),
            (pickle.dumps(print), "(0x93) imports Python code"),
            (gzip.compress(b"{}")[:-3], "ends too early"),
        ]:
            path = self.write("bad", content)
            result = self.run_tenure("snapshot", "summary", path, code=BAD_INPUT)
            self.assertIn(words, result.stderr)
            self.assertIn(f"{path}: ", result.stderr)
            self.assertEqual(result.stdout, "")

    def test_code_in_a_pickle_is_not_run(self):
        mark = self.folder / "was-run"

        class Bomb:
            def __reduce__(self):
                return os.mkdir, (str(mark),)

        for protocol in range(6):
            path = self.write("bomb.pickle", pickle.dumps({"segments": [Bomb()]}, protocol))
            result = self.run_tenure("snapshot", "summary", path, code=BAD_INPUT)
            self.assertIn("nothing in it was run", result.stderr)
            self.assertFalse(mark.exists())

    def test_memory_limit(self):
        content, _ = torch_shapes.snapshot(steps=12000)
        path = self.write("a.pickle", pickle.dumps(content))
        self.run_tenure("snapshot", "summary", path)
        result = self.run_tenure("snapshot", "summary", "--max-memory", "1", path, code=NO_MEMORY)
        self.assertIn("--max-memory", result.stderr)
        # A bomb of zeros: 64 MiB of one text from 64 KiB.
        bomb = b"\x80\x04\x8d" + (64 << 20).to_bytes(8, "little") + bytes(64 << 20) + b"."
        path = self.write("bomb.gz", gzip.compress(bomb))
        self.run_tenure("snapshot", "summary", "--max-memory", "16", path, code=NO_MEMORY)

    def test_tables_of_ours_are_checked(self):
        """One wrong number at a time, in each table: refused, with its place."""
        def change(path, to):
            document = json.loads(EXAMPLE.read_text("utf-8"))
            at = document
            for step in path[:-1]:
                at = at[step]
            at[path[-1]] = to
            return document

        for path, to, words in [
            (["blocks", "rows", 3, 0], 5, "blocks[3]: it begins at 5"),
            (["blocks", "rows", 3, 1], 0, "blocks[3]"),
            (["blocks", "rows", 0, 2], 4096, "4096 were asked for"),
            (["blocks", "rows", 0, 3], 6, '"state" is 6'),
            (["blocks", "rows", 0, 5], 9, '"stack" is 9'),
            (["blocks", "rows", 0], [1, 2], "2 values for 6 columns"),
            (["blocks", "rows", 0, 1], 1.5, "value 1 is a fraction"),
            (["blocks", "columns", 3], "colour", 'the column "state" is missing'),
            (["segments", "rows", 1, 1], 4096, "segments[1]: its blocks are 8388608"),
            (["segments", "rows", 1, 5], 3, "segments[1]: its first block is 3"),
            (["segments", "rows", 1, 6], 2, "its blocks are"),
            (["segments", "rows", 1, 2], 7, '"pool" is 7'),
            (["segments", "rows", 3, 6], 99, "beyond the 10"),
            (["waits", "rows", 0, 0], 10, '"block" is 10'),
            (["history", "rows", 5, 1], 99, "history[5]"),
            (["history", "rows", 5, 8], -1, '"reason" is -1'),
            (["history", "rows", 5, 5], 7, 'history[5]: "pool" is 7, but there are'),
            (["history", "rows", 5, 10], 1 << 40, 'history[5]: "stack" is 1099511627776;'),
            (["history", "rows", 5, 3], -1, 'history[5]: "bytes" must not be negative'),
            (["history", "rows", 5], [1, 2], "history[5]: the row has 2 values for 12 columns"),
            (["history", "mode"], 3, '"mode" must be a text'),
            (["stacks", 1], [7], "stacks[1]: frame 0"),
            (["frames", "rows", 0, 0], 70, "frames[0]"),
            (["strings", 0], "x", "string 0 must be the empty one"),
            (["devices", 0, "index"], 999, "device 999"),
            (["pools", 1, "device"], 1, "device 1 is not among"),
            (["streams", 0, "handle"], "12", '"handle" is "12"'),
            (["graphs", 0, "pool"], 5, "graphs[0]"),
            (["version"], 2, "version 2"),
            (["time"], None, '"time" must be a dictionary, not nothing'),
        ]:
            with self.subTest(path=path):
                file = self.write("bad.json", json.dumps(change(path, to)))
                result = self.run_tenure("snapshot", "summary", file, code=BAD_INPUT)
                self.assertIn(words, result.stderr)

    def test_rows_before_their_columns(self):
        """They are read, if not one by one."""
        document = json.loads(EXAMPLE.read_text("utf-8"))
        history = document["history"]
        document["history"] = {"rows": history.pop("rows"), **history}
        path = self.write("a.json", json.dumps(document))
        for order in (EXAMPLE, path):
            self.run_tenure("snapshot", "convert", "--to", "tenure", order,
                            self.folder / f"to_{order.name}")
        self.assertEqual((self.folder / "to_a.json").read_text("utf-8"),
                         (self.folder / f"to_{EXAMPLE.name}").read_text("utf-8"))

    def test_other_documents_with_a_history(self):
        rows = json.loads(EXAMPLE.read_text("utf-8"))["history"]
        for document in ({"history": rows}, ["history", rows], {"segments": [], "history": rows}):
            path = self.write("a.json", json.dumps(document))
            said = self.run_tenure("snapshot", "summary", path, code=BAD_INPUT).stderr
            self.assertIn("this is not a memory snapshot", said)

    def test_unknown_keys_and_columns_are_ignored(self):
        document = json.loads(EXAMPLE.read_text("utf-8"))
        document["weather"] = ["sunny"]
        document["blocks"]["columns"].append("colour")
        for row in document["blocks"]["rows"]:
            row.append(7)
        document["kinds"].append("teleport")
        document["history"]["rows"].append([9900001, 20, 1, 2, 3, 0, 0, 1, 0, 0, 0, 0])
        path = self.write("new.json", json.dumps(document))
        self.assertEqual(self.run_tenure("snapshot", "summary", path).stdout.split("\n", 1)[1],
                         self.run_tenure("snapshot", "summary", EXAMPLE).stdout.split("\n", 1)[1])

    def test_output_that_cannot_be_written(self):
        for arguments in [["convert"], ["convert", "--to", "chrome"], ["trace"]]:
            for target, words in [("/dev/full", "No space left"), ("/nonexistent/x", "No such"),
                                  (self.folder, "Is a directory")]:
                result = self.run_tenure("snapshot", *arguments, EXAMPLE, target,
                                         code=CHECK_FAILED)
                self.assertIn(words, result.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_bad_input_leaves_no_output(self):
        bad = self.write("bad", b"\x80\x02cos\nsystem\n.")
        old = self.write("out.pickle", b"old")
        self.run_tenure("snapshot", "convert", bad, old, code=BAD_INPUT)
        self.assertEqual(old.read_bytes(), b"old")
        self.assertEqual(len(list(self.folder.iterdir())), 2)


class Torn(CommandTest):
    """Files that are two, or not yet one: said, or read rightly; nothing is passed over."""
    COMMANDS = [["summary"], ["summary", "--json"], ["html"], ["convert", "--to", "tenure"],
                ["convert", "--to", "chrome"], ["trace"], ["diff"]]

    ENDS = r"the file (ends inside|is (cut off|shorter))|only \d+ bytes follow"

    def pickled(self):
        path = self.folder / "one.pickle"
        self.run_tenure("snapshot", "convert", "--to", "torch", EXAMPLE, path)
        return path.read_bytes()

    def each_command(self, path, code):
        """What each says of it; of an error there is nothing but the sentence."""
        for command in self.COMMANDS:
            files = {"summary": [path], "diff": [path, EXAMPLE]}.get(command[0])
            out = self.folder / "out"
            result = self.run_tenure("snapshot", *command, *(files or [path, out]), code=code)
            if code == BAD_INPUT:
                self.assertIn(f"{path}: at byte ", result.stderr, command)
                self.assertEqual(result.stdout, "")
                self.assertFalse(out.exists())
            yield result
        yield self.run_tenure("explain", "0x1000", path, code=code)

    def test_two_in_a_row(self):
        ours, theirs = EXAMPLE.read_bytes(), self.pickled()
        for content, words in [(theirs + theirs, "the pickle ends here and the file goes on"),
                               (theirs + b" \n\0", "the pickle ends here and the file goes on"),
                               (ours + ours, "trailing garbage"),
                               (ours + theirs, "trailing garbage"),
                               (theirs + ours, "the file goes on"),
                               (gzip.compress(theirs) * 2, "the file goes on"),
                               (gzip.compress(ours) * 2, "trailing garbage")]:
            path = self.write("two", content)
            for result in self.each_command(path, BAD_INPUT):
                self.assertIn(words, result.stderr)

    def test_white_space_may_follow(self):
        for content in (self.pickled() + b"\r\n", EXAMPLE.read_bytes() + b" \t\n"):
            self.run_tenure("snapshot", "summary", self.write("end", content))

    def test_one_in_two_members(self):
        """gzip's own way of putting files together: what they hold is one."""
        plain = self.run_tenure("snapshot", "summary", "--json", EXAMPLE).stdout
        content = EXAMPLE.read_bytes()
        for at in (1, len(content) // 2, len(content) - 1):
            path = self.write("two.gz", gzip.compress(content[:at]) + gzip.compress(content[at:]))
            for result in self.each_command(path, 0):
                self.assertNotIn("at byte", result.stderr)
            shown = self.run_tenure("snapshot", "summary", "--json", path).stdout
            self.assertEqual(json.loads(shown) | {"file": ""}, json.loads(plain) | {"file": ""})

    def test_half_written(self):
        """Cut off behind each bracket and comma of a table, and in a pickle at parts of it."""
        ours, theirs = EXAMPLE.read_bytes(), self.pickled()
        edges = [at + 1 for at, one in enumerate(ours.rstrip()[:-1]) if one in b"{}[]"]
        for at in edges[::max(1, len(edges) // 40)]:
            path = self.write("half.json", ours[:at])
            said = self.run_tenure("snapshot", "summary", path, code=BAD_INPUT).stderr
            self.assertIn(f"{path}: at byte ", said)
        edges = [at + 1 for at, one in enumerate(theirs[:-1]) if one in b"}](eu"]
        for at in edges[::max(1, len(edges) // 40)]:
            path = self.write("half.pickle", theirs[:at])
            said = self.run_tenure("snapshot", "summary", path, code=BAD_INPUT).stderr
            self.assertRegex(said, rf"half.pickle: at byte \d+: .*({self.ENDS})")
        for content in (ours[:len(ours) // 2], theirs[:len(theirs) // 2],
                        gzip.compress(ours)[:-9], gzip.compress(theirs)[:-1]):
            path = self.write("half", content)
            for result in self.each_command(path, BAD_INPUT):
                self.assertEqual(result.stdout, "")

    def test_a_file_that_grows(self):
        """Read from a pipe into which it is still being written, it is whole in the end; who stops
        writing in the middle has written half a file."""
        content = self.pickled()
        pipe = self.folder / "pipe.pickle"
        os.mkfifo(pipe)
        for whole in (True, False):
            def write(is_whole=whole):
                with open(pipe, "wb", buffering=0) as out:
                    for at in range(0, len(content) if is_whole else len(content) // 2, 500):
                        out.write(content[at:at + 500])
            writer = threading.Thread(target=write)
            writer.start()
            result = self.run_tenure("snapshot", "summary", pipe,
                                     code=0 if whole else BAD_INPUT)
            writer.join()
            said = re.search(self.ENDS, result.stderr)
            self.assertEqual(said is None, whole, result.stderr)

    def test_a_trace_twice(self):
        """Its numbers come again; where all are freed that is a program that does it again."""
        trace = self.folder / "a.trace"
        self.run_tenure("snapshot", "trace", EXAMPLE, trace)
        text = trace.read_text("utf-8")
        again = self.write("two.trace", text + text)
        said = self.run_tenure("replay", "--driver", "sim", again, code=BAD_INPUT).stderr
        self.assertRegex(said, r"two\.trace:\d+: id \d+ is allocated while it is still live")
        half = self.write("half.trace", text[:text.rindex(",")])
        said = self.run_tenure("replay", "--driver", "sim", half, code=BAD_INPUT).stderr
        self.assertIn("half.trace:", said)


class NamesOfStreams(CommandTest):
    NAME = 'copies "\u00e9" </script><script>owned()</script>\x1b[31m'

    def named(self, name):
        document = json.loads(EXAMPLE.read_text("utf-8"))
        at = next(at for at, one in enumerate(document["streams"]) if one["kind"] == "stream")
        document["streams"][at]["name"] = name
        return document, at, self.write("named.json", json.dumps(document))

    def test_there_and_back(self):
        document, at, path = self.named(self.NAME)
        there, back = self.folder / "there.pickle", self.folder / "back.json"
        self.run_tenure("snapshot", "convert", "--to", "torch", path, there)
        stream = document["streams"][at]
        self.assertEqual(pickle.loads(there.read_bytes())["tenure"]["streams"],
                         [{"device": 0, "stream": int(stream["handle"], 16), "name": self.NAME}])
        self.run_tenure("snapshot", "convert", "--to", "tenure", there, back)
        streams = json.loads(back.read_text("utf-8"))["streams"]
        self.assertEqual([one["name"] for one in streams if "name" in one], [self.NAME])
        self.assertEqual(next(one for one in streams if "name" in one)["handle"],
                         stream["handle"])

    def test_shown(self):
        document, at, path = self.named("prefetch")
        handle = document["streams"][at]["handle"]
        text = self.run_tenure("snapshot", "summary", path).stdout
        self.assertIn(f"prefetch ({handle}", text)
        self.run_tenure("snapshot", "convert", "--to", "chrome", path, self.folder / "chrome.json")
        events = json.loads((self.folder / "chrome.json").read_text("utf-8"))["traceEvents"]
        threads = [one["args"]["name"] for one in events if one["name"] == "thread_name"]
        self.assertTrue([one for one in threads if one.startswith(f"prefetch (stream {handle}")],
                        threads)
        address = next(row[0] for row in document["blocks"]["rows"][
            next(row[5] for row in document["segments"]["rows"] if row[3] == at):])
        self.assertIn('"prefetch"', self.run_tenure("explain", hex(address), path).stdout)

    def test_bad_names(self):
        path = self.named("a\x1b[31m\n\x7f")[2]  # of a file that somebody made by hand
        self.assertIn("a?[31m?? (0x", self.run_tenure("snapshot", "summary", path).stdout)
        for name, words in [(5, '"name" must be a text'), (None, '"name" must be a text')]:
            path = self.named(name)[2]
            said = self.run_tenure("snapshot", "summary", path, code=BAD_INPUT).stderr
            self.assertIn(words, said)
        # Cut off in tables, and nowhere inside of a character.
        path = self.named("\u524d\U0001f600" * 300)[2]
        self.run_tenure("snapshot", "summary", path).stdout.encode("utf-8", "strict")
        self.run_tenure("snapshot", "convert", "--to", "chrome", path, self.folder / "chrome.json")
        json.loads((self.folder / "chrome.json").read_bytes().decode("utf-8", "strict"))
        content, _ = torch_shapes.snapshot(steps=50)
        content["tenure"] = {"waits": [], "pools": [], "records_overwritten": 0,
                             "records_missed": 0, "streams": [{"device": 0, "stream": 0}]}
        path = self.write("bad.pickle", pickle.dumps(content))
        said = self.run_tenure("snapshot", "summary", path, code=BAD_INPUT).stderr
        self.assertIn('tenure.streams[0]: the key "name" is missing', said)


class Words(CommandTest):
    def test_summary_of_the_example(self):
        text = self.run_tenure("snapshot", "summary", EXAMPLE).stdout
        document = json.loads(EXAMPLE.read_text("utf-8"))
        held = sum(row[1] for row in document["blocks"]["rows"] if row[3] == 1)
        for words in ["16.00 MiB are reserved.", f"{held / 2**20:.2f} MiB wait", "decode graph",
                      "backward model.c:40 < main model.c:80", "work on stream 0x5581b0",
                      "graph 1", "0.800 ms", "ran out of memory 1 time."]:
            self.assertIn(words, text)

    def test_who_wrote_it(self):
        """Seen to fail with the writer's name alone, and that in small letters."""
        head = self.run_tenure("snapshot", "summary", EXAMPLE).stdout.splitlines()[0]
        self.assertIn(": a snapshot of Tenure 0.1.0 in engine, 1 device,", head)

    def test_a_history_without_times(self):
        """The peak is placed by its record. Seen to fail with "? before the end"."""
        content, _ = torch_shapes.snapshot(seed=3)
        for trace in content["device_traces"]:
            for entry in trace:
                entry.pop("time_us", None)
        path = self.write("a.pickle", pickle.dumps(content))
        text = self.run_tenure("snapshot", "summary", path).stdout
        self.assertRegex(text, r"had [0-9.]+ .iB in use, after record [0-9]+ of [0-9]+\.\n")
        self.assertNotIn("?", text)

    def test_long_names_break_behind_a_scope(self):
        """Seen to fail with names that are broken where the line is full."""
        content, _ = torch_shapes.snapshot(seed=3)
        name = "net::blocks::AttentionWithRotaryEmbedding::projection_of_queries_and_keys"
        for segment in content["segments"]:
            for block in segment["blocks"]:
                block["frames"] = [{"name": name, "filename": "??", "line": 0}]
        path = self.write("a.pickle", pickle.dumps(content))
        text = self.run_tenure("snapshot", "summary", path).stdout
        self.assertRegex(text, r"(?m)^net::blocks::AttentionWithRotaryEmbedding:: +[0-9.]+ .iB")
        self.assertRegex(text, r"(?m)^  projection_of_queries_and_keys$")

    def test_no_blanks_at_the_end(self):
        """Rows that go on, and cells that are empty. Seen to fail with rows of full width."""
        content, _ = torch_shapes.snapshot(seed=3)
        path = self.write("a.pickle", pickle.dumps(content))
        text = self.run_tenure("snapshot", "summary", path).stdout
        self.assertRegex(text, r"\n  < ")
        self.assertNotRegex(text, r" \n")

    def test_json_has_all(self):
        shown = json.loads(self.run_tenure("snapshot", "summary", "--json", EXAMPLE).stdout)
        document = json.loads(EXAMPLE.read_text("utf-8"))
        sums = [pool["bytes"] for pool in document["pools"]]
        self.assertEqual(shown["live_bytes"], sum(one["live"] + one["slack"] for one in sums))
        self.assertEqual(shown["retired_bytes"], sum(one["retired"] for one in sums))
        self.assertEqual(shown["reserved_bytes"], document["devices"][0]["reserved_bytes"])
        self.assertEqual(sum(one["bytes"] for one in shown["waits"]),
                         sum(document["blocks"]["rows"][row[0]][1]
                             for row in document["waits"]["rows"]))

    def test_ours_to_ours_loses_nothing(self):
        self.run_tenure("snapshot", "convert", "--to", "tenure", EXAMPLE, self.folder / "a.json")
        self.assertEqual(json.loads((self.folder / "a.json").read_text("utf-8")),
                         json.loads(EXAMPLE.read_text("utf-8")))

    def test_what_a_conversion_loses_is_said(self):
        result = self.run_tenure("snapshot", "convert", EXAMPLE, self.folder / "a.pickle")
        for words in ["binned", "pool_made", "modules and offsets", "graphs (1)", "threads"]:
            self.assertIn(words, result.stderr)
        back = pickle.loads((self.folder / "a.pickle").read_bytes())
        self.assertEqual([one["kind"] for one in back["tenure"]["waits"]], ["use", "use", "graph"])
        self.assertEqual([one["name"] for one in back["tenure"]["pools"]],
                         ["default", "decode graph"])
        # Nobody's memory changes by it.
        shown = json.loads(self.run_tenure("snapshot", "diff", "--json", EXAMPLE,
                                           self.folder / "a.pickle").stdout)
        self.assertEqual(shown["before"], shown["after"])
        for row in shown["rows"]:
            self.assertEqual(row["before_bytes"], row["after_bytes"])
            self.assertEqual(row["new_blocks"], 0)

    def test_json_of_what_is_written(self):
        """Each command that writes a file says in one object what it wrote; the words stay on
        stderr. Seen to fail: with the objects printed before the file is there (the refusals)."""
        def said(*arguments, **how):
            result = self.run_tenure("snapshot", *arguments, **how)
            return json.loads(result.stdout) if result.stdout else None, result.stderr

        out = self.folder / "a.pickle"
        found, words = said("convert", "--json", EXAMPLE, out)
        self.assertEqual((found["file"], found["out"], found["format"]),
                         (str(EXAMPLE), str(out), "torch"))
        self.assertEqual(words.count("not kept: "), len(found["not_kept"]))
        for sentence in found["not_kept"]:
            self.assertIn(f"not kept: {sentence}\n", words)
        found, _ = said("convert", "--to", "tenure", "--json", EXAMPLE, self.folder / "a.json")
        self.assertEqual((found["format"], found["not_kept"]), ("tenure", []))

        found, words = said("trace", "--json", EXAMPLE, self.folder / "a.csv")
        lines = [line[:2] for line in (self.folder / "a.csv").read_text().splitlines()]
        self.assertEqual(found["device"], 0)
        self.assertEqual(found["early_allocations"], 0)
        self.assertEqual(found["allocations"], lines.count("a,"))
        self.assertIn(f"{found['allocations']} allocations, {found['early_allocations']} of them",
                      words)
        self.assertEqual(found["live_blocks_at_end"], found["allocations"] - found["frees"])

        template = self.write("report.html", HOLE + "\n")
        found, _ = said("html", "--json", "--template", template, "--records", "10", "--compare",
                        out, EXAMPLE, self.folder / "a.html")
        records = len(json.loads(EXAMPLE.read_text("utf-8"))["history"]["rows"])
        self.assertEqual((found["records"], found["compared_with"], found["contradictions"]),
                         (records, str(out), 0))
        self.assertGreater(found["records_left_out"], 0)
        found, _ = said("html", "--json", "--template", template, EXAMPLE, self.folder / "a.html")
        self.assertEqual((found["records_left_out"], found["compared_with"]), (0, None))

        for command in ("convert", "trace", "html"):
            found, words = said(command, "--json", EXAMPLE, "-", code=BAD_INPUT)
            self.assertIsNone(found)
            self.assertIn("OUT must be a file: standard output is for the object", words)
            found, _ = said(command, "--json", *(["--template", template] if command == "html"
                                                 else []), EXAMPLE, "/nowhere/at/all",
                            code=CHECK_FAILED)
            self.assertIsNone(found)

    def test_diff_finds_what_leaks(self):
        content, _ = torch_shapes.snapshot(steps=100)
        before = self.write("before.pickle", pickle.dumps(content))
        leak = [{"filename": "/srv/leak.py", "line": 99, "name": "forget"}]
        blocks = content["segments"][0]["blocks"]
        place = next(at for at, one in enumerate(blocks)
                     if one["state"] == "inactive" and one["size"] > 3000)
        block = blocks[place]
        blocks[place:place + 1] = [
            {"address": block["address"] + 1024 * part, "size": 1024, "requested_size": 1000,
             "state": "active_allocated", "frames": leak} for part in range(2)
        ] + [dict(block, address=block["address"] + 2048, size=block["size"] - 2048)]
        after = self.write("after.pickle", pickle.dumps(content))
        shown = json.loads(self.run_tenure("snapshot", "diff", "--json", before, after).stdout)
        first = shown["rows"][0]
        self.assertEqual(first["name"], "forget leak.py:99")
        self.assertEqual((first["after_bytes"] - first["before_bytes"], first["new_blocks"]),
                         (2048, 2))
        text = self.run_tenure("snapshot", "diff", before, after).stdout
        self.assertIn("1 place holds 2.00 KiB more than before.", text)
        self.assertIn("Nothing that is live grew.",
                      self.run_tenure("snapshot", "diff", after, before).stdout)

    def test_no_history_is_said(self):
        content, _ = torch_shapes.snapshot()
        content["device_traces"] = [[]]
        path = self.write("a.pickle", pickle.dumps(content))
        result = self.run_tenure("snapshot", "trace", path, "-", code=BAD_INPUT)
        self.assertIn("_record_memory_history", result.stderr)


class Html(CommandTest):
    def embedded(self, text, identifier):
        found = re.search(rf'<script type="[^"]*" id="{identifier}" data-name="([^"]*)">'
                          r"([^<]*)</script>", text)
        self.assertIsNotNone(found, identifier)
        return found.groups()

    def test_fills_the_template(self):
        template = self.write("report.html", f"<html>\n<script>1 < 2</script>\n{HOLE}\n</html>\n")
        # Names of functions that would end the element, or the page, if they were not escaped.
        content, _ = torch_shapes.snapshot()
        content["device_traces"][0][0]["frames"][0]["name"] = "</script><script>alert(1)<!--"
        big = self.write('b"<&.pickle', pickle.dumps(content))
        content["device_traces"] = []
        for part in content["segments"]:
            for block in part["blocks"]:
                block["frames"] = [{"filename": "<!--", "line": 1, "name": "</script><b>"}]
        small = self.write("small.pickle", pickle.dumps(content))
        self.run_tenure("snapshot", "html", "--template", template, "--compare", big, small,
                        self.folder / "out.html")
        text = (self.folder / "out.html").read_text("utf-8")
        self.assertTrue(text.startswith("<html>\n<script>1 < 2</script>\n"))
        self.assertTrue(text.endswith("</script>\n</html>\n"))
        name, data = self.embedded(text, "tenure-data")
        self.assertEqual(name, "small.pickle")
        self.assertIn("</script><b>", json.loads(data)["strings"])
        self.assertEqual(text.count("</script"), text.count("<script"))
        torch = self.write("big.pickle", pickle.dumps(torch_shapes.snapshot(steps=3000)[0]))
        self.run_tenure("snapshot", "html", "--template", template, "--compare", small, torch,
                        self.folder / "out.html")
        text = (self.folder / "out.html").read_text("utf-8")
        name, data = self.embedded(text, "tenure-data-gz")
        document = json.loads(gzip.decompress(base64.b64decode(data, validate=True)))
        self.assertEqual((name, document["format"]), ("big.pickle", "tenure-snapshot"))
        self.embedded(text, "tenure-data-b")

    def test_name_is_escaped(self):
        template = self.write("report.html", HOLE + "\n")
        path = self.write('a"<&.json', EXAMPLE.read_bytes())
        self.run_tenure("snapshot", "html", "--template", template, path, self.folder / "o.html")
        name, _ = self.embedded((self.folder / "o.html").read_text("utf-8"), "tenure-data")
        self.assertEqual(name, "a&quot;&lt;&amp;.json")

    def test_the_report_itself(self):
        """The one that was built beside the command, if there was a Node.js to build it with."""
        built = pathlib.Path(TENURE).parent.parent / "share/tenure/report.html"
        if not built.exists():
            result = self.run_tenure("snapshot", "html", EXAMPLE, self.folder / "o.html",
                                     code=BAD_INPUT)
            self.assertIn("Node.js", result.stderr)
            return
        self.run_tenure("snapshot", "html", EXAMPLE, self.folder / "o.html")
        text = (self.folder / "o.html").read_text("utf-8")
        _, data = self.embedded(text, "tenure-data")
        self.assertEqual(json.loads(data), json.loads(EXAMPLE.read_text("utf-8")))
        self.assertEqual(text.replace(text[text.rindex("<script "):text.rindex("</script>")], ""),
                         built.read_text("utf-8").replace(HOLE, "</script>"))

    def test_other_files_are_no_template(self):
        result = self.run_tenure("snapshot", "html", "--template", EXAMPLE, EXAMPLE,
                                 self.folder / "o.html", code=CHECK_FAILED)
        self.assertIn("is not the report's template", result.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
