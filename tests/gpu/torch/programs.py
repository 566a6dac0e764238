# SPDX-License-Identifier: Apache-2.0
"""programs.py [--allocator tenure|native] [--only REGEX] [--list] [--run NAME]

Everyday programs of PyTorch's users, each a function here and a process of its own. A program that
ends without an exception, with right results and no failed call of Tenure's, is good. With
`--allocator native` the same programs run on PyTorch's own allocator, to see that they are right.

Exit codes: 0 all are good; 1 not; 2 wrong usage; 77 there is no PyTorch or no GPU.
"""
import argparse
import ctypes
import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile

MIB = 1 << 20
OWNER = """
#include <stddef.h>
static int (*take)(unsigned long long *, size_t);
static int (*give)(unsigned long long);
int own_lives;
void own_use(void *a, void *b) { take = a; give = b; }
void *own_alloc(size_t bytes, int device, void *stream)
{
    unsigned long long at = 0;
    own_lives++;
    return take(&at, bytes) == 0 ? (void *)at : NULL;
}
void own_free(void *ptr, size_t bytes, int device, void *stream)
{
    own_lives--;
    give((unsigned long long)ptr);
}
"""
SECONDS_MAX = 300
programs = {}


def program(function):
    programs[function.__name__] = function
    return function


class Skipped(Exception):
    """This machine lacks something."""


def must(good, what):
    if not good:
        raise AssertionError(f"not so: {what}")


def must_be(found, wanted, what):
    must(found == wanted, f"{what}: {found!r}, not {wanted!r}")


def blocks_of(shot):
    """Of each live block its address and its frames."""
    for segment in shot["segments"]:
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                yield block["address"], block.get("frames", [])


# ---- memory ------------------------------------------------------------------------------------


@program
def statistics(torch):
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    x = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
    must_be(torch.cuda.memory_allocated() - before, 100 * MIB, "allocated")
    del x
    must_be(torch.cuda.max_memory_allocated() - before, 100 * MIB, "the peak")
    must("Allocated memory" in torch.cuda.memory_summary(), "the summary has its title")
    torch.cuda.reset_accumulated_memory_stats()
    must_be(torch.cuda.memory_stats()["allocation.all.allocated"], 0, "allocations after a reset")
    torch.cuda.empty_cache()
    must(torch.cuda.memory_reserved() < 100 * MIB, "empty_cache gives memory back")


@program
def accelerator(torch):
    if not hasattr(torch.accelerator, "memory_allocated"):
        raise Skipped("this PyTorch has no torch.accelerator.memory_allocated")
    before = torch.accelerator.memory_allocated()
    x = torch.empty(10 * MIB, dtype=torch.uint8, device="cuda")
    must_be(torch.accelerator.memory_allocated() - before, 10 * MIB, "allocated")
    must(torch.accelerator.memory_reserved() >= 10 * MIB, "it is reserved")
    must(torch.accelerator.max_memory_allocated() >= 10 * MIB, "the peak has it")
    torch.accelerator.reset_peak_memory_stats()
    must(torch.accelerator.memory_stats()["allocation.all.current"] >= 1, "it is counted")
    del x
    torch.accelerator.empty_cache()


@program
def out_of_memory(torch):
    told = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *facts: told.append(facts))
    torch.cuda.set_per_process_memory_fraction(0.05)
    fraction = torch.cuda.get_per_process_memory_fraction()
    must(abs(fraction - 0.05) < 1e-6, f"the fraction is {fraction!r} after it was set to 0.05")
    try:
        torch.empty(64 << 30, dtype=torch.uint8, device="cuda")
        raise AssertionError("64 GiB were served")
    except torch.OutOfMemoryError as error:
        for words in ("CUDA out of memory", "Tried to allocate 64.00 GiB",
                      "has a total capacity of"):
            must(words in str(error), f"\"{words}\" is in the text: {error}")
    must(len(told) == 1 and told[0][0] == 0, f"the observer is called once: {told}")
    torch.cuda.set_per_process_memory_fraction(1.0)
    must_be(float(torch.ones(1000, device="cuda").sum()), 1000, "a sum after it")


