#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""That includes inside a layer point one way: from a folder to those below it, and among modules
(a .c file and its header) never in a circle.

  check_folders.py [--root FOLDER]
  check_folders.py --self-test

Exit codes: 0 all is so; 1 not so.
"""
import collections
import pathlib
import re
import sys
import tempfile

import checking

# The folders of each layer from the bottom to the top, as its README.md has them; "" is the layer's
# own folder.
FOLDERS = {
    "alloc": ("base", "conf", "annotate", "driver", "space", "device", "stream", "history", "arena",
              "pool", "ladder", "trap", "snapshot", "library"),
    "lifetime": ("",),
    "capture": ("", "graph", "sleep", "publish", "group", "control"),
}
LAYERS = tuple(FOLDERS)

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
    """Includes inside a layer from a folder to one above it."""
    problems = []
    for name, included in found.items():
        layer, folder = place_of(name)
        order = FOLDERS[layer]
        if folder not in order:
            problems.append(f"{name}: {folder or layer} has no place in FOLDERS")
            continue
        for other in included:
            other_layer, above = place_of(other)
            if other_layer == layer and above in order[order.index(folder) + 1:]:
                problems.append(f"{name} includes {other}: {folder or layer} lies below {above}")
    return problems


def place_of(name):
    """The layer that a source is in, and its folder there."""
    layer, *folders, _ = name.split("/")
    return layer, "/".join(folders)


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
    return upward(found) + [f"a circle of modules: {ring}" for ring in sorted(circles(found))]


def self_test():
    """Each wrong include is found, in a small tree that is right without it."""
    def problems(**files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            texts = {"alloc/base/low.h": "", "alloc/pool/high.h": '#include "base/low.h"\n',
                     "alloc/pool/high.c": '#include "pool/high.h"\n', "lifetime/one.h": "",
                     "lifetime/two.h": '#include "one.h"\n#include "pool/high.h"\n',
                     "capture/any.h": '#include "two.h"\n',
                     "capture/graph/place.h": '#include "any.h"\n',
                     "capture/sleep/nap.h": '#include "any.h"\n'}
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
    assert other == ["alloc/odd/any.h: odd has no place in FOLDERS"], other
    asleep = problems(capture__graph__place_h='#include "sleep/nap.h"\n')
    assert asleep == ["capture/graph/place.h includes capture/sleep/nap.h: graph lies below sleep"]
    own = problems(capture__any_h='#include "graph/place.h"\n', capture__graph__place_h="")
    assert own == ["capture/any.h includes capture/graph/place.h: capture lies below graph"], own
    deep = problems(lifetime__new__any_h="")
    assert deep == ["lifetime/new/any.h: new has no place in FOLDERS"], deep
    print("ok")


if __name__ == "__main__":
    sys.exit(checking.main(__doc__, check, self_test))
