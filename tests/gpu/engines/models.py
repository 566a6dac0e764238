# SPDX-License-Identifier: Apache-2.0
"""The models of the workloads, with random weights: GPT-2 small, ResNet-50, a decoder as Llama's, a
mixture of experts, a graph network.

The first two come from transformers and torchvision where they can be imported, else they are
written here in plain torch.nn with the same layers and sizes, as the others always are.
`source_of(name)` says which it was.
"""
import math

import torch
from torch import nn
import torch.nn.functional as F

try:
    import transformers
except Exception:  # whatever keeps it from being imported
    transformers = None
try:
    import torchvision
except Exception:
    torchvision = None

PLAIN = "torch.nn, same sizes"
VOCABULARY, CONTEXT, LAYERS, HEADS, WIDTH = 50257, 1024, 12, 12, 768


def source_of(name):
    module = dict(gpt2=transformers, resnet50=torchvision).get(name)
    return f"{module.__name__} {module.__version__}" if module else PLAIN


# ---- GPT-2 -----------------------------------------------------------------------------------


class Block(nn.Module):
    """Attention and MLP; attention by explicit products, which are deterministic."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, past):
        batch, length, _ = x.shape
        q, k, v = (part.view(batch, length, HEADS, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(WIDTH, dim=2))
        if past is not None:
            k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
        scores = q @ k.transpose(2, 3) / math.sqrt(k.shape[-1])
        ahead = torch.ones(length, k.shape[2], dtype=torch.bool, device=x.device)
        scores = scores.masked_fill(ahead.triu(k.shape[2] - length + 1), -math.inf)
        mixed = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(x.shape)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")), (k, v)


class Gpt2(nn.Module):
    def __init__(self, layers=LAYERS):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm = nn.LayerNorm(WIDTH)
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.places.weight, std=0.01)

    def forward(self, ids, past=None):
        begin = past[0][0].shape[2] if past else 0
        x = self.tokens(ids) + self.places(
            torch.arange(begin, begin + ids.shape[1], device=ids.device))
        cache = []
        for i, block in enumerate(self.blocks):
            x, kept = block(x, past[i] if past else None)
            cache.append(kept)
        return F.linear(self.norm(x), self.tokens.weight), cache


class Gpt2Library(nn.Module):
    """The one of transformers behind the same two results."""

    def __init__(self):
        super().__init__()
        config = transformers.GPT2Config(attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0,
                                         attn_implementation="eager")
        self.inner = transformers.GPT2LMHeadModel(config)

    def forward(self, ids, past=None):
        result = self.inner(input_ids=ids, past_key_values=past, use_cache=not self.training)
        return result.logits, result.past_key_values


def gpt2():
    return Gpt2Library() if transformers else Gpt2()


def gpt2_loss(model, ids):
    logits, _ = model(ids)
    return F.cross_entropy(logits[:, :-1].reshape(-1, VOCABULARY), ids[:, 1:].reshape(-1))


@torch.no_grad()
def gpt2_generate(model, ids, count):
    """`count` more tokens, the likeliest each time, with a cache that grows by concatenation.
    Returns the tokens and the sum of the last logits."""
    logits, past = model(ids)
    chosen = []
    for _ in range(count):
        last = logits[:, -1].argmax(dim=-1, keepdim=True)
        chosen.append(last)
        logits, past = model(last, past)
    return torch.cat(chosen, dim=1), logits.double().sum()


# ---- ResNet-50 -------------------------------------------------------------------------------


class Bottleneck(nn.Module):
    def __init__(self, given, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(given, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width),
            nn.ReLU(True), nn.Conv2d(width, 4 * width, 1, bias=False),
            nn.BatchNorm2d(4 * width))
        self.skip = nn.Identity()
        if stride != 1 or given != 4 * width:
            self.skip = nn.Sequential(nn.Conv2d(given, 4 * width, 1, stride, bias=False),
                                      nn.BatchNorm2d(4 * width))

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def resnet50():
    if torchvision:
        return torchvision.models.resnet50(weights=None)
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True),
              nn.MaxPool2d(3, 2, 1)]
    given = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for i in range(blocks):
            layers.append(Bottleneck(given, 64 << stage, 2 if stage and i == 0 else 1))
            given = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(given, 1000))


# ---- a decoder as Llama's ---------------------------------------------------------------------


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def rotated(x):
    """Rotary positions of x: batch, heads, length, width of a head."""
    half = x.shape[-1] // 2
    rates = 10000.0 ** (-torch.arange(half, device=x.device) / half)
    turns = torch.arange(x.shape[2], device=x.device)[:, None] * rates
    cos, sin = turns.cos(), turns.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


class Gated(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """Each token goes to two of `count` experts. With `capacity`, each expert takes as many tokens
    and no more, in arrays of one size, as what is compiled wants it; without, as many as come."""

    def __init__(self, width, inner, count, is_padded):
        super().__init__()
        self.router = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(Gated(width, inner) for _ in range(count))
        self.is_padded = is_padded

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        weights, chosen = self.router(flat).softmax(-1).topk(2, dim=-1)
        whole = (self.padded if self.is_padded else self.ragged)(flat, weights, chosen)
        return whole.reshape(x.shape)

    def ragged(self, flat, weights, chosen):
        parts, rows = [], []
        for i, expert in enumerate(self.experts):
            row, choice = (chosen == i).nonzero(as_tuple=True)
            parts.append(expert(flat[row]) * weights[row, choice, None])
            rows.append(row)
        return torch.zeros_like(flat).index_add(0, torch.cat(rows), torch.cat(parts))

    def padded(self, flat, weights, chosen):
        capacity = 4 * flat.shape[0] // len(self.experts)
        whole = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            share = (weights * (chosen == i)).sum(-1)
            best, row = share.topk(capacity)
            whole = whole.index_add(0, row, expert(flat[row]) * best[:, None])
        return whole


class DecoderLayer(nn.Module):
    def __init__(self, width, heads, heads_kv, mlp):
        super().__init__()
        self.heads, self.heads_kv, self.head = heads, heads_kv, width // heads
        self.norm1, self.norm2 = Norm(width), Norm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * heads_kv * self.head, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.mlp = mlp

    def forward(self, x):
        batch, length, _ = x.shape
        given = self.norm1(x)
        q = rotated(self.q(given).view(batch, length, self.heads, -1).transpose(1, 2))
        k, v = (part.view(batch, length, self.heads_kv, -1).transpose(1, 2)
                for part in self.kv(given).chunk(2, dim=-1))
        k, v = (part.repeat_interleave(self.heads // self.heads_kv, dim=1)
                for part in (rotated(k), v))
        scores = q @ k.transpose(2, 3) / math.sqrt(self.head)
        ahead = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        mixed = F.softmax(scores.masked_fill(ahead, -math.inf), dim=-1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    VOCABULARY = 32000

    def __init__(self, layers, width, mlp_of):
        super().__init__()
        self.tokens = nn.Embedding(self.VOCABULARY, width)
        self.layers = nn.Sequential(*(DecoderLayer(width, 16, 4, mlp_of(width))
                                      for _ in range(layers)), Norm(width))
        self.head = nn.Linear(width, self.VOCABULARY, bias=False)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, ids):
        return self.head(self.layers(self.tokens(ids)))


def llama(layers):
    return Decoder(layers, 1024, lambda width: Gated(width, 2816))


def moe(layers, is_padded):
    return Decoder(layers, 512, lambda width: Experts(width, 1024, 8, is_padded))


def decoder_loss(model, ids):
    logits = model(ids)
    return F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))


# ---- a graph network --------------------------------------------------------------------------


class GraphNetwork(nn.Module):
    """Each node takes the mean of its sampled neighbours, layer by layer, as GraphSAGE does."""

    def __init__(self, layers=4, width=256, kinds=40):
        super().__init__()
        self.own, self.others = (nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
                                 for _ in range(2))
        self.out = nn.Linear(width, kinds)

    def forward(self, nodes, neighbours):
        for own, others in zip(self.own, self.others):
            nodes = F.relu(own(nodes) + others(nodes[neighbours].mean(1)))
        return self.out(nodes)
