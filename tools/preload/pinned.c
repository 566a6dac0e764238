/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned host memory: cuMemHostAlloc, cuMemAllocHost, and cuMemFreeHost.
 *
 * It comes from the host memory near the device of the current context (<tenure/host.h>), if that
 * device's memory is served. All contexts of all devices reach what the driver gives, whatever the
 * flags say, and so they reach this. Write-combined memory is the driver's: pools have none.
 *
 * Unless the setting `host` says otherwise it is cut out of slabs of cuMemHostAlloc. So a program
 * may do with it whatever the driver's own can bear, as use it on devices and in contexts that
 * Tenure does not serve. Mapped memory reaches only the devices in use.
 *
 * The driver waits in cuMemFreeHost for work that may use the memory. Tenure does not stop the
 * host: tnr_free_sync keeps the block until that work is over. It knows the work of devices that it
 * serves. For other devices and contexts the free waits as the driver does.
 *
 * The driver gives freed memory back to the system at once, for whatever the program wants next.
 * What Tenure keeps is pinned, and lacking elsewhere. So once much was freed, what is idle is
 * compared with what the system has left, and goes back if it is too much.
 *
 * With `--check=host` the driver serves: the checker protects whole pages.
 */
#include "pinned.h"

#include <string.h>

#include "check/check.h"
#include "check/pinned.h"
#include "check/race.h"
#include "handles.h"
#include "memory.h"
#include "order.h"
#include "watch/journal.h"

enum { FLAGS_SERVED = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP };

/* The driver's larger blocks begin at pages, and programs read files directly into them. What is
 * above Tenure's bound of small blocks lies among others of its kind. If all of these are whole
 * pages, they begin at pages, too; but not with traps or the checker, which lengthen blocks. */
enum { PAGE_BYTES = 4096, LARGE_BYTES = 128 << 10 };

static size_t pages_of(size_t bytes)
{
    return bytes <= LARGE_BYTES || bytes > TNR_BYTES_MAX
               ? bytes
               : (bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
}

/* Idle memory is looked at each time so much was freed, and may be so large a part of what the
 * system has left. */
#define LOOK_BYTES (UINT64_C(256) << 20)
enum { IDLE_PART = 4 };

_Atomic uintptr_t pinned_low = UINTPTR_MAX, pinned_high;
static _Atomic int is_off;                                /* the setting `host` says so */
static _Atomic uint64_t freed_bytes[SERVICE_DEVICES_MAX]; /* since the last look */

static handles flags_asked = HANDLES_INIT; /* block -> flags, if there are any */
static _Atomic int has_flags;

void pinned_configure(void)
{
    tnr_setting_info setting = {.struct_bytes = sizeof(setting)};
    size_t index = 0;
    while (tnr_setting_get(&setting, index) == TNR_OK && strcmp(setting.key, "host") != 0)
        index++;
    atomic_store(&is_off, strcmp(setting.value, "off") == 0);
    /* What an engine has begun to use stays as it is. */
    tnr_status status = setting.is_set ? TNR_OK : tnr_configure("host:allocated");
    (void)status;
}

/* ---- whose is it ---------------------------------------------------------------------------- */

typedef enum pinned_place { PLACE_FOREIGN, PLACE_LIVE, PLACE_GONE } pinned_place;

/* GONE: it is ours, or was, and in no live block of pinned memory. Inside. */
static pinned_place place_of(CUdeviceptr address, tnr_block_info *block)
{
    tnr_status status = tnr_block_get(block, (const void *)(uintptr_t)address);
    if (status == TNR_OK)
        return block->device >= TNR_HOST(0) ? PLACE_LIVE : PLACE_GONE;
    return status == TNR_ERR_NOT_LIVE ? PLACE_GONE : PLACE_FOREIGN;
}

int pinned_has(CUdeviceptr address)
{
    tnr_block_info block;
    if (!pinned_may_have(address))
        return 0;
    if (service_is_inside())
        return place_of(address, &block) == PLACE_LIVE;
    if (!service_enter())
        return 0;
    pinned_place place = place_of(address, &block);
    service_leave();
    return place == PLACE_LIVE;
}

static void bounds_widen(uintptr_t base, size_t bytes)
{
    uintptr_t low = atomic_load(&pinned_low), high = atomic_load(&pinned_high);
    while (base < low && !atomic_compare_exchange_weak(&pinned_low, &low, base))
        ;
    while (base + bytes > high && !atomic_compare_exchange_weak(&pinned_high, &high, base + bytes))
        ;
}

/* ---- allocating ----------------------------------------------------------------------------- */

static void pinned_given(const service_device *device, uintptr_t base, size_t bytes, unsigned flags)
{
    bounds_widen(base, bytes);
    service_count_one(COUNT_PINNED_SERVED);
    if (flags != 0) {
        atomic_store(&has_flags, 1);
        handles_set(&flags_asked, (const void *)base, flags);
    } else if (atomic_load_explicit(&has_flags, memory_order_relaxed)) {
        (void)handles_take(&flags_asked, (const void *)base, NULL); /* from before a reset */
    }
    JOURNAL_TELL(journal_allocated(base, bytes, NULL, TNR_HOST(device->index), 0));
}

/* 1 if Tenure was asked and has answered; 0: the driver is to be asked. */
static int pinned_serve(void **memory, size_t bytes, unsigned flags, CUresult *result,
                        tnr_status *status)
{
    void *block = NULL;
    *status = TNR_OK;
    if (memory == NULL || bytes == 0 || (flags & ~(unsigned)FLAGS_SERVED) != 0 ||
        check_is_host_watched || !service_enter())
        return 0;
    memory_free_deferred();
    service_device *device = service_here(); /* after which the setting is known */
    int is_served = device != NULL && !atomic_load_explicit(&is_off, memory_order_relaxed);
    if (is_served) {
        *status = tnr_malloc(&block, pages_of(bytes), TNR_HOST(device->index), NULL);
        is_served = !memory_is_passed_on(*status);
    }
    if (is_served && *status == TNR_OK) {
        pinned_given(device, (uintptr_t)block, bytes, flags);
        *memory = block;
    } else if (is_served) {
        service_count_one(COUNT_PINNED_FAILED);
    }
    if (is_served)
        *result = service_result(*status);
    service_leave();
    return is_served;
}

/* The driver has been asked instead. */
static void pinned_passed(CUresult result, size_t bytes, tnr_status status, const char *call)
{
    if (result != CUDA_SUCCESS || bytes == 0)
        return;
    service_count_one(COUNT_PINNED_PASSED);
    memory_say_passed_on(status, call);
}

static CUresult pinned_told(CUresult result, void *const *memory, size_t bytes)
{
    if (result == CUDA_SUCCESS)
        CHECK_TELL_ORDER(check_host_memory_made(*memory, bytes, 1));
    return result;
}

CUresult CUDAAPI replace_cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    CUresult result;
    tnr_status status;
    if (!pinned_serve(memory, bytes, flags, &result, &status)) {
        result = REAL(cuMemHostAlloc, (memory, bytes, flags));
        pinned_passed(result, bytes, status, "cuMemHostAlloc");
    }
    return pinned_told(result, memory, bytes);
}

