/* SPDX-License-Identifier: Apache-2.0 */
/* Making, walking and ending pools: see pool.h. */
#include "pool/pool.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "arena/grow.h"
#include "arena/stale.h"
#include "arena/upper.h"
#include "base/error.h"
#include "history/note.h"
#include "base/host_memory.h"
#include "conf/conf.h"
#include "pool/asleep.h"
#include "pool/growable.h"
#include "pool/handle.h"
#include "pool/lane.h"
#include "pool/library.h"
#include "pool/reclaim.h"
#include "pool/witness.h"

/* ---- making --------------------------------------------------------------------------------- */

static tnr_handle_type handle_type_default(const tnri_device *device)
{
    static const tnr_handle_type of_setting[] = {TNR_HANDLE_POSIX_FD, TNR_HANDLE_NONE,
                                                 TNR_HANDLE_FABRIC};
    tnr_handle_type type = of_setting[tnri_conf_get()->handle_type];
    /* The default must work everywhere; an explicit wish is checked instead. */
    if (type == TNR_HANDLE_POSIX_FD && !device->capabilities.has_posix_fd)
        return TNR_HANDLE_NONE;
    return type;
}

/* Refuses properties that the device does not have. */
static tnr_status pool_check_properties(const tnri_device *device, tnr_handle_type type, int rdma)
{
    if (type == TNR_HANDLE_POSIX_FD && !device->capabilities.has_posix_fd)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "device %d cannot export memory as file descriptors. Use "
                          "handle_type:none.",
                          device->index);
    if (type == TNR_HANDLE_FABRIC && !device->capabilities.has_fabric)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "device %d has no fabric handles. Use handle_type:posix_fd.",
                          device->index);
    if (rdma && !device->capabilities.has_gpu_direct_rdma)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "device %d does not support GPUDirect RDMA for mapped memory. Leave "
                          "gpu_direct_rdma off.",
                          device->index);
    return TNR_OK;
}

/* The parts of a pool that are host memory of their own. 0 if there is none. */
static int pool_build(tnr_pool pool)
{
    pool->table_slots = TNRI_POOL_HASH_MIN;
    pool->table = tnri_host_alloc(pool->table_slots * sizeof(pool->table[0]));
    if (pool->table == NULL)
        return 0;
    if (!pool->is_graph)
        return 1;
    tnri_arena *arena = tnri_arena_create(pool->device, pool, NULL, TNRI_KEY_GRAPH);
    if (arena == NULL) {
        tnri_host_free(pool->table, pool->table_slots * sizeof(pool->table[0]));
        return 0;
    }
    atomic_init(&pool->arenas, arena);
    pool->arenas_count = 1;
    return 1;
}

/* Enters a pool in the device's list: from now on it is live. */
static void pool_publish(tnr_pool pool, const char *name)
{
    tnri_device *device = pool->device;
    tnri_lock_take(&device->lock);
    pool->id = device->pools_made++;
    if (name != NULL)
        snprintf(pool->name, sizeof(pool->name), "%s", name);
    else
        snprintf(pool->name, sizeof(pool->name), "pool %u", pool->id);
    pool->next = device->pools;
    pool->link = &device->pools;
    if (pool->next != NULL)
        pool->next->link = &pool->next;
    device->pools = pool;
    atomic_store(&pool->live, pool->handle);
    tnri_lock_release(&device->lock);
}

static void pool_unpublish(tnr_pool pool)
{
    tnri_lock_take(&pool->device->lock);
    *pool->link = pool->next;
    if (pool->next != NULL)
        pool->next->link = pool->link;
    tnri_lock_release(&pool->device->lock);
}

