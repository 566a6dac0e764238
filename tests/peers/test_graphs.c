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
 *   launch_order_freed of the first place alone: beside_lives_on (race)
 *   holders_find asks for blocks of the first place alone: beside_lives_on (race)
 *   outside_begin without the pools beside: beside_lives_on (written while it sleeps)
 *   device_wait of hold.c in device 0's context: beside_lives_on (race)
 *   free_later asks for captures on the block's device: kept_for_it, too
 *   tnri_capture_finish ends the first place alone, tnri_graph_end parts with it alone: most
 *   tnri_pieces_look of the first place alone: beside_reuses
 *   malloc_beside without tnri_capture_leave_place, malloc_inside that takes any stream:
 *       beside_refused
 *   graph_is_on looks at the graph's device alone: beside_refused
 */
#include "lifetime/life.h"

#include <pthread.h>

#include <cuda.h>
#include <tenure/capture.h>
#include <tenure/sleep.h>

#include "base/host_memory.h"

enum { BYTES = 4 << 20 };

static tnr_stream streams[2];
static CUevent events[2]; /* of each device */

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

/* Makes a device's stream wait for what `from`, of the other device, was given. */
static void order_after(tnr_stream to, int device, tnr_stream from)
{
    CUevent event;
    on(1 - device);
    assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    assert_int_equal(cuEventRecord(event, from), CUDA_SUCCESS);
    on(device);
    assert_int_equal(cuStreamWaitEvent(to, event, 0), CUDA_SUCCESS);
    assert_int_equal(cuEventDestroy(event), CUDA_SUCCESS);
}

static void order_after_other(int device)
{
    order_after(streams[device], device, streams[1 - device]);
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

static tnr_graph attached; /* 0: captures are begun through Tenure */

static void capture_begin(int device, tnr_pool pool)
{
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.pool = pool;
    on(device);
    if (attached != 0) {
        assert_int_equal(cuStreamBeginCapture(streams[device], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                         CUDA_SUCCESS);
        assert_ok(tnr_capture_attach(&attached, device, streams[device], &options));
        return;
    }
    assert_ok(tnr_capture_begin(device, streams[device], &options));
}

static recorded capture_end(int device)
{
    recorded graph = {.device = device};
    if (attached != 0) {
        graph.number = attached;
        assert_int_equal(cuStreamEndCapture(streams[device], &graph.cuda), CUDA_SUCCESS);
        assert_ok(tnr_capture_ended(attached, graph.cuda));
    } else {
        assert_ok(tnr_capture_end(&graph.cuda, &graph.number, device, streams[device]));
    }
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

/* ---- captures of two devices ---------------------------------------------------------------- */

static void fill(void *block, int value, int device)
{
    on(device);
    life_fill(block, BYTES, value, streams[device]);
}

/* A graph of device 0 whose capture has device 1 fill a block of its own there. That block is
 * copied to `to` by way of one of device 0, and both are freed: each on the stream that read it. */
static recorded relay(tnr_pool pool, void *to, int value)
{
    void *there, *here;
    capture_begin(0, pool);
    order_after_other(1);
    there = malloc_on(1);
    fill(there, value, 1);
    order_after_other(0);
    here = malloc_on(0);
    copy(here, there, streams[0]);
    copy(to, here, streams[0]);
    assert_ok(tnr_free(here));
    assert_ok(tnr_free_on(there, streams[0]));
    return capture_end(0);
}

static int pools_count(int device)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    assert_ok(tnr_stats_get(&stats, NULL, device));
    return (int)stats.pools;
}

static uint64_t reserved(int device)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    assert_ok(tnr_trim(NULL, 0, device));
    assert_ok(tnr_stats_get(&stats, NULL, device));
    return stats.reserved_bytes.current;
}

static tnr_pool pool_of(const void *block)
{
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, block));
    return info.pool;
}

