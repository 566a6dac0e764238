# SPDX-License-Identifier: Apache-2.0
"""What a run of `tenure bench` has shown: its CSV, the tables of it, and the pictures."""
import csv
import math
import pathlib
import shlex

from page import (BadInput, COLOURS, NOT_MEASURED, Picture, table, text_block, text_ns)

BENCH_COLUMNS = """bench allocator bytes threads live_per_thread rounds ops_per_thread median_ns
                   min_ns p99_ns mops ratio_to_tenure checksum""".split()
SAMPLE_COLUMNS = "samples op_p50_ns op_p99_ns op_p999_ns op_worst_ns driver_calls".split()
COUNT_COLUMNS = "served_moved served_lent served_shared served_grown reserved_over_live".split()
BENCH_FACTS = "command commit gpu driver_cuda cpus".split()
NUMBERS = ("rounds ops_per_thread median_ns min_ns p99_ns mops ratio_to_tenure".split() +
           SAMPLE_COLUMNS + COUNT_COLUMNS)
NAMES = {"tenure": "Tenure", "driver_pool": "driver pool", "pytorch": "PyTorch",
         "driver_event": "bare cuEventRecord", "driver_malloc": "cuMemAlloc"}


class Bench:
    """A CSV of `tenure bench`: facts of its first line, and cells by configuration."""

    def __init__(self, path):
        lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
        if len(lines) < 3 or not lines[0].startswith("# "):
            raise BadInput(f"{path}: not what `tenure bench --csv` writes: no '# command=...' line")
        self.facts = dict(word.split("=", 1) for word in shlex.split(lines[0][2:]) if "=" in word)
        missing = [key for key in BENCH_FACTS if key not in self.facts]
        if missing:
            raise BadInput(f"{path}: line 1 does not say {', '.join(missing)}")
        rows = csv.DictReader(lines[1:])
        if rows.fieldnames not in (BENCH_COLUMNS, BENCH_COLUMNS + SAMPLE_COLUMNS,
                                   BENCH_COLUMNS + SAMPLE_COLUMNS + COUNT_COLUMNS):
            raise BadInput(f"{path}: line 2 has not the columns {','.join(BENCH_COLUMNS)}, or "
                           f"these and {','.join(SAMPLE_COLUMNS)}, or all these and "
                           f"{','.join(COUNT_COLUMNS)}")
        self.allocators, self.cells = [], {}
        for number, row in enumerate(rows, 3):
            if None in row or None in row.values():
                raise BadInput(f"{path}: line {number} has not {len(rows.fieldnames)} fields")
            self._add(path, number, row)
        self._check_work(path)

    def _add(self, path, number, row):
        if row["allocator"] not in self.allocators:
            self.allocators.append(row["allocator"])
        try:
            key = (row["bench"], int(row["bytes"]), int(row["threads"]),
                   int(row["live_per_thread"]))
            numbers = {name: float(row[name]) if row.get(name) else None for name in NUMBERS}
        except ValueError as problem:
            raise BadInput(f"{path}: line {number}: {problem}") from None
        cell = {**numbers, "checksum": row["checksum"]}
        if self.cells.setdefault(key, {}).setdefault(row["allocator"], cell) is not cell:
            raise BadInput(f"{path}: line {number} repeats a configuration")

    def _check_work(self, path):
        """Times are comparable only if the allocators did the same work."""
        for key, cells in self.cells.items():
            sums = {cell["checksum"] for cell in cells.values() if cell["median_ns"] is not None}
            if len(sums) > 1:
                raise BadInput(f"{path}: the checksums of {key} differ: not the same work")

    def rows(self, bench):
        return [(key, cells) for key, cells in self.cells.items() if key[0] == bench]

    def others(self, rows):
        """The allocators beside Tenure that these rows have, in the order of the file."""
        return [name for name in self.allocators
                if name != "tenure" and any(name in cells for _, cells in rows)]


