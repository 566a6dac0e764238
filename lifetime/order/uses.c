/* SPDX-License-Identifier: Apache-2.0 */
/* The uses of a block: see uses.h. */
#include "order/uses.h"

#include "base/error.h"
#include "base/host_memory.h"
#include "memory/device/upper.h"
#include "order/records.h"

static tnri_records use_records = TNRI_RECORDS_INIT(tnri_use);
static tnri_records uses_records = TNRI_RECORDS_INIT(tnri_uses);

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

/* ---- the list of a block -------------------------------------------------------------------- */

/* The block's list, made if it has none. Under the arena's lock. Null: no host memory. */
static tnri_uses *block_uses(tnri_arena *arena, tnri_block *block)
{
    if (block->uses != NULL)
        return block->uses;
    tnri_assert(tnri_upper_collects()); /* what is made here is given back through the table */
    /* The arena's life is made here, so that no free ever lacks the memory for it. */
    tnri_uses *uses = tnri_life_of(arena) == NULL ? NULL : tnri_record_take(&uses_records);
    if (uses == NULL)
        return NULL;
    uses->block = block;
    uses->arena = arena;
    block->uses = uses;
    return uses;
}

/* A zeroed use for the list, or null. */
static tnri_use *use_take(tnri_uses *uses)
{
    for (int i = 0; i < TNRI_USES_FEW; i++)
        if (uses->few[i].owner == NULL)
            return &uses->few[i];
    return tnri_record_take(&use_records);
}

/* 1 if a use lies in its list. */
static int use_is_inside(const tnri_uses *uses, const tnri_use *use)
{
    return (uintptr_t)use - (uintptr_t)uses < sizeof(*uses);
}

/* Gives one back that is not in the list any more. */
static void use_give(tnri_uses *uses, tnri_use *use)
{
    if (!use_is_inside(uses, use))
        tnri_record_give(&use_records, use);
    else if (use != &uses->fence)
        *use = (tnri_use){.owner = NULL};
}

/* A use for the block's list, which the stream has none in, without its reference to the stream. */
static tnri_use *use_make(tnri_arena *arena, tnri_block *block, tnri_stream *stream)
{
    tnri_uses *uses = block_uses(arena, block);
    tnri_use *use = uses == NULL ? NULL : use_take(uses);
    if (tnri_likely(use != NULL)) {
        use->owner = uses;
        use->stream = stream;
        use->next = uses->first;
        uses->first = use;
        return use;
    }
    if (uses != NULL && uses->first == NULL && uses->holds == 0 && uses->captured == NULL) {
        block->uses = NULL;
        tnri_uses_free(uses, 1);
    }
    (void)tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the use of a block.");
    return NULL;
}

tnr_status tnri_use_add(tnri_arena *arena, tnri_block *block, tnri_stream *stream, uint64_t number,
                        tnri_event **event)
{
    tnri_assert_held(&arena->lock);
    tnri_use *use = block->uses == NULL ? NULL : tnri_uses_find(block->uses, stream);
    if (use == NULL) {
        use = use_make(arena, block, stream);
        if (use == NULL)
            return TNR_ERR_HOST_MEMORY;
        tnri_stream_hold(stream);
    }
    if (*event == NULL)
        use->until_free = TNRI_UNTIL_FREE_OPEN;
    else
        *event = tnri_use_advance(use, number, *event);
    return TNR_OK;
}

tnr_status tnri_use_begin(tnri_arena *arena, tnri_block *block, tnri_stream *stream,
                          uint64_t number, tnri_event **event)
{
    tnri_assert_held(&stream->lock);
    tnri_assert_held(&arena->lock);
    tnri_use *use = use_make(arena, block, stream);
    if (use == NULL)
        return TNR_ERR_HOST_MEMORY;
    tnri_stream_hold_spare(stream);
    *event = tnri_use_advance(use, number, *event);
    return TNR_OK;
}

void tnri_use_forget(tnri_uses *uses, uintptr_t key)
{
    tnri_assert_held(&uses->arena->lock);
    for (tnri_use **link = &uses->first; *link != NULL; link = &(*link)->next) {
        tnri_use *use = *link;
        if (use->stream->key != key || use->until_free != TNRI_UNTIL_FREE_OPEN)
            continue;
        *link = use->next;
        tnri_event_drop(use->event);
        tnri_stream_drop(use->stream);
        use_give(uses, use);
        return;
    }
}

void tnri_uses_free(tnri_uses *uses, int is_locked)
{
    while (uses->first != NULL) {
        tnri_use *use = uses->first;
        uses->first = use->next;
        tnri_assert(!use->is_pending);
        if (is_locked) {
            tnri_event_drop(use->event);
            tnri_stream_drop(use->stream);
        } else {
            tnri_stream_let_go(use->stream, use->event);
        }
        use_give(uses, use);
    }
    if (tnri_unlikely(uses->captured != NULL))
        tnri_upper_of(TNRI_ROOM_GRAPH)->captured_gone(uses->captured); /* the list is part of it */
    else
        tnri_record_give(&uses_records, uses);
}

