#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tidy.py [--root DIR]: checks the sources themselves.

A rule is a generator that takes a Tree and yields (path, line, text). The rules are in RULES by
name; self_test.py plants a violation of each. What is checked are the files that git tracks or
would track; without git, all files outside build directories.

Exit codes: 0 tidy, 1 problems found.
"""
import argparse
import ast
import glob
import itertools
import os
import pathlib
import re
import subprocess
import sys

LAYERS = ("alloc", "lifetime", "capture")  # lowest first
TOP_LEVEL = {"CMakeLists.txt", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md",
             "SECURITY.md", "pyproject.toml", "tools", "tests", "docs", *LAYERS}
LICENCES = "docs/licenses/"  # texts of others, as they wrote them
NO_LICENCE_LINE = (".md", ".svg", ".json", ".csv", ".tsv", ".pickle", "/py.typed")
LINE_LENGTH = 100
FUNCTION_LINES = 70
FILE_LINES = 800


class Tree:
    """The files of a checkout: their names, texts, and C code without comments and strings."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.files = sorted(self._list())
        self._texts, self._codes = {}, {}

    def _list(self):
        if (self.root / ".git").exists():
            listed = subprocess.run(
                ["git", "-C", str(self.root), "ls-files", "-z", "--cached", "--others",
                 "--exclude-standard"], check=True, capture_output=True, text=True).stdout
            names = [name for name in listed.split("\0") if name]
        else:
            names = [str(path.relative_to(self.root)) for path in self.root.rglob("*")
                     if not path.relative_to(self.root).parts[0].startswith("build")]
        return [name for name in names if (self.root / name).is_file()]

    def text(self, name):
        """The file's text, or None if it is not text."""
        if name not in self._texts:
            data = (self.root / name).read_bytes()
            try:
                self._texts[name] = None if b"\0" in data else data.decode("utf-8")
            except UnicodeDecodeError:
                self._texts[name] = None
        return self._texts[name]

    def code(self, name):
        """Lines of a C file with comments and the insides of literals blanked."""
        if name not in self._codes:
            self._codes[name] = strip_c(self.text(name) or "").split("\n")
        return self._codes[name]

    def texts(self):
        return [name for name in self.files if self.text(name) is not None]

    def c_files(self, *folders):
        return [name for name in self.texts() if name.endswith((".c", ".h", ".def"))
                and (not folders or name.split("/")[0] in folders)]

    def lines(self, name):
        return enumerate(self.text(name).split("\n"), 1)

    def script_kind(self, name):
        """"bash", "python" or None."""
        first = self.text(name).split("\n", 1)[0]
        if name.endswith(".py") or re.match(r"#!.*python", first):
            return "python"
        if name.endswith(".sh") or re.match(r"#!.*\b(bash|sh)\b", first):
            return "bash"
        return None


C_TOKENS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def strip_c(text):
    def blank(match):
        token = match.group()
        if token[0] in "\"'":
            return token[0] + " " * (len(token) - 2) + token[0]
        return re.sub(r"[^\n]", " ", token)
    return C_TOKENS.sub(blank, text)


# ---- text ----

def line_length(tree):
    # Tables of one row a line (.def) and prose with tables or addresses may be wider.
    for name in tree.texts():
        if name == "LICENSE" or name.startswith(LICENCES) or name.endswith(
                (".def", ".json", ".csv", ".tsv", ".map.in")):
            continue
        for number, line in tree.lines(name):
            if len(line) > LINE_LENGTH:
                if name.endswith(".md") and (line.startswith("|") or "http" in line):
                    continue
                yield name, number, f"{len(line)} columns; at most {LINE_LENGTH}"


def white_space(tree):
    for name in tree.texts():
        text = tree.text(name)
        if name == "LICENSE" or name.startswith(LICENCES) or not text:
            continue
        if not text.endswith("\n") or text.endswith("\n\n"):
            yield name, text.count("\n"), "must end in exactly one newline"
        for number, line in tree.lines(name):
            if "\t" in line:
                yield name, number, "a tab"
            if line != line.rstrip():
                yield name, number, "white space at the end of the line"


def licence_line(tree):
    # Pages, pictures and data have none, nor have licences.
    for name in tree.texts():
        if name == "LICENSE" or name.startswith(LICENCES) or name.endswith(NO_LICENCE_LINE) or (
                name.endswith(".txt") and not name.endswith("CMakeLists.txt")):
            continue
        head = tree.text(name).split("\n")[:2]
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in head):
            yield name, 1, "no line SPDX-License-Identifier: Apache-2.0 at the top"


