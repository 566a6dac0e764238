# SPDX-License-Identifier: Apache-2.0
"""edges.py native|tenure: what kinds of edges a captured decoding layer of PyTorch's has, and what
its capture reserves.

Prints a line for each kind of edge: its type, its ports, and how many there are. An edge that
leaves a port lets a kernel begin before the one ahead of it has ended (programmatic dependent
launch). Then what 16 such layers reserve while they are captured, beside the size of one layer's
largest temporaries.
"""
import collections
import ctypes
import sys


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


def main():
    import torch
    if sys.argv[1] == "tenure":
        import tenure.torch
        tenure.torch.install(strict=True, native=True)
    torch.set_grad_enabled(False)
    half = {"dtype": torch.bfloat16, "device": "cuda"}
    x, weight = torch.randn(64, 3072, **half), torch.randn(3072, 3072, **half)
    cache = torch.zeros(8, 4096, 16, 128, **half)
    pages = torch.arange(8192, device="cuda") % 4096

    def layer(x):
        q = (torch.nn.functional.silu(x) @ weight).view(64, 8, 3, 128).transpose(0, 1)
        keys = cache.index_select(1, pages).view(512, -1, 128)  # 256 MiB
        scores = (q.reshape(512, 3, 128) @ keys.transpose(1, 2)).float().softmax(-1)
        y = (scores.to(torch.bfloat16) @ keys).view(8, 64, 3, 128).transpose(0, 1)
        return x + y.reshape(64, -1) @ weight

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        layer(x)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    graph, before = torch.cuda.CUDAGraph(keep_graph=True), torch.cuda.memory_reserved()
    with torch.cuda.graph(graph):
        out = x
        for _ in range(16):
            out = layer(out)
    grown = torch.cuda.memory_reserved() - before
    for (kind, port, to), count in sorted(collections.Counter(
            edges_of(graph.raw_cuda_graph())).items()):
        print(f"{count:5} edges of type {kind}, from port {port}, to port {to}")
    print(f"{sys.argv[1]}: 16 layers reserve {grown >> 20} MiB; a layer's keys have 256 MiB")


if __name__ == "__main__":
    main()
