/* SPDX-License-Identifier: Apache-2.0 */
/* Scopes of captures: the public calls that begin and end them. */
#include <tenure/capture.h>

#include "base/prim/calm.h"
#include "base/error.h"
#include "graph/ending.h"
#include "graph/hooks.h"
#include "api/library.h"
#include "memory/pool/asleep.h"
#include "memory/pool/graph_lock.h"
#include "memory/pool/handle.h"

static const tnr_capture_options options_default = TNR_CAPTURE_OPTIONS_INIT;

/* ---- what all calls begin with -------------------------------------------------------------- */

static tnr_status scope_check(int device_index, tnr_stream stream,
                              const tnr_capture_options **options, tnri_device **device)
{
    if (*options == NULL)
        *options = &options_default;
    if ((*options)->struct_bytes != sizeof(**options) || (int)(*options)->mode < 0 ||
        (*options)->mode > TNR_CAPTURE_RELAXED)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "the options of a capture are not of this version (struct_bytes), or "
                          "they name no mode. Start from TNR_CAPTURE_OPTIONS_INIT.");
    tnr_status status = tnri_library_device(device_index, device);
    if (status == TNR_OK)
        status = tnri_captures_supported();
    if (status == TNR_OK && tnri_stream_key(stream) == 0)
        return tnri_error(TNR_ERR_INVALID_STREAM,
                          "the legacy default stream cannot be captured. Use a stream of your "
                          "own.");
    return status;
}

/* The place of a graph pool that the caller named, which is held. */
static tnr_status place_of(const tnri_device *device, tnr_pool pool, tnri_place **place)
{
    if (!pool->account.is_graph && !pool->account.is_vouched)
        return tnri_error(TNR_ERR_INVALID_POOL,
                          "pool \"%s\" is not a graph pool. Make one with tnr_graph_pool_create.",
                          pool->account.name);
    if (pool->device != device)
        return tnri_error(TNR_ERR_INVALID_POOL, "pool \"%s\" is on device %d, not on %d.",
                          pool->account.name, pool->device->index, device->index);
    if (!tnri_pool_is_awake(pool))
        return tnri_asleep_error(pool);
    *place = pool->captures;
    return TNR_OK;
}

/* A place of the graph's own. */
static tnr_status place_fresh(tnri_device *device, const char *name, tnri_place **place)
{
    tnr_pool_options fresh = TNR_POOL_OPTIONS_INIT;
    fresh.name = name != NULL ? name : "graph";
    return tnri_place_make(device, &fresh, 1, place);
}

/* 1: of tnr_vouched_pool_create. Captures into a graph pool that is vouched for are as others. */
static int is_ordinary(const struct tnr_pool_st *pool)
{
    return pool->account.is_vouched && !pool->account.is_graph;
}

/* The place to capture into: that of the pool asked for, which is *held, or a new one. If the pool
 * is a vouched one the place stays empty. */
static tnr_status place_for(tnri_device *device, const tnr_capture_options *options,
                            tnri_place **place, tnr_pool *held)
{
    *held = NULL;
    if (options->pool == NULL)
        return place_fresh(device, options->name, place);
    tnr_status status = tnri_pool_resolve(options->pool, held);
    if (status != TNR_OK)
        return status;
    if (is_ordinary(*held) && (*held)->device == device)
        status = place_fresh(device, options->name, place);
    else
        status = place_of(device, *held, place);
    if (status != TNR_OK)
        tnri_pool_drop(*held);
    return status;
}

/* A capture with its place, not under way yet. */
static tnr_status scope_make(tnri_device *device, tnr_stream stream,
                             const tnr_capture_options *options, tnri_capture **capture)
{
    tnri_place *place;
    tnr_pool held;
    tnri_error_aside aside;
    tnr_status status = place_for(device, options, &place, &held);
    if (status != TNR_OK)
        return status;
    status = tnri_capture_make(device, stream, place, options, capture);
    if (status == TNR_OK)
        (*capture)->is_vouched = held != NULL && is_ordinary(held);
    if (held != NULL)
        tnri_pool_drop(held); /* from here on the capture keeps it */
    if (status == TNR_OK)
        return TNR_OK;
    tnri_error_take(&aside);
    tnri_orphans_end();
    tnri_error_restore(&aside);
    return status;
}

