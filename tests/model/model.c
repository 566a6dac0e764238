/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The random program of the model test: one step is one operation of a user, chosen by the seed,
 * and its outcome is checked against the naive state (state.h).
 */
#include "few.h"
#include "model.h"

#include <stdio.h>
#include <string.h>

#include "state.h"

/* Configurations that the seed picks from: the paths of the ladder depend on them. */
static const char *const confs[] = {
    "",
    "bin_blocks:0",
    "cross_stream:idle",
    "cross_stream:off",
    "chunk_share:1,chunk_max_mb:16",
    "garbage_collection_threshold:0.5",
    "release_threshold_mb:16",
    "stale_mappings_max:0",
    "stale_mappings_max:2,bin_blocks:3",
    "chunk_mb:4,small_limit_kb:64",
    "max_split_size_mb:8",
    "roundup_power2_divisions:[1:8,>:4]",
    "move_burst_ms:0,move_percent:0",
    "move_percent:100,chunk_max_mb:2,aliases_from:first",
};
enum { CONFS = sizeof(confs) / sizeof(confs[0]) };

/* ---- choosing ------------------------------------------------------------------------------- */

static uint64_t below(model *m, uint64_t bound)
{
    return unit_below(&m->random, bound);
}

/* Mostly small, some large, a few around the borders that the allocator knows. */
static size_t choose_bytes(model *m)
{
    static const size_t borders[] = {1,       511,     512,         513,     MIB - 1, MIB,
                                     MIB + 1, 2 * MIB, 2 * MIB + 1, 4 * MIB, 8 * MIB};
    switch (below(m, 8)) {
    case 0:
        return borders[below(m, sizeof(borders) / sizeof(borders[0]))];
    case 1:
    case 2:
        return 1 + below(m, 4 * KIB);
    case 3:
    case 4:
        return 512 * (1 + below(m, 20)); /* few sizes: bins */
    case 5:
        return 1 + below(m, MIB);
    case 6:
        return 1 + below(m, 6 * MIB);
    default:
        return 1 + below(m, 32 * MIB);
    }
}

/* The pool that tnr_malloc takes: the latest route, or the default. */
static int routed_pool(const model *m)
{
    return m->routes_count == 0 ? 0 : m->routes[m->routes_count - 1];
}

/* ---- operations ----------------------------------------------------------------------------- */

static void op_malloc(model *m, int aligned)
{
    if (m->live_count == LIVE_MAX)
        return;
    size_t bytes = choose_bytes(m);
    size_t alignment = aligned ? (size_t)1 << below(m, 24) : 1;
    int stream = (int)below(m, STREAMS);
    int pool = routed_pool(m);
    void *ptr = m;
    tnr_status status;
    if (aligned) {
        status = tnr_malloc_aligned(&ptr, bytes, alignment, DEVICE, m->streams[stream]);
    } else if (below(m, 4) == 0) {
        pool = (int)below(m, POOLS_MAX);
        if (!m->pools_live[pool])
            return;
        status = tnr_pool_malloc(&ptr, m->pools[pool], bytes, DEVICE, m->streams[stream]);
    } else {
        status = tnr_malloc(&ptr, bytes, DEVICE, m->streams[stream]);
    }
    model_note(m, status);
    if (status == TNR_OK) {
        model_note(m, (uintptr_t)ptr - m->address_base);
        model_add(m, ptr, bytes, alignment, pool, stream);
        return;
    }
    if (ptr != NULL)
        model_fail(m, "a failed allocation left an address");
    if (status != TNR_ERR_OUT_OF_MEMORY && status != TNR_ERR_LIMIT)
        model_fail(m, "an allocation of %zu bytes failed", bytes);
    m->ooms++;
}

static void op_free(model *m, size_t index)
{
    void *ptr = (void *)m->live[index].base;
    model_remove(m, index);
    if (tnr_free(ptr) != TNR_OK)
        model_fail(m, "%p cannot be freed", ptr);
}

static void op_free_random(model *m)
{
    if (m->live_count > 0)
        op_free(m, below(m, m->live_count));
}

