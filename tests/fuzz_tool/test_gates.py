#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gated programs (`tenure fuzz --gates`, what `--driver cuda` does on a GPU), on the simulated
device with its workers running free and its race detector off: so only contents can show an error.

FUZZ_GATED: how many legal programs are run; a quarter of it of every other sort.
"""
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

TENURE = os.environ["TENURE"]
BROKEN = os.environ["TENURE_TEST_BROKEN"]
ROOT = pathlib.Path(os.environ["TENURE_SOURCE"])
PROGRAMS = int(os.environ.get("FUZZ_GATED", "30"))
NO_DEVICE, SAFETY, LIVENESS, CRASH, MISSED = 3, 10, 11, 12, 13
ALL = 2**64 - 1

HEAD = """tenure-fuzz 1
devices 1
memory 67108864
schedule lazy
schedule-seed 1
begin
create-stream s2 device d0 blocking 0 told 0
create-stream s3 device d0 blocking 0 told 0
"""


class Gates(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_command(self, command, code, **variables):
        result = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True,
            env={**os.environ, **variables}, cwd=self.folder, timeout=1000, check=False)
        codes = code if isinstance(code, tuple) else (code,)
        self.assertIn(result.returncode, codes, result.stdout[-3000:] + result.stderr[-3000:])
        return result

    def fuzz(self, *arguments, code=0, bug=None, **variables):
        if bug:  # the sanitizer's runtime must come first, and here it does not
            variables.update(LD_PRELOAD=BROKEN, TENURE_TEST_BUG=bug,
                             ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0")
        return self.run_command([TENURE, "fuzz", "--gates", *arguments], code, **variables)

    def report(self, *arguments, **options):
        return json.loads(self.fuzz("--json", *arguments, **options).stdout)

    def replay(self, steps, code=0, *arguments, **variables):
        path = self.folder / "program.txt"
        path.write_text(HEAD + steps)
        return self.fuzz("--replay", path, *arguments, code=code, **variables).stdout

    # ---- legal programs

    def check_clean(self, report, programs):
        self.assertEqual(report["verdicts"]["ok"], programs)
        self.assertEqual(report["contents"]["programs_with_a_mismatch"], 0)
        self.assertEqual(report["bytes_kept_at_most"], 0)

    def test_legal_programs_are_clean(self):
        report = self.report("--seeds", f"1..{PROGRAMS}", "--ops", 3000)
        self.check_clean(report, PROGRAMS)
        self.assertGreater(report["operations"], 2900 * PROGRAMS)
        gates = report["gates"]
        self.assertGreater(gates["placed"], 100 * PROGRAMS)
        self.assertGreater(gates["opened_as_drawn"], gates["placed"] / 4)
        # Interleavings that a device left to itself would hardly ever give.
        self.assertGreater(gates["overtaking"], 10 * PROGRAMS)
        self.assertGreater(report["contents"]["reads_checked"], 100 * PROGRAMS)
        if PROGRAMS >= 30:  # all that one real device can be made to do without --park and --odd
            never = {name for name, count in report["operations_run"].items() if count == 0}
            self.assertEqual(never, {"fault", "access", "access-all", "sleep", "wake", "content",
                                     "compact", "park", "unpark", "capture-break",
                                     "capture-beside", "capture-beside-end", "free-host", "miss"})
        self.assertEqual(set(report["not_done"]), {"fault"})

    def test_a_slow_device(self):
        """The destructor of a graph is late, and blocks of the graph wait for it. A program that
        ends is judged once they came back (drain_graph_ends in tools/fuzz/drain.c)."""
        self.replay("""capture-begin g1 on s2 from p0 mode 0
malloc b34 on s0 from p0 bytes 512
write b34 on s2
capture-end g1
""", TENURE_SIM_LAG_US="50000")

    def test_two_devices(self):
        report = self.report("--seeds", f"200..{200 + PROGRAMS // 4}", "--ops", 2000,
                             TENURE_SIM_DEVICES="2")
        self.assertEqual(report["devices"], 2)
        self.check_clean(report, PROGRAMS // 4 + 1)

    def test_kernels_in_place_of_memory_operations(self):
        report = self.report("--spin", "--seeds", f"300..{300 + PROGRAMS // 4}", "--ops", 2000)
        self.assertEqual(report["held_by"], "kernels")
        self.check_clean(report, PROGRAMS // 4 + 1)
        self.assertGreater(report["gates"]["overtaking"], PROGRAMS)

    # ---- that gates hold, and open when the program says so

    def test_an_order_by_hand(self):
        """An unordered read, before the write that was queued earlier or after it."""
        steps = f"""malloc b1 on s2 from p0 bytes 4096
