/* SPDX-License-Identifier: Apache-2.0 */
/* Where a request fits with the fewest pages that lack memory: the first step of plan.h. */
#ifndef TNRI_MISS_WINDOW_H
#define TNRI_MISS_WINDOW_H

#include "memory/arena/world.h"

typedef struct tnri_window {
    tnri_block *first;    /* the FREE or HOLE record that `base` lies in */
    uintptr_t base, end;  /* what the request needs, beginning at its alignment */
    size_t pages_missing; /* pages of HOLE records that it touches */
} tnri_window;

/* Finds the best window of `bytes` at a multiple of `alignment` in the world; 0 if no stretch of
 * free addresses has one. FREE runs above `run_bytes_max` are not part of a stretch. Looks at a
 * bounded number of stretches. Under the arena's lock. */
int tnri_window_find(const tnri_world *world, size_t bytes, size_t alignment, size_t run_bytes_max,
                     tnri_window *window);

/* 1 if a window at `base` is one for a large block of whole pages, and begins with a page. Such a
 * block is to lie there and nowhere else in the run that the window becomes part of. Never where
 * chunks do not move. */
int tnri_window_is_whole(const tnri_world *world, uintptr_t base, size_t bytes);

#endif
