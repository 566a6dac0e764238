#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenure run --check`: the zoo's errors are found, each as what it is, and correct programs are
silent.

Broken to see it fail, each by itself: the host learns nothing of a host function (check/host.c),
of events, streams, devices (order.c) or of cuMemFree (check_freed_at_once in check/rules.c); the
legacy stream and blocking ones do not wait for each other, either way (stream_settle in
check/streams.c); streams take over nothing of events; no use is compared at the free, no
allocation at the use; uses of freed blocks are passed over; graphs are asked by address instead
of by block; events of nodes and updates of executables are not told; launches of one do not wait
for each other; pageable copies, or those without a stream, do not wait; words of structures, ends
of ranges and value waits count as certain; findings are not compared; captured work counts as
done; stream-ordered memory that is freed at once is taken for waited for; an index is given to
the next stream while work is under way; remembered stacks are not looked at again
(check/places.c).

Environment: TENURE is the command, PRELOAD_LIBRARY the library under programs, PRELOAD_PROGRAMS the
folder of the programs, PRELOAD_SCENARIOS the list of the preload tests' scenarios.
"""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

TENURE = os.environ["TENURE"]
PROGRAMS = pathlib.Path(os.environ["PRELOAD_PROGRAMS"])
SCHEDULES = ["lazy", "random", "threads"]

# Animal -> kind, the earlier call, the later one.
CERTAIN = {
    "free_in_use": ("free_in_use", "cuLaunchKernel", "cuMemFreeAsync"),
    "free_in_use_by_copy": ("free_in_use", "cuMemcpyDtoDAsync", "cuMemFreeAsync"),
    "free_in_use_by_set": ("free_in_use", "cuMemsetD32Async", "cuMemFreeAsync"),
    "free_in_use_by_packed": ("free_in_use", "cuLaunchKernel", "cuMemFreeAsync"),
    "free_at_once_in_use": ("free_in_use", "cuLaunchKernel", "cuMemFree"),
    "free_on_the_wrong_stream": ("free_in_use", "cuLaunchKernel", "cuMemFreeAsync"),
    "free_on_the_default_stream": ("free_in_use", "cuLaunchKernel", "cuMemFreeAsync"),
    "default_stream_first": ("use_before_allocation", "cuMemAllocAsync", "cuLaunchKernel"),
    "another_free_waits": ("free_in_use", "cuLaunchKernel", "cuMemFreeAsync"),
    "event_seen": ("free_in_use", "cuLaunchKernel", "cuMemFreeAsync"),
    "event_too_early": ("free_in_use", "cuLaunchKernel", "cuMemFreeAsync"),
    "event_never_recorded": ("free_in_use", "cuLaunchKernel", "cuMemFreeAsync"),
    "three_streams": ("free_in_use", "cuLaunchKernel", "cuMemFreeAsync"),
    "stream_that_ended": ("free_in_use", "cuLaunchKernel", "cuMemFreeAsync"),
    "thread": ("free_in_use", "cuLaunchKernel", "cuMemFreeAsync"),
    "thread_default_stream": ("free_in_use", "cuLaunchKernel", "cuMemFreeAsync"),
    "pool": ("free_in_use", "cuLaunchKernel", "cuMemFreeAsync"),
    "peer_copy": ("free_in_use", "cuMemcpyPeerAsync", "cuMemFreeAsync"),
    "host_function": ("free_in_use", "cuLaunchKernel", "cuMemFreeAsync"),
    "copy_at_once": ("free_in_use", "cuMemcpyDtoD", "cuMemFreeAsync"),
    "pageable": ("free_in_use", "cuMemcpyDtoHAsync", "cuMemFreeAsync"),
    "use_after_free": ("use_after_free", "cuMemFreeAsync", "cuLaunchKernel"),
    "use_after_free_at_once": ("use_after_free", "cuMemFree", "cuMemcpyDtoH"),
    "use_after_free_elsewhere": ("use_after_free", "cuMemFreeAsync", "cuLaunchKernel"),
    "use_before_allocation": ("use_before_allocation", "cuMemAllocAsync", "cuLaunchKernel"),
    "free_before_allocation": ("use_before_allocation", "cuMemAllocAsync", "cuMemFreeAsync"),
    "reuse": ("reuse_without_order", "cuMemAllocAsync", "cuLaunchKernel"),
    "double_free": ("double_free", "cuMemFreeAsync", "cuMemFreeAsync"),
    "wrong_free": ("wrong_free", None, "cuMemFree"),
    "graph_in_use": ("free_in_use", "cuGraphLaunch", "cuMemFreeAsync"),
    "graph_input_freed": ("use_after_free", "cuMemFree", "cuGraphLaunch"),
    "graph_input_replaced": ("use_after_free", "cuMemFreeAsync", "cuGraphLaunch"),
    "graph_updated": ("use_after_free", "cuMemFree", "cuGraphLaunch"),
    "graph_event": ("free_in_use", "cuGraphLaunch", "cuMemFreeAsync"),
    "graph_waits_for_itself": ("free_in_use", "cuGraphLaunch", "cuMemFreeAsync"),
}
POSSIBLE = {"structure": "larger parameter", "end_of_range": "larger parameter",
            "value_wait": "streams wait for"}
# A host that waits for a host function needs somebody who runs it meanwhile.
ONLY_THREADS = {"host_function"}
# Two errors are planted in it.
DELIBERATE = {"mixed": ["double_free", "wrong_free"]}
# What scenarios need of the simulated device.
TWO = {"TENURE_SIM_DEVICES": 2}
NEEDS = {"devices": TWO, "devices_streams": TWO, "reset_one": TWO,
         "shortage": {"TENURE_SIM_MEMORY": "256M"},
         "peers_refused": {**TWO, "TENURE_SIM_FAIL": "cuMemSetAccess:2:999"}}
# It is the other process of `share`, which starts it.
ELSEWHERE = {"share_other"}


class Result:
    def __init__(self, done, findings):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        rows = [json.loads(line) for line in findings.read_text().splitlines()] \
            if findings.exists() else []
        self.findings = [row for row in rows if "finding" in row]
        self.summaries = [row for row in rows if "summary" in row]


class CheckTest(unittest.TestCase):
    def run_checked(self, command, options=(), **environment):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        findings = pathlib.Path(folder.name) / "findings.json"
        variables = {**os.environ, "TMPDIR": folder.name,
                     **{name: str(value) for name, value in environment.items()}}
        variables.pop("TENURE_DRIVER", None)
        done = subprocess.run(
            [TENURE, "run", "--driver", "sim", "--check", "--findings", findings, *options, "--",
             *map(str, command)], env=variables, text=True, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=500, check=False)
        left = [path for path in pathlib.Path(folder.name).iterdir() if path != findings]
        self.assertEqual(left, [])
        return Result(done, findings)

    def animal(self, name, which, options=(), schedule="lazy", **environment):
        if name in ONLY_THREADS:
            schedule = "threads"
        return self.run_checked([PROGRAMS / "check_zoo", name, which], options,
                                TENURE_SIM_SCHEDULE=schedule, TENURE_SIM_DEVICES=2, **environment)

    def check_silent(self, result, code=0):
        self.assertEqual(result.code, code, result.err)
        self.assertNotIn("check: finding", result.err)
        self.assertEqual(result.findings, [])


class Zoo(CheckTest):
    def test_errors_are_found(self):
        for name, (kind, earlier, later) in CERTAIN.items():
            for schedule in SCHEDULES:
                with self.subTest(name=name, schedule=schedule):
                    result = self.animal(name, "wrong", schedule=schedule)
                    self.assertEqual(result.code, 99, result.err)
                    self.assertEqual(len(result.findings), 1, result.err)
                    found = result.findings[0]
                    self.assertEqual((found["kind"], found["certain"]), (kind, True), result.err)
                    self.assertEqual(found.get("earlier", {}).get("call"), earlier)
                    self.assertEqual(found["later"]["call"], later)
                    self.assertEqual(result.err.count(": finding 1, certain: "), 1, result.err)
                    self.assertIn("missing: ", result.err)

    def test_twins_are_silent(self):
        for name in [*CERTAIN, *POSSIBLE, "repeated", "places", "leak"]:
            for schedule in SCHEDULES:
                with self.subTest(name=name, schedule=schedule):
                    self.check_silent(self.animal(name, "right", schedule=schedule))

    def test_what_is_possible_only(self):
        """Said, and no reason for another exit code."""
        for name, why in POSSIBLE.items():
            with self.subTest(name=name):
                result = self.animal(name, "wrong")
                self.assertEqual(result.code, 0, result.err)
                self.assertEqual([row["certain"] for row in result.findings], [False], result.err)
                self.assertIn("finding 1, possible", result.err)
                self.assertIn(why, result.err)

    def test_kernels_and_frames_are_named(self):
        found = self.animal("free_in_use", "wrong").findings[0]
        self.assertEqual(found["earlier"]["kernel"], "touch")
        for side in ["allocated", "earlier", "later"]:
            self.assertTrue(found[side]["stack"][0].startswith("check_zoo+0x"), found[side])
        self.assertEqual(found["bytes"], 1 << 20)
        self.assertIn("cuStreamWaitEvent", found["missing"])

    def test_an_error_that_repeats_is_said_once(self):
        result = self.animal("repeated", "wrong")
        self.assertEqual(len(result.findings), 1, result.err)
        self.assertIn("finding 1: 50 times", result.err)
        self.assertEqual(result.summaries[0]["certain_times"], 50)

    def test_places_are_told_apart(self):
        """Stacks are remembered by their depth, and these two have one."""
        result = self.animal("places", "wrong")
        self.assertEqual(len(result.findings), 2, result.err)
        stacks = [row["earlier"]["stack"] for row in result.findings]
        self.assertNotEqual(stacks[0], stacks[1])
        self.assertEqual(stacks[0][0], stacks[1][0], "both in touch()")
        self.assertEqual(result.summaries[0]["certain_times"], 6)

    def test_leaks(self):
        """They are listed if they are asked for, and are no findings."""
        for options, count in [((), 0), (("--leaks",), 1)]:
            result = self.animal("leak", "wrong", options)
            self.check_silent(result)
            self.assertEqual(result.err.count("live at the end: block"), count, result.err)
        self.assertIn("0 blocks (0 bytes) live", self.animal("leak", "right", ["--leaks"]).err)


class Options(CheckTest):
    def test_exit_code(self):
        self.assertEqual(self.animal("free_in_use", "wrong", ["--error-exitcode", "7"]).code, 7)
        self.assertEqual(self.animal("free_in_use", "wrong", ["--error-exitcode", "0"]).code, 0)
        self.assertEqual(self.animal("free_in_use", "right", ["--error-exitcode", "7"]).code, 0)
        self.assertEqual(self.animal("no_such_animal", "right").code, 2)

    def test_options_that_do_not_fit(self):
        for options in [["--leaks"], ["--findings", "x"], ["--error-exitcode", "3"],
                        ["--check", "--error-exitcode", "x"], ["--check", "--driver", "no"],
                        ["--check", "--findings", "/no/such/folder/x"]]:
            done = subprocess.run([TENURE, "run", *options, "--", "true"], capture_output=True,
                                  text=True, check=False)
            self.assertEqual(done.returncode, 2, (options, done.stderr))

    def test_a_program_that_dies_has_said_it(self):
        script = f"'{PROGRAMS / 'check_zoo'}' free_in_use wrong; kill -9 $$"
        result = self.run_checked(["sh", "-c", script], TENURE_SIM_DEVICES=2)
        self.assertEqual(result.code, 99, result.err)
        self.assertIn("died of signal 9", result.err)

    def test_drivers_that_do_not_tell_parameters(self):
        """Nothing is known of what kernels use, which is said once; copies are known."""
        old = {"TENURE_SIM_FAIL": "cuFuncGetParamInfo:1+:801"}
        result = self.animal("repeated", "wrong", **old)
        self.check_silent(result)
        self.assertEqual(result.err.count("does not tell the parameters"), 1, result.err)
        self.assertEqual(result.summaries[0]["launches_unread"], 50)
        self.assertEqual(self.animal("free_in_use_by_copy", "wrong", **old).code, 99)

    def test_off(self):
        done = subprocess.run(
            [TENURE, "run", "--driver", "sim", "--", PROGRAMS / "check_zoo", "free_in_use",
             "wrong"], capture_output=True, text=True, check=False,
            env={name: value for name, value in os.environ.items() if name != "TENURE_DRIVER"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class CorrectPrograms(CheckTest):
    """The scenarios of tests/preload: whatever they come to, it is not an error of lifetime."""

    def run_scenario(self, scenario, way, **environment):
        needs = NEEDS.get(scenario, TWO if scenario.startswith("peers") else {})
        return self.run_checked([PROGRAMS / "preload_engine", way, scenario], **needs,
                                **environment)

    def test_scenarios(self):
        names = re.findall(r"^SCENARIO\((\w+)\)",
                           pathlib.Path(os.environ["PRELOAD_SCENARIOS"]).read_text(), re.M)
        self.assertGreater(len(names), 30)
        for name in names:
            if name in ELSEWHERE:
                continue
            for way, schedule in [("lookup2", "lazy"), ("dlsym-thread", "random")]:
                with self.subTest(scenario=name, way=way):
                    result = self.run_scenario(name, way, TENURE_SIM_SCHEDULE=schedule)
                    kinds = sorted(row["kind"] for row in result.findings)
                    self.assertEqual(kinds, DELIBERATE.get(name, []), result.err)
                    self.assertEqual(result.code, 99 if kinds else 0, result.err)

    def test_everything_at_once(self):
        for seed in range(4):
            result = self.run_scenario("storm", "lookup2", TENURE_SIM_SCHEDULE="threads",
                                       ENGINE_SEED=seed)
            self.check_silent(result)


if __name__ == "__main__":
    unittest.main()
