/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Out of memory: see oom.h. The report says what was asked for, which limit refused it and who set
 * that, what is live and free, what the device has; then who holds most (the streams with the most
 * live bytes) and what is free but pinned; then the one thing that would have helped.
 */
#include "miss/oom.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes_text.h"
#include "base/prim/calm.h"
#include "base/conf/conf.h"
#include "base/error.h"
#include "memory/arena/note.h"
#include "memory/arena/pinned.h"
#include "memory/arena/world_validate.h"
#include "memory/device/chunk.h"
#include "memory/device/group.h"
#include "memory/device/host.h"
#include "memory/device/tag.h"
#include "memory/pool/asleep.h"

enum { HOLDERS_MAX = 5 };

_Thread_local tnr_stream tnri_oom_asks_on;

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
    char tag_name[TNRI_TAG_BYTES]; /* empty: none */
    tnr_stream stream;
    size_t live, idle, retired, largest;
    size_t pinned;                   /* of what is idle, in chunks that live blocks have parts of */
    size_t pin_bytes, pin_requested; /* most of that side by side, and the block beside it */
    uintptr_t pin;                   /* which begins here; 0: none */
    uint64_t most;                   /* of the total: the largest amount of the text */
} holder;

/* The block beside pinned memory that has another part of its chunk. */
static const tnri_block *pinned_by(const tnri_pinned *pinned)
{
    const tnri_space *space = pinned->run->world->space;
    const tnri_block *below = pinned->run->below;
    if (below != NULL && tnri_page_address(space, pinned->chunk->page) < tnri_block_end(below) &&
        below->state == TNRI_LIVE)
        return below;
    return pinned->run->above;
}

static void holder_pin(const tnri_pinned *pinned, void *with)
{
    holder *h = with;
    size_t bytes = pinned->pages << pinned->run->world->space->page_shift;
    const tnri_block *block = pinned_by(pinned);
    h->pinned += bytes;
    if (block == NULL || block->state != TNRI_LIVE || bytes <= h->pin_bytes)
        return;
    h->pin_bytes = bytes;
    h->pin = block->base;
    h->pin_requested = tnri_block_requested(block);
}

static holder holder_of(tnri_arena *arena)
{
    const tnri_tag *tag = arena->pool->account.tag;
    int is_pinned = !arena->is_guard && tnri_pool_stays(arena->pool) == NULL;
    holder h = {.stream = tnri_arena_handle(arena)};
    memcpy(h.pool_name, arena->pool->account.name, sizeof(h.pool_name));
    if (tag != NULL)
        memcpy(h.tag_name, tag->name, sizeof(h.tag_name));
    tnri_arena_enter(arena);
    for (int i = 0; i < TNRI_WORLDS; i++) {
        const tnri_world *world = &arena->worlds[i];
        h.live += tnri_world_live_bytes(world);
        h.idle += world->bytes_in[TNRI_FREE] + world->bytes_in[TNRI_BINNED];
        h.retired += world->bytes_in[TNRI_RETIRED];
        size_t largest = tnri_world_largest_free(world);
        if (largest > h.largest)
            h.largest = largest;
        if (is_pinned)
            tnri_pinned_walk(world, holder_pin, &h);
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
            total->pinned += h.pinned;
            if (h.pin_bytes > total->pin_bytes) {
                total->pin_bytes = h.pin_bytes;
                total->pin = h.pin;
                total->pin_requested = h.pin_requested;
                memcpy(total->pool_name, h.pool_name, sizeof(h.pool_name));
            }
            if (h.largest > total->largest)
                total->largest = h.largest;
            holders_insert(holders, &count, h);
        }
    }
    return count;
}

/* What is left below a limit. */
static uint64_t below(uint64_t limit, uint64_t mapped)
{
    return limit > mapped ? limit - mapped : 0;
}

