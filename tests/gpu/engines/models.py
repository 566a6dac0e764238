# SPDX-License-Identifier: Apache-2.0
"""The models of engines_torch.py, with random weights: GPT-2 small and ResNet-50.

From transformers and torchvision where they can be imported, else written here in plain torch.nn
with the same layers and sizes. `source_of(name)` says which it was.
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
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
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
