#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what libtenure.so shows to the world and what it needs from it.

 * The exported symbols are exactly those of exported_symbols.txt beside this script, which is
   changed by hand of the developer (--update), so that no change of the ABI goes unseen.
 * Each of them is declared in a public header with TNR_API, and the other way round.
 * <tenure/tenure.h> alone declares all of them: a program that includes it, and takes the address
   of each, compiles.
 * A symbol is of the version in which the function came, as its comment has it ("Since 1.3.0" is
   TENURE_1.3), and all that came up to 1.0 of TENURE_1.0.
 * What a declaration with TNR_DEPRECATED says is repeated by the compiler, in C and C++, unless
   TNR_NO_DEPRECATED is defined.
 * Nothing of CUDA and nothing of jemalloc is wanted from outside, and no library but libc's.
 * The library can be loaded by dlopen at any time: no initial-exec TLS, no text relocations, no
   executable stack; and never unloaded under the feet of threads that used it (NODELETE).
"""
import argparse
import pathlib
import re
import shlex
import subprocess
import sys

import check_manual

NEEDED_ALLOWED = re.compile(r"^(libc|libm|libdl|libpthread|librt|ld-linux[-\w]*)\.so\.\d+$")
UNDEFINED_BANNED = re.compile(r"^(cu[A-Z]|cuda[A-Z]|nv[A-Z]|_?_?(je|tnri)_|simcuda_)")
DECLARATION = re.compile(r"\bTNR_API\b[^;{}#]*?\b(tnr_\w+)\s*\(", re.S)


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def dynamic_symbols(library, kind):
    """Names in the dynamic symbol table; a defined one keeps its version."""
    names = set()
    for line in output("nm", "-D", kind, library).splitlines():
        fields = line.split()
        if fields[-2] != "A":  # the version node itself
            names.add(fields[-1])
    return names


def declared_in_headers(root):
    names = set()
    for header in sorted(root.glob("*/include/tenure/*.h")):
        if header.parts[-4] in ("alloc", "lifetime", "capture"):
            text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
            names |= set(DECLARATION.findall(text))
    return names


def check_exports(exported, expected, declared):
    problems = []
    for name in sorted(exported - expected):
        problems.append(f"{name} is exported but not in exported_symbols.txt")
    for name in sorted(expected - exported):
        problems.append(f"{name} is in exported_symbols.txt but no longer exported")
    plain = {name.split("@")[0] for name in exported}
    for name in sorted(plain - declared):
        problems.append(f"{name} is exported but no public header declares it with TNR_API")
    for name in sorted(declared - plain):
        problems.append(f"{name} is declared in a public header but not exported")
    return problems


def check_whole_header(root, compiler, expected):
    """What a compiler does not find in <tenure/tenure.h>: of the symbols, and of the headers."""
    source = "#include <tenure/tenure.h>\n"
    for name in sorted(expected):
        source += f"void *tnr_address_{name}(void) {{ return (void *)&{name}; }}\n"
    paths = [f"-I{folder}" for folder in sorted(root.glob("*/include"))]
    made = subprocess.run([*shlex.split(compiler), "-fsyntax-only", "-x", "c", "-MD", "-MF",
                           "/dev/stdout", *paths, "-"],
                          input=source, capture_output=True, text=True)
    missing = sorted(set(re.findall(r"['\"‘](tnr_\w+)['\"’] undeclared|"
                                    r"undeclared identifier '(tnr_\w+)'", made.stderr)))
    problems = [f"{''.join(names)} is exported, but <tenure/tenure.h> does not declare it"
                for names in missing]
    if made.returncode != 0 and not problems:
        problems.append(f"<tenure/tenure.h> does not compile: {made.stderr}")
    for header in sorted(root.glob("*/include/tenure/*.h")):
        if f"include/tenure/{header.name}" not in made.stdout:
            problems.append(f"<tenure/tenure.h> does not include {header}")
    return problems


def versions_in_headers(root):
    """{function: the version that its symbol must have}."""
    wanted = {}
    for name, text in check_manual.headers_of(root).items():
        for function, since in check_manual.since_of(text):
            major, minor, _ = max((1, 0, 0), since)
            wanted[function] = f"TENURE_{major}.{minor}"
    return wanted


def check_versions(exported, wanted):
    return [f"{name} came in {wanted[name.split('@')[0]]}, as its header says"
            for name in sorted(exported)
            if name.split("@")[-1] != wanted.get(name.split("@")[0], name.split("@")[-1])]


DEPRECATED = """#include <tenure/alloc.h>
TNR_DEPRECATED("use tnr_that; since 1.3.0") TNR_API tnr_status tnr_this(void);
int main(void) { return (int)tnr_this(); }
"""


def check_deprecated(root, compiler):
    problems = []
    for language in ("c", "c++"):
        for silenced in ([], ["-DTNR_NO_DEPRECATED"]):
            made = subprocess.run(
                [*shlex.split(compiler), "-fsyntax-only", "-Wall", "-x", language, *silenced,
                 f"-I{root}/alloc/include", "-"], input=DEPRECATED, capture_output=True, text=True)
            if made.returncode != 0:
                problems.append(f"TNR_DEPRECATED does not compile as {language}: {made.stderr}")
            elif ("use tnr_that; since 1.3.0" in made.stderr) == bool(silenced):
                problems.append(f"TNR_DEPRECATED as {language} {silenced}: "
                                f"{made.stderr or 'silent'}")
    return problems


def check_needs(library):
    problems = []
    for name in sorted(dynamic_symbols(library, "--undefined-only")):
        if UNDEFINED_BANNED.match(name):
            problems.append(f"{name} is wanted from outside")
    dynamic = output("readelf", "--wide", "-d", library)
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if not NEEDED_ALLOWED.match(name):
            problems.append(f"links {name}; only libc's own libraries are allowed")
    if re.findall(r"\(SONAME\).*\[(.*)\]", dynamic) != ["libtenure.so.1"]:
        problems.append("the SONAME is not libtenure.so.1")
    if "STATIC_TLS" in dynamic:
        problems.append("uses initial-exec TLS (STATIC_TLS): dlopen can refuse to load it")
    if "TEXTREL" in dynamic:
        problems.append("has text relocations (TEXTREL)")
    if "NODELETE" not in dynamic:
        problems.append("can be unloaded (no NODELETE) while threads still have its TLS")
    stack = re.search(r"GNU_STACK.*", output("readelf", "--wide", "-l", library))
    if not stack or re.search(r"\bRWE\b", stack.group()):
        problems.append("wants an executable stack")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", help="libtenure.so")
    parser.add_argument("--root", type=pathlib.Path, required=True, help="the repository")
    parser.add_argument("--compiler", default="cc", help="a C compiler")
    parser.add_argument("--update", action="store_true", help="rewrite exported_symbols.txt")
    arguments = parser.parse_args()

    listing = arguments.root / "tests/abi/exported_symbols.txt"
    exported = dynamic_symbols(arguments.library, "--defined-only")
    if arguments.update:
        listing.write_text("".join(f"{name}\n" for name in sorted(exported)))
        print(f"{listing}: {len(exported)} symbols")
    expected = set(listing.read_text().split())
    problems = check_exports(exported, expected, declared_in_headers(arguments.root))
    problems += check_whole_header(arguments.root, arguments.compiler,
                                   {name.split("@")[0] for name in expected})
    problems += check_versions(exported, versions_in_headers(arguments.root))
    problems += check_deprecated(arguments.root, arguments.compiler)
    problems += check_needs(arguments.library)
    for problem in problems:
        print(f"{arguments.library}: {problem}")
    if problems:
        print("If a change of the exported symbols is meant: tests/abi/check_abi.py "
              f"{arguments.library} --root {arguments.root} --update, and say so in the commit.")
        return 1
    print(f"{len(exported)} exported symbols, as listed and as declared")
    return 0


if __name__ == "__main__":
    sys.exit(main())