/* Frees most blocks at once, as the end of an iteration does. */
static void op_free_many(model *m)
{
    size_t keep = m->live_count / 4;
    while (m->live_count > keep)
        op_free_random(m);
}

/* Frees that must be refused, and change nothing. */
static void op_free_wrong(model *m)
{
    int on_host = 0;
    if (tnr_free(&on_host) != TNR_ERR_FOREIGN_POINTER)
        model_fail(m, "a pointer to the host's memory was not refused");
    if (m->live_count == 0)
        return;
    size_t index = below(m, m->live_count);
    uintptr_t base = m->live[index].base;
    size_t offset = 1 + below(m, 1023);
    if (offset < m->live[index].bytes &&
        tnr_free((void *)(base + offset)) != TNR_ERR_INTERIOR_POINTER)
        model_fail(m, "a pointer %zu bytes inside %#zx was not refused", offset, (size_t)base);
    op_free(m, index);
    if (tnr_free((void *)base) != TNR_ERR_NOT_LIVE)
        model_fail(m, "the second free of %#zx was not refused", (size_t)base);
}

static void op_trim(model *m)
{
    size_t keep = below(m, 4) * 16 * MIB;
    size_t released;
    if (tnr_trim(&released, keep, DEVICE) != TNR_OK)
        model_fail(m, "tnr_trim failed");
    model_note(m, released);
    tnr_stats stats;
    stats.struct_bytes = sizeof(stats);
    if (tnr_stats_get(&stats, NULL, DEVICE) != TNR_OK ||
        stats.reserved_bytes.current + released > m->reserved_before)
        model_fail(m, "%zu bytes were released, but %llu of %llu are still mapped", released,
                   (unsigned long long)stats.reserved_bytes.current,
                   (unsigned long long)m->reserved_before);
}

static void op_limit(model *m)
{
    static const size_t limits[] = {SIZE_MAX, 64 * MIB, 96 * MIB, 160 * MIB};
    m->limit = limits[below(m, 4)];
    if (tnr_limit_set(m->limit, DEVICE) != TNR_OK)
        model_fail(m, "the limit cannot be set");
}

static void pool_end(model *m, int pool)
{
    for (size_t i = m->live_count; i-- > 0;)
        if (m->live[i].pool == pool)
            op_free(m, i);
    if (tnr_pool_destroy(m->pools[pool]) != TNR_OK)
        model_fail(m, "pool %d cannot be destroyed", pool);
    void *ptr;
    if (tnr_pool_malloc(&ptr, m->pools[pool], 1, DEVICE, NULL) != TNR_ERR_INVALID_POOL)
        model_fail(m, "a destroyed pool was not recognised");
    m->pools[pool] = NULL;
    m->pools_live[pool] = 0;
}

/* Makes a pool, or destroys one that nobody is routed to. */
static void op_pool(model *m)
{
    int pool = 1 + (int)below(m, POOLS_MAX - 1);
    if (m->pools_live[pool]) {
        for (int i = 0; i < m->routes_count; i++)
            if (m->routes[i] == pool)
                return;
        pool_end(m, pool);
        return;
    }
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    m->pool_limit[pool] = UINT64_MAX;
    if (below(m, 2) == 0)
        m->pool_limit[pool] = options.limit_bytes = (16 + below(m, 64)) * MIB;
    if (below(m, 3) == 0)
        options.release_threshold_bytes = 4 * MIB;
    if (tnr_pool_create(&m->pools[pool], DEVICE, &options) != TNR_OK)
        model_fail(m, "a pool cannot be made");
    m->pools_live[pool] = 1;
}

static void op_route(model *m)
{
    if (m->routes_count > 0 && below(m, 2) == 0) {
        int pool = m->routes[--m->routes_count];
        if (tnr_pool_pop(m->pools[pool]) != TNR_OK)
            model_fail(m, "the route cannot be ended");
        return;
    }
    int pool = 1 + (int)below(m, POOLS_MAX - 1);
    if (!m->pools_live[pool] || m->routes_count == 16)
        return;
    if (tnr_pool_push(m->pools[pool]) != TNR_OK)
        model_fail(m, "the thread cannot be routed");
    m->routes[m->routes_count++] = pool;
}

