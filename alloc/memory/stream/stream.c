/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of streams, from their first sight to their end: see stream.h. */
#include "memory/stream/stream.h"

#include <stddef.h>
#include <string.h>

#include "base/prim/calm.h"
#include "base/heuristics.h"
#include "base/prim/alive.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "memory/stream/facts.h"

enum { HASH_SLOTS = 4096, CACHE_SLOTS = 64 };

static struct {
    tnri_lock lock;
    tnri_stream *hash[HASH_SLOTS]; /* alive, by key */
    tnri_stream *all;              /* in use: alive, or referred to; newest first */
    tnri_stream *spares;           /* through all_next */
    tnri_stream *polled;           /* with pending uses, or had some; through poll_next */
    tnri_stream *_Atomic idle;     /* without a reference, still in `all`; through idle_next; no
                                    * lock */
    tnri_stream *ended_first, *ended_last; /* whose seals are not known to be over, in the order of
                                            * their ends; through ended_next */
    tnri_stream *threads_first, *threads_last; /* per-thread default streams that live; through
                                                * thread_next */
    _Atomic size_t threads_count;              /* the lock to write */
    size_t count;                              /* of objects made, and so of indexes given */
    tnri_stream **made;                        /* those objects, by index; null: it is gone */
    size_t made_room;
    uint64_t begun;                            /* streams that were entered, ever */
} registry = {.lock = {.rank = TNRI_RANK_STREAMS}};

/* Changes when an object ends; what threads remember of an earlier value is void. */
static _Atomic uint64_t registry_generation = 1;
static _Atomic(tnri_stream_listener) registry_listener;

/* The streams that the thread used last. Owned by the thread. */
static _Thread_local struct {
    tnri_stream *stream;
    uint64_t generation; /* 0: nothing */
} stream_cache[CACHE_SLOTS];

static size_t hash_slot(const tnri_device *device, uintptr_t key)
{
    uint64_t mixed = ((uint64_t)key + (uint64_t)device->index) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed >> 40) % HASH_SLOTS;
}

void tnri_streams_listen(tnri_stream_listener listener)
{
    atomic_store(&registry_listener, listener);
}

/* ---- references ----------------------------------------------------------------------------- */

/* Adds a reference if there is one; without, there will never be one again. */
static int stream_try_hold(tnri_stream *stream)
{
    uint32_t holders = atomic_load_explicit(&stream->holders, memory_order_relaxed);
    while (holders > 0)
        if (atomic_compare_exchange_weak_explicit(&stream->holders, &holders, holders + 1,
                                                  memory_order_acquire, memory_order_relaxed))
            return 1;
    return 0;
}

/* Any lock may be held, so the object is only put where the next one who has the registry's lock
 * finds it. */
TNRI_SELDOM void tnri_stream_idle(tnri_stream *stream)
{
    tnri_stream *next = atomic_load_explicit(&registry.idle, memory_order_relaxed);
    do
        atomic_store_explicit(&stream->idle_next, next, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&registry.idle, &next, stream,
                                                  memory_order_release, memory_order_relaxed));
}

/* Where an object has its link of one of the lists. */
#define NEXT(list) offsetof(tnri_stream, list##_next)
static tnri_stream **next_of(tnri_stream *stream, size_t next)
{
    return (tnri_stream **)(void *)((char *)stream + next);
}

/* Takes an object out of a list that it is in. Under the registry's lock. */
static void list_remove(tnri_stream **link, tnri_stream *stream, size_t next)
{
    while (*link != stream)
        link = next_of(*link, next);
    *link = *next_of(stream, next);
}

/* The list of threads' streams is a queue: who has been looked at goes to its end. Under the
 * registry's lock. */
static void threads_append(tnri_stream *stream)
{
    stream->thread_next = NULL;
    if (registry.threads_last != NULL)
        registry.threads_last->thread_next = stream;
    else
        registry.threads_first = stream;
    registry.threads_last = stream;
    registry.threads_count++;
}

