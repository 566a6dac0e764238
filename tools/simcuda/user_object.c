/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User objects: counted references with a destructor, held by the program and by graphs.
 *
 * When the last reference goes, the handle goes with it, and the destructor is due. It runs when
 * the schedule says so, as queued work does. Under `lazy` it never runs inside the call that
 * dropped the last reference. Under `eager` it runs at once, under `threads` on a worker. Nothing
 * waits for it.
 *
 * Launches hold the graph. So if the destructor has run, the launches have ended.
 */
#include "graph.h"
#include "race.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct sim_user_object {
    struct sim_slot *slot; /* null once due */
    CUhostFn destroy;
    void *data;
    uint64_t references; /* all of them */
    uint64_t owned;      /* the program's own */
    struct sim_user_object *next_due;
    struct sim_point *ended; /* ends of launches that held it */
    size_t ended_count, ended_room;
};

static struct sim_user_object *due_first;
static struct sim_user_object *due_last;

/* ---- life ----------------------------------------------------------------------------------- */

struct sim_user_object *sim_user_object_get(CUuserObject handle)
{
    return sim_slot_get(handle, SIM_USER_OBJECT, "user object");
}

static void object_drop(struct sim_user_object *object, uint64_t count)
{
    object->references -= count;
    if (object->references != 0)
        return;
    sim_slot_free(object->slot);
    object->slot = NULL;
    object->next_due = NULL;
    if (due_last != NULL)
        due_last->next_due = object;
    else
        due_first = object;
    due_last = object;
    sim.due++;
    pthread_cond_signal(&sim.work);
}

static void object_free(struct sim_user_object *object)
{
    for (size_t i = 0; i < object->ended_count; i++)
        sim_point_drop(object->ended[i]);
    free(object->ended);
    free(object);
}

static struct sim_user_object *due_take(void)
{
    struct sim_user_object *object = due_first;
    if (object != NULL) {
        due_first = object->next_due;
        due_last = due_first == NULL ? NULL : due_last;
        sim.due--;
    }
    return object;
}

/* The destructor is a host function: no call of the driver is allowed in it. */
int sim_user_object_run(void)
{
    struct sim_thread *thread = sim_thread();
    struct sim_user_object *object = due_take();
    if (object == NULL)
        return 0;
    sim.destructors++;
    for (size_t i = 0; i < object->ended_count; i++)
        sim_race_waited(object->ended[i]);
    sim_unlock();
    sim_schedule_lag();
    thread->is_in_callback = 1;
    object->destroy(object->data);
    thread->is_in_callback = 0;
    sim_lock();
    object_free(object);
    sim.destructors--;
    pthread_cond_broadcast(&sim.done);
    return 1;
}

static void object_forget(void *object)
{
    struct sim_user_object *forgotten = object;
    sim_slot_free(forgotten->slot);
    object_free(forgotten);
}

/* The process ends: destructors do not run. */
void sim_user_object_reset(void)
{
    for (struct sim_user_object *object = due_take(); object != NULL; object = due_take())
        object_free(object);
    sim_slot_each(SIM_USER_OBJECT, NULL, object_forget);
}

/* ---- references of graphs ------------------------------------------------------------------- */

static struct sim_hold *hold_find(const struct sim_graph *graph,
                                  const struct sim_user_object *object)
{
    for (size_t i = 0; i < graph->hold_count; i++)
        if (graph->hold[i].object == object)
            return &graph->hold[i];
    return NULL;
}

/* The graph's references once more, for a copy of it; 0 when memory is short. */
int sim_holds_copy(const struct sim_graph *from, struct sim_graph *to)
{
    struct sim_hold *hold = sim_grow(to->hold, &to->hold_room, from->hold_count, sizeof(*hold));
    if (hold == NULL && from->hold_count != 0)
        return 0;
    to->hold = hold;
    for (size_t i = 0; i < from->hold_count; i++) {
        hold[i] = from->hold[i];
        hold[i].object->references += hold[i].count;
    }
    to->hold_count = from->hold_count;
    return 1;
}

void sim_holds_ended(const struct sim_graph *graph, struct sim_point end)
{
    for (const struct sim_node *node = graph->first; node != NULL; node = node->next)
        if (node->child != NULL)
            sim_holds_ended(node->child, end);
    for (size_t i = 0; end.stream != NULL && i < graph->hold_count; i++) {
        struct sim_user_object *object = graph->hold[i].object;
        struct sim_point *larger =
            sim_grow(object->ended, &object->ended_room, object->ended_count + 1, sizeof(*larger));
        if (larger == NULL) {
            sim_races_give_up();
            return;
        }
        object->ended = larger;
        object->ended[object->ended_count++] = end;
        sim_point_hold(end);
    }
}

