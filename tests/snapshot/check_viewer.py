#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that PyTorch's memory viewer and tools can open a pickle, strictly by the rules that their
readers rely on, without either of them. view.mjs does the same with the viewer itself.

    check_viewer.py [--quiet] [--complete] [--stacks] FILE...

 1. Opcodes: only those that the viewer's own reader knows; protocol 2; nothing that executes; no
    more items at once than a call of a function can have arguments.
 2. Keys: those that a reader needs, of the types that it needs, and no state or action that it does
    not know.
 3. Tiling: the blocks of a segment fill it exactly, in order; sums are right; segments of a device
    are in order and do not overlap.
 4. Backward replay, as "Allocator State History" does it: from the final segments back through the
    trace, every entry must find what it changed, and at each of them every block lies in a segment,
    so that a click on it draws it.
 5. Segments, as that view keeps them: memory of one stream is joined, of two never, and what an
    entry takes away must lie within one of them. Once as PyTorch up to 2.6 names streams, where
    those of a trace that is all on stream 0 have none, and once as later ones do.
 6. Sizes: what is said of one block is the same size wherever it is said.
 7. Streams: memory of a private pool of a capture, which belongs to no stream, is on none that a
    program can have.
 8. Reasons: what an allocation failed for was more than there was.

--complete: the trace must begin with nothing.
--stacks: every allocation and every free must say where it was called from.

