#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""capture_torch.py --library FILE [--replays N] [--report PREFIX] [--json FILE]

A CUDA graph captured by PyTorch with all of its memory from Tenure: an MLP and an encoder layer of
a transformer with random weights. Shows that the audit reads every node and proves every address,
that replays give the same bits while another thread allocates and frees, and that the graph's pool
goes when PyTorch destroys the graph.

The library is the one that tests/gpu/capture_torch/allocator.c becomes; it brings libtenure along.
--report writes the audit to PREFIX.txt and PREFIX.json; --json the results.

Exit codes: 0 all as it must be; 1 not; 77 there is no PyTorch, or none that can do this, or no GPU.
"""
import argparse
import ctypes
import gc
import json
import os
import random
import sys
import tempfile
import threading
import time

AUDIT_TEXT, AUDIT_JSON = 0, 1


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


try:
    import torch
    import torch.nn.functional as F
except ImportError:
    skip("there is no PyTorch")


class CaptureOptions(ctypes.Structure):
    _fields_ = [("struct_bytes", ctypes.c_size_t), ("pool", ctypes.c_void_p),
                ("mode", ctypes.c_int), ("name", ctypes.c_char_p)]


class Audit(ctypes.Structure):
    NAMES = ("nodes", "kernels", "copies", "sets", "others", "children", "unread", "found",
             "proved", "unproved")
    _fields_ = [("struct_bytes", ctypes.c_size_t)] + [(name, ctypes.c_uint64) for name in NAMES]


class Tenure:
    """The few functions that are needed here; an error is an exception with Tenure's sentence."""

    SIGNATURES = {
        "tnr_capture_attach": [ctypes.POINTER(ctypes.c_uint64), ctypes.c_int, ctypes.c_void_p,
                               ctypes.POINTER(CaptureOptions)],
        "tnr_capture_ended": [ctypes.c_uint64, ctypes.c_void_p],
        "tnr_graph_launching": [ctypes.c_uint64, ctypes.c_void_p],
        "tnr_graph_audit": [ctypes.POINTER(Audit), ctypes.c_void_p, ctypes.c_uint64,
                            ctypes.c_void_p, ctypes.c_void_p],
        "tnr_graph_audit_write": [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int, ctypes.c_int],
        "tnr_trim": [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int],
        "tnr_validate": [ctypes.c_int],
    }

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.tnr_last_error.restype = ctypes.c_char_p
        self.library.tnr_stats_json.restype = ctypes.c_size_t
        self.library.tnr_stats_json.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p,
                                                ctypes.c_int]
        for name, arguments in self.SIGNATURES.items():
            getattr(self.library, name).argtypes = arguments

    def call(self, name, *arguments):
        if getattr(self.library, name)(*arguments) != 0:
            raise RuntimeError(f"{name}: {self.library.tnr_last_error().decode()}")

    def stats(self, device):
        buffer = ctypes.create_string_buffer(1 << 18)
        if self.library.tnr_stats_json(buffer, len(buffer), None, device) == 0:
            raise RuntimeError(f"tnr_stats_json: {self.library.tnr_last_error().decode()}")
        return json.loads(buffer.value)

    def attach(self, device, stream, name):
        options = CaptureOptions(ctypes.sizeof(CaptureOptions), None, 0, name.encode())
        number = ctypes.c_uint64()
        self.call("tnr_capture_attach", ctypes.byref(number), device, stream,
                  ctypes.byref(options))
        return number.value

    def audit(self, cuda_graph, number):
        sums = Audit(struct_bytes=ctypes.sizeof(Audit))
        self.call("tnr_graph_audit", ctypes.byref(sums), cuda_graph, number, None, None)
        return {name: getattr(sums, name) for name in Audit.NAMES}

    def audit_write(self, cuda_graph, number, kind, path):
        with open(path, "wb") as file:
            self.call("tnr_graph_audit_write", cuda_graph, number, kind, file.fileno())
        with open(path, encoding="utf-8") as file:
            return file.read()


