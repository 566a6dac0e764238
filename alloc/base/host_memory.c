/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory for metadata: see host_memory.h.
 *
 * With jemalloc, one arena of its own is made on first use and every allocation goes there with
 * MALLOCX_ARENA, without a thread cache: metadata is allocated in slabs on slow paths, so a cache
 * would only blur the accounting. The arena is asked for its allocated and base bytes, if anything
 * was allocated or freed since: jemalloc adds up all arenas for that, which takes microseconds.
 */
#include "base/host_memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/prim/pages.h"
#include "base/prim/thread.h"

enum { HOST_ALIGNMENT = 64 };

static _Atomic int64_t host_touched_bytes;
static _Atomic uint64_t host_fail_countdown; /* 0: off */
static _Atomic int host_fail_sticky;
static _Atomic uint64_t host_fail_count;

/* 1 if the injector wants this allocation to fail. Tests that use it are single-threaded; the
 * atomics only keep the sanitizers content. */
static int host_fail_now(void)
{
    uint64_t countdown = atomic_load_explicit(&host_fail_countdown, memory_order_relaxed);
    if (tnri_likely(countdown == 0))
        return 0;
    if (countdown > 1) {
        atomic_store_explicit(&host_fail_countdown, countdown - 1, memory_order_relaxed);
        return 0;
    }
    if (!atomic_load_explicit(&host_fail_sticky, memory_order_relaxed))
        atomic_store_explicit(&host_fail_countdown, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&host_fail_count, 1, memory_order_relaxed);
    return 1;
}

uint64_t tnri_host_fail_at(uint64_t nth, int sticky)
{
    atomic_store_explicit(&host_fail_countdown, nth, memory_order_relaxed);
    atomic_store_explicit(&host_fail_sticky, sticky, memory_order_relaxed);
    return atomic_exchange_explicit(&host_fail_count, 0, memory_order_relaxed);
}

void tnri_host_touched(int64_t bytes)
{
    atomic_fetch_add_explicit(&host_touched_bytes, bytes, memory_order_relaxed);
}

/* A kernel that has no large pages, or gives none, gives small ones. */
void *tnri_host_sheet_alloc(void)
{
    if (host_fail_now())
        return NULL;
    size_t bytes = 2 * TNRI_HOST_SHEET_BYTES; /* one lies in it whole */
    char *range = tnri_host_pages_map(bytes, 0);
    if (range == NULL)
        return NULL;
    size_t before = -(uintptr_t)range % TNRI_HOST_SHEET_BYTES;
    char *sheet = range + before;
    if (before > 0)
        tnri_host_pages_unmap(range, before);
    tnri_host_pages_unmap(sheet + TNRI_HOST_SHEET_BYTES, TNRI_HOST_SHEET_BYTES - before);
    tnri_host_pages_enlarge(sheet, TNRI_HOST_SHEET_BYTES);
    tnri_host_touched((int64_t)TNRI_HOST_SHEET_BYTES);
    return sheet;
}

void tnri_host_sheet_free(void *sheet)
{
    tnri_host_pages_unmap(sheet, TNRI_HOST_SHEET_BYTES);
    tnri_host_touched(-(int64_t)TNRI_HOST_SHEET_BYTES);
}

void *tnri_host_reserve(size_t bytes)
{
    return host_fail_now() ? NULL : tnri_host_pages_map(bytes, 1);
}

void tnri_host_unreserve(void *table, size_t bytes)
{
    if (table != NULL)
        tnri_host_pages_unmap(table, bytes);
}

#ifdef TNR_METADATA_JEMALLOC

#include <jemalloc/jemalloc.h>
#include <stdio.h>

static tnri_once host_once = TNRI_ONCE_INIT;
static unsigned host_arena;               /* constant after host_once */
static int host_arena_ok;                 /* constant after host_once */
static _Atomic uint64_t host_changes = 1; /* allocations and frees that are done */
/* What the arena held when host_changes were so many (0: it is being written, or never was): by the
 * thread that has set host_is_writing. */
