#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Right programs of PyTorch and CuPy that live in libraries (cuSOLVER, cuBLAS, cuFFT, cuSPARSE,
CUB, cuDNN, Triton, Inductor): `tenure run --check` must have no certain finding in any of them.
Possible ones are counted.

    libraries.py [--only TEXT] [--jobs N] [--timeout SECONDS] [--out FOLDER]
    libraries.py NAME                    # one of them, in this process

Each works with memory of many sizes, on the default stream and on one of its own, and records what
crosses over. Libraries keep work space between such calls, give it back, and leave its old address
in the structures that their kernels are given.

TENURE is the command. PYTHONPATH has the module `tenure`. Exit codes: 0 none is certain; 1 not;
77 PyTorch is not there.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROUNDS = 12
SIZES = (33, 64, 100, 257, 512)
programs = {}


def program(function):
    programs[function.__name__] = function
    return function


def in_turns(torch, work):
    """The work with each size, on the default stream and on another, and with what the last round
    left still alive every other time."""
    side = torch.cuda.Stream()
    kept = []
    for turn in range(ROUNDS):
        size = SIZES[turn % len(SIZES)]
        kept.append(work(size))
        with torch.cuda.stream(side):
            given = torch.randn(size, size, device="cuda")
            result = work(size)
        main = torch.cuda.current_stream()
        main.wait_stream(side)
        for tensor in (given, result):
            tensor.record_stream(main)
        kept.append(result + 1)
        side.wait_stream(main)
        if turn % 3 == 2:
            kept.clear()
    torch.cuda.synchronize()


# ---- cuSOLVER and cuBLAS ------------------------------------------------------------------------


def square(torch, size, batch=()):
    return torch.randn(*batch, size, size, device="cuda") + size * torch.eye(size, device="cuda")


@program
def lu_factor(torch):
    in_turns(torch, lambda size: torch.linalg.lu_factor(square(torch, size))[0])


@program
def lu_factor_batched(torch):
    in_turns(torch, lambda size: torch.linalg.lu_factor(square(torch, size, (3,)))[0])


@program
def lu_solve(torch):
    def work(size):
        lu, pivots = torch.linalg.lu_factor(square(torch, size))
        return torch.linalg.lu_solve(lu, pivots, torch.randn(size, 4, device="cuda"))
    in_turns(torch, work)


@program
def solve(torch):
    in_turns(torch, lambda size: torch.linalg.solve(square(torch, size),
                                                    torch.randn(size, 3, device="cuda")))


@program
def inverse(torch):
    in_turns(torch, lambda size: torch.linalg.inv(square(torch, size, (2,))))


@program
def determinant(torch):
    in_turns(torch, lambda size: torch.linalg.slogdet(square(torch, size))[1])


@program
def cholesky(torch):
    def work(size):
        x = square(torch, size)
        return torch.cholesky_solve(x, torch.linalg.cholesky(x @ x.T))
    in_turns(torch, work)


@program
def decompositions(torch):
    def work(size):
        x = square(torch, size)
        q, r = torch.linalg.qr(x)
        values = torch.linalg.eigvalsh(x + x.T)
        return q @ r + values + torch.linalg.svdvals(x)
    in_turns(torch, work)


@program
def least_squares(torch):
    in_turns(torch, lambda size: torch.linalg.lstsq(
        torch.randn(size + 10, size, device="cuda"),
        torch.randn(size + 10, 2, device="cuda")).solution)


@program
def products(torch):
    def work(size):
        x = square(torch, size, (4,))
        half = x.half()
        return torch.bmm(x, x).sum(0) + torch.baddbmm(half, half, half).float().sum(0)
    in_turns(torch, work)


# ---- other libraries of CUDA --------------------------------------------------------------------


@program
def transforms(torch):
    in_turns(torch, lambda size: torch.fft.irfft2(torch.fft.rfft2(
        torch.randn(3, size, size, device="cuda"))))


@program
def sparse(torch):
    def work(size):
        x = torch.randn(size, size, device="cuda")
        return (x * (x > 1)).to_sparse_csr() @ x
    in_turns(torch, work)


@program
def sort_and_scan(torch):
    def work(size):
        x = torch.randn(size * size, device="cuda")
        unique, counts = torch.unique((x * 10).int(), return_counts=True)
        return (torch.sort(x)[0].cumsum(0)[:8] + torch.topk(x, 8)[0] + unique.sum() +
                counts.max() + x[x > 0].mean() + torch.nonzero(x).sum())
    in_turns(torch, work)


@program
def convolutions(torch):
    def work(size):
        x = torch.randn(2, 8, size, size, device="cuda", requires_grad=True)
        weight = torch.randn(16, 8, 3, 3, device="cuda", requires_grad=True)
        torch.nn.functional.conv2d(x, weight).square().mean().backward()
        return weight.grad
    in_turns(torch, work)


@program
def attention(torch):
    def work(size):
        x = torch.randn(2, 4, size, 64, device="cuda", dtype=torch.float16, requires_grad=True)
        y = torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        y.sum().backward()
        return x.grad
    in_turns(torch, work)


@program
def recurrent(torch):
    net = torch.nn.LSTM(32, 64, num_layers=2).cuda()

    def work(size):
        y, _ = net(torch.randn(size, 3, 32, device="cuda"))
        y.sum().backward()
        return y.detach()
    for _ in range(ROUNDS):
        for size in SIZES[:3]:
            work(size)
    torch.cuda.synchronize()


