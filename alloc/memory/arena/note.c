/* SPDX-License-Identifier: Apache-2.0 */
/* Telling the history: see note.h. */
#include "memory/arena/note.h"

#include <stdio.h>
#include <string.h>

#include "base/thread_number.h"
#include "log/origins.h"
#include "log/texts.h"
#include "memory/device/device.h"

/* ---- an arena's memory ---------------------------------------------------------------------- */

/* Most pools have the name that they were given for want of another; it need not be kept. */
static uint32_t pool_name(const tnri_account *pool)
{
    char usual[TNRI_POOL_NAME_BYTES];
    snprintf(usual, sizeof(usual), "pool %u", pool->id);
    return strcmp(usual, pool->name) == 0 ? 0 : tnri_text_number(pool->name, NULL);
}

/* What the history calls a stream by; null: none. From here on tnri_origins_name has to be told of
 * a new name. */
static const _Atomic uint32_t *stream_name(tnri_stream *stream)
{
    if (stream != NULL)
        atomic_store(&stream->has_origins, 1);
    return stream == NULL ? NULL : &stream->name;
}

/* Writes the place of an arena down, and says that it has. */
uint32_t tnri_origin_make(tnri_arena *arena)
{
    const tnri_account *pool = arena->account;
    tnri_stream *stream = atomic_load(&arena->stream);
    tnri_origin origin = {
        .device = arena->device->index,
        .pool = pool->id,
        .pool_name = pool_name(pool),
        .is_graph = pool->is_graph,
        .arena = arena->number,
        .stream = tnri_arena_handle(arena),
        .thread = stream == NULL ? 0 : stream->thread,
        .stream_number = stream == NULL ? 0 : stream->number,
        .is_ended = stream != NULL && atomic_load(&stream->seal) != NULL,
    };
    arena->origin = tnri_origin_add(&origin, stream_name(stream));
    if (arena->origin != 0)
        arena->origin_last = arena->origin;
    return arena->origin;
}

void tnri_note_reuse(tnri_arena *arena, const tnri_block *block, tnr_reuse reason)
{
    if (!tnri_is_noting())
        return;
    tnri_assert_held(&arena->lock);
    tnri_note_record(tnri_arena_origin(arena), arena->order++, TNRI_NOTED_REUSE,
                     TNRI_WHY_REUSE + (unsigned)reason, block->base, block->bytes,
                     tnri_block_requested(block), 0);
}

void tnri_note_grown(tnri_arena *arena, tnri_block *block, size_t requested, size_t grown)
{
    if (!tnri_is_noting())
        return;
    tnri_note_stamp(tnri_note_here(), tnri_ticks(), block);
    tnri_note_memory(arena, TNRI_NOTED_GROW, block->base, block->bytes, requested, grown);
}

void tnri_note_freed_because(tnri_arena *arena, const tnri_block *block, tnr_reuse reason)
{
    if (!tnri_is_noting())
        return;
    tnri_assert_held(&arena->lock);
    tnri_note_record(tnri_arena_origin(arena), arena->order++, TNRI_NOTED_FREE,
                     TNRI_WHY_REUSE + (unsigned)reason, block->base, block->bytes,
                     tnri_block_requested(block), 0);
}

void tnri_note_memory(tnri_arena *arena, tnri_kind kind, uintptr_t address, size_t bytes,
                      size_t requested, uint64_t value)
{
    if (!tnri_is_noting())
        return;
    tnri_assert_held(&arena->lock);
    tnri_note_record(tnri_arena_origin(arena), arena->order++, kind, TNRI_WHY_NONE, address, bytes,
                     requested, value);
}

/* ---- pools, and moments --------------------------------------------------------------------- */

void tnri_note_pool(const tnri_account *pool, const tnr_stream *stream, tnri_kind kind,
                    size_t bytes, uint64_t value)
{
    if (!tnri_is_noting())
        return;
    tnri_stream *known = stream == NULL ? NULL : tnri_stream_look(pool->device, *stream);
    tnri_origin origin = {
        .device = pool->device->index,
        .pool = pool->id,
        .pool_name = pool_name(pool),
        .is_graph = pool->is_graph,
        .stream = stream == NULL ? NULL : *stream,
        .has_no_stream = stream == NULL,
        .thread = stream != NULL && *stream == TNRI_STREAM_PER_THREAD ? tnri_thread_number() : 0,
        .stream_number = known == NULL ? 0 : known->number,
    };
    tnri_note_record(tnri_origin_find(&origin, stream_name(known)), 0, kind, TNRI_WHY_NONE, 0,
                     bytes, bytes, value);
    if (known != NULL)
        tnri_stream_drop(known);
}

void tnri_note_graph(const tnri_account *pool, tnr_stream stream, tnri_kind kind, uint64_t number)
{
    tnri_note_pool(pool, &stream, kind, 0, number);
}

tnri_noted_launch tnri_note_launch(const tnri_device *device, const tnri_account *pool,
                                   tnr_stream stream, uint64_t number)
{
    if (!tnri_is_noting())
        return (tnri_noted_launch){0, 0};
    tnri_stream *known = tnri_stream_look(device, stream);
    tnri_origin origin = {
        .device = device->index,
        .pool = pool == NULL ? 0 : pool->id,
        .pool_name = pool == NULL ? 0 : pool_name(pool),
        .is_graph = pool != NULL && pool->is_graph,
        .has_no_pool = pool == NULL,
        .is_launch = 1,
        .stream = stream,
        .thread = stream == TNRI_STREAM_PER_THREAD ? tnri_thread_number() : 0,
        .stream_number = known == NULL ? 0 : known->number,
    };
    tnri_noted_launch noted = {tnri_ticks(), tnri_origin_find(&origin, stream_name(known))};
    tnri_note_write(tnri_note_here(), noted.ticks, noted.origin, 0, TNRI_NOTED_LAUNCH,
                    TNRI_WHY_NONE, 0, 0, 0, number);
    if (known != NULL)
        tnri_stream_drop(known);
    return noted;
}

void tnri_note_launch_over(tnri_noted_launch launch)
{
    if (tnri_is_noting())
        tnri_note_record(launch.origin, 0, TNRI_NOTED_LAUNCH_OVER, TNRI_WHY_NONE, 0, 0, 0,
                         launch.ticks);
}

void tnri_note_oom(const tnri_arena *arena, size_t bytes, uint64_t free_bytes)
{
    tnr_stream stream = tnri_arena_handle(arena);
    tnri_note_pool(arena->account, arena->account->is_graph ? NULL : &stream, TNRI_NOTED_OOM, bytes,
                   free_bytes);
}
