# SPDX-License-Identifier: Apache-2.0
"""`tenure run --check` with Python programs: what they do with blocks of PyTorch and CuPy is
followed, findings have their lines, and correct programs are silent. Errors that everyday programs
have are in tests/gpu/check_python, which runs here, too (python_zoo).

Environment: as for the other tests here; TENURE is the command.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TENURE = os.environ["TENURE"]
FRAMES = 8  # of Python in a stack, at most

BEGIN = """
import ctypes, sys
import device
from device import DRIVER, fill
import torch, tenure
device.use()
MIB = 1 << 20
def new_stream():
    handle = ctypes.c_void_p()
    assert DRIVER.cuStreamCreate(ctypes.byref(handle), 1) == 0
    return torch.Stream(handle.value)
def wait(waits, first):
    event = ctypes.c_void_p()
    assert DRIVER.cuEventCreate(ctypes.byref(event), 2) == 0
    assert DRIVER.cuEventRecord(event, ctypes.c_void_p(first.cuda_stream)) == 0
    assert DRIVER.cuStreamWaitEvent(ctypes.c_void_p(waits.cuda_stream), event, 0) == 0
main, side, third = torch.Stream(), new_stream(), new_stream()
wrong = sys.argv[1] == "wrong"
def tensor():
    x = torch.Tensor(MIB)
    for stream in (side, third):
        wait(stream, main)
    return x
"""
END = "\ndevice.run_all(); tenure._library.call('tnr_validate', -1); print('done')\n"

# What is wrong, the kind that it must be, and the program; `wrong` tells it from its twin.
ZOO = {
    "record_use before the use": ("free_in_use", """
x = tensor()
if wrong:
    tenure.record_use(x, side)
fill(x.address, MIB, side.cuda_stream)
if not wrong:
    tenure.record_use(x, side)
del x
"""),
    "three streams, recorded where the use is seen to be over": ("free_in_use", """
x = tensor()
fill(x.address, MIB, side.cuda_stream)
if not wrong:
    wait(third, side)
tenure.record_use(x, third)
del x
"""),
    "recorded, and used again": ("free_in_use", """
x = tensor()
fill(x.address, MIB, side.cuda_stream)
tenure.record_use(x, side)
if wrong:
    fill(x.address, MIB, side.cuda_stream)
del x
"""),
    "the stream is waited for": ("free_in_use", """
x = tensor()
fill(x.address, MIB, side.cuda_stream)
if not wrong:
    wait(main, side)
del x
"""),
    "freed for another stream": ("free_in_use", """
library = tenure._library.library()
x = ctypes.c_void_p()
assert library.tnr_malloc(ctypes.byref(x), MIB, 0, None) == 0
for stream in (side, third):
    wait(stream, main)
