/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's pools. An id has one for each device. That one has up to two pools of Tenure's:
 * captures of CUDA graphs allocate from one, other streams from the other. The first allocation
 * from a pool makes it.
 *
 * Cudagraph trees (torch.compile, mode "reduce-overhead") warm up in the pool that they capture
 * into, and order all that uses it themselves. They are recognised by this: no torch.cuda.MemPool
 * has made the id, and its first memory goes to a stream that is not being captured. Such an id has
 * one pool for both, a vouched one (tnr_vouched_pool_create). If graphs have allocated from an id
 * before, it keeps Tenure's guarantee until its state is asked for (checkpoint.cpp): code that
 * saves and restores a pool's blocks orders what uses them. From then on the pool is vouched for,
 * too (tnr_graph_pool_vouch). torch.cuda.graph(pool=) never asks.
 *
 * Graphs. PyTorch captures them itself. Before each capture it announces that memory of certain
 * streams must come from the pool of a certain id. Afterwards it announces that this is over, and
 * later that the graph is gone. PyTorch announces before the capture has begun, when there is
 * nothing to attach to yet. So Tenure is attached to a capture at the first allocation or free on
 * one of its streams.
 *
 * Uses. Each begin, each torch.cuda.MemPool and each graph counts as one use until releasePool.
 * After the last use the pool ends, as soon as its graphs and blocks allow it. Such pools wait in
 * the same list without an id, because ids may come again.
 *
 * A torch.cuda.MemPool(allocator) has pools over foreign segments. The segments come from that
 * allocator's raw_alloc and go back to its raw_delete. The allocator lives until the last segment
 * has gone back.
 *
 * One mutex protects both lists. It is held while filters are asked and Tenure is called; neither
 * calls back here. Code that may ask the owner of segments does so without the mutex: an owner may
 * take the interpreter's lock.
 */
#include "allocator.hpp"

#include <algorithm>
#include <cstdio>
#include <list>
#include <mutex>
#include <thread>

#include <c10/cuda/CUDAException.h>

