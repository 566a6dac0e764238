/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The drop-in header: each call that it replaces, as a program of the CUDA runtime makes it. Under
 * the lazy schedule and the race detector: what is not ordered is found.
 */
#include "unit/unit.h"

#include <string.h>

#include "second_file.h"

#include <tenure/cudart_replace.h>

#define assert_cuda(call) assert_int_equal((call), cudaSuccess)

static void start(void)
{
    unit_settings("reuse_mark_percent:0", "SCHEDULE=lazy", "RACES=1", NULL);
    assert_cuda(cudaSetDevice(0));
}

static int stop(void **state)
{
    assert_cuda((cudaDeviceSynchronize)());
    simcuda_run(UINT64_MAX); /* and what the driver does in threads of its own */
    /* The library and the header's streams end with the device. */
    assert_cuda(cudaDeviceReset());
    return unit_stop(state);
}

static cudaStream_t stream_new(void)
{
    cudaStream_t stream;
    assert_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static int is_ours(const void *address)
{
    tnr_block_info info;
    return tnr_block_get(&info, address) == TNR_OK;
}

static tnr_stats stats_now(void)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    assert_int_equal(tnr_validate(-1), TNR_OK);
    assert_int_equal(tnr_stats_get(&stats, NULL, 0), TNR_OK);
    return stats;
}

/* ---- memory --------------------------------------------------------------------------------- */

static void serves_and_frees(void **state)
{
    (void)state;
    start();
    void *block = NULL, *other = NULL;
    simcuda_calls_reset();
    assert_cuda(cudaMalloc(&block, 3 * MIB));
    assert_cuda(second_malloc(&other, 3 * MIB));
    assert_true(is_ours(block) && is_ours(other));
    tnr_block_info first, second;
    assert_int_equal(tnr_block_get(&first, block), TNR_OK);
    assert_int_equal(tnr_block_get(&second, other), TNR_OK);
    assert_ptr_equal(first.stream, second.stream); /* one for all files */
    assert_cuda(cudaFree(other));
    assert_cuda(second_free(block));
    assert_int_equal(simcuda_calls("cuMemAlloc"), 0);
    assert_int_equal(stats_now().allocation[TNR_WORLD_ALL].current, 0);
    block = &first;
    assert_cuda(cudaMalloc(&block, 0));
    assert_null(block);
    assert_cuda(cudaFree(NULL));
}

/* Used on any stream at once, and freed with cudaFree's meaning: nothing may race. */
static void used_anywhere_at_once(void **state)
{
    (void)state;
    start();
    cudaStream_t streams[3];
    for (int i = 0; i < 3; i++)
        streams[i] = stream_new();
    for (int i = 0; i < 60; i++) {
        void *block;
        assert_cuda(cudaMalloc(&block, MIB + (size_t)(i % 5) * 512));
        assert_cuda(cudaMemsetAsync(block, i, MIB, streams[i % 3]));
        assert_cuda(cudaFree(block));
    }
    assert_true(stats_now().reserved_bytes.peak < 60 * MIB);
    for (int i = 0; i < 3; i++)
        assert_cuda(cudaStreamDestroy(streams[i]));
}

static void stream_ordered(void **state)
{
    (void)state;
    start();
    cudaStream_t own = stream_new(), other = stream_new();
    void *block, *again;
    assert_cuda(cudaMallocAsync(&block, 2 * MIB, own));
    tnr_block_info info;
    assert_int_equal(tnr_block_get(&info, block), TNR_OK);
    assert_ptr_equal(info.stream, own);
    assert_cuda(cudaFreeAsync(block, own));
    assert_cuda(cudaMallocAsync(&again, 2 * MIB, own));
    assert_ptr_equal(again, block); /* its own stream's, without a wait */
    assert_cuda(cudaMemsetAsync(again, 1, 2 * MIB, own));
    cudaEvent_t event;
    assert_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    assert_cuda(cudaEventRecord(event, own));
    assert_cuda(cudaStreamWaitEvent(other, event, 0));
    assert_cuda(cudaMemsetAsync(again, 2, 2 * MIB, other));
    assert_cuda(cudaFreeAsync(again, other)); /* on another stream: kept for its work */
    assert_int_equal(stats_now().bytes_retired, 2 * MIB);
    assert_cuda(cudaEventDestroy(event));
    assert_cuda(cudaStreamDestroy(own));
    assert_cuda(cudaStreamDestroy(other));
}

