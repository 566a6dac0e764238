#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad trace files: a sentence with file and line, exit code 2, no crash, nothing on stdout."""
import gzip
import random
import unittest

from command import BAD_INPUT, CommandTest, NO_MEMORY, OK, TRACES

HEAD = "# a comment\na,1,4096,0,0\n"

# What is wrong, the file's content, the line in the message, words of the message.
BAD = [
    ("empty", "", 1, "without any allocation"),
    ("only a comment", "# nothing\n", 2, "without any allocation"),
    ("too few fields", HEAD + "a,2,4096,0\n", 3, "4 fields"),
    ("too many fields", HEAD + "a,2,4096,0,1,9\n", 3, "6 fields"),
    ("empty line", HEAD + "\na,2,1,0,0\n", 3, "1 field "),
    ("empty field", HEAD + "a,,4096,0,1\n", 3, '"id" is empty'),
    ("freed twice", HEAD + "F,1,4096,0,1\nF,1,4096,0,2\n", 4, "freed twice"),
    ("never allocated", HEAD + "F,7,4096,0,1\n", 3, "never allocated"),
    ("completed, never allocated", HEAD + "f,7,4096,0,1\n", 3, "never allocated"),
    ("free before anything", "F,7,4096,0,1\n", 1, "never allocated"),
    ("allocated while live", HEAD + "a,1,4096,0,1\n", 3, "still live"),
    ("size 0", HEAD + "a,2,0,0,1\n", 3, "0 bytes"),
    ("size 2^63", HEAD + "a,2,9223372036854775808,0,1\n", 3, "9223372036854775808"),
    ("size 2^60 + 1", HEAD + "a,2,1152921504606846977,0,1\n", 3, "1152921504606846977"),
    ("size 2^64", HEAD + "a,2,18446744073709551616,0,1\n", 3, "64 bits"),
    ("size of 40 digits", HEAD + f"a,2,{'9' * 40},0,1\n", 3, "64 bits"),
    ("id 2^64 - 1", HEAD + "a,18446744073709551615,1,0,1\n", 3, "id is too large"),
    ("id 2^64", HEAD + "a,18446744073709551616,1,0,1\n", 3, "id is too large"),
    ("negative id", HEAD + "a,-2,1,0,1\n", 3, "id is negative"),
    ("negative size", HEAD + "a,2,-1,0,1\n", 3, "bytes is negative"),
    ("negative stream", HEAD + "a,2,1,-1,1\n", 3, "stream is negative"),
    ("negative time", HEAD + "a,2,1,0,-1\n", 3, "us is negative"),
    ("hexadecimal", HEAD + "a,2,0x10,0,1\n", 3, "not a number"),
    ("blank before a number", HEAD + "a,2, 10,0,1\n", 3, "not a number"),
    ("fraction", HEAD + "a,2,1.5,0,1\n", 3, "not a number"),
    ("unknown operation", HEAD + "b,2,1,0,1\n", 3, "unknown operation"),
    ("upper case", HEAD + "A,2,1,0,1\n", 3, "unknown operation"),
    ("operation of two letters", HEAD + "aa,2,1,0,1\n", 3, "unknown operation"),
    ("overlong line", HEAD + "a" * 5000 + "\n", 3, "longer than"),
    ("overlong last line", HEAD + "1" * 5000, 3, "longer than"),
    ("zero byte", (HEAD + "a,2,1\0,0,1\n").encode(), 3, "byte 0x00"),
    ("binary", bytes(range(256)) * 64, 1, "not text"),
    ("ends inside a line", HEAD + "F,1,40", 3, "3 fields"),
    ("live bytes beyond 64 bits", "".join(f"a,{i},{2**60},0,0\n" for i in range(20)), 16,
     "64 bits"),
    ("too many streams", "".join(f"a,{i},1,{i},0\n" for i in range(2000)), 1025, "streams"),
]


class BadTraces(CommandTest):
    def refuse(self, path, line, words):
        for arguments in [[], ["--json"]]:
            result = self.run_tenure("replay", *arguments, path, code=BAD_INPUT)
            self.assertEqual(result.stdout, "")
            self.assertIn(f"{path}:{line}: ", result.stderr)
            self.assertIn(words, result.stderr)

    def test_plain(self):
        for what, content, line, words in BAD:
            with self.subTest(what=what):
                self.refuse(self.write("bad.csv", content), line, words)

    def test_compressed(self):
        for what, content, line, words in BAD:
            with self.subTest(what=what):
                data = content if isinstance(content, bytes) else content.encode()
                self.refuse(self.write("bad.csv.gz", gzip.compress(data)), line, words)

    def test_missing_file_and_folder(self):
        result = self.run_tenure("replay", self.folder / "absent.csv", code=BAD_INPUT)
        self.assertIn("absent.csv: cannot be opened: No such file", result.stderr)
        result = self.run_tenure("replay", self.folder, code=BAD_INPUT)
        self.assertIn("cannot be read: Is a directory", result.stderr)

    def test_one_bad_file_stops_all_before_anything_runs(self):
        good = self.write("good.csv", HEAD)
        bad = self.write("bad.csv", HEAD + "x\n")
        result = self.run_tenure("replay", good, bad, code=BAD_INPUT)
        self.assertEqual(result.stdout, "")
        self.assertIn("bad.csv:3:", result.stderr)

    def test_truncated_gzip(self):
        whole = (TRACES / "offload_streams.csv.gz").read_bytes()
        for length in [1, 2, 5, 10, 18, 100, 5000, len(whole) - 9, len(whole) - 8, len(whole) - 1]:
            with self.subTest(length=length):
                path = self.write("cut.csv.gz", whole[:length])
                result = self.run_tenure("replay", path, code=BAD_INPUT)
                self.assertRegex(result.stderr, r"cut\.csv\.gz:\d+: ")

    def test_damaged_gzip(self):
        whole = (TRACES / "offload_streams.csv.gz").read_bytes()
        choose = random.Random(20261121)
        for _ in range(40):
            damaged = bytearray(whole)
            for _ in range(8):
                # Beyond the header, whose time and name are nobody's business.
                damaged[choose.randrange(64, len(whole))] ^= 1 << choose.randrange(8)
            path = self.write("damaged.csv.gz", bytes(damaged))
            result = self.run_tenure("replay", path, code=BAD_INPUT)
            self.assertRegex(result.stderr, r"damaged\.csv\.gz:\d+: ")

    def test_random_mutations_never_crash(self):
        lines = gzip.decompress((TRACES / "offload_streams.csv.gz").read_bytes())
        text = b"\n".join(lines.split(b"\n")[:40]) + b"\n"
        choose = random.Random(7)
        for _ in range(60):
            mutant = bytearray(text)
            for _ in range(choose.randrange(1, 4)):
                byte = choose.choice(b"0123456789,aFf\n-# \x00\xff")
                mutant[choose.randrange(len(mutant))] = byte
            path = self.write("mutant.csv", bytes(mutant))
            # A mutant may be a legal trace, and a huge size may not fit: 0 and 4 are fine too.
            self.run_tenure("replay", "--check", "none", path, code=[OK, BAD_INPUT, NO_MEMORY])


if __name__ == "__main__":
    unittest.main(verbosity=2)
