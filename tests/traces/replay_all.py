#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replays the recorded traces and compares what they show with the promised limits.

Exit codes: 0 all within the limits; 1 something is not; 2 the command could not be run.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import time

# Peak reserved over peak live: one limit for all. serve_streams alone is above it: what is live at
# its peak, 489 MB, lies on five streams that trade, with chunks that are filled in part on each.
RATIO_LIMIT = 1.06
RATIO_LIMITS = {"serve_streams": 1.12}
# Allocations in the second half of the trace that may reach the driver.
SECOND_HALF_LIMITS = {"gpt2_train": 20}
# What `tenure replay --json` promises to have, at least.
KEYS = """trace driver ops peak_live_bytes peak_reserved_bytes reserved_over_live driver_calls
          chunks_created chunks_moved ns_per_op pattern_errors""".split()
# Peak live bytes, known from the recording: shows that the whole trace was carried out.
PEAKS = {
    "gpt2_eager": 2680271704,
    "graph_eager": 2278397679,
    "llama_eager": 4083708720,
    "moe_eager": 2311727896,
    "gpt2_train": 19496493768,
    "llama_generate": 1797593360,
    "resnet_train": 3879475600,
    "moe_infer": 658602410,
    "offload_streams": 436207616,
    "serve_streams": 488960048,
    "diffusion": 1007467652,
    "gpt2_reduce": 1428556008,
    "pipeline_train": 10109777080,
    "resnet50_eager": 6733601836,
    "rollout_train": 2824413476,
}


def judge(one, driver, driver_seconds):
    """Returns what is wrong with the result of one trace, as sentences."""
    name = one.get("trace", "?")
    missing = [key for key in KEYS if key not in one]
    if missing:
        return [f"{name}: the keys {', '.join(missing)} are missing"]
    wrong = []
    if one["driver"] != driver:
        wrong.append(f"ran on {one['driver']}, not on {driver}")
    if one["pattern_errors"] != 0:
        wrong.append(f"{one['pattern_errors']} pattern errors")
    if one["peak_live_bytes"] != PEAKS.get(name):
        wrong.append(f"peak live is {one['peak_live_bytes']}, recorded was {PEAKS.get(name)}")
    if one["peak_reserved_bytes"] < one["peak_live_bytes"]:
        wrong.append("less was reserved than was live")
    limit = RATIO_LIMITS.get(name, RATIO_LIMIT)
    if one["reserved_over_live"] > limit:
        wrong.append(f"reserved / live is {one['reserved_over_live']}, the limit is {limit}")
    limit = SECOND_HALF_LIMITS.get(name)
    if limit is not None and one["second_half_driver_allocations"] > limit:
        wrong.append(f"{one['second_half_driver_allocations']} allocations of the second half "
                     f"reached the driver, the limit is {limit}")
    if driver_seconds is not None and name == "gpt2_train":
        seconds = one["driver_ns"] / 1e9
        if seconds > driver_seconds:
            wrong.append(f"{seconds:.3f} s in the driver, the limit is {driver_seconds} s")
    if one.get("error"):
        wrong.append(one["error"])
    return [f"{name}: {text}" for text in wrong]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenure", required=True, help="the tenure command")
    parser.add_argument("--driver", default="sim", choices=["sim", "cuda"])
    parser.add_argument("--driver-seconds", type=float,
                        help="limit for the time gpt2_train may spend in the driver")
    parser.add_argument("--json", metavar="FILE", help="keep the command's output")
    arguments = parser.parse_args()

    folder = pathlib.Path(__file__).resolve().parent
    traces = sorted(folder.glob("*.csv.gz"))
    started = time.monotonic()
    run = subprocess.run([arguments.tenure, "replay", "--driver", arguments.driver, "--json",
                          *map(str, traces)], stdout=subprocess.PIPE, text=True, check=False)
    seconds = time.monotonic() - started
    if arguments.json:
        pathlib.Path(arguments.json).write_text(run.stdout)
    try:
        results = [json.loads(line) for line in run.stdout.splitlines()]
    except json.JSONDecodeError as problem:
        print(f"the output is not JSON: {problem}")
        return 1
    wrong = [] if run.returncode == 0 else [f"the command ended with code {run.returncode}"]
    seen = sorted(one.get("trace", "?") for one in results)
    if seen != sorted(PEAKS):
        wrong.append(f"results for {seen} instead of {sorted(PEAKS)}")
    for one in results:
        print(f"{one.get('trace', '?'):16} reserved/live {one.get('reserved_over_live')}  "
              f"driver {one.get('driver_ns', 0) / 1e6:.1f} ms in {one.get('driver_calls')} calls  "
              f"2nd half {one.get('second_half_driver_allocations')}  "
              f"{one.get('ns_per_op')} ns/op  pattern errors {one.get('pattern_errors')}")
        wrong += judge(one, arguments.driver, arguments.driver_seconds)
    print(f"{seconds:.1f} s in all")
    for text in wrong:
        print(f"WRONG: {text}")
    if not results:
        return 2
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
