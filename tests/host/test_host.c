/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory as memory: what is served, counted, moved, limited, refused and given back, over
 * mapped chunks and over slabs of cuMemHostAlloc.
 *
 * Lines taken out of the library to see a test fail:
 *   tnri_pages_access, the host's location: every_device_in_use_reaches_it
 *   tnri_peers_meet, host_meets: the same
 *   tnri_library_device, the status of tnri_peers_meet: a_refused_meeting_is_made_up_for
 *   tnri_chunk_foresee, the test of host memory: refused_before_the_kernel_kills, as the device's
 *   headroom_check, the call of tnri_host_room: the same, of one chunk
 *   segment_take, the call of tnri_host_room: the same, over slabs
 *   slab_alloc, the look at the address: slabs_begin_anywhere
 *   slab_bytes without the loop over `bytes` or that over `more`, or segment_ask without the test
 *   of is_small: slabs_grow_with_the_pool
 *   slab_bytes, `count * span`: `bytes` instead: slabs_are_whole
 *   tnri_run_bytes_max, the question for host memory: the same
 *   tnr_device_end, the end of host memory: ends_with_its_device
 *   tnri_device_start, `ceiling_bytes`: all of them
 */
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/capture.h>
#include <tenure/compact.h>
#include <tenure/export.h>
#include <tenure/park.h>
#include <tenure/sleep.h>

#include "played_root.h"

/* ---- serving -------------------------------------------------------------------------------- */

static void serves_to_512_bytes(void **state)
{
    (void)state;
    for (host_kind kind = 0; kind < HOST_KINDS; kind++) {
        host_start(kind, NULL, NULL, NULL);
        static const size_t sizes[] = {1, 512, 513, 100 * KIB, 3 * MIB + 1, 33 * MIB + 511};
        unsigned char *blocks[6];
        size_t live = 0;
        for (unsigned i = 0; i < 6; i++) {
            tnr_block_info info;
            blocks[i] = host_malloc(sizes[i]);
            host_fill(blocks[i], sizes[i], i);
            assert_ok(tnr_block_get(&info, blocks[i] + sizes[i] - 1));
            assert_ptr_equal(info.base, blocks[i]);
            assert_int_equal(info.bytes, (sizes[i] + 511) / 512 * 512);
            assert_int_equal(info.bytes_requested, sizes[i]);
            assert_int_equal(info.device, TNR_HOST(0));
            assert_null(info.stream);
            live += sizes[i];
        }
        assert_int_equal(host_stats(0).bytes_live, live);
        tnr_stats device = unit_stats();
        assert_int_equal(device.reserved_bytes.peak, 0);
        assert_int_equal(device.allocation[TNR_WORLD_ALL].allocated, 0);
        for (unsigned i = 0; i < 6; i++) {
            assert_true(host_matches(blocks[i], sizes[i], i));
            assert_ok(tnr_host_free(blocks[i]));
        }
        assert_int_equal(host_stats(0).bytes_live, 0);
        /* What was freed is one run again, and serves without the driver. */
        uint64_t calls = simcuda_calls_total();
        unsigned char *again = host_malloc(3 * MIB);
        assert_int_equal(simcuda_calls_total(), calls);
        assert_ok(tnr_free(again));
        unit_stop(NULL);
    }
}

/* Addresses that the driver aligns to pages only. */
static void slabs_begin_anywhere(void **state)
{
    (void)state;
    host_start(HOST_ALLOCATED, NULL, "PINNED_ALIGN=4K", NULL);
    unsigned char *blocks[4];
    for (unsigned i = 0; i < 4; i++) {
        blocks[i] = host_malloc(21 * MIB + i * MIB);
        host_fill(blocks[i], 21 * MIB + i * MIB, i);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_true(host_matches(blocks[i], 21 * MIB + i * MIB, i));
        assert_ok(tnr_host_free(blocks[i]));
    }
    size_t released = 0;
    assert_ok(tnr_trim(&released, 0, TNR_HOST(0)));
    simcuda_live live;
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.pinned, 0);
}

/* Weights of a model's layers: slabs grow with the pool, so they stay few, those of small blocks do
 * not, and all go back. */
