/* SPDX-License-Identifier: Apache-2.0 */
/* The last look at canaries and poison: see ending.h. */
#include "see/trap/ending.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/prim/calm.h"
#include "base/host_memory.h"
#include "base/prim/process.h"
#include "base/prim/thread.h"
#include "gpu/capturing.h"
#include "memory/device/upper.h"
#include "memory/pool/asleep.h"
#include "memory/pool/cache.h"
#include "memory/pool/pool.h"
#include "see/trap/canary.h"
#include "see/trap/guard.h"
#include "see/trap/look.h"
#include "see/trap/poison.h"

enum {
    STAINS_AT_ONCE = 64,
    LOOKS_AT_ONCE = TNRI_LOOKS_MAX / 2,
};

uint64_t tnri_trap_exit_wait_ns = UINT64_C(5000000000);

/* What there is to look at in an arena. */
typedef struct listed {
    tnri_looked *looks; /* null: it is only counted */
    size_t count, room;
} listed;

/* ---- is it still there ---------------------------------------------------------------------- */

static uint64_t block_token(const tnri_block *block)
{
    return block->stamped ? block->stamp : 0;
}

/* The canary of a live block. */
static int canary_is_still(const tnri_looked *looked)
{
    tnri_arena *arena = looked->owner;
    uintptr_t base = looked->story.base;
    tnri_arena_enter(arena);
    const tnri_block *block = tnri_block_map_at(&tnri_arena_space(arena)->map, base);
    int is_still = block != NULL && block->world->arena == arena && block->state == TNRI_LIVE &&
                   block->base == base && block->holds && block_token(block) == looked->token;
    tnri_arena_leave(arena);
    return is_still;
}

/* Poison in free memory. */
static int poison_is_still(const tnri_looked *looked)
{
    tnri_arena *arena = looked->owner;
    tnri_arena_enter(arena);
    uint64_t placed = tnri_poison_placed(arena, looked->address);
    tnri_arena_leave(arena);
    return tnri_poison_is_there(looked->address, looked->address + looked->bytes, placed,
                                looked->token);
}

/* ---- listing -------------------------------------------------------------------------------- */

static void listed_add(listed *to, const tnri_looked *one)
{
    if (to->looks != NULL && to->count == to->room)
        return;
    if (to->looks != NULL)
        to->looks[to->count] = *one;
    to->count++;
}

static void canary_list(listed *to, tnri_arena *arena, const tnri_block *block)
{
    tnri_looked one = {.expected = TNRI_CANARY,
                       .story = tnri_story_of(arena, block),
                       .is_still = canary_is_still,
                       .owner = arena,
                       .token = block_token(block)};
    one.bytes = tnri_canary_place(block, &one.address);
    one.story.is_live = 1;
    listed_add(to, &one);
}

static void poison_list(listed *to, tnri_arena *arena, const tnri_block *block)
{
    tnri_stain stains[STAINS_AT_ONCE];
    uintptr_t from = block->base;
    size_t count;
    do {
        count = tnri_poison_list(from, tnri_block_end(block), stains, STAINS_AT_ONCE);
        for (size_t i = 0; i < count; i++) {
            from = stains[i].end;
            if (stains[i].placed == tnri_poison_placed(arena, stains[i].base))
                listed_add(to, &(tnri_looked){.address = stains[i].base,
                                              .bytes = stains[i].end - stains[i].base,
                                              .expected = TNRI_POISON,
                                              .is_poison = 1,
                                              .story = stains[i].story,
                                              .is_still = poison_is_still,
                                              .owner = arena,
                                              .token = stains[i].number});
        }
    } while (count == STAINS_AT_ONCE);
}

static void arena_list(listed *to, tnri_arena *arena)
{
    tnri_arena_enter(arena);
    for (int i = 0; i < TNRI_WORLDS; i++)
        for (size_t s = 0; s < arena->worlds[i].spans_count; s++)
            for (const tnri_block *block = arena->worlds[i].span_first[s]; block != NULL;
                 block = block->above) {
                if (block->state == TNRI_LIVE && block->holds)
                    canary_list(to, arena, block);
                else if (block->state == TNRI_FREE || block->state == TNRI_BINNED ||
                         block->state == TNRI_RETIRED)
                    poison_list(to, arena, block);
            }
    tnri_arena_leave(arena);
}

