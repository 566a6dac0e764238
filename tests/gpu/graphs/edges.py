# SPDX-License-Identifier: Apache-2.0
"""edges.py native|tenure [engine]: what kinds of edges captured decoding layers of PyTorch's have,
and what their capture reserves.

Prints a line for each kind of edge: its type, its ports, and how many there are. An edge that
leaves a port lets a kernel begin before the one ahead of it has ended (programmatic dependent
launch). Then what 16 such layers reserve while they are captured, beside the size of one layer's
largest temporaries. `engine`: four layers of the serving engine (../serving/engine.py), at its
sizes, with 64 rows.
"""
import collections
import ctypes
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


class Edge(ctypes.Structure):
    """CUgraphEdgeData."""

    _fields_ = [("from_port", ctypes.c_ubyte), ("to_port", ctypes.c_ubyte),
                ("type", ctypes.c_ubyte), ("reserved", ctypes.c_ubyte * 5)]


def edges_of(graph):
    """(type, from_port, to_port) of all edges of a CUgraph."""
    driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t()
    ask = driver.cuGraphGetEdges_v2
    if ask(ctypes.c_void_p(graph), None, None, None, ctypes.byref(count)) != 0:
        sys.exit("cuGraphGetEdges_v2 failed")
    ends = (ctypes.c_void_p * count.value)(), (ctypes.c_void_p * count.value)()
    data = (Edge * count.value)()
    if ask(ctypes.c_void_p(graph), *ends, data, ctypes.byref(count)) != 0:
        sys.exit("cuGraphGetEdges_v2 failed")
    return [(each.type, each.from_port, each.to_port) for each in data]


def simple(torch):
    """16 layers of attention over gathered keys, and what one of them gathers, in MiB."""
    half = {"dtype": torch.bfloat16, "device": "cuda"}
    x, weight = torch.randn(64, 3072, **half), torch.randn(3072, 3072, **half)
    cache = torch.zeros(8, 4096, 16, 128, **half)
    pages = torch.arange(8192, device="cuda") % 4096

    def layers():
        out = x
        for _ in range(16):
            q = (torch.nn.functional.silu(out) @ weight).view(64, 8, 3, 128).transpose(0, 1)
            keys = cache.index_select(1, pages).view(512, -1, 128)
            scores = (q.reshape(512, 3, 128) @ keys.transpose(1, 2)).float().softmax(-1)
            y = (scores.to(torch.bfloat16) @ keys).view(8, 64, 3, 128).transpose(0, 1)
            out = out + y.reshape(64, -1) @ weight
        return out

    return layers, 256


def engine(torch):
    """Four layers of the serving engine, and what one of them gathers, in MiB."""
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "serving"))
    from engine import Model
    from serving import SIZES
    model = Model(torch, {**SIZES, "layers": 4}, "cuda")
    pages = SIZES["context"] // SIZES["page"]
    caches = [torch.zeros(2, SIZES["kv_heads"], pages, SIZES["page"], 128, dtype=torch.bfloat16,
                          device="cuda") for _ in model.layers]
    tokens = torch.zeros(64, dtype=torch.int64, device="cuda")
    table = torch.arange(pages, device="cuda").expand(64, pages).contiguous()
    return lambda: model.decode(caches, tokens, tokens, table)[0], 512


def main():
    import torch
    if sys.argv[1] == "tenure":
        import tenure.torch
        tenure.torch.install(strict=True, native=True)
    torch.set_grad_enabled(False)
    layers, gathered = (engine if sys.argv[2:] == ["engine"] else simple)(torch)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        layers()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    graph, before = torch.cuda.CUDAGraph(keep_graph=True), torch.cuda.memory_reserved()
    with torch.cuda.graph(graph):
        layers()
    grown = torch.cuda.memory_reserved() - before
    for (kind, port, to), count in sorted(collections.Counter(
            edges_of(graph.raw_cuda_graph())).items()):
        print(f"{count:5} edges of type {kind}, from port {port}, to port {to}")
    print(f"{sys.argv[1]}: the layers reserve {grown >> 20} MiB; one gathers {gathered}")


if __name__ == "__main__":
    main()
