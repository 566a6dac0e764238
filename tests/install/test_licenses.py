#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_licenses.py PREFIX CC WORK: that check_licenses.py can fail. In copies of an installation a
notice is taken away or changed, and programs with code that may not be inside are added: each must
be found, and nothing in the copy as it is.

A command with elfutils linked in was found by every one of its marks (names, texts, stripped).
"""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_licenses  # noqa: E402

PREFIX, CC, WORK = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
DOC = pathlib.Path("share/doc/tenure")
# A function that each of them defines, and a text that it has.
CODE = [("elfutils", "dwfl_begin", "cannot manipulate null section"),
        ("elfutils", "elf_begin", "ELF version not set"),
        ("liblzma", "lzma_code", "\\3757zXZ"),
        ("libbz2", "BZ2_bzDecompress", "bzip2/libbzip2: internal error number %d"),
        ("libzstd", "ZSTD_decompress", "Unspecified error code"),
        ("zlib", "inflateInit2_", " inflate 1.2.13 Copyright 1995-2022 Mark Adler "),
        ("libbfd", "bfd_openr", "BFD %s internal error"),
        ("readline", "rl_readline", None)]


class Licenses(unittest.TestCase):
    def setUp(self):
        self.copy = WORK / "copy"
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(PREFIX, self.copy, copy_function=os.link, symlinks=True,
                        ignore=shutil.ignore_patterns("python", "examples", "images",
                                                      "libtenure.[as]*"))

    def assert_wrong(self, *words):
        """One thing is wrong, and these words say what."""
        wrong, _ = check_licenses.check(self.copy, "prefix")
        self.assertEqual(len(wrong), 1, wrong)
        for word in words:
            self.assertIn(word, wrong[0])

    def change(self, place, old, new):
        path = self.copy / place
        content = path.read_bytes()
        self.assertIn(old, content)
        path.unlink()
        path.write_bytes(content.replace(old, new))

    def compile(self, source, *options):
        path = self.copy / "lib" / "libadded.so"
        subprocess.run([CC, "-x", "c", "-", "-shared", "-fPIC", "-o", path, *options],
                       input=source.encode(), check=True)
        return path

    def test_as_it_is(self):
        wrong, held = check_licenses.check(self.copy, "prefix")
        self.assertEqual(wrong, [])
        self.assertLessEqual({"yajl"}, held)

    def test_a_notice_is_missing(self):
        for name in ["LICENSE", "copyright", "docs/licenses/jemalloc.txt",
                     "docs/licenses/yajl.txt", "docs/licenses/uplot.txt"]:
            with self.subTest(name):
                self.setUp()
                (self.copy / DOC / name).unlink()
                self.assert_wrong(name, "missing")

    def test_a_notice_was_changed(self):
        self.change(DOC / "docs/licenses/jemalloc.txt", b"Jason Evans", b"somebody")
        self.assert_wrong("jemalloc.txt", "is not")

    def test_no_documents(self):
        shutil.rmtree(self.copy / DOC)
        self.assert_wrong("no folder")

    def test_the_report_without_its_notice(self):
        if not (self.copy / "share/tenure/report.html").exists():
            self.skipTest("this build has no report")
        self.change("share/tenure/report.html", b"Leon Sorokin", b"")
        self.assert_wrong("report.html", "uPlot without its notice")

    def test_copyright(self):
        for old, new, said in [(b"Format:", b"Form:", "format"),
                               (b"Files: *", b"Files: a", "Files: *"),
                               (b"contains yajl", b"contains it", "does not name yajl"),
                               (b"\nLicense: ISC\n", b"\nLicense: IC\n", "no text of ISC"),
                               (b"Copyright: The", b"By: The", "no owner")]:
            with self.subTest(said):
                self.setUp()
                self.change(DOC / "copyright", old, new)
                wrong, _ = check_licenses.check(self.copy, "prefix")
                self.assertTrue(wrong and all("copyright: " in one for one in wrong), wrong)
                self.assertIn(said, wrong[0])

    def test_code_that_may_not_be_inside(self):
        for name, function, text in CODE:
            with self.subTest(f"{name} by {function}"):
                self.compile(f"int {function}(void); int {function}(void) {{ return 1; }}")
                self.assert_wrong("libadded.so", f"contains {name}", function)
            if text:
                with self.subTest(f"{name} by its text, without symbols"):
                    self.compile(f'const char shown[] = "{text}";', "-s")
                    self.assert_wrong("libadded.so", f"contains {name}")

    def test_a_static_archive(self):
        (self.copy / "lib" / "added.o").unlink(missing_ok=True)
        subprocess.run([CC, "-x", "c", "-", "-c", "-o", WORK / "added.o"], check=True,
                       input=b"static int lzma_code(void) { return 1; }\n"
                             b"int (*f)(void) = lzma_code;")
        subprocess.run(["ar", "rc", self.copy / "lib" / "libadded.a", WORK / "added.o"], check=True)
        self.assert_wrong("libadded.a", "contains liblzma", "lzma_code")

    def test_a_library_that_is_needed(self):
        named = WORK / "libelf.so"
        subprocess.run([CC, "-x", "c", "-", "-shared", "-o", named, "-Wl,-soname,libelf.so.1"],
                       input=b"int some(void); int some(void) { return 1; }", check=True)
        self.compile("int some(void); int (*f)(void) = some;", "-Wl,--no-as-needed", "-x",
                     "none", named)
        self.assert_wrong("libadded.so", "needs libelf.so.1")

    def test_code_without_a_notice(self):
        """yajl, in a tree of sources whose docs/licenses does not have it."""
        root = WORK / "root"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(check_licenses.ROOT / "docs/licenses", root / "docs/licenses")
        shutil.copy(check_licenses.ROOT / "LICENSE", root)
        (root / "docs/licenses/yajl.txt").unlink()
        wrong, _ = check_licenses.check(self.copy, "prefix", root)
        self.assertEqual(wrong, ["contains yajl, and docs/licenses has no yajl.txt"])

    def test_debug_symbols(self):
        """Their package has no notices: it needs the one that has them, and has nothing else."""
        folder = WORK / "debug"
        shutil.rmtree(folder, ignore_errors=True)
        place = folder / "usr/lib/debug/.build-id/ab"
        place.mkdir(parents=True)
        for name in ("cd.debug", "ef.debug"):
            os.link(PREFIX / "bin/tenure", place / name)
        (folder / "DEBIAN").mkdir()
        control = folder / "DEBIAN/control"
        control.write_text("Package: tenure-dbgsym\nDepends: tenure (= 1.1.0)\n")
        self.assertEqual(check_licenses.check(folder, "debug")[0], [])
        control.write_text("Package: tenure-dbgsym\n")
        self.assertIn("does not depend on tenure", check_licenses.check(folder, "debug")[0][0])
        control.write_text("Depends: tenure (= 1.1.0)\n")
        (folder / "usr/bin").mkdir()
        os.link(PREFIX / "bin/tenure", folder / "usr/bin/tenure")
        self.assertIn("usr/bin/tenure belongs into", check_licenses.check(folder, "debug")[0][0])

    def test_the_header_of_nvidia(self):
        folder = self.copy / "include/tenure/cuda"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "cuda.h").write_text("/* NVIDIA's */\n")
        self.assert_wrong("cuda.h", "without its licence")
        (folder / "LICENSE").write_text("NVIDIA's\n")
        self.assertEqual(check_licenses.check(self.copy, "prefix")[0], [])
        self.assertIn("no package may have", check_licenses.check(self.copy, "deb")[0][0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
