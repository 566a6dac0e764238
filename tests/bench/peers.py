# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/benchmarks.md about several GPUs, from nccl.json and peers.json beside it."""
import json
import statistics

from page import NOT_MEASURED, table, text_block


def facts_text(facts):
    return (f"{facts['gpu']}, driver {facts['driver']}, commit {facts['commit']}: "
            f"`{facts['command']}`.\n")


def nccl_table(docs):
    """nccl-tests with and without `tenure run`, medians of the runs."""
    path = docs / "benchmarks" / "nccl.json"
    if not path.exists():
        return NOT_MEASURED
    results = json.loads(path.read_text("utf-8"))
    rows = []
    for one in results["speed"]:
        native, tenure = one["native_us"], one["tenure_us"]
        rows.append([f"`{one['program'].removesuffix('_perf')}`", text_block(one["bytes"]),
                     f"{statistics.median(native):.2f}", f"{min(native):.2f} to {max(native):.2f}",
                     f"{statistics.median(tenure):.2f}", f"{min(tenure):.2f} to {max(tenure):.2f}",
                     f"{one['ratio']:.3f}"])
    return (table(["program", "bytes", "us", "from, to", "us with Tenure", "from, to",
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
