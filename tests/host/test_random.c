/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs with host memory beside device memory: blocks near two devices, of pools and
 * sizes of all kinds, filled and read by the host, copied in and out on streams of both devices,
 * freed in every way while copies are under way, trimmed, limited, captured from. What each block
 * and each copy must have is known; so a block that is handed out before its copies are over shows
 * by its bytes, and to the race detector by its order.
 *
 * Lines taken out of the library to see it fail: arena_own, the test of host memory (collect.c);
 * tnri_peers_meet, host_meets.
 *
 * Arguments: how many programs; the first seed.
 */
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCKS = 16,
    STREAMS = 4,
    LANDINGS = 6,
    STEPS = 500,
    DEVICES = 2,
    LANDING = 2 << 20,
    HOST_MIB = 16
};

/* A block of host memory; its bytes are those of `seed`, unless a copy into it is under way. */
typedef struct block {
    unsigned char *ptr; /* null: none */
    size_t bytes;
    unsigned seed;
    int near;
    int busy;    /* bit s: a copy of stream s uses it, and the host has not seen that end */
    int written; /* the same of copies that write it */
} block;

/* Device memory that a stream copies into and out of, in its order. */
typedef struct landing {
    void *ptr;
    int stream;
    size_t bytes; /* of what it has; 0: nothing yet */
    unsigned seed;
} landing;

static struct {
    uint64_t random;
    unsigned seeds;
    block blocks[BLOCKS];
    landing landings[LANDINGS];
    tnr_stream streams[STREAMS];
    tnr_pool pools[DEVICES];
} w;

static unsigned first_seed = 1, programs = 40, running;

static uint64_t below(uint64_t bound)
{
    return unit_below(&w.random, bound);
}

static int device_of(int stream)
{
    return stream % DEVICES;
}

static void context_of(int stream)
{
    CUcontext context;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, device_of(stream)), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(device_of(stream)), CUDA_SUCCESS);
}

/* Half of the sizes are small; the others reach over several chunks. */
static size_t size_draw(void)
{
    return below(2) == 0 ? 1 + below(40 * KIB) : 64 * KIB + below(LANDING - 64 * KIB);
}

static void block_make(block *one)
{
    int near = (int)below(DEVICES);
    void *ptr = NULL;
    one->bytes = size_draw();
    tnr_status status;
    switch (below(3)) {
    case 0:
        status = tnr_pool_malloc(&ptr, w.pools[near], one->bytes, TNR_HOST(near), NULL);
        break;
    case 1:
        status =
            tnr_malloc_aligned(&ptr, one->bytes, (size_t)512 << below(5), TNR_HOST(near), NULL);
        break;
    default:
        status = tnr_host_malloc_near(&ptr, one->bytes, near);
    }
    if (status == TNR_ERR_LIMIT) /* what is live leaves no room */
        return;
    assert_ok(status);
    one->ptr = ptr;
    one->busy = one->written = 0;
    one->near = near;
    one->seed = ++w.seeds;
    host_fill(one->ptr, one->bytes, one->seed);
}

/* The host has seen the end of a stream's work. */
static void stream_seen(int stream)
{
    context_of(stream);
    assert_int_equal(cuStreamSynchronize(w.streams[stream]), CUDA_SUCCESS);
    for (int i = 0; i < BLOCKS; i++) {
        w.blocks[i].busy &= ~(1 << stream);
        w.blocks[i].written &= ~(1 << stream);
    }
}

static void copy(block *one, landing *to, int is_in)
{
    int stream = to->stream;
    size_t bytes = is_in ? one->bytes : to->bytes;
    /* The program orders its own copies: none of another stream's reads what one writes. */
    if (is_in ? (one->written & ~(1 << stream)) != 0
              : bytes == 0 || bytes > one->bytes || one->busy != 0)
        return;
    CUdeviceptr device = (CUdeviceptr)(uintptr_t)to->ptr;
    context_of(stream);
    /* Before the copy: it ends no later than the free. Of streams of the block's own device. */
    if (below(4) == 0 && one->near == device_of(stream))
        assert_ok(tnr_record_stream(one->ptr, w.streams[stream]));
    assert_int_equal(is_in ? cuMemcpyHtoDAsync(device, one->ptr, bytes, w.streams[stream])
                           : cuMemcpyDtoHAsync(one->ptr, device, bytes, w.streams[stream]),
                     CUDA_SUCCESS);
    assert_ok(tnr_record_use(one->ptr, w.streams[stream]));
    one->busy |= 1 << stream;
    if (is_in) {
        to->bytes = bytes;
        to->seed = one->seed;
    } else {
        one->written |= 1 << stream;
        one->bytes = bytes; /* what is known of it; the rest is not looked at */
        one->seed = to->seed;
    }
}

