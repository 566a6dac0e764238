/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stocks: spare things of one kind, for threads that take and give them all the time.
 *
 * With one list under one lock all threads would meet there. So a stock has shelves, each with a
 * lock of its own, and a thread goes to the shelf of its number. There it finds a chain of things
 * that it takes from and gives to, and perhaps a full one. Only whole chains go to the store, which
 * all share, and come from there. (Bonwick and Adams, "Magazines and Vmem", 2001.) A thread does
 * not see things on other shelves, and makes new ones. So the number of things exceeds what was
 * needed at once by at most what the shelves hold.
 *
 * Things begin with a tnri_thing, and a stock knows nothing else of them.
 */
#ifndef TNRI_BASE_STOCK_H
#define TNRI_BASE_STOCK_H

#include "base/lock.h"

enum { TNRI_STOCK_SHELVES = 16, TNRI_STOCK_CHAIN = 16 };

/* Owned by the stock while the thing is spare. */
typedef struct tnri_thing {
    struct tnri_thing *next;  /* in its chain; null at the end */
    struct tnri_thing *chain; /* of the first of a chain in the store: the next chain */
} tnri_thing;

typedef struct tnri_shelf {
    _Alignas(64) tnri_lock lock; /* protects what follows */
    tnri_thing *first;           /* the chain in use */
    unsigned count;              /* of it, or more */
    tnri_thing *full;            /* another one; null: none */
} tnri_shelf;

typedef struct tnri_stock {
    _Alignas(64) tnri_lock lock; /* protects what follows */
    tnri_thing *chains;
    tnri_shelf shelves[TNRI_STOCK_SHELVES];
} tnri_stock;

/* An empty stock. All of its locks have the rank; no two are held at once. */
#define TNRI_SHELF_INIT(lock_rank)                                                                 \
    {                                                                                              \
        .lock = {.rank = (lock_rank) }                                                             \
    }
#define TNRI_SHELVES_INIT(lock_rank)                                                               \
    TNRI_SHELF_INIT(lock_rank), TNRI_SHELF_INIT(lock_rank), TNRI_SHELF_INIT(lock_rank),            \
        TNRI_SHELF_INIT(lock_rank)
#define TNRI_STOCK_INIT(lock_rank)                                                                 \
    {                                                                                              \
        .lock = {.rank = (lock_rank)}, .shelves = {                                                \
            TNRI_SHELVES_INIT(lock_rank),                                                          \
            TNRI_SHELVES_INIT(lock_rank),                                                          \
            TNRI_SHELVES_INIT(lock_rank),                                                          \
            TNRI_SHELVES_INIT(lock_rank)                                                           \
        }                                                                                          \
    }

/* A thing, or null: there is none on the thread's shelf, nor in the store. */
tnri_thing *tnri_stock_take(tnri_stock *stock);
void tnri_stock_give(tnri_stock *stock, tnri_thing *thing);
/* Puts a chain of any length into the store; null is accepted. */
void tnri_stock_add(tnri_stock *stock, tnri_thing *first);

/* All that is there, as one chain; nothing is then. No other thread is inside. */
tnri_thing *tnri_stock_empty(tnri_stock *stock);

#endif
