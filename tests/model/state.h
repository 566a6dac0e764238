/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The naive side of the model test: a flat list of live blocks, and the checks that compare it with
 * the allocator. It knows nothing of chunks, arenas or bins.
 *
 * Every block's first and last words are written on its stream when it is allocated and copied back
 * on its stream before it is freed. Memory that is handed out, moved or unmapped while its stream
 * still needs it shows as a wrong word or as a violation of the simulated device.
 */
#ifndef TENURE_TESTS_MODEL_STATE_H
#define TENURE_TESTS_MODEL_STATE_H

#include "unit.h"

enum {
    STREAMS = 5,    /* number 0 is the legacy default stream */
    POOLS_MAX = 4,  /* number 0 is the default pool */
    LIVE_MAX = 600, /* blocks at once */
    CHECKS_MAX = 4096,
    DEVICE = 0
};

typedef struct live_block {
    uintptr_t base;
    size_t bytes; /* as asked for */
    uint32_t word;
    int pool, stream;
} live_block;

/* What a freed block must have held: two words of host memory, filled by the device. */
typedef struct content_check {
    uint32_t expected;
} content_check;

typedef struct model {
    uint64_t random;
    uint64_t seed;
    size_t step;

    tnr_stream streams[STREAMS];
    tnr_pool pools[POOLS_MAX]; /* null: the default pool, or none */
    int pools_live[POOLS_MAX];
    uint64_t pool_limit[POOLS_MAX];
    int routes[16]; /* what this thread has pushed, outermost first */
    int routes_count;
    uint64_t limit;

    live_block live[LIVE_MAX];
    size_t live_count;
    uint64_t live_bytes;
    uint64_t reserved_before;
    uint64_t mallocs, frees, ooms;

    content_check checks[CHECKS_MAX];
    uint32_t *words; /* pinned, two for each check */
    size_t checks_count;
    uint32_t word_last;

    uint64_t trail; /* hash over all results: equal seeds must give equal trails */
    uintptr_t address_base;
} model;

/* Prints where the model stands and how to run it again, then fails the test. */
_Noreturn void model_fail(const model *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds a result to the trail. */
void model_note(model *m, uint64_t value);

/* A block was handed out: it must be aligned, inside the range, and overlap nothing. */
void model_add(model *m, void *ptr, size_t bytes, size_t alignment, int pool, int stream);
/* Block number `index` is about to be freed: its contents are copied out on its stream. */
void model_remove(model *m, size_t index);
/* Waits for the device and compares all contents copied out so far. */
void model_compare_contents(model *m);

/* tnr_block_get on a random place of a random block, and its neighbours outside. */
void model_check_lookup(model *m);
/* Every counter against the list. */
void model_check_stats(model *m);

#endif
