/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's traces that come before the segments. Their records were made while the document was
 * read. What the records lacked then is completed here. One thing is the memory's pool, if an entry
 * does not name it. The other is the order of devices, pools and streams: first as in the segments,
 * then as in the entries. It must be the same whichever of the two came first in the document.
 */
#include <stdlib.h>
#include <string.h>

#include "torch.h"

/* ---- pools of entries that did not say them -------------------------------------------------- */

static int pools_find(torch_reader *in)
{
    array *records = &in->out->records;
    for (size_t i = 0; i < records->count; i++) {
        record *one = MODEL_AT(*records, record, i);
        if (one->pool != TORCH_POOL_LATER)
            continue;
        uint64_t device_index = MODEL_AT(in->out->devices, device, one->device)->index;
        if (torch_pool_at(in, (place){"device_traces", i}, device_index, value_constant(VALUE_NONE),
                          one->address, &one->pool) != 0)
            return -1;
    }
    return 0;
}

/* ---- order ---------------------------------------------------------------------------------- */

/* New numbers for the rows of a table, in the order in which they are asked for. */
typedef struct renumbering {
    int32_t *numbers; /* by the old one; -1: not asked for yet */
    size_t count;     /* that were given */
} renumbering;

static int renumbering_start(renumbering *self, size_t rows)
{
    self->numbers = malloc((rows + 1) * sizeof(*self->numbers));
    self->count = 0;
    for (size_t i = 0; self->numbers && i < rows; i++)
        self->numbers[i] = -1;
    return self->numbers ? 0 : -1;
}

static void renumber(renumbering *self, int32_t *number)
{
    if (*number < 0)
        return;
    if (self->numbers[*number] < 0)
        self->numbers[*number] = (int32_t)self->count++;
    *number = self->numbers[*number];
}

/* Puts the rows of a table where their new numbers say; a row that nobody asked for goes last. */
static int rows_place(renumbering *self, array *rows, size_t bytes)
{
    char *copy = malloc(rows->count * bytes + 1);
    if (!copy)
        return -1;
    memcpy(copy, rows->items, rows->count * bytes);
    for (size_t i = 0; i < rows->count; i++) {
        int32_t number = (int32_t)i;
        renumber(self, &number);
        memcpy((char *)rows->items + (size_t)number * bytes, copy + i * bytes, bytes);
    }
    free(copy);
    return 0;
}

static int devices_compare(const void *left, const void *right)
{
    const device *a = left, *b = right;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Devices by their numbers. */
static void devices_order(model *out)
{
    uint64_t before[DEVICES_MAX];
    unsigned char places[DEVICES_MAX];
    size_t count = out->devices.count;
    for (size_t i = 0; i < count; i++)
        before[i] = MODEL_AT(out->devices, device, i)->index;
    if (count > 0)
        qsort(out->devices.items, count, sizeof(device), devices_compare);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++)
            if (MODEL_AT(out->devices, device, k)->index == before[i])
                places[i] = (unsigned char)k;
    for (size_t i = 0; i < out->records.count; i++) {
        record *one = MODEL_AT(out->records, record, i);
        if (one->device < count)
            one->device = places[one->device];
    }
}

/* As torch_pool numbers them when they are made in this order. */
static void pools_number(model *out)
{
    for (size_t i = 0; i < out->pools.count; i++) {
        pool *one = MODEL_AT(out->pools, pool, i);
        one->number = torch_pool_number(out, i);
    }
}

static int tables_order(model *out)
{
    renumbering pools = {NULL, 0}, streams = {NULL, 0};
    int code = renumbering_start(&pools, out->pools.count);
    if (renumbering_start(&streams, out->streams.count) != 0)
        code = -1;
    for (size_t i = 0; i < out->segments.count && code == 0; i++) {
        segment *one = MODEL_AT(out->segments, segment, i);
        renumber(&pools, &one->pool);
        renumber(&streams, &one->stream);
        one->arena = (uint64_t)one->pool << 32 | (uint64_t)one->stream;
    }
    for (size_t i = 0; i < out->records.count && code == 0; i++) {
        record *one = MODEL_AT(out->records, record, i);
        renumber(&pools, &one->pool);
        renumber(&streams, &one->stream);
    }
    if (code == 0)
        code = rows_place(&pools, &out->pools, sizeof(pool));
    if (code == 0)
        code = rows_place(&streams, &out->streams, sizeof(stream));
    free(pools.numbers);
    free(streams.numbers);
    pools_number(out);
    return code;
}

int torch_early_settle(torch_reader *in)
{
    if (!in->is_early)
        return 0;
    if (pools_find(in) != 0)
        return -1;
    devices_order(in->out);
    if (tables_order(in->out) == 0)
        return 0;
    in->out->limits->refused = 2;
    return decode_fail_memory(in->from);
}
