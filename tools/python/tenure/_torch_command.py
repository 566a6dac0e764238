# SPDX-License-Identifier: Apache-2.0
"""``python3 -m tenure.torch``: build, status, run."""
from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import subprocess
import sys
from typing import List, Optional, Tuple

from . import _under, configure
from ._library import Error


def _status(is_json: bool = False) -> int:
    """Prints how Tenure would serve this PyTorch."""
    native = importlib.import_module("tenure._torch_native")
    version = importlib.import_module("torch").__version__
    path, problem = native.path(), native.why_not()
    if is_json:
        is_built = bool(native.is_built())
        kind = "native" if is_built or problem is None else "pluggable"
        print(json.dumps({"torch": str(version), "kind": kind, "is_built": is_built,
                          "library": path, "problem": problem}))
        return 0 if is_built else 1
    if native.is_built():
        print(f"PyTorch {version}: native: {path}")
        return 0
    if problem is None:
        print(f"PyTorch {version}: native, once it is compiled (not built): install() does it, or "
              f"`python3 -m tenure.torch build`: {path}")
    else:
        print(f"PyTorch {version}: pluggable (not built): {problem}")
    return 1


def _run(conf: Optional[str], words: List[str]) -> int:
    """Replaces this process by Python with the program's arguments and Tenure under it. So
    everything that the program sees of Python is as usual. The program's children that are Python
    have Tenure, too."""
    if sys.flags.ignore_environment or sys.flags.no_site:
        raise Error("Python was started with -I, -E or -S, which keeps Tenure out: leave it off")
    if conf:
        configure(conf)  # raises for a mistake
        before = os.environ.get("TENURE_CONF")
        os.environ["TENURE_CONF"] = f"{before},{conf}" if before else conf
    os.environ.update(_under.environment("torch"))
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    sys.stdout.flush()
    sys.stderr.flush()
    python = _under.python()
    os.execv(python, [python] + flags + words)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m tenure.torch", description="Tenure for the PyTorch that this Python "
        "imports. Exit codes: 0 good; 1 not built, or it cannot be; 2 wrong usage; of run, the "
        "program's.")
    verbs = parser.add_subparsers(dest="what", required=True)
    verbs.add_parser("build", help="compile the allocator class for this PyTorch")
    status = verbs.add_parser("status", help="say how Tenure would serve this PyTorch, and why")
    status.add_argument("--json", action="store_true", help="one object on stdout")
    run = verbs.add_parser(
        "run", help="run a program that knows nothing of Tenure",
        usage="%(prog)s [--conf STR] [--] PROGRAM [ARGUMENTS]", epilog="PROGRAM is what Python "
        "takes: a file, -m and a module, -c and code, or - for standard input.")
    run.add_argument("--conf", metavar="STR", help="settings, as in TENURE_CONF")
    return parser


def _parted(words: List[str]) -> Tuple[List[str], List[str]]:
    """The command's own words, and the program's, which may begin with options of Python's."""
    own = words[:1]
    if own == ["run"]:
        rest = words[1:]
        while rest and rest[0].startswith("--") and rest[0] != "--" or rest[:1] == ["-h"]:
            count = 2 if rest[0] == "--conf" else 1
            own, rest = own + rest[:count], rest[count:]
        return own, rest[1:] if rest[:1] == ["--"] else rest
    return words, []


def main() -> int:
    parser = _parser()
    own, program = _parted(sys.argv[1:])
    if own and os.path.isfile(own[0]):
        parser.error(f"to run a program: python3 -m tenure.torch run {' '.join(own)}")
    options = parser.parse_args(own)
    try:
        if options.what != "run" and importlib.util.find_spec("torch") is None:
            raise Error(f"this Python ({sys.executable}) has no PyTorch. Install it there, or use "
                        "the Python that has it")
        if options.what == "run":
            if not program or program in (["-m"], ["-c"]):
                parser.error("run needs a program: a file, -m and a module, -c and code, or -")
            return _run(options.conf, program)
        if options.what == "build":
            importlib.import_module("tenure._torch_native").build()
        return _status(options.what == "status" and options.json)
    except (Error, ValueError) as error:
        print(f"tenure.torch {options.what}: {error}", file=sys.stderr)
        return 2 if options.what == "run" else 1
