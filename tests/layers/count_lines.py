#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lines of code of the three layers, by folder: without comments, blanks and what a line is wrapped
into (clang-format joins it first).

  count_lines.py [COMMIT ...]      the working tree, and each commit beside it

Exit codes: 0 counted; 1 git or clang-format failed.
"""
import argparse
import collections
import io
import pathlib
import re
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LAYERS = ("alloc", "lifetime", "capture")
STYLE = "{BasedOnStyle: LLVM, ColumnLimit: 0, MaxEmptyLinesToKeep: 0, SortIncludes: false}"
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\')', re.S)


def joined(text):
    """The code with each wrapped statement on one line."""
    text = COMMENT.sub(lambda one: one[1] or " ", text)
    lines, depth = [], 0
    for line in (one.strip() for one in text.split("\n")):
        if not line:
            continue
        if depth > 0 and not line.startswith("#"):
            lines[-1] += " " + line
        else:
            lines.append(line)
        depth = max(0, depth + line.count("(") - line.count(")")) if line[0] != "#" else depth
    return "\n".join(lines)


def formatted_lines(text):
    run = subprocess.run(["clang-format", f"-style={STYLE}", "-assume-filename=x.c"], check=True,
                         input=joined(text), stdout=subprocess.PIPE, text=True)
    return sum(1 for line in run.stdout.splitlines() if line.strip())


def count(files):
    """Of each folder: its lines. `files` are pairs of a path and a text."""
    counts, texts = collections.Counter(), collections.defaultdict(list)
    for path, text in files:
        parts = pathlib.PurePath(path).parts
        if parts[0] in LAYERS and path.endswith((".c", ".h", ".def")):
            texts["/".join(parts[:-1])].append(text)
    for folder, parts in texts.items():
        counts[folder] = sum(formatted_lines(text) for text in parts)
    return counts


def tree_files():
    for layer in LAYERS:
        for path in sorted((ROOT / layer).rglob("*")):
            if path.is_file():
                yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8", "replace")


def commit_files(commit):
    run = subprocess.run(["git", "-C", ROOT, "archive", commit, *LAYERS], check=True,
                         stdout=subprocess.PIPE)
    with tarfile.open(fileobj=io.BytesIO(run.stdout)) as archive:
        for member in archive:
            if member.isfile():
                yield member.name, archive.extractfile(member).read().decode("utf-8", "replace")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="*", metavar="COMMIT")
    arguments = parser.parse_args()
    try:
        columns = [("now", count(tree_files()))]
        columns += [(commit[:12], count(commit_files(commit))) for commit in arguments.commits]
    except (OSError, subprocess.CalledProcessError) as problem:
        print(f"count_lines.py: {problem}", file=sys.stderr)
        return 1
    print(f"{'folder':24}" + "".join(f"{name:>14}" for name, _ in columns))
    for folder in sorted(set().union(*(counts for _, counts in columns))):
        print(f"{folder:24}" + "".join(f"{counts[folder]:14}" for _, counts in columns))
    print(f"{'all':24}" + "".join(f"{sum(counts.values()):14}" for _, counts in columns))
    return 0


if __name__ == "__main__":
    sys.exit(main())
