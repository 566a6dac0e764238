/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of every public function that takes something that Tenure gave out: a pool, a graph's
 * number, a block. Each can be called with any value there; the rest of its arguments is right.
 */
#ifndef TENURE_TEST_HANDLE_CALLS_H
#define TENURE_TEST_HANDLE_CALLS_H

#include "steps.h"

/* What a call is given; the rest of its arguments is right. */
typedef struct given {
    tnr_pool pool;
    tnr_graph graph;
    void *ptr;
} given;

/* What calls need besides; the test makes them. */
extern recorded spare_graph; /* one that lives, for calls that need a CUDA graph */
extern CUevent spare_event;  /* announced */
extern int device_of_calls;

/* One public function. `starts`: it may put a device into use before it looks. */
typedef struct call {
    const char *name;
    tnr_status (*body)(given it);
    tnr_status status;
    int starts;
} call;

typedef struct call_table {
    const call *calls;
    size_t count;
} call_table;

extern const call_table pool_calls, graph_calls;
extern const call_table block_calls; /* the status is for addresses that are not Tenure's */

/* Null: it has none of that name. */
const call *call_find(const call_table *table, const char *name);

#endif