static _Atomic int host_is_writing;
static _Atomic uint64_t host_kept_changes, host_kept_bytes;

static void host_arena_create(void)
{
    size_t bytes = sizeof(host_arena);
    host_arena_ok = je_mallctl("arenas.create", &host_arena, &bytes, NULL, 0) == 0;
}

static int host_flags(void)
{
    return MALLOCX_ARENA(host_arena) | MALLOCX_TCACHE_NONE | MALLOCX_ALIGN(HOST_ALIGNMENT);
}

void *tnri_host_alloc(size_t bytes)
{
    tnri_assert(bytes > 0);
    tnri_once_run(&host_once, host_arena_create);
    if (!host_arena_ok || host_fail_now())
        return NULL;
    void *memory = je_mallocx(bytes, host_flags() | MALLOCX_ZERO);
    atomic_fetch_add_explicit(&host_changes, 1, memory_order_release);
    return memory;
}

void tnri_host_free(void *memory, size_t bytes)
{
    if (memory == NULL)
        return;
    je_sdallocx(memory, bytes, host_flags());
    atomic_fetch_add_explicit(&host_changes, 1, memory_order_release);
}

/* One statistic of the arena; 0 if jemalloc does not know it. */
static uint64_t host_arena_stat(const char *name)
{
    char path[64];
    size_t value = 0;
    size_t bytes = sizeof(value);
    snprintf(path, sizeof(path), "stats.arenas.%u.%s", host_arena, name);
    return je_mallctl(path, &value, &bytes, NULL, 0) == 0 ? value : 0;
}

static uint64_t host_arena_bytes(void)
{
    uint64_t epoch = 1;
    size_t bytes = sizeof(epoch);
    je_mallctl("epoch", &epoch, &bytes, &epoch, bytes);
    return host_arena_stat("small.allocated") + host_arena_stat("large.allocated") +
           host_arena_stat("base");
}

uint64_t tnri_host_bytes(void)
{
    tnri_once_run(&host_once, host_arena_create);
    uint64_t changes = atomic_load_explicit(&host_changes, memory_order_acquire), held;
    if (atomic_load_explicit(&host_kept_changes, memory_order_acquire) == changes) {
        held = atomic_load_explicit(&host_kept_bytes, memory_order_relaxed);
    } else {
        held = host_arena_bytes();
        if (!atomic_exchange_explicit(&host_is_writing, 1, memory_order_acquire)) {
            atomic_store_explicit(&host_kept_changes, 0, memory_order_relaxed);
            atomic_store_explicit(&host_kept_bytes, held, memory_order_release);
            atomic_store_explicit(&host_kept_changes, changes, memory_order_release);
            atomic_store_explicit(&host_is_writing, 0, memory_order_release);
        }
    }
    return held + (uint64_t)atomic_load_explicit(&host_touched_bytes, memory_order_relaxed);
}

const char *tnri_host_backend(void)
{
    return "jemalloc " JEMALLOC_VERSION;
}

#else

static _Atomic int64_t host_heap_bytes;

void *tnri_host_alloc(size_t bytes)
{
    tnri_assert(bytes > 0);
    if (host_fail_now())
        return NULL;
    void *memory = NULL;
    if (posix_memalign(&memory, HOST_ALIGNMENT, bytes) != 0)
        return NULL;
    memset(memory, 0, bytes);
    atomic_fetch_add_explicit(&host_heap_bytes, (int64_t)bytes, memory_order_relaxed);
    return memory;
}

void tnri_host_free(void *memory, size_t bytes)
{
    if (memory == NULL)
        return;
    atomic_fetch_sub_explicit(&host_heap_bytes, (int64_t)bytes, memory_order_relaxed);
    free(memory);
}

uint64_t tnri_host_bytes(void)
{
    return (uint64_t)(atomic_load_explicit(&host_heap_bytes, memory_order_relaxed) +
                      atomic_load_explicit(&host_touched_bytes, memory_order_relaxed));
}

const char *tnri_host_backend(void)
{
    return "malloc";
}

#endif
