# SPDX-License-Identifier: Apache-2.0
"""experiments.py [--csv FILE] [--only REGEX] [--list] [--seconds N] [--commit ID]

Experiments with CUDA graphs in PyTorch, each in a process of its own, with PyTorch's own allocator
("own") and with Tenure ("tenure"). What needs no quiet machine runs side by side; steps are timed
one after the other. --csv writes what docs/benchmarks/graphs.csv keeps and tests/bench/graphs.py
shows.

Exit codes: 0 with Tenure all is as it must be; 1 not; 2 wrong usage; 77 no PyTorch or no GPU.
"""
import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
COLUMNS = ("experiment", "case", "allocator", "good", "result", "median_us", "p95_us",
           "reserved_mib")
ALLOCATORS = ("own", "tenure")
HERE = pathlib.Path(__file__).resolve()


def jobs_all():
    """(file, experiment, case, is timed), in the order of the page."""
    from once import BREAKERS, ONCE
    from steps import MODES
    once = [("once.py", name, "", False) for name in ONCE]
    once += [("once.py", "breaks", name, False) for name in BREAKERS]
    ranks = [("ranks.py", "ranks", kind, False)
             for kind in ("regions", "nccl", "failing", "failing_registered")]
    return once + ranks + [("steps.py", "step", mode, True) for mode in MODES]


def run(job, allocator, deadline, warm=False):
    """The rows of one experiment; a row that says so if it could not be finished."""
    file, experiment, case, _ = job
    environment = {**os.environ, "GRAPHS_ALLOCATOR": allocator}
    left = min(100.0, deadline - time.monotonic())
    why = "no time was left for it"
    if left > 5:
        try:
            done = subprocess.run([sys.executable, "-B", str(HERE.parent / file), experiment, case,
                                   *(["--warm"] if warm else [])], env=environment, text=True,
                                  capture_output=True, timeout=left, check=False)
            rows = [json.loads(line[5:]) for line in done.stdout.splitlines()
                    if line.startswith("row: ")]
            if done.returncode == 0:
                return rows
            lines = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()
            if done.returncode == 77:
                return [row_make(job, allocator, "", lines[-1])]
            print(done.stderr[-2000:], file=sys.stderr)
            why = f"it ended with {done.returncode}: {lines[-1][:160]}"
        except subprocess.TimeoutExpired:
            why = f"not done after {left:.0f} s"
    return [row_make(job, allocator, "no", why)]


def row_make(job, allocator, good, result):
    return {"experiment": job[1], "case": job[2], "allocator": allocator, "good": good,
            "result": result}


def shown(row):
    timed = f"median {row['median_us']} us, p95 {row['p95_us']} us" if row.get("median_us") else ""
    name = " ".join(filter(None, (row["experiment"], row["case"])))
    good = {"yes": "good   ", "no": "NOT SO ", "": "-      "}[row["good"]]
    return f"{good} {row['allocator']:7} {name:28} {row.get('result', '') or timed}"


def everything(jobs, deadline):
    rows = []

    def keep(found):
        for row in found:
            print(shown(row), flush=True)
            rows.append(row)

    timed = [job for job in jobs if job[3]]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        # What is compiled for the timed steps is compiled meanwhile, and found in a cache then.
        warm = [pool.submit(run, job, "own", deadline, True) for job in timed if job[2] != "eager"]
        futures = [pool.submit(run, job, allocator, deadline)
                   for job in jobs if not job[3] for allocator in ALLOCATORS]
        for future in futures:
            keep(future.result())
        concurrent.futures.wait(warm)
    for job in timed:
        for allocator in ALLOCATORS:
            keep(run(job, allocator, deadline))
    return rows


def csv_write(path, rows, commit):
    import torch
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                            capture_output=True, text=True, check=False).stdout.split()
    facts = {"command": "tests/gpu/graphs.sh", "commit": commit, "torch": torch.__version__,
             "gpu": torch.cuda.get_device_name(0), "gpus": torch.cuda.device_count(),
             "driver": driver[0] if driver else "unknown"}
    with open(path, "w", newline="", encoding="utf-8") as file:
        file.write("# " + " ".join(f"{key}={shlex.quote(str(value))}"
                                   for key, value in facts.items()) + "\n")
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=pathlib.Path)
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--seconds", type=float, default=190, help="the time that all may take")
    parser.add_argument("--commit", default="unknown")
    arguments = parser.parse_args()
    jobs = [job for job in jobs_all() if arguments.only.search(" ".join(job[1:3]))]
    if not jobs:
        parser.error(f"no experiment matches {arguments.only.pattern!r}")
    if arguments.list:
        print("\n".join(" ".join(job[1:3]).strip() for job in jobs))
        return 0
    try:
        import torch
        if not torch.cuda.is_available():
            raise ImportError("PyTorch sees no GPU")
    except ImportError as error:
        print(f"skipped: {error}")
        return 77
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.mkdtemp(prefix="tenure-graphs-"))
    rows = everything(jobs, time.monotonic() + arguments.seconds)
    if arguments.csv:
        csv_write(arguments.csv, rows, arguments.commit)
    return 1 if any(row["good"] == "no" and row["allocator"] == "tenure" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