static void slabs_grow_with_the_pool(void **state)
{
    (void)state;
    enum { COUNT = 320 };
    static const size_t sizes[] = {3981312, 2654208, 14284800, 7142400};
    host_start(HOST_ALLOCATED, NULL, NULL, NULL);
    unsigned char *blocks[COUNT];
    uint64_t asked = 0;
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = host_malloc(sizes[i % 4]);
        asked += sizes[i % 4];
    }
    uint64_t reserved = host_stats(0).reserved_bytes.current;
    assert_in_range(reserved, asked, asked + asked / 12);
    assert_in_range(host_stats(0).segment.current, 1, 64);
    unsigned char *small = host_malloc(700);
    assert_int_equal(host_stats(0).reserved_bytes.current, reserved + 2 * MIB);
    assert_ok(tnr_host_free(small));
    for (int i = 0; i < COUNT; i++)
        assert_ok(tnr_host_free(blocks[i]));
    assert_ok(tnr_trim(NULL, 0, TNR_HOST(0)));
    assert_int_equal(host_stats(0).reserved_bytes.current, 0);
    blocks[0] = host_malloc(3 * MIB);
    assert_int_equal(host_stats(0).reserved_bytes.current, 18 * MIB);
    assert_ok(tnr_host_free(blocks[0]));
}

/* Blocks of one size fill their slabs, whatever the size, and whatever a GPU's memory is not to be
 * split for; one alone does not take room for two. */
static void slabs_are_whole(void **state)
{
    (void)state;
    enum { COUNT = 80 };
    static const size_t sizes[] = {5 * MIB + 300 * KIB, 11 * MIB, 13 * MIB + 700 * KIB, 19 * MIB};
    for (int which = 0; which < 4; which++) {
        unsigned char *blocks[COUNT];
        host_start(HOST_ALLOCATED, which % 2 ? NULL : "max_split_size_mb:14", NULL, NULL);
        for (int i = 0; i < COUNT; i++) {
            blocks[i] = host_malloc(sizes[which]);
            if (i == 0)
                assert_in_range(host_stats(0).reserved_bytes.current, sizes[which], 22 * MIB);
        }
        uint64_t asked = COUNT * sizes[which];
        assert_in_range(host_stats(0).reserved_bytes.current, asked, asked + asked / 16);
        for (int i = 0; i < COUNT; i++)
            assert_ok(tnr_host_free(blocks[i]));
        unit_stop(NULL);
    }
}

/* Chunks with nothing live in them move under a block that no hole has room for. */
static void chunks_move(void **state)
{
    (void)state;
    host_start(HOST_MAPPED, "chunk_mb:2,chunk_max_mb:2", NULL, NULL);
    unsigned char *blocks[16];
    for (unsigned i = 0; i < 16; i++) {
        blocks[i] = host_malloc(2 * MIB);
        host_fill(blocks[i], 2 * MIB, i);
    }
    for (unsigned i = 0; i < 16; i += 2)
        assert_ok(tnr_free(blocks[i]));
    uint64_t reserved = host_stats(0).reserved_bytes.current;
    unsigned char *large = host_malloc(16 * MIB);
    host_fill(large, 16 * MIB, 99);
    assert_int_equal(host_stats(0).reserved_bytes.current, reserved);
    assert_true(host_stats(0).chunks_moved >= 7);
    for (unsigned i = 1; i < 16; i += 2)
        assert_true(host_matches(blocks[i], 2 * MIB, i));
    assert_true(host_matches(large, 16 * MIB, 99));
    for (unsigned i = 1; i < 16; i += 2)
        assert_ok(tnr_free(blocks[i]));
    assert_ok(tnr_free(large));
    (void)host_stats(0);
}

