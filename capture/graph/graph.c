/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs and what is kept for them: see graph.h. */
#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>

#include "memory/arena/world_retired.h"
#include "base/array.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "graph/nodes.h"
#include "graph/threat.h"
#include "memory/pool/graph_lock.h"
#include "order/hold.h"
#include "api/library.h"
#include "api/pool_end.h"

/* tnri_tether.state */
enum { TIED, LET_GO, GIVEN_UP };

static tnri_graph *graphs;                /* alive, newest first; the graph lock */
static tnri_table numbered;               /* the same by number; the graph lock */
static tnr_graph number_last;             /* the graph lock */
static tnri_tether *unreleased;           /* of which the driver would not let go; the graph lock */
static _Atomic uint32_t unreleased_count; /* 1: there are some */
static _Atomic uint32_t let_go_count;     /* tethers let go of since the last look */
static _Atomic uint32_t
    orphans_count; /* private places that no graph needs; written under the graph lock */

/* ---- places --------------------------------------------------------------------------------- */

static void place_join(tnri_place *place)
{
    place->graphs_count++;
    atomic_fetch_add(&place->pool->keepers, 1);
}

static void place_part(tnri_place *place)
{
    place->graphs_count--;
    atomic_fetch_sub(&place->pool->keepers, 1);
    atomic_store(&orphans_count, 1); /* perhaps: tnri_orphans_end counts */
}

tnri_place *tnri_graph_places(const tnri_graph *graph, const tnri_place *place)
{
    if (place == NULL)
        return graph->place;
    return place == graph->place ? graph->beside : place->beside;
}

tnri_place *tnri_graph_place_on(const tnri_graph *graph, const tnri_device *device)
{
    tnri_place *place = NULL;
    while ((place = tnri_graph_places(graph, place)) != NULL && place->pool->device != device)
        ;
    return place;
}

int tnri_graph_has_place(const tnri_graph *graph, const tnri_place *place)
{
    return tnri_graph_place_on(graph, place->pool->device) == place;
}

tnr_status tnri_graph_place_add(tnri_graph *graph, tnri_device *device, tnri_place **place)
{
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.name = graph->name;
    tnr_status status = tnri_place_make(device, &options, 1, place);
    if (status != TNR_OK)
        return status;
    place_join(*place);
    (*place)->captures_count++;
    (*place)->beside = graph->beside;
    graph->beside = *place;
    return TNR_OK;
}

void tnri_graph_place_remove(tnri_graph *graph)
{
    tnri_place *place = graph->beside;
    graph->beside = place->beside;
    place->beside = NULL;
    place_part(place);
    tnri_orphans_end();
}

/* ---- making --------------------------------------------------------------------------------- */

tnri_graph *tnri_graph_make(tnri_device *device, tnri_place *place, const char *name)
{
    tnri_assert(tnri_graph_lock_depth() > 0);
    tnri_graph *graph = tnri_host_alloc(sizeof(*graph));
    tnri_tether *tether = tnri_host_alloc(sizeof(*tether));
    if (graph == NULL || tether == NULL) {
        tnri_host_free(graph, sizeof(*graph));
        tnri_host_free(tether, sizeof(*tether));
        return NULL;
    }
    graph->number = ++number_last;
    graph->device = device;
    graph->place = place;
    graph->tether = tether;
    if (name != NULL)
        snprintf(graph->name, sizeof(graph->name), "%s", name);
    else
        snprintf(graph->name, sizeof(graph->name), "graph %llu", (unsigned long long)graph->number);
    if (place != NULL)
        place_join(place);
    graph->link.key = graph->number;
    tnri_table_add(&numbered, &graph->link);
    graph->next = graphs;
    if (graphs != NULL)
        graphs->prev = graph;
    graphs = graph;
    return graph;
}

tnri_graph *tnri_graph_walk(const tnri_graph *graph)
{
    return graph == NULL ? graphs : graph->next;
}

