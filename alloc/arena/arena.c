/* SPDX-License-Identifier: Apache-2.0 */
/* The cached path of an arena: see arena.h. */
#include "arena/arena.h"

#include "arena/grow.h"
#include "arena/ladder.h"
#include "arena/run.h"
#include "arena/upper.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "conf/conf.h"
#include "device/device.h"
#include "history/note.h"
#include "pool/lane.h"
#include "pool/thread.h"

_Atomic(const tnri_upper *) tnri_upper_table;
_Atomic(const tnri_captures *) tnri_captures_table;

tnri_arena *tnri_arena_create(struct tnri_device *device, struct tnr_pool_st *pool,
                              tnri_stream *stream)
{
    tnri_arena *arena = tnri_host_alloc(sizeof(*arena));
    if (arena == NULL)
        return NULL;
    static _Atomic uint32_t last_number;
    const tnri_conf *conf = tnri_conf_get();
    tnri_lock_init(&arena->lock, TNRI_RANK_ARENA);
    arena->number = atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed) + 1;
    arena->born = tnri_gate() >> TNRI_GATE_NUMBER_SHIFT;
    if (stream != NULL)
        tnri_stream_hold(stream);
    atomic_init(&arena->stream, stream);
    arena->device = device;
    arena->pool = pool;
    arena->small_limit_bytes = (size_t)conf->small_limit_kb << 10;
    size_t bin_blocks = stream == NULL ? 0 : conf->bin_blocks;
    tnri_world_create(&arena->worlds[TNRI_SMALL], arena, &device->space, 1, bin_blocks);
    tnri_world_create(&arena->worlds[TNRI_LARGE], arena, &device->space, 0, bin_blocks > 0);
    /* Blocks larger than a granule do not share one, nor does a growable block its span. */
    arena->worlds[TNRI_LARGE].has_many = arena->small_limit_bytes < TNRI_GRANULE_BYTES;
    return arena;
}

void tnri_arena_dissolve(tnri_arena *arena)
{
    if (arena->growable.base != 0 || tnri_arena_is_graph(arena))
        return;
    tnri_arena_enter(arena);
    for (int i = 0; i < TNRI_WORLDS; i++)
        (void)tnri_world_dissolve(&arena->worlds[i]);
    tnri_lock_release(&arena->lock);
}

void tnri_arena_destroy(tnri_arena *arena)
{
    tnri_stream *stream = atomic_load(&arena->stream);
    tnri_note_arena_gone(arena);
    if (stream != NULL)
        tnri_stream_drop(stream);
    for (int i = 0; i < TNRI_WORLDS; i++)
        tnri_world_destroy(&arena->worlds[i]);
    tnri_host_free(arena, sizeof(*arena));
}

/* ---- serving -------------------------------------------------------------------------------- */

/* Takes what becomes live from the room below a peak; raises the peak if it does not suffice. */
static inline void room_take(uint64_t *room, uint64_t *peak, uint64_t amount)
{
    if (tnri_unlikely(__builtin_sub_overflow(*room, amount, room))) {
        *peak -= *room; /* which is below zero */
        *room = 0;
    }
}

/* What becomes live in a world, in its own room and in that of both. */
static inline void live_add(tnri_arena *arena, tnri_world *world, uint64_t blocks, uint64_t bytes,
                            uint64_t requested)
{
    room_take(&world->room.blocks, &world->peak.blocks, blocks);
    room_take(&world->room.bytes, &world->peak.bytes, bytes);
    room_take(&world->room.requested, &world->peak.requested, requested);
    room_take(&arena->room.blocks, &arena->peak.blocks, blocks);
    room_take(&arena->room.bytes, &arena->peak.bytes, bytes);
    room_take(&arena->room.requested, &arena->peak.requested, requested);
    world->ever.blocks += blocks;
    world->ever.bytes += bytes;
    world->ever.requested += requested;
}

