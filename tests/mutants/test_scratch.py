#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The copy of the tree that faults are put into. CMake builds each folder of tests that it finds,
so a copy that keeps what the tree has lost does not configure.

Seen to fail: without the unlink in mirror().
"""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from run_mutants import mirror  # noqa: E402


class Scratch(unittest.TestCase):
    def test_a_copy_used_again_is_the_tree(self):
        with tempfile.TemporaryDirectory() as folder:
            tree, copy = pathlib.Path(folder) / "tree", pathlib.Path(folder) / "copy"
            for name in ("tests/gone/CMakeLists.txt", "tests/kept/a.c", "tests/kept/b.c", "LICENSE",
                         "tests/kept/node_modules/c.js", "README.md"):
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                (tree / name).write_text(name)
            mirror(tree, copy)
            before = (copy / "tests/kept/a.c").stat()
            (tree / "tests/gone/CMakeLists.txt").unlink()
            (tree / "tests/kept/b.c").write_text("changed")
            mirror(tree, copy)
            found = {str(path.relative_to(copy)): path.read_text()
                     for path in copy.rglob("*") if path.is_file()}
            self.assertEqual(found, {"tests/kept/a.c": "tests/kept/a.c",
                                     "tests/kept/b.c": "changed", "LICENSE": "LICENSE"})
            after = (copy / "tests/kept/a.c").stat()
            self.assertEqual((after.st_ino, after.st_mtime_ns), (before.st_ino, before.st_mtime_ns))


if __name__ == "__main__":
    unittest.main()
