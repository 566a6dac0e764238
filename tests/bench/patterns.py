#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes patterns of allocations that are hard on an allocator, as traces for `tenure replay`.

    patterns.py --list               each pattern, and what perfect placement needs for it
    patterns.py NAME                 the trace of one pattern, to stdout
    patterns.py --all FOLDER         all of them, as FOLDER/NAME.csv

A trace is one pass: it begins with nothing and frees everything, so that it can be repeated for
ever. An operation takes 10 us. Chance is seeded: a pattern is the same each time.

The last sentence of a pattern says what somebody needs who places its blocks once, knowing all, and
never moves one, in each pass again; "the peak" is the most that is live at once, below which
nothing can be. tests/bench/bound.py finds it, or, "as far as is known", nothing better.
"""
import argparse
import pathlib
import random
import sys

KIB, MIB = 1 << 10, 1 << 20
PATTERNS = {}


def pattern(make):
    PATTERNS[make.__name__] = make
    return make


class Pass:
    """A pass being written: `a` gives a block back that `free` takes."""

    def __init__(self, name):
        self.lines, self.sizes, self.live = [], {}, 0
        self.chance = random.Random(name)

    def line(self, op, block, size, stream):
        self.lines.append(f"{op},{block},{size},{stream},{10 * len(self.lines)}")

    def a(self, size, stream=0):
        block = len(self.sizes)
        self.sizes[block] = (int(size), stream)
        self.line("a", block, *self.sizes[block])
        self.live += int(size)
        return block

    def several(self, sizes, stream=0):
        return [self.a(size, stream) for size in sizes]

    def free(self, *blocks):
        for block in blocks:
            self.line("F", block, *self.sizes[block])
            self.live -= self.sizes[block][0]

    def fill(self, size, limit, stream=0):
        """Blocks of a size while all that is live stays below the limit."""
        blocks = []
        while self.live + size <= limit:
            blocks.append(self.a(size, stream))
        return blocks


# ---- six that were seen never to settle -----------------------------------------------------

@pattern
def checker(run):
    """Each second of many blocks goes, and what comes is a quarter larger, twelve times over.
    Needs a twentieth more than the peak, as far as is known: what stays leaves unfit holes."""
    blocks, size = run.several([3 * MIB] * 170), 3 * MIB
    for _ in range(12):
        run.free(*blocks[1::2])
        size += size // 4
        blocks = blocks[::2] + run.fill(size, 512 * MIB)
    run.free(*blocks)


@pattern
def pingpong2(run):
    """Two streams in turn, each with eight blocks that are a MiB larger on the second.
    Needs the peak: the turns never overlap."""
    for turn in range(200):
        odd = turn % 2
        run.free(*run.several([(10 + 3 * i + odd) * MIB for i in range(8)], odd))


@pattern
def pingpong3(run):
    """Three streams in turn, the same bytes nearly, cut into other blocks on each.
    Needs the peak: the turns never overlap."""
    cuts = [[100, 60, 30, 20], [70] * 3, [33, 41, 57, 79]]
    for turn in range(300):
        stream = turn % 3
        run.free(*run.several([mib * MIB - 4 * KIB * stream for mib in cuts[stream]], stream))


@pattern
def phases8(run):
    """Eight streams in turn fill the memory; each sixteenth block stays until the stream's next.
    Needs 1.01 of the peak, as far as is known: what stays can lie together."""
    stay = [[] for _ in range(8)]
    for turn in range(24):
        stream = turn % 8
        blocks = run.fill((stream + 1) * 700 * KIB, 512 * MIB + (stream + 1) * 700 * KIB - 1,
                          stream)
        run.free(*(block for i, block in enumerate(blocks) if i % 16), *stay[stream])
        stay[stream] = blocks[::16]
    run.free(*(block for blocks in stay for block in blocks))


@pattern
def mib512(run):
    """Many blocks of a MiB and 512 bytes, each fourth stays, then blocks of 28 MiB.
    Needs the peak: that is of the first blocks, and what stays can lie together."""
    blocks = run.several([MIB + 512] * 1500)
    run.free(*(block for i, block in enumerate(blocks) if i % 4))
    run.free(*run.several([28 * MIB] * 40), *blocks[::4])


@pattern
def small_large(run):
    """All memory in blocks of 900 KiB, then all of it in blocks of 33 MiB, ten times.
    Needs the peak: only one of the two is live."""
    for size in [900 * KIB, 33 * MIB] * 10:
        run.free(*run.fill(size, 400 * MIB + size - 1))


# ---- inference ------------------------------------------------------------------------------

@pattern
def kv_doubling(run):
    """Sixteen caches of keys and values grow by doubling, the old copy goes after the new came.
    Needs the peak: whoever knows the last, largest caches puts the early ones under them."""
    for turn in range(6):
        caches = run.several([(256 + 64 * turn) * KIB] * 16)
        for _ in range(6):
            for i, cache in enumerate(caches):
                caches[i] = run.a(2 * run.sizes[cache][0])
                run.free(cache)
        run.free(*caches)


@pattern
def kv_pages(run):
    """Requests take pages of 640 KiB one at a time and end in an order of chance.
    Needs the peak: all pages are equal."""
    requests = [[] for _ in range(24)]
    for _ in range(3000):
        one = run.chance.choice(requests)
        if len(one) > run.chance.randrange(4, 40):
            run.free(*one)
            one.clear()
        one.append(run.a(640 * KIB))
    run.free(*(page for one in requests for page in one))


@pattern
def kv_steps(run):
    """A cache that is made anew, 3 MiB larger, at each of 60 steps, beside two work spaces.
    Needs the peak: caches take turns at two ends, and the work spaces lie between."""
    cache = run.a(4 * MIB)
    for step in range(60):
        work = run.several([24 * MIB, (8 + step) * MIB])
        larger = run.a((4 + 3 * step) * MIB)
        run.free(cache, *work)
        cache = larger
    run.free(cache)


@pattern
def moe_tokens(run):
    """A mixture of experts: 16 blocks by how many tokens each expert got, two layers at a time.
    Needs 1.01 of the peak, as far as is known: layers have one sum, cut by chance."""
    weights, before = run.several([5 * MIB] * 16), []
    for _ in range(80):
        cuts = sorted(run.chance.randrange(1, 4096) for _ in range(15))
        tokens = [max(high - low, 1) for low, high in zip([0, *cuts], [*cuts, 4096])]
        layer = run.several([count * 24 * KIB for count in tokens])
        run.free(*before)
        before = layer
    run.free(*before, *weights)


@pattern
def batch_cycle(run):
    """Batches of 1 to 32 in a cycle of seven sizes; eight activations for each.
    Needs the peak: batches never overlap, and weights can lie below all."""
    weights = run.several([12 * MIB, 7 * MIB, 3 * MIB] * 4)
    for turn in range(70):
        batch = [1, 32, 4, 16, 2, 24, 8][turn % 7]
        run.free(*run.several([batch * (i + 1) * 300 * KIB for i in range(8)]))
    run.free(*weights)


@pattern
def two_models(run):
    """Two models in turns, each with a stream and weights that stay while it is called often.
    Needs the peak: neither model has anything in the other's turn."""
    for turn in range(12):
        stream = turn % 2
        weights = run.several([(9 + 8 * stream) * MIB] * (14 - 5 * stream), stream)
        for _ in range(12):
            run.free(*run.several([(3 + stream) * MIB, 37 * MIB + 5 * stream * MIB, 11 * MIB],
                                  stream))
        run.free(*weights)