Exit codes: 0 all is well; 1 something is not, and is named; 2 wrong usage.
"""
import argparse
import bisect
import gzip
import io
import pickle
import pickletools
import sys

KNOWN = set("""PROTO FRAME MARK STOP EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3
    LIST DICT SETITEM SETITEMS APPEND APPENDS NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1
    BINFLOAT SHORT_BINUNICODE BINUNICODE MEMOIZE BINPUT LONG_BINPUT BINGET LONG_BINGET""".split())
STATES = {"active_allocated", "active_pending_free", "inactive"}
ACTIONS = {"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free",
           "segment_map", "segment_unmap", "snapshot", "oom"}
SEGMENT = {"device": int, "address": int, "total_size": int, "allocated_size": int,
           "active_size": int, "requested_size": int, "stream": int, "segment_type": str,
           "segment_pool_id": tuple, "is_expandable": bool, "frames": list, "blocks": list}
BLOCK = {"address": int, "size": int, "requested_size": int, "state": str, "frames": list}
ENTRY = {"action": str, "size": int, "stream": int, "time_us": int, "compile_context": str}


# What PyTorch's own writer in Python adds at once. The viewer makes each item an argument of one
# call: some 83,000 are too many for Chromium, and 65,536 for others.
ITEMS_AT_ONCE = 1000
NO_STREAM = -1
# Opcodes by what they do to the stack: push one thing, take so many away, close what MARK began.
PUSHES = set("""EMPTY_DICT EMPTY_LIST EMPTY_TUPLE NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1
    BINFLOAT SHORT_BINUNICODE BINUNICODE BINGET LONG_BINGET""".split())
TAKES = {"TUPLE2": 1, "TUPLE3": 2, "SETITEM": 2, "APPEND": 1, "STOP": 1}
CLOSES = {"TUPLE": 1, "LIST": 1, "DICT": 1, "SETITEMS": 0, "APPENDS": 0}


class Wrong(Exception):
    """What is wrong with a pickle."""


def want(truth, *words):
    if not truth:
        raise Wrong(" ".join(str(word) for word in words))


class PlainUnpickler(pickle.Unpickler):
    def find_class(self, module, name):
        raise Wrong(f"it wants {module}.{name}")


# pickletools.genops makes a value of each argument and a call for each opcode, which is most of the
# time for files with millions of them. So, by the byte of an opcode: of those that do nothing else,
# the bytes with the argument, or where the argument's length stands in a byte before it, less than
# 0; and what they add to the stack.
CODES = {one.name: ord(one.code) for one in pickletools.opcodes}
NAMES = {code: name for name, code in CODES.items()}
LEAST = (-1 << 63).to_bytes(8, "little", signed=True) # which has no positive one in 8 bytes
SIZES, CHANGES = [0] * 256, [0] * 256
for one in pickletools.opcodes:
    if one.name in KNOWN - {*CLOSES, "MARK", "PROTO", "STOP", "BINUNICODE"}:
        size = one.arg.n if one.arg else 0
        SIZES[ord(one.code)] = 1 + size if size >= 0 else -2
        CHANGES[ord(one.code)] = 1 if one.name in PUSHES else -TAKES.get(one.name, 0)


def check_opcodes(raw):
    """Up to STOP, as an unpickler reads."""
    protocol = None
    depth = at = 0
    marks = []
    end = len(raw) - 1
    mark, long1, stop = CODES["MARK"], CODES["LONG1"], CODES["STOP"]
    while True:
        if at >= end: # the last byte is STOP
            want(at == end and raw[at] == stop, "it ends without STOP")
            break
        code = raw[at]
        size = SIZES[code]
        if size > 0:
            depth += CHANGES[code]
            at += size
        elif size < 0:
            size = raw[at + 1]
            if code == long1 and size > 7 and (size > 8 or raw[at + 2:at + 10] == LEAST):
                want(False, "at", at, "there is a number of more than 8 bytes")
            depth += 1
            at += 2 + size
        elif code == mark:
            marks.append(depth)
            at += 1
        else:
            name = NAMES.get(code)
            if name in CLOSES:
                first = marks.pop()
                want(name != "APPENDS" or depth - first <= ITEMS_AT_ONCE, "at", at, "there are",
                     depth - first, "items added at once; a viewer takes", ITEMS_AT_ONCE,
                     "for sure")
                depth = first + CLOSES[name]
                at += 1
            elif name == "BINUNICODE":
                depth += 1
                at += 5 + int.from_bytes(raw[at + 1:at + 5], "little")
            elif name == "PROTO":
                protocol = raw[at + 1]
                at += 2
            else:
                want(False, "at", at, "there is the opcode", name or code,
                     "before the end" if name == "STOP" else "that the viewer does not know")
    want(protocol == 2, "protocol", protocol, "instead of 2")


def check_keys(what, thing, keys):
    for key, kind in keys.items():
        if type(thing.get(key)) is not kind: # a call for each would be much of the time
            want(key in thing, what, "has no", key)
            want(False, what, "has", key, "=", repr(thing[key]))


def check_frames(what, frames):
    for frame in frames:
        check_keys(what, frame, {"filename": str, "line": int, "name": str})


def check_segment(number, segment):
    what = f"segment {number}"
    check_keys(what, segment, SEGMENT)
    want(segment["segment_type"] in ("small", "large"), what, "has a strange type")
    want(len(segment["segment_pool_id"]) == 2, what, "has a strange pool")
    at = segment["address"]
    sums = {"allocated_size": 0, "active_size": 0, "requested_size": 0}
    for block in segment["blocks"]:
        check_keys(f"a block of {what}", block, BLOCK)
        check_frames(f"a block of {what}", block["frames"])
        want(block["address"] == at, what, "has a gap at", hex(at))
        want(block["size"] > 0 and block["state"] in STATES, what, "has the block", block)
        at += block["size"]
        if block["state"] == "active_allocated":
            sums["allocated_size"] += block["size"]
        if block["state"] != "inactive":
            sums["active_size"] += block["size"]
            sums["requested_size"] += block["requested_size"]
    want(at == segment["address"] + segment["total_size"], what, "is not filled by its blocks")
    for key, value in sums.items():
        want(segment[key] == value, what, "has", key, segment[key], "and not", value)


class Replay:
    """One device's memory, gone back through its trace."""

    def __init__(self, segments):
        self.blocks = {}
        self.order = []  # addresses of blocks, sorted
        self.mapped = []  # [base, end], sorted, joined
        for segment in sorted(segments, key=lambda segment: segment["address"]):
            self.map(segment["address"], segment["address"] + segment["total_size"])
            for block in segment["blocks"]:
                if block["state"] != "inactive":
                    pending = block["state"] == "active_pending_free"
                    self.put(block["address"], block["size"], pending)

    def stretch(self, address):
        at = bisect.bisect_right(self.mapped, [address, 1 << 64]) - 1
        return at if at >= 0 and self.mapped[at][0] <= address < self.mapped[at][1] else None

    def map(self, base, end):
        at = bisect.bisect_left(self.mapped, [base, end])
        want(at == 0 or self.mapped[at - 1][1] <= base, hex(base), "has memory twice")
        want(at == len(self.mapped) or end <= self.mapped[at][0], hex(base), "has memory twice")
        if at < len(self.mapped) and self.mapped[at][0] == end:
            end = self.mapped.pop(at)[1]
        if at > 0 and self.mapped[at - 1][1] == base:
            base = self.mapped.pop(at - 1)[0]
        bisect.insort(self.mapped, [base, end])

    def unmap(self, base, end):
        at = self.stretch(base)
        want(at is not None and end <= self.mapped[at][1], hex(base), "gets memory and has none")
        low, high = self.mapped.pop(at)
        for part in ([low, base], [end, high]):
            if part[0] < part[1]:
                bisect.insort(self.mapped, part)
        first = bisect.bisect_left(self.order, base)
        want(first == len(self.order) or self.order[first] >= end, "a block lies in", hex(base),
             "before it has memory")

    def put(self, address, size, pending):
        want(address not in self.blocks, hex(address), "is a block twice")
        at = self.stretch(address)
        want(at is not None and address + size <= self.mapped[at][1], "the block at",
             hex(address), "lies in no segment")
        place = bisect.bisect_left(self.order, address)
        if place > 0:
            below = self.order[place - 1]
            want(below + self.blocks[below][0] <= address, "blocks overlap at", hex(address))
        want(place == len(self.order) or address + size <= self.order[place], "blocks overlap at",
             hex(address))
        self.order.insert(place, address)
        self.blocks[address] = [size, pending]

    def back(self, entry):
        action = entry["action"]
        address = entry.get("addr", 0)
        if action == "alloc":
            want(address in self.blocks and not self.blocks[address][1], "the block allocated at",
                 hex(address), "is not there afterwards")
            self.order.pop(bisect.bisect_left(self.order, address))
            del self.blocks[address]
        elif action == "free_completed":
            self.put(address, entry["size"], True)
        elif action == "free_requested":
            want(address in self.blocks and self.blocks[address][1], "the block freed at",
                 hex(address), "does not wait afterwards")
            self.blocks[address][1] = False
        elif action in ("segment_map", "segment_alloc"):
            self.unmap(address, address + entry["size"])
        elif action in ("segment_unmap", "segment_free"):
            self.map(address, address + entry["size"])


