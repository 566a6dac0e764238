/* SPDX-License-Identifier: Apache-2.0 */
/* Finding devices, putting them into use, and visiting their context: see device.h. */
#include "device/device.h"

#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "conf/conf.h"

static tnri_device *devices; /* array of devices_count; library lock to write */
static _Atomic int devices_count;

/* Ranges of the devices in use, for tnri_device_of. Entries are only added, and the count is
 * published after them; all are forgotten at shutdown, when no other thread is inside. */
static struct {
    uintptr_t base;
    size_t bytes;
    tnri_device *device;
} ranges[TNRI_DEVICES_MAX];
static _Atomic int ranges_count;

/* ---- finding -------------------------------------------------------------------------------- */

/* An attribute that is 0 where the driver does not know it. */
static int device_attribute(CUdevice handle, CUdevice_attribute attribute)
{
    int value = 0;
    return tnri_drive(cuDeviceGetAttribute, (&value, attribute, handle)) == CUDA_SUCCESS ? value
                                                                                         : 0;
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
    can->compute_major =
        device_attribute(can->handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    can->compute_minor =
        device_attribute(can->handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    can->has_vmm =
        device_attribute(can->handle, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
    can->has_posix_fd = device_attribute(
        can->handle, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
    can->has_fabric =
        device_attribute(can->handle, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
    can->has_gpu_direct_rdma =
        device_attribute(can->handle, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
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
    atomic_store(&ranges_count, 0);
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

tnri_device *tnri_device_of(uintptr_t address)
{
    int count = atomic_load_explicit(&ranges_count, memory_order_acquire);
    for (int i = 0; i < count; i++)
        if (address - ranges[i].base < ranges[i].bytes)
            return ranges[i].device;
    return NULL;
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

/* Everything that needs the context; undoes its own steps on failure. */
static tnr_status device_build(tnri_device *device)
{
    CUdeviceptr base = 0;
    size_t bytes = 0;
    unsigned page_shift = device_page_shift(device);
    tnr_status status = device_reserve(&base, &bytes, page_shift);
    if (status != TNR_OK)
        return status;
    if (!tnri_space_create(&device->space, (uintptr_t)base, bytes, page_shift)) {
        status = tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the tables of device %d.",
                            device->index);
        goto fail_space;
    }
    tnri_lock_init(&device->lock, TNRI_RANK_DEVICE);
    tnri_event_store_create(&device->events);
    atomic_store(&device->limit_bytes, device_limit(device));
    device->started_ns = tnri_driver_loaded.simulated ? 0 : tnri_clock_ns();
    atomic_store(&device->move_spent_ns, 0);
    return TNR_OK;

fail_space:
    (void)tnri_drive(cuMemAddressFree, (base, bytes));
    return status;
}

tnr_status tnri_device_start(tnri_device *device)
{
    if (!device->capabilities.has_vmm)
        return tnri_error(TNR_ERR_NO_VMM,
                          "device %d (%s) does not support virtual memory management, on which "
                          "Tenure is built. It needs a Pascal or newer GPU on Linux.",
                          device->index, device->capabilities.name);
    CUresult result =
        tnri_drive(cuDevicePrimaryCtxRetain, (&device->context, device->capabilities.handle));
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, "cuDevicePrimaryCtxRetain",
                                 "taking the device's primary context");
    tnri_visit visit;
    tnr_status status = tnri_device_enter(device, &visit);
    if (status == TNR_OK) {
        status = device_build(device);
        tnri_device_leave(&visit);
    }
    if (status != TNR_OK) {
        (void)tnri_drive(cuDevicePrimaryCtxRelease, (device->capabilities.handle));
        return status;
    }
    int count = atomic_load(&ranges_count);
    ranges[count].base = device->space.base;
    ranges[count].bytes = device->space.bytes;
    ranges[count].device = device;
    atomic_store_explicit(&ranges_count, count + 1, memory_order_release);
    return TNR_OK;
}

void tnri_device_stop(tnri_device *device)
{
    tnri_visit visit;
    int entered = tnri_device_enter(device, &visit) == TNR_OK;
    if (entered) {
        tnri_event_store_destroy(&device->events);
        (void)tnri_drive(cuMemAddressFree, (device->space.base, device->space.bytes));
        tnri_device_leave(&visit);
    }
    tnri_space_destroy(&device->space);
    (void)tnri_drive(cuDevicePrimaryCtxRelease, (device->capabilities.handle));
    atomic_store(&device->in_use, 0);
}

/* ---- visiting ------------------------------------------------------------------------------- */

tnr_status tnri_device_enter(tnri_device *device, tnri_visit *visit)
{
    visit->counters_before = tnri_driver_count_into(&device->counters);
    CUresult result = tnri_drive(cuCtxPushCurrent, (device->context));
    visit->pushed = result == CUDA_SUCCESS;
    if (visit->pushed)
        return TNR_OK;
    tnri_driver_count_into(visit->counters_before);
    return tnri_driver_error(result, "cuCtxPushCurrent", "switching to the device's context");
}

void tnri_device_leave(tnri_visit *visit)
{
    CUcontext popped;
    if (visit->pushed)
        (void)tnri_drive(cuCtxPopCurrent, (&popped));
    tnri_driver_count_into(visit->counters_before);
}

/* ---- the moving budget ---------------------------------------------------------------------- */

/* Map, access and unmap of a chunk of 2 MiB on an H200 (docs/design.md, "What the driver costs"). */
enum { MOVE_NS = 34000 };

/* Driver time that moves may have taken until now, counted from the device's start. */
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
    return atomic_load_explicit(&device->move_spent_ns, memory_order_relaxed) <
           move_allowed_ns(device, &burst_ns);
}

void tnri_device_moved(tnri_device *device, size_t chunks)
{
    uint64_t burst_ns;
    uint64_t allowed_ns = move_allowed_ns(device, &burst_ns);
    uint64_t spent_ns = atomic_load_explicit(&device->move_spent_ns, memory_order_relaxed);
    uint64_t raised_ns;
    do {
        /* What was not used in a long quiet time is not saved up beyond one burst. */
        raised_ns = spent_ns < allowed_ns - burst_ns ? allowed_ns - burst_ns : spent_ns;
        raised_ns += (uint64_t)chunks * MOVE_NS;
    } while (!atomic_compare_exchange_weak_explicit(&device->move_spent_ns, &spent_ns, raised_ns,
                                                    memory_order_relaxed, memory_order_relaxed));
}

void tnri_peak_raise(_Atomic uint64_t *peak, uint64_t value)
{
    uint64_t before = atomic_load_explicit(peak, memory_order_relaxed);
    while (before < value && !atomic_compare_exchange_weak_explicit(
                                 peak, &before, value, memory_order_relaxed, memory_order_relaxed))
        ;
}
