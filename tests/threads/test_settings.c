/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads ask for the settings before anything was set or started, and one of them starts the
 * library: all are told what is in force.
 *
 * Seen to fail under ThreadSanitizer with defaults_store called in place of defaults_fill.
 */
#include "unit/unit.h"

#include <pthread.h>
#include <string.h>

enum { THREADS = 4 };
static pthread_barrier_t together;

static void *asks(void *starts)
{
    tnr_setting_info info = {.struct_bytes = sizeof(info)};
    size_t count = 0, right = 0;
    (void)pthread_barrier_wait(&together);
    if (starts != NULL && tnr_init() != TNR_OK)
        return NULL;
    while (tnr_setting_get(&info, count) == TNR_OK) {
        count++;
        right += info.is_set || strcmp(info.value, info.default_value) == 0;
    }
    return count > 0 && right == count ? &together : NULL;
}

static void all_ask_first(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    assert_int_equal(pthread_barrier_init(&together, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, asks, i == 0 ? &together : NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        void *is_right;
        assert_int_equal(pthread_join(threads[i], &is_right), 0);
        assert_non_null(is_right);
    }
    assert_int_equal(pthread_barrier_destroy(&together), 0);
    assert_ok(tnr_shutdown(1));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(all_ask_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
