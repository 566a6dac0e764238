/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Out of memory: see oom.h. The report says what was asked for, what the device has, who holds it
 * (the streams with the most live bytes), what is free but of no use and why, and what would help.
 */
#include "ladder/oom.h"

#include <stdio.h>
#include <string.h>

#include "arena/note.h"
#include "arena/world_validate.h"
#include "base/bytes_text.h"
#include "base/calm.h"
#include "base/error.h"
#include "conf/conf.h"
#include "device/chunk.h"
#include "device/tag.h"
#include "pool/asleep.h"

enum { HOLDERS_MAX = 5 };

_Thread_local tnr_stream tnri_oom_asks_on;
_Atomic(tnri_oom_watcher) tnri_oom_watched;

static struct {
    tnri_lock lock; /* zero is unlocked; ranked lazily because it nests with nothing */
    tnr_oom_callback callback;
    void *user;
} oom = {.lock = {.rank = TNRI_RANK_HOST}};

void tnr_oom_callback_set(tnr_oom_callback callback, void *user)
{
    TNRI_CALM_CALL;
    tnri_lock_take(&oom.lock);
    oom.callback = callback;
    oom.user = user;
    tnri_lock_release(&oom.lock);
}

tnr_stream tnri_oom_stream(const tnri_arena *arena)
{
    return tnri_arena_is_graph(arena) ? tnri_oom_asks_on : tnri_arena_handle(arena);
}

int tnri_oom_callback_run(const tnri_arena *arena, const tnri_request *request)
{
    tnri_lock_take(&oom.lock);
    tnr_oom_callback callback = oom.callback;
    void *user = oom.user;
    tnri_lock_release(&oom.lock);
    tnri_assert_none_held();
    const tnri_device *device = arena->device;
    tnr_oom_info info = {
        .struct_bytes = sizeof(info),
        .reason = tnri_chunk_lacks,
        .device = device->index,
        .pool = tnri_pool_handle(arena->pool),
        .stream = tnri_oom_stream(arena),
        .bytes = request->bytes_requested,
    };
    return callback != NULL && callback(&info, user) != 0;
}

/*
 * One stream's share of a device. It outlives the walk, so it copies the pool's name: the pool may
 * end, and its record be another pool's, before the report is written.
 */
typedef struct holder {
    char pool_name[TNRI_POOL_NAME_BYTES];
    tnr_stream stream;
    size_t live, idle, retired, largest;
} holder;

static holder holder_of(tnri_arena *arena)
{
    holder h = {.stream = tnri_arena_handle(arena)};
    memcpy(h.pool_name, arena->pool->account.name, sizeof(h.pool_name));
    tnri_arena_enter(arena);
    for (int i = 0; i < TNRI_WORLDS; i++) {
        const tnri_world *world = &arena->worlds[i];
        h.live += tnri_world_live_bytes(world);
        h.idle += world->bytes_in[TNRI_FREE] + world->bytes_in[TNRI_BINNED];
        h.retired += world->bytes_in[TNRI_RETIRED];
        size_t largest = tnri_world_largest_free(world);
        if (largest > h.largest)
            h.largest = largest;
    }
    tnri_arena_leave(arena);
    return h;
}

/* Keeps the holders with the most live bytes, largest first. */
static void holders_insert(holder *holders, size_t *count, holder h)
{
    size_t at = *count;
    while (at > 0 && holders[at - 1].live < h.live)
        at--;
    if (at >= HOLDERS_MAX)
        return;
    size_t last = *count < HOLDERS_MAX ? (*count)++ : HOLDERS_MAX - 1;
    for (size_t i = last; i > at; i--)
        holders[i] = holders[i - 1];
    holders[at] = h;
}

