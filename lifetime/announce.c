/* SPDX-License-Identifier: Apache-2.0 */
/* Announcements: see announce.h, and <tenure/lifetime.h> for what each call says. */
#include "announce.h"

#include "base/error.h"
#include "base/host_memory.h"
#include "base/table.h"
#include "library/library.h"
#include "retire.h"

/* An event that was recorded on a stream: at this mark, when the stream's clock was this. */
typedef struct announcement {
    tnri_link link;      /* by the event's handle */
    tnri_stream *stream; /* holds a reference */
    uint64_t number;
    uint64_t announced; /* a moment between the record and this announcement */
    tnri_clock *clock;  /* holds a reference; may be null */
} announcement;

static struct {
    tnri_lock lock;
    tnri_table table;
} announced = {.lock = {.rank = TNRI_RANK_SPACE}};

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

/* A copy of the event's announcement, with references of its own; 0 if there is none from before
 * the moment. A call that began after the moment met the record that an older one speaks of. */
static int announcement_get(tnr_event event, tnr_moment before, announcement *copy)
{
    tnri_lock_take(&announced.lock);
    const announcement *found = (announcement *)*announcement_at(event);
    if (found != NULL && found->announced > before)
        found = NULL;
    if (found != NULL) {
        *copy = *found;
        tnri_stream_hold(copy->stream);
        tnri_clock_hold(copy->clock);
    }
    tnri_lock_release(&announced.lock);
    return found != NULL;
}

static void announcement_release(const announcement *copy)
{
    tnri_stream_drop(copy->stream);
    tnri_clock_drop(copy->clock);
}

/* Keeps an announcement in place of the event's former one, which is *old then, without a stream if
 * there was none. 0: no host memory, and nothing has changed. */
static int announcement_put(const announcement *fresh, announcement *old)
{
    tnri_lock_take(&announced.lock);
    tnri_link **at = tnri_table_at(&announced.table, fresh->link.key);
    announcement *record = (announcement *)*at;
    if (record != NULL) {
        tnri_link link = record->link;
        *old = *record;
        *record = *fresh;
        record->link = link;
    } else if ((record = tnri_host_alloc(sizeof(*record))) != NULL) {
        *record = *fresh;
        tnri_table_add(&announced.table, &record->link);
        old->stream = NULL;
    }
    tnri_lock_release(&announced.lock);
    return record != NULL;
}

/* ---- events --------------------------------------------------------------------------------- */

tnr_status tnr_event_recorded(tnr_event event, int device_index, tnr_stream handle,
                              tnr_moment before)
{
    tnri_device *device;
    tnri_stream *stream;
    if (event == NULL)
        return tnri_error(TNR_ERR_INVALID_EVENT, "a null event was not recorded.");
    if (tnri_unlikely(tnri_stream_is_capturing(handle))) {
        tnr_event_destroyed(event); /* it marks a place in a graph now, and no time */
        return TNR_OK;
    }
    tnr_status status = tnri_library_device(device_index, &device);
    if (status == TNR_OK)
        status = tnri_stream_find(device, handle, &stream);
    if (status != TNR_OK)
        return status;
    tnri_retire_register(); /* announcements go through its hooks */
    announcement fresh = {.link.key = (uint64_t)(uintptr_t)event, .stream = stream};
    tnri_stream_hold(stream);
    fresh.announced = tnri_number_next();
    fresh.number = before < fresh.announced ? before : fresh.announced;
    fresh.clock = tnri_stream_clock_at(stream, before);
    announcement old = fresh; /* to be released */
    if (announcement_put(&fresh, &old))
        status = TNR_OK;
    else
        status = tnri_error(TNR_ERR_HOST_MEMORY, "no host memory to announce an event.");
    if (old.stream != NULL)
        announcement_release(&old);
    return status;
}

void tnr_event_destroyed(tnr_event event)
{
    tnri_lock_take(&announced.lock);
    tnri_link **at = announcement_at(event);
    announcement *old = (announcement *)*at;
    if (old != NULL)
        tnri_table_remove(&announced.table, at);
    tnri_lock_release(&announced.lock);
    if (old != NULL) {
        announcement_release(old);
        tnri_host_free(old, sizeof(*old));
    }
}

tnr_status tnr_stream_waited(tnr_event event, int device_index, tnr_stream handle,
                             tnr_moment before)
{
    tnri_device *device;
    tnri_stream *stream;
    announcement of;
    if (tnri_unlikely(tnri_stream_is_capturing(handle)))
        return TNR_OK; /* an edge of the graph, which tells itself */
    tnr_status status = tnri_library_device(device_index, &device);
    if (status == TNR_OK)
        status = tnri_stream_find(device, handle, &stream);
    if (status != TNR_OK || !announcement_get(event, before, &of))
        return status;
    tnri_stream_waits(stream, of.clock, of.stream->index, of.number);
    announcement_release(&of);
    return TNR_OK;
}

/* Everything that a clock knows of is over. */
static void clock_completed(const tnri_device *device, const tnri_clock *clock)
{
    for (tnri_stream *stream = NULL; (stream = tnri_stream_walk(device, stream)) != NULL;) {
        uint64_t number = tnri_clock_of(clock, stream->index);
        if (number > 0)
            tnri_stream_completed(stream, number);
    }
}

void tnr_event_synchronized(tnr_event event, tnr_moment before)
{
    announcement of;
    if (atomic_load(&tnri_generation) == 0 || !announcement_get(event, before, &of))
        return;
    tnri_stream_completed(of.stream, of.number);
    clock_completed(of.stream->device, of.clock);
    announcement_release(&of);
}

