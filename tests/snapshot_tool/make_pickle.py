#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a large snapshot of PyTorch, of the shape of torch.cuda.memory._snapshot(): an entry has a
list of frames of its own, of frames that all share, as PyTorch makes them. No PyTorch is needed; it
takes four times the file in memory.

    make_pickle.py --mib 1024 --protocol 5 large.pickle

The program in it trains: each step allocates activations forwards and frees them backwards, at
call stacks of 12 to 60 frames, and keeps what it did not free at the end.
"""
import argparse
import gc
import pickle
import random

START_US = 1_790_000_000_000_000
BASE = 0x7E0000000000
LAYERS, SLOT = 200, 4 << 20
ENTRY_BYTES = 186  # of the pickle, on average: only how many steps are made depends on it


def stacks_make(choose):
    """Outer frames of the loop, then those of a layer, then those inside of PyTorch."""
    def frame(file, line, name):
        return {"filename": file, "line": line, "name": name}

    outer = [frame("/srv/train.py", 10 + number, f"step_{number}") for number in range(8)]
    inner = [frame(f"/opt/torch/aten/src/op{number}.cpp", 100 + number, f"at::op_{number}")
             for number in range(400)]
    result = []
    for layer in range(LAYERS):
        own = [frame(f"/srv/model/layer{layer % 12}.py", 20 + layer, f"Layer{layer}.forward"),
               frame("/opt/torch/nn/modules/module.py", 1527, "_call_impl")]
        for _ in range(4):
            depth = choose.randrange(4, 52)
            first = choose.randrange(len(inner) - depth)
            result.append((layer, inner[first:first + depth] + own + outer))
    return result


class Trace:
    def __init__(self):
        self.entries, self.now = [], START_US

    def note(self, action, address, size, frames):
        self.now += 7
        self.entries.append({
            "action": action, "addr": address, "size": size, "stream": 0, "time_us": self.now,
            "compile_context": "N/A", "user_metadata": "", "pool_id": (0, 0),
            "frames": frames})


def snapshot_make(entries, seed):
    choose = random.Random(seed)
    stacks, trace = stacks_make(choose), Trace()
    live = {}  # slot -> (size, frames)
    trace.note("segment_alloc", BASE, LAYERS * 2 * SLOT, list(stacks[0][1]))

    def alloc(slot, stack):
        size = choose.randrange(1, SLOT // 512) * 512 - choose.randrange(0, 500)
        live[slot] = size, list(stack)
        trace.note("alloc", BASE + slot * SLOT, size, live[slot][1])

    def free(slot):
        size, frames = live.pop(slot)
        own = list(frames[3:])  # what frees is elsewhere than what allocated
        trace.note("free_requested", BASE + slot * SLOT, size, own)
        trace.note("free_completed", BASE + slot * SLOT, size, own)

    while len(trace.entries) < entries:
        for layer in range(LAYERS):
            alloc(layer, choose.choice(stacks)[1])
            if choose.random() < 0.3:
                alloc(LAYERS + layer, choose.choice(stacks)[1])
        for layer in reversed(range(LAYERS)):
            for slot in (layer, LAYERS + layer):
                if slot in live and len(trace.entries) < entries:
                    free(slot)
    return {"segments": [segment_make(live, stacks[0][1])], "device_traces": [trace.entries],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1},
            "external_annotations": []}


def segment_make(live, frames):
    blocks = []
    for slot in range(LAYERS * 2):
        size, stack = live.get(slot, (0, []))
        taken = -(-size // 512) * 512
        if taken:
            blocks.append({"address": BASE + slot * SLOT, "size": taken, "requested_size": size,
                           "state": "active_allocated", "frames": stack})
        blocks.append({"address": BASE + slot * SLOT + taken, "size": SLOT - taken,
                       "requested_size": 0, "state": "inactive", "frames": []})
    return {"device": 0, "address": BASE, "total_size": LAYERS * 2 * SLOT, "stream": 0,
            "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
            "frames": list(frames), "blocks": blocks}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--protocol", type=int, default=4, choices=range(2, 6))
    parser.add_argument("--traces-first", action="store_true", help="the segments come last")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("file")
    arguments = parser.parse_args()
    gc.disable()
    content = snapshot_make((arguments.mib << 20) // ENTRY_BYTES, arguments.seed)
    if arguments.traces_first:
        content = dict(reversed(content.items()))
    with open(arguments.file, "wb") as file:
        pickle.dump(content, file, arguments.protocol)
        print(f"{arguments.file}: {len(content['device_traces'][0])} entries, "
              f"{file.tell() >> 20} MiB")


if __name__ == "__main__":
    main()
