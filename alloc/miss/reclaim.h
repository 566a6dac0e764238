/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving idle memory back to the driver: when it is asked for (tnr_trim), when an allocation would
 * fail otherwise, and when a setting says so. Memory is idle when a whole chunk of it is free. No
 * live block is ever touched. All in the device's context, with no lock held.
 */
#ifndef TNRI_MISS_RECLAIM_H
#define TNRI_MISS_RECLAIM_H

#include "memory/device/upper.h"
#include "memory/pool/pool.h"

/* Gives back up to `bytes` of a pool (null: of all pools of the device). With `wait`, waits for
 * work that may still use them. Returns the bytes given back. If `status` is not null, *status is
 * the first error of the driver. */
size_t tnri_release_idle(tnri_device *device, tnr_pool pool, size_t bytes, int wait,
                         tnr_status *status);

/* The same with the memory of parked blocks (park_release.h); always waits for work. A caller asks
 * for idle memory first. An error goes into *status if there was none before. */
size_t tnri_release_parked(tnri_device *device, tnr_pool pool, size_t bytes, tnr_status *status);

/* Removes all old mappings of a pool that may be removed. The driver keeps memory as long as it is
 * mapped somewhere. So a chunk that moved and is then given back is not free until its old mapping
 * has gone too, in whichever arena that is. A caller that has just given chunks back calls this.
 * Work on the old address is ordered before work on the new one, so the proof is there. With
 * `wait`, waits for work that may still use them. Adds what else was given back to *released.
 * Returns the driver's first error. */
tnr_status tnri_drain_pool(tnr_pool pool, int wait, size_t *released);

/* The same with `wait`; null: of all pools of the device that tnri_release_idle looks at. If
 * nothing was given back, *released is what the device has more than before. */
tnr_status tnri_drain_idle(tnri_device *device, tnr_pool pool, size_t *released);

/* Ends retired blocks of a pool's arenas until `bytes` are free again: see tnri_upper.collect.
 * Returns what became free. */
size_t tnri_collect_pool(tnr_pool pool, size_t bytes, tnri_collect how);

/* Ends all retired blocks of a device, waiting for them on the host. */
void tnri_collect_all(tnri_device *device);

/* Gives back two things: the addresses that arenas of a device have borrowed and have no memory
 * for, and the host memory and addresses of arenas without memory. */
void tnri_dissolve_all(tnri_device *device);

/* For a request that finds no addresses: waits for work on old mappings and removes them, then does
 * what tnri_dissolve_all does. */
void tnri_reclaim_addresses(tnri_device *device);

/* 1 if trying again after giving memory back could help. */
static inline int tnri_is_shortage(tnr_status status)
{
    return status == TNR_ERR_OUT_OF_MEMORY || status == TNR_ERR_LIMIT;
}

/* For an allocation that failed. Ends retired blocks of the pool. If there are none, or `thorough`
 * is not 0, also gives back what is idle in the device's pools: at least `bytes`, if that much is
 * idle. The first call for a request need not be thorough, later ones must be: what was ended may
 * lie where this arena cannot use it, and there may be more such blocks than anybody wants to try.
 * Returns what was ended and given back; if that is nothing, what the device has more now. */
size_t tnri_reclaim(tnri_arena *arena, size_t bytes, int thorough);

/* For other processes of the device's group: gives back idle memory, at most `bytes`, and only so
 * much that `floor` stays mapped. Waits for work only with `wait`. Memory that still waits for work
 * goes back by a later call, and is counted in *held. Returns what went back. Looks for no graphs
 * that have ended: a wake that is short may be the caller, and their pools may have slept. */
size_t tnri_reclaim_for_others(tnri_device *device, size_t bytes, size_t floor, int wait,
                               size_t *held);

/* Gives back what is idle, as far as control groups have more of the device than a limit of theirs,
 * without waiting. 1: look again soon: some of it is on its way, or it was too little, and another
 * thread may have had some in hand. If that was looked at less than `apart_ns` ago, says what was
 * said then: a request that has looked must not put off the thread that comes back. */
int tnri_reclaim_above_groups(tnri_device *device, uint64_t apart_ns);

/* garbage_collection_threshold: if `bytes` more would exceed it, gives back what is idle and no
 * longer in use. */
void tnri_reclaim_above_threshold(tnr_pool pool, size_t bytes);

/* release_threshold_mb: gives back what the pool holds idle above it, without waiting. */
void tnri_reclaim_idle(tnr_pool pool);

#endif
