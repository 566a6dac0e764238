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
    tnr_outside_function function; /* null: none is asked */
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
    tnri_json_object(&answer->json, "account");
    tnri_json_number(&answer->json, "used_bytes", told.used_bytes);
    tnri_json_flag(&answer->json, "from_start", told.is_from_start);
    tnri_json_number(&answer->json, "tenure_bytes", stats.reserved_bytes.current);
    tnri_json_list(&answer->json, "outside");
    for (size_t i = 0; i < told.rows_count; i++) {
        told.rows[i].name[sizeof(told.rows[i].name) - 1] = '\0';
        explained += told.rows[i].bytes;
        tnri_json_object(&answer->json, NULL);
        tnri_json_text(&answer->json, "name", told.rows[i].name);
        tnri_json_number(&answer->json, "bytes", told.rows[i].bytes);
        tnri_json_object_end(&answer->json);
    }
    tnri_json_list_end(&answer->json);
    tnri_json_number(&answer->json, "explained_bytes", explained);
    tnri_json_object_end(&answer->json);
}
