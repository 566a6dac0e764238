# SPDX-License-Identifier: Apache-2.0
"""cupy_zoo.py NAME wrong|right: one error of lifetime in CuPy, or its corrected twin. As
torch_zoo.py, which says what is printed and why.

CuPy has no record_stream. Twins wait by an event before the array goes, or record the use with
Tenure.
"""
import json
import sys

COUNT = 1 << 20  # float32: 4 MiB
BYTES = 4 * COUNT
FILL = r"""
extern "C" __global__ void fill(float *x, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        x[i] = 1;
}
"""
animals = {}


def animal(*kinds):
    def note(function):
        animals[function.__name__] = kinds
        return function
    return note


class Machine:
    def __init__(self, cupy):
        self.cupy = cupy
        self.main = cupy.cuda.Stream.null
        self.side = cupy.cuda.Stream(non_blocking=True)

    def empty(self):
        return self.cupy.empty(COUNT, dtype="f4")

    def waits(self, stream, other):
        """The stream waits for all that the other was given."""
        stream.wait_event(other.record())


def record_use(array, stream):
    import tenure

    tenure.record_use(array.data.ptr, stream)


@animal("free_in_use")
def set_on_side(m, wrong):
    x = m.empty()
    m.waits(m.side, m.main)
    x.data.memset_async(0, BYTES, m.side)
    if not wrong:
        record_use(x, m.side)
    del x
    return m.side


@animal("free_in_use")
def kernel(m, wrong):
    fill = m.cupy.RawKernel(FILL, "fill")
    x = m.empty()
    m.waits(m.side, m.main)
    with m.side:
        fill((COUNT // 256,), (256,), (x, m.cupy.int32(COUNT)))
    if not wrong:
        m.waits(m.main, m.side)
    del x
    return m.side


@animal("free_in_use")
def prefetch(m, wrong):
    """Made on the side stream, used on the default one."""
    out = m.empty()
    with m.side:
        batch = m.empty()
    batch.data.memset_async(0, BYTES, m.side)
    m.waits(m.main, m.side)
    out.data.copy_from_device_async(batch.data, BYTES, m.main)
    if not wrong:
        record_use(batch, m.main)
    del batch
    return m.main


@animal("free_in_use")
def early_event(m, wrong):
    x = m.empty()
    m.waits(m.side, m.main)
    x.data.memset_async(0, BYTES, m.side)
    if wrong:
        over = m.side.record()
    x.data.memset_async(1, BYTES, m.side)
    if not wrong:
        over = m.side.record()
    m.main.wait_event(over)
    del x
    return m.side


@animal("use_after_free")
def stale_pointer(m, wrong):
    x = m.empty()
    memory = m.cupy.cuda.UnownedMemory(x.data.ptr, BYTES, None)
    view = m.cupy.cuda.MemoryPointer(memory, 0)
    if wrong:
        del x
    view.memset_async(0, BYTES, m.main)
    return m.main


@animal("use_after_free")
def graph_input(m, wrong):
    x, out = m.empty(), m.empty()
    m.waits(m.side, m.main)
    m.side.begin_capture()
    out.data.copy_from_device_async(x.data, BYTES, m.side)
    graph = m.side.end_capture()
    graph.launch(m.side)
    m.waits(m.main, m.side)
    if wrong:
        del x
    graph.launch(m.side)
    m.side.synchronize()
    return m.side


@animal("use_before_allocation")
def before_allocation(m, wrong):
    x = m.empty()
    if not wrong:
        m.waits(m.side, m.main)
    x.data.memset_async(0, BYTES, m.side)
    record_use(x, m.side)
    del x
    return m.side


def main():
    name, how = sys.argv[1:]
    import cupy

    m = Machine(cupy)
    stream = globals()[name](m, how == "wrong")
    cupy.cuda.Device().synchronize()
    tenure_cupy = sys.modules.get("tenure.cupy")
    print(json.dumps({"handle": stream.ptr, "engine": "cupy " + cupy.__version__,
                      "served": "cupy" if tenure_cupy and tenure_cupy.is_installed() else None}))


if __name__ == "__main__":
    main()
