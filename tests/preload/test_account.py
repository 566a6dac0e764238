#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The account of the whole process: what the device's driver says is used, by what it is.

The simulated driver takes known numbers of bytes for itself (TENURE_SIM_OVERHEAD), and each must be
found in its row, as it was measured around the call that took it. Events are measured by nobody:
what they take must be seen as unexplained, and in no row.

Seen to fail: with what happens between calls counted for the next one; with what Tenure gave back
meanwhile not taken off.
"""
import json
import os
import subprocess
import unittest

from preloaded import DRIVER, PROGRAMS, TENURE, PreloadTest

MIB = 1 << 20
TAKEN = {"context": 96 * MIB, "module": 5 * MIB, "launch": 3 * MIB, "graph": 7 * MIB, "event": 0}


class Account(PreloadTest):
    def start(self, taken=None, account=True, environment=None):
        """The program, under Tenure; it does one thing for each line."""
        variables = dict(os.environ)
        variables.pop("TENURE_DRIVER", None)
        variables["LD_LIBRARY_PATH"] = str(DRIVER)
        variables["TENURE_SIM_OVERHEAD"] = ",".join(
            f"{name}:{count}" for name, count in {**TAKEN, **(taken or {})}.items())
        variables["TENURE_CONF"] = f"control_dir:'{self.folder}/sockets'"
        variables.update(environment or {})
        options = ["--account"] if account else []
        process = subprocess.Popen([TENURE, "run", *options, "--", PROGRAMS / "preload_account"],
                                   env=variables, text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)

        def end():
            process.stdin.close()
            self.assertEqual(process.wait(timeout=600), 0)
            process.stdout.close()
        self.addCleanup(end)
        self.process = process

    def act(self, *words):
        for word in words:
            print(word, file=self.process.stdin, flush=True)
            self.assertEqual(self.process.stdout.readline().strip(), word)

    def top(self, *options):
        result = self.run_program([TENURE, "top", "--once", "--by", "account", "--dir",
                                   self.folder / "sockets", *options])
        self.assertEqual(result.code, 0, result.err)
        return result.out

    def account(self):
        """The rows by their names, and what is in none."""
        device, = json.loads(self.top("--json"))["answer"]["devices"]
        account = device["account"]
        rows = {row["name"]: row["bytes"] for row in account["outside"]}
        self.assertEqual(account["explained_bytes"],
                         sum(rows.values()) + account["tenure_bytes"])
        self.assertEqual(account["tenure_bytes"], device["reserved_bytes"])
        return rows, account["used_bytes"] - account["explained_bytes"]

    def test_each_is_what_its_call_took(self):
        self.start()
        self.act("context", "allocate")
        expected = {"context": 96 * MIB}
        self.assertEqual(self.account(), (expected, 0))
        modules = "modules: preload_account"
        for word, row, change in [
                ("module", modules, 5), ("launch", modules, 3), ("launch", modules, 0),
                ("graph", "graphs", 7), ("map", "mapped by hand: preload_account", 6),
                ("graph_end", "graphs", -7), ("unmap", "mapped by hand: preload_account", -6),
                ("unload", modules, -8)]:
            with self.subTest(word=word):
                self.act(word)
                expected[row] = expected.get(row, 0) + change * MIB
                expected = {name: count for name, count in expected.items() if count}
                self.assertEqual(self.account(), (expected, 0))

    def test_what_nobody_measures_is_unexplained(self):
        self.start(taken={"event": MIB})
        self.act("context", "allocate", "module", "graph")
        rows, before = self.account()  # Tenure has events of its own
        self.act("events")
        self.assertEqual(self.account(), (rows, before + 128 * MIB))
        self.act("map")  # the next call that is measured does not take them for its own
        rows["mapped by hand: preload_account"] = 6 * MIB
        self.assertEqual(self.account(), (rows, before + 128 * MIB))
        self.assertRegex(self.top(), r"\n  unexplained +1[0-9]+\.0 MiB ")

    def test_what_tenure_gives_back_meanwhile(self):
        """A call that lacks memory is made again once idle memory has gone back: what it took is
        not less for that."""
        self.start(environment={"TENURE_SIM_MEMORY": "108M"})
        self.act("context", "allocate", "free", "map")
        self.assertEqual(self.account(), ({"context": 96 * MIB,
                                           "mapped by hand: preload_account": 6 * MIB}, 0))

    def test_a_context_that_ends(self):
        self.start()
        self.act("context", "allocate", "module", "launch", "map", "reset", "context", "allocate")
        self.assertEqual(self.account(), ({"context": 96 * MIB,
                                           "mapped by hand: preload_account": 6 * MIB}, 0))

    def test_without(self):
        self.start(account=False)
        self.act("context", "allocate", "module", "graph")
        self.assertIn("no account", self.top())

    def test_without_nvml(self):
        """Contexts cannot be measured then, and are not guessed."""
        self.start(environment={"TENURE_SIM_FAIL": "cuDeviceGetUuid:1+:801"})
        self.act("context", "allocate", "module")
        rows, unexplained = self.account()
        self.assertEqual(rows, {"modules: preload_account": 5 * MIB})
        self.assertEqual(unexplained, 96 * MIB)
        self.assertIn(", by all processes", self.top())


if __name__ == "__main__":
    unittest.main()
