# SPDX-License-Identifier: Apache-2.0
"""The wheel, as a user has it: made of a checkout and of the build folder, installed into fresh
environments without network, used on the simulated device, installed over itself, taken away.

Environment: TENURE_BUILD is the build folder, TENURE_CC a C compiler.
"""
import glob
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest
import zipfile

try:
    import ensurepip
except ImportError:
    ensurepip = None

BUILD = os.environ["TENURE_BUILD"]
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LICENSES = os.path.join(os.path.dirname(HERE), "install", "check_licenses.py")
sys.path.insert(0, os.path.join(BUILD, "python"))
import tenure_elf  # noqa: E402
import tenure_wheel  # noqa: E402

# What the machine offers besides must not help.
CLEAN = {key: value for key, value in os.environ.items()
         if not key.startswith(("TENURE_", "PYTHON", "LD_", "PIP_", "FAKE_"))}
CLEAN.update(TENURE_DRIVER="sim", PIP_NO_INDEX="1", PIP_DISABLE_PIP_VERSION_CHECK="1",
             PIP_NO_CACHE_DIR="1")


def run(*command, code=0, **environment):
    """Runs it and returns what it said on both."""
    done = subprocess.run(command, env={**CLEAN, **environment}, text=True, timeout=500,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode != code:
        raise AssertionError(f"{command} ended with {done.returncode}, not {code}: {said}")
    return said


def setUpModule():
    """One wheel for all tests, since compressing it is much of their work: what `pip install .`
    makes of a checkout. The build folder of this test stands in for its own."""
    global MADE, WHEEL, SAID
    MADE = tempfile.mkdtemp(prefix="tenure-test-wheel-made-")
    unittest.addModuleCleanup(shutil.rmtree, MADE)
    SAID = Environment(os.path.join(MADE, "maker")).pip("wheel", "--no-deps", "-w", MADE, ROOT,
                                                        TENURE_PIP_BUILD=BUILD)
    WHEEL, = glob.glob(os.path.join(MADE, "tenure-*.whl"))


class Environment:
    """A fresh virtual environment. Putting pip into one takes longer than all that is asked of it
    here, most of it for compiling what nothing imports: all run the one that Python brings along,
    from a folder beside them."""
    pips = None

    def __init__(self, folder):
        self.bin = os.path.join(folder, "bin")
        brought = [] if Environment.pips else self.brought()
        with_pip = Environment.pips is None and not brought
        run(sys.executable, "-m", "venv", *([] if with_pip else ["--without-pip"]), folder)
        self.site = glob.glob(os.path.join(glob.escape(folder), "lib", "*", "site-packages"))[0]
        self.package = os.path.join(self.site, "tenure")
        if Environment.pips is None:
            Environment.pips = os.path.join(MADE, "pip")
            if with_pip:
                shutil.copytree(os.path.join(self.site, "pip"), os.path.join(self.pips, "pip"))
            else:
                with zipfile.ZipFile(brought[-1]) as pip:
                    pip.extractall(self.pips)

    @staticmethod
    def brought():
        """The wheels of pip that ensurepip puts into environments, where they can be found."""
        folders = [sysconfig.get_config_var("WHEEL_PKG_DIR"),
                   os.path.join(os.path.dirname(ensurepip.__file__), "_bundled")]
        return [path for folder in filter(None, folders)
                for path in sorted(glob.glob(os.path.join(glob.escape(folder), "pip-*.whl")))]

    def python(self, *arguments, **named):
        return run(os.path.join(self.bin, "python"), *arguments, **named)

    def pip(self, *arguments, **named):
        return self.python("-m", "pip", *arguments, PYTHONPATH=self.pips, **named)

    def command(self, *arguments, **named):
        return run(os.path.join(self.bin, "tenure"), *arguments, **named)


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tenure-test-wheel-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.plain = Environment(os.path.join(cls.folder, "plain"))
        cls.spaced = Environment(os.path.join(cls.folder, "a prefix with spaces"))
        cls.wheel = WHEEL
        # One from the checkout's wheel, one as pip makes it of the build folder.
        cls.plain.pip("install", cls.wheel)
        cls.spaced.pip("install", os.path.join(BUILD, "python"))

    def each(self):
        return [self.plain, self.spaced]

    def test_used_on_the_simulated_device(self):
        for one in self.each():
            said = one.python("-B", os.path.join(HERE, "..", "install", "python_module.py"),
                              os.path.join(one.package, "lib"))
            self.assertIn(f"from {os.path.realpath(one.package)}", said)

    def test_manual_where_no_engine_is(self):
        """Neither PyTorch nor CUDA's packages are in this environment. When a missing engine was an
        ImportError, pydoc ended with it."""
        one = self.plain
        manual = one.python("-m", "pydoc", "tenure")
        for word in ("record_use(", "VERSION", "tenure.torch.install()"):
            self.assertIn(word, manual)
        said = one.python("-m", "tenure")
        self.assertIn(f"tenure {tenure_wheel._version()}", said)
        self.assertRegex(said, r"tenure\.torch\.install\(\) .*not installed here")
        self.assertIn("has no PyTorch", one.python("-m", "tenure.torch", "status", code=1))
        self.assertIn("needs what this Python lacks: No module named 'torch'",
                      one.python("-c", "import tenure; tenure.torch", code=1))

    def test_the_command(self):
        for one in self.each():
            self.assertIn(tenure_wheel._version(), one.command("--version"))
            self.assertIn("simul", one.command("doctor", "--driver", "sim"))
            self.assertIn("there is no command", one.command("no-such-command", code=2))
        said = self.plain.command("run", "--", "sh", "-c", "echo $LD_PRELOAD; exit 5", code=5)
        self.assertEqual(said.strip(), os.path.join(self.plain.package, "lib",
                                                    "libtenure_preload.so"))
        said = self.spaced.command("run", "--", "true", code=2)
        self.assertIn("without colons and blanks. Install it elsewhere", said)

    def test_same_from_both_ways(self):
        self.assertEqual(*(sorted(self.files(one)) for one in self.each()))

    @staticmethod
    def files(one):
        return [os.path.relpath(os.path.join(folder, name), one.package)
                for folder, _, names in os.walk(one.package) for name in names
                if not name.endswith(".pyc")]

    def test_contents(self):
        files = self.files(self.plain)
        for name in ("bin/tenure", "lib/libtenure.so.1", "lib/libtenure_preload.so", "py.typed",
                     "lib/tenure/libtenure_torch.so", "lib/tenure/libtenure_simcuda.so",
                     "include/tenure/alloc.h", "native/allocator.cpp", "_startup/sitecustomize.py",
                     "_saver/torch_memory_saver/__init__.py",
                     "native/host/crt/host_defines.h", "_version.py"):
            self.assertIn(name, files)
        with zipfile.ZipFile(self.wheel) as wheel:
            self.assertIsNone(wheel.testzip())
            build = [name for name in wheel.namelist() if name.endswith((".py", ".txt", ".h"))
                     and os.path.realpath(BUILD).encode() in wheel.read(name)]
        self.assertEqual(build, [])

    def test_no_private_names(self):
        said = json.loads(self.plain.python("-c", "import json, tenure; "
                                            "print(json.dumps([dir(tenure), tenure.__all__]))"))
        self.assertEqual([name for name in said[0] if name.startswith("_")], [])
        self.assertLessEqual(set(said[1]), set(said[0]))
        for name in ("ctypes", "json", "os"):
            self.assertNotIn(name, said[0])

    def test_again_over_it(self):
        self.plain.pip("install", "--force-reinstall", self.wheel)
        self.plain.pip("install", self.wheel)
        self.plain.python("-c", "import tenure; tenure.stats()")
        self.assertEqual(self.plain.pip("list").count("tenure"), 1)

    def test_from_a_checkout(self):
        """`pip install .` makes a wheel of the version that the build folder has: setUpModule.
        Where the build fails it says what to do."""
        self.assertTrue(os.path.basename(WHEEL).startswith(f"tenure-{tenure_wheel._version()}-"),
                        SAID)
        wrong = os.path.join(self.folder, "no build")
        os.mkdir(wrong)
        open(os.path.join(wrong, "CMakeCache.txt"), "w", encoding="utf-8").close()
        self.assertIn("./tools/setup", self.plain.pip("wheel", "--no-deps", "-w", self.folder, ROOT,
                                                      code=1, TENURE_PIP_BUILD=wrong))

    def test_from_a_checkout_by_a_newer_pip(self):
        """Those look for each module beside the backend first (pip 25.1 of Debian 13 did, where
        `pip install .` failed). Broken to see it fail: the wheel's module is imported by name."""
        self.assertEqual(self.plain.python("-c", """
import importlib.machinery, sys
class First:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.machinery.PathFinder.find_spec(name, [sys.argv[1]])
sys.meta_path.insert(0, First)
import tenure_source
print(tenure_source._built().HERE)
""", os.path.join(ROOT, "tools", "python"), TENURE_PIP_BUILD=BUILD).strip(),
                         os.path.realpath(os.path.join(BUILD, "python")))

    def test_taken_away(self):
        gone = Environment(os.path.join(self.folder, "gone"))
        gone.pip("install", self.wheel)
        gone.python("-c", "import tenure; tenure.stats()")
        gone.pip("uninstall", "-y", "tenure")
        self.assertFalse(os.path.exists(gone.package))
        self.assertFalse(os.path.exists(os.path.join(gone.bin, "tenure")))
        self.assertIn("No module named 'tenure'", gone.python("-c", "import tenure", code=1))

    def test_a_library_of_another_version(self):
        """The module's is changed, which is the same."""
        other = Environment(os.path.join(self.folder, "other"))
        other.pip("install", self.wheel)
        path = os.path.join(other.package, "_version.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write('VERSION = "7.8.9"\n')
        said = other.python("-B", "-c", "import tenure; tenure.version()", code=1)
        for part in ("tenure.Error", "does not belong", "7.8.9", "Install or build both",
                     os.path.join(other.package, "lib")):
            self.assertIn(part, said.replace("tenure._library.Error", "tenure.Error"))

    def test_a_file_that_is_no_library(self):
        path = os.path.join(self.folder, "libtenure.so.1")
        with open(path, "w", encoding="utf-8") as file:
            file.write("nothing\n")
        said = self.plain.python("-c", "import tenure; tenure.version()", code=1,
                                 TENURE_LIBRARY=path)
        self.assertIn("could not be loaded", said)
        self.assertIn("Set TENURE_LIBRARY", said)

    def test_one_library_in_the_process(self):
        """Whichever comes first is the one."""
        theirs = os.path.join(self.spaced.package, "lib", "libtenure.so.1")
        first = f"import ctypes; first = ctypes.CDLL({theirs!r}); import tenure; "
        said = self.plain.python("-c", first + "tenure.stats(); print(first.tnr_is_running(), "
                                 "tenure._library.path())")
        self.assertEqual(said.strip(), f"1 {theirs}")
        said = self.plain.python("-c", first + "tenure.stats()", code=1,
                                 TENURE_LIBRARY=os.path.join(self.plain.package, "lib",
                                                             "libtenure.so.1"))
        self.assertIn("a process has one libtenure", said)

    def test_a_home_that_is_read_only(self):
        """Root may write everywhere, so here home is a folder that cannot be."""
        fake = os.path.join(self.folder, "fake", "torch")
        for name in ("include/c10/cuda/CUDACachingAllocator.h",
                     "../nvidia/cu13/include/cuda_runtime_api.h"):
            path = os.path.normpath(os.path.join(fake, name))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "w", encoding="utf-8").close()
        named = {"HOME": "/dev/null/home", "PYTHONPATH": os.path.join(HERE, "fake"),
                 "FAKE_TORCH_ROOT": fake, "FAKE_TORCH_DRIVER": os.path.join(
                     self.plain.package, "lib", "tenure", "libtenure_simcuda.so")}
        self.plain.python("-B", "-c", "import tenure; tenure.stats()", **named)
        said = self.plain.python("-B", "-m", "tenure.torch", "build", code=1, **named)
        self.assertIn("/dev/null/home/.cache/tenure cannot be written to", said)
        self.assertIn("set TENURE_CACHE", said)
        said = self.plain.python("-B", "-c", "import tenure.torch as t; "
                                 "print(t.install(), t.kind())", **named)
        self.assertIn("True pluggable", said)


class Needs(unittest.TestCase):
    """What systems the wheel is for."""

    def test_the_tag_is_true(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("-py3-none-manylinux_2_34_", WHEEL)
            with zipfile.ZipFile(WHEEL) as wheel:
                wheel.extractall(folder)
            run(sys.executable, "-B", LICENSES, "--kind", "wheel", folder)
            seen = 0
            for place, _, names in os.walk(folder):
                for name in names:
                    file = os.path.join(place, name)
                    with open(file, "rb") as opened:
                        if opened.read(4) != b"\x7fELF":
                            continue
                    seen += 1
                    self.assertLessEqual(tenure_elf.glibc_of(file), (2, 34), file)
                    self.assertEqual(sorted(self.versions(file)),
                                     sorted(tenure_elf.needs(file).versions), file)
            self.assertGreaterEqual(seen, 5)

    def test_what_is_nvidias_stays_out(self):
        """The header that the build has fetched, and its licence, which would be taken for ours."""
        with tempfile.TemporaryDirectory() as folder:
            for name in ["include/tenure/alloc.h", "include/tenure/cuda/cuda.h",
                         "include/tenure/cuda/LICENSE", "share/doc/tenure/LICENSE"]:
                os.makedirs(os.path.join(folder, os.path.dirname(name)), exist_ok=True)
                with open(os.path.join(folder, name), "w", encoding="utf-8"):
                    pass
            self.assertEqual(sorted(place for _, place in tenure_wheel._contents(folder, "info")),
                             ["info/licenses/LICENSE", "tenure/include/tenure/alloc.h"])

    @staticmethod
    def versions(file):
        """The same, as binutils read it."""
        said = run("readelf", "-V", "-W", file)
        needs = said[said.index("Version needs section"):]
        return {line.split("Name: ")[1].split()[0] for line in needs.splitlines()
                if "Name: " in line and "Flags" in line}

    def test_newer_ones_are_seen(self):
        with tempfile.TemporaryDirectory() as folder:
            source, program = os.path.join(folder, "a.c"), os.path.join(folder, "a")
            with open(source, "w", encoding="utf-8") as file:
                file.write("unsigned arc4random(void); int main(void) { return arc4random() & 1; }")
            done = subprocess.run([os.environ["TENURE_CC"], source, "-o", program], check=False,
                                  capture_output=True)
            if done.returncode != 0:
                self.skipTest("the C library here is older than 2.36")
            self.assertEqual(tenure_elf.glibc_of(program), (2, 36))
            self.assertTrue(tenure_wheel._tag([program]).startswith("linux_"))
            self.assertTrue(tenure_wheel._tag([source]).startswith("manylinux_2_34_"))

    def test_strange_libraries_are_seen(self):
        program = os.path.join(BUILD, "bin", "tenure")
        self.assertTrue(tenure_wheel._tag([program]).startswith("linux_"))
        self.assertTrue(tenure_wheel._tag(
            [program, os.path.join(BUILD, "lib", "libtenure.so.1")]).startswith(
                "manylinux"))

    def test_not_in_a_build_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in glob.glob(os.path.join(BUILD, "python", "*.py")):
                shutil.copy(path, folder)
            shutil.copy(os.path.join(BUILD, "python", "pyproject.toml"), folder)
            said = run(sys.executable, os.path.join(folder, "tenure_wheel.py"), code=1)
            self.assertIn("not in a build folder of Tenure. Build it first", said)


if __name__ == "__main__":
    if ensurepip is None:
        print("skipped: this Python makes no virtual environments (Debian, Ubuntu: python3-venv)")
        sys.exit(77)
    unittest.main()
