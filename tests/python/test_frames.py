# SPDX-License-Identifier: Apache-2.0
"""Frames of Python in the stacks of the history, in both formats of snapshots and in the report of
what holds memory.

Broken to see it fail, each by itself: history("full") without _frames.begin(); the file or the line
left out of either format; the stack of a thread that runs no Python left empty; a second source
taken; what is known of a code object kept when it has ended (seen with Python 3.12 and 3.13).

Environment: as for the other tests here.
"""
import ctypes
import json
import os
import pickle
import sys
import tempfile
import unittest

import device
import torch

import tenure
import tenure.torch
from tenure import _frames, _library

MIB = device.MIB
HERE = os.path.abspath(__file__)
TAKE = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t)


class Info(ctypes.Structure):
    """tnr_frame_info"""
    _fields_ = [("function", ctypes.c_char_p), ("file", ctypes.c_char_p), ("line", ctypes.c_int)]


def line_here():
    return sys._getframe(1).f_lineno


def allocate():
    return torch.Tensor(3 * MIB), line_here()


class Frames(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tenure.torch.install(strict=True, native=False, history="full")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def written(self, name):
        path = os.path.join(self.folder, name)
        tenure.snapshot(path)
        with open(path, "rb") as file:
            return json.load(file) if name.endswith(".json") else pickle.load(file)

    @unittest.skipIf(sys.version_info < (3, 9), "from 3.9 on")
    def test_in_the_json(self):
        x, line = allocate()
        called = line_here() - 1
        shot = self.written("shot.json")
        text = shot["strings"]
        frames = [(text[function], text[file], number, text[module])
                  for function, file, number, module, _ in shot["frames"]["rows"]]
        stacks = [[frames[i] for i in stack] for stack in shot["stacks"]]
        mine = [stack for stack in stacks if ("allocate", HERE, line, "") in stack
                and "test_in_the_json" in str(stack)]
        self.assertEqual(len(mine), 1, frames)
        at = mine[0].index(("allocate", HERE, line, ""))
        self.assertEqual(mine[0][at + 1], ("test_in_the_json", HERE, called, ""))
        self.assertTrue(mine[0][0][1].endswith("torch.py"))  # the stand-in
        own = os.path.dirname(os.path.abspath(tenure.__file__)) + os.sep
        self.assertFalse([frame for frame in frames if frame[1].startswith(own)])
        del x

    @unittest.skipIf(sys.version_info < (3, 9), "from 3.9 on")
    def test_in_pytorchs_format(self):
        x, line = allocate()
        shot = self.written("shot.pickle")
        block = [block for segment in shot["segments"] for block in segment["blocks"]
                 if block["address"] == x.address][0]
        self.assertIn({"filename": HERE, "line": line, "name": "allocate"}, block["frames"])
        del x

    def test_threads_that_run_no_python(self):
        """They have what C has: a thread of the C library's that only frees."""
        library = ctypes.CDLL(None)
        x = ctypes.c_void_p()
        _library.call("tnr_malloc", ctypes.byref(x), 5 * MIB, 0, None)
        free = ctypes.cast(_library.library().tnr_free, ctypes.c_void_p)
        library.pthread_create.argtypes = [ctypes.c_void_p] * 4
        library.pthread_join.argtypes = [ctypes.c_ulong, ctypes.c_void_p]
        thread, before = ctypes.c_ulong(), self.modules()
        self.assertEqual(library.pthread_create(ctypes.byref(thread), None, free, x), 0)
        self.assertEqual(library.pthread_join(thread, None), 0)
        self.assertEqual(tenure.stats()["allocated_bytes.all.current"], 0)
        if sys.version_info >= (3, 9):
            self.assertEqual(before, set())
        self.assertTrue(any("libc.so" in name for name in self.modules()))

    def modules(self):
        """The files that frames of C are in."""
        shot = self.written("shot.json")
        return {shot["strings"][row[3]] for row in shot["frames"]["rows"]} - {""}

    @unittest.skipIf(sys.version_info < (3, 9), "from 3.9 on")
    def test_code_that_ended(self):
        """Code that lies where other code has ended has lines of its own."""
        library = ctypes.PyDLL(_library.beside("libtenure_python.so"))
        library.tenure_python_take.restype = ctypes.c_size_t
        frames, info, places = (ctypes.c_size_t * 8)(), Info(), set()

        def line_of_caller():
            count = library.tenure_python_take(frames, ctypes.c_size_t(8))
            self.assertGreater(count, 2)
            library.tenure_python_describe(ctypes.byref(info), ctypes.c_size_t(frames[1]))
            self.assertEqual((info.file, info.function), (b"of_its_own", b"<module>"))
            return info.line

        for lines in list(range(40)) * 2:
            code = compile("\n" * lines + "found = line_of_caller()", "of_its_own", "exec")
            names = {"line_of_caller": line_of_caller}
            exec(code, names)
            self.assertEqual(names["found"], lines + 1)
            places.add(id(code))
            del code, names
        self.assertLess(len(places), 80)  # some did lie where others had

    def test_one_source(self):
        self.assertTrue(_frames.begin())
        other = TAKE(lambda frames, room: 0)
        give = ctypes.cast(other, ctypes.c_void_p)
        with self.assertRaisesRegex(tenure.Error, "another interpreter"):
            _library.call("tnr_frames_source_set", give, give)
        with self.assertRaisesRegex(tenure.Error, "one function without the other"):
            _library.call("tnr_frames_source_set", give, None)


if __name__ == "__main__":
    device.use()
    unittest.main()