@program
def record_stream(torch):
    side = torch.cuda.Stream()
    x = torch.ones(64 * MIB, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(100_000_000)
        y = x * 2
    x.record_stream(side)
    del x
    z = torch.zeros(64 * MIB, device="cuda")
    side.synchronize()
    must_be(float(y.sum()), 2 * 64 * MIB, "what the side stream read")
    must_be(float(z.sum()), 0, "what the other wrote")


@program
def cache_switched_off(torch):
    torch.cuda.caching_allocator_enable(False)
    x = torch.ones(MIB, device="cuda")
    torch.cuda.caching_allocator_enable(True)
    y = torch.ones(MIB, device="cuda")
    must_be(float((x + y).sum()), 2 * MIB, "a sum of both")
    del x, y


@program
def cudnn_benchmark(torch):
    torch.backends.cudnn.benchmark = True
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 7, 2, 3), torch.nn.ReLU(),
                              torch.nn.Conv2d(64, 128, 3, 1, 1)).cuda()
    for size in (64, 96, 128):
        net(torch.randn(8, 3, size, size, device="cuda")).sum().backward()
    torch.cuda.synchronize()


@program
def peer_copies(torch):
    if torch.cuda.device_count() < 2:
        raise Skipped("there is one GPU")
    x = torch.arange(MIB, device="cuda:0")
    y = x.to("cuda:1", non_blocking=True)
    z = (y + 1).to("cuda:0")
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    must(bool((z == x + 1).all()), "there and back is the same")


# ---- seeing ------------------------------------------------------------------------------------


@program
def memory_history(torch):
    torch.cuda.memory._record_memory_history(context="all", stacks="python", max_entries=1000)
    x = torch.ones(MIB, device="cuda")
    torch.ones(2 * MIB, device="cuda")
    shot = torch.cuda.memory._snapshot()
    frames = dict(blocks_of(shot))[x.data_ptr()]
    must(any(frame["name"] == "memory_history" for frame in frames), f"this is in {frames}")
    actions = [entry["action"] for entry in shot["device_traces"][0]]
    must("alloc" in actions and "free_completed" in actions, f"both are in {actions}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "shot.pickle")
        torch.cuda.memory._dump_snapshot(path)
        must(os.path.getsize(path) > 1000, "the snapshot is written")
    torch.cuda.memory._record_memory_history(enabled=None)


@program
def memory_history_everything(torch):
    torch.cuda.memory._record_memory_history(context="all", stacks="all",
                                             skip_actions=["free_requested"])
    if hasattr(torch.cuda.memory, "_set_memory_metadata"):
        torch.cuda.memory._set_memory_metadata("step 1")
    x = torch.ones(MIB, device="cuda")
    shot = torch.cuda.memory._snapshot()
    trace = shot["device_traces"][0]
    must(all(entry["action"] != "free_requested" for entry in trace), f"skipped in {trace}")
    if hasattr(torch.cuda.memory, "_set_memory_metadata"):
        must(any(entry["user_metadata"] == "step 1" for entry in trace), f"metadata in {trace}")
    torch.cuda.memory._record_memory_history(enabled=None)
    del x


@program
def memory_plots(torch):
    from torch.cuda._memory_viz import segment_plot, segsum, trace, trace_plot
    torch.cuda.memory._record_memory_history(context="all", stacks="python")
    kept = [torch.ones(MIB * (1 + i % 3), device="cuda") for i in range(20)]
    del kept[::2]
    shot = torch.cuda.memory._snapshot()
    for plot in (segsum, trace, trace_plot, segment_plot):
        must(len(plot(shot)) > 100, f"{plot.__name__} draws something")


@program
def memory_profiler(torch):
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
                 profile_memory=True) as of:
        torch.ones(MIB, device="cuda").sum()
    table = of.key_averages()
    must(any(getattr(row, "device_memory_usage", 0) > 0 for row in table), f"memory in {table}")


# ---- pools and graphs --------------------------------------------------------------------------


@program
def mempool(torch):
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.ones(10 * MIB, device="cuda")
    y = torch.ones(MIB, device="cuda")
    must_be(pool.use_count(), 1, "uses of the pool")
    inside = {address for segment in pool.snapshot() for address in
              [block["address"] for block in segment["blocks"]
               if block["state"] == "active_allocated"]}
    must(x.data_ptr() in inside and y.data_ptr() not in inside, f"x alone is in {inside}")
    del x
    del pool
    gc.collect()
    torch.cuda.empty_cache()


