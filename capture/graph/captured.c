/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of captures: see captured.h. What is done with pieces is in piece.c. */
#include "graph/captured.h"

#include "memory/arena/count.h"
#include "memory/arena/find.h"
#include "memory/arena/world_retired.h"
#include "base/array.h"
#include "base/error.h"
#include "graph/piece.h"
#include "graph/threat.h"
#include "miss/oom.h"
#include "api/cached.h"
#include "memory/pool/asleep.h"
#include "memory/pool/graph_lock.h"

/* ---- looking at a stream -------------------------------------------------------------------- */

/* Where a stream of the capture stands: its view, moved to its frontier, with the pieces' bits.
 * TNR_ERR_CAPTURE if it does not belong to the capture. */
static tnr_status capture_look(tnri_capture *capture, tnr_stream stream, int *view)
{
    tnri_standing standing;
    tnri_assert(tnri_graph_lock_depth() > 0 && tnri_capture_has_thread(capture));
    tnr_status status = tnri_standing_ask(stream, &standing);
    if (status != TNR_OK)
        return status;
    if (standing.status != CU_STREAM_CAPTURE_STATUS_ACTIVE || standing.id != capture->id)
        return tnri_error(TNR_ERR_CAPTURE, "stream %p does not belong to the capture.",
                          (void *)stream);
    size_t views_before = capture->order.views_count;
    *view = tnri_order_view(&capture->order, tnri_stream_key(stream));
    if (*view < 0)
        return tnri_error(TNR_ERR_CAPTURE,
                          "a capture with more than %d streams that allocate is not supported.",
                          TNRI_VIEWS_MAX);
    tnri_moved moved = tnri_order_move(&capture->order, *view, standing.frontier, standing.edges,
                                       standing.count, &status);
    if (moved != TNRI_MOVED_NOT || capture->order.views_count != views_before)
        tnri_pieces_look(capture, *view, moved != TNRI_MOVED_ON);
    return status;
}

/* ---- serving -------------------------------------------------------------------------------- */

/* Makes `block`, which became live, a block of the capture. Under the arena's lock. */
static void block_take(tnri_capture *capture, tnri_place *place, tnr_stream stream, int view,
                       tnri_block *block, tnri_captured *captured)
{
    captured->uses.block = block;
    captured->uses.arena = place->arena;
    captured->uses.captured = captured;
    block->uses = &captured->uses;
    captured->place = place;
    captured->capture = capture;
    captured->graph = capture->graph->number;
    captured->home = stream;
    captured->home_key = tnri_stream_key(stream);
    captured->home_turns = capture->order.views[view].turns;
    captured->nodes_count = 0;
    captured->open_count = 0;
    captured->is_kept = 0;
    captured->prev = NULL;
    captured->next = capture->live;
    if (capture->live != NULL)
        capture->live->prev = captured;
    capture->live = captured;
}

/* Step 2. A callback that this calls back may free, but finds no way to allocate here. *is_reused
 * tells whether the block has memory of pieces. */
static tnr_status serve_spread(tnri_capture *capture, tnri_place *place, tnr_stream stream,
                               int view, const tnri_request *request, tnri_block **block,
                               int *is_reused)
{
    tnri_spread spread = {0};
    tnr_status status = tnri_pieces_spread(&spread, capture, place, view, request);
    if (status != TNR_OK)
        return status;
    void *ptr = NULL;
    tnri_oom_asks_on = stream;
    status = tnri_arena_malloc(place->arena, request, &ptr);
    *block = ptr == NULL ? NULL
                         : tnri_block_map_at(&tnri_arena_space(place->arena)->map, (uintptr_t)ptr);
    *is_reused = tnri_pieces_gather(&spread, place, *block);
    return status;
}

