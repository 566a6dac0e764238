/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model: what must be true, kept in the simplest data structures that suffice.
 *
 * For every block it knows where the block lies, who uses it, and which of these uses Tenure was
 * told of. For every stream and event it knows what they are ordered after (order.h). For every
 * pool and device it knows how many bytes their owners asked for. From this it says
 *
 *   - whether an operation is legal for a program (model_allows). Only legal operations are drawn.
 *     When a program is replayed with some operations taken out, those that are no longer legal are
 *     skipped;
 *   - what must hold after each (verdict.h compares).
 *
 * A device is a peer of the other one if its streams touch the other's memory. The model knows
 * which pools are open to it. Marks are for streams of the block's own device, so a peer's use
 * cannot be marked. Instead the block's stream waits for that use, or the host waits.
 *
 * It is told what happened (model_did_*) and never asks the library anything. One thread.
 */
#ifndef TENURE_FUZZ_MODEL_H
#define TENURE_FUZZ_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "order.h"
#include "program.h"

enum { MODEL_UNWRITTEN = 255 };

/* Where memory is that has a limit and sums of its own: the devices, and then the host memory near
 * each. */
enum { MODEL_PLACES = 2 * FUZZ_DEVICES };

/* What stands for the default pools of host memory, beside the pools of a program. */
enum { MODEL_HOST_POOL = FUZZ_POOLS + 1 };

typedef struct model_block {
    uintptr_t base;  /* 0: the slot is empty */
    size_t bytes;    /* asked for; of a growable block what is committed */
    size_t reserved; /* of a growable block what it may grow to; else 0 */
    uint8_t device, pool;
    uint8_t home;   /* component of the stream that it belongs to */
    uint8_t writer; /* component of the last write */
    uint8_t graph;  /* allocated in the capture of that graph, from 1; 0: outside. MODEL_UNWRITTEN:
                    * in that of a graph that is gone and was never launched */
    uint8_t is_captured; /* its memory is a graph pool's, whatever became of its graph */
    uint8_t is_tagged;   /* its first and last words are known */
    uint8_t content;     /* what was said with CONTENT: 0, 1 keep, 2 discard */
    uint8_t is_parked;
    uint8_t is_host;  /* of host memory, near `device` */
    uint8_t is_range; /* of its pages some have had memory by themselves */
    uint8_t part_of;  /* pages of the range in that slot, from 1; `bytes` is 0 while they have no
                       * memory; 0: none */
    uint8_t ready_on; /* home, or the component that it was unparked for */
    uint32_t ready;   /* ticket of that, from which it may be used */
    uint32_t written; /* ticket of the last write */
    uint32_t marked;  /* bits of components with record_stream */
    uint64_t tag;
    order_clock reads;    /* latest read by each component since the last write */
    order_clock open;     /* latest use by each component that Tenure was not told of */
    order_clock launches; /* likewise of graphs that refer to it: a free needs not wait for them */
    order_clock peers;    /* latest access by each component of the other device */
} model_block;

typedef struct model_stream {
    uint8_t is_there, is_known; /* is_known: Tenure has seen it */
    uint8_t graph;              /* part of that graph's capture, from 1 */
    int8_t component;
} model_stream;

typedef struct model_event {
    uint8_t is_there;             /* the driver's event exists */
    uint8_t is_recorded, is_told; /* is_told: Tenure knows of the latest record */
    uint8_t device;
    uint8_t is_late;  /* the latest record is to be told of later, with the moment before it */
    int8_t component; /* of the stream that it was recorded on */
    uint8_t graph;    /* recorded in that graph's capture, from 1 */
    uint8_t capture_stream;
    order_clock clock;
} model_event;

typedef struct model_pool {
    uint8_t is_there, is_asleep, is_graph;
    uint8_t is_open; /* to the other device */
    uint8_t device;
    uint8_t is_host;       /* of host memory */
    uint8_t is_foreign;    /* its memory is segments of an owner's */
    uint8_t is_registered; /* memory of it was registered: it stays as it is */
    size_t limit;
    size_t idle_bytes; /* of segments in which nothing is live */
} model_pool;