static int value_of(const void *block)
{
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, block));
    order_after_other(info.device);
    unsigned char *read = life_read(block, BYTES, streams[info.device]);
    (void)simcuda_run(UINT64_MAX);
    int value = life_all(read, BYTES, read[0]) ? read[0] : -1;
    order_after_other(1 - info.device);
    return value;
}

enum { GRAPHS = 3 };

static void graphs_make(recorded *graphs, void **to, tnr_pool pool)
{
    tnr_graph_info info = {.struct_bytes = sizeof(info)};
    tnr_audit audit = {.struct_bytes = sizeof(audit)};
    for (int g = 0; g < GRAPHS; g++) {
        to[g] = malloc_on(0);
        graphs[g] = relay(pool, to[g], 10 + g);
        assert_ok(tnr_graph_get(&info, graphs[g].number));
        assert_int_equal(info.bytes, 2 * BYTES);
        assert_int_equal(info.kept_blocks, 1);
        assert_int_equal(info.device, 0);
        assert_ok(tnr_graph_audit(&audit, graphs[g].cuda, graphs[g].number, NULL, NULL));
        assert_true(audit.found > 0);
        assert_int_equal(audit.unproved, 0);
    }
}

/* Several graphs, in pools of their own, in one that they share, and captured by an engine: what
 * each had on device 1 is its own, whatever the program allocates there, and ends with it. */
static void beside_its_place(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        start(NULL);
        attached = round == 2;
        tnr_pool pool = round == 1 ? graph_pool(0) : NULL;
        recorded graphs[GRAPHS];
        void *to[GRAPHS], *others[4];
        assert_ok(tnr_free(malloc_on(1)));
        graphs_make(graphs, to, pool);
        assert_int_equal(pools_count(1), 1 + GRAPHS);
        for (int i = 0; i < 4; i++)
            fill(others[i] = malloc_on(1), 99, 1);
        for (int g = GRAPHS - 1; g >= 0; g--) {
            launch(&graphs[g]);
            assert_int_equal(value_of(to[g]), 10 + g);
        }
        for (int i = 0; i < 4; i++) {
            assert_int_equal(value_of(others[i]), 99);
            assert_ok(tnr_free(others[i]));
        }
        assert_error(tnr_device_end(1, 0), TNR_ERR_BUSY, "still needs memory of device 1");
        for (int g = 0; g < GRAPHS; g++) {
            destroy(&graphs[g]);
            assert_ok(tnr_free(to[g]));
        }
        (void)simcuda_run(UINT64_MAX);
        assert_int_equal(reserved(1), 0);
        assert_int_equal(pools_count(1), 1);
        if (pool != NULL)
            assert_ok(tnr_pool_destroy(pool));
        attached = 0;
        assert_ok(tnr_shutdown(0));
        assert_int_equal(life_stop(state), 0);
    }
    start(NULL);
}

/* Another stream of device 1, which allocates before it comes after the first, and again then. */
static void branch_reuses(void)
{
    CUevent joins = NULL;
    tnr_stream branch = unit_stream(1);
    void *freed, *own, *again;
    on(1);
    joins = life_event();
    assert_int_equal(cuEventRecord(joins, streams[1]), CUDA_SUCCESS);
    assert_int_equal(cuStreamWaitEvent(branch, joins, 0), CUDA_SUCCESS);
    freed = malloc_on(1);
    fill(freed, 3, 1);
    assert_ok(tnr_malloc(&own, BYTES, 1, branch));
    assert_ok(tnr_free(freed));
    assert_int_equal(cuEventRecord(joins, streams[1]), CUDA_SUCCESS);
    assert_int_equal(cuStreamWaitEvent(branch, joins, 0), CUDA_SUCCESS);
    assert_ok(tnr_malloc(&again, BYTES, 1, branch));
    assert_ptr_equal(again, freed);
    life_fill(again, BYTES, 4, branch);
    assert_int_equal(cuEventRecord(joins, branch), CUDA_SUCCESS);
    assert_int_equal(cuStreamWaitEvent(streams[1], joins, 0), CUDA_SUCCESS);
    assert_ok(tnr_free(own));
    assert_ok(tnr_free(again));
}

