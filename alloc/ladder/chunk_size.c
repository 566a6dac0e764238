/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes of new chunks: see chunk_size.h. */
#include "ladder/chunk_size.h"

#include "base/heuristics.h"
#include "conf/conf.h"
#include "device/device.h"

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
    return share < limit ? share : limit;
}

/* Whether the stream fills: it has freed no more than it has live. So it loads what stays, a model
 * perhaps, and hardly any of it will lie in a corner of a chunk that is free otherwise. A request
 * that is large beside what there is must have seen next to nothing freed: with the first frees
 * come blocks that pass. */
static int is_filling(const tnri_plan *plan)
{
    int is_large = plan->request->bytes > mapped_bytes(plan) / TNRI_FILLING_LARGE_OF;
    return plan->freed <= (is_large ? plan->live / TNRI_FILLING_FREED : plan->live);
}

/* The share as a stream's past allows it. */
static uint64_t chunk_bytes_share(const tnri_plan *plan)
{
    uint64_t share = chunk_bytes_times(plan, 1);
    uint64_t most = mapped_bytes(plan) / TNRI_FILLING_OF;
    if (share >= most || !is_filling(plan))
        return share;
    uint64_t filling = chunk_bytes_times(plan, TNRI_FILLING_TIMES);
    return filling < most ? filling : most;
}

/* The most that a new chunk may have: the largest of
 *   - that share, which is larger as long as the stream fills;
 *   - the power of two that divides the request, up to chunk_exact_mb: a request of the same size
 *     fills such chunks again, wherever they go. Not for a step of a block that grows, which tells
 *     nothing of what comes after it;
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
    uint64_t most = chunk_bytes_share(plan);
    uint64_t mapped = mapped_bytes(plan);
    uint64_t exact_most = conf->chunk_exact_mb << 20;
    uint64_t exact = request & (0 - request); /* the largest power of two that divides it */
    int is_large = request >= whole / TNRI_CHUNK_MOST_SHARE;
    if (exact > exact_most)
        exact = exact_most;
    if (!plan->is_growth && most < exact)
        most = exact;
    if (is_large && request >= mapped / TNRI_CHUNK_MUCH_OF) {
        uint64_t much = chunk_bytes_times(plan, TNRI_CHUNK_MUCH_TIMES);
        if (most < much)
            most = much;
    }
    if (plan->arena->account->is_shared || request >= whole ||
        (is_large && request >= mapped / TNRI_CHUNK_MOST_OF))
        most = request;
    return most < limit ? most : limit;
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

/* Within the share of any stream. */
size_t tnri_chunk_size_over(const tnri_plan *plan)
{
    size_t room = tnri_plan_room(plan);
    size_t pages = pages_floor(plan, chunk_bytes_times(plan, 1));
    if (plan->gap_at + 1 != plan->gaps_count)
        return 0;
    while (pages > room && pages - room > plan->pages_over)
        pages /= 2;
    return pages > room ? pages : 0;
}