static void threads_remove(tnri_stream *stream)
{
    tnri_stream *before = NULL;
    tnri_stream **link = &registry.threads_first;
    for (; *link != stream; link = &before->thread_next)
        before = *link;
    *link = stream->thread_next;
    if (registry.threads_last == stream)
        registry.threads_last = before;
    registry.threads_count--;
}

/* Takes out of the list of polled streams what a walk finds at a link, if nothing of it pends and
 * no other walk stands there; 0 if it stays. Either the thread that adds a use sees that the stream
 * is not in the list, or this thread sees the use. Under the registry's lock. */
static int poll_leave(tnri_stream **link)
{
    tnri_stream *stream = *link;
    if (stream->poll_walks > 0 || atomic_load(&stream->pending_count) > 0)
        return 0;
    atomic_store(&stream->is_polled, 0);
    if (atomic_load(&stream->pending_count) > 0) {
        atomic_store(&stream->is_polled, 1);
        return 0;
    }
    *link = stream->poll_next;
    return 1;
}

/* Gives up a list of spare events. */
static void spares_drop(tnri_event *spare)
{
    while (spare != NULL) {
        tnri_event *next = (tnri_event *)(void *)spare->link.next;
        tnri_event_drop(spare);
        spare = next;
    }
}

/* Gives up what an object without a reference has. Under the registry's lock. */
static void stream_empty(tnri_stream *stream)
{
    tnri_assert(stream->pending == NULL && atomic_load(&stream->capture_mark) == NULL);
    tnri_event_drop(atomic_load(&stream->seal));
    spares_drop(atomic_load(&stream->spare));
    tnri_clock_drop(stream->clock);
    atomic_store(&stream->seal, NULL);
    atomic_store(&stream->spare, NULL);
    stream->spares_count = 0;
    stream->spare_holds = 0; /* not yet where the device ends */
    stream->clock = NULL;
}

/* Makes spares of the objects that nothing refers to any more. Under the registry's lock. */
static void registry_collect(void)
{
    tnri_assert_held(&registry.lock);
    tnri_stream *idle = atomic_load_explicit(&registry.idle, memory_order_relaxed);
    if (tnri_likely(idle == NULL))
        return;
    idle = atomic_exchange_explicit(&registry.idle, NULL, memory_order_acquire);
    while (idle != NULL) {
        tnri_stream *stream = idle;
        idle = atomic_load_explicit(&stream->idle_next, memory_order_relaxed);
        list_remove(&registry.all, stream, NEXT(all));
        if (atomic_exchange(&stream->is_polled, 0))
            list_remove(&registry.polled, stream, NEXT(poll));
        stream_empty(stream);
        stream->all_next = registry.spares;
        registry.spares = stream;
    }
}

/* ---- entering ------------------------------------------------------------------------------- */

static tnri_stream *registry_find(const tnri_device *device, uintptr_t key)
{
    tnri_stream *stream = registry.hash[hash_slot(device, key)];
    while (stream != NULL && (stream->key != key || stream->device != device))
        stream = stream->hash_next;
    return stream;
}

/* Room for one more object in the table. 0: no host memory. Under the registry's lock. */
static int made_grow(void)
{
    enum { ROOM_FIRST = 64 };
    size_t room = registry.made_room == 0 ? ROOM_FIRST : 2 * registry.made_room;
    if (registry.count < registry.made_room)
        return 1;
    tnri_stream **grown = tnri_host_alloc(room * sizeof(*grown));
    if (grown == NULL)
        return 0;
    if (registry.count > 0)
        memcpy(grown, registry.made, registry.count * sizeof(*grown));
    tnri_host_free(registry.made, registry.made_room * sizeof(*grown));
    registry.made = grown;
    registry.made_room = room;
    return 1;
}

