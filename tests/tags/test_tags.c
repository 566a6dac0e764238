/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tags: which memory carries one, on which device; sleeps and wakes by tag, all or none; contents;
 * limits, giving back, statistics and pictures by tag.
 *
 * Lines changed in the library to see a test fail:
 *   tnri_thread_route without TNRI_ROUTE_ANY: a_region_is_for_every_device
 *   tnri_tag_here: `return NULL` where it finds one: graphs_carry_it
 *   tnri_tag_here: without its test of null: nothing_else_carries_it
 *   pool_destroy without its test of `family`: the_pool_stays
 *   set_copy_out without `content`: contents
 *   set_make: the tags from the last to the first: in_order
 *   tag_charge without sum_charge: limits
 *   tag_release not called: limits
 *   tag_discharge not called: limits and others; not called after account_charge: limits
 *   tnri_tags_start not called: limits_end_with_the_device
 */
#include "sleep/sleep.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tenure/capture.h>
#include <tenure/history.h>
#include <tenure/tag.h>

/* Allocates from a tag's own pool, on the legacy stream. */
static void *tagged_malloc(const char *tag, tnr_content content, size_t bytes, int device)
{
    void *ptr;
    tnr_pool pool;
    assert_ok(tnr_tag_pool(&pool, tag, content));
    assert_ok(tnr_pool_push(pool));
    assert_ok(tnr_malloc(&ptr, bytes, device, NULL));
    assert_ok(tnr_pool_pop(pool));
    return ptr;
}

static tnr_stats tag_stats(const char *tag, int device)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    assert_ok(tnr_tag_stats_get(&stats, tag, device));
    assert_ok(tnr_validate(device));
    assert_int_equal(stats.bytes_live + stats.bytes_slack + stats.bytes_binned + stats.bytes_free +
                         stats.bytes_retired,
                     stats.reserved_bytes.current + stats.bytes_asleep);
    return stats;
}

static void assert_tag(const void *ptr, const char *tag)
{
    const char *found = "(nothing)";
    assert_ok(tnr_tag_of(&found, ptr));
    if (tag == NULL)
        assert_null(found);
    else
        assert_string_equal(found == NULL ? "(none)" : found, tag);
}

/* ---- what carries a tag --------------------------------------------------------------------- */

static void a_region_is_for_every_device(void **state)
{
    (void)state;
    unit_start(NULL, "DEVICES=2", NULL);
    tnr_pool pool;
    void *inside[2], *outside[2], *direct;
    assert_ok(tnr_tag_pool(&pool, "weights", TNR_CONTENT_DEFAULT));
    assert_ok(tnr_pool_push(pool));
    for (int d = 0; d < 2; d++)
        assert_ok(tnr_malloc(&inside[d], 3 * MIB, d, NULL));
    assert_ok(tnr_pool_pop(pool));
    for (int d = 0; d < 2; d++) {
        assert_ok(tnr_malloc(&outside[d], 3 * MIB, d, NULL));
        tnr_block_info info;
        assert_ok(tnr_block_get(&info, inside[d]));
        assert_int_equal(info.device, d);
        assert_non_null(info.pool);
        assert_tag(inside[d], "weights");
        assert_tag((char *)inside[d] + MIB, "weights");
        assert_tag(outside[d], NULL);
        assert_int_equal(tag_stats("weights", d).bytes_live, 3 * MIB);
    }
    assert_ok(tnr_pool_malloc(&direct, pool, 1, 1, NULL)); /* the handle is a pool on each */
    assert_tag(direct, "weights");
    assert_int_equal(tag_stats("weights", 0).pools, 1);
    assert_int_equal(tag_stats("weights", 1).pools, 1);
    for (int d = 0; d < 2; d++) {
        assert_ok(tnr_free(inside[d])); /* wherever that is */
        assert_ok(tnr_free(outside[d]));
    }
    assert_ok(tnr_free(direct));
    const char *gone;
    assert_error(tnr_tag_of(&gone, direct), TNR_ERR_NOT_LIVE, NULL);
    assert_null(gone);
    assert_int_equal(tag_stats("weights", 1).bytes_live, 0);
}

