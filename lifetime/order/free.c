/* SPDX-License-Identifier: Apache-2.0 */
/* Frees of blocks that have uses: see free.h. */
#include "order/free.h"

#include <stdatomic.h>

#include "order/announced.h"
#include "memory/arena/free.h"
#include "base/prim/calm.h"
#include "base/gate.h"
#include "order/batch.h"
#include "gpu/backend.h"
#include "log/stacks.h"
#include "order/hold.h"
#include "miss/park.h"
#include "api/library.h"
#include "memory/device/upper.h"
#include "order/retire.h"
#include "see/trap/look.h"

/* A use of a live block that its free must mark; null if there is none. Under the arena's lock. */
static tnri_use *use_to_mark(const tnri_block *block)
{
    tnri_use *use = block->uses == NULL ? NULL : block->uses->first;
    while (use != NULL && use->until_free != TNRI_UNTIL_FREE_OPEN)
        use = use->next;
    return use;
}

/* The block at `ptr` if it is live and starts there, with the lock taken. */
static inline int block_lock_start(tnri_arena *arena, tnri_block *block, void *ptr)
{
    tnri_arena_enter(arena);
    if (block->state == TNRI_LIVE && block->base == (uintptr_t)ptr)
        return 1;
    tnri_arena_leave(arena);
    return 0;
}

/* A free that has marked uses does not come about: they end at the next one instead. Under the
 * arena's lock. */
static void uses_reopen(const tnri_block *block)
{
    for (tnri_use *use = block->uses == NULL ? NULL : block->uses->first; use != NULL;
         use = use->next)
        if (use->until_free == TNRI_UNTIL_FREE_MARKED)
            use->until_free = TNRI_UNTIL_FREE_OPEN;
}

/* Marks what tnr_record_stream left open. On success the lock is held and nothing is open, unless
 * *is_later: then the block is freed, and what is open is marked later. */
static tnr_status uses_mark(tnri_arena *arena, tnri_block *block, void *ptr, int is_sync,
                            int *is_later)
{
    *is_later = 0;
    for (int looks = 0;; looks++) {
        if (!block_lock_start(arena, block, ptr))
            return tnri_free_refused(arena->device, ptr);
        tnri_use *use = use_to_mark(block);
        if (use == NULL)
            return TNR_OK;
        TNRI_CALM; /* the stream is held */
        tnri_stream *stream = use->stream;
        tnri_stream_hold(stream);
        tnri_arena_leave(arena);
        /* A thread that is asked under a stream's lock may be waiting for the host function. */
        if (looks == 0 && tnri_gpu_in_host_function()) {
            tnri_stream_drop(stream);
            *is_later = tnri_free_later(arena, block, ptr, is_sync);
            return *is_later ? TNR_OK : tnri_free_refused(arena->device, ptr);
        }
        tnri_event *event;
        uint64_t number;
        tnr_status status = tnri_stream_mark(stream, &event, &number);
        if (status == TNR_OK) {
            if (!block_lock_start(arena, block, ptr)) {
                status = tnri_free_refused(arena->device, ptr);
            } else {
                /* The use exists, so entering its mark allocates nothing. */
                status = tnri_use_add(arena, block, stream, number, &event);
                for (use = block->uses->first; use->stream != stream; use = use->next)
                    ;
                use->until_free = TNRI_UNTIL_FREE_MARKED;
                tnri_arena_leave(arena);
            }
            tnri_stream_recycle(stream, event);
        }
        tnri_stream_drop(stream);
        if (status != TNR_OK) {
            if (block_lock_start(arena, block, ptr)) {
                uses_reopen(block);
                tnri_arena_leave(arena);
            }
            return status;
        }
    }
}

/* A block that could not be freed because it is not live: frees it if it is parked, with the
 * outcome in *status. Its uses were over for its stream when it was parked. A graph that refers to
 * it could be launched afterwards, and would need its memory. */
static void parked_free(tnri_arena *arena, const tnri_block *block, void *ptr, tnr_status *status)
{
    int is_parked = 0, is_held = 1;
    for (int looks = 0; looks < 2 && is_held; looks++) {
        if (looks > 0)
            (void)tnri_uppers_settle(arena->device, 0); /* graphs may have ended unseen */
        tnri_arena_enter(arena);
        is_parked = block->state == TNRI_PARKED && block->base == (uintptr_t)ptr;
        is_held = is_parked && block->uses != NULL && block->uses->holds > 0;
        tnri_arena_leave(arena);
    }
    if (is_held)
        *status = tnri_parked_error(ptr, "a CUDA graph refers to it");
    else if (is_parked && tnri_parked_free(arena, ptr))
        *status = TNR_OK;
}

