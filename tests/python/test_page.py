# SPDX-License-Identifier: Apache-2.0
"""docs/python.md: its Python runs, in the order of the page, and what it says that programs say is
in the sources.

Environment: as for the other tests here.
"""
import contextlib
import ctypes
import glob
import os
import re
import tempfile
import unittest

import device
import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Tensor(torch.Tensor):
    def add_(self, value):
        device.fill(self.address, self.bytes, torch.state.stream.cuda_stream)


def new_stream():
    handle = ctypes.c_void_p()
    assert device.DRIVER.cuStreamCreate(ctypes.byref(handle), 1) == 0
    return torch.Stream(handle.value)


@contextlib.contextmanager
def on_stream(stream):
    torch.state.stream, before = stream, torch.state.stream
    yield
    torch.state.stream = before


class Page(unittest.TestCase):
    def setUp(self):
        with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as file:
            self.page = file.read()

    def test_its_python_runs(self):
        torch.uint8 = "uint8"
        torch.empty = lambda count, dtype, device: Tensor(count)
        torch.cuda.Stream, torch.cuda.stream = new_stream, on_stream
        blocks = re.findall(r"^```python\n(?!# \w+\.py$)(.*?)^```", self.page,
                            re.MULTILINE | re.DOTALL)  # files are followed by tests/docs
        self.assertIn("torch.cuda.memory._dump_snapshot", blocks.pop(0))  # PyTorch's alone
        self.assertEqual(len(blocks), 4)
        names = {}
        with tempfile.TemporaryDirectory() as folder:
            before = os.getcwd()
            os.chdir(folder)
            try:
                for block in blocks:
                    exec(compile(block, "docs/python.md", "exec"), names)
                self.assertEqual(os.listdir(folder), ["memory.json"])
            finally:
                os.chdir(before)
        self.assertEqual(names["tenure"].stats()["allocated_bytes.all.current"], 0)
        self.assertEqual(names["tenure"].torch.failures(), 0)
        names["tenure"]._library.call("tnr_validate", -1)

    def test_what_is_said_is_said(self):
        text = ""
        for pattern in ("tools/python/tenure/*.py", "tools/tenure/run*.c", "alloc/api/*.c",
                        "tools/check/*.c"):
            for path in glob.glob(os.path.join(ROOT, pattern)):
                with open(path, encoding="utf-8") as file:
                    text += file.read()
        text = re.sub(r"\s+", " ", re.sub(r'"\s*\n\s*f?"', "", text))
        part = self.page.partition("\n## When it doesn't work\n")[2]
        rows = re.findall(r"^\| (.*?) \| ", part, re.MULTILINE)[1:]
        said = [phrase for row in rows for phrase in re.split("; |: ", row)]
        self.assertGreaterEqual(len(said), 10)
        for phrase in said:
            self.assertIn(phrase, text)


if __name__ == "__main__":
    device.use()
    unittest.main()