static void step(model *m)
{
    uint64_t choice = below(m, 1000);
    if (choice < 440)
        op_malloc(m, 0);
    else if (choice < 480)
        op_malloc(m, 1);
    else if (choice < 920)
        op_free_random(m);
    else if (choice < 950)
        (void)simcuda_run(below(m, 64));
    else if (choice < 965)
        op_free_wrong(m);
    else if (choice < 972)
        op_trim(m);
    else if (choice < 980)
        op_route(m);
    else if (choice < 985)
        op_pool(m);
    else if (choice < 990)
        op_limit(m);
    else if (choice < 994)
        op_free_many(m);
    else
        model_compare_contents(m);
}

/* ---- a run ---------------------------------------------------------------------------------- */

static void run_begin(model *m, uint64_t seed)
{
    char sim_seed[40];
    char conf[160];
    memset(m, 0, sizeof(*m));
    m->seed = m->random = seed;
    snprintf(sim_seed, sizeof(sim_seed), "SEED=%llu", (unsigned long long)seed);
    snprintf(conf, sizeof(conf), "address_space_gb:%d,%s", few_or(512, 64), confs[below(m, CONFS)]);
    unit_start(conf, "MEMORY=192M", sim_seed, NULL);
    for (int i = 1; i < STREAMS; i++)
        m->streams[i] = unit_stream(DEVICE);
    void *first;
    assert_ok(tnr_malloc(&first, 1, DEVICE, NULL)); /* puts the device into use */
    assert_ok(tnr_free(first));
    tnr_device_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_device_get(&info, DEVICE));
    m->address_base = info.address_base;
    m->reserved_before = unit_stats().reserved_bytes.current;
    m->limit = SIZE_MAX;
    m->pool_limit[0] = UINT64_MAX;
    m->pools_live[0] = 1;
    CUcontext context;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, DEVICE), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    void *words;
    assert_int_equal(cuMemHostAlloc(&words, CHECKS_MAX * 2 * sizeof(uint32_t), 0), CUDA_SUCCESS);
    m->words = words;
}

/* Everything is given back, and every counter returns to zero. */
static void run_end(model *m)
{
    while (m->live_count > 0)
        op_free(m, m->live_count - 1);
    model_compare_contents(m);
    tnr_stats stats = unit_stats();
    if (stats.bytes_live != 0 || stats.bytes_slack != 0 ||
        stats.allocation[TNR_WORLD_ALL].current != 0)
        model_fail(m, "counters have not returned to zero");
    if (tnr_trim(NULL, 0, DEVICE) != TNR_OK || unit_stats().reserved_bytes.current != 0)
        model_fail(m, "tnr_trim(0) leaves %llu bytes mapped",
                   (unsigned long long)unit_stats().reserved_bytes.current);
    simcuda_live live;
    if (simcuda_live_get(DEVICE, &live) != 0 || live.handles != 0)
        model_fail(m, "%llu handles are left after tnr_trim(0)", (unsigned long long)live.handles);
    if (tnr_shutdown(0) != TNR_OK)
        model_fail(m, "tnr_shutdown failed");
    (void)simcuda_live_get(DEVICE, &live);
    if (live.handles != 0 || live.mappings != 0 || live.reservations != 0 || live.events != 0)
        model_fail(m, "something is left on the device after tnr_shutdown");
    assert_int_equal(cuMemFreeHost(m->words), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(DEVICE), CUDA_SUCCESS);
}

uint64_t model_run(uint64_t seed, size_t steps)
{
    static model m;
    run_begin(&m, seed);
    for (m.step = 0; m.step < steps; m.step++) {
        step(&m);
        model_check_lookup(&m);
        model_check_stats(&m);
        if (m.step % 64 == 0 && tnr_validate(DEVICE) != TNR_OK)
            model_fail(&m, "tnr_validate found something");
    }
    run_end(&m);
    return m.trail;
}
