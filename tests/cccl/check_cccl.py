#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_cccl.py CC LIBRARIES WHAT [FLAGS...]: <tenure/cccl.hpp> compiled with every warning, as
C++17 and C++20, and program.cpp and the page's examples run on the simulated device. WHAT is what
CCCL it is compiled against:

    older, today   concept/, which states what CCCL up to 3.0, and from 3.1 on, asks
    real           each CCCL that is found: in CUDA toolkits, and in the folders that
                   TENURE_TEST_CCCL names, separated by colons; and what needs more than it
                   (blocks of the page that include Thrust)

LIBRARIES is the build's folder of libtest_cudart.a and libtenure.so, FLAGS what the build gives its
compiler. The example of RMM is compiled against the last CCCL of TENURE_TEST_CCCL where
TENURE_TEST_RMM is the folder of its headers.

Exit codes: 0 all is well; 1 not; 77 WHAT is not on this machine.
"""
import glob
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs/cpp.md"
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wno-sign-conversion",
          "-Werror"]
HEADERS = [f"-I{ROOT / folder}/include" for folder in
           ("tools/dropin", "alloc", "lifetime", "capture", "tools/simcuda")]
CONCEPTS = {"older": 2003000, "today": 3001000}
CONF = {"TENURE_DRIVER": "sim", "TENURE_SIM_SCHEDULE": "lazy", "TENURE_SIM_RACES": "1",
        "TENURE_SIM_STRICT": "abort", "TENURE_SIM_DEVICES": "2",
        # Quiet streams live as long as the process, and the page's programs do not end Tenure.
        "ASAN_OPTIONS": "exitcode=98:detect_leaks=0",
        "TENURE_CONF": "reuse_mark_percent:0,address_space_gb:64"}


def real_folders():
    """[(name, include flags)] of each CCCL on this machine."""
    toolkits = [os.environ.get("CUDA_HOME", ""), *sorted(glob.glob("/usr/local/cuda-*"))]
    runtime = next((f"{kit}/include" for kit in toolkits
                    if os.path.isfile(f"{kit}/include/cuda_runtime_api.h")), None)
    if runtime is None:
        return []
    found = {}
    for kit in toolkits:
        for folder in (f"{kit}/include/cccl", f"{kit}/include"):
            if os.path.isfile(f"{folder}/cuda/memory_resource"):
                found.setdefault(os.path.realpath(folder), [folder, f"{kit}/include"])
                break
    for folder in filter(None, os.environ.get("TENURE_TEST_CCCL", "").split(":")):
        parts = [f"{folder}/{part}" for part in ("libcudacxx/include", "thrust", "cub")]
        parts = [part for part in parts if os.path.isdir(part)] or [folder]
        found[os.path.realpath(folder)] = [*parts, runtime]
    return [(name, [flag for part in parts for flag in ("-isystem", part)])
            for name, parts in found.items()]


def blocks():
    """The page's programs: fenced blocks of C++, by the names of their first lines."""
    text = PAGE.read_text("utf-8")
    found = re.findall(r"^```cpp\n(.*?)^```$", text, re.M | re.S)
    assert len(found) >= 3, "docs/cpp.md has lost its examples"
    return found


class Compiler:
    def __init__(self, command, libraries, flags, folder):
        self.command, self.libraries = command, pathlib.Path(libraries)
        # For C++ that checker needs a run time which the linking of C does not bring.
        self.flags = [*flags, "-fno-sanitize=undefined"] if flags else []
        self.folder, self.count, self.failed = folder, 0, 0

    def say(self, what, process):
        self.failed += 1
        print(f"{what}: exit code {process.returncode}\n{process.stdout[-3000:]}"
              f"{process.stderr[-6000:]}")

    def compile(self, what, source, headers, *flags):
        """The program, or None; with -fsyntax-only there is none to make."""
        self.count += 1
        program = os.path.join(self.folder, f"program{self.count}")
        link = [] if "-fsyntax-only" in flags else [
            "-x", "none", f"{self.libraries}/libtest_cudart.a", f"{self.libraries}/libtenure.so",
            f"{self.libraries}/tenure/libtenure_simcuda.so", "-lstdc++", "-lpthread",
            f"-Wl,-rpath,{self.libraries}:{self.libraries}/tenure", "-o", program]
        process = subprocess.run(
            [self.command, *self.flags, *STRICT, *flags, *HEADERS, *headers, "-x", "c++", source,
             *link], capture_output=True, text=True, check=False)
        if process.returncode != 0:
            self.say(f"compiling {what}", process)
            return None
        return program

    def run(self, what, program, *words):
        if program is None:
            return
        process = subprocess.run([program, *words], capture_output=True, text=True, check=False,
                                 env={**os.environ, **CONF})
        if process.returncode != 0:
            self.say(f"running {what}", process)


