#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs both checks over a folder of snapshots.

    check_files.py [--convert TENURE] FOLDER SCHEMA
    check_files.py --replay TENURE TRACES FOLDER SCHEMA [WITHOUT]

--convert makes a pickle of each JSON file first, which is checked as well. The second form replays
every trace first, except one, each with a snapshot in both formats. Files with "complete" in their
names must have a history without a gap, with "stacks" a stack for each allocation and free.

Exit codes: 0 all is well; 1 something is not, and is named; 2 wrong usage, or nothing to check.
"""
import gzip
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


def text_bytes(path):
    return len(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())


def replay(tenure, traces, folder, without):
    folder.mkdir(parents=True, exist_ok=True)
    names = [path for path in sorted(traces.glob("*.csv.gz"))
             if path.name.split(".")[0] not in without]
    for old in folder.iterdir():
        old.unlink()
    for end in ("json", "pickle"):
        subprocess.run([tenure, "replay", "--driver", "sim", "--check", "none", "--snapshot",
                        str(folder / f"%s-complete.{end}"), *map(str, names)], check=True,
                       stdout=subprocess.DEVNULL)
    return len(names)


def convert(tenure, folder):
    for path in sorted(folder.glob("*.json")):
        subprocess.run([tenure, "snapshot", "convert", "--no-symbols", str(path),
                        str(path.with_name(f"converted-{path.stem}.pickle"))], check=True,
                       stderr=subprocess.DEVNULL)


def main():
    arguments = sys.argv[1:]
    expected = None
    if arguments[:1] == ["--convert"]:
        _, tenure, *arguments = arguments
        convert(tenure, pathlib.Path(arguments[0]))
    if arguments[:1] == ["--replay"]:
        _, tenure, traces, *arguments = arguments
        expected = replay(tenure, pathlib.Path(traces), pathlib.Path(arguments[0]), arguments[2:])
        arguments = arguments[:2]
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder, schema = map(pathlib.Path, arguments)
    has_schema = has_jsonschema()
    count = {"json": 0, "pickle": 0}
    groups = {}  # files that are checked in the same way, by how
    for path in sorted(folder.iterdir()):
        kind = path.name.removesuffix(".gz").rsplit(".", 1)[-1].replace("pkl", "pickle")
        if kind not in count:
            continue
        count[kind] += 1
        flags = ["--complete"] if "complete" in path.name else []
        if kind == "json":
            flags += ["--settled"] if "complete" in path.name else []
            # The schema of a file with a million records takes minutes; the small ones have it all.
            small = has_schema and text_bytes(path) < 200_000
            flags += ["--schema", str(schema)] if small else []
        elif "stacks" in path.name:
            flags += ["--stacks"]
        groups.setdefault((kind, *flags), []).append(path)
    worst = 0
    for (kind, *flags), paths in sorted(groups.items()):
        script = "check_snapshot.py" if kind == "json" else "check_viewer.py"
        worst = max(worst, run(HERE / script, *flags, *paths))
    if not has_schema:
        print("the schema was not checked: install python3-jsonschema")
    if 0 in count.values() or (expected is not None and set(count.values()) != {expected}):
        print(f"there are {count} files to check", file=sys.stderr)
        return 2
    return 1 if worst else 0


if __name__ == "__main__":
    sys.exit(main())
