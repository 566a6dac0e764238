#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does the fuzzer find bugs? Applies the mutants (mutants.py) one at a time to a scratch copy of
the tree, builds the library, and lets the fuzzer look for each, within a bound.

    run_mutants.py --check                 the texts are all there; builds nothing
    run_mutants.py SCRATCH [NAME...]       all of them, or some

SCRATCH is a folder for the copy and its build; it is made, and used again the next time.
--operations N bounds the search (default 4,000,000); --survivors-ok makes survivors no failure.
The table goes to stdout, and as Markdown to --markdown FILE. Exit code 1: somebody survived, or a
text was not found."""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
from mutants import HOST, MUTANTS, ODD, PARKED, RANGES, UNIT_TESTS  # noqa: E402

PARTS = ("alloc", "lifetime", "capture", "tools", "tests", "docs", "CMakeLists.txt", "LICENSE")
OPERATIONS_EACH = 10000
# What the fuzzer must be asked for, and the mutants that need it.
ASKED = {"--park": PARKED, "--odd": ODD, "--host": HOST, "--ranges": RANGES}
# What a unit test needs besides its program.
TARGETS = {"unit_annotate": ["nvtx_tool"]}


def check():
    """Every text is in its file exactly once, and names are not used twice."""
    wrong = []
    names = [name for name, *_ in MUTANTS]
    wrong += [f"{name}: the name is used twice" for name in set(names) if names.count(name) > 1]
    wrong += [f"{name}: has a unit test but is no mutant" for name in UNIT_TESTS
              if name not in names]
    wrong += [f"{name}: is listed for {option} but is no mutant"
              for option, listed in ASKED.items() for name in listed if name not in names]
    for name, file, text, replacement, _ in MUTANTS:
        count = (ROOT / file).read_text().count(text)
        if count != 1:
            wrong.append(f"{name}: its text is in {file} {count} times, not once")
        if text == replacement:
            wrong.append(f"{name}: changes nothing")
    return wrong


def run(command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          check=False, **options)


def files_of(root):
    """The files of a tree that a build needs, relative to it."""
    found = set()
    for part in PARTS:
        start = root / part
        for path in [start] if start.is_file() else start.rglob("*"):
            if path.is_file() and "node_modules" not in path.parts:
                found.add(path.relative_to(root))
    return found


def mirror(root, target):
    """Makes the target a copy. Writes only what differs, so that a build that is there stays good;
    removes what is gone: CMake builds each folder of tests that it finds."""
    files = files_of(root)
    for path in files_of(target) - files:
        (target / path).unlink()
    for path in sorted(files):
        copy = target / path
        if copy.exists() and copy.read_bytes() == (root / path).read_bytes():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / path, copy)


class Scratch:
    """A copy of the tree with its build of some targets."""

    def __init__(self, folder, *targets):
        self.source, self.build = folder / "source", folder / "build"
        mirror(ROOT, self.source)
        self.must(run(["cmake", "-S", self.source, "-B", self.build, "-DTNR_BUILD_TESTS=ON",
                       "-DCMAKE_BUILD_TYPE=Release", "-DTNR_CHECK=1"]))
        for target in targets:
            self.must(self.make(target))

    @staticmethod
    def must(result):
        if result.returncode != 0:
            sys.exit(result.stdout[-3000:] + result.stderr[-3000:])

    def make(self, target):
        return run(["cmake", "--build", self.build, "--target", target, "-j", "2"])

    def mutate(self, file, text, replacement):
        path = self.source / file
        whole = (ROOT / file).read_text()
        path.write_text(whole.replace(text, replacement))

    def restore(self, file):
        (self.source / file).write_text((ROOT / file).read_text())

    def fuzz(self, operations, *more):
        """The fuzzer's report."""
        programs = max(1, operations // OPERATIONS_EACH)
        result = run([self.build / "bin" / "tenure", "fuzz", "--json", "--no-shrink", "--seeds",
                      f"1..{programs}", "--ops", OPERATIONS_EACH, "--out", self.build,
                      *more])
        try:
            return json.loads(result.stdout)
        except ValueError:
            sys.exit(f"the fuzzer gave no report: {result.stdout}{result.stderr}")


def kept_that_fails(scratch):
    """The first kept case that does not give what it must; None if all do."""
    for program in sorted((ROOT / "tests" / "kept").glob("*.txt")):
        if program.name != "CMakeLists.txt" and run(
                [scratch.build / "bin" / "tenure", "fuzz", "--strict", "--replay",
                 program]).returncode != 0:
            return program.stem
    return None


def unit_that_fails(scratch, name):
    """The unit test that is there for this mutant, if it fails."""
    test = UNIT_TESTS.get(name)
    if test is None:
        return None
    for target in (f"test_{test}", *TARGETS.get(test, ())):
        scratch.must(scratch.make(target))
    result = run(["ctest", "--test-dir", scratch.build, "-R", f"^{test}$"])
    if "100% tests passed" in result.stdout:
        return None
    if "The following tests FAILED" not in result.stdout:  # it did not run
        sys.exit(result.stdout[-3000:] + result.stderr[-3000:])
    return test


def hunt(scratch, mutant, operations):
    name, file, text, replacement, what = mutant
    row = {"name": name, "what": what, "killed_by": "", "operations": None, "seed": None}
    began = time.monotonic()
    scratch.mutate(file, text, replacement)
    try:
        built = scratch.make("tenure")
        if built.returncode != 0:
            row["killed_by"] = "does not compile"
            print(built.stdout[-2000:] + built.stderr[-2000:], file=sys.stderr)
            return row
        report = scratch.fuzz(operations, *(option for option, listed in ASKED.items()
                                            if name in listed))
        kept = None if "failure" in report else kept_that_fails(scratch)
        unit = None if "failure" in report or kept else unit_that_fails(scratch, name)
    finally:
        scratch.restore(file)
    row["seconds"] = round(time.monotonic() - began, 1)
    if "failure" in report:
        failure = report["failure"]
        row.update(killed_by=f"{failure['verdict']}: {failure['check']}",
                   operations=failure["operations_before"], seed=failure["seed"])
    elif kept:
        row["killed_by"] = f"kept case: {kept}"
    elif unit:
        row["killed_by"] = f"unit test: {unit}"
    return row


def markdown(rows, commit):
    lines = [f"Commit {commit}.", "", "| mutant | what is wrong | killed by | seed | operations |",
             "|---|---|---|---|---|"]
    for row in rows:
        lines.append(f"| {row['name']} | {row['what']} | {row['killed_by'] or '**survived**'} | "
                     f"{row['seed'] if row['seed'] is not None else ''} | "
                     f"{row['operations'] if row['operations'] is not None else ''} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scratch", nargs="?", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--operations", type=int, default=4000000)
    parser.add_argument("--survivors-ok", action="store_true")
    parser.add_argument("--markdown", type=pathlib.Path)
    options = parser.parse_args()
    wrong = check()
    if wrong or options.check:
        print("\n".join(wrong) or f"{len(MUTANTS)} mutants, all texts found")
        return 1 if wrong else 0
    if options.scratch is None:
        parser.error("a scratch folder is needed")
    scratch = Scratch(options.scratch.resolve(), "tenure_cli", "tenure_simcuda")
    clean = scratch.fuzz(options.operations // 10)
    if "failure" in clean:
        sys.exit(f"the library fails without a mutant: {clean['failure']}")
    rows = []
    for mutant in MUTANTS:
        if options.names and mutant[0] not in options.names:
            continue
        row = hunt(scratch, mutant, options.operations)
        rows.append(row)
        print(f"{row['name']:24} {row['killed_by'] or 'SURVIVED':36} seed {row['seed']}, "
              f"{row['operations']} operations, {row.get('seconds')} s", flush=True)
        if options.markdown:
            options.markdown.write_text(markdown(rows, clean["commit"]))
    killed = [row["operations"] for row in rows if row["operations"] is not None]
    survivors = [row["name"] for row in rows if not row["killed_by"]]
    print(f"\n{len(rows)} mutants, {len(rows) - len(survivors)} killed" +
          (f", in the median after {statistics.median(killed):.0f} operations" if killed else "") +
          (f"; survivors: {', '.join(survivors)}" if survivors else ""))
    return 1 if survivors and not options.survivors_ok else 0


if __name__ == "__main__":
    sys.exit(main())
