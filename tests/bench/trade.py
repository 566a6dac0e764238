# SPDX-License-Identifier: Apache-2.0
"""The parts of the page that need no GPU: memory against driver time over the settings that trade
one for the other (moves.csv, of moves.py), and what grows with blocks and streams (scale.csv, of
scale.py)."""
import math

from page import COLOURS, NOT_MEASURED, BadInput, Picture, csv_rows, provenance_row, table

MOVES = """setting value trace reserved_over_live reserved_over_live_most chunks_created
           chunks_moved second_half_driver_allocations modelled_driver_ms recorded_ms
           percent_of_recorded""".split()
DEFAULT_SHARE = "384"
SERIES = (*COLOURS, "#a8324a")
NAMES = {"default": "the default", "before": "before these rules"}


def moves_rows(docs):
    path = docs / "benchmarks" / "moves.csv"
    rows, comment = csv_rows(path)
    if rows and list(rows[0]) != MOVES:
        raise BadInput(f"{path}: has not the columns {','.join(MOVES)}")
    return rows, comment


def trade_table(docs):
    """The default by trace, then every setting by its worst and its sums."""
    rows, made = moves_rows(docs)
    if not rows:
        return NOT_MEASURED
    shown = [[f"`{one['trace']}`", one["reserved_over_live"], one["reserved_over_live_most"],
              f"{int(one['chunks_created']):,}", f"{int(one['chunks_moved']):,}",
              one["second_half_driver_allocations"], f"{float(one['modelled_driver_ms']):.1f}",
              f"{float(one['percent_of_recorded']):.2f} %"]
             for one in rows if one["setting"] == "default"]
    first = table(["trace", "reserved / live", "at most", "chunks made", "chunks moved",
                   "2nd half: to the driver", "modelled driver ms", "of the recorded run"], shown)
    traces = sorted({one["trace"] for one in rows})
    settings = list(dict.fromkeys((one["setting"], one["value"]) for one in rows))
    cells = {(one["setting"], one["value"], one["trace"]): one for one in rows}
    shown = []
    for setting, value in settings:
        name = NAMES.get(setting, f"`{setting}:{value}`")
        shown.append([name] + [
            f"{float(one['reserved_over_live']):.3f}, {float(one['percent_of_recorded']):.2f} %"
            for one in (cells[setting, value, trace] for trace in traces)])
    second = table(["setting", *(f"`{trace}`" for trace in traces)], shown)
    return (first + "\nReserved over live, and the share of the recorded run, for each setting:\n\n"
            + second + "\n" + provenance_row(made, ["command", "commit"], "moves.csv"))


def trade_picture(docs):
    """Modelled driver time over memory, a line for each trace through the values of chunk_share."""
    rows, _ = moves_rows(docs)
    rows = [one if one["setting"] != "default" else
            {**one, "setting": "chunk_share", "value": DEFAULT_SHARE} for one in rows]
    rows = [one for one in rows if one["setting"] == "chunk_share"]
    left, right, top, bottom = 70, 520, 40, 360
    shares = [float(one["percent_of_recorded"]) for one in rows] or [1.0]
    widest = max([float(one["reserved_over_live"]) for one in rows] + [1.05])
    low, high = math.floor(math.log10(min(shares))), math.ceil(math.log10(max(shares)))
    high = max(high, low + 1)

    def at_x(ratio):
        return left + (right - left) * (ratio - 1) / (widest - 1)

    def at_y(percent):
        return bottom - (bottom - top) * (math.log10(percent) - low) / (high - low)

    out = Picture(700, 410, "Modelled driver time over memory, by chunk_share")
    for power in range(low, high + 1):
        out.line(left, at_y(10 ** power), right, at_y(10 ** power))
        out.text(left - 8, at_y(10 ** power) + 4, f"{10.0 ** power:g} %", "end")
    for step in range(0, int((widest - 1) / 0.05) + 1):
        ratio = 1 + 0.05 * step
        out.line(at_x(ratio), top, at_x(ratio), bottom, "#eeeeee")
        out.text(at_x(ratio), bottom + 18, f"{ratio:.2f}", "middle")
    out.text((left + right) / 2, bottom + 38, "reserved over live", "middle")
    out.text(left + 4, top + 12, "of the recorded run", size=11)
    for index, trace in enumerate(sorted({one["trace"] for one in rows})):
        colour = SERIES[index % len(SERIES)]
        line = sorted((one for one in rows if one["trace"] == trace),
                      key=lambda one: int(one["value"]))
        points = [(at_x(float(one["reserved_over_live"])), at_y(float(one["percent_of_recorded"])))
                  for one in line]
        for before, after in zip(points, points[1:]):
            out.line(*before, *after, colour, 1.5)
        for point, one in zip(points, line):
            out.dot(*point, colour)
            if one["value"] == DEFAULT_SHARE:
                out.text(point[0] + 5, point[1] - 5, DEFAULT_SHARE, size=10, colour=colour)
        out.dot(right + 25, top + 20 * index + 6, colour)
        out.text(right + 35, top + 20 * index + 10, trace)
    return out.finish()


def scale_table(docs):
    """Costs over blocks and streams."""
    rows, made = csv_rows(docs / "benchmarks" / "scale.csv")
    if not rows:
        return NOT_MEASURED
    shown = []
    for one in rows:
        counts = [f"{float(one[key]):,.0f}" if one[key] else "-"
                  for key in ("cached_instructions", "mix_instructions")]
        shown.append([f"{int(one['blocks']):,} on {int(one['streams']):,}",
                      f"{float(one['live_bytes']) / 1e9:,.0f}",
                      f"{float(one['cached_ns']):,.0f}", f"{float(one['mix_ns']):,.0f}", *counts,
                      f"{100 * float(one['mix_driver_share']):.2f} %",
                      f"{float(one['metadata_bytes_per_block']):,.0f}",
                      f"{float(one['stats_us']):,.0f}", f"{float(one['snapshot_ms']):,.1f}",
                      f"{float(one['trim_us_per_gib']):,.0f}", f"{float(one['destroy_us']):,.0f}"])
    return (table(["blocks on streams", "live GB", "cached ns", "mix ns", "cached instructions",
                   "mix instructions", "mix: to the driver", "metadata B a block", "stats us",
                   "snapshot ms", "trim us a GiB", "stream's end us"], shown)
            + "\n" + provenance_row(made, ["command", "commit", "cpus"], "scale.csv"))
