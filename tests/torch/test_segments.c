/* SPDX-License-Identifier: Apache-2.0 */
/* Segments for torch.cuda.MemPool: where they come from, when they are free again, what is refused.
 */
#include "capture/steps.h"
#include "tenure_torch.h"

/* The pools end with each test. */
static int stop(void **state)
{
    simcuda_run(UINT64_MAX);
    assert_int_equal(tenure_torch_segment_options(0, 0, 0, 0), TNR_OK);
    return life_stop(state);
}

static void options_of_the_pool(void **state)
{
    (void)state;
    life_start(NULL, NULL, NULL);
    assert_int_equal(tenure_torch_segment_options(32 * MIB, 0, TNR_HANDLE_NONE, 0), TNR_OK);
    assert_null(tenure_torch_segment_malloc(40 * MIB, 0, ORIGIN));
    void *segment = tenure_torch_segment_malloc(20 * MIB, 0, ORIGIN);
    assert_non_null(segment);
    assert_int_equal(tenure_torch_segment_options(0, 0, 0, 0), TNR_ERR_BUSY);
    assert_null(tenure_torch_segment_malloc(40 * MIB, 0, ORIGIN));
    tenure_torch_segment_free(segment, 20 * MIB, 0, ORIGIN);
    assert_int_equal(tenure_torch_segment_options(0, 0, 0, 0), TNR_OK);
    segment = tenure_torch_segment_malloc(40 * MIB, 0, ORIGIN);
    assert_non_null(segment);
    tenure_torch_segment_free(segment, 40 * MIB, 0, ORIGIN);
}

static void a_pool_of_their_own(void **state)
{
    (void)state;
    life_start(NULL, NULL, NULL);
    void *segment = tenure_torch_segment_malloc(20 * MIB, 0, ORIGIN);
    void *other = tenure_torch_segment_malloc(2 * MIB, 0, BRANCH);
    assert_non_null(segment);
    tnr_pool pool = pool_of(segment);
    assert_non_null(pool);
    assert_ptr_equal(pool_of(other), pool);
    assert_int_equal(tenure_torch_segment_options(MIB, 0, 0, 0), TNR_ERR_BUSY);
    tenure_torch_segment_free(segment, 20 * MIB, 0, ORIGIN);
    tenure_torch_segment_free(other, 2 * MIB, 0, BRANCH);
    assert_int_equal(pool_stats(pool).allocation[TNR_WORLD_ALL].current, 0);
}

/* cudaFree's meaning: also streams that only used blocks of the segment are waited for. */
static void free_again_when_no_stream_uses_it(void **state)
{
    (void)state;
    life_start("reuse:poll", NULL, NULL);
    void *segment = tenure_torch_segment_malloc(20 * MIB, 0, ORIGIN);
    void *known = unit_malloc(MIB, OTHER); /* Tenure has heard of the stream */
    life_gate_close(0, OTHER);
    life_fill(segment, 20 * MIB, 1, OTHER);
    tenure_torch_segment_free(segment, 20 * MIB, 0, ORIGIN);
    void *next = tenure_torch_segment_malloc(20 * MIB, 0, ORIGIN);
    assert_false(is_overlap(next, 20 * MIB, segment, 20 * MIB));
    life_gate_open(0);
    simcuda_run(UINT64_MAX);
    tenure_torch_segment_free(next, 20 * MIB, 0, ORIGIN);
    assert_ok(tnr_free(known));
}

/* PyTorch then frees what it can and asks again: nothing is raised or counted. */
static void null_when_memory_is_short(void **state)
{
    (void)state;
    life_start(NULL, NULL, NULL);
    unsigned long failures = tenure_torch_failures();
    assert_ok(tnr_limit_set(64 * MIB, 0));
    assert_null(tenure_torch_segment_malloc(65 * MIB, 0, ORIGIN));
    assert_int_equal(tenure_torch_failures(), failures);
    assert_ok(tnr_limit_set(SIZE_MAX, 0));
    assert_null(tenure_torch_segment_malloc(MIB, 64, ORIGIN));
    assert_null(tenure_torch_segment_malloc(MIB, -1, ORIGIN));
    assert_int_equal(tenure_torch_failures(), failures + 2);
    tenure_torch_segment_free(NULL, 0, 0, ORIGIN);
    int foreign;
    tenure_torch_segment_free(&foreign, 4, 0, ORIGIN);
    assert_int_equal(tenure_torch_failures(), failures + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(options_of_the_pool, stop),
        cmocka_unit_test_teardown(a_pool_of_their_own, stop),
        cmocka_unit_test_teardown(free_again_when_no_stream_uses_it, stop),
        cmocka_unit_test_teardown(null_when_memory_is_short, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
