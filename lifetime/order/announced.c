/* SPDX-License-Identifier: Apache-2.0 */
/* Announced events, and marks that stand for them: see announced.h. */
#include "order/announced.h"

#include "api/library.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "log/nvtx.h"
#include "memory/device/upper.h"

/* Programs record the same few events again and again. */
enum { SPARES_MAX = 64 };

static struct {
    tnri_lock lock; /* protects what follows */
    tnri_table table;
    tnri_announcement *spares; /* linked by link.next */
    size_t spares_count;
} announced = {.lock = {.rank = TNRI_RANK_SPACE}};

_Atomic uint32_t tnri_announced_filter[1 << TNRI_ANNOUNCED_BITS];

/* One more event is announced, or one less. Under the lock. */
static void filter_change(uint64_t event, int change)
{
    _Atomic uint32_t *count = tnri_announced_filter_at(event);
    uint32_t before = atomic_load_explicit(count, memory_order_relaxed);
    atomic_store_explicit(count, before + (uint32_t)change, memory_order_relaxed);
}

/* A record, spare or new; null without host memory. Under the lock. */
static tnri_announcement *record_take(void)
{
    tnri_announcement *record = announced.spares;
    if (record == NULL)
        return tnri_host_alloc(sizeof(*record));
    announced.spares = (tnri_announcement *)record->link.next;
    announced.spares_count--;
    return record;
}

/* Gives a record back. Under the lock. */
static void record_give(tnri_announcement *record)
{
    if (announced.spares_count == SPARES_MAX) {
        tnri_host_free(record, sizeof(*record));
        return;
    }
    record->link.next = (tnri_link *)announced.spares;
    announced.spares = record;
    announced.spares_count++;
}

/* A proxy for each device. The library lock. */
static struct {
    CUstream handle;
    int made;
} proxies[TNRI_DEVICES_MAX];

/* The place where the event's announcement hangs, or would. Under the lock. */
static tnri_link **announcement_at(tnr_event event)
{
    return tnri_table_at(&announced.table, (uint64_t)(uintptr_t)event);
}

int tnri_announced_get(tnr_event event, tnr_moment before, tnri_announcement *copy)
{
    tnri_lock_take(&announced.lock);
    const tnri_announcement *found = (tnri_announcement *)*announcement_at(event);
    if (found != NULL && found->announced > before)
        found = NULL;
    if (found != NULL) {
        *copy = *found;
        tnri_stream_keep(copy->stream);
        tnri_clock_hold(copy->clock);
    }
    tnri_lock_release(&announced.lock);
    return found != NULL;
}

void tnri_announcement_drop(const tnri_announcement *copy)
{
    tnri_stream_drop(copy->stream);
    tnri_clock_drop(copy->clock);
}

int tnri_announced_put(tnr_event event, tnri_stream *stream, uint64_t number, uint64_t moment,
                       tnri_clock *clock)
{
    tnri_announcement *added = NULL;
    tnri_lock_take(&announced.lock);
    tnri_announcement *record = (tnri_announcement *)*announcement_at(event);
    if (record == NULL && (record = added = record_take()) != NULL) {
        record->link.key = (uint64_t)(uintptr_t)event;
        tnri_table_add(&announced.table, &record->link);
        filter_change(record->link.key, 1);
    }
    tnri_announcement old = {.stream = stream, .clock = clock}; /* to be released */
    if (record != NULL) {
        old.stream = record->stream;
        old.clock = record->clock;
        record->stream = stream;
        record->number = number;
        record->announced = moment;
        record->clock = clock;
    }
    tnri_lock_release(&announced.lock);
    if (added == NULL)
        tnri_announcement_drop(&old);
    return record != NULL;
}

void tnri_announced_remove(tnr_event event)
{
    if (!tnri_announced_maybe(event))
        return;
    tnri_lock_take(&announced.lock);
    tnri_link **at = announcement_at(event);
    tnri_announcement *found = (tnri_announcement *)*at;
    tnri_announcement old;
    if (found != NULL) {
        old = *found;
        tnri_table_remove(&announced.table, at);
        filter_change(old.link.key, -1);
        record_give(found);
    }
    tnri_lock_release(&announced.lock);
    if (found != NULL)
        tnri_announcement_drop(&old);
}

/* ---- the proxy ------------------------------------------------------------------------------ */