namespace tenure_torch
{

std::atomic<unsigned> routings_count{0};

namespace
{

/* All fields belong to `lock`. */
struct torch_pool {
    pool_id id;
    DeviceIndex device;
    bool is_ending = false; /* released; only waits for what is left of it */
    bool is_made = false;   /* torch.cuda.MemPool made it; else it began with a graph */
    bool is_reserve = false;
    bool is_vouched = false; /* `plain` serves captures too */
    bool is_saved = false;   /* its state has been asked for: `captured` is vouched for */
    std::shared_ptr<cca::CUDAAllocator> inner; /* owns the segments; null: the driver's memory */
    int uses = 0;
    tnr_pool captured = nullptr;   /* what captures allocate from; null until one does */
    tnr_pool plain = nullptr;      /* what other streams allocate from; null until one does */
    std::vector<tnr_graph> graphs; /* captured into it, and not known to have ended */
};

/* Streams that allocate from a pool: begun and not ended. */
struct routing {
    torch_pool *pool;
    stream_filter filter;
    std::thread::id begun_by;
    bool is_attached = false; /* Tenure follows the capture and routes by itself */
    tnr_graph graph = 0;      /* of the capture, if so */
};

std::mutex lock;
std::list<torch_pool> pools; /* of lock; they stay where they are */
std::list<routing> routings; /* of lock; the latest first */

/* ---- pools ---------------------------------------------------------------------------------- */

torch_pool *pool_find(DeviceIndex device, pool_id id)
{
    for (torch_pool &pool : pools)
        if (!pool.is_ending && pool.device == device && pool.id == id)
            return &pool;
    return nullptr;
}

torch_pool *pool_enter(DeviceIndex device, pool_id id)
{
    torch_pool *pool = pool_find(device, id);
    if (pool == nullptr) {
        pools.push_back({});
        pool = &pools.back();
        pool->id = id;
        pool->device = device;
    }
    pool->uses++;
    return pool;
}

std::string text_of(pool_id id)
{
    return "(" + std::to_string(id.first) + ", " + std::to_string(id.second) + ")";
}

std::string name_of(const torch_pool &pool, const char *kind)
{
    char text[64];
    std::snprintf(text, sizeof(text), "torch pool (%llu, %llu)%s", pool.id.first, pool.id.second,
                  kind);
    return text;
}

/* ---- memory of another allocator ------------------------------------------------------------ */

/* `user` is the torch_pool, which stays until its segments are back. The device is current. */
void *segment_take(size_t bytes, int device, tnr_stream stream, void *user)
{
    auto *pool = static_cast<torch_pool *>(user);
    try {
        void *ptr = pool->inner->raw_alloc_with_stream(bytes, stream);
        if (ptr != nullptr)
            saw_segment(true, ptr, bytes, device, stream, pool->id);
        return ptr;
    } catch (...) {     /* what calls this is C */
        return nullptr; /* it has none; who asked for memory is told of that */
    }
}

void segment_give(void *ptr, size_t bytes, int device, tnr_stream stream, void *user)
{
    auto *pool = static_cast<torch_pool *>(user);
    try {
        saw_segment(false, ptr, bytes, device, stream, pool->id);
        pool->inner->raw_delete(ptr);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "tenure: a MemPool's allocator, at a free: %s\n", error.what());
    } catch (...) { /* what calls this is C */
        std::fprintf(stderr, "tenure: a MemPool's allocator, at a free: what it threw is not a "
                             "exception\n");
    }
}

/* How a pool of Tenure's behind an id is made. `name` must outlive it. */
tnr_pool_options options_of(torch_pool &pool, const std::string &name)
{
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.name = name.c_str();
    if (pool.inner != nullptr) {
        options.segment_alloc = segment_take;
        options.segment_free = segment_give;
        options.segment_user = &pool;
    }
    return options;
}

/* ---- making and ending ---------------------------------------------------------------------- */

tnr_status captured_make(torch_pool &pool)
{
    if (pool.captured != nullptr)
        return TNR_OK;
    std::string name = name_of(pool, "");
    tnr_pool_options options = options_of(pool, name);
    tnr_status status = tnr_graph_pool_create(&pool.captured, pool.device, &options);
    return status == TNR_OK && pool.is_saved ? tnr_graph_pool_vouch(pool.captured) : status;
}

/* True if no capture has allocated from the pool so far. */
bool is_uncaptured(const torch_pool &pool)
{
    tnr_stats stats = {};
    stats.struct_bytes = sizeof(stats);
    return pool.captured == nullptr ||
           (tnr_stats_get(&stats, pool.captured, pool.device) == TNR_OK &&
            stats.allocation[TNR_WORLD_ALL].allocated == 0);
}

tnr_status plain_make(torch_pool &pool)
{
    if (pool.plain != nullptr)
        return TNR_OK;
    bool serves_captures = !pool.is_made && is_uncaptured(pool);
    std::string name = name_of(pool, pool.is_made      ? ""
                                     : serves_captures ? ", cudagraph trees"
                                                       : ", uncaptured");
    tnr_pool_options options = options_of(pool, name);
    /* Beside graphs its blocks stay where they are too: its state may be asked for. */
    tnr_status status = pool.is_made ? tnr_pool_create(&pool.plain, pool.device, &options)
                                     : tnr_vouched_pool_create(&pool.plain, pool.device, &options);
    pool.is_vouched = status == TNR_OK && serves_captures;
    return status;
}

uint64_t reserved_by(tnr_pool handle, DeviceIndex device)
{
    tnr_stats stats = {};
    stats.struct_bytes = sizeof(stats);
    return tnr_stats_get(&stats, handle, device) == TNR_OK ? stats.reserved_bytes.current : 0;
}

/* Forgets the graphs that have ended; true if others live. PyTorch releases a pool right before it
 * destroys the last graph. tnr_pool_destroy would wait then, for what the same thread does next. */
bool has_graphs(torch_pool &pool)
{
    auto has_ended = [](tnr_graph graph) {
        tnr_graph_info info = {};
        info.struct_bytes = sizeof(info);
        return tnr_graph_get(&info, graph) != TNR_OK;
    };
    pool.graphs.erase(std::remove_if(pool.graphs.begin(), pool.graphs.end(), has_ended),
                      pool.graphs.end());
    return !pool.graphs.empty();
}

/* Ends one of Tenure's pools. True: it is gone, or was gone. While it has foreign segments it
 * stays: segments_settle() sends those back first. */
bool handle_end(const torch_pool &pool, tnr_pool &handle)
{
    if (handle != nullptr) {
        if (pool.inner != nullptr && reserved_by(handle, pool.device) > 0)
            return false;
        tnr_status status = tnr_pool_destroy(handle);
        if (status != TNR_OK && status != TNR_ERR_INVALID_POOL)
            return false;
        handle = nullptr;
    }
    return true;
}

/* Of a vouched pool Tenure does not know which graphs use it: their last replays have to be over.
 * False: it cannot be waited for now. */
bool replays_are_over(const torch_pool &pool)
{
    tnr_stats stats = {};
    stats.struct_bytes = sizeof(stats);
    if (pool.plain == nullptr)
        return true;
    if (!routings.empty() || tnr_stats_get(&stats, pool.plain, pool.device) != TNR_OK ||
        stats.allocation[TNR_WORLD_ALL].current > 0)
        return false; /* a capture may be under way, which a wait would end */
    DeviceIndex before = 0;
    if (c10::cuda::GetDevice(&before) != cudaSuccess || cudaSetDevice(pool.device) != cudaSuccess)
        return false;
    bool is_over = cudaDeviceSynchronize() == cudaSuccess;
    (void)cudaGetLastError();
    return cudaSetDevice(before) == cudaSuccess && is_over;
}

/* Sends idle foreign segments of released pools back to their owners. Without the lock. */
void segments_settle()
{
    std::vector<std::pair<tnr_pool, DeviceIndex>> ending;
    {
        std::lock_guard<std::mutex> guard(lock);
        for (const torch_pool &pool : pools)
            if (pool.is_ending && pool.inner != nullptr)
                for (tnr_pool handle : {pool.captured, pool.plain})
                    if (handle != nullptr)
                        ending.emplace_back(handle, pool.device);
    }
    for (const auto &one : ending)
        if (tnr_pool_trim(nullptr, one.first, 0, one.second) != TNR_OK)
            continue; /* it is tried again; or others have ended it */
}

bool is_routed(const torch_pool &pool)
{
    return std::any_of(routings.begin(), routings.end(),
                       [&](const routing &one) { return one.pool == &pool; });
}

/* ---- routings ------------------------------------------------------------------------------- */

bool is_capturing(cudaStream_t stream)
{
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(stream, &status) == cudaSuccess)
        return status != cudaStreamCaptureStatusNone;
    (void)cudaGetLastError(); /* the legacy stream while others capture */
    return false;
}

