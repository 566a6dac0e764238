/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses by streams of another device: a block is not handed out again before they are over, and is
 * when they are.
 *
 * Lines of the library changed to see it fail:
 *   use_enter in record_use_of_peer not called: recorded, freed_on
 *   tnri_proxy_mark without cuStreamWaitEvent: recorded, freed_on, until_an_event
 *   tnri_peers_finish in set_drain not called: sleep_waits_for_peers
 */
#include "lifetime/life.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include <cuda.h>
#include <tenure/sleep.h>

enum { BYTES = 3 << 20 };

static CUcontext context;

/* Two devices that Tenure has allocated on, device 1 reaching device 0, and a stream of it. */
static tnr_stream start(const char *conf)
{
    void *own;
    life_start(conf, "DEVICES=2", NULL);
    assert_ok(tnr_device_access_set(0, 1, TNR_ACCESS_READWRITE));
    assert_ok(tnr_malloc(&own, BYTES, 1, NULL));
    assert_ok(tnr_free(own));
    return unit_stream(1);
}

/* Work of the peer on the block, which waits for a gate. */
static void peer_fill(void *block, int value, tnr_stream stream)
{
    CUcontext popped;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 1), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    life_gate_close(0, stream);
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)block, (unsigned char)value, BYTES, stream),
                     CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

/* The freed block waits for the peer, and is handed out again when that is over. */
static void assert_waits(void *block, tnr_stream stream)
{
    assert_int_equal(unit_stats().blocks_retired, 1);
    assert_int_equal(unit_stats().bytes_retired, BYTES);
    void *other = unit_malloc(BYTES, life_streams[0]);
    assert_ptr_not_equal(other, block);
    assert_int_equal(unit_stats().blocks_retired, 1);
    life_gate_open(0);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    (void)simcuda_run(UINT64_MAX); /* the proxy too */
    assert_true(life_is_reused(block, BYTES, life_streams[0]));
    assert_int_equal(unit_stats().blocks_retired, 0);
}

static void recorded(void **state)
{
    (void)state;
    tnr_stream stream = start("reuse:poll,cross_stream:off");
    void *block = unit_malloc(BYTES, life_streams[0]);
    assert_ok(tnr_record_use(block, stream)); /* nothing yet; moved on below */
    peer_fill(block, 7, stream);
    assert_ok(tnr_record_use((char *)block + 100, stream));
    assert_ok(tnr_free(block));
    assert_waits(block, stream);
}

static void freed_on(void **state)
{
    (void)state;
    tnr_stream stream = start("reuse:poll,cross_stream:off");
    void *block = unit_malloc(BYTES, life_streams[0]);
    peer_fill(block, 7, stream);
    assert_ok(tnr_free_on(block, stream));
    assert_waits(block, stream);
}

static void until_an_event(void **state)
{
    (void)state;
    tnr_stream stream = start("reuse:poll,cross_stream:off");
    void *block = unit_malloc(BYTES, life_streams[0]);
    peer_fill(block, 7, stream);
    CUcontext popped;
    CUevent event;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 1), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    tnr_moment before = tnr_moment_now();
    assert_int_equal(cuEventRecord(event, stream), CUDA_SUCCESS);
    assert_ok(tnr_event_recorded(event, 1, stream, before));
    assert_ok(tnr_keep_until(block, event));
    tnr_event_destroyed(event);
    assert_int_equal(cuEventDestroy(event), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
    assert_ok(tnr_free(block));
    assert_waits(block, stream);
}

/* By default the block's stream is made to wait for the peer, and gets the memory at once: the race
 * detector looks on. */
static void ordered_on_the_device(void **state)
{
    (void)state;
    tnr_stream stream = start("reuse_mark_percent:0");
    void *block = unit_malloc(BYTES, life_streams[0]);
    peer_fill(block, 7, stream);
    assert_ok(tnr_record_use(block, stream));
    assert_ok(tnr_free(block));
    assert_true(life_is_reused(block, BYTES, life_streams[0]));
    life_fill(block, BYTES, 9, life_streams[0]);
    const unsigned char *read = life_read(block, BYTES, life_streams[0]);
    life_gate_open(0);
    assert_int_equal(cuStreamSynchronize(life_streams[0]), CUDA_SUCCESS);
    assert_true(life_all(read, BYTES, 9));
    assert_int_equal(simcuda_races(), 0);
}

/* A stream of a device on which Tenure has nothing, and tnr_record_stream, which would have to wait
 * for the peer at the free: refused, and the block is as it was. */
static void what_is_refused(void **state)
{
    (void)state;
    life_start("reuse:poll", "DEVICES=3", NULL);
    void *own;
    tnr_stream unused = unit_stream(2), used = unit_stream(1);
    void *block = unit_malloc(BYTES, life_streams[0]);
    assert_error(tnr_record_use(block, used), TNR_ERR_INVALID_STREAM, "device 0");
    assert_ok(tnr_malloc(&own, BYTES, 1, NULL));
    assert_ok(tnr_record_use(block, used));
    assert_error(tnr_record_use(block, unused), TNR_ERR_INVALID_STREAM, "device 0");
    assert_error(tnr_record_stream(block, used), TNR_ERR_INVALID_STREAM, "device 0");
    assert_ok(tnr_free(block));
    assert_error(tnr_record_use(block, used), TNR_ERR_NOT_LIVE, NULL);
}

/* Each call of the driver fails once: the use is recorded or refused, and the block lives. */
static void a_driver_that_fails(void **state)
{
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        tnr_stream stream = start("reuse:poll,cross_stream:off");
        void *block = unit_malloc(BYTES, life_streams[0]);
        peer_fill(block, 7, stream);
        simcuda_fail("*", nth, 0, CUDA_ERROR_UNKNOWN);
        tnr_status status = tnr_record_use(block, stream);
        uint64_t hits = simcuda_fail_hits();
        simcuda_fail_clear();
        if (status != TNR_OK)
            assert_ok(tnr_record_use(block, stream));
        assert_ok(tnr_free(block));
        assert_waits(block, stream);
        assert_int_equal(life_stop(NULL), 0);
        if (hits == 0) {
            assert_int_equal(status, TNR_OK);
            assert_true(nth > 4);
            break;
        }
    }
}

static void *opener(void *unused)
{
    (void)unused;
    struct timespec nap = {0, 20000000};
    nanosleep(&nap, NULL);
    life_gate_open(0);
    return NULL;
}

/* A sleep waits for the peer's work on a live block: what it wrote is there after the wake. */
static void sleep_waits_for_peers(void **state)
{
    (void)state;
    tnr_stream stream = start(NULL);
    pthread_t thread;
    unsigned char *block = unit_malloc(BYTES, life_streams[0]);
    peer_fill(block, 7, stream);
    assert_int_equal(pthread_create(&thread, NULL, opener, NULL), 0);
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(tnr_pool_wake(NULL, 0));
    const unsigned char *read = life_read(block, BYTES, life_streams[0]);
    assert_int_equal(cuStreamSynchronize(life_streams[0]), CUDA_SUCCESS);
    assert_true(life_all(read, BYTES, 7));
}

#define CASE(test) cmocka_unit_test_teardown(test, life_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(recorded),
        CASE(freed_on),
        CASE(until_an_event),
        CASE(what_is_refused),
        CASE(a_driver_that_fails),
        CASE(ordered_on_the_device),
        CASE(sleep_waits_for_peers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
