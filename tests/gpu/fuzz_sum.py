#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up what `tenure fuzz --json` said of several gated runs, and prints it as tables for a
document.

    tests/gpu/fuzz_sum.py FILE... [--csv FILE]

The runs must be of one commit, device and driver, and of one kind: planted errors in all of them or
in none. Exit codes: 0; 1 if something failed in any of them; 2 if they cannot be added up.
"""
import argparse
import csv
import json
import sys

SAME = ("commit", "device", "driver", "held_by")
ADDED = ("programs", "operations", "skipped", "checks", "allocations_refused", "elapsed_s")
GROUPS = ("gates", "contents", "not_done", "operations_run", "verdicts", "planted", "caught")
FAILURES = ("missed", "liveness", "safety", "crash", "setup")


class CannotAdd(Exception):
    pass


def add(runs):
    """One run that is the sum of all. Times to open a gate are averaged over the programs."""
    if len({("planted" in run) for run in runs}) != 1:
        raise CannotAdd("some runs have planted errors and some have none")
    total = {}
    for key in SAME:
        values = {run[key] for run in runs}
        if len(values) != 1:
            raise CannotAdd(f"the runs differ in {key}: {', '.join(sorted(values))}")
        total[key] = values.pop()
    for key in ADDED:
        total[key] = sum(run[key] for run in runs)
    for group in GROUPS:
        total[group] = {}
        for run in runs:
            for key, value in run.get(group, {}).items():
                total[group][key] = total[group].get(key, 0) + value
    weighted = sum(run["gates"]["opening_us"] * run["programs"] for run in runs)
    total["gates"]["opening_us"] = round(weighted / max(1, total["programs"]), 1)
    total["bytes_kept_at_most"] = max(run["bytes_kept_at_most"] for run in runs)
    total["operations_per_second"] = round(total["operations"] / max(1e-9, total["elapsed_s"]), 1)
    total["seeds"] = [[run["seed_first"], run["seed_first"] + run["programs"] - 1] for run in runs]
    spans = sorted(total["seeds"])
    if any(after[0] <= before[1] for before, after in zip(spans, spans[1:])):
        raise CannotAdd("the same seeds are in more than one run")
    return total


def rows(total):
    """(what, value) for the table and the CSV."""
    gates, contents = total["gates"], total["contents"]
    yield "commit", total["commit"]
    yield "device", total["device"]
    yield "driver", total["driver"]
    yield "streams held by", total["held_by"]
    yield "seeds", ", ".join(f"{first} to {last}" for first, last in total["seeds"])
    yield "time, s", round(total["elapsed_s"], 1)
    yield "programs", total["programs"]
    yield "operations", total["operations"]
    yield "operations a second", total["operations_per_second"]
    yield "gates", gates["placed"]
    yield "opened as drawn", gates["opened_as_drawn"]
    yield "opened for calls that waited", gates["opened_for_waiting_calls"]
    yield "opened for lack of room", gates["opened_for_lack_of_room"]
    yield "over before an older operation", gates["overtaking"]
    yield "waited for something else", gates["late"]
    yield "time for a gate to open, us", gates["opening_us"]
    yield "reads checked", contents["reads_checked"]
    yield "words read", contents["words_read"]
    yield "words written", contents["words_written"]
    yield "programs with a mismatch", contents["programs_with_a_mismatch"]
    yield "bytes of the device not free again, at most", total["bytes_kept_at_most"]
    for verdict, count in total["verdicts"].items():
        if count or verdict in ("ok", "safety"):
            yield f"verdict {verdict}", count
    for kind, count in total["not_done"].items():
        yield f"not done: {kind}", count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--csv", metavar="FILE", help="the same as CSV")
    arguments = parser.parse_args()
    try:
        runs = []
        for name in arguments.files:
            with open(name, encoding="utf-8") as file:
                runs.append(json.load(file))
            if "gates" not in runs[-1]:
                raise CannotAdd(f"{name} is not of a gated run")
        total = add(runs)
    except (OSError, ValueError, KeyError, CannotAdd) as error:
        print(f"fuzz_sum.py: {error}", file=sys.stderr)
        return 2
    print("| | |\n|---|---|")
    for what, value in rows(total):
        print(f"| {what} | {value:,} |" if isinstance(value, int) else f"| {what} | {value} |")
    if total["planted"]:
        print("\n| planted error | planted | caught |\n|---|---|---|")
        for kind, count in total["planted"].items():
            print(f"| {kind} | {count} | {total['caught'][kind]} |")
    if arguments.csv:
        with open(arguments.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerows(rows(total))
            writer.writerows((f"planted: {kind}", count) for kind, count in
                             total["planted"].items())
            writer.writerows((f"caught: {kind}", count) for kind, count in total["caught"].items())
    return 1 if any(total["verdicts"].get(verdict, 0) for verdict in FAILURES) else 0


if __name__ == "__main__":
    sys.exit(main())
