/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's calls of its pinned allocator, played, with tools/python/tenure/native/pinned.cpp as
 * that allocator, on the simulated device: test_pinned.py compiles and runs it.
 *
 * Seen to fail with, each by itself: tnr_record_stream left out; what is not ours not handed on;
 * graph_allocated left out; graph_released that forgets what was freed; no tnr_trim in empty_cache;
 * nothing subtracted after reset_accumulated_stats; the setting not asked.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <ATen/core/CachingHostAllocator.h>
#include <cuda.h>

#include "allocator.hpp"

#include <tenure/host.h>

namespace
{

[[maybe_unused]] constexpr size_t bytes = 3 << 20;

void must(bool good, const char *what)
{
    if (!good) {
        std::printf("pinned_program: not so: %s (%s)\n", what, tnr_last_error());
        std::exit(1);
    }
}

CUstream current;
#ifndef PLAYED_NONE
at::HostAllocator *registered;
unsigned priority_given;

/* PyTorch's own, which has given one buffer. */
struct own_allocator : at::HostAllocator {
    char buffer[64];
    int records = 0, empties = 0;
    c10::DataPtr allocate(size_t) override
    {
        return {nullptr, nullptr, nullptr, c10::Device(c10::DeviceType::CPU)};
    }
    void copy_data(void *, const void *, std::size_t) const override
    {
    }
    bool record_event(void *ptr, void *, c10::Stream) override
    {
        records++;
        return ptr == buffer;
    }
    void empty_cache() override
    {
        empties++;
    }
    at::HostStats get_stats() override
    {
        return {};
    }
    void reset_accumulated_stats() override
    {
    }
    void reset_peak_stats() override
    {
    }
} own;
#endif

} // namespace

/* ---- what PyTorch and the other files of the class have ------------------------------------- */

c10::cuda::CUDAStream c10::cuda::getCurrentCUDAStream(DeviceIndex)
{
    return {CUDAStream::UNCHECKED, Stream{0, current}};
}

std::optional<c10::DeviceIndex> c10::cuda::getDeviceIndexWithPrimaryContext()
{
    return 0;
}

c10::DeviceIndex c10::cuda::current_device()
{
    return 0;
}

namespace tenure_torch
{

std::atomic<unsigned> routings_count{0};

bool route(DeviceIndex, cudaStream_t, tnr_pool *)
{
    return false;
}

void fail(const char *call, tnr_status)
{
    must(false, call);
    std::abort();
}

void fail_quietly(const char *call) noexcept
{
    must(false, call);
}

} // namespace tenure_torch

#ifndef PLAYED_NONE

void at::setHostAllocator(c10::DeviceType, HostAllocator *allocator, uint8_t priority)
{
    registered = allocator;
    priority_given = priority;
}

at::HostAllocator *at::getHostAllocator(c10::DeviceType)
{
    return registered;
}

/* ---- the program ---------------------------------------------------------------------------- */

