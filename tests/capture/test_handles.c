/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every public function that takes something that Tenure gave out (a pool, a graph's number, a
 * block), with values that it never gave out, and with some that have ended: the status that the
 * manual names, and nothing is read, made or changed. The functions are those of the headers, which
 * are this program's arguments: one that is not in the tables here fails the test.
 *
 * What was taken out, and what failed then:
 *   tnri_pool_find without the comparison of the handle: ended_pools_stay_ended
 *   tnri_pool_find with an address as it was (a handle was the address of the structure): a crash
 *   tnri_pool_new with a serial number that begins anew after a shutdown: ended_pools_stay_ended
 *   pool_unpublish in tnri_pool_end: no end, as soon as a pool comes after a destroyed one
 *   handle_check in turn_begin: nothing_starts_for_a_stranger
 *   the hold in tnri_pool_find: no end, or a crash
 *   the exchange in tnri_pool_end, with a store in its place: pools_end_once (no end)
 */
#include "steps.h"

#include <ctype.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tenure/export.h>
#include <tenure/history.h>
#include <tenure/park.h>
#include <tenure/tag.h>

#include "device/device.h"
#include "pool/handle.h"
#include "library/pool_end.h"
#include "pool/pool.h"

/* ---- the calls ------------------------------------------------------------------------------ */

/* What a call is given; the rest of its arguments is right. */
typedef struct given {
    tnr_pool pool;
    tnr_graph graph;
    void *ptr;
} given;

static recorded spare_graph; /* one that lives, for calls that need a CUDA graph */
static CUevent spare_event;  /* announced */
static int device_of_calls;

static tnr_status pool_destroy(given it)
{
    return tnr_pool_destroy(it.pool);
}

static tnr_status pool_malloc(given it)
{
    void *ptr = &ptr;
    tnr_status status = tnr_pool_malloc(&ptr, it.pool, 4096, device_of_calls, NULL);
    assert_null(ptr);
    return status;
}

static tnr_status pool_malloc_at(given it)
{
    return tnr_pool_malloc_at((void *)(uintptr_t)4096, it.pool, 4096, device_of_calls, NULL);
}

static void walk_nothing(const tnr_stretch *stretch, void *user)
{
    (void)stretch;
    (void)user;
}

static tnr_status pool_vouch(given it)
{
    return tnr_graph_pool_vouch(it.pool);
}

static tnr_status memory_walk(given it)
{
    return tnr_memory_walk(it.pool, device_of_calls, walk_nothing, NULL);
}

static tnr_status pool_push(given it)
{
    return tnr_pool_push(it.pool);
}

static tnr_status pool_pop(given it)
{
    return tnr_pool_pop(it.pool);
}

static tnr_status pool_trim(given it)
{
    size_t released = 1;
    tnr_status status = tnr_pool_trim(&released, it.pool, 0, device_of_calls);
    assert_int_equal(released, 0);
    return status;
}

static tnr_status pool_limit_set(given it)
{
    return tnr_pool_limit_set(it.pool, 0, device_of_calls);
}

static tnr_status pool_access_set(given it)
{
    return tnr_pool_access_set(it.pool, device_of_calls, 1 - device_of_calls, TNR_ACCESS_READWRITE);
}

static tnr_status pool_access_get(given it)
{
    tnr_access access = TNR_ACCESS_READWRITE;
    tnr_status status = tnr_pool_access_get(&access, it.pool, device_of_calls, 1 - device_of_calls);
    assert_int_equal(access, TNR_ACCESS_NONE);
    return status;
}

static tnr_status stats_get(given it)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    return tnr_stats_get(&stats, it.pool, device_of_calls);
}

static tnr_status stats_json(given it)
{
    char text[64] = "untouched";
    size_t bytes = tnr_stats_json(text, sizeof(text), it.pool, device_of_calls);
    assert_string_equal(text, "");
    return bytes == 0 ? TNR_ERR_INVALID_POOL : TNR_OK;
}

static tnr_status pool_sleep(given it)
{
    return tnr_pool_sleep(it.pool, device_of_calls, NULL);
}

static tnr_status pool_wake(given it)
{
    return tnr_pool_wake(it.pool, device_of_calls);
}

static tnr_status pool_generation(given it)
{
    return tnr_pool_generation(it.pool, device_of_calls) == 0 ? TNR_ERR_INVALID_POOL : TNR_OK;
}

static tnr_status capture_begin_into(given it)
{
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.pool = it.pool;
    tnr_status status = tnr_capture_begin(0, ORIGIN, &options);
    assert_int_equal(capture_status(ORIGIN), CU_STREAM_CAPTURE_STATUS_NONE);
    return status;
}

