#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far a reader walks who follows one call: the files and rooms of the layers that it enters,
and how often it comes back from one to another.

  walk.py PROGRAM                  the table of WALKS
  walk.py PROGRAM --show NAME      the files of one walk, and the calls between them
  walk.py --self-test

PROGRAM is bench_paths of a Release build (tests/bench/paths.c), run under callgrind. A file is a
.c file with its header. It is entered if a function of it runs, inlined ones too. A return is a
call from a function of one file to one of another; functions of one file and what the compiler
inlines return nowhere. What happens in fewer than half of all calls is not counted. The numbers
are the same in each run. They depend on what the compiler inlines, so compare two trees by one.

Seen to fail in the self test: HALF at 0; calls inside a file counted as returns; calls not divided
by those of the root; inlined files left out.

Exit codes: 0 counted, or the self test passed; 1 a path cannot be run; 2 wrong usage; 77 there is
no valgrind.
"""
import argparse
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "bench"))
import callgrind  # noqa: E402

# name: what it is, the path of bench_paths, the function that the walk begins in
WALKS = {
    "cached allocation": ("pair_512", "tnr_malloc"),
    "allocation that misses": ("grow", "tnri_ladder_malloc"),
    "cached free": ("pair_512", "tnr_free"),
    "free of a block that another stream uses": ("record_stream", "tnr_free"),
    "launch of a graph": ("launch_newest", "tnr_graph_launch"),
}
SOURCE = re.compile(r".*(?:^|/)((?:alloc|lifetime|capture)/.*)\.[ch]$")
HALF = 0.5


class Graph:
    """Which function calls which, how often; each function's file, and the files inlined in it."""

    def __init__(self, text):
        self.names = {}
        self.file = {}
        self.inlined = collections.defaultdict(collections.Counter)
        self.calls = collections.Counter()
        lines = iter(text.splitlines())
        function = callee = inside = None
        for line in lines:
            match = re.match(r"(c?)(fl|fi|fe|fn|ob)=(.*)", line)
            if match:
                is_callee, what, value = match.groups()
                name = self._name("file" if what in ("fl", "fi", "fe") else what, value)
                if what == "fn" and is_callee:
                    callee = callgrind.function_of(name)
                elif what == "fn":
                    function = callgrind.function_of(name)
                    self.file.setdefault(function, inside)
                elif what in ("fl", "fi", "fe") and not is_callee:
                    inside = self._module(name)
            elif line.startswith("calls="):
                self.calls[function, callee] += int(line[6:].split()[0])
                next(lines)
            elif re.match(r"[+*\-\d]", line) and function is not None:
                self.inlined[function][inside] += int((line.split() + ["0"])[1])

    def _name(self, space, value):
        """"(3) name" defines a number, "(3)" uses it."""
        match = re.match(r"\((\d+)\)(?: (.*))?$", value)
        if not match:
            return value
        return self.names.setdefault((space, match.group(1)), match.group(2)) or ""

    @staticmethod
    def _module(name):
        """The file as the layers have it, without its ending; None: not of the layers."""
        match = SOURCE.match(name)
        return match.group(1) if match else None

    def walk(self, root):
        """Of one call of `root`: the files that it enters, and the calls between them."""
        times = sum(count for (_, callee), count in self.calls.items() if callee == root)
        if times == 0:
            return None
        entered, between = {self.file[root]}, collections.Counter()
        seen, todo = {root}, [root]
        while todo:
            caller = todo.pop()
            here = self.file[caller]
            entered |= {file for file, cost in self.inlined[caller].items()
                        if file is not None and cost >= HALF * times}
            for (one, callee), count in self.calls.items():
                there = self.file.get(callee)
                if one != caller or there is None or count < HALF * times:
                    continue
                if there != here:
                    between[here, there] += count / times
                if callee not in seen:
                    seen.add(callee)
                    todo.append(callee)
            entered.add(here)
        return Walk(entered, between)


