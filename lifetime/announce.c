/* SPDX-License-Identifier: Apache-2.0 */
/* Announcements: see announce.h, and <tenure/lifetime.h> for what each call says. */
#include "announce.h"

#include "base/error.h"
#include "base/host_memory.h"
#include "pool/library.h"
#include "retire.h"

enum { HASH_SLOTS = 4096 };

/* An event that was recorded on a stream: at this mark, when the stream's clock was this. */
typedef struct announcement {
    struct announcement *next;
    tnr_event event;
    tnri_stream *stream; /* holds a reference */
    uint64_t number;
    uint64_t announced; /* a moment between the record and this announcement */
    tnri_clock *clock;  /* holds a reference; may be null */
} announcement;

static struct {
    tnri_lock lock;
    announcement *hash[HASH_SLOTS];
} announced = {.lock = {.rank = TNRI_RANK_SPACE}};

/* A proxy for each device. The library lock. */
static struct {
    CUstream handle;
    int made;
} proxies[TNRI_DEVICES_MAX];

static size_t event_slot(tnr_event event)
{
    return (size_t)((uint64_t)(uintptr_t)event * UINT64_C(0x9e3779b97f4a7c15) >> 48) % HASH_SLOTS;
}

/* The place where the event's announcement hangs, or would. Under the lock. */
static announcement **announcement_link(tnr_event event)
{
    announcement **link = &announced.hash[event_slot(event)];
    while (*link != NULL && (*link)->event != event)
        link = &(*link)->next;
    return link;
}

/* A copy of the event's announcement, with references of its own; 0 if there is none from before
 * the moment. A call that began after the moment met the record that an older one speaks of. */
static int announcement_get(tnr_event event, tnr_moment before, announcement *copy)
{
    tnri_lock_take(&announced.lock);
    const announcement *found = *announcement_link(event);
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
    announcement *fresh = tnri_host_alloc(sizeof(*fresh));
    if (fresh == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory to announce an event.");
    fresh->event = event;
    fresh->stream = stream;
    tnri_stream_hold(stream);
    fresh->announced = tnri_number_next();
    fresh->number = before < fresh->announced ? before : fresh->announced;
    fresh->clock = tnri_stream_clock_at(stream, before);

    tnri_lock_take(&announced.lock);
    announcement **link = announcement_link(event);
    announcement *old = *link;
    fresh->next = old == NULL ? NULL : old->next;
    *link = fresh;
    tnri_lock_release(&announced.lock);
    if (old != NULL) {
        announcement_release(old);
        tnri_host_free(old, sizeof(*old));
    }
    return TNR_OK;
}

void tnr_event_destroyed(tnr_event event)
{
    tnri_lock_take(&announced.lock);
    announcement **link = announcement_link(event);
    announcement *old = *link;
    if (old != NULL)
        *link = old->next;
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

tnr_status tnr_stream_destroying(int device_index, tnr_stream handle)
{
    tnri_device *device;
    tnri_stream *stream;
    if ((uintptr_t)handle <= 2)
        return tnri_error(TNR_ERR_INVALID_STREAM, "default streams cannot be destroyed.");
    tnr_status status = tnri_library_device(device_index, &device);
    if (status == TNR_OK)
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

void tnri_announcements_forget(tnri_device *device)
{
    tnri_lock_take(&announced.lock);
    for (size_t slot = 0; slot < HASH_SLOTS; slot++)
        for (announcement **link = &announced.hash[slot]; *link != NULL;) {
            announcement *old = *link;
            if (old->stream->device != device) {
                link = &old->next;
                continue;
            }
            *link = old->next;
            announcement_release(old);
            tnri_host_free(old, sizeof(*old));
        }
    tnri_lock_release(&announced.lock);
    if (proxies[device->index].made)
        (void)tnri_drive(cuStreamDestroy, (proxies[device->index].handle));
    proxies[device->index].made = 0;
}