@program
def mempool_of_another(torch):
    """A pool over memory of a pluggable allocator, which has it of the CUDA runtime."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise Skipped("there is no C compiler")
    with tempfile.TemporaryDirectory() as folder:
        source, library = os.path.join(folder, "own.c"), os.path.join(folder, "own.so")
        with open(source, "w", encoding="utf-8") as file:
            file.write(OWNER)
        subprocess.run([compiler, "-fPIC", "-shared", source, "-o", library], check=True)
        own = ctypes.CDLL(library)
        driver = ctypes.CDLL("libcuda.so.1")
        own.own_use(driver.cuMemAlloc_v2, driver.cuMemFree_v2)
        plugged = torch.cuda.memory.CUDAPluggableAllocator(library, "own_alloc", "own_free")
        lives = ctypes.c_int.in_dll(own, "own_lives")
        pool = torch.cuda.MemPool(plugged.allocator())
        with torch.cuda.use_mem_pool(pool):
            x = torch.ones(MIB, device="cuda")
            y = x * 2
        must_be(lives.value, 1, "segments that serve both")
        must_be(float(y.sum()), 2 * MIB, "a sum in it")
        del pool, x
        must_be(lives.value, 1, "segments while a tensor lives")
        del y
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        must_be(lives.value, 0, "segments afterwards")


@program
def mempool_nested(torch):
    outer, inner = torch.cuda.MemPool(), torch.cuda.MemPool(use_on_oom=True)
    with torch.cuda.use_mem_pool(outer):
        x = torch.ones(MIB, device="cuda")
        with torch.cuda.use_mem_pool(inner):
            y = torch.ones(MIB, device="cuda")
        z = torch.ones(MIB, device="cuda")
    of = [{block["address"] for segment in pool.snapshot() for block in segment["blocks"]
           if block["state"] == "active_allocated"} for pool in (outer, inner)]
    must({x.data_ptr(), z.data_ptr()} <= of[0] and y.data_ptr() in of[1], f"each in its pool: {of}")


@program
def graphs(torch):
    x = torch.ones(MIB, device="cuda")
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(first):
        y = x * 3 + 1
    with torch.cuda.graph(second, pool=first.pool()):
        z = y * 2 - 1
    first.replay()
    second.replay()
    torch.cuda.synchronize()
    must_be(float(z.sum()), 7 * MIB, "what two graphs make")


@program
def failed_captures(torch):
    """Nothing is said, and nothing is kept. PyTorch's own allocator keeps the memory."""
    x = torch.ones(MIB, device="cuda")
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    for step in range(12):
        graph, t = torch.cuda.CUDAGraph(), None
        try:
            with torch.cuda.graph(graph):
                t = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
                if step % 3 == 0:
                    raise KeyError("the program's own")
                if step % 3 == 1:
                    x.sum().item()
                torch.cuda.synchronize()
        except (KeyError, RuntimeError):
            pass
        del t, graph
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    if "tenure.torch" in sys.modules:
        kept = torch.cuda.memory_reserved() - before
        must(kept < 64 * MIB, f"{kept >> 20} MiB are kept")
    must_be(float((x + 1).sum()), 2 * MIB, "a sum afterwards")


