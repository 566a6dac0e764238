/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing pools: see peers.h. */
#include "memory/pool/peers.h"

#include "base/array.h"
#include "base/conf/conf.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/rest.h"
#include "memory/arena/alias.h"
#include "memory/device/chunk.h"
#include "memory/pool/asleep.h"
#include "memory/pool/pool.h"

/* ---- what an arena has ---------------------------------------------------------------------- */

/* A chunk of an arena, as it lies at one moment. */
typedef struct mapping {
    size_t page, pages;
    const tnri_chunk *chunk; /* only compared: it may be gone */
} mapping;

typedef struct mappings {
    mapping *at;
    size_t count, room;
} mappings;

static int mappings_add(mappings *list, const tnri_chunk *chunk)
{
    if (!TNRI_ARRAY_GROW(list->at, list->room, list->count + 1))
        return 0;
    list->at[list->count++] = (mapping){chunk->page, chunk->pages, chunk};
    return 1;
}

/* Lists the chunks that begin in a record. */
static int block_list(mappings *list, const tnri_space *space, const tnri_block *block)
{
    size_t end = tnri_page_of(space, tnri_block_end(block) - 1) + 1;
    for (size_t page = tnri_page_of(space, block->base); page < end; page++) {
        const tnri_chunk *chunk = space->pages[page];
        if (chunk != NULL && chunk != &tnri_mapping_refused && chunk->page == page &&
            tnri_page_address(space, page) >= block->base && !mappings_add(list, chunk))
            return 0;
    }
    return 1;
}

/* 1 if a record holds memory for good. What is STALE is being unmapped, or moves on; should it come
 * back, that counts as returned. */
static int block_stays(const tnri_block *block)
{
    return block->state != TNRI_HOLE && block->state != TNRI_LENT && block->state != TNRI_STALE;
}

/* Lists the chunks of an arena. Returns 0 without host memory. */
static int arena_list(mappings *list, tnri_arena *arena)
{
    int is_listed = 1;
    list->count = 0;
    tnri_arena_enter(arena);
    for (int i = 0; i < TNRI_WORLDS; i++)
        for (size_t s = 0; s < arena->worlds[i].spans_count; s++)
            for (const tnri_block *block = arena->worlds[i].span_first[s];
                 block != NULL && is_listed; block = block->above)
                if (block_stays(block))
                    is_listed = block_list(list, &arena->device->space, block);
    tnri_arena_leave(arena);
    return is_listed;
}

/* Whether a chunk lies where it was listed, and stays there. Its page tells of it until the record
 * is a hole, so also while it is being unmapped. Where it is lent, two records have its address. */
static int mapping_is_still(tnri_arena *arena, const mapping *listed)
{
    const tnri_space *space = &arena->device->space;
    uintptr_t address = tnri_page_address(space, listed->page);
    int is_there = 0;
    tnri_arena_enter(arena);
    for (int i = 0; i < TNRI_WORLDS; i++)
        for (size_t s = 0; s < arena->worlds[i].spans_count; s++)
            for (const tnri_block *block = arena->worlds[i].span_first[s]; block != NULL;
                 block = block->above)
                if (block->base <= address && address < tnri_block_end(block))
                    is_there |= block_stays(block);
    is_there = is_there && space->pages[listed->page] == listed->chunk;
    tnri_arena_leave(arena);
    return is_there;
}

/* ---- what exists ---------------------------------------------------------------------------- */

static tnr_status arena_change(tnri_arena *arena, mappings *list, int peer, tnr_access access)
{
    if (!arena_list(list, arena))
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the list of what a pool has.");
    for (size_t i = 0; i < list->count; i++) {
        const mapping *one = &list->at[i];
        tnr_status status =
            tnri_pages_access_peer(arena->device, one->page, one->pages, peer, access);
        if (status != TNR_OK && mapping_is_still(arena, one))
            return status;
    }
    return TNR_OK;
}

