/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures and graphs.
 *
 * Tenure begins and ends a capture in the program's stead (tnr_capture_begin, _end). So no call of
 * ours that captures forbid is under way when the capture begins. If the capture goes into an
 * existing graph, the driver begins it and Tenure attaches to it. If Tenure refuses a capture, the
 * driver is asked. Either the driver refuses too, and the program gets its error. Or the capture is
 * one that Tenure does not follow: then nothing is served on its streams, and no record is
 * announced any more.
 *
 * Nothing here remembers which captures are under way: Tenure knows, and notices that one is over
 * when another thread has tried to end it, or its stream is gone.
 *
 * A capture may begin by a name that is not replaced here. As long as that cannot be, nothing is
 * asked. It can be with a driver that is newer than this library, and after the end of a capture
 * that began that way. From then on a stream is asked before each allocation and free, and Tenure
 * attaches to what it finds.
 *
 * Numbers of Tenure's graphs follow the driver's handles from the capture over clones and
 * executables to the launch. Without host memory for a number, a launch is not told, and nothing
 * else is missing: Tenure learns of a graph's end by itself.
 */
#include "graphs.h"

#include <stdlib.h>

#include "check/check.h"
#include "handles.h"
#include "order.h"
#include "shortage.h"
#include "watch/account.h"

static handles attached = HANDLES_INIT;    /* graph that the driver captures into -> number */
static handles graphs = HANDLES_INIT;      /* graph -> number */
static handles executables = HANDLES_INIT; /* executable -> number */
enum { FREED_LARGEST = 1 << 30 };          /* of one piece of memory, a power of two */
static _Atomic int strangers_expected;     /* 1: a capture may be under way that is not followed */

/* Set for ever by an engine that has Tenure follow its captures itself. */
static _Atomic int is_left_to_engine;

__attribute__((visibility("default"))) void tenure_preload_engine(void)
{
    atomic_store(&is_left_to_engine, 1);
}

static int is_left(void)
{
    return atomic_load_explicit(&is_left_to_engine, memory_order_relaxed);
}

/* What is left of one device among others does no harm: Tenure gives no number twice, and knows
 * those of its graphs no more. */
void graphs_forget(int is_only)
{
    if (!is_only)
        return;
    handles_clear(&attached, 0);
    handles_clear(&graphs, 0);
    handles_clear(&executables, 0);
}

/* ---- captures that the driver begins -------------------------------------------------------- */

/* The graph that a stream is captured into; null: none that the driver tells. */
static CUgraph captured_into(CUstream stream)
{
    CUstreamCaptureStatus status;
    cuuint64_t id;
    CUgraph graph = NULL;
    const CUgraphNode *nodes;
    const CUgraphEdgeData *edges;
    size_t count;
    (void)REAL(cuStreamGetCaptureInfo_v3, (stream, &status, &id, &graph, &nodes, &edges, &count));
    return graph;
}

/* Has Tenure follow the capture that a stream is in. Inside. */
static tnr_status capture_attach(CUstream stream)
{
    tnr_graph number = 0;
    const service_device *device = is_left() ? NULL : order_device(stream);
    if (device == NULL)
        return TNR_ERR_INVALID_DEVICE;
    tnr_status status = tnr_capture_attach(&number, device->index, stream, NULL);
    if (status == TNR_OK) {
        handles_set(&attached, captured_into(stream), number);
        service_count_one(COUNT_CAPTURES);
    }
    return status;
}

void graphs_expect_strangers(void)
{
    atomic_store(&strangers_expected, 1);
}

int graphs_is_strange(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (atomic_load_explicit(&strangers_expected, memory_order_relaxed) == 0)
        return 0;
    if (REAL(cuStreamIsCapturing, (stream, &status)) != CUDA_SUCCESS)
        return 1;
    if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return status != CU_STREAM_CAPTURE_STATUS_NONE;
    tnr_status followed = capture_attach(stream);
    return followed != TNR_OK && followed != TNR_ERR_CAPTURE; /* which says that it was before */
}

