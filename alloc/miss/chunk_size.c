/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes of new chunks: see chunk_size.h. */
#include "miss/chunk_size.h"

#include "base/conf/conf.h"
#include "memory/device/device.h"

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

/* The share of it that a new chunk may have: what one wastes is bounded by that. */
static uint64_t chunk_bytes_share(const tnri_plan *plan)
{
    return mapped_bytes(plan) / tnri_conf_get()->chunk_share;
}

/* The largest power of two that divides a request, up to chunk_exact_mb. */
static uint64_t chunk_bytes_exact(const tnri_plan *plan)
{
    uint64_t request = plan->request->bytes;
    return bytes_min(request & (0 - request), tnri_conf_get()->chunk_exact_mb << 20);
}

/* The most that a new chunk may have: the largest of
 *   - that share;
 *   - the power of two that divides the request, if chunk_exact_mb allows: a request of the same
 *     size fills such chunks again, wherever they go, and any other one is kept out by a corner of
 *     it. Not for a step of a block that grows, which tells nothing of what comes after it;
 *   - all of a request that is very large: the driver's own allocation costs as much. Likewise of
 *     one whose chunks other processes attach, each at a price. */
static uint64_t chunk_bytes_most(const tnri_plan *plan)
{
    const tnri_conf *conf = tnri_conf_get();
    uint64_t request = plan->request->bytes;
    uint64_t most = chunk_bytes_share(plan);
    if (!plan->is_growth)
        most = bytes_max(most, chunk_bytes_exact(plan));
    if (plan->arena->account->is_shared || request >= conf->chunk_whole_mb << 20)
        most = request;
    return bytes_min(most, conf->chunk_max_mb << 20);
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