static inline void live_subtract(tnri_arena *arena, tnri_world *world, uint64_t blocks,
                                 uint64_t bytes, uint64_t requested)
{
    world->room.blocks += blocks;
    world->room.bytes += bytes;
    world->room.requested += requested;
    arena->room.blocks += blocks;
    arena->room.bytes += bytes;
    arena->room.requested += requested;
}

static const tnri_world *world_of(const tnri_arena *arena, int tnr_world)
{
    return &arena->worlds[tnr_world == TNR_WORLD_SMALL ? TNRI_SMALL : TNRI_LARGE];
}

tnri_count tnri_arena_peak(const tnri_arena *arena, int tnr_world)
{
    return tnr_world == TNR_WORLD_ALL ? arena->peak : world_of(arena, tnr_world)->peak;
}

tnri_count tnri_arena_live(const tnri_arena *arena, int tnr_world)
{
    const tnri_count *room =
        tnr_world == TNR_WORLD_ALL ? &arena->room : &world_of(arena, tnr_world)->room;
    tnri_count live = tnri_arena_peak(arena, tnr_world);
    live.blocks -= room->blocks;
    live.bytes -= room->bytes;
    live.requested -= room->requested;
    return live;
}

tnri_count tnri_arena_ever(const tnri_arena *arena, int tnr_world)
{
    tnri_count ever = world_of(arena, tnr_world)->ever;
    if (tnr_world == TNR_WORLD_ALL) {
        const tnri_count *small = &arena->worlds[TNRI_SMALL].ever;
        ever.blocks += small->blocks;
        ever.bytes += small->bytes;
        ever.requested += small->requested;
    }
    return ever;
}

void tnri_arena_reset_peaks(tnri_arena *arena)
{
    tnri_assert_held(&arena->lock);
    const tnri_count none = {0, 0, 0};
    arena->peak = tnri_arena_live(arena, TNR_WORLD_ALL);
    arena->room = none;
    for (int i = 0; i < TNRI_WORLDS; i++) {
        tnri_world *world = &arena->worlds[i];
        world->peak = tnri_arena_live(arena, i == TNRI_SMALL ? TNR_WORLD_SMALL : TNR_WORLD_LARGE);
        world->room = none;
    }
}

uint64_t tnri_arena_live_count(const tnri_arena *arena)
{
    return tnri_arena_live(arena, TNR_WORLD_ALL).blocks;
}

static inline __attribute__((always_inline)) void count_served(tnri_arena *arena, tnri_world *world,
                                                               tnri_block *block, size_t bytes,
                                                               size_t requested, tnr_served served)
{
    tnri_assert_hot(block->state == TNRI_LIVE && block->bytes == bytes && block->world == world);
    block->what = tnri_block_what(TNRI_LIVE, bytes - requested);
    live_add(arena, world, 1, bytes, requested);
    arena->served[served]++;
}

void tnri_arena_count_served(tnri_arena *arena, tnri_block *block, const tnri_request *request,
                             tnr_served served)
{
    count_served(arena, block->world, block, block->bytes, request->bytes_requested, served);
    if (tnri_is_noting())
        tnri_note_served(tnri_thread_here(), tnri_ticks(), arena, block, request->bytes_requested,
                         served);
}

void tnri_arena_count_grown(tnri_arena *arena, tnri_block *block, size_t bytes, size_t requested)
{
    tnri_assert(block->state == TNRI_LIVE);
    size_t before = block->bytes - bytes - block->slack;
    live_add(arena, block->world, 0, bytes, requested - before);
    block->slack = (block->bytes - requested) & TNRI_SLACK_MASK;
    tnri_note_grown(arena, block, requested, bytes);
}

void tnri_arena_count_bare(tnri_arena *arena, int is_freed)
{
    tnri_world *world = &arena->worlds[TNRI_LARGE];
    if (is_freed) {
        live_subtract(arena, world, 1, 0, 0);
        return;
    }
    live_add(arena, world, 1, 0, 0);
    arena->served[TNR_SERVED_GROWN]++;
}

