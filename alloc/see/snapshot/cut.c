/* SPDX-License-Identifier: Apache-2.0 */
/* Making a cut: see cut.h. */
#include "see/snapshot/cut.h"

#include <string.h>

#include "base/array.h"
#include "memory/arena/world_validate.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/ticks.h"
#include "log/history.h"
#include "memory/device/chunk.h"
#include "memory/device/upper.h"
#include "miss/park.h"
#include "memory/pool/asleep.h"
#include "memory/pool/pool.h"

enum {
    CUT_ATTEMPTS = 16,
    FACTOR_LOG2_MAX = 6, /* of the doubling of room with each attempt */
    SLABS_EXTRA = 4,     /* room for growth until the moment, besides an eighth */
    WAITS_PER_BLOCK = 2, /* room for each retired block, doubled with each attempt */
    WAITS_EXTRA = 64
};

/* ---- copying an arena ----------------------------------------------------------------------- */

/* Adds what a retired block waits for. 1: nothing, since it is memory that a capture hands out
 * again. */
static int waits_copy(tnri_arena_copy *copy, const tnri_block *block)
{
    size_t room = copy->is_short ? 0 : copy->waits_room - copy->waits_count;
    size_t count = block->uses == NULL
                       ? 0
                       : tnri_upper_of(TNRI_ROOM_ORDER)
                             ->describe(block->uses, copy->waits + copy->waits_count, room);
    if (count == SIZE_MAX)
        return 1;
    if (count > room)
        copy->is_short = 1;
    else
        copy->waits_count += count;
    return 0;
}

static void block_copy(tnri_arena_copy *copy, const tnri_block *block)
{
    if (copy->blocks_count == copy->blocks_room) {
        copy->is_short = 1;
        return;
    }
    tnri_block *to = &copy->blocks[copy->blocks_count++];
    *to = *block;
    to->content = block->world->is_small != 0; /* the world may be gone when it is asked for */
    to->world = NULL;
}

/* A block that waits, with what for; or memory that a capture hands out again, which is free. */
static void retired_copy(tnri_arena_copy *copy, const tnri_block *block)
{
    int is_free = waits_copy(copy, block);
    size_t count = copy->blocks_count;
    block_copy(copy, block);
    if (is_free && copy->blocks_count > count)
        copy->blocks[count].state = TNRI_FREE;
}

static void world_copy(tnri_arena_copy *copy, const tnri_world *world)
{
    for (const tnri_slab *slab = world->slabs; slab != NULL; slab = slab->next) {
        if (slab->next != NULL)
            __builtin_prefetch(slab->next->records);
        for (size_t i = 0; i < TNRI_SLAB_RECORDS; i++) {
            const tnri_block *block = &slab->records[i];
            switch (block->state) {
            case TNRI_RETIRED:
                retired_copy(copy, block);
                break;
            case TNRI_LIVE:
            case TNRI_PARKED: /* shown with the memory that it is to have */
            case TNRI_FREE:
            case TNRI_BINNED:
            case TNRI_PENDING:
                block_copy(copy, block);
                break;
            case TNRI_STALE: /* memory until the history says that it is none */
                if (block->holds)
                    block_copy(copy, block);
                break;
            default:
                break;
            }
        }
    }
    size_t largest = tnri_world_largest_free(world);
    if (largest > copy->largest_free)
        copy->largest_free = largest;
}

/* 1 if a thread has an old mapping in hand: one that is in no queue. Its chunks are on their way to
 * a window that grows, or to the driver, and counted there or no more. */
static int arena_is_moving(const tnri_arena *arena)
{
    return arena->worlds[TNRI_SMALL].count_in[TNRI_STALE] +
               arena->worlds[TNRI_LARGE].count_in[TNRI_STALE] !=
           arena->stale_count;
}

