#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""That docs/words.md is true: each name in its second columns is in the sources of its layer, and
the number under each table is the number of its rows.

  check_words.py [--root FOLDER]
  check_words.py --self-test

Exit codes: 0 all is so; 1 not so.
"""
import pathlib
import re
import sys
import tempfile

import checking

ROW = re.compile(r"^\| ([^*|]+) \| `(\w+)` \|", re.M)


def check(root):
    problems = []
    text = (root / "docs/words.md").read_text("utf-8")
    sections = re.split(r"^## (\w+)/$", text, flags=re.M)
    for layer, section in zip(sections[1::2], sections[2::2]):
        sources = "\n".join(path.read_text("utf-8") for path in (root / layer).rglob("*.h"))
        names = ROW.findall(section)
        problems += [f"{concept}: {layer}/ has no {name} in its headers"
                     for concept, name in names if not re.search(rf"\b{name}\b", sources)]
        told = re.search(r"^(\d+)\.$", section, re.M)
        if told is None or int(told[1]) != len(names):
            problems.append(f"{layer}/: {len(names)} concepts, told are {told and told[1]}")
    return problems if len(sections) > 1 else ["docs/words.md has no layers"]


def self_test():
    def problems(page):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in (("docs/words.md", page), ("alloc/any.h", "struct tnri_any;\n")):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, "utf-8")
            return check(root)
    page = "## alloc/\n\n| **base/** | | |\n| any | `tnri_any` | one |\n\n1.\n\n## What is gone\n"
    assert problems(page) == [], problems(page)
    for wrong in (page.replace("tnri_any", "tnri_some"), page.replace("1.", "2."),
                  page.replace("1.\n", ""), ""):
        assert problems(wrong), wrong
    print("ok")


if __name__ == "__main__":
    sys.exit(checking.main(__doc__, check, self_test))