# Written apart, so that this file does not find itself.
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")


def unfinished(tree):
    for name in tree.texts():
        for number, line in tree.lines(name):
            found = UNFINISHED.search(line)
            if found:
                yield name, number, f"{found.group()}: finish it, or write an issue"


# ---- size ----

def function_length(tree):
    for name in tree.c_files():
        if name.endswith(".c") or name.endswith(".h"):
            yield from long_c_functions(name, tree.code(name))
    for name in tree.texts():
        if tree.script_kind(name) == "python":
            yield from long_python_functions(name, tree.text(name))


def long_c_functions(name, code):
    """A function is a `{` alone in column 0, up to the `}` in column 0, with its signature."""
    start = None
    for index, line in enumerate(code):
        if line.rstrip() == "{" and start is None:
            start = index
            while start > 0 and code[start - 1].strip() and code[start - 1][0] not in "}#":
                start -= 1
        elif line.startswith("}") and start is not None:
            length = index - start + 1
            if length > FUNCTION_LINES:
                yield name, start + 1, f"a function of {length} lines; at most {FUNCTION_LINES}"
            start = None


def long_python_functions(name, text):
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return  # reported by scripts()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            length = node.end_lineno - node.lineno + 1
            if length > FUNCTION_LINES:
                yield name, node.lineno, f"a function of {length} lines; at most {FUNCTION_LINES}"


def file_length(tree):
    for name in tree.c_files(*LAYERS, "tools"):
        length = tree.text(name).count("\n")
        if length > FILE_LINES:
            yield name, 1, f"{length} lines; at most {FILE_LINES}: split it by concept"


# ---- one form of C (docs/hacking.md, Names and style) ----

def sizeof_form(tree):
    for name in tree.c_files():
        for number, line in enumerate(tree.code(name), 1):
            if re.search(r"\bsizeof\s+[\w*&]", line):
                yield name, number, "sizeof without parentheses"


def flag_type(tree):
    for name in tree.c_files():
        for number, line in enumerate(tree.code(name), 1):
            found = re.search(r"\b(bool|_Bool|stdbool\.h)\b", line)
            if found:
                yield name, number, f"{found.group()}: a flag is an int, 0 or 1"


def section_title(tree):
    for name in tree.c_files():
        for number, line in tree.lines(name):
            found = re.match(r"/\* ---- ([A-Z][a-z]+)\b", line)
            if found and found.group(1) != "Tenure":
                yield name, number, "the title of a section begins with a small letter"


def indent(line):
    return len(line) - len(line.lstrip())


def block_end(code, opening):
    """The line that closes the block opened at the end of a line, and whether all between is one
    statement that is no `if` and no loop. Goes by the indentation that clang-format gives."""
    base, starts, end = indent(code[opening + 1]), 0, opening + 1
    while end < len(code) and not (code[end].strip() and indent(code[end]) < base):
        starts += indent(code[end]) <= base  # blank: a comment, which is reason enough for braces
        end += 1
    body = [line.rstrip() for line in code[opening + 1:end]]
    is_one = starts == 1 and body[-1].endswith(";") and not any(
        line.endswith("{") for line in body) and not re.match(
            r"\s*(if|for|while|do|switch|case|default)\b", body[0])
    return end, is_one


def block_head(code, opening):
    """The first line of `if (...) {` and the like, which may take several."""
    head, open_ones = opening, 0
    while head >= 0:
        open_ones += code[head].count(")") - code[head].count("(")
        if open_ones <= 0:
            break
        head -= 1
    return code[head].strip()


def lone_braces(tree):
    """All branches of an `if` have braces, or none has: none if each is one statement."""
    for name in tree.c_files():
        code = tree.code(name)
        for number, line in enumerate(code, 1):
            head = block_head(code, number - 1) if line.rstrip().endswith(" {") else ""
            if not re.match(r"(if|for|while|else)\b", head):
                continue
            end, is_one = block_end(code, number - 1)
            while is_one and end < len(code) and code[end].lstrip().startswith("} else"):
                while not code[end].rstrip().endswith("{"):
                    end += 1
                end, is_one = block_end(code, end)
            if is_one:
                yield name, number, "braces around one statement"


# ---- the library's own rules ----

