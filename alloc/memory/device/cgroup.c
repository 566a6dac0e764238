/* SPDX-License-Identifier: Apache-2.0 */
/* What control groups leave a device: see cgroup.h. */
#include "memory/device/cgroup.h"

#include "base/bytes_text.h"
#include "base/conf/conf.h"
#include "base/error.h"
#include "base/host_limit.h"
#include "base/prim/clock.h"
#include "memory/device/host.h"

void tnri_cgroup_begin(tnri_device *device)
{
    tnri_dmem dmem;
    tnri_dmem_read(&dmem, &device->capabilities.pci, tnri_conf_get()->cgroup);
    atomic_store(&device->is_watched, dmem.is_found || device->capabilities.is_integrated);
}

tnr_status tnri_cgroup_room(const tnri_device *device, size_t gone, size_t come)
{
    tnri_dmem dmem;
    if (!tnri_device_is_watched(device))
        return TNR_OK;
    tnri_dmem_read(&dmem, &device->capabilities.pci, tnri_conf_get()->cgroup);
    if (come <= INT64_MAX && (int64_t)come - (int64_t)gone <= dmem.hard.left)
        return TNR_OK;
    return tnri_error(TNR_ERR_OUT_OF_MEMORY,
                      "the control group may have %s of device %d (%s) and has %s; %s more were "
                      "needed. Raise the limit, or end what else runs in the group.",
                      TNRI_BYTES(dmem.hard.limit), device->index, dmem.hard.file,
                      TNRI_BYTES(dmem.hard.used), TNRI_BYTES(come));
}

static size_t over(const tnri_dmem_limit *limit)
{
    return limit->left < 0 ? (size_t)-limit->left : 0;
}

size_t tnri_cgroup_over_hard(const tnri_device *device)
{
    tnri_dmem dmem;
    if (!tnri_device_is_watched(device))
        return 0;
    tnri_dmem_read(&dmem, &device->capabilities.pci, tnri_conf_get()->cgroup);
    size_t lack = tnri_host_lack(device), hard = over(&dmem.hard);
    return hard > lack ? hard : lack;
}

int tnri_cgroup_over(tnri_device *device, uint64_t apart_ns, size_t *bytes)
{
    tnri_dmem dmem;
    if (!tnri_device_is_watched(device))
        return 0;
    uint64_t now = tnri_clock_ns();
    uint64_t looked = atomic_load_explicit(&device->cgroup_looked_ns, memory_order_relaxed);
    if (looked != 0 && now - looked < apart_ns)
        return 0;
    atomic_store_explicit(&device->cgroup_looked_ns, now, memory_order_relaxed);
    tnri_dmem_read(&dmem, &device->capabilities.pci, tnri_conf_get()->cgroup);
    size_t soft = over(&dmem.soft), hard = over(&dmem.hard), most = soft > hard ? soft : hard;
    size_t lack = tnri_host_lack(device);
    *bytes = most > lack ? most : lack;
    if (device->capabilities.is_integrated && tnri_host_is_pressed())
        *bytes = SIZE_MAX;
    return 1;
}
