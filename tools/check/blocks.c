/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks: see blocks.h. Live and freed blocks have no byte in common, so one search finds both. */
#include "check/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "check/bases.h"
#include "check/waste.h"

enum { FREED_MAX = 65536 };

static check_block *oldest, *newest; /* of the freed ones */
static size_t freed_count;
static check_block *spare; /* records without a block, by `before` */
static uint64_t serials;

/* Freed ones whose uses are kept: few, and mostly none. */
static check_block **awaited;
static size_t awaited_count, awaited_room;

/* ---- finding -------------------------------------------------------------------------------- */

static int has_address(const check_block *block, CUdeviceptr address)
{
    return block != NULL && address - block->base < block->bytes;
}

check_block *check_block_around(CUdeviceptr address)
{
    check_block *found = check_bases_below(address);
    return has_address(found, address) ? found : NULL;
}

/* The first block that has any of these addresses, or begins there; null: none. `lower`: the last
 * one that lies below them all. */
static check_block *overlapping_first(CUdeviceptr base, size_t bytes, check_block **lower)
{
    check_block *below = check_bases_below(base);
    int has_begun = below != NULL && (below->base == base || has_address(below, base));
    check_block *found = has_begun ? below : below == NULL ? check_bases_first() : below->upper;
    *lower = has_begun ? below->lower : below;
    return found != NULL && (found->base <= base || found->base - base < bytes) ? found : NULL;
}

/* ---- records -------------------------------------------------------------------------------- */

/* What only a live block needs: it grows with the streams that use it. */
static __attribute__((noinline)) void block_lighten_more(check_block *block)
{
    if (block->records != NULL) {
        check_clock_clear(&block->records->covered);
        free(block->records->until_free);
        free(block->records);
        block->records = NULL;
    }
    if (block->uses != block->uses_inside)
        free(block->uses);
    block->uses = block->uses_inside;
    block->uses_room = CHECK_USES_INSIDE;
}

static __attribute__((noinline)) void awaited_remove(check_block *block)
{
    size_t i = 0;
    while (awaited[i] != block)
        i++;
    awaited[i] = awaited[--awaited_count];
    block->is_awaited = 0;
}

static inline void block_lighten(check_block *block)
{
    if (block->is_awaited)
        awaited_remove(block);
    if (block->records != NULL || block->uses != block->uses_inside)
        block_lighten_more(block);
    block->uses_count = 0;
}

/* Records are not given back to the system: a program that goes round has one for each block that
 * comes. */
static void record_spare(check_block *block)
{
    block->before = spare;
    spare = block;
}

static inline void waste_end(check_block *block)
{
    if (__builtin_expect(block->waste != NULL, 0))
        check_waste_ended(block->waste);
    block->waste = NULL;
}

/* What has nothing before itself, as nothing that is before another. */
static void record_end(check_block *block)
{
    if (block == NULL)
        return;
    waste_end(block);
    block_lighten(block);
    record_spare(block);
}

static void block_end(check_block *block)
{
    record_end(block->before);
    record_end(block);
}

/* Null: no memory. */
static check_block *block_record(CUdeviceptr base, size_t bytes)
{
    enum { MANY = 64 };
    if (spare == NULL) {
        check_block *fresh = aligned_alloc(CHECK_LINE_BYTES, MANY * sizeof(*fresh));
        for (int i = 0; i < MANY && fresh != NULL; i++)
            record_spare(&fresh[i]);
    }
    check_block *block = spare;
    if (block == NULL)
        return NULL;
    spare = block->before;
    /* Not the room for uses, nor what others fill in: made, the neighbours and the free. */
    memset(block, 0, offsetof(check_block, uses_inside));
    block->before = NULL;
    block->named_in = 0;
    block->base = base;
    block->bytes = bytes;
    block->is_live = 1;
    block->uses = block->uses_inside;
    block->uses_room = CHECK_USES_INSIDE;
    block->serial = ++serials;
    return block;
}

/* ---- blocks --------------------------------------------------------------------------------- */

/* Takes a freed one out of those by age. */
static void age_remove(check_block *block)
{
    *(block->older == NULL ? &oldest : &block->older->newer) = block->newer;
    *(block->newer == NULL ? &newest : &block->newer->older) = block->older;
    freed_count--;
}

CUdeviceptr check_forgotten_low = ~(CUdeviceptr)0, check_forgotten_end;

static void block_forgotten(const check_block *block)
{
    if (block->base < check_forgotten_low)
        check_forgotten_low = block->base;
    if (block->base + block->bytes > check_forgotten_end)
        check_forgotten_end = block->base + block->bytes;
}

static void block_forget(check_block *block)
{
    block_forgotten(block);
    if (!block->is_live)
        age_remove(block);
    check_bases_remove(block);
    block_end(block);
}

void check_blocks_forget(CUdeviceptr base, size_t bytes)
{
    check_block *lower, *next;
    for (check_block *old = overlapping_first(base, bytes, &lower); old != NULL; old = next) {
        next = old->upper != NULL && old->upper->base - base < bytes ? old->upper : NULL;
        block_forget(old);
    }
}

/* What had the addresses of a new block, as it becomes part of it; nothing that has lived. */
static void block_follows(check_block *block, check_block *old)
{
    if (old->base < block->base || old->base + old->bytes > block->base + block->bytes)
        block_forgotten(old); /* what is left of it is nobody's */
    record_end(block->before);
    record_end(old->before);
    old->before = NULL;
    block->before = old;
}

/* One whose addresses begin where those of a freed one did, as most do, and reach no other. */
static int block_make_there(check_block *block)
{
    check_block *old = check_bases_at(block->base);
    if (old == NULL || old->is_live ||
        (block->bytes > old->bytes && old->upper != NULL &&
         old->upper->base - block->base < block->bytes))
        return 0;
    check_bases_replace(old, block);
    age_remove(old);
    block_follows(block, old);
    return 1;
}

