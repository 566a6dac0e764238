/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handles of pools: the names that callers use for them.
 *
 * A handle is a number in the shape of a pointer. It says where to look in a table, and which pool
 * was put there. So Tenure looks up whatever a caller passes before it reads anything. It
 * recognises a handle that was never given out, or whose pool has ended: no number is given twice
 * in a process, not even after a shutdown. No handle is an address on any machine that Tenure runs
 * on.
 *
 *   bits 60-63  HANDLE_TAG
 *   bits 20-59  a serial number, from 1 on
 *   bits  0-19  where in the table
 *
 * The table leads to the structures of pools. The structure of a pool that has ended is used for
 * the next pool, and none is freed before the shutdown. So if a pool ends while a thread looks at
 * it, the thread reads memory that is still a pool's. There are as many structures as pools that
 * lived at one time.
 *
 * Inside the library a tnr_pool is the address of the structure, except where it is called
 * `handle`: from a public function to tnri_pool_find or tnri_pool_resolve.
 *
 * Synchronisation: looking takes no lock; making and ending take one of their own.
 */
#ifndef TNRI_POOL_HANDLE_H
#define TNRI_POOL_HANDLE_H

#include <tenure/alloc.h>

/* A structure with a new handle, not live yet, everything else zero; null if there is no host
 * memory, or if all numbers are used up: 1,048,576 pools at a time, 10^12 in a process. */
tnr_pool tnri_pool_new(void);

/* Returns the structure of a pool that is not live and that no thread holds. */
void tnri_pool_retire(tnr_pool pool);

/* Frees all structures; no pool is live. Under the library lock, at shutdown. */
void tnri_pools_forget(void);

/* The live pool that a handle names, held until tnri_pool_drop; null if there is none. Leaves the
 * thread's last error alone. */
tnr_pool tnri_pool_find(tnr_pool handle);

/* tnri_pool_find that tells the caller: TNR_ERR_INVALID_POOL if there is none. */
tnr_status tnri_pool_resolve(tnr_pool handle, tnr_pool *pool);

/* Keeps a pool from being ended; the caller knows that it is a pool. 0 if it is being ended. */
int tnri_pool_hold(tnr_pool pool);
void tnri_pool_drop(tnr_pool pool);

#endif
