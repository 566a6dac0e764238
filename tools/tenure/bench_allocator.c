/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocators that a benchmark compares: Tenure, the driver's own pool, and, through a plugin
 * (tests/bench/torch_allocator.cpp), PyTorch's.
 *
 * A benchmark runs in one process on one device. So the data for the functions lies in one static
 * structure. It is written before any thread starts, and only read afterwards.
 */
#include "bench.h"

#include <dlfcn.h>
#include <string.h>

static struct {
    const session *active;
    int device;
    CUmemoryPool pool;
    void *torch_library;
    int (*torch_init)(int device);
    void *(*torch_alloc)(size_t bytes, int device, void *stream);
    int (*torch_free)(void *ptr);
    void (*torch_thread)(int device);
    void (*torch_trim)(void);
    const char *(*torch_error)(void);
    const char *(*torch_version)(void);
} bench;

/* The driver's latest error in this thread. */
static _Thread_local CUresult pool_result;
static _Thread_local char pool_error_text[256];

static void context_enter(void)
{
    bench.active->gpu.cuCtxPushCurrent(bench.active->context);
}

/* ---- Tenure --------------------------------------------------------------------------------- */

static void *tenure_allocate(size_t bytes, CUstream stream)
{
    void *ptr;
    return tnr_malloc(&ptr, bytes, bench.device, stream) == TNR_OK ? ptr : NULL;
}

static int tenure_release(void *ptr, CUstream stream)
{
    (void)stream;
    return tnr_free(ptr) == TNR_OK ? 0 : -1;
}

static void tenure_trim(void)
{
    if (tnr_trim(NULL, 0, bench.device) != TNR_OK)
        fprintf(stderr, "tenure bench: trimming failed: %s\n", tnr_last_error());
}

static const char *tenure_error(void)
{
    return tnr_last_error();
}

uint64_t bench_driver_calls(const bench_setup *setup)
{
    bench_counts counts;
    return bench_counts_read(setup, &counts) == 0 ? counts.driver_calls : 0;
}

void bench_cell_calls(bench_cell *cell, uint64_t calls)
{
    cell->counts.has_calls = 1;
    cell->counts.driver_calls = calls;
}

int bench_counts_read(const bench_setup *setup, bench_counts *counts)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    if (tnr_stats_get(&stats, NULL, setup->active->device) != TNR_OK)
        return -1;
    *counts = (bench_counts){.has_calls = 1,
                             .has_served = 1,
                             .moved = stats.served[TNR_SERVED_MOVED],
                             .lent = stats.served[TNR_SERVED_LENT],
                             .shared = stats.served[TNR_SERVED_SHARED],
                             .grown = stats.served[TNR_SERVED_GROWN],
                             .reserved_bytes = stats.reserved_bytes.current,
                             .live_bytes = stats.bytes_live};
    for (int kind = 0; kind < TNR_DRIVER_KIND_COUNT; kind++)
        counts->driver_calls += stats.driver_calls[kind];
    return 0;
}

void bench_counts_add(bench_counts *sum, const bench_counts *before, const bench_counts *after)
{
    sum->has_calls = sum->has_served = 1;
    sum->driver_calls += after->driver_calls - before->driver_calls;
    sum->moved += after->moved - before->moved;
    sum->lent += after->lent - before->lent;
    sum->shared += after->shared - before->shared;
    sum->grown += after->grown - before->grown;
    sum->reserved_bytes = after->reserved_bytes;
    sum->live_bytes = after->live_bytes;
}

/* ---- the driver's pool ---------------------------------------------------------------------- */

static void *pool_allocate(size_t bytes, CUstream stream)
{
    CUdeviceptr address = 0;
    pool_result = bench.active->gpu.cuMemAllocAsync(&address, bytes, stream);
    return pool_result == CUDA_SUCCESS ? (void *)(uintptr_t)address : NULL;
}

static int pool_release(void *ptr, CUstream stream)
{
    pool_result = bench.active->gpu.cuMemFreeAsync((CUdeviceptr)(uintptr_t)ptr, stream);
    return pool_result == CUDA_SUCCESS ? 0 : -1;
}

static void pool_trim(void)
{
    bench.active->gpu.cuCtxSynchronize();
    if (!bench.active->simulated)
        bench.active->gpu.cuMemPoolTrimTo(bench.pool, 0);
}

static const char *pool_error(void)
{
    return gpu_error_text(&bench.active->gpu, pool_result, pool_error_text,
                          sizeof(pool_error_text));
}

/* Makes the pool keep what it has (the simulated one cannot): otherwise it gives everything back at
 * each synchronisation and the comparison would be with mapping memory, not with a cache. */
