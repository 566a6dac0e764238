# SPDX-License-Identifier: Apache-2.0
"""Makes a wheel of a build folder: BUILD/python/tenure_wheel.py, where this file and pyproject.toml
lie beside the module.

    pip install BUILD/python                          through the functions that pip calls
    python3 BUILD/python/tenure_wheel.py [FOLDER]     the wheel alone, into FOLDER (BUILD/wheel)

What the wheel holds is what `cmake --install` would install, below the folder of the module: bin,
lib, include and share, where the command and the module find each other. It is for any Python 3,
and named for the C library that it needs: "manylinux_2_34" if its files were seen to need no newer
one and no library that such a system may lack, else "linux".
"""
from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from typing import Any, Dict, Iterator, List, Optional, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
if HERE not in sys.path:  # pip takes it away again
    sys.path.insert(0, HERE)

import tenure_elf  # noqa: E402

NAME = "tenure"
GLIBC_MAX = (2, 34)
# What every Linux with that C library has, by the rules of manylinux.
EVERYWHERE = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
              "libgcc_s.so.1", "libstdc++.so.6", "libz.so.1", "ld-linux-x86-64.so.2",
              "ld-linux-aarch64.so.1"}
METADATA = """Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: CUDA caching allocator and lifetime tracker, for PyTorch and CuPy
License: Apache-2.0 AND BSD-2-Clause AND ISC AND MIT
{licenses}Requires-Python: >=3.8
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Typing :: Typed

GPU memory of PyTorch and CuPy from Tenure: `tenure.torch.install()`, `tenure.cupy.install()`, and
the command `tenure`. The page for Python users is docs/python.md of the sources.

Tenure is under the Apache License 2.0. The wheel contains jemalloc (BSD-2-Clause, in libtenure.so),
yajl (ISC, in the command) and uPlot (MIT, in the memory report); their notices are in licenses/.
"""
ENTRY_POINTS = ("[console_scripts]\ntenure = tenure._command:main\n"
                "\n[vllm.general_plugins]\ntenure = tenure.vllm:register\n")
# For those who compile programs with CMake: they take the installed tree.
_LEFT_OUT = re.compile(r"(^|/)(cmake|pkgconfig|doc|man)/")
# An installation has its header if the build has fetched it; no package has.
_NVIDIA = os.path.join("include", NAME, "cuda", "")


class Refused(RuntimeError):
    """The wheel cannot be made; the text says why, and what to do."""


def _cache(build: str) -> Dict[str, str]:
    """Values of CMakeCache.txt."""
    path = os.path.join(build, "CMakeCache.txt")
    if not os.path.isfile(path):
        raise Refused(f"{HERE} is not in a build folder of Tenure. Build it first (cmake -S . -B "
                      "build && cmake --build build), then: pip install build/python")
    with open(path, encoding="utf-8") as file:
        return dict(re.findall(r"^(\w+):\w+=(.*)$", file.read(), re.MULTILINE))


def _version() -> str:
    with open(os.path.join(HERE, NAME, "_version.py"), encoding="utf-8") as file:
        found = re.search(r'^VERSION = "([^"]+)"$', file.read(), re.MULTILINE)
    if found is None:
        raise Refused(f"{HERE}/{NAME}/_version.py names no version: build Tenure again")
    return found.group(1)


def _install(build: str, cache: Dict[str, str], prefix: str) -> None:
    """The installed tree."""
    for key in ("CMAKE_INSTALL_LIBDIR", "CMAKE_INSTALL_BINDIR", "CMAKE_INSTALL_INCLUDEDIR",
                "CMAKE_INSTALL_DATADIR", "CMAKE_INSTALL_DOCDIR"):
        if os.path.isabs(cache.get(key, "")):
            raise Refused(f"{build} was configured with {key}={cache[key]}. A wheel is installed "
                          "anywhere: configure again with a folder that is relative")
    if cache.get("TNR_SANITIZE", "OFF") not in ("", "OFF"):
        raise Refused(f"{build} was built with a sanitizer, which Python does not have: use "
                      "another build folder")
    run = subprocess.run([cache.get("CMAKE_COMMAND") or "cmake", "--install", build, "--prefix",
                          prefix, "--strip"], capture_output=True, text=True)
    if run.returncode != 0:
        raise Refused(f"{build} cannot be installed: is it built (cmake --build {build})?\n"
                      + run.stderr.strip())


def _named(name: str) -> str:
    """The name that the loader looks for: libtenure.so.1 of libtenure.so.1.0.0."""
    return re.sub(r"(\.so\.\d+)(\.\d+)+$", r"\1", name)


