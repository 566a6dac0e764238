/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launching graphs: the public calls.
 *
 * Launches of graphs that share a pool use the same memory, so each is ordered after the one before
 * it. Nothing is recorded for that as long as they follow each other on one stream. When the stream
 * changes, Tenure marks the end of the work on the former stream at that moment, which is at or
 * after the former launch. A launch also writes again to freed blocks of its pool, and graphs of
 * other pools may refer to these. So it is ordered in the same way after the launches of those
 * graphs.
 *
 * A place's mutex makes launches into it take turns. It is taken without the graph lock, and kept
 * during cuGraphLaunch, which may take long. The graph lock is not kept then.
 */
#include <tenure/capture.h>

#include "api/library.h"
#include "base/prim/calm.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "graph/capture.h"
#include "graph/graph.h"
#include "graph/launched.h"
#include "graph/threat.h"
#include "memory/arena/note.h"
#include "memory/pool/asleep.h"
#include "memory/pool/graph_lock.h"
#include "miss/park.h"
#include "order/collect.h"
#include "order/hold.h"

/* Streams that one launch asks whether earlier ones are over. */
enum { POOLS_FEW = 8, LOOKS_FEW = 4 };

typedef struct launch {
    tnr_graph number;
    tnri_device *device;
    tnri_place *place;  /* null: none, so there is nothing to order */
    tnri_place *beside; /* the graph's others, through `beside` */
    int is_doubtful;
    tnr_stream handle;
    tnri_stream *stream;
    tnri_visit visit;
    tnr_pool *outside; /* pools of blocks that are kept for the graph, and of the places beside its
                        * first: worked on, so awake */
    size_t outside_count, outside_room;
    tnr_pool few[POOLS_FEW]; /* where `outside` lies if they fit */
} launch;

/* ---- pools of outside blocks ---------------------------------------------------------------- */

static void outside_end(launch *self)
{
    while (self->outside_count > 0)
        tnri_pool_work_end(self->outside[--self->outside_count]);
    if (self->outside != self->few)
        tnri_host_free(self->outside, self->outside_room * sizeof(self->outside[0]));
}

static tnr_status outside_add(launch *self, tnr_pool pool)
{
    if (!tnri_pool_work_begin(pool))
        return tnri_asleep_error(pool);
    self->outside[self->outside_count++] = pool;
    return TNR_OK;
}

/* Keeps them awake, or says which one sleeps: then there is nothing to end. Under the graph
 * lock. */
