#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peaks.py [programs] [traces] [--jobs N] [--only REGEX] [--json FILE] [--commit TEXT]

What `tenure predict` says of a program's peak, beside what its allocator reserved on this GPU.

programs  ten workloads of ../engines/cases.py. Each runs once with PyTorch's own allocator, which
          records its history, once with expandable segments and once with Tenure. All three peaks
          are predicted from the first one's snapshot.
traces    the recorded traces, replayed by asking PyTorch's allocator for the same blocks, by
          default and with expandable segments, and by `tenure replay`.

A predicted peak may be off by 1 % of the measured one, or by 2 MiB. Exit codes: 0 all holds; 1 not;
2 wrong usage; 77 there is no PyTorch or no GPU.
"""
import argparse
import concurrent.futures
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ENGINES = HERE.parent / "engines"
TRACES = HERE.parent.parent / "traces"
TENURE = os.environ.get("TENURE", "tenure")
PROGRAMS = ("gpt2_train", "gpt2_generate", "resnet50_train", "gpt2_eager", "llama_eager",
            "resnet50_eager", "moe_eager", "graph_eager", "gpt2_compile", "llama_compile")
ALLOCATORS = {"native": "torch", "expandable": "torch_expandable", "tenure": "tenure"}
MIB = 1 << 20
OFF_MOST, OFF_LEAST_BYTES = 0.01, 2 * MIB


# ---- in a process of its own ---------------------------------------------------------------------


def program_run(case, allocator, snapshot):
    """Runs the workload; the peak that its allocator reserved is printed."""
    sys.path.insert(0, str(ENGINES))
    import cases
    cases.environment(allocator)
    import torch
    if allocator == "native":
        torch.cuda.memory._record_memory_history(max_entries=10_000_000, stacks="python",
                                                 context=None)
    running = cases.Running(case, allocator, 12)
    for _ in range(2):
        running.epoch()
    if allocator == "native":
        torch.cuda.memory._dump_snapshot(snapshot)
    print(json.dumps(torch.cuda.max_memory_reserved()))


def trace_run(path, allocator):
    """The trace's blocks of PyTorch's allocator, each freed where the trace frees it."""
    if allocator == "expandable":
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    import torch
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    streams, blocks = {}, {}
    with gzip.open(path, "rt") as file:
        for line in file:
            op, block, size, stream = (line.split(",") + ["", "", ""])[:4]
            if op == "a":
                if stream not in streams:
                    streams[stream] = torch.cuda.Stream().cuda_stream
                blocks[block] = torch.cuda.caching_allocator_alloc(int(size), 0, streams[stream])
            elif op == "F":
                torch.cuda.caching_allocator_delete(blocks.pop(block))
    print(json.dumps(torch.cuda.max_memory_reserved()))


# ---- the comparison ------------------------------------------------------------------------------


def child(*arguments):
    """The last line that a process of this file prints, as JSON; or a sentence."""
    result = subprocess.run([sys.executable, "-B", __file__, "child", *map(str, arguments)],
                            capture_output=True, text=True, timeout=150, check=False)
    if result.returncode != 0:
        lines = (result.stderr or result.stdout).strip().splitlines()
        return f"exit code {result.returncode}: {lines[-1] if lines else 'nothing is said'}"
    return json.loads(result.stdout.splitlines()[-1])


def predicted(*paths):
    result = subprocess.run([TENURE, "predict", "--json", *map(str, paths)], capture_output=True,
                            text=True, timeout=300, check=False)
    if result.returncode != 0:
        return result.stderr.strip()
    return [json.loads(line) for line in result.stdout.splitlines()]


def side_by_side(run, names):
    """What run(name) returns for each name, all at once."""
    with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
        return dict(zip(names, pool.map(run, names)))


def program_peaks(case, folder):
    snapshot = pathlib.Path(folder) / f"{case}.pickle"
    measured = side_by_side(lambda name: child("program", case, name, snapshot), ALLOCATORS)
    if isinstance(measured["native"], str):
        return dict(name=case, error=measured["native"])
    [said] = found if isinstance(found := predicted(snapshot), list) else [dict(error=found)]
    snapshot.unlink(missing_ok=True)
    return dict(name=case, measured=measured, **said)


def trace_peaks(path):
    """Without the file's lines of late frees, so that all three free where the program does."""
    name = path.name.removesuffix(".csv.gz")
    with tempfile.TemporaryDirectory() as folder:
        plain = pathlib.Path(folder) / path.name
        with gzip.open(path, "rt") as source, gzip.open(plain, "wt") as out:
            out.writelines(line for line in source if not line.startswith("f"))
        measured = side_by_side(lambda name: child("trace", plain, name), ("native", "expandable"))
        result = subprocess.run([TENURE, "replay", "--driver", "cuda", "--check", "none", "--json",
                                 str(plain)], capture_output=True, text=True, timeout=150,
                                check=False)
        measured["tenure"] = (json.loads(result.stdout)["peak_reserved_bytes"]
                              if result.returncode == 0 else result.stderr.strip())
        [said] = found if isinstance(found := predicted(plain), list) else [dict(error=found)]
    return dict(name=name, measured=measured, **said)


