# SPDX-License-Identifier: Apache-2.0
"""tenure.torch against a stand-in for PyTorch and the simulated device: see fake/torch.py."""
import ctypes
import gc
import importlib
import os
import sys
import json
import tempfile
import unittest
import warnings

import device
import torch

import tenure

HERE = os.path.dirname(os.path.abspath(__file__))
DRIVER = device.DRIVER
MIB = device.MIB


def new_stream():
    handle = ctypes.c_void_p()
    assert DRIVER.cuStreamCreate(ctypes.byref(handle), 1) == 0
    return torch.Stream(handle.value)


class Case(unittest.TestCase):
    """Each test has a PyTorch of its own, and a tenure.torch that has installed nothing."""

    def start(self, lacks=()):
        torch.reset(lacks)
        self.begin = torch.CUDAGraph.capture_begin
        for name in ("torch", "_torch_stats", "_torch_native"):
            sys.modules.pop("tenure." + name, None)
            vars(tenure).pop(name, None)
        self.module = importlib.import_module("tenure.torch")

    def setUp(self):
        os.environ["TENURE_CACHE"] = os.path.join(HERE, "no-such-folder")
        self.start()

    def tearDown(self):
        gc.collect()
        if self.module.is_installed():
            self.assertEqual(self.module.failures(), 0)
        torch.CUDAGraph.capture_begin = self.begin
        tenure.history("off")
        tenure._library.call("tnr_validate", -1)


