#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Follows a page of the documentation literally: what it says is typed, and what it shows must
come.

    follow.py PAGE                       in a clean checkout, from the first command on
    follow.py PAGE --installed PREFIX    what the first block installs in ~/tenure lies in PREFIX
    follow.py self                       that each kind of mistake in a page is found

A block ```sh is run by bash, which stops at a command that fails. Settings of the shell last to the
end of the page, as does the folder. A block in another language whose first line is a comment with
the name of a file is written to that file. What stands directly below `<!-- after the installation
-->` is done behind the first block of commands that is not marked so. A block without a language
behind one of ```sh is what its commands print, on both channels: `...` stands for anything in a
line, and alone in a line for any lines; addresses, offsets, and numbers of threads and processes
may be others.

--put NAME=TARGET makes a link in the home folder before the first command; --set NAME=VALUE is for
what the page takes for granted: TENURE_DRIVER is not handed on otherwise; --home is the home folder
(a fresh one is made otherwise) and --folder where the page begins (the same, with --installed; else
the current one).

Exit codes: 0 what it shows came; 1 it did not; 2 wrong usage.
"""
import argparse
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
FILE_NAME = re.compile(r"^(?:/\* |# |// )([\w./-]+\.\w+)(?: \*/)?$")
LATER = "<!-- after the installation -->\n"
OTHER = re.compile(r"0x[0-9a-f]+|\+0x[0-9a-f]+|(?:thread|process) \d+")


def steps_of(text):
    """What is to be done: ("run", commands, what they show or None), ("write", name, text)."""
    steps, later, behind = [], [], None
    for found in BLOCK.finditer(text):
        language, body = found[1], found[2]
        first = FILE_NAME.match(body.split("\n", 1)[0])
        follows = behind is not None and text[behind:found.start()].strip() == ""
        behind, is_later = None, text[:found.start()].endswith(LATER)
        if language == "sh":
            shown = ["run", body, None]
            (later if is_later else steps).append(shown)
            behind = found.end()
        elif language and first:
            (later if is_later else steps).append(["write", first[1], body])
        elif not language and follows:
            shown[2] = body
    at = next((i for i, step in enumerate(steps) if step[0] == "run"), 0) + 1
    return steps[:at] + later + steps[at:]


def pattern_of(shown):
    """A regular expression for what is shown."""
    pattern = ""
    for line in shown.rstrip("\n").split("\n"):
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
            continue
        parts = [OTHER.sub("OTHER", part) for part in line.rstrip().split("...")]
        pattern += ".*".join(re.escape(part) for part in parts) + "\n"
    return re.compile(pattern)


def printed_as(output):
    return "".join(OTHER.sub("OTHER", line.rstrip()) + "\n"
                   for line in output.rstrip("\n").split("\n"))


class Reader:
    """Who sits at the shell."""

    def __init__(self, folder, home, settings):
        self.folder = folder
        self.environment = dict(os.environ, HOME=str(home))
        self.environment.pop("TENURE_DRIVER", None)
        self.environment.update(one.split("=", 1) for one in settings)

    def run(self, commands):
        """What was printed, and the exit code."""
        with tempfile.NamedTemporaryFile("r") as state:
            script = f"trap 'pwd >{state.name}; export -p >>{state.name}' EXIT\n{commands}"
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=self.folder,
                                  env=self.environment, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)
            self.folder, _, exports = state.read().partition("\n")
        listed = subprocess.run(["bash", "-c", f"{exports}\nenv -0"], env={}, check=True,
                                stdout=subprocess.PIPE, text=True).stdout
        self.environment = dict(entry.split("=", 1) for entry in listed.split("\0") if entry)
        return done.stdout, done.returncode

    def follow(self, steps):
        """None, or what is wrong."""
        for kind, first, second in steps:
            if kind == "write":
                print(f"-- {first}", flush=True)
                pathlib.Path(self.folder, first).write_text(second, "utf-8")
                continue
            print("$ " + first.rstrip().replace("\n", "\n$ "), flush=True)
            output, code = self.run(first)
            print(output, end="", flush=True)
            if code != 0:
                return f"these commands ended with code {code}:\n{first}"
            if second is not None and not pattern_of(second).fullmatch(printed_as(output)):
                return f"the page shows something else:\n{second}"
        return None


def followed(text, folder, home, skip_first=False, settings=()):
    steps = steps_of(text)
    if not any(step[0] == "run" for step in steps):
        return "there is nothing to follow"
    if skip_first:
        steps.remove(next(step for step in steps if step[0] == "run"))
    return Reader(folder, home, settings).follow(steps)


SELF = """
<!-- after the installation -->
```sh
echo "it is $COLOUR"
```
```
it is red
```
```sh
export COLOUR=red; mkdir deep; cd deep
```
Words.
```c
/* a.c */
int main(void);
```
```sh
cat a.c; echo $COLOUR; pwd | sed 's|.*/||'; echo at 0x12af by thread 77; echo err >&2
```
```
/* a.c */
...
red
deep
at 0x99 by thread 5
e...r
```
"""


def self_check():
    wrong = []
    quiet = open(os.devnull, "w", encoding="utf-8")
    plants = [("red\n", "blue\n"), ("e...r\n", ""), ("e...r", "f...r"), ("cat a.c", "cat b.c"),
              ("export COLOUR", "COLOUR"), ("cd deep", "true"), ("deep\n", "deep\ndeep\n"),
              ("pwd |", "false |"), ("it is red", "it is blue"), ("<!-- after", "<!-- before")]
    for before, after in [("", "")] + plants:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(quiet):
            found = followed(SELF.replace(before, after), folder, folder)
        if (found is None) != (before == ""):
            wrong.append(f"{before!r} -> {after!r}: {found}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", help="a page, or self")
    parser.add_argument("--installed", type=pathlib.Path)
    parser.add_argument("--put", action="append", default=[], metavar="NAME=TARGET")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--home", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.page == "self":
        wrong = self_check()
        print("\n".join(wrong))
        return 1 if wrong else 0
    with tempfile.TemporaryDirectory(prefix="tenure-page-") as fresh:
        home = arguments.home or pathlib.Path(fresh)
        folder = arguments.folder or (home if arguments.installed else pathlib.Path.cwd())
        links = [one.split("=", 1) for one in arguments.put]
        if arguments.installed:
            links.append(["tenure", str(arguments.installed)])
        for name, target in links:
            link = home / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)
        text = pathlib.Path(arguments.page).read_text("utf-8")
        wrong = followed(text, folder, home, arguments.installed is not None,
                         arguments.set)
    if wrong:
        print(f"{arguments.page}: {wrong}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
