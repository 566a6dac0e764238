/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The price of memory: how much a pool may spend on moves before it grows.
 *
 *   in use  what is live or retired, in all arenas of the pool
 *   needs   the most that was in use when a request missed, with that request, and a page for
 *           each world of each arena, since the end of what is in use fills no page
 *   holds   what is mapped
 *
 * What a pool would hold above what it needs, if it grew by the request, is lost to the order of
 * its blocks, and a program that repeats itself would lose more in each pass. So the more that is,
 * the more time the pool's moves may take (memory/device/budget.h). A pool that could not grow when
 * it last wanted to moves at any price, until it has grown: to ask the driver in vain costs more
 * than a move.
 *
 * All this is looked at when a request misses, and only then: a peak between two misses needs no
 * new memory.
 */
#ifndef TNRI_MISS_PRICE_H
#define TNRI_MISS_PRICE_H

#include "memory/arena/arena.h"

/* What a pool has in use. */
typedef struct tnri_use {
    uint64_t bytes;
    int arenas;         /* 0: more than TNRI_PRICE_ARENAS, too many to look at */
    uint64_t own_needs; /* the most that the request's arena had in use, with the request: trade.h;
                         * 0: this is its first, or there are too many */
} tnri_use;

/* Looks at the pool of an arena, and raises what both need to that and the request. No lock is
 * held. */
tnri_use tnri_price_look(tnri_arena *own, const tnri_request *request);

/* 1 if a request that has missed may move chunks, rather than that the pool grows by all of it. */
int tnri_price_may_move(tnr_pool pool, const tnri_request *request, const tnri_use *use);

#endif
