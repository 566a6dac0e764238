# SPDX-License-Identifier: Apache-2.0
"""tenure.vllm on the simulated device: the class as vLLM's workers call it, and the entry point
against a stand-in for vLLM. vLLM itself is not here.

Lines taken out to see a test fail: `content="discard"` in sleep(): test_levels; the wake in
sleep(): test_a_sleep_that_fails; `cumem.CuMemAllocator = ` in register(): test_plugin; _ALWAYS_KEPT
in sleep(): test_what_cannot_be_made_again; the trim in use_memory_pool(): test_freed_inside; the
tags that can_wait does not name: test_selective_wake; `_mapped()` in _unmapping(), the hooks
before: test_hooks; `tag in asleep` in pointer_to_data: test_pointers; Own's get_instance
in register(): test_plugin."""
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

    def test_what_cannot_be_made_again(self):
        """State of a running engine and memory of graphs are kept at both levels."""
        with self.allocator.use_memory_pool("runtime"):
            state = malloc(2 * MIB)
        with mock.patch.object(torch.cuda, "graph_pool_handle", lambda: (0, 7), create=True), \
                self.allocator.cudagraph_pool() as pool:
            graph = malloc(2 * MIB)
            self.assertEqual((pool, self.allocator.current_tag), ((0, 7), "cudagraph"))
        self.assertEqual(self.allocator.current_tag, "default")
        self.assertEqual(tenure.tags.of(graph), "cudagraph")
        for kept in ("weights", ()):
            self.allocator.sleep(offload_tags=kept)
            self.allocator.wake_up()
            self.assertTrue(filled(state) and filled(graph))
        for ptr in (state, graph):
            _library.call("tnr_free", ptr)

    def test_discard(self):
        """One tag goes, the others stay awake; what sleeps keeps what was kept of it."""
        before = held()
        self.allocator.discard("kv_cache")
        self.assertEqual(held(), before - 2 * MIB)
        self.assertTrue(filled(self.weights, 4 * MIB) and filled(self.other))
        self.allocator.sleep(("kv_cache", "weights"))
        self.allocator.discard(("weights", "nobody's"))
        self.allocator.wake_up()
        self.assertEqual((filled(self.weights, 4 * MIB), filled(self.cache)), (True, False))

    def test_freed_inside(self):
        """What is freed before the region ends is the driver's at its end."""
        held()
        before = tenure.stats()["reserved_bytes.all.current"]
        with self.allocator.reuse_memory_pool("weights"):
            _library.call("tnr_free_sync", malloc(8 * MIB))
        self.assertEqual(tenure.stats()["reserved_bytes.all.current"], before)
        with self.assertRaisesRegex(ValueError, "nothing was allocated with the tag 'nobody'"):
            self.allocator.reuse_memory_pool("nobody")
        self.allocator.release_pools()
        self.allocator.close()

    def test_pointers(self):
        data = self.allocator.pointer_to_data
        self.assertEqual({address: (one.handle, one.tag, one.is_asleep)
                          for address, one in data.items()},
                         {self.weights: ((0, 4 * MIB, self.weights, 0), "weights", False),
                          self.cache: ((0, 2 * MIB, self.cache, 0), "kv_cache", False),
                          self.other: ((0, 2 * MIB, self.other, 0), "default", False)})
        untagged = malloc(MIB)
        with tenure.tags.region("somebody"):
            foreign = malloc(MIB)
        self.allocator.discard("kv_cache")
        data = self.allocator.pointer_to_data
        self.assertEqual({address for address, one in data.items() if one.is_asleep}, {self.cache})
        self.assertEqual(len(data), 3)
        for ptr in (untagged, foreign):
            _library.call("tnr_free", ptr)

    def test_selective_wake(self):
        """Newer versions of vLLM name the tags that a selective wake may leave asleep."""
        newer = types.SimpleNamespace(DEFERRABLE_TAGS=("weights", "kv_cache"))
        with mock.patch.dict(sys.modules, {"vllm.device_allocator": newer}):
            self.allocator.sleep(offload_tags=())
            self.allocator.wake_up(tags=["weights"])
            self.assertEqual([one.tag for one in self.allocator.pointer_to_data.values()
                              if one.is_asleep], ["kv_cache"])

    def test_hooks(self):
        """What a part of vLLM wants to be told: before memory goes, and when it is there again,
        also where it stays since the sleep failed."""
        told = []
        newer = types.SimpleNamespace(
            run_before_unmap_hooks=lambda data, tags: told.append(
                ("before", sorted(one.tag for one in data if one.tag in tags
                                  and not one.is_asleep))),
            run_after_map_hooks=lambda data: told.append(
                ("after", sorted(one.tag for one in data if not one.is_asleep))))
        everything = ["default", "kv_cache", "weights"]
        with mock.patch.dict(sys.modules, {"vllm.device_allocator": newer}):
            self.allocator.discard("kv_cache")
            self.allocator.sleep(("weights",))
            self.allocator.wake_up(["weights"])
            self.allocator.wake_up()
            with mock.patch.object(tenure.tags, "sleep", side_effect=tenure.Error("refused")):
                with self.assertRaisesRegex(tenure.Error, "refused"):
                    self.allocator.discard("kv_cache")
            newer.run_before_unmap_hooks = mock.Mock(side_effect=ZeroDivisionError)
            with self.assertRaises(ZeroDivisionError):  # one of those that wanted to hear
                self.allocator.sleep(())
            self.assertEqual((told.pop(), held()), (("after", everything), 8 * MIB))
        self.assertEqual(told, [("before", ["kv_cache"]), ("before", ["default", "weights"]),
                                ("after", ["weights"]), ("after", everything),
                                ("before", ["kv_cache"]), ("after", everything)])

    def test_wrong_tags(self):
        with self.assertRaisesRegex(TypeError, "int"):
            with self.allocator.use_memory_pool(7):
                pass
        with self.assertRaises(tenure.Error):
            with self.allocator.use_memory_pool("a,b"):
                pass


class Plugin(unittest.TestCase):
    def test_plugin(self):
        class Own:
            """vLLM's, which a program has imported before the plug-in comes."""

            @staticmethod
            def get_instance():
                raise AssertionError("vLLM's own instance")

        cumem = types.ModuleType("vllm.device_allocator.cumem")
        cumem.CuMemAllocator, cumem.cumem_available = Own, False
        modules = {"vllm": types.ModuleType("vllm"), cumem.__name__: cumem,
                   "vllm.device_allocator": types.ModuleType("vllm.device_allocator")}
        with mock.patch.dict(sys.modules, modules), \
                mock.patch("tenure.torch.is_installed", return_value=False), \
                mock.patch("tenure.torch.install", return_value=True) as install:
            tenure.vllm.register()
            self.assertIs(cumem.CuMemAllocator, tenure.vllm.CuMemAllocator)
            self.assertTrue(cumem.cumem_available)
            tenure.vllm.register()
            self.assertIs(Own.get_instance(), tenure.vllm.CuMemAllocator.get_instance())
            cumem.CuMemAllocator = Own
            install.assert_called_with()
            install.return_value = False  # Tenure cannot serve, and has said so
            tenure.vllm.register()
            self.assertIs(cumem.CuMemAllocator, Own)

    def test_without_vllm(self):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            tenure.vllm.register()
        self.assertRegex(str(said[-1].message), "does not serve vLLM's sleep mode: No module")


if __name__ == "__main__":
    unittest.main()