/* A spare object, or a new one. Under the registry's lock. */
static tnri_stream *registry_take(void)
{
    registry_collect();
    tnri_stream *stream = registry.spares;
    if (stream != NULL) {
        registry.spares = stream->all_next;
        return stream;
    }
    stream = made_grow() ? tnri_host_alloc(sizeof(*stream)) : NULL;
    if (stream == NULL)
        return NULL;
    tnri_lock_init(&stream->lock, TNRI_RANK_STREAM);
    tnri_lock_init(&stream->pending_lock, TNRI_RANK_PENDING);
    stream->index = registry.count++;
    registry.made[stream->index] = stream;
    return stream;
}

/* Makes a spare object a stream's. Under the registry's lock. */
static void stream_begin(tnri_stream *stream, const tnri_facts *of, tnri_device *device,
                         tnr_stream handle, uintptr_t key)
{
    int is_per_thread = handle == TNRI_STREAM_PER_THREAD;
    stream->device = device;
    stream->handle = handle;
    stream->key = key;
    stream->number = ++registry.begun;
    stream->thread = is_per_thread ? tnri_thread_number() : 0;
    stream->thread_address = is_per_thread ? tnri_alive_self() : 0;
    stream->thread_id = is_per_thread ? tnri_alive_id() : 0;
    stream->is_legacy = key == 0;
    stream->is_default = key == 0 || is_per_thread;
    stream->marked = 0;
    atomic_store(&stream->waited, 0);
    stream->uncounted = 0;
    stream->capture_number = 0;
    atomic_store(&stream->id, of->id);
    atomic_store(&stream->is_blocking, of->is_blocking);
    atomic_store(&stream->name, 0); /* another stream had it */
    atomic_store(&stream->has_origins, 0);
    atomic_store(&stream->completed, 0);
    atomic_store(&stream->is_dead, 0);
    atomic_store(&stream->is_asked, 0);
    atomic_store(&stream->holders, 1); /* the registry's */
}

