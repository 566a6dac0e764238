# SPDX-License-Identifier: Apache-2.0
"""Tenure put under Python programs: `python3 -m tenure.torch run`, and what both it and `tenure run
--check` put before a program's first line (tenure/_under.py, tenure/_startup).

Broken to see it fail, each by itself: the program run by runpy in the command's own process;
PYTHONPATH replaced instead of added to; the user's sitecustomize not handed on to; the folder left
in sys.path; installation at the import; a second installation after the program's own; the loader
left wrapped; "--" handed on; no word about -I; options of Python's dropped; an engine's error
raised at its import; _STARTS with "_cuda_init" alone (test_starts_in_cpp); the function that was
watched called instead of the one that is there after the installation (the same); the text of
change_current_allocator's error as it is (test_a_start_that_is_missed); settle() left out
(test_a_backend).

Environment: as for the other tests here.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
FAKE = os.path.join(HERE, "fake")
PYTHON = [sys.executable, "-B"]
SHOW = "import sys, tenure.torch as t, torch; torch.Tensor(1 << 20); print(t.kind(), sys.argv)\n"


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))
        return path

    def python(self, *words, code=0, text="", flags=(), **environment):
        path = [FAKE, *os.environ["PYTHONPATH"].split(os.pathsep)]
        variables = {**os.environ, "TENURE_CACHE": os.path.join(HERE, "no-such-folder"),
                     "PYTHONPATH": os.pathsep.join(path), "PYTHONWARNINGS": "ignore", **environment}
        done = subprocess.run([*PYTHON, *flags, *words], env=variables, input=text, text=True,
                              capture_output=True, timeout=500, cwd=self.folder, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.err = done.stderr
        return done.stdout

    def run_torch(self, *words, **named):
        return self.python("-m", "tenure.torch", "run", *words, **named)


class Run(Case):
    def test_a_script(self):
        script = self.write("a script.py", SHOW)
        self.assertEqual(self.run_torch(script, "--x", "1"), f"pluggable {[script, '--x', '1']}\n")
        self.assertEqual(self.run_torch("--", script, "--", "-h"),
                         f"pluggable {[script, '--', '-h']}\n")
        self.assertEqual(self.run_torch("a script.py"), "pluggable ['a script.py']\n")

    def test_a_module(self):
        self.write("package/__init__.py", "")
        main = self.write("package/__main__.py", SHOW)
        self.assertEqual(self.run_torch("-m", "package", "-m", "x"),
                         f"pluggable {[os.path.realpath(main), '-m', 'x']}\n")

    def test_a_python_that_does_not_know_its_path(self):
        """Its sys.executable is empty. Without _under.python() nothing can be started."""
        code = ("import sys; from tenure import _torch_command as c; sys.executable = ''; "
                "sys.argv[1:] = ['run', '-c', sys.argv[1]]; sys.exit(c.main())")
        self.assertEqual(self.python("-c", code, SHOW), "pluggable ['-c']\n")

    def test_code_and_standard_input(self):
        self.assertEqual(self.run_torch("-c", SHOW, "y"), "pluggable ['-c', 'y']\n")
        self.assertEqual(self.run_torch("-", "z", text=SHOW), "pluggable ['-', 'z']\n")
        script = self.write("s.py", "import torch; torch.Tensor(5); print(input())")
        self.assertEqual(self.run_torch(script, text="typed\n"), "typed\n")

    def test_what_main_is(self):
        """The first entry of sys.path, __file__, and no trace of the command."""
        script = self.write("inner/s.py", """
            import os, sys
            import neighbour
            print(__name__, os.path.basename(__file__), os.path.basename(sys.path[0]),
                  any("_startup" in path for path in sys.path), "argparse" in sys.modules)
            """)
        self.write("inner/neighbour.py", "")
        self.assertEqual(self.run_torch(script), "__main__ s.py inner False False\n")

    def test_exit_codes(self):
        for text, code in [("import sys; sys.exit(7)", 7), ("raise SystemExit", 0),
                           ("import os; os._exit(9)", 9), ("1/0", 1), ("x y", 1),
                           ("import sys; sys.exit('said')", 1),
                           ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
                            -signal.SIGTERM)]:
            with self.subTest(text=text):
                self.run_torch(self.write("s.py", text), code=code)
        self.run_torch("/no/such/script.py", code=2)
        self.assertIn("can't open file", self.err)

    def test_tracebacks_begin_in_the_program(self):
        script = self.write("s.py", "import torch\ntorch.Tensor(8)\ndef f():\n    1/0\nf()\n")
        self.run_torch(script, code=1)
        lines = self.err.splitlines()
        first = lines.index("Traceback (most recent call last):")
        self.assertEqual(lines[first + 1], f'  File "{script}", line 5, in <module>')
        self.assertNotIn("tenure", "\n".join(lines[first:]))

    def test_processes_it_starts(self):
        """By spawn and by hand; each has Tenure, too."""
        script = self.write("s.py", """
            import multiprocessing, subprocess, sys
            import torch
            import tenure.torch
            def work(queue):
                torch.Tensor(1 << 20)
                queue.put(tenure.torch.kind())
            if __name__ == "__main__":
                context = multiprocessing.get_context("spawn")
                queue = context.Queue()
                child = context.Process(target=work, args=(queue,))
                child.start()
                print(queue.get(timeout=100), tenure.torch.kind())
                child.join()
                sys.stdout.flush()
                code = "import torch, tenure.torch as t; torch.Tensor(5); print(t.kind())"
                subprocess.run([sys.executable, "-c", code])
            """)
        self.assertEqual(self.run_torch(script), "pluggable None\npluggable\n")

    def test_a_fork_before_the_first_use(self):
        """The import starts no driver: a child may use the GPU, as without Tenure."""
        script = self.write("s.py", """
            import os, torch
            child = os.fork()
            if child == 0:
                torch.Tensor(1 << 20)
                os._exit(11)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            """)
        self.assertEqual(self.run_torch(script), "11\n")

    def test_conf(self):
        script = self.write("s.py", """
            import torch, tenure
            torch.Tensor(1 << 20)
            print(tenure.stats()["limit_bytes"])
            """)
        half = self.run_torch(script, TENURE_CONF="per_process_memory_fraction:0.5")
        given = ["--conf", "per_process_memory_fraction:0.25", script]
        self.assertEqual(int(self.run_torch(*given)) * 2, int(half))
        self.assertEqual(int(self.run_torch(
            *given, TENURE_CONF="reuse:poll,per_process_memory_fraction:0.5")) * 2, int(half))
        self.run_torch("--conf", "no_such_key:1", script, code=2)
        self.assertIn("no_such_key", self.err)
        self.assertNotIn("Traceback", self.err)

    def test_wrong_usage(self):
        for words in [(), ("--",), ("-m",), ("--conf",)]:
            self.run_torch(*words, code=2)
            self.assertIn("usage", self.err)
        script = self.write("s.py", SHOW)
        for flag in ("-E", "-S"):
            path = f"import sys; sys.path[:0] = {os.environ['PYTHONPATH'].split(os.pathsep)!r}; "
            self.python("-c", path + "sys.argv = ['x', 'run', " + repr(script) + "]; "
                        "from tenure import _torch_command; sys.exit(_torch_command.main())",
                        flags=(flag,), code=2)
            self.assertIn("-I, -E or -S", self.err)

    def test_run_is_missing(self):
        """Without the look at the file argparse lists its verbs."""
        script = self.write("train.py", "")
        self.python("-m", "tenure.torch", script, "--x", code=2)
        self.assertIn(f"python3 -m tenure.torch run {script} --x", self.err)

    def test_status_for_programs(self):
        said = json.loads(self.python("-m", "tenure.torch", "status", "--json", code=1))
        self.assertEqual((said["kind"], said["is_built"]), ("pluggable", False))
        self.assertIn("C++ headers", said["problem"])
        self.assertIn("no-such-folder", said["library"])

    def test_flags_of_python_stay(self):
        script = self.write("s.py", "import sys; print(sys.flags.optimize, sys.warnoptions)")
        self.assertIn("2 ['ignore', 'error']", self.python(
            "-m", "tenure.torch", "run", script, flags=("-OO", "-W", "error")))


class Startup(Case):
    """The hook, whoever has put it there."""

    def test_the_users_own(self):
        """Its sitecustomize runs, also if it fails, and is the one that is found."""
        self.write("own/sitecustomize.py", "import sys; print('own', len(sys.argv)); VALUE = 5")
        text = "import sitecustomize; print(sitecustomize.VALUE, sitecustomize.__file__)"
        path = os.pathsep.join([FAKE, os.path.join(self.folder, "own"),
                                os.environ["PYTHONPATH"]])
        plain = self.python("-c", text, PYTHONPATH=path)
        self.assertIn("own", plain)
        said = self.run_torch("-c", text, PYTHONPATH=path)
        self.assertEqual(said.splitlines()[1:], plain.splitlines())  # the command is a Python, too
        self.write("own/sitecustomize.py", "1/0")
        self.python("-c", "print(5)", PYTHONPATH=path)
        plain = self.err
        self.assertEqual(self.run_torch("-c", "print(5)", PYTHONPATH=path), "5\n")
        self.assertEqual(self.err.count("ZeroDivisionError"), 2 * plain.count("ZeroDivisionError"))

    def test_none_of_the_users(self):
        """Then ours is the one that is found, and nothing else is different."""
        text = "import sys; print([path for path in sys.path if path not in sys.argv[1:]])"
        added = os.environ["PYTHONPATH"].split(os.pathsep)
        self.assertEqual(self.run_torch("-c", text, *added), self.python("-c", text, *added))

    def test_what_the_program_installs(self):
        said = self.run_torch("-c", "import tenure.torch as t; print(t.install(native=False)); "
                              "import torch; torch.Tensor(5); print(t.kind())")
        self.assertEqual(said, "True\npluggable\n")
        self.assertEqual(self.err, "")

    def test_the_engine_looks_as_ever(self):
        text = ("import torch, sys; print(type(torch.__loader__).__name__, "
                "type(torch.__spec__.loader).__name__, torch.__spec__.origin == torch.__file__)")
        path = {"FAKE_TORCH_ROOT": FAKE}
        self.assertEqual(self.run_torch("-c", text, **path), self.python("-c", text, **path))

    def test_engines_that_are_not_there(self):
        said = self.run_torch("-c", "try:\n import torch\nexcept ImportError as e: print(e.name)",
                              PYTHONPATH=os.environ["PYTHONPATH"])
        self.assertEqual(said, "torch\n")

    def test_a_pytorch_without_cuda(self):
        said = self.run_torch("-c", "import torch; torch.lazy_init(); "
                              "print(torch.state.allocator)", FAKE_TORCH_CUDA="")
        self.assertEqual(said, "None\n")
        self.assertEqual(self.err, "")

    def test_starts_in_cpp(self):
        """Calls that start CUDA without Python's way are watched too, and answered by Tenure if
        Tenure answers them."""
        self.assertEqual(self.run_torch("-c", SHOW.replace("torch.Tensor(1 << 20)", (
            "torch._C._cuda_record_memory_history('all', 'all', 'all', 0)"))),
            "pluggable ['-c']\n")
        self.assertEqual(self.run_torch("-c", SHOW.replace("torch.Tensor(1 << 20)", (
            "torch._C._cuda_attach_out_of_memory_observer(print); torch.Tensor(5)"))),
            "pluggable ['-c']\n")
        self.assertEqual(self.err, "")

    def test_a_start_that_is_missed(self):
        """Without the class there are some. One line says so."""
        said = self.run_torch("-c", "import torch; torch.start_in_cpp(); torch._C._cuda_init(); "
                              "print(torch.state.allocator)")
        self.assertEqual(said, "None\n")
        self.assertEqual(self.err.count("\n"), 1, self.err)
        self.assertIn("tenure: PyTorch keeps its own allocator: ", self.err)
        self.assertIn("already initialized", self.err)

    def test_a_backend(self):
        """PyTorch's assertion that it has the backend which its settings name."""
        for variable in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
            for backend in ("cudaMallocAsync", "native"):
                with self.subTest(variable=variable, backend=backend):
                    self.assertEqual(self.run_torch("-c", SHOW, PYTHONWARNINGS="always", **{
                        variable: f"backend:{backend}"}), "pluggable ['-c']\n")
                    self.assertIn("backend: Tenure is the allocator", self.err)

    def test_why_it_cannot_serve(self):
        """Said in a line, and the program goes on with PyTorch's own allocator."""
        said = self.run_torch("-c", "import torch; torch.lazy_init(); "
                              "print(torch.state.allocator)", TENURE_DRIVER="/no/driver.so")
        self.assertEqual(said, "None\n")
        self.assertEqual(self.err.count("\n"), 1, self.err)
        self.assertIn("tenure: PyTorch keeps its own allocator: ", self.err)
        self.assertIn("/no/driver.so", self.err)

    def test_another_pytorch(self):
        """One that starts CUDA by another name."""
        self.write("other/torch.py", "import types; _C = types.SimpleNamespace(); x = 5")
        said = self.run_torch("-c", "import torch; print(torch.x)", PYTHONPATH=os.pathsep.join(
            [os.path.join(self.folder, "other"), os.environ["PYTHONPATH"]]))
        self.assertEqual(said, "5\n")
        self.assertIn("PyTorch keeps its own allocator: ", self.err)
        self.assertIn("_cuda_init", self.err)

    def test_cupy(self):
        said = self.python("-c", textwrap.dedent("""
            import os, subprocess, sys
            from tenure import _under
            os.environ.update(_under.environment("torch,cupy"))
            code = '''
            import cupy, tenure.cupy as t
            print(t.is_installed())
            x = cupy.ndarray(3 << 20)
            import tenure
            print(t.is_installed(), tenure.stats()["allocated_bytes.all.current"] >> 20)
            '''
            code = "\\n".join(line.strip() for line in code.splitlines())
            sys.exit(subprocess.run([sys.executable, "-c", code]).returncode)
            """))
        self.assertEqual(said, "False\nTrue 3\n")


if __name__ == "__main__":
    unittest.main()
