#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fuzzer's programs through the checker: what is legal is silent, and each planted error that
it can see is found, once, as what it is.

The fuzzer calls libtenure itself, and checks it against a model that knows of nobody else: so the
library that watches serves nothing and announces nothing here (TENURE_PRELOAD_SERVE=0).

Broken to see it fail: calls of Tenure that wait for the device are not told (check/engine.c); what
was recorded is not looked at when a block is freed; a record covers the whole stream, not up to
where it was made; a block's own stream does not count; races are not folded into the error that
they come from, or not told (check/findings.c, check/race.c); a race is looked for in other memory
(race_note in check/race.c: seed 545), or its sides are of no stream (tag_bind there).

Environment: TENURE is the command; FUZZ_LEGAL how many programs of 20,000 operations, FUZZ_PLANTED
how many with an error.
"""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

TENURE = os.environ["TENURE"]

# Planted error -> kind, the later call, what the missing call begins with. Others are no errors of
# lifetime, or of memory that is not followed (pools over segments).
FOUND = {
    "use not recorded": ("free_in_use", "tnr_free", "tnr_record_use("),
    "use recorded too early": ("free_in_use", "tnr_free", "tnr_record_use("),
    "kept until too early an event": ("free_in_use", "tnr_free", "tnr_record_use("),
    "free on the wrong stream": ("free_in_use", "tnr_free_on", "tnr_record_use("),
    "peer's use not waited for": ("free_in_use", "tnr_free", "tnr_record_use("),
    "wait omitted": (None, "cuLaunchKernel", "stream "),
    "write after free": ("use_after_free", "cuLaunchKernel", "free it after "),
    "read after free": ("use_after_free", "cuLaunchKernel", "free it after "),
    "double free": ("double_free", "tnr_free", "leave out "),
    "interior free": ("wrong_free", "tnr_free", "free 0x"),
}
# The checker follows none of these; what comes of the first two the device may see as a race.
RACES = {"use in a segment not recorded", "stream's end not told"}
# Seeds that broke a rule of this test, run whatever the count is. 545: three races of one error.
KEPT = [545]
UNSEEN = {"foreign free", "peer's access of what is closed", "owner gives a segment twice"}


ON_PURPOSE = ["wrong_free", "double_free"]


class Fuzz(unittest.TestCase):
    def run_fuzz(self, *options):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name)
        # Legal programs free what is no block, too, to see it refused.
        (path / "rules").write_text("".join(f"kind:{kind}\n" for kind in ON_PURPOSE))
        variables = {**os.environ, "TENURE_PRELOAD_SERVE": "0"}
        variables.pop("TENURE_DRIVER", None)
        rules = [] if "--illegal" in options else ["--suppress", path / "rules"]
        done = subprocess.run(
            [TENURE, "run", "--driver", "sim", "--check", "--findings", path / "found", *rules,
             "--", TENURE, "fuzz", "--no-shrink", "--json", "--out", path, *options],
            env=variables, text=True, capture_output=True, check=False)
        rows = [json.loads(line) for line in (path / "found").read_text().splitlines()]
        return done, [row for row in rows if "finding" in row]

    def test_legal_programs_are_silent(self):
        last = int(os.environ["FUZZ_LEGAL"])
        done, findings = self.run_fuzz("--seeds", f"1..{last}", "--ops", "20000", "--keep-going")
        report = json.loads(done.stdout)
        self.assertEqual(findings, [], done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreaterEqual(report["operations"], last * 20000)

    def check_races(self, name, errors):
        """A use of a segment that is not recorded is one race. After a stream's end that is not
        told, Tenure takes the next stream with its handle to be after all that the old one was
        after: so whoever used the memory before may race with whoever uses the new block. Each two
        are an error of order by themselves, and no two are told twice; but all are in one block,
        which went from the one stream to the other."""
        self.assertLessEqual({row["kind"] for row in errors}, {"race"})
        if name != "stream's end not told":
            self.assertLessEqual(len(errors), 1)
            return
        self.assertLessEqual(len({(row["block"], row["bytes"]) for row in errors}), 1)
        pairs = {frozenset(json.dumps([row[side][what] for what in ("stream", "call", "stack")])
                           for side in ("earlier", "later")) for row in errors}
        self.assertEqual(len(pairs), len(errors))
        for row in errors:
            handle = row["allocated"]["handle"]
            sides = [row[side] for side in ("allocated", "freed_before", "earlier", "later")]
            streams = {side["stream"] for side in sides if side["handle"] == handle}
            self.assertEqual(len(streams), 2, row)

    def test_planted_errors_are_found(self):
        seen, known = {}, 0
        last = int(os.environ["FUZZ_PLANTED"])
        for seed in [*range(1, last + 1), *(kept for kept in KEPT if kept > last)]:
            with self.subTest(seed=seed):
                done, findings = self.run_fuzz("--illegal", "--seeds", str(seed), "--ops", "300")
                report = json.loads(done.stdout)
                names = [name for name, count in report["planted"].items() if count]
                errors = [row for row in findings if row["kind"] not in ON_PURPOSE]
                if not names:
                    continue # its effect was lost, which the fuzzer does not count, and we find
                if names[0] in RACES:
                    self.check_races(names[0], errors)
                    seen["race"] = seen.get("race", 0) + len(errors)
                    continue
                if names[0] in UNSEEN:
                    self.assertEqual(errors, [], (names, done.stderr))
                    continue
                kind, later, missing = FOUND[names[0]]
                seen[names[0]] = seen.get(names[0], 0) + 1
                if kind in ON_PURPOSE:
                    self.assertEqual(errors, [], done.stderr)
                    errors = [row for row in findings if row["kind"] == kind][-1:]
                if kind == "use_after_free": # possible, if it is the kernel's first launch
                    errors = [row for row in errors if row["kind"] != "race"]
                self.assertEqual(len(errors), 1, (names, done.stderr))
                one = errors[0]
                self.assertTrue(one["certain"] or kind == "use_after_free")
                known += kind == "use_after_free" and one["certain"]
                if kind is not None:
                    self.assertEqual(one["kind"], kind)
                else:
                    self.assertIn(one["kind"], ["use_before_allocation", "reuse_without_order"])
                self.assertEqual(one["later"]["call"], later)
                self.assertTrue(one["missing"].startswith(missing), one["missing"])
                if "record" in missing:
                    self.assertIn(one["block"], one["missing"])
        self.assertGreater(len(seen), 5, seen)
        self.assertGreater(seen["race"], 0, seen)
        self.assertGreater(known, 0, seen)


if __name__ == "__main__":
    unittest.main()
