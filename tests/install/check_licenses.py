#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_licenses.py FOLDER [--kind prefix|deb|wheel|debug]: that an unpacked package has the
notices of everything that is in it, and that nothing in it is under the GPL or the LGPL.

Each program, library, archive and page is looked through for the names that code of others defines
(nm, where there are symbols) and for texts that only such code has, which stay when it is stripped.
Notices are compared with docs/licenses and LICENSE of the sources, byte by byte.
test_licenses.py sees each rule fail.

Exit codes: 0 all is well; 1 a line for each thing that is wrong.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools" / "python"))
sys.dont_write_bytecode = True
import tenure_elf  # noqa: E402

# Code that may be inside: its notice in docs/licenses, names that it defines, texts in it.
ALLOWED = {
    "jemalloc": (rb"^(tnri_)?je_", [b"<jemalloc>"]),
    "yajl": (rb"^yajl_", [b"unallowed token at this point in JSON text"]),
    "uplot": (None, [b"u-legend"]),
}
# Code that may not: the names that it defines, texts in it, and its libraries, which nothing may
# need in order to start.
FORBIDDEN = {
    "elfutils": (rb"^(dwarf_|dwfl_|dwelf_|elf_|elf32_|elf64_|gelf_|__libdw|__libelf)",
                 [b"ELF version not set", b"cannot manipulate null section",
                  b".debug_line_str section missing", b"invalid `Elf' handle"],
                 r"lib(dw|elf)\.so"),
    "liblzma": (rb"^lzma_", [b"\xfd7zXZ\0", b"The sum of lc and lp must not exceed 4"],
                r"liblzma\.so"),
    "libbz2": (rb"^BZ2_", [b"bzip2/libbzip2: internal error", b"too repetitive; using fallback"],
               r"libbz2\.so"),
    "libzstd": (rb"^(ZSTD|HUF|FSE)_", [b"Unspecified error code"], r"libzstd\.so"),
    "zlib": (rb"^(deflateInit|inflateInit)", [b"Jean-loup Gailly", b"Mark Adler"], None),
    "libbfd": (rb"^bfd_", [b"BFD %s internal error"], r"libbfd"),
    "readline": (rb"^rl_(readline|initialize)", [], r"libreadline\.so"),
}
NOTICES = {"prefix": "share/doc/tenure", "deb": "share/doc/tenure", "wheel": "*.dist-info/licenses",
           "debug": None}


def is_binary(data):
    return data[:4] == b"\x7fELF" or data[:8] == b"!<arch>\n"


def defined(path):
    """Names that the file defines, in its own table or for the loader."""
    names = set()
    if shutil.which("nm"):
        for options in ([], ["-D"]):
            shown = subprocess.run(["nm", "--defined-only", "--format=posix", *options, str(path)],
                                   capture_output=True, check=False).stdout
            names.update(line.split(b" ")[0].split(b"@")[0] for line in shown.splitlines())
    return names


def contains(data, names, pattern, texts):
    """What shows that the code is inside, or None."""
    found = next((name for name in sorted(names) if pattern and re.match(pattern, name)), None)
    found = found or next((text for text in texts if text in data), None)
    return found and found.decode("latin-1")


def check_binary(path, data):
    """Yields what is wrong, and ("holds", NAME) for allowed code."""
    names = defined(path)
    for name, (pattern, texts, library) in FORBIDDEN.items():
        found = contains(data, names, pattern, texts)
        if found:
            yield f"contains {name} ({found!r}), which docs/licenses does not allow"
        needed = tenure_elf.needs(str(path)).libraries if library and data[:4] == b"\x7fELF" else []
        for one in needed:
            if re.match(library, one):
                yield f"needs {one} in order to start"
    for name, (pattern, texts) in ALLOWED.items():
        if contains(data, names, pattern, texts):
            yield ("holds", name)


def check_page(place, data, root):
    """The report: the notice goes wherever the page goes."""
    if any(text in data for text in ALLOWED["uplot"][1]):
        yield ("holds", "uplot")
        if (root / "docs/licenses/uplot.txt").read_bytes().strip() not in data:
            yield f"{place}: contains uPlot without its notice"