static void rows(void **state)
{
    (void)state;
    start();
    void *block;
    size_t pitch = 0;
    assert_cuda(cudaMallocPitch(&block, &pitch, 1000, 300));
    assert_int_equal(pitch, 1024);
    tnr_block_info info;
    assert_int_equal(tnr_block_get(&info, block), TNR_OK);
    assert_int_equal(info.bytes_requested, 1024 * 300);
    assert_cuda(cudaFree(block));
    assert_cuda(cudaMallocPitch(&block, &pitch, 1, 1));
    assert_int_equal(pitch, 512);
    assert_cuda(cudaFree(block));
    assert_int_equal(cudaMallocPitch(&block, &pitch, SIZE_MAX - 5, 2), cudaErrorInvalidValue);
    assert_int_equal(cudaMallocPitch(&block, NULL, 5, 2), cudaErrorInvalidValue);
}

static void memory_info(void **state)
{
    (void)state;
    start();
    size_t before, after, total;
    void *block;
    assert_cuda(cudaMalloc(&block, MIB)); /* the device is in use */
    assert_cuda(cudaMemGetInfo(&before, &total));
    void *large;
    assert_cuda(cudaMalloc(&large, 64 * MIB));
    assert_cuda(cudaMemGetInfo(&after, &total));
    assert_int_equal(before - after, 64 * MIB);
    assert_cuda(cudaFree(large));
    assert_cuda(cudaMemGetInfo(&after, &total));
    assert_int_equal(after, before); /* kept by Tenure, and free to be had */
    assert_int_equal(tnr_limit_set(100 * MIB, 0), TNR_OK);
    assert_cuda(cudaMemGetInfo(&after, &total));
    assert_int_equal(after, 99 * MIB);
    assert_int_equal(tnr_limit_set(SIZE_MAX, 0), TNR_OK);
    assert_cuda(cudaFree(block));
}

/* ---- errors --------------------------------------------------------------------------------- */

