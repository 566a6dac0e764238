# SPDX-License-Identifier: Apache-2.0
"""tenure.dlpack, with consumers written for it, on the simulated device: a capsule is read as a
consumer in C would, and the device's race detector ends the test where an order is missing.

Seen to fail: without the wait of the consumer's stream; with the use of an export not recorded;
with tnr_free where streams are not known; with the use on a thread's default stream recorded where
it is dropped; with a deleter that does nothing; with the capsule's destructor left out; with the
version of a capsule ignored."""
import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest

import device

import tenure
import tenure.dlpack

MIB = device.MIB
API = ctypes.pythonapi
API.PyCapsule_GetPointer.restype = ctypes.c_void_p
API.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
API.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
API.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
USED = b"used_dltensor"


class Tensor(ctypes.Structure):
    """DLTensor, as its document has it."""
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", Tensor)]


class Consumer:
    """Takes a tensor as from_dlpack() of an engine does, and ends it by its deleter, which is
    called without the interpreter's lock."""

    def __init__(self, array, **words):
        capsule = array.__dlpack__(**words)
        self.versioned = bool(API.PyCapsule_IsValid(capsule, b"dltensor_versioned"))
        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        self.place = API.PyCapsule_GetPointer(capsule, name)
        API.PyCapsule_SetName(capsule, USED)
        self.managed = (Versioned if self.versioned else Managed).from_address(self.place)
        self.tensor = self.managed.tensor

    def end(self):
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.managed.deleter)(self.place)


def stream():
    handle = ctypes.c_void_p()
    assert device.DRIVER.cuStreamCreate(ctypes.byref(handle), 1) == 0
    return handle.value


def of_device(key):
    return tenure.stats()[key]