/* Enters a stream with the given facts. Another thread may have been quicker. */
static tnr_status registry_enter(const tnri_facts *of, tnri_device *device, tnr_stream handle,
                                 uintptr_t key, tnri_stream **entered)
{
    tnri_lock_take(&registry.lock);
    tnri_stream *stream = registry_find(device, key);
    if (stream == NULL && (stream = registry_take()) != NULL) {
        stream_begin(stream, of, device, handle, key);
        size_t slot = hash_slot(device, key);
        stream->hash_next = registry.hash[slot];
        registry.hash[slot] = stream;
        stream->all_next = registry.all;
        registry.all = stream;
        if (stream->thread != 0)
            threads_append(stream);
    }
    tnri_lock_release(&registry.lock);
    *entered = stream;
    if (stream == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for a stream.");
    return TNR_OK;
}

/* ---- finding -------------------------------------------------------------------------------- */

static tnri_stream *registry_known(const tnri_device *device, uintptr_t key)
{
    tnri_lock_take(&registry.lock);
    tnri_stream *stream = registry_find(device, key);
    tnri_lock_release(&registry.lock);
    return stream;
}

int tnri_stream_is_known(const tnri_device *device, tnr_stream handle)
{
    return registry_known(device->gpu, tnri_stream_key(handle)) != NULL;
}

tnri_stream *tnri_stream_look(const tnri_device *device, tnr_stream handle)
{
    tnri_lock_take(&registry.lock);
    tnri_stream *stream = registry_find(device->gpu, tnri_stream_key(handle));
    if (stream != NULL)
        tnri_stream_keep(stream); /* it lives, so there is a reference */
    tnri_lock_release(&registry.lock);
    return stream;
}

/* A default stream: the driver always has it, so it is not asked. */
static tnr_status default_find(tnri_device *device, tnr_stream handle, uintptr_t key,
                               tnri_stream **found)
{
    *found = registry_known(device, key);
    if (*found != NULL)
        return TNR_OK;
    tnri_facts of = {0, key != 0};
    tnr_status status = registry_enter(&of, device, handle, key, found);
    if (status == TNR_OK && key != 0) /* who brings a thread's stream looks after some others */
        (void)tnri_streams_reap(device, TNRI_STREAM_REAP_LOOKS);
    return status;
}

/* Finds with the driver's help: the id tells a recycled handle from the stream that had it
 * before. */
static TNRI_SELDOM tnr_status stream_find_slowly(tnri_device *device, tnr_stream handle,
                                                 uintptr_t key, tnri_stream **found)
{
    TNRI_CALM;
    if ((uintptr_t)handle <= 2)
        return default_find(device, handle, key, found);
    tnri_visit visit;
    tnri_facts of = {0, 0};
    int is_same = 0;
    tnri_stream *known = registry_known(device, key);
    tnr_status status = known == NULL ? TNR_OK : tnri_facts_check(known, handle, &is_same);
    *found = known;
    if (status != TNR_OK || is_same)
        return status;
    status = tnri_device_enter(device, &visit);
    if (status != TNR_OK)
        return status;
    status = tnri_facts_ask(&of, device, handle);
    if (status == TNR_OK && known != NULL && tnri_facts_differ(known, &of)) {
        status = tnri_stream_end(known, 1);
        known = NULL;
    }
    if (status == TNR_OK && known != NULL)
        tnri_facts_enter(known, &of);
    else if (status == TNR_OK)
        status = registry_enter(&of, device, handle, key, found);
    tnri_streams_settle(TNRI_STREAM_SETTLE_LOOKS);
    tnri_device_leave(&visit);
    return status;
}

tnr_status tnri_stream_find(tnri_device *device, tnr_stream handle, tnri_stream **found)
{
    device = device->gpu;
    uintptr_t key = tnri_stream_key(handle);
    size_t slot = (key >> 4 ^ key >> 10 ^ (uintptr_t)device->index) % CACHE_SLOTS;
    uint64_t generation = atomic_load_explicit(&registry_generation, memory_order_acquire);
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

tnr_status tnri_stream_find_captured(tnri_device *device, tnr_stream handle, tnri_stream **found)
{
    device = device->gpu;
    uintptr_t key = tnri_stream_key(handle);
    const tnri_facts none = {0, (uintptr_t)handle == 2};
    *found = registry_known(device, key);
    return *found != NULL ? TNR_OK : registry_enter(&none, device, handle, key, found);
}

void tnri_streams_completed(const tnri_clock *clock)
{
    if (clock == NULL)
        return;
    tnri_lock_take(&registry.lock);
    for (uint32_t i = 0; i < clock->count; i++) {
        const tnri_clock_entry *one = &clock->entries[i];
        tnri_stream *stream = one->index < registry.count ? registry.made[one->index] : NULL;
        if (stream != NULL)
            tnri_stream_completed(stream, one->number);
    }
    tnri_lock_release(&registry.lock);
}

/* ---- walking -------------------------------------------------------------------------------- */

/* 1 if a walk stops at an object: it lives, or something of it is not known to be over. */
static int is_in_use(tnri_stream *stream)
{
    if (!atomic_load(&stream->is_dead) || atomic_load(&stream->pending_count) > 0)
        return 1;
    const tnri_event *seal = atomic_load(&stream->seal);
    return seal != NULL && !atomic_load_explicit(&seal->completed, memory_order_acquire);
}

tnri_stream *tnri_stream_walk(const tnri_device *device, tnri_stream *stream)
{
    tnri_lock_take(&registry.lock);
    if (stream == NULL)
        registry_collect();
    tnri_stream *next = stream == NULL ? registry.all : stream->all_next;
    while (next != NULL &&
           !(next->device == device->gpu && is_in_use(next) && stream_try_hold(next)))
        next = next->all_next;
    tnri_lock_release(&registry.lock);
    if (stream != NULL)
        tnri_stream_drop(stream);
    return next;
}

/* 1 if a walk stops there, with a reference: uses of the device's stream pend. */
static int poll_try_hold(tnri_stream *stream, const tnri_device *device)
{
    return stream->device == device->gpu && atomic_load(&stream->pending_count) > 0 &&
           stream_try_hold(stream);
}

/* A stream whose last pending use a walk ends stays in the list until the next walk. One that is
 * used all the time would leave and enter it with each use, each time under the lock. */
tnri_stream *tnri_stream_walk_pending(const tnri_device *device, tnri_stream *stream)
{
    tnri_lock_take(&registry.lock);
    tnri_stream **link = stream == NULL ? &registry.polled : &stream->poll_next;
    if (stream != NULL)
        stream->poll_walks--;
    while (*link != NULL && !poll_try_hold(*link, device))
        if (!poll_leave(link))
            link = &(*link)->poll_next;
    tnri_stream *next = *link;
    if (next != NULL)
        next->poll_walks++;
    tnri_lock_release(&registry.lock);
    if (stream != NULL)
        tnri_stream_drop(stream);
    return next;
}

void tnri_stream_poll_enter(tnri_stream *stream)
{
    if (atomic_load(&stream->is_polled))
        return;
    tnri_lock_take(&registry.lock);
    if (!atomic_load(&stream->is_polled)) {
        stream->poll_next = registry.polled;
        registry.polled = stream;
        atomic_store(&stream->is_polled, 1);
    }
    tnri_lock_release(&registry.lock);
}

void tnri_streams_count(tnri_device *device)
{
    for (tnri_stream *stream = NULL; (stream = tnri_stream_walk(device, stream)) != NULL;) {
        tnri_lock_take(&stream->lock);
        unsigned calls = stream->uncounted;
        stream->uncounted = 0;
        tnri_lock_release(&stream->lock);
        tnri_driver_count(&stream->device->counters, TNR_DRIVER_EVENT, calls, 0);
    }
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Takes the object out of what lives; 0 if another thread has done that. */
static int registry_remove(tnri_stream *stream)
{
    tnri_lock_take(&registry.lock);
    tnri_stream **link = &registry.hash[hash_slot(stream->device, stream->key)];
    while (*link != NULL && *link != stream)
        link = &(*link)->hash_next;
    int found = *link != NULL;
    if (found)
        *link = stream->hash_next;
    if (found && stream->thread != 0)
        threads_remove(stream);
    tnri_lock_release(&registry.lock);
    return found;
}

/* Keeps the registry's reference to an ended stream until its work is known to be over: who waits
 * for all streams waits for it. The work of a thread that is gone is before a mark of the legacy
 * stream, which is waited for in any case. */
static void ended_keep(tnri_stream *stream)
{
    if (stream->thread != 0) {
        tnri_stream_drop(stream);
        return;
    }
    tnri_lock_take(&registry.lock);
    stream->ended_next = NULL;
    if (registry.ended_last != NULL)
        registry.ended_last->ended_next = stream;
    else
        registry.ended_first = stream;
    registry.ended_last = stream;
    tnri_lock_release(&registry.lock);
}

/* Ends an object: `event`, its mark `number`, is the end of its work. */
static void stream_seal(tnri_stream *stream, tnri_event *event, uint64_t number)
{
    if (!registry_remove(stream))
        return;
    tnri_lock_take(&stream->lock);
    tnri_event_hold(event);
    atomic_store(&stream->seal, event);
    if (stream->marked < number)
        stream->marked = number;
    tnri_event *spare = atomic_exchange(&stream->spare, NULL);
    stream->spares_count = 0;
    /* The registry's reference is still there. */
    atomic_fetch_sub_explicit(&stream->holders, stream->spare_holds, memory_order_acq_rel);
    stream->spare_holds = 0;
    tnri_lock_release(&stream->lock);
    spares_drop(spare);
    atomic_store_explicit(&stream->is_dead, 1, memory_order_release);
    if (stream->thread == 0) /* no living thread remembers the stream of one that is gone */
        atomic_fetch_add(&registry_generation, 1);
    tnri_stream_listener listener = atomic_load(&registry_listener);
    if (listener != NULL)
        listener(stream);
    ended_keep(stream);
}

/* The end of a stream's work: an event at its end, or, if the stream is gone already, so that its
 * handle may name another one, one that has completed after waiting for the whole context. What a
 * capture forbids, both of it, a late event stands for. */
static tnr_status stream_last_event(tnri_stream *stream, int is_gone, tnri_event **event,
                                    uint64_t *number)
{
    tnr_status status = is_gone ? TNR_ERR_INVALID_STREAM : tnri_stream_mark(stream, event, number);
    if (status != TNR_ERR_INVALID_STREAM && status != TNR_ERR_CAPTURE)
        return status;
    tnri_visit visit;
    status = tnri_device_enter(stream->device, &visit);
    if (status != TNR_OK)
        return status;
    *number = tnri_number_next(); /* the last of its marks may be over long before this event */
    status = tnri_event_context(stream->device, event);
    if (status == TNR_ERR_CAPTURE)
        status = tnri_event_late(stream->device, event);
    tnri_device_leave(&visit);
    return status;
}

tnr_status tnri_stream_end(tnri_stream *stream, int is_gone)
{
    tnri_event *event = NULL;
    uint64_t number = 0;
    tnri_error_aside aside;
    tnri_stream_keep(stream); /* once ended, it would be used again for another stream */
    tnri_error_take(&aside);
    tnr_status status = stream_last_event(stream, is_gone, &event, &number);
    if (status == TNR_OK) {
        tnri_error_restore(&aside); /* what was refused on the way was not the caller's */
        stream_seal(stream, event, number);
        tnri_event_drop(event);
    }
    tnri_stream_drop(stream);
    return status;
}

/* The ended stream whose end is longest ago, with a reference; null if there is none. */
static tnri_stream *ended_oldest(void)
{
    tnri_lock_take(&registry.lock);
    tnri_stream *stream = registry.ended_first;
    if (stream != NULL)
        tnri_stream_keep(stream);
    tnri_lock_release(&registry.lock);
    return stream;
}

/* Its work is over: the registry lets go of it, unless another thread has had it do so. */
static void ended_forget(tnri_stream *stream)
{
    tnri_lock_take(&registry.lock);
    int is_first = registry.ended_first == stream;
    if (is_first) {
        registry.ended_first = stream->ended_next;
        if (registry.ended_first == NULL)
            registry.ended_last = NULL;
    }
    tnri_lock_release(&registry.lock);
    if (is_first)
        tnri_stream_drop(stream);
}

void tnri_streams_settle(size_t looks)
{
    if (tnri_capturing())
        return;
    tnri_stream *stream;
    for (; looks > 0 && (stream = ended_oldest()) != NULL; looks--) {
        int is_over = tnri_event_is_over(atomic_load(&stream->seal));
        if (is_over) {
            tnri_stream_completed(stream, stream->marked); /* constant since the end */
            ended_forget(stream);
        } else {
            looks = 1; /* younger ones are seldom over before */
        }
        tnri_stream_drop(stream);
    }
}

/* ---- threads that are gone ------------------------------------------------------------------ */

/* The next thread's stream in turn, with a reference; null if none of it is the device's. */
static tnri_stream *threads_next(const tnri_device *device)
{
    tnri_lock_take(&registry.lock);
    tnri_stream *stream = registry.threads_first;
    if (stream != NULL) {
        threads_remove(stream);
        threads_append(stream);
        if (stream->device == device->gpu)
            tnri_stream_keep(stream);
        else
            stream = NULL;
    }
    tnri_lock_release(&registry.lock);
    return stream;
}

/* Seals streams of threads that are gone with one mark of the legacy stream. Returns how many. */
static size_t threads_seal(tnri_device *device, tnri_stream *const *gone, size_t count)
{
    tnri_visit visit;
    tnri_stream *legacy;
    tnri_event *event = NULL;
    uint64_t number;
    tnr_status status = tnri_device_enter(device, &visit);
    if (status != TNR_OK)
        return 0;
    status = tnri_stream_find(device, NULL, &legacy);
    if (status == TNR_OK)
        status = tnri_stream_mark(legacy, &event, &number);
    for (size_t i = 0; i < count && status == TNR_OK; i++)
        stream_seal(gone[i], event, number);
    if (status == TNR_OK)
        tnri_event_drop(event);
    tnri_streams_settle(TNRI_STREAM_SETTLE_LOOKS);
    tnri_device_leave(&visit);
    return status == TNR_OK ? count : 0;
}

size_t tnri_streams_reap(tnri_device *device, size_t looks)
{
    tnri_stream *gone[TNRI_STREAM_REAP_AT_ONCE];
    size_t count = 0;
    size_t ended = 0;
    tnri_error_aside aside;
    size_t most = atomic_load_explicit(&registry.threads_count, memory_order_relaxed);
    if (most == 0 || tnri_capturing())
        return 0;
    tnri_error_take(&aside); /* what fails here is tried again another time */
    for (looks = looks < most ? looks : most; looks > 0; looks--) {
        tnri_stream *stream = threads_next(device);
        if (stream == NULL)
            continue;
        if (tnri_alive_is_gone(stream->thread_address, stream->thread_id))
            gone[count++] = stream;
        else
            tnri_stream_drop(stream);
        if (count < TNRI_STREAM_REAP_AT_ONCE && looks > 1)
            continue;
        ended += count == 0 ? 0 : threads_seal(device, gone, count);
        while (count > 0)
            tnri_stream_drop(gone[--count]);
    }
    while (count > 0)
        tnri_stream_drop(gone[--count]);
    tnri_error_restore(&aside);
    return ended;
}

/* ---- a device's end ------------------------------------------------------------------------- */

/* Takes a device's objects out of a list. Under the registry's lock. */
static void list_forget(tnri_stream **first, size_t next, const tnri_device *device)
{
    for (tnri_stream **link = first; *link != NULL;)
        if ((*link)->device == device)
            *link = *next_of(*link, next);
        else
            link = next_of(*link, next);
}

/* The last of a list; null if it is empty. */
static tnri_stream *list_last(tnri_stream *first, size_t next)
{
    while (first != NULL && *next_of(first, next) != NULL)
        first = *next_of(first, next);
    return first;
}

static void stream_unmake(tnri_stream *stream)
{
    registry.made[stream->index] = NULL;
    tnri_host_free(stream, sizeof(*stream));
}

void tnri_streams_forget(const tnri_device *device)
{
    tnri_lock_take(&registry.lock);
    registry_collect();
    for (size_t slot = 0; slot < HASH_SLOTS; slot++)
        list_forget(&registry.hash[slot], NEXT(hash), device);
    list_forget(&registry.polled, NEXT(poll), device);
    list_forget(&registry.ended_first, NEXT(ended), device);
    registry.ended_last = list_last(registry.ended_first, NEXT(ended));
    list_forget(&registry.threads_first, NEXT(thread), device);
    registry.threads_last = list_last(registry.threads_first, NEXT(thread));
    registry.threads_count = 0;
    for (const tnri_stream *at = registry.threads_first; at != NULL; at = at->thread_next)
        registry.threads_count++;
    tnri_stream *stream;
    for (tnri_stream **link = &registry.all; (stream = *link) != NULL;) {
        if (stream->device != device) {
            link = &stream->all_next;
            continue;
        }
        *link = stream->all_next;
        stream_empty(stream);
        stream_unmake(stream);
    }
    while ((stream = registry.spares) != NULL) {
        registry.spares = stream->all_next;
        stream_unmake(stream);
    }
    if (registry.all == NULL) {
        registry.count = 0; /* numbers are never given twice, so indexes may be */
        tnri_host_free(registry.made, registry.made_room * sizeof(*registry.made));
        registry.made = NULL;
        registry.made_room = 0;
    }
    atomic_fetch_add(&registry_generation, 1);
    tnri_lock_release(&registry.lock);
}
