/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of what is known of the driver's handles: streams, graphs, pools. Any thread; one lock
 * for each of its parts, held for a few instructions.
 */
#ifndef TENURE_PRELOAD_HANDLES_H
#define TENURE_PRELOAD_HANDLES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

enum { HANDLES_PARTS = 256, HANDLES_REMEMBERED = 16 };

typedef struct handle_node {
    struct handle_node *next;
    const void *handle;
    uint64_t value;
} handle_node;

typedef struct handles {
    _Atomic uint64_t changes; /* how often a value was entered, changed or forgotten */
    pthread_mutex_t locks[HANDLES_PARTS];
    handle_node *parts[HANDLES_PARTS]; /* under the part's lock */
} handles;

/* The locks are zero, which is what a default mutex is on Linux; so it needs no start. */
#define HANDLES_INIT                                                                               \
    {                                                                                              \
        .parts = { 0 }                                                                             \
    }

/* Enters or changes. Without host memory nothing is entered, and then nothing is known. */
void handles_set(handles *table, const void *handle, uint64_t value);

/* 1 if it is known; *value may be null. */
int handles_get(handles *table, const void *handle, uint64_t *value);

/* The same, and forgets it. */
int handles_take(handles *table, const void *handle, uint64_t *value);

/* What a thread remembers of a table; all zero at first. */
typedef struct handles_memory {
    struct {
        const void *handle; /* null: nothing */
        uint64_t changes, value;
    } last[HANDLES_REMEMBERED];
} handles_memory;
/* handles_get, for a handle that the thread asks for again and again. */
int handles_recall(handles *table, handles_memory *memory, const void *handle, uint64_t *value);

/* Forgets all of one value; of any, if it is 0. */
void handles_clear(handles *table, uint64_t value);

#endif
