#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""engines_cupy.py [--steps N] [--json FILE] [--csv FILE] [--commit TEXT]

CuPy with its own memory pool and with Tenure, each in a process of its own with the same seed:
matrix products, transforms, sorts and reductions on arrays whose sizes vary, on two streams, and a
captured graph that is replayed between them.

Must hold: the results are the same bit by bit, where two runs with CuPy's own pool agree on them;
Tenure's peak of reserved memory is not above that of CuPy's pool; a step takes no longer (but for
--tolerance, which is noise).

Exit codes: 0 all holds; 1 not; 77 there is no CuPy or no GPU.
"""
import argparse
import csv
import importlib.util
import json
import os
import random
import subprocess
import sys
import time

ALLOCATORS = ("native", "tenure")
VALUES = ("product", "spectrum", "sum", "replayed")
COLUMNS = ("case", "allocator", "model", "steps", "step_ms", "peak_reserved_mib", "results", "gpu",
           "driver", "cupy", "commit")
MIB, EPOCHS = 1 << 20, 3


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


# ---- one process ------------------------------------------------------------------------------


class Meter:
    """Reserved memory: Tenure keeps its peak, CuPy's pool is asked after each step."""

    def __init__(self, cupy, allocator):
        self.cupy, self.allocator, self.peak = cupy, allocator, 0

    def step(self):
        if self.allocator == "native":
            self.peak = max(self.peak, self.cupy.get_default_memory_pool().total_bytes())

    def result(self):
        if self.allocator == "native":
            return self.peak
        import tenure
        return tenure.stats()["reserved_bytes.all.peak"]


def capture(cupy, stream, allocator):
    """A graph with arrays of its own; returns it with its input and output. What is freed in the
    capture must be kept by hand with CuPy's own pool, which hands it out while the graph still
    writes there: in a run without this, the spectrum's maximum was 11, the graph's `twice + 1`."""
    given = cupy.zeros((1024, 1024), dtype=cupy.float32)
    warm = cupy.sqrt(given * 2 + 1)
    stream.synchronize()
    stream.begin_capture()
    twice = given * 2
    more = twice + 1
    result = cupy.sqrt(more)
    kept = (twice, more) if allocator == "native" else None
    del twice, more
    graph = stream.end_capture()
    del warm
    return graph, given, result, kept


def epoch(cupy, streams, captured, shapes, meter):
    """Returns the values of each step, bit by bit."""
    values = []
    graph, given, replayed, _ = captured
    random_state = cupy.random.RandomState(5)
    for i, (rows, columns) in enumerate(shapes):
        with streams[0]:
            a = random_state.standard_normal((rows, columns), dtype=cupy.float32)
            product = a @ a.T
            spectrum = cupy.abs(cupy.fft.rfft(a, axis=1))
            ready = streams[0].record()
            given[...] = float(i)
            graph.launch(streams[0])
        with streams[1]:
            streams[1].wait_event(ready)
            ordered = cupy.sort(product, axis=1)
            found = cupy.stack([product.max(), spectrum.max(), ordered.sum(dtype=cupy.float64)])
            tensor_uses(meter.allocator, (product, spectrum), streams[1])
            step = [float(value).hex() for value in cupy.asnumpy(found)]
        with streams[0]:
            step.append(float(cupy.asnumpy(replayed[5, 7])).hex())
        values.append(step)
        del a, product, spectrum, ordered, found
        meter.step()
    return values


def tensor_uses(allocator, arrays, stream):
    """Arrays of one stream that another one has used: CuPy's own pool does not know, so there the
    host has to wait."""
    if allocator == "native":
        stream.synchronize()
        return
    import tenure
    for array in arrays:
        tenure.record_use(array, stream)


def run(allocator, steps):
    import cupy
    if allocator == "tenure":
        import tenure
        import tenure.cupy
        tenure.cupy.install()
    random.seed(3)
    shapes = [(random.randrange(64, 4097), random.randrange(64, 8193)) for _ in range(steps)]
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    meter, values, seconds = Meter(cupy, allocator), [], []
    with streams[0]:
        captured = capture(cupy, streams[0], allocator)
    for _ in range(EPOCHS):
        cupy.cuda.Device().synchronize()
        began = time.perf_counter()
        values.append(epoch(cupy, streams, captured, shapes, meter))
        cupy.cuda.Device().synchronize()
        seconds.append(time.perf_counter() - began)
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    result = dict(case="mix", allocator=allocator, model="arrays of varying sizes", steps=steps,
                  step_ms=1e3 * min(seconds[1:]) / steps, peak_reserved_bytes=meter.result(),
                  values=values, gpu=name, cupy=cupy.__version__)
    if allocator == "tenure":
        tenure._library.call("tnr_validate", -1)
        result["served"] = {key[7:]: value for key, value in tenure.stats().items()
                            if key.startswith("served.")}
        result["hook"] = "C functions" if tenure.cupy._kept else "Python functions"
        stats = tenure.stats()
        result["driver_calls"] = {key[13:]: value for key, value in stats.items()
                                  if key.startswith("driver_calls.")}
        result["driver_ms"] = sum(value for key, value in stats.items()
                                  if key.startswith("driver_ns.")) / 1e6
        del captured
        result["live_bytes"] = tenure.stats()["allocated_bytes.all.current"]
    return result