/* Growable, aligned, of a pool of its own, by the device's number. */
static void every_call_takes_its_number(void **state)
{
    (void)state;
    for (host_kind kind = 0; kind < HOST_KINDS; kind++) {
        host_start(kind, NULL, NULL, NULL);
        void *ptr = NULL;
        tnr_pool pool;
        tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
        options.name = "offload";
        options.limit_bytes = 30 * MIB;
        assert_ok(tnr_pool_create(&pool, TNR_HOST(0), &options));
        assert_ok(tnr_pool_malloc(&ptr, pool, 8 * MIB, TNR_HOST(0), NULL));
        host_fill(ptr, 8 * MIB, 1);
        assert_ok(tnr_pool_push(pool));
        unsigned char *routed = host_malloc(1 * MIB);
        assert_ok(tnr_pool_pop(pool));
        tnr_block_info info;
        assert_ok(tnr_block_get(&info, routed));
        assert_ptr_equal(info.pool, pool);
        assert_ok(tnr_free(routed));
        void *more = NULL;
        assert_error(tnr_pool_malloc(&more, pool, 40 * MIB, TNR_HOST(0), NULL), TNR_ERR_LIMIT,
                     "offload");
        assert_null(more);
        assert_ok(tnr_free(ptr));
        assert_ok(tnr_pool_destroy(pool));
        assert_ok(tnr_malloc_aligned(&ptr, 5000, 1 * MIB, TNR_HOST(0), NULL));
        assert_int_equal((uintptr_t)ptr % MIB, 0);
        assert_ok(tnr_host_free(ptr));
        if (kind == HOST_MAPPED) {
            assert_ok(tnr_reserve(&ptr, 64 * MIB, TNR_HOST(0), NULL));
            assert_ok(tnr_commit(ptr, 3 * MIB));
            host_fill(ptr, 3 * MIB, 5);
            assert_ok(tnr_commit(ptr, 9 * MIB));
            assert_true(host_matches(ptr, 3 * MIB, 5));
            assert_ok(tnr_host_free(ptr));
        }
        assert_ok(tnr_limit_set(4 * MIB, TNR_HOST(0)));
        size_t limit = 0, released = 0;
        assert_ok(tnr_limit_get(&limit, TNR_HOST(0)));
        assert_int_equal(limit, 4 * MIB);
        assert_ok(tnr_limit_get(&limit, 0));
        assert_int_equal(limit, SIZE_MAX);
        assert_error(tnr_host_malloc(&ptr, 50 * MIB), TNR_ERR_LIMIT, "tnr_limit_set");
        assert_ok(tnr_limit_set(SIZE_MAX, TNR_HOST(0)));
        assert_ok(tnr_trim(&released, 0, TNR_HOST(0)));
        assert_int_equal(host_stats(0).reserved_bytes.current, 0);
        tnr_device_info device = {.struct_bytes = sizeof(device)};
        assert_ok(tnr_device_get(&device, TNR_HOST(0)));
        assert_string_equal(device.name, "host memory near device 0");
        assert_true(device.memory_bytes > 0);
        unit_stop(NULL);
    }
}

/* ---- who reaches it ------------------------------------------------------------------------- */

static unsigned long long access_of(const void *ptr, CUmemLocationType type, int id)
{
    CUmemLocation location = {.type = type, .id = id};
    unsigned long long flags = 0;
    assert_int_equal(cuMemGetAccess(&flags, &location, (CUdeviceptr)(uintptr_t)ptr), CUDA_SUCCESS);
    return flags;
}

/* The host, and every device in use, whichever came first; no device reaches another's memory. */
static void every_device_in_use_reaches_it(void **state)
{
    (void)state;
    host_start(HOST_MAPPED, NULL, "DEVICES=3", "PEERS=0");
    void *early = NULL, *late = NULL, *on[3];
    assert_ok(tnr_malloc(&on[0], 1, 0, NULL));
    assert_ok(tnr_host_malloc_near(&early, 3 * MIB, 1)); /* brings device 1 */
    assert_ok(tnr_malloc(&on[2], 1, 2, NULL));
    assert_ok(tnr_host_malloc_near(&late, 5 * MIB, 1));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(access_of(early, CU_MEM_LOCATION_TYPE_DEVICE, i), 3);
        assert_int_equal(access_of(late, CU_MEM_LOCATION_TYPE_DEVICE, i), 3);
    }
    assert_int_equal(access_of(early, CU_MEM_LOCATION_TYPE_HOST_NUMA, 0), 3);
    assert_int_equal(access_of(late, CU_MEM_LOCATION_TYPE_HOST_NUMA, 0), 3);
    assert_int_equal(access_of(on[0], CU_MEM_LOCATION_TYPE_DEVICE, 1), 0);
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, early));
    assert_int_equal(info.device, TNR_HOST(1));
    assert_ok(tnr_host_free(early));
    assert_ok(tnr_host_free(late));
    assert_ok(tnr_free(on[0]));
    assert_ok(tnr_free(on[2]));
}

/* The driver refuses to open it to a device that comes into use: that device's first use fails, and
 * the next one tries again; so no memory is handed out on a device that does not reach it. The same
 * where it is host memory that comes second. */
