# SPDX-License-Identifier: Apache-2.0
"""cases.py CASE ALLOCATOR [--steps N] [--serve]: one workload, in a process of its own.

A case whose name ends with _ddp or _fsdp2 is two processes, with a GPU for each: the one that was
started starts the other, and tells it of each epoch. What is printed has the losses of both, and
the peaks of the one that reserved more.

Prints one line of JSON: losses bit by bit, time, peaks. The allocator is `native`, `expandable`,
`tenure`, or `tenure_plain` (Tenure without the part that is compiled against PyTorch).

Each workload is an epoch of steps of several shapes. It runs three times: first to warm up, which
counts for the peak of memory, not for time.

--serve: warms up, prints `ready`, then runs one epoch for each line it reads, and prints its
seconds; at the end of its input it prints the line of JSON.
"""
import argparse
import contextlib
import fcntl
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time

ALLOCATORS = ("native", "expandable", "tenure", "tenure_plain")
EPOCHS = 3


def environment(allocator):
    """Must be set before PyTorch is imported."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        os.environ.pop(name, None)
        if allocator == "expandable":
            os.environ[name] = "expandable_segments:True"


def start(allocator, rank=0):
    """PyTorch, deterministic, with that allocator, on the GPU of that number."""
    import torch
    if allocator.startswith("tenure"):
        import tenure.torch
        if not tenure.torch.install(strict=True, native=allocator == "tenure"):
            raise RuntimeError("tenure.torch.install() said no")
    # What has no deterministic form may run: the comparison of the losses shows what it does.
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(7 + rank)
    random.seed(7)  # the same shapes for all
    torch.cuda.set_device(rank)
    return torch


# ---- the workloads: each returns a function that runs one epoch and its list of losses --------


def gpt2_train(torch, models, steps):
    model = models.gpt2().cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    shapes = [(random.randrange(1, 9), random.randrange(2, 17) * 64 - random.randrange(0, 40))
              for _ in range(steps)]
    data = [torch.randint(models.VOCABULARY, shape, device="cuda") for shape in shapes]

    def epoch():
        losses = []
        for ids in data:
            optimizer.zero_grad(set_to_none=True)
            loss = models.gpt2_loss(model, ids)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses

    return epoch


def gpt2_generate(torch, models, steps):
    model = models.gpt2().cuda().eval()
    shapes = [(random.randrange(1, 33), random.randrange(16, 500)) for _ in range(steps // 2)]
    data = [torch.randint(models.VOCABULARY, shape, device="cuda") for shape in shapes]

    def epoch():
        results = []
        for ids in data:
            tokens, last = models.gpt2_generate(model, ids, 64)
            results += [tokens.double().sum(), last]
        return results

    return epoch


def image_shapes(steps):
    return [(random.randrange(16, 65), 3, side, side)
            for side in (random.randrange(5, 10) * 32 for _ in range(steps))]


def resnet50_step(torch, model, optimizer, images, labels):
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss.detach()


def resnet50_train(torch, models, steps):
    model = models.resnet50().cuda().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    data = [(torch.randn(shape, device="cuda"), torch.randint(1000, shape[:1], device="cuda"))
            for shape in image_shapes(steps)]

    def epoch():
        return [resnet50_step(torch, model, optimizer, *pair) for pair in data]

    return epoch


def resnet50_prefetch(torch, models, steps):
    """Images come from pinned memory on a stream of their own, two batches ahead of the step that
    uses them, and are dropped as soon as that step has been launched: record_stream."""
    model = models.resnet50().cuda().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    host = [(torch.randn(shape).pin_memory(), torch.randint(1000, shape[:1]).pin_memory())
            for shape in image_shapes(steps)]
    copies = torch.cuda.Stream()

    def fetch(pair):
        with torch.cuda.stream(copies):
            there = [part.to("cuda", non_blocking=True) for part in pair]
            # Work on the copy stream too: it allocates and frees there.
            there[0] = there[0] * 2 - 1
            arrived = torch.cuda.Event()
            arrived.record()
        return there, arrived

    def epoch():
        losses, ahead = [], [fetch(pair) for pair in host[:2]]
        for i in range(len(host)):
            (images, labels), arrived = ahead.pop(0)
            if i + 2 < len(host):
                ahead.append(fetch(host[i + 2]))
            compute = torch.cuda.current_stream()
            compute.wait_event(arrived)
            losses.append(resnet50_step(torch, model, optimizer, images, labels))
            images.record_stream(compute)
            labels.record_stream(compute)
            del images, labels
        return losses

    return epoch


def gpt2_graph(torch, models, steps):
    """A training step captured in a CUDA graph and replayed, between steps that are not. Always the
    model written here: that of transformers copies from the host, which no capture allows."""
    model = models.Gpt2().cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)
    data = [torch.randint(models.VOCABULARY, (4, 256), device="cuda") for _ in range(steps)]
    given = data[0].clone()

    def step(ids):
        optimizer.zero_grad(set_to_none=True)
        loss = models.gpt2_loss(model, ids)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for ids in data[:3]:
            step(ids)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = models.gpt2_loss(model, given)
        loss.backward()
        optimizer.step()

    def epoch():
        losses = []
        for i, ids in enumerate(data):
            given.copy_(ids)
            graph.replay()
            losses.append(loss.detach().clone())
            with torch.no_grad():  # allocates and frees what the graph must not be given
                losses.append(models.gpt2_loss(model, ids[:, : 64 + 8 * (i % 8)]))
        return losses

    return epoch


# ---- the same for the models of models.py, eager and compiled ---------------------------------


def ids_of(torch, shapes, vocabulary):
    return [torch.randint(vocabulary, shape, device="cuda") for shape in shapes]


def token_shapes(steps, kinds):
    """`steps` shapes; where `kinds` is not 0, no more different ones than that."""
    drawn = [(random.randrange(1, 9), random.randrange(2, 17) * 32) for _ in range(kinds or steps)]
    return [drawn[i % len(drawn)] for i in range(steps)]


def gpt2_parts(torch, models, steps, kinds):
    model = models.Gpt2(layers=4 if kinds else models.LAYERS)
    data = ids_of(torch, token_shapes(steps, kinds), models.VOCABULARY)
    return model, models.gpt2_loss, [(ids,) for ids in data]


def llama_parts(torch, models, steps, kinds):
    data = ids_of(torch, token_shapes(steps, kinds), models.Decoder.VOCABULARY)
    return models.llama(4 if kinds else 12), models.decoder_loss, [(ids,) for ids in data]


def moe_parts(torch, models, steps, kinds):
    data = ids_of(torch, token_shapes(steps, kinds), models.Decoder.VOCABULARY)
    model = models.moe(2 if kinds else 6, is_padded=bool(kinds))
    return model, models.decoder_loss, [(ids,) for ids in data]


def resnet50_parts(torch, models, steps, kinds):
    shapes = image_shapes(kinds or steps)
    data = [(torch.randn(shape, device="cuda"), torch.randint(1000, shape[:1], device="cuda"))
            for shape in shapes]

    def loss(model, images, labels):
        return torch.nn.functional.cross_entropy(model(images), labels)

    return models.resnet50(), loss, [data[i % len(data)] for i in range(steps)]


def graph_parts(torch, models, steps, kinds):
    sizes = [random.randrange(20, 200) * 500 for _ in range(kinds or steps)]
    data = [(torch.randn(size, 256, device="cuda"),
             torch.randint(size, (size, 8), device="cuda"),
             torch.randint(40, (size,), device="cuda")) for size in sizes]

    def loss(model, nodes, neighbours, labels):
        return torch.nn.functional.cross_entropy(model(nodes, neighbours), labels)

    return models.GraphNetwork(), loss, [data[i % len(data)] for i in range(steps)]


# What a row adds to the model's name: how torch.compile is asked, and how many shapes there are (a
# shape is compiled anew); less of a model's layers is as much of what compiling does.
MODES = {"eager": (None, 0), "compile": (dict(dynamic=False), 3),
         "reduce": (dict(mode="reduce-overhead", dynamic=False), 3),
         "ddp": (None, 0), "fsdp2": (None, 0)}
# Those of schedules.py.
SCHEDULES = ("pipeline_train", "rollout_train", "diffusion")
# Those of two processes.
SHARED = ("ddp", "fsdp2")


def shared(torch, model, mode):
    """The model as one of two processes trains it."""
    if mode == "ddp":
        return torch.nn.parallel.DistributedDataParallel(
            model, device_ids=[torch.cuda.current_device()])
    from torch.distributed.fsdp import fully_shard
    lists = (torch.nn.ModuleList, torch.nn.Sequential)
    for layers in (child for child in model.children() if isinstance(child, lists)):
        for layer in layers:
            fully_shard(layer)
    return fully_shard(model)


def trained(parts, mode):
    """Training steps of a model, its loss eager or compiled, alone or as one of two processes."""
    asked, kinds = MODES[mode]

    def case(torch, models, steps):
        model, loss_of, data = parts(torch, models, steps, kinds)
        model.cuda().train()
        if mode in SHARED:
            model = shared(torch, model, mode)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
        compute = loss_of
        if asked is not None:
            torch._dynamo.config.cache_size_limit = 64
            compute = torch.compile(loss_of, **asked)

        def epoch():
            losses = []
            for given in data:
                torch.compiler.cudagraph_mark_step_begin()
                optimizer.zero_grad(set_to_none=True)
                loss = compute(model, *given)
                loss.backward()
                optimizer.step()
                losses.append(loss.detach().clone())
            return losses

        return epoch

    return case


CASES = {function.__name__: function for function in
         (gpt2_train, gpt2_generate, resnet50_train, resnet50_prefetch, gpt2_graph)}
MODEL = {name: name if name == "gpt2_graph" else name.split("_")[0] for name in CASES}
PARTS = {"gpt2": gpt2_parts, "llama": llama_parts, "resnet50": resnet50_parts, "moe": moe_parts,
         "graph": graph_parts}
CASES.update({f"{name}_{mode}": trained(parts, mode) for name, parts in PARTS.items()
              for mode in MODES})


def case_of(name):
    """The workload of that name. Those of schedules.py need PyTorch to be imported, so late."""
    if name in SCHEDULES:
        import schedules
        return schedules.CASES[name]
    return CASES[name]


class Partner:
    """The second process of a workload of two, as the first sees it."""

    def __init__(self, case, allocator, steps):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen(
            [sys.executable, "-B", os.path.abspath(__file__), case, allocator, "--steps",
             str(steps), "--partner"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def epoch(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def result(self):
        self.process.stdin.close()
        return json.loads(self.process.stdout.readline())


def joined(own, other):
    """Results of two processes as one."""
    more = own if own["peak_reserved_bytes"] >= other["peak_reserved_bytes"] else other
    peaks = {key: more[key] for key in ("peak_reserved_bytes", "peak_allocated_bytes")}
    if "failures" in own:
        peaks["failures"] = own["failures"] + other["failures"]
    losses = [loss for pair in zip(own["losses"], other["losses"]) for loss in pair]
    return {**own, **peaks, "losses": losses}


class Running:
    """A workload under way. `rank`: of two processes, or None where there is one."""

    def __init__(self, case, allocator, steps, rank=None):
        environment(allocator)
        self.case, self.allocator, self.steps = case, allocator, steps
        self.partner = Partner(case, allocator, steps) if rank == 0 else None
        self.torch = start(allocator, rank or 0)
        self.is_shared = rank is not None
        if self.is_shared:
            self.torch.distributed.init_process_group("nccl", rank=rank, world_size=2)
        import models
        self.model = models.source_of(MODEL.get(case) or case.split("_")[0])
        if case.startswith("gpt2_") and case not in MODEL:
            self.model = models.PLAIN
        self.models, self.run_epoch = models, None
        self.losses, self.seconds = [], []
        self.asked = []  # by epoch: what was asked of the driver, in ms and in calls

    def driver(self):
        """What Tenure has asked of the driver so far: nanoseconds, calls."""
        if not self.allocator.startswith("tenure"):
            return 0, 0
        import tenure
        stats = tenure.stats()
        return tuple(sum(value for key, value in stats.items() if key.startswith(f"driver_{what}."))
                     for what in ("ns", "calls"))

    def epoch(self):
        """Runs one, and makes what it needs before the first. Returns its seconds."""
        if self.partner:
            self.partner.epoch()
        if self.run_epoch is None:
            self.run_epoch = case_of(self.case)(self.torch, self.models, self.steps)
        before = self.driver()
        self.torch.cuda.synchronize()
        began = time.perf_counter()
        got = self.run_epoch()
        self.torch.cuda.synchronize()
        self.seconds.append(time.perf_counter() - began)
        after = self.driver()
        self.asked.append(((after[0] - before[0]) / 1e6, after[1] - before[1]))
        self.losses += [float(loss).hex() for loss in got]
        return self.seconds[-1]

    def result(self):
        own = self.own_result()
        return joined(own, self.partner.result()) if self.partner else own

    def end(self):
        if self.is_shared:
            self.torch.distributed.destroy_process_group()

    def own_result(self):
        torch = self.torch
        result = dict(case=self.case, allocator=self.allocator, steps=self.steps,
                      losses=self.losses, epoch_seconds=self.seconds,
                      step_ms=1e3 * min(self.seconds[1:]) / self.steps,
                      peak_reserved_bytes=torch.cuda.max_memory_reserved(),
                      peak_allocated_bytes=torch.cuda.max_memory_allocated(),
                      model=self.model, torch=torch.__version__, cuda=torch.version.cuda,
                      gpu=torch.cuda.get_device_name())
        if self.allocator.startswith("tenure"):
            import tenure
            stats = tenure.stats()
            tenure._library.call("tnr_validate", -1)
            result["failures"] = tenure.torch.failures()
            result["driver_ns"] = self.driver()[0]
            result["epoch_driver_ms"] = [ms for ms, _ in self.asked]
            result["epoch_driver_calls"] = [calls for _, calls in self.asked]
            result["served"] = {key[7:]: value for key, value in stats.items()
                                if key.startswith("served.")}
        return result


@contextlib.contextmanager
def turn(is_shared):
    """One workload of two processes at a time. A collective's kernels wait for each other, each on
    its GPU; where several pairs of processes share the GPUs, they are seldom there at once."""
    if not is_shared:
        yield
        return
    path = os.path.join(tempfile.gettempdir(), f"tenure-cases-{os.getuid()}")
    with open(path, "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=(*CASES, *SCHEDULES))
    parser.add_argument("allocator", choices=ALLOCATORS)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--serve", action="store_true", help="an epoch for each line of input")
    parser.add_argument("--partner", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    is_shared = options.case.endswith(SHARED)
    rank = int(options.partner) if is_shared else None
    running = Running(options.case, options.allocator, options.steps, rank)
    if options.partner:
        for _ in sys.stdin:
            running.epoch()
    else:
        with turn(is_shared):
            for _ in range(EPOCHS):
                running.epoch()
        if options.serve:
            print("ready", flush=True)
            for _ in sys.stdin:
                print(running.epoch(), flush=True)
    print(json.dumps(running.result()), flush=True)
    running.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
