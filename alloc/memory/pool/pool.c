/* SPDX-License-Identifier: Apache-2.0 */
/* Making and walking pools, and finding their arenas: see pool.h. */
#include "memory/pool/pool.h"

#include <stdio.h>
#include <string.h>

#include "base/conf/conf.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "log/mappings.h"
#include "memory/arena/note.h"
#include "memory/device/allocated.h"
#include "memory/pool/asleep.h"
#include "memory/pool/cache.h"
#include "memory/pool/donors.h"
#include "memory/pool/lane.h"
#include "memory/stream/idle.h"

/* Of foreign segments for large blocks: what <tenure/alloc.h> says, as PyTorch's. */
enum { SEGMENT_BYTES = 20 << 20 };

/* ---- making --------------------------------------------------------------------------------- */

static tnr_handle_type handle_type_default(const tnri_device *device)
{
    static const tnr_handle_type of_setting[] = {TNR_HANDLE_POSIX_FD, TNR_HANDLE_NONE,
                                                 TNR_HANDLE_FABRIC};
    tnr_handle_type type = of_setting[tnri_conf_get()->handle_type];
    /* The default must work everywhere; an explicit wish is checked instead. */
    if ((type == TNR_HANDLE_POSIX_FD && !device->capabilities.has_posix_fd) ||
        tnri_device_is_host(device))
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

/* Whose memory the pool will have. */
static tnr_status pool_check_segments(const tnr_pool_options *options)
{
    if ((options->segment_alloc == NULL) != (options->segment_free == NULL))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_pool_create: segment_alloc without segment_free, or the reverse.");
    if (options->segment_alloc != NULL &&
        (options->gpu_direct_rdma || options->handle_type != TNR_HANDLE_DEFAULT))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_pool_create: of foreign segments, their owner says whether they can "
                          "be exported, or addressed by network cards. Leave handle_type and "
                          "gpu_direct_rdma at 0.");
    if (options->segment_bytes > TNR_BYTES_MAX)
        return tnri_error(TNR_ERR_INVALID_SIZE,
                          "tnr_pool_create: segment_bytes is %zu; the "
                          "most is 1 EiB.",
                          options->segment_bytes);
    return TNR_OK;
}

/* Host memory has no graph pools, because nodes make no order for the host, and is not shared. */
static tnr_status pool_check_host(const tnri_device *device, const tnr_pool_options *options,
                                  tnri_pool_kind kind)
{
    if (tnri_likely(!tnri_device_is_host(device)))
        return TNR_OK;
    if (kind != TNRI_POOL_PLAIN && kind != TNRI_POOL_CONTENTS)
        return tnri_error(TNR_ERR_INVALID_DEVICE,
                          "device %d is host memory, of which there are no pools for graphs.",
                          device->index);
    if (options->is_shared)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "device %d is host memory, which other processes cannot have "
                          "(is_shared).",
                          device->index);
    return TNR_OK;
}

/* Where the pool's memory will lie. 0: there is no host memory for the tables of that. */
static int pool_set_space(tnr_pool pool, const tnr_pool_options *options)
{
    tnri_device *device = pool->device;
    pool->account.foreign = (tnri_foreign){
        .alloc = options->segment_alloc,
        .free = options->segment_free,
        .user = options->segment_user,
        .bytes_least = options->segment_bytes == 0 ? SEGMENT_BYTES : options->segment_bytes,
        .is_own = tnri_memory_is_own(options->segment_alloc),
    };
    pool->account.space =
        tnri_account_is_foreign(&pool->account) ? tnri_device_foreign(device) : &device->space;
    return pool->account.space != NULL;
}

/* The parts of a pool that are host memory of their own. 0 if there is none. */
static int pool_build(tnr_pool pool)
{
    pool->table_slots = TNRI_POOL_HASH_MIN;
    pool->table = tnri_host_alloc(pool->table_slots * sizeof(pool->table[0]));
    if (pool->table == NULL)
        return 0;
    if (!pool->account.is_graph)
        return 1;
    tnri_arena *arena = tnri_arena_create(&pool->account, pool, NULL);
    if (arena == NULL) {
        tnri_host_free(pool->table, pool->table_slots * sizeof(pool->table[0]));
        return 0;
    }
    atomic_init(&pool->arenas, arena);
    pool->arenas_count = 1;
    return 1;
}

