/* SPDX-License-Identifier: Apache-2.0 */
/* Captures under way: see capture.h. */
#include "graph/capture.h"

#include <string.h>

#include "api/library.h"
#include "base/array.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "memory/arena/note.h"
#include "memory/pool/graph_lock.h"
#include "order/hold.h"

static tnri_capture *captures; /* under way, newest first; the graph lock */
static uint64_t serial_last;   /* the graph lock */

/* The serials of the oldest capture under way, UINT64_MAX without one; written under the graph
 * lock. And of the newest that the thread takes part in. */
static _Atomic uint64_t serial_oldest = UINT64_MAX;
static _Thread_local uint64_t serial_own;

/* ---- asking the driver ---------------------------------------------------------------------- */

/* What is called without being compared with null first, or else no capture could end. What reads
 * one kind of nodes is not among it: those are then unread. */
static const tnri_gpu_verb needs[] = {
    TNRI_GPU_CAPTURE_BEGIN, TNRI_GPU_CAPTURE_END,  TNRI_GPU_IS_CAPTURING, TNRI_GPU_CAPTURE_ASK,
    TNRI_GPU_CAPTURE_MODE,  TNRI_GPU_GRAPH_END,    TNRI_GPU_GRAPH_LAUNCH, TNRI_GPU_GRAPH_NODES,
    TNRI_GPU_NODE_TYPE,     TNRI_GPU_NODE_FOLLOWS, TNRI_GPU_TETHER_MAKE,  TNRI_GPU_TETHER_DROP,
    TNRI_GPU_TETHER_GIVE};

tnr_status tnri_captures_supported(void)
{
    const char *lacks = NULL;
    int is_old = tnri_driver_loaded.version < 12030;
    for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]) && !is_old && lacks == NULL; i++)
        lacks = tnri_gpu_has(needs[i]) ? NULL : tnri_gpu_name(needs[i]);
    if (!is_old && lacks == NULL)
        return TNR_OK;
    return tnri_error(
        TNR_ERR_DRIVER_TOO_OLD,
        "captures need a driver of CUDA 12.3 or newer; this one is of CUDA %d.%d%s%s.",
        tnri_driver_loaded.version / 1000, tnri_driver_loaded.version % 1000 / 10,
        lacks == NULL ? "" : ", and lacks ", lacks == NULL ? "" : lacks);
}

CUresult tnri_standing_look(tnr_stream stream, tnri_standing *standing)
{
    memset(standing, 0, sizeof(*standing));
    return tnri_gpu_capture_ask(stream, &standing->status, &standing->id, &standing->graph,
                                &standing->frontier, &standing->edges, &standing->count);
}

tnr_status tnri_standing_error(CUresult result)
{
    return tnri_driver_error(result, TNRI_GPU_CAPTURE_ASK, "looking at a capture");
}

tnr_status tnri_standing_ask(tnr_stream stream, tnri_standing *standing)
{
    CUresult result = tnri_standing_look(stream, standing);
    return result == CUDA_SUCCESS ? TNR_OK : tnri_standing_error(result);
}

/* ---- finding -------------------------------------------------------------------------------- */

tnri_capture *tnri_capture_walk(const tnri_capture *capture)
{
    return capture == NULL ? captures : capture->next;
}

tnri_capture *tnri_capture_find(cuuint64_t id)
{
    tnri_capture *capture = captures;
    while (capture != NULL && capture->id != id)
        capture = capture->next;
    return capture;
}

tnri_capture *tnri_capture_begun_on(const tnri_device *device, tnr_stream stream)
{
    uintptr_t key = tnri_stream_key(stream);
    tnri_capture *capture = captures;
    while (capture != NULL &&
           (capture->is_attached || capture->device != device || capture->origin_object == NULL ||
            capture->origin_object->key != key))
        capture = capture->next;
    return capture;
}

tnri_capture *tnri_capture_of(const tnri_graph *graph)
{
    tnri_capture *capture = captures;
    while (capture != NULL && capture->graph != graph)
        capture = capture->next;
    return capture;
}