/* Keeps whether the block is stamped, and of one that is to wait what was asked for: a picture
 * tells both. */
static inline void count_freed(tnri_arena *arena, tnri_block *block)
{
    tnri_assert_hot(block->state == TNRI_LIVE);
    live_subtract(arena, block->world, 1, block->bytes, tnri_block_requested(block));
    block->content = 0;
}

void tnri_arena_count_freed(tnri_arena *arena, tnri_block *block)
{
    if (tnri_is_noting())
        tnri_note_freed(tnri_thread_here(), tnri_ticks(), arena, block);
    count_freed(arena, block);
}

void tnri_arena_count_freed_because(tnri_arena *arena, tnri_block *block, tnr_reuse reason)
{
    tnri_note_freed_because(arena, block, reason);
    count_freed(arena, block);
    block->slack = 0;
    arena->freed_because[reason]++;
}

size_t tnri_run_bytes_max(size_t bytes)
{
    size_t max_split = (size_t)tnri_conf_get()->max_split_size_mb << 20;
    if (tnri_likely(max_split == 0 || bytes >= max_split))
        return SIZE_MAX;
    return max_split - TNR_ALIGNMENT_DEFAULT;
}

/* The same at an alignment above the default one. */
static TNRI_SELDOM tnri_block *world_serve_aligned(tnri_world *world, tnri_block *run, size_t bytes,
                                                   size_t alignment)
{
    uintptr_t base = (run->base + alignment - 1) & ~(alignment - 1);
    tnri_assert_hot(tnri_block_end(run) - base >= bytes);
    if (!tnri_world_spares(world, TNRI_CARVE_RECORDS) ||
        !tnri_block_map_prepare(&world->space->map, base, world->is_small))
        return NULL;
    return tnri_world_carve(world, run, bytes, alignment);
}

/* Takes a block out of a run that has room for it; null if there is no host memory. */
static inline __attribute__((always_inline)) tnri_block *world_serve(tnri_world *world,
                                                                     tnri_block *run, size_t bytes,
                                                                     size_t alignment)
{
    tnri_assert_hot(run->world == world);
    if (tnri_unlikely(alignment != TNR_ALIGNMENT_DEFAULT))
        return world_serve_aligned(world, run, bytes, alignment);
    if (tnri_unlikely(!tnri_world_spares(world, TNRI_CARVE_RECORDS)))
        return NULL;
    tnri_map_entry *entry = tnri_run_entry(world, run->base);
    if (tnri_unlikely(entry == NULL))
        return NULL;
    tnri_run_carve(world, run, bytes, entry);
    return run;
}

tnri_block *tnri_arena_carve(tnri_arena *arena, tnri_block *run, const tnri_request *request)
{
    tnri_assert_held(&arena->lock);
    return world_serve(run->world, run, request->bytes, request->alignment);
}

static TNRI_SELDOM tnri_block *serve_index_aligned(tnri_world *world, size_t bytes,
                                                   size_t alignment, int *no_host)
{
    tnri_block *run =
        tnri_index_find_aligned(world->index, bytes, alignment, tnri_run_bytes_max(bytes));
    if (run == NULL)
        return NULL;
    tnri_block *block = world_serve_aligned(world, run, bytes, alignment);
    *no_host = block == NULL;
    return block;
}

static inline __attribute__((always_inline)) tnri_block *serve_index(tnri_world *world,
                                                                     size_t bytes, size_t alignment,
                                                                     int *no_host)
{
    if (tnri_unlikely(alignment != TNR_ALIGNMENT_DEFAULT))
        return serve_index_aligned(world, bytes, alignment, no_host);
    tnri_block *run = tnri_index_find(world->index, bytes, tnri_run_bytes_max(bytes));
    if (tnri_unlikely(run == NULL))
        return NULL;
    tnri_block *block = world_serve(world, run, bytes, TNR_ALIGNMENT_DEFAULT);
    *no_host = block == NULL;
    return block;
}

