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
 * Numbers of Tenure's graphs follow the driver's handles from the capture over clones and
 * executables to the launch.
 */
#include "graphs.h"

#include "account.h"
#include "check/check.h"
#include "handles.h"
#include "order.h"
#include "shortage.h"

static handles begun = HANDLES_INIT;       /* origin stream -> device + 1: begun by Tenure */
static handles attached = HANDLES_INIT;    /* origin stream -> number: begun by the driver */
static handles targets = HANDLES_INIT;     /* the same -> the program's graph */
static handles graphs = HANDLES_INIT;      /* graph -> number */
static handles executables = HANDLES_INIT; /* executable -> number */
static _Atomic int strange_count; /* captures under way, or once so, that are not followed */

int graphs_is_strange(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (atomic_load_explicit(&strange_count, memory_order_relaxed) == 0)
        return 0;
    return REAL(cuStreamIsCapturing, (stream, &status)) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* What is left of one device among others does no harm: Tenure gives no number twice, and knows
 * those of its graphs no more. */
void graphs_forget(int device, int is_only)
{
    handles_clear(&begun, (uint64_t)device + 1);
    if (!is_only)
        return;
    handles_clear(&attached, 0);
    handles_clear(&targets, 0);
    handles_clear(&graphs, 0);
    handles_clear(&executables, 0);
}

/* ---- captures ------------------------------------------------------------------------------- */

/* Per-thread default streams are one handle for many streams: each thread's own place in a table
 * is its address, which no handle is. */
static const void *origin_key(CUstream stream)
{
    static _Thread_local char own;
    return stream == CU_STREAM_PER_THREAD ? (const void *)&own : (const void *)stream;
}

/* A capture begins that Tenure does not follow. */
static CUresult capture_passed(CUresult result)
{
    if (result != CUDA_SUCCESS)
        return result;
    service_count_one(COUNT_CAPTURES_PASSED);
    atomic_fetch_add(&strange_count, 1);
    order_give_up();
    return result;
}

/* Set for ever by an engine that has Tenure follow its captures itself. */
static _Atomic int is_left_to_engine;

__attribute__((visibility("default"))) void tenure_preload_engine(void)
{
    atomic_store(&is_left_to_engine, 1);
}

/* 1 if Tenure has begun it. */
static int capture_begin(CUstream stream, CUstreamCaptureMode mode)
{
    int is_begun = 0;
    if (atomic_load_explicit(&is_left_to_engine, memory_order_relaxed) || !service_enter())
        return 0;
    service_device *device = order_device(stream);
    if (device != NULL && (int)mode >= 0 && mode <= CU_STREAM_CAPTURE_MODE_RELAXED) {
        tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
        options.mode = (tnr_capture_mode)mode;
        is_begun = tnr_capture_begin(device->index, stream, &options) == TNR_OK;
    }
    if (is_begun) {
        handles_set(&begun, origin_key(stream), (uint64_t)device->index + 1);
        service_count_one(COUNT_CAPTURES);
    }
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

CUresult CUDAAPI replace_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                                     const CUgraphNode *dependencies,
                                                     const CUgraphEdgeData *edges, size_t count,
                                                     CUstreamCaptureMode mode)
{
    CHECK_TELL(check_capture_begins());
    CUresult result =
        REAL(cuStreamBeginCaptureToGraph, (stream, graph, dependencies, edges, count, mode));
    if (atomic_load_explicit(&is_left_to_engine, memory_order_relaxed))
        return capture_passed(result);
    if (result != CUDA_SUCCESS || !service_enter())
        return result;
    tnr_graph number = 0;
    service_device *device = order_device(stream);
    if (device != NULL && tnr_capture_attach(&number, device->index, stream, NULL) == TNR_OK) {
        handles_set(&attached, origin_key(stream), number);
        handles_set(&targets, origin_key(stream), (uint64_t)(uintptr_t)graph);
        service_count_one(COUNT_CAPTURES);
    }
    service_leave();
    return number != 0 ? result : capture_passed(result);
}

CUresult CUDAAPI replace_cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                                          const CUgraphNode *dependencies,
                                                          const CUgraphEdgeData *edges,
                                                          size_t count, CUstreamCaptureMode mode)
{
    return replace_cuStreamBeginCaptureToGraph(stream_of_thread(stream), graph, dependencies, edges,
                                               count, mode);
}

/* Ends a capture that Tenure has begun. 1 if it has ended, well or badly. */
static int capture_end(CUstream stream, CUgraph *graph, CUresult *result)
{
    uint64_t device;
    tnr_graph number = 0;
    int is_ended = 0;
    if (graph == NULL || !service_enter())
        return 0;
    if (handles_get(&begun, origin_key(stream), &device)) {
        tnr_status status = tnr_capture_end(graph, &number, (int)device - 1, stream);
        /* Another thread than the one that began it: the driver has an error for that. */
        is_ended = status != TNR_ERR_CAPTURE;
        *result = service_result(status);
        (void)handles_take(&begun, origin_key(stream), NULL);
        if (status == TNR_OK)
            handles_set(&graphs, *graph, number);
    }
    service_leave();
    return is_ended;
}

CUresult CUDAAPI replace_cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    CUresult result;
    uint64_t number, into = 0;
    if (capture_end(stream, graph, &result))
        return result;
    result = REAL(cuStreamEndCapture, (stream, graph));
    if (!service_enter())
        return result;
    /* A program that captures into a graph of its own need not ask which one came of it: who fills
     * the body of a conditional node does not. */
    (void)handles_take(&targets, origin_key(stream), &into);
    if (handles_take(&attached, origin_key(stream), &number)) {
        CUgraph made = graph != NULL ? *graph : (CUgraph)(uintptr_t)into;
        if (result != CUDA_SUCCESS)
            made = NULL;
        if (tnr_capture_ended(number, made) == TNR_OK && made != NULL)
            handles_set(&graphs, made, number);
    }
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
    if (params != NULL && params->hUploadStream == NULL)
        params->hUploadStream = CU_STREAM_PER_THREAD;
    return replace_cuGraphInstantiateWithParams(exec, graph, params);
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
