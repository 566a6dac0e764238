/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adding up blocks: see holders.h.
 */
#include "holders.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- holders -------------------------------------------------------------------------------- */

static uint32_t size_class(uint64_t bytes)
{
    uint32_t power = 0;
    while (power < 63 && (UINT64_C(1) << power) < bytes)
        power++;
    return power;
}

static int is_held(const block *one)
{
    return one->state == STATE_LIVE || one->state == STATE_RETIRED;
}

static void holder_add(holder *to, const block *one)
{
    if (one->state == STATE_LIVE) {
        to->live_bytes += one->bytes;
        to->live_requested_bytes += one->requested_bytes;
        to->live_count++;
    } else if (one->state == STATE_RETIRED) {
        to->retired_bytes += one->bytes;
        to->retired_count++;
    } else {
        to->cached_bytes += one->bytes;
        to->cached_count++;
    }
}

static uint32_t key_of(holder_kind kind, const segment *around, const block *one)
{
    switch (kind) {
    case HOLDER_POOL:
        return (uint32_t)around->pool;
    case HOLDER_STREAM:
        return (uint32_t)around->stream;
    case HOLDER_STACK:
        return one->stack;
    case HOLDER_SIZE:
        break;
    }
    return size_class(one->requested_bytes);
}

static int by_bytes(const void *left, const void *right)
{
    const holder *a = left, *b = right;
    uint64_t first = a->live_bytes + a->retired_bytes, second = b->live_bytes + b->retired_bytes;
    if (first != second)
        return first > second ? -1 : 1;
    return a->key < b->key ? -1 : a->key > b->key;
}

static int by_key(const void *left, const void *right)
{
    const holder *a = left, *b = right;
    return a->key < b->key ? -1 : a->key > b->key;
}

holder *holders_at(const model *in, map64 *places, array *result, uint32_t key)
{
    uint32_t at = map64_get(places, key);
    if (at != MAP64_ABSENT)
        return MODEL_AT(*result, holder, at);
    if (array_reserve(result, in->limits, sizeof(holder), result->count + 1) != 0 ||
        map64_put(places, key, (uint32_t)result->count) != 0)
        return NULL;
    holder *made = MODEL_AT(*result, holder, result->count++);
    memset(made, 0, sizeof(*made));
    made->key = key;
    return made;
}

void holders_sort(array *result)
{
    if (result->count > 0)
        qsort(result->items, result->count, sizeof(holder), by_bytes);
}

int holders_find(const model *in, holder_kind kind, array *result)
{
    map64 places;
    int code = 0, only_held = kind == HOLDER_STACK || kind == HOLDER_SIZE;
    memset(result, 0, sizeof(*result));
    map64_start(&places, in->limits);
    for (size_t i = 0; i < in->segments.count && code == 0; i++) {
        const segment *around = MODEL_AT(in->segments, segment, i);
        for (size_t k = 0; k < around->blocks_count && code == 0; k++) {
            const block *one = MODEL_AT(in->blocks, block, around->first_block + k);
            if (only_held && !is_held(one))
                continue;
            holder *to = holders_at(in, &places, result, key_of(kind, around, one));
            if (to)
                holder_add(to, one);
            else
                code = -1;
        }
    }
    map64_release(&places);
    if (result->count > 0)
        qsort(result->items, result->count, sizeof(holder),
              kind == HOLDER_SIZE ? by_key : by_bytes);
    return code;
}

/* ---- scatter -------------------------------------------------------------------------------- */

static void run_end(scatter *result, uint64_t *run)
{
    if (*run == 0)
        return;
    result->runs_count++;
    if (*run > result->largest_run_bytes)
        result->largest_run_bytes = *run;
    *run = 0;
}

void scatter_find(const model *in, scatter *result)
{
    memset(result, 0, sizeof(*result));
    for (size_t i = 0; i < in->segments.count; i++) {
        const segment *around = MODEL_AT(in->segments, segment, i);
        uint64_t run = 0, held = 0;
        for (size_t k = 0; k < around->blocks_count; k++) {
            const block *one = MODEL_AT(in->blocks, block, around->first_block + k);
            if (is_held(one)) {
                run_end(result, &run);
                held += one->bytes;
                if (one->state == STATE_LIVE)
                    result->slack_bytes += one->bytes - one->requested_bytes;
            } else {
                run += one->bytes;
                result->free_bytes += one->bytes;
            }
        }
        run_end(result, &run);
        result->reserved_bytes += around->bytes;
        if (held == 0) {
            result->idle_segments_count++;
            result->idle_segments_bytes += around->bytes;
        } else if (held <= around->bytes / 10) {
            result->thin_segments_count++;
            result->thin_free_bytes += around->bytes - held;
            result->thin_held_bytes += held;
        }
    }
}

