#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""transformers' cache with offloading, by itself: docs/found.md tells what is wrong there.

    offloaded_cache.py [mend | order] [--steps N]

A cache of eight layers gets the same states twice: with offloading and without. Prints how many of
the results that differ there are, and of how many. With `mend`, each tensor is recorded on the
stream that uses it before it goes. With `order`, the library's prefetch stream waits for the
current stream before each prefetch. Under `tenure run --check` the program ends with 99 (not with
5.17), and with `mend` with 0.
Exit code 77: PyTorch, transformers or a GPU is not there.
"""
import argparse
import sys

LAYERS, HEADS, HEAD = 8, 32, 128


def caches(transformers, steps):
    """Without offloading, and with it, by whichever names this version of the library has."""
    static = {"config": transformers.LlamaConfig(
        num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=HEADS,
        hidden_size=HEADS * HEAD), "max_cache_len": steps}
    for make in (lambda **more: transformers.DynamicCache(**more),
                 lambda **more: transformers.StaticCache(**static, **more)):
        try:
            return make(), make(offloading=True)
        except TypeError:
            continue
    return transformers.DynamicCache(), transformers.OffloadedCache()


def mend(torch, cache):
    """What offload() lets go was made on the stream of prefetch(), and the current one uses it.
    0: this version has other functions."""
    for layer in getattr(cache, "layers", []):
        before = layer.offload

        def offload(layer=layer, before=before):
            for tensor in (layer.keys, layer.values):
                if tensor is not None and tensor.is_cuda:
                    tensor.record_stream(torch.cuda.current_stream())
            before()

        layer.offload = offload
    return hasattr(cache, "layers")


def order(torch, cache):
    """A prefetch begins after what the current stream has been given so far: also the copies to the
    host of the layer that it reads. 0: this version has other functions."""
    before = getattr(cache, "prefetch", None)

    def prefetch(*arguments, **named):
        cache.prefetch_stream.wait_stream(torch.cuda.current_stream())
        return before(*arguments, **named)

    if before is not None:
        cache.prefetch = prefetch
    return before is not None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("how", nargs="?", choices=["mend", "order"])
    parser.add_argument("--steps", type=int, default=256)
    options = parser.parse_args()
    try:
        import torch
        import transformers
    except ImportError as error:
        print(f"skipped: {error}")
        return 77
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        return 77
    plain, offloaded = caches(transformers, options.steps)
    change = {"mend": mend, "order": order, None: lambda *_: True}[options.how]
    if not change(torch, offloaded):
        print(f"skipped: transformers {transformers.__version__} has other functions")
        return 77
    torch.manual_seed(1)
    states = torch.randn(options.steps, 2, 1, HEADS, 1, HEAD, device="cuda", dtype=torch.float16)
    sums = ([], [])
    for cache, to in zip((plain, offloaded), sums):
        for step in range(options.steps):
            more = {"cache_position": torch.tensor([step], device="cuda")}
            for layer in range(LAYERS):
                keys, values = cache.update(states[step, 0] + layer, states[step, 1] + layer, layer,
                                            more)
                to.append(keys.float().sum() + values.float().sum())
    torch.cuda.synchronize()
    wrong = sum(not torch.equal(one, other) for one, other in zip(*sums))
    print(f"transformers {transformers.__version__}, {type(offloaded).__name__}: "
          f"{wrong} of {len(sums[0])} results differ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
