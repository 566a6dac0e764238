/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds memory: blocks added up by pool, by stream, by the stack that allocated them, or by
 * size; and how free memory is scattered.
 */
#ifndef TENURE_TOOLS_HOLDERS_H
#define TENURE_TOOLS_HOLDERS_H

#include "model.h"

typedef enum holder_kind {
    HOLDER_POOL,   /* key: index of the pool */
    HOLDER_STREAM, /* key: index of the stream */
    HOLDER_STACK,  /* key: index of the stack; blocks that nobody holds do not count */
    HOLDER_SIZE,   /* key: n where 2^n is the smallest power of two that holds what was asked for;
                    * blocks that nobody holds do not count */
} holder_kind;

typedef struct holder {
    uint32_t key;
    uint64_t live_bytes, live_requested_bytes, live_count;
    uint64_t retired_bytes, retired_count;
    uint64_t cached_bytes, cached_count; /* neither live nor retired */
} holder;

/* Adds up into `result`, an array of holders, largest live + retired first (sizes: in order).
 * Returns 0, or -1 without memory. */
int holders_find(const model *snapshot, holder_kind kind, array *result);

/* The holder with this key, a new one if there is none. Null without memory. */
holder *holders_at(const model *snapshot, map64 *places, array *result, uint32_t key);
/* Largest live + retired first. */
void holders_sort(array *result);

/* Free memory: blocks that are neither live nor retired; neighbours in a segment are one run. */
typedef struct scatter {
    uint64_t reserved_bytes, free_bytes, runs_count, largest_run_bytes;
    uint64_t idle_segments_count, idle_segments_bytes; /* with nothing live or retired in them */
    uint64_t thin_segments_count, thin_free_bytes;     /* at most a tenth live or retired */
    uint64_t thin_held_bytes;                          /* what keeps those */
    uint64_t slack_bytes;
} scatter;

void scatter_find(const model *snapshot, scatter *result);

/* What waits on one stream, or on something that is no stream. */
typedef struct waiting {
    wait_kind kind;
    int32_t stream; /* -1 for other kinds */
    int64_t graph;  /* -1 for other kinds */
    uint64_t blocks_count, bytes;
    int64_t oldest_since_ns; /* -1: not known */
} waiting;

/* Adds up the waits: one row for each stream, for each graph, and for each other kind. Blocks that
 * wait for several things are in several rows. Most bytes first. */
int waiting_find(const model *snapshot, array *result);

/* "forward model.c:12", cut if there is no room for all of it. Returns how long all of it is. */
int frame_label(const model *in, const frame *one, char *text, size_t bytes);

/* "forward model.c:12 < main model.c:80": the innermost frames, as many as fit, and " < ..." if
 * there are more. `text` has room for `bytes`. Returns it. */
const char *stack_label(const model *snapshot, uint32_t index, char *text, size_t bytes);

#endif