tnri_block *tnri_arena_serve_index(tnri_arena *arena, const tnri_request *request, int *no_host)
{
    tnri_assert_held(&arena->lock);
    return serve_index(tnri_arena_world(arena, request->bytes), request->bytes, request->alignment,
                       no_host);
}

/* A block of the bins, or null. */
static inline tnri_block *serve_bin(tnri_arena *arena, const tnri_request *request)
{
    if (request->alignment != TNR_ALIGNMENT_DEFAULT)
        return NULL;
    return tnri_world_unbin(tnri_arena_world(arena, request->bytes), request->bytes);
}

/* What the bins could not serve. The single block that the large world's bin may hold is merged
 * first, so that a run is chosen from all there is. */
static inline __attribute__((always_inline)) tnri_block *serve_unbinned(tnri_world *world,
                                                                        size_t bytes,
                                                                        size_t alignment,
                                                                        int *no_host)
{
    if (!world->is_small) {
        if (tnri_unlikely(world->count_in[TNRI_BINNED] > 0)) {
            world->bins.misses++;
            tnri_world_evict(world);
        }
        if (tnri_unlikely(bytes == world->bins.passed_bytes))
            world->bins.misses = TNRI_BIN_MISSES - 1; /* it would have been a hit: once more */
        world->bins.passed_bytes = 0;
    }
    return serve_index(world, bytes, alignment, no_host);
}

/* The same for all but the quickest way. */
static __attribute__((noinline)) tnri_block *serve_fresh(tnri_arena *arena,
                                                         const tnri_request *request, int *no_host)
{
    return serve_unbinned(tnri_arena_world(arena, request->bytes), request->bytes,
                          request->alignment, no_host);
}

tnri_block *tnri_arena_serve_cached(tnri_arena *arena, const tnri_request *request,
                                    tnr_served *served, int *no_host)
{
    tnri_assert_held(&arena->lock);
    tnri_block *block = serve_bin(arena, request);
    *served = block != NULL ? TNR_SERVED_BIN : TNR_SERVED_INDEX;
    return block != NULL ? block : serve_fresh(arena, request, no_host);
}

/* Goes on where the cached path ends; releases the lock. */
static TNRI_SELDOM tnr_status arena_malloc_end(tnri_arena *arena, const tnri_request *request,
                                               int no_host, void **ptr)
{
    tnri_lock_release(&arena->lock);
    if (no_host)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the record of a block.");
    return tnri_ladder_malloc(arena, request, ptr);
}

/* `seen`, a constant, is 1 if somebody looks: see history/gate.h. */
static inline __attribute__((always_inline)) tnr_status arena_malloc(tnri_arena *arena,
                                                                     const tnri_request *request,
                                                                     void **ptr, int seen)
{
    tnr_served served = TNR_SERVED_BIN;
    int no_host = 0;
    tnri_thread *thread = seen ? tnri_thread_here() : NULL;
    uint64_t ticks = seen ? tnri_ticks() : 0;
    int waited = seen ? tnri_arena_enter(arena) : tnri_lock_take(&arena->lock);
    if (tnri_unlikely(waited != 0))
        tnri_lane_waited(arena, waited);
    tnri_block *block = serve_bin(arena, request);
    if (block == NULL) {
        served = TNR_SERVED_INDEX;
        block = serve_fresh(arena, request, &no_host);
    }
    if (tnri_likely(block != NULL)) {
        count_served(arena, block->world, block, block->bytes, request->bytes_requested, served);
        if (seen && tnri_is_noting())
            tnri_note_served(thread, ticks, arena, block, request->bytes_requested, served);
        void *base = (void *)block->base;
        tnri_lock_release(&arena->lock);
        *ptr = base;
        return TNR_OK;
    }
    return arena_malloc_end(arena, request, no_host, ptr);
}

