#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""graphs.py [--update] [--csv FILE]: the results in docs/graphs.md.

Between its marks the page shows what docs/benchmarks/graphs.csv holds, which tests/gpu/graphs.sh
writes on a GPU, and what a later run (graphs_again.csv) has of the same. --update writes the page,
with --csv from that file as the new data.

Exit codes: 0 they agree; 1 they do not.
"""
import argparse
import csv
import pathlib
import shlex
import shutil
import sys
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- begin: graphs -->\n", "<!-- end: graphs -->\n"
NOT_RUN = "Not run yet.\n"
ASKED = {
    "replayed": "a stage captured once, replayed with new inputs while eager work allocates",
    "counted": "what replays ask the allocator and the driver for",
    "forked": "a compute and a copy stream that fork and join in the capture",
    "dying": "a tensor that the graph reads is dropped after the capture",
    "ranks regions": "two ranks, a graph before and one behind an eager all_reduce",
    "ranks nccl": "two ranks, the all_reduce inside the graph",
    "ranks failing": "two ranks, one whose capture fails in the middle, `NCCL_GRAPH_REGISTER=0`",
    "ranks failing_registered": "the same with NCCL's defaults",
}
BREAKS = {
    "item": "`.item()`", "nonzero": "`nonzero()`", "synchronize": "`torch.cuda.synchronize()`",
    "pageable": "a copy from pageable memory", "unjoined": "a stream that doesn't join again",
    "thread_synchronize": "another thread synchronises",
    "thread_allocates": "another thread allocates 256 MiB", "empty_cache": "`empty_cache()`",
}
MODES = {"eager": "eager", "compile": "`torch.compile`", "reduce_overhead": "`reduce-overhead`",
         "captured": "a graph for each length, by hand"}


def read(path):
    """The facts of the first line, and the rows by experiment, case and allocator."""
    with open(path, newline="", encoding="utf-8") as file:
        facts = dict(word.split("=", 1) for word in shlex.split(file.readline()) if "=" in word)
        rows = {(" ".join(filter(None, (row["experiment"], row["case"]))), row["allocator"]): row
                for row in csv.DictReader(file)}
    return facts, rows


def said(rows, name, allocator):
    row = rows.get((name, allocator))
    if row is None:
        return "not run"
    return row["result"].replace("|", "\\|") + (" (**not as it must be**)"
                                                if row["good"] == "no" else "")


def results_table(heading, names, prefix, rows):
    lines = [f"| {heading} | PyTorch's own | Tenure |", "|---|---|---|"]
    for name, shown in names.items():
        own, tenure = (said(rows, prefix + name, which) for which in ("own", "tenure"))
        lines.append(f"| {shown} | {own} | {tenure} |")
    return lines + [""]


def steps_table(rows, is_whole=True):
    """Without `is_whole` only what was run."""
    lines = ["| a step, us | lengths | own, median | p95 | MiB | Tenure, median | p95 | MiB |",
             "|---|---|" + "---:|" * 6]
    for mode, shown in MODES.items():
        for lengths in ("fixed", "varying"):
            cells = []
            for allocator in ("own", "tenure"):
                row = rows.get((f"step {mode} {lengths}", allocator))
                cells += [row["median_us"], row["p95_us"], row["reserved_mib"]] if row \
                    else ["not run", "-", "-"]
            if is_whole or "not run" not in cells:
                lines.append(f"| {shown} | {lengths} | {' | '.join(cells)} |")
    return lines + [""]


def results(path):
    if not path.exists():
        return NOT_RUN
    facts, rows = read(path)
    head = (f"PyTorch {facts['torch']} on {facts['gpus']} {facts['gpu']}, driver "
            f"{facts['driver']}, commit {facts['commit']} ([data](benchmarks/graphs.csv)).")
    lines = [textwrap.fill(head, 100), ""]
    lines += results_table("experiment", ASKED, "", rows)
    lines += ["What a call in the middle of a capture does to it, and what is left:", ""]
    lines += results_table("in the capture", BREAKS, "breaks ", rows)
    lines += [textwrap.fill("Steps of inference through three layers, with one length and with "
                            "three that vary from step to step; memory reserved at the end:", 100),
              ""]
    return "\n".join(lines + steps_table(rows)).rstrip() + "\n"


def again(path, first):
    """How many results of another run are those of the first, and its steps."""
    facts, rows = read(path)
    both = [key for key, row in rows.items() if row["good"] == "yes" and row["result"] and
            key in first]
    same = sum(rows[key]["result"] == first[key]["result"] for key in both)
    head = (f"Again on {facts['gpus']} {facts['gpu']}, driver {facts['driver']}, commit "
            f"{facts['commit']} ([data](benchmarks/{path.name})): {same} of {len(both)} results "
            "of one GPU came out the same. Steps, as far as the run came:")
    return "\n".join(["", textwrap.fill(head, 100), "", *steps_table(rows, False)]).rstrip() + "\n"


def page_with(text, inside):
    head, rest = text.split(BEGIN)
    return head + BEGIN + inside + END + rest.split(END)[1]


def self_check():
    """What each kind of row becomes."""
    with tempfile.TemporaryDirectory() as place:
        path = pathlib.Path(place) / "graphs.csv"
        path.write_text(
            "# command=x commit=abc torch=2.0 gpu='A GPU' gpus=1 driver=1\n"
            "experiment,case,allocator,good,result,median_us,p95_us,reserved_mib\n"
            "forked,,tenure,yes,100 of 100 bit-equal,,,\n"
            "ranks,nccl,tenure,,needs two GPUs,,,\n"
            "breaks,item,own,no,a | b,,,\n"
            "step,compile varying,own,yes,,12,13,76\n"
            "step,compile varying,tenure,yes,,12.5,13.5,77\n", "utf-8")
        first = read(path)[1]
        shown = results(path) + again(path, {**first, ("forked", "tenure"): {"result": "other"}})
    wanted = ("| not run | 100 of 100 bit-equal |", "| not run | needs two GPUs |",
              "| `.item()` | a \\| b (**not as it must be**) | not run |",
              "| `torch.compile` | varying | 12 | 13 | 76 | 12.5 | 13.5 | 77 |", "1 A GPU",
              "| eager | fixed | not run | - | - | not run | - | - |", "0 of 1 results")
    return [f"graphs.py does not show \"{part}\"" for part in wanted if part not in shown]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--csv", type=pathlib.Path)
    options = parser.parse_args()
    page, data = ROOT / "docs/graphs.md", ROOT / "docs/benchmarks/graphs.csv"
    if options.csv and options.update:
        shutil.copyfile(options.csv, data)
    text, inside = page.read_text("utf-8"), results(data)
    later = data.with_name("graphs_again.csv")
    if later.exists():
        inside += again(later, read(data)[1])
    if options.update:
        text = page_with(text, inside)
        page.write_text(text, "utf-8")
    wrong = self_check()
    if text != page_with(text, inside):
        wrong.append("docs/graphs.md does not show the data; graphs.py --update writes it")
    print("\n".join(wrong) or "docs/graphs.md shows the results as they are")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
