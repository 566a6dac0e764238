#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes in one group on one device: how long 10 GB take from an idle one to a busy one, what
becomes of the others when one is killed or stopped, and what they hold together while they replay
traces. Runs on a GPU (elastic.sh), and on the simulated device as a test of itself.

  share.py --library FILE [--traces FOLDER] [--only NAME,...] [--mib N] [--limit-ms N]
           [--seconds N] [--settle]

Parts, each with lines of its own, and a failed one does not hide the next:

  handover   10 GB (--mib N MiB) that are idle in one process go to another, the device full; within
             50 ms (--limit-ms; 0: times are not judged, and each waits for the others as long as a
             busy machine may need)
  victims    one of three is killed, or stopped, while what it has is live, or idle
  recorded   two processes replay traces at their recorded speed, a trainer's and a server's, for
             12 s (--seconds) of their time: the largest sum of what is reserved is at most 1.05 of
             the largest sum of what is live
  two, four  the same with two and with four, the servers' blocks larger, so that each needs about
             as much as the trainer
  tight      four do it with the rest of the device taken, so that 1.05 of the largest sum of what
             is live is all there is: nobody is refused
  load2, load4
             as many replay as fast as they can, and have 0.8 of what all would need at once, the
             rest of the device taken. Each in turn is stopped and killed: the others go on, and
             another takes the place of the dead
  leak       at the end, as much of the device can be had as at the beginning

--settle: as fast as it can, but waits before it reads what is reserved until all have answered who
has grown. So the sum is that of what they keep, however slow the machine is at running so many
processes.

All but the first two want --traces. Every process of a part makes its context before the device is
full. What the library is told otherwise (TENURE_DRIVER, TENURE_SIM_*) comes from the environment.

Exit codes: 0 all is so; 1 not so.
"""
import argparse
import ctypes
import glob
import gzip
import heapq
import itertools
import mmap
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
WAIT_MS, PATIENCE_MS = 1000, 120_000
RATIO_MOST = 1.05
PART_SECONDS_MOST = 240
FIRST_SEAT, SEAT_BYTES, RESERVED_AT, RINGS_AT, ANSWERED_AT = 64, 128, 56, 100, 108
# Traces, each with what its blocks are multiplied by.
RECORDED = (("gpt2_train", 1), ("serve_streams", 1))
TWO = (("gpt2_train", 1), ("serve_streams", 32))
FOUR = TWO + (("llama_generate", 8), ("moe_infer", 16))
LOAD_SHARE = 0.8
OPERATIONS_ON = 30000  # that somebody must do to have gone on


# ---- traces --------------------------------------------------------------------------------------


def trace_read(path, scale):
    """Operations of one pass: (what, block, bytes, microseconds)."""
    with gzip.open(path, "rt") as lines:
        rows = [line.split(",") for line in lines if line[0] in "aF"]
    return [(what, block, int(size) * scale, int(moment)) for what, block, size, _, moment in rows]


def trace_peak(rows):
    live, most, sizes = 0, 0, {}
    for what, block, size, _ in rows:
        if what == "a":
            sizes[block] = size
            live += size
            most = max(most, live)
        else:
            live -= sizes.pop(block, 0)
    return most


def passes_of(rows):
    """The trace again and again: (microseconds, what, block, bytes). What a pass leaves is freed at
    its end."""
    length, begin = rows[-1][3] + 1, 0
    while True:
        live = {}
        for what, block, size, moment in rows:
            if what == "a":
                live[block] = size
            elif live.pop(block, None) is None:
                continue
            yield begin + moment, what, block, size
        for block, size in live.items():
            yield begin + length, "F", block, size
        begin += length


# ---- a worker ------------------------------------------------------------------------------------


class Page:
    """What a worker that runs by itself tells, in a file that is mapped by both: operations,
    refusals, and the longest operation in microseconds, which who reads may set back."""

    def __init__(self, path):
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 4096)
        self.words = memoryview(self.map).cast("Q")


class Caller:
    """In a worker: calls the library."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.tnr_last_error.restype = ctypes.c_char_p
        self.library.tnr_free.argtypes = [ctypes.c_void_p]
        self.blocks = {}

    def malloc(self, name, size):
        block = ctypes.c_void_p()
        status = self.library.tnr_malloc(ctypes.byref(block), ctypes.c_size_t(size), 0, None)
        if status == 0:
            self.blocks[name] = block
        return status

    def free(self, name):
        return self.library.tnr_free(self.blocks.pop(name))

    def trim(self):
        return self.library.tnr_trim(None, ctypes.c_size_t(0), 0)

    def configure(self, conf):
        return self.library.tnr_configure(conf.encode())

    def text(self):
        return self.library.tnr_last_error().decode().split("\n")[0]

    def run(self, page, rows):
        """Replays for ever. Whoever is refused goes on without the block."""
        words = page.words
        for _, what, block, size in passes_of(rows):
            began = time.monotonic_ns()
            if what == "a":
                if self.malloc(block, size) != 0:
                    words[1] += 1
            elif block in self.blocks and self.free(block) != 0:
                sys.exit(f"tnr_free: {self.text()}")
            spent = (time.monotonic_ns() - began) // 1000
            if spent > words[2]:
                words[2] = spent
            words[0] += 1


