# SPDX-License-Identifier: Apache-2.0
"""programs.py [--allocator tenure|native] [--only REGEX] [--list] [--run NAME]

Everyday programs of PyTorch's users, each a function here and a process of its own. A program that
ends without an exception, with right results and no failed call of Tenure's, is good. With
`--allocator native` the same programs run on PyTorch's own allocator, to see that they are right.

Exit codes: 0 all are good; 1 not; 2 wrong usage; 77 there is no PyTorch or no GPU.
"""
import argparse
import gc
import os
import re
import subprocess
import sys
import tempfile

MIB = 1 << 20
SECONDS_MAX = 300
programs = {}


def program(function):
    programs[function.__name__] = function
    return function


class Skipped(Exception):
    """This machine lacks something."""


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
    assert torch.cuda.memory_allocated() - before == 100 * MIB
    del x
    assert torch.cuda.max_memory_allocated() - before == 100 * MIB
    assert "Allocated memory" in torch.cuda.memory_summary()
    torch.cuda.reset_accumulated_memory_stats()
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == 0
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < 100 * MIB


@program
def accelerator(torch):
    if not hasattr(torch.accelerator, "memory_allocated"):
        raise Skipped("this PyTorch has no torch.accelerator.memory_allocated")
    before = torch.accelerator.memory_allocated()
    x = torch.empty(10 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.accelerator.memory_allocated() - before == 10 * MIB
    assert torch.accelerator.memory_reserved() >= 10 * MIB
    assert torch.accelerator.max_memory_allocated() >= 10 * MIB
    torch.accelerator.reset_peak_memory_stats()
    assert torch.accelerator.memory_stats()["allocation.all.current"] >= 1
    del x
    torch.accelerator.empty_cache()


@program
def out_of_memory(torch):
    told = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *facts: told.append(facts))
    torch.cuda.set_per_process_memory_fraction(0.05)
    assert abs(torch.cuda.get_per_process_memory_fraction() - 0.05) < 1e-6
    try:
        torch.empty(64 << 30, dtype=torch.uint8, device="cuda")
        raise AssertionError("64 GiB were served")
    except torch.OutOfMemoryError as error:
        for words in ("CUDA out of memory", "Tried to allocate 64.00 GiB",
                      "has a total capacity of"):
            assert words in str(error), error
    assert len(told) == 1 and told[0][0] == 0, told
    torch.cuda.set_per_process_memory_fraction(1.0)
    assert float(torch.ones(1000, device="cuda").sum()) == 1000


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
    assert float(y.sum()) == 2 * 64 * MIB and float(z.sum()) == 0


@program
def cache_switched_off(torch):
    torch.cuda.caching_allocator_enable(False)
    x = torch.ones(MIB, device="cuda")
    torch.cuda.caching_allocator_enable(True)
    y = torch.ones(MIB, device="cuda")
    assert float((x + y).sum()) == 2 * MIB
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
    assert bool((z == x + 1).all())


# ---- seeing ------------------------------------------------------------------------------------


@program
def memory_history(torch):
    torch.cuda.memory._record_memory_history(context="all", stacks="python", max_entries=1000)
    x = torch.ones(MIB, device="cuda")
    torch.ones(2 * MIB, device="cuda")
    shot = torch.cuda.memory._snapshot()
    frames = dict(blocks_of(shot))[x.data_ptr()]
    assert any(frame["name"] == "memory_history" for frame in frames), frames
    actions = [entry["action"] for entry in shot["device_traces"][0]]
    assert "alloc" in actions and "free_completed" in actions, actions
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "shot.pickle")
        torch.cuda.memory._dump_snapshot(path)
        assert os.path.getsize(path) > 1000
    torch.cuda.memory._record_memory_history(enabled=None)


@program
def memory_history_everything(torch):
    torch.cuda.memory._record_memory_history(context="all", stacks="all",
                                             skip_actions=["free_requested"])
    if hasattr(torch.cuda.memory, "_set_memory_metadata"):
        torch.cuda.memory._set_memory_metadata("step 1")
    x = torch.ones(MIB, device="cuda")
    shot = torch.cuda.memory._snapshot()
    assert all(entry["action"] != "free_requested" for entry in shot["device_traces"][0])
    if hasattr(torch.cuda.memory, "_set_memory_metadata"):
        assert any(entry["user_metadata"] == "step 1" for entry in shot["device_traces"][0])
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
        assert len(plot(shot)) > 100, plot.__name__


@program
def memory_profiler(torch):
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
                 profile_memory=True) as of:
        torch.ones(MIB, device="cuda").sum()
    table = of.key_averages()
    assert any(getattr(row, "device_memory_usage", 0) > 0 for row in table)


# ---- pools and graphs --------------------------------------------------------------------------


@program
def mempool(torch):
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.ones(10 * MIB, device="cuda")
    y = torch.ones(MIB, device="cuda")
    assert pool.use_count() == 1
    inside = {address for segment in pool.snapshot() for address in
              [block["address"] for block in segment["blocks"]
               if block["state"] == "active_allocated"]}
    assert x.data_ptr() in inside and y.data_ptr() not in inside, inside
    del x
    del pool
    gc.collect()
    torch.cuda.empty_cache()


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
    assert {x.data_ptr(), z.data_ptr()} <= of[0] and y.data_ptr() in of[1]


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
    assert float(z.sum()) == 7 * MIB


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
    assert all(abs(a - b) < 1e-3 for a, b in zip(plain, compiled)), (plain, compiled)


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
            assert torch.allclose(z, expected, rtol=1e-3), step
            kept = z.clone()
            del y, z
        assert kept.shape == (256, 256)


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
