#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The best placement without moves that is known for a trace which is repeated for ever.

    bound.py [--tries N] [--seed N] [--json] TRACE...

Somebody who knows the whole trace gives each block one address, the same in each pass, and nothing
ever moves. How much memory that needs at least is what an allocator that has settled can be
compared with. The least is NP-hard to find, so two numbers are printed: `live`, the most that is
live at once, below which nothing can be; and `placed`, the best placement that was found. The truth
is between them. Each printed placement is checked: no two blocks that live together overlap.

Blocks are taken one by one, each to the lowest free address of its whole life, in several orders:
by size, by life, by either in powers of two, by how crowded their time is, and as they come. Then a
seeded search goes on with the best order: blocks that came to lie highest are taken earlier. It
ends with N orders in all, or within 0.1 % of what is live. The same seed gives the same result.

Sizes are rounded up to 512 bytes, as Tenure does; `ratio` is over the bytes that were asked for.
Which stream a block is on does not matter. What a pass leaves live ends with it, as in `tenure
replay --loops`; a block that is freed in a pass before the line that allocates it lives over the
pass's end, from one pass into the next.

Exit codes: 0 done; 2 bad input.
"""
import argparse
import gzip
import json
import pathlib
import random
import sys

GRAIN = 512
NEAR = 1.001  # of what is live; the search does not try to get closer
WIDTH, STEP = 64, 8  # events in the narrowest time slot; how much wider those of the next level are


class BadTrace(Exception):
    """The trace cannot be read; the text says where, and why."""


class Trace:
    """The blocks of a pass. Time is the number of the line: each is an event of its own. Block i
    lives from starts[i] to ends[i], which is after the pass's end where it lives over that."""

    def __init__(self, lines, name):
        self.name, self.sizes, self.starts, self.ends = name, [], [], []
        live, early, at = {}, {}, 0
        for number, line in enumerate(lines, 1):
            words = line.split("#", 1)[0].strip().split(",")
            if words == [""]:
                continue
            try:
                kind, block, size = words[0], int(words[1]), int(words[2])
            except (IndexError, ValueError):
                raise BadTrace(f"{name}:{number}: not op,id,bytes,stream,us") from None
            if kind == "a":
                if block in live or size < 1:
                    raise BadTrace(f"{name}:{number}: block {block} " + (
                        "is live already" if block in live else "has no bytes"))
                live[block] = len(self.sizes)
                self.sizes.append(size)
                self.starts.append(at)
                self.ends.append(None)
            elif kind == "F":
                if block in live:
                    self.ends[live.pop(block)] = at
                elif early.setdefault(block, at) != at:
                    raise BadTrace(f"{name}:{number}: block {block} is freed twice")
            elif kind != "f":
                raise BadTrace(f"{name}:{number}: the operation is '{kind}', not a, F or f")
            at += 1
        self.events = at
        for block, index in live.items():
            self.ends[index] = at + early.pop(block, 0)
        if early:
            raise BadTrace(f"{name}: block {min(early)} is freed and never allocated")
        if not self.sizes:
            raise BadTrace(f"{name}: nothing is allocated")

    def pieces(self, index):
        """When a block lives in a pass: one or two times."""
        start, end = self.starts[index], self.ends[index]
        return [(start, end)] if end <= self.events else [(start, self.events),
                                                          (0, end - self.events)]

    def live(self, sizes):
        """How much is live after each event."""
        change = [0] * (self.events + 1)
        for index, size in enumerate(sizes):
            for start, end in self.pieces(index):
                change[start] += size
                change[end] -= size
        total = 0
        for at, more in enumerate(change):
            total += more
            change[at] = total
        return change


def trace_read(path):
    path = pathlib.Path(path)
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
            return Trace(lines, path.name.removesuffix(".gz").removesuffix(".csv"))
    except (OSError, EOFError, UnicodeDecodeError) as problem:
        raise BadTrace(f"{path}: {problem}") from None


