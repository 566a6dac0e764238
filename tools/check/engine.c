/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines that call libtenure themselves, linked with it or through a Python module. The checker
 * follows their blocks as it follows those of cuMemAllocAsync, with rules of their own.
 *
 * - A block belongs to its stream, and tnr_free is ordered there.
 * - A use of another stream is in order if the free comes after it, or if it was recorded: up to
 *   the record (tnr_record_use, tnr_keep_until), or up to the free (tnr_record_stream,
 *   tnr_free_sync).
 *
 * This library stands before libtenure in the order of symbols, so the calls come here. They are
 * told to the checker and passed on. A caller that is inside of Tenure already passes straight
 * through: the rest of this library is inside when it calls. Blocks of graph pools and of captures
 * are not followed: their order is that of graphs, or their caller's. Uses of other blocks by
 * graphs are not followed either: Tenure keeps those blocks for the graphs, by its contract with
 * engines.
 *
 * Host memory near a GPU has no stream's order. It is pinned memory to the checker as that of
 * cuMemHostAlloc is: the host may poll it, and --check=host protects it during copies.
 *
 * An engine that has libtenure linked in as an archive is not seen.
 */
#include "check/engine.h"

#include <dlfcn.h>
#include <string.h>

#include <tenure/tenure.h>

#include "check/findings.h"
#include "check/pinned.h"
#include "check/python.h"
#include "check/rules.h"
#include "check/streams.h"
#include "driver.h"
#include "handles.h"
#include "service.h"

static handles ordered_by_caller = HANDLES_INIT; /* pools */
static _Atomic int has_ordered_by_caller;        /* there was one */
static _Atomic int has_host_blocks;              /* there was one */

/* ---- the functions themselves ---------------------------------------------------------------- */

#define ENGINE_FUNCTIONS(X)                                                                        \
    X(tnr_malloc)                                                                                  \
    X(tnr_malloc_aligned)                                                                          \
    X(tnr_host_malloc)                                                                             \
    X(tnr_host_malloc_near)                                                                        \
    X(tnr_pool_malloc)                                                                             \
    X(tnr_pool_malloc_at)                                                                          \
    X(tnr_reserve)                                                                                 \
    X(tnr_free)                                                                                    \
    X(tnr_free_on)                                                                                 \
    X(tnr_free_sync)                                                                               \
    X(tnr_record_use)                                                                              \
    X(tnr_record_stream)                                                                           \
    X(tnr_keep_until)                                                                              \
    X(tnr_capture_begin)                                                                           \
    X(tnr_graph_pool_create)                                                                       \
    X(tnr_vouched_pool_create)                                                                     \
    X(tnr_graph_pool_vouch)                                                                        \
    X(tnr_pool_access_set)                                                                         \
    X(tnr_device_access_set)                                                                       \
    X(tnr_pool_sleep)                                                                              \
    X(tnr_device_sleep)                                                                            \
    X(tnr_import_receive)                                                                          \
    X(tnr_import_open)                                                                             \
    X(tnr_attach)                                                                                  \
    X(tnr_import_close)                                                                            \
    X(tnr_device_end)                                                                              \
    X(tnr_shutdown)                                                                                \
    X(tnr_frames_source_set)                                                                       \
    X(tnr_stream_name_set)                                                                         \
    X(tnr_trim)

static struct {
    _Atomic int is_found; /* set last */
#define ENGINE_FIELD(name) __typeof__(&name) fn_##name;
    ENGINE_FUNCTIONS(ENGINE_FIELD)
#undef ENGINE_FIELD
} library;