def work(path):
    """Told by lines: "a NAME BYTES", "F NAME", "trim all", "conf SETTINGS", "run PAGE TRACE
    SCALE"."""
    caller = Caller(path)
    for line in sys.stdin:
        what, name, *more = line.split()
        began, status = time.monotonic(), 0
        if what == "a":
            status = caller.malloc(name, int(more[0]))
        elif what == "F":
            status = caller.free(name)
        elif what == "trim":
            status = caller.trim()
        elif what == "conf":
            status = caller.configure(name)
        else:
            caller.run(Page(name), trace_read(more[0], int(more[1])))
        spent = (time.monotonic() - began) * 1000
        print(f"{status} {spent} {caller.text() if status else ''}", flush=True)


class Worker:
    alive = set()

    def __init__(self, options, group):
        wait_ms = WAIT_MS if options.limit_ms else PATIENCE_MS
        conf = f"control_dir:{options.folder},group_wait_ms:{wait_ms}"
        if group:
            conf += f",group:{group}"
        self.process = subprocess.Popen(
            [sys.executable, "-B", __file__, "work", options.library], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "TENURE_CONF": conf})
        Worker.alive.add(self)

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self):
        said = self.process.stdout.readline().split(" ", 2)
        if len(said) != 3:
            raise RuntimeError(f"worker {self.process.pid} has ended ({self.process.wait()})")
        return int(said[0]), float(said[1]), said[2].strip()

    def ask(self, line):
        self.tell(line)
        return self.hear()

    def must(self, line):
        status, spent, text = self.ask(line)
        if status:
            raise RuntimeError(f"{line}: {text}")
        return spent

    def end(self):
        self.process.kill()
        self.process.wait()
        Worker.alive.discard(self)


def workers_start(options, group, count):
    """So many at once, with their contexts: these take memory, too, which nobody gives up."""
    workers = [Worker(options, group) for _ in range(count)]
    for worker in workers:
        worker.tell(f"a begin {MIB}")
    for worker in workers:
        status, _, text = worker.hear()
        if status:
            raise RuntimeError(f"a worker could not begin: {text}")
        worker.must("F begin")
    return workers


def most_of(worker):
    """As many MiB as a process can have in one block, to 64 MiB; it has them then, as "most"."""
    low, high = 0, 1 << 22
    while high - low > 64:
        middle = (low + high) // 2
        if worker.ask(f"a most {middle * MIB}")[0] == 0:
            worker.must("F most")
            low = middle
        else:
            high = middle
    worker.must(f"a most {low * MIB}")
    return low


def most_of_device(options):
    """What a process that starts now can have, and nobody else there."""
    worker = workers_start(options, "", 1)[0]
    most = most_of(worker)
    worker.end()
    return most


# ---- handing over, killing, stopping -------------------------------------------------------------


def say(what, is_right):
    print(f"{what}: {'ok' if is_right else 'NOT AS IT MUST BE'}", flush=True)
    return is_right


