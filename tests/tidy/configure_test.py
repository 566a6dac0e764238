#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/test configures each row as it says, whatever the folder was configured as before.

A row `debug` in a folder that somebody had configured with another compiler was built as Release,
without assertions, and passed.

Seen to fail: without the `rm` in configure() of tools/test.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


def configure(function, folder, *arguments):
    """The type and the generator of the build that tools/test's configure() leaves."""
    command = ["bash", "-c", f'{function}\nconfigure "$@"', "bash", "build", *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    cache = (folder / "build" / "CMakeCache.txt").read_text()
    return re.findall(r"^(?:CMAKE_BUILD_TYPE|CMAKE_GENERATOR):[A-Z]*=(.*)$", cache, re.MULTILINE)


def main():
    compiler = shutil.which("cc")
    if not compiler:
        print("skipped: there is no cc here")
        return 77
    script = (pathlib.Path(__file__).resolve().parents[2] / "tools/test").read_text()
    function = re.search(r"^configure\(\) \{\n.*?^\}$", script, re.MULTILINE | re.DOTALL)
    if not function:
        sys.exit("tools/test has no function configure()")
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.16)\n"
                                               "project(row C)\n")
        other = folder / "other-cc"
        other.write_text(f'#!/bin/sh\nexec {compiler} "$@"\n')
        other.chmod(0o755)
        first = configure(function[0], folder, f"-DCMAKE_C_COMPILER={other}",
                          "-DCMAKE_BUILD_TYPE=Release")
        again = configure(function[0], folder, "-DCMAKE_C_COMPILER=cc", "-DCMAKE_BUILD_TYPE=Debug")
        third = configure(function[0], folder, "-DCMAKE_C_COMPILER=cc", "-DCMAKE_BUILD_TYPE=Debug")
        for found, expected in ((first, "Release"), (again, "Debug"), (third, "Debug")):
            if expected not in found or len(found) != len(first):
                print(f"the cache has {found}, expected {expected}")
                wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
