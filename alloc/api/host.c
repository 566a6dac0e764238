/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned host memory, as callers see it: see <tenure/host.h>. It is the memory of a device
 * (memory/device/host.h), so nearly all is done elsewhere. */
#include <tenure/host.h>

#include <stdio.h>
#include <string.h>

#include "api/library.h"
#include "base/error.h"
#include "base/host_limit.h"
#include "base/prim/calm.h"
#include "base/prim/process.h"
#include "memory/device/host.h"

tnr_status tnr_host_malloc_near(void **ptr, size_t bytes, int device)
{
    if (device >= 0 && device < TNRI_DEVICES_MAX)
        return tnr_malloc(ptr, bytes, TNR_HOST(device), NULL);
    if (ptr != NULL)
        *ptr = NULL;
    return tnri_error(TNR_ERR_INVALID_DEVICE,
                      "tnr_host_malloc_near: there is no device %d. Give a GPU's number: the host "
                      "memory near it is found by itself.",
                      device);
}

tnr_status tnr_host_malloc(void **ptr, size_t bytes)
{
    return tnr_host_malloc_near(ptr, bytes, 0);
}

tnr_status tnr_host_get(tnr_host_info *info)
{
    TNRI_CALM_CALL;
    tnri_host_limit limit;
    if (info == NULL || info->struct_bytes != sizeof(*info))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_host_get: set info->struct_bytes to sizeof(tnr_host_info).");
    if (tnri_library_is_forked())
        return tnri_forked_error();
    tnri_host_limit_read(&limit);
    memset(info, 0, sizeof(*info));
    info->struct_bytes = sizeof(*info);
    info->left_bytes = limit.left;
    const tnri_device *first = tnri_device_nth(0);
    info->untouched_bytes = first == NULL ? TNRI_HOST_LIMIT_REST : tnri_host_rest(first);
    info->locked_bytes = tnri_locked_limit();
    snprintf(info->limited_by, sizeof(info->limited_by), "%s", limit.where);
    return TNR_OK;
}

tnr_status tnr_host_free(void *ptr)
{
    tnri_device *device;
    tnr_block_info block;
    if (ptr == NULL || tnri_library_space_of(ptr, &device) == NULL || tnri_device_is_host(device))
        return tnr_free(ptr);
    tnr_status status = tnr_block_get(&block, ptr);
    if (status != TNR_OK)
        return status;
    return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                      "tnr_host_free: %p is memory of device %d. Free it with tnr_free.", ptr,
                      device->index);
}
