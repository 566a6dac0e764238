# SPDX-License-Identifier: Apache-2.0
"""engine.py OPTIONS: a small serving engine on PyTorch, told what to do by lines of JSON.

A decoder with random weights: attention with fewer heads for keys and values, a cache of pages,
prompts of many lengths prefilled together without a graph, decoding by captured graphs for 40 batch
sizes from 1 to 64, requests that come and go between steps. The next token is the likeliest one, so
the same requests give the same tokens.

OPTIONS is JSON: the allocator ("native", "expandable", "tenure"), the bytes that it may have, and
the sizes of the model (SIZES in serving.py). With Tenure, memory has the tags "weights", "kv_cache"
and "graphs". Each line read is {"do": NAME, ...}, a method of Engine; each answer is a line
{"is": ...} or {"error": ...}.
"""
import contextlib
import gc
import hashlib
import json
import os
import random
import struct
import sys
import time
import traceback

from schedule import GRAPH_SIZES, Schedule, requests_drawn

HEAD = 128  # numbers of a head
CACHE_TAGS, ALL_TAGS = ("kv_cache",), ("weights", "kv_cache", "graphs")


def environment(allocator):
    """Must be set before PyTorch is imported."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        os.environ.pop(name, None)
    if allocator == "expandable":
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"


def is_out_of_memory(torch, error):
    """Whether memory was short: also where a capture then failed for that."""
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, torch.cuda.OutOfMemoryError) or "out of memory" in str(error).lower():
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


class Model:
    """The decoder. Its functions are the same inside and outside of a capture."""

    def __init__(self, torch, options, device):
        self.torch, self.device, self.context = torch, device, options["context"]
        self.page, self.kv_heads = options["page"], options["kv_heads"]
        self.wide, self.heads = options["width"], options["width"] // HEAD
        self.kv_wide, self.dtype = self.kv_heads * HEAD, torch.bfloat16
        draw = torch.Generator(device=device).manual_seed(options["seed"])

        def weight(*shape):
            made = torch.empty(*shape, dtype=self.dtype, device=device)
            return made.normal_(0, shape[-2] ** -0.5, generator=draw)

        self.embedding = weight(options["vocabulary"], self.wide)
        self.layers = [(weight(self.wide, self.wide + 2 * self.kv_wide),
                        weight(self.wide, self.wide), weight(self.wide, 2 * options["mlp"]),
                        weight(options["mlp"], self.wide)) for _ in range(options["layers"])]
        self.head = weight(self.wide, options["vocabulary"])
        steps = 10000.0 ** (-torch.arange(0, HEAD, 2, device=device).float() / HEAD)
        turns = torch.outer(torch.arange(self.context, device=device).float(), steps)
        self.cos, self.sin = turns.cos().unsqueeze(1), turns.sin().unsqueeze(1)
        self.count = torch.arange(self.context, device=device)

    def normed(self, x):
        wide = x.float()
        return (wide * self.torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)

    def turned(self, x, positions):
        """Rotary positions; x is [tokens, heads, HEAD]."""
        cos, sin = self.cos[positions], self.sin[positions]
        first, second = x.float().chunk(2, -1)
        return self.torch.cat((first * cos - second * sin, second * cos + first * sin),
                              -1).to(x.dtype)

    def projected(self, x, qkv, positions):
        q, k, v = (self.normed(x) @ qkv).split((self.wide, self.kv_wide, self.kv_wide), -1)
        return (self.turned(q.reshape(-1, self.heads, HEAD), positions),
                self.turned(k.reshape(-1, self.kv_heads, HEAD), positions),
                v.reshape(-1, self.kv_heads, HEAD))

    def stored(self, cache, slots, k, v):
        """cache is [2, kv_heads, pages, page, HEAD]."""
        for which, values in enumerate((k, v)):
            cache[which].view(self.kv_heads, -1, HEAD).index_copy_(1, slots, values.transpose(0, 1))

    def fed(self, x, up, down):
        gate, up = (self.normed(x) @ up).chunk(2, -1)
        return x + (self.torch.nn.functional.silu(gate) * up) @ down

    def best(self, x):
        return (self.normed(x) @ self.head).float().max(-1)

    def prefill(self, caches, tokens, positions, slots, lengths):
        """Of several prompts, one after the other in one tensor: their first new tokens."""
        attend, x = self.torch.nn.functional.scaled_dot_product_attention, self.embedding[tokens]
        for cache, (qkv, out, up, down) in zip(caches, self.layers):
            q, k, v = self.projected(x, qkv, positions)
            self.stored(cache, slots, k, v)
            each = zip(*(part.split(lengths) for part in (q, k, v)))
            y = self.torch.cat([
                attend(*(part.transpose(0, 1).unsqueeze(0) for part in parts), is_causal=True,
                       enable_gqa=True).squeeze(0).transpose(0, 1) for parts in each])
            x = self.fed(x + y.reshape(-1, self.wide) @ out, up, down)
        ends = self.torch.tensor(lengths, device=self.device).cumsum(0) - 1
        return self.best(x[ends])

    def attended(self, cache, q, table, bias):
        """One query for each row, over all pages of its table."""
        rows, several = q.shape[0], self.heads // self.kv_heads
        pages = table.reshape(-1)
        k, v = (cache[which].index_select(1, pages).view(self.kv_heads * rows, -1, HEAD)
                for which in (0, 1))
        q = q.view(rows, self.kv_heads, several, HEAD).transpose(0, 1).reshape(-1, several, HEAD)
        scores = (q @ k.transpose(1, 2)).float().view(self.kv_heads, rows, several, -1)
        shares = (scores * HEAD ** -0.5 + bias).softmax(-1).to(self.dtype)
        y = shares.view(self.kv_heads * rows, several, -1) @ v
        return y.view(self.kv_heads, rows, several, HEAD).transpose(0, 1).reshape(rows, self.wide)

    def decode(self, caches, tokens, positions, table):
        """A token for each row, at its position."""
        slots = table.gather(1, (positions // self.page).unsqueeze(1)).squeeze(1)
        slots = slots * self.page + positions % self.page
        is_later = self.count > positions.unsqueeze(1)
        bias = self.torch.zeros(is_later.shape, device=self.device)
        bias = bias.masked_fill(is_later, float("-inf")).unsqueeze(1)
        x = self.embedding[tokens]
        for cache, (qkv, out, up, down) in zip(caches, self.layers):
            q, k, v = self.projected(x, qkv, positions)
            self.stored(cache, slots, k, v)
            x = self.fed(x + self.attended(cache, q, table, bias) @ out, up, down)
        return self.best(x)


class Engine:
    """The model, its cache and its graphs. The cache and the graphs are for a largest batch."""

    device = "cuda"

    def __init__(self, options):
        self.options, self.caches, self.graphs = options, [], {}
        self.is_capturing = False
        self.start()
        with self.region("weights"):
            self.model = Model(self.torch, options, self.device)
        most, pages = GRAPH_SIZES[-1], options["context"] // options["page"]
        number = {"dtype": self.torch.int64}
        self.tokens, self.positions = self.torch.zeros(2, most, device=self.device, **number)
        self.tables = self.torch.zeros(most, pages, device=self.device, **number)
        self.best_values = self.torch.zeros(most, device=self.device)
        self.best_tokens = self.torch.zeros(most, device=self.device, **number)
        self.wait()

    def start(self):
        environment(self.options["allocator"])
        import torch
        self.torch = torch
        torch.set_grad_enabled(False)
        self.region = lambda tag, content=None: contextlib.nullcontext()
        if self.options["allocator"] == "tenure":
            import tenure.torch
            tenure.torch.install(strict=True, native=True)
            self.region = tenure.torch.region
        whole = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(self.options["bytes"] / whole, 0)

    def wait(self):
        self.torch.cuda.synchronize()

    # ---- the cache and the graphs ----

    def build(self, batch):
        """A cache for `batch` sequences of the whole context, and graphs of all sizes."""
        options, model = self.options, self.model
        self.schedule = Schedule(batch, batch * (options["context"] // options["page"]),
                                 options["page"], options["budget"])
        with self.region("kv_cache", content="discard"):
            self.caches = [self.torch.empty(
                2, model.kv_heads, self.schedule.pages, model.page, HEAD, dtype=model.dtype,
                device=self.device) for _ in model.layers]
        self.refill()
        self.tables.zero_()
        self.positions.zero_()
        self.warm()
        with self.region("graphs"):
            self.capture()
        self.wait()

    def refill(self):
        """What is masked out is multiplied by 0, and must be a number."""
        for cache in self.caches:
            cache.zero_()

    def decode(self, size):
        """As it is captured: from and into memory that stays."""
        values, tokens = self.model.decode(self.caches, self.tokens[:size], self.positions[:size],
                                           self.tables[:size])
        self.best_values[:size].copy_(values)
        self.best_tokens[:size].copy_(tokens)

    def warm(self):
        """Each size once without a graph: all kernels are loaded."""
        side = self.torch.cuda.Stream()
        side.wait_stream(self.torch.cuda.current_stream())
        with self.torch.cuda.stream(side):
            for size in reversed(GRAPH_SIZES):
                self.decode(size)
        self.torch.cuda.current_stream().wait_stream(side)

    def capture(self):
        pool, self.is_capturing = self.torch.cuda.graph_pool_handle(), True
        for size in reversed(GRAPH_SIZES):
            self.graphs[size] = self.torch.cuda.CUDAGraph()
            with self.torch.cuda.graph(self.graphs[size], pool=pool):
                self.decode(size)
        self.is_capturing = False

    def drop(self):
        self.caches, self.graphs = [], {}
        gc.collect()
        self.wait()
        self.torch.cuda.empty_cache()

    # ---- serving ----

    def admit(self):
        """Prefills all requests that have room now, and fit into one prefill."""
        admitted = self.schedule.admit()
        if not admitted:
            return
        page = self.options["page"]
        tokens, positions, slots = [], [], []
        for request in admitted:
            count = len(request.prompt)
            tokens += request.prompt
            positions += range(count)
            slots += [request.pages[at // page] * page + at % page for at in range(count)]
        inputs = self.torch.tensor([tokens, positions, slots]).to(self.device)
        values, best = self.model.prefill(self.caches, *inputs,
                                          [len(request.prompt) for request in admitted])
        self.schedule.take(admitted, best.tolist(), values.tolist())

    def step(self):
        """One token for each running request."""
        self.admit()
        running, torch = self.schedule.running, self.torch
        if not running:
            return
        size = next(size for size in GRAPH_SIZES if size >= len(running))
        rest = [0] * (size - len(running))
        self.tokens[:size].copy_(torch.tensor([each.tokens[-1] for each in running] + rest))
        self.positions[:size].copy_(torch.tensor([each.position() for each in running] + rest))
        if self.schedule.has_changed:
            width = self.tables.shape[1]
            rows = [each.pages + [0] * (width - len(each.pages)) for each in running]
            self.tables.zero_()
            self.tables[:len(rows)].copy_(torch.tensor(rows))
            self.schedule.has_changed = False
        self.replay(size)
        self.schedule.take(list(running), self.best_tokens[:len(running)].tolist(),
                           self.best_values[:len(running)].tolist())

    def replay(self, size):
        self.graphs[size].replay()

    def begin(self, count, seed, outputs):
        options = self.options
        self.requests = requests_drawn(count, seed, options["vocabulary"], options["context"],
                                       tuple(outputs))
        self.schedule.waiting = list(self.requests)

    def serve(self, steps=0):
        """Until all requests have their tokens, or so many steps."""
        done = 0
        while self.schedule.is_busy() and (steps == 0 or done < steps):
            self.step()
            done += 1
        self.wait()
        return done

    def told(self):
        text, distinct = hashlib.sha256(), set()
        for each in self.requests:
            text.update(struct.pack(f"<{len(each.tokens)}q", *each.tokens))
            text.update(struct.pack(f"<{len(each.values)}f", *each.values))
            distinct.update(each.tokens)
        return {"tokens": sum(len(each.tokens) for each in self.requests),
                "distinct": len(distinct), "digest": text.hexdigest(),
                "is_finite": all(value == value and abs(value) < 1e30
                                 for each in self.requests for value in each.values)}

    def epoch(self, count, seed, outputs):
        self.begin(count, seed, outputs)
        began = time.monotonic()
        steps = self.serve()
        return {"seconds": time.monotonic() - began, "steps": steps, **self.told()}

    def fits(self, batch):
        """Whether requests of all lengths can be served, so many at once. After a capture that
        failed, the process is no judge of the next batch."""
        self.torch.cuda.reset_peak_memory_stats()
        why = None
        try:
            self.build(batch)
            self.begin(2 * batch, batch, (2, 12))
            self.serve()
        except RuntimeError as error:
            if not is_out_of_memory(self.torch, error):
                raise
            why = "".join(traceback.format_exception(error))
        if not self.is_capturing:
            self.drop()
        return {"fits": why is None, "why": why, "is_broken": self.is_capturing, **self.peaks()}

    def peaks(self):
        cuda = self.torch.cuda
        return {"reserved": cuda.max_memory_reserved(), "live": cuda.max_memory_allocated()}

    # ---- asleep, with Tenure ----

    def reserved(self):
        self.torch.cuda.empty_cache()
        return self.torch.cuda.memory_reserved()

    def sleep(self, kept):
        """Contents of these tags are kept. The seconds, and what is reserved before and after."""
        from tenure import tags
        before, began = self.reserved(), time.monotonic()
        tags.sleep(*kept, content="keep", keep_backing=True)
        tags.sleep(*(tag for tag in ALL_TAGS if tag not in kept), content="discard")
        seconds = time.monotonic() - began
        return {"seconds": seconds, "before": before, "after": self.reserved()}

    def wake(self):
        from tenure import tags
        began = time.monotonic()
        tags.wake(*ALL_TAGS)
        self.wait()
        return {"seconds": time.monotonic() - began, "after": self.reserved()}


def main(kind=Engine):
    options, answers = json.loads(sys.argv[1]), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what an engine prints is no answer
    engine = None
    for line in sys.stdin:
        try:
            request = json.loads(line)
            what = request.pop("do")
            if what == "load":
                random.seed(options["seed"])
                engine = kind(options)
                said = {"is": engine.peaks()}
            else:
                said = {"is": getattr(engine, what)(**request)}
        except Exception as error:  # told to the program that asked
            said = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(said), file=answers, flush=True)


if __name__ == "__main__":
    main()
