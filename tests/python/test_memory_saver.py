# SPDX-License-Identifier: Apache-2.0
"""tenure.memory_saver as programs use it that were written to torch_memory_saver, on the simulated
device, with the stand-in for PyTorch.

Lines taken out to see a test fail: `tags.sleep(*graphs, content="discard")`'s content:
test_cuda_graph; `tnr_pool_push` of null in disable(): test_disable; the undoing in pause():
test_a_pause_that_fails; the clearing in resume(): test_get_cpu_backup; `_have_disk` of _rest():
test_disk_backup_from_the_environment; the way back in _with_region_config():
test_internals_tell_the_state; the finalizer of Backups.hold(): test_a_backup_ends_with_its_memory;
the tags in Backups.drop(): test_get_cpu_backup; RTLD_GLOBAL: test_functions_of_the_process."""
import contextlib
import ctypes
import os
import subprocess
import sys
import tempfile
import unittest
import warnings
from unittest import mock

import device
import torch

import tenure
import tenure._saver_calls
import tenure.memory_saver
import tenure.tags
from tenure import _library

MIB = device.MIB


def malloc(bytes):
    ptr = ctypes.c_void_p()
    _library.call("tnr_malloc", ctypes.byref(ptr), bytes, 0, None)
    device.fill(ptr.value, bytes, None)
    return ptr.value


def free(*pointers):
    for ptr in pointers:
        _library.call("tnr_free", ptr)


def held():
    tenure.trim()
    return tenure.stats()["reserved_bytes.all.current"]


def filled(ptr, bytes=2 * MIB):
    device.run_all()
    return ctypes.string_at(ptr, bytes) == b"\1" * bytes


class Storage:
    pass


class HostTensor:
    """As much of a tensor as get_cpu_backup() uses."""

    def __init__(self, shape, dtype="uint8", device=None, address=None, buffer=None):
        self.shape, self.dtype, self.device, self.storage = shape, dtype, device, Storage()
        if address is None:
            self.buffer = ctypes.create_string_buffer(shape[0]) if buffer is None else buffer
            address = ctypes.addressof(self.buffer)
        self.address = address

    def untyped_storage(self):
        return self.storage

    def view(self, _dtype_or_shape):
        return self

    def bytes(self):
        return ctypes.string_at(self.address, self.shape[0])

    def data_ptr(self):
        return self.address

    def is_contiguous(self):
        return True

    def numel(self):
        return self.shape[0]

    def element_size(self):
        return 1

    def clone(self):
        copy = HostTensor(self.shape)
        ctypes.memmove(copy.address, self.address, self.shape[0])
        return copy


