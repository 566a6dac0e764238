# SPDX-License-Identifier: Apache-2.0
"""The project's targets for speed and memory, each beside what the data says: measured value, and
whether it was met. A target whose measurement is not in the data says so; none is written by hand.
"""
import gzip

from page import table
from speed import text_time

FULL_THREADS = 16


class Facts:
    """The data that targets are computed from."""

    def __init__(self, bench, replay, traces, seeing):
        self.bench, self.replay, self.traces = bench, replay, traces
        self.seeing = seeing  # the rows of seeing.csv

    def cell(self, kind, name="tenure", **wanted):
        """The cell of the only configuration that fits: threads, live, size. None without it, or
        if it failed."""
        places = {"size": 1, "threads": 2, "live": 3}
        for key, cells in self.bench.rows(kind):
            if all(key[places[what]] == value for what, value in wanted.items()):
                cell = cells.get(name)
                return cell if cell is not None and cell["median_ns"] else None
        return None

    def number(self, kind, key, **wanted):
        cell = self.cell(kind, **wanted)
        return cell[key] if cell is not None else None

    def lives(self, kind):
        """The number of live blocks and the time of each configuration, fewest first."""
        found = [(key[3], cells["tenure"]["median_ns"]) for key, cells in self.bench.rows(kind)
                 if "tenure" in cells and cells["tenure"]["median_ns"]]
        return sorted(found)

    def trace_ns(self, name):
        """How long the recorded run took, from the trace's own times; None without the file."""
        path = self.traces / f"{name}.csv.gz"
        if not path.exists():
            return None
        with gzip.open(path, "rt", encoding="utf-8") as file:
            times = [int(line.rsplit(",", 1)[1]) for line in file
                     if line[:2] in ("a,", "F,", "f,")]
        return (max(times) - min(times)) * 1000 if times else None


# ---- what is measured: each returns (text, met), or None without data ------------------------

def at_most(value, limit, text):
    return None if value is None else (text.format(value), value <= limit)


def at_least(value, limit, text):
    return None if value is None else (text.format(value), value >= limit)


def pair_worst(facts):
    times = [cells["tenure"]["median_ns"] for _, cells in facts.bench.rows("pair")
             if "tenure" in cells and cells["tenure"]["median_ns"]]
    return at_most(max(times, default=None), 40, "{:.1f} ns at the worst size")


def pair_ratio(name, limit):
    def measured(facts):
        ratios = [cells[name]["ratio_to_tenure"] for _, cells in facts.bench.rows("pair")
                  if name in cells and cells[name]["ratio_to_tenure"]]
        return at_least(min(ratios, default=None), limit, "{:.1f} x at the worst size")
    return measured


def mix_one(facts):
    return at_most(facts.number("mix", "median_ns", threads=1), 110, "{:.1f} ns")


def mix_full(facts):
    return at_least(facts.number("mix", "mops", threads=FULL_THREADS), 100, "{:.1f} M/s")


def shared(kind):
    def measured(facts):
        one = facts.number(kind, "mops", threads=1)
        many = facts.number(kind, "mops", threads=FULL_THREADS)
        if not one or not many:
            return None
        return f"{many / one:.2f} x ({many:.1f} of {one:.1f} M/s)", many >= one
    return measured


def live(kind):
    def measured(facts):
        found = facts.lives(kind)
        if len(found) < 2:
            return None
        (few, few_ns), (many, many_ns) = found[0], found[-1]
        text = f"{many_ns / few_ns:.2f} x ({few:,}: {few_ns:.0f} ns, {many:,}: {many_ns:.0f} ns)"
        return text, many_ns <= 2 * few_ns and many >= 100000
    return measured


def memory_ratio(limit, is_wanted):
    def measured(facts):
        ratios = {name: one["peak_reserved_bytes"] / one["peak_live_bytes"]
                  for name, one in facts.replay.results.items()
                  if one["exit_code"] == 0 and one["peak_live_bytes"] and is_wanted(name, one)}
        if not ratios:
            return None
        worst = max(ratios, key=ratios.get)
        return f"{ratios[worst]:.3f} (`{worst}`)", ratios[worst] <= limit
    return measured


def driver_share(facts):
    shares = {}
    for name, one in facts.replay.results.items():
        whole = facts.trace_ns(name)
        if one["exit_code"] == 0 and whole:
            shares[name] = one["driver_ns"] / whole
    if not shares:
        return None
    worst = max(shares, key=shares.get)
    good = sum(share <= 0.01 for share in shares.values())
    return (f"{shares[worst]:.2%} (`{worst}`); {good} of {len(shares)} traces within",
            shares[worst] <= 0.01)


def growth(facts):
    own = facts.number("growth", "median_ns", size=4 << 30)
    driver = facts.number("growth", "median_ns", name="driver_malloc", size=4 << 30)
    if not own or not driver:
        return None
    return f"{own / driver:.2f} x ({text_time(own)} of {text_time(driver)})", own <= 1.3 * driver


def steady(facts):
    calls = {key[0].split(":", 1)[1]: cells["tenure"]["driver_calls"]
             for key, cells in facts.bench.cells.items()
             if key[0].startswith("again:") and cells.get("tenure", {}).get("median_ns")}
    if not calls:
        return None
    worst = max(calls, key=calls.get)
    return f"{calls[worst]:,.0f} (`{worst}`)", calls[worst] == 0


