/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An owner of foreign segments, as a collective library is one: memory of its own, mapped at
 * addresses of its own. It checks that what comes back is what it gave, once, and can be told to do
 * everything wrong that an owner can.
 */
#ifndef TENURE_TESTS_OWNER_H
#define TENURE_TESTS_OWNER_H

#include "unit/unit.h"

enum { OWNER_SEGMENTS = 4096 };

typedef struct owner_segment {
    void *ptr; /* null: a place that is free */
    size_t bytes;
    int device;
    tnr_stream stream;
    unsigned long long handle;
    int is_cached; /* 1: taken back, and kept for the next who asks */
    int undone;    /* steps of its end that are done: unmapped, addresses and memory given back */
} owner_segment;

typedef struct owner {
    owner_segment segments[OWNER_SEGMENTS];
    owner_segment returned[OWNER_SEGMENTS]; /* what the driver refused to undo; up to bytes == 0 */
    int lives;                              /* segments that are out */
    uint64_t allocs, frees, failures;
    uint64_t fail_from; /* that call of alloc, counted from 1, and all later ones */
    int caches;         /* 1: he gives the same memory again */
    int lingers_us;     /* so long he is on his way out after taking back */
    int device;         /* -1: where it is asked for; else there */
    void *(*instead)(struct owner *own); /* what is given for memory, once; null: memory */
    void (*inside)(struct owner *own, int is_alloc); /* called in each callback; null: nothing */
} owner;

extern owner the_owner;

/* What an owner gives, and takes back. */
void *owner_alloc(size_t bytes, int device, tnr_stream stream, void *user);
void owner_free(void *ptr, size_t bytes, int device, tnr_stream stream, void *user);

/* Forgets what was; nothing may be out. */
void owner_reset(void);
/* The segment that contains an address; null: none. */
const owner_segment *owner_find(const void *ptr);
/* Options of a pool over segments of the owner. */
tnr_pool_options owner_options(void);
/* A pool of device 0 over segments of the owner, who is reset. */
tnr_pool owner_pool(void);

/* For teardown: unit_stop, and then everything has come back. */
int owner_stop(void **state);

#endif
