/* SPDX-License-Identifier: Apache-2.0 */
/* Which blocks get traps, and what is done to them when: see trap.h. */
#include "see/trap/trap.h"

#include "base/conf/conf.h"
#include "log/stacks.h"
#include "memory/arena/note.h"
#include "memory/device/device.h"
#include "memory/pool/asleep.h"
#include "see/trap/canary.h"
#include "see/trap/ending.h"
#include "see/trap/guard.h"
#include "see/trap/look.h"
#include "see/trap/poison.h"
#include "see/trap/work.h"

/* 1 if others than its owner may write into a pool's memory, or it cannot be unmapped. */
static int pool_is_exempt(const tnri_account *account)
{
    return account->is_graph || tnri_account_is_kept(account) ||
           tnri_device_is_host(account->device); /* the host writes there, in no stream's order */
}

/* 1 for one block of so many, of the sizes that the settings name. */
static int is_chosen(const tnri_conf *conf, size_t bytes)
{
    static _Atomic uint64_t asked;
    if (bytes < (size_t)conf->trap_from_kb << 10 || bytes > (size_t)conf->trap_to_kb << 10)
        return 0;
    return conf->trap_every <= 1 || atomic_fetch_add(&asked, 1) % conf->trap_every == 0;
}

unsigned tnri_trap_choose(tnri_arena *arena, tnri_request *request)
{
    const tnri_conf *conf = tnri_conf_get();
    size_t bytes = request->bytes_requested;
    unsigned traps = 0;
    if ((conf->guard == TNRI_GUARD_OFF && !conf->canary) || pool_is_exempt(arena->account) ||
        !is_chosen(conf, bytes))
        return 0;
    if (conf->guard != TNRI_GUARD_OFF)
        traps |= TNRI_TRAP_GUARD;
    if (conf->canary)
        traps |= TNRI_TRAP_CANARY;
    /* A guarded block has its guard right behind it: the canary is what rounding has left. */
    if (traps == TNRI_TRAP_CANARY && tnri_bytes_rounded(bytes + TNRI_CANARY_LEAST) > request->bytes)
        request->bytes = tnri_bytes_rounded(bytes + TNRI_CANARY_LEAST);
    return traps;
}

/* Around work that is given to the device. 0: it may not be given any, because the pool sleeps, or
 * is about to: then its memory goes without a further look at what was enqueued. */
static int trap_enter(const tnri_arena *arena, tnri_visit *visit)
{
    if (pool_is_exempt(arena->account) || !tnri_pool_work_begin(arena->pool))
        return 0;
    if (tnri_device_enter(arena->device, visit) == TNR_OK)
        return 1;
    tnri_pool_work_end(arena->pool);
    return 0;
}

static void trap_leave(const tnri_arena *arena, tnri_visit *visit)
{
    tnri_device_leave(visit);
    tnri_pool_work_end(arena->pool);
}

/* ---- handing out ---------------------------------------------------------------------------- */

/* Looks at poison that was left in memory that is about to be handed out. */
static void poison_look(tnri_arena *arena, tnri_stream *stream, const tnri_stain *stains,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tnri_arena_enter(arena);
        int is_there = stains[i].placed == tnri_poison_placed(arena, stains[i].base);
        tnri_arena_leave(arena);
        if (is_there && stains[i].is_filled)
            tnri_look(stream, &(tnri_looked){.address = stains[i].base,
                                             .bytes = stains[i].end - stains[i].base,
                                             .expected = TNRI_POISON,
                                             .is_poison = 1,
                                             .story = stains[i].story});
    }
}

/* Remembers in the block where it was allocated, if the history has not. */
static void block_stamp(tnri_arena *arena, tnri_block *block)
{
    tnri_note_thread here = {.stack = tnri_stack_take()};
    tnri_arena_enter(arena);
    if (tnri_story_of(arena, block).allocated == 0 && here.stack != 0)
        tnri_note_stamp(&here, tnri_ticks(), block);
    tnri_arena_leave(arena);
}

void tnri_trap_served(tnri_block *block, unsigned traps)
{
    tnri_visit visit;
    tnri_stain stains[TNRI_POISON_TAKES];
    const tnri_conf *conf = tnri_conf_get();
    tnri_arena *arena = block->world->arena;
    tnri_trap_watch_end();
    /* First of all, and whatever fails then: from here on the memory is somebody's. */
    size_t count = tnri_poison_take(block->base, tnri_block_end(block), stains);
    if (!trap_enter(arena, &visit))
        return;
    tnri_stream *stream = tnri_arena_stream(arena);
    tnri_looks_poll(arena->device);
    poison_look(arena, stream, stains, count);
    if ((traps & TNRI_TRAP_CANARY) != 0)
        tnri_canary_set(block, stream);
    if (traps != 0 || conf->poison)
        block_stamp(arena, block);
    tnri_stream_drop(stream);
    trap_leave(arena, &visit);
}

/* ---- freeing -------------------------------------------------------------------------------- */

/* What is to be done to a block that is freed. */
typedef struct last_work {
    tnri_story story;
    uintptr_t canary;
    size_t canary_bytes;
    size_t bytes;
    tnri_stain stains[2];
    size_t stains_count;
    int is_sync;         /* 1: only once the device is through with the block */
    tnri_stream *stream; /* with a reference; null: nothing */
} last_work;

