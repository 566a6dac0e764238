/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleep and wake: see <tenure/sleep.h>.
 *
 * A sleep, for all its pools together, because all of them sleep or none does:
 *   1. no thread gets memory from the pools any more, and none works on their chunks
 *   2. all work of the device is waited for; old mappings go
 *   3. host memory is taken for all that is kept
 *   4. copies of what is kept are put on the staging's stream; what must go through the ring is
 *      copied
 *   5. each chunk loses its mapping and its memory as soon as it is copied (sleep_copy.c); those of
 *      4 that came through the ring, already then
 * Up to 3 nothing has changed. Then memory goes while copies run. If the driver refuses anything,
 * the copies are waited for. The contents that were copied are then in host memory, and the rest is
 * where it was (tnri_sleeper.kept_out), because no chunk goes before its contents are out. A copy
 * itself could fail only with an error that ends the context with all that is in it, kept or not.
 * So a sleep that fails is taken back by waking, which works chunk by chunk from wherever each is
 * (tnri_chunk_state). A wake goes the other way. If it fails, the memory is given back, except for
 * chunks whose contents are nowhere else. Contents stay in host memory until the very end of a
 * wake.
 *
 * A device has one sleep or wake at a time, from its first callback to its last
 * (tnri_staging_turn_begin). Steps 2 to 5 run with the device's staging claimed. With that claim a
 * thread never waits for one at work in a pool, and the callbacks run without the claim.
 */
#include <tenure/sleep.h>

#include <stdio.h>

#include "api/library.h"
#include "away/pool_set.h"
#include "away/register.h"
#include "away/sleep_callback.h"
#include "base/array.h"
#include "base/plural.h"
#include "base/prim/calm.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "gpu/capturing.h"
#include "memory/arena/count.h"
#include "memory/arena/find.h"
#include "memory/arena/note.h"
#include "memory/device/group.h"
#include "memory/device/host.h"
#include "memory/device/segment.h"
#include "memory/device/upper.h"
#include "memory/pool/asleep.h"
#include "memory/pool/family.h"
#include "miss/park.h"
#include "miss/reclaim.h"
#include "miss/stale.h"

/* ---- the way down --------------------------------------------------------------------------- */

/* Lists what a pool has and what of it is to be kept, and adds the buffers for that to *count. What
 * lies in files needs the ring, which is one for all: *ring says so. */
