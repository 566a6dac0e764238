/* SPDX-License-Identifier: Apache-2.0 */
/* The end of captures: see ending.h. */
#include "graph/ending.h"

#include "api/library.h"
#include "base/error.h"
#include "graph/piece.h"
#include "graph/threat.h"
#include "memory/arena/note.h"
#include "memory/pool/graph_lock.h"

/* ---- the place ------------------------------------------------------------------------------- */

/* The stream that a block was handed out on; null if it cannot be named any more. In the context.
 * */
static tnri_stream *captured_home(const tnri_capture *capture, const tnri_captured *captured)
{
    tnri_stream *home;
    if (tnri_stream_key(captured->home) != captured->home_key ||
        (captured->home == capture->origin && tnri_capture_is_stranded(capture)) ||
        tnri_stream_find(captured->uses.arena->device, captured->home, &home) != TNR_OK)
        return NULL;
    return home;
}

/* Other graphs of the pool had memory of their own where the block is. */
static void survivor_guard(const tnri_captured *captured, const tnri_graph *own)
{
    const tnri_block *block = captured->uses.block;
    for (tnri_graph *graph = NULL; (graph = tnri_graph_walk(graph)) != NULL;)
        if (graph != own && graph->place == captured->place && !graph->is_capturing &&
            tnri_graph_meets(graph, block->base, tnri_block_end(block)) &&
            !tnri_threats_add(captured, graph->number))
            graph->is_doubtful = 1;
}

/* A block that outlives its capture is an ordinary one from here on: its free is ordered on its own
 * stream, or, if that cannot be named, on all. Not where the caller vouches for the order. */
static void survivor_settle(tnri_capture *capture, tnri_captured *captured)
{
    tnri_block *block = captured->uses.block;
    tnri_arena *arena = captured->uses.arena;
    tnri_stream *home = captured_home(capture, captured);
    tnri_event *none = NULL;
    tnri_arena_enter(arena);
    captured->capture = NULL;
    captured->next = NULL;
    captured->prev = NULL;
    int is_vouched = arena->account->is_vouched;
    captured->uses.is_orphaned =
        !is_vouched && (home == NULL || tnri_use_add(arena, block, home, 0, &none) != TNR_OK);
    tnri_arena_leave(arena);
    if (!is_vouched)
        survivor_guard(captured, capture->graph);
}

/* Such blocks of a place that the caller vouches for from now on. */
static void survivors_vouch(tnri_world *world)
{
    for (size_t i = 0; i < world->spans_count; i++)
        for (tnri_block *block = world->span_first[i]; block != NULL; block = block->above) {
            tnri_captured *captured =
                block->state != TNRI_LIVE || block->uses == NULL ? NULL : block->uses->captured;
            if (captured == NULL || captured->capture != NULL)
                continue;
            tnri_use_forget(&captured->uses, captured->home_key);
            captured->uses.is_orphaned = 0;
            tnri_threats_remove(captured);
        }
}

void tnri_place_vouch(tnri_place *place)
{
    tnri_assert(tnri_graph_lock_depth() > 0);
    tnri_arena_enter(place->arena);
    place->pool->account.is_vouched = 1;
    for (int i = 0; i < TNRI_WORLDS; i++)
        survivors_vouch(&place->arena->worlds[i]);
    tnri_arena_leave(place->arena);
    for (tnri_graph *graph = NULL; (graph = tnri_graph_walk(graph)) != NULL;)
        tnri_graph_let_go_of(graph, place->arena);
}

/* No capture into the place is under way any more. In the context. */
static void place_clean(tnri_place *place)
{
    tnri_pieces_clean(place);
    tnri_assert(place->pieces_count == 0);
    while (place->kept != NULL) {
        tnri_captured *captured = place->kept;
        place->kept = captured->next;
        captured->next = NULL;
        tnri_hold_end(&captured->uses); /* what fails is tried again later */
    }
}

/* The live blocks of a place that a capture handed out become ordinary ones. In the context. */
static void survivors_settle(tnri_capture *capture, const tnri_place *place)
{
    tnri_captured *others = NULL; /* of other places */
    while (capture->live != NULL) {
        tnri_captured *captured = capture->live;
        capture->live = captured->next;
        if (captured->place == place) {
            survivor_settle(capture, captured);
        } else {
            captured->next = others;
            others = captured;
        }
    }
    capture->live = others;
}

/* A capture into a place is over: its live blocks become ordinary ones; if it was the last there,
 * the pieces become clean, and what was kept goes its way. Not in the context. */
static void place_end(tnri_capture *capture, tnri_place *place)
{
    tnri_visit visit;
    int is_inside = tnri_device_enter(place->pool->device, &visit) == TNR_OK;
    survivors_settle(capture, place);
    place->captures_count--;
    if (place->captures_count == 0)
        place_clean(place);
    else
        tnri_pieces_orphan(place, capture);
    if (is_inside)
        tnri_device_leave(&visit);
}