static void arena_copy(tnri_arena *arena)
{
    tnri_assert_held(&arena->lock);
    tnri_arena_copy *copy = arena->cut;
    if (copy == NULL)
        return;
    arena->cut = NULL;
    copy->number = arena->number;
    copy->order = arena->order;
    const tnri_stream *stream = atomic_load(&arena->stream);
    copy->stream = tnri_arena_handle(arena);
    copy->thread = stream == NULL ? 0 : stream->thread;
    copy->is_ended = stream != NULL && atomic_load(&stream->seal) != NULL;
    copy->stream_number = stream == NULL ? 0 : stream->number;
    copy->stream_name = stream == NULL ? 0 : atomic_load(&stream->name);
    for (int i = 0; i < TNRI_WORLDS; i++)
        world_copy(copy, &arena->worlds[i]);
    copy->is_moving = arena_is_moving(arena) || tnri_parked_is_moving(arena);
    copy->away_bytes = tnri_parked_away_bytes(arena);
    copy->is_done = 1;
}

/* ---- making room ---------------------------------------------------------------------------- */

/* Adds one to a growing array, zeroed; null: no host memory. */
static void *array_add(void **array, size_t *count, size_t *room, size_t bytes)
{
    return tnri_array_grow(array, room, *count + 1, bytes) ? (char *)*array + (*count)++ * bytes
                                                           : NULL;
}

/* Holds a pool and enters it. 0: no host memory; a pool that is ending is passed over. */
static int pool_enter(tnri_cut *cut, tnr_pool pool)
{
    if (!tnri_pool_hold(pool))
        return 1;
    tnri_pool_copy *copy =
        array_add((void **)&cut->pools, &cut->pools_count, &cut->pools_room, sizeof(*copy));
    if (copy == NULL) {
        tnri_pool_drop(pool);
        return 0;
    }
    copy->pool = pool;
    copy->device = pool->device->index;
    copy->number = pool->account.id;
    copy->handle = tnri_pool_handle(pool);
    copy->is_graph = pool->account.is_graph;
    copy->is_foreign = tnri_account_is_foreign(&pool->account);
    copy->is_owners = tnri_account_is_owners(&pool->account);
    copy->is_vouched = pool->account.is_vouched;
    copy->tag = pool->account.tag;
    memcpy(copy->name, pool->account.name, sizeof(copy->name));
    return 1;
}

/* Index of a pool in the cut; the number of pools if it is not there. */
static size_t pool_find(const tnri_cut *cut, tnr_pool pool)
{
    size_t p = 0;
    while (p < cut->pools_count && cut->pools[p].pool != pool)
        p++;
    return p;
}

/* Enters the pools that are not there yet. */
static int pools_enter(tnri_cut *cut)
{
    tnri_device *device;
    for (int i = 0; (device = tnri_device_nth(i)) != NULL; i++) {
        if (!atomic_load_explicit(&device->in_use, memory_order_acquire))
            continue;
        for (tnr_pool pool = NULL; (pool = tnri_pool_walk(device, pool)) != NULL;)
            if (pool_find(cut, pool) == cut->pools_count && !pool_enter(cut, pool)) {
                tnri_pool_drop(pool);
                return 0;
            }
    }
    return 1;
}

/* How much room an arena's copy needs, with something for what may still come. */
static void arena_measure(tnri_arena_copy *copy, size_t attempt)
{
    tnri_arena *arena = copy->arena;
    size_t slabs = 0;
    size_t retired = 0;
    tnri_arena_enter(arena);
    for (int i = 0; i < TNRI_WORLDS; i++) {
        slabs += arena->worlds[i].slabs_count;
        retired += arena->worlds[i].count_in[TNRI_RETIRED];
    }
    tnri_arena_leave(arena);
    size_t factor = (size_t)1 << (attempt < FACTOR_LOG2_MAX ? attempt : FACTOR_LOG2_MAX);
    copy->blocks_room = (slabs + (slabs / 8 + SLABS_EXTRA) * factor) * TNRI_SLAB_RECORDS;
    copy->waits_room = (retired * WAITS_PER_BLOCK + WAITS_EXTRA) * factor;
}

/* Gives an arena the room for its copy. The arrays are reserved, not allocated: what is not filled
 * costs nothing, and a page of it is touched only when it is. */
