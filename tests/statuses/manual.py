#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The errors that the manual names for each public function, as its header says them.

The comment above a declaration names them after the word "Errors" or "Adds": each TNR_ERR_...; and
those of other functions, "those of tnr_x", "as tnr_x", "As tnr_x" where it adds to them, which may
be followed by "but TNR_ERR_A and TNR_ERR_B": these are left out. Three rules of <tenure/alloc.h>
hold for all: a child of a fork gets TNR_ERR_AFTER_FORK; what names TNR_ERR_DRIVER may return
TNR_ERR_SHUTDOWN and TNR_ERR_OUT_OF_MEMORY; and "those of a device's first use" stands for what that
header says behind "Errors of a device's first use".

    manual.py --root DIR list                  FUNCTION STATUS..., for people
    manual.py --root DIR wrap FOLDER           what notes the statuses that a test program sees: one
                                               C file for each function, and the linker's options
    manual.py --root DIR kept                  tests/statuses/unseen.csv: named by the manual, and
                                               no test sees it; each with the reason
    manual.py --root DIR seen FOLDER           compares what the test programs noted there with the
                                               manual and with unseen.csv
    manual.py --root DIR self                  planted mistakes are found
"""
import argparse
import csv
import pathlib
import re
import sys

PART = re.compile(r"/\*.*?\*/|\bTNR_API\s+([^;{}#()]*?)\b(tnr_\w+)\s*\(([^;{}]*?)\)\s*;", re.S)
TAIL = re.compile(r"\b(?:Errors|Adds)\b(.*)$", re.S)
OTHERS = re.compile(r"\b(?:those of|as for|as|As|the errors of) "
                    r"(tnr_\w+(?:(?:, | and |, and )tnr_\w+)*)"
                    r"( but TNR_ERR_\w+(?:(?:, | and )TNR_ERR_\w+)*)?")
STATUS = re.compile(r"X\((ERR_\w+|OK), (\d+),")
FIRST_USE = re.compile(r"\bErrors of a device's first use: (.*?)\n \*/", re.S)
AFTER_FORK, DRIVER = "TNR_ERR_AFTER_FORK", "TNR_ERR_DRIVER"
WITH_DRIVER = {"TNR_ERR_SHUTDOWN", "TNR_ERR_OUT_OF_MEMORY"}


def headers_of(root):
    return [path.read_text("utf-8") for path in sorted(root.glob("*/include/tenure/*.h"))]


def declared(headers):
    """(what it returns, arguments, comment) of each public function, by name."""
    found = {}
    for text in headers:
        comment = ""
        for part in PART.finditer(text):
            if part[2] is None:
                comment = " ".join(re.sub(r"\n\s*\*", " ", part[0]).split())
            else:
                found[part[2]] = (part[1].strip(), part[3], comment)
    return found


def numbers_of(headers):
    """The number of each status, by name."""
    return {f"TNR_{name}": int(number) for text in headers for name, number in STATUS.findall(text)}


def named_of(headers):
    """(statuses by function, problems): what each function that returns a tnr_status may return."""
    functions, known = declared(headers), numbers_of(headers)
    first_use = " ".join(found for text in headers for found in FIRST_USE.findall(text))
    own, others, problems = {}, {}, []
    for name, (returns, _, comment) in functions.items():
        if returns != "tnr_status":
            continue
        tail = TAIL.search(comment)
        if tail is None:
            problems.append(f"{name}: the comment names no errors after \"Errors\" or \"Adds\"")
        text = "" if tail is None else tail[1]
        if "those of a device's first use" in text:
            text += first_use
        own[name] = set(re.findall(r"TNR_ERR_\w+", OTHERS.sub("", text)))
        others[name] = {(one, but) for found, but in OTHERS.findall(text)
                        for one in re.findall(r"tnr_\w+", found)}
        if tail is not None and tail[0].startswith("Adds"):
            others[name] |= {(one, "") for one in re.findall(r"\bAs (tnr_\w+)", comment)}
        problems += [f"{name}: there is no {one}" for one in own[name] - set(known)]
        problems += [f"{name}: {one} has no errors that it could share"
                     for one, _ in others[name] if functions.get(one, [""])[0] != "tnr_status"]
    for _ in own:  # until nothing is added: chains are shorter than that
        for name in own:
            for one, but in others[name]:
                own[name] |= own.get(one, set()) - set(re.findall(r"TNR_ERR_\w+", but))
    for statuses in own.values():
        statuses.add(AFTER_FORK)
        if DRIVER in statuses:
            statuses |= WITH_DRIVER
    return own, problems


# ---- what notes statuses ------------------------------------------------------------------------

def parameters_of(text):
    """(declarations, names): a function type has its name inside."""
    parts = [] if text.strip() in ("", "void") else [" ".join(part.split())
                                                      for part in text.split(",")]
    return parts, [re.search(r"(\w+)(?:\[\w*\])?$", part)[1] for part in parts]


def wrapper(name, arguments, mask):
    declarations, names = parameters_of(arguments)
    text = ", ".join(declarations) or "void"
    return (f"#include <tenure/tenure.h>\n\n#include \"note.h\"\n\n"
            f"tnr_status __real_{name}({text});\ntnr_status __wrap_{name}({text});\n\n"
            f"tnr_status __wrap_{name}({text})\n{{\n"
            f"    static _Atomic uint64_t seen;\n"
            f"    return statuses_note(\"{name}\", UINT64_C({mask:#x}), &seen,\n"
            f"                         __real_{name}({', '.join(names)}));\n}}\n")


def write_if_other(path, text):
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")


def wrap(headers, folder):
    named, _ = named_of(headers)
    functions, numbers = declared(headers), numbers_of(headers)
    folder.mkdir(parents=True, exist_ok=True)
    for name, statuses in sorted(named.items()):
        mask = sum(1 << numbers[one] for one in statuses) | 1
        write_if_other(folder / f"{name}.c", wrapper(name, functions[name][1], mask))
    write_if_other(folder / "options.rsp", "".join(f"--wrap={name}\n" for name in sorted(named)))
    print(";".join(sorted(named)))


# ---- what was seen ------------------------------------------------------------------------------

def kept_check(named, unseen):
    """Problems of the kept pairs alone: (function, status) to why no test sees them. The function *
    stands for all."""
    problems = [f"unseen.csv: {name}, {status}: no reason" for (name, status), why in unseen.items()
                if not why.strip()]
    for name, status in unseen:
        if name == "*" and not any(status in statuses for statuses in named.values()):
            problems.append(f"unseen.csv: no manual names {status} (any more)")
        elif name != "*" and status not in named.get(name, ()):
            problems.append(f"unseen.csv: {name} does not name {status} (any more)")
        elif name != "*" and ("*", status) in unseen:
            problems.append(f"unseen.csv: {name}, {status}: the line of all functions says it")
    return problems


def compare(named, seen, unseen):
    """Problems: `seen` are pairs that tests noted, `unseen` the kept ones."""
    problems = kept_check(named, unseen)
    problems += [f"{name} returned {status}, which its manual does not name"
                 for name, status in sorted(seen)
                 if status != "TNR_OK" and status not in named.get(name, ())]
    for name, statuses in sorted(named.items()):
        problems += [f"{name}: no test saw {status}, which its manual names"
                     for status in sorted(statuses) if (name, status) not in seen and
                     (name, status) not in unseen and ("*", status) not in unseen]
    problems += [f"unseen.csv: {name} returned {status}: take the line out"
                 for name, status in sorted(unseen) if (name, status) in seen]
    return problems


def kept(root):
    with open(root / "tests/statuses/unseen.csv", encoding="utf-8", newline="") as file:
        return {(row["function"], row["status"]): row["why"] for row in csv.DictReader(file)}


def seen_in(folder):
    return {tuple(line.split()) for path in sorted(folder.glob("*.txt"))
            for line in path.read_text("utf-8").splitlines() if len(line.split()) == 2}


# ---- the check checked --------------------------------------------------------------------------

def self_check(headers):
    planted = ["""/* Does it. Errors: TNR_ERR_BUSY (always), those of tnr_b. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_a(void *ptr);
/* TNR_ERR_NOT_LIVE is other people's. Errors: TNR_ERR_DRIVER. Since 0.1.0. */
TNR_API tnr_status tnr_b(void);
/* As tnr_a. Adds TNR_ERR_FILE. Since 0.1.0. */
TNR_API tnr_status tnr_c(int (*callback)(void), void *user);
/* Errors: those of tnr_c but TNR_ERR_BUSY and TNR_ERR_DRIVER; TNR_ERR_NOT_LIVE. Since 0.1.0. */
TNR_API tnr_status tnr_d(void);
"""] + [text for text in headers if "TNR_STATUS_LIST" in text]
    named, problems = named_of(planted)
    fork = {AFTER_FORK}
    wrong = list(problems)
    for name, right in (("tnr_a", {"TNR_ERR_BUSY", DRIVER} | WITH_DRIVER | fork),
                        ("tnr_b", {DRIVER} | WITH_DRIVER | fork),
                        ("tnr_c", {"TNR_ERR_BUSY", "TNR_ERR_FILE", DRIVER} | WITH_DRIVER | fork),
                        ("tnr_d", {"TNR_ERR_FILE", "TNR_ERR_NOT_LIVE"} | fork)):
        if named.get(name) != right:
            wrong.append(f"self: {name} names {sorted(named.get(name, ()))}")
    for text, count in (("/* Nothing. */ TNR_API tnr_status tnr_a(void);", 1),
                        ("/* Errors: TNR_ERR_NONE. */ TNR_API tnr_status tnr_a(void);", 1),
                        ("/* Errors: those of tnr_b. */ TNR_API tnr_status tnr_a(void);", 1)):
        if len(named_of([text] + planted[1:])[1]) != count:
            wrong.append(f"self: not {count} problem in {text}")
    one, other, every = ("tnr_a", "TNR_ERR_BUSY"), ("tnr_a", "TNR_ERR_FILE"), ("*", "TNR_ERR_BUSY")
    for seen, unseen, count in (({one}, {}, 0), ({one, other}, {}, 1), (set(), {}, 1),
                                (set(), {one: "x"}, 0), ({one}, {one: "x"}, 1),
                                (set(), {every: "x"}, 0), ({one}, {every: "x"}, 0),
                                (set(), {every: "x", one: "x"}, 1), (set(), {one: " "}, 1),
                                ({one}, {other: "x"}, 1), ({("tnr_a", "TNR_OK"), one}, {}, 0)):
        if len(compare({"tnr_a": {"TNR_ERR_BUSY"}}, seen, unseen)) != count:
            wrong.append(f"self: not {count} problems of {seen} and {unseen}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, required=True, help="the repository")
    parser.add_argument("what", choices=["list", "wrap", "kept", "seen", "self"])
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    arguments = parser.parse_args()
    headers = headers_of(arguments.root)
    named, problems = named_of(headers)
    if arguments.what == "wrap":
        wrap(headers, arguments.folder)
        return 0
    if arguments.what == "list":
        for name, statuses in sorted(named.items()):
            print(name, *sorted(statuses))
    elif arguments.what == "self":
        problems += self_check(headers)
    elif arguments.what == "kept":
        problems += kept_check(named, kept(arguments.root))
    else:
        problems += compare(named, seen_in(arguments.folder), kept(arguments.root))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
