/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replacing a chunk by smaller ones that lie at the same addresses and leave out the pages that are
 * free. The chunk's pool is not awake, nobody works on it, and all work that may use the memory is
 * over (compact.c).
 *
 * By the device: new chunks are made and mapped at addresses of their own, what is in use is copied
 * there, and then the new chunks take the old one's place. Up to that moment nothing has changed,
 * and from it on the new chunks have the contents. So a chunk that the driver refuses to map needs
 * only to be mapped: if it refuses that once more, the pool is asleep, and a wake goes on from
 * wherever each chunk is (tnri_chunk_state).
 *
 * By way of the host, where the device has no memory for the copy: as a sleep and a wake of that
 * chunk alone. If the driver refuses the way back, the pool is asleep with what is in host memory.
 *
 * All of it is for the thread that has claimed the device's staging, in the device's context, with
 * no lock held.
 */
#ifndef TNRI_AWAY_REPLACE_H
#define TNRI_AWAY_REPLACE_H

#include "away/sleeper.h"
#include "memory/arena/arena.h"
#include "memory/device/chunk.h"

/* Free pages that are to go, cut out of a run so that nobody is served from them. */
typedef struct tnri_loose {
    tnri_block *stale; /* null: they are a HOLE now */
    tnri_chunk *chunk;
    size_t page, pages;
    size_t chunk_used; /* pages of the chunk that stay */
} tnri_loose;

/* One of the chunks that replace another. */
typedef struct tnri_piece {
    size_t page, pages;
    tnri_chunk *chunk;
} tnri_piece;

typedef struct tnri_replacing {
    tnr_pool pool;
    tnri_sleeper
        *sleeper;      /* of the pool; its list of chunks is made, and `kept` has room for one */
    tnri_loose *loose; /* all of the chunk's, by address; count of them */
    size_t count;
    int is_asleep; /* out: 1: the driver refused the way back, and the pool has to sleep */

    tnri_piece *pieces; /* pieces_count used of count + 1 */
    size_t pieces_count, pieces_pages;
} tnri_replacing;

/* By the device. On success the loose pages are a HOLE, and the sleeper needs nothing. On an error
 * nothing has changed, unless is_asleep. TNR_ERR_OUT_OF_MEMORY and TNR_ERR_LIMIT: there is no
 * memory for the copy, or a limit is in the way. */
tnr_status tnri_replace(tnri_replacing *self);

/* By way of the host, the same. TNR_ERR_OUT_OF_MEMORY and TNR_ERR_LIMIT: what the chunk gives back
 * could not be had again. */
tnr_status tnri_replace_by_host(tnri_replacing *self);

#endif
