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


def collectives(torch, dist, rank):
    """Every collective in several sizes, checked by their bits; NCCL between two processes."""
    numbers = []
    for count in (1 << 8, 1 << 14, 1 << 20, 1 << 24):
        torch.manual_seed(count + rank)
        own = torch.randn(count, device=f"cuda:{rank}")
        both = torch.empty(2 * count, device=f"cuda:{rank}")
        half = torch.empty(count // 2, device=f"cuda:{rank}")
        dist.all_gather_into_tensor(both, own)
        numbers.append(digest(both))
        dist.reduce_scatter_tensor(half, own)
        numbers.append(digest(half))
        swapped = torch.empty_like(own)
        dist.all_to_all_single(swapped, own)
        numbers.append(digest(swapped))
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, own, 1 - rank),
                                            dist.P2POp(dist.irecv, swapped, 1 - rank)]):
            work.wait()
        numbers.append(digest(swapped))
        dist.broadcast(own, 1)
        numbers.append(digest(own))
        dist.reduce(own, 0)
        dist.all_reduce(own)
        numbers.append(digest(own))
    return numbers


def collective_times(torch, dist, rank):
    """{bytes: median microseconds of an all_reduce in place}. Small ones are timed for a tenth of a
    second: what a process has just done may slow its host for some hundredths."""
    times = {}
    for count in (1 << 8, 1 << 14, 1 << 20, 1 << 26):
        data = torch.ones(count, device=f"cuda:{rank}")
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        rounds = []
        for turn in range(25 if count > 1 << 20 else 400):
            began.record()
            for _ in range(10):
                dist.all_reduce(data)
            ended.record()
            ended.synchronize()
            if turn >= 5 and (turn >= 100 or count > 1 << 20):
                rounds.append(began.elapsed_time(ended) * 100)
            data.fill_(1)
        times[4 * count] = sorted(rounds)[len(rounds) // 2]
    return times


def ranked(rank, allocator, kind, port, path):
    """One of two processes of DDP, FSDP2 or NCCL alone."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch = start(allocator)
    import torch.distributed as dist
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=2)
    if kind == "collectives":
        done = collectives(torch, dist, rank)
        times = collective_times(torch, dist, rank)
    else:
        done = trained(torch, dist, rank, kind)
        times = {}
    with open(f"{path}.{rank}", "w", encoding="utf-8") as out:
        json.dump([done, times], out)
    dist.destroy_process_group()


def trained(torch, dist, rank, kind):
    """The losses of DDP or FSDP2."""
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
    return losses


def distributed(allocator, kind):
    """What two processes have got, and how long collectives took."""
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
            return f"failed: exit codes {[one.exitcode for one in ranks]}", {}
        got = []
        for rank in range(2):
            with open(f"{path}.{rank}", encoding="utf-8") as text:
                got.append(json.load(text))
        return [one[0] for one in got], got[0][1]


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
    for size, us in wanted["times"].items():
        print(f"       two processes, all_reduce of {int(size):9} B: {us:8.1f} us native, "
              f"{got['times'].get(size, 0):8.1f} us")
    return failed


def main():
    if sys.argv[1:2] == ["--compare"] and len(sys.argv) == 4:
        return compare(*sys.argv[2:])
    if len(sys.argv) != 2 or sys.argv[1] not in ("native", "tenure"):
        print(__doc__, file=sys.stderr)
        return 2
    allocator = sys.argv[1]
    cases, seconds, times = {}, {}, {}

    def run(name, function, *arguments):
        began = time.monotonic()
        try:
            cases[name] = function(*arguments)
        except Exception as problem:  # what failed is the result, and the next case runs
            cases[name] = f"failed: {type(problem).__name__}: {problem}"
        seconds[name] = time.monotonic() - began

    for kind in ("ddp", "fsdp2", "collectives"):
        run(kind, distributed, allocator, kind)
        if not isinstance(cases[kind], str):
            cases[kind], found = cases[kind]
            times.update(found)
    torch = start(allocator)
    run("copies", copies, torch)
    run("data_parallel", data_parallel, torch)
    print(json.dumps({"cases": cases, "seconds": seconds, "times": times}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