class Dlpack(unittest.TestCase):
    def setUp(self):
        self.own, self.side = stream(), stream()

    def tearDown(self):
        gc.collect()
        device.run_all()
        tenure.trim()
        self.assertEqual(of_device("allocated_bytes.all.current"), 0)
        self.assertEqual(of_device("bytes_retired"), 0)
        tenure._library.call("tnr_validate", -1)

    def test_what_a_consumer_reads(self):
        array = tenure.dlpack.empty((3, 0, 5), "float16", stream=self.own)
        consumer = Consumer(array, stream=self.side)
        taken = consumer.tensor
        self.assertEqual((taken.shape[:3], taken.strides[:3]), ([3, 0, 5], [5, 5, 1]))
        consumer.end()
        array.close()
        for words, versioned in (({}, False), ({"max_version": (0, 8)}, False),
                                 ({"max_version": (1, 0)}, True), ({"max_version": (2, 3)}, True)):
            array = tenure.dlpack.empty((4, 3, 2), "complex64", stream=self.own)
            self.assertEqual(array.__dlpack_device__(), (2, 0))
            consumer = Consumer(array, stream=self.own, dl_device=(2, 0), copy=False, **words)
            taken = consumer.tensor
            self.assertEqual(consumer.versioned, versioned)
            self.assertEqual((taken.device_type, taken.device_id, taken.ndim), (2, 0, 3))
            self.assertEqual((taken.code, taken.bits, taken.lanes), (5, 64, 1))
            self.assertEqual((taken.data, taken.byte_offset), (array.address, 0))
            self.assertEqual((taken.shape[:3], taken.strides[:3]), ([4, 3, 2], [6, 2, 1]))
            if versioned:
                self.assertEqual((consumer.managed.major, consumer.managed.flags), (1, 0))
            array.close()
            self.assertGreaterEqual(of_device("allocated_bytes.all.current"), 192)
            consumer.end()
            self.assertEqual(of_device("allocated_bytes.all.current"), 0)

    def test_the_consumer_waits_for_the_array(self):
        array = tenure.dlpack.empty(2 * MIB, stream=self.own)
        device.fill(array.address, 2 * MIB, self.own)  # has not run yet
        consumer = Consumer(array, stream=self.side)
        device.fill(consumer.tensor.data, 2 * MIB, self.side)
        array.close()
        consumer.end()

    def test_memory_comes_back_behind_the_consumer(self):
        for order in ((0, 1), (1, 0)):
            array = tenure.dlpack.empty(2 * MIB, stream=self.own)
            consumer = Consumer(array, stream=self.side, max_version=(1, 1))
            device.fill(consumer.tensor.data, 2 * MIB, self.side)
            for which in order:
                (array.close, consumer.end)[which]()
            self.assertEqual(of_device("bytes_retired"), 2 * MIB)
            with tenure.dlpack.empty(2 * MIB, stream=self.own) as again:
                device.fill(again.address, 2 * MIB, self.own)
            device.run_all()
            tenure.trim()

    def test_own_stream_needs_nothing(self):
        array = tenure.dlpack.empty(2 * MIB, stream=self.own)
        consumer, address = Consumer(array, stream=self.own), array.address
        device.fill(address, 2 * MIB, self.own)
        array.close()
        consumer.end()
        self.assertEqual(of_device("bytes_retired"), 0)
        with tenure.dlpack.empty(2 * MIB, stream=self.own) as again:
            self.assertEqual(again.address, address)

    def test_default_streams(self):
        for given in (None, 1):  # the legacy default stream
            array = tenure.dlpack.empty(2 * MIB, stream=self.own)
            device.fill(array.address, 2 * MIB, self.own)
            consumer = Consumer(array, stream=given)
            device.fill(consumer.tensor.data, 2 * MIB, 0)
            array.close()
            consumer.end()
            self.assertEqual(of_device("bytes_retired"), 2 * MIB)
            device.run_all()
            tenure.trim()
        with tenure.dlpack.empty(MIB) as array:
            Consumer(array).end()  # its own

    def test_default_stream_of_a_thread(self):
        """Taken on the default stream of this thread and dropped by another thread, where 2 is
        another stream. Nothing but this memory is to be had, so it is handed out again at once."""
        tenure.trim()
        array = tenure.dlpack.empty(2 * MIB, stream=self.own)
        address = array.address
        device.fill(address, 2 * MIB, self.own)
        consumer = Consumer(array, stream=2)
        device.fill(consumer.tensor.data, 2 * MIB, 2)
        array.close()
        thread = threading.Thread(target=consumer.end)
        thread.start()
        thread.join()
        self.assertEqual(of_device("bytes_retired"), 2 * MIB)
        tenure.set_limit(2 * MIB)
        try:
            with tenure.dlpack.empty(2 * MIB, stream=self.own) as again:
                self.assertEqual(again.address, address)
                device.fill(address, 2 * MIB, self.own)
        finally:
            tenure.set_limit(2**64 - 1)

    def test_no_order(self):
        array = tenure.dlpack.empty(2 * MIB, stream=self.own)
        consumer = Consumer(array, stream=-1)
        tenure._library.call("tnr_stream_created", 0, self.side)
        device.fill(consumer.tensor.data, 2 * MIB, self.side)
        consumer.end()
        array.close()
        with tenure.dlpack.empty(2 * MIB, stream=self.own) as again:
            device.fill(again.address, 2 * MIB, self.own)

    def test_a_use_that_cannot_be_recorded(self):
        array = tenure.dlpack.empty(2 * MIB, stream=self.own)
        consumer = Consumer(array, stream=self.side)
        device.fill(consumer.tensor.data, 2 * MIB, self.side)
        device.DRIVER.simcuda_fail(b"cuEventRecord", ctypes.c_uint64(1), 0, 999)
        consumer.end()
        self.assertEqual(device.DRIVER.simcuda_fail_hits(), 1)
        device.DRIVER.simcuda_fail_clear()
        array.close()
        with tenure.dlpack.empty(2 * MIB, stream=self.own) as again:
            device.fill(again.address, 2 * MIB, self.own)

    def test_nobody_takes_it(self):
        array = tenure.dlpack.empty(MIB, stream=self.own)
        capsules = [array.__dlpack__(stream=self.side, max_version=version)
                    for version in (None, (1, 0))]
        array.close()
        self.assertEqual(of_device("allocated_bytes.all.current"), MIB)
        del capsules
        self.assertEqual(of_device("allocated_bytes.all.current"), 0)

    def test_record_use(self):
        array = tenure.dlpack.empty(MIB, "float32", stream=self.own)
        self.assertEqual(array.__cuda_array_interface__["typestr"], "<f4")
        self.assertEqual(array.__cuda_array_interface__["stream"], self.own)
        device.run_all()
        device.fill(array.address, 4 * MIB, self.side)
        tenure.record_use(array, self.side)
        del array
        self.assertEqual(of_device("bytes_retired"), 4 * MIB)

    def test_pool(self):
        pool = tenure.Pool()
        array = tenure.dlpack.empty(MIB, stream=self.own, pool=pool)
        self.assertEqual(pool.stats()["allocated_bytes.all.current"], MIB)
        with self.assertRaisesRegex(ValueError, "of device 0"):
            tenure.dlpack.empty(MIB, device=1, pool=pool)
        array.close()
        pool.close()

    def test_refusals(self):
        with tenure.dlpack.empty(8, "bfloat16", stream=self.own) as array:
            self.assertFalse(hasattr(array, "__cuda_array_interface__"))
            for wrong in (0, -2, "1", True, 1.0):
                with self.assertRaisesRegex(ValueError, "not a stream of DLPack's"):
                    array.__dlpack__(stream=wrong)
            with self.assertRaisesRegex(tenure.Error, "stream"):
                array.__dlpack__(stream=4096)
            for words in ({"copy": True}, {"dl_device": (1, 0)}, {"dl_device": (2, 1)}):
                with self.assertRaises(BufferError):
                    array.__dlpack__(stream=self.own, **words)
        with self.assertRaisesRegex(BufferError, "closed"):
            array.__dlpack__()
        with self.assertRaisesRegex(ValueError, "closed"):
            array.address
        array.close()
        self.assertIn("closed", repr(array))
        for wrong, text in (((-1, "uint8"), "negative"), ((1, "float99"), "not one of bool")):
            with self.assertRaisesRegex(ValueError, text):
                tenure.dlpack.empty(*wrong)
        with self.assertRaisesRegex(ValueError, "per-thread"):
            tenure.dlpack.empty(1, stream=2)
        with self.assertRaisesRegex(MemoryError, "larger than any device"):
            tenure.dlpack.empty((1 << 40, 1 << 40))
        with self.assertRaisesRegex(MemoryError, "Tenure out of memory: "):
            tenure.dlpack.empty(1 << 50)
        self.assertEqual(dir(tenure.dlpack), ["Array", "empty"])
        self.assertIn("dlpack", dir(tenure))

    def test_every_driver_call_refused(self):
        calls = ("cuDevicePrimaryCtxRetain", "cuCtxPushCurrent", "cuEventCreate", "cuEventRecord",
                 "cuStreamWaitEvent", "cuEventDestroy", "cuCtxPopCurrent",
                 "cuDevicePrimaryCtxRelease")
        array = tenure.dlpack.empty(MIB, stream=self.own)
        Consumer(array, stream=self.side).end()
        device.run_all()
        for name in calls:
            device.DRIVER.simcuda_fail(name.encode(), ctypes.c_uint64(1), 0, 999)
            with self.assertRaisesRegex(tenure.Error, name):
                array.__dlpack__(stream=self.side)
            self.assertEqual(device.DRIVER.simcuda_fail_hits(), 1)
            device.DRIVER.simcuda_fail_clear()
        array.close()

    LATE = """
import ctypes, os, sys
sys.path.insert(0, os.environ["TESTS"])
from test_dlpack import Consumer, device, tenure
device.use()
tenure.configure({"snapshot_at_exit": os.environ["SNAPSHOT"]})
kept = []
for versioned in (None, (1, 0)):
    consumer = Consumer(tenure.dlpack.empty(1 << 20), max_version=versioned)
    # As a destructor of C++'s does, when there is no interpreter; but the first is never ended.
    if kept:
        ctypes.CDLL(None).__cxa_atexit(ctypes.c_void_p(consumer.managed.deleter),
                                       ctypes.c_void_p(consumer.place), None)
    kept.append(consumer)
kept.append(tenure.dlpack.empty(1 << 20).__dlpack__())  # a capsule that ends with the modules
kept.append(tenure.dlpack.empty(1 << 20))               # and an array
"""

    def test_the_end_of_the_process(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "end.json")
            environment = dict(os.environ, TESTS=os.path.dirname(os.path.abspath(__file__)),
                               SNAPSHOT=path)
            done = subprocess.run([sys.executable, "-B", "-c", self.LATE], env=environment,
                                  text=True, capture_output=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(path, encoding="utf-8") as file:
                snapshot = json.load(file)
        self.assertEqual(snapshot["reason"], "exit")
        self.assertEqual(snapshot["pools"][0]["bytes"]["live"], device.MIB)


if __name__ == "__main__":
    device.use()
    unittest.main()
