#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions of Tenure's paths with callgrind, and compares them with the kept table.

    callgrind.py PROGRAM                compares: which path grew, and which functions in it
    callgrind.py PROGRAM --update       writes docs/benchmarks/instructions.csv and the page
    callgrind.py PROGRAM --show         prints the table and each path's functions; judges nothing
    callgrind.py PROGRAM --show --layout N        the same of another layout than the first, 0
    callgrind.py PROGRAM --show --cache also how often each function misses a 32 KiB first cache
    callgrind.py PROGRAM --csv FILE     also writes the counts to FILE, and
    callgrind.py PROGRAM --against FILE compares with that one: two trees, one compiler

PROGRAM is bench_paths of a Release build (tests/bench/paths.c). What is counted for a path is what
Tenure's library executes and the functions of the C library that it calls (locks, copies); the
driver's functions, the program's own loop and the warm-up are not. The numbers are exact and the
same in each run, on a loaded machine too; they depend on the compiler, so a table made with another
one is not compared. Instructions are not time: one with a lock prefix takes about as long as 20
others. So a path's cost is its instructions, a locked one counted as 20.

Tenure looks handles up by hash, so what meets in a table depends on where addresses fall. Addresses
depend on the environment and on the lengths of paths: each run gets the same of both. They depend
on all other code, too. So the table has the least of LAYOUTS layouts of each path, and a path that
is too expensive in one is counted in the next. It is too expensive if it is in all of them.

A path is too expensive when its cost is more than 3 % and 2 above that of the table, or when it
does the same as another one among more (ALIKE) and its cost is more than 1.1 times the other's.

Exit codes: 0 nothing grew; 1 something did, or a path could not be run; 2 wrong usage or a bad
table; 77 nothing can be compared here (no valgrind, another compiler, no Release build).
"""
import argparse
import collections
import concurrent.futures
import csv
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "benchmarks" / "instructions.csv"
COLUMNS = "path operations instructions locked c_library functions text".split()
# What must be equal for numbers to be comparable.
SAME = "compiler build glibc".split()
GROWTH, SLACK = 0.03, 2.0
# What does the same work among more events or graphs: a path, and the one that it costs as much as.
ALIKE = {"announce_many": "announce", "check_fork_many": "check_fork",
         "first_block_many": "first_block", "grow_many": "grow", "hold_many": "hold",
         "launch_oldest": "launch_newest"}
ALIKE_LIMIT = 1.1
LOCKED_COST = 20
LAYOUTS = 6
BUILD = "Release jemalloc"  # what a user has
CALLER = "path_measured"
# What decides how a program runs that Tenure is preloaded under, by path_under of paths.h.
PRELOADED = {"LD_PRELOAD": "./lib/libtenure_preload.so"}
UNDER = {"0": {}, "1": PRELOADED,
         "2": {**PRELOADED, "TENURE_PRELOAD_CHECK": "1", "TENURE_SIM_RACES": "0"},
         "3": {**PRELOADED, "TENURE_PRELOAD_RECORD": "seen"}}
# A first cache as most processors have it; callgrind takes the others from the machine.
CACHE = ["--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64"]
TENURE, OTHER, C_LIBRARY = "tenure", "other", "c_library"


class Problem(Exception):
    """The count cannot be made; the text says why. `code` is the exit code."""

    def __init__(self, text, code):
        super().__init__(text)
        self.code = code


def kind_of(library):
    """Whose code a file holds: Tenure's, the C library's, or another's (driver, program)."""
    name = os.path.basename(library)
    if re.match(r"libtenure(_preload)?\.so", name):
        return TENURE
    if re.match(r"(libc|libm|libpthread|libdl|librt|ld-linux[^/]*|ld)[.-]", name):
        return C_LIBRARY
    return OTHER


def function_of(name):
    """The function as it is in the source: compilers split parts off and number them."""
    return re.sub(r"(\.(part|constprop|isra|cold|lto_priv)(\.\d+)?)+$", "", name.split("'")[0])


