/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls every public function that takes something that Tenure gave out (a pool, a graph's number,
 * a block), with values that Tenure never gave out, and with some that have ended. Each call must
 * give the status that the manual names, and read, make or change nothing. The functions are those
 * of the headers, which are this program's arguments. A function that is not in the tables of
 * handle_calls.c fails the test.
 *
 * What was taken out, and what failed then:
 *   tnri_pool_find without the comparison of the handle: ended_pools_stay_ended
 *   tnri_pool_find with an address as it was (a handle was the address of the structure): a crash
 *   tnri_pool_new with a serial number that begins anew after a shutdown: ended_pools_stay_ended
 *   pool_unpublish in tnri_pool_end: no end, as soon as a pool comes after a destroyed one
 *   handle_check in turn_begin: nothing_starts_for_a_stranger
 *   the hold in tnri_pool_find: no end, or a crash
 *   the exchange in tnri_pool_end, with a store in its place: pools_end_once (no end)
 *   tnri_pool_check_routed in pool_empty: pushed_while_it_ends
 */
#include "handle_calls.h"

#include <ctype.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/sleep.h>

#include "memory/device/device.h"
#include "memory/pool/handle.h"
#include "api/pool_end.h"
#include "memory/pool/pool.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- trying --------------------------------------------------------------------------------- */

static tnr_stats everything(void)
{
    tnr_stats stats;
    memset(&stats, 0, sizeof(stats));
    stats.struct_bytes = sizeof(stats);
    assert_ok(tnr_stats_get(&stats, NULL, 0));
    return stats;
}

/* The same, but for what an event costs: a use is marked before its block is looked at. */
static tnr_stats everything_but_events(void)
{
    tnr_stats stats = everything();
    memset(stats.driver_calls, 0, sizeof(stats.driver_calls));
    memset(stats.driver_ns, 0, sizeof(stats.driver_ns));
    stats.metadata_bytes = 0;
    return stats;
}

/* The call fails as the manual says, with a sentence, and changes nothing. */
static void try_one(const call *what, given it, tnr_status expected)
{
    tnr_stats (*look)(void) = expected == TNR_ERR_NOT_LIVE ? everything_but_events : everything;
    tnr_stats before = look();
    tnr_status got = what->body(it);
    if (got != expected)
        fail_msg("%s(pool %p, graph %llu, ptr %p): %s instead of %s: %s", what->name,
                 (void *)it.pool, (unsigned long long)it.graph, it.ptr, tnr_status_name(got),
                 tnr_status_name(expected), tnr_last_error());
    assert_string_not_equal(tnr_last_error(), "");
    tnr_stats after = look();
    if (strstr(what->name, "capture") == NULL && /* begins and ends something else on the way */
        memcmp(&before, &after, sizeof(before)) != 0)
        fail_msg("%s(pool %p, graph %llu, ptr %p) has changed what there is", what->name,
                 (void *)it.pool, (unsigned long long)it.graph, it.ptr);
    assert_ok(tnr_validate(-1));
}

static void try_pool(tnr_pool pool)
{
    for (size_t i = 0; i < pool_calls.count; i++)
        try_one(&pool_calls.calls[i], (given){.pool = pool}, pool_calls.calls[i].status);
}

static void try_graph(tnr_graph graph)
{
    for (size_t i = 0; i < graph_calls.count; i++)
        try_one(&graph_calls.calls[i], (given){.graph = graph}, graph_calls.calls[i].status);
}

static void try_block(void *ptr, tnr_status expected)
{
    for (size_t i = 0; i < block_calls.count; i++)
        try_one(&block_calls.calls[i], (given){.ptr = ptr},
                strncmp(block_calls.calls[i].name, "tnr_import", 10) == 0
                    ? TNR_ERR_FOREIGN_POINTER /* no block is an import */
                    : expected);
}