static void scope_unmake(tnri_capture *capture)
{
    tnri_error_aside aside;
    tnri_error_take(&aside);
    tnri_capture_unmake(capture);
    tnri_orphans_end();
    tnri_error_restore(&aside);
}

/* ---- begin ---------------------------------------------------------------------------------- */

static tnr_status already_error(tnr_stream stream)
{
    return tnri_error(TNR_ERR_CAPTURE, "stream %p is being captured already.", (void *)stream);
}

/* Has the driver begin; the rest of Tenure keeps out of the way already. In the context. */
static tnr_status scope_begin_driver(tnri_capture *capture, tnr_stream stream)
{
    tnri_standing standing;
    tnri_captures_hold_off();
    CUresult result = tnri_gpu_capture_begin(stream, (CUstreamCaptureMode)capture->mode);
    tnri_captures_let_go();
    if (result == CUDA_ERROR_ILLEGAL_STATE)
        return already_error(stream);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_CAPTURE_BEGIN, "beginning a capture");
    tnr_status status = tnri_standing_ask(stream, &standing);
    /* At once, and not when it ends: it may end without a word to Tenure. */
    if (status == TNR_OK)
        status = tnri_graph_tie(capture->graph, standing.graph);
    if (status == TNR_OK) {
        tnri_capture_enter(capture, standing.id);
        return TNR_OK;
    }
    CUgraph unused = NULL;
    if (tnri_gpu_capture_end(stream, &unused) == CUDA_SUCCESS && unused != NULL)
        tnri_graph_discard(capture->graph, unused);
    return status;
}

/* Marks the end of the stream's work so far, for what cannot be marked meanwhile, and begins. In
 * the graph lock and the context. */
static tnr_status scope_begin(tnri_capture *capture, tnr_stream stream, tnri_stream *object)
{
    tnri_event *event;
    uint64_t number;
    tnr_status status = tnri_stream_mark(object, &event, &number);
    if (status != TNR_OK)
        return status;
    tnri_places_note_mark(object, event);
    tnri_stream_capture(object, event, number);
    tnri_event_drop(event);
    tnri_stream_hold(object);
    capture->origin_object = object;
    status = scope_begin_driver(capture, stream);
    if (status != TNR_OK)
        tnri_stream_capture(object, NULL, 0);
    return status;
}

/* The part of the call under the graph lock. Tenure keeps out of the way already. */
static tnr_status scope_begin_inside(tnri_device *device, tnr_stream stream,
                                     const tnr_capture_options *options)
{
    tnri_capture *capture;
    tnri_stream *object;
    tnri_visit visit;
    if (tnri_stream_is_capturing(stream))
        return already_error(stream);
    tnr_status status = tnri_stream_find(device, stream, &object);
    if (status == TNR_OK)
        status = scope_make(device, stream, options, &capture);
    if (status != TNR_OK)
        return status;
    status = tnri_device_enter(device, &visit);
    if (status == TNR_OK) {
        status = scope_begin(capture, stream, object);
        tnri_device_leave(&visit);
    }
    if (status != TNR_OK)
        scope_unmake(capture);
    return status;
}

tnr_status tnr_capture_begin(int device_index, tnr_stream stream,
                             const tnr_capture_options *options)
{
    TNRI_CALM_CALL;
    tnri_device *device;
    tnr_status status = scope_check(device_index, stream, &options, &device);
    if (status != TNR_OK)
        return status;
    if (tnri_graph_lock_depth() > 0)
        return tnri_graph_lock_error("tnr_capture_begin");
    tnri_captures_register();
    tnri_graphs_settle();
    /* Without the graph lock: this waits for visits that began without knowing, and those may end
     * only after a callback has freed, for which it comes here. */
    tnri_captures_enter();
    (void)tnri_graph_lock();
    tnri_captures_check(TNRI_CHECKED_ALL); /* as in tnr_capture_attach */
    status = scope_begin_inside(device, stream, options);
    tnri_graph_unlock();
    if (status != TNR_OK)
        tnri_captures_leave();
    return status;
}

