#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns measurements into docs/benchmarks.md, the pages in docs/benchmarks/ and their pictures.

    report.py --bench BENCH.csv --replay REPLAY.json    takes over new data, then writes the pages
    report.py                                           writes the pages from the data there
    report.py --check                                   compares the pages with the data there

BENCH.csv is what `tenure bench --csv` wrote, REPLAY.json what `tenure replay --json` printed. Both
are kept, unchanged, in docs/benchmarks/. Every number of the pages comes from them or from
tests/traces/recorded.csv; a cell without a number says why it has none.

Exit codes: 0 done, or the pages are up to date; 1 they are not; 2 bad input; 77 no data there.
"""
import argparse
import csv
import json
import pathlib
import re
import shutil
import sys
import textwrap

from kept import changes_table, instructions_table
from page import (BadInput, COLOURS, NOT_MEASURED, Picture, csv_rows, facts_table, provenance,
                  table, text_gib, text_ns)
from peers import nccl_table, peers_text
from scaling import (moves_curve_picture, moves_curve_table, moves_default_table,
                     scale_table)
from settling import perturbed_table, steady_picture, steady_tables
from speed import (Bench, bench_table, clock_text, cold_table, growth_table, moves_table,
                   mix_rounds_text, picture_line, pictures_make, runs_table, served_table,
                   single_table, traces_table, uses_table)
from targets import targets_table

REPLAY_KEYS = """trace driver device ops streams peak_live_bytes peak_reserved_bytes driver_calls
                 driver_ns chunks_created chunks_moved ns_per_op_median ns_per_op_p99 pattern_errors
                 second_half_driver_allocations second_half_driver_ns driver_ns_by_kind
                 metadata_bytes wall_ns exit_code error""".split()
RECORDED_COLUMNS = "trace held default expandable_segments cudaMallocAsync".split()
RECORDED_NAMES = {"default": "PyTorch default", "expandable_segments": "PyTorch expandable",
                  "cudaMallocAsync": "PyTorch cudaMallocAsync"}


# ---- reading --------------------------------------------------------------------------------

class Replay:
    """The lines of `tenure replay --json`: facts that all share, and results by trace."""

    def __init__(self, path):
        self.results = {}
        runs = set()
        for number, line in enumerate(pathlib.Path(path).read_text("utf-8").splitlines(), 1):
            try:
                one = json.loads(line)
            except json.JSONDecodeError as problem:
                raise BadInput(f"{path}: line {number} is not JSON: {problem}") from None
            missing = [key for key in REPLAY_KEYS if key not in one]
            if missing:
                raise BadInput(f"{path}: line {number} lacks {', '.join(missing)}")
            if one["trace"] in self.results:
                raise BadInput(f"{path}: line {number} repeats the trace {one['trace']}")
            self.results[one["trace"]] = one
            runs.add(tuple(str(one[key]) if key in one else None for key in
                           ("command", "commit", "device", "driver", "driver_cuda", "cpus")))
        if len(runs) != 1:
            raise BadInput(f"{path}: holds lines of {len(runs)} different runs, not of one")
        command, commit, device, driver, version, cpus = runs.pop()
        simulated = "simulated: " if driver == "sim" else ""
        self.facts = {"command": command, "commit": commit, "gpu": simulated + device,
                      "driver_cuda": version, "cpus": cpus}


def recorded_read(path):
    lines = [line for line in pathlib.Path(path).read_text("utf-8").splitlines()
             if line and not line.startswith("#")]
    rows = csv.DictReader(lines)
    if rows.fieldnames != RECORDED_COLUMNS:
        raise BadInput(f"{path}: has not the columns {','.join(RECORDED_COLUMNS)}")
    return {row["trace"]: {key: int(row[key]) for key in RECORDED_COLUMNS[1:]} for row in rows}


# ---- tables ---------------------------------------------------------------------------------

def offload_table(docs):
    """The offload program's ways, if its JSON lines are there."""
    path = docs / "benchmarks" / "offload.json"
    if not path.exists():
        return NOT_MEASURED
    rows = []
    for line in path.read_text("utf-8").splitlines():
        one = json.loads(line)
        by_hand = one.get("by_hand_ratio")  # not in data of runs without --by-hand
        way = "by hand" if one["way"] == "by_hand" else one["way"].replace("_", ", ")
        rows.append([way, one["device"], text_gib(one["in_use_bytes"]),
                     text_gib(one["peak_bytes"]), f"{one['peak_ratio']:.3f}",
                     f"{one['total_ms']:.1f}", f"{one['time_ratio']:.3f}",
                     "-" if by_hand is None else f"{by_hand:.3f}",
                     f"{one['waits_on_device']:,}", f"{one['wrong_words']:,}"])
    return table(["way", "GPU", "in use at once", "peak mapped", "ratio", "ms", "time / unbounded",
                  "time / by hand", "waits on the device", "wrong words"], rows)