@program
def optimizers(torch):
    for make in (torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad):
        net = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(40)]).cuda()
        how = make(net.parameters(), lr=0.01, foreach=True)
        for _ in range(ROUNDS):
            net(torch.randn(16, 64, device="cuda")).square().mean().backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            how.step()
            how.zero_grad(set_to_none=True)
    torch.cuda.synchronize()


@program
def embeddings(torch):
    bag = torch.nn.EmbeddingBag(1000, 64, sparse=True).cuda()

    def work(size):
        index = torch.randint(0, 1000, (size, 7), device="cuda")
        y = bag(index)
        y.sum().backward()
        bag.zero_grad()
        return y.detach()
    for _ in range(ROUNDS):
        for size in SIZES:
            work(size)
    torch.cuda.synchronize()


# ---- code that is made while the program runs ---------------------------------------------------


def compiled(torch, mode):
    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.LayerNorm(128),
                              torch.nn.Linear(128, 64)).cuda()
    step = torch.compile(net, mode=mode)
    for _ in range(ROUNDS):
        y = step(torch.randn(32, 64, device="cuda"))
        y.square().mean().backward()
        net.zero_grad(set_to_none=True)
    torch.cuda.synchronize()


@program
def compile_default(torch):
    compiled(torch, "default")


@program
def compile_reduce_overhead(torch):
    compiled(torch, "reduce-overhead")


@program
def graphed(torch):
    x = torch.randn(64, 64, device="cuda")
    warm = torch.cuda.Stream()
    warm.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm):
        for _ in range(3):
            torch.linalg.solve_ex(x + 64 * torch.eye(64, device="cuda"), x)
    torch.cuda.current_stream().wait_stream(warm)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = (x @ x).softmax(-1).sum(0)
    for turn in range(ROUNDS):
        x.fill_(turn)
        graph.replay()
        kept = y.clone()
    torch.cuda.synchronize()
    del kept


# ---- CuPy ---------------------------------------------------------------------------------------


@program
def cupy_libraries(_):
    import cupy
    for turn in range(ROUNDS):
        size = SIZES[turn % len(SIZES)]
        for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
            with stream:
                x = cupy.random.rand(size, size) + size * cupy.eye(size)
                kept = [cupy.linalg.solve(x, x), cupy.linalg.svd(x)[1], cupy.fft.fft2(x),
                        cupy.sort(x.ravel()), cupy.cumsum(x), cupy.linalg.qr(x)[0]]
                stream.synchronize()
                del kept, x


@program
def dlpack(torch):
    import cupy
    for size in SIZES * 2:
        x = torch.randn(size, size, device="cuda")
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            y = cupy.linalg.inv(cupy.from_dlpack(x) + size * cupy.eye(size, dtype="float32"))
            z = torch.from_dlpack(y) @ x
        del x, y, z
    torch.cuda.synchronize()


# ---- running ------------------------------------------------------------------------------------


def run(name, options):
    base = os.path.join(options.out, name)
    with open(base + ".log", "w", encoding="utf-8") as log:
        try:
            code = subprocess.run(
                [os.environ["TENURE"], "run", "--check", "--findings", base + ".findings", "--",
                 sys.executable, "-B", os.path.abspath(__file__), name], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, timeout=options.timeout, check=False).returncode
        except subprocess.TimeoutExpired:
            code = "timeout"
    rows = []
    try:
        with open(base + ".findings", encoding="utf-8", errors="replace") as file:
            rows = [json.loads(line) for line in file if line.endswith("}\n")]
    except (OSError, ValueError) as error:
        code = code if code == 77 else f"{code}: {error}"
    found = [row["certain"] for row in rows if "finding" in row]
    return {"name": name, "code": code, "certain": sum(found), "possible": found.count(False),
            "launches": sum(row.get("launches") or 0 for row in rows if row.get("summary")),
            "followed": sum(row.get("allocations_followed") or 0 for row in rows
                            if row.get("summary"))}


def run_all(options):
    options.out = options.out or tempfile.mkdtemp(prefix="check_libraries-")
    os.makedirs(options.out, exist_ok=True)
    print(f"output of the programs: {options.out}")
    rows = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for one in pool.map(lambda name: run(name, options),
                            [name for name in programs if options.only in name]):
            print("libraries {name:<24} exit code {code}: {certain} certain, {possible} possible; "
                  "{launches} launches, {followed} allocations followed".format(**one), flush=True)
            rows.append(one)
    ran = [one for one in rows if one["code"] != 77]
    bad = [one["name"] for one in ran if one["code"] != 0 or one["certain"] > 0 or
           one["followed"] == 0]
    print(f"{len(ran)} programs with libraries, {len(rows) - len(ran)} skipped; "
          f"not as they must be: {', '.join(bad) or 'none'}")
    return 1 if bad else 0 if ran else 77


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name", nargs="?", choices=list(programs))
    parser.add_argument("--only", default="", help="part of the names of programs")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one program")
    parser.add_argument("--out", help="folder for what programs print, which is kept")
    options = parser.parse_args()
    if not options.name:
        return run_all(options)
    try:
        import torch
        if "cupy" in options.name or options.name == "dlpack":
            import cupy  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error}")
        return 77
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        return 77
    programs[options.name](torch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
