/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events. These replacements call the driver, and then announce to Tenure what it has
 * done. From that Tenure learns what is ordered after what. Announcements never fail a call of the
 * program.
 *
 * Streams are known from their creation. Streams of contexts that are not served are strangers:
 * their work is announced nowhere, and a free of memory that they may use waits for them on the
 * host.
 *
 * Most events are recorded on streams that Tenure need not know about: the runtime's and the
 * libraries' own streams, which have no memory. Such a record, or a wait for it, takes a few loads,
 * and nothing is announced.
 */
#include "order.h"

#include <pthread.h>
#include <stdlib.h>

#include "check/check.h"
#include "handles.h"
#include "watch/account.h"

static handles streams = HANDLES_INIT; /* of served devices: stream -> device + 1 */
static _Atomic int is_given_up;

/* What the thread knows of the streams that it used last. It is looked at without a lock, so it
 * says as of when. Owned by the thread, changed inside (service_enter); a handler that interrupts
 * the thread there reads `stream` and `is_silent`, which are set last. */
enum { KNOWN_MAX = 16 };
typedef struct known_stream {
    CUstream stream;          /* null: nothing */
    uint64_t handles_changes; /* of `streams`; it knows nothing if there were more since */
    service_device *device;   /* null: of none that is served */
    int is_silent;            /* 1: nothing need be told of it, as of: */
    uint64_t asked_changes;
    int is_asked; /* 1: it need be, and will need for ever */
} known_stream;

static _Thread_local known_stream known_streams[KNOWN_MAX];
/* The default streams, which are the device's of the current context: of the last two devices. */
static _Thread_local known_stream known_defaults[2][2];

/* In place of a moment: nothing need be announced. */
static const tnr_moment NOT_ANNOUNCED = UINT64_MAX;

static int is_default(CUstream stream)
{
    return (uintptr_t)stream <= 2;
}

/* The streams that a program has at once lie some 16 bytes to some KiB apart. */
static inline known_stream *known_slot(CUstream stream)
{
    uintptr_t value = (uintptr_t)stream;
    return &known_streams[(value >> 4 ^ value >> 9 ^ value >> 14) % KNOWN_MAX];
}

static inline int known_is(const known_stream *known, CUstream stream)
{
    return known->stream == stream && known->handles_changes == handles_changes(&streams);
}

static inline int known_is_silent(const known_stream *known)
{
    return known->is_silent && known->asked_changes == tnr_asked_changes();
}

static known_stream *default_slot(CUstream stream, const service_device *device)
{
    return &known_defaults[device->index % 2][stream == CU_STREAM_PER_THREAD];
}

static int default_is_silent(CUstream stream)
{
    const service_device *device = service_here_started();
    const known_stream *known = device == NULL ? NULL : default_slot(stream, device);
    return known != NULL && known->device == device && known_is_silent(known);
}

/* 1 if nothing need be told of what the stream does, as far as the thread knows. */
static inline int stream_is_silent(CUstream stream)
{
    if (is_default(stream))
        return default_is_silent(stream);
    const known_stream *known = known_slot(stream);
    return known_is(known, stream) && known_is_silent(known);
}

static void known_fill(known_stream *known, CUstream stream, service_device *device,
                       uint64_t changes)
{
    known->stream = NULL;
    known->is_silent = 0;
    atomic_signal_fence(memory_order_seq_cst);
    known->handles_changes = changes;
    known->device = device;
    known->is_asked = 0;
    atomic_signal_fence(memory_order_seq_cst);
    known->stream = stream;
}

/* What is known of a stream that is no default stream. The number is read first: what changes after
 * that is looked up the next time. Inside. */
static known_stream *stream_known(CUstream stream)
{
    known_stream *known = known_slot(stream);
    if (known_is(known, stream))
        return known;
    uint64_t changes = handles_changes(&streams);
    uint64_t value;
    int has_device = handles_get(&streams, stream, &value);
    known_fill(known, stream, has_device ? service_device_at((int)value - 1) : NULL, changes);
    return known;
}

