# SPDX-License-Identifier: Apache-2.0
"""`tenure top` and `tenure ctl metrics`: what they show against what the process says of itself, on
terminals of every kind and on none; processes that end, are silent, or are several; and metrics
against the rules of the OpenMetrics text format, by a reader that is itself tried with mistakes.

Broken on purpose, each seen to fail: lines cut nowhere, rows in the order of the answer, the
terminal left as it was drawn on, streams not joined, no "# EOF", labels not escaped, `control:try`
left out of `tenure run`, and put after the user's own; of metrics' streams: rows not added up, the
name of the last pool kept, --streams not sent; a trim without a question; in the table of processes
the arrows left out, the key ? left out, and the answers of the processes not heard."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import unittest
import unittest.mock

from command import BAD_INPUT, OK
import test_ctl
from test_ctl import MIB, NO_PROCESS, SEVERAL

TENURE = os.environ["TENURE"]


class Screen:
    """A terminal with `tenure top` on it."""

    def __init__(self, test, *arguments, columns=80, rows=24, term="xterm", cwd=None):
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.theirs = theirs  # kept open: what the terminal is like afterwards is looked at
        self.before = termios.tcgetattr(theirs)
        environment = dict(os.environ, TERM=term)
        self.process = subprocess.Popen([TENURE, "top", *map(str, arguments)], stdin=theirs,
                                        stdout=theirs, stderr=subprocess.PIPE, env=environment,
                                        cwd=cwd)
        self.shown = b""
        self.test = test
        test.addCleanup(self.close)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        os.close(self.ours)
        os.close(self.theirs)

    def see(self, text, keep=False):
        """Reads until this is shown, and forgets what came before, or keeps all."""
        while text.encode() not in self.shown:
            ready, _, _ = select.select([self.ours], [], [], 1000)
            self.test.assertTrue(ready)
            self.shown += os.read(self.ours, 65536)
        if keep:
            return None
        before, self.shown = self.shown.split(text.encode(), 1)
        return before.decode()

    def frames(self):
        return [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", frame)
                for frame in self.shown.decode().split("\x1b[H")[1:]]

    def key(self, key):
        os.write(self.ours, key.encode())

    def end(self):
        # Its end may wait until what it drew has been taken.
        while self.process.poll() is None:
            if select.select([self.ours], [], [], 0.05)[0]:
                self.shown += os.read(self.ours, 65536)
        while select.select([self.ours], [], [], 0)[0]:
            self.shown += os.read(self.ours, 65536)
        said = self.process.stderr.read().decode()
        self.test.assertEqual(termios.tcgetattr(self.theirs), self.before)
        return self.process.returncode, said


class Top(test_ctl.Ctl):
    def top(self, *arguments, code=OK):
        return self.run_tenure("top", *arguments, "--dir", self.sockets, code=code)

    def screen(self, *arguments, **how):
        return Screen(self, *arguments, "--dir", self.sockets, **how)


class Lines(Top):
    def test_once(self):
        process, _ = self.hold()
        shown = self.top("--once").stdout
        self.assertIn(f"control_holder {process.pid}", shown)
        self.assertRegex(shown, r"(?m)^0 Tenure simulated d +10.00 MiB +8.00 MiB +0 B +0")
        self.assertRegex(shown, r"(?m)^device +reserved +live +waiting +moving +asleep +peak")
        self.assertRegex(shown, r"(?m)^ \[[#=.]{76}\]$")
        lines = shown.splitlines()
        names = [line.split()[0] for line in lines[lines.index("") + 2:]]
        self.assertEqual(names, ["weights", "default"])  # the largest first
        self.assertRegex(self.top("--once", "--by", "tag").stdout,
                         r"(?m)^weights +6.00 MiB +5.00 MiB")
        self.assertNotIn("weights", self.top("--once", "--by", "device").stdout)

    def test_bar(self):
        """What is live, reserved beyond that, and neither, each by its part of the device."""
        with unittest.mock.patch.dict(os.environ, {"TENURE_SIM_MEMORY": "38M"}):
            self.hold()
        bar = re.search(r"(?m)^ \[(#*)(=*)(\.*)\]$", self.top("--once").stdout)
        self.assertEqual([len(part) for part in bar.groups()], [16, 4, 56])

    def test_streams_are_joined(self):
        """Both pools have memory of the default stream: one row, with the sum."""
        self.hold()
        shown = self.top("--once", "--by", "stream").stdout
        self.assertEqual(len(re.findall(r"(?m)^default ", shown)), 1)
        self.assertRegex(shown, r"(?m)^default +10.00 MiB +8.00 MiB")
        answer = json.loads(self.top("--once", "--json").stdout)["answer"]
        streams = answer["devices"][0]["streams"]
        self.assertEqual(sum(stream["held_bytes"] for stream in streams),
                         answer["devices"][0]["reserved_bytes"])
        self.assertEqual(sum(stream["live_bytes"] for stream in streams), 8 * MIB)
        # They are many at times: who does not want them does not get them.
        self.assertNotIn("streams", self.answer("status")["devices"][0])

    def test_streams_have_names(self):
        """What a terminal cannot show is a question mark, and no line is longer than it."""
        with unittest.mock.patch.dict(os.environ, {"HOLDER_STREAM": "all of \u00e9\x1b[31m it"}):
            self.hold()
        shown = self.top("--once", "--by", "stream").stdout
        self.assertRegex(shown, r"(?m)^all of \?\? \[31m it \(d +10.00 MiB +8.00 MiB")
        answer = json.loads(self.top("--once", "--json").stdout)["answer"]
        self.assertEqual({one["name"] for one in answer["devices"][0]["streams"]},
                         {"all of \u00e9 [31m it"})

    def test_whom(self):
        one, _ = self.hold()
        other, _ = self.hold()
        said = ""
        while said.count(" 10.00 MiB ") < 2:  # one that takes longer than a second has a dash
            said = self.top("--once", code=SEVERAL).stderr
        for process in (one, other):
            self.assertRegex(said, rf"(?m)^ +{process.pid}  control_holder +10.00 MiB +8.00 MiB"
                                   r"  #+=+$")
        self.assertRegex(said, r"(?m)^ +process  program +reserved +live  # live, = reserved$")
        self.assertIn(f" {other.pid}\n", self.top(other.pid, "--once").stdout)
        self.top("control_hold", "--once", code=SEVERAL)
        self.assertIn("no process", self.top("nobody", "--once", code=NO_PROCESS).stderr)
        self.top(1, "--once", code=NO_PROCESS)
        self.end(one)
        self.assertIn(f" {other.pid}\n", self.top("control_hold", "--once").stdout)

    def test_once_in_an_interval_without_a_terminal(self):
        """And the process is asked no more often than it is shown; it ends while it is watched."""
        process, _ = self.hold()
        top = subprocess.Popen([TENURE, "top", "--interval", "0.1", "--json", "--dir",
                                str(self.sockets)], stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self.addCleanup(top.stdout.close)
        self.addCleanup(top.stderr.close)
        for _ in range(3):
            self.assertTrue(json.loads(top.stdout.readline())["answer"]["ok"])
        self.end(process)
        self.assertEqual(top.wait(), NO_PROCESS)
        self.assertEqual(top.stderr.read(), f"tenure top: control_holder {process.pid} has ended, "
                                            "or listens no more\n")

    def test_a_dumb_terminal_gets_lines(self):
        self.hold()
        screen = self.screen("--interval", "0.1", term="dumb")
        screen.see("weights")
        screen.see("weights")
        screen.process.send_signal(signal.SIGTERM)
        self.assertEqual(screen.end()[0], -signal.SIGTERM)
        self.assertNotIn(b"\x1b", screen.shown)

    def test_another_side(self):
        """The largest first, whatever the order; names that would rule the terminal, and values of
        other types."""
        test_ctl.OtherSides.serve(self, GREETING, """{"ok":true,"devices":[1,{"device":"x",
            "pools":{}},
            {"device":0,"pools":[{"name":"small","reserved_bytes":1},[],{"name":7},
            {"name":"\\u001b[31m\u00e4","reserved_bytes":3},{"name":"middle","reserved_bytes":2}
            ]}],"tags":"no"}""".replace("\n", "").encode() + b"\n")
        lines = self.top("--once").stdout.splitlines()
        self.assertEqual([line.split()[:3] for line in lines[lines.index("") + 2:]][:3],
                         [["0", "?[31m??", "3"], ["0", "middle", "2"], ["0", "small", "1"]])
        self.assertTrue("".join(lines).isascii() and "".join(lines).isprintable())

    def test_usage(self):
        self.assertIn("Exit codes: 0 done", self.run_tenure("top", "--help").stdout)
        for wrong in (["--interval", "0"], ["--interval", "x"], ["--interval", "1e9"],
                      ["--interval", "nan"], ["--by", "colour"], ["1", "2"]):
            self.top(*wrong, code=BAD_INPUT)


class OnATerminal(Top):
    def test_keys(self):
        process, _ = self.hold()
        screen = self.screen("--interval", "3600", cwd=self.folder)
        screen.see("weights")
        for key, title in (("t", "tag"), ("s", "stream"), ("p", "pool")):
            screen.key(key)
            screen.see(f"\x1b[K{title} ")
        screen.key("a")
        screen.see("no account")
        screen.key("p")
        screen.see("weights")
        screen.key("T")
        screen.see("give all idle memory back to the driver? The next requests map it again. y n")
        screen.key("n")  # as any key but y
        screen.see("T trim  ? help")
        screen.key("T")
        screen.see("y n")
        screen.key("y")
        screen.see("0 B given back")
        screen.key("?")
        screen.see("reserved  physical memory that Tenure has from the driver")
        screen.key("T")  # ends the help, and does nothing else
        screen.see("T trim  ? help")
        screen.key("S")
        name = f"tenure-{process.pid}-1.json.gz"
        screen.see(f"snapshot: {name}")
        self.run_tenure("snapshot", "summary", self.folder / name)
        screen.key("S")  # the first stays as it is
        screen.see(f"snapshot: tenure-{process.pid}-2.json.gz")
        screen.key("q")
        self.assertEqual(screen.end(), (OK, ""))
        self.assertTrue(screen.shown.endswith(b"\x1b[?25h\x1b[?1049l"))
        self.assertEqual(len(os.listdir(self.sockets)), 1)

    def test_one_of_several(self):
        """A table with what each has; one is chosen, watched, and left for the table."""
        first, _ = self.hold()
        other, _ = self.hold()
        pids = sorted([first.pid, other.pid])
        screen = self.screen("--interval", "0.2", columns=100)
        screen.see("several processes: choose one")
        frame = screen.see("up down choose  Enter watch  ? help  q quit")
        while frame.count("10.00 MiB") < 2:  # both have answered
            frame = screen.see("up down choose  Enter watch  ? help  q quit")
        rows = re.findall(r"([> ]) +(\d+)  control_holder +10.00 MiB +8.00 MiB  (#+=+)\r?\n", frame)
        self.assertEqual(sorted(int(row[1]) for row in rows), pids)
        self.assertEqual([row[0] for row in rows], [">", " "])
        self.assertEqual({row[2] for row in rows}, {"#" * 16 + "=" * 4})
        screen.key("?")
        screen.see("the process has not answered yet, or has ended")
        screen.key("\x1b[B")  # ends the help, and does nothing else
        screen.see("several processes: choose one")
        screen.see(f"> {rows[0][1]:>8}  control_holder")
        below = rows[1][1]
        screen.key("\x1b[B")
        screen.see(f"> {below:>8}  control_holder")
        screen.key("\r")
        screen.see(f"control_holder {below}")
        screen.see("weights")
        screen.see("l list")
        screen.key("l")
        screen.see(f"> {below:>8}  control_holder")
        screen.key("k")
        screen.see(f"> {rows[0][1]:>8}  control_holder")
        screen.key("\n")
        screen.see(f"control_holder {rows[0][1]}")
        screen.key("q")
        self.assertEqual(screen.end(), (OK, ""))

    def test_one_of_several_is_silent(self):
        """It has a dash, and holds the others up no longer than a second."""
        first, _ = self.hold()
        other, _ = self.hold()
        screen = self.screen("--interval", "0.2")
        screen.see("10.00 MiB")
        first.send_signal(signal.SIGSTOP)
        self.addCleanup(first.send_signal, signal.SIGCONT)
        screen.key("q")
        self.assertEqual(screen.end()[0], OK)

    def test_narrow(self):
        """Nothing is longer than a line, or higher than the terminal, and nothing is not ASCII."""
        self.hold()
        for columns, rows in ((40, 24), (20, 6), (200, 8)):
            screen = self.screen("--interval", "3600", columns=columns, rows=rows)
            for key, title in (("t", "tag"), ("p", "pool"), ("s", "stream")):
                screen.key(key)
                screen.see(f"\x1b[K{title} ", keep=True)
            screen.key("a")
            screen.see("no acc", keep=True)
            screen.key("q")
            self.assertEqual(screen.end()[0], OK)
            self.assertGreater(len(screen.frames()), 3)
            for frame in screen.frames():
                self.assertTrue(frame.isascii())
                lines = frame.split("\r\n")
                self.assertLessEqual(len(lines), rows)
                self.assertLessEqual(max(map(len, lines)), columns, frame)

    def test_no_colours_where_unwanted(self):
        self.hold()
        os.environ["NO_COLOR"] = "1"
        self.addCleanup(os.environ.pop, "NO_COLOR")
        screen = self.screen()
        shown = screen.see("q quit")
        self.assertNotRegex(shown, r"\x1b\[[0-9;]*m")
        screen.key("q")
        screen.end()

    def test_the_process_ends(self):
        process, _ = self.hold()
        screen = self.screen("--interval", "3600")
        screen.see("weights")
        process.kill()
        code, said = screen.end()
        self.assertEqual(code, NO_PROCESS)
        self.assertIn("has ended", said)

    def test_signals_leave_the_terminal_as_it_was(self):
        self.hold()
        screen = self.screen("--interval", "3600")
        screen.see("q quit")
        screen.process.send_signal(signal.SIGINT)
        self.assertEqual(screen.end()[0], OK)

    def test_a_process_that_does_not_answer(self):
        """It stands still: keys are heard all the same."""
        process, _ = self.hold()
        screen = self.screen("--interval", "0.1")
        screen.see("weights")
        process.send_signal(signal.SIGSTOP)
        self.addCleanup(process.send_signal, signal.SIGCONT)
        screen.key("T")
        screen.see("y n")
        screen.key("y")
        screen.see("asked for")
        screen.key("q")
        self.assertEqual(screen.end()[0], OK)


class UnderRun(Top):
    """`tenure run` makes a program one that can be watched, unless somebody says otherwise."""

    def start(self, *options, conf=None):
        environment = dict(os.environ, TENURE_DRIVER="sim")
        environment.pop("TENURE_CONF", None)
        if conf is not None:
            environment["TENURE_CONF"] = conf
        process = subprocess.Popen([TENURE, "run", *options, "--", test_ctl.HOLDER], text=True,
                                   env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.end, process)
        line = process.stdout.readline()
        self.assertTrue(line.endswith("\n"))  # it runs, in any case
        return line.strip()

    def test_on_by_itself(self):
        path = self.start("--conf", f"control_dir:{self.sockets}")
        self.assertTrue(path.startswith(str(self.sockets)))
        self.assertIn("control_holder", self.top("--once").stdout)

    def test_the_user_says_no(self):
        self.assertEqual(self.start(conf=f"control:off,control_dir:{self.sockets}"), "")
        self.assertEqual(self.start("--conf", f"control:off,control_dir:{self.sockets}"), "")
        self.assertEqual(os.listdir(self.sockets), [])

    def test_no_folder(self):
        self.sockets.chmod(0o755)
        self.assertEqual(self.start(conf=f"control_dir:{self.sockets}"), "")
        self.assertEqual(self.start(conf="control_dir:/proc/nowhere"), "")
        self.sockets.chmod(0o700)


# ---- metrics --------------------------------------------------------------------------------

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"'
PLAIN = LABEL.replace("((?:", "(?:(?:").replace("([a-z", "(?:[a-z")
SAMPLE = re.compile(rf"({NAME})(?:\{{({PLAIN}(?:,{PLAIN})*)?\}})? (-?[0-9.]+)")
SUFFIXES = {"gauge": "", "counter": "_total", "info": "_info"}


class Reader:
    """An OpenMetrics text, read by the rules of its specification; ValueError says which is
    broken. `samples` has the values, by name and labels."""

    def __init__(self, text):
        self.samples, self.seen, self.line = {}, set(), text[-20:]
        self.family = self.kind = None
        self.said, self.has_samples = set(), False
        self.must(text.endswith("# EOF\n") and text.count("# EOF") == 1, "one EOF, at the end")
        for self.line in text.split("\n")[:-2]:
            self.must(self.line and self.line == self.line.strip(), "no empty lines, no blanks")
            if self.line.startswith("#"):
                self.comment()
            else:
                self.sample()

    def must(self, holds, why):
        if not holds:
            raise ValueError(f"{why}: {self.line!r}")

    def comment(self):
        what = re.fullmatch(rf"# (TYPE|UNIT|HELP) ({NAME}) (.+)", self.line)
        self.must(what, "a comment is TYPE, UNIT or HELP")
        kind, family, text = what.groups()
        if family != self.family:
            self.must(family not in self.seen, "a family stands together")
            self.seen.add(family)
            self.family, self.kind, self.said, self.has_samples = family, None, set(), False
        self.must(not self.has_samples, "what is said of a family comes before its samples")
        self.must(kind not in self.said, "each is said once")
        self.said.add(kind)
        if kind == "TYPE":
            self.must(text in SUFFIXES, "a known type")
            self.kind = text
        elif kind == "UNIT":
            self.must(family.endswith("_" + text), "the name ends in the unit")
            self.must(self.kind != "info", "an info has no unit")

    def sample(self):
        found = SAMPLE.fullmatch(self.line)
        self.must(found, "a sample")
        self.must(self.kind and found[1] == self.family + SUFFIXES[self.kind], "of its family")
        labels = re.findall(LABEL, found[2] or "")
        self.must(len({name for name, _ in labels}) == len(labels), "labels come once")
        key = (found[1], tuple(sorted(labels)))
        self.must(key not in self.samples, "samples come once")
        value = float(found[3])
        self.must(self.kind != "counter" or value >= 0, "a counter is not negative")
        self.must(self.kind != "info" or value == 1, "an info is 1")
        self.samples[key] = value
        self.has_samples = True


GREETING = b'{"protocol":1,"tenure":"9.9.9","pid":1,"program":"a\\"b\\\\c\\nd"}\n'


class Metrics(test_ctl.Ctl):
    def test_the_reader(self):
        good = ('# TYPE a_bytes gauge\n# UNIT a_bytes bytes\n# HELP a_bytes Some.\n'
                'a_bytes{x="1",y="\\\\\\"\\n"} 1\na_bytes{x="2"} 2\n'
                '# TYPE b counter\nb_total 3\n# EOF\n')
        self.assertEqual(len(Reader(good).samples), 3)
        for old, new in (("# EOF\n", ""), ("# EOF\n", "# EOF\n\n"), ("b_total", "b"),
                         ('{x="2"}', '{x="2",}'), ('x="2"', 'x="2'), ('x="2"', 'x="\\2"'),
                         ("y=", "x="), ('{x="2"}', '{x="2"} 2\na_bytes{x="2"}'),
                         ("UNIT a_bytes bytes", "UNIT a_bytes chunks"), ("total 3", "total -3"),
                         ("# TYPE b counter\n", "# TYPE b counter\n\n"), ("counter", "counts"),
                         ("# EOF", "# TYPE a_bytes gauge\na_bytes 1\n# EOF")):
            wrong = good.replace(old, new)
            with self.subTest(wrong=wrong), self.assertRaises(ValueError):
                Reader(wrong)

    def of(self, samples, name, **labels):
        """The one sample with these labels."""
        (found,) = [value for (which, has), value in samples.items()
                    if which == name and labels.items() <= dict(has).items()]
        return found

    def test_against_status(self):
        process, _ = self.hold()
        self.ctl("limit", "64M")
        samples = Reader(self.ctl("metrics").stdout).samples
        answer = self.answer("status")
        (device,) = answer["devices"]
        pid = str(process.pid)
        self.assertEqual(self.of(samples, "tenure_process_info", pid=pid,
                                 program="control_holder"), 1)
        for key, value in device.items():
            if key in ("device", "pools_left_out") or not isinstance(value, int):
                continue
            counter = key in ("chunks_created", "chunks_moved", "retries", "ooms")
            name = f"tenure_device_{key}" + ("_total" if counter else "")
            self.assertEqual(self.of(samples, name, pid=pid, device="0"), value)
        for pool in device["pools"]:
            self.assertEqual(self.of(samples, "tenure_pool_live_bytes", pool=pool["name"],
                                     tag=pool["tag"] or ""), pool["live_bytes"])
        self.assertEqual(self.of(samples, "tenure_tag_live_bytes", tag="weights"), 5 * MIB)

    def test_groups(self):
        """A group of two, as each of them tells of itself, in metrics and on the screen."""
        device = {"TENURE_SIM_SHARED": str(self.folder / "device"), "TENURE_SIM_MEMORY": "64M"}
        with unittest.mock.patch.dict(os.environ, device):
            one, _ = self.hold("group:g,group_floor_mb:4,group_ceiling_mb:32,group_limit_mb:48")
            other, _ = self.hold("group:g")
        samples = Reader(self.ctl("metrics", "--all").stdout).samples
        told = self.answer("status", "--pid", str(one.pid))["devices"][0]
        self.assertEqual({member["process"] for member in told["members"]}, {one.pid, other.pid})
        for name, mine, theirs in (("members", 2, 2), ("floor_bytes", 4 * MIB, 0),
                                   ("given_bytes_total", told["group_given_bytes"], 0),
                                   ("taken_bytes_total", told["group_taken_bytes"], 0),
                                   ("asks_total", 0, 0)):
            name = f"tenure_device_group_{name}"
            self.assertEqual(self.of(samples, name, pid=str(one.pid)), mine)
            self.assertEqual(self.of(samples, name, pid=str(other.pid)), theirs)
        ceilings = [dict(has)["pid"] for which, has in samples
                    if which == "tenure_device_group_ceiling_bytes"]
        self.assertEqual(ceilings, [str(one.pid)])
        shown = self.run_tenure("top", str(one.pid), "--once", "--dir", self.sockets).stdout
        self.assertIn("group g: 2 members, given 0 B, taken 0 B, floor 4 MiB, ceiling 32 MiB",
                      shown)
        self.assertRegex(self.ctl("status", "--pid", str(one.pid)).stdout,
                         "group g: 0 B given to others, 0 B taken, short 0 times")
        # Each sees the limit that one of them names. Without ctl_limits in either this fails.
        for process in (one, other):
            shown = self.run_tenure("top", str(process.pid), "--once", "--dir", self.sockets)
            self.assertIn("limits: all of the group 48 MiB\n", shown.stdout)
            self.assertIn("  limits: all of the group 48 MiB\n",
                          self.ctl("status", "--pid", str(process.pid)).stdout)

    def test_control_groups(self):
        """Limits of control groups, from a folder that plays them. Without the loop in ctl_limits,
        or without its text of files, this fails."""
        groups, region = self.folder / "groups", "nvidia/0000:01:00.0/vidmem"
        groups.mkdir()
        for name, mib in (("max", 96), ("min", 64), ("current", 40)):
            (groups / f"dmem.{name}").write_text(f"{region} {mib * MIB}\n")
        one, _ = self.hold(f"cgroup:{groups}")
        text = "dmem hard 96 MiB, 40 MiB used{}; dmem soft 64 MiB, 40 MiB used{}"
        shown = self.run_tenure("top", str(one.pid), "--once", "--dir", self.sockets).stdout
        self.assertIn("limits: " + text.format("", ""), shown)
        files = [f" ({groups}/dmem.{name})" for name in ("max", "min")]
        self.assertIn("limits: " + text.format(*files) + "\n",
                      self.ctl("status", "--pid", str(one.pid)).stdout)

    def test_all(self):
        one, _ = self.hold()
        other, _ = self.hold()
        samples = Reader(self.ctl("metrics", "--all").stdout).samples
        for process in (one, other):
            self.assertEqual(self.of(samples, "tenure_device_live_bytes", pid=str(process.pid)),
                             8 * MIB)
        self.ctl("metrics", code=SEVERAL)
        self.ctl("metrics", "--json", code=BAD_INPUT)

    def test_streams(self):
        """By name; who does not ask for them does not have them."""
        with unittest.mock.patch.dict(os.environ, {"HOLDER_STREAM": "copies"}):
            self.hold()
        self.assertNotIn("tenure_stream_live_bytes{", self.ctl("metrics").stdout)
        samples = Reader(self.ctl("metrics", "--streams").stdout).samples
        device = json.loads(self.run_tenure("top", "--once", "--by", "stream", "--json", "--dir",
                                            self.sockets).stdout)["answer"]["devices"][0]
        pools = {pool["number"]: pool["name"] for pool in device["pools"]}
        self.assertEqual(len(device["streams"]), 2)
        for stream in device["streams"]:
            for key in ("held_bytes", "live_bytes", "live_blocks", "waiting_bytes"):
                self.assertEqual(
                    self.of(samples, f"tenure_stream_{key}", stream="copies", device="0",
                            pool=pools[stream["pool"]], number=str(stream["pool"])), stream[key])
        self.assertEqual(self.of(samples, "tenure_device_streams_left_out"), 0)
        refused = self.ctl("status", "--streams", code=BAD_INPUT)
        self.assertIn("tenure top --by stream", refused.stderr)

    def test_streams_of_one_name(self):
        """Their rows are added up, in each pool; so are those without a name."""
        rows = [(1, "0x10", "io", 1), (2, "0x10", "io", 2), (1, "0x20", "io", 4),
                (1, "0x30", None, 8), (1, "0x40", None, 16), (1, "0", None, 32),
                (7, None, None, 64), (2, None, None, 128)]
        streams = [{"pool": pool, "stream": handle, "name": name, "live_bytes": live}
                   for pool, handle, name, live in rows]
        answer = {"ok": True, "devices": [{"device": 3, "streams": [*streams, 5],
                                           "pools": [{"number": 1, "name": "one"},
                                                     {"number": 2, "name": "two"}]}]}
        test_ctl.OtherSides.serve(self, GREETING, json.dumps(answer).encode() + b"\n")
        samples = Reader(self.ctl("metrics", "--streams").stdout).samples
        found = {tuple(dict(labels)[name] for name in ("pool", "number", "stream")): value
                 for (name, labels), value in samples.items() if name == "tenure_stream_live_bytes"}
        self.assertEqual(found, {
            ("one", "1", "io"): 5, ("two", "2", "io"): 2, ("one", "1", "(unnamed)"): 24,
            ("one", "1", "default"): 32, ("two", "2", "(graphs)"): 128, ("", "7", "(graphs)"): 64,
            ("", "0", "(graphs)"): 0})

    def test_names_that_need_escapes(self):
        """And everything that a hostile process may say instead of numbers."""
        test_ctl.OtherSides.serve(self, GREETING, b'{"ok":true,"devices":[{"device":0,'
                                  b'"live_bytes":7,"pools":[{"name":"\\u0022} 1\\n# EOF","tag":[],'
                                  b'"number":-1,"live_bytes":"9"},3]},null],"tags":{}}\n')
        samples = Reader(self.ctl("metrics").stdout).samples
        self.assertEqual(self.of(samples, "tenure_device_live_bytes",
                                 program='a\\"b\\\\c\\nd'), 7)


if __name__ == "__main__":
    sys.exit(unittest.main())
