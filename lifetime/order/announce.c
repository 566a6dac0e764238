/* SPDX-License-Identifier: Apache-2.0 */
/* What the program tells about its events and streams: see <tenure/lifetime.h>, announced.h. */
#include <tenure/lifetime.h>

#include "api/library.h"
#include "base/prim/calm.h"
#include "base/error.h"
#include "order/announced.h"
#include "order/register.h"

/* ---- events --------------------------------------------------------------------------------- */

tnr_status tnr_event_recorded(tnr_event event, int device_index, tnr_stream handle,
                              tnr_moment before)
{
    tnri_device *device;
    tnri_stream *stream;
    if (event == NULL)
        return tnri_error(TNR_ERR_INVALID_EVENT, "tnr_event_recorded: event is null.");
    if (tnri_unlikely(tnri_stream_is_capturing(handle))) {
        tnr_event_destroyed(event); /* it marks a place in a graph now, and no time */
        return TNR_OK;
    }
    tnr_status status = tnri_library_device(device_index, &device);
    if (status == TNR_OK)
        status = tnri_stream_find(device, handle, &stream);
    if (status != TNR_OK)
        return status;
    tnri_lifetime_register();
    tnri_stream_keep(stream);
    uint64_t announced = tnri_number_next();
    uint64_t number = before < announced ? before : announced;
    if (tnri_announced_put(event, stream, number, announced, tnri_stream_clock_at(stream, before)))
        return TNR_OK;
    return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory to announce an event.");
}

void tnr_event_destroyed(tnr_event event)
{
    tnri_announced_remove(event);
}

tnr_status tnr_stream_waited(tnr_event event, int device_index, tnr_stream handle,
                             tnr_moment before)
{
    tnri_device *device;
    tnri_stream *stream;
    tnri_announcement of;
    if (tnri_unlikely(tnri_stream_is_capturing(handle)))
        return TNR_OK; /* an edge of the graph, which tells itself */
    tnr_status status = tnri_library_device(device_index, &device);
    if (status == TNR_OK)
        status = tnri_stream_find(device, handle, &stream);
    if (status != TNR_OK || !tnri_announced_get(event, before, &of))
        return status;
    if (atomic_load_explicit(&of.stream->is_asked, memory_order_relaxed))
        tnri_stream_waits(stream, of.clock, of.stream->index, of.number);
    tnri_announcement_drop(&of);
    return TNR_OK;
}

void tnr_event_synchronized(tnr_event event, tnr_moment before)
{
    tnri_announcement of;
    if (atomic_load(&tnri_generation) == 0 || !tnri_announced_get(event, before, &of))
        return;
    tnri_stream_completed(of.stream, of.number);
    tnri_streams_completed(of.clock);
    tnri_announcement_drop(&of);
}

/* ---- what need not be told ------------------------------------------------------------------- */

int tnr_event_is_announced(tnr_event event)
{
    return tnri_announced_maybe(event);
}

uint64_t tnr_asked_changes(void)
{
    return atomic_load_explicit(&tnri_asked_changes, memory_order_acquire);
}

/* Of a stream without memory or uses, and that knows of none, nothing will be asked: what it gets
 * later has a later number. */
int tnr_stream_is_asked(int device_index, tnr_stream handle)
{
    tnri_device *device;
    tnri_stream *stream;
    tnri_error_aside aside;
    tnri_error_take(&aside);
    tnr_status status = tnri_library_device(device_index, &device);
    if (status == TNR_OK)
        status = tnri_stream_find(device, handle, &stream);
    tnri_error_restore(&aside);
    return status != TNR_OK || atomic_load_explicit(&stream->is_asked, memory_order_relaxed);
}

/* ---- streams -------------------------------------------------------------------------------- */

tnr_moment tnr_moment_now(void)
{
    return tnri_number_now();
}

tnr_status tnr_stream_created(int device_index, tnr_stream handle)
{
    TNRI_CALM_CALL;
    tnri_device *device;
    tnri_stream *stream;
    tnr_status status = tnri_library_device(device_index, &device);
    return status == TNR_OK ? tnri_stream_find(device, handle, &stream) : status;
}

/* A stream that nothing is known of has nothing to end. It may be one that was destroyed before,
 * and the driver does not survive being asked about those. */
tnr_status tnr_stream_destroying(int device_index, tnr_stream handle)
{
    TNRI_CALM_CALL;
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
    tnri_streams_completed(clock);
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
    tnri_device_completed(device, began);
    return TNR_OK;
}