class Install(Case):
    def test_serves_and_frees(self):
        self.assertTrue(self.module.install(strict=True))
        before = tenure.stats()["allocated_bytes.all.current"]
        x = torch.Tensor(3 * MIB)
        self.assertNotEqual(x.address, 0)
        self.assertEqual(tenure.stats()["allocated_bytes.all.current"] - before, 3 * MIB)
        del x
        self.assertEqual(tenure.stats()["allocated_bytes.all.current"], before)

    def test_streams_keep_their_memory(self):
        """What a stream has freed is no other's while there is memory, as in PyTorch. This failed
        without cross_stream among tenure.torch._DEFAULTS."""
        self.module.install(strict=True)
        served = tenure.stats()
        x = torch.Tensor(30 * MIB)
        del x
        torch.state.stream = new_stream()
        y = torch.Tensor(30 * MIB)
        torch.state.stream = torch.Stream()
        after = tenure.stats()
        self.assertEqual([after[key] - served[key] for key in ("served.lent", "served.shared")],
                         [0, 0])
        del y

    def test_all_setters_are_set(self):
        self.module.install(strict=True)
        self.assertEqual(set(torch.state.allocator.functions),
                         set(torch.SETTERS) - {"set_begin_allocate_to_pool"})

    def test_the_kind(self):
        self.assertIsNone(self.module.kind())
        with self.assertRaisesRegex(tenure.Error, "headers"):
            self.module.install(strict=True, native=True)
        self.assertIsNone(torch.state.allocator)
        self.module.install(strict=True, native=False)
        self.assertEqual(self.module.kind(), "pluggable")

    def test_twice_is_refused(self):
        self.module.install(strict=True)
        with self.assertRaisesRegex(RuntimeError, "call it once"):
            self.module.install()

    def test_too_late_is_refused(self):
        torch.lazy_init()
        with self.assertRaisesRegex(RuntimeError, "too late"):
            self.module.install()
        self.assertIsNone(torch.state.allocator)

    def test_old_pytorch_keeps_its_allocator(self):
        self.start(lacks=("set_record_stream_fn",))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.assertFalse(self.module.install())
        self.assertIn("pluggable interface", str(said[0].message))  # there is nothing to compile
        self.assertIn("set_record_stream_fn", str(said[-1].message))
        self.assertIsNone(torch.state.allocator)
        with self.assertRaisesRegex(tenure.Error, "set_record_stream_fn"):
            self.module.install(strict=True)

    def test_bad_conf_raises(self):
        with self.assertRaisesRegex(tenure.Error, "no_such_key"):
            self.module.install(conf={"no_such_key": 1})
        self.assertIsNone(torch.state.allocator)
        with self.assertRaises(ValueError):
            self.module.install(history="loud")
        self.assertIsNone(torch.state.allocator)

    def test_settings_of_pytorch(self):
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = (
            "expandable_segments:True, roundup_power2_divisions:[256:1,512:2,>:4],"
            "large_segment_size_mb:12,pinned_use_background_threads:True,"
            "per_process_memory_fraction:0.5")
        try:
            settings, sentences = self.module._torch_conf.read()
            self.assertEqual(settings, {"roundup_power2_divisions": "[256:1,512:2,>:4]",
                                        "per_process_memory_fraction": "0.5"})
            self.assertEqual(len(sentences), 1)
            self.assertIn("chunk_mb", sentences[0])
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                self.module.install(strict=True, native=False)
            self.assertIn("large_segment_size_mb", str(said[0].message))
            self.assertIn("in use", str(said[0].message))  # the fraction, by now
            x = torch.Tensor(600 * MIB + 512)
            self.assertEqual(tenure.stats()["allocated_bytes.all.current"] % (64 * MIB), 0)
            del x
        finally:
            del os.environ["PYTORCH_CUDA_ALLOC_CONF"]
            tenure.configure({"roundup_power2_divisions": "off"})

    def test_settings_that_change(self):
        """What the program tells PyTorch while it runs."""
        def tell(text):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                torch._C._accelerator_setAllocatorSettings(text)
            return " ".join(str(one.message) for one in said)

        def rounded():
            x = torch.Tensor(600 * MIB + 512)
            return tenure.stats()["allocated_bytes.all.current"] - before == 640 * MIB and bool(x)

        os.environ["TENURE_CONF"] = "max_split_size_mb:100"
        try:
            self.module.install(strict=True, native=False, conf={"reuse": "poll"})
            before = tenure.stats()["allocated_bytes.all.current"]
            self.assertFalse(rounded())
            self.assertEqual(tell("roundup_power2_divisions:8,expandable_segments:True"), "")
            self.assertTrue(rounded())
            with self.assertRaisesRegex(ValueError, "colour"):
                tell("roundup_power2_divisions:2,colour:3")
            self.assertTrue(rounded(), "what PyTorch refuses changes nothing")
            said = tell("max_split_size_mb:200,per_process_memory_fraction:0.5,backend:native")
            self.assertIn("max_split_size_mb: TENURE_CONF", said)
            self.assertIn("set_per_process_memory_fraction", said)
            self.assertIn("Tenure is the allocator", said)
            self.assertFalse(rounded(), "what is not named is as if it had never been")
            self.assertIn("7", tell("garbage_collection_threshold:7"))
            self.assertEqual(len(torch.state.settings), 3)
        finally:
            del os.environ["TENURE_CONF"]
            tenure.configure({"roundup_power2_divisions": "off", "reuse": "wait",
                              "max_split_size_mb": 0})

    def test_no_library(self):
        kept = tenure._library._loaded
        tenure._library._loaded = None
        os.environ["TENURE_LIBRARY"] = "/no/such/libtenure.so"
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                self.assertFalse(self.module.install())
            self.assertIn("/no/such/libtenure.so", str(said[0].message))
        finally:
            del os.environ["TENURE_LIBRARY"]
            tenure._library._loaded = kept


