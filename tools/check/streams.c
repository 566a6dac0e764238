/* SPDX-License-Identifier: Apache-2.0 */
/* What is ordered after what: see streams.h. */
#include "check/streams.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check/findings.h"
#include "check/pinned.h"
#include "check/race.h"
#include "check/sole.h"
#include "handles.h"
#include "service.h"

/* A way that is taken seldom, and need not cost the others anything. */
#define SELDOM __attribute__((noinline, cold))

/* What comes before a point of a stream. Most streams know of no other: then the clock is empty. */
struct check_moment {
    size_t index;
    uint64_t number;
    uint64_t by;       /* as `known_by` of the stream, */
    check_point only;  /* and `known_only`, */
    check_clock clock; /* and what it knows */
    size_t sharers;
};

/* The index of what the host knows among the devices: it is of none. */
enum { LEGACY_MAX = SERVICE_DEVICES_MAX };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* All under the lock. */
static check_stream **streams; /* by index; never freed */
static size_t streams_count, streams_room;
static size_t dead_count; /* of those whose index is not used again yet */
static uint64_t names;
static check_clock host;
static check_clock maybe; /* what the host may know by memory that it has polled */
static uint64_t host_changes = 1;
static check_clock host_when; /* the number of the change by which it last learned of an index */
static size_t legacy[LEGACY_MAX]; /* index + 1 of each device's legacy stream */
static check_stream *changed[CHECK_CHANGED_FOR][LEGACY_MAX]; /* for whom: first of a list */
static handles by_handle = HANDLES_INIT;                     /* -> index + 1 */
static handles events = HANDLES_INIT;                        /* -> moment */

static _Atomic int has_captures; /* since the first one, for ever */

/* ---- coming in ------------------------------------------------------------------------------ */

int check_enter(void)
{
    if (!service_enter())
        return 0;
    pthread_mutex_lock(&lock);
    return 1;
}

void check_leave(void)
{
    if (check_races_are_there()) {
        check_races_find();
        check_pinned_settle();
    }
    pthread_mutex_unlock(&lock);
    service_leave();
    check_findings_say();
}

/* A child has none of the threads that may have held it. */
static void lock_renew(void)
{
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    lock = fresh;
}

__attribute__((constructor)) static void lock_watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, lock_renew);
}

/* ---- clocks --------------------------------------------------------------------------------- */

/* Who comes after a work comes after all that it came after. So a clock has all that a stream knew
 * if it has the first work which the stream was given after that, or the only one that it knows
 * of. */
static int work_is_new(const check_clock *to, const check_moment *work)
{
    return check_clock_at(to, work->index) < work->by &&
           (work->only.number == 0 || check_clock_at(to, work->only.index) < work->only.number);
}

/* Takes over into a clock what comes before a work of a stream, and that work. A stream's clock
 * says nothing of the stream itself: most know of no other, and then theirs are empty. */
static int work_join(check_clock *to, const check_moment *work, int is_new)
{
    int has_grown = work->clock.is_open > to->is_open;
    to->is_open |= work->clock.is_open;
    if (is_new)
        has_grown |= check_clock_join(to, &work->clock);
    return check_clock_raise(to, work->index, work->number) | has_grown;
}

/* The stream's latest work, while the lock is held. Its clock is the stream's own. The work that
 * would come after all of that may be another stream's, if the index gets another: so it counts
 * only once it is there. */
static check_moment work_of(const check_stream *stream)
{
    return (check_moment){.index = stream->index,
                          .number = stream->done,
                          .by = stream->known_by > stream->done ? UINT64_MAX : stream->known_by,
                          .only = stream->known_only,
                          .clock = stream->known};
}

/* ---- streams -------------------------------------------------------------------------------- */

/* Each thread's own place in a table of handles for its default stream is an address, which no
 * handle is: one for each device. 1: the thread has been here, so that what a thread which ended
 * has left at the address is another stream. */
static _Thread_local char own[LEGACY_MAX];

const void *check_stream_key(CUstream stream, int device)
{
    static char of_all[LEGACY_MAX];
    if (stream == CU_STREAM_PER_THREAD)
        return &own[device];
    return stream == NULL || stream == CU_STREAM_LEGACY ? (const void *)&of_all[device]
                                                        : (const void *)stream;
}