/* The innermost region counts; a growable block keeps its tag, whoever commits to it. */
static void regions_nest(void **state)
{
    (void)state;
    unit_start(NULL, NULL, NULL);
    tnr_pool weights, cache, again;
    void *grows;
    assert_ok(tnr_tag_pool(&weights, "weights", TNR_CONTENT_DEFAULT));
    assert_ok(tnr_tag_pool(&cache, "kv_cache", TNR_CONTENT_DEFAULT));
    assert_ok(tnr_tag_pool(&again, "weights", TNR_CONTENT_DEFAULT));
    assert_true(weights == again && weights != cache);
    assert_ok(tnr_pool_push(weights));
    void *outer = unit_malloc(1 * KIB, NULL);
    assert_ok(tnr_pool_push(cache));
    void *inner = unit_malloc(1 * KIB, NULL);
    assert_ok(tnr_reserve(&grows, 64 * MIB, 0, NULL));
    assert_error(tnr_pool_pop(weights), TNR_ERR_INVALID_ARGUMENT, "pushed last");
    assert_ok(tnr_pool_pop(cache));
    void *after = unit_malloc(1 * KIB, NULL);
    assert_ok(tnr_commit(grows, 4 * MIB));
    assert_ok(tnr_pool_pop(weights));
    assert_tag(outer, "weights");
    assert_tag(inner, "kv_cache");
    assert_tag(after, "weights");
    assert_tag(grows, "kv_cache");
    assert_string_equal(tnr_tag_name(0), "weights"); /* of the process; an earlier test had it */
    for (int i = 0; i < 4; i++)
        assert_ok(tnr_free((void *[]){outer, inner, after, grows}[i]));
}

static void nothing_else_carries_it(void **state)
{
    (void)state;
    unit_start(NULL, NULL, NULL);
    tnr_pool weights, own;
    assert_ok(tnr_tag_pool(&weights, "weights", TNR_CONTENT_DEFAULT));
    assert_ok(tnr_pool_push(weights));
    assert_ok(tnr_pool_push(NULL)); /* as if it were routed nowhere */
    void *plain = unit_malloc(1 * KIB, NULL);
    assert_ok(tnr_pool_create(&own, 0, NULL));
    assert_ok(tnr_pool_pop(NULL));
    assert_ok(tnr_pool_pop(weights));
    assert_tag(plain, NULL);
    void *ptr;
    assert_ok(tnr_pool_malloc(&ptr, own, 1, 0, NULL));
    assert_tag(ptr, NULL);
    assert_int_equal(tag_stats("weights", 0).pools, 0);
    /* A device that is put into use by a thread in a region has a default pool as any other. */
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_free(plain));
    assert_ok(tnr_device_end(0, 0));
    assert_ok(tnr_pool_push(weights));
    void *first = unit_malloc(1 * KIB, NULL);
    assert_ok(tnr_pool_pop(weights));
    plain = unit_malloc(1 * KIB, NULL);
    assert_tag(first, "weights");
    assert_tag(plain, NULL);
    assert_ok(tnr_free(first));
    assert_ok(tnr_free(plain));
}

/* Pools that are made in a region: a plain one, one for graphs, a capture's own. */
static void graphs_carry_it(void **state)
{
    (void)state;
    unit_start(NULL, NULL, NULL);
    sleep_context_enter();
    tnr_stream stream = unit_stream(0);
    tnr_pool graphs, plain, shared;
    tnr_cuda_graph cuda;
    void *captured, *in_plain;
    assert_ok(tnr_tag_pool(&graphs, "graphs", TNR_CONTENT_DISCARD));
    assert_ok(tnr_pool_push(graphs));
    assert_ok(tnr_pool_create(&plain, 0, NULL));
    assert_ok(tnr_graph_pool_create(&shared, 0, NULL));
    assert_ok(tnr_capture_begin(0, stream, NULL));
    assert_ok(tnr_malloc(&captured, 2 * MIB, 0, stream));
    sleep_fill(captured, 2 * MIB, 3, stream);
    assert_ok(tnr_capture_end(&cuda, NULL, 0, stream));
    assert_ok(tnr_pool_pop(graphs));
    assert_ok(tnr_pool_malloc(&in_plain, plain, 1, 0, NULL));
    assert_tag(captured, "graphs");
    assert_tag(in_plain, "graphs");
    assert_int_equal(tag_stats("graphs", 0).pools, 3); /* none was needed of the tag's own */
    sleep_fill(captured, 2 * MIB, 7, stream);
    /* What a graph needs is kept, although blocks of the tag's own pool would not be. */
    assert_ok(tnr_tags_sleep((const char *[]){"graphs"}, 1, 0, NULL));
    assert_int_equal(tag_stats("graphs", 0).reserved_bytes.current, 0);
    assert_true(tag_stats("graphs", 0).bytes_asleep >= 4 * MIB);
    assert_ok(tnr_tags_wake((const char *[]){"graphs"}, 1, 0));
    sleep_check(captured, 2 * MIB, 7);
    assert_ok(tnr_free(captured));
    assert_ok(tnr_free(in_plain));
    assert_int_equal(cuGraphDestroy(cuda), CUDA_SUCCESS);
    assert_ok(tnr_pool_destroy(plain));
    assert_ok(tnr_pool_destroy(shared));
    sleep_context_leave();
}

