#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""engines.py [--update] [--torch FILE] [--cupy FILE] [--preload FILE] [--shown FILE]: the
measurements in docs/engines.md, docs/run.md and docs/check.md.

The pages must show what docs/benchmarks/engines_torch.csv and engines_cupy.csv hold, which
tests/gpu/engines.sh writes on a GPU, preload.json, which tests/gpu/preload.sh does,
torch_shown*.json, which tests/gpu/torch.sh shown does, and check_cost.json, which
tests/gpu/check_cost.sh does. --update writes the pages; with --torch,
--cupy, --preload and --shown it keeps those files as the new data first.

Exit codes: 0 they agree; 1 they do not.
"""
import argparse
import csv
import json
import pathlib
import shutil
import statistics
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
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
    for path in sorted(folder.glob("torch_shown*.json")):
        lines += shown_measurements(path)
    return "\n".join(lines)


def own_apart(row):
    """How much longer the slower of PyTorch's own two allocators takes for a step."""
    medians = [statistics.median(row["epoch_seconds"][name]) for name in ("native", "expandable")]
    return max(medians) / min(medians)


def shown_measurements(path):
    """Training steps beside PyTorch's two allocators, in turns: one run."""
    shown = json.loads(path.read_text("utf-8"))
    facts = shown["facts"]
    first = next(iter(shown["cases"].values()))
    lines = [textwrap.fill(
        f"Training steps in turns, {shown['rounds']} rounds of each allocator, in processes that "
        f"stay (`{facts['command']}`; PyTorch {first['torch']}, {first['gpu']}, driver "
        f"{facts['driver']}, commit {facts['commit']}). Reserved memory at the peak; what a step "
        "takes as a part of what it takes with the faster of PyTorch's two, and the 95 % interval "
        "of that.", 100), "",
        "| workload | Tenure, MiB | of what is live | own | own, expandable | step | from, to |",
        "|---|---:|---:|---:|---:|---:|---:|"]
    for name, one in shown["cases"].items():
        held = {who: peak / (1 << 20) for who, peak in one["peak_reserved_bytes"].items()}
        tight = one["reserved_over_live"]
        part = f"{tight:.3f}" if tight >= 1 else ""
        lines.append(f"| `{name}` | {held['tenure']:.0f} | {part} | "
                     f"{held['native']:.0f} | {held['expandable']:.0f} | {one['ratio']:.3f} | "
                     f"{one['low']:.3f} to {one['high']:.3f} |")
    if any(one["reserved_over_live"] < 1 for one in shown["cases"].values()):
        lines += ["", textwrap.fill("Where no part is said, several streams have memory, and what "
                                    "was counted as live is the sum of their peaks.", 100)]
    empty, shapes = shown.get("empty"), shown.get("shapes")
    said = "The losses of all were the same bit by bit. " if all(
        one["same_losses"] for one in shown["cases"].values()) else "LOSSES DIFFER. "
    if any("processes_apart" not in one for one in shown["cases"].values()):
        name, apart = max(((name, own_apart(one)) for name, one in shown["cases"].items()),
                          key=lambda pair: pair[1])
        said += ("Each allocator had one process for a row, so what differs from process to "
                 "process is in the times: PyTorch's own two differ by as much as "
                 f"{100 * (apart - 1):.0f} % (`{name}`), so where the host bounds a step such a "
                 "row tells nothing of an allocator. The script has several processes now. ")
    if empty:
        ns = {who: statistics.median(times) for who, times in empty["ns"].items()}
        said += (f"`torch.empty` and its free take {ns['tenure']:.0f} ns of the host, "
                 f"{ns['native']:.0f} with PyTorch's own. ")
    if shapes:
        said += (f"Twenty shapes captured by torch.compile hold {shapes['tenure'] / (1 << 20):.0f} "
                 f"MiB, {shapes['native'] / (1 << 20):.0f} with PyTorch's own.")
    return lines + ["", textwrap.fill(said.strip(), 100), "", ""]


