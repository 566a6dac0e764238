# SPDX-License-Identifier: Apache-2.0
"""asleep.py and checkpoint.py on the simulated device, with the engine that needs no PyTorch: that
they find all well, and that they say so where it is not. There are no driver's checkpoints here; a
stop of the process stands in for them."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

OK, WRONG, SKIPPED = 0, 1, 77


class Programs(unittest.TestCase):
    def run_program(self, name, *options, code=OK):
        with tempfile.TemporaryDirectory() as folder:
            ran = subprocess.run(
                [sys.executable, "-B", str(pathlib.Path(__file__).with_name(name)), "--tenure",
                 os.environ["TENURE"], "--engine", "driver", "--driver", os.environ["SIMULATED"],
                 "--weight-mib", "2", *options], capture_output=True, text=True, check=False,
                env={**os.environ, "TENURE_SIM_SHARED": os.path.join(folder, "device")})
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        return ran.stdout

    def test_asleep(self):
        said = self.run_program("asleep.py", "--cycles", "2", "--rounds", "1", "--graphs", "4",
                                "--churn-bits", "21")
        self.assertRegex(said, "ok  Tenure asleep +0.0 MiB")
        self.assertRegex(said, "ok  outputs unequal, of 2 cycles +0 ")

    def test_lost_contents_are_noticed(self):
        said = self.run_program("asleep.py", "--cycles", "2", "--rounds", "1", "--graphs", "4",
                                "--churn-bits", "21", "--lose", code=WRONG)
        self.assertRegex(said, "NO  outputs unequal, of 2 cycles +2 ")

    def test_checkpoints(self):
        said = self.run_program("checkpoint.py", "--only", "dropped", "--only", "awake",
                                "--stand-in")
        self.assertEqual(said.count("outputs the same"), 2)

    def test_checkpoints_that_lose_something(self):
        said = self.run_program("checkpoint.py", "--only", "asleep", "--stand-in", "--lose",
                                code=WRONG)
        self.assertIn("outputs NOT the same", said)

    def test_drivers_that_will_not(self):
        said = self.run_program("checkpoint.py", "--only", "asleep", "--stand-in", "Checkpoint",
                                code=SKIPPED)
        self.assertIn("cuCheckpointProcessCheckpoint: CUDA_ERROR_NOT_SUPPORTED", said)
        self.assertIn("goes on as before", said)
        said = self.run_program("checkpoint.py", code=SKIPPED)
        self.assertIn("has no cuCheckpointProcessLock", said)


if __name__ == "__main__":
    unittest.main()