class Uses(Case):
    def setUp(self):
        super().setUp()
        self.module.install(strict=True)

    def waits_for_the_side_stream(self, record):
        """Whether a block that a busy stream uses waits for it after its free."""
        side = new_stream()
        x = torch.Tensor(2 * MIB)
        device.fill(x.address, 2 * MIB, side.cuda_stream)
        record(x, side)
        before = tenure.stats()["bytes_retired"]
        del x
        return tenure.stats()["bytes_retired"] - before

    def test_record_stream(self):
        self.assertEqual(self.waits_for_the_side_stream(lambda x, s: x.record_stream(s)), 2 * MIB)

    def test_record_use(self):
        self.assertEqual(self.waits_for_the_side_stream(tenure.record_use), 2 * MIB)

    def test_record_use_inside(self):
        self.assertEqual(self.waits_for_the_side_stream(
            lambda x, s: tenure.record_use(x.address + MIB, s.cuda_stream)), 2 * MIB)

    def test_none_recorded(self):
        self.assertEqual(self.waits_for_the_side_stream(lambda x, s: None), 0)

    def test_current_stream_is_the_default(self):
        side = new_stream()

        def record(x, _stream):
            torch.state.stream = side
            tenure.record_use(x)
            torch.state.stream = torch.Stream()

        self.assertEqual(self.waits_for_the_side_stream(record), 2 * MIB)

    def test_names_of_streams(self):
        x = torch.Tensor(MIB)
        stream = torch.cuda.current_stream()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "memory.json")
            for name in ("prefetch \u00e9", None):
                tenure.name_stream(stream, name)
                tenure.snapshot(path)
                with open(path, encoding="utf-8") as file:
                    names = [one.get("name") for one in json.load(file)["streams"]
                             if int(one["handle"], 16) == stream.cuda_stream]
                self.assertEqual(names, [name])
        with self.assertRaises(TypeError):
            tenure.name_stream(object(), "x")
        with self.assertRaisesRegex(tenure.Error, "no device 7"):
            tenure.name_stream(stream, "x", device=7)
        del x

    def test_what_is_no_tensor(self):
        with self.assertRaises(TypeError):
            tenure.record_use(object(), 0)
        with self.assertRaises(TypeError):
            tenure.record_use(torch.Tensor(MIB), object())
        with self.assertRaisesRegex(tenure.Error, "not allocated by Tenure"):
            tenure.record_use(12345, 0)


class Captures(Case):
    """Without the compiled class: CUDAGraph.capture_begin tells Tenure."""

    def setUp(self):
        super().setUp()
        self.module.install(strict=True)
        torch.Tensor(MIB)  # the device is in use
        torch.state.stream = new_stream()
        self.pools = self.settled()

    @staticmethod
    def settled():
        """How many pools there are once those of graphs that are gone have ended."""
        device.run_all()
        for _ in range(2):
            torch.state.allocator.call("set_reset_fn")
        return tenure.stats()["pools"]

    def test_a_pool_that_ends(self):
        graph = torch.CUDAGraph()
        graph.capture_begin()
        self.assertIsNotNone(torch.state.pools[-1])
        x = torch.Tensor(4 * MIB)
        self.assertEqual(tenure.stats()["pools"], self.pools + 1)
        del x
        y = torch.Tensor(4 * MIB)
        graph.capture_end()
        outside = torch.Tensor(4 * MIB)
        self.assertNotEqual(outside.address, y.address)
        del y
        graph.reset()
        self.assertEqual(self.settled(), self.pools)

    def test_a_given_pool(self):
        graph = torch.CUDAGraph()
        graph.capture_begin((0, 77))
        self.assertEqual(torch.state.pools[-1], (0, 77))
        graph.capture_end()
        graph.reset()


