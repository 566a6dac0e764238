/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions of <tenure/trap.h>. */
#include <tenure/trap.h>

#include "api/library.h"
#include "base/prim/calm.h"
#include "base/error.h"
#include "see/trap/guard.h"
#include "see/trap/listener.h"
#include "see/trap/look.h"

void tnr_trap_callback_set(tnr_trap_callback callback, void *user)
{
    TNRI_CALM_CALL;
    tnri_trap_listen(callback, user);
}

/* Waits for the looks of all devices in use. */
static tnr_status looks_settle(void)
{
    tnr_status status = TNR_OK;
    if (atomic_load(&tnri_generation) == 0)
        return TNR_OK;
    tnri_device *device;
    for (int i = 0; (device = tnri_device_nth(i)) != NULL && status == TNR_OK; i++) {
        tnri_visit visit;
        if (!atomic_load(&device->in_use))
            continue;
        status = tnri_device_enter(device, &visit);
        if (status != TNR_OK)
            break;
        tnri_looks_settle(device, 0);
        tnri_device_leave(&visit);
    }
    return status;
}

tnr_status tnr_traps_get(tnr_traps_info *info, int wait)
{
    TNRI_CALM_CALL;
    if (info == NULL || info->struct_bytes != sizeof(*info))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_traps_get: set info->struct_bytes to sizeof(tnr_traps_info).");
    if (tnri_library_is_forked())
        return tnri_forked_error();
    tnr_status status = wait ? looks_settle() : TNR_OK;
    tnri_looks_sums sums = tnri_looks_sums_get();
    info->guarded = atomic_load(&tnri_guarded_count);
    info->unguarded = atomic_load(&tnri_unguarded_count);
    info->looks = sums.made;
    info->looks_missed = sums.missed;
    info->findings = sums.findings;
    return status;
}