CUresult CUDAAPI replace_cuMemAllocHost_v2(void **memory, size_t bytes)
{
    CUresult result;
    tnr_status status;
    if (!pinned_serve(memory, bytes, 0, &result, &status)) {
        result = REAL(cuMemAllocHost_v2, (memory, bytes));
        pinned_passed(result, bytes, status, "cuMemAllocHost");
    }
    return pinned_told(result, memory, bytes);
}

/* ---- freeing -------------------------------------------------------------------------------- */

/* Waits for the work of a device that is not served. */
static void device_await(int index)
{
    CUcontext context, popped;
    unsigned flags;
    int is_active = 0;
    if (REAL(cuDevicePrimaryCtxGetState, ((CUdevice)index, &flags, &is_active)) != CUDA_SUCCESS ||
        !is_active || service_primary_context(index, &context) != CUDA_SUCCESS ||
        REAL(cuCtxPushCurrent_v2, (context)) != CUDA_SUCCESS)
        return;
    (void)REAL(cuCtxSynchronize, ());
    (void)REAL(cuCtxPopCurrent_v2, (&popped));
}

/* Waits for what Tenure knows nothing of: contexts that it does not serve, as far as they have
 * streams or one is current, and devices that it does not serve yet. */
static void others_await(void)
{
    int count = 0;
    CUcontext context = NULL;
    CUstreamCaptureMode before = service_relaxed();
    order_wait_for_strangers();
    if (REAL(cuDeviceGetCount, (&count)) != CUDA_SUCCESS || count > SERVICE_DEVICES_MAX)
        count = SERVICE_DEVICES_MAX;
    for (int i = 0; i < count && count > 1; i++)
        if (!atomic_load_explicit(&service_device_at(i)->is_on, memory_order_acquire))
            device_await(i);
    if (service_here_started() == NULL && REAL(cuCtxGetCurrent, (&context)) == CUDA_SUCCESS &&
        context != NULL)
        (void)REAL(cuCtxSynchronize, ());
    service_relaxed_end(before);
}

