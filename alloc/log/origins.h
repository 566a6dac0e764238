/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Origins: whose memory a record speaks of. An arena is a pool's memory for one stream. When the
 * history is read, both may be gone, and the arena may belong to another stream. So an arena that
 * has something to record gets a number, its *origin*, under which pool and stream are written
 * down. It gets a new origin when it goes to another stream. Origins are kept until shutdown.
 */
#ifndef TNRI_HISTORY_ORIGINS_H
#define TNRI_HISTORY_ORIGINS_H

#include <stdatomic.h>
#include <stdint.h>

#include <tenure/alloc.h>

/* Constant once it has a number, but for the last three. */
typedef struct tnri_origin {
    int device;
    unsigned pool;      /* number of the pool on the device */
    uint32_t pool_name; /* a text; 0: "pool N" */
    int is_graph;       /* of a graph pool: no stream */
    uint32_t arena;     /* number of the arena; 0: of none, the whole pool */
    tnr_stream stream;
    int has_no_stream;      /* 1: of a pool, and no stream */
    int has_no_pool;        /* 1: of a stream, and no pool */
    int is_launch;          /* 1: of a stream, though the pool may be a graph pool */
    uint64_t thread;        /* of the per-thread default stream: its thread's number; else 0 */
    uint64_t stream_number; /* which of the streams that had the handle; 0: not known */
    uint32_t stream_name;   /* a text: what the program called it last; 0: nothing */
    int is_ended;           /* 1: the stream was destroyed, or the arena is gone */
    uint64_t gone; /* number of the arena's end, in the order of ends, in its last place; else 0 */
} tnri_origin;

/* Writes an origin down; 0 if there is no host memory. `name` is where its stream has its name;
 * null without a stream. The name is read under the lock, so that either this function or
 * tnri_origins_name sees what the other has done. Any thread; takes a lock. */
uint32_t tnri_origin_add(const tnri_origin *origin, const _Atomic uint32_t *name);
/* The number of an origin that belongs to no arena: finds one like it, or writes a new one down. */
uint32_t tnri_origin_find(const tnri_origin *origin, const _Atomic uint32_t *name);
/* The stream of that number has another name now. Looks at all origins. */
void tnri_origins_name(uint64_t stream_number, const _Atomic uint32_t *name);
/* The origin of a number, copied; 0 if there is none. */
int tnri_origin_get(uint32_t number, tnri_origin *origin);
uint32_t tnri_origins_count(void);
/* The origin's stream lives no more. 0 does nothing. */
void tnri_origin_end(uint32_t number);
/* The origin's arena is gone; all that it recorded has been written. 0 does nothing. */
void tnri_origin_gone(uint32_t number);
/* How many arenas have gone. Code that reads the ring afterwards sees what those recorded. */
uint64_t tnri_origins_gone(void);
/* Forgets all, while no other thread is inside Tenure. */
void tnri_origins_free(void);

#endif
