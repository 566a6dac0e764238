#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""engines.py [--update] [--torch FILE] [--cupy FILE] [--preload FILE] [--shown FILE]: the
measurements in docs/benchmarks/engines.md, docs/run.md and docs/check.md, and what
docs/engines.md and docs/python.md say of them.

The pages must show what docs/benchmarks/engines_torch.csv and engines_cupy.csv hold, which
tests/gpu/engines.sh writes on a GPU, preload.json, which tests/gpu/preload.sh does,
torch_shown_*.json, which tests/gpu/torch.sh shown does, torch_slow*.json, which tests/gpu/torch.sh
slow does, and check_cost*.json, which tests/gpu/check_cost.sh does. --update writes the pages; with
--torch, --cupy and --preload it keeps those files as the new data first, with --shown that file as
one more run.

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
                                "[Data](.); `tests/gpu/engines.sh` measures again.",
                                100), ""]
    lines += shown_measurements(folder)
    return "\n".join(lines)


def shown_measurements(folder):
    """Training steps beside PyTorch's two allocators: of each workload the last run that has it."""
    paths = sorted(folder.glob("torch_shown_*.json"))
    runs = [json.loads(path.read_text("utf-8")) for path in paths]
    last = {name: run for run in runs for name in run["cases"]}
    if not last:
        return []
    lines = [textwrap.fill(
        "Training steps in turns, each allocator with processes that stay. Reserved memory at the "
        "peak; what a step takes as a part of what it takes with the faster of PyTorch's two, and "
        "the 95 % interval of that.", 100), "",
        "| workload | Tenure, MiB | of what is live | own | own, expandable | step | from, to | "
        "run |", "|---|---:|---:|---:|---:|---:|---:|---:|"]
    kinds = ("eager", "compile", "reduce", "ddp", "fsdp2")
    for name in sorted(last, key=lambda name: (kinds.index(name.split("_")[1]), name)):
        lines.append(shown_row(name, last[name]["cases"][name], 1 + runs.index(last[name])))
    rows = {name: run["cases"][name] for name, run in last.items()}
    lines += ["", textwrap.fill(f"{shown_losses(rows)} {shown_missed(rows)}", 100), ""]
    for said in (shown_before(runs, last), shown_apart(runs)):
        lines += [textwrap.fill(said, 100), ""] if said else []
    said = shown_others(runs)
    lines += [textwrap.fill(said, 100), ""] if said else []
    for number, (path, run) in enumerate(zip(paths, runs), 1):
        lines += shown_run(number, path, run)
    return lines + [""]


def shown_row(name, one, number):
    held = {who: peak / (1 << 20) for who, peak in one["peak_reserved_bytes"].items()}
    return (f"| `{name}` | {held['tenure']:.0f} | {one['reserved_over_live']:.3f} | "
            f"{held['native']:.0f} | {held['expandable']:.0f} | {one['ratio']:.3f} | "
            f"{one['low']:.3f} to {one['high']:.3f} | {number} |")


def shown_losses(rows):
    differ = [name for name, one in rows.items() if not one["same_losses"]]
    return f"LOSSES DIFFER: {', '.join(differ)}." if differ else \
        "The losses of all were the same bit by bit."


def shown_missed(rows):
    """What is not as it must be: the limits of tests/gpu/torch/shown.py."""
    slack, missed = 8 << 20, []
    for name, one in rows.items():
        held = one["peak_reserved_bytes"]
        if held["tenure"] > held["expandable"] + slack:
            missed.append(f"`{name}` reserves more than expandable segments")
        if name.endswith("_eager") and \
                held["tenure"] > 1.02 * one["peak_allocated_bytes"] + slack:
            missed.append(f"`{name}` reserves more than 1.02 of what is live")
        if one["low"] > 1:
            missed.append(f"a step of `{name}` takes longer, from {one['low']:.4f} on")
    return f"What misses: {'; '.join(missed)}." if missed else "Nothing misses its limit."


def shown_before(runs, last):
    """The runs before a workload's last one in which its steps took longer."""
    said = [f"`{name}` in run {number} (from {one['low']:.4f} on)"
            for number, run in enumerate(runs, 1) for name, one in run["cases"].items()
            if one["low"] > 1 and last[name] is not run]
    return f"Earlier runs in which steps took longer: {', '.join(said)}." if said else ""


def shown_apart(runs):
    """How far processes of one allocator are from each other, in the runs that have several."""
    most, name = max(((one.get("processes_apart", 1), name) for run in runs
                      for name, one in run["cases"].items()), default=(1, ""))
    if most <= 1.005:
        return ""
    return (f"Where a run has several processes of each allocator (`--processes`), these differ by "
            f"up to {100 * (most - 1):.0f} % (`{name}`). The interval of a run with one process "
            "does not know of that.")