def bench_cell(cell):
    """Median and ratio of one allocator, or the reason why there are none."""
    if cell is None:
        return "missing", "-"
    if cell["median_ns"] is None:
        return "failed", "-"
    ratio = cell["ratio_to_tenure"]
    return text_ns(cell["median_ns"]), f"{ratio:.1f} x" if ratio else "-"


def bench_number(cell, key, form):
    return form(cell[key]) if cell is not None and cell[key] is not None else "-"


def bench_table(bench, kind):
    """One row for each configuration of the kind: Tenure first, then the others with ratios."""
    is_mix = kind != "pair"
    others = bench.others(bench.rows(kind))
    has_memory = any(cells["tenure"]["reserved_over_live"] for _, cells in bench.rows(kind)
                     if "tenure" in cells)
    headings = ["threads", "live blocks a thread"] if is_mix else ["block"]
    headings += ["Tenure ns", "min", "p99"] + (["M/s"] if is_mix else [])
    headings += ["reserved / live"] if has_memory else []
    for name in others:
        shown = NAMES.get(name, name)
        headings += [f"{shown} ns"] + ([f"{shown} M/s"] if is_mix else []) + ["ratio"]
    rows = []
    for (_, size, threads, live), cells in bench.rows(kind):
        own = cells.get("tenure")
        row = [threads, f"{live:,}"] if is_mix else [text_block(size)]
        row += [bench_cell(own)[0], bench_number(own, "min_ns", text_ns),
                bench_number(own, "p99_ns", text_ns)]
        row += [bench_number(own, "mops", "{:.2f}".format)] if is_mix else []
        row += [bench_number(own, "reserved_over_live", "{:.3f}".format)] if has_memory else []
        for name in others:
            median, ratio = bench_cell(cells.get(name))
            speed = [bench_number(cells.get(name), "mops", "{:.2f}".format)] if is_mix else []
            row += [median, *speed, ratio]
        rows.append(row)
    return table(headings, rows) if rows else NOT_MEASURED


def run_row(bench, data):
    """The numbers of a run by which runs are compared; the other allocator's say how fast the
    machine was."""
    def number(kind, allocator, key, form, **wanted):
        for (_, size, threads, live), cells in bench.rows(kind):
            place = {"size": size, "threads": threads, "live": live}
            if all(place[name] == value for name, value in wanted.items()) and allocator in cells:
                return bench_number(cells[allocator], key, form)
        return "-"
    row = [f"[`{bench.facts['commit']}`](benchmarks/{data})"]
    for kind, wanted in (("pair", {"size": 4096}), ("mix", {"threads": 1})):
        row += [number(kind, name, "median_ns", text_ns, **wanted)
                for name in ("tenure", "pytorch")]
    row += [number(kind, "tenure", "mops", "{:.1f}".format, threads=16)
            for kind in ("mix", "pair_shared", "mix_shared")]
    row += [number("pair_own", "tenure", "op_p999_ns", "{:,.0f}".format, threads=16)]
    row += [number("live", "tenure", "median_ns", text_ns, live=live) for live in (1000, 100000)]
    row += [number("handover", "tenure", "median_ns", text_ns, threads=threads)
            for threads in (2, 16)]
    return row + [uses_ratio(bench, threads) for threads in (1, 16)]


def uses_ratio(bench, threads):
    """Four uses over the bare events, by what all threads did in a second: in older runs a thread's
    own time began when others were done."""
    for (_, _, row_threads, _), cells in bench.rows("storm"):
        speeds = [cells.get(name, {}).get("mops") for name in ("tenure", "driver_event")]
        if row_threads == threads and all(speeds):
            return f"{speeds[1] / speeds[0]:.2f} x"
    return "-"


def runs_table(docs, bench):
    """The page's run beside the others that were kept, whole, in benchmarks/runs/."""
    folder = docs / "benchmarks" / "runs"
    rows = [run_row(Bench(path), f"runs/{path.name}") for path in sorted(folder.glob("*.csv"))]
    if not rows:
        return NOT_MEASURED
    return table(["commit", "pair of 4 KiB, ns", "PyTorch", "mix, 1 thread, ns", "PyTorch",
                  "mix, 16 threads, M/s", "pairs, 16 threads, one stream, M/s",
                  "mix, 16 threads, one stream, M/s", "p99.9 of a pair's malloc, 16 threads, ns",
                  "1,000 live small blocks, ns", "100,000, ns",
                  "from thread to thread, 2 threads, ns", "16 threads, ns",
                  "four uses over bare events, 1 thread", "16 threads"],
                 [*rows, run_row(bench, "bench.csv")])