/* ---- end ------------------------------------------------------------------------------------ */

/* The capture that the caller may end on a stream. */
static tnr_status scope_find(tnri_device *device, tnr_stream stream, tnri_capture **found)
{
    tnri_captures_check(TNRI_CHECKED_ALL);
    tnri_capture *capture = tnri_capture_begun_on(device, stream);
    *found = capture;
    if (capture == NULL)
        return tnri_error(TNR_ERR_CAPTURE,
                          "no capture was begun with tnr_capture_begin on stream "
                          "%p, or it has ended.",
                          (void *)stream);
    if (!tnri_capture_may_end(capture))
        return tnri_error(TNR_ERR_CAPTURE,
                          "the capture of stream %p was begun by another thread, which alone may "
                          "end it, unless its mode is relaxed.",
                          (void *)stream);
    return TNR_OK;
}

tnr_status tnr_capture_end(tnr_cuda_graph *cuda_graph, tnr_graph *graph, int device_index,
                           tnr_stream stream)
{
    TNRI_CALM_CALL;
    tnri_device *device;
    tnri_capture *capture;
    if (cuda_graph == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_capture_end: the place for the graph is null. To throw it away, "
                          "call tnr_capture_abort.");
    tnr_status status = tnri_library_device(device_index, &device);
    if (status != TNR_OK)
        return status;
    if (tnri_graph_lock() > 0)
        status = tnri_graph_lock_error("tnr_capture_end");
    else
        status = scope_find(device, stream, &capture);
    /* Only now the caller's handles are another graph's. */
    if (status == TNR_OK) {
        tnr_graph number = capture->graph->number;
        status = tnri_capture_end(capture, stream, TNRI_WISH_KEEP, cuda_graph);
        if (graph != NULL)
            *graph = status == TNR_OK ? number : 0;
    }
    tnri_graph_unlock();
    return status;
}

tnr_status tnr_capture_abort(int device_index, tnr_stream stream)
{
    TNRI_CALM_CALL;
    tnri_device *device;
    tnri_capture *capture;
    CUgraph none;
    tnr_status status = tnri_library_device(device_index, &device);
    if (status != TNR_OK)
        return status;
    if (tnri_graph_lock() > 0)
        status = tnri_graph_lock_error("tnr_capture_abort");
    else
        status = scope_find(device, stream, &capture);
    if (status == TNR_OK)
        status = tnri_capture_end(capture, stream, TNRI_WISH_ABORT, &none);
    tnri_graph_unlock();
    return status;
}

/* ---- attach --------------------------------------------------------------------------------- */

