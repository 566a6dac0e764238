/* SPDX-License-Identifier: Apache-2.0 */
/* Finding devices, putting them into use, and visiting their context: see device.h. */
#include "device/device.h"

#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "conf/conf.h"
#include "device/chunk.h"

static CUresult device_push(tnri_device *device, tnri_visit *visit);

static tnri_device *devices; /* array of devices_count; library lock to write */
static _Atomic int devices_count;

tnri_device_range tnri_device_ranges[TNRI_DEVICES_MAX];
_Atomic int tnri_device_ranges_count;

/* ---- finding -------------------------------------------------------------------------------- */

/* The attributes that matter. One that the driver is too old to know is 0. */
static CUresult capabilities_ask_attributes(tnri_capabilities *can)
{
    const struct {
        CUdevice_attribute attribute;
        int *value;
    } wanted[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &can->compute_major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &can->compute_minor},
        {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &can->has_vmm},
        {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, &can->has_posix_fd},
        {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, &can->has_fabric},
        {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, &can->has_gpu_direct_rdma},
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        CUresult result =
            tnri_drive(cuDeviceGetAttribute, (wanted[i].value, wanted[i].attribute, can->handle));
        if (result == CUDA_ERROR_INVALID_VALUE)
            *wanted[i].value = 0;
        else if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

static tnr_status capabilities_ask(tnri_capabilities *can, int index)
{
    CUresult result = tnri_drive(cuDeviceGet, (&can->handle, index));
    if (result == CUDA_SUCCESS)
        result = tnri_drive(cuDeviceGetName, (can->name, (int)sizeof(can->name), can->handle));
    if (result == CUDA_SUCCESS)
        result = tnri_drive(cuDeviceTotalMem, (&can->memory_bytes, can->handle));
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, "cuDeviceGet", "asking for a device's capabilities");
    result = capabilities_ask_attributes(can);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, "cuDeviceGetAttribute",
                                 "asking for a device's capabilities");
    if (!can->has_vmm)
        return TNR_OK;
    CUmemAllocationProp properties = {0};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = can->handle;
    result = tnri_drive(cuMemGetAllocationGranularity,
                        (&can->granularity_bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, "cuMemGetAllocationGranularity",
                                 "asking for the smallest mapping");
    return TNR_OK;
}

tnr_status tnri_devices_find(void)
{
    if (devices != NULL)
        return TNR_OK;
    int count = 0;
    CUresult result = tnri_drive(cuDeviceGetCount, (&count));
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, "cuDeviceGetCount", "looking for devices");
    if (count == 0)
        return tnri_error(TNR_ERR_NO_DEVICE, "the driver reports no device. Check nvidia-smi and "
                                             "CUDA_VISIBLE_DEVICES.");
    if (count > TNRI_DEVICES_MAX)
        count = TNRI_DEVICES_MAX;
    tnri_device *found = tnri_host_alloc((size_t)count * sizeof(*found));
    if (found == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for %d devices.", count);
    for (int i = 0; i < count; i++) {
        found[i].index = i;
        tnr_status status = capabilities_ask(&found[i].capabilities, i);
        if (status != TNR_OK) {
            tnri_host_free(found, (size_t)count * sizeof(*found));
            return status;
        }
    }
    devices = found;
    atomic_store_explicit(&devices_count, count, memory_order_release);
    return TNR_OK;
}

void tnri_devices_forget(void)
{
    int count = atomic_exchange(&devices_count, 0);
    tnri_assert(atomic_load(&tnri_device_ranges_count) == 0);
    tnri_host_free(devices, (size_t)count * sizeof(*devices));
    devices = NULL;
}

int tnri_devices_count(void)
{
    return atomic_load_explicit(&devices_count, memory_order_acquire);
}

tnri_device *tnri_device_at(int index)
{
    return index >= 0 && index < tnri_devices_count() ? &devices[index] : NULL;
}

/* ---- into use and out of it ----------------------------------------------------------------- */

