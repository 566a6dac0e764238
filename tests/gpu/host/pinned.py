#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pinned.py [--gib N] [--cycles N] [--only PARTS] [--makes A,B] [--json FILE] [--commit TEXT]
pinned.py MAKE [the same]: one of them, in this process

Pinned host memory of four makes, side by side, as PyTorch's programs use it. Each make has a
process of its own:

  torch    PyTorch's own allocator
  pool     a pool of the driver's with its memory on the host (cuMemPoolCreate), which keeps what is
           freed. Its allocations are ordered on a stream, so the host waits for each before it
           writes
  mapped   tenure.torch.install, as it comes
  slabs    the same with the setting host:allocated

The parts:

  sizes    one block of each of five sizes that users reported: what is held over what is asked for
  first    one block of 8 GiB (or --gib), and touching it
  blocks   155 blocks of 3 MiB and all kept, when 1 GiB is idle; a cached block of 4 KiB and its
           free, from Python
  copies   1 GiB each way
  layers   eight threads pin the weights of a model's layers, copy them in, drop them; 20 times:
           what is held over what is asked for, in the first and the last pass
  loader   a DataLoader with 4 workers and pin_memory: batches of other sizes each time, copied
           without waiting, a step on each; batches a second, and what is held
  day      a cycle for each second of a day: a cache's blocks of 256 KiB to 24 MiB go out to the
           host, others come back and are dropped; load rises and falls each hour. What is held over
           what was live at the most, after hours 1, 12 and 24. The cycles run at full speed, so a
           day takes seconds: mapped has move_percent:100 there, since moves that may take 1 % of a
           day have no end in them. `day, no time to move` is the same with 1 %

Exit codes: 0 all holds; 1 not; 2 wrong usage; 77 there is no PyTorch or no GPU.
"""
import argparse
import contextlib
import ctypes
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "engines"))

import cases  # noqa: E402
import engines_torch as engines  # noqa: E402

MAKES = ("torch", "pool", "mapped", "slabs")
OURS = ("mapped", "slabs")
MIB = 1 << 20
GIB = 1 << 30
THREADS, PASSES = 8, 20
HELD_MAX = 1.02    # of what eight threads ask for: mapped
GROWTH_MAX = 1.02  # of a day, after its first hour: mapped
BLOCK_US_MAX = 5.0
SPEED_MIN = 0.95   # of PyTorch's own: copies, and the loader
LIMIT_S = 120


# ---- the makes: get(bytes) makes a block, whose `tensor` is its bytes; held() are bytes ----------


class Block:
    """Dropping it frees it."""

    def __init__(self, tensor):
        self.tensor = tensor


class Torchs:
    """PyTorch's allocator of pinned memory, whoever serves it."""

    def __init__(self, torch, name):
        self.torch, self.name = torch, name

    def get(self, size):
        return Block(self.torch.empty(size, dtype=self.torch.uint8, pin_memory=True))

    def held(self):
        if self.name == "torch":
            return self.torch.cuda.host_memory_stats()["allocated_bytes.current"]
        import tenure
        return tenure.stats(64)["reserved_bytes.all.current"]

    def trim(self):
        gc.collect()
        self.torch.cuda.synchronize()
        self.torch._C._host_emptyCache()


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class PoolProps(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location),
                ("security", ctypes.c_void_p), ("bytes_max", ctypes.c_size_t),
                ("usage", ctypes.c_ushort), ("reserved", ctypes.c_ubyte * 54)]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


class PoolBlock(Block):
    def __init__(self, pool, address, size):
        bytes_there = (ctypes.c_ubyte * size).from_address(address)
        super().__init__(pool.torch.frombuffer(bytes_there, dtype=pool.torch.uint8))
        self.pool, self.address = pool, address

    def __del__(self):
        self.pool.call("cuMemFreeAsync", ctypes.c_uint64(self.address), self.pool.stream())


