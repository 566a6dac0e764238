/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which records can stand in a PyTorch trace.
 *
 * The viewer starts from the final segments and blocks and reads the trace backwards. It trusts the
 * trace: if the trace allocates a block that is not there, or takes memory away from under a block,
 * the viewer stops with an error. So the picture is first taken back record by record here, and a
 * record that does not fit what is left is not written. With a whole history every record fits; the
 * tests check that. After a gap (records overwritten, history off for a time) no record from before
 * the gap is taken at all.
 *
 * On the way back this file keeps: the blocks that are live or retired, by address, in a hash; how
 * many of them begin or end in each page, in another hash; and the stretches that have memory,
 * sorted. To PyTorch a block that grows is freed and allocated again at its place. A record of a
 * growth does not say what was asked for before it; the record of the growth before does.
 */
#include <string.h>

#include "base/host_memory.h"
#include "memory/arena/note.h"
#include "see/snapshot/formats.h"

enum { PAGE_SHIFT = 21 };

/* A hash by address, open, never deleted from: an entry that is gone has a value of 0. */
typedef struct cell {
    uint64_t key; /* 0: empty */
    uint64_t value;
} cell;

typedef struct cells {
    cell *cells;
    size_t slots, used;
} cells;

/* Values of blocks: how large, and whether it is retired. */
enum { RETIRED = 1 };

typedef struct stretch {
    uint64_t base, end;
} stretch;

typedef struct rewound {
    cells blocks, pages;
    cells grown; /* by address: 1 + the place of a growth of which what was before is not known */
    stretch *stretches;
    size_t stretches_count, stretches_room;
    int is_short; /* 1: host memory lacked */
} rewound;

/* ---- hashes --------------------------------------------------------------------------------- */

static cell *cell_find(const cells *table, uint64_t key)
{
    size_t at = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (table->slots - 1);
    while (table->cells[at].key != 0 && table->cells[at].key != key)
        at = (at + 1) & (table->slots - 1);
    return &table->cells[at];
}

static void cells_free(cells *table)
{
    tnri_host_unreserve(table->cells, table->slots * sizeof(table->cells[0]));
}

static int cells_make(cells *table, size_t slots)
{
    table->slots = slots;
    table->used = 0;
    table->cells = tnri_host_reserve(slots * sizeof(table->cells[0]));
    return table->cells != NULL;
}

/* Twice as many slots when more than half are used; entries that are gone are left behind. */
static int cells_grow(cells *table)
{
    if (table->used * 2 < table->slots)
        return 1;
    cells grown;
    if (!cells_make(&grown, table->slots * 2))
        return 0;
    for (size_t i = 0; i < table->slots; i++)
        if (table->cells[i].value != 0) {
            *cell_find(&grown, table->cells[i].key) = table->cells[i];
            grown.used++;
        }
    cells_free(table);
    *table = grown;
    return 1;
}

/* The value of a key, to be changed; made 0 if it is new. */
static uint64_t *cell_value(rewound *past, cells *table, uint64_t key)
{
    static uint64_t nowhere;
    if (!cells_grow(table)) {
        past->is_short = 1;
        return &nowhere;
    }
    cell *found = cell_find(table, key);
    table->used += found->key == 0;
    found->key = key;
    return &found->value;
}

/* ---- blocks --------------------------------------------------------------------------------- */

static uint64_t block_get(const rewound *past, uint64_t address)
{
    return cell_find(&past->blocks, address)->value;
}

/* Both ends of a block are counted in their pages; `by` is 1 or -1. */
static void ends_count(rewound *past, uint64_t address, uint64_t bytes, int64_t by)
{
    *cell_value(past, &past->pages, address >> PAGE_SHIFT) += (uint64_t)by;
    *cell_value(past, &past->pages, (address + bytes - 1) >> PAGE_SHIFT) += (uint64_t)by;
}

static void block_put(rewound *past, uint64_t address, uint64_t bytes, int is_retired)
{
    *cell_value(past, &past->blocks, address) = bytes | (is_retired ? RETIRED : 0);
    ends_count(past, address, bytes, 1);
}

static void block_take(rewound *past, uint64_t address)
{
    uint64_t *value = cell_value(past, &past->blocks, address);
    ends_count(past, address, *value & ~(uint64_t)RETIRED, -1);
    *value = 0;
}

