#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tenure's snapshots in PyTorch's own tools, and PyTorch's in Tenure's.

For each recorded trace a snapshot is taken at the peak of a replay and at its end, and opened
with everything that torch.cuda._memory_viz offers: segsum, memory, trace, trace_plot,
segment_plot and compare. Then PyTorch records a small training run of its own, and its snapshots
(as it dumps them, and in every pickle protocol) go through `tenure snapshot` and back.

Exit codes: 0 everything opened; 1 something did not; 77 PyTorch or a GPU is missing.
"""
import argparse
import json
import pathlib
import pickle
import subprocess
import sys
import tempfile

failures = []


def check(condition, text):
    """Notes what is wrong, and goes on."""
    if not condition:
        failures.append(text)
        print(f"WRONG: {text}")
    return condition


def run(*command):
    """The output of a command that must succeed."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False)
    check(done.returncode == 0, f"{' '.join(map(str, command))}: exit code {done.returncode}: "
          f"{done.stderr.strip()}")
    return done.stdout


def open_with_viewer(viz, data, name):
    """What PyTorch's tools make of one snapshot: sizes of their answers."""
    live = sum(block["size"] for segment in data["segments"] for block in segment["blocks"]
               if block["state"] == "active_allocated")
    reserved = sum(segment["total_size"] for segment in data["segments"])
    allocations = sum(1 for trace in data["device_traces"] for entry in trace
                      if entry["action"] == "alloc")
    texts = {"segsum": viz.segsum(data), "trace": viz.trace(data),
             "memory": viz.memory(data, format_flamegraph=str),
             "trace_plot": viz.trace_plot(data), "segment_plot": viz.segment_plot(data)}
    for tool, text in texts.items():
        check(isinstance(text, str) and len(text) > 100, f"{name}: {tool} said nothing")
    check("allocated" in texts["segsum"], f"{name}: segsum has no totals")
    check(texts["trace"].count(" = ") >= allocations, f"{name}: trace lacks allocations")
    return {"name": name, "segments": len(data["segments"]), "live_bytes": live,
            "reserved_bytes": reserved, "allocations": allocations,
            **{f"{tool}_chars": len(text) for tool, text in texts.items()}}


def tenure_to_torch(viz, arguments, folder):
    """Snapshots of all traces, in PyTorch's tools."""
    results = []
    traces = sorted(pathlib.Path(arguments.traces).glob("*.csv.gz"))
    check(traces, f"there are no traces in {arguments.traces}")
    for trace in traces[:2] if arguments.quick else traces:
        name = trace.name.split(".")[0]
        peak, end = folder / f"{name}.peak.pickle", folder / f"{name}.pickle"
        for path, moment in ((peak, "peak"), (end, "end")):
            run(arguments.tenure, "replay", "--check", "none", "--snapshot", path,
                "--snapshot-at", moment, trace)
        if not (peak.exists() and end.exists()):
            check(False, f"{name}: the replay wrote no snapshot")
            continue
        with open(peak, "rb") as before, open(end, "rb") as after:
            first, last = pickle.load(before), pickle.load(after)
        results.append(open_with_viewer(viz, first, f"{name} at its peak"))
        results.append(open_with_viewer(viz, last, name))
        compared = viz.compare(first["segments"], last["segments"], format_flamegraph=str)
        check(isinstance(compared, str), f"{name}: compare said nothing")
        one = results[-2]
        check(one["live_bytes"] > 0, f"{name}: nothing was live at the peak")
        print(f"{name}: {one['segments']} segments, {one['live_bytes'] / 1e6:.1f} MB live at the "
              f"peak, {results[-1]['allocations']} allocations: all tools opened it")
    return results


def training_run(torch):
    """A few steps of a small network, recorded by PyTorch."""
    torch.manual_seed(1)
    torch.cuda.memory._record_memory_history(max_entries=100_000)
    model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(8))).cuda()
    optimiser = torch.optim.AdamW(model.parameters())
    other, kept = torch.cuda.Stream(), []
    for step in range(8):
        batch = torch.randn(64 + 16 * step, 512, device="cuda")
        loss = model(batch).square().mean()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        with torch.cuda.stream(other):
            batch.record_stream(other)
            kept.append(batch.sum(0))
    torch.cuda.synchronize()
    return model, kept


def torch_to_tenure(torch, arguments, folder):
    """PyTorch's own snapshots, through `tenure snapshot` and back."""
    alive = training_run(torch)
    dumped = folder / "torch.pickle"
    torch.cuda.memory._dump_snapshot(str(dumped))
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    files = [dumped]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        files.append(folder / f"torch.protocol{protocol}.pickle")
        files[-1].write_bytes(pickle.dumps(snapshot, protocol))
    reserved = sum(segment["total_size"] for segment in snapshot["segments"])
    for path in files:
        summary = json.loads(run(arguments.tenure, "snapshot", "summary", "--json", path) or "{}")
        check(str(reserved) in json.dumps(summary), f"{path.name}: not {reserved} bytes reserved")
    back, report, trace = folder / "back.pickle", folder / "report.html", folder / "torch.csv.gz"
    ours = folder / "torch.json"
    run(arguments.tenure, "snapshot", "convert", dumped, ours)
    run(arguments.tenure, "snapshot", "convert", ours, back)
    with open(back, "rb") as file:
        again = pickle.load(file)
    check([segment["total_size"] for segment in again["segments"]] ==
          [segment["total_size"] for segment in snapshot["segments"]],
          "a snapshot that went there and back has other segments")
    run(arguments.tenure, "snapshot", "html", dumped, report)
    run(arguments.tenure, "snapshot", "trace", dumped, trace)
    replayed = run(arguments.tenure, "replay", "--json", trace)
    del alive
    line = json.loads(replayed.splitlines()[0]) if replayed else {}
    print(f"PyTorch's snapshot in {len(files)} pickles: read; its trace replayed: "
          f"{line.get('peak_reserved_bytes', 0) / 1e6:.1f} MB reserved for "
          f"{line.get('peak_live_bytes', 0) / 1e6:.1f} MB live")
    return {"pickles": len(files), "torch_reserved_bytes": reserved,
            "replayed_reserved_bytes": line.get("peak_reserved_bytes"),
            "replayed_live_bytes": line.get("peak_live_bytes")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--tenure", required=True)
    parser.add_argument("--traces", required=True)
    parser.add_argument("--json", help="write what was seen to this file")
    parser.add_argument("--quick", action="store_true", help="two traces only")
    arguments = parser.parse_args()
    try:
        import torch
        from torch.cuda import _memory_viz as viz
    except ImportError as problem:
        print(f"skipped: {problem}")
        return 77
    if not torch.cuda.is_available():
        print("skipped: PyTorch sees no GPU")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        theirs = torch_to_tenure(torch, arguments, folder)
        torch.cuda.empty_cache()
        ours = tenure_to_torch(viz, arguments, folder)
    if arguments.json:
        facts = {"torch": torch.__version__, "device": torch.cuda.get_device_name(),
                 "opened": ours, "torch_snapshots": theirs, "failures": failures}
        pathlib.Path(arguments.json).write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
