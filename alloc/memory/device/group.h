/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group, as this layer sees it: processes of one user that share a device's memory. The room
 * that has groups (lifetime/share/group) registers when the library is loaded
 * (memory/device/upper.h), unless a program is linked without that layer.
 *
 * A process in no group pays one load where memory is taken from the driver, or goes back to it.
 */
#ifndef TNRI_DEVICE_GROUP_H
#define TNRI_DEVICE_GROUP_H

#include <stdatomic.h>

#include "memory/device/device.h"
#include "memory/device/upper.h"

/* What a process has done in its group on a device, since it joined. */
typedef struct tnri_group_counts {
    uint64_t given_bytes; /* bytes that others asked for and that went back to the driver */
    uint64_t taken_bytes; /* that others gave when this process asked */
    uint64_t asks;        /* times that this process was short, and asked */
    uint64_t yields, yielded_bytes; /* published blocks of this process that ended for another's
                                     * memory, or its own */
} tnri_group_counts;

/* A request that asks; all zeros at first. */
typedef struct tnri_asking {
    uint64_t began_ns;
    uint64_t gave_bytes; /* what all had given when it last asked */
} tnri_asking;

/* The setting that bounds what this process alone may have, which no member may have more of than
 * all together. */
typedef struct tnri_group_bound {
    const char *key, *text; /* "group_limit_mb", "the setting group_limit_mb" */
    uint64_t mb;
} tnri_group_bound;
tnri_group_bound tnri_group_ceiling(void);

/* The table of groups, if the process is in one on the device. */
static inline const tnri_upper *tnri_group_of(const tnri_device *device)
{
    if (tnri_likely(!atomic_load_explicit(&device->in_group, memory_order_acquire)))
        return NULL;
    return tnri_upper_of(TNRI_ROOM_GROUP);
}

/* Joins the group that the settings name, and sets in_group and ceiling_bytes: see
 * TNRI_DEVICE_STARTS. */
tnr_status tnri_group_join(tnri_device *device);

/* What follows does nothing if the process is in no group. */

/* Memory is about to be taken from the driver: see tnri_upper.take. The caller calls
 * tnri_group_taken afterwards, whatever came of it. In the device's context. */
tnr_status tnri_group_take(tnri_device *device, size_t bytes);
void tnri_group_taken(tnri_device *device, size_t bytes, int is_taken);
void tnri_group_released(tnri_device *device, size_t bytes);
/* See tnri_upper.ask. No lock held. */
int tnri_group_ask(tnri_device *device, size_t bytes, tnri_asking *asking);
void tnri_group_count(const tnri_device *device, tnri_group_counts *counts);

#endif
