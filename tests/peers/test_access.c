/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that other devices reach: which of it is open, now and later, wherever it moves; and that
 * a call that fails has changed nothing.
 *
 * Lines of the library changed to see it fail:
 *   tnri_pages_access without the peers: what_comes_later, moves_and_loans, sleep_and_wake
 *   pool_change not called: what_exists, closing
 *   the way back in pool_access left out: a_driver_that_fails
 *   device->peers not copied in pool_publish: pools_made_later
 *   pool_stay without its look at TNRI_ASLEEP: sleep_and_wake does not end
 *   tnri_pool_access without sleeps_in_part: asleep_in_part
 *   peer_finish not called: closing_waits
 *   peer_finish content when the driver does not say: closing_when_the_peer_cannot_be_asked
 *   tnri_peers_meet not called: devices_that_are_used
 *   `torn` not set in pool_change_back, or not looked at: a_way_back_that_fails
 *   tnri_evicted_forget_old not called, or comparing the set of peers at the parking: parked
 */
#include "unit.h"

#include <string.h>

#include <cuda.h>
#include <tenure/capture.h>
#include <tenure/park.h>

#include "base/host_memory.h"

/* What a device may do at an address: flags of the driver. */
static unsigned long long flags_at(const void *ptr, int device)
{
    unsigned long long flags = 0;
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    assert_int_equal(cuMemGetAccess(&flags, &location, (CUdeviceptr)ptr), CUDA_SUCCESS);
    return flags;
}

/* Every mapping of a block. */
static void assert_access(const void *ptr, size_t bytes, int device, tnr_access access)
{
    for (size_t at = 0; at < bytes; at += 64 * KIB)
        assert_int_equal(flags_at((const char *)ptr + at, device), access);
    assert_int_equal(flags_at((const char *)ptr + bytes - 1, device), access);
}
#define assert_open(ptr, bytes) assert_access(ptr, bytes, 1, TNR_ACCESS_READWRITE)
#define assert_closed(ptr, bytes) assert_access(ptr, bytes, 1, TNR_ACCESS_NONE)

static void start(const char *conf)
{
    unit_start(conf, "DEVICES=3", NULL);
}

static void what_exists(void **state)
{
    (void)state;
    start("move_burst_ms:0");
    void *large = unit_malloc(37 * MIB, NULL);
    void *small = unit_malloc(700, unit_stream(0));
    assert_closed(large, 37 * MIB);
    assert_ok(tnr_pool_access_set(NULL, 0, 1, TNR_ACCESS_READWRITE));
    assert_open(large, 37 * MIB);
    assert_open(small, 700);
    assert_access(large, 37 * MIB, 2, TNR_ACCESS_NONE);
    assert_access(large, 37 * MIB, 0, TNR_ACCESS_READWRITE);
    tnr_access access;
    assert_ok(tnr_pool_access_get(&access, NULL, 0, 1));
    assert_int_equal(access, TNR_ACCESS_READWRITE);
    assert_ok(tnr_pool_access_get(&access, NULL, 0, 2));
    assert_int_equal(access, TNR_ACCESS_NONE);
    assert_ok(tnr_pool_access_get(&access, NULL, 0, 0));
    assert_int_equal(access, TNR_ACCESS_READWRITE);
}

static void what_comes_later(void **state)
{
    (void)state;
    start(NULL);
    assert_ok(tnr_pool_access_set(NULL, 0, 1, TNR_ACCESS_READWRITE));
    assert_ok(tnr_pool_access_set(NULL, 0, 2, TNR_ACCESS_READWRITE));
    void *block = unit_malloc(70 * MIB, NULL);
    assert_open(block, 70 * MIB);
    assert_access(block, 70 * MIB, 2, TNR_ACCESS_READWRITE);
    void *growable, *more;
    assert_ok(tnr_reserve(&growable, 256 * MIB, 0, NULL));
    assert_ok(tnr_commit(growable, 9 * MIB));
    assert_ok(tnr_commit(growable, 90 * MIB));
    assert_open(growable, 90 * MIB);
    more = unit_malloc(MIB, unit_stream(0));
    assert_open(more, MIB);
    assert_ok(tnr_free(growable));
}

