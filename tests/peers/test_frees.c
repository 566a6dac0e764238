/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frees of memory that a peer uses: tnr_free_sync waits for the peer's streams, those that Tenure
 * knows and the legacy one; tnr_free for what the block's own stream waits for. Under the lazy
 * schedule and the race detector: what is not ordered is found.
 *
 * Lines of the library changed to see it fail:
 *   device_peers 0, or proxy_follow_device not called for a peer: free_sync
 *   proxy_follow_device without the legacy stream: free_sync_of_the_legacy_stream
 */
#include "unit.h"

#include <cuda.h>
#include <tenure/lifetime.h>

static CUcontext contexts[2];

static void start(void)
{
    void *block;
    unit_start("reuse_mark_percent:0", "DEVICES=2", "SCHEDULE=lazy", "RACES=1", NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cuDevicePrimaryCtxRetain(&contexts[i], i), CUDA_SUCCESS);
        assert_ok(tnr_malloc(&block, KIB, i, unit_stream(i))); /* in use */
        assert_ok(tnr_free(block));
    }
    assert_ok(tnr_device_access_set(0, 1, TNR_ACCESS_READWRITE));
}

static int stop(void **state)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cuCtxSetCurrent(contexts[i]), CUDA_SUCCESS);
        assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
        assert_int_equal(cuDevicePrimaryCtxRelease(i), CUDA_SUCCESS);
    }
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    return unit_stop(state);
}

static void fill(int device, const void *block, tnr_stream stream)
{
    CUcontext popped;
    assert_int_equal(cuCtxPushCurrent(contexts[device]), CUDA_SUCCESS);
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)block, 1, MIB, stream), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
}

/* Blocks of one stream of device 0, each written by a stream of device 1 last. */
static void free_sync_after(tnr_stream far)
{
    tnr_stream near = unit_stream(0);
    for (int i = 0; i < 20; i++) {
        void *block = unit_malloc(MIB, near);
        fill(0, block, near);
        /* What the peer does comes after: ordered on the host. */
        assert_int_equal(cuStreamSynchronize(near), CUDA_SUCCESS);
        fill(1, block, far);
        assert_ok(tnr_free_sync(block));
    }
    assert_ok(tnr_trim(NULL, 0, 0)); /* waits for all of them */
    assert_int_equal(simcuda_races(), 0);
    assert_int_equal(simcuda_violations(), 0);
    assert_int_equal(unit_stats().bytes_retired, 0);
}

static void free_sync(void **state)
{
    (void)state;
    start();
    tnr_stream far = unit_stream(1);
    assert_ok(tnr_stream_created(1, far));
    free_sync_after(far);
}

static void free_sync_of_the_legacy_stream(void **state)
{
    (void)state;
    start();
    free_sync_after(NULL);
}

/* The block's own stream waits for the peer's: then tnr_free is enough. */
static void free_in_order(void **state)
{
    (void)state;
    start();
    tnr_stream near = unit_stream(0), far = unit_stream(1);
    CUevent event;
    CUcontext popped;
    void *block = unit_malloc(MIB, near);
    fill(1, block, far);
    assert_int_equal(cuCtxPushCurrent(contexts[1]), CUDA_SUCCESS);
    assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    assert_int_equal(cuEventRecord(event, far), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_int_equal(cuStreamWaitEvent(near, event, 0), CUDA_SUCCESS);
    assert_ok(tnr_free(block));
    block = unit_malloc(MIB, near);
    fill(0, block, near);
    assert_ok(tnr_free(block));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(simcuda_races(), 0);
    assert_int_equal(cuEventDestroy(event), CUDA_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(free_sync, stop),
        cmocka_unit_test_teardown(free_sync_of_the_legacy_stream, stop),
        cmocka_unit_test_teardown(free_in_order, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
