/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of one size, kept for reuse. Recording a use happens between two kernel launches, so it
 * must not go to the metadata heap each time. Records come from slabs that are returned when
 * Tenure shuts down; there are hardly more of them than were needed at once.
 */
#ifndef TNRI_LIFETIME_RECORDS_H
#define TNRI_LIFETIME_RECORDS_H

#include <stddef.h>

#include "base/depot.h"

enum { TNRI_RECORDS_SLAB = 32 };

typedef struct tnri_records {
    size_t bytes; /* of a record, at least a tnri_spare's; constant */
    tnri_depot spares;
    _Atomic(tnri_spare *) slabs; /* none leaves before the end */
} tnri_records;

#define TNRI_RECORDS_INIT(type)                                                                    \
    {                                                                                              \
        .bytes = sizeof(type), .spares = TNRI_DEPOT_INIT(TNRI_RANK_HOST)                           \
    }

/* A zeroed record, or null. */
void *tnri_record_take(tnri_records *records);
void tnri_record_give(tnri_records *records, void *record);
/* Returns all slabs, if no record is in use. No other thread is inside. */
void tnri_records_free(tnri_records *records);

#endif
