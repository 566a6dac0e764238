#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the documentation says what the sources and the command say.

    check_docs.py configuration TENURE      docs/configuration.md has what `TENURE conf --markdown`
                                            prints
    check_docs.py errors                    docs/errors.md has every status, with number and text
    check_docs.py sources                   docs/hacking.md has the ranks of locks and the states of
                                            blocks as the headers comment them
    check_docs.py links                     every link between pages leads to what is there; with
                                            `--root DIR` also in an installed share/doc/tenure
    check_docs.py lengths                   pages that are read in one go are not too long, and
                                            docs/README.md leads to every page
    check_docs.py self                      each check finds planted mistakes

`--update` writes the configuration and the tables into the pages instead of comparing.
`--root DIR` names another checkout.

Exit codes: 0 they agree; 1 they do not; 2 wrong usage.
"""
import argparse
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile

BEGIN, END = "<!-- begin: {} -->\n", "<!-- end: {} -->\n"
STATUS = re.compile(r'^\s*X\((\w+), (\d+), "((?:[^"\\]|\\.)*)"\)', re.M)


def page_split(text, mark):
    """The page before, inside and after the part between the two marks, or None."""
    begin, end = BEGIN.format(mark), END.format(mark)
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        return None
    head, rest = text.split(begin)
    inside, tail = rest.split(end)
    return head + begin, inside, end + tail


def part_check(page, mark, wanted, update):
    """Compares the marked part of the page with what it should be. Returns what is wrong."""
    parts = page_split(page.read_text("utf-8"), mark)
    if parts is None:
        return [f"{page}: has not one part between the marks of \"{mark}\""]
    head, inside, tail = parts
    if inside == wanted:
        return []
    if update:
        page.write_text(head + wanted + tail, "utf-8")
        print(f"{page}: updated")
        return []
    difference = difflib.unified_diff(inside.splitlines(), wanted.splitlines(), str(page), mark,
                                      lineterm="", n=0)
    return [f"{page}: differs from {mark}; check_docs.py --update writes it", *difference]


def configuration_check(root, printed, update):
    return part_check(root / "docs/configuration.md", "tenure conf --markdown", printed, update)


def enumerators(text, prefix):
    """Of an enum: names without the prefix, and the comment behind each."""
    found = re.findall(rf"^    {prefix}(\w+)[^/\n]*/\*(.*?)\*/", text, re.M | re.S)
    return [(name, re.sub(r"\s*\n\s*\*\s*", " ", comment).strip()) for name, comment in found]


def sources_check(root, update):
    ranks = enumerators((root / "alloc/base/lock.h").read_text("utf-8"), "TNRI_RANK_")
    table = "| rank | protects |\n|---|---|\n"
    table += "".join(f"| `TNRI_RANK_{name}` | {comment} |\n" for name, comment in ranks)
    wrong = part_check(root / "docs/hacking.md", "alloc/base/lock.h", table, update)
    header = (root / "alloc/memory/space/block.h").read_text("utf-8")
    listed = re.search(r"typedef enum tnri_state \{(.*?)\} tnri_state;", header, re.S)
    table = "| state | is | becomes |\n|---|---|---|\n"
    for name, comment in enumerators(listed[1] if listed else "", "TNRI_"):
        what, _, becomes = comment.partition(". Becomes: ")
        if not becomes:
            wrong.append(f"alloc/memory/space/block.h: TNRI_{name} does not say what it becomes")
        table += f"| `{name}` | {what} | {becomes} |\n"
    return wrong + part_check(root / "docs/hacking.md", "alloc/memory/space/block.h", table, update)


def errors_check(root):
    header = (root / "alloc/include/tenure/status.h").read_text("utf-8")
    statuses = STATUS.findall(header)
    if len(statuses) != header.count("    X("):
        return ["status.h: the list is not understood"]
    page = (root / "docs/errors.md").read_text("utf-8")
    wrong, headings = [], re.findall(r"^### (TNR_\w+), (\d+)\n\n> (.*)$", page, re.M)
    for name, number, text in statuses:
        if headings.count((f"TNR_{name}", number, text)) != 1:
            wrong.append(f"docs/errors.md: no section \"### TNR_{name}, {number}\" that begins "
                         f"with \"> {text}\"")
    known = {f"TNR_{name}" for name, _, _ in statuses}
    wrong += [f"docs/errors.md: there is no status {name}" for name, _, _ in headings
              if name not in known]
    for body in re.split(r"^### ", page, flags=re.M)[1:]:
        for word in ("**When.**", "**What to do.**"):
            if word not in body and not body.startswith("TNR_OK"):
                wrong.append(f"docs/errors.md: {body.split(',')[0]} has no \"{word}\"")
    return wrong


LINK = re.compile(r"\]\(\s*([^)\s]+)\)")
NAMED_LINK = re.compile(r"\[([\w-]+\.md)\]\(\s*([^)\s#]+)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.M | re.S)


def anchors_of(page):
    """What a viewer makes of its headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
            for heading in headings}


def links_check(root):
    wrong, count = [], 0
    for page in sorted([root / "README.md", *(root / "docs").rglob("*.md")]):
        text = CODE.sub("", page.read_text("utf-8"))
        wrong += [f"{page}: the link to {target} is named {name}"
                  for name, target in NAMED_LINK.findall(text) if pathlib.Path(target).name != name]
        for link in LINK.findall(text):
            target, _, anchor = link.partition("#")
            if ":" in target:
                continue
            count += 1
            found = page.parent / target if target else page
            if not found.exists():
                wrong.append(f"{page}: {link} leads nowhere")
            elif anchor and found.suffix == ".md" and anchor not in anchors_of(found):
                wrong.append(f"{page}: {link}: there is no such heading")
    return wrong if count else [f"{root}: there is no link to look at"]


