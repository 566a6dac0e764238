#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""readme.py [--update]: README.md's table, its picture, and its claims.

Between its marks README.md shows what docs/benchmarks/torch_shown_*.json and bench.csv hold, and
docs/benchmarks/readme.svg draws the same rows. The page has at most 900 words. A number outside of
the marks would go stale: only versions and names may have digits there.

--update writes page and picture. Exit codes: 0 they agree; 1 they do not.
"""
import argparse
import json
import math
import pathlib
import re
import sys
import textwrap

from engines import shown_losses
from page import COLOURS, Picture, table
from speed import Bench

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- begin: measured -->\n", "<!-- end: measured -->\n"
WORDS_MAX = 900
# One model of each kind of training that was measured, those with the worst ratios among them.
ROWS = {"resnet50_eager": "ResNet-50", "gpt2_eager": "GPT-2", "llama_compile": "Llama, compiled",
        "gpt2_reduce": "GPT-2, reduce-overhead", "llama_ddp": "Llama, DDP",
        "llama_fsdp2": "Llama, FSDP2"}
HELD = {"live": "live", "tenure": "Tenure", "expandable": "expandable segments",
        "native": "PyTorch's default"}
# What may have digits outside of the measured part: names and versions.
NAMED = re.compile(r"\]\([^)]*\)|`[^`]*`|Debian \d+|Ubuntu [\d.]+|glibc [\d.]+|x86-64|AArch64|"
                   r"H[12]00s?|PyTorch [\d.]+|CUDA [\d.]+|C11|Python [\d.]+|Apache-2.0|FSDP2|"
                   r"Version [\d.]+|driver \d+|RHEL \d+", re.I)


def last_runs(folder):
    """Of each workload the last run that has it."""
    last = {}
    for path in sorted(folder.glob("torch_shown_*.json")):
        run = json.loads(path.read_text("utf-8"))
        last.update({name: {**one, "facts": run["facts"]} for name, one in run["cases"].items()})
    return last


def gib(one, which):
    held = one["peak_allocated_bytes"] if which == "live" else one["peak_reserved_bytes"][which]
    return held / (1 << 30)


def mean(runs, other):
    """The geometric mean of what Tenure reserves over what the other allocator does."""
    logs = [math.log(gib(one, "tenure") / gib(one, other)) for one in runs.values()]
    return math.exp(sum(logs) / len(logs))


def steps_text(runs):
    """Which steps are slower for certain, and how far the others are known."""
    slower = [f"`{name}` takes {100 * (one['ratio'] - 1):.1f} % longer"
              for name, one in runs.items() if one["low"] > 1]
    widest = max(one["high"] - one["low"] for one in runs.values())
    said = "; ".join(slower) or "none takes longer"
    return (f"Steps, beside the faster of PyTorch's two settings: {said}. The intervals of the "
            f"others reach 1, and are up to {widest:.2f} wide.")


def larger_text(runs):
    more = [f"`{name}` by {1024 * (gib(one, 'tenure') - gib(one, 'expandable')):.0f} MiB"
            for name, one in runs.items() if gib(one, "tenure") > gib(one, "expandable")]
    return f"More than expandable segments: {', '.join(more) if more else 'none'}."


def cached_text(bench):
    """A cached allocation and its free, over the sizes of one thread."""
    cells = [cells for (_, _, threads, _), cells in bench.rows("pair") if threads == 1]
    ns = {who: [one[who]["median_ns"] for one in cells] for who in ("tenure", "pytorch")}
    return (f"A cached malloc and free take {min(ns['tenure']):.0f} to {max(ns['tenure']):.0f} ns "
            f"(PyTorch's allocator {min(ns['pytorch']):.0f} to {max(ns['pytorch']):.0f}).")


def measured(folder):
    runs = last_runs(folder)
    rows = [[said, *(f"{gib(runs[name], which):.2f}" for which in HELD)]
            for name, said in ROWS.items()]
    gpus = " and ".join(sorted({one["gpu"].split()[1] for one in runs.values()}))
    torch = sorted({one["torch"].split("+")[0] for one in runs.values()})
    text = (f"In all {len(runs)} workloads, training with PyTorch {' and '.join(torch)} on {gpus}: "
            f"Tenure reserves {mean(runs, 'native'):.2f} of the default and "
            f"{mean(runs, 'expandable'):.2f} of expandable segments (geometric mean). "
            f"{larger_text(runs)} {shown_losses(runs)} {steps_text(runs)} "
            f"{cached_text(Bench(folder / 'bench.csv'))} "
            "[Runs and data](docs/benchmarks/engines.md).")
    return (table(["reserved at the peak, GiB", *HELD.values()], rows) + "\n" +
            textwrap.fill(text, 100, break_on_hyphens=False) + "\n")


def picture(folder):
    """For each row four bars: of the default's memory."""
    runs = last_runs(folder)
    left, width, high, gap = 190, 430, 13, 16
    drawn = Picture(760, 50 + len(ROWS) * (4 * high + gap),
                    "GiB reserved at the peak (each row to its scale)")
    for at, (said, x) in enumerate(zip(HELD.values(), (0, 70, 155, 310))):
        drawn.bar(left + x, 32, 10, 10, COLOURS[(2, 0, 1, 3)[at]])
        drawn.text(left + 14 + x, 41, said)
    top = 58
    for name, said in ROWS.items():
        drawn.text(left - 10, top + 2 * high + 4, said, "end")
        scale = width / max(gib(runs[name], which) for which in HELD)
        for at, which in enumerate(HELD):
            held = gib(runs[name], which)
            drawn.bar(left, top, held * scale, high - 2, COLOURS[(2, 0, 1, 3)[at]])
            drawn.text(left + held * scale + 6, top + high - 3, f"{held:.2f}", size=11)
            top += high
        top += gap
    return drawn.finish()


