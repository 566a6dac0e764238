/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process has of a device besides what Tenure serves, as a function of the program says: see
 * <tenure/control.h>. The function is called under the mutex, so that the former function is not
 * called any more once tnr_outside_set has returned.
 */
#include "control/commands.h"

#include "base/prim/calm.h"
#include "base/prim/thread.h"

#include <tenure/control.h>

#include "api/library.h"
#include "base/error.h"

static struct {
    tnri_mutex mutex;
    tnr_outside_function function; /* null: nobody is asked */
    void *user;
} outside = {.mutex = TNRI_MUTEX_INIT};

TNR_API tnr_status tnr_outside_set(tnr_outside_function function, void *user)
{
    TNRI_CALM_CALL;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    tnri_mutex_lock(&outside.mutex);
    outside.function = function;
    outside.user = user;
    tnri_mutex_unlock(&outside.mutex);
    return TNR_OK;
}

/* 1 if somebody knows of the device. */
static int outside_ask(tnr_outside *told, int device)
{
    *told = (tnr_outside){.rows_count = 0};
    tnri_mutex_lock(&outside.mutex);
    int is_known = outside.function != NULL && outside.function(told, device, outside.user);
    tnri_mutex_unlock(&outside.mutex);
    return is_known && told->rows_count <= TNR_OUTSIDE_ROWS_MAX;
}

void tnri_account_tell(tnri_answer *answer, int device)
{
    tnr_outside told;
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    if (!outside_ask(&told, device) || tnr_stats_get(&stats, NULL, device) != TNR_OK)
        return;
    uint64_t explained = stats.reserved_bytes.current;
    tnri_answer_object(answer, "account");
    tnri_answer_number(answer, "used_bytes", told.used_bytes);
    tnri_answer_flag(answer, "from_start", told.is_from_start);
    tnri_answer_number(answer, "tenure_bytes", stats.reserved_bytes.current);
    tnri_answer_list(answer, "outside");
    for (size_t i = 0; i < told.rows_count; i++) {
        told.rows[i].name[sizeof(told.rows[i].name) - 1] = '\0';
        explained += told.rows[i].bytes;
        tnri_answer_object(answer, NULL);
        tnri_answer_text(answer, "name", told.rows[i].name);
        tnri_answer_number(answer, "bytes", told.rows[i].bytes);
        tnri_answer_object_end(answer);
    }
    tnri_answer_list_end(answer);
    tnri_answer_number(answer, "explained_bytes", explained);
    tnri_answer_object_end(answer);
}