/* ---- looking -------------------------------------------------------------------------------- */

/* The stream in whose order the arena's memory is looked at, with a reference: its own, or the
 * legacy stream if its own has ended. Null: there is none. */
static tnri_stream *arena_looker(tnri_arena *arena)
{
    tnri_stream *stream = tnri_arena_stream(arena);
    if (stream != NULL && tnri_stream_is_markable(stream) && atomic_load(&stream->seal) == NULL)
        return stream;
    if (stream != NULL)
        tnri_stream_drop(stream);
    if (tnri_stream_find(arena->device, TNRI_STREAM_LEGACY, &stream) != TNR_OK)
        return NULL;
    tnri_stream_hold(stream);
    return stream;
}

static void arena_look(tnri_arena *arena, uint64_t until_ns)
{
    listed all = {.looks = NULL};
    arena_list(&all, arena);
    if (all.count == 0)
        return;
    all.room = all.count;
    tnri_stream *stream = arena_looker(arena);
    all.looks = stream == NULL ? NULL : tnri_host_alloc(all.room * sizeof(all.looks[0]));
    if (all.looks == NULL) {
        tnri_looks_miss(all.count);
    } else {
        all.count = 0;
        arena_list(&all, arena);
        for (size_t i = 0; i < all.count; i++) {
            if (i % LOOKS_AT_ONCE == 0)
                tnri_looks_settle(arena->device, until_ns);
            tnri_look(stream, &all.looks[i]);
        }
        tnri_looks_settle(arena->device, until_ns);
    }
    tnri_host_free(all.looks, all.room * sizeof(all.looks[0]));
    if (stream != NULL)
        tnri_stream_drop(stream);
}

/* Waits for the work that the device's streams have. 0: it is not over in time, or the context is
 * broken. A stream that was destroyed without a word is not waited for. */
static int device_wait(tnri_device *device, uint64_t until_ns)
{
    tnri_stream *legacy;
    int is_over = tnri_stream_find(device, TNRI_STREAM_LEGACY, &legacy) == TNR_OK;
    for (tnri_stream *stream = NULL; (stream = tnri_stream_walk(device, stream)) != NULL;) {
        tnri_event *event;
        uint64_t number;
        if (!is_over || !tnri_stream_is_markable(stream))
            continue;
        tnr_status status = tnri_stream_mark(stream, &event, &number);
        if (status == TNR_OK) {
            is_over = tnri_event_wait_until(event, until_ns);
            tnri_stream_recycle(stream, event);
        }
        is_over = is_over && (status == TNR_OK || status == TNR_ERR_INVALID_STREAM);
    }
    return is_over;
}

/* What was freed for all streams while a capture was under way, or is kept no more, is filled now,
 * on a stream of its own. In the order of an arena's stream it could be looked at before. */
static int device_fill(tnri_device *device, uint64_t until_ns)
{
    for (tnr_pool pool = NULL; (pool = tnri_pool_walk(device, pool)) != NULL;) {
        if (!tnri_pool_work_begin(pool)) /* it sleeps */
            continue;
        tnri_arena *arena = tnri_arena_walk(pool, NULL);
        if (arena != NULL)
            (void)tnri_upper_collect(arena, SIZE_MAX, TNRI_COLLECT_OVER);
        tnri_pool_work_end(pool);
    }
    return device_wait(device, until_ns);
}

static _Atomic int is_left; /* 1: an end has not looked at all, since the sums were told */

/* Looks that are under way count, whether there is more to look at or not. 0: work that was still
 * to be filled is not over in time, so nothing more was looked at. */
