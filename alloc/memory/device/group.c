/* SPDX-License-Identifier: Apache-2.0 */
/* See group.h. */
#include "memory/device/group.h"

#include "base/conf/conf.h"
#include "base/error.h"

tnri_group_bound tnri_group_ceiling(void)
{
    const tnri_conf *conf = tnri_conf_get();
    if (conf->group_limit_mb < conf->group_ceiling_mb)
        return (tnri_group_bound){"group_limit_mb", "the setting group_limit_mb",
                                  conf->group_limit_mb};
    return (tnri_group_bound){"group_ceiling_mb", "the setting group_ceiling_mb",
                              conf->group_ceiling_mb};
}

tnr_status tnri_group_join(tnri_device *device)
{
    atomic_store(&device->ceiling_bytes, UINT64_MAX);
    if (tnri_conf_get()->group[0] == '\0')
        return TNR_OK;
    if (tnri_upper_of(TNRI_ROOM_GROUP)->device == NULL)
        return tnri_error(TNR_ERR_CONFIG, "group: this program was linked without groups. Link "
                                          "the shared library, or name no group.");
    return tnri_upper_device(TNRI_ROOM_GROUP, device, TNRI_DEVICE_STARTS);
}

tnr_status tnri_group_take(tnri_device *device, size_t bytes)
{
    const tnri_upper *group = tnri_group_of(device);
    return group == NULL ? TNR_OK : group->take(device, bytes);
}

void tnri_group_taken(tnri_device *device, size_t bytes, int is_taken)
{
    const tnri_upper *group = tnri_group_of(device);
    if (group != NULL)
        group->took(device, bytes, is_taken ? (int64_t)bytes : 0);
}

void tnri_group_released(tnri_device *device, size_t bytes)
{
    const tnri_upper *group = tnri_group_of(device);
    if (group != NULL)
        group->took(device, 0, -(int64_t)bytes);
}

int tnri_group_ask(tnri_device *device, size_t bytes, tnri_asking *asking)
{
    const tnri_upper *group = tnri_group_of(device);
    return group == NULL ? 0 : group->ask(device, bytes, asking);
}

void tnri_group_count(const tnri_device *device, tnri_group_counts *counts)
{
    const tnri_upper *group = tnri_group_of(device);
    *counts = (tnri_group_counts){0};
    if (group != NULL)
        group->count(device, counts);
}
