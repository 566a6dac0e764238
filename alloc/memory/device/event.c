/* SPDX-License-Identifier: Apache-2.0 */
/* Pooled events: see event.h. */
#include "memory/device/event.h"

#include "base/error.h"
#include "base/host_memory.h"
#include "base/rest.h"
#include "memory/device/device.h"

void tnri_event_store_create(tnri_event_store *store)
{
    store->spares = (tnri_depot)TNRI_DEPOT_INIT(TNRI_RANK_EVENTS);
    atomic_store(&store->events_count, 0);
    atomic_store(&store->waits_begun, 0);
    atomic_store(&store->waits_ended, 0);
}

CUresult tnri_event_store_empty(tnri_event_store *store)
{
    CUresult result = CUDA_SUCCESS;
    tnri_spare *spare = tnri_depot_empty(&store->spares);
    while (spare != NULL) {
        tnri_event *event = (tnri_event *)spare;
        tnri_assert(&event->device->events == store);
        result = tnri_gpu_event_end(event->handle);
        if (result != CUDA_SUCCESS)
            break;
        spare = spare->next;
        atomic_fetch_sub(&store->events_count, 1);
        tnri_host_free(event, sizeof(*event));
    }
    tnri_depot_add(&store->spares, spare);
    tnri_assert(result != CUDA_SUCCESS || atomic_load(&store->events_count) == 0);
    return result;
}

tnri_event *tnri_event_take_spare(tnri_device *device)
{
    tnri_event *event = (tnri_event *)tnri_depot_take(&device->events.spares);
    if (event != NULL) {
        tnri_assert_hot(event->device == device);
        atomic_store_explicit(&event->holders, 1, memory_order_relaxed);
        atomic_store_explicit(&event->completed, 0, memory_order_relaxed);
        event->late = 0;
    }
    return event;
}

tnr_status tnri_event_take(tnri_device *device, tnri_event **taken)
{
    tnri_event *event = tnri_event_take_spare(device);
    if (event == NULL) {
        event = tnri_host_alloc(sizeof(*event));
        if (event == NULL)
            return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for an event.");
        CUresult result = tnri_gpu_event_make(&event->handle);
        if (result != CUDA_SUCCESS) {
            tnri_host_free(event, sizeof(*event));
            return tnri_driver_error(result, TNRI_GPU_EVENT_MAKE, "ordering a stream");
        }
        event->device = device;
        atomic_fetch_add(&device->events.events_count, 1);
    }
    atomic_store_explicit(&event->holders, 1, memory_order_relaxed);
    atomic_store_explicit(&event->completed, 0, memory_order_relaxed);
    event->late = 0;
    *taken = event;
    return TNR_OK;
}

/* Waits for the whole context on behalf of `event`, which has then completed. */
static CUresult event_by_context(tnri_event *event)
{
    tnri_device *device = event->device;
    /* No mode allows it while a stream of the context is captured, and trying ends the capture. */
    if (tnri_capturing())
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    atomic_fetch_add_explicit(&device->syncs_count, 1, memory_order_relaxed);
    uint64_t number = atomic_fetch_add(&device->events.waits_begun, 1) + 1;
    CUresult result = tnri_gpu_context_await();
    if (result != CUDA_SUCCESS)
        return result;
    tnri_peak_raise(&device->events.waits_ended, number);
    atomic_store_explicit(&event->completed, 1, memory_order_release);
    return CUDA_SUCCESS;
}

/* A late event, which is not known to be over: it is if another one's wait began after it, and
 * otherwise this waits. */
static TNRI_SELDOM CUresult late_end(tnri_event *event)
{
    tnri_device *device = event->device;
    tnri_visit visit;
    if (atomic_load(&device->events.waits_ended) >= event->late) {
        atomic_store_explicit(&event->completed, 1, memory_order_release);
        return CUDA_SUCCESS;
    }
    if (tnri_capturing() || tnri_device_enter(device, &visit) != TNR_OK)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    CUresult result = event_by_context(event);
    tnri_device_leave(&visit);
    return result;
}

