/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cached path: allocating and freeing without a driver call. All of it is here and in headers
 * that are inlined here (memory/arena/serve.h, memory/arena/count.h, memory/arena/run.h,
 * base/lock.h), so that the compiler sees it whole. Requests that it cannot serve go to
 * miss/ladder.h.
 *
 *   case                                      way
 *   ----------------------------------------  -------------------------------------
 *   tnr_malloc, gate shut, arena remembered   tnr_malloc, tnri_arena_malloc_quick
 *     the size is in a bin                      there
 *     it is not                                 arena_malloc_unbinned
 *     another thread owns the lock              arena_malloc_shared
 *     blocks were returned                      tnri_returns_take, then as above
 *   any other allocation                      block_malloc, tnri_arena_malloc
 *     somebody looks (history, picture)         arena_malloc_seen
 *     traps are set                             malloc_trapped, then as above
 *   neither bin nor index serves              arena_malloc_end, then the ladder
 *   tnr_free, gate shut                       tnr_free, tnri_arena_free_quick
 *     of an address not of the first device     free_elsewhere
 *       in a foreign segment                      free_slowly, tnri_free_outside
 *     of an arena that the thread did not       arena_free_elsewhere
 *     allocate from last
 *       another thread allocates there            tnri_returns_put
 *     the bin takes it                          free_quick
 *     it does not                               arena_free_unbinned
 *     another thread owns the lock              arena_free_shared
 *       and allocates there                       tnri_returns_put
 *     not live, or with uses                    arena_free_other
 *   any other free                            free_slowly, tnri_arena_free
 *     somebody looks                            arena_free_seen
 *     traps are set                             free_trapped, then as above
 */
#include "api/cached.h"

#include "api/library.h"
#include "base/prim/calm.h"
#include "base/conf/conf.h"
#include "base/error.h"
#include "gpu/capturing.h"
#include "log/nvtx.h"
#include "memory/arena/count.h"
#include "memory/arena/free.h"
#include "memory/arena/note.h"
#include "memory/arena/returns.h"
#include "memory/arena/serve.h"
#include "memory/device/device.h"
#include "memory/device/segment.h"
#include "memory/device/upper.h"
#include "memory/pool/asleep.h"
#include "memory/pool/lane.h"
#include "miss/at.h"
#include "miss/grow.h"
#include "miss/ladder.h"
#include "miss/park.h"
#include "see/snapshot/trigger.h"
#include "see/trap/guard.h"
#include "see/trap/trap.h"

/* ---- allocating from an arena --------------------------------------------------------------- */

/* Releases what the cached path took. If the gate is shut, that is the arena's lock alone. */
static inline void arena_release(tnri_arena *arena, int seen)
{
    if (seen)
        tnri_arena_leave(arena);
    else
        tnri_lock_release(&arena->lock);
}

/* Goes on where the cached path ends; releases the lock. */
static TNRI_SELDOM tnr_status arena_malloc_end(tnri_arena *arena, const tnri_request *request,
                                               int no_host, void **ptr, int seen)
{
    arena_release(arena, seen);
    if (no_host)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the record of a block.");
    tnr_status status = tnri_ladder_malloc(arena, request, ptr);
    return tnri_snapshot_oom(status, arena, request->bytes_requested);
}

/* `seen`, a constant, is 1 if somebody looks: see base/gate.h. */
static inline __attribute__((always_inline)) tnr_status arena_malloc(tnri_arena *arena,
                                                                     const tnri_request *request,
                                                                     void **ptr, int seen)
{
    tnr_served served = TNR_SERVED_BIN;
    int no_host = 0;
    tnri_note_thread *thread = seen ? tnri_note_here() : NULL;
    uint64_t ticks = seen ? tnri_ticks() : 0;
    int waited = seen ? tnri_arena_enter(arena) : tnri_lock_take(&arena->lock);
    if (tnri_unlikely(waited != 0))
        tnri_lane_waited(arena, waited);
    tnri_returns_allocating(arena);
    tnri_block *block = tnri_serve_bin(arena, request);
    if (block == NULL && tnri_unlikely(tnri_returns_wait(arena))) {
        tnri_returns_take(arena);
        block = tnri_serve_bin(arena, request);
    }
    if (block == NULL) {
        served = TNR_SERVED_INDEX;
        block = tnri_serve_fresh(arena, request, &no_host);
    }
    if (tnri_likely(block != NULL)) {
        tnri_count_served(arena, block->world, block, block->bytes, request->bytes_requested,
                          served);
        if (seen && tnri_is_noting())
            tnri_note_served(thread, ticks, arena, block, request->bytes_requested, served);
        void *base = (void *)block->base;
        arena_release(arena, seen);
        *ptr = base;
        return TNR_OK;
    }
    return arena_malloc_end(arena, request, no_host, ptr, seen);
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
    return arena_malloc_end(arena, &request, no_host, ptr, 0);
}