/* ---- streams -------------------------------------------------------------------------------- */

tnr_moment tnr_moment_now(void)
{
    return tnri_number_now();
}

tnr_status tnr_stream_created(int device_index, tnr_stream handle)
{
    tnri_device *device;
    tnri_stream *stream;
    tnr_status status = tnri_library_device(device_index, &device);
    return status == TNR_OK ? tnri_stream_find(device, handle, &stream) : status;
}

/* A stream that nothing is known of has nothing to end. It may be one that was destroyed before,
 * and the driver does not survive being asked about those. */
tnr_status tnr_stream_destroying(int device_index, tnr_stream handle)
{
    tnri_device *device;
    tnri_stream *stream;
    if ((uintptr_t)handle <= 2)
        return tnri_error(TNR_ERR_INVALID_STREAM, "default streams cannot be destroyed.");
    tnr_status status = tnri_library_device(device_index, &device);
    if (status != TNR_OK || !tnri_stream_is_known(device, handle))
        return status;
    status = tnri_stream_find(device, handle, &stream);
    return status == TNR_OK ? tnri_stream_end(stream, 0) : status;
}

tnr_status tnr_stream_synchronized(int device_index, tnr_stream handle, tnr_moment began)
{
    tnri_device *device;
    tnri_stream *stream;
    tnr_status status = tnri_library_device(device_index, &device);
    if (status == TNR_OK)
        status = tnri_stream_find(device, handle, &stream);
    if (status != TNR_OK)
        return status;
    if (began > tnri_number_now())
        began = tnri_number_now(); /* a moment that has not come yet proves nothing more */
    tnri_clock *clock = tnri_stream_clock_at(stream, began);
    tnri_stream_completed(stream, began);
    clock_completed(device, clock);
    tnri_clock_drop(clock);
    return TNR_OK;
}

tnr_status tnr_device_synchronized(int device_index, tnr_moment began)
{
    tnri_device *device;
    tnr_status status = tnri_library_device(device_index, &device);
    if (status != TNR_OK)
        return status;
    if (began > tnri_number_now())
        began = tnri_number_now();
    for (tnri_stream *stream = NULL; (stream = tnri_stream_walk(device, stream)) != NULL;)
        tnri_stream_completed(stream, began);
    return TNR_OK;
}

/* ---- the proxy ------------------------------------------------------------------------------ */

tnr_status tnri_proxy_stream(tnri_device *device, tnri_stream **proxy)
{
    tnri_visit visit;
    tnr_status status = tnri_device_enter(device, &visit);
    if (status != TNR_OK)
        return status;
    CUresult result = CUDA_SUCCESS;
    CUstream handle = NULL;
    tnri_retire_register(); /* the proxy goes through its hooks */
    tnri_lock_take(&tnri_library_lock);
    int made = proxies[device->index].made;
    handle = proxies[device->index].handle;
    tnri_lock_release(&tnri_library_lock);
    if (!made) {
        result = tnri_drive(cuStreamCreate, (&handle, CU_STREAM_NON_BLOCKING));
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
        if (surplus != NULL)
            (void)tnri_drive(cuStreamDestroy, (surplus));
    }
    status = result == CUDA_SUCCESS
                 ? tnri_stream_find(device, handle, proxy)
                 : tnri_driver_error(result, "cuStreamCreate", "making a stream for events");
    tnri_device_leave(&visit);
    return status;
}

tnr_status tnri_announced_mark(tnri_device *device, tnr_event event, tnri_stream **proxy,
                               tnri_event **mark, uint64_t *number)
{
    announcement of;
    if (!announcement_get(event, UINT64_MAX, &of))
        return tnri_error(TNR_ERR_INVALID_EVENT,
                          "event %p was never announced as recorded. Call tnr_event_recorded after "
                          "cuEventRecord.",
                          (void *)event);
    tnri_device *recorded_on = of.stream->device;
    announcement_release(&of);
    if (recorded_on != device)
        return tnri_error(TNR_ERR_INVALID_EVENT,
                          "event %p was recorded on device %d, the block is on device %d.",
                          (void *)event, recorded_on->index, device->index);
    tnr_status status = tnri_proxy_stream(device, proxy);
    if (status != TNR_OK)
        return status;
    tnri_visit visit;
    status = tnri_device_enter(device, &visit);
    if (status != TNR_OK)
        return status;
    CUresult result =
        tnri_drive(cuStreamWaitEvent, ((*proxy)->handle, event, CU_EVENT_WAIT_DEFAULT));
    if (result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_VALUE)
        status = tnri_error_driver(TNR_ERR_INVALID_EVENT, (int)result,
                                   "%p is not an event any more.", (void *)event);
    else if (result != CUDA_SUCCESS)
        status = tnri_driver_error(result, "cuStreamWaitEvent", "following an event");
    if (status == TNR_OK)
        status = tnri_stream_mark(*proxy, mark, number);
    tnri_device_leave(&visit);
    return status;
}

static int announcement_is_of(const tnri_link *link, void *device)
{
    return ((const announcement *)link)->stream->device == device;
}

void tnri_announcements_forget(tnri_device *device)
{
    tnri_lock_take(&announced.lock);
    tnri_link *taken = tnri_table_take(&announced.table, announcement_is_of, device);
    tnri_lock_release(&announced.lock);
    while (taken != NULL) {
        announcement *old = (announcement *)taken;
        taken = taken->next;
        announcement_release(old);
        tnri_host_free(old, sizeof(*old));
    }
    if (proxies[device->index].made)
        (void)tnri_drive(cuStreamDestroy, (proxies[device->index].handle));
    proxies[device->index].made = 0;
}