static void closing(void **state)
{
    (void)state;
    start(NULL);
    void *before = unit_malloc(11 * MIB, NULL);
    assert_ok(tnr_pool_access_set(NULL, 0, 1, TNR_ACCESS_READWRITE));
    void *between = unit_malloc(13 * MIB, unit_stream(0));
    assert_ok(tnr_pool_access_set(NULL, 0, 1, TNR_ACCESS_NONE));
    assert_ok(tnr_pool_access_set(NULL, 0, 1, TNR_ACCESS_NONE));
    assert_closed(before, 11 * MIB);
    assert_closed(between, 13 * MIB);
    void *after = unit_malloc(64 * MIB, NULL);
    assert_closed(after, 64 * MIB);
    assert_access(before, 11 * MIB, 0, TNR_ACCESS_READWRITE);
    assert_ok(tnr_pool_access_set(NULL, 0, 1, TNR_ACCESS_READWRITE));
    assert_open(after, 64 * MIB);
}

/* A copy by a peer is queued when memory is closed: it is carried out. One that comes after it is
 * not. */
static void closing_waits(void **state)
{
    (void)state;
    unit_start(NULL, "DEVICES=2", "SCHEDULE=lazy", NULL);
    unsigned char *block = unit_malloc(2 * MIB, NULL), found[16] = {0};
    CUcontext context, popped;
    CUstream stream;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 1), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_ok(tnr_pool_access_set(NULL, 0, 1, TNR_ACCESS_READWRITE));
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)block, 7, MIB, stream), CUDA_SUCCESS);
    assert_ok(tnr_pool_access_set(NULL, 0, 1, TNR_ACCESS_NONE));
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    assert_int_not_equal(cuMemsetD8Async((CUdeviceptr)block, 9, MIB, stream), CUDA_SUCCESS);
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
    CUcontext own;
    assert_int_equal(cuDevicePrimaryCtxRetain(&own, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(own), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyDtoH(found, (CUdeviceptr)block, sizeof(found)), CUDA_SUCCESS);
    assert_int_equal(found[5], 7);
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

/* Whether the peer has work is not known: nothing is closed, and the work is done. */
static void closing_when_the_peer_cannot_be_asked(void **state)
{
    (void)state;
    unit_start(NULL, "DEVICES=2", "SCHEDULE=lazy", NULL);
    unsigned char *block = unit_malloc(2 * MIB, NULL);
    CUcontext context, popped;
    CUdeviceptr own;
    assert_ok(tnr_pool_access_set(NULL, 0, 1, TNR_ACCESS_READWRITE));
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 1), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc(&own, 4096), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyDtoDAsync(own, (CUdeviceptr)block, 4096, NULL), CUDA_SUCCESS);
    simcuda_fail("cuDevicePrimaryCtxGetState", 1, 0, CUDA_ERROR_UNKNOWN);
    assert_error(tnr_pool_access_set(NULL, 0, 1, TNR_ACCESS_NONE), TNR_ERR_DRIVER,
                 "cuDevicePrimaryCtxGetState");
    simcuda_fail_clear();
    assert_open(block, 2 * MIB);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(cuMemFree(own), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

static void pools_made_later(void **state)
{
    (void)state;
    start(NULL);
    tnr_pool before, after;
    void *block;
    assert_ok(tnr_pool_create(&before, 0, NULL));
    assert_ok(tnr_pool_malloc(&block, before, 3 * MIB, 0, NULL));
    assert_ok(tnr_pool_access_set(NULL, 0, 1, TNR_ACCESS_READWRITE));
    assert_closed(block, 3 * MIB); /* of another pool */
    assert_ok(tnr_device_access_set(0, 1, TNR_ACCESS_READWRITE));
    assert_open(block, 3 * MIB);
    assert_ok(tnr_pool_create(&after, 0, NULL));
    assert_ok(tnr_pool_malloc(&block, after, 3 * MIB, 0, NULL));
    assert_open(block, 3 * MIB);
    assert_ok(tnr_pool_access_set(after, 0, 1, TNR_ACCESS_NONE));
    assert_closed(block, 3 * MIB);
    assert_ok(tnr_device_access_set(0, 1, TNR_ACCESS_NONE));
    assert_ok(tnr_pool_create(&after, 0, NULL));
    assert_ok(tnr_pool_malloc(&block, after, 3 * MIB, 0, NULL));
    assert_closed(block, 3 * MIB);
}

/* Chunks that move, and runs that are lent, between streams and sizes. */
static void moves_and_loans(void **state)
{
    (void)state;
    start("move_burst_ms:60000");
    uint64_t random = 5;
    tnr_stream streams[4] = {NULL, unit_stream(0), unit_stream(0), unit_stream(0)};
    struct {
        void *ptr;
        size_t bytes;
    } held[24] = {0};
    for (int i = 0; i < 2000; i++) {
        size_t at = unit_below(&random, 24);
        if (i == 300 || i == 1100)
            assert_ok(tnr_pool_access_set(NULL, 0, 1, TNR_ACCESS_READWRITE));
        if (i == 700)
            assert_ok(tnr_pool_access_set(NULL, 0, 1, TNR_ACCESS_NONE));
        assert_ok(tnr_free(held[at].ptr));
        held[at].bytes = 1 + unit_below(&random, unit_below(&random, 3) == 0 ? 24 * MIB : 2 * MIB);
        held[at].ptr = unit_malloc(held[at].bytes, streams[unit_below(&random, 4)]);
        int is_open = i >= 1100 || (i >= 300 && i < 700);
        assert_access(held[at].ptr, held[at].bytes, 1,
                      is_open ? TNR_ACCESS_READWRITE : TNR_ACCESS_NONE);
    }
    tnr_stats stats = unit_stats();
    assert_true(stats.served[TNR_SERVED_MOVED] > 20);
    assert_true(stats.served[TNR_SERVED_LENT] > 20);
    for (int i = 0; i < 24; i++)
        assert_open(held[i].ptr, held[i].bytes);
}

static void sleep_and_wake(void **state)
{
    (void)state;
    start(NULL);
    tnr_pool pool;
    void *block;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc(&block, pool, 20 * MIB, 0, NULL));
    assert_ok(tnr_pool_access_set(pool, 0, 1, TNR_ACCESS_READWRITE));
    assert_ok(tnr_pool_sleep(pool, 0, NULL));
    assert_ok(tnr_pool_wake(pool, 0));
    assert_open(block, 20 * MIB);
    assert_ok(tnr_pool_sleep(pool, 0, NULL));
    assert_ok(tnr_pool_access_set(pool, 0, 1, TNR_ACCESS_NONE));
    assert_ok(tnr_pool_access_set(pool, 0, 2, TNR_ACCESS_READWRITE));
    assert_ok(tnr_pool_wake(pool, 0));
    assert_closed(block, 20 * MIB);
    assert_access(block, 20 * MIB, 2, TNR_ACCESS_READWRITE);
}