static void a_refused_meeting_is_made_up_for(void **state)
{
    (void)state;
    for (uint64_t nth = 1, refusals = 1; refusals > 0; nth++) {
        host_start(HOST_MAPPED, NULL, "DEVICES=3", "PEERS=0");
        void *early = NULL, *on[3] = {0};
        refusals = 0;
        assert_ok(tnr_malloc(&on[0], 1, 0, NULL));
        assert_ok(tnr_host_malloc_near(&early, 3 * MIB, 0));
        simcuda_fail("cuMemSetAccess", nth, 0, CUDA_ERROR_UNKNOWN);
        for (int device = 1; device < 3; device++)
            while (tnr_malloc(&on[device], 1, device, NULL) != TNR_OK) {
                assert_null(on[device]);
                refusals++;
            }
        simcuda_fail_clear();
        assert_true(refusals <= 1);
        for (int i = 0; i < 3; i++)
            assert_int_equal(access_of(early, CU_MEM_LOCATION_TYPE_DEVICE, i), 3);
        assert_ok(tnr_host_free(early));
        for (int i = 0; i < 3; i++)
            assert_ok(tnr_free(on[i]));
        unit_stop(NULL);
    }
    host_start(HOST_MAPPED, NULL, "DEVICES=2", "PEERS=0");
    void *on[2], *late = NULL;
    assert_ok(tnr_malloc(&on[0], 1, 0, NULL));
    assert_ok(tnr_malloc(&on[1], 1, 1, NULL));
    assert_ok(tnr_host_malloc(&late, 3 * MIB));
    assert_int_equal(access_of(late, CU_MEM_LOCATION_TYPE_DEVICE, 1), 3);
    assert_ok(tnr_host_free(late));
    assert_ok(tnr_free(on[0]));
    assert_ok(tnr_free(on[1]));
}

/* ---- what it is made of --------------------------------------------------------------------- */

static void slabs_where_nothing_can_be_mapped(void **state)
{
    (void)state;
    unit_start("host:auto", "SCHEDULE=lazy", NULL);
    simcuda_fail("cuMemCreate", 1, 0, CUDA_ERROR_NOT_PERMITTED);
    unsigned char *ptr = host_malloc(3 * MIB);
    simcuda_live live;
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.pinned, 1);
    assert_int_equal(live.handles, 0);
    assert_ok(tnr_host_free(ptr));
    unit_stop(NULL);
    unit_start("host:mapped", "SCHEDULE=lazy", NULL);
    simcuda_fail("cuMemCreate", 1, 0, CUDA_ERROR_NOT_PERMITTED);
    void *none = &live;
    assert_error(tnr_host_malloc(&none, 3 * MIB), TNR_ERR_NO_VMM, "CUDA_ERROR_NOT_PERMITTED");
    assert_null(none);
    ptr = host_malloc(3 * MIB); /* the next one asks again */
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.pinned, 0);
    assert_ok(tnr_host_free(ptr));
}

/* ---- what the machine has left -------------------------------------------------------------- */

/* Nothing is asked of the driver that the machine or a control group has no room for; what is idle
 * in other pools of host memory goes back first, and what the device has stays. */
