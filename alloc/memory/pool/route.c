/* SPDX-License-Identifier: Apache-2.0 */
/* Where threads are routed: see route.h. */
#include "memory/pool/route.h"

#include "base/prim/alive.h"
#include "base/host_memory.h"
#include "base/lock.h"
#include "memory/pool/structure.h"

enum { RECORDS_FEW = 64 };

static struct {
    tnri_lock lock;
    tnri_routes *first;         /* of all threads; the lock */
    size_t count, count_wanted; /* records, and how many make a sweep worth while; the lock */
} all = {.lock = {.rank = TNRI_RANK_DEVICE}, .count_wanted = RECORDS_FEW};

void tnri_route_end(tnri_route *route)
{
    struct tnr_pool_st *pool = atomic_exchange(&route->pool, NULL);
    if (pool != NULL)
        atomic_fetch_sub(&pool->routed_threads, 1);
}

/* Takes the routes of a thread that is gone back. */
static void routes_end(tnri_routes *routes)
{
    for (int i = 0; i < TNRI_ROUTES_MAX; i++)
        tnri_route_end(&routes->at[i]);
    tnri_host_free(routes, sizeof(*routes));
}

/* Under the lock, because a record is not to be freed twice. A look takes a microsecond. */
static void sweep_locked(void)
{
    tnri_routes **link = &all.first;
    while (*link != NULL) {
        tnri_routes *routes = *link;
        if (!tnri_alive_is_gone(routes->address, routes->id)) {
            link = &routes->next;
            continue;
        }
        *link = routes->next;
        all.count--;
        routes_end(routes);
    }
    all.count_wanted = all.count * 2 > RECORDS_FEW ? all.count * 2 : RECORDS_FEW;
}

void tnri_routes_sweep(void)
{
    tnri_lock_take(&all.lock);
    sweep_locked();
    tnri_lock_release(&all.lock);
}

tnri_routes *tnri_routes_make(void)
{
    tnri_routes *routes = tnri_host_alloc(sizeof(*routes));
    if (routes == NULL)
        return NULL;
    routes->address = tnri_alive_self();
    routes->id = tnri_alive_id();
    tnri_lock_take(&all.lock);
    if (all.count >= all.count_wanted)
        sweep_locked();
    routes->next = all.first;
    all.first = routes;
    all.count++;
    tnri_lock_release(&all.lock);
    return routes;
}

void tnri_routes_forget_device(int device)
{
    tnri_lock_take(&all.lock);
    for (tnri_routes *routes = all.first; routes != NULL; routes = routes->next)
        for (int i = 0; i < TNRI_ROUTES_MAX; i++)
            if (atomic_load(&routes->at[i].pool) != NULL && routes->at[i].device == device)
                tnri_route_end(&routes->at[i]);
    tnri_lock_release(&all.lock);
}

void tnri_routes_forget(void)
{
    tnri_lock_take(&all.lock);
    while (all.first != NULL) {
        tnri_routes *routes = all.first;
        all.first = routes->next;
        tnri_host_free(routes, sizeof(*routes));
    }
    all.count = 0;
    all.count_wanted = RECORDS_FEW;
    tnri_lock_release(&all.lock);
}