/* For a thread that does not own the lock. */
static __attribute__((noinline)) tnr_status arena_malloc_shared(tnri_arena *arena, size_t bytes,
                                                                void **ptr)
{
    tnri_request request = request_of(bytes);
    *ptr = NULL;
    return arena_malloc(arena, &request, ptr, 0);
}

static TNRI_SELDOM tnr_status arena_malloc_returned(tnri_arena *arena, tnri_world *world,
                                                    size_t bytes, void **ptr);

/* The end of an allocation that raises a peak; apart, so that no other one saves registers. */
static TNRI_SELDOM tnr_status arena_malloc_raising(tnri_arena *arena, tnri_world *world,
                                                   size_t rounded, size_t bytes)
{
    tnri_headroom_raise(arena, world, 1, rounded, bytes);
    tnri_lock_release(&arena->lock);
    return TNR_OK;
}

/* What no bin holds. The calling thread, which owns the lock, has it, and gives it back. */
static __attribute__((noinline)) tnr_status arena_malloc_unbinned(tnri_arena *arena,
                                                                  tnri_world *world, size_t bytes,
                                                                  void **ptr)
{
    size_t rounded = tnri_bytes_rounded(bytes);
    int no_host = 0;
    if (tnri_unlikely(tnri_returns_wait(arena)))
        return arena_malloc_returned(arena, world, bytes, ptr);
    tnri_block *block = tnri_serve_unbinned(world, rounded, TNR_ALIGNMENT_DEFAULT, &no_host);
    if (tnri_unlikely(block == NULL)) {
        *ptr = NULL;
        return arena_malloc_end_quick(arena, bytes, no_host, ptr);
    }
    tnri_count_handed(arena, world, block, rounded, bytes, TNR_SERVED_INDEX);
    *ptr = (void *)block->base;
    if (tnri_unlikely(!tnri_headroom_take(arena, world, 1, rounded, bytes)))
        return arena_malloc_raising(arena, world, rounded, bytes);
    tnri_lock_release(&arena->lock);
    return TNR_OK;
}

/* The same when blocks that were returned have been taken back, which may be in a bin now. */
static TNRI_SELDOM tnr_status arena_malloc_returned(tnri_arena *arena, tnri_world *world,
                                                    size_t bytes, void **ptr)
{
    tnri_request request = request_of(bytes);
    int no_host = 0;
    tnr_served served;
    *ptr = NULL;
    tnri_returns_take(arena);
    tnri_block *block = tnri_arena_serve_cached(arena, &request, &served, &no_host);
    if (block == NULL)
        return arena_malloc_end(arena, &request, no_host, ptr, 0);
    tnri_count_served(arena, world, block, request.bytes, bytes, served);
    *ptr = (void *)block->base;
    tnri_lock_release(&arena->lock);
    return TNR_OK;
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
    tnri_count_handed(arena, world, block, rounded, bytes, TNR_SERVED_BIN);
    *ptr = (void *)block->base;
    if (tnri_unlikely(!tnri_headroom_take(arena, world, 1, rounded, bytes)))
        return arena_malloc_raising(arena, world, rounded, bytes);
    tnri_lock_release(&arena->lock);
    return TNR_OK;
}

/* ---- allocating ----------------------------------------------------------------------------- */

