/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantee 3 for captures: any driver call, and any allocation of host memory, may fail anywhere
 * in a capture, its end, a launch and the end of a graph; fault.h says what is checked after each
 * call. When faults are off, any capture that is still there can be ended, graphs end, nothing is
 * left of either, and the next capture works.
 *
 * The program's own driver calls between Tenure's may fail, too. The program then goes on without
 * them, as a program that checks their results would.
 */
#include "fault/fault.h"

#include <stdlib.h>
#include <string.h>

#include <tenure/capture.h>

#define BYTES (4 * MIB)

enum { SCRATCH, AGAIN, BRANCHED, OUTPUT, ORDINARY, USED, STRANGER, SYNCED };
enum { GRAPHS = 3, EVENTS = 16 };

/* What the run has besides its blocks. */
static struct {
    tnr_cuda_graph cuda[GRAPHS];
    CUgraphExec exec[GRAPHS];
    tnr_graph number[GRAPHS];
    unsigned char *scratch; /* where the first graph of a shared pool writes */
    int destroyed;          /* cuGraphDestroy, by the program */
    CUevent events[EVENTS]; /* whose destruction failed */
    int events_count;
} own;

#define ORIGIN (run->streams[0])
#define BRANCH (run->streams[1])

/* ---- the program's own calls ---------------------------------------------------------------- */

/* Own work needs the context; not for long, because fault.h wants to see it as it was. Returns 0 if
 * that was made to fail. */
static int own_enter(fault_run *run)
{
    return cuCtxSetCurrent(run->context) == CUDA_SUCCESS ||
           cuCtxSetCurrent(run->context) == CUDA_SUCCESS;
}

static void own_leave(void)
{
    if (cuCtxSetCurrent(NULL) != CUDA_SUCCESS)
        (void)cuCtxSetCurrent(NULL);
}

/* Work on a block. Its first bytes will do: what is looked at is order, and pages cost time. */
static void own_fill(fault_run *run, int slot, int value)
{
    if (run->slots[slot].ptr == NULL || !own_enter(run))
        return;
    (void)cuMemsetD8Async((CUdeviceptr)(uintptr_t)run->slots[slot].ptr, (unsigned char)value,
                          64 * KIB, run->streams[run->slots[slot].stream]);
    own_leave();
}

/* Returns 1 if `to` waits for what `from` was given. */
static int own_order(fault_run *run, CUstream to, CUstream from)
{
    CUevent event = NULL;
    if (!own_enter(run))
        return 0;
    int right = cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS &&
                cuEventRecord(event, from) == CUDA_SUCCESS &&
                cuStreamWaitEvent(to, event, 0) == CUDA_SUCCESS;
    if (event != NULL && cuEventDestroy(event) != CUDA_SUCCESS)
        own.events[own.events_count++] = event;
    own_leave();
    return right;
}

static void own_instantiate(fault_run *run, int graph)
{
    if (own.cuda[graph] == NULL || !own_enter(run))
        return;
    if (cuGraphInstantiateWithFlags(&own.exec[graph], own.cuda[graph], 0) != CUDA_SUCCESS)
        own.exec[graph] = NULL;
    own_leave();
}