static tnr_status pool_list(const tnri_pool_set *set, size_t i, const tnr_sleep_options *options,
                            size_t *count, size_t *ring)
{
    tnr_pool pool = set->pools[i];
    tnri_sleeper *sleeper = tnri_sleeper_of(pool);
    if (sleeper == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for putting a pool to sleep.");
    tnr_content content = options->content;
    if (content == TNR_CONTENT_DEFAULT)
        content = (tnr_content)pool->content;
    if (pool->account.is_graph && set->is_all && content != TNR_CONTENT_DISK)
        content = TNR_CONTENT_KEEP;
    tnr_status status = tnri_sleeper_list(sleeper, pool, content);
    sleeper->is_on_disk = content == TNR_CONTENT_DISK;
    if (!sleeper->is_on_disk)
        *count += tnri_buffers_for(sleeper->kept_bytes);
    else if (sleeper->kept_bytes > 0 && tnri_staging_of(set->device)->ring[0] == NULL)
        *ring = TNRI_RING;
    return status;
}

/* Step 3. */
static tnr_status set_have_buffers(const tnri_pool_set *set, const tnr_sleep_options *options)
{
    size_t count = 0, ring = 0;
    tnr_status status = TNR_OK;
    for (size_t i = 0; i < set->count && status == TNR_OK; i++)
        status = pool_list(set, i, options, &count, &ring);
    if (status == TNR_OK)
        status = tnri_staging_check(set->device, tnri_buffers_bytes(count + ring));
    for (size_t i = 0; i < set->count && status == TNR_OK; i++) {
        tnri_sleeper *sleeper = tnri_pool_set_sleeper(set, i);
        sleeper->keeps_buffers = options->keep_backing;
        if (sleeper->is_on_disk)
            status = tnri_staging_take_files(set->device, sleeper->kept_bytes, &sleeper->buffers);
        else
            status = tnri_staging_take(set->device, sleeper->kept_bytes, options->pinned_bytes_max,
                                       &sleeper->buffers);
    }
    return status;
}

/* Step 4. */
static tnr_status set_copy_out(const tnri_pool_set *set)
{
    tnr_status status = TNR_OK;
    for (size_t i = 0; i < set->count && status == TNR_OK; i++)
        status = tnri_sleeper_copy_out(tnri_pool_set_sleeper(set, i), set->device);
    return status;
}

/* Step 5. */
static tnr_status set_lower(const tnri_pool_set *set)
{
    tnr_status status = TNR_OK;
    for (size_t i = 0; i < set->count; i++)
        tnri_assert(tnri_sleeper_is_queued(tnri_pool_set_sleeper(set, i)));
    for (size_t i = 0; i < set->count && status == TNR_OK; i++)
        status = tnri_sleeper_lower(tnri_pool_set_sleeper(set, i), set->device);
    return status;
}

/* What lies in files is the disk's before the sleep has succeeded. */
static tnr_status set_settle(const tnri_pool_set *set)
{
    tnr_status status = TNR_OK;
    for (size_t i = 0; i < set->count; i++)
        for (const tnri_buffer *buffer = tnri_pool_set_sleeper(set, i)->buffers;
             buffer != NULL && status == TNR_OK; buffer = buffer->next)
            if (buffer->file != NULL)
                status = tnri_disk_settle(buffer->file, buffer->memory, buffer->bytes);
    return status;
}

/* ---- the way up ----------------------------------------------------------------------------- */

/* Forgets what was kept of a pool, whose memory is all there, with the contents. */
static void sleeper_forget(tnri_sleeper *sleeper, tnri_device *device)
{
    for (size_t c = 0; TNR_CHECK_WALKS && c < sleeper->chunks_count; c++)
        tnri_assert(sleeper->chunks[c]->state == TNRI_CHUNK_READY);
    tnri_sleeper_clear(sleeper, device);
}

/* Brings one pool back: its memory, and its contents if they have gone with it. */
static tnr_status pool_restore(const tnri_pool_set *set, size_t i)
{
    tnri_sleeper *sleeper = tnri_pool_set_sleeper(set, i);
    tnr_status status = tnri_sleeper_raise(sleeper, set->device, sleeper->is_lost);
    if (!sleeper->is_lost || sleeper->kept_count == 0)
        return status;
    tnr_status waited = tnri_staging_wait(set->device);
    return status == TNR_OK ? waited : status;
}

/* Takes a failed sleep back. A pool for which that fails too is asleep. Keeps the sentence of the
 * first error. */
static tnr_status set_take_back(const tnri_pool_set *set, tnr_status error)
{
    char reason[512];
    int driver_result = tnr_last_driver_result();
    tnr_pool stuck = NULL;
    snprintf(reason, sizeof(reason), "%s", tnr_last_error());
    for (size_t i = 0; i < set->count; i++) {
        tnri_sleeper *sleeper = set->pools[i]->asleep.sleeper;
        if (sleeper == NULL || pool_restore(set, i) == TNR_OK) {
            if (sleeper != NULL) {
                sleeper->keeps_buffers = 1;
                sleeper_forget(sleeper, set->device);
            }
            tnri_pool_set_state(set->pools[i], TNRI_AWAKE);
            continue;
        }
        stuck = set->pools[i];
        atomic_fetch_add(&stuck->asleep.sleeps, 1);
        tnri_pool_set_state(stuck, TNRI_ASLEEP);
    }
    tnri_staging_undo(set->device, NULL, set->pinned, set->paged);
    tnri_error_driver(error, driver_result, "%s", reason);
    if (stuck != NULL)
        tnri_error_append(" The way back was refused too, so pool \"%s\" is asleep; wake it when "
                          "the driver works again.",
                          stuck->account.name);
    return error;
}

/* Gives back what a failed wake has taken. What the driver refuses stays taken, and the next wake
 * goes on from there. Not while copies may be under way. */
static void set_sink(const tnri_pool_set *set)
{
    for (size_t i = 0; i < set->count && !tnri_staging_of(set->device)->is_busy; i++)
        for (size_t c = 0; c < tnri_pool_set_sleeper(set, i)->chunks_count; c++) {
            tnri_chunk *chunk = tnri_pool_set_sleeper(set, i)->chunks[c];
            if (!tnri_sleeper_needs(tnri_pool_set_sleeper(set, i), chunk) &&
                tnri_chunk_unplace(set->device, chunk) == TNR_OK)
                (void)tnri_chunk_sleep(set->device, chunk);
        }
}

/* What the pools of a set still lack. */
static size_t set_missing(const tnri_pool_set *set)
{
    size_t bytes = 0;
    for (size_t i = 0; i < set->count; i++)
        bytes += (size_t)atomic_load(&set->pools[i]->account.asleep_bytes);
    return bytes;
}

/* Whether the memory that the pools lack seems to be there. */
static int set_has_room(const tnri_pool_set *set)
{
    tnri_device *device = set->device;
    size_t missing = set_missing(set), available = 0, total = 0;
    uint64_t reserved = atomic_load_explicit(&device->reserved_bytes, memory_order_relaxed);
    uint64_t limit = tnri_device_most(device);
    return reserved <= limit && missing <= limit - reserved &&
           tnri_device_left(device, &available, &total) == CUDA_SUCCESS && missing <= available;
}

/* Takes all memory before anything is copied, where it looks as if that could fail: what is copied
 * before a failure is copied in vain. */
static tnr_status set_rouse(const tnri_pool_set *set)
{
    tnr_status status = TNR_OK;
    if (set_has_room(set))
        return TNR_OK;
    for (size_t i = 0; i < set->count; i++)
        for (size_t c = 0; c < tnri_pool_set_sleeper(set, i)->chunks_count && status == TNR_OK; c++)
            status = tnri_chunk_rouse(set->device, tnri_pool_set_sleeper(set, i)->chunks[c]);
    return status;
}

/* 1 if a block of the pool is live. */
static int pool_lives(tnr_pool pool)
{
    int lives = 0;
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        tnri_arena_enter(arena);
        lives |= tnri_arena_live_count(arena) > 0;
        tnri_arena_leave(arena);
    }
    return lives;
}