tnr_status tnri_proxy_stream(tnri_device *device, tnri_stream **proxy)
{
    tnri_visit visit;
    device = device->gpu; /* whose streams use host memory */
    tnr_status status = tnri_device_enter(device, &visit);
    if (status != TNR_OK)
        return status;
    CUresult result = CUDA_SUCCESS;
    CUstream handle = NULL;
    tnri_assert(tnri_upper_collects()); /* the proxy goes through the table */
    tnri_lock_take(&tnri_library_lock);
    int made = proxies[device->index].made;
    handle = proxies[device->index].handle;
    tnri_lock_release(&tnri_library_lock);
    if (!made) {
        result = tnri_gpu_stream_make(&handle);
        tnri_lock_take(&tnri_library_lock);
        CUstream surplus = NULL;
        if (result == CUDA_SUCCESS && proxies[device->index].made) {
            surplus = handle; /* another thread was quicker */
            handle = proxies[device->index].handle;
        } else if (result == CUDA_SUCCESS) {
            proxies[device->index].handle = handle;
            proxies[device->index].made = 1;
        }
        tnri_lock_release(&tnri_library_lock);
        if (surplus == NULL && result == CUDA_SUCCESS)
            tnri_nvtx_stream(handle, "Tenure: frees for all streams");
        if (surplus != NULL)
            (void)tnri_gpu_stream_end(surplus);
    }
    status = result == CUDA_SUCCESS
                 ? tnri_stream_find(device, handle, proxy)
                 : tnri_driver_error(result, TNRI_GPU_STREAM_MAKE, "making a stream for events");
    tnri_device_leave(&visit);
    return status;
}

tnr_status tnri_proxy_mark(tnri_device *device, tnr_event event, tnri_stream **proxy,
                           tnri_event **mark, uint64_t *number)
{
    tnr_status status = tnri_proxy_stream(device, proxy);
    if (status != TNR_OK)
        return status;
    tnri_visit visit;
    status = tnri_device_enter(device, &visit);
    if (status != TNR_OK)
        return status;
    CUresult result = tnri_gpu_stream_follow((*proxy)->handle, event);
    if (result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_VALUE)
        status = tnri_error_driver(TNR_ERR_INVALID_EVENT, (int)result,
                                   "%p is no longer an event.", (void *)event);
    else if (result != CUDA_SUCCESS)
        status = tnri_driver_error(result, TNRI_GPU_STREAM_FOLLOW, "following an event");
    if (status == TNR_OK)
        status = tnri_stream_mark(*proxy, mark, number);
    tnri_device_leave(&visit);
    return status;
}

tnr_status tnri_announced_mark(tnri_device *device, tnr_event event, tnri_stream **proxy,
                               tnri_event **mark, uint64_t *number)
{
    tnri_announcement of;
    if (!tnri_announced_get(event, UINT64_MAX, &of))
        return tnri_error(TNR_ERR_INVALID_EVENT,
                          "event %p was never announced as recorded. Call tnr_event_recorded after "
                          "cuEventRecord.",
                          (void *)event);
    tnri_announcement_drop(&of);
    return tnri_proxy_mark(device, event, proxy, mark, number);
}

static int announcement_is_of(const tnri_link *link, void *device)
{
    return ((const tnri_announcement *)link)->stream->device == device;
}

void tnri_announcements_forget(tnri_device *device)
{
    tnri_lock_take(&announced.lock);
    tnri_link *taken = tnri_table_take(&announced.table, announcement_is_of, device);
    for (const tnri_link *one = taken; one != NULL; one = one->next)
        filter_change(one->key, -1);
    tnri_announcement *spares = announced.spares;
    announced.spares = NULL;
    announced.spares_count = 0;
    tnri_lock_release(&announced.lock);
    while (taken != NULL) {
        tnri_announcement *old = (tnri_announcement *)taken;
        taken = taken->next;
        tnri_announcement_drop(old);
        tnri_host_free(old, sizeof(*old));
    }
    while (spares != NULL) {
        tnri_announcement *spare = spares;
        spares = (tnri_announcement *)spare->link.next;
        tnri_host_free(spare, sizeof(*spare));
    }
    if (proxies[device->index].made)
        (void)tnri_gpu_stream_end(proxies[device->index].handle);
    proxies[device->index].made = 0;
}