/* The same of one that is; null if no device is served here. */
static known_stream *default_known(CUstream stream)
{
    service_device *device = service_here_started();
    if (device == NULL)
        return NULL;
    known_stream *known = default_slot(stream, device);
    if (known->device != device)
        known_fill(known, stream, device, 0);
    return known;
}

static int is_on(const service_device *device)
{
    return atomic_load_explicit(&device->is_on, memory_order_acquire);
}

service_device *order_device(CUstream stream)
{
    if (is_default(stream))
        return service_here();
    service_device *device = stream_known(stream)->device;
    return device == NULL || is_on(device) ? device : service_here();
}

service_device *order_device_started(CUstream stream)
{
    if (is_default(stream))
        return service_here_started();
    service_device *device = stream_known(stream)->device;
    return device != NULL && is_on(device) ? device : NULL;
}

/* The same if Tenure may want to know what the stream does; else null. Inside. */
static service_device *order_device_told(CUstream stream)
{
    uint64_t changes = tnr_asked_changes(); /* first, as above */
    known_stream *known = is_default(stream) ? default_known(stream) : stream_known(stream);
    if (known == NULL || known->device == NULL || !is_on(known->device))
        return NULL;
    if (!known->is_asked) {
        known->is_silent = 0;
        atomic_signal_fence(memory_order_seq_cst);
        known->asked_changes = changes;
        known->is_asked = tnr_stream_is_asked(known->device->index, stream);
        atomic_signal_fence(memory_order_seq_cst);
        known->is_silent = !known->is_asked;
    }
    return known->is_asked ? known->device : NULL;
}

void order_give_up(void)
{
    atomic_store(&is_given_up, 1);
}

/* ---- strangers ------------------------------------------------------------------------------ */

typedef struct stranger {
    CUstream stream;
    const void *context; /* with which it ends; of a part of a device, the green context */
} stranger;

/* Streams that Tenure does not know. The mutex is held while they are waited for, so that none is
 * destroyed meanwhile. */
static struct {
    pthread_mutex_t mutex;
    stranger *list; /* under the mutex */
    size_t count, room;
    _Atomic int is_any;
} strangers = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void stranger_add(CUstream stream, const void *context)
{
    pthread_mutex_lock(&strangers.mutex);
    if (strangers.count == strangers.room) {
        size_t room = strangers.room * 2 + 8;
        stranger *grown = realloc(strangers.list, room * sizeof(*grown));
        if (grown != NULL) {
            strangers.list = grown;
            strangers.room = room;
        }
    }
    if (strangers.count < strangers.room)
        strangers.list[strangers.count++] = (stranger){stream, context};
    atomic_store(&strangers.is_any, 1);
    pthread_mutex_unlock(&strangers.mutex);
}

/* A stream that captures may not be waited for: to try ends the capture. */
static void stranger_wait(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    (void)REAL(cuStreamIsCapturing, (stream, &status));
    if (status == CU_STREAM_CAPTURE_STATUS_NONE)
        (void)REAL(cuStreamSynchronize, (stream));
}

/* Forgets a stream, or all of a context. Their work may go on, and cannot be waited for any more:
 * so it is now. What a stranger did before it joined a capture, in which it then ends, is the one
 * thing that nothing can wait for. */
static void strangers_remove(CUstream stream, const void *context)
{
    if (!atomic_load(&strangers.is_any))
        return;
    pthread_mutex_lock(&strangers.mutex);
    for (size_t i = strangers.count; i-- > 0;) {
        stranger *one = &strangers.list[i];
        if (one->stream != stream && (context == NULL || one->context != context))
            continue;
        stranger_wait(one->stream);
        *one = strangers.list[--strangers.count];
    }
    atomic_store(&strangers.is_any, strangers.count > 0);
    pthread_mutex_unlock(&strangers.mutex);
}

void order_context_ends(const void *context)
{
    if (context == NULL || !service_enter())
        return;
    strangers_remove(NULL, context);
    service_leave();
}

