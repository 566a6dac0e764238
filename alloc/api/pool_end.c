/* SPDX-License-Identifier: Apache-2.0 */
/* Ending pools: see pool_end.h. */
#include "api/pool_end.h"

#include "base/error.h"
#include "base/host_memory.h"
#include "base/plural.h"
#include "base/prim/clock.h"
#include "gpu/capturing.h"
#include "memory/arena/count.h"
#include "memory/arena/note.h"
#include "memory/arena/range.h"
#include "memory/arena/run.h"
#include "memory/device/upper.h"
#include "memory/pool/asleep.h"
#include "memory/pool/cache.h"
#include "memory/pool/donors.h"
#include "memory/pool/handle.h"
#include "miss/grow.h"
#include "miss/park.h"
#include "miss/reclaim.h"

/* Blocks of a pool. */
typedef struct holdings {
    size_t live;
    size_t held; /* freed, and graphs outside still refer to them, or exports are open */
} holdings;

static holdings pool_holdings(tnr_pool pool)
{
    holdings found = {0, 0};
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        tnri_arena_enter(arena);
        found.live += (size_t)tnri_arena_live_count(arena);
        found.held += arena->held_count;
        tnri_arena_leave(arena);
    }
    return found;
}

int tnri_pool_is_kept(tnr_pool pool)
{
    uint32_t keepers = atomic_load(&pool->keepers);
    holdings found = pool_holdings(pool);
    return found.live == 0 && (found.held > 0 || keepers > 0);
}

/* Frees every live block of a world, for a forced end. Under the arena's lock. */
static void world_free_all(tnri_arena *arena, tnri_world *world)
{
    for (size_t i = 0; i < world->spans_count; i++) {
        for (tnri_block *block = world->span_first[i]; block != NULL; block = block->above)
            if (block->state == TNRI_LIVE) {
                if (block->uses != NULL)
                    tnri_upper_of(TNRI_ROOM_ORDER)->forget(arena, block);
                tnri_arena_count_freed(arena, block);
                block = tnri_world_free(world, block);
            }
    }
}

static void arenas_free_all(tnr_pool pool)
{
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        tnri_parked_free_all(arena);
        tnri_arena_enter(arena);
        tnri_range *range = tnri_range_of(arena);
        if (range != NULL)
            tnri_upper_of(TNRI_ROOM_ORDER)->forget(arena, &range->whole);
        for (int i = 0; i < TNRI_WORLDS; i++)
            world_free_all(arena, &arena->worlds[i]);
        (void)tnri_grow_free_bare(arena, arena->growable.base);
        tnri_arena_leave(arena);
    }
}

tnr_status tnri_pool_free_all(tnr_pool pool)
{
    tnr_status status = tnri_uppers_pool_end(pool, 0);
    if (status == TNR_OK)
        arenas_free_all(pool);
    return status;
}

/* Waits until nobody but the calling thread holds the pool. Who does holds it for a short while, or
 * waits for the device on behalf of this very pool's memory. */
static void pool_wait_for_visitors(tnr_pool pool)
{
    while (atomic_load(&pool->visitors_count) > 1)
        tnri_yield();
}

/* 1 if memory that has moved, or is gone, is still mapped at old addresses. */
static int pool_has_aliases(tnr_pool pool)
{
    size_t aliases = 0;
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        tnri_arena_enter(arena);
        aliases += arena->aliases_count;
        tnri_arena_leave(arena);
    }
    return aliases > 0;
}

/* Gives everything that the pool has back to the driver, live blocks included if `force`. */
static tnr_status pool_give_back(tnr_pool pool, int force)
{
    tnr_status status = force ? tnri_pool_free_all(pool) : tnri_uppers_pool_end(pool, 0);
    if (status != TNR_OK)
        return status;
    uint64_t errors = tnri_error_latest().count;
    (void)tnri_collect_pool(pool, SIZE_MAX, TNRI_COLLECT_WAIT);
    (void)tnri_release_idle(pool->device, pool, SIZE_MAX, 1, &status);
    if (status == TNR_OK && pool_has_aliases(pool))
        return tnri_error(TNR_ERR_CAPTURE,
                          "pool \"%s\" has old mappings that cannot be proved idle while a capture "
                          "is under way. Destroy it before or after it.",
                          pool->account.name);
    if (status != TNR_OK ||
        atomic_load(&pool->account.reserved_bytes) + atomic_load(&pool->account.asleep_bytes) == 0)
        return status;
    if (pool_holdings(pool).live > 0)
        return tnri_error(TNR_ERR_BUSY, "pool \"%s\" was allocated from while it was destroyed.",
                          pool->account.name);
    if (tnri_error_latest().count != errors) /* what could not be collected has said why */
        return tnri_error_latest().status;
    return tnri_error(tnri_capturing() ? TNR_ERR_CAPTURE : TNR_ERR_BUSY,
                      "freed blocks of pool \"%s\" have uses that cannot be seen to be over%s.",
                      pool->account.name,
                      tnri_capturing() ? " while a capture is under way. Destroy it before or after"
                                       : ". Try again");
}

