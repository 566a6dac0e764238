#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_native.py LIBTENURE LIBTENURE_SIMCUDA: `python3 -m tenure.torch build` and `status`, what
they say when they cannot, and native_program.cpp with the result.

The latter needs a PyTorch: the one that Python imports, or the folder TENURE_TEST_TORCH with
torch/include, torch/lib and nvidia/cu*/include as wheels have them.

Exit codes: 0 good; 1 not; 77 there is no C++ compiler, or no PyTorch to compile against.
"""
import glob
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-D_GLIBCXX_USE_CXX11_ABI=1"]


def must(good, what):
    if not good:
        sys.exit(f"not so: {what}")


def module(environment, *words):
    """Runs the command; returns its exit code and what it said."""
    run = subprocess.run([sys.executable, "-B", "-m", "tenure.torch", *words], text=True,
                         env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return run.returncode, run.stdout


def check_refusals(environment):
    """What is missing is said, and nothing is left behind."""
    code, said = module(environment, "status")
    must(code == 1 and "pluggable (not built)" in said and "headers" in said, said)
    code, said = module(environment, "build")
    must(code == 1 and "headers" in said, f"headers are missing, in words: {said}")
    code, said = module(dict(environment, PATH="/nonexistent", CXX=""), "build")
    must(code == 1 and "compiler" in said, f"a compiler is missing, in words: {said}")
    must(module(environment, "paint")[0] == 2, "wrong usage is 2")
    must(module(environment, "run")[0] == 2, "so is no script")
    must(not os.path.exists(environment["TENURE_CACHE"]), "nothing is left")


def check_run(environment, folder):
    """A script that knows nothing of Tenure, with its arguments and its exit code."""
    script = os.path.join(folder, "script.py")
    with open(script, "w", encoding="utf-8") as file:
        file.write("import sys, torch, tenure.torch\n"
                   "assert __name__ == '__main__' and not tenure.torch.is_installed()\n"
                   "torch._C._cuda_init()\n"
                   "assert tenure.torch.is_installed()\n"
                   "print(sys.argv[1:], tenure.torch.kind())\n"
                   "sys.exit(3)\n")
    code, said = module(dict(environment, TENURE_DRIVER="sim"), "run", script, "--all", "2")
    must(code == 3 and "['--all', '2'] pluggable" in said, f"run: {code} {said}")


def torch_found():
    """The folder with a PyTorch in it; None if there is none."""
    folder = os.environ.get("TENURE_TEST_TORCH")
    if folder is None:
        spec = importlib.util.find_spec("torch")
        folder = spec and os.path.dirname(os.path.dirname(spec.origin))
    there = folder and os.path.isfile(
        os.path.join(folder, "torch", "include", "c10", "cuda", "CUDACachingAllocator.h"))
    return os.path.abspath(folder) if there else None


def check_build(environment):
    """Every outcome of the command. Returns the path of the class."""
    code, said = module(environment, "status")
    must(code == 1 and "native, once it is compiled" in said, f"nothing is built yet: {said}")
    code, said = module(dict(environment, CXX=shutil.which("false")), "build")
    must(code == 1 and "could not compile" in said, f"it does not compile, in words: {said}")
    for body, why in (("__builtin_trap();", "ended with -"), ("return 0;", "ended with 3")):
        compiler = os.path.join(environment["TENURE_CACHE"], "compiler")
        os.makedirs(environment["TENURE_CACHE"], exist_ok=True)
        with open(compiler, "w", encoding="utf-8") as script:
            script.write(f"""#!/bin/sh
