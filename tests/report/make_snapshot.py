#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_snapshot.py OUT.json [--records N] [--blocks N] [--steps N] [--seed N] [--hostile]
                  [--named]

Writes a snapshot (docs/snapshots.md) of a program that never ran: an engine that serves a language
model on a few streams, with weights, a KV cache, activations, graphs, and blocks that wait for
another stream. The history and the picture agree with each other, as those of a real one do. Same
arguments, same file. OUT may end in .gz.

--records is how many records the history keeps; older ones count as overwritten. --blocks is how
many small live blocks there are at least. --hostile gives names that would run as HTML if a page
let them; --named gives streams names, and a graph to every request, with the ends of its launches.
"""
import argparse
import gzip
import json
import random

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
STATES = ["live", "retired", "binned", "free", "releasing", "growing"]
KINDS = ["alloc", "free", "retire", "reuse", "grow", "map", "unmap", "move_in", "move_out",
         "oom", "pool_made", "pool_ended", "capture_begin", "capture_end", "capture_abort",
         "launch", "launch_over", "sleep", "wake", "mark", "snapshot"]
REASONS = ["", "bin", "index", "flush", "retired", "moved", "shared", "grown", "reclaimed",
           "same stream", "event done", "ordered by clock", "waited on device", "ordered by graph"]
WAIT_KINDS = ["use", "free_sync", "graph", "capture"]
K = {name: code for code, name in enumerate(KINDS)}
HOSTILE = ["<img src=x onerror=\"document.title='owned'\">", "</script><script>owned()</script>",
           "\u202egnp.exe", "__proto__", "constructor", "a" * 3000, "<!--", "&lt;b&gt;",
           "javascript:owned()", "\x00\x07\x1b[31m"]
FUNCTIONS = [  # function, file, line, caller
    ("load_weights", "engine/weights.cc", 212),
    ("KvCache::reserve_pages", "engine/kv_cache.cc", 88),
    ("attention_forward", "kernels/attention.cu", 341), ("mlp_forward", "kernels/mlp.cu", 127),
    ("rms_norm", "kernels/norm.cu", 54), ("sample_logits", "engine/sampler.cc", 61),
    ("all_reduce_bucket", "comm/reduce.cc", 190), ("copy_to_host", "engine/output.cc", 33),
    ("rotary_embed", "kernels/rope.cu", 45), ("workspace_for_gemm", "kernels/gemm.cu", 502),
    ("prefill_chunk", "engine/prefill.cc", 149), ("decode_step", "engine/decode.cc", 97),
]
CALLERS = [("run_layer", "engine/layer.cc", 75), ("serve_batch", "engine/serve.cc", 310),
           ("main", "engine/main.cc", 41)]


def round_up(value, unit):
    return (value + unit - 1) // unit * unit


class Arena:
    """Addresses of one pool and stream: segments that are filled from below, and free lists by
    size. Blocks never merge, which a picture does not show."""

    def __init__(self, pool, stream, base, segment_bytes, writer):
        self.pool, self.stream, self.next_base = pool, stream, base
        self.segment_bytes, self.writer = segment_bytes, writer
        self.segments, self.free_lists = [], {}

    def take(self, size):
        listed = self.free_lists.get(size)
        if listed:
            return listed.pop(), 1
        if not self.segments or self.segments[-1]["used"] + size > self.segments[-1]["bytes"]:
            length = max(self.segment_bytes, round_up(size, 2 * MIB))
            self.segments.append({"address": self.next_base, "bytes": length, "used": 0,
                                  "sizes": []})
            self.writer.record("map", self.next_base, length, 0, self.pool, self.stream, 0, 0)
            self.next_base += length + 64 * MIB
        segment = self.segments[-1]
        address = segment["address"] + segment["used"]
        segment["used"] += size
        segment["sizes"].append(size)
        return address, 7

    def give(self, address, size):
        self.free_lists.setdefault(size, []).append(address)


class Writer:
    """The program, its history and its picture."""

    def __init__(self, arguments):
        self.random = random.Random(arguments.seed)
        self.kept, self.hostile = arguments.records, arguments.hostile
        self.named = arguments.named
        self.records, self.now, self.mark = [], 1_000_000, 0
        self.strings, self.string_numbers = [""], {"": 0}
        self.frames, self.stacks, self.arenas = [], [[]], {}
        self.live, self.retired, self.marks = {}, [], 0
        self.make_stacks()

    def string(self, text):
        if text not in self.string_numbers:
            self.string_numbers[text] = len(self.strings)
            self.strings.append(text)
        return self.string_numbers[text]

    def make_stacks(self):
        def frame(function, file, line):
            self.frames.append([self.string(function), self.string(file), line,
                                self.string("engine"), 4096 + 64 * len(self.frames)])
            return len(self.frames) - 1
        functions = list(FUNCTIONS)
        if self.hostile:
            functions = [(HOSTILE[i % len(HOSTILE)], HOSTILE[(i + 3) % len(HOSTILE)], line)
                         for i, (_, _, line) in enumerate(FUNCTIONS)]
        callers = [frame(*caller) for caller in CALLERS]
        for index, function in enumerate(functions):
            inner = frame(*function)
            self.stacks.append([inner] + (callers if index else callers[1:]))

    def arena(self, pool, stream):
        if (pool, stream) not in self.arenas:
            base = 0x7f0000000000 + (len(self.arenas) << 38)
            segment = 512 * MIB if pool == 0 else 64 * MIB
            self.arenas[pool, stream] = Arena(pool, stream, base, segment, self)
        return self.arenas[pool, stream]

    def record(self, kind, address, size, requested, pool, stream, reason, stack, value=0):
        self.records.append([self.now, K[kind], address, size, requested, pool, stream,
                             1 + stream % 4 if stream >= 0 else 1, reason, self.mark, stack, value])
        if len(self.records) > 2 * self.kept + 1000:
            self.dropped += len(self.records) - self.kept
            del self.records[:-self.kept]

    dropped = 0

    def alloc(self, requested, stream, stack, pool=0):
        size = round_up(requested, 512 if requested < MIB else 2 * MIB)
        address, reason = self.arena(pool, stream).take(size)
        self.now += self.random.randrange(200, 3000)
        self.record("alloc", address, size, requested, pool, stream, reason, stack)
        self.live[address] = (size, requested, pool, stream, stack, self.now)
        return address

    def free(self, address, waits_for=None):
        size, requested, pool, stream, stack, made = self.live.pop(address)
        self.now += self.random.randrange(100, 1500)
        if waits_for is None:
            self.record("free", address, size, requested, pool, stream, 9, stack)
            self.arena(pool, stream).give(address, size)
        else:
            self.marks += 1
            self.record("retire", address, size, requested, pool, stream, 0, stack)
            self.retired.append((address, size, requested, pool, stream, stack, self.now, made,
                                 waits_for, self.marks))

    def reuse(self, keep):
        while len(self.retired) > keep:
            address, size, requested, pool, stream, stack, *_ = self.retired.pop(0)
            self.now += 300
            self.record("reuse", address, size, requested, pool, stream, 10, 0)
            self.arena(pool, stream).give(address, size)

    def say(self, text):
        self.mark = self.string(text)
        self.record("mark", 0, 0, 0, -1, -1, 0, 0)

    # ---- the program ----

    def start(self, blocks):
        self.say("load")
        for layer in range(32):
            for size in (192 * MIB, 192 * MIB, 96 * MIB, 16 * KIB):
                self.alloc(size - 100 * (layer % 3), 0, 1)
            self.now += 20_000_000
        for _ in range(64):
            self.alloc(128 * MIB, 0, 2)
        for index in range(blocks):
            self.alloc(512 * (1 + index % 9) - index % 200, index % 4, 1 + index % 12)
        self.capture()
        self.say("serve")

    def capture(self):
        for graph in (1, 2):
            self.record("pool_made", 0, 0, 0, graph, -1, 0, 0, graph)
            self.record("capture_begin", 0, 0, 0, graph, 0, 0, 0, graph)
            for _ in range(6):
                self.alloc(8 * MIB, 4, 12, graph)
            self.record("capture_end", 0, 0, 0, graph, 0, 0, 0, graph)

    def step(self, number, depth):
        """One request: activations go up and down; what other streams read must wait."""
        stream = number % 3
        held = []
        batch = (1, 2, 2, 4)[self.random.randrange(4)]
        for layer in range(depth):
            for stack, size in ((3, 12 * MIB), (4, 24 * MIB), (5, 96 * KIB), (9, 2 * MIB),
                                (10, 48 * MIB)):
                held.append(self.alloc(size * batch - 64 * layer, stream, stack))
            while len(held) > 24:
                self.free(held.pop(self.random.randrange(6)))
        shared = self.alloc(160 * MIB, stream, 7)
        logits = self.alloc(128 * KIB * batch, stream, 6)
        for address in held:
            self.free(address)
        self.free(shared, waits_for=3)
        self.free(logits, waits_for=2 if stream != 2 else 1)
        if self.named:
            self.launch(1 + number % 2, stream)
        elif number % 7 == 3:
            self.record("launch", 0, 0, 0, 1, stream, 0, 0, 1)
        self.reuse(4 + 3 * (number % 5))
        if number % 50 == 49:
            self.alloc(120 * MIB, 1, 11)  # what grows and is never freed
        self.now += 1_500_000

    def launch(self, graph, stream):
        """A launch, and the moment at which it was seen to be over."""
        self.record("launch", 0, 0, 0, graph, stream, 0, 0, graph)
        ns = self.random.randrange(400_000, 1_100_000)
        self.now += ns
        self.record("launch_over", 0, 0, 0, graph, stream, 0, 0, ns)

    # ---- the picture ----

    def place_blocks(self):
        waiting = {entry[0]: entry for entry in self.retired}
        segments, blocks, waits = [], [], []
        in_order = sorted(self.arenas.values(), key=lambda one: one.segments[0]["address"])
        for number, arena in enumerate(in_order, 1):
            for segment in arena.segments:
                first, address = len(blocks), segment["address"]
                for size in segment["sizes"]:
                    blocks.append(self.block_row(address, size, waiting, len(blocks), waits))
                    address += size
                rest = segment["address"] + segment["bytes"] - address
                if rest:
                    blocks.append([address, rest, 0, 3, -1, 0])
                segments.append([segment["address"], segment["bytes"], arena.pool, arena.stream,
                                 0, first, len(blocks) - first, number])
        return segments, blocks, waits

    def block_row(self, address, size, waiting, number, waits):
        if address in self.live:
            _, requested, _, _, stack, since = self.live[address]
            if size == 128 * MIB and number % 5 == 0:
                waits.append([number, 2, -1, -1, -1, 1])
            return [address, size, requested, 0, since, stack]
        if address in waiting:
            stack, since, made, stream, mark = waiting[address][5:]
            waits.append([number, 0, stream, mark, since, -1])
            return [address, size, size, 1, made, stack]
        return [address, size, 0, 2 if size < MIB else 3, -1, 0]

    def pools(self, segments, blocks):
        names = [("default", "default"), ("decode graph", "graph"), ("prefill graph", "graph")]
        if self.hostile:
            names = [(HOSTILE[index], kind) for index, (_, kind) in enumerate(names)]
        pools = []
        for number, (name, kind) in enumerate(names):
            sums = dict.fromkeys(["live", "slack", "retired", "binned", "free", "releasing",
                                  "growing"], 0)
            reserved = 0
            for row in segments:
                if row[2] == number:
                    reserved += row[1]
                    for _, size, requested, state, _, _ in blocks[row[5]:row[5] + row[6]]:
                        sums[STATES[state]] += requested if state == 0 else size
                        sums["slack"] += size - requested if state == 0 else 0
            pools.append({"device": 0, "number": number, "name": name, "kind": kind,
                          "state": "awake", "reserved_bytes": reserved, "asleep_bytes": 0,
                          "limit_bytes": None, "chunks": reserved // (2 * MIB), "settled": True,
                          "bytes": sums})
        return pools

    def graphs(self, waits):
        kept = sum(1 for wait in waits if wait[1] == 2)
        audits = [dict(found=14, own=8, kept=kept, shared=0, loose=0, freed=0, unmapped=0,
                       unread=0),
                  dict(found=9, own=6, kept=0, shared=0, loose=2, freed=1, unmapped=0, unread=0)]
        names = HOSTILE[:2] if self.hostile else ["decode graph", "prefill graph"]
        return [{"number": number, "name": name, "device": 0, "pool": number, "state": "captured",
                 "blocks": 6, "reused": 0, "launches": 40 * number,
                 "kept_blocks": kept if number == 1 else 0,
                 "kept_bytes": kept * 128 * MIB if number == 1 else 0, "audit": audit}
                for number, (name, audit) in enumerate(zip(names, audits), 1)]

    def document(self):
        self.now += 50_000
        self.record("snapshot", 0, 0, 0, -1, -1, 0, 0)
        segments, blocks, waits = self.place_blocks()
        pools = self.pools(segments, blocks)
        reserved = sum(pool["reserved_bytes"] for pool in pools)
        rows = self.records[-self.kept:] if self.kept else []
        written = self.dropped + len(self.records)
        streams = [{"device": 0, "handle": hex(0x5581a0 + 0x40 * number), "kind": "stream",
                    "thread": 0, "ended": False} for number in range(4)]
        if self.hostile:
            for number, stream in enumerate(streams):
                stream["name"] = HOSTILE[number]
        elif self.named:
            for name, stream in zip(("prefill", "decode", "sampling", "copies"), streams):
                stream["name"] = name
        streams.append({"device": 0, "handle": "0x0", "kind": "graph", "thread": 0,
                        "ended": False})
        return {
            "format": "tenure-snapshot", "version": 1,
            "writer": {"name": "make_snapshot.py", "version": "1"}, "reason": "call",
            "process": {"pid": 4711, "program": HOSTILE[0] if self.hostile else "llm-engine"},
            "time": {"taken_ns": self.now, "zero_epoch_us": 1790000000000000},
            "driver": {"path": "libcuda.so.1", "version": 13000, "simulated": False},
            "settings": {"history": "full", "chunk_mb": "2"},
            "strings": self.strings,
            "frames": {"columns": ["function", "file", "line", "module", "offset"],
                       "rows": self.frames},
            "stacks": self.stacks,
            "devices": [{"index": 0, "name": "NVIDIA H200", "memory_bytes": 141 * GIB,
                         "memory_free_bytes": 141 * GIB - reserved, "reserved_bytes": reserved,
                         "reserved_peak_bytes": reserved, "asleep_bytes": 0, "limit_bytes": None,
                         "ooms": 0, "retries": 0}],
            "pools": pools, "streams": streams, "states": STATES,
            "segments": {"columns": ["address", "bytes", "pool", "stream", "small", "first_block",
                                     "blocks", "arena"], "rows": segments},
            "blocks": {"columns": ["address", "bytes", "requested_bytes", "state", "time_ns",
                                   "stack"], "rows": blocks},
            "wait_kinds": WAIT_KINDS,
            "waits": {"columns": ["block", "kind", "stream", "mark_number", "since_ns", "graph"],
                      "rows": waits},
            "graphs": self.graphs(waits), "kinds": KINDS, "reasons": REASONS,
            "history": {"mode": "full" if self.kept else "off", "capacity": max(self.kept, 1),
                        "written": written, "overwritten": written - len(rows), "missed": 0,
                        "complete_since_ns": rows[0][0] if rows else 0,
                        "columns": ["time_ns", "kind", "address", "bytes", "requested_bytes",
                                    "pool", "stream", "thread", "reason", "mark", "stack", "value"],
                        "rows": rows},
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--blocks", type=int, default=500)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hostile", action="store_true")
    parser.add_argument("--named", action="store_true")
    arguments = parser.parse_args()
    writer = Writer(arguments)
    writer.start(arguments.blocks)
    for number in range(arguments.steps):
        writer.step(number, 3 + writer.random.randrange(6))
    opener = gzip.open if arguments.out.endswith(".gz") else open
    with opener(arguments.out, "wt", encoding="utf-8") as file:
        json.dump(writer.document(), file, separators=(",", ":"))


if __name__ == "__main__":
    main()