static size_t holders_find(tnri_device *device, holder *holders, holder *total)
{
    size_t count = 0;
    memset(total, 0, sizeof(*total));
    tnr_pool pool = NULL;
    while ((pool = tnri_pool_walk(device, pool)) != NULL) {
        tnri_arena *arena = NULL;
        if (!tnri_pool_is_awake(pool))
            continue; /* its blocks hold no memory */
        while ((arena = tnri_arena_walk(pool, arena)) != NULL) {
            holder h = holder_of(arena);
            total->live += h.live;
            total->idle += h.idle;
            total->retired += h.retired;
            if (h.largest > total->largest)
                total->largest = h.largest;
            holders_insert(holders, &count, h);
        }
    }
    return count;
}

/* What an account has left under its limit. */
static uint64_t limit_left(const _Atomic uint64_t *account, uint64_t most)
{
    uint64_t now = atomic_load(account);
    return most > now ? most - now : 0;
}

/* What the pool could still have been given: what the device has free, as far as limits allow. */
static uint64_t free_bytes(const tnr_pool pool, uint64_t device_free)
{
    uint64_t of_device = limit_left(&pool->device->reserved_bytes, tnri_device_most(pool->device));
    uint64_t of_pool =
        limit_left(&pool->account.reserved_bytes, atomic_load(&pool->account.limit_bytes));
    uint64_t least = of_device < of_pool ? of_device : of_pool;
    if (pool->account.tag != NULL) {
        const tnri_tag_sum *sum = &pool->account.tag->on[pool->device->index];
        uint64_t of_tag = limit_left(&sum->reserved_bytes, atomic_load(&sum->limit_bytes));
        least = least < of_tag ? least : of_tag;
    }
    return device_free < least ? device_free : least;
}

tnr_status tnri_oom_report(tnri_arena *arena, const tnri_request *request, tnr_status status)
{
    tnri_device *device = arena->device;
    char reason[512];
    snprintf(reason, sizeof(reason), "%s", tnr_last_error());
    int driver_result = tnr_last_driver_result();
    holder holders[HOLDERS_MAX];
    holder total;
    size_t count = holders_find(device, holders, &total);
    size_t device_free = 0;
    size_t device_total = 0;
    if (tnri_drive(cuMemGetInfo, (&device_free, &device_total)) != CUDA_SUCCESS)
        device_total = device->capabilities.memory_bytes;
    tnri_error_driver(
        status, driver_result,
        "Tenure out of memory. Tried to allocate %s on stream %p of pool \"%s\". Device %d has a "
        "total capacity of %s, of which %s is free; Tenure has mapped %s, of which %s is live and "
        "%s free, the longest free run being %s. Cause: %s",
        TNRI_BYTES(request->bytes_requested), (void *)tnri_oom_stream(arena),
        arena->pool->account.name, device->index, TNRI_BYTES(device_total), TNRI_BYTES(device_free),
        TNRI_BYTES(atomic_load(&device->reserved_bytes)), TNRI_BYTES(total.live),
        TNRI_BYTES(total.idle), TNRI_BYTES(total.largest), reason);
    for (size_t i = 0; i < count; i++)
        tnri_error_append("\n  pool \"%s\", stream %p: %s live, %s free", holders[i].pool_name,
                          (void *)holders[i].stream, TNRI_BYTES(holders[i].live),
                          TNRI_BYTES(holders[i].idle));
    if (total.idle >= request->bytes && tnri_conf_get()->cross_stream != TNRI_CROSS_WAIT)
        tnri_error_append("\nOther streams hold enough free memory; cross_stream:wait would let "
                          "this one use it.");
    if (total.retired > 0)
        tnri_error_append("\n%s more are freed, and wait for graphs, captures or other streams.",
                          TNRI_BYTES(total.retired));
    if (status == TNR_ERR_LIMIT && device_free >= request->bytes)
        tnri_error_append(
            "\nThe device itself has room: raise the limit (tnr_limit_set, "
            "per_process_memory_fraction, tnr_pool_limit_set, or tnr_tag_limit_set).");
    tnri_note_oom(arena, request->bytes_requested, free_bytes(arena->pool, device_free));
    tnri_oom_watcher watcher = atomic_load(&tnri_oom_watched);
    if (watcher != NULL)
        watcher(status, device->index, request->bytes_requested);
    return status;
}
