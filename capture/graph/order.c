/* SPDX-License-Identifier: Apache-2.0 */
/* Reachability in a graph under construction: see order.h. */
#include "graph/order.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/host_memory.h"

void tnri_order_free(tnri_order *order)
{
    tnri_host_free(order->nodes, order->nodes_room * sizeof(order->nodes[0]));
    tnri_host_free(order->slots, order->slots_count * sizeof(order->slots[0]));
    tnri_host_free(order->edges, order->edges_room * sizeof(order->edges[0]));
    tnri_host_free(order->stack, order->stack_room * sizeof(order->stack[0]));
    for (size_t i = 0; i < order->views_count; i++) {
        tnri_view *view = &order->views[i];
        tnri_host_free(view->frontier, view->frontier_room * sizeof(view->frontier[0]));
        tnri_host_free(view->seen, view->seen_words * sizeof(view->seen[0]));
    }
    memset(order, 0, sizeof(*order));
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static size_t node_slot(const tnri_order *order, CUgraphNode node)
{
    uint64_t mixed = (uint64_t)(uintptr_t)node * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed >> 32) & (order->slots_count - 1);
}

/* The slot that holds the node, or the empty one where it would be. */
static size_t node_find(const tnri_order *order, CUgraphNode node)
{
    size_t slot = node_slot(order, node);
    while (order->slots[slot] != TNRI_NODE_NONE && order->nodes[order->slots[slot]].handle != node)
        slot = (slot + 1) & (order->slots_count - 1);
    return slot;
}

/* Keeps the hash at most half full. */
static int slots_grow(tnri_order *order)
{
    if (order->nodes_count * 2 < order->slots_count)
        return 1;
    size_t count = order->slots_count == 0 ? 256 : order->slots_count * 2;
    int32_t *fresh = tnri_host_alloc(count * sizeof(fresh[0]));
    if (fresh == NULL)
        return 0;
    memset(fresh, 0xff, count * sizeof(fresh[0])); /* TNRI_NODE_NONE */
    tnri_host_free(order->slots, order->slots_count * sizeof(order->slots[0]));
    order->slots = fresh;
    order->slots_count = count;
    for (size_t i = 0; i < order->nodes_count; i++)
        order->slots[node_find(order, order->nodes[i].handle)] = (int32_t)i;
    return 1;
}

/* The number of a node; TNRI_NODE_NONE if there is no host memory. */
static int32_t order_node_of(tnri_order *order, CUgraphNode node)
{
    if (!slots_grow(order))
        return TNRI_NODE_NONE;
    size_t slot = node_find(order, node);
    if (order->slots[slot] != TNRI_NODE_NONE)
        return order->slots[slot];
    if (order->nodes_count == INT32_MAX ||
        !TNRI_ARRAY_GROW(order->nodes, order->nodes_room, order->nodes_count + 1))
        return TNRI_NODE_NONE;
    int32_t number = (int32_t)order->nodes_count++;
    order->nodes[number] = (tnri_order_node){node, 0, 0, 0};
    order->slots[slot] = number;
    return number;
}

static tnr_status no_host_memory(void)
{
    return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the order of a capture.");
}

/* Adds what an edge from a node says to *count entries. 0 without host memory. */
static int edge_note(tnri_order *order, CUgraphNode from, const CUgraphEdgeData *edge,
                     int32_t *entries, size_t *count)
{
    int is_full = edge == NULL || (edge->from_port == 0 && edge->to_port == 0 &&
                                   edge->type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT);
    if (!is_full && (edge->from_port != CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC ||
                     edge->to_port != 0 || edge->type != CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC))
        return 1;
    int32_t node = order_node_of(order, from);
    if (node == TNRI_NODE_NONE)
        return 0;
    entries[(*count)++] = is_full ? node : tnri_entry_begun(node);
    return 1;
}

