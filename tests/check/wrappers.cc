/* SPDX-License-Identifier: Apache-2.0 */
/* One error below wrappers of C++, as real programs have them: the lines that matter are some
 * frames away from the driver. */
#include <cuda.h>

#include <functional>
#include <memory>

#define NOINLINE __attribute__((noinline))

namespace
{

CUstream first, second;

} // namespace

struct Raw {
    CUdeviceptr address;
    NOINLINE void release()
    {
        cuMemFreeAsync(address, first);
        asm volatile("");
    }
};

struct Buffer {
    Raw raw;
    NOINLINE ~Buffer()
    {
        raw.release();
        asm volatile("");
    }
};

NOINLINE std::shared_ptr<Buffer> buffer_make(size_t bytes)
{
    auto buffer = std::make_shared<Buffer>();
    cuMemAllocAsync(&buffer->raw.address, bytes, first);
    return buffer;
}

NOINLINE void backend_set(CUdeviceptr address, CUstream stream)
{
    cuMemsetD8Async(address, 0, 64, stream);
    asm volatile("");
}

/* As the names of PyTorch's dispatcher begin: a reader learns nothing of the program from it. */
namespace c10
{

NOINLINE void dispatch(std::function<void()> const &operation)
{
    operation();
    asm volatile("");
}

} // namespace c10

NOINLINE void zero(Buffer &buffer, CUstream stream)
{
    c10::dispatch([&] {
        backend_set(buffer.raw.address, stream);
        asm volatile("");
    });
    asm volatile("");
}

NOINLINE void step()
{
    auto buffer = buffer_make(1 << 20);
    cuStreamSynchronize(first);
    zero(*buffer, second); // the use
    buffer.reset();        // the free
    asm volatile("");
}

int main()
{
    CUcontext context;
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    cuStreamCreate(&first, CU_STREAM_NON_BLOCKING);
    cuStreamCreate(&second, CU_STREAM_NON_BLOCKING);
    step();
    cuCtxSynchronize();
    return 0;
}
