/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The history: what is recorded, how much of it is kept, and that it can be switched at any time.
 *
 * Lines changed in the library to see it fail:
 *   tnri_note_served in arena_malloc: no records of allocations
 *   ring->overwritten in page_take: the sums
 *   writer_give_up in writer_end: pages of threads that are gone are never given again, and records
 *     are missed
 */
#include "unit/unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/history.h>

#include "base/host_memory.h"
#include "log/ring.h"
#include "log/texts.h"

static tnr_history_info info_get(void)
{
    tnr_history_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_history_get(&info));
    return info;
}

/* How many records of a kind there are now. */
static size_t kind_count(tnri_kind kind, tnri_recorded *last)
{
    tnri_ring_copy copy;
    size_t count = 0;
    assert_true(tnri_ring_read(&copy));
    for (size_t i = 0; i < copy.count; i++) {
        if (copy.records[i].kind != (uint8_t)kind)
            continue;
        count++;
        if (last != NULL)
            *last = copy.records[i];
    }
    tnri_ring_copy_free(&copy);
    return count;
}

static void pairs(size_t count, size_t bytes)
{
    for (size_t i = 0; i < count; i++) {
        void *ptr;
        assert_ok(tnr_malloc(&ptr, bytes, 0, NULL));
        assert_ok(tnr_free(ptr));
    }
}

static void off_records_nothing(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    pairs(10, 4096);
    assert_ok(tnr_mark("nobody hears it"));
    tnr_history_info info = info_get();
    assert_int_equal(info.mode, TNR_HISTORY_OFF);
    assert_int_equal(info.records_max, 0);
    assert_int_equal(info.written, 0);
}

static void light_records_each_operation(void **state)
{
    (void)state;
    unit_start("history:light", NULL);
    pairs(100, 4096);
    tnri_recorded last;
    assert_int_equal(kind_count(TNRI_NOTED_ALLOC, &last), 100);
    assert_int_equal(last.bytes, 4096);
    assert_int_equal(last.stack, 0);
    assert_int_equal(kind_count(TNRI_NOTED_FREE, NULL), 100);
    assert_int_equal(kind_count(TNRI_NOTED_MAP, NULL), 1);
    assert_int_equal(kind_count(TNRI_NOTED_POOL_MADE, NULL), 1);
    assert_int_equal(info_get().written, 202);
    assert_int_equal(info_get().missed, 0);
}

static void full_takes_stacks(void **state)
{
    (void)state;
    unit_start("history:full", NULL);
    tnri_recorded one, other;
    pairs(1, 512);
    assert_int_equal(kind_count(TNRI_NOTED_ALLOC, &one), 1);
    assert_true(one.stack > 0);
    uint64_t stacks = info_get().stacks;
    pairs(50, 512); /* a second call site: two more stacks, however often it is passed */
    assert_int_equal(kind_count(TNRI_NOTED_ALLOC, &other), 51);
    assert_true(other.stack != one.stack);
    assert_in_range(info_get().stacks, stacks + 1, stacks + 2);
    assert_int_equal(info_get().stacks_missed, 0);
    assert_ok(tnr_history_set(0, TNR_HISTORY_LIGHT));
    pairs(1, 512);
    assert_int_equal(kind_count(TNRI_NOTED_ALLOC, &other), 52);
    assert_int_equal(other.stack, 0);
}

static void overwritten_records_are_counted(void **state)
{
    (void)state;
    unit_start("history:light,history_records:1", NULL);
    tnr_history_info info = info_get();
    size_t room = TNRI_RING_PAGES_MIN * TNRI_PAGE_RECORDS;
    assert_int_equal(info.records_max, room);
    pairs(room, 512);
    info = info_get();
    assert_int_equal(info.written, 2 * room + 2);
    assert_int_equal(info.missed, 0);
    assert_true(info.overwritten >= room);
    tnri_ring_copy copy;
    assert_true(tnri_ring_read(&copy));
    assert_int_equal(copy.count + copy.overwritten, info.written);
    assert_true(copy.lost_ticks > 0);
    tnri_ring_copy_free(&copy);
}

