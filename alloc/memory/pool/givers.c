/* SPDX-License-Identifier: Apache-2.0 */
/* Who may have memory to give: see givers.h. */
#include "memory/pool/givers.h"

#include "base/host_memory.h"
#include "memory/pool/structure.h"

_Static_assert(TNRI_WARD_ARENAS *TNRI_WORLDS == 64, "a bit for each world");

static tnri_ward *ward_newest(tnr_pool pool)
{
    return atomic_load_explicit(&pool->wards, memory_order_acquire);
}

int tnri_givers_add(tnr_pool pool, tnri_arena *arena)
{
    tnri_assert_held(&pool->lock);
    tnri_ward *ward = ward_newest(pool);
    size_t slot = pool->wards_slots % TNRI_WARD_ARENAS;
    if (slot == 0) {
        tnri_ward *fresh = tnri_host_alloc(sizeof(*fresh));
        if (fresh == NULL)
            return 0;
        fresh->older = ward;
        atomic_store_explicit(&pool->wards, fresh, memory_order_release);
        ward = fresh;
    }
    pool->wards_slots++;
    arena->ward = ward;
    arena->ward_slot = (unsigned)slot;
    for (unsigned i = 0; i < TNRI_WORLDS; i++) {
        arena->worlds[i].giving = &ward->giving;
        arena->worlds[i].giving_bit = (uint64_t)1 << (slot * TNRI_WORLDS + i);
    }
    atomic_store_explicit(&ward->arenas[slot], arena, memory_order_relaxed);
    atomic_fetch_or_explicit(&ward->giving, (uint64_t)3 << slot * TNRI_WORLDS,
                             memory_order_release);
    return 1;
}

tnri_arena *tnri_givers_walk(tnr_pool pool, const tnri_arena *arena)
{
    const tnri_ward *ward = arena == NULL ? ward_newest(pool) : arena->ward;
    uint64_t below = ~(uint64_t)0; /* bits of the arenas that come later in the walk */
    if (arena != NULL)
        below = ((uint64_t)1 << arena->ward_slot * TNRI_WORLDS) - 1;
    for (; ward != NULL; ward = ward->older, below = ~(uint64_t)0) {
        uint64_t giving = atomic_load_explicit(&ward->giving, memory_order_acquire) & below;
        if (giving != 0)
            return atomic_load_explicit(
                &ward->arenas[(63u - (unsigned)__builtin_clzll(giving)) / TNRI_WORLDS],
                memory_order_relaxed);
    }
    return NULL;
}

void tnri_givers_free(tnr_pool pool)
{
    tnri_ward *ward = atomic_exchange(&pool->wards, NULL);
    while (ward != NULL) {
        tnri_ward *older = ward->older;
        tnri_host_free(ward, sizeof(*ward));
        ward = older;
    }
    pool->wards_slots = 0;
}
