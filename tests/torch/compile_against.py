#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compile_against.py FOLDER... [--cuda INCLUDE] [--cxx COMPILER] [--only FILE]: compiles
tools/python/tenure/native against the headers of another PyTorch, and says which of its functions
the class would leave to PyTorch. Nothing is linked or run.

FOLDER is torch/include of a wheel, or a source tree of PyTorch; headers that its build generates
are made here, in a temporary folder, where they are missing. Of several the first that has a header
counts. INCLUDE has cuda_runtime_api.h.

Exit codes: 0 it compiles, and overrides all that it must; 1 not, and the reason is printed; 2 wrong
usage; 77 there is no compiler, or no objdump.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NATIVE = os.path.join(ROOT, "tools", "python", "tenure", "native")
# Macros that PyTorch's build writes into headers: none of them set is a build for Linux and CUDA.
GENERATED = ("c10/macros/cmake_macros.h", "torch/headeronly/macros/cmake_macros.h",
             "c10/cuda/impl/cuda_cmake_macros.h")
# What PyTorch answers as well as the class could.
LEFT = re.compile(r"::(getMemoryInfo|clone|is_simple_data_ptr|recordStream)\(|^typeinfo|^vtable|"
                  r"^c10::Allocator::")
VTABLE = "_ZTVN12tenure_torch9allocatorE"


def generate(folders, into):
    for name in GENERATED:
        if not any(os.path.isfile(os.path.join(folder, name)) for folder in folders):
            os.makedirs(os.path.join(into, os.path.dirname(name)), exist_ok=True)
            with open(os.path.join(into, name), "w", encoding="utf-8") as file:
                file.write("#pragma once\n")


def compile_all(options, into):
    """Returns the objects, or None."""
    words = [options.cxx, "-std=c++20", "-O0", "-fPIC", "-Wall", "-Wextra", "-Woverloaded-virtual",
             "-Werror", "-D_GLIBCXX_USE_CXX11_ABI=1"]
    for folder in (*options.folders, into, options.cuda):
        words += ["-isystem", folder]
    words += ["-idirafter", os.path.join(NATIVE, "host")]
    words += [f"-I{os.path.join(ROOT, layer, 'include')}"
              for layer in ("alloc", "lifetime", "capture")]
    objects, good = [], True
    for source in sorted(glob.glob(os.path.join(NATIVE, options.only))):
        objects.append(os.path.join(into, os.path.basename(source) + ".o"))
        run = subprocess.run([*words, "-c", source, "-o", objects[-1]], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if run.returncode != 0:
            print(f"{os.path.basename(source)} does not compile:\n{run.stdout}", end="")
            good = False
    return objects if good else None


def inherited(objects):
    """The functions of PyTorch's that stand in the class's table."""
    found, is_seen = set(), False
    for name in objects:
        listing = subprocess.run(["objdump", "-r", "-w", name], text=True, check=True,
                                 stdout=subprocess.PIPE).stdout
        for part in listing.split("RELOCATION RECORDS FOR ")[1:]:
            if VTABLE not in part.split("\n", 1)[0]:
                continue
            is_seen = True
            symbols = [line.split()[-1].split("+")[0] for line in part.split("\n")[1:]
                       if len(line.split()) == 3]
            names = subprocess.run(["c++filt"], input="\n".join(symbols[1:]), text=True, check=True,
                                   stdout=subprocess.PIPE).stdout.split("\n")
            found.update(text for text in names if text and "tenure_torch::" not in text
                         and text != "VALUE")
    return sorted(found) if is_seen else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--only", default="*.cpp", help="one file; allocator.cpp has the table")
    parser.add_argument("--cuda", default="/usr/local/cuda/include")
    parser.add_argument("--cxx", default=next(filter(None, map(shutil.which, (
        "c++", "g++", "clang++"))), None))
    options = parser.parse_args()
    if options.cxx is None or shutil.which("objdump") is None or shutil.which("c++filt") is None:
        print("skipped: there is no C++ compiler, or no objdump")
        return 77
    options.folders = [os.path.abspath(folder) for folder in options.folders]
    if not any(os.path.isfile(os.path.join(folder, "c10", "cuda", "CUDACachingAllocator.h"))
               for folder in options.folders):
        parser.error("there is no c10/cuda/CUDACachingAllocator.h")
    with tempfile.TemporaryDirectory() as into:
        generate(options.folders, into)
        objects = compile_all(options, into)
        left = objects and inherited(objects)
    if objects is None:
        return 1
    if left is None:
        print("the table of the class's functions was not found in any object")
        return 1
    wrong = [name for name in left if not LEFT.search(name)]
    for name in wrong:
        print(f"left to PyTorch: {name}")
    print(f"compiles against {options.folders[-1]}" + ("" if wrong else "; nothing is left out"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
