/* SPDX-License-Identifier: Apache-2.0 */
/* The user's callbacks: see sleep_callback.h. Like the callback for lack of memory, they belong to
 * the process and outlive a shutdown. */
#include "away/sleep_callback.h"

#include <string.h>

#include "api/library.h"
#include "away/staging.h"
#include "base/prim/calm.h"
#include "base/error.h"
#include "memory/pool/pool.h"

enum { CALLBACKS_MAX = 64 };

typedef struct callback_entry {
    tnr_sleep_callback callback;
    void *user;
} callback_entry;

static tnri_lock callbacks_lock = {.rank = TNRI_RANK_HOST};
static callback_entry
    callbacks[CALLBACKS_MAX];  /* in the order in which they were added; the lock */
static size_t callbacks_count; /* the lock */

tnr_status tnr_sleep_callback_add(tnr_sleep_callback callback, void *user)
{
    TNRI_CALM_CALL;
    if (callback == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "tnr_sleep_callback_add: callback is null.");
    if (tnri_library_is_forked())
        return tnri_forked_error();
    int is_full;
    tnri_lock_take(&callbacks_lock);
    is_full = callbacks_count == CALLBACKS_MAX;
    if (!is_full)
        callbacks[callbacks_count++] = (callback_entry){callback, user};
    tnri_lock_release(&callbacks_lock);
    if (is_full)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "there are %d callbacks already, the most.",
                          CALLBACKS_MAX);
    return TNR_OK;
}

tnr_status tnr_sleep_callback_remove(tnr_sleep_callback callback, void *user)
{
    TNRI_CALM_CALL;
    size_t at = 0;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    tnri_lock_take(&callbacks_lock);
    while (at < callbacks_count &&
           (callbacks[at].callback != callback || callbacks[at].user != user))
        at++;
    int is_there = at < callbacks_count;
    if (is_there)
        memmove(&callbacks[at], &callbacks[at + 1],
                (--callbacks_count - at) * sizeof(callbacks[0]));
    tnri_lock_release(&callbacks_lock);
    if (is_there)
        return TNR_OK;
    return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                      "tnr_sleep_callback_remove: it was not added with this `user`.");
}

int tnri_sleep_has_callback(void)
{
    tnri_lock_take(&callbacks_lock);
    int has_some = callbacks_count > 0;
    tnri_lock_release(&callbacks_lock);
    return has_some;
}

void tnri_sleep_notify(tnr_sleep_event event, tnr_pool pool)
{
    callback_entry entries[CALLBACKS_MAX];
    tnri_lock_take(&callbacks_lock);
    size_t count = callbacks_count;
    memcpy(entries, callbacks, count * sizeof(entries[0]));
    tnri_lock_release(&callbacks_lock);
    tnri_assert_none_held();
    tnri_assert(!tnri_staging_is_mine(pool->device));
    tnr_pool handle = tnri_pool_handle(pool);
    for (size_t i = 0; i < count; i++)
        entries[i].callback(handle, pool->device->index, event,
                            atomic_load(&pool->asleep.generation), entries[i].user);
}
