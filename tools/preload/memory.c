/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocating and freeing.
 *
 * cudaMalloc's memory may be used on any stream at once, so it is handed out only when all that was
 * done with it before is over (see service.h). cudaMallocAsync's belongs to its stream, as Tenure's
 * does. cudaFree means that nothing that was enqueued anywhere may still see the memory change:
 * tnr_free_sync, which does not stop the host as the driver does.
 *
 * What Tenure does not serve is the driver's, from the allocation to the free: pointers tell whose
 * they are. Allocations of no bytes, wrong arguments and null pointers go there too, for the
 * driver's own error.
 */
#include "memory.h"

#include <stdlib.h>

#include "graphs.h"
#include "handles.h"
#include "order.h"
#include "service.h"

/* Pools that the program made and that promise nothing Tenure does not: pool -> plain_pool. */
static handles pools_plain = HANDLES_INIT;

typedef struct plain_pool {
    int device;
    size_t bytes_max;      /* as the program said; 0: no limit */
    _Atomic(tnr_pool) own; /* ours in its stead, if it has a limit: made when it is first needed */
} plain_pool;

/* Frees of signal handlers that interrupted Tenure, made up for by the next allocation. */
enum { DEFERRED_MAX = 256 };
static _Atomic CUdeviceptr deferred[DEFERRED_MAX];
static _Atomic int deferred_count; /* a hint: not 0 if there may be some */

/* ---- frees ---------------------------------------------------------------------------------- */

static CUresult free_result(tnr_status status)
{
    if (status == TNR_OK) {
        service_count_one(COUNT_FREES_SERVED);
        return CUDA_SUCCESS;
    }
    service_count_one(COUNT_FREES_REFUSED);
    return service_result(status);
}

static CUresult free_now(CUdeviceptr address)
{
    memory_forget(address);
    order_wait_for_strangers();
    return free_result(tnr_free_sync((void *)(uintptr_t)address));
}

/* From a signal handler: remembered. The memory stays allocated if there are too many. */
static CUresult free_later(CUdeviceptr address)
{
    for (int i = 0; i < DEFERRED_MAX; i++) {
        CUdeviceptr none = 0;
        if (atomic_compare_exchange_strong(&deferred[i], &none, address)) {
            atomic_fetch_add(&deferred_count, 1);
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_NOT_PERMITTED;
}

/* Inside. */
static void free_deferred(void)
{
    if (atomic_load_explicit(&deferred_count, memory_order_relaxed) == 0)
        return;
    for (int i = 0; i < DEFERRED_MAX; i++) {
        CUdeviceptr address = atomic_exchange(&deferred[i], 0);
        if (address == 0)
            continue;
        atomic_fetch_sub(&deferred_count, 1);
        (void)free_now(address);
    }
}

CUresult CUDAAPI replace_cuMemFree_v2(CUdeviceptr address)
{
    if (service_of_address(address) == NULL || service_is_forked()) {
        if (address != 0)
            service_count_one(COUNT_FREES_PASSED);
        return REAL(cuMemFree_v2, (address));
    }
    if (!service_enter())
        return free_later(address);
    free_deferred();
    CUresult result = free_now(address);
    service_leave();
    return result;
}

CUresult CUDAAPI replace_cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    if (service_of_address(address) == NULL || service_is_forked()) {
        if (address != 0)
            service_count_one(COUNT_FREES_PASSED);
        return REAL(cuMemFreeAsync, (address, stream));
    }
    if (!service_enter())
        return free_later(address);
    memory_forget(address);
    void *block = (void *)(uintptr_t)address;
    tnr_status status = TNR_ERR_INVALID_STREAM;
    if (!graphs_is_strange(stream))
        status = tnr_free_on(block, stream);
    /* A stream of another context: whatever it does, the memory is not handed out before. */
    if (status == TNR_ERR_INVALID_STREAM) {
        order_wait_for_strangers();
        status = tnr_free_sync(block);
    }
    CUresult result = free_result(status);
    service_leave();
    return result;
}

CUresult CUDAAPI replace_cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream)
{
    return replace_cuMemFreeAsync(address, stream_of_thread(stream));
}

/* ---- allocations ---------------------------------------------------------------------------- */

/* 1 if the driver may be asked instead: Tenure has failed, not the program, and memory is left. */
static int is_passed_on(tnr_status status)
{
    return status != TNR_OK && status != TNR_ERR_OUT_OF_MEMORY && status != TNR_ERR_LIMIT &&
           status != TNR_ERR_INVALID_SIZE;
}

/* Says, once, that something in Tenure does not work and the driver can do it. */
static void passed_on_say(tnr_status status, const char *call)
{
    static _Atomic int is_said;
    /* A stream of another context, the end of the process, and a broken context are not ours. */
    if (status == TNR_ERR_INVALID_STREAM || status == TNR_ERR_SHUTDOWN ||
        atomic_exchange(&is_said, 1))
        return;
    service_say("%s: %s The memory comes from the driver's own allocator.", call, tnr_last_error());
}