/* Returns 1 if nothing of the graph is left to destroy. */
static int own_destroy(int graph)
{
    if (own.exec[graph] != NULL && cuGraphExecDestroy(own.exec[graph]) == CUDA_SUCCESS)
        own.exec[graph] = NULL;
    if (own.cuda[graph] != NULL) {
        own.destroyed++;
        if (cuGraphDestroy(own.cuda[graph]) == CUDA_SUCCESS)
            own.cuda[graph] = NULL;
    }
    return own.exec[graph] == NULL && own.cuda[graph] == NULL;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static int step_begin(fault_run *run, tnr_pool pool)
{
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.pool = pool;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    /* An earlier one may be there still, if the driver would not end it. */
    int is_new = cuStreamIsCapturing(ORIGIN, &status) == CUDA_SUCCESS &&
                 status == CU_STREAM_CAPTURE_STATUS_NONE;
    int begun = step_status(run, tnr_capture_begin(0, ORIGIN, &options), "begin") == TNR_OK;
    if (is_new && cuStreamIsCapturing(ORIGIN, &status) == CUDA_SUCCESS)
        assert_int_equal(status,
                         begun ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE);
    return begun;
}

/* Ends the capture; the graph is there exactly if that succeeded. */
static void step_end(fault_run *run, int graph)
{
    own.cuda[graph] = (tnr_cuda_graph)(uintptr_t)1;
    own.number[graph] = 0;
    tnr_status status = tnr_capture_end(&own.cuda[graph], &own.number[graph], 0, ORIGIN);
    if (status != TNR_ERR_CAPTURE && status != TNR_OK)
        assert_null(own.cuda[graph]);
    if (status == TNR_ERR_CAPTURE) /* which would mean that nothing was begun */
        own.cuda[graph] = NULL;
    assert_int_not_equal(status, TNR_ERR_CAPTURE);
    if (status == TNR_OK) {
        tnr_graph_info info = {.struct_bytes = sizeof(info)};
        assert_non_null(own.cuda[graph]);
        assert_int_equal(tnr_graph_get(&info, own.number[graph]), TNR_OK);
        assert_int_equal(info.is_capturing, 0);
    }
    (void)step_status(run, status, "end");
    own_instantiate(run, graph);
}

static void step_launch(fault_run *run, int graph, CUstream stream)
{
    if (own.exec[graph] != NULL)
        (void)step_status(run, tnr_graph_launch(own.number[graph], own.exec[graph], stream),
                          "launch");
}

/* A free that may fail; then the block is live as before. */
static void step_release(fault_run *run, int slot, tnr_status (*call)(void *))
{
    if (run->slots[slot].ptr == NULL)
        return;
    tnr_status status = call(run->slots[slot].ptr);
    if (status == TNR_OK)
        run->slots[slot].ptr = NULL;
    (void)step_status(run, status, "a free");
}

/* What a capture does: allocates, frees, allocates again, forks, uses, joins. Returns 1 if all
 * streams have joined. */
static int capture_body(fault_run *run)
{
    (void)step_malloc(run, SCRATCH, BYTES, 0, -1, 0);
    own_fill(run, SCRATCH, 1);
    step_free(run, SCRATCH);
    (void)step_malloc(run, AGAIN, 3 * MIB, 0, -1, 0);
    own_fill(run, AGAIN, 2);
    int joined = own_order(run, BRANCH, ORIGIN);
    if (joined) {
        (void)step_malloc(run, BRANCHED, 2 * BYTES, 0, -1, 1);
        own_fill(run, BRANCHED, 3);
        if (run->slots[AGAIN].ptr != NULL) {
            (void)step_status(run, tnr_record_use(run->slots[AGAIN].ptr, BRANCH), "record_use");
            (void)step_status(run, tnr_record_stream(run->slots[AGAIN].ptr, BRANCH),
                              "record_stream");
        }
        step_release(run, AGAIN, tnr_free);
        joined = own_order(run, ORIGIN, BRANCH);
        step_release(run, BRANCHED, tnr_free);
    }
    (void)step_malloc(run, OUTPUT, 12 * MIB, 0, -1, 0);
    own_fill(run, OUTPUT, 4);
    return joined;
}

/* ---- settling ------------------------------------------------------------------------------- */

/* Ends what is still captured on the stream, by Tenure or, if it has let go, by the driver. */
static void capture_settle(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUgraph graph = NULL;
    tnr_status aborted = tnr_capture_abort(0, stream);
    assert_true(aborted == TNR_OK || aborted == TNR_ERR_CAPTURE);
    assert_int_equal(cuStreamIsCapturing(stream, &status), CUDA_SUCCESS);
    if (status == CU_STREAM_CAPTURE_STATUS_NONE)
        return;
    if (cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS && graph != NULL)
        assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
}

/* Faults are off: the next capture works, on the same streams. */
static void check_next_capture(fault_run *run)
{
    tnr_cuda_graph cuda = NULL;
    tnr_graph number = 0;
    CUgraphExec exec = NULL;
    void *block = NULL;
    assert_int_equal(tnr_capture_begin(0, ORIGIN, NULL), TNR_OK);
    assert_int_equal(tnr_malloc(&block, BYTES, 0, ORIGIN), TNR_OK);
    assert_int_equal(
        cuMemsetD8Async((CUdeviceptr)(uintptr_t)block + BYTES - 64 * KIB, 0x5a, 64 * KIB, ORIGIN),
        CUDA_SUCCESS);
    assert_int_equal(tnr_capture_end(&cuda, &number, 0, ORIGIN), TNR_OK);
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, cuda, 0), CUDA_SUCCESS);
    assert_int_equal(tnr_graph_launch(number, exec, ORIGIN), TNR_OK);
    simcuda_run(UINT64_MAX);
    assert_int_equal(((unsigned char *)block)[BYTES - 1], 0x5a);
    assert_int_equal(tnr_free(block), TNR_OK);
    assert_int_equal(cuGraphExecDestroy(exec), CUDA_SUCCESS);
    assert_int_equal(cuGraphDestroy(cuda), CUDA_SUCCESS);
    simcuda_run(UINT64_MAX);
}