class MemorySaver(unittest.TestCase):
    def setUp(self):
        device.use()
        self.saver = tenure.memory_saver.TorchMemorySaver()

    def tearDown(self):
        tenure.tags.wake()
        device.run_all()
        _library.call("tnr_validate", -1)

    def test_as_its_users_write_it(self):
        from tenure.memory_saver import torch_memory_saver
        torch_memory_saver.hook_mode = "torch"
        self.assertTrue(torch_memory_saver.enabled)
        with torch_memory_saver.region(tag="weights", enable_cpu_backup=True):
            kept = malloc(2 * MIB)
        with torch_memory_saver.region():
            lost = malloc(2 * MIB)
            with torch_memory_saver.region("weights", enable_cpu_backup=True):
                nested = malloc(2 * MIB)
        self.assertEqual([tenure.tags.of(each) for each in (kept, lost, nested)],
                         ["weights", "default", "weights"])
        before = held()
        torch_memory_saver.pause()
        torch_memory_saver.pause()  # once more changes nothing
        self.assertEqual(held(), before - 6 * MIB)
        torch_memory_saver.resume("weights")
        self.assertTrue(filled(kept) and filled(nested))
        self.assertEqual(tenure.tags.stats("default")["bytes_asleep"], 2 * MIB)
        torch_memory_saver.resume()
        torch_memory_saver.resume()
        self.assertEqual(held(), before)
        torch_memory_saver.pause("weights")
        torch_memory_saver.resume("weights")
        with self.assertRaisesRegex(AssertionError, "before the first"):
            torch_memory_saver.hook_mode = "preload"
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            torch_memory_saver.pause("never used")
        self.assertRegex(str(said[0].message), "no region has the tag 'never used'.*weights")
        free(kept, lost, nested)

    def test_one_tag_with_and_without_backup(self):
        with self.saver.region("both", enable_cpu_backup=True):
            kept = malloc(2 * MIB)
        with self.saver.region("both"):
            lost = malloc(2 * MIB)
        self.saver.pause("both")
        self.saver.resume("both")
        self.assertEqual((filled(kept), filled(lost)), (True, False))
        free(kept, lost)

    def graph(self, **options):
        """A block that is handed out while a stand-in for torch.cuda.graph() is open."""
        @contextlib.contextmanager
        def opened(graph, pool=None, stream=None, capture_error_mode="global"):
            seen.append((graph, pool, stream, capture_error_mode))
            yield

        seen = []
        with mock.patch.object(torch.cuda, "graph", opened, create=True):
            with self.saver.cuda_graph("g", stream="s", **options):
                ptr = malloc(2 * MIB)
        self.assertEqual(seen, [("g", None, "s", "global")])
        return ptr

    def test_cuda_graph(self):
        lost, kept = self.graph(tag="graph"), self.graph(tag="graph", enable_cpu_backup=True)
        before = held()
        self.saver.pause("graph")
        self.assertEqual(held(), before - 4 * MIB)
        self.saver.resume("graph")
        self.assertEqual((filled(lost), filled(kept)), (False, True))
        free(lost, kept)

    def test_disable(self):
        with self.saver.region("weights"):
            weights = malloc(2 * MIB)
            self.saver.pause()
            with self.saver.disable():
                beside = malloc(6 * MIB)
                self.assertIsNone(tenure.tags.of(beside))
                before = held()
                free(beside)
            self.assertEqual(held(), before - 6 * MIB)
            with self.assertRaises(tenure.Error):
                malloc(2 * MIB)  # its region is paused
            self.saver.resume()
            more = malloc(2 * MIB)
            self.assertEqual(tenure.tags.of(more), "weights")
        free(weights, more)

    def test_a_pause_that_fails(self):
        graph = self.graph(tag="fails")
        with self.saver.region("fails", enable_cpu_backup=True):
            kept = malloc(2 * MIB)
        before = held()
        device.DRIVER.simcuda_fail(b"cuMemcpyDtoHAsync_v2", ctypes.c_uint64(1), 1, 2)
        try:
            with self.assertRaises(tenure.Error):
                self.saver.pause("fails")
        finally:
            device.DRIVER.simcuda_fail_clear()
        self.assertEqual(held(), before)
        self.assertEqual([tenure.tags.stats(tag)["bytes_asleep"]
                          for tag in ("fails", "fails.graphs")], [0, 0])
        self.assertTrue(filled(kept))
        free(graph, kept)

    def test_get_cpu_backup(self):
        with self.saver.region("read", enable_cpu_backup=True):
            kept = malloc(2 * MIB)
        with self.saver.region("read"):
            lost = malloc(2 * MIB)
        x, y = (HostTensor((MIB,), address=each + 5) for each in (kept, lost))
        empty = mock.patch.object(torch, "empty", lambda shape, **kind: HostTensor(shape, **kind),
                                  create=True)
        with empty, mock.patch.object(tenure._saver_backups, "runtime", lambda: None):
            self.assertIsNone(self.saver.get_cpu_backup(x))
            self.saver.pause("read")
            self.assertIsNone(self.saver.get_cpu_backup(y))
            copy = self.saver.get_cpu_backup(x)
            self.assertEqual((copy.device, copy.buffer.raw), ("cpu", b"\1" * MIB))
            self.assertIsNot(self.saver.get_cpu_backup(x), copy)
            first = self.saver.get_cpu_backup(x, zero_copy=True)
            self.assertIs(self.saver.get_cpu_backup(x, zero_copy=True), first)
            self.assertIsNot(self.saver.get_cpu_backup(x), first)
            with self.saver.region("other"):
                self.saver.pause("other")
                self.saver.resume("other")
            self.assertIs(self.saver.get_cpu_backup(x, zero_copy=True), first)
            self.saver.retain_cpu_backup = True
            self.saver.resume("read")
            self.assertIs(self.saver.get_cpu_backup(x, zero_copy=True), first)
            self.saver.retain_cpu_backup = False
            self.saver.pause("read")
            self.saver.resume("read")
            self.assertIsNone(self.saver.get_cpu_backup(x))
        free(kept, lost)

    def as_pytorch(self):
        """What copies are made of, and the runtime that has the memory of pinned ones."""
        def frombuffer(buffer, dtype):
            return HostTensor((len(buffer),), dtype, "cpu", buffer=buffer)

        ctypes.CDLL(os.environ["FAKE_CUDART"], mode=ctypes.RTLD_GLOBAL)
        return mock.patch.multiple(
            torch, create=True, frombuffer=frombuffer, uint8="uint8",
            empty=lambda shape, dtype, device: HostTensor(shape, dtype, device))

    def is_pinned(self, address):
        """As torch_memory_saver's test asks for it."""
        cdll = self.saver._impl._binary_wrapper.cdll
        cdll.cudaHostGetFlags.argtypes = [ctypes.POINTER(ctypes.c_uint), ctypes.c_void_p]
        status = cdll.cudaHostGetFlags(ctypes.byref(ctypes.c_uint()), address)
        cdll.cudaGetLastError()
        return status == 0

    def test_functions_of_the_process_are_the_librarys_alone(self):
        """Seen to fail with them on _impl itself: _impl.pause was the C library's, which sleeps."""
        self.assertTrue(callable(self.saver._impl._binary_wrapper.cdll.getpid))
        for name in ("pause", "read", "close"):
            self.assertFalse(hasattr(self.saver._impl, name), name)

    @unittest.skipUnless("FAKE_CUDART" in os.environ, "the simulated CUDA runtime was not built")
    def test_a_backup_ends_with_its_memory(self):
        """What torch_memory_saver's test cpu_backup does with pools and pinned memory: a backup
        lies in pinned memory at one address, and is gone after the tensor, asleep and awake."""
        self.saver.retain_cpu_backup = True
        for paused in (False, True):
            tag = f"ends_{paused}"
            with self.saver.region(tag, enable_cpu_backup=True):
                ptr = malloc(MIB)
            x = HostTensor((MIB,), address=ptr)
            with self.as_pytorch():
                for _ in range(3):
                    self.saver.pause(tag)
                    backup = self.saver.get_cpu_backup(x, zero_copy=True)
                    address = backup.data_ptr()
                    self.assertEqual(backup.bytes(), b"\1" * MIB)
                    self.assertTrue(self.is_pinned(address))
                    del backup
                    if not paused:
                        self.saver.resume(tag)
                    again = self.saver.get_cpu_backup(x, zero_copy=True)
                    self.assertEqual(again.data_ptr(), address)
                    del again
            self.assertIsNotNone(
                self.saver._impl._mem_pools.pop((tag, True, False, "pinned", 0)))
            with self.saver._impl._with_region_config(tag=tag, enable_cpu_backup=True,
                                                      cpu_backup_backend="pinned"):
                free(ptr)
                del x
            self.assertFalse(self.is_pinned(address))

    @unittest.skipUnless("FAKE_CUDART" in os.environ, "the simulated CUDA runtime was not built")
    def test_a_backup_of_mmap_is_not_pinned(self):
        with self.saver.region("pageable", enable_cpu_backup=True, cpu_backup_backend="mmap"):
            ptr = malloc(MIB)
        self.saver.pause("pageable")
        with self.as_pytorch():
            copy = self.saver.get_cpu_backup(HostTensor((MIB,), address=ptr), zero_copy=True)
        self.assertEqual(copy.bytes(), b"\1" * MIB)
        self.assertFalse(self.is_pinned(copy.data_ptr()))
        self.saver.resume("pageable")
        free(ptr)

    def zero_copy_is_pinned(self, ptr):
        with self.as_pytorch():
            copy = self.saver.get_cpu_backup(HostTensor((MIB,), address=ptr), zero_copy=True)
            return self.is_pinned(copy.data_ptr())

    @unittest.skipUnless("FAKE_CUDART" in os.environ, "the simulated CUDA runtime was not built")
    def test_mmap_of_graphs_and_of_the_environment(self):
        """Of graphs, of a tag that a later region names no backend for, and of memory without a
        tag. Seen to fail: cuda_graph() without _note_backend; get_cpu_backup() without
        _initial_backend; _note_backend that takes what is in force whenever none is named."""
        graph = self.graph(tag="mapped", enable_cpu_backup=True, cpu_backup_backend="mmap")
        with self.saver.region("mapped", enable_cpu_backup=True):
            more = malloc(MIB)
        with self.saver.region("plain", enable_cpu_backup=True):
            plain = malloc(MIB)
        untagged = malloc(MIB)
        self.saver._has_rest = True
        self.addCleanup(setattr, self.saver, "_has_rest", False)
        with mock.patch.dict(os.environ, TMS_INIT_ENABLE_CPU_BACKUP="1",
                             TMS_INIT_CPU_BACKUP_BACKEND="mmap"):
            self.saver.pause()
            self.assertEqual([self.zero_copy_is_pinned(ptr)
                              for ptr in (graph, more, plain, untagged)],
                             [False, False, True, False])
            self.saver.resume()
        free(graph, more, plain, untagged)

    def test_disk_backup(self):
        """As torch_memory_saver's own test of it: files there while paused, as many each time."""
        with tempfile.TemporaryDirectory() as root:
            folder = os.path.join(root, "made", "for it")
            self.saver.set_disk_backup_dir(folder)
            with self.saver.region(enable_disk_backup=True):
                large, small = malloc(14 * MIB), malloc(512)
            with self.saver.region():
                lost = malloc(2 * MIB)
            sizes = set()
            for _ in range(3):
                self.saver.pause()
                files = os.listdir(folder)
                self.assertGreaterEqual(len(files), 2)
                sizes.add(sum(os.path.getsize(os.path.join(folder, name)) for name in files))
                self.saver.resume()
                self.assertEqual(os.listdir(folder), [])
                self.assertTrue(filled(large, 14 * MIB) and filled(small, 512))
            self.assertFalse(filled(lost))
            self.assertEqual(len(sizes), 1)
            self.assertTrue(14 * MIB + 512 <= sizes.pop() < 15 * MIB)
            os.rmdir(folder)
            with self.assertRaisesRegex(tenure.Error, "for it/tenure-"):
                self.saver.pause()
            self.assertTrue(filled(large, 14 * MIB))
            free(large, small, lost)

    def test_disk_backup_from_the_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            with mock.patch.dict(os.environ, TMS_INIT_ENABLE="1", TMS_INIT_ENABLE_DISK_BACKUP="1",
                                 TMS_DISK_BACKUP_DIR=folder):
                saver = tenure.memory_saver.TorchMemorySaver()
                rest = malloc(2 * MIB)
                saver.pause()
                self.assertEqual(len(os.listdir(folder)), 1)
                saver.resume()
            self.assertTrue(filled(rest))
            free(rest)

    def test_internals_tell_the_state(self):
        def state():
            cdll = self.saver._impl._binary_wrapper.cdll
            return (cdll.tms_get_interesting_region(), cdll.tms_get_enable_cpu_backup(),
                    cdll.tms_get_current_tag(), cdll.tms_get_cpu_backup_backend())

        self.saver._ensure_initialized()
        self.assertEqual(state(), (False, False, b"default", b"pinned"))
        with mock.patch.dict(os.environ, TMS_INIT_ENABLE="1", TMS_INIT_ENABLE_CPU_BACKUP="1"):
            self.assertEqual(state(), (True, True, b"default", b"pinned"))
            with self.saver.region("grads"):
                self.assertEqual(state(), (True, False, b"grads", b"pinned"))
                with self.saver.region(enable_cpu_backup=True, cpu_backup_backend="mmap"):
                    self.assertEqual(state(), (True, True, b"default", b"mmap"))
                self.assertEqual(state(), (True, False, b"grads", b"pinned"))
            self.assertEqual(state(), (True, True, b"default", b"pinned"))

    def test_all_from_the_start(self):
        """TMS_INIT_ENABLE: untagged memory has the default tag."""
        with mock.patch.dict(os.environ, TMS_INIT_ENABLE="1", TMS_INIT_ENABLE_CPU_BACKUP="1"):
            saver = tenure.memory_saver.TorchMemorySaver()
            weights = malloc(4 * MIB)
            with saver.region("grads"):
                grads = malloc(2 * MIB)
            before = held()
            saver.pause("default")
            self.assertEqual(tenure.stats()["bytes_asleep"], 4 * MIB)
            with saver.disable():
                free(malloc(2 * MIB))
            saver.pause()
            saver.resume()
        self.assertEqual((filled(weights, 4 * MIB), filled(grads), held()), (True, False, before))
        free(weights, grads)

    def test_margin(self):
        self.saver.memory_margin_bytes = 5 * MIB + 1
        try:
            with self.assertRaises(tenure.Error):
                malloc(1 << 50)
        finally:
            self.saver.memory_margin_bytes = 0
        with self.assertRaisesRegex(ValueError, "negative"):
            self.saver.memory_margin_bytes = -1

    def test_refused(self):
        with self.assertRaisesRegex(ValueError, "neither 'pinned' nor 'mmap'"):
            with self.saver.region(enable_cpu_backup=True, cpu_backup_backend="disk"):
                pass
        with self.assertRaisesRegex(ValueError, "requires enable_cpu_backup"):
            with self.saver.region(cpu_backup_backend="mmap"):
                pass
        with self.assertRaisesRegex(AssertionError, "choose one"):
            with self.saver.region(enable_cpu_backup=True, enable_disk_backup=True):
                pass
        with self.assertRaisesRegex(ValueError, "preload, torch"):
            self.saver.hook_mode = "both"
        with self.assertRaisesRegex(NotImplementedError, "only be set"):
            self.saver.memory_margin_bytes


