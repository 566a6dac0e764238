/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of the model: see explorer.h. All that a state consists of, but for the threads' own
 * stacks, is in one plain structure, so that a state is kept by copying it.
 */
#ifndef LOCK_MODEL_MEMORY_H
#define LOCK_MODEL_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "explorer.h"

enum { ATOMICS_MAX = 10, PLAINS_MAX = 12, VALUES_MAX = 16, PLACES_MAX = ATOMICS_MAX + PLAINS_MAX };

/* What is known of each object: of an atomic one the newest value, by its place in the order of
 * modification; of a plain one how many accesses. */
typedef struct memory_view {
    uint8_t at[PLACES_MAX];
} memory_view;

typedef struct memory_value {
    uint64_t value;
    memory_view published;
    uint8_t is_bound; /* stored by an exchange, so that nothing comes between it and the last */
} memory_value;

/* The first and the last value that a look at memory has read of each object, plus 1. */
typedef struct memory_seen {
    uint8_t first[ATOMICS_MAX], last[ATOMICS_MAX];
} memory_seen;

typedef struct memory_thread {
    memory_view known;
    memory_view acquirable;  /* what an acquire fence would make known, and all that is known */
    memory_view releasable;  /* what was known at the last release fence */
    memory_view at_light;    /* at its last light fence: what another's barrier makes known */
    memory_view by_barriers; /* what others' barriers make known to its next light fence */
    memory_seen seen;        /* by the present look at memory */
    memory_seen seen_before; /* by the look before it */
    uint8_t has_stored;      /* since the last rest */
    uint8_t is_over;         /* it does nothing any more */
} memory_thread;

typedef struct model_memory {
    memory_value values[ATOMICS_MAX][VALUES_MAX];
    uint8_t values_count[ATOMICS_MAX];
    uint8_t accesses[PLAINS_MAX];
    memory_thread threads[EXPLORER_THREADS_MAX];
} model_memory;

/* An atomic load of the thread. Outcomes: the newest value first. */
int memory_load_outcomes(const model_memory *memory, int thread, int object);
uint64_t memory_load(model_memory *memory, int thread, int object, int outcome, int is_acquire);

/* An atomic store. Outcomes: behind all others first. */
int memory_store_outcomes(const model_memory *memory, int thread, int object);
void memory_store(model_memory *memory, int thread, int object, int outcome, uint64_t value,
                  int is_release);

/* An exchange of the value that a load with this outcome would read. Possible only if nothing else
 * has been exchanged for it. */
uint64_t memory_value_at(const model_memory *memory, int object, int outcome);
int memory_exchange_is_possible(const model_memory *memory, int object, int outcome);
uint64_t memory_exchange(model_memory *memory, int thread, int object, int outcome, uint64_t value,
                         int is_acquire, int is_release);

/* A light fence, and a barrier in all threads, which is a step for each of the others between a
 * beginning and an end. */
void memory_light_fence(model_memory *memory, int thread);
void memory_barrier_begin(model_memory *memory, int thread);
void memory_barrier_in(model_memory *memory, int thread, int other);
void memory_barrier_end(model_memory *memory, int thread);

/* An access to plain memory: 0 if it is a race. */
int memory_access(model_memory *memory, int thread, int plain);

/* Ends the thread's look at memory. */
typedef enum memory_look {
    MEMORY_LOOK_AGAIN,  /* something was stored, by it or by others: it may look again */
    MEMORY_LOOK_IN_VAIN /* the same as before: a run that is the same without it */
} memory_look;
memory_look memory_look_end(model_memory *memory, int thread);
/* 1 if there is something newer than what the thread's last look has read. */
int memory_has_news(const model_memory *memory, int thread);

/* The thread looks at memory for something new. */
void memory_look_begin(model_memory *memory, int thread);

/* Continues two hashes with all that can still matter to a thread. */
void memory_hash(const model_memory *memory, uint64_t hash[2]);

#endif
