/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread remembers: see cache.h. */
#include "memory/pool/cache.h"

_Atomic uint64_t tnri_generation;
_Thread_local tnri_thread tnri_this_thread;

static _Atomic uint64_t generation_last;

static uint64_t generation_next(void)
{
    return atomic_fetch_add(&generation_last, 1) + 1;
}

void tnri_generation_start(void)
{
    atomic_store(&tnri_generation, generation_next());
}

void tnri_generation_stop(void)
{
    atomic_store(&tnri_generation, 0);
}

void tnri_generation_advance(void)
{
    /* Of two at once the later number must stay, and a stop must. */
    uint64_t next = generation_next();
    uint64_t now = atomic_load(&tnri_generation);
    while (now != 0 && now < next && !atomic_compare_exchange_weak(&tnri_generation, &now, next))
        ;
}

tnr_pool tnri_thread_route(tnri_thread *thread, int device)
{
    if (thread->routes_epoch != atomic_load_explicit(&tnri_library_epoch, memory_order_relaxed)) {
        thread->routes_count = 0; /* they belong to a start that is over */
        return NULL;
    }
    for (int i = thread->routes_count; i-- > 0;)
        if (thread->routes->at[i].handle == NULL || thread->routes->at[i].device == device ||
            thread->routes->at[i].device == TNRI_ROUTE_ANY)
            return thread->routes->at[i].handle;
    return NULL;
}

TNRI_SELDOM void tnri_cached_arena_leave(const tnri_arena *arena)
{
    tnri_thread *thread = tnri_thread_here();
    for (int i = 0; i < TNRI_CACHED_ARENAS; i++)
        if (thread->cached[i].arena == arena)
            thread->cached[i] = (tnri_cached_arena){0};
    thread->lane_left = arena;
}
