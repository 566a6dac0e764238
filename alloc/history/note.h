/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes: where the rest of the library tells the history what happened.
 *
 * What happens to an arena's memory is noted under the arena's lock and numbered there, so that its
 * records have an order that no clock can blur. Everything here does nothing unless the gate says
 * that operations are recorded; whoever is on a cached path asks the gate himself.
 *
 * Stamps. A block that is handed out while operations are recorded is stamped: when, and from which
 * stack. So a snapshot knows this of each live block, however long ago its record was overwritten.
 * The stamp lies in the record's link, which a live block does not need.
 */
#ifndef TNRI_HISTORY_NOTE_H
#define TNRI_HISTORY_NOTE_H

#include "base/ticks.h"
#include "history/gate.h"
#include "history/record.h"
#include "history/stacks.h"
#include "pool/thread.h"

struct tnr_pool_st;
struct tnri_device;

/* A stamp: ticks since the moment 0 in units of 4,096, and the number of a stack. */
enum { TNRI_STAMP_STACK_BITS = 22, TNRI_STAMP_TICKS_SHIFT = 12 };
_Static_assert(TNRI_STACKS_MAX < 1 << TNRI_STAMP_STACK_BITS, "a stamp has room for each stack");

static inline int tnri_is_noting(void)
{
    return (tnri_gate() & TNRI_GATE_LIGHT) != 0;
}

/* Around a call of the program's: its stack, if stacks are wanted, is that of all records until the
 * end. They nest. No lock is held. Returns what tnri_note_end wants. */
uint32_t tnri_note_stack(void);
static inline uint32_t tnri_note_begin(void)
{
    return tnri_unlikely((tnri_gate() & TNRI_GATE_STACKS) != 0) ? tnri_note_stack() : 0;
}
static inline void tnri_note_end(uint32_t began)
{
    if (tnri_unlikely(began != 0))
        tnri_this_thread.stack = 0;
}

/* A block became live; under the arena's lock. Stamps it. */
void tnri_note_served(tnri_arena *arena, tnri_block *block, size_t requested, tnr_served served);
/* A live block is being freed, of which so much was asked for; under the lock. */
void tnri_note_freed(tnri_arena *arena, const tnri_block *block, size_t requested);
/* The memory of [address, address + bytes), which was retired, is free, or handed out once more;
 * under the lock. */
void tnri_note_reuse(tnri_arena *arena, uintptr_t address, size_t bytes, tnr_reuse reason);
/* Anything else that happened to an arena's memory; under its lock. */
void tnri_note_memory(tnri_arena *arena, tnri_kind kind, uintptr_t address, size_t bytes,
                      size_t requested, uint64_t value);

/* Something that happened to a pool, and to a stream (null: none). No arena's lock needs to be
 * held. */
void tnri_note_pool(const struct tnr_pool_st *pool, const tnr_stream *stream, tnri_kind kind,
                    size_t bytes, uint64_t value);
/* Something that concerns no memory in particular. */
void tnri_note_moment(tnri_kind kind);

/* An allocation failed. */
void tnri_note_oom(const tnri_arena *arena, size_t bytes, uint64_t device_free);

/* The arena goes to another stream, or its stream is destroyed, or it ends: what is recorded of it
 * from now on has another origin. Under its lock, or while nobody else knows it. */
void tnri_note_origin_over(tnri_arena *arena);

/* The arena's origin, written down if it is not yet; 0 if there is no host memory. Under its
 * lock. */
uint32_t tnri_arena_origin(tnri_arena *arena);

#endif