/* Turns the caller's size into a request. */
static inline tnr_status request_make(tnri_request *request, size_t bytes, size_t alignment)
{
    if (tnri_unlikely(bytes > TNR_BYTES_MAX))
        return tnri_error(TNR_ERR_INVALID_SIZE,
                          "%zu bytes were asked for; the most is 1 EiB. Was it computed from a "
                          "negative number?",
                          bytes);
    const tnri_conf *conf = tnri_conf_get();
    size_t rounded = bytes;
    if (tnri_unlikely(conf->roundup_power2_divisions.any))
        rounded = tnri_steps_round(&conf->roundup_power2_divisions, bytes);
    request->bytes_requested = bytes;
    request->bytes = tnri_bytes_rounded(rounded);
    if (tnri_unlikely(conf->apart))
        request->bytes += TNR_ALIGNMENT_DEFAULT;
    request->alignment = alignment;
    return TNR_OK;
}

/* Serves a request whose block may get traps. */
static TNRI_SELDOM tnr_status malloc_trapped(tnri_arena *arena, tnri_request *request, void **ptr)
{
    uint32_t began = tnri_note_begin();
    unsigned traps = tnri_trap_choose(arena, request);
    tnr_status status = TNR_ERR_OUT_OF_MEMORY;
    if ((traps & TNRI_TRAP_GUARD) != 0)
        status = tnri_guard_malloc(arena, request, ptr);
    if (status != TNR_OK)
        status = tnri_arena_malloc(arena, request, ptr);
    if (status == TNR_OK)
        tnri_trap_served(tnri_block_map_at(&tnri_arena_space(arena)->map, (uintptr_t)*ptr), traps);
    tnri_note_end(began);
    return status;
}

/* The block that was just handed out at an address. */
static tnri_block *block_at(void *ptr)
{
    tnri_device *device;
    tnri_space *space = tnri_library_space_of(ptr, &device);
    return tnri_block_map_at(&space->map, (uintptr_t)ptr);
}

/* Tells tools of a block that is handed out. */
static TNRI_SELDOM void malloc_annotate(void *ptr, size_t bytes)
{
    const tnri_block *block = block_at(ptr);
    const tnri_account *account = block->world->arena->account;
    uintptr_t heap = tnri_heap_of(account, block->base);
    if (heap != 0)
        tnri_nvtx_block(heap, account->name, (uintptr_t)ptr, bytes);
}

/* Tells them of one that is about to be freed, if it is there; then a free that is refused all the
 * same is a race of the caller's. Graphs go on to use what was freed in a graph pool. */
TNRI_SELDOM void tnri_free_annotate(const tnri_block *block, const void *ptr)
{
    tnri_arena *arena = block->world->arena;
    tnri_arena_enter(arena);
    int is_there = block->state == TNRI_LIVE && block->base == (uintptr_t)ptr &&
                   tnri_heap_of(arena->account, block->base) != 0;
    tnri_arena_leave(arena);
    if (is_there && !arena->account->is_graph)
        tnri_nvtx_block_gone((uintptr_t)ptr);
}

static inline __attribute__((always_inline)) tnr_status block_malloc_plain(
    void **ptr, size_t bytes, size_t alignment, int device, tnr_pool handle, tnr_stream stream)
{
    tnri_arena *arena;
    tnri_request request;
    if (tnri_unlikely(ptr == NULL))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "the place for the address (first argument) is null.");
    *ptr = NULL;
    tnr_status status = request_make(&request, bytes, alignment);
    if (tnri_unlikely(status != TNR_OK))
        return status;
    if (tnri_unlikely(tnri_capturing()) && bytes > 0 &&
        tnri_upper_of(TNRI_ROOM_GRAPH)->malloc(device, handle, stream, &request, ptr, &status))
        return status;
    status = tnri_library_arena(device, handle, stream, &arena);
    if (tnri_unlikely(status != TNR_OK))
        return status;
    if (tnri_unlikely(bytes == 0))
        return TNR_OK;
    if (tnri_unlikely((tnri_gate() & TNRI_GATE_TRAPS) != 0))
        return malloc_trapped(arena, &request, ptr);
    return tnri_arena_malloc(arena, &request, ptr);
}