static void errors(void **state)
{
    (void)state;
    start();
    void *block = NULL, *untouched = &block;
    (void)cudaGetLastError();
    assert_int_equal(cudaMalloc(&untouched, (size_t)1 << 50), cudaErrorMemoryAllocation);
    assert_ptr_equal(untouched, &block); /* as the runtime has it */
    assert_non_null(strstr(tnr_last_error(), "out of memory"));
    assert_int_equal(cudaMallocAsync(&untouched, SIZE_MAX, NULL), cudaErrorInvalidValue);
    assert_cuda(cudaMalloc(&block, MIB));
    assert_int_equal(cudaFree((char *)block + 512), cudaErrorInvalidValue);
    assert_cuda(cudaFree(block));
    assert_int_equal(cudaFree(block), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaSuccess); /* which knows nothing of it */
    assert_int_equal(cudaMalloc(NULL, 5), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue); /* that was the runtime's */
    assert_int_equal(tnr_replace_error(TNR_ERR_CAPTURE), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(tnr_replace_error(TNR_ERR_AFTER_FORK), cudaErrorInitializationError);
    assert_int_equal(tnr_replace_error(TNR_ERR_INTERNAL), cudaErrorUnknown);
}

static void memory_of_the_runtime(void **state)
{
    (void)state;
    start();
    void *block, *other;
    assert_cuda((cudaMalloc)(&block, MIB));
    assert_false(is_ours(block));
    assert_cuda(cudaFree(block));
    cudaStream_t stream = stream_new();
    assert_cuda((cudaMallocAsync)(&other, MIB, stream));
    assert_cuda(cudaFreeAsync(other, stream));
    cudaError_t (*address)(void **, size_t) = cudaMalloc; /* only calls are replaced */
    assert_cuda(address(&block, MIB));
    assert_false(is_ours(block));
    assert_cuda(cudaFree(block));
    assert_cuda(cudaStreamDestroy(stream));
}

/* Where Tenure cannot run, the program goes on with the runtime's memory. */
static void without_tenure(void **state)
{
    (void)state;
    unit_settings(NULL, "VMM=0", NULL);
    assert_cuda(cudaSetDevice(0));
    void *block;
    assert_cuda(cudaMalloc(&block, MIB));
    assert_false(is_ours(block));
    assert_cuda(cudaFree(block));
    cudaStream_t stream = stream_new();
    assert_cuda(cudaMallocAsync(&block, MIB, stream));
    assert_cuda(cudaFreeAsync(block, stream));
    assert_cuda(cudaStreamDestroy(stream));
}

/* ---- what is announced ---------------------------------------------------------------------- */

/* Tenure knows the order from the events alone: nothing is asked and nothing waits. */
static void order_is_known(void **state)
{
    (void)state;
    start();
    cudaStream_t own = stream_new(), other = stream_new();
    cudaEvent_t there, back;
    void *block;
    assert_cuda(cudaEventCreateWithFlags(&there, cudaEventDisableTiming));
    assert_cuda(cudaEventCreateWithFlags(&back, cudaEventDisableTiming));
    assert_cuda(cudaMallocAsync(&block, 2 * MIB, own));
    assert_cuda(cudaEventRecord(there, own));
    assert_cuda(cudaStreamWaitEvent(other, there, 0));
    assert_cuda(cudaMemsetAsync(block, 1, 2 * MIB, other));
    assert_int_equal(tnr_record_use(block, other), TNR_OK);
    assert_cuda(cudaEventRecordWithFlags(back, other, 0));
    assert_cuda(cudaStreamWaitEvent(own, back, 0));
    assert_cuda(cudaFreeAsync(block, own));
    assert_int_equal(stats_now().bytes_retired, 0);
    assert_true(stats_now().freed_because[TNR_REUSE_ORDERED_BY_CLOCK] > 0);

    /* And what the host has waited for; the last way is no wait at all. */
    for (int way = 0; way < 5; way++) {
        assert_cuda(cudaMallocAsync(&block, 2 * MIB, own));
        assert_cuda(cudaMemsetAsync(block, way, 2 * MIB, own));
        assert_cuda(cudaStreamSynchronize(own));
        assert_cuda(cudaMemsetAsync(block, way, 2 * MIB, other));
        assert_int_equal(tnr_record_use(block, other), TNR_OK);
        assert_cuda(cudaEventRecord(back, other));
        if (way == 0)
            assert_cuda(cudaEventSynchronize(back));
        else if (way == 1)
            assert_cuda(cudaStreamSynchronize(other));
        else if (way == 2)
            assert_cuda(cudaDeviceSynchronize());
        while (way == 3 && cudaEventQuery(back) == cudaErrorNotReady)
            simcuda_run(1);
        assert_cuda(cudaFreeAsync(block, own));
        assert_int_equal(stats_now().bytes_retired, way == 4 ? 2 * MIB : 0);
    }
    assert_cuda(cudaEventDestroy(there));
    assert_cuda(cudaEventDestroy(back));
    assert_cuda(cudaStreamDestroy(own));
    assert_cuda(cudaStreamDestroy(other));
}

/* The driver gives a handle again; the new stream must not take over the old one's memory. */
static void streams_end(void **state)
{
    (void)state;
    start();
    for (int i = 0; i < 10; i++) {
        cudaStream_t stream;
        assert_cuda(i % 2 == 0 ? cudaStreamCreate(&stream)
                               : cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
        void *block;
        assert_cuda(cudaMallocAsync(&block, 2 * MIB, stream));
        assert_cuda(cudaMemsetAsync(block, i, 2 * MIB, stream));
        assert_cuda(cudaFreeAsync(block, stream));
        assert_cuda(cudaStreamDestroy(stream));
    }
    assert_cuda(cudaDeviceSynchronize());
}

/* ---- captures ------------------------------------------------------------------------------- */

static void captures(void **state)
{
    (void)state;
    start();
    cudaStream_t stream = stream_new();
    void *inside, *plain, *outside;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    assert_cuda(cudaMallocAsync(&outside, 4 * MIB, stream));
    assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    assert_cuda(cudaMallocAsync(&inside, 4 * MIB, stream));
    assert_cuda(cudaMemsetAsync(inside, 3, 4 * MIB, stream));
    assert_cuda(cudaMemsetAsync(outside, 4, 4 * MIB, stream));
    assert_cuda(cudaMalloc(&plain, MIB)); /* which the runtime would refuse here */
    assert_cuda(cudaFreeAsync(inside, stream));
    assert_cuda(second_end_capture(stream, &graph)); /* found though another file began it */
    assert_int_equal(stats_now().pools, 2);
    assert_cuda(cudaFreeAsync(outside, stream)); /* the graph refers to it: kept */
    assert_cuda(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    void *others[6];
    for (int i = 0; i < 6; i++) {
        assert_cuda(cudaMallocAsync(&others[i], 4 * MIB, stream));
        assert_ptr_not_equal(others[i], inside);
        assert_ptr_not_equal(others[i], outside);
    }
    assert_cuda(cudaGraphLaunch(exec, stream));
    assert_cuda(cudaStreamSynchronize(stream));
    for (int i = 0; i < 6; i++)
        assert_cuda(cudaFreeAsync(others[i], stream));
    assert_cuda(cudaFree(plain));
    assert_cuda(cudaGraphExecDestroy(exec));
    assert_cuda(cudaGraphDestroy(graph));
    simcuda_run(UINT64_MAX);
    assert_int_equal(tnr_trim(NULL, 0, 0), TNR_OK);
    assert_int_equal(stats_now().pools, 1);

    /* Ends that fail, and begins that do. */
    assert_int_not_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    assert_int_not_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
    assert_cuda(cudaStreamEndCapture(stream, &graph));
    assert_cuda(cudaGraphDestroy(graph));
    assert_cuda(cudaStreamDestroy(stream));
}

static void device_reset(void **state)
{
    (void)state;
    start();
    void *block;
    assert_cuda(cudaMalloc(&block, MIB));
    assert_cuda(cudaDeviceReset());
    simcuda_live live;
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.handles, 0);
    assert_int_equal(live.streams, 0);
    assert_cuda(cudaMalloc(&block, MIB)); /* it starts anew */
    assert_true(is_ours(block));
    assert_cuda(cudaFree(block));
}

/* Memory of one device must not go with another. */
static void reset_of_one_device(void **state)
{
    (void)state;
    unit_settings(NULL, "DEVICES=2", NULL);
    void *first, *second;
    assert_cuda(cudaSetDevice(1));
    assert_cuda(cudaMalloc(&second, MIB));
    tnr_block_info info;
    assert_int_equal(tnr_block_get(&info, second), TNR_OK);
    assert_int_equal(info.device, 1);
    assert_cuda(cudaSetDevice(0));
    assert_cuda(cudaMalloc(&first, MIB));
    assert_int_equal(cudaDeviceReset(), cudaErrorNotSupported);
    assert_true(is_ours(first) && is_ours(second));
    assert_cuda(cudaFree(second)); /* from another device, as the runtime allows */
    assert_cuda(cudaFree(first));
    /* The runtime's own resets, which end what the header holds on each device. */
    assert_int_equal(tnr_shutdown(0), TNR_OK);
    assert_cuda(cudaDeviceReset());
    assert_cuda(cudaSetDevice(1));
    assert_cuda(cudaDeviceReset());
    assert_cuda(cudaSetDevice(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(serves_and_frees, stop),
        cmocka_unit_test_teardown(used_anywhere_at_once, stop),
        cmocka_unit_test_teardown(stream_ordered, stop),
        cmocka_unit_test_teardown(rows, stop),
        cmocka_unit_test_teardown(memory_info, stop),
        cmocka_unit_test_teardown(errors, stop),
        cmocka_unit_test_teardown(memory_of_the_runtime, stop),
        cmocka_unit_test_teardown(without_tenure, stop),
        cmocka_unit_test_teardown(order_is_known, stop),
        cmocka_unit_test_teardown(streams_end, stop),
        cmocka_unit_test_teardown(captures, stop),
        cmocka_unit_test_teardown(device_reset, stop),
        cmocka_unit_test_teardown(reset_of_one_device, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
