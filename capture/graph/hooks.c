/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the layers below ask: see hooks.h and memory/device/upper.h.
 *
 * While a capture is under way every request, free and use on the device comes by here. Most of
 * them come from threads that have nothing to do with it; those threads leave again without having
 * taken the graph lock.
 */
#include "graph/hooks.h"

#include "api/library.h"
#include "base/prim/calm.h"
#include "base/error.h"
#include "graph/captured.h"
#include "graph/describe.h"
#include "graph/ending.h"
#include "memory/device/upper.h"
#include "graph/launched.h"
#include "graph/validate.h"
#include "memory/arena/find.h"
#include "memory/arena/note.h"
#include "memory/pool/graph_lock.h"
#include "memory/pool/handle.h"
#include "memory/stream/facts.h"
#include "order/hold.h"
#include "order/register.h"

/* ---- requests ------------------------------------------------------------------------------- */

static tnr_status unknown_error(tnr_stream stream)
{
    return tnri_error(TNR_ERR_CAPTURE,
                      "stream %p is in a capture that Tenure was not told of. Call "
                      "tnr_capture_attach after the capture has begun.",
                      (void *)stream);
}

/* 1 for the stream that the capture began on, which Tenure knows as long as the capture goes on. */
static int is_origin(const tnri_capture *capture, tnr_stream stream)
{
    return capture->origin_object != NULL &&
           capture->origin_object->key == tnri_stream_key(stream) &&
           !tnri_capture_is_stranded(capture);
}

/* Makes Tenure know a stream of the capture: its block here is the graph's, and tnr_free_sync must
 * know the stream after the capture too. *device is its device; null: none that is in use. */
static tnr_status stream_enter(const tnri_capture *capture, tnr_stream stream, tnri_device **device)
{
    tnri_stream *object;
    *device = capture->device;
    if (is_origin(capture, stream) || tnri_stream_is_known(capture->device, stream))
        return TNR_OK;
    CUresult result = tnri_facts_device(stream, device);
    if (result != CUDA_SUCCESS)
        return tnri_stream_error(result, TNRI_GPU_STREAM_CONTEXT, stream);
    return *device == NULL ? TNR_OK : tnri_stream_find_captured(*device, stream, &object);
}

/* The capture that a stream is in, by what the driver has just said of it, and the stream's device;
 * the calling thread takes part in it from now on. */