/* A sleep that fails and cannot be taken back leaves memory mapped, which the peer still reaches: a
 * close would be a lie. */
static void asleep_in_part(void **state)
{
    (void)state;
    start("chunk_max_mb:2");
    tnr_pool pool;
    void *block;
    tnr_access access;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc(&block, pool, 20 * MIB, 0, NULL));
    assert_ok(tnr_pool_access_set(pool, 0, 1, TNR_ACCESS_READWRITE));
    simcuda_fail("cuMemUnmap", 5, 0, CUDA_ERROR_UNKNOWN);
    simcuda_fail("cuMemCreate", 1, 1, CUDA_ERROR_UNKNOWN);
    assert_error(tnr_pool_sleep(pool, 0, NULL), TNR_ERR_DRIVER, "is asleep");
    simcuda_fail_clear();
    assert_open((char *)block + 18 * MIB, MIB);
    assert_error(tnr_pool_access_set(pool, 0, 1, TNR_ACCESS_NONE), TNR_ERR_ASLEEP, "device 1");
    assert_error(tnr_device_access_set(0, 1, TNR_ACCESS_NONE), TNR_ERR_ASLEEP, "device 1");
    assert_ok(tnr_pool_access_get(&access, pool, 0, 1));
    assert_int_equal(access, TNR_ACCESS_READWRITE);
    assert_ok(tnr_pool_access_set(pool, 0, 2, TNR_ACCESS_READWRITE)); /* the wake opens it */
    assert_ok(tnr_pool_wake(pool, 0));
    assert_access(block, 20 * MIB, 2, TNR_ACCESS_READWRITE);
    assert_ok(tnr_pool_access_set(pool, 0, 1, TNR_ACCESS_NONE));
    assert_closed(block, 20 * MIB);
}