/* A capture begins that Tenure does not follow. */
static CUresult capture_passed(CUresult result)
{
    if (result != CUDA_SUCCESS)
        return result;
    service_count_one(COUNT_CAPTURES_PASSED);
    graphs_expect_strangers();
    order_give_up();
    return result;
}

/* ---- graphs of captures that nothing told of ------------------------------------------------ */

/* Places in freed memory that a graph refers to; then the blocks that were taken there. */
typedef struct freed_places {
    void **list;
    size_t count, room;
} freed_places;

static void freed_note(const tnr_audit_finding *finding, void *of)
{
    freed_places *freed = of;
    if (finding->verdict != TNR_AUDIT_FREED)
        return;
    if (freed->count == freed->room) {
        size_t room = freed->room * 2 + 16;
        void **grown = realloc(freed->list, room * sizeof(*grown));
        if (grown == NULL)
            return;
        freed->list = grown;
        freed->room = room;
    }
    uintptr_t place = finding->address - finding->address % TNR_ALIGNMENT_DEFAULT;
    freed->list[freed->count++] = (void *)place;
}

/* Takes what is free from a place on, as far as it goes: nothing says how much of it the graph
 * uses. Null: nothing is free there on this stream. */
static void *freed_take(const service_device *device, CUstream stream, void *place)
{
    size_t bytes = 0;
    tnr_status status = TNR_OK;
    for (size_t more = FREED_LARGEST; more >= TNR_ALIGNMENT_DEFAULT; more /= 2)
        if (tnr_pool_malloc_at(place, NULL, bytes + more, device->index, stream) == TNR_OK) {
            bytes += more;
            status = tnr_free_on(place, stream);
        }
    if (bytes > 0 && status == TNR_OK)
        status = tnr_pool_malloc_at(place, NULL, bytes, device->index, stream);
    return bytes > 0 && status == TNR_OK ? place : NULL;
}

/* Keeps what a graph refers to that has come of a capture which nothing told of: what is live, and
 * what was freed and is not in use again. Inside. */
static void strange_keep(CUstream stream, CUgraph graph)
{
    freed_places freed = {0};
    tnr_audit sums = {.struct_bytes = sizeof(sums)};
    tnr_graph number = 0;
    const service_device *device = order_device_started(stream);
    if (device == NULL || tnr_graph_audit(&sums, graph, 0, freed_note, &freed) != TNR_OK)
        freed.count = 0;
    for (size_t i = 0; i < freed.count; i++)
        freed.list[i] = freed_take(device, stream, freed.list[i]);
    if (device != NULL && tnr_graph_adopt(&number, graph, device->index, NULL) == TNR_OK)
        handles_set(&graphs, graph, number);
    for (size_t i = 0; i < freed.count; i++) {
        tnr_status status = tnr_free_on(freed.list[i], stream); /* the graph has hold of it */
        (void)status;
    }
    free(freed.list);
}

/* ---- captures ------------------------------------------------------------------------------- */

/* 1 if Tenure has begun it. */
static int capture_begin(CUstream stream, CUstreamCaptureMode mode)
{
    int is_begun = 0;
    if (is_left() || !service_enter())
        return 0;
    const service_device *device = order_device(stream);
    if (device != NULL && (int)mode >= 0 && mode <= CU_STREAM_CAPTURE_MODE_RELAXED) {
        tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
        options.mode = (tnr_capture_mode)mode;
        is_begun = tnr_capture_begin(device->index, stream, &options) == TNR_OK;
    }
    if (is_begun)
        service_count_one(COUNT_CAPTURES);
    service_leave();
    return is_begun;
}

CUresult CUDAAPI replace_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    CHECK_TELL(check_capture_begins());
    if (capture_begin(stream, mode))
        return CUDA_SUCCESS;
    return capture_passed(REAL(cuStreamBeginCapture_v2, (stream, mode)));
}

CUresult CUDAAPI replace_cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
    return replace_cuStreamBeginCapture_v2(stream_of_thread(stream), mode);
}

/* The form of CUDA 10.0, which has one mode. */
CUresult CUDAAPI replace_cuStreamBeginCapture(CUstream stream)
{
    CHECK_TELL(check_capture_begins());
    if (capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL))
        return CUDA_SUCCESS;
    return capture_passed(REAL(cuStreamBeginCapture, (stream)));
}