# ---- all of them ------------------------------------------------------------------------------


def run_all(options):
    """The results by name; `again` is a second run with CuPy's pool."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    results = {}
    for name in ("native", "tenure", "again"):
        allocator = "native" if name == "again" else name
        process = subprocess.run([sys.executable, "-B", __file__, "--only", allocator, "--steps",
                                  str(options.steps)], capture_output=True, text=True)
        if process.returncode != 0:
            print(f"{name} ended with {process.returncode}:\n{process.stderr[-3000:]}")
            return None
        results[name] = json.loads(process.stdout.splitlines()[-1])
    return results


def differences(one, other):
    """How many steps of all epochs differ, by what differs; and the first of them in words."""
    counts, first = dict.fromkeys(VALUES, 0), ""
    for e, (mine, theirs) in enumerate(zip(one["values"], other["values"])):
        for i, (a, b) in enumerate(zip(mine, theirs)):
            for name, x, y in zip(VALUES, a, b):
                counts[name] += x != y
                if x != y and not first:
                    first = (f"epoch {e}, step {i}, {name}: {float.fromhex(x)} and "
                             f"{float.fromhex(y)}")
    return counts, first


def compare(results, tolerance):
    native, tenure, again = (results[name] for name in ("native", "tenure", "again"))
    failed = 0
    unsteady, first = differences(native, again)
    if first:
        print(f"       two runs with CuPy's own pool differ: {unsteady}; {first}")
    counts, first = differences(native, tenure)
    steady = [name for name in VALUES if not unsteady[name]]
    ratio = tenure["step_ms"] / ((native["step_ms"] + again["step_ms"]) / 2)
    results["tenure"]["same"] = not any(counts[name] for name in steady)
    for good, what in (
            (len(steady) > 0, f"steady with CuPy's own pool: {', '.join(steady)}"),
            (tenure["same"], f"these are the same bit by bit with Tenure: {counts} {first}"),
            (tenure["peak_reserved_bytes"] <= native["peak_reserved_bytes"],
             f"Tenure reserves {tenure['peak_reserved_bytes'] / MIB:.0f} MiB, CuPy's pool "
             f"{native['peak_reserved_bytes'] / MIB:.0f}"),
            (ratio <= 1 + tolerance, f"a step takes {tenure['step_ms']:.2f} ms, {ratio:.3f} of "
             f"that with CuPy's pool ({native['step_ms']:.2f} and {again['step_ms']:.2f})"),
            (sum(tenure["served"].values()) > 0, f"served: {tenure['served']}")):
        print(f"{'ok    ' if good else 'FAILED'} {what}")
        failed += not good
    print(f"       memory is asked for by {tenure['hook']}")
    print(f"       driver calls: {tenure['driver_calls']}, {tenure['driver_ms']:.1f} ms")
    return failed


def command_output(*command):
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return process.stdout.strip() if process.returncode == 0 else ""


def require_cupy():
    if importlib.util.find_spec("cupy") is None:
        skip("there is no CuPy")
    if command_output(sys.executable, "-c",
                      "import cupy; print(cupy.cuda.runtime.getDeviceCount() > 0)") != "True":
        skip("CuPy finds no GPU")


def csv_write(path, results, facts):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in (results["native"], results["tenure"]):
            same = row.get("same", True)
            writer.writerow([row["case"], row["allocator"], row["model"], row["steps"],
                             f"{row['step_ms']:.3f}", f"{row['peak_reserved_bytes'] / MIB:.1f}",
                             "same" if same else "different", row["gpu"], facts["driver"],
                             row["cupy"], facts["commit"]])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000, help="of an epoch; there are three")
    parser.add_argument("--tolerance", type=float, default=0.03, help="of a step's time")
    parser.add_argument("--json", metavar="FILE", help="where the results go")
    parser.add_argument("--csv", metavar="FILE", help="a line for each run")
    parser.add_argument("--commit", default="", help="what was measured, for the results")
    parser.add_argument("--only", choices=ALLOCATORS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(run(options.only, options.steps)))
        return 0
    require_cupy()
    results = run_all(options)
    failed = 1 if results is None else compare(results, options.tolerance)
    facts = dict(commit=options.commit, driver=command_output(
        "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"))
    for row in (results or {}).values():
        row["values"] = sum(len(epoch) * len(VALUES) for epoch in row["values"])
    if results and options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(dict(facts, failed=failed, runs=list(results.values())), file, indent=1)
            file.write("\n")
    if results and options.csv:
        csv_write(options.csv, results, facts)
    print(f"{failed} checks failed" if failed else "all checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