/* Opened by the callback of a sleep that begins, closed when it has ended. */
static tnr_status got[2];
static void on_sleep(tnr_pool pool, int device, tnr_sleep_event event, uint64_t generation,
                     void *user)
{
    (void)user, (void)generation;
    if (event == TNR_SLEEP_GOING)
        got[0] = tnr_pool_access_set(pool, device, 1, TNR_ACCESS_READWRITE);
    else
        got[1] = tnr_pool_access_set(pool, device, 2, TNR_ACCESS_READWRITE);
}

static void bad_input(void **state)
{
    (void)state;
    start(NULL);
    tnr_pool pool;
    tnr_access access = TNR_ACCESS_READWRITE;
    void *block = unit_malloc(4 * MIB, NULL);
    for (int peer = -1; peer < 4; peer += peer == 0 ? 3 : 1)
        if (peer != 1 && peer != 2) {
            assert_error(tnr_pool_access_set(NULL, 0, peer, TNR_ACCESS_READWRITE),
                         TNR_ERR_INVALID_DEVICE, "not a peer of device 0");
            assert_error(tnr_device_access_set(0, peer, TNR_ACCESS_NONE), TNR_ERR_INVALID_DEVICE,
                         "not a peer of device 0");
        }
    assert_error(tnr_pool_access_set(NULL, 0, 1, (tnr_access)1), TNR_ERR_INVALID_ARGUMENT,
                 "1 is not an access");
    assert_error(tnr_pool_access_set(NULL, 7, 1, TNR_ACCESS_NONE), TNR_ERR_INVALID_DEVICE, "7");
    assert_error(tnr_device_access_set(-1, 1, TNR_ACCESS_NONE), TNR_ERR_INVALID_DEVICE, "-1");
    assert_error(tnr_pool_access_get(NULL, NULL, 0, 1), TNR_ERR_INVALID_ARGUMENT, "null");
    assert_error(tnr_pool_access_get(&access, NULL, 0, 3), TNR_ERR_INVALID_DEVICE, "3");
    assert_error(tnr_pool_access_get(&access, NULL, 0, -1), TNR_ERR_INVALID_DEVICE, "-1");
    assert_int_equal(access, TNR_ACCESS_NONE);
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_destroy(pool));
    assert_error(tnr_pool_access_set(pool, 0, 1, TNR_ACCESS_READWRITE), TNR_ERR_INVALID_POOL, NULL);
    assert_closed(block, 4 * MIB);
}

/* With peers:used, devices reach each other from when the second is used, and what was there first
 * is reached too. */