tnr_status tnri_pool_make(tnri_device *device, const tnr_pool_options *options, tnri_pool_kind kind,
                          tnr_pool *made)
{
    tnr_handle_type type = options->handle_type;
    if (type == TNR_HANDLE_DEFAULT)
        type = handle_type_default(device);
    int rdma = options->gpu_direct_rdma || tnri_conf_get()->gpu_direct_rdma;
    tnr_status status = pool_check_properties(device, type, rdma);
    if (status != TNR_OK)
        return status;
    tnr_pool pool = tnri_pool_new();
    if (pool == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for a pool.");
    pool->device = device;
    pool->is_graph = kind != TNRI_POOL_PLAIN;
    pool->is_private = kind == TNRI_POOL_GRAPH_PRIVATE;
    if (!pool_build(pool)) {
        tnri_pool_retire(pool);
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for a pool.");
    }
    tnri_lock_init(&pool->lock, TNRI_RANK_POOL);
    pool->handle_type = type;
    pool->gpu_direct_rdma = rdma;
    atomic_init(&pool->limit_bytes, options->limit_bytes == 0 ? UINT64_MAX : options->limit_bytes);
    atomic_init(&pool->release_threshold_bytes, options->release_threshold_bytes == 0
                                                    ? UINT64_MAX
                                                    : options->release_threshold_bytes);
    pool_publish(pool, options->name);
    tnri_note_pool(pool, NULL, TNRI_NOTED_POOL_MADE, 0, pool->id);
    *made = pool;
    return TNR_OK;
}

tnr_pool tnri_pool_handle(const struct tnr_pool_st *pool)
{
    return pool == pool->device->pool_default ? NULL : pool->handle;
}

/* ---- walking -------------------------------------------------------------------------------- */

tnr_pool tnri_pool_walk(tnri_device *device, tnr_pool pool)
{
    tnri_lock_take(&device->lock);
    tnr_pool next = pool == NULL ? device->pools : pool->next;
    while (next != NULL && !tnri_pool_hold(next))
        next = next->next;
    tnri_lock_release(&device->lock);
    if (pool != NULL)
        tnri_pool_drop(pool);
    return next;
}

tnri_arena *tnri_arena_walk(tnr_pool pool, tnri_arena *arena)
{
    if (arena == NULL)
        return atomic_load_explicit(&pool->arenas, memory_order_acquire);
    return atomic_load_explicit(&arena->next, memory_order_acquire);
}

/* ---- arenas --------------------------------------------------------------------------------- */

static size_t key_hash(uintptr_t key, size_t slots)
{
    uint64_t mixed = (uint64_t)key * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed >> 32) & (slots - 1);
}

/* Doubles the table when it is full of chains; failing to is harmless. Under the pool's lock. */
static void table_grow(tnr_pool pool)
{
    size_t slots = pool->table_slots * 2;
    tnri_arena **table = tnri_host_alloc(slots * sizeof(table[0]));
    if (table == NULL)
        return;
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        if (arena->key == TNRI_KEY_SEALED || arena->key == TNRI_KEY_UNTABLED ||
            arena->growable.base != 0 || arena->is_witness)
            continue;
        size_t slot = key_hash(arena->key, slots);
        arena->hash_next = table[slot];
        table[slot] = arena;
    }
    tnri_host_free(pool->table, pool->table_slots * sizeof(pool->table[0]));
    pool->table = table;
    pool->table_slots = slots;
}

static tnri_arena *table_find(tnr_pool pool, uintptr_t key)
{
    tnri_arena *arena = pool->table[key_hash(key, pool->table_slots)];
    while (arena != NULL && arena->key != key)
        arena = arena->hash_next;
    return arena;
}

static void table_insert(tnr_pool pool, tnri_arena *arena)
{
    size_t slot = key_hash(arena->key, pool->table_slots);
    arena->hash_next = pool->table[slot];
    pool->table[slot] = arena;
}

static void table_remove(tnr_pool pool, tnri_arena *arena)
{
    tnri_arena **link = &pool->table[key_hash(arena->key, pool->table_slots)];
    while (*link != arena)
        link = &(*link)->hash_next;
    *link = arena->hash_next;
}

/* Makes an arena and enters it everywhere. Under the pool's lock. */
static tnri_arena *arena_make(tnr_pool pool, tnr_stream stream, uintptr_t key)
{
    tnri_arena *arena = tnri_arena_create(pool->device, pool, stream, key);
    if (arena == NULL)
        return NULL;
    if (pool->arenas_count >= pool->table_slots)
        table_grow(pool);
    table_insert(pool, arena);
    atomic_store_explicit(&arena->next, atomic_load(&pool->arenas), memory_order_relaxed);
    atomic_store_explicit(&pool->arenas, arena, memory_order_release);
    pool->arenas_count++;
    return arena;
}

