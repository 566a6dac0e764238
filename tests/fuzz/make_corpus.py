#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_corpus.py FOLDER: writes the seeds of the fuzzer, always the same.

Small snapshots in each format and protocol, which mutations can lead anywhere from; and files that
were refused for a reason each, so that those paths are walked in every run.
"""
import json
import pathlib
import pickle
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "snapshot_tool"))
import torch_shapes  # noqa: E402

KEYS = """
action addr size stream time_us device_free frames user_metadata compile_context pool_id alloc
free_requested free_completed segment_alloc segment_free segment_map segment_unmap snapshot oom
segments device_traces blocks address total_size requested_size state segment_pool_id
is_expandable active_allocated active_pending_free inactive filename line name history real_size
tenure waits pools number records_overwritten records_missed asleep_bytes kind format tenure-
snapshot version columns rows pools streams devices strings stacks waits graphs live retired
first_block small arena use graph mark_number allocator_settings modules build_id
""".split()


def op_text(text):
    return b"X" + len(text).to_bytes(4, "little") + text


HOSTILE = {
    "global": b"\x80\x02cposix\nsystem\n.",
    "stack_global": b"\x80\x04\x8c\x05posix\x8c\x06system\x93.",
    "reduce": b"\x80\x02cposix\nsystem\n(X\x02\x00\x00\x00idtR.",
    "inst": b"(X\x02\x00\x00\x00idiposix\nsystem\n.",
    "memo_gap": b"\x80\x02]r\xff\xff\xff\x7f.",
    "long_text": b"\x80\x04\x8d" + (2**62).to_bytes(8, "little") + b"abc.",
    "long_number": b"\x80\x02\x8b" + (2**31 - 1).to_bytes(4, "little") + b"\x01.",
    "deep": b"\x80\x02" + b"]" * 600 + b"a" * 599 + b".",
    "marks": (b"(" * 90 + b"N") * 20 + b"\0.",
    "laughs": b"\x80\x02]" + b"".join(
        b"q%c](h%ch%ce" % (number, number, number) for number in range(150)) + b".",
    "self": b"\x80\x02]q\x00h\x00a.",
    "shared": b"\x80\x02}q\x00(" + op_text(b"segments") + b"](" + b"}(" + op_text(b"device")
              + b"K\x00u" + b"2" * 50 + b"e" + op_text(b"device_traces") + b"]u.",
}


def small(**options):
    return torch_shapes.snapshot(steps=9, **options)[0]


def seeds():
    for protocol in range(6):
        # A newline after the end, which a reader does not look at: text files end in one.
        yield f"torch_{protocol}.pickle", pickle.dumps(small(seed=protocol), protocol) + b"\n"
    for name in ["2.0", "2.14", "expandable", "oom", "pools", "two devices"]:
        options = dict(torch_shapes.VARIANTS[name], seed=20)
        yield (f"torch_{name.replace(' ', '_')}.pickle",
               pickle.dumps(small(**options), 4) + b"\n")
    for name in ["pools", "two devices"]:  # entries are taken before there are segments
        late = small(**dict(torch_shapes.VARIANTS[name], seed=21))
        yield (f"torch_{name.replace(' ', '_')}_traces_first.pickle",
               pickle.dumps(dict(reversed(late.items())), 4) + b"\n")
    waits = small(seed=30)
    waits["tenure"] = {
        "version": 1, "taken_us": 18, "records_overwritten": 0, "records_missed": 0,
        "pools": [{"device": 0, "number": 0, "name": "default", "reserved_bytes": 1,
                   "asleep_bytes": 0}],
        "waits": [{"address": waits["segments"][0]["address"], "kind": "use", "stream": 16,
                   "mark_number": 3, "since_us": 17}]}
    yield "torch_waits.pickle", pickle.dumps(waits, 2) + b"\n"
    for name, data in HOSTILE.items():
        yield f"hostile_{name}.pickle", data + b"\n"
    yield "torch.json", (json.dumps(small(seed=31), indent=0) + "\n").encode()
    example = (HERE.parent / "snapshot/example.json").read_bytes()
    yield "tenure.json", example
    named = json.loads(example)
    named["strings"].append("00ff")
    named["modules"] = {"columns": ["module", "build_id"],
                        "rows": [[4, len(named["strings"]) - 1]]}
    yield "tenure_modules.json", (json.dumps(named, indent=0) + "\n").encode()


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in seeds():
        (folder / name).write_bytes(data)
    quoted = "".join(f'"{key}"\n' for key in KEYS)
    (folder.parent / "snapshot.dict").write_text(
        "# SPDX-License-Identifier: Apache-2.0\n# What the fuzzer puts into files.\n" + quoted)


if __name__ == "__main__":
    main()
