/* SPDX-License-Identifier: Apache-2.0 */
/* The one lock of captures and graphs: see graph_lock.h. */
#include "memory/pool/graph_lock.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/prim/thread.h"

static tnri_mutex mutex = TNRI_MUTEX_INIT;
static _Thread_local unsigned inside;

unsigned tnri_graph_lock(void)
{
    tnri_assert_none_held();
    if (inside == 0)
        tnri_mutex_lock(&mutex);
    return inside++;
}

void tnri_graph_unlock(void)
{
    tnri_assert(inside > 0);
    if (--inside == 0)
        tnri_mutex_unlock(&mutex);
}

unsigned tnri_graph_lock_depth(void)
{
    return inside;
}

tnr_status tnri_graph_lock_error(const char *call)
{
    return tnri_error(TNR_ERR_BUSY, "%s may not be called from a callback of Tenure's.", call);
}
