#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""engines.py [--update] [--torch FILE] [--cupy FILE]: the measurements in docs/engines.md.

The page must show what docs/benchmarks/engines_torch.csv and engines_cupy.csv hold, which
tests/gpu/engines.sh writes on a GPU. --update writes the page; with --torch and --cupy it keeps
those files as the new data first.

Exit codes: 0 they agree; 1 they do not.
"""
import argparse
import csv
import pathlib
import shutil
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/engines.md"
BEGIN, END = "<!-- begin: engines -->\n", "<!-- end: engines -->\n"
NAMES = {"native": "own", "expandable": "own, expandable segments", "tenure": "Tenure",
         "tenure_plain": "Tenure, without the compiled part"}
CASES = {"gpt2_train": "GPT-2 small trains", "gpt2_generate": "GPT-2 small generates",
         "resnet50_train": "ResNet-50 trains",
         "resnet50_prefetch": "ResNet-50 trains, prefetching with record_stream",
         "gpt2_graph": "GPT-2 small trains, a CUDA graph replayed between eager steps",
         "mix": "products, transforms, sorts on two streams, a graph between them"}


def rows_of(name, folder):
    path = folder / f"engines_{name}.csv"
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def table(engine, rows, results):
    first = rows[0]
    version = first[engine.lower().replace("pytorch", "torch")]
    facts = (f"{engine} {version} on an {first['gpu']}, driver {first['driver']}, commit "
             f"{first['commit']}. Shapes vary from step to step; each run is a process of its own.")
    lines = [textwrap.fill(facts, 100), "",
             f"| workload | allocator | ms a step | reserved at the peak, MiB | {results} |",
             "|---|---|---:|---:|---|"]
    for row in rows:
        lines.append(f"| {CASES[row['case']]} ({row['model']}) | {NAMES[row['allocator']]} | "
                     f"{float(row['step_ms']):.2f} | {float(row['peak_reserved_mib']):.0f} | "
                     f"{row[results]} |")
    return lines + [""]


def measurements(folder):
    """What belongs between the marks."""
    torch, cupy = rows_of("torch", folder), rows_of("cupy", folder)
    lines = []
    if torch:
        lines += table("PyTorch", torch, "losses")
    if cupy:
        lines += table("CuPy", cupy, "results")
    if not lines:
        lines = ["Nothing has been measured yet: `tests/gpu/engines.sh`.", ""]
    else:
        lines += [textwrap.fill("\"Same\" is bit by bit, compared with the engine's own allocator. "
                                "[Data](benchmarks/); `tests/gpu/engines.sh` measures again.",
                                100), ""]
    return "\n".join(lines)


def page_with(text, inside):
    head, rest = text.split(BEGIN)
    return head + BEGIN + inside + END + rest.split(END)[1]


def is_true(text, folder):
    return text == page_with(text, measurements(folder))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--torch", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--cupy", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    folder = ROOT / "docs/benchmarks"
    for name in ("torch", "cupy"):
        given = getattr(options, name)
        if given is not None and options.update:
            shutil.copyfile(given, folder / f"engines_{name}.csv")
    text = PAGE.read_text("utf-8")
    if options.update:
        text = page_with(text, measurements(folder))
        PAGE.write_text(text, "utf-8")
    if not is_true(text, folder):
        print("docs/engines.md does not show what docs/benchmarks/engines_*.csv hold; "
              "tests/bench/engines.py --update writes it")
        return 1
    if is_true(text.replace(END, "| one more |\n" + END), folder):
        print("a planted line is not found")
        return 1
    print("docs/engines.md shows the measurements as they are")
    return 0


if __name__ == "__main__":
    sys.exit(main())
