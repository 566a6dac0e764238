/* SPDX-License-Identifier: Apache-2.0 */
/* Finding devices, making them known, and visiting their context: see device.h. */
#include "memory/device/device.h"

#include <stdio.h>

#include "base/prim/calm.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/prim/process.h"

static tnri_device *devices; /* the GPUs, and as many of host memory; library lock to write */
static _Atomic int devices_count;

tnri_device_range tnri_device_ranges[TNRI_DEVICE_NUMBERS];
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
        {CU_DEVICE_ATTRIBUTE_INTEGRATED, &can->is_integrated},
        {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, &can->pci.domain},
        {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, &can->pci.bus},
        {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, &can->pci.device},
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        CUresult result =
            tnri_gpu_device_attribute(wanted[i].value, wanted[i].attribute, can->handle);
        if (result == CUDA_ERROR_INVALID_VALUE)
            *wanted[i].value = 0;
        else if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

static tnr_status capabilities_ask(tnri_capabilities *can, int index)
{
    CUresult result =
        tnri_gpu_device_find(index, &can->handle, can->name, sizeof(can->name), &can->memory_bytes);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_DEVICE_FIND,
                                 "asking for a device's capabilities");
    result = capabilities_ask_attributes(can);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_DEVICE_ATTRIBUTE,
                                 "asking for a device's capabilities");
    if (!can->has_vmm)
        return TNR_OK;
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = can->handle};
    result = tnri_gpu_granularity(&can->granularity_bytes, here);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_GRANULARITY, "asking for the smallest mapping");
    return TNR_OK;
}

/* Of host memory near a GPU, what is known without asking the driver. The rest is asked when it is
 * put into use: host.h. */
static void host_capabilities(tnri_device *device)
{
    tnri_capabilities *can = &device->capabilities;
    const tnri_capabilities *gpu = &device->gpu->capabilities;
    can->handle = gpu->handle;
    snprintf(can->name, sizeof(can->name), "host memory near device %d", device->gpu->index);
    can->memory_bytes = tnri_machine_bytes();
    can->granularity_bytes = gpu->granularity_bytes;
    can->compute_major = gpu->compute_major;
    can->compute_minor = gpu->compute_minor;
    can->has_vmm = gpu->has_vmm;
}

tnr_status tnri_devices_find(void)
{
    if (devices != NULL)
        return TNR_OK;
    int count = 0;
    CUresult result = tnri_gpu_devices(&count);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_DEVICES, "looking for devices");
    if (count == 0)
        return tnri_error(TNR_ERR_NO_DEVICE, "the driver reports no device. Check nvidia-smi and "
                                             "CUDA_VISIBLE_DEVICES.");
    if (count > TNRI_DEVICES_MAX)
        count = TNRI_DEVICES_MAX;
    tnri_device *found = tnri_host_alloc(2 * (size_t)count * sizeof(*found));
    if (found == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for %d devices.", count);
    for (int i = 0; i < count; i++) {
        found[i].index = i;
        found[i].gpu = &found[i];
        tnr_status status = capabilities_ask(&found[i].capabilities, i);
        if (status != TNR_OK) {
            tnri_host_free(found, 2 * (size_t)count * sizeof(*found));
            return status;
        }
        found[count + i].index = TNR_HOST(i);
        found[count + i].gpu = &found[i];
        host_capabilities(&found[count + i]);
    }
    devices = found;
    atomic_store_explicit(&devices_count, count, memory_order_release);
    return TNR_OK;
}

void tnri_devices_forget(void)
{
    int count = atomic_exchange(&devices_count, 0);
    tnri_assert(atomic_load(&tnri_device_ranges_count) == 0);
    tnri_host_free(devices, 2 * (size_t)count * sizeof(*devices));
    devices = NULL;
}

int tnri_devices_count(void)
{
    return atomic_load_explicit(&devices_count, memory_order_acquire);
}

