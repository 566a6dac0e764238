#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What users may have: a pickle of PyTorch of 1 GiB, in each protocol that it may have, and
10,000,000 records of Tenure. A summary takes some 8 s of processor time, and at most 1 GiB; 30 s
fail, since processors that others use too are slower. Those who write them take 6 GiB."""
import os
import subprocess
import sys
import unittest

import test_large


class Gigabyte(test_large.Measured):
    def check(self, path):
        seconds, mib = self.measured(path.name, "summary", path)
        path.unlink()
        self.assertLess(mib, 1024)
        self.assertLess(seconds, 30)

    def test_pickles(self):
        for protocol in range(2, 6):
            path = self.folder / f"{protocol}.pickle"
            subprocess.run([sys.executable, "-B", test_large.HERE / "make_pickle.py", "--protocol",
                            str(protocol), path], check=True)
            self.check(path)

    def test_history(self):
        path = self.folder / "history.json"
        subprocess.run([os.environ["TENURE_TEST_MAKE_HISTORY"], "10000000", path], check=True,
                       env={**os.environ, "TENURE_DRIVER": "sim"})
        self.check(path)


if __name__ == "__main__":
    unittest.main(verbosity=2)
