# SPDX-License-Identifier: Apache-2.0
"""The part of the page about programs that repeat themselves (tests/bench/steady.py), and about
traces that begin a little differently (tests/bench/perturbed.py)."""
import math
import textwrap

from page import COLOURS, NOT_MEASURED, Picture, csv_rows, facts_table, table

PREFIX = "pass_"
LAST = 10  # passes at the end, of which the data counts the calls


def limit(row):
    """How much may be reserved after the last pass, over what is live."""
    bound = float(row["bound_ratio"])
    return max(1.02, 1.005 * bound) if row["kind"] == "trace" else 1.3 * bound


def curve(row):
    """(pass, reserved over live) for each pass that the data shows."""
    return [(int(key.removeprefix(PREFIX)), float(value)) for key, value in row.items()
            if key.startswith(PREFIX) and value]


def spent(row):
    """What the last passes spend in the driver, as words; nothing if no time was recorded."""
    recorded_ms = float(row["recorded_ms"])
    if recorded_ms == 0:
        return ""
    took_ms = float(row["modelled_ms_last_10"]) / LAST
    return (f": {took_ms:.1f} ms in the driver for each (modelled), "
            f"{100 * took_ms / recorded_ms:.2f} % of its time")


def misses(row):
    """What the row does not reach, as words; nothing if it reaches all."""
    found, (number, last) = [], curve(row)[-1]
    if last > limit(row):
        found.append(f"holds {last:.3f} after {number} passes, the limit is {limit(row):.3f}")
    calls = int(row["mapping_calls_last_10"])
    if calls:
        found.append(f"{calls:,} mapping calls in the last ten passes{spent(row)}")
    return ", and ".join(found)


def steady_tables(docs):
    """A table of traces and one of patterns, and what misses."""
    rows, made = csv_rows(docs / "benchmarks" / "steady.csv")
    if not rows:
        return NOT_MEASURED
    text = ""
    for kind in ("trace", "pattern"):
        shown = [row for row in rows if row["kind"] == kind]
        if not shown:
            continue
        numbers = [number for number, _ in curve(shown[0])]
        text += table(
            [kind, *(f"pass {number}" for number in numbers), "bound", "limit",
             "last pass with mapping", "mapping calls in the last ten", "event records",
             "waits and orders"],
            [[f"`{row['trace']}`", *(f"{ratio:.3f}" for _, ratio in curve(row)),
              f"{float(row['bound_ratio']):.3f}", f"{limit(row):.3f}", row["settled_at"],
              *(f"{int(row[f'{what}_calls_last_10']):,}"
                for what in ("mapping", "event", "order"))] for row in shown]) + "\n"
    return f"{text}{facts_table(made, 'steady.csv')}\n{misses_text(rows)}"


def misses_text(rows):
    """The rows that miss, each with what it misses."""
    missing = [(row["trace"], misses(row)) for row in rows if misses(row)]
    if not missing:
        return f"All {len(rows)} rows reach both limits.\n"
    items = [textwrap.fill(f"`{name}`: {what}.", 98, initial_indent="- ", subsequent_indent="  ")
             for name, what in missing]
    return (f"**{len(missing)} of {len(rows)} rows miss a limit:**\n\n" + "\n".join(items) + "\n")


def perturbed_table(docs):
    """What traces hold that begin a little differently, and all of them in the mean."""
    rows, made = csv_rows(docs / "benchmarks" / "perturbed.csv")
    if not rows:
        return NOT_MEASURED

    def mean(column):
        return sum(float(row[column]) for row in rows) / len(rows)
    passes, tries = rows[0]["passes"], rows[0]["tries"]
    shown = table(
        ["trace", "first pass, mean", "most", f"pass {passes}, mean", "most",
         "first pass: modelled driver ms"],
        [[f"`{row['trace']}`", row["first_mean"], row["first_most"], row["mean"], row["most"],
          row["first_modelled_ms"]] for row in rows])
    first, last = mean("first_mean"), mean("mean")
    said = textwrap.fill(
        f"In the mean of {len(rows)} traces, {tries} variants of each: {first:.4f} of live in the "
        f"first pass, {last:.4f} in pass {passes}, {last - first:.4f} more. The first passes "
        f"spend {len(rows) * mean('first_modelled_ms'):,.0f} ms in the driver together (modelled).",
        100)
    return f"{shown}\n{said}\n\n{facts_table(made, 'perturbed.csv')}"


def steady_picture(docs):
    """Reserved over live of the traces, over passes on a logarithmic axis; None without data."""
    rows = [row for row in csv_rows(docs / "benchmarks" / "steady.csv")[0]
            if row["kind"] == "trace" and len(curve(row)) > 1]
    if not rows:
        return None
    left, right, top, bottom = 60, 480, 40, 330
    passes = math.log10(max(number for row in rows for number, _ in curve(row)))
    most = math.ceil(max(ratio for row in rows for _, ratio in curve(row)) * 20) / 20
    most = max(most, 1.05)

    def at(number, ratio):
        return (left + (right - left) * math.log10(number) / passes,
                bottom - (bottom - top) * (ratio - 1) / (most - 1))
    out = Picture(660, 380, "Reserved over live, over passes, simulated device")
    for step in range(6):
        ratio = 1 + (most - 1) * step / 5
        out.line(left, at(1, ratio)[1], right, at(1, ratio)[1])
        out.text(left - 8, at(1, ratio)[1] + 4, f"{ratio:.3f}", "end")
    for number, _ in curve(rows[0]):
        out.line(at(number, 1)[0], top, at(number, 1)[0], bottom, "#eeeeee")
        out.text(at(number, 1)[0], bottom + 18, number, "middle")
    out.text((left + right) / 2, bottom + 38, "pass", "middle")
    for index, row in enumerate(rows):
        colour = COLOURS[index % len(COLOURS)]
        places = [at(*point) for point in curve(row)]
        for before, after in zip(places, places[1:]):
            out.line(*before, *after, colour, 2)
        for place in places:
            out.dot(*place, colour)
        out.dot(right + 25, top + 20 * index + 6, colour)
        out.text(right + 35, top + 20 * index + 10, row["trace"])
    return out.finish()
