/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of what is known of the driver's handles: streams, graphs, pools. Any thread; one lock
 * for each of its parts, held for a few instructions. A part is many lists: programs have thousands
 * of streams, and as many events.
 */
#ifndef TENURE_PRELOAD_HANDLES_H
#define TENURE_PRELOAD_HANDLES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

enum { HANDLES_PARTS = 256, HANDLES_LISTS = 16 };

typedef struct handle_node {
    struct handle_node *next;
    const void *handle;
    uint64_t value;
} handle_node;

typedef struct handles {
    _Atomic uint64_t changes; /* see handles_changes */
    pthread_mutex_t locks[HANDLES_PARTS];
    handle_node *parts[HANDLES_PARTS][HANDLES_LISTS]; /* under the part's lock */
} handles;

/* A default mutex on Linux is all zero. So the locks need no initialisation. */
#define HANDLES_INIT                                                                               \
    {                                                                                              \
        .parts = { {0} }                                                                           \
    }

/* Enters or changes a value. 0: without host memory nothing is entered, and the handle stays
 * unknown. */
int handles_set(handles *table, const void *handle, uint64_t value);

/* 1 if it is known; *value may be null. */
int handles_get(handles *table, const void *handle, uint64_t *value);

/* The same, and forgets it. */
int handles_take(handles *table, const void *handle, uint64_t *value);

/* How often a value was entered, changed or forgotten. A caller that reads this before handles_get
 * need not ask again while it stays the same. */
static inline uint64_t handles_changes(handles *table)
{
    return atomic_load_explicit(&table->changes, memory_order_acquire);
}

/* Forgets all of one value; of any, if it is 0. */
void handles_clear(handles *table, uint64_t value);

#endif
