/* SPDX-License-Identifier: Apache-2.0 */
/* Records of a world: see record.h. */
#include "memory/arena/record.h"

/* 1 for the states of which a world has a list, newest first. */
static int state_has_list(unsigned state)
{
    return state == TNRI_HOLE || state == TNRI_LENT || state == TNRI_ALIAS;
}

static tnri_block **world_list(tnri_world *world, unsigned state)
{
    return state == TNRI_HOLE ? &world->holes : state == TNRI_LENT ? &world->lent : &world->aliases;
}

void tnri_record_enter(tnri_world *world, tnri_block *block, tnri_state state)
{
    world->bytes_in[state] += block->bytes;
    world->count_in[state]++;
    if (state == TNRI_FREE) {
        tnri_world_unspend(world);
        tnri_index_insert(world->index, block);
        return;
    }
    block->state = state;
    if (state_has_list(state)) {
        tnri_block **list = world_list(world, state);
        block->prev = NULL;
        block->next = *list;
        if (*list != NULL)
            (*list)->prev = block;
        else if (state == TNRI_ALIAS)
            world->aliases_last = block;
        *list = block;
    }
}

void tnri_record_leave(tnri_world *world, tnri_block *block)
{
    unsigned state = block->state;
    world->bytes_in[state] -= block->bytes;
    world->count_in[state]--;
    if (state == TNRI_FREE) {
        tnri_index_remove(world->index, block);
    } else if (state_has_list(state)) {
        if (block->next != NULL)
            block->next->prev = block->prev;
        else if (state == TNRI_ALIAS)
            world->aliases_last = block->prev;
        if (block->prev != NULL)
            block->prev->next = block->next;
        else
            *world_list(world, state) = block->next;
        block->state = TNRI_UNUSED; /* in no list: nothing may merge with it now */
    }
}

tnri_block *tnri_record_split(tnri_world *world, tnri_block *block, size_t bytes)
{
    tnri_assert(bytes > 0 && bytes < block->bytes);
    tnri_block *upper = tnri_world_spare_take(world);
    upper->base = block->base + bytes;
    upper->bytes = block->bytes - bytes;
    upper->slack = 0;
    upper->state = TNRI_UNUSED;
    upper->below = block;
    upper->above = block->above;
    if (block->above != NULL)
        block->above->below = upper;
    block->above = upper;
    block->bytes = bytes;
    return upper;
}

void tnri_record_absorb_above(tnri_world *world, tnri_block *block)
{
    tnri_block *upper = block->above;
    tnri_assert_hot(upper->base == tnri_block_end(block));
    block->bytes += upper->bytes;
    block->above = upper->above;
    if (upper->above != NULL)
        upper->above->below = block;
    upper->state = TNRI_UNUSED;
    tnri_world_spare_give(world, upper);
}

tnri_block *tnri_record_merge(tnri_world *world, tnri_block *block, tnri_state state)
{
    if (block->above != NULL && tnri_block_state_near(block->above) == state) {
        tnri_record_leave(world, block->above);
        tnri_record_absorb_above(world, block);
    }
    if (block->below != NULL && tnri_block_state_near(block->below) == state) {
        tnri_block *lower = block->below;
        tnri_record_leave(world, lower);
        tnri_record_absorb_above(world, lower);
        block = lower;
    }
    tnri_record_enter(world, block, state);
    return block;
}