namespace
{

void *allocate(size_t size)
{
    c10::DataPtr made = registered->allocate(size);
    must(made.context == made.data && made.deleter == registered->raw_deleter(), "its context");
    return made.data;
}

void give(void *ptr)
{
    registered->raw_deleter()(ptr);
}

void copy_in(CUdeviceptr to, const void *from)
{
    must(cuMemcpyHtoDAsync(to, from, bytes, current) == CUDA_SUCCESS, "a copy");
}

/* A copy that does not wait keeps its buffer. */
void uses_are_kept()
{
    CUdeviceptr to;
    char seen[16];
    must(cuMemAlloc(&to, bytes) == CUDA_SUCCESS, "device memory");
    void *buffer = allocate(bytes);
    std::memset(buffer, 1, bytes);
    copy_in(to, buffer);
    must(registered->record_event(static_cast<char *>(buffer) + 5, buffer, {0, current}), "ours");
    give(buffer);
    void *next = allocate(bytes);
    must(next != buffer, "a buffer is not handed out before its copy is over");
    std::memset(next, 2, bytes);
    must(cuStreamSynchronize(current) == CUDA_SUCCESS, "waiting");
    must(cuMemcpyDtoH(seen, to, sizeof(seen)) == CUDA_SUCCESS && seen[0] == 1, "what it had");
    give(next);
    give(allocate(0));
    must(!registered->record_event(seen, nullptr, {0, current}) && own.records == 1,
         "what is nobody's is asked of PyTorch's");
    must(registered->record_event(own.buffer, nullptr, {0, current}) && own.records == 2,
         "as is what that has given");
    must(cuMemFree(to) == CUDA_SUCCESS, "a free");
}

int64_t live_of(const at::HostStats &stats)
{
#ifdef PLAYED_OLDER
    return stats.allocation.current;
#else
    return stats.active_requests.current;
#endif
}

#ifndef PLAYED_OLDER
/* What is allocated for a graph stays its own until the pool is released, freed or not. */
void graphs_keep()
{
    c10::MempoolId_t id = {0, 7};
    CUstream captured = current;
    registered->empty_cache();
    registered->begin_allocate_to_pool(id, [=](c10::Stream one) { return one.handle == captured; });
    void *of_graph = allocate(bytes), *live = allocate(bytes);
    must(registered->record_event(of_graph, of_graph, {0, captured}), "a use");
    current = nullptr;
    void *other = allocate(bytes);
    current = captured;
    registered->end_allocate_to_pool(id);
    give(of_graph);
    give(other);
    void *after[4];
    for (void *&one : after) {
        one = allocate(bytes);
        must(one != of_graph, "a graph's buffer is not handed out");
    }
    int64_t before = live_of(registered->get_stats());
    registered->release_pool(id);
    must(live_of(registered->get_stats()) == before - 1, "but freed at the graph's end");
    for (void *one : after)
        give(one);
    give(live);
    registered->release_pool({0, 8});
}
/* Of a graph's blocks, those that were freed and that nothing recorded serve it again, in this
 * capture and in a later one into the same pool; nobody else. */
void graphs_have_again()
{
    c10::MempoolId_t id = {0, 9}, other = {0, 10};
    CUstream captured = current;
    auto is_captured = [=](c10::Stream one) { return one.handle == captured; };
    std::vector<void *> live;
    auto is_had = [&](size_t size, void *ptr) {
        live.push_back(allocate(size));
        return live.back() == ptr;
    };
    registered->begin_allocate_to_pool(id, is_captured);
    void *used = allocate(bytes);
    give(used);
    must(!is_had(4 * bytes, used) && !is_had(bytes / 4, used), "sizes are alike");
    must(allocate(bytes - 1) == used, "what nothing used is there again");
    must(registered->record_event(used, used, {0, captured}), "a use");
    give(used);
    void *unused = allocate(bytes);
    must(unused != used, "what was used is not");
    give(unused);
    current = nullptr;
    must(!is_had(bytes, unused), "not for other streams");
    current = captured;
    registered->end_allocate_to_pool(id);
    must(!is_had(bytes, unused), "nor without a capture");
    registered->begin_allocate_to_pool(other, is_captured);
    must(!is_had(bytes, unused), "nor for other graphs");
    registered->end_allocate_to_pool(other);
    registered->begin_allocate_to_pool(id, is_captured);
    must(is_had(bytes, unused), "but for this one's next");
    registered->end_allocate_to_pool(id);
    for (void *one : live)
        give(one);
    registered->release_pool(other);
    int64_t left = live_of(registered->get_stats());
    registered->release_pool(id);
    must(left > 0 && live_of(registered->get_stats()) == left, "the other graph has its blocks");
    registered->release_pool(id);
    must(cuStreamSynchronize(captured) == CUDA_SUCCESS, "waiting");
    must(live_of(registered->get_stats()) == 0, "all go with the last graph of the pool");
}
#endif

c10::CachingAllocator::Stat reserved_of(const at::HostStats &stats)
{
#ifdef PLAYED_OLDER
    return stats.reserved_bytes;
#else
    return stats.allocated_bytes;
#endif
}

void sums_are_right()
{
    registered->empty_cache();
    registered->reset_accumulated_stats();
    registered->reset_peak_stats();
    must(reserved_of(registered->get_stats()).current == 0, "empty_cache gives all back");
    void *buffer = allocate(bytes);
    at::HostStats stats = registered->get_stats();
    must(live_of(stats) == 1 && reserved_of(stats).current >= static_cast<int64_t>(bytes) &&
             reserved_of(stats).allocated == reserved_of(stats).current &&
             stats.num_host_alloc >= 1 && stats.num_host_free == 0,
         "sums count from the reset");
    give(buffer);
    int empties = own.empties;
    registered->empty_cache();
    stats = registered->get_stats();
    must(live_of(stats) == 0 && reserved_of(stats).current == 0 && stats.num_host_free >= 1 &&
             reserved_of(stats).peak >= static_cast<int64_t>(bytes) && own.empties == empties + 1,
         "and peaks stay");
}

} // namespace

#endif

int main([[maybe_unused]] int argc, char **)
{
    CUcontext context;
    must(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
             cuCtxSetCurrent(context) == CUDA_SUCCESS &&
             cuStreamCreate(&current, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS,
         "a device");
    must(tnr_init() == TNR_OK, "tnr_init");
#ifndef PLAYED_NONE
    registered = &own;
    tenure_torch::pinned_install();
    if (argc > 1) { /* the setting leaves it to PyTorch */
        must(registered == &own, "PyTorch's own stays");
        return 0;
    }
    must(registered != &own && priority_given == 1, "it is registered");
    uses_are_kept();
#ifndef PLAYED_OLDER
    graphs_keep();
    graphs_have_again();
#endif
    sums_are_right();
#else
    tenure_torch::pinned_install();
#endif
    must(tnr_shutdown(0) == TNR_OK, "nothing is left");
    return 0;
}