tnri_graph *tnri_graph_find(tnr_graph number)
{
    return (tnri_graph *)*tnri_table_at(&numbered, number);
}

tnr_status tnri_graph_named(tnr_graph number, tnri_graph **graph)
{
    *graph = tnri_graph_find(number);
    if (*graph != NULL)
        return TNR_OK;
    return tnri_error(TNR_ERR_INVALID_GRAPH,
                      number == 0 || number > number_last
                          ? "there is no graph %llu: no such number was given out."
                          : "graph %llu has ended: its CUDA graph and executables were destroyed.",
                      (unsigned long long)number);
}

/* ---- the tether ----------------------------------------------------------------------------- */

/* The user object's destructor: on any thread, where no CUDA call is allowed. */
static void tether_let_go(void *of)
{
    tnri_tether *tether = of;
    int before = atomic_exchange(&tether->state, LET_GO);
    if (before == GIVEN_UP)
        tnri_host_free(tether, sizeof(*tether));
    else
        atomic_fetch_add(&let_go_count, 1);
}

int tnri_graph_is_let_go(const tnri_graph *graph)
{
    return graph->is_tied && atomic_load(&graph->tether->state) == LET_GO;
}

tnr_status tnri_graph_tie(tnri_graph *graph, CUgraph cuda_graph)
{
    CUuserObject object;
    CUresult result = tnri_gpu_tether_make(&object, graph->tether, tether_let_go);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_TETHER_MAKE, "following the life of a graph");
    graph->is_tied = 1;
    result = tnri_gpu_tether_give(cuda_graph, object);
    if (result == CUDA_SUCCESS)
        return TNR_OK;
    tnr_status status =
        tnri_driver_error(result, TNRI_GPU_TETHER_GIVE, "following the life of a graph");
    /* Runs the destructor, now or later. If that is refused, it is tried again. */
    if (tnri_gpu_tether_drop(object) != CUDA_SUCCESS)
        graph->tether->object = object;
    return status;
}

void tnri_graph_discard(tnri_graph *graph, CUgraph cuda_graph)
{
    if (tnri_gpu_graph_end(cuda_graph) != CUDA_SUCCESS)
        graph->tether->doomed = cuda_graph;
}

/* Tries once more. 0: refused again. The destructor may free the tether inside the calls. */
static int tether_retry(tnri_tether *tether)
{
    CUuserObject object = tether->object;
    if (tether->doomed != NULL) {
        int is_tied = tether->is_tied;
        if (tnri_gpu_graph_end(tether->doomed) != CUDA_SUCCESS)
            return 0;
        if (!is_tied)
            tnri_host_free(tether, sizeof(*tether));
        if (object == NULL)
            return 1;
        tether->doomed = NULL;
    }
    return tnri_gpu_tether_drop(object) == CUDA_SUCCESS;
}

static void unreleased_retry(void)
{
    tnri_tether *list = unreleased;
    unreleased = NULL;
    while (list != NULL) {
        tnri_tether *tether = list;
        list = tether->next;
        if (tether_retry(tether))
            continue;
        tether->next = unreleased;
        unreleased = tether;
    }
    atomic_store(&unreleased_count, unreleased != NULL);
}

/* Gives up the tether: the second of the driver and this frees it. */
static void tether_give_up(tnri_graph *graph)
{
    tnri_tether *tether = graph->tether;
    graph->tether = NULL;
    int is_unreleased = tether->object != NULL || tether->doomed != NULL;
    if (is_unreleased) {
        tether->is_tied = graph->is_tied;
        tether->next = unreleased;
        unreleased = tether;
        atomic_store(&unreleased_count, 1);
    }
    int is_last = !graph->is_tied || atomic_exchange(&tether->state, GIVEN_UP) == LET_GO;
    if (is_last && !is_unreleased)
        tnri_host_free(tether, sizeof(*tether));
}

