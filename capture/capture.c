/* SPDX-License-Identifier: Apache-2.0 */
/* Captures under way: see capture.h. */
#include "capture.h"

#include <string.h>

#include "arena/upper.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "piece.h"
#include "pool/library.h"
#include "retire.h"
#include "room.h"

static tnri_capture *captures; /* under way; the room */

/* ---- looking -------------------------------------------------------------------------------- */

tnr_status tnri_captures_supported(void)
{
    if (tnri_driver.cuStreamGetCaptureInfo != NULL &&
        tnri_driver.cuGraphNodeGetDependencies != NULL &&
        tnri_driver.cuThreadExchangeStreamCaptureMode != NULL &&
        tnri_driver.cuGraphRetainUserObject != NULL)
        return TNR_OK;
    return tnri_error(TNR_ERR_DRIVER_TOO_OLD,
                      "captures need a driver of CUDA 12.3 or newer; this one is of CUDA %d.%d.",
                      tnri_driver_loaded.version / 1000, tnri_driver_loaded.version % 1000 / 10);
}

tnr_status tnri_standing_ask(tnr_stream stream, tnri_standing *standing)
{
    memset(standing, 0, sizeof(*standing));
    CUresult result =
        tnri_drive(cuStreamGetCaptureInfo,
                   (stream, &standing->status, &standing->id, &standing->graph,
                    &standing->frontier, &standing->edges, &standing->count));
    if (result == CUDA_SUCCESS)
        return TNR_OK;
    return tnri_driver_error(result, "cuStreamGetCaptureInfo", "looking at a capture");
}

tnri_capture *tnri_capture_find(cuuint64_t id)
{
    tnri_capture *capture = captures;
    while (capture != NULL && capture->id != id)
        capture = capture->next;
    return capture;
}

tnri_capture *tnri_capture_on(const tnri_device *device)
{
    tnri_capture *capture = captures;
    while (capture != NULL && device != NULL && capture->device != device)
        capture = capture->next;
    return capture;
}

/* The capture that was begun on a stream; null: none. */
static tnri_capture *capture_begun_on(const tnri_device *device, tnr_stream stream)
{
    tnri_capture *capture = captures;
    while (capture != NULL && (capture->is_attached || capture->device != device ||
                               capture->origin != stream))
        capture = capture->next;
    return capture;
}

tnr_status tnri_capture_keep(tnri_capture *capture, tnri_arena *arena, tnri_block *block)
{
    if (!tnri_array_grow((void **)&capture->kept, &capture->kept_room, capture->kept_count + 1,
                         sizeof(capture->kept[0])))
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory to keep a block for a capture.");
    tnr_status status = tnri_hold_add(arena, block, &capture->kept[capture->kept_count]);
    capture->kept_count += status == TNR_OK;
    return status;
}

/* ---- beginning ------------------------------------------------------------------------------ */

/* The place to capture into: that of the pool asked for, or a new one. */
static tnr_status place_for(tnri_device *device, const tnr_capture_options *options,
                            tnri_place **place)
{
    if (options->pool == NULL) {
        tnr_pool_options fresh = TNR_POOL_OPTIONS_INIT;
        fresh.name = options->name;
        return tnri_place_make(device, &fresh, 1, place);
    }
    tnr_status status = tnri_pool_check(options->pool);
    if (status != TNR_OK)
        return status;
    if (!options->pool->is_graph)
        return tnri_error(TNR_ERR_INVALID_POOL,
                          "pool \"%s\" is no graph pool. Make one with tnr_graph_pool_create.",
                          options->pool->name);
    if (options->pool->device != device)
        return tnri_error(TNR_ERR_INVALID_POOL, "pool \"%s\" is on device %d, not on %d.",
                          options->pool->name, options->pool->device->index, device->index);
    *place = options->pool->captures;
    return TNR_OK;
}

/* A capture with its place and its graph, in no list yet. */
static tnr_status capture_make(tnri_device *device, tnr_stream stream,
                               const tnr_capture_options *options, tnri_capture **made)
{
    tnri_place *place;
    tnr_status status = place_for(device, options, &place);
    if (status != TNR_OK)
        return status;
    tnri_capture *capture = tnri_host_alloc(sizeof(*capture));
    tnri_graph *graph = capture == NULL ? NULL : tnri_graph_make(device, place, options->name);
    if (graph == NULL) {
        tnri_host_free(capture, sizeof(*capture));
        if (options->pool == NULL)
            (void)tnri_pool_end(place->pool, 0);
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for a capture.");
    }
    graph->is_capturing = 1;
    capture->device = device;
    capture->place = place;
    capture->graph = graph;
    capture->origin = stream;
    capture->mode = options->mode;
    capture->thread = tnri_thread_number();
    *made = capture;
    return TNR_OK;
}

/* Enters a capture that the driver has begun. */
static void capture_enter(tnri_capture *capture, cuuint64_t id)
{
    capture->id = id;
    capture->place->captures_count++;
    atomic_fetch_add(&capture->place->pool->keepers, 1);
    capture->next = captures;
    captures = capture;
}