/* Gives up what is free in a pool, which has no memory now and then needs none. What cannot be
 * given up stays, and is woken. */
static void pool_shed(tnr_pool pool)
{
    size_t queued, given_up = 0;
    if (pool->account.is_graph && atomic_load(&pool->keepers) > 0) /* replays need it */
        return;
    (void)tnri_collect_pool(pool, SIZE_MAX, TNRI_COLLECT_WAIT);
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;)
        if (tnri_stale_release(arena, SIZE_MAX, &queued) == TNR_OK)
            (void)tnri_stale_drain(arena, 0, 1, &given_up);
}

/* Lists what is to be woken: what is free in a pool is not if nothing lives in it, nor in any pool
 * if the wake is to be bare. */
static tnr_status set_list(const tnri_pool_set *set, int is_bare)
{
    tnr_status status = TNR_OK;
    for (size_t i = 0; i < set->count && status == TNR_OK; i++) {
        if (is_bare || !pool_lives(set->pools[i]))
            pool_shed(set->pools[i]);
        status = tnri_sleeper_list_chunks(tnri_pool_set_sleeper(set, i), set->pools[i]);
    }
    return status;
}

/* Unmaps what a sleep or a wake that failed has left mapped: pools may have been opened or closed
 * since, and only a new mapping has the access of its pool. The memory keeps its contents. No copy
 * is under way. */
static tnr_status set_unplace(const tnri_pool_set *set)
{
    tnr_status status = TNR_OK;
    for (size_t i = 0; i < set->count; i++)
        for (size_t c = 0; c < tnri_pool_set_sleeper(set, i)->chunks_count && status == TNR_OK; c++)
            status = tnri_chunk_unplace(set->device, tnri_pool_set_sleeper(set, i)->chunks[c]);
    return status;
}