/* Several threads find the same. */
static void library_find(void)
{
    if (atomic_load_explicit(&library.is_found, memory_order_acquire))
        return;
    void *found;
#define ENGINE_FIND(name)                                                                          \
    found = dlsym_of_libc()(RTLD_NEXT, #name);                                                     \
    memcpy(&library.fn_##name, &found, sizeof(found));
    ENGINE_FUNCTIONS(ENGINE_FIND)
#undef ENGINE_FIND
    atomic_store_explicit(&library.is_found, 1, memory_order_release);
}

/* What libtenure calls of itself may come here, too. */
static _Thread_local int depth;

#define PASSED_ON(name, arguments)                                                                 \
    __extension__({                                                                                \
        library_find();                                                                            \
        depth++;                                                                                   \
        tnr_status result_ = library.fn_##name arguments;                                          \
        depth--;                                                                                   \
        result_;                                                                                   \
    })

void *check_engine_function(const char *name)
{
    void *ours = NULL;
#define ENGINE_NAMED(one)                                                                          \
    if (strcmp(name, #one) == 0) {                                                                 \
        __typeof__(&one) function = one;                                                           \
        memcpy(&ours, &function, sizeof(ours));                                                    \
    }
    ENGINE_FUNCTIONS(ENGINE_NAMED)
#undef ENGINE_NAMED
    return ours;
}

/* 1 if the call is the engine's and is followed. */
static int is_followed(void)
{
    return check_is_on() && depth == 0 && !service_is_inside();
}

/* ---- allocations ---------------------------------------------------------------------------- */

/* The pool of the block is one whose order is not that of streams. */
static int is_ordered_otherwise(const void *block)
{
    tnr_block_info info;
    if (!atomic_load_explicit(&has_ordered_by_caller, memory_order_relaxed))
        return 0;
    return tnr_block_get(&info, block) != TNR_OK ||
           (info.pool != NULL && handles_get(&ordered_by_caller, info.pool, NULL));
}

/* 1 if the block is one of host memory. */
static int host_made(const void *block, size_t bytes)
{
    tnr_block_info info;
    if (tnr_block_get(&info, block) != TNR_OK || info.device < TNR_HOST(0))
        return 0;
    atomic_store(&has_host_blocks, 1);
    CHECK_TELL_ORDER(check_host_memory_made(block, bytes, 1));
    return 1;
}

/* Before the block is handed to another thread. */
static int host_freeing(void *block)
{
    if (!atomic_load_explicit(&has_host_blocks, memory_order_relaxed) ||
        service_of_address((CUdeviceptr)(uintptr_t)block) != NULL)
        return 0;
    if (check_is_host_watched)
        check_pinned_gone(block);
    CHECK_TELL_ORDER(check_host_memory_gone(block));
    return 1;
}

static tnr_status allocated(tnr_status status, const char *call, void *block, size_t bytes,
                            tnr_stream stream)
{
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)block;
    if (status != TNR_OK || block == NULL)
        return status;
    const service_device *device = service_of_address(address);
    if (device == NULL && service_enter()) {
        service_learn(address);
        service_leave();
        device = service_of_address(address);
    }
    if (device == NULL && host_made(block, bytes))
        return status;
    if (device == NULL || is_ordered_otherwise(block))
        check_allocated_unseen(address, bytes);
    else
        check_allocated_own(call, address, bytes, device->index, stream);
    return status;
}

tnr_status tnr_malloc(void **ptr, size_t bytes, int device, tnr_stream stream)
{
    tnr_status status = PASSED_ON(tnr_malloc, (ptr, bytes, device, stream));
    if (!is_followed())
        return status;
    return allocated(status, "tnr_malloc", ptr == NULL ? NULL : *ptr, bytes, stream);
}

tnr_status tnr_malloc_aligned(void **ptr, size_t bytes, size_t alignment, int device,
                              tnr_stream stream)
{
    tnr_status status = PASSED_ON(tnr_malloc_aligned, (ptr, bytes, alignment, device, stream));
    if (!is_followed())
        return status;
    return allocated(status, "tnr_malloc_aligned", ptr == NULL ? NULL : *ptr, bytes, stream);
}

tnr_status tnr_host_malloc(void **ptr, size_t bytes)
{
    tnr_status status = PASSED_ON(tnr_host_malloc, (ptr, bytes));
    if (!is_followed())
        return status;
    return allocated(status, "tnr_host_malloc", ptr == NULL ? NULL : *ptr, bytes, NULL);
}

tnr_status tnr_host_malloc_near(void **ptr, size_t bytes, int device)
{
    tnr_status status = PASSED_ON(tnr_host_malloc_near, (ptr, bytes, device));
    if (!is_followed())
        return status;
    return allocated(status, "tnr_host_malloc_near", ptr == NULL ? NULL : *ptr, bytes, NULL);
}

tnr_status tnr_pool_malloc(void **ptr, tnr_pool pool, size_t bytes, int device, tnr_stream stream)
{
    tnr_status status = PASSED_ON(tnr_pool_malloc, (ptr, pool, bytes, device, stream));
    if (!is_followed())
        return status;
    return allocated(status, "tnr_pool_malloc", ptr == NULL ? NULL : *ptr, bytes, stream);
}

tnr_status tnr_pool_malloc_at(void *ptr, tnr_pool pool, size_t bytes, int device, tnr_stream stream)
{
    tnr_status status = PASSED_ON(tnr_pool_malloc_at, (ptr, pool, bytes, device, stream));
    if (!is_followed())
        return status;
    return allocated(status, "tnr_pool_malloc_at", bytes > 0 ? ptr : NULL, bytes, stream);
}

/* A growable block is not followed, but what is remembered of its addresses holds no more. */
tnr_status tnr_reserve(void **ptr, size_t bytes_max, int device, tnr_stream stream)
{
    tnr_status status = PASSED_ON(tnr_reserve, (ptr, bytes_max, device, stream));
    if (status == TNR_OK && is_followed())
        check_allocated_unseen((CUdeviceptr)(uintptr_t)*ptr, bytes_max);
    return status;
}

/* ---- imports -------------------------------------------------------------------------------- */

/* Memory of another process's may lie where a block was. It is not followed, and Tenure says of it
 * that nothing is live there: so what is remembered of its addresses must go. */
static tnr_status imported(tnr_status status, const tnr_import_info *info)
{
    if (status == TNR_OK && is_followed())
        check_allocated_unseen((CUdeviceptr)(uintptr_t)info->ptr, info->bytes);
    return status;
}

tnr_status tnr_import_receive(tnr_import_info *info, int socket, int device,
                              const tnr_import_options *options)
{
    return imported(PASSED_ON(tnr_import_receive, (info, socket, device, options)), info);
}

tnr_status tnr_import_open(tnr_import_info *info, const tnr_export_name *name, int device,
                           const tnr_import_options *options)
{
    return imported(PASSED_ON(tnr_import_open, (info, name, device, options)), info);
}

tnr_status tnr_attach(tnr_import_info *info, const char *published, int device,
                      const tnr_import_options *options)
{
    return imported(PASSED_ON(tnr_attach, (info, published, device, options)), info);
}

/* ---- pools ---------------------------------------------------------------------------------- */

static tnr_status pool_noted(tnr_status status, tnr_pool pool)
{
    if (status != TNR_OK || !is_followed() || !check_enter())
        return status;
    handles_set(&ordered_by_caller, pool, 1);
    atomic_store(&has_ordered_by_caller, 1);
    check_leave();
    return status;
}

tnr_status tnr_graph_pool_create(tnr_pool *pool, int device, const tnr_pool_options *options)
{
    tnr_status status = PASSED_ON(tnr_graph_pool_create, (pool, device, options));
    return pool_noted(status, status == TNR_OK ? *pool : NULL);
}

tnr_status tnr_vouched_pool_create(tnr_pool *pool, int device, const tnr_pool_options *options)
{
    tnr_status status = PASSED_ON(tnr_vouched_pool_create, (pool, device, options));
    return pool_noted(status, status == TNR_OK ? *pool : NULL);
}

tnr_status tnr_graph_pool_vouch(tnr_pool pool)
{
    return pool_noted(PASSED_ON(tnr_graph_pool_vouch, (pool)), pool);
}

/* ---- memory that leaves ---------------------------------------------------------------------- */

tnr_status tnr_trim(size_t *released, size_t keep_bytes, int device)
{
    if (is_followed())
        CHECK_TELL_ORDER(check_memory_leaves());
    return PASSED_ON(tnr_trim, (released, keep_bytes, device));
}

/* ---- calls that wait ------------------------------------------------------------------------ */

/* They may wait for all work, of whichever device: an engine relies on what their manual says. */
static tnr_status waited(tnr_status status)
{
    if (check_does(CHECK_REPORTS) && is_followed() && check_enter()) {
        check_host_saw_device(-1);
        check_leave();
    }
    return status;
}

tnr_status tnr_pool_access_set(tnr_pool pool, int device, int peer, tnr_access access)
{
    return waited(PASSED_ON(tnr_pool_access_set, (pool, device, peer, access)));
}

tnr_status tnr_device_access_set(int device, int peer, tnr_access access)
{
    return waited(PASSED_ON(tnr_device_access_set, (device, peer, access)));
}

tnr_status tnr_pool_sleep(tnr_pool pool, int device, const tnr_sleep_options *options)
{
    return waited(PASSED_ON(tnr_pool_sleep, (pool, device, options)));
}

tnr_status tnr_device_sleep(int device, const tnr_sleep_options *options)
{
    return waited(PASSED_ON(tnr_device_sleep, (device, options)));
}

tnr_status tnr_import_close(void *ptr)
{
    return waited(PASSED_ON(tnr_import_close, (ptr)));
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Its addresses are the driver's now, and may be others' after the next start. */
static void device_ended(int index)
{
    check_device_ends(index);
    service_unlearn(index);
}

tnr_status tnr_device_end(int device, int force)
{
    tnr_status status = PASSED_ON(tnr_device_end, (device, force));
    if (status == TNR_OK && is_followed() && device >= 0 && device < SERVICE_DEVICES_MAX)
        device_ended(device);
    return status;
}

tnr_status tnr_shutdown(int force)
{
    tnr_status status = PASSED_ON(tnr_shutdown, (force));
    for (int i = 0; status == TNR_OK && is_followed() && i < SERVICE_DEVICES_MAX; i++)
        device_ended(i);
    return status;
}

/* ---- captures ------------------------------------------------------------------------------- */

/* Tenure begins it with a call of its own to the driver. */
tnr_status tnr_capture_begin(int device, tnr_stream stream, const tnr_capture_options *options)
{
    if (is_followed())
        check_capture_begins();
    return PASSED_ON(tnr_capture_begin, (device, stream, options));
}

/* ---- frees ---------------------------------------------------------------------------------- */

tnr_status tnr_free(void *ptr)
{
    if (ptr != NULL && is_followed() && !host_freeing(ptr))
        check_freeing_own("tnr_free", (CUdeviceptr)(uintptr_t)ptr, 0);
    return PASSED_ON(tnr_free, (ptr));
}

tnr_status tnr_free_sync(void *ptr)
{
    if (ptr != NULL && is_followed() && !host_freeing(ptr))
        check_freeing_own("tnr_free_sync", (CUdeviceptr)(uintptr_t)ptr, 1);
    return PASSED_ON(tnr_free_sync, (ptr));
}

/* What the stream was given may still use it; and the block's own stream, as ever. The real
 * function calls the other two inside of the library. */
tnr_status tnr_free_on(void *ptr, tnr_stream stream)
{
    if (ptr != NULL && is_followed() && !host_freeing(ptr)) {
        CHECK_TELL_ORDER(check_use_recorded((CUdeviceptr)(uintptr_t)ptr, stream, 0));
        check_freeing_own("tnr_free_on", (CUdeviceptr)(uintptr_t)ptr, 0);
    }
    return PASSED_ON(tnr_free_on, (ptr, stream));
}

/* ---- uses ----------------------------------------------------------------------------------- */

tnr_status tnr_record_use(const void *ptr, tnr_stream stream)
{
    tnr_status status = PASSED_ON(tnr_record_use, (ptr, stream));
    if (status == TNR_OK && is_followed())
        CHECK_TELL_ORDER(check_use_recorded((CUdeviceptr)(uintptr_t)ptr, stream, 0));
    return status;
}

tnr_status tnr_record_stream(const void *ptr, tnr_stream stream)
{
    tnr_status status = PASSED_ON(tnr_record_stream, (ptr, stream));
    if (status == TNR_OK && is_followed())
        CHECK_TELL_ORDER(check_use_recorded((CUdeviceptr)(uintptr_t)ptr, stream, 1));
    return status;
}

tnr_status tnr_keep_until(const void *ptr, tnr_event event)
{
    tnr_status status = PASSED_ON(tnr_keep_until, (ptr, event));
    if (status == TNR_OK && is_followed())
        CHECK_TELL_ORDER(check_use_kept((CUdeviceptr)(uintptr_t)ptr, event));
    return status;
}

/* ---- names ---------------------------------------------------------------------------------- */

/* Those of streams are for findings, too. */
tnr_status tnr_stream_name_set(int device, tnr_stream stream, const char *name)
{
    tnr_status status = PASSED_ON(tnr_stream_name_set, (device, stream, name));
    if (status == TNR_OK && is_followed())
        check_stream_named_on(device, stream, name);
    return status;
}

/* ---- frames --------------------------------------------------------------------------------- */

/* Those of an interpreter are for findings, too. */
tnr_status tnr_frames_source_set(tnr_frames_take take, tnr_frames_describe describe)
{
    tnr_status status = PASSED_ON(tnr_frames_source_set, (take, describe));
    if (status == TNR_OK)
        check_frames_from(take, describe);
    return status;
}