class Pool:
    """The driver's, by its interface for C."""

    DEVICE, PINNED, READ_WRITE = 1, 1, 3
    HOST, NUMA = 2, 3
    THRESHOLD, RESERVED = 4, 5  # of the pool's attributes

    def __init__(self, torch):
        self.torch, self.driver = torch, ctypes.CDLL("libcuda.so.1")
        torch.zeros(1, device="cuda")
        self.pool, self.place = ctypes.c_void_p(), ""
        errors = []
        for place, name in ((self.NUMA, "HOST_NUMA 0"), (self.HOST, "HOST")):
            properties = PoolProps(type=self.PINNED, location=Location(place, 0))
            error = self.driver.cuMemPoolCreate(ctypes.byref(self.pool), ctypes.byref(properties))
            if error == 0:
                self.place = name
                break
            errors.append(f"{name}: {error}")
        if not self.place:
            raise OSError("the driver makes no pool on the host: cuMemPoolCreate: " +
                          ", ".join(errors))
        access = Access(Location(self.DEVICE, 0), self.READ_WRITE)
        self.call("cuMemPoolSetAccess", self.pool, ctypes.byref(access), ctypes.c_size_t(1))
        self.keep(2 ** 64 - 1)

    def call(self, name, *arguments):
        error = getattr(self.driver, name)(*arguments)
        if error:
            raise OSError(f"{name} returned {error}")

    def keep(self, size):
        self.call("cuMemPoolSetAttribute", self.pool, self.THRESHOLD,
                  ctypes.byref(ctypes.c_uint64(size)))

    def stream(self):
        return ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream)

    def get(self, size):
        address = ctypes.c_uint64()
        stream = self.stream()
        self.call("cuMemAllocFromPoolAsync", ctypes.byref(address), ctypes.c_size_t(size),
                  self.pool, stream)
        self.call("cuStreamSynchronize", stream)
        return PoolBlock(self, address.value, size)

    def held(self):
        size = ctypes.c_uint64()
        self.call("cuMemPoolGetAttribute", self.pool, self.RESERVED, ctypes.byref(size))
        return size.value

    def trim(self):
        gc.collect()
        self.torch.cuda.synchronize()
        self.call("cuMemPoolTrimTo", self.pool, ctypes.c_size_t(0))


# ---- the parts: each returns numbers by name -----------------------------------------------------


def touch(tensor):
    """Writes each page, which is when the system makes it."""
    tensor[::4096] = 1


def sizes(make, _torch, _options):
    found = {}
    for gib in (2.0832, 1.125, 0.563, 2.25, 6.0):
        make.trim()
        before, asked = make.held(), int(gib * GIB)
        block = make.get(asked)
        found[f"held over {gib} GiB"] = (make.held() - before) / asked
        del block
    make.trim()
    return found


def first(make, _torch, options):
    make.trim()
    began = time.perf_counter()
    block = make.get(options.gib * GIB)
    made = time.perf_counter()
    touch(block.tensor)
    touched = time.perf_counter()
    del block
    make.trim()
    return {f"the first {options.gib} GiB, s": made - began, "touching it, s": touched - made}


def blocks(make, _torch, _options):
    block = make.get(GIB)
    touch(block.tensor)
    del block
    began = time.perf_counter()
    kept = [make.get(3 * MIB) for _ in range(155)]
    new = (time.perf_counter() - began) / len(kept)
    kept.clear()
    make.get(4096)
    pairs = 20000
    began = time.perf_counter()
    for _ in range(pairs):
        make.get(4096)
    pair = (time.perf_counter() - began) / pairs
    make.trim()
    return {"a new block of 3 MiB, us": 1e6 * new, "a cached 4 KiB and its free, us": 1e6 * pair}


def copies(make, torch, _options):
    block, there = make.get(GIB), torch.empty(GIB, dtype=torch.uint8, device="cuda")
    block.tensor.fill_(1)
    found = {}
    for name, to, of in (("in", there, block.tensor), ("out", block.tensor, there)):
        seconds = []
        for _ in range(6):
            torch.cuda.synchronize()
            began = time.perf_counter()
            to.copy_(of, non_blocking=True)
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - began)
        found[f"copies {name}, GB/s"] = GIB / 1e9 / statistics.median(seconds[1:])
    del block
    make.trim()
    return found


