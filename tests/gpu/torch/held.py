#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""held.py SNAPSHOT
held.py --self

What reserved memory consists of where it is much more than what is live. Reads a snapshot that has
all of a program's history: TENURE_CONF=history:light,history_records:1000000 and
tenure.snapshot("memory.json.gz") at the end. Prints JSON, in MiB:

  live      the most that was live at once
  reserved  the most that was mapped at once
  streams   what each stream of a pool had live and mapped at its most; their sum is what the
            streams need if none has memory of another
  graphs    of each pool that captures allocate from: what was handed out in captures, the
            outputs of each graph, and the rest. Outputs are what is live when a capture ends. The
            rest, in whole pages of 2 MiB, is all that is idle for certain between two launches: an
            engine that rebuilds the outputs of a replay need not say when they die

--self checks the arithmetic.

Exit codes: 0 done; 1 the history is not complete; 2 wrong usage.
"""
import collections
import gzip
import json
import sys

MIB = 1 << 20
PAGE = 2 * MIB
SIGNS = {"map": 1, "move_in": 1, "unmap": -1, "move_out": -1}


def mib(count):
    return round(count / MIB, 1)


class Peaks:
    """Bytes by key, and the most that each and all together had."""

    def __init__(self):
        self.now, self.most, self.sum, self.together = collections.Counter(), {}, 0, 0

    def add(self, key, count):
        self.now[key] += count
        self.sum += count
        self.most[key] = max(self.most.get(key, 0), self.now[key])
        self.together = max(self.together, self.sum)


def pages_of(ranges):
    return {page for base, end in ranges for page in range(base // PAGE, (end - 1) // PAGE + 1)}


class Graphs:
    """What captures hand out, by pool."""

    def __init__(self):
        self.under_way = 0
        self.handed_out, self.outputs = collections.defaultdict(list), collections.defaultdict(list)

    def told(self):
        told = {}
        for pool, ranges in self.handed_out.items():
            used = pages_of(ranges)
            outputs = pages_of([one for of in self.outputs[pool] for one in of])
            told[pool] = dict(
                handed_out=mib(PAGE * len(used)),
                outputs=[mib(sum(end - base for base, end in of)) for of in self.outputs[pool]],
                never_output=mib(PAGE * len(used - outputs)))
        return told


def read(snapshot):
    history, kinds = snapshot["history"], snapshot["kinds"]
    at = {name: i for i, name in enumerate(history["columns"])}
    live, mapped, graphs, blocks = Peaks(), Peaks(), Graphs(), {}
    for row in history["rows"]:
        kind, address, count = kinds[row[at["kind"]]], row[at["address"]], row[at["bytes"]]
        key = (row[at["pool"]], row[at["stream"]])
        if kind == "alloc":
            blocks[address] = (count, key)
            live.add(key, count)
            if graphs.under_way > 0:
                graphs.handed_out[key[0]].append((address, address + count))
        elif kind in ("free", "retire") and address in blocks:
            count, key = blocks.pop(address)
            live.add(key, -count)
        elif kind in SIGNS:
            mapped.add(key, SIGNS[kind] * count)
        elif kind == "capture_begin":
            graphs.under_way += 1
        elif kind in ("capture_end", "capture_abort"):
            graphs.under_way -= 1
            for pool in graphs.handed_out if kind == "capture_end" else ():
                graphs.outputs[pool].append([(base, base + count) for base, (count, key)
                                             in blocks.items() if key[0] == pool])
    names = [pool["name"] for pool in snapshot["pools"]]
    return dict(
        live=mib(live.together), reserved=mib(mapped.together),
        streams=[dict(pool=names[pool], stream=stream, live=mib(most),
                      mapped=mib(mapped.most.get((pool, stream), 0)))
                 for (pool, stream), most in sorted(live.most.items())],
        sum=mib(sum(live.most.values())),
        graphs={names[pool]: told for pool, told in graphs.told().items()})


def check_self():
    """Two streams that need their most at different times, and a graph of which 4 MiB stay."""
    kinds = ["alloc", "free", "map", "capture_begin", "capture_end"]
    rows = [("map", 0, 8, 0, 0), ("alloc", 0, 8, 0, 0), ("free", 0, 8, 0, 0),
            ("map", 16, 6, 0, 1), ("alloc", 16, 6, 0, 1), ("free", 16, 6, 0, 1),
            ("map", 32, 8, 1, 2), ("capture_begin", 0, 0, -1, -1), ("alloc", 32, 4, 1, 2),
            ("alloc", 36, 4, 1, 2), ("free", 32, 4, 1, 2), ("capture_end", 0, 0, -1, -1)]
    snapshot = dict(
        kinds=kinds, pools=[dict(name="default"), dict(name="graphs")],
        history=dict(columns=["kind", "address", "bytes", "pool", "stream"],
                     rows=[[kinds.index(kind), address * MIB, count * MIB, pool, stream]
                           for kind, address, count, pool, stream in rows]))
    found = read(snapshot)
    assert (found["live"], found["sum"], found["reserved"]) == (8, 22, 22), found
    assert [(one["live"], one["mapped"]) for one in found["streams"]] == [(8, 8), (6, 6), (8, 8)]
    assert found["graphs"] == {"graphs": dict(handed_out=8, outputs=[4], never_output=4)}, found
    print("the arithmetic is right")
    return 0


def main():
    if sys.argv[1:] == ["--self"]:
        return check_self()
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    opened = gzip.open if sys.argv[1].endswith(".gz") else open
    with opened(sys.argv[1], "rt", encoding="utf-8") as file:
        snapshot = json.load(file)
    if snapshot["history"].get("overwritten", 0) or snapshot["history"].get("missed", 0):
        print("the history has lost records: more history_records", file=sys.stderr)
        return 1
    print(json.dumps(read(snapshot), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