/* Takes a sealed arena out of the reach of others, for adoption. Under the pool's lock. */
static tnri_arena *sealed_take(tnr_pool pool)
{
    if (pool->sealed_count == 0)
        return NULL;
    tnri_arena *arena = NULL;
    while ((arena = tnri_arena_walk(pool, arena)) != NULL)
        if (arena->key == TNRI_KEY_SEALED && !arena->is_adopted) {
            arena->is_adopted = 1;
            pool->sealed_count--;
            break;
        }
    return arena;
}

/* Gives a sealed arena to a new stream, or as one more lane to the stream of `first`, which is made
 * to wait for the end of the old one's work; so destroyed streams leave no islands of memory
 * behind. On failure the arena stays sealed. */
static tnr_status arena_adopt(tnr_pool pool, tnri_arena *arena, tnri_arena *first,
                              tnr_stream stream, uintptr_t key)
{
    tnri_visit visit;
    tnr_status status = tnri_device_enter(pool->device, &visit);
    if (status == TNR_OK) {
        status = tnri_event_order(arena->seal, stream);
        tnri_device_leave(&visit);
    }
    tnri_lock_take(&pool->lock);
    if (first != NULL && tnri_capturing()) /* it would have to be marked as its sisters are */
        status = TNR_ERR_CAPTURE;
    arena->is_adopted = 0;
    if (status == TNR_OK) {
        tnri_arena_enter(arena);
        tnri_event *seal = arena->seal;
        tnri_note_origin_over(arena);
        arena->thread = stream == TNRI_STREAM_PER_THREAD ? tnri_thread_number() : 0;
        arena->stream = stream;
        arena->key = key;
        arena->seal = NULL; /* last: without a seal, the stream is one that lives */
        tnri_lock_release(&arena->lock);
        tnri_event_drop(pool->device, seal);
        table_insert(pool, arena);
        tnri_lane_settle(arena);
        if (first != NULL)
            tnri_lane_join(first, arena);
    } else {
        pool->sealed_count++;
    }
    tnri_lock_release(&pool->lock);
    return status;
}

/* Makes a sealed arena one more lane of the stream of `first`, if that stream can be named now, and
 * is not captured before the arena is among its arenas. Returns the lane to be used. */
static tnri_arena *lane_adopt(tnr_pool pool, tnri_arena *sealed, tnri_arena *first)
{
    tnr_status status = TNR_ERR_CAPTURE;
    if (!tnri_capturing() && tnri_arena_name_begin(first)) {
        status = arena_adopt(pool, sealed, first, first->stream, first->key);
        tnri_arena_name_end(first);
        return status == TNR_OK ? sealed : first;
    }
    tnri_lock_take(&pool->lock);
    sealed->is_adopted = 0;
    pool->sealed_count++;
    tnri_lock_release(&pool->lock);
    return first;
}