/* Nobody can end the pool that a thread may be routed to. */
static void the_pool_stays(void **state)
{
    (void)state;
    unit_start(NULL, NULL, NULL);
    tnr_block_info info;
    void *ptr = tagged_malloc("weights", TNR_CONTENT_DEFAULT, 1 * MIB, 0);
    tnr_pool pool;
    assert_ok(tnr_tag_pool(&pool, "weights", TNR_CONTENT_DEFAULT));
    assert_ok(tnr_block_get(&info, ptr));
    assert_ok(tnr_free(ptr));
    assert_error(tnr_pool_destroy(info.pool), TNR_ERR_INVALID_POOL, "is a tag's");
    assert_error(tnr_pool_destroy(pool), TNR_ERR_INVALID_POOL, "one pool alone");
    /* Over a shutdown the name and the handle stay, the pools do not. */
    assert_ok(tnr_shutdown(0));
    assert_error(tnr_pool_pop(pool), TNR_ERR_INVALID_ARGUMENT, NULL);
    ptr = tagged_malloc("weights", TNR_CONTENT_DEFAULT, 1 * MIB, 0);
    assert_ok(tnr_block_get(&info, ptr));
    assert_tag(ptr, "weights");
    assert_ok(tnr_free(ptr));
}

static void names(void **state)
{
    (void)state;
    unit_start(NULL, NULL, NULL);
    tnr_pool pool;
    char name[80];
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    static const char *const wrong[] = {"", "a b", "a,b", "a\"", "a\\", "\x7f", "\xc3\xa4", "a\n"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_error(tnr_tag_pool(&pool, wrong[i], TNR_CONTENT_DEFAULT), TNR_ERR_INVALID_ARGUMENT,
                     "not a name for a tag");
    memset(name, 'x', sizeof(name));
    name[64] = '\0';
    assert_error(tnr_tag_pool(&pool, name, TNR_CONTENT_DEFAULT), TNR_ERR_INVALID_ARGUMENT, "63");
    assert_null(pool);
    assert_error(tnr_tag_pool(NULL, "a", TNR_CONTENT_DEFAULT), TNR_ERR_INVALID_ARGUMENT, "null");
    assert_error(tnr_tag_pool(&pool, NULL, TNR_CONTENT_DEFAULT), TNR_ERR_INVALID_ARGUMENT, "null");
    assert_error(tnr_tag_pool(&pool, "a", (tnr_content)4), TNR_ERR_INVALID_ARGUMENT, "policy");
    assert_error(tnr_tags_sleep((const char *[]){"nobody"}, 1, 0, NULL), TNR_ERR_INVALID_ARGUMENT,
                 "nothing has the tag \"nobody\". There are: ");
    assert_error(tnr_tags_wake((const char *[]){"nobody"}, 1, 0), TNR_ERR_INVALID_ARGUMENT,
                 "nobody");
    assert_error(tnr_tags_wake((const char *[]){NULL}, 1, 0), TNR_ERR_INVALID_ARGUMENT, "null");
    assert_error(tnr_tags_sleep(NULL, 1, 0, NULL), TNR_ERR_INVALID_ARGUMENT, "null");
    assert_error(tnr_tag_stats_get(&stats, "nobody", 0), TNR_ERR_INVALID_ARGUMENT, "nobody");
    assert_error(tnr_tag_limit_set("nobody", 1, 0), TNR_ERR_INVALID_ARGUMENT, "nobody");
    assert_error(tnr_tag_trim(NULL, "nobody", 0, 0), TNR_ERR_INVALID_ARGUMENT, "nobody");
    assert_ok(tnr_tag_pool(&pool, "somebody", TNR_CONTENT_DEFAULT));
    assert_error(tnr_tag_stats_get(&stats, "somebody", 7), TNR_ERR_INVALID_DEVICE, NULL);
    assert_error(tnr_tags_sleep((const char *[]){"somebody"}, 1, 7, NULL), TNR_ERR_INVALID_DEVICE,
                 NULL);
    assert_ok(tnr_tags_sleep((const char *[]){"somebody"}, 1, 0, NULL)); /* has nothing to do */
    tnr_status status = TNR_OK;
    int made = 0;
    for (; status == TNR_OK && made <= 64; made++) {
        snprintf(name, sizeof(name), "one_of_many_%d", made);
        status = tnr_tag_pool(&pool, name, TNR_CONTENT_DEFAULT);
    }
    assert_error(status, TNR_ERR_INVALID_ARGUMENT, "one too many");
    assert_non_null(tnr_tag_name(63));
    assert_null(tnr_tag_name(64));
    const char *none;
    assert_error(tnr_tag_of(&none, &made), TNR_ERR_FOREIGN_POINTER, NULL);
    assert_error(tnr_tag_of(NULL, &made), TNR_ERR_INVALID_ARGUMENT, NULL);
}

/* ---- sleeping ------------------------------------------------------------------------------- */

/* Tags sleep and wake by themselves, in parts; the default pool is not concerned. */
static void parts(void **state)
{
    (void)state;
    unit_start(NULL, NULL, NULL);
    sleep_context_enter();
    void *weights = tagged_malloc("weights", TNR_CONTENT_DEFAULT, 5 * MIB, 0);
    void *cache = tagged_malloc("kv_cache", TNR_CONTENT_DEFAULT, 7 * MIB, 0);
    void *plain = unit_malloc(3 * MIB, NULL);
    sleep_fill(weights, 5 * MIB, 1, NULL);
    sleep_fill(cache, 7 * MIB, 2, NULL);
    sleep_fill(plain, 3 * MIB, 3, NULL);
    uint64_t all = sleep_device_bytes();
    static const char *const both[] = {"kv_cache", "weights"};
    assert_ok(tnr_tags_sleep(both, 2, 0, NULL));
    assert_ok(tnr_tags_sleep(both, 2, 0, NULL)); /* no more than it was */
    sleep_check(plain, 3 * MIB, 3);
    assert_int_equal(tag_stats("weights", 0).bytes_asleep, 6 * MIB);
    assert_int_equal(tag_stats("weights", 0).sleeps, 1);
    void *refused;
    tnr_pool pool;
    assert_ok(tnr_tag_pool(&pool, "weights", TNR_CONTENT_DEFAULT));
    assert_ok(tnr_pool_push(pool));
    assert_error(tnr_malloc(&refused, 1, 0, NULL), TNR_ERR_ASLEEP, "\"weights\"");
    assert_ok(tnr_pool_pop(pool));
    assert_ok(tnr_tags_wake(&both[1], 1, 0));
    sleep_check(weights, 5 * MIB, 1);
    assert_int_equal(tag_stats("weights", 0).bytes_asleep, 0);
    assert_int_equal(tag_stats("kv_cache", 0).bytes_asleep, 8 * MIB);
    assert_int_equal(tnr_pool_generation(pool, 0), 1);
    assert_ok(tnr_tags_wake(NULL, 0, 0)); /* all */
    sleep_check(cache, 7 * MIB, 2);
    assert_int_equal(sleep_device_bytes(), all);
    assert_ok(tnr_free(weights));
    assert_ok(tnr_free(cache));
    assert_ok(tnr_free(plain));
    sleep_context_leave();
}

static void named_twice(void **state)
{
    (void)state;
    unit_start(NULL, NULL, NULL);
    void *ptr = tagged_malloc("weights", TNR_CONTENT_DEFAULT, 5 * MIB, 0);
    static const char *const twice[] = {"weights", "weights"};
    assert_ok(tnr_tags_sleep(twice, 2, 0, NULL));
    assert_ok(tnr_tags_wake(twice, 2, 0));
    assert_int_equal(tag_stats("weights", 0).wakes, 1);
    assert_ok(tnr_free(ptr));
}

/* One pool refuses, in the middle of the driver's calls: all stay awake, with their contents. */
static void all_or_none(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuMemHostAlloc", "cuMemcpyDtoHAsync", "cuMemUnmap"};
    static const char *const both[] = {"weights", "kv_cache"};
    for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++) {
        unit_start("chunk_max_mb:2", "SCHEDULE=eager", NULL);
        sleep_context_enter();
        void *weights = tagged_malloc("weights", TNR_CONTENT_DEFAULT, 4 * MIB, 0);
        void *cache = tagged_malloc("kv_cache", TNR_CONTENT_DEFAULT, 4 * MIB, 0);
        sleep_fill(weights, 4 * MIB, 1, NULL);
        sleep_fill(cache, 4 * MIB, 2, NULL);
        simcuda_fail(calls[c], c == 2 ? 3 : 2, 0, CUDA_ERROR_UNKNOWN); /* of the second pool */
        assert_error(tnr_tags_sleep(both, 2, 0, NULL), TNR_ERR_DRIVER, NULL);
        simcuda_fail_clear();
        for (int t = 0; t < 2; t++) {
            assert_int_equal(tag_stats(both[t], 0).bytes_asleep, 0);
            assert_int_equal(tag_stats(both[t], 0).sleeps, 0);
        }
        sleep_check(weights, 4 * MIB, 1);
        sleep_check(cache, 4 * MIB, 2);
        assert_ok(tnr_tags_sleep(both, 2, 0, NULL));
        simcuda_fail("cuMemMap", 3, 0, CUDA_ERROR_UNKNOWN);
        assert_error(tnr_tags_wake(both, 2, 0), TNR_ERR_DRIVER, NULL);
        simcuda_fail_clear();
        for (int t = 0; t < 2; t++)
            assert_int_equal(tag_stats(both[t], 0).bytes_asleep, 4 * MIB);
        assert_ok(tnr_tags_wake(both, 2, 0));
        sleep_check(weights, 4 * MIB, 1);
        sleep_check(cache, 4 * MIB, 2);
        assert_ok(tnr_free(weights));
        assert_ok(tnr_free(cache));
        sleep_context_leave();
        assert_int_equal(unit_stop(NULL), 0);
    }
}

