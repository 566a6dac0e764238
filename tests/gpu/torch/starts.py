# SPDX-License-Identifier: Apache-2.0
"""starts.py [--only REGEX] [--list]

Every way that we know of in which PyTorch starts CUDA, each as the first line of a program that
knows nothing of Tenure, under `python3 -m tenure.torch run`: PyTorch's memory must be Tenure's, and
nothing may be said. What a way does before it starts CUDA is its own business: some start nothing,
and the program's next line does.

Exit codes: 0 all are good; 1 not; 2 wrong usage; 77 there is no PyTorch or no GPU.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor

SECONDS_MAX = 400
CHECK = """
import tenure, tenure.torch
x_ = torch.ones(1 << 20, device="cuda")
assert float(x_.sum()) == 1 << 20
assert tenure.torch.kind() == "native", tenure.torch.kind()
assert tenure.stats()["allocated_bytes.all.current"] >= 4 << 20
"""
WAYS = {
    # through Python
    "tensor": "torch.tensor([1.0], device='cuda')",
    "empty": "torch.empty(3, device='cuda')",
    "cuda": "torch.ones(3).cuda()",
    "to": "torch.nn.Linear(3, 3).to('cuda')",
    "init": "torch.cuda.init()",
    "c_init": "torch._C._cuda_init()",
    "lazy_init": "torch.cuda._lazy_init()",
    "set_device": "torch.cuda.set_device(0)",
    "c_set_device": "torch._C._cuda_setDevice(0)",
    "exchange_device": "torch._C._cuda_exchangeDevice(0)",
    "device_guard": "torch.cuda.device(0).__enter__()",
    "synchronize": "torch.cuda.synchronize()",
    "properties": "torch.cuda.get_device_properties(0)",
    "event": "torch.cuda.Event().record()",
    "stream": "torch.cuda.Stream()",
    "generic_stream": "torch.Stream('cuda')",
    "external_stream": "torch.cuda.ExternalStream(0)",
    "generator": "torch.Generator(device='cuda').manual_seed(1)",
    "seed": "torch.manual_seed(1)",
    "rng_state": "torch.cuda.get_rng_state()",
    "storage": "torch.UntypedStorage(10, device='cuda')",
    "fraction": "torch.cuda.set_per_process_memory_fraction(0.5)",
    "raw": "torch.cuda.caching_allocator_alloc(1000)",
    "mempool": "pool = torch.cuda.MemPool()",
    "graph": "graph = torch.cuda.CUDAGraph()",
    "accelerator": "torch.accelerator.synchronize()",
    "blas": "torch.cuda.current_blas_handle()",
    "cudart": "torch.cuda.cudart()",
    "thread": """
        import threading
        thread = threading.Thread(target=lambda: torch.empty(3, device="cuda"))
        thread.start(); thread.join()""",
    "load": """
        import io
        file = io.BytesIO(); torch.save(torch.ones(3), file); file.seek(0)
        torch.load(file, map_location="cuda")""",
    "compile": "torch.compile(lambda: torch.ones(5, device='cuda') * 2)()",
    # in C++ alone
    "history": "torch.cuda.memory._record_memory_history()",
    "history_off": "torch.cuda.memory._record_memory_history(enabled=None)",
    "observer": "torch._C._cuda_attach_out_of_memory_observer(lambda *facts: None)",
    "pin_memory": "torch.ones(3).pin_memory()",
    "pinned": "torch.empty(3, pin_memory=True)",
    "operator": "torch.ops.aten.empty.memory_format([4], device='cuda')",
    "operator_to": "torch.ops.aten._to_copy(torch.ones(3), device='cuda')",
    "inductor": "torch._C._dynamo.guards._empty_strided_cuda((4,), (1,), torch.float32)",
    "script": """
        made = torch.jit.CompilationUnit(
            "def f(count: int):\\n    return torch.ones([count], device='cuda')\\n")
        made.f(3)""",
    "operator_in_a_thread": """
        import threading
        thread = threading.Thread(
            target=lambda: torch.ops.aten.empty.memory_format([4], device="cuda"))
        thread.start(); thread.join()""",
    "two_threads": """
        import threading
        both = [threading.Thread(target=start) for start in (
            lambda: torch.ops.aten.empty.memory_format([4], device="cuda"),
            lambda: torch.empty(4, device="cuda"))]
        [one.start() for one in both]; [one.join() for one in both]""",
    # settings that PyTorch reads when it starts
    "settings": "torch.cuda.memory._set_allocator_settings('max_split_size_mb:100')",
    "backend": "torch.cuda.memory._set_allocator_settings('backend:native')",
    # other processes
    "loader": """
        loader = torch.utils.data.DataLoader(torch.arange(64.0), batch_size=8, num_workers=2,
                                             pin_memory=True)
        assert sum(float(batch.sum()) for batch in loader) == 2016""",
}
# Programs of several processes. Each prints "good" once for each process that has checked.
PROCESSES = {
    "fork": (2, """
        import os, sys, torch
        child = os.fork()
        torch.ones(3).pin_memory()
        CHECK
        print("good", flush=True)
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0"""),
    "spawn": (3, """
        import torch, torch.multiprocessing
        def work(rank):
            torch.ops.aten.empty.memory_format([4], device="cuda")
            CHECK
            print("good", flush=True)
        if __name__ == "__main__":
            torch.multiprocessing.spawn(work, nprocs=2)
            work(0)"""),
    "torchrun": (2, """
        import torch, torch.distributed
        torch.distributed.init_process_group("gloo")
        torch.ones(3).pin_memory()
        CHECK
        torch.distributed.barrier()
        print("good", flush=True)
        torch.distributed.destroy_process_group()"""),
}


def indented(text, spaces):
    return textwrap.indent(textwrap.dedent(text).strip(), " " * spaces).lstrip()


def program(name):
    """Its text, the words of the command, and how often it prints "good"."""
    if name in PROCESSES:
        count, text = PROCESSES[name]
        text = textwrap.dedent(text).strip() + "\n"
        line = next(line for line in text.splitlines() if line.strip() == "CHECK")
        spaces = len(line) - len(line.lstrip())
        text = text.replace("CHECK", indented(CHECK, spaces))
        words = (["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
                 if name == "torchrun" else [])
        return text, words, count
    text = "import torch\n" + textwrap.dedent(WAYS[name]).strip() + "\n" + CHECK
    return text + "print('good')\n", [], 1


def run(name, folder):
    text, words, count = program(name)
    script = os.path.join(folder, name + ".py")
    with open(script, "w", encoding="utf-8") as file:
        file.write(text)
    done = subprocess.run(
        [sys.executable, "-B", "-m", "tenure.torch", "run", *words, script], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS_MAX, check=False,
        env=dict(os.environ, OMP_NUM_THREADS="1"))
    words = [line for line in done.stderr.splitlines() if line.startswith("tenure: ")]
    if done.returncode == 0 and done.stdout.count("good") == count and not words:
        return None
    return f"ended with {done.returncode}: {done.stdout}{done.stderr[-2000:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[1])
    parser.add_argument("--only", default="", help="those whose names match")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    names = [name for name in (*WAYS, *PROCESSES) if re.search(options.only, name)]
    if options.list:
        print("\n".join(names))
        return 0
    ready = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.cuda.is_available())"], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if ready.stdout.strip() != "True":
        print("skipped: there is no PyTorch, or no GPU that it can use")
        return 77
    built = subprocess.run([sys.executable, "-m", "tenure.torch", "build"], check=False)
    if built.returncode != 0:
        return 1
    bad = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(
            max(1, min(8, (os.cpu_count() or 1) // 2))) as pool:
        for name, problem in zip(names, pool.map(lambda name: run(name, folder), names)):
            print(f"{name}: {'good' if problem is None else problem}", flush=True)
            bad += problem is not None
    print(f"{len(names) - bad} of {len(names)} are good")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
