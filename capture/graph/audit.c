/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit: see audit.h.
 *
 * To judge an address, the audit must know which arena it belongs to. The block map alone cannot
 * say: an address in a stale graph may lead to the record of an arena that another thread is just
 * taking down. So the audit holds the pools for as long as it takes, and puts their spans in a
 * sorted list.
 */
#include "graph/audit.h"

#include <stdlib.h>
#include <string.h>

#include "api/library.h"
#include "base/array.h"
#include "base/prim/calm.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "memory/arena/world_retired.h"
#include "memory/device/chunk.h"
#include "memory/pool/asleep.h"
#include "memory/pool/graph_lock.h"

/* Addresses that belong to something: a span to its arena, a kept block to the graph. */
typedef struct region {
    uintptr_t base, end;
    tnri_arena *arena;
} region;

typedef struct regions {
    region *list; /* sorted once it is complete; disjoint */
    size_t count, room;
} regions;

/* What addresses are judged by. */
typedef struct judge {
    tnri_graph *graph; /* null: none */
    regions spans, kept;
    tnr_pool *pools; /* held */
    size_t pools_count, pools_room;
} judge;

/* ---- regions -------------------------------------------------------------------------------- */

static int regions_add(regions *to, uintptr_t base, size_t bytes, tnri_arena *arena)
{
    if (!TNRI_ARRAY_GROW(to->list, to->room, to->count + 1))
        return 0;
    to->list[to->count++] = (region){base, base + bytes, arena};
    return 1;
}

static int region_compare(const void *a, const void *b)
{
    uintptr_t left = ((const region *)a)->base, right = ((const region *)b)->base;
    return (left > right) - (left < right);
}

static void regions_sort(regions *of)
{
    if (of->count > 1)
        qsort(of->list, of->count, sizeof(of->list[0]), region_compare);
}

