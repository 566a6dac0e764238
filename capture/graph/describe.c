/* SPDX-License-Identifier: Apache-2.0 */
/* Telling pictures of graphs: see describe.h. */
#include "graph/describe.h"

#include "graph/capture.h"

static void hold_tell(const tnri_listener *listener, tnri_wait_kind kind, tnr_graph graph,
                      const tnri_uses *uses)
{
    tnri_arena *arena = uses->arena;
    tnri_arena_enter(arena);
    uintptr_t base = uses->block->base;
    tnri_arena_leave(arena);
    listener->keeps(listener->user, kind, graph, base);
}

static void holds_tell(const tnri_listener *listener, tnri_wait_kind kind, tnr_graph graph,
                       const tnri_set *holds)
{
    for (size_t i = 0; i < holds->count; i++)
        hold_tell(listener, kind, graph, holds->members[i]);
}

static void graph_tell(const tnri_listener *listener, const tnri_graph *graph)
{
    const tnri_seen_graph seen = {
        .number = graph->number,
        .name = graph->name,
        .device = graph->device->index,
        .pool = graph->place == NULL ? -1 : (int64_t)graph->place->pool->account.id,
        .is_capturing = graph->is_capturing,
        .blocks = graph->blocks,
        .reused = graph->reused,
        .launches = graph->launches,
        .kept_blocks = graph->holds.count + graph->late.count,
        .kept_bytes = graph->holds_bytes,
        .is_audited = graph->is_audited,
        .found = graph->verdicts[TNR_AUDIT_OWN] + graph->verdicts[TNR_AUDIT_KEPT] +
                 graph->verdicts[TNR_AUDIT_SHARED] + graph->verdicts[TNR_AUDIT_LOOSE] +
                 graph->verdicts[TNR_AUDIT_FREED] + graph->verdicts[TNR_AUDIT_UNMAPPED],
        .own = graph->verdicts[TNR_AUDIT_OWN],
        .kept = graph->verdicts[TNR_AUDIT_KEPT],
        .shared = graph->verdicts[TNR_AUDIT_SHARED],
        .loose = graph->verdicts[TNR_AUDIT_LOOSE],
        .freed = graph->verdicts[TNR_AUDIT_FREED],
        .unmapped = graph->verdicts[TNR_AUDIT_UNMAPPED],
        .unread = graph->unread,
    };
    listener->graph(listener->user, &seen);
    holds_tell(listener, TNRI_WAIT_GRAPH, graph->number, &graph->holds);
    holds_tell(listener, TNRI_WAIT_GRAPH, graph->number, &graph->late);
}

void tnri_graphs_describe(const tnri_listener *listener)
{
    for (const tnri_graph *graph = NULL; (graph = tnri_graph_walk(graph)) != NULL;) {
        graph_tell(listener, graph);
        const tnri_capture *capture = graph->is_capturing ? tnri_capture_of(graph) : NULL;
        if (capture != NULL)
            holds_tell(listener, TNRI_WAIT_CAPTURE, graph->number, &capture->kept);
    }
    for (tnri_place *place = NULL; (place = tnri_place_walk(place)) != NULL;)
        for (const tnri_captured *kept = place->kept; kept != NULL; kept = kept->next)
            hold_tell(listener, TNRI_WAIT_CAPTURE, kept->graph, &kept->uses);
}
