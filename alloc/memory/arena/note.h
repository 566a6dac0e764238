/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the history what happens to an arena's memory, and to a pool.
 *
 * Tenure notes and numbers what happens to an arena's memory under the arena's lock. So the arena's
 * records have an order that no clock can blur.
 *
 * Stamps. A block that is handed out while operations are recorded gets a stamp: when, and from
 * which stack. So a snapshot knows this of each live block, even if the history's record was
 * overwritten long ago. The stamp lies in the link of the block's record, which a live block does
 * not need.
 */
#ifndef TNRI_ARENA_NOTE_H
#define TNRI_ARENA_NOTE_H

#include "log/note.h"
#include "memory/arena/arena.h"
#include "memory/device/account.h"

/* A stamp: ticks since the moment 0 in units of 4,096, and the number of a stack. */
enum { TNRI_STAMP_STACK_BITS = 22, TNRI_STAMP_TICKS_SHIFT = 12 };
_Static_assert(TNRI_STACKS_MAX < 1 << TNRI_STAMP_STACK_BITS, "a stamp has room for each stack");

/* The memory of a retired block is free; under the lock. */
void tnri_note_reuse(tnri_arena *arena, const tnri_block *block, tnr_reuse reason);
/* A growable block is `grown` bytes larger, or more of it is asked for now; under the lock. Stamps
 * it. */
void tnri_note_grown(tnri_arena *arena, tnri_block *block, size_t requested, size_t grown);
/* A live block is being freed, and its memory is free at once, but not because the stream is the
 * same; under the lock. */
void tnri_note_freed_because(tnri_arena *arena, const tnri_block *block, tnr_reuse reason);
/* Anything else that happened to an arena's memory; under its lock. */
void tnri_note_memory(tnri_arena *arena, tnri_kind kind, uintptr_t address, size_t bytes,
                      size_t requested, uint64_t value);

/* Something that happened to a pool, and to a stream (null: none). No arena's lock is held. With a
 * stream, no lock is held that comes after the one of the registry of streams. */
void tnri_note_pool(const tnri_account *pool, const tnr_stream *stream, tnri_kind kind,
                    size_t bytes, uint64_t value);
/* Something that happened to the capture of a graph into the pool. */
void tnri_note_graph(const tnri_account *pool, tnr_stream stream, tnri_kind kind, uint64_t number);

/* A launch that was noted. */
typedef struct tnri_noted_launch {
    uint64_t ticks; /* when; 0: it was not noted */
    uint32_t origin;
} tnri_noted_launch;

/* A graph was launched on a stream; `pool` is what it was captured into, null for a graph that was
 * not captured through Tenure. */
tnri_noted_launch tnri_note_launch(const struct tnri_device *device, const tnri_account *pool,
                                   tnr_stream stream, uint64_t number);
/* Its end was seen now. The record's value is the moment of the launch, in ticks. */
void tnri_note_launch_over(tnri_noted_launch launch);
/* An allocation failed; `free_bytes` could still have been had. */
void tnri_note_oom(const tnri_arena *arena, size_t bytes, uint64_t free_bytes);

/* The arena's origin, written down if it is not yet; 0 if there is no host memory. Under its
 * lock. */
uint32_t tnri_origin_make(tnri_arena *arena);
static inline uint32_t tnri_arena_origin(tnri_arena *arena)
{
    return tnri_likely(arena->origin != 0) ? arena->origin : tnri_origin_make(arena);
}

/* ---- the cached path ------------------------------------------------------------------------ */

static inline void tnri_note_stamp(const tnri_note_thread *thread, uint64_t ticks,
                                   tnri_block *block)
{
    block->stamp = (ticks - tnri_ticks_zero) >> TNRI_STAMP_TICKS_SHIFT << TNRI_STAMP_STACK_BITS |
                   thread->stack;
    block->stamped = 1;
}

/* A block became live; under the arena's lock. Stamps it. The ticks and the thread are looked up
 * before the lock is taken, where they cost less. So the time of a record may be earlier than its
 * place in the arena's order; a reader repairs that. */
static inline __attribute__((always_inline)) void tnri_note_served(
    tnri_note_thread *thread, uint64_t ticks, tnri_arena *arena, tnri_block *block,
    size_t requested, tnr_served served)
{
    tnri_assert_held(&arena->lock);
    tnri_note_stamp(thread, ticks, block);
    tnri_note_write(thread, ticks, tnri_arena_origin(arena), arena->order++, TNRI_NOTED_ALLOC,
                    TNRI_WHY_SERVED + (unsigned)served, block->base, block->bytes, requested, 0);
}

/* A live block is being freed; under the lock. */
static inline __attribute__((always_inline)) void tnri_note_freed(tnri_note_thread *thread,
                                                                  uint64_t ticks, tnri_arena *arena,
                                                                  const tnri_block *block)
{
    tnri_assert_held(&arena->lock);
    int waits = block->uses != NULL;
    tnri_note_write(thread, ticks, tnri_arena_origin(arena), arena->order++,
                    waits ? TNRI_NOTED_RETIRE : TNRI_NOTED_FREE,
                    waits ? TNRI_WHY_NONE : TNRI_WHY_REUSE + TNR_REUSE_SAME_STREAM, block->base,
                    block->bytes, tnri_block_requested(block), 0);
}

#endif