void order_wait_for_strangers(void)
{
    if (!atomic_load_explicit(&strangers.is_any, memory_order_relaxed))
        return;
    CUstreamCaptureMode before = service_relaxed();
    pthread_mutex_lock(&strangers.mutex);
    for (size_t i = 0; i < strangers.count; i++)
        stranger_wait(strangers.list[i].stream);
    pthread_mutex_unlock(&strangers.mutex);
    service_relaxed_end(before);
}

/* ---- streams -------------------------------------------------------------------------------- */

static void stream_made(CUstream stream)
{
    if (service_only_watches() || !service_enter())
        return;
    service_device *device = service_here();
    if (device != NULL && tnr_stream_created(device->index, stream) == TNR_OK) {
        handles_set(&streams, stream, (uint64_t)device->index + 1);
        service_count_one(COUNT_STREAMS);
    } else {
        CUcontext context = NULL;
        (void)REAL(cuCtxGetCurrent, (&context));
        stranger_add(stream, context);
    }
    service_leave();
}

CUresult CUDAAPI replace_cuStreamCreate(CUstream *stream, unsigned flags)
{
    CUresult result;
    ACCOUNTED(ACCOUNT_STREAMS, result = REAL(cuStreamCreate, (stream, flags)));
    if (result != CUDA_SUCCESS)
        return result;
    stream_made(*stream);
    CHECK_TELL(check_stream_made(*stream, flags));
    return result;
}

CUresult CUDAAPI replace_cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    CUresult result;
    ACCOUNTED(ACCOUNT_STREAMS,
              result = REAL(cuStreamCreateWithPriority, (stream, flags, priority)));
    if (result != CUDA_SUCCESS)
        return result;
    stream_made(*stream);
    CHECK_TELL(check_stream_made(*stream, flags));
    return result;
}

CUresult CUDAAPI replace_cuGreenCtxStreamCreate(CUstream *stream, void *context, unsigned flags,
                                                int priority)
{
    CUresult result;
    ACCOUNTED(ACCOUNT_STREAMS,
              result = REAL(cuGreenCtxStreamCreate, (stream, context, flags, priority)));
    if (result == CUDA_SUCCESS && service_enter()) {
        stranger_add(*stream, context); /* of a part of the device: a context of its own */
        service_leave();
        CHECK_TELL(check_stream_made(*stream, flags));
    }
    return result;
}

static void stream_ends(CUstream stream)
{
    if (is_default(stream) || !service_enter())
        return;
    service_device *device = order_device_started(stream);
    /* A capture that began here ends with the stream: Tenure had better end it first. If that is
     * another thread's business, the next look tells. */
    tnr_status ended = device == NULL ? TNR_OK : tnr_capture_abort(device->index, stream);
    (void)ended;
    /* If that fails, the stream's memory waits for the end of its work all the same. */
    tnr_status told = device == NULL ? TNR_OK : tnr_stream_destroying(device->index, stream);
    (void)told;
    if (!handles_take(&streams, stream, NULL))
        strangers_remove(stream, NULL);
    service_leave();
}

CUresult CUDAAPI replace_cuStreamDestroy_v2(CUstream stream)
{
    CHECK_TELL(check_stream_ends(stream));
    stream_ends(stream);
    CUresult result;
    ACCOUNTED(ACCOUNT_STREAMS, result = REAL(cuStreamDestroy_v2, (stream)));
    return result;
}

CUresult CUDAAPI replace_cuStreamDestroy(CUstream stream)
{
    CHECK_TELL(check_stream_ends(stream));
    stream_ends(stream);
    CUresult result;
    ACCOUNTED(ACCOUNT_STREAMS, result = REAL(cuStreamDestroy, (stream)));
    return result;
}

void order_stream_named(CUstream stream, const char *name)
{
    if (service_only_watches() || !service_enter())
        return;
    service_device *device = order_device_started(stream);
    /* What fails leaves the stream without a name, which no call of the program's depends on. */
    tnr_status told = device == NULL ? TNR_OK : tnr_stream_name_set(device->index, stream, name);
    (void)told;
    service_leave();
}

