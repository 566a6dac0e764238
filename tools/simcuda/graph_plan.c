/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a graph is run: its nodes, children's included, as steps in paths.
 *
 * A path is a chain along edges, or along what edges imply. So running a path as a stream adds no
 * order that the graph does not have: two steps without order are always in different paths. If an
 * edge leads from one path to another, the later step waits for the earlier one, unless its path is
 * already ordered after that one.
 *
 * A kernel with an edge from a port has three steps: it may begin, it runs, it is over. One that
 * comes after another's port may begin as soon as the other may, so it comes after whatever the
 * other comes after in full. When it waits for the other is between the two kernels, so here it
 * never does. It is over after the other is, if the edge is programmatic: such a kernel takes part
 * in the order of its stream, and a capture has no other edge from the first to what comes third.
 *
 * A step knows, for each of the first KNOWN_PATHS paths, how far along the path its ancestors are.
 * That finds paths that have come to an end before the step, so a row of forks and joins needs no
 * more paths than one of them. It also finds waits that other waits imply. For the other paths
 * nothing is known: then more paths and more waits are made, which is correct too.
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#define KNOWN_PATHS ((size_t)256)
#define KNOWN_LIMIT ((size_t)1 << 24) /* entries of all steps together */

struct edge {
    uint32_t from;
    uint32_t to;
};

/* What is needed while a plan is made. */
struct maker {
    struct sim_plan *plan;
    struct edge *edge;
    size_t edge_count;
    size_t edge_room;
    uint32_t *after; /* steps that depend on a step, by first_after */
    size_t *first_after;
    uint32_t *before;     /* steps that a step depends on, by first_before, in the plan's order */
    size_t *first_before; /* one more than there are steps */
    uint32_t **known;     /* by step, positions by path */
    size_t *known_count;  /* entries of known[step] */
    size_t known_total;
    uint32_t merged[KNOWN_PATHS];
};

/* ---- steps and edges ------------------------------------------------------------------------ */

/* 1 if the edge says that a node has ended before the later one begins. */
static int is_full(const CUgraphEdgeData *data)
{
    return data->from_port == 0;
}

/* 1 if the earlier node has ended when the later one has. */
static int ends_before(const CUgraphEdgeData *data)
{
    return data->from_port != CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER;
}

static int has_ports(const struct sim_node *node)
{
    for (size_t i = 0; i < node->before.count; i++)
        if (!is_full(&node->before.data[i]))
            return 1;
    for (size_t i = 0; i < node->after.count; i++)
        if (!is_full(&node->after.data[i]))
            return 1;
    return 0;
}

static size_t steps_count(const struct sim_graph *graph)
{
    size_t count = 0;
    for (const struct sim_node *node = graph->first; node != NULL; node = node->next)
        count += node->child != NULL ? 2 + steps_count(node->child) : has_ports(node) ? 3 : 1;
    return count;
}

static void step_set(struct maker *maker, size_t step, struct sim_node *node, size_t number)
{
    maker->plan->step[step].node = node;
    maker->plan->step[step].number = (uint32_t)number;
}

/* Gives the nodes their steps, from one on; the first that is left. */
static size_t steps_assign(struct maker *maker, const struct sim_graph *graph, size_t next)
{
    size_t number = 0;
    for (struct sim_node *node = graph->first; node != NULL; node = node->next) {
        number++;
        node->first_step = next++;
        node->last_step = node->first_step;
        if (node->child == NULL && has_ports(node)) {
            step_set(maker, node->first_step + 1, node, number);
            node->last_step = node->first_step + 2;
            next = node->last_step + 1;
        } else if (node->child == NULL) {
            step_set(maker, node->first_step, node, number);
        } else {
            next = steps_assign(maker, node->child, next);
            node->last_step = next++;
        }
    }
    return next;
}

