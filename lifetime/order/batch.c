/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks freed with tnr_free_sync: see batch.h. */
#include "order/batch.h"

#include "base/gate.h"
#include "gpu/capturing.h"
#include "memory/pool/pool.h"
#include "memory/pool/structure.h"
#include "order/announced.h"
#include "order/pending.h"
#include "see/trap/trap.h"

/* Blocks freed with tnr_free_sync and not fenced yet, by device. */
static struct {
    tnri_lock lock;
    tnri_uses *first[TNRI_DEVICE_NUMBERS];
} batches = {.lock = {.rank = TNRI_RANK_RETIRED}};

void tnri_batch_add(tnri_device *device, tnri_uses *uses)
{
    tnri_lock_take(&batches.lock);
    uses->batch_next = batches.first[device->index];
    batches.first[device->index] = uses;
    tnri_lock_release(&batches.lock);
}

static tnri_uses *batch_take(tnri_device *device)
{
    tnri_lock_take(&batches.lock);
    tnri_uses *batch = batches.first[device->index];
    batches.first[device->index] = NULL;
    tnri_lock_release(&batches.lock);
    return batch;
}

/* Makes the proxy wait for all work of a device: each stream that Tenure knows, and the legacy
 * stream, which stands for all blocking streams, and so for other threads' default streams, which
 * only those threads can name. In that device's context; the proxy may be another's. */
static tnr_status proxy_follow_device(tnri_device *device, tnri_stream *proxy)
{
    tnri_stream *legacy;
    tnr_status status = tnri_stream_find(device, NULL, &legacy);
    for (tnri_stream *stream = NULL; (stream = tnri_stream_walk(device, stream)) != NULL;) {
        uint64_t number;
        tnri_event *event;
        if (stream == proxy || status != TNR_OK || !tnri_stream_is_markable(stream))
            continue;
        status = tnri_capturing() ? tnri_stream_mark_beside(stream, &event, &number)
                                  : tnri_stream_mark_idle(stream, &event, &number);
        if (status == TNR_OK) {
            status = tnri_stream_follow(proxy, event, stream, number);
            tnri_stream_recycle(stream, event);
        }
    }
    return status;
}

/* The devices that reach memory of the device, without the one whose streams use it. With
 * auto_record:all any device does: a copy between two needs no access. */
static uint64_t device_peers(tnri_device *device)
{
    uint64_t peers = 0;
    if ((tnri_gate() & TNRI_GATE_SYNC) != 0)
        return ~(UINT64_C(1) << device->gpu->index) & (UINT64_MAX >> (64 - tnri_devices_count()));
    for (tnr_pool pool = NULL; (pool = tnri_pool_walk(device, pool)) != NULL;)
        peers |= atomic_load(&pool->account.access.peers);
    return peers;
}

/* Makes the proxy wait for everything that may use memory of its device: the device's own work, and
 * that of its peers. Memory that was closed to a peer meanwhile needs no more, since closing waits.
 * In the context. */
static tnr_status proxy_follow_all(tnri_device *device, tnri_stream *proxy)
{
    tnr_status status = proxy_follow_device(device, proxy);
    uint64_t peers = device_peers(device);
    for (int i = 0; peers >> i != 0 && status == TNR_OK; i++) {
        tnri_device *peer = tnri_device_at(i);
        tnri_visit visit;
        if ((peers >> i & 1) == 0 || !atomic_load(&peer->in_use))
            continue;
        status = tnri_device_enter(peer, &visit);
        if (status != TNR_OK)
            break;
        status = proxy_follow_device(peer, proxy);
        tnri_device_leave(&visit);
    }
    return status;
}

/* The fence of a batch has been made: it becomes one more pending use of a block in it. */
static void uses_fence(tnri_uses *uses, tnri_stream *proxy, uint64_t number, tnri_event *event)
{
    tnri_use *use = &uses->fence;
    use->owner = uses;
    use->stream = proxy;
    use->number = number;
    use->event = event;
    tnri_stream_hold(proxy);
    tnri_event_hold(event);
    use->next = uses->first;
    uses->first = use;
    /* Until this store no other thread reads the list; from the insertion on, one may end the
     * block, so nothing is touched after it. */
    atomic_store_explicit(&uses->is_unfenced, 0, memory_order_release);
    tnri_pending_add(proxy, use);
}

tnr_status tnri_batch_fence(tnri_device *device)
{
    /* The legacy stream stands for others that cannot be named. */
    if (tnri_capturing() && tnri_stream_is_capturing(TNRI_STREAM_LEGACY))
        return TNR_ERR_CAPTURE;
    tnri_uses *batch = batch_take(device);
    if (batch == NULL)
        return TNR_OK;
    tnri_stream *proxy;
    tnri_event *event = NULL;
    uint64_t number;
    tnr_status status = tnri_proxy_stream(device, &proxy);
    if (status == TNR_OK)
        status = proxy_follow_all(device, proxy);
    if (status == TNR_OK && (tnri_gate() & TNRI_GATE_TRAPS) != 0)
        for (const tnri_uses *uses = batch; uses != NULL; uses = uses->batch_next)
            tnri_trap_fenced(uses->block, uses->freed_stack, proxy);
    if (status == TNR_OK)
        status = tnri_stream_mark(proxy, &event, &number);
    while (batch != NULL) {
        tnri_uses *uses = batch;
        batch = uses->batch_next;
        if (status != TNR_OK)
            tnri_batch_add(device, uses);
        else
            uses_fence(uses, proxy, number, event);
    }
    if (status == TNR_OK)
        tnri_event_drop(event);
    return status;
}
