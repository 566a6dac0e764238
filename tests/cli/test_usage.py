#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Command lines: help, version, unknown options, settings."""
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import unittest

from command import BAD_INPUT, IS_SANITIZED, TENURE, TRACES, CommandTest

COMMANDS = ["doctor", "conf", "run", "replay", "bench", "snapshot"]


# Commands whose help has examples.
EXAMPLES = [(name,) for name in ("doctor", "conf", "run", "ctl", "top", "hold", "replay", "predict",
                                 "bench", "fuzz", "explain", "manual")] + [
    ("snapshot", name) for name in ("summary", "diff", "convert", "trace", "html")]


class Usage(CommandTest):
    def examples(self, place):
        text = self.run_tenure(*place, "--help", environment={"COLUMNS": 100}).stdout
        _, _, after = text.partition("\nExamples:\n")
        return re.findall(r"(?m)^  (tenure .*)$", after.partition("\n\n")[0])

    def test_no_command_prints_help_and_fails(self):
        result = self.run_tenure(code=BAD_INPUT)
        self.assertEqual(result.stdout, "")
        self.assertIn("Usage:", result.stderr)

    def test_help_names_commands_and_exit_codes(self):
        text = self.run_tenure("--help").stdout
        for command in COMMANDS:
            self.assertRegex(text, rf"(?m)^  {command} ")
        for code in range(5):
            self.assertRegex(text, rf"(?m)^  {code}  ")

    def test_help_of_each_command(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                text = self.run_tenure(command, "--help").stdout
                self.assertIn(f"Usage: tenure {command}", text)
                self.assertEqual(text, self.run_tenure("help", command).stdout)
                self.assertLessEqual(max(map(len, text.splitlines())), 100)

    def test_help_fits(self):
        """Nothing is wider than there are columns, but a word that is, and nothing is lost; 80
        where nobody says. Seen to fail with the width of the terminal ignored."""
        places = [(), ("snapshot",)] + [(name,) for name in COMMANDS] + [
            ("snapshot", name) for name in ("summary", "diff", "convert", "trace", "html")]
        for place in places:
            wide = self.run_tenure(*place, "--help", environment={"COLUMNS": 100}).stdout
            for width, said in ((80, None), (80, "80"), (40, "40")):
                with self.subTest(place=place, width=said):
                    text = self.run_tenure(*place, "--help", environment={"COLUMNS": said}).stdout
                    self.assertEqual(text.split(), wide.split())
                    for line in text.splitlines():
                        self.assertTrue(len(line) <= width or len(line.split()) == 1, line)

    def test_each_help_has_examples(self):
        """Each example names the command, and no option that its help does not have. Seen to fail
        with one help without examples, and with an option in one that there is not."""
        for place in EXAMPLES:
            with self.subTest(place=place):
                text = self.run_tenure(*place, "--help", environment={"COLUMNS": 100}).stdout
                examples = self.examples(place)
                self.assertTrue(examples)
                for example in examples:
                    self.assertTrue(example.startswith(" ".join(("tenure", *place))), example)
                    for option in re.findall(r" --([a-z-]+)", example.partition(" -- ")[0]):
                        self.assertRegex(text, rf"(?m)^  --{option}\b")

    @unittest.skipIf(IS_SANITIZED, "what is bad usage does not depend on the build")
    def test_examples_are_accepted(self):
        """Each example as it stands, in a folder that has its files: none is refused as bad usage.
        What still runs after two seconds was accepted. Seen to fail with `top --by stack`."""
        self.write("train.py", "")
        for name in ("program", "engine"):
            self.write(name, "#!/bin/sh\n").chmod(0o755)
        for name in ("memory.json", "before.json", "after.json"):
            shutil.copy(TRACES.parent / "snapshot/example.json", self.folder / name)
        shutil.copy(TRACES.parent / "fuzz/corpus/torch_3.pickle", self.folder / "memory.pickle")
        shutil.copy(TRACES / "gpt2_train.csv.gz", self.folder / "trace.csv.gz")
        self.write("weights.bin", "weights")
        (self.folder / "tests").symlink_to(TRACES.parent)
        for place in EXAMPLES:
            for example in self.examples(place):
                with self.subTest(example=example):
                    said = self.run_briefly(shlex.split(example.partition(" | ")[0])[1:])
                    self.assertNotIn("--help`", said)
                    self.assertNotIn("cannot be opened", said)

    def run_briefly(self, arguments):
        """What it says on stderr, in two seconds at most."""
        environment = {**os.environ, "COLUMNS": "100", "TENURE_DRIVER": "sim",
                       "XDG_RUNTIME_DIR": str(self.folder)}
        with tempfile.TemporaryFile("w+") as said, subprocess.Popen(
                [TENURE, *arguments], cwd=self.folder, env=environment, stdout=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL, stderr=said, start_new_session=True) as process:
            try:
                process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            said.seek(0)
            return said.read()

    def test_help_works_without_any_driver(self):
        for command in COMMANDS:
            self.run_tenure(command, "--help", environment={"TENURE_DRIVER": "/nonexistent/lib.so"})

    def test_version(self):
        text = self.run_tenure("--version").stdout
        for word in ("version", "-V", "-v"):
            self.assertEqual(text, self.run_tenure(word).stdout)
        self.assertRegex(text, r"^tenure \d+\.\d+\.\d+ \(.+\), library \d+\.\d+\.\d+\n$")

    def test_unknown_command(self):
        result = self.run_tenure("repaly", code=BAD_INPUT)
        self.assertIn('"repaly"', result.stderr)

    def test_did_you_mean(self):
        for arguments, words in [
            (["repaly"], "Did you mean replay?"),
            (["help", "benhc"], "Did you mean bench?"),
            (["snapshot", "diffs"], "Did you mean diff?"),
            (["replay", "--drivr", "sim", "x"], "Did you mean --driver?"),
            (["replay", "--snapsho=x", "x"], "Did you mean --snapshot?"),
            (["bench", "--hlep"], "Did you mean --help?"),
            (["replay", "-paced", "x"], "Did you mean --paced?"),
            (["conf", "chunk_mbs"], "Did you mean chunk_mb?"),
            (["conf", "--conf", "chunk_mbs:4"], "The nearest is chunk_mb"),
        ]:
            with self.subTest(arguments=arguments):
                self.assertIn(words, self.run_tenure(*arguments, code=BAD_INPUT).stderr)
        for arguments in (["xyzzy"], ["replay", "--xyzzy"], ["replay", "-"], ["conf", "xyzzy"],
                          ["x" * 5000], ["replay", "--" + "x" * 5000]):
            result = self.run_tenure(*arguments, code=BAD_INPUT)
            self.assertNotIn("Did you mean", result.stderr)

    def test_a_word_that_is_no_command(self):
        """A snapshot's command, a file, a program: what was meant. Seen to fail without hints."""
        program = self.write("program", "#!/bin/sh\n")
        program.chmod(0o755)
        pickle = self.write("memory.pickle", "x")
        for arguments, words in [(["summary", pickle], "Did you mean `tenure snapshot summary`?"),
                                 ([pickle], f"`tenure snapshot summary {pickle}`"),
                                 (["snapshot", pickle], f"`tenure snapshot summary {pickle}`"),
                                 ([program], f"`tenure run {program}`")]:
            with self.subTest(arguments=arguments):
                self.assertIn(words, self.run_tenure(*arguments, code=BAD_INPUT).stderr)

    def test_settings_in_80_columns(self):
        text = self.run_tenure("conf").stdout
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        self.assertFalse([line for line in text.splitlines() if line != line.rstrip()])
        for setting in json.loads(self.run_tenure("conf", "--json").stdout):
            self.assertIn(" ".join(setting["help"].split()), " ".join(text.split()))

    def test_unknown_and_incomplete_options(self):
        for arguments, words in [
            (["replay", "--no-such"], "--no-such"),
            (["replay", "-x"], "-x"),
            (["replay"], "argument is missing"),
            (["replay", "--driver"], "needs a value"),
            (["replay", "--json=yes", "x"], "takes no value"),
            (["replay", "--check", "some", "x"], "full, ends or none"),
            (["replay", "--loops", "0", "x"], "from 1 to"),
            (["replay", "--loops", "2x", "x"], '"2x"'),
            (["replay", "--speed", "2", "x"], "--speed needs --paced"),
            (["replay", "--paced", "--speed", "0", "x"], "from 1 to"),
            (["replay", "--device", "-1", "x"], "--device must be"),
            (["doctor", "extra"], "unexpected argument extra"),
            (["doctor", "--driver", "opencl"], '"opencl"'),
            (["bench", "--only", "triple"], "no section \"triple\""),
            (["bench", "--threads", "1,,2"], "--threads must be"),
            (["bench", "--threads", "1000"], "--threads must be"),
            (["bench", "--rounds", "99999"], "--rounds must be"),
            (["conf", "--json", "--markdown"], "exclude each other"),
            (["conf", "no_such_key"], "no_such_key"),
        ]:
            with self.subTest(arguments=arguments):
                result = self.run_tenure(*arguments, code=BAD_INPUT)
                self.assertIn(words, result.stderr)
                self.assertEqual(result.stdout, "")

    def test_double_dash_ends_options(self):
        result = self.run_tenure("replay", "--", "--json", code=BAD_INPUT)
        self.assertIn("--json: cannot be opened", result.stderr)


class Conf(CommandTest):
    def settings(self, *arguments, environment=None):
        result = self.run_tenure("conf", "--json", *arguments, environment=environment)
        return {one["key"]: one for one in json.loads(result.stdout)}

    def test_json_describes_every_setting(self):
        settings = self.settings()
        self.assertGreater(len(settings), 3)
        for one in settings.values():
            self.assertEqual(set(one), {"key", "type", "default", "value", "allowed", "help",
                                        "at_start", "is_set"})
            self.assertTrue(one["help"])
            self.assertFalse(one["is_set"])

    def test_needs_no_driver(self):
        self.settings(environment={"TENURE_DRIVER": "/nonexistent/lib.so"})

    def test_markdown_has_a_row_per_setting(self):
        text = self.run_tenure("conf", "--markdown").stdout
        rows = re.findall(r"(?m)^\| `([a-z0-9_]+)` \|", text)
        self.assertEqual(rows, list(self.settings()))
        for line in text.splitlines():
            self.assertEqual(len(re.findall(r"(?<!\\)\|", line)), 7, line)

    def test_text_names_every_setting(self):
        text = self.run_tenure("conf").stdout
        for key in self.settings():
            self.assertRegex(text, rf"(?m)^{key} = ")
        self.assertNotIn("\033", text)

    def test_one_key(self):
        key = next(iter(self.settings()))
        self.assertEqual(list(self.settings(key)), [key])

    def test_option_and_environment_take_effect(self):
        setting = "per_process_memory_fraction"
        for arguments, environment in [(["--conf", f"{setting}:0.5"], None),
                                       ([], {"TENURE_CONF": f"{setting}:0.5"})]:
            one = self.settings(*arguments, environment=environment)[setting]
            self.assertTrue(one["is_set"])
            self.assertEqual(float(one["value"]), 0.5)

    def test_bad_settings(self):
        for text in ["no_such_key:1", "per_process_memory_fraction:nine", "nonsense", "a:b:c"]:
            with self.subTest(text=text):
                result = self.run_tenure("conf", "--conf", text, code=BAD_INPUT)
                self.assertIn("tenure conf: ", result.stderr)
                result = self.run_tenure("conf", environment={"TENURE_CONF": text},
                                         code=BAD_INPUT)
                self.assertIn("tenure conf: ", result.stderr)

    def test_nearest_key_is_named(self):
        result = self.run_tenure("conf", "--conf", "per_process_memory_fractoin:0.5",
                                 code=BAD_INPUT)
        self.assertIn("per_process_memory_fraction", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
