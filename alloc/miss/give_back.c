/* SPDX-License-Identifier: Apache-2.0 */
/* Giving borrowed addresses back: see give_back.h. */
#include "miss/give_back.h"

#include "base/heuristics.h"
#include "memory/arena/world_lend.h"
#include "memory/pool/pool.h"

/* Holes of one world on their way home. */
typedef struct journey {
    tnri_world *from;
    tnri_block *pending[TNRI_GIVE_BACK_AT_ONCE]; /* null: at home */
    size_t count;
    size_t done;
} journey;

/* The world of an arena in whose span the address lies, with what it needs to take it back set
 * aside; null if it is in none, or no host memory is there. */
static tnri_world *home_prepare(tnri_arena *arena, uintptr_t base)
{
    tnri_world *home = NULL;
    tnri_arena_enter(arena);
    for (int i = 0; i < TNRI_WORLDS && home == NULL; i++)
        if (tnri_world_owns(&arena->worlds[i], base))
            home = &arena->worlds[i];
    if (home != NULL && !tnri_world_promise(home, TNRI_RECEIVE_RECORDS))
        home = NULL;
    tnri_arena_leave(arena);
    return home;
}

/* From one world to the other. In between the addresses are in no record. */
static void hole_go(tnri_world *from, tnri_block *pending, tnri_world *home)
{
    uintptr_t base = pending->base;
    size_t bytes = pending->bytes;
    tnri_arena_enter(from->arena);
    tnri_world_give_back(from, pending);
    tnri_arena_leave(from->arena);
    tnri_arena_enter(home->arena);
    tnri_world_unpromise(home, TNRI_RECEIVE_RECORDS);
    tnri_world_take_back(home, base, bytes);
    tnri_arena_leave(home->arena);
}

/* Brings home what lies in spans of one arena. */
static void journey_visit(journey *of, tnri_arena *arena)
{
    for (size_t i = 0; i < of->count; i++) {
        tnri_world *home = NULL;
        if (of->pending[i] != NULL)
            home = home_prepare(arena, of->pending[i]->base);
        if (home == NULL)
            continue;
        hole_go(of->from, of->pending[i], home);
        of->pending[i] = NULL;
        of->done++;
    }
}

/* What could not go home stays where it was. */
static void journey_end(const journey *of)
{
    if (of->done == of->count)
        return;
    tnri_arena_enter(of->from->arena);
    for (size_t i = 0; i < of->count; i++)
        if (of->pending[i] != NULL)
            tnri_world_hole_unclaim(of->from, of->pending[i]);
    tnri_arena_leave(of->from->arena);
}

/* Returns how many holes went home. */
static size_t world_give_back(tnri_world *world)
{
    journey of = {.from = world};
    tnri_arena *arena = world->arena;
    tnri_arena_enter(arena);
    of.count = tnri_world_holes_claim(world, TNRI_GIVE_BACK_AT_ONCE, of.pending);
    tnri_arena_leave(arena);
    tnri_arena *other = NULL;
    while (of.done < of.count && (other = tnri_arena_walk(arena->pool, other)) != NULL)
        journey_visit(&of, other);
    journey_end(&of);
    return of.done;
}

size_t tnri_give_back(tnr_pool pool)
{
    size_t done = 0, all = 0;
    tnri_assert_none_held();
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;)
        for (int i = 0; i < TNRI_WORLDS; i++)
            while ((done = world_give_back(&arena->worlds[i])) > 0)
                all += done;
    return all;
}
