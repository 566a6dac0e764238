/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory for contents where there is little: limits of the machine and of control groups of
 * both versions, read from folders that look like theirs, and a system that refuses to pin.
 *
 * Lines changed in the library to see a test fail:
 *   groups_read: the first folder only, or the last: the_tightest_group_counts
 *   group_read: `given_up` not taken off: files_in_memory_are_left
 *   version 1's row without `total_`: the same
 *   limit_lower: the latest instead of the least: the_tightest_group_counts
 *   set_have_buffers without tnri_staging_check, or with it for each pool:
 *   sleeps_are_refused_with_a_sentence
 *   tnri_staging_prepare without tnri_staging_check: the same
 *   tnri_staging_check without pinned_trim: what_parks_have_left_counts
 *   pool_list: a ring for each pool in files, or none: files_need_one_ring
 *   spares_make: the ring not left of what was pinned: what_is_not_pinned_goes_through_the_ring
 *   memory_pin: CUDA_ERROR_OPERATING_SYSTEM as any other error: the same
 */
#include "sleep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <tenure/park.h>

#include "away/staging.h"
#include "played_root.h"

#define V1_NONE "9223372036854771712\n"

static uint64_t left(const char *where)
{
    tnri_host_limit limit;
    tnri_host_limit_read(&limit);
    assert_string_equal(limit.where, where);
    return limit.left;
}

/* ---- reading -------------------------------------------------------------------------------- */

static void nothing_there_limits_nothing(void **state)
{
    (void)state;
    assert_int_equal(left(""), UINT64_MAX);
    tnri_host_limit limit;
    assert_true(tnri_host_limit_allows(&limit, SIZE_MAX, 0));
    put("/proc/self/cgroup", "0::/a\n");
    put("/sys/fs/cgroup/a/memory.current", "123\n");
    assert_int_equal(left(""), UINT64_MAX);
    put("/sys/fs/cgroup/a/memory.max", "max\n");
    put("/proc/meminfo", "MemTotal: 12 kB\nMemFree: 1 kB\n");
    assert_int_equal(left(""), UINT64_MAX);
    put("/proc/meminfo", "MemTotal: 12 kB\nMemFree: 1 kB\nMemAvailable:     7 kB\n");
    assert_int_equal(left("/proc/meminfo"), 7 << 10);
}

/* The process's own group, one above it, or the uppermost: whichever has least. */
static void the_tightest_group_counts(void **state)
{
    (void)state;
    static const char *const folders[] = {"", "/pod", "/pod/own"};
    put("/proc/meminfo", "MemAvailable: 1000000 kB\n");
    put("/proc/self/cgroup", "0::/pod/own\n");
    for (int tight = 0; tight < 3; tight++) {
        char path[128], where[128];
        for (int i = 0; i < 3; i++) {
            snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.max", folders[i]);
            if (i == tight)
                snprintf(where, sizeof(where), "%s", path);
            put(path, i == tight ? "5000\n" : "9000\n");
            snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.current", folders[i]);
            put(path, i == tight ? "4000\n" : "5000\n");
        }
        assert_int_equal(left(where), 1000);
    }
    put("/sys/fs/cgroup/pod/memory.current", "9001\n"); /* above its limit, as can be for a while */
    assert_int_equal(left("/sys/fs/cgroup/pod/memory.max"), 0);
}

/* Version 1, alone or beside version 2; and a container that sees nothing of its path. */
static void both_versions(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "12:cpu,cpuacct:/x\n4:memory:/docker/1f\n0::/\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "70000\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "10000\n");
    assert_int_equal(left("/sys/fs/cgroup/memory/memory.limit_in_bytes"), 60000);
    put("/sys/fs/cgroup/memory/docker/1f/memory.limit_in_bytes", "30000\n");
    put("/sys/fs/cgroup/memory/docker/1f/memory.usage_in_bytes", "10000\n");
    assert_int_equal(left("/sys/fs/cgroup/memory/docker/1f/memory.limit_in_bytes"), 20000);
    put("/sys/fs/cgroup/unified/memory.max", "15000\n");
    put("/sys/fs/cgroup/unified/memory.current", "1\n");
    assert_int_equal(left("/sys/fs/cgroup/unified/memory.max"), 14999);
    put("/proc/self/cgroup", "0::/not/seen/here\n");
    put("/sys/fs/cgroup/memory.max", "15000\n");
    put("/sys/fs/cgroup/memory.current", "2\n");
    assert_int_equal(left("/sys/fs/cgroup/memory.max"), 14998);
}

