# SPDX-License-Identifier: Apache-2.0
"""The program that asleep.py and checkpoint.py rule from outside: weights, a cache and captured
graphs, told what to do by lines of JSON. Its engine is PyTorch with Tenure, PyTorch with its own
allocator ("native"), or the driver alone, with memory of libtenure's ("driver"), which also runs on
the simulated device.

Weights have the tag "weights" and are kept; the cache has "kv_cache", is lost in a sleep and filled
again with the same values; what graphs allocate has "graphs". What churn() holds has no tag, or
that of the weights.
"""
import ctypes
import hashlib
import json
import os
import random
import sys
import time

MIB = 1 << 20
PIECE = 256 * MIB  # of pinned memory, for the link
HELD_MAX = 24


def median(values):
    return sorted(values)[len(values) // 2]


class Engine:
    """What both do alike. A held block is (value, memory, is_tagged); value is in all its bytes."""

    def __init__(self, options):
        self.options, self.held = options, []

    def reserved(self):
        import tenure
        return tenure.stats()["reserved_bytes.all.current"]

    def churn(self, seed, sleeping):
        """Frees, and allocates where it may: nowhere while all ``sleeping``, outside of the tags
        while "tags" do. Returns how many blocks had wrong contents when they were freed."""
        draw, wrong = random.Random(seed), 0
        for _ in range(HELD_MAX):
            if self.held and (sleeping == "all" or len(self.held) > draw.randrange(HELD_MAX)):
                value, memory, is_tagged = self.held.pop(draw.randrange(len(self.held)))
                wrong += sleeping == "" and not self.holds(memory, value)
                self.drop(memory)
            elif sleeping != "all":
                is_tagged = sleeping == "" and draw.random() < 0.5
                value = draw.randrange(256)
                size = int(2 ** draw.uniform(10, self.options["churn_bits"]))
                self.held.append((value, self.block(size, value, is_tagged), is_tagged))
        return wrong

    def nap(self, pinned, rounds):
        """Sleeps and wakes of the weights alone, from inside: the median seconds of each, and how
        many bytes are copied. The first is not counted: it pins memory."""
        from tenure import tags
        count = tags.stats("weights")["bytes_live"]
        times = []
        for _ in range(rounds + 1):
            began = time.monotonic()
            tags.sleep("weights", pinned_bytes_max=pinned, keep_backing=True)
            asleep = time.monotonic()
            tags.wake("weights")
            self.wait()
            times.append((asleep - began, time.monotonic() - asleep))
        from tenure import _library
        _library.call("tnr_sleep_prepare", ctypes.c_size_t(0), 0)
        return {"sleep": median([each[0] for each in times[1:]]),
                "wake": median([each[1] for each in times[1:]]), "bytes": count}

    def link(self, count, rounds):
        """Median seconds for so many bytes out of pinned memory into the device's."""
        times = []
        self.wait()
        for _ in range(rounds):
            began = time.monotonic()
            for _ in range(count // self.piece):
                self.copy_in()
            self.wait()
            times.append((time.monotonic() - began) * count / (count // self.piece * self.piece))
        return median(times)


# ---- PyTorch ------------------------------------------------------------------------------------


class Torch(Engine):
    def __init__(self, options):
        super().__init__(options)
        import contextlib
        import torch
        self.torch, self.piece = torch, PIECE
        self.is_native = options["engine"] == "native"
        if self.is_native:
            self.region = lambda tag, content=None: contextlib.nullcontext()
        else:
            import tenure.torch
            tenure.torch.install(strict=True)
            self.region = tenure.torch.region
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.set_grad_enabled(False)

    def reserved(self):
        return self.torch.cuda.memory_reserved() if self.is_native else super().reserved()

    def wait(self):
        self.torch.cuda.synchronize()

    def context(self):
        self.torch.cuda.init()
        self.wait()

    def memory(self):
        """A transformer that decodes one token, for batches of each size."""
        torch, options = self.torch, self.options
        half = {"dtype": torch.bfloat16, "device": "cuda"}
        wide, heads = options["width"], options["width"] // 128
        with self.region("weights"):
            self.layers = [[torch.empty(wide, size, **half)
                            for size in (3 * wide, wide, 4 * wide)] +
                           [torch.empty(4 * wide, wide, **half)]
                           for _ in range(options["layers"])]
            self.inputs = torch.empty(options["graphs"], wide, **half)
        with self.region("kv_cache", content="discard"):
            self.cache = torch.empty(options["layers"], 2, options["graphs"], heads,
                                     options["context"], 128, **half)
        self.load()
        self.refill()

    def normal(self, seed, *tensors):
        draw = self.torch.Generator(device="cuda").manual_seed(seed)
        for tensor in tensors:
            tensor.normal_(0, 0.02, generator=draw)

    def load(self):
        self.normal(1, self.inputs, *(each for layer in self.layers for each in layer))

    def refill(self):
        self.normal(2, *self.cache)

    def step(self, batch):
        torch, x = self.torch, self.inputs[:batch]
        heads = self.options["width"] // 128
        for layer, (qkv, out, up, down) in enumerate(self.layers):
            q, k, v = (torch.nn.functional.layer_norm(x, x.shape[-1:]) @ qkv).view(
                batch, 3, heads, 1, 128).unbind(1)
            keys, values = self.cache[layer, 0, :batch], self.cache[layer, 1, :batch]
            keys[:, :, -1:].copy_(k)
            values[:, :, -1:].copy_(v)
            y = torch.nn.functional.scaled_dot_product_attention(q, keys, values)
            x = x + y.reshape(batch, -1) @ out
            y = torch.nn.functional.layer_norm(x, x.shape[-1:]) @ up
            x = x + torch.nn.functional.gelu(y) @ down
        return x

    def modules(self):
        """Each size once without a graph, so that all kernels are loaded."""
        side = self.torch.cuda.Stream()
        side.wait_stream(self.torch.cuda.current_stream())
        with self.torch.cuda.stream(side):
            for batch in range(1, self.options["graphs"] + 1):
                self.step(batch)
        self.torch.cuda.current_stream().wait_stream(side)
        del side
        for value in (1, 2):  # what the later steps use besides
            self.drop(self.checked(self.block(1 << 20, value, False), value))
        self.outputs_of([self.step(1)])
        self.link_open()
        self.wait()

    def graphs(self):
        torch, self.captured, self.out = self.torch, [], []
        with self.region("graphs"):
            pool = torch.cuda.graph_pool_handle()
            for batch in range(self.options["graphs"], 0, -1):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=pool):
                    out = self.step(batch)
                self.captured.append(graph)
                self.out.append(out)
        for graph in self.captured:
            graph.replay()
        self.wait()

    def outputs_of(self, tensors):
        text = hashlib.sha256()
        for each in tensors:
            text.update(each.cpu().view(self.torch.uint8).numpy().tobytes())
        return text.hexdigest()

    def outputs(self):
        for graph, out in zip(self.captured, self.out):
            out.zero_()
            graph.replay()
        if not all(bool(out.isfinite().all() and out.any()) for out in self.out):
            raise RuntimeError("the graphs give nothing, or no numbers")
        return self.outputs_of(self.out)

    def block(self, size, value, is_tagged):
        with self.region("weights") if is_tagged else self.region_none():
            return self.torch.full((size,), value, dtype=self.torch.uint8, device="cuda")

    @staticmethod
    def region_none():
        import contextlib
        return contextlib.nullcontext()

    def holds(self, memory, value):
        return bool((memory == value).all())

    def checked(self, memory, value):
        if not self.holds(memory, value):
            raise RuntimeError("a new block has not the value that it was filled with")
        return memory

    def drop(self, memory):
        del memory

    def link_open(self):
        self.pinned = self.torch.empty(self.piece, dtype=self.torch.uint8, pin_memory=True)
        self.target = self.torch.empty(self.piece, dtype=self.torch.uint8, device="cuda")
        self.copy_in()
        self.target = None

    def copy_in(self):
        self.target.copy_(self.pinned, non_blocking=True)

    def link(self, count, rounds):
        self.target = self.torch.empty(self.piece, dtype=self.torch.uint8, device="cuda")
        seconds = super().link(count, rounds)
        self.target = None
        return seconds


# ---- the driver alone ---------------------------------------------------------------------------


class CaptureOptions(ctypes.Structure):
    """tnr_capture_options."""

    _fields_ = [("struct_bytes", ctypes.c_size_t), ("pool", ctypes.c_void_p),
                ("mode", ctypes.c_int), ("name", ctypes.c_char_p)]


class Driver(Engine):
    """A weight for each graph, which copies it, and the cache's first bytes, through memory that is
    allocated inside the capture."""

    BYTES = 4096

    def __init__(self, options):
        super().__init__(options)
        from tenure import _library, tags
        self.tenure, self.tags = _library, tags
        self.gpu = ctypes.CDLL(options["driver"])
        self.size, self.piece = options["weight_mib"] * MIB, min(PIECE, options["weight_mib"] * MIB)

    def call(self, name, *arguments):
        status = getattr(self.gpu, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name}: error {status}")

    def wait(self):
        self.call("cuCtxSynchronize")

    def context(self):
        context, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)
        self.tenure.call("tnr_init")

    def malloc(self, size):
        ptr = ctypes.c_void_p()
        self.tenure.call("tnr_malloc", ctypes.byref(ptr), ctypes.c_size_t(size), 0, self.stream)
        return ptr.value

    def set(self, at, value, size):
        self.call("cuMemsetD8Async", ctypes.c_uint64(at), value, ctypes.c_size_t(size), self.stream)

    def copy(self, to, at, size):
        self.call("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(to), ctypes.c_uint64(at),
                  ctypes.c_size_t(size), self.stream)

    def read(self, at, size):
        into = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoHAsync_v2", into, ctypes.c_uint64(at), ctypes.c_size_t(size),
                  self.stream)
        self.wait()
        return into.raw

    def memory(self):
        with self.tags.region("weights"):
            self.weights = [self.malloc(self.size) for _ in range(self.options["graphs"])]
        with self.tags.region("kv_cache", content="discard"):
            self.cache = self.malloc(self.size)
        self.load()
        self.refill()

    def load(self):
        for index, each in enumerate(self.weights):
            self.set(each, index + 1, self.size)

    def refill(self):
        self.set(self.cache, 0x5a, self.size)

    def modules(self):
        self.pinned, self.target = ctypes.c_void_p(), self.malloc(self.piece)
        self.call("cuMemHostAlloc", ctypes.byref(self.pinned), ctypes.c_size_t(self.piece), 0)
        self.copy_in()
        self.wait()

    def graphs(self):
        self.captured, self.out = [], []
        with self.tags.region("graphs"):
            for weight in self.weights:
                self.tenure.call("tnr_capture_begin", 0, self.stream, None)
                through, out = self.malloc(2 * self.BYTES), self.malloc(2 * self.BYTES)
                self.copy(through, weight + self.size - self.BYTES, self.BYTES)
                self.copy(through + self.BYTES, self.cache, self.BYTES)
                self.copy(out, through, 2 * self.BYTES)
                graph, number, launched = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
                self.tenure.call("tnr_free", ctypes.c_void_p(through))
                self.tenure.call("tnr_capture_end", ctypes.byref(graph), ctypes.byref(number), 0,
                                 self.stream)
                self.call("cuGraphInstantiateWithFlags", ctypes.byref(launched), graph,
                          ctypes.c_ulonglong(0))
                self.captured.append((number, launched))
                self.out.append(out)
        self.replay()

    def replay(self):
        for number, launched in self.captured:
            self.tenure.call("tnr_graph_launch", number, launched, self.stream)
        self.wait()

    def outputs(self):
        for each in self.out:
            self.set(each, 0, 2 * self.BYTES)
        self.replay()
        text = hashlib.sha256()
        for each in self.out:
            text.update(self.read(each, 2 * self.BYTES))
        return text.hexdigest()

    def block(self, size, value, is_tagged):
        import contextlib
        with self.tags.region("weights") if is_tagged else contextlib.nullcontext():
            at = self.malloc(size)
        self.set(at, value, size)
        return at, size

    def holds(self, memory, value):
        return self.read(*memory) == bytes([value]) * memory[1]

    def drop(self, memory):
        self.tenure.call("tnr_free", ctypes.c_void_p(memory[0]))

    def copy_in(self):
        self.call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(self.target), self.pinned,
                  ctypes.c_size_t(self.piece), self.stream)


# ---- being told ---------------------------------------------------------------------------------


def do(engine, request):
    what = request.pop("do")
    said = getattr(engine, what)(**request)
    if what in ("context", "memory", "modules", "graphs"):
        said = engine.reserved()
    return said


def main():
    options = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what an engine prints is no answer
    try:
        engine = (Driver if options["engine"] == "driver" else Torch)(options)
    except ImportError as error:
        print(json.dumps({"lacks": str(error)}), file=answers, flush=True)
        return
    for line in sys.stdin:
        try:
            said = {"is": do(engine, json.loads(line))}
        except Exception as error:  # told to who asked
            said = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(said), file=answers, flush=True)


if __name__ == "__main__":
    main()