def matrix_bytes(which):
    """The weights of a layer, as host_memory_cost.c has them."""
    hidden, inner = 1152, 3100
    return (hidden * hidden * 3, hidden * hidden * 2, hidden * inner * 4, hidden * inner * 2,
            hidden * 2, hidden * 2)[which % 6]


class Layers:
    """Eight threads, which pass as one."""

    def __init__(self, make, torch, size):
        self.make, self.torch, self.part = make, torch, size // THREADS
        self.all_have, self.all_go = (threading.Barrier(THREADS + 1) for _ in range(2))
        self.asked, self.errors = [0] * THREADS, []

    def run(self, number):
        try:
            torch, stream = self.torch, self.torch.cuda.Stream()
            with torch.cuda.stream(stream):
                there = torch.empty(16 * MIB, dtype=torch.uint8, device="cuda")
                for _ in range(PASSES):
                    self.one_pass(number, there)
                    stream.synchronize()
            self.all_have.wait()
        except Exception as error:  # pylint: disable=broad-except
            self.errors.append(error)
            self.abort()

    def abort(self):
        """Nobody waits for the others any more."""
        self.all_have.abort()
        self.all_go.abort()

    def one_pass(self, number, there):
        kept, asked = [], 0
        while asked + matrix_bytes(len(kept)) <= self.part:
            kept.append(self.make.get(matrix_bytes(len(kept))))
            touch(kept[-1].tensor)
            asked += len(kept[-1].tensor)
        self.asked[number] = asked
        self.all_have.wait()
        self.all_go.wait()
        while kept:
            tensor = kept[-1].tensor
            there[:len(tensor)].copy_(tensor, non_blocking=True)
            del tensor
            kept.pop()