@pattern
def resolutions(run):
    """Pictures of four resolutions in turn: down to small blocks and up again, last in, first out.
    Needs the peak: a stack never has holes."""
    for turn in range(40):
        edge = [512, 768, 1024, 640][turn % 4]
        stack = []
        for level in range(6):
            stack += run.several([edge * edge * 40 >> level] * 2)
        while stack:
            run.free(stack.pop())


# ---- training -------------------------------------------------------------------------------

@pattern
def checkpoints(run):
    """Layers keep a small checkpoint forward, and are computed again, large, on the way back.
    Needs the peak: checkpoints are a stack, and what is computed again lies above it."""
    for turn in range(20):
        kept = []
        for _ in range(24):
            work = run.several([17 * MIB, 9 * MIB + turn % 3 * MIB])
            kept.append(run.a(2500 * KIB))
            run.free(*work)
        while kept:
            again = run.several([17 * MIB, 9 * MIB, 26 * MIB])
            run.free(*again, kept.pop())


@pattern
def train_eval(run):
    """Phases of training, with activations of all layers, and of evaluation with larger batches.
    Needs the peak: the phases share nothing but the weights."""
    weights = run.several([6 * MIB] * 12)
    for _ in range(10):
        for step in range(3):
            layers = run.several([(5 + i % 3) * MIB for i in range(24)])
            run.free(*reversed(layers))
        for _ in range(6):
            run.free(*run.several([53 * MIB, 29 * MIB, 31 * MIB]))
    run.free(*weights)


