/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world of the linked programs: two devices that reach each other, three streams ("lanes") of
 * each, and a model of the blocks: where they are, what is in them, and of which pool. Features
 * make blocks, and use and free those of others too: that is how two features meet.
 *
 * Programs are right by construction. A block is written once, when it is made, or by launches of
 * the one graph that it belongs to. Whoever reads it waits for that and records the use. Before a
 * launch, a sleep and a park, the stream waits for all others (world_fence).
 *
 * A call may be refused only for what is so at the moment: `world_may` says what that is.
 */
#ifndef TENURE_TESTS_WORLD_H
#define TENURE_TESTS_WORLD_H

#include "compose.h"

#include <stddef.h>

#include <cuda.h>
#include <tenure/simcuda.h>
#include <tenure/tenure.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum {
    DEVICES = 2,
    LANES = 3,
    BLOCKS_MAX = 512,
    STREAMS_MAX = 64,
    READS_MAX = 64,
    DEFERRED_MAX = 8,
    BLOCK_PLACES = 3
};

typedef struct block {
    unsigned char *at; /* null: a place that is free */
    size_t bytes;
    uint32_t value; /* of its words, as far as fill.c writes them */
    int device;
    CUstream stream;
    tnr_pool pool;
    const char *who; /* the step that made it */
    int is_alone;    /* 1: no other feature touches it */
    int is_graphs;   /* 1: written by launches only */
    int is_written;  /* 0: nothing has launched that graph yet */
    int is_vouched;  /* 1: graphs do not keep it */
    int is_grown;    /* 1: of tnr_reserve */
    int is_closed;   /* 1: no other device reaches it */
    int is_host;     /* 1: pinned host memory near `device`, which the host has written */
    int is_parked;
    int is_lost;          /* 1: its contents are undefined by now */
    int stream_ended;     /* 1: its stream is gone, and its writes are over */
    int refs;             /* graphs that read it and live */
    volatile int freeing; /* 1: a host function is to free it; 2: it did, with `freed` */
    volatile int freed;
} block;

/* Where memory of a graph lies that lives: nobody else may get it. */
typedef struct graph_memory {
    unsigned char *at;
    size_t bytes;
    tnr_pool pool;
} graph_memory;

/* A graph that reads blocks of others and writes what it read to `out`. */
typedef struct graph {
    CUgraph cuda;
    CUgraphExec exec;
    tnr_graph number;
    tnr_pool pool; /* its own, or a shared one */
    int device;
    CUstream stream; /* it is captured and launched there */
    block *out;      /* null: freed */
    unsigned char *out_at;
    uint32_t expected[READS_MAX];
    block *reads[READS_MAX]; /* null: freed since */
    int reads_count;
    graph_memory memory[4];
    int memory_count;
    int is_launched;
    struct graph *next; /* of w->graphs */
} graph;

struct world {
    CUcontext contexts[DEVICES];
    CUstream lanes[DEVICES][LANES];
    CUstream streams[STREAMS_MAX]; /* others that are fenced; null: none */
    int streams_device[STREAMS_MAX];
    size_t memory; /* of each device */
    block blocks[BLOCKS_MAX];
    block *sinks[DEVICES][LANES]; /* what a lane's reads are copied to */
    graph *graphs;                /* that live */
    uint64_t random;
    uint32_t values; /* handed out */

    int device; /* where features put what they make */

    /* What may refuse calls now. */
    int captures;             /* open, of whatever kind */
    int captures_here;        /* those of the thread that runs the features */
    int captures_tenures;     /* those that Tenure follows */
    int asleep[DEVICES];      /* 1: all pools of the device */
    int stays_awake[DEVICES]; /* pools that a sleep is refused for */
    int published;            /* blocks that are held under a name */
    int has_threads;          /* 1: others call Tenure right now */
    int guarded;              /* 1: traps are on */
    int waits_for_device;     /* 1: a call may have to wait for what a stream did that is gone */