void order_forget(int device)
{
    handles_clear(&streams, (uint64_t)device + 1);
}

/* ---- the host learns ------------------------------------------------------------------------ */

/* The host has seen all work of a stream end, by a call that began at a moment. */
static void stream_seen(CUstream stream, tnr_moment began)
{
    if (stream_is_silent(stream) || !service_enter())
        return;
    service_device *device = order_device_told(stream);
    if (device != NULL && tnr_stream_synchronized(device->index, stream, began) == TNR_OK)
        service_count_one(COUNT_SYNCHRONISED);
    service_leave();
}

CUresult CUDAAPI replace_cuStreamSynchronize(CUstream stream)
{
    uint64_t moment = check_does(CHECK_REPORTS) ? check_stream_moment(stream) : 0;
    uint64_t wait = check_wait_begins();
    tnr_moment began = tnr_moment_now();
    CUresult result = REAL(cuStreamSynchronize, (stream));
    check_wait_ends(stream, wait);
    if (result != CUDA_SUCCESS)
        return result;
    stream_seen(stream, began);
    CHECK_TELL_ORDER(check_stream_seen(stream, moment));
    return result;
}

CUresult CUDAAPI replace_cuStreamSynchronize_ptsz(CUstream stream)
{
    return replace_cuStreamSynchronize(stream_of_thread(stream));
}

CUresult CUDAAPI replace_cuStreamQuery(CUstream stream)
{
    uint64_t moment = check_does(CHECK_REPORTS) ? check_stream_moment(stream) : 0;
    tnr_moment began = tnr_moment_now();
    CUresult result = REAL(cuStreamQuery, (stream));
    if (result != CUDA_SUCCESS)
        return result;
    stream_seen(stream, began);
    CHECK_TELL_ORDER(check_stream_seen(stream, moment));
    return result;
}

CUresult CUDAAPI replace_cuStreamQuery_ptsz(CUstream stream)
{
    return replace_cuStreamQuery(stream_of_thread(stream));
}

/* The moment before a call that names an event. */
static tnr_moment event_moment(CUevent event)
{
    return tnr_event_is_announced(event) ? tnr_moment_now() : NOT_ANNOUNCED;
}

static void event_seen(CUevent event, tnr_moment began)
{
    if (began == NOT_ANNOUNCED || service_only_watches() || !service_enter())
        return;
    tnr_event_synchronized(event, began);
    service_count_one(COUNT_SYNCHRONISED);
    service_leave();
}

CUresult CUDAAPI replace_cuEventSynchronize(CUevent event)
{
    void *moment = check_does(CHECK_REPORTS) ? check_event_moment(event) : NULL;
    uint64_t wait = check_wait_begins();
    tnr_moment began = event_moment(event);
    CUresult result = REAL(cuEventSynchronize, (event));
    check_wait_ends(NULL, wait);
    CHECK_TELL_ORDER(check_event_seen(moment, result == CUDA_SUCCESS));
    if (result == CUDA_SUCCESS)
        event_seen(event, began);
    return result;
}

CUresult CUDAAPI replace_cuEventQuery(CUevent event)
{
    void *moment = check_does(CHECK_REPORTS) ? check_event_moment(event) : NULL;
    tnr_moment began = event_moment(event);
    CUresult result = REAL(cuEventQuery, (event));
    CHECK_TELL_ORDER(check_event_seen(moment, result == CUDA_SUCCESS));
    if (result == CUDA_SUCCESS)
        event_seen(event, began);
    return result;
}

CUresult CUDAAPI replace_cuCtxSynchronize(void)
{
    uint64_t wait = check_wait_begins();
    tnr_moment began = tnr_moment_now();
    CUresult result = REAL(cuCtxSynchronize, ());
    check_wait_ends(NULL, wait);
    if (result == CUDA_SUCCESS)
        CHECK_TELL_ORDER(check_device_seen());
    if (result != CUDA_SUCCESS || !service_enter())
        return result;
    service_device *device = service_here_started();
    if (device != NULL && tnr_device_synchronized(device->index, began) == TNR_OK)
        service_count_one(COUNT_SYNCHRONISED);
    service_leave();
    return result;
}

