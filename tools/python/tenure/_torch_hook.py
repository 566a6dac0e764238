# SPDX-License-Identifier: Apache-2.0
"""begin_hook.cpp: compiling it against the installed PyTorch, and finding it again.

The result lies in ``$XDG_CACHE_HOME/tenure`` (``~/.cache/tenure``), or in ``TENURE_CACHE``, under a
name that holds PyTorch's version, its C++ ABI, and a number made of the source: it is built again
when one of them changes.
"""
from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from typing import List, Optional

import torch

from ._library import Error

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "begin_hook.cpp")
# c10's own function that throws RuntimeError: (function, file, line, text).
_CHECK_FAIL = "_ZN3c106detail14torchCheckFailEPKcS2_jS2_"


def _root() -> str:
    return os.path.dirname(os.path.abspath(torch.__file__))


def _abi() -> int:
    return int(torch.compiled_with_cxx11_abi())


def path() -> str:
    """Where the compiled hook for this PyTorch is, or would be."""
    cache = os.environ.get("TENURE_CACHE")
    if not cache:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        cache = os.path.join(home, "tenure")
    with open(SOURCE, "rb") as file:
        number = hashlib.sha256(file.read()).hexdigest()[:12]
    version = re.sub(r"[^\w.+-]", "_", torch.__version__)
    return os.path.join(cache, f"torch-{version}-abi{_abi()}-{number}.so")


def load() -> Optional[ctypes.CDLL]:
    """The compiled hook; None if it has not been built."""
    built = path()
    return ctypes.CDLL(built) if os.path.isfile(built) else None


def thrower() -> Optional[int]:
    """The address of a function of PyTorch's own that throws RuntimeError; None if it has none."""
    try:
        c10 = ctypes.CDLL(os.path.join(_root(), "lib", "libc10.so"))
        return ctypes.cast(getattr(c10, _CHECK_FAIL), ctypes.c_void_p).value
    except (OSError, AttributeError):
        return None


def _compiler() -> str:
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        found = name and shutil.which(name)
        if found:
            return found
    raise Error("no C++ compiler was found: install one (Debian, Ubuntu: g++) or set CXX. Tenure "
                "works without this step; see the top of tenure/torch.py for what is missing then.")


def _command(compiler: str, output: str) -> List[str]:
    include = os.path.join(_root(), "include")
    if not os.path.isfile(os.path.join(include, "c10", "util", "Exception.h")):
        raise Error(f"PyTorch {torch.__version__} in {_root()} came without its C++ headers "
                    "(include/c10). Install it from its wheels, which have them.")
    libraries = os.path.join(_root(), "lib")
    return [compiler, "-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden",
            f"-D_GLIBCXX_USE_CXX11_ABI={_abi()}", "-isystem", include, SOURCE,
            "-L" + libraries, "-Wl,-rpath," + libraries, "-lc10", "-o", output]


def build() -> str:
    """Compiles the hook unless that has been done; returns its path."""
    built = path()
    if os.path.isfile(built):
        return built
    compiler = _compiler()
    os.makedirs(os.path.dirname(built), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(built)) as folder:
        output = os.path.join(folder, "hook.so")
        run = subprocess.run(_command(compiler, output), capture_output=True, text=True)
        if run.returncode != 0:
            raise Error(f"{compiler} could not compile {SOURCE} against PyTorch "
                        f"{torch.__version__}:\n{run.stderr.strip()}")
        os.replace(output, built)  # at once: others may be doing the same
    return built