check_block *check_block_make(CUdeviceptr base, size_t bytes)
{
    check_block *block = block_record(base, bytes), *lower, *next;
    if (block != NULL && block_make_there(block))
        return block;
    for (check_block *old = overlapping_first(base, bytes, &lower); old != NULL; old = next) {
        next = old->upper != NULL && old->upper->base - base < bytes ? old->upper : NULL;
        if (block == NULL || old->is_live) {
            block_forget(old);
            continue;
        }
        age_remove(old);
        check_bases_remove(old);
        block_follows(block, old);
    }
    if (block == NULL || check_bases_add(block, lower))
        return block;
    block_end(block);
    return NULL;
}

/* It is freed, and the youngest of those. */
static void age_add(check_block *block)
{
    block->is_live = 0;
    waste_end(block);
    block->older = newest;
    block->newer = NULL;
    *(newest == NULL ? &oldest : &newest->newer) = block;
    newest = block;
    if (++freed_count > FREED_MAX)
        block_forget(oldest);
}

void check_block_free(check_block *block)
{
    block_lighten(block);
    age_add(block);
}

void check_block_await(check_block *block)
{
    if (awaited_count == awaited_room) {
        size_t room = awaited_room * 2 + 16;
        check_block **grown = realloc(awaited, room * sizeof(check_block *));
        if (grown == NULL) {
            check_block_free(block); /* without memory: silence */
            return;
        }
        awaited = grown;
        awaited_room = room;
    }
    awaited[awaited_count++] = block;
    block->is_awaited = 1;
    age_add(block);
}

void check_blocks_awaited(int (*judge)(const check_block *block, void *user), void *user)
{
    for (size_t i = awaited_count; i-- > 0;)
        if (judge(awaited[i], user))
            block_lighten(awaited[i]);
}

/* Where many streams use one block, a table says where the uses of each are: behind them, two slots
 * for each that there is room for. A slot has the place and 1; 0: it is empty. Nothing leaves the
 * table, so what came first of a stream is found first. */
enum { USES_FEW = 8 };

static uint32_t *uses_table(const check_block *block)
{
    return (uint32_t *)(void *)(block->uses + block->uses_room);
}

static uint32_t slot_of(const check_block *block, size_t index)
{
    uint64_t mixed = (uint64_t)index * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(mixed >> 32) & (block->uses_room * 2 - 1);
}

static void use_enter(check_block *block, uint32_t place)
{
    uint32_t *table = uses_table(block), slot = slot_of(block, block->uses[place].index);
    while (table[slot] != 0)
        slot = (slot + 1) & (block->uses_room * 2 - 1);
    table[slot] = place + 1;
}

/* The use that this one takes the place of; null: it is one more. */
static check_touch *use_find(const check_block *block, const check_touch *use, int is_certain)
{
    if (block->uses_room <= USES_FEW) {
        for (uint32_t i = 0; i < block->uses_count; i++)
            if (check_touch_ends(&block->uses[i], use, is_certain))
                return &block->uses[i];
        return NULL;
    }
    const uint32_t *table = uses_table(block);
    uint32_t slot = slot_of(block, use->index);
    for (; table[slot] != 0; slot = (slot + 1) & (block->uses_room * 2 - 1))
        if (check_touch_ends(&block->uses[table[slot] - 1], use, is_certain))
            return &block->uses[table[slot] - 1];
    return NULL;
}

static int uses_grow(check_block *block)
{
    uint32_t room = block->uses_room * 2, slots = room <= USES_FEW ? 0 : room * 2;
    check_touch *grown = malloc(room * sizeof(*grown) + slots * sizeof(uint32_t));
    if (grown == NULL)
        return 0;
    memcpy(grown, block->uses, block->uses_count * sizeof(*grown));
    if (block->uses != block->uses_inside)
        free(block->uses);
    block->uses = grown;
    block->uses_room = room;
    if (slots > 0)
        memset(uses_table(block), 0, slots * sizeof(uint32_t));
    for (uint32_t i = 0; i < block->uses_count && slots > 0; i++)
        use_enter(block, i);
    return 1;
}

void check_block_use_more(check_block *block, const check_touch *use, int is_certain)
{
    check_touch *last = use_find(block, use, is_certain);
    if (last == NULL && block->uses_count == block->uses_room && !uses_grow(block))
        return; /* a use that is forgotten is never reported */
    int is_more = last == NULL;
    if (is_more)
        last = &block->uses[block->uses_count++];
    *last = *use;
    last->is_certain = is_certain;
    if (is_more && block->uses_room > USES_FEW)
        use_enter(block, block->uses_count - 1);
}

check_records *check_block_records(check_block *block)
{
    if (block->records == NULL)
        block->records = calloc(1, sizeof(*block->records));
    return block->records;
}

int check_records_add(check_records *records, check_stamp stream)
{
    for (size_t i = 0; i < records->count; i++)
        if (records->until_free[i].index == stream.index) {
            records->until_free[i] = stream;
            return 1;
        }
    if (records->count == records->room) {
        size_t room = records->room * 2 + 2;
        check_stamp *grown = realloc(records->until_free, room * sizeof(*grown));
        if (grown == NULL)
            return 0;
        records->until_free = grown;
        records->room = room;
    }
    records->until_free[records->count++] = stream;
    return 1;
}

void check_blocks_each(void (*visit)(const check_block *block, void *user), void *user)
{
    for (const check_block *block = check_bases_first(); block != NULL; block = block->upper)
        if (block->is_live)
            visit(block, user);
}