static int arena_room(tnri_arena_copy *copy, size_t attempt)
{
    arena_measure(copy, attempt);
    copy->blocks = tnri_host_reserve(copy->blocks_room * sizeof(copy->blocks[0]));
    copy->waits = tnri_host_reserve(copy->waits_room * sizeof(copy->waits[0]));
    if (copy->blocks == NULL || copy->waits == NULL)
        return 0;
    /* Touched now, and not by the thread that copies under the arena's lock. */
    for (size_t i = 0; i < copy->blocks_room; i += 4096 / sizeof(copy->blocks[0]))
        copy->blocks[i].base = 0;
    for (size_t i = 0; i < copy->waits_room; i += 4096 / sizeof(copy->waits[0]))
        copy->waits[i].base = 0;
    return 1;
}

static void arena_unroom(tnri_arena_copy *copy)
{
    tnri_host_unreserve(copy->blocks, copy->blocks_room * sizeof(copy->blocks[0]));
    tnri_host_unreserve(copy->waits, copy->waits_room * sizeof(copy->waits[0]));
    copy->blocks = NULL;
    copy->waits = NULL;
}

/* Enters a pool's arenas that are not there yet. New ones come first in the pool's list. */
static int pool_arenas_enter(tnri_cut *cut, size_t p)
{
    const tnri_arena *newest = NULL;
    tnri_arena *arena = NULL;
    while ((arena = tnri_arena_walk(cut->pools[p].pool, arena)) != NULL &&
           arena != cut->pools[p].arena_newest) {
        tnri_arena_copy *copy =
            array_add((void **)&cut->arenas, &cut->arenas_count, &cut->arenas_room, sizeof(*copy));
        if (copy == NULL)
            return 0;
        copy->arena = arena;
        copy->pool = p;
        if (newest == NULL)
            newest = arena;
    }
    if (newest != NULL)
        cut->pools[p].arena_newest = newest;
    return 1;
}

/* Enters arenas, and gives those room that have none or had too little. */
static int arenas_enter(tnri_cut *cut, size_t attempt)
{
    for (size_t p = 0; p < cut->pools_count; p++)
        if (!pool_arenas_enter(cut, p))
            return 0;
    for (size_t i = 0; i < cut->arenas_count; i++) {
        tnri_arena_copy *copy = &cut->arenas[i];
        if (copy->is_short)
            arena_unroom(copy);
        copy->is_done = 0;
        copy->is_short = 0;
        copy->blocks_count = 0;
        copy->waits_count = 0;
        copy->largest_free = 0;
        if (copy->waits == NULL && !arena_room(copy, attempt))
            return 0;
    }
    /* The array grows no more, so arenas may point into it. */
    for (size_t i = 0; i < cut->arenas_count; i++) {
        tnri_arena *arena = cut->arenas[i].arena;
        tnri_arena_enter(arena);
        arena->cut = &cut->arenas[i];
        tnri_arena_leave(arena);
    }
    return 1;
}

/* ---- the moment ----------------------------------------------------------------------------- */

/* What a pool holds. Read before and after the moment: if it was the same, and nobody was at work
 * on it, it was so at the moment. */
static void pool_read(tnri_pool_copy *copy)
{
    tnr_pool pool = copy->pool;
    int is_idle = atomic_load(&pool->asleep.workers) == 0;
    uint64_t chunks = tnri_flow_now(&pool->account.chunks);
    uint64_t reserved = atomic_load(&pool->account.reserved_bytes);
    uint64_t asleep = atomic_load(&pool->account.asleep_bytes);
    int state = atomic_load(&pool->asleep.state);
    copy->is_still = is_idle && chunks == copy->chunks && reserved == copy->reserved_bytes &&
                     asleep == copy->asleep_bytes && state == copy->sleep_state &&
                     (state == TNRI_AWAKE || state == TNRI_ASLEEP);
    copy->chunks = chunks;
    copy->reserved_bytes = reserved;
    copy->asleep_bytes = asleep;
    copy->sleep_state = state;
    copy->limit_bytes = atomic_load(&pool->account.limit_bytes);
}