void tnri_capture_leave_place(tnri_capture *capture)
{
    place_end(capture, capture->graph->beside);
    tnri_graph_place_remove(capture->graph);
}

/* ---- the capture ----------------------------------------------------------------------------- */

/* What was freed while the capture went on goes its way, or to the graph. */
static void kept_let_go(tnri_capture *capture, tnri_ending ending)
{
    if (ending == TNRI_ENDING_UNREAD)
        tnri_graph_take_holds(capture->graph, &capture->kept);
    else
        tnri_holds_let_go(capture->device, &capture->kept);
}

void tnri_capture_finish(tnri_capture *capture, tnri_ending ending)
{
    tnri_capture_leave(capture);
    tnri_graph *graph = capture->graph;
    tnri_graph_ranges_settle(graph);
    graph->is_capturing = 0;
    tnri_note_graph(&capture->place->pool->account, capture->origin,
                    ending == TNRI_ENDING_NO_GRAPH ? TNRI_NOTED_CAPTURE_ABORT
                                                   : TNRI_NOTED_CAPTURE_END,
                    graph->number);
    for (tnri_place *place = NULL; (place = tnri_graph_places(graph, place)) != NULL;)
        place_end(capture, place);
    if (capture->origin_object != NULL)
        tnri_stream_capture(capture->origin_object, NULL, 0);
    tnri_captures_leave();
    kept_let_go(capture, ending);
    tnri_capture_free(capture);
    if (ending == TNRI_ENDING_NO_GRAPH)
        tnri_graph_end(graph);
}

/* 1 if the origin's stream is no longer in the capture. A stream that is gone ends its capture, and
 * its handle may not be asked; another thread's default stream cannot be. */
static int capture_is_over(const tnri_capture *capture)
{
    tnri_standing standing;
    tnri_visit visit;
    if (tnri_capture_is_stranded(capture))
        return 1;
    if (capture->origin == TNRI_STREAM_PER_THREAD && capture->threads[0] != tnri_thread_number())
        return 0;
    /* The usual case, without a visit: most that come here are in a context already. Whoever is in
     * none gets no answer, and makes the visit. */
    if (tnri_standing_look(capture->origin, &standing) == CUDA_SUCCESS &&
        standing.status == CU_STREAM_CAPTURE_STATUS_ACTIVE && standing.id == capture->id)
        return 0;
    if (tnri_device_enter(capture->device, &visit) != TNR_OK)
        return 0;
    int is_over =
        !tnri_stream_is_capturing(capture->origin) ||
        (tnri_standing_ask(capture->origin, &standing) == TNR_OK &&
         standing.status != CU_STREAM_CAPTURE_STATUS_INVALIDATED && /* which has no id */
         (standing.status == CU_STREAM_CAPTURE_STATUS_NONE || standing.id != capture->id));
    tnri_device_leave(&visit);
    return is_over;
}

void tnri_captures_check(tnri_checked which)
{
    tnri_capture *next;
    for (tnri_capture *capture = tnri_capture_walk(NULL); capture != NULL; capture = next) {
        next = tnri_capture_walk(capture);
        if ((capture->is_attached || which == TNRI_CHECKED_ALL) && capture_is_over(capture))
            tnri_capture_finish(capture, tnri_graph_is_let_go(capture->graph) ? TNRI_ENDING_NO_GRAPH
                                                                              : TNRI_ENDING_UNREAD);
    }
}

/* Has the capture's graph hold what its nodes refer to so far. 1 if they have all been read, or no
 * graph will come of it. */
