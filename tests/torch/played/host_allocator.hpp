/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's interface of pinned memory, played: of 2.11; with PLAYED_OLDER as it was before graphs
 * had pinned memory of their own; with PLAYED_NONE there is none. */
#ifndef TENURE_TESTS_TORCH_PLAYED_HOST_H
#define TENURE_TESTS_TORCH_PLAYED_HOST_H

#include "cuda_allocator.hpp"

#define PLAYED_EXPORT __attribute__((visibility("default")))

namespace at
{

struct HostStats {
#ifdef PLAYED_OLDER
    c10::CachingAllocator::Stat allocation, segment, allocated_bytes, reserved_bytes;
#else
    c10::CachingAllocator::Stat active_requests, active_bytes, allocations, allocated_bytes;
#endif
    int64_t num_host_alloc = 0, num_host_free = 0;
};

#ifndef PLAYED_NONE
struct PLAYED_EXPORT HostAllocator : public c10::Allocator {
    virtual bool record_event(void *ptr, void *context, c10::Stream stream) = 0;
    virtual void empty_cache() = 0;
    virtual HostStats get_stats() = 0;
    virtual void reset_accumulated_stats() = 0;
    virtual void reset_peak_stats() = 0;
#ifndef PLAYED_OLDER
    virtual void begin_allocate_to_pool(c10::MempoolId_t, std::function<bool(c10::Stream)>)
    {
        throw "not implemented";
    }
    virtual void end_allocate_to_pool(c10::MempoolId_t)
    {
        throw "not implemented";
    }
    virtual void release_pool(c10::MempoolId_t)
    {
        throw "not implemented";
    }
#endif
};
PLAYED_EXPORT void setHostAllocator(c10::DeviceType, HostAllocator *, uint8_t priority = 0);
PLAYED_EXPORT HostAllocator *getHostAllocator(c10::DeviceType);
#endif

} // namespace at

#endif
