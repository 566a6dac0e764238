/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory: one Tenure call behind each of PyTorch's, and what happens when one fails.
 *
 * PyTorch calls with or without its interpreter's lock. Nothing is locked here: observers are told
 * before or after Tenure's call. A pair of allocation and free costs as much as Tenure's own pair
 * and two loads, `watched` and `routings_count`, unless somebody watches or routes.
 */
#include "allocator.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/env.h>
#include <c10/util/string_utils.h>

namespace tenure_torch
{

namespace
{

constexpr size_t exabyte = static_cast<size_t>(1) << 60;
constexpr unsigned long printed_max = 8;

std::atomic<unsigned long> failures_count{0};
std::atomic<int> devices_known{-1};
std::atomic<bool> is_on{true};

/* PyTorch's switch for looking for errors with cuda-memcheck and its like: 1 is on, as PyTorch
 * reads it; it warns of what is neither 0 nor 1. */
bool is_cache_forbidden()
{
    static const bool forbidden =
        c10::utils::check_env("PYTORCH_NO_CUDA_MEMORY_CACHING").value_or(false);
    return forbidden;
}

bool is_memory(tnr_status status)
{
    return status == TNR_ERR_OUT_OF_MEMORY || status == TNR_ERR_LIMIT ||
           status == TNR_ERR_ADDRESS_SPACE;
}

std::string text_of_bytes(size_t bytes)
{
    char text[32];
    if (bytes < 1024)
        std::snprintf(text, sizeof(text), "%zu bytes", bytes);
    else if (bytes < 1024 * 1024)
        std::snprintf(text, sizeof(text), "%.2f KiB", static_cast<double>(bytes) / 1024);
    else if (bytes < 1024 * 1024 * 1024)
        std::snprintf(text, sizeof(text), "%.2f MiB", static_cast<double>(bytes) / 1048576);
    else
        std::snprintf(text, sizeof(text), "%.2f GiB", static_cast<double>(bytes) / 1073741824);
    return text;
}

std::string text_of_pointer(const void *ptr)
{
    char text[32];
    std::snprintf(text, sizeof(text), "%p", ptr);
    return text;
}

/* Whoever keeps memory only until somebody else wants it: PyTorch's list of them. */
bool others_have_freed()
{
    bool freed = false;
    for (const auto &name : c10::FreeCudaMemoryCallbacksRegistry()->Keys()) {
        auto callback = c10::FreeCudaMemoryCallbacksRegistry()->Create(name);
        freed |= callback != nullptr && callback->Execute();
    }
    return freed;
}

/* Programs look for "out of memory", "Tried to allocate" and "has a total capacity of". */
[[noreturn]] void raise_out_of_memory(size_t bytes, DeviceIndex device, size_t total, size_t free,
                                      const std::string &report)
{
    std::string text = "CUDA out of memory. Tried to allocate " + text_of_bytes(bytes) + ". GPU " +
                       std::to_string(device) + " has a total capacity of " + text_of_bytes(total) +
                       " of which " + text_of_bytes(free) + " is free. " + report;
    TORCH_CHECK_WITH(OutOfMemoryError, false, text);
}

[[noreturn]] void fail_for_memory(size_t bytes, DeviceIndex device, cudaStream_t stream,
                                  const std::string &report)
{
    tnr_device_info info = {};
    info.struct_bytes = sizeof(info);
    size_t free = 0, total = 0;
    if (tnr_device_get(&info, device) == TNR_OK)
        total = info.memory_bytes;
    size_t whole = 0;
    if (cudaMemGetInfo(&free, &whole) != cudaSuccess)
        (void)cudaGetLastError();
    failures_count++;
    saw_out_of_memory(bytes, device, total, free, stream);
    c10::reportOutOfMemoryToProfiler(
        static_cast<int64_t>(bytes), stats_of(device).allocated_bytes[0].current,
        stats_of(device).reserved_bytes.current, c10::Device(c10::kCUDA, device));
    raise_out_of_memory(bytes, device, total, free, report);
}

tnr_status routed_malloc(void **ptr, size_t bytes, DeviceIndex device, cudaStream_t stream)
{
    tnr_pool pool = nullptr;
    if (C10_LIKELY(routings_count.load(std::memory_order_acquire) == 0) ||
        !route(device, stream, &pool) || pool == nullptr)
        return tnr_malloc(ptr, bytes, device, stream);
    /* By routing, not by tnr_pool_malloc: a stream that is being captured then still allocates from
     * its capture's pool. */
    tnr_status status = tnr_pool_push(pool);
    if (status == TNR_OK) {
        status = tnr_malloc(ptr, bytes, device, stream);
        if (tnr_pool_pop(pool) != TNR_OK)
            fail_quietly("tnr_pool_pop");
    }
    return status;
}

/* Tenure has nothing left: whoever has may give it up now. */
void *take_anyway(size_t bytes, DeviceIndex device, cudaStream_t stream, tnr_status status)
{
    void *ptr = nullptr;
    if (!is_memory(status))
        fail("tnr_malloc", status);
    std::string report = tnr_last_error();
    if (others_have_freed()) {
        status = routed_malloc(&ptr, bytes, device, stream);
        if (status == TNR_OK)
            return ptr;
        if (!is_memory(status))
            fail("tnr_malloc", status);
    }
    ptr = take_from_reserve(bytes, device, stream);
    if (ptr != nullptr)
        return ptr;
    fail_for_memory(bytes, device, stream, report);
}

void report_to_profiler(void *ptr, int64_t bytes, DeviceIndex device)
{
    tnr_stats stats = stats_of(device);
    c10::reportMemoryUsageToProfiler(ptr, bytes, stats.allocated_bytes[0].current,
                                     stats.reserved_bytes.current, c10::Device(c10::kCUDA, device));
}

void *take_uncached(size_t bytes)
{
    void *ptr = nullptr;
    C10_CUDA_CHECK(cudaMalloc(&ptr, bytes));
    return ptr;
}

void free_uncached(void *ptr) noexcept
{
    const c10::impl::PyInterpreter *trace = c10::impl::GPUTrace::get_trace();
    if (C10_UNLIKELY(trace != nullptr))
        (*trace)->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<uintptr_t>(ptr));
    if (cudaFree(ptr) != cudaSuccess) {
        (void)cudaGetLastError();
        fail_quietly("cudaFree");
    }
}

} // namespace