/* What one stream of device 1 frees, a later one gets that comes after it, and no other. */
static void beside_reuses(void **state)
{
    (void)state;
    start(NULL);
    tnr_graph_info info = {.struct_bytes = sizeof(info)};
    capture_begin(0, NULL);
    order_after_other(1);
    void *first = malloc_on(1);
    fill(first, 1, 1);
    assert_ok(tnr_free(first));
    void *second = malloc_on(1);
    assert_ptr_equal(second, first);
    fill(second, 2, 1);
    void *here = malloc_on(0); /* device 0 comes after none of it */
    assert_ptr_not_equal(pool_of(here), pool_of(second));
    branch_reuses();
    order_after_other(0);
    recorded graph = capture_end(0);
    assert_ok(tnr_graph_get(&info, graph.number));
    assert_int_equal(info.blocks, 6);
    assert_int_equal(info.reused, 2);
    assert_int_equal(info.bytes, 4 * BYTES);
    launch(&graph);
    assert_int_equal(value_of(second), 2);
    assert_ok(tnr_free(second));
    assert_ok(tnr_free(here));
    destroy(&graph);
}

/* On the stream that has the block, or, where all are waited for, on the legacy one. */
static void read_there(void *to, const void *block, int is_elsewhere)
{
    on(1);
    CUevent event = life_event();
    tnr_stream stream = is_elsewhere ? NULL : streams[1];
    assert_int_equal(cuEventRecord(event, streams[1]), CUDA_SUCCESS);
    assert_int_equal(cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
    copy(to, block, stream);
}

/* A block of device 1 that outlives the capture: uses of it, after it was freed, come before the
 * next launch, which writes there again; and so do launches of another graph that keeps it. */
static void beside_lives_on(void **state)
{
    (void)state;
    for (int round = 0; round < 4; round++) {
        int is_kept = round & 1, is_sync = round >> 1;
        start(NULL);
        recorded reads = {0};
        void *to = malloc_on(1), *seen = malloc_on(1);
        tnr_stream apart = unit_stream(1);
        capture_begin(0, NULL);
        order_after_other(1);
        void *block = malloc_on(1);
        fill(block, 5, 1);
        order_after_other(0);
        recorded writes = capture_end(0);
        tnr_pool pool = pool_of(block);
        launch(&writes);
        order_after_other(1);
        if (is_kept)
            reads = copier(1, to, block);
        read_there(seen, block, is_sync);
        assert_ok(is_sync ? tnr_free_sync(block) : tnr_free(block));
        for (int i = 0; i < 2; i++) {
            if (is_kept) {
                order_after(apart, 1, streams[0]);
                assert_ok(tnr_graph_launch(reads.number, reads.exec, apart));
            }
            launch(&writes);
        }
        assert_true(!is_kept || value_of(to) == 5);
        on(1);
        assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
        assert_int_equal(value_of(seen), 5);
        assert_ok(tnr_pool_sleep(pool, 1, NULL));
        assert_error(tnr_graph_launch(writes.number, writes.exec, streams[0]), TNR_ERR_ASLEEP,
                     NULL);
        assert_ok(tnr_pool_wake(pool, 1));
        launch(&writes);
        destroy(&writes);
        if (is_kept)
            destroy(&reads);
        (void)simcuda_run(UINT64_MAX);
        assert_ok(tnr_free(to));
        assert_ok(tnr_free(seen));
        assert_int_equal(reserved(1), 0);
        assert_int_equal(life_stop(state), 0);
    }
    start(NULL);
}

static void *free_there(void *block)
{
    assert_ok(tnr_free(block));
    return NULL;
}

/* Blocks of device 1 that no capture handed out, freed while device 0's refers to them: they are
 * kept if a thread of the capture frees them, and if their own stream is in it. */
static void kept_for_it(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        start(NULL);
        pthread_t thread;
        void *to = malloc_on(0), *from = malloc_on(1);
        fill(from, 7, 1);
        order_after_other(0);
        capture_begin(0, NULL);
        if (round == 0) {
            copy(to, from, streams[0]);
            assert_ok(tnr_free(from));
        } else {
            order_after_other(1);
            copy(to, from, streams[1]);
            assert_int_equal(pthread_create(&thread, NULL, free_there, from), 0);
            assert_int_equal(pthread_join(thread, NULL), 0);
            order_after_other(0);
        }
        recorded graph = capture_end(0);
        void *next = malloc_on(1);
        assert_ptr_not_equal(next, from);
        fill(next, 8, 1);
        order_after_other(0);
        launch(&graph);
        assert_int_equal(value_of(to), 7);
        destroy(&graph);
        (void)simcuda_run(UINT64_MAX);
        assert_ok(tnr_free(next));
        assert_ok(tnr_free(to));
        assert_int_equal(life_stop(state), 0);
    }
    start(NULL);
}