MIXES = {"mix": "own streams", "mix_shared": "one stream", "live": "small blocks",
         "live_large": "large blocks"}


def served_table(bench):
    """Of how many operations of the mixes Tenure's memory had to come from elsewhere."""
    rows = []
    for kind, shown in MIXES.items():
        for (_, _, threads, live), cells in bench.rows(kind):
            own = cells.get("tenure")
            if own is None or own["served_moved"] is None or own["median_ns"] is None:
                continue
            ops = own["rounds"] * own["ops_per_thread"] * threads
            rows.append([shown, threads, f"{live:,}", f"{ops:,.0f}",
                         *(f"{own[key] / ops * 1e6:,.1f}" for key in
                           ("driver_calls", *COUNT_COLUMNS[:4]))])
    return (table(["mix", "threads", "live blocks a thread", "operations", "driver calls", "moved",
                   "lent", "shared", "grown"], rows) if rows else NOT_MEASURED)


def mix_rounds_text(bench):
    """How the rounds of a mix were run, of which older runs know nothing."""
    if not any(cells.get("tenure", {}).get("reserved_over_live")
               for _, cells in bench.rows("mix")):
        return ""
    return (" Blocks stay live over all rounds, and no\nmemory is given back in between; where two "
            "allocators do not fit side by side, all rounds of one\ncome before those of the next. "
            '"reserved / live" is Tenure\'s memory at the end of the rounds.')


USES = {"record_use": "`tnr_record_use`", "record_stream_free": "`tnr_record_stream`, `tnr_free`",
        "alloc_use_free": "allocation, `tnr_record_use`, free",
        "alloc_stream_free": "allocation, `tnr_record_stream`, free",
        "pair_waiting_0": "cached pair, no block waiting on another stream",
        "pair_waiting_1024": "cached pair, 1,024 blocks waiting on another stream"}


def uses_table(bench):
    """What other streams' uses cost: one row for each thing that was timed."""
    rows = []
    for kind, shown in USES.items():
        for _, cells in bench.rows(kind):
            others = [f"{NAMES.get(name, name)} {text_ns(cell['median_ns'])}"
                      for name, cell in cells.items() if name != "tenure" and cell["median_ns"]]
            own = cells.get("tenure")
            rows.append([shown, bench_cell(own)[0], bench_number(own, "min_ns", text_ns),
                         bench_number(own, "p99_ns", text_ns), ", ".join(others) or "-"])
    for (_, _, threads, _), cells in bench.rows("storm"):
        others = [f"{NAMES.get(name, name)} {text_ns(cell['median_ns'])}"
                  for name, cell in cells.items() if name != "tenure" and cell["median_ns"]]
        own = cells.get("tenure")
        rows.append([f"allocation, four `tnr_record_use`, free; {threads} "
                     f"thread{'s' if threads > 1 else ''}", bench_cell(own)[0],
                     bench_number(own, "min_ns", text_ns), bench_number(own, "p99_ns", text_ns),
                     ", ".join(others) or "-"])
    return (table(["what", "Tenure ns", "min", "p99", "beside it, ns"], rows) if rows
            else NOT_MEASURED)



# ---- what newer runs have -------------------------------------------------------------------

def text_time(ns):
    """A time that may be anything from nanoseconds to seconds."""
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= factor:
            return f"{ns / factor:,.2f} {unit}"
    return f"{ns:.0f} ns"


def text_trace(name):
    return f"`{name.split(':', 1)[1]}`"


