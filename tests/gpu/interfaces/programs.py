# SPDX-License-Identifier: Apache-2.0
"""programs.py NAME MEMORY: a program of another project's, with its own memory or Tenure's; it
prints its results to the last bit, which ../interfaces.sh compares, and on standard error what
Tenure has served.

    numba own|install|environment      Numba's arrays, kernels, streams and pinned arrays
    cuda_core own|tenure               cuda.core's buffers, kernels and streams
    engines own|tenure                 arrays that PyTorch and CuPy hand each other
    dlpack tenure                      arrays of tenure.dlpack that both take, on slow streams,
                                       whose memory is wanted again at once: prints "0 wrong"

Exit codes: 0 it ran; 77 what it is for is not installed, or does not work here by itself.
"""
import ctypes
import importlib
import sys

NAME, MEMORY = sys.argv[1:3]


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def served():
    if MEMORY != "own":
        import tenure
        stats = tenure.stats()
        print(f"{stats['allocation.all.allocated']} allocations, "
              f"{stats['reserved_bytes.all.peak'] >> 20} MiB at most", file=sys.stderr)


def numba_host_memory(cuda, saxpy):
    """Mapped memory stays Numba's; pinned memory was Tenure's."""
    mapped = cuda.mapped_array(1000)
    mapped[:] = 2
    saxpy[4, 256](1.0, mapped, mapped, mapped)
    cuda.synchronize()
    assert (mapped == 4).all()
    if MEMORY != "own":
        import tenure
        stats = tenure.stats(64)  # TNR_HOST(0)
        assert stats["allocation.all.allocated"] >= 120, "pinned arrays are not Tenure's"
        assert stats["allocated_bytes.all.current"] <= stats["reserved_bytes.all.current"]


