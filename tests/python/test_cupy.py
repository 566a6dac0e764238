# SPDX-License-Identifier: Apache-2.0
"""tenure.cupy against a stand-in for CuPy and the simulated device: see fake/cupy.py."""
import ctypes
import gc
import unittest

import device
import cupy

import tenure
import tenure.cupy

MIB = device.MIB


def live():
    return tenure.stats()["allocated_bytes.all.current"]


class Case(unittest.TestCase):
    """The tests run three times: with CuPy's C function for the current stream, with one of another
    form, and without."""

    signature = b"intptr_t (void)"

    def setUp(self):
        cupy.export(self.signature)
        self.native = cupy.cuda.get_allocator()
        self.functions = [cupy.Stream.__del__, cupy.Stream.begin_capture, cupy.Stream.end_capture]
        tenure.cupy.install()
        self.live = live()

    def tearDown(self):
        gc.collect()
        cupy.state.stream = cupy.null
        tenure.cupy.uninstall()
        self.assertIs(cupy.cuda.get_allocator(), self.native)
        self.assertEqual([cupy.Stream.__del__, cupy.Stream.begin_capture,
                          cupy.Stream.end_capture], self.functions)
        self.assertEqual(live(), self.live)
        device.run_all()
        tenure._library.call("tnr_validate", -1)


class Memory(Case):
    def test_serves_and_frees(self):
        self.assertTrue(tenure.cupy.is_installed())
        x = cupy.ndarray(3 * MIB)
        self.assertEqual(live() - self.live, 3 * MIB)
        del x
        self.assertEqual(live(), self.live)
        self.assertEqual(cupy.ndarray(0).ptr, 0)

    def test_pinned_memory(self):
        """Freed while a copy reads it: the next one is not the same, and the copy gets its bytes.
        Broken to see it fail: tnr_free instead of tnr_free_sync (cupy.py)."""
        host = tenure.stats(device=64)["allocated_bytes.all.current"]
        to, stream = cupy.ndarray(MIB), cupy.Stream()
        pinned = cupy.cuda.alloc_pinned_memory(MIB)
        self.assertEqual(pinned.size(), MIB)
        self.assertEqual(tenure.stats(device=64)["allocated_bytes.all.current"] - host, MIB)
        address = pinned.ptr
        ctypes.memset(address, 7, MIB)
        self.assertEqual(cupy.DRIVER.cuMemcpyHtoDAsync_v2(
            ctypes.c_uint64(to.ptr), ctypes.c_void_p(address), ctypes.c_size_t(MIB),
            ctypes.c_void_p(stream.ptr)), 0)
        del pinned
        other = cupy.cuda.alloc_pinned_memory(MIB)
        self.assertNotEqual(other.ptr, address)
        device.run_all()
        del other
        self.assertEqual(tenure.stats(device=64)["allocated_bytes.all.current"], host)
        self.assertEqual(cupy.cuda.alloc_pinned_memory(0).ptr, 0)
        with self.assertRaises(tenure.cupy.OutOfMemoryError):
            cupy.cuda.alloc_pinned_memory(1 << 50)

    def test_pinned_memory_of_cupy(self):
        tenure.cupy.uninstall()
        self.assertEqual(cupy.state.pinned, cupy.pinned_pool.malloc)
        tenure.cupy.install(pinned=False)
        self.assertEqual(cupy.state.pinned, cupy.pinned_pool.malloc)

    def test_install_twice(self):
        tenure.cupy.install()
        tenure.cupy.uninstall()
        self.assertIs(cupy.cuda.get_allocator(), self.native)
        tenure.cupy.install()

    def test_arrays_outlive_uninstall(self):
        x = cupy.ndarray(3 * MIB)
        tenure.cupy.uninstall()
        self.assertFalse(tenure.cupy.is_installed())
        del x
        self.assertEqual(live(), self.live)
        tenure.cupy.install()

    def test_of_the_current_stream(self):
        """Memory freed on one stream does not serve another while its work goes on."""
        first, second = cupy.Stream(), cupy.Stream()
        cupy.state.stream = first
        x = cupy.ndarray(2 * MIB)
        address = x.ptr
        del x
        self.assertEqual(cupy.ndarray(2 * MIB).ptr, address)
        cupy.state.stream = second
        self.assertNotEqual(cupy.ndarray(2 * MIB).ptr, address)

    def test_kind(self):
        """Which of CuPy's hooks is used."""
        kept = len(tenure.cupy._kept)
        tenure.cupy.uninstall()
        tenure.cupy.install()
        self.assertEqual(len(tenure.cupy._kept) - kept, self.signature == b"intptr_t (void)")

    def test_freed_on_its_own_stream(self):
        first, second = cupy.Stream(), cupy.Stream()
        cupy.state.stream = first
        x = cupy.ndarray(2 * MIB)
        address = x.ptr
        cupy.state.stream = second
        before = tenure.stats()["bytes_retired"]
        del x
        self.assertEqual(tenure.stats()["bytes_retired"], before)
        cupy.state.stream = first
        self.assertEqual(cupy.ndarray(2 * MIB).ptr, address)

    def test_freed_on_both_streams(self):
        tenure.cupy.uninstall()
        tenure.cupy.install(both_streams=True)
        first, second = cupy.Stream(), cupy.Stream()
        cupy.state.stream = first
        x = cupy.ndarray(2 * MIB)
        cupy.state.stream = second
        device.fill(x.ptr, 2 * MIB, second.ptr)
        before = tenure.stats()["bytes_retired"]
        del x
        self.assertEqual(tenure.stats()["bytes_retired"] - before, 2 * MIB)

    def test_record_use(self):
        side = cupy.Stream()
        x = cupy.ndarray(2 * MIB)
        tenure.record_use(x.ptr, side)
        before = tenure.stats()["bytes_retired"]
        del x
        self.assertEqual(tenure.stats()["bytes_retired"] - before, 2 * MIB)

    def test_streams_end(self):
        """A stream with the handle of one that is gone does not get its memory unordered."""
        before = tenure.stats()["arenas"]
        for _ in range(20):
            cupy.state.stream = cupy.Stream()
            x = cupy.ndarray(2 * MIB)
            device.fill(x.ptr, 2 * MIB, cupy.state.stream.ptr)
            del x
            cupy.state.stream = cupy.null
            gc.collect()
        device.run_all()
        self.assertLessEqual(tenure.stats()["arenas"], before + 4)

    def test_streams_from_elsewhere(self):
        """CuPy makes such a stream an owner of the handle, so it ends twice: through the object
        that came first, or the other. Asking the driver about it then ends the process."""
        class Foreign:
            def __init__(self, ptr):
                self.ptr = ptr

            def __cuda_stream__(self):
                return 0, self.ptr

        for is_used in (False, True):
            for is_first in (False, True):
                real = cupy.Stream()
                stream = cupy.Stream.from_external(Foreign(real.ptr))
                if is_used:
                    cupy.state.stream = stream
                    x = cupy.ndarray(2 * MIB)
                    device.fill(x.ptr, 2 * MIB, stream.ptr)
                    del x
                    cupy.state.stream = cupy.null
                if is_first:
                    del stream
                    del real
                else:
                    del real
                    del stream

    def test_short_memory(self):
        with self.assertRaisesRegex(cupy.cuda.memory.OutOfMemoryError, "Tenure out of memory: "):
            cupy.ndarray(1 << 50)
        with self.assertRaises(MemoryError):
            cupy.ndarray(1 << 50)

    def test_bad_conf(self):
        tenure.cupy.uninstall()
        with self.assertRaisesRegex(tenure.Error, "no_such_key"):
            tenure.cupy.install(conf="no_such_key:1")
        self.assertFalse(tenure.cupy.is_installed())
        tenure.cupy.install(history="light")
        tenure.history("off")


