/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs of one device that refer to memory of another.
 *
 * Lines of the library changed to see it fail:
 *   tnri_event_drop: the event becomes a spare of device 0: launched_in_turn
 *   graphs_end without tnri_graph_let_go_of: ended_by_shutdown and the others
 *   graphs_wait waits for the ending device alone: ended_alone (unmapped under work)
 *   needed_error looks at the device's own graphs alone: ended_alone
 *   capture_needs asks for the device's own captures alone: ended_in_captures
 *   free_later asks for captures on the block's device: freed_during_a_capture
 *   tnr_shutdown without device_end_captures of all devices: ended_in_captures
 */
#include "lifetime/life.h"

#include <cuda.h>
#include <tenure/capture.h>

enum { BYTES = 4 << 20 };

static tnr_stream streams[2];

static void on(int device)
{
    CUcontext context;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(device), CUDA_SUCCESS);
}

/* Two devices that reach each other, with a stream of each. */
static void start(const char *setting)
{
    life_start(NULL, "DEVICES=2", setting);
    assert_ok(tnr_device_access_set(0, 1, TNR_ACCESS_READWRITE));
    assert_ok(tnr_device_access_set(1, 0, TNR_ACCESS_READWRITE));
    streams[0] = life_streams[0];
    streams[1] = unit_stream(1);
}

static void *malloc_on(int device)
{
    void *block;
    assert_ok(tnr_malloc(&block, BYTES, device, streams[device]));
    return block;
}

/* Makes a device's stream wait for what the other one's was given. */
static void order_after_other(int device)
{
    CUevent event;
    on(1 - device);
    assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    assert_int_equal(cuEventRecord(event, streams[1 - device]), CUDA_SUCCESS);
    on(device);
    assert_int_equal(cuStreamWaitEvent(streams[device], event, 0), CUDA_SUCCESS);
    assert_int_equal(cuEventDestroy(event), CUDA_SUCCESS);
}

static void copy(void *to, const void *from, tnr_stream stream)
{
    assert_int_equal(cuMemcpyDtoDAsync((CUdeviceptr)to, (CUdeviceptr)from, BYTES, stream),
                     CUDA_SUCCESS);
}

/* ---- graphs --------------------------------------------------------------------------------- */

typedef struct recorded {
    int device;
    tnr_cuda_graph cuda;
    CUgraphExec exec;
    tnr_graph number;
} recorded;

static tnr_pool graph_pool(int device)
{
    tnr_pool pool;
    assert_ok(tnr_graph_pool_create(&pool, device, NULL));
    return pool;
}

static void capture_begin(int device, tnr_pool pool)
{
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.pool = pool;
    on(device);
    assert_ok(tnr_capture_begin(device, streams[device], &options));
}

static recorded capture_end(int device)
{
    recorded graph = {.device = device};
    assert_ok(tnr_capture_end(&graph.cuda, &graph.number, device, streams[device]));
    assert_int_equal(cuGraphInstantiateWithFlags(&graph.exec, graph.cuda, 0), CUDA_SUCCESS);
    assert_ok(tnr_validate(-1));
    return graph;
}

static void launch(const recorded *graph)
{
    on(graph->device);
    assert_ok(tnr_graph_launch(graph->number, graph->exec, streams[graph->device]));
}

static void destroy(const recorded *graph)
{
    assert_int_equal(cuGraphExecDestroy(graph->exec), CUDA_SUCCESS);
    assert_int_equal(cuGraphDestroy(graph->cuda), CUDA_SUCCESS);
}

/* A graph of a device that copies `from` into memory of its own, and from there to `to`. */
static recorded copier(int device, void *to, const void *from)
{
    void *between;
    capture_begin(device, NULL);
    between = malloc_on(device);
    copy(between, from, streams[device]);
    copy(to, between, streams[device]);
    assert_ok(tnr_free(between));
    return capture_end(device);
}

/* ---- launches ------------------------------------------------------------------------------- */

/* Uses of both devices' streams can be recorded: the spare events are of the right device. */
static void uses_are_recorded(void)
{
    for (int device = 0; device < 2; device++) {
        on(device);
        tnr_stream other = unit_stream(device);
        void *blocks[8];
        for (int i = 0; i < 8; i++) {
            blocks[i] = malloc_on(device);
            assert_int_equal(cuMemsetD8Async((CUdeviceptr)blocks[i], 1, BYTES, other),
                             CUDA_SUCCESS);
            assert_ok(tnr_record_use(blocks[i], other));
        }
        for (int i = 0; i < 8; i++)
            assert_ok(tnr_free(blocks[i]));
    }
    assert_ok(tnr_validate(-1));
}

/* Device 1's graph reads what device 0's writes, each time after it. Each launch of device 0's is
 * ordered after the latest one of device 1's, because that one keeps a block of its pool, which the
 * program has freed. The event that does it is device 1's. */
static void launched_in_turn(void **state)
{
    (void)state;
    start(NULL);
    tnr_pool pool = graph_pool(0);
    assert_ok(tnr_pool_access_set(pool, 0, 1, TNR_ACCESS_READWRITE));
    capture_begin(0, pool);
    void *out = malloc_on(0);
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)out, 1, BYTES, streams[0]), CUDA_SUCCESS);
    recorded writes = capture_end(0);
    on(1);
    void *to = malloc_on(1);
    recorded reads = copier(1, to, out);
    launch(&writes);
    assert_ok(tnr_free(out)); /* the other graph holds it */
    for (int i = 0; i < 3; i++) {
        order_after_other(1);
        launch(&reads);
        launch(&writes);
    }
    uses_are_recorded();
    (void)simcuda_run(UINT64_MAX);
    destroy(&reads);
    destroy(&writes);
    (void)simcuda_run(UINT64_MAX);
    assert_ok(tnr_free(to));
    assert_ok(tnr_pool_destroy(pool));
    uses_are_recorded();
    assert_ok(tnr_shutdown(0));
}

