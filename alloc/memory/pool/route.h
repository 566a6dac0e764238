/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where threads are routed (tnr_pool_push). So a pool knows how many threads are routed to it, and
 * a thread that ends without tnr_pool_pop does not keep the pool.
 *
 * A thread that is routed for the first time gets a record of its own: it alone writes there,
 * without a lock. Threads end without telling Tenure. So Tenure looks whether the threads of all
 * records still live (base/prim/alive.h), and takes back the routes of those that are gone. It does
 * so when a pool is to be destroyed that somebody is routed to, and when there are twice as many
 * records as were left the last time.
 */
#ifndef TNRI_POOL_ROUTE_H
#define TNRI_POOL_ROUTE_H

#include <stdatomic.h>
#include <stdint.h>

#include <tenure/alloc.h>

enum { TNRI_ROUTES_MAX = 16 }; /* depth of tnr_pool_push */
enum { TNRI_ROUTE_ANY = -1 };  /* the device of a family: see memory/pool/family.h */

typedef struct tnri_route {
    tnr_pool handle;
    int device;
    /* Not destroyed while it is here; null: the route is over, or it is to a family. Written last:
     * a thread that takes the route back, because the kernel says that its owner is gone, then sees
     * the rest. */
    struct tnr_pool_st *_Atomic pool;
} tnri_route;

/* The routes of one thread, the latest last. How many there are is in tnri_thread. */
typedef struct tnri_routes {
    struct tnri_routes *next;
    uintptr_t address; /* the thread, as tnri_alive_self names it */
    uint32_t id;       /* and as the kernel does */
    tnri_route at[TNRI_ROUTES_MAX];
} tnri_routes;

/* Ends a route: its pool has one less. */
void tnri_route_end(tnri_route *route);

/* The calling thread's record, made now; null if there is no host memory. */
tnri_routes *tnri_routes_make(void);

/* Takes back the routes of threads that are gone. */
void tnri_routes_sweep(void);

/* Ends the routes to pools of a device that is put out of use; their threads still have to pop
 * them. No other thread is inside. */
void tnri_routes_forget_device(int device);

/* Frees all records; no thread is routed any more. Under the library lock, at shutdown. */
void tnri_routes_forget(void);

#endif