/* Has an offer end whose block was freed just now. */
static tnr_status offers_withdraw(tnri_device *device)
{
    if (tnri_unlikely(atomic_load_explicit(&tnri_offers_freed, memory_order_relaxed) != 0))
        (void)tnri_upper_settle(TNRI_ROOM_SHARE, device);
    return TNR_OK;
}

tnr_status tnri_free_ordered(tnri_arena *arena, tnri_block *block, void *ptr, int is_sync)
{
    if (tnri_unlikely(is_sync))
        return tnri_free_sync(block, ptr, 0);
    if (tnri_hold_free(arena, block, ptr, 0))
        return offers_withdraw(arena->device);
    int is_later;
    tnr_status status = uses_mark(arena, block, ptr, 0, &is_later);
    if (status == TNR_OK && !is_later)
        tnri_retire(arena, block, block->uses != NULL && block->uses->is_orphaned);
    else if (status != TNR_OK)
        parked_free(arena, block, ptr, &status);
    return status;
}

enum { TRAPPED_WAIT_MS = 1000, TRAPPED_WAITS_MS = 5000 };

/* What such waits that came to nothing may still take, of the whole process. */
static atomic_uint trapped_waits_ms = TRAPPED_WAITS_MS;

/* With traps: what is to be done to a block once the device is through with it is enqueued now, so
 * that it comes before whatever the program does next on the streams that are busy. With `waits`
 * also before what it does on others: the host waits as in cudaFree, but within bounds, because a
 * stream may wait for the host. Where nothing can be enqueued, it is done later. */
static TNRI_SELDOM void fence_at_once(tnri_device *device, int waits)
{
    tnri_visit visit;
    tnri_stream *proxy;
    tnri_event *event;
    uint64_t number;
    if (tnri_device_enter(device, &visit) != TNR_OK)
        return;
    if (tnri_batch_fence(device) == TNR_OK && waits &&
        tnri_proxy_stream(device, &proxy) == TNR_OK &&
        tnri_stream_mark(proxy, &event, &number) == TNR_OK) {
        unsigned left_ms = atomic_load(&trapped_waits_ms);
        unsigned wait_ms = left_ms < TRAPPED_WAIT_MS ? left_ms : TRAPPED_WAIT_MS;
        if (tnri_event_wait_until(event, tnri_clock_ns() + wait_ms * UINT64_C(1000000)))
            tnri_looks_poll(device);
        else
            (void)atomic_compare_exchange_strong(&trapped_waits_ms, &left_ms, left_ms - wait_ms);
        tnri_stream_recycle(proxy, event);
    }
    tnri_device_leave(&visit);
}

tnr_status tnri_free_sync(tnri_block *block, void *ptr, int waits)
{
    tnri_arena *arena = block->world->arena;
    int is_trapped = (tnri_gate() & TNRI_GATE_TRAPS) != 0;
    uint32_t freed_stack = is_trapped ? tnri_stack_take() : 0;
    tnr_status status = TNR_OK;
    if (tnri_unlikely(tnri_capturing())) {
        status = tnri_upper_of(TNRI_ROOM_GRAPH)->free(arena, block, ptr, 1);
        if (status != TNR_ERR_NOT_LIVE)
            return status;
    }
    if (tnri_hold_free(arena, block, ptr, 1))
        return offers_withdraw(arena->device);
    int is_later;
    status = uses_mark(arena, block, ptr, 1, &is_later);
    if (is_later)
        return TNR_OK;
    if (status != TNR_OK) {
        parked_free(arena, block, ptr, &status);
        return status;
    }
    /* A block without a list has no use that was marked, so a failure here has nothing to undo. */
    status = tnri_uses_prepare(arena, block);
    if (status != TNR_OK) {
        tnri_arena_leave(arena);
        return status;
    }
    block->uses->freed_stack = freed_stack;
    tnri_retire(arena, block, 1);
    if (is_trapped)
        fence_at_once(arena->device, waits);
    return TNR_OK;
}
