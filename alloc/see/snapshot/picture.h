/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A picture: what a snapshot says, ready to be written in any format. It is made of a cut and a
 * copy of the history. Making and writing it takes no lock of the allocator.
 *
 * References are indexes: blocks refer to stacks, segments to pools and streams.
 */
#ifndef TNRI_SNAPSHOT_PICTURE_H
#define TNRI_SNAPSHOT_PICTURE_H

#include <tenure/history.h>

#include "base/ticks.h"
#include "log/ring.h"
#include "memory/device/group.h"
#include "see/snapshot/cut.h"
#include "see/snapshot/symbols.h"

/* How a block is, in the order of the words in a snapshot. */
typedef enum tnri_shown {
    TNRI_SHOWN_LIVE,
    TNRI_SHOWN_RETIRED,
    TNRI_SHOWN_BINNED,
    TNRI_SHOWN_FREE,
    TNRI_SHOWN_RELEASING,
    TNRI_SHOWN_GROWING,
    TNRI_SHOWN_COUNT
} tnri_shown;

typedef enum tnri_reason {
    TNRI_SNAPSHOT_CALL,
    TNRI_SNAPSHOT_OOM,
    TNRI_SNAPSHOT_EXIT,
    TNRI_SNAPSHOT_SIGNAL
} tnri_reason;

typedef struct tnri_shown_block {
    uintptr_t address;
    size_t bytes, requested;
    int64_t time_ns; /* -1: not known */
    uint32_t stack;
    uint32_t arena; /* index in the cut */
    uint8_t shown, is_small;
    uint8_t is_first; /* 1: lowest of a range of addresses; a foreign segment is such a range */
} tnri_shown_block;

typedef struct tnri_shown_segment {
    uintptr_t address;
    size_t bytes, block_first, blocks_count;
    size_t pool, stream;
    uint32_t arena; /* number */
    int is_small;
} tnri_shown_segment;

typedef struct tnri_shown_stream {
    int device;
    tnr_stream handle;
    uint64_t thread;
    int is_graph, is_ended;
    uint64_t number; /* which of the streams that had the handle; 0: not known */
    uint32_t name;   /* a text; 0: none */
} tnri_shown_stream;

typedef struct tnri_shown_pool {
    int device;
    tnr_pool handle; /* null: the default pool */
    unsigned number;
    char name[TNRI_POOL_NAME_BYTES];
    int is_graph, is_foreign, is_owners, is_vouched, is_ended, is_settled, sleep_state;
    const tnri_tag *tag; /* null: none */
    uint64_t away_bytes; /* that parked blocks are shown with and do not have */
    uint64_t reserved_bytes, asleep_bytes, limit_bytes, chunks;
    uint64_t bytes[TNRI_SHOWN_COUNT]; /* LIVE: as asked for */
    uint64_t slack_bytes;
} tnri_shown_pool;

typedef struct tnri_shown_wait {
    size_t block;
    tnri_wait_kind kind;
    int64_t stream, mark_number, since_ns, graph; /* -1: none */
} tnri_shown_wait;

typedef struct tnri_shown_graph {
    tnri_seen_graph seen;
    char name[TNRI_POOL_NAME_BYTES];
    int64_t pool; /* index */
} tnri_shown_graph;

typedef struct tnri_shown_device {
    int index;
    uint64_t memory_free_bytes; /* UINT64_MAX: not known */
    uint64_t reserved_bytes, reserved_peak_bytes, asleep_bytes, limit_bytes, ooms, retries;
    int is_in_group;
    tnri_group_counts group;
} tnri_shown_device;

/* What an origin of the history is here. */
typedef struct tnri_shown_origin {
    int32_t pool, stream; /* -1: none */
    /* The latest stream of its arena: an arena may go from a stream that ended to another. -1:
     * none */
    int32_t stream_latest;
    uint32_t arena; /* number; 0: none */
    int is_gone;    /* 1: its arena had gone when the history was read */
} tnri_shown_origin;

/* A block that a graph or a capture keeps, as the layer above tells. */
typedef struct tnri_shown_keep {
    uint64_t graph;
    uintptr_t base;
    tnri_wait_kind kind;
} tnri_shown_keep;

/* An array of the picture's; all of them are made by tnri_array_add. */
#define TNRI_ARRAY(type, name)                                                                     \
    type *name;                                                                                    \
    size_t name##_count, name##_room

typedef struct tnri_picture {
    tnri_reason reason;
    tnri_ticks_scale scale;
    tnri_cut cut;
    tnri_ring_copy ring;
    tnr_history_mode mode;
    int is_short; /* 1: host memory lacked on the way */

    TNRI_ARRAY(tnri_shown_device, devices);
    TNRI_ARRAY(tnri_shown_pool, pools);
    TNRI_ARRAY(tnri_shown_stream, streams);
    TNRI_ARRAY(tnri_shown_segment, segments);
    TNRI_ARRAY(tnri_shown_graph, graphs);
    TNRI_ARRAY(tnri_shown_keep, kept);
    TNRI_ARRAY(tnri_shown_wait, waits);
    TNRI_ARRAY(tnri_seen_import, imports);
    tnri_shown_block *blocks;
    size_t blocks_count, blocks_room;
    tnri_shown_origin *origins; /* by number */
    size_t origins_count;
    uint64_t gone;   /* arenas that had gone when the history was read */
    uint32_t *order; /* indexes of ring.records by time, without those after the cut */
    size_t order_count, order_room;
    tnri_symbols symbols;
} tnri_picture;

/* Keeps captures and graphs as they are until tnri_picture_take. To be called before the lock of
 * the history is taken, because a thread that runs out of memory in a capture writes a snapshot. */
void tnri_picture_still(void);

/* Takes a picture. Under the lock of the history. On an error there is nothing to free. */
tnr_status tnri_picture_take(tnri_picture *picture, tnri_reason reason);
void tnri_picture_free(tnri_picture *picture);

/* The record at a place of picture->order. */
static inline const tnri_recorded *tnri_picture_record(const tnri_picture *picture, size_t at)
{
    return &picture->ring.records[picture->order[at]];
}

const char *tnri_shown_text(unsigned shown);
/* "default", "user", "graph", "foreign" (of foreign segments, and no graph pool) or "ended". */
const char *tnri_pool_kind_text(const tnri_shown_pool *pool);

#endif
