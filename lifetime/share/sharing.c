/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of this room from below: see sharing.h. */
#include "share/sharing.h"

#include <string.h>

#include "memory/arena/wait.h"
#include "memory/device/upper.h"
#include "order/register.h"
#include "share/exported.h"
#include "share/imported.h"
#include "share/offered.h"

static void share_show(const tnri_listener *listener)
{
    tnr_import_info info;
    for (size_t i = 0; tnri_imported_at(i, &info); i++) {
        tnri_seen_import seen = {.address = (uintptr_t)info.ptr,
                                 .bytes = info.bytes,
                                 .device = info.device,
                                 .process = info.process,
                                 .generation = info.generation,
                                 .is_read_only = info.is_read_only};
        memcpy(seen.published, info.published, sizeof(seen.published));
        listener->import(listener->user, &seen);
    }
}

static size_t share_settle(tnri_device *device, int is_short)
{
    (void)device;
    (void)is_short;
    tnri_exported_settle();
    return 0;
}

static tnr_status share_device(tnri_device *device, tnri_device_step step)
{
    int force = step == TNRI_DEVICE_ENDS_HOLDS;
    if (!force && step != TNRI_DEVICE_MAY_END)
        return TNR_OK;
    tnri_imported_retry(); /* it may be of an own export */
    tnri_offered_pause();  /* no thread of ours is inside */
    tnr_status status = tnri_exported_end(device, force);
    tnri_offered_resume();
    return status == TNR_OK ? tnri_imported_end(device, force) : status;
}

void tnri_sharing_register(void)
{
    static const tnri_upper upper = {
        .device = share_device, .settle = share_settle, .show = share_show};
    tnri_lifetime_register();
    tnri_upper_register(TNRI_ROOM_SHARE, &upper);
}