def hand_over(options):
    """The device is full, and so much of it idle in one process, which another needs."""
    first, second = workers_start(options, "handover", 2)
    first.must(f"a it {options.mib * MIB}")
    most_of(second)
    first.must("F it")
    times = []
    for _ in range(5):
        times.append(second.must(f"a it {options.mib * MIB}"))
        second.must("F it")
        first.must(f"a it {options.mib * MIB}")
        first.must("F it")
    times.sort()
    target = f" (target: median <= {options.limit_ms:.0f} ms)" if options.limit_ms else ""
    return say(f"handover: {options.mib} MiB from an idle process to a busy one in {times[0]:.1f} "
               f"ms, median {times[2]:.1f} ms, at most {times[-1]:.1f} ms{target}",
               options.limit_ms == 0 or times[2] <= options.limit_ms)


def befall(options, number, is_idle):
    """One of three is killed, or stopped, while what it has is idle, or live."""
    name = f"{signal.Signals(number).name}-{'idle' if is_idle else 'live'}"
    victim, other, third = workers_start(options, f"victims-{name}", 3)
    all_mib = most_of(other)
    other.must("F most")
    victim.must(f"a it {all_mib // 2 * MIB}")
    if is_idle:
        victim.must("F it")
    os.kill(victim.process.pid, number)
    if number == signal.SIGKILL:
        victim.process.wait()
    else:
        third.must(f"conf group_wait_ms:{WAIT_MS}")  # the victim does not answer
    status, spent, _ = third.ask(f"a it {all_mib * 3 // 4 * MIB}")
    if number == signal.SIGKILL:
        target, is_right = "given", status == 0
    else:
        target = f"refused or given within {3 * WAIT_MS} ms"
        is_right = options.limit_ms == 0 or spent <= 3 * WAIT_MS
    victim.end()
    if options.limit_ms == 0:
        third.must(f"conf group_wait_ms:{PATIENCE_MS}")
    if status == 0:
        third.must("F it")
    left = third.ask(f"a it {all_mib * MIB}")[0]
    other.end()
    third.end()
    return say(f"victims: {name}: another asked for {all_mib * 3 // 4} MiB and was "
               f"{'given it' if status == 0 else 'refused'} after {spent:.0f} ms (target: "
               f"{target}); the victim gone, all {all_mib} MiB were {'NOT ' if left else ''}had",
               is_right and left == 0)


def victims(options):
    return all([befall(options, number, is_idle)
                for number in (signal.SIGKILL, signal.SIGSTOP) for is_idle in (True, False)])


# ---- what is held together -----------------------------------------------------------------------


