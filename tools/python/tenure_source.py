# SPDX-License-Identifier: Apache-2.0
"""`pip install .` in a checkout: builds Tenure with CMake, then makes the wheel of the build.

    pip install .                                        builds in build/pip
    TENURE_PIP_BUILD=DIR pip install .                   builds in DIR, or uses what is built there
"""
from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from typing import Any, Dict, List, Optional

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _run(command: List[str]) -> None:
    """Runs it. If it fails, the error is what it printed last, and what to do."""
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        print(done.stdout[-4000:], file=sys.stderr)
        raise SystemExit(f"tenure: this failed: {' '.join(command)}\nWhat building needs is "
                         "installed by ./tools/setup (Debian, Ubuntu); docs/install.md has the "
                         "rest.")


def _built() -> Any:
    """The backend of a build folder that is built."""
    if shutil.which("cmake") is None:
        raise SystemExit("tenure: CMake is missing. ./tools/setup installs what building needs "
                         "(Debian, Ubuntu).")
    build = os.path.abspath(os.environ.get("TENURE_PIP_BUILD")
                            or os.path.join(ROOT, "build", "pip"))
    if not os.path.isfile(os.path.join(build, "CMakeCache.txt")):
        _run(["cmake", "-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Release",
              "-DTNR_BUILD_TESTS=OFF"])
    _run(["cmake", "--build", build, "--parallel", str(os.cpu_count() or 1)])
    # By its place: pip 24 and newer find every module by its name beside this one first.
    path = os.path.join(build, "python", "tenure_wheel.py")
    spec = importlib.util.spec_from_file_location("tenure_wheel", path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise SystemExit(f"tenure: {path} is missing: is this a build folder of this version?")
    backend = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(backend)
    return backend


def build_wheel(wheel_directory: str, config_settings: Optional[Dict[str, Any]] = None,
                metadata_directory: Optional[str] = None) -> str:
    return _built().build_wheel(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: Optional[Dict[str, Any]] = None) -> str:
    raise SystemExit("tenure: there is no source archive of the module alone; use a checkout.")
