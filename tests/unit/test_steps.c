/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roundup_power2_divisions: the list means what it means to PyTorch, and rounding never makes a
 * size smaller, never wastes more than the step, and gives the same result when repeated.
 *
 * In tnri_steps_round, `step - 1` replaced by 0 (rounding down): rounding_is_up_and_bounded failed.
 * In request_make (api/cached.c), without the gap, and in conf_publish, with a gate that the
 * setting does not open: blocks_lie_apart failed.
 */
#include "unit.h"

#include <string.h>

#include "base/conf/conf.h"

/* The divisions in force for sizes from so many MiB up, found by asking for the structure. */
static unsigned divisions_at(const tnri_steps *steps, size_t mib)
{
    unsigned interval = 0;
    while (mib >>= 1)
        interval++;
    return steps->divisions[interval];
}

/* PyTorch's own example. In steps_parse_list, `above = to` replaced by `above = interval`: the
 * entry of 2048 became 2 and this failed. */
static void the_list_of_pytorch(void **state)
{
    (void)state;
    tnri_steps steps;
    assert_int_equal(tnri_steps_parse(&steps, "[128:8,256:16,512:1,2048:8,>:2]"), 1);
    static const struct {
        size_t mib;
        unsigned divisions;
    } expected[] = {{1, 8},    {64, 8},   {128, 8},  {256, 16}, {512, 1},
                    {1024, 0}, {2048, 8}, {4096, 2}, {8192, 2}, {32768, 2}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        assert_int_equal(divisions_at(&steps, expected[i].mib), expected[i].divisions);
    assert_int_equal(steps.any, 1);
    /* Sizes below 1 MiB use the first entry, sizes of 32 GiB and more the last. */
    assert_int_equal(tnri_steps_round(&steps, 600 * KIB), 640 * KIB);
    assert_int_equal(tnri_steps_round(&steps, 33 * GIB), 48 * GIB);
    assert_int_equal(tnri_steps_round(&steps, 100 * GIB), 128 * GIB);
}

static void one_number_and_off(void **state)
{
    (void)state;
    tnri_steps steps;
    assert_int_equal(tnri_steps_parse(&steps, "4"), 1);
    for (size_t i = 0; i < TNRI_STEPS_COUNT; i++)
        assert_int_equal(steps.divisions[i], 4);
    assert_int_equal(tnri_steps_round(&steps, 1200 * KIB), 1280 * KIB); /* PyTorch's example */
    assert_int_equal(tnri_steps_round(&steps, 1024 * KIB), 1024 * KIB);
    assert_int_equal(tnri_steps_round(&steps, 1025 * KIB), 1280 * KIB);
    assert_int_equal(tnri_steps_round(&steps, 2047 * KIB), 2048 * KIB);
    assert_int_equal(tnri_steps_round(&steps, 512 * 4), 512 * 4); /* too small to be divided */
    assert_int_equal(tnri_steps_round(&steps, 100), 100);
    for (size_t i = 0; i < 3; i++) {
        static const char *const none[] = {"off", "0", "1"};
        assert_int_equal(tnri_steps_parse(&steps, none[i]), 1);
        assert_int_equal(steps.any, 0);
        assert_int_equal(tnri_steps_round(&steps, 1200 * KIB), 1200 * KIB);
    }
    assert_int_equal(tnri_steps_parse(&steps, "[>:8]"), 1);
    assert_int_equal(steps.divisions[0], 8);
    assert_int_equal(steps.divisions[TNRI_STEPS_COUNT - 1], 8);
}

static void rounding_is_up_and_bounded(void **state)
{
    (void)state;
    uint64_t random = 11;
    for (int round = 0; round < 20000; round++) {
        tnri_steps steps = {{0}, 1};
        unsigned divisions = 1u << unit_below(&random, 7);
        for (size_t i = 0; i < TNRI_STEPS_COUNT; i++)
            steps.divisions[i] = divisions;
        size_t bytes = 1 + (size_t)(unit_random(&random) >> (4 + unit_below(&random, 56)));
        size_t rounded = tnri_steps_round(&steps, bytes);
        assert_true(rounded >= bytes);
        if (divisions > 1)
            assert_true(rounded - bytes <= bytes / divisions);
        else
            assert_int_equal(rounded, bytes);
        assert_int_equal(tnri_steps_round(&steps, rounded), rounded);
    }
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "[",
                                      "]",
                                      "[]",
                                      "x",
                                      "-4",
                                      "+4",
                                      " 4",
                                      "4 ",
                                      "5",
                                      "128",
                                      "[1:8",
                                      "[1:8]]",
                                      "[1:8]x",
                                      "[1:]",
                                      "[:8]",
                                      "[0:8]",
                                      "[3:8]",
                                      "[1:7]",
                                      "[1:8,,2:8]",
                                      "[1-8]",
                                      "[>]",
                                      "[>:]",
                                      "[>:3]",
                                      "[1:128]",
                                      "OFF",
                                      "1:8",
                                      "[65536:8]",
                                      "[1:8,",
                                      "[-1:8]",
                                      "[99999999999999999999:8]",
                                      "99999999999999999999999"};
    tnri_steps steps;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (tnri_steps_parse(&steps, bad[i]) != 0)
            fail_msg("\"%s\" was accepted", bad[i]);
}