/* What a careless program has in a variable: small numbers, addresses of all sorts. */
static size_t strangers(uintptr_t *list, size_t room)
{
    static uint64_t readable[64] = {1, 2, 3};
    uint64_t on_stack[64] = {UINT64_C(0x746e725f706f6f6c)}; /* what once marked a pool */
    void *freed = malloc(4096);
    assert_non_null(freed);
    memset(freed, 0x5a, 4096);
    uintptr_t values[] = {1,
                          2,
                          7,
                          0x55,
                          0x1000,
                          0x1003,
                          4096 * 1024 + 1,
                          UINTPTR_MAX,
                          UINTPTR_MAX - 7,
                          UINTPTR_MAX >> 1,
                          (uintptr_t)1 << 63,
                          (uintptr_t)0x8000 << 32,
                          (uintptr_t)readable,
                          (uintptr_t)readable + 1,
                          (uintptr_t)on_stack,
                          (uintptr_t)freed,
                          (uintptr_t)&strangers,
                          (uintptr_t)7 << 60,
                          ((uintptr_t)7 << 60) + 1,
                          ((uintptr_t)8 << 60) - 1 /* all of a handle, the largest */};
    free(freed);
    assert_true(COUNT(values) <= room);
    memcpy(list, values, sizeof(values));
    return COUNT(values);
}

static void things_make(void)
{
    device_of_calls = 0;
    (void)unit_malloc(100, NULL);
    spare_event = life_event();
    life_record(spare_event, OTHER);
    capture_begin(ORIGIN, NULL);
    assert_ok(tnr_free(captured_block(ORIGIN, 1)));
    spare_graph = capture_end(ORIGIN);
    (void)everything();
}

/* ---- never given out ------------------------------------------------------------------------ */

static void strangers_are_no_pools(void **state)
{
    (void)state;
    uintptr_t list[32];
    steps_start(NULL, NULL);
    things_make();
    size_t count = strangers(list, 32);
    for (size_t i = 0; i < count; i++)
        try_pool((tnr_pool)list[i]);
    /* And everything near one that is a pool: the address of its structure, another number. */
    tnr_pool pool = graph_pool("mine"), structure = tnri_pool_find(pool);
    assert_non_null(structure);
    tnri_pool_drop(structure);
    try_pool(structure);
    try_pool((tnr_pool)((uintptr_t)structure + 1));
    for (int bit = 0; bit < 64; bit++)
        try_pool((tnr_pool)((uintptr_t)pool ^ (uintptr_t)1 << bit));
    assert_int_equal(pool_stats(pool).pools, 1);
    assert_ok(tnr_pool_destroy(pool));
    try_pool(structure);
    recorded_destroy(&spare_graph);
}

static void strangers_are_no_graphs(void **state)
{
    (void)state;
    uintptr_t list[32];
    steps_start(NULL, NULL);
    things_make();
    size_t count = strangers(list, 32);
    for (size_t i = 0; i < count; i++)
        if (list[i] != spare_graph.number)
            try_graph(list[i] + 1000000); /* small numbers are those of graphs */
    try_graph(0);
    try_graph(UINT64_MAX);
    try_graph(spare_graph.number + 1);
    recorded ended = spare_graph;
    capture_begin(ORIGIN, NULL);
    assert_ok(tnr_free(captured_block(ORIGIN, 1)));
    spare_graph = capture_end(ORIGIN);
    recorded_destroy(&ended);
    steps_settle();
    try_graph(ended.number);
    recorded_destroy(&spare_graph);
}

