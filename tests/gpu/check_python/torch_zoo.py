# SPDX-License-Identifier: Apache-2.0
"""torch_zoo.py NAME wrong|right: one error of lifetime in PyTorch, or its corrected twin.

A program that ends well prints a line of JSON: the stream whose use is the wrong one, as findings
have it, and how Tenure serves PyTorch. What the checker must find is in the list that `animals`
makes; zoo.py compares. Every use that must be certain is a copy, or a kernel that has the address
for a parameter of its own: PyTorch's other kernels have addresses in structures.

No program waits for the device before it has done what is wrong: an event that was seen to be over
orders what came before it.
"""
import json
import sys
import threading

COUNT = 1 << 20  # float32: 4 MiB
animals = {}


def animal(*kinds):
    """What the wrong one has: one certain finding, of one of these kinds."""
    def note(function):
        animals[function.__name__] = kinds
        return function
    return note


class Machine:
    """Streams and memory that the programs share."""

    def __init__(self, torch):
        self.torch = torch
        self.main = torch.cuda.current_stream()
        self.side, self.third = torch.cuda.Stream(), torch.cuda.Stream()

    def full(self, value=1.0):
        return self.torch.full((COUNT,), value, device="cuda")

    def empty(self):
        return self.torch.empty(COUNT, device="cuda")

    def pinned(self):
        return self.torch.empty(COUNT, pin_memory=True)

    def on(self, stream):
        return self.torch.cuda.stream(stream)


# ---- memory that goes while a stream still uses it ----------------------------------------------


@animal("free_in_use")
def offload(m, wrong):
    """The copy to the host runs on its own stream; nobody tells the allocator."""
    x, host = m.full(), m.pinned()
    m.side.wait_stream(m.main)
    with m.on(m.side):
        host.copy_(x, non_blocking=True)
    if not wrong:
        x.record_stream(m.side)
    del x
    return m.side


@animal("free_in_use")
def offloaded_activation(m, wrong):
    """The same by hooks of autograd: what backward needs goes to the host, and the tensor goes."""
    torch = m.torch

    def pack(tensor):
        if not tensor.is_cuda or tensor.numel() < COUNT:
            return tensor
        host = m.pinned()
        m.side.wait_stream(m.main)
        with m.on(m.side):
            host.copy_(tensor, non_blocking=True)
        if not wrong:
            tensor.record_stream(m.side)
        return host

    w = m.full().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda host: host.to("cuda")):
        y = (w * 2).sin().sum()
    m.empty() # whatever is allocated next may have the memory, before anything is waited for
    torch.cuda.synchronize()
    y.backward()
    return m.side


@animal("free_in_use")
def prefetch(m, wrong):
    """Batches are copied on a side stream, used on the main one, and freed where they were made."""
    host, out = m.pinned(), m.empty()
    for _ in range(3):
        with m.on(m.side):
            batch = m.empty()
            batch.copy_(host, non_blocking=True)
        m.main.wait_stream(m.side)
        out.copy_(batch)
        if not wrong:
            batch.record_stream(m.main)
        del batch
    return m.main


@animal("free_in_use")
def offloaded_cache(m, wrong):
    """Layers come to the device on a stream of their own and are copied back by the main one. Their
    memory goes to the layer that comes next, on the first stream: docs/found.md."""
    layers = [m.pinned() for _ in range(3)]
    there = None
    for step in range(6):
        with m.on(m.side):
            coming = m.empty()
            coming.copy_(layers[step % 3], non_blocking=True)
        m.main.wait_stream(m.side)
        if there is not None:
            layers[(step - 1) % 3].copy_(there, non_blocking=True)
            if not wrong:
                there.record_stream(m.main)
        there = coming
        del coming
    return m.main


@animal("free_in_use")
def three_streams(m, wrong):
    """One of a chain of three is recorded, which does not wait for the one that uses the memory."""
    x, host = m.full(), m.pinned()
    m.side.wait_stream(m.main)
    with m.on(m.side):
        host.copy_(x, non_blocking=True)
    if not wrong:
        m.third.wait_stream(m.side)
    x.record_stream(m.third)
    del x
    return m.side