class Slots:
    """Placed blocks by time. A level has slots of one width; a block is in all slots that it
    touches of the narrowest level where those are few."""

    def __init__(self, events):
        self.levels, width = [], WIDTH
        while True:
            self.levels.append((width, [[] for _ in range(events // width + 1)]))
            if width > events:
                break
            width *= STEP

    def add(self, start, end, low, high):
        for width, slots in self.levels:
            first, last = start // width, (end - 1) // width
            if last - first < STEP:
                for slot in slots[first:last + 1]:
                    slot.append((low, high, start, end))
                return

    def busy(self, start, end):
        """The addresses that are taken at any time from start to end, perhaps twice."""
        found = []
        for width, slots in self.levels:
            for slot in slots[start // width:(end - 1) // width + 1]:
                found += [one for one in slot if one[2] < end and one[3] > start]
        return found


def lowest(busy, size, floor):
    """The lowest address from `floor` on that has room beside sorted ranges."""
    at = floor
    for low, high, _, _ in busy:
        if low - at >= size:
            break
        at = max(at, high)
    return at


class Planner:
    """What the tries for one trace have in common."""

    def __init__(self, trace):
        self.trace = trace
        self.sizes = [-(-size // GRAIN) * GRAIN for size in trace.sizes]
        self.live = trace.live(self.sizes)
        self.least = max(self.live)
        self.floor_make()

    def floor_make(self):
        """Blocks of more than half the pass that are live at its peak lie at the bottom and share
        with nobody, if the rest then needs no more: that leaves less to look through."""
        trace, peak = self.trace, self.live.index(self.least)
        self.base, self.floor = {}, 0
        chosen = [i for i in range(len(self.sizes))
                  if 2 * (trace.ends[i] - trace.starts[i]) > trace.events
                  and any(start <= peak < end for start, end in trace.pieces(i))]
        rest = list(self.sizes)
        for i in chosen:
            rest[i] = 0
        if max(trace.live(rest)) + sum(self.sizes[i] for i in chosen) > self.least:
            return
        for i in chosen:
            self.base[i] = self.floor
            self.floor += self.sizes[i]

    def orders(self):
        """The names of orders, each with the key to sort blocks by."""
        trace, sizes = self.trace, self.sizes
        life = [end - start for start, end in zip(trace.starts, trace.ends)]
        crowd = self.crowds()
        return {"size": lambda i: (-sizes[i], -life[i]),
                "time": lambda i: trace.starts[i],
                "life in powers, time": lambda i: (-life[i].bit_length(), trace.starts[i]),
                "size in powers, time": lambda i: (-(sizes[i] ** 2).bit_length(), trace.starts[i]),
                "crowd, life": lambda i: (-crowd[i], -life[i], -sizes[i]),
                "life in powers": lambda i: (-life[i].bit_length(), -sizes[i]),
                "life": lambda i: (-life[i], -sizes[i])}

    def crowds(self):
        """How much is live in the fullest moment of each block's life, in 32 steps."""
        most = [max(self.live[at:at + WIDTH]) for at in range(0, len(self.live), WIDTH)]
        return [max(max(most[start // WIDTH:(end - 1) // WIDTH + 1])
                    for start, end in self.trace.pieces(i)) * 32 // self.least
                for i in range(len(self.sizes))]

    def place(self, order):
        """Takes blocks in this order. Returns an address for each, and what all need."""
        trace, slots = self.trace, Slots(self.trace.events)
        at, top = [0] * len(self.sizes), self.floor
        for index in order:
            if index in self.base:
                at[index] = self.base[index]
                continue
            size, pieces = self.sizes[index], trace.pieces(index)
            busy = [one for piece in pieces for one in slots.busy(*piece)]
            busy.sort()
            low = lowest(busy, size, self.floor)
            at[index] = low
            top = max(top, low + size)
            for start, end in pieces:
                slots.add(start, end, low, low + size)
        return at, top

    def check(self, at):
        """Raises AssertionError if two blocks overlap at any time: says so independently of how
        they were placed."""
        events = []
        for index in range(len(self.sizes)):
            for start, end in self.trace.pieces(index):
                events += [(start, 1, index), (end, 0, index)]
        low, high = {}, {}  # the live ranges by either end; a range between finds its neighbours
        for _, begins, index in sorted(events):
            first, last = at[index], at[index] + self.sizes[index]
            if begins:
                self.live_add(low, high, first, last)
            else:
                self.live_remove(low, high, first, last)

    @staticmethod
    def live_add(low, high, first, last):
        for page in range(first // GRAIN // 4096, (last - 1) // GRAIN // 4096 + 1):
            ranges = low.setdefault(page, {})
            for other, end in ranges.items():
                assert end <= first or other >= last, "two blocks overlap"
            ranges[first] = last
        high[first] = last

    @staticmethod
    def live_remove(low, high, first, last):
        assert high.pop(first) == last
        for page in range(first // GRAIN // 4096, (last - 1) // GRAIN // 4096 + 1):
            del low[page][first]

    def search(self, tries, seed):
        """Returns what the best placement needs, its order's name, and how many were tried."""
        best, place, how, done = None, None, None, 0
        for name, key in self.orders().items():
            if done == tries or (best is not None and best <= self.least * NEAR):
                break
            order = sorted(range(len(self.sizes)), key=key)
            found, top = self.place(order)
            done += 1
            if best is None or top < best:
                best, place, how, name_of_base = top, found, name, name
                base = {index: rank for rank, index in enumerate(order)}
        chance, lift, now = random.Random(seed), [0.0] * len(self.sizes), place
        count = len(self.sizes)
        while done < tries and best > self.least * NEAR:
            goal = self.least + (best - self.least) * chance.random()
            for index in range(count):
                if now[index] + self.sizes[index] > goal:
                    lift[index] += count * chance.uniform(0.02, 0.4)
            order = sorted(range(count), key=lambda i: base[i] - lift[i])
            now, top = self.place(order)
            done += 1
            if top < best:
                best, place, how = top, now, f"{name_of_base}, searched"
        self.check(place)
        return best, how, done


def bound(trace, tries, seed):
    """What is known of a trace, as `--json` prints it."""
    planner = Planner(trace)
    placed, how, done = planner.search(tries, seed)
    live = max(trace.live(trace.sizes))
    return {"trace": trace.name, "blocks": len(trace.sizes), "peak_live_bytes": live,
            "least_bytes": planner.least, "placed_bytes": placed,
            "ratio": round(placed / live, 5), "how": how, "tries": done, "seed": seed}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", metavar="TRACE", nargs="+")
    parser.add_argument("--tries", type=int, default=12, help="orders to try at most (default 12)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="an object for each trace, in a line")
    arguments = parser.parse_args()
    if arguments.tries < 1:
        parser.error("--tries must be at least 1")
    try:
        for path in arguments.traces:
            one = bound(trace_read(path), arguments.tries, arguments.seed)
            print(json.dumps(one) if arguments.json else
                  f"{one['trace']:16} live {one['peak_live_bytes']:14,}  placed "
                  f"{one['placed_bytes']:14,}  ratio {one['ratio']:.5f}  ({one['how']}, "
                  f"{one['tries']} tries)", flush=True)
    except BadTrace as problem:
        print(f"bound.py: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
