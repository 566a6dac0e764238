/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparing two snapshots: see diff.h. A stack becomes a text of all its frames; equal texts are
 * interned to one pointer, by which rows are found.
 */
#include "diff.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "value.h"

typedef struct matcher {
    diff *out;
    value_heap heap;
    map64 rows;      /* text of the key -> row */
    map64 before;    /* address of a live block of the first snapshot -> 0 */
    array text;      /* char: the key being made */
    array row_of[2]; /* uint32_t: per stack of each snapshot its row, MAP64_ABSENT if not known */
} matcher;

static int text_add(matcher *by, const char *text, size_t length)
{
    array *key = &by->text;
    if (array_reserve(key, by->out->limits, 1, key->count + length) != 0)
        return -1;
    memcpy((char *)key->items + key->count, text, length);
    key->count += length;
    return 0;
}

/* The stack as a text with a zero byte between its parts. */
static int key_make(matcher *by, const model *in, uint32_t index)
{
    const stack *one = MODEL_AT(in->stacks, stack, index);
    by->text.count = 0;
    for (uint32_t i = 0; i < one->count; i++) {
        const frame *part =
            MODEL_AT(in->frames, frame, *MODEL_AT(in->stack_frames, uint32_t, one->first + i));
        char numbers[64];
        /* What is not known is replaced as encode_torch does it, so that a snapshot and its
         * conversion are the same. */
        const char *file = model_string(in, part->file != 0 ? part->file : part->module);
        const char *function = model_string(in, part->function);
        int length = snprintf(numbers, sizeof(numbers), "%" PRIu32, part->line);
        if (text_add(by, file, strlen(file) + 1) != 0 ||
            text_add(by, numbers, (size_t)length + 1) != 0)
            return -1;
        length = snprintf(numbers, sizeof(numbers), "0x%" PRIx64, part->offset);
        if (part->function == 0 ? text_add(by, numbers, (size_t)length + 1) != 0
                                : text_add(by, function, strlen(function) + 1) != 0)
            return -1;
    }
    return 0;
}

static uint32_t size_class(uint64_t bytes)
{
    uint32_t power = 0;
    while (power < 63 && (UINT64_C(1) << power) < bytes)
        power++;
    return power;
}

/* The row of the key in by->text, a new one if there is none; MAP64_ABSENT without memory. */
static uint32_t row_of_key(matcher *by)
{
    value text;
    array *rows = &by->out->rows;
    if (value_make_text(&by->heap, by->text.items, by->text.count, &text) != 0)
        return MAP64_ABSENT;
    uint32_t at = map64_get(&by->rows, text);
    if (at != MAP64_ABSENT)
        return at;
    at = (uint32_t)rows->count;
    if (array_reserve(rows, by->out->limits, sizeof(diff_row), rows->count + 1) != 0 ||
        map64_put(&by->rows, text, at) != 0)
        return MAP64_ABSENT;
    rows->count++;
    diff_row *made = MODEL_AT(*rows, diff_row, at);
    memset(made, 0, sizeof(*made));
    made->stack_before = made->stack_after = made->size_class = -1;
    return at;
}

static diff_row *row_of(matcher *by, const model *in, int side, const block *one)
{
    uint32_t *known = MODEL_AT(by->row_of[side], uint32_t, one->stack);
    uint32_t at = one->stack != 0 ? *known : MAP64_ABSENT;
    if (at == MAP64_ABSENT && one->stack != 0) {
        if (key_make(by, in, one->stack) != 0)
            return NULL;
        at = *known = row_of_key(by);
    } else if (one->stack == 0) {
        char name[32];
        int length = snprintf(name, sizeof(name), "size %u", size_class(one->requested_bytes));
        by->text.count = 0;
        if (text_add(by, name, (size_t)length) != 0)
            return NULL;
        at = row_of_key(by);
    }
    if (at == MAP64_ABSENT)
        return NULL;
    diff_row *row = MODEL_AT(by->out->rows, diff_row, at);
    if (one->stack == 0)
        row->size_class = (int32_t)size_class(one->requested_bytes);
    else if (side == 0)
        row->stack_before = (int32_t)one->stack;
    else
        row->stack_after = (int32_t)one->stack;
    return row;
}

/* Counts the live blocks of one side. */
static int side_count(matcher *by, const model *in, int side, diff_totals *totals)
{
    for (size_t i = 0; i < in->segments.count; i++)
        totals->reserved += MODEL_AT(in->segments, segment, i)->bytes;
    for (size_t i = 0; i < in->blocks.count; i++) {
        const block *one = MODEL_AT(in->blocks, block, i);
        if (one->state != STATE_LIVE) {
            *(one->state == STATE_RETIRED ? &totals->retired : &totals->cached) += one->bytes;
            continue;
        }
        diff_row *row = row_of(by, in, side, one);
        if (!row)
            return -1;
        diff_side *sums = side == 0 ? &row->before : &row->after;
        sums->bytes += one->bytes;
        sums->count++;
        totals->live += one->bytes;
        totals->live_count++;
        if (side == 0 && map64_put(&by->before, one->address, 0) != 0)
            return -1;
        if (side == 1 && map64_get(&by->before, one->address) == MAP64_ABSENT) {
            row->new_bytes += one->bytes;
            row->new_count++;
        }
    }
    return 0;
}

static int rows_known_start(matcher *by, const model *in, int side)
{
    array *known = &by->row_of[side];
    if (array_reserve(known, by->out->limits, sizeof(uint32_t), in->stacks.count) != 0)
        return -1;
    for (size_t i = 0; i < in->stacks.count; i++)
        *MODEL_AT(*known, uint32_t, i) = MAP64_ABSENT;
    return 0;
}

static int by_growth(const void *left, const void *right)
{
    const diff_row *a = left, *b = right;
    int64_t first = (int64_t)(a->after.bytes - a->before.bytes);
    int64_t second = (int64_t)(b->after.bytes - b->before.bytes);
    if (first != second)
        return first > second ? -1 : 1;
    if (a->after.bytes != b->after.bytes)
        return a->after.bytes > b->after.bytes ? -1 : 1;
    return a->stack_after < b->stack_after ? -1 : a->stack_after > b->stack_after;
}

int diff_run(const model *before, const model *after, diff *result)
{
    memset(result, 0, sizeof(*result));
    result->limits = before->limits;
    matcher by = {.out = result};
    map64_start(&by.rows, result->limits);
    map64_start(&by.before, result->limits);
    int code = value_heap_start(&by.heap, result->limits);
    if (code == 0 &&
        (rows_known_start(&by, before, 0) != 0 || rows_known_start(&by, after, 1) != 0 ||
         side_count(&by, before, 0, &result->before) != 0 ||
         side_count(&by, after, 1, &result->after) != 0))
        code = -1;
    map64_release(&by.rows);
    map64_release(&by.before);
    value_heap_release(&by.heap);
    array_release(&by.text, result->limits, 1);
    for (size_t i = 0; i < 2; i++)
        array_release(&by.row_of[i], result->limits, sizeof(uint32_t));
    if (result->rows.count > 0)
        qsort(result->rows.items, result->rows.count, sizeof(diff_row), by_growth);
    return code;
}

void diff_release(diff *result)
{
    array_release(&result->rows, result->limits, sizeof(diff_row));
}
