# SPDX-License-Identifier: Apache-2.0
"""The command line that the checks of this folder share."""
import argparse
import pathlib


def main(text, check, self_test):
    """--self-test runs it; else prints what check(root) finds. Returns the exit code."""
    parser = argparse.ArgumentParser(description=text.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent.parent)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return 0
    problems = check(arguments.root)
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems")
    return 1 if problems else 0
