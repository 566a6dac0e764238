# SPDX-License-Identifier: Apache-2.0
"""python -m tenure: which parts Tenure has, and which of them work here."""
from __future__ import annotations

import importlib.util
import sys

import tenure

_ENGINES = (("torch", "torch", "PyTorch"), ("cupy", "cupy", "CuPy"), ("numba", "numba", "Numba"),
            ("cuda_core", "cuda.core", "cuda.core"))


def _is_there(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ImportError:
        return False


def main() -> int:
    print(f"tenure {tenure.__version__}, a CUDA caching allocator and lifetime tracker\n")
    for module, package, name in _ENGINES:
        here = "installed here" if _is_there(package) else "not installed here"
        print(f"  {'tenure.' + module + '.install()':28} memory of {name} ({here})"
              if module != "cuda_core" else
              f"  {'tenure.cuda_core':28} a memory resource of {name} ({here})")
    print("""
  python -m tenure.torch run PROGRAM ...     a PyTorch program that knows nothing of Tenure
  python -m tenure.torch status              how Tenure would serve the PyTorch of this Python
  python -m pydoc tenure                     the manual
  tenure --help                              the command: doctor, run, snapshot, top and others""")
    return 0


if __name__ == "__main__":
    sys.exit(main())
