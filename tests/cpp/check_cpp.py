#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_cpp.py CC LIBRARIES [FLAGS...]: <tenure/tenure.hpp> and TNR_STATS_INIT compiled with every
warning by each compiler that is there, and program.cpp run on the simulated device. Where there is
an nvcc, it compiles the engine of docs/replace-cudamalloc.md.

LIBRARIES is the build's folder of libtenure.so and tenure/libtenure_simcuda.so, CC its C compiler,
FLAGS what the build gives it. TENURE_TEST_CUDA_H is the folder of cuda.h.

Exit codes: 0 all is well; 1 not; 77 there is no C++ compiler.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wmissing-field-initializers", "-Werror"]
INCLUDE = [f"-I{ROOT / folder}/include" for folder in ("tools/dropin", "alloc", "lifetime",
                                                       "capture")]
C_LINE = """#include <tenure/alloc.h>
tnr_status held(tnr_stats *out);
tnr_status held(tnr_stats *out)
{
    tnr_stats stats = TNR_STATS_INIT;
    tnr_status status = tnr_stats_get(&stats, NULL, 0);
    *out = stats;
    return status;
}
"""


def compiled(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.returncode == 0


def knows(compiler, standard):
    """Whether this compiler has that standard, by an empty file."""
    language = "c++" if "++" in standard else "c"
    return subprocess.run([compiler, f"-std={standard}", "-x", language, "-fsyntax-only",
                           os.devnull], capture_output=True, check=False).returncode == 0


def page_compiled(folder):
    """The page's engine in CUDA C++."""
    page = (ROOT / "docs/replace-cudamalloc.md").read_text("utf-8")
    engine = re.search(r"^```cpp\n(/\* engine\.cu \*/\n.*?)^```$", page, re.M | re.S)
    if engine is None:
        print("docs/replace-cudamalloc.md has lost its engine.cu")
        return False
    source = pathlib.Path(folder, "engine.cu")
    source.write_text(engine[1], "utf-8")
    nvcc = shutil.which("nvcc")
    return nvcc is None or compiled([nvcc, "-c", source, "-o", f"{source}.o", *INCLUDE])


def main():
    cc, libraries, flags = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    cuda = ["-isystem", os.environ["TENURE_TEST_CUDA_H"]]
    # The library may be a sanitizer's, which only its own compiler links with.
    own = shutil.which("clang++" if "clang" in os.path.basename(cc) else "g++")
    if own is None:
        print("skipped: there is no C++ compiler")
        return 77
    good, tried = True, 0
    with tempfile.TemporaryDirectory() as folder:
        line = pathlib.Path(folder, "line.c")
        line.write_text(C_LINE, "utf-8")
        for compiler in filter(shutil.which, ("g++", "clang++")):
            for standard in ("c++11", "c++14", "c++17", "c++20", "c++23"):
                if knows(compiler, standard):
                    good &= compiled([compiler, f"-std={standard}", *STRICT, "-Wconversion",
                                      "-fsyntax-only", *INCLUDE, *cuda, HERE / "program.cpp"])
                    tried += 1
        for compiler in filter(shutil.which, ("gcc", "clang")):
            for standard in ("c99", "c11", "c17"):
                good &= compiled([compiler, f"-std={standard}", *STRICT, "-fsyntax-only",
                                  *INCLUDE, line])
        good &= page_compiled(folder)
        program = pathlib.Path(folder, "program")
        good = good and compiled(
            [own, "-std=c++11", "-g", *flags, *INCLUDE, *cuda, HERE / "program.cpp", "-o", program,
             f"-L{libraries}", "-ltenure", f"-L{libraries}/tenure", "-ltenure_simcuda",
             f"-Wl,-rpath,{libraries}:{libraries}/tenure"])
        good = good and subprocess.run(
            [program], check=False, timeout=120,
            env={**os.environ, "TENURE_DRIVER": "sim", "TENURE_SIM_RACES": "1",
                 "TENURE_SIM_STRICT": "abort", "TENURE_SIM_SCHEDULE": "lazy"}).returncode == 0
    if tried < 3:
        print(f"only {tried} standards could be tried")
        good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
