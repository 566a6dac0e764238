#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""slow.py [--cases A,B] [--rounds N] [--json FILE] [--commit TEXT]
slow.py CASE ALLOCATOR [--steps N] [--serve]

Programs whose time goes into giving memory back and taking it again, or into requests that cannot
be served: what they take beside PyTorch's own allocator. Each case runs in a process with PyTorch's
own allocator (native), in one with its expandable segments (expandable), in one that calls
tenure.torch.install (tenure), and in one that is started with `python3 -m tenure.torch run` and
knows nothing of Tenure (run). The processes live side by side and take turns, an epoch each, so
that all see the same machine. Results are the same bit by bit; a step takes at most 1.1 of the
native time. A table at the end has the ratio of each with its 95 % interval over the rounds, and
what a step of the last round asked of the driver: calls, and microseconds, by kind.

  graph_loop   a small model is captured into a graph, which is replayed three times and dropped
  empty_cache  a training step of a small transformer, and torch.cuda.empty_cache() after it
  bisect       after an out-of-memory, the largest tensor that fits is looked for by bisection
  offload      a forward pass with the weights in host memory (accelerate's cpu_offload, or hooks
               of the same shape)
  sampling     neighbours of nodes of a graph are sampled, and a step trains on them: no two steps
               have the same sizes

Exit codes: 0 all holds; 1 not; 2 wrong usage; 77 there is no PyTorch or no GPU.
"""
import argparse
import contextlib
import json
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "engines"))
sys.path.insert(0, HERE)

import cases  # noqa: E402
import shown  # noqa: E402

ALLOCATORS = ("native", "expandable", "tenure", "run")
JUDGED = ("tenure", "run")  # of those, whose time may be RATIO_MAX
WARM_UP, EPOCHS = 2, 5
RATIO_MAX = 1.1
MIB = 1 << 20


# ---- the cases: each returns a function that runs one step and returns a number ------------------


def graph_loop(torch):
    model = torch.nn.Sequential(*(part for _ in range(12) for part in (
        torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)))).cuda().eval()
    x = torch.randn(256, 512, device="cuda")
    with torch.no_grad():
        model(x)  # what cuBLAS makes at first cannot be captured

    def step():
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            y = model(x)
        for _ in range(3):
            graph.replay()
        result = y.double().sum().item()
        del y  # before the graph: nothing of the pool is live when PyTorch releases it
        return result

    return step


def empty_cache(torch):
    """No size is a power of two, or a multiple of a large one."""
    width = 520

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
            self.parts = torch.nn.ModuleList((
                torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width),
                torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)))

        def forward(self, x):
            heads = self.parts[0](self.norms[0](x)).view(*x.shape[:2], 3, 8, width // 8)
            q, k, v = heads.transpose(1, 3).unbind(2)
            mixed = (q @ k.transpose(-1, -2) / 8).softmax(-1) @ v
            x = x + self.parts[1](mixed.transpose(1, 2).reshape(x.shape))
            return x + self.parts[3](self.parts[2](self.norms[1](x)).relu())

    model = torch.nn.Sequential(*(Block() for _ in range(6))).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    x = torch.randn(13, 197, width, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        torch.cuda.empty_cache()
        return loss.item()

    return step


class Bisect:
    """Of an epoch the device is full, but for some GiB."""

    FREE_GIB = 4

    def __init__(self, torch):
        self.torch, self.kept = torch, []

    def fits(self, size):
        try:
            return self.torch.empty(size, dtype=self.torch.uint8, device="cuda")
        except self.torch.OutOfMemoryError:
            return None

    def __enter__(self):
        while (one := self.fits(1024 * MIB)) is not None:
            self.kept.append(one)
        del self.kept[-self.FREE_GIB:]
        self.torch.cuda.empty_cache()

    def __exit__(self, *_):
        self.kept.clear()
        self.torch.cuda.empty_cache()

    def __call__(self):
        low, high = 0, 2 * self.FREE_GIB * 1024 * MIB
        while high - low > MIB:
            middle = (low + high) // 2
            low, high = (middle, high) if self.fits(middle) is not None else (low, middle)
        self.torch.cuda.empty_cache()
        return float(low >= self.FREE_GIB * 1024 * MIB)


def bisect(torch):
    return Bisect(torch)


def offloaded(torch, model):
    """The same shape by hand: each layer's weights come before it runs, and go after it."""
    def bring(layer, _given):
        layer.kept = dict(layer.named_parameters(recurse=False))
        for name, value in layer.kept.items():
            setattr(layer, name, torch.nn.Parameter(value.to("cuda"), requires_grad=False))
            torch.cuda.empty_cache()

    def leave(layer, _given, _made):
        for name, value in layer.kept.items():
            setattr(layer, name, value)

    for layer in model.modules():
        if any(True for _ in layer.parameters(recurse=False)):
            layer.register_forward_pre_hook(bring)
            layer.register_forward_hook(leave)
    return model


