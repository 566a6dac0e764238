# SPDX-License-Identifier: Apache-2.0
"""Files that cost far more to read than they are large, each of about `size` bytes: of instructions
of a pickle, of JSON, and of gzip. What of them could be a snapshot is not much larger than what
the commands take for one."""
import gzip
import pickle

import torch_shapes

HEAD = b"\x80\x04"


def repeated(size, unit, head=HEAD, tail=b"."):
    return head + unit * max(1, size // len(unit)) + tail


def texts(size):
    """Texts of which no two are equal."""
    parts = (b"\x8c\x08%08x0" % number for number in range(size // 11))
    return HEAD + b"".join(parts) + b"."


def shapes(size):
    """Dictionaries with keys of their own each."""
    parts = (b"}\x8c\x08%08xNs0" % number for number in range(size // 14))
    return HEAD + b"".join(parts) + b"."


def shared_entry(size):
    """One entry of a trace, many times."""
    content, _ = torch_shapes.snapshot(era=2.14)
    entry = content["device_traces"][0][0]
    content["device_traces"][0] = [entry] * (size // 2)
    return pickle.dumps(content, 4)


def shared_frames(size):
    """One list of frames in many blocks."""
    content, _ = torch_shapes.snapshot(era=2.14)
    frame = content["device_traces"][0][0]["frames"]
    content["device_traces"][0][0]["frames"] = frame * (size // 8)
    for entry in content["device_traces"][0]:
        entry["frames"] = content["device_traces"][0][0]["frames"]
    return pickle.dumps(content, 4)


def keys_again(size):
    """A dictionary of 512 keys, of which the first is set again and again."""
    keys = b"".join(b"\x8c\x03%03xN" % number for number in range(512))
    return repeated(size, b"h\x00Ns", HEAD + b"\x8c\x03000\x940}(" + keys + b"u")


def many_keys(size):
    """Dictionaries of 500 keys, all of them new."""
    parts = []
    for number in range(size // 11):
        parts.append(b"}(" * (number % 500 == 0) + b"\x8c\x07%07xN" % number
                     + b"u0" * (number % 500 == 499))
    return HEAD + b"".join(parts) + b"."


def known_keys(size):
    """Dictionaries of the same 500 keys."""
    keys = b"".join(b"\x8c\x03%03x\x940" % number for number in range(500))
    whole = b"}(" + b"".join(b"j" + number.to_bytes(4, "little") + b"N"
                            for number in range(500)) + b"u0"
    return repeated(size, whole, HEAD + keys)


def many_lists(size):
    """A list of short lists."""
    return b'{"segments": [' + b"[[]]," * (size // 5) + b"0]}"


def many_numbers(size):
    return b'{"segments": [' + b"1," * (size // 2) + b"0]}"


BOMBS = {
    "lists": lambda size: repeated(size, b"]"),
    "dictionaries": lambda size: repeated(size, b"}"),
    "lists that are dropped": lambda size: repeated(size, b"]0"),
    "lists in a list": lambda size: repeated(size, b"](]]]]]]]]e0"),
    "memo": lambda size: repeated(size, b"]\x940"),
    "one value many times": lambda size: repeated(size, b"2", HEAD + b"N"),
    "constants": lambda size: repeated(size, b"N"),
    "tuples": lambda size: repeated(size, b")\x850"),
    "large numbers": lambda size: repeated(size, b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f0"),
    "fractions": lambda size: repeated(size, b"G\x3f\xf0\0\0\0\0\0\x010"),
    "texts": texts,
    "shapes": shapes,
    "keys set again": keys_again,
    "many keys": many_keys,
    "known keys": known_keys,
    "one entry many times": shared_entry,
    "one stack many times": shared_frames,
    "JSON lists": many_lists,
    "JSON numbers": many_numbers,
    "JSON spaces": lambda size: b"{" + b" " * size + b"}",
    "JSON text": lambda size: b'{"segments": "' + b"x" * max(size, 40 << 20) + b'"}',
}


def write(path, name, size):
    data = BOMBS[name](size)
    if path.suffix == ".gz":
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(data)
    else:
        path.write_bytes(data)