def precision_table(docs):
    """What captures need, beside the least that any allocator could."""
    rows, made = csv_rows(docs / "benchmarks" / "capture_precision.csv")
    if not rows:
        return NOT_MEASURED
    return (table(["workload", "least possible", "reserved", "ratio", "Tenure's ns a step",
                  "at 10,000 steps", "growth"],
                 [[f"`{one['workload']}`", text_gib(int(one["least_bytes"])),
                   text_gib(int(one["reserved_bytes"])), one["ratio"], one["ns_tenure"],
                   one["ns_tenure_x10"], one["growth"]] for one in rows])
            + f"\n{facts_table(made, 'capture_precision.csv')}")


SLEEPS = {"sleep_keep": "sleep, contents kept", "wake_keep": "wake, contents kept",
          "sleep_bounded": "sleep, {bound} MiB of pinned memory at most",
          "sleep_bounded_cold": "the same, and the first to touch that memory",
          "wake_bounded": "wake, {bound} MiB of pinned memory at most",
          "host_out": "the host alone, out of pinned memory",
          "host_in": "the host alone, into it",
          "sleep_discard": "sleep, contents discarded", "unmap_by_hand": "the same calls by hand",
          "wake_discard": "wake, contents discarded", "map_by_hand": "the same calls by hand"}


def sleep_table(docs, name, bound):
    """Medians of what sleeping costs, in one run; `bound`: its pinned memory, in MiB."""
    rows, made = csv_rows(docs / "benchmarks" / name)
    medians = {one["what"]: one for one in rows if one["round"] == "median"}
    if not medians:
        return NOT_MEASURED
    shown = []
    for what, text in SLEEPS.items():
        if what not in medians:
            continue
        one = medians[what]
        copies = "discard" not in what and "hand" not in what
        shown.append([text.format(bound=bound), f"{int(one['ns']) / 1e6:.1f}",
                      f"{float(one['gb_per_s']):.1f}" if copies else "-",
                      f"{float(one['of_link']):.3f}" if copies else "-",
                      f"{int(one['driver_calls']):,}"])
    return table(["what", "ms", "GB/s", "of the link", "driver calls"],
                 shown) + f"\n{facts_table(made, name)}"


def seeing_tables(docs):
    """What the history and snapshots cost."""
    rows, made = csv_rows(docs / "benchmarks" / "seeing.csv")
    if not rows:
        return NOT_MEASURED
    medians = [one for one in rows if one["round"] == "median"]
    history = {one["which"]: float(one["ns"]) for one in medians if one["what"] == "history"}
    cost = table(["history", "ns for an operation", "more than off"],
                 [[which, text_ns(ns), text_ns(ns - history["off"])]
                  for which, ns in history.items()])
    snapshots = table(["records", "live blocks", "format", "ms", "MB"],
                      [[f"{int(one['records']):,}", f"{int(one['live']):,}", one["which"],
                        f"{float(one['ns']) / 1e6:.1f}", f"{int(one['bytes']) / 1e6:.1f}"]
                       for one in medians if one["what"] == "snapshot"])
    pauses = {(one["which"], one["round"]): float(one["ns"]) / 1e3
              for one in rows if one["what"] == "pause"}
    pause = table(["meanwhile", "longest, us", "99.99 %, us"],
                  [[shown, f"{pauses[which, 'longest']:.1f}", f"{pauses[which, 'p9999']:.1f}"]
                   for which, shown in (("nobody", "nothing"), ("snapshots", "snapshots"))])
    return f"{cost}\n{snapshots}\n{pause}\n{facts_table(made, 'seeing.csv')}"