class Model(torch.nn.Module):
    """Matrix products, softmax, normalisation and attention; no dropout."""

    def __init__(self):
        super().__init__()
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512),
            torch.nn.LayerNorm(512))
        self.encoder = torch.nn.TransformerEncoderLayer(
            d_model=512, nhead=8, dim_feedforward=2048, dropout=0.0, batch_first=True)
        self.out = torch.nn.Linear(512, 512)

    def forward(self, x):
        x = self.encoder(self.mlp(x))
        heads = x.view(x.shape[0], x.shape[1], 8, 64).transpose(1, 2)
        x = F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).reshape(x.shape)
        return F.softmax(self.out(x), dim=-1)


class Noise(threading.Thread):
    """Allocates, fills, looks and frees on a stream of its own until it is stopped."""

    def __init__(self, device):
        super().__init__(daemon=True)
        self.device = device
        self.stopping = threading.Event()
        self.rounds, self.error = 0, None

    def run(self):
        try:
            self.work()
        except BaseException as error:  # told to the main thread, which fails
            self.error = error

    def work(self):
        draw = random.Random(5)
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(torch.cuda.Stream()), torch.no_grad():
            held = []
            while not self.stopping.is_set():
                value = self.rounds & 0x7f
                held.append((value, torch.full((draw.randrange(1, 1 << 22),), value,
                                               dtype=torch.uint8, device="cuda")))
                if len(held) > 16:
                    value, block = held.pop(draw.randrange(len(held)))
                    if not bool((block == value).all()):
                        raise RuntimeError(f"a block of {value} was overwritten")
                self.rounds += 1

    def stop(self):
        self.stopping.set()
        self.join(60)
        if self.is_alive():
            raise RuntimeError("the other thread does not end")
        if self.error is not None:
            raise self.error


class Checks:
    def __init__(self):
        self.failed = 0

    def that(self, good, what):
        print(f"{'ok    ' if good else 'FAILED'} {what}", flush=True)
        self.failed += not good


def use_tenure(path):
    """Makes Tenure PyTorch's allocator, before it has one."""
    allocator = torch.cuda.memory.CUDAPluggableAllocator(
        path, "capture_torch_malloc", "capture_torch_free")
    library = ctypes.CDLL(path)
    inner = allocator.allocator()
    if hasattr(inner, "set_record_stream_fn"):
        inner.set_record_stream_fn(
            ctypes.cast(library.capture_torch_record, ctypes.c_void_p).value)
    torch.cuda.memory.change_current_allocator(allocator)
    return allocator


def capture(tenure, model, given, stream):
    """The graph, its number with Tenure, and its output."""
    device = torch.cuda.current_device()
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.stream(stream):
        for _ in range(3):  # libraries get their workspaces now, outside of the capture
            model(given)
        torch.cuda.synchronize()
        graph.capture_begin()
        try:
            number = tenure.attach(device, stream.cuda_stream, "mlp and encoder")
            result = model(given)
        finally:
            graph.capture_end()
    tenure.call("tnr_capture_ended", number, graph.raw_cuda_graph())
    return graph, number, result


def audit(tenure, graph, number, prefix, check):
    raw = graph.raw_cuda_graph()
    sums = tenure.audit(raw, number)
    text = tenure.audit_write(raw, number, AUDIT_TEXT, prefix + ".txt")
    document = json.loads(tenure.audit_write(raw, number, AUDIT_JSON, prefix + ".json"))
    print(text)
    verdicts = {}
    for finding in document["findings"]:
        verdicts[finding["verdict"]] = verdicts.get(finding["verdict"], 0) + 1
    check.that(sums["kernels"] > 0 and sums["found"] > 0,
               f"{sums['nodes']} nodes, {sums['kernels']} kernels, {sums['found']} addresses")
    check.that(sums["unread"] == 0, f"{sums['unread']} nodes unread")
    check.that(sums["unproved"] == 0, f"{sums['unproved']} addresses unproved")
    check.that(verdicts.get("OWN", 0) > 0 and verdicts.get("KEPT", 0) > 0, f"verdicts {verdicts}")
    check.that(document["sums"] == sums and document["is_proved"], "text, JSON and sums agree")
    named = {finding["kernel"] for finding in document["findings"] if finding["kernel"]}
    check.that(len(named) > 1, f"{len(named)} kernels have a name")
    return dict(sums, verdicts=verdicts)