/* Who may reach memory of which only its owner knows that: all others. */
static uint64_t peers_all(const tnri_device *device)
{
    uint64_t all = 0;
    for (int i = 0; i < tnri_devices_count(); i++)
        all |= UINT64_C(1) << i;
    return all & ~(UINT64_C(1) << device->gpu->index);
}

/* Enters a pool in the device's list: from now on it is live. */
static void pool_publish(tnr_pool pool, const char *name)
{
    tnri_device *device = pool->device;
    tnri_lock_take(&device->lock);
    pool->account.id = device->pools_made++;
    if (name != NULL)
        snprintf(pool->account.name, sizeof(pool->account.name), "%s", name);
    else
        snprintf(pool->account.name, sizeof(pool->account.name), "pool %u", pool->account.id);
    pool->next = device->pools;
    pool->link = &device->pools;
    if (pool->next != NULL)
        pool->next->link = &pool->next;
    device->pools = pool;
    atomic_store(&pool->account.access.peers, device->peers);
    if (tnri_account_is_foreign(&pool->account))
        atomic_store(&pool->account.access.peers, peers_all(device));
    atomic_store(&pool->live, pool->handle);
    tnri_lock_release(&device->lock);
}

void tnri_pool_unpublish(tnr_pool pool)
{
    tnri_lock_take(&pool->device->lock);
    *pool->link = pool->next;
    if (pool->next != NULL)
        pool->next->link = pool->link;
    tnri_lock_release(&pool->device->lock);
}

