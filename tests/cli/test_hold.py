# SPDX-License-Identifier: Apache-2.0
"""`tenure hold` from outside: files published and loaded again, blocks taken over from a process
that then dies, what `tenure ctl` shows of both sides, every exit code."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from command import BAD_INPUT, CHECK_FAILED, NO_MEMORY, OK, TENURE, CommandTest

KIB = 1 << 10
PATIENCE = 60  # seconds, for the slowest machine: what never comes fails then


class Hold(CommandTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="tenure-hold-")  # a socket's address is short
        self.addCleanup(folder.cleanup)
        self.names = pathlib.Path(folder.name)
        self.file = self.write("weights", bytes(range(256)) * 16 * KIB)
        self.environment = {"TENURE_CONF": f"control:on,control_dir:{self.names}",
                            "TENURE_DRIVER": "sim"}

    def hold(self, *arguments):
        """Starts a holder, and returns it."""
        process = subprocess.Popen([TENURE, "hold", *arguments],
                                   env=dict(os.environ, **self.environment), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def said(self, process, *wanted):
        line = process.stdout.readline()
        for text in wanted:
            self.assertIn(text, line)

    def refused(self, *arguments, code=CHECK_FAILED, wanted=""):
        result = self.run_tenure("hold", *arguments, code=code, environment=self.environment)
        self.assertIn(wanted, result.stderr)

    def status(self, process):
        """What `tenure ctl status` says of a process, by its answer and as text."""
        arguments = ("ctl", "status", "--dir", self.names, "--pid", process.pid)
        (line,) = self.json_lines(self.run_tenure(*arguments, "--json"))
        return line["answer"], self.run_tenure(*arguments).stdout

    def await_held(self, process, generation):
        """Until the process holds a generation that nobody has but it."""
        end = time.monotonic() + PATIENCE
        while True:
            held = self.status(process)[0]["held"]
            if [(each["generation"], each["latest"]) for each in held] == [(generation, True)]:
                return held
            self.assertLess(time.monotonic(), end, held)
            time.sleep(0.05)

    def test_json(self):
        """Each line by itself, as it comes. Without the flag in publication_print this fails."""
        first = self.hold("--json", f"weights={self.file}")
        block = {"name": "weights", "bytes": 4 << 20}
        self.assertEqual(json.loads(first.stdout.readline()),
                         dict(block, generation=1, taken_over=False))
        second = self.hold("weights", "--json")
        self.assertEqual(json.loads(second.stdout.readline()),
                         dict(block, generation=1, taken_over=True))
        first.send_signal(signal.SIGHUP)
        self.assertEqual(json.loads(first.stdout.readline()),
                         dict(block, generation=2, taken_over=False))

    def test_yields(self):
        """A store loads one block more than fits: the oldest goes, is told of, and can be loaded
        again. Without file_follow the second said() waits for ever; with --yields not passed on,
        the store cannot load the fourth."""
        self.environment["TENURE_CONF"] += ",group:store"
        self.environment["TENURE_SIM_MEMORY"] = "14M"
        names = [f"{name}={self.file}" for name in "abcd"]
        store = self.hold("--yields", "--json", *names)
        for name in "abcd":
            self.assertEqual(json.loads(store.stdout.readline()),
                             {"name": name, "generation": 1, "bytes": 4 << 20, "taken_over": False})
        self.assertEqual(json.loads(store.stdout.readline()),
                         {"name": "a", "generation": 1, "yielded": True})
        answer, shown = self.status(store)
        self.assertEqual(sorted(each["name"] for each in answer["held"]), ["b", "c", "d"])
        (device,) = [each for each in answer["devices"] if each["device"] == 0]
        self.assertEqual((device["group_yields"], device["group_yielded_bytes"]), (1, 4 << 20))
        self.assertIn("1 published block of 4.00 MiB yielded", shown)
        store.terminate()
        self.assertEqual(store.wait(), OK)
        self.assertEqual(store.stderr.read(), "")
        full = self.hold(*names)
        self.assertEqual(full.wait(), NO_MEMORY)
        self.refused("--yields", "a", code=BAD_INPUT, wanted="--yields is for NAME=FILE")

    def test_published_and_taken_over(self):
        first = self.hold(f"weights={self.file}")
        self.said(first, "weights: generation 1, 4 MiB, published")
        second = self.hold("weights")
        self.said(second, "weights: generation 1, 4 MiB, taken over")
        (held,) = self.status(first)[0]["held"]
        self.assertEqual(held, {"name": "weights", "generation": 1, "bytes": 4 << 20,
                                "latest": True, "taken_over": False, "importers": 1,
                                "processes": [second.pid]})
        self.assertRegex(self.status(first)[1], rf"weights +1 +4 MiB +1 +{second.pid}")
        metrics = self.run_tenure("ctl", "metrics", "--dir", self.names, "--all").stdout
        self.assertRegex(metrics, rf'(?m)^tenure_held_importers{{pid="{first.pid}",'
                         'program="tenure",published="weights",generation="1"} 1$')
        self.assertRegex(metrics, rf'(?m)^tenure_held_bytes{{pid="{second.pid}",.*}} {4 << 20}$')
        shown = self.run_tenure("top", first.pid, "--once", "--dir", self.names).stdout
        self.assertIn("holds 1 published block, open 1 time; has 0 of others", shown)
        # The files again, as the next generation, which the other follows.
        first.send_signal(signal.SIGHUP)
        self.said(first, "generation 2")
        self.said(second, "generation 2")
        self.assertTrue(self.await_held(second, 2)[0]["taken_over"])
        self.await_held(first, 2)
        # The one who takes over lives on alone, and others have it from there.
        first.kill()
        first.wait()
        third = self.hold("weights")
        self.said(third, "generation 2", "taken over")
        for process in (second, third):
            process.terminate()
            self.assertEqual(process.wait(), OK)
        self.refused("weights", wanted="no process holds")

    def test_names_that_exist(self):
        first = self.hold(f"weights={self.file}")
        self.said(first, "generation 1")
        self.refused(f"weights={self.file}", wanted="holds the name")
        second = self.hold("--replace", f"weights={self.file}")
        self.said(second, "generation 2")
        first.send_signal(signal.SIGINT)
        self.assertEqual(first.wait(), OK)
        third = self.hold("weights")
        self.said(third, "generation 2")

    def test_bad_input(self):
        self.refused(code=BAD_INPUT)
        self.refused("=x", code=BAD_INPUT, wanted="neither NAME nor NAME=FILE")
        self.refused("x=", code=BAD_INPUT, wanted="neither NAME nor NAME=FILE")
        self.refused("x" * 64, code=BAD_INPUT, wanted="neither NAME nor NAME=FILE")
        self.refused("a/b", code=BAD_INPUT, wanted="is not a name")
        self.refused("--older", "0", "x", code=BAD_INPUT, wanted="older")
        self.refused(f"x={self.folder / 'none'}", code=BAD_INPUT, wanted="No such file")
        self.refused(f"x={self.folder}", code=BAD_INPUT, wanted="not a file")
        os.mkfifo(self.folder / "pipe")
        self.refused(f"x={self.folder / 'pipe'}", code=BAD_INPUT, wanted="not a file")
        self.refused(f"x={self.write('empty', '')}", code=BAD_INPUT, wanted="empty")
        self.refused("x", wanted="no process holds")
        (self.names / "x.published").write_bytes(b"older")
        self.refused("x", code=BAD_INPUT, wanted="not of this version")


unittest.main()
