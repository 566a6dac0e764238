#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""That docs/design.md's list of what a miss decides is true: each row's file has the function, no
function has two rows, and what the sentence under the table names besides is in the sources and as
many as it says. And that there are not more than DECISIONS_MAX: who adds one takes one out.

  check_decisions.py [--root FOLDER]
  check_decisions.py --self-test

Exit codes: 0 all is so; 1 not so.
"""
import pathlib
import re
import sys
import tempfile

import checking

DECISIONS_MAX, BESIDES_MAX = 14, 3
PAGE = "docs/design.md"
TABLE = re.compile(r"^\| in `alloc/` \| function \| chooses \|\n\|[-|]+\|\n((?:\|.*\n)+)", re.M)
ROW = re.compile(r"^\| `([\w/.]+)` \| `(\w+)` \| .+ \|$", re.M)
BESIDES = re.compile(r"\n(\w+) more ask only\s[^:]*:([^.]*)\.")
NUMBERS = ["no", "one", "two", "three", "four", "five", "six"]


def is_defined(text, function):
    """Whether a source defines the function: a line begins with its type, and its body follows."""
    return re.search(rf"^[a-z]\w*[^;{{}}#]*\b\*?{function}\([^;{{}}]*\)\n\{{", text, re.M)


def check(root):
    text = (root / PAGE).read_text("utf-8")
    table = TABLE.search(text)
    if table is None:
        return [f"{PAGE} has no table of what a miss decides"]
    problems, rows = [], ROW.findall(table[1])
    if len(rows) != table[1].count("\n"):
        problems.append(f"{PAGE}: a row of the table names no file and function")
    for name, function in rows:
        path = root / "alloc" / name
        if not path.is_file() or not is_defined(path.read_text("utf-8"), function):
            problems.append(f"{function}: alloc/{name} does not define it")
    functions = [function for _, function in rows]
    problems += [f"{one}: has two rows" for one in sorted(set(functions))
                 if functions.count(one) > 1]
    if len(rows) > DECISIONS_MAX:
        problems.append(f"{len(rows)} decisions, at most {DECISIONS_MAX}")
    besides = BESIDES.search(text, table.end())
    if besides is None:
        return problems + [f"{PAGE}: no sentence says what asks besides"]
    named = re.findall(r"`(\w+)`\s+\(", besides[2])
    if NUMBERS.index(besides[1].lower()) != len(named) or len(named) > BESIDES_MAX:
        problems.append(f"{besides[1]} more are said to ask, named are {len(named)}, "
                        f"at most {BESIDES_MAX}")
    sources = [path.read_text("utf-8") for path in sorted((root / "alloc").rglob("*.c"))]
    problems += [f"{one}: no source defines it" for one in named
                 if not any(is_defined(source, one) for source in sources)]
    return problems


def self_test():
    def problems(page, source):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in ((PAGE, page), ("alloc/miss/way.c", source)):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, "utf-8")
            return check(root)
    row = "| `miss/way.c` | `way` | which |\n"
    head = "\n| in `alloc/` | function | chooses |\n|---|---|---|\n"
    end = "\nTwo more ask only\nwhere it is used: `side_way` (sides), `tnri_way` (`ways_max`).\n"
    source = ("static int way(int a,\n               int b)\n{\n}\n\n"
              "static void *side_way(void)\n{\n}\n\nint tnri_way(void)\n{\n}\n")
    page = head + row + end
    assert problems(page, source) == [], problems(page, source)
    many = "".join(f"static int way{i}(void)\n{{\n}}\n" for i in range(DECISIONS_MAX + 1))
    rows = [f"| `miss/way.c` | `way{i}` | which |\n" for i in range(DECISIONS_MAX + 1)]
    assert problems(head + "".join(rows[1:]) + end, source + many) == []
    for wrong, text in ((end, source), (page.replace("way.c", "gone.c"), source),
                        (page, source.replace("int way(", "int awry(")),
                        (page, source.replace("int way(int a,\n               int b)\n{\n}",
                                              "int way(int a,\n               int b);")),
                        (head + row + row + end, source),
                        (head + row + "| all of them | | |\n" + end, source),
                        (head + "".join(rows) + end, source + many), (head + row, source),
                        (page.replace("Two", "Three"), source),
                        (page, source.replace("tnri_way", "tnri_go"))):
        assert problems(wrong, text), (wrong, text)
    print("ok")


if __name__ == "__main__":
    sys.exit(checking.main(__doc__, check, self_test))