def long_table(bench, kinds, what, text, has_calls=True):
    """Times of things that take long: one row each, `text(key)` naming it."""
    found = [(key, cells) for kind in kinds for key, cells in bench.rows(kind)]
    if not found:
        return NOT_MEASURED
    others = bench.others(found)
    rows = []
    for key, cells in found:
        own = cells.get("tenure")
        row = [text(key), bench_number(own, "median_ns", text_time) if own is None or
               own["median_ns"] else "failed", bench_number(own, "min_ns", text_time)]
        row += [bench_number(own, "driver_calls", "{:,.0f}".format)] if has_calls else []
        for name in others:
            cell = cells.get(name)
            ratio = bench_cell(cell)[1]
            if cell is not None and own is not None and own["median_ns"] and cell["median_ns"]:
                ratio = f"{own['median_ns'] / cell['median_ns']:.2f}"
            row += [text_time(cell["median_ns"]) if cell is not None and cell["median_ns"] else
                    bench_cell(cell)[0], ratio]
        rows.append(row)
    headings = [what, "Tenure", "min"] + (["driver calls"] if has_calls else [])
    for name in others:
        headings += [NAMES.get(name, name), "Tenure / it"]
    return table(headings, rows)


COLD = {"cold_start": "fresh process, from nothing to the first block",
        "cold_first": "the first block alone", "cold_second": "the second block"}


def cold_table(bench):
    return long_table(bench, COLD, "1 MiB", lambda key: COLD[key[0]], has_calls=False)


def growth_table(bench):
    return long_table(bench, ("growth", "growth_steps"), "from the driver", lambda key:
                      f"{key[3]} x {text_block(key[1])}" if key[3] > 1 else text_block(key[1]))


def moves_table(bench):
    return long_table(bench, ("move",), "block",
                      lambda key: f"{text_block(key[1])}, {key[1] >> 21} chunks")


def traces_table(bench):
    """ns per operation of each trace, fresh and again."""
    kinds = [kind for kind in dict.fromkeys(key[0] for key in bench.cells)
             if kind.startswith(("replay:", "again:"))]
    found = [row for start in ("replay:", "again:") for kind in kinds if kind.startswith(start)
             for row in bench.rows(kind)]
    if not found:
        return NOT_MEASURED
    others = bench.others(found)
    rows = []
    for (kind, _, _, _), cells in found:
        own = cells.get("tenure")
        row = [text_trace(kind), "first" if kind.startswith("replay:") else "again",
               bench_cell(own)[0], bench_number(own, "op_p50_ns", text_ns),
               bench_number(own, "op_p999_ns", text_ns),
               bench_number(own, "driver_calls", "{:,.0f}".format)]
        for name in others:
            row += bench_cell(cells.get(name))
        rows.append(row)
    headings = ["trace", "pass", "Tenure ns", "median", "p99.9", "driver calls"]
    for name in others:
        headings += [f"{NAMES.get(name, name)} ns", "ratio"]
    return table(headings, rows)


SINGLE = {"pair": "cached malloc of {block}", "pair_own": "cached malloc, own streams",
          "pair_shared": "cached malloc, one stream", "pair_new": "malloc of new threads",
          "mix": "mix, own streams",
          "mix_shared": "mix, one stream", "handover": "malloc or free, handed over",
          "storm": "malloc, four uses, free", "live": "mix of small blocks, {live:,} live",
          "live_large": "mix of large blocks, {live:,} live"}


def single_table(bench):
    """Quantiles of single operations."""
    found = [(key, cells) for kind in SINGLE for key, cells in bench.rows(kind)
             if any(cell["samples"] for cell in cells.values())]
    if not found:
        return NOT_MEASURED
    others = bench.others(found)
    rows = []
    for (kind, size, threads, live), cells in found:
        own = cells.get("tenure")
        row = [SINGLE[kind].format(block=text_block(size), live=live), threads]
        row += [bench_number(own, f"op_{key}_ns", text_ns)
                for key in ("p50", "p99", "p999", "worst")]
        for name in others:
            row += [bench_number(cells.get(name), f"op_{key}_ns", text_ns)
                    for key in ("p999", "worst")]
        rows.append(row)
    headings = ["operation", "threads", "Tenure median", "p99", "p99.9", "worst"]
    for name in others:
        headings += [f"{NAMES.get(name, name)} p99.9", "worst"]
    return table(headings, rows)