def torch_text(docs):
    """The audit of PyTorch's graph in one sentence."""
    path = docs / "benchmarks" / "capture_torch.json"
    if not path.exists():
        return NOT_MEASURED.strip()
    one = json.loads(path.read_text("utf-8"))
    audit, replay = one["audit"], one["replay"]
    return textwrap.fill(
        f"PyTorch {one['torch']} on an {one['device']}: {audit['nodes']} nodes, "
        f"{audit['kernels']} of them kernels, {audit['unread']} unread; {audit['found']} "
        f"addresses found, {audit['proved']} proved, {audit['unproved']} unproved; "
        f"{replay['same']:,} of {replay['replays']:,} replays gave the same bits. Data: "
        "[capture_torch.json](benchmarks/capture_torch.json).", 100)


def viewer_text(docs):
    """PyTorch's tools on Tenure's snapshots, and the other way round, in two sentences."""
    path = docs / "benchmarks" / "seeing_torch.json"
    if not path.exists():
        return NOT_MEASURED.strip()
    one = json.loads(path.read_text("utf-8"))
    opened, theirs = one["opened"], one["torch_snapshots"]
    return textwrap.fill(
        f"PyTorch {one['torch']} on an {one['device']}: its `_memory_viz` (segsum, memory, trace, "
        f"trace_plot, segment_plot, compare) was given {len(opened)} snapshots of the traces, with "
        f"up to {max(each['allocations'] for each in opened):,} allocations; "
        f"{len(one['failures'])} failures. {theirs['pickles']} pickles of PyTorch's own were read "
        f"by `tenure snapshot`; the trace made of them ran in "
        f"{theirs['replayed_reserved_bytes'] / 1e6:.1f} MB for "
        f"{theirs['replayed_live_bytes'] / 1e6:.1f} MB live, where PyTorch had reserved "
        f"{theirs['torch_reserved_bytes'] / 1e6:.1f} MB. Data: "
        "[seeing_torch.json](benchmarks/seeing_torch.json).", 100)


def recorded_cell(recorded, key):
    size = recorded[key]
    return f"{text_gib(size)} ({size / recorded['held']:.3f})"


def trace_names(replay, recorded):
    return list(recorded) + [name for name in replay.results if name not in recorded]


def memory_table(replay, recorded):
    rows = []
    for name in trace_names(replay, recorded):
        one, row = replay.results.get(name), [f"`{name}`"]
        if one is None:
            row += ["missing", "-", "-", "-", "-"]
        elif one["exit_code"] != 0:
            row += ["failed", "-", "-", "-", f"{one['pattern_errors']:,}"]
        else:
            live, reserved = one["peak_live_bytes"], one["peak_reserved_bytes"]
            row += [one["streams"], text_gib(live), text_gib(reserved),
                    f"{reserved / live:.3f}" if live else "-", f"{one['pattern_errors']:,}"]
        figures = recorded.get(name)
        for key in RECORDED_NAMES:
            row.append(recorded_cell(figures, key) if figures else "not recorded")
        rows.append(row)
    return table(["trace", "streams", "peak live", "Tenure reserves", "reserved / live",
                  "pattern errors", *RECORDED_NAMES.values()], rows)


def memory_notes(replay, recorded):
    notes = []
    for name, one in replay.results.items():
        if one["exit_code"] != 0:
            notes.append(f"`{name}` failed with exit code {one['exit_code']}: "
                         f"{one['error'] or 'no reason given'}")
        held = recorded.get(name, {}).get("held", 0)
        if held > one["peak_live_bytes"] > 0:
            notes.append(f"`{name}`: while it was recorded, freed blocks waited for other streams, "
                         f"and PyTorch had to hold {text_gib(held)}. Its bytes are not comparable "
                         "with a replay, which frees at once.")
    items = [textwrap.fill(note, 98, initial_indent="- ", subsequent_indent="  ") for note in notes]
    return "\n".join(items) + ("\n\n" if items else "")