static const region *regions_find(const regions *in, uintptr_t address)
{
    size_t low = 0, high = in->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (in->list[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < in->count && in->list[low].base <= address ? &in->list[low] : NULL;
}

/* ---- preparing to judge --------------------------------------------------------------------- */

/* Notes the foreign segments of a world, of which each is a range. Under the lock. */
static int segments_add(judge *self, tnri_arena *arena, const tnri_world *world)
{
    int ok = 1;
    const tnri_space *space = world->space;
    for (size_t i = 0; ok && i < world->spans_count; i++) {
        uintptr_t base = world->span_first[i]->base;
        const tnri_chunk *segment = space->pages[tnri_page_of(space, base)];
        ok = regions_add(&self->spans, base, segment->pages << space->page_shift, arena);
    }
    return ok;
}

static int spans_add(judge *self, tnri_arena *arena)
{
    int ok = 1;
    tnri_arena_enter(arena);
    for (int w = 0; w < TNRI_WORLDS; w++)
        for (const tnri_span *span = arena->worlds[w].spans; ok && span != NULL; span = span->next)
            ok = regions_add(&self->spans, span->base, span->bytes, arena);
    for (int w = 0; w < TNRI_WORLDS && tnri_account_is_foreign(arena->account); w++)
        ok = ok && segments_add(self, arena, &arena->worlds[w]);
    tnri_arena_leave(arena);
    return ok;
}

/* Holds the pools of a device and notes their spans. */
static int pools_add(judge *self, tnri_device *device)
{
    int ok = 1;
    tnr_pool pool = NULL;
    while (ok && (pool = tnri_pool_walk(device, pool)) != NULL) {
        ok = TNRI_ARRAY_GROW(self->pools, self->pools_room, self->pools_count + 1);
        if (ok && !tnri_pool_hold(pool))
            continue; /* it is just ending */
        if (ok) {
            self->pools[self->pools_count++] = pool;
            for (tnri_arena *arena = NULL; ok && (arena = tnri_arena_walk(pool, arena)) != NULL;)
                ok = spans_add(self, arena);
        }
        if (!ok)
            tnri_pool_drop(pool);
    }
    return ok;
}

/* Notes blocks that the graph keeps: live ones, and freed ones that wait for it. */
static int kept_add(judge *self, const tnri_set *holds)
{
    int ok = 1;
    for (size_t i = 0; ok && i < holds->count; i++) {
        const tnri_uses *uses = holds->members[i];
        tnri_arena *arena = uses->arena;
        tnri_arena_enter(arena);
        uintptr_t base = uses->block->base;
        size_t bytes = uses->block->bytes;
        tnri_arena_leave(arena);
        ok = regions_add(&self->kept, base, bytes, arena);
    }
    return ok;
}

static tnr_status judge_begin(judge *self)
{
    int ok = 1;
    tnri_device *device;
    for (int i = 0; (device = tnri_device_nth(i)) != NULL && ok; i++)
        if (atomic_load(&device->in_use))
            ok = pools_add(self, device);
    const tnri_graph *graph = self->graph;
    if (ok && graph != NULL)
        ok = kept_add(self, &graph->holds) && kept_add(self, &graph->late);
    if (!ok)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the audit of a graph.");
    regions_sort(&self->spans);
    regions_sort(&self->kept);
    for (tnri_graph *any = NULL; (any = tnri_graph_walk(any)) != NULL;)
        tnri_graph_ranges_settle(any);
    return TNR_OK;
}

static void judge_end(judge *self)
{
    for (size_t i = 0; i < self->pools_count; i++)
        tnri_pool_drop(self->pools[i]);
    tnri_host_free(self->pools, self->pools_room * sizeof(self->pools[0]));
    tnri_host_free(self->spans.list, self->spans.room * sizeof(self->spans.list[0]));
    tnri_host_free(self->kept.list, self->kept.room * sizeof(self->kept.list[0]));
}

/* ---- judging -------------------------------------------------------------------------------- */

/* The range of a graph that contains the address; null: none does. */
static const tnri_range *range_find(const tnri_graph *graph, uintptr_t address)
{
    size_t low = 0, high = graph->ranges_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (graph->ranges[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < graph->ranges_count && graph->ranges[low].base <= address ? &graph->ranges[low]
                                                                           : NULL;
}

/* Another graph of the same pool whose capture handed the address out; 0: none. */
static tnr_graph sharer_find(const tnri_graph *graph, uintptr_t address)
{
    for (tnri_graph *other = NULL; (other = tnri_graph_walk(other)) != NULL;)
        if (other != graph && other->place == graph->place && range_find(other, address) != NULL)
            return other->number;
    return 0;
}

/* What is at an address, without regard to the graph. */
typedef struct spot {
    tnri_arena *arena; /* null: in none */
    int is_mapped;
    uintptr_t end;   /* of the live block; 0: none */
    tnr_graph graph; /* that the live block was handed out for; 0: none */
} spot;

/* Takes the arena's lock if the arena has the address, not lent; else returns 0. */
static int enter_if_has(tnri_arena *arena, tnri_block *near, uintptr_t address)
{
    const tnri_block *record = NULL;
    tnri_arena_enter(arena);
    for (int w = 0; w < TNRI_WORLDS && record == NULL; w++)
        record = tnri_world_find(&arena->worlds[w], near, address);
    if (record != NULL && record->state != TNRI_LENT)
        return 1;
    tnri_arena_leave(arena);
    return 0;
}

/* The arena that has an address, and its lock, which protects what is there: most likely the one
 * that the map leads to, else the owner of the span, or one that it lent to. Null, and no lock: the
 * address is just on its way between two. */
static tnri_arena *holder_enter(tnri_arena *owner, tnri_block *near, uintptr_t address)
{
    if (near != NULL && enter_if_has(near->world->arena, near, address))
        return near->world->arena;
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(owner->pool, arena)) != NULL;)
        if (enter_if_has(arena, near, address))
            return arena;
    return NULL;
}

static spot spot_look(const judge *self, uintptr_t address, tnr_audit_finding *finding)
{
    spot at = {0};
    finding->block = 0;
    finding->bytes = 0;
    finding->pool = NULL;
    const region *span = regions_find(&self->spans, address);
    if (span == NULL)
        return at;
    finding->pool = tnri_pool_handle(span->arena->pool);
    tnri_device *device = span->arena->device;
    const tnri_space *space = tnri_arena_space(span->arena);
    tnri_device_look_begin(device);
    at.arena = holder_enter(span->arena, tnri_block_map_near(&space->map, address), address);
    if (at.arena == NULL) { /* lent a moment ago, with its memory */
        tnri_device_look_end(device);
        at.arena = span->arena;
        at.is_mapped = 1;
        return at;
    }
    at.is_mapped = space->pages[tnri_page_of(space, address)] != NULL;
    const tnri_block *block = tnri_arena_containing(at.arena, address);
    if (block != NULL) {
        finding->block = block->base;
        finding->bytes = block->bytes;
        at.end = tnri_block_end(block);
        at.is_mapped |= block->state == TNRI_PARKED; /* it has memory before it may be launched */
        const tnri_captured *captured = block->uses == NULL ? NULL : block->uses->captured;
        at.graph = captured == NULL ? 0 : captured->graph;
    }
    tnri_arena_leave(at.arena);
    tnri_device_look_end(device);
    return at;
}

/* Judges the address of a finding. Returns the end of what the verdict is true for, if it is safe;
 * else 0. */
static uintptr_t judge_address(const judge *self, tnr_audit_finding *finding)
{
    const tnri_graph *graph = self->graph;
    spot at = spot_look(self, finding->address, finding);
    const tnri_range *own = graph == NULL ? NULL : range_find(graph, finding->address);
    const region *kept = regions_find(&self->kept, finding->address);
    finding->is_safe = at.is_mapped && (own != NULL || kept != NULL);
    finding->owner = at.graph;
    if (!at.is_mapped) {
        finding->verdict = TNR_AUDIT_UNMAPPED;
    } else if (own != NULL) {
        finding->verdict = TNR_AUDIT_OWN;
        finding->owner = graph->number;
        return own->end;
    } else if (kept != NULL) {
        /* It may have been freed, and is a block no more for anyone else. */
        finding->verdict = TNR_AUDIT_KEPT;
        finding->owner = graph->number;
        finding->block = kept->base;
        finding->bytes = kept->end - kept->base;
        return kept->end;
    } else if (graph != NULL && graph->place != NULL && at.arena == graph->place->arena &&
               (at.graph != 0 || sharer_find(graph, finding->address) != 0)) {
        finding->verdict = TNR_AUDIT_SHARED;
        if (at.graph == 0)
            finding->owner = sharer_find(graph, finding->address);
    } else {
        finding->verdict = at.end != 0 ? TNR_AUDIT_LOOSE : TNR_AUDIT_FREED;
    }
    return 0;
}

/* Judges all that a finding touches. What is reported is the first address that is not safe, else
 * the first. */
static void judge_finding(const judge *self, tnr_audit_finding *finding, size_t extent)
{
    tnr_audit_finding first = *finding;
    uintptr_t end = finding->address + extent;
    uintptr_t reached = judge_address(self, &first);
    *finding = first;
    while (finding->is_safe && reached < end) {
        finding->address = reached;
        reached = judge_address(self, finding);
    }
    if (finding->is_safe)
        *finding = first;
}

/* ---- reports -------------------------------------------------------------------------------- */

static void report_free(tnri_report *report)
{
    tnri_host_free(report->findings, report->findings_room * sizeof(report->findings[0]));
    tnri_host_free(report->extents, report->extents_room * sizeof(report->extents[0]));
}

/* A word of a node: noted if it is an address of Tenure's. Parameters hold numbers, too, whose
 * halves make an address of the device's large range (extents in tensor maps, for one): what was
 * never part of a span cannot have been handed out. */
static tnr_status report_note(void *to, const tnri_node_address *found)
{
    tnri_report *report = to;
    tnri_device *device;
    const tnri_space *space = tnri_space_of(found->address, &device);
    if (space == NULL || (found->place == TNR_AUDIT_KERNEL && space == &device->space &&
                          !tnri_space_was_used(space, found->address)))
        return TNR_OK;
    size_t count = report->findings_count;
    if (!TNRI_ARRAY_GROW(report->findings, report->findings_room, count + 1) ||
        !TNRI_ARRAY_GROW(report->extents, report->extents_room, count + 1))
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the audit of a graph.");
    report->findings[count] = (tnr_audit_finding){.node = found->node,
                                                  .depth = found->depth,
                                                  .kernel = found->kernel,
                                                  .place = found->place,
                                                  .offset = found->offset,
                                                  .address = found->address};
    report->extents[count] = found->bytes;
    report->findings_count++;
    return TNR_OK;
}

static tnr_status report_read(tnri_report *report, CUgraph cuda_graph)
{
    tnri_nodes_sums sums = {0};
    tnr_status status = tnri_nodes_walk(cuda_graph, 1, report_note, report, &sums);
    report->sums = (tnr_audit){.struct_bytes = sizeof(report->sums),
                               .nodes = sums.nodes,
                               .kernels = sums.kernels,
                               .copies = sums.copies,
                               .sets = sums.sets,
                               .others = sums.others,
                               .children = sums.children,
                               .unread = sums.unread};
    memcpy(report->unread, sums.first, sizeof(report->unread));
    return status;
}

/* For pictures. */
static void sums_note(const tnri_report *report, tnri_graph *graph)
{
    memset(graph->verdicts, 0, sizeof(graph->verdicts));
    for (size_t i = 0; i < report->findings_count; i++)
        graph->verdicts[report->findings[i].verdict]++;
    graph->unread = report->sums.unread;
    graph->is_audited = 1;
}

static tnr_status report_judge(tnri_report *report, tnri_graph *graph)
{
    judge self = {.graph = graph};
    tnr_status status = judge_begin(&self);
    for (size_t i = 0; status == TNR_OK && i < report->findings_count; i++) {
        judge_finding(&self, &report->findings[i], report->extents[i]);
        report->sums.proved += report->findings[i].is_safe != 0;
    }
    report->sums.found = report->findings_count;
    report->sums.unproved = report->sums.found - report->sums.proved;
    if (status == TNR_OK && graph != NULL)
        sums_note(report, graph);
    judge_end(&self);
    return status;
}

/* The device whose context the driver is asked in; null if none is in use, and then nothing that it
 * could tell is an address of Tenure's. */
static tnri_device *device_for(const tnri_graph *graph)
{
    if (graph != NULL)
        return graph->device;
    for (int i = 0; i < tnri_devices_count(); i++)
        if (atomic_load(&tnri_device_at(i)->in_use))
            return tnri_device_at(i);
    return NULL;
}

/* Under the graph lock. */
static tnr_status report_fill(tnri_report *report, CUgraph cuda_graph, tnr_graph number)
{
    tnri_graph *graph = NULL;
    tnr_status status = number == 0 ? TNR_OK : tnri_graph_named(number, &graph);
    if (status != TNR_OK)
        return status;
    report->device = -1;
    if (graph != NULL) {
        report->graph = number;
        report->device = graph->device->index;
        memcpy(report->name, graph->name, sizeof(report->name));
    }
    tnri_device *device = device_for(graph);
    tnri_visit visit;
    if (device != NULL)
        status = tnri_device_enter(device, &visit);
    if (status != TNR_OK)
        return status;
    status = report_read(report, cuda_graph);
    if (status == TNR_OK)
        status = report_judge(report, graph);
    if (device != NULL)
        tnri_device_leave(&visit);
    return status;
}

/* Makes a report of a CUDA graph. No lock held. On an error there is nothing to free. */
static tnr_status report_make(CUgraph cuda_graph, tnr_graph number, tnri_report *report)
{
    memset(report, 0, sizeof(*report));
    if (tnri_library_is_forked())
        return tnri_forked_error();
    tnr_status status = tnri_library_start();
    if (status != TNR_OK)
        return status;
    if (!tnri_gpu_has(TNRI_GPU_GRAPH_NODES) || !tnri_gpu_has(TNRI_GPU_NODE_TYPE))
        return tnri_error(TNR_ERR_DRIVER_TOO_OLD, "this driver cannot list the nodes of a graph. "
                                                  "Install a newer NVIDIA driver.");
    tnri_graphs_settle();
    (void)tnri_graph_lock();
    status = report_fill(report, cuda_graph, number);
    tnri_graph_unlock();
    if (status != TNR_OK)
        report_free(report);
    return status;
}

/* ---- public --------------------------------------------------------------------------------- */

tnr_status tnr_graph_audit(tnr_audit *audit, tnr_cuda_graph cuda_graph, tnr_graph graph,
                           tnr_audit_visit visit, void *user)
{
    TNRI_CALM_CALL;
    if (cuda_graph == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "tnr_graph_audit: cuda_graph is null.");
    if (audit == NULL || audit->struct_bytes != sizeof(*audit))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_graph_audit: set audit->struct_bytes to sizeof(tnr_audit).");
    tnri_report report;
    tnr_status status = report_make(cuda_graph, graph, &report);
    if (status != TNR_OK)
        return status;
    *audit = report.sums;
    for (size_t i = 0; visit != NULL && i < report.findings_count; i++)
        visit(&report.findings[i], user);
    report_free(&report);
    return TNR_OK;
}

tnr_status tnr_graph_audit_write(tnr_cuda_graph cuda_graph, tnr_graph graph,
                                 tnr_audit_format format, int file)
{
    TNRI_CALM_CALL;
    if (cuda_graph == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "tnr_graph_audit_write: cuda_graph is null.");
    if (format != TNR_AUDIT_TEXT && format != TNR_AUDIT_JSON)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_graph_audit_write: %d is not a format. Use TNR_AUDIT_TEXT or "
                          "TNR_AUDIT_JSON.",
                          (int)format);
    tnri_report report;
    tnr_status status = report_make(cuda_graph, graph, &report);
    if (status != TNR_OK)
        return status;
    status = tnri_report_write(&report, format, file);
    report_free(&report);
    return status;
}
