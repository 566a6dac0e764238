#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which driver is used, what is said about it, and machines on which nothing works."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from command import (BAD_INPUT, CommandTest, FAKES, IS_SANITIZED, NO_DEVICE, SIMULATED, TENURE,
                     TRACES)

TRACE = TRACES / "offload_streams.csv.gz"


class Doctor(CommandTest):
    def findings(self, *arguments, **more):
        result = self.run_tenure("doctor", "--json", *arguments, **more)
        self.assertEqual(len(result.stdout.splitlines()), 1)
        return json.loads(result.stdout)

    def test_simulated(self):
        found = self.findings("--driver", "sim")
        self.assertTrue(found["simulated"])
        self.assertEqual(found["status"], "TNR_OK")
        self.assertEqual(found["problems"], [])
        self.assertTrue(pathlib.Path(found["driver_path"]).samefile(SIMULATED))
        device = found["devices"][0]
        self.assertTrue(device["vmm"])
        self.assertGreater(device["memory_bytes"], 0)
        self.assertGreater(device["granularity_bytes"], 0)

    def test_text_says_all_of_it(self):
        text = self.run_tenure("doctor", "--driver", "sim").stdout
        self.assertIn("simulated device", text.splitlines()[0])
        for heading in ["Driver", "Devices", "Settings", "Environment", "Missing"]:
            self.assertRegex(text, rf"(?m)^{heading}")
        self.assertNotIn("\033", text)

    def test_several_devices(self):
        found = self.findings("--driver", "sim", environment={"TENURE_SIM_DEVICES": 3})
        self.assertEqual([one["device"] for one in found["devices"]], [0, 1, 2])

    def test_which_devices_reach_each_other(self):
        three = {"TENURE_SIM_DEVICES": 3}
        found = self.findings("--driver", "sim", environment=three)
        self.assertEqual([one["reaches"] for one in found["devices"]], [[1, 2], [0, 2], [0, 1]])
        text = self.run_tenure("doctor", "--driver", "sim", environment=three).stdout
        self.assertIn("\n     reaches the memory of 0, 2\n", text)
        apart = {**three, "TENURE_SIM_PEERS": 0}
        found = self.findings("--driver", "sim", environment=apart)
        self.assertEqual([one["reaches"] for one in found["devices"]], [[], [], []])
        text = self.run_tenure("doctor", "--driver", "sim", environment=apart).stdout
        self.assertEqual(text.count("     reaches the memory of no other device\n"), 3)
        self.assertNotIn("reaches", self.run_tenure("doctor", "--driver", "sim").stdout)

    def test_settings_in_force_are_listed(self):
        found = self.findings("--driver", "sim",
                              environment={"TENURE_CONF": "per_process_memory_fraction:0.25"})
        self.assertEqual(list(found["settings"]), ["per_process_memory_fraction"])
        self.assertEqual(found["environment"]["TENURE_CONF"], "per_process_memory_fraction:0.25")
        text = self.run_tenure("doctor", "--driver", "sim", "--conf",
                               "per_process_memory_fraction:0.25").stdout
        self.assertIn("per_process_memory_fraction = 0.25", text)

    def test_no_driver(self):
        for path in ["/nonexistent/libcuda.so", FAKES / "libfake_driver_EMPTY.so"]:
            found = self.findings("--driver", path, code=NO_DEVICE)
            self.assertIn(found["status"], ["TNR_ERR_NO_DRIVER", "TNR_ERR_DRIVER_TOO_OLD"])
            self.assertEqual(found["devices"], [])
            self.assertGreater(len(found["problems"]), 0)
            text = self.run_tenure("doctor", "--driver", path, code=NO_DEVICE).stdout
            self.assertIn("no usable driver", text.splitlines()[0])
            self.assertIn(str(path), text)

    def test_old_driver(self):
        path = FAKES / "libfake_driver_OLD.so"
        found = self.findings("--driver", path, code=NO_DEVICE)
        self.assertEqual(found["status"], "TNR_ERR_DRIVER_TOO_OLD")
        self.assertIn("Update", found["problems"][0]["remedy"])
        # The entry point that is missing and the version that is needed are named.
        self.assertRegex(found["problems"][0]["what"], r"cu[A-Z]\w+")

    def test_no_device(self):
        path = FAKES / "libfake_driver_NO_DEVICE.so"
        self.assertEqual(self.findings("--driver", path, code=NO_DEVICE)["status"],
                         "TNR_ERR_NO_DEVICE")
        found = self.findings("--driver", "sim", code=NO_DEVICE,
                              environment={"TENURE_SIM_DEVICES": 0})
        self.assertEqual(found["status"], "TNR_ERR_NO_DEVICE")
        self.assertIn("nvidia-smi", found["problems"][0]["remedy"])

    def test_device_without_virtual_memory_management(self):
        found = self.findings("--driver", "sim", code=NO_DEVICE,
                              environment={"TENURE_SIM_VMM": 0})
        self.assertFalse(found["devices"][0]["vmm"])
        self.assertIn("virtual memory management", found["problems"][0]["what"])

    def test_bad_settings_do_not_hide_the_driver(self):
        for environment, option in [({"TENURE_CONF": "nonsense:1"}, []),
                                    ({}, ["--conf", "nonsense:1"])]:
            found = self.findings("--driver", "sim", *option, code=BAD_INPUT,
                                  environment=environment)
            self.assertEqual(found["status"], "TNR_ERR_CONFIG")
            self.assertIn("nonsense", found["problems"][0]["what"])