static int edge_note(struct maker *maker, size_t from, size_t to)
{
    struct edge *larger =
        sim_grow(maker->edge, &maker->edge_room, maker->edge_count + 1, sizeof(*larger));
    if (larger == NULL)
        return 0;
    maker->edge = larger;
    larger[maker->edge_count++] = (struct edge){(uint32_t)from, (uint32_t)to};
    return 1;
}

static int edges_note(struct maker *maker, const struct sim_graph *graph);

static int ends_before_any(const struct sim_edges *after)
{
    int any = 0;
    for (size_t i = 0; i < after->count; i++)
        any = any || ends_before(&after->data[i]);
    return any;
}

/* A child's roots come after its first step, and its last step after the child's ends. */
static int child_note(struct maker *maker, const struct sim_node *node)
{
    int good = edges_note(maker, node->child) &&
               (node->child->first != NULL || edge_note(maker, node->first_step, node->last_step));
    for (const struct sim_node *inner = node->child->first; good && inner; inner = inner->next) {
        if (inner->before.count == 0)
            good = edge_note(maker, node->first_step, inner->first_step);
        if (good && !ends_before_any(&inner->after))
            good = edge_note(maker, inner->last_step, node->last_step);
    }
    return good;
}

static int node_note(struct maker *maker, const struct sim_node *to)
{
    int good = 1;
    for (size_t i = 0; good && i < to->before.count; i++) {
        const struct sim_node *from = to->before.node[i];
        const CUgraphEdgeData *data = &to->before.data[i];
        if (is_full(data))
            good = edge_note(maker, from->last_step, to->first_step);
        else
            good = edge_note(maker, from->first_step, to->first_step) &&
                   (!ends_before(data) || edge_note(maker, from->last_step, to->last_step));
    }
    if (good && to->child == NULL && to->first_step != to->last_step)
        good = edge_note(maker, to->first_step, to->first_step + 1) &&
               edge_note(maker, to->first_step + 1, to->last_step);
    return good;
}

static int edges_note(struct maker *maker, const struct sim_graph *graph)
{
    int good = 1;
    for (const struct sim_node *node = graph->first; good && node != NULL; node = node->next)
        good = node_note(maker, node) && (node->child == NULL || child_note(maker, node));
    return good;
}

/* ---- order ---------------------------------------------------------------------------------- */

static void edges_sort(struct maker *maker)
{
    struct sim_plan *plan = maker->plan;
    for (size_t i = 0; i < maker->edge_count; i++) {
        plan->step[maker->edge[i].from].after++;
        plan->step[maker->edge[i].to].before++;
    }
    size_t after = 0;
    size_t before = 0;
    for (size_t i = 0; i < plan->step_count; i++) {
        maker->first_after[i] = after;
        maker->first_before[i] = before;
        after += plan->step[i].after;
        before += plan->step[i].before;
        plan->step[i].after = 0;
    }
    maker->first_before[plan->step_count] = before;
    for (size_t i = 0; i < maker->edge_count; i++) {
        uint32_t from = maker->edge[i].from;
        maker->after[maker->first_after[from] + plan->step[from].after++] = maker->edge[i].to;
    }
}

/* Fills order, and before in that order; 0 if there is a cycle. */
static int order_make(struct maker *maker, uint32_t *missing)
{
    struct sim_plan *plan = maker->plan;
    size_t count = 0;
    for (size_t i = 0; i < plan->step_count; i++) {
        missing[i] = plan->step[i].before;
        if (missing[i] == 0)
            plan->order[count++] = (uint32_t)i;
    }
    for (size_t done = 0; done < count; done++) {
        /* Which way becomes the first path is drawn: it may have much to do with what runs when. */
        size_t left = count - done;
        size_t drawn = done + (left > 1 ? (size_t)sim_schedule_draw(left) : 0);
        uint32_t taken = plan->order[drawn];
        plan->order[drawn] = plan->order[done];
        plan->order[done] = taken;
        for (size_t i = 0; i < plan->step[taken].after; i++) {
            uint32_t to = maker->after[maker->first_after[taken] + i];
            size_t nth = plan->step[to].before - missing[to];
            maker->before[maker->first_before[to] + nth] = taken;
            if (--missing[to] == 0)
                plan->order[count++] = to;
        }
    }
    return count == plan->step_count;
}