def claims_check(text):
    """What the page says besides: its length, and numbers that no data stand behind."""
    wrong = []
    words = len(re.sub(r"<!--.*?-->", "", text, flags=re.S).split())
    if words > WORDS_MAX:
        wrong.append(f"README.md has {words} words; at most {WORDS_MAX} are read")
    rest = text.split(BEGIN)[0] + text.split(END)[1]
    rest = NAMED.sub("", re.sub(r"^```.*?^```$|^ *\d+\. ", "", rest, flags=re.M | re.S))
    wrong += [f"README.md: \"{line.strip()}\" has a number that no data stand behind"
              for line in rest.splitlines() if re.search(r"\d", line)]
    return wrong


def self_check(text):
    """Planted mistakes are found."""
    planted = {"a number": text + "\nTwice as fast as 17 others.\n",
               "a long page": text + " word" * WORDS_MAX,
               "an old table": text.replace("| ResNet-50 |", "| ResNet-51 |", 1)}
    missed = [name for name, changed in planted.items()
              if changed == text or not page_check(changed, measured(ROOT / "docs/benchmarks"))]
    return [f"planted, and not found: {name}" for name in missed]


def page_check(text, inside):
    head, rest = text.split(BEGIN)
    wrong = claims_check(text)
    if rest.split(END)[0] != inside:
        wrong.append("README.md does not show the data; tests/bench/readme.py --update writes it")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true")
    folder = ROOT / "docs/benchmarks"
    page, drawn = ROOT / "README.md", folder / "readme.svg"
    text, inside = page.read_text("utf-8"), measured(folder)
    if parser.parse_args().update:
        head, rest = text.split(BEGIN)
        text = head + BEGIN + inside + END + rest.split(END)[1]
        page.write_text(text, "utf-8")
        drawn.write_text(picture(folder), "utf-8")
    wrong = page_check(text, inside) + self_check(text)
    if not drawn.exists() or drawn.read_text("utf-8") != picture(folder):
        wrong.append("readme.svg does not show the data; tests/bench/readme.py --update draws it")
    print("\n".join(wrong) or "README.md shows the measurements as they are")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