/* Ranges that a graph may touch whenever it is launched. */
enum { MODEL_RANGES = 256 };
typedef struct model_range {
    uintptr_t base;
    size_t bytes;
    int is_outside; /* a block from outside that the graph refers to */
} model_range;

enum { MODEL_RELAXED = 2 }; /* TNR_CAPTURE_RELAXED */
enum { GRAPH_NONE, GRAPH_CAPTURING, GRAPH_READY };

typedef struct model_graph {
    uint8_t state, device, pool; /* pool 0: one of its own */
    uint8_t origin;              /* stream slot */
    uint8_t is_launched;
    uint8_t mode;       /* of the capture: tnr_capture_mode */
    uint8_t has_ended;  /* a stream of the capture ended inside it */
    uint8_t peer_pools; /* bits of pools of the other device that it refers to */
    uint8_t is_lacking; /* it refers to pages that had no memory when their range was freed */
    order_clock clocks[FUZZ_STREAMS]; /* order inside the capture */
    /* A component is a stream slot until the stream is redirected. What the stream captures from
     * then on is on a branch of its own, numbered beyond the stream slots. */
    uint8_t branch[FUZZ_STREAMS];
    int branches; /* given so far */
    uint32_t tickets[ORDER_COMPONENTS];
    int ranges_count;
    model_range ranges[MODEL_RANGES];
    uint8_t reads[FUZZ_BLOCKS], writes[FUZZ_BLOCKS]; /* live blocks that a launch touches */
    order_clock debts; /* the program's own accesses of outside blocks that it has freed since: a
                        * launch touches them still, and must be ordered after these */
} model_graph;

/* A block inside the capture that is under way. */
typedef struct model_inside {
    int capture;           /* number of the capture that the rest is about */
    uint8_t writer, begin; /* components: of the last write, and that it was allocated on */
    uint8_t home;          /* stream slot */
    uint32_t ready, written, marked;
    order_clock reads, open;
} model_inside;

typedef struct model {
    order order;
    int devices;
    model_block blocks[FUZZ_BLOCKS];
    model_stream streams[FUZZ_STREAMS];
    model_event events[FUZZ_EVENTS];
    /* 0 is the default pool of the device in question. The last but one stands for the pool of any
     * graph that has one of its own: it never sleeps. The last is MODEL_HOST_POOL. */
    model_pool pools[FUZZ_POOLS + 2];
    uint8_t default_asleep[FUZZ_DEVICES], default_open[FUZZ_DEVICES];
    uint8_t default_registered[FUZZ_DEVICES];
    uint64_t headroom_bytes; /* of each device, for others */
    /* 1: new pools of the device are open. So are the graphs' own pools; only ACCESS_ALL changes
     * those. */
    uint8_t device_open[FUZZ_DEVICES];
    model_graph graphs[FUZZ_GRAPHS];
    model_inside inside[FUZZ_BLOCKS];
    int captures; /* begun so far */
    /* 1: a graph that is gone referred to blocks from outside. The schedule decides when Tenure
     * notices the graph's end. Until then Tenure keeps the blocks. */
    int has_ghosts;
    uint8_t live[FUZZ_BLOCKS]; /* slots of live blocks, in no order */
    uint8_t live_at[FUZZ_BLOCKS];
    int live_count;
    int capturing;  /* graph that is being captured, from 1; 0: none */
    int beside;     /* device where another thread captures, from 1; 0: none */
    size_t besides; /* captures of other threads so far */
    uint64_t requested_bytes[MODEL_PLACES]; /* of live blocks */
    uint64_t live_blocks[MODEL_PLACES];     /* each page of a range is one */
    uint64_t memory_bytes, limit_bytes[MODEL_PLACES];
    uint64_t page_bytes;                /* of ranges */
    uint8_t is_used[MODEL_PLACES];      /* Tenure has the place in use */
    uint64_t owned_bytes[FUZZ_DEVICES]; /* what the owner of segments has of the device's memory */
    uint64_t tag_last;
    uint32_t ended_known; /* bits of components whose streams are gone, and were known to Tenure */
    int has_faults;       /* some driver call may fail */
    int has_peer_graphs;  /* 1: graphs may refer to memory of the other device */
    int has_slabs;        /* host memory is slabs, of which one live byte may hold a whole one */
    int has_wide_chunks;  /* settings under which one live byte may hold much memory */
} model;

