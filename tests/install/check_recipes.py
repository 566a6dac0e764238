#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_recipes.py: tools/packaging says what the project is.

Each recipe can be parsed, as far as Python can, has the project's version, and gives no option that
CMake's files do not have. It does not run Spack, vcpkg or conda.

Exit codes: 0 all agree; 1 not.
"""
import ast
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSIONS = {"spack/packages/tenure/package.py": r'version\("([\d.]+)"\)',
            "vcpkg/tenure/vcpkg.json": r'"version": "([\d.]+)"',
            "conda/meta.yaml": r'version: "([\d.]+)"', "README.md": r"tenure@([\d.]+)"}


def options_known():
    text = "".join(path.read_text("utf-8") for path in (
        ROOT / "CMakeLists.txt", *(ROOT / "tools/cmake").glob("*.cmake")))
    return set(re.findall(r"\b(?:option|set)\((TNR_\w+)", text))


def check(texts, version, options):
    """What is wrong with the recipes, by their paths below tools/packaging."""
    wrong = [f"{name}: its version is {found}, and the project's {version}"
             for name, pattern in VERSIONS.items()
             for found in (re.findall(pattern, texts[name]) or ["not there"]) if found != version]
    for name, text in texts.items():
        wrong += [f"{name}: there is no option {option}"
                  for option in re.findall(r"TNR_\w+", text) if option not in options]
        try:
            if name.endswith(".py"):
                ast.parse(text)
            elif name.endswith(".json"):
                json.loads(text)
        except (SyntaxError, ValueError) as error:
            wrong.append(f"{name}: {error}")
    return wrong


def self_check(texts, version, options):
    plants = [("conda/meta.yaml", version, "9.9.9"),
              ("conda/meta.yaml", "TNR_BUILD_TESTS", "TNR_X"),
              ("spack/packages/tenure/package.py", "class Tenure(", "class Tenure(("),
              ("vcpkg/tenure/vcpkg.json", "[", "[,"), ("README.md", "tenure@", "tenure ")]
    return [f"planted in {name}, and not found: {after}" for name, before, after in plants
            if not check({**texts, name: texts[name].replace(before, after, 1)}, version, options)]


def main():
    folder = ROOT / "tools/packaging"
    texts = {str(path.relative_to(folder)): path.read_text("utf-8")
             for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".pyc"}
    version = re.search(r"project\(tenure VERSION ([\d.]+)",
                        (ROOT / "CMakeLists.txt").read_text("utf-8"))[1]
    options = options_known()
    wrong = check(texts, version, options) + self_check(texts, version, options)
    print("\n".join(wrong) or f"{len(texts)} files agree with version {version}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