/* TNR_ERR_BUSY if anything needs memory of the pool. */
static tnr_status pool_check_idle(tnr_pool pool)
{
    uint32_t keepers = atomic_load(&pool->keepers);
    uint32_t importers = atomic_load(&pool->account.importers);
    holdings found = pool_holdings(pool);
    if (found.live > 0)
        return tnri_error(TNR_ERR_BUSY, "pool \"%s\" still has %zu live block%s. Free %s first.",
                          pool->account.name, found.live, tnri_plural(found.live),
                          found.live == 1 ? "it" : "them");
    if (keepers > 0)
        return tnri_error(
            TNR_ERR_BUSY,
            "%u CUDA graph%s or capture%s still need%s memory of pool \"%s\". Destroy "
            "the graphs and their executables first.",
            keepers, tnri_plural(keepers), tnri_plural(keepers), keepers == 1 ? "s" : "",
            pool->account.name);
    if (found.held > 0 && atomic_load(&pool->account.exports) > 0)
        return tnri_error(TNR_ERR_BUSY,
                          "%zu freed block%s of pool \"%s\" %s kept, by exports among others; %u "
                          "importer%s %s some open. Close the exports, and have them close theirs.",
                          found.held, tnri_plural(found.held), pool->account.name,
                          found.held == 1 ? "is" : "are", importers, tnri_plural(importers),
                          importers == 1 ? "has" : "have");
    if (found.held > 0)
        return tnri_error(TNR_ERR_BUSY,
                          "CUDA graphs or captures keep %zu freed block%s of pool \"%s\". End the "
                          "captures, and destroy the graphs and their executables first.",
                          found.held, tnri_plural(found.held), pool->account.name);
    return TNR_OK;
}

tnr_status tnri_pool_check_routed(tnr_pool pool)
{
    uint32_t routed = atomic_load(&pool->routed_threads);
    if (routed == 0)
        return TNR_OK;
    return tnri_error(TNR_ERR_BUSY, "%u thread%s %s routed to pool \"%s\". Pop it there first.",
                      routed, tnri_plural(routed), routed == 1 ? "is" : "are", pool->account.name);
}

/* Gives back what a pool has that nobody can name any more. */
static tnr_status pool_empty(tnr_pool pool, int force)
{
    /* A graph's own pool is ended on the way, by who may be what another visitor waits for, or hold
     * it himself: in a callback of its sleep. There is another time for it. */
    if (pool->is_private && !force && atomic_load(&pool->visitors_count) > 1)
        return tnri_error(TNR_ERR_BUSY, "pool \"%s\" is being looked at.", pool->account.name);
    /* Held by nobody else, no other thread has taken an old mapping out of its queue for a moment,
     * so what can be given back is given back now; and what came in the meantime is seen. */
    pool_wait_for_visitors(pool);
    /* Who pushed the pool was a visitor then, and none comes any more. */
    tnr_status status = force ? TNR_OK : tnri_pool_check_routed(pool);
    if (status == TNR_OK && !force)
        status = pool_check_idle(pool);
    return status == TNR_OK ? pool_give_back(pool, force) : status;
}

tnr_status tnri_pool_end(tnr_pool pool, int force)
{
    tnr_status status = force ? TNR_OK : pool_check_idle(pool);
    if (status != TNR_OK)
        return status;
    if (atomic_exchange(&pool->live, NULL) == NULL)
        return tnri_error(TNR_ERR_INVALID_POOL, "pool \"%s\" is being destroyed by another thread.",
                          pool->account.name);
    status = pool_empty(pool, force);
    if (status != TNR_OK) {
        atomic_store(&pool->live, pool->handle);
        return status;
    }
    tnri_note_pool(&pool->account, NULL, TNRI_NOTED_POOL_ENDED, 0, pool->account.id);
    tnri_generation_advance();
    (void)tnri_uppers_pool_end(pool, 1);
    tnri_arena *arena = atomic_exchange(&pool->arenas, NULL);
    while (arena != NULL) {
        tnri_arena *next = atomic_load(&arena->next);
        tnri_arena_destroy(arena);
        arena = next;
    }
    tnri_donors_free(pool);
    tnri_host_free(pool->table, pool->table_slots * sizeof(pool->table[0]));
    pool->table = NULL;
    pool->arenas_count = 0;
    tnri_pool_unpublish(pool);
    tnri_pool_drop(pool);
    tnri_pool_retire(pool);
    return TNR_OK;
}