/* ---- holds ---------------------------------------------------------------------------------- */

/* 1 if the block is of `of`, which is an arena or a device. */
static int uses_are_of(const tnri_uses *uses, const void *of)
{
    return uses->arena == of || uses->arena->device == of;
}

int tnri_holds_are_of(const tnri_set *holds, const void *of)
{
    for (size_t i = 0; i < holds->count; i++)
        if (uses_are_of(holds->members[i], of))
            return 1;
    return 0;
}

int tnri_graph_keeps_of(const tnri_graph *graph, const void *of)
{
    return tnri_holds_are_of(&graph->holds, of) || tnri_holds_are_of(&graph->late, of);
}

/* Notes that a block of the pool is kept; 0 if there is no host memory. */
static int graph_note_pool(tnri_graph *graph, tnr_pool pool)
{
    tnri_place *own = tnri_graph_place_on(graph, pool->device);
    if ((own != NULL && own->pool == pool) || tnri_set_has(&graph->outside, pool))
        return 1;
    if (!tnri_set_reserve(&graph->outside))
        return 0;
    tnri_set_add(&graph->outside, pool);
    return 1;
}

/* The same of all that a set holds. */
static int graph_note_pools(tnri_graph *graph, const tnri_set *holds)
{
    int ok = 1;
    for (size_t i = 0; i < holds->count; i++) {
        const tnri_uses *uses = holds->members[i];
        ok &= graph_note_pool(graph, uses->arena->pool);
    }
    return ok;
}

tnr_status tnri_graph_hold(tnri_graph *graph, tnri_arena *arena, tnri_block *block)
{
    tnri_uses *uses;
    tnri_assert_held(&arena->lock);
    if (block->uses != NULL && tnri_set_has(&graph->holds, block->uses))
        return TNR_OK;
    if (!tnri_set_reserve(&graph->holds) || !graph_note_pool(graph, arena->pool))
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory to keep a block for a graph.");
    tnr_status status = tnri_hold_add(arena, block, &uses);
    if (status == TNR_OK) {
        tnri_set_add(&graph->holds, uses);
        graph->holds_bytes += block->bytes;
    }
    return status;
}

void tnri_holds_let_go(tnri_device *device, tnri_set *holds)
{
    tnri_visit visit;
    int is_inside = holds->count > 0 && tnri_device_enter(device, &visit) == TNR_OK;
    for (size_t i = 0; i < holds->count; i++)
        tnri_hold_end(holds->members[i]); /* what fails is tried again later */
    if (is_inside)
        tnri_device_leave(&visit);
    tnri_set_free(holds);
}

/* Lets go what was taken over and is held by the graph besides: no block is kept twice. */
static void late_thin(tnri_graph *graph)
{
    size_t count = graph->late.count;
    tnri_set_empty(&graph->late);
    for (size_t i = 0; i < count; i++) {
        tnri_uses *uses = graph->late.members[i];
        if (!tnri_set_has(&graph->holds, uses)) {
            tnri_set_add(&graph->late, uses);
            continue;
        }
        graph->holds_bytes -= uses->bytes;
        tnri_hold_end(uses); /* not the last one */
    }
}

void tnri_graph_take_holds(tnri_graph *graph, tnri_set *holds)
{
    tnri_assert(graph->late.count == 0);
    graph->late = *holds;
    *holds = (tnri_set){0};
    for (size_t i = 0; i < graph->late.count; i++) {
        const tnri_uses *uses = graph->late.members[i];
        graph->holds_bytes += uses->bytes;
    }
    late_thin(graph);
    if (!graph_note_pools(graph, &graph->late))
        graph->is_doubtful = 1;
}

