#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes calls.inc from the public headers: every public function with the kind of each of its
arguments, a function that calls it with values of these kinds (misuse.h), and whether its manual
lets it call the driver.

    calls.py --root DIR OUTPUT

A function that is listed in tests/abi/exported_symbols.txt and not declared, or an argument that
fits no kind below, is an error: a new function is in the table, or the build stops.
"""
import argparse
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "statuses"))
from manual import DRIVER, declared, headers_of, named_of, parameters_of  # noqa: E402

# The first that fits an argument as it is declared, with single spaces: the kind, and which member
# of the union of values it is given as.
KINDS = [(re.compile(pattern), kind, member) for pattern, kind, member in (
    (r"const char \*(text|name)", "TEXT", "p"),
    (r"const char \*settings", "SETTINGS", "p"),
    (r"const char \*path", "PATH", "p"),
    (r"const char \*published", "PUBLISHED", "p"),
    (r"const char \*tag", "TAG", "p"),
    (r"const char \*const \*tags", "TAGS", "p"),
    (r"const tnr_\w+_options \*\w+", "OPTIONS", "p"),
    (r"const tnr_export_name \*\w+", "NAME", "p"),
    (r"(const )?void \*ptr", "POINTER", "p"),
    (r"void \*user", "USER", "p"),
    (r"char \*buffer", "BUFFER", "p"),
    (r"tnr_\w+ \*(info|stats|audit)", "STRUCT", "p"),
    (r"(void \*|size_t |uint64_t |tnr_\w+ |const char \*)\*\w+", "OUTPUT", "p"),
    (r"tnr_stream stream", "STREAM", "p"),
    (r"tnr_pool pool", "POOL", "p"),
    (r"tnr_graph graph", "GRAPH", "u"),
    (r"tnr_export exported", "EXPORT", "u"),
    (r"tnr_cuda_graph cuda_graph", "CUDA_GRAPH", "p"),
    (r"tnr_cuda_graph_exec exec", "EXEC", "p"),
    (r"tnr_event event", "EVENT", "p"),
    (r"(tnr_\w+_(callback|function|visit)|tnr_frames_(take|describe)) \w+", "CALLBACK", "f"),
    (r"int (device|peer)", "DEVICE", "i"),
    (r"int (socket|file)", "FILE", "i"),
    (r"int (force|is_wanted|wait)", "FLAG", "i"),
    (r"size_t alignment", "ALIGNMENT", "size"),
    (r"size_t count", "TAGS_COUNT", "size"),
    (r"size_t (index|room)", "COUNT", "size"),
    (r"size_t \w+", "SIZE", "size"),
    (r"tnr_moment before", "MOMENT", "u"),
    (r"tnr_\w+ (access|content|mode|format|status)", "ENUM", "i"),
)]
# A manual that says so; "does not call the driver" and "never calls the driver" say the opposite.
CALLS_DRIVER = re.compile(r"(?<!not )(?<!ever )\b[Cc]alls? the driver")
CALLBACK = re.compile(r"\btypedef\s+(\w+)\s+\(\*(tnr_\w+)\)\s*\(([^;{}]*?)\)\s*;", re.S)


def callbacks_of(text, used):
    """Functions that do nothing, one for each type of callback that is `used`."""
    lines = []
    for returns, name, arguments in CALLBACK.findall(text):
        if f"{name}_nothing" not in used:
            continue
        parts, names = parameters_of(arguments)
        lines += [f"static {returns} {name}_nothing({', '.join(parts)})", "{",
                  *(f"    (void){one};" for one in names),
                  *([] if returns == "void" else ["    return 0;"]), "}", ""]
    return lines


def kind_of(argument, text):
    """(kind, detail, member) of an argument; None if it fits none."""
    for pattern, kind, member in KINDS:
        if not pattern.fullmatch(argument):
            continue
        declared_type = re.sub(r"^const | ?\*?\w+$", "", argument)
        if kind in ("STRUCT", "OPTIONS"):
            sized = re.search(rf"typedef struct {declared_type} {{\s*size_t struct_bytes;", text)
            if not sized:
                return ("OUTPUT", "{0}", member) if kind == "STRUCT" else None
            return kind, f"{{.bytes = sizeof({declared_type})}}", member
        if kind == "CALLBACK":
            return kind, f"{{.call = (misuse_function){declared_type}_nothing}}", member
        return kind, "{0}", member
    return None


def function_of(name, returns, arguments, may_call_driver, text):
    """(lines that call it, row of the table, problems)."""
    parts, _ = parameters_of(arguments)
    kinds, details, values, problems = [], [], [], []
    for i, part in enumerate(parts):
        found = kind_of(part, text)
        if found is None:
            problems.append(f"{name}: \"{part}\" fits no kind")
            continue
        kind, detail, member = found
        if kind == "SIZE" and i > 0 and parts[i - 1].startswith("char *"):
            kind = "BUFFER_BYTES"
        cast = re.sub(r"\w+$", "", part)
        kinds.append(f"KIND_{kind}")
        details.append(detail)
        values.append(f"({cast.strip()})v[{i}].{member}")
    call = f"{name}({', '.join(values)})"
    lines = [f"static tnr_status call_{name}(const misuse_value *v)", "{"]
    if not parts:
        lines.append("    (void)v;")
    if returns == "tnr_status":
        lines += [f"    return {call};", "}", ""]
    else:
        lines += ["    " + ("" if returns == "void" else "(void)") + f"{call};",
                  "    return TNR_OK;", "}", ""]
    row = (f"    {{\"{name}\", call_{name}, {may_call_driver:d}, {len(parts)}, "
           f"{{{', '.join(kinds) or '0'}}}, "
           f"{{{', '.join(details) or '{0}'}}}}},")
    return lines, row, problems


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, required=True, help="the repository")
    parser.add_argument("output", type=pathlib.Path)
    arguments = parser.parse_args()
    headers = headers_of(arguments.root)
    text = re.sub(r"/\*.*?\*/", "", "\n".join(headers), flags=re.S)
    functions, named = declared(headers), named_of(headers)[0]
    exported = (arguments.root / "tests/abi/exported_symbols.txt").read_text("utf-8").split()
    lines, rows, problems = [], [], []
    for name in sorted(one.split("@")[0] for one in exported):
        if name not in functions:
            problems.append(f"{name}: exported, and no header declares it")
            continue
        returns, parameters, comment = functions[name]
        may_call_driver = DRIVER in named.get(name, ()) or bool(CALLS_DRIVER.search(comment))
        more, row, wrong = function_of(name, returns, parameters, may_call_driver, text)
        lines += more
        rows.append(row)
        problems += wrong
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    arguments.output.write_text("\n".join(
        ["/* Made by calls.py from the public headers. */",
         *callbacks_of(text, "".join(rows)), *lines,
         "const misuse_call misuse_calls[] = {", *rows, "};",
         "const size_t misuse_calls_count = sizeof(misuse_calls) / sizeof(misuse_calls[0]);", ""]),
        "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