tnr_status tnri_uses_prepare(tnri_arena *arena, tnri_block *block)
{
    tnri_assert_held(&arena->lock);
    if (block_uses(arena, block) != NULL)
        return TNR_OK;
    return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory to retire a block.");
}

tnri_uses *tnri_uses_copy(const tnri_uses *of)
{
    tnri_assert_held(&of->arena->lock);
    tnri_uses *uses = tnri_record_take(&uses_records);
    if (uses == NULL)
        return NULL;
    uses->arena = of->arena;
    uses->is_orphaned = of->is_orphaned;
    for (const tnri_use *use = of->first; use != NULL; use = use->next) {
        if (use->event == NULL)
            continue;
        tnri_use *copy = use_take(uses);
        if (copy == NULL) {
            tnri_uses_free(uses, 1);
            return NULL;
        }
        copy->owner = uses;
        copy->stream = use->stream;
        copy->number = use->number;
        copy->event = use->event;
        tnri_stream_hold(copy->stream);
        tnri_event_hold(copy->event);
        copy->next = uses->first;
        uses->first = copy;
    }
    return uses;
}

/* ---- describing ----------------------------------------------------------------------------- */

size_t tnri_uses_describe(const tnri_uses *uses, tnri_wait *waits, size_t room)
{
    tnri_wait wait = {.base = uses->block->base, .since_ticks = uses->freed_ticks, .graph = -1};
    size_t count = 0;
    if (uses->captured != NULL && uses->freed_ticks == 0)
        return SIZE_MAX;
    if (uses->exports > 0) {
        wait.kind = TNRI_WAIT_EXPORT;
        if (count++ < room)
            waits[count - 1] = wait;
    }
    if (uses->holds > uses->exports) { /* by whom, graph or capture, they tell themselves */
        wait.kind = TNRI_WAIT_GRAPH;
        if (count++ < room)
            waits[count - 1] = wait;
    }
    /* Without a pending use the block is about to be free, or held, and its uses may be changing.
     * */
    if (atomic_load(&uses->pending) == 0)
        return count;
    if (tnri_uses_are_unfenced(uses)) {
        wait.kind = TNRI_WAIT_FREE_SYNC;
        if (count++ < room)
            waits[count - 1] = wait;
        return count; /* the list may be given its fence at this moment */
    }
    for (const tnri_use *use = uses->first; use != NULL; use = use->next) {
        const tnri_stream *stream = use->stream;
        if (tnri_stream_is_over(stream, use->number))
            continue;
        wait.kind = use == &uses->fence ? TNRI_WAIT_FREE_SYNC : TNRI_WAIT_USE;
        wait.stream = stream->handle;
        wait.thread = stream->thread;
        wait.is_ended = atomic_load(&stream->is_dead);
        wait.stream_number = stream->number;
        wait.stream_name = atomic_load(&stream->name);
        wait.mark_number = use->number;
        if (count++ < room)
            waits[count - 1] = wait;
    }
    return count;
}

void tnri_use_records_trim(void)
{
    tnri_records_free(&use_records);
    tnri_records_free(&uses_records);
}

/* ---- order ---------------------------------------------------------------------------------- */

/* Use number `index` of the live block at `ptr`: its stream, with a reference, and its mark; null:
 * there are not so many. */
static tnr_status use_at(tnri_arena *arena, const void *ptr, size_t index, tnri_use *found)
{
    tnr_status status = TNR_OK;
    found->stream = NULL;
    tnri_arena_enter(arena);
    const tnri_block *block = tnri_block_map_at(&tnri_arena_space(arena)->map, (uintptr_t)ptr);
    if (block == NULL || block->base != (uintptr_t)ptr || block->state != TNRI_LIVE)
        status = tnri_error(TNR_ERR_NOT_LIVE, "the block at %p was freed meanwhile.", ptr);
    const tnri_use *use = status != TNR_OK || block->uses == NULL ? NULL : block->uses->first;
    while (use != NULL && index-- > 0)
        use = use->next;
    if (use != NULL) {
        *found = *use;
        tnri_stream_hold(found->stream);
        if (found->until_free != TNRI_UNTIL_FREE_OPEN)
            tnri_event_hold(found->event);
        else
            found->event = NULL;
    }
    tnri_arena_leave(arena);
    return status;
}

tnr_status tnri_uses_order(tnri_arena *arena, const void *ptr, tnri_stream *stream)
{
    tnri_use use;
    tnr_status status = use_at(arena, ptr, 0, &use);
    for (size_t i = 1; status == TNR_OK && use.stream != NULL; i++) {
        if (use.event == NULL)
            status = tnri_stream_mark(use.stream, &use.event, &use.number);
        if (status == TNR_OK && !tnri_stream_is_after(stream, use.stream, use.number, 1))
            status = tnri_stream_follow(stream, use.event, use.stream, use.number);
        tnri_event_drop(use.event);
        tnri_stream_drop(use.stream);
        if (status == TNR_OK)
            status = use_at(arena, ptr, i, &use);
    }
    return status;
}