CUresult CUDAAPI replace_cuStreamBeginCapture_ptsz(CUstream stream)
{
    return replace_cuStreamBeginCapture(stream_of_thread(stream));
}

/* The driver has begun a capture, or has refused to. */
static CUresult capture_given(CUstream stream, CUresult result)
{
    if (result != CUDA_SUCCESS || is_left())
        return capture_passed(result);
    if (!service_enter())
        return result;
    tnr_status status = capture_attach(stream);
    service_leave();
    return status == TNR_OK ? result : capture_passed(result);
}

CUresult CUDAAPI replace_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                                     const CUgraphNode *dependencies,
                                                     const CUgraphEdgeData *edges, size_t count,
                                                     CUstreamCaptureMode mode)
{
    CHECK_TELL(check_capture_begins());
    return capture_given(stream, REAL(cuStreamBeginCaptureToGraph,
                                      (stream, graph, dependencies, edges, count, mode)));
}

CUresult CUDAAPI replace_cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                                          const CUgraphNode *dependencies,
                                                          const CUgraphEdgeData *edges,
                                                          size_t count, CUstreamCaptureMode mode)
{
    return replace_cuStreamBeginCaptureToGraph(stream_of_thread(stream), graph, dependencies, edges,
                                               count, mode);
}

CUresult CUDAAPI replace_cuStreamBeginRecaptureToGraph(CUstream stream, CUstreamCaptureMode mode,
                                                       CUgraph graph, void *mismatched, void *data)
{
    CHECK_TELL(check_capture_begins());
    return capture_given(
        stream, REAL(cuStreamBeginRecaptureToGraph, (stream, mode, graph, mismatched, data)));
}

CUresult CUDAAPI replace_cuStreamBeginRecaptureToGraph_ptsz(CUstream stream,
                                                            CUstreamCaptureMode mode, CUgraph graph,
                                                            void *mismatched, void *data)
{
    return replace_cuStreamBeginRecaptureToGraph(stream_of_thread(stream), mode, graph, mismatched,
                                                 data);
}

/* Into a list of commands of a graphics interface: no graph of the program's comes of it. */
CUresult CUDAAPI replace_cuStreamBeginCaptureToCig(CUstream stream, void *parameters)
{
    CHECK_TELL(check_capture_begins());
    return capture_passed(REAL(cuStreamBeginCaptureToCig, (stream, parameters)));
}

CUresult CUDAAPI replace_cuStreamBeginCaptureToCig_ptsz(CUstream stream, void *parameters)
{
    return replace_cuStreamBeginCaptureToCig(stream_of_thread(stream), parameters);
}

/* Ends a capture that Tenure has begun. 1 if it has ended, well or badly. 0: Tenure has not begun
 * it, or this thread may not end it, for which the driver has an error. */
static int capture_end(CUstream stream, CUgraph *graph, CUresult *result)
{
    tnr_graph number = 0;
    tnr_status status = TNR_ERR_CAPTURE;
    if (graph == NULL || is_left() || !service_enter())
        return 0;
    const service_device *device = order_device_started(stream);
    if (device != NULL)
        status = tnr_capture_end(graph, &number, device->index, stream);
    *result = service_result(status);
    if (status == TNR_OK)
        handles_set(&graphs, *graph, number);
    service_leave();
    return status == TNR_OK || status == TNR_ERR_CAPTURE_INVALIDATED || status == TNR_ERR_DRIVER ||
           status == TNR_ERR_OUT_OF_MEMORY || status == TNR_ERR_HOST_MEMORY;
}

/* The driver was asked to end the capture into a graph (null: not known which); `made` is what came
 * of it. Inside. */