class Choice(CommandTest):
    """--driver beats TENURE_DRIVER, which beats looking for a GPU."""

    def chosen(self, *arguments, environment):
        result = self.run_tenure("doctor", "--json", *arguments, environment=environment,
                                 code=[0, NO_DEVICE])
        found = json.loads(result.stdout)
        return found["chosen"], found["driver_path"]

    def test_environment(self):
        how, path = self.chosen(environment={"TENURE_DRIVER": SIMULATED})
        self.assertEqual(how, "by TENURE_DRIVER")
        self.assertTrue(pathlib.Path(path).samefile(SIMULATED))

    def test_option_beats_environment(self):
        how, path = self.chosen("--driver", "sim",
                                environment={"TENURE_DRIVER": "/nonexistent/lib.so"})
        self.assertEqual(how, "by --driver")
        self.assertTrue(pathlib.Path(path).samefile(SIMULATED))

    def test_bad_environment(self):
        result = self.run_tenure("doctor", environment={"TENURE_DRIVER": "opencl"}, code=BAD_INPUT)
        self.assertIn("opencl", result.stderr)

    def test_without_a_wish(self):
        """A GPU if there is one; else the simulated device, and the first line says so."""
        result = self.run_tenure("doctor", "--json", environment={"TENURE_DRIVER": None})
        found = json.loads(result.stdout)
        if found["simulated"]:
            self.assertEqual(found["chosen"], "because no GPU was found")
            self.assertIn("install", found["problems"][0]["remedy"].lower())
            text = self.run_tenure("replay", TRACE, environment={"TENURE_DRIVER": None}).stdout
            self.assertIn("simulated device", text.splitlines()[0])
        else:
            self.assertEqual(found["chosen"], "because there is a GPU")

    def test_cuda_never_falls_back(self):
        result = self.run_tenure("doctor", "--json", "--driver", "cuda", code=[0, NO_DEVICE])
        self.assertFalse(json.loads(result.stdout)["simulated"])

    def test_other_commands_without_driver(self):
        for arguments in [["replay", TRACE], ["bench", "--quick"]]:
            result = self.run_tenure(*arguments, "--driver", "/nonexistent/lib.so", code=NO_DEVICE)
            self.assertIn("tenure doctor", result.stderr)
            self.assertEqual(result.stdout, "")

    @unittest.skipIf(IS_SANITIZED, "Python has no sanitizer")
    def test_runtime_is_told_why(self):
        """The CUDA runtime asks for what only NVIDIA's driver has. It is said once, and why."""
        program = ("import ctypes; look = ctypes.CDLL('libcuda.so.1').cuGetProcAddress_v2\n"
                   "found = ctypes.c_void_p()\n"
                   "for name in NAMES:\n"
                   "    print(look(name, ctypes.byref(found), 12000, ctypes.c_uint64(0), None))\n")
        for names, times in (([b"cuMemAlloc", b"cuNoSuchThing"], 0),
                             ([b"cuGetExportTable"] * 2, 1)):
            result = self.run_tenure("run", "--driver", "sim", "--conf", "control:off", "--",
                                     sys.executable, "-c", program.replace("NAMES", str(names)),
                                     environment={"TENURE_DRIVER": None})
            self.assertEqual(result.stderr.count("uses the CUDA runtime"), times, result.stderr)
            self.assertEqual(result.stdout.split()[-1], "500")

    def test_no_such_device(self):
        result = self.run_tenure("replay", "--driver", "sim", "--device", "5", TRACE,
                                 code=BAD_INPUT)
        self.assertIn("there is no device 5", result.stderr)

    def test_device_without_virtual_memory_management(self):
        self.run_tenure("replay", "--driver", "sim", TRACE, code=NO_DEVICE,
                        environment={"TENURE_SIM_VMM": 0})

    def test_moved_tree_finds_its_simulated_device(self):
        (self.folder / "bin").mkdir()
        (self.folder / "lib" / "tenure").mkdir(parents=True)
        command = self.folder / "bin" / "tenure"
        moved = self.folder / "lib" / "tenure" / "libtenure_simcuda.so"
        shutil.copy(TENURE, command)
        shutil.copy(SIMULATED, moved)
        # Of this build: install tests leave others beside it.
        libraries = pathlib.Path(TENURE).resolve().parent.parent / "lib"
        library = next(libraries.rglob("libtenure.so.*"), None)
        self.assertIsNotNone(library)
        variables = dict(os.environ, LD_LIBRARY_PATH=str(library.parent))
        result = subprocess.run([command, "doctor", "--driver", "sim", "--json"], env=variables,
                                capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["driver_path"], str(moved.resolve()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