static void files_in_memory_are_left(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/a\n");
    put("/sys/fs/cgroup/a/memory.max", "1000\n");
    put("/sys/fs/cgroup/a/memory.current", "900\n");
    put("/sys/fs/cgroup/a/memory.stat",
        "anon 300\nfile 600\nshmem 100\ninactive_file 400\nactive_file 100\n");
    assert_int_equal(left("/sys/fs/cgroup/a/memory.max"), 600);
    put("/sys/fs/cgroup/a/memory.stat", "inactive_file 4000\n"); /* read a moment later */
    assert_int_equal(left("/sys/fs/cgroup/a/memory.max"), 1000);
    put("/proc/self/cgroup", "3:memory:/\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "900\n");
    put("/sys/fs/cgroup/memory/memory.stat",
        "inactive_file 1\nactive_file 1\ntotal_inactive_file 40\ntotal_active_file 10\n");
    assert_int_equal(left("/sys/fs/cgroup/memory/memory.limit_in_bytes"), 150);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", V1_NONE);
    assert_true(left("/sys/fs/cgroup/memory/memory.limit_in_bytes") > (uint64_t)1 << 62);
    tnri_host_limit limit;
    assert_true(tnri_host_limit_allows(&limit, (size_t)1 << 50, TNRI_HOST_LIMIT_REST));
}

/* Texts that nobody would write. */
static void bad_files(void **state)
{
    (void)state;
    static char path[9000];
    memset(path, 'x', sizeof(path) - 2);
    memcpy(path, "0::/", 4);
    put("/proc/self/cgroup", path);
    put("/sys/fs/cgroup/memory.current", "\n");
    put("/sys/fs/cgroup/memory.max", "");
    put("/sys/fs/cgroup/memory.stat", "active_file");
    put("/proc/meminfo", "MemAvailable:\n");
    assert_int_equal(left(""), UINT64_MAX);
    put("/sys/fs/cgroup/memory.current", "7\n");
    put("/sys/fs/cgroup/memory.max", "8\n");
    assert_int_equal(left("/sys/fs/cgroup/memory.max"), 1);
}

/* ---- sleeping ------------------------------------------------------------------------------- */

static void limit_put(size_t bytes)
{
    char text[64];
    snprintf(text, sizeof(text), "%zu\n", bytes);
    put("/sys/fs/cgroup/memory.max", text);
}

/* Nothing was taken, copied or changed, and it goes when there is room. */
static void sleeps_are_refused_with_a_sentence(void **state)
{
    (void)state;
    static const size_t bounds[] = {0, 1};
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/memory.current", "0\n");
    unit_start(NULL, "SCHEDULE=eager", "MEMORY=512M", NULL);
    sleep_context_enter();
    tnr_pool pool;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    void *small = unit_malloc(700, NULL), *large;
    assert_ok(tnr_pool_malloc(&large, pool, 70 * MIB, 0, NULL));
    sleep_fill(small, 700, 1, NULL);
    sleep_fill(large, 70 * MIB, 2, NULL);
    for (int i = 0; i < 2; i++) {
        tnr_sleep_options options = {sizeof(options), TNR_CONTENT_KEEP, 0, bounds[i]};
        uint64_t copies = simcuda_calls("cuMemcpyDtoHAsync");
        limit_put(TNRI_HOST_LIMIT_REST + 4 * TNRI_BUFFER_BYTES - 1);
        assert_error(tnr_device_sleep(0, &options), TNR_ERR_HOST_MEMORY,
                     "/sys/fs/cgroup/memory.max has 192.0 MiB left");
        assert_int_equal(simcuda_calls("cuMemcpyDtoHAsync"), copies);
        assert_int_equal(sleep_pinned_bytes(), 0);
        assert_int_equal(unit_stats().bytes_asleep, 0);
        limit_put(TNRI_HOST_LIMIT_REST + 6 * TNRI_BUFFER_BYTES);
        assert_ok(tnr_device_sleep(0, &options));
        limit_put(0); /* a wake needs no more */
        assert_ok(tnr_device_wake(0));
        sleep_check(small, 700, 1);
        sleep_check(large, 70 * MIB, 2);
    }
    limit_put(TNRI_HOST_LIMIT_REST + TNRI_BUFFER_BYTES);
    assert_error(tnr_sleep_prepare(40 * MIB, 0), TNR_ERR_HOST_MEMORY, "memory.max");
    assert_int_equal(sleep_pinned_bytes(), 0);
    assert_ok(tnr_sleep_prepare(20 * MIB, 0));
    limit_put(0); /* what is there is not asked for again */
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    assert_ok(tnr_pool_wake(NULL, 0));
    sleep_check(small, 700, 1);
    assert_ok(tnr_sleep_prepare(0, 0));
    sleep_context_leave();
}

/* However many pools have their contents in files. */
static void files_need_one_ring(void **state)
{
    (void)state;
    enum { POOLS = 4 };
    const tnr_sleep_options disk = {sizeof(disk), TNR_CONTENT_DISK, 0, 0};
    char conf[PATH_MAX + 32];
    void *blocks[POOLS];
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/memory.current", "0\n");
    snprintf(conf, sizeof(conf), "contents_dir:%s", root);
    unit_start(conf, "SCHEDULE=eager", "MEMORY=512M", NULL);
    sleep_context_enter();
    for (int i = 0; i < POOLS; i++) {
        tnr_pool pool;
        assert_ok(tnr_pool_create(&pool, 0, NULL));
        assert_ok(tnr_pool_malloc(&blocks[i], pool, MIB, 0, NULL));
        sleep_fill(blocks[i], MIB, (uint32_t)i, NULL);
    }
    limit_put(TNRI_HOST_LIMIT_REST + TNRI_RING * TNRI_BUFFER_BYTES - 1);
    assert_error(tnr_device_sleep(0, &disk), TNR_ERR_HOST_MEMORY, "contents need 64.00 MiB");
    limit_put(TNRI_HOST_LIMIT_REST + TNRI_RING * TNRI_BUFFER_BYTES);
    assert_ok(tnr_device_sleep(0, &disk));
    assert_ok(tnr_device_wake(0));
    for (int i = 0; i < POOLS; i++)
        sleep_check(blocks[i], MIB, (uint32_t)i);
    sleep_context_leave();
}

/* Where the system pins less than contents have, the rest goes through a ring of what it did pin;
 * where that is not even a ring, the sentence has the limit that may be behind it. */
static void what_is_not_pinned_goes_through_the_ring(void **state)
{
    (void)state;
    static const CUresult refusals[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OPERATING_SYSTEM};
    struct rlimit locked = {0};
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &locked), 0);
    locked.rlim_cur = 64 * KIB;
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &locked), 0);
    unit_start(NULL, "SCHEDULE=lazy", "MEMORY=512M", "RACES=1", NULL);
    sleep_context_enter();
    void *block = unit_malloc(110 * MIB, NULL); /* 4 buffers */
    sleep_fill(block, 110 * MIB, 1, NULL);
    for (int nth = 1; nth <= 4; nth++) {
        simcuda_fail("cuMemHostAlloc", (uint64_t)nth, 1, refusals[nth % 2]);
        if (nth <= TNRI_RING) {
            assert_error(tnr_pool_sleep(NULL, 0, NULL), TNR_ERR_HOST_MEMORY,
                         "limit on locked memory is 64.00 KiB");
        } else {
            assert_ok(tnr_pool_sleep(NULL, 0, NULL));
            assert_int_equal(sleep_pinned_bytes(), (size_t)(nth - 1) * TNRI_BUFFER_BYTES);
            assert_int_equal(sleep_device_bytes(), 0);
            assert_ok(tnr_pool_wake(NULL, 0));
        }
        assert_int_equal(sleep_pinned_bytes(), 0);
        simcuda_fail_clear();
        sleep_check(block, 110 * MIB, 1);
    }
    simcuda_fail("cuMemHostAlloc", 3, 0, CUDA_ERROR_UNKNOWN); /* no matter of limits */
    assert_error(tnr_pool_sleep(NULL, 0, NULL), TNR_ERR_DRIVER, "cuMemHostAlloc");
    simcuda_fail_clear();
    simcuda_fail("cuMemHostAlloc", 3, 0, CUDA_ERROR_OUT_OF_MEMORY);
    assert_error(tnr_sleep_prepare(110 * MIB, 0), TNR_ERR_HOST_MEMORY, "cuMemHostAlloc");
    assert_int_equal(sleep_pinned_bytes(), 0);
    assert_int_equal(simcuda_races(), 0);
    sleep_context_leave();
}