static tnr_status outside_begin(launch *self, const tnri_graph *graph)
{
    tnr_status status = TNR_OK;
    self->outside = self->few;
    self->outside_room = graph->outside.count;
    for (const tnri_place *place = graph->beside; place != NULL; place = place->beside)
        self->outside_room++;
    if (self->outside_room > POOLS_FEW)
        self->outside = tnri_host_alloc(self->outside_room * sizeof(self->outside[0]));
    if (self->outside == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for launching a graph.");
    for (size_t i = 0; i < graph->outside.count && status == TNR_OK; i++)
        status = outside_add(self, graph->outside.members[i]);
    for (tnri_place *place = graph->beside; place != NULL && status == TNR_OK;
         place = place->beside)
        status = outside_add(self, place->pool);
    if (status != TNR_OK)
        outside_end(self);
    return status;
}

/* ---- parked blocks ------------------------------------------------------------------------- */

/* The parked block among those that are kept; 0: none is. */
static uintptr_t parked_among(const tnri_set *kept)
{
    uintptr_t base = 0;
    for (size_t i = 0; i < kept->count && base == 0; i++) {
        const tnri_uses *uses = kept->members[i];
        tnri_arena_enter(uses->arena);
        if (uses->block->state == TNRI_PARKED)
            base = uses->block->base;
        tnri_arena_leave(uses->arena);
    }
    return base;
}

/* Refuses a graph that refers to a parked block. Under the graph lock. */
static tnr_status parked_refuse(const tnri_graph *graph)
{
    uint32_t parked = 0;
    for (size_t i = 0; i < graph->outside.count; i++) {
        tnr_pool pool = graph->outside.members[i];
        parked += atomic_load_explicit(&pool->account.parked, memory_order_relaxed);
    }
    if (tnri_likely(parked == 0))
        return TNR_OK;
    uintptr_t base = parked_among(&graph->holds);
    if (base == 0)
        base = parked_among(&graph->late);
    return base == 0 ? TNR_OK
                     : tnri_parked_error((void *)base, "the graph to be launched refers to it");
}

/* ---- refusals ------------------------------------------------------------------------------- */

static tnr_status overwrite_error(const launch *self)
{
    size_t bytes = 0;
    tnr_graph owner = 0;
    uintptr_t base = tnri_threats_find(self->place->arena, self->number, &bytes, &owner);
    if (base != 0) { /* it may be freed already, in a host function: its uses are marked now */
        tnri_holds_retry();
        base = tnri_threats_find(self->place->arena, self->number, &bytes, &owner);
    }
    if (self->is_doubtful)
        return tnri_error(TNR_ERR_OVERWRITE,
                          "graph %llu cannot be launched: host memory lacked when it was to be "
                          "noted which blocks it would overwrite. Capture it again.",
                          (unsigned long long)self->number);
    if (base == 0)
        return TNR_OK;
    return tnri_error(TNR_ERR_OVERWRITE,
                      "launching graph %llu would overwrite the live block at %p (%zu bytes), an "
                      "output of graph %llu, which shares its pool. Free the block, or capture the "
                      "two into pools of their own.",
                      (unsigned long long)self->number, (void *)base, bytes,
                      (unsigned long long)owner);
}

static tnr_status launch_refused(const launch *self)
{
    if (tnri_stream_is_capturing(self->handle))
        return tnri_error(TNR_ERR_CAPTURE,
                          "stream %p is being captured: a graph cannot be launched into it. Add it "
                          "as a child graph.",
                          (void *)self->handle);
    return self->place == NULL ? TNR_OK : overwrite_error(self);
}

/* ---- order ---------------------------------------------------------------------------------- */

/* The latest launch into a place: its stream, and its mark if that was recorded, with a reference
 * to each. */
typedef struct latest {
    tnri_stream *stream; /* null: there is none to wait for */
    tnri_event *mark;
} latest;

/* Of a place, unless it was on this launch's own stream. Under the graph lock. */
static latest latest_of(const launch *self, const tnri_place *place)
{
    latest found = {NULL, NULL};
    if (place == NULL || place->launch_stream == NULL || place->launch_stream == self->stream)
        return found;
    found = (latest){place->launch_stream, place->launch_mark};
    tnri_stream_hold(found.stream);
    if (found.mark != NULL)
        tnri_event_hold(found.mark);
    return found;
}

static void latest_drop(latest before)
{
    if (before.stream == NULL)
        return;
    tnri_event_drop(before.mark);
    tnri_stream_drop(before.stream);
}

/* Orders the stream after a latest launch, and drops its references. */
static tnr_status latest_order(const launch *self, latest before)
{
    uint64_t number = 0;
    if (before.stream == NULL)
        return TNR_OK;
    tnr_status status = TNR_OK;
    if (before.mark == NULL)
        status = tnri_stream_mark(before.stream, &before.mark, &number);
    if (status == TNR_OK) {
        status = tnri_event_order(before.mark, self->handle);
        if (status == TNR_OK && number != 0)
            tnri_stream_waits(self->stream, NULL, before.stream->index, number);
    }
    latest_drop(before);
    return status;
}

/* Orders the stream after the latest launch into the place. */
static tnr_status launch_order(const launch *self)
{
    (void)tnri_graph_lock();
    latest before = latest_of(self, self->place);
    tnri_graph_unlock();
    return latest_order(self, before);
}

static int has_held_blocks(tnri_arena *arena)
{
    tnri_arena_enter(arena);
    int has = arena->held_count > 0;
    tnri_arena_leave(arena);
    return has;
}

/* The latest launches of the graphs that keep blocks of the place, but for those of the graph's own
 * first place. Stores them in `found`, if it is not null; returns how many there are. Under the
 * graph lock. */
static size_t holders_find(const launch *self, const tnri_place *place, latest *found)
{
    size_t count = 0;
    for (tnri_graph *graph = NULL; (graph = tnri_graph_walk(graph)) != NULL;) {
        if (graph->place == self->place || !tnri_graph_keeps_of(graph, place->arena))
            continue;
        if (found != NULL)
            found[count] = latest_of(self, graph->place);
        count++;
    }
    return count;
}

/* Blocks that this place's graphs write to, and that were freed while graphs of other pools refer
 * to them: what those have launched until now uses them still. Orders the stream after it. */
static tnr_status launch_order_holders(const launch *self, const tnri_place *place)
{
    if (!has_held_blocks(place->arena))
        return TNR_OK;
    (void)tnri_graph_lock();
    size_t count = holders_find(self, place, NULL);
    size_t bytes = count * sizeof(latest);
    latest *found = count == 0 ? NULL : tnri_host_alloc(bytes);
    if (found != NULL)
        (void)holders_find(self, place, found);
    tnri_graph_unlock();
    if (count > 0 && found == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for launching a graph.");
    tnr_status status = TNR_OK;
    for (size_t i = 0; i < count; i++) {
        if (status == TNR_OK)
            status = latest_order(self, found[i]);
        else
            latest_drop(found[i]);
    }
    if (found != NULL)
        tnri_host_free(found, bytes);
    return status;
}

/* Orders the stream after all that uses what was freed of one of the graph's places. */
static tnr_status launch_order_freed(const launch *self, const tnri_place *place)
{
    tnr_status status = launch_order_holders(self, place);
    if (status != TNR_OK)
        return status;
    status = tnri_collect_order_after(place->arena, self->stream);
    if (status == TNR_ERR_CAPTURE)
        status =
            tnri_error(TNR_ERR_CAPTURE,
                       "graph %llu cannot be launched now: uses of memory of its pool that "
                       "was freed cannot be ordered while a capture is under way. Launch it after "
                       "the capture.",
                       (unsigned long long)self->number);
    return status;
}

static tnr_status launch_prepare(const launch *self)
{
    tnr_status status = launch_refused(self);
    if (status != TNR_OK || self->place == NULL)
        return status;
    status = launch_order(self);
    if (status == TNR_OK)
        status = launch_order_freed(self, self->place);
    for (const tnri_place *place = self->beside; place != NULL && status == TNR_OK;
         place = place->beside)
        status = launch_order_freed(self, place);
    return status;
}

/* What the thread's latest tnr_graph_launching noted. Its own. */
static _Thread_local struct {
    tnr_graph number; /* 0: none, or tnr_graph_launched has had it */
    tnr_stream handle;
    tnri_device *device;
    uint64_t epoch; /* tnri_library_epoch */
    tnri_noted_launch noted;
} announced;

/* Tells the history, which is on, or was when earlier launches were made. An engine has not made
 * the launch yet: its end can be marked later. Under the graph lock. */
static TNRI_SELDOM void launch_record(const launch *self, int is_made)
{
    tnri_noted_launch noted =
        tnri_note_launch(self->device, self->place == NULL ? NULL : &self->place->pool->account,
                         self->handle, self->number);
    tnri_launched_look(LOOKS_FEW);
    if (is_made) {
        tnri_launched_add(self->stream, noted);
    } else if (noted.ticks != 0) {
        announced.number = self->number;
        announced.handle = self->handle;
        announced.device = self->device;
        announced.epoch = atomic_load(&tnri_library_epoch);
        announced.noted = noted;
    }
}

/* The launch has been made, or is about to be by the engine. */
static void launch_note(const launch *self, int is_made)
{
    (void)tnri_graph_lock();
    if (tnri_unlikely(tnri_is_noting() ||
                      atomic_load_explicit(&tnri_launched_count, memory_order_relaxed) != 0))
        launch_record(self, is_made);
    tnri_graph *graph = tnri_graph_find(self->number);
    if (graph != NULL)
        graph->launches++;
    if (self->place != NULL) {
        tnri_event_drop(self->place->launch_mark);
        self->place->launch_mark = NULL;
        tnri_stream_hold(self->stream);
        if (self->place->launch_stream != NULL)
            tnri_stream_drop(self->place->launch_stream);
        self->place->launch_stream = self->stream;
    }
    tnri_graph_unlock();
}

/* ---- the calls ------------------------------------------------------------------------------ */

/* While a thread launches, the graph's places stay. Under the graph lock. */
static void visitors_add(const launch *self, int count)
{
    if (self->place != NULL)
        self->place->visitors_count += (size_t)count;
    for (tnri_place *place = self->beside; place != NULL; place = place->beside)
        place->visitors_count += (size_t)count;
}

/* Finds the graph and takes its place's turn; launch_end undoes it. In the context afterwards. */
static tnr_status launch_begin(launch *self, tnr_graph number, tnr_stream stream)
{
    tnri_graph *graph = NULL;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    if (tnri_graph_lock_depth() > 0)
        return tnri_graph_lock_error("tnr_graph_launch");
    *self = (launch){.number = number, .handle = stream};
    tnri_graphs_settle();
    (void)tnri_graph_lock();
    tnr_status status = tnri_graph_named(number, &graph);
    if (status == TNR_OK && graph->is_capturing)
        status =
            tnri_error(TNR_ERR_INVALID_GRAPH, "graph \"%s\" is still being captured.", graph->name);
    if (status == TNR_OK)
        status = parked_refuse(graph);
    if (status == TNR_OK)
        status = outside_begin(self, graph);
    if (status == TNR_OK) {
        self->device = graph->device;
        self->place = graph->place;
        self->beside = graph->beside;
        self->is_doubtful = graph->is_doubtful;
        visitors_add(self, 1);
    }
    tnri_graph_unlock();
    if (status != TNR_OK)
        return status;
    if (self->place != NULL) {
        tnri_mutex_lock(&self->place->launching);
        if (!tnri_pool_work_begin(self->place->pool))
            status = tnri_asleep_error(self->place->pool);
    }
    int is_working = self->place != NULL && status == TNR_OK;
    if (status == TNR_OK && !tnri_stream_is_capturing(stream))
        status = tnri_stream_find(self->device, stream, &self->stream);
    if (status == TNR_OK)
        status = tnri_device_enter(self->device, &self->visit);
    if (status == TNR_OK)
        return TNR_OK;
    if (is_working)
        tnri_pool_work_end(self->place->pool);
    outside_end(self);
    if (self->place != NULL)
        tnri_mutex_unlock(&self->place->launching);
    (void)tnri_graph_lock();
    visitors_add(self, -1);
    tnri_graph_unlock();
    return status;
}

static void launch_end(launch *self)
{
    tnri_device_leave(&self->visit);
    outside_end(self);
    if (self->place == NULL)
        return;
    tnri_pool_work_end(self->place->pool);
    tnri_mutex_unlock(&self->place->launching);
    (void)tnri_graph_lock();
    visitors_add(self, -1);
    tnri_graph_unlock();
}

tnr_status tnr_graph_launch(tnr_graph graph, tnr_cuda_graph_exec exec, tnr_stream stream)
{
    TNRI_CALM_CALL;
    launch self;
    tnr_status status = launch_begin(&self, graph, stream);
    if (status != TNR_OK)
        return status;
    if (exec == NULL)
        status = tnri_error(TNR_ERR_INVALID_ARGUMENT, "tnr_graph_launch: the executable is null.");
    else
        status = launch_prepare(&self);
    if (status == TNR_OK) {
        CUresult result = tnri_gpu_graph_launch(exec, stream);
        if (result != CUDA_SUCCESS)
            status = tnri_driver_error(result, TNRI_GPU_GRAPH_LAUNCH, "launching a graph");
        else
            launch_note(&self, 1);
    }
    launch_end(&self);
    return status;
}

tnr_status tnr_graph_launching(tnr_graph graph, tnr_stream stream)
{
    TNRI_CALM_CALL;
    launch self;
    tnr_status status = launch_begin(&self, graph, stream);
    if (status != TNR_OK)
        return status;
    status = launch_prepare(&self);
    if (status == TNR_OK)
        launch_note(&self, 0);
    launch_end(&self);
    return status;
}

void tnr_graph_launched(tnr_graph graph, tnr_stream stream)
{
    TNRI_CALM_CALL;
    if (tnri_likely(announced.number == 0) || announced.number != graph ||
        announced.handle != stream || tnri_library_is_forked() || tnri_graph_lock_depth() > 0)
        return;
    announced.number = 0;
    tnri_device *device = announced.device;
    if (announced.epoch != atomic_load(&tnri_library_epoch) || !atomic_load(&device->in_use) ||
        !tnri_is_noting())
        return;
    tnri_error_aside aside;
    tnri_visit visit;
    tnri_stream *object;
    tnri_error_take(&aside);
    if (tnri_device_enter(device, &visit) == TNR_OK) {
        if (tnri_stream_find(device, stream, &object) == TNR_OK) {
            (void)tnri_graph_lock();
            tnri_launched_add(object, announced.noted);
            tnri_graph_unlock();
        }
        tnri_device_leave(&visit);
    }
    tnri_error_restore(&aside);
}
