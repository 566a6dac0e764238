/* SPDX-License-Identifier: Apache-2.0 */
/* Writing records: see note.h. */
#include "history/note.h"

#include <stdio.h>
#include <string.h>

#include "base/host_memory.h"
#include "history/places.h"
#include "history/texts.h"
#include "pool/library.h"

_Atomic uint64_t tnri_gate_word = TNRI_GATE_STOPPED;

/* ---- words for what there is ---------------------------------------------------------------- */

const char *tnri_kind_text(unsigned kind)
{
    static const char *const texts[] = {
#define KIND_TEXT(name, text) text,
        TNRI_KIND_LIST(KIND_TEXT)
#undef KIND_TEXT
    };
    return kind < TNRI_NOTED_COUNT ? texts[kind] : "?";
}

const char *tnri_why_text(unsigned why)
{
    static const char *const texts[] = {"",
#define WHY_TEXT(name, text) text,
                                        TNR_SERVED_LIST(WHY_TEXT) TNR_REUSE_LIST(WHY_TEXT)
#undef WHY_TEXT
    };
    _Static_assert(sizeof(texts) / sizeof(texts[0]) == TNRI_WHY_COUNT, "each has its text");
    return why < TNRI_WHY_COUNT ? texts[why] : "?";
}

/* ---- one record ----------------------------------------------------------------------------- */

/* A mark of an earlier start of the library is none. Once for each page of records. */
void tnri_note_refresh(tnri_thread *thread)
{
    if (thread->mark_epoch != atomic_load_explicit(&tnri_library_epoch, memory_order_relaxed))
        thread->mark = 0;
    thread->number = tnri_thread_number();
}

/* Writes a record now. */
static void record_write(uint32_t origin, uint32_t order, tnri_kind kind, unsigned why,
                         uintptr_t address, size_t bytes, size_t requested, uint64_t value)
{
    tnri_note_write(tnri_thread_here(), tnri_ticks(), origin, order, kind, why, address, bytes,
                    requested, value);
}

uint32_t tnri_note_stack(void)
{
    if (tnri_thread_here()->stack != 0)
        return 0; /* the call that this one is part of has taken it */
    tnri_thread_here()->stack = tnri_stack_take();
    return tnri_thread_here()->stack;
}

/* ---- an arena's memory ---------------------------------------------------------------------- */

/* Most pools have the name that they were given for want of another; it need not be kept. */
static uint32_t pool_name(const struct tnr_pool_st *pool)
{
    char usual[TNRI_POOL_NAME_BYTES];
    snprintf(usual, sizeof(usual), "pool %u", pool->id);
    return strcmp(usual, pool->name) == 0 ? 0 : tnri_text_number(pool->name, NULL);
}

/* Writes the place of an arena down, and says that it has. */
uint32_t tnri_origin_make(tnri_arena *arena)
{
    const tnr_pool pool = arena->pool;
    const tnri_stream *stream = atomic_load(&arena->stream);
    tnri_origin origin = {
        .device = arena->device->index,
        .pool = pool->id,
        .pool_name = pool_name(pool),
        .is_graph = pool->is_graph,
        .arena = arena->number,
        .stream = tnri_arena_handle(arena),
        .thread = stream == NULL ? 0 : stream->thread,
        .is_ended = stream != NULL && atomic_load(&stream->seal) != NULL,
    };
    arena->origin = tnri_origin_add(&origin);
    if (arena->origin != 0)
        arena->origin_last = arena->origin;
    return arena->origin;
}

void tnri_note_origin_over(tnri_arena *arena)
{
    tnri_origin_end(arena->origin);
    arena->origin = 0;
}

void tnri_note_arena_gone(tnri_arena *arena)
{
    tnri_note_origin_over(arena);
    tnri_origin_gone(arena->origin_last);
}

void tnri_note_reuse(tnri_arena *arena, const tnri_block *block, tnr_reuse reason)
{
    if (!tnri_is_noting())
        return;
    tnri_assert_held(&arena->lock);
    record_write(tnri_arena_origin(arena), arena->order++, TNRI_NOTED_REUSE,
                 TNRI_WHY_REUSE + (unsigned)reason, block->base, block->bytes,
                 tnri_block_requested(block), 0);
}

void tnri_note_grown(tnri_arena *arena, tnri_block *block, size_t requested, size_t grown)
{
    if (!tnri_is_noting())
        return;
    tnri_note_stamp(tnri_thread_here(), tnri_ticks(), block);
    tnri_note_memory(arena, TNRI_NOTED_GROW, block->base, block->bytes, requested, grown);
}

void tnri_note_freed_because(tnri_arena *arena, const tnri_block *block, tnr_reuse reason)
{
    if (!tnri_is_noting())
        return;
    tnri_assert_held(&arena->lock);
    record_write(tnri_arena_origin(arena), arena->order++, TNRI_NOTED_FREE,
                 TNRI_WHY_REUSE + (unsigned)reason, block->base, block->bytes,
                 tnri_block_requested(block), 0);
}

void tnri_note_memory(tnri_arena *arena, tnri_kind kind, uintptr_t address, size_t bytes,
                      size_t requested, uint64_t value)
{
    if (!tnri_is_noting())
        return;
    tnri_assert_held(&arena->lock);
    record_write(tnri_arena_origin(arena), arena->order++, kind, TNRI_WHY_NONE, address, bytes,
                 requested, value);
}

/* ---- pools, and moments --------------------------------------------------------------------- */

void tnri_note_pool(const struct tnr_pool_st *pool, const tnr_stream *stream, tnri_kind kind,
                    size_t bytes, uint64_t value)
{
    if (!tnri_is_noting())
        return;
    tnri_origin origin = {
        .device = pool->device->index,
        .pool = pool->id,
        .pool_name = pool_name(pool),
        .is_graph = pool->is_graph,
        .stream = stream == NULL ? NULL : *stream,
        .has_no_stream = stream == NULL,
        .thread = stream != NULL && *stream == TNRI_STREAM_PER_THREAD ? tnri_thread_number() : 0,
    };
    record_write(tnri_origin_find(&origin), 0, kind, TNRI_WHY_NONE, 0, bytes, bytes, value);
}

void tnri_note_graph(const struct tnr_pool_st *pool, tnr_stream stream, tnri_kind kind,
                     uint64_t number)
{
    if (pool != NULL)
        tnri_note_pool(pool, &stream, kind, 0, number);
    else if (tnri_is_noting())
        record_write(0, 0, kind, TNRI_WHY_NONE, 0, 0, 0, number);
}

void tnri_note_moment(tnri_kind kind)
{
    if (tnri_is_noting())
        record_write(0, 0, kind, TNRI_WHY_NONE, 0, 0, 0, 0);
}

void tnri_note_oom(const tnri_arena *arena, size_t bytes, uint64_t free_bytes)
{
    tnr_stream stream = tnri_arena_handle(arena);
    tnri_note_pool(arena->pool, arena->pool->is_graph ? NULL : &stream, TNRI_NOTED_OOM, bytes,
                   free_bytes);
}