def offload(torch):
    model = torch.nn.Sequential(*(part for _ in range(12) for part in (
        torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)))).eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    try:
        from accelerate import cpu_offload
        model = cpu_offload(model, execution_device=0)
    except ImportError:
        model = offloaded(torch, model)
    x = torch.randn(512, 1024, device="cuda")

    def step():
        with torch.no_grad():
            return model(x).double().sum().item()

    return step


class Sampled:
    """A graph of random edges, 16 from each node, and a net of two layers on what is sampled."""

    NODES, EDGES, WIDTH = 1_000_000, 16, 256

    def __init__(self, torch):
        self.torch = torch
        self.edges = torch.randint(self.NODES, (self.NODES, self.EDGES), device="cuda")
        self.features = torch.randn(self.NODES, self.WIDTH, device="cuda")
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(2 * self.WIDTH, self.WIDTH) for _ in range(2)).cuda()
        self.optimizer = torch.optim.SGD(self.layers.parameters(), lr=0.01)

    def neighbours(self, nodes, count):
        """Some edges of the nodes, and all nodes at either end of one."""
        torch = self.torch
        columns = torch.randint(self.EDGES, (len(nodes), count), device="cuda")
        ends = self.edges[nodes].gather(1, columns)
        found, where = torch.unique(torch.cat([nodes, ends.flatten()]), return_inverse=True)
        return found, where[:len(nodes)], where[len(nodes):].view(len(nodes), count)

    def step(self, seeds):
        torch = self.torch
        hops, nodes = [], torch.randperm(self.NODES, device="cuda")[:seeds]
        for count in (10, 10):
            nodes, own, ends = self.neighbours(nodes, count)
            hops.append((own, ends))
        x = self.features[nodes]
        for layer, (own, ends) in zip(self.layers, reversed(hops)):
            x = layer(torch.cat([x[own], x[ends.flatten()].view(*ends.shape, -1).mean(1)], 1))
            x = x.relu()
        loss = x.square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def sampling(torch):
    sampled, steps = Sampled(torch), [0]

    def step():
        steps[0] += 1
        return sampled.step(3000 + (steps[0] * 379) % 1021)

    return step


# Steps of an epoch: some tenths of a second. The sampler's sizes never come again, so moves have no
# end but their budget's: its epoch is longer than the burst that a pause between two gives back.
CASES = {graph_loop: 15, empty_cache: 30, bisect: 3, offload: 3, sampling: 150}
NAMES = {case.__name__: case for case in CASES}


# ---- one process ---------------------------------------------------------------------------------


def asked(torch, allocator):
    """What the driver has been asked so far. Of Tenure: calls and nanoseconds by kind; of PyTorch's
    own: segments made and given back, requests tried again, waits for all streams."""
    if allocator not in JUDGED:
        known = torch.cuda.memory_stats()
        return {key: known.get(key, 0) for key in (
            "num_device_alloc", "num_device_free", "num_alloc_retries", "num_sync_all_streams")}
    import tenure
    return {key: value for key, value in tenure.stats().items() if key.startswith("driver_")}


class Running:
    """A case under way."""

    def __init__(self, case, allocator, steps):
        cases.environment(allocator)
        self.torch, self.allocator = cases.start(allocator), allocator
        self.steps = steps or CASES[NAMES[case]]
        with cases.turn(True):
            self.step = NAMES[case](self.torch)
        self.results, self.asked = [], {}

    def epoch(self):
        """Runs one, while no other process does; returns its seconds."""
        with cases.turn(True), contextlib.ExitStack() as stack:
            if hasattr(self.step, "__enter__"):
                stack.enter_context(self.step)
            return self.timed()

    def timed(self):
        torch = self.torch
        before = asked(torch, self.allocator)
        torch.cuda.synchronize()
        began = time.perf_counter()
        self.results += [self.step() for _ in range(self.steps)]
        torch.cuda.synchronize()
        seconds = time.perf_counter() - began
        after = asked(torch, self.allocator)
        self.asked = {key: (after[key] - before[key]) / self.steps for key in after}
        return seconds

    def result(self):
        torch = self.torch
        result = dict(results=[float(one).hex() for one in self.results], steps=self.steps,
                      peak_reserved_bytes=torch.cuda.max_memory_reserved(),
                      peak_allocated_bytes=torch.cuda.max_memory_allocated(),
                      torch=torch.__version__, gpu=torch.cuda.get_device_name(), asked=self.asked)
        if self.allocator in JUDGED:
            import tenure.torch
            tenure._library.call("tnr_validate", -1)
            result["failures"] = tenure.torch.failures()
        return result


def run_one(options):
    if options.allocator == "run" and not options.under:
        os.execv(sys.executable, [sys.executable, "-m", "tenure.torch", "run", "-B",
                                  os.path.abspath(__file__), *sys.argv[1:], "--under"])
    running = Running(options.case, options.allocator, options.steps)
    for _ in range(WARM_UP):
        seconds = running.epoch()
    if options.serve:
        print("ready", flush=True)
        for _ in sys.stdin:
            print(running.epoch(), flush=True)
    else:
        print(f"{1e3 * seconds / running.steps:.2f} ms a step", flush=True)
    print(json.dumps(running.result()), flush=True)
    return 0


