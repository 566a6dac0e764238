/* SPDX-License-Identifier: Apache-2.0 */
/* What Python calls, by ctypes: making the class PyTorch's allocator. */
#include "allocator.hpp"

#include <cstdio>

#include <c10/core/Allocator.h>

#define NATIVE extern "C" __attribute__((visibility("default")))

namespace torch::cuda::CUDAPluggableAllocator
{

/* PyTorch's own way to change its allocator; null where only c10 is there. It also
 * makes torch.cuda.memory._get_current_allocator() answer. */
__attribute__((weak)) void changeCurrentAllocator(
    const std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator> &);

} // namespace torch::cuda::CUDAPluggableAllocator

namespace tenure_torch
{

allocator &instance()
{
    static allocator *one = new allocator(); /* blocks may be freed after all destructors */
    return *one;
}

} // namespace tenure_torch

/* Makes Tenure the allocator of torch.cuda and of torch.accelerator. Returns null, or why not, in a
 * buffer that the next call overwrites. Before PyTorch uses CUDA. */
NATIVE const char *tenure_native_install()
{
    using namespace tenure_torch;
    static char text[1024];
    try {
        std::shared_ptr<cca::CUDAAllocator> shared(&instance(), [](cca::CUDAAllocator *) {});
        if (torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator != nullptr)
            torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(shared);
        cca::allocator.store(&instance());
        /* The native allocator has registered itself with 0, and would not come before. */
        c10::SetAllocator(c10::DeviceType::CUDA, &instance(), 1);
        return nullptr;
    } catch (const std::exception &error) {
        std::snprintf(text, sizeof(text), "%s", error.what());
        return text;
    }
}

/* 1 if the class can raise PyTorch's exceptions. Tried in a process of its own: it may crash. */
NATIVE int tenure_native_try()
{
    return tenure_torch::can_raise() ? 1 : 0;
}

/* How many calls have failed; pools that exist: for tests. */
NATIVE unsigned long tenure_native_failures()
{
    return tenure_torch::failures();
}

NATIVE unsigned tenure_native_pools()
{
    return tenure_torch::pools_count();
}