def numba_program():
    try:
        import numpy
        # NumPy 2.4 dropped names that Numba's releases of before ask for while they are imported.
        for gone, other in (("row_stack", "vstack"), ("in1d", "isin"), ("trapz", "trapezoid")):
            if not hasattr(numpy, gone):
                setattr(numpy, gone, getattr(numpy, other))
        from numba import cuda
    except ImportError as error:
        skip(f"there is no Numba for CUDA: {error}")
    if MEMORY == "install":
        import tenure.numba
        tenure.numba.install()

    @cuda.jit
    def saxpy(factor, x, y, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = factor * x[i] + y[i]

    @cuda.jit
    def product(a, b, out):
        row, column = cuda.grid(2)
        if row < out.shape[0] and column < out.shape[1]:
            total = numpy.float32(0)
            for k in range(a.shape[1]):
                total += a[row, k] * b[k, column]
            out[row, column] = total

    try:  # a compiler that does not know this GPU has nothing to do with memory
        saxpy[1, 1](1.0, *(cuda.to_device(numpy.zeros(1)) for _ in range(3)))
    except Exception as error:  # pylint: disable=broad-except
        if MEMORY != "own":
            raise
        skip(f"Numba does not run here by itself: {error}")
    streams, random = [cuda.stream() for _ in range(3)], numpy.random.default_rng(3)
    for step in range(60):
        stream, count = streams[step % 3], 1000 + step * 7919 % 400000
        # The second array is copied from pinned memory that dies while the copy may run, and comes
        # back to pinned memory.
        pinned = cuda.pinned_array(count)
        pinned[:] = random.random(count)
        x, y = (cuda.to_device(each, stream=stream) for each in (random.random(count), pinned))
        del pinned
        back = cuda.pinned_array(count)
        back[:] = 0
        out = cuda.device_array(count, stream=stream)
        saxpy[(count + 255) // 256, 256, stream](1.5, x, y, out)
        saxpy[(count + 255) // 256, 256, stream](-0.25, out, x, y)
        side = 16 + step % 5 * 50
        a, b = (cuda.to_device(random.random((side, side), dtype=numpy.float32), stream=stream)
                for _ in range(2))
        c = cuda.device_array((side, side), dtype=numpy.float32, stream=stream)
        product[((side + 15) // 16,) * 2, (16, 16), stream](a, b, c)
        results = [one.copy_to_host(stream=stream) for one in (out, y, c)]
        y.copy_to_host(back, stream=stream)
        stream.synchronize()
        assert (back == results[1]).all()
        del x, y, out, a, b, c, back
        print(step, *(float(one.sum()).hex() for one in results))
    numba_host_memory(cuda, saxpy)
    free, total = cuda.current_context().get_memory_info()
    assert 0 < free <= total


KERNEL = """extern "C" __global__ void step(float *to, const float *from, float by, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        to[i] = from ? from[i] * by + i % 7 : i % 1000;
}"""


def cuda_core_program():
    try:
        import numpy
        from cuda.bindings import driver
        try:
            core = importlib.import_module("cuda.core")
            core.MemoryResource
        except (ImportError, AttributeError):
            core = importlib.import_module("cuda.core.experimental")
    except ImportError as error:
        skip(f"there is no cuda.core: {error}")
    device = core.Device()
    device.set_current()
    if MEMORY == "tenure":
        import tenure.cuda_core
        memory = tenure.cuda_core.MemoryResource(device.device_id)
    else:
        memory = device.memory_resource
    arch = "".join(str(part) for part in device.compute_capability)
    try:
        kernel = core.Program(KERNEL, code_type="c++", options=core.ProgramOptions(
            std="c++17", arch=f"sm_{arch}")).compile("cubin").get_kernel("step")
    except Exception as error:  # pylint: disable=broad-except
        skip(f"cuda.core compiles nothing here: {error}")
    streams = [device.create_stream() for _ in range(3)]
    for step in range(60):
        stream, count = streams[step % 3], 1000 + step * 7919 % 400000
        config = core.LaunchConfig(grid=(count + 255) // 256, block=256)
        buffers = [memory.allocate(count * 4, stream=stream) for _ in range(3)]
        for i, buffer in enumerate(buffers):
            core.launch(stream, config, kernel, int(buffer.handle),
                        int(buffers[i - 1].handle) if i else 0, numpy.float32(1.25),
                        numpy.int32(count))
        copy = buffers[2].copy_to(memory.allocate(count * 4, stream=stream), stream=stream)
        for i, buffer in enumerate(buffers):
            if i:
                buffer.close(stream)
        del buffers
        host = numpy.empty(count, numpy.float32)
        stream.sync()
        assert driver.cuMemcpyDtoH(host.ctypes.data, int(copy.handle), count * 4)[0] == 0
        copy.close()
        print(step, float(host.sum(dtype=numpy.float64)).hex())


def both_engines():
    try:
        import cupy
        import torch
    except ImportError as error:
        skip(f"this needs PyTorch and CuPy: {error}")
    return torch, cupy


def engines_program():
    torch, cupy = both_engines()
    if MEMORY == "tenure":
        import tenure.cupy
        import tenure.torch
        tenure.torch.install()
        tenure.cupy.install()
    side = cupy.cuda.Stream(non_blocking=True)
    generator = torch.Generator(device="cuda").manual_seed(5)
    for step in range(60):
        count = 1000 + step * 7919 % 400000
        tensor = torch.randint(0, 1 << 20, (count,), device="cuda", generator=generator)
        with side:
            array = cupy.from_dlpack(tensor)  # waits for PyTorch's stream
            twice = array * 2 + step
        if MEMORY == "tenure":
            tenure.record_use(tensor, side)
        else:
            side.synchronize()
        del tensor, array
        other = torch.zeros(count, dtype=torch.int64, device="cuda")  # the same memory, perhaps
        with torch.cuda.stream(torch.cuda.ExternalStream(side.ptr)):
            back = torch.from_dlpack(twice)
            total = (back % 1000).sum()
        side.synchronize()
        print(step, int(total), int(other.sum()))
        del back, twice


def dlpack_program():
    torch, cupy = both_engines()
    import tenure.dlpack
    own = cupy.cuda.Stream(non_blocking=True)
    takers = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    streams = [torch.cuda.ExternalStream(taker.ptr) for taker in takers]
    wrong = again = 0
    count, sums = 1 << 20, []
    for step in range(200):
        array = tenure.dlpack.empty(count, "int64", stream=own)
        address = array.address
        with own:
            cupy.from_dlpack(array)[:] = step
        with torch.cuda.stream(streams[0]):
            taken = torch.from_dlpack(array)
            torch.cuda._sleep(200000)  # works on it when the memory is wanted again
            sums.append((step, taken.sum()))
        with takers[1]:
            other = cupy.from_dlpack(array)
            with torch.cuda.stream(streams[1]):  # the same stream
                torch.cuda._sleep(200000)
            sums.append((step, other.sum()))
        if step % 3 == 0:
            del array, taken, other
        else:
            del taken, other, array
        with tenure.dlpack.empty(count, "int64", stream=own) as next_array:
            again += next_array.address == address
            with own:
                cupy.from_dlpack(next_array)[:] = -1
        if step % 20 == 19:
            torch.cuda.synchronize()
            wrong += sum(int(total) != value * count for value, total in sums)
            sums.clear()
    print(f"{wrong} wrong")
    print(f"{again} of 200 blocks at once where the one before was; ", end="", file=sys.stderr)
    assert tenure.stats()["allocated_bytes.all.current"] == 0


def main():
    {"numba": numba_program, "cuda_core": cuda_core_program, "engines": engines_program,
     "dlpack": dlpack_program}[NAME]()
    served()


if __name__ == "__main__":
    main()