class Statistics(Case):
    def setUp(self):
        super().setUp()
        self.module.install(strict=True)

    def test_numbers(self):
        x = torch.Tensor(5 * MIB)
        stats = torch._C._cuda_memoryStats(0)
        flat = self.module.memory_stats()
        self.assertGreaterEqual(stats["allocated_bytes"]["all"]["current"], 5 * MIB)
        self.assertEqual(stats["allocated_bytes"]["all"]["current"],
                         flat["allocated_bytes.all.current"])
        for name in ("reserved_bytes", "inactive_split_bytes", "segment", "active"):
            for size in ("all", "large_pool", "small_pool"):
                self.assertIn("peak", stats[name][size])
        small = torch.Tensor(1000)
        stats = torch._C._cuda_memoryStats(0)
        for name in ("allocation", "allocated_bytes", "active", "active_bytes", "segment",
                     "reserved_bytes", "inactive_split", "inactive_split_bytes"):
            by = stats[name]
            self.assertGreater(by["small_pool"]["current"], 0)
            self.assertEqual(by["small_pool"]["current"] + by["large_pool"]["current"],
                             by["all"]["current"])
            for size in ("small_pool", "large_pool"):
                self.assertLessEqual(by[size]["current"], by[size]["peak"])
        del x, small
        peak = torch._C._cuda_memoryStats(0)["allocated_bytes"]["all"]["peak"]
        torch._C._cuda_resetPeakMemoryStats(0)
        now = torch._C._cuda_memoryStats(0)["allocated_bytes"]["all"]
        self.assertLess(now["peak"], peak)

    def test_sums_are_reset(self):
        torch.Tensor(MIB)
        torch._C._cuda_resetAccumulatedMemoryStats(0)
        self.assertEqual(torch._C._cuda_memoryStats(0)["allocation"]["all"]["allocated"], 0)
        torch.Tensor(MIB)
        self.assertEqual(torch._C._cuda_memoryStats(0)["allocation"]["all"]["allocated"], 1)

    def test_fraction(self):
        torch.Tensor(MIB)
        self.assertEqual(torch._C._cuda_getMemoryFraction(0), 1.0)
        torch.state.allocator.call("set_memory_fraction_fn", 0.5, 0)
        whole = torch.cuda.get_device_properties(0).total_memory
        self.assertAlmostEqual(torch._C._cuda_getMemoryFraction(0), 0.5 *
                               tenure_memory_bytes() / whole)
        torch.state.allocator.call("set_memory_fraction_fn", 1.0, 0)

    def test_snapshot_and_history(self):
        torch._C._cuda_record_memory_history("all", "all", "python", 1000)
        x = torch.Tensor(6 * MIB)
        shot = torch._C._cuda_memorySnapshot(None)
        blocks = [b for s in shot["segments"] for b in s["blocks"] if b["address"] == x.address]
        self.assertEqual(len(blocks), 1)
        actions = [t["action"] for d in shot["device_traces"] for t in d]
        self.assertIn("alloc", actions)
        torch._C._cuda_record_memory_history(None)

    def test_restore(self):
        self.assertEqual(len(self.module._torch_stats.replaced()), 6)
        self.module.restore_stats()
        with self.assertRaisesRegex(RuntimeError, "does not yet support"):
            torch._C._cuda_memoryStats(0)
        self.assertEqual(self.module._torch_stats.replaced(), [])

    def test_not_taken_over(self):
        self.start()
        self.module.install(strict=True, stats=False)
        with self.assertRaisesRegex(RuntimeError, "does not yet support"):
            torch._C._cuda_memoryStats(0)
        self.assertIn("reserved_bytes.all.peak", self.module.memory_stats(0))


def tenure_memory_bytes():
    total = ctypes.c_size_t()
    assert DRIVER.cuDeviceTotalMem_v2(ctypes.byref(total), 0) == 0
    return total.value


class Pools(Case):
    def test_segments(self):
        pool = self.module.mempool(use_on_oom=True)
        self.assertTrue(pool.use_on_oom)
        before = tenure.stats()["allocated_bytes.all.current"]
        segment = pool.allocator.malloc(20 * MIB, 0, None)
        self.assertEqual(tenure.stats()["allocated_bytes.all.current"] - before, 20 * MIB)
        with self.assertRaisesRegex(RuntimeError, "live segments"):
            self.module.mempool(limit_bytes=MIB)
        pool.allocator.free(segment, 20 * MIB, 0, None)
        self.assertEqual(tenure.stats()["allocated_bytes.all.current"], before)
        limited = self.module.mempool(limit_bytes=32 * MIB)
        self.assertFalse(limited.allocator.malloc(40 * MIB, 0, None))
        self.assertIsNone(torch.state.allocator)

    def test_not_with_install(self):
        self.module.install(strict=True)
        with self.assertRaisesRegex(RuntimeError, "pluggable allocator.*tenure.Pool"):
            self.module.mempool()
        with self.assertRaisesRegex(RuntimeError, "tenure.Pool"):
            self.module.mempool(limit_bytes=MIB)
        self.module._kind = "native"
        self.assertIsNone(self.module.mempool(use_on_oom=True).allocator)
        with self.assertRaisesRegex(RuntimeError, "tenure.Pool"):
            self.module.mempool(rdma=True)

    def test_bad_handle(self):
        with self.assertRaises(ValueError):
            self.module.mempool(handle="paper")


if __name__ == "__main__":
    device.use()
    unittest.main()