/* ---- paths ---------------------------------------------------------------------------------- */

static struct sim_context *step_context(const struct sim_step *step)
{
    return step->node == NULL ? NULL : step->node->context;
}

static int path_fits(const struct sim_path *path, const struct sim_step *step)
{
    const struct sim_context *context = step_context(step);
    return path->context == NULL || context == NULL || path->context == context;
}

/* Adds what a step knows, itself included, to merged. */
static void known_merge(struct maker *maker, uint32_t from)
{
    const struct sim_step *step = &maker->plan->step[from];
    for (size_t i = 0; i < maker->known_count[from]; i++)
        if (maker->known[from][i] > maker->merged[i])
            maker->merged[i] = maker->known[from][i];
    if (step->path < KNOWN_PATHS && maker->merged[step->path] < step->position)
        maker->merged[step->path] = step->position;
}

static void known_keep(struct maker *maker, uint32_t step)
{
    size_t count = maker->plan->path_count < KNOWN_PATHS ? maker->plan->path_count : KNOWN_PATHS;
    if (maker->known_total + count > KNOWN_LIMIT)
        return;
    maker->known[step] = malloc(count * sizeof(**maker->known));
    if (maker->known[step] == NULL)
        return; /* knowing nothing is allowed */
    memcpy(maker->known[step], maker->merged, count * sizeof(**maker->known));
    maker->known_count[step] = count;
    maker->known_total += count;
}

/* A path that the step can go on with: best one of a step that it depends on; else a new one. */
static size_t path_choose(struct maker *maker, uint32_t at)
{
    const struct sim_plan *plan = maker->plan;
    const struct sim_step *step = &plan->step[at];
    memset(maker->merged, 0, sizeof(maker->merged));
    for (size_t i = maker->first_before[at]; i < maker->first_before[at + 1]; i++) {
        const struct sim_step *from = &plan->step[maker->before[i]];
        if (plan->path[from->path].tail == maker->before[i] &&
            path_fits(&plan->path[from->path], step))
            return from->path;
        known_merge(maker, maker->before[i]);
    }
    size_t looked = plan->path_count < KNOWN_PATHS ? plan->path_count : KNOWN_PATHS;
    for (size_t i = 0; i < looked && step->before != 0; i++)
        if (maker->merged[i] == plan->path[i].length && path_fits(&plan->path[i], step))
            return i;
    return plan->path_count;
}

static void wait_note(struct maker *maker, struct sim_step *step, uint32_t from)
{
    struct sim_plan *plan = maker->plan;
    plan->wait[plan->wait_count++] = from;
    step->waits++;
    plan->path[step->path].room++;
    if (!plan->step[from].is_marked) {
        plan->step[from].is_marked = 1;
        plan->path[plan->step[from].path].room++;
    }
}

/* Appends a step to a path, and finds what of other paths it must wait for. */
static void path_append(struct maker *maker, uint32_t at, size_t chosen)
{
    struct sim_plan *plan = maker->plan;
    struct sim_step *step = &plan->step[at];
    struct sim_path *path = &plan->path[chosen];
    memset(maker->merged, 0, sizeof(maker->merged));
    if (path->length != 0)
        known_merge(maker, (uint32_t)path->tail);
    step->path = (uint32_t)chosen;
    step->position = ++path->length;
    step->first_wait = plan->wait_count;
    path->tail = at;
    path->room += 2; /* itself, and a wait for the launch's beginning */
    path->context = path->context != NULL ? path->context : step_context(step);
    /* The latest first: those that come before one waited for need no wait of their own. */
    for (size_t i = maker->first_before[at + 1]; i-- > maker->first_before[at];) {
        const struct sim_step *from = &plan->step[maker->before[i]];
        int known = from->path < KNOWN_PATHS && maker->merged[from->path] >= from->position;
        if (from->path != chosen && !known)
            wait_note(maker, step, maker->before[i]);
        known_merge(maker, maker->before[i]);
    }
    if (chosen < KNOWN_PATHS)
        maker->merged[chosen] = step->position;
    known_keep(maker, at);
}