tnr_status tnri_pool_arena(tnr_pool pool, tnr_stream stream, tnri_arena **found)
{
    uintptr_t key = tnri_stream_key(stream);
    if (pool->is_graph)
        return tnri_error(TNR_ERR_INVALID_POOL,
                          "pool \"%s\" is a graph pool: only what is allocated on a stream that "
                          "captures into it comes from it.",
                          pool->name);
    if (!tnri_pool_is_awake(pool))
        return tnri_asleep_error(pool);
    /* An arena of this pool goes with the pool; the stream stays known. */
    tnr_status status =
        pool == pool->device->pool_default ? TNR_OK : tnri_witness_stream(pool->device, stream);
    if (status != TNR_OK)
        return status;
    tnri_lock_take(&pool->lock);
    tnri_arena *sealed = NULL;
    tnri_arena *first = table_find(pool, key);
    tnri_arena *arena = first == NULL ? NULL : tnri_lane_choose(first);
    if (arena == NULL) {
        sealed = sealed_take(pool);
        if (sealed == NULL && (arena = arena_make(pool, stream, key)) != NULL && first != NULL)
            tnri_lane_join(first, arena);
    }
    if (arena == NULL && sealed == NULL)
        arena = first; /* for want of host memory for one more lane */
    if (arena != NULL)
        tnri_lane_settle(arena);
    tnri_lock_release(&pool->lock);
    if (sealed != NULL && first == NULL) {
        *found = sealed;
        return arena_adopt(pool, sealed, NULL, stream, key);
    }
    if (sealed != NULL)
        arena = lane_adopt(pool, sealed, first);
    *found = arena;
    if (arena == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the arena of a stream.");
    return TNR_OK;
}

int tnri_pool_knows(tnr_pool pool, uintptr_t key)
{
    tnri_lock_take(&pool->lock);
    int is_known = table_find(pool, key) != NULL;
    tnri_lock_release(&pool->lock);
    return is_known || tnri_growables_know(pool, key);
}

void tnri_pool_seal(tnr_pool pool, uintptr_t key, tnri_event *event)
{
    tnri_growables_seal(pool, key, event);
    for (;;) {
        tnri_lock_take(&pool->lock);
        tnri_arena *arena = table_find(pool, key);
        if (arena != NULL) {
            table_remove(pool, arena);
            tnri_lane_part(arena);
            arena->key = TNRI_KEY_UNTABLED;
        }
        tnri_lock_release(&pool->lock);
        if (arena == NULL)
            return;
        tnri_arena_seal(arena, event);
        tnri_lock_take(&pool->lock);
        arena->key = TNRI_KEY_SEALED; /* from here on it may be adopted */
        pool->sealed_count++;
        tnri_lock_release(&pool->lock);
    }
}

void tnri_pools_capture(tnri_device *device, uintptr_t key, tnri_event *event)
{
    for (tnr_pool pool = NULL; (pool = tnri_pool_walk(device, pool)) != NULL;) {
        /* Who has looked before the capture was known makes a lane under this lock, if at all. */
        tnri_lock_take(&pool->lock);
        tnri_lock_release(&pool->lock);
        for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;)
            if (arena->key == key && !arena->is_witness)
                tnri_arena_capture(arena, event);
    }
}

/* ---- ending --------------------------------------------------------------------------------- */

static size_t pool_live_blocks(tnr_pool pool)
{
    size_t live = 0;
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        tnri_arena_enter(arena);
        live += (size_t)tnri_arena_live_count(arena);
        tnri_lock_release(&arena->lock);
    }
    return live;
}

/* Blocks that were freed, and that graphs outside still refer to. */
static size_t pool_held_blocks(tnr_pool pool)
{
    size_t held = 0;
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        tnri_arena_enter(arena);
        held += arena->held_count;
        tnri_lock_release(&arena->lock);
    }
    return held;
}

int tnri_pool_is_kept(tnr_pool pool)
{
    if (atomic_load(&pool->keepers) == 0 && pool_held_blocks(pool) == 0)
        return 0;
    return pool_live_blocks(pool) == 0;
}

/* Frees every live block of a world, for a forced end. Under the arena's lock. */
static void world_free_all(tnri_arena *arena, tnri_world *world)
{
    for (size_t i = 0; i < world->spans_count; i++) {
        for (tnri_block *block = world->span_first[i]; block != NULL; block = block->above)
            if (block->state == TNRI_LIVE) {
                if (block->uses != NULL)
                    tnri_upper_get()->forget(arena, block);
                tnri_arena_count_freed(arena, block);
                block = tnri_world_free(world, block);
            }
    }
}

static void arenas_free_all(tnr_pool pool)
{
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        tnri_arena_enter(arena);
        for (int i = 0; i < TNRI_WORLDS; i++)
            world_free_all(arena, &arena->worlds[i]);
        (void)tnri_grow_free_bare(arena, arena->growable.base);
        tnri_lock_release(&arena->lock);
    }
}

/* Waits until nobody but the calling thread holds the pool. Who does holds it for a short while, or
 * waits for the device on behalf of this very pool's memory. */
static void pool_wait_for_visitors(tnr_pool pool)
{
    while (atomic_load(&pool->visitors_count) > 1)
        sched_yield();
}