/* Who is told comes in the order of the tags. */
static tnr_pool told[8];
static int told_count;

static void told_note(tnr_pool pool, int device, tnr_sleep_event event, uint64_t generation,
                      void *user)
{
    (void)device;
    (void)generation;
    (void)user;
    if (event == TNR_SLEEP_AWAKE && told_count < 8)
        told[told_count++] = pool;
}

static void in_order(void **state)
{
    (void)state;
    static const char *const there[] = {"kv_cache", "weights"}, *const back[] = {"weights",
                                                                                 "kv_cache"};
    unit_start(NULL, NULL, NULL);
    tnr_block_info info[2];
    void *blocks[2];
    for (int t = 0; t < 2; t++) {
        blocks[t] = tagged_malloc(there[t], TNR_CONTENT_DEFAULT, MIB, 0);
        assert_ok(tnr_block_get(&info[t], blocks[t]));
    }
    assert_ok(tnr_sleep_callback_add(told_note, NULL));
    told_count = 0;
    assert_ok(tnr_tags_sleep(there, 2, 0, NULL));
    assert_ok(tnr_tags_wake(there, 2, 0));
    assert_ok(tnr_tags_sleep(there, 2, 0, NULL));
    assert_ok(tnr_tags_wake(back, 2, 0));
    assert_ok(tnr_sleep_callback_remove(told_note, NULL));
    assert_int_equal(told_count, 4);
    assert_true(told[0] == info[0].pool && told[1] == info[1].pool);
    assert_true(told[2] == info[1].pool && told[3] == info[0].pool);
    for (int t = 0; t < 2; t++)
        assert_ok(tnr_free(blocks[t]));
}

