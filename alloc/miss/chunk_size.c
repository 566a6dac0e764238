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

static uint64_t missing_bytes(const tnri_plan *plan)
{
    return (uint64_t)plan->pages_missing << plan->world->space->page_shift;
}

/* The share of all that will be mapped that a new chunk may have: what one wastes is bounded by
 * that. */
static uint64_t chunk_bytes_share(const tnri_plan *plan)
{
    const tnri_device *device = plan->arena->device;
    uint64_t reserved = atomic_load_explicit(&device->reserved_bytes, memory_order_relaxed);
    return (reserved + missing_bytes(plan)) / tnri_conf_get()->chunk_share;
}

/* The largest power of two that divides a request, up to chunk_exact_mb. */
static uint64_t chunk_bytes_exact(const tnri_plan *plan)
{
    uint64_t request = plan->request->bytes;
    return bytes_min(request & (0 - request), tnri_conf_get()->chunk_exact_mb << 20);
}

/* What a new chunk should have if its memory comes and goes; otherwise 0. */
static uint64_t chunk_bytes_again(const tnri_plan *plan)
{
    const tnri_account *account = plan->arena->account;
    uint64_t reserved = atomic_load_explicit(&account->reserved_bytes, memory_order_relaxed);
    return tnri_turnover_chunk_bytes(&account->turnover, reserved + missing_bytes(plan));
}

/* 1 if all that a request misses may be one chunk: what is very large, where the driver's own
 * allocation costs as much; what other processes attach, at a price for each chunk; and what would
 * come and go in larger chunks. */
static int is_whole(const tnri_plan *plan, uint64_t again)
{
    return plan->arena->account->is_shared ||
           plan->request->bytes >= tnri_conf_get()->chunk_whole_mb << 20 ||
           again >= missing_bytes(plan);
}

/* The most that a new chunk may have otherwise: the largest of
 *   - that share;
 *   - what memory should have that comes and goes;
 *   - the power of two that divides the request, if chunk_exact_mb allows: a request of the same
 *     size fills such chunks again, wherever they go, and any other one is kept out by a corner of
 *     it. Not for a step of a block that grows, which tells nothing of what comes after it. */
static uint64_t chunk_bytes_most(const tnri_plan *plan, uint64_t again)
{
    uint64_t most = bytes_max(chunk_bytes_share(plan), again);
    return plan->is_growth ? most : bytes_max(most, chunk_bytes_exact(plan));
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
    size_t room = tnri_plan_room(plan);
    if (room <= 1)
        return room;
    size_t most = (size_t)(tnri_conf_get()->chunk_max_mb << 20 >> plan->world->space->page_shift);
    uint64_t again = chunk_bytes_again(plan);
    size_t pages = is_whole(plan, again) ? room : pages_floor(plan, chunk_bytes_most(plan, again));
    while (pages > room)
        pages /= 2;
    return pages < most ? pages : most;
}