static void devices_that_are_used(void **state)
{
    (void)state;
    start("peers:used");
    void *first = unit_malloc(5 * MIB, NULL), *second = NULL, *later;
    tnr_pool pool;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_closed(first, 5 * MIB);
    assert_ok(tnr_malloc(&second, 5 * MIB, 1, NULL));
    assert_open(first, 5 * MIB);
    assert_access(second, 5 * MIB, 0, TNR_ACCESS_READWRITE);
    assert_access(first, 5 * MIB, 2, TNR_ACCESS_NONE); /* is not used */
    assert_ok(tnr_pool_malloc(&later, pool, 3 * MIB, 0, NULL));
    assert_open(later, 3 * MIB);
    assert_ok(tnr_pool_create(&pool, 1, NULL));
    assert_ok(tnr_pool_malloc(&later, pool, 3 * MIB, 1, NULL));
    assert_access(later, 3 * MIB, 0, TNR_ACCESS_READWRITE);
}

/* Who has no way stays closed, and the allocation that is the first of a device succeeds. */
static void used_devices_without_a_way(void **state)
{
    (void)state;
    unit_start("peers:used", "DEVICES=2", "PEERS=0", NULL);
    void *first = unit_malloc(5 * MIB, NULL), *second = NULL;
    assert_error(tnr_free(&first), TNR_ERR_FOREIGN_POINTER, NULL);
    assert_ok(tnr_malloc(&second, 5 * MIB, 1, NULL));
    assert_closed(first, 5 * MIB);
    assert_null(strstr(tnr_last_error(), "cannot reach")); /* nobody asked for it */
}

static void devices_without_a_way(void **state)
{
    (void)state;
    unit_start(NULL, "DEVICES=2", "PEERS=0", NULL);
    void *block = unit_malloc(4 * MIB, NULL);
    assert_error(tnr_pool_access_set(NULL, 0, 1, TNR_ACCESS_READWRITE), TNR_ERR_NO_PEER_ACCESS,
                 "device 1 cannot reach memory of device 0");
    assert_error(tnr_device_access_set(0, 1, TNR_ACCESS_READWRITE), TNR_ERR_NO_PEER_ACCESS, NULL);
    assert_closed(block, 4 * MIB);
    assert_ok(tnr_free(block));
}

/* Each call of the driver fails once: nothing has changed then. */
static void a_driver_that_fails(void **state)
{
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        start(NULL);
        void *a = unit_malloc(30 * MIB, NULL), *b = unit_malloc(9 * MIB, unit_stream(0));
        simcuda_fail("*", nth, 0, CUDA_ERROR_UNKNOWN);
        tnr_status status = tnr_device_access_set(0, 1, TNR_ACCESS_READWRITE);
        uint64_t hits = simcuda_fail_hits();
        simcuda_fail_clear();
        assert_access(a, 30 * MIB, 1, status == TNR_OK ? TNR_ACCESS_READWRITE : TNR_ACCESS_NONE);
        assert_access(b, 9 * MIB, 1, status == TNR_OK ? TNR_ACCESS_READWRITE : TNR_ACCESS_NONE);
        tnr_access access;
        assert_ok(tnr_pool_access_get(&access, NULL, 0, 1));
        assert_int_equal(access, status == TNR_OK ? TNR_ACCESS_READWRITE : TNR_ACCESS_NONE);
        void *c = unit_malloc(50 * MIB, NULL);
        assert_access(c, 50 * MIB, 1, access);
        assert_ok(tnr_validate(-1));
        assert_int_equal(unit_stop(NULL), 0);
        if (hits == 0) {
            assert_int_equal(status, TNR_OK);
            assert_true(nth > 5);
            break;
        }
    }
}

/* The driver fails in the middle of a change, and goes on to fail: the pool says that it is as it
 * was, but some chunks are not. Asked again, with what the pool has or with the other, it goes over
 * all of them. */
