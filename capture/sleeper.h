/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sleeper: what is kept of one pool while it sleeps. Made by its first sleep, freed when the pool
 * ends; its lists are empty while the pool is awake.
 *
 * All of it belongs to the thread that has claimed the device's staging.
 */
#ifndef TNRI_CAPTURE_SLEEPER_H
#define TNRI_CAPTURE_SLEEPER_H

#include <tenure/sleep.h>

#include "device/chunk.h"
#include "device/staging.h"
#include "pool/pool.h"

/* A stretch of mapped addresses whose contents are kept. */
typedef struct tnri_kept {
    uintptr_t base;
    size_t bytes;
} tnri_kept;

typedef struct tnri_sleeper {
    tnri_chunk **chunks; /* all of the pool's: chunks_count used of chunks_max */
    size_t chunks_count, chunks_max;
    tnri_kept *kept; /* kept_count used of kept_max, in the order in which they are copied */
    size_t kept_count, kept_max;
    size_t kept_bytes;
    tnri_piece *pieces; /* their contents, one after the other */
    int keeps_pieces;   /* 1: they stay for the next sleep */
    int is_lost;        /* 1: some memory has gone; contents are in the pieces only */
} tnri_sleeper;

/* The pool's sleeper, made if it has none; null without host memory. */
tnri_sleeper *tnri_sleeper_of(tnr_pool pool);

/* Lists the pool's chunks, and what is to be kept of their contents. Nobody works on the pool.
 * TNR_ERR_HOST_MEMORY: the lists are empty. */
tnr_status tnri_sleeper_list(tnri_sleeper *sleeper, tnr_pool pool, tnr_content content);

/* Lists the chunks once more, because some may have gone with an end of the pool that did not come
 * about. TNR_ERR_HOST_MEMORY: the list of chunks is empty, everything else as before. */
tnr_status tnri_sleeper_list_chunks(tnri_sleeper *sleeper, tnr_pool pool);

/* Empties the lists and gives the pieces back. Frees the lists' memory. */
void tnri_sleeper_clear(tnri_sleeper *sleeper, tnri_device *device);

/* Puts copies of everything that is kept on the staging's streams: out, or back in. The caller
 * waits with tnri_staging_wait, also after an error. In the device's context. */
tnr_status tnri_sleeper_copy(tnri_sleeper *sleeper, tnri_device *device, int is_out);

#endif