def driver_tables(replay, recorded):
    kinds = list(next(iter(replay.results.values()))["driver_ns_by_kind"])
    work, by_kind = [], []
    for name in trace_names(replay, recorded):
        one = replay.results.get(name)
        if one is None or one["exit_code"] != 0:
            state = "missing" if one is None else "failed"
            work.append([f"`{name}`", state] + ["-"] * 8)
            by_kind.append([f"`{name}`", state] + ["-"] * (len(kinds) - 1))
            continue
        work.append([f"`{name}`", f"{one['driver_calls']:,}", f"{one['driver_ns'] / 1e6:.1f}",
                     f"{one['chunks_created']:,}", f"{one['chunks_moved']:,}",
                     f"{one['second_half_driver_allocations']:,}",
                     f"{one['second_half_driver_ns'] / 1e6:.1f}",
                     text_ns(one["ns_per_op_median"]), text_ns(one["ns_per_op_p99"]),
                     f"{one['metadata_bytes'] / 1e6:.2f}"])
        by_kind.append([f"`{name}`"] + [f"{one['driver_ns_by_kind'][kind] / 1e6:.2f}"
                                        for kind in kinds])
    first = table(["trace", "driver calls", "driver ms", "chunks made", "chunks moved",
                   "2nd half: to the driver", "2nd half: driver ms", "median ns/op", "p99 ns/op",
                   "metadata MB"], work)
    return first, table(["trace", *(f"{kind} ms" for kind in kinds)], by_kind)


# The pages: title, words at the head, and the sections of TEXT that each has.
PAGES = {
    "benchmarks.md": ("Benchmarks", """\
How fast Tenure is and how much memory it holds, beside PyTorch's allocator and the driver's pool.
Other pages have the rest:

| page | has |
|---|---|
| [engines](benchmarks/engines.md) | training steps and memory in PyTorch and CuPy |
| [speed](benchmarks/speed.md) | single operations, threads and streams, cold start, growth |
| [memory](benchmarks/memory.md) | driver calls of the traces, 100 passes of each, other settings |
| [features](benchmarks/features.md) | captures, sleep and wake, several GPUs, snapshots |
| [instructions](benchmarks/instructions.md) | instructions of each path |
| [changes](benchmarks/changes.md) | what was tried for speed and memory, and what it brought |

""", ("Targets", "Cached pair", "Memory")),
    "benchmarks/speed.md": ("Benchmarks: speed", "", (
        "Other runs", "Random mix", "Live blocks", "Single operations", "Between threads",
        "Uses by other streams", "Cold start", "Growth and moves", "Traces")),
    "benchmarks/memory.md": ("Benchmarks: memory", "", (
        "Time in the driver", "Memory against moves", "The same pass, repeated", "Scale")),
    "benchmarks/features.md": ("Benchmarks: captures, sleep, several GPUs, snapshots", "", (
        "Captures", "Sleep and wake", "Several GPUs", "Seeing memory")),
    "benchmarks/instructions.md": ("Benchmarks: instructions", "", ("Instructions",)),
    "benchmarks/changes.md": ("Benchmarks: changes", "", ("Changes",)),
}

HEAD = """# {title}

`tests/bench/report.py` writes this page and its pictures from the data in `docs/benchmarks/`, and a
test compares them (`--check`). Don't edit it by hand. A ratio is a median over Tenure's median:
above 1 Tenure is faster. *failed* means that the allocator could not do the work, *missing* that it
was not measured. How to run it: [hacking.md](hacking.md).

"""

