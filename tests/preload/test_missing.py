# SPDX-License-Identifier: Apache-2.0
"""A driver that lacks one function: each that is replaced or called, once. A program may fail then,
with the driver or under Tenure, but nothing calls a function that is not there. The short run tries
each function with one scenario, the long run with all.

The driver is a copy of the simulated one in whose table of names one is changed, so that neither
dlsym nor cuGetProcAddress finds it.

Broken to see it fail: REAL_OR (driver.h) without the comparison with null.
"""
import concurrent.futures
import os
import pathlib
import re
import signal
import unittest

from preloaded import ENGINE, PreloadTest

SOURCE = pathlib.Path(os.environ["PRELOAD_SOURCE"])
SIMULATED = pathlib.Path(os.environ["PRELOAD_SIMULATED"])
SCENARIOS = re.findall(r"SCENARIO\((\w+)\)",
                       (SOURCE / "tests/preload/scenarios.def").read_text())
# The first two wait for another process. In the third, handlers call the driver; the simulated one
# does not bear that, and is alone where Tenure does not start.
LEFT_OUT = {"share", "share_other", "signals"}
# Without --check and --account the others of the table are not called.
IS_LONG = "TENURE_TEST_LONG" in os.environ
ENTRIES = [symbol for symbol, rest in
           re.findall(r"^PRELOAD_(?:ENTRY\(\w+, |CALL\()(\w+),(.*)\)$",
                      (SOURCE / "tools/preload/entries.def").read_text(), re.MULTILINE)
           if IS_LONG or not re.search("CHECK|CODE|ACCOUNT", rest)]


class Missing(PreloadTest):
    def driver_without(self, symbol):
        """A folder with a driver that lacks the symbol; None if the simulated one has none such."""
        before, after = (b"\0" + name.encode() + b"\0" for name in (symbol, "X" + symbol[1:]))
        image = SIMULATED.read_bytes()
        if before not in image:
            return None
        folder = self.folder / symbol
        folder.mkdir()
        (folder / "libcuda.so.1").write_bytes(image.replace(before, after))
        return folder

    def run_without(self, symbol, scenarios):
        folder = self.driver_without(symbol)
        results = []
        for scenario in scenarios if folder else []:
            result = self.run_with([ENGINE, "lookup2", scenario], driver=folder,
                                   options=["--check", "--account"] if IS_LONG else [],
                                   environment={"ENGINE_MAY_LACK": 1, "TENURE_SIM_DEVICES": 2})
            results.append((symbol, scenario, result))
        if folder:
            (folder / "libcuda.so.1").unlink()
        return results

    def test_each_function_once(self):
        scenarios = [name for name in SCENARIOS if name not in LEFT_OUT]
        tried = 0
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            work = [pool.submit(self.run_without, symbol,
                                scenarios if IS_LONG else [scenarios[i % len(scenarios)]])
                    for i, symbol in enumerate(ENTRIES)]
            for symbol, scenario, result in (one for done in work for one in done.result()):
                tried += 1
                with self.subTest(symbol=symbol, scenario=scenario):
                    self.assertNotIn(result.code, (-signal.SIGSEGV, -signal.SIGABRT,
                                                   128 + signal.SIGSEGV), result.err)
                    self.assertNotIn("TNR_ERR_INTERNAL", result.err)
        self.assertGreater(tried, 80)


if __name__ == "__main__":
    unittest.main()
