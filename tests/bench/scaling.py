# SPDX-License-Identifier: Apache-2.0
"""The parts of the page about what the simulated device shows: memory against moves over the
settings (tests/bench/moves.py), and what grows with blocks and streams (tests/bench/scale.py)."""
import math

from page import COLOURS, NOT_MEASURED, Picture, csv_rows, facts_table, table

FIVE_STREAMS = "serve_streams"


class Combination:
    """One setting with one value, over all traces."""

    def __init__(self, setting, value, rows, one_stream):
        self.setting, self.value = setting, value
        ratios = {row["trace"]: float(row["reserved_over_live"]) for row in rows}
        self.one_stream = max((ratio for trace, ratio in ratios.items() if trace in one_stream),
                              default=None)
        self.five_streams = ratios.get(FIVE_STREAMS)
        self.moved = sum(int(row["chunks_moved"]) for row in rows)
        self.made = sum(int(row["chunks_created"]) for row in rows)
        self.driver_ms = sum(float(row["modelled_driver_ms"]) for row in rows)
        self.percent = max(float(row["percent_of_recorded"]) for row in rows)

    @property
    def name(self):
        if self.setting == "default":
            return "the default"
        return f"`{self.value}`" if ":" in self.value else f"`{self.setting}:{self.value}`"


def combinations(docs, replay):
    """All combinations in the order of the file. `replay` says which traces use one stream."""
    rows, made = csv_rows(docs / "benchmarks" / "moves.csv")
    one_stream = {name for name, one in replay.results.items() if one["streams"] == 1}
    groups = {}
    for row in rows:
        groups.setdefault((row["setting"], row["value"]), []).append(row)
    return [Combination(*key, found, one_stream) for key, found in groups.items()], made


def ratio_text(value):
    return "-" if value is None else f"{value:.3f}"


def moves_curve_table(docs, replay):
    """Memory, moves and modelled driver time of each combination."""
    found, made = combinations(docs, replay)
    if not found:
        return NOT_MEASURED
    rows = [[one.name, ratio_text(one.one_stream), ratio_text(one.five_streams), f"{one.made:,}",
             f"{one.moved:,}", f"{one.driver_ms:,.1f}", f"{one.percent:.2f} %"] for one in found]
    headings = ["setting", "worst one-stream trace", f"`{FIVE_STREAMS}`", "chunks made",
                "chunks moved", "modelled driver ms", "of the recorded run, at most"]
    return table(headings, rows) + "\n" + facts_table(made, "moves.csv")


def moves_default_table(docs):
    """The default, trace by trace."""
    rows, _ = csv_rows(docs / "benchmarks" / "moves.csv")
    shown = [[f"`{one['trace']}`", one["reserved_over_live"], one["reserved_over_live_most"],
              f"{int(one['chunks_created']):,}", f"{int(one['chunks_moved']):,}",
              one["second_half_driver_allocations"], f"{float(one['modelled_driver_ms']):.1f}",
              f"{float(one['percent_of_recorded']):.2f} %"]
             for one in rows if one["setting"] == "default"]
    if not shown:
        return NOT_MEASURED
    return table(["trace", "reserved / live", "at most", "chunks made", "chunks moved",
                  "2nd half: to the driver", "modelled driver ms", "of the recorded run"], shown)


def moves_curve_picture(docs, replay):
    """Chunks moved, logarithmic, over reserved / live of the worst one-stream trace; the values of
    a setting are joined. None without data."""
    found = [one for one in combinations(docs, replay)[0] if one.one_stream and one.moved]
    if not found:
        return None
    left, right, top, bottom = 70, 480, 40, 330
    ratios = [one.one_stream for one in found]
    first, last = math.floor(min(ratios) * 100) / 100, math.ceil(max(ratios) * 100) / 100
    last = max(last, first + 0.01)
    low = math.floor(math.log10(min(one.moved for one in found)))
    high = max(math.ceil(math.log10(max(one.moved for one in found))), low + 1)

    def at(one):
        share = (math.log10(one.moved) - low) / (high - low)
        return (left + (right - left) * (one.one_stream - first) / (last - first),
                bottom - (bottom - top) * share)
    out = Picture(660, 380, "Chunks moved over reserved / live, simulated device")
    for power in range(low, high + 1):
        y = bottom - (bottom - top) * (power - low) / (high - low)
        out.line(left, y, right, y)
        out.text(left - 8, y + 4, f"{10 ** power:,}", "end")
    for step in range(6):
        x = left + (right - left) * step / 5
        out.line(x, top, x, bottom, "#eeeeee")
        out.text(x, bottom + 18, f"{first + (last - first) * step / 5:.3f}", "middle")
    out.text((left + right) / 2, bottom + 38, "reserved / live, worst one-stream trace", "middle")
    for index, setting in enumerate(dict.fromkeys(one.setting for one in found)):
        colour = COLOURS[index % len(COLOURS)]
        places = [at(one) for one in found if one.setting == setting]
        for before, after in zip(places, places[1:]):
            out.line(*before, *after, colour, 2)
        for place in places:
            out.dot(*place, colour)
        out.dot(right + 25, top + 20 * index + 6, colour)
        out.text(right + 35, top + 20 * index + 10, setting)
    return out.finish()


# What is shown of scale.csv: column, heading, how.
SCALE = (("blocks", "live blocks", "{:,.0f}"), ("streams", "streams", "{:,.0f}"),
         ("cached_ns", "cached ns", "{:,.0f}"), ("mix_ns", "mix ns", "{:,.0f}"),
         ("cached_instructions", "cached instructions", "{:,.0f}"),
         ("mix_instructions", "mix instructions", "{:,.0f}"),
         ("metadata_bytes_per_block", "metadata bytes a block", "{:,.0f}"),
         ("stats_us", "statistics us", "{:,.1f}"), ("snapshot_ms", "snapshot ms", "{:,.1f}"),
         ("trim_us_per_gib", "trim us a GiB", "{:,.0f}"),
         ("destroy_us", "end of a stream us", "{:,.0f}"))


def scale_table(docs):
    """What grows with blocks and streams."""
    rows, made = csv_rows(docs / "benchmarks" / "scale.csv")
    if not rows:
        return NOT_MEASURED
    shown = [[form.format(float(row[column])) if row.get(column) else "-"
              for column, _, form in SCALE] for row in rows]
    return (table([heading for _, heading, _ in SCALE], shown) + "\n"
            + facts_table(made, "scale.csv"))