static tnr_status block_malloc(void **ptr, size_t bytes, size_t alignment, int device,
                               tnr_pool handle, tnr_stream stream)
{
    tnr_status status = block_malloc_plain(ptr, bytes, alignment, device, handle, stream);
    if (tnri_unlikely(tnri_nvtx_listens()) && status == TNR_OK && *ptr != NULL)
        malloc_annotate(*ptr, bytes);
    return status;
}

tnr_status tnr_malloc(void **ptr, size_t bytes, int device, tnr_stream stream)
{
    if (tnri_likely(tnri_gate() == 0 && bytes - 1 < TNR_BYTES_MAX && ptr != NULL)) {
        tnri_arena *arena = tnri_cached_arena_get(device, stream);
        if (tnri_likely(arena != NULL))
            return tnri_arena_malloc_quick(arena, bytes, ptr);
    }
    return block_malloc(ptr, bytes, TNR_ALIGNMENT_DEFAULT, device, NULL, stream);
}

tnr_status tnr_malloc_aligned(void **ptr, size_t bytes, size_t alignment, int device,
                              tnr_stream stream)
{
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > TNR_ALIGNMENT_MAX) {
        if (ptr != NULL)
            *ptr = NULL;
        return tnri_error(TNR_ERR_INVALID_ALIGNMENT,
                          "alignment %zu is not a power of two between 1 and %zu.", alignment,
                          TNR_ALIGNMENT_MAX);
    }
    if (alignment < TNR_ALIGNMENT_DEFAULT)
        alignment = TNR_ALIGNMENT_DEFAULT;
    return block_malloc(ptr, bytes, alignment, device, NULL, stream);
}

tnr_status tnr_pool_malloc(void **ptr, tnr_pool handle, size_t bytes, int device, tnr_stream stream)
{
    if (ptr != NULL)
        *ptr = NULL;
    if (handle == NULL) { /* whatever the routing */
        tnri_device *found;
        tnr_status status = tnri_library_device(device, &found);
        if (status != TNR_OK)
            return status;
        handle = found->pool_default->handle;
    }
    return block_malloc(ptr, bytes, TNR_ALIGNMENT_DEFAULT, device, handle, stream);
}

tnr_status tnr_pool_malloc_at(void *ptr, tnr_pool handle, size_t bytes, int device,
                              tnr_stream stream)
{
    TNRI_CALM_CALL;
    tnr_pool pool;
    tnri_request request;
    if ((uintptr_t)ptr % TNR_ALIGNMENT_DEFAULT != 0)
        return tnri_error(TNR_ERR_INVALID_ALIGNMENT,
                          "tnr_pool_malloc_at: %p is not a multiple of %zu.", ptr,
                          TNR_ALIGNMENT_DEFAULT);
    tnr_status status = request_make(&request, bytes, TNR_ALIGNMENT_DEFAULT);
    if (status == TNR_OK)
        status = tnri_library_pool_named(handle, device, &pool);
    if (status != TNR_OK)
        return status;
    if (pool->account.is_graph && !pool->account.is_vouched)
        status = tnri_error(TNR_ERR_INVALID_POOL,
                            "tnr_pool_malloc_at: the graphs of pool \"%s\" own its memory "
                            "until it is vouched for. Call tnr_graph_pool_vouch first.",
                            pool->account.name);
    else if (!tnri_pool_work_begin(pool))
        status = tnri_asleep_error(pool);
    else {
        if (bytes > 0)
            status = tnri_malloc_at(pool, (uintptr_t)ptr, &request, stream);
        if (bytes > 0 && status == TNR_OK && tnri_nvtx_listens())
            malloc_annotate(ptr, bytes);
        if (bytes > 0 && status == TNR_OK && (tnri_gate() & TNRI_GATE_TRAPS) != 0)
            tnri_trap_served(tnri_block_map_at(&pool->account.space->map, (uintptr_t)ptr), 0);
        tnri_pool_work_end(pool);
    }
    tnri_pool_drop(pool);
    return status;
}

/* ---- freeing a block of an arena ------------------------------------------------------------ */

