/* SPDX-License-Identifier: Apache-2.0 */
/* See register.h and memory/device/upper.h. */
#include "away/register.h"

#include "away/park_contents.h"
#include "away/sleeper.h"
#include "memory/device/upper.h"

static tnr_status away_pool_end(tnr_pool pool, int is_gone)
{
    if (pool->asleep.sleeper == NULL)
        return TNR_OK;
    if (!is_gone)
        return tnri_sleeper_settle(pool);
    tnri_sleeper_end(pool);
    return TNR_OK;
}

static tnr_status away_device(tnri_device *device, tnri_device_step step)
{
    return step == TNRI_DEVICE_ENDS_CONTENTS ? tnri_staging_end(device) : TNR_OK;
}

void tnri_away_register(void)
{
    static const tnri_upper upper = {
        .device = away_device, .pool_end = away_pool_end, .contents_end = tnri_contents_end};
    tnri_upper_register(TNRI_ROOM_AWAY, &upper);
}
