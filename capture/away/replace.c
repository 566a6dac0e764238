/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks replaced by smaller ones at the same addresses: see replace.h. */
#include "away/replace.h"

#include "away/staging.h"
#include "base/array.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "memory/arena/note.h"
#include "memory/arena/world_move.h"
#include "memory/pool/pool.h"
#include "miss/ladder.h"
#include "miss/reclaim.h"
#include "miss/stale.h"

/* ---- what they have in common --------------------------------------------------------------- */

static tnri_world *world_of(const tnri_replacing *self)
{
    return self->loose[0].stale->world;
}

static size_t pages_bytes(const tnri_replacing *self, size_t pages)
{
    return pages << self->pool->device->space.page_shift;
}

static void piece_add(tnri_replacing *self, size_t page, size_t end)
{
    if (page == end)
        return;
    self->pieces[self->pieces_count++] = (tnri_piece){page, end - page, NULL};
    self->pieces_pages += end - page;
}

/* What lies between the loose stretches. */
static tnr_status pieces_list(tnri_replacing *self)
{
    const tnri_chunk *old = self->loose[0].chunk;
    size_t page = old->page;
    self->pieces_count = self->pieces_pages = 0;
    self->pieces = tnri_host_alloc((self->count + 1) * sizeof(self->pieces[0]));
    if (self->pieces == NULL ||
        !TNRI_ARRAY_GROW(self->sleeper->kept, self->sleeper->kept_room, self->count + 1) ||
        !TNRI_ARRAY_GROW(self->sleeper->chunks, self->sleeper->chunks_room, self->count + 1))
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the parts of a chunk.");
    for (size_t i = 0; i < self->count; i++) {
        piece_add(self, page, self->loose[i].page);
        page = self->loose[i].page + self->loose[i].pages;
    }
    piece_add(self, page, old->page + old->pages);
    tnri_assert(self->pieces_count > 0 && self->pieces_pages == self->loose[0].chunk_used);
    return TNR_OK;
}

/* Gives the new chunks back, which nobody needs; they are mapped nowhere. */
static void pieces_release(tnri_replacing *self)
{
    for (size_t i = 0; i < self->pieces_count; i++)
        if (self->pieces[i].chunk != NULL)
            tnri_chunk_release(self->pool->device, self->pieces[i].chunk);
}

static void pieces_free(tnri_replacing *self)
{
    tnri_host_free(self->pieces, (self->count + 1) * sizeof(self->pieces[0]));
    self->pieces = NULL;
}

/* The new chunks, which are HELD or ASLEEP, take the place of the old one, which is, too. Gives the
 * old one back. */
static void pieces_enter(tnri_replacing *self)
{
    tnri_world *world = world_of(self);
    tnri_arena *arena = world->arena;
    tnri_space *space = world->space;
    tnri_chunk *old = self->loose[0].chunk;
    uint64_t placed = atomic_load_explicit(&old->placed, memory_order_relaxed);
    tnri_assert(old->state >= TNRI_CHUNK_HELD);
    tnri_arena_enter(arena);
    tnri_pool_note_mapping(arena, 0, tnri_page_address(space, old->page),
                           pages_bytes(self, old->pages));
    for (size_t i = 0; i < self->count; i++) {
        tnri_loose *loose = &self->loose[i];
        uintptr_t base = tnri_page_address(space, loose->page);
        size_t bytes = pages_bytes(self, loose->pages);
        for (size_t p = 0; p < loose->pages; p++)
            space->pages[loose->page + p] = NULL;
        tnri_note_memory(arena, TNRI_NOTED_UNMAP, base, bytes, bytes, 0);
        tnri_world_hole(world, loose->stale);
        loose->stale = NULL;
    }
    for (size_t i = 0; i < self->pieces_count; i++) {
        const tnri_piece *piece = &self->pieces[i];
        for (size_t p = 0; p < piece->pages; p++)
            space->pages[piece->page + p] = piece->chunk;
        piece->chunk->page = piece->page;
        piece->chunk->home = piece->page;
        piece->chunk->kept_until = SIZE_MAX;
        atomic_store_explicit(&piece->chunk->placed, placed, memory_order_relaxed);
        tnri_pool_note_mapping(arena, 1, tnri_page_address(space, piece->page),
                               pages_bytes(self, piece->pages));
    }
    tnri_arena_leave(arena);
    tnri_chunk_release(self->pool->device, old);
}

