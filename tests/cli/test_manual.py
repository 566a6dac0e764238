#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Manual pages and completions say what --help says, of every command, and no more.

--help is the measure: its commands and options are read from what it prints. The pages are
rendered by man, the completions run in bash, zsh and fish; a shell that is not here is skipped.
Seen to fail: with the first option left out of the pages, of zsh's and of fish's lists; with two
words of bash's list run together.
"""
import json
import os
import re
import shutil
import subprocess
import unittest

from command import BAD_INPUT, CHECK_FAILED, CommandTest

ZSH = r"""
_arguments() { print -rl -- "$@" }
_describe() { print -rl -- "${(@P)2}" }
source $1
words=(tenure $@[2,-1] ''); CURRENT=$#words
_tenure
"""
BASH = r"""
source "$1"; shift
COMP_WORDS=(tenure "$@"); COMP_CWORD=$#
_tenure
printf '%s\n' "${COMPREPLY[@]}"
"""


def squeezed(text):
    """Without what breaking lines, hyphenation and quotation marks change."""
    text = text.replace("’", "'").replace("‐\n", "")
    return re.sub(r"[\s\\]+", "", text)


class Manual(CommandTest):
    def setUp(self):
        super().setUp()
        self.run_tenure("manual", "--out", self.folder / "manual")
        self.places = [()]
        self.helps = {}
        for place in self.places:  # grows
            text = self.helps[place] = self.run_tenure(
                *place, "--help", environment={"COLUMNS": 100}).stdout
            self.places += [(*place, name) for name in self.commands(place)]

    def commands(self, place):
        _, found, after = self.helps[place].partition("\nCommands:\n")
        if not found or "\nOptions:\n" in self.helps[place]:
            return []
        return re.findall(r"(?m)^  (\S+) ", after.partition("\n\n")[0])

    def listed(self, place):
        """Words that a command with options lists as its commands, and their help."""
        _, found, after = self.helps[place].partition("\nCommands:\n")
        if not found or "\nOptions:\n" not in self.helps[place]:
            return {}
        return dict(re.findall(r"(?m)^  (\S+)(?: \S+)? {2,}(.*)$", after.partition("\n\n")[0]))

    def options(self, place):
        """Each option's name, its argument or an empty text, and its help."""
        _, _, after = self.helps[place].partition("\nOptions:\n")
        part = after.partition("\n\n")[0] if after else ""
        found = re.findall(r"(?ms)^  --([a-z-]+)(?: ([^\s]+))?\s+(.*?)(?=^  --|\Z)", part)
        return {name: (argument, text) for name, argument, text in found}

    def run_shell(self, shell, *arguments, script):
        if not shutil.which(shell):
            self.skipTest(f"there is no {shell} here")
        file = self.write(f"script.{shell}", script)
        plain = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
        result = subprocess.run([shell, *plain, file, *map(str, arguments)], text=True,
                                capture_output=True, check=False,
                                env={**os.environ, "HOME": str(self.folder), "TERM": "dumb",
                                     "LC_ALL": "C.UTF-8"})
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return result.stdout.splitlines()

    def test_there_is_something_to_compare(self):
        self.assertIn(("snapshot", "html"), self.places)
        self.assertGreater(len(self.places), 12)
        self.assertIn("report", self.options(("run",)))
        self.assertEqual(self.options(("replay",))["check"][0], "EXTENT")
        self.assertIn("metrics", self.listed(("ctl",)))

    def test_each_command_has_a_page(self):
        pages = {path.name for path in (self.folder / "manual/man1").iterdir()}
        self.assertEqual(pages, {"-".join(("tenure", *place)) + ".1" for place in self.places})

    def test_pages_say_what_help_says(self):
        if not shutil.which("man"):
            self.skipTest("there is no man here")
        for place in self.places:
            with self.subTest(place=place):
                file = self.folder / "manual/man1" / ("-".join(("tenure", *place)) + ".1")
                result = subprocess.run(["man", "--warnings", "-l", file], capture_output=True,
                                        check=True, text=True,
                                        env={**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8",
                                             "MAN_KEEP_FORMATTING": "", "PAGER": "cat"})
                self.assertEqual(result.stderr, "")
                page = squeezed(re.sub(".\b", "", result.stdout))
                self.assertEqual(file.read_text(), self.run_tenure("manual", *place).stdout)
                summary = self.helps[place].splitlines()[0].partition(": ")[2]
                self.assertIn(squeezed(summary), page)
                for name, (argument, text) in self.options(place).items():
                    if name != "help":
                        self.assertIn(squeezed(f"--{name}{argument}{text}"), page)
                for name in self.commands(place):
                    self.assertIn(name, page)
                # What stands below the options, line by line.
                below = self.helps[place].partition("\nOptions:\n")[2].partition("\n\n")[2]
                for line in below.splitlines():
                    line = line.replace("Exit codes:", "").replace("Examples:", "")
                    self.assertIn(squeezed(line), page)

    def test_no_option_that_help_does_not_know(self):
        for place in self.places:
            page = self.run_tenure("manual", *place).stdout.replace("\\-", "-")
            listed = re.findall(r"(?m)^\\fB--([a-z-]+)\\fR", page)
            self.assertEqual(listed, list(self.options(place)))

    def test_bash(self):
        file = self.folder / "manual/bash/tenure"
        for place in self.places:
            with self.subTest(place=place):
                start = "--" if self.options(place) else ""
                words = self.run_shell("bash", file, *place, start, script=BASH)
                wanted = [*self.commands(place),
                          *(f"--{name}" for name in self.options(place) or ["help"])]
                self.assertEqual(words, wanted)
                for name, (argument, _) in self.options(place).items():
                    words = self.run_shell("bash", file, *place, f"--{name}", "--", script=BASH)
                    self.assertEqual(len(words) > 1, not argument, name)

    def test_settings_are_offered(self):
        """Seen to fail without the settings in bash's list, and without what stands before a
        comma."""
        keys = {one["key"] for one in json.loads(self.run_tenure("conf", "--json").stdout)}
        file = self.folder / "manual/bash/tenure"
        for place in (("run",), ("replay",)):
            words = self.run_shell("bash", file, *place, "--conf", "", script=BASH)
            self.assertEqual(set(words), {f"{key}:" for key in keys})
        self.assertEqual(self.run_shell("bash", file, "run", "--conf", "reuse,snapshot_on",
                                        script=BASH), ["reuse,snapshot_on_oom:"])
        self.assertEqual(set(self.run_shell("bash", file, "conf", "", script=BASH)), keys)
        for shell in ("zsh/_tenure", "fish/tenure.fish"):
            text = (self.folder / "manual" / shell).read_text("utf-8")
            self.assertIn("snapshot_on_oom", text)

    def test_bash_offers_listed_words(self):
        file = self.folder / "manual/bash/tenure"
        self.assertEqual(self.run_shell("bash", file, "ctl", "", script=BASH),
                         list(self.listed(("ctl",))))
        self.assertEqual(self.run_shell("bash", file, "ctl", "--json", "me", script=BASH),
                         ["metrics"])
        start = self.write("metrics", "")
        self.assertEqual(self.run_shell("bash", file, "ctl", "snapshot", start, script=BASH),
                         [str(start)])

    def test_bash_offers_files_and_programs(self):
        file = self.folder / "manual/bash/tenure"
        self.write("some file.json", "")
        start = f"{self.folder}/some"
        self.assertEqual(self.run_shell("bash", file, "snapshot", "html", start, script=BASH),
                         [f"{start} file.json"])
        self.assertEqual(self.run_shell("bash", file, "run", "--report", start, script=BASH),
                         [f"{start} file.json"])
        self.assertIn("bash", self.run_shell("bash", file, "run", "--stats", "--", "bas",
                                             script=BASH))

    def test_zsh(self):
        file = self.folder / "manual/zsh/_tenure"
        for place in self.places:
            with self.subTest(place=place):
                lines = self.run_shell("zsh", file, *place, script=ZSH)
                wanted = self.commands(place) or [f"--{name}" for name in self.options(place)]
                self.assertEqual([re.split(r"[\[:]", line)[0] for line in lines
                                  if line[0] not in "*1"], wanted)
                listed = " ".join(self.listed(place))
                self.assertEqual([line for line in lines if line[0] == "1"],
                                 [f"1:command:({listed})"] if listed else [])
                for line in lines:
                    name = line.partition("[")[0].lstrip("-")
                    if name in self.options(place) and name != "help":
                        argument, text = self.options(place)[name]
                        self.assertIn(squeezed(text), squeezed(line))
                        self.assertEqual(bool(argument), bool(re.search(r"\]:.+:", line)), line)

    def test_fish(self):
        file = self.folder / "manual/fish/tenure.fish"
        for place in self.places:
            with self.subTest(place=place):
                start = " ".join(("tenure", *place))
                lines = self.run_shell("fish", script=f"source {file}\ncomplete -C '{start} --'\n"
                                                      f"complete -C '{start} '\n")
                offered = {line.partition("\t")[0]: line.partition("\t")[2] for line in lines}
                wanted = {f"--{name}" for name in self.options(place) or ["help"]}
                self.assertEqual({name for name in offered if name.startswith("--")}, wanted)
                for name in self.commands(place):
                    self.assertIn(name, offered)
                for name, text in self.listed(place).items():
                    self.assertEqual(squeezed(offered.get(name, "")), squeezed(text))
                for name, (_, text) in self.options(place).items():
                    if name != "help":
                        self.assertEqual(squeezed(offered[f"--{name}"]), squeezed(text))

    def test_bad_command_lines(self):
        for arguments, words in [(["--completion", "csh"], "bash, zsh or fish"),
                                 (["nothing"], 'no command "tenure nothing"'),
                                 (["run", "--out", "x"], "exclude each other")]:
            result = self.run_tenure("manual", *arguments, code=BAD_INPUT)
            self.assertIn(words, result.stderr)

    def test_a_folder_that_cannot_be_made(self):
        file = self.write("a file", "")
        result = self.run_tenure("manual", "--out", file / "below", code=CHECK_FAILED)
        self.assertIn(str(file), result.stderr)


if __name__ == "__main__":
    unittest.main()