bool accepts(routing &one, cudaStream_t stream)
{
    /* Once attached Tenure knows the capture's streams itself; and PyTorch's filter, which refers
     * to its graph, may be older than the graph if the capture has failed. It asks whether the
     * stream is being captured, and throws if the driver does not like the question: then the
     * stream is not of this capture. */
    if (one.is_attached)
        return one.pool->is_vouched && is_capturing(stream);
    if (!one.filter)
        return false;
    try {
        return one.filter(stream);
    } catch (...) {
        return false;
    }
}

/* Follows the capture that the stream is in. */
tnr_status routing_attach(routing &one, cudaStream_t stream)
{
    torch_pool &pool = *one.pool;
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    tnr_status status = pool.is_vouched ? TNR_OK : captured_make(pool);
    options.pool = pool.is_vouched ? pool.plain : pool.captured;
    if (status == TNR_OK)
        status = tnr_capture_attach(&one.graph, pool.device, stream, &options);
    one.is_attached = status == TNR_OK;
    if (one.is_attached) {
        (void)has_graphs(pool); /* those that ended make room */
        pool.graphs.push_back(one.graph);
    }
    return status;
}

/* The pool for what a routing accepts; null: Tenure chooses by the capture. */
tnr_pool pool_of_routing(routing &one, cudaStream_t stream)
{
    torch_pool &pool = *one.pool;
    tnr_status status = TNR_ERR_CAPTURE;
    if (!one.is_attached && is_capturing(stream))
        status = routing_attach(one, stream);
    if (status == TNR_OK && !pool.is_vouched)
        return nullptr;
    /* Refused with one of these: the stream is not being captured (nor can the legacy stream be),
     * or whoever captures has attached Tenure already, which then takes no notice of the plain
     * pool. */
    if (status == TNR_ERR_CAPTURE || status == TNR_ERR_INVALID_STREAM)
        status = plain_make(pool);
    if (status != TNR_OK)
        fail_quietly("a pool of PyTorch's");
    return pool.plain;
}