TEXT = """
## Targets

What the project wants, on one H200 in one run, and what the data say. Each number is computed from
the tables of these pages. A pair is an allocation and its free, an operation of the mix a free
and an allocation: each is counted and timed as one, though it is two calls.

{targets}
## Other runs

A machine with a GPU is often a virtual one, whose processors others use too: within one run all
allocators may be half as fast again for some seconds. These are runs of the same command that were
kept whole, the last one is that of these pages. What PyTorch took in the same minute says how fast
the machine was. [Changes](benchmarks/changes.md) has what changed between the commits.

{runs}
## Cached pair

ns for one allocation and its free, one thread, one stream: the median over rounds. The allocators
take turns in one process. p99 is over batches of 64 operations.

{pair}
{bench_from}
The same with 4 KiB on several threads, each on its own stream; M/s for all threads together:

{pair_own}
And all threads on one stream:

{pair_shared}
The first 1,024 pairs of threads that are new in each round, all on one stream; otherwise threads
live for all rounds of an allocator:

{pair_new}
## Random mix

One operation is one free and one allocation of 512 B to 8 MiB, uniform, on the thread's own stream;
ns as one thread sees it, M/s for all threads together.{mix_rounds}

{mix}
{bench_from}
![Random mix: ns per operation over threads](benchmarks/mix.svg)

The same with all threads on one stream, and 2,000 live blocks among them:

{mix_shared}
{shared_picture}\
How Tenure served the mixes, here and under "Live blocks": of 1,000,000 operations of the timed
rounds, how many calls of the driver there were, and how many allocations got memory that was moved
together, lent by another stream as it is, moved from another stream, or new.

{served}
## Live blocks

The mix on one thread with more and more live blocks: of 512 B to 256 KiB, and of 1 to 1.25 MiB,
which are managed differently. Blocks that do not fit in the device are left out, and the number
says so.

{live}
{live_large}
{live_picture}## Single operations

Each operation timed alone, in rounds of their own, less the clock's own time{clock}.
Of pairs it is the allocation.

{single}
## Between threads

4 KiB: one thread allocates, another frees, over a ring of 256 blocks; each two threads have a
stream. ns for a block from end to end, M/s counts allocations and frees.

{handover}
## Uses by other streams

Blocks of 4 KiB. "Beside it" is the bare cuEventRecord for the first row, four of them for the last
ones, and PyTorch where it has the like. Threads that record at the same time wait for each other in
the driver: one thread alone would be done sooner with what 16 do.

{uses}
{bench_from}
The offload program (`tests/gpu/lifetime/offload.c`): weights fetched on a copy stream, activations
offloaded on a third, a host that never waits. "Unbounded" never reuses memory, so nothing in it
waits. "By hand" is two rings of preallocated buffers in at most 1.25 times what is in use, each
reuse waiting on the device for the buffer's last use: what bounded memory costs without an
allocator. "Waits on the device" are those for memory, in one run. Data:
[offload.json](benchmarks/offload.json), of the same machine, driver and commit.

{offload}
## Cold start

A process of its own for each time. The first row has everything in it, the driver's start too, for
PyTorch also loading its libraries; the others begin when there is a context and the allocator has
started. cuMemAlloc is the bare driver.

{cold}
## Growth and moves

Memory that must come from the driver, fresh in each round. Driver calls are Tenure's.

{growth}
Blocks that only fit when chunks of 2 MiB move, with nothing new from the driver:

{moves}
## Traces

The recorded traces as fast as they go, with nothing written to the blocks: the first pass of an
allocator that holds nothing, and the same again. Mean, median and p99.9 of single operations.

{traces}
## Memory

Six traces of `tests/traces` replayed, with a pattern in each block that is checked before its
free. "reserved" is the most physical memory held, "live" the most that the program asked for.
PyTorch's figures are those recorded with the traces (`tests/traces/recorded.csv`), in brackets over
what PyTorch had to hold then.

{memory}
{notes}{replay_from}
![Memory: reserved over live](benchmarks/memory.svg)

## Time in the driver

What the same replays cost in driver calls. "2nd half: to the driver" counts the allocations of the
trace's second half that the cached path could not serve. Times per operation are the host's, with
the checks of the patterns left out.

{work}
{replay_from}
By kind of call, in ms:

{kinds}
{replay_from}
## Memory against moves

The traces replayed on the simulated device with other settings, one at a time
(`tests/bench/moves.py`): the worst reserved over live, and what it takes. Chunks are counted;
driver time is modelled, from a table of what an H200's driver takes for a call.

{curve}
{curve_picture}\
The default by trace: means of three schedules, since where old mappings go depends on when work
ends; "at most" is the largest of the three.

{curve_default}
Why the default is what it is. Smaller chunks cost driver time once, in a first pass; larger ones
cost memory that stays. With `lend`, a free run of another stream is taken over as it is, so that
chunks need not move one by one. Chunks that fill requests of one size (`chunk_exact_mb`) save calls
where all blocks are of that size, and cost other programs memory in later passes. Without any move
(`move_burst_ms:0`) `serve_streams` loses most, whose five streams peak at different times; from
80 ms on a pass of each trace has all the moves that it wants, and 200 leave room.

## The same pass, repeated

Each trace, and 26 patterns that are hard on an allocator (`tests/bench/patterns.py --list` says
what each is), 100 passes in their recorded time on the simulated device (`tests/bench/steady.py`).
A pass frees what it leaves live. The numbers are the most reserved up to the end of a pass over the
most that is live; mapping calls create, map, give access to, unmap or release memory. Nothing here
was run on a GPU.

"bound" is the best placement without moves that `tests/bench/bound.py` found for the repeated pass,
knowing all of it, over the same bytes; memory is free for all streams as soon as it is freed. Where
it is 1.000 it is the best there is. Where it is more, it is not proved to be: an allocator that
moves memory can be below it, as `random_lives` is, and the limit may then be kinder than it should
be. The limit is the larger of 1.02 and 1.005 of the bound for a trace, and
1.3 of the bound for a pattern. Both want no mapping calls in the last ten passes.

{steady}
Why these miss. An allocator that doesn't know which of equal blocks will stay can't place `mib512`
and `phases8` as the bound does. Each fourth of `mib512`'s blocks of a MiB and 512 bytes stays where
it came to lie, in one of two chunks; the 40 blocks of 28 MiB that come then ask for three quarters
of what was there, which makes 1.25 at the least, and Tenure holds more than that. In `phases8`
seven streams keep each sixteenth of their blocks of 0.7 to 5.5 MiB; with the rest of the chunks of
2 MiB that these lie in, 1.4 of the peak is needed, and what it holds above that has come pass by
pass. It drifts, as `serve_streams`, `gpt2_reduce` and `sawtooth` do. Their streams take memory from
each other, other blocks in each pass, so no pass begins as the one before did, and its peak finds
other corners of chunks; what the worst of all passes needed stays. Lending is not the reason: with
`lend:off` and the schedule `random` `gpt2_reduce` grows from 1,382 MiB in the first pass to 1,410
in the 40th, with it to 1,416. Its replay has no pools for its graphs, which peak when the rest does
not. At its peak every byte of `offload_streams` is live; it holds no more than that, and goes on
moving chunks. `serve_streams` begins with 1.10: its peak, 489 MB, lies on five streams, in blocks
of all sizes. 44 MiB are free in 46 places of less than a chunk each, and 10 MiB in the five chunks
that small blocks have. With all its blocks on one stream it holds 1.08. What Tenure does of this
with other settings is under "Memory against moves".

{steady_picture}### Traces that begin a little differently

Where a program's first blocks lie decides where all later ones do, so one trace is one draw of
many. `tests/bench/perturbed.py` puts a few small blocks before each trace, others in each variant,
which stay live. Reserved over live on the simulated device, in the recorded time:

{perturbed}
## Scale

Eight simulated devices, a thousand to a million live blocks of 512 B to 2 MiB on 16 to 1,024
streams (`tests/bench/scale.c`, `scale.py`); processor time of one thread. Times that hold driver
calls hold the simulation's, so they show how a cost grows and not what it is on a GPU; instructions
are the library's own.

{scale}
What it shows. The cached path executes 540 to 700 instructions whatever there is; its time grows
because its data no longer fits into caches and page tables: the records, and the tables of block
starts, 16 KiB for each MiB of small blocks, which are most of the metadata. A snapshot grows with
the blocks, as it must. What grows with the streams of a device is a request that needs other
streams' memory, or new memory, for each of them is asked in turn: about 60 instructions a stream.
That the mix reaches the driver in every second operation with one block on each of 1,024 streams is
one chunk for each stream, which small and large blocks take from each other.

## Captures

Captures of 1,000 steps on four streams that wait for each other; a step allocates, uses and frees
(`tests/gpu/capture/precision.c`, run by `tests/gpu/capture.sh`). "Least possible" is what any
allocator needs for these blocks and edges, all known ahead: the heaviest set of blocks of which no
two may share memory. In `rounds` and `equal` the streams join every few steps; in the others
streams that nothing orders leave holes of many sizes, and nothing moves in a graph's pool. "Growth"
is the time for a step at 10,000 steps over that at 1,000, calls of the driver included.

{precision}
A graph that PyTorch captures with all of its memory from Tenure (`tests/gpu/capture_torch.sh`):
{torch}

## Sleep and wake

A pool of 7.250 GiB under a captured graph, medians of five rounds beside the pinned link measured
in the same run (`tests/gpu/sleep.sh`). Each byte was compared after each wake, and the graph ran as
before. Data: [sleep.csv](benchmarks/sleep.csv).

{sleep}
Sleep with a bound was rewritten since. A pool of 1.750 GiB with more of pinned memory, medians of
three rounds (`tests/gpu/sleep.sh --quick --bound-mib 256`); the first bounded sleep of a process
has its host memory found by the kernel. Data: [sleep_quick.csv](benchmarks/sleep_quick.csv).

{sleep_quick}
## Several GPUs

How fast a kernel reads another GPU's memory (`tests/gpu/peers.sh bandwidth`), and what the driver
takes to open memory to a peer and to close it.

{peers}
nccl-tests on two GPUs, without Tenure and under `tenure run`, in turns (`tests/gpu/nccl.sh`). Below
1 MiB it is the time of the host that counts: NCCL records events and waits for them for each
collective, and Tenure follows each.

{nccl}
## Seeing memory

`tests/gpu/seeing.sh`. An operation is a cached allocation or its free; the modes take turns in one
process. Snapshots are written to a file. "Meanwhile" is what another thread does while a thread's
cached pairs are timed, each of them: nothing, or snapshots of the largest history one after the
other.

{seeing}
{viewer}

## Instructions

What an operation of each path executes, counted by callgrind on the simulated device
(`tests/bench/callgrind.py`, `tests/bench/paths.c`): Tenure's own functions and those of the C
library that it calls, without the driver. The same in each run; a test compares them with this
table, so that what became more expensive shows in review. Instructions are not time: a locked one
takes about as long as 20 others, and the cost counts it so.

{instructions}
## Changes

What was done for speed and memory: what it was expected to bring, what it brought, and whether it
stayed.

{changes}"""


