#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""That includes inside a layer point one way: from a folder of alloc/ to those below it, and among
modules (a .c file and its header) never in a circle.

  check_folders.py [--root FOLDER]
  check_folders.py --self-test

Circles of modules that stand today are in KNOWN; none may come, and one that is gone must go from
there. Exit codes: 0 all is so; 1 not so.
"""
import argparse
import collections
import pathlib
import re
import sys
import tempfile

LAYERS = ("alloc", "lifetime", "capture")

# From the bottom to the top. What each knows of is in alloc/README.md.
FOLDERS = ("base", "conf", "driver", "space", "device", "stream", "history", "arena", "pool",
           "ladder", "snapshot", "library")

KNOWN = (
    "alloc/device/device alloc/device/staging",
    "capture/capture capture/graph capture/piece capture/place capture/threat",
    "capture/hooks capture/scope",
    "lifetime/announce lifetime/collect lifetime/hold lifetime/pending lifetime/retire "
    "lifetime/use",
)

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def includes_of(root):
    """Of each source of the layers: the sources of the layers that it includes."""
    found = {}
    for layer in LAYERS:
        for path in sorted((root / layer).rglob("*.[ch]")):
            if "include" in path.relative_to(root).parts:
                continue
            name = path.relative_to(root).as_posix()
            found[name] = []
            for included in INCLUDE.findall(path.read_text()):
                at = [f"{over}/{included}" for over in LAYERS if (root / over / included).exists()]
                found[name] += at[:1]
    return found


def upward(found):
    """Includes inside alloc/ from a folder to one above it."""
    problems = []
    for name, included in found.items():
        parts = name.split("/")
        if parts[0] != "alloc":
            continue
        if parts[1] not in FOLDERS:
            problems.append(f"{name}: the folder {parts[1]} has no place in FOLDERS")
            continue
        for other in included:
            folder = other.split("/")[1]
            if folder in FOLDERS and FOLDERS.index(folder) > FOLDERS.index(parts[1]):
                problems.append(f"{name} includes {other}: {parts[1]} lies below {folder}")
    return problems


def circles(found):
    """The circles of modules, each as a text of sorted names."""
    edges = collections.defaultdict(set)
    for name, included in found.items():
        module = name.rsplit(".", 1)[0]
        edges[module] |= {other.rsplit(".", 1)[0] for other in included} - {module}
    reached = {module: reach(edges, module) for module in list(edges)}
    found_circles = set()
    for module, others in reached.items():
        ring = {other for other in others if module in reached.get(other, ())}
        if ring:
            found_circles.add(" ".join(sorted(ring | {module})))
    return found_circles


def reach(edges, start):
    """The modules that one leads to, over any number of includes."""
    seen, todo = set(), list(edges[start])
    while todo:
        module = todo.pop()
        if module not in seen:
            seen.add(module)
            todo += edges.get(module, ())
    return seen


def check(root):
    found = includes_of(root)
    problems = upward(found)
    rings = circles(found)
    problems += [f"a circle of modules: {ring}" for ring in sorted(rings - set(KNOWN))]
    problems += [f"a circle of modules that is gone, take it from KNOWN: {ring}"
                 for ring in sorted(set(KNOWN) - rings)]
    return problems


def self_test():
    """Each wrong include is found, in a small tree that is right without it."""
    def problems(**files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            texts = {"alloc/base/low.h": "", "alloc/pool/high.h": '#include "base/low.h"\n',
                     "alloc/pool/high.c": '#include "pool/high.h"\n', "lifetime/one.h": "",
                     "lifetime/two.h": '#include "one.h"\n#include "pool/high.h"\n',
                     "capture/any.h": '#include "two.h"\n'}
            texts.update({name.replace("__", "/").replace("_h", ".h"): text
                          for name, text in files.items()})
            for name, text in texts.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            found = includes_of(root)
            return upward(found) + sorted(circles(found))
    assert problems() == [], problems()
    turned = problems(alloc__base__low_h='#include "pool/high.h"\n')
    assert turned == ["alloc/base/low.h includes alloc/pool/high.h: base lies below pool",
                      "alloc/base/low alloc/pool/high"], turned
    ring = problems(lifetime__one_h='#include "two.h"\n')
    assert ring == ["lifetime/one lifetime/two"], ring
    other = problems(alloc__odd__any_h="")
    assert other == ["alloc/odd/any.h: the folder odd has no place in FOLDERS"], other
    print("ok")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent.parent)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return 0
    problems = check(arguments.root)
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