PROGRAM = """
import sys
import torch_memory_saver
import torch
import tenure.memory_saver
assert torch_memory_saver.torch_memory_saver is tenure.memory_saver.torch_memory_saver
print(torch_memory_saver.__file__.split("/")[-3:], sys.argv[1:])
"""


# torch_memory_saver's test cuda_vmm_granularity, and Tenure's own memory beside it.
FUNCTIONS = """
import ctypes, os, sys
import torch, torch_memory_saver, tenure
from tenure import _library

ctypes.CDLL(os.environ["FAKE_CUDART"], mode=ctypes.RTLD_GLOBAL)
api = ctypes.CDLL(None)
for name in ("tms_pause", "tms_resume"):
    getattr(api, name).argtypes = [ctypes.c_char_p]
read = ctypes.c_ubyte()


def same(ptr, value):
    one = ctypes.c_ubyte(value)
    assert api.cudaMemcpy(ptr, ctypes.byref(one), ctypes.c_size_t(1), 1) == 0
    assert api.cudaMemcpy(ctypes.byref(read), ptr, ctypes.c_size_t(1), 2) == 0
    return read.value == value


first, second, own = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert api.cudaSetDevice(0) == 0
assert api.cudaMalloc(ctypes.byref(first), ctypes.c_size_t(6912)) == 0
assert api.cudaMalloc(ctypes.byref(second), ctypes.c_size_t(6912)) == 0
_library.call("tnr_malloc", ctypes.byref(own), 4 << 20, 0, None)
assert same(first, 0xA5) and same(own, 0x11)
assert api.tms_pause(None) == 0
assert tenure.stats()["bytes_asleep"] == 4 << 20
assert api.cudaFree(first) == 0
assert api.tms_resume(b"default") == 0
assert tenure.stats()["bytes_asleep"] == 0
assert same(second, 0x5A) and same(own, 0x22)
_library.call("tnr_free", own)
assert api.cudaFree(second) == 0
torch_memory_saver.torch_memory_saver._rest = lambda verb: 1 / 0
assert api.tms_pause(b"default") == 999


def interrupted(verb):
    raise KeyboardInterrupt


torch_memory_saver.torch_memory_saver._rest = interrupted
assert api.tms_pause(b"default") == 999
print("as it should be")
"""