static tnr_status scope_attach_inside(tnri_device *device, tnr_stream stream,
                                      const tnr_capture_options *options, tnr_graph *graph)
{
    tnri_standing standing;
    tnri_capture *capture;
    tnr_status status = tnri_standing_ask(stream, &standing);
    if (status != TNR_OK)
        return status;
    if (standing.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return tnri_error(TNR_ERR_CAPTURE,
                          "stream %p is not being captured, or its capture is invalid.",
                          (void *)stream);
    if (tnri_capture_find(standing.id) != NULL)
        return tnri_error(TNR_ERR_CAPTURE, "the capture of stream %p is followed already.",
                          (void *)stream);
    status = scope_make(device, stream, options, &capture);
    if (status != TNR_OK)
        return status;
    if (tnri_stream_find_captured(device, stream, &capture->origin_object) == TNR_OK)
        tnri_stream_hold(capture->origin_object);
    capture->is_attached = 1;
    capture->graph->was_attached = 1;
    capture->graph->attached = standing.graph;
    status = tnri_graph_tie(capture->graph, standing.graph);
    if (status != TNR_OK) {
        scope_unmake(capture);
        return status;
    }
    tnri_capture_enter(capture, standing.id);
    *graph = capture->graph->number;
    return TNR_OK;
}

tnr_status tnr_capture_attach(tnr_graph *graph, int device_index, tnr_stream stream,
                              const tnr_capture_options *options)
{
    TNRI_CALM_CALL;
    tnri_device *device;
    if (graph == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_capture_attach: the place for the graph's number is null.");
    *graph = 0;
    tnr_status status = scope_check(device_index, stream, &options, &device);
    if (status != TNR_OK)
        return status;
    if (tnri_graph_lock_depth() > 0)
        return tnri_graph_lock_error("tnr_capture_attach");
    tnri_captures_register();
    tnri_captures_enter(); /* as in tnr_capture_begin */
    (void)tnri_graph_lock();
    tnri_captures_check(TNRI_CHECKED_ALL); /* one that has ended may have been on this stream */
    status = scope_attach_inside(device, stream, options, graph);
    tnri_graph_unlock();
    if (status != TNR_OK)
        tnri_captures_leave();
    return status;
}

/* A capture whose end was noticed before it was told: what could not be read then is read now. */
static tnr_status ended_late(tnri_graph *graph, CUgraph cuda_graph)
{
    if (cuda_graph == NULL) {
        tnri_graph_end(graph);
        return TNR_OK;
    }
    tnri_ending ending;
    return tnri_graph_keep(graph, cuda_graph, &ending);
}

static tnr_status scope_ended(tnri_capture *capture, CUgraph cuda_graph)
{
    tnri_standing standing = {.status = CU_STREAM_CAPTURE_STATUS_NONE};
    tnr_status status =
        tnri_capture_is_stranded(capture) ? TNR_OK : tnri_standing_ask(capture->origin, &standing);
    if (status != TNR_OK)
        return status;
    /* One that is invalid has no id, and goes on until it is ended. */
    if (standing.status == CU_STREAM_CAPTURE_STATUS_INVALIDATED ||
        (standing.status != CU_STREAM_CAPTURE_STATUS_NONE && standing.id == capture->id))
        return tnri_error(TNR_ERR_CAPTURE, "the capture of stream %p has not ended.",
                          (void *)capture->origin);
    tnri_ending ending = TNRI_ENDING_NO_GRAPH;
    if (cuda_graph != NULL)
        status = tnri_graph_keep(capture->graph, cuda_graph, &ending);
    tnri_capture_finish(capture, ending);
    return status;
}

tnr_status tnr_capture_ended(tnr_graph number, tnr_cuda_graph cuda_graph)
{
    TNRI_CALM_CALL;
    tnri_visit visit;
    tnr_status status = TNR_OK;
    tnri_graph *graph = NULL;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    if (tnri_graph_lock() > 0)
        status = tnri_graph_lock_error("tnr_capture_ended");
    else
        status = tnri_graph_named(number, &graph);
    if (status == TNR_OK && !graph->was_attached)
        status = tnri_error(TNR_ERR_INVALID_GRAPH,
                            "graph %llu does not come of a capture that was attached to.",
                            (unsigned long long)number);
    if (status == TNR_OK && cuda_graph == TNR_CAPTURED_GRAPH) {
        cuda_graph = graph->attached;
        if (tnri_capture_of(graph) == NULL || tnri_graph_is_let_go(graph))
            status = tnri_error(TNR_ERR_CAPTURE,
                                "the end of graph %llu was noticed before it was told, and the "
                                "CUDA graph may be gone by now: name it.",
                                (unsigned long long)number);
    }
    if (status == TNR_OK)
        status = tnri_device_enter(graph->device, &visit);
    if (status == TNR_OK) {
        tnri_capture *capture = tnri_capture_of(graph);
        status = capture != NULL ? scope_ended(capture, cuda_graph) : ended_late(graph, cuda_graph);
        tnri_device_leave(&visit);
        tnri_orphans_end();
    }
    tnri_graph_unlock();
    return status;
}
