# SPDX-License-Identifier: Apache-2.0
"""`tenure ctl` from outside: every command on a process that uses Tenure, every exit code, and
other sides that are no Tenure: stale sockets, another protocol, garbage, silence, endless lines."""
import gzip
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from command import BAD_INPUT, CHECK_FAILED, NO_MEMORY, OK, CommandTest

HOLDER = os.environ["TENURE_TEST_HOLDER"]
MIB = 1 << 20
NO_PROCESS, SEVERAL, OTHER_PROTOCOL, NO_ANSWER = 20, 21, 22, 23


class Ctl(CommandTest):
    def setUp(self):
        super().setUp()
        # Short, since a socket's address is.
        folder = tempfile.TemporaryDirectory(prefix="tenure-ctl-")
        self.addCleanup(folder.cleanup)
        self.sockets = pathlib.Path(folder.name)

    def hold(self, conf="", through=(), runtime=None, where=None):
        """Starts a process that can be ruled, and returns it with the path of its socket."""
        where = f",control_dir:{self.sockets}" if where is None else where
        environment = dict(os.environ, TENURE_DRIVER="sim",
                           TENURE_CONF=f"control:on{where},{conf}")
        environment.pop("XDG_RUNTIME_DIR", None)
        if runtime:
            environment["XDG_RUNTIME_DIR"] = str(runtime)
        process = subprocess.Popen([*through, HOLDER], env=environment, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.end, process)
        path = process.stdout.readline().strip()
        self.assertTrue(path)
        return process, pathlib.Path(path)

    def end(self, process):
        process.stdin.close()
        process.stdout.close()
        process.wait()

    def ctl(self, *arguments, code=OK):
        return self.run_tenure("ctl", *arguments, "--dir", self.sockets, code=code)

    def ctl_json(self, *arguments, code=OK):
        """The answers of --json, which are JSON to a reader that is not ours."""
        return self.json_lines(self.ctl(*arguments, "--json", code=code))

    def answer(self, *arguments, code=OK):
        (line,) = self.ctl_json(*arguments, code=code)
        return line["answer"]