/* The start or the end of a block, not beyond the end of the page that it begins in. */
static void stain_note(last_work *work, const tnri_arena *arena, uintptr_t base, uintptr_t end)
{
    uintptr_t page_mask = tnri_page_bytes(tnri_arena_space(arena)) - 1;
    uintptr_t page_end = (base | page_mask) + 1;
    work->stains[work->stains_count++] = (tnri_stain){
        .base = base,
        .end = end < page_end ? end : page_end,
        .placed = tnri_poison_placed(arena, base),
        .story = work->story,
    };
}

/* Which parts of a block are filled. Under the lock. */
static void stains_note(last_work *work, const tnri_arena *arena, const tnri_block *block)
{
    const tnri_conf *conf = tnri_conf_get();
    size_t half = (size_t)conf->trap_fill_kb << 9;
    uintptr_t end = tnri_block_end(block);
    if (!conf->poison || arena->is_guard || arena->growable.base != 0 ||
        !is_chosen(conf, work->story.requested))
        return;
    uintptr_t first_end = block->bytes < half ? end : block->base + half;
    stain_note(work, arena, block->base, first_end);
    if (end > first_end)
        stain_note(work, arena, end - first_end < half ? first_end : end - half, end);
}

/* Says what is to be done, if the block at `ptr` is live; 0: nothing. Takes its canary if it may be
 * looked at now: if no other stream uses the block. */
static int last_work_make(last_work *work, tnri_block *block, void *ptr, int is_sync)
{
    tnri_arena *arena = block->world->arena;
    uint32_t freed = tnri_stack_take();
    tnri_arena_enter(arena);
    int is_there = block->state == TNRI_LIVE && block->base == (uintptr_t)ptr &&
                   !pool_is_exempt(arena->account);
    if (is_there) {
        *work = (last_work){.story = tnri_story_of(arena, block), .bytes = block->bytes};
        work->story.freed = freed;
        work->is_sync = is_sync || block->uses != NULL;
        if (!work->is_sync)
            work->canary_bytes = tnri_canary_take(block, &work->canary);
        stains_note(work, arena, block);
        work->stream = atomic_load(&arena->stream);
        if (work->stream != NULL)
            tnri_stream_hold(work->stream);
    }
    tnri_arena_leave(arena);
    return is_there && work->stream != NULL;
}

/* Fills a stain, and enters it if that could be done. */
static void stain_fill(tnri_stream *stream, tnri_stain *stain)
{
    stain->is_filled = tnri_work_fill(stream, stain->base, TNRI_POISON, stain->end - stain->base);
    if (stain->is_filled)
        tnri_poison_add(stain);
}

/* In the order of the block's own stream. */
static void last_work_do(last_work *work, const tnri_arena *arena)
{
    tnri_visit visit;
    if (!trap_enter(arena, &visit))
        return;
    tnri_looks_poll(arena->device);
    if (work->canary_bytes > 0)
        tnri_look(work->stream, &(tnri_looked){.address = work->canary,
                                               .bytes = work->canary_bytes,
                                               .expected = TNRI_CANARY,
                                               .story = work->story});
    for (size_t i = 0; i < work->stains_count; i++)
        stain_fill(work->stream, &work->stains[i]);
    trap_leave(arena, &visit);
}

int tnri_trap_freeing(tnri_block *block, void *ptr, int is_sync)
{
    last_work work;
    if (!last_work_make(&work, block, ptr, is_sync))
        return is_sync;
    tnri_poison_forget(work.story.base, work.story.base + work.bytes);
    if (!work.is_sync)
        last_work_do(&work, block->world->arena);
    for (size_t i = 0; work.is_sync && i < work.stains_count; i++)
        tnri_poison_add(&work.stains[i]);
    tnri_stream_drop(work.stream);
    return work.is_sync;
}

void tnri_trap_fenced(tnri_block *block, uint32_t freed, tnri_stream *stream)
{
    tnri_arena *arena = block->world->arena;
    tnri_visit visit;
    tnri_stain stain;
    uintptr_t canary;
    tnri_arena_enter(arena);
    uintptr_t base = block->base;
    uintptr_t end = tnri_block_end(block);
    tnri_story story = tnri_story_of(arena, block);
    size_t canary_bytes = tnri_canary_take(block, &canary);
    tnri_arena_leave(arena);
    story.freed = freed;
    if (!trap_enter(arena, &visit)) {
        tnri_poison_forget(base, end);
        return;
    }
    if (canary_bytes > 0)
        tnri_look(stream, &(tnri_looked){.address = canary,
                                         .bytes = canary_bytes,
                                         .expected = TNRI_CANARY,
                                         .story = story});
    while (tnri_poison_fill_next(base, end, &stain))
        if (!tnri_work_fill(stream, stain.base, TNRI_POISON, stain.end - stain.base))
            tnri_poison_forget(stain.base, stain.end);
    trap_leave(arena, &visit);
}

void tnri_trap_freed(tnri_arena *arena)
{
    if (arena->is_guard)
        tnri_guard_sweep(arena, tnri_conf_get()->guard == TNRI_GUARD_WAIT);
}

/* ---- the end -------------------------------------------------------------------------------- */

void tnri_trap_device_ending(tnri_device *device)
{
    tnri_trap_last_look(device);
    tnri_looks_end(device);
    tnri_poison_forget(device->range_base, device->range_base + device->range_bytes);
}
