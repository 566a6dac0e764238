/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing programs: everything from one seed.
 *
 * Programs are legal by construction. Before an access that nothing orders, the order is drawn (a
 * record and a wait). Before a free, the missing marks are drawn. So what is drawn next depends on
 * the model, and so on what the library answered, but on nothing else.
 *
 * Swarm testing (Groce and others, 2012): each program draws the weights of its operations anew,
 * and leaves some operations out altogether. The reason: another operation often hides a fault,
 * such as a synchronisation every few steps.
 */
#ifndef TENURE_FUZZ_DRAW_H
#define TENURE_FUZZ_DRAW_H

#include "model.h"
#include "program.h"
#include "random.h"

/* What can be left out on the command line. */
typedef struct fuzz_limits {
    int no_faults, no_graphs, no_sleep;
    int parks; /* blocks are parked too; without it nothing is drawn otherwise */
    int odd;   /* likewise what draw_odd.c and draw_capture_break draw, and graphs that reach
                        * the other device */
    int hosts, ranges; /* likewise pinned host memory, and ranges with holes */
    int illegal;       /* plant one error */
    int gated;         /* for a device whose schedule is not known: see gate.h */
    int devices_max;   /* that the machine has; 0: as many as are drawn */
    const char *traps; /* settings that each program gets besides; null: none */
    uint64_t ops;
} fuzz_limits;

/* X(enumerator, usual weight): what can be drawn. */
#define DRAW_ACTION_LIST(X)                                                                        \
    X(MALLOC, 180)                                                                                 \
    X(FREE, 150)                                                                                   \
    X(TOUCH, 260)                                                                                  \
    X(TOUCH_OTHER, 160)                                                                            \
    X(MARK, 40)                                                                                    \
    X(ORDER, 60)                                                                                   \
    X(SYNC, 4)                                                                                     \
    X(QUERY, 10)                                                                                   \
    X(STREAM, 3)                                                                                   \
    X(EVENT, 2)                                                                                    \
    X(POOL, 2)                                                                                     \
    X(GROWABLE, 3)                                                                                 \
    X(TRIM, 1)                                                                                     \
    X(LIMIT, 1)                                                                                    \
    X(CONFIGURE, 2)                                                                                \
    X(LOOK, 10)                                                                                    \
    X(STATS, 1)                                                                                    \
    X(SNAPSHOT, 1)                                                                                 \
    X(SLEEP, 1)                                                                                    \
    X(CAPTURE, 4)                                                                                  \
    X(LAUNCH, 12)                                                                                  \
    X(RUN, 60)                                                                                     \
    X(FAULT, 2)                                                                                    \
    X(WRONG, 4)                                                                                    \
    X(STORM, 1)                                                                                    \
    X(CHAIN, 2)                                                                                    \
    X(ACCESS, 3)                                                                                   \
    X(OWNER, 2)                                                                                    \
    X(REGISTER, 1)

enum {
#define DRAW_ACTION_ENUMERATOR(name, weight) DRAW_##name,
    DRAW_ACTION_LIST(DRAW_ACTION_ENUMERATOR)
#undef DRAW_ACTION_ENUMERATOR
        DRAW_ACTIONS
};

enum { DRAW_QUEUE = 64, DRAW_WEIGHTS_MAX = 16384 };

typedef struct fuzz_draw {
    uint64_t random;
    uint32_t weights_sum;              /* of all actions, which is how many of actions[] count */
    uint8_t actions[DRAW_WEIGHTS_MAX]; /* each as often as it weighs */
    int live_target;                   /* blocks */
    int streams_target;
    int told_percent;   /* of records and waits that Tenure is told of */
    int write_percent;  /* of allocations that are written at once */
    int size_shift_max; /* large blocks are at most 2^this */
    int small_percent;
    int uses_default_streams, uses_blocking_streams;
    int sync_percent; /* of frees that are tnr_free_sync */
    int draws_faults;
    int foreign_percent;    /* of pools that are made: over segments */
    int registers;          /* 1: memory of pools is registered */
    int pool_one_in;        /* so many allocations are from pools that were made */
    int faults_left;        /* operations until the failures end; 0: none */
    int capture_left;       /* operations until the capture ends */
    uint64_t illegal_after; /* operations; UINT64_MAX: nothing is planted */
    int illegal_kind;       /* which error: index into fuzz_planted_names */
    int illegal_done;
    int is_gated;
    int parks;                 /* 1: blocks are parked */
    int odd;                   /* 1: draws those too */
    int misses;                /* 1: and requests for most of the memory */
    int hosts, ranges;         /* 1: host memory, ranges with holes */
    fuzz_op queue[DRAW_QUEUE]; /* drawn, not given out yet */
    int queue_first, queue_count;
    uint64_t given; /* operations so far */
    int devices;
} fuzz_draw;