def _contents(prefix: str, info: str) -> Iterator[Tuple[str, str]]:
    """(file, its name in the wheel)"""
    module = os.path.join("share", NAME, "python", NAME)
    notices = re.compile(r"(^|/)(LICENSE|docs/licenses/[^/]+\.txt)$")
    for folder, _, names in sorted(os.walk(prefix)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            place = os.path.relpath(path, prefix)
            if place.startswith(module + os.sep):
                yield path, os.path.join(NAME, os.path.relpath(place, module))
            elif place.startswith(_NVIDIA):
                continue
            elif notices.search(place):
                yield path, os.path.join(info, "licenses", name)
            elif not os.path.islink(path) and not _LEFT_OUT.search(place):
                yield path, os.path.join(NAME, _named(place))


def _tag(paths: List[str]) -> str:
    """The platform that the files can run on."""
    machine, own = os.uname().machine, {_named(os.path.basename(path)) for path in paths}
    for path in paths:
        with open(path, "rb") as file:
            if file.read(4) != b"\x7fELF":
                continue
        strange = set(tenure_elf.needs(path).libraries) - EVERYWHERE - own
        glibc = tenure_elf.glibc_of(path)
        if glibc > GLIBC_MAX:
            strange.add(f"glibc {'.'.join(map(str, glibc))}")
        if strange:
            print(f"tenure_wheel: for this system and its like alone: {os.path.basename(path)} "
                  f"needs {', '.join(sorted(strange))}", file=sys.stderr)
            return f"linux_{machine}"
    return f"manylinux_{GLIBC_MAX[0]}_{GLIBC_MAX[1]}_{machine}"


class _Wheel:
    """A wheel that is written: files, and the list of them with their checksums."""

    def __init__(self, path: str, info: str) -> None:
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.info, self.record = info, ""

    def add(self, name: str, data: bytes, is_program: bool = False) -> None:
        number = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record += f"{name},sha256={number},{len(data)}\n"
        self._write(name, data, is_program)

    def _write(self, name: str, data: bytes, is_program: bool) -> None:
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same files, the same wheel
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100755 if is_program else 0o100644) << 16
        self.zip.writestr(entry, data)

    def close(self) -> None:
        name = f"{self.info}/RECORD"
        self._write(name, (self.record + f"{name},,\n").encode(), False)
        self.zip.close()


def _write(target: str, files: List[Tuple[str, str]], version: str, info: str) -> str:
    tag = "py3-none-" + _tag([path for path, _ in files])
    name = f"{NAME}-{version}-{tag}.whl"
    wheel = _Wheel(os.path.join(target, name), info)
    for path, place in files:
        with open(path, "rb") as file:
            wheel.add(place, file.read(), os.access(path, os.X_OK))
    licenses = sorted(os.path.basename(place) for _, place in files
                      if place.startswith(f"{info}/licenses/"))
    wheel.add(f"{info}/METADATA", METADATA.format(
        name=NAME, version=version,
        licenses="".join(f"License-File: {one}\n" for one in licenses)).encode())
    wheel.add(f"{info}/WHEEL", ("Wheel-Version: 1.0\nGenerator: tenure_wheel\n"
                                f"Root-Is-Purelib: false\nTag: {tag}\n").encode())
    wheel.add(f"{info}/entry_points.txt", ENTRY_POINTS.encode())
    wheel.close()
    return name


def make(target: str) -> str:
    """Makes the wheel in a folder; returns its name."""
    build = os.path.dirname(HERE)
    cache, version = _cache(build), _version()
    info, prefix = f"{NAME}-{version}.dist-info", tempfile.mkdtemp(prefix="tenure-wheel-")
    try:
        _install(build, cache, prefix)
        os.makedirs(target, exist_ok=True)
        return _write(target, list(_contents(prefix, info)), version, info)
    finally:
        shutil.rmtree(prefix)


# ---- what pip calls ----


def build_wheel(wheel_directory: str, config_settings: Any = None,
                metadata_directory: Optional[str] = None) -> str:
    try:
        return make(wheel_directory)
    except Refused as error:
        sys.exit(f"tenure: {error}")


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    sys.exit("tenure: there is no package of sources: clone the repository, build it, and then: "
             "pip install build/python")


def main() -> int:
    if len(sys.argv) > 2 or sys.argv[1:2] in (["-h"], ["--help"]):
        print(__doc__.strip())
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    target = os.path.abspath(sys.argv[1] if len(sys.argv) == 2 else
                             os.path.join(os.path.dirname(HERE), "wheel"))
    try:
        print(os.path.join(target, make(target)))
        return 0
    except (Refused, OSError) as error:
        print(f"tenure_wheel: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