class Profile:
    """The costs in one file of callgrind: of Tenure's own functions, and of what they call."""

    def __init__(self, text):
        self.names = {}
        self.functions, self.misses = collections.Counter(), collections.Counter()
        self.total, self.locked, self.c_library = 0.0, 0.0, 0.0
        self.where, self.function = OTHER, ""
        self.callee_where = None
        events = []
        lines = iter(text.splitlines())
        for line in lines:
            if line.startswith("events:"):
                events = line.split()[1:]
            elif match := re.match(r"(c?)(ob|fn)=(.*)", line):
                self._name(*match.groups())
            elif line.startswith("calls="):
                self._call(self._costs(next(lines), events))
            elif re.match(r"[+*\-\d]", line) and events:
                self._own(self._costs(line, events))

    def _name(self, is_callee, what, value):
        """"(3) name" defines a number, "(3)" uses it."""
        match = re.match(r"\((\d+)\)(?: (.*))?$", value)
        key = (what, match.group(1)) if match else None
        name = self.names.setdefault(key, match.group(2)) if match else value
        if what == "ob" and is_callee:
            self.callee_where = kind_of(name)
        elif what == "ob":
            self.where = kind_of(name)
        elif not is_callee:
            self.function = function_of(name)

    @staticmethod
    def _costs(line, events):
        numbers = [int(word) for word in line.split()[1:]]
        return dict(zip(events, numbers + [0] * (len(events) - len(numbers))))

    def _own(self, costs):
        if self.where == TENURE:
            self.functions[self.function] += costs["Ir"]
            self.misses[self.function] += costs.get("D1mr", 0) + costs.get("D1mw", 0)
            self.total += costs["Ir"]
            self.locked += costs.get("Ge", 0)

    def _call(self, costs):
        """An inclusive cost: it counts if Tenure calls a function of the C library."""
        callee, self.callee_where = self.callee_where or self.where, None
        if self.where == TENURE and callee == C_LIBRARY:
            self.functions["C library"] += costs["Ir"]
            self.c_library += costs["Ir"]
            self.total += costs["Ir"]
            self.locked += costs.get("Ge", 0)


class Count:
    """What one operation of a path costs."""

    def __init__(self, name, operations, text, instructions, locked, c_library, functions):
        self.name, self.operations, self.text = name, operations, text
        self.instructions, self.locked, self.c_library = instructions, locked, c_library
        self.functions = functions  # name: instructions, dearest first
        self.misses = {}  # name: misses of the first cache, most first; only with --cache

    @property
    def cost(self):
        return self.instructions + (LOCKED_COST - 1) * self.locked

    @classmethod
    def of_profile(cls, name, operations, text, profile):
        functions = {one: cost / operations for one, cost in profile.functions.most_common()
                     if cost / operations >= 1}
        made = cls(name, operations, text, profile.total / operations, profile.locked / operations,
                   profile.c_library / operations, functions)
        made.misses = {one: count / operations for one, count in profile.misses.most_common()
                       if count / operations >= 0.01}
        return made

    @classmethod
    def of_row(cls, row):
        functions = dict(one.rsplit(":", 1) for one in row["functions"].split())
        return cls(row["path"], int(row["operations"]), row["text"], float(row["instructions"]),
                   float(row["locked"]), float(row["c_library"]),
                   {name.replace("_", " ") if name == "C_library" else name: float(cost)
                    for name, cost in functions.items()})

    def row(self):
        functions = " ".join(f"{name.replace(' ', '_')}:{cost:.1f}"
                             for name, cost in self.functions.items())
        return [self.name, self.operations, f"{self.instructions:.1f}", f"{self.locked:.2f}",
                f"{self.c_library:.1f}", functions, self.text]


# ---- tables ---------------------------------------------------------------------------------

def facts_read(line):
    return dict(word.split("=", 1) for word in shlex.split(line) if "=" in word)


