#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes mends back, one at a time, in a scratch copy of the tree, and has the programs of pairs
look for each fault: as many of them as the short run takes, or if these find nothing, all.

    mends.py --check               the texts are all there; builds nothing
    mends.py SCRATCH [NAME...]     all of them, or some; prints the rows of mends.csv

SCRATCH is a folder for the copy and its build; it is made, and used again the next time. The exit
code is 1 if a fault was not found.
"""
import csv
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "mutants"))
sys.dont_write_bytecode = True
from run_mutants import ROOT, Scratch, run  # noqa: E402

EVERY = (11, 1)
COLUMNS = "name what programs found first".split()

# Name, file, text, what stands there without the mend, what is wrong then.
MENDS = [
    ("event_device", "alloc/memory/device/event.c",
     "tnri_depot_give(&event->device->events.spares, &event->link);",
     "tnri_depot_give(&tnri_device_at(0)->events.spares, &event->link);",
     "an event becomes a spare of another device"),
    ("let_go", "capture/graph/hooks.c",
     "            tnri_graph_let_go_of(graph, device);",
     "            (void)graph;",
     "the end of a device does not let go of what graphs of others keep"),
    ("capture_over", "capture/graph/ending.c",
     "&& capture_is_over(capture))", "&& capture_is_over(capture) < 0)",
     "no end of a capture is noticed but those that Tenure is told of"),
    ("destroy_beside", "alloc/memory/arena/arena.c",
     "    tnr_status status = tnri_stream_mark_beside(stream, event, &number);\n    /* One that",
     "    tnr_status status = TNR_ERR_CAPTURE;\n    number = 0, (void)number;\n    /* One that",
     "a pool cannot end while another stream captures"),
    ("fence_beside", "lifetime/order/batch.c",
     "tnri_capturing() ? tnri_stream_mark_beside(stream, &event, &number)",
     "tnri_capturing() ? TNR_ERR_CAPTURE",
     "what was freed is not fenced while another stream captures"),
    ("park_unmade", "capture/away/park_contents.c",
     "!contents->is_fresh || tnri_capturing()", "1",
     "a refused tnr_park keeps the buffers that it pinned"),
    ("host_function", "lifetime/order/free.c",
     "looks == 0 && tnri_gpu_in_host_function()", "looks < 0 && tnri_gpu_in_host_function()",
     "a free in a host function asks the driver, and is refused"),
    ("device_in_capture", "capture/graph/hooks.c",
     "    tnr_status status = tnri_graph_place_add(capture->graph, device, &place);",
     "    place = NULL;\n"
     "    tnr_status status = tnri_error(TNR_ERR_INVALID_STREAM, \"of another device.\");",
     "a capture has no memory of another device than its own"),
]


def check():
    return [f"{name}: its text is not in {file}, or more than once"
            for name, file, text, *_ in MENDS if (ROOT / file).read_text().count(text) != 1]


def programs_run(scratch, every):
    """How many programs ran and found something, and the first of these."""
    said = run([scratch.build / "tests" / "test_products", "--parts", "2", "--every", every,
                "--deadline", "60"],
               env={**os.environ, "TENURE_SIM_VIEW": "beside"}).stdout
    count = re.search(r": (\d+) of .*, (\d+) found something", said)
    first = re.search(r"^FOUND (.*)", said, re.MULTILINE)
    return count[1], count[2], first[1] if first else ""


def main(arguments):
    wrong = check()
    if wrong or arguments == ["--check"] or not arguments:
        print(*wrong, sep="\n")
        return int(bool(wrong))
    scratch = Scratch(pathlib.Path(arguments[0]).resolve(), "test_products")
    rows = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    rows.writeheader()
    missed = 0
    for name, file, text, replacement, what in MENDS:
        if arguments[1:] and name not in arguments[1:]:
            continue
        scratch.mutate(file, text, replacement)
        try:
            scratch.must(scratch.make("test_products"))
            for every in EVERY:
                programs, found, first = programs_run(scratch, every)
                if found != "0":
                    break
        finally:
            scratch.restore(file)
        missed |= found == "0"
        rows.writerow(dict(zip(COLUMNS, (name, what, programs, found, first))))
        sys.stdout.flush()
    return missed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