# ---- all, in turns -------------------------------------------------------------------------------


def intervals(times, native):
    """The 95 % interval of the ratio of two epochs of one round; with one round there is none."""
    if len(times) < 2:
        return None
    return shown.interval([ours / theirs for ours, theirs in zip(times, native)])[1:]


def asked_in_short(asked_of_step):
    """`create 4 (122 us), map 4 (16 us)`: what is not 0, those that took longest first."""
    known = {}
    for key, value in asked_of_step.items():
        known.setdefault(key.split(".")[-1], {})[key.split(".")[0]] = value
    kinds = sorted((-of.get("driver_ns", 0), kind, of) for kind, of in known.items())
    return ", ".join(
        f"{kind} {of.get('driver_calls', of.get(kind, 0)):.1f}" +
        (f" ({of['driver_ns'] / 1e3:.0f} us)" if "driver_ns" in of else "")
        for _, kind, of in kinds if any(of.values()))


def print_table(found):
    print(f"\n{'program':<12} {'allocator':<11} {'ms':>8} {'ratio':>6}  {'95 %':<14} "
          f"{'GiB':>7}  asked of the driver in a step")
    for name, case in found["cases"].items():
        for allocator, ms in (case or {}).get("ms", {}).items():
            ratio = case["ratios"].get(allocator)
            between = case["intervals"].get(allocator)
            print(f"{name:<12} {allocator:<11} {ms:8.2f} {ratio and f'{ratio:.3f}' or '':>6}  "
                  f"{between and '{:.3f} to {:.3f}'.format(*between) or '':<14} "
                  f"{case['peak_reserved_bytes'][allocator] / 1024 / MIB:7.2f}  "
                  f"{asked_in_short(case['asked'][allocator])}")


def show_case(check, case, workers, options):
    times = {name: [] for name in workers}
    is_ready = [worker.is_ready() for worker in workers.values()]
    names = list(workers)
    for turn in range(options.rounds if all(is_ready) else 0):
        for i in range(len(names)):
            name = names[(turn + i) % len(names)]
            times[name].append(workers[name].epoch())
    results = {name: worker.end() for name, worker in workers.items()}
    if None in results.values() or not all(is_ready) or any(None in of for of in times.values()):
        check.that(False, f"{case} runs with every allocator")
        return None
    steps = results["native"]["steps"]
    ms = {name: 1e3 * statistics.median(of) / steps for name, of in times.items()}
    check.that(len({tuple(one["results"]) for one in results.values()}) == 1,
               f"{case}: the results are the same bit by bit")
    reserved = {name: one["peak_reserved_bytes"] for name, one in results.items()}
    ratios = {name: ms[name] / ms["native"] for name in names[1:]}
    for name in (name for name in JUDGED if name in ratios):
        check.that(ratios[name] <= RATIO_MAX, f"{case}: {ms[name]:.2f} ms a step ({name}), native "
                                              f"{ms['native']:.2f}: {ratios[name]:.3f}; reserved "
                                              f"{reserved[name] / MIB:.0f} MiB, native "
                                              f"{reserved['native'] / MIB:.0f}")
    return dict(ms=ms, ratios=ratios, peak_reserved_bytes=reserved, epoch_seconds=times,
                intervals={name: intervals(times[name], times["native"]) for name in ratios},
                steps=steps, asked={name: one["asked"] for name, one in results.items()},
                peak_allocated_bytes={name: one["peak_allocated_bytes"]
                                      for name, one in results.items()},
                failures={name: one.get("failures", 0) for name, one in results.items()},
                gpu=results["native"]["gpu"], torch=results["native"]["torch"])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="?", choices=NAMES)
    parser.add_argument("allocator", nargs="?", choices=ALLOCATORS)
    parser.add_argument("--steps", type=int, default=0, help="of an epoch; 0: the case's own")
    parser.add_argument("--serve", action="store_true", help="an epoch for each line of input")
    parser.add_argument("--under", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--cases", default=",".join(NAMES))
    parser.add_argument("--allocators", default=",".join(ALLOCATORS), help="native first")
    parser.add_argument("--rounds", type=int, default=EPOCHS)
    parser.add_argument("--json", metavar="FILE", help="where the results go")
    parser.add_argument("--commit", default="", help="what was measured, for the results")
    options = parser.parse_args()
    if options.case:
        return run_one(options)
    names = options.cases.split(",")
    if set(names) - set(NAMES):
        parser.error(f"the cases are {', '.join(NAMES)}")
    shown.engines.require_torch()
    shown.Worker.PROGRAM = os.path.abspath(__file__)
    check = shown.engines.Checks()
    print(f"       processors: {shown.near_the_gpu() or 'any'}", flush=True)
    found = dict(commit=options.commit, command="tests/gpu/torch.sh slow", cases={})
    workers = {name: {allocator: shown.Worker(name, allocator, options.steps)
                      for allocator in options.allocators.split(",")} for name in names}
    for name in names:
        found["cases"][name] = show_case(check, name, workers[name], options)
        shown.write(options.json, found)
    print_table(found)
    print(f"{check.failed} checks failed" if check.failed else "all checks passed")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