tnr_status tnri_place_malloc(tnri_capture *capture, tnri_place *place, tnr_stream stream,
                             const tnri_request *request, void **ptr)
{
    int view;
    if (!tnri_pool_is_awake(place->pool))
        return tnri_asleep_error(place->pool);
    tnr_status status = capture_look(capture, stream, &view);
    if (status == TNR_OK && !tnri_spares_fill(place, TNRI_SPARES_PER_MALLOC))
        status = tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for a block of a capture.");
    if (status != TNR_OK)
        return status;
    tnri_block *block = NULL;
    int is_reused = 0;
    status = tnri_pieces_serve(capture, place, view, request, &block, &is_reused);
    if (status == TNR_OK && block == NULL)
        status = serve_spread(capture, place, stream, view, request, &block, &is_reused);
    if (status != TNR_OK)
        return status;
    tnri_captured *captured = tnri_spare_take(place);
    tnri_arena_enter(place->arena);
    block_take(capture, place, stream, view, block, captured);
    tnri_arena_leave(place->arena);
    capture->graph->blocks++;
    capture->graph->reused += (uint64_t)is_reused;
    *ptr = (void *)block->base;
    if (tnri_graph_note(capture->graph, block->base, block->bytes))
        return TNR_OK;
    (void)tnri_place_release(place->arena, block, *ptr, 0);
    *ptr = NULL;
    return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the addresses of a graph.");
}

/* ---- freeing -------------------------------------------------------------------------------- */

/* Adds the frontier of a stream to the nodes at which the block's uses end. 0 if that cannot be
 * told. *view is the stream's. */
static int captured_reach(tnri_captured *captured, tnr_stream stream, int *view)
{
    tnri_capture *capture = captured->capture;
    if (capture_look(capture, stream, view) != TNR_OK)
        return 0;
    const tnri_view *of = &capture->order.views[*view];
    for (size_t i = 0; i < of->frontier_count; i++)
        if (!tnri_captured_add_node(captured, tnri_entry_node(of->frontier[i])))
            return 0;
    return 1;
}

/* The same for all that the stream was given since its view had made so many turns: its frontier
 * stands for that unless it has made another one. */
static int captured_reach_since(tnri_captured *captured, tnr_stream stream, uint64_t turns,
                                int *view)
{
    return captured_reach(captured, stream, view) &&
           captured->capture->order.views[*view].turns == turns;
}

/* Finds where the uses of a freed block end. 0 if that cannot be told by nodes. */
static int captured_close(tnri_captured *captured)
{
    int view;
    if (tnri_stream_key(captured->home) != captured->home_key)
        return 0; /* another thread's default stream */
    int told = captured_reach_since(captured, captured->home, captured->home_turns, &view);
    /* Its own frontier stands for whatever its stream came after. */
    if (told && captured->nodes_count > 0 && captured->open_count == 0)
        tnri_captured_prune(captured, view);
    for (size_t i = 0; told && i < captured->open_count; i++)
        told = captured_reach_since(captured, captured->open[i].stream, captured->open[i].turns,
                                    &view);
    return told;
}

/* The record of a live block that starts at `ptr` and was handed out in a capture under way; null
 * if there is no such block. Under the arena's lock. */
static tnri_captured *captured_at(const tnri_block *block, const void *ptr)
{
    if (block->state != TNRI_LIVE || block->base != (uintptr_t)ptr || block->uses == NULL)
        return NULL;
    tnri_captured *captured = block->uses->captured;
    return captured != NULL && captured->capture != NULL ? captured : NULL;
}

/* Takes a record out of its capture's list of live blocks. */
static void live_leave(tnri_captured *captured)
{
    if (captured->prev != NULL)
        captured->prev->next = captured->next;
    else
        captured->capture->live = captured->next;
    if (captured->next != NULL)
        captured->next->prev = captured->prev;
    captured->next = NULL;
    captured->prev = NULL;
}