static void settle(fault_run *run)
{
    simcuda_live live;
    capture_settle(ORIGIN);
    capture_settle(BRANCH);
    for (int i = 0; i < GRAPHS; i++)
        assert_true(own_destroy(i));
    while (own.events_count > 0)
        assert_int_equal(cuEventDestroy(own.events[--own.events_count]), CUDA_SUCCESS);
    simcuda_run(UINT64_MAX);
    check_next_capture(run);
    simcuda_run(UINT64_MAX);
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    assert_int_equal(live.graph_execs, 0);
    /* A graph may be left only if Tenure could not destroy it, not because it never tried. */
    if (live.graphs > 0)
        assert_true(simcuda_calls("cuGraphDestroy") > (uint64_t)own.destroyed + 1);
}

/* ---- scenarios ------------------------------------------------------------------------------ */

static void prepare(fault_run *run)
{
    memset(&own, 0, sizeof(own));
    run->settle = settle;
    for (int i = ORDINARY; i <= SYNCED; i++) {
        (void)step_malloc(run, i, BYTES, 0, -1, i == STRANGER ? 2 : 0);
        prepare_fill(run, i);
    }
}

static void whole_body(fault_run *run)
{
    if (!step_begin(run, NULL))
        return;
    own_fill(run, USED, 9);
    if (run->slots[STRANGER].ptr != NULL)
        (void)step_status(run, tnr_record_use(run->slots[STRANGER].ptr, ORIGIN), "record_use");
    step_release(run, ORDINARY, tnr_free);
    step_release(run, SYNCED, tnr_free_sync);
    (void)capture_body(run);
    step_end(run, 0);
    step_release(run, USED, tnr_free);
    step_release(run, STRANGER, tnr_free);
    (void)step_malloc(run, SCRATCH, 6 * MIB, 0, -1, 2);
    step_launch(run, 0, ORIGIN);
    step_launch(run, 0, BRANCH);
    step_release(run, OUTPUT, tnr_free);
    step_launch(run, 0, run->streams[2]);
    (void)own_destroy(0);
    simcuda_run(UINT64_MAX);
    (void)step_trim(run, 0);
}

static void given_up_body(fault_run *run)
{
    if (!step_begin(run, NULL))
        return;
    step_release(run, ORDINARY, tnr_free);
    (void)own_order(run, BRANCH, ORIGIN);
    (void)step_malloc(run, BRANCHED, BYTES, 0, -1, 1);
    (void)step_malloc(run, SCRATCH, BYTES, 0, -1, 0);
    own_fill(run, SCRATCH, 1);
    step_release(run, SCRATCH, tnr_free);
    (void)step_status(run, tnr_capture_abort(0, ORIGIN), "abort");
    if (!step_begin(run, NULL))
        return;
    (void)own_order(run, BRANCH, ORIGIN); /* and never back */
    step_end(run, 0);
    (void)step_trim(run, 0);
}

/* Two graphs on one pool; the first is there. */
static void pool_prepare(fault_run *run)
{
    prepare(run);
    assert_int_equal(tnr_graph_pool_create(&run->pools[0], 0, NULL), TNR_OK);
    assert_true(step_begin(run, run->pools[0]));
    (void)step_malloc(run, SCRATCH, BYTES, 0, -1, 0);
    own_fill(run, SCRATCH, 1);
    own.scratch = run->slots[SCRATCH].ptr;
    step_free(run, SCRATCH);
    step_end(run, 0);
    assert_int_equal(cuCtxSetCurrent(run->context), CUDA_SUCCESS);
}