static tnr_status capture_attach_into(given it)
{
    tnr_graph graph = 1;
    CUgraph made = NULL;
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.pool = it.pool;
    assert_int_equal(cuStreamBeginCapture(ORIGIN, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    tnr_status status = tnr_capture_attach(&graph, 0, ORIGIN, &options);
    assert_int_equal(graph, 0);
    assert_int_equal(cuStreamEndCapture(ORIGIN, &made), CUDA_SUCCESS);
    assert_int_equal(cuGraphDestroy(made), CUDA_SUCCESS);
    return status;
}

static tnr_status graph_get(given it)
{
    tnr_graph_info info = {.struct_bytes = sizeof(info)};
    return tnr_graph_get(&info, it.graph);
}

static tnr_status graph_launch(given it)
{
    return tnr_graph_launch(it.graph, spare_graph.exec, ORIGIN);
}

static tnr_status graph_launching(given it)
{
    return tnr_graph_launching(it.graph, ORIGIN);
}

static tnr_status capture_ended(given it)
{
    return tnr_capture_ended(it.graph, spare_graph.cuda);
}

/* 0 is none, which an audit may be told. */
static tnr_status graph_audit(given it)
{
    tnr_audit audit = {.struct_bytes = sizeof(audit)};
    return it.graph == 0 ? TNR_ERR_INVALID_GRAPH
                         : tnr_graph_audit(&audit, spare_graph.cuda, it.graph, NULL, NULL);
}

static tnr_status graph_audit_write(given it)
{
    return it.graph == 0
               ? TNR_ERR_INVALID_GRAPH
               : tnr_graph_audit_write(spare_graph.cuda, it.graph, TNR_AUDIT_TEXT, STDOUT_FILENO);
}

static tnr_status block_free(given it)
{
    return tnr_free(it.ptr);
}

static tnr_status memory_registered(given it)
{
    return tnr_memory_registered(it.ptr);
}

static tnr_status block_get(given it)
{
    tnr_block_info info;
    return tnr_block_get(&info, it.ptr);
}

static tnr_status block_commit(given it)
{
    return tnr_commit(it.ptr, 4096);
}

static tnr_status record_use(given it)
{
    return tnr_record_use(it.ptr, ORIGIN);
}

static tnr_status record_stream(given it)
{
    return tnr_record_stream(it.ptr, ORIGIN);
}

static tnr_status keep_until(given it)
{
    return tnr_keep_until(it.ptr, spare_event);
}

static tnr_status free_on(given it)
{
    return tnr_free_on(it.ptr, ORIGIN);
}

static tnr_status free_sync(given it)
{
    return tnr_free_sync(it.ptr);
}

static tnr_status content_set(given it)
{
    return tnr_block_content_set(it.ptr, TNR_CONTENT_KEEP);
}

static tnr_status block_park(given it)
{
    return tnr_park(NULL, it.ptr, ORIGIN, TNR_CONTENT_DISCARD);
}

static tnr_status block_unpark(given it)
{
    return tnr_unpark(it.ptr, ORIGIN);
}

static tnr_status tag_of(given it)
{
    const char *tag = "no tag";
    tnr_status status = tnr_tag_of(&tag, it.ptr);
    assert_null(tag);
    return status;
}

static tnr_status export_create(given it)
{
    tnr_export exported;
    return tnr_export_create(&exported, it.ptr);
}

static tnr_status export_offer(given it)
{
    tnr_export_name name;
    return tnr_export_offer(&name, it.ptr);
}

static tnr_status import_get(given it)
{
    tnr_import_info info = {.struct_bytes = sizeof(info)};
    return tnr_import_get(&info, it.ptr);
}

static tnr_status import_close(given it)
{
    return tnr_import_close(it.ptr);
}

/* One public function. `starts`: it may put a device into use before it looks. */
typedef struct call {
    const char *name;
    tnr_status (*body)(given it);
    tnr_status status;
    int starts;
} call;

static const call pool_calls[] = {
    {"tnr_pool_destroy", pool_destroy, TNR_ERR_INVALID_POOL, 0},
    {"tnr_pool_malloc", pool_malloc, TNR_ERR_INVALID_POOL, 0},
    {"tnr_pool_malloc_at", pool_malloc_at, TNR_ERR_INVALID_POOL, 0},
    {"tnr_graph_pool_vouch", pool_vouch, TNR_ERR_INVALID_POOL, 0},
    {"tnr_memory_walk", memory_walk, TNR_ERR_INVALID_POOL, 0},
    {"tnr_pool_push", pool_push, TNR_ERR_INVALID_POOL, 0},
    {"tnr_pool_pop", pool_pop, TNR_ERR_INVALID_ARGUMENT, 0},
    {"tnr_pool_trim", pool_trim, TNR_ERR_INVALID_POOL, 0},
    {"tnr_pool_access_get", pool_access_get, TNR_ERR_INVALID_POOL, 0},
    {"tnr_pool_access_set", pool_access_set, TNR_ERR_INVALID_POOL, 0},
    {"tnr_pool_limit_set", pool_limit_set, TNR_ERR_INVALID_POOL, 0},
    {"tnr_stats_get", stats_get, TNR_ERR_INVALID_POOL, 0},
    {"tnr_stats_json", stats_json, TNR_ERR_INVALID_POOL, 0},
    {"tnr_pool_sleep", pool_sleep, TNR_ERR_INVALID_POOL, 0},
    {"tnr_pool_wake", pool_wake, TNR_ERR_INVALID_POOL, 0},
    {"tnr_pool_generation", pool_generation, TNR_ERR_INVALID_POOL, 0},
    {"tnr_capture_begin", capture_begin_into, TNR_ERR_INVALID_POOL, 1},
    {"tnr_capture_attach", capture_attach_into, TNR_ERR_INVALID_POOL, 1},
};

static const call graph_calls[] = {
    {"tnr_graph_get", graph_get, TNR_ERR_INVALID_GRAPH, 0},
    {"tnr_graph_launch", graph_launch, TNR_ERR_INVALID_GRAPH, 0},
    {"tnr_graph_launching", graph_launching, TNR_ERR_INVALID_GRAPH, 0},
    {"tnr_capture_ended", capture_ended, TNR_ERR_INVALID_GRAPH, 0},
    {"tnr_graph_audit", graph_audit, TNR_ERR_INVALID_GRAPH, 0},
    {"tnr_graph_audit_write", graph_audit_write, TNR_ERR_INVALID_GRAPH, 0},
};

/* The status is for addresses that are not Tenure's. */
static const call block_calls[] = {
    {"tnr_free", block_free, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_block_get", block_get, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_memory_registered", memory_registered, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_commit", block_commit, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_record_use", record_use, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_record_stream", record_stream, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_keep_until", keep_until, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_free_on", free_on, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_free_sync", free_sync, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_block_content_set", content_set, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_park", block_park, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_unpark", block_unpark, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_tag_of", tag_of, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_export_create", export_create, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_export_offer", export_offer, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_import_get", import_get, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_import_close", import_close, TNR_ERR_FOREIGN_POINTER, 0},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const call *call_find(const call *calls, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(calls[i].name, name) == 0)
            return &calls[i];
    return NULL;
}

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
    for (size_t i = 0; i < COUNT(pool_calls); i++)
        try_one(&pool_calls[i], (given){.pool = pool}, pool_calls[i].status);
}

static void try_graph(tnr_graph graph)
{
    for (size_t i = 0; i < COUNT(graph_calls); i++)
        try_one(&graph_calls[i], (given){.graph = graph}, graph_calls[i].status);
}

static void try_block(void *ptr, tnr_status expected)
{
    for (size_t i = 0; i < COUNT(block_calls); i++)
        try_one(&block_calls[i], (given){.ptr = ptr},
                strncmp(block_calls[i].name, "tnr_import", 10) == 0
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
        for (size_t c = 0; c < COUNT(pool_calls); c++)
            if (!pool_calls[c].starts)
                try_one(&pool_calls[c], (given){.pool = (tnr_pool)list[i]}, pool_calls[c].status);
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

/* 1 if the parameters take what Tenure gave out, by value or in options; then *calls is the table
 * that is to have the function. */
static int takes_a_handle(const char *parameters, const call **calls, size_t *count)
{
    if (strstr(parameters, "tnr_pool pool") || strstr(parameters, "tnr_capture_options *")) {
        *calls = pool_calls;
        *count = COUNT(pool_calls);
    } else if (strstr(parameters, "tnr_graph graph")) {
        *calls = graph_calls;
        *count = COUNT(graph_calls);
    } else if (strstr(parameters, "void *ptr")) {
        *calls = block_calls;
        *count = COUNT(block_calls);
    } else {
        return 0;
    }
    return 1;
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
        const call *calls;
        size_t count;
        functions++;
        if (takes_a_handle(open + 1, &calls, &count) && call_find(calls, count, name) == NULL)
            fail_msg("%s of %s takes a handle and is not in the tables here", name, path);
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
    };
    headers = argv + 1;
    return argc < 2 || steps_run(tests);
}