/* Holds a block that is being freed until no capture into its place is under way. */
static void captured_keep(tnri_captured *captured, tnri_arena *arena, void *ptr, int is_sync)
{
    tnri_place *place = captured->place;
    tnri_arena_enter(arena);
    captured->capture = NULL;
    captured->uses.holds++;
    captured->next = place->kept;
    place->kept = captured;
    tnri_arena_leave(arena);
    (void)tnri_hold_free(arena, captured->uses.block, ptr, is_sync);
}

int tnri_place_release(tnri_arena *arena, tnri_block *block, void *ptr, int is_sync)
{
    tnri_arena_enter(arena);
    tnri_captured *captured = captured_at(block, ptr);
    int is_kept = captured != NULL && (captured->is_kept || is_sync || captured->uses.holds > 0 ||
                                       captured->uses.first != NULL);
    tnri_arena_leave(arena);
    if (captured == NULL)
        return 0;
    is_kept = is_kept || tnri_graph_lock_depth() > 1 ||
              !tnri_capture_has_thread(captured->capture) || !captured_close(captured);
    live_leave(captured);
    if (is_kept) {
        captured_keep(captured, arena, ptr, is_sync);
        return 1;
    }
    tnri_arena_enter(arena);
    tnri_arena_count_freed_because(arena, block, TNR_REUSE_ORDERED_BY_GRAPH);
    tnri_world_retire(block->world, block);
    tnri_piece_begin(captured);
    tnri_arena_leave(arena);
    return 1;
}

/* ---- uses ----------------------------------------------------------------------------------- */

static tnr_status captured_open(tnri_captured *captured, tnr_stream stream)
{
    int view;
    for (size_t i = 0; i < captured->open_count; i++)
        if (captured->open[i].stream == stream)
            return TNR_OK;
    if (capture_look(captured->capture, stream, &view) != TNR_OK) {
        captured->is_kept = 1;
        return TNR_OK;
    }
    if (!TNRI_ARRAY_GROW(captured->open, captured->open_room, captured->open_count + 1))
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the use of a block.");
    captured->open[captured->open_count++] =
        (tnri_open_use){stream, captured->capture->order.views[view].turns};
    return TNR_OK;
}

tnr_status tnri_place_use(tnri_capture *capture, tnri_arena *arena, const void *ptr,
                          tnr_stream stream, int until_free)
{
    tnr_status status = TNR_OK;
    tnri_block *block = tnri_live_start(arena, (uintptr_t)ptr);
    int is_start = block != NULL; /* the usual case, which needs no search */
    if (!is_start)
        block = tnri_live_find(arena->device, (uintptr_t)ptr);
    if (block == NULL)
        return tnri_error(TNR_ERR_NOT_LIVE, "%p lies in no live block of device %d.", ptr,
                          arena->device->index);
    tnri_captured *captured = block->uses != NULL ? block->uses->captured : NULL;
    int is_own = captured != NULL && captured->capture == capture;
    if (captured != NULL && captured->capture != NULL && !is_own)
        captured->is_kept = 1; /* two captures at once: no order between them */
    else if (!is_own)
        status = arena->account->is_vouched ? tnri_capture_keep(capture, arena, block)
                                            : tnri_graph_hold(capture->graph, arena, block);
    if (is_start)
        tnri_arena_leave(arena);
    else
        tnri_live_leave(arena->device, block);
    /* A use of its own stream ends here as any other: the program may be about to take that
     * stream's dependencies away. */
    if (status != TNR_OK || !is_own || (until_free && stream == captured->home))
        return status;
    if (until_free && stream != TNRI_STREAM_PER_THREAD)
        return captured_open(captured, stream);
    int view;
    if (until_free) /* only this thread can name it */
        captured->is_kept = 1;
    else if (!captured_reach(captured, stream, &view))
        captured->is_kept = 1;
    return TNR_OK;
}

void tnri_captured_free(void *of)
{
    tnri_captured *captured = of;
    tnri_assert(captured->capture == NULL);
    tnri_threats_remove(captured);
    tnri_captured_destroy(captured);
}
