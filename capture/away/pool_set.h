/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pools of one call that does something to pools as a whole while nobody works on them: sleeps,
 * wakes and compactions. What these have in common is the turn, the states of pools, and the wait
 * for all work.
 *
 * A device has one such call at a time, from its first callback to its last (the turn). A call
 * takes the pools out of TNRI_AWAKE (tnri_pool_set_select), lets threads forget their arenas
 * (tnri_generation_advance), waits for those at work (tnri_pool_work_wait), and claims the staging
 * only then.
 */
#ifndef TNRI_AWAY_POOL_SET_H
#define TNRI_AWAY_POOL_SET_H

#include "away/sleeper.h"
#include "away/wanted.h"
#include "memory/pool/pool.h"

/* The pools of one call, each held. */
typedef struct tnri_pool_set {
    tnri_device *device;
    int is_all; /* 1: all of the device's: graph pools keep, whatever the options say */
    tnr_pool *pools;
    size_t count, room;
    size_t pinned, paged; /* buffers that there were before a sleep */
} tnri_pool_set;

/* Finds the device and waits for this thread's turn, with the pool that it is for. */
tnr_status tnri_pool_set_turn_begin(int device_index, tnr_pool handle, tnri_device **device);
/* TNR_ERR_INVALID_DEVICE for host memory, whose pools do not go away. */
tnr_status tnri_pool_set_check(const tnri_device *device);
void tnri_pool_set_turn_end(tnri_device *device);

/* The set of the pools that are wanted. It is this thread's turn. */
tnr_status tnri_pool_set_make(tnri_pool_set *set, tnri_device *device, const tnri_wanted *wanted);
void tnri_pool_set_free(tnri_pool_set *set);

/* Takes a pool to another state: the next one, or back from being on the way. It is this thread's
 * turn. */
void tnri_pool_set_state(tnr_pool pool, tnri_sleep_state to);

/* Leaves only the pools in one state in the set, and takes them to another. */
void tnri_pool_set_select(tnri_pool_set *set, tnri_sleep_state from, tnri_sleep_state to);

/* Tells the callbacks of each pool that is in a state. */
void tnri_pool_set_notify(const tnri_pool_set *set, tnr_sleep_event event, tnri_sleep_state state);

/* Does the work of a sleep or a compaction while nobody works on the pools, which are those of the
 * set that are awake: no others are in it afterwards. Their callbacks are told that they are going,
 * and the work runs in the device's context, with the staging claimed. It leaves each pool awake or
 * asleep. Without the context nothing is done, and all are awake again. */
typedef tnr_status (*tnri_pool_set_work)(tnri_pool_set *set, void *with);
tnr_status tnri_pool_set_do(tnri_pool_set *set, tnri_pool_set_work work, void *with);

/* Waits for all work, so that what is retired is over and old mappings can go. In the device's
 * context, with the staging claimed. */
tnr_status tnri_pool_set_drain(const tnri_pool_set *set);

static inline tnri_sleeper *tnri_pool_set_sleeper(const tnri_pool_set *set, size_t i)
{
    return set->pools[i]->asleep.sleeper;
}

#endif
