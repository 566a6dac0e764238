/* SPDX-License-Identifier: Apache-2.0 */
/* What the rooms above tell of blocks, graphs and imports for a picture: tnri_upper.show. */
#ifndef TNRI_ARENA_WAIT_H
#define TNRI_ARENA_WAIT_H

#include <stdint.h>

#include <tenure/alloc.h>

typedef enum tnri_wait_kind {
    TNRI_WAIT_USE,       /* the work of a stream up to a mark */
    TNRI_WAIT_FREE_SYNC, /* everything enqueued before its free */
    TNRI_WAIT_EXPORT,    /* an export is open, here or in another process */
    TNRI_WAIT_GRAPH,     /* a graph refers to it */
    TNRI_WAIT_CAPTURE,   /* a capture is under way */
    TNRI_WAIT_KIND_COUNT
} tnri_wait_kind;

typedef struct tnri_wait {
    uintptr_t base; /* of the block */
    tnri_wait_kind kind;
    tnr_stream stream; /* TNRI_WAIT_USE */
    uint64_t thread;   /* of a per-thread default stream: its thread's number; else 0 */
    int is_ended;      /* 1: the stream was destroyed */
    uint64_t stream_number;
    uint32_t stream_name; /* a text; 0: none */
    uint64_t mark_number; /* TNRI_WAIT_USE */
    uint64_t since_ticks; /* of the free; 0: not known */
    int64_t graph;        /* its number; -1: none, or not known */
} tnri_wait;

/* A graph, as the layer that follows captures tells it. */
typedef struct tnri_seen_graph {
    uint64_t number;
    const char *name; /* constant until the call returns */
    int device;
    int64_t pool; /* number of its pool on the device; -1: none */
    int is_capturing;
    uint64_t blocks, reused, launches, kept_blocks, kept_bytes;
    int is_audited; /* 1: what follows is of the latest audit */
    uint64_t found, own, kept, shared, loose, freed, unmapped, unread;
} tnri_seen_graph;

/* Memory of another process that is mapped here. */
typedef struct tnri_seen_import {
    uintptr_t address;
    size_t bytes;
    int device;
    int process;         /* that it is from; 0: not known */
    uint64_t generation; /* of what it was published as, under a name; 0: it was not */
    char published[64];
    int is_read_only;
} tnri_seen_import;

/* How they tell of graphs, of the blocks that these keep, and of imports. */
typedef struct tnri_listener {
    void *user;
    void (*graph)(void *user, const tnri_seen_graph *graph);
    /* `kind` is TNRI_WAIT_GRAPH, or TNRI_WAIT_CAPTURE for the capture that is to become the
     * graph. */
    void (*keeps)(void *user, tnri_wait_kind kind, uint64_t graph, uintptr_t base);
    void (*import)(void *user, const tnri_seen_import *import);
} tnri_listener;

#endif