class Board:
    """The file in which the members of a group see each other (tnri_board)."""

    def __init__(self, options, group):
        with open(glob.glob(f"{options.folder}/{group}-*.group")[0], "rb") as file:
            self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.words = memoryview(self.map).cast("Q")
        self.halves = memoryview(self.map).cast("I")

    def reserved(self, members):
        first, step = (FIRST_SEAT + RESERVED_AT) // 8, SEAT_BYTES // 8
        return sum(self.words[first:first + step * members:step])

    def settle(self, members):
        """Waits until each has given what it was asked for."""
        for seat in range(members):
            at = (FIRST_SEAT + seat * SEAT_BYTES) // 4
            while self.halves[at + RINGS_AT // 4] != self.halves[at + ANSWERED_AT // 4]:
                time.sleep(0.0002)


def course(rows, number):
    for moment, what, block, size in passes_of(rows):
        yield moment, number, what, block, size


def courses_of(options, traces):
    """All operations in the order of their time."""
    return itertools.takewhile(
        lambda step: step[0] <= options.seconds * 1e6,
        heapq.merge(*(course(trace_read(options.traces / f"{trace}.csv.gz", scale), number)
                      for number, (trace, scale) in enumerate(traces))))


def live_peak_of(steps):
    live = most = 0
    for _, _, what, _, size in steps:
        live += size if what == "a" else -size
        most = max(most, live)
    return most


def ballast_take(options, left_mib):
    """Has all of the device but so much."""
    ballast = workers_start(options, "", 1)[0]
    all_mib = most_of(ballast)
    ballast.must("F most")
    ballast.must("trim all")
    ballast.must(f"a rest {int(all_mib - left_mib) * MIB}")


def told_of(traces):
    return ", ".join(trace if scale == 1 else f"{trace} x {scale}" for trace, scale in traces)


class Lockstep:
    """Replays traces at their recorded speed, each in a process, on one stream, one operation after
    the other: so what is live is known after each, and what is reserved is read then."""

    def __init__(self, options, workers, name):
        self.workers, self.board = workers, Board(options, name)
        self.is_settled = options.settle
        self.reserved_peak, self.late, self.longest = 0, 0.0, 0.0
        self.count, self.refused, self.without = 0, 0, set()

    def run(self, steps):
        began = time.monotonic()
        for moment, number, what, block, size in steps:
            if not self.is_settled:
                wait = began + moment / 1e6 - time.monotonic()
                self.late = max(self.late, -wait)
                time.sleep(max(wait, 0))
            if what == "a":
                status, spent, _ = self.workers[number].ask(f"a {block} {size}")
                self.longest = max(self.longest, spent)
                if status:
                    self.refused += 1
                    self.without.add((number, block))
            elif (number, block) in self.without:
                self.without.remove((number, block))
            else:
                self.workers[number].must(f"F {block}")
            if self.is_settled:
                self.board.settle(len(self.workers))
            self.reserved_peak = max(self.reserved_peak, self.board.reserved(len(self.workers)))
            self.count += 1


def replay(options, name, traces):
    workers = workers_start(options, name, len(traces))
    live_peak = live_peak_of(courses_of(options, traces))
    lockstep = Lockstep(options, workers, name)
    lockstep.run(courses_of(options, traces))
    ratio = lockstep.reserved_peak / live_peak
    return say(f"{name}: {len(traces)} processes, {told_of(traces)}: at most "
               f"{lockstep.reserved_peak / MIB:.0f} MiB reserved, {live_peak / MIB:.0f} MiB live: "
               f"{ratio:.3f} (target <= {RATIO_MOST}; {lockstep.count} operations, "
               f"{lockstep.refused} refused, at most {lockstep.late:.1f} s late)",
               ratio <= RATIO_MOST and lockstep.refused == 0)


def tight(options):
    """The same with no more memory than that, so that one can only grow by what others give."""
    live_peak = live_peak_of(courses_of(options, FOUR))
    workers = workers_start(options, "tight", len(FOUR))
    ballast_take(options, live_peak * RATIO_MOST / MIB)
    lockstep = Lockstep(options, workers, "tight")
    lockstep.run(courses_of(options, FOUR))
    return say(f"tight: 4 processes, {told_of(FOUR)}, the device full but for {RATIO_MOST} of "
               f"what is live at most, {live_peak / MIB:.0f} MiB: {lockstep.refused} of "
               f"{lockstep.count} operations refused (target: 0), the longest "
               f"{lockstep.longest:.1f} ms", lockstep.refused == 0)


# ---- killed and stopped under load ---------------------------------------------------------------


class Runner:
    """A worker that replays by itself."""

    def __init__(self, options, worker, trace, scale):
        self.worker, self.trace, self.scale = worker, trace, scale
        path = f"{options.folder}/{worker.process.pid}.page"
        with open(path, "wb") as file:
            file.truncate(4096)
        self.page = Page(path)
        worker.tell(f"run {path} {options.traces / trace}.csv.gz {scale}")

    def operations(self):
        return self.page.words[0]

    def refusals(self):
        return self.page.words[1]

    def longest_ms(self):
        return self.page.words[2] / 1000


def go_on(runners):
    """Waits until each has done so many operations more. Returns the longest one, in ms."""
    begun = [runner.operations() for runner in runners]
    for runner in runners:
        runner.page.words[2] = 0
    while any(runner.operations() < before + OPERATIONS_ON
              for runner, before in zip(runners, begun)):
        for runner in runners:
            if runner.worker.process.poll() is not None:
                raise RuntimeError(f"{runner.trace} has ended")
        time.sleep(0.005)
    return max((runner.longest_ms() for runner in runners), default=0)


def load(options, name, traces):
    spares = workers_start(options, name, 2 * len(traces))
    need_mib = sum(trace_peak(trace_read(options.traces / f"{trace}.csv.gz", scale))
                   for trace, scale in traces) * LOAD_SHARE / MIB
    ballast_take(options, need_mib)
    runners = [Runner(options, spares.pop(), trace, scale) for trace, scale in traces]
    longest = {"together": go_on(runners), "while one was stopped": 0, "when one was killed": 0}
    for i, victim in enumerate(list(runners)):
        others = runners[:i] + runners[i + 1:]
        victim.worker.process.send_signal(signal.SIGSTOP)
        longest["while one was stopped"] = max(longest["while one was stopped"], go_on(others))
        victim.worker.process.send_signal(signal.SIGCONT)
        longest["together"] = max(longest["together"], go_on(runners))
        victim.worker.end()
        longest["when one was killed"] = max(longest["when one was killed"], go_on(others))
        runners[i] = Runner(options, spares.pop(), victim.trace, victim.scale)
        longest["together"] = max(longest["together"], go_on(runners))
    refused = sum(runner.refusals() for runner in runners)
    count = sum(runner.operations() for runner in runners)
    target = f" (target: none above {2 * WAIT_MS} ms)" if options.limit_ms else ""
    return say(f"{name}: {len(traces)} processes, {told_of(traces)}, with {need_mib:.0f} MiB, each "
               "stopped and killed in turn: all others went on each time; the longest operation "
               "was " + ", ".join(f"{spent:.0f} ms {when}" for when, spent in longest.items())
               + f"{target}; {refused} of {count} found no memory",
               options.limit_ms == 0 or max(longest.values()) <= 2 * WAIT_MS)


# ---- all parts -----------------------------------------------------------------------------------


def leak(options):
    now = most_of_device(options)
    return say(f"leak: {options.all_mib} MiB could be had at the beginning, {now} MiB at the end "
               "(target: not less by more than 128)", now >= options.all_mib - 128)


PARTS = {
    "handover": hand_over,
    "victims": victims,
    "recorded": lambda options: replay(options, "recorded", RECORDED),
    "two": lambda options: replay(options, "two", TWO),
    "four": lambda options: replay(options, "four", FOUR),
    "tight": tight,
    "load2": lambda options: load(options, "load2", TWO),
    "load4": lambda options: load(options, "load4", FOUR),
    "leak": leak,
}


def too_long(_number, _frame):
    raise RuntimeError(f"not done after {PART_SECONDS_MOST} s")


def part_run(options, name):
    """A part, whatever comes of it; nobody of it is left."""
    began, is_right = time.monotonic(), False
    signal.alarm(PART_SECONDS_MOST)
    try:
        is_right = PARTS[name](options)
    except Exception as error:  # the next part is tried all the same
        say(f"{name}: {type(error).__name__}: {error}", False)
    signal.alarm(0)
    for worker in list(Worker.alive):
        worker.end()
    print(f"  ({name} took {time.monotonic() - began:.1f} s)", flush=True)
    return is_right


def options_read():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--traces", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--mib", type=int, default=10240)
    parser.add_argument("--limit-ms", type=float, default=50)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--settle", action="store_true")
    options = parser.parse_args()
    names = [name for name in options.only.split(",") if name] or list(PARTS)
    for name in names:
        if name not in PARTS:
            parser.error(f"--only: {name} is not one of {', '.join(PARTS)}")
    if options.traces is None:
        names = [name for name in names if name in ("handover", "victims", "leak")]
    options.names = names
    return options


def main():
    options = options_read()
    options.folder = tempfile.mkdtemp(prefix="tenure-share-")
    signal.signal(signal.SIGALRM, too_long)
    if "leak" in options.names:
        options.all_mib = most_of_device(options)
    results = [part_run(options, name) for name in options.names]
    shutil.rmtree(options.folder)
    return 0 if all(results) else 1


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "work":
        work(sys.argv[2])
    else:
        sys.exit(main())