def calls(tree, pattern, allowed, why):
    """Calls in the layers of functions that match, outside files that start with `allowed`.
    A call through a struct (driver->cuMemMap(...)) is not a direct call."""
    expression = re.compile(rf"(?<![\w.>])({pattern})\s*\(")
    for name in tree.c_files(*LAYERS):
        if name.startswith(allowed) or name.endswith(".def"):
            continue
        for number, line in enumerate(tree.code(name), 1):
            found = expression.search(line)
            if found and not line.lstrip().startswith("#define " + found.group(1)):
                yield name, number, f"{found.group(1)}(): {why}"


def heap_calls(tree):
    yield from calls(
        tree, "malloc|calloc|realloc|free|posix_memalign|aligned_alloc|memalign|strdup|strndup"
        "|asprintf|vasprintf", ("alloc/base/host_memory.c",),
        "host memory comes from base/host_memory.h, never from the engine's heap")


def environment_calls(tree):
    yield from calls(tree, "getenv|secure_getenv|setenv|putenv|unsetenv", ("alloc/base/conf/",),
                     "the environment is read in alloc/base/conf only")


def output_calls(tree):
    yield from calls(
        tree, "printf|fprintf|vprintf|vfprintf|dprintf|puts|fputs|putchar|perror|exit|_exit|abort",
        # The second calls exit where the C library would, had the library no threads.
        ("alloc/base/assert.", "alloc/base/prim/linux/helper.c"),
        "a library does not print and does not end the process")


def unsafe_calls(tree):
    yield from calls(
        tree, "sprintf|vsprintf|strcpy|strcat|gets|strtok|atoi|atol|system|popen|rand|srand|alloca",
        (), "unbounded, global state, or a result that cannot be checked")


def driver_calls(tree):
    yield from calls(tree, "dlopen|dlsym|dlmopen", ("alloc/base/prim/",),
                     "the loader is asked in alloc/base/prim only")
    yield from calls(tree, r"cu[A-Z]\w*|cuda[A-Z]\w*|nv[A-Z]\w*|tnri_loader_(?:open|function)",
                     # The deflater loads zlib, and annotations a tool: neither is a driver; the
                     # third asks copies of us.
                     ("alloc/base/prim/", "alloc/gpu/", "alloc/see/snapshot/deflater.c",
                      "alloc/log/nvtx.c", "alloc/api/single_copy.c"),
                     "the driver is called through alloc/gpu only")


INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def include_direction(tree):
    for name in tree.c_files(*LAYERS):
        mine = LAYERS.index(name.split("/")[0])
        for number, line in tree.lines(name):
            found = INCLUDE.match(line)
            if not found:
                continue
            header = found.group(2)
            if ".." in header.split("/"):
                yield name, number, f'"{header}": no path upwards in an include'
            if header.endswith("intrin.h"):
                yield name, number, f"{header} has 30,000 lines: use the compiler's builtins"
            for layer in LAYERS[mine + 1:]:
                if header == f"tenure/{layer}.h" or header.startswith(f"{layer}/"):
                    yield name, number, f"{header} belongs to a higher layer"


# ---- the house ----

def top_level(tree):
    for entry in sorted({name.split("/")[0] for name in tree.files}):
        if entry not in TOP_LEVEL and not entry.startswith("."):
            yield entry, 1, "does not belong at the top level"


REPO_PATH = re.compile(rf"(?<![\w/.<-])(?:\./)?((?:{'|'.join(LAYERS)}|tools|tests|docs)/"
                       r"[\w./*{},+-]*[\w/*}])")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
CODE_SPAN = re.compile(r"`([^`\n]+)`")


def expand_braces(text):
    parts = re.split(r"\{([^{}]*)\}", text)
    choices = [part.split(",") if index % 2 else [part] for index, part in enumerate(parts)]
    return ["".join(choice) for choice in itertools.product(*choices)]


def missing_paths(tree):
    """Repository paths in back quotes, and relative links, of the Markdown files."""
    for name in tree.texts():
        if not name.endswith(".md"):
            continue
        folder = (tree.root / name).parent
        for number, line in tree.lines(name):
            for target in LINK.findall(line):
                if "://" not in target and not target.startswith("mailto:") \
                        and not (folder / target).exists():
                    yield name, number, f"the link to {target} leads nowhere"
            for span in CODE_SPAN.findall(line):
                for path in itertools.chain(*map(expand_braces, REPO_PATH.findall(span))):
                    if not glob.glob(str(tree.root / path)):
                        yield name, number, f"there is no {path}"