static int last_look(tnri_device *device, uint64_t until_ns)
{
    int is_filled = device_fill(device, until_ns);
    for (tnr_pool pool = NULL; is_filled && (pool = tnri_pool_walk(device, pool)) != NULL;) {
        if (!tnri_pool_work_begin(pool))
            continue;
        for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;)
            arena_look(arena, until_ns);
        tnri_pool_work_end(pool);
    }
    tnri_looks_settle(device, until_ns);
    return is_filled;
}

void tnri_trap_last_look(tnri_device *device)
{
    if (tnri_capturing() || !device_wait(device, 0) || !last_look(device, 0))
        atomic_store(&is_left, 1);
    tnri_looks_settle(device, 0);
}

/* ---- the sums ------------------------------------------------------------------------------- */

static _Atomic int is_used; /* 1: blocks have had traps since the sums were told */

static void sums_text(char *text, size_t room, int is_part)
{
    tnri_looks_sums sums = tnri_looks_sums_get();
    uint64_t guarded = atomic_load(&tnri_guarded_count);
    uint64_t unguarded = atomic_load(&tnri_unguarded_count);
    char found[64] = "nothing looked at";
    char looks[96];
    char guards[96];
    if (sums.findings > 0)
        (void)snprintf(found, sizeof(found), "found %" PRIu64, sums.findings);
    else if (sums.made > 0 && (sums.missed > 0 || is_part))
        (void)snprintf(found, sizeof(found), "no finding, but not all was looked at");
    else if (sums.made > 0)
        (void)snprintf(found, sizeof(found), "nothing found");
    (void)snprintf(looks, sizeof(looks), "%s (looked at %" PRIu64 ", could not be %" PRIu64 ")",
                   found, sums.made, sums.missed);
    (void)snprintf(guards, sizeof(guards), "guarded %" PRIu64 ", could not be %" PRIu64, guarded,
                   unguarded);
    int has_guards = guarded + unguarded > 0;
    int has_looks = sums.made + sums.missed > 0 || !has_guards;
    (void)snprintf(text, room, "tenure: traps: process %ld: %s%s%s\n", (long)tnri_process_id(),
                   has_looks ? looks : "", has_looks && has_guards ? "; " : "",
                   has_guards ? guards : "");
}

void tnri_trap_sums_tell(void)
{
    char text[256];
    if (!atomic_exchange(&is_used, 0))
        return;
    sums_text(text, sizeof(text), atomic_exchange(&is_left, 0));
    tnri_trap_say(text);
}

/* ---- the end of the process ----------------------------------------------------------------- */

/* Peers may use each other's memory: first all devices are waited for. In a forked child Tenure has
 * stopped. */
static void exit_look(void)
{
    TNRI_CALM;
    uint64_t until_ns = tnri_clock_ns() + tnri_trap_exit_wait_ns;
    int is_quiet = !tnri_capturing();
    if (atomic_load(&tnri_generation) == 0)
        return;
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < tnri_devices_count(); i++) {
            tnri_device *device = tnri_device_at(i);
            tnri_visit visit;
            if (!atomic_load(&device->in_use))
                continue;
            if (tnri_device_enter(device, &visit) != TNR_OK) {
                is_quiet = 0;
                continue;
            }
            if (turn == 0)
                is_quiet = is_quiet && device_wait(device, until_ns);
            else if (is_quiet)
                is_quiet = last_look(device, until_ns);
            else
                tnri_looks_settle(device, 1); /* those that are over */
            tnri_device_leave(&visit);
        }
    if (!is_quiet) {
        atomic_store(&is_left, 1);
        tnri_trap_say("tenure: traps: what was left at the end was not looked at: a capture or "
                      "work was still under way, or a device is lost\n");
    }
    tnri_trap_sums_tell();
}

static void exit_watch(void)
{
    (void)atexit(exit_look);
    (void)at_quick_exit(exit_look);
}

void tnri_trap_watch_end(void)
{
    static tnri_once once = TNRI_ONCE_INIT;
    tnri_once_run(&once, exit_watch);
    if (!atomic_load_explicit(&is_used, memory_order_relaxed))
        atomic_store(&is_used, 1);
}