/* What is kept: what the block says, else what the sleep says, else what the region said. */
static void contents(void **state)
{
    (void)state;
    static const char *const tags[] = {"weights"};
    unit_start(NULL, NULL, NULL);
    sleep_context_enter();
    void *kept = tagged_malloc("weights", TNR_CONTENT_KEEP, 32 * MIB, 0);
    void *dropped = tagged_malloc("weights", TNR_CONTENT_DISCARD, 32 * MIB, 0);
    assert_int_equal(tag_stats("weights", 0).pools, 2);
    sleep_fill(kept, 32 * MIB, 1, NULL);
    sleep_fill(dropped, 32 * MIB, 2, NULL);
    assert_ok(tnr_tags_sleep(tags, 1, 0, NULL));
    assert_int_equal(sleep_pinned_bytes(), 32 * MIB);
    assert_ok(tnr_tags_wake(tags, 1, 0));
    sleep_check(kept, 32 * MIB, 1);
    assert_false(sleep_matches(dropped, 32 * MIB, 2));
    tnr_sleep_options options = TNR_SLEEP_OPTIONS_INIT;
    options.content = TNR_CONTENT_KEEP;
    sleep_fill(dropped, 32 * MIB, 3, NULL);
    assert_ok(tnr_tags_sleep(tags, 1, 0, &options));
    assert_int_equal(sleep_pinned_bytes(), 64 * MIB);
    assert_ok(tnr_tags_wake(tags, 1, 0));
    sleep_check(dropped, 32 * MIB, 3);
    assert_ok(tnr_block_content_set(dropped, TNR_CONTENT_KEEP));
    assert_ok(tnr_tags_sleep(tags, 1, 0, NULL));
    assert_int_equal(sleep_pinned_bytes(), 64 * MIB);
    assert_ok(tnr_tags_wake(tags, 1, 0));
    assert_ok(tnr_free(kept));
    assert_ok(tnr_free(dropped));
    sleep_context_leave();
}

