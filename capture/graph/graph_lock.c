/* SPDX-License-Identifier: Apache-2.0 */
/* The one lock of captures and graphs: see graph_lock.h. */
#include "graph/graph_lock.h"

#include <pthread.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/lock.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local unsigned inside;

unsigned tnri_graph_lock(void)
{
    tnri_assert_none_held();
    if (inside == 0)
        (void)pthread_mutex_lock(&mutex);
    return inside++;
}

void tnri_graph_unlock(void)
{
    tnri_assert(inside > 0);
    if (--inside == 0)
        (void)pthread_mutex_unlock(&mutex);
}

unsigned tnri_graph_lock_depth(void)
{
    return inside;
}

tnr_status tnri_graph_lock_error(const char *call)
{
    return tnri_error(TNR_ERR_BUSY, "%s may not be called from a callback of Tenure's.", call);
}