static void switched_at_run_time(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    pairs(5, 512);
    assert_ok(tnr_history_set(20000, TNR_HISTORY_LIGHT));
    pairs(5, 512);
    uint64_t max = info_get().records_max;
    assert_true(max >= 20000);
    assert_int_equal(info_get().written, 10);
    assert_ok(tnr_configure("history:off"));
    pairs(5, 512);
    assert_int_equal(info_get().written, 10); /* kept, and no more */
    assert_int_equal(info_get().records_max, max);
    assert_ok(tnr_history_set(50000, TNR_HISTORY_LIGHT));
    assert_int_equal(info_get().written, 0); /* another ring */
    pairs(5, 512);
    assert_int_equal(info_get().written, 10);
    tnr_setting_info setting = {.struct_bytes = sizeof(setting)};
    size_t found = 0;
    for (size_t i = 0; tnr_setting_get(&setting, i) == TNR_OK; i++)
        if (strcmp(setting.key, "history_records") == 0) {
            assert_string_equal(setting.value, "50000");
            found++;
        }
    assert_int_equal(found, 1);
}

static void marks_are_stamped(void **state)
{
    (void)state;
    unit_start("history:light", NULL);
    tnri_recorded last;
    assert_ok(tnr_mark("step 1"));
    pairs(1, 512);
    kind_count(TNRI_NOTED_ALLOC, &last);
    assert_string_equal(tnri_text_of(last.mark), "step 1");
    kind_count(TNRI_NOTED_MARK, &last);
    assert_string_equal(tnri_text_of(last.mark), "step 1");
    uint32_t number = last.mark;
    assert_ok(tnr_mark(NULL));
    pairs(1, 512);
    kind_count(TNRI_NOTED_FREE, &last);
    assert_int_equal(last.mark, 0);
    assert_ok(tnr_mark("step 1"));
    kind_count(TNRI_NOTED_MARK, &last);
    assert_int_equal(last.mark, number); /* the same text once */
    static char longest[5000];
    memset(longest, 'x', sizeof(longest) - 1);
    assert_ok(tnr_mark(longest));
    kind_count(TNRI_NOTED_MARK, &last);
    assert_int_equal(strlen(tnri_text_of(last.mark)), TNRI_TEXT_BYTES_MAX);
    /* Another start knows nothing of it. */
    assert_ok(tnr_shutdown(1));
    assert_ok(tnr_configure("history:light"));
    pairs(1, 512);
    kind_count(TNRI_NOTED_ALLOC, &last);
    assert_int_equal(last.mark, 0);
}

static void arguments_are_checked(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    assert_error(tnr_history_set(0, (tnr_history_mode)3), TNR_ERR_INVALID_ARGUMENT, "no mode 3");
    assert_error(tnr_history_set(SIZE_MAX, TNR_HISTORY_LIGHT), TNR_ERR_INVALID_ARGUMENT,
                 "too many");
    tnr_history_info info = {.struct_bytes = 1};
    assert_error(tnr_history_get(&info), TNR_ERR_INVALID_ARGUMENT, "struct_bytes");
    assert_error(tnr_history_get(NULL), TNR_ERR_INVALID_ARGUMENT, "struct_bytes");
}

