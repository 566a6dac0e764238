# SPDX-License-Identifier: Apache-2.0
"""tenure.numba against a stand-in for Numba and the simulated device: see fake/numba/cuda.py.

Seen to fail: with tnr_free for tnr_free_sync, without the free when Numba refuses the pointer, with
a c_uint64 for a Numba that has NVIDIA's bindings. Of pinned memory: with tnr_free for
tnr_free_sync, without the test of `wc`, with a c_void_p for today's Numba, without the free when
Numba refuses."""
import ctypes
import types
import unittest

import device
import everyday
from numba import cuda

import tenure
import tenure.numba

MIB = device.MIB


def live():
    return tenure.stats()["allocated_bytes.all.current"]


HOST = 64  # TNR_HOST(0)


def host_live():
    return tenure.stats(HOST)["allocated_bytes.all.current"]


class Numba(unittest.TestCase):
    def setUp(self):
        tenure.numba.install()
        self.manager = cuda.state.manager(
            context=types.SimpleNamespace(device=types.SimpleNamespace(id=0)))
        self.manager.initialize()
        self.live = live()

    def tearDown(self):
        device.run_all()
        self.assertEqual(live(), self.live)
        tenure._library.call("tnr_validate", -1)

    def test_serves_and_frees(self):
        memory = self.manager.memalloc(3 * MIB)
        self.assertEqual(live() - self.live, 3 * MIB)
        self.assertEqual((memory.size, memory.device_pointer.value % 512), (3 * MIB, 0))
        self.assertIs(memory.context, self.manager.context)
        del memory  # without free()
        self.assertEqual(live(), self.live)
        self.manager.memalloc(0).free()

    def test_pointers_of_todays_numba(self):
        """Numba with NVIDIA's bindings makes an int of the pointer, one without takes `value`."""
        for binding in (types.SimpleNamespace(CUdeviceptr=int), None):
            if binding:
                cuda.driver.binding = binding
            try:
                memory = self.manager.memalloc(MIB)
                self.assertEqual(memory.device_pointer_value % 512, 0)
                tenure.record_use(memory.device_pointer_value, 0)
                memory.free()
            finally:
                if binding:
                    del cuda.driver.binding

    def test_free_means_cudafree(self):
        """Work of a blocking stream that nothing announced goes on: its memory is not given to
        others before. The race detector ends the program if it is."""
        stream = everyday.made("cuStreamCreate", 0)
        memory = self.manager.memalloc(2 * MIB)
        device.fill(memory.device_pointer.value, 2 * MIB, stream)
        memory.free()
        self.assertEqual(tenure.stats()["bytes_retired"], 2 * MIB)
        other = everyday.made("cuStreamCreate", 1)
        block = self.manager.memalloc(2 * MIB)
        tenure.record_use(block.device_pointer.value, other)
        block.free()

    def test_streams_of_numba_come_after_it(self):
        """Memory that another stream still uses is handed out behind a wait, which the stream that
        gets the array, any blocking one, must be behind as well."""
        self.manager.reset()
        side, own = everyday.made("cuStreamCreate", 1), everyday.made("cuStreamCreate", 0)
        memory = self.manager.memalloc(6 * MIB)
        address = memory.device_pointer.value
        device.run_all()
        device.fill(address, 6 * MIB, side)
        tenure.record_use(address, side)
        memory.free()
        tenure.set_limit(8 * MIB)
        try:
            again = self.manager.memalloc(6 * MIB)
        finally:
            tenure.set_limit(2**64 - 1)
        device.fill(again.device_pointer.value, 6 * MIB, own)
        again.free()

    def test_failures(self):
        with self.assertRaisesRegex(MemoryError, "Tenure out of memory: "):
            self.manager.memalloc(1 << 50)
        cuda.state.refuses_pointers = True
        try:
            with self.assertRaisesRegex(MemoryError, "no host memory"):
                self.manager.memalloc(MIB)
        finally:
            cuda.state.refuses_pointers = False
        with self.assertRaisesRegex(NotImplementedError, "export.h"):
            self.manager.get_ipc_handle(None)

    def test_memory_info(self):
        before = self.manager.get_memory_info()
        memory = self.manager.memalloc(64 * MIB)
        during = self.manager.get_memory_info()
        memory.free()
        device.run_all()
        after = self.manager.get_memory_info()
        self.assertEqual(before.free - during.free, 64 * MIB)
        self.assertEqual(after, before)
        self.assertGreaterEqual(before.total, before.free)
        self.assertGreater(before.free, 0)

    def test_the_rest_of_the_interface(self):
        self.assertEqual(self.manager.interface_version, 1)
        with self.manager.defer_cleanup():
            self.assertEqual(self.manager.deallocations, ["deferred"])
        self.manager.memalloc(64 * MIB).free()
        device.run_all()
        self.manager.reset()
        self.assertLess(tenure.stats()["reserved_bytes.all.current"], 64 * MIB)

    def test_pinned_memory(self):
        """Of the host pools, of either Numba; what else Numba pins stays its own."""
        for binding in (types.SimpleNamespace(CUdeviceptr=int), None):
            if binding:
                cuda.driver.binding = binding
            try:
                memory = self.manager.memhostalloc(3 * MIB + 1, portable=True)
            finally:
                if binding:
                    del cuda.driver.binding
            self.assertEqual(host_live(), 3 * MIB + 512)
            self.assertEqual((memory.size, memory._bufptr_ % 512), (3 * MIB + 1, 0))
            ctypes.memset(memory._bufptr_, 7, memory.size)
            del memory
            device.run_all()
            self.assertEqual(host_live(), 0)
        self.assertEqual(self.manager.memhostalloc(10, mapped=True), (10, True, False, False))
        self.assertEqual(self.manager.memhostalloc(10, wc=True), (10, False, False, True))
        self.assertEqual(host_live(), 0)

    def test_a_pinned_array_dies_during_its_copy(self):
        """Its memory is not given to others before: the race detector would end the program."""
        stream = everyday.made("cuStreamCreate", 1)
        target = self.manager.memalloc(2 * MIB)
        memory = self.manager.memhostalloc(2 * MIB)
        everyday.call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(target.device_pointer.value),
                      ctypes.c_void_p(memory._bufptr_), ctypes.c_size_t(2 * MIB),
                      ctypes.c_void_p(stream))
        del memory
        self.assertEqual(tenure.stats(HOST)["bytes_retired"], 2 * MIB)
        other = self.manager.memhostalloc(2 * MIB)
        ctypes.memset(other._bufptr_, 1, 2 * MIB)
        tenure.record_use(target.device_pointer.value, stream)
        target.free()

    def test_refused_pinned_memory(self):
        tenure.set_limit(MIB, HOST)
        try:
            with self.assertRaisesRegex(MemoryError, "out of memory"):
                self.manager.memhostalloc(64 * MIB)
        finally:
            tenure.set_limit(2**64 - 1, HOST)
        cuda.state.refuses_pointers = True
        try:
            with self.assertRaisesRegex(MemoryError, "no host memory"):
                self.manager.memhostalloc(MIB)
        finally:
            cuda.state.refuses_pointers = False
        device.run_all()
        self.assertEqual(host_live(), 0)

    def test_names(self):
        self.assertEqual(dir(tenure.numba), ["MemoryManager", "install"])
        self.assertIs(tenure.numba._numba_memory_manager, cuda.state.manager)
        self.assertIn("numba", dir(tenure))


if __name__ == "__main__":
    device.use()
    unittest.main()
