/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of graph pools: see place.h. */
#include "graph/place.h"

#include "api/pool_end.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "memory/pool/family.h"

static tnri_place *places; /* the graph lock */

void tnri_captured_destroy(tnri_captured *captured)
{
    tnri_host_free(captured->nodes, captured->nodes_room * sizeof(captured->nodes[0]));
    tnri_host_free(captured->open, captured->open_room * sizeof(captured->open[0]));
    tnri_host_free(captured, sizeof(*captured));
}

tnr_status tnri_place_make(tnri_device *device, const tnr_pool_options *options, int is_private,
                           tnri_place **made)
{
    tnri_place *place = tnri_host_alloc(sizeof(*place));
    if (place == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for a graph pool.");
    tnri_tagging tagging = {tnri_tag_here(), NULL, 0};
    tnri_pool_kind kind = is_private ? TNRI_POOL_GRAPH_PRIVATE : TNRI_POOL_GRAPH;
    tnr_status status = tnri_pool_make(device, options, kind, &tagging, &place->pool);
    if (status != TNR_OK) {
        tnri_host_free(place, sizeof(*place));
        return status;
    }
    tnri_mutex_init(&place->launching);
    place->arena = tnri_arena_walk(place->pool, NULL);
    place->is_private = is_private;
    place->next = places;
    places = place;
    place->pool->captures = place;
    *made = place;
    /* The arena's life is made here, so that no free ever lacks the memory for it. */
    if (tnri_life_of(place->arena) != NULL)
        return TNR_OK;
    if (!tnri_pool_hold(place->pool) || tnri_pool_end(place->pool, 0) != TNR_OK)
        tnri_assert(0); /* it is empty; that frees the place through pool_gone */
    return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for a graph pool.");
}

void tnri_place_free(tnri_place *place)
{
    tnri_place **link = &places;
    while (*link != place)
        link = &(*link)->next;
    *link = place->next;
    tnri_assert(place->pieces_count == 0);
    while (place->spares != NULL) {
        tnri_captured *spare = place->spares;
        place->spares = spare->next;
        tnri_captured_destroy(spare);
    }
    tnri_mutex_end(&place->launching);
    if (place->launch_stream != NULL)
        tnri_stream_drop(place->launch_stream);
    tnri_event_drop(place->launch_mark);
    place->pool->captures = NULL;
    tnri_host_free(place, sizeof(*place));
}

void tnri_places_note_mark(const tnri_stream *stream, tnri_event *event)
{
    for (tnri_place *place = places; place != NULL; place = place->next) {
        if (place->launch_stream != stream || place->launch_mark != NULL)
            continue;
        tnri_event_hold(event);
        place->launch_mark = event;
    }
}

tnri_place *tnri_place_walk(const tnri_place *place)
{
    return place == NULL ? places : place->next;
}
