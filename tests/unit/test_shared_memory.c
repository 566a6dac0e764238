/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that shares the host's memory: what is left is what the host says, and not the driver;
 * requests fail before the host stands still; idle memory goes back to a host that is short. A
 * folder plays /proc, in which the simulated device writes MemAvailable (TENURE_SIM_INTEGRATED).
 *
 * Lines changed in the library to see a test fail:
 *   tnri_host_room of host memory alone: refused_before_the_host_stalls
 *   tnri_device_left of host memory alone: the_hosts_word_counts
 *   tnri_cgroup_begin without is_integrated: what_is_idle_goes_back, and the two after it
 *   tnri_cgroup_over without tnri_host_lack: what_is_idle_goes_back
 *   tnri_cgroup_over without tnri_host_is_pressed: a_pressed_host_gets_all_that_is_idle
 *   tnri_reclaim_above_groups without SIZE_MAX: the same
 *   tnri_host_rest without is_integrated: host_memory_leaves_it_too
 *   outside_check: tnri_host_room also for nothing: what_gives_back_more_is_not_refused
 */
#include "played_root.h"

#include <unistd.h>

#include <tenure/control.h>
#include <tenure/host.h>
#include <tenure/sleep.h>

#include "await.h"
#include "memory/device/chunk.h"
#include "memory/device/host.h"
#include "memory/pool/pool.h"
#include "miss/reclaim.h"

enum { REST = 64 }; /* MiB that stay for the host */

static void shared_start(const char *more)
{
    char conf[256], played[2 * PATH_MAX];
    put("/proc/meminfo", "MemAvailable: 262144 kB\n");
    snprintf(played, sizeof(played), "INTEGRATED=%s/proc/meminfo", root);
    snprintf(conf, sizeof(conf), "shared_rest_mb:%d%s", REST, more);
    unit_start(conf, "MEMORY=256M", played, NULL);
    assert_ok(tnr_free(unit_malloc(1, NULL))); /* the device is in use */
    assert_ok(tnr_trim(NULL, 0, 0));
}

/* What the played host has left, in MiB. */
static size_t available(void)
{
    tnri_host_limit limit;
    tnri_host_limit_read(&limit);
    return (size_t)(limit.left >> 20);
}

/* Another program takes memory of the host. */
static CUdeviceptr others_take(size_t bytes)
{
    CUdeviceptr taken;
    CUcontext context;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc(&taken, bytes), CUDA_SUCCESS);
    return taken;
}

