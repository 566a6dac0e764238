# SPDX-License-Identifier: Apache-2.0
"""tenure.ranges on the simulated device. With the call in decommit() taken out,
test_pages_come_and_go fails."""
import gc
import json
import os
import tempfile
import unittest

import device
import torch

import tenure
import tenure.ranges
import tenure.tags
from tenure import _library

MIB = device.MIB


def rows_of(table):
    return [dict(zip(table["columns"], row)) for row in table["rows"]]


class Ranges(unittest.TestCase):
    def setUp(self):
        device.use()

    def tearDown(self):
        device.run_all()
        _library.call("tnr_validate", -1)

    def test_pages_come_and_go(self):
        before = tenure.stats()["reserved_bytes.all.current"]
        cache = tenure.ranges.Range("64MiB")
        page = cache.page_bytes
        self.assertEqual((page, cache.committed_bytes), (2 * MIB, 0))
        cache.commit(7 * page, page)
        cache.commit("8MiB", 3)  # page 4
        self.assertEqual(cache.committed_bytes, 2 * page)
        self.assertEqual(tenure.stats()["reserved_bytes.all.current"] - before, 2 * page)
        tenure.record_use(cache, 0)
        cache.decommit(7 * page, page)
        self.assertEqual(cache.committed_bytes, page)
        tenure.trim()
        self.assertEqual(tenure.stats()["reserved_bytes.all.current"] - before, page)
        cache.close()
        cache.close()
        tenure.trim()
        self.assertEqual(tenure.stats()["reserved_bytes.all.current"], before)

    def test_is_an_array(self):
        cache = tenure.ranges.Range(3 * MIB)
        seen = cache.__cuda_array_interface__
        self.assertEqual((seen["shape"], seen["typestr"], seen["data"]),
                         ((3 * MIB,), "|u1", (cache.address, False)))

    def test_tag_and_sleep(self):
        with tenure.tags.region("paged", content="keep"):
            cache = tenure.ranges.Range("64MiB")
        cache.commit(4 * MIB, 2 * MIB)
        tenure.tags.sleep("paged")
        with self.assertRaisesRegex(tenure.Error, "asleep"):
            cache.commit(0, 1)
        tenure.tags.wake("paged")
        self.assertEqual(tenure.tags.of(cache), "paged")
        self.assertEqual(cache.committed_bytes, 2 * MIB)
        del cache
        gc.collect()
        self.assertEqual(tenure.tags.stats("paged")["bytes_live"], 0)

    def test_picture(self):
        """A snapshot shows the pages that have memory, and the history who gave it."""
        tenure.history("light")
        cache = tenure.ranges.Range("64MiB")
        page = cache.page_bytes
        cache.commit(0, 3 * page)
        cache.decommit(page, page)
        tenure.trim()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "ranges.json")
            tenure.snapshot(path)
            with open(path, encoding="utf-8") as file:
                seen = json.load(file)
        tenure.history("off")
        blocks = {one["address"]: one["bytes"] for one in rows_of(seen["blocks"])}
        start = cache.address
        self.assertEqual({at - start: blocks[at] for at in blocks
                          if start <= at < start + 64 * MIB}, {0: page, 2 * page: page})
        kinds = [seen["kinds"][one["kind"]] for one in rows_of(seen["history"])
                 if one["address"] == start + page]
        self.assertEqual([kind for kind in kinds if kind in ("alloc", "free", "unmap")],
                         ["alloc", "free", "unmap"])
        cache.close()

    def test_refused(self):
        cache = tenure.ranges.Range(4 * MIB)
        with self.assertRaisesRegex(tenure.Error, "reach beyond"):
            cache.commit(2 * MIB, 3 * MIB)
        with self.assertRaisesRegex(tenure.Error, "reach beyond"):
            cache.decommit(4 * MIB, 1)
        with self.assertRaisesRegex(ValueError, "0 bytes"):
            tenure.ranges.Range(0)
        cache.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            cache.commit(0, 1)


if __name__ == "__main__":
    unittest.main()
