/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics: the equations of the header hold after every call, counters are exact, and the JSON
 * says the same. (unit_stats checks guarantee 2 each time that it is called.)
 *
 * In tnri_live_subtract (count.h), a room of requested bytes left out: counters_are_exact failed.
 * tnri_chunk_enter left out in sources_settle (execute.c): chunks_by_size failed, by tnr_validate.
 * bytes in tnri_stats_hand made sizeof(*to): a_struct_of_1_0 failed. idle_bytes left out in
 * stats_add_arena: chunks_by_size failed. In host_memory.c, a change not counted where memory is
 * allocated, or where it is freed: metadata_is_counted_at_once failed.
 */
#include "unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"

static void stat_is(const tnr_stat *stat, uint64_t current, uint64_t peak, uint64_t allocated)
{
    assert_int_equal(stat->current, current);
    assert_int_equal(stat->peak, peak);
    assert_int_equal(stat->allocated, allocated);
    assert_int_equal(stat->freed, allocated - current);
}

static void counters_are_exact(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *a = unit_malloc(1000, NULL);
    void *b = unit_malloc(3 * MIB + 1, NULL);
    tnr_stats s = unit_stats();
    stat_is(&s.allocation[TNR_WORLD_ALL], 2, 2, 2);
    stat_is(&s.allocation[TNR_WORLD_SMALL], 1, 1, 1);
    stat_is(&s.allocation[TNR_WORLD_LARGE], 1, 1, 1);
    stat_is(&s.requested_bytes[TNR_WORLD_ALL], 3 * MIB + 1001, 3 * MIB + 1001, 3 * MIB + 1001);
    stat_is(&s.allocated_bytes[TNR_WORLD_SMALL], 1024, 1024, 1024);
    stat_is(&s.allocated_bytes[TNR_WORLD_LARGE], 3 * MIB + 512, 3 * MIB + 512, 3 * MIB + 512);
    assert_int_equal(s.bytes_slack, 24 + 511);
    assert_int_equal(s.reserved_bytes.current, 6 * MIB);
    assert_int_equal(s.driver_calls[TNR_DRIVER_CREATE], s.chunks_created);
    assert_int_equal(s.num_device_alloc, s.driver_calls[TNR_DRIVER_MAP]);
    assert_true(s.metadata_bytes > 0);
    assert_int_equal(s.metadata_live_blocks, 2);
    assert_ok(tnr_free(b));
    assert_ok(tnr_free(a));
    s = unit_stats();
    stat_is(&s.allocation[TNR_WORLD_ALL], 0, 2, 2);
    stat_is(&s.requested_bytes[TNR_WORLD_LARGE], 0, 3 * MIB + 1, 3 * MIB + 1);
    stat_is(&s.active_bytes[TNR_WORLD_SMALL], 0, 1024, 1024);
    assert_ok(tnr_stats_reset_peaks(0));
    s = unit_stats();
    stat_is(&s.allocation[TNR_WORLD_ALL], 0, 0, 2);
    assert_int_equal(s.reserved_bytes.peak, s.reserved_bytes.current);
    assert_ok(tnr_trim(NULL, 0, 0));
    s = unit_stats();
    assert_int_equal(s.segment.current, 0);
    assert_int_equal(s.segment.freed, s.segment.allocated);
    assert_int_equal(s.num_device_free, s.num_device_alloc);
    assert_int_equal(s.reserved_bytes.freed, s.reserved_bytes.allocated);
}

static void sizes_add_up(const tnr_stats *s)
{
    const tnr_stat *parts[] = {s->segment_by_size, s->reserved_bytes_by_size, s->active,
                               s->active_bytes};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const tnr_stat *by = parts[i];
        assert_int_equal(by[TNR_WORLD_SMALL].current + by[TNR_WORLD_LARGE].current,
                         by[TNR_WORLD_ALL].current);
        for (int w = TNR_WORLD_SMALL; w <= TNR_WORLD_LARGE; w++) {
            assert_true(by[w].current <= by[w].peak && by[w].peak <= by[TNR_WORLD_ALL].peak);
            assert_int_equal(by[w].allocated - by[w].freed, by[w].current);
        }
    }
    assert_int_equal(s->idle_bytes[TNR_WORLD_ALL], s->bytes_binned + s->bytes_free);
    assert_int_equal(s->idle_bytes[TNR_WORLD_SMALL] + s->idle_bytes[TNR_WORLD_LARGE],
                     s->idle_bytes[TNR_WORLD_ALL]);
    assert_int_equal(s->idle_blocks[TNR_WORLD_SMALL] + s->idle_blocks[TNR_WORLD_LARGE],
                     s->idle_blocks[TNR_WORLD_ALL]);
}