static void others_give(CUdeviceptr taken)
{
    CUcontext context;
    assert_int_equal(cuMemFree(taken), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(&context), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

static tnr_oom_reason lacked;

static int reason_keep(const tnr_oom_info *info, void *user)
{
    (void)user;
    lacked = info->reason;
    return 0;
}

static void refused_before_the_host_stalls(void **state)
{
    (void)state;
    void *ptr = &ptr;
    shared_start("");
    void *first = unit_malloc(150 * MIB, NULL);
    uint64_t create = simcuda_calls("cuMemCreate");
    tnr_oom_callback_set(reason_keep, NULL);
    assert_error(tnr_malloc(&ptr, 50 * MIB, 0, unit_stream(0)), TNR_ERR_OUT_OF_MEMORY,
                 "device 0 shares the host's memory: /proc/meminfo has 10");
    assert_null(ptr);
    assert_int_equal(lacked, TNR_OOM_HOST);
    assert_int_equal(simcuda_calls("cuMemCreate"), create);
    assert_true(available() >= REST);
    assert_ok(tnr_free(first)); /* what is idle makes room */
    void *second = unit_malloc(180 * MIB, unit_stream(0));
    assert_true(available() >= REST);
    assert_ok(tnr_free(second));
    tnr_oom_callback_set(NULL, NULL);
}

/* A host that is short is no reason to keep what would go back for it. */
static void what_gives_back_more_is_not_refused(void **state)
{
    (void)state;
    shared_start("");
    void *live = unit_malloc(20 * MIB, NULL);
    CUdeviceptr taken = others_take(200 * MIB);
    assert_true(available() < REST);
    tnr_pool pool = tnri_pool_walk(tnri_device_at(0), NULL);
    tnr_status less = tnri_chunk_exchange_check(&pool->account, 4 * MIB, 2 * MIB);
    tnr_status same = tnri_chunk_exchange_check(&pool->account, 4 * MIB, 4 * MIB);
    tnr_status more = tnri_chunk_exchange_check(&pool->account, 2 * MIB, 4 * MIB);
    tnri_pool_drop(pool);
    assert_ok(less);
    assert_ok(same);
    assert_int_equal(more, TNR_ERR_OUT_OF_MEMORY);
    others_give(taken);
    assert_ok(tnr_free(live));
}

/* Half of what is left is the driver's word. It refuses nothing here, and no report has it. */
static void the_hosts_word_counts(void **state)
{
    (void)state;
    void *ptr;
    size_t left, total;
    shared_start("");
    void *most = unit_malloc(140 * MIB, NULL); /* the driver would have 128 */
    assert_int_equal(tnri_device_left(tnri_device_at(0), &left, &total), CUDA_SUCCESS);
    assert_int_equal(left, (available() - REST) * MIB);
    assert_int_equal(total, 256 * MIB);
    assert_error(tnr_malloc(&ptr, 100 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY,
                 "device 0 has 52.00 MiB of 256.0 MiB");
    /* A pool that wakes goes by it, too: no memory is taken before the copies. */
    assert_ok(tnr_pool_sleep(
        NULL, 0, &(tnr_sleep_options){sizeof(tnr_sleep_options), TNR_CONTENT_DISCARD, 0, 0}));
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_ok(tnr_free(most));
}

/* A request that the cached path cannot serve, later than any look before. */
static void miss(void)
{
    void *ptr;
    usleep(3000);
    assert_ok(tnr_malloc(&ptr, 3 * MIB, 0, unit_stream(0)));
    assert_ok(tnr_free(ptr));
}

static void what_is_idle_goes_back(void **state)
{
    (void)state;
    shared_start("");
    void *live = unit_malloc(20 * MIB, NULL), *idle = unit_malloc(100 * MIB, NULL);
    assert_ok(tnr_free(idle));
    miss();
    uint64_t before = unit_stats().reserved_bytes.current;
    assert_true(before >= 120 * MIB);           /* nothing is short */
    CUdeviceptr taken = others_take(100 * MIB); /* some 30 are left */
    assert_true(available() < REST);
    usleep(3000);
    assert_ok(tnr_free(unit_malloc(8 * MIB + 512, NULL)));
    miss();
    assert_true(available() >= REST);
    assert_true(unit_stats().reserved_bytes.current >= 20 * MIB);
    others_give(taken);
    assert_ok(tnr_free(live));
}

static void a_pressed_host_gets_all_that_is_idle(void **state)
{
    (void)state;
    static const char calm[] = "some avg10=9.99 avg60=50.00 avg300=0.00 total=1\n"
                               "full avg10=99.00 avg60=0.00 avg300=0.00 total=1\n";
    shared_start("");
    void *live = unit_malloc(20 * MIB, NULL), *idle = unit_malloc(100 * MIB, NULL);
    assert_ok(tnr_free(idle));
    for (int i = 0; i < 3; i++) {
        const char *const texts[] = {calm, "", "some avg10=wide\n"};
        put("/proc/pressure/memory", texts[i]);
        miss();
        assert_true(unit_stats().reserved_bytes.current >= 120 * MIB);
    }
    put("/proc/pressure/memory", "some avg10=10.00 avg60=0.00 avg300=0.00 total=9\n");
    miss();
    assert_true(unit_stats().reserved_bytes.current <= 28 * MIB);
    idle = unit_malloc(100 * MIB, NULL);
    assert_ok(tnr_free(idle));
    usleep(3000);
    assert_int_equal(tnri_reclaim_above_groups(tnri_device_nth(0), 0), 0); /* not again at once */
    assert_true(unit_stats().reserved_bytes.current <= 28 * MIB);
    assert_ok(tnr_free(live));
}

/* With the setting `control`, also while the program asks for nothing. */
static void the_thread_that_listens_follows(void **state)
{
    (void)state;
    char more[2 * PATH_MAX];
    snprintf(more, sizeof(more), ",control:on,control_dir:%.150s/run", root);
    shared_start(more);
    assert_true(tnr_control_path(NULL, 0) > 0);
    void *idle = unit_malloc(100 * MIB, NULL);
    assert_ok(tnr_free(idle));
    CUdeviceptr taken = others_take(120 * MIB);
    await_true(available() >= REST);
    others_give(taken);
}

/* Pinned memory is of the same make there. */
static void host_memory_leaves_it_too(void **state)
{
    (void)state;
    void *ptr;
    tnr_host_info info = {.struct_bytes = sizeof(info)};
    shared_start("");
    assert_ok(tnr_configure("shared_rest_mb:200"));
    assert_ok(tnr_host_get(&info));
    assert_int_equal(info.untouched_bytes, 200 * MIB);
    assert_error(tnr_host_malloc(&ptr, 100 * MIB), TNR_ERR_OUT_OF_MEMORY, "shares the host");
    assert_ok(tnr_configure("shared_rest_mb:100"));
    assert_ok(tnr_host_malloc(&ptr, 100 * MIB));
    assert_ok(tnr_host_free(ptr));
}

/* Who has no such device reads no file and is not watched. */
static void others_pay_nothing(void **state)
{
    (void)state;
    put("/proc/meminfo", "MemAvailable: 1 kB\n");
    put("/proc/pressure/memory", "some avg10=99.00\n");
    unit_start("shared_rest_mb:1048576", "MEMORY=256M", NULL);
    void *ptr = unit_malloc(200 * MIB, NULL);
    assert_int_equal(tnri_device_at(0)->is_watched, 0);
    assert_ok(tnr_free(ptr));
    miss();
    assert_true(unit_stats().reserved_bytes.current >= 200 * MIB);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, root_begin, root_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(refused_before_the_host_stalls),
        TEST(what_gives_back_more_is_not_refused),
        TEST(the_hosts_word_counts),
        TEST(what_is_idle_goes_back),
        TEST(a_pressed_host_gets_all_that_is_idle),
        TEST(the_thread_that_listens_follows),
        TEST(host_memory_leaves_it_too),
        TEST(others_pay_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
