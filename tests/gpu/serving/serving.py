# SPDX-License-Identifier: Apache-2.0
"""A small serving engine (engine.py) with PyTorch's own allocator, with its expandable segments and
with Tenure, each in a process of its own.

  serving.py [--gib N] [--seconds N] [--rounds N] [--json FILE] [sizes of the model; --help]

A line for each measure: whether it is so, what it is, the number, the target.

  largest batch   the most sequences of the whole context that can be served within --gib, with
                  graphs captured for 40 batch sizes; the processes search at the same time
  tokens/s        with the largest batch with which all serve an epoch, prefills included; rounds in
                  turns, and the median
  tokens          the same requests give the same tokens, and the same logits bit by bit, with all
  asleep          Tenure's process, in the middle of requests: what it holds, seen by cuMemGetInfo
                  from here, and seconds for each GB; then with the cache's contents dropped
  after the wake  the requests go on, and give the same tokens and logits as without the sleep

--self checks what needs no GPU: the schedule and the search.
Exit codes: 0 all is so; 1 not so; 77 no GPU, or no PyTorch.
"""
import argparse
import contextlib
import importlib.util
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "asleep"))
from asleep import Table  # noqa: E402
from ruled import Device, skip  # noqa: E402
from schedule import GRAPH_SIZES, Schedule, requests_drawn  # noqa: E402

ALLOCATORS = ("native", "expandable", "tenure")
SIZES = {"layers": 28, "width": 3072, "kv_heads": 8, "mlp": 8192, "vocabulary": 32000,
         "context": 2048, "page": 16, "budget": 8192, "seed": 7}
GB = 10 ** 9
SPEED_MIN = 0.98
REST_MAX = 0.01  # of what Tenure's process has reserved awake
DISTINCT_MIN = 100  # tokens: an engine that repeats one shows nothing