/* Changes what a peer reaches of all that the pool has. In the context; the pool stays awake. */
static tnr_status pool_change(tnr_pool pool, int peer, tnr_access access)
{
    mappings list = {0};
    tnr_status status = TNR_OK;
    uint32_t returned;
    do {
        returned = atomic_load(&pool->account.access.returned);
        for (tnri_arena *arena = NULL;
             status == TNR_OK && (arena = tnri_arena_walk(pool, arena)) != NULL;)
            status = arena_change(arena, &list, peer, access);
        tnri_placing_wait(&pool->account.access);
    } while (status == TNR_OK && returned != atomic_load(&pool->account.access.returned));
    tnri_host_free(list.at, list.room * sizeof(mapping));
    return status;
}

static void peers_set(tnri_access *access, int peer, tnr_access wanted)
{
    atomic_fetch_or(&access->changed, UINT64_C(1) << peer);
    if (wanted == TNR_ACCESS_NONE)
        atomic_fetch_and(&access->peers, ~(UINT64_C(1) << peer));
    else
        atomic_fetch_or(&access->peers, UINT64_C(1) << peer);
}

tnr_access tnri_access_get(const tnri_access *access, int peer)
{
    return (atomic_load(&access->peers) >> peer & 1) != 0 ? TNR_ACCESS_READWRITE : TNR_ACCESS_NONE;
}

/* Keeps a pool awake for a change, or sees that it sleeps: then its chunks get the new access when
 * it wakes. 0: it sleeps. A thread that puts it to sleep or wakes it is waited for; while it calls
 * the user's callbacks the pool is awake. */
static int pool_stay(tnr_pool pool)
{
    for (unsigned round = 0;; round++) {
        if (tnri_pool_work_begin(pool))
            return 1;
        if (atomic_load(&pool->asleep.state) == TNRI_ASLEEP)
            return 0;
        tnri_rest(round);
    }
}

/* Takes a change that failed back. Where that fails too the mappings differ from each other, and
 * the next change goes over all of them, whatever the set says. Keeps the error. */
static void pool_change_back(tnr_pool pool, int peer, tnr_access before)
{
    tnri_access *access = &pool->account.access;
    tnri_error_aside aside;
    tnri_error_take(&aside);
    peers_set(access, peer, before);
    tnri_placing_wait(access);
    if (pool_change(pool, peer, before) != TNR_OK)
        access->torn |= UINT64_C(1) << peer;
    tnri_error_restore(&aside);
}

/* What lies elsewhere now does not come back to where the change is not seen. */
static void pool_forget_aliases(tnr_pool pool)
{
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        tnri_arena_enter(arena);
        for (int i = 0; i < TNRI_WORLDS; i++)
            tnri_alias_forget(&arena->worlds[i]);
        tnri_arena_leave(arena);
    }
}

/* 1 if a pool sleeps, and the driver has refused to take all its memory: what is left is mapped
 * with the access of before, until the wake maps it once more. */
static int sleeps_in_part(tnr_pool pool)
{
    return atomic_load(&pool->asleep.state) == TNRI_ASLEEP &&
           atomic_load(&pool->account.reserved_bytes) > 0;
}

/* Changes the set of peers, and all that exists; on an error neither, as far as the driver lets us.
 * In the context. */
