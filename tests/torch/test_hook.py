#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_hook.py LIBTENURE LIBTENURE_TORCH: `python3 -m tenure.torch build` against a stand-in for
PyTorch's headers, what it says when it cannot, and hook_program.cpp with the result.

Exit codes: 0 good; 1 not; 77 there is no C++ compiler.
"""
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


def build(environment, *words):
    """Runs the command; returns its exit code and what it said."""
    run = subprocess.run([sys.executable, "-B", "-m", "tenure.torch", *words], text=True,
                         env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return run.returncode, run.stdout


def fake_torch(folder, compiler):
    """A PyTorch of headers and one empty library."""
    shutil.copytree(os.path.join(HERE, "c10"), os.path.join(folder, "include", "c10"))
    os.mkdir(os.path.join(folder, "lib"))
    subprocess.run([compiler, "-shared", "-fPIC", "-xc++", "/dev/null", "-o",
                    os.path.join(folder, "lib", "libc10.so")], check=True)


def check_build(environment, folder):
    """Every outcome of the command. Returns the path of the hook."""
    code, said = build(environment, "status")
    must(code == 1 and "(not built)" in said, f"nothing is built yet: {said}")
    code, said = build(dict(environment, FAKE_TORCH_ROOT="/nonexistent"), "build")
    must(code == 1 and "headers" in said, f"headers are missing, in words: {said}")
    code, said = build(dict(environment, PATH="/nonexistent", CXX=""), "build")
    must(code == 1 and "compiler" in said, f"a compiler is missing, in words: {said}")
    code, said = build(dict(environment, CXX=shutil.which("false")), "build")
    must(code == 1 and "could not compile" in said, f"it does not compile, in words: {said}")
    code, said = build(environment, "build")
    must(code == 0, f"build: {said}")
    path = said.strip().split(": ", 1)[1]
    must(os.path.isfile(path) and path.startswith(folder), f"{path} is there")
    stamp = os.stat(path).st_mtime_ns
    code, said = build(environment, "build")
    must(code == 0 and os.stat(path).st_mtime_ns == stamp, "it is built once")
    must(os.listdir(os.path.dirname(path)) == [os.path.basename(path)], "nothing else is left")
    must(build(environment, "status")[0] == 0, "status finds it")
    must(build(environment, "paint")[0] == 2, "wrong usage is 2")
    return path


def check_program(compiler, folder, library, plugin, hook):
    program = os.path.join(folder, "hook_program")
    includes = [f"-I{os.path.join(ROOT, layer, 'include')}"
                for layer in ("alloc", "lifetime", "capture")]
    subprocess.run([compiler, *FLAGS, *includes, f"-I{HERE}",
                    f"-I{os.path.join(ROOT, 'tools', 'torch')}",
                    f"-I{os.path.join(ROOT, 'tools', 'python', 'tenure')}",
                    os.path.join(HERE, "hook_program.cpp"), library,
                    f"-Wl,-rpath,{os.path.dirname(library)}", "-ldl", "-o", program], check=True)
    run = subprocess.run([program, plugin, hook], text=True, stdout=subprocess.PIPE)
    print(run.stdout, end="")
    must(run.returncode == 0, f"hook_program ended with {run.returncode}")


def main():
    library, plugin = sys.argv[1:]
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if compiler is None:
        print("skipped: there is no C++ compiler")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        torch = os.path.join(folder, "torch")
        os.mkdir(torch)
        fake_torch(torch, compiler)
        environment = dict(
            os.environ, FAKE_TORCH_ROOT=torch, TENURE_CACHE=os.path.join(folder, "cache"),
            PYTHONPATH=os.pathsep.join((os.path.join(ROOT, "tools", "python"),
                                        os.path.join(ROOT, "tests", "python", "fake"))))
        environment.pop("CXX", None)
        hook = check_build(environment, folder)
        check_program(compiler, folder, library, plugin, hook)
    return 0


if __name__ == "__main__":
    sys.exit(main())