def scripts(tree):
    for name in tree.texts():
        kind = tree.script_kind(name)
        path = tree.root / name
        if tree.text(name).startswith("#!") and not os.access(path, os.X_OK):
            yield name, 1, "starts with #! but is not executable"
        if kind == "bash":
            checked = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True)
            if checked.returncode != 0:
                yield name, 1, checked.stderr.strip()
        elif kind == "python":
            try:
                ast.parse(tree.text(name))
            except SyntaxError as error:
                yield name, error.lineno or 1, f"not valid Python: {error.msg}"


REFUSED_WORDS = (
    # A translator's.
    "as ever", "anew", "for ever", "dearer", "by the chunk", "of its own kind", "and the like",
    "or the like", "in vain", "hitherto", "told apart", "come to nothing", "comes to nothing",
    "all is well", "be had", "is had", "been had", "what it said", "in its stead", "goes by",
    "by whatever", "so many", "is none of", "what there is", "tells of", "speaks of",
    # No subject that acts.
    "is said", "are said", "be said", "is told of", "are told of", "was told of",
    # People, where threads, processes and streams act.
    "whoever", "nobody", "somebody", "anybody", "everybody", "rule this", "be ruled", "are ruled")
REFUSED = re.compile(
    r"\b(" + "|".join(words.replace(" ", r"\s+") for words in REFUSED_WORDS) + r")\b|"
    r"(?<!there )\b(is\s+no)\s+(?!longer|more)|\b(who\s(?:is\s|has\s)?\w+,\s)[a-z]+s?\b", re.I)
# A page of data that is as old as its rows.
NOT_YET_PLAIN = ("docs/benchmarks/changes.md",)
C_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
SCRIPT_TEXT = re.compile(C_TEXT.pattern + "|`[^`]*`")


def is_page(name):
    folder = name.rpartition("/")[0]
    return name.endswith(".md") and name not in NOT_YET_PLAIN and (
        folder == "" or name.startswith("docs/") or
        name.endswith("README.md") and name.startswith((*LAYERS, "tools/")))


def plain_text(tree, name):
    """What of a file users read, line by line: pages, the manual in headers, examples, scripts;
    of other sources the messages."""
    lines = tree.text(name).split("\n")
    if is_page(name):
        is_made = False
        for number, line in enumerate(lines):
            is_made = (is_made or "<!-- begin:" in line) and "<!-- end:" not in line
            lines[number] = "" if is_made else line
        return "\n".join(lines)
    if "/include/tenure/" in name or name.startswith("docs/examples/") or (
            name.startswith("tools/") and tree.script_kind(name) == "bash"):
        return "\n".join(re.sub(r"^\s*(\*|#) ", "", line) for line in lines)
    if name.startswith("tools/python/") and name.endswith(".py"):
        return "\n".join(line.split("# ", 1)[0] for line in lines)
    if name.startswith((*(f"{layer}/" for layer in LAYERS), "tools/")) and name.endswith(
            (".c", ".h", ".def", ".cpp", ".hpp", ".ts")):
        pattern = SCRIPT_TEXT if name.endswith(".ts") else C_TEXT
        return "\n".join(" ".join(pattern.findall(line)) for line in lines)
    return ""


def plain_words(tree):
    """Words that make a text read like a translation, in what users read."""
    for name in tree.texts():
        text = plain_text(tree, name)
        for found in REFUSED.finditer(text):
            number = text.count("\n", 0, found.start()) + 1
            words = " ".join(found[found.lastindex].split())
            yield name, number, f"\"{words}\": write plainly (CONTRIBUTING.md)"


RULES = {rule.__name__: rule for rule in (
    line_length, white_space, licence_line, unfinished, function_length, file_length, sizeof_form,
    flag_type, section_title, lone_braces, heap_calls, environment_calls, output_calls,
    unsafe_calls, driver_calls, include_direction, top_level, missing_paths, scripts,
    plain_words)}


def check(root):
    """All problems of a tree, as (rule, path, line, text)."""
    tree = Tree(root)
    found = []
    for name, rule in RULES.items():
        found += [(name, *problem) for problem in rule(tree)]
    return tree, found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=".", help="the repository")
    arguments = parser.parse_args()
    tree, found = check(arguments.root)
    for rule, path, line, text in found:
        print(f"{path}:{line}: {text} [{rule}]")
    print(f"{len(tree.files)} files, {len(RULES)} rules, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