class Segments:
    """The list of segments that the viewer keeps while it goes back: [base, end, stream]."""

    def __init__(self, segments):
        self.parts = sorted([segment["address"], segment["address"] + segment["total_size"],
                             segment["stream"]] for segment in segments)

    def map(self, base, end, stream):
        at = bisect.bisect_left(self.parts, base, key=lambda part: part[0])
        self.parts.insert(at, [base, end, stream])
        if at + 1 < len(self.parts) and self.parts[at + 1][::2] == [end, stream]:
            self.parts[at][1] = self.parts.pop(at + 1)[1]
        if at > 0 and self.parts[at - 1][1:] == [base, stream]:
            self.parts[at - 1][1] = self.parts.pop(at)[1]

    def unmap(self, base, end):
        at = bisect.bisect_right(self.parts, base, key=lambda part: part[0]) - 1
        want(at >= 0 and end <= self.parts[at][1], "the viewer has no one segment that", hex(base),
             "to", hex(end), "lies in, only",
             [(hex(part[0]), hex(part[1]), part[2]) for part in self.parts[max(at, 0):at + 2]])
        low, high, stream = self.parts.pop(at)
        if end < high:
            self.parts.insert(at, [end, high, stream])
        if low < base:
            self.parts.insert(at, [low, base, stream])

    def back(self, entry, stream):
        base = entry.get("addr", 0)
        if entry["action"] in ("segment_map", "segment_alloc"):
            self.unmap(base, base + entry["size"])
        elif entry["action"] in ("segment_unmap", "segment_free"):
            self.map(base, base + entry["size"], stream)


class Sizes:
    """Of the blocks that there are at a moment, on the way back through a trace."""

    def __init__(self, segments):
        self.sizes = {block["address"]: block["requested_size"] for segment in segments
                      for block in segment["blocks"] if block["state"] != "inactive"}

    def back(self, entry):
        if entry["action"] not in ("alloc", "free_requested", "free_completed"):
            return
        address, size = entry["addr"], entry["size"]
        if entry["action"] != "free_completed":
            want(self.sizes.get(address) == size, hex(address), "has", size, "bytes here and",
                 self.sizes.get(address), "later")
        if entry["action"] == "alloc":
            del self.sizes[address]
        else:
            self.sizes[address] = size


