/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of misuse: every public function, with every kind of bad argument, in every state that
 * a process can be in. misuse.c says what is checked; states.c has the states, values.c the values
 * of each kind of argument, and calls.py makes the list of functions from the headers.
 */
#ifndef TENURE_TESTS_MISUSE_MISUSE_H
#define TENURE_TESTS_MISUSE_MISUSE_H

#include <stddef.h>
#include <stdint.h>

#include <tenure/tenure.h>

#include <cuda.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

typedef void (*misuse_function)(void);

typedef union misuse_value {
    void *p;
    size_t size;
    uint64_t u;
    int i;
    misuse_function f;
} misuse_value;

typedef enum misuse_kind {
    KIND_TEXT = 0,
    KIND_SETTINGS,
    KIND_PATH,
    KIND_PUBLISHED,
    KIND_TAG,
    KIND_TAGS,
    KIND_TAGS_COUNT,
    KIND_OPTIONS,
    KIND_NAME,
    KIND_POINTER,
    KIND_USER,
    KIND_BUFFER,
    KIND_BUFFER_BYTES,
    KIND_STRUCT,
    KIND_OUTPUT,
    KIND_STREAM,
    KIND_POOL,
    KIND_GRAPH,
    KIND_EXPORT,
    KIND_CUDA_GRAPH,
    KIND_EXEC,
    KIND_EVENT,
    KIND_CALLBACK,
    KIND_DEVICE,
    KIND_FILE,
    KIND_FLAG,
    KIND_ALIGNMENT,
    KIND_COUNT,
    KIND_SIZE,
    KIND_MOMENT,
    KIND_ENUM
} misuse_kind;

enum { MISUSE_ARGUMENTS_MAX = 6 };

/* What an argument's kind does not say: the size of its struct; a callback of its type. */
typedef struct misuse_detail {
    size_t bytes;
    misuse_function call;
} misuse_detail;

typedef struct misuse_call {
    const char *name;
    tnr_status (*call)(const misuse_value *values); /* TNR_OK if the function returns no status */
    int may_call_driver;                            /* by its manual */
    size_t arguments;
    misuse_kind kinds[MISUSE_ARGUMENTS_MAX];
    misuse_detail details[MISUSE_ARGUMENTS_MAX];
} misuse_call;

/* calls.inc. */
extern const misuse_call misuse_calls[];
extern const size_t misuse_calls_count;

/* What the process has when the call comes. Null or 0: the state has none, and the value that
 * would be it is another bad one. */
typedef struct misuse_world {
    const char *folder; /* its own, for files and names */
    CUcontext contexts[2];
    CUstream stream, other, elsewhere, ended; /* of device 0 twice, of device 1, destroyed */
    CUevent event, unannounced;
    tnr_pool own, graphs, vouched, foreign, away, destroyed; /* away: of device 1 */
    char *block, *pooled, *far, *freed, *growable, *ranged, *parked, *registered, *imported;
    tnr_pool hosts; /* of host memory near device 0 */
    char *hosted, *hosted_freed;
    char *shared;   /* until its free another stream uses it */
    char *outsider; /* in a segment of somebody else's */
    tnr_graph graph, graph_ended;
    CUgraph cuda_graph, cuda_graph_ended;
    CUgraphExec exec, exec_ended;
    tnr_export exported, closed;
    tnr_export_name name;
    int sockets[2];
} misuse_world;

/* ---- values.c ------------------------------------------------------------------------------- */

/* Value number `index` of an argument, and what it is; 0 is a good one. Null past the last. */
const char *misuse_value_get(misuse_value *value, const misuse_world *world, misuse_kind kind,
                             const misuse_detail *detail, size_t argument, size_t index);

/* ---- states.c ------------------------------------------------------------------------------- */

typedef struct misuse_state {
    const char *name;
    /* What a program does to come there, in a process of its own. Ends the process if it cannot. */
    void (*enter)(misuse_world *world);
    /* Around each call; null: nothing. */
    void (*before)(void);
    void (*after)(void);
    tnr_status owns[2]; /* statuses that no other state may have: they would be false */
} misuse_state;

extern const misuse_state misuse_states[];
extern const size_t misuse_states_count;

#endif