/* A chunk is made for small blocks, goes over to large ones, and goes back to the driver. */
static void chunks_by_size(void **state)
{
    (void)state;
    unit_start("chunk_mb:2,chunk_max_mb:2", NULL);
    void *small = unit_malloc(1000, NULL);
    tnr_stats s = unit_stats();
    sizes_add_up(&s);
    stat_is(&s.reserved_bytes_by_size[TNR_WORLD_SMALL], 2 * MIB, 2 * MIB, 2 * MIB);
    stat_is(&s.segment_by_size[TNR_WORLD_SMALL], 1, 1, 1);
    stat_is(&s.segment_by_size[TNR_WORLD_LARGE], 0, 0, 0);
    assert_int_equal(s.idle_bytes[TNR_WORLD_SMALL], 2 * MIB - 1024);
    assert_ok(tnr_free(small));
    void *large = unit_malloc(2 * MIB, NULL); /* in the chunk that the small one had */
    s = unit_stats();
    sizes_add_up(&s);
    assert_int_equal(s.segment.allocated, 1);
    stat_is(&s.segment_by_size[TNR_WORLD_SMALL], 0, 1, 1);
    stat_is(&s.segment_by_size[TNR_WORLD_LARGE], 1, 1, 1);
    stat_is(&s.reserved_bytes_by_size[TNR_WORLD_LARGE], 2 * MIB, 2 * MIB, 2 * MIB);
    assert_ok(tnr_free(large));
    assert_ok(tnr_trim(NULL, 0, 0));
    s = unit_stats();
    stat_is(&s.reserved_bytes_by_size[TNR_WORLD_LARGE], 0, 2 * MIB, 2 * MIB);
    assert_ok(tnr_stats_reset_peaks(0));
    s = unit_stats();
    stat_is(&s.reserved_bytes_by_size[TNR_WORLD_LARGE], 0, 0, 2 * MIB);
    sizes_add_up(&s);
}

/* A program of 1.0 has a struct that ends before `active`: nothing is written behind it. */
static void a_struct_of_1_0(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    (void)unit_malloc(1000, NULL);
    tnr_stats s;
    memset(&s, 0x5a, sizeof(s));
    s.struct_bytes = offsetof(tnr_stats, active);
    assert_ok(tnr_stats_get(&s, NULL, 0));
    assert_int_equal(s.struct_bytes, offsetof(tnr_stats, active));
    assert_int_equal(s.metadata_live_blocks, 1);
    for (size_t i = offsetof(tnr_stats, active); i < sizeof(s); i++)
        assert_int_equal(((unsigned char *)&s)[i], 0x5a);
    s.struct_bytes = offsetof(tnr_stats, active) + 8;
    assert_error(tnr_stats_get(&s, NULL, 0), TNR_ERR_INVALID_ARGUMENT, "struct_bytes");
}

/* Guarantee 4: the cached path makes no driver call; and what is counted is what was called. */
static void driver_calls_are_counted(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *large = unit_malloc(5 * MIB, NULL); /* live at once, or its chunk moves to the other */
    assert_ok(tnr_free(unit_malloc(700, NULL)));
    assert_ok(tnr_free(large));
    tnr_stats before = unit_stats();
    uint64_t calls = simcuda_calls_total();
    for (int i = 0; i < 1000; i++) {
        void *a = unit_malloc(5 * MIB - (size_t)i, NULL);
        void *b = unit_malloc(1 + (size_t)i, NULL);
        assert_ok(tnr_free(a));
        assert_ok(tnr_free(b));
    }
    assert_int_equal(simcuda_calls_total(), calls);
    tnr_stats after = unit_stats();
    for (int kind = 0; kind < TNR_DRIVER_KIND_COUNT; kind++) {
        assert_int_equal(after.driver_calls[kind], before.driver_calls[kind]);
        assert_int_equal(after.driver_ns[kind], before.driver_ns[kind]);
    }
    assert_int_equal(after.driver_calls[TNR_DRIVER_MAP], simcuda_calls("cuMemMap"));
    assert_int_equal(after.driver_calls[TNR_DRIVER_ACCESS], simcuda_calls("cuMemSetAccess"));
    assert_int_equal(after.driver_calls[TNR_DRIVER_CREATE], simcuda_calls("cuMemCreate"));
}