/* What an account has left under its limit. */
static uint64_t limit_left(const _Atomic uint64_t *account, uint64_t most)
{
    return below(most, atomic_load(account));
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

static const char *stream_text(const tnri_device *device, tnr_stream stream, char text[40])
{
    if (tnri_device_is_host(device))
        return "the host";
    if (stream == NULL)
        return "the default stream";
    snprintf(text, 40, "stream %p", (void *)stream);
    return text;
}

/* Who has what, and what of it is free but pinned. */
static void holders_tell(const tnri_device *device, const holder *holders, size_t count,
                         const holder *total)
{
    for (size_t i = 0; i < count; i++) {
        const holder *one = &holders[i];
        char stream[40];
        tnri_error_append("\n  pool \"%s\", %s: %s live, %s free", one->pool_name,
                          stream_text(device, one->stream, stream),
                          TNRI_BYTES_OF(one->live, total->most),
                          TNRI_BYTES_OF(one->idle, total->most));
        if (one->pinned > 0)
            tnri_error_append(", %s of it pinned", TNRI_BYTES_OF(one->pinned, total->most));
        if (one->retired > 0)
            tnri_error_append(", %s freed and still used",
                              TNRI_BYTES_OF(one->retired, total->most));
        if (one->tag_name[0] != '\0')
            tnri_error_append(" (tag \"%s\")", one->tag_name);
    }
    if (total->pinned == 0)
        return;
    tnri_error_append("\n%s are free inside chunks that live blocks have other parts of; "
                      "tnr_compact would give them back while nothing runs.",
                      TNRI_BYTES_OF(total->pinned, total->most));
    if (total->pin != 0)
        tnri_error_append(" The most in one piece, %s, is pinned by the block of %s at %p of pool "
                          "\"%s\".",
                          TNRI_BYTES_OF(total->pin_bytes, total->most),
                          TNRI_BYTES(total->pin_requested), (void *)total->pin, total->pool_name);
}

/* "; limit 4.00 GiB (set by tnr_limit_set), 4.00 GiB reserved": of the limits, the one that leaves
 * least. Returns what raises it; null: nothing was limited. */
static const char *limit_tell(const tnr_pool pool, holder *total)
{
    const tnri_device *device = pool->device;
    const tnri_account *account = &pool->account;
    const tnri_tag_sum *sum = account->tag != NULL ? &account->tag->on[device->index] : NULL;
    uint64_t of_group = atomic_load(&device->ceiling_bytes);
    tnri_group_bound bound = tnri_group_ceiling();
    struct {
        uint64_t limit, mapped;
        const char *of, *name, *by, *raise;
    } limits[] = {
        {atomic_load(&device->limit_bytes), atomic_load(&device->reserved_bytes), "", "",
         atomic_load(&device->limit_by),
         "tnr_limit_set, or the setting per_process_memory_fraction"},
        {of_group, atomic_load(&device->reserved_bytes), " of the group ", tnri_conf_get()->group,
         bound.key, bound.text},
        {atomic_load(&account->limit_bytes), atomic_load(&account->reserved_bytes), " of the pool ",
         account->name, "the pool's options or tnr_pool_limit_set", "tnr_pool_limit_set"},
        {sum != NULL ? atomic_load(&sum->limit_bytes) : UINT64_MAX,
         sum != NULL ? atomic_load(&sum->reserved_bytes) : 0, " of the tag ",
         sum != NULL ? account->tag->name : "", sum != NULL ? atomic_load(&sum->limit_by) : NULL,
         "tnr_tag_limit_set"},
    };
    size_t least = 0;
    for (size_t i = 1; i < sizeof(limits) / sizeof(limits[0]); i++)
        if (limits[i].limit != UINT64_MAX && below(limits[i].limit, limits[i].mapped) <
                                                 below(limits[least].limit, limits[least].mapped))
            least = i;
    const char *quote = limits[least].name[0] != '\0' ? "\"" : "";
    if (limits[least].limit > total->most && limits[least].limit != UINT64_MAX)
        total->most = limits[least].limit;
    tnri_error_append("; limit %s%s%s%s%s (set by %s), %s reserved",
                      TNRI_BYTES_OF(limits[least].limit, total->most), limits[least].of, quote,
                      limits[least].name, quote,
                      limits[least].by != NULL ? limits[least].by : limits[least].raise,
                      TNRI_BYTES_OF(limits[least].mapped, total->most));
    return limits[least].raise;
}

/* What would have served the request, one sentence. */
static void way_tell(const holder *total, const tnri_request *request, const char *raise,
                     size_t device_free)
{
    const tnri_conf *conf = tnri_conf_get();
    int has_room = raise != NULL && device_free >= request->bytes;
    if (has_room)
        tnri_error_append("\nThe device has room: raise the limit with %s.", raise);
    if (has_room && total->retired < request->bytes)
        return;
    if (!has_room && total->idle >= request->bytes && conf->cross_stream != TNRI_CROSS_WAIT)
        tnri_error_append("\nOther streams hold enough free memory: set cross_stream:wait.");
    else if (total->retired >= request->bytes && conf->reuse != TNRI_REUSE_WAIT)
        tnri_error_append("\n%s are freed and wait for graphs, captures or other streams: set "
                          "reuse:wait.",
                          TNRI_BYTES_OF(total->retired, total->most));
    else if (total->retired > 0)
        tnri_error_append("\n%s are freed and wait for graphs, captures or other streams.",
                          TNRI_BYTES_OF(total->retired, total->most));
    else
        tnri_error_append("\nFree something, or ask for less.");
}

tnr_status tnri_oom_report(tnri_arena *arena, const tnri_request *request, tnr_status status)
{
    tnri_device *device = arena->device;
    char reason[512], stream[40];
    snprintf(reason, sizeof(reason), "%s", tnr_last_error());
    int driver_result = tnr_last_driver_result();
    holder holders[HOLDERS_MAX];
    holder total;
    size_t count = holders_find(device, holders, &total);
    size_t device_free = 0;
    size_t device_total = 0;
    const char *raise = NULL;
    total.most = atomic_load(&device->reserved_bytes);
    if (tnri_device_left(device, &device_free, &device_total) != CUDA_SUCCESS)
        device_total = device->capabilities.memory_bytes;
    tnri_error_driver(status, driver_result, "Tenure out of memory: %s for %s",
                      TNRI_BYTES(request->bytes_requested),
                      stream_text(device, tnri_oom_stream(arena), stream));
    if (status == TNR_ERR_LIMIT)
        raise = limit_tell(arena->pool, &total);
    tnri_error_append("; %s live, ", TNRI_BYTES_OF(total.live, total.most));
    if (total.idle > 0)
        tnri_error_append("%s free in pieces of up to %s", TNRI_BYTES_OF(total.idle, total.most),
                          TNRI_BYTES_OF(total.largest, total.most));
    else
        tnri_error_append("nothing free");
    tnri_error_append("; device %d has %s of %s free.", device->index,
                      TNRI_BYTES_OF(device_free, total.most),
                      TNRI_BYTES_OF(device_total, total.most));
    if (status != TNR_ERR_LIMIT)
        tnri_error_append(" Cause: %s", reason);
    holders_tell(device, holders, count, &total);
    way_tell(&total, request, raise, device_free);
    tnri_note_oom(arena, request->bytes_requested, free_bytes(arena->pool, device_free));
    return status;
}