/* ---- failures --------------------------------------------------------------------------------
 */

void fail(const char *call, tnr_status status)
{
    std::string text = tnr_last_error();
    int driver_result = tnr_last_driver_result();
    failures_count++;
    if (text.empty() || status == TNR_ERR_HOST_MEMORY)
        text = tnr_status_text(status);
    c10::SourceLocation where = {call, __FILE__, static_cast<uint32_t>(__LINE__)};
    if (is_memory(status))
        throw c10::OutOfMemoryError(where, "CUDA out of memory. " + text);
    if (status == TNR_ERR_DRIVER && driver_result != 0)
        throw c10::AcceleratorError(where, driver_result, "CUDA error: " + text);
    throw c10::Error(where, "Tenure: " + text);
}

void fail_quietly(const char *call) noexcept
{
    unsigned long before = failures_count.fetch_add(1);
    if (before < printed_max)
        std::fprintf(stderr, "tenure: %s: %s\n", call, tnr_last_error());
    else if (before == printed_max)
        std::fprintf(stderr, "tenure: further failures of this kind are only counted\n");
}

bool can_raise()
{
    (void)others_have_freed();
    try {
        raise_out_of_memory(1, 0, 1, 0, "This is a trial.");
    } catch (const c10::OutOfMemoryError &error) {
        return std::strstr(error.what(), "GPU 0 has a total capacity of") != nullptr;
    }
}

unsigned long failures() noexcept
{
    return failures_count.load();
}

void refuse(const std::string &sentence)
{
    failures_count++;
    std::string text = "Tenure: " + sentence;
    TORCH_CHECK_NOT_IMPLEMENTED(false, text);
}

/* ---- allocate and free -----------------------------------------------------------------------
 */

