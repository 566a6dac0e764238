# SPDX-License-Identifier: Apache-2.0
"""tenure.Pool, limits, trim and sleep, under a stand-in for PyTorch on the simulated device."""
import ctypes
import gc
import threading
import unittest

import device
import torch

import tenure
import tenure.torch

MIB = device.MIB


def of_device(key):
    return tenure.stats()[key]


class Pools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tenure.torch.install(strict=True, native=False)

    def tearDown(self):
        gc.collect()
        device.run_all()
        tenure.trim()
        self.assertEqual(of_device("allocated_bytes.all.current"), 0)
        tenure._library.call("tnr_validate", -1)

    def test_memory_apart(self):
        pools = of_device("pools")
        pool = tenure.Pool(name="apart")
        outside = torch.Tensor(3 * MIB)
        with pool as same:
            self.assertIs(same, pool)
            inside = torch.Tensor(5 * MIB)
            seen = []
            thread = threading.Thread(target=lambda: seen.append(torch.Tensor(7 * MIB)))
            thread.start()
            thread.join()
        after = torch.Tensor(9 * MIB)
        self.assertEqual(pool.stats()["allocated_bytes.all.current"], 5 * MIB)
        self.assertEqual(of_device("allocated_bytes.all.current"), 24 * MIB)
        self.assertEqual(of_device("pools"), pools + 1)
        self.assertIn("apart", repr(pool))
        del outside, inside, after
        seen.clear()
        pool.close()
        self.assertIn("closed", repr(pool))
        pool.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            pool.trim()
        self.assertEqual(of_device("pools"), pools)

    def test_a_device_that_is_no_number(self):
        """ctypes says "argument 3" and not which it is: seen with its own error left through."""
        for device in ("cuda:0", "lots", 0.5):
            with self.subTest(device), self.assertRaises(TypeError) as raised:
                tenure.trim(device)
            self.assertIn(f"{device!r} has the wrong type; a device", str(raised.exception))

    def test_sizes_as_people_write_them(self):
        """Wherever the module takes bytes. Without bytes_of() in a function ctypes refuses."""
        for size, number in (("1GiB", 1 << 30), ("1.5 MiB", 3 << 19), ("2gb", 2 * 10 ** 9),
                             ("4096", 4096), (" 7 B ", 7), (7, 7)):
            tenure.set_limit(size)
            self.assertEqual(of_device("limit_bytes"), number, size)
        tenure.set_limit(None)
        for wrong in ("8 gigs", "GiB", "-1", "1e9", "", -1):
            with self.assertRaisesRegex(ValueError, "size"):
                tenure.set_limit(wrong)
        pool = tenure.Pool(limit_bytes="4MiB", release_threshold_bytes="2MiB")
        with pool:
            self.assertEqual(torch.Tensor(5 * MIB).address, 0)
        pool.set_limit("1GiB")
        self.assertEqual(pool.trim("1MiB"), 0)
        tenure.trim(keep_bytes="0 B")
        pool.sleep("discard", pinned_bytes_max="1MiB")
        pool.wake()
        pool.close()
        with tenure.tags.region("sized"):
            torch.Tensor(MIB)
        tenure.tags.limit("sized", "1GiB")
        tenure.tags.trim("sized", "1MiB")
        tenure.tags.limit("sized", None)

    def test_parked(self):
        tensor = torch.Tensor(8 * MIB)
        self.assertEqual(tenure.park(tensor, contents="discard"), 8 * MIB)
        reserved = of_device("reserved_bytes.all.current")
        other = torch.Tensor(8 * MIB)
        self.assertEqual(of_device("reserved_bytes.all.current"), reserved)
        self.assertEqual(of_device("bytes_parked_away"), 8 * MIB)
        with self.assertRaisesRegex(tenure.Error, "is parked"):
            tenure.park(tensor)
        del other
        tenure.unpark(tensor)
        self.assertEqual(of_device("bytes_parked"), 0)
        self.assertEqual(tenure.park(tensor, torch.cuda.current_stream(), "keep"), 8 * MIB)
        tenure.unpark(tensor)
        with self.assertRaisesRegex(ValueError, "contents"):
            tenure.park(tensor, contents="some")
        with self.assertRaisesRegex(tenure.Error, "not parked"):
            tenure.unpark(tensor)
        tenure.park(tensor, contents="discard")
        del tensor  # as any

    def test_they_nest_and_errors_end_them(self):
        outer, inner = tenure.Pool(), tenure.Pool()
        with self.assertRaises(KeyError):
            with outer:
                with inner:
                    x = torch.Tensor(MIB)
                y = torch.Tensor(2 * MIB)
                raise KeyError
        z = torch.Tensor(4 * MIB)
        self.assertEqual([pool.stats()["allocated_bytes.all.current"] for pool in (inner, outer)],
                         [MIB, 2 * MIB])
        del x, y, z

    def test_dropped_with_live_tensors(self):
        pools = of_device("pools")
        with tenure.Pool():
            x = torch.Tensor(MIB)
        gc.collect()
        self.assertEqual(of_device("pools"), pools + 1)
        tenure.trim()
        self.assertEqual(of_device("pools"), pools + 1)
        self.assertEqual(of_device("allocated_bytes.all.current"), MIB)
        del x
        tenure.trim()
        self.assertEqual(of_device("pools"), pools)
        with tenure.Pool() as pool:
            x = torch.Tensor(MIB)
        with self.assertRaisesRegex(tenure.Error, "live"):
            pool.close()
        del x

    def test_limits(self):
        pool = tenure.Pool(limit_bytes=32 * MIB)
        with pool:
            self.assertEqual(torch.Tensor(40 * MIB).address, 0)
            x = torch.Tensor(20 * MIB)
            self.assertEqual(torch.Tensor(20 * MIB).address, 0)
            pool.set_limit(64 * MIB)
            y = torch.Tensor(20 * MIB)
            self.assertNotEqual(y.address, 0)
            pool.set_limit(None)
            z = torch.Tensor(200 * MIB)
            self.assertNotEqual(z.address, 0)
        del x, y, z
        tenure.set_limit(8 * MIB)
        try:
            tenure.trim()
            self.assertEqual(torch.Tensor(64 * MIB).address, 0)
        finally:
            tenure.set_limit(None)
        self.assertNotEqual(torch.Tensor(64 * MIB).address, 0)

    def test_trim(self):
        pool = tenure.Pool()
        with pool:
            x = torch.Tensor(64 * MIB)
        held = pool.stats()["reserved_bytes.all.current"]
        self.assertGreaterEqual(held, 64 * MIB)
        self.assertEqual(pool.trim(), held - pool.stats()["reserved_bytes.all.current"])
        del x
        self.assertEqual(pool.trim(), held)
        self.assertEqual(pool.stats()["reserved_bytes.all.current"], 0)
        x = torch.Tensor(64 * MIB)
        del x
        self.assertGreaterEqual(tenure.trim(), 64 * MIB)

    def test_compact(self):
        pool = tenure.Pool()
        with pool:
            x = torch.Tensor(64 * MIB)
        self.assertEqual(pool.compact(), 0)
        del x
        self.assertEqual(pool.compact(), 64 * MIB)
        with pool:
            x = torch.Tensor(64 * MIB)
        address = x.address
        tenure.compact()
        self.assertEqual(x.address, address)
        self.assertEqual(pool.stats()["reserved_bytes.all.current"], 64 * MIB)
        del x
        self.assertGreaterEqual(tenure.compact(), 64 * MIB)

    def test_sleep(self):
        pool, other = tenure.Pool(), tenure.Pool()
        with pool:
            kept, lost = torch.Tensor(4 * MIB), torch.Tensor(4 * MIB)
        with other:
            third = torch.Tensor(4 * MIB)
        for x, value in ((kept, 1), (lost, 1), (third, 1)):
            device.fill(x.address, 4 * MIB, 0)
        tenure.set_content(lost, "discard")
        held = pool.stats()["reserved_bytes.all.current"]
        pool.sleep()
        self.assertEqual(pool.stats()["reserved_bytes.all.current"], 0)
        self.assertEqual(other.stats()["allocated_bytes.all.current"], 4 * MIB)
        with pool:
            self.assertEqual(torch.Tensor(MIB).address, 0)
        pool.wake()
        self.assertEqual(pool.stats()["reserved_bytes.all.current"], held)
        self.assertEqual((self.bytes_of(kept), self.bytes_of(lost)), (1, -1))
        tenure.sleep(contents="discard", keep_backing=False, pinned_bytes_max=64 * MIB)
        self.assertEqual(of_device("reserved_bytes.all.current"), 0)
        tenure.wake()
        self.assertEqual(of_device("reserved_bytes.all.current"), held + 4 * MIB)
        self.assertEqual((self.bytes_of(kept), self.bytes_of(third)), (-1, -1))
        with self.assertRaisesRegex(ValueError, "not one of default, keep, discard"):
            pool.sleep("burn")
        with self.assertRaisesRegex(ValueError, "not one of"):
            tenure.set_content(kept, "burn")
        del kept, lost, third

    @staticmethod
    def bytes_of(x):
        """1: as they were written; -1: something else."""
        host = ctypes.create_string_buffer(16)
        assert device.DRIVER.cuMemcpyDtoH_v2(host, ctypes.c_uint64(x.address), 16) == 0
        return 1 if set(host.raw) == {1} else -1

    def test_bad_arguments(self):
        with self.assertRaisesRegex(ValueError, "paper"):
            tenure.Pool(handle="paper")
        with self.assertRaisesRegex(tenure.Error, "no device 77"):
            tenure.Pool(77)
        with self.assertRaises(TypeError):
            tenure.Pool(0, "name")
        with self.assertRaises(tenure.Error):
            tenure.trim(77)


if __name__ == "__main__":
    device.use()
    unittest.main()