static void capture_over(CUstream stream, CUgraph into, CUgraph made)
{
    uint64_t number;
    const service_device *device = order_device_started(stream);
    if (into != NULL && handles_get(&attached, into, &number)) {
        tnr_status status = tnr_capture_ended(number, made);
        if (status != TNR_ERR_CAPTURE) /* else it goes on */
            (void)handles_take(&attached, into, NULL);
        if (status == TNR_OK && made != NULL)
            handles_set(&graphs, made, number);
    } else if (made != NULL) {
        /* Strangers that are expected were asked for their memory before they got any. */
        if (atomic_load(&strangers_expected) == 0) {
            (void)capture_passed(CUDA_SUCCESS);
            strange_keep(stream, made);
        }
    } else if (device != NULL) {
        /* Another thread has begun it, and the driver may have ended it with an error: then Tenure
         * looks, and finds nothing to throw away. */
        tnr_status looked = tnr_capture_abort(device->index, stream);
        (void)looked;
    }
}

CUresult CUDAAPI replace_cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    CUresult result;
    if (capture_end(stream, graph, &result))
        return result;
    /* A program that captures into a graph of its own need not ask which one came of it: if it
     * fills the body of a conditional node, it does not. */
    CUgraph into = is_left() ? NULL : captured_into(stream);
    result = REAL(cuStreamEndCapture, (stream, graph));
    if (is_left() || !service_enter())
        return result;
    CUgraph made = graph != NULL ? *graph : into;
    capture_over(stream, into, result == CUDA_SUCCESS ? made : NULL);
    service_leave();
    return result;
}

CUresult CUDAAPI replace_cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
    return replace_cuStreamEndCapture(stream_of_thread(stream), graph);
}

/* ---- from a graph to another handle --------------------------------------------------------- */

static void number_follow(handles *from, const void *old, handles *to, const void *fresh)
{
    uint64_t number;
    if (!service_enter())
        return;
    if (handles_get(from, old, &number))
        handles_set(to, fresh, number);
    service_leave();
}

static void number_forget(handles *table, const void *handle)
{
    if (!service_enter())
        return;
    (void)handles_take(table, handle, NULL);
    service_leave();
}

CUresult CUDAAPI replace_cuGraphClone(CUgraph *clone, CUgraph original)
{
    CUresult result = REAL(cuGraphClone, (clone, original));
    if (result == CUDA_SUCCESS)
        number_follow(&graphs, original, &graphs, *clone);
    return result;
}

CUresult CUDAAPI replace_cuGraphDestroy(CUgraph graph)
{
    number_forget(&graphs, graph);
    return REAL(cuGraphDestroy, (graph));
}

static void exec_made(CUgraphExec exec, CUgraph graph)
{
    number_follow(&graphs, graph, &executables, exec);
    CHECK_TELL(check_instantiated(exec, graph));
}

CUresult CUDAAPI replace_cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *node,
                                            char *log, size_t bytes)
{
    CUresult result;
    ACCOUNTED(ACCOUNT_GRAPHS,
              REAL_RETRIED(result, cuGraphInstantiate, (exec, graph, node, log, bytes)));
    if (result == CUDA_SUCCESS)
        exec_made(*exec, graph);
    return result;
}

CUresult CUDAAPI replace_cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *node,
                                               char *log, size_t bytes)
{
    CUresult result;
    ACCOUNTED(ACCOUNT_GRAPHS,
              REAL_RETRIED(result, cuGraphInstantiate_v2, (exec, graph, node, log, bytes)));
    if (result == CUDA_SUCCESS)
        exec_made(*exec, graph);
    return result;
}

CUresult CUDAAPI replace_cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                                     unsigned long long flags)
{
    CUresult result;
    ACCOUNTED(ACCOUNT_GRAPHS,
              REAL_RETRIED(result, cuGraphInstantiateWithFlags, (exec, graph, flags)));
    if (result == CUDA_SUCCESS)
        exec_made(*exec, graph);
    return result;
}

CUresult CUDAAPI replace_cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
                                                      CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    CUresult result;
    ACCOUNTED(ACCOUNT_GRAPHS,
              REAL_RETRIED(result, cuGraphInstantiateWithParams, (exec, graph, params)));
    if (result == CUDA_SUCCESS)
        exec_made(*exec, graph);
    return result;
}

