/* SPDX-License-Identifier: Apache-2.0 */
/* Which arenas may have memory to give: see donors.h. */
#include "memory/pool/donors.h"

#include "base/host_memory.h"
#include "memory/pool/structure.h"

_Static_assert(TNRI_DONOR_SET_ARENAS *TNRI_WORLDS == 64, "a bit for each world");

static tnri_donor_set *set_newest(tnr_pool pool)
{
    return atomic_load_explicit(&pool->donor_sets, memory_order_acquire);
}

int tnri_donors_add(tnr_pool pool, tnri_arena *arena)
{
    tnri_assert_held(&pool->lock);
    tnri_donor_set *set = set_newest(pool);
    size_t slot = pool->donor_slots % TNRI_DONOR_SET_ARENAS;
    if (slot == 0) {
        tnri_donor_set *fresh = tnri_host_alloc(sizeof(*fresh));
        if (fresh == NULL)
            return 0;
        fresh->older = set;
        atomic_store_explicit(&pool->donor_sets, fresh, memory_order_release);
        set = fresh;
    }
    pool->donor_slots++;
    arena->donor_set = set;
    arena->donor_slot = (unsigned)slot;
    for (unsigned i = 0; i < TNRI_WORLDS; i++) {
        arena->worlds[i].giving = &set->giving;
        arena->worlds[i].giving_bit = (uint64_t)1 << (slot * TNRI_WORLDS + i);
    }
    atomic_store_explicit(&set->arenas[slot], arena, memory_order_relaxed);
    atomic_fetch_or_explicit(&set->giving, (uint64_t)3 << slot * TNRI_WORLDS, memory_order_release);
    return 1;
}

tnri_arena *tnri_donors_walk(tnr_pool pool, const tnri_arena *arena)
{
    const tnri_donor_set *set = arena == NULL ? set_newest(pool) : arena->donor_set;
    uint64_t below = ~(uint64_t)0; /* bits of the arenas that come later in the walk */
    if (arena != NULL)
        below = ((uint64_t)1 << arena->donor_slot * TNRI_WORLDS) - 1;
    for (; set != NULL; set = set->older, below = ~(uint64_t)0) {
        uint64_t giving = atomic_load_explicit(&set->giving, memory_order_acquire) & below;
        if (giving != 0)
            return atomic_load_explicit(
                &set->arenas[(63u - (unsigned)__builtin_clzll(giving)) / TNRI_WORLDS],
                memory_order_relaxed);
    }
    return NULL;
}

void tnri_donors_free(tnr_pool pool)
{
    tnri_donor_set *set = atomic_exchange(&pool->donor_sets, NULL);
    while (set != NULL) {
        tnri_donor_set *older = set->older;
        tnri_host_free(set, sizeof(*set));
        set = older;
    }
    pool->donor_slots = 0;
}