def pages_make(bench, replay, recorded, docs, traces):
    """Each page by its path below docs/: the sections of TEXT that PAGES gives it."""
    text = text_make(bench, replay, recorded, docs, traces)
    parts = re.split(r"^## (.*)\n", "\n" + text, flags=re.M)[1:]
    sections = dict(zip(parts[::2], parts[1::2]))
    placed = [name for _, _, names in PAGES.values() for name in names]
    if sorted(placed) != sorted(sections):
        raise BadInput(f"PAGES and TEXT differ in {set(placed) ^ set(sections)}")
    pages = {}
    for path, (title, words, names) in PAGES.items():
        page = HEAD.format(title=title) + words
        page += "\n".join(f"## {name}\n{sections[name].rstrip()}\n" for name in names)
        if "/" in path:     # links are written as seen from docs/
            page = page.replace("](benchmarks/", "](").replace("](hacking.md", "](../hacking.md")
        pages[path] = page
    return pages


def text_make(bench, replay, recorded, docs, traces):
    work, kinds = driver_tables(replay, recorded)
    seeing, _ = csv_rows(docs / "benchmarks" / "seeing.csv")
    mixes = {kind: bench_table(bench, kind) for kind in (
        "pair", "pair_own", "pair_shared", "pair_new", "mix", "mix_shared", "live", "live_large",
        "handover")}
    return TEXT.format(
        **mixes, targets=targets_table(bench, replay, traces, seeing), clock=clock_text(bench),
        shared_picture=picture_line(bench, "shared", "Random mix: operations over threads"),
        live_picture=picture_line(bench, "live", "Random mix: ns over live blocks"),
        single=single_table(bench), cold=cold_table(bench), growth=growth_table(bench),
        moves=moves_table(bench), traces=traces_table(bench),
        uses=uses_table(bench), offload=offload_table(docs),
        runs=runs_table(docs, bench), served=served_table(bench), mix_rounds=mix_rounds_text(bench),
        bench_from=provenance(bench.facts, "bench.csv"),
        memory=memory_table(replay, recorded),
        notes=memory_notes(replay, recorded), replay_from=provenance(replay.facts, "replay.json"),
        work=work, kinds=kinds, precision=precision_table(docs), torch=torch_text(docs),
        peers=peers_text(docs), nccl=nccl_table(docs),
        sleep=sleep_table(docs, "sleep.csv", 64),
        sleep_quick=sleep_table(docs, "sleep_quick.csv", 256),
        seeing=seeing_tables(docs), viewer=viewer_text(docs),
        curve=moves_curve_table(docs, replay),
        curve_picture="![Chunks moved over reserved / live](benchmarks/moves.svg)\n\n"
        if moves_curve_picture(docs, replay) else "", scale=scale_table(docs),
        curve_default=moves_default_table(docs), steady=steady_tables(docs),
        perturbed=perturbed_table(docs),
        steady_picture="![Reserved over live, over passes](benchmarks/steady.svg)\n\n"
        if steady_picture(docs) else "",
        instructions=instructions_table(docs), changes=changes_table(docs))


