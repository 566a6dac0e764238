/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of streams, and their marks: see stream.h. */
#include "stream.h"

#include <tenure/lifetime.h>

#include "announce.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "pool/library.h"
#include "pool/pool.h"
#include "pool/thread.h"
#include "retire.h"

enum { HASH_SLOTS = 1024, CACHE_SLOTS = 16 };

static struct {
    tnri_lock lock;
    tnri_stream *hash[HASH_SLOTS]; /* alive, by key */
    tnri_stream *all;              /* every object ever made, until its device is put out of use */
    size_t count;                  /* of indexes given */
} registry = {.lock = {.rank = TNRI_RANK_STREAMS}};

static _Atomic uint64_t number_last;

/* The streams that the thread used last. Owned by the thread; valid for one generation. */
static _Thread_local struct {
    tnri_stream *stream;
    uint64_t generation;
} stream_cache[CACHE_SLOTS];

uint64_t tnri_number_now(void)
{
    return atomic_load_explicit(&number_last, memory_order_acquire);
}

uint64_t tnri_number_next(void)
{
    return atomic_fetch_add_explicit(&number_last, 1, memory_order_acq_rel) + 1;
}

static size_t hash_slot(const tnri_device *device, uintptr_t key)
{
    uint64_t mixed = ((uint64_t)key + (uint64_t)device->index) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed >> 40) % HASH_SLOTS;
}

/* ---- references ----------------------------------------------------------------------------- */

void tnri_stream_hold(tnri_stream *stream)
{
    atomic_fetch_add_explicit(&stream->holders, 1, memory_order_relaxed);
}

void tnri_stream_drop(tnri_stream *stream)
{
    atomic_fetch_sub_explicit(&stream->holders, 1, memory_order_release);
}

/* ---- finding -------------------------------------------------------------------------------- */

static tnri_stream *registry_find(const tnri_device *device, uintptr_t key)
{
    tnri_stream *stream = registry.hash[hash_slot(device, key)];
    while (stream != NULL && (stream->key != key || stream->device != device))
        stream = stream->hash_next;
    return stream;
}

tnri_stream *tnri_stream_known(tnri_device *device, uintptr_t key)
{
    tnri_lock_take(&registry.lock);
    tnri_stream *stream = registry_find(device, key);
    tnri_lock_release(&registry.lock);
    return stream;
}

static tnr_status stream_error(CUresult result, const char *call, tnr_stream handle)
{
    if (result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
        result == CUDA_ERROR_INVALID_CONTEXT)
        return tnri_error_driver(TNR_ERR_INVALID_STREAM, (int)result,
                                 "%p is not a stream: %s says %s. It may have been destroyed.",
                                 (void *)handle, call, tnri_driver_result_name(result));
    return tnri_driver_error(result, call, "looking at a stream");
}

/* What the driver says of a stream. In the device's context. */
static tnr_status stream_ask(tnri_stream *facts, tnri_device *device, tnr_stream handle)
{
    unsigned flags = 0;
    CUcontext context = device->context;
    /* To ask a stream that captures for its id ends the capture. */
    if (tnri_stream_is_capturing(handle))
        return tnri_error(TNR_ERR_CAPTURE,
                          "stream %p is being captured, and Tenure did not know it before. "
                          "Announce it with tnr_stream_created before the capture begins.",
                          (void *)handle);
    CUresult result = tnri_drive(cuStreamGetId, (handle, &facts->id));
    if (result != CUDA_SUCCESS)
        return stream_error(result, "cuStreamGetId", handle);
    facts->is_legacy = (uintptr_t)handle <= 1;
    facts->thread = handle == TNRI_STREAM_PER_THREAD ? tnri_thread_number() : 0;
    if ((uintptr_t)handle > 2) {
        result = tnri_drive(cuStreamGetFlags, (handle, &flags));
        if (result == CUDA_SUCCESS)
            result = tnri_drive(cuStreamGetCtx, (handle, &context));
        if (result != CUDA_SUCCESS)
            return stream_error(result, "cuStreamGetFlags", handle);
    }
    facts->is_blocking = !facts->is_legacy && (flags & CU_STREAM_NON_BLOCKING) == 0;
    if (context != device->context)
        return tnri_error(TNR_ERR_INVALID_STREAM,
                          "stream %p does not belong to the primary context of device %d. Give the "
                          "device that it was created on.",
                          (void *)handle, device->index);
    return TNR_OK;
}

