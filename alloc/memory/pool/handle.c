/* SPDX-License-Identifier: Apache-2.0 */
/* The handles of pools: see handle.h. */
#include "memory/pool/handle.h"

#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "memory/pool/structure.h"

enum { INDEX_BITS = 20, SERIAL_BITS = 40, TABLE_LOG2 = 10 };
#define TABLE_SLOTS ((size_t)1 << TABLE_LOG2)
#define HANDLE_TAG ((uintptr_t)7)
#define FAMILY_TAG ((uintptr_t)6) /* see memory/pool/family.h */
#define SERIAL_MAX (((uint64_t)1 << SERIAL_BITS) - 1)

_Static_assert(sizeof(tnr_pool) == 8, "a handle has 64 bits");
_Static_assert(INDEX_BITS == 2 * TABLE_LOG2, "two levels");

typedef struct table {
    _Atomic(tnr_pool) pools[TABLE_SLOTS];
} table;

static struct {
    tnri_lock lock;
    table *_Atomic tables[TABLE_SLOTS]; /* written under the lock, read without */
    uint32_t pools_count;               /* structures there are; the lock */
    tnr_pool spare;                     /* of those, the ones of no pool; the lock */
    _Atomic uint64_t serial_last;       /* never given twice; written under the lock */
} all = {.lock = {.rank = TNRI_RANK_DEVICE}};

/* ---- looking -------------------------------------------------------------------------------- */

static tnr_pool structure_at(size_t index)
{
    const table *of = atomic_load_explicit(&all.tables[index >> TABLE_LOG2], memory_order_acquire);
    return of == NULL
               ? NULL
               : atomic_load_explicit(&of->pools[index & (TABLE_SLOTS - 1)], memory_order_acquire);
}

int tnri_pool_hold(tnr_pool pool)
{
    /* Either who ends it sees this visitor, or it is seen to end: all are in one order. */
    atomic_fetch_add(&pool->visitors_count, 1);
    if (atomic_load(&pool->live) != NULL)
        return 1;
    tnri_pool_drop(pool);
    return 0;
}

void tnri_pool_drop(tnr_pool pool)
{
    atomic_fetch_sub(&pool->visitors_count, 1);
}

tnr_pool tnri_pool_find(tnr_pool handle)
{
    uintptr_t number = (uintptr_t)handle;
    if (number >> (INDEX_BITS + SERIAL_BITS) != HANDLE_TAG)
        return NULL;
    tnr_pool pool = structure_at(number & (((uintptr_t)1 << INDEX_BITS) - 1));
    if (pool == NULL || !tnri_pool_hold(pool))
        return NULL;
    if (atomic_load_explicit(&pool->live, memory_order_relaxed) == handle)
        return pool;
    tnri_pool_drop(pool); /* a later pool's structure */
    return NULL;
}

tnr_status tnri_pool_resolve(tnr_pool handle, tnr_pool *pool)
{
    *pool = tnri_pool_find(handle);
    if (tnri_likely(*pool != NULL))
        return TNR_OK;
    uintptr_t number = (uintptr_t)handle;
    if (number >> (INDEX_BITS + SERIAL_BITS) == FAMILY_TAG)
        return tnri_error(TNR_ERR_INVALID_POOL,
                          "%p is a tag's handle, for its pools on all devices; this call needs one "
                          "pool alone.",
                          (void *)handle);
    uint64_t serial = number >> INDEX_BITS & SERIAL_MAX;
    int was_given = number >> (INDEX_BITS + SERIAL_BITS) == HANDLE_TAG && serial != 0 &&
                    serial <= atomic_load(&all.serial_last);
    return tnri_error(TNR_ERR_INVALID_POOL,
                      was_given ? "the pool %p has been destroyed."
                                : "%p is not a pool; it was not made by tnr_pool_create.",
                      (void *)handle);
}

/* ---- structures ----------------------------------------------------------------------------- */

/* One more structure, entered in the table; null if there is no host memory, or no room. Under the
 * lock. */
static tnr_pool structure_make(void)
{
    if (all.pools_count == (uint32_t)1 << INDEX_BITS)
        return NULL;
    table *of = atomic_load(&all.tables[all.pools_count >> TABLE_LOG2]);
    if (of == NULL) {
        of = tnri_host_alloc(sizeof(*of));
        if (of == NULL)
            return NULL;
        atomic_store_explicit(&all.tables[all.pools_count >> TABLE_LOG2], of, memory_order_release);
    }
    tnr_pool pool = tnri_host_alloc(sizeof(*pool));
    if (pool == NULL)
        return NULL;
    pool->index = all.pools_count++;
    atomic_store_explicit(&of->pools[pool->index & (TABLE_SLOTS - 1)], pool, memory_order_release);
    return pool;
}

/* That of a pool that has ended, all zero but for what a late look may read. Under the lock. */
static tnr_pool structure_take_spare(void)
{
    tnr_pool pool = all.spare;
    size_t kept = offsetof(struct tnr_pool_st, device);
    all.spare = pool->spare_next;
    memset((char *)pool + kept, 0, sizeof(*pool) - kept);
    return pool;
}

tnr_pool tnri_pool_new(void)
{
    tnr_pool pool = NULL;
    tnri_lock_take(&all.lock);
    uint64_t serial = atomic_load(&all.serial_last) + 1;
    if (serial <= SERIAL_MAX)
        pool = all.spare != NULL ? structure_take_spare() : structure_make();
    if (pool != NULL) {
        atomic_store(&all.serial_last, serial);
        pool->handle = (tnr_pool)(HANDLE_TAG << (INDEX_BITS + SERIAL_BITS) |
                                  (uintptr_t)serial << INDEX_BITS | pool->index);
    }
    tnri_lock_release(&all.lock);
    return pool;
}

void tnri_pool_retire(tnr_pool pool)
{
    tnri_assert(atomic_load(&pool->live) == NULL);
    tnri_lock_take(&all.lock);
    pool->spare_next = all.spare;
    all.spare = pool;
    tnri_lock_release(&all.lock);
}

void tnri_pools_forget(void)
{
    tnri_lock_take(&all.lock);
    for (size_t i = 0; i < all.pools_count; i++) {
        tnr_pool pool = structure_at(i);
        tnri_assert(atomic_load(&pool->live) == NULL);
        tnri_host_free(pool, sizeof(*pool));
    }
    for (size_t i = 0; i < TABLE_SLOTS && atomic_load(&all.tables[i]) != NULL; i++) {
        tnri_host_free(atomic_load(&all.tables[i]), sizeof(table));
        atomic_store(&all.tables[i], NULL);
    }
    all.pools_count = 0;
    all.spare = NULL;
    tnri_lock_release(&all.lock);
}
