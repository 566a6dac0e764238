/* SPDX-License-Identifier: Apache-2.0 */
/* See group.h. */
#include "memory/device/group.h"

#include "base/conf/conf.h"
#include "base/error.h"

_Atomic(const tnri_group_table *) tnri_group_registered;

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
    const tnri_group_table *table = atomic_load(&tnri_group_registered);
    atomic_store(&device->ceiling_bytes, UINT64_MAX);
    if (tnri_conf_get()->group[0] == '\0')
        return TNR_OK;
    if (table == NULL)
        return tnri_error(TNR_ERR_CONFIG, "group: this program was linked without groups. Link "
                                          "the shared library, or name no group.");
    return table->join(device);
}

void tnri_group_leave(tnri_device *device)
{
    const tnri_group_table *table = tnri_group_of(device);
    if (table != NULL)
        table->leave(device);
}

void tnri_group_pause(tnri_device *device)
{
    const tnri_group_table *table = tnri_group_of(device);
    if (table != NULL)
        table->pause(device);
}

void tnri_group_resume(tnri_device *device)
{
    const tnri_group_table *table = tnri_group_of(device);
    if (table != NULL)
        table->resume(device);
}

tnr_status tnri_group_take(tnri_device *device, size_t bytes)
{
    const tnri_group_table *table = tnri_group_of(device);
    return table == NULL ? TNR_OK : table->take(device, bytes);
}

void tnri_group_taken(tnri_device *device, size_t bytes, int is_taken)
{
    const tnri_group_table *table = tnri_group_of(device);
    if (table != NULL)
        table->taken(device, bytes, is_taken);
}

void tnri_group_released(tnri_device *device, size_t bytes)
{
    const tnri_group_table *table = tnri_group_of(device);
    if (table != NULL)
        table->released(device, bytes);
}

int tnri_group_ask(tnri_device *device, size_t bytes, tnri_asking *asking)
{
    const tnri_group_table *table = tnri_group_of(device);
    return table == NULL ? 0 : table->ask(device, bytes, asking);
}

void tnri_group_count(const tnri_device *device, tnri_group_counts *counts)
{
    const tnri_group_table *table = tnri_group_of(device);
    *counts = (tnri_group_counts){0};
    if (table != NULL)
        table->count(device, counts);
}