/* Waits until the stream of cudaMalloc is through with what it was made to wait for. */
static void malloc_settle(const service_device *device)
{
    CUstreamCaptureMode before = service_relaxed();
    if (REAL(cuStreamQuery, (device->stream)) == CUDA_ERROR_NOT_READY)
        (void)REAL(cuStreamSynchronize, (device->stream));
    service_relaxed_end(before);
}

static tnr_status malloc_anywhere(service_device *device, size_t bytes, void **block)
{
    tnr_status status = tnr_pool_malloc(block, device->pool, bytes, device->index, device->stream);
    if (status == TNR_OK)
        malloc_settle(device);
    return status;
}

/* Counts and turns into the driver's terms what came of an allocation that Tenure was asked for. */
static CUresult alloc_result(tnr_status status, void *block, CUdeviceptr *address)
{
    if (status != TNR_OK) {
        service_count_one(COUNT_ALLOCS_FAILED);
        return service_result(status);
    }
    service_count_one(COUNT_ALLOCS_SERVED);
    *address = (CUdeviceptr)(uintptr_t)block;
    return CUDA_SUCCESS;
}

/* cudaMalloc. 1 if Tenure was asked and has answered; 0: the driver is to be asked. */
static int malloc_serve(CUdeviceptr *address, size_t bytes, CUresult *result, tnr_status *status)
{
    *status = TNR_OK;
    if (address == NULL || bytes == 0 || !service_enter())
        return 0;
    void *block = NULL;
    free_deferred();
    service_device *device = service_here();
    int is_served = device != NULL && !atomic_load(&device->is_peer_open);
    if (is_served) {
        *status = malloc_anywhere(device, bytes, &block);
        is_served = !is_passed_on(*status);
        if (is_served)
            *result = alloc_result(*status, block, address);
    }
    service_leave();
    return is_served;
}

/* The driver has been asked instead. */
static CUresult alloc_passed(CUresult result, tnr_status status, const char *call)
{
    if (result != CUDA_SUCCESS)
        return result;
    service_count_one(COUNT_ALLOCS_PASSED);
    if (status != TNR_OK && service_enter()) {
        passed_on_say(status, call);
        service_leave();
    }
    return result;
}

CUresult CUDAAPI replace_cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    CUresult result;
    tnr_status status;
    if (malloc_serve(address, bytes, &result, &status))
        return result;
    return alloc_passed(REAL(cuMemAlloc_v2, (address, bytes)), status, "cuMemAlloc");
}

/* Rows begin at multiples of this, as the driver's do: enough for every texture and copy. */
enum { PITCH_BYTES = 512 };

CUresult CUDAAPI replace_cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width,
                                            size_t height, unsigned element)
{
    CUresult result;
    tnr_status status = TNR_OK;
    size_t row = (width + PITCH_BYTES - 1) & ~(size_t)(PITCH_BYTES - 1);
    size_t bytes;
    int is_sane = address != NULL && pitch != NULL && width > 0 && height > 0 && row >= width &&
                  (element == 4 || element == 8 || element == 16) &&
                  !__builtin_mul_overflow(row, height, &bytes);
    if (is_sane && malloc_serve(address, bytes, &result, &status)) {
        if (result == CUDA_SUCCESS)
            *pitch = row;
        return result;
    }
    result = REAL(cuMemAllocPitch_v2, (address, pitch, width, height, element));
    return alloc_passed(result, status, "cuMemAllocPitch");
}

/* What Tenure allocates from where the program names a pool of the driver's. 0: nothing. */
static int pool_stand_in(const service_device *device, CUmemoryPool pool, tnr_pool *own)
{
    uint64_t value;
    *own = NULL;
    if (pool == NULL)
        return !atomic_load(&device->is_pool_taken);
    if (pool == device->driver_pool)
        return 1;
    if (!handles_get(&pools_plain, pool, &value))
        return 0;
    plain_pool *plain = (plain_pool *)(uintptr_t)value;
    if (plain->device != device->index || plain->bytes_max == 0)
        return plain->device == device->index;
    *own = atomic_load(&plain->own);
    if (*own != NULL)
        return 1;
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.limit_bytes = plain->bytes_max;
    options.name = "cudaMemPool";
    tnr_pool none = NULL;
    if (tnr_pool_create(own, device->index, &options) != TNR_OK)
        return 0;
    if (!atomic_compare_exchange_strong(&plain->own, &none, *own)) {
        tnr_status ended = tnr_pool_destroy(*own); /* another thread was quicker */
        (void)ended;
        *own = none;
    }
    return 1;
}