static void a_way_back_that_fails(void **state)
{
    (void)state;
    enum { BLOCKS = 8 };
    for (int again = 0; again < 2; again++)
        for (int was = 0; was < 2; was++) {
            void *blocks[BLOCKS];
            tnr_access before = was ? TNR_ACCESS_READWRITE : TNR_ACCESS_NONE;
            tnr_access other = was ? TNR_ACCESS_NONE : TNR_ACCESS_READWRITE;
            start("chunk_exact_mb:2,chunk_share:65536");
            assert_ok(tnr_pool_access_set(NULL, 0, 1, before));
            for (int i = 0; i < BLOCKS; i++)
                blocks[i] = unit_malloc(2 * MIB, NULL);
            simcuda_fail("cuMemSetAccess", 4, 1, CUDA_ERROR_UNKNOWN);
            assert_error(tnr_pool_access_set(NULL, 0, 1, other), TNR_ERR_DRIVER, "cuMemSetAccess");
            simcuda_fail_clear();
            int torn = 0;
            for (int i = 0; i < BLOCKS; i++)
                torn += flags_at(blocks[i], 1) == (unsigned long long)other;
            assert_int_equal(torn, 3);
            tnr_access access;
            assert_ok(tnr_pool_access_get(&access, NULL, 0, 1));
            assert_int_equal(access, before);
            assert_ok(tnr_pool_access_set(NULL, 0, 1, again ? before : other));
            for (int i = 0; i < BLOCKS; i++)
                assert_access(blocks[i], 2 * MIB, 1, again ? before : other);
            uint64_t calls = unit_stats().driver_calls[TNR_DRIVER_ACCESS];
            assert_ok(tnr_pool_access_set(NULL, 0, 1, again ? before : other)); /* nothing to do */
            assert_int_equal(unit_stats().driver_calls[TNR_DRIVER_ACCESS], calls);
            assert_int_equal(unit_stop(NULL), 0);
        }
}

/* Each allocation of host memory fails once, with more chunks than the first list has room for. */
static void without_host_memory(void **state)
{
    (void)state;
    start("chunk_exact_mb:2,chunk_share:65536");
    void *block = NULL;
    for (int i = 0; i < 100; i++)
        block = unit_malloc(2 * MIB, NULL);
    uint64_t nth = 0;
    tnr_status status;
    do {
        tnri_host_fail_at(++nth, 0);
        status = tnr_pool_access_set(NULL, 0, 1, TNR_ACCESS_READWRITE);
        tnri_host_fail_at(0, 0);
        if (status != TNR_OK) {
            assert_int_equal(status, TNR_ERR_HOST_MEMORY);
            assert_closed(block, 2 * MIB);
        }
    } while (status != TNR_OK);
    assert_true(nth > 2);
    assert_open(block, 2 * MIB);
}

/* Closing waits for the peer, which a capture forbids. Opening does not. */
static void in_a_capture(void **state)
{
    (void)state;
    start(NULL);
    tnr_stream stream = unit_stream(0);
    void *block = unit_malloc(4 * MIB, NULL);
    tnr_cuda_graph graph;
    assert_ok(tnr_capture_begin(0, stream, NULL));
    assert_ok(tnr_pool_access_set(NULL, 0, 1, TNR_ACCESS_READWRITE));
    assert_open(block, 4 * MIB);
    assert_error(tnr_pool_access_set(NULL, 0, 1, TNR_ACCESS_NONE), TNR_ERR_CAPTURE,
                 "End the capture first");
    assert_open(block, 4 * MIB);
    assert_ok(tnr_capture_end(&graph, NULL, 0, stream));
    assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
    assert_ok(tnr_pool_access_set(NULL, 0, 1, TNR_ACCESS_NONE));
    assert_closed(block, 4 * MIB);
}

