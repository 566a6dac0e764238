/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What PyTorch asks about memory: tnr_stats in its form. Of what is idle ("inactive_split") only
 * the current value is kept, which is the peak too.
 *
 * Sums that PyTorch resets go on counting in Tenure. Their values at the reset are kept here.
 */
#include "allocator.hpp"

#include <algorithm>
#include <exception>
#include <mutex>

#include <c10/cuda/CUDAException.h>

namespace tenure_torch
{

namespace
{

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;

constexpr int devices_max = 128;

std::mutex baseline_lock;
/* Of each device: what resetAccumulatedStats counts from. Under baseline_lock. */
cca::DeviceStats baselines[devices_max];

Stat stat_of(const tnr_stat &from)
{
    Stat to;
    to.current = static_cast<int64_t>(from.current);
    to.peak = static_cast<int64_t>(from.peak);
    to.allocated = static_cast<int64_t>(from.allocated);
    to.freed = static_cast<int64_t>(from.freed);
    return to;
}

StatArray array_of(const tnr_stat (&from)[TNR_WORLD_COUNT])
{
    static_assert(TNR_WORLD_ALL == 0 && TNR_WORLD_SMALL == 1 && TNR_WORLD_LARGE == 2,
                  "PyTorch's order");
    StatArray to;
    for (size_t i = 0; i < to.size(); i++)
        to[i] = stat_of(from[i]);
    return to;
}

/* Of what only the current value is kept. */
StatArray array_of(const uint64_t (&from)[TNR_WORLD_COUNT])
{
    StatArray to;
    for (size_t i = 0; i < to.size(); i++)
        to[i].current = to[i].peak = static_cast<int64_t>(from[i]);
    return to;
}

cca::DeviceStats device_stats_of(const tnr_stats &from)
{
    cca::DeviceStats to;
    to.allocation = array_of(from.allocation);
    to.allocated_bytes = array_of(from.allocated_bytes);
    to.requested_bytes = array_of(from.requested_bytes);
    to.active_bytes = array_of(from.active_bytes);
    to.active = array_of(from.active);
    to.segment = array_of(from.segment_by_size);
    to.reserved_bytes = array_of(from.reserved_bytes_by_size);
    to.inactive_split = array_of(from.idle_blocks);
    to.inactive_split_bytes = array_of(from.idle_bytes);
    to.num_alloc_retries = static_cast<int64_t>(from.num_alloc_retries);
    to.num_ooms = static_cast<int64_t>(from.num_ooms);
    to.num_sync_all_streams = static_cast<int64_t>(from.num_sync_all_streams);
    to.num_device_alloc = static_cast<int64_t>(from.num_device_alloc);
    to.num_device_free = static_cast<int64_t>(from.num_device_free);
    to.max_split_size = -1; /* PyTorch's "no limit" */
    return to;
}

void sums_subtract(StatArray &from, const StatArray &what)
{
    for (size_t i = 0; i < from.size(); i++) {
        from[i].allocated -= what[i].allocated;
        from[i].freed -= what[i].freed;
    }
}

void sums_subtract(cca::DeviceStats &from, const cca::DeviceStats &what)
{
    sums_subtract(from.allocation, what.allocation);
    sums_subtract(from.segment, what.segment);
    sums_subtract(from.active, what.active);
    sums_subtract(from.allocated_bytes, what.allocated_bytes);
    sums_subtract(from.reserved_bytes, what.reserved_bytes);
    sums_subtract(from.active_bytes, what.active_bytes);
    sums_subtract(from.requested_bytes, what.requested_bytes);
    from.num_alloc_retries -= what.num_alloc_retries;
    from.num_ooms -= what.num_ooms;
    from.num_sync_all_streams -= what.num_sync_all_streams;
    from.num_device_alloc -= what.num_device_alloc;
    from.num_device_free -= what.num_device_free;
}

tnr_device_info device_of(DeviceIndex device)
{
    tnr_device_info info = {};
    info.struct_bytes = sizeof(info);
    check(tnr_device_get(&info, device), "tnr_device_get");
    return info;
}

} // namespace

tnr_stats stats_of(DeviceIndex device)
{
    tnr_stats stats = {};
    stats.struct_bytes = sizeof(stats);
    check(tnr_stats_get(&stats, nullptr, device), "tnr_stats_get");
    return stats;
}

std::vector<DeviceIndex> devices_in_use()
{
    std::vector<DeviceIndex> found;
    tnr_driver_info driver = {};
    driver.struct_bytes = sizeof(driver);
    check(tnr_driver_get(&driver), "tnr_driver_get");
    for (int i = 0; i < driver.devices_count; i++)
        if (device_of(static_cast<DeviceIndex>(i)).in_use)
            found.push_back(static_cast<DeviceIndex>(i));
    return found;
}

void memory_walk(tnr_pool pool, DeviceIndex device,
                 const std::function<void(const tnr_stretch &)> &visit)
{
    struct walk {
        const std::function<void(const tnr_stretch &)> &visit;
        std::exception_ptr thrown;
    } walking = {visit, nullptr};
    auto step = [](const tnr_stretch *stretch, void *user) {
        walk &one = *static_cast<walk *>(user);
        try {
            if (one.thrown == nullptr)
                one.visit(*stretch);
        } catch (...) {
            one.thrown = std::current_exception();
        }
    };
    check(tnr_memory_walk(pool, device, step, &walking), "tnr_memory_walk");
    if (walking.thrown != nullptr)
        std::rethrow_exception(walking.thrown);
}

cca::DeviceStats allocator::getDeviceStats(DeviceIndex device)
{
    cca::DeviceStats stats = device_stats_of(stats_of(device));
    std::lock_guard<std::mutex> guard(baseline_lock);
    if (device < devices_max)
        sums_subtract(stats, baselines[device]);
    return stats;
}

void allocator::resetAccumulatedStats(DeviceIndex device)
{
    cca::DeviceStats now = device_stats_of(stats_of(device));
    std::lock_guard<std::mutex> guard(baseline_lock);
    if (device < devices_max)
        baselines[device] = now;
}

void allocator::resetPeakStats(DeviceIndex device)
{
    check(tnr_stats_reset_peaks(device), "tnr_stats_reset_peaks");
}

double allocator::getMemoryFraction(DeviceIndex device)
{
    size_t limit = SIZE_MAX;
    check(tnr_limit_get(&limit, device), "tnr_limit_get");
    double whole = static_cast<double>(device_of(device).memory_bytes);
    return std::min(1.0, static_cast<double>(limit) / whole);
}

void allocator::setMemoryFraction(double fraction, DeviceIndex device)
{
    TORCH_CHECK(0 <= fraction && fraction <= 1,
                "invalid fraction:" + std::to_string(fraction) + ". Please set within [0, 1].");
    double whole = static_cast<double>(device_of(device).memory_bytes);
    size_t limit = fraction < 1 ? static_cast<size_t>(fraction * whole) : SIZE_MAX;
    check(tnr_limit_set(limit, device), "tnr_limit_set");
}

std::vector<cca::StreamSegmentSize> allocator::getExpandableSegmentSizes(DeviceIndex)
{
    return {};
}

/* cuDNN's search for the fastest algorithm asks how large a workspace it may want. Any idle chunk
 * can move under another, but what would have to be waited for is left out: the longest free run,
 * or what the driver would still give. */
void allocator::cacheInfo(DeviceIndex device, size_t *largest)
{
    tnr_stats stats = stats_of(device);
    size_t room = *largest, free = 0, whole = 0;
    if (room == 0 && cudaMemGetInfo(&free, &whole) == cudaSuccess)
        room = free;
    (void)cudaGetLastError();
    if (stats.limit_bytes != SIZE_MAX) {
        uint64_t held = stats.reserved_bytes.current;
        room = std::min<size_t>(room, stats.limit_bytes > held ? stats.limit_bytes - held : 0);
    }
    *largest = std::max<size_t>(room, stats.bytes_chunk_largest_free);
}

} // namespace tenure_torch
