#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables in README.md: of whole runs, made from runs.csv, and of mends that were taken back,
made from mends.csv, which mends.py prints.

    table.py --check | --update            compares the page with the data, or writes it
    table.py --add OUTPUT COMMIT COMMAND   adds to the data what a run has printed, and writes it

Seen to fail: with a number in the page, or in the data, changed.
"""
import csv
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
PAGE, DATA, MENDS = HERE / "README.md", HERE / "runs.csv", HERE / "mends.csv"
COLUMNS = "command commit parts programs all seed found seconds".split()
LAST = re.compile(r"(\d+) features, (?P<parts>\d) at a time: (?P<programs>\d+) of (?P<all>\d+) "
                  r"programs ran \(seed (?P<seed>\d+)\), (?P<found>\d+) found something; "
                  r"(?P<seconds>[\d.]+) s of processor time")


def rows_read(data):
    with data.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def row_add(output, commit, command):
    said = LAST.search(pathlib.Path(output).read_text(encoding="utf-8"))
    if not said:
        sys.exit(f"{output}: no run has ended there")
    rows = [*rows_read(DATA), {"command": command, "commit": commit, **said.groupdict()}]
    with DATA.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def runs_table():
    yield "| command | commit | programs | found something | processor time |"
    yield "|---|---|---|---|---|"
    for row in rows_read(DATA):
        yield (f"| `{row['command']}` | {row['commit']} | {int(row['programs']):,} of "
               f"{int(row['all']):,} | {int(row['found']):,} | {float(row['seconds']):.0f} s |")


def mends_table():
    yield "| without its mend | programs | found it | the first |"
    yield "|---|---|---|---|"
    for row in rows_read(MENDS):
        first = f"`{row['first']}`" if row["first"] else "none"
        yield f"| {row['what']} | {row['programs']} | {row['found']} | {first} |"


def page_made(page):
    for name, lines in (("runs.csv", runs_table()), ("mends.csv", mends_table())):
        begin, end = f"<!-- begin: {name} -->\n", f"<!-- end: {name} -->\n"
        before, rest = page.split(begin)
        page = before + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1]
    return page


def main(arguments):
    if len(arguments) == 4 and arguments[0] == "--add":
        row_add(*arguments[1:])
    elif arguments not in (["--check"], ["--update"]):
        print(__doc__, file=sys.stderr)
        return 2
    page = PAGE.read_text(encoding="utf-8")
    made = page_made(page)
    if arguments == ["--check"]:
        if page != made:
            print("README.md is not what runs.csv and mends.csv say; run table.py --update")
        return int(page != made)
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