tnri_device *tnri_device_at(int index)
{
    int count = tnri_devices_count();
    if (index >= TNR_HOST(0) && index - TNR_HOST(0) < count)
        return &devices[count + index - TNR_HOST(0)];
    return index >= 0 && index < count ? &devices[index] : NULL;
}

tnri_device *tnri_device_nth(int n)
{
    return n < 2 * tnri_devices_count() ? &devices[n] : NULL;
}

/* ---- in use --------------------------------------------------------------------------------- */

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
    atomic_store(&device->has_met, 0);
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

CUresult tnri_device_push(tnri_device *device, tnri_visit *visit)
{
    visit->calm_before = tnri_calm_begin();
    visit->counters_before = tnri_driver_count_into(&device->counters);
    CUresult result = tnri_relaxed_enter(&visit->relaxed);
    if (result == CUDA_SUCCESS) {
        result = tnri_gpu_context_push(device->context);
        if (result != CUDA_SUCCESS)
            tnri_relaxed_leave(&visit->relaxed);
    }
    visit->pushed = result == CUDA_SUCCESS;
    if (!visit->pushed) {
        tnri_driver_count_into(visit->counters_before);
        tnri_calm_end(&visit->calm_before);
    }
    return result;
}

tnr_status tnri_device_enter(tnri_device *device, tnri_visit *visit)
{
    CUresult result = tnri_device_push(device, visit);
    if (result == CUDA_SUCCESS)
        return TNR_OK;
    return tnri_driver_error(result, TNRI_GPU_CONTEXT_PUSH, "switching to the device's context");
}

void tnri_device_leave(tnri_visit *visit)
{
    CUcontext popped;
    /* Tried twice: the caller's current context is not ours to change, whatever happens. */
    if (visit->pushed && tnri_gpu_context_pop(&popped) != CUDA_SUCCESS)
        (void)tnri_gpu_context_pop(&popped);
    tnri_relaxed_leave(&visit->relaxed);
    tnri_driver_count_into(visit->counters_before);
    tnri_calm_end(&visit->calm_before);
}

/* ---- foreign segments ----------------------------------------------------------------------- */

/* Addresses of a process: where other allocators' memory may lie. */
#ifdef __x86_64__
enum { FOREIGN_LOG2 = 47 };
#else
enum { FOREIGN_LOG2 = 48 };
#endif
enum { FOREIGN_PAGE_SHIFT = 21 }; /* what owners' memory is a multiple of, and begins at */

tnri_space *tnri_device_foreign(tnri_device *device)
{
    tnri_space *space = atomic_load(&device->foreign);
    if (space != NULL)
        return space;
    space = tnri_host_alloc(sizeof(*space));
    if (space == NULL)
        return NULL;
    if (!tnri_space_create(space, 0, (size_t)1 << FOREIGN_LOG2, FOREIGN_PAGE_SHIFT)) {
        tnri_host_free(space, sizeof(*space));
        return NULL;
    }
    tnri_space *other = NULL;
    if (atomic_compare_exchange_strong(&device->foreign, &other, space))
        return space;
    tnri_space_destroy(space);
    tnri_host_free(space, sizeof(*space));
    return other;
}

void tnri_device_foreign_end(tnri_device *device)
{
    tnri_space *space = atomic_exchange(&device->foreign, NULL);
    if (space == NULL)
        return;
    tnri_space_destroy(space);
    tnri_host_free(space, sizeof(*space));
}

tnri_space *tnri_device_foreign_of(uintptr_t address, tnri_device **device)
{
    tnri_device *one;
    for (int i = 0; (one = tnri_device_nth(i)) != NULL; i++) {
        tnri_space *space = atomic_load_explicit(&one->foreign, memory_order_acquire);
        if (space == NULL || address >= space->bytes ||
            tnri_page_chunk(space, tnri_page_of(space, address)) == NULL)
            continue;
        *device = one;
        return space;
    }
    return NULL;
}