@pattern
def lengths_grow(run):
    """Sequences that grow by a sixteenth at each of 48 steps: no size is asked for twice.
    Needs the peak: each step's blocks go before the next's come."""
    for step in range(48):
        length = 1024 + 64 * step
        run.free(*run.several([length * (i % 4 + 1) * 2 * KIB + 512 for i in range(24)]))


@pattern
def lengths_shrink(run):
    """Sequences from the longest to the shortest, with a result of each that stays.
    Needs the peak: results can lie together below the rest."""
    results = []
    for step in range(48):
        length = 4096 - 64 * step
        work = run.several([length * (i % 4 + 1) * 2 * KIB for i in range(12)])
        results.append(run.a(700 * KIB))
        run.free(*work)
    run.free(*results)


@pattern
def optimizer_late(run):
    """The optimizer's states come in the middle of the first backward pass and stay.
    Needs the peak: whoever knows of them puts them below what goes."""
    weights, states = run.several([8 * MIB] * 10), []
    for step in range(20):
        layers = run.several([14 * MIB] * 12)
        while layers:
            run.free(layers.pop())
            if step == 0 and len(layers) < 10:
                states += run.several([8 * MIB, 8 * MIB])
    run.free(*weights, *states)


@pattern
def pipeline(run):
    """A pipeline of four stages, a stream each, with eight microbatches that overlap.
    Needs 1.01 of the peak, as far as is known: stages free in the order they took."""
    for _ in range(12):
        held = [[] for _ in range(4)]
        for clock in range(8 + 3 + 8):
            for stage in range(4):
                if 0 <= clock - stage < 8:
                    held[stage].append(run.several([(7 + stage) * MIB, 1300 * KIB], stage))
                if clock >= 6 + 3 - stage and held[stage]:
                    run.free(*held[stage].pop(0))
        run.free(*(block for stage in held for part in stage for block in part))


@pattern
def rollout(run):
    """Generation with many small blocks, then training with few large ones, the weights anew.
    Needs the peak: the two never overlap, except by the weights."""
    weights = run.a(96 * MIB)
    for _ in range(8):
        caches = []
        for _ in range(250):
            caches.append(run.a(run.chance.randrange(200, 1400) * KIB))
            if len(caches) > 150:
                run.free(caches.pop(run.chance.randrange(len(caches))))
        run.free(*caches)
        layers = run.several([(19 + 4 * (i % 3)) * MIB for i in range(6)])
        newer = run.a(96 * MIB)
        run.free(*layers, weights)
        weights = newer
    run.free(weights)


