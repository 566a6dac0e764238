#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""That includes inside a layer point one way: from a room, and from a folder in it, to those below,
and among modules (a .c file and its header) never in a circle.

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

# The folders of each layer from the bottom to the top, as its README.md has them. The first part of
# a name is the room.
FOLDERS = {
    "alloc": ("base/prim", "base/prim/linux", "base", "base/conf", "gpu", "gpu/cuda", "log",
              "memory/space", "memory/device", "memory/stream", "memory/arena", "memory/pool",
              "miss", "see/trap", "see/snapshot", "api"),
    "lifetime": ("order", "share", "share/publish", "share/group"),
    "capture": ("graph", "away", "control"),
}
LAYERS = tuple(FOLDERS)

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def includes_of(root):
    """Of each source of the layers: the sources of the layers that it includes; and what is
    included by another path."""
    found, odd = {}, []
    for layer in LAYERS:
        for path in sorted((root / layer).rglob("*.[ch]")):
            if "include" in path.relative_to(root).parts:
                continue
            name = path.relative_to(root).as_posix()
            found[name] = []
            for included in INCLUDE.findall(path.read_text()):
                at = [f"{over}/{included}" for over in LAYERS if (root / over / included).exists()]
                found[name] += at[:1]
                if not at:
                    odd.append(f"{name} includes {included}, which is no path inside a layer")
    return found, odd


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
                problems.append(f"{name} includes {other}: {folder} lies below {above}")
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
    found, odd = includes_of(root)
    return (odd + upward(found)
            + [f"a circle of modules: {ring}" for ring in sorted(circles(found))])


def self_test():
    """Each wrong include is found, in a small tree that is right without it."""
    def problems(**files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            texts = {"alloc/base/low.h": "", "alloc/see/trap/high.h": '#include "base/low.h"\n',
                     "alloc/see/trap/high.c": '#include "see/trap/high.h"\n',
                     "lifetime/order/one.h": "",
                     "lifetime/share/two.h": '#include "order/one.h"\n#include "see/trap/high.h"\n',
                     "capture/graph/place.h": '#include "share/two.h"\n',
                     "capture/away/nap.h": '#include "graph/place.h"\n'}
            texts.update({name.replace("__", "/").replace("_h", ".h"): text
                          for name, text in files.items()})
            for name, text in texts.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return check(root)
    assert problems() == [], problems()
    turned = problems(alloc__base__low_h='#include "see/trap/high.h"\n')
    assert turned == ["alloc/base/low.h includes alloc/see/trap/high.h: base lies below see/trap",
                      "a circle of modules: alloc/base/low alloc/see/trap/high"], turned
    ring = problems(lifetime__order__one_h='#include "share/two.h"\n')
    assert ring[1:] == ["a circle of modules: lifetime/order/one lifetime/share/two"], ring
    other = problems(alloc__odd__any_h="")
    assert other == ["alloc/odd/any.h: odd has no place in FOLDERS"], other
    own = problems(lifetime__any_h="")
    assert own == ["lifetime/any.h: lifetime has no place in FOLDERS"], own
    asleep = problems(capture__graph__place_h='#include "away/nap.h"\n', capture__away__nap_h="")
    assert asleep == ["capture/graph/place.h includes capture/away/nap.h: graph lies below away"]
    aside = problems(alloc__see__trap__odd_h='#include "high.h"\n')
    assert aside == ["alloc/see/trap/odd.h includes high.h, which is no path inside a layer"], aside
    print("ok")


if __name__ == "__main__":
    sys.exit(checking.main(__doc__, check, self_test))