static void no_host_memory_changes_nothing(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    pairs(1, 512);
    for (uint64_t nth = 1; nth <= 2; nth++) {
        tnri_host_fail_at(nth + 1, 1); /* the first is that of the settings */
        tnr_status status = tnr_history_set(30000, TNR_HISTORY_LIGHT);
        assert_true(tnri_host_fail_at(0, 0) > 0);
        assert_int_equal(status, TNR_ERR_HOST_MEMORY);
        assert_int_equal(info_get().mode, TNR_HISTORY_OFF);
        assert_int_equal(info_get().records_max, 0);
    }
    assert_ok(tnr_history_set(30000, TNR_HISTORY_FULL));
    /* Neither a place nor a stack can be kept: operations go on all the same. */
    tnri_host_fail_at(1, 1);
    void *ptr;
    tnr_status status = tnr_malloc(&ptr, 512, 0, NULL);
    tnri_host_fail_at(0, 0);
    assert_int_equal(status, TNR_OK);
    assert_ok(tnr_free(ptr));
    assert_true(info_get().stacks_missed > 0);
    tnri_host_fail_at(1, 1);
    status = tnr_mark("cannot be kept");
    tnri_host_fail_at(0, 0);
    assert_error(status, TNR_ERR_HOST_MEMORY, "tnr_mark");
}

/* ---- threads -------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 3000 };

static void *thread_pairs(void *data)
{
    tnr_stream stream = data;
    for (int i = 0; i < ROUNDS; i++) {
        void *ptr;
        if (tnr_malloc(&ptr, (size_t)(1 + i % 8) * 512, 0, stream) != TNR_OK ||
            tnr_free(ptr) != TNR_OK)
            return (void *)"a call failed";
    }
    return NULL;
}

static void run_threads(tnr_stream *streams)
{
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, thread_pairs, streams[t]), 0);
    for (int t = 0; t < THREADS; t++) {
        void *broken;
        pthread_join(threads[t], &broken);
        assert_null(broken);
    }
}

static void threads_write_side_by_side(void **state)
{
    (void)state;
    unit_start("history:light,history_records:100000", NULL);
    tnr_stream streams[THREADS];
    for (int t = 0; t < THREADS; t++)
        streams[t] = unit_stream(0);
    run_threads(streams);
    assert_int_equal(kind_count(TNRI_NOTED_ALLOC, NULL), THREADS * ROUNDS);
    assert_int_equal(kind_count(TNRI_NOTED_FREE, NULL), THREADS * ROUNDS);
    assert_int_equal(info_get().missed, 0);
    assert_int_equal(info_get().overwritten, 0);
}

/* Each thread takes a page; if those that end did not give theirs up, there would soon be none. */
static void threads_that_end_give_their_page_up(void **state)
{
    (void)state;
    unit_start("history:light,history_records:1", NULL);
    tnr_stream stream = unit_stream(0);
    for (int i = 0; i < 3 * TNRI_RING_PAGES_MIN; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, thread_pairs, stream), 0);
        pthread_join(thread, NULL);
    }
    assert_int_equal(info_get().missed, 0);
}

static _Atomic int is_over;

static void *thread_read(void *data)
{
    (void)data;
    while (!atomic_load(&is_over)) {
        tnri_ring_copy copy;
        if (!tnri_ring_read(&copy))
            return (void *)"no host memory";
        for (size_t i = 0; i < copy.count; i++) {
            const tnri_recorded *record = &copy.records[i];
            /* Half a record, or one of two, would have a kind or sizes that nobody wrote. */
            int is_whole = record->kind < TNRI_NOTED_COUNT && record->thread > 0 &&
                           record->requested == record->bytes;
            if (!is_whole && record->kind != TNRI_NOTED_POOL_MADE)
                return (void *)"a record is torn";
        }
        tnri_ring_copy_free(&copy);
    }
    return NULL;
}

static void reading_never_sees_half_a_record(void **state)
{
    (void)state;
    unit_start("history:light,history_records:1", NULL);
    tnr_stream streams[THREADS];
    for (int t = 0; t < THREADS; t++)
        streams[t] = unit_stream(0);
    atomic_store(&is_over, 0);
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, thread_read, NULL), 0);
    for (int i = 0; i < 3; i++)
        run_threads(streams);
    atomic_store(&is_over, 1);
    void *broken;
    pthread_join(reader, &broken);
    assert_null(broken);
}

