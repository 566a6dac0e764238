#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs both checks over a folder of snapshots.

    check_files.py FOLDER SCHEMA
    check_files.py --replay TENURE TRACES FOLDER SCHEMA

The second replays every trace first, each with a snapshot in both formats. Files with "complete"
in their names must have a history without a gap.

Exit codes: 0 all is well; 1 something is not, and is named; 2 wrong usage, or nothing to check.
"""
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def run(*command):
    result = subprocess.run([sys.executable, "-B", *map(str, command)], check=False)
    return result.returncode


def has_jsonschema():
    return subprocess.run([sys.executable, "-c", "import jsonschema"], check=False,
                          capture_output=True).returncode == 0


def replay(tenure, traces, folder):
    folder.mkdir(parents=True, exist_ok=True)
    names = sorted(traces.glob("*.csv.gz"))
    for end in ("json", "pickle"):
        subprocess.run([tenure, "replay", "--driver", "sim", "--check", "none", "--snapshot",
                        str(folder / f"%s-complete.{end}"), *map(str, names)], check=True,
                       stdout=subprocess.DEVNULL)
    return len(names)


def main():
    arguments = sys.argv[1:]
    expected = None
    if arguments[:1] == ["--replay"]:
        _, tenure, traces, *arguments = arguments
        expected = replay(tenure, pathlib.Path(traces), pathlib.Path(arguments[0]))
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder, schema = map(pathlib.Path, arguments)
    worst = 0
    count = {"json": 0, "pickle": 0}
    for path in sorted(folder.iterdir()):
        kind = path.name.removesuffix(".gz").rsplit(".", 1)[-1].replace("pkl", "pickle")
        if kind not in count:
            continue
        count[kind] += 1
        complete = ["--complete"] if "complete" in path.name else []
        if kind == "json":
            # The schema of a file with a million records takes minutes; the small ones have it all.
            small = path.stat().st_size < 200_000 and has_jsonschema()
            status = run(HERE / "check_snapshot.py", *complete, path,
                         *(["--schema", schema] if small else []),
                         *(["--settled"] if complete else []))
        else:
            status = run(HERE / "check_viewer.py", *complete, path)
        worst = max(worst, status)
    if not has_jsonschema():
        print("the schema was not checked: install python3-jsonschema")
    if 0 in count.values() or (expected is not None and set(count.values()) != {expected}):
        print(f"there are {count} files to check", file=sys.stderr)
        return 2
    return 1 if worst else 0


if __name__ == "__main__":
    sys.exit(main())