static SELDOM int is_capturing(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return REAL(cuStreamIsCapturing, (stream, &status)) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* A stream is gone: its work goes on, so the index is used again only when that is known to be
 * over. */
static void stream_end(const void *key)
{
    uint64_t found;
    if (!check_enter())
        return;
    if (handles_take(&by_handle, key, &found)) {
        streams[found - 1]->is_dead = 1;
        dead_count++;
    }
    check_leave();
}

static SELDOM void own_begin(int device)
{
    own[device] = 1;
    stream_end(&own[device]);
}

static inline check_name name_make(CUstream stream, const void *key, int device)
{
    check_name name = {stream, key, device, 0};
    if (atomic_load_explicit(&has_captures, memory_order_relaxed) != 0)
        name.is_capturing = is_capturing(stream);
    return name;
}

check_name check_name_on(int device, CUstream stream)
{
    if (device < 0 || device >= LEGACY_MAX)
        device = 0;
    if (stream == CU_STREAM_PER_THREAD && !own[device])
        own_begin(device);
    return name_make(stream, check_stream_key(stream, device), device);
}

void check_name_ask(check_name *name)
{
    if (name->is_capturing || !check_does(CHECK_REPORTS) || !is_capturing(name->stream))
        return;
    check_capture_begins();
    name->is_capturing = 1;
}

static _Atomic int devices_count; /* 0: not known yet */

static SELDOM int device_now(void)
{
    CUdevice device = 0;
    int count = atomic_load_explicit(&devices_count, memory_order_relaxed);
    if (count == 0 && REAL(cuDeviceGetCount, (&count)) == CUDA_SUCCESS)
        atomic_store_explicit(&devices_count, count, memory_order_relaxed);
    return REAL(cuCtxGetDevice, (&device)) == CUDA_SUCCESS ? device : 0;
}

/* Default streams are those of the current context's device; where there is but one the driver need
 * not be asked each time. Any other stream is one device's. That one is asked for when the checker
 * first sees the stream. */
check_name check_name_of(CUstream stream)
{
    if ((uintptr_t)stream > (uintptr_t)CU_STREAM_PER_THREAD)
        return name_make(stream, stream, CHECK_DEVICE_LATER);
    int is_one = atomic_load_explicit(&devices_count, memory_order_relaxed) == 1;
    return check_name_on(is_one ? 0 : device_now(), stream);
}

void check_capture_begins(void)
{
    check_sole_ends();
    atomic_store(&has_captures, 1);
}

/* What has changed since the host, or the legacy stream, last took all of a device over is in a
 * list, so that each change is looked at once. */
static void changed_add(check_stream *stream, int for_whom)
{
    check_changed *self = &stream->changed[for_whom];
    check_stream **first = &changed[for_whom][stream->device];
    if (self->link != NULL)
        return;
    self->next = *first;
    self->link = first;
    if (*first != NULL)
        (*first)->changed[for_whom].link = &self->next;
    *first = stream;
}

static void changed_remove(check_stream *stream, int for_whom)
{
    check_changed *self = &stream->changed[for_whom];
    if (self->link == NULL)
        return;
    *self->link = self->next;
    if (self->next != NULL)
        self->next->changed[for_whom].link = self->link;
    self->link = NULL;
}

static void stream_changed(check_stream *stream)
{
    stream->changes++;
    changed_add(stream, CHECK_CHANGED_FOR_HOST);
    if (stream->is_blocking)
        changed_add(stream, CHECK_CHANGED_FOR_LEGACY);
}

/* 1 if the work comes after all that the stream knows. */
static int is_after_all(const check_moment *work, const check_stream *stream)
{
    const check_point *only = &stream->known_only;
    return stream->known_by == 0 ||
           check_clock_at(&work->clock, stream->index) >= stream->known_by ||
           (only->number > 0 && only->index == work->index && only->number <= work->number);
}

/* What comes next on the stream comes after this work. If the work came after all that the stream
 * knows, it is the only one that the stream knows of, and shares its clock. That does not go for
 * one that its stream was given before what it knows now. */
static void stream_follow(check_stream *stream, const check_moment *work)
{
    const check_point none = {0, 0}, only = {work->index, work->number};
    int is_own = work->only.number > 0 && work->only.index == stream->index;
    int is_new = work->by > 0 && !is_own && work_is_new(&stream->known, work);
    int is_taken = is_after_all(work, stream), has_grown = is_taken && is_new;
    if (has_grown)
        check_clock_take(&stream->known, &work->clock);
    if (is_own) /* the host may be told less of the stream than it knows by others */
        has_grown |= check_clock_raise(&stream->known, stream->index, work->only.number);
    has_grown |= work_join(&stream->known, work, is_new);
    if (!has_grown)
        return;
    stream->known_only = is_taken && work->number >= work->by ? only : none;
    stream->known_by = stream->done + 1;
    stream_changed(stream);
}

/* An index whose stream is gone, and its work over as the host knows; else a new one. Where many
 * are gone some are looked at each time, in turn. Null: no memory. */
static check_stream *stream_room(void)
{
    enum { LOOKED_AT = 64 };
    static size_t turn;
    for (size_t i = 0; i < streams_count && i < LOOKED_AT && dead_count > 0; i++) {
        size_t at = turn++ % streams_count;
        if (!streams[at]->is_dead || streams[at]->done > check_clock_at(&host, at))
            continue;
        changed_remove(streams[at], CHECK_CHANGED_FOR_HOST);
        changed_remove(streams[at], CHECK_CHANGED_FOR_LEGACY);
        dead_count--;
        return streams[at];
    }
    if (streams_count == streams_room) {
        size_t room = streams_room * 2 + 16;
        check_stream **grown = realloc(streams, room * sizeof(*grown));
        if (grown == NULL)
            return check_order_lost();
        streams = grown;
        streams_room = room;
    }
    check_stream *fresh = calloc(1, sizeof(*fresh));
    if (fresh == NULL)
        return check_order_lost();
    fresh->index = streams_count;
    streams[streams_count++] = fresh;
    return fresh;
}

/* One that has no name yet, and waits for nothing. Null: no memory. */
static check_stream *stream_fresh(void)
{
    check_stream *stream = stream_room();
    if (stream == NULL)
        return NULL;
    stream->is_legacy = stream->is_blocking = stream->is_dead = 0;
    stream->host_seen = stream->others_seen = stream->known_by = 0;
    stream->known_only = (check_point){0, 0};
    check_clock_clear(&stream->known);
    return stream;
}

static check_stream *stream_make(const void *key, int device, int is_legacy, int is_blocking)
{
    check_stream *stream = stream_fresh();
    if (stream == NULL)
        return NULL;
    stream->handle = key;
    stream->name = ++names;
    stream->label = NULL;
    stream->device = device;
    stream->is_legacy = is_legacy != 0;
    stream->is_blocking = is_blocking != 0;
    if (is_legacy)
        legacy[device] = stream->index + 1;
    return handles_set(&by_handle, key, stream->index + 1) ? stream : check_order_lost();
}

/* Takes over what the legacy stream and the others wait for each other. What the host knows is in
 * no stream's clock: whoever asks for an order asks for that of work that is enqueued now, and now
 * the host knows all that it knew before. */
static void stream_settle(check_stream *stream)
{
    stream->host_seen = host_changes;
    if (stream->is_legacy) {
        check_stream *other;
        while ((other = changed[CHECK_CHANGED_FOR_LEGACY][stream->device]) != NULL) {
            check_moment work = work_of(other);
            changed_remove(other, CHECK_CHANGED_FOR_LEGACY);
            stream_follow(stream, &work);
        }
    } else if (stream->is_blocking && legacy[stream->device] != 0) {
        const check_stream *first = streams[legacy[stream->device] - 1];
        if (stream->others_seen != first->changes) {
            check_moment work = work_of(first);
            stream_follow(stream, &work);
        }
        stream->others_seen = first->changes;
    }
}

/* What was found lately is found again for as long as nothing in the table changes. */
typedef struct found_lately {
    const void *key;
    uint64_t changes;
    check_stream *stream;
} found_lately;

static SELDOM check_stream *stream_look(const check_name *name, found_lately *to)
{
    uint64_t found, changes = handles_changes(&by_handle);
    if (!handles_get(&by_handle, name->key, &found)) {
        /* One that nobody saw being made is taken for a blocking one, which orders more. */
        int is_legacy = name->stream == NULL || name->stream == CU_STREAM_LEGACY;
        int device = name->device == CHECK_DEVICE_LATER ? device_now() : name->device;
        return stream_make(name->key, device, is_legacy, !is_legacy);
    }
    *to = (found_lately){name->key, changes, streams[found - 1]};
    return to->stream;
}

check_stream *check_stream_find(const check_name *name)
{
    static found_lately lately[16];
    size_t slot = (uint64_t)(uintptr_t)name->key * UINT64_C(0x9e3779b97f4a7c15) >> 60;
    const found_lately *one = &lately[slot];
    check_stream *stream = one->key == name->key && one->changes == handles_changes(&by_handle)
                               ? one->stream
                               : stream_look(name, &lately[slot]);
    if (stream != NULL && check_does(CHECK_REPORTS))
        stream_settle(stream);
    return stream;
}

check_stream *check_stream_keyed(const void *key)
{
    uint64_t found;
    return handles_get(&by_handle, key, &found) ? streams[found - 1] : NULL;
}

check_stream *check_stream_at(size_t index)
{
    return streams[index];
}

const char *check_stream_label(size_t index, uint64_t name)
{
    return index < streams_count && streams[index]->name == name ? streams[index]->label : NULL;
}

static void stream_label_set(const check_name *name, const char *text)
{
    if (!check_enter())
        return;
    check_stream *stream = check_stream_find(name);
    if (stream != NULL)
        stream->label = text == NULL || *text == '\0' ? NULL : check_text_keep(text);
    check_leave();
}

void check_stream_named(CUstream handle, const char *text)
{
    check_name name = check_name_of(handle);
    stream_label_set(&name, text);
}

void check_stream_named_on(int device, CUstream handle, const char *text)
{
    check_name name = check_name_on(device, handle);
    stream_label_set(&name, text);
}

check_stream *check_stream_stamped(check_stamp stamp)
{
    if (stamp.index >= streams_count || streams[stamp.index]->name != stamp.name)
        return NULL;
    stream_settle(streams[stamp.index]);
    return streams[stamp.index];
}

void check_clock_cover(check_clock *to, const check_stream *stream)
{
    check_moment work = work_of(stream);
    (void)work_join(to, &work, work_is_new(to, &work));
}

void check_clock_cover_moment(check_clock *to, const check_moment *moment)
{
    if (moment != NULL)
        (void)work_join(to, moment, work_is_new(to, moment));
}

uint64_t check_stream_work(check_stream *stream)
{
    stream_changed(stream);
    return ++stream->done;
}

int check_is_after(const check_stream *stream, size_t index, uint64_t number)
{
    return index == stream->index ? stream->done >= number
                                  : check_clock_at(&stream->known, index) >= number ||
                                        check_clock_at(&host, index) >= number;
}

int check_was_after(const check_stream *stream, size_t index, uint64_t number)
{
    return check_clock_at(&stream->known, index) >= number ||
           (check_clock_at(&host, index) >= number &&
            check_clock_at(&host_when, index) < stream->host_seen);
}

int check_host_is_after(size_t index, uint64_t number)
{
    return check_clock_at(&host, index) >= number;
}

uint64_t check_host_changes(void)
{
    return host_changes;
}

void check_stream_made(CUstream handle, unsigned flags)
{
    check_name name = check_name_of(NULL);
    if (!check_enter())
        return;
    (void)handles_take(&by_handle, handle, NULL);
    (void)stream_make(handle, name.device, 0, (flags & CU_STREAM_NON_BLOCKING) == 0);
    check_leave();
}

void check_stream_ends(CUstream handle)
{
    check_sole_stream_ends(handle);
    if ((uintptr_t)handle > 2)
        stream_end(handle);
}

/* ---- parts of launches ---------------------------------------------------------------------- */

check_stream *check_stream_part_make(void)
{
    return stream_fresh();
}

void check_stream_part_end(check_stream *part)
{
    part->is_dead = 1;
    dead_count++;
}

void check_stream_part_begin(check_stream *part, const check_stream *of)
{
    changed_remove(part, CHECK_CHANGED_FOR_HOST); /* of the device that it was on */
    part->handle = of->handle;
    part->name = of->name;
    part->label = of->label;
    part->device = of->device;
    check_stream_follow_stream(part, of);
}

void check_stream_part_work(check_stream *part, const check_stream *of)
{
    if (part->done < of->done)
        part->done = of->done;
    (void)check_stream_work(part);
}

/* ---- moments -------------------------------------------------------------------------------- */

check_moment *check_moment_of(const check_stream *stream)
{
    check_moment *moment = malloc(sizeof(*moment));
    if (moment == NULL)
        return check_order_lost();
    *moment = work_of(stream);
    moment->sharers = 1;
    moment->clock.root = NULL;
    check_clock_take(&moment->clock, &stream->known);
    return moment;
}

check_moment *check_moment_share(check_moment *moment)
{
    if (moment != NULL)
        moment->sharers++;
    return moment;
}

void check_moment_drop(check_moment *moment)
{
    if (moment == NULL || --moment->sharers > 0)
        return;
    check_clock_clear(&moment->clock);
    free(moment);
}

void check_moment_cover(check_moment *moment, const check_stream *stream)
{
    check_moment work = work_of(stream);
    if (moment == NULL)
        return;
    (void)work_join(&moment->clock, &work, work_is_new(&moment->clock, &work));
    moment->by = UINT64_MAX; /* no work of its own stream comes after all of that */
    moment->only = (check_point){0, 0};
}

void check_stream_follow(check_stream *stream, const check_moment *moment)
{
    if (moment != NULL)
        stream_follow(stream, moment);
}

void check_stream_follow_stream(check_stream *stream, const check_stream *other)
{
    check_moment work = work_of(other);
    stream_follow(stream, &work);
}

/* What is in no list the host knows, and so the stream's next work comes after it. */
void check_stream_follow_all(check_stream *stream)
{
    for (int device = 0; device < LEGACY_MAX; device++)
        for (const check_stream *other = changed[CHECK_CHANGED_FOR_HOST][device]; other != NULL;
             other = other->changed[CHECK_CHANGED_FOR_HOST].next) {
            check_moment work = work_of(other);
            if (other != stream)
                stream_follow(stream, &work);
        }
}

/* What was waited for unseen is over: all work that is there by now may be. */
static void host_close(void)
{
    for (size_t i = 0; i < streams_count; i++)
        (void)check_clock_raise(&maybe, i, streams[i]->done);
}

/* Once for each index, which is what is learned. */
static void host_learned(size_t index)
{
    (void)check_clock_raise(&host_when, index, host_changes++);
}

static void host_follow(const check_moment *work)
{
    if (work->clock.is_open)
        host_close();
    if (work_is_new(&host, work)) {
        check_clock_beyond(&work->clock, &host, host_learned);
        (void)check_clock_join(&host, &work->clock);
    }
    if (check_clock_raise(&host, work->index, work->number))
        host_learned(work->index);
}

void check_host_follow(const check_moment *moment)
{
    if (moment != NULL)
        host_follow(moment);
}

/* What the stream waits for since that moment counts as well: that only orders more. */
void check_host_saw(const check_stream *stream, uint64_t number)
{
    check_moment work = work_of(stream);
    if (work.number > number)
        work.number = number;
    host_follow(&work);
    if (stream->done <= number)
        streams[stream->index]->known.is_open = 0;
}

void check_host_saw_device(int device)
{
    int first = device < 0 ? 0 : device, end = device < 0 ? LEGACY_MAX : device + 1;
    for (int i = first; i < end; i++) {
        check_stream *stream;
        while ((stream = changed[CHECK_CHANGED_FOR_HOST][i]) != NULL) {
            changed_remove(stream, CHECK_CHANGED_FOR_HOST);
            check_host_saw(stream, stream->done);
        }
    }
}

/* ---- what is not seen ----------------------------------------------------------------------- */

const char check_means_values[] =
    "the program orders work by values in memory, or semaphores, that streams wait for";
const char check_means_polls[] =
    "the host may know it: it can read memory that the stream has written since";

const char *check_doubt(const check_stream *stream, size_t index, uint64_t number)
{
    if (stream != NULL && stream->known.is_open)
        return check_means_values;
    if (check_order_is_lost)
        return check_means_lost;
    return check_clock_at(&maybe, index) >= number ? check_means_polls : NULL;
}

void check_host_may_poll(const check_stream *stream, int of_itself)
{
    check_moment work = work_of(stream);
    work.number -= !of_itself;
    if (stream->known.is_open)
        host_close();
    (void)work_join(&maybe, &work, work_is_new(&maybe, &work));
    maybe.is_open = 0;
}

void check_stream_open(check_stream *stream)
{
    if (stream->known.is_open)
        return;
    stream->known.is_open = 1;
    stream_changed(stream);
}

/* ---- events --------------------------------------------------------------------------------- */

void check_event_set(CUevent event, check_moment *moment)
{
    uint64_t before = 0;
    (void)handles_take(&events, event, &before);
    check_moment_drop((check_moment *)(uintptr_t)before);
    if (moment != NULL && !handles_set(&events, event, (uint64_t)(uintptr_t)moment)) {
        (void)check_order_lost();
        check_moment_drop(moment);
    }
}

/* 1 if the moment is the event's alone, and now that of the stream: most events are recorded again
 * and again. */
static int moment_renew(check_moment *moment, const check_stream *stream)
{
    if (moment == NULL || moment->sharers > 1)
        return 0;
    check_clock clock = moment->clock;
    check_clock_take(&clock, &stream->known);
    *moment = work_of(stream);
    moment->sharers = 1;
    moment->clock = clock;
    moment->clock.is_open = stream->known.is_open;
    return 1;
}

/* An event of a capture marks no time: whoever waits for it joins the capture. */
void check_event_recorded(CUevent event, CUstream handle)
{
    check_name name = check_name_of(handle);
    if (!check_enter())
        return;
    check_stream *stream = name.is_capturing ? NULL : check_stream_find(&name);
    if (stream == NULL)
        check_event_set(event, NULL);
    else if (!moment_renew(check_event_get(event), stream))
        check_event_set(event, check_moment_of(stream));
    check_leave();
}

check_moment *check_event_get(CUevent event)
{
    uint64_t moment = 0;
    (void)handles_get(&events, event, &moment);
    return (check_moment *)(uintptr_t)moment;
}

void check_event_waited(CUstream handle, CUevent event)
{
    check_name name = check_name_of(handle);
    if (name.is_capturing || !check_enter())
        return;
    check_stream *stream = check_stream_find(&name);
    if (stream != NULL)
        check_stream_follow(stream, check_event_get(event));
    check_leave();
}

void check_event_ends(CUevent event)
{
    if (!check_enter())
        return;
    check_event_set(event, NULL);
    check_leave();
}

/* ---- the host learns ------------------------------------------------------------------------ */

uint64_t check_stream_moment(CUstream handle)
{
    uint64_t done = 0;
    check_name name = check_name_of(handle);
    if (name.is_capturing || !check_enter())
        return 0;
    check_stream *stream = check_stream_find(&name);
    if (stream != NULL)
        done = stream->done;
    check_leave();
    return done;
}

void check_stream_seen(CUstream handle, uint64_t moment)
{
    check_name name = check_name_of(handle);
    if (name.is_capturing || !check_enter())
        return;
    check_stream *stream = check_stream_find(&name);
    if (stream != NULL)
        check_host_saw(stream, moment);
    check_leave();
}

void *check_event_moment(CUevent event)
{
    check_moment *moment = NULL;
    if (check_enter()) {
        moment = check_moment_share(check_event_get(event));
        check_leave();
    }
    return moment;
}

void check_event_seen(void *moment, int is_over)
{
    if (moment == NULL || !check_enter())
        return;
    if (is_over)
        check_host_follow(moment);
    check_moment_drop(moment);
    check_leave();
}

void check_device_seen(void)
{
    check_name name = check_name_of(NULL);
    if (!check_enter())
        return;
    check_host_saw_device(name.device);
    check_leave();
}