/* The smallest power of two that is a multiple of the granularity and not below chunk_mb. */
static unsigned device_page_shift(const tnri_device *device)
{
    unsigned shift = 21;
    while ((size_t)1 << shift < device->capabilities.granularity_bytes ||
           (size_t)1 << shift < (size_t)tnri_conf_get()->chunk_mb << 20)
        shift++;
    return shift;
}

static uint64_t device_limit(const tnri_device *device)
{
    double fraction = tnri_conf_get()->per_process_memory_fraction;
    if (fraction >= 1)
        return UINT64_MAX;
    return (uint64_t)(fraction * (double)device->capabilities.memory_bytes);
}

/* Reserves the device's range, halving it when the process has not that many addresses left. */
static tnr_status device_reserve(CUdeviceptr *base, size_t *bytes, unsigned page_shift)
{
    size_t wanted = (size_t)tnri_conf_get()->address_space_gb << 30;
    size_t least = (size_t)1 << (page_shift > TNRI_SPAN_LOG2_MIN ? page_shift : TNRI_SPAN_LOG2_MIN);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    for (*bytes = wanted; *bytes >= least * 16; *bytes /= 2) {
        result = tnri_drive(cuMemAddressReserve, (base, *bytes, (size_t)1 << page_shift, 0, 0));
        if (result != CUDA_ERROR_OUT_OF_MEMORY)
            break;
    }
    if (result == CUDA_SUCCESS)
        return TNR_OK;
    return tnri_driver_error(result, "cuMemAddressReserve", "reserving a range of addresses");
}

/* Everything that needs the context. On failure the caller dismantles what there is. */
static tnr_status device_build(tnri_device *device)
{
    CUdeviceptr base = 0;
    size_t bytes = 0;
    unsigned page_shift = device_page_shift(device);
    tnr_status status = device_reserve(&base, &bytes, page_shift);
    if (status != TNR_OK)
        return status;
    device->range_base = (uintptr_t)base;
    device->range_bytes = bytes;
    if (!tnri_space_create(&device->space, (uintptr_t)base, bytes, page_shift))
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the tables of device %d.",
                          device->index);
    device->started_ns = tnri_driver_loaded.simulated ? 0 : tnri_clock_ns();
    atomic_store(&device->move_spent_ns, 0);
    atomic_store(&device->moves_granted, 0);
    return TNR_OK;
}

/* The steps of dismantling inside the context, each of which is remembered when it is done. Returns
 * the driver's refusal and, in *call, of what. */
static CUresult device_empty(tnri_device *device, const char **call)
{
    *call = "cuMemRelease";
    size_t released = 0;
    CUresult result = tnri_chunks_release_refused(device, &released);
    if (result != CUDA_SUCCESS)
        return result;
    result = tnri_staging_empty(device, call);
    if (result != CUDA_SUCCESS)
        return result;
    *call = "cuEventDestroy";
    result = tnri_event_store_empty(&device->events);
    if (result != CUDA_SUCCESS)
        return result;
    if (device->space.pages != NULL)
        tnri_space_destroy(&device->space);
    *call = "cuMemAddressFree";
    if (device->range_bytes > 0)
        result = tnri_drive(cuMemAddressFree, (device->range_base, device->range_bytes));
    if (result == CUDA_SUCCESS)
        device->range_bytes = 0;
    return result;
}

/* Gives back all that the device has of the driver, as far as the driver lets it. Leaves the
 * thread's last error alone: it may be the reason for dismantling. */
static CUresult device_dismantle(tnri_device *device, const char **call)
{
    if (device->context == NULL)
        return CUDA_SUCCESS;
    tnri_visit visit;
    *call = "cuCtxPushCurrent";
    CUresult result = device_push(device, &visit);
    if (result != CUDA_SUCCESS)
        return result;
    result = device_empty(device, call);
    tnri_device_leave(&visit);
    if (result != CUDA_SUCCESS)
        return result;
    *call = "cuDevicePrimaryCtxRelease";
    result = tnri_drive(cuDevicePrimaryCtxRelease, (device->capabilities.handle));
    if (result == CUDA_SUCCESS)
        device->context = NULL;
    return result;
}

