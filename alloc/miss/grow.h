/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growable blocks: addresses are reserved once, and memory grows under them from the start on.
 *
 * A growable block has an arena to itself, of the stream that it was reserved for. The arena has
 * one span and one block, and the block begins where the span does:
 *
 *     reserved               is_bare, all of the span is HOLE
 *     committed              LIVE [base, base + committed), HOLE above
 *     growing                the HOLE right above is PENDING
 *     freed                  as any block: RETIRED or FREE, then whatever becomes of free memory
 *
 * The arena is in its pool's list but not in its table, so no request ever finds it: its free
 * memory serves others as chunks that move (step 6 of the ladder), or goes back to the driver. When
 * all of it is HOLE again, the arena serves the next reservation, of any stream.
 *
 * A committed page never moves while the block lives: only FREE memory moves, and the arena has
 * none then. So the record at `base` is the block whenever it is LIVE, and its entry in the map is
 * made once.
 *
 * A block whose first memory comes from tnr_commit_range is a range instead, whose pages get memory
 * and lose it one by one: memory/arena/range.h. Each comes in a chunk of its own, so that it can go
 * back alone.
 */
#ifndef TNRI_MISS_GROW_H
#define TNRI_MISS_GROW_H

#include "memory/arena/arena.h"

/* Gives a new arena its span, of `bytes` or more. TNR_ERR_ADDRESS_SPACE, TNR_ERR_HOST_MEMORY. */
tnr_status tnri_grow_prepare(tnri_arena *arena, size_t bytes);

/* 1 if the arena can take a new reservation of `bytes`, and nobody names its stream. Under the
 * lock. */
int tnri_grow_is_idle(const tnri_arena *arena, size_t bytes);

/* Reserves the block. Under the lock, unless the arena is new. Returns its address. */
void *tnri_grow_reserve(tnri_arena *arena, size_t bytes_max);

/* Frees the growable block of the arena, if it is at `address` and has no memory yet. Returns 1 if
 * it did. Under the lock. */
int tnri_grow_free_bare(tnri_arena *arena, uintptr_t address);

/* Puts memory under the first `bytes` of the block at `ptr`, which leads to this arena. *was_bare:
 * 1 if the block had none before. No lock is held. Errors: tnr_commit's. */
tnr_status tnri_grow_commit(int *was_bare, tnri_arena *arena, void *ptr, size_t bytes);

/* Null, or what is wrong with a growable block's arena. Under the lock. */
const char *tnri_grow_validate(const tnri_arena *arena);

#endif
