# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command share: running it, and writing trace files for it.

Environment: TENURE is the command, TENURE_TEST_FAKES the folder of the fake drivers,
TENURE_TEST_SIMULATED the simulated device's library. The build sets all three.
"""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

TENURE = os.environ["TENURE"]
FAKES = pathlib.Path(os.environ["TENURE_TEST_FAKES"])
SIMULATED = os.environ["TENURE_TEST_SIMULATED"]
TRACES = pathlib.Path(__file__).resolve().parent.parent / "traces"

# A library with a sanitizer inside cannot be put under a program that has none.
IS_SANITIZED = b"__asan_init" in pathlib.Path(TENURE).read_bytes()

OK, CHECK_FAILED, BAD_INPUT, NO_DEVICE, NO_MEMORY = 0, 1, 2, 3, 4


class CommandTest(unittest.TestCase):
    """A test with a folder of its own for trace files."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_tenure(self, *arguments, code=OK, environment=None, timeout=1000,
                   stdin=subprocess.DEVNULL):
        """Runs the command and checks its exit code, or that it is one of several codes.

        A variable of the environment that is set to None is removed.
        """
        variables = dict(os.environ)
        for name, value in (environment or {}).items():
            if value is None:
                variables.pop(name, None)
            else:
                variables[name] = str(value)
        result = subprocess.run([TENURE, *map(str, arguments)], env=variables, text=True,
                                stdin=stdin, capture_output=True, timeout=timeout,
                                check=False)
        codes = code if isinstance(code, (list, tuple)) else [code]
        self.assertIn(result.returncode, codes,
                      f"tenure {' '.join(map(str, arguments))}\n"
                      f"stdout:\n{result.stdout}\nstderr:\n{result.stderr}")
        return result

    def write(self, name, content):
        """Writes a file of text or bytes into the test's folder."""
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def json_lines(self, result):
        return [json.loads(line) for line in result.stdout.splitlines()]
