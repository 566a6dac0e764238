/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeps and wakes of several pools at once: what the public functions of <tenure/sleep.h> and of
 * <tenure/tag.h> have in common. Either all wanted pools fall asleep or wake, or none.
 */
#ifndef TNRI_AWAY_WANTED_H
#define TNRI_AWAY_WANTED_H

#include <tenure/sleep.h>

#include "memory/device/tag.h"

typedef enum tnri_wanted_kind {
    TNRI_WANTED_POOL, /* one */
    TNRI_WANTED_ALL,  /* all of the device; graph pools keep their contents */
    TNRI_WANTED_TAGS  /* those that carry one of some tags */
} tnri_wanted_kind;

/* Which pools of a device. Those over foreign segments only if they are named. */
typedef struct tnri_wanted {
    tnri_wanted_kind kind;
    tnr_pool pool;         /* POOL: its handle; null: the default pool */
    tnri_tag *const *tags; /* TAGS: tags_count of them; their pools come in this order */
    size_t tags_count;
} tnri_wanted;

tnr_status tnri_pools_sleep(int device, const tnri_wanted *wanted,
                            const tnr_sleep_options *options);
tnr_status tnri_pools_wake(int device, const tnri_wanted *wanted);

#endif