class Command(unittest.TestCase):
    def run_it(self, *words, **environment):
        return subprocess.run([sys.executable, "-m", "tenure.memory_saver", *words],
                              capture_output=True, text=True, timeout=120,
                              env={**os.environ, **environment})

    def test_the_name_leads_to_tenure(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(PROGRAM)
            file.flush()
            path = [os.environ["PYTHONPATH"], os.path.dirname(torch.__spec__.origin)]
            run = self.run_it("run", "--conf", "history:light", file.name, "a", "-b",
                              PYTHONPATH=os.pathsep.join(path), PYTHONWARNINGS="ignore")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("['_saver', 'torch_memory_saver', '__init__.py']", run.stdout)
        self.assertIn("['a', '-b']", run.stdout)

    @unittest.skipUnless("FAKE_CUDART" in os.environ, "the simulated CUDA runtime was not built")
    def test_functions_of_the_process(self):
        path = [os.environ["PYTHONPATH"], os.path.dirname(torch.__spec__.origin)]
        run = self.run_it("run", "-c", FUNCTIONS, PYTHONPATH=os.pathsep.join(path),
                          PYTHONWARNINGS="ignore", TMS_INIT_ENABLE="1")
        self.assertEqual((run.returncode, run.stdout), (0, "as it should be\n"), run.stderr)
        self.assertIn("torch_memory_saver: division by zero", run.stderr)
        self.assertIn("torch_memory_saver: KeyboardInterrupt", run.stderr)

    def test_functions_that_were_not_there_come_later(self):
        """Seen to fail with what is kept noted before it is made."""
        with mock.patch.object(tenure._library, "beside", lambda name: "/nonexistent"):
            with self.assertRaises(OSError):
                tenure._saver_calls.export(print, print)
        self.assertEqual(tenure._saver_calls._kept, [])

    def test_no_functions_without_the_name(self):
        self.assertFalse(hasattr(ctypes.CDLL(None), "tms_pause"))

    def test_children(self):
        with tenure.memory_saver.configure_subprocess():
            run = subprocess.run(
                [sys.executable, "-c", "import torch_memory_saver; "
                 "print(torch_memory_saver.torch_memory_saver.hook_mode)"],
                capture_output=True, text=True, timeout=120)
        self.assertEqual((run.returncode, run.stdout), (0, "preload\n"), run.stderr)
        self.assertNotIn("_saver", os.environ.get("PYTHONPATH", ""))

    def test_wrong_usage(self):
        for words in ([], ["run"], ["walk", "x.py"], ["run", "-m"], ["run", "--conf"]):
            run = self.run_it(*words)
            self.assertEqual((run.returncode, run.stdout), (2, ""), words)
            self.assertIn("usage:", run.stderr)
        run = self.run_it("run", "--conf", "no_such_key:1", "x.py")
        self.assertEqual(run.returncode, 2)
        self.assertIn("no_such_key", run.stderr)
        self.assertIn("Runs a program", self.run_it("--help").stdout)


if __name__ == "__main__":
    unittest.main()
