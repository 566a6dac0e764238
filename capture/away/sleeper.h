/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sleeper: what is kept of one pool while it sleeps. Made by its first sleep, freed when the pool
 * ends; its lists are empty while the pool is awake.
 *
 * Contents are counted from the first kept byte on, in the order in which they are copied. A chunk
 * knows how many of these bytes must be out before it may go (tnri_chunk.kept_until). Marks on the
 * stream of the copies tell how many are out.
 *
 * All of it belongs to the thread that has claimed the device's staging.
 */
#ifndef TNRI_AWAY_SLEEPER_H
#define TNRI_AWAY_SLEEPER_H

#include <tenure/sleep.h>

#include "away/staging.h"
#include "memory/device/chunk.h"
#include "memory/device/event.h"
#include "memory/pool/pool.h"

/* A stretch of mapped addresses whose contents are kept. */
typedef struct tnri_kept {
    uintptr_t base;
    size_t bytes;
} tnri_kept;

/* The end of copies out. */
typedef struct tnri_mark {
    tnri_event *event; /* one reference */
    size_t until;      /* contents up to here are in the buffers when it is over */
} tnri_mark;

/* So many are enough: only the work on the chunks of the last stretch has no copy that runs beside
 * it. */
enum { TNRI_MARKS_MAX = 64 };

typedef struct tnri_sleeper {
    tnri_chunk **chunks; /* all of the pool's: chunks_count used of chunks_room */
    size_t chunks_count, chunks_room;
    tnri_kept *kept; /* kept_count used of kept_room, in the order in which they are copied */
    size_t kept_count, kept_room;
    size_t kept_bytes;
    tnri_buffer *buffers; /* their contents, one after the other */
    int keeps_buffers;    /* 1: they stay for the next sleep */
    int is_on_disk;       /* 1: they are files */
    int is_lost;          /* 1: some memory has gone */
    /* Contents up to here are in the buffers, or will be after a wait for the staging. That is all
     * of them, except after a sleep that failed: then the contents behind are where they were, in
     * chunks that have not gone. */
    size_t kept_out;

    /* Only while it falls asleep. */
    tnri_mark marks[TNRI_MARKS_MAX]; /* not yet waited for: marks_first to marks_count */
    unsigned marks_first, marks_count;
    size_t copied;  /* contents up to here are known to be in the buffers */
    size_t lowered; /* chunks that were lowered, in their order */
} tnri_sleeper;

/* The pool's sleeper, made if it has none; null without host memory. */
tnri_sleeper *tnri_sleeper_of(tnr_pool pool);

/* The pool is about to be taken apart: it has no live block any more, or loses them all. Waits for
 * copies, and lets the contents go. If the pool's end fails half-way, what is left of it can still
 * be woken, without contents. In the context, as the next. */
tnr_status tnri_sleeper_settle(tnr_pool pool);
/* The pool has ended: frees what was kept of it. */
void tnri_sleeper_end(tnr_pool pool);

/* Lists the pool's chunks, and what is to be kept of their contents. Nobody works on the pool.
 * TNR_ERR_HOST_MEMORY: the lists are empty. */
tnr_status tnri_sleeper_list(tnri_sleeper *sleeper, tnr_pool pool, tnr_content content);

/* Lists the chunks once more, because some may have gone when the pool was to end and did not.
 * TNR_ERR_HOST_MEMORY: the list of chunks is empty, everything else as before. */
tnr_status tnri_sleeper_list_chunks(tnri_sleeper *sleeper, tnr_pool pool);

/* Empties the lists and gives the buffers back. Frees the lists' memory. */
void tnri_sleeper_clear(tnri_sleeper *sleeper, tnri_device *device);

/* 1 if a chunk has contents that exist nowhere else. */
static inline int tnri_sleeper_needs(const tnri_sleeper *sleeper, const tnri_chunk *chunk)
{
    return sleeper->kept_count > 0 && chunk->kept_until > sleeper->kept_out;
}

/* The way down, in the device's context, with the staging's stream idle before the first pool's:
 *
 * Puts copies of everything that is kept on the staging's stream, with marks. On return what goes
 * through the ring is out, and chunks have been lowered meanwhile; the rest is under way. After an
 * error the caller waits for the staging. */
tnr_status tnri_sleeper_copy_out(tnri_sleeper *sleeper, tnri_device *device);
/* 1 if copies of everything that is kept have been put there, or are over. */
static inline int tnri_sleeper_is_queued(const tnri_sleeper *sleeper)
{
    size_t until = sleeper->marks_count == 0 ? sleeper->copied
                                             : sleeper->marks[sleeper->marks_count - 1].until;
    return until == sleeper->kept_bytes;
}
/* Takes the address and the memory away from each chunk that still has them, as soon as its kept
 * contents are out. After an error the caller waits for the staging; when that wait has succeeded,
 * everything kept is in the buffers. */
tnr_status tnri_sleeper_lower(tnri_sleeper *sleeper, tnri_device *device);
/* Drops the marks that are left. */
void tnri_sleeper_unmark(tnri_sleeper *sleeper);

/* The way up: brings all chunks back from wherever they are. If `has_contents`, also puts copies of
 * what is kept on the staging's stream, each part as soon as its chunks are there. The caller waits
 * for the staging, also after an error. In the device's context. */
tnr_status tnri_sleeper_raise(tnri_sleeper *sleeper, tnri_device *device, int has_contents);

#endif
