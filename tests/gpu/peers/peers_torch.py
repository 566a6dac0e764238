# SPDX-License-Identifier: Apache-2.0
"""peers_torch.py native|tenure: what PyTorch does with two GPUs, as one line of JSON.

  peers_torch.py --compare A B    says where two such files differ; exit code 1 if they do

Each case gives a number or a list of numbers, bit by bit. Every case runs with both allocators in
the same way, so equal numbers mean equal work.
"""
import json
import os
import socket
import sys
import time


def start(allocator):
    """PyTorch, deterministic, with that allocator."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    import torch
    if allocator == "tenure":
        import tenure.torch
        if not tenure.torch.install(strict=True):
            raise RuntimeError("tenure.torch.install() said no")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(7)
    return torch


def digest(tensor):
    """A number that changes with any bit of any element."""
    import torch
    flat = tensor.detach().contiguous().view(-1).view(torch.uint8).to(torch.int64)
    weights = torch.arange(1, flat.numel() + 1, device=flat.device) % 65521
    return int((flat * weights).sum().item())


def copies(torch):
    """Plain, strided, and of other types, both ways, with streams of their own and in the middle of
    allocations and frees."""
    numbers = []
    for here, there in ((0, 1), (1, 0)):
        for size in (7, 4096, 3 << 20):
            source = torch.arange(size, device=f"cuda:{here}", dtype=torch.float32) * 0.37
            numbers.append(digest(source.to(f"cuda:{there}")))
            numbers.append(digest(source.half().to(f"cuda:{there}")))
        grid = torch.arange(1 << 20, device=f"cuda:{here}", dtype=torch.float32).view(1024, 1024)
        target = torch.zeros(2048, 512, device=f"cuda:{there}")
        target[::4, :].copy_(grid[::2, ::2])
        numbers.append(digest(target))
        target[1::4, :].copy_(grid.t()[1::2, ::2], non_blocking=True)
        numbers.append(digest(target))
        stream = torch.cuda.Stream(here)
        with torch.cuda.stream(stream):
            for _ in range(20):
                part = torch.rand(1 << 18, device=f"cuda:{here}")
                other = part.to(f"cuda:{there}", non_blocking=True)
                del part
        stream.synchronize()
        numbers.append(other.numel())
    return numbers


def model_of(torch, width=256):
    torch.manual_seed(11)
    return torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
                               torch.nn.Linear(4 * width, width), torch.nn.LayerNorm(width),
                               torch.nn.Linear(width, width))


def train(torch, model, device, steps, seed, batch=64, width=256):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(seed)
    losses = []
    for _ in range(steps):
        data = torch.randn(batch, width).to(device)
        loss = (model(data) - data.flip(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    return losses


def data_parallel(torch):
    model = torch.nn.DataParallel(model_of(torch).cuda(0), device_ids=[0, 1])
    return train(torch, model, "cuda:0", 12, 3)


def ranked(rank, allocator, kind, port, path):
    """One of two processes of DDP or FSDP2."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch = start(allocator)
    import torch.distributed as dist
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=2)
    model = model_of(torch).cuda(rank)
    if kind == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    else:
        from torch.distributed.fsdp import fully_shard
        for part in model:
            if isinstance(part, torch.nn.Linear):
                fully_shard(part)
        fully_shard(model)
    losses = train(torch, model, f"cuda:{rank}", 12, 5 + rank)
    big = torch.full((8 << 20,), float(rank + 1), device=f"cuda:{rank}")
    dist.all_reduce(big)
    losses.append(digest(big))
    with open(f"{path}.{rank}", "w", encoding="utf-8") as out:
        json.dump(losses, out)
    dist.destroy_process_group()


def distributed(allocator, kind):
    import multiprocessing
    import tempfile
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "losses")
        ranks = [context.Process(target=ranked, args=(rank, allocator, kind, port, path))
                 for rank in range(2)]
        for one in ranks:
            one.start()
        for one in ranks:
            one.join(240)
        if any(one.exitcode != 0 for one in ranks):
            for one in ranks:
                if one.is_alive():
                    one.kill()
            return f"failed: exit codes {[one.exitcode for one in ranks]}"
        losses = []
        for rank in range(2):
            with open(f"{path}.{rank}", encoding="utf-8") as text:
                losses.append(json.load(text))
        return losses


def compare(first, second):
    with open(first, encoding="utf-8") as text:
        wanted = json.load(text)
    with open(second, encoding="utf-8") as text:
        got = json.load(text)
    failed = 0
    for case, result in wanted["cases"].items():
        other = got["cases"].get(case)
        is_good = other == result and not str(result).startswith("failed")
        failed |= not is_good
        seconds = (wanted["seconds"].get(case), got["seconds"].get(case))
        print(f"{'ok    ' if is_good else 'FAILED'} {os.path.basename(second)[:-5]:8} {case:14} "
              f"{seconds[0]:6.1f} s native, {seconds[1]:6.1f} s"
              + ("" if is_good else f"\n    wanted {str(result)[:300]}"
                                    f"\n    got    {str(other)[:600]}"))
    return failed


def main():
    if sys.argv[1:2] == ["--compare"] and len(sys.argv) == 4:
        return compare(*sys.argv[2:])
    if len(sys.argv) != 2 or sys.argv[1] not in ("native", "tenure"):
        print(__doc__, file=sys.stderr)
        return 2
    allocator = sys.argv[1]
    cases, seconds = {}, {}

    def run(name, function, *arguments):
        began = time.monotonic()
        try:
            cases[name] = function(*arguments)
        except Exception as problem:  # what failed is the result, and the next case runs
            cases[name] = f"failed: {type(problem).__name__}: {problem}"
        seconds[name] = time.monotonic() - began

    for kind in ("ddp", "fsdp2"):
        run(kind, distributed, allocator, kind)
    torch = start(allocator)
    run("copies", copies, torch)
    run("data_parallel", data_parallel, torch)
    print(json.dumps({"cases": cases, "seconds": seconds}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