static tnr_status pool_make(tnri_device *device, const tnr_pool_options *options,
                            tnri_pool_kind kind, const tnri_tagging *tagging, tnr_pool *made)
{
    tnr_handle_type type = options->handle_type;
    int is_foreign = options->segment_alloc != NULL;
    if (type == TNR_HANDLE_DEFAULT)
        type = is_foreign ? TNR_HANDLE_NONE : handle_type_default(device);
    int rdma = options->gpu_direct_rdma ||
               (tnri_conf_get()->gpu_direct_rdma && !is_foreign && !tnri_device_is_host(device));
    tnr_status status = pool_check_segments(options);
    if (status == TNR_OK)
        status = pool_check_host(device, options, kind);
    if (status == TNR_OK && !is_foreign)
        status = pool_check_properties(device, type, rdma);
    if (status != TNR_OK)
        return status;
    tnr_pool pool = tnri_pool_new();
    if (pool == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for a pool.");
    pool->device = device;
    pool->account.device = device;
    pool->account.is_graph = kind == TNRI_POOL_GRAPH || kind == TNRI_POOL_GRAPH_PRIVATE;
    pool->account.is_vouched = kind == TNRI_POOL_VOUCHED;
    pool->account.is_contents = kind == TNRI_POOL_CONTENTS;
    pool->is_private = kind == TNRI_POOL_GRAPH_PRIVATE;
    if (tagging != NULL) {
        pool->account.tag = tagging->tag;
        pool->family = tagging->family;
        pool->content = tagging->content;
    }
    if (!pool_set_space(pool, options) || !pool_build(pool)) {
        tnri_pool_retire(pool);
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for a pool.");
    }
    tnri_lock_init(&pool->lock, TNRI_RANK_POOL);
    pool->account.handle_type = type;
    pool->account.gpu_direct_rdma = rdma;
    pool->account.is_shared = options->is_shared;
    atomic_init(&pool->account.limit_bytes,
                options->limit_bytes == 0 ? UINT64_MAX : options->limit_bytes);
    atomic_init(&pool->release_threshold_bytes, options->release_threshold_bytes == 0
                                                    ? UINT64_MAX
                                                    : options->release_threshold_bytes);
    pool_publish(pool, options->name);
    tnri_note_pool(&pool->account, NULL, TNRI_NOTED_POOL_MADE, 0, pool->account.id);
    *made = pool;
    return TNR_OK;
}

tnr_status tnri_pool_make(tnri_device *device, const tnr_pool_options *options, tnri_pool_kind kind,
                          const tnri_tagging *tagging, tnr_pool *made)
{
    tnr_pool_options own = *options;
    if (device->is_allocated || kind == TNRI_POOL_CONTENTS) /* which never move */
        tnri_memory_options(&own, tnri_device_is_host(device));
    return pool_make(device, &own, kind, tagging, made);
}

tnr_pool tnri_pool_handle(const struct tnr_pool_st *pool)
{
    return pool == pool->device->pool_default ? NULL : pool->handle;
}

void tnri_pool_note_mapping(const tnri_arena *arena, int is_mapped, uintptr_t base, size_t bytes)
{
    if (!tnri_is_following())
        return;
    tnri_assert_held(&arena->lock);
    tnr_mapping mapping = {.base = base,
                           .bytes = bytes,
                           .device = arena->device->index,
                           .is_mapped = is_mapped,
                           .pool = tnri_pool_handle(arena->pool),
                           .stream = tnri_arena_handle(arena)};
    tnri_mapping_add(&mapping);
}

const char *tnri_pool_stays(tnr_pool pool)
{
    const tnri_account *account = &pool->account;
    if (tnri_account_is_foreign(account))
        return "it is made of foreign segments";
    if (tnri_account_is_known(account))
        return "network cards may know its memory";
    if (account->is_shared)
        return "other processes may have its chunks";
    if (account->is_vouched)
        return "its caller orders graphs that may use what is free in it";
    if (account->is_graph && atomic_load(&pool->keepers) > 0)
        return "graphs live that may use what is free in it";
    return NULL;
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

static size_t stream_hash(const tnri_stream *stream, size_t slots)
{
    uint64_t mixed = (uint64_t)(uintptr_t)stream * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed >> 32) & (slots - 1);
}

/* Doubles the table when it is full of chains; failing to is harmless. Under the pool's lock. */
static void table_grow(tnr_pool pool)
{
    size_t slots = pool->table_slots * 2;
    tnri_arena **table = tnri_host_alloc(slots * sizeof(table[0]));
    if (table == NULL)
        return;
    for (size_t from = 0; from < pool->table_slots; from++)
        while (pool->table[from] != NULL) {
            tnri_arena *arena = pool->table[from];
            pool->table[from] = arena->hash_next;
            size_t slot = stream_hash(arena->stream, slots);
            arena->hash_next = table[slot];
            table[slot] = arena;
        }
    tnri_host_free(pool->table, pool->table_slots * sizeof(pool->table[0]));
    pool->table = table;
    pool->table_slots = slots;
}

static tnri_arena *table_find(tnr_pool pool, const tnri_stream *stream)
{
    tnri_arena *arena = pool->table[stream_hash(stream, pool->table_slots)];
    while (arena != NULL && arena->stream != stream)
        arena = arena->hash_next;
    return arena;
}

static void table_insert(tnr_pool pool, tnri_arena *arena)
{
    size_t slot = stream_hash(arena->stream, pool->table_slots);
    arena->hash_next = pool->table[slot];
    pool->table[slot] = arena;
}

static void table_remove(tnr_pool pool, tnri_arena *arena)
{
    tnri_arena **link = &pool->table[stream_hash(arena->stream, pool->table_slots)];
    while (*link != arena)
        link = &(*link)->hash_next;
    *link = arena->hash_next;
}

int tnri_pool_enter(tnr_pool pool, tnri_arena *arena)
{
    if (!tnri_donors_add(pool, arena))
        return 0;
    atomic_store_explicit(&arena->next, atomic_load(&pool->arenas), memory_order_relaxed);
    atomic_store_explicit(&pool->arenas, arena, memory_order_release);
    return 1;
}

/* Makes an arena and enters it everywhere. Under the pool's lock. */
static tnri_arena *arena_make(tnr_pool pool, tnri_stream *stream)
{
    tnri_arena *arena = tnri_arena_create(&pool->account, pool, stream);
    if (arena == NULL)
        return NULL;
    if (!tnri_pool_enter(pool, arena)) {
        tnri_arena_destroy(arena);
        return NULL;
    }
    if (pool->arenas_count >= pool->table_slots)
        table_grow(pool);
    table_insert(pool, arena);
    pool->arenas_count++;
    return arena;
}

/* Takes the arena of an ended stream out of the reach of others, for adoption. Under the pool's
 * lock. */
static tnri_arena *sealed_take(tnr_pool pool)
{
    tnri_arena *arena = pool->sealed;
    if (arena != NULL)
        pool->sealed = arena->hash_next;
    return arena;
}

static void sealed_add(tnr_pool pool, tnri_arena *arena)
{
    arena->hash_next = pool->sealed;
    pool->sealed = arena;
}

/* Gives an arena out of the sealed ones to another stream, or to it as one more lane. Under the
 * pool's lock. */
static void arena_give(tnr_pool pool, tnri_arena *arena, tnri_stream *stream, tnri_arena *first)
{
    tnri_arena_enter(arena);
    tnri_arena_pass_on(arena, stream);
    tnri_arena_leave(arena);
    table_insert(pool, arena);
    tnri_lane_settle(arena);
    if (first != NULL)
        tnri_lane_join(first, arena);
}

/* Makes the stream wait for the end of the one that had a sealed arena before, and gives it that
 * arena: so ended streams leave no islands of memory behind. `first` is an arena that it has
 * already, or null. Returns the one to be used: another if another thread was quicker, so that a
 * stream never adopts two at once; null on failure, and the arena stays sealed. */
static tnr_status arena_adopt(tnr_pool pool, tnri_arena *arena, tnri_arena *first,
                              tnri_stream *stream, tnri_arena **found)
{
    tnri_visit visit;
    tnri_stream *before = tnri_arena_stream(arena);
    tnr_status status = tnri_device_enter(pool->device, &visit);
    if (status == TNR_OK) {
        /* A captured stream cannot be made to wait as one more lane: the others are marked. */
        if (first != NULL && !tnri_stream_has_mark(stream))
            status = TNR_ERR_CAPTURE;
        else
            status = tnri_stream_follow(stream, atomic_load(&before->seal), before, before->marked);
        tnri_device_leave(&visit);
    }
    tnri_lock_take(&pool->lock);
    tnri_arena *other = first == NULL ? table_find(pool, stream) : NULL;
    /* While a capture is under way the legacy stream cannot be made to wait; it gets an arena of
     * its own, and the other one waits for another stream. */
    if (first == NULL && other == NULL && status == TNR_ERR_CAPTURE &&
        (other = arena_make(pool, stream)) != NULL)
        tnri_lane_settle(other);
    *found = other != NULL ? other : status == TNR_OK ? arena : first;
    if (*found == arena)
        arena_give(pool, arena, stream, first);
    else
        sealed_add(pool, arena);
    tnri_lock_release(&pool->lock);
    tnri_stream_drop(before);
    if (*found != NULL)
        return TNR_OK;
    if (status != TNR_ERR_CAPTURE)
        return status;
    return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the arena of a stream.");
}

tnr_status tnri_pool_arena(tnr_pool pool, tnr_stream handle, tnri_arena **found)
{
    tnri_stream *stream;
    if (pool->account.is_graph)
        return tnri_error(TNR_ERR_INVALID_POOL,
                          "pool \"%s\" is a graph pool: only what is allocated on a stream that "
                          "captures into it comes from it.",
                          pool->account.name);
    if (!tnri_pool_is_awake(pool))
        return tnri_asleep_error(pool);
    tnr_status status = tnri_stream_for(pool->device, handle, &stream);
    if (status != TNR_OK)
        return status;
    tnri_lock_take(&pool->lock);
    tnri_arena *sealed = NULL;
    tnri_arena *first = table_find(pool, stream);
    tnri_arena *arena = first == NULL ? NULL : tnri_lane_choose(first);
    if (arena == NULL) {
        sealed = sealed_take(pool);
        if (sealed == NULL && (arena = arena_make(pool, stream)) != NULL && first != NULL)
            tnri_lane_join(first, arena);
    }
    if (arena == NULL && sealed == NULL)
        arena = first; /* for want of host memory for one more lane */
    if (arena != NULL)
        tnri_lane_settle(arena);
    tnri_lock_release(&pool->lock);
    *found = arena;
    if (sealed != NULL)
        return arena_adopt(pool, sealed, first, stream, found);
    if (arena == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the arena of a stream.");
    return TNR_OK;
}

/* The arenas of an ended stream wait for another one. */
static void pool_seal(tnr_pool pool, const tnri_stream *stream)
{
    tnri_lock_take(&pool->lock);
    for (tnri_arena *arena; (arena = table_find(pool, stream)) != NULL; sealed_add(pool, arena)) {
        table_remove(pool, arena);
        tnri_lane_part(arena);
        tnri_arena_enter(arena);
        tnri_arena_origin_over(arena); /* from here on it says that the stream has ended */
        tnri_arena_leave(arena);
    }
    tnri_lock_release(&pool->lock);
}

void tnri_pools_seal(tnri_stream *stream)
{
    for (tnr_pool pool = NULL; (pool = tnri_pool_walk(stream->device, pool)) != NULL;)
        pool_seal(pool, stream);
    if (stream->thread == 0) /* else no thread remembers them */
        tnri_generation_advance();
}
