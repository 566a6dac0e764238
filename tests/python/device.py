# SPDX-License-Identifier: Apache-2.0
"""What the tests share: the simulated device, used as an engine's CUDA runtime would."""
import ctypes
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake"))

MIB = 1 << 20
DRIVER = ctypes.CDLL(os.environ["FAKE_TORCH_DRIVER"])


def use():
    """Makes the primary context current."""
    context = ctypes.c_void_p()
    assert DRIVER.cuInit(0) == 0
    assert DRIVER.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert DRIVER.cuCtxSetCurrent(context) == 0


def fill(address, bytes, stream):
    """Queues a write of the stream's to the memory."""
    assert DRIVER.cuMemsetD8Async(ctypes.c_uint64(address), 1, bytes,
                                  ctypes.c_void_p(stream)) == 0


def run_all():
    """Lets everything that can run do so, also what the driver does in threads of its own."""
    assert DRIVER.cuCtxSynchronize() == 0
    DRIVER.simcuda_run(ctypes.c_uint64(-1))
