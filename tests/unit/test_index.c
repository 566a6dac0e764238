/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of free runs against a plain array. A run that is found is large enough, and the best
 * of its class among the number of runs that are looked at. A run is found whenever there is one.
 *
 * In tnri_index_remove, the clearing of the summary bit left out: random_operations failed. In
 * index_best_of, `run->bytes < bytes` replaced by `run->bytes + 512 < bytes`: it failed at the
 * first run that was too small. In tnri_index_find_aligned, the last search left out:
 * a_large_run_behind_many_small_ones failed.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "memory/arena/index.h"

enum { RUNS = 400 };

static void classes_are_monotone_and_narrow(void **state)
{
    (void)state;
    unsigned before = 0;
    size_t first = 512; /* of the class */
    for (size_t units = 1; units < 300000; units++) {
        size_t bytes = units * 512;
        unsigned class_index = tnri_index_class(bytes);
        assert_true(class_index == before || class_index == before + 1 || units == 1);
        if (class_index != before)
            first = bytes;
        /* Sizes of one class lie within 1.6 % of each other. */
        assert_true((bytes - first) * 64 < first);
        before = class_index;
    }
    uint64_t random = 3;
    for (int i = 0; i < 100000; i++) {
        size_t a = (size_t)(unit_random(&random) >> (19 + unit_below(&random, 36))) & ~(size_t)511;
        size_t b = (size_t)(unit_random(&random) >> (19 + unit_below(&random, 36))) & ~(size_t)511;
        if (a > b) {
            size_t t = a;
            a = b;
            b = t;
        }
        if (a == 0)
            continue;
        assert_true(tnri_index_class(a) <= tnri_index_class(b));
        assert_true(tnri_index_class(b) < TNRI_INDEX_CLASSES);
    }
}

/* No device is that large, but callers may ask for it: up to TNR_BYTES_MAX plus an alignment. */
static void sizes_beyond_any_device_have_a_class(void **state)
{
    (void)state;
    static tnri_index index;
    for (unsigned log2 = 30; log2 <= 61; log2++) {
        assert_true(tnri_index_class((size_t)1 << log2) < TNRI_INDEX_CLASSES);
        assert_null(tnri_index_find(&index, (size_t)1 << log2, SIZE_MAX));
    }
}

/* Checks one search by looking at every run. */
static void find_is_checked(const tnri_index *index, const tnri_block *runs, size_t bytes,
                            size_t bytes_max)
{
    const tnri_block *found = tnri_index_find(index, bytes, bytes_max);
    const tnri_block *best = NULL;
    size_t in_class = 0; /* runs of the request's own class */
    size_t in_best_class = 0;
    for (size_t i = 0; i < RUNS; i++) {
        if (runs[i].state != TNRI_FREE)
            continue;
        in_class += tnri_index_class(runs[i].bytes) == tnri_index_class(bytes);
        if (runs[i].bytes >= bytes && (best == NULL || runs[i].bytes < best->bytes))
            best = &runs[i];
    }
    if (found != NULL) {
        assert_true(found->state == TNRI_FREE);
        assert_true(found->bytes >= bytes);
        assert_true(found->bytes <= bytes_max);
    }
    if (best == NULL) {
        assert_null(found);
        return;
    }
    for (size_t i = 0; i < RUNS; i++)
        in_best_class += runs[i].state == TNRI_FREE &&
                         tnri_index_class(runs[i].bytes) == tnri_index_class(best->bytes);
    if (in_class > TNRI_INDEX_LOOKS || in_best_class > TNRI_INDEX_LOOKS)
        return; /* the best may have been missed */
    if (best->bytes > bytes_max) {
        assert_null(found);
        return;
    }
    assert_non_null(found);
    assert_int_equal(found->bytes, best->bytes);
}

