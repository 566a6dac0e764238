#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the public headers say of every function since when it is there, and what can fail.

The comment above a declaration is its manual; declarations without one of their own share the one
before. It has to begin with what the function does, and not with its errors. It has to have "Since
N.N.N", none newer than the header's own version, and that of a function that returns a tnr_status
has to name an error, or whose errors are its own ("as ..."). Threads, waiting and the driver have
rules at the head of <tenure/alloc.h>; tests/misuse holds each function to that of the driver.

    check_manual.py --root DIR          the public headers
    check_manual.py --root DIR --self   planted mistakes are found
"""
import argparse
import pathlib
import re
import sys

PART = re.compile(r"/\*.*?\*/|^[^\n]*?\bTNR_API\b[^;{}#()]*?\b(tnr_\w+)\s*\([^;{}]*?\)\s*;",
                  re.S | re.M)
SINCE = re.compile(r"[Ss]ince\s+(\d+)\.(\d+)\.(\d+)")
FAILS = re.compile(r"[Ee]rrors?\b|TNR_ERR_")


def version_of(text):
    return tuple(int(re.search(rf"#define TNR_VERSION_{part} (\d+)", text)[1])
                 for part in ("MAJOR", "MINOR", "PATCH"))


def since_of(text):
    """(function, its first "Since") of each declaration that has one."""
    comment = ""
    for found in PART.finditer(text):
        if found[1] is None:
            comment = re.sub(r"\s*\n\s*\*\s*", " ", found[0])
        elif SINCE.search(comment):
            yield found[1], min(tuple(map(int, one)) for one in SINCE.findall(comment))


def header_check(name, text, version):
    problems, comment = [], ""
    for found in PART.finditer(text):
        if found[1] is None:
            comment = re.sub(r"\s*\n\s*\*\s*", " ", found[0])
            continue
        since = [tuple(map(int, one)) for one in SINCE.findall(comment)]
        if re.match(r"/\* *(Errors|Since)\b", comment):
            problems.append(f"{name}: {found[1]}: the comment does not say what it does")
        if not since:
            problems.append(f"{name}: {found[1]}: the comment does not say \"Since N.N.N\"")
        elif max(since) > version:
            problems.append(f"{name}: {found[1]}: since {max(since)}, which is still to come")
        if "tnr_status " + found[1] in " ".join(found[0].split()) and not FAILS.search(comment):
            problems.append(f"{name}: {found[1]}: the comment says nothing of errors")
    return problems


def headers_of(root):
    return {path.name: path.read_text("utf-8") for path in
            sorted(root.glob("*/include/tenure/*.h"))}


def self_check(headers, version):
    alloc = headers["alloc.h"]
    plants = [("Since 0.1.0. */\nTNR_NODISCARD TNR_API tnr_status tnr_free(",
               "*/\nTNR_NODISCARD TNR_API tnr_status tnr_free("),
              ("Never fails, never calls the driver. Since 0.1.0.", "Since 9.0.0."),
              ("Errors: TNR_ERR_INVALID_ARGUMENT (struct_bytes not\n * set), those of tnr_init. ",
               ""),
              ("/* Describes a device; `in_use` as it is now. Errors:", "/* Errors:")]
    wrong = []
    for before, after in plants:
        changed = alloc.replace(before, after)
        if changed == alloc:
            wrong.append(f"self: nothing was planted for {before!r}")
        if len(header_check("alloc.h", changed, version)) != 1:
            wrong.append(f"self: {before!r} without it: not one problem")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--self", action="store_true")
    arguments = parser.parse_args()
    headers = headers_of(arguments.root)
    version = version_of(headers["alloc.h"])
    if arguments.self:
        problems = self_check(headers, version)
    else:
        problems = [one for name, text in headers.items()
                    for one in header_check(name, text, version)]
        if not any("TNR_API" in text for text in headers.values()):
            problems.append("there is no public function to look at")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