/* ---- waiting -------------------------------------------------------------------------------- */

static int waiting_compare(const void *left, const void *right)
{
    const waiting *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->stream != b->stream)
        return a->stream < b->stream ? -1 : 1;
    return a->graph < b->graph ? -1 : a->graph > b->graph;
}

int waiting_find(const model *in, array *result)
{
    map64 places;
    memset(result, 0, sizeof(*result));
    map64_start(&places, in->limits);
    for (size_t i = 0; i < in->waits.count; i++) {
        const wait *one = MODEL_AT(in->waits, wait, i);
        int on_graph = one->kind == WAIT_GRAPH || one->kind == WAIT_CAPTURE;
        int32_t used_by = one->kind == WAIT_USE ? one->stream : -1;
        uint64_t key = on_graph ? (uint64_t)(one->graph + 1) : (uint64_t)(used_by + 1);
        key = key << 2 | one->kind;
        uint32_t at = map64_get(&places, key);
        if (at == MAP64_ABSENT) {
            at = (uint32_t)result->count;
            if (array_reserve(result, in->limits, sizeof(waiting), result->count + 1) != 0 ||
                map64_put(&places, key, at) != 0) {
                map64_release(&places);
                return -1;
            }
            *MODEL_AT(*result, waiting, result->count++) =
                (waiting){.kind = (wait_kind)one->kind,
                          .stream = used_by,
                          .graph = on_graph ? one->graph : -1,
                          .oldest_since_ns = -1};
        }
        waiting *to = MODEL_AT(*result, waiting, at);
        to->blocks_count++;
        to->bytes += MODEL_AT(in->blocks, block, one->block)->bytes;
        if (one->since_ns >= 0 && (to->oldest_since_ns < 0 || one->since_ns < to->oldest_since_ns))
            to->oldest_since_ns = one->since_ns;
    }
    map64_release(&places);
    if (result->count > 0)
        qsort(result->items, result->count, sizeof(waiting), waiting_compare);
    return 0;
}

/* ---- stacks --------------------------------------------------------------------------------- */

static const char *path_end(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

int frame_label(const model *in, const frame *one, char *text, size_t bytes)
{
    const char *function = model_string(in, one->function);
    const char *file = path_end(model_string(in, one->file));
    const char *module = path_end(model_string(in, one->module));
    const char *between = *function && *file ? " " : "";
    /* PyTorch writes "??" for the file of a function that the linker alone knows. */
    if (*file && one->line > 0)
        return snprintf(text, bytes, "%s%s%s:%" PRIu32, function, between, file, one->line);
    if (*function && *file && strcmp(file, "??") != 0)
        return snprintf(text, bytes, "%s %s", function, file);
    if (*function && *module)
        return snprintf(text, bytes, "%s in %s+0x%" PRIx64, function, module, one->offset);
    if (*function)
        return snprintf(text, bytes, "%s", function);
    if (*file)
        return snprintf(text, bytes, "%s", file);
    return snprintf(text, bytes, "%s+0x%" PRIx64, *module ? module : "?", one->offset);
}

const char *stack_label(const model *in, uint32_t index, char *text, size_t bytes)
{
    const stack *one = MODEL_AT(in->stacks, stack, index);
    size_t length = 0;
    if (one->count == 0)
        snprintf(text, bytes, "(no stack)");
    for (uint32_t i = 0; i < one->count && length < bytes; i++) {
        char label[160];
        uint32_t at = *MODEL_AT(in->stack_frames, uint32_t, one->first + i);
        size_t more = i + 1 < one->count ? sizeof(" < ...") : 1;
        frame_label(in, MODEL_AT(in->frames, frame, at), label, sizeof(label));
        int is_cut = i > 0 && length + strlen(label) + 3 + more > bytes;
        length += (size_t)snprintf(text + length, bytes - length, "%s%s", i > 0 ? " < " : "",
                                   is_cut ? "..." : label);
        if (is_cut)
            break;
    }
    return text;
}