class Worker:
    """The engine in a process of its own."""

    def __init__(self, allocator, options):
        self.allocator, self.options = allocator, options
        self.start()

    def start(self):
        # pylint: disable=consider-using-with
        self.said = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(
            [sys.executable, "-B", str(HERE / "engine.py"),
             json.dumps({"allocator": self.allocator, **self.options})],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said)

    def ask(self, what, seconds=120, **arguments):
        timer = threading.Timer(seconds, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(json.dumps({"do": what, **arguments}) + "\n")
            self.process.stdin.flush()
            said = json.loads(self.process.stdout.readline() or "{}")
        except BrokenPipeError:
            said = {}
        finally:
            timer.cancel()
        if "is" not in said:
            self.said.seek(0)
            raise RuntimeError(f"{self.allocator}, {what}: "
                               f"{said.get('error', 'the program has ended')}\n"
                               f"{self.said.read()[-3000:]}")
        return said["is"]

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stdin.close()
        self.said.close()


def at_once(workers, run):
    """What `run` returns for each of them, all at the same time. Raises what the first raised."""
    results, errors = {}, []

    def one(worker):
        try:
            results[worker.allocator] = run(worker)
        except Exception as error:  # raised below
            errors.append(error)

    threads = [threading.Thread(target=one, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def largest(fits, low, high):
    """The largest batch that fits, up to `high`; 0: none. It is expected from `low` on."""
    if not fits(low):
        low, high = 0, low - 1
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def cache_bytes(options):
    """Of one sequence of the whole context."""
    return options["layers"] * 2 * options["kv_heads"] * 128 * options["context"] * 2


def weight_bytes(options):
    wide = options["width"]
    layer = wide * (2 * wide + 2 * options["kv_heads"] * 128 + 3 * options["mlp"])
    return 2 * (options["layers"] * layer + 2 * wide * options["vocabulary"])


def searched(worker, options, low, high):
    """The largest batch and the peaks with it."""
    worker.ask("load")
    peaks = {}

    def fits(batch):
        said = worker.ask("fits", batch=batch)
        peaks[batch] = said
        if said["is_broken"]:
            worker.end()
            worker.start()
            worker.ask("load")
        return said["fits"]

    batch = largest(fits, low, high)
    short = min((each for each in peaks if each > batch), default=None)
    return {"batch": batch, "tries": len(peaks), "why": peaks[short]["why"] if short else None,
            **{name: peaks[batch][name] if batch else 0 for name in ("reserved", "live")}}


def bounds(options):
    """Batches between which the search begins: if all that the weights leave were for caches, and
    four fifths of it."""
    most = max(1, (options["bytes"] - weight_bytes(options)) // cache_bytes(options))
    most = min(most, GRAPH_SIZES[-1])
    return max(1, most * 4 // 5), most


def batches(workers, options, table):
    low, high = bounds(options)
    found = at_once(workers, lambda worker: searched(worker, options, low, high))
    for name in ALLOCATORS:
        said = found[name]
        table.row(f"largest batch, {name}", str(said["batch"]), said["batch"], said["batch"] > 0,
                  f"peaks: reserved {said['reserved'] / GB:.2f} GB, live "
                  f"{said['live'] / GB:.2f} GB; {said['tries']} tries")
    best = max(found[name]["batch"] for name in ALLOCATORS[:2])
    mine = found["tenure"]["batch"]
    table.row("largest batch, Tenure less the better other", f"{mine - best:+}", mine - best,
              mine >= best, "at least 0")
    if mine < best:
        print(f"With Tenure one more does not fit because of this:\n{found['tenure']['why']}")
    return min(said["batch"] for said in found.values())


def asked_of(batch):
    return {"count": 2 * batch, "seed": 1, "outputs": [32, 96]}


def warmed(workers, batch, table):
    """The largest batch, `batch` or less, with which each of them has served an epoch. What fits
    once may not fit later, when memory lies in pieces: of another allocator that is a result, of
    Tenure a failure. All go on with a smaller batch, from the start."""
    while batch > 0:
        def served(worker, batch=batch):
            try:
                worker.ask("build", batch=batch)
                worker.ask("epoch", **asked_of(batch))
            except RuntimeError as error:
                if worker.allocator == "tenure" or "out of memory" not in str(error).lower():
                    raise
                return str(error).split(". ")[0]
            return None

        said = at_once(workers, served)
        if not any(said.values()):
            return batch
        for name in filter(said.get, ALLOCATORS):
            table.row(f"an epoch with batch {batch}, {name}", "out of memory", batch, None,
                      said[name])
        batch -= max(1, batch // 16)
        for worker in workers:
            worker.end()
            worker.start()
        at_once(workers, lambda worker: worker.ask("load"))
    raise RuntimeError("no batch serves an epoch with all three")


def speeds(workers, batch, asked, rounds, deadline, table):
    """Epochs in turns. Returns what Tenure's process said of the last one."""
    rates, said = {name: [] for name in ALLOCATORS}, {}
    for turn in range(rounds):
        if turn >= 2 and time.monotonic() > deadline:
            break
        for i in range(len(workers)):
            worker = workers[(turn + i) % len(workers)]
            said[worker.allocator] = worker.ask("epoch", **asked)
            rates[worker.allocator].append(said[worker.allocator]["tokens"] /
                                           said[worker.allocator]["seconds"])
    middle = {name: sorted(of)[len(of) // 2] for name, of in rates.items()}
    for name in ALLOCATORS:
        table.row(f"tokens/s, {name}", f"{middle[name]:.0f}", rates[name], None,
                  f"{min(rates[name]):.0f} to {max(rates[name]):.0f}, {len(rates[name])} rounds of "
                  f"{said[name]['tokens']} tokens in {said[name]['steps']} steps, batch {batch}")
    share = middle["tenure"] / max(middle["native"], middle["expandable"])
    table.row("tokens/s, Tenure / the faster other", f"{share:.3f}", share, share >= SPEED_MIN,
              f"at least {SPEED_MIN}")
    digests = {name: of["digest"] for name, of in said.items()}
    table.row("tokens and logits, kinds", str(len(set(digests.values()))), digests,
              len(set(digests.values())) == 1, "1: bit by bit the same with all three")
    mine = said["tenure"]
    table.row("distinct tokens", str(mine["distinct"]), mine["distinct"],
              mine["distinct"] >= DISTINCT_MIN and mine["is_finite"],
              f"at least {DISTINCT_MIN}, all logits finite")
    return mine


def away(device, worker, what, kept, table):
    """Asleep and awake once."""
    slept = worker.ask("sleep", kept=kept)
    held = device.used()
    woke = worker.ask("wake")
    given = slept["before"] - slept["after"]
    table.row(f"{what}: Tenure asleep", f"{slept['after'] / GB:.3f} GB", slept["after"],
              slept["after"] <= REST_MAX * slept["before"], f"of {slept['before'] / GB:.2f} GB")
    table.row(f"{what}: process asleep", f"{held / GB:.3f} GB", held, None,
              "with its context, kernels and graphs")
    for verb, seconds in (("sleep", slept["seconds"]), ("wake", woke["seconds"])):
        table.row(f"{what}: {verb}, s for each GB", f"{seconds / given * GB:.4f}", seconds, None,
                  f"{seconds:.3f} s for {given / GB:.2f} GB, {', '.join(kept)} kept")


def sleeps(device, worker, asked, expected, table):
    """In the middle of requests, twice: the second time has its pinned memory. Then between
    requests, with the cache's contents dropped."""
    everything = ["weights", "kv_cache"]
    for what in ("first", "again"):
        worker.ask("begin", **asked)
        worker.ask("serve", steps=expected["steps"] // 2)
        away(device, worker, what, everything, table)
        worker.ask("serve")
        same(worker.ask("told"), expected, what, table)
    away(device, worker, "cache dropped", ["weights"], table)
    worker.ask("refill")
    same(worker.ask("epoch", **asked), expected, "cache dropped", table)


def same(said, expected, what, table):
    is_same = said["digest"] == expected["digest"]
    table.row(f"{what}: tokens and logits after the wake", "same" if is_same else "DIFFERENT",
              is_same, is_same, f"{said['tokens']} tokens, {len(GRAPH_SIZES)} graphs")


def run(options, table):
    began, device = time.monotonic(), Device("libcuda.so.1")
    sizes = {name: getattr(options, name) for name in SIZES}
    sizes["bytes"] = int(options.gib * (1 << 30))
    workers = [Worker(name, sizes) for name in ALLOCATORS]
    try:
        batch = batches(workers, sizes, table)
        print(f"    after {time.monotonic() - began:.0f} s", flush=True)
        if batch == 0:
            return
        batch = warmed(workers, batch, table)
        asked = asked_of(batch)
        expected = speeds(workers, batch, asked, options.rounds,
                          began + options.seconds * 0.7, table)
        print(f"    after {time.monotonic() - began:.0f} s", flush=True)
        for worker in workers[:2]:
            worker.end()
        sleeps(device, workers[2], asked, expected, table)
    except RuntimeError as error:
        print(error)
        table.row("every process did what it was asked", "NO", 1, False)
    finally:
        for worker in workers:
            if worker.process.poll() is None:
                worker.end()
    print(f"    after {time.monotonic() - began:.0f} s", flush=True)


# ---- without a GPU ------------------------------------------------------------------------------


def check(is_so, what):
    if not is_so:
        sys.exit(f"serving.py --self: {what}")


def checked_schedule(batch, pages, page, seed):
    """All requests get their tokens, no page is two requests', and nothing is left. Fails without
    the line that gives an ended request's pages back, and without the one that keeps to the
    budget."""
    schedule = Schedule(batch, pages, page, 1024)
    wanted = requests_drawn(40, seed, 100, 512, (1, 9))
    schedule.waiting, most, steps = list(wanted), 0, 0
    while schedule.is_busy():
        admitted = schedule.admit()
        check(sum(len(each.prompt) for each in admitted[:-1]) <= 1024, "a prefill is too large")
        schedule.take(admitted, [0] * len(admitted), [0.0] * len(admitted))
        held = [each for request in schedule.running for each in request.pages]
        check(sorted(held + schedule.free) == list(range(1, pages + 1)),
              "a page is lost, or double")
        check(all(each.position() < len(each.pages) * page for each in schedule.running),
              "a token is beyond the pages of its request")
        most, steps = max(most, len(schedule.running)), steps + 1
        schedule.take(list(schedule.running), [0] * batch, [0.0] * batch)
        check(steps < 1000, "requests do not end")
    check(all(len(each.tokens) == each.count for each in wanted), "a request lacks tokens")
    check(most <= batch, "too many run at once")
    return most


class Scripted:
    """A worker whose epochs fit up to a batch. `batches` are those that were asked for."""

    def __init__(self, allocator, most):
        self.allocator, self.most, self.batches, self.starts = allocator, most, [], 0

    def ask(self, what, batch=0, **_):
        if what == "build":
            self.batches.append(batch)
        if what == "epoch" and self.batches[-1] > self.most:
            raise RuntimeError(f"{self.allocator}, epoch: OutOfMemoryError: CUDA out of memory.")

    def start(self):
        self.starts += 1

    def end(self):
        pass


def checked_warmed():
    """Fails where the workers are not started again, or where Tenure's failure is a result."""
    table, workers = Table(), [Scripted(*each) for each in
                               (("native", 53), ("expandable", 60), ("tenure", 60))]
    check(warmed(workers, 57, table) == 51, "the batch that all serve is another")
    check([worker.batches for worker in workers] == [[57, 54, 51]] * 3, "other batches are tried")
    check([worker.starts for worker in workers] == [2] * 3, "workers go on after a failure")
    check(len(table.rows) == 2 and table.is_good, "a failure of another is none of ours")
    for most in ((9, 9, 5), (0, 9, 9)):  # Tenure's, and no batch at all
        workers = [Scripted(name, each) for name, each in zip(ALLOCATORS, most)]
        try:
            warmed(workers, 9, Table())
        except RuntimeError:
            continue
        check(False, "a failure passes")


def self_check():
    with contextlib.redirect_stdout(io.StringIO()):  # rows of a table that is none of ours
        checked_warmed()
    check(len(GRAPH_SIZES) == 40 and GRAPH_SIZES[-1] == 64, "there are 40 graphs, to 64")
    for seed in range(20):
        check(checked_schedule(8, 8 * 32, 16, seed) == 8, "a place stays empty")
        checked_schedule(64, 40, 16, seed)  # pages are short, not places
    for low, high, bound in ((1, 64, 37), (10, 20, 20), (10, 20, 10), (5, 5, 9), (5, 9, 4),
                             (5, 9, 0)):
        tried = []

        def fits(batch, bound=bound, tried=tried):
            tried.append(batch)
            return batch <= bound

        check(largest(fits, low, high) == min(bound, high),
              f"the search from {low} to {high} misses {bound}")
        check(len(tried) <= 8, "the search asks too often")
    low, high = bounds({**SIZES, "bytes": 20 << 30})
    check(1 < low < high <= 64, "there is nothing to search")
    print("serving.py --self: 40 schedules and 6 searches are right")


def main():
    parser = argparse.ArgumentParser(description="A small serving engine with three allocators.")
    parser.add_argument("--self", action="store_true", help="check what needs no GPU")
    parser.add_argument("--gib", type=float, default=20, help="that each process may have")
    parser.add_argument("--seconds", type=float, default=140, help="fewer rounds after 0.7 of it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    for name, value in SIZES.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    options = parser.parse_args()
    if options.self:
        self_check()
        return 0
    if importlib.util.find_spec("torch") is None:
        skip("there is no PyTorch")
    table = Table()
    run(options, table)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(table.rows, indent=1) + "\n")
    return 0 if table.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