void *take(size_t bytes, DeviceIndex device, cudaStream_t stream)
{
    if (bytes == 0)
        return nullptr;
    std::shared_ptr<c10::GatheredContext> context;
    bool is_watched = watched.load(std::memory_order_acquire) != 0;
    if (C10_UNLIKELY(is_watched))
        context = context_of_allocation();
    void *ptr = nullptr;
    tnr_status status = routed_malloc(&ptr, bytes, device, stream);
    if (C10_UNLIKELY(status != TNR_OK))
        ptr = take_anyway(bytes, device, stream, status);
    if (C10_UNLIKELY(is_watched))
        saw_allocation(ptr, bytes, device, stream, std::move(context));
    if (C10_UNLIKELY(c10::memoryProfilingEnabled()))
        report_to_profiler(ptr, static_cast<int64_t>(bytes), device);
    const c10::impl::PyInterpreter *trace = c10::impl::GPUTrace::get_trace();
    if (C10_UNLIKELY(trace != nullptr))
        (*trace)->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<uintptr_t>(ptr));
    return ptr;
}

/* ---- streams of other devices ---------------------------------------------------------------- */

namespace
{

/* Which streams of other devices use a block until its free. Tenure's own list of uses until the
 * free knows streams of the block's device, so these are recorded right before it. */
std::mutex peers_lock;
std::unordered_multimap<void *, cudaStream_t> peers; /* by the block's start; of peers_lock */
std::atomic<size_t> peers_count{0};

void peer_add(void *ptr, cudaStream_t stream)
{
    std::lock_guard<std::mutex> guard(peers_lock);
    auto range = peers.equal_range(ptr);
    for (auto at = range.first; at != range.second; ++at)
        if (at->second == stream)
            return;
    peers.emplace(ptr, stream);
    peers_count++;
}

/* False: a use could not be recorded, so all work of all devices is to be waited for. */
bool peers_record(void *ptr)
{
    std::vector<cudaStream_t> streams;
    {
        std::lock_guard<std::mutex> guard(peers_lock);
        auto range = peers.equal_range(ptr);
        for (auto at = range.first; at != range.second; ++at)
            streams.push_back(at->second);
        peers.erase(range.first, range.second);
        peers_count -= streams.size();
    }
    return std::all_of(streams.begin(), streams.end(), [ptr](cudaStream_t stream) {
        return tnr_record_use(ptr, stream) == TNR_OK;
    });
}

} // namespace

/* What must be known of a block before it is gone, when somebody wants to be told of its free. */
static void announce_free(void *ptr)
{
    tnr_block_info block;
    if (watched.load(std::memory_order_acquire) != 0)
        seeing_free(ptr);
    if (c10::memoryProfilingEnabled() && tnr_block_get(&block, ptr) == TNR_OK)
        report_to_profiler(ptr, -static_cast<int64_t>(block.bytes_requested),
                           static_cast<DeviceIndex>(block.device));
    const c10::impl::PyInterpreter *trace = c10::impl::GPUTrace::get_trace();
    if (trace != nullptr)
        (*trace)->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<uintptr_t>(ptr));
}

void free_block(void *ptr) noexcept
{
    if (ptr == nullptr)
        return;
    if (C10_UNLIKELY(watched.load(std::memory_order_acquire) != 0 ||
                     c10::memoryProfilingEnabled() ||
                     c10::impl::GPUTrace::get_trace() != nullptr)) {
        try {
            announce_free(ptr);
        } catch (const std::exception &error) {
            std::fprintf(stderr, "tenure: at a free: %s\n", error.what());
        }
    }
    if (C10_UNLIKELY(routings_count.load(std::memory_order_acquire) != 0)) {
        /* A free may be the first that is heard of a capture: the block is then kept for its
         * graph. */
        tnr_block_info block;
        tnr_pool pool;
        if (tnr_block_get(&block, ptr) == TNR_OK)
            route(static_cast<DeviceIndex>(block.device), block.stream, &pool);
    }
    /* A forked child, a data loader's worker say, destroys the tensors that it was born with: they
     * are its parent's. And after the end there is nothing to give back to. */
    bool is_told =
        C10_LIKELY(peers_count.load(std::memory_order_acquire) == 0) || peers_record(ptr);
    tnr_status status = is_told ? tnr_free(ptr) : tnr_free_sync(ptr);
    if (status != TNR_OK && status != TNR_ERR_AFTER_FORK && status != TNR_ERR_SHUTDOWN)
        fail_quietly("tnr_free");
}