/* Counts a live block that is freed as this file frees. Under the lock. */
static inline void count_freed_here(tnri_arena *arena, tnri_world *world, const tnri_block *block)
{
    tnri_live_subtract(arena, world, 1, block->bytes, tnri_block_requested(block));
    arena->freed_because[TNR_REUSE_SAME_STREAM]++;
}

/* `seen` as for arena_malloc. */
static inline __attribute__((always_inline)) tnr_status arena_free(tnri_arena *arena,
                                                                   tnri_block *block, void *ptr,
                                                                   int seen)
{
    tnri_note_thread *thread = seen ? tnri_note_here() : NULL;
    uint64_t ticks = seen ? tnri_ticks() : 0;
    if (seen)
        tnri_arena_enter(arena);
    else
        tnri_lock_take(&arena->lock);
    if (tnri_unlikely(block->base != (uintptr_t)ptr || block->state != TNRI_LIVE)) {
        int was_bare = tnri_grow_free_bare(arena, (uintptr_t)ptr);
        int is_parked = block->base == (uintptr_t)ptr && block->state == TNRI_PARKED;
        int is_used = is_parked && block->uses != NULL;
        arena_release(arena, seen);
        if (is_used)
            return tnri_upper_of(TNRI_ROOM_ORDER)->free(arena, block, ptr, 0);
        if (was_bare || (is_parked && tnri_parked_free(arena, ptr)))
            return TNR_OK;
        return tnri_free_refused(arena->device, ptr);
    }
    if (tnri_unlikely(block->uses != NULL)) {
        arena_release(arena, seen);
        return tnri_upper_of(TNRI_ROOM_ORDER)->free(arena, block, ptr, 0);
    }
    if (seen && tnri_is_noting())
        tnri_note_freed(thread, ticks, arena, block);
    count_freed_here(arena, block->world, block);
    tnri_world_free_counted(block->world, block);
    arena_release(arena, seen);
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

/* For a thread that does not own the lock, while the gate is shut: the free may be left to the
 * thread that allocates from the arena. */
static __attribute__((noinline)) tnr_status arena_free_shared(tnri_block *block, void *ptr)
{
    tnri_arena *arena = block->world->arena;
    return tnri_returns_put(arena, block, ptr) ? TNR_OK : arena_free(arena, block, ptr, 0);
}

/* A counted block that a bin does not take as it is. The calling thread, which owns the lock, has
 * it, and gives it back. */
static __attribute__((noinline)) tnr_status arena_free_unbinned(tnri_arena *arena,
                                                                tnri_world *world,
                                                                tnri_block *block)
{
    __builtin_prefetch(block->above);
    __builtin_prefetch(block->below);
    tnri_world_free_counted(world, block);
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
        return arena_free_shared(block, ptr);
    if (tnri_unlikely(block->base != (uintptr_t)ptr || block->state != TNRI_LIVE ||
                      block->uses != NULL))
        return arena_free_other(arena, block, ptr);
    count_freed_here(arena, world, block);
    if (tnri_unlikely(!tnri_world_bin_quick(world, block)))
        return arena_free_unbinned(arena, world, block);
    tnri_lock_release(&arena->lock);
    return TNR_OK;
}

/* Of an arena that the thread did not allocate from last. One that only frees does not even look at
 * the arena's lock: the thread that allocates writes there with each call. */
static __attribute__((noinline)) tnr_status arena_free_elsewhere(tnri_block *block, void *ptr)
{
    tnri_arena *arena = block->world->arena;
    if (tnri_returns_put(arena, block, ptr))
        return TNR_OK;
    return free_quick(arena, block->world, block, ptr);
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
    /* The arena may be gone, and another lie a world's size away, whose world this is. */
    if (tnri_unlikely(world->arena != arena))
        return arena_free_elsewhere(block, ptr);
    return free_quick(arena, world, block, ptr);
}

/* ---- freeing -------------------------------------------------------------------------------- */

tnr_status tnri_foreign_error(const void *ptr)
{
    if (tnri_library_is_forked())
        return tnri_forked_error();
    return tnri_error(TNR_ERR_FOREIGN_POINTER,
                      "%p was not allocated by Tenure. Free it with what allocated it.", ptr);
}

/* A free by the setting auto_record:all, or of a block that may have traps. Of a vouched pool the
 * caller orders everything himself, as Tenure does of contents; what is no block that lives, the
 * usual way finds out. The arena lives on: a pool with a live block does not end. */
static TNRI_SELDOM tnr_status free_by_settings(tnri_block *block, void *ptr, uint64_t gate)
{
    tnri_arena *arena = block->world->arena;
    int is_trapped = (gate & TNRI_GATE_TRAPS) != 0;
    int is_sync = (gate & TNRI_GATE_SYNC) != 0 && tnri_upper_of(TNRI_ROOM_ORDER)->free != NULL &&
                  !arena->account->is_vouched && !arena->account->is_contents;
    uint32_t began = tnri_note_begin();
    tnr_status status = TNR_ERR_NOT_LIVE;
    if (is_trapped)
        is_sync = tnri_trap_freeing(block, ptr, is_sync);
    if (is_sync)
        status = tnri_upper_of(TNRI_ROOM_ORDER)->free(arena, block, ptr, 1);
    if (status == TNR_ERR_NOT_LIVE)
        status = tnri_arena_free(block, ptr);
    if (is_trapped && status == TNR_OK)
        tnri_trap_freed(arena);
    tnri_note_end(began);
    return status;
}

tnr_status tnri_free_found(tnri_block *block, void *ptr)
{
    uint64_t gate = tnri_gate();
    int is_sync = (gate & TNRI_GATE_SYNC) != 0;
    tnr_status status;
    if (tnri_unlikely(tnri_nvtx_listens()))
        tnri_free_annotate(block, ptr);
    if (tnri_unlikely(tnri_capturing())) {
        status = tnri_upper_of(TNRI_ROOM_GRAPH)->free(block->world->arena, block, ptr, is_sync);
        if (status != TNR_ERR_NOT_LIVE)
            return status;
    }
    if (tnri_unlikely((gate & (TNRI_GATE_SYNC | TNRI_GATE_TRAPS)) != 0))
        return free_by_settings(block, ptr, gate);
    return tnri_arena_free(block, ptr);
}

/* The free of an address of no device's range, or while the gate is open. */
static TNRI_SELDOM tnr_status free_slowly(void *ptr)
{
    if (ptr == NULL)
        return TNR_OK;
    tnri_device *device = tnri_library_device_of(ptr);
    if (tnri_unlikely(device == NULL))
        return tnri_free_outside(ptr);
    tnri_block *block = tnri_block_map_at(&device->space.map, (uintptr_t)ptr);
    if (tnri_unlikely(block == NULL))
        return tnri_free_refused(device, ptr);
    return tnri_free_found(block, ptr);
}

/* The block at an address of any device; null: none. Most likely it is one of the device that the
 * thread freed on before. */
static inline tnri_block *block_elsewhere(tnri_thread *thread, uintptr_t address)
{
    if (tnri_unlikely(!tnri_device_range_has(&tnri_device_ranges[thread->range], address))) {
        int range = tnri_device_range_find(address);
        if (range < 0)
            return NULL;
        thread->range = range;
    }
    return tnri_device_range_block(&tnri_device_ranges[thread->range], address);
}

/* The free of an address that is not the first device's; apart, so that tnr_free saves nothing. */
static __attribute__((noinline)) tnr_status free_elsewhere(void *ptr)
{
    tnri_thread *thread = tnri_thread_here();
    tnri_block *block = block_elsewhere(thread, (uintptr_t)ptr);
    if (tnri_likely(block != NULL))
        return tnri_arena_free_quick(block, ptr, thread->recent);
    return free_slowly(ptr);
}

tnr_status tnr_free(void *ptr)
{
    if (tnri_likely(tnri_gate() == 0)) {
        tnri_block *block = tnri_device_range_block(&tnri_device_ranges[0], (uintptr_t)ptr);
        if (tnri_likely(block != NULL))
            return tnri_arena_free_quick(block, ptr, tnri_thread_here()->recent);
        return free_elsewhere(ptr);
    }
    return free_slowly(ptr);
}
