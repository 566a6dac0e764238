/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents lie in a pool of the host memory near the device: its limits and sums have them, what is
 * idle in other host pools makes room for them, and neither ends under the other.
 *
 * Lines changed in the library to see a test fail:
 *   memory_pin: TNR_ERR_LIMIT as it is: a_limit_of_host_memory_holds
 *   pinned_trim without pool_trim: sums_have_the_contents
 *   tnri_pool_make without the options of slabs for contents: the same, of host:mapped
 *   free_by_settings without is_contents: the same, of auto_record:all
 *   ladder_ascend and ladder_ask without is_contents: no_case_of_memory_that_is_out
 *   device_check_idle: contents counted: ends_with_its_device
 *   tnr_trim without TNRI_DEVICE_TRIMS_CONTENTS, or staging_trim to 0: a_trim_takes_what_is_spare
 *   staging_close without its TNR_ERR_BUSY: the_host_memory_does_not_end_alone
 *   pinned_trim: nothing in a capture, whatever is spare: host_memory_ends_in_a_capture
 *   device_end_host without tnri_pool_free_all: ends_with_its_device (the end is refused)
 */
#include "sleep.h"

#include <stdio.h>
#include <string.h>

#include <tenure/capture.h>
#include <tenure/history.h>
#include <tenure/host.h>
#include <tenure/park.h>

#include "away/staging.h"

enum { HOST = TNR_HOST(0) };

static tnr_stats host_stats(void)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    assert_ok(tnr_stats_get(&stats, NULL, HOST));
    assert_ok(tnr_validate(HOST));
    return stats;
}

static uint64_t host_reserved(void)
{
    tnr_stats stats = TNR_STATS_INIT;
    assert_ok(tnr_stats_get(&stats, NULL, HOST));
    return stats.reserved_bytes.current;
}

/* 1 if a snapshot has a text. */
static int snapshot_has(const char *text)
{
    static const char path[] = "sleep_host_pool.json";
    static char whole[1 << 20];
    assert_ok(tnr_snapshot_write(path, TNR_SNAPSHOT_JSON));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t count = fread(whole, 1, sizeof(whole) - 1, file);
    (void)fclose(file);
    (void)remove(path);
    whole[count] = 0;
    return strstr(whole, text) != NULL;
}

static void sums_have_the_contents(void **state)
{
    (void)state;
    static const char *const kinds[] = {"host:mapped", "host:allocated", "auto_record:all"};
    for (int i = 0; i < 3; i++) {
        unit_start(kinds[i], "SCHEDULE=lazy", "RACES=1", NULL);
        sleep_context_enter();
        void *block = unit_malloc(40 * MIB, NULL);
        sleep_fill(block, 40 * MIB, 1, NULL);
        assert_int_equal(host_reserved(), 0);
        assert_ok(tnr_pool_sleep(NULL, 0, NULL));
        tnr_stats stats = host_stats();
        assert_int_equal(stats.reserved_bytes.current, 2 * TNRI_BUFFER_BYTES);
        assert_int_equal(stats.bytes_live, 2 * TNRI_BUFFER_BYTES);
        assert_int_equal(sleep_pinned_bytes(), 2 * TNRI_BUFFER_BYTES); /* slabs, of either kind */
        assert_true(snapshot_has("\"contents\""));
        assert_ok(tnr_pool_wake(NULL, 0));
        sleep_check(block, 40 * MIB, 1);
        assert_int_equal(host_reserved(), 0);
        assert_int_equal(sleep_pinned_bytes(), 0);
        assert_ok(tnr_park(NULL, block, NULL, TNR_CONTENT_KEEP));
        assert_int_equal(host_stats().bytes_live, 40 * MIB);
        assert_true(host_reserved() < 2 * TNRI_BUFFER_BYTES);
        assert_ok(tnr_unpark(block, NULL));
        assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS); /* until then the copy has them */
        sleep_check(block, 40 * MIB, 1);
        assert_ok(tnr_sleep_prepare(90 * MIB, 0));
        assert_int_equal(host_stats().bytes_live, 3 * TNRI_BUFFER_BYTES);
        assert_ok(tnr_sleep_prepare(0, 0));
        assert_int_equal(host_reserved(), 0);
        assert_int_equal(simcuda_races(), 0);
        sleep_context_leave();
        assert_int_equal(unit_stop(NULL), 0);
    }
}