LINES_MAX = {"docs/guide.md": 600, "docs/engines.md": 200, "docs/benchmarks.md": 200,
             "docs/README.md": 60, "docs/concepts.md": 60, "docs/limits.md": 100}
BYTES_MAX = {"docs/design.md": 26000}  # its tables have long lines


def lengths_check(root):
    wrong = []
    for name, most in LINES_MAX.items():
        count = (root / name).read_text("utf-8").count("\n")
        if count > most:
            wrong.append(f"{name} has {count} lines, and may have {most}: move detail to the page "
                         "that it belongs to")
    for name, most in BYTES_MAX.items():
        count = len((root / name).read_bytes())
        if count > most:
            wrong.append(f"{name} has {count} bytes, and may have {most}: what was tried belongs "
                         "into docs/benchmarks/changes.csv, what a function does into its header")
    index = (root / "docs/README.md").read_text("utf-8")
    wrong += [f"docs/README.md does not lead to {page.name}"
              for page in sorted((root / "docs").glob("*.md"))
              if page.name != "README.md" and f"({page.name}" not in index]
    return wrong


# ---- the checks checked -----------------------------------------------------------------------

def plant(root, folder, name, change):
    """Copies what the checks read into `folder`, with one file changed."""
    for path in (*LINES_MAX, *BYTES_MAX, "docs/configuration.md", "docs/errors.md",
                 "docs/hacking.md", "alloc/include/tenure/status.h", "alloc/base/lock.h",
                 "alloc/memory/space/block.h"):
        text = (root / path).read_text("utf-8")
        copy = folder / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(change(text) if path == name else text, "utf-8")


def links_self_check():
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder)
        (top / "docs").mkdir()
        (top / "docs/there.md").write_text("# There\n", "utf-8")
        for name, is_wrong in (("there.md", False), ("other.md", True)):
            (top / "README.md").write_text(f"[{name}](docs/there.md)\n", "utf-8")
            if bool(links_check(top)) != is_wrong:
                wrong.append(f"self: a link named {name}: {links_check(top)}")
    for link, is_wrong in (("there.md#a-b", False), ("there.md", False), ("#top-of-it", False),
                           ("https://x.y/z", False), ("gone.md", True), ("there.md#c", True),
                           ("#c", True)):
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            (top / "docs").mkdir()
            (top / "README.md").write_text("[fine](docs/there.md)", "utf-8")
            (top / "docs/there.md").write_text("# There\n## A, `B`\n", "utf-8")
            (top / "docs/here.md").write_text(f"# Top of it\n[`words`](\n{link})\n", "utf-8")
            if bool(links_check(top)) != is_wrong:
                wrong.append(f"self: the link {link}: {links_check(top)}")
    return wrong


def self_check(root):
    settings = (root / "docs/configuration.md").read_text("utf-8")
    table = page_split(settings, "tenure conf --markdown")[1]
    first = table.splitlines()[2]
    plants = [
        ("docs/guide.md", lambda text: text + "more\n" * 600, lambda top: lengths_check(top)[:1]),
        ("docs/design.md", lambda text: text + "history " * 3300,
         lambda top: lengths_check(top)[:1]),
        ("docs/README.md", lambda text: text.replace("(limits.md)", "(other.md)"), lengths_check),
        ("docs/configuration.md", lambda text: text.replace(first + "\n", "", 1),
         lambda top: configuration_check(top, table, False)),
        ("docs/errors.md", lambda text: text.replace("### TNR_ERR_BUSY, 21", "### TNR_ERR_BUSY", 1),
         errors_check),
        ("docs/errors.md", lambda text: text.replace("**What to do.**", "", 1), errors_check),
        ("docs/hacking.md", lambda text: text.replace("| `TNRI_RANK_HOST`", "| `TNRI_RANK`", 1),
         lambda top: sources_check(top, False)),
        ("alloc/base/lock.h", lambda text: text.replace("TNRI_RANK_EVENTS,", "TNRI_RANK_EVENT,", 1),
         lambda top: sources_check(top, False)),
        ("alloc/memory/space/block.h",
         lambda text: text.replace("Becomes: BINNED", "Then: BINNED", 1),
         lambda top: sources_check(top, False)),
        ("alloc/include/tenure/status.h",
         lambda text: text.replace("X(ERR_BUSY", 'X(ERR_NEW, 99, "new") \\\n    X(ERR_BUSY', 1),
         errors_check),
    ]
    wrong = links_self_check()
    for name, change, check in plants:
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            plant(root, top, None, None)
            if check(top):
                wrong.append(f"self: the unchanged tree fails: {check(top)[0]}")
            plant(root, top, name, change)
            if (top / name).read_text("utf-8") == (root / name).read_text("utf-8"):
                wrong.append(f"self: nothing was planted in {name}")
            if not check(top):
                wrong.append(f"self: a mistake planted in {name} is not found")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["configuration", "errors", "sources", "links", "lengths",
                                         "self"])
    parser.add_argument("tenure", nargs="?", help="the command, for configuration")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2])
    arguments = parser.parse_args()
    if arguments.what == "errors":
        wrong = errors_check(arguments.root)
    elif arguments.what == "sources":
        wrong = sources_check(arguments.root, arguments.update)
    elif arguments.what == "lengths":
        wrong = lengths_check(arguments.root)
    elif arguments.what == "links":
        wrong = links_check(arguments.root)
    elif arguments.what == "self":
        wrong = self_check(arguments.root)
    elif arguments.tenure is None:
        parser.error("configuration needs the path of the tenure command")
    else:
        printed = subprocess.run([arguments.tenure, "conf", "--markdown"], check=True,
                                 capture_output=True, text=True).stdout
        wrong = configuration_check(arguments.root, printed, arguments.update)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
