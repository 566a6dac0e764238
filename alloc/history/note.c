/* SPDX-License-Identifier: Apache-2.0 */
/* Writing records: see note.h. */
#include "history/note.h"

#include "base/host_memory.h"
#include "history/places.h"
#include "history/texts.h"
#include "pool/library.h"

_Atomic uint64_t tnri_gate_word;

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
    static const char *const texts[] = {
        "",
#define WHY_TEXT(name, text) text,
        TNR_SERVED_LIST(WHY_TEXT) TNR_REUSE_LIST(WHY_TEXT)
#undef WHY_TEXT
    };
    _Static_assert(sizeof(texts) / sizeof(texts[0]) == TNRI_WHY_COUNT, "each has its text");
    return why < TNRI_WHY_COUNT ? texts[why] : "?";
}

/* ---- one record ----------------------------------------------------------------------------- */

static inline void word_store(tnri_record *record, int word, uint64_t value)
{
    atomic_store_explicit(&record->words[word], value, memory_order_relaxed);
}

/* A mark of an earlier start of the library is none. Once for each page of records. */
static void thread_refresh(tnri_thread *thread)
{
    if (thread->mark_epoch != atomic_load_explicit(&tnri_library_epoch, memory_order_relaxed))
        thread->mark = 0;
    (void)tnri_thread_number();
}

/* Writes a record at `ticks`. */
static inline void record_write(uint64_t ticks, uint32_t origin, uint32_t order, tnri_kind kind,
                                unsigned why, uintptr_t address, size_t bytes, size_t requested,
                                uint64_t value)
{
    tnri_thread *thread = &tnri_this_thread;
    tnri_record *record = tnri_writer_next(&thread->writer);
    if (tnri_unlikely(record == NULL))
        return;
    if (tnri_unlikely(thread->writer.count == 0))
        thread_refresh(thread);
    word_store(record, TNRI_WORD_TICKS, ticks);
    word_store(record, TNRI_WORD_ADDRESS, address);
    word_store(record, TNRI_WORD_BYTES, bytes);
    word_store(record, TNRI_WORD_REQUESTED, requested);
    word_store(record, TNRI_WORD_PLACE, tnri_word_of(origin, order));
    word_store(record, TNRI_WORD_CALLER, tnri_word_of((uint32_t)thread->number, thread->mark));
    word_store(record, TNRI_WORD_WHAT, tnri_word_what(thread->stack, kind, why));
    word_store(record, TNRI_WORD_VALUE, value);
    tnri_writer_done(&thread->writer);
}

uint32_t tnri_note_stack(void)
{
    if (tnri_this_thread.stack != 0)
        return 0; /* the call that this one is part of has taken it */
    tnri_this_thread.stack = tnri_stack_take();
    return tnri_this_thread.stack;
}

/* ---- an arena's memory ---------------------------------------------------------------------- */

/* Writes the place of an arena down, and says that it has. */
static __attribute__((noinline)) uint32_t origin_make(tnri_arena *arena)
{
    const tnr_pool pool = arena->pool;
    tnri_origin origin = {
        .device = arena->device->index,
        .pool = pool->id,
        .pool_name = tnri_text_number(pool->name, NULL),
        .is_graph = pool->is_graph,
        .arena = arena->number,
        .stream = arena->stream,
        .thread = arena->thread,
        .is_ended = arena->seal != NULL,
    };
    arena->origin = tnri_origin_add(&origin);
    return arena->origin;
}

uint32_t tnri_arena_origin(tnri_arena *arena)
{
    return tnri_likely(arena->origin != 0) ? arena->origin : origin_make(arena);
}

void tnri_note_origin_over(tnri_arena *arena)
{
    tnri_origin_end(arena->origin);
    arena->origin = 0;
}

void tnri_note_served(tnri_arena *arena, tnri_block *block, size_t requested, tnr_served served)
{
    tnri_assert_held(&arena->lock);
    uint64_t ticks = tnri_ticks();
    record_write(ticks, tnri_arena_origin(arena), arena->order++, TNRI_NOTED_ALLOC,
                 TNRI_WHY_SERVED + (unsigned)served, block->base, block->bytes, requested, 0);
    block->stamp = (ticks - tnri_ticks_zero) >> TNRI_STAMP_TICKS_SHIFT << TNRI_STAMP_STACK_BITS |
                   tnri_this_thread.stack;
    block->stamped = 1;
}

void tnri_note_freed(tnri_arena *arena, const tnri_block *block, size_t requested)
{
    tnri_assert_held(&arena->lock);
    int waits = block->uses != NULL;
    record_write(tnri_ticks(), tnri_arena_origin(arena), arena->order++,
                 waits ? TNRI_NOTED_RETIRE : TNRI_NOTED_FREE,
                 waits ? TNRI_WHY_NONE : TNRI_WHY_REUSE + TNR_REUSE_SAME_STREAM, block->base,
                 block->bytes, requested, 0);
}

void tnri_note_reuse(tnri_arena *arena, uintptr_t address, size_t bytes, tnr_reuse reason)
{
    if (!tnri_is_noting())
        return;
    tnri_assert_held(&arena->lock);
    record_write(tnri_ticks(), tnri_arena_origin(arena), arena->order++, TNRI_NOTED_REUSE,
                 TNRI_WHY_REUSE + (unsigned)reason, address, bytes, bytes, 0);
}

void tnri_note_memory(tnri_arena *arena, tnri_kind kind, uintptr_t address, size_t bytes,
                      size_t requested, uint64_t value)
{
    if (!tnri_is_noting())
        return;
    tnri_assert_held(&arena->lock);
    record_write(tnri_ticks(), tnri_arena_origin(arena), arena->order++, kind, TNRI_WHY_NONE,
                 address, bytes, requested, value);
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
        .pool_name = tnri_text_number(pool->name, NULL),
        .is_graph = pool->is_graph,
        .stream = stream == NULL ? NULL : *stream,
        .has_no_stream = stream == NULL,
        .thread = stream != NULL && *stream == TNRI_STREAM_PER_THREAD ? tnri_thread_number() : 0,
    };
    record_write(tnri_ticks(), tnri_origin_find(&origin), 0, kind, TNRI_WHY_NONE, 0, bytes, bytes,
                 value);
}

void tnri_note_moment(tnri_kind kind)
{
    if (tnri_is_noting())
        record_write(tnri_ticks(), 0, 0, kind, TNRI_WHY_NONE, 0, 0, 0, 0);
}

void tnri_note_oom(const tnri_arena *arena, size_t bytes, uint64_t device_free)
{
    tnr_stream stream = atomic_load(&arena->stream);
    tnri_note_pool(arena->pool, arena->pool->is_graph ? NULL : &stream, TNRI_NOTED_OOM, bytes,
                   device_free);
}