static tnr_status capture_of_stream(tnr_stream stream, const tnri_standing *standing,
                                    tnri_capture **capture, tnri_device **device)
{
    if (standing->status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
        return tnri_error(TNR_ERR_CAPTURE_INVALIDATED,
                          "the capture of stream %p has become invalid. End it and begin again.",
                          (void *)stream);
    *capture = tnri_capture_find(standing->id);
    if (*capture == NULL)
        return unknown_error(stream);
    if (!tnri_capture_join(*capture))
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for a thread of a capture.");
    return stream_enter(*capture, stream, device);
}

/* Refuses a pool that the caller named if it is not the capture's. Under the graph lock: it is not
 * held by who waits for it, since a private pool is ended in there. */
static tnr_status pool_check(const tnri_capture *capture, const tnri_device *device,
                             tnr_stream stream, tnr_pool handle)
{
    tnr_pool pool;
    tnr_status status = tnri_pool_resolve(handle, &pool);
    if (status != TNR_OK)
        return status;
    const tnri_place *place = tnri_graph_place_on(capture->graph, device);
    if (pool->device != device)
        status = tnri_error(TNR_ERR_INVALID_DEVICE, "pool \"%s\" is on device %d, not on %d.",
                            pool->account.name, pool->device->index, device->index);
    else if (place == NULL || pool != place->pool)
        status = tnri_error(TNR_ERR_CAPTURE,
                            "stream %p is captured into pool \"%s\", so it cannot allocate from "
                            "\"%s\".",
                            (void *)stream, capture->place->pool->account.name, pool->account.name);
    tnri_pool_drop(pool);
    return status;
}

/* Serves a request of a stream of another device than the capture's, which has no place there. */
static tnr_status malloc_beside(tnri_capture *capture, tnri_device *device, tnr_stream stream,
                                const tnri_request *request, void **ptr)
{
    tnri_place *place;
    tnri_error_aside aside;
    tnr_status status = tnri_graph_place_add(capture->graph, device, &place);
    if (status != TNR_OK)
        return status;
    status = tnri_place_malloc(capture, place, stream, request, ptr);
    if (status == TNR_OK)
        return TNR_OK;
    tnri_error_take(&aside);
    tnri_capture_leave_place(capture);
    tnri_error_restore(&aside);
    return status;
}

/* *is_plain is set if the request is to be served as if the stream were not captured. */
static tnr_status malloc_inside(tnri_device *device, tnr_pool handle, tnr_stream stream,
                                const tnri_standing *standing, const tnri_request *request,
                                int *is_plain, void **ptr)
{
    tnri_capture *capture;
    tnri_device *own;
    tnr_status status = capture_of_stream(stream, standing, &capture, &own);
    if (status != TNR_OK)
        return status;
    if (own != device)
        return tnri_error(TNR_ERR_INVALID_DEVICE,
                          "stream %p is not of device %d; memory of device %d cannot be allocated "
                          "on it.",
                          (void *)stream, device->index, device->index);
    *is_plain = capture->is_vouched;
    if (*is_plain)
        return TNR_OK;
    tnri_place *place = tnri_graph_place_on(capture->graph, device);
    if (handle != NULL)
        status = pool_check(capture, device, stream, handle);
    if (status != TNR_OK)
        return status;
    return place != NULL ? tnri_place_malloc(capture, place, stream, request, ptr)
                         : malloc_beside(capture, device, stream, request, ptr);
}

static int hook_malloc(int index, tnr_pool handle, tnr_stream stream, const tnri_request *request,
                       void **ptr, tnr_status *status)
{
    TNRI_CALM;
    tnri_standing standing;
    if (!tnri_capturing() || tnri_stream_key(stream) == 0)
        return 0;
    CUresult result = tnri_standing_look(stream, &standing);
    if (!tnri_answer_is_capturing(result, standing.status))
        return 0;
    int is_plain = 0;
    tnri_device *device;
    *status =
        result == CUDA_SUCCESS ? tnri_library_device(index, &device) : tnri_standing_error(result);
    if (*status != TNR_OK)
        return 1;
    uint32_t began = tnri_note_begin();
    if (tnri_graph_lock() > 0)
        *status = tnri_graph_lock_error("an allocation on a stream that is captured");
    else
        *status = malloc_inside(device, handle, stream, &standing, request, &is_plain, ptr);
    tnri_graph_unlock();
    tnri_note_end(began);
    return !is_plain;
}

/* ---- frees ---------------------------------------------------------------------------------- */

/* 1 if the arena's own stream may be in a capture. */
static int arena_may_capture(tnri_arena *arena)
{
    tnri_stream *stream = tnri_arena_stream(arena);
    int may = tnri_stream_may_capture(stream);
    tnri_stream_drop(stream);
    return may;
}

/* 1 if the block's free would have to mark a stream that is captured. */
static int block_may_capture(tnri_arena *arena, const tnri_block *block)
{
    int is_open = 0;
    tnri_arena_enter(arena);
    if (block->state == TNRI_LIVE && block->uses != NULL)
        for (const tnri_use *use = block->uses->first; use != NULL; use = use->next)
            is_open |= use->until_free == TNRI_UNTIL_FREE_OPEN;
    tnri_arena_leave(arena);
    return is_open;
}

/* 1 if the caller vouches for what captures do with the block, and no other stream uses it. */
static int is_vouched_for(tnri_arena *arena, const tnri_block *block)
{
    if (!arena->account->is_vouched)
        return 0;
    tnri_arena_enter(arena);
    const tnri_uses *uses = block->state == TNRI_LIVE ? block->uses : NULL;
    const tnri_captured *captured = uses == NULL ? NULL : uses->captured;
    int is_used = uses != NULL && (uses->first != NULL || uses->holds > 0 ||
                                   (captured != NULL && captured->capture != NULL));
    tnri_arena_leave(arena);
    return !is_used;
}

/* 1 if a graph that is being captured may refer to a block that the thread frees: one of a capture
 * that the thread takes part in, on whichever device, or if there is none, of any. */
static int may_refer(const tnri_capture *capture)
{
    const tnri_capture *own = NULL;
    while ((own = tnri_capture_walk(own)) != NULL && !tnri_capture_has_thread(own))
        ;
    return own == NULL || tnri_capture_has_thread(capture);
}

/* Frees a block that no capture handed out: held until the captures that may refer to it are over.
 * 0: there is none, or it is no live block that starts at `ptr`, which the usual way finds out. */
static int free_later(tnri_arena *arena, tnri_block *block, void *ptr, int is_sync,
                      tnr_status *status)
{
    int is_kept = 0;
    *status = TNR_OK;
    tnri_arena_enter(arena);
    int is_live = block->state == TNRI_LIVE && block->base == (uintptr_t)ptr;
    for (tnri_capture *capture = NULL;
         is_live && *status == TNR_OK && (capture = tnri_capture_walk(capture)) != NULL;)
        if (may_refer(capture)) {
            *status = tnri_capture_keep(capture, arena, block);
            is_kept = 1;
        }
    tnri_arena_leave(arena);
    return is_kept && (*status != TNR_OK || tnri_hold_free(arena, block, ptr, is_sync));
}

static tnr_status hook_free(tnri_arena *arena, tnri_block *block, void *ptr, int is_sync)
{
    TNRI_CALM;
    /* No graph refers to those, and the caller has claimed the staging: see away/staging.h. */
    if (arena->account->is_contents)
        return TNR_ERR_NOT_LIVE;
    int is_graph = tnri_arena_is_graph(arena);
    if (!is_sync && is_vouched_for(arena, block))
        return TNR_ERR_NOT_LIVE;
    if (!is_graph && !tnri_thread_may_capture() && !arena_may_capture(arena) &&
        !block_may_capture(arena, block))
        return TNR_ERR_NOT_LIVE;
    tnr_status status = TNR_OK;
    uint32_t began = tnri_note_begin();
    /* A capture that an engine has ended without a word would keep what is freed from now on. */
    if (tnri_graph_lock() == 0)
        tnri_captures_check(TNRI_CHECKED_ATTACHED);
    int is_done = is_graph && tnri_place_release(arena, block, ptr, is_sync);
    if (!is_done)
        is_done = free_later(arena, block, ptr, is_sync, &status);
    tnri_graph_unlock();
    tnri_note_end(began);
    return is_done ? status : TNR_ERR_NOT_LIVE;
}

/* ---- uses ----------------------------------------------------------------------------------- */

/* A stream that is not captured uses a block of a capture: its end cannot be told by nodes. */
static void use_outside(tnri_arena *arena, const void *ptr)
{
    (void)tnri_graph_lock();
    const tnri_block *block = tnri_live_find(arena->device, (uintptr_t)ptr);
    tnri_captured *captured = block != NULL && block->uses != NULL ? block->uses->captured : NULL;
    if (captured != NULL && captured->capture != NULL)
        captured->is_kept = 1;
    if (block != NULL)
        tnri_live_leave(arena->device, block);
    tnri_graph_unlock();
}

static int hook_use(tnri_arena *arena, const void *ptr, tnr_stream stream, int until_free,
                    tnr_status *status)
{
    TNRI_CALM;
    tnri_capture *capture;
    tnri_device *device;
    tnri_standing standing;
    if (!tnri_stream_is_capturing(stream)) {
        if (tnri_arena_is_graph(arena))
            use_outside(arena, ptr);
        return 0;
    }
    if (tnri_stream_key(stream) == 0) {
        *status = tnri_error(TNR_ERR_CAPTURE,
                             "the legacy default stream waits for all blocking streams, one of "
                             "which is being captured, so its use of %p cannot be recorded.",
                             ptr);
        return 1;
    }
    (void)tnri_graph_lock();
    *status = tnri_standing_ask(stream, &standing);
    if (*status == TNR_OK)
        *status = capture_of_stream(stream, &standing, &capture, &device);
    if (*status == TNR_OK)
        *status = tnri_place_use(capture, arena, ptr, stream, until_free);
    tnri_graph_unlock();
    return 1;
}

/* ---- the rest ------------------------------------------------------------------------------- */

static tnr_stream hook_home(const tnri_block *block)
{
    TNRI_CALM;
    const tnri_captured *captured = block->uses == NULL ? NULL : block->uses->captured;
    return captured == NULL ? NULL : captured->home;
}

static size_t hook_settle(tnri_device *device, int is_short)
{
    TNRI_CALM;
    size_t bytes = 0;
    (void)device;
    if (tnri_capturing() && tnri_graph_lock_depth() == 0) {
        (void)tnri_graph_lock();
        tnri_captures_check(TNRI_CHECKED_ALL);
        tnri_graph_unlock();
    }
    tnri_launched_settle();
    tnri_graphs_settle();
    if (is_short && tnri_capturing()) {
        (void)tnri_graph_lock();
        bytes = tnri_captures_read();
        tnri_graph_unlock();
    }
    return bytes;
}

static tnr_status hook_pool_end(tnr_pool pool, int is_gone)
{
    if (!is_gone || pool->captures == NULL)
        return TNR_OK;
    (void)tnri_graph_lock();
    tnri_place_free(pool->captures);
    tnri_graph_unlock();
    return TNR_OK;
}

/* 1 if the graph is of the device, or has a place there. */
static int graph_is_on(const tnri_graph *graph, const tnri_device *device)
{
    return graph->device == device || tnri_graph_place_on(graph, device) != NULL;
}

/* 1 if the graph needs memory of the device: its own, or blocks that it keeps. */
static int graph_needs(const tnri_graph *graph, const tnri_device *device)
{
    return graph_is_on(graph, device) || tnri_graph_keeps_of(graph, device);
}

static int capture_needs(const tnri_capture *capture, const tnri_device *device)
{
    return graph_needs(capture->graph, device) || tnri_holds_are_of(&capture->kept, device);
}

/* Those that cannot be ended here are an error. */
static tnr_status captures_end(tnri_device *device)
{
    tnri_capture *next;
    tnr_status status = TNR_OK;
    (void)hook_settle(device, 0);
    (void)tnri_graph_lock();
    for (tnri_capture *capture = tnri_capture_walk(NULL); capture != NULL; capture = next) {
        next = tnri_capture_walk(capture);
        if (status != TNR_OK || !capture_needs(capture, device))
            continue;
        if (tnri_capture_may_end(capture))
            tnri_capture_abort(capture);
        else
            status = tnri_error(
                TNR_ERR_CAPTURE,
                "stream %p of device %d is being captured by the engine or by "
                "another thread, which has to end the capture before a shutdown, even one "
                "with force.",
                (void *)capture->origin, capture->device->index);
    }
    tnri_graph_unlock();
    return status;
}

/* Waits for all that a device was given. */
static tnr_status device_wait(tnri_device *device)
{
    tnri_visit visit;
    tnri_event *event = NULL;
    tnr_status status = tnri_device_enter(device, &visit);
    if (status != TNR_OK)
        return status;
    status = tnri_event_context(device, &event);
    tnri_event_drop(event);
    tnri_device_leave(&visit);
    return status;
}

/* Waits for launches, which may still run, of the graphs that need memory of a device. */
static tnr_status graphs_wait(const tnri_device *device)
{
    uint64_t waited = 0; /* a bit for each device */
    tnr_status status = TNR_OK;
    for (const tnri_graph *graph = NULL; (graph = tnri_graph_walk(graph)) != NULL;) {
        uint64_t bit = UINT64_C(1) << graph->device->index;
        if (status != TNR_OK || (waited & bit) != 0 || !graph_needs(graph, device))
            continue;
        status = device_wait(graph->device);
        waited |= bit;
    }
    return status;
}

/* Ends all graphs that have a place on a device; the driver's stay what they are. Other graphs let
 * go of its blocks. */
static tnr_status graphs_end(const tnri_device *device)
{
    tnri_graph *next;
    tnr_status status = graphs_wait(device);
    for (tnri_graph *graph = tnri_graph_walk(NULL); graph != NULL && status == TNR_OK;
         graph = next) {
        next = tnri_graph_walk(graph);
        if (graph_is_on(graph, device))
            tnri_graph_end(graph);
        else if (graph_needs(graph, device))
            tnri_graph_let_go_of(graph, device);
    }
    return status;
}

/* TNR_ERR_BUSY if a capture or a graph needs memory of the device. */
static tnr_status needed_error(const tnri_device *device)
{
    for (const tnri_capture *capture = NULL; (capture = tnri_capture_walk(capture)) != NULL;)
        if (capture_needs(capture, device))
            return tnri_error(TNR_ERR_BUSY,
                              "a capture that needs memory of device %d is under way on device %d. "
                              "End it, or shut down with force.",
                              device->index, capture->device->index);
    for (const tnri_graph *graph = NULL; (graph = tnri_graph_walk(graph)) != NULL;)
        if (graph_needs(graph, device))
            return tnri_error(TNR_ERR_BUSY,
                              "graph \"%s\" still needs memory of device %d. Destroy the CUDA "
                              "graph and its executables, or shut down with force.",
                              graph->name, device->index);
    return TNR_OK;
}

static tnr_status device_end(tnri_device *device, int force)
{
    tnr_status status = TNR_OK;
    (void)hook_settle(device, 0);
    (void)tnri_graph_lock();
    if (force) {
        status = graphs_end(device);
        if (status == TNR_OK)
            tnri_launched_forget(device);
    } else {
        status = needed_error(device);
    }
    tnri_graph_unlock();
    return status;
}

static tnr_status hook_device(tnri_device *device, tnri_device_step step)
{
    switch (step) {
    case TNRI_DEVICE_VALIDATES:
        return tnri_captures_validate(device);
    case TNRI_DEVICE_MAY_END:
        return device_end(device, 0);
    case TNRI_DEVICE_ENDS_CAPTURES:
        return captures_end(device);
    case TNRI_DEVICE_ENDS_HOLDS:
        return device_end(device, 1);
    default:
        return TNR_OK;
    }
}

void tnri_captures_register(void)
{
    static const tnri_upper upper = {
        .device = hook_device,
        .pool_end = hook_pool_end,
        .settle = hook_settle,
        .show = tnri_graphs_describe,
        .free = hook_free,
        .malloc = hook_malloc,
        .use = hook_use,
        .captured_gone = tnri_captured_free,
        .home = hook_home,
    };
    tnri_lifetime_register();
    tnri_upper_register(TNRI_ROOM_GRAPH, &upper);
}
