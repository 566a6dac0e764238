#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tests that a change can reach, one name a line: what `tools/test --changed` runs.

  changed.py --build FOLDER [--rev REV] [FILE ...]

FILEs are paths in the source; without them those that differ from REV (HEAD: what is not
committed). FOLDER is a build by Ninja that is up to date. A test is reached if

  - a program or a library that its command line or its environment names is built from the file
    (headers as the compiler found them); of a folder that they name, those programs count whose
    names stand in a script beside the test;
  - they name the file, or a folder that it is in, or a script that imports it;
  - the file lies in the folder of the test's CMakeLists.txt, and nothing is built from it;
  - it looks at the sources (its label is `source` or `tidy`): always.

A file of which nothing is known reaches every test, and so does one that says how to build.

Exit codes: 0 written; 1 it is not known what is built from what.
"""
import argparse
import collections
import functools
import json
import os
import pathlib
import re
import subprocess
import sys

BUILDS = re.compile(r"(^|/)CMakeLists\.txt$|\.cmake$|\.in$|^tools/(test|setup)$|"
                    r"^tests/changed\.py$")
TEXTS = re.compile(r"\.md$|^docs/|^LICENSE$|^\.")
IMPORT = re.compile(r"^\s*(?:import|from)\s+(\w+)", re.M)


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@functools.cache
def edges_of(build):
    """From each file to what is made of it, as absolute paths."""
    made_of = collections.defaultdict(set)

    def add(source, output):
        made_of[os.path.normpath(build / source)].add(os.path.normpath(build / output))
    text = (build / "build.ninja").read_text().replace("$\n", "")
    for line in re.findall(r"^build (.*)$", text, re.M):
        line = line.replace("$ ", "\0").replace("$:", "\1")
        outputs, _, inputs = line.partition(":")
        names = [[name.replace("\0", " ").replace("\1", ":") for name in part.split()
                  if name not in ("|", "||")] for part in (outputs, inputs)]
        for output in names[0]:
            for source in names[1][1:]:  # the first is the rule
                add(source, output)
    output = None
    for line in run("ninja", "-C", str(build), "-t", "deps").splitlines():
        if line.startswith("    "):
            add(line.strip(), output)
        elif ":" in line:
            output = line.split(":")[0]
    return made_of


def reached_from(made_of, files):
    seen, todo = set(), list(files)
    while todo:
        name = todo.pop()
        for output in made_of.get(name, ()):
            if output not in seen:
                seen.add(output)
                todo.append(output)
    return seen


@functools.cache
def importers_of(root):
    """From each script to those that import it: by the name of the module, wherever it lies."""
    scripts = [path for folder in ("tests", "tools") for path in (root / folder).rglob("*.py")]
    by_name = collections.defaultdict(list)
    for path in scripts:
        by_name[path.stem].append(str(path))
    importers = collections.defaultdict(set)
    for path in scripts:
        for module in IMPORT.findall(path.read_text(errors="replace")):
            for imported in by_name.get(module, ()):
                importers[imported].add(str(path))
    return importers


@functools.cache
def tests_of(build):
    """Of each test: the paths that it names, its folder, and whether it looks at sources."""
    shown = json.loads(run("ctest", "--test-dir", str(build), "--show-only=json-v1"))
    graph, tests = shown["backtraceGraph"], []
    for test in shown["tests"]:
        properties = {one["name"]: one["value"] for one in test["properties"]}
        words = list(test.get("command", []))
        words += [text.partition("=")[2] for text in properties.get("ENVIRONMENT", [])
                  if not text.startswith("TENURE_STATUSES=")]
        paths = {part for word in words for part in re.split("[=:;,]", word)
                 if part.startswith("/")}
        at, folder = test["backtrace"], ""
        while at is not None:
            node = graph["nodes"][at]
            folder = str(pathlib.Path(graph["files"][node["file"]]).parent)
            at = node.get("parent")
        looks = {"source", "tidy"} & set(properties.get("LABELS", []))
        tests.append((test["name"], paths, folder, bool(looks)))
    return tests


def is_below(path, folders):
    return any(str(parent) in folders for parent in pathlib.Path(path).parents)


def texts_of(folder):
    """What the scripts of a test's folder say."""
    scripts = [path for path in sorted(pathlib.Path(folder).iterdir())
               if path.suffix in (".py", ".sh", ".txt")]
    return "\n".join(path.read_text(errors="replace") for path in scripts)


def is_reached(root, build, touched, paths, folder, text):
    """Whether the test uses one of what was touched, of which each says whether it is data."""
    for one, is_data in touched.items():
        inside = is_below(one, (paths | {folder} if is_data else paths) - {str(root), str(build)})
        if one in paths or inside and (not is_below(one, {str(build)})
                                       or pathlib.Path(one).name in text):
            return True
    return False


def reached(root, build, files):
    made_of, importers = edges_of(build), importers_of(root)
    tests = tests_of(build)
    folders = {folder for _, _, folder, _ in tests} - {str(root), str(root / "tests")}
    touched = {}
    for name in files:
        path = str(root / name)
        found = reached_from(made_of, [path]) | reached_from(importers, [path])
        named = any(path in paths or is_below(path, paths - {str(root)})
                    for _, paths, _, _ in tests)
        if BUILDS.search(name) or not (found or named or TEXTS.search(name)
                                       or is_below(path, folders)):
            return [test for test, _, _, _ in tests]
        touched.update({one: False for one in found if pathlib.Path(one).is_file()})
        touched[path] = path not in made_of
    texts = {folder: texts_of(folder) for _, _, folder, _ in tests}
    return [test for test, paths, folder, looks in tests if looks
            or is_reached(root, build, touched, paths, folder, texts[folder])]


def changed(root, rev):
    differ = run("git", "-C", str(root), "diff", "--name-only", "--no-renames", rev)
    fresh = run("git", "-C", str(root), "ls-files", "--others", "--exclude-standard")
    return sorted(set((differ + fresh).splitlines()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--rev", default="HEAD")
    parser.add_argument("files", nargs="*")
    asked = parser.parse_args()
    root, build = pathlib.Path(__file__).resolve().parents[1], asked.build.resolve()
    if not (build / "build.ninja").exists():
        print(f"{build} is not built by Ninja: what is built from what is not known",
              file=sys.stderr)
        return 1
    for name in reached(root, build, asked.files or changed(root, asked.rev)):
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
