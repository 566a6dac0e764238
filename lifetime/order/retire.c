/* SPDX-License-Identifier: Apache-2.0 */
/* Retiring and ending blocks: see retire.h. */
#include "order/retire.h"

#include "base/conf/conf.h"
#include "base/ticks.h"
#include "memory/arena/free.h"
#include "order/batch.h"
#include "order/pending.h"

/* ---- an arena's life ------------------------------------------------------------------------ */

static void life_append(tnri_life *life, tnri_uses *uses)
{
    tnri_lock_take(&life->lock);
    uses->newer = NULL;
    uses->older = life->newest;
    if (life->newest != NULL)
        life->newest->newer = uses;
    else
        life->oldest = uses;
    life->newest = uses;
    tnri_lock_release(&life->lock);
}

/* Under the lock. */
static void life_unlink(tnri_life *life, tnri_uses *uses)
{
    if (uses->older != NULL)
        uses->older->newer = uses->newer;
    else
        life->oldest = uses->newer;
    if (uses->newer != NULL)
        uses->newer->older = uses->older;
    else
        life->newest = uses->older;
}

/* ---- ending --------------------------------------------------------------------------------- */

/* Ends a block whose pending count this thread has brought to 0. Returns its bytes. */
static size_t block_end(tnri_uses *uses, tnr_reuse reason)
{
    tnri_life *life = atomic_load(&uses->arena->life);
    size_t bytes = uses->bytes;
    tnri_assert(atomic_load(&uses->pending) == 0);
    /* In one piece: who finds the list empty (a pool's end) must find no retired block either. Once
     * the lock is given up, the arena may be gone. */
    tnri_lock_take(&life->lock);
    life_unlink(life, uses);
    tnri_arena_unretire(uses->arena, uses->block, reason);
    tnri_lock_release(&life->lock);
    tnri_uses_free(uses, 0);
    return bytes;
}

size_t tnri_uses_over(tnri_uses *uses, uint32_t count, tnr_reuse reason)
{
    if (atomic_fetch_sub_explicit(&uses->pending, count, memory_order_acq_rel) != count)
        return 0;
    return block_end(uses, reason);
}

/* ---- retiring ------------------------------------------------------------------------------- */

/* Puts the uses that are not over into their streams' heaps. Returns how many are over, or ordered
 * before the block's stream, and whether order was needed for one. */
static uint32_t uses_distribute(tnri_uses *uses, tnri_stream *own, int *by_order)
{
    uint32_t over = 0;
    int policy = tnri_conf_get()->reuse;
    for (tnri_use *use = uses->first; use != NULL; use = use->next) {
        tnri_stream *stream = use->stream;
        if (tnri_stream_is_over(stream, use->number)) {
            over++;
            continue;
        }
        if (policy != TNRI_REUSE_POLL && own != NULL &&
            tnri_stream_is_after(own, stream, use->number, 0)) {
            *by_order = 1;
            over++;
            continue;
        }
        tnri_pending_add(stream, use);
    }
    return over;
}

/* Counts the uses of a block that is retired now; this thread is one that looks at it. Returns the
 * arena's stream, with a reference; null for a graph pool's, and for one that has ended: nothing of
 * it comes after a use. If another stream adopts the arena, it is ordered after this one. Under the
 * arena's lock. */
static tnri_stream *uses_count(tnri_arena *arena, tnri_uses *uses, int fenced)
{
    tnri_stream *own = atomic_load_explicit(&arena->stream, memory_order_relaxed);
    if (own != NULL && atomic_load(&own->seal) != NULL)
        own = NULL;
    if (own != NULL)
        tnri_stream_hold(own);
    uses->bytes = uses->block->bytes;
    if (!uses->is_freed)
        uses->freed_ticks = tnri_ticks();
    /* Other threads get to the list by a lock that is given up later. */
    atomic_store_explicit(&uses->is_unfenced, fenced, memory_order_relaxed);
    uint32_t count = 1;
    for (const tnri_use *use = uses->first; use != NULL; use = use->next)
        count++;
    atomic_store_explicit(&uses->pending, count + (fenced ? 1u : 0u), memory_order_relaxed);
    tnri_life *life = atomic_load(&arena->life);
    atomic_fetch_add(&life->coming, 1);
    return own;
}

/* From there to wherever its uses allow; gives up the reference to the stream. No lock held. */
static void uses_settle(tnri_arena *arena, tnri_uses *uses, tnri_stream *own, int fenced)
{
    tnri_life *life = atomic_load(&arena->life);
    life_append(life, uses);
    atomic_fetch_sub(&life->coming, 1); /* this thread's look keeps the arena */
    int by_order = 0;
    uint32_t over = uses_distribute(uses, own, &by_order);
    if (own != NULL)
        tnri_stream_drop(own);
    if (fenced)
        tnri_batch_add(arena->device, uses);
    (void)tnri_uses_over(uses, over + 1,
                         by_order ? TNR_REUSE_ORDERED_BY_CLOCK : TNR_REUSE_EVENT_DONE);
}

void tnri_retire(tnri_arena *arena, tnri_block *block, int fenced)
{
    tnri_uses *uses = block->uses;
    tnri_stream *own = uses_count(arena, uses, fenced);
    tnri_arena_retire(arena, block);
    tnri_arena_leave(arena);
    uses_settle(arena, uses, own, fenced);
}

/* Marks what is open of a freed block that the caller holds; others may look at it meanwhile. What
 * was marked before a failure stays so. */
static tnr_status freed_mark(tnri_uses *uses)
{
    for (tnri_use *use = uses->first; use != NULL; use = use->next) {
        if (use->until_free != TNRI_UNTIL_FREE_OPEN)
            continue;
        tnri_event *event;
        uint64_t number;
        tnr_status status = tnri_stream_mark(use->stream, &event, &number);
        if (status != TNR_OK)
            return status;
        tnri_arena_enter(uses->arena);
        tnri_event *before = use->event;
        use->event = event;
        use->number = number;
        use->until_free = TNRI_UNTIL_FREE_MARKED;
        tnri_arena_leave(uses->arena);
        tnri_stream_recycle(use->stream, before);
    }
    return TNR_OK;
}

tnr_status tnri_retire_freed(tnri_uses *uses)
{
    tnri_arena *arena = uses->arena;
    tnr_status status = freed_mark(uses);
    if (status != TNR_OK)
        return status;
    tnri_arena_enter(arena);
    if (--uses->holds > 0) { /* it goes on when that one ends */
        tnri_arena_leave(arena);
        return TNR_OK;
    }
    int is_fenced = uses->is_sync || uses->is_orphaned;
    tnri_stream *own = uses_count(arena, uses, is_fenced);
    arena->held_count--;
    tnri_arena_leave(arena);
    uses_settle(arena, uses, own, is_fenced);
    return TNR_OK;
}