CUresult CUDAAPI replace_cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph,
                                                           CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    if (params == NULL || params->hUploadStream != NULL)
        return replace_cuGraphInstantiateWithParams(exec, graph, params);
    /* The program's own stays as it is, but for what the driver says. */
    CUDA_GRAPH_INSTANTIATE_PARAMS asked = *params;
    asked.hUploadStream = CU_STREAM_PER_THREAD;
    CUresult result = replace_cuGraphInstantiateWithParams(exec, graph, &asked);
    params->hErrNode_out = asked.hErrNode_out;
    params->result_out = asked.result_out;
    return result;
}

/* ---- executables ---------------------------------------------------------------------------- */

/* The executable now does what `graph` says. The driver has it hold the user objects of that, too,
 * and with them the memory (tests/conformance, user_object_after_update). */
static void exec_updated(CUgraphExec exec, CUgraph graph)
{
    uint64_t number;
    CHECK_TELL(check_instantiated(exec, graph));
    if (account_is_on())
        account_handle_ends(exec);
    if (!service_enter())
        return;
    if (handles_get(&graphs, graph, &number))
        handles_set(&executables, exec, number);
    else
        (void)handles_take(&executables, exec, NULL);
    service_leave();
}

CUresult CUDAAPI replace_cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *node,
                                           CUgraphExecUpdateResult *what)
{
    CUresult result;
    ACCOUNTED(ACCOUNT_GRAPHS, result = REAL(cuGraphExecUpdate, (exec, graph, node, what)));
    if (result == CUDA_SUCCESS)
        exec_updated(exec, graph);
    return result;
}

CUresult CUDAAPI replace_cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                                              CUgraphExecUpdateResultInfo *info)
{
    CUresult result;
    ACCOUNTED(ACCOUNT_GRAPHS, result = REAL(cuGraphExecUpdate_v2, (exec, graph, info)));
    if (result == CUDA_SUCCESS)
        exec_updated(exec, graph);
    return result;
}

CUresult CUDAAPI replace_cuGraphExecDestroy(CUgraphExec exec)
{
    CUresult result;
    CHECK_TELL(check_exec_ends(exec));
    number_forget(&executables, exec);
    if (account_is_on())
        account_handle_ends(exec);
    ACCOUNTED(ACCOUNT_GRAPHS, result = REAL(cuGraphExecDestroy, (exec)));
    return result;
}

/* 1 if the launch must not be: it would write over someone's memory. *known is the graph's number
 * if Tenure was told of the launch, and 0 if not. */
static int launch_refused(uint64_t *known, CUgraphExec exec, CUstream stream)
{
    uint64_t number;
    *known = 0;
    tnr_status status = TNR_OK;
    if (!service_enter())
        return 0;
    if (handles_get(&executables, exec, &number)) {
        status = tnr_graph_launching(number, stream);
        if (status == TNR_OK) {
            service_count_one(COUNT_LAUNCHES);
            *known = number;
        } else if (status == TNR_ERR_OVERWRITE || status == TNR_ERR_ASLEEP) {
            service_say("a graph is not launched. %s", tnr_last_error());
        }
    }
    service_leave();
    return status == TNR_ERR_OVERWRITE || status == TNR_ERR_ASLEEP;
}

/* The launch has been made: the history is to have its end. */
static void launch_made(uint64_t number, CUstream stream)
{
    if (!service_enter())
        return;
    tnr_graph_launched(number, stream);
    service_leave();
}

CUresult CUDAAPI replace_cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    uint64_t number;
    if (launch_refused(&number, exec, stream))
        return CUDA_ERROR_ILLEGAL_STATE;
    CUresult result;
    ACCOUNTED_FIRST(ACCOUNT_GRAPHS, exec, ACCOUNT_LAUNCHED,
                    result = REAL(cuGraphLaunch, (exec, stream)));
    if (result == CUDA_SUCCESS) {
        if (number != 0)
            launch_made(number, stream);
        CHECK_TELL(check_graph_launched(exec, stream));
    }
    return result;
}

CUresult CUDAAPI replace_cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
    return replace_cuGraphLaunch(exec, stream_of_thread(stream));
}
