/* SPDX-License-Identifier: Apache-2.0 */
/* Records of one size: see records.h. */
#include "records.h"

#include <string.h>

#include "base/host_memory.h"

/* A slab starts with a cache line that links it to the next. */
enum { SLAB_HEAD_BYTES = 64 };

static size_t slab_bytes(const tnri_records *records)
{
    return SLAB_HEAD_BYTES + records->bytes * TNRI_RECORDS_SLAB;
}

/* Adds a slab of spares. Under the lock. */
static int records_grow(tnri_records *records)
{
    char *slab = tnri_host_alloc(slab_bytes(records));
    if (slab == NULL)
        return 0;
    *(void **)(void *)slab = records->slabs;
    records->slabs = slab;
    for (size_t i = TNRI_RECORDS_SLAB; i-- > 0;) {
        void *record = slab + SLAB_HEAD_BYTES + i * records->bytes;
        *(void **)record = records->spares;
        records->spares = record;
    }
    return 1;
}

void *tnri_record_take(tnri_records *records)
{
    void *record = NULL;
    tnri_lock_take(&records->lock);
    if (records->spares != NULL || records_grow(records)) {
        record = records->spares;
        records->spares = *(void **)record;
        records->taken_count++;
    }
    tnri_lock_release(&records->lock);
    if (record != NULL)
        memset(record, 0, records->bytes);
    return record;
}

void tnri_record_give(tnri_records *records, void *record)
{
    tnri_lock_take(&records->lock);
    *(void **)record = records->spares;
    records->spares = record;
    records->taken_count--;
    tnri_lock_release(&records->lock);
}

void tnri_records_free(tnri_records *records)
{
    if (records->taken_count != 0)
        return;
    while (records->slabs != NULL) {
        void *slab = records->slabs;
        records->slabs = *(void **)slab;
        tnri_host_free(slab, slab_bytes(records));
    }
    records->spares = NULL;
}