/* The same for an alignment. No more runs are there than are looked at, so the best is found. */
static void find_aligned_is_checked(const tnri_index *index, const tnri_block *runs, size_t bytes,
                                    size_t alignment, size_t bytes_max)
{
    const tnri_block *found = tnri_index_find_aligned(index, bytes, alignment, bytes_max);
    const tnri_block *best = NULL;
    for (size_t i = 0; i < RUNS; i++) {
        uintptr_t base = (runs[i].base + alignment - 1) & ~(alignment - 1);
        if (runs[i].state == TNRI_FREE && base + bytes <= tnri_block_end(&runs[i]) &&
            (best == NULL || runs[i].bytes < best->bytes))
            best = &runs[i];
    }
    if (best == NULL || best->bytes > bytes_max) {
        assert_null(found);
        return;
    }
    assert_non_null(found);
    assert_int_equal(found->bytes, best->bytes);
    uintptr_t base = (found->base + alignment - 1) & ~(alignment - 1);
    assert_true(base + bytes <= tnri_block_end(found));
}

static void a_large_run_behind_many_small_ones(void **state)
{
    (void)state;
    enum { SMALL = TNRI_INDEX_ALIGNED_LOOKS + 10 };
    static tnri_index index;
    static tnri_block runs[SMALL + 1];
    memset(&index, 0, sizeof(index));
    for (size_t i = 0; i <= SMALL; i++) {
        runs[i].base = 512;
        runs[i].bytes = i < SMALL ? 8192 : 16384;
        tnri_index_insert(&index, &runs[i]);
    }
    assert_ptr_equal(tnri_index_find_aligned(&index, 8192, 4096, SIZE_MAX), &runs[SMALL]);
    assert_null(tnri_index_find_aligned(&index, 8192, 16384, SIZE_MAX));
}

static void random_operations(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        static tnri_index index;
        static tnri_block runs[RUNS];
        memset(&index, 0, sizeof(index));
        memset(runs, 0, sizeof(runs));
        uint64_t random = seed;
        size_t count = 0;
        for (int step = 0; step < 20000; step++) {
            tnri_block *run = &runs[unit_below(&random, RUNS)];
            if (run->state == TNRI_FREE) {
                tnri_index_remove(&index, run);
                count--;
            } else {
                run->bytes = 512 * (1 + (size_t)(unit_random(&random) >>
                                                 (64 - 4 - unit_below(&random, seed * 6))));
                run->base = 512 * (uintptr_t)(unit_random(&random) >> 32);
                tnri_index_insert(&index, run);
                count++;
            }
            size_t wanted = 512 * (1 + (size_t)(unit_random(&random) >>
                                                (64 - 4 - unit_below(&random, seed * 6))));
            find_is_checked(&index, runs, wanted, SIZE_MAX);
            find_is_checked(&index, runs, wanted, wanted + unit_below(&random, wanted));
            if (step % 16 != 0)
                continue;
            size_t alignment = (size_t)1024 << unit_below(&random, 3 + seed * 4);
            find_aligned_is_checked(&index, runs, wanted, alignment, SIZE_MAX);
            find_aligned_is_checked(&index, runs, wanted, alignment, wanted * 2);
        }
        /* Every run is reached by a walk over the classes, in rising order, and only once. */
        unsigned class_index = 0;
        unsigned found;
        const tnri_block *run;
        while ((run = tnri_index_from(&index, class_index, &found)) != NULL) {
            assert_true(found >= class_index);
            for (; run != NULL; run = run->next) {
                assert_int_equal(tnri_index_class(run->bytes), found);
                count--;
            }
            class_index = found + 1;
        }
        assert_int_equal(count, 0);
    }
}

static void newest_first(void **state)
{
    (void)state;
    static tnri_index index;
    static tnri_block runs[3];
    memset(&index, 0, sizeof(index));
    for (size_t i = 0; i < 3; i++) {
        runs[i].bytes = 4096;
        runs[i].state = TNRI_FREE;
        tnri_index_insert(&index, &runs[i]);
    }
    assert_ptr_equal(tnri_index_find(&index, 4096, SIZE_MAX), &runs[2]);
    tnri_index_remove(&index, &runs[1]); /* from the middle */
    tnri_index_remove(&index, &runs[2]);
    assert_ptr_equal(tnri_index_find(&index, 4096, SIZE_MAX), &runs[0]);
    tnri_index_remove(&index, &runs[0]);
    assert_null(tnri_index_find(&index, 512, SIZE_MAX));
    assert_int_equal(index.summary, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_are_monotone_and_narrow),
        cmocka_unit_test(sizes_beyond_any_device_have_a_class),
        cmocka_unit_test(a_large_run_behind_many_small_ones),
        cmocka_unit_test(random_operations),
        cmocka_unit_test(newest_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