/* cudaMallocAsync, as malloc_serve. `pool`: null for the device's. */
static int async_serve(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream,
                       CUresult *result, tnr_status *status)
{
    tnr_pool own = NULL;
    void *block = NULL;
    *status = TNR_OK;
    if (address == NULL || bytes == 0 || !service_enter())
        return 0;
    free_deferred();
    service_device *device = order_device(stream);
    int is_served = device != NULL && !atomic_load(&device->is_peer_open) &&
                    !graphs_is_strange(stream) && pool_stand_in(device, pool, &own);
    if (is_served) {
        *status = own == NULL ? tnr_malloc(&block, bytes, device->index, stream)
                              : tnr_pool_malloc(&block, own, bytes, device->index, stream);
        is_served = !is_passed_on(*status);
        if (is_served)
            *result = alloc_result(*status, block, address);
    }
    service_leave();
    return is_served;
}

CUresult CUDAAPI replace_cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    CUresult result;
    tnr_status status;
    if (async_serve(address, bytes, NULL, stream, &result, &status))
        return result;
    return alloc_passed(REAL(cuMemAllocAsync, (address, bytes, stream)), status, "cuMemAllocAsync");
}

CUresult CUDAAPI replace_cuMemAllocAsync_ptsz(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    return replace_cuMemAllocAsync(address, bytes, stream_of_thread(stream));
}

CUresult CUDAAPI replace_cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes,
                                                 CUmemoryPool pool, CUstream stream)
{
    CUresult result;
    tnr_status status = TNR_OK;
    if (pool != NULL && async_serve(address, bytes, pool, stream, &result, &status))
        return result;
    return alloc_passed(REAL(cuMemAllocFromPoolAsync, (address, bytes, pool, stream)), status,
                        "cuMemAllocFromPoolAsync");
}

CUresult CUDAAPI replace_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *address, size_t bytes,
                                                      CUmemoryPool pool, CUstream stream)
{
    return replace_cuMemAllocFromPoolAsync(address, bytes, pool, stream_of_thread(stream));
}

/* ---- the driver's pools --------------------------------------------------------------------- */

/* A pool of plain memory of one device. Memory of any other comes from the driver, which alone can
 * export it, or put it elsewhere. */
static int is_plain(const CUmemPoolProps *properties)
{
    return properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
           properties->handleTypes == CU_MEM_HANDLE_TYPE_NONE &&
           properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

CUresult CUDAAPI replace_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    CUresult result = REAL(cuMemPoolCreate, (pool, properties));
    if (result != CUDA_SUCCESS || !is_plain(properties) || !service_enter())
        return result;
    plain_pool *plain = calloc(1, sizeof(*plain));
    if (plain != NULL) {
        plain->device = properties->location.id;
        plain->bytes_max = properties->maxSize;
        handles_set(&pools_plain, *pool, (uint64_t)(uintptr_t)plain);
    }
    service_leave();
    return result;
}

/* Blocks of a pool outlive it, with the driver as with us: ours then stays until the end. */
CUresult CUDAAPI replace_cuMemPoolDestroy(CUmemoryPool pool)
{
    uint64_t value;
    if (service_enter()) {
        if (handles_take(&pools_plain, pool, &value)) {
            plain_pool *plain = (plain_pool *)(uintptr_t)value;
            tnr_pool own = atomic_load(&plain->own);
            tnr_status ended = own == NULL ? TNR_OK : tnr_pool_destroy(own);
            (void)ended;
            free(plain);
        }
        service_leave();
    }
    return REAL(cuMemPoolDestroy, (pool));
}

CUresult CUDAAPI replace_cuDeviceSetMemPool(CUdevice index, CUmemoryPool pool)
{
    CUresult result = REAL(cuDeviceSetMemPool, (index, pool));
    if (result != CUDA_SUCCESS || index < 0 || index >= SERVICE_DEVICES_MAX || !service_enter())
        return result;
    CUmemoryPool usual = NULL;
    uint64_t value;
    (void)REAL(cuDeviceGetDefaultMemPool, (&usual, index));
    int is_ours = pool == usual;
    if (!is_ours && handles_get(&pools_plain, pool, &value)) {
        const plain_pool *plain = (const plain_pool *)(uintptr_t)value;
        is_ours = plain->device == index && plain->bytes_max == 0;
    }
    atomic_store(&service_device_at(index)->is_pool_taken, !is_ours);
    service_leave();
    return result;
}

/* ---- mapping by hand ------------------------------------------------------------------------ */

/* The program's own business: counted, so that one sees where its memory comes from. */
CUresult CUDAAPI replace_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                                     const CUmemAllocationProp *properties,
                                     unsigned long long flags)
{
    CUresult result = REAL(cuMemCreate, (handle, bytes, properties, flags));
    if (result == CUDA_SUCCESS) {
        service_count_one(COUNT_CREATES_PASSED);
        service_count_more(COUNT_CREATES_PASSED_BYTES, bytes);
    }
    return result;
}
