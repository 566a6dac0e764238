# SPDX-License-Identifier: Apache-2.0
"""Programs whose memory is accounted for: each does what it is named for, keeps what it has, says
"ready", and waits for a line. Usage: programs.py NAME."""
import os
import sys
import time


def hold():
    print("ready", flush=True)
    sys.stdin.readline()


# ---- PyTorch -----------------------------------------------------------------------------------


def torch_model(torch, width=1024):
    torch.manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 3, padding=1), torch.nn.BatchNorm2d(64), torch.nn.ReLU(),
        torch.nn.MaxPool2d(4), torch.nn.Flatten(), torch.nn.Linear(64 * 16 * 16, width),
        torch.nn.GELU(), torch.nn.LayerNorm(width), torch.nn.Linear(width, 1000)).cuda()
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)


def torch_step(torch, model, optimizer, images, labels):
    optimizer.zero_grad(set_to_none=True)
    torch.nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()


def torch_batch(torch):
    return torch.randn(64, 3, 64, 64, device="cuda"), torch.randint(1000, (64,), device="cuda")


def torch_eager():
    import torch
    model, optimizer = torch_model(torch)
    for _ in range(20):
        torch_step(torch, model, optimizer, *torch_batch(torch))
    torch.cuda.synchronize()
    hold()


def torch_graphs():
    import torch
    model, optimizer = torch_model(torch)
    images, labels = torch_batch(torch)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            torch_step(torch, model, optimizer, images, labels)
    torch.cuda.current_stream().wait_stream(side)
    graphs = []
    for _ in range(4):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch_step(torch, model, optimizer, images, labels)
        graphs.append(graph)
    for _ in range(10):
        for graph in graphs:
            graph.replay()
    torch.cuda.synchronize()
    hold()


def torch_compile():
    import torch
    model, optimizer = torch_model(torch)
    compiled = torch.compile(model, mode="reduce-overhead")
    for _ in range(10):
        torch.compiler.cudagraph_mark_step_begin()
        torch_step(torch, compiled, optimizer, *torch_batch(torch))
    torch.cuda.synchronize()
    hold()


def torch_mapped():
    """PyTorch maps its memory by hand."""
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
    torch_eager()


def libraries():
    """cuBLAS, cuDNN, cuFFT, cuSOLVER and cuSPARSE, each in many shapes."""
    import torch
    torch.backends.cudnn.benchmark = True
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for size in (128, 1000, 4096, 8192):
            one = torch.randn(size, size, device="cuda", dtype=dtype)
            (one @ one.t()).sum().item()
            torch.nn.functional.linear(one, one, one[0]).sum().item()
        for channels in (16, 64, 256):
            conv = torch.nn.Conv2d(channels, channels, 3, padding=1).cuda().to(dtype)
            images = torch.randn(16, channels, 56, 56, device="cuda", dtype=dtype,
                                 requires_grad=True)
            conv(images).sum().backward()
        if dtype != torch.float32:
            query = torch.randn(2, 8, 1024, 64, device="cuda", dtype=dtype)
            torch.nn.functional.scaled_dot_product_attention(query, query, query).sum().item()
    matrix = torch.randn(512, 512, device="cuda")
    for call in (torch.linalg.svd, torch.linalg.qr, torch.linalg.eigh):
        call(matrix @ matrix.t() + 512 * torch.eye(512, device="cuda"))
    torch.fft.fft2(torch.randn(8, 512, 512, device="cuda")).abs().sum().item()
    (matrix.relu().to_sparse_csr() @ matrix).sum().item()
    torch.cuda.synchronize()
    hold()


def nccl_rank():
    """A rank of NCCL; RANK and WORLD_SIZE say which of how many."""
    import torch
    import torch.distributed
    rank = int(os.environ.get("RANK", "0"))
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group(
        "nccl", init_method="file://" + os.environ["NCCL_FILE"], rank=rank,
        world_size=int(os.environ.get("WORLD_SIZE", "1")), device_id=torch.device("cuda", rank))
    values = torch.ones(32 << 20, device="cuda")
    for _ in range(10):
        torch.distributed.all_reduce(values)
        gathered = [torch.empty_like(values) for _ in range(torch.distributed.get_world_size())]
        torch.distributed.all_gather(gathered, values)
    torch.cuda.synchronize()
    hold()


# ---- others ------------------------------------------------------------------------------------


def cupy():
    import cupy
    values = cupy.random.rand(2048, 2048)
    kept = [values @ values.T, cupy.fft.fft2(values), cupy.linalg.svd(values[:256, :256])[0],
            cupy.sort(values.ravel()), values.astype(cupy.float32) @ values.astype(cupy.float32)]
    kernel = cupy.RawKernel("extern \"C\" __global__ void add(double *x) "
                            "{ x[blockIdx.x * blockDim.x + threadIdx.x] += 1; }", "add")
    kernel((4096,), (256,), (kept[3],))
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        kept.append(cupy.cumsum(values.ravel()))
    cupy.cuda.Device().synchronize()
    hold()


def jax():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import jax.numpy as jnp
    if jax.default_backend() != "gpu":
        sys.exit("JAX sees no GPU")

    @jax.jit
    def step(weights, images):
        def loss(weights):
            hidden = jnp.tanh(images @ weights[0])
            return ((hidden @ weights[1] - images) ** 2).mean()
        gradient = jax.grad(loss)(weights)
        return [one - 0.01 * other for one, other in zip(weights, gradient)]

    key = jax.random.PRNGKey(3)
    weights = [jax.random.normal(key, (1024, 4096)), jax.random.normal(key, (4096, 1024))]
    images = jax.random.normal(key, (512, 1024))
    for _ in range(50):
        weights = step(weights, images)
    kept = [jnp.fft.fft(images), jnp.linalg.svd(images[:256, :256]), jnp.sort(images, axis=0)]
    jax.block_until_ready([weights, kept])
    hold()


def numba():
    import numpy
    from numba import cuda

    @cuda.jit
    def add(values, more):
        at = cuda.grid(1)
        if at < values.size:
            values[at] += more[at]

    one = cuda.to_device(numpy.ones(32 << 20, dtype=numpy.float32))
    other = cuda.to_device(numpy.ones(32 << 20, dtype=numpy.float32))
    stream = cuda.stream()
    for _ in range(10):
        add[(32 << 20) // 256, 256](one, other)
        add[(32 << 20) // 256, 256, stream](one, other)
    cuda.synchronize()
    hold()


def train():
    """Trains in rounds: for each line it reads it makes as many steps as it says, and prints how
    long they took."""
    import torch
    model, optimizer = torch_model(torch)
    for _ in range(20):
        torch_step(torch, model, optimizer, *torch_batch(torch))
    torch.cuda.synchronize()
    print("ready", flush=True)
    for line in sys.stdin:
        began = time.perf_counter()
        for _ in range(int(line)):
            torch_step(torch, model, optimizer, *torch_batch(torch))
        torch.cuda.synchronize()
        print(time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