/* Takes the members out of a set that are blocks of an arena or a device, and gives them up. */
static void set_let_go_of(tnri_graph *graph, tnri_set *holds, const void *of)
{
    size_t count = holds->count;
    tnri_set_empty(holds);
    for (size_t i = 0; i < count; i++) {
        tnri_uses *uses = holds->members[i];
        if (!uses_are_of(uses, of)) {
            tnri_set_add(holds, uses);
            continue;
        }
        graph->holds_bytes -= uses->block->bytes;
        tnri_hold_end(uses); /* what fails is tried again later */
    }
}

void tnri_graph_let_go_of(tnri_graph *graph, const void *of)
{
    set_let_go_of(graph, &graph->holds, of);
    set_let_go_of(graph, &graph->late, of);
    tnri_set_empty(&graph->outside);
    (void)graph_note_pools(graph, &graph->holds);
    (void)graph_note_pools(graph, &graph->late); /* those that are left fit */
}

/* The nodes have been read after all: lets go what was taken over. */
static void late_drop(tnri_graph *graph)
{
    for (size_t i = 0; i < graph->late.count; i++) {
        const tnri_uses *uses = graph->late.members[i];
        graph->holds_bytes -= uses->bytes;
    }
    tnri_holds_let_go(graph->device, &graph->late);
    /* Pools of which nothing is kept any more may end. Those that are left fit. */
    tnri_set_empty(&graph->outside);
    (void)graph_note_pools(graph, &graph->holds);
}

/* The block that contains the address, if it is live, or freed and held; else null. Under the
 * arena's lock. */
static tnri_block *block_to_hold(tnri_arena *arena, tnri_block *near, uintptr_t address)
{
    tnri_block *block = tnri_arena_containing(arena, address);
    if (block != NULL)
        return block;
    block = tnri_world_find(near->world, near, address);
    if (block != NULL && block->state == TNRI_RETIRED && block->uses != NULL &&
        block->uses->is_freed && block->uses->holds > 0)
        return block;
    return NULL;
}

/* One address that a node refers to: its block is kept unless it was handed out in the graph's own
 * capture, or the caller vouches for the order of what uses it. */
static tnr_status hold_address(void *of, const tnri_node_address *found)
{
    tnri_graph *graph = of;
    tnri_device *device;
    const tnri_space *space = tnri_space_of(found->address, &device);
    if (space == NULL || tnri_graph_meets(graph, found->address, found->address + 1))
        return TNR_OK;
    tnr_status status = TNR_OK;
    tnri_device_look_begin(device);
    tnri_block *near = tnri_block_map_near(&space->map, found->address);
    if (near != NULL) {
        tnri_arena *arena = near->world->arena;
        tnri_arena_enter(arena);
        tnri_block *block = block_to_hold(arena, near, found->address);
        if (block != NULL && !arena->account->is_vouched)
            status = tnri_graph_hold(graph, arena, block);
        tnri_arena_leave(arena);
    }
    tnri_device_look_end(device);
    return status;
}

tnr_status tnri_graph_hold_all(tnri_graph *graph, CUgraph cuda_graph, int *is_read)
{
    tnri_nodes_sums sums = {0};
    tnr_status status = tnri_nodes_walk(cuda_graph, 0, hold_address, graph, &sums);
    *is_read = status == TNR_OK && sums.unread == 0;
    if (graph->late.count > 0 && *is_read)
        late_drop(graph);
    else if (graph->late.count > 0)
        late_thin(graph);
    return status;
}

/* ---- footprint ------------------------------------------------------------------------------ */

static int range_compare(const void *a, const void *b)
{
    uintptr_t left = ((const tnri_range *)a)->base, right = ((const tnri_range *)b)->base;
    return (left > right) - (left < right);
}

void tnri_graph_ranges_settle(tnri_graph *graph)
{
    if (graph->ranges_count == 0)
        return;
    qsort(graph->ranges, graph->ranges_count, sizeof(graph->ranges[0]), range_compare);
    size_t last = 0;
    for (size_t i = 1; i < graph->ranges_count; i++) {
        tnri_range *into = &graph->ranges[last];
        const tnri_range *from = &graph->ranges[i];
        if (from->base > into->end)
            graph->ranges[++last] = *from;
        else if (from->end > into->end)
            into->end = from->end;
    }
    graph->ranges_count = last + 1;
}

