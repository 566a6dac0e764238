/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes of new chunks: see chunk_size.h. */
#include "ladder/chunk_size.h"

#include "base/heuristics.h"
#include "conf/conf.h"
#include "device/device.h"

static uint64_t bytes_max(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

static uint64_t bytes_min(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

/* All that will be mapped. */
static uint64_t mapped_bytes(const tnri_plan *plan)
{
    const tnri_device *device = plan->arena->device;
    return atomic_load_explicit(&device->reserved_bytes, memory_order_relaxed) +
           ((uint64_t)plan->pages_missing << device->space.page_shift);
}

/* The share of it that a new chunk may have, `times` over: what one wastes is bounded by that. */
static uint64_t chunk_bytes_times(const tnri_plan *plan, uint64_t times)
{
    const tnri_conf *conf = tnri_conf_get();
    uint64_t share = times * (mapped_bytes(plan) / conf->chunk_share);
    uint64_t limit = conf->chunk_max_mb << 20;
    return bytes_min(share, limit);
}

/* The same, up to a part of what is mapped, whatever chunk_share says. */
static uint64_t chunk_bytes_share(const tnri_plan *plan, uint64_t times)
{
    uint64_t share = chunk_bytes_times(plan, 1);
    uint64_t most = mapped_bytes(plan) / TNRI_CHUNK_SHARES_OF;
    return bytes_max(share, bytes_min(chunk_bytes_times(plan, times), most));
}

/* How many times the share a stream may have. What it has freed, beside what it has live, tells how
 * long its blocks live: most of those of one that has freed little stay, and fill large chunks. A
 * request that is large beside what there is would leave a large corner, so less is granted to
 * it. */
static uint64_t share_times(const tnri_plan *plan)
{
    int is_large = plan->request->bytes > mapped_bytes(plan) / TNRI_CHUNK_LARGE_OF;
    uint64_t lives = is_large ? TNRI_CHUNK_LARGE_FREED : TNRI_CHUNK_FREED;
    if (plan->freed / lives > plan->live)
        return 1;
    return is_large ? TNRI_CHUNK_LARGE_TIMES : TNRI_CHUNK_TIMES;
}

/* 1 if the stream has freed next to nothing: it loads what stays, a model perhaps. */
static int is_loading(const tnri_plan *plan)
{
    return plan->freed <= plan->live / TNRI_CHUNK_LOADING_FREED;
}

/* A chunk may be as large as what it is made for while the stream loads. */
static uint64_t chunk_bytes_loading(const tnri_plan *plan)
{
    uint64_t request = plan->request->bytes;
    uint64_t share = chunk_bytes_times(plan, TNRI_CHUNK_LOADING_TIMES);
    uint64_t limit = tnri_conf_get()->chunk_exact_mb << 20;
    return is_loading(plan) ? bytes_min(request, bytes_min(share, limit)) : 0;
}

/* The largest power of two that divides a request, up to chunk_exact_mb, and beyond it for a stream
 * that loads. */
static uint64_t chunk_bytes_exact(const tnri_plan *plan)
{
    uint64_t request = plan->request->bytes;
    uint64_t exact = request & (0 - request);
    uint64_t limit = tnri_conf_get()->chunk_exact_mb << 20;
    uint64_t most = limit;
    if (is_loading(plan)) {
        uint64_t share = chunk_bytes_times(plan, TNRI_CHUNK_LOADING_EXACT_TIMES);
        most = bytes_max(limit, bytes_min(share, limit * TNRI_CHUNK_LOADING_EXACT_LIMITS));
    }
    return bytes_min(exact, most);
}

/* The most that a new chunk may have: the largest of
 *   - that share;
 *   - for a stream that loads, the request, up to chunk_exact_mb;
 *   - the power of two that divides the request, likewise: a request of the same size fills such
 *     chunks again, wherever they go. Neither for a step of a block that grows, which tells nothing
 *     of what comes after it;
 *   - all of a request that is most of what there is, or that is very large: growth, of which a
 *     program has little, and which should cost what the driver's own allocation costs. Likewise of
 *     one whose chunks other processes attach, each at a price;
 *   - of one that is much of what there is, some times the share: it goes again before the peak,
 *     and what comes to lie in a corner of one chunk would keep all of it. */
static uint64_t chunk_bytes_most(const tnri_plan *plan)
{
    const tnri_conf *conf = tnri_conf_get();
    uint64_t request = plan->request->bytes;
    uint64_t whole = conf->chunk_whole_mb << 20;
    uint64_t limit = conf->chunk_max_mb << 20;
    uint64_t most = chunk_bytes_share(plan, share_times(plan));
    uint64_t mapped = mapped_bytes(plan);
    int is_large = request >= whole / TNRI_CHUNK_MOST_SHARE;
    if (!plan->is_growth) {
        most = bytes_max(most, chunk_bytes_loading(plan));
        most = bytes_max(most, chunk_bytes_exact(plan));
    }
    if (is_large && request >= mapped / TNRI_CHUNK_MUCH_OF)
        most = bytes_max(most, chunk_bytes_times(plan, TNRI_CHUNK_MUCH_TIMES));
    if (plan->arena->account->is_shared || request >= whole ||
        (is_large && request >= mapped / TNRI_CHUNK_MOST_OF))
        most = request;
    return bytes_min(most, limit);
}

/* The largest power of two of pages in so many bytes, at least one. */
static size_t pages_floor(const tnri_plan *plan, uint64_t bytes)
{
    size_t most = (size_t)(bytes >> plan->world->space->page_shift);
    size_t pages = 1;
    while (pages * 2 <= most)
        pages *= 2;
    return pages;
}

size_t tnri_chunk_size_pages(const tnri_plan *plan)
{
    size_t pages = pages_floor(plan, chunk_bytes_most(plan));
    while (pages > tnri_plan_room(plan))
        pages /= 2;
    return pages;
}

/* Within the share, or some times that for a stream that has freed no more than it has live. */
size_t tnri_chunk_size_over(const tnri_plan *plan)
{
    size_t room = tnri_plan_room(plan);
    uint64_t times = plan->freed <= plan->live ? TNRI_CHUNK_OVER_TIMES : 1;
    size_t pages = pages_floor(plan, chunk_bytes_share(plan, times));
    if (plan->gap_at + 1 != plan->gaps_count)
        return 0;
    while (pages > room && pages - room > plan->pages_over)
        pages /= 2;
    return pages > room ? pages : 0;
}