void sim_holds_drop(struct sim_graph *graph)
{
    for (size_t i = 0; i < graph->hold_count; i++)
        object_drop(graph->hold[i].object, graph->hold[i].count);
    free(graph->hold);
    graph->hold = NULL;
    graph->hold_count = graph->hold_room = 0;
}

static CUresult graph_retain(struct sim_graph *graph, struct sim_user_object *object,
                             uint64_t count, int move)
{
    if (move && object->owned < count) {
        sim_violation("cuGraphRetainUserObject moves %llu references to user object %p, of which "
                      "the program has %llu",
                      (unsigned long long)count, (void *)object->slot,
                      (unsigned long long)object->owned);
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_hold *hold = hold_find(graph, object);
    if (hold == NULL) {
        struct sim_hold *larger =
            sim_grow(graph->hold, &graph->hold_room, graph->hold_count + 1, sizeof(*larger));
        if (larger == NULL)
            return CUDA_ERROR_OUT_OF_MEMORY;
        graph->hold = larger;
        hold = &larger[graph->hold_count++];
        *hold = (struct sim_hold){object, 0};
    }
    hold->count += count;
    if (move)
        object->owned -= count;
    else
        object->references += count;
    return CUDA_SUCCESS;
}

static CUresult graph_release(struct sim_graph *graph, struct sim_user_object *object,
                              uint64_t count)
{
    struct sim_hold *hold = hold_find(graph, object);
    if (hold == NULL || hold->count < count) {
        sim_violation("cuGraphReleaseUserObject of %llu references to user object %p, of which the "
                      "graph has %llu",
                      (unsigned long long)count, (void *)object->slot,
                      (unsigned long long)(hold == NULL ? 0 : hold->count));
        return CUDA_ERROR_INVALID_VALUE;
    }
    hold->count -= count;
    if (hold->count == 0)
        *hold = graph->hold[--graph->hold_count];
    object_drop(object, count);
    sim_schedule_dropped();
    return CUDA_SUCCESS;
}

/* ---- calls ---------------------------------------------------------------------------------- */

static int count_valid(unsigned count)
{
    return count != 0 && count <= INT_MAX;
}

CUresult CUDAAPI cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
                                    unsigned int initialRefcount, unsigned int flags)
{
    SIM_ENTER(cuUserObjectCreate, SIM_NEEDS_INIT);
    if (object_out == NULL || destroy == NULL || !count_valid(initialRefcount) ||
        flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    struct sim_user_object *object = calloc(1, sizeof(*object));
    struct sim_slot *slot = object == NULL ? NULL : sim_slot_new(SIM_USER_OBJECT, object);
    if (slot == NULL) {
        free(object);
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    object->slot = slot;
    object->destroy = destroy;
    object->data = ptr;
    object->references = initialRefcount;
    object->owned = initialRefcount;
    *object_out = (CUuserObject)slot;
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    SIM_ENTER(cuUserObjectRetain, SIM_NEEDS_INIT);
    struct sim_user_object *found = sim_user_object_get(object);
    if (found == NULL || !count_valid(count))
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    found->references += count;
    found->owned += count;
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    SIM_ENTER(cuUserObjectRelease, SIM_NEEDS_INIT);
    struct sim_user_object *found = sim_user_object_get(object);
    if (found == NULL || !count_valid(count))
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (found->owned < count) {
        sim_violation("cuUserObjectRelease of %u references to user object %p, of which the "
                      "program has %llu",
                      count, (void *)object, (unsigned long long)found->owned);
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    }
    found->owned -= count;
    object_drop(found, count);
    sim_schedule_dropped();
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                         unsigned int flags)
{
    SIM_ENTER(cuGraphRetainUserObject, SIM_NEEDS_INIT);
    struct sim_graph *holder = sim_graph_get(graph, "graph");
    struct sim_user_object *found = sim_user_object_get(object);
    if (holder == NULL || found == NULL || !count_valid(count) ||
        (flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE) != 0)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(graph_retain(holder, found, count, flags != 0));
}

CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
    SIM_ENTER(cuGraphReleaseUserObject, SIM_NEEDS_INIT);
    struct sim_graph *holder = sim_graph_get(graph, "graph");
    struct sim_user_object *found = sim_user_object_get(object);
    if (holder == NULL || found == NULL || !count_valid(count))
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(graph_release(holder, found, count));
}
