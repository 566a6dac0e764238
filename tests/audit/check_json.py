#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_json.py SCHEMA PROGRAM: the JSON of audits is what docs/audit.schema.json says.

Runs PROGRAM 0, 1 and 2, which write an audit each, and checks them against the schema, with a
validator for the part of JSON Schema that is used there; then spoils them in every single place,
and all of these must be refused.
"""
import copy
import json
import re
import subprocess
import sys

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
IGNORED = {"$schema", "title", "description"}
KNOWN = IGNORED | {"type", "properties", "required", "additionalProperties", "items", "enum",
                   "const", "pattern", "minimum"}


def is_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def problems(value, schema, where="$"):
    """Yields what is wrong with a value."""
    unknown = set(schema) - KNOWN
    if unknown:
        raise ValueError(f"{where}: the schema uses {unknown}, which this validator does not know")
    names = schema.get("type", [])
    names = [names] if isinstance(names, str) else names
    if names and not any(is_type(value, name) for name in names):
        yield f"{where}: {value!r} is no {names}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{where}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is none of {schema['enum']}"
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        yield f"{where}: {value!r} does not match {schema['pattern']}"
    if "minimum" in schema and is_type(value, "integer") and value < schema["minimum"]:
        yield f"{where}: {value!r} is less than {schema['minimum']}"
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for key in schema.get("required", []):
            if key not in value:
                yield f"{where}: no {key}"
        for key, inner in value.items():
            if key in properties:
                yield from problems(inner, properties[key], f"{where}.{key}")
            elif schema.get("additionalProperties") is False:
                yield f"{where}: {key} is not in the schema"
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield from problems(inner, schema.get("items", {}), f"{where}[{index}]")


def places(value, path=()):
    """The paths to everything in a document."""
    items = value.items() if isinstance(value, dict) else \
        enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield path + (key,)
        yield from places(inner, path + (key,))


def spoiled(document):
    """Copies of a document with one thing wrong in each."""
    for path in places(document):
        for how in ("change", "remove", "add"):
            wrong = copy.deepcopy(document)
            inside = wrong
            for key in path[:-1]:
                inside = inside[key]
            if how == "change":
                inside[path[-1]] = 0.5
            elif how == "remove" and isinstance(inside, dict):
                del inside[path[-1]]
            elif how == "add" and isinstance(inside, dict):
                inside["something else"] = 1
            else:
                continue
            yield how, path, wrong


def consistent(document):
    sums, findings = document["sums"], document["findings"]
    safe = sum(finding["is_safe"] for finding in findings)
    return (sums["found"] == len(findings) and sums["proved"] == safe
            and sums["unproved"] == len(findings) - safe
            and sums["nodes"] == sum(sums[key] for key in ("kernels", "copies", "sets", "others"))
            and len(document["unread"]) == min(sums["unread"], 16)
            and document["is_proved"] == (sums["unread"] == 0 and safe == len(findings))
            and all(f["is_safe"] == (f["verdict"] in ("OWN", "KEPT")) for f in findings))


def main():
    schema_path, program = sys.argv[1:]
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    wanted = ("graph with everything proved", "nothing kept", "a node unread")
    refused = 0
    for which, what in enumerate(wanted):
        done = subprocess.run([program, str(which)], check=True, capture_output=True)
        document = json.loads(done.stdout.decode("utf-8"))
        found = list(problems(document, schema))
        assert not found, f"{what}: {found}"
        assert consistent(document), f"{what}: {document['sums']}"
        assert document["is_proved"] == (which == 0), what
        assert (document["graph"] is None) == (which == 1), what
        assert len(document["unread"]) == (which == 2), what
        assert len(document["findings"]) >= 4, what
        if document["graph"]:
            assert document["graph"]["name"] == 'a "sample" é', document["graph"]
        for how, path, wrong in spoiled(document):
            assert next(problems(wrong, schema), None), f"{how} {path} is not refused"
            refused += 1
    print(f"{len(wanted)} audits are as the schema says; {refused} spoiled ones are refused")


if __name__ == "__main__":
    main()