def program_check(compiler, name, headers, *flags):
    source = HERE / "program.cpp"
    compiler.run(name, compiler.compile(name, source, headers, "-std=c++17", *flags))
    if "TENURE_TEST_CONCEPT" in str(flags):  # CCCL itself is not what differs
        what = f"{name}, C++20, default streams of threads"
        compiler.run(what, compiler.compile(what, source, headers, "-std=c++20",
                                            "-DCUDA_API_PER_THREAD_DEFAULT_STREAM", *flags))


def page_check(compiler, name, headers, *flags, rmm=None):
    """Blocks that need more than there is are left out: Thrust with a stand-in, and RMM."""
    for number, block in enumerate(blocks(), 1):
        wanted = set(re.findall(r"#include <(thrust|rmm)/", block))
        if "TENURE_TEST_CONCEPT" in str(flags) and wanted or "rmm" in wanted and not rmm:
            continue
        source = os.path.join(compiler.folder, f"block{number}.cpp")
        pathlib.Path(source).write_text(block, "utf-8")
        what = f"{name}: block {number} of docs/cpp.md"
        more = ["-DTHRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_CPP"] if "thrust" in wanted else []
        if "rmm" in wanted:
            more, headers = ["-std=c++20"], ["-isystem", rmm, *headers]
        if "int main" in block:
            compiler.run(what, compiler.compile(what, source, headers, "-std=c++17", *flags, *more))
        else:
            compiler.compile(what, source, headers, "-std=c++17", "-fsyntax-only", *flags, *more)


def gpu_check(compiler, name, headers):
    """What interfaces.sh runs on a GPU, with Thrust's host back end."""
    what = f"{name}: tests/gpu/interfaces/cccl.cu"
    host = "-DTHRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_CPP"
    compiler.run(what, compiler.compile(what, ROOT / "tests/gpu/interfaces/cccl.cu", headers,
                                        "-std=c++17", host), "--quick")


def main():
    command, libraries, what, *flags = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        compiler = Compiler(command, libraries, flags, folder)
        if what in CONCEPTS:
            kinds = [(what, [f"-I{HERE / 'concept'}", f"-I{ROOT / 'tests/dropin/runtime'}",
                             *flags_of_cuda_h()],
                      ["-DTENURE_TEST_CONCEPT", f"-DCCCL_VERSION={CONCEPTS[what]}"])]
        else:
            kinds = [(name, headers, []) for name, headers in real_folders()]
            if not kinds:
                print("skipped: there is no CUDA toolkit with cuda_runtime_api.h and CCCL")
                return 77
        for name, headers, defines in kinds:
            program_check(compiler, name, headers, *defines)
            page_check(compiler, name, headers, *defines, rmm=os.environ.get("TENURE_TEST_RMM")
                       if os.environ.get("TENURE_TEST_CCCL") and name == kinds[-1][0] else None)
            if what == "real":
                gpu_check(compiler, name, headers)
        print(f"{compiler.count} compiled against {', '.join(kind[0] for kind in kinds)}")
        return int(compiler.failed > 0)


def flags_of_cuda_h():
    """simcuda.h includes cuda.h."""
    return ["-isystem", os.environ["TENURE_TEST_CUDA_H"]]


if __name__ == "__main__":
    sys.exit(main())
