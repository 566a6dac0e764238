# SPDX-License-Identifier: Apache-2.0
"""Snapshots of exactly the shape that PyTorch writes, from a small allocator that lives here.

There is no PyTorch where the tests run. Program is an allocator of a few dozen lines that does what
PyTorch's does with its traces: segments, blocks that tile them, frees that wait for streams, call
stacks shared by identity. snapshot() gives the dictionary of torch.cuda.memory._snapshot() as a
version of PyTorch would write it, and the truth beside it, known by other means than the file.
"""
import random

START_US = 1_790_000_000_000_000
BASE = 0x7E0000000000
SEGMENT = 20 << 20


def make_stacks(choose, count):
    """Call stacks that share frames, as Python's do."""
    frames = [{"filename": f"/srv/model{number % 5}.py", "line": 10 + number,
               "name": f"step_{number}"} for number in range(40)]
    frames.append({"filename": "/srv/\u6a21\u578b.py", "line": 7,
                   "name": "\u524d\u5411 <x> & \"y\""})
    return [[choose.choice(frames) for _ in range(choose.randrange(1, 9))] for _ in range(count)]


class Device:
    """One device's memory and its trace."""

    def __init__(self, index, options, choose, stacks):
        self.index, self.options, self.choose, self.stacks = index, options, choose, stacks
        self.segments = {}  # address -> {"size", "stream", "pool", "stack", "blocks"}
        self.trace = []
        self.next_address = BASE + (index << 40)
        self.live = {}  # address -> (segment, block)
        self.pending = []  # blocks whose free was requested

    def note(self, action, address, size, stream, pool, stack, time_us):
        entry = {"action": action, "addr": address, "size": size, "stream": stream}
        if action == "oom":
            entry["device_free"] = entry.pop("addr")
        if self.options["frames"]:
            entry["frames"] = stack
        if self.options["era"] >= 2.1:
            entry["time_us"] = time_us
        if self.options["era"] >= 2.8:
            entry["compile_context"] = "N/A"
            entry["user_metadata"] = "warm up" if len(self.trace) % 7 == 0 else ""
        if self.options["era"] >= 2.14:
            entry["pool_id"] = pool
        self.trace.append(entry)

    def new_segment(self, stream, pool, stack, time_us):
        address = self.next_address
        self.next_address += SEGMENT * 2
        self.segments[address] = {
            "size": SEGMENT, "stream": stream, "pool": pool, "stack": stack,
            "blocks": [{"address": address, "size": SEGMENT, "state": "inactive"}]}
        action = "segment_map" if self.options["expandable"] else "segment_alloc"
        self.note(action, address, SEGMENT, stream, pool, stack, time_us)
        return address

    def alloc(self, requested, stream, pool, time_us):
        stack = self.choose.choice(self.stacks)
        size = -(-requested // 512) * 512
        for attempt in range(2):
            for start in sorted(self.segments):
                segment = self.segments[start]
                if (segment["stream"], segment["pool"]) != (stream, pool):
                    continue
                for place, block in enumerate(segment["blocks"]):
                    if block["state"] != "inactive" or block["size"] < size:
                        continue
                    rest = block["size"] - size
                    block.update(size=size, state="active_allocated", requested=requested,
                                 stack=stack, time_us=time_us)
                    if rest:
                        segment["blocks"].insert(place + 1, {
                            "address": block["address"] + size, "size": rest,
                            "state": "inactive"})
                    self.live[block["address"]] = (segment, block)
                    self.note("alloc", block["address"], requested, stream, pool, stack, time_us)
                    return
            assert attempt == 0
            self.new_segment(stream, pool, stack, time_us)

    def free(self, address, time_us, waits):
        segment, block = self.live.pop(address)
        self.note("free_requested", address, block["requested"], segment["stream"],
                  segment["pool"], self.choose.choice(self.stacks), time_us)
        block["state"] = "active_pending_free"
        if waits:
            self.pending.append((segment, block))
        else:
            self.complete(segment, block, time_us)

    def complete(self, segment, block, time_us):
        self.note("free_completed", block["address"], block["requested"], segment["stream"],
                  segment["pool"], [], time_us)
        block["state"] = "inactive"
        merged = []
        for one in segment["blocks"]:
            if merged and merged[-1]["state"] == one["state"] == "inactive":
                merged[-1]["size"] += one["size"]
            else:
                merged.append(one)
        segment["blocks"] = merged

    def release_idle(self, time_us):
        for start in list(self.segments):
            segment = self.segments[start]
            if len(segment["blocks"]) == 1 and segment["blocks"][0]["state"] == "inactive":
                del self.segments[start]
                action = "segment_unmap" if self.options["expandable"] else "segment_free"
                self.note(action, start, SEGMENT, segment["stream"], segment["pool"], [], time_us)


DEFAULTS = {"era": 2.11, "frames": True, "expandable": False, "oom": False, "devices": 1,
            "pools": False, "steps": 400, "entries": None, "seed": 1}


def block_dict(block, options):
    active = block["state"] != "inactive"
    stack = block["stack"] if active and options["frames"] else []
    result = {"size": block["size"], "state": block["state"]}
    if options["era"] < 2.1:
        if active:
            result["history"] = [{"addr": block["address"], "real_size": block["requested"],
                                  "frames": stack}]
        return result
    result.update(address=block["address"], requested_size=block["requested"] if active else 0,
                  frames=stack)
    return result


def segment_dict(device, start, segment, options):
    blocks = segment["blocks"]
    active = [one for one in blocks if one["state"] != "inactive"]
    result = {
        "device": device, "address": start, "total_size": segment["size"],
        "allocated_size": sum(one["size"] for one in blocks
                              if one["state"] == "active_allocated"),
        "active_size": sum(one["size"] for one in active), "stream": segment["stream"],
        "segment_type": "large", "blocks": [block_dict(one, options) for one in blocks]}
    if options["era"] >= 2.1:
        result["requested_size"] = sum(one["requested"] for one in active)
        result["is_expandable"] = options["expandable"]
        result["frames"] = segment["stack"] if options["frames"] else []
    if options["era"] >= 2.3:
        result["segment_pool_id"] = segment["pool"]
    return result


def run(device, options, choose):
    """A course of allocations and frees. Fills the device."""
    streams = [0, 0x55AA0010, 0x55AA0020]
    pools = [(0, 0), (3, 0), (0, 5)] if options["pools"] else [(0, 0)]
    time_us = START_US + device.index * 3
    for _ in range(options["steps"]):
        time_us += choose.randrange(4)
        if device.pending and choose.random() < 0.2:
            device.complete(*device.pending.pop(0), time_us)
        if len(device.live) < 5 or choose.random() < 0.52:
            device.alloc(choose.choice([3, 512, 1000, 70_000, 900_001, 5 << 20]),
                         choose.choice(streams), choose.choice(pools), time_us)
        else:
            device.free(choose.choice(sorted(device.live)), time_us, choose.random() < 0.3)
        if choose.random() < 0.02:
            device.release_idle(time_us)
    if options["oom"]:
        device.note("oom", 123 << 20, 9 << 30, 0, (0, 0), device.stacks[0], time_us)


def truth_of(devices, early):
    """What is known of the final state, by counting here."""
    blocks = [(device.index, segment, one) for device in devices
              for segment in device.segments.values() for one in segment["blocks"]]

    def total(key, state):
        return sum(one[key] for _, _, one in blocks if one["state"] == state)

    return {
        "reserved": sum(segment["size"] for device in devices
                        for segment in device.segments.values()),
        "live": total("size", "active_allocated"),
        "requested": total("requested", "active_allocated"),
        "live_blocks": sum(one["state"] == "active_allocated" for _, _, one in blocks),
        "retired": total("size", "active_pending_free"),
        "free": total("size", "inactive"),
        "early": early,
    }


def replayed(trace):
    """What a trace leaves: the live blocks, and those whose free is not complete, as {address:
    requested size} each."""
    live, pending = {}, {}
    for entry in trace:
        if entry["action"] == "alloc":
            live[entry["addr"]] = entry["size"]
        elif entry["action"] == "free_requested":
            pending[entry["addr"]] = live.pop(entry["addr"])
        elif entry["action"] == "free_completed":
            del pending[entry["addr"]]
    return live, pending


def snapshot(**changes):
    """A snapshot and the truth about it. Options: see DEFAULTS. `entries` cuts the traces."""
    options = dict(DEFAULTS, **changes)
    choose = random.Random(options["seed"])
    stacks = make_stacks(choose, 30)
    devices = [Device(index, options, choose, stacks) for index in range(options["devices"])]
    early = []
    for device in devices:
        run(device, options, choose)
        cut = len(device.trace) - (options["entries"] or len(device.trace))
        early.append(replayed(device.trace[:max(cut, 0)]))
        device.trace = device.trace[max(cut, 0):]
    result = {
        "segments": [segment_dict(device.index, start, device.segments[start], options)
                     for device in devices for start in sorted(device.segments)],
        "device_traces": [device.trace for device in devices],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1,
            "garbage_collection_threshold": 0.0, "expandable_segments": options["expandable"],
            "roundup_power2_divisions": {"1": 0, "2": 0, "4": 0}},
    }
    if options["era"] >= 2.6:
        result["external_annotations"] = []
    return result, truth_of(devices, early)


VARIANTS = {
    "plain": {},
    "no frames": {"frames": False},
    "expandable": {"expandable": True},
    "pools": {"pools": True, "seed": 2},
    "oom": {"oom": True, "seed": 3},
    "two devices": {"devices": 2, "seed": 4},
    "cut history": {"entries": 150, "seed": 5},
    "cut history, pools": {"entries": 77, "pools": True, "expandable": True, "seed": 6},
    "2.0": {"era": 2.0, "seed": 7},
    "2.1": {"era": 2.1, "seed": 8},
    "2.14": {"era": 2.14, "pools": True, "seed": 9},
    "no history": {"steps": 60, "entries": 1, "seed": 10},
}