static void strangers_are_no_blocks(void **state)
{
    (void)state;
    uintptr_t list[32];
    steps_start(NULL, NULL);
    things_make();
    size_t count = strangers(list, 32);
    for (size_t i = 0; i < count; i++)
        try_block((void *)list[i], TNR_ERR_FOREIGN_POINTER);
    tnr_device_info device = {.struct_bytes = sizeof(device)};
    assert_ok(tnr_device_get(&device, 0));
    try_block((void *)(device.address_base - 1), TNR_ERR_FOREIGN_POINTER);
    try_block((void *)(device.address_base + device.address_bytes), TNR_ERR_FOREIGN_POINTER);
    try_block((void *)(device.address_base + device.address_bytes - 1), TNR_ERR_NOT_LIVE);
    char *block = unit_malloc(64 * KIB, OTHER);
    assert_ok(tnr_free(block));
    try_block(block, TNR_ERR_NOT_LIVE);
    try_block(block + 1, TNR_ERR_NOT_LIVE);
    recorded_destroy(&spare_graph);
}

/* Before anything has been allocated: nothing is put into use for the sake of a stranger. */
static void nothing_starts_for_a_stranger(void **state)
{
    (void)state;
    uintptr_t list[32];
    steps_start(NULL, "DEVICES=2");
    things_make();
    size_t count = strangers(list, 32);
    tnr_device_info device = {.struct_bytes = sizeof(device)};
    device_of_calls = 1;
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < pool_calls.count; c++)
            if (!pool_calls.calls[c].starts)
                try_one(&pool_calls.calls[c], (given){.pool = (tnr_pool)list[i]},
                        pool_calls.calls[c].status);
    assert_ok(tnr_device_get(&device, 1));
    assert_int_equal(device.in_use, 0);
    recorded_destroy(&spare_graph);
}

/* ---- ended ---------------------------------------------------------------------------------- */

/* Whatever comes after it: other pools, pools of graphs, another start of the library. */
static void ended_pools_stay_ended(void **state)
{
    (void)state;
    enum { LATER = 40 };
    tnr_pool ended[4], later[LATER];
    steps_start(NULL, NULL);
    things_make();
    for (int i = 0; i < 2; i++) {
        assert_ok(tnr_pool_create(&ended[i], 0, NULL));
        assert_ok(tnr_pool_destroy(ended[i]));
    }
    ended[2] = graph_pool("graphs'");
    assert_ok(tnr_pool_destroy(ended[2]));
    recorded graph = spare_graph;
    ended[3] = graph_info(graph.number).pool;
    capture_begin(BRANCH, NULL);
    assert_ok(tnr_free(captured_block(BRANCH, 1)));
    spare_graph = capture_end(BRANCH);
    recorded_destroy(&graph);
    steps_settle();
    for (int i = 0; i < LATER; i++) {
        assert_ok(i % 2 ? tnr_pool_create(&later[i], 0, NULL)
                        : tnr_graph_pool_create(&later[i], 0, NULL));
        for (int e = 0; e < 4; e++)
            assert_ptr_not_equal(later[i], ended[e]);
    }
    assert_ptr_not_equal(graph_info(spare_graph.number).pool, ended[3]);
    for (int e = 0; e < 4; e++) {
        try_pool(ended[e]);
        assert_non_null(strstr(tnr_last_error(), "destroyed"));
    }
    for (int i = 0; i < LATER; i++)
        assert_ok(tnr_pool_destroy(later[i]));
    recorded_destroy(&spare_graph);
    steps_settle();
    assert_ok(tnr_shutdown(1));
    things_make();
    for (int i = 0; i < LATER; i++)
        assert_ok(tnr_pool_create(&later[i], 0, NULL));
    for (int e = 0; e < 4; e++)
        try_pool(ended[e]);
    recorded_destroy(&spare_graph);
}

static size_t pools_listed(void)
{
    size_t count = 0;
    for (tnr_pool pool = tnri_device_at(0)->pools; pool != NULL; pool = pool->next)
        count++;
    return count;
}

