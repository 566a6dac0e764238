/* SPDX-License-Identifier: Apache-2.0 */
/* Putting devices into use and out of it: see start.h. */
#include "memory/device/start.h"

#include "base/conf/conf.h"
#include "base/error.h"
#include "memory/device/allocated.h"
#include "memory/device/chunk.h"
#include "memory/device/event.h"
#include "memory/device/cgroup.h"
#include "memory/device/group.h"
#include "memory/device/host.h"
#include "memory/device/tag.h"
#include "memory/device/upper.h"

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
    if (fraction >= 1 || tnri_device_is_host(device))
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
        result = tnri_gpu_reserve(base, *bytes, (size_t)1 << page_shift, 0);
        if (result != CUDA_ERROR_OUT_OF_MEMORY)
            break;
    }
    if (result == CUDA_SUCCESS)
        return TNR_OK;
    return tnri_driver_error(result, TNRI_GPU_RESERVE, "reserving a range of addresses");
}

/* ---- host memory ---------------------------------------------------------------------------- */

/* Names that older headers lack; drivers of CUDA 12.2 know them. */
enum { LOCATION_HOST_NUMA = 3, ATTRIBUTE_HOST_NUMA_ID = 134 };

/* Takes a page of host memory from the driver, and gives it back: there are drivers that know the
 * location, and machines that do not let them choose a node. */
static CUresult location_try(tnri_device *device)
{
    CUmemAllocationProp properties = {0};
    CUmemGenericAllocationHandle page;
    size_t bytes = 0;
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = device->host.location;
    CUresult result = tnri_gpu_granularity(&bytes, device->host.location);
    if (result == CUDA_SUCCESS)
        result = tnri_gpu_create(&page, bytes, &properties);
    if (result != CUDA_SUCCESS)
        return result;
    device->capabilities.granularity_bytes = bytes;
    tnri_chunk_release_bare(device, page);
    return CUDA_SUCCESS;
}

/* Finds out what the driver makes host memory of. TNR_ERR_NO_VMM: the setting wants it mapped, and
 * it cannot be. In the context. */
static tnr_status host_open(tnri_device *device)
{
    int host = tnri_conf_get()->host;
    int node = 0;
    device->is_allocated = host == TNRI_HOST_ALLOCATED || tnri_memory_is_allocated();
    if (device->is_allocated)
        return TNR_OK;
    if (tnri_gpu_device_attribute(&node, (CUdevice_attribute)ATTRIBUTE_HOST_NUMA_ID,
                                  device->capabilities.handle) != CUDA_SUCCESS ||
        node < 0)
        node = 0; /* there are no nodes, or the driver knows none */
    device->host.location.type = (CUmemLocationType)LOCATION_HOST_NUMA;
    device->host.location.id = node;
    CUresult result = location_try(device);
    if (result == CUDA_SUCCESS)
        return TNR_OK;
    device->is_allocated = 1;
    if (host != TNRI_HOST_MAPPED)
        return TNR_OK;
    return tnri_error_driver(TNR_ERR_NO_VMM, (int)result,
                             "the driver makes no memory at NUMA node %d that can be mapped (%s), "
                             "and host:mapped asks for no other. Use host:auto.",
                             node, tnri_driver_result_name(result));
}

/* ---- a device ------------------------------------------------------------------------------- */

/* Everything that needs the context. On failure the caller dismantles what there is. */
static tnr_status device_build(tnri_device *device)
{
    CUdeviceptr base = 0;
    size_t bytes = 0;
    tnr_status status = TNR_OK;
    if (tnri_device_is_host(device))
        status = host_open(device);
    else
        device->is_allocated = tnri_memory_is_allocated();
    if (status != TNR_OK)
        return status;
    unsigned page_shift = device_page_shift(device);
    status = device_reserve(&base, &bytes, page_shift);
    if (status != TNR_OK)
        return status;
    device->range_base = (uintptr_t)base;
    device->range_bytes = bytes;
    if (!tnri_space_create(&device->space, (uintptr_t)base, bytes, page_shift))
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the tables of device %d.",
                          device->index);
    device->started_ns = tnri_decision_ns();
    atomic_store(&device->move_spent_ns, 0);
    atomic_store(&device->move_took_ns, 0);
    return TNR_OK;
}

/* The steps of dismantling inside the context, each of which is remembered when it is done. Returns
 * the driver's refusal and, in *verb, of what. */
static CUresult device_empty(tnri_device *device, tnri_gpu_verb *verb)
{
    *verb = TNRI_GPU_RELEASE;
    size_t released = 0;
    CUresult result = tnri_chunks_release_refused(device, &released);
    if (result != CUDA_SUCCESS)
        return result;
    *verb = TNRI_GPU_HOST_FREE;
    if (tnri_device_is_host(device))
        result = tnri_memory_release_refused();
    if (result != CUDA_SUCCESS)
        return result;
    *verb = TNRI_GPU_EVENT_END;
    result = tnri_event_store_empty(&device->events);
    if (result != CUDA_SUCCESS)
        return result;
    tnri_device_foreign_end(device);
    if (device->space.pages != NULL)
        tnri_space_destroy(&device->space);
    *verb = TNRI_GPU_UNRESERVE;
    if (device->range_bytes > 0)
        result = tnri_gpu_unreserve(device->range_base, device->range_bytes);
    if (result == CUDA_SUCCESS)
        device->range_bytes = 0;
    return result;
}

/* Gives back all that the device has of the driver, as far as the driver lets it. Leaves the
 * thread's last error alone: it may be the reason for dismantling. */
static CUresult device_dismantle(tnri_device *device, tnri_gpu_verb *verb)
{
    if (device->context == NULL)
        return CUDA_SUCCESS;
    (void)tnri_uppers_device(device, TNRI_DEVICE_STOPS);
    tnri_visit visit;
    *verb = TNRI_GPU_CONTEXT_PUSH;
    CUresult result = tnri_device_push(device, &visit);
    if (result != CUDA_SUCCESS)
        return result;
    result = device_empty(device, verb);
    tnri_device_leave(&visit);
    if (result != CUDA_SUCCESS)
        return result;
    *verb = TNRI_GPU_CONTEXT_RELEASE;
    result = tnri_gpu_context_release(device->capabilities.handle);
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
    atomic_store(&device->limit_by, "per_process_memory_fraction");
    tnri_tags_start(device->index);
    CUcontext context;
    CUresult result = tnri_gpu_context_retain(&context, device->capabilities.handle);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_CONTEXT_RETAIN,
                                 "taking the device's primary context");
    device->context = context;
    tnri_visit visit;
    status = tnri_device_enter(device, &visit);
    if (status == TNR_OK) {
        status = device_build(device);
        tnri_device_leave(&visit);
    }
    if (tnri_device_is_host(device))
        atomic_store(&device->ceiling_bytes, UINT64_MAX); /* it is in no group */
    else if (status == TNR_OK)
        status = tnri_group_join(device);
    if (!tnri_device_is_host(device))
        tnri_cgroup_begin(device);
    if (status != TNR_OK)
        tnri_device_abandon(device);
    return status;
}

void tnri_device_abandon(tnri_device *device)
{
    tnri_gpu_verb verb;
    (void)device_dismantle(device, &verb);
}

tnr_status tnri_device_stop(tnri_device *device)
{
    tnri_gpu_verb verb = TNRI_GPU_CONTEXT_RELEASE;
    CUresult result = device_dismantle(device, &verb);
    if (result == CUDA_SUCCESS)
        return TNR_OK;
    return tnri_driver_error(result, verb, "putting a device out of use; a repeated call goes on");
}