static __attribute__((noinline)) tnr_status arena_malloc_seen(tnri_arena *arena,
                                                              const tnri_request *request,
                                                              void **ptr)
{
    uint32_t began = tnri_note_begin();
    tnr_status status = arena_malloc(arena, request, ptr, 1);
    tnri_note_end(began);
    return status;
}

tnr_status tnri_arena_malloc(tnri_arena *arena, const tnri_request *request, void **ptr)
{
    if (tnri_unlikely((tnri_gate() & TNRI_GATE_OPEN) != 0))
        return arena_malloc_seen(arena, request, ptr);
    return arena_malloc(arena, request, ptr, 0);
}

/* The request of somebody who only said how many bytes. */
static inline tnri_request request_of(size_t bytes)
{
    return (tnri_request){bytes, tnri_bytes_rounded(bytes), TNR_ALIGNMENT_DEFAULT};
}

static TNRI_SELDOM tnr_status arena_malloc_end_quick(tnri_arena *arena, size_t bytes, int no_host,
                                                     void **ptr)
{
    tnri_request request = request_of(bytes);
    return arena_malloc_end(arena, &request, no_host, ptr);
}

/* For a thread that does not own the lock. */
static __attribute__((noinline)) tnr_status arena_malloc_shared(tnri_arena *arena, size_t bytes,
                                                                void **ptr)
{
    tnri_request request = request_of(bytes);
    *ptr = NULL;
    return arena_malloc(arena, &request, ptr, 0);
}

/* What no bin holds. The calling thread, which owns the lock, has it, and gives it back. */
static __attribute__((noinline)) tnr_status arena_malloc_unbinned(tnri_arena *arena,
                                                                  tnri_world *world, size_t bytes,
                                                                  void **ptr)
{
    size_t rounded = tnri_bytes_rounded(bytes);
    int no_host = 0;
    tnri_block *block = serve_unbinned(world, rounded, TNR_ALIGNMENT_DEFAULT, &no_host);
    *ptr = NULL;
    if (tnri_likely(block != NULL)) {
        count_served(arena, world, block, rounded, bytes, TNR_SERVED_INDEX);
        *ptr = (void *)block->base;
        tnri_lock_release(&arena->lock);
        return TNR_OK;
    }
    return arena_malloc_end_quick(arena, bytes, no_host, ptr);
}

tnr_status tnri_arena_malloc_quick(tnri_arena *arena, size_t bytes, void **ptr)
{
    if (tnri_unlikely(!tnri_lock_try_own(&arena->lock)))
        return arena_malloc_shared(arena, bytes, ptr);
    size_t rounded = tnri_bytes_rounded(bytes);
    tnri_world *world = tnri_arena_world(arena, rounded);
    __asm__("" : "+r"(world)); /* so that it is computed once: there are registers enough */
    tnri_block *block = tnri_world_unbin(world, rounded);
    if (block == NULL)
        return arena_malloc_unbinned(arena, world, bytes, ptr);
    count_served(arena, world, block, rounded, bytes, TNR_SERVED_BIN);
    *ptr = (void *)block->base;
    tnri_lock_release(&arena->lock);
    return TNR_OK;
}

/* ---- the stream ----------------------------------------------------------------------------- */

tnri_stream *tnri_arena_stream(tnri_arena *arena)
{
    tnri_arena_enter(arena);
    tnri_stream *stream = atomic_load_explicit(&arena->stream, memory_order_relaxed);
    if (stream != NULL)
        tnri_stream_hold(stream);
    tnri_lock_release(&arena->lock);
    return stream;
}

tnr_status tnri_arena_mark(tnri_arena *arena, tnri_event **event)
{
    uint64_t number;
    tnri_stream *stream = tnri_arena_stream(arena);
    tnr_status status = tnri_stream_mark_idle(stream, event, &number);
    tnri_stream_drop(stream);
    return status;
}

int tnri_arena_is_markable(const tnri_arena *arena)
{
    const tnri_stream *stream = atomic_load_explicit(&arena->stream, memory_order_acquire);
    return stream == NULL || (tnri_stream_is_markable(stream) && tnri_stream_has_mark(stream));
}