def check_entry(what, entry):
    check_keys(what, entry, ENTRY)
    want(entry["action"] in ACTIONS, what, "is", entry["action"])
    check_keys(what, entry, {"device_free" if entry["action"] == "oom" else "addr": int})
    if "frames" in entry:
        check_frames(what, entry["frames"])
    want(type(entry.get("user_metadata", "")) is str, what, "has strange user_metadata")


def check_trace(device, trace, segments, options, has_streams):
    """Goes back through the trace of a device as each of the viewers does."""
    replay, sizes = Replay(segments), Sizes(segments)
    viewers = [(Segments(segments), lambda entry: entry["stream"])]
    if not has_streams: # else older ones name them as later ones do
        viewers.append((Segments(segments), lambda entry: None))
    time = None
    for number, entry in reversed(list(enumerate(trace))):
        what = f"entry {number} of device {device}"
        check_entry(what, entry)
        want(time is None or entry["time_us"] <= time + 1, what, "is later than the next")
        time = entry["time_us"]
        try:
            replay.back(entry)
            sizes.back(entry)
            for viewer, stream in viewers:
                viewer.back(entry, stream(entry))
            want(not options.stacks or entry["action"] not in ("alloc", "free_requested")
                 or entry.get("frames"), "it has no stack")
        except Wrong as wrong:
            raise Wrong(f"{what}, {entry['action']}: {wrong}") from None
    want(not options.complete or not (replay.blocks or replay.mapped), "device", device,
         "does not begin with nothing:", len(replay.blocks), "blocks,", len(replay.mapped),
         "stretches")


def check_streams(snapshot):
    """Rule 7, of pickles of Tenure's, which say which pools are of captures."""
    graphs = {(pool["device"], pool["number"]) for pool in snapshot["tenure"]["pools"]
              if pool.get("kind") == "graph"}
    for number, segment in enumerate(snapshot["segments"]):
        is_graph = (segment["device"], segment["segment_pool_id"][1]) in graphs
        want(is_graph == (segment["stream"] == NO_STREAM), "segment", number, "of pool",
             segment["segment_pool_id"], "is on stream", segment["stream"])


def check(snapshot, options):
    want(type(snapshot) is dict, "not a dict")
    for key in ("segments", "device_traces", "external_annotations"):
        want(type(snapshot.get(key)) is list, "no list of", key)
    want(type(snapshot.get("allocator_settings")) is dict, "no allocator_settings")
    want(snapshot["segments"] or any(snapshot["device_traces"]), "neither a segment nor an entry",
         "of a trace, so no device to look at")
    last = (-1, 0)
    for number, segment in enumerate(snapshot["segments"]):
        check_segment(number, segment)
        want((segment["device"], segment["address"]) >= last, "segment", number, "out of order")
        last = (segment["device"], segment["address"] + segment["total_size"])
        want(segment["device"] < len(snapshot["device_traces"]), "segment", number, "has no trace")
    has_streams = any(entry["stream"] for trace in snapshot["device_traces"] for entry in trace)
    for device, trace in enumerate(snapshot["device_traces"]):
        check_trace(device, trace, [s for s in snapshot["segments"] if s["device"] == device],
                    options, has_streams)
    if "tenure" in snapshot:
        check_streams(snapshot)
        for entry in (entry for trace in snapshot["device_traces"] for entry in trace):
            want(entry["action"] != "oom" or entry["device_free"] < entry["size"], "no room for",
                 entry["size"], "bytes, and", entry.get("device_free"), "were free")
        left_out = snapshot["tenure"]["records_left_out"]
        want(not options.complete or left_out == 0, left_out, "records were left out")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--complete", action="store_true")
    parser.add_argument("--stacks", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    arguments = parser.parse_args()
    worst = 0
    for path in arguments.files:
        try:
            with open(path, "rb") as file:
                raw = file.read()
            if raw[:2] == b"\x1f\x8b":
                raw = gzip.decompress(raw)
            check_opcodes(raw)
            snapshot = PlainUnpickler(io.BytesIO(raw)).load()
            check(snapshot, arguments)
        except (Wrong, ValueError, EOFError, pickle.UnpicklingError) as wrong:
            print(f"{path}: {wrong}", file=sys.stderr)
            worst = 1
            continue
        if not arguments.quiet:
            print(f"{path}: {len(snapshot['segments'])} segments, "
                  f"{sum(map(len, snapshot['device_traces']))} entries: ok")
    return worst


if __name__ == "__main__":
    sys.exit(main())
