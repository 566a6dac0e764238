#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks a snapshot in Tenure's JSON, or many: what docs/snapshots.md promises and a file can show.

    check_snapshot.py [--quiet] [--schema SCHEMA] [--settled] [--complete] FILE...

The schema is checked if it is given (this needs the Python package jsonschema). --settled: every
pool must be settled, as in a program in which nothing else goes on. --complete: the history must
lead to the picture without a gap, from the first record on.

Exit codes: 0 all is well; 1 something is not, and is named; 2 wrong usage.
"""
import argparse
import gzip
import json
import re
import sys


class Wrong(Exception):
    """What is wrong with a snapshot."""


def want(truth, *words):
    if not truth:
        raise Wrong(" ".join(str(word) for word in words))


def load(path):
    with open(path, "rb") as file:
        raw = file.read()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    return json.loads(raw.decode("utf-8"))


def resolved(part, definitions):
    """A schema with its definitions where it refers to them: for each reference that it follows,
    jsonschema makes a validator, which is most of its time."""
    if isinstance(part, list):
        return [resolved(one, definitions) for one in part]
    if not isinstance(part, dict):
        return part
    if "$ref" not in part:
        return {key: resolved(value, definitions) for key, value in part.items() if key != "$defs"}
    want(len(part) == 1, "a reference has something beside it:", part)
    return resolved(definitions[part["$ref"].removeprefix("#/$defs/")], definitions)


def rows(table):
    """The rows of a table as dicts of the columns."""
    columns = table["columns"]
    return [dict(zip(columns, row)) for row in table["rows"]]


def check_references(doc):
    """Rule 5: every index refers to something."""
    limits = {"stack": len(doc["stacks"]), "pool": len(doc["pools"]),
              "stream": len(doc["streams"]), "state": len(doc["states"]),
              "reason": len(doc["reasons"]), "mark": len(doc["strings"]),
              "block": len(doc["blocks"]["rows"]), "function": len(doc["strings"]),
              "file": len(doc["strings"]), "module": len(doc["strings"])}
    for name, kinds in (("segments", None), ("blocks", None), ("frames", None),
                        ("waits", "wait_kinds"), ("history", "kinds")):
        table = doc[name]
        for at, column in enumerate(table["columns"]):
            limit = limits.get(column)
            if column == "kind":
                limit = len(doc[kinds])
            if limit is None:
                continue
            for number, row in enumerate(table["rows"]):
                if not -1 <= row[at] < limit: # a call for each would be much of the time
                    want(False, name, "row", number, "column", column, "is", row[at], "of", limit)
    for number, stack in enumerate(doc["stacks"]):
        for frame in stack:
            want(0 <= frame < len(doc["frames"]["rows"]), "stack", number, "has frame", frame)
    want(doc["stacks"][0] == [] and doc["strings"][0] == "", "stack 0 and string 0 must be empty")
    known = set()
    for number, (path, build_id, *_) in enumerate(doc.get("modules", {"rows": []})["rows"]):
        want(0 < path < len(doc["strings"]) and path not in known, "module", number, "has no path")
        want(0 <= build_id < len(doc["strings"]), "module", number, "has build id", build_id)
        known.add(path)
        text = doc["strings"][build_id]
        want(re.fullmatch("([0-9a-f]{2})*", text), "module", number, "has build id", text)
    for graph in doc["graphs"]:
        want(-1 <= graph["pool"] < len(doc["pools"]), "graph", graph["number"], "has no pool")


def check_tiling(doc):
    """Rule 1: blocks tile their segments."""
    blocks = rows(doc["blocks"])
    next_block = end = 0
    for number, segment in enumerate(rows(doc["segments"])):
        want(segment["address"] >= end, "segment", number, "overlaps the one before")
        want(segment["first_block"] == next_block, "segment", number, "begins at block",
             segment["first_block"], "instead of", next_block)
        want(segment["blocks"] > 0 and segment["bytes"] > 0, "segment", number, "is empty")
        at = segment["address"]
        for block in blocks[next_block:next_block + segment["blocks"]]:
            want(block["address"] == at, "a block of segment", number, "is at",
                 hex(block["address"]), "instead of", hex(at))
            want(0 <= block["requested_bytes"] <= block["bytes"] and block["bytes"] > 0,
                 "the block at", hex(at), "has sizes that cannot be")
            at += block["bytes"]
        end = segment["address"] + segment["bytes"]
        want(at == end, "the blocks of segment", number, "end at", hex(at), "and not at", hex(end))
        next_block += segment["blocks"]
    want(next_block == len(blocks), "there are", len(blocks), "blocks, and segments have",
         next_block)


def check_sums(doc, settled):
    """Rules 2 to 4: sums of pools and devices."""
    states = doc["states"]
    blocks = rows(doc["blocks"])
    sums = [dict.fromkeys(states + ["slack"], 0) for _ in doc["pools"]]
    for segment in rows(doc["segments"]):
        first = segment["first_block"]
        for block in blocks[first:first + segment["blocks"]]:
            state = states[block["state"]]
            mine = sums[segment["pool"]]
            bytes_in = block["requested_bytes"] if state == "live" else block["bytes"]
            mine[state] += bytes_in
            mine["slack"] += block["bytes"] - bytes_in
    for number, pool in enumerate(doc["pools"]):
        want(pool["bytes"] == sums[number], "pool", number, "says", pool["bytes"], "and has",
             sums[number])
        if pool["settled"]:
            want(sum(sums[number].values()) == pool["reserved_bytes"] + pool["asleep_bytes"],
                 "pool", number, "has blocks of", sum(sums[number].values()), "bytes, and reserved",
                 pool["reserved_bytes"], "asleep", pool["asleep_bytes"])
            want(sums[number]["growing"] == 0, "pool", number, "grows and is settled")
        want(pool["settled"] or not settled, "pool", number, "is not settled")
    for device in doc["devices"]:
        for key in ("reserved_bytes", "asleep_bytes"):
            total = sum(pool[key] for pool in doc["pools"] if pool["device"] == device["index"])
            want(device[key] == total, "device", device["index"], "has", key, device[key],
                 "and its pools", total)
        want(device["reserved_peak_bytes"] >= device["reserved_bytes"], "a peak below what is")


def check_waits(doc):
    states = doc["states"]
    last = -1
    for wait in rows(doc["waits"]):
        want(wait["block"] >= last, "waits are not in the order of blocks")
        last = wait["block"]
        state = states[doc["blocks"]["rows"][last][3]]
        want(state in ("live", "retired"), "a", state, "block waits")
        if doc["wait_kinds"][wait["kind"]] == "use":
            want(wait["stream"] >= 0 and wait["mark_number"] > 0, "a use without stream or mark")
            want(state == "retired", "a live block waits for a use")


class Past:
    """The blocks and the memory of a picture, taken back record by record."""

    def __init__(self, doc):
        self.blocks = {}
        for block in rows(doc["blocks"]):
            state = doc["states"][block["state"]]
            if state in ("live", "retired"):
                self.blocks[block["address"]] = (state, block["bytes"])
        self.mapped = {(segment["address"], segment["address"] + segment["bytes"])
                       for segment in rows(doc["segments"])}
        # What grows may have had its memory, or not, or in part.
        self.growing = [(block["address"], block["address"] + block["bytes"])
                        for block in rows(doc["blocks"])
                        if doc["states"][block["state"]] == "growing"]

    def is_growing(self, base, end):
        return any(low < end and base < high for low, high in self.growing)

    def loosen(self, base, end):
        """Memory that nothing is known of: it counts as there, and is not checked."""
        self.growing.append((base, end))

    def find(self, base, end):
        """The stretch that a range is in."""
        for stretch in self.mapped:
            if stretch[0] <= base and end <= stretch[1]:
                return stretch
        return None

    def unmap(self, base, end):
        if self.is_growing(base, end):
            return self.loosen(base, end)
        stretch = self.find(base, end)
        want(stretch is not None, "memory came to", hex(base), "that is not there later")
        for address, (_, size) in self.blocks.items():
            if address < end and base < address + size: # as above
                want(False, "a block before its memory")
        self.mapped.remove(stretch)
        self.mapped |= {part for part in ((stretch[0], base), (end, stretch[1]))
                        if part[0] < part[1]}
        return None

    def map(self, base, end):
        if self.is_growing(base, end):
            return self.loosen(base, end)
        for stretch in list(self.mapped):
            if stretch[0] < end and base < stretch[1]:
                want(False, "memory went from", hex(base), "that is there later")
            if base in (stretch[1],) or end in (stretch[0],):
                self.mapped.remove(stretch)
                base, end = min(base, stretch[0]), max(end, stretch[1])
        self.mapped.add((base, end))
        return None

    def leave(self, record, state):
        """Before the record there was no block in this state."""
        address = record["address"]
        found = self.blocks.pop(address, None)
        if found != (state, record["bytes"]):
            want(False, "at", hex(address), "there is", found, "and not", (state, record["bytes"]))

    def enter(self, record, state):
        address, size = record["address"], record["bytes"]
        want(address not in self.blocks, "at", hex(address), "there is a block already")
        want(self.find(address, address + size) is not None or
             self.is_growing(address, address + size), "a block without memory at", hex(address))
        self.blocks[address] = (state, size)

    def back(self, kind, record):
        end = record["address"] + record["bytes"]
        if kind == "alloc":
            self.leave(record, "live")
        elif kind == "free":
            self.enter(record, "live")
        elif kind == "retire":
            self.leave(record, "retired")
            self.enter(record, "live")
        elif kind == "reuse":
            self.enter(record, "retired")
        elif kind == "grow":
            self.leave(record, "live")
            before = record["bytes"] - record["value"]
            if before > 0:
                self.enter(dict(record, bytes=before), "live")
        elif kind in ("map", "move_in"):
            self.unmap(record["address"], end)
        elif kind in ("unmap", "move_out"):
            self.map(record["address"], end)


def check_history(doc, records, complete):
    """Rule 7: the history leads to the picture."""
    history = doc["history"]
    want(history["written"] >= history["overwritten"] + len(history["rows"]),
         "fewer records written than there are")
    want(history["capacity"] >= len(history["rows"]), "more records than there is room for")
    past = Past(doc)
    after = None
    for number, record in reversed(list(enumerate(records))):
        want(after is None or record["time_ns"] <= after + 1000, "record", number, "is later than",
             "the next by more than clocks differ")
        after = record["time_ns"]
        if record["time_ns"] <= history["complete_since_ns"]:
            want(not complete, "record", number, "is from before a gap")
            break
        try:
            past.back(doc["kinds"][record["kind"]], record)
        except Wrong as wrong:
            raise Wrong(f"record {number}: {wrong}") from None
    if complete:
        want(history["overwritten"] == 0 and history["missed"] == 0, "records are missing")
        want(not past.blocks and not past.mapped, "the history does not begin with nothing: there "
             "are", len(past.blocks), "blocks and", len(past.mapped), "stretches of memory")


def check_launches(doc, records, complete):
    """Each end of a launch says when that was; in a history without gaps it was recorded."""
    launches = set()
    for number, record in enumerate(records):
        kind = doc["kinds"][record["kind"]]
        if kind == "launch":
            launches.add((record["time_ns"], record["pool"], record["stream"]))
        elif kind == "launch_over":
            began = record["time_ns"] - record["value"]
            want(record["value"] >= 0 and began >= 0, "record", number, "is of a launch at", began)
            want(not complete or (began, record["pool"], record["stream"]) in launches, "record",
                 number, "is of a launch that is not there")


def check(doc, settled, complete):
    want(doc["format"] == "tenure-snapshot" and doc["version"] == 1, "not a snapshot")
    check_references(doc)
    check_tiling(doc)
    check_sums(doc, settled)
    check_waits(doc)
    records = rows(doc["history"])
    check_history(doc, records, complete)
    check_launches(doc, records, complete)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--schema")
    parser.add_argument("--settled", action="store_true")
    parser.add_argument("--complete", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    arguments = parser.parse_args()
    validator = None
    if arguments.schema:
        try:
            import jsonschema
        except ImportError:
            print("check_snapshot: without the Python package jsonschema the schema cannot be "
                  "checked; install python3-jsonschema", file=sys.stderr)
            return 2
        schema = load(arguments.schema)
        validator = jsonschema.Draft202012Validator(resolved(schema, schema["$defs"]))
    worst = 0
    for path in arguments.files:
        try:
            doc = load(path)
            if validator is not None:
                for error in validator.iter_errors(doc):
                    where = "/".join(map(str, error.absolute_path))
                    raise Wrong(f"{where}: {error.message[:200]}")
            check(doc, arguments.settled, arguments.complete)
        except (Wrong, KeyError, IndexError, ValueError, TypeError) as wrong:
            print(f"{path}: {wrong!r}" if not isinstance(wrong, Wrong) else f"{path}: {wrong}",
                  file=sys.stderr)
            worst = 1
            continue
        if not arguments.quiet:
            print(f"{path}: {len(doc['segments']['rows'])} segments, "
                  f"{len(doc['blocks']['rows'])} blocks, {len(doc['waits']['rows'])} waits, "
                  f"{len(doc['history']['rows'])} records, {len(doc['stacks'])} stacks: ok")
    return worst


if __name__ == "__main__":
    sys.exit(main())
