/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's memory pools, and what stands in for them: see pools.c.
 */
#ifndef TENURE_PRELOAD_POOLS_H
#define TENURE_PRELOAD_POOLS_H

#include "service.h"

/* Finds the pool of Tenure's to allocate from when the program names a pool of the driver's (null:
 * the device's). *own is null for the device's default pool. Returns 0 if there is none: ask the
 * driver. Inside. */
int pools_stand_in(const service_device *device, CUmemoryPool pool, tnr_pool *own);

/* The devices that have access to the pools that Tenure's default pool of the device stands in for:
 * a bit for each. */
uint64_t pools_shared_peers(int device);

/* Tenure's pools of a device have ended with its context. */
void pools_forget(int device);

#endif