static tnr_status set_raise(const tnri_pool_set *set)
{
    tnr_status status = set_rouse(set);
    for (size_t i = 0; i < set->count && status == TNR_OK; i++)
        status = tnri_sleeper_raise(tnri_pool_set_sleeper(set, i), set->device, 1);
    tnr_status waited = tnri_staging_wait(set->device);
    return status == TNR_OK ? waited : status;
}

static int is_short(tnr_status status)
{
    return status == TNR_ERR_OUT_OF_MEMORY || status == TNR_ERR_LIMIT;
}

static tnr_status set_wake(const tnri_pool_set *set)
{
    if (tnri_capturing())
        return tnri_error(TNR_ERR_BUSY, "a stream capture is under way; it forbids waiting for "
                                        "copies. Sleep or wake before or after it.");
    /* Copies of a wake that failed may still be under way, and what they write may be free by now.
     * Until they are over, no memory is given up. */
    const int *is_busy = &tnri_staging_of(set->device)->is_busy;
    tnr_status status = *is_busy ? tnri_staging_wait(set->device) : TNR_OK;
    if (status == TNR_OK)
        status = set_list(set, 0);
    if (status == TNR_OK)
        status = set_unplace(set);
    if (status == TNR_OK)
        status = set_raise(set);
    if (is_short(status) && !*is_busy) {
        size_t missing = set_missing(set);
        tnri_collect_all(set->device);
        size_t released = tnri_release_idle(set->device, NULL, missing, 1, NULL);
        if (released < missing)
            released += tnri_release_parked(set->device, NULL, missing - released, NULL);
        if (released > 0)
            status = set_raise(set);
    }
    tnri_asking asking = {0};
    while (status == TNR_ERR_OUT_OF_MEMORY && !*is_busy &&
           tnri_group_ask(set->device, set_missing(set), &asking))
        status = set_raise(set);
    if (is_short(status) && !*is_busy) {
        set_sink(set); /* so that it is the driver's again, what lives comes first */
        status = set_list(set, 1);
        if (status == TNR_OK)
            status = set_raise(set);
    }
    return status;
}

/* ---- the calls ------------------------------------------------------------------------------ */

/* Steps 3 to 5. Afterwards no copy is under way, or the staging is busy. */
static tnr_status set_go(const tnri_pool_set *set, const tnr_sleep_options *options)
{
    tnr_status status = set_have_buffers(set, options);
    if (status == TNR_OK)
        status = set_copy_out(set);
    if (status == TNR_OK)
        status = set_lower(set);
    if (status == TNR_OK)
        status = set_settle(set);
    if (status != TNR_OK) {
        tnri_error_aside first;
        tnri_error_take(&first);
        (void)tnri_staging_wait(set->device);
        tnri_error_restore(&first);
    }
    for (size_t i = 0; i < set->count; i++)
        if (tnri_pool_set_sleeper(set, i) != NULL)
            tnri_sleeper_unmark(tnri_pool_set_sleeper(set, i));
    return status;
}

/* Importers in other processes would keep the memory, and not see what is written after a wake. */
static tnr_status set_check_importers(const tnri_pool_set *set)
{
    (void)tnri_upper_settle(TNRI_ROOM_SHARE, set->device);
    (void)tnri_upper_settle(TNRI_ROOM_ORDER, set->device);
    for (size_t i = 0; i < set->count; i++) {
        uint32_t importers = atomic_load(&set->pools[i]->account.importers);
        if (importers > 0)
            return tnri_error(TNR_ERR_BUSY,
                              "%u importer%s %s blocks of pool \"%s\" of device %d open, which "
                              "would be other memory after a wake. Have them close their imports, "
                              "at the latest in a callback (tnr_sleep_callback_add).",
                              importers, tnri_plural(importers), importers == 1 ? "has" : "have",
                              set->pools[i]->account.name, set->device->index);
    }
    return TNR_OK;
}

