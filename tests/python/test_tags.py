# SPDX-License-Identifier: Apache-2.0
"""tenure.tags: through tenure.torch with its stand-in, and by itself, on the simulated device. And
a process of Python's that is ruled from outside."""
import ctypes
import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest

import device
import torch

import tenure
import tenure.tags
import tenure.torch
from tenure import _library

MIB = device.MIB


def malloc(bytes):
    ptr = ctypes.c_void_p()
    _library.call("tnr_malloc", ctypes.byref(ptr), bytes, 0, None)
    return ptr.value


def free(*pointers):
    for ptr in pointers:
        _library.call("tnr_free", ptr)


def held():
    return tenure.stats()["reserved_bytes.all.current"]


class Tags(unittest.TestCase):
    def tearDown(self):
        tenure.tags.wake()
        device.run_all()
        _library.call("tnr_validate", -1)

    def test_region(self):
        with tenure.torch.region("weights"):
            weights = malloc(3 * MIB)
            with tenure.tags.region("kv_cache"):
                cache = malloc(5 * MIB)
            more = malloc(MIB)
        plain = malloc(MIB)
        self.assertEqual([tenure.tags.of(each) for each in (weights, cache, more, plain)],
                         ["weights", "kv_cache", "weights", None])
        self.assertEqual(tenure.tags.stats("weights")["bytes_live"], 4 * MIB)
        self.assertTrue({"weights", "kv_cache"} <= set(tenure.tags.names()))
        before = held()
        tenure.tags.sleep("kv_cache")
        self.assertEqual(tenure.tags.stats("kv_cache")["bytes_asleep"], 6 * MIB)
        self.assertEqual(held(), before - 6 * MIB)
        tenure.tags.sleep()
        self.assertEqual(tenure.tags.stats("weights")["reserved_bytes.all.current"], 0)
        tenure.tags.wake("weights")
        self.assertEqual(tenure.tags.stats("weights")["bytes_asleep"], 0)
        self.assertEqual(tenure.tags.stats("kv_cache")["bytes_asleep"], 6 * MIB)
        tenure.tags.wake("kv_cache", device=0)
        self.assertEqual(held(), before)
        free(weights, cache, more, plain)

    def test_a_region_ends_when_something_is_raised(self):
        with self.assertRaises(KeyError):
            with tenure.tags.region("weights"):
                raise KeyError
        plain = malloc(MIB)
        self.assertIsNone(tenure.tags.of(plain))
        free(plain)

    def test_refusals(self):
        for wrong in ("nobody", "a b"):
            with self.assertRaisesRegex(tenure.Error, wrong):
                tenure.tags.sleep("weights", wrong)
        with self.assertRaisesRegex(tenure.Error, "not a name for a tag"):
            tenure.tags.region("a,b").__enter__()
        with self.assertRaisesRegex(ValueError, "keep"):
            tenure.tags.region("a", content="perhaps").__enter__()
        with tenure.tags.region("weights"):
            block = malloc(MIB)
            tenure.tags.sleep("weights")
            with self.assertRaisesRegex(tenure.Error, "asleep"):
                malloc(1)
        tenure.tags.wake()
        free(block)

    def test_limit_and_trim(self):
        tenure.tags.trim("weights")
        tenure.tags.limit("weights", 4 * MIB)
        with tenure.tags.region("weights"):
            block = malloc(4 * MIB)
            with self.assertRaisesRegex(tenure.Error, "tag \"weights\""):
                malloc(2 * MIB)
        tenure.tags.limit("weights", None)
        free(block)
        self.assertEqual(tenure.tags.trim("weights"), 4 * MIB)

    def test_contents(self):
        blocks = {}
        for tag, content in (("weights", "keep"), ("kv_cache", "discard")):
            with tenure.tags.region(tag, content=content):
                blocks[tag] = malloc(2 * MIB)
            device.fill(blocks[tag], 2 * MIB, None)
        device.run_all()
        tenure.tags.sleep("weights", "kv_cache")
        tenure.tags.wake("weights", "kv_cache")
        self.assertEqual(ctypes.string_at(blocks["weights"], 2 * MIB), b"\1" * (2 * MIB))
        self.assertNotEqual(ctypes.string_at(blocks["kv_cache"], 2 * MIB), b"\1" * (2 * MIB))
        free(*blocks.values())


RULED = """
import ctypes, sys
import tenure, tenure.tags
from tenure import _library
_library.call("tnr_init")
ptr = ctypes.c_void_p()
with tenure.tags.region("weights"):
    _library.call("tnr_malloc", ctypes.byref(ptr), 3 << 20, 0, None)
print(_library.text("tnr_control_path").decode(), flush=True)
sys.stdin.read()
"""


class Ruled(unittest.TestCase):
    def test_from_outside(self):
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, TENURE_CONF=f"control:on,control_dir:{folder}")
            with subprocess.Popen([sys.executable, "-c", RULED], env=environment, text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE) as ruled:
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(ruled.stdout.readline().strip())
                    stream = client.makefile("rw")
                    self.assertEqual(json.loads(stream.readline())["pid"], ruled.pid)
                    stream.write('{"command": "sleep", "tags": ["weights"]}\n')
                    stream.flush()
                    answer = json.loads(stream.readline())
                    self.assertTrue(answer["ok"], answer)
                    self.assertEqual(answer["devices"][0]["tags"][0]["asleep_bytes"], 4 * MIB)
                ruled.stdin.close()
                self.assertEqual(ruled.wait(), 0)
            self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    device.use()
    unittest.main()