static void block_free(block *one)
{
    int stream = (int)below(STREAMS);
    if (one->busy == 0)
        assert_true(host_matches(one->ptr, one->bytes, one->seed));
    context_of(stream);
    switch (below(3)) {
    case 0:
        assert_ok(tnr_free_sync(one->ptr));
        break;
    case 1:
        assert_ok(tnr_free_on(one->ptr, w.streams[stream]));
        break;
    default:
        assert_ok(tnr_host_free(one->ptr));
    }
    one->ptr = NULL;
}

static void landing_check(landing *one)
{
    static unsigned char seen[LANDING];
    stream_seen(one->stream);
    if (one->bytes == 0)
        return;
    assert_int_equal(cuMemcpyDtoHAsync(seen, (CUdeviceptr)(uintptr_t)one->ptr, one->bytes,
                                       w.streams[one->stream]),
                     CUDA_SUCCESS);
    stream_seen(one->stream);
    assert_true(host_matches(seen, one->bytes, one->seed));
}

static void step(void)
{
    block *one = &w.blocks[below(BLOCKS)];
    landing *to = &w.landings[below(LANDINGS)];
    switch (below(16)) {
    case 0:
        if (below(3) == 0)
            landing_check(to);
        break;
    case 1:
        if (below(3) == 0)
            stream_seen((int)below(STREAMS));
        break;
    case 2:
        if (below(4) == 0)
            assert_ok(tnr_trim(NULL, below(8) * MIB, TNR_HOST((int)below(DEVICES))));
        break;
    case 3:
        if (one->ptr != NULL && one->busy == 0) {
            assert_true(host_matches(one->ptr, one->bytes, one->seed));
            one->seed = ++w.seeds;
            host_fill(one->ptr, one->bytes, one->seed);
        }
        break;
    case 4:
    case 5:
    case 6:
    case 7:
    case 8:
    case 9:
        if (one->ptr != NULL)
            block_free(one);
        break;
    case 10:
        if (one->ptr != NULL)
            copy(one, to, 0);
        break;
    default:
        if (one->ptr == NULL)
            block_make(one);
        else
            copy(one, to, 1);
    }
}

static void program_run(unsigned seed)
{
    static const char *const confs[] = {
        "host:mapped,reuse_mark_percent:0",
        "host:allocated,reuse_mark_percent:0",
        "host:mapped",
        "host:mapped,lanes_forced:3,reuse_mark_percent:0",
        "host:allocated,bin_blocks:0",
        "host:mapped,aliases_from:first,bin_blocks:0,chunk_max_mb:2"};
    static const char *const schedules[] = {"SCHEDULE=lazy", "SCHEDULE=random", "SCHEDULE=eager"};
    memset(&w, 0, sizeof(w));
    w.random = seed;
    unit_start(confs[seed % 6], schedules[seed / 6 % 3], "RACES=1", "DEVICES=2", NULL);
    for (int i = 0; i < STREAMS; i++)
        w.streams[i] = unit_stream(device_of(i));
    for (int i = 0; i < DEVICES; i++) {
        assert_ok(tnr_pool_create(&w.pools[i], TNR_HOST(i), NULL));
        assert_ok(tnr_limit_set((size_t)HOST_MIB * MIB, TNR_HOST(i)));
    }
    for (int i = 0; i < LANDINGS; i++) {
        w.landings[i].stream = i % STREAMS;
        assert_ok(tnr_malloc(&w.landings[i].ptr, LANDING, device_of(i % STREAMS),
                             w.streams[i % STREAMS]));
    }
    for (int i = 0; i < STEPS; i++)
        step();
    for (int i = 0; i < LANDINGS; i++)
        landing_check(&w.landings[i]);
    for (int i = 0; i < STREAMS; i++)
        stream_seen(i);
    for (int i = 0; i < BLOCKS; i++)
        if (w.blocks[i].ptr != NULL)
            block_free(&w.blocks[i]);
    for (int i = 0; i < LANDINGS; i++)
        assert_ok(tnr_free(w.landings[i].ptr));
    for (int i = 0; i < DEVICES; i++) {
        assert_ok(tnr_trim(NULL, 0, TNR_HOST(i)));
        assert_int_equal(host_stats(i).reserved_bytes.current, 0);
        assert_ok(tnr_pool_destroy(w.pools[i]));
    }
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    unit_stop(NULL);
}

static void random_programs(void **state)
{
    (void)state;
    for (unsigned i = 0; i < programs; i++) {
        running = first_seed + i;
        program_run(running);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(random_programs, unit_stop)};
    if (argc > 1)
        programs = (unsigned)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        first_seed = (unsigned)strtoul(argv[2], NULL, 10);
    int failed = cmocka_run_group_tests_name("random programs with host memory", tests, NULL, NULL);
    if (failed != 0)
        printf("the last program was that of seed %u: run with 1 %u\n", running, running);
    return failed;
}