fill(x.value, MIB // 2, side.cuda_stream) # not the same bytes: that would be a race
fill(x.value + MIB // 2, MIB // 2, 0)
assert library.tnr_free_on(x, (third if wrong else side).cuda_stream) == 0
"""),
    "freed twice": ("double_free", """
library = tenure._library.library()
x = ctypes.c_void_p()
assert library.tnr_malloc(ctypes.byref(x), MIB, 0, None) == 0
assert library.tnr_free(x) == 0
if wrong:
    assert library.tnr_free(x) != 0
"""),
    "memory handed on within a stream": ("free_in_use", """
for i in range(20):
    x = tensor()
    fill(x.address, MIB, 0)
    if wrong and i == 10:
        fill(x.address, MIB, side.cuda_stream)
    del x
"""),
}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def checked(self, *words, code=None, flags=(), options=("--driver", "sim"), command=TENURE,
                **environment):
        """Runs Python under the checker; returns its findings."""
        path = os.pathsep.join([HERE, os.path.join(HERE, "fake")]
                               + os.environ["PYTHONPATH"].split(os.pathsep))
        findings = os.path.join(self.folder, "findings.json")
        variables = {**os.environ, "PYTHONPATH": path, "TMPDIR": self.folder,
                     "TENURE_CACHE": os.path.join(HERE, "no-such-folder"),
                     "PYTHONWARNINGS": "ignore", "PYTHONIOENCODING": "utf-8", **environment}
        for name in ("TENURE_DRIVER", "TENURE_LIBRARY"):
            if name not in environment:
                variables.pop(name, None)
        done = subprocess.run([command, "run", "--check", *options, "--findings", findings, "--",
                               sys.executable, "-B", *flags, *words], env=variables, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=500,
                              encoding="utf-8", check=False)
        self.out, self.err = done.stdout, done.stderr
        if code is not None:
            self.assertEqual(done.returncode, code, self.out + self.err)
        if not os.path.exists(findings):
            return []
        with open(findings, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        return [row for row in rows if "finding" in row]

    def lines(self, row, side):
        """Frames of Python in the stack of one side of a finding."""
        return [frame["frame"] for frame in row[side]["stack"] if "line" in frame]


class Zoo(Case):
    def test_errors_are_found(self):
        for name, (kind, text) in ZOO.items():
            with self.subTest(name=name):
                program = self.write("program.py", BEGIN + text + END)
                found = self.checked(program, "wrong", code=99)
                self.assertEqual([(row["kind"], row["certain"]) for row in found], [(kind, True)],
                                 self.err)
                self.assertIn({"free_in_use": f"tnr_record_use({found[0]['block']}, stream ",
                               "double_free": "second free"}[kind], found[0]["missing"])
                self.assertTrue(sys.version_info < (3, 9) or any(frame.startswith(program + ":")
                                    for frame in self.lines(found[0], "later")), self.err)

    def test_twins_are_silent(self):
        for name, (_kind, text) in ZOO.items():
            with self.subTest(name=name):
                program = self.write("program.py", BEGIN + text + END)
                self.assertEqual(self.checked(program, "right", code=0), [], self.err)
                self.assertEqual(self.out, "done\n")
                self.assertNotIn("only segments", self.err)

    def test_what_is_left_at_the_end(self):
        """The interpreter frees it, and nobody has its memory again."""
        text = BEGIN + "x = tensor()\nfill(x.address, MIB, side.cuda_stream)\n"
        text += "if wrong:\n    del x\n" + "print('done')\n"
        program = self.write("program.py", text)
        self.assertEqual([row["certain"] for row in self.checked(program, "wrong", code=99)],
                         [True])
        self.assertEqual([row["certain"] for row in self.checked(program, "right", code=0)],
                         [False])

    def test_other_devices(self):
        """Streams of a tensor are those of its own device, whichever is current."""
        text = BEGIN + """
library = tenure._library.library()
contexts = [ctypes.c_void_p(), ctypes.c_void_p()]
for i in range(2):
    assert DRIVER.cuDevicePrimaryCtxRetain(ctypes.byref(contexts[i]), i) == 0
def on(i):
    assert DRIVER.cuCtxSetCurrent(contexts[i]) == 0
x, y = ctypes.c_void_p(), ctypes.c_void_p()
on(1)
other = new_stream()
on(0)
assert library.tnr_malloc(ctypes.byref(x), MIB, 1, None) == 0
assert library.tnr_malloc(ctypes.byref(y), MIB, 1, other.cuda_stream) == 0
on(1)
wait(torch.Stream(), other)
fill(x.value, MIB, 0)
fill(y.value, MIB, 0)
on(0)
assert library.tnr_record_use(y, None) == 0
assert library.tnr_free(y) == 0
assert library.tnr_free(x) == 0
""" + END
        self.assertEqual(self.checked(self.write("p.py", text), "right", code=0,
                                      TENURE_SIM_DEVICES="2"), [])

    def test_cupy(self):
        text = """
import ctypes, sys
import device, cupy
device.use()
import tenure
side = cupy.cuda.Stream()
x = cupy.ndarray(1 << 20)
event = ctypes.c_void_p()
assert device.DRIVER.cuEventCreate(ctypes.byref(event), 2) == 0
assert device.DRIVER.cuEventRecord(event, None) == 0
assert device.DRIVER.cuStreamWaitEvent(ctypes.c_void_p(side.ptr), event, 0) == 0
device.fill(x.ptr, 1 << 20, side.ptr)
if sys.argv[1] == "right":
    tenure.record_use(x.ptr, side)
del x
device.run_all()
print("done")
"""
        program = self.write("program.py", text)
        for functions in ({}, {"FAKE_CUPY_NO_CAPSULE": "1"}):
            self.assertEqual(self.checked(program, "right", code=0, **functions), [])
            found = self.checked(program, "wrong", code=99, **functions)
            self.assertEqual([row["kind"] for row in found], ["free_in_use"], self.err)
            self.assertNotIn(os.path.join("tenure", "cupy.py"),
                             str(self.lines(found[0], "allocated")))

    def test_captures(self):
        """PyTorch has Tenure follow them, as without the command: each pool has its own memory."""
        text = BEGIN + """
torch.Tensor(MIB)
torch.state.stream = new_stream()
pools = tenure.stats()["pools"]
graph = torch.CUDAGraph()
graph.capture_begin((0, 77))
x = torch.Tensor(4 * MIB)
print(tenure.stats()["pools"] - pools)
del x
graph.capture_end()
import tenure.torch
print(tenure.torch.failures())
graph.reset()
""" + END
        self.assertEqual(self.checked(self.write("p.py", text), "right", code=0), [])
        self.assertEqual(self.out, "1\n0\ndone\n")

    def test_graphs_of_programs_that_know_tenure(self):
        """Who calls install() may rely on what Tenure promises: a graph keeps what it uses."""
        text = """
import sys
if sys.argv[1] == "right":
    import tenure.torch
    tenure.torch.install(native=False)
import torch
x, out = torch.full((1 << 18,), 1, "cuda"), torch.empty(1 << 18, "cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    out.copy_(x)
graph.replay()
del x
graph.replay()
torch.cuda.synchronize()
"""
        program = self.write("program.py", text)
        self.assertEqual(self.checked(program, "right", code=0), [])
        found = self.checked(program, "wrong", code=99)
        self.assertEqual([row["kind"] for row in found], ["use_after_free"])

    def test_graphs_that_find_another_tensor(self):
        """PyTorch launches a graph again if the addresses are the same, whosever they are by now;
        Tenure does not follow a capture that neither engine makes."""
        text = BEGIN + """
import everyday
x = tensor()
address = x.address
everyday.call("cuStreamBeginCapture_v2", side.cuda_stream, 0)
fill(address, MIB, side.cuda_stream)
captured = ctypes.c_uint64()
everyday.call("cuStreamEndCapture", side.cuda_stream, ctypes.byref(captured))
executable = everyday.made("cuGraphInstantiateWithFlags", captured.value, 0)
everyday.call("cuGraphLaunch", executable, 0)
del x
if not wrong:
    y = tensor()
    assert y.address == address
everyday.call("cuGraphLaunch", executable, 0)
""" + END
        program = self.write("program.py", text)
        self.assertEqual(self.checked(program, "right", code=0), [], self.err)
        found = self.checked(program, "wrong", code=99)
        self.assertEqual([row["kind"] for row in found], ["use_after_free"])


# Where an allocation is, in ways that frames can lie: `here()` says what Python thinks.
PLACES = """
import asyncio, threading, traceback
def here():
    return [f"{f.filename}:{f.lineno} ({f.name})" for f in reversed(traceback.extract_stack()[:-1])]
kept, told = [], []
def note():
    kept.append(torch.Tensor(MIB)); told.append(here())
def generator():
    yield note()
async def coroutine():
    await asyncio.sleep(0)
    note()
class Held:
    def __del__(self):
        note()
class Meta:
    note()
def deep(n):
    return deep(n - 1) if n else note()
note()
list(generator())
asyncio.run(coroutine())
Held()
deep(3)
deep(100)
sorted([2, 1], key=lambda _: note() or 0)
[note() for _ in range(1)]
exec(compile("def f():\\n\\n  note()\\nf()", "made ünder way.py", "exec"))
def thread():
    device.use()
    note()
t = threading.Thread(target=thread); t.start(); t.join()
try:
    1 / 0
except ZeroDivisionError:
    note()
def multiline(a,
              b):
    return note()
multiline(1,
          2)
import json
print(json.dumps(told))
sys.stdout.flush()
for x in kept:
    fill(x.address, MIB, side.cuda_stream)
    del x
kept.clear()
device.run_all()
"""


class Frames(Case):
    def test_where(self):
        """What Python itself says, for each way in which code is run."""
        if sys.version_info < (3, 9):
            self.skipTest("stacks have frames of Python from 3.9 on")
        program = self.write("ordner 日本/prögram.py", BEGIN + PLACES)
        self.checked(program, "wrong")
        told = json.loads(self.out)
        said = self.stacks("allocated")
        self.assertGreaterEqual(len(told), 13)
        self.assertEqual(len(said), len({tuple(stack[:FRAMES - 1]) for stack in told}), self.err)
        for stack in told:
            self.assertIn(tuple(stack[:FRAMES - 1]), said, self.err)

    def stacks(self, side):
        """Those of allocations, without the stand-in's own frame and what is not Python's."""
        with open(os.path.join(self.folder, "findings.json"), encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        found = set()
        for row in rows:
            if "finding" in row and row["kind"] == "use_before_allocation":
                stack = self.lines(row, side)
                self.assertIn(os.path.join("fake", "torch.py"), stack[0])
                found.add(tuple(stack[1:]))
        return found

    def test_rules(self):
        """A rule names a line, a file or a function of Python's."""
        program = self.write("p.py", BEGIN + ZOO["freed twice"][1] + END)
        line = self.lines(self.checked(program, "wrong", code=99)[0], "later")[0]
        number = line.split(":")[1].split()[0]
        for rule in (f"frame:p.py:{number}", "frame:p.py", "kind:double_free frame:<module>"):
            rules = self.write("rules", rule + "\n")
            options = ("--driver", "sim", "--suppress", rules)
            self.assertEqual(self.checked(program, "wrong", code=0, options=options), [], rule)
        rules = self.write("rules", f"frame:p.py:{int(number) + 1}\n")
        self.checked(program, "wrong", code=99, options=("--driver", "sim", "--suppress", rules))

    def test_lines_are_said_once(self):
        """As the interpreter has them; what the command looks up is machine code."""
        program = self.write("p.py", BEGIN + ZOO["freed twice"][1] + END)
        self.checked(program, "wrong", code=99)
        lines = [line for line in self.err.splitlines() if line.startswith(f"      {program}:")]
        self.assertTrue(lines)
        self.assertTrue(all(line.count("p.py") == 1 for line in lines), lines)

    def test_tenures_own_are_left_out(self):
        program = self.write("p.py", BEGIN + ZOO["freed twice"][1] + END)
        for row in self.checked(program, "wrong", code=99):
            self.assertNotIn(os.sep + "tenure" + os.sep, str(self.lines(row, "later")))


class Otherwise(Case):
    """Where it cannot be put under a program, that is said; nothing else changes."""

    def test_a_python_that_lets_nobody_in(self):
        program = self.write("p.py", f"""
import sys
sys.path[:0] = {[HERE, os.path.join(HERE, 'fake')]!r}
import ctypes, device
device.use()
address = ctypes.c_uint64()
assert device.DRIVER.cuMemAlloc_v2(ctypes.byref(address), 4096) == 0
assert device.DRIVER.cuMemFree_v2(address) == 0
""")
        for flag in ("-I", "-E", "-S"):
            self.checked(program, flags=(flag,), code=0)
            self.assertIn("keep Tenure's module out", self.err.splitlines()[0])
            self.assertEqual(self.err.count("keep Tenure's module out"), 1)
        self.checked(program, code=0)
        self.assertNotIn("segments", self.err)

    def test_no_driver_that_will_do(self):
        program = self.write("p.py", "import torch; torch.lazy_init()\n"
                             "print(torch.state.allocator)")
        self.checked(program, options=(), code=0, TENURE_DRIVER="/no/driver.so")
        self.assertEqual(self.out, "None\n")
        self.assertIn("of PyTorch's memory only segments are checked", self.err.splitlines()[0])
        self.assertIn("/no/driver.so", self.err)

    def test_a_command_without_the_module(self):
        real = os.path.dirname(os.path.dirname(os.path.realpath(TENURE)))
        os.makedirs(os.path.join(self.folder, "p", "bin"))
        shutil.copy(os.path.join(real, "bin", "tenure"), os.path.join(self.folder, "p", "bin"))
        os.symlink(os.path.join(real, "lib"), os.path.join(self.folder, "p", "lib"))
        self.checked("-c", "print(5)", code=0,
                     command=os.path.join(self.folder, "p", "bin", "tenure"))
        self.assertIn("module was not found beside this command", self.err.splitlines()[0])
        self.assertIn("only segments are checked", self.err)
        self.assertEqual(self.out, "5\n")

    def test_programs_that_are_no_python(self):
        done = subprocess.run([TENURE, "run", "--check", "--", "sh", "-c", "exit 3"],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "", ""))

    def test_what_it_starts(self):
        """Children are Python, too, and have a process's own findings."""
        inner = self.write("inner.py", BEGIN + ZOO["the stream is waited for"][1] + END)
        outer = self.write("outer.py", "import subprocess, sys\n"
                           f"sys.exit(subprocess.run([sys.executable, {inner!r}, 'wrong'])"
                           ".returncode)")
        found = self.checked(outer, code=99)
        self.assertEqual([row["kind"] for row in found], ["free_in_use"])

    def test_a_library_of_its_own(self):
        """Another copy of libtenure is refused, whoever asks for it."""
        copy = os.path.join(self.folder, "libtenure.so.1")
        shutil.copy(os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(TENURE)), "..",
                                                  "lib", "libtenure.so.1")), copy)
        self.checked("-c", "import tenure; tenure.stats()", code=1, TENURE_LIBRARY=copy)
        self.assertIn("a process has one libtenure", self.err)
        program = self.write("p.py", BEGIN + textwrap.dedent(f"""
            x = torch.Tensor(5)
            library = ctypes.CDLL({copy!r})
            library.tnr_last_error.restype = ctypes.c_char_p
            print(library.tnr_init(), b"second copy" in library.tnr_last_error())
            """))
        self.checked(program, "right", code=0)
        self.assertEqual(self.out, "35 True\n")


if __name__ == "__main__":
    unittest.main()
