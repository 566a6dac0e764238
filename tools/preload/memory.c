/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocating and freeing.
 *
 * The program may use cudaMalloc's memory on any stream at once. So it is handed out only when all
 * earlier work with it is over (see service.h). cudaMallocAsync's memory belongs to its stream, as
 * Tenure's does. After cudaFree, work that is already enqueued, on any stream, must not see the
 * memory change. That is tnr_free_sync, which does not stop the host as the driver does.
 *
 * What Tenure does not serve is the driver's, from the allocation to the free: the pointer tells
 * whose memory it is. Allocations of no bytes, wrong arguments and null pointers go to the driver
 * too, so that the program gets the driver's own error.
 */
#include "memory.h"

#include "check/check.h"
#include "graphs.h"
#include "order.h"
#include "pinned.h"
#include "pools.h"
#include "service.h"
#include "shortage.h"
#include "watch/account.h"
#include "watch/journal.h"

/* Frees of signal handlers that interrupted Tenure, made up for by the next allocation. */
enum { DEFERRED_MAX = 256 };
static _Atomic CUdeviceptr deferred[DEFERRED_MAX];
static _Atomic int deferred_count; /* a hint: not 0 if there may be some */

/* ---- frees ---------------------------------------------------------------------------------- */

static CUresult free_result(CUdeviceptr address, tnr_status status)
{
    if (status != TNR_OK)
        JOURNAL_TELL(journal_unfreed(address));
    if (status == TNR_OK) {
        service_count_one(COUNT_FREES_SERVED);
        JOURNAL_TELL(journal_counted());
        return CUDA_SUCCESS;
    }
    service_count_one(COUNT_FREES_REFUSED);
    return service_result(status);
}

static CUresult free_now(CUdeviceptr address)
{
    memory_forget(address);
    JOURNAL_TELL(journal_freeing(address));
    order_wait_for_strangers();
    return free_result(address, tnr_free_sync((void *)(uintptr_t)address));
}

CUresult memory_free_later(CUdeviceptr address)
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

void memory_free_deferred(void)
{
    if (atomic_load_explicit(&deferred_count, memory_order_relaxed) == 0)
        return;
    for (int i = 0; i < DEFERRED_MAX; i++) {
        CUdeviceptr address = atomic_exchange(&deferred[i], 0);
        if (address == 0)
            continue;
        atomic_fetch_sub(&deferred_count, 1);
        if (service_of_address(address) == NULL)
            pinned_free_deferred(address);
        else
            (void)free_now(address);
    }
}

CUresult CUDAAPI replace_cuMemFree_v2(CUdeviceptr address)
{
    if (service_of_address(address) == NULL || service_is_forked()) {
        if (address != 0)
            service_count_one(COUNT_FREES_PASSED);
        CUresult passed;
        ACCOUNTED(ACCOUNT_DRIVER, passed = REAL(cuMemFree_v2, (address)));
        if (passed == CUDA_SUCCESS && address != 0)
            CHECK_TELL_ORDER(check_device_seen());
        return passed;
    }
    CHECK_TELL(check_freeing_at_once("cuMemFree", address));
    if (!service_enter())
        return memory_free_later(address);
    memory_free_deferred();
    CUresult result = free_now(address);
    service_leave();
    CHECK_TELL(check_freed_at_once(address));
    return result;
}

CUresult CUDAAPI replace_cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    if (service_of_address(address) == NULL || service_is_forked()) {
        if (address != 0)
            service_count_one(COUNT_FREES_PASSED);
        CUresult passed;
        ACCOUNTED(ACCOUNT_DRIVER, passed = REAL(cuMemFreeAsync, (address, stream)));
        return passed;
    }
    CHECK_TELL(check_freeing("cuMemFreeAsync", address, stream));
    if (!service_enter())
        return memory_free_later(address);
    memory_forget(address);
    JOURNAL_TELL(journal_freeing(address));
    if (check_does(CHECK_SYNCS))
        order_wait_for_strangers();
    void *block = (void *)(uintptr_t)address;
    tnr_status status = TNR_ERR_INVALID_STREAM;
    if (!graphs_is_strange(stream))
        status = tnr_free_on(block, stream);
    /* A stream of another context: whatever it does, the memory is not handed out before. */
    if (status == TNR_ERR_INVALID_STREAM) {
        order_wait_for_strangers();
        status = tnr_free_sync(block);
    }
    CUresult result = free_result(address, status);
    service_leave();
    return result;
}