void use_end(torch_pool &pool)
{
    if (pool.uses > 0 && --pool.uses == 0)
        pool.is_ending = true;
}

/* Ends the routings of captures that have come to nothing. PyTorch tells of an end right after its
 * cuStreamEndCapture, on the same thread, and not at all if that has failed: it throws, and the
 * graph will never be released. So if the thread that began is here and the capture is over, there
 * is no graph. */
void routings_settle()
{
    std::lock_guard<std::mutex> guard(lock);
    for (auto at = routings.begin(); at != routings.end();) {
        auto one = at++;
        if (!one->is_attached || one->pool->is_made || one->begun_by != std::this_thread::get_id())
            continue;
        /* Its graph may have ended before: the driver destroys that of a capture that failed. */
        tnr_status status = tnr_capture_ended(one->graph, nullptr);
        if (status != TNR_OK && status != TNR_ERR_INVALID_GRAPH)
            continue;
        use_end(*one->pool);
        routings.erase(one);
        routings_count--;
    }
}

/* Takes the latest routing to a pool out of the list. False: there is none. */
bool routing_take(torch_pool *pool, routing &taken)
{
    for (auto at = routings.begin(); at != routings.end(); ++at)
        if (at->pool == pool) {
            taken = std::move(*at);
            routings.erase(at);
            routings_count--;
            return true;
        }
    return false;
}

} // namespace

bool route(DeviceIndex device, cudaStream_t stream, tnr_pool *pool)
{
    *pool = nullptr;
    std::lock_guard<std::mutex> guard(lock);
    for (routing &one : routings)
        if (one.pool->device == device && accepts(one, stream)) {
            *pool = pool_of_routing(one, stream);
            return true;
        }
    return false;
}

void *take_from_reserve(size_t bytes, DeviceIndex device, cudaStream_t stream)
{
    std::vector<tnr_pool> reserves;
    {
        std::lock_guard<std::mutex> guard(lock);
        for (torch_pool &pool : pools)
            if (pool.is_reserve && !pool.is_ending && pool.device == device &&
                pool.plain != nullptr)
                reserves.push_back(pool.plain);
    }
    for (tnr_pool reserve : reserves) {
        void *ptr = nullptr;
        if (tnr_pool_malloc(&ptr, reserve, bytes, device, stream) == TNR_OK)
            return ptr;
    }
    return nullptr;
}