class Commands(Ctl):
    def test_list(self):
        self.assertEqual(self.ctl("list").stdout, "")
        process, path = self.hold()
        shown = self.ctl("list", "--timeout", "1000").stdout
        self.assertIn(str(process.pid), shown)
        self.assertIn("control_holder", shown)
        (line,) = self.ctl_json("list", "--timeout", "1000")
        self.assertEqual(line["process"]["pid"], process.pid)
        self.assertEqual(line["process"]["pid_here"], process.pid)
        self.assertEqual(line["process"]["name"], path.name)

    def test_status(self):
        self.hold()
        answer = self.answer("status")
        self.assertTrue(answer["ok"])
        (device,) = answer["devices"]
        pools = {pool["name"]: pool for pool in device["pools"]}
        self.assertEqual(pools["weights"]["tag"], "weights")
        self.assertEqual(pools["weights"]["live_bytes"], 5 * MIB)
        self.assertIsNone(pools["default"]["tag"])
        self.assertEqual(device["reserved_bytes"],
                         sum(pool["reserved_bytes"] for pool in pools.values()))
        self.assertEqual(answer["tags"][0]["tag"], "weights")
        shown = self.ctl("status").stdout
        self.assertRegex(shown, r"weights +weights +user +awake +6.00 MiB +5.00 MiB")

    def test_sleep_and_wake(self):
        self.hold()
        answer = self.answer("sleep", "--tag", "weights")
        self.assertEqual(answer["devices"][0]["asleep_bytes"], 6 * MIB)
        self.assertEqual(self.answer("sleep", "--content", "discard", "--pinned", "64M",
                                     "--keep-backing")["devices"][0]["reserved_bytes"], 0)
        self.assertIn("6.00 MiB reserved, 4.00 MiB asleep",
                      self.ctl("wake", "--tag", "weights").stdout)
        self.assertEqual(self.answer("wake", "--device", "0")["devices"][0]["asleep_bytes"], 0)

    def test_contents_on_a_disk(self):
        """The program set no folder, so one is set from outside."""
        self.hold()
        contents = self.folder / "contents"
        contents.mkdir()
        self.assertIn("no folder is set",
                      self.ctl("sleep", "--content", "disk", code=BAD_INPUT).stderr)
        self.assertEqual(self.answer("status")["devices"][0]["asleep_bytes"], 0)
        self.ctl("settings", f"contents_dir:{contents}")
        answer = self.answer("sleep", "--tag", "weights", "--content", "disk")
        self.assertEqual(answer["devices"][0]["asleep_bytes"], 6 * MIB)
        sizes = [file.stat().st_size for file in contents.iterdir()]
        self.assertTrue(5 * MIB <= sum(sizes) <= 6 * MIB, sizes)
        self.ctl("wake")
        self.assertEqual(list(contents.iterdir()), [])

    def test_limit_and_trim(self):
        self.hold()
        self.assertEqual(self.answer("limit", "1G")["devices"][0]["limit_bytes"], 1 << 30)
        self.assertIsNone(self.answer("limit", "none")["devices"][0]["limit_bytes"])
        tags = self.answer("limit", "8M", "--tag", "weights")["devices"][0]["tags"]
        self.assertEqual(tags[0]["limit_bytes"], 8 * MIB)
        self.assertEqual(self.answer("trim")["devices"][0]["released_bytes"], 0)
        self.assertIn("0 B given back", self.ctl("trim", "1K").stdout)
        self.assertEqual(self.answer("compact")["devices"][0]["released_bytes"], 0)
        self.assertIn("0 B given back", self.ctl("compact").stdout)
        # A wake that finds the limit too low.
        self.ctl("sleep")
        self.ctl("limit", "2M")
        self.assertIn("per_process_memory_fraction", self.ctl("wake", code=NO_MEMORY).stderr)
        self.ctl("limit", "none")
        self.ctl("wake")

    def test_snapshot(self):
        self.hold()
        path = self.folder / "memory.json.gz"
        self.assertIn(str(path), self.ctl("snapshot", path).stdout)
        document = json.loads(gzip.decompress(path.read_bytes()))
        self.assertIn("weights", [pool.get("tag") for pool in document["pools"]])
        path.write_text("old")
        self.ctl("snapshot", path)
        self.assertNotEqual(path.read_bytes(), b"old")
        self.run_tenure("snapshot", "summary", path)
        again = self.folder / "again.json"
        self.run_tenure("snapshot", "convert", "--to", "tenure", path, again)
        document = json.loads(again.read_text())
        self.assertIn("weights", [pool.get("tag") for pool in document["pools"]])
        for kind in ("json", "pickle", "pickle.gz"):
            self.ctl("snapshot", self.folder / f"memory.{kind}")
        self.assertEqual(len(os.listdir(self.sockets)), 1)
        self.assertIn("No such file", self.ctl("snapshot", "/nowhere/at/all.json",
                                               code=CHECK_FAILED).stderr)

    def test_a_pipe_in_the_place_of_a_snapshot(self):
        """The process does not wait for it. Without unlinkat before tnr_snapshot_write its thread
        never came back."""
        _, path = self.hold()
        os.mkfifo(f"{path}-1.json.gz")
        self.ctl("snapshot", self.folder / "x.json.gz", "--timeout", "100")
        self.ctl("status", "--timeout", "100")

    def test_settings(self):
        self.hold()
        self.assertRegex(self.ctl("settings").stdout, r"\* control +on")
        self.ctl("settings", "bin_blocks:7,lend:off")
        values = {one["key"]: one["value"] for one in self.answer("settings")["settings"]}
        self.assertEqual((values["bin_blocks"], values["lend"]), ("7", "off"))
        self.assertIn("there is no setting nonsense",
                      self.ctl("settings", "nonsense:1", code=BAD_INPUT).stderr)
        self.assertIn("cannot be changed from outside",
                      self.ctl("settings", "control:off", code=CHECK_FAILED).stderr)

    def test_refusals(self):
        self.hold()
        self.assertIn("nothing has the tag \"nobody\". There are: weights.",
                      self.ctl("sleep", "--tag", "weights,nobody", code=BAD_INPUT).stderr)
        self.assertIn("does not use device 3", self.ctl("wake", "--device", "3",
                                                        code=BAD_INPUT).stderr)
        answer = self.answer("sleep", "--tag", "nobody", code=BAD_INPUT)
        self.assertFalse(answer["ok"])
        self.assertEqual(answer["status"], "TNR_ERR_INVALID_ARGUMENT")

    def test_a_program_that_is_preloaded(self):
        """Linked or preloaded, it is the same library that listens."""
        self.hold(through=[os.environ["TENURE"], "run", "--"])
        self.assertEqual(self.answer("status")["tags"][0]["tag"], "weights")