static void refused_before_the_kernel_kills(void **state)
{
    (void)state;
    for (host_kind kind = 0; kind < HOST_KINDS; kind++) {
        host_start(kind, NULL, NULL, NULL);
        void *idle = NULL, *ptr = NULL, *on_device = unit_malloc(4 * MIB, NULL);
        tnr_pool pool;
        assert_ok(tnr_free(on_device));
        put("/proc/meminfo", "MemAvailable: 1000000 kB\n");
        assert_ok(tnr_pool_create(&pool, TNR_HOST(0), NULL));
        assert_ok(tnr_pool_malloc(&idle, pool, 24 * MIB, TNR_HOST(0), NULL));
        assert_ok(tnr_free(idle));
        put("/proc/meminfo", "MemAvailable: 90000 kB\n"); /* 24 MiB above the rest */
        uint64_t create = simcuda_calls("cuMemCreate") + simcuda_calls("cuMemHostAlloc");
        assert_error(tnr_host_malloc(&ptr, 40 * MIB), TNR_ERR_OUT_OF_MEMORY, "/proc/meminfo");
        assert_null(ptr);
        assert_int_equal(simcuda_calls("cuMemCreate") + simcuda_calls("cuMemHostAlloc"), create);
        tnr_stats stats = TNR_STATS_INIT;
        assert_ok(tnr_stats_get(&stats, pool, TNR_HOST(0)));
        assert_int_equal(stats.reserved_bytes.current, 0);
        assert_true(unit_stats().reserved_bytes.current > 0);
        put("/proc/self/cgroup", "0::/job\n");
        put("/sys/fs/cgroup/job/memory.max", "100000000\n");
        put("/sys/fs/cgroup/job/memory.current", "30000000\n");
        assert_error(tnr_host_malloc(&ptr, 20 * MIB), TNR_ERR_OUT_OF_MEMORY,
                     "/sys/fs/cgroup/job/memory.max");
        put("/sys/fs/cgroup/job/memory.max", "67000000\n"); /* not even one chunk */
        assert_error(tnr_host_malloc(&ptr, 1), TNR_ERR_OUT_OF_MEMORY, "memory.max");
        put("/sys/fs/cgroup/job/memory.max", "max\n");
        tnr_host_info host = {.struct_bytes = sizeof(host)};
        assert_ok(tnr_host_get(&host));
        assert_int_equal(host.left_bytes, (uint64_t)90000 << 10);
        assert_int_equal(host.untouched_bytes, 64 * MIB);
        assert_string_equal(host.limited_by, "/proc/meminfo");
        host.struct_bytes = 7;
        assert_error(tnr_host_get(&host), TNR_ERR_INVALID_ARGUMENT, "struct_bytes");
        unsigned char *fits = host_malloc(20 * MIB);
        assert_ok(tnr_host_free(fits));
        assert_int_equal(host_stats(0).num_ooms, 3);
        assert_ok(tnr_pool_destroy(pool));
        unit_stop(NULL);
    }
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void what_host_memory_does_not_do(void **state)
{
    (void)state;
    host_start(HOST_MAPPED, NULL, NULL, NULL);
    unsigned char *ptr = host_malloc(4 * MIB);
    void *none = NULL, *device = unit_malloc(1 * MIB, NULL);
    size_t released = 0;
    assert_error(tnr_host_malloc(NULL, 1), TNR_ERR_INVALID_ARGUMENT, NULL);
    assert_ok(tnr_host_malloc(&none, 0));
    assert_null(none);
    assert_error(tnr_host_malloc(&none, SIZE_MAX), TNR_ERR_INVALID_SIZE, NULL);
    assert_error(tnr_host_malloc_near(&none, 1, 1), TNR_ERR_INVALID_DEVICE, "no device 65");
    assert_error(tnr_host_malloc_near(&none, 1, -1), TNR_ERR_INVALID_DEVICE, "no device -1");
    assert_error(tnr_host_malloc_near(&none, 1, TNR_HOST(0)), TNR_ERR_INVALID_DEVICE, "64");
    assert_error(tnr_host_free(device), TNR_ERR_INVALID_ARGUMENT, "tnr_free");
    assert_error(tnr_host_free(ptr + 512), TNR_ERR_INTERIOR_POINTER, NULL);
    assert_error(tnr_host_free(&none), TNR_ERR_FOREIGN_POINTER, NULL);
    assert_ok(tnr_host_free(NULL));
    assert_error(tnr_device_sleep(TNR_HOST(0), NULL), TNR_ERR_INVALID_DEVICE, "host memory");
    assert_error(tnr_pool_sleep(NULL, TNR_HOST(0), NULL), TNR_ERR_INVALID_DEVICE, "host memory");
    assert_error(tnr_device_wake(TNR_HOST(0)), TNR_ERR_INVALID_DEVICE, "host memory");
    assert_error(tnr_sleep_prepare(MIB, TNR_HOST(0)), TNR_ERR_INVALID_DEVICE, "host memory");
    assert_error(tnr_compact(&released, NULL, TNR_HOST(0)), TNR_ERR_INVALID_DEVICE, "host memory");
    assert_error(tnr_park(&released, ptr, NULL, TNR_CONTENT_KEEP), TNR_ERR_INVALID_ARGUMENT,
                 "host memory");
    tnr_pool pool;
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    assert_error(tnr_vouched_pool_create(&pool, TNR_HOST(0), NULL), TNR_ERR_INVALID_DEVICE,
                 "host memory");
    assert_error(tnr_graph_pool_create(&pool, TNR_HOST(0), NULL), TNR_ERR_INVALID_DEVICE,
                 "host memory");
    assert_error(tnr_capture_begin(TNR_HOST(0), unit_stream(0), NULL), TNR_ERR_INVALID_DEVICE,
                 "host memory");
    options.is_shared = 1;
    assert_error(tnr_pool_create(&pool, TNR_HOST(0), &options), TNR_ERR_INVALID_ARGUMENT,
                 "host memory");
    options.is_shared = 0;
    options.handle_type = TNR_HANDLE_POSIX_FD;
    assert_error(tnr_pool_create(&pool, TNR_HOST(0), &options), TNR_ERR_INVALID_ARGUMENT, NULL);
    host_fill(ptr, 4 * MIB, 3);
    assert_true(host_matches(ptr, 4 * MIB, 3));
    assert_ok(tnr_free(ptr));
    assert_error(tnr_host_free(ptr), TNR_ERR_NOT_LIVE, NULL);
    assert_ok(tnr_free(device));
}

static void in_a_child(void *data)
{
    void *ptr = NULL;
    if (tnr_host_malloc(&ptr, 1 * MIB) != TNR_ERR_AFTER_FORK ||
        tnr_host_free(data) != TNR_ERR_AFTER_FORK)
        abort();
}

static void not_after_a_fork(void **state)
{
    (void)state;
    host_start(HOST_MAPPED, NULL, NULL, NULL);
    unsigned char *ptr = host_malloc(1 * MIB);
    assert_int_equal(unit_in_child(in_a_child, ptr, 0), 0);
    assert_ok(tnr_host_free(ptr));
}

/* ---- the end -------------------------------------------------------------------------------- */

/* A GPU ends with its host memory, and neither while something is live there. */
static void ends_with_its_device(void **state)
{
    (void)state;
    for (host_kind kind = 0; kind < HOST_KINDS; kind++) {
        host_start(kind, NULL, NULL, NULL);
        void *device = unit_malloc(1 * MIB, NULL);
        unsigned char *ptr = host_malloc(4 * MIB);
        assert_ok(tnr_free(device));
        assert_error(tnr_device_end(0, 0), TNR_ERR_BUSY, "device 64 still has 1 live block");
        assert_ok(tnr_free(ptr));
        assert_ok(tnr_device_end(TNR_HOST(0), 0)); /* alone */
        device = unit_malloc(1 * MIB, NULL);
        ptr = host_malloc(4 * MIB);
        assert_ok(tnr_free(device));
        assert_ok(tnr_free(ptr));
        assert_ok(tnr_device_end(0, 0));
        simcuda_live live;
        assert_int_equal(simcuda_live_get(0, &live), 0);
        assert_int_equal(live.handles + live.pinned + live.streams + live.events +
                             live.reservations + live.primary_references,
                         0);
        ptr = host_malloc(4 * MIB); /* begins again, and ends by force */
        assert_ok(tnr_device_end(0, 1));
        ptr = host_malloc(4 * MIB);
        host_fill(ptr, 4 * MIB, 0);
        unit_stop(NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(serves_to_512_bytes, unit_stop),
        cmocka_unit_test_teardown(slabs_begin_anywhere, unit_stop),
        cmocka_unit_test_teardown(slabs_grow_with_the_pool, unit_stop),
        cmocka_unit_test_teardown(slabs_are_whole, unit_stop),
        cmocka_unit_test_teardown(chunks_move, unit_stop),
        cmocka_unit_test_teardown(every_call_takes_its_number, unit_stop),
        cmocka_unit_test_teardown(every_device_in_use_reaches_it, unit_stop),
        cmocka_unit_test_teardown(a_refused_meeting_is_made_up_for, unit_stop),
        cmocka_unit_test_teardown(slabs_where_nothing_can_be_mapped, unit_stop),
        cmocka_unit_test_setup_teardown(refused_before_the_kernel_kills, root_begin, root_end),
        cmocka_unit_test_teardown(what_host_memory_does_not_do, unit_stop),
        cmocka_unit_test_teardown(not_after_a_fork, unit_stop),
        cmocka_unit_test_teardown(ends_with_its_device, unit_stop),
    };
    return cmocka_run_group_tests_name("host memory", tests, NULL, NULL);
}
