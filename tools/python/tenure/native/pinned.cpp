/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned host memory: an at::HostAllocator over <tenure/host.h>. PyTorch asks it for pin_memory,
 * for the buffers of a DataLoader, and for those of its own copies.
 *
 * It takes the place of PyTorch's when CUDA starts. What that has given before stays its own:
 * blocks have their deleter, and what is asked of them is handed on.
 *
 * PyTorch records a stream after each copy that does not wait, and means that the block may be in
 * use there until the free's place in that stream: tnr_record_stream. A graph's blocks are kept
 * until each graph of its pool has released that: each launch may copy from them again. Of those, a
 * block that was freed and that nothing recorded serves the next request of the same pool, as it
 * does with PyTorch's own allocator.
 *
 * The interface is younger than the oldest PyTorch that is supported, so it is looked for: all that
 * needs it is a template.
 */
#include "allocator.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <type_traits>
#include <unordered_map>

#if __has_include(<ATen/core/CachingHostAllocator.h>)
#include <ATen/core/CachingHostAllocator.h>
#endif

#include <tenure/host.h>

namespace at
{

struct HostAllocator;
/* Null where only c10 is there. */
__attribute__((weak)) void setHostAllocator(c10::DeviceType, HostAllocator *, uint8_t);
__attribute__((weak)) HostAllocator *getHostAllocator(c10::DeviceType);

} // namespace at