/* What is printed reads back as the same. */
static void print_and_parse(void **state)
{
    (void)state;
    uint64_t random = 5;
    for (int round = 0; round < 500; round++) {
        tnri_steps steps = {{0}, 0};
        tnri_steps again;
        char text[512];
        int equal = unit_below(&random, 4) == 0;
        for (size_t i = 0; i < TNRI_STEPS_COUNT; i++) {
            steps.divisions[i] = equal && i > 0 ? steps.divisions[0]
                                                : (uint32_t)((1u << unit_below(&random, 8)) & 0x7e);
            steps.any |= steps.divisions[i] > 1;
        }
        tnri_steps_print(&steps, text, sizeof(text));
        assert_int_equal(tnri_steps_parse(&again, text), 1);
        for (size_t bytes = 512; bytes < 64 * GIB; bytes += bytes / 3)
            assert_int_equal(tnri_steps_round(&steps, bytes), tnri_steps_round(&again, bytes));
    }
}

/* Through the allocator: the block has the rounded size, the statistics the asked one. */
static void blocks_are_rounded(void **state)
{
    (void)state;
    unit_start("roundup_power2_divisions:4", NULL);
    void *ptr = unit_malloc(1200 * KIB, NULL);
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, ptr));
    assert_int_equal(info.bytes, 1280 * KIB);
    assert_int_equal(info.bytes_requested, 1200 * KIB);
    assert_int_equal(unit_stats().bytes_slack, 80 * KIB);
    assert_ok(tnr_free(ptr));
}

/* apart: no two blocks touch, whatever their sizes, freed and taken again; and the setting may
 * change. */
static void blocks_lie_apart(void **state)
{
    enum { COUNT = 64 };
    char *blocks[COUNT];
    size_t bytes[COUNT];
    (void)state;
    unit_start("apart:on", NULL);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) {
            bytes[i] = i % 3 == 0 ? 512 : i % 3 == 1 ? 1000 : 2 * MIB;
            blocks[i] = unit_malloc(bytes[i], NULL);
        }
        for (int i = 0; i < COUNT; i++)
            for (int k = 0; k < COUNT; k++)
                assert_true(i == k || blocks[k] < blocks[i] ||
                            blocks[k] >= blocks[i] + bytes[i] + TNR_ALIGNMENT_DEFAULT);
        for (int i = 0; i < COUNT; i++)
            assert_ok(tnr_free(blocks[i]));
    }
    assert_ok(tnr_configure("apart:off"));
    blocks[0] = unit_malloc(512, NULL);
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, blocks[0]));
    assert_int_equal(info.bytes, 512);
    assert_ok(tnr_free(blocks[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_of_pytorch),
        cmocka_unit_test(one_number_and_off),
        cmocka_unit_test(rounding_is_up_and_bounded),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(print_and_parse),
        cmocka_unit_test_teardown(blocks_are_rounded, unit_stop),
        cmocka_unit_test_teardown(blocks_lie_apart, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
