#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that what programs were compiled with stays as it is: the place and size of each field of
the public structs, and the number of each enumerator, as layout.txt beside this script has them.

    check_layout.py --root DIR [--compiler CC]             compares
    check_layout.py --root DIR [--compiler CC] --update    adds what is new to layout.txt
    check_layout.py --root DIR [--compiler CC] --self      planted changes are found

A field may come at the end of a struct that begins with struct_bytes, and an enumerator with a
number of its own. Everything else breaks programs that exist, and --update refuses it; --break is
for a new major version. Enumerators that end in _COUNT count, so they may grow.
"""
import argparse
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

STRUCT = re.compile(r"typedef struct (tnr_\w+)\s*\{(.*?)\}\s*\1;", re.S)
ENUM = re.compile(r"\benum\b[^{};]*\{(.*?)\}", re.S)


def preprocessed(compiler, paths):
    return subprocess.run([*compiler, "-E", "-P", "-x", "c", *paths, "-"], check=True, text=True,
                          input="#include <tenure/tenure.h>\n", capture_output=True).stdout


def fields_of(body):
    """Names in a struct's body: what stands before a comma, a semicolon, or an array's length."""
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        for part in declaration.split(","):
            yield re.search(r"(\w+)\s*(\[.*\])?$", part.strip())[1]


def program_of(text):
    lines = []
    for name, body in STRUCT.findall(text):
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        lines += [f'printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), '
                  f'sizeof((({name} *)0)->{field}));' for field in fields_of(body)]
    for body in ENUM.findall(text):
        names = [re.match(r"\s*(\w+)", part)[1] for part in body.split(",") if part.strip()]
        lines += [f'printf("{name} %d\\n", (int){name});' for name in names
                  if name.startswith("TNR_") and not name.endswith("_COUNT")]
    return ("#include <stddef.h>\n#include <stdio.h>\n#include <tenure/tenure.h>\n"
            "int main(void)\n{\n" + "\n".join(lines) + "\nreturn 0;\n}\n")


def layout(root, compiler, changes=()):
    """{what: numbers}. `changes` are (header, before, after), tried on a copy of the headers."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder, "tenure")
        copy.mkdir()
        for layer in ("alloc", "lifetime", "capture"):
            for header in (root / layer / "include/tenure").glob("*.h"):
                text = header.read_text("utf-8")
                for name, before, after in changes:
                    if header.name == name:
                        assert before in text, before
                        text = text.replace(before, after, 1)
                (copy / header.name).write_text(text, "utf-8")
        source, program = f"{folder}/layout.c", f"{folder}/layout"
        pathlib.Path(source).write_text(program_of(preprocessed(compiler, [f"-I{folder}"])))
        subprocess.run([*compiler, f"-I{folder}", source, "-o", program], check=True)
        said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return dict(line.split(" ", 1) for line in said.splitlines())


def compare(kept, found):
    """What breaks programs, and what is new."""
    breaks, new = [], []
    for what, numbers in kept.items():
        if what not in found:
            breaks.append(f"{what} is gone")
        elif found[what] != numbers:
            grows = (f"{what}.struct_bytes" in kept and " " not in numbers and
                     int(found[what]) > int(numbers))
            (new if grows else breaks).append(f"{what} was {numbers} and is {found[what]}")
    for what, numbers in found.items():
        if what in kept:
            continue
        struct = what.split(".")[0]
        if "." in what and struct in kept and (f"{struct}.struct_bytes" not in kept or
                                               int(numbers.split()[0]) < int(kept[struct])):
            breaks.append(f"{what} lies inside of what {struct} was, or {struct} may not grow")
        elif "." not in what and what.startswith("TNR_") and " " not in numbers:
            new.append(f"{what} is new, {numbers}")
        else:
            new.append(f"{what} is new")
    return breaks, new


def self_check(root, compiler, kept):
    wrong = []
    for change, broken in (
            (("alloc.h", "size_t bytes;           /* bytes", "size_t more, bytes; /* bytes"), True),
            (("alloc.h", "size_t bytes_requested; /* bytes that", "uint32_t bytes_requested; /*"),
             True),
            (("alloc.h", "uint64_t arenas, pools;", "uint64_t pools, arenas;"), True),
            (("alloc.h", "uint64_t metadata_live_blocks;",
              "uint64_t before, metadata_live_blocks;"), True),
            (("status.h", "X(ERR_BUSY, 21,", "X(ERR_BUSY, 99,"), True),
            (("trap.h", "    uint64_t findings;\n", "    uint64_t findings;\n    uint64_t more;\n"),
             False),
            (("status.h", "X(ERR_PARKED, 36, \"the block is parked\")",
              "X(ERR_PARKED, 36, \"\") X(ERR_LATER, 37, \"\")"), False)):
        breaks, new = compare(kept, layout(root, compiler, [change]))
        if bool(breaks) != broken or not (breaks or new):
            wrong.append(f"self: {change[2]!r}: breaks {breaks}, new {new}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--break", action="store_true", dest="may_break")
    parser.add_argument("--self", action="store_true")
    arguments = parser.parse_args()
    compiler = shlex.split(arguments.compiler)
    listing = arguments.root / "tests/abi/layout.txt"
    kept = {}
    if listing.exists():
        kept = dict(line.split(" ", 1) for line in listing.read_text("utf-8").splitlines())
    if arguments.self:
        problems = self_check(arguments.root, compiler, kept)
        print("\n".join(problems) or "planted changes are found")
        return int(bool(problems))
    found = layout(arguments.root, compiler)
    breaks, new = compare(kept, found)
    if arguments.update and (not breaks or arguments.may_break):
        listing.write_text("".join(f"{what} {numbers}\n" for what, numbers in found.items()))
        print(f"{listing}: {len(found)} lines")
        return 0
    for problem in breaks:
        print(f"{problem}: programs that were compiled before break")
    for problem in new:
        print(f"{problem}: tests/abi/check_layout.py --root {arguments.root} --update")
    if breaks or new:
        return 1
    print(f"{len(found)} sizes, places and numbers as they were")
    return 0


if __name__ == "__main__":
    sys.exit(main())
