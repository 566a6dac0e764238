/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for the end of graphs: see graph_end.h. */
#include "pool/graph_end.h"

#include <time.h>

#include "arena/upper.h"
#include "conf/conf.h"

enum { NAP_NS = 100000 };

/* Rests a little. 0: it is `until_ns`, and nothing is worth waiting for while a capture is under
 * way: that needs memory too, and does not end by waiting. */
static int rest(uint64_t until_ns)
{
    if (tnri_capturing() || tnri_clock_ns() >= until_ns)
        return 0;
    struct timespec nap = {0, NAP_NS};
    nanosleep(&nap, NULL);
    return 1;
}

static uint64_t deadline_ns(void)
{
    return tnri_clock_ns() + (uint64_t)tnri_conf_get()->graph_end_ms * 1000000;
}

void tnri_graph_end_await(tnr_pool pool)
{
    uint64_t until_ns = deadline_ns();
    tnri_captures_settle(pool->device);
    while (tnri_pool_is_kept(pool) && rest(until_ns))
        tnri_captures_settle(pool->device);
}

tnr_status tnri_graph_end_await_device(tnri_device *device)
{
    const tnri_captures *captures = tnri_captures_get();
    if (captures == NULL)
        return TNR_OK;
    uint64_t until_ns = deadline_ns();
    tnr_status status;
    while ((status = captures->device_ending(device, 0)) == TNR_ERR_BUSY && rest(until_ns))
        ;
    return status;
}