/* ---- limits, giving back, pictures ---------------------------------------------------------- */

static void limits(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2", NULL, NULL);
    tnr_pool keep, drop, newer;
    void *blocks[4], *more, *plain;
    assert_ok(tnr_tag_pool(&keep, "weights", TNR_CONTENT_KEEP));
    assert_ok(tnr_tag_pool(&drop, "weights", TNR_CONTENT_DISCARD));
    assert_ok(tnr_tag_limit_set("weights", 8 * MIB, 0));
    for (int i = 0; i < 4; i++) /* of both pools together */
        assert_ok(tnr_pool_malloc(&blocks[i], i % 2 == 0 ? keep : drop, 2 * MIB, 0, NULL));
    assert_error(tnr_pool_malloc(&more, keep, 2 * MIB, 0, NULL), TNR_ERR_LIMIT,
                 "of the tag \"weights\"");
    assert_error(tnr_pool_malloc(&more, keep, 9 * MIB, 0, NULL), TNR_ERR_LIMIT, "weights");
    assert_ok(tnr_pool_create(&newer, 0, NULL));
    assert_ok(tnr_pool_malloc(&plain, newer, 128 * MIB, 0, NULL));
    assert_int_equal(tag_stats("weights", 0).limit_bytes, 8 * MIB);
    /* Memory that is idle in the tag's other pool makes room; what others have idle does not. */
    assert_ok(tnr_free(plain));
    assert_ok(tnr_free(blocks[1]));
    assert_ok(tnr_pool_malloc(&more, keep, 2 * MIB, 0, NULL));
    assert_int_equal(tag_stats("weights", 0).reserved_bytes.current, 8 * MIB);
    /* What the device's own limit refuses is not the tag's. */
    assert_ok(tnr_tag_limit_set("weights", SIZE_MAX, 0));
    assert_ok(tnr_limit_set(8 * MIB, 0));
    assert_error(tnr_pool_malloc(&plain, keep, 4 * MIB, 0, NULL), TNR_ERR_LIMIT, "device 0");
    assert_int_equal(tag_stats("weights", 0).reserved_bytes.current, 8 * MIB);
    assert_ok(tnr_limit_set(SIZE_MAX, 0));
    /* Asleep it has none mapped, and may be woken into a limit that is too low by then. */
    assert_ok(tnr_tags_sleep(NULL, 0, 0, NULL));
    assert_int_equal(tag_stats("weights", 0).reserved_bytes.current, 0);
    assert_ok(tnr_tag_limit_set("weights", 4 * MIB, 0));
    assert_error(tnr_tags_wake(NULL, 0, 0), TNR_ERR_LIMIT, "weights");
    assert_ok(tnr_tag_limit_set("weights", SIZE_MAX, 0));
    assert_ok(tnr_tags_wake(NULL, 0, 0));
    for (int i = 0; i < 4; i++)
        assert_ok(i == 1 ? tnr_free(more) : tnr_free(blocks[i]));
    size_t released = 0;
    assert_ok(tnr_tag_trim(&released, "weights", 2 * MIB, 0));
    assert_int_equal(released, 6 * MIB);
    assert_ok(tnr_tag_trim(&released, "weights", 0, 0));
    assert_int_equal(released, 2 * MIB);
    assert_int_equal(tag_stats("weights", 0).reserved_bytes.current, 0);
}