/* Not all is used with each PyTorch: so it has a name. */
namespace tenure_torch::pinned
{

template <typename Type, typename = void> constexpr bool is_known = false;
template <typename Type> constexpr bool is_known<Type, std::void_t<decltype(sizeof(Type))>> = true;

/* ---- blocks of graphs ----------------------------------------------------------------------- */

const size_t SMALLEST = 512; /* what a block has at least */

/* PyTorch allocates for a graph on the streams that the filter names. Several graphs may have one
 * pool: each begins and releases it once, and the blocks are theirs until the last one does. */
struct graph_blocks {
    pool_id id;
    unsigned sharers;
    std::function<bool(c10::Stream)> filter; /* null: the capture is over */
    std::vector<void *> freed;               /* go back when the pool is released */
    std::multimap<size_t, void *> unused;    /* so do these, by size; or they serve it again */
};

struct graph_block {
    pool_id id;
    bool is_used;
};

std::mutex graphs_lock; /* of what follows */
std::vector<graph_blocks> graphs;
std::unordered_map<void *, graph_block> of_graphs;
std::atomic<unsigned> graphs_count{0}; /* both together, to be looked at without the lock */

graph_blocks *graph_find(pool_id id)
{
    for (graph_blocks &one : graphs)
        if (one.id == id)
            return &one;
    return nullptr;
}

void graph_begins(pool_id id, std::function<bool(c10::Stream)> filter)
{
    std::lock_guard<std::mutex> guard(graphs_lock);
    graph_blocks *one = graph_find(id);
    if (one != nullptr) {
        one->filter = std::move(filter);
        one->sharers++;
        return;
    }
    graphs.push_back({id, 1, std::move(filter), {}, {}});
    graphs_count++;
}

void graph_captured(pool_id id)
{
    std::lock_guard<std::mutex> guard(graphs_lock);
    graph_blocks *one = graph_find(id);
    if (one != nullptr)
        one->filter = nullptr;
}

/* The graph that this stream is being captured for; null: none. Under the lock. */
graph_blocks *graph_of(c10::Stream stream)
{
    for (graph_blocks &one : graphs)
        if (one.filter && one.filter(stream))
            return &one;
    return nullptr;
}

/* A block that the graph on this stream can have again, of at most twice the size; null: none. */
void *graph_again(size_t bytes, c10::Stream stream)
{
    std::lock_guard<std::mutex> guard(graphs_lock);
    graph_blocks *one = graph_of(stream);
    if (one == nullptr)
        return nullptr;
    auto found = one->unused.lower_bound(bytes);
    if (found == one->unused.end() || found->first / 2 > std::max(bytes, SMALLEST))
        return nullptr;
    void *ptr = found->second;
    if (of_graphs.emplace(ptr, graph_block{one->id, false}).second)
        graphs_count++;
    one->unused.erase(found);
    return ptr;
}

void graph_allocated(void *ptr, c10::Stream stream)
{
    std::lock_guard<std::mutex> guard(graphs_lock);
    const graph_blocks *one = graph_of(stream);
    if (one != nullptr && of_graphs.emplace(ptr, graph_block{one->id, false}).second)
        graphs_count++;
}

void graph_used(void *ptr)
{
    std::lock_guard<std::mutex> guard(graphs_lock);
    auto found = of_graphs.find(ptr);
    if (found != of_graphs.end())
        found->second.is_used = true;
}

/* True: the block is kept until its graph's pool is released. */
bool graph_keeps(void *ptr)
{
    tnr_block_info block;
    size_t size = tnr_block_get(&block, ptr) == TNR_OK ? block.bytes : 0;
    std::lock_guard<std::mutex> guard(graphs_lock);
    auto found = of_graphs.find(ptr);
    if (found == of_graphs.end())
        return false;
    graph_blocks *one = graph_find(found->second.id);
    bool is_used = found->second.is_used;
    of_graphs.erase(found);
    graphs_count--;
    if (one != nullptr && is_used)
        one->freed.push_back(ptr);
    else if (one != nullptr)
        one->unused.emplace(size, ptr);
    return one != nullptr;
}

std::vector<void *> graph_released(pool_id id)
{
    std::vector<void *> freed;
    std::lock_guard<std::mutex> guard(graphs_lock);
    for (size_t i = 0; i < graphs.size(); i++)
        if (graphs[i].id == id && --graphs[i].sharers == 0) {
            freed = std::move(graphs[i].freed);
            for (const auto &[size, ptr] : graphs[i].unused)
                freed.push_back(ptr);
            graphs.erase(graphs.begin() + static_cast<std::ptrdiff_t>(i));
            graphs_count--;
            break;
        }
    return freed;
}

/* ---- blocks --------------------------------------------------------------------------------- */

std::atomic<uint64_t> devices_used{0}; /* bit i: there is host memory near device i */

void free_pinned(void *ptr) noexcept
{
    if (ptr == nullptr || (graphs_count.load(std::memory_order_acquire) != 0 && graph_keeps(ptr)))
        return;
    if (tnr_free(ptr) != TNR_OK)
        fail_quietly("tnr_free");
}

/* A device that the process uses already, the current one if it does. */
DeviceIndex device_near()
{
    DeviceIndex current = c10::cuda::current_device();
    if (C10_LIKELY((devices_used.load(std::memory_order_relaxed) >> current & 1) != 0))
        return current;
    return c10::cuda::getDeviceIndexWithPrimaryContext().value_or(current);
}

void *take_pinned(size_t bytes)
{
    void *ptr = nullptr;
    bool has_graphs = graphs_count.load(std::memory_order_acquire) != 0;
    if (C10_UNLIKELY(has_graphs))
        ptr = graph_again(bytes, c10::cuda::getCurrentCUDAStream().unwrap());
    if (ptr != nullptr)
        return ptr;
    DeviceIndex device = device_near();
    check(tnr_host_malloc_near(&ptr, bytes, device), "tnr_host_malloc_near");
    if ((devices_used.load(std::memory_order_relaxed) >> device & 1) == 0)
        devices_used.fetch_or(UINT64_C(1) << device);
    if (C10_UNLIKELY(has_graphs))
        graph_allocated(ptr, c10::cuda::getCurrentCUDAStream().unwrap());
    return ptr;
}

/* False: the memory is not ours. Throws. */
bool record_pinned(void *ptr, c10::Stream stream)
{
    tnr_block_info block;
    tnr_pool pool = nullptr;
    if (tnr_block_get(&block, ptr) != TNR_OK || block.device < TNR_HOST(0))
        return false;
    if (graphs_count.load(std::memory_order_acquire) != 0)
        graph_used(block.base);
    cudaStream_t handle = c10::cuda::CUDAStream(c10::cuda::CUDAStream::UNCHECKED, stream).stream();
    if (routings_count.load(std::memory_order_acquire) != 0)
        (void)route(stream.device_index(), handle, &pool); /* its capture is known from now on */
    tnr_status status = tnr_record_stream(block.base, handle);
    if (status == TNR_ERR_INVALID_STREAM) /* of another device than the memory is near */
        status = tnr_record_use(block.base, handle);
    check(status, "tnr_record_stream");
    return true;
}

/* ---- statistics ----------------------------------------------------------------------------- */

struct pinned_sums {
    tnr_stat blocks, bytes, chunks, reserved;
};

void stat_add(tnr_stat &to, const tnr_stat &from)
{
    to.current += from.current;
    to.peak += from.peak;
    to.allocated += from.allocated;
    to.freed += from.freed;
}

/* Peaks of several devices are added up, as PyTorch adds those of its buckets. */
pinned_sums sums_take()
{
    pinned_sums sums = {};
    for (int device = 0; devices_used.load() >> device != 0; device++) {
        tnr_stats stats = {};
        stats.struct_bytes = sizeof(stats);
        if ((devices_used.load() >> device & 1) == 0)
            continue;
        check(tnr_stats_get(&stats, nullptr, TNR_HOST(device)), "tnr_stats_get");
        stat_add(sums.blocks, stats.allocation[TNR_WORLD_ALL]);
        stat_add(sums.bytes, stats.allocated_bytes[TNR_WORLD_ALL]);
        stat_add(sums.chunks, stats.segment);
        stat_add(sums.reserved, stats.reserved_bytes);
    }
    return sums;
}

/* What resetAccumulatedStats counts from. */
std::mutex sums_lock;
pinned_sums sums_before = {}; /* under sums_lock */

template <typename Stat> void stat_put(Stat &to, const tnr_stat &from, const tnr_stat &before)
{
    to.current = static_cast<int64_t>(from.current);
    to.peak = static_cast<int64_t>(from.peak);
    to.allocated = static_cast<int64_t>(from.allocated - before.allocated);
    to.freed = static_cast<int64_t>(from.freed - before.freed);
}

/* Some names have changed their meaning: where there is a sum of reserved bytes, the others are of
 * what is live. */
template <typename Stats> void sums_put(Stats &to, const pinned_sums &sums)
{
    std::lock_guard<std::mutex> guard(sums_lock);
    if constexpr (requires { to.reserved_bytes; }) {
        stat_put(to.allocation, sums.blocks, sums_before.blocks);
        stat_put(to.allocated_bytes, sums.bytes, sums_before.bytes);
        stat_put(to.segment, sums.chunks, sums_before.chunks);
        stat_put(to.reserved_bytes, sums.reserved, sums_before.reserved);
    } else if constexpr (requires { to.active_requests; }) {
        stat_put(to.active_requests, sums.blocks, sums_before.blocks);
        stat_put(to.active_bytes, sums.bytes, sums_before.bytes);
        stat_put(to.allocations, sums.chunks, sums_before.chunks);
        stat_put(to.allocated_bytes, sums.reserved, sums_before.reserved);
    }
    to.num_host_alloc = static_cast<int64_t>(sums.chunks.allocated - sums_before.chunks.allocated);
    to.num_host_free = static_cast<int64_t>(sums.chunks.freed - sums_before.chunks.freed);
}

void each_device_used(tnr_status (*call)(int device), const char *name)
{
    for (int device = 0; devices_used.load() >> device != 0; device++) {
        tnr_status status = TNR_OK;
        if ((devices_used.load() >> device & 1) != 0)
            status = call(TNR_HOST(device));
        if (status != TNR_ERR_CAPTURE) /* what cannot go back now goes back later */
            check(status, name);
    }
}

/* ---- the class ------------------------------------------------------------------------------ */

/* As in allocator.hpp, without `override`: younger methods are called only by a PyTorch that has
 * them. */
template <typename Base> class host_allocator final : public Base
{
  public:
    using host_stats = decltype(std::declval<Base &>().get_stats());

    explicit host_allocator(Base *before) : own(before)
    {
    }
    c10::DataPtr allocate(size_t bytes)
    {
        void *ptr = bytes == 0 ? nullptr : take_pinned(bytes);
        return {ptr, ptr, &free_pinned, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const
    {
        return &free_pinned;
    }
    void copy_data(void *to, const void *from, std::size_t bytes) const
    {
        std::memcpy(to, from, bytes);
    }
    bool record_event(void *ptr, void *context, c10::Stream stream)
    {
        return record_pinned(ptr, stream) ||
               (own != nullptr && own->record_event(ptr, context, stream));
    }
    void empty_cache()
    {
        each_device_used([](int device) { return tnr_trim(nullptr, 0, device); }, "tnr_trim");
        if (own != nullptr)
            own->empty_cache();
    }
    host_stats get_stats()
    {
        host_stats stats;
        sums_put(stats, sums_take());
        return stats;
    }
    void reset_accumulated_stats()
    {
        pinned_sums sums = sums_take();
        std::lock_guard<std::mutex> guard(sums_lock);
        sums_before = sums;
    }
    void reset_peak_stats()
    {
        each_device_used([](int device) { return tnr_stats_reset_peaks(device); },
                         "tnr_stats_reset_peaks");
    }
    void begin_allocate_to_pool(pool_id id, std::function<bool(c10::Stream)> filter)
    {
        graph_begins(id, std::move(filter));
    }
    void end_allocate_to_pool(pool_id id)
    {
        graph_captured(id);
    }
    void release_pool(pool_id id)
    {
        for (void *ptr : graph_released(id))
            free_pinned(ptr);
    }

  private:
    Base *own; /* PyTorch's, for what it has given */
};

/* The setting `host` may leave pinned memory to PyTorch. */
bool is_wanted()
{
    tnr_setting_info setting = {};
    setting.struct_bytes = sizeof(setting);
    for (size_t i = 0; tnr_setting_get(&setting, i) == TNR_OK; i++)
        if (std::strcmp(setting.key, "host") == 0)
            return std::strcmp(setting.value, "off") != 0;
    return false;
}

template <typename Base> void install()
{
    if constexpr (is_known<Base>) {
        if (at::setHostAllocator == nullptr || at::getHostAllocator == nullptr || !is_wanted())
            return;
        /* Never destroyed: blocks may be freed after all destructors. */
        Base *before = at::getHostAllocator(c10::DeviceType::CUDA);
        static auto *one = new host_allocator<Base>(before);
        at::setHostAllocator(c10::DeviceType::CUDA, one, 1);
    }
}

} // namespace tenure_torch::pinned

void tenure_torch::pinned_install()
{
    pinned::install<at::HostAllocator>();
}