/* Steps 2 to 5, and back if one fails. In the device's context. */
static tnr_status set_fall_asleep(tnri_pool_set *set, void *with)
{
    const tnr_sleep_options *options = with;
    set->pinned = tnri_staging_of(set->device)->pinned.count;
    set->paged = tnri_staging_of(set->device)->paged.count;
    tnr_status status = set_check_importers(set);
    if (status == TNR_OK)
        status = tnri_pool_set_drain(set);
    if (status == TNR_OK)
        status = set_go(set, options);
    if (status != TNR_OK)
        return set_take_back(set, status);
    for (size_t i = 0; i < set->count; i++) {
        atomic_fetch_add(&set->pools[i]->asleep.sleeps, 1);
        tnri_note_pool(&set->pools[i]->account, NULL, TNRI_NOTED_SLEEP,
                       (size_t)atomic_load(&set->pools[i]->account.asleep_bytes), 0);
        tnri_pool_set_state(set->pools[i], TNRI_ASLEEP);
    }
    return TNR_OK;
}

static tnr_status set_sleep(tnri_pool_set *set, tnr_sleep_options *options)
{
    tnr_status status = tnri_pool_set_do(set, set_fall_asleep, options);
    if (status != TNR_OK)
        tnri_pool_set_notify(set, TNR_SLEEP_CANCELLED, TNRI_AWAKE);
    return status;
}

/* What a network card has registered is other memory after a wake, and the card is not told. So
 * somebody must be who takes the registrations back. Foreign segments cannot be had again where
 * they were. */
static tnr_status set_check(const tnri_pool_set *set)
{
    tnr_status status = TNR_OK;
    for (size_t i = 0; i < set->count && status == TNR_OK; i++)
        status =
            tnri_segment_refuse(&set->pools[i]->account, "it could not come back to where it is");
    for (size_t i = 0; i < set->count && status == TNR_OK; i++)
        if (tnri_account_is_known(&set->pools[i]->account) && !tnri_sleep_has_callback())
            return tnri_error(TNR_ERR_BUSY,
                              "network cards may have registered memory of pool \"%s\" of device "
                              "%d, which would be other memory after a wake. Add a callback that "
                              "takes the registrations back (tnr_sleep_callback_add).",
                              set->pools[i]->account.name, set->device->index);
    return status;
}

tnr_status tnri_pools_sleep(int device, const tnri_wanted *wanted, const tnr_sleep_options *options)
{
    tnr_sleep_options chosen = TNR_SLEEP_OPTIONS_INIT;
    if (options != NULL && (options->struct_bytes != sizeof(*options) ||
                            (int)options->content < 0 || options->content > TNR_CONTENT_DISK))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "the options of a sleep are not of this version. Start from "
                          "TNR_SLEEP_OPTIONS_INIT.");
    if (options != NULL)
        chosen = *options;
    tnri_device *found;
    tnr_status status = tnri_pool_set_turn_begin(device, wanted->pool, &found);
    if (status != TNR_OK)
        return status;
    tnri_pool_set set;
    status = tnri_pool_set_make(&set, found, wanted);
    if (status == TNR_OK) {
        status = set_check(&set);
        if (status == TNR_OK)
            status = set_sleep(&set, &chosen);
        tnri_pool_set_free(&set);
    }
    tnri_pool_set_turn_end(found);
    return status;
}

static tnr_status set_wake_up(tnri_pool_set *set)
{
    tnri_staging_claim(set->device);
    tnri_pool_set_select(set, TNRI_ASLEEP, TNRI_WAKING);
    tnri_visit visit;
    tnr_status status = set->count == 0 ? TNR_OK : tnri_device_enter(set->device, &visit);
    if (status == TNR_OK && set->count > 0) {
        status = set_wake(set);
        if (status != TNR_OK)
            set_sink(set);
        for (size_t i = 0; i < set->count && status == TNR_OK; i++) {
            sleeper_forget(tnri_pool_set_sleeper(set, i), set->device);
            atomic_fetch_add(&set->pools[i]->asleep.wakes, 1);
            tnri_note_pool(&set->pools[i]->account, NULL, TNRI_NOTED_WAKE,
                           (size_t)atomic_load(&set->pools[i]->account.reserved_bytes), 0);
            atomic_fetch_add(&set->pools[i]->asleep.generation, 1);
        }
        tnri_device_leave(&visit);
    }
    for (size_t i = 0; i < set->count; i++)
        tnri_pool_set_state(set->pools[i], status == TNR_OK ? TNRI_AWAKE : TNRI_ASLEEP);
    tnri_staging_unclaim(set->device);
    if (status == TNR_OK)
        tnri_pool_set_notify(set, TNR_SLEEP_AWAKE, TNRI_AWAKE);
    return status;
}

