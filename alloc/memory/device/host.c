/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory as a device: see host.h. */
#include "memory/device/host.h"

#include "base/bytes_text.h"
#include "base/error.h"
#include "base/host_limit.h"

tnr_status tnri_host_room(const tnri_device *device, size_t bytes)
{
    tnri_host_limit limit;
    if (tnri_likely(!tnri_device_is_host(device)) || tnri_host_limit_allows(&limit, bytes))
        return TNR_OK;
    return tnri_error(TNR_ERR_OUT_OF_MEMORY,
                      "%s has %s of host memory left, of which %s are not touched; %s more were "
                      "needed. Raise that limit, or keep less pinned.",
                      limit.where, TNRI_BYTES(limit.left), TNRI_BYTES(TNRI_HOST_LIMIT_REST),
                      TNRI_BYTES(bytes));
}

void tnri_host_explain(const tnri_device *device)
{
    if (tnri_device_is_host(device))
        tnri_host_limit_explain();
}

CUresult tnri_device_left(const tnri_device *device, size_t *left, size_t *total)
{
    tnri_host_limit limit;
    if (tnri_likely(!tnri_device_is_host(device)))
        return tnri_gpu_memory_left(left, total);
    tnri_host_limit_read(&limit);
    *total = device->capabilities.memory_bytes;
    *left = limit.left < *total ? (size_t)limit.left : *total;
    return CUDA_SUCCESS;
}