/* Nothing is kept of what is refused. */
static void beside_refused(void **state)
{
    (void)state;
    start("MEMORY=64M");
    void *block, *most;
    tnr_pool pool;
    assert_ok(tnr_free(malloc_on(1)));
    assert_ok(tnr_pool_create(&pool, 1, NULL));
    int before = pools_count(1);
    tnr_pool shared = graph_pool(0);
    capture_begin(0, shared);
    assert_error(tnr_malloc(&block, BYTES, 1, streams[0]), TNR_ERR_INVALID_DEVICE,
                 "is not of device 1");
    assert_error(tnr_malloc(&block, BYTES, 2, streams[0]), TNR_ERR_INVALID_DEVICE, "no device 2");
    order_after_other(1);
    assert_error(tnr_malloc(&block, BYTES, 0, streams[1]), TNR_ERR_INVALID_DEVICE,
                 "is not of device 0");
    assert_error(tnr_malloc(&block, 65 * MIB, 1, streams[1]), TNR_ERR_OUT_OF_MEMORY, NULL);
    assert_error(tnr_pool_malloc(&block, pool, BYTES, 1, streams[1]), TNR_ERR_CAPTURE,
                 "cannot allocate from");
    assert_error(tnr_pool_malloc(&block, shared, BYTES, 1, streams[1]), TNR_ERR_INVALID_DEVICE,
                 "is on device 0, not on 1");
    assert_int_equal(pools_count(1), before);
    assert_ok(tnr_validate(-1));
    most = malloc_on(1);
    assert_int_equal(pools_count(1), before + 1);
    order_after_other(0);
    recorded graph = capture_end(0);
    assert_ok(tnr_device_end(1, 1)); /* its memory goes, and with it the graph */
    tnr_graph_info info = {.struct_bytes = sizeof(info)};
    assert_error(tnr_graph_get(&info, graph.number), TNR_ERR_INVALID_GRAPH, NULL);
    assert_error(tnr_free(most), TNR_ERR_FOREIGN_POINTER, NULL);
    assert_ok(tnr_validate(-1));
    capture_begin(0, NULL);
    order_after_other(1);
    (void)malloc_on(1); /* puts device 1 into use */
    assert_error(tnr_device_end(1, 0), TNR_ERR_BUSY, "is under way on device 0");
    assert_ok(tnr_device_end(1, 1));
    destroy(&graph);
}

/* Captures and launches as far as the driver, or host memory, allows. *left is a block that could
 * not be freed. */