/* Asks for a node's edges. `nodes` and `edges` may move. */
static tnr_status node_ask(tnri_order *order, int32_t number)
{
    enum { AT_ONCE = 16 };
    CUgraphNode few[AT_ONCE];
    CUgraphEdgeData few_data[AT_ONCE];
    CUgraphNode *from = few;
    CUgraphEdgeData *data = few_data;
    size_t count = AT_ONCE;
    CUgraphNode node = order->nodes[number].handle;
    CUresult result = tnri_gpu_node_follows(node, few, few_data, &count);
    if (result == CUDA_SUCCESS && count == AT_ONCE) /* there may be more */
        result = tnri_gpu_node_follows(node, NULL, NULL, &count);
    tnr_status status = TNR_OK;
    size_t asked = count;
    if (result == CUDA_SUCCESS && count > AT_ONCE) {
        from = tnri_host_alloc(asked * sizeof(from[0]));
        data = tnri_host_alloc(asked * sizeof(data[0]));
        if (from == NULL || data == NULL)
            status = no_host_memory();
        else
            result = tnri_gpu_node_follows(node, from, data, &count);
    }
    if (result != CUDA_SUCCESS)
        status = tnri_driver_error(result, TNRI_GPU_NODE_FOLLOWS, "following a capture");
    if (status == TNR_OK &&
        !TNRI_ARRAY_GROW(order->edges, order->edges_room, order->edges_count + count))
        status = no_host_memory();
    size_t first = order->edges_count;
    size_t kept = 0;
    for (size_t i = 0; status == TNR_OK && i < count; i++)
        if (!edge_note(order, from[i], &data[i], &order->edges[first], &kept))
            status = no_host_memory();
    if (status == TNR_OK) {
        order->edges_count += kept;
        order->nodes[number].edges_first = (uint32_t)first;
        order->nodes[number].edges_count = (uint32_t)kept;
        order->nodes[number].is_known = 1;
    }
    if (from != few)
        tnri_host_free(from, asked * sizeof(from[0]));
    if (data != few_data)
        tnri_host_free(data, asked * sizeof(data[0]));
    return status;
}

/* ---- views ---------------------------------------------------------------------------------- */

int tnri_order_view(tnri_order *order, uintptr_t key)
{
    for (size_t i = 0; i < order->views_count; i++)
        if (order->views[i].key == key)
            return (int)i;
    if (order->views_count == TNRI_VIEWS_MAX)
        return -1;
    tnri_view *view = &order->views[order->views_count];
    memset(view, 0, sizeof(*view));
    view->key = key;
    return (int)order->views_count++;
}

static void view_forget(tnri_view *view)
{
    if (view->seen_words > 0)
        memset(view->seen, 0, view->seen_words * sizeof(view->seen[0]));
    view->frontier_count = 0;
}

/* The bits of a node in `seen`. */
enum { IS_BEFORE = 1, IS_PASSED = 2 };

static uint64_t entry_bits(int32_t entry)
{
    unsigned at = (unsigned)(tnri_entry_node(entry) & 31) * 2;
    return (uint64_t)(entry < 0 ? IS_PASSED : IS_BEFORE | IS_PASSED) << at;
}

/* Marks what an entry says. Returns 1 if the node was not passed, -1 if there is no host memory. */
static int view_see(tnri_view *view, int32_t entry)
{
    size_t word = (size_t)tnri_entry_node(entry) >> 5;
    if (!TNRI_ARRAY_GROW(view->seen, view->seen_words, word + 1))
        return -1;
    uint64_t passed = entry_bits(tnri_entry_begun(tnri_entry_node(entry)));
    int is_new = (view->seen[word] & passed) == 0;
    view->seen[word] |= entry_bits(entry);
    return is_new;
}

/* Walks back from the nodes on the stack, seeing what is new. */
typedef struct walk {
    tnri_order *order;
    tnri_view *view;
    size_t depth;
    uint64_t met; /* bit for each entry of the old frontier */
} walk;

/* The entry is of the new frontier, or one that an edge there leads back to. A node of the old
 * frontier that has only begun in the new one is one that the program has dropped. Frontiers are
 * short. */
static void walk_meet(walk *self, int32_t entry, int is_behind)
{
    for (size_t i = 0; i < self->view->frontier_count && i < 64; i++) {
        int32_t old = self->view->frontier[i];
        if (tnri_entry_node(old) == tnri_entry_node(entry) && (is_behind || entry >= 0 || old < 0))
            self->met |= UINT64_C(1) << i;
    }
}

static tnr_status walk_push(walk *self, int32_t entry, int is_behind)
{
    walk_meet(self, entry, is_behind);
    int is_new = view_see(self->view, entry);
    if (is_new < 0 ||
        !TNRI_ARRAY_GROW(self->order->stack, self->order->stack_room, self->depth + 1))
        return no_host_memory();
    if (is_new)
        self->order->stack[self->depth++] = tnri_entry_node(entry);
    return TNR_OK;
}

