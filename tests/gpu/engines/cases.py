# SPDX-License-Identifier: Apache-2.0
"""cases.py CASE ALLOCATOR [--steps N]: one workload of engines_torch.py, in a process of its own.

Prints one line of JSON: losses bit by bit, time, peaks. The allocator is `native`, `expandable`,
`tenure`, or `tenure_plain` (Tenure without the part that is compiled against PyTorch).

Each workload is an epoch of steps of several shapes. It runs three times: first to warm up, which
counts for the peak of memory, not for time.
"""
import argparse
import json
import os
import random
import sys
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


def start(allocator):
    """PyTorch, deterministic, with that allocator."""
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
    torch.manual_seed(7)
    random.seed(7)
    torch.cuda.set_device(0)
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


CASES = {function.__name__: function for function in
         (gpt2_train, gpt2_generate, resnet50_train, resnet50_prefetch, gpt2_graph)}
MODEL = {name: name if name == "gpt2_graph" else name.split("_")[0] for name in CASES}


def run(case, allocator, steps):
    environment(allocator)
    torch = start(allocator)
    import models
    epoch = CASES[case](torch, models, steps)
    losses, seconds = [], []
    for _ in range(EPOCHS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        got = epoch()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
        losses += [float(loss).hex() for loss in got]
    result = dict(case=case, allocator=allocator, steps=steps, losses=losses,
                  epoch_seconds=seconds, step_ms=1e3 * min(seconds[1:]) / steps,
                  peak_reserved_bytes=torch.cuda.max_memory_reserved(),
                  peak_allocated_bytes=torch.cuda.max_memory_allocated(),
                  model=models.source_of(MODEL[case]), torch=torch.__version__,
                  cuda=torch.version.cuda, gpu=torch.cuda.get_device_name(0))
    if allocator.startswith("tenure"):
        import tenure
        stats = tenure.stats()
        tenure._library.call("tnr_validate", -1)
        result["failures"] = tenure.torch.failures()
        result["driver_ns"] = sum(value for key, value in stats.items()
                                  if key.startswith("driver_ns."))
        result["served"] = {key[7:]: value for key, value in stats.items()
                            if key.startswith("served.")}
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=CASES)
    parser.add_argument("allocator", choices=ALLOCATORS)
    parser.add_argument("--steps", type=int, default=16)
    options = parser.parse_args()
    print(json.dumps(run(options.case, options.allocator, options.steps)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
