/* SPDX-License-Identifier: Apache-2.0 */
/* The story of a block that has a trap: see story.h. */
#include "see/trap/story.h"

#include "memory/arena/note.h"

tnri_story tnri_story_of(const tnri_arena *arena, const tnri_block *block)
{
    tnri_assert_held(&arena->lock);
    return (tnri_story){
        .base = block->base,
        .requested = tnri_block_requested(block),
        .stream = tnri_arena_handle(arena),
        .pool = arena->account->id,
        .device = arena->device->index,
        .allocated =
            block->stamped ? (uint32_t)(block->stamp & ((1u << TNRI_STAMP_STACK_BITS) - 1)) : 0,
    };
}