/* Everything that does not depend on what happens later. */
void fuzz_draw_start(fuzz_draw *draw, fuzz_setup *setup, uint64_t seed, const fuzz_limits *limits);
/* The next operation. */
fuzz_op fuzz_draw_next(fuzz_draw *draw, model *m);

/* ---- for the draw_*.c files ----------------------------------------------------------------- */

static inline uint64_t draw_below(fuzz_draw *draw, uint64_t bound)
{
    return random_below(&draw->random, bound);
}

void draw_push(fuzz_draw *draw, fuzz_op op);

/* If the model allows it; else returns 0. */
static inline int draw_push_allowed(fuzz_draw *draw, model *m, fuzz_op op)
{
    if (model_allows(m, &op) != NULL)
        return 0;
    draw_push(draw, op);
    return 1;
}

/* The first `wanted` slots that are empty; 0 if there are fewer. */
int draw_blocks_free(const model *m, uint8_t *slots, int wanted);
/* A random stream of the device, or -1. */
int draw_stream(fuzz_draw *draw, const model *m, int device);
/* The slot of the stream with that component, or -1 if it is gone. */
int draw_stream_of(const model *m, int component);
int draw_block(fuzz_draw *draw, const model *m);      /* a live one, or -1 */
int draw_block_free(fuzz_draw *draw, const model *m); /* an empty slot, or -1 */
/* Queues what a free of the block needs and is missing. 0: it cannot be had. */
int draw_cover(fuzz_draw *draw, model *m, int slot);
/* Queues a record on one stream and a wait of the other for it. */
void draw_wait(fuzz_draw *draw, const model *m, int from, int to);
uint64_t draw_bytes(fuzz_draw *draw);
/* In a capture: memory that another stream used is freed and allocated again. */
int draw_reuse_inside(fuzz_draw *draw, const model *m);
/* In a capture: dependencies set by hand. */
int draw_redirect(fuzz_draw *draw, model *m);
/* In a capture: a stream joins it, does something, and ends there, as those of collectives do. The
 * next stream has its handle. */
int draw_brief(fuzz_draw *draw, model *m);
void draw_capture_end(fuzz_draw *draw, const model *m);
/* The capture under way comes to nothing, in one of the ways that are possible now. */
void draw_capture_break(fuzz_draw *draw, model *m);
/* In a capture: it reads or writes a block of the other device. */
int draw_peer_inside(fuzz_draw *draw, model *m);
int draw_graph_action(fuzz_draw *draw, model *m, int action);
/* Parks a block, or unparks one. */
int draw_park(fuzz_draw *draw, model *m);
int draw_control_action(fuzz_draw *draw, model *m, int action);

/* An access of the block on the stream, after whatever it must be ordered after. */
int draw_access(fuzz_draw *draw, model *m, int slot, int stream);
/* The block's free, after what that needs. */
int draw_free(fuzz_draw *draw, model *m, int slot);
/* The same of a range, or of pages of one: mostly only these go. */
int draw_range_free(fuzz_draw *draw, model *m, int slot);
int draw_range(fuzz_draw *draw, model *m);
int draw_host(fuzz_draw *draw, model *m);

/* A free in a host function, a pool's end in a miss, or a capture of another thread. */
int draw_odd(fuzz_draw *draw, model *m);

/* A sequence that a walk at random seldom takes: see draw_chain.c. */
int draw_chain(fuzz_draw *draw, const model *m);

/* Planted errors: see plant.c. Returns 1 once the steps are queued. */
extern const char *const fuzz_planted_names[];
/* The kinds that are drawn: first to end - 1. Not all are possible in gated programs. */
void draw_planted_range(const fuzz_limits *limits, int *first, int *end);
int draw_plant(fuzz_draw *draw, model *m);
int draw_planted_devices(int kind); /* how many the error needs */

#endif
