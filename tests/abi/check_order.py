#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every public function takes its arguments in one order:

    what it writes, the object or pointer it is about, sizes, device, stream, options

Two numbers that change places compile without a word, so the order must not have to be looked up.
A buffer that is written to has its size right behind it, and both count as what is written.
Callbacks keep to the same order. An argument that none of the kinds below fits is a mistake too:
it needs a kind before it has a place.

    check_order.py --root DIR           the public headers, and the table of docs/upgrading.md,
                                        whose last column must be what the headers declare
    check_order.py --root DIR --self    planted mistakes are found
"""
import argparse
import pathlib
import re
import sys

OUTPUT, OBJECT, SIZE, DEVICE, STREAM, OPTION = range(6)
KINDS = ("an output", "an object or pointer", "a size", "a device", "a stream", "an option")

# The first that fits; of an argument as it is declared, with single spaces.
RULES = [(re.compile(pattern), kind) for pattern, kind in (
    (r"(void )?\*user", OPTION),
    (r"const tnr_\w+_options \*\w+", OPTION),
    (r"const char \*name", OPTION),
    (r"tnr_(\w+_mode|\w+_format|access|content|moment|\w+_visit|sleep_event) \w+", OPTION),
    (r"int (force|file|is_wanted|wait)|uint64_t generation", OPTION),
    (r"int (device|peer)", DEVICE),
    (r"tnr_stream stream", STREAM),
    (r"size_t \w+", SIZE),
    (r"tnr_(pool|graph|export|cuda_graph|cuda_graph_exec|event|\w+_callback|\w+_listener|"
     r"\w+_function|status) \w+", OBJECT),
    (r"const char \*const \*tags", OBJECT),
    (r"void \*ptr|const (void|char|tnr_\w+) \*\w+", OBJECT),
    (r"uintptr_t frame|tnr_frames_(take|describe) \w+", OBJECT),
    (r"(void \*|char |size_t |uint64_t |uintptr_t |tnr_\w+ |const char \*)\*\w+", OUTPUT),
    (r"int socket", OBJECT),
)]

FUNCTION = re.compile(r"\bTNR_API\b[^;{}#()]*?\b(tnr_\w+)\s*\(([^;{}]*?)\)\s*;", re.S)
CALLBACK = re.compile(r"\btypedef\s+\w+\s+\(\*(tnr_\w+)\)\s*\(([^;{}]*?)\)\s*;", re.S)
ROW = re.compile(r"^\| `(tnr_\w+)\((.*?)\)` \| `tnr_\w+\((.*?)\)` \|$", re.M)


def kind_of(argument):
    for pattern, kind in RULES:
        if pattern.fullmatch(argument):
            return kind
    return None


def name_of(argument):
    return re.search(r"(\w+)$", argument).group(1)


def arguments_of(text):
    found = [" ".join(part.split()) for part in text.split(",")]
    return [] if found in ([""], ["void"]) else found


def function_check(name, arguments):
    problems, last, latest, before = [], OUTPUT, "", ""
    for argument in arguments:
        kind = kind_of(argument)
        if kind is None:
            problems.append(f"{name}: \"{argument}\" is of no known kind")
            continue
        if kind == SIZE and before.startswith("char *"):
            kind = OUTPUT
        if kind < last:
            problems.append(f"{name}: {KINDS[kind]}, \"{argument}\", comes after {KINDS[last]}, "
                            f"\"{latest}\"")
        else:
            last, latest = kind, argument
        before = argument
    return problems


def declared(root):
    """The arguments of each public function and callback, by name."""
    found = {}
    for layer in ("alloc", "lifetime", "capture"):
        for header in sorted((root / layer / "include/tenure").glob("*.h")):
            text = re.sub(r"/\*.*?\*/", "", header.read_text("utf-8"), flags=re.S)
            for pattern in (FUNCTION, CALLBACK):
                for name, arguments in pattern.findall(text):
                    found[name] = arguments_of(arguments)
    return found


def check(root):
    functions = declared(root)
    listed = {line.split("@")[0]
              for line in (root / "tests/abi/exported_symbols.txt").read_text().split()}
    problems = [f"{name}: its declaration is not understood" for name in sorted(listed)
                if name not in functions]
    for name in sorted(functions):
        problems += function_check(name, functions[name])
    rows = ROW.findall((root / "docs/upgrading.md").read_text("utf-8"))
    if not rows:
        problems.append("docs/upgrading.md: its table is not understood")
    for name, before, now in rows:
        names = [name_of(argument) for argument in functions.get(name, [])]
        if now != ", ".join(names):
            problems.append(f"docs/upgrading.md: {name} takes ({', '.join(names)}), not ({now})")
        elif sorted(before.split(", ")) != sorted(names) or before == now:
            problems.append(f"docs/upgrading.md: {name}({before}) is no other order of ({now})")
    return problems, len(functions)


# ---- the check checked --------------------------------------------------------------------------

def self_check():
    """Each mistake is found, each right order is not."""
    wrong = (
        "int device, size_t limit_bytes", "int device, tnr_pool pool, tnr_stats *stats",
        "void **ptr, size_t bytes, tnr_pool pool", "tnr_stream stream, int device",
        "const tnr_pool_options *options, int device", "size_t bytes, const void *ptr",
        "char *buffer, tnr_pool pool, int device, size_t bytes", "void *ptr, double share",
        "void *user, tnr_oom_callback callback", "tnr_history_mode mode, size_t records",
    )
    right = (
        "void", "size_t limit_bytes, int device", "tnr_stats *stats, tnr_pool pool, int device",
        "char *buffer, size_t bytes, tnr_pool pool, int device",
        "void **ptr, tnr_pool pool, size_t bytes, int device, tnr_stream stream",
        "tnr_event event, int device, tnr_stream stream, tnr_moment before",
        "tnr_oom_callback callback, void *user",
    )
    problems = [f"not found: ({text})" for text in wrong
                if not function_check("planted", arguments_of(text))]
    problems += [f"refused: ({text})" for text in right
                 if function_check("planted", arguments_of(text))]
    return problems, len(wrong) + len(right)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, required=True, help="the repository")
    parser.add_argument("--self", action="store_true", help="check the check")
    arguments = parser.parse_args()
    problems, count = self_check() if arguments.self else check(arguments.root)
    for problem in problems:
        print(problem)
    if problems:
        return 1
    print(f"{count} {'orders judged' if arguments.self else 'functions in one order'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