class Choosing(Ctl):
    def test_among_several(self):
        one, _ = self.hold()
        other, path = self.hold()
        said = self.ctl("status", code=SEVERAL).stderr
        self.assertIn(path.name, said)
        self.ctl("sleep", "--pid", one.pid)
        self.assertEqual(self.answer("status", "--name", path.name)["devices"][0]["asleep_bytes"],
                         0)
        lines = self.ctl_json("sleep", "--all")
        self.assertEqual({line["process"]["pid"] for line in lines}, {one.pid, other.pid})
        self.assertTrue(all(line["answer"]["devices"][0]["reserved_bytes"] == 0 for line in lines))
        self.assertEqual(self.ctl("wake", "--all").stdout.count("device 0"), 2)
        self.ctl("status", "--pid", "1", code=NO_PROCESS)
        self.ctl("status", "--name", "nothing", code=NO_PROCESS)

    def test_another_view_of_the_folder(self):
        """Containers see the folder under other names, and processes under other numbers."""
        process, _ = self.hold()
        other = self.folder / ("another place with a long name" * 5)
        try:
            other.symlink_to(self.sockets)
            mounted = subprocess.run(
                ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "sh", "-c",
                 f"mkdir -p '{self.folder}/in' && mount --bind '{self.sockets}' '{self.folder}/in'"
                 f" && exec \"$0\" ctl status --json --dir '{self.folder}/in' --pid {process.pid}",
                 os.environ["TENURE"]], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            self.skipTest("there is no unshare")
        if "unshare:" in mounted.stderr:
            self.skipTest(mounted.stderr.strip())
        self.assertEqual(mounted.returncode, OK, mounted.stderr)
        line = json.loads(mounted.stdout)
        self.assertTrue(line["answer"]["ok"])
        self.assertEqual(line["process"]["pid"], process.pid)
        self.assertNotIn("pid_here", line["process"])

    def test_stale_sockets(self):
        process, path = self.hold()
        process.kill()
        process.wait()
        left = self.sockets / (path.name + "-1.json.gz")
        left.write_text("half a snapshot")
        # Of another boot, of another name, and no socket at all: nobody knows whether they are in
        # use.
        parts = path.name.split("-")
        other = self.sockets / "-".join([parts[0], parts[1], "00000000", parts[3]])
        for name in (other, self.sockets / "other.sock"):
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(name))
        self.assertIn("no process", self.ctl("status", code=NO_PROCESS).stderr)
        self.assertEqual(sorted(os.listdir(self.sockets)), sorted([other.name, "other.sock"]))

    def test_sockets_that_were_never_published(self):
        """Of a process that died in between; one that was made just now may be about to be."""
        process, path = self.hold()
        process.kill()
        process.wait()
        stem, last = path.name[:-6], path.name[-6]  # of a random number
        names = [self.sockets / f".{path.name}",
                 self.sockets / f".{stem}{'1' if last == '0' else '0'}.sock"]
        for name in names:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(name))
        os.utime(names[0], (0, 0))
        other = self.sockets / ".tenure-1-00000000-0123456789abcdef.sock"  # of another boot
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(other))
        os.utime(other, (0, 0))
        self.ctl("list")
        self.assertEqual(sorted(os.listdir(self.sockets)), sorted([names[1].name, other.name]))

    def test_both_places(self):
        """Processes whose environment names a runtime folder, and those of cron that have none: the
        command finds all, whichever it has itself."""
        runtime = self.sockets / "runtime"
        runtime.mkdir(mode=0o700)
        one, path = self.hold(runtime=runtime, where="")
        self.assertEqual(path.parent, runtime / "tenure")
        other, path = self.hold(where="")
        if path.parent != pathlib.Path(f"/tmp/tenure-{os.geteuid()}"):
            self.skipTest("there is no folder of this user's in /tmp")
        for where in ((), ("--dir", path.parent)):
            for wanted in (one, other):
                (line,) = self.json_lines(self.run_tenure(
                    "ctl", "status", "--json", "--pid", wanted.pid, *where,
                    environment={"XDG_RUNTIME_DIR": runtime}))
                self.assertTrue(line["answer"]["ok"])
                self.assertIn(f" {wanted.pid}", self.run_tenure(
                    "top", wanted.pid, "--once", *where,
                    environment={"XDG_RUNTIME_DIR": runtime}).stdout)
        target = self.folder / "x.json"
        self.run_tenure("ctl", "snapshot", target, "--pid", one.pid,
                        environment={"XDG_RUNTIME_DIR": runtime})
        self.assertTrue(target.exists())
        self.run_tenure("ctl", "status", "--pid", one.pid, code=NO_PROCESS,
                        environment={"XDG_RUNTIME_DIR": None})

    def test_folders(self):
        self.assertIn("No such file", self.run_tenure(
            "ctl", "list", "--dir", self.folder / "none", code=NO_PROCESS).stderr)
        self.sockets.chmod(0o750)
        self.assertIn("mode 750", self.ctl("list", code=BAD_INPUT).stderr)
        self.sockets.chmod(0o700)

    def test_usage(self):
        self.assertIn("Exit codes: 0 done", self.run_tenure("ctl", "--help").stdout)
        for wrong in ([], ["nonsense"], ["limit"], ["limit", "2X"], ["limit", "-1"],
                      ["trim", "99999999T"], ["snapshot"], ["snapshot", "x.txt"],
                      ["sleep", "now"], ["status", "--tag", "a"], ["wake", "--content", "keep"],
                      ["sleep", "--content", "some"], ["status", "--pid", "x"],
                      ["sleep", "--device", "-1"], ["status", "--timeout", "0"],
                      ["snapshot", "x.json", "--all"]):
            self.ctl(*wrong, code=BAD_INPUT)


