#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where a build keeps what it fetches: in the user's cache; in the build's own folder where that
cannot be written to, with one line that says so, and without an error.

Seen to fail: with the folder of the user's cache whether it takes files or not.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

DOWNLOAD = pathlib.Path(__file__).resolve().parents[2] / "tools/cmake/TenureDownload.cmake"


def folder_of(build, **environment):
    """(the folder, all that was said, the exit code)."""
    script = build / "where.cmake"
    script.write_text(f'set(PROJECT_BINARY_DIR "{build}")\ninclude("{DOWNLOAD}")\n'
                      'message(STATUS "folder=${TNR_DOWNLOAD_DIR}")\n', "utf-8")
    base = {name: value for name, value in os.environ.items()
            if name not in ("HOME", "XDG_CACHE_HOME")}
    done = subprocess.run(["cmake", "-P", script], env={**base, **environment}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    found = [line.split("=", 1)[1] for line in done.stdout.splitlines() if "folder=" in line]
    return found[0] if found else None, done.stdout, done.returncode


def main():
    wrong = []
    with tempfile.TemporaryDirectory() as name:
        build = pathlib.Path(name) / "build"
        build.mkdir()
        home = pathlib.Path(name) / "home"
        for environment, folder, says in (
                ({"HOME": str(home)}, home / ".cache/tenure", False),
                ({"HOME": "/proc", "XDG_CACHE_HOME": str(home)}, home / "tenure", False),
                ({}, build / "cache/tenure", False),
                ({"HOME": "/proc"}, build / "cache", True)):  # even root makes no folder there
            found, said, code = folder_of(build, **environment)
            if found != str(folder) or not folder.is_dir() or list(folder.glob("*.partial")):
                wrong.append(f"{environment}: {found}, expected {folder}")
            if code != 0 or says != ("/proc/.cache/tenure cannot be written to" in said):
                wrong.append(f"{environment}: exit code {code}, said: {said}")
    print("\n".join(wrong) or "each folder is where it belongs")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