# ---- pictures -------------------------------------------------------------------------------

def memory_picture(replay, recorded):
    """Bars of reserved over live for each trace; 1.0 is what cannot be beaten."""
    left, width, bar = 130, 380, 12
    names = trace_names(replay, recorded)
    groups = []
    for name in names:
        one, figures = replay.results.get(name), recorded.get(name)
        usable = one is not None and one["exit_code"] == 0 and one["peak_live_bytes"]
        ratios = [one["peak_reserved_bytes"] / one["peak_live_bytes"] if usable else None]
        ratios += [figures[key] / figures["held"] if figures else None for key in RECORDED_NAMES]
        groups.append(ratios)
    scale = max([1.0] + [value for ratios in groups for value in ratios if value])
    step = (len(RECORDED_NAMES) + 1) * bar + 14
    out = Picture(660, 70 + step * len(names) + 40, f"Memory: reserved over live, "
                  f"{replay.facts['gpu']}")
    for index, shown in enumerate(["Tenure", *RECORDED_NAMES.values()]):
        out.bar(20 + 155 * index, 34, 10, 10, COLOURS[index])
        out.text(34 + 155 * index, 43, shown, size=11)
    for row, (name, ratios) in enumerate(zip(names, groups)):
        y = 62 + step * row
        out.text(left - 10, y + 2.4 * bar, name, "end")
        for index, value in enumerate(ratios):
            long = width * value / scale if value else 0
            out.bar(left, y + index * bar, long, bar - 2, COLOURS[index])
            out.text(left + long + 5, y + index * bar + 9,
                     f"{value:.3f}" if value else "no result", size=10)
    bottom = 62 + step * len(names)
    out.line(left + width / scale, 56, left + width / scale, bottom, "#222222")
    out.text(left + width / scale, bottom + 14, "1.0", "middle")
    return out.finish()