/* ---- the device is ordered ------------------------------------------------------------------ */

/* Events that nodes of graphs record, or kernels by an attribute of their launch. Who waits for one
 * after a launch waits for that, and no launch says so: what was announced of a record would be
 * false by then. So none is announced. */
static handles of_graphs = HANDLES_INIT;

/* Where this library only watches, an engine's own announcements are left alone. */
static __attribute__((cold, noinline)) void announced_forget(CUevent event)
{
    if (service_only_watches() || !service_enter())
        return;
    tnr_event_destroyed(event);
    service_leave();
}

static inline void event_forget(CUevent event)
{
    if (tnr_event_is_announced(event))
        announced_forget(event);
}

/* Before a record: what was announced of the event does not hold for much longer. */
static inline tnr_moment record_begins(CUevent event, CUstream stream)
{
    event_forget(event);
    return stream_is_silent(stream) ? NOT_ANNOUNCED : tnr_moment_now();
}

static int is_of_graph(CUevent event)
{
    return handles_changes(&of_graphs) != 0 && handles_get(&of_graphs, event, NULL);
}

/* It is looked at afterwards whether the event is a graph's: it may become one meanwhile. */
static void record_announce(CUevent event, CUstream stream, tnr_moment before)
{
    if (atomic_load_explicit(&is_given_up, memory_order_relaxed) || !service_enter())
        return;
    service_device *device = order_device_told(stream);
    if (device != NULL && tnr_event_recorded(event, device->index, stream, before) == TNR_OK)
        service_count_one(COUNT_RECORDS);
    if (is_of_graph(event))
        tnr_event_destroyed(event);
    service_leave();
}

/* What another thread has announced of the event meanwhile may not be the driver's last record. */
static inline void record_made(CUevent event, CUstream stream, tnr_moment before)
{
    if (before == NOT_ANNOUNCED)
        event_forget(event);
    else
        record_announce(event, stream, before);
}

CUresult CUDAAPI replace_cuEventRecord(CUevent event, CUstream stream)
{
    tnr_moment before = record_begins(event, stream);
    CUresult result = REAL(cuEventRecord, (event, stream));
    if (result == CUDA_SUCCESS)
        record_made(event, stream, before);
    if (result == CUDA_SUCCESS)
        CHECK_TELL_ORDER(check_event_recorded(event, stream));
    return result;
}

CUresult CUDAAPI replace_cuEventRecord_ptsz(CUevent event, CUstream stream)
{
    return replace_cuEventRecord(event, stream_of_thread(stream));
}

/* A node of a graph records the event from now on, or a kernel does. */
static void event_given(CUevent event)
{
    if (!service_enter())
        return;
    if (!handles_set(&of_graphs, event, 1))
        order_give_up();
    service_leave();
    event_forget(event);
}

/* In a capture the launch becomes a node, and records the event with each launch of the graph. */
void order_launch_begins(const CUlaunchConfig *config)
{
    for (unsigned i = 0; i < config->numAttrs && config->attrs != NULL; i++) {
        const CUlaunchAttribute *one = &config->attrs[i];
        CUevent event = NULL;
        if (one->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
            event = one->value.programmaticEvent.event;
        else if (one->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            event = one->value.launchCompletionEvent.event;
        if (event != NULL && !is_of_graph(event))
            event_given(event);
    }
}

CUresult CUDAAPI replace_cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
    tnr_moment before = record_begins(event, stream);
    CUresult result = REAL(cuEventRecordWithFlags, (event, stream, flags));
    if (result == CUDA_SUCCESS)
        record_made(event, stream, before);
    if (result == CUDA_SUCCESS && (flags & CU_EVENT_RECORD_EXTERNAL) != 0)
        event_given(event); /* to a node */
    else if (result == CUDA_SUCCESS)
        CHECK_TELL_ORDER(check_event_recorded(event, stream));
    return result;
}

CUresult CUDAAPI replace_cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned flags)
{
    return replace_cuEventRecordWithFlags(event, stream_of_thread(stream), flags);
}

