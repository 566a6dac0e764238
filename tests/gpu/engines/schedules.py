# SPDX-License-Identifier: Apache-2.0
"""Workloads whose memory comes and goes by a schedule rather than by a step: one rank of a pipeline
with interleaved microbatches, a loop of generating and training, diffusion at several resolutions.

Each returns a function that runs one epoch and its list of losses, as those of cases.py do.
"""
import random

import torch
from torch import nn
import torch.nn.functional as F

# Of the pipeline: ranks, parts of the model in each rank, microbatches of a step.
RANKS, PARTS, MICROBATCHES = 4, 2, 8


def interleaved(rank):
    """The order of one rank in a step, as ("forward" or "backward", part, microbatch): so many
    forward passes that the first gradient can be there, then one of each in turns, then what is
    left. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
    Megatron-LM", 2021."""
    count = PARTS * MICROBATCHES

    def at(i, turned):
        group, place = divmod(i, RANKS * PARTS)
        part = place // RANKS
        return PARTS - 1 - part if turned else part, group * RANKS + place % RANKS

    ahead = min(count, 2 * (RANKS - rank - 1) + (PARTS - 1) * RANKS)
    order = [("forward", *at(i, False)) for i in range(ahead)]
    for i in range(ahead, count):
        order += [("forward", *at(i, False)), ("backward", *at(i - ahead, True))]
    return order + [("backward", *at(i, True)) for i in range(count - ahead, count)]


def pipeline_train(_torch, models, steps):
    """The first rank. What neighbours would send arrives on a stream of its own, in new memory, and
    what is sent is read there: record_stream both ways."""
    parts = nn.ModuleList(nn.Sequential(*models.llama(3).layers) for _ in range(PARTS)).cuda()
    optimizer = torch.optim.AdamW(parts.parameters(), lr=1e-4, foreach=True)
    wire = torch.cuda.Stream()
    generator = torch.Generator("cuda").manual_seed(7)
    shapes = [(2, random.randrange(4, 17) * 64, 1024) for _ in range(steps)]

    def received(shape):
        with torch.cuda.stream(wire):
            given = torch.empty(shape, device="cuda").normal_(generator=generator)
            arrived = torch.cuda.Event()
            arrived.record()
        compute = torch.cuda.current_stream()
        compute.wait_event(arrived)
        given.record_stream(compute)
        return given

    def sent(given):
        wire.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(wire):
            total = given.double().sum()
        given.record_stream(wire)
        return total

    def step(shape):
        live, totals = {}, []
        for what, part, batch in interleaved(0):
            if what == "forward":
                given = received(shape).requires_grad_()
                result = parts[part](given)
                totals.append(sent(result.detach()))
                live[part, batch] = given, result
            else:
                given, result = live.pop((part, batch))
                result.backward(received(shape))
                totals.append(sent(given.grad))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.current_stream().wait_stream(wire)
        return torch.stack(totals).sum()

    def epoch():
        return [step(shape) for shape in shapes]

    return epoch


def rollout_train(_torch, models, steps):
    """Tokens are generated with a copy of the weights that is asleep, in the host's memory, while
    the model trains on them; the cache of the generation is gone by then, too."""
    model = models.Gpt2().cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, foreach=True)
    with torch.device("cuda"):
        engine = models.Gpt2().half().eval()
    prompts = [torch.randint(models.VOCABULARY, (random.randrange(8, 33), random.randrange(8, 100)),
                             device="cuda") for _ in range(max(1, steps // 4))]
    engine.to("cpu")

    def generated(ids):
        engine.to("cuda")
        with torch.no_grad():
            for to, of in zip(engine.parameters(), model.parameters()):
                to.copy_(of)
        tokens, _ = models.gpt2_generate(engine, ids, random.Random(ids.shape[1]).randrange(32, 96))
        engine.to("cpu")
        torch.cuda.empty_cache()
        return torch.cat((ids, tokens), dim=1)

    def trained(ids):
        losses = []
        for some in ids.split(8):
            loss = models.gpt2_loss(model, some)
            loss.backward()
            losses.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return losses

    def epoch():
        losses = []
        for ids in prompts:
            tokens = generated(ids)
            for _ in range(2):
                losses += trained(tokens)
        return losses

    return epoch


class Residual(nn.Module):
    def __init__(self, given, width):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, given), nn.GroupNorm(8, width)
        self.conv1, self.conv2 = (nn.Conv2d(n, width, 3, padding=1) for n in (given, width))
        self.skip = nn.Conv2d(given, width, 1) if given != width else nn.Identity()

    def forward(self, x):
        inner = self.conv1(F.silu(self.norm1(x)))
        return self.skip(x) + self.conv2(F.silu(self.norm2(inner)))


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.qkv = nn.GroupNorm(8, width), nn.Conv2d(width, 3 * width, 1)
        self.out = nn.Conv2d(width, width, 1)

    def forward(self, x):
        q, k, v = (part.flatten(2).transpose(1, 2)
                   for part in self.qkv(self.norm(x)).chunk(3, dim=1))
        mixed = F.softmax(q @ k.transpose(1, 2) / q.shape[-1] ** 0.5, dim=-1) @ v
        return x + self.out(mixed.transpose(1, 2).reshape(x.shape))


class Denoiser(nn.Module):
    """A U-Net of three levels, with attention in the lower two."""
    WIDTHS = (128, 256, 512)

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(4, 128, 3, padding=1), nn.Conv2d(128, 4, 3, padding=1)
        given = (128,) + self.WIDTHS[:-1]
        self.down = nn.ModuleList(Residual(a, b) for a, b in zip(given, self.WIDTHS))
        self.up = nn.ModuleList(Residual(2 * b, a) for a, b in zip(given, self.WIDTHS))
        self.mixers = nn.ModuleList(Attention(width) for width in self.WIDTHS[1:])
        self.middle = Attention(512)

    def forward(self, x):
        x, kept = self.first(x), []
        for level, down in enumerate(self.down):
            x = down(F.avg_pool2d(x, 2) if level else x)
            x = self.mixers[level - 1](x) if level else x
            kept.append(x)
        x = self.middle(x)
        for level in reversed(range(len(self.up))):
            x = self.up[level](torch.cat((x, kept.pop()), dim=1))
            x = F.interpolate(x, scale_factor=2.0) if level else x
        return self.last(x)


def painter():
    """From what is denoised to a picture of eight times the sides."""
    layers, given = [nn.Conv2d(4, 256, 3, padding=1), Residual(256, 256)], 256
    for width in (256, 128, 64):
        layers += [nn.Upsample(scale_factor=2.0), Residual(given, width)]
        given = width
    return nn.Sequential(*layers, nn.Conv2d(given, 3, 3, padding=1))


@torch.no_grad()
def diffusion(_torch, _models, steps):
    """Requests for pictures of several sizes, some of them at once, guided: twice the batch."""
    with torch.device("cuda"):
        denoiser, paint = Denoiser().eval(), painter().eval()
    sides = (32, 40, 48, 64, 72, 96)
    noise = [torch.randn(random.randrange(1, 5), 4, random.choice(sides), random.choice(sides),
                         device="cuda") for _ in range(steps)]

    @torch.no_grad()
    def epoch():
        sums = []
        for x in noise:
            for _ in range(6):
                told, free = denoiser(torch.cat((x, 0.5 * x))).chunk(2)
                x = x - 0.1 * (free + 2.0 * (told - free))
            sums += [picture.double().sum() for picture in map(paint, x.split(1))]
        return sums

    return epoch


CASES = {function.__name__: function for function in (pipeline_train, rollout_train, diffusion)}
