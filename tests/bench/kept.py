# SPDX-License-Identifier: Apache-2.0
"""The tables of the page that are kept by hand or by a count, not by a run of `tenure bench`: the
instructions of each path, and what was changed for speed."""
from page import BadInput, NOT_MEASURED, csv_rows, provenance_row, table

CHANGES = "change why predicted measured command commit decision".split()
LOCKED_COST = 20  # as in callgrind.py
DECISIONS = ("kept", "dropped", "open")


def functions_text(functions, most=4):
    """The dearest functions of a path, with their instructions."""
    words = [one.rsplit(":", 1) for one in functions.split()]
    return ", ".join(f"{name.replace('_', ' ') if name == 'C_library' else f'`{name}`'} "
                     f"{float(cost):.0f}" for name, cost in words[:most])


def instructions_table(docs):
    """One row for each path whose instructions are counted."""
    path = docs / "benchmarks" / "instructions.csv"
    rows, made = csv_rows(path)
    if not rows:
        return NOT_MEASURED
    shown = []
    for one in rows:
        instructions, locked = float(one["instructions"]), float(one["locked"])
        shown.append([f"`{one['path']}`: {one['text']}",
                      f"{instructions + (LOCKED_COST - 1) * locked:,.0f}", f"{instructions:,.0f}",
                      f"{float(one['c_library']):,.0f}", one["locked"],
                      functions_text(one["functions"])])
    return (table(["path", "cost", "instructions", "of these the C library's", "locked",
                   "dearest functions"], shown)
            + "\n" + provenance_row(made, ["commit", "compiler", "build", "glibc"],
                                    "instructions.csv"))


def changes_table(docs):
    """What was changed: the rows of changes.csv in their order."""
    path = docs / "benchmarks" / "changes.csv"
    rows, _ = csv_rows(path)
    if not rows:
        return "No change is recorded yet.\n"
    shown = []
    for number, one in enumerate(rows, 2):
        if list(one) != CHANGES or None in one.values():
            raise BadInput(f"{path}: line {number} has not the columns {','.join(CHANGES)}")
        if one["decision"] not in DECISIONS:
            raise BadInput(f"{path}: line {number}: the decision is one of {', '.join(DECISIONS)}, "
                           f"not \"{one['decision']}\"")
        shown.append([one["change"], one["why"], one["predicted"], one["measured"],
                      f"`{one['command']}`" if one["command"] else "-",
                      f"`{one['commit']}`" if one["commit"] else "-", one["decision"]])
    return table(["change", "why", "predicted", "measured", "command", "commit", "decision"], shown)