/* A round that leaves nothing. */
static void pools_come_and_go(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        tnr_pool pool, graphs;
        void *ptr;
        assert_ok(tnr_pool_create(&pool, 0, NULL));
        assert_ok(tnr_graph_pool_create(&graphs, 0, NULL));
        if (i % 50 == 0) {
            assert_ok(tnr_pool_malloc(&ptr, pool, 3 * MIB, 0, OTHER));
            assert_ok(tnr_free(ptr));
        }
        assert_ok(tnr_pool_destroy(i % 2 ? pool : graphs));
        assert_ok(tnr_pool_destroy(i % 2 ? graphs : pool));
    }
}

/* Who walks over pools meets the live ones only, and the dead ones leave no memory behind. */
static void dead_pools_cost_nothing(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    things_make();
    pools_come_and_go(100);
    uint64_t before = everything().metadata_bytes;
    assert_int_equal(pools_listed(), 2); /* the default one, and that of a graph */
    pools_come_and_go(1000);
    assert_int_equal(pools_listed(), 2);
    assert_int_equal(everything().pools, 2);
    uint64_t after = everything().metadata_bytes;
    if (after > before + before / 100)
        fail_msg("%llu bytes of metadata after 100 rounds, %llu after 1,000",
                 (unsigned long long)before, (unsigned long long)after);
    recorded_destroy(&spare_graph);
}

/* ---- at the same time ----------------------------------------------------------------------- */

static _Atomic(tnr_pool) shown;
static _Atomic int is_over;

/* Looks at whatever pool is shown, which may be ending, ended, or another one by now. */
static void *looker_main(void *unused)
{
    (void)unused;
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    while (!atomic_load(&is_over)) {
        tnr_pool pool = atomic_load(&shown);
        if (pool == NULL)
            continue;
        tnr_status status = tnr_stats_get(&stats, pool, 0);
        if (status != TNR_OK && status != TNR_ERR_INVALID_POOL)
            abort();
        (void)tnr_pool_generation(pool, 0);
        if (tnr_pool_push(pool) == TNR_OK && tnr_pool_pop(pool) != TNR_OK)
            abort();
    }
    return NULL;
}

static void looking_while_pools_end(void **state)
{
    (void)state;
    pthread_t lookers[2];
    steps_start(NULL, NULL);
    (void)unit_malloc(100, NULL);
    atomic_store(&is_over, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&lookers[i], NULL, looker_main, NULL), 0);
    for (int i = 0; i < 300; i++) {
        tnr_pool pool;
        void *ptr;
        assert_ok(tnr_pool_create(&pool, 0, NULL));
        atomic_store(&shown, pool);
        assert_ok(tnr_pool_malloc(&ptr, pool, 4096, 0, NULL));
        assert_ok(tnr_free(ptr));
        tnr_status status;
        while ((status = tnr_pool_destroy(pool)) == TNR_ERR_BUSY) /* a looker is routed to it */
            ;
        assert_ok(status);
    }
    atomic_store(&is_over, 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(lookers[i], NULL), 0);
}

static void *ender_main(void *of)
{
    if (tnr_pool_destroy(*(tnr_pool *)of) != TNR_OK)
        abort();
    return NULL;
}

/* Two threads that have both found a pool and destroy it: one of them does. The first waits for the
 * second, which holds the pool, and is refused. */
static void pools_end_once(void **state)
{
    (void)state;
    pthread_t ender;
    tnr_pool handle;
    steps_start(NULL, NULL);
    (void)unit_malloc(100, NULL);
    assert_ok(tnr_pool_create(&handle, 0, NULL));
    tnr_pool pool = tnri_pool_find(handle);
    assert_non_null(pool);
    assert_int_equal(pthread_create(&ender, NULL, ender_main, &handle), 0);
    while (atomic_load(&pool->live) != NULL)
        sched_yield();
    assert_error(tnri_pool_end(pool, 0), TNR_ERR_INVALID_POOL, "another thread");
    assert_error(tnr_pool_destroy(handle), TNR_ERR_INVALID_POOL, "destroyed");
    tnri_pool_drop(pool);
    assert_int_equal(pthread_join(ender, NULL), 0);
    assert_int_equal(everything().pools, 1);
}

