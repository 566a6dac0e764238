/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a few threads in every way that C11 allows, and says whether any of them goes wrong.
 *
 * The threads are real code, compiled with the atomics of atomics.h instead of the compiler's: each
 * atomic operation is a step, before which any other thread may run, and which has an outcome for
 * each value that the memory model allows it to read. All orders of steps and all outcomes are
 * tried; states that were met before are not gone into again.
 *
 * The model. Memory keeps, for each atomic object, all values that were stored, in their order of
 * modification, each with what its storing thread published with it. A thread may read any value
 * that is not older than one it knows of, and may put a value anywhere behind that; with acquire
 * order it then knows what was published. That is C11 as repaired by RC11, without reads of values
 * that depend on themselves (Kang and others, "A promising semantics for relaxed-memory
 * concurrency", 2017, without its promises; Lahav and others, "Repairing sequential consistency in
 * C/C++11", 2017). What x86-64 and AArch64 do is a part of it. Sequentially consistent loads and
 * stores are taken for acquire and release ones. The compiler's fence is a light fence, a barrier
 * in all threads a heavy one (Goldblatt, "Asymmetric fences", P1202, 2018): it makes known to its
 * thread what each other thread had done before its last light fence, and what its own had done
 * before becomes known to the others with their next light fence. It comes to the other threads one
 * after the other, in any order, while all go on.
 *
 * What goes wrong: two accesses to plain memory of which neither thread knows that the other's is
 * over (a race: if it is the data that a lock protects, two threads were inside, or the second did
 * not see what the first had written); threads that wait for each other for ever; a failed
 * assertion; a step that never ends.
 *
 * Plain memory is watched where it was registered. Two loads at once count as a race, too, because
 * all that a lock protects is used by one thread at a time.
 */
#ifndef LOCK_MODEL_EXPLORER_H
#define LOCK_MODEL_EXPLORER_H

#include <stddef.h>
#include <stdint.h>

enum { EXPLORER_THREADS_MAX = 3 };

/* A place in the code that does an atomic operation. One for each, made by atomics.h. */
typedef struct explorer_site {
    const char *file, *function, *operation, *object;
    int line;
    int order;                  /* as written in the code */
    struct explorer_site *next; /* of all that were met, or null; the explorer's */
    int is_met;                 /* the explorer's */
} explorer_site;

/* What is taken away from one site: a change of the code that must show. */
typedef enum explorer_weakening {
    EXPLORER_NOTHING,
    EXPLORER_ACQUIRE, /* relaxed instead of acquire; what else the order has is kept */
    EXPLORER_RELEASE, /* the same for release */
    EXPLORER_FENCE    /* a fence or barrier that does nothing */
} explorer_weakening;

/* What is to be explored. */
typedef struct explorer_program {
    const char *name;
    int threads;
    void (*start)(void);     /* registers memory and sets it up, as if all threads had seen it */
    void (*run)(int thread); /* what a thread does */
    int is_large;            /* takes seconds */
} explorer_program;

typedef struct explorer_result {
    size_t states;   /* that were told apart */
    size_t endings;  /* in which all threads had come to their end; 0 if none ever did */
    int went_wrong;  /* 1: `text` says what, after which steps */
    char text[8192]; /* each step with its line of the code */
} explorer_result;

/* Explores the program with the site weakened; null: as it is. Stops at the first that goes
 * wrong. */
explorer_result explorer_run(const explorer_program *program, const explorer_site *weakened,
                             explorer_weakening weakening);

/* All sites that any program has met so far. */
const explorer_site *explorer_sites(void);

/* For `start`. An atomic object, whose value is read from it; a plain one; one that never changes
 * after the start. Objects with one name that are parts of an array are told apart by number. */
void explorer_atomic(const volatile void *object, size_t bytes);
void explorer_plain(const volatile void *object, size_t bytes);
void explorer_constant(const volatile void *object, size_t bytes);

/* For the running threads. */
int explorer_thread(void); /* which one runs, 0 first */
uint64_t explorer_load(explorer_site *site, const volatile void *object, int order);
void explorer_store(explorer_site *site, const volatile void *object, uint64_t value, int order);
int explorer_exchange_if(explorer_site *site, const volatile void *object, uint64_t *expected,
                         uint64_t value, int order, int order_failed);
void explorer_light_fence(explorer_site *site);
void explorer_barrier(explorer_site *site); /* in all threads */
/* What the thread does from here on depends on `point` alone, and on nothing that it has read so
 * far: states that differ in that only are one. */
void explorer_settle(uint64_t point);
/* Nothing to do before somebody stores something. If it `forgets`, nothing that it has read since
 * it settled matters any more. */
void explorer_rest(int forgets);
_Noreturn void explorer_failed(const char *condition, int line);

#endif
