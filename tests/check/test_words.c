/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of structures (tools/check/words.c), by themselves: what is believed of words that were
 * all there before. Each history is of a parameter with a size of its own, as all those of one size
 * share what was there.
 *
 * Taken out of are_as_before, each by itself, and seen to fail: whether a word leads to a live
 * block, where it lies, how many there are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "check/rules.h"
#include "check/words.h"

int check_is_live(CUdeviceptr address)
{
    (void)address;
    return 0;
}

enum { LAUNCHES = 9 }; /* at the last of them a word is believed that was new each time */

/* One launch: so many words, from a place on, that lead to blocks from that address on. Returns
 * whether the first is certain. */
static int launch(check_words **history, size_t bytes, CUdeviceptr address, size_t count,
                  uint32_t at, int is_live)
{
    check_held held[4];
    for (size_t i = 0; i < count; i++)
        held[i] = (check_held){.address = address + i * 4096,
                               .at = at + (uint32_t)i * 8,
                               .is_live = is_live,
                               .is_alone = 1,
                               .is_certain = 1};
    int are_old = check_words_were_there(bytes, held, count);
    (void)check_words_judge(history, bytes, held, count, are_old);
    return held[0].is_certain;
}

/* The history of a parameter whose first word is believed by now; it had these addresses. */
static CUdeviceptr believed_make(check_words **history, size_t bytes)
{
    CUdeviceptr address = (CUdeviceptr)bytes << 32;
    for (int i = 1; i <= LAUNCHES; i++)
        assert_int_equal(launch(history, bytes, address += 1 << 20, 1, 0, 1), i == LAUNCHES);
    return address;
}

static void test_words_that_were_there_change_nothing(void **state)
{
    check_words *history = NULL;
    CUdeviceptr last = believed_make(&history, 24);
    (void)state;
    assert_false(launch(&history, 24, last, 1, 0, 1));
    assert_true(check_words_may_be(history));
    assert_true(launch(&history, 24, last + (1 << 20), 1, 0, 1));
    check_words_end(history);
}

static void test_a_word_that_leads_to_freed_memory_ends_it(void **state)
{
    check_words *history = NULL;
    CUdeviceptr last = believed_make(&history, 32);
    (void)state;
    assert_false(launch(&history, 32, last, 1, 0, 0));
    assert_false(check_words_may_be(history));
    check_words_end(history);
}

/* The words were there in another parameter of that size. */
static void test_words_of_other_places_end_it(void **state)
{
    check_words *history = NULL, *other = NULL;
    CUdeviceptr last = believed_make(&history, 40) + (1 << 20);
    (void)state;
    (void)launch(&other, 40, last, 1, 16, 1);
    assert_false(launch(&history, 40, last, 1, 16, 1));
    assert_false(check_words_may_be(history));
    check_words_end(history);
    check_words_end(other);
}

static void test_more_words_or_fewer_end_it(void **state)
{
    check_words *history = NULL, *fewer = NULL, *more = NULL;
    CUdeviceptr last = believed_make(&history, 48) + (1 << 20);
    (void)state;
    (void)launch(&fewer, 48, last, 1, 0, 1);
    (void)launch(&more, 48, last, 2, 0, 1);
    assert_false(launch(&more, 48, last, 1, 0, 1));
    assert_false(check_words_may_be(more));
    assert_false(launch(&history, 48, last, 2, 0, 1));
    assert_false(check_words_may_be(history));
    check_words_end(history);
    check_words_end(fewer);
    check_words_end(more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_that_were_there_change_nothing),
        cmocka_unit_test(test_a_word_that_leads_to_freed_memory_ends_it),
        cmocka_unit_test(test_words_of_other_places_end_it),
        cmocka_unit_test(test_more_words_or_fewer_end_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