PROGRAMS = {"cudart_static": "cudart, linked statically",
            "cudart_shared": "cudart, linked dynamically",
            "torch": "PyTorch, `PYTORCH_NO_CUDA_MEMORY_CACHING=1`", "cupy": "CuPy without its pool",
            "jax/cuda_async": "JAX, `XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async`"}


def preload_measurements(folder):
    """The wall times of programs under `tenure run`."""
    path = folder / "preload.json"
    if not path.exists():
        return "Nothing has been measured yet: `tests/gpu/preload.sh`.\n"
    rows = {one["program"]: one for one in map(json.loads, path.read_text("utf-8").splitlines())}
    lines = ["| program | results | allocations served | without Tenure | with it | own |",
             "|---|---|---:|---:|---:|---:|"]
    for name, shown in PROGRAMS.items():
        one = rows[name]
        own = "-" if one["seconds_own"] is None else f"{one['seconds_own']:.3f}"
        lines.append(f"| {shown} | {'same' if one['good'] else 'WRONG'} | "
                     f"{one['calls']['allocations_served']:,} | {one['seconds_without']:.3f} | "
                     f"{one['seconds_with']:.3f} | {own} |")
    return "\n".join(lines) + "\n"


WAYS = {"run": "`tenure run`", "check": "`tenure run --check`", "seen": "`auto_record:seen`",
        "poison": "`poison:on`", "guard": "`guard:on`"}


def check_measurements(folder):
    """What it costs to follow a program, a table for each run."""
    paths = sorted(folder.glob("check_cost*.json"))
    if not paths:
        return "Nothing has been measured yet: `tests/gpu/check_cost.sh`.\n"
    return "\n".join(check_table(path) for path in paths)


def check_table(path):
    shown = json.loads(path.read_text("utf-8"))
    step = shown["gpt2_train"]
    bare = step["ways"]["bare"]
    lines = [textwrap.fill(
        f"A training step of GPT-2 in PyTorch {step['torch']} on an {step['gpu']}, driver "
        f"{shown['driver']}, commit {shown['commit']}, by its {shown.get('by', 'mean')} over "
        f"{len(bare['seconds'])} rounds in turns and the 95 % interval; "
        f"`tests/gpu/check_cost.sh` measures again. [Data](benchmarks/{path.name}).", 100), "",
        "| way | of the bare step's time | from, to | host's memory, MiB more |",
        "|---|---:|---:|---:|"]
    for way, text in WAYS.items():
        one = step["ways"].get(way)
        if one is not None:
            lines.append(f"| {text} | {one['ratio']:.2f} | {one['low']:.2f} to {one['high']:.2f} | "
                         f"{one['mib_after'] - bare['mib_after']:.0f} |")
    return "\n".join(lines) + "\n"


PAGES = {ROOT / "docs/engines.md": measurements, ROOT / "docs/run.md": preload_measurements,
         ROOT / "docs/check.md": check_measurements}


def page_with(text, inside):
    head, rest = text.split(BEGIN)
    return head + BEGIN + inside + END + rest.split(END)[1]


def page_check(page, inside, is_update):
    """What is wrong with a page, or nothing."""
    text = page.read_text("utf-8")
    if is_update:
        text = page_with(text, inside)
        page.write_text(text, "utf-8")
    if text != page_with(text, inside):
        return f"{page.name} does not show the data; tests/bench/engines.py --update writes it"
    planted = text.replace(END, "| one more |\n" + END)
    if planted == page_with(planted, inside):
        return f"a line planted in {page.name} is not found"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--torch", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--cupy", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--preload", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--shown", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    folder = ROOT / "docs/benchmarks"
    for name, kept in (("torch", "engines_torch.csv"), ("cupy", "engines_cupy.csv"),
                       ("preload", "preload.json"), ("shown", "torch_shown.json")):
        given = getattr(options, name)
        if given is not None and options.update:
            shutil.copyfile(given, folder / kept)
    wrong = [text for page, make in PAGES.items()
             if (text := page_check(page, make(folder), options.update))]
    print("\n".join(wrong) or "the pages show the measurements as they are")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