/* Every step of the ladder is counted once, and their sum is the number of allocations. */
static void served_adds_up(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2", "MEMORY=64M", NULL);
    uint64_t random = 17;
    void *blocks[40] = {0};
    tnr_stream streams[2] = {NULL, unit_stream(0)};
    for (int i = 0; i < 3000; i++) {
        size_t at = unit_below(&random, 40);
        if (blocks[at] != NULL) {
            assert_ok(tnr_free(blocks[at]));
            blocks[at] = NULL;
        } else {
            tnr_status status = tnr_malloc(&blocks[at], 1 + unit_below(&random, 6 * MIB), 0,
                                           streams[unit_below(&random, 2)]);
            assert_true(status == TNR_OK || status == TNR_ERR_OUT_OF_MEMORY);
        }
    }
    tnr_stats s = unit_stats();
    uint64_t sum = 0;
    for (int i = 0; i < TNR_SERVED_COUNT; i++)
        sum += s.served[i];
    assert_int_equal(sum, s.allocation[TNR_WORLD_ALL].allocated);
    assert_true(s.served[TNR_SERVED_INDEX] > 0 && s.served[TNR_SERVED_GROWN] > 0);
    assert_true(s.served[TNR_SERVED_MOVED] > 0 && s.served[TNR_SERVED_SHARED] > 0);
    assert_true(s.served[TNR_SERVED_LENT] > 0);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* The number after "key": in a text; fails if there is none or more than one. */
static uint64_t json_number(const char *json, const char *key)
{
    char quoted[100];
    snprintf(quoted, sizeof(quoted), "\"%s\": ", key);
    const char *at = strstr(json, quoted);
    if (at == NULL || strstr(at + 1, quoted) != NULL)
        fail_msg("\"%s\" is not there once", key);
    return strtoull(at + strlen(quoted), NULL, 10);
}

/* One object of unique keys and whole numbers, comma between and none at the end. */
static void *metadata_churn(void *data)
{
    for (int i = 0; i < 300; i++) {
        void *memory = tnri_host_alloc(1000);
        if (memory == NULL || tnri_host_bytes() < 1000)
            return data;
        tnri_host_free(memory, 1000);
    }
    return NULL;
}

/* What is held is asked for again after each change, also if several threads ask. A record of
 * jemalloc's own may stay. */
static void metadata_is_counted_at_once(void **state)
{
    (void)state;
    pthread_t threads[3];
    tnri_host_free(tnri_host_alloc(1000), 1000);
    uint64_t before = tnri_host_bytes();
    for (int i = 0; i < 3; i++) {
        void *memory = tnri_host_alloc(100000);
        assert_non_null(memory);
        assert_in_range(tnri_host_bytes() - before, 100000, 250000);
        assert_in_range(tnri_host_bytes() - before, 100000, 250000);
        tnri_host_free(memory, 100000);
        assert_in_range(tnri_host_bytes() - before, 0, 65536);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, metadata_churn, threads), 0);
    for (int i = 0; i < 3; i++) {
        void *broken;
        assert_int_equal(pthread_join(threads[i], &broken), 0);
        assert_null(broken);
    }
    assert_in_range(tnri_host_bytes() - before, 0, 65536);
}

