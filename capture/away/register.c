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
    if (step != TNRI_DEVICE_TRIMS_CONTENTS && step != TNRI_DEVICE_ENDS_CONTENTS)
        return TNR_OK;
    return tnri_staging_empty(device, step == TNRI_DEVICE_ENDS_CONTENTS);
}

void tnri_away_register(void)
{
    static const tnri_upper upper = {
        .device = away_device, .pool_end = away_pool_end, .contents_end = tnri_contents_end};
    tnri_upper_register(TNRI_ROOM_AWAY, &upper);
}