tnr_status tnri_pools_wake(int device, const tnri_wanted *wanted)
{
    tnri_device *found;
    tnr_status status = tnri_pool_set_turn_begin(device, wanted->pool, &found);
    if (status != TNR_OK)
        return status;
    tnri_pool_set set;
    status = tnri_pool_set_make(&set, found, wanted);
    if (status == TNR_OK) {
        status = set_wake_up(&set);
        tnri_pool_set_free(&set);
    }
    tnri_pool_set_turn_end(found);
    return status;
}

tnr_status tnr_pool_sleep(tnr_pool handle, int device, const tnr_sleep_options *options)
{
    TNRI_CALM_CALL;
    return tnri_pools_sleep(device, &(tnri_wanted){TNRI_WANTED_POOL, handle, NULL, 0}, options);
}

tnr_status tnr_pool_wake(tnr_pool handle, int device)
{
    TNRI_CALM_CALL;
    return tnri_pools_wake(device, &(tnri_wanted){TNRI_WANTED_POOL, handle, NULL, 0});
}

tnr_status tnr_device_sleep(int device, const tnr_sleep_options *options)
{
    TNRI_CALM_CALL;
    return tnri_pools_sleep(device, &(tnri_wanted){TNRI_WANTED_ALL, NULL, NULL, 0}, options);
}

tnr_status tnr_device_wake(int device)
{
    TNRI_CALM_CALL;
    return tnri_pools_wake(device, &(tnri_wanted){TNRI_WANTED_ALL, NULL, NULL, 0});
}

tnr_status tnr_sleep_prepare(size_t bytes, int device)
{
    TNRI_CALM_CALL;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    tnri_device *found;
    tnr_status status = tnri_library_device(device, &found);
    if (status == TNR_OK)
        status = tnri_pool_set_check(found);
    if (status != TNR_OK)
        return status;
    tnri_visit visit;
    tnri_away_register();
    tnri_staging_claim(found);
    status = tnri_device_enter(found, &visit);
    if (status == TNR_OK) {
        status = tnri_capturing()
                     ? tnri_error(TNR_ERR_BUSY, "a stream capture is under way; it forbids pinning "
                                                "memory. Prepare before or after it.")
                     : tnri_staging_prepare(found, bytes);
        tnri_device_leave(&visit);
    }
    tnri_staging_unclaim(found);
    return status;
}

tnr_status tnr_block_content_set(const void *ptr, tnr_content content)
{
    TNRI_CALM_CALL;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    if ((int)content < 0 || content > TNR_CONTENT_DISCARD)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "%d is not what can become of a block's contents: they are kept, where "
                          "the sleep says, or discarded.",
                          (int)content);
    tnri_device *device;
    tnri_block *block;
    tnr_status status = tnri_library_live(ptr, &device, &block);
    if (status != TNR_OK)
        return status;
    block->content = (uint64_t)content & 3;
    tnri_live_leave(device, block);
    return TNR_OK;
}

uint64_t tnr_pool_generation(tnr_pool handle, int device)
{
    if (atomic_load(&tnri_generation) == 0)
        return 0;
    tnri_device *found = tnri_device_at(device);
    if (found == NULL || !atomic_load_explicit(&found->in_use, memory_order_acquire))
        return 0;
    if (handle == NULL)
        return atomic_load(&found->pool_default->asleep.generation);
    tnr_pool pool =
        tnri_family_is(handle) ? tnri_family_find(found, handle) : tnri_pool_find(handle);
    if (pool == NULL)
        return 0;
    uint64_t generation = pool->device == found ? atomic_load(&pool->asleep.generation) : 0;
    tnri_pool_drop(pool);
    return generation;
}