c10::DataPtr allocator::allocate(size_t bytes)
{
    TORCH_CHECK_WITH(OutOfMemoryError, bytes < exabyte,
                     "CUDA out of memory. Tried to allocate more than 1EB memory.");
    DeviceIndex device = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
    c10::Device where(c10::kCUDA, device);
    if (bytes == 0)
        return {nullptr, nullptr, raw_deleter(), where};
    if (C10_UNLIKELY(!isEnabled())) {
        void *ptr = take_uncached(bytes);
        return {ptr, ptr, &free_uncached, where};
    }
    void *ptr = take(bytes, device, c10::cuda::getCurrentCUDAStream(device).stream());
    return {ptr, ptr, &free_block, where};
}

c10::DeleterFnPtr allocator::raw_deleter() const
{
    return isEnabled() ? static_cast<c10::DeleterFnPtr>(&free_block) : &free_uncached;
}

void *allocator::raw_alloc(size_t bytes)
{
    if (bytes == 0)
        return nullptr;
    DeviceIndex device = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
    return raw_alloc_with_stream(bytes, c10::cuda::getCurrentCUDAStream(device).stream());
}

void *allocator::raw_alloc_with_stream(size_t bytes, cudaStream_t stream)
{
    if (bytes == 0)
        return nullptr;
    if (!isEnabled())
        return take_uncached(bytes);
    DeviceIndex device = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
    return take(bytes, device, stream);
}

void allocator::raw_delete(void *ptr)
{
    tnr_block_info block;
    if (!isEnabled() && tnr_block_get(&block, ptr) == TNR_ERR_FOREIGN_POINTER)
        free_uncached(ptr);
    else
        free_block(ptr);
}

void allocator::copy_data(void *to, const void *from, std::size_t bytes) const
{
    C10_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice));
}

/* ---- starting, switching off -----------------------------------------------------------------
 */

void allocator::init(int devices_count)
{
    tnr_status status = tnr_init();
    if (status != TNR_OK && hand_back(devices_count))
        return;
    check(status, "tnr_init");
    started();
    devices_known.store(devices_count);
}

bool allocator::initialized()
{
    return devices_known.load() >= 0;
}

void allocator::enable(bool value)
{
    is_on.store(value);
}

bool allocator::isEnabled() const
{
    return is_on.load(std::memory_order_relaxed) && !is_cache_forbidden();
}

std::string allocator::name()
{
    return "tenure";
}

/* ---- blocks ---------------------------------------------------------------------------------- */

void *allocator::getBaseAllocation(void *ptr, size_t *bytes)
{
    tnr_block_info block;
    TORCH_CHECK(ptr != nullptr && tnr_block_get(&block, ptr) == TNR_OK,
                "invalid device pointer: " + text_of_pointer(ptr));
    if (bytes != nullptr)
        *bytes = block.bytes;
    return block.base;
}

void allocator::recordStream(const c10::DataPtr &data, c10::cuda::CUDAStream stream)
{
    /* No bytes, or memory of others (from_blob, another process), which is not ours to keep. */
    if (data.get() == nullptr || data.get_deleter() != &free_block)
        return;
    tnr_block_info block;
    tnr_status status = tnr_record_stream(data.get(), stream.stream());
    if (status == TNR_ERR_INVALID_STREAM && tnr_block_get(&block, data.get()) == TNR_OK &&
        block.device != stream.device_index()) {
        peer_add(block.base, stream.stream());
        return;
    }
    if (status != TNR_OK && status != TNR_ERR_FOREIGN_POINTER)
        fail("tnr_record_stream", status);
}

/* ---- several devices -------------------------------------------------------------------------
 */

void allocator::enablePeerAccess(DeviceIndex device, DeviceIndex to)
{
    {
        /* Memory of others on `to`: PyTorch expects that to be reachable too. */
        c10::cuda::CUDAGuard guard(device);
        cudaError_t error = cudaDeviceEnablePeerAccess(to, 0);
        if (error == cudaErrorPeerAccessAlreadyEnabled)
            (void)cudaGetLastError();
        else
            C10_CUDA_CHECK(error);
    }
    check(tnr_device_access_set(to, device, TNR_ACCESS_READWRITE), "tnr_device_access_set");
    imports_reached_by(to, device);
}

cudaError_t allocator::memcpyAsync(void *to, int to_device, const void *from, int from_device,
                                   size_t bytes, cudaStream_t stream, bool has_peer_access)
{
    if (to_device == from_device || has_peer_access)
        return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
    return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, stream);
}

} // namespace tenure_torch