CUresult CUDAAPI replace_cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream)
{
    return replace_cuMemFreeAsync(address, stream_of_thread(stream));
}

/* ---- allocations ---------------------------------------------------------------------------- */

int memory_is_passed_on(tnr_status status)
{
    return status != TNR_OK && status != TNR_ERR_OUT_OF_MEMORY && status != TNR_ERR_LIMIT &&
           status != TNR_ERR_INVALID_SIZE;
}

void memory_say_passed_on(tnr_status status, const char *call)
{
    static _Atomic int is_said;
    /* A stream of another context, the end of the process, and a broken context are not ours. */
    if (status == TNR_OK || status == TNR_ERR_INVALID_STREAM || status == TNR_ERR_SHUTDOWN ||
        !service_enter())
        return;
    if (!atomic_exchange(&is_said, 1))
        service_say("%s: %s The memory comes from the driver's own allocator.", call,
                    tnr_last_error());
    service_leave();
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

/* Tells the journal of an allocation that Tenure has served. */
static CUresult alloc_told(CUresult result, const CUdeviceptr *address, size_t bytes,
                           CUstream stream, const service_device *device, int is_at_once)
{
    if (result == CUDA_SUCCESS)
        service_given(device, *address);
    if (result == CUDA_SUCCESS)
        JOURNAL_TELL(journal_allocated(*address, bytes, stream, device->index, is_at_once));
    return result;
}

/* cudaMalloc. 1 if Tenure was asked and has answered; 0: the driver is to be asked. */
static int malloc_serve(CUdeviceptr *address, size_t bytes, CUresult *result, tnr_status *status)
{
    *status = TNR_OK;
    if (address == NULL || bytes == 0 || !service_enter())
        return 0;
    void *block = NULL;
    memory_free_deferred();
    service_device *device = service_here();
    int is_served = device != NULL;
    if (is_served) {
        *status = malloc_anywhere(device, bytes, &block);
        is_served = !memory_is_passed_on(*status);
        if (is_served)
            *result =
                alloc_told(alloc_result(*status, block, address), address, bytes, NULL, device, 1);
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
    memory_say_passed_on(status, call);
    return result;
}

CUresult CUDAAPI replace_cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    CUresult result;
    tnr_status status;
    if (malloc_serve(address, bytes, &result, &status)) {
        if (result == CUDA_SUCCESS)
            CHECK_TELL(check_allocated_at_once("cuMemAlloc", *address, bytes));
        return result;
    }
    ACCOUNTED(ACCOUNT_DRIVER, REAL_RETRIED(result, cuMemAlloc_v2, (address, bytes)));
    return alloc_passed(result, status, "cuMemAlloc");
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
        if (result != CUDA_SUCCESS)
            return result;
        *pitch = row;
        CHECK_TELL(check_allocated_at_once("cuMemAllocPitch", *address, bytes));
        return result;
    }
    ACCOUNTED(ACCOUNT_DRIVER,
              REAL_RETRIED(result, cuMemAllocPitch_v2, (address, pitch, width, height, element)));
    return alloc_passed(result, status, "cuMemAllocPitch");
}

/* Memory that a capture allocates is in a pool of the graph's, which is to be reached by whom the
 * device's pool is. */