static void json_is_well_formed(const char *json)
{
    const char *at = json;
    assert_int_equal(*at++, '{');
    for (;;) {
        at += strspn(at, " \n");
        assert_int_equal(*at++, '"');
        size_t key = strcspn(at, "\"\\");
        assert_true(key > 0 && at[key] == '"');
        at += key + 1;
        assert_int_equal(*at++, ':');
        at += strspn(at, " ");
        size_t digits = strspn(at, "0123456789");
        assert_true(digits > 0 && (digits == 1 || *at != '0'));
        at += digits;
        if (*at != ',')
            break;
        at++;
    }
    assert_string_equal(at, "\n}\n");
}

static void json_says_the_same(void **state)
{
    (void)state;
    static char text[32768];
    unit_start(NULL, NULL);
    (void)unit_malloc(3000, NULL);
    assert_ok(tnr_free(unit_malloc(9 * MIB, NULL)));
    tnr_stats s = unit_stats();
    size_t length = tnr_stats_json(text, sizeof(text), NULL, 0);
    assert_int_equal(length, strlen(text));
    json_is_well_formed(text);
    assert_int_equal(json_number(text, "device"), 0);
    assert_int_equal(json_number(text, "allocated_bytes.all.current"),
                     s.allocated_bytes[TNR_WORLD_ALL].current);
    assert_int_equal(json_number(text, "allocation.large_pool.freed"), 1);
    assert_int_equal(json_number(text, "requested_bytes.small_pool.peak"), 3000);
    assert_int_equal(json_number(text, "active.all.current"), 1);
    assert_int_equal(json_number(text, "active_bytes.all.allocated"),
                     s.active_bytes[TNR_WORLD_ALL].allocated);
    assert_int_equal(json_number(text, "reserved_bytes.all.current"), s.reserved_bytes.current);
    assert_int_equal(json_number(text, "segment.all.allocated"), s.segment.allocated);
    assert_int_equal(json_number(text, "segment.small_pool.current"), 1);
    assert_int_equal(json_number(text, "inactive_split_bytes.large_pool.current"),
                     s.idle_bytes[TNR_WORLD_LARGE]);
    assert_int_equal(json_number(text, "bytes_free"), s.bytes_free);
    assert_int_equal(json_number(text, "bytes_slack"), s.bytes_slack);
    assert_int_equal(json_number(text, "served.grown"), s.served[TNR_SERVED_GROWN]);
    assert_int_equal(json_number(text, "driver_calls.create"), s.chunks_created);
    assert_true(json_number(text, "limit_bytes") == SIZE_MAX);
    assert_int_equal(json_number(text, "num_ooms"), 0);
    tnr_pool pool;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_true(tnr_stats_json(text, sizeof(text), pool, 0) > 0);
    json_is_well_formed(text);
    assert_int_equal(json_number(text, "pools"), 1);
}

/* As snprintf: cut, terminated, and measured as a whole. */
static void json_into_small_buffers(void **state)
{
    (void)state;
    static char whole[32768];
    static char part[32768];
    unit_start(NULL, NULL);
    (void)unit_malloc(1, NULL);
    size_t length = tnr_stats_json(whole, sizeof(whole), NULL, 0);
    assert_true(length < sizeof(whole));
    assert_int_equal(tnr_stats_json(NULL, 0, NULL, 0), length);
    assert_int_equal(tnr_stats_json(NULL, 100, NULL, 0), length);
    for (size_t bytes = 1; bytes <= length + 2; bytes += bytes < 300 ? 1 : 97) {
        memset(part, 'x', sizeof(part));
        assert_int_equal(tnr_stats_json(part, bytes, NULL, 0), length);
        size_t expected = bytes - 1 < length ? bytes - 1 : length;
        assert_int_equal(strlen(part), expected);
        assert_memory_equal(part, whole, expected < 40 ? expected : 40);
        assert_int_equal(part[bytes], 'x');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(counters_are_exact, unit_stop),
        cmocka_unit_test_teardown(chunks_by_size, unit_stop),
        cmocka_unit_test_teardown(a_struct_of_1_0, unit_stop),
        cmocka_unit_test_teardown(driver_calls_are_counted, unit_stop),
        cmocka_unit_test_teardown(served_adds_up, unit_stop),
        cmocka_unit_test(metadata_is_counted_at_once),
        cmocka_unit_test_teardown(json_says_the_same, unit_stop),
        cmocka_unit_test_teardown(json_into_small_buffers, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
