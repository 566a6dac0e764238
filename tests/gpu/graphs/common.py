# SPDX-License-Identifier: Apache-2.0
"""What the experiments share: the allocator, rows, and a layer of a transformer."""
import json
import os
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError:     # the list of experiments needs none
    torch = None

ALLOCATOR = os.environ.get("GRAPHS_ALLOCATOR", "own")
WIDTH, HEADS = 512, 8


def start():
    """Installs the allocator, before anything is on a GPU."""
    if ALLOCATOR == "tenure":
        import tenure.torch
        tenure.torch.install(strict=True)
    torch.manual_seed(1)


def row(experiment, case, good, result, **more):
    print("row: " + json.dumps({"experiment": experiment, "case": case, "allocator": ALLOCATOR,
                                "good": "yes" if good else "no", "result": result, **more}),
          flush=True)


def skip(why):
    print(why, file=sys.stderr)
    sys.exit(77)


def reserved_mib():
    return round(torch.cuda.memory_reserved() / (1 << 20))


if torch is not None:
    class Layer(torch.nn.Module):
        """Attention and an MLP, without dropout: the same input gives the same bits."""

        def __init__(self):
            super().__init__()
            self.norm, self.norm_mlp = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
            self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH)
            self.out = torch.nn.Linear(WIDTH, WIDTH)
            self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
            self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            batch, length, _ = x.shape
            parts = self.qkv(self.norm(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
            return x + self.down(F.gelu(self.up(self.norm_mlp(x))))


def stage(layers):
    return torch.nn.Sequential(*(Layer() for _ in range(layers))).to("cuda", torch.bfloat16).eval()


def captured(body, warm_up=3, **options):
    """A graph of what `body` does, and its result. Warm-up is on another stream."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(warm_up):
            body()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, **options):
        result = body()
    return graph, result
