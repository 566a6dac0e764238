#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_glibc.py --most VERSION PATH...: that no file needs a newer C library.

Looks at each ELF file at the paths and in the folders below them, and names every symbol that it
wants in a version of glibc's newer than VERSION. Other libraries' versions are theirs.
"""
import argparse
import pathlib
import re
import subprocess
import sys

WANTED = re.compile(r"^\s*U (\S+)@+GLIBC_([0-9.]+)$", re.M)


def number(version):
    return tuple(int(part) for part in version.split("."))


def elf_files(paths):
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and not file.is_symlink():
                with file.open("rb") as start:
                    if start.read(4) == b"\x7fELF":
                        yield file


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", required=True, help="the newest version that may be needed")
    parser.add_argument("paths", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    files = problems = 0
    for file in elf_files(arguments.paths):
        files += 1
        symbols = subprocess.run(["nm", "-D", "--undefined-only", file], check=True,
                                 capture_output=True, text=True).stdout
        wanted = WANTED.findall(symbols)
        for name, version in wanted:
            if number(version) > number(arguments.most):
                print(f"{file.name}: {name}@GLIBC_{version} is newer than {arguments.most}")
                problems += 1
        newest = max((version for _, version in wanted), key=number, default="none")
        print(f"{file.name} needs glibc {newest}")
    if files == 0:
        sys.exit("there is no ELF file to look at")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