int tnri_capture_is_stranded(const tnri_capture *capture)
{
    return capture->origin_object != NULL && atomic_load(&capture->origin_object->is_dead);
}

/* ---- threads -------------------------------------------------------------------------------- */

int tnri_capture_has_thread(const tnri_capture *capture)
{
    for (size_t i = 0; i < capture->threads_count; i++)
        if (capture->threads[i] == tnri_thread_number())
            return 1;
    return 0;
}

int tnri_capture_join(tnri_capture *capture)
{
    if (!tnri_capture_has_thread(capture)) {
        if (!TNRI_ARRAY_GROW(capture->threads, capture->threads_room, capture->threads_count + 1))
            return 0;
        capture->threads[capture->threads_count++] = tnri_thread_number();
    }
    if (capture->serial > serial_own)
        serial_own = capture->serial;
    return 1;
}

int tnri_thread_may_capture(void)
{
    return serial_own >= atomic_load(&serial_oldest);
}

static void oldest_find(void)
{
    uint64_t oldest = UINT64_MAX;
    for (const tnri_capture *capture = captures; capture != NULL; capture = capture->next)
        oldest = capture->serial < oldest ? capture->serial : oldest;
    atomic_store(&serial_oldest, oldest);
}

/* ---- making --------------------------------------------------------------------------------- */

tnr_status tnri_capture_make(tnri_device *device, tnr_stream stream, tnri_place *place,
                             const tnr_capture_options *options, tnri_capture **made)
{
    tnri_capture *capture = tnri_host_alloc(sizeof(*capture));
    if (capture != NULL) {
        capture->serial = ++serial_last;
        capture->device = device;
        capture->place = place;
        capture->origin = stream;
        capture->mode = options->mode;
        if (tnri_capture_join(capture))
            capture->graph = tnri_graph_make(device, place, options->name);
    }
    *made = capture;
    if (capture != NULL && capture->graph != NULL) {
        capture->graph->is_capturing = 1;
        return TNR_OK;
    }
    if (capture != NULL)
        tnri_capture_free(capture);
    *made = NULL;
    return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for a capture.");
}

void tnri_capture_unmake(tnri_capture *capture)
{
    tnri_graph_end(capture->graph);
    tnri_capture_free(capture);
}

void tnri_capture_enter(tnri_capture *capture, cuuint64_t id)
{
    tnri_assert(tnri_graph_lock_depth() > 0 &&
                tnri_capturing()); /* all others keep out of the way */
    capture->id = id;
    capture->place->captures_count++;
    capture->next = captures;
    captures = capture;
    oldest_find();
    tnri_note_graph(&capture->place->pool->account, capture->origin, TNRI_NOTED_CAPTURE_BEGIN,
                    capture->graph->number);
}

tnr_status tnri_capture_keep(tnri_capture *capture, tnri_arena *arena, tnri_block *block)
{
    tnri_uses *uses;
    tnri_assert(!tnri_captured_is_of(block, capture));
    if (block->uses != NULL && tnri_set_has(&capture->kept, block->uses))
        return TNR_OK;
    if (!tnri_set_reserve(&capture->kept))
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory to keep a block for a capture.");
    tnr_status status = tnri_hold_add(arena, block, &uses);
    if (status == TNR_OK)
        tnri_set_add(&capture->kept, uses);
    return status;
}

void tnri_capture_leave(tnri_capture *capture)
{
    tnri_assert(tnri_graph_lock_depth() > 0);
    tnri_capture **link = &captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    oldest_find();
}

void tnri_capture_free(tnri_capture *capture)
{
    tnri_order_free(&capture->order);
    if (capture->origin_object != NULL)
        tnri_stream_drop(capture->origin_object);
    tnri_host_free(capture->threads, capture->threads_room * sizeof(capture->threads[0]));
    tnri_set_free(&capture->kept);
    tnri_host_free(capture, sizeof(*capture));
}