/* Gives idle memory back if there is too much of it. */
static void idle_look(int device, size_t bytes)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    tnr_host_info system = {.struct_bytes = sizeof(system)};
    if (atomic_fetch_add(&freed_bytes[device], bytes) + bytes < LOOK_BYTES)
        return;
    atomic_store(&freed_bytes[device], 0);
    if (tnr_stats_get(&stats, NULL, TNR_HOST(device)) != TNR_OK || tnr_host_get(&system) != TNR_OK)
        return;
    uint64_t used = stats.bytes_live + stats.bytes_slack;
    /* What cannot go back now is looked at again. */
    if (stats.reserved_bytes.current - used > system.left_bytes / IDLE_PART &&
        tnr_trim(NULL, 0, TNR_HOST(device)) != TNR_OK)
        atomic_store(&freed_bytes[device], LOOK_BYTES);
}

/* Of a live block that the address lies in. Inside. */
static CUresult block_free(CUdeviceptr address, const tnr_block_info *block)
{
    void *memory = (void *)(uintptr_t)address;
    others_await();
    memory_forget(address);
    if (atomic_load_explicit(&has_flags, memory_order_relaxed))
        (void)handles_take(&flags_asked, memory, NULL);
    JOURNAL_TELL(journal_freeing(address));
    tnr_status status = tnr_free_sync(memory);
    if (status != TNR_OK) {
        JOURNAL_TELL(journal_unfreed(address));
        return service_result(status);
    }
    service_count_one(COUNT_PINNED_FREED);
    JOURNAL_TELL(journal_counted());
    idle_look(block->device - TNR_HOST(0), block->bytes);
    return CUDA_SUCCESS;
}

/* 1 if it is for us to say whether the memory can be freed. Inside. */
static int free_serve(CUdeviceptr address, CUresult *result)
{
    tnr_block_info block;
    pinned_place place = place_of(address, &block);
    if (place == PLACE_LIVE)
        *result = block_free(address, &block);
    else if (place != PLACE_FOREIGN)
        *result = CUDA_ERROR_INVALID_VALUE;
    return place != PLACE_FOREIGN;
}

void pinned_free_deferred(CUdeviceptr address)
{
    CUresult result;
    if (!free_serve(address, &result))
        (void)REAL(cuMemFreeHost, ((void *)(uintptr_t)address));
}

static CUresult free_anywhere(void *memory)
{
    CUresult result;
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)memory;
    if (!pinned_may_have(address) || service_is_forked())
        return REAL(cuMemFreeHost, (memory));
    if (!service_enter())
        return memory_free_later(address);
    memory_free_deferred();
    int is_served = free_serve(address, &result);
    service_leave();
    return is_served ? result : REAL(cuMemFreeHost, (memory));
}

/* The driver waits for the device, though nothing says so, and what the program may conclude from
 * that is right under Tenure, too: only the memory was in use, and it is not handed out before. */
CUresult CUDAAPI replace_cuMemFreeHost(void *memory)
{
    if (check_is_host_watched)
        check_pinned_gone(memory);
    CUresult result = free_anywhere(memory);
    if (result == CUDA_SUCCESS) {
        CHECK_TELL_ORDER(check_device_seen());
        CHECK_TELL_ORDER(check_host_memory_gone(memory));
    }
    return result;
}

/* ---- what is said of it --------------------------------------------------------------------- */

/* 1 if it is ours, or was: then 1 in *is_live if a live block is there. */
static int pinned_find(const void *memory, tnr_block_info *block, int *is_live)
{
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)memory;
    if (!pinned_may_have(address) || !service_enter())
        return 0;
    pinned_place place = place_of(address, block);
    service_leave();
    *is_live = place == PLACE_LIVE;
    return place != PLACE_FOREIGN;
}

CUresult CUDAAPI replace_cuMemHostGetFlags(unsigned *flags, void *memory)
{
    tnr_block_info block;
    uint64_t asked = 0;
    int is_live;
    if (flags == NULL || !pinned_find(memory, &block, &is_live))
        return REAL(cuMemHostGetFlags, (flags, memory));
    if (!is_live)
        return CUDA_ERROR_INVALID_VALUE;
    (void)handles_get(&flags_asked, block.base, &asked);
    *flags = (unsigned)asked | CU_MEMHOSTALLOC_DEVICEMAP; /* which unified addresses imply */
    return CUDA_SUCCESS;
}

CUresult CUDAAPI replace_cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *memory,
                                                      unsigned flags)
{
    tnr_block_info block;
    int is_live;
    if (address == NULL || flags != 0 || !pinned_find(memory, &block, &is_live))
        return REAL(cuMemHostGetDevicePointer_v2, (address, memory, flags));
    if (!is_live)
        return CUDA_ERROR_INVALID_VALUE;
    *address = (CUdeviceptr)(uintptr_t)memory;
    return CUDA_SUCCESS;
}
