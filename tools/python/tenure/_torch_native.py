# SPDX-License-Identifier: Apache-2.0
"""The folder ``native``: compiling it against the installed PyTorch, and finding it again.

The result lies in ``$XDG_CACHE_HOME/tenure`` (``~/.cache/tenure``), or in ``TENURE_CACHE``. Its
name holds PyTorch's version, its C++ ABI, and a number made of all that is compiled. When one of
these changes, it is built again.
"""
from __future__ import annotations

import ctypes
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import List, Optional

import torch

from . import _library
from ._library import Error

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "native")
_LAYERS = ("alloc", "lifetime", "capture")
# c10's own function that throws RuntimeError: (function, file, line, text).
_CHECK_FAIL = "_ZN3c106detail14torchCheckFailEPKcS2_jS2_"


def _root() -> str:
    return os.path.dirname(os.path.abspath(torch.__file__))


def _abi() -> int:
    return int(torch.compiled_with_cxx11_abi())


def _sources() -> List[str]:
    return sorted(glob.glob(os.path.join(glob.escape(FOLDER), "*.cpp")))


def _tenure_includes() -> List[str]:
    """Where <tenure/...> is: beside this file, in an installed prefix, or in the source tree."""
    here = os.path.dirname(FOLDER)
    found = [os.path.join(here, "include")]
    root = here
    for _ in range(5):
        root = os.path.dirname(root)
        found.append(os.path.join(root, "include"))
    for folder in found:
        if os.path.isfile(os.path.join(folder, "tenure", "tenure.h")):
            return [folder]
    root = os.path.dirname(os.path.dirname(os.path.dirname(here)))
    layers = [os.path.join(root, layer, "include") for layer in _LAYERS]
    if all(os.path.isdir(os.path.join(layer, "tenure")) for layer in layers):
        return layers
    raise Error(f"Tenure's headers (include/tenure) are not above {here}: build and install all of "
                "Tenure, or use the Python module of a build directory.")


def _compiled() -> List[str]:
    """All files of Tenure's that go into the result."""
    headers = [file for folder in _tenure_includes()
               for file in glob.glob(os.path.join(glob.escape(folder), "tenure", "*.h"))]
    own = [file for pattern in ("*.hpp", os.path.join("host", "crt", "*.h"))
           for file in sorted(glob.glob(os.path.join(glob.escape(FOLDER), pattern)))]
    return _sources() + own + sorted(headers)


def path() -> str:
    """Where the compiled class for this PyTorch is, or would be."""
    cache = os.environ.get("TENURE_CACHE")
    if not cache:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        cache = os.path.join(home, "tenure")
    number = hashlib.sha256()
    for name in _compiled():
        with open(name, "rb") as file:
            number.update(file.read())
    version = re.sub(r"[^\w.+-]", "_", torch.__version__)
    name = f"libtenure_torch-{version}-abi{_abi()}-{number.hexdigest()[:12]}.so"
    return os.path.join(cache, name)


def load() -> Optional[ctypes.CDLL]:
    """The compiled class; None if it has not been built. Raises Error if it cannot be used."""
    built = path()
    if not os.path.isfile(built):
        return None
    _library.library()  # its libtenure.so is the one that is loaded already
    try:
        library = ctypes.CDLL(built)
        library.tenure_native_install.restype = ctypes.c_char_p
        library.tenure_native_wait.restype = ctypes.c_char_p
        library.tenure_native_wait.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
        library.tenure_native_failures.restype = ctypes.c_ulong
    except (OSError, AttributeError) as error:
        raise Error(f"{built} cannot be loaded ({error}). Remove it; `python3 -m tenure.torch "
                    "build` makes it again.") from None
    return library


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
    raise Error("no C++ compiler was found: install one (Debian, Ubuntu: g++) or set CXX. Until "
                "then PyTorch's pluggable interface serves, and what it cannot do is refused.")


def _cuda_include() -> str:
    """Where cuda_runtime_api.h is: PyTorch's wheels bring it along."""
    packages = glob.escape(os.path.dirname(_root()))
    candidates = sorted(glob.glob(os.path.join(packages, "nvidia", "cu*", "include")), reverse=True)
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            candidates.append(os.path.join(os.environ[name], "include"))
    candidates.append("/usr/local/cuda/include")
    for folder in candidates:
        if os.path.isfile(os.path.join(folder, "cuda_runtime_api.h")):
            return folder
    raise Error("cuda_runtime_api.h was not found beside PyTorch, in $CUDA_HOME or in "
                "/usr/local/cuda. Install PyTorch from its wheels, which bring it along "
                "(nvidia-cuda-runtime), or set CUDA_HOME.")