static int paths_make(struct maker *maker)
{
    struct sim_plan *plan = maker->plan;
    for (size_t i = 0; i < plan->step_count; i++) {
        size_t chosen = path_choose(maker, plan->order[i]);
        if (chosen == plan->path_count) {
            struct sim_path *larger =
                sim_grow(plan->path, &plan->path_room, plan->path_count + 1, sizeof(*larger));
            if (larger == NULL)
                return 0;
            plan->path = larger;
            larger[plan->path_count++] = (struct sim_path){.context = NULL};
        }
        path_append(maker, plan->order[i], chosen);
    }
    /* The launch ends after all ends. */
    for (size_t i = 0; i < plan->step_count; i++) {
        struct sim_step *step = &plan->step[i];
        plan->end_count += step->after == 0;
        if (step->after == 0 && !step->is_marked) {
            step->is_marked = 1;
            plan->path[step->path].room++;
        }
    }
    return 1;
}

/* ---- plans ---------------------------------------------------------------------------------- */

static int maker_begin(struct maker *maker, const struct sim_graph *graph)
{
    struct sim_plan *plan = maker->plan;
    plan->step_count = steps_count(graph);
    plan->step = calloc(plan->step_count + 1, sizeof(*plan->step));
    if (plan->step == NULL)
        return 0;
    (void)steps_assign(maker, graph, 0);
    if (!edges_note(maker, graph))
        return 0;
    size_t steps = plan->step_count + 1;
    plan->order = calloc(steps, sizeof(*plan->order));
    maker->after = calloc(maker->edge_count + 1, sizeof(*maker->after));
    maker->first_after = calloc(steps, sizeof(*maker->first_after));
    plan->wait = calloc(maker->edge_count + 1, sizeof(*plan->wait));
    maker->before = calloc(maker->edge_count + 1, sizeof(*maker->before));
    maker->first_before = calloc(steps, sizeof(*maker->first_before));
    maker->known = calloc(steps, sizeof(*maker->known));
    maker->known_count = calloc(steps, sizeof(*maker->known_count));
    return plan->order != NULL && plan->wait != NULL && maker->before != NULL &&
           maker->after != NULL && maker->first_after != NULL && maker->first_before != NULL &&
           maker->known != NULL && maker->known_count != NULL;
}

static void maker_end(struct maker *maker)
{
    for (size_t i = 0; maker->known != NULL && i < maker->plan->step_count; i++)
        free(maker->known[i]);
    free(maker->known);
    free(maker->known_count);
    free(maker->edge);
    free(maker->after);
    free(maker->first_after);
    free(maker->before);
    free(maker->first_before);
}

static CUresult maker_run(struct maker *maker, const struct sim_graph *graph)
{
    if (!maker_begin(maker, graph))
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint32_t *missing = calloc(maker->plan->step_count + 1, sizeof(*missing));
    if (missing == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    edges_sort(maker);
    int acyclic = order_make(maker, missing);
    free(missing);
    if (!acyclic)
        return CUDA_ERROR_INVALID_VALUE;
    return paths_make(maker) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* A cycle is CUDA_ERROR_INVALID_VALUE. */
CUresult sim_plan_make(struct sim_graph *graph, struct sim_plan *plan)
{
    struct maker *maker = calloc(1, sizeof(*maker));
    if (maker == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(plan, 0, sizeof(*plan));
    maker->plan = plan;
    CUresult result = maker_run(maker, graph);
    maker_end(maker);
    free(maker);
    if (result != CUDA_SUCCESS)
        sim_plan_free(plan);
    return result;
}

void sim_plan_free(struct sim_plan *plan)
{
    free(plan->step);
    free(plan->path);
    free(plan->order);
    free(plan->wait);
    memset(plan, 0, sizeof(*plan));
}
