/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for the end of graphs: see graph_end.h. */
#include "api/graph_end.h"

#include "api/pool_end.h"
#include "base/conf/conf.h"
#include "base/prim/clock.h"
#include "memory/device/upper.h"

enum { NAP_NS = 100000 };

/* Asks the driver something. Some go on with what they have to do, or with what they have been
 * given, only when they are called: the simulated device's schedules, and those that collect work
 * before they pass it on to the system. */
static void nudge(tnri_device *device)
{
    tnri_visit visit;
    tnri_event *event = NULL;
    if (tnri_device_enter(device, &visit) != TNR_OK)
        return;
    if (tnri_event_take(device, &event) == TNR_OK)
        (void)tnri_gpu_event_query(event->handle);
    tnri_event_drop(event);
    tnri_device_leave(&visit);
}

/* Rests a little. 0: it is `until_ns`, and nothing is worth waiting for while a capture is under
 * way: that needs memory too, and does not end by waiting. */
static int rest(tnri_device *device, uint64_t until_ns)
{
    if (tnri_capturing() || tnri_clock_ns() >= until_ns)
        return 0;
    tnri_nap(NAP_NS);
    nudge(device);
    return 1;
}

static uint64_t deadline_ns(void)
{
    return tnri_clock_ns() + (uint64_t)tnri_conf_get()->graph_end_ms * 1000000;
}

void tnri_graph_end_await(tnr_pool pool)
{
    uint64_t until_ns = deadline_ns();
    do
        (void)tnri_uppers_settle(pool->device, 0);
    while (tnri_pool_is_kept(pool) && rest(pool->device, until_ns));
}

tnr_status tnri_graph_end_await_device(tnri_device *device)
{
    uint64_t until_ns = deadline_ns();
    tnr_status status;
    do
        status = tnri_upper_device(TNRI_ROOM_GRAPH, device, TNRI_DEVICE_MAY_END);
    while (status == TNR_ERR_BUSY && rest(device, until_ns));
    return status;
}
