#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/test reads its counts from what ctest printed: every ending that ctest knows is counted.

A test that a signal ended was once counted as nothing: its row failed, but the sum did not say so.
"""
import pathlib
import re
import subprocess
import sys

# Of each ending of a test, the line that ctest 3.25 prints, and what must be read from it.
LINES = [
    ("  3/283 Test   #1: docs ..............................   Passed    2.24 sec",
     "docs\tPassed"),
    (" 10/283 Test  #27: cli_input .........................***Failed    0.73 sec",
     "cli_input\tFailed"),
    (" 11/283 Test  #28: gpu_fuzz ..........................***Skipped   0.04 sec",
     "gpu_fuzz\tSkipped"),
    (" 12/283 Test #229: model .............................***Timeout 300.02 sec",
     "model\tTimeout"),
    (" 13/283 Test #230: stress ............................***Exception: SegFault  0.21 sec",
     "stress\tException: SegFault"),
    (" 14/283 Test #231: a .......Subprocess aborted***Exception:   0.21 sec",
     "a\tSubprocess aborted"),
    (" 15/283 Test #232: a .......Subprocess killed***Exception:   0.21 sec",
     "a\tSubprocess killed"),
    (" 16/283 Test #233: abi ...............................***Not Run   0.00 sec",
     "abi\tNot Run"),
    ("        Start 265: unit_growable", None),
    ("100% tests passed, 0 tests failed out of 1", None),
    ("what a test printed: 1/2 ***Failed", None),
]


def expressions(script):
    """The expressions of tools/test."""
    found = re.findall(r"^CTEST_[A-Z]+='(.*)'$", script, re.MULTILINE)
    if not found:
        sys.exit("tools/test has no CTEST_... expressions to check")
    return found


def read(line, scripts):
    """What tools/test reads from one line of ctest; None if nothing."""
    command = ["sed", "-nE"]
    for script in scripts:
        command += ["-e", script]
    done = subprocess.run(command, input=line + "\n", capture_output=True, text=True, check=True)
    return done.stdout.rstrip("\n") or None


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    scripts = expressions((root / "tools/test").read_text())
    wrong = 0
    for line, expected in LINES:
        result = read(line, scripts)
        if result != expected:
            print(f"from: {line}\n  read {result!r}, expected {expected!r}")
            wrong = 1
    print(f"{len(LINES)} lines of ctest read")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
