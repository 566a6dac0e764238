/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of a sleeping pool, and where it lies: see sleeper.h. */
#include "away/sleeper.h"

#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "memory/arena/range.h"

/* Free memory up to this size between two kept stretches is copied along: many small copies cost
 * more than a few bytes. */
enum { GAP_BYTES = 64 << 10 };

/* ---- life ----------------------------------------------------------------------------------- */

tnr_status tnri_sleeper_settle(tnr_pool pool)
{
    tnri_device *device = pool->device;
    tnri_sleeper *sleeper = pool->asleep.sleeper;
    tnri_staging_claim(device);
    tnr_status status = tnri_staging_of(device)->is_busy ? tnri_staging_wait(device) : TNR_OK;
    if (status == TNR_OK) {
        sleeper->kept_count = 0;
        sleeper->kept_bytes = 0;
        tnri_staging_give(device, sleeper->buffers, sleeper->keeps_buffers);
        sleeper->buffers = NULL;
    }
    tnri_staging_unclaim(device);
    return status;
}

void tnri_sleeper_end(tnr_pool pool)
{
    tnri_sleeper *sleeper = pool->asleep.sleeper;
    tnri_staging_claim(pool->device);
    tnri_sleeper_clear(sleeper, pool->device);
    tnri_staging_unclaim(pool->device);
    tnri_host_free(sleeper, sizeof(*sleeper));
    pool->asleep.sleeper = NULL;
}

tnri_sleeper *tnri_sleeper_of(tnr_pool pool)
{
    if (pool->asleep.sleeper == NULL)
        pool->asleep.sleeper = tnri_host_alloc(sizeof(tnri_sleeper));
    return pool->asleep.sleeper;
}

void tnri_sleeper_clear(tnri_sleeper *sleeper, tnri_device *device)
{
    tnri_assert(sleeper->marks_count == 0);
    tnri_staging_give(device, sleeper->buffers, sleeper->keeps_buffers);
    tnri_host_free(sleeper->chunks, sleeper->chunks_room * sizeof(sleeper->chunks[0]));
    tnri_host_free(sleeper->kept, sleeper->kept_room * sizeof(sleeper->kept[0]));
    memset(sleeper, 0, sizeof(*sleeper));
}

/* ---- listing -------------------------------------------------------------------------------- */

static int chunk_add(tnri_sleeper *sleeper, tnri_chunk *chunk)
{
    if (!TNRI_ARRAY_GROW(sleeper->chunks, sleeper->chunks_room, sleeper->chunks_count + 1))
        return 0;
    sleeper->chunks[sleeper->chunks_count++] = chunk;
    return 1;
}

/* Adds a stretch, or makes the last one longer if nothing but mapped memory, `is_joined`, and
 * little of it, lies in between. */
static int kept_add(tnri_sleeper *sleeper, const tnri_block *block, int is_joined)
{
    tnri_kept *last = sleeper->kept_count == 0 ? NULL : &sleeper->kept[sleeper->kept_count - 1];
    if (is_joined && last != NULL && block->base - (last->base + last->bytes) <= GAP_BYTES) {
        size_t longer = tnri_block_end(block) - (last->base + last->bytes);
        last->bytes += longer;
        sleeper->kept_bytes += longer;
        return 1;
    }
    if (!TNRI_ARRAY_GROW(sleeper->kept, sleeper->kept_room, sleeper->kept_count + 1))
        return 0;
    sleeper->kept[sleeper->kept_count++] = (tnri_kept){block->base, block->bytes};
    sleeper->kept_bytes += block->bytes;
    return 1;
}

/* Whether a record's contents are kept. What is RETIRED after all uses have been waited for is kept
 * by a graph that may read it. */
static int block_is_kept(const tnri_arena *arena, const tnri_block *block, int keeps,
                         int keeps_free)
{
    unsigned content = tnri_range_content(arena, block);
    switch ((tnri_state)block->state) {
    case TNRI_LIVE:
        return content == TNR_CONTENT_DEFAULT ? keeps : content == TNR_CONTENT_KEEP;
    case TNRI_RETIRED:
        return keeps;
    case TNRI_FREE:
    case TNRI_BINNED:
        return keeps_free;
    default:
        return 0;
    }
}