static int pool_open(char *error, size_t error_bytes)
{
    const gpu_driver *gpu = &bench.active->gpu;
    if (bench.active->simulated && gpu->cuMemAllocAsync && gpu->cuMemFreeAsync)
        return 0;
    if (!gpu->cuMemAllocAsync || !gpu->cuMemFreeAsync || !gpu->cuDeviceGetDefaultMemPool ||
        !gpu->cuMemPoolSetAttribute || !gpu->cuMemPoolTrimTo) {
        snprintf(error, error_bytes, "the driver has no memory pools");
        return -1;
    }
    cuuint64_t threshold = UINT64_MAX;
    CUresult result = gpu->cuDeviceGetDefaultMemPool(&bench.pool, bench.active->cu_device);
    if (result == CUDA_SUCCESS)
        result =
            gpu->cuMemPoolSetAttribute(bench.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
    if (result == CUDA_SUCCESS)
        return 0;
    char text[256];
    snprintf(error, error_bytes, "the driver's memory pool cannot be used: %s",
             gpu_error_text(gpu, result, text, sizeof(text)));
    return -1;
}

/* ---- PyTorch -------------------------------------------------------------------------------- */

static void *torch_allocate(size_t bytes, CUstream stream)
{
    return bench.torch_alloc(bytes, bench.device, stream);
}

static int torch_release(void *ptr, CUstream stream)
{
    (void)stream;
    return bench.torch_free(ptr);
}

static void torch_thread_enter(void)
{
    context_enter();
    bench.torch_thread(bench.device);
}

int bench_torch_symbol(void *function, const char *name, char *error, size_t error_bytes)
{
    void *symbol = dlsym(bench.torch_library, name);
    memcpy(function, &symbol, sizeof(symbol));
    if (symbol)
        return 0;
    snprintf(error, error_bytes, "the PyTorch plugin has no function %s", name);
    return -1;
}

static int torch_open(const char *path, char *error, size_t error_bytes)
{
    bench.torch_library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!bench.torch_library) {
        snprintf(error, error_bytes, "the PyTorch plugin cannot be loaded: %s", dlerror());
        return -1;
    }
    if (bench_torch_symbol(&bench.torch_init, "tnr_bench_torch_init", error, error_bytes) != 0 ||
        bench_torch_symbol(&bench.torch_alloc, "tnr_bench_torch_alloc", error, error_bytes) != 0 ||
        bench_torch_symbol(&bench.torch_free, "tnr_bench_torch_free", error, error_bytes) != 0 ||
        bench_torch_symbol(&bench.torch_thread, "tnr_bench_torch_thread", error, error_bytes) !=
            0 ||
        bench_torch_symbol(&bench.torch_trim, "tnr_bench_torch_trim", error, error_bytes) != 0 ||
        bench_torch_symbol(&bench.torch_error, "tnr_bench_torch_error", error, error_bytes) != 0 ||
        bench_torch_symbol(&bench.torch_version, "tnr_bench_torch_version", error, error_bytes) !=
            0)
        return -1;
    if (bench.torch_init(bench.device) == 0)
        return 0;
    snprintf(error, error_bytes, "PyTorch's allocator does not start: %s", bench.torch_error());
    return -1;
}

int bench_torch_open(const char *path, int device, bench_allocator *allocator, char *error,
                     size_t error_bytes)
{
    bench.device = device;
    if (torch_open(path, error, error_bytes) != 0)
        return -1;
    *allocator =
        (bench_allocator){"PyTorch",          "pytorch",        torch_allocate,   torch_release,
                          torch_thread_enter, bench.torch_trim, bench.torch_error};
    return 0;
}

/* ---- all ------------------------------------------------------------------------------------ */

const bench_column bench_malloc_columns[BENCH_ALLOCATORS_MAX] = {
    {"Tenure", "tenure"},
    [BENCH_COLUMN_MALLOC] = {"cuMemAlloc", "driver_malloc"},
    {"driver pool", "driver_pool"},
    {"PyTorch", "pytorch"},
};

int bench_allocators_open(bench_setup *setup, const char *torch_plugin, char *error,
                          size_t error_bytes)
{
    bench.active = setup->active;
    bench.device = setup->active->device;
    bench_allocator *next = setup->allocators;
    *next++ = (bench_allocator){"Tenure",      "tenure",    tenure_allocate, tenure_release,
                                context_enter, tenure_trim, tenure_error};
    if (setup->has_pool) {
        if (pool_open(error, error_bytes) != 0)
            return -1;
        *next++ = (bench_allocator){"driver pool", "driver_pool", pool_allocate, pool_release,
                                    context_enter, pool_trim,     pool_error};
    }
    if (torch_plugin) {
        if (setup->active->simulated) {
            snprintf(error, error_bytes, "--torch needs a GPU; this is the simulated device");
            return -1;
        }
        if (bench_torch_open(torch_plugin, bench.device, next++, error, error_bytes) != 0)
            return -1;
        fprintf(stderr, "PyTorch plugin: %s\n", bench.torch_version());
    }
    setup->allocators_count = (size_t)(next - setup->allocators);
    return 0;
}