/* What does not fit goes through the ring; where not even that fits, nothing is kept. */
static void a_limit_of_host_memory_holds(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=lazy", "RACES=1", NULL);
    sleep_context_enter();
    void *block = unit_malloc(110 * MIB, NULL); /* 4 buffers */
    sleep_fill(block, 110 * MIB, 1, NULL);
    for (size_t buffers = 0; buffers <= 4; buffers++) {
        assert_ok(tnr_limit_set(buffers * TNRI_BUFFER_BYTES + MIB, HOST));
        if (buffers < TNRI_RING) {
            assert_error(tnr_pool_sleep(NULL, 0, NULL), TNR_ERR_HOST_MEMORY, "tnr_limit_set");
        } else {
            assert_ok(tnr_pool_sleep(NULL, 0, NULL));
            assert_int_equal(host_reserved(), buffers * TNRI_BUFFER_BYTES);
            assert_int_equal(sleep_device_bytes(), 0);
            assert_ok(tnr_pool_wake(NULL, 0));
        }
        assert_int_equal(host_reserved(), 0);
        sleep_check(block, 110 * MIB, 1);
        if (buffers < 4) {
            assert_error(tnr_park(NULL, block, NULL, TNR_CONTENT_KEEP), TNR_ERR_HOST_MEMORY, NULL);
            assert_error(tnr_sleep_prepare(110 * MIB, 0), TNR_ERR_HOST_MEMORY, "tnr_limit_set");
        }
        assert_int_equal(host_reserved(), 0);
    }
    assert_int_equal(simcuda_races(), 0);
    sleep_context_leave();
}

static void idle_host_memory_makes_room(void **state)
{
    (void)state;
    void *host;
    unit_start(NULL, "SCHEDULE=eager", NULL);
    sleep_context_enter();
    void *block = unit_malloc(60 * MIB, NULL);
    sleep_fill(block, 60 * MIB, 1, NULL);
    assert_ok(tnr_limit_set(70 * MIB, HOST));
    assert_ok(tnr_host_malloc(&host, 64 * MIB));
    assert_error(tnr_pool_sleep(NULL, 0, NULL), TNR_ERR_HOST_MEMORY, NULL);
    assert_ok(tnr_host_free(host));
    assert_int_equal(host_reserved(), 64 * MIB); /* idle in the default pool */
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    assert_int_equal(host_stats().bytes_live, 2 * TNRI_BUFFER_BYTES);
    assert_error(tnr_host_malloc(&host, 64 * MIB), TNR_ERR_LIMIT, NULL);
    assert_ok(tnr_pool_wake(NULL, 0));
    sleep_check(block, 60 * MIB, 1);
    assert_ok(tnr_host_malloc(&host, 64 * MIB)); /* what the sleep had is everybody's again */
    assert_ok(tnr_host_free(host));
    sleep_context_leave();
}

static int asked;

static int callback(const tnr_oom_info *info, void *user)
{
    (void)info;
    (void)user;
    asked++;
    return 0;
}

/* There is another way, so neither the callback nor the report of memory that is out. */
static void no_case_of_memory_that_is_out(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=eager", NULL);
    sleep_context_enter();
    void *block = unit_malloc(110 * MIB, NULL);
    sleep_fill(block, 110 * MIB, 1, NULL);
    tnr_oom_callback_set(callback, NULL);
    asked = 0;
    assert_ok(tnr_limit_set(64 * MIB, HOST));
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_ok(tnr_limit_set(0, HOST));
    assert_error(tnr_pool_sleep(NULL, 0, NULL), TNR_ERR_HOST_MEMORY, NULL);
    assert_int_equal(asked, 0);
    assert_int_equal(host_stats().num_ooms, 0);
    void *host;
    assert_error(tnr_host_malloc(&host, 1), TNR_ERR_LIMIT, NULL); /* while a program's is one */
    assert_int_equal(host_stats().num_ooms, 1);
    sleep_check(block, 110 * MIB, 1);
    tnr_oom_callback_set(NULL, NULL);
    sleep_context_leave();
}

static void the_host_memory_does_not_end_alone(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=lazy", NULL);
    sleep_context_enter();
    void *block = unit_malloc(40 * MIB, NULL), *parked;
    sleep_fill(block, 40 * MIB, 1, NULL);
    tnr_pool pool;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc(&parked, pool, 5 * MIB, 0, NULL));
    sleep_fill(parked, 5 * MIB, 2, NULL);
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    assert_ok(tnr_park(NULL, parked, NULL, TNR_CONTENT_KEEP));
    for (int force = 0; force < 2; force++)
        assert_error(tnr_device_end(HOST, force), TNR_ERR_BUSY,
                     "69.00 MiB of host memory keep contents");
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_error(tnr_device_end(HOST, 1), TNR_ERR_BUSY, "5.00 MiB of host memory keep contents");
    assert_ok(tnr_unpark(parked, NULL));
    assert_ok(tnr_sleep_prepare(40 * MIB, 0));
    assert_ok(tnr_device_end(HOST, 0)); /* what is only ready ends with it */
    assert_int_equal(sleep_pinned_bytes(), 0);
    sleep_check(block, 40 * MIB, 1);
    sleep_check(parked, 5 * MIB, 2);
    assert_ok(tnr_device_sleep(0, NULL)); /* and is there again where it is wanted */
    assert_int_equal(host_reserved(), 3 * TNRI_BUFFER_BYTES);
    assert_ok(tnr_device_wake(0));
    sleep_check(block, 40 * MIB, 1);
    sleep_context_leave();
}