static tnr_status walk_back(walk *self)
{
    tnri_order *order = self->order;
    while (self->depth > 0) {
        int32_t number = order->stack[--self->depth];
        tnr_status status = TNR_OK;
        if (!order->nodes[number].is_known)
            status = node_ask(order, number);
        for (uint32_t i = 0; status == TNR_OK && i < order->nodes[number].edges_count; i++)
            status = walk_push(self, order->edges[order->nodes[number].edges_first + i], 1);
        if (status != TNR_OK)
            return status;
    }
    return TNR_OK;
}

/* Sees everything from the frontier's entries back. */
static tnr_status view_walk(walk *self, const int32_t *frontier, size_t count)
{
    tnr_status status = TNR_OK;
    for (size_t i = 0; status == TNR_OK && i < count; i++)
        status = walk_push(self, frontier[i], 0);
    return status == TNR_OK ? walk_back(self) : status;
}

static int frontier_is(const tnri_view *view, const int32_t *frontier, size_t count)
{
    return view->frontier_count == count &&
           (count == 0 || memcmp(view->frontier, frontier, count * sizeof(frontier[0])) == 0);
}

/* A view whose old frontier is longer than can be watched begins again at each move. */
static int frontier_was_met(const tnri_view *view, uint64_t met)
{
    if (view->frontier_count > 64)
        return 0;
    uint64_t all =
        view->frontier_count == 64 ? UINT64_MAX : (UINT64_C(1) << view->frontier_count) - 1;
    return met == all;
}

/* 1 if the view, which has begun again, has seen all that a frontier which it had says. */
static int view_has_seen(const tnri_view *view, const int32_t *frontier, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t word = (size_t)tnri_entry_node(frontier[i]) >> 5;
        uint64_t bits = entry_bits(frontier[i]);
        if (word >= view->seen_words || (view->seen[word] & bits) != bits)
            return 0;
    }
    return 1;
}

/* Moves to a frontier of sorted entries. */
static tnri_moved view_move(tnri_order *order, tnri_view *view, const int32_t *frontier,
                            size_t count, tnr_status *status)
{
    if (frontier_is(view, frontier, count))
        return TNRI_MOVED_NOT;
    if (!TNRI_ARRAY_GROW(view->frontier, view->frontier_room, count)) {
        *status = no_host_memory();
        return TNRI_MOVED_ERROR;
    }
    walk self = {order, view, 0, 0};
    *status = view_walk(&self, frontier, count);
    tnri_moved moved = TNRI_MOVED_ON;
    if (*status == TNR_OK && !frontier_was_met(view, self.met)) {
        size_t before = view->frontier_count; /* the entries stay in the array */
        view_forget(view);
        walk again = {order, view, 0, 0};
        *status = view_walk(&again, frontier, count);
        moved = TNRI_MOVED_ANEW;
        if (*status == TNR_OK && !view_has_seen(view, view->frontier, before))
            view->turns++;
    }
    if (*status != TNR_OK) {
        view_forget(view);
        view->turns++; /* for all that is known */
        return TNRI_MOVED_ERROR;
    }
    if (count > 0)
        memcpy(view->frontier, frontier, count * sizeof(frontier[0]));
    view->frontier_count = count;
    return moved;
}

static int entry_compare(const void *a, const void *b)
{
    int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
    return (left > right) - (left < right);
}

tnri_moved tnri_order_move(tnri_order *order, int view, const CUgraphNode *frontier,
                           const CUgraphEdgeData *edges, size_t count, tnr_status *status)
{
    enum { AT_ONCE = 64 };
    int32_t few[AT_ONCE];
    int32_t *entries = few;
    *status = TNR_OK;
    if (count > AT_ONCE && (entries = tnri_host_alloc(count * sizeof(entries[0]))) == NULL)
        *status = no_host_memory();
    size_t kept = 0;
    for (size_t i = 0; *status == TNR_OK && i < count; i++)
        if (!edge_note(order, frontier[i], edges == NULL ? NULL : &edges[i], entries, &kept))
            *status = no_host_memory();
    tnri_moved moved = TNRI_MOVED_ERROR;
    if (*status == TNR_OK) {
        qsort(entries, kept, sizeof(entries[0]), entry_compare);
        moved = view_move(order, &order->views[view], entries, kept, status);
    }
    if (entries != few)
        tnri_host_free(entries, count * sizeof(entries[0]));
    return moved;
}
