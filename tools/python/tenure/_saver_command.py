# SPDX-License-Identifier: Apache-2.0
"""``python3 -m tenure.memory_saver run``: a program that imports torch_memory_saver, with Tenure's
module of that name in front and Tenure under its PyTorch."""
from __future__ import annotations

import os
import subprocess
import sys
from typing import List, Optional

from . import _under, configure, memory_saver
from ._library import Error

_USAGE = """usage: python3 -m tenure.memory_saver run [--conf STR] [--] PROGRAM [ARGUMENTS]

Runs a program that imports torch_memory_saver, with Tenure under its PyTorch. PROGRAM is what
Python takes: a file, -m and a module, -c and code, or - for standard input. STR has settings, as in
TENURE_CONF. Exit codes: 2 wrong usage; else the program's."""


def _run(conf: Optional[str], program: List[str]) -> int:
    if sys.flags.ignore_environment or sys.flags.no_site:
        raise Error("Python was started with -I, -E or -S, which keeps Tenure out: leave it off")
    if conf:
        configure(conf)  # raises for a mistake
        before = os.environ.get("TENURE_CONF")
        os.environ["TENURE_CONF"] = f"{before},{conf}" if before else conf
    os.environ.update(memory_saver.environment())
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    sys.stdout.flush()
    sys.stderr.flush()
    python = _under.python()
    os.execv(python, [python] + flags + program)


def main() -> int:
    words = sys.argv[1:]
    if words[:1] in (["-h"], ["--help"]) or words[1:2] in (["-h"], ["--help"]):
        print(_USAGE)
        return 0
    conf = None
    if words[:1] == ["run"]:
        words = words[1:]
        if words[:1] == ["--conf"] and len(words) > 1:
            conf, words = words[1], words[2:]
        words = words[1:] if words[:1] == ["--"] else words
        if words and words not in (["-m"], ["-c"]) and words[0] != "--conf":
            try:
                return _run(conf, words)
            except (Error, ValueError) as error:
                print(f"tenure.memory_saver run: {error}", file=sys.stderr)
                return 2
    print(_USAGE, file=sys.stderr)
    return 2
