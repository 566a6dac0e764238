#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes in one group on one device: what they hold together while they replay traces, how long
10 GB take from an idle one to a busy one, and what becomes of the others when one is killed or
stopped. Runs on a GPU (elastic.sh), and on the simulated device as a test of itself.

  share.py --library FILE [--traces FOLDER] [--mib N] [--limit-ms N] [--loops N]

--traces: also replays, two and four at once, and wants the largest sum of what is reserved to be at
most 1.05 of the largest sum of what is live; without it that is left out. --mib: how much is handed
over (default 10240). --limit-ms: what that may take (default 50; 0: it is not judged). --loops:
passes over each trace (default 3). What the library is told otherwise (TENURE_DRIVER, TENURE_SIM_*)
comes from the environment.

Exit codes: 0 all is so; 1 not so.
"""
import argparse
import ctypes
import glob
import gzip
import heapq
import json
import mmap
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
WAIT_MS = 1000
FIRST_SEAT, SEAT_BYTES, RESERVED_AT = 64, 128, 56
SETS = (("gpt2_train", "serve_streams"),
        ("gpt2_train", "serve_streams", "llama_generate", "moe_infer"))


# ---- a worker, told by lines: "malloc BYTES [NAME]", "free [NAME]" ------------------------------


def work(path):
    library = ctypes.CDLL(path)
    library.tnr_last_error.restype = ctypes.c_char_p
    library.tnr_free.argtypes = [ctypes.c_void_p]
    blocks = {}
    for line in sys.stdin:
        what, number, name = (line.split() + ["", ""])[:3]
        began = time.monotonic()
        status = 0
        if what == "malloc":
            block = ctypes.c_void_p()
            status = library.tnr_malloc(ctypes.byref(block), ctypes.c_size_t(int(number)), 0, None)
            if status == 0:
                blocks[name or "only"] = block
        else:
            status = library.tnr_free(blocks.pop(number or "only"))
        spent = (time.monotonic() - began) * 1000
        text = library.tnr_last_error().decode().split("\n")[0] if status else ""
        print(json.dumps({"status": status, "ms": spent, "text": text}), flush=True)


class Worker:
    def __init__(self, options, folder):
        conf = f"group:share,control_dir:{folder},group_wait_ms:{WAIT_MS}"
        self.process = subprocess.Popen(
            [sys.executable, "-B", __file__, "work", options.library], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "TENURE_CONF": conf})

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def must(self, line):
        said = self.ask(line)
        if said["status"]:
            sys.exit(f"{line}: {said['text']}")
        return said["ms"]

    def end(self):
        self.process.kill()
        self.process.wait()


def most_of(worker):
    """As many MiB as a process can have in one block, to 64 MiB; it has them then."""
    low, high = 0, 1 << 22
    while high - low > 64:
        middle = (low + high) // 2
        if worker.ask(f"malloc {middle * MIB}")["status"] == 0:
            worker.must("free")
            low = middle
        else:
            high = middle
    worker.must(f"malloc {low * MIB}")
    return low


# ---- handing over, killing, stopping -------------------------------------------------------------


def hand_over(options, folder):
    """The device is full, and so much of it idle in one process, which another needs."""
    first, second = Worker(options, folder), Worker(options, folder)
    first.must(f"malloc {options.mib * MIB}")
    most_of(second)
    first.must("free")
    times = []
    for _ in range(5):
        times.append(second.must(f"malloc {options.mib * MIB}"))
        second.must("free")
        first.must(f"malloc {options.mib * MIB}")
        first.must("free")
    for worker in (first, second):
        worker.end()
    times.sort()
    print(f"{options.mib} MiB from an idle process to a busy one: {times[0]:.1f} ms, "
          f"median {times[2]:.1f} ms, at most {times[-1]:.1f} ms")
    return options.limit_ms == 0 or times[2] <= options.limit_ms


def befall(options, folder, number, is_giver):
    """One of two is killed, or stopped, while it has idle memory, or is given some."""
    victim, other, third = workers = [Worker(options, folder) for _ in range(3)]
    for worker in workers:  # contexts take memory, too, which nobody gives up for them
        worker.must("malloc 1 begin")
        worker.must("free begin")
    all_mib = most_of(other)
    other.must("free")
    victim.must(f"malloc {all_mib // 2 * MIB}")
    if is_giver:
        victim.must("free")
    os.kill(victim.process.pid, number)
    if number == signal.SIGKILL:
        victim.process.wait()
    said = third.ask(f"malloc {all_mib * 3 // 4 * MIB}")
    is_right = said["status"] == 0 if number == signal.SIGKILL else said["ms"] < 3 * WAIT_MS
    victim.end()
    if said["status"] == 0:
        third.must("free")
    left = third.ask(f"malloc {all_mib * MIB}")
    print(f"{signal.Signals(number).name} of a process with {'idle' if is_giver else 'live'} "
          f"memory: another asked for {all_mib * 3 // 4} MiB and was "
          f"{'given it' if said['status'] == 0 else 'refused'} after {said['ms']:.0f} ms; the "
          f"victim gone, {all_mib} MiB were {'had' if left['status'] == 0 else 'NOT had'}")
    for worker in (other, third):
        worker.end()
    return is_right and left["status"] == 0


# ---- traces --------------------------------------------------------------------------------------


def reserved_of(board):
    """What all members have, read from the file in which they see each other (tnri_board)."""
    return sum(struct.unpack_from("<Q", board, FIRST_SEAT + seat * SEAT_BYTES + RESERVED_AT)[0]
               for seat in range(len(SETS[-1]) + 1))


def operations_of(path, number, loops):
    """(time in us, number of the worker, line) of a trace that is repeated."""
    with gzip.open(path, "rt") as lines:
        rows = [line.split(",") for line in lines if line[0] in "aF"]
    length = int(rows[-1][4]) + 1
    for loop in range(loops):
        live = set()
        for what, block, size, _, moment in rows:
            if what == "a":
                live.add(block)
                line = f"malloc {size} {block}"
            elif block in live:
                live.remove(block)
                line = f"free {block}"
            else:
                continue
            yield loop * length + int(moment), number, line
        for block in live:
            yield loop * length + length, number, f"free {block}"


def replay(options, folder, traces):
    """Replays traces at their recorded speed, each in a process, on one stream. What is live is
    known after each operation; what is reserved is read then."""
    workers = [Worker(options, folder) for _ in traces]
    courses = [operations_of(options.traces / f"{name}.csv.gz", number, options.loops)
               for number, name in enumerate(traces)]
    sizes = [{} for _ in traces]
    live, live_peak, reserved_peak, board, late = 0, 0, 0, None, 0
    began = time.monotonic()
    for moment, number, line in heapq.merge(*courses):
        wait = began + moment / 1e6 - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        late = max(late, -wait)
        workers[number].must(line)
        if board is None:
            with open(glob.glob(f"{folder}/share-*.group")[0], "rb") as file:
                board = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        words = line.split()
        if words[0] == "malloc":
            sizes[number][words[2]] = int(words[1])
            live += int(words[1])
        else:
            live -= sizes[number].pop(words[1])
        live_peak = max(live_peak, live)
        reserved_peak = max(reserved_peak, reserved_of(board))
    for worker in workers:
        worker.end()
    ratio = reserved_peak / live_peak
    print(f"{len(traces)} processes, {', '.join(traces)}: at most {reserved_peak / MIB:.0f} MiB "
          f"reserved, {live_peak / MIB:.0f} MiB live: {ratio:.3f} ({late:.2f} s late at most)",
          flush=True)
    return ratio <= 1.05


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--traces", type=pathlib.Path)
    parser.add_argument("--mib", type=int, default=10240)
    parser.add_argument("--limit-ms", type=float, default=50)
    parser.add_argument("--loops", type=int, default=3)
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="tenure-share-")
    results = [hand_over(options, folder)]
    for number in (signal.SIGKILL, signal.SIGSTOP):
        for is_giver in (True, False):
            results.append(befall(options, folder, number, is_giver))
    if options.traces:
        for traces in SETS:
            for old in glob.glob(f"{folder}/share-*.group"):
                os.unlink(old)
            results.append(replay(options, folder, traces))
    shutil.rmtree(folder)
    return 0 if all(results) else 1


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "work":
        work(sys.argv[2])
    else:
        sys.exit(main())
