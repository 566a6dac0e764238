/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a pool: everything that it has goes back to the driver. */
#ifndef TNRI_API_POOL_END_H
#define TNRI_API_POOL_END_H

#include "memory/pool/pool.h"

/* 1: graphs need memory of the pool, and nothing else does: no block of it is live. */
int tnri_pool_is_kept(tnr_pool pool);

/* TNR_ERR_BUSY if threads are routed to the pool. */
tnr_status tnri_pool_check_routed(tnr_pool pool);

/* For a forced end: frees all blocks of a pool, and drops what is kept of them while they sleep or
 * are parked. In the device's context. */
tnr_status tnri_pool_free_all(tnr_pool pool);

/* Ends a pool that the caller holds: waits for its work, and for all others that hold it, and gives
 * everything back. TNR_ERR_BUSY if blocks are live or threads are routed to it, unless `force`, or
 * if somebody else holds a graph's own pool; TNR_ERR_INVALID_POOL if another thread ends it. In the
 * device's context. On success nobody holds the pool any more, and another pool may have the
 * structure. After an error the caller still holds the pool. */
tnr_status tnri_pool_end(tnr_pool pool, int force);

#endif
