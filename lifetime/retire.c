/* SPDX-License-Identifier: Apache-2.0 */
/* Retiring and ending blocks: see retire.h. Collecting is in collect.c. */
#include "retire.h"

#include "announce.h"
#include "arena/count.h"
#include "arena/free.h"
#include "arena/note.h"
#include "arena/world_retired.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/ticks.h"
#include "collect.h"
#include "conf/conf.h"
#include "hold.h"
#include "library/library.h"
#include "pending.h"

/* ---- an arena's life ------------------------------------------------------------------------ */

tnri_life *tnri_life_of(tnri_arena *arena)
{
    tnri_life *life = atomic_load_explicit(&arena->life, memory_order_acquire);
    if (life != NULL)
        return life;
    tnri_life *fresh = tnri_host_alloc(sizeof(*fresh));
    if (fresh == NULL)
        return NULL;
    tnri_lock_init(&fresh->lock, TNRI_RANK_RETIRED);
    void *expected = NULL;
    if (atomic_compare_exchange_strong(&arena->life, &expected, fresh))
        return fresh;
    tnri_host_free(fresh, sizeof(*fresh));
    return expected;
}

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

/* A use of a live block that its free must mark; null if there is none. Under the arena's lock. */
static tnri_use *use_to_mark(const tnri_block *block)
{
    tnri_use *use = block->uses == NULL ? NULL : block->uses->first;
    while (use != NULL && use->until_free != TNRI_UNTIL_FREE_OPEN)
        use = use->next;
    return use;
}

/* The block at `ptr` if it is live and starts there, with the lock taken. */
static int block_lock_start(tnri_arena *arena, tnri_block *block, void *ptr)
{
    tnri_arena_enter(arena);
    if (block->state == TNRI_LIVE && block->base == (uintptr_t)ptr)
        return 1;
    tnri_lock_release(&arena->lock);
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

/* Marks what tnr_record_stream left open. On success the lock is held and nothing is open. */
static tnr_status uses_mark(tnri_arena *arena, tnri_block *block, void *ptr)
{
    for (;;) {
        if (!block_lock_start(arena, block, ptr))
            return tnri_free_refused(arena->device, ptr);
        tnri_use *use = use_to_mark(block);
        if (use == NULL)
            return TNR_OK;
        tnri_stream *stream = use->stream;
        tnri_stream_hold(stream);
        tnri_lock_release(&arena->lock);
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
                tnri_lock_release(&arena->lock);
            }
            tnri_stream_recycle(stream, event);
        }
        tnri_stream_drop(stream);
        if (status != TNR_OK) {
            if (block_lock_start(arena, block, ptr)) {
                uses_reopen(block);
                tnri_lock_release(&arena->lock);
            }
            return status;
        }
    }
}

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
            tnri_stream_is_after(own, stream, use->number)) {
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
    atomic_store(&uses->is_unfenced, fenced);
    uint32_t count = 1;
    for (const tnri_use *use = uses->first; use != NULL; use = use->next)
        count++;
    atomic_store(&uses->pending, count + (fenced ? 1u : 0u));
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

/* LIVE -> RETIRED, and on. Takes the arena's lock over. */
static void block_retire(tnri_arena *arena, tnri_block *block, int fenced)
{
    tnri_uses *uses = block->uses;
    tnri_stream *own = uses_count(arena, uses, fenced);
    tnri_arena_count_freed(arena, block);
    tnri_world_retire(block->world, block);
    tnri_lock_release(&arena->lock);
    uses_settle(arena, uses, own, fenced);
}

/* Marks what is open of a block that nobody else knows of. What was marked before a failure stays
 * so. */
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
        tnri_stream_recycle(use->stream, use->event);
        use->event = event;
        use->number = number;
        use->until_free = TNRI_UNTIL_FREE_MARKED;
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
    int is_fenced = uses->is_sync || uses->is_homeless;
    tnri_stream *own = uses_count(arena, uses, is_fenced);
    arena->held_count--;
    tnri_lock_release(&arena->lock);
    uses_settle(arena, uses, own, is_fenced);
    return TNR_OK;
}

/* tnr_free of a block with uses: the hook of the layer below. */
static tnr_status free_used(tnri_arena *arena, tnri_block *block, void *ptr)
{
    if (tnri_hold_free(arena, block, ptr, 0))
        return TNR_OK;
    tnr_status status = uses_mark(arena, block, ptr);
    if (status == TNR_OK)
        block_retire(arena, block, block->uses != NULL && block->uses->is_homeless);
    return status;
}

static tnr_status block_free_sync(tnri_block *block, void *ptr)
{
    tnri_arena *arena = block->world->arena;
    tnr_status status = TNR_OK;
    if (tnri_unlikely(tnri_capturing()) && tnri_captures_get()->free(arena, block, ptr, 1, &status))
        return status;
    if (tnri_hold_free(arena, block, ptr, 1))
        return TNR_OK;
    status = uses_mark(arena, block, ptr);
    if (status != TNR_OK)
        return status;
    /* A block without a list has no use that was marked, so a failure here has nothing to undo. */
    status = tnri_uses_prepare(arena, block);
    if (status != TNR_OK)
        tnri_lock_release(&arena->lock);
    else
        block_retire(arena, block, 1);
    return status;
}

tnr_status tnr_free_sync(void *ptr)
{
    if (ptr == NULL)
        return TNR_OK;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    tnri_device *device = NULL;
    if (atomic_load_explicit(&tnri_generation, memory_order_acquire) != 0)
        device = tnri_device_of((uintptr_t)ptr);
    if (device == NULL)
        return tnr_free(ptr); /* says what is wrong */
    tnri_block *block = tnri_block_map_at(&device->space.map, (uintptr_t)ptr);
    if (block == NULL)
        return tnri_free_refused(device, ptr);
    tnri_retire_register();
    uint32_t began = tnri_note_begin();
    tnr_status status = block_free_sync(block, ptr);
    tnri_note_end(began);
    return status;
}

/* ---- the other hooks ------------------------------------------------------------------------ */

static void hook_forget(tnri_arena *arena, tnri_block *block)
{
    tnri_assert_held(&arena->lock);
    tnri_uses *uses = block->uses;
    block->uses = NULL;
    tnri_uses_free(uses, 1);
}

static void hook_arena_gone(tnri_arena *arena)
{
    tnri_life *life = atomic_exchange(&arena->life, NULL);
    if (life == NULL)
        return;
    /* Whoever has ended the last block may still be about to give up the lock. */
    tnri_lock_take(&life->lock);
    tnri_assert(life->oldest == NULL);
    tnri_lock_release(&life->lock);
    tnri_host_free(life, sizeof(*life));
}

static void hook_device_gone(tnri_device *device)
{
    tnri_holds_forget(device);
    tnri_announcements_forget(device);
    tnri_use_records_trim();
}

static const tnri_upper upper = {
    .free_used = free_used,
    .collect = tnri_collect_arena,
    .describe = tnri_uses_describe,
    .is_piece = tnri_uses_is_piece,
    .forget = hook_forget,
    .arena_gone = hook_arena_gone,
    .device_gone = hook_device_gone,
};

void tnri_retire_register(void)
{
    if (tnri_likely(tnri_upper_get() != NULL))
        return;
    atomic_store_explicit(&tnri_upper_table, &upper, memory_order_release);
}