    /* A capture that the others may join. */
    CUstream open_origin;
    int open_device;
    CUstream joined[DEFERRED_MAX]; /* streams that have joined it */
    int joined_devices[DEFERRED_MAX];
    int joined_count;

    int has_host_memory;             /* 1: in use, near both devices */
    int had_traps;                   /* 1: they were on, and keep one buffer until the end */
    int frees_by_host;               /* 1: frees run in host functions */
    tnr_pool deferred[DEFERRED_MAX]; /* pools whose end was refused, as it may be */
    int deferred_count;
    int descriptors, threads; /* that the process had in the beginning */
};

uint64_t world_random(world *w, uint64_t bound);

/* ---- calls ----------------------------------------------------------------------------------- */

#define MAY(condition, status) ((condition) ? UINT64_C(1) << (status) : 0)
/* 1: the call succeeded. 0: it was refused with one of `may`. Anything else is a finding. */
int world_status(tnr_status got, uint64_t may, const char *call, const char *file, int line);
#define may(call, refusals) world_status((call), (refusals), #call, __FILE__, __LINE__)
#define ok(call) ((void)world_status((call), 0, #call, __FILE__, __LINE__))
/* A call of the driver that must succeed. */
void world_driver(CUresult got, const char *call, const char *file, int line);
#define drive(call) world_driver((call), #call, __FILE__, __LINE__)

/* ---- streams --------------------------------------------------------------------------------- */

CUstream world_stream(world *w, int device);
/* The program ends it; with `told`, Tenure is told before. */
void world_stream_end(world *w, CUstream stream, int device, int is_told);
/* `to` comes after all that `from` was given. */
void world_order(world *w, CUstream to, CUstream from, int from_device);
/* ... after all that every stream was given. */
void world_fence(world *w, CUstream to);
/* Makes a device's context current. */
void world_on(world *w, int device);

/* ---- blocks ---------------------------------------------------------------------------------- */

/* A block with a value of its own, written on its stream. Null: refused, as it may be. `pool` null:
 * where the thread is routed to. */
block *world_malloc(world *w, tnr_pool pool, size_t bytes, int device, CUstream stream);
/* Writes memory on a stream, all of it as far as orders go. */
void world_fill(world *w, void *at, size_t bytes, uint32_t value, int device, CUstream stream);
void world_fill_begin(world *w);
/* Where a block of this size is looked at: its first, middle and last word. */
static inline size_t block_place(size_t bytes, int which)
{
    return which == 0 ? 0 : which == 1 ? bytes / 8 * 4 : bytes - 4;
}
/* Takes one into the model that was allocated elsewhere, and writes it unless a graph will. */
block *world_adopt(world *w, void *at, tnr_pool pool, size_t bytes, int device, CUstream stream,
                   int is_graphs);
/* Likewise one of host memory, which the host writes at once: nothing may be under way there. */
block *world_adopt_host(world *w, void *at, tnr_pool pool, size_t bytes, int device);
void world_free(world *w, block *b);
/* Another stream reads it, and the use is recorded. `by_stream`: by tnr_record_stream. */
void world_read(world *w, block *b, int lane, int device, int by_stream);
/* 1: it may be touched by others now. */
int world_is_open_to(const world *w, const block *b, int device);
void world_pool_destroy(world *w, tnr_pool pool);

/* ---- graphs ---------------------------------------------------------------------------------- */

/* Captures a graph on a stream of its own that reads all blocks that it can. Returns 0 where the
 * capture was refused, as it may be. */
int world_capture(world *w, graph *g, int device, tnr_pool pool);
/* Adds reads of a block to a graph that is captured elsewhere. */
void world_reads(world *w, graph *g);
void world_graph_begins(world *w, graph *g);
void world_launch(world *w, graph *g);
void world_graph_destroy(world *w, graph *g);

#endif