GREETING = b'{"protocol":1,"tenure":"9.9.9","pid":1,"program":"fake"}\n'


class OtherSide(Ctl):
    """A socket that is in the folder, and at which something else answers."""

    def serve(self, *pieces, hang_up=True):
        """Sends these pieces, a new one for each line that it gets, and then hangs up or waits."""
        name = self.sockets / "tenure-77-00000000-0123456789abcdef.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(name))
        listener.listen()
        is_over = threading.Event()

        def run():
            connection, _ = listener.accept()
            with connection:
                stream = connection.makefile("rb")
                try:
                    for i, piece in enumerate(pieces):
                        if i > 0:
                            stream.readline()
                        connection.sendall(piece)
                except OSError:
                    pass  # it had enough
                if not hang_up:
                    is_over.wait()
                stream.close()

        thread = threading.Thread(target=run)
        thread.start()

        def end():
            is_over.set()
            thread.join()
            listener.close()

        self.addCleanup(end)


class OtherSides(OtherSide):
    def test_another_version(self):
        self.serve(b'{"protocol":2,"tenure":"9.9.9"}\n')
        said = self.ctl("status", code=OTHER_PROTOCOL).stderr
        self.assertIn("speaks version 2 of the protocol, this command version 1", said)

    def test_a_refusal_at_the_door(self):
        self.serve(b'{"ok":false,"status":"TNR_ERR_TRANSPORT","message":"user 7 may not"}\n')
        self.assertIn("user 7 may not", self.ctl("status", code=CHECK_FAILED).stderr)

    def test_hangs_up(self):
        self.serve(b"")
        self.assertIn("hung up", self.ctl("status", code=NO_PROCESS).stderr)

    def test_hangs_up_instead_of_an_answer(self):
        self.serve(GREETING, b'{"ok":tr')
        self.assertIn("hung up", self.ctl("status", code=NO_PROCESS).stderr)

    def test_silence(self):
        self.serve(b"", hang_up=False)
        self.assertIn("does not answer in time", self.ctl("status", "--timeout", "1",
                                                          code=NO_ANSWER).stderr)

    def test_half_an_answer(self):
        self.serve(GREETING, b'{"ok":true', hang_up=False)
        self.ctl("status", "--timeout", "1", code=NO_ANSWER)

    def test_garbage(self):
        for garbage in (b"\x00\xff\n", b"[1,2]\n", b'"text"\n', b"{\n", b"\n",
                        b"[" * 100000 + b"\n"):
            with self.subTest(garbage=garbage[:10]):
                self.serve(garbage)
                self.ctl("status", code=OTHER_PROTOCOL)
                self.doCleanups()
                self.setUp()

    def test_an_endless_line(self):
        self.serve(GREETING, b" " * (9 << 20))
        self.assertIn("more than 8 MiB", self.ctl("status", code=OTHER_PROTOCOL).stderr)

    def test_answers_of_other_types(self):
        self.serve(GREETING, b'{"ok":true,"devices":[1,"a",{"device":"x","pools":{},'
                             b'"name":"\\u001b[31m"}],"tags":[null],"settings":[[],{"key":1}]}\n')
        shown = self.ctl("status").stdout
        self.assertNotIn("\x1b", shown)

    def test_a_snapshot_elsewhere(self):
        for name in (b"../../etc/passwd", b"not there", b""):
            with self.subTest(name=name):
                self.serve(GREETING, b'{"ok":true,"file":"' + name + b'"}\n')
                self.assertIn("is not in", self.ctl("snapshot", self.folder / "x.json",
                                                    code=CHECK_FAILED).stderr)
                self.assertFalse((self.folder / "x.json").exists())
                self.doCleanups()
                self.setUp()

    def test_a_snapshot_that_is_no_file(self):
        """Nothing that a process puts there is waited for. With the old open, the command hung at
        the pipe past its --timeout (5 s then; a busy machine may need more for the answer)."""
        for make in (os.mkfifo, os.mkdir, lambda path: os.symlink("/etc/passwd", path)):
            self.serve(GREETING, b'{"ok":true,"file":"x.json"}\n')
            make(self.sockets / "x.json")
            said = self.run_tenure("ctl", "snapshot", self.folder / "y.json", "--timeout", "100",
                                   "--dir", self.sockets, code=CHECK_FAILED).stderr
            self.assertIn("is not in", said)
            self.assertEqual(os.listdir(self.folder), [])
            self.doCleanups()
            self.setUp()

    def test_in_the_list(self):
        self.serve(GREETING)
        self.assertIn("fake", self.ctl("list", "--timeout", "1000").stdout)