tnr_status tnri_arena_mark_other(tnri_arena *arena, tnri_event **event)
{
    *event = NULL;
    if (tnri_arena_is_graph(arena))
        return TNR_OK;
    const tnri_stream *stream = atomic_load_explicit(&arena->stream, memory_order_acquire);
    if (tnri_stream_has_mark(stream))
        return tnri_arena_mark(arena, event);
    return tnri_error(TNR_ERR_CAPTURE,
                      "the idle memory of stream %p cannot be proved idle while a capture is "
                      "under way. Trim before or after it.",
                      (void *)stream->handle);
}

void tnri_arena_pass_on(tnri_arena *arena, tnri_stream *stream)
{
    tnri_assert_held(&arena->lock);
    tnri_note_origin_over(arena);
    tnri_stream_hold(stream);
    tnri_stream_drop(atomic_exchange(&arena->stream, stream));
}

/* ---- freeing -------------------------------------------------------------------------------- */

tnr_status tnri_free_refused(struct tnri_device *device, void *ptr)
{
    uintptr_t address = (uintptr_t)ptr;
    uintptr_t base = 0;
    tnri_block *near = tnri_block_map_near(&device->space.map, address);
    if (near != NULL) {
        tnri_arena *arena = near->world->arena;
        tnri_arena_enter(arena);
        const tnri_block *containing =
            tnri_block_map_containing(&device->space.map, arena, address);
        if (containing != NULL)
            base = containing->base;
        tnri_lock_release(&arena->lock);
    }
    if (base == 0)
        return tnri_error(TNR_ERR_NOT_LIVE,
                          "%p is not a live block of device %d: it was freed before, or never "
                          "handed out. Nothing was changed.",
                          ptr, device->index);
    return tnri_error(TNR_ERR_INTERIOR_POINTER,
                      "%p lies %zu bytes inside the block at %p. Free the block's start. Nothing "
                      "was changed.",
                      ptr, (size_t)(address - base), (void *)base);
}

/* Counts a live block that is freed as this file frees. Under the lock. */
static inline void count_freed_here(tnri_arena *arena, tnri_world *world, const tnri_block *block)
{
    live_subtract(arena, world, 1, block->bytes, tnri_block_requested(block));
    arena->freed_because[TNR_REUSE_SAME_STREAM]++;
}

/* Frees a counted block without uses, which goes to a bin if it may. Under the lock. */
static inline __attribute__((always_inline)) void free_counted(tnri_world *world, tnri_block *block)
{
    if (!tnri_world_bin(world, block)) {
        block->what = tnri_block_what(TNRI_LIVE, 0);
        (void)tnri_run_merge(world, block, TNRI_LIVE);
    }
}

static inline __attribute__((always_inline)) tnr_status arena_free(tnri_arena *arena,
                                                                   tnri_block *block, void *ptr,
                                                                   int seen)
{
    tnri_thread *thread = seen ? tnri_thread_here() : NULL;
    uint64_t ticks = seen ? tnri_ticks() : 0;
    if (seen)
        tnri_arena_enter(arena);
    else
        tnri_lock_take(&arena->lock);
    if (tnri_unlikely(block->base != (uintptr_t)ptr || block->state != TNRI_LIVE)) {
        int was_bare = tnri_grow_free_bare(arena, (uintptr_t)ptr);
        tnri_lock_release(&arena->lock);
        if (was_bare)
            return TNR_OK;
        return tnri_free_refused(arena->device, ptr);
    }
    if (tnri_unlikely(block->uses != NULL)) {
        tnri_lock_release(&arena->lock);
        return tnri_upper_get()->free_used(arena, block, ptr);
    }
    if (seen && tnri_is_noting())
        tnri_note_freed(thread, ticks, arena, block);
    count_freed_here(arena, block->world, block);
    free_counted(block->world, block);
    tnri_lock_release(&arena->lock);
    return TNR_OK;
}

