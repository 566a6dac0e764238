/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of this room from below: see sharing.h. */
#include "share/sharing.h"

#include <string.h>

#include "order/register.h"
#include "share/exported.h"
#include "share/imported.h"
#include "share/offered.h"

static int hook_import_at(size_t index, tnri_seen_import *seen)
{
    tnr_import_info info;
    if (!tnri_imported_at(index, &info))
        return 0;
    *seen = (tnri_seen_import){.address = (uintptr_t)info.ptr,
                               .bytes = info.bytes,
                               .device = info.device,
                               .process = info.process,
                               .generation = info.generation,
                               .is_read_only = info.is_read_only};
    memcpy(seen->published, info.published, sizeof(seen->published));
    return 1;
}

static tnr_status hook_device_ending(tnri_device *device, int force)
{
    tnri_imported_retry(); /* it may be of an own export */
    tnri_offered_pause();  /* no thread of ours is inside */
    tnr_status status = tnri_exported_end(device, force);
    tnri_offered_resume();
    return status == TNR_OK ? tnri_imported_end(device, force) : status;
}

static const tnri_sharing hooks = {
    .withdraw = tnri_exported_withdraw,
    .settle = tnri_exported_settle,
    .import_at = hook_import_at,
    .device_ending = hook_device_ending,
};

void tnri_sharing_register(void)
{
    tnri_lifetime_register();
    atomic_store_explicit(&tnri_sharing_table, &hooks, memory_order_release);
}
