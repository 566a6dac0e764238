/* SPDX-License-Identifier: Apache-2.0 */
/* Spare objects: see depot.h. */
#include "base/depot.h"

#include <stddef.h>

#include "base/thread_number.h"

static tnri_magazine *magazine_own(tnri_depot *depot)
{
    return &depot->magazines[tnri_thread_number() % TNRI_DEPOT_MAGAZINES];
}

/* A chain of the store, or null. */
static tnri_spare *store_take(tnri_depot *depot)
{
    tnri_lock_take(&depot->lock);
    tnri_spare *first = depot->chains;
    if (first != NULL)
        depot->chains = first->chain;
    tnri_lock_release(&depot->lock);
    return first;
}

void tnri_depot_add(tnri_depot *depot, tnri_spare *first)
{
    if (first == NULL)
        return;
    tnri_lock_take(&depot->lock);
    first->chain = depot->chains;
    depot->chains = first;
    tnri_lock_release(&depot->lock);
}

/* Takes one of the magazine's; null if it has none. Under its lock. */
static inline tnri_spare *magazine_pop(tnri_magazine *magazine)
{
    if (tnri_unlikely(magazine->first == NULL)) {
        magazine->first = magazine->full;
        magazine->full = NULL;
        magazine->count = TNRI_DEPOT_CHAIN;
    }
    tnri_spare *spare = magazine->first;
    if (spare != NULL) {
        magazine->first = spare->next;
        magazine->count--;
    }
    return spare;
}

/* Puts a chain of the store where there is room for it: another thread may have been quicker.
 * Returns it if there is none. */
static tnri_spare *magazine_fill(tnri_magazine *magazine, tnri_spare *chain)
{
    tnri_lock_take(&magazine->lock);
    if (magazine->first == NULL) {
        magazine->first = chain;
        magazine->count = TNRI_DEPOT_CHAIN;
        chain = NULL;
    }
    tnri_lock_release(&magazine->lock);
    return chain;
}

tnri_spare *tnri_depot_take(tnri_depot *depot)
{
    tnri_magazine *magazine = magazine_own(depot);
    tnri_lock_take(&magazine->lock);
    tnri_spare *spare = magazine_pop(magazine);
    tnri_lock_release(&magazine->lock);
    if (tnri_likely(spare != NULL))
        return spare;
    spare = store_take(depot);
    if (spare != NULL && spare->next != NULL)
        tnri_depot_add(depot, magazine_fill(magazine, spare->next));
    return spare;
}

void tnri_depot_give(tnri_depot *depot, tnri_spare *spare)
{
    tnri_spare *surplus = NULL;
    tnri_magazine *magazine = magazine_own(depot);
    tnri_lock_take(&magazine->lock);
    if (tnri_unlikely(magazine->first == NULL)) {
        magazine->count = 0;
    } else if (tnri_unlikely(magazine->count >= TNRI_DEPOT_CHAIN)) {
        surplus = magazine->full;
        magazine->full = magazine->first;
        magazine->first = NULL;
        magazine->count = 0;
    }
    spare->next = magazine->first;
    magazine->first = spare;
    magazine->count++;
    tnri_lock_release(&magazine->lock);
    if (tnri_unlikely(surplus != NULL))
        tnri_depot_add(depot, surplus);
}

/* Puts one chain before another. */
static tnri_spare *chains_join(tnri_spare *first, tnri_spare *second)
{
    tnri_spare *last = first;
    while (last != NULL && last->next != NULL)
        last = last->next;
    if (last == NULL)
        return second;
    last->next = second;
    return first;
}

tnri_spare *tnri_depot_empty(tnri_depot *depot)
{
    tnri_spare *all = NULL, *chain;
    for (unsigned i = 0; i < TNRI_DEPOT_MAGAZINES; i++) {
        tnri_magazine *magazine = &depot->magazines[i];
        tnri_lock_take(&magazine->lock);
        all = chains_join(magazine->first, chains_join(magazine->full, all));
        magazine->first = NULL;
        magazine->full = NULL;
        tnri_lock_release(&magazine->lock);
    }
    while ((chain = store_take(depot)) != NULL)
        all = chains_join(chain, all);
    return all;
}