/* ---- the headers ---------------------------------------------------------------------------- */

static char **headers;

/* The table that is to have a function, by its parameters: of what Tenure gave out, by value or in
 * options; null: they take nothing of that. */
static const call_table *table_for(const char *parameters)
{
    if (strstr(parameters, "tnr_pool pool") || strstr(parameters, "tnr_capture_options *"))
        return &pool_calls;
    if (strstr(parameters, "tnr_graph graph"))
        return &graph_calls;
    return strstr(parameters, "void *ptr") ? &block_calls : NULL;
}

static size_t header_check(const char *path)
{
    static char text[1 << 17];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t bytes = fread(text, 1, sizeof(text) - 1, file);
    assert_true(bytes > 0 && bytes < sizeof(text) - 1);
    text[bytes] = '\0';
    (void)fclose(file);
    size_t functions = 0;
    for (char *at = text; (at = strstr(at, "TNR_API ")) != NULL; at += 8) {
        char *open = strchr(at, '('), *end = strchr(at, ';');
        if (open == NULL || end == NULL || open > end)
            continue;
        char *name = open;
        while (isalnum((unsigned char)name[-1]) || name[-1] == '_')
            name--;
        *open = *end = '\0';
        const call_table *table = table_for(open + 1);
        functions++;
        if (table != NULL && call_find(table, name) == NULL)
            fail_msg("%s of %s takes a handle and is not in the tables of handle_calls.c", name,
                     path);
        *open = '(';
        *end = ';';
        at = end - 8;
    }
    return functions;
}

static void every_function_is_here(void **state)
{
    (void)state;
    size_t functions = 0;
    for (char **path = headers; *path != NULL; path++)
        functions += header_check(*path);
    assert_true(functions > 50);
}

static void *destroyer_main(void *pool)
{
    tnr_status status = tnr_pool_destroy(pool);
    return (void *)(uintptr_t)status;
}

/* A thread found the pool before it was said to end, and pushes it after the destroyer has asked
 * whether any did: then it does not end. */
static void pushed_while_it_ends(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    (void)unit_malloc(100, NULL);
    tnr_pool handle, pool;
    pthread_t destroyer;
    void *said;
    assert_ok(tnr_pool_create(&handle, 0, NULL));
    assert_ok(tnri_pool_resolve(handle, &pool)); /* as tnr_pool_push does */
    assert_int_equal(pthread_create(&destroyer, NULL, destroyer_main, handle), 0);
    while (atomic_load(&pool->live) != NULL)
        (void)sched_yield();
    atomic_fetch_add(&pool->routed_threads, 1);
    tnri_pool_drop(pool);
    assert_int_equal(pthread_join(destroyer, &said), 0);
    assert_int_equal((uintptr_t)said, TNR_ERR_BUSY);
    atomic_fetch_sub(&pool->routed_threads, 1);
    assert_ok(tnr_pool_push(handle)); /* it lives */
    assert_ok(tnr_pool_pop(handle));
    assert_ok(tnr_pool_destroy(handle));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_is_here),
        cmocka_unit_test_teardown(strangers_are_no_pools, steps_stop),
        cmocka_unit_test_teardown(strangers_are_no_graphs, steps_stop),
        cmocka_unit_test_teardown(strangers_are_no_blocks, steps_stop),
        cmocka_unit_test_teardown(nothing_starts_for_a_stranger, steps_stop),
        cmocka_unit_test_teardown(ended_pools_stay_ended, steps_stop),
        cmocka_unit_test_teardown(dead_pools_cost_nothing, steps_stop),
        cmocka_unit_test_teardown(looking_while_pools_end, steps_stop),
        cmocka_unit_test_teardown(pools_end_once, steps_stop),
        cmocka_unit_test_teardown(pushed_while_it_ends, steps_stop),
    };
    headers = argv + 1;
    return argc < 2 || steps_run(tests);
}