def row_check(row):
    """Prints a line for each allocator. Returns how many are off."""
    if "error" in row:
        print(f"FAILED {row['name']}: {row['error']}", flush=True)
        return 1
    failed = 0
    for allocator, key in ALLOCATORS.items():
        want, said = row["measured"][allocator], row["peak_reserved_bytes"][key]
        if isinstance(want, str):
            print(f"FAILED {row['name']} {allocator}: {want}", flush=True)
            failed += 1
            continue
        off = said / want - 1
        is_good = abs(off) <= OFF_MOST or abs(said - want) <= OFF_LEAST_BYTES
        failed += not is_good
        print(f"{'ok    ' if is_good else 'FAILED'} {row['name']} {allocator}: "
              f"{said / MIB:.0f} MiB predicted, {want / MIB:.0f} reserved: {100 * off:+.2f} %",
              flush=True)
    return failed


def main():
    if sys.argv[1:2] == ["child"]:
        kind, *arguments = sys.argv[2:]
        (program_run if kind == "program" else trace_run)(*arguments)
        return 0
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help="programs, traces; both if none is given")
    parser.add_argument("--jobs", type=int, default=2, help="programs, of three processes each")
    parser.add_argument("--only", default="", metavar="REGEX", help="of names")
    parser.add_argument("--json", metavar="FILE", help="where the results go")
    parser.add_argument("--commit", default="", help="what was measured, for the results")
    options = parser.parse_args()
    kinds = options.kinds or ["programs", "traces"]
    if set(kinds) - {"programs", "traces"}:
        parser.error("kinds are programs and traces")
    try:
        import torch
    except ImportError:
        print("skipped: there is no PyTorch")
        return 77
    if not torch.cuda.is_available():
        print("skipped: PyTorch sees no GPU")
        return 77
    subprocess.run([sys.executable, "-m", "tenure.torch", "build"], check=False)
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        work = []
        if "programs" in kinds:
            work += [pool.submit(program_peaks, case, folder) for case in PROGRAMS
                     if re.search(options.only, case)]
        if "traces" in kinds:
            work += [pool.submit(trace_peaks, path) for path in sorted(TRACES.glob("*.csv.gz"))
                     if re.search(options.only, path.name)]
        rows, failed = [], 0
        for one in work:
            rows.append(one.result())
            failed += row_check(rows[-1])
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(dict(command=" ".join(["tests/gpu/predict.sh", *kinds]),
                           commit=options.commit, torch=torch.__version__,
                           gpu=torch.cuda.get_device_name(), rows=rows), file, indent=1)
            file.write("\n")
    print(f"{failed} of {3 * len(rows)} peaks are off" if failed else "all peaks hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