write b1 on s2
! read b1 on s3
run-stream %s operations {ALL}
run {ALL}
"""
        for option in ((), ("--spin",)):
            with self.subTest(option=option):
                before = self.replay(steps % "s3", 0, *option)
                self.assertIn("caught", before)
                self.assertIn("had been written", before)
                self.assertIn("missed", self.replay(steps % "s2", MISSED, *option))

    def test_an_error_without_harm_is_none(self):
        """The block is freed too early; who gets its memory comes before or after the late read."""
        steps = f"""malloc b1 on s2 from p0 bytes 4096
write b1 on s2
record e1 on s2 told 0
wait s3 for e1 told 0
run {ALL}
read b1 on s3
! free b1
"""
        owner = "malloc b2 on s2 from p0 bytes 4096\nwrite b2 on s2\n"
        first = f"run-stream s2 operations {ALL}\nrun {ALL}\n"
        self.assertIn("caught", self.replay(steps + owner + first))
        self.assertIn(": ok", self.replay(steps + f"run {ALL}\n" + owner))

    def test_a_large_block_shares_memory_with_a_small_one(self):
        """Of a large block not every word is visited, but some word of any place in it: here of a
        part in its middle, which has another owner."""
        steps = f"""malloc b1 on s2 from p0 bytes 8388608
write b1 on s2
free b1
malloc b2 on s2 from p0 bytes 2097152
malloc b3 on s2 from p0 bytes 2097152
malloc b4 on s2 from p0 bytes 2097152
write b3 on s2
! read b1 on s2
"""
        self.assertIn("caught", self.replay(steps))
        self.assertIn("missed", self.replay(steps.replace("write b3 on s2\n", ""), MISSED))

    def test_planted_errors_are_all_caught(self):
        report = self.report("--illegal", "--seeds", f"1..{PROGRAMS * 5}", "--ops", 700,
                             "--keep-going")
        self.assertEqual(report["caught"], report["planted"])
        for kind, planted in report["planted"].items():
            # The one would hand the driver a dead handle; gates know nothing of others' segments;
            # the rest need two devices.
            if (kind == "stream's end not told" or "segment" in kind or
                    kind.startswith("peer's ")):
                self.assertEqual(planted, 0)
            elif PROGRAMS >= 30:
                self.assertGreater(planted, 5, kind)
        # What is nobody's error to report can only have been seen in contents.
        statuses = sum(count for kind, count in report["caught"].items() if kind.endswith(" free")
                       and not kind.startswith(("write", "read")))
        self.assertEqual(report["contents"]["programs_with_a_mismatch"],
                         sum(report["caught"].values()) - statuses)

    # ---- bugs of an allocator

    def find(self, bug, code, *arguments, shrink=2):
        failure = self.report("--shrink-time", shrink, "--ops", 3000, *arguments, code=code,
                              bug=bug)["failure"]
        program = self.folder / failure["file"]
        seen = []  # threads run as they do: not each replay shows it
        while len(seen) < 12 and not any(failure["verdict"] in text for text in seen):
            seen.append(self.fuzz("--replay", program, code=(0, code), bug=bug).stdout)
        self.assertTrue(any(failure["verdict"] in text for text in seen), seen)
        self.assertIn(": ok", self.fuzz("--replay", program).stdout)
        return failure

    def test_a_forgotten_use_is_seen_in_contents(self):
        """Or in an access of memory that is not there any more. Threads run as they do: a failure
        that is not seen again soon cannot be made shorter, and the next one is taken."""
        for first in (10, 110, 210, 310):
            failure = self.find("forget", SAFETY, "--seeds", f"{first}..400", "--no-faults",
                                shrink=15)
            self.assertIn(failure["check"], ("contents", "driver", "access"))
            if failure["length_shrunk"] < failure["length"]:
                return
        self.fail("none of four failures was made shorter")

    def test_a_forgotten_free_is_found(self):
        self.assertEqual(self.find("leak", SAFETY, "--seeds", "1..9")["check"], "statistics")

    def test_a_crash_is_found(self):
        self.assertIn("signal 6", self.find("crash", CRASH, "--seeds", "1..9")["text"])

    # ---- the watcher

    def test_a_call_that_does_not_come_back(self):
        failure = self.report("--seeds", "1", "--ops", 1000, "--stall", 3, "--no-shrink",
                              code=LIVENESS, bug="hang")["failure"]
        self.assertEqual(failure["check"], "stall")
        self.assertRegex(failure["text"], r'^"free b\d+" has not come back')
        self.assertIn("no gate is closed", failure["text"])

    def test_a_stream_that_does_not_move(self):
        result = self.fuzz("--seeds", "1", "--ops", 1000, "--stall", 3, "--no-shrink",
                           code=LIVENESS, bug="stuck")
        self.assertRegex(result.stdout, r"s\d+: \d+ gates, 0 of them closed; the work behind \d+")
        self.assertIn("run it again: tenure fuzz --gates --replay ", result.stdout)

    # ---- the command line, and what is on a GPU

    def test_bad_usage(self):
        for arguments in (["--driver", "gpu"], ["--stall", "0"], ["--stall", "x"]):
            with self.subTest(arguments=arguments):
                self.assertNotEqual(self.fuzz(*arguments, code=2).stderr, "")
        for option in (["--spin"], ["--stall", "3"]):
            with self.subTest(option=option):
                self.run_command([TENURE, "fuzz", *option], 2)

    def test_without_a_gpu_it_says_so(self):
        result = self.run_command([TENURE, "fuzz", "--driver", "cuda", "--seeds", "1", "--ops", 50],
                                  (0, NO_DEVICE))
        if result.returncode == NO_DEVICE:
            self.assertIn("tenure doctor", result.stderr)

    def test_the_report_names_the_device_first(self):
        lines = self.fuzz("--seeds", "1", "--ops", 100).stdout.splitlines()
        self.assertTrue(lines[0].startswith("commit "))
        self.assertIn("--gates", lines[1])
        self.assertIn("simulated", lines[2])

    def gpu_script(self, *arguments, code=0, bug=""):
        """tests/gpu/fuzz.sh with a command that takes the simulated device for the GPU."""
        command = self.folder / "tenure"
        command.write_text(f"""#!/usr/bin/env bash