def compiled_net(torch, mode):
    """A net that is compiled learns what one that is not learns."""
    def train(net):
        torch.manual_seed(1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        losses = []
        for step in range(12):
            if mode == "reduce-overhead":
                torch.compiler.cudagraph_mark_step_begin()
            x = torch.randn(64, 256, device="cuda")
            loss = net(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
        return losses

    def make():
        torch.manual_seed(7)
        return torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(),
                                   torch.nn.Linear(512, 256)).cuda()

    plain, compiled = train(make()), train(torch.compile(make(), mode=mode))
    must(all(abs(a - b) < 1e-3 for a, b in zip(plain, compiled)), f"{plain} is {compiled}")


@program
def compile_default(torch):
    compiled_net(torch, "default")


@program
def compile_reduce_overhead(torch):
    compiled_net(torch, "reduce-overhead")


@program
def cudagraph_trees(torch):
    """Two functions, paths that branch, outputs that live on: checkpoints are restored."""
    @torch.compile(mode="reduce-overhead")
    def first(x):
        return x * 2 + 1

    @torch.compile(mode="reduce-overhead")
    def second(x):
        return torch.nn.functional.gelu(x) @ x.T

    with torch.no_grad():
        for step in range(12):
            torch.compiler.cudagraph_mark_step_begin()
            x = torch.full((256, 256), float(step), device="cuda")
            y = first(x)
            z = second(y) if step % 3 else first(y)
            expected = (x * 2 + 1)
            expected = (torch.nn.functional.gelu(expected) @ expected.T if step % 3
                        else expected * 2 + 1)
            must(torch.allclose(z, expected, rtol=1e-3), f"step {step} is right")
            kept = z.clone()
            del y, z
        must_be(tuple(kept.shape), (256, 256), "the shape of what is kept")


def sharing_child(with_tenure, incoming, outgoing):
    """The other process of shared_tensors: adds 1 to each tensor that it is sent."""
    import torch
    if with_tenure:
        import tenure.torch
        tenure.torch.install(strict=True, native=True)
    for _ in range(3):
        tensor = incoming.get()
        tensor += 1
        torch.cuda.synchronize()
        outgoing.put(tensor.data_ptr())
        del tensor
    outgoing.put(torch.ones(MIB, device="cuda"))
    incoming.get()  # what was sent is open there


@program
def shared_tensors(torch):
    """torch.multiprocessing, both ways; parts of a block, and the same one again."""
    import torch.multiprocessing
    context = torch.multiprocessing.get_context("spawn")
    there, back = context.Queue(), context.Queue()
    with_tenure = "tenure.torch" in sys.modules
    child = context.Process(target=sharing_child, args=(with_tenure, there, back))
    child.start()
    x = torch.zeros(4 * MIB, device="cuda")
    small = torch.zeros(10, device="cuda")
    for part in (x[MIB:], x[MIB:], small):
        there.put(part)
        back.get(timeout=SECONDS_MAX)
    torch.cuda.synchronize()
    must_be(float(x.sum()), 2.0 * 3 * MIB, "what the child added")
    must_be(float(small.sum()), 10.0, "to a small one")
    y = back.get(timeout=SECONDS_MAX)
    must_be(float(y.sum()), float(MIB), "what the child sent")
    del y
    torch.cuda.ipc_collect()
    there.put("done")
    child.join(SECONDS_MAX)
    must_be(child.exitcode, 0, "the child's exit code")


# ---- running them ------------------------------------------------------------------------------


def run_one(name, allocator):
    """In this process. Returns its exit code."""
    import torch
    if allocator == "tenure":
        import tenure.torch
        tenure.torch.install(strict=True, native=True)
    try:
        programs[name](torch)
        torch.cuda.synchronize()
    except Skipped as why:
        print(why)
        return 77
    if allocator == "tenure":
        gc.collect()
        tenure._library.call("tnr_validate", -1)
        failures = tenure.torch.failures()
        if failures > (1 if name == "out_of_memory" else 0):
            print(f"{failures} calls of Tenure failed")
            return 1
    return 0


def run_apart(name, allocator):
    """In a process of its own. Prints its line; returns 1 if it is not good."""
    command = [sys.executable, "-B", os.path.abspath(__file__), "--allocator", allocator, "--run",
               name]
    try:
        run = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             timeout=SECONDS_MAX)
        code, said = run.returncode, run.stdout.strip()
    except subprocess.TimeoutExpired:
        code, said = 1, f"it took more than {SECONDS_MAX} s"
    word = {0: "ok     ", 77: "skipped"}.get(code, "FAILED ")
    last = said.splitlines()[-1] if said else ""
    print(f"{word} {name}{'' if code == 0 else ': ' + last}", flush=True)
    if code not in (0, 77):
        print("\n".join("        " + line for line in said.splitlines()[-25:]), flush=True)
    return int(code not in (0, 77))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--allocator", choices=["tenure", "native"], default="tenure")
    parser.add_argument("--only", default="", help="programs whose names match")
    parser.add_argument("--list", action="store_true", help="their names")
    parser.add_argument("--run", choices=sorted(programs), help="one, in this process")
    options = parser.parse_args()
    if options.run:
        return run_one(options.run, options.allocator)
    names = [name for name in programs if re.search(options.only, name)]
    if options.list:
        print("\n".join(names))
        return 0
    check = subprocess.run([sys.executable, "-c", "import sys, torch\n"
                            "sys.exit(0 if torch.cuda.is_available() else 77)"],
                           stderr=subprocess.DEVNULL)
    if check.returncode != 0:
        print("skipped: there is no PyTorch, or it finds no GPU")
        return 77
    failed = sum(run_apart(name, options.allocator) for name in names)
    print(f"{len(names)} programs, {failed} not good")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
