#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""That docs/words.md is true: each name in its second columns is in the sources of its layer, the
number under each table is the number of its rows, and no word has two rows. And that a reader need
not learn more than CONCEPTS_MAX.

  check_words.py [--root FOLDER]
  check_words.py --self-test

Exit codes: 0 all is so; 1 not so.
"""
import pathlib
import re
import sys
import tempfile

import checking

CONCEPTS_MAX = 70
ROW = re.compile(r"^\| ([^*|]+) \| `(\w+)` \|", re.M)


def check(root):
    problems, words = [], []
    text = (root / "docs/words.md").read_text("utf-8")
    sections = re.split(r"^## (\w+)/$", text, flags=re.M)
    for layer, section in zip(sections[1::2], sections[2::2]):
        sources = "\n".join(path.read_text("utf-8") for path in (root / layer).rglob("*.h"))
        names = ROW.findall(section)
        problems += [f"{concept}: {layer}/ has no {name} in its headers"
                     for concept, name in names if not re.search(rf"\b{name}\b", sources)]
        words += [word for concept, _ in names for word in concept.split(", ")]
        told = re.search(r"^(\d+)\.$", section, re.M)
        if told is None or int(told[1]) != len(names):
            problems.append(f"{layer}/: {len(names)} concepts, told are {told and told[1]}")
    problems += [f"{word}: has two rows" for word in sorted(set(words)) if words.count(word) > 1]
    rows = len(ROW.findall(text))
    if rows > CONCEPTS_MAX:
        problems.append(f"{rows} concepts, at most {CONCEPTS_MAX}: use the field's word, or one "
                        "that is here")
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

    def with_rows(*concepts):
        rows = "".join(f"| {one} | `tnri_any` | one |\n" for one in concepts)
        return f"## alloc/\n\n{rows}\n{len(concepts)}.\n"
    for right in (page, with_rows(*map(str, range(CONCEPTS_MAX)))):
        assert problems(right) == [], problems(right)
    for wrong in (page.replace("tnri_any", "tnri_some"), page.replace("1.", "2."),
                  page.replace("1.\n", ""), "", with_rows("any", "any"),
                  with_rows(*map(str, range(CONCEPTS_MAX + 1)))):
        assert problems(wrong), wrong
    print("ok")


if __name__ == "__main__":
    sys.exit(checking.main(__doc__, check, self_test))
