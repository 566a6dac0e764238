/* SPDX-License-Identifier: Apache-2.0 */
/* Checking places, captures and graphs: see validate.h. */
#include "graph/validate.h"

#include <stdio.h>

#include "graph/capture.h"
#include "graph/graph.h"
#include "base/error.h"
#include "graph/piece.h"
#include "memory/pool/graph_lock.h"

static _Thread_local char validate_text[256];

#define BROKEN(...) (snprintf(validate_text, sizeof(validate_text), __VA_ARGS__), validate_text)

/* What the records of a place's arena say. */
typedef struct counts {
    size_t pieces, live;
} counts;

static const char *piece_validate(tnri_captured *piece)
{
    const tnri_block *block = piece->uses.block;
    if (block->state != TNRI_RETIRED || block->uses != &piece->uses)
        return BROKEN("the piece at %#zx is not a retired record", (size_t)block->base);
    if (piece->capture == NULL ? piece->views != 0 : piece->views != tnri_piece_views(piece))
        return BROKEN("the piece at %#zx is open to other streams than those after its uses",
                      (size_t)block->base);
    return NULL;
}

/* Walks the lists of a place. */
static const char *pieces_validate(tnri_place *place, size_t *count)
{
    const char *broken = NULL;
    for (int world = 0; world < TNRI_WORLDS; world++)
        for (int c = 0; c < TNRI_PIECE_CLASSES; c++)
            for (tnri_captured *piece = place->pieces[world][c]; piece != NULL && broken == NULL;
                 piece = piece->next) {
                ++*count;
                broken = piece_validate(piece);
                if (broken == NULL && tnri_piece_list(piece) != &place->pieces[world][c])
                    broken = BROKEN("the piece at %#zx is in the list of another size",
                                    (size_t)piece->uses.block->base);
            }
    if (broken == NULL && *count != place->pieces_count)
        broken =
            BROKEN("%zu pieces are in the lists, %zu are counted", *count, place->pieces_count);
    return broken;
}

/* Walks the records of the place's arena. Under its lock. */
static const char *records_count(const tnri_place *place, counts *sums)
{
    for (int w = 0; w < TNRI_WORLDS; w++) {
        const tnri_world *world = &place->arena->worlds[w];
        for (size_t i = 0; i < world->spans_count; i++)
            for (const tnri_block *block = world->span_first[i]; block != NULL;
                 block = block->above) {
                if ((block->state != TNRI_LIVE && block->state != TNRI_RETIRED) ||
                    block->uses == NULL)
                    continue;
                const tnri_captured *captured = block->uses->captured;
                if (captured == NULL && place->pool->account.is_vouched)
                    continue; /* put there by tnr_pool_malloc_at */
                if (captured == NULL || captured->uses.block != block)
                    return BROKEN("the record at %#zx does not know its capture",
                                  (size_t)block->base);
                sums->pieces += block->state == TNRI_RETIRED && captured->is_piece;
                sums->live += block->state == TNRI_LIVE && captured->capture != NULL;
            }
    }
    return NULL;
}

static size_t live_count(const tnri_place *place)
{
    size_t count = 0;
    for (const tnri_capture *capture = NULL; (capture = tnri_capture_walk(capture)) != NULL;)
        for (const tnri_captured *live = capture->live; live != NULL; live = live->next)
            count += live->place == place;
    return count;
}

static const char *place_validate(tnri_place *place)
{
    size_t pieces = 0;
    counts sums = {0, 0};
    tnri_arena_enter(place->arena);
    const char *broken = pieces_validate(place, &pieces);
    if (broken == NULL)
        broken = records_count(place, &sums);
    tnri_arena_leave(place->arena);
    size_t live = live_count(place);
    if (broken == NULL && (sums.pieces != pieces || sums.live != live))
        broken = BROKEN("pool \"%s\" has records of %zu pieces and %zu live blocks of captures; "
                        "known are %zu and %zu",
                        place->pool->account.name, sums.pieces, sums.live, pieces, live);
    if (broken == NULL && place->captures_count == 0 && (pieces > 0 || live > 0))
        broken = BROKEN("pool \"%s\" has %zu pieces and %zu live blocks of captures, and none is "
                        "under way",
                        place->pool->account.name, pieces, live);
    return broken;
}

static const char *graphs_validate(const tnri_place *place)
{
    size_t graphs = 0;
    for (const tnri_graph *graph = NULL; (graph = tnri_graph_walk(graph)) != NULL;)
        graphs += (size_t)tnri_graph_has_place(graph, place);
    if (graphs != place->graphs_count || graphs != atomic_load(&place->pool->keepers))
        return BROKEN("pool \"%s\" has %zu graphs; %zu are counted, and %u keep it",
                      place->pool->account.name, graphs, place->graphs_count,
                      atomic_load(&place->pool->keepers));
    return NULL;
}

tnr_status tnri_captures_validate(tnri_device *device)
{
    const char *broken = NULL;
    if (tnri_graph_lock_depth() > 0)
        return TNR_OK; /* in the middle of something */
    (void)tnri_graph_lock();
    for (tnri_place *place = NULL; broken == NULL && (place = tnri_place_walk(place)) != NULL;) {
        if (place->pool->device != device)
            continue;
        broken = place_validate(place);
        if (broken == NULL)
            broken = graphs_validate(place);
    }
    tnri_graph_unlock();
    return broken == NULL
               ? TNR_OK
               : tnri_error(TNR_ERR_INTERNAL, "device %d, captures: %s.", device->index, broken);
}
