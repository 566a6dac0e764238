/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cut: the tables of all arenas as they were at one moment, without stopping anybody for longer
 * than copying one of them.
 *
 *   1. Every pool is held, and every arena is given the room that its copy needs.
 *   2. The gate says that a cut is made (base/gate.h). This is the moment.
 *   3. From now on each thread that takes an arena's lock copies the arena before anything else, if
 *      no thread has yet. The thread that makes the cut does the same for one arena after the
 *      other.
 *   4. The gate is closed, and the pools are let go. Work on the copies takes no lock.
 *
 * Note [why it is consistent]. The gate is read without order. A thread that does not see it open
 * yet changes an arena that is not copied, and that change is before the cut. Nothing after the
 * cut can be the cause of that change. The reason: a thread that has done something after the cut
 * has seen the gate open. Any thread that has learnt of that, through a lock or otherwise, sees the
 * gate open too, because reads of one variable never go back in time. And if the first thread had
 * touched this arena, the arena would have been copied then. So the copies together show a state
 * that the program could have seen: if something is in the picture, everything that led to it is
 * there, too.
 *
 * If something does not fit (an arena grew, or was made, between 1 and 2), the cut notices it and
 * is made again with that included. Pools that were held stay held, and arenas keep their room. So
 * each attempt takes less time before the moment than the one before, and a thread that makes and
 * ends pools soon has none that it could end.
 */
#ifndef TNRI_SNAPSHOT_CUT_H
#define TNRI_SNAPSHOT_CUT_H

#include "memory/arena/wait.h"
#include "memory/device/tag.h"
#include "memory/pool/pool.h"

/* One arena. Written by the thread that copies it, under the arena's lock; constant afterwards. */
typedef struct tnri_arena_copy {
    tnri_arena *arena; /* while its pool is held */
    size_t pool;       /* index in the cut */
    int is_done;
    int is_short;  /* 1: the room did not suffice */
    int is_moving; /* 1: a thread had a mapping in hand, to take it away */

    uint32_t number, order;
    tnr_stream stream;
    uint64_t thread;
    int is_ended; /* 1: its stream was destroyed */
    uint64_t stream_number;
    uint32_t stream_name; /* a text */
    size_t largest_free;
    size_t away_bytes; /* bytes that parked blocks are shown with and do not have */

    /* Copies of all records except holes and old mappings, in no order. What they point at is not
     * there any more; `content` is 1 in those of the small world. */
    tnri_block *blocks;
    size_t blocks_count, blocks_room;
    tnri_wait *waits;
    size_t waits_count, waits_room;
} tnri_arena_copy;

/* One pool, as it was around the moment. */
typedef struct tnri_pool_copy {
    tnr_pool pool;                  /* while it is held */
    tnr_pool handle;                /* what callers name it by; null: the default pool */
    const tnri_arena *arena_newest; /* of its arenas in the cut, while it is held; null: none */
    int device;
    unsigned number;
    char name[TNRI_POOL_NAME_BYTES];
    int is_graph, is_foreign, is_owners, is_vouched;
    const tnri_tag *tag; /* null: none */
    int sleep_state;     /* tnri_sleep_state */
    int is_still;        /* 1: no thread took or gave back memory for it around the moment */
    uint64_t reserved_bytes, asleep_bytes, limit_bytes, chunks;
} tnri_pool_copy;

typedef struct tnri_cut {
    uint64_t ticks; /* the moment */
    uint64_t number;
    tnri_pool_copy *pools;
    size_t pools_count, pools_room;
    tnri_arena_copy *arenas;
    size_t arenas_count, arenas_room;
    uint32_t arena_last; /* arenas with a higher number were made after the moment */
} tnri_cut;

/* Makes a cut of all devices in use. TNR_ERR_HOST_MEMORY: nothing is left of it. Under the lock of
 * the history; no other lock is held. */
tnr_status tnri_cut_make(tnri_cut *cut);
void tnri_cut_free(tnri_cut *cut);

#endif