void pools_end()
{
    std::list<torch_pool> ended; /* they go without the lock, as their owners may with them */
    routings_settle();
    segments_settle();
    std::lock_guard<std::mutex> guard(lock);
    for (auto at = pools.begin(); at != pools.end();) {
        auto next = std::next(at);
        bool is_idle = at->is_ending && !has_graphs(*at);
        bool is_captured_gone = is_idle && handle_end(*at, at->captured);
        bool is_plain_gone = (at->is_vouched ? at->is_ending && replays_are_over(*at) : is_idle) &&
                             handle_end(*at, at->plain);
        if (is_captured_gone && is_plain_gone)
            ended.splice(ended.end(), pools, at);
        at = next; /* a graph or a block of the others still lives */
    }
}

unsigned pools_count()
{
    pools_end();
    std::lock_guard<std::mutex> guard(lock);
    return static_cast<unsigned>(pools.size());
}

pool_id id_of(tnr_pool wanted)
{
    std::lock_guard<std::mutex> guard(lock);
    for (const torch_pool &pool : pools)
        if (wanted != nullptr && (pool.captured == wanted || pool.plain == wanted))
            return pool.id;
    return {0, 0};
}

bool is_foreign(tnr_pool wanted)
{
    std::lock_guard<std::mutex> guard(lock);
    return std::any_of(pools.begin(), pools.end(), [&](const torch_pool &pool) {
        return wanted != nullptr && pool.inner != nullptr &&
               (pool.captured == wanted || pool.plain == wanted);
    });
}

/* ---- PyTorch's calls ------------------------------------------------------------------------ */

void allocator::beginAllocateToPool(DeviceIndex device, pool_id id, stream_filter filter)
{
    pools_end();
    std::lock_guard<std::mutex> guard(lock);
    torch_pool *known = pool_find(device, id);
    TORCH_CHECK(known == nullptr || !is_routed(*known),
                "beginAllocateToPool: already recording to mempool_id " + text_of(id));
    torch_pool *pool = pool_enter(device, id);
    routings.push_front({pool, std::move(filter), std::this_thread::get_id()});
    routings_count++;
}

void allocator::endAllocateToPool(DeviceIndex device, pool_id id)
{
    routing ended = {};
    {
        std::lock_guard<std::mutex> guard(lock);
        torch_pool *pool = pool_find(device, id);
        TORCH_CHECK(pool != nullptr && routing_take(pool, ended),
                    "endAllocateToPool: not currently recording to mempool_id " + text_of(id));
    }
    /* PyTorch ends a routing right after its cuStreamEndCapture, and not if that failed. So this is
     * where the graph can be read, and what it refers to be kept, whatever the program frees from
     * now on. A capture that goes on (use_mem_pool ended by hand) is none of this. */
    if (ended.is_attached && tnr_capture_ended(ended.graph, TNR_CAPTURED_GRAPH) == TNR_ERR_DRIVER)
        fail_quietly("tnr_capture_ended");
}

void allocator::releasePool(DeviceIndex device, pool_id id)
{
    {
        std::lock_guard<std::mutex> guard(lock);
        torch_pool *pool = pool_find(device, id);
        if (pool != nullptr)
            use_end(*pool);
    }
    pools_end();
}

int allocator::getPoolUseCount(DeviceIndex device, pool_id id)
{
    std::lock_guard<std::mutex> guard(lock);
    torch_pool *pool = pool_find(device, id);
    return pool == nullptr ? 0 : pool->uses;
}

void allocator::createOrIncrefPool(DeviceIndex device, pool_id id,
                                   std::shared_ptr<cca::CUDAAllocator> inner)
{
    pools_end();
    std::lock_guard<std::mutex> guard(lock);
    torch_pool *pool = pool_enter(device, id);
    pool->is_made = true;
    if (inner.get() != &instance() && pool->captured == nullptr && pool->plain == nullptr)
        pool->inner = std::move(inner);
}

void allocator::ensureExistsAndIncrefPool(DeviceIndex device, pool_id id)
{
    createOrIncrefPool(device, id);
}