static void wait_made(CUstream stream, CUevent event, tnr_moment before)
{
    if (atomic_load_explicit(&is_given_up, memory_order_relaxed) || !service_enter())
        return;
    service_device *device = order_device_started(stream);
    if (device != NULL && tnr_stream_waited(event, device->index, stream, before) == TNR_OK)
        service_count_one(COUNT_WAITS);
    service_leave();
}

CUresult CUDAAPI replace_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    tnr_moment before = event_moment(event);
    CUresult result = REAL(cuStreamWaitEvent, (stream, event, flags));
    if (result != CUDA_SUCCESS)
        return result;
    CHECK_TELL_ORDER(check_event_waited(stream, event));
    if (before != NOT_ANNOUNCED)
        wait_made(stream, event, before);
    return result;
}

CUresult CUDAAPI replace_cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned flags)
{
    return replace_cuStreamWaitEvent(stream_of_thread(stream), event, flags);
}

static void event_ends(CUevent event)
{
    CHECK_TELL_ORDER(check_event_ends(event));
    event_forget(event);
    if (handles_changes(&of_graphs) == 0 || !service_enter())
        return;
    (void)handles_take(&of_graphs, event, NULL);
    service_leave();
}

CUresult CUDAAPI replace_cuEventDestroy_v2(CUevent event)
{
    event_ends(event);
    return REAL(cuEventDestroy_v2, (event));
}

CUresult CUDAAPI replace_cuEventDestroy(CUevent event)
{
    event_ends(event);
    return REAL(cuEventDestroy, (event));
}

/* ---- nodes that record events --------------------------------------------------------------- */

static void node_set(CUresult result, const CUgraphNodeParams *params)
{
    if (result == CUDA_SUCCESS && params->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
        event_given(params->eventRecord.event);
}

CUresult CUDAAPI replace_cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph,
                                                   const CUgraphNode *after, size_t count,
                                                   CUevent event)
{
    CUresult result = REAL(cuGraphAddEventRecordNode, (node, graph, after, count, event));
    if (result == CUDA_SUCCESS)
        event_given(event);
    return result;
}

CUresult CUDAAPI replace_cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event)
{
    CUresult result = REAL(cuGraphEventRecordNodeSetEvent, (node, event));
    if (result == CUDA_SUCCESS)
        event_given(event);
    return result;
}

CUresult CUDAAPI replace_cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node,
                                                            CUevent event)
{
    CUresult result = REAL(cuGraphExecEventRecordNodeSetEvent, (exec, node, event));
    if (result != CUDA_SUCCESS)
        return result;
    event_given(event);
    CHECK_TELL(check_exec_event(exec, node, event, 0));
    return result;
}

CUresult CUDAAPI replace_cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                        size_t count, CUgraphNodeParams *params)
{
    CUresult result = REAL(cuGraphAddNode, (node, graph, after, count, params));
    node_set(result, params);
    return result;
}

CUresult CUDAAPI replace_cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph,
                                           const CUgraphNode *after, const CUgraphEdgeData *edges,
                                           size_t count, CUgraphNodeParams *params)
{
    CUresult result = REAL(cuGraphAddNode_v2, (node, graph, after, edges, count, params));
    node_set(result, params);
    return result;
}

CUresult CUDAAPI replace_cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params)
{
    CUresult result = REAL(cuGraphNodeSetParams, (node, params));
    node_set(result, params);
    return result;
}

CUresult CUDAAPI replace_cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                  CUgraphNodeParams *params)
{
    CUresult result = REAL(cuGraphExecNodeSetParams, (exec, node, params));
    node_set(result, params);
    if (result == CUDA_SUCCESS)
        CHECK_TELL(check_exec_changed(exec, node, params));
    return result;
}
