/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's native caching allocator behind C functions, for `tenure bench --torch`.
 *
 * A thin layer over c10::cuda::CUDACachingAllocator: no Python, no tensors, no dispatcher, so that
 * what is timed is the allocator alone. Built on the machine with the GPU, against the PyTorch
 * that is installed there, by tests/gpu/build_torch_plugin.sh. Exceptions end here: a failed call
 * returns null or -1 and leaves its text for tnr_bench_torch_error().
 *
 * The build defines TNR_TORCH_VERSION, the version of the PyTorch that it was compiled against.
 */
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <exception>

#ifndef TNR_TORCH_VERSION
#define TNR_TORCH_VERSION "unknown"
#endif

#define TNR_BENCH_API extern "C" __attribute__((visibility("default")))

namespace
{

/* The calling thread's latest error. */
thread_local char error_text[512];

void error_set(const char *text)
{
    std::snprintf(error_text, sizeof(error_text), "%s", text);
}

/* Runs `body`, turning an exception into the error text. Returns whether it ended well. */
template <typename Body> bool guarded(Body body)
{
    try {
        body();
        return true;
    } catch (const std::exception &problem) {
        error_set(problem.what());
    } catch (...) {
        error_set("an exception of an unknown type");
    }
    return false;
}

} // namespace

/* Starts the allocator for all devices, as PyTorch itself does, and makes `device` current in the
 * calling thread. */
TNR_BENCH_API int tnr_bench_torch_init(int device)
{
    bool ok = guarded([device] {
        int count = static_cast<int>(c10::cuda::device_count());
        c10::cuda::CUDACachingAllocator::init(count);
        c10::cuda::set_device(static_cast<c10::DeviceIndex>(device));
    });
    return ok ? 0 : -1;
}

/* To be called once in every thread that allocates: the allocator works on the current device. */
TNR_BENCH_API void tnr_bench_torch_thread(int device)
{
    guarded([device] { c10::cuda::set_device(static_cast<c10::DeviceIndex>(device)); });
}

/* The device is the thread's current one; the parameter is there so that callers see that it is
 * not chosen per call. */
TNR_BENCH_API void *tnr_bench_torch_alloc(std::size_t bytes, int device, void *stream)
{
    (void)device;
    void *ptr = nullptr;
    guarded([&] {
        ptr = c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(
            bytes, static_cast<cudaStream_t>(stream));
    });
    return ptr;
}

TNR_BENCH_API int tnr_bench_torch_free(void *ptr)
{
    return guarded([ptr] { c10::cuda::CUDACachingAllocator::raw_delete(ptr); }) ? 0 : -1;
}

/* tnr_bench_torch_use allocates on this stream from now on, in the calling thread. */
TNR_BENCH_API void tnr_bench_torch_enter(int device, void *own)
{
    guarded([&] {
        c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromExternal(
            static_cast<cudaStream_t>(own), static_cast<c10::DeviceIndex>(device)));
    });
}

/* Allocates, records the use by another stream, and frees. A DataPtr is needed for it: the
 * allocator ignores pointers that it has not made that way. */
TNR_BENCH_API int tnr_bench_torch_use(std::size_t bytes, void *stream)
{
    bool ok = guarded([&] {
        auto *allocator = c10::cuda::CUDACachingAllocator::get();
        c10::DataPtr data = allocator->allocate(bytes);
        allocator->recordStream(data, c10::cuda::getStreamFromExternal(
                                          static_cast<cudaStream_t>(stream),
                                          c10::cuda::current_device()));
    });
    return ok ? 0 : -1;
}

/* The same with uses by several streams. */
TNR_BENCH_API int tnr_bench_torch_uses(std::size_t bytes, void *const *streams, int count)
{
    bool ok = guarded([&] {
        auto *allocator = c10::cuda::CUDACachingAllocator::get();
        c10::DataPtr data = allocator->allocate(bytes);
        for (int i = 0; i < count; i++)
            allocator->recordStream(data, c10::cuda::getStreamFromExternal(
                                              static_cast<cudaStream_t>(streams[i]),
                                              c10::cuda::current_device()));
    });
    return ok ? 0 : -1;
}

/* Gives everything that is cached back to the driver. */
TNR_BENCH_API void tnr_bench_torch_trim(void)
{
    guarded([] { c10::cuda::CUDACachingAllocator::emptyCache(); });
}

TNR_BENCH_API const char *tnr_bench_torch_error(void)
{
    return error_text;
}

TNR_BENCH_API const char *tnr_bench_torch_version(void)
{
    return "PyTorch " TNR_TORCH_VERSION;
}
