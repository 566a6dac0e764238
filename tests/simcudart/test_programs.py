#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of the CUDA runtime under `tenure run --driver sim`: one in C that plays what nvcc
leaves in a program, and those of cu/, where there is an nvcc to build them."""
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TENURE = os.environ["TENURE"]
CHECKED = os.environ["SIMCUDART_CHECKED"]
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "run.md"
SOURCE = pathlib.Path(__file__).parent / "cu"
INCLUDE = os.environ["SIMCUDART_INCLUDE"]
NVCC = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
NO_NVCC = "there is no nvcc"


def run(*arguments, code, **environment):
    variables = {name: value for name, value in os.environ.items() if name != "TENURE_DRIVER"}
    variables.update(environment)
    result = subprocess.run([TENURE, "run", *arguments], env=variables, capture_output=True,
                            text=True, check=False)
    assert result.returncode == code, (result.returncode, result.stdout, result.stderr)
    return result


class Played(unittest.TestCase):
    """A kernel for which nothing runs counts as a use of its pointers: seen to fail with kernels
    that the image does not describe, and with a kernel that is said to take no parameters."""

    def test_right(self):
        result = run("--check", "--driver", "sim", "--", CHECKED, "right", code=0)
        self.assertIn("nothing found", result.stderr)
        self.assertIn("2 allocations followed", result.stderr)

    def test_wrong(self):
        result = run("--check", "--driver", "sim", "--", CHECKED, "wrong", code=99)
        self.assertIn("_Z7unknownPfS_", result.stderr)

    def test_texture(self):
        """What a kernel reads as a texture counts as used. Seen to fail with handles that lead
        nowhere."""
        result = run("--check", "--driver", "sim", "--", CHECKED, "texture", code=99)
        self.assertIn("2 distinct certain findings", result.stderr)

    def test_managed_again(self):
        """What was said of managed memory ends with it. Seen to fail where it stayed."""
        result = run("--driver", "sim", "--", CHECKED, "again", code=0)
        self.assertEqual(result.stdout, "the same address, prefetched to -2\n")

    def test_memory_of_another(self):
        """A process opens what another has allocated, reads it and writes to it. Seen to fail where
        the simulated driver has no such calls."""
        head = ("import ctypes, subprocess, sys\n"
                "class Handle(ctypes.Structure):\n"
                "    _fields_ = [('bytes', ctypes.c_char * 64)]\n"
                "runtime, block = ctypes.CDLL('libcudart.so.13'), ctypes.c_void_p()\n"
                "number = ctypes.c_int()\n"
                "def must(error):\n"
                "    assert error == 0, error\n"
                "def put(value):\n"
                "    must(runtime.cudaMemcpy(block, ctypes.byref(ctypes.c_int(value)), 4, 1))\n"
                "    must(runtime.cudaDeviceSynchronize())\n"
                "def get():\n"
                "    must(runtime.cudaMemcpy(ctypes.byref(number), block, 4, 2))\n"
                "    return number.value\n")
        other = head + ("handle = Handle.from_buffer_copy(bytes.fromhex(sys.argv[1]))\n"
                        "runtime.cudaIpcOpenMemHandle.argtypes = [\n"
                        "    ctypes.c_void_p, Handle, ctypes.c_uint]\n"
                        "must(runtime.cudaIpcOpenMemHandle(ctypes.byref(block), handle, 1))\n"
                        "print('the other reads', get(), flush=True)\n"
                        "put(6)\n"
                        "must(runtime.cudaIpcCloseMemHandle(block))\n")
        first = head + ("handle = Handle()\n"
                        "must(runtime.cudaMalloc(ctypes.byref(block), 4096))\n"
                        "put(5)\n"
                        "must(runtime.cudaIpcGetMemHandle(ctypes.byref(handle), block))\n"
                        f"subprocess.run([sys.executable, '-c', {other!r},\n"
                        "                bytes(handle).hex()], check=True)\n"
                        "print('and writes', get())\n"
                        "must(runtime.cudaFree(block))\n")
        result = run("--driver", "sim", "--", sys.executable, "-c", first, code=0)
        self.assertEqual(result.stdout, "the other reads 5\nand writes 6\n", result.stderr)

    def test_opened_by_name(self):
        """The runtime of either version by its name, and after it a child that is told."""
        program = ("import ctypes, os, sys\n"
                   "for version in ('12', '13'):\n"
                   "    runtime = ctypes.CDLL('libcudart.so.' + version)\n"
                   "    block, number = ctypes.c_void_p(), ctypes.c_int()\n"
                   "    runtime.cudaRuntimeGetVersion(ctypes.byref(number))\n"
                   "    print(number.value // 1000, runtime.cudaMalloc(ctypes.byref(block), 64),\n"
                   "          runtime.cudaFree(block), flush=True)\n"
                   "if os.fork() == 0:\n"
                   "    print('child', runtime.cudaMalloc(ctypes.byref(block), 64), flush=True)\n"
                   "    os._exit(0)\n"
                   "os.wait()\n")
        result = run("--driver", "sim", "--", sys.executable, "-c", program, code=0)
        self.assertEqual(result.stdout.split("\n")[:3], ["12 0 0", "13 0 0", "child 3"])
        self.assertIn("forked", result.stderr)

    def test_known_only(self):
        result = run("--driver", "sim", "--", CHECKED, "right", code=1,
                     TENURE_SIM_KERNELS="known")
        self.assertIn("has no host version", result.stderr)
        self.assertIn("invalid device function", result.stderr)

    def test_other_driver(self):
        """The runtime is for the simulated device: with another driver it says so."""
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(os.environ["SIMCUDART_OTHER"], f"{folder}/libcuda.so.1")
            result = subprocess.run([CHECKED, "right"], capture_output=True, text=True, check=False,
                                    env=dict(os.environ, LD_LIBRARY_PATH=folder))
        self.assertEqual(result.returncode, 1)
        self.assertIn("is for the simulated device", result.stderr)
        self.assertIn("driver version is insufficient", result.stderr)


@unittest.skipUnless(NVCC, NO_NVCC)
class Built(unittest.TestCase):
    folder = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def build(self, name, *options):
        program = f"{self.folder.name}/{name}-{len(options)}"
        subprocess.run([NVCC, "-arch=sm_90", "-I", INCLUDE, "-o", program, SOURCE / f"{name}.cu",
                        *options], check=True)
        return program

    def test_silent_under_check(self):
        own_stream = ("--default-stream", "per-thread")
        for name, said, more in (("vector_add", "the sums are right", ()),
                                 ("streams", "the streams are done", own_stream),
                                 ("graphs", "the graphs are done", ())):
            with self.subTest(name=name):
                program = self.build(name, "-cudart", "shared", *more)
                result = run("--check", "--driver", "sim", "--", program, code=0)
                self.assertIn(said, result.stdout)
                self.assertIn("nothing found", result.stderr)
                self.assertNotIn("simcudart:", result.stderr)

    def test_names(self):
        """A program finds each name that NVIDIA's library exports, or is refused by it. Two are
        called by nothing that nvcc writes, and no header declares them. Seen to fail without one
        line of refused.def."""
        theirs = pathlib.Path(NVCC).parent.parent / "lib" / "libcudart.so.13"
        if not theirs.exists() or not shutil.which("nm"):
            self.skipTest("there is no libcudart.so.13 of NVIDIA's, or no nm")
        names = []
        for library in (theirs, os.environ["SIMCUDART_LIBRARY"]):
            said = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                                  capture_output=True, text=True).stdout
            names.append({line.split()[2] for line in said.splitlines() if " T " in line})
        self.assertEqual(names[0] - names[1], {"__cudaGetProcAddress@@libcudart.so.13",
                                               "__cudaRegisterUnifiedTable@@libcudart.so.13"})

    def test_words(self):
        """Of the errors that the simulated device gives, the words that NVIDIA's library has: a
        program may look for them. Seen to fail with one letter of errors.def changed."""
        theirs = pathlib.Path(NVCC).parent.parent / "lib" / "libcudart.so.13"
        if not theirs.exists():
            self.skipTest("there is no libcudart.so.13 of NVIDIA's")
        table = pathlib.Path(__file__).parents[2] / "tools/simcudart/errors.def"
        said = re.findall(r'^SAID\((\w+), "(.*)"\)$', table.read_text(), re.MULTILINE)
        self.assertGreater(len(said), 30)
        library = ctypes.CDLL(str(theirs))
        library.cudaGetErrorName.restype = library.cudaGetErrorString.restype = ctypes.c_char_p
        words = {library.cudaGetErrorName(code).decode(): library.cudaGetErrorString(code).decode()
                 for code in range(1000)}
        self.assertEqual({name: words.get(name) for name, _ in said}, dict(said))

    def test_page(self):
        """The CI file of the page: its last lines, on a program of a stranger's."""
        lines = PAGE.read_text().split("```yaml\n")[1].split("```")[0].splitlines()
        self.assertLessEqual(len(lines), 10)
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(SOURCE / "streams.cu", f"{folder}/program.cu")
            for line in lines[-2:]:
                result = subprocess.run(
                    ["sh", "-ec", line.split("- run: ")[1]], cwd=folder, check=False,
                    capture_output=True, text=True,
                    env=dict(os.environ, PATH=f"{pathlib.Path(TENURE).parent}:"
                             f"{pathlib.Path(NVCC).parent}:{os.environ['PATH']}"))
                self.assertEqual(result.returncode, 0, (line, result.stdout, result.stderr))
        self.assertIn("the streams are done", result.stdout)
        self.assertIn("nothing found", result.stderr)

    def test_library_is_told(self):
        """cuBLAS has a runtime of its own: it refuses, and the program's own goes on."""
        if not pathlib.Path(NVCC).parent.parent.joinpath("lib/libcublas.so").exists():
            self.skipTest("there is no cuBLAS")
        program = self.build("cublas", "-cudart", "shared", "-lcublas")
        result = run("--driver", "sim", "--", program, code=0,
                     LD_LIBRARY_PATH=str(pathlib.Path(NVCC).parent.parent / "lib"))
        self.assertIn("cublas 1, memory 0", result.stdout)
        self.assertIn("libcublas.so", result.stderr)
        self.assertIn("needs a GPU", result.stderr)

    def test_found(self):
        program = self.build("too_early", "-cudart", "shared")
        result = run("--check", "--driver", "sim", "--", program, code=99)
        self.assertIn("touch", result.stderr)

    def test_static_is_told(self):
        program = self.build("too_early", "-cudart", "static", "-g")
        result = run("--driver", "sim", "--", program, code=0)
        self.assertIn("nvcc -cudart shared", result.stderr)
        self.assertIn("API call is not supported", result.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
