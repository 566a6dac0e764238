/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group, as this layer sees it: processes of one user that share a device's memory. The layer
 * that has groups (lifetime/share/group) registers a table when the library is loaded. The table is
 * null if a program is linked without that layer.
 *
 * A process in no group pays one load where memory is taken from the driver, or goes back to it.
 */
#ifndef TNRI_DEVICE_GROUP_H
#define TNRI_DEVICE_GROUP_H

#include <stdatomic.h>

#include "memory/device/device.h"

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

typedef struct tnri_group_table {
    /* Joins the group that the settings name, and sets in_group and ceiling_bytes. Under the
     * library lock. Errors: TNR_ERR_FILE, TNR_ERR_HOST_MEMORY, TNR_ERR_BUSY (no place). */
    tnr_status (*join)(tnri_device *device);
    /* The reverse; nothing if the process is in none. Waits for a pass that is under way. */
    void (*leave)(tnri_device *device);
    /* Between these two calls nothing is given. */
    void (*pause)(tnri_device *device);
    void (*resume)(tnri_device *device);

    /* Memory is about to be taken from the driver. Refuses with TNR_ERR_OUT_OF_MEMORY if others'
     * floors need what is left. The caller calls `taken` afterwards, whatever came of it. In the
     * device's context. */
    tnr_status (*take)(tnri_device *device, size_t bytes);
    void (*taken)(tnri_device *device, size_t bytes, int is_taken);
    void (*released)(tnri_device *device, size_t bytes);

    /* Asks the others for memory, if `bytes` is not 0. Waits for them, and for what this process is
     * giving just now. All calls for one request together wait no longer than group_wait_ms. 1:
     * more may be free than before; 0: nothing is, or the time is over. No lock held. */
    int (*ask)(tnri_device *device, size_t bytes, tnri_asking *asking);

    void (*count)(const tnri_device *device, tnri_group_counts *counts);
} tnri_group_table;

/* The setting that bounds what this process alone may have, which no member may have more of than
 * all together. */
typedef struct tnri_group_bound {
    const char *key, *text; /* "group_limit_mb", "the setting group_limit_mb" */
    uint64_t mb;
} tnri_group_bound;
tnri_group_bound tnri_group_ceiling(void);

extern _Atomic(const tnri_group_table *) tnri_group_registered;

/* The table, if the process is in a group on the device. */
static inline const tnri_group_table *tnri_group_of(const tnri_device *device)
{
    if (tnri_likely(!atomic_load_explicit(&device->in_group, memory_order_acquire)))
        return NULL;
    return atomic_load_explicit(&tnri_group_registered, memory_order_acquire);
}

/* The functions of the table; they do nothing if the process is in no group. */
tnr_status tnri_group_join(tnri_device *device);
void tnri_group_leave(tnri_device *device);
void tnri_group_pause(tnri_device *device);
void tnri_group_resume(tnri_device *device);
tnr_status tnri_group_take(tnri_device *device, size_t bytes);
void tnri_group_taken(tnri_device *device, size_t bytes, int is_taken);
void tnri_group_released(tnri_device *device, size_t bytes);
int tnri_group_ask(tnri_device *device, size_t bytes, tnri_asking *asking);
void tnri_group_count(const tnri_device *device, tnri_group_counts *counts);

#endif
