/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Depots: spare objects of one kind, for threads that take and give them all the time.
 *
 * With one list under one lock all threads would meet there. So a depot has magazines, each with a
 * lock of its own, and a thread uses the magazine of its number. There it finds a chain of spares
 * that it takes from and gives to, and perhaps a full one. Only whole chains go to the store, which
 * all share, and come from there. (Bonwick and Adams, "Magazines and Vmem", 2001.) A thread does
 * not see spares in other magazines, and makes new ones. So the number of spares exceeds what was
 * needed at once by at most what the magazines hold.
 *
 * Each object begins with a tnri_spare, and a depot knows nothing else of it.
 */
#ifndef TNRI_BASE_DEPOT_H
#define TNRI_BASE_DEPOT_H

#include "base/lock.h"

enum { TNRI_DEPOT_MAGAZINES = 16, TNRI_DEPOT_CHAIN = 16 };

/* Owned by the depot while the object is in it. */
typedef struct tnri_spare {
    struct tnri_spare *next;  /* in its chain; null at the end */
    struct tnri_spare *chain; /* of the first of a chain in the store: the next chain */
} tnri_spare;

typedef struct tnri_magazine {
    _Alignas(64) tnri_lock lock; /* protects what follows */
    tnri_spare *first;           /* the chain in use */
    unsigned count;              /* of it, or more */
    tnri_spare *full;            /* another one; null: none */
} tnri_magazine;

typedef struct tnri_depot {
    _Alignas(64) tnri_lock lock; /* protects what follows */
    tnri_spare *chains;
    tnri_magazine magazines[TNRI_DEPOT_MAGAZINES];
} tnri_depot;

/* An empty depot. All of its locks have the rank; no two are held at once. */
#define TNRI_MAGAZINE_INIT(lock_rank)                                                              \
    {                                                                                              \
        .lock = {.rank = (lock_rank) }                                                             \
    }
#define TNRI_MAGAZINES_INIT(lock_rank)                                                             \
    TNRI_MAGAZINE_INIT(lock_rank), TNRI_MAGAZINE_INIT(lock_rank), TNRI_MAGAZINE_INIT(lock_rank),   \
        TNRI_MAGAZINE_INIT(lock_rank)
#define TNRI_DEPOT_INIT(lock_rank)                                                                 \
    {                                                                                              \
        .lock = {.rank = (lock_rank)}, .magazines = {                                              \
            TNRI_MAGAZINES_INIT(lock_rank),                                                        \
            TNRI_MAGAZINES_INIT(lock_rank),                                                        \
            TNRI_MAGAZINES_INIT(lock_rank),                                                        \
            TNRI_MAGAZINES_INIT(lock_rank)                                                         \
        }                                                                                          \
    }

/* A spare, or null: there is none in the thread's magazine, nor in the store. */
tnri_spare *tnri_depot_take(tnri_depot *depot);
void tnri_depot_give(tnri_depot *depot, tnri_spare *spare);
/* Puts a chain of any length into the store; null is accepted. */
void tnri_depot_add(tnri_depot *depot, tnri_spare *first);

/* All that is there, as one chain; nothing is then. No other thread is inside. */
tnri_spare *tnri_depot_empty(tnri_depot *depot);

#endif