void model_begin(model *self, const fuzz_setup *setup);

/* Null if the operation is legal and possible now; else the reason, in a few words. */
const char *model_allows(model *self, const fuzz_op *op);

/* 1 if an access of the block by the stream is ordered after everything that it must be after. */
int model_is_ordered(model *self, const model_block *block, const model_stream *stream,
                     int is_write);
/* 1 if all uses of the block are known to Tenure, or ordered before the next work of the block's
 * own stream. Otherwise *component is one with a use that is neither. */
int model_is_covered(model *self, const model_block *block, int *component);

int model_is_asleep(const model *self, int device, int pool);
int model_is_registered(const model *self, int device, int pool);
/* 1 if the memory of the device's pool is open to the other device. */
int model_is_open(const model *self, int device, int pool);

/* The operations' effects. Called only after the call has succeeded. */
void model_did_malloc(model *self, const fuzz_op *op, uintptr_t base, size_t bytes,
                      size_t reserved);
void model_did_free(model *self, const fuzz_op *op);
void model_did_access(model *self, int block, int stream, int is_write);
void model_did_park(model *self, const fuzz_op *op); /* PARK, UNPARK */
void model_did_mark(model *self, const fuzz_op *op); /* USE, USE_STREAM, KEEP */
void model_did_record(model *self, const fuzz_op *op);
void model_did_wait(model *self, const fuzz_op *op);
void model_did_sync(model *self, const fuzz_op *op);          /* SYNC_*, QUERY that said yes */
void model_did_change_access(model *self, const fuzz_op *op); /* ACCESS, ACCESS_ALL */
int model_did_create_stream(model *self, const fuzz_op *op);  /* -1: not possible after all */
void model_did_destroy_stream(model *self, const fuzz_op *op);

/* The slot of a live block that shares bytes with the range; -1 for none. */
int model_overlap(const model *self, uintptr_t base, size_t bytes);

static inline int model_place(const model_block *block)
{
    return block->is_host ? FUZZ_DEVICES + block->device : block->device;
}

/* ---- model_range.c -------------------------------------------------------------------------- */

/* Pages of a range are blocks of their own, in slots of their own: they are used, marked and
 * ordered as such. Without memory they stay, so that graphs that refer to them are known. */
const char *range_allows(model *self, const fuzz_op *op);
/* Null, or why the range in the slot cannot be freed. */
const char *range_free_allows(model *self, const fuzz_op *op);
void range_did_commit(model *self, const fuzz_op *op);
void range_did_decommit(model *self, const fuzz_op *op);
/* With the range all of its pages end. */
void range_did_free(model *self, int slot);
/* The next live page after `slot` of the range, -1 being the first; -1: there is none. */
int range_next(const model *self, int range, int slot);
/* What has memory of it. */
size_t range_bytes(const model *self, int range);
/* 1 if the graph refers to pages that have no memory now: it must not be launched. */
int range_is_lacking(const model *self, const model_graph *graph);

/* ---- model_host.c --------------------------------------------------------------------------- */

/* Host memory is of no stream: the home of its blocks is ORDER_HOST, where only what the host has
 * waited for comes before. */
const char *host_allows(model *self, const fuzz_op *op);
void host_did_malloc(model *self, const fuzz_op *op, uintptr_t base);
void host_did_write(model *self, const fuzz_op *op);
/* As model_must_fit; so many bytes of contents of what sleeps and is parked lie there, too. */
int host_must_fit(const model *self, const fuzz_op *op, size_t contents);

/* A block that is live from now on, with everything else 0: the caller adds to the sums. */
model_block *model_block_begin(model *self, int slot, uintptr_t base);
void model_block_end(model *self, int slot);

/* 1 if an allocation of so many bytes must succeed: even if every live block held the most memory
 * that one can hold, there would be room. */
int model_must_fit(const model *self, int device, int pool, size_t bytes);

#endif