static __attribute__((noinline)) tnr_status arena_free_seen(tnri_arena *arena, tnri_block *block,
                                                            void *ptr)
{
    uint32_t began = tnri_note_begin();
    tnr_status status = arena_free(arena, block, ptr, 1);
    tnri_note_end(began);
    return status;
}

tnr_status tnri_arena_free(tnri_block *block, void *ptr)
{
    tnri_arena *arena = block->world->arena;
    if (tnri_unlikely((tnri_gate() & TNRI_GATE_OPEN) != 0))
        return arena_free_seen(arena, block, ptr);
    return arena_free(arena, block, ptr, 0);
}

/* A counted block that a bin does not take as it is. The calling thread, which owns the lock, has
 * it, and gives it back. */
static __attribute__((noinline)) tnr_status arena_free_unbinned(tnri_arena *arena,
                                                                tnri_world *world,
                                                                tnri_block *block)
{
    __builtin_prefetch(block->above);
    __builtin_prefetch(block->below);
    free_counted(world, block);
    tnri_lock_release(&arena->lock);
    return TNR_OK;
}

/* The same where the lock is taken and the block is not one for the cached path. */
static TNRI_SELDOM tnr_status arena_free_other(tnri_arena *arena, tnri_block *block, void *ptr)
{
    tnri_lock_release(&arena->lock);
    return arena_free(arena, block, ptr, 0);
}

/* tnri_arena_free_quick in a world that the block is in. */
static inline __attribute__((always_inline)) tnr_status free_quick(tnri_arena *arena,
                                                                   tnri_world *world,
                                                                   tnri_block *block, void *ptr)
{
    if (tnri_unlikely(!tnri_lock_try_own(&arena->lock)))
        return tnri_arena_free(block, ptr);
    if (tnri_unlikely(block->base != (uintptr_t)ptr || block->state != TNRI_LIVE ||
                      block->uses != NULL))
        return arena_free_other(arena, block, ptr);
    count_freed_here(arena, world, block);
    if (tnri_unlikely(!tnri_world_bin_quick(world, block)))
        return arena_free_unbinned(arena, world, block);
    tnri_lock_release(&arena->lock);
    return TNR_OK;
}

static __attribute__((noinline)) tnr_status arena_free_elsewhere(tnri_block *block, void *ptr)
{
    return free_quick(block->world->arena, block->world, block, ptr);
}

/* 1 if a block is in a world, so that the compiler does not learn that block->world is `world`. */
static inline int is_in(const tnri_block *block, const tnri_world *world)
{
    uintptr_t difference = (uintptr_t)block->world ^ (uintptr_t)world;
    __asm__("" : "+r"(difference));
    return difference == 0;
}

/* The record of a block that was live for long is in no cache, and arena and world are what it
 * says. Nothing waits for it that goes on with a guess, which is only compared with it: a processor
 * takes for granted that branches go as they always did. */
tnr_status tnri_arena_free_quick(tnri_block *block, void *ptr, uintptr_t recent)
{
    tnri_arena *arena = (tnri_arena *)recent;
    tnri_world *world = (tnri_world *)(recent + offsetof(tnri_arena, worlds[TNRI_LARGE]));
    if (!is_in(block, world)) {
        world = (tnri_world *)(recent + offsetof(tnri_arena, worlds[TNRI_SMALL]));
        __asm__ volatile("" : "+r"(world)); /* so that it is a branch */
        if (tnri_unlikely(!is_in(block, world)))
            return arena_free_elsewhere(block, ptr);
    }
    return free_quick(arena, world, block, ptr);
}

void tnri_arena_unretire(tnri_arena *arena, tnri_block *block, tnr_reuse reason)
{
    tnri_arena_enter(arena);
    tnri_assert(block->state == TNRI_RETIRED);
    block->uses = NULL;
    arena->freed_because[reason]++;
    tnri_note_reuse(arena, block, reason);
    tnri_world_free(block->world, block);
    tnri_lock_release(&arena->lock);
}