/* A sleep that cannot ask for a peer does not begin. */
static void a_sleep_that_cannot_wait(void **state)
{
    (void)state;
    start(NULL);
    void *block = unit_malloc(4 * MIB, NULL);
    assert_ok(tnr_pool_access_set(NULL, 0, 1, TNR_ACCESS_READWRITE));
    assert_ok(tnr_pool_access_set(NULL, 0, 2, TNR_ACCESS_READWRITE));
    simcuda_fail("cuDevicePrimaryCtxGetState", 1, 0, CUDA_ERROR_UNKNOWN);
    assert_error(tnr_pool_sleep(NULL, 0, NULL), TNR_ERR_DRIVER, "waiting for a peer");
    simcuda_fail_clear();
    assert_open(block, 4 * MIB);
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_open(block, 4 * MIB);
}

static void from_a_callback(void **state)
{
    (void)state;
    start(NULL);
    tnr_pool pool;
    void *block;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc(&block, pool, 2 * MIB, 0, NULL));
    got[0] = got[1] = TNR_ERR_INTERNAL;
    assert_ok(tnr_sleep_callback_add(on_sleep, NULL));
    assert_ok(tnr_pool_sleep(pool, 0, NULL));
    assert_ok(tnr_pool_wake(pool, 0));
    assert_ok(tnr_sleep_callback_remove(on_sleep, NULL));
    assert_int_equal(got[0], TNR_OK);
    assert_int_equal(got[1], TNR_OK);
    assert_open(block, 2 * MIB);
    assert_access(block, 2 * MIB, 2, TNR_ACCESS_READWRITE);
}

/* Others have a parked block's memory while access changes, and give it back: its old mapping knows
 * nothing of the change. Twice, so that in the end the set of peers is what it was. */
static void parked(void **state)
{
    (void)state;
    start(NULL);
    tnr_stream stream = unit_stream(0);
    void *a = unit_malloc(16 * MIB, stream);
    for (int i = 0; i < 4; i++) {
        tnr_access before = i % 2 == 0 ? TNR_ACCESS_NONE : TNR_ACCESS_READWRITE;
        tnr_access between = i % 2 == 0 ? TNR_ACCESS_READWRITE : TNR_ACCESS_NONE;
        assert_ok(tnr_trim(NULL, 0, 0));
        assert_ok(tnr_pool_access_set(NULL, 0, 1, before));
        assert_ok(tnr_park(NULL, a, stream, TNR_CONTENT_DISCARD));
        assert_ok(tnr_pool_access_set(NULL, 0, 1, between));
        void *b = unit_malloc(16 * MIB, stream);
        assert_int_equal(unit_stats().bytes_parked_away, 16 * MIB);
        if (i < 2)
            assert_ok(tnr_pool_access_set(NULL, 0, 1, before));
        assert_ok(tnr_free(b));
        uint64_t maps = simcuda_calls("cuMemMap");
        assert_ok(tnr_unpark(a, stream));
        assert_access(a, 16 * MIB, 1, i < 2 ? before : between);
        if (i >= 2) /* the mapping that it left has what is wanted */
            assert_int_equal(simcuda_calls("cuMemMap"), maps);
    }
    assert_ok(tnr_free(a));
}

#define CASE(test) cmocka_unit_test_teardown(test, unit_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_exists),
        CASE(what_comes_later),
        CASE(closing),
        CASE(closing_waits),
        CASE(closing_when_the_peer_cannot_be_asked),
        CASE(pools_made_later),
        CASE(moves_and_loans),
        CASE(sleep_and_wake),
        CASE(asleep_in_part),
        CASE(parked),
        CASE(bad_input),
        CASE(devices_without_a_way),
        CASE(devices_that_are_used),
        CASE(used_devices_without_a_way),
        CASE(from_a_callback),
        CASE(a_way_back_that_fails),
        CASE(without_host_memory),
        CASE(in_a_capture),
        CASE(a_sleep_that_cannot_wait),
        CASE(a_driver_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
