/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The history when there is no room left: for texts, for places, for threads, for the word by which
 * a thread's end is noticed. Records without room are counted as missed, older ones stay, and the
 * program goes on.
 *
 * Lines changed in the library to see it fail: text_add without the test of TEXT_LEAVES (texts);
 * origin_enter without has_room (places: a crash); tnri_writer_take without its count of what was
 * missed (more_threads_than_pages, a_thread_whose_end_cannot_be_noticed).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "unit/unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <tenure/history.h>

#include "memory/arena/note.h"
#include "log/origins.h"
#include "log/ring.h"
#include "log/texts.h"

static int ends_are_refused; /* pthread_setspecific fails */

int pthread_setspecific(pthread_key_t key, const void *value)
{
    if (ends_are_refused)
        return ENOMEM;
    return ((__typeof__(&pthread_setspecific))(uintptr_t)dlsym(RTLD_NEXT, "pthread_setspecific"))(
        key, value);
}

static tnr_history_info info_get(void)
{
    tnr_history_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_history_get(&info));
    return info;
}

static void texts(void **state)
{
    (void)state;
    char text[16];
    uint32_t last = 0, count = 0;
    int no_host = 0;
    unit_start("history:light", NULL);
    do {
        snprintf(text, sizeof(text), "t%07u", (unsigned)count++);
        uint32_t number = tnri_text_number(text, &no_host);
        assert_true(no_host ? number == 0 : number == last + 1);
        last += !no_host;
    } while (!no_host && count < 1000000);
    assert_true(no_host);
    assert_int_equal(last, tnri_texts_count());
    assert_true(last > 200000);
    assert_string_equal(tnri_text_of(last), "t0262142");
    assert_string_equal(tnri_text_of(1), "t0000000");
    assert_int_equal(tnri_text_number("t0001000", NULL), 1001); /* those that are there are found */
    assert_int_equal(tnri_text_number("another", NULL), 0);
    assert_string_equal(tnri_text_of(0), "");
    assert_string_equal(tnri_text_of(last + 1), "");
    assert_error(tnr_mark("another"), TNR_ERR_HOST_MEMORY, "tnr_mark");
    assert_ok(tnr_mark("t0001000"));
}

static void places(void **state)
{
    (void)state;
    tnri_origin origin = {.device = 0, .pool = 7, .has_no_stream = 1}, found;
    unit_start("history:light", NULL);
    (void)unit_malloc(512, NULL);
    uint32_t first = tnri_origin_add(&origin, NULL), last = first, number;
    assert_true(first > 0);
    while ((number = tnri_origin_add(&origin, NULL)) != 0) {
        assert_int_equal(number, last + 1);
        last = number;
    }
    assert_int_equal(last, tnri_origins_count());
    assert_true(tnri_origin_get(last, &found));
    assert_int_equal(found.pool, 7);
    assert_false(tnri_origin_get(0, &found));
    assert_false(tnri_origin_get(last + 1, &found));
    uint64_t gone = tnri_origins_gone();
    tnri_origin_end(last + 1); /* of a start before, say */
    tnri_origin_gone(last + 1);
    tnri_origin_end(0);
    tnri_origin_gone(0);
    assert_int_equal(tnri_origins_gone(), gone);
    origin.thread = 3;
    assert_int_equal(tnri_origin_find(&origin, NULL), 0); /* one like it is not there */
    origin.thread = 0;
    assert_int_equal(tnri_origin_find(&origin, NULL), last);
    void *block = unit_malloc(512, unit_stream(0)); /* in a place that cannot be written down */
    assert_ok(tnr_free(block));
    assert_ok(tnr_validate(-1));
}

/* ---- threads -------------------------------------------------------------------------------- */

enum { THREADS = TNRI_RING_PAGES_MIN + 8 };

static _Atomic int may_go, are_done;

static void *pair(void *user)
{
    void *ptr;
    int is_ok = tnr_malloc(&ptr, 512, 0, NULL) == TNR_OK && tnr_free(ptr) == TNR_OK;
    atomic_fetch_add(&are_done, 1);
    while (user != NULL && !atomic_load(&may_go))
        sched_yield();
    return is_ok ? NULL : (void *)"a call failed";
}

/* Each thread that stays holds a page; those that come when none is left are not heard. */
static void more_threads_than_pages(void **state)
{
    (void)state;
    static pthread_t threads[THREADS];
    void *broken;
    unit_start("history:light,history_records:1", NULL);
    assert_int_equal(info_get().records_max, TNRI_RING_PAGES_MIN * TNRI_PAGE_RECORDS);
    atomic_store(&may_go, 0);
    atomic_store(&are_done, 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, pair, threads), 0);
        while (atomic_load(&are_done) <= i)
            sched_yield();
    }
    tnr_history_info info = info_get();
    assert_true(info.missed >= 2 * (THREADS - TNRI_RING_PAGES_MIN));
    assert_int_equal(info.missed + info.written, 2 * THREADS + 2);
    atomic_store(&may_go, 1);
    for (int i = 0; i < THREADS; i++) {
        int next = i % 2 == 0 ? i / 2 : THREADS - 1 - i / 2; /* in no order */
        assert_int_equal(pthread_join(threads[next], &broken), 0);
        assert_null(broken);
    }
    assert_null(pair(NULL)); /* there are pages again */
    assert_int_equal(info_get().missed, info.missed);
    assert_int_equal(info_get().written, info.written + 2);
}

static void a_thread_whose_end_cannot_be_noticed(void **state)
{
    (void)state;
    pthread_t thread;
    void *broken;
    unit_start("history:light", NULL);
    assert_null(pair(NULL));
    tnr_history_info before = info_get();
    ends_are_refused = 1;
    assert_int_equal(pthread_create(&thread, NULL, pair, NULL), 0);
    assert_int_equal(pthread_join(thread, &broken), 0);
    ends_are_refused = 0;
    assert_null(broken);
    assert_int_equal(info_get().missed, before.missed + 2);
    assert_int_equal(info_get().written, before.written);
}

static void words_for_all_and_no_more(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < TNRI_NOTED_COUNT; kind++)
        assert_string_not_equal(tnri_kind_text(kind), "?");
    assert_string_equal(tnri_kind_text(TNRI_NOTED_COUNT), "?");
    assert_string_equal(tnri_why_text(TNRI_WHY_COUNT), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(texts, unit_stop),
        cmocka_unit_test_teardown(places, unit_stop),
        cmocka_unit_test_teardown(more_threads_than_pages, unit_stop),
        cmocka_unit_test_teardown(a_thread_whose_end_cannot_be_noticed, unit_stop),
        cmocka_unit_test(words_for_all_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
