/* SPDX-License-Identifier: Apache-2.0 */
/* Canaries: see canary.h. */
#include "see/trap/canary.h"

#include "see/trap/work.h"

size_t tnri_canary_place(const tnri_block *block, uintptr_t *address)
{
    size_t bytes = block->slack;
    *address = block->base + tnri_block_requested(block);
    return bytes < TNRI_CANARY_MOST ? bytes : TNRI_CANARY_MOST;
}

void tnri_canary_set(tnri_block *block, tnri_stream *stream)
{
    tnri_arena *arena = block->world->arena;
    uintptr_t address;
    tnri_arena_enter(arena);
    size_t bytes = tnri_canary_place(block, &address);
    tnri_arena_leave(arena);
    if (bytes == 0 || !tnri_work_fill(stream, address, TNRI_CANARY, bytes))
        return;
    tnri_arena_enter(arena);
    block->holds = 1;
    tnri_arena_leave(arena);
}

size_t tnri_canary_take(tnri_block *block, uintptr_t *address)
{
    tnri_assert_held(&block->world->arena->lock);
    if (!block->holds)
        return 0;
    block->holds = 0;
    return tnri_canary_place(block, address);
}