def shown_others(runs):
    """What the last runs with `torch.empty`, and with captured shapes, say of them."""
    said = []
    empty = [run["empty"] for run in runs if run.get("empty")]
    shapes = [run["shapes"] for run in runs if run.get("shapes")]
    if empty:
        ns = {who: statistics.median(times) for who, times in empty[-1]["ns"].items()}
        said.append(f"`torch.empty` and its free take {ns['tenure']:.0f} ns of the host, "
                    f"{ns['native']:.0f} with PyTorch's own.")
    if shapes:
        mib = {who: of / (1 << 20) for who, of in shapes[-1].items()}
        said.append(f"Twenty shapes captured by torch.compile hold {mib['tenure']:.0f} MiB, "
                    f"{mib['native']:.0f} with PyTorch's own.")
    return " ".join(said)


def shown_run(number, path, run):
    facts, first = run["facts"], next(iter(run["cases"].values()))
    return textwrap.wrap(
        f"{number}. `{facts['command']}`: {run['rounds']} rounds, PyTorch {first['torch']}, "
        f"{first['gpu']}, driver {facts['driver']}, commit {facts['commit']} "
        f"([data]({path.name}))", 100, subsequent_indent="   ")


KINDS = {"eager": "eager", "compile": "`torch.compile`", "reduce": "`reduce-overhead`",
         "ddp": "DDP", "fsdp2": "FSDP2"}
MODELS = {"resnet50": "ResNet-50", "gpt2": "GPT-2", "llama": "Llama", "moe": "mixture of experts",
          "graph": "graph network"}


def gains(folder):
    """For a user of expandable segments: what Tenure reserves less, by workload."""
    last = {name: one for path in sorted(folder.glob("torch_shown_*.json"))
            for name, one in json.loads(path.read_text("utf-8"))["cases"].items()}

    def cell(which, of):
        one = last.get(f"{of}_{which}")
        if one is None:
            return "-"
        held = one["peak_reserved_bytes"]
        return f"{100 * (held['tenure'] / held['expandable'] - 1):+.1f} %"

    lines = ["| reserved, beside expandable segments | " + " | ".join(MODELS.values()) +
             " | a step takes |", "|---|" + "---:|" * (len(MODELS) + 1)]
    for kind, said in KINDS.items():
        steps = [one["ratio"] for name, one in last.items() if name.split("_")[1] == kind]
        lines.append(f"| {said} | " + " | ".join(cell(kind, model) for model in MODELS) +
                     f" | {min(steps):.2f} to {max(steps):.2f} |")
    slower = [f"`{name}`" for name, one in sorted(last.items()) if one["low"] > 1]
    more = f"of {' and '.join(slower)} is slower" if slower else "is slower"
    one = last["gpt2_eager"]
    said = (f"Training with PyTorch {one['torch'].split('+')[0]}; {len(last)} workloads. \"A step "
            "takes\" is its time beside the faster of PyTorch's two settings, from the best to the "
            f"worst model. By the 95 % intervals {'only a step ' if slower else 'no step '}{more}.")
    return "\n".join(lines) + "\n\n" + textwrap.fill(said, 100) + "\n"


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


LAUNCHES = 12 * 200  # of a round: tests/gpu/check_cost/cost.py
WAYS = {"run": "`tenure run`", "check": "`tenure run --check`", "seen": "`auto_record:seen`",
        "waste": "`tenure run --waste`", "poison": "`poison:on`", "guard": "`guard:on`"}


def check_measurements(folder):
    """Training steps under the checker: of each way the last run that has it."""
    paths = sorted(folder.glob("check_cost*.json"))
    runs = [json.loads(path.read_text("utf-8")) for path in paths]
    if not runs:
        return "Nothing has been measured yet: `tests/gpu/check_cost.sh`.\n"
    lines = ["A training step of GPT-2 in PyTorch:", "",
             "| way | of the bare step's time | from, to | host's memory, MiB more | run |",
             "|---|---:|---:|---:|---:|"]
    for way, text in WAYS.items():
        number = max(i for i, run in enumerate(runs) if way in run["gpt2_train"]["ways"])
        ways = runs[number]["gpt2_train"]["ways"]
        one, more = ways[way], ways[way]["mib_after"] - ways["bare"]["mib_after"]
        lines.append(f"| {text} | {one['ratio']:.2f} | {one['low']:.2f} to {one['high']:.2f} | "
                     f"{more:.0f} | {number + 1} |")
    lines += [""]
    for number, (path, run) in enumerate(zip(paths, runs), 1):
        lines += check_run(number, path, run)
    return "\n".join(lines) + "\n"


