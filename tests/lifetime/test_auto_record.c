/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The setting auto_record:all. A free waits for all that every stream was given, whatever was
 * recorded. When the setting is off again, nothing of that is left.
 *
 * Seen to fail with these lines changed in the library:
 *   a_free_waits_for_all_streams       cached.c, tnri_free_found: is_sync is 0
 *   it_can_be_switched                 conf.c, conf_publish: SYNC is not cleared
 *   the_caller_of_a_vouched_pool_orders   cached.c, free_in_sync: the test of is_vouched
 *   what_is_refused_is_refused_as_ever   cached.c, free_in_sync: returns `status`
 * Streams of other devices are in tests/check (AutoRecord, peer_copy).
 */
#include "life.h"

#include <tenure/capture.h>

#define BYTES (4 * MIB)

/* The other stream's use was recorded by nobody. No call of the lifetime layer comes first. */
static void a_free_waits_for_all_streams(void **state)
{
    (void)state;
    static const size_t sizes[] = {4096, BYTES};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        life_start("auto_record:all,reuse:poll", NULL, NULL);
        void *block = unit_malloc(sizes[i], life_streams[0]);
        life_fill(block, sizes[i], 1, life_streams[0]);
        assert_int_equal(cuStreamSynchronize(life_streams[0]), CUDA_SUCCESS);
        (void)unit_malloc(4096, life_streams[1]); /* so that Tenure has seen the stream */
        life_gate_close(0, life_streams[1]);
        unsigned char *read = life_read(block, sizes[i], life_streams[1]);
        assert_ok(tnr_free(block));
        assert_int_equal(unit_stats().blocks_retired, 1);
        uint64_t waits = life_host_waits();
        assert_false(life_is_reused(block, sizes[i], life_streams[0]));
        assert_int_equal(life_host_waits(), waits);
        life_gate_open(0);
        assert_ok(tnr_trim(NULL, 0, 0));
        assert_int_equal(unit_stats().blocks_retired, 0);
        assert_true(life_all(read, sizes[i], 1));
        assert_int_equal(life_stop(state), 0);
    }
    life_start(NULL, NULL, NULL); /* for the teardown */
}

static void it_can_be_switched(void **state)
{
    (void)state;
    life_start(NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        assert_ok(tnr_configure(i == 1 ? "auto_record:all" : "auto_record:seen"));
        void *block = unit_malloc(4096, life_streams[0]);
        uint64_t calls = simcuda_calls_total();
        assert_ok(tnr_free(block));
        assert_int_equal(unit_stats().blocks_retired, i == 1);
        assert_int_equal(simcuda_calls_total(), calls);
        simcuda_run(UINT64_MAX);
        assert_ok(tnr_trim(NULL, 0, 0));
        assert_int_equal(unit_stats().blocks_retired, 0);
    }
}

static void the_caller_of_a_vouched_pool_orders(void **state)
{
    (void)state;
    tnr_pool pool;
    void *block, *next;
    life_start("auto_record:all", NULL, NULL);
    assert_ok(tnr_vouched_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc(&block, pool, BYTES, 0, life_streams[0]));
    assert_ok(tnr_free(block));
    assert_int_equal(unit_stats().blocks_retired, 0);
    assert_ok(tnr_pool_malloc(&next, pool, BYTES, 0, life_streams[0]));
    assert_ptr_equal(next, block);
    assert_ok(tnr_free(next));
    assert_ok(tnr_pool_destroy(pool));
}

/* Blocks without memory, those that are freed twice, and addresses inside of others. */
static void what_is_refused_is_refused_as_ever(void **state)
{
    (void)state;
    void *growable;
    char outside;
    life_start("auto_record:all", NULL, NULL);
    void *block = unit_malloc(BYTES, life_streams[0]);
    assert_error(tnr_free((char *)block + 512), TNR_ERR_INTERIOR_POINTER, NULL);
    assert_ok(tnr_free(block));
    assert_error(tnr_free(block), TNR_ERR_NOT_LIVE, NULL);
    assert_error(tnr_free(&outside), TNR_ERR_FOREIGN_POINTER, NULL);
    assert_ok(tnr_free(NULL));
    assert_ok(tnr_reserve(&growable, 64 * MIB, 0, life_streams[0]));
    assert_ok(tnr_free(growable));
    assert_ok(tnr_reserve(&growable, 64 * MIB, 0, life_streams[0]));
    assert_ok(tnr_commit(growable, 4 * MIB));
    assert_ok(tnr_free(growable));
    assert_int_equal(unit_stats().bytes_live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_free_waits_for_all_streams, life_stop),
        cmocka_unit_test_teardown(it_can_be_switched, life_stop),
        cmocka_unit_test_teardown(the_caller_of_a_vouched_pool_orders, life_stop),
        cmocka_unit_test_teardown(what_is_refused_is_refused_as_ever, life_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