/* Lists the chunks that begin in a record. */
static int block_list_chunks(tnri_sleeper *sleeper, const tnri_space *space,
                             const tnri_block *block)
{
    size_t end = tnri_page_of(space, tnri_block_end(block) - 1) + 1;
    for (size_t page = tnri_page_of(space, block->base); page < end; page++) {
        tnri_chunk *chunk = space->pages[page];
        /* Each chunk once: by the record that its first byte lies in. */
        if (chunk != NULL && chunk->page == page && tnri_page_address(space, page) >= block->base &&
            !chunk_add(sleeper, chunk))
            return 0;
    }
    return 1;
}

/* Which contents a listing is about. */
typedef struct keeping {
    int is_wanted; /* 0: chunks only */
    int keeps, keeps_free;
} keeping;

/* Lists an arena. Under its lock. */
static int arena_list(tnri_sleeper *sleeper, tnri_arena *arena, keeping what)
{
    const tnri_space *space = &arena->device->space;
    for (int i = 0; i < TNRI_WORLDS; i++)
        for (size_t s = 0; s < arena->worlds[i].spans_count; s++) {
            int is_joined = 0;
            for (tnri_block *block = arena->worlds[i].span_first[s]; block != NULL;
                 block = block->above) {
                if (block->state == TNRI_HOLE || block->state == TNRI_ALIAS) {
                    is_joined = 0;
                    continue;
                }
                if (!block_list_chunks(sleeper, space, block))
                    return 0;
                if (!what.is_wanted)
                    continue;
                if (!block_is_kept(arena, block, what.keeps, what.keeps_free)) {
                    if (block->state == TNRI_LIVE || block->state == TNRI_RETIRED)
                        block->holds = 0; /* its canary goes with the contents */
                    continue;
                }
                if (!kept_add(sleeper, block, is_joined))
                    return 0;
                is_joined = 1;
            }
        }
    return 1;
}

static tnr_status pool_list(tnri_sleeper *sleeper, tnr_pool pool, keeping what)
{
    int is_listed = 1;
    sleeper->chunks_count = 0;
    for (tnri_arena *arena = NULL; is_listed && (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        tnri_arena_enter(arena);
        is_listed = arena_list(sleeper, arena, what);
        tnri_arena_leave(arena);
    }
    if (is_listed)
        return TNR_OK;
    sleeper->chunks_count = 0;
    return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the list of what a pool has.");
}

/* Tells each chunk how far the contents reach that it has a part of. */
static void chunks_note(const tnri_sleeper *sleeper, const tnri_space *space)
{
    size_t before = 0;
    for (size_t c = 0; c < sleeper->chunks_count; c++)
        sleeper->chunks[c]->kept_until = 0;
    for (size_t i = 0; i < sleeper->kept_count; i++) {
        const tnri_kept *kept = &sleeper->kept[i];
        size_t end = tnri_page_of(space, kept->base + kept->bytes - 1) + 1;
        for (size_t page = tnri_page_of(space, kept->base); page < end;) {
            tnri_chunk *chunk = space->pages[page];
            page = chunk->page + chunk->pages;
            size_t reached = tnri_page_address(space, page) - kept->base;
            chunk->kept_until = before + (reached < kept->bytes ? reached : kept->bytes);
        }
        before += kept->bytes;
    }
}

tnr_status tnri_sleeper_list(tnri_sleeper *sleeper, tnr_pool pool, tnr_content content)
{
    int keeps = content != TNR_CONTENT_DISCARD;
    int replays = pool->account.is_graph || pool->account.is_vouched;
    tnr_status status = pool_list(sleeper, pool, (keeping){1, keeps, keeps && replays});
    if (status == TNR_OK)
        chunks_note(sleeper, &pool->device->space);
    else
        tnri_sleeper_clear(sleeper, pool->device);
    return status;
}

tnr_status tnri_sleeper_list_chunks(tnri_sleeper *sleeper, tnr_pool pool)
{
    return pool_list(sleeper, pool, (keeping){0});
}