def tail(facts):
    """Both on own streams and on one for all."""
    found = {text: facts.number(kind, "op_p999_ns", threads=FULL_THREADS)
             for kind, text in (("pair_own", "own streams"), ("pair_shared", "one stream"))}
    known = {text: ns for text, ns in found.items() if ns is not None}
    if not known:
        return None
    return (", ".join(f"{ns:,.0f} ns {text}" for text, ns in known.items()),
            len(known) == len(found) and max(known.values()) <= 1000)


def record_use(facts):
    own = facts.number("record_use", "median_ns")
    event = facts.number("record_use", "median_ns", name="driver_event")
    return at_most(own / event if own and event else None, 1.3, "{:.2f} x")


def handover(facts):
    """The slowest number of threads."""
    found = {key[2]: cells["tenure"]["median_ns"] for key, cells in facts.bench.rows("handover")
             if "tenure" in cells and cells["tenure"]["median_ns"]}
    if not found:
        return None
    worst = max(found, key=found.get)
    return (f"{found[worst]:.0f} ns with {worst} threads, {found[min(found)]:.0f} with "
            f"{min(found)}", found[worst] <= 150)


def four_uses(facts):
    ratios = {}
    for threads in (1, FULL_THREADS):
        own = facts.number("storm", "median_ns", threads=threads)
        events = facts.number("storm", "median_ns", name="driver_event", threads=threads)
        if not own or not events:
            return None
        ratios[threads] = own / events
    return (", ".join(f"{ratio:.2f} x with {threads}" for threads, ratio in ratios.items()),
            max(ratios.values()) <= 2)


def first_passes(facts):
    ratios = {}
    for key, cells in facts.bench.cells.items():
        if key[0].startswith("replay:") and cells.get("tenure", {}).get("median_ns") and \
                cells.get("pytorch", {}).get("median_ns"):
            ratios[key[0].split(":", 1)[1]] = cells["tenure"]["median_ns"] / \
                cells["pytorch"]["median_ns"]
    if not ratios:
        return None
    worst = max(ratios, key=ratios.get)
    good = sum(ratio <= 1 for ratio in ratios.values())
    return (f"{ratios[worst]:.2f} x (`{worst}`); {good} of {len(ratios)} traces within",
            ratios[worst] <= 1)


def waiting(facts):
    none = facts.number("pair_waiting_0", "median_ns")
    many = facts.number("pair_waiting_1024", "median_ns")
    return at_most(many / none if none and many else None, 1.05, "{:.2f} x")


def history(facts):
    ns = {one["which"]: float(one["ns"]) for one in facts.seeing
          if one["what"] == "history" and one["round"] == "median"}
    return at_most(ns["light"] - ns["off"] if "light" in ns and "off" in ns else None, 20,
                   "{:.1f} ns")


def snapshot(facts):
    times = [float(one["ns"]) / 1e6 for one in facts.seeing
             if one["what"] == "snapshot" and one["round"] == "median" and
             one["records"] == "100000" and one["which"] in ("json", "pickle")]
    return at_most(max(times, default=None), 20, "{:.1f} ms")


TARGETS = [
    ("cached pair, an allocation and its free, every size", "<= 40 ns", pair_worst),
    ("cached pair beside PyTorch", ">= 10 x", pair_ratio("pytorch", 10)),
    ("cached pair beside the driver pool", ">= 15 x", pair_ratio("driver_pool", 15)),
    ("random mix, one thread, a free and an allocation", "<= 110 ns", mix_one),
    ("random mix, 16 threads on 16 streams", ">= 100 M/s", mix_full),
    ("random mix, 16 threads on one stream beside one thread", ">= 1 x", shared("mix_shared")),
    ("cached pair, 16 threads on one stream beside one thread", ">= 1 x", shared("pair_shared")),
    ("100,000 live small blocks beside 1,000", "<= 2 x", live("live")),
    ("100,000 live large blocks beside 1,000", "<= 2 x", live("live_large")),
    ("a block from thread to thread", "<= 150 ns", handover),
    ("four uses beside four bare cuEventRecords, 1 and 16 threads", "<= 2 x", four_uses),
    ("first pass of a trace beside PyTorch", "<= 1 x", first_passes),
    ("reserved / live, every one-stream trace", "<= 1.02",
     memory_ratio(1.02, lambda name, one: one["streams"] == 1)),
    ("reserved / live, `serve_streams`", "<= 1.12",
     memory_ratio(1.12, lambda name, one: name == "serve_streams")),
    ("driver time of the recorded run's duration", "<= 1 %", driver_share),
    ("4 GiB in one block beside cuMemAlloc", "<= 1.3 x", growth),
    ("driver calls of a trace's second pass", "0", steady),
    ("p99.9 of a cached malloc, 16 threads", "<= 1 us", tail),
    ("`tnr_record_use` beside cuEventRecord", "<= 1.3 x", record_use),
    ("cached pair, 1,024 blocks waiting beside none", "same (<= 1.05 x)", waiting),
    ("history light, an operation", "<= 20 ns", history),
    ("snapshot of 100,000 records", "<= 20 ms", snapshot),
]


def targets_table(bench, replay, traces, seeing):
    """One row for each target."""
    facts = Facts(bench, replay, traces, seeing)
    rows = []
    for what, limit, measured in TARGETS:
        found = measured(facts)
        if found is None:
            rows.append([what, limit, "not measured yet", "-"])
        else:
            rows.append([what, limit, found[0], "met" if found[1] else "**missed**"])
    return table(["what", "target", "measured", "met?"], rows)
