/* SPDX-License-Identifier: Apache-2.0 */
/* Spare things: see stock.h. */
#include "base/stock.h"

#include <stddef.h>

#include "base/thread_number.h"

static tnri_shelf *shelf_own(tnri_stock *stock)
{
    return &stock->shelves[tnri_thread_number() % TNRI_STOCK_SHELVES];
}

/* A chain of the store, or null. */
static tnri_thing *store_take(tnri_stock *stock)
{
    tnri_lock_take(&stock->lock);
    tnri_thing *first = stock->chains;
    if (first != NULL)
        stock->chains = first->chain;
    tnri_lock_release(&stock->lock);
    return first;
}

void tnri_stock_add(tnri_stock *stock, tnri_thing *first)
{
    if (first == NULL)
        return;
    tnri_lock_take(&stock->lock);
    first->chain = stock->chains;
    stock->chains = first;
    tnri_lock_release(&stock->lock);
}

/* Takes one of the shelf's; null if it has none. Under its lock. */
static inline tnri_thing *shelf_pop(tnri_shelf *shelf)
{
    if (tnri_unlikely(shelf->first == NULL)) {
        shelf->first = shelf->full;
        shelf->full = NULL;
        shelf->count = TNRI_STOCK_CHAIN;
    }
    tnri_thing *thing = shelf->first;
    if (thing != NULL) {
        shelf->first = thing->next;
        shelf->count--;
    }
    return thing;
}

/* Puts a chain of the store where there is room for it: another thread may have been quicker.
 * Returns it if there is none. */
static tnri_thing *shelf_fill(tnri_shelf *shelf, tnri_thing *chain)
{
    tnri_lock_take(&shelf->lock);
    if (shelf->first == NULL) {
        shelf->first = chain;
        shelf->count = TNRI_STOCK_CHAIN;
        chain = NULL;
    }
    tnri_lock_release(&shelf->lock);
    return chain;
}

tnri_thing *tnri_stock_take(tnri_stock *stock)
{
    tnri_shelf *shelf = shelf_own(stock);
    tnri_lock_take(&shelf->lock);
    tnri_thing *thing = shelf_pop(shelf);
    tnri_lock_release(&shelf->lock);
    if (tnri_likely(thing != NULL))
        return thing;
    thing = store_take(stock);
    if (thing != NULL && thing->next != NULL)
        tnri_stock_add(stock, shelf_fill(shelf, thing->next));
    return thing;
}

void tnri_stock_give(tnri_stock *stock, tnri_thing *thing)
{
    tnri_thing *surplus = NULL;
    tnri_shelf *shelf = shelf_own(stock);
    tnri_lock_take(&shelf->lock);
    if (tnri_unlikely(shelf->first == NULL)) {
        shelf->count = 0;
    } else if (tnri_unlikely(shelf->count >= TNRI_STOCK_CHAIN)) {
        surplus = shelf->full;
        shelf->full = shelf->first;
        shelf->first = NULL;
        shelf->count = 0;
    }
    thing->next = shelf->first;
    shelf->first = thing;
    shelf->count++;
    tnri_lock_release(&shelf->lock);
    if (tnri_unlikely(surplus != NULL))
        tnri_stock_add(stock, surplus);
}

/* Puts one chain before another. */
static tnri_thing *chains_join(tnri_thing *first, tnri_thing *second)
{
    tnri_thing *last = first;
    while (last != NULL && last->next != NULL)
        last = last->next;
    if (last == NULL)
        return second;
    last->next = second;
    return first;
}

tnri_thing *tnri_stock_empty(tnri_stock *stock)
{
    tnri_thing *all = NULL, *chain;
    for (unsigned i = 0; i < TNRI_STOCK_SHELVES; i++) {
        tnri_shelf *shelf = &stock->shelves[i];
        tnri_lock_take(&shelf->lock);
        all = chains_join(shelf->first, chains_join(shelf->full, all));
        shelf->first = NULL;
        shelf->full = NULL;
        tnri_lock_release(&shelf->lock);
    }
    while ((chain = store_take(stock)) != NULL)
        all = chains_join(chain, all);
    return all;
}
