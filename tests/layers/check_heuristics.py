#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""That each number of alloc/base/heuristics.h has its evidence: the commit of a row that was kept
in docs/benchmarks/changes.csv; or, for what only bounds work, rows in heuristics.csv there, which
show that half and twice of it change no trace.

  check_heuristics.py [--root FOLDER]
  check_heuristics.py --self-test

Exit codes: 0 all is so; 1 not so.
"""
import collections
import csv
import pathlib
import re
import sys
import tempfile

import checking

HEADER = "alloc/base/heuristics.h"
NUMBER = re.compile(r"^    (TNRI_\w+) = ([^,]+),(\s+/\* \[(\w+)\])?", re.M)


def rows(path):
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(line for line in lines if not line.startswith("# ")))


def value_of(text):
    shifted = re.fullmatch(r"(\d+) << (\d+)", text)
    return int(shifted[1]) << int(shifted[2]) if shifted else int(text)


def check(root):
    kept = {row["commit"] for row in rows(root / "docs/benchmarks/changes.csv")
            if row["decision"] == "kept"}
    tried = collections.defaultdict(list)
    for row in rows(root / "docs/benchmarks/heuristics.csv"):
        tried[row.pop("number"), row.pop("value")].append(row)
    as_they_are = tried["all", "as they are"]
    problems = []
    numbers = NUMBER.findall((root / HEADER).read_text("utf-8"))
    for name, text, _, evidence in numbers:
        if evidence == "bound":
            value = value_of(text)
            problems += [f"{name}: with {other}, heuristics.csv has no trace, or another result"
                         for other in (value // 2, value * 2)
                         if not as_they_are or tried[name, str(other)] != as_they_are]
        elif evidence not in kept:
            problems.append(f"{name}: [{evidence}] is no row of changes.csv that was kept")
    return problems if numbers else [f"{HEADER} has no numbers"]


def self_test():
    def problems(line):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in ((HEADER, "enum {\n" + line + "\n};\n"),
                               ("docs/benchmarks/changes.csv",
                                "commit,decision\nabc,kept\ndef,dropped\n"),
                               ("docs/benchmarks/heuristics.csv",
                                "# made\nnumber,value,moved\nall,as they are,3\nTNRI_A,4,3\n"
                                "TNRI_A,16,3\nTNRI_C,4,3\nTNRI_C,16,2\n")):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, "utf-8")
            return check(root)
    assert problems("    TNRI_A = 8, /* [abc] why */") == []
    assert problems("    TNRI_A = 1 << 3, /* [bound] why */") == []
    for line in ("    TNRI_A = 8,", "    TNRI_A = 8, /* why */", "    TNRI_A = 8, /* [def] why */",
                 "    TNRI_A = 8, /* [123] why */", "    TNRI_A = 9, /* [bound] why */",
                 "    TNRI_B = 8, /* [bound] why */", "    TNRI_C = 8, /* [bound] why */", ""):
        assert problems(line), line
    print("ok")


if __name__ == "__main__":
    sys.exit(checking.main(__doc__, check, self_test))