/* What parked blocks have left is pinned, but no spare: it serves the next block, and makes room
 * for a sleep. */
static void what_parks_have_left_counts(void **state)
{
    (void)state;
    enum { BLOCKS = 8 };
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/memory.current", "0\n");
    limit_put((size_t)4 << 30);
    unit_start(NULL, "SCHEDULE=eager", "MEMORY=512M", NULL);
    sleep_context_enter();
    void *blocks[BLOCKS], *tiny = unit_malloc(512, NULL);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = unit_malloc(20 * MIB, NULL);
        assert_ok(tnr_park(NULL, blocks[i], NULL, TNR_CONTENT_KEEP));
    }
    for (int i = 0; i < BLOCKS; i++)
        assert_ok(tnr_unpark(blocks[i], NULL));
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_ok(tnr_park(NULL, tiny, NULL, TNR_CONTENT_KEEP)); /* sees that copies are over */
    assert_ok(tnr_unpark(tiny, NULL));
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    limit_put(TNRI_HOST_LIMIT_REST + 10 * MIB);
    assert_ok(tnr_park(NULL, blocks[0], NULL, TNR_CONTENT_KEEP));
    assert_ok(tnr_unpark(blocks[0], NULL));
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_error(tnr_device_sleep(0, NULL), TNR_ERR_HOST_MEMORY, "contents need");
    assert_int_equal(sleep_pinned_bytes(), 0); /* it was given back first */
    assert_error(tnr_park(NULL, blocks[0], NULL, TNR_CONTENT_KEEP), TNR_ERR_HOST_MEMORY, "left");
    assert_int_equal(sleep_pinned_bytes(), 0);
    limit_put((size_t)4 << 30);
    assert_ok(tnr_park(NULL, blocks[0], NULL, TNR_CONTENT_KEEP));
    sleep_context_leave();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_there_limits_nothing, root_begin, root_end),
        cmocka_unit_test_setup_teardown(the_tightest_group_counts, root_begin, root_end),
        cmocka_unit_test_setup_teardown(both_versions, root_begin, root_end),
        cmocka_unit_test_setup_teardown(files_in_memory_are_left, root_begin, root_end),
        cmocka_unit_test_setup_teardown(bad_files, root_begin, root_end),
        cmocka_unit_test_setup_teardown(sleeps_are_refused_with_a_sentence, root_begin, root_end),
        cmocka_unit_test_setup_teardown(files_need_one_ring, root_begin, root_end),
        cmocka_unit_test_setup_teardown(what_parks_have_left_counts, root_begin, root_end),
        cmocka_unit_test_setup_teardown(what_is_not_pinned_goes_through_the_ring, root_begin,
                                        root_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