@animal("free_in_use")
def wrong_stream(m, wrong):
    x, host = m.full(), m.pinned()
    m.side.wait_stream(m.main)
    with m.on(m.side):
        host.copy_(x, non_blocking=True)
    x.record_stream(m.third if wrong else m.side)
    del x
    return m.side


@animal("free_in_use")
def early_event(m, wrong):
    """The event that the main stream waits for comes before the last copy."""
    x, first, second = m.full(), m.pinned(), m.pinned()
    over = m.torch.cuda.Event()
    m.side.wait_stream(m.main)
    with m.on(m.side):
        first.copy_(x, non_blocking=True)
        if wrong:
            over.record(m.side)
        second.copy_(x, non_blocking=True)
        if not wrong:
            over.record(m.side)
    m.main.wait_event(over)
    del x
    return m.side


@animal("free_in_use")
def resized_storage(m, wrong):
    """What sharded training does with gathered weights: the storage goes, the tensor stays."""
    x, host = m.full(), m.pinned()
    m.side.wait_stream(m.main)
    with m.on(m.side):
        host.copy_(x, non_blocking=True)
    if not wrong:
        m.main.wait_stream(m.side)
    x.untyped_storage().resize_(0)
    return m.side


@animal("free_in_use")
def threads(m, wrong):
    """A thread with a stream of its own is handed a tensor."""
    shared, host = [m.full()], m.pinned()
    m.side.wait_stream(m.main)

    def work():
        with m.on(m.side):
            host.copy_(shared[0], non_blocking=True)
            if not wrong:
                shared[0].record_stream(m.side)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    shared.clear()
    return m.side


@animal("free_in_use")
def kernel(m, wrong):
    """A kernel instead of a copy."""
    x = m.empty()
    m.side.wait_stream(m.main)
    with m.on(m.side):
        x.fill_(2.0)
    if not wrong:
        x.record_stream(m.side)
    del x
    return m.side


# ---- memory that is gone ------------------------------------------------------------------------


class Alias:
    """Memory that somebody else owns, by the protocol of CUDA's Python packages."""

    def __init__(self, tensor):
        self.__cuda_array_interface__ = {
            "shape": (COUNT,), "typestr": "<f4", "data": (tensor.data_ptr(), False), "version": 2}


@animal("use_after_free")
def in_place_after_free(m, wrong):
    x, source = m.full(), m.full(2.0)
    view = m.torch.as_tensor(Alias(x), device="cuda")
    if wrong:
        del x
    view.copy_(source)
    return m.main


@animal("use_after_free")
def graph_input(m, wrong):
    """A graph is replayed after the tensor that it reads has gone."""
    torch = m.torch
    x, out = m.full(), m.empty()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out.copy_(x)
    graph.replay()
    if wrong:
        del x
    graph.replay()
    torch.cuda.synchronize()
    return m.main


# ---- memory that is not there yet ---------------------------------------------------------------


@animal("use_before_allocation")
def before_allocation(m, wrong):
    """The side stream does not wait for the one that the tensor was made on."""
    x, host = m.empty(), m.pinned()
    if not wrong:
        m.side.wait_stream(m.main)
    with m.on(m.side):
        x.copy_(host, non_blocking=True)
    x.record_stream(m.side)
    del x
    return m.side


@animal("reuse_without_order")
def reuse(m, wrong):
    """The same, in memory that was another tensor's."""
    host, x = m.pinned(), m.full()
    del x
    x = m.empty()
    if not wrong:
        m.side.wait_stream(m.main)
    with m.on(m.side):
        x.copy_(host, non_blocking=True)
    x.record_stream(m.side)
    del x
    return m.side


def main():
    name, how = sys.argv[1:]
    import torch

    m = Machine(torch)
    stream = globals()[name](m, how == "wrong")
    torch.cuda.synchronize()
    tenure_torch = sys.modules.get("tenure.torch")
    print(json.dumps({"handle": stream.cuda_stream, "engine": "torch " + torch.__version__,
                      "served": tenure_torch.kind() if tenure_torch else None}))


if __name__ == "__main__":
    main()