/* The pool has to sleep. Its memory is all there, so a failed wake gives none of it back. */
static void sleeper_needs_all(tnri_replacing *self)
{
    const tnri_piece *piece = &self->pieces[0];
    const tnri_space *space = &self->pool->device->space;
    self->sleeper->kept[0] =
        (tnri_kept){tnri_page_address(space, piece->page), pages_bytes(self, piece->pages)};
    self->sleeper->kept_count = 1;
    self->sleeper->kept_bytes = self->sleeper->kept[0].bytes;
    self->sleeper->kept_out = 0;
    self->is_asleep = 1;
}

/* ---- addresses for copies ------------------------------------------------------------------- */

/* More addresses for a world. */
static tnr_status world_widen(tnri_world *world, size_t bytes)
{
    tnri_arena *arena = world->arena;
    tnri_span *span;
    size_t wanted = (size_t)64 << 20;
    while (wanted < bytes)
        wanted *= 2;
    tnr_status status = tnri_ladder_take_span(&span, arena->device, wanted, bytes);
    if (status != TNR_OK)
        return status;
    tnri_arena_enter(arena);
    int is_added = world->spans_own < TNRI_SPANS_MAX && tnri_world_spares(world, 1);
    if (is_added)
        tnri_world_add_span(world, span);
    tnri_arena_leave(arena);
    if (is_added)
        return TNR_OK;
    tnri_space_return(world->space, span);
    return tnri_error(TNR_ERR_ADDRESS_SPACE,
                      "no addresses for a copy: a stream of device %d has used up its %d ranges, "
                      "or host memory.",
                      arena->device->index, TNRI_SPANS_MAX);
}

/* Claims so many bytes of a hole. Null: there is no such hole, or no host memory. */
static tnri_block *hole_claim(tnri_world *world, size_t bytes, int *is_starved)
{
    tnri_block *claim = NULL;
    tnri_arena_enter(world->arena);
    tnri_block *hole = world->holes;
    while (hole != NULL && hole->bytes < bytes)
        hole = hole->next;
    /* One more record for what the driver may refuse to unmap. */
    *is_starved = !tnri_world_spares(world, TNRI_CARVE_RECORDS + 1);
    if (hole != NULL && !*is_starved && tnri_world_promise(world, 1))
        claim = tnri_world_claim(world, hole, hole->base, hole->base + bytes);
    tnri_arena_leave(world->arena);
    return claim;
}

static tnr_status scratch_claim(tnri_world *world, size_t bytes, tnri_block **scratch)
{
    int is_starved;
    *scratch = hole_claim(world, bytes, &is_starved);
    if (*scratch != NULL)
        return TNR_OK;
    tnr_status status = is_starved ? TNR_OK : world_widen(world, bytes);
    if (status == TNR_OK)
        *scratch = hole_claim(world, bytes, &is_starved);
    if (status != TNR_OK || *scratch != NULL)
        return status;
    return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the record of a range.");
}

/* Ends the claim. The first `pages` of it are still mapped: to be unmapped later, or, with
 * `stays`, for good, as free memory of the pool. */
static void scratch_leave(tnri_replacing *self, tnri_block *scratch, size_t pages, int stays)
{
    tnri_world *world = scratch->world;
    size_t first = tnri_page_of(world->space, scratch->base);
    tnri_arena_enter(world->arena);
    for (size_t p = 0; p < pages && !stays; p++)
        world->space->pages[first + p] = &tnri_mapping_refused;
    for (size_t i = 0; stays && i < self->pieces_count; i++) {
        tnri_piece *piece = &self->pieces[i];
        for (size_t p = 0; p < piece->pages; p++)
            world->space->pages[first + p] = piece->chunk;
        piece->chunk->page = first;
        piece->chunk->home = first;
        piece->chunk->kept_until = SIZE_MAX;
        first += piece->pages;
        piece->chunk = NULL;
    }
    tnri_world_unpromise(world, 1);
    (void)tnri_world_unclaim(world, scratch, tnri_stale_add_done, NULL);
    tnri_arena_leave(world->arena);
}

/* ---- by the device -------------------------------------------------------------------------- */

static tnr_status pieces_create(tnri_replacing *self)
{
    tnr_status status = TNR_OK;
    for (size_t i = 0; i < self->pieces_count && status == TNR_OK; i++)
        status = tnri_chunk_create(&self->pool->account, self->pieces[i].pages,
                                   self->loose[0].chunk->is_small, &self->pieces[i].chunk);
    return status;
}