static recorded relay_try(void **left)
{
    recorded graph = {0};
    int refused = tnr_capture_begin(0, streams[0], NULL) != TNR_OK;
    void *there = NULL;
    if (refused)
        return graph;
    if (cuEventRecord(events[0], streams[0]) == CUDA_SUCCESS &&
        cuStreamWaitEvent(streams[1], events[0], 0) == CUDA_SUCCESS &&
        tnr_malloc(&there, BYTES, 1, streams[1]) == TNR_OK) {
        (void)cuMemsetD8Async((CUdeviceptr)there, 3, BYTES, streams[1]);
        refused += tnr_free(there) != TNR_OK;
        refused += tnr_malloc(left, 2 * BYTES, 1, streams[1]) != TNR_OK;
    }
    (void)cuEventRecord(events[1], streams[1]);
    (void)cuStreamWaitEvent(streams[0], events[1], 0);
    if (tnr_capture_end(&graph.cuda, &graph.number, 0, streams[0]) != TNR_OK ||
        cuGraphInstantiateWithFlags(&graph.exec, graph.cuda, 0) != CUDA_SUCCESS)
        return graph;
    refused += tnr_graph_launch(graph.number, graph.exec, streams[0]) != TNR_OK;
    if (*left != NULL && tnr_free(*left) == TNR_OK)
        *left = NULL;
    refused += tnr_graph_launch(graph.number, graph.exec, streams[0]) != TNR_OK;
    assert_true(refused < 5);
    return graph;
}

/* Runs that with one failure. Returns 0 if it came to none. */
static uint64_t fail_at(uint64_t nth, int is_host)
{
    void *left = NULL;
    CUstreamCaptureStatus status;
    (void)(is_host ? tnri_host_fail_at(nth, 0) : 0);
    if (!is_host)
        simcuda_fail("*", nth, 0, CUDA_ERROR_UNKNOWN);
    recorded graph = relay_try(&left);
    uint64_t hits = is_host ? tnri_host_fail_at(0, 0) : simcuda_fail_hits();
    simcuda_fail_clear();
    assert_int_equal(cuStreamIsCapturing(streams[0], &status), CUDA_SUCCESS);
    if (status != CU_STREAM_CAPTURE_STATUS_NONE)
        assert_ok(tnr_capture_abort(0, streams[0]));
    if (left != NULL)
        assert_ok(tnr_free(left));
    if (graph.exec != NULL)
        assert_int_equal(cuGraphExecDestroy(graph.exec), CUDA_SUCCESS);
    if (graph.cuda != NULL)
        assert_int_equal(cuGraphDestroy(graph.cuda), CUDA_SUCCESS);
    (void)simcuda_run(UINT64_MAX);
    assert_ok(tnr_validate(-1));
    return hits;
}

/* Whatever fails, nothing stays, and the next one works. */
static void beside_while_something_fails(void **state)
{
    (void)state;
    for (int is_host = 0; is_host < 2; is_host++) {
        uint64_t hits = 1, nth = 1;
        for (; hits > 0; nth++) {
            start(NULL);
            void *to = malloc_on(0);
            assert_ok(tnr_free(malloc_on(1)));
            for (int i = 0; i < 2; i++) {
                on(i);
                events[i] = life_event();
            }
            on(0);
            hits = fail_at(nth, is_host);
            recorded graph = relay(NULL, to, 4);
            launch(&graph);
            assert_int_equal(value_of(to), 4);
            destroy(&graph);
            (void)simcuda_run(UINT64_MAX);
            assert_ok(tnr_free(to));
            assert_int_equal(reserved(1), 0);
            assert_int_equal(pools_count(1), 1);
            assert_ok(tnr_validate(-1));
            assert_ok(tnr_shutdown(0));
            assert_int_equal(life_stop(state), 0);
        }
        assert_true(nth > (is_host ? 8 : 30));
    }
    start(NULL);
}

#define CASE(test) cmocka_unit_test_teardown(test, life_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(launched_in_turn), CASE(freed_during_a_capture), CASE(ended_by_shutdown),
        CASE(ended_alone),      CASE(ended_in_captures),      CASE(ended_while_the_driver_fails),
        CASE(beside_its_place), CASE(beside_reuses),          CASE(beside_lives_on),
        CASE(kept_for_it),      CASE(beside_refused),         CASE(beside_while_something_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
