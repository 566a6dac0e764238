#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""That the system and the GPU are each reached from one place. In the layers, alloc/base/prim/
alone includes headers that are not ISO C's. alloc/gpu/cuda/ alone names functions of CUDA's driver,
and only its own sources include it. A sentence to the caller may name functions that it uses.
docs/porting.md has a row for each verb and for each header of the system.

  check_seams.py [--root FOLDER]
  check_seams.py --self-test

Exit codes: 0 all is so; 1 not so.
"""
import pathlib
import re
import sys
import tempfile

import checking

LAYERS = ("alloc", "lifetime", "capture")
PRIM = "alloc/base/prim/"
CUDA = "alloc/gpu/cuda/"

# <errno.h> has numbers that ISO C does not know, which every system has by the same names.
ISO = {"assert", "complex", "ctype", "errno", "fenv", "float", "inttypes", "iso646", "limits",
       "locale", "math", "setjmp", "signal", "stdalign", "stdarg", "stdatomic", "stdbool",
       "stddef", "stdint", "stdio", "stdlib", "stdnoreturn", "string", "tgmath", "threads",
       "time", "uchar", "wchar", "wctype"}
# Headers of ISO C's whose use here would be for what only POSIX has in them.
ISO -= {"signal", "threads", "time"}
OTHERS = {
    "jemalloc/jemalloc.h": ("alloc/base/host_memory.c",),
    "cuda.h": ("alloc/gpu/backend.h", CUDA),
    "cudaTypedefs.h": (CUDA,),
}

INCLUDE = re.compile(r"^\s*#\s*include\s*<([^>]+)>", re.M)
INSIDE = re.compile(r'^\s*#\s*include\s*"(gpu/cuda/[^"]+)"', re.M)
# Comments go, and texts that are no single name.
PROSE = re.compile(r'/\*.*?\*/|"(?!cu[A-Z]\w*")(?:\\.|[^"\\])*"', re.S)
FUNCTION = re.compile(r"\bcu[A-Z]\w*")
# Functions that are verbs; the first column of the page's tables.
VERB = re.compile(r"^(?:extern )?(?:CUresult|int) \(?\*?tnri_gpu_(?!has\b)(\w+)\)?\(", re.M)
ROW = re.compile(r"^\| (`[^|]+) \|", re.M)


def sources(root):
    for layer in LAYERS:
        for path in sorted((root / layer).rglob("*")):
            if path.suffix in (".c", ".h", ".def"):
                yield path.relative_to(root).as_posix(), path.read_text("utf-8")


def is_allowed(name, header):
    if header.startswith("tenure/") or header.removesuffix(".h") in ISO:
        return True
    return name.startswith((PRIM, *OTHERS.get(header, ())))


def page(root):
    """What docs/porting.md does not name, and what it names that is gone."""
    text = (root / "docs/porting.md").read_text("utf-8")
    there = set(VERB.findall((root / "alloc/gpu/backend.h").read_text("utf-8")))
    there |= {path.name for path in (root / PRIM).glob("*.h")}
    told = {name for row in ROW.findall(text) for name in re.findall(r"`([\w.]+)`", row)}
    return ([f"docs/porting.md has no row of {name}" for name in sorted(there - told)]
            + [f"docs/porting.md has a row of {name}, which is gone"
               for name in sorted(told - there)])


def check(root):
    problems = page(root)
    for name, text in sources(root):
        wrong = [header for header in INCLUDE.findall(text) if not is_allowed(name, header)]
        if not name.startswith(CUDA):
            problems += [f"{name} includes {header}, which is of {CUDA} alone"
                         for header in INSIDE.findall(text)]
            problems += [f"{name} names {function}: the GPU is reached through gpu/backend.h"
                         for function in sorted(set(FUNCTION.findall(PROSE.sub("", text))))]
        problems += [f"{name} includes <{header}>: the system is asked in {PRIM} alone"
                     for header in wrong]
    return problems


def self_test():
    """Each wrong include is found, in a small tree that is right without it."""
    def problems(name, text):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            texts = {"alloc/base/prim/clock.h": "#include <time.h>\n",
                     "alloc/base/prim/linux/clock.c": "#include <sys/syscall.h>\n",
                     "alloc/base/host_memory.c": "#include <jemalloc/jemalloc.h>\n",
                     "alloc/gpu/backend.h": "#include <cuda.h>\n/* cuMemMap */\n"
                                            "CUresult tnri_gpu_map(void);\n",
                     "docs/porting.md": "| `map` | `hipMemMap` |\n| `clock.h` | time |\n",
                     "alloc/gpu/cuda/verbs.c": '#include "gpu/cuda/driver.h"\ncuMemMap(a);\n',
                     "alloc/api/any.c": '"call it before cuMemFree, not after"\n',
                     "capture/graph/graph.c": "#include <errno.h>\n#include <tenure/alloc.h>\n"}
            texts[name] = text
            for path, content in texts.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(content)
            return check(root)
    assert problems("alloc/base/any.c", "#include <string.h>\n") == []
    for header in ("pthread.h", "unistd.h", "time.h", "sys/stat.h", "linux/futex.h", "cuda.h",
                   "jemalloc/jemalloc.h", "cpuid.h"):
        text = f"#include <{header}>\n"
        found = problems("lifetime/share/any.c", text)
        assert found == [f"lifetime/share/any.c includes <{header}>: the system is asked in "
                         "alloc/base/prim/ alone"], found
    assert problems("docs/porting.md", "| `clock.h` | time |\n| `unmap` | |\n") == [
        "docs/porting.md has no row of map", "docs/porting.md has a row of unmap, which is gone"]
    for text in ("driver->cuMemMap(a)", 'error("cuMemMap")', "X(cuMemMap)"):
        found = problems("capture/graph/any.c", text)
        assert found == ["capture/graph/any.c names cuMemMap: the GPU is reached through "
                         "gpu/backend.h"], found
    found = problems("alloc/gpu/any.c", '#include "gpu/cuda/driver.h"\n')
    assert found == ["alloc/gpu/any.c includes gpu/cuda/driver.h, which is of alloc/gpu/cuda/ "
                     "alone"], found
    print("ok")


if __name__ == "__main__":
    sys.exit(checking.main(__doc__, check, self_test))