class Captures(Case):
    def setUp(self):
        super().setUp()
        cupy.state.stream = cupy.Stream()
        self.warm = cupy.ndarray(MIB)  # the device is in use
        device.run_all()
        tenure._library.call("tnr_trim", None, 0, 0)
        self.pools = tenure.stats()["pools"]

    def tearDown(self):
        del self.warm
        super().tearDown()

    def test_keep_their_memory(self):
        stream, outside = cupy.state.stream, cupy.ndarray(4 * MIB)
        stream.begin_capture()
        inside = cupy.ndarray(4 * MIB)
        addresses = {inside.ptr, outside.ptr}
        device.fill(inside.ptr, 4 * MIB, stream.ptr)
        device.fill(outside.ptr, 4 * MIB, stream.ptr)
        self.assertEqual(tenure.stats()["pools"], self.pools + 1)
        del inside
        graph = stream.end_capture()
        del outside
        others = [cupy.ndarray(4 * MIB) for _ in range(8)]
        self.assertFalse(addresses & {other.ptr for other in others})
        del others, graph
        device.run_all()
        tenure._library.call("tnr_trim", None, 0, 0)
        self.assertEqual(tenure.stats()["pools"], self.pools)

    def test_what_the_graph_does_not_use(self):
        """Freed in the capture, and handed out after it."""
        stream, unused = cupy.state.stream, cupy.ndarray(8 * MIB + 4096)
        address = unused.ptr
        stream.begin_capture()
        inside = cupy.ndarray(MIB)
        device.fill(inside.ptr, MIB, stream.ptr)
        del unused
        graph = stream.end_capture()
        self.assertEqual(cupy.ndarray(8 * MIB + 4096).ptr, address)
        del inside, graph

    def test_failures(self):
        stream = cupy.state.stream
        with self.assertRaisesRegex(RuntimeError, "cuStreamEndCapture"):
            stream.end_capture()
        stream.begin_capture()
        side = cupy.Stream()
        event = ctypes.c_void_p()
        device.fill(self.warm.ptr, MIB, stream.ptr)
        for result in (device.DRIVER.cuEventCreate(ctypes.byref(event), 2),
                       device.DRIVER.cuEventRecord(event, ctypes.c_void_p(stream.ptr)),
                       device.DRIVER.cuStreamWaitEvent(ctypes.c_void_p(side.ptr), event, 0)):
            self.assertEqual(result, 0)
        device.fill(self.warm.ptr, MIB, side.ptr)
        with self.assertRaisesRegex(RuntimeError, "cuStreamEndCapture"):
            stream.end_capture()
        self.assertEqual(tenure.cupy._captures, {})
        x = cupy.ndarray(4 * MIB)
        self.assertEqual(live() - self.live, 5 * MIB)
        del x


def variants(*cases):
    """The cases for CuPys whose C functions are other ones."""
    for case in cases:
        for name, signature in (("Other", b"intptr_t (int)"), ("None", None)):
            name = case.__name__ + name
            globals()[name] = type(name, (case,), {"signature": signature})


variants(Memory, Captures)

if __name__ == "__main__":
    device.use()
    unittest.main()