int tnri_graph_note(tnri_graph *graph, uintptr_t base, size_t bytes)
{
    /* Memory that is handed out again and again makes few ranges: they are merged before the list
     * would grow. */
    if (graph->ranges_count == graph->ranges_room) {
        tnri_graph_ranges_settle(graph);
        if (graph->ranges_count * 2 >= graph->ranges_room &&
            !TNRI_ARRAY_GROW(graph->ranges, graph->ranges_room, graph->ranges_room * 2 + 32) &&
            graph->ranges_count == graph->ranges_room)
            return 0;
    }
    graph->ranges[graph->ranges_count++] = (tnri_range){base, base + bytes};
    return 1;
}

int tnri_graph_meets(const tnri_graph *graph, uintptr_t base, uintptr_t end)
{
    size_t low = 0, high = graph->ranges_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (graph->ranges[middle].end <= base)
            low = middle + 1;
        else
            high = middle;
    }
    return low < graph->ranges_count && graph->ranges[low].base < end;
}

/* ---- the end -------------------------------------------------------------------------------- */

void tnri_graph_end(tnri_graph *graph)
{
    tnri_assert(tnri_graph_lock_depth() > 0);
    tnri_table_remove(&numbered, tnri_table_at(&numbered, graph->number));
    if (graph->prev != NULL)
        graph->prev->next = graph->next;
    else
        graphs = graph->next;
    if (graph->next != NULL)
        graph->next->prev = graph->prev;
    tnri_threats_forget(graph->number);
    tnri_holds_let_go(graph->device, &graph->holds);
    tnri_holds_let_go(graph->device, &graph->late);
    tnri_set_free(&graph->outside);
    tnri_host_free(graph->ranges, graph->ranges_room * sizeof(graph->ranges[0]));
    tether_give_up(graph);
    for (tnri_place *place = NULL; (place = tnri_graph_places(graph, place)) != NULL;)
        place_part(place);
    tnri_host_free(graph, sizeof(*graph));
}

/* 1 if a place has no reason to be but blocks that are live. */
static int place_is_orphan(const tnri_place *place)
{
    return place->is_private && place->graphs_count == 0 && place->visitors_count == 0;
}

void tnri_orphans_end(void)
{
    uint32_t left = 0;
    tnri_place *next;
    if (tnri_graph_lock_depth() > 1) /* a callback: somebody works on a place */
        return;
    for (tnri_place *place = tnri_place_walk(NULL); place != NULL; place = next) {
        next = tnri_place_walk(place);
        tnri_visit visit;
        if (!place_is_orphan(place))
            continue;
        left++;
        if (tnri_device_enter(place->pool->device, &visit) != TNR_OK)
            continue;
        tnr_pool pool = place->pool;
        if (tnri_pool_hold(pool)) {
            if (tnri_pool_end(pool, 0) == TNR_OK) /* frees the place */
                left--;
            else
                tnri_pool_drop(pool);
        }
        tnri_device_leave(&visit);
    }
    atomic_store(&orphans_count, left);
}

void tnri_graphs_settle(void)
{
    if (atomic_load(&let_go_count) == 0 && atomic_load(&orphans_count) == 0 &&
        atomic_load(&unreleased_count) == 0)
        return;
    if (tnri_graph_lock() == 0) {
        unreleased_retry();
        atomic_store(&let_go_count, 0);
        tnri_graph *next;
        for (tnri_graph *graph = graphs; graph != NULL; graph = next) {
            next = graph->next;
            if (graph->is_tied && !graph->is_capturing &&
                atomic_load(&graph->tether->state) == LET_GO)
                tnri_graph_end(graph);
        }
        tnri_orphans_end();
    }
    tnri_graph_unlock();
}