/* Maps the new chunks one after the other. *pages, *mappings: what is mapped then. */
static tnr_status scratch_map(tnri_replacing *self, size_t first, size_t *pages, size_t *mappings)
{
    tnri_device *device = self->pool->device;
    for (size_t i = 0; i < self->pieces_count; i++) {
        tnr_status status = tnri_chunk_map(device, self->pieces[i].chunk, first + *pages);
        if (status != TNR_OK)
            return status;
        *pages += self->pieces[i].pages;
        ++*mappings;
    }
    return tnri_pages_access(device, &self->pool->account.access, first, *pages);
}

/* Copies what is in use to the new chunks. All copies are over on return, or the staging is
 * busy. */
static tnr_status scratch_copy(tnri_replacing *self, size_t first)
{
    tnri_device *device = self->pool->device;
    CUstream stream = tnri_staging_of(device)->stream;
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < self->pieces_count && result == CUDA_SUCCESS; i++) {
        const tnri_piece *piece = &self->pieces[i];
        result = tnri_gpu_copy(tnri_page_address(&device->space, first),
                               tnri_page_address(&device->space, piece->page),
                               pages_bytes(self, piece->pages), stream);
        first += piece->pages;
    }
    tnr_status status = tnri_staging_wait(device);
    return status != TNR_OK || result == CUDA_SUCCESS
               ? status
               : tnri_driver_error(result, TNRI_GPU_COPY, "copying what is in use");
}

/* Makes copies in the new chunks, which are HELD then. Nothing else has changed. */
static tnr_status pieces_fill(tnri_replacing *self)
{
    tnri_device *device = self->pool->device;
    tnri_block *scratch;
    size_t pages = 0, mappings = 0;
    tnr_status status = tnri_staging_open(device);
    if (status == TNR_OK)
        status = scratch_claim(world_of(self), pages_bytes(self, self->pieces_pages), &scratch);
    if (status != TNR_OK)
        return status;
    size_t first = tnri_page_of(&device->space, scratch->base);
    status = scratch_map(self, first, &pages, &mappings);
    if (status == TNR_OK)
        status = scratch_copy(self, first);
    if (tnri_staging_of(device)->is_busy) {
        /* Copies may be under way. A wake waits for them before anything else. */
        sleeper_needs_all(self);
        scratch_leave(self, scratch, pages, 1);
        return status;
    }
    tnri_error_aside failed;
    tnri_error_take(&failed);
    tnr_status left = mappings == 0 ? TNR_OK : tnri_pages_unmap(device, first, pages, mappings);
    scratch_leave(self, scratch, left == TNR_OK ? 0 : pages, 0);
    if (status != TNR_OK)
        tnri_error_restore(&failed);
    for (size_t i = 0; i < self->pieces_count; i++)
        self->pieces[i].chunk->state = TNRI_CHUNK_HELD;
    return status == TNR_OK ? left : status;
}

/* Maps the new chunks where the old one was. */
static tnr_status pieces_map(tnri_replacing *self, uint64_t placed)
{
    tnr_status status = TNR_OK;
    for (size_t i = 0; i < self->pieces_count && status == TNR_OK; i++) {
        tnri_chunk *chunk = self->pieces[i].chunk;
        status = tnri_chunk_wake(self->pool->device, chunk);
        if (status != TNR_OK) /* once more: the way back is the same way */
            status = tnri_chunk_wake(self->pool->device, chunk);
        /* The contents are those of before, poison too. */
        atomic_store_explicit(&chunk->placed, placed, memory_order_relaxed);
    }
    return status;
}

/* The optional entry points that copies on the device need are there. */
static tnr_status copies_check(void)
{
    if (tnri_gpu_has(TNRI_GPU_COPY) && tnri_gpu_has(TNRI_GPU_STREAM_AWAIT))
        return TNR_OK;
    return tnri_error(TNR_ERR_DRIVER_TOO_OLD,
                      "the driver lacks calls for copying on the device. Install a newer NVIDIA "
                      "driver.");
}

tnr_status tnri_replace(tnri_replacing *self)
{
    tnri_chunk *old = self->loose[0].chunk;
    uint64_t placed = atomic_load_explicit(&old->placed, memory_order_relaxed);
    tnr_status status = copies_check();
    if (status == TNR_OK)
        status = pieces_list(self);
    if (status == TNR_OK)
        status = pieces_create(self);
    if (status == TNR_OK)
        status = pieces_fill(self);
    if (status == TNR_OK)
        status = tnri_chunk_unplace(self->pool->device, old);
    if (status == TNR_OK) {
        pieces_enter(self);
        status = pieces_map(self, placed);
        if (status != TNR_OK)
            sleeper_needs_all(self);
    } else if (self->pieces != NULL) {
        tnri_error_aside failed;
        tnri_error_take(&failed);
        pieces_release(self);
        tnri_error_restore(&failed);
    }
    pieces_free(self);
    return status;
}

