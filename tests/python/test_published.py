# SPDX-License-Identifier: Apache-2.0
"""tenure.published, by two processes on the simulated device: this one holds, another attaches."""
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import unittest

import device

import tenure
import tenure.published
from tenure import _library

READER = """
import json, sys, tenure, tenure.published
known = tenure.published.latest("weights")
with tenure.published.attach("weights", same_address=True) as weights:
    array = weights.__cuda_array_interface__
    said = dict(known, address=weights.address, attached=weights.generation,
                nbytes=weights.nbytes, data=array["data"], shape=array["shape"],
                process=weights.process, is_read_only=weights.is_read_only)
try:
    weights.__cuda_array_interface__
except ValueError as error:
    said["closed"] = str(error)
assert tenure.published.hold("weights") == known["generation"]
said["holders"] = tenure.published.latest("weights")["processes"]
tenure.published.unpublish("weights")
print(json.dumps(said))
"""


class Published(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tenure-published-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        tenure.configure({"control_dir": self.folder})

    def read(self):
        environment = dict(os.environ, TENURE_CONF=f"control_dir:{self.folder}")
        done = subprocess.run([sys.executable, "-B", "-c", READER], env=environment, text=True,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_published(self):
        with self.assertRaisesRegex(tenure.Error, "no process holds"):
            tenure.published.attach("weights")
        with tenure.Pool(shared=True):
            ptr = ctypes.c_void_p()
            _library.call("tnr_malloc", ctypes.byref(ptr), 3 * device.MIB, 0, None)
        for generation in (1, 2):
            self.assertEqual(tenure.published.publish("weights", ptr.value), generation)
        _library.call("tnr_free", ptr)
        said = self.read()
        self.assertEqual(said["generation"], 2)
        self.assertEqual(said["attached"], 2)
        self.assertEqual(said["nbytes"], 3 * device.MIB)
        self.assertEqual(said["shape"], [3 * device.MIB])
        self.assertEqual(said["address"], ptr.value)
        self.assertEqual(said["data"], [ptr.value, False])
        self.assertTrue(said["is_read_only"])
        self.assertEqual(said["process"], os.getpid())
        self.assertEqual(said["processes"], [os.getpid()])
        self.assertEqual(len(said["holders"]), 2)
        self.assertIn("closed", said["closed"])
        tenure.published.unpublish("weights")
        with self.assertRaisesRegex(tenure.Error, "holds nothing"):
            tenure.published.unpublish("weights")


if __name__ == "__main__":
    unittest.main()
