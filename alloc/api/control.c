/* SPDX-License-Identifier: Apache-2.0 */
/* See control.h. */
#include "api/control.h"

#include "base/error.h"
#include "memory/device/upper.h"

tnr_status tnri_control_follow(const tnri_conf *before, const tnri_conf *after)
{
    const tnri_upper *control = tnri_upper_of(TNRI_ROOM_CONTROL);
    if (control->follow != NULL)
        return control->follow(before, after);
    if (after->control != TNRI_CONTROL_ON)
        return TNR_OK;
    return tnri_error(TNR_ERR_CONFIG, "control: this program was linked without control from "
                                      "outside. Link the shared library, or leave control off.");
}

void tnri_control_reap(int all)
{
    const tnri_upper *control = tnri_upper_of(TNRI_ROOM_CONTROL);
    if (control->reap != NULL)
        control->reap(all);
}
