/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statuses and the thread's last error. Every status has its own number, name and text. An invalid
 * number does no harm. Each thread has its own sentence, and the driver's code beside it. A
 * sentence that is made only when it is read is the same as one that was made at once.
 *
 * Changed in alloc/base/error.c to see it fail, each by itself: in tnri_error, `driver_result = 0`
 * removed (the_driver_s_code_is_beside_it); in tnri_error_at the same, or in tnri_error,
 * tnri_error_driver, tnri_error_restore `format = NULL` removed, or text_made replaced by the text
 * where it is read, taken aside or added to (a_sentence_is_made_when_it_is_read).
 */
#include "unit.h"

#include <pthread.h>
#include <string.h>

#include "base/error.h"

static void names_texts_and_numbers(void **state)
{
    (void)state;
    static const struct {
        tnr_status status;
        int number;
        const char *name;
    } list[] = {
#define ROW(name, number, text) {TNR_##name, number, "TNR_" #name},
        TNR_STATUS_LIST(ROW)
#undef ROW
    };
    size_t count = sizeof(list) / sizeof(list[0]);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal((int)list[i].status, list[i].number);
        assert_string_equal(tnr_status_name(list[i].status), list[i].name);
        assert_true(strlen(tnr_status_text(list[i].status)) > 5);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(list[i].number, list[j].number);
            assert_string_not_equal(tnr_status_text(list[i].status),
                                    tnr_status_text(list[j].status));
        }
    }
    /* The ABI: these never change. */
    assert_int_equal(TNR_OK, 0);
    assert_int_equal(TNR_ERR_OUT_OF_MEMORY, 9);
    assert_int_equal(TNR_ERR_INTERNAL, 22);
    assert_string_equal(tnr_status_name((tnr_status)-1), "TNR_ERR_?");
    assert_string_equal(tnr_status_name((tnr_status)12345), "TNR_ERR_?");
    assert_true(strlen(tnr_status_text((tnr_status)12345)) > 5);
}

static void *other_thread(void *user)
{
    (void)user;
    assert_string_equal(tnr_last_error(), "");
    assert_int_equal(tnr_last_driver_result(), 0);
    (void)tnri_error(TNR_ERR_BUSY, "of the other thread");
    return NULL;
}

static void each_thread_has_its_own(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(tnri_error(TNR_ERR_CONFIG, "%s %d", "of this thread", 1), TNR_ERR_CONFIG);
    assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(tnr_last_error(), "of this thread 1");
}

static void the_driver_s_code_is_beside_it(void **state)
{
    (void)state;
    assert_int_equal(tnri_error_driver(TNR_ERR_DRIVER, 719, "broken"), TNR_ERR_DRIVER);
    assert_int_equal(tnr_last_driver_result(), 719);
    (void)tnri_error(TNR_ERR_BUSY, "no driver involved");
    assert_int_equal(tnr_last_driver_result(), 0);
}

static void long_texts_are_cut(void **state)
{
    (void)state;
    static char words[9000];
    memset(words, 'w', sizeof(words) - 1);
    (void)tnri_error(TNR_ERR_BUSY, "%s", words);
    size_t length = strlen(tnr_last_error());
    assert_true(length > 1000 && length < sizeof(words));
    tnri_error_append("%s", words);
    assert_int_equal(strlen(tnr_last_error()), length);
    (void)tnri_error(TNR_ERR_BUSY, "one");
    tnri_error_append(", two");
    assert_string_equal(tnr_last_error(), "one, two");
}

static tnr_status error_at(int device)
{
    return tnri_error_at(TNR_ERR_NOT_LIVE, "%p on %d", (void *)(uintptr_t)0x1000, device);
}

static void a_sentence_is_made_when_it_is_read(void **state)
{
    (void)state;
    tnri_error_aside aside;
    (void)tnri_error_driver(TNR_ERR_DRIVER, 719, "before");
    assert_int_equal(error_at(1), TNR_ERR_NOT_LIVE);
    assert_int_equal(tnr_last_driver_result(), 0);
    assert_string_equal(tnr_last_error(), "0x1000 on 1");
    assert_string_equal(tnr_last_error(), "0x1000 on 1");
    /* Another one comes before it is read. */
    (void)error_at(2);
    (void)tnri_error(TNR_ERR_BUSY, "after");
    assert_string_equal(tnr_last_error(), "after");
    (void)error_at(2);
    (void)tnri_error_driver(TNR_ERR_DRIVER, 719, "of the driver");
    assert_string_equal(tnr_last_error(), "of the driver");
    (void)error_at(3);
    (void)error_at(4);
    tnri_error_append(", more");
    assert_string_equal(tnr_last_error(), "0x1000 on 4, more");
    (void)error_at(5);
    tnri_error_take(&aside);
    (void)error_at(6);
    tnri_error_restore(&aside);
    assert_string_equal(tnr_last_error(), "0x1000 on 5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_texts_and_numbers),
        cmocka_unit_test(each_thread_has_its_own),
        cmocka_unit_test(the_driver_s_code_is_beside_it),
        cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(a_sentence_is_made_when_it_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