/* Gives everything that the pool has back to the driver, live blocks included if `force`. */
static tnr_status pool_give_back(tnr_pool pool, int force)
{
    tnr_status status = tnri_asleep_settle(pool);
    if (status != TNR_OK)
        return status;
    if (force)
        arenas_free_all(pool);
    (void)tnri_collect_pool(pool, SIZE_MAX, TNRI_COLLECT_WAIT);
    (void)tnri_release_idle(pool->device, pool, SIZE_MAX, 1, &status);
    if (status != TNR_OK ||
        atomic_load(&pool->reserved_bytes) + atomic_load(&pool->asleep_bytes) == 0)
        return status;
    if (pool_live_blocks(pool) > 0)
        return tnri_error(TNR_ERR_BUSY, "pool \"%s\" was allocated from while it was destroyed.",
                          pool->name);
    return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for taking pool \"%s\" apart.",
                      pool->name);
}

/* TNR_ERR_BUSY if anything needs memory of the pool. */
static tnr_status pool_check_idle(tnr_pool pool)
{
    size_t live = pool_live_blocks(pool);
    if (live > 0)
        return tnri_error(TNR_ERR_BUSY, "pool \"%s\" still has %zu live blocks. Free them first.",
                          pool->name, live);
    uint32_t keepers = atomic_load(&pool->keepers);
    if (keepers > 0)
        return tnri_error(TNR_ERR_BUSY,
                          "%u CUDA graphs or captures still need memory of pool \"%s\". Destroy "
                          "the graphs and their executables first.",
                          keepers, pool->name);
    size_t held = pool_held_blocks(pool);
    if (held > 0)
        return tnri_error(TNR_ERR_BUSY,
                          "CUDA graphs still refer to %zu freed blocks of pool \"%s\". Destroy the "
                          "graphs and their executables first.",
                          held, pool->name);
    return TNR_OK;
}

/* Gives back what a pool has that nobody can name any more. */
static tnr_status pool_empty(tnr_pool pool, int force)
{
    /* A graph's own pool is ended on the way, by who may be what another visitor waits for, or hold
     * it himself: in a callback of its sleep. There is another time for it. */
    if (pool->is_private && !force && atomic_load(&pool->visitors_count) > 1)
        return tnri_error(TNR_ERR_BUSY, "pool \"%s\" is being looked at.", pool->name);
    /* Held by nobody else, no other thread has taken an old mapping out of its queue for a moment,
     * so what can be given back is given back now; and what came in the meantime is seen. */
    pool_wait_for_visitors(pool);
    tnr_status status = force ? TNR_OK : pool_check_idle(pool);
    return status == TNR_OK ? pool_give_back(pool, force) : status;
}

tnr_status tnri_pool_end(tnr_pool pool, int force)
{
    tnr_status status = force ? TNR_OK : pool_check_idle(pool);
    if (status != TNR_OK)
        return status;
    if (atomic_exchange(&pool->live, NULL) == NULL)
        return tnri_error(TNR_ERR_INVALID_POOL, "pool \"%s\" is being destroyed by another thread.",
                          pool->name);
    status = pool_empty(pool, force);
    if (status != TNR_OK) {
        atomic_store(&pool->live, pool->handle);
        return status;
    }
    tnri_note_pool(pool, NULL, TNRI_NOTED_POOL_ENDED, 0, pool->id);
    tnri_generation_advance();
    tnri_asleep_end(pool);
    const tnri_upper *upper = tnri_upper_get();
    tnri_arena *arena = atomic_exchange(&pool->arenas, NULL);
    while (arena != NULL) {
        tnri_arena *next = atomic_load(&arena->next);
        if (upper != NULL)
            upper->arena_gone(arena);
        tnri_event_drop(pool->device, arena->seal);
        tnri_event_drop(pool->device, arena->capture_mark);
        tnri_arena_destroy(arena);
        arena = next;
    }
    tnri_host_free(pool->table, pool->table_slots * sizeof(pool->table[0]));
    pool->table = NULL;
    pool->arenas_count = 0;
    const tnri_captures *captures = tnri_captures_get();
    if (pool->captures != NULL)
        captures->pool_gone(pool);
    pool_unpublish(pool);
    tnri_pool_drop(pool);
    tnri_pool_retire(pool);
    return TNR_OK;
}