/* Host memory that ends while a capture is under way leaves no buffer behind. */
static void host_memory_ends_in_a_capture(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=lazy", NULL);
    sleep_context_enter();
    tnr_stream stream = unit_stream(0), other = unit_stream(0);
    void *block = unit_malloc(40 * MIB, stream);
    sleep_fill(block, 40 * MIB, 1, stream);
    assert_ok(tnr_sleep_prepare(64 * MIB, 0));
    assert_ok(tnr_capture_begin(0, other, NULL));
    tnr_status status = tnr_device_end(HOST, 0);
    CUgraph cuda;
    tnr_graph graph;
    assert_ok(tnr_capture_end(&cuda, &graph, 0, other));
    assert_int_equal(cuGraphDestroy(cuda), CUDA_SUCCESS);
    (void)simcuda_run(UINT64_MAX); /* the driver tells of its end */
    assert_true(status == TNR_OK || status == TNR_ERR_BUSY);
    assert_ok(tnr_park(NULL, block, stream, TNR_CONTENT_KEEP));
    assert_ok(tnr_unpark(block, stream));
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    sleep_check(block, 40 * MIB, 1);
    sleep_context_leave();
}

/* What an earlier sleep and a parked block have left goes with a trim; what is to be ready stays,
 * and so do contents. */
static void a_trim_takes_what_is_spare(void **state)
{
    (void)state;
    static const tnr_sleep_options backing = {sizeof(backing), TNR_CONTENT_KEEP, 1, 0};
    unit_start(NULL, "SCHEDULE=lazy", "RACES=1", NULL);
    sleep_context_enter();
    size_t released = 0;
    void *block = unit_malloc(80 * MIB, NULL);
    sleep_fill(block, 80 * MIB, 1, NULL);
    assert_ok(tnr_pool_sleep(NULL, 0, &backing));
    assert_ok(tnr_trim(&released, 0, HOST)); /* in the sleep: its contents stay */
    assert_int_equal(host_reserved(), 3 * TNRI_BUFFER_BYTES);
    assert_int_equal(released, 0);
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_int_equal(host_reserved(), 3 * TNRI_BUFFER_BYTES); /* for the next one */
    assert_ok(tnr_trim(&released, 3 * TNRI_BUFFER_BYTES, HOST));
    assert_int_equal(host_reserved(), 3 * TNRI_BUFFER_BYTES);
    assert_ok(tnr_trim(&released, 0, HOST));
    assert_int_equal(released, 3 * TNRI_BUFFER_BYTES);
    assert_int_equal(host_reserved(), 0);
    assert_int_equal(sleep_pinned_bytes(), 0);
    assert_ok(tnr_sleep_prepare(40 * MIB, 0));
    assert_ok(tnr_park(NULL, block, NULL, TNR_CONTENT_KEEP));
    assert_ok(tnr_unpark(block, NULL));
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_ok(tnr_trim(NULL, 0, HOST));
    assert_int_equal(host_reserved(), 2 * TNRI_BUFFER_BYTES); /* that were to be ready */
    sleep_check(block, 80 * MIB, 1);
    assert_int_equal(simcuda_races(), 0);
    sleep_context_leave();
}

/* By force with contents; without, where nothing lives. Then the device begins again. */
static void ends_with_its_device(void **state)
{
    (void)state;
    for (int force = 0; force < 2; force++) {
        unit_start(NULL, "SCHEDULE=lazy", "RACES=1", NULL);
        sleep_context_enter();
        void *block = unit_malloc(40 * MIB, NULL), *parked = NULL;
        tnr_pool pool;
        assert_ok(tnr_pool_create(&pool, 0, NULL));
        assert_ok(tnr_pool_malloc(&parked, pool, 5 * MIB, 0, NULL));
        sleep_fill(block, 40 * MIB, 1, NULL);
        sleep_fill(parked, 5 * MIB, 2, NULL);
        assert_ok(tnr_park(NULL, parked, NULL, TNR_CONTENT_KEEP));
        assert_ok(tnr_pool_sleep(NULL, 0, NULL));
        if (!force) {
            assert_error(tnr_device_end(0, 0), TNR_ERR_BUSY, "2 live blocks");
            assert_ok(tnr_free(block));
            assert_ok(tnr_free(parked));
        }
        assert_true(host_reserved() > 0);
        assert_ok(tnr_device_end(0, force));
        assert_int_equal(sleep_pinned_bytes(), 0);
        block = unit_malloc(40 * MIB, NULL);
        sleep_fill(block, 40 * MIB, 3, NULL);
        assert_ok(tnr_pool_sleep(NULL, 0, NULL));
        assert_ok(tnr_pool_wake(NULL, 0));
        sleep_check(block, 40 * MIB, 3);
        assert_int_equal(simcuda_races(), 0);
        sleep_context_leave();
        assert_int_equal(unit_stop(NULL), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_have_the_contents),
        cmocka_unit_test_teardown(a_limit_of_host_memory_holds, unit_stop),
        cmocka_unit_test_teardown(idle_host_memory_makes_room, unit_stop),
        cmocka_unit_test_teardown(no_case_of_memory_that_is_out, unit_stop),
        cmocka_unit_test_teardown(the_host_memory_does_not_end_alone, unit_stop),
        cmocka_unit_test_teardown(host_memory_ends_in_a_capture, unit_stop),
        cmocka_unit_test_teardown(a_trim_takes_what_is_spare, unit_stop),
        cmocka_unit_test(ends_with_its_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