/* ---- the end of a device -------------------------------------------------------------------- */

/* A freed block of device 0 that a graph of device 1 keeps; it may have been launched. */
static recorded keeper(int is_launched)
{
    void *out = malloc_on(0);
    on(1);
    void *to = malloc_on(1);
    recorded graph = copier(1, to, out);
    if (is_launched)
        launch(&graph);
    assert_ok(tnr_free(out));
    assert_ok(tnr_free(to));
    return graph;
}

static void ended_by_shutdown(void **state)
{
    (void)state;
    for (int destroyed = 0; destroyed < 2; destroyed++) {
        start(NULL);
        recorded graph = keeper(1);
        if (destroyed)
            destroy(&graph);
        assert_ok(tnr_shutdown(1));
        if (!destroyed)
            destroy(&graph);
        assert_int_equal(life_stop(state), 0);
    }
    start(NULL);
}

/* The graph's device goes on, and the graph with it; its launch, which reads what goes back to the
 * driver, is waited for. */
static void ended_alone(void **state)
{
    (void)state;
    start(NULL);
    recorded graph = keeper(1);
    tnr_graph_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_graph_get(&info, graph.number));
    assert_int_equal(info.kept_blocks, 2);
    assert_error(tnr_device_end(0, 0), TNR_ERR_BUSY, "still needs memory of device 0");
    assert_error(tnr_shutdown(0), TNR_ERR_BUSY, "still needs memory of device 0");
    assert_ok(tnr_validate(-1));
    assert_ok(tnr_device_end(0, 1));
    assert_ok(tnr_graph_get(&info, graph.number));
    assert_int_equal(info.kept_blocks, 1);
    assert_int_equal(info.kept_bytes, BYTES);
    assert_ok(tnr_validate(-1));
    assert_ok(tnr_free(malloc_on(0)));
    destroy(&graph);
    (void)simcuda_run(UINT64_MAX);
    assert_ok(tnr_device_end(1, 0));
}

/* A capture of the other device keeps a block of this one: force ends it, and so does a shutdown
 * that comes to this device's graphs before. */
static void ended_in_captures(void **state)
{
    (void)state;
    for (int is_shutdown = 0; is_shutdown < 2; is_shutdown++) {
        start(NULL);
        recorded graph = keeper(1);
        void *block = malloc_on(0);
        capture_begin(1, NULL);
        assert_ok(tnr_record_use(block, streams[1]));
        assert_ok(tnr_free(block));
        assert_error(tnr_device_end(0, 0), TNR_ERR_BUSY, "is under way on device 1");
        assert_ok(tnr_validate(-1));
        if (is_shutdown) {
            capture_begin(0, NULL);
            (void)malloc_on(0);
            assert_ok(tnr_shutdown(1));
        } else {
            assert_ok(tnr_device_end(0, 1));
            assert_ok(tnr_validate(-1));
        }
        CUstreamCaptureStatus status;
        assert_int_equal(cuStreamIsCapturing(streams[1], &status), CUDA_SUCCESS);
        assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
        destroy(&graph);
        assert_int_equal(life_stop(state), 0);
    }
    start(NULL);
}

/* Whatever fails, a repeated call comes to the end. */
static void ended_while_the_driver_fails(void **state)
{
    (void)state;
    tnr_status status = TNR_ERR_DRIVER;
    for (uint64_t nth = 1; status != TNR_OK || nth < 5; nth++) {
        start(NULL);
        recorded graph = keeper(1);
        simcuda_fail("*", nth, 0, CUDA_ERROR_UNKNOWN);
        status = tnr_device_end(0, 1);
        simcuda_fail_clear();
        assert_ok(tnr_validate(-1));
        assert_ok(tnr_device_end(0, 1));
        assert_ok(tnr_free(malloc_on(0)));
        assert_ok(tnr_validate(-1));
        destroy(&graph);
        (void)simcuda_run(UINT64_MAX);
        assert_ok(tnr_shutdown(0));
        assert_int_equal(life_stop(state), 0);
    }
    start(NULL);
}

/* ---- frees during a capture ------------------------------------------------------------------ */

/* A block of the other device that a capture refers to is freed before the capture ends: nobody
 * gets its memory while the graph lives, and then it comes back. */
static void freed_during_a_capture(void **state)
{
    (void)state;
    start("SCHEDULE=lazy");
    unsigned char *in = malloc_on(0), *out = malloc_on(1);
    on(0);
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)in, 7, BYTES, streams[0]), CUDA_SUCCESS);
    capture_begin(1, NULL);
    copy(out, in, streams[1]);
    assert_ok(tnr_free(in));
    void *next = malloc_on(0);
    assert_ptr_not_equal(next, in);
    recorded graph = capture_end(1);
    on(0);
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)next, 8, BYTES, streams[0]), CUDA_SUCCESS);
    order_after_other(1);
    launch(&graph);
    assert_int_equal(cuStreamSynchronize(streams[1]), CUDA_SUCCESS);
    assert_int_equal(out[BYTES - 1], 7);
    assert_ok(tnr_free(next));
    destroy(&graph);
    assert_ok(tnr_free(out));
    (void)simcuda_run(UINT64_MAX);
    assert_ok(tnr_shutdown(0));
}

#define CASE(test) cmocka_unit_test_teardown(test, life_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(launched_in_turn), CASE(freed_during_a_capture), CASE(ended_by_shutdown),
        CASE(ended_alone),      CASE(ended_in_captures),      CASE(ended_while_the_driver_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
