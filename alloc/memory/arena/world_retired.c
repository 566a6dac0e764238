/* SPDX-License-Identifier: Apache-2.0 */
/* Retiring blocks, and the geometry of what is retired: see world_retired.h. */
#include "memory/arena/world_retired.h"

#include "memory/arena/record.h"
#include "memory/arena/world_lend.h"

void tnri_world_retire(tnri_world *world, tnri_block *block)
{
    tnri_assert(block->state == TNRI_LIVE);
    world->bytes_in[TNRI_LIVE] -= block->bytes;
    world->count_in[TNRI_LIVE]--;
    world->bytes_in[TNRI_RETIRED] += block->bytes;
    world->count_in[TNRI_RETIRED]++;
    block->state = TNRI_RETIRED;
}

/* From a record up to the one that contains the address; null at the span's end. */
static tnri_block *find_above(tnri_block *block, uintptr_t address)
{
    while (block != NULL && tnri_block_end(block) <= address)
        block = block->above;
    return block;
}

/* The lowest record of the range that begins highest, of some ranges, and not above the address. */
static tnri_block *range_first(const tnri_world *world, size_t from, size_t end, uintptr_t address)
{
    tnri_block *first = NULL;
    for (size_t i = from; i < end; i++) {
        tnri_block *other = world->span_first[i];
        if (other->base <= address && (first == NULL || other->base > first->base))
            first = other;
    }
    return first;
}

/* The highest LENT record above `from` that begins at or below the address; else `from`. Between
 * it and the address nothing is another world's. */
static tnri_block *lent_below(const tnri_world *world, tnri_block *from, uintptr_t address)
{
    for (tnri_block *lent = world->lent; lent != NULL; lent = lent->next)
        if (lent->base <= address && lent->base > from->base)
            from = lent;
    return from;
}

tnri_block *tnri_world_find(const tnri_world *world, tnri_block *hint, uintptr_t address)
{
    if (hint != NULL && hint->world == world && hint->state != TNRI_UNUSED &&
        hint->base <= address) {
        tnri_block *found = find_above(hint, address);
        if (found != NULL)
            return found;
    }
    /* A search at each growth may not pay for all blocks that there are. */
    int is_own = tnri_world_owns(world, address);
    tnri_block *from = is_own ? range_first(world, 0, world->spans_own, address)
                              : range_first(world, world->spans_own, world->spans_count, address);
    if (is_own) {
        from = lent_below(world, from, address);
        tnri_block *below = tnri_block_map_below(
            &world->space->map, world, from->state == TNRI_LENT ? tnri_block_end(from) : from->base,
            address);
        from = below != NULL ? below : from;
    }
    return find_above(from, address);
}

void tnri_world_join(tnri_world *world, tnri_block *block)
{
    tnri_assert(block->state == TNRI_RETIRED && block->above != NULL &&
                block->above->state == TNRI_RETIRED);
    tnri_record_leave(world, block->above);
    tnri_record_leave(world, block);
    tnri_record_absorb_above(world, block);
    tnri_record_enter(world, block, TNRI_RETIRED);
}

tnri_block *tnri_world_withhold(tnri_world *world, tnri_block *run, uintptr_t base, uintptr_t end)
{
    tnri_assert(run->state == TNRI_FREE);
    tnri_assert(base >= run->base && end <= tnri_block_end(run) && base < end);
    tnri_record_leave(world, run);
    if (base > run->base) {
        tnri_block *upper = tnri_record_split(world, run, base - run->base);
        tnri_record_enter(world, run, TNRI_FREE);
        run = upper;
    }
    if (end < tnri_block_end(run)) {
        tnri_block *rest = tnri_record_split(world, run, end - run->base);
        tnri_record_enter(world, rest, TNRI_FREE);
    }
    run->uses = NULL;
    run->stamped = 0;
    tnri_record_enter(world, run, TNRI_RETIRED);
    return run;
}