static void limits_end_with_the_device(void **state)
{
    (void)state;
    unit_start(NULL, NULL, NULL);
    void *ptr = tagged_malloc("weights", TNR_CONTENT_DEFAULT, MIB, 0);
    assert_ok(tnr_tag_limit_set("weights", 2 * MIB, 0));
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_device_end(0, 0));
    assert_int_equal(tag_stats("weights", 0).limit_bytes, UINT64_MAX);
    ptr = tagged_malloc("weights", TNR_CONTENT_DEFAULT, 8 * MIB, 0);
    assert_ok(tnr_free(ptr));
}

static size_t walked_bytes;

static void walk(const tnr_stretch *stretch, void *user)
{
    (void)user;
    walked_bytes += stretch->bytes;
}

/* The word is twice in the pickle: as a pool's name, and with the segment that carries the tag. */
static void pickled_twice(const char *path, const char *word)
{
    static char bytes[1 << 16];
    int count = 0;
    assert_ok(tnr_snapshot_write(path, TNR_SNAPSHOT_PICKLE));
    int file = open(path, O_RDONLY);
    ssize_t length = read(file, bytes, sizeof(bytes));
    close(file);
    unlink(path);
    for (ssize_t i = 0; i + (ssize_t)strlen(word) <= length; i++)
        count += memcmp(bytes + i, word, strlen(word)) == 0;
    assert_int_equal(count, 2);
}

static void pictures(void **state)
{
    (void)state;
    static char text[1 << 16];
    unit_start(NULL, NULL, NULL);
    void *ptr = tagged_malloc("weights", TNR_CONTENT_DEFAULT, 5 * MIB, 0);
    void *plain = unit_malloc(3 * MIB, NULL);
    tnr_pool pool;
    assert_ok(tnr_tag_pool(&pool, "weights", TNR_CONTENT_DEFAULT));
    assert_ok(tnr_memory_walk(pool, 0, walk, NULL));
    assert_int_equal(walked_bytes, 6 * MIB);
    char path[] = "/tmp/tenure-tags-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_ok(tnr_snapshot_write(path, TNR_SNAPSHOT_JSON));
    close(file); /* it is another file now */
    file = open(path, O_RDONLY);
    ssize_t length = read(file, text, sizeof(text) - 1);
    close(file);
    unlink(path);
    assert_true(length > 0);
    const char *found = strstr(text, "\"tag\":\"weights\"");
    assert_non_null(found);
    assert_null(strstr(found + 1, "\"tag\":")); /* and the default pool has none */
    pickled_twice(path, "weights");
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_free(plain));
}

#define TEST(name) cmocka_unit_test_teardown(name, unit_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_region_is_for_every_device),
        TEST(regions_nest),
        TEST(nothing_else_carries_it),
        TEST(graphs_carry_it),
        TEST(the_pool_stays),
        TEST(parts),
        TEST(named_twice),
        TEST(all_or_none),
        TEST(in_order),
        TEST(contents),
        TEST(limits),
        TEST(limits_end_with_the_device),
        TEST(pictures),
        TEST(names), /* last: no name is left afterwards */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