def replay(tenure, graph, number, result, stream, replays, check):
    """Replays give the same bits each time, while another thread is at work."""
    noise = Noise(torch.cuda.current_device())
    with torch.cuda.stream(stream):
        tenure.call("tnr_graph_launching", number, stream.cuda_stream)
        graph.replay()
        first = result.clone()
        torch.cuda.synchronize()
        noise.start()
        began, same = time.monotonic(), 0
        try:
            for _ in range(replays):
                result.zero_()
                tenure.call("tnr_graph_launching", number, stream.cuda_stream)
                graph.replay()
                same += torch.equal(first.view(torch.int16), result.view(torch.int16))
        finally:
            noise.stop()
        seconds = time.monotonic() - began
    check.that(same == replays,
               f"{same} of {replays} replays gave the same bits, in {seconds:.1f} s")
    check.that(noise.rounds > 16, f"the other thread made {noise.rounds} rounds meanwhile")
    return first, dict(replays=replays, same=same, seconds=seconds, rounds=noise.rounds)


def gone(tenure, device, pools, seconds=20.0):
    """Whether the device comes back to so many pools: the driver tells of a graph's end later."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        tenure.call("tnr_trim", None, ctypes.c_size_t(-1), device)
        if tenure.stats(device)["pools"] == pools:
            return True
        time.sleep(0.05)
    return False


def run(options, check):
    tenure = Tenure(options.library)
    allocator = use_tenure(options.library)
    torch.manual_seed(1)
    device = torch.cuda.current_device()
    stream = torch.cuda.Stream()
    results = dict(device=torch.cuda.get_device_name(device), torch=torch.__version__,
                   cuda=torch.version.cuda)
    print(" ".join(f"{key}: {value}" for key, value in results.items()), flush=True)
    with torch.no_grad():
        model = Model().half().cuda().eval()
        given = torch.randn(4, 128, 512, dtype=torch.float16, device="cuda")
        eager = model(given)
        torch.cuda.synchronize()
        pools = tenure.stats(device)["pools"]
        graph, number, result = capture(tenure, model, given, stream)
        check.that(tenure.stats(device)["pools"] == pools + 1, "the graph has a pool of its own")
        results["audit"] = audit(tenure, graph, number, options.report, check)
        graph.instantiate()
        first, results["replay"] = replay(tenure, graph, number, result, stream, options.replays,
                                          check)
        check.that(torch.allclose(first, eager, rtol=1e-2, atol=1e-4),
                   f"the graph's result is the eager one, but for "
                   f"{float((first - eager).abs().max()):.2g}")
    after = tenure.audit(graph.raw_cuda_graph(), number)
    check.that(all(results["audit"][key] == after[key] for key in after),
               "the audit says the same after the replays")
    graph.reset()
    del graph, result
    if hasattr(torch._C, "_cuda_clearCublasWorkspaces"):
        torch._C._cuda_clearCublasWorkspaces()  # should one have been made in the capture
    gc.collect()
    torch.cuda.synchronize()
    check.that(gone(tenure, device, pools), "the graph's pool is gone with the graph")
    tenure.call("tnr_validate", -1)
    check.that(tenure.library.capture_torch_failures() == 0, "no call of the allocator failed")
    return results, allocator


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="the allocator for PyTorch")
    parser.add_argument("--replays", type=int, default=1000)
    parser.add_argument("--report", metavar="PREFIX", help="where the audit goes")
    parser.add_argument("--json", metavar="FILE", help="where the results go")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        skip(f"PyTorch {torch.__version__} finds no GPU")
    if not hasattr(torch.cuda.CUDAGraph, "raw_cuda_graph"):
        skip(f"PyTorch {torch.__version__} does not tell a graph's handle (2.8 does)")
    check = Checks()
    with tempfile.TemporaryDirectory() as folder:
        if options.report is None:
            options.report = os.path.join(folder, "audit")
        results, allocator = run(options, check)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=2)
            file.write("\n")
    print(f"{check.failed} checks failed" if check.failed else "all checks passed", flush=True)
    del allocator
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