tnr_status tnri_device_start(tnri_device *device)
{
    if (!device->capabilities.has_vmm)
        return tnri_error(TNR_ERR_NO_VMM,
                          "device %d (%s) does not support virtual memory management, on which "
                          "Tenure is built. It needs a Pascal or newer GPU on Linux.",
                          device->index, device->capabilities.name);
    tnr_status status = tnri_device_stop(device); /* finishes what an earlier stop could not */
    if (status != TNR_OK)
        return status;
    tnri_lock_init(&device->lock, TNRI_RANK_DEVICE);
    tnri_event_store_create(&device->events);
    atomic_store(&device->limit_bytes, device_limit(device));
    CUcontext context;
    CUresult result = tnri_drive(cuDevicePrimaryCtxRetain, (&context, device->capabilities.handle));
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, "cuDevicePrimaryCtxRetain",
                                 "taking the device's primary context");
    device->context = context;
    tnri_visit visit;
    status = tnri_device_enter(device, &visit);
    if (status == TNR_OK) {
        status = device_build(device);
        tnri_device_leave(&visit);
    }
    if (status != TNR_OK)
        tnri_device_abandon(device);
    return status;
}

void tnri_device_abandon(tnri_device *device)
{
    const char *call;
    (void)device_dismantle(device, &call);
}

tnr_status tnri_device_stop(tnri_device *device)
{
    const char *call = "";
    CUresult result = device_dismantle(device, &call);
    if (result == CUDA_SUCCESS)
        return TNR_OK;
    return tnri_driver_error(result, call, "putting a device out of use; a repeated call goes on");
}

static void range_set(int at, uintptr_t base, size_t bytes, tnri_device *device)
{
    tnri_device_range *range = &tnri_device_ranges[at];
    atomic_store(&range->base, base);
    atomic_store(&range->granules, device == NULL ? NULL : device->space.map.granules);
    range->device = device;
    atomic_store(&range->bytes, bytes);
}

void tnri_device_publish(tnri_device *device)
{
    int count = atomic_load(&tnri_device_ranges_count);
    range_set(count, device->space.base, device->space.bytes, device);
    atomic_store_explicit(&tnri_device_ranges_count, count + 1, memory_order_release);
    atomic_store_explicit(&device->in_use, 1, memory_order_release);
}

/* The last one takes the place of the one that goes; no other thread is inside. */
void tnri_device_withdraw(tnri_device *device)
{
    int last = atomic_load(&tnri_device_ranges_count) - 1;
    for (int i = 0; i <= last; i++)
        if (tnri_device_ranges[i].device == device) {
            tnri_device *moved = tnri_device_ranges[last].device;
            range_set(i, moved->space.base, moved->space.bytes, moved);
            range_set(last, 0, 0, NULL);
            atomic_store(&tnri_device_ranges_count, last);
            break;
        }
    atomic_store(&device->in_use, 0);
}

int tnri_device_range_find(uintptr_t address)
{
    int count = atomic_load_explicit(&tnri_device_ranges_count, memory_order_acquire);
    for (int i = 0; i < count; i++)
        if (tnri_device_range_has(&tnri_device_ranges[i], address))
            return i;
    return -1;
}

/* ---- visiting ------------------------------------------------------------------------------- */

static CUresult device_push(tnri_device *device, tnri_visit *visit)
{
    visit->counters_before = tnri_driver_count_into(&device->counters);
    CUresult result = tnri_relaxed_enter(&visit->relaxed);
    if (result == CUDA_SUCCESS) {
        result = tnri_drive(cuCtxPushCurrent, (device->context));
        if (result != CUDA_SUCCESS)
            tnri_relaxed_leave(&visit->relaxed);
    }
    visit->pushed = result == CUDA_SUCCESS;
    if (!visit->pushed)
        tnri_driver_count_into(visit->counters_before);
    return result;
}

tnr_status tnri_device_enter(tnri_device *device, tnri_visit *visit)
{
    CUresult result = device_push(device, visit);
    if (result == CUDA_SUCCESS)
        return TNR_OK;
    return tnri_driver_error(result, "cuCtxPushCurrent", "switching to the device's context");
}