# ---- the command ----------------------------------------------------------------------------

def outputs_make(data, recorded_path):
    """What there should be, by path relative to docs/."""
    bench, replay = Bench(data / "bench.csv"), Replay(data / "replay.json")
    recorded = recorded_read(recorded_path)
    traces = pathlib.Path(recorded_path).parent
    drawn = {"moves": moves_curve_picture(data.parent, replay),
             "steady": steady_picture(data.parent)}
    return {**{f"benchmarks/{name}.svg": text for name, text in drawn.items() if text},
            **pages_make(bench, replay, recorded, data.parent, traces),
            **{f"benchmarks/{name}.svg": text for name, text in pictures_make(bench).items()},
            "benchmarks/memory.svg": memory_picture(replay, recorded)}


def outputs_check(docs, data, recorded):
    present = [name for name in ("bench.csv", "replay.json") if (data / name).exists()]
    if not present and not (docs / "benchmarks.md").exists():
        print(f"skipped: there are no results in {data} yet")
        return 77
    stale = [name for name, text in outputs_make(data, recorded).items()
             if not (docs / name).exists() or (docs / name).read_text("utf-8") != text]
    for name in stale:
        print(f"{docs / name} does not match the data: run tests/bench/report.py")
    return 1 if stale else 0


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", metavar="CSV", help="new data of tenure bench --csv")
    parser.add_argument("--replay", metavar="JSON", help="new data of tenure replay --json")
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("--docs", type=pathlib.Path, default=root / "docs")
    parser.add_argument("--recorded", type=pathlib.Path,
                        default=root / "tests" / "traces" / "recorded.csv")
    arguments = parser.parse_args()
    if arguments.check and (arguments.bench or arguments.replay):
        parser.error("--check compares with the data that is there; it takes no new data")
    data = arguments.docs / "benchmarks"
    try:
        if arguments.check:
            return outputs_check(arguments.docs, data, arguments.recorded)
        # New data is read before anything is replaced.
        for path, kind in ((arguments.bench, Bench), (arguments.replay, Replay)):
            if path:
                kind(path)
        data.mkdir(parents=True, exist_ok=True)
        for path, name in ((arguments.bench, "bench.csv"), (arguments.replay, "replay.json")):
            if path:
                shutil.copyfile(path, data / name)
        for name, text in outputs_make(data, arguments.recorded).items():
            (arguments.docs / name).write_text(text, encoding="utf-8")
            print(arguments.docs / name)
    except (BadInput, OSError, UnicodeDecodeError) as problem:
        print(f"report.py: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
