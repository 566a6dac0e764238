/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start and end of the library, and the way from a caller's arguments to an arena.
 *
 * The library starts on first use, under the library lock. A handler of pthread_atfork marks a
 * forked child, and every call in the child is refused from then on: CUDA does not survive fork.
 */
#ifndef TNRI_API_LIBRARY_H
#define TNRI_API_LIBRARY_H

#include "memory/pool/cache.h"
#include "memory/pool/pool.h"

/* The library lock: start, shutdown, settings, putting devices into use. */
extern tnri_lock tnri_library_lock;

/* Puts the settings in `text` in force, or fails and changes nothing: see tnri_conf_read. Under the
 * library lock. */
tnr_status tnri_library_configure(const char *text, const char *origin, int running);

/* Starts the library if it is not running. Errors: those of tnr_init. */
tnr_status tnri_library_start(void);
/* 1 in a child of a fork that came after the start. */
int tnri_library_is_forked(void);
/* The error for that. */
tnr_status tnri_forked_error(void);

/* The device in whose range `ptr` lies; null if the library does not run, or if `ptr` is not
 * Tenure's, or lies in a foreign segment. */
static inline tnri_device *tnri_library_device_of(const void *ptr)
{
    if (tnri_unlikely(atomic_load_explicit(&tnri_generation, memory_order_acquire) == 0))
        return NULL;
    return tnri_device_of((uintptr_t)ptr);
}

/* The space that an address lies in, of either kind, and the device; null as above. For callers
 * that may be asked about foreign segments. */
static inline tnri_space *tnri_library_space_of(const void *ptr, tnri_device **device)
{
    *device = NULL;
    if (tnri_unlikely(atomic_load_explicit(&tnri_generation, memory_order_acquire) == 0))
        return NULL;
    return tnri_space_of((uintptr_t)ptr, device);
}

/* The device of an address that a caller names. Errors: TNR_ERR_AFTER_FORK,
 * TNR_ERR_FOREIGN_POINTER. */
tnr_status tnri_library_find(const void *ptr, tnri_device **device);
/* The live block that the address lies in, until tnri_live_leave. Errors: TNR_ERR_NOT_LIVE, too. */
tnr_status tnri_library_live(const void *ptr, tnri_device **device, tnri_block **block);

/* The device, in use. Starts the library. */
tnr_status tnri_library_device(int index, tnri_device **device);

/* The pool that a handle names, held until tnri_pool_drop. The pool must be on the device. A null
 * handle means the device's default pool. A family's handle means the pool that the family has
 * there; it is made if there is none. Starts the library if a pool must be made. Errors:
 * TNR_ERR_INVALID_POOL, TNR_ERR_INVALID_DEVICE, those of tnri_library_device. */
tnr_status tnri_library_pool_named(tnr_pool handle, int device, tnr_pool *pool);

/* Finds or makes the arena for a stream of the pool that a handle names (null: the default pool),
 * and remembers it in the slot. */
tnr_status tnri_library_arena_find(tnri_cached_arena *slot, int device, tnr_pool handle,
                                   tnr_stream stream, tnri_arena **arena);

/* The arena of a stream of the pool that a handle names; null: routing, then the default pool. */
static inline tnr_status tnri_library_arena(int device, tnr_pool handle, tnr_stream stream,
                                            tnri_arena **arena)
{
    tnri_thread *thread = tnri_thread_here();
    if (tnri_unlikely(thread->routes_count != 0) && handle == NULL)
        handle = tnri_thread_route(thread, device);
    tnri_cached_arena *slot = tnri_cached_slot(thread, device, handle, stream);
    uint64_t generation = atomic_load_explicit(&tnri_generation, memory_order_acquire);
    if (tnri_likely(slot->generation == generation && slot->stream == stream &&
                    slot->handle == handle && slot->device == device && generation != 0)) {
        *arena = slot->arena;
        return TNR_OK;
    }
    return tnri_library_arena_find(slot, device, handle, stream, arena);
}

/* The pool that the calling thread is routed to on a device, else the device's default pool, held
 * until tnri_pool_drop. */
tnr_status tnri_library_pool(int device, tnr_pool *pool);

#endif
