# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/benchmarks.md about several GPUs, from nccl.json and peers.json beside it."""
import json
import pathlib
import statistics
import sys
import textwrap

from page import NOT_MEASURED, table, text_block

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "gpu" / "peers"))
import nccl  # noqa: E402  pylint: disable=wrong-import-position


def facts_text(facts):
    commands = " and ".join(f"`{one}`" for one in facts["command"].split("; "))
    return (f"{facts['gpu']}, driver {facts['driver']}, commit {facts['commit']}:\n"
            f"{commands}.\n")


def nccl_table(docs):
    """nccl-tests with and without `tenure run`: what is right, and medians of the timed runs."""
    path = docs / "benchmarks" / "nccl.json"
    if not path.exists():
        return NOT_MEASURED
    results = json.loads(path.read_text("utf-8"))
    rows, held = [], 0
    for one in results["speed"]:
        native, tenure = one["native_us"], one["tenure_us"]
        is_held = nccl.holds(one["bytes"], native, tenure, one["ratio"])
        held += is_held
        ratio = f"{one['ratio']:.3f}"
        rows.append([f"`{one['program'].removesuffix('_perf')}`", one["mode"],
                     text_block(one["bytes"]),
                     f"{statistics.median(native):.2f}", f"{min(native):.2f} to {max(native):.2f}",
                     f"{statistics.median(tenure):.2f}", f"{min(tenure):.2f} to {max(tenure):.2f}",
                     ratio if is_held else f"**{ratio}**"])
    right = [(one["mode"], len(one["right"])) for one in results["check"]]
    said = (f"{sum(count for _, count in right)} runs in {len(right)} modes found no wrong value: "
            f"{'; '.join(mode for mode, _ in right)}. " if right else "")
    said += (f"{held} of {len(rows)} rows are as fast: from 1 MiB the bandwidth is at least 0.98 "
             "of that without Tenure, below it the median lies within the runs without. The others "
             "are in bold.")
    return (textwrap.fill(said, 100) + "\n\n"
            + table(["program", "mode", "bytes", "us", "from, to", "us with Tenure", "from, to",
                     "bandwidth ratio"], rows) + f"\n{facts_text(results['facts'])}")


def peers_text(docs):
    """How fast a GPU reads another's memory, and what opening and closing costs."""
    path = docs / "benchmarks" / "peers.json"
    if not path.exists():
        return NOT_MEASURED
    results = json.loads(path.read_text("utf-8"))
    rates = [[name, f"{one['median']:.1f}", f"{one['least']:.1f} to {one['most']:.1f}"]
             for name, one in results["gb_per_s"].items()]
    costs = [[what, f"{us:.1f}"] for what, us in results["us_a_chunk"].items()]
    return (table(["a kernel reads a peer's memory of", "GB/s", "from, to"], rates) + "\n"
            + table(["the driver's own cost, chunks of 2 MiB", "us a chunk"], costs)
            + f"\n{facts_text(results['facts'])}")