class Walk:
    def __init__(self, entered, between):
        self.files, self.between = entered, between

    @staticmethod
    def room(file):
        return "/".join(file.split("/")[:2])

    def numbers(self):
        """Rooms, returns between rooms, files, returns between files."""
        across = sum(count for (one, other), count in self.between.items()
                     if self.room(one) != self.room(other))
        return (len({self.room(file) for file in self.files}), round(across), len(self.files),
                round(sum(self.between.values())))


def graph_of(program, path, folder):
    """Of the last time that the path was measured: a dump has the calls since the one before."""
    build, called, variables = callgrind.where_it_runs(program, "0")
    out = pathlib.Path(folder) / path
    done = subprocess.run(
        [shutil.which("valgrind"), "--tool=callgrind", f"--dump-before={callgrind.CALLER}",
         f"--dump-after={callgrind.CALLER}", f"--callgrind-out-file={out}", called, path, "0"],
        capture_output=True, text=True, check=False, env=variables, cwd=build)
    dumps = sorted(out.parent.glob(f"{path}.*"), key=lambda one: int(one.suffix[1:]))
    if done.returncode != 0 or len(dumps) < 2:
        raise callgrind.Problem(f"{path} cannot be run under callgrind: {done.stderr[-1000:]}", 1)
    return Graph(dumps[-1].read_text("utf-8"))


def walks_of(program, names):
    graphs = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path, root = WALKS[name]
            if path not in graphs:
                graphs[path] = graph_of(program, path, folder)
            walk = graphs[path].walk(root)
            if walk is None:
                raise callgrind.Problem(f"{name}: {path} never calls {root}", 1)
            yield name, walk


def self_test():
    """Three files of two rooms, called twice; one call happens once in ten, one is inlined."""
    text = """events: Ir
fl=(1) /x/build/../alloc/api/cached.c
fn=(1) tnr_free
1 40
fi=(2) /x/alloc/base/lock.h
7 8
fe=(1)
cfi=(3) /x/alloc/miss/one.c
cfn=(2) tnri_one
calls=20 3
2 100
cfn=(4) tnri_rare
calls=1 3
2 100
cfn=(5) same_file.part.0
calls=10 3
2 100
fn=(5)
4 50
fl=(3)
fn=(2)
3 70
cfi=(4) /x/alloc/miss/two.c
cfn=(3) tnri_two
calls=10 9
3 9
cfi=(6) /x/jemalloc/arena.c
cfn=(6) je_malloc
calls=99 9
3 9
fl=(4)
fn=(3)
9 20
cfi=(3)
cfn=(2)
calls=0 1
9 1
fl=(5) /x/alloc/see/rare.c
fn=(4)
9 90
fl=(6)
fn=(6)
9 90
fl=(7) /x/tests/bench/paths.c
fn=(7) main
cfi=(1)
cfn=(1)
calls=10 9
9 900
"""
    graph = Graph(text)
    walk = graph.walk("tnr_free")
    assert walk.files == {"alloc/api/cached", "alloc/base/lock", "alloc/miss/one",
                          "alloc/miss/two"}, walk.files
    assert walk.numbers() == (3, 2, 4, 3), walk.numbers()
    assert graph.walk("tnri_gone") is None
    more = Graph(text.replace("calls=1 3", "calls=5 3")).walk("tnr_free")
    assert more.numbers() == (4, 2, 5, 4), more.numbers()
    print("ok")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("program", nargs="?")
    parser.add_argument("--show", choices=list(WALKS), metavar="NAME")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return 0
    if arguments.program is None:
        parser.error("PROGRAM is missing")
    if shutil.which("valgrind") is None:
        print("there is no valgrind")
        return 77
    try:
        walks = dict(walks_of(arguments.program, [arguments.show] if arguments.show else WALKS))
    except callgrind.Problem as problem:
        print(problem, file=sys.stderr)
        return problem.code
    print("| | rooms | returns between rooms | files | returns between files |")
    print("|---|---:|---:|---:|---:|")
    for name, walk in walks.items():
        print("|", " | ".join([name, *map(str, walk.numbers())]), "|")
    if arguments.show:
        for file in sorted(walks[arguments.show].files):
            print(file)
        for (one, other), count in sorted(walks[arguments.show].between.items()):
            print(f"{count:5.1f} {one} -> {other}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
