# SPDX-License-Identifier: Apache-2.0
"""What of the memory that the driver says is used is explained, for programs that know nothing of
Tenure; and what `tenure top` takes of a training run. See ../account.sh.

Each program runs under `tenure run --account`, and says when it has what it keeps; then `tenure top
--by account` is asked once. Unexplained may be the larger of 1 % and 64 MiB.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
MIB = 1 << 20
PYTHON = ["torch_eager", "torch_graphs", "torch_compile", "torch_mapped", "libraries", "nccl",
          "nccl2", "cupy", "jax", "numba"]
COMPILED = ["graphs", "mapped"]
PATIENCE_S = 150  # for a program to come to its end; the first compilation is slow


class Missing(Exception):
    """What a program needs is not there."""


class Watched:
    """A program under Tenure, its output by lines, and its account."""

    def __init__(self, arguments, command, folder, environment=None, account=True):
        variables = dict(os.environ)
        conf = f"control_dir:'{folder}/sockets'"
        variables["TENURE_CONF"] = ",".join(filter(None, [variables.get("TENURE_CONF"), conf]))
        variables.update(environment or {})
        self.tenure = arguments.tenure
        self.folder = folder
        self.errors = open(folder / f"errors-{id(self)}", "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [self.tenure, "run", *(["--account"] if account else []), "--", *command],
            env=variables, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.errors)

    def line(self, patience=PATIENCE_S):
        timer = threading.Timer(patience, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if not line:
            self.process.wait()
            self.errors.seek(0)
            words = self.errors.read().strip().splitlines() or [f"exit {self.process.returncode}"]
            if "ModuleNotFoundError" in words[-1] or "sees no GPU" in words[-1]:
                raise Missing(words[-1])
            raise RuntimeError("\n    ".join(["it ended:", *words[-12:]]))
        return line.strip()

    def until_ready(self):
        while self.line() != "ready":
            pass

    def devices(self):
        done = subprocess.run(
            [self.tenure, "top", "--once", "--json", "--by", "account", "--dir",
             self.folder / "sockets", str(self.process.pid)],
            capture_output=True, text=True, check=False, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(f"tenure top: {done.stderr.strip()}")
        return json.loads(done.stdout)["answer"]["devices"]

    def end(self):
        if self.process.poll() is None:
            try:
                self.process.communicate("\n", timeout=60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.communicate()
        self.errors.close()


def compiled(arguments, name, folder):
    program = folder / name
    done = subprocess.run([arguments.nvcc, "-std=c++17", "-O2", "-arch=native", "-o", program,
                           HERE / f"{name}.cu", "-lcuda"], capture_output=True, text=True,
                          check=False) if arguments.nvcc else None
    if done is None:
        raise Missing("no nvcc")
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return [program]


def programs_start(arguments, name, folder):
    """One process, or one for each rank."""
    if name in COMPILED:
        return [Watched(arguments, compiled(arguments, name, folder), folder)]
    command = [arguments.python, HERE / "programs.py"]
    if not name.startswith("nccl"):
        return [Watched(arguments, [*command, name], folder)]
    ranks = 2 if name == "nccl2" else 1
    if ranks > arguments.gpus:
        raise Missing(f"{ranks} GPUs are needed, and there are {arguments.gpus}")
    return [Watched(arguments, [*command, "nccl_rank"], folder,
                    {"RANK": str(rank), "WORLD_SIZE": str(ranks), "NCCL_NVLS_ENABLE": "0",
                     "NCCL_FILE": str(folder / "rendezvous")})
            for rank in range(ranks)]


def account_read(device):
    """One device of one process: its rows, in MiB."""
    account = device.get("account")
    if account is None:
        raise RuntimeError("there is no account of the device")
    used = account["used_bytes"]
    unexplained = used - account["explained_bytes"]
    return {"device": device["device"], "from_start": account["from_start"],
            "used_mib": used / MIB, "unexplained_mib": unexplained / MIB,
            "target_mib": max(used / 100, 64 * MIB) / MIB,
            "tenure_mib": account["tenure_bytes"] / MIB,
            "outside_mib": {row["name"]: row["bytes"] / MIB for row in account["outside"]}}


def program_check(arguments, name):
    """Prints its line and returns what --json gets."""
    with tempfile.TemporaryDirectory() as folder:
        watched, found = [], []
        try:
            watched = programs_start(arguments, name, pathlib.Path(folder))
            for one in watched:
                one.until_ready()
            for one in watched:
                found += [account_read(device) for device in one.devices()]
        except Missing as why:
            print(f"skipped  {name:14} {why}", flush=True)
            return {"program": name, "skipped": str(why)}
        except RuntimeError as why:
            print(f"NO       {name:14} {why}", flush=True)
            return {"program": name, "good": False, "why": str(why)}
        finally:
            for one in watched:
                one.end()
    good = bool(found)
    for one in found:
        is_good = abs(one["unexplained_mib"]) <= one["target_mib"] and one["from_start"]
        good = good and is_good
        print(f"{'ok' if is_good else 'NO':8} {name:14} device {one['device']}: used "
              f"{one['used_mib']:9.1f} MiB, unexplained {one['unexplained_mib']:7.1f} MiB "
              f"(target {one['target_mib']:.1f})"
              f"{'' if one['from_start'] else '; NOT SINCE ITS FIRST CONTEXT: no NVML?'}")
        print(f"{'':24}Tenure {one['tenure_mib']:.1f}; " + "; ".join(
            f"{row} {mib:.1f}" for row, mib in one["outside_mib"].items()), flush=True)
    return {"program": name, "good": good, "devices": found}


# ---- what top takes ----------------------------------------------------------------------------


def top_cost(arguments, by):
    """Rounds of training with and without `tenure top` beside them, in turn."""
    name = f"top --by {by}"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        watched = Watched(arguments, [arguments.python, HERE / "programs.py", "train"], folder,
                          account=by == "account")
        command = [arguments.tenure, "top", "--interval", "1", "--by", by, "--dir",
                   folder / "sockets", str(watched.process.pid)]

        def round_run(steps, is_watched):
            top = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL) if is_watched else None
            print(steps, file=watched.process.stdin, flush=True)
            seconds = float(watched.line())
            if top is not None:
                if top.poll() is not None:
                    raise RuntimeError(f"tenure top ended with {top.returncode}")
                top.terminate()
                top.wait()
            return seconds

        try:
            watched.until_ready()
            steps = max(10, int(200 * arguments.round_s / round_run(200, False)))
            ratios = []
            for pair in range(arguments.pairs):
                order = [False, True] if pair % 2 == 0 else [True, False]
                times = {is_watched: round_run(steps, is_watched) for is_watched in order}
                ratios.append(times[True] / times[False] - 1)
        except Missing as why:
            print(f"skipped  {name:14} {why}", flush=True)
            return {"top": by, "skipped": str(why)}
        except RuntimeError as why:
            print(f"NO       {name:14} {why}", flush=True)
            return {"top": by, "good": False, "why": str(why)}
        finally:
            watched.end()
    median = statistics.median(ratios)
    low, high = sorted(ratios)[len(ratios) // 4], sorted(ratios)[-len(ratios) // 4]
    print(f"{'ok' if median <= 0.01 else 'NO':8} {name:14} median {median:+.3%} of the time of "
          f"training (target 1 %), quarters {low:+.3%} to {high:+.3%}, {len(ratios)} pairs of "
          f"{arguments.round_s:g} s", flush=True)
    return {"top": by, "good": median <= 0.01, "median": median, "ratios": ratios}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tenure", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--nvcc", default="")
    parser.add_argument("--gpus", type=int, required=True)
    parser.add_argument("--json")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--round-s", type=float, default=2)
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help=f"{', '.join(PYTHON + COMPILED)}, or top")
    arguments = parser.parse_args()
    names = arguments.names or [*PYTHON, *COMPILED, "top"]
    unknown = set(names) - {*PYTHON, *COMPILED, "top"}
    if unknown:
        parser.error(f"there is no program {', '.join(sorted(unknown))}")
    results = []
    for name in names:
        if name == "top":
            results += [top_cost(arguments, by) for by in ("pool", "stream", "account")]
        else:
            results.append(program_check(arguments, name))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            for result in results:
                print(json.dumps(result), file=file)
    done = sum("skipped" not in result for result in results if "program" in result)
    print(f"{done} programs were tried")
    return 1 if any(result.get("good") is False for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
