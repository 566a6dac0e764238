#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CuPy's streams from elsewhere, with CuPy's own allocator and with Tenure.

    cupy_streams.py [--json FILE] [--rounds N]

Stream.from_external makes an object that ends the handle of another one, which ends it too. Each
shape is played N times in a process of its own, with either allocator. A process that ends by a
signal, or not with what it must print, has failed. Exit codes: 0 no shape fails with Tenure that
does not without; 1 one does; 77 no CuPy, or no GPU.
"""
import argparse
import gc
import json
import signal
import subprocess
import sys


class Foreign:
    """A stream by the protocol of CUDA's Python packages."""

    def __init__(self, ptr):
        self.ptr = ptr

    def __cuda_stream__(self):
        return 0, self.ptr


def untouched(cupy):
    """Nothing runs on it; the object that came first ends first."""
    real = cupy.cuda.Stream()
    stream = cupy.cuda.Stream.from_external(Foreign(real.ptr))
    assert stream.ptr == real.ptr
    del real
    del stream


def used(cupy):
    """Arrays are made on it."""
    real = cupy.cuda.Stream()
    stream = cupy.cuda.Stream.from_external(Foreign(real.ptr))
    with stream:
        x = cupy.arange(10)
        assert cupy.cuda.get_current_stream() == stream
    stream.synchronize()
    assert int(x.sum()) == 45
    del x, real
    del stream


def used_other_first(cupy):
    """The same, and the object from elsewhere ends first."""
    real = cupy.cuda.Stream()
    stream = cupy.cuda.Stream.from_external(Foreign(real.ptr))
    with stream:
        x = cupy.arange(10)
    stream.synchronize()
    del x, stream
    gc.collect()
    del real


def of_cupy(cupy):
    """Made from one of CuPy's own, which it keeps."""
    real = cupy.cuda.Stream()
    stream = cupy.cuda.Stream.from_external(real)
    del real
    del stream


def of_the_runtime(cupy):
    """Of cudaStreamCreate: CuPy ends it, and nobody else."""
    stream = cupy.cuda.Stream.from_external(Foreign(cupy.cuda.runtime.streamCreate()))
    with stream:
        x = cupy.arange(1 << 20)
    stream.synchronize()
    del x, stream


SHAPES = [untouched, used, used_other_first, of_cupy, of_the_runtime]


def play(shape, has_tenure, rounds):
    """In a process of its own. What __del__ raises is CuPy's, and printed by Python."""
    import cupy
    if has_tenure:
        import tenure.cupy
        tenure.cupy.install()
    for _ in range(rounds):
        shape(cupy)
        gc.collect()
        x = cupy.arange(1 << 16)  # the device and the library still serve
        assert int(x[-1]) == (1 << 16) - 1
        del x
    if has_tenure:
        tenure._library.call("tnr_validate", -1)
    print("played to the end", flush=True)


def ends(shape, has_tenure, rounds):
    done = subprocess.run([sys.executable, "-B", __file__, "--play", shape.__name__,
                           "--rounds", str(rounds)] + (["--tenure"] if has_tenure else []),
                          capture_output=True, text=True, check=False, timeout=120)
    if done.returncode == 0 and done.stdout.strip().endswith("played to the end"):
        return "ok"
    if done.returncode < 0:
        return signal.Signals(-done.returncode).name
    lines = done.stderr.strip().splitlines()
    return f"exit {done.returncode}: {lines[-1] if lines else ''}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--play", help=argparse.SUPPRESS)
    parser.add_argument("--tenure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        play({one.__name__: one for one in SHAPES}[options.play], options.tenure, options.rounds)
        return 0
    try:
        import cupy
        cupy.cuda.runtime.getDeviceCount()
    except Exception as problem:  # whatever CuPy finds missing
        print(f"skipped: no CuPy with a GPU: {problem}")
        return 77
    if not hasattr(cupy.cuda.Stream, "from_external"):
        print(f"skipped: CuPy {cupy.__version__} has no Stream.from_external (14.0)")
        return 77
    rows = [{"shape": shape.__name__, "cupy": ends(shape, False, options.rounds),
             "tenure": ends(shape, True, options.rounds)} for shape in SHAPES]
    for row in rows:
        print(f"{row['shape']:20} CuPy's own: {row['cupy']:12} Tenure: {row['tenure']}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"cupy": cupy.__version__, "rounds": options.rounds, "shapes": rows}, file,
                      indent=1)
    return int(any(row["tenure"] != "ok" and row["cupy"] == "ok" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
