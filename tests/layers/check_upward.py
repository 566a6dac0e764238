#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""That a lower room asks a higher one through one table. alloc/memory/device/upper.h has what the
rooms of the higher layers are asked, one type for all of them. A pointer to a function that lies
anywhere else in the layers for longer than a call is listed here, with what it is for; and there
are no more than MOST of both together.

  check_upward.py [--root FOLDER] [--list]
  check_upward.py --self-test

Exit codes: 0 all is so; 1 not so.
"""
import pathlib
import re
import sys
import tempfile

import checking

LAYERS = ("alloc", "lifetime", "capture")
TABLE = "alloc/memory/device/upper.h"
MOST = 20

# Pointers that a higher room sets, and a lower one calls.
UPWARD = {
    "tnri_arena_copier": "a thread that takes an arena's lock copies it for a picture (see)",
}
# Pointers that lead nowhere up.
OTHERS = {
    "alloc/log/nvtx.c": "functions of a tool's, by the layout of NVTX",
    "alloc/see/snapshot/deflater.c": "functions of zlib",
    "alloc/see/snapshot/torch.h": "how one format differs from another",
    "alloc/see/trap/story.h": "whether a thread has got the memory meanwhile, told by its owner",
    "alloc/memory/arena/wait.h": "what a picture gives to tnri_upper.show for the call",
    "alloc/memory/stream/stream.c": "to another folder of the same room: pools take a stream over",
    "alloc/gpu/backend.h": "chosen when the driver is loaded",
    "alloc/base/prim/linux/loader.c": "a call's argument",
}

COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*', re.S)
TYPE = re.compile(r"^typedef [^;(]*\(\*(\w+)\)\(", re.M)
FIELD = re.compile(r"^    [\w *]*\(\*(\w+)\)\(", re.M)
VARIABLE = re.compile(r"^(?=\S)(?:extern |static )*[\w ]+\*?\(\*(?:_Atomic )?(\w+)\)\(", re.M)
STRUCT = re.compile(r"^(?:typedef )?struct \w* ?\{\n(.*?)^\}", re.M | re.S)


def sources(root):
    for layer in LAYERS:
        for path in sorted((root / layer).rglob("*.[ch]")):
            name = path.relative_to(root).as_posix()
            if "/include/" not in name and "/gpu/cuda/" not in name:
                yield name, COMMENT.sub("", path.read_text("utf-8"))


def pointers(root):
    """(file, name) of each pointer to a function that is a field, or a variable of a file."""
    texts = list(sources(root))
    types = {name for _, text in texts for name in TYPE.findall(text)}
    of_type = re.compile(r"^(?:extern |static )*(?:_Atomic\()?(?:%s)\b\)? (\w+)(?: =|;)"
                         % "|".join(sorted(types) or ["0"]), re.M)
    for name, text in texts:
        fields = [field for body in STRUCT.findall(text) for field in FIELD.findall(body)]
        found = set(VARIABLE.findall(TYPE.sub("", text))) | set(of_type.findall(text))
        yield from ((name, one) for one in (*fields, *sorted(found)))


def upward(root):
    return [one for name, one in pointers(root)
            if name == TABLE or (one in UPWARD and name.endswith(".c"))]


def check(root):
    found = list(pointers(root))
    problems = [f"{name} has {one}: what a lower room asks of a higher one stands in {TABLE}"
                for name, one in found
                if name != TABLE and one not in UPWARD and name not in OTHERS]
    count = len(upward(root))
    if count > MOST:
        problems.append(f"{count} pointers lead upward; {MOST} did")
    return problems


def self_test():
    def problems(**files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            texts = {TABLE: "typedef struct tnri_upper {\n    void (*free)(int);\n} tnri_upper;\n",
                     "alloc/memory/arena/arena.h":
                         "extern void (*_Atomic tnri_arena_copier)(int arena);\n",
                     "alloc/memory/arena/arena.c":
                         "void (*_Atomic tnri_arena_copier)(int arena);\n",
                     "alloc/base/a.h": "int visit(int (*each)(int one), int two);\n"}
            texts.update({name.replace("__", "/").replace("_h", ".h"): text
                          for name, text in files.items()})
            for name, text in texts.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return check(root)
    assert problems() == [], problems()
    where = f"what a lower room asks of a higher one stands in {TABLE}"
    for text in ("typedef struct any {\n    int (*hook)(void);\n} any;\n",
                 "extern int (*hook)(void);\n", "extern void (*_Atomic hook)(int one, int two);\n",
                 "typedef int (*kind)(void);\nextern _Atomic(kind) hook;\n",
                 "typedef int (*kind)(void);\nstatic kind hook = 0;\n"):
        assert problems(alloc__base__x_h=text) == [f"alloc/base/x.h has hook: {where}"], text
    many = "typedef struct tnri_upper {\n" + "    int (*x)(int);\n" * MOST + "} tnri_upper;\n"
    assert problems(**{TABLE.replace("/", "__").replace(".h", "_h"): many}) == [
        f"{MOST + 1} pointers lead upward; {MOST} did"]
    print("ok")


if __name__ == "__main__":
    if "--list" in sys.argv:
        found = upward(pathlib.Path(__file__).resolve().parents[2])
        print("\n".join(found), f"\n{len(found)}")
        sys.exit(0)
    sys.exit(checking.main(__doc__, check, self_test))