tnr_status tnri_pool_access(tnr_pool pool, int peer, tnr_access wanted)
{
    tnri_access *access = &pool->account.access;
    for (unsigned round = 0; atomic_exchange(&access->is_changing, 1) != 0; round++)
        tnri_rest(round);
    tnr_access before = tnri_access_get(access, peer);
    tnr_status status = TNR_OK;
    if (wanted == TNR_ACCESS_NONE && before != wanted && sleeps_in_part(pool)) {
        atomic_store(&access->is_changing, 0);
        return tnri_error(TNR_ERR_ASLEEP,
                          "pool \"%s\" of device %d is asleep, and the driver has refused to take "
                          "all its memory: device %d would still reach it. Wake the pool first.",
                          pool->account.name, pool->device->index, peer);
    }
    peers_set(access, peer, wanted);
    tnri_placing_wait(access);
    pool_forget_aliases(pool);
    int is_torn = (access->torn >> peer & 1) != 0;
    if ((before != wanted || is_torn) && pool_stay(pool)) {
        status = pool_change(pool, peer, wanted);
        if (status != TNR_OK)
            pool_change_back(pool, peer, before);
        else
            access->torn &= ~(UINT64_C(1) << peer);
        tnri_pool_work_end(pool);
    }
    atomic_store(&access->is_changing, 0);
    return status;
}

/* ---- whole devices -------------------------------------------------------------------------- */

/* The pools that exist, each held by the walk. On an error those before stay changed. */
static tnr_status pools_access(tnri_device *device, int peer, tnr_access access)
{
    for (tnr_pool pool = NULL; (pool = tnri_pool_walk(device, pool)) != NULL;) {
        if (tnri_account_is_foreign(&pool->account))
            continue;
        tnr_status status = tnri_pool_access(pool, peer, access);
        if (status != TNR_OK) {
            tnri_pool_drop(pool);
            return status;
        }
    }
    return TNR_OK;
}

/* What pools that are made from now on begin with. */
static tnr_access device_peers_change(tnri_device *device, int peer, tnr_access access)
{
    tnri_lock_take(&device->lock);
    uint64_t bit = UINT64_C(1) << peer;
    tnr_access before = (device->peers & bit) != 0 ? TNR_ACCESS_READWRITE : TNR_ACCESS_NONE;
    device->peers = access == TNR_ACCESS_NONE ? device->peers & ~bit : device->peers | bit;
    tnri_lock_release(&device->lock);
    return before;
}

tnr_status tnri_device_access(tnri_device *device, int peer, tnr_access access)
{
    tnr_access before = device_peers_change(device, peer, access);
    tnr_status status = pools_access(device, peer, access);
    if (status != TNR_OK)
        (void)device_peers_change(device, peer, before);
    return status;
}

/* Opens `owner` to `peer` if there is a way. */
static tnr_status peer_open(tnri_device *owner, const tnri_device *peer)
{
    tnri_visit visit;
    tnr_status status = tnri_device_enter(owner, &visit);
    if (status != TNR_OK)
        return status;
    if (tnri_peer_check(owner, peer->index) == TNR_OK)
        status = tnri_device_access(owner, peer->index, TNR_ACCESS_READWRITE);
    tnri_device_leave(&visit);
    return status;
}

/* Host memory is every GPU's that is in use: opens it to others than the one that it is near. */
static tnr_status host_meets(tnri_device *device)
{
    tnri_device *other;
    tnr_status status = TNR_OK;
    for (int i = 0; status == TNR_OK && (other = tnri_device_nth(i)) != NULL; i++)
        if (other->gpu != device->gpu && atomic_load(&other->in_use) &&
            tnri_device_is_host(other) != tnri_device_is_host(device)) {
            int is_host = tnri_device_is_host(device);
            status = peer_open(is_host ? device : other, is_host ? other : device);
        }
    return status;
}

tnr_status tnri_peers_meet(tnri_device *device)
{
    tnri_error_aside aside;
    tnr_status status = host_meets(device);
    if (status != TNR_OK || tnri_likely(tnri_conf_get()->peers != TNRI_PEERS_USED) ||
        tnri_device_is_host(device))
        return status;
    tnri_error_take(&aside);
    for (int i = 0; i < tnri_devices_count(); i++) {
        tnri_device *other = tnri_device_at(i);
        if (other == device || !atomic_load(&other->in_use))
            continue;
        (void)peer_open(device, other);
        (void)peer_open(other, device);
    }
    tnri_error_restore(&aside);
    return TNR_OK;
}