def check_launches(run):
    """What a launch takes, and how far the rounds of the bare steps lie apart."""
    ways, bare = run["launches"]["ways"], run["gpt2_train"]["ways"]["bare"]["seconds"]
    alone = 1e6 * statistics.median(ways["bare"]["seconds"]) / LAUNCHES
    each = " and ".join(f"{ways[way]['ratio']:.2f} of that with `{way}`"
                        for way in ("check", "seen"))
    return (f"a launch takes {alone:.1f} us, and {each}; the rounds of the bare steps "
            f"{min(bare):.2f} to {max(bare):.2f} s")


def check_run(number, path, run):
    step = run["gpt2_train"]
    return textwrap.wrap(
        f"{number}. `tests/gpu/check_cost.sh`: the {run.get('by', 'mean')} over "
        f"{len(step['ways']['bare']['seconds'])} rounds in turns and its 95 % interval, PyTorch "
        f"{step['torch']}, {step['gpu']}, driver {run['driver']}, commit {run['commit']} "
        f"([data](benchmarks/{path.name})): {check_launches(run)}", 100, subsequent_indent="   ")


SLOW_WAYS = ("native", "expandable", "tenure", "run")
SLOW = {"graph_loop": "a graph is captured, replayed three times and dropped",
        "empty_cache": "`empty_cache` after each training step, odd sizes",
        "bisect": "a search for the largest tensor that fits",
        "offload": "weights from the host for each layer (accelerate's `cpu_offload`)",
        "sampling": "neighbour sampling, no two steps of one size"}


def slow(folder):
    """Each program by the newest run that has it: later files go over earlier ones."""
    newest = {}
    for path in sorted(folder.glob("torch_slow*.json")):
        run = json.loads(path.read_text("utf-8"))
        newest.update({name: (path.name, run["commit"], case)
                       for name, case in run["cases"].items()})
    lines = ["| program | own | expandable | Tenure | `tenure.torch run` | Tenure of own | "
             "own, GiB | expandable | Tenure | run |", "|---|" + "---:|" * 9]
    files = []
    for name, text in SLOW.items():
        path, commit, case = newest[name]
        if (path, commit) not in files:
            files.append((path, commit))
        times, (low, high) = case["ms"], case["intervals"]["tenure"]
        bytes_of = case["peak_reserved_bytes"]
        lines.append(" | ".join(
            [f"| {text}", *(f"{times[way]:.2f}" for way in SLOW_WAYS), f"{low:.2f} to {high:.2f}",
             *(f"{bytes_of[way] / (1 << 30):.2f}" for way in SLOW_WAYS[:3]),
             f"{files.index((path, commit)) + 1} |"]))
    lines.append("")
    for number, (path, commit) in enumerate(files, 1):
        lines += textwrap.wrap(f"{number}. [{path}]({path}), commit {commit}", 100,
                               subsequent_indent="   ")
    return "\n".join(lines) + "\n"


PARTS = [(ROOT / "docs/benchmarks/engines.md", "engines", measurements),
         (ROOT / "docs/benchmarks/engines.md", "slow", slow),
         (ROOT / "docs/run.md", "engines", preload_measurements),
         (ROOT / "docs/check.md", "engines", check_measurements),
         (ROOT / "docs/python.md", "engines", gains)]


def next_shown(folder):
    return f"torch_shown_{len(list(folder.glob('torch_shown_*.json'))) + 1:02}.json"


def page_with(text, part, inside):
    begin, end = f"<!-- begin: {part} -->\n", f"<!-- end: {part} -->\n"
    head, rest = text.split(begin)
    return head + begin + inside + end + rest.split(end)[1]


def page_check(page, part, inside, is_update):
    """What is wrong with a part of a page, or nothing."""
    text = page.read_text("utf-8")
    if is_update:
        text = page_with(text, part, inside)
        page.write_text(text, "utf-8")
    if text != page_with(text, part, inside):
        return f"{page.name} does not show the data; tests/bench/engines.py --update writes it"
    end = f"<!-- end: {part} -->\n"
    planted = text.replace(end, "| one more |\n" + end)
    if planted == page_with(planted, part, inside):
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
                       ("preload", "preload.json"), ("shown", next_shown(folder))):
        given = getattr(options, name)
        if given is not None and options.update:
            shutil.copyfile(given, folder / kept)
    wrong = [text for page, part, make in PARTS
             if (text := page_check(page, part, make(folder), options.update))]
    print("\n".join(wrong) or "the pages show the measurements as they are")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