void tnri_device_leave(tnri_visit *visit)
{
    CUcontext popped;
    /* Tried twice: the caller's current context is not ours to change, whatever happens. */
    if (visit->pushed && tnri_drive(cuCtxPopCurrent, (&popped)) != CUDA_SUCCESS)
        (void)tnri_drive(cuCtxPopCurrent, (&popped));
    tnri_relaxed_leave(&visit->relaxed);
    tnri_driver_count_into(visit->counters_before);
}

/* ---- the moving budget ---------------------------------------------------------------------- */

/* What a chunk of 2 MiB costs at least: map, access and unmap on an H200 (docs/design.md, "What the
 * driver costs"), of which the unmapping, which comes later, is a third. And what a loan costs: an
 * event, and a wait for it. */
enum { MOVE_NS = 34000, LOAN_NS = 3000 };

enum { SHORT_GRANT = 64 }; /* requests that move first after one that could not grow */

/* Time that moves and loans may have taken until now, counted from the device's start. */
static uint64_t move_allowed_ns(const tnri_device *device, uint64_t *burst_ns)
{
    const tnri_conf *conf = tnri_conf_get();
    uint64_t elapsed_ns = device->started_ns == 0 ? 0 : tnri_clock_ns() - device->started_ns;
    *burst_ns = conf->move_burst_ms * 1000000;
    return *burst_ns + elapsed_ns / 100 * conf->move_percent;
}

int tnri_device_may_move(tnri_device *device)
{
    uint64_t burst_ns;
    if (atomic_load_explicit(&device->move_spent_ns, memory_order_relaxed) <
        move_allowed_ns(device, &burst_ns))
        return 1;
    uint32_t granted = atomic_load_explicit(&device->moves_granted, memory_order_relaxed);
    while (granted > 0 &&
           !atomic_compare_exchange_weak_explicit(&device->moves_granted, &granted, granted - 1,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
    return granted > 0;
}

void tnri_device_short(tnri_device *device)
{
    atomic_store_explicit(&device->moves_granted, SHORT_GRANT, memory_order_relaxed);
}

uint64_t tnri_device_time_ns(const tnri_device *device)
{
    return device->started_ns == 0 ? 0 : tnri_clock_ns();
}

static void move_charge(tnri_device *device, uint64_t ns)
{
    uint64_t burst_ns;
    uint64_t allowed_ns = move_allowed_ns(device, &burst_ns);
    uint64_t spent_ns = atomic_load_explicit(&device->move_spent_ns, memory_order_relaxed);
    uint64_t raised_ns;
    do {
        /* What was not used in a long quiet time is not saved up beyond one burst. */
        raised_ns = spent_ns < allowed_ns - burst_ns ? allowed_ns - burst_ns : spent_ns;
        raised_ns += ns;
    } while (!atomic_compare_exchange_weak_explicit(&device->move_spent_ns, &spent_ns, raised_ns,
                                                    memory_order_relaxed, memory_order_relaxed));
}

void tnri_device_moved(tnri_device *device, size_t chunks, size_t chunks_all, uint64_t began_ns)
{
    uint64_t least_ns = (uint64_t)chunks * MOVE_NS;
    uint64_t took_ns = (tnri_device_time_ns(device) - began_ns) / chunks_all * chunks / 2 * 3;
    move_charge(device, took_ns > least_ns ? took_ns : least_ns);
}

void tnri_device_lent(tnri_device *device, uint64_t began_ns)
{
    uint64_t took_ns = tnri_device_time_ns(device) - began_ns;
    move_charge(device, took_ns > LOAN_NS ? took_ns : LOAN_NS);
}

void tnri_peak_raise(_Atomic uint64_t *peak, uint64_t value)
{
    uint64_t before = atomic_load_explicit(peak, memory_order_relaxed);
    while (before < value && !atomic_compare_exchange_weak_explicit(
                                 peak, &before, value, memory_order_relaxed, memory_order_relaxed))
        ;
}