@pattern
def gradient_buckets(run):
    """Gradients of many sizes are gathered in buckets of 25 MiB on a second stream.
    Needs the peak: gradients go as the bucket comes."""
    sizes = [run.chance.randrange(100, 6000) * KIB for _ in range(60)]
    for _ in range(12):
        buckets, waiting = [], []
        for size in sizes:
            waiting.append(run.a(size))
            if sum(run.sizes[block][0] for block in waiting) > 19 * MIB:
                buckets.append(run.a(25 * MIB, 1))
                run.free(*waiting)
                waiting = []
        run.free(*waiting, *buckets)


# ---- blocks of all kinds --------------------------------------------------------------------

@pattern
def fifo(run):
    """A queue of 40 blocks of five sizes: what came first goes first.
    Needs 1.025 of the peak, as far as is known: the ends of the ring do not fit."""
    queue = []
    for turn in range(1200):
        queue.append(run.a([3, 7, 11, 5, 13][turn % 5] * MIB))
        if len(queue) > 40:
            run.free(queue.pop(0))
    run.free(*queue)


@pattern
def lifo_fifo(run):
    """A stack and a queue beside each other, of blocks that are alike.
    Needs 1.005 of the peak, as far as is known: each alone needs its own, from either end."""
    stack, queue = [], []
    for turn in range(900):
        queue.append(run.a((2 + turn % 3) * MIB))
        if len(queue) > 24:
            run.free(queue.pop(0))
        if turn // 30 % 2 == 0:
            stack.append(run.a((4 + turn % 4) * MIB))
        elif stack:
            run.free(stack.pop())
    run.free(*stack, *queue)


@pattern
def nails(run):
    """A small block after each large one; the large ones go, the small stay, larger ones come.
    Needs 1.0001 of the peak, as far as is known: all small blocks can lie together."""
    for turn in range(6):
        small, size = [], (4 + 3 * turn) * MIB
        for _ in range(8):
            large = []
            while run.live + size + 66 * KIB <= 384 * MIB:
                large.append(run.a(size))
                small.append(run.a(66 * KIB))
            run.free(*large)
            size += MIB
        run.free(*small)


@pattern
def sawtooth(run):
    """Six streams, each growing to its own height and down again, out of step.
    Needs 1.07 of the peak, as far as is known: what one gives up, the next can have."""
    held = [[] for _ in range(6)]
    for step in range(1200):
        for stream in range(0, 6, 2):
            stream += step % 2
            if (step + 67 * stream) // 200 % 2 == 0 and len(held[stream]) < 60:
                held[stream].append(run.a((700 + 310 * stream) * KIB, stream))
            elif held[stream]:
                run.free(held[stream].pop())
    run.free(*(block for stream in held for block in stream))


@pattern
def random_lives(run):
    """Sizes from 1 KiB to 32 MiB and lives of any length, by chance.
    Needs 1.32 of the peak, as far as is known: chance leaves holes."""
    held = []
    for _ in range(2500):
        size = int(KIB * 2 ** run.chance.uniform(0, 15))
        while held and run.live + size > 256 * MIB:
            run.free(held.pop(run.chance.randrange(len(held))))
        held.append(run.a(size))
    run.free(*held)


def text(name):
    """The trace of a pattern."""
    run = Pass(name)
    PATTERNS[name](run)
    assert run.live == 0, name
    return "\n".join([f"# pattern={name}; op,id,bytes,stream,us", *run.lines]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("name", metavar="NAME", nargs="?", choices=PATTERNS)
    group.add_argument("--list", action="store_true")
    group.add_argument("--all", type=pathlib.Path, metavar="FOLDER")
    arguments = parser.parse_args()
    if arguments.list:
        for name, make in PATTERNS.items():
            print(f"{name:18}" + " ".join(make.__doc__.split()))
    elif arguments.all:
        arguments.all.mkdir(parents=True, exist_ok=True)
        for name in PATTERNS:
            (arguments.all / f"{name}.csv").write_text(text(name), encoding="utf-8")
    else:
        sys.stdout.write(text(arguments.name))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.exit(0)
