#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each public function begins with TNRI_CALM_CALL (alloc/base/prim/calm.h), so that no thread is
cancelled in it, or is named here with the reason why it need not.

  check_calm.py [--root FOLDER]

Seen to fail with TNRI_CALM_CALL taken from any of them.
"""
import argparse
import pathlib
import re
import sys

CACHED = "the cached path; where that ends, ladder, visit, start or collect begin it"
TELLS = "reads or keeps a value, and calls nothing of the system"
STREAMS = "asks the driver before it takes anything; what follows are visits"
WITHOUT = {
    **dict.fromkeys(["tnr_malloc", "tnr_malloc_aligned", "tnr_pool_malloc",
                     "tnr_free", "tnr_free_on",
                     "tnr_host_malloc", "tnr_host_malloc_near", "tnr_host_free",
                     "tnr_record_use", "tnr_record_stream", "tnr_pool_push", "tnr_pool_pop"],
                    CACHED),
    **dict.fromkeys(["tnr_version", "tnr_status_name", "tnr_status_text", "tnr_last_error",
                     "tnr_last_driver_result", "tnr_is_running", "tnr_stream_is_asked",
                     "tnr_event_is_announced", "tnr_pool_generation", "tnr_asked_changes",
                     "tnr_moment_now"], TELLS),
    **dict.fromkeys(["tnr_stream_waited", "tnr_event_recorded", "tnr_event_destroyed",
                     "tnr_stream_synchronized", "tnr_event_synchronized",
                     "tnr_device_synchronized"], STREAMS),
}
DEFINITION = re.compile(r"^[\w ]+\**\b(tnr_\w+)\([^;{}]*\)\n\{\n(.*)\n", re.M)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("."))
    root = parser.parse_args().root
    exported = (root / "tests/abi/exported_symbols.txt").read_text().split()
    names = {line.split("@@")[0] for line in exported if line.startswith("tnr_")}
    begin = {}
    for layer in ("alloc", "lifetime", "capture"):
        for path in (root / layer).rglob("*.c"):
            begin.update(DEFINITION.findall(path.read_text()))
    # What a macro defines is found by its name alone.
    problems = [f"{name}: has no TNRI_CALM_CALL" for name in sorted(names & set(begin))
                if name not in WITHOUT and begin[name].strip() != "TNRI_CALM_CALL;"]
    problems += [f"{name}: need not be named here" for name in sorted(WITHOUT)
                 if name not in names or begin.get(name, "").strip() == "TNRI_CALM_CALL;"]
    problems += [f"{name}: is defined nowhere"
                 for name in sorted(names - set(begin) - set(WITHOUT))]
    print("\n".join(problems) or f"{len(names)} functions")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