static tnr_status graph_open(const service_device *device, const void *block)
{
    tnr_block_info info;
    uint64_t peers = atomic_load(&device->peers[SERVICE_ASYNC]);
    tnr_status status = TNR_OK;
    if (peers == 0 || tnr_block_get(&info, block) != TNR_OK || info.pool == NULL)
        return TNR_OK;
    for (int i = 0; peers >> i != 0 && status == TNR_OK; i++)
        if ((peers >> i & 1) != 0)
            status = tnr_pool_access_set(info.pool, device->index, i, TNR_ACCESS_READWRITE);
    return status;
}

/* cudaMallocAsync's memory. `own`: null for the device's. */
static tnr_status malloc_on(const service_device *device, tnr_pool own, size_t bytes,
                            CUstream stream, void **block)
{
    if (own != NULL)
        return tnr_pool_malloc(block, own, bytes, device->index, stream);
    tnr_status status = tnr_malloc(block, bytes, device->index, stream);
    tnr_status opened = status == TNR_OK ? graph_open(device, *block) : TNR_OK;
    if (opened == TNR_OK)
        return status;
    status = tnr_free(*block);
    return opened;
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
    memory_free_deferred();
    service_device *device = order_device(stream);
    int is_served =
        device != NULL && !graphs_is_strange(stream) && pools_stand_in(device, pool, &own);
    if (is_served) {
        *status = malloc_on(device, own, bytes, stream, &block);
        is_served = !memory_is_passed_on(*status);
        if (is_served)
            *result = alloc_told(alloc_result(*status, block, address), address, bytes, stream,
                                 device, 0);
    }
    service_leave();
    return is_served;
}

CUresult CUDAAPI replace_cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    CUresult result;
    tnr_status status;
    if (async_serve(address, bytes, NULL, stream, &result, &status)) {
        if (result == CUDA_SUCCESS)
            CHECK_TELL(check_allocated("cuMemAllocAsync", *address, bytes, stream));
        return result;
    }
    ACCOUNTED(ACCOUNT_DRIVER, REAL_RETRIED(result, cuMemAllocAsync, (address, bytes, stream)));
    return alloc_passed(result, status, "cuMemAllocAsync");
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
    if (pool != NULL && async_serve(address, bytes, pool, stream, &result, &status)) {
        if (result == CUDA_SUCCESS)
            CHECK_TELL(check_allocated("cuMemAllocFromPoolAsync", *address, bytes, stream));
        return result;
    }
    ACCOUNTED(ACCOUNT_DRIVER,
              REAL_RETRIED(result, cuMemAllocFromPoolAsync, (address, bytes, pool, stream)));
    return alloc_passed(result, status, "cuMemAllocFromPoolAsync");
}

CUresult CUDAAPI replace_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *address, size_t bytes,
                                                      CUmemoryPool pool, CUstream stream)
{
    return replace_cuMemAllocFromPoolAsync(address, bytes, pool, stream_of_thread(stream));
}

/* ---- mapping by hand ------------------------------------------------------------------------ */

static CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes,
                       const CUmemAllocationProp *properties, unsigned long long flags)
{
    CUresult result = REAL(cuMemCreate, (handle, bytes, properties, flags));
    if (result == CUDA_ERROR_OUT_OF_MEMORY && properties != NULL &&
        properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
        shortage_ended(result, properties->location.id))
        result = REAL(cuMemCreate, (handle, bytes, properties, flags));
    return result;
}

/* The program's own business: counted, so that one sees where its memory comes from. */
CUresult CUDAAPI replace_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                                     const CUmemAllocationProp *properties,
                                     unsigned long long flags)
{
    CUresult result;
    ACCOUNTED_ON(ACCOUNT_MAPPED, properties != NULL ? properties->location.id : -1,
                 result = create(handle, bytes, properties, flags));
    if (result == CUDA_SUCCESS) {
        service_count_one(COUNT_CREATES_PASSED);
        service_count_more(COUNT_CREATES_PASSED_BYTES, bytes);
    }
    return result;
}
