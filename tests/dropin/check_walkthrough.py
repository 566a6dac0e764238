#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_walkthrough.py [--update]: that docs/cudart.md shows exactly how each step of
docs/examples/cudart differs from the one before, and that a planted mistake is found.

Exit codes: 0 they agree; 1 they do not.
"""
import argparse
import difflib
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/cudart.md"
STEPS = (1, 2, 3)
BEGIN, END = "<!-- begin: step {} -->\n", "<!-- end: step {} -->\n"


def difference(step):
    """How step differs from the one before, as a fenced block."""
    before, after = ((ROOT / f"docs/examples/cudart/pipeline{i}.c").read_text("utf-8").splitlines()
                     for i in (step - 1, step))
    lines = list(difflib.unified_diff(before, after, n=1, lineterm=""))[2:]
    hunks = ["" if line.startswith("@@") else line.rstrip() for line in lines]
    return "```diff\n" + "\n".join(hunks).strip("\n") + "\n```\n"


def problems(text):
    found = []
    for step in STEPS:
        begin, end = BEGIN.format(step), END.format(step)
        if text.count(begin) != 1 or text.count(end) != 1:
            found.append(f"docs/cudart.md has not one part \"step {step}\"")
        elif text.split(begin)[1].split(end)[0] != difference(step):
            found.append(f"docs/cudart.md does not show step {step} as it is; --update does")
    return found


def updated(text):
    for step in STEPS:
        head, rest = text.split(BEGIN.format(step))
        tail = rest.split(END.format(step))[1]
        text = head + BEGIN.format(step) + difference(step) + END.format(step) + tail
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write the differences")
    options = parser.parse_args()
    text = PAGE.read_text("utf-8")
    if options.update:
        text = updated(text)
        PAGE.write_text(text, "utf-8")
    found = problems(text)
    planted = text.replace("+#include <tenure/cudart_replace.h>", "+#include <tenure/replace.h>", 1)
    if not found and (planted == text or not problems(planted)):
        found.append("a planted mistake is not found")
    print("\n".join(found) or "docs/cudart.md shows the steps as they are")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