[ "$1" != doctor ] || exit 0
arguments=()
for argument in "$@"; do
    case $argument in --driver) arguments+=(--gates) ;; cuda) ;; *) arguments+=("$argument") ;; esac
done
export TENURE_TEST_BUG="{bug}" ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0
{f'export LD_PRELOAD="{BROKEN}"' if bug else ""}
exec "{TENURE}" "${{arguments[@]}}"
""")
        command.chmod(command.stat().st_mode | stat.S_IXUSR)
        return self.run_command([ROOT / "tests/gpu/fuzz.sh", *arguments], code, TENURE=str(command),
                                OUT=str(self.folder))

    def add_up(self, *arguments, code=0):
        return self.run_command([sys.executable, ROOT / "tests/gpu/fuzz_sum.py", *arguments], code)

    def test_the_script_for_a_gpu(self):
        self.gpu_script("9", code=2)
        said = self.gpu_script("10", "7").stdout
        self.assertIn("| programs with a mismatch | 0 |", said)
        self.assertIn("| double free | ", said)
        legal = json.loads((self.folder / "fuzz-7.json").read_text())
        illegal = json.loads((self.folder / "fuzz-illegal-7.json").read_text())
        self.assertEqual((legal["seed_first"], illegal["seed_first"]), (7, 7))
        self.assertEqual(illegal["caught"], illegal["planted"])

    def test_the_script_goes_on_after_a_failure(self):
        said = self.gpu_script("10", code=SAFETY, bug="leak").stdout
        self.assertIn("| verdict safety | ", said)
        self.assertEqual(said.count("| commit |"), 2)
        self.assertTrue(list(self.folder.glob("fuzz-*.txt")))

    def test_runs_are_added_up(self):
        for name, arguments in (("a", ("--seeds", "1..3")), ("b", ("--seeds", "4..5")),
                                ("c", ("--seeds", "1..3", "--illegal", "--keep-going"))):
            text = self.fuzz("--json", "--ops", 400, *arguments).stdout
            (self.folder / name).write_text(text)
        one, two = (json.loads((self.folder / name).read_text()) for name in "ab")
        table = self.add_up("a", "b", "--csv", "sum.csv").stdout
        self.assertIn("| programs | 5 |", table)
        self.assertIn("| seeds | 1 to 3, 4 to 5 |", table)
        words = one["contents"]["words_read"] + two["contents"]["words_read"]
        self.assertIn(f"| words read | {words:,} |", table)
        self.assertIn(f"words read,{words}", (self.folder / "sum.csv").read_text())
        self.assertIn("same seeds", self.add_up("a", "a", code=2).stderr)
        self.assertIn("planted", self.add_up("a", "c", code=2).stderr)
        two["commit"] = "another"
        (self.folder / "b").write_text(json.dumps(two))
        self.assertIn("differ in commit", self.add_up("a", "b", code=2).stderr)
        one["verdicts"]["safety"] = 1
        (self.folder / "a").write_text(json.dumps(one))
        self.add_up("a", code=1)


if __name__ == "__main__":
    unittest.main()
