/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What PyTorch's tools see: the history of torch.cuda.memory._record_memory_history with the stacks
 * that PyTorch gathers, snapshots, observers.
 *
 * PyTorch's recorder may take the interpreter's lock. So it is called, and what it returned is
 * released, with no lock held, here or in Tenure. Observers and trackers are called without locks,
 * too.
 *
 * Memory that Tenure maps and unmaps is reported as SEGMENT_MAP and SEGMENT_UNMAP, by the first
 * call that comes after it (tnr_mappings_take). Entries of one address are in order, and a mapping
 * is reported before the allocation that it was made for.
 *
 * A free is recorded before the block is Tenure's again, an allocation after the block is the
 * caller's. So the entries of one address are in order, whatever threads do.
 */
#include "allocator.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <stack>
#include <type_traits>
#include <unordered_map>

#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/util/ApproximateClock.h>

namespace tenure_torch
{

std::atomic<unsigned> watched{0};

namespace
{

using cca::RecordContext;
using cca::TraceEntry;
using names::AnnotationEntry;
using context = std::shared_ptr<c10::GatheredContext>;

enum : unsigned { records = 1, trackers_there = 2, contexts_there = 4 };
constexpr size_t shards_count = 61;

/* ---- what is recorded ----------------------------------------------------------------------- */

std::mutex lock;
/* Of lock, but `recorder` and `when`, which are also read without it. */
std::map<int, std::deque<TraceEntry>> entries; /* by device */
std::deque<AnnotationEntry> annotations;
size_t entries_max = 0;
std::array<bool, 16> skipped_actions;
std::atomic<cca::CreateContextFn> recorder{nullptr};
std::atomic<RecordContext> when{RecordContext::NEVER};

/* True while a thread tells of mappings: it tells those of others too, so that they stay in order.
 */
std::atomic<bool> is_telling{false};

/* Observers are only added, before or between the steps of a program. */
std::mutex observers_lock;
std::vector<cca::OutOfMemoryObserver> out_of_memory_observers; /* of observers_lock */
std::vector<cca::AllocatorTraceTracker> trackers;              /* of observers_lock */

/* The stacks of live blocks. */
struct shard {
    std::mutex lock;
    std::unordered_map<void *, context> contexts; /* of lock */
};
std::array<shard, shards_count> shards;

/* What a thread says of itself. Blocks may be freed after it has gone, by the thread's end. */
thread_local bool is_silent = false;
struct thread_texts {
    std::stack<std::string> compile_contexts;
    std::string metadata;
    ~thread_texts()
    {
        is_silent = true;
    }
};
thread_local thread_texts said;

shard &shard_of(void *ptr)
{
    return shards[(reinterpret_cast<uintptr_t>(ptr) / TNR_ALIGNMENT_DEFAULT) % shards_count];
}

bool is_watched_for(unsigned what)
{
    return (watched.load(std::memory_order_acquire) & what) != 0;
}

context gather(RecordContext least)
{
    cca::CreateContextFn function = recorder.load();
    return function != nullptr && when.load() >= least ? function() : nullptr;
}

void trackers_tell(const TraceEntry &entry)
{
    std::vector<cca::AllocatorTraceTracker> told;
    {
        std::lock_guard<std::mutex> guard(observers_lock);
        told = trackers;
    }
    for (const cca::AllocatorTraceTracker &tracker : told)
        tracker(entry);
}

/* Entries have the program's own text since 2.10. */
template <typename Entry, typename... Facts> Entry entry_with_text(std::string text, Facts... facts)
{
    if constexpr (std::is_constructible_v<Entry, Facts..., std::string>)
        return Entry(std::move(facts)..., std::move(text));
    else
        return Entry(std::move(facts)...);
}

/* An entry has a stack only where entries are to have one: at RecordContext::STATE blocks have. */
TraceEntry entry_of(TraceEntry::Action action, int device, uintptr_t address, size_t bytes,
                    cudaStream_t stream, pool_id id, context stack)
{
    if (when.load() < RecordContext::ALLOC)
        stack = nullptr;
    bool has_region = !is_silent && !said.compile_contexts.empty();
    return entry_with_text<TraceEntry>(
        is_silent ? "" : said.metadata, action, static_cast<DeviceIndex>(device), size_t{address},
        bytes, stream, id, c10::getApproximateTime(), std::move(stack),
        std::string(has_region ? said.compile_contexts.top() : "N/A"));
}

/* The actions that a program may leave out, by PyTorch's names. */
TraceEntry::Action action_of(const std::string &name)
{
    const std::pair<const char *, TraceEntry::Action> known[] = {
        {"alloc", TraceEntry::ALLOC},
        {"free_requested", TraceEntry::FREE_REQUESTED},
        {"free_completed", TraceEntry::FREE_COMPLETED},
        {"segment_alloc", TraceEntry::SEGMENT_ALLOC},
        {"segment_free", TraceEntry::SEGMENT_FREE},
        {"segment_map", TraceEntry::SEGMENT_MAP},
        {"segment_unmap", TraceEntry::SEGMENT_UNMAP},
        {"snapshot", TraceEntry::SNAPSHOT},
        {"oom", TraceEntry::OOM}};
    for (const auto &one : known)
        if (name == one.first)
            return one.second;
    TORCH_CHECK(false, "Unknown TraceEntry action: " + name);
}

void note(TraceEntry entry)
{
    if (is_watched_for(trackers_there))
        trackers_tell(entry);
    if (!is_watched_for(records))
        return;
    /* What has to go goes after the lock has. */
    std::deque<TraceEntry> gone;
    std::lock_guard<std::mutex> guard(lock);
    if (skipped_actions[static_cast<size_t>(entry.action_)] || entries_max == 0)
        return;
    std::deque<TraceEntry> &ring = entries[entry.device_];
    while (ring.size() >= entries_max) {
        gone.push_back(std::move(ring.front()));
        ring.pop_front();
    }
    ring.push_back(std::move(entry));
}

context context_take(void *ptr)
{
    shard &in = shard_of(ptr);
    std::lock_guard<std::mutex> guard(in.lock);
    auto found = in.contexts.find(ptr);
    if (found == in.contexts.end())
        return nullptr;
    context taken = std::move(found->second);
    in.contexts.erase(found);
    return taken;
}

context context_find(void *ptr)
{
    shard &in = shard_of(ptr);
    std::lock_guard<std::mutex> guard(in.lock);
    auto found = in.contexts.find(ptr);
    return found == in.contexts.end() ? nullptr : found->second;
}

void contexts_forget()
{
    for (shard &in : shards) {
        std::unordered_map<void *, context> gone;
        std::lock_guard<std::mutex> guard(in.lock);
        gone.swap(in.contexts);
    }
}

/* Tenure writes mappings down while somebody wants to know of them. */
void mappings_follow()
{
    tnr_mappings_follow(is_watched_for(records | trackers_there) ? 1 : 0);
}

struct telling {
    ~telling()
    {
        is_telling.store(false);
    }
};

/* Tells of what there is. False: another thread does. */
bool mappings_tell(const context &stack)
{
    if (is_telling.exchange(true))
        return false;
    telling until_the_end;
    tnr_mapping found[64];
    uint64_t lost = 0;
    for (size_t count; (count = tnr_mappings_take(found, &lost, 64)) > 0;) {
        for (size_t i = 0; i < count; i++)
            note(entry_of(found[i].is_mapped != 0 ? TraceEntry::SEGMENT_MAP
                                                  : TraceEntry::SEGMENT_UNMAP,
                          found[i].device, found[i].base, found[i].bytes, found[i].stream,
                          id_of(found[i].pool), stack));
        if (lost > 0)
            fail_quietly("tnr_mappings_take");
    }
    return true;
}

} // namespace

/* ---- told by memory -------------------------------------------------------------------------- */

std::shared_ptr<c10::GatheredContext> context_of_allocation()
{
    return is_watched_for(records) ? gather(RecordContext::STATE) : nullptr;
}

std::shared_ptr<c10::GatheredContext> context_of_release()
{
    return is_watched_for(records) ? gather(RecordContext::ALL) : nullptr;
}

void saw_mappings(const std::shared_ptr<c10::GatheredContext> &stack)
{
    while (tnr_mappings_take(nullptr, nullptr, 0) > 0 && mappings_tell(stack))
        ; /* another thread may have left some to this one */
}

void saw_allocation(void *ptr, size_t bytes, DeviceIndex device, cudaStream_t stream,
                    std::shared_ptr<c10::GatheredContext> stack)
{
    tnr_block_info block;
    if (tnr_block_get(&block, ptr) != TNR_OK)
        return;
    saw_mappings(stack);
    if (stack != nullptr) {
        shard &in = shard_of(ptr);
        std::lock_guard<std::mutex> guard(in.lock);
        in.contexts[ptr] = stack;
    }
    note(entry_of(TraceEntry::ALLOC, device, reinterpret_cast<uintptr_t>(ptr), bytes, stream,
                  id_of(block.pool), std::move(stack)));
}

void seeing_free(void *ptr)
{
    context allocated = context_take(ptr), freed;
    tnr_block_info block;
    if (!is_watched_for(records | trackers_there) || tnr_block_get(&block, ptr) != TNR_OK ||
        block.base != ptr)
        return;
    if (is_watched_for(records))
        freed = gather(RecordContext::ALL);
    /* When the uses by other streams end is Tenure's to know: a block that still waits for one when
     * a snapshot is taken is put right there. */
    for (TraceEntry::Action action : {TraceEntry::FREE_REQUESTED, TraceEntry::FREE_COMPLETED})
        note(entry_of(action, block.device, reinterpret_cast<uintptr_t>(ptr), block.bytes_requested,
                      block.stream, id_of(block.pool), freed));
}

void saw_segment(bool is_new, void *ptr, size_t bytes, int device, cudaStream_t stream, pool_id id)
{
    /* Without a stack: the interpreter's lock cannot be waited for in a capture of Tenure's. */
    if (is_watched_for(records | trackers_there))
        note(entry_of(is_new ? TraceEntry::SEGMENT_ALLOC : TraceEntry::SEGMENT_FREE, device,
                      reinterpret_cast<uintptr_t>(ptr), bytes, stream, id, nullptr));
}

void saw_out_of_memory(size_t bytes, DeviceIndex device, size_t total, size_t free,
                       cudaStream_t stream)
{
    saw_mappings(nullptr);
    if (is_watched_for(records | trackers_there))
        note(entry_of(TraceEntry::OOM, device, free, bytes, stream, {0, 0},
                      gather(RecordContext::STATE)));
    std::vector<cca::OutOfMemoryObserver> told;
    {
        std::lock_guard<std::mutex> guard(observers_lock);
        told = out_of_memory_observers;
    }
    for (const cca::OutOfMemoryObserver &observer : told)
        observer(device, bytes, total, free);
}

/* ---- history -------------------------------------------------------------------------------- */

bool allocator::isHistoryEnabled()
{
    return is_watched_for(records);
}

void allocator::recordHistory(bool is_enabled, cca::CreateContextFn function, size_t max,
                              RecordContext from, bool clears)
{
    recordHistory(is_enabled, function, max, from, clears, {});
}

void allocator::recordHistory(bool is_enabled, cca::CreateContextFn function, size_t max,
                              RecordContext from, bool clears,
                              const std::vector<std::string> &skipped)
{
    TORCH_CHECK(from == RecordContext::NEVER || function != nullptr,
                "a context is to be recorded, but there is nothing to record it with");
    std::array<bool, 16> skips = {};
    for (const std::string &action : skipped)
        skips[static_cast<size_t>(action_of(action))] = true;
    std::map<int, std::deque<TraceEntry>> gone;
    std::deque<AnnotationEntry> gone_annotations;
    {
        std::lock_guard<std::mutex> guard(lock);
        if (clears || !is_enabled) {
            gone.swap(entries);
            gone_annotations.swap(annotations);
        }
        skipped_actions = skips;
        entries_max = std::max<size_t>(1, max);
        recorder.store(is_enabled ? function : nullptr);
        when.store(is_enabled ? from : RecordContext::NEVER);
    }
    /* What live blocks were allocated by stays known after the recording. */
    if (is_enabled)
        watched.fetch_or(records | contexts_there);
    else
        watched.fetch_and(~static_cast<unsigned>(records));
    mappings_follow();
    if (clears)
        contexts_forget();
}

void allocator::recordAnnotation(const std::vector<std::pair<std::string, std::string>> &texts)
{
    if (!isHistoryEnabled())
        return;
    DeviceIndex device = 0;
    if (c10::cuda::GetDevice(&device) != cudaSuccess)
        device = 0;
    AnnotationEntry entry(device, c10::getApproximateTime());
    for (const auto &text : texts)
        entry.recordUserMetadata(text.first, text.second);
    std::lock_guard<std::mutex> guard(lock);
    while (annotations.size() >= entries_max && !annotations.empty())
        annotations.pop_front();
    annotations.push_back(std::move(entry));
}

void allocator::pushCompileContext(std::string &text)
{
    said.compile_contexts.push(text);
}

void allocator::popCompileContext()
{
    if (!said.compile_contexts.empty())
        said.compile_contexts.pop();
}

void allocator::setUserMetadata(const std::string &text)
{
    said.metadata = text;
    if (tnr_mark(text.c_str()) != TNR_OK)
        fail_quietly("tnr_mark");
}

std::string allocator::getUserMetadata()
{
    return said.metadata;
}

std::shared_ptr<c10::GatheredContext> allocator::getContextForPointer(const void *ptr)
{
    return context_find(const_cast<void *>(ptr));
}

std::shared_ptr<c10::GatheredContext> allocator::getContextForPointer(void *ptr)
{
    return context_find(ptr);
}

/* ---- observers ------------------------------------------------------------------------------ */

void allocator::attachOutOfMemoryObserver(cca::OutOfMemoryObserver observer)
{
    std::lock_guard<std::mutex> guard(observers_lock);
    out_of_memory_observers.push_back(std::move(observer));
}

void allocator::attachOomRejectionObserver(rejection_observer)
{
    refuse("nothing is rejected before memory is really short (throw_on_cudamalloc_oom has no "
           "effect). Attach an out-of-memory observer.");
}

void allocator::attachAllocatorTraceTracker(cca::AllocatorTraceTracker tracker)
{
    std::lock_guard<std::mutex> guard(observers_lock);
    trackers.push_back(std::move(tracker));
    watched.fetch_or(trackers_there);
    mappings_follow();
}

/* ---- snapshots ------------------------------------------------------------------------------ */

namespace
{

/* When approximate times become real ones: made as early as can be. */
c10::ApproximateClockToUnixTimeConverter clock_converter;

struct walk {
    cca::SnapshotInfo *info;
    bool is_all;
    pool_id wanted;
    std::unordered_map<uintptr_t, bool> *retired; /* where blocks are that wait */
};

cca::BlockInfo block_of(const tnr_walked_block &from)
{
    cca::BlockInfo to;
    to.size = from.bytes;
    to.requested_size = from.bytes_requested;
    to.allocated = from.state == TNR_WALKED_LIVE;
    to.active = from.state != TNR_WALKED_FREE;
    if (to.allocated)
        to.context_when_allocated = context_find(reinterpret_cast<void *>(from.base));
    return to;
}

void stretch_add(const tnr_stretch *stretch, const walk &to)
{
    pool_id id = id_of(stretch->pool);
    if (!to.is_all && id != to.wanted)
        return;
    cca::SegmentInfo segment;
    segment.device = static_cast<DeviceIndex>(stretch->device);
    segment.address = stretch->base;
    segment.total_size = stretch->bytes;
    segment.stream = stretch->stream;
    segment.is_large = stretch->is_small == 0;
    segment.is_expandable = !is_foreign(stretch->pool);
    segment.owner_private_pool_id = id;
    for (size_t i = 0; i < stretch->blocks_count; i++) {
        const tnr_walked_block &from = stretch->blocks[i];
        cca::BlockInfo block = block_of(from);
        if (block.allocated)
            segment.allocated_size += block.size;
        if (block.active) {
            segment.active_size += block.size;
            segment.requested_size += block.requested_size;
        }
        if (from.state == TNR_WALKED_RETIRED)
            to.retired->emplace(from.base, true);
        /* Free blocks that are kept by size, and the memory beside them, are one to PyTorch. */
        if (!block.active && !segment.blocks.empty() && !segment.blocks.back().active)
            segment.blocks.back().size += block.size;
        else
            segment.blocks.push_back(std::move(block));
    }
    to.info->segments.push_back(std::move(segment));
}

/* A block that waits is shown as one that is being freed: so its latest free is not complete. */
void frees_put_right(std::vector<TraceEntry> &trace, std::unordered_map<uintptr_t, bool> &retired)
{
    for (size_t i = trace.size(); i-- > 0 && !retired.empty();)
        if (trace[i].action_ == TraceEntry::FREE_COMPLETED && retired.erase(trace[i].addr_) > 0)
            trace.erase(trace.begin() + static_cast<std::ptrdiff_t>(i));
}

void traces_add(cca::SnapshotInfo &info, std::unordered_map<uintptr_t, bool> &retired)
{
    auto to_ns = clock_converter.makeConverter();
    std::lock_guard<std::mutex> guard(lock);
    for (const auto &of_device : entries) {
        size_t device = static_cast<size_t>(of_device.first);
        if (info.device_traces.size() <= device)
            info.device_traces.resize(device + 1);
        info.device_traces[device].assign(of_device.second.begin(), of_device.second.end());
    }
    for (std::vector<TraceEntry> &trace : info.device_traces) {
        frees_put_right(trace, retired);
        for (TraceEntry &entry : trace)
            entry.time_.t_ = to_ns(entry.time_.approx_t_) / 1000;
    }
    info.external_annotations.assign(annotations.begin(), annotations.end());
    for (AnnotationEntry &entry : info.external_annotations)
        entry.time_.t_ = to_ns(entry.time_.approx_t_) / 1000;
}

template <typename Info> void reuse_add(Info &to)
{
    if constexpr (requires { to.graph_capture_record_stream_reuse; })
        to.graph_capture_record_stream_reuse = true;
}

void settings_add(cca::AllocatorConfigInfo &to)
{
    const char *text = std::getenv("PYTORCH_CUDA_ALLOC_CONF");
    to.garbage_collection_threshold = 0;
    to.max_split_size = std::numeric_limits<size_t>::max();
    to.pinned_num_register_threads = cca::CUDAAllocatorConfig::pinned_num_register_threads();
    to.expandable_segments = true;
    to.release_lock_on_malloc = true;
    to.pinned_use_host_register = cca::CUDAAllocatorConfig::pinned_use_cuda_host_register();
    reuse_add(to);
    to.last_allocator_settings = text == nullptr ? "" : text;
}

} // namespace

cca::SnapshotInfo allocator::snapshot(pool_id id)
{
    return snapshot(id, true);
}

cca::SnapshotInfo allocator::snapshot(pool_id id, bool has_traces)
{
    cca::SnapshotInfo info;
    std::unordered_map<uintptr_t, bool> retired;
    walk to = {&info, id == pool_id{0, 0}, id, &retired};
    for (DeviceIndex device : devices_in_use()) {
        info.device_traces.resize(static_cast<size_t>(device) + 1);
        memory_walk(nullptr, device, [&to](const tnr_stretch &one) { stretch_add(&one, to); });
    }
    if (has_traces)
        traces_add(info, retired);
    /* It is in the next one, as with PyTorch's own allocator. */
    size_t active = 0;
    for (const cca::SegmentInfo &segment : info.segments)
        active += segment.active_size;
    if (isHistoryEnabled())
        note(entry_of(TraceEntry::SNAPSHOT, 0, 0, active, nullptr, {0, 0}, nullptr));
    settings_add(info.config_metadata);
    return info;
}

} // namespace tenure_torch
