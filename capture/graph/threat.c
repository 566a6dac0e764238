/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that a launch would overwrite: see threat.h. */
#include "graph/threat.h"

#include "base/array.h"
#include "base/host_memory.h"
#include "base/lock.h"

typedef struct threat {
    const tnri_captured *captured;
    tnr_graph graph; /* that would overwrite it */
    uintptr_t base;
    size_t bytes;
} threat;

static struct {
    tnri_lock lock;
    threat *list;
    size_t count, room;
} threats = {.lock = {.rank = TNRI_RANK_HOST}};

int tnri_threats_add(const tnri_captured *captured, tnr_graph graph)
{
    const tnri_block *block = captured->uses.block;
    tnri_lock_take(&threats.lock);
    int has_room = TNRI_ARRAY_GROW(threats.list, threats.room, threats.count + 1);
    if (has_room)
        threats.list[threats.count++] = (threat){captured, graph, block->base, block->bytes};
    tnri_lock_release(&threats.lock);
    return has_room;
}

/* Takes out those of a block (or, with null, of a graph); the last one gives the memory back. */
static void threats_drop(const tnri_captured *captured, tnr_graph graph)
{
    tnri_lock_take(&threats.lock);
    size_t kept = 0;
    for (size_t i = 0; i < threats.count; i++)
        if (captured != NULL ? threats.list[i].captured != captured
                             : threats.list[i].graph != graph)
            threats.list[kept++] = threats.list[i];
    threats.count = kept;
    threat *unused = kept == 0 ? threats.list : NULL;
    size_t room = threats.room;
    if (kept == 0) {
        threats.list = NULL;
        threats.room = 0;
    }
    tnri_lock_release(&threats.lock);
    if (unused != NULL)
        tnri_host_free(unused, room * sizeof(*unused));
}

void tnri_threats_remove(const tnri_captured *captured)
{
    threats_drop(captured, 0);
}

void tnri_threats_forget(tnr_graph graph)
{
    threats_drop(NULL, graph);
}

uintptr_t tnri_threats_find(tnri_arena *arena, tnr_graph graph, size_t *bytes, tnr_graph *owner)
{
    uintptr_t base = 0;
    tnri_arena_enter(arena);
    tnri_lock_take(&threats.lock);
    for (size_t i = 0; i < threats.count && base == 0; i++) {
        const threat *at = &threats.list[i];
        if (at->graph != graph)
            continue;
        const tnri_uses *uses = &at->captured->uses;
        if (uses->block->state != TNRI_LIVE && uses->holds == 0)
            continue; /* freed: the launch waits for its uses */
        base = at->base;
        *bytes = at->bytes;
        *owner = at->captured->graph;
    }
    tnri_lock_release(&threats.lock);
    tnri_arena_leave(arena);
    return base;
}
