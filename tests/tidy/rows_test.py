#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/test runs the rows that it says, each in a folder that nothing else changes meanwhile, and
counts what could not be built.

cmake, ctest and the compilers are stand-ins, which write down what they were asked for.

Seen to fail: with shares_folder() always false; without the wait for the builder; with the next
row's build begun after the tests; without the target of `release`; with a build that failed
forgotten (build_row says nothing); with the regular expression of --changed left out.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TEST = pathlib.Path(__file__).resolve().parents[2] / "tools" / "test"
STANDS_IN = {
    "tools/setup": "exit 0",
    "bin/cmake": '''
case $1 in
    -S) echo "configure $4" >>"$ASKED"; mkdir -p "$4" ;;
    --build) sleep 0.1; echo "build $2 ${6:-}" >>"$ASKED"; [[ $2 != "$BROKEN" ]] ;;
esac''',
    "bin/ctest": '''
echo "test $2 ${*:6}" >>"$ASKED"
for ((i = 0; i < 600; i++)); do
    [[ -n $MEANWHILE ]] || { sleep 0.5; break; }
    grep -q "$MEANWHILE" "$ASKED" && break
    sleep 0.1
done
echo "1/1 Test  #1: one ....   Passed    0.01 sec"
echo "tested $2" >>"$ASKED"''',
    "tests/changed.py": "import sys\nprint('one', sys.argv[-1], sep='\\n')",
    # Makes a program that runs, as find_tsan() wants it.
    "bin/clang": 'cp "$(command -v true)" "${@: -1}"',
}


class Rows(unittest.TestCase):
    def run_rows(self, *arguments, broken="", meanwhile=""):
        """The exit code, what was printed, and what was asked for, in this order. A row's tests
        wait a minute for `meanwhile`."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for place, text in STANDS_IN.items():
                path = folder / place
                path.parent.mkdir(exist_ok=True)
                path.write_text(f"#!/usr/bin/env bash\n{text}\n")
                path.chmod(0o755)
            script = folder / "tools/test"
            script.write_bytes(TEST.read_bytes())
            asked = folder / "asked"
            done = subprocess.run(
                ["bash", script, *arguments], text=True, capture_output=True, timeout=300,
                check=False, env={**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}",
                                  "ASKED": str(asked), "BROKEN": broken,
                                  "MEANWHILE": meanwhile})
            return done.returncode, done.stdout, asked.read_text().splitlines()

    def rows_tested(self, asked):
        return [line.split()[1].rpartition("/")[2] for line in asked if line.startswith("test ")]

    def left_out(self, asked, row):
        """The labels of tests that do not run, for each time that the row's folder is tested."""
        return [words[words.index("-LE") + 1] if "-LE" in words else None
                for words in map(str.split, asked)
                if words[:2] == ["test", f"build-test/{row}"]]

    def test_the_short_run(self):
        next_build = "build build-test/asan "
        code, said, asked = self.run_rows(meanwhile=next_build)
        self.assertEqual(code, 0, said)
        self.assertEqual(self.rows_tested(asked), ["debug", "asan", "tsan", "release", "debug"])
        self.assertIn("build build-test/tsan tests_threads", asked)
        self.assertIn("build build-test/release tests_release", asked)
        self.assertTrue(any(line.startswith("test build-test/release -L ^release$")
                            for line in asked), asked)
        self.assertEqual(self.left_out(asked, "debug"), ["tidy|long|whole", "whole"])
        self.assertEqual(said.splitlines()[-1], "5 passed, 0 failed, 0 skipped")
        self.assertLess(asked.index(next_build), asked.index("tested build-test/debug"))

    def test_the_whole_run(self):
        _, _, asked = self.run_rows("--whole")
        self.assertEqual(self.rows_tested(asked),
                         ["debug", "asan", "tsan", "valgrind", "release", "debug"])
        self.assertEqual(self.left_out(asked, "debug"), ["tidy|long", None])
        self.assertIn("build build-test/release ", asked)
        self.assertTrue(any(line.startswith("test build-test/release -LE")
                            for line in asked), asked)

    def test_a_row_that_was_asked_for(self):
        for row in ("valgrind", "release"):
            _, _, asked = self.run_rows("--row", row)
            self.assertEqual(self.rows_tested(asked), [row])

    def test_what_only_the_whole_run_has(self):
        """Who asks for a test by name gets it."""
        for arguments, labels in ((("--fast",), "long|whole"), (("--fast", "--whole"), "long"),
                                  (("--row", "debug", "--match", "wheel"), "tidy|long")):
            _, _, asked = self.run_rows(*arguments)
            self.assertEqual(self.left_out(asked, "debug"), [labels])

    def test_a_row_that_cannot_be_built(self):
        code, said, asked = self.run_rows(broken="build-test/asan")
        self.assertEqual(code, 1)
        self.assertEqual(self.rows_tested(asked), ["debug", "tsan", "release", "debug"])
        self.assertIn("asan: not built", said)
        self.assertEqual(said.splitlines()[-1], "4 passed, 1 failed, 0 skipped")

    def test_a_folder_is_let_alone_while_it_is_tested(self):
        _, _, asked = self.run_rows("--row", "debug", "--row", "tidy")
        self.assertEqual([line.split()[0] for line in asked],
                         ["configure", "build", "test", "tested", "configure", "test", "tested"])

    def test_what_a_change_reaches(self):
        code, said, asked = self.run_rows("--changed", "v1")
        self.assertEqual(code, 0, said)
        self.assertEqual(self.rows_tested(asked), ["debug"])
        self.assertEqual(self.left_out(asked, "debug"), ["long"])
        self.assertIn("-R ^(one|v1)$", [line for line in asked if line.startswith("test ")][0])
        asked = self.run_rows("--changed")[2]
        self.assertIn("-R ^(one|HEAD)$", [line for line in asked if line.startswith("test ")][0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