/* ---- by way of the host --------------------------------------------------------------------- */

static tnr_status pieces_create_asleep(tnri_replacing *self)
{
    for (size_t i = 0; i < self->pieces_count; i++) {
        tnri_piece *piece = &self->pieces[i];
        piece->chunk = tnri_chunk_create_asleep(self->loose[0].chunk, piece->pages, piece->page);
        if (piece->chunk == NULL)
            return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the record of a chunk.");
    }
    return TNR_OK;
}

/* Lists the old chunk alone, and what is kept of it, and takes buffers for that. */
static tnr_status sleeper_begin(tnri_replacing *self)
{
    tnri_device *device = self->pool->device;
    tnri_sleeper *sleeper = self->sleeper;
    sleeper->kept_count = self->pieces_count;
    sleeper->kept_bytes = pages_bytes(self, self->pieces_pages);
    for (size_t i = 0; i < self->pieces_count; i++)
        sleeper->kept[i] = (tnri_kept){tnri_page_address(&device->space, self->pieces[i].page),
                                       pages_bytes(self, self->pieces[i].pages)};
    sleeper->chunks[0] = self->loose[0].chunk;
    sleeper->chunks_count = 1;
    sleeper->chunks[0]->kept_until = sleeper->kept_bytes;
    size_t room = tnri_buffers_bytes(tnri_buffers_for(sleeper->kept_bytes));
    tnr_status status = tnri_staging_check(device, room);
    return status != TNR_OK ? status
                            : tnri_staging_take(device, sleeper->kept_bytes, 0, &sleeper->buffers);
}

/* Brings the chunks of the sleeper back, with their contents if these have gone. */
static tnr_status sleeper_return(tnri_replacing *self)
{
    tnri_device *device = self->pool->device;
    tnr_status status = tnri_sleeper_raise(self->sleeper, device, self->sleeper->is_lost);
    tnr_status waited = tnri_staging_wait(device);
    return status == TNR_OK ? waited : status;
}

/* The old chunk's contents go to the host, and its memory to the driver; on an error it comes
 * back. */
static tnr_status old_lower(tnri_replacing *self)
{
    tnri_device *device = self->pool->device;
    tnri_sleeper *sleeper = self->sleeper;
    tnri_error_aside failed;
    tnr_status status = tnri_sleeper_copy_out(sleeper, device);
    if (status == TNR_OK)
        status = tnri_sleeper_lower(sleeper, device);
    tnri_error_take(&failed);
    int is_busy = status != TNR_OK && tnri_staging_wait(device) != TNR_OK;
    tnri_sleeper_unmark(sleeper);
    if (status == TNR_OK)
        return TNR_OK;
    if (is_busy || sleeper_return(self) != TNR_OK)
        self->is_asleep = 1;
    tnri_error_restore(&failed);
    return status;
}

/* The new chunks get memory, and the contents. What is short is asked of idle memory once. */
static tnr_status pieces_raise(tnri_replacing *self)
{
    tnri_device *device = self->pool->device;
    tnri_sleeper *sleeper = self->sleeper;
    for (size_t i = 0; i < self->pieces_count; i++) {
        sleeper->chunks[i] = self->pieces[i].chunk;
        sleeper->chunks[i]->kept_until = sleeper->kept_bytes;
    }
    sleeper->chunks_count = self->pieces_count;
    tnr_status status = sleeper_return(self);
    if (status != TNR_OK && !tnri_staging_of(device)->is_busy) {
        (void)tnri_release_idle(device, NULL, sleeper->kept_bytes, 1, NULL);
        status = sleeper_return(self);
    }
    self->is_asleep = status != TNR_OK;
    return status;
}

tnr_status tnri_replace_by_host(tnri_replacing *self)
{
    const tnri_chunk *old = self->loose[0].chunk;
    tnr_status status = pieces_list(self);
    if (status == TNR_OK)
        status = tnri_chunk_exchange_check(&self->pool->account, pages_bytes(self, old->pages),
                                           pages_bytes(self, self->pieces_pages));
    if (status == TNR_OK)
        status = pieces_create_asleep(self);
    if (status == TNR_OK)
        status = sleeper_begin(self);
    if (status == TNR_OK)
        status = old_lower(self);
    if (status == TNR_OK) {
        pieces_enter(self);
        status = pieces_raise(self);
    } else {
        pieces_release(self);
    }
    pieces_free(self);
    if (!self->is_asleep)
        tnri_sleeper_clear(self->sleeper, self->pool->device);
    return status;
}
