#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A driver that lacks one entry point: each of the library's table once, with every scenario of
the fault tests. Without one that is required, nothing starts, and the error names it. Without any
other, what needs it is refused with a sentence, and the rest works: no call of a null pointer, and
nothing is lost or left behind.

Broken to see it fail: tnri_captures_supported (capture/graph/capture.c) without
cuStreamBeginCapture, cuStreamEndCapture, cuStreamIsCapturing, cuGraphLaunch and
cuUserObjectCreate; looks_make (alloc/see/trap/look.c) without the look for cuMemFreeHost.

The short run gives each entry point every other program, and the next commit the others; what
captures need is refused in each.

Arguments: entry_points.def of the library and of the simulated device, and the programs, first
the one that makes do without required entry points. TENURE_COMMIT_HEADER is the header that has the
commit's name.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import unittest
import zlib

TABLE, SIMULATED, *PROGRAMS = sys.argv[1:]
ENTRIES = re.findall(r"^DRIVER_ENTRY\((\w+), \w+, \d+, (\w+),", pathlib.Path(TABLE).read_text(),
                     re.MULTILINE)
HAS = set(re.findall(r"^SIM_ENTRY\w*\((\w+),", pathlib.Path(SIMULATED).read_text(), re.MULTILINE))
# What the fault tests say where more is wrong than a call that is refused.
WORSE = re.compile(r"said nothing|left after shutdown|left$|violations|is gone|lost its data|"
                   r"no longer what it was|tnr_validate|the shutdown at the end|does not fit|race|"
                   r"exception")
EVERY = "TENURE_TEST_LONG" in os.environ
COMMIT = zlib.crc32(os.environ["TENURE_TEST_COMMIT"].encode() if "TENURE_TEST_COMMIT" in os.environ
                    else pathlib.Path(os.environ["TENURE_COMMIT_HEADER"]).read_bytes())
CAPTURES = ["cuStreamBeginCapture", "cuStreamEndCapture", "cuStreamIsCapturing", "cuGraphLaunch",
            "cuUserObjectCreate"]


def run(program, entry):
    environment = dict(os.environ, TENURE_SIM_MISSING=entry, TENURE_DRIVER="sim")
    done = subprocess.run([program, "lack"], env=environment, text=True, capture_output=True,
                          timeout=1000, check=False)
    return program, entry, done.returncode, done.stdout + done.stderr


def run_all(pairs):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda pair: run(*pair), pairs))


class Missing(unittest.TestCase):
    def test_required(self):
        names = [name for name, need in ENTRIES if need == "REQUIRED"]
        self.assertGreater(len(names), 30)
        for _, entry, code, text in run_all([(PROGRAMS[0], name) for name in names]):
            self.assertGreater(code, 0, f"{entry}\n{text}")
            self.assertRegex(text, rf"lacks {entry} \(CUDA \d+\.\d+\)\. Install a newer")

    def test_optional(self):
        names = [name for name, need in ENTRIES if need == "OPTIONAL" and name in HAS]
        self.assertGreater(len(names), 25)
        refused = set()
        pairs = [(program, name) for place, name in enumerate(names)
                 for other, program in enumerate(PROGRAMS)
                 if EVERY or name in CAPTURES or (place + other + COMMIT) % 2 == 0]
        for program, entry, code, text in run_all(pairs):
            with self.subTest(program=program, entry=entry):
                self.assertGreaterEqual(code, 0, text)
                self.assertIsNone(WORSE.search(text), text)
                if code > 0:
                    refused.add(entry)
        # A table that hid nothing would find nothing.
        self.assertLessEqual(set(CAPTURES), refused)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