/* Ends the making of an event: hands it out, or drops it with an error. */
static tnr_status event_made(tnri_event *event, CUresult result, tnri_event **made)
{
    if (result == CUDA_SUCCESS) {
        *made = event;
        return TNR_OK;
    }
    tnri_event_drop(event);
    return tnri_driver_error(result, TNRI_GPU_EVENT_RECORD, "marking the end of a stream's work");
}

tnr_status tnri_event_record(tnri_device *device, tnr_stream stream, tnri_event **recorded)
{
    tnri_assert_none_held();
    tnri_event *event = NULL;
    tnr_status status = tnri_event_take(device, &event);
    if (status != TNR_OK)
        return status;
    /* An event of a stream that captures would draw each stream that waits for it into the
     * capture. */
    CUresult result = tnri_stream_is_capturing(stream)
                          ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                          : tnri_gpu_event_record(event->handle, stream);
    if (result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_CONTEXT_IS_DESTROYED)
        /* The stream was destroyed under us. What it ran is over when the context is idle. */
        result = event_by_context(event);
    return event_made(event, result, recorded);
}

tnr_status tnri_event_context(tnri_device *device, tnri_event **made)
{
    tnri_assert_none_held();
    tnri_event *event = NULL;
    tnr_status status = tnri_event_take(device, &event);
    if (status != TNR_OK)
        return status;
    return event_made(event, event_by_context(event), made);
}

tnr_status tnri_event_late(tnri_device *device, tnri_event **made)
{
    tnri_assert_none_held();
    tnr_status status = tnri_event_take(device, made);
    if (status == TNR_OK)
        (*made)->late = atomic_load(&device->events.waits_begun) + 1; /* a wait that is to begin */
    return status;
}

void tnri_event_hold(tnri_event *event)
{
    atomic_fetch_add_explicit(&event->holders, 1, memory_order_relaxed);
}

void tnri_event_drop(tnri_event *event)
{
    if (event != NULL && atomic_fetch_sub_explicit(&event->holders, 1, memory_order_acq_rel) == 1)
        tnri_depot_give(&event->device->events.spares, &event->link);
}

int tnri_event_is_over(tnri_event *event)
{
    if (atomic_load_explicit(&event->completed, memory_order_acquire))
        return 1;
    tnri_assert_none_held();
    if (tnri_unlikely(event->late != 0))
        return late_end(event) == CUDA_SUCCESS;
    if (tnri_gpu_event_query(event->handle) != CUDA_SUCCESS)
        return 0;
    atomic_store_explicit(&event->completed, 1, memory_order_release);
    return 1;
}

tnr_status tnri_event_wait(tnri_event *event)
{
    if (atomic_load_explicit(&event->completed, memory_order_acquire))
        return TNR_OK;
    tnri_assert_none_held();
    atomic_fetch_add_explicit(&event->device->syncs_count, 1, memory_order_relaxed);
    CUresult result = event->late != 0 ? late_end(event) : tnri_gpu_event_await(event->handle);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_EVENT_AWAIT,
                                 "waiting for the use of idle memory");
    atomic_store_explicit(&event->completed, 1, memory_order_release);
    return TNR_OK;
}

int tnri_event_wait_until(tnri_event *event, uint64_t until_ns)
{
    if (until_ns == 0)
        return tnri_event_wait(event) == TNR_OK;
    unsigned round = 0;
    int is_over;
    while (!(is_over = tnri_event_is_over(event)) && tnri_clock_ns() < until_ns)
        tnri_rest(round++);
    return is_over;
}

tnr_status tnri_event_order(tnri_event *event, tnr_stream stream)
{
    if (atomic_load_explicit(&event->completed, memory_order_acquire))
        return TNR_OK;
    tnri_assert_none_held();
    if (tnri_unlikely(event->late != 0))
        return tnri_event_wait(event);
    CUresult result = tnri_gpu_stream_follow(stream, event->handle);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_STREAM_FOLLOW,
                                 "ordering one stream after another");
    return TNR_OK;
}