/* 1 if no block begins or ends in the range. */
static int range_is_empty(const rewound *past, uint64_t base, uint64_t end)
{
    for (uint64_t page = base >> PAGE_SHIFT; page << PAGE_SHIFT < end; page++)
        if (cell_find(&past->pages, page)->value != 0)
            return 0;
    return 1;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Index of the first stretch that ends after an address. */
static size_t stretch_after(const rewound *past, uint64_t address)
{
    size_t low = 0;
    size_t high = past->stretches_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (past->stretches[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int range_is_mapped(const rewound *past, uint64_t base, uint64_t end)
{
    size_t at = stretch_after(past, base);
    return at < past->stretches_count && past->stretches[at].base <= base &&
           past->stretches[at].end >= end;
}

static int range_is_unmapped(const rewound *past, uint64_t base, uint64_t end)
{
    size_t at = stretch_after(past, base);
    return at == past->stretches_count || past->stretches[at].base >= end;
}

/* Makes room for a stretch at an index. */
static int stretch_insert(rewound *past, size_t at, stretch fresh)
{
    if (past->stretches_count == past->stretches_room) {
        size_t room = past->stretches_room * 2;
        stretch *grown = tnri_host_alloc(room * sizeof(grown[0]));
        if (grown == NULL) {
            past->is_short = 1;
            return 0;
        }
        memcpy(grown, past->stretches, past->stretches_count * sizeof(grown[0]));
        tnri_host_free(past->stretches, past->stretches_room * sizeof(grown[0]));
        past->stretches = grown;
        past->stretches_room = room;
    }
    memmove(past->stretches + at + 1, past->stretches + at,
            (past->stretches_count - at) * sizeof(past->stretches[0]));
    past->stretches[at] = fresh;
    past->stretches_count++;
    return 1;
}

static void stretch_remove(rewound *past, size_t at)
{
    past->stretches_count--;
    memmove(past->stretches + at, past->stretches + at + 1,
            (past->stretches_count - at) * sizeof(past->stretches[0]));
}

/* Takes a range out of the stretch that it is in. */
static void range_unmap(rewound *past, uint64_t base, uint64_t end)
{
    size_t at = stretch_after(past, base);
    stretch before = past->stretches[at];
    if (before.base == base && before.end == end)
        stretch_remove(past, at);
    else if (before.base == base)
        past->stretches[at].base = end;
    else if (before.end == end)
        past->stretches[at].end = base;
    else if (stretch_insert(past, at + 1, (stretch){end, before.end}))
        past->stretches[at].end = base;
}

/* Adds a range between stretches, and joins it with those that it touches. */
static void range_map(rewound *past, uint64_t base, uint64_t end)
{
    size_t at = stretch_after(past, base);
    int joins_above = at < past->stretches_count && past->stretches[at].base == end;
    int joins_below = at > 0 && past->stretches[at - 1].end == base;
    if (joins_above && joins_below) {
        past->stretches[at - 1].end = past->stretches[at].end;
        stretch_remove(past, at);
    } else if (joins_above) {
        past->stretches[at].base = base;
    } else if (joins_below) {
        past->stretches[at - 1].end = end;
    } else {
        stretch_insert(past, at, (stretch){base, end});
    }
}

/* ---- going back ----------------------------------------------------------------------------- */

/* A free that is over: before it, the block was live or retired. */
static int free_back(rewound *past, const tnri_recorded *record, int is_retired)
{
    if (record->bytes == 0 || block_get(past, record->address) != 0 ||
        !range_is_mapped(past, record->address, record->address + record->bytes))
        return 0;
    block_put(past, record->address, record->bytes, is_retired);
    return 1;
}

/* Until the growth before is found, its block is taken to have been asked for all that it had. */
static uint8_t grow_back(rewound *past, tnri_trace *trace, size_t at, const tnri_recorded *record)
{
    uint64_t before = record->bytes - record->value;
    if (block_get(past, record->address) != record->bytes)
        return 0;
    block_take(past, record->address);
    uint64_t *later = cell_value(past, &past->grown, record->address);
    if (*later != 0)
        trace->before[*later - 1] = record->requested;
    *later = before == 0 ? 0 : at + 1;
    trace->before[at] = before;
    if (before == 0)
        return TNRI_TRACE_ALLOC;
    block_put(past, record->address, before, 0);
    return TNRI_TRACE_ALLOC | TNRI_TRACE_FREE_REQUESTED | TNRI_TRACE_FREE_COMPLETED;
}

/* Undoes a record; the entries that it is in a trace, 0 if it does not fit. */
static uint8_t record_back(rewound *past, tnri_trace *trace, size_t at, const tnri_recorded *record)
{
    uint64_t end = record->address + record->bytes;
    uint64_t block;
    switch (record->kind) {
    case TNRI_NOTED_ALLOC:
        block = block_get(past, record->address);
        if (block == 0 || (block & RETIRED) != 0)
            return 0;
        block_take(past, record->address);
        return TNRI_TRACE_ALLOC;
    case TNRI_NOTED_FREE:
        return free_back(past, record, 0) ? TNRI_TRACE_FREE_REQUESTED | TNRI_TRACE_FREE_COMPLETED
                                          : 0;
    case TNRI_NOTED_RETIRE:
        block = block_get(past, record->address);
        if ((block & RETIRED) == 0)
            return 0;
        *cell_value(past, &past->blocks, record->address) = block & ~(uint64_t)RETIRED;
        return TNRI_TRACE_FREE_REQUESTED;
    case TNRI_NOTED_REUSE:
        return free_back(past, record, 1) ? TNRI_TRACE_FREE_COMPLETED : 0;
    case TNRI_NOTED_GROW:
        return grow_back(past, trace, at, record);
    case TNRI_NOTED_MAP:
    case TNRI_NOTED_MOVE_IN:
        if (!range_is_mapped(past, record->address, end) ||
            !range_is_empty(past, record->address, end))
            return 0;
        range_unmap(past, record->address, end);
        return TNRI_TRACE_SEGMENT_MAP;
    case TNRI_NOTED_UNMAP:
    case TNRI_NOTED_MOVE_OUT:
        if (!range_is_unmapped(past, record->address, end))
            return 0;
        range_map(past, record->address, end);
        return TNRI_TRACE_SEGMENT_UNMAP;
    case TNRI_NOTED_OOM:
    case TNRI_NOTED_SNAPSHOT:
        return TNRI_TRACE_OTHER;
    default:
        return TNRI_TRACE_NONE;
    }
}

/* 1 if PyTorch has nothing like it, so that leaving it out is no loss. */
static int kind_is_foreign(unsigned kind)
{
    return kind > TNRI_NOTED_OOM && kind != TNRI_NOTED_SNAPSHOT;
}

static int past_begin(rewound *past, const tnri_picture *picture)
{
    memset(past, 0, sizeof(*past));
    past->stretches_room = picture->segments_count + 64;
    past->stretches = tnri_host_alloc(past->stretches_room * sizeof(past->stretches[0]));
    if (!cells_make(&past->blocks, 1 << 14) || !cells_make(&past->pages, 1 << 14) ||
        !cells_make(&past->grown, 1 << 8) || past->stretches == NULL)
        return 0;
    for (size_t i = 0; i < picture->segments_count; i++) {
        const tnri_shown_segment *segment = &picture->segments[i];
        range_map(past, segment->address, segment->address + segment->bytes);
    }
    for (size_t i = 0; i < picture->blocks_count; i++) {
        const tnri_shown_block *block = &picture->blocks[i];
        if (block->shown == TNRI_SHOWN_LIVE || block->shown == TNRI_SHOWN_RETIRED)
            block_put(past, block->address, block->bytes, block->shown == TNRI_SHOWN_RETIRED);
    }
    return !past->is_short;
}

static void past_free(rewound *past)
{
    cells_free(&past->blocks);
    cells_free(&past->pages);
    cells_free(&past->grown);
    tnri_host_free(past->stretches, past->stretches_room * sizeof(past->stretches[0]));
}

void tnri_trace_free(tnri_trace *trace)
{
    tnri_host_unreserve(trace->entries, (trace->count + 1) * sizeof(trace->entries[0]));
    tnri_host_unreserve(trace->before, (trace->count + 1) * sizeof(trace->before[0]));
}

int tnri_trace_select(const tnri_picture *picture, tnri_trace *trace)
{
    rewound past;
    size_t count = picture->order_count;
    /* Reserved, not allocated: a record without entries costs nothing. */
    *trace = (tnri_trace){count, tnri_host_reserve((count + 1) * sizeof(trace->entries[0])),
                          tnri_host_reserve((count + 1) * sizeof(trace->before[0])), 0};
    int has_room = past_begin(&past, picture) && trace->entries != NULL && trace->before != NULL;
    for (size_t i = count; has_room && i-- > 0;) {
        const tnri_recorded *record = tnri_picture_record(picture, i);
        if (record->ticks > picture->ring.lost_ticks)
            trace->entries[i] = record_back(&past, trace, i, record);
        trace->left_out += trace->entries[i] == 0 && !kind_is_foreign(record->kind);
        has_room = !past.is_short;
    }
    past_free(&past);
    if (!has_room)
        tnri_trace_free(trace);
    return has_room;
}