for output; do :; done
echo 'int tenure_native_try(void) {{ {body} }}' | cc -shared -fPIC -x c - -o "$output"
""")
        os.chmod(compiler, 0o755)
        code, said = module(dict(environment, CXX=compiler), "build")
        os.unlink(compiler)
        must(code == 1 and "cannot raise" in said and why in said, f"it is tried: {said}")
    code, said = module(environment, "build")
    must(code == 0, f"build: {said}")
    path = said.strip().split("native: ", 1)[1]
    must(os.path.isfile(path) and path.startswith(environment["TENURE_CACHE"]), f"{path} is there")
    stamp = os.stat(path).st_mtime_ns
    code, said = module(environment, "build")
    must(code == 0 and os.stat(path).st_mtime_ns == stamp, "it is built once")
    must(os.listdir(os.path.dirname(path)) == [os.path.basename(path)], "nothing else is left")
    must(module(environment, "status")[0] == 0, "status finds it")
    return path


def check_headers(folder, torch):
    """compile_against.py passes PyTorch's headers, and names a function that they have gained."""
    include = os.path.join(torch, "torch", "include")
    name = os.path.join("c10", "cuda", "CUDACachingAllocator.h")
    cuda = glob.glob(os.path.join(torch, "nvidia", "cu*", "include"))
    command = [sys.executable, "-B", os.path.join(HERE, "compile_against.py"), "--only",
               "allocator.cpp", *(word for path in cuda for word in ("--cuda", path))]
    run = subprocess.run([*command, include], text=True, stdout=subprocess.PIPE)
    must(run.returncode in (0, 77), f"it overrides all: {run.stdout}")
    newer = os.path.join(folder, "newer")
    os.makedirs(os.path.join(newer, os.path.dirname(name)))
    with open(os.path.join(include, name), encoding="utf-8") as file:
        text = file.read()
    head = "class CUDAAllocator : public DeviceAllocator {\n public:\n"
    with open(os.path.join(newer, name), "w", encoding="utf-8") as file:
        file.write(text.replace(head, head + "  virtual void paint(int) {}\n"))
    run = subprocess.run([*command, newer, include], text=True, stdout=subprocess.PIPE)
    must(run.returncode == 77 or run.returncode == 1 and "paint(int)" in run.stdout,
         f"what it leaves out is named: {run.stdout}")


def check_program(compiler, folder, torch, libraries, native):
    program = os.path.join(folder, "native_program")
    paths = [os.path.join(torch, "torch", "lib"), *map(os.path.dirname, libraries),
             *glob.glob(os.path.join(torch, "nvidia", "*", "lib"))]
    includes = [os.path.join(torch, "torch", "include"),
                *glob.glob(os.path.join(torch, "nvidia", "cu*", "include"))]
    subprocess.run([compiler, *FLAGS, *(word for path in includes for word in ("-isystem", path)),
                    "-idirafter", os.path.join(ROOT, "tools", "python", "tenure", "native", "host"),
                    *(f"-I{os.path.join(ROOT, layer, 'include')}"
                      for layer in ("alloc", "lifetime", "capture")),
                    *(os.path.join(HERE, name + ".cpp")
                      for name in ("native_program", "cudart_stub", "strangers")),
                    "-rdynamic", "-L" + paths[0], "-lc10_cuda", "-lc10", *libraries, "-ldl",
                    "-Wl,--allow-shlib-undefined",
                    "-Wl,-rpath," + ":".join(paths), "-o", program], check=True)
    run = subprocess.run([program, native], text=True, stdout=subprocess.PIPE,
                         env=dict(os.environ, TENURE_SIM_DEVICES="2"))
    print(run.stdout, end="")
    must(run.returncode == 0, f"native_program ended with {run.returncode}")
    for driver, serves, line in (("sim", "it serves", "tenure: a word"),
                                 ("/no/driver.so", "it does not serve",
                                  "tenure: PyTorch keeps its own allocator: ")):
        run = subprocess.run([program, native, "waits"], text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=dict(os.environ, TENURE_DRIVER=driver))
        must(run.returncode == 0 and run.stdout == serves + "\n" and
             run.stderr.startswith(line) and run.stderr.count("\n") == 1,
             f"{driver}: {run.returncode} {run.stdout} {run.stderr}")


def main():
    libraries = [os.path.abspath(path) for path in sys.argv[1:]]
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if compiler is None:
        print("skipped: there is no C++ compiler")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(
            os.environ, FAKE_TORCH_ROOT="/nonexistent", TENURE_LIBRARY=libraries[0],
            TENURE_CACHE=os.path.join(folder, "cache"), FAKE_TORCH_DRIVER=libraries[1],
            PYTHONPATH=os.pathsep.join((os.path.join(ROOT, "tools", "python"),
                                        os.path.join(ROOT, "tests", "python", "fake"))))
        environment.pop("CXX", None)
        check_refusals(environment)
        check_run(environment, folder)
        torch = torch_found()
        if torch is None:
            print("skipped: there is no PyTorch to compile against: set TENURE_TEST_TORCH")
            return 77
        environment["FAKE_TORCH_ROOT"] = os.path.join(torch, "torch")
        native = check_build(environment)
        check_headers(folder, torch)
        check_program(compiler, folder, torch, libraries, native)
    return 0


if __name__ == "__main__":
    sys.exit(main())