static void pools_read(tnri_cut *cut)
{
    for (size_t p = 0; p < cut->pools_count; p++)
        pool_read(&cut->pools[p]);
}

/* 1 if there is an arena from before the moment that is not in the cut: one that was not made by a
 * thread that had seen the gate. */
static int arenas_missed(const tnri_cut *cut)
{
    for (size_t p = 0; p < cut->pools_count; p++) {
        tnri_arena *arena = NULL;
        while ((arena = tnri_arena_walk(cut->pools[p].pool, arena)) != NULL &&
               arena != cut->pools[p].arena_newest)
            if (arena->born != cut->number)
                return 1;
    }
    return 0;
}

/* 1 if a pool has come that may hold arenas from before the moment. */
static int pools_missed(const tnri_cut *cut)
{
    tnri_device *device;
    for (int i = 0; (device = tnri_device_nth(i)) != NULL; i++) {
        if (!atomic_load_explicit(&device->in_use, memory_order_acquire))
            continue;
        for (tnr_pool pool = NULL; (pool = tnri_pool_walk(device, pool)) != NULL;) {
            if (pool_find(cut, pool) < cut->pools_count)
                continue;
            for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;)
                if (arena->born != cut->number) {
                    tnri_pool_drop(pool);
                    return 1;
                }
        }
    }
    return 0;
}

/* The moment, and copying. Returns 1, or 0 if something did not fit. */
static int cut_now(tnri_cut *cut)
{
    pools_read(cut);
    atomic_store(&tnri_arena_copier, arena_copy);
    cut->number = tnri_gate_cut_begin();
    cut->ticks = tnri_ticks();
    pools_read(cut);
    int fits = 1;
    for (size_t i = 0; i < cut->arenas_count; i++) {
        tnri_arena_copy *copy = &cut->arenas[i];
        tnri_arena_enter(copy->arena);
        arena_copy(copy->arena); /* the gate may not be seen even here */
        tnri_arena_leave(copy->arena);
        fits &= !copy->is_short;
        if (copy->number > cut->arena_last)
            cut->arena_last = copy->number;
        if (copy->is_moving)
            cut->pools[copy->pool].is_still = 0;
    }
    fits &= !pools_missed(cut) && !arenas_missed(cut);
    tnri_gate_cut_end();
    return fits;
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* Lets the pools go, of which nothing is looked at any more. */
static void pools_leave(tnri_cut *cut)
{
    for (size_t i = 0; i < cut->arenas_count; i++) {
        tnri_arena_copy *copy = &cut->arenas[i];
        tnri_lock_take(&copy->arena->lock);
        if (copy->arena->cut == copy)
            copy->arena->cut = NULL;
        tnri_lock_release(&copy->arena->lock);
        copy->arena = NULL;
    }
    for (size_t p = 0; p < cut->pools_count; p++) {
        tnri_pool_drop(cut->pools[p].pool);
        cut->pools[p].pool = NULL;
    }
}

void tnri_cut_free(tnri_cut *cut)
{
    for (size_t i = 0; i < cut->arenas_count; i++)
        arena_unroom(&cut->arenas[i]);
    tnri_host_free(cut->arenas, cut->arenas_room * sizeof(cut->arenas[0]));
    tnri_host_free(cut->pools, cut->pools_room * sizeof(cut->pools[0]));
    memset(cut, 0, sizeof(*cut));
}

tnr_status tnri_cut_make(tnri_cut *cut)
{
    int has_room = 1;
    int fits = 0;
    memset(cut, 0, sizeof(*cut));
    for (size_t attempt = 0; attempt < CUT_ATTEMPTS && has_room && !fits; attempt++) {
        has_room = pools_enter(cut) && arenas_enter(cut, attempt);
        fits = has_room && cut_now(cut);
    }
    pools_leave(cut);
    if (fits)
        return TNR_OK;
    tnri_cut_free(cut);
    if (!has_room)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for a copy of the tables.");
    return tnri_error(TNR_ERR_BUSY,
                      "threads made streams and pools faster than a snapshot could be taken, %d "
                      "times in a row. Try again.",
                      CUT_ATTEMPTS);
}
