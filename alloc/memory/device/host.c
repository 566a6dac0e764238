/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory as a device: see host.h. */
#include "memory/device/host.h"

#include "base/bytes_text.h"
#include "base/conf/conf.h"
#include "base/error.h"
#include "base/host_limit.h"

uint64_t tnri_host_rest(const tnri_device *device)
{
    if (!device->gpu->capabilities.is_integrated)
        return TNRI_HOST_LIMIT_REST;
    return tnri_conf_get()->shared_rest_mb << 20; /* which is at least as much */
}

tnr_status tnri_host_room(const tnri_device *device, size_t bytes)
{
    tnri_host_limit limit;
    if (tnri_likely(!tnri_device_in_host(device)) ||
        tnri_host_limit_allows(&limit, bytes, tnri_host_rest(device)))
        return TNR_OK;
    if (device->gpu->capabilities.is_integrated)
        return tnri_error(TNR_ERR_OUT_OF_MEMORY,
                          "device %d shares the host's memory: %s has %s left, of which %s stay "
                          "for the host; %s more were needed. End what else runs there, or lower "
                          "shared_rest_mb.",
                          device->gpu->index, limit.where, TNRI_BYTES(limit.left),
                          TNRI_BYTES(tnri_host_rest(device)), TNRI_BYTES(bytes));
    return tnri_error(TNR_ERR_OUT_OF_MEMORY,
                      "%s has %s of host memory left, of which %s are not touched; %s more were "
                      "needed. Raise that limit, or keep less pinned.",
                      limit.where, TNRI_BYTES(limit.left), TNRI_BYTES(TNRI_HOST_LIMIT_REST),
                      TNRI_BYTES(bytes));
}

size_t tnri_host_lack(const tnri_device *device)
{
    tnri_host_limit limit;
    if (!device->capabilities.is_integrated)
        return 0;
    uint64_t rest = tnri_host_rest(device);
    tnri_host_limit_read(&limit);
    return limit.left < rest ? (size_t)(rest - limit.left) : 0;
}

void tnri_host_explain(const tnri_device *device)
{
    if (tnri_device_is_host(device))
        tnri_host_limit_explain();
}

CUresult tnri_device_left(const tnri_device *device, size_t *left, size_t *total)
{
    tnri_host_limit limit;
    if (tnri_likely(!tnri_device_in_host(device)))
        return tnri_gpu_memory_left(left, total);
    tnri_host_limit_read(&limit);
    uint64_t rest = tnri_host_rest(device), most = limit.left > rest ? limit.left - rest : 0;
    *total = device->capabilities.memory_bytes;
    *left = most < *total ? (size_t)most : *total;
    return CUDA_SUCCESS;
}
