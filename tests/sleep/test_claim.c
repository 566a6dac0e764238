/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that has claimed the staging waits for no graph lock. One that has the graph lock may
 * wait for the claim, to end a graph's pool that has slept: both would wait for ever.
 *
 * Lines changed in the library to see a test fail:
 *   hook_free without is_contents: contents_go_while_this_thread_captures
 *   reclaim_counted: tnri_uppers_settle also for contents:
 *     contents_lack_memory_while_another_captures
 */
#include "sleep.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <tenure/capture.h>
#include <tenure/host.h>

#include "away/staging.h"
#include "gpu/capturing.h"
#include "memory/pool/graph_lock.h"

static atomic_int locks_in_claims;

unsigned __real_tnri_graph_lock(void);
unsigned __wrap_tnri_graph_lock(void);
unsigned __wrap_tnri_graph_lock(void)
{
    if (tnri_graph_lock_depth() == 0 && tnri_staging_is_mine(tnri_device_at(0)))
        locks_in_claims++;
    return __real_tnri_graph_lock();
}

/* A capture that another thread begins on the stream once the staging is claimed for a sleep; null:
 * none. It is counted at once, and goes on when the sleep has left the device. */
static tnr_stream begins;
static pthread_t thread;

static void *capture_begin(void *stream)
{
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.mode = TNR_CAPTURE_RELAXED;
    return tnr_capture_begin(0, stream, &options) == TNR_OK ? stream : NULL;
}

tnr_status __real_tnri_staging_check(tnri_device *device, size_t count);
tnr_status __wrap_tnri_staging_check(tnri_device *device, size_t count);
tnr_status __wrap_tnri_staging_check(tnri_device *device, size_t count)
{
    if (begins != NULL) {
        assert_int_equal(pthread_create(&thread, NULL, capture_begin, begins), 0);
        begins = NULL;
        while (!tnri_capturing())
            (void)sched_yield();
    }
    return __real_tnri_staging_check(device, count);
}

static void capture_end(tnr_stream stream)
{
    tnr_cuda_graph cuda = NULL;
    tnr_graph number;
    assert_ok(tnr_capture_end(&cuda, &number, 0, stream));
    assert_int_equal(cuGraphDestroy(cuda), CUDA_SUCCESS);
    (void)simcuda_run(UINT64_MAX); /* the driver tells of its end */
}

static void contents_go_while_this_thread_captures(void **state)
{
    (void)state;
    tnr_pool pool;
    void *block;
    unit_start(NULL, "SCHEDULE=lazy", NULL);
    sleep_context_enter();
    tnr_stream stream = unit_stream(0);
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc(&block, pool, 40 * MIB, 0, NULL));
    sleep_fill(block, 40 * MIB, 1, NULL);
    assert_ok(tnr_pool_sleep(pool, 0, NULL));
    assert_true(sleep_pinned_bytes() > 0);
    assert_ok(tnr_free(block));
    assert_non_null(capture_begin(stream));
    locks_in_claims = 0;
    assert_ok(tnr_pool_destroy(pool));
    assert_int_equal(locks_in_claims, 0);
    capture_end(stream);
    sleep_context_leave();
}

static void contents_lack_memory_while_another_captures(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=lazy", NULL);
    sleep_context_enter();
    tnr_stream stream = unit_stream(0);
    void *block = unit_malloc(40 * MIB, NULL);
    sleep_fill(block, 40 * MIB, 1, NULL);
    void *host;
    assert_ok(tnr_host_malloc(&host, 80 * MIB));
    assert_ok(tnr_limit_set(100 * MIB, TNR_HOST(0)));
    begins = stream;
    locks_in_claims = 0;
    assert_error(tnr_pool_sleep(NULL, 0, NULL), TNR_ERR_HOST_MEMORY, NULL);
    void *begun;
    assert_null(begins);
    assert_int_equal(pthread_join(thread, &begun), 0);
    assert_ptr_equal(begun, stream);
    assert_int_equal(locks_in_claims, 0);
    capture_end(stream);
    assert_ok(tnr_host_free(host));
    sleep_check(block, 40 * MIB, 1);
    sleep_context_leave();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(contents_go_while_this_thread_captures, unit_stop),
        cmocka_unit_test_teardown(contents_lack_memory_while_another_captures, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
