/* SPDX-License-Identifier: Apache-2.0 */
/* The one lock of captures and graphs: see room.h. */
#include "graph/room.h"

#include <pthread.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/lock.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local unsigned inside;

unsigned tnri_room_enter(void)
{
    tnri_assert_none_held();
    if (inside == 0)
        (void)pthread_mutex_lock(&mutex);
    return inside++;
}

void tnri_room_leave(void)
{
    tnri_assert(inside > 0);
    if (--inside == 0)
        (void)pthread_mutex_unlock(&mutex);
}

unsigned tnri_room_depth(void)
{
    return inside;
}

tnr_status tnri_room_error(const char *call)
{
    return tnri_error(TNR_ERR_BUSY, "%s may not be called from a callback of Tenure's.", call);
}