def check_copyright(text):
    """Debian's machine-readable form: what the format asks for, and that each licence is there."""
    paragraphs = [dict(re.findall(r"^([A-Z][\w-]*): ?((?:.*)(?:\n .*)*)", part, re.MULTILINE))
                  for part in re.split(r"\n\n+", text.strip())]
    if not paragraphs[0].get("Format", "").startswith("https://www.debian.org/doc/packaging-manuals"
                                                      "/copyright-format/1.0"):
        yield "copyright: does not begin with its format"
    files = [part for part in paragraphs if "Files" in part]
    texts = {part["License"].split("\n")[0] for part in paragraphs
             if "Files" not in part and "\n" in part.get("License", "")}
    if not any(part["Files"].strip() == "*" for part in files):
        yield "copyright: says nothing of `Files: *`"
    for part in files:
        if "Copyright" not in part or "License" not in part:
            yield f"copyright: no owner or no licence for {part['Files']}"
        for name in re.split(r" and ", part.get("License", "").split("\n")[0]):
            if name not in texts:
                yield f"copyright: no text of {name}"


def check_debug(folder):
    """Debug symbols alone, unpacked with `dpkg-deb -R`: the package they need has the notices."""
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder).parts
        if path.is_file() and place[0] != "DEBIAN" and place[:3] != ("usr", "lib", "debug"):
            yield f"{'/'.join(place)} belongs into the package itself"
    control = (folder / "DEBIAN/control").read_text()
    if not re.search(r"^Depends: tenure \(= [^)]+\)$", control, re.MULTILINE):
        yield "it does not depend on tenure of the same version, which has the notices"


def check_notices(folder, kind, root, held):
    if kind == "debug":
        yield from check_debug(folder)
        return
    places = list(folder.glob(NOTICES[kind]))
    if len(places) != 1:
        yield f"no folder {NOTICES[kind]}"
        return
    place = places[0]
    texts = place if kind == "wheel" else place / "docs" / "licenses"
    wanted = {place / "LICENSE": root / "LICENSE"}
    for source in sorted((root / "docs/licenses").glob("*.txt")):
        wanted[texts / source.name] = source
    for path, source in wanted.items():
        if not path.is_file():
            yield f"{path.relative_to(folder)} is missing"
        elif path.read_bytes() != source.read_bytes():
            yield f"{path.relative_to(folder)} is not {source.relative_to(root)}"
    for name in sorted(held):
        if texts / f"{name}.txt" not in wanted:
            yield f"contains {name}, and docs/licenses has no {name}.txt"
    if kind == "wheel":
        metadata = (place.parent / "METADATA").read_text()
        listed = set(re.findall(r"^License-File: (.*)$", metadata, re.MULTILINE))
        there = {path.name for path in place.iterdir()}
        if listed != there:
            yield f"METADATA lists {sorted(listed)} and the wheel has {sorted(there)}"
    elif not (place / "copyright").is_file():
        yield f"{NOTICES[kind]}/copyright is missing"
    else:
        text = (place / "copyright").read_text()
        yield from check_copyright(text)
        for name in sorted(held):
            if not re.search(rf"^Comment: .* contains? {name}\b", text, re.M | re.I):
                yield f"copyright: does not name {name}"


def check(folder, kind, root=ROOT, known={}):
    """A list of what is wrong. `known` has what each file is that a call looked through."""
    wrong, held, seen = [], set(), 0
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        place, data, found = path.relative_to(folder), path.read_bytes(), []
        if is_binary(data):
            seen += 1
            # One that was looked through already, as in the copies that the test makes by links.
            status = path.stat()
            identity = status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size
            if identity not in known:
                known[identity] = list(check_binary(path, data))
            found = [one if isinstance(one, tuple) else f"{place}: {one}"
                     for one in known[identity]]
        elif path.suffix == ".html":
            found = check_page(place, data, root)
        elif path.name == "cuda.h" and kind != "prefix":
            found = [f"{place}: NVIDIA's header, which no package may have"]
        elif path.name == "cuda.h" and not (path.parent / "LICENSE").is_file():
            found = [f"{place}: NVIDIA's header without its licence"]
        for one in found:
            if isinstance(one, tuple):
                held.add(one[1])
            else:
                wrong.append(one)
    if seen < (2 if kind == "debug" else 5):
        wrong.append(f"only {seen} programs and libraries: is this the package?")
    return wrong + list(check_notices(folder, kind, root, held)), held


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--kind", choices=sorted(NOTICES), default="prefix")
    arguments = parser.parse_args()
    wrong, held = check(arguments.folder, arguments.kind)
    for one in wrong:
        print(f"{arguments.folder.name}: {one}")
    print(f"{arguments.kind}: contains {', '.join(sorted(held)) or 'no code of others'}; "
          f"{len(wrong)} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