def table_read(path):
    """The facts of a table's first line, and its counts by path."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        raise Problem(f"{path}: not there; make it with --update", 2) from None
    if not lines or not lines[0].startswith("# "):
        raise Problem(f"{path}: line 1 does not say what it was made with", 2)
    rows = csv.DictReader(lines[1:])
    if rows.fieldnames != COLUMNS:
        raise Problem(f"{path}: line 2 has not the columns {','.join(COLUMNS)}", 2)
    try:
        counts = [Count.of_row(row) for row in rows]
    except (ValueError, TypeError, AttributeError) as problem:
        raise Problem(f"{path}: {problem}", 2) from None
    return facts_read(lines[0][2:]), {count.name: count for count in counts}


def table_write(path, facts, counts):
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write("# " + " ".join(f'{key}="{value}"' for key, value in facts.items()) + "\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(count.row() for count in counts)


# ---- counting -------------------------------------------------------------------------------

def program_run(program, argument):
    done = subprocess.run([program, argument], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Problem(f"{program} {argument}: {done.stderr.strip() or done.returncode}", 1)
    return done.stdout


def where_it_runs(program, under):
    """The build folder, the program as it is called there, and the environment: the same for every
    build folder and every environment of ours, since their lengths decide where addresses fall. The
    libraries' paths come before those in the files, which are the build folder's."""
    build = pathlib.Path(program).resolve().parents[1]
    library = build / "lib" / "libtenure_preload.so"
    if under != "0" and not library.exists():
        raise Problem(f"{library}: not there; build it: cmake --build BUILD "
                      "--target tenure_preload preload_driver_link", 2)
    folders = "tests/preload/driver:" if under != "0" else ""
    return build, f"./{pathlib.Path(program).resolve().relative_to(build)}", {
        "PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": f"{folders}lib:lib/tenure", **UNDER[under]}


def path_count(program, folder, path, layout, has_cache, starts):
    name, operations, text, under = path
    out = pathlib.Path(folder) / name
    build, called, variables = where_it_runs(program, under)
    command = [shutil.which("valgrind"), "--tool=callgrind", f"--toggle-collect={CALLER}",
               "--collect-bus=yes", f"--callgrind-out-file={out}", *(CACHE if has_cache else []),
               *(["--instr-atstart=no"] if starts and not has_cache else []),
               called, name, str(layout)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables,
                          cwd=build)
    if done.returncode != 0 or not out.exists():
        raise Problem(f"{name} cannot be run under callgrind: {done.stderr[-1000:]}", 1)
    profile = Profile(out.read_text("utf-8"))
    if profile.total == 0:
        raise Problem(f"{name}: nothing was counted: is {program} linked to libtenure.so?", 1)
    return Count.of_profile(name, int(operations), text, profile)


def paths_count(program, only, jobs, layout=0, has_cache=False):
    """The facts of the program, and the counts of its paths in its own order. Where the program can
    say when to begin, the warm-up costs no counting; but a cache would be cold after it."""
    facts = facts_read(program_run(program, "--describe"))
    starts = facts.pop("starts", "0") == "1"
    paths = [line.split("\t") for line in program_run(program, "--list").splitlines()]
    unknown = set(only) - {one[0] for one in paths}
    if unknown:
        raise Problem(f"there is no path {', '.join(sorted(unknown))}; {program} --list has all", 2)
    paths = [one for one in paths if not only or one[0] in only]
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        counts = list(pool.map(lambda one: path_count(program, folder, one, layout, has_cache,
                                                     starts), paths))
    return facts, counts


def least(counts, others):
    """Of each path the count that costs less."""
    found = {count.name: count for count in others}
    return [min(count, found.get(count.name, count), key=lambda one: one.cost) for count in counts]


# ---- judging --------------------------------------------------------------------------------

def is_grown(kept, count):
    return count.cost - kept.cost > GROWTH * kept.cost + SLACK


def alike(counts):
    """(path, the one that it should cost as much as, ratio) of those that were counted."""
    costs = {count.name: count.cost for count in counts}
    return [(name, other, costs[name] / costs[other]) for name, other in ALIKE.items()
            if name in costs and other in costs]


def suspects(kept, counts):
    """The paths that are too expensive as they were counted."""
    names = [count.name for count in counts
             if count.name in kept and is_grown(kept[count.name], count)]
    for name, other, ratio in alike(counts):
        if ratio > ALIKE_LIMIT:
            names += [name, other]
    return sorted(set(names))


def settle(kept, counts, count_again):
    """The counts of the first layout, with those of suspects replaced by the least of as many
    layouts as it takes. `count_again` counts the named paths in a layout."""
    for layout in range(1, LAYOUTS):
        names = suspects(kept, counts)
        if not names:
            break
        print(f"layout {layout}: {', '.join(names)}")
        counts = least(counts, count_again(names, layout))
    return counts

def growths(kept, count):
    """The functions that make up the difference, largest first, as text."""
    changes = {name: count.functions.get(name, 0.0) - kept.functions.get(name, 0.0)
               for name in {**kept.functions, **count.functions}}
    return [f"    {name}: {kept.functions.get(name, 0.0):.1f} -> "
            f"{count.functions.get(name, 0.0):.1f}"
            for name, change in sorted(changes.items(), key=lambda one: -one[1]) if change >= 0.5]


def compare(kept, counts):
    """Prints one line a path, more where one grew. Returns how many did."""
    grown = 0
    for count in counts:
        old = kept.get(count.name)
        if old is None:
            print(f"{count.name}: cost {count.cost:.1f}, not in the table yet")
            grown += 1
            continue
        change = count.cost - old.cost
        print(f"{count.name:18} cost {old.cost:8.1f} -> {count.cost:8.1f} "
              f"({change / old.cost:+6.1%})  instructions {old.instructions:.1f} -> "
              f"{count.instructions:.1f}  locked {old.locked:.2f} -> {count.locked:.2f}")
        if is_grown(old, count):
            grown += 1
            print("  TOO EXPENSIVE. What grew, in instructions per operation:")
            print("\n".join(growths(old, count)) or "    many functions a little")
    return grown


def compare_alike(counts):
    """Prints which paths cost more among more. Returns how many do."""
    grown = 0
    for name, other, ratio in alike(counts):
        print(f"{name} / {other} = {ratio:.3f}, at most {ALIKE_LIMIT}")
        if ratio > ALIKE_LIMIT:
            grown += 1
            print("  TOO EXPENSIVE: it grows with how many there are.")
    return grown


def comparable(facts, kept_facts):
    differing = [key for key in SAME if facts.get(key) != kept_facts.get(key)]
    if differing:
        raise Problem("skipped: the table was made with " + ", ".join(
            f"{key} {kept_facts.get(key)}, and here it is {facts.get(key)}"
            for key in differing), 77)


def show(counts):
    for count in counts:
        print(f"{count.name:18} cost {count.cost:.1f}: "
              f"{count.instructions:.1f} instructions, {count.locked:.2f} locked, "
              f"{count.c_library:.1f} in the C library: {count.text}")
        for name, cost in count.functions.items():
            print(f"    {cost:9.1f}  {name}")
        if count.misses:
            print(f"  {sum(count.misses.values()):.2f} misses of the first cache in Tenure:")
        for name, misses in count.misses.items():
            print(f"    {misses:9.2f}  {name}")


def run(arguments):
    if not shutil.which("valgrind"):
        raise Problem("skipped: there is no valgrind here", 77)
    if not arguments.program.is_file():
        raise Problem(f"{arguments.program}: not there; build it: cmake --build BUILD "
                      "--target bench_paths", 2)
    program = str(arguments.program)
    against = arguments.against or TABLE
    is_judged = not arguments.update and not arguments.show
    kept_facts, kept = table_read(against) if is_judged else ({}, {})
    if is_judged:
        comparable(facts_read(program_run(program, "--describe")), kept_facts)
    if arguments.update and arguments.only:
        raise Problem("--update writes all paths; leave --only away", 2)
    facts, counts = paths_count(program, arguments.only, arguments.jobs, arguments.layout,
                                arguments.cache)
    if arguments.update and facts["build"] != BUILD:
        raise Problem(f"the table is kept of a build \"{BUILD}\", and {program} is of one "
                      f"\"{facts['build']}\"", 2)
    if is_judged:
        counts = settle(kept, counts, lambda names, layout: paths_count(
            program, names, arguments.jobs, layout)[1])
    for layout in range(1, LAYOUTS if arguments.update else 1):
        counts = least(counts, paths_count(program, [], arguments.jobs, layout)[1])
    if arguments.csv:
        table_write(arguments.csv, facts, counts)
    if arguments.show:
        show(counts)
    if arguments.update:
        table_write(TABLE, facts, counts)
        print(TABLE)
        return subprocess.run([sys.executable, "-B", str(ROOT / "tests" / "bench" / "report.py")],
                              check=False).returncode
    if not is_judged or compare(kept, counts) + compare_alike(counts) == 0:
        return 0
    print(f"\nIf the growth is worth it, say why in the commit and keep the new table:\n"
          f"  tests/bench/callgrind.py {program} --update")
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path, metavar="PROGRAM")
    parser.add_argument("--update", action="store_true", help="write the table and the page")
    parser.add_argument("--show", action="store_true", help="print functions; judge nothing")
    parser.add_argument("--cache", action="store_true", help="simulate the first cache too")
    parser.add_argument("--layout", type=int, default=0, metavar="N", help="the one to begin with")
    parser.add_argument("--against", type=pathlib.Path, metavar="TABLE", help="another table")
    parser.add_argument("--csv", type=pathlib.Path, metavar="FILE", help="write the counts there")
    parser.add_argument("--only", metavar="NAME,...", default=[],
                        type=lambda text: [name for name in text.split(",") if name])
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="paths at a time")
    arguments = parser.parse_args()
    try:
        return run(arguments)
    except Problem as problem:
        print(f"callgrind.py: {problem}" if problem.code != 77 else problem,
              file=sys.stderr if problem.code != 77 else sys.stdout)
        return problem.code


if __name__ == "__main__":
    sys.exit(main())
