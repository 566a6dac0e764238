# SPDX-License-Identifier: Apache-2.0
"""tenure.vllm on the simulated device: the class as vLLM's workers call it, and the entry point
against a stand-in for vLLM. vLLM itself is not here.

Lines taken out to see a test fail: `content="discard"` in sleep(): test_levels; the wake in
sleep(): test_a_sleep_that_fails; `cumem.CuMemAllocator = ` in register(): test_plugin."""
import ctypes
import sys
import types
import unittest
import warnings
from unittest import mock

import device
import torch

import tenure
import tenure.tags
import tenure.vllm
from tenure import _library

MIB = device.MIB


def malloc(bytes):
    ptr = ctypes.c_void_p()
    _library.call("tnr_malloc", ctypes.byref(ptr), bytes, 0, None)
    device.fill(ptr.value, bytes, None)
    return ptr.value


def filled(ptr, bytes=2 * MIB):
    device.run_all()
    return ctypes.string_at(ptr, bytes) == b"\1" * bytes


def held():
    tenure.trim()
    return tenure.stats()["reserved_bytes.all.current"]


class CuMem(unittest.TestCase):
    def setUp(self):
        device.use()
        tenure.vllm.CuMemAllocator.instance = None
        self.allocator = tenure.vllm.CuMemAllocator.get_instance()
        with self.allocator.use_memory_pool(tag="weights"):
            self.weights = malloc(4 * MIB)
            with self.allocator.use_memory_pool("kv_cache"):
                self.cache = malloc(2 * MIB)
        with self.allocator.use_memory_pool():
            self.other = malloc(2 * MIB)

    def tearDown(self):
        self.allocator.wake_up()
        for ptr in (self.weights, self.cache, self.other):
            _library.call("tnr_free", ptr)
        tenure.trim()
        device.run_all()
        _library.call("tnr_validate", -1)

    def test_levels(self):
        """1 keeps the weights, 2 nothing; the cache wakes last."""
        self.assertIs(tenure.vllm.CuMemAllocator.get_instance(), self.allocator)
        self.assertEqual([tenure.tags.of(each) for each in (self.weights, self.cache, self.other)],
                         ["weights", "kv_cache", "default"])
        usage, before = self.allocator.get_current_usage(), held()
        self.assertEqual(usage, 8 * MIB)
        self.allocator.sleep(offload_tags=("weights",))
        self.assertEqual(held(), before - 8 * MIB)
        self.assertEqual(self.allocator.get_current_usage(), usage)
        self.allocator.wake_up(["weights"])
        self.assertTrue(filled(self.weights, 4 * MIB))
        self.assertEqual(held(), before - 4 * MIB)
        self.allocator.wake_up(tags=["kv_cache", "nobody's"])
        self.allocator.wake_up()
        self.allocator.wake_up()
        self.assertEqual(held(), before)
        self.assertEqual((filled(self.cache), filled(self.other)), (False, False))
        self.allocator.sleep(offload_tags=tuple())
        self.allocator.sleep(offload_tags=tuple())
        self.allocator.wake_up()
        self.assertFalse(filled(self.weights, 4 * MIB))

    def test_what_is_kept(self):
        self.allocator.sleep()  # the default tag's
        self.allocator.wake_up()
        self.assertEqual((filled(self.other), filled(self.weights, 4 * MIB)), (True, False))
        self.allocator.sleep("default")
        self.allocator.wake_up()
        self.assertTrue(filled(self.other))

    def test_a_sleep_that_fails(self):
        before = held()
        real = tenure.tags.sleep

        def refused(*names, content):
            if content == "discard":
                raise tenure.Error("refused")
            real(*names, content=content)

        with mock.patch.object(tenure.tags, "sleep", refused):
            with self.assertRaisesRegex(tenure.Error, "refused"):
                self.allocator.sleep(("weights",))
        self.assertEqual(held(), before)
        self.assertTrue(filled(self.weights, 4 * MIB))

    def test_wrong_tags(self):
        with self.assertRaisesRegex(TypeError, "int"):
            with self.allocator.use_memory_pool(7):
                pass
        with self.assertRaises(tenure.Error):
            with self.allocator.use_memory_pool("a,b"):
                pass


class Plugin(unittest.TestCase):
    def test_plugin(self):
        cumem = types.ModuleType("vllm.device_allocator.cumem")
        cumem.CuMemAllocator, cumem.cumem_available = "vLLM's", False
        modules = {"vllm": types.ModuleType("vllm"), cumem.__name__: cumem,
                   "vllm.device_allocator": types.ModuleType("vllm.device_allocator")}
        with mock.patch.dict(sys.modules, modules), \
                mock.patch("tenure.torch.is_installed", return_value=False), \
                mock.patch("tenure.torch.install", return_value=True) as install:
            tenure.vllm.register()
            self.assertIs(cumem.CuMemAllocator, tenure.vllm.CuMemAllocator)
            self.assertTrue(cumem.cumem_available)
            install.assert_called_once_with()
            cumem.CuMemAllocator = "vLLM's"
            install.return_value = False  # Tenure cannot serve, and has said so
            tenure.vllm.register()
            self.assertEqual(cumem.CuMemAllocator, "vLLM's")

    def test_without_vllm(self):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            tenure.vllm.register()
        self.assertRegex(str(said[-1].message), "does not serve vLLM's sleep mode: No module")


if __name__ == "__main__":
    unittest.main()
