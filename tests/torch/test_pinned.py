#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_pinned.py LIBTENURE LIBTENURE_SIMCUDA CUDA_INCLUDE: pinned_program.cpp, with the interface
of PyTorch's pinned memory played as it is, as it was, and where there is none.

Exit codes: 0 good; 1 not; 77 there is no C++ compiler.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NATIVE = ROOT / "tools" / "python" / "tenure" / "native"
FLAGS = ["-std=c++20", "-g", "-Wall", "-Wextra", "-Woverloaded-virtual", "-Werror",
         "-fvisibility=hidden"]


def main():
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if compiler is None:
        print("skipped: there is no C++ compiler")
        return 77
    libraries, cuda = [os.path.abspath(path) for path in sys.argv[1:3]], sys.argv[3]
    includes = [f"-I{NATIVE}", "-isystem", HERE / "played", "-isystem", cuda,
                *(f"-I{ROOT / layer / 'include'}" for layer in ("alloc", "lifetime", "capture"))]
    paths = ":".join(map(os.path.dirname, libraries))
    environment = dict(os.environ, TENURE_SIM_STRICT="abort", TENURE_SIM_RACES="1",
                       TENURE_SIM_SCHEDULE="lazy", TENURE_DRIVER=libraries[1])
    runs = [([], "", []), ([], "host:mapped", []), ([], "host:allocated", []),
            ([], "host:off", ["off"]), (["-DPLAYED_OLDER"], "", []), (["-DPLAYED_NONE"], "", [])]
    with tempfile.TemporaryDirectory() as folder:
        for number, (defines, conf, words) in enumerate(runs):
            program = os.path.join(folder, f"program{number if defines else 0}")
            if number == 0 or defines:
                subprocess.run([compiler, *FLAGS, *defines, *includes, HERE / "pinned_program.cpp",
                                NATIVE / "pinned.cpp", *libraries, f"-Wl,-rpath,{paths}", "-o",
                                program], check=True)
            done = subprocess.run([program, *words], env=dict(environment, TENURE_CONF=conf),
                                  check=False)
            if done.returncode != 0:
                print(f"{defines} {conf}: ended with {done.returncode}")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
