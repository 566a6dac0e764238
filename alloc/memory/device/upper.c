/* SPDX-License-Identifier: Apache-2.0 */
/* See upper.h. */
#include "memory/device/upper.h"

static const tnri_upper empty;

_Atomic(const tnri_upper *) tnri_uppers[TNRI_ROOM_COUNT] = {&empty, &empty, &empty,
                                                            &empty, &empty, &empty};

tnr_status tnri_upper_device(tnri_room room, struct tnri_device *device, tnri_device_step step)
{
    const tnri_upper *upper = tnri_upper_of(room);
    return upper->device == NULL ? TNR_OK : upper->device(device, step);
}

tnr_status tnri_uppers_device(struct tnri_device *device, tnri_device_step step)
{
    tnr_status status = TNR_OK;
    for (int room = TNRI_ROOM_COUNT; room-- > 0 && status == TNR_OK;)
        status = tnri_upper_device((tnri_room)room, device, step);
    return status;
}

tnr_status tnri_uppers_pool_end(tnr_pool pool, int is_gone)
{
    tnr_status status = TNR_OK;
    for (int room = TNRI_ROOM_COUNT; room-- > 0 && status == TNR_OK;) {
        const tnri_upper *upper = tnri_upper_of((tnri_room)room);
        if (upper->pool_end != NULL)
            status = upper->pool_end(pool, is_gone);
    }
    return status;
}

static size_t room_settle(tnri_room room, struct tnri_device *device, int is_short)
{
    const tnri_upper *upper = tnri_upper_of(room);
    return upper->settle == NULL ? 0 : upper->settle(device, is_short);
}

size_t tnri_upper_settle(tnri_room room, struct tnri_device *device)
{
    return room_settle(room, device, 0);
}

size_t tnri_uppers_settle(struct tnri_device *device, int is_short)
{
    size_t bytes = 0;
    for (int room = TNRI_ROOM_COUNT; room-- > 0;)
        bytes += room_settle((tnri_room)room, device, is_short);
    return bytes;
}