# What a terminal would obey: a title, a colour (in three ways), another direction of writing, and
# more; in the middle of an otherwise good text.
HARM = "a\x1b]0;b\x07\x9b31m\u202ec\x7f\r\u200bd\u2028"
HARMFUL = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
                     "\ufeff]")


class Harmless(OtherSide):
    """No text of another process or of a file makes a terminal do anything. Seen to fail with
    `shown` and `say` that leave texts as they are, and with each use of them taken away."""

    def check(self, *arguments, code=OK, wanted="a"):
        result = self.run_tenure(*arguments, code=code)
        text = result.stdout + result.stderr
        self.assertIn(wanted, text)
        self.assertIsNone(HARMFUL.search(text), repr(text))
        return result

    def harm(self, *pieces, code=OK, commands=("status",), wanted="a"):
        """These pieces, lines of JSON without escapes where that is allowed."""
        for command in commands:
            lines = [piece if isinstance(piece, bytes) else
                     json.dumps(piece, ensure_ascii=False).encode() + b"\n" for piece in pieces]
            self.serve(*lines)
            where = ("--dir", self.sockets)
            program, *more = command.split()
            arguments = (program, *more) if program == "top" else ("ctl", program, *more)
            yield self.check(*arguments, *where, code=code, wanted=wanted)
            self.doCleanups()
            self.setUp()

    def test_refusals(self):
        refusal = {"ok": False, "status": HARM, "message": HARM}
        everywhere = ("status", "status --json", "top --once", "snapshot x.json", "metrics")
        list(self.harm(refusal, code=CHECK_FAILED, commands=everywhere[:2]))
        list(self.harm(GREETING, refusal, code=CHECK_FAILED, commands=everywhere))

    def test_garbage_that_is_quoted(self):
        list(self.harm(b'{"a":' + HARM.encode() + b"}\n", code=OTHER_PROTOCOL))
        list(self.harm(b'{"protocol":1,"' + b"\x9b\x1b\xff" + b'":2}\n', code=OTHER_PROTOCOL))

    def test_answers(self):
        number = {key: 1 for key in ("device", "number", "reserved_bytes", "live_bytes",
                                     "asleep_bytes", "generation", "bytes", "process", "pools")}
        named = {**number, **{key: HARM for key in ("name", "tag", "kind", "state", "group",
                                                    "program", "stream", "key", "value")}}
        device = {**named, "pools": [named], "members": [named], "streams": [named],
                  "tags": [named], "account": {"used_bytes": 1, "outside": [named]}}
        answer = {"ok": True, "command": HARM, HARM: HARM, "devices": [device], "tags": [named],
                  "held": [{**named, "processes": [1]}], "imports": [named], "settings": [named]}
        greeting = {"protocol": 1, "tenure": HARM, "pid": 1, "program": HARM}
        commands = ("status", "status --all", "metrics", "metrics --streams", "settings",
                    "top --once", "top --once --by stream", "top --once --by tag",
                    "top --once --by account")
        list(self.harm(greeting, answer, commands=commands))
        for result in self.harm(greeting, answer, commands=("status --json", "top --once --json")):
            (line,) = self.json_lines(result)  # what it says is the same
            self.assertEqual(line["answer"], answer)
            self.assertEqual(line["process"]["program"], HARM)

    def test_lists(self):
        greeting = {"protocol": 1, "tenure": HARM, "pid": 1, "program": HARM}
        list(self.harm(greeting, commands=("list --timeout 1000", "list --timeout 1000 --json")))

    def test_names_of_sockets(self):
        name = self.sockets / "tenure-\x1b1\n7-00000000-0123456789abcdef.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(name))
            listener.listen()
            self.assertEqual(self.ctl("list").stdout, "")
            other = self.sockets / "tenure- \n7-00000000-0123456789abcdef.sock"
            name.rename(other)
            self.assertEqual(self.ctl("list").stdout, "")

    def test_files(self):
        process, _ = self.hold("history:full")
        path = self.folder / "x.json"
        self.ctl("snapshot", path)
        document = json.loads(path.read_text())
        text = path.read_text().replace("weights", json.dumps(HARM)[1:-1])
        for name in ("control_holder", "libtenure"):
            text = text.replace(name, json.dumps(name + HARM)[1:-1])
        path.write_text(text)
        self.check("snapshot", "summary", path, "--no-symbols", wanted="snapshot of")
        self.check("snapshot", "diff", path, path, "--no-symbols", wanted="")
        for address, *_ in document["segments"]["rows"]:
            self.check("explain", hex(address), path, "--no-symbols", wanted="pool \"")
        path.write_text("a,1,2,3\x9b\x1b\n")
        self.check("replay", path, code=BAD_INPUT)
        path.write_text('{"\x1b' + HARM + '": 1')
        self.check("snapshot", "summary", path, code=BAD_INPUT)


class Killed(Ctl):
    def test_the_command_killed(self):
        """At any moment: the process goes on, and is in one of two states."""
        process, path = self.hold()
        for round_ in range(12):
            ctl = subprocess.Popen([os.environ["TENURE"], "ctl", "sleep" if round_ % 2 else "wake",
                                    "--dir", str(self.sockets)], stdout=subprocess.DEVNULL)
            try:
                ctl.wait(timeout=0.001 * round_)
            except subprocess.TimeoutExpired:
                ctl.send_signal(signal.SIGKILL)
                ctl.wait()
            device = self.answer("status")["devices"][0]
            self.assertIn(device["asleep_bytes"], (0, 10 * MIB))
        self.ctl("wake")
        self.assertIsNone(process.poll())
        self.assertTrue(path.exists())


if __name__ == "__main__":
    sys.exit(unittest.main())