/* A dead object that nothing refers to, or a new one. Under the registry's lock. */
static tnri_stream *registry_take(void)
{
    tnri_stream *stream = registry.all;
    while (stream != NULL && !(atomic_load(&stream->is_dead) &&
                               atomic_load_explicit(&stream->holders, memory_order_acquire) == 0))
        stream = stream->all_next;
    if (stream != NULL) {
        if (stream->device != NULL) {
            tnri_event_drop(stream->device, stream->seal);
            tnri_event_drop(stream->device, atomic_exchange(&stream->spare, NULL));
        }
        stream->seal = NULL;
        return stream;
    }
    stream = tnri_host_alloc(sizeof(*stream));
    if (stream == NULL)
        return NULL;
    tnri_lock_init(&stream->lock, TNRI_RANK_STREAM);
    stream->index = registry.count++;
    stream->all_next = registry.all;
    registry.all = stream;
    return stream;
}

/* Enters a stream with the given facts. Another thread may have been quicker. */
static tnr_status registry_enter(const tnri_stream *facts, tnri_device *device, tnr_stream handle,
                                 uintptr_t key, tnri_stream **entered)
{
    tnri_lock_take(&registry.lock);
    tnri_stream *stream = registry_find(device, key);
    if (stream == NULL && (stream = registry_take()) != NULL) {
        stream->device = device;
        stream->handle = handle;
        stream->key = key;
        stream->id = facts->id;
        stream->thread = facts->thread;
        stream->is_legacy = facts->is_legacy;
        stream->is_blocking = facts->is_blocking;
        stream->marked = 0;
        stream->waited = 0;
        stream->uncounted = 0;
        tnri_clock_drop(stream->clock);
        stream->clock = NULL;
        atomic_store(&stream->completed, 0);
        atomic_store(&stream->is_dead, 0);
        size_t slot = hash_slot(device, key);
        stream->hash_next = registry.hash[slot];
        registry.hash[slot] = stream;
    }
    tnri_lock_release(&registry.lock);
    *entered = stream;
    if (stream == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for a stream.");
    return TNR_OK;
}

/* Finds with the driver's help: the id tells a recycled handle from the stream that had it
 * before. */
static tnr_status stream_find_slowly(tnri_device *device, tnr_stream handle, uintptr_t key,
                                     tnri_stream **found)
{
    tnri_visit visit;
    tnr_status status = tnri_device_enter(device, &visit);
    if (status != TNR_OK)
        return status;
    tnri_retire_register(); /* what objects hold is given back through its hooks */
    tnri_stream facts = {0};
    tnri_stream *known = tnri_capturing() ? tnri_stream_known(device, key) : NULL;
    if (known != NULL && tnri_stream_is_capturing(handle)) {
        *found = known; /* it cannot be asked whether it is still the same */
        tnri_device_leave(&visit);
        return TNR_OK;
    }
    status = stream_ask(&facts, device, handle);
    known = status == TNR_OK ? tnri_stream_known(device, key) : NULL;
    if (known != NULL && known->id != facts.id) {
        status = tnri_stream_end(known, 1);
        known = NULL;
    }
    *found = known;
    if (status == TNR_OK && known == NULL)
        status = registry_enter(&facts, device, handle, key, found);
    tnri_device_leave(&visit);
    return status;
}

tnr_status tnri_stream_find(tnri_device *device, tnr_stream handle, tnri_stream **found)
{
    uintptr_t key = tnri_stream_key(handle);
    size_t slot = (key >> 4 ^ key >> 10 ^ (uintptr_t)device->index) % CACHE_SLOTS;
    uint64_t generation = atomic_load_explicit(&tnri_generation, memory_order_acquire);
    tnri_stream *cached = stream_cache[slot].stream;
    if (tnri_likely(cached != NULL && stream_cache[slot].generation == generation &&
                    cached->key == key && cached->device == device)) {
        *found = cached;
        return TNR_OK;
    }
    tnr_status status = stream_find_slowly(device, handle, key, found);
    if (status == TNR_OK) {
        stream_cache[slot].stream = *found;
        stream_cache[slot].generation = generation;
    }
    return status;
}

/* ---- marks ---------------------------------------------------------------------------------- */

/* The event that tnri_stream_recycle kept, as good as new; null if there is none. Under the lock,
 * so nobody else takes it, and nobody puts another one there while it is not null. */
static tnri_event *stream_take_spare(tnri_stream *stream)
{
    tnri_event *event = atomic_load_explicit(&stream->spare, memory_order_acquire);
    if (event != NULL) {
        atomic_store_explicit(&stream->spare, NULL, memory_order_release);
        atomic_store_explicit(&event->completed, 0, memory_order_relaxed);
    }
    return event;
}

void tnri_stream_recycle(tnri_stream *stream, tnri_event *event)
{
    tnri_event *none = NULL;
    if (event == NULL)
        return;
    if (atomic_load_explicit(&event->holders, memory_order_acquire) == 1 &&
        !atomic_load_explicit(&stream->is_dead, memory_order_relaxed) &&
        atomic_compare_exchange_strong_explicit(&stream->spare, &none, event, memory_order_release,
                                                memory_order_relaxed))
        return;
    tnri_event_drop(stream->device, event);
}

/* The stream to record a mark on. Only its own thread can name a per-thread default stream. But
 * such a stream is a blocking one, so the legacy stream is ordered after all that it has been
 * given. */
static tnr_stream stream_record_handle(const tnri_stream *stream)
{
    if (tnri_unlikely(stream->thread != 0 && stream->thread != tnri_thread_number()))
        return TNRI_STREAM_LEGACY;
    return stream->handle;
}

/* Counts a call, and times one in TNRI_SAMPLE, which stands for all of them. Under the lock. */
static CUresult stream_drive_record(tnri_stream *stream, tnri_event *event)
{
    tnr_stream handle = stream_record_handle(stream);
    if (tnri_likely(++stream->uncounted < TNRI_SAMPLE))
        return tnri_drive_uncounted(cuEventRecord, (event->handle, handle));
    stream->uncounted = 0;
    uint64_t began_ns = tnri_clock_ns();
    CUresult result = tnri_drive_uncounted(cuEventRecord, (event->handle, handle));
    tnri_driver_count(&stream->device->counters, TNR_DRIVER_EVENT, TNRI_SAMPLE,
                      (tnri_clock_ns() - began_ns) * TNRI_SAMPLE);
    return result;
}

/* Records and numbers; the one driver call that is made under a lock. Uses *event, or if that is
 * null the stream's spare one; if there is none either, records nothing and leaves *event null. */
static CUresult stream_record(tnri_stream *stream, tnri_event **event, uint64_t *number)
{
    CUresult result = CUDA_SUCCESS;
    tnri_lock_take(&stream->lock);
    if (tnri_unlikely(stream->seal != NULL)) {
        /* Destroyed since the caller looked: its handle must not be named any more. */
        tnri_event *unused = *event;
        *event = stream->seal;
        *number = stream->marked;
        tnri_event_hold(*event);
        tnri_lock_release(&stream->lock);
        tnri_event_drop(stream->device, unused);
        return CUDA_SUCCESS;
    }
    if (*event == NULL)
        *event = stream_take_spare(stream);
    if (*event != NULL)
        result = stream_drive_record(stream, *event);
    if (*event != NULL && result == CUDA_SUCCESS) {
        *number = tnri_number_next();
        stream->marked = *number;
    }
    tnri_lock_release(&stream->lock);
    return result;
}

void tnri_streams_count(tnri_device *device)
{
    for (tnri_stream *stream = NULL; (stream = tnri_stream_walk(device, stream)) != NULL;) {
        tnri_lock_take(&stream->lock);
        unsigned calls = stream->uncounted;
        stream->uncounted = 0;
        tnri_lock_release(&stream->lock);
        tnri_driver_count(&device->counters, TNR_DRIVER_EVENT, calls, 0);
    }
}

/* The mark of a dead stream. 0 if it is not dead. */
static int stream_seal_of(tnri_stream *stream, tnri_event **event, uint64_t *number)
{
    if (tnri_likely(!atomic_load_explicit(&stream->is_dead, memory_order_acquire)))
        return 0;
    tnri_lock_take(&stream->lock);
    *event = stream->seal;
    *number = stream->marked;
    if (*event != NULL)
        tnri_event_hold(*event);
    tnri_lock_release(&stream->lock);
    return *event != NULL;
}

/* Ends the making of a mark. */
static tnr_status mark_made(tnri_stream *stream, tnri_event **event, CUresult result)
{
    if (tnri_likely(result == CUDA_SUCCESS))
        return TNR_OK;
    tnri_event_drop(stream->device, *event);
    *event = NULL;
    return stream_error(result, "cuEventRecord", stream->handle);
}

/* The mark of a default stream, or one that needs a new event: in the device's context. */
static tnr_status stream_mark_slowly(tnri_stream *stream, tnri_event **event, uint64_t *number)
{
    tnri_visit visit;
    tnr_status status = tnri_device_enter(stream->device, &visit);
    if (status != TNR_OK)
        return status;
    status = tnri_event_take(stream->device, event);
    if (status == TNR_OK)
        status = mark_made(stream, event, stream_record(stream, event, number));
    tnri_device_leave(&visit);
    return status;
}

tnr_status tnri_stream_mark(tnri_stream *stream, tnri_event **event, uint64_t *number)
{
    *event = NULL;
    if (tnri_unlikely(stream_seal_of(stream, event, number)))
        return TNR_OK;
    if (tnri_unlikely(tnri_stream_is_capturing(stream_record_handle(stream))))
        return tnri_error(TNR_ERR_CAPTURE,
                          "stream %p is being captured, so the end of its work cannot be marked.",
                          (void *)stream->handle);
    /* Only default streams, and making an event, need the context; switching to it is dear. */
    if (tnri_unlikely(stream->key <= 2 || stream->thread != 0))
        return stream_mark_slowly(stream, event, number);
    if (atomic_load_explicit(&stream->spare, memory_order_relaxed) == NULL)
        *event = tnri_event_take_spare(stream->device);
    CUresult result = stream_record(stream, event, number);
    if (tnri_unlikely(*event == NULL))
        return stream_mark_slowly(stream, event, number);
    return mark_made(stream, event, result);
}

void tnri_stream_completed(tnri_stream *stream, uint64_t number)
{
    tnri_peak_raise(&stream->completed, number);
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Takes the object out of the registry's table; 0 if another thread has done that. */
static int registry_remove(tnri_stream *stream)
{
    tnri_lock_take(&registry.lock);
    tnri_stream **link = &registry.hash[hash_slot(stream->device, stream->key)];
    while (*link != NULL && *link != stream)
        link = &(*link)->hash_next;
    int found = *link != NULL;
    if (found)
        *link = stream->hash_next;
    tnri_lock_release(&registry.lock);
    return found;
}

/* The end of a stream's work: an event at its end, or, if the stream is gone already, so that its
 * handle may name another one, one that has completed after waiting for the whole context. */
static tnr_status stream_last_event(tnri_stream *stream, int is_gone, tnri_event **event,
                                    uint64_t *number)
{
    tnr_status status = is_gone ? TNR_ERR_INVALID_STREAM : tnri_stream_mark(stream, event, number);
    if (status == TNR_OK) {
        /* The work of this stream may go on, and tnr_free_sync must wait for it, though nobody will
         * be able to mark it: so the stream of its fences waits for it now. */
        tnri_stream *proxy;
        status = tnri_proxy_stream(stream->device, &proxy);
        if (status == TNR_OK)
            status = tnri_event_order(*event, proxy->handle);
        if (status != TNR_OK)
            tnri_event_drop(stream->device, *event);
        return status;
    }
    if (status != TNR_ERR_INVALID_STREAM)
        return status;
    tnri_visit visit;
    status = tnri_device_enter(stream->device, &visit);
    if (status != TNR_OK)
        return status;
    *number = tnri_number_now();
    status = tnri_event_context(stream->device, event);
    tnri_device_leave(&visit);
    return status;
}

tnr_status tnri_stream_end(tnri_stream *stream, int is_gone)
{
    tnri_device *device = stream->device;
    tnri_event *event = NULL;
    uint64_t number = 0;
    tnri_stream_hold(stream); /* once dead, it would be used again for another stream */
    tnr_status status = stream_last_event(stream, is_gone, &event, &number);
    if (status == TNR_OK && registry_remove(stream)) {
        tnri_lock_take(&stream->lock);
        stream->seal = event;
        tnri_event_hold(event);
        if (stream->marked < number)
            stream->marked = number;
        tnri_lock_release(&stream->lock);
        atomic_store_explicit(&stream->is_dead, 1, memory_order_release);
        for (tnr_pool pool = NULL; (pool = tnri_pool_walk(device, pool)) != NULL;)
            tnri_pool_seal(pool, stream->key, event);
        tnri_generation_advance();
    }
    tnri_stream_drop(stream);
    if (status == TNR_OK)
        tnri_event_drop(device, event);
    return status;
}

/* ---- order ---------------------------------------------------------------------------------- */

int tnri_stream_is_after(tnri_stream *stream, const tnri_stream *other, uint64_t number)
{
    if (stream == other || tnri_stream_is_over(other, number))
        return 1;
    /* Work of the legacy stream waits for all earlier work of blocking streams, and the reverse. */
    if (stream->device == other->device &&
        ((stream->is_legacy && other->is_blocking) || (stream->is_blocking && other->is_legacy)))
        return 1;
    tnri_lock_take(&stream->lock);
    int after = tnri_clock_of(stream->clock, other->index) >= number;
    tnri_lock_release(&stream->lock);
    return after;
}

void tnri_stream_waits(tnri_stream *stream, const tnri_clock *other_clock, size_t other_index,
                       uint64_t number)
{
    tnri_lock_take(&stream->lock);
    stream->clock = tnri_clock_join(stream->clock, other_clock, other_index, number);
    stream->waited = tnri_number_next();
    tnri_lock_release(&stream->lock);
}

tnri_clock *tnri_stream_clock_at(tnri_stream *stream, uint64_t moment)
{
    tnri_lock_take(&stream->lock);
    tnri_clock *clock = stream->waited <= moment ? tnri_clock_hold(stream->clock) : NULL;
    tnri_lock_release(&stream->lock);
    return clock;
}

/* ---- walking and forgetting ----------------------------------------------------------------- */

tnri_stream *tnri_stream_walk(const tnri_device *device, tnri_stream *stream)
{
    tnri_lock_take(&registry.lock);
    tnri_stream *next = stream == NULL ? registry.all : stream->all_next;
    while (next != NULL && (next->device != device || (atomic_load(&next->is_dead) &&
                                                       atomic_load(&next->pending_count) == 0)))
        next = next->all_next;
    if (next != NULL)
        tnri_stream_hold(next);
    tnri_lock_release(&registry.lock);
    if (stream != NULL)
        tnri_stream_drop(stream);
    return next;
}

void tnri_streams_forget(const tnri_device *device)
{
    tnri_lock_take(&registry.lock);
    for (size_t slot = 0; slot < HASH_SLOTS; slot++)
        for (tnri_stream **link = &registry.hash[slot]; *link != NULL;) {
            if ((*link)->device == device)
                *link = (*link)->hash_next;
            else
                link = &(*link)->hash_next;
        }
    for (tnri_stream **link = &registry.all; *link != NULL;) {
        tnri_stream *stream = *link;
        if (stream->device != device) {
            link = &stream->all_next;
            continue;
        }
        *link = stream->all_next;
        tnri_event_drop(stream->device, stream->seal);
        tnri_event_drop(stream->device, atomic_exchange(&stream->spare, NULL));
        tnri_clock_drop(stream->clock);
        tnri_host_free(stream, sizeof(*stream));
    }
    if (registry.all == NULL)
        registry.count = 0; /* numbers are never given twice, so indexes may be */
    tnri_lock_release(&registry.lock);
}