static int capture_read(const tnri_capture *capture)
{
    tnri_standing standing;
    int is_read = 0;
    if (tnri_capture_is_stranded(capture))
        return 1;
    if (tnri_standing_ask(capture->origin, &standing) != TNR_OK)
        return 0;
    if (standing.status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
        return 1;
    tnri_graph_ranges_settle(capture->graph);
    return standing.status == CU_STREAM_CAPTURE_STATUS_ACTIVE && standing.id == capture->id &&
           tnri_graph_hold_all(capture->graph, standing.graph, &is_read) == TNR_OK && is_read;
}

/* The next capture that the calling thread takes part in; null is the end. */
static tnri_capture *own_next(const tnri_capture *capture)
{
    tnri_capture *next = tnri_capture_walk(capture);
    while (next != NULL && !tnri_capture_has_thread(next))
        next = tnri_capture_walk(next);
    return next;
}

size_t tnri_captures_read(void)
{
    size_t bytes = 0;
    for (const tnri_capture *capture = NULL; (capture = own_next(capture)) != NULL;)
        for (size_t i = 0; i < capture->kept.count; i++)
            bytes += ((const tnri_uses *)capture->kept.members[i])->bytes;
    /* Each keeps what any of them may refer to. */
    for (const tnri_capture *capture = NULL; bytes > 0 && (capture = own_next(capture)) != NULL;)
        if (!capture_read(capture))
            bytes = 0;
    for (tnri_capture *capture = NULL; bytes > 0 && (capture = own_next(capture)) != NULL;)
        tnri_holds_let_go(capture->device, &capture->kept);
    return bytes;
}

/* ---- in the driver --------------------------------------------------------------------------- */

int tnri_capture_may_end(const tnri_capture *capture)
{
    return !capture->is_attached &&
           (capture->mode == TNR_CAPTURE_RELAXED || capture->threads[0] == tnri_thread_number());
}

/* What the driver says of a capture that gave no graph. */
static tnr_status ended_error(CUresult result, tnr_stream stream)
{
    const char *why = NULL;
    if (result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
        why = "a call that captures forbid has made it invalid";
    else if (result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED)
        why = "a stream that was drawn into it has not joined the stream that it began on";
    if (why == NULL)
        return tnri_driver_error(result, TNRI_GPU_CAPTURE_END, "ending a capture");
    return tnri_error_driver(TNR_ERR_CAPTURE_INVALIDATED, (int)result,
                             "the capture of stream %p gave no graph: %s. It is over, and what it "
                             "held has been given back.",
                             (void *)stream, why);
}

tnr_status tnri_graph_keep(tnri_graph *graph, CUgraph cuda_graph, tnri_ending *ending)
{
    int is_read = 0;
    tnri_graph_ranges_settle(graph);
    tnr_status status = graph->is_tied ? TNR_OK : tnri_graph_tie(graph, cuda_graph);
    if (status == TNR_OK)
        status = tnri_graph_hold_all(graph, cuda_graph, &is_read);
    *ending = is_read ? TNRI_ENDING_READ : TNRI_ENDING_UNREAD;
    return status;
}

/* 1 if the driver says that the capture is under way. */
static int driver_captures(const tnri_capture *capture, tnr_stream stream)
{
    tnri_standing standing;
    return tnri_standing_ask(stream, &standing) == TNR_OK &&
           standing.status != CU_STREAM_CAPTURE_STATUS_NONE && standing.id == capture->id;
}

/* After a failure the driver may not have ended the capture; it is asked once more. Returns 0 if it
 * is over then. */
static int capture_goes_on(const tnri_capture *capture, tnr_stream stream)
{
    CUgraph made = NULL;
    if (!driver_captures(capture, stream))
        return 0;
    if (tnri_gpu_capture_end(stream, &made) != CUDA_SUCCESS)
        return driver_captures(capture, stream);
    if (made != NULL)
        tnri_graph_discard(capture->graph, made);
    return 0;
}

tnr_status tnri_capture_end(tnri_capture *capture, tnr_stream stream, tnri_wish wish,
                            CUgraph *cuda_graph)
{
    /* A stream leads to its context, so without entering that one, too, the capture can end. */
    tnri_visit visit;
    tnri_error_aside aside;
    int is_inside = tnri_device_enter(capture->device, &visit) == TNR_OK;
    tnr_status status = TNR_OK;
    tnri_ending ending = TNRI_ENDING_NO_GRAPH;
    CUgraph made = NULL;
    CUresult result = tnri_gpu_capture_end(stream, &made);
    int goes_on =
        result != CUDA_SUCCESS && capture_goes_on(capture, stream) && wish != TNRI_WISH_GIVE_UP;
    if (result != CUDA_SUCCESS && (wish == TNRI_WISH_KEEP || goes_on))
        status = ended_error(result, stream);
    if (result == CUDA_SUCCESS && wish == TNRI_WISH_KEEP) {
        status = tnri_graph_keep(capture->graph, made, &ending);
        if (status != TNR_OK)
            ending = TNRI_ENDING_NO_GRAPH;
    }
    if (ending == TNRI_ENDING_NO_GRAPH && made != NULL) {
        tnri_graph_discard(capture->graph, made);
        made = NULL;
    }
    if (is_inside)
        tnri_device_leave(&visit);
    if (goes_on) {
        tnri_error_append(" The capture is still under way; end or abort it once more.");
        *cuda_graph = NULL;
        return status;
    }
    tnri_error_take(&aside);
    tnri_capture_finish(capture, ending);
    tnri_orphans_end();
    tnri_error_restore(&aside);
    *cuda_graph = made;
    return status;
}

void tnri_capture_abort(tnri_capture *capture)
{
    CUgraph none;
    (void)tnri_capture_end(capture, capture->origin, TNRI_WISH_GIVE_UP, &none);
}