def clock_text(bench):
    clock = bench.facts.get("clock_ns")
    return f" ({clock} ns in this run)" if clock else ""


# ---- pictures -------------------------------------------------------------------------------

class Lines:
    """A picture of lines over powers of two or ten, both axes logarithmic."""

    def __init__(self, title, below, xs, values):
        self.left, self.right, self.top, self.bottom = 70, 480, 40, 330
        self.first, self.last = min(xs, default=1), max(xs, default=1)
        self.low = math.floor(math.log10(min(values, default=1)))
        self.high = max(math.ceil(math.log10(max(values, default=10))), self.low + 1)
        self.out = Picture(660, 380, title)
        for power in range(self.low, self.high + 1):
            y = self.at_y(10 ** power)
            self.out.line(self.left, y, self.right, y)
            self.out.text(self.left - 8, y + 4, f"{10.0 ** power:,g}", "end")
        for x in sorted(set(xs)) or [1]:
            self.out.line(self.at_x(x), self.top, self.at_x(x), self.bottom, "#eeeeee")
            self.out.text(self.at_x(x), self.bottom + 18, f"{x:,}" if x >= 1000 else x, "middle")
        self.out.text((self.left + self.right) / 2, self.bottom + 38, below, "middle")

    def at_x(self, x):
        span = math.log2(self.last / self.first) or 1
        return self.left + (self.right - self.left) * math.log2(x / self.first) / span

    def at_y(self, value):
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.bottom - (self.bottom - self.top) * share

    def add(self, index, name, points):
        """`points` are pairs; a value of None is a failure, shown as a cross at the top."""
        colour = COLOURS[index % len(COLOURS)]
        previous = None
        for x, value in sorted(points, key=lambda point: point[0]):
            if value is None:
                self.out.text(self.at_x(x), self.top + 12 + 14 * index, "\u00d7 failed", "middle",
                              11, colour)
                previous = None
                continue
            here = self.at_x(x), self.at_y(value)
            if previous:
                self.out.line(*previous, *here, colour, 2)
            self.out.dot(*here, colour)
            previous = here
        self.out.dot(self.right + 30, self.top + 20 * index + 6, colour)
        self.out.text(self.right + 40, self.top + 20 * index + 10, name)

    def finish(self):
        return self.out.finish()


def bench_picture(bench, kinds, title, below, place, key):
    """One line for each kind and allocator: `key` of a cell over what lies at `place` of the row's
    configuration. `kinds`: what is added to the allocator's name, by kind."""
    lines = []
    for kind, suffix in kinds.items():
        rows = bench.rows(kind)
        for name in ["tenure", *bench.others(rows)]:
            points = [(row[place], cells[name][key]) for row, cells in rows if name in cells]
            if points:
                lines.append((NAMES.get(name, name) + suffix, points))
    flat = [point for _, points in lines for point in points]
    out = Lines(f"{title}, {bench.facts['gpu']}", below, [x for x, _ in flat],
                [value for _, value in flat if value])
    for index, (name, points) in enumerate(lines):
        out.add(index, name, points)
    return out.finish()


def pictures_make(bench):
    """The pictures for which the run has data, by name. The mix is in every run."""
    made = {"mix": bench_picture(bench, {"mix": ""}, "Random mix: ns per operation",
                                 "threads, each on its own stream", 2, "median_ns")}
    if bench.rows("mix_shared"):
        made["shared"] = bench_picture(bench, {"mix": ", own", "mix_shared": ", one"},
                                       "Random mix: million operations per second",
                                       "threads, on streams of their own or all on one", 2, "mops")
    if bench.rows("live"):
        made["live"] = bench_picture(bench, {"live": "", "live_large": ", large"},
                                     "Random mix: ns per operation", "live blocks", 3, "median_ns")
    return made


def picture_line(bench, name, text):
    """The picture in the page, if there is one."""
    return f"![{text}](benchmarks/{name}.svg)\n\n" if name in pictures_make(bench) else ""