static void *thread_switch(void *data)
{
    (void)data;
    static const size_t sizes[] = {20000, 40000, 60000};
    for (unsigned i = 0; !atomic_load(&is_over); i++)
        if (tnr_history_set(sizes[i / 3 % 3], (tnr_history_mode)(i % 3)) != TNR_OK)
            return (void *)"tnr_history_set failed";
    return NULL;
}

static void switched_under_running_threads(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_stream streams[THREADS];
    for (int t = 0; t < THREADS; t++)
        streams[t] = unit_stream(0);
    atomic_store(&is_over, 0);
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, thread_switch, NULL), 0);
    run_threads(streams);
    atomic_store(&is_over, 1);
    void *broken;
    pthread_join(other, &broken);
    assert_null(broken);
}

/* ---- host memory that lacks ----------------------------------------------------------------- */

/* A bit of all that is recorded, by a thread of its own. Not null: a call failed otherwise than for
 * lack of host memory. */
static void *record_all(void *stream)
{
    void *ptr = NULL;
    tnr_pool pool = NULL;
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.name = "recorded";
    tnr_status status = tnr_malloc(&ptr, 3 * MIB, 0, stream);
    if (status == TNR_OK)
        status = tnr_free(ptr);
    if (status == TNR_OK)
        status = tnr_mark("a mark");
    if (status == TNR_OK)
        status = tnr_pool_create(&pool, 0, &options);
    if (status == TNR_OK)
        status = tnr_pool_malloc(&ptr, pool, 5000, 0, stream);
    if (status == TNR_OK)
        status = tnr_free(ptr);
    if (status == TNR_OK)
        status = tnr_pool_destroy(pool); /* the fixture ends it otherwise */
    return status == TNR_OK || status == TNR_ERR_HOST_MEMORY ? NULL : "a call failed otherwise";
}

/* A record that there is no room for is missed; memory is handed out all the same, or not. */
static void any_host_allocation_may_fail(void **state)
{
    (void)state;
    for (int is_sticky = 0; is_sticky < 2; is_sticky++)
        for (uint64_t nth = 1, failed = 1; failed > 0; nth++) {
            pthread_t thread;
            void *broken;
            unit_start(NULL, NULL);
            tnr_stream stream = unit_stream(0);
            tnri_host_fail_at(nth, is_sticky);
            tnr_status status = tnr_history_set(8, TNR_HISTORY_FULL);
            assert_true(status == TNR_OK || status == TNR_ERR_HOST_MEMORY);
            assert_int_equal(pthread_create(&thread, NULL, record_all, stream), 0);
            assert_int_equal(pthread_join(thread, &broken), 0);
            failed = tnri_host_fail_at(0, 0);
            if (broken != NULL)
                fail_msg("allocation %d: %s", (int)nth, (const char *)broken);
            assert_ok(tnr_validate(-1));
            assert_int_equal(unit_stats().bytes_live, 0);
            tnri_ring_copy copy;
            assert_true(tnri_ring_read(&copy)); /* what is there can be read */
            tnri_ring_copy_free(&copy);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(off_records_nothing, unit_stop),
        cmocka_unit_test_teardown(light_records_each_operation, unit_stop),
        cmocka_unit_test_teardown(full_takes_stacks, unit_stop),
        cmocka_unit_test_teardown(overwritten_records_are_counted, unit_stop),
        cmocka_unit_test_teardown(switched_at_run_time, unit_stop),
        cmocka_unit_test_teardown(marks_are_stamped, unit_stop),
        cmocka_unit_test_teardown(arguments_are_checked, unit_stop),
        cmocka_unit_test_teardown(no_host_memory_changes_nothing, unit_stop),
        cmocka_unit_test_teardown(any_host_allocation_may_fail, unit_stop),
        cmocka_unit_test_teardown(threads_write_side_by_side, unit_stop),
        cmocka_unit_test_teardown(threads_that_end_give_their_page_up, unit_stop),
        cmocka_unit_test_teardown(reading_never_sees_half_a_record, unit_stop),
        cmocka_unit_test_teardown(switched_under_running_threads, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