def _command(compiler: str, output: str) -> List[str]:
    include = os.path.join(_root(), "include")
    if not os.path.isfile(os.path.join(include, "c10", "cuda", "CUDACachingAllocator.h")):
        raise Error(f"PyTorch {torch.__version__} in {_root()} came without its C++ headers "
                    "(include/c10/cuda). Install it from its wheels for CUDA, which have them.")
    libraries = os.path.join(_root(), "lib")
    ours = _library.path()
    command = [compiler, "-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden",
               f"-D_GLIBCXX_USE_CXX11_ABI={_abi()}", "-isystem", include, "-isystem",
               _cuda_include()]
    # What CUDA's headers need from a folder that PyTorch's wheels leave out. The real folder comes
    # first.
    command += ["-idirafter", os.path.join(FOLDER, "host")]
    command += ["-I" + folder for folder in _tenure_includes()] + _sources()
    # Functions of the C++ library's headers are this file's own, whatever else exports them:
    # another compiler's may not fit.
    command += ["-L" + libraries, "-Wl,-rpath," + libraries, "-Wl,-z,now",
                "-Wl,-Bsymbolic-functions", "-Wl,--no-as-needed", "-lc10", "-lc10_cuda"]
    if os.path.isfile(os.path.join(libraries, "libtorch_cuda.so")):
        # What it needs itself is found when it runs.
        command += ["-ltorch_cuda", "-Wl,--allow-shlib-undefined"]
    command += [ours if os.path.isabs(ours) else "-l:" + ours, "-o", output]
    return command


def is_built() -> bool:
    """Whether the class for this PyTorch is there."""
    return os.path.isfile(path())


def why_not() -> Optional[str]:
    """Why it cannot be built here, in a sentence; None if it can."""
    try:
        _command(_compiler(), "")
    except Error as error:
        return str(error)
    return None


# This loads the class and makes it raise an exception. 0: it did, or it cannot be loaded; load()
# explains the latter better.
_TRIAL = """
import ctypes, sys
import torch
from tenure import _library
_library.library()
try:
    native = ctypes.CDLL(sys.argv[1])
except OSError:
    sys.exit(0)
sys.exit(0 if native.tenure_native_try() == 1 else 3)
"""


def _try(output: str) -> None:
    """Raises Error if the class that was compiled cannot raise PyTorch's exceptions."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    run = subprocess.run([sys.executable, "-c", _TRIAL, output], env=environment,
                         capture_output=True, text=True)
    if run.returncode < 0 or run.returncode == 3:
        raise Error(f"what {_compiler()} makes of {FOLDER} cannot raise PyTorch's exceptions (the "
                    f"trial ended with {run.returncode}). Set CXX to a compiler that is more like "
                    "the one PyTorch was built with.")


def build(is_told: bool = False) -> str:
    """Compiles the class unless that has been done; returns its path. With ``is_told``, a line on
    standard error says that it takes a moment."""
    built = path()
    if os.path.isfile(built):
        return built
    command = _command(_compiler(), "")[:-1]
    if is_told:
        print(f"tenure: compiling its allocator for PyTorch {torch.__version__}, once",
              file=sys.stderr, flush=True)
    try:
        os.makedirs(os.path.dirname(built), exist_ok=True)
        with tempfile.TemporaryDirectory(dir=os.path.dirname(built)) as folder:
            output = os.path.join(folder, "native.so")
            run = subprocess.run(command + [output], capture_output=True, text=True)
            if run.returncode != 0:
                raise Error(f"{command[0]} could not compile {FOLDER} against PyTorch "
                            f"{torch.__version__}:\n{run.stderr.strip()}")
            _try(output)
            os.replace(output, built)  # at once: others may be doing the same
    except OSError as error:
        raise Error(f"{os.path.dirname(built)} cannot be written to ({error}): set TENURE_CACHE to "
                    "another folder.") from None
    return built