static void pool_body(fault_run *run)
{
    step_launch(run, 0, BRANCH);
    if (step_begin(run, run->pools[0])) {
        (void)step_malloc(run, AGAIN, BYTES, 0, -1, 0);
        own_fill(run, AGAIN, 1);
        (void)step_malloc(run, OUTPUT, 12 * MIB, 0, -1, 0);
        step_end(run, 1);
    }
    step_launch(run, 1, ORIGIN);
    if (run->slots[AGAIN].ptr != NULL && run->slots[AGAIN].ptr == own.scratch) {
        /* Lies where the first graph writes: refused, with faults or without. */
        tnr_status status = tnr_graph_launch(own.number[0], own.exec[0], ORIGIN);
        if (status == TNR_OK)
            print_error("a launch over a live block, with graph 2 %s\n",
                        own.exec[1] == NULL ? "missing" : "there");
        assert_int_not_equal(status, TNR_OK);
    }
    step_release(run, AGAIN, tnr_free);
    step_release(run, OUTPUT, tnr_free);
    step_launch(run, 0, run->streams[2]);
    int ended = own_destroy(0) + own_destroy(1);
    simcuda_run(UINT64_MAX);
    if (ended == 2)
        (void)step_pool_destroy(run, 0);
}

/* An engine that captures itself, and a graph built by hand. */
static void attach_body(fault_run *run)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUgraph ended = NULL;
    if (!own_enter(run))
        return;
    CUresult begun = cuStreamBeginCapture(ORIGIN, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    own_leave();
    if (begun != CUDA_SUCCESS)
        return;
    tnr_status attached = tnr_capture_attach(&own.number[0], 0, ORIGIN, NULL);
    if (step_status(run, attached, "attach") == TNR_OK) {
        step_release(run, ORDINARY, tnr_free);
        (void)capture_body(run);
    }
    if (cuStreamEndCapture(ORIGIN, &ended) != CUDA_SUCCESS)
        ended = NULL;
    own.cuda[0] = ended;
    if (cuStreamIsCapturing(ORIGIN, &status) != CUDA_SUCCESS ||
        status != CU_STREAM_CAPTURE_STATUS_NONE)
        return; /* the engine's own end was made to fail: settle ends it */
    if (attached == TNR_OK) {
        (void)step_status(run, tnr_capture_ended(own.number[0], ended), "ended");
        own_instantiate(run, 0);
        step_launch(run, 0, BRANCH);
    }
    (void)step_trim(run, 0);
}

static void adopt_prepare(fault_run *run)
{
    CUgraphNode node;
    prepare(run);
    const CUDA_MEMSET_NODE_PARAMS set = {
        (CUdeviceptr)(uintptr_t)run->slots[USED].ptr, 0, 1, 1, 64, 1};
    assert_int_equal(cuGraphCreate(&own.cuda[0], 0), CUDA_SUCCESS);
    assert_int_equal(cuGraphAddMemsetNode(&node, own.cuda[0], NULL, 0, &set, run->context),
                     CUDA_SUCCESS);
}

static void adopt_body(fault_run *run)
{
    if (step_status(run, tnr_graph_adopt(&own.number[0], own.cuda[0], 0, NULL), "adopt") != TNR_OK)
        return;
    step_release(run, USED, tnr_free);
    own_instantiate(run, 0);
    step_launch(run, 0, ORIGIN);
    (void)own_destroy(0);
    simcuda_run(UINT64_MAX);
    (void)step_malloc(run, SCRATCH, BYTES, 0, -1, 0);
    (void)step_trim(run, 0);
}

static const fault_scenario scenarios[] = {
    {"a capture, its launches and its end", "reuse:poll", "64M", prepare, whole_body},
    {"captures that come to nothing", NULL, "64M", prepare, given_up_body},
    {"two graphs on one pool", NULL, "64M", pool_prepare, pool_body},
    {"an engine that captures itself", NULL, "64M", prepare, attach_body},
    {"a graph built by hand", NULL, "64M", adopt_prepare, adopt_body},
};

/* Arguments: see fault_main. */
int main(int argc, char **argv)
{
    return fault_main(scenarios, sizeof(scenarios) / sizeof(scenarios[0]), argc, argv);
}
