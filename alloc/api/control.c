/* SPDX-License-Identifier: Apache-2.0 */
/* See control.h. */
#include "api/control.h"

#include "base/error.h"

_Atomic(const tnri_control *) tnri_control_table;

static const tnri_control *table_get(void)
{
    return atomic_load_explicit(&tnri_control_table, memory_order_acquire);
}

tnr_status tnri_control_follow(const tnri_conf *before, const tnri_conf *after)
{
    const tnri_control *table = table_get();
    if (table != NULL)
        return table->follow(before, after);
    if (after->control != TNRI_CONTROL_ON)
        return TNR_OK;
    return tnri_error(TNR_ERR_CONFIG, "control: this program was linked without control from "
                                      "outside. Link the shared library, or leave control off.");
}

void tnri_control_reap(void)
{
    if (table_get() != NULL)
        table_get()->reap();
}

void tnri_control_pause(void)
{
    if (table_get() != NULL)
        table_get()->pause();
}

void tnri_control_resume(void)
{
    if (table_get() != NULL)
        table_get()->resume();
}

void tnri_control_watch(void)
{
    const tnri_control *table = table_get();
    if (table != NULL)
        table->watch();
}

void tnri_control_end(void)
{
    if (table_get() != NULL)
        table_get()->end();
}
