/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's memory pools, and what stands in for them: see pools.c.
 */
#ifndef TENURE_PRELOAD_POOLS_H
#define TENURE_PRELOAD_POOLS_H

#include "service.h"

/* What Tenure allocates from where the program names a pool of the driver's (null: the device's):
 * null in *own for the device's default pool. 0: nothing, the driver is to be asked. Inside. */
int pools_stand_in(const service_device *device, CUmemoryPool pool, tnr_pool *own);

/* The devices that are let in to a pool that Tenure's default pool of the device stands in for: a
 * bit for each. */
uint64_t pools_shared_peers(int device);

/* Tenure's pools of a device have ended with its context. */
void pools_forget(int device);

#endif
