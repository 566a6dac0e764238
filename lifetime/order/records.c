/* SPDX-License-Identifier: Apache-2.0 */
/* Records of one size: see records.h. */
#include "order/records.h"

#include <string.h>

#include "base/host_memory.h"

/* A slab starts with a cache line that links it to the next. */
enum { SLAB_HEAD_BYTES = 64 };

static size_t slab_bytes(const tnri_records *records)
{
    return SLAB_HEAD_BYTES + records->bytes * TNRI_RECORDS_SLAB;
}

/* A record of a new slab, whose others are spares now. */
static void *records_grow(tnri_records *records)
{
    char *slab = tnri_host_alloc(slab_bytes(records));
    if (slab == NULL)
        return NULL;
    tnri_spare *spares = NULL;
    for (size_t i = TNRI_RECORDS_SLAB; i-- > 1;) {
        tnri_spare *record = (tnri_spare *)(void *)(slab + SLAB_HEAD_BYTES + i * records->bytes);
        record->next = spares;
        spares = record;
    }
    tnri_depot_add(&records->spares, spares);
    tnri_spare *added = (tnri_spare *)(void *)slab;
    added->next = atomic_load(&records->slabs);
    while (!atomic_compare_exchange_weak(&records->slabs, &added->next, added))
        ;
    return slab + SLAB_HEAD_BYTES;
}

void *tnri_record_take(tnri_records *records)
{
    tnri_spare *record = tnri_depot_take(&records->spares);
    if (record == NULL)
        return records_grow(records); /* zeroed */
    return memset(record, 0, records->bytes);
}

void tnri_record_give(tnri_records *records, void *record)
{
    tnri_depot_give(&records->spares, record);
}

static size_t chain_count(const tnri_spare *first)
{
    size_t count = 0;
    for (; first != NULL; first = first->next)
        count++;
    return count;
}

void tnri_records_free(tnri_records *records)
{
    tnri_spare *spares = tnri_depot_empty(&records->spares);
    tnri_spare *slab = atomic_load(&records->slabs);
    if (chain_count(spares) != chain_count(slab) * TNRI_RECORDS_SLAB) {
        tnri_depot_add(&records->spares, spares); /* some are in use */
        return;
    }
    atomic_store(&records->slabs, NULL);
    while (slab != NULL) {
        tnri_spare *next = slab->next;
        tnri_host_free(slab, slab_bytes(records));
        slab = next;
    }
}
