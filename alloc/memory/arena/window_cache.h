/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The window cache: the windows that a world was given memory for, by the size of the request that
 * each was made for. A program that repeats itself asks for the same sizes when the same chunks are
 * free. Then the window needs no driver call: all of its chunks are still mapped there (alias.h).
 *
 * Tenure takes the oldest cached window for which the arena's own free chunks are enough. So if a
 * pass begins as the one before did, it goes on as that one did: cached windows that were noted
 * since come later, and change nothing. Under the arena's lock.
 */
#ifndef TNRI_ARENA_WINDOW_CACHE_H
#define TNRI_ARENA_WINDOW_CACHE_H

#include "memory/arena/world.h"

typedef struct tnri_cached_window {
    uintptr_t base;
    size_t bytes;       /* 0: forgotten */
    tnri_block *record; /* where the base lay when it was noted, or last asked for */
    uint32_t next;      /* the next newer one in its slot, plus 1; 0: none */
} tnri_cached_window;

/* Notes a window for so many bytes, which begins in that record. Without host memory it is not
 * noted. */
void tnri_window_cache_note(tnri_world *world, tnri_block *record, uintptr_t base, size_t bytes);

/* The oldest cached window for so many bytes that is newer than `before` (null: of all); null:
 * none. */
tnri_cached_window *tnri_window_cache_find(const tnri_world *world, size_t bytes,
                                           const tnri_cached_window *before);

/* The record that the cached window begins in. Null: its addresses have left the world, and the
 * cached window is forgotten. A miss asks about the cached windows of its size, up to
 * TNRI_CACHED_WINDOW_LOOKS of them. Most records are where they were. So the record is not searched
 * for each time. */
tnri_block *tnri_window_cache_record(const tnri_world *world, tnri_cached_window *cached);

#endif