def layers(make, torch, options):
    make.trim()
    all_of = Layers(make, torch, options.gib * GIB // 2)
    threads = [threading.Thread(target=all_of.run, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    ratios = []
    try:
        for _ in range(PASSES):
            all_of.all_have.wait()
            ratios.append(make.held() / sum(all_of.asked))
            all_of.all_go.wait()
        all_of.all_have.wait()
    except threading.BrokenBarrierError as error:
        raise all_of.errors[0] from error
    finally:
        all_of.abort()
        for thread in threads:
            thread.join()
    make.trim()
    return {"eight threads, held over asked": ratios[0],
            f"the same in pass {PASSES}": ratios[-1]}


class Images:
    """Images of a batch have one size; no two batches one after the other have the same."""

    BATCH, BATCHES = 8, 600

    def __init__(self, torch):
        self.torch = torch

    def __len__(self):
        return self.BATCH * self.BATCHES

    def __getitem__(self, index):
        side = 128 + (index // self.BATCH) * 53 % 97
        return self.torch.full((3, side, side), float(index % 251))


class Loading:
    """The loader's epochs: the makes take turns, so that all see the same machine."""

    EPOCHS = 7

    def __init__(self, make, torch):
        self.make, self.torch, self.held, self.total = make, torch, 0, 0.0
        self.net = torch.nn.Conv2d(3, 16, 3, stride=2).cuda()

    def epoch(self):
        """Batches a second."""
        from torch.utils.data import DataLoader
        began, self.total, before = time.perf_counter(), 0.0, None
        for batch in DataLoader(Images(self.torch), batch_size=Images.BATCH, num_workers=4,
                                pin_memory=True):
            if not batch.is_pinned():
                raise ValueError("a batch is not pinned")
            self.held = max(self.held, self.make.held())
            there = batch.to("cuda", non_blocking=True)
            loss = self.net(there).square().mean()
            if before is not None:
                self.total += before.item()
            before = loss.detach() + there.double().sum()
        return Images.BATCHES / (time.perf_counter() - began)

    def serve(self):
        """An epoch for each line of the input; its number is printed."""
        self.epoch()
        print("ready", flush=True)
        for _ in sys.stdin:
            print(self.epoch(), flush=True)
        return {"its result": float(self.total), "DataLoader, held in MiB": self.held / MIB}


def loader(make, torch, _options):
    return Loading(make, torch).serve()


def day(make, torch, options):
    """Blocks go out until 1.2 to 2 GiB are there, and come back in an order of their own."""
    make.trim()
    draw = random.Random(7)
    there = torch.empty(24 * MIB, dtype=torch.uint8, device="cuda")
    out, back = torch.cuda.Stream(), torch.cuda.Stream()
    kept, live, live_most, held = [], 0, 0, []
    for cycle in range(options.cycles):
        full = 2 * GIB * (0.6 + 0.4 * abs((cycle % 3600) / 1800 - 1))
        for _ in range(draw.randrange(1, 4)):
            size = int(MIB / 4 * 96 ** draw.random())
            block = make.get(size)
            with torch.cuda.stream(out):
                block.tensor[:65536].copy_(there[:65536], non_blocking=True)
            kept.append(block)
            live += size
        while live > full:
            block = kept.pop(draw.randrange(len(kept)))
            live -= len(block.tensor)
            with torch.cuda.stream(back):
                there[:65536].copy_(block.tensor[:65536], non_blocking=True)
                del block
        live_most = max(live_most, live)
        if cycle % 64 == 0:
            out.synchronize()
            back.synchronize()
        if (cycle + 1) * 24 // options.cycles > len(held):
            held.append(make.held())
    kept.clear()
    make.trim()
    return {f"day, held over live, hour {hour}": held[hour - 1] / live_most for hour in (1, 12, 24)}


def days(make, torch, options):
    """A day, and for what moves one that is no slower than it looks."""
    if make.name != "mapped":
        return day(make, torch, options)
    import tenure
    tenure.configure("move_percent:100")
    found = day(make, torch, options)
    tenure.configure("move_percent:1")
    hurried = day(make, torch, options)
    found["day, no time to move, hour 24"] = hurried["day, held over live, hour 24"]
    return found


PARTS = dict(sizes=sizes, first=first, blocks=blocks, copies=copies, layers=layers, loader=loader,
             day=days)


# ---- one process, and all ------------------------------------------------------------------------


def run_one(options):
    if options.make == "slabs":
        os.environ["TENURE_CONF"] = "host:allocated"
    cases.environment("native")
    torch = cases.start("tenure" if options.make in OURS else "native")
    torch.zeros(1, device="cuda")
    found = dict(torch=torch.__version__, gpu=torch.cuda.get_device_name(), numbers={}, errors={})
    try:
        make = Pool(torch) if options.make == "pool" else Torchs(torch, options.make)
        make.name = options.make
    except OSError as error:
        found["errors"]["all"] = str(error)
        print(json.dumps(found), flush=True)
        return 0
    for name in options.only.split(","):
        began = time.perf_counter()
        try:
            found["numbers"].update(PARTS[name](make, torch, options))
        except Exception as error:  # pylint: disable=broad-except
            found["errors"][name] = f"{type(error).__name__}: {error}"
        print(f"{options.make} {name}: {time.perf_counter() - began:.1f} s", file=sys.stderr,
              flush=True)
    print(json.dumps(found), flush=True)
    return 0


def command_of(make, options, parts):
    return [sys.executable, "-B", os.path.abspath(__file__), make, "--gib", str(options.gib),
            "--cycles", str(options.cycles), "--only", ",".join(parts)]


def result_of(said, process):
    try:
        return json.loads(said.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return dict(numbers={}, errors={"all": f"ended with {process.returncode}"})


def run_parts(make, options, parts):
    """They have the machine for themselves."""
    try:
        ran = subprocess.run(command_of(make, options, parts), stdout=subprocess.PIPE, text=True,
                             timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return dict(numbers={}, errors={"all": f"took longer than {LIMIT_S} s"})
    return result_of(ran.stdout, ran)


def run_loaders(makes, options):
    """An epoch of each make after the other. The numbers by make."""
    workers = {make: subprocess.Popen(command_of(make, options, ["loader"]), text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
               for make in makes}
    rates = {make: [] for make in makes}
    ready = [worker.stdout.readline().strip() == "ready" for worker in workers.values()]
    for turn in range(Loading.EPOCHS if all(ready) else 0):
        for make in makes[turn % len(makes):] + makes[:turn % len(makes)]:
            with contextlib.suppress(OSError, ValueError):  # it ended, and says why
                workers[make].stdin.write("\n")
                workers[make].stdin.flush()
                rates[make].append(float(workers[make].stdout.readline()))
    found = {}
    for make, worker in workers.items():
        said, _ = worker.communicate()
        found[make] = result_of(said, worker)
        if rates[make]:
            found[make]["numbers"]["DataLoader, batches/s"] = statistics.median(rates[make])
    return found


def run_all(options, makes):
    parts = [part for part in options.only.split(",") if part != "loader"]
    found = {make: run_parts(make, options, parts) for make in makes if parts}
    with_torch = [make for make in makes if make != "pool"]
    if "loader" in options.only.split(","):
        for make, one in run_loaders(with_torch, options).items():
            known = found.setdefault(make, one)
            known["numbers"].update(one["numbers"])
            known["errors"].update(one["errors"])
    return found


def print_table(found):
    rows = list(dict.fromkeys(row for one in found.values() for row in one["numbers"]))
    print(f"\n{'':<42}" + "".join(f"{make:>12}" for make in found))
    for row in rows:
        cells = (one["numbers"].get(row) for one in found.values())
        print(f"{row:<42}" + "".join(f"{'' if cell is None else f'{cell:,.3f}':>12}"
                                     for cell in cells))
    print(flush=True)


def judge(check, found):
    for make, one in found.items():
        for part, error in one["errors"].items():
            check.that(make == "pool", f"{make}, {part}: {error}")
    native = found.get("torch", {}).get("numbers", {})
    for make in (make for make in OURS if make in found):
        has = found[make]["numbers"]
        most = {"a new block of 3 MiB, us": BLOCK_US_MAX}
        if make == "mapped":
            most |= {"eight threads, held over asked": HELD_MAX,
                     f"the same in pass {PASSES}": HELD_MAX}
        for row in (row for row in most if row in has):
            check.that(has[row] <= most[row], f"{make}: {row} {has[row]:.3f}, at most {most[row]}")
        for row in ("copies in, GB/s", "copies out, GB/s", "DataLoader, batches/s"):
            if row in has and row in native:
                check.that(has[row] >= SPEED_MIN * native[row],
                           f"{make}: {row} {has[row]:.1f} beside {native[row]:.1f}")
        if "its result" in has and "its result" in native:
            check.that(has["its result"] == native["its result"],
                       f"{make}: the loader's batches are the same")
        days_of = [has.get(f"day, held over live, hour {hour}") for hour in (1, 24)]
        if make == "mapped" and None not in days_of:
            check.that(days_of[1] <= GROWTH_MAX * days_of[0],
                       f"{make}: held over live in hour 1 {days_of[0]:.3f}, in hour 24 "
                       f"{days_of[1]:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("make", nargs="?", choices=MAKES)
    parser.add_argument("--gib", type=int, default=8)
    parser.add_argument("--cycles", type=int, default=86400, help="of a day")
    parser.add_argument("--only", default=",".join(PARTS), help="parts")
    parser.add_argument("--makes", default=",".join(MAKES))
    parser.add_argument("--json", metavar="FILE", help="where the results go")
    parser.add_argument("--commit", default="", help="what was measured, for the results")
    options = parser.parse_args()
    if set(options.only.split(",")) - set(PARTS) or set(options.makes.split(",")) - set(MAKES):
        parser.error(f"the parts are {', '.join(PARTS)}; the makes {', '.join(MAKES)}")
    if options.gib < 2 or options.cycles < 48:
        parser.error("at least 2 GiB, and 48 cycles")
    if options.make:
        return run_one(options)
    engines.require_torch()
    check = engines.Checks()
    found = run_all(options, options.makes.split(","))
    print_table(found)
    judge(check, found)
    if options.json:
        facts = dict(commit=options.commit, command="tests/gpu/host.sh", gib=options.gib,
                     cycles=options.cycles, makes=found)
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(facts, file, indent=1)
            file.write("\n")
    print(f"{check.failed} checks failed" if check.failed else "all checks passed")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