void allocator::setUseOnOOM(DeviceIndex device, pool_id id)
{
    setUseOnOOM(device, id, true);
}

/* Never throws: ~MemPool calls it. */
void allocator::setUseOnOOM(DeviceIndex device, pool_id id, bool is_used)
{
    std::lock_guard<std::mutex> guard(lock);
    torch_pool *pool = pool_find(device, id);
    if (pool != nullptr)
        pool->is_reserve = is_used;
}

void allocator::setNoSplit(DeviceIndex, pool_id)
{
    TORCH_WARN_ONCE("Tenure: no_split has no effect. Tenure has no segments that a block could "
                    "keep from being given back: it gives memory back piece by piece.");
}

/* Which pools of Tenure's an empty_cache of `id` is about. A MemPool that lives keeps what it has
 * unless it is named, as with PyTorch's own allocator; so does a pool that is being allocated from,
 * and one whose graphs Tenure does not know. True: it is about all memory of the device. */
static bool trimmed_pools(DeviceIndex device, pool_id id, std::vector<tnr_pool> &trimmed)
{
    bool is_all = id == pool_id{0, 0}, is_kept = false;
    std::lock_guard<std::mutex> guard(lock);
    for (const torch_pool &pool : pools) {
        if (pool.device != device || !(is_all || pool.id == id))
            continue;
        bool is_live = is_all && pool.is_made && !pool.is_ending;
        if (is_routed(pool) || is_live || pool.is_vouched || pool.is_saved) {
            is_kept = is_kept || is_routed(pool) || is_live;
            continue;
        }
        for (tnr_pool handle : {pool.captured, pool.plain})
            if (handle != nullptr)
                trimmed.push_back(handle);
    }
    if (is_all)
        trimmed.push_back(nullptr);
    return is_all && !is_kept;
}

static void device_trim(DeviceIndex device, pool_id id)
{
    std::vector<tnr_pool> trimmed;
    if (trimmed_pools(device, id, trimmed)) {
        check(tnr_trim(nullptr, 0, device), "tnr_trim");
        return;
    }
    for (tnr_pool handle : trimmed) {
        tnr_status status = tnr_pool_trim(nullptr, handle, 0, device);
        if (status != TNR_ERR_INVALID_POOL) /* it has ended meanwhile */
            check(status, "tnr_pool_trim");
    }
}

/* Of one pool it never throws: ~MemPool calls it, whatever state the device is in. */
void allocator::emptyCache(pool_id id)
{
    std::shared_ptr<c10::GatheredContext> context = context_of_release();
    pools_end();
    imports_settle();
    try {
        for (DeviceIndex device : devices_in_use())
            device_trim(device, id);
    } catch (const c10::Error &) {
        if (id == pool_id{0, 0})
            throw;
        fail_quietly("emptyCache");
    }
    saw_mappings(context);
}

/* ---- for others ----------------------------------------------------------------------------- */

std::vector<tnr_pool> pools_of(DeviceIndex device, pool_id id)
{
    std::vector<tnr_pool> found;
    std::lock_guard<std::mutex> guard(lock);
    torch_pool *pool = pool_find(device, id);
    for (tnr_pool handle :
         {pool == nullptr ? nullptr : pool->captured, pool == nullptr ? nullptr : pool->plain})
        if (handle != nullptr)
            found.push_back(handle);
    return found;
}

bool pools_vouch(DeviceIndex device, pool_id id)
{
    std::lock_guard<std::mutex> guard(lock);
    torch_pool *pool = pool_find(device, id);
    if (pool == nullptr || pool->is_saved)
        return true;
    if (pool->is_made && pool->plain != nullptr)
        return false;
    if (pool->captured != nullptr)
        check(tnr_graph_pool_vouch(pool->captured), "tnr_graph_pool_vouch");
    pool->is_saved = true;
    return true;
}

} // namespace tenure_torch
