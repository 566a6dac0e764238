/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeping and waking pools: addresses, memory really given back, what is refused meanwhile, what
 * goes on, callbacks, and the ends of a pool that sleeps.
 *
 * Lines changed in the library to see a test fail:
 *   set_lower without tnri_chunk_sleep: memory_goes_back
 *   tnri_generation_advance in set_sleep: sleeping_pools_serve_nobody (a cached arena served)
 *   tnri_pool_arena without the test for awake: sleeping_pools_serve_nobody
 *   tnri_uppers_pool_end(pool, 1) in tnri_pool_end: ends_while_asleep (host and pinned memory left)
 *   stale_unmap always by tnri_pages_unmap: ends_while_asleep
 *   tnri_release_idle in set_wake: wake_takes_idle_memory
 *   tnri_pool_is_awake in holders_find: memory_goes_back
 *   cuCtxSynchronize in set_drain: work_is_waited_for (unmapped under work)
 *   set_select in set_wake_up: idempotent (callbacks of pools that were awake)
 *   is_in_turn in turn_begin: callbacks_do_not_sleep (hangs)
 *   pool_lives in set_list: empty_pools_wake_without_memory
 *   set_list, the second call in set_wake: what_lives_wakes_alone
 *   part_alike, always there: what_lives_wakes_alone (no end)
 *   TNRI_WAKING in stale_unmap: what_lives_wakes_alone (the simulated device: nothing is mapped)
 */
#include "sleep.h"
#include "few.h"

#include <string.h>

static void memory_goes_back(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=eager", "MEMORY=256M", NULL);
    sleep_context_enter();
    tnr_pool pool;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    void *a, *b, *small;
    assert_ok(tnr_pool_malloc(&a, pool, 100 * MIB, 0, NULL));
    assert_ok(tnr_pool_malloc(&b, pool, 30 * MIB, 0, unit_stream(0)));
    assert_ok(tnr_pool_malloc(&small, pool, 700, 0, NULL));
    void *other = unit_malloc(8 * MIB, NULL);
    sleep_fill(a, 100 * MIB, 1, NULL);
    sleep_fill(b, 30 * MIB, 2, NULL);
    sleep_fill(small, 700, 3, NULL);
    sleep_fill(other, 8 * MIB, 4, NULL);
    uint64_t reserved = sleep_stats(pool).reserved_bytes.current;
    uint64_t chunks = sleep_stats(pool).segment.current;
    assert_int_equal(sleep_device_bytes(), reserved + 8 * MIB);

    assert_ok(tnr_pool_sleep(pool, 0, NULL));
    assert_int_equal(sleep_device_bytes(), 8 * MIB);
    tnr_stats stats = sleep_stats(pool);
    assert_int_equal(stats.reserved_bytes.current, 0);
    assert_int_equal(stats.bytes_asleep, reserved);
    assert_int_equal(stats.segment.current, 0);
    assert_int_equal(stats.bytes_live, 130 * MIB + 700);
    assert_int_equal(stats.sleeps, 1);
    assert_int_equal(stats.wakes, 0);
    /* Who sleeps is none of those that hold memory. */
    void *none;
    assert_error(tnr_malloc(&none, 250 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY,
                 "8.00 MiB live, nothing free");
    assert_null(strstr(tnr_last_error(), "100"));
    /* Whatever else wants the memory can have all of it. */
    CUdeviceptr large;
    assert_int_equal(cuMemAlloc(&large, 248 * MIB), CUDA_SUCCESS);
    assert_error(tnr_pool_wake(pool, 0), TNR_ERR_OUT_OF_MEMORY, NULL);
    stats = sleep_stats(pool);
    assert_int_equal(stats.bytes_asleep, reserved);
    assert_int_equal(cuMemFree(large), CUDA_SUCCESS);

    assert_ok(tnr_pool_wake(pool, 0));
    stats = sleep_stats(pool);
    assert_int_equal(stats.reserved_bytes.current, reserved);
    assert_int_equal(stats.bytes_asleep, 0);
    assert_int_equal(stats.segment.current, chunks);
    assert_int_equal(stats.wakes, 1);
    assert_int_equal(sleep_device_bytes(), reserved + 8 * MIB);
    sleep_check(a, 100 * MIB, 1);
    sleep_check(b, 30 * MIB, 2);
    sleep_check(small, 700, 3);
    sleep_check(other, 8 * MIB, 4);
    assert_int_equal(sleep_pinned_bytes(), 0);
    sleep_context_leave();
}

/* Whatever was freed meanwhile, also memory that waits for another stream's use. */
static void empty_pools_wake_without_memory(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=eager", "MEMORY=256M", NULL);
    sleep_context_enter();
    tnr_pool pool;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    void *a, *b, *none;
    tnr_stream other = unit_stream(0);
    assert_ok(tnr_pool_malloc(&a, pool, 100 * MIB, 0, NULL));
    assert_ok(tnr_pool_malloc(&b, pool, 30 * MIB, 0, other));
    sleep_fill(a, 100 * MIB, 1, NULL);
    assert_ok(tnr_pool_sleep(pool, 0, NULL));
    assert_ok(tnr_free(a));
    assert_ok(tnr_record_use(b, NULL));
    assert_ok(tnr_free(b));
    assert_ok(tnr_limit_set(8 * MIB, 0));
    assert_error(tnr_pool_malloc(&none, pool, MIB, 0, NULL), TNR_ERR_ASLEEP, NULL);
    assert_ok(tnr_pool_wake(pool, 0));
    assert_int_equal(sleep_stats(pool).reserved_bytes.current, 0);
    assert_int_equal(sleep_stats(pool).bytes_asleep, 0);
    assert_int_equal(sleep_device_bytes(), 0);
    assert_int_equal(sleep_pinned_bytes(), 0);
    assert_ok(tnr_pool_malloc(&a, pool, 6 * MIB, 0, NULL)); /* and it serves */
    sleep_fill(a, 6 * MIB, 2, NULL);
    assert_error(tnr_pool_malloc(&none, pool, 6 * MIB, 0, other), TNR_ERR_LIMIT, NULL);
    assert_ok(tnr_free(a));
    assert_ok(tnr_limit_set(SIZE_MAX, 0)); /* with room as well */
    assert_ok(tnr_pool_sleep(pool, 0, NULL));
    assert_ok(tnr_pool_wake(pool, 0));
    assert_int_equal(sleep_device_bytes(), 0);
    assert_ok(tnr_pool_destroy(pool));
    sleep_context_leave();
}

/* Three blocks, of which the second is freed asleep: its memory, in the middle of what was kept,
 * comes back if there is room, and else not; what lives has its contents. */
static void wakes_alone(size_t pinned_bytes_max, int discards)
{
    unit_start(NULL, "SCHEDULE=eager", "MEMORY=1G", NULL);
    sleep_context_enter();
    tnr_pool pool;
    tnr_sleep_options options = TNR_SLEEP_OPTIONS_INIT;
    options.pinned_bytes_max = pinned_bytes_max;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    void *a, *b, *c, *small;
    assert_ok(tnr_pool_malloc(&a, pool, 50 * MIB, 0, NULL));
    assert_ok(tnr_pool_malloc(&b, pool, 120 * MIB, 0, NULL));
    assert_ok(tnr_pool_malloc(&c, pool, 50 * MIB, 0, NULL));
    assert_ok(tnr_pool_malloc(&small, pool, 700, 0, NULL));
    if (discards)
        assert_ok(tnr_block_content_set(b, TNR_CONTENT_DISCARD));
    sleep_fill(a, 50 * MIB, 1, NULL);
    sleep_fill(c, 50 * MIB, 3, NULL);
    sleep_fill(small, 700, 4, NULL);
    assert_ok(tnr_pool_sleep(pool, 0, &options));
    assert_ok(tnr_free(b));
    uint64_t asleep = sleep_stats(pool).bytes_asleep;
    assert_ok(tnr_limit_set(60 * MIB, 0)); /* not even for what lives: it sleeps on */
    for (int i = 0; i < 2; i++) {
        assert_error(tnr_pool_wake(pool, 0), TNR_ERR_LIMIT, "60");
        assert_int_equal(sleep_device_bytes(), 0);
        assert_in_range(sleep_stats(pool).bytes_asleep, 100 * MIB, asleep - 100 * MIB);
    }
    assert_ok(tnr_limit_set(112 * MIB, 0));
    assert_ok(tnr_pool_wake(pool, 0));
    assert_in_range(sleep_stats(pool).reserved_bytes.current, 100 * MIB, 112 * MIB);
    assert_int_equal(sleep_stats(pool).bytes_asleep, 0);
    sleep_check(a, 50 * MIB, 1);
    sleep_check(c, 50 * MIB, 3);
    sleep_check(small, 700, 4);
    assert_ok(tnr_limit_set(SIZE_MAX, 0));
    assert_ok(tnr_pool_malloc(&b, pool, 120 * MIB, 0, NULL));
    sleep_fill(b, 120 * MIB, 2, NULL);
    assert_ok(tnr_pool_sleep(pool, 0, &options));
    assert_ok(tnr_pool_wake(pool, 0));
    sleep_check(a, 50 * MIB, 1);
    sleep_check(b, 120 * MIB, 2);
    sleep_check(c, 50 * MIB, 3);
    assert_ok(tnr_pool_sleep(pool, 0, &options)); /* with room, what is free comes back too */
    asleep = sleep_stats(pool).bytes_asleep;
    assert_ok(tnr_free(b));
    assert_ok(tnr_pool_wake(pool, 0));
    assert_int_equal(sleep_stats(pool).reserved_bytes.current, asleep);
    sleep_context_leave();
}

static void what_lives_wakes_alone(void **state)
{
    (void)state;
    if (few_or(1, 0)) {
        wakes_alone(0, 0);
        wakes_alone(0, 1);
    }
    wakes_alone(64 * MIB, 0); /* through the ring */
}

static void sleeping_pools_serve_nobody(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=eager", NULL);
    tnr_stream stream = unit_stream(0);
    void *live = unit_malloc(5 * MIB, stream);
    void *grows;
    assert_ok(tnr_reserve(&grows, 64 * MIB, 0, stream));
    assert_ok(tnr_commit(grows, 3 * MIB));
    void *binned = unit_malloc(4 * KIB, stream);
    assert_ok(tnr_free(binned));
    void *free_run = unit_malloc(9 * MIB, stream);
    assert_ok(tnr_free(free_run));
    tnr_pool awake;
    assert_ok(tnr_pool_create(&awake, 0, NULL));

    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    uint64_t calls = simcuda_calls_total();
    void *ptr = live;
    assert_error(tnr_malloc(&ptr, 4 * KIB, 0, stream), TNR_ERR_ASLEEP, "tnr_pool_wake");
    assert_null(ptr);
    assert_error(tnr_malloc(&ptr, 9 * MIB, 0, stream), TNR_ERR_ASLEEP, NULL);
    assert_error(tnr_malloc(&ptr, 1, 0, unit_stream(0)), TNR_ERR_ASLEEP, NULL);
    assert_error(tnr_malloc_aligned(&ptr, 1, 4096, 0, NULL), TNR_ERR_ASLEEP, NULL);
    assert_error(tnr_pool_malloc(&ptr, NULL, 1, 0, NULL), TNR_ERR_ASLEEP, NULL);
    assert_error(tnr_reserve(&ptr, 64 * MIB, 0, stream), TNR_ERR_ASLEEP, NULL);
    assert_error(tnr_commit(grows, 30 * MIB), TNR_ERR_ASLEEP, NULL);
    size_t released = 1;
    assert_ok(tnr_trim(&released, 0, 0));
    assert_int_equal(released, 0);
    (void)calls;
    /* Others are served, also in between the failures. */
    assert_ok(tnr_pool_malloc(&ptr, awake, 5 * MIB, 0, stream));
    assert_ok(tnr_free(ptr));
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, (char *)live + MIB));
    assert_ptr_equal(info.base, live);
    assert_ok(tnr_record_use(live, unit_stream(0)));

    assert_ok(tnr_pool_wake(NULL, 0));
    ptr = unit_malloc(9 * MIB, stream);
    assert_ptr_equal(ptr, free_run); /* as before: the sleep has not changed the pool */
    assert_ok(tnr_commit(grows, 30 * MIB));
    assert_ok(tnr_free(grows));
    assert_ok(tnr_free(live));
    assert_ok(tnr_free(ptr));
}

/* Frees go on, with uses and without; the memory is free after the wake. */
static void frees_go_on(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2", "SCHEDULE=eager", NULL);
    sleep_context_enter();
    tnr_stream stream = unit_stream(0), other = unit_stream(0);
    void *plain = unit_malloc(6 * MIB, stream);
    void *used = unit_malloc(8 * MIB, stream);
    void *streamed = unit_malloc(10 * MIB, stream);
    void *small = unit_malloc(512, stream);
    void *kept = unit_malloc(4 * MIB, stream);
    sleep_fill(kept, 4 * MIB, 9, stream);
    assert_ok(tnr_record_use(used, other));
    assert_ok(tnr_record_stream(streamed, other));
    assert_ok(tnr_device_sleep(0, NULL));
    assert_ok(tnr_free(plain));
    assert_ok(tnr_free(used));
    assert_ok(tnr_free(streamed));
    assert_ok(tnr_free(small));
    assert_error(tnr_free(small), TNR_ERR_NOT_LIVE, NULL);
    assert_int_equal(unit_stats().bytes_live, 4 * MIB);
    assert_int_equal(sleep_device_bytes(), 0);
    assert_ok(tnr_device_wake(0));
    assert_int_equal(unit_stats().bytes_live, 4 * MIB);
    sleep_check(kept, 4 * MIB, 9);
    void *again = unit_malloc(24 * MIB, stream); /* out of what was freed */
    assert_int_equal(unit_stats().reserved_bytes.current, 30 * MIB);
    sleep_fill(again, 24 * MIB, 1, stream);
    sleep_check(again, 24 * MIB, 1);
    sleep_check(kept, 4 * MIB, 9);
    assert_ok(tnr_free(again));
    assert_ok(tnr_free(kept));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(sleep_device_bytes(), 0);
    sleep_context_leave();
}

/* Work is queued on the pool and behind moved chunks: the sleep waits for all of it. */
static void work_is_waited_for(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2,lend:off", "SCHEDULE=lazy", "RACES=1", NULL);
    sleep_context_enter();
    tnr_stream a = unit_stream(0), b = unit_stream(0);
    void *first = unit_malloc(16 * MIB, a);
    sleep_fill(first, 16 * MIB, 1, a);
    assert_ok(tnr_free(first));
    void *second = unit_malloc(12 * MIB, b); /* chunks of the first, whose mapping is stale now */
    sleep_fill(second, 12 * MIB, 2, b);
    void *retired = unit_malloc(4 * MIB, b);
    sleep_fill(retired, 4 * MIB, 3, a);
    assert_ok(tnr_record_use(retired, a));
    assert_ok(tnr_free(retired));
    assert_true(simcuda_pending() > 0);
    assert_true(unit_stats().chunks_stale > 0);
    assert_ok(tnr_device_sleep(0, NULL));
    tnr_stats stats = unit_stats();
    assert_int_equal(stats.chunks_stale, 0);
    assert_int_equal(stats.blocks_retired, 0);
    assert_int_equal(sleep_device_bytes(), 0);
    assert_ok(tnr_device_wake(0));
    sleep_check(second, 12 * MIB, 2);
    assert_ok(tnr_free(second));
    assert_int_equal(simcuda_races(), 0);
    sleep_context_leave();
}

/* What a stream has borrowed keeps its contents and its address, and can be given back after. */
static void lent_memory_sleeps(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2", "SCHEDULE=lazy", "RACES=1", NULL);
    sleep_context_enter();
    tnr_stream a = unit_stream(0), b = unit_stream(0);
    (void)unit_malloc(100, NULL); /* lives on: else free memory would not be woken */
    unsigned char *first = unit_malloc(64 * MIB, a);
    sleep_fill(first, 64 * MIB, 1, a);
    assert_ok(tnr_free(first));
    unsigned char *lent = unit_malloc(8 * MIB, b);
    assert_ptr_equal(lent, first + 56 * MIB);
    assert_int_equal(unit_stats().served[TNR_SERVED_LENT], 1);
    sleep_fill(lent, 8 * MIB, 2, b);
    assert_ok(tnr_device_sleep(0, NULL));
    assert_int_equal(sleep_device_bytes(), 0);
    (void)unit_stats();
    assert_ok(tnr_device_wake(0));
    sleep_check(lent, 8 * MIB, 2);
    assert_ok(tnr_free(lent));
    assert_ok(tnr_device_sleep(0, NULL));
    assert_ok(tnr_device_wake(0));
    assert_ptr_equal(unit_malloc(56 * MIB, a), first);
    assert_ptr_equal(unit_malloc(8 * MIB, a), lent);
    assert_int_equal(unit_stats().served[TNR_SERVED_LENT], 2);
    assert_int_equal(simcuda_races(), 0);
    sleep_context_leave();
}

/* ---- callbacks ------------------------------------------------------------------------------ */

typedef struct told {
    int events[3];
    tnr_pool pool;
    int device;
    uint64_t generation;
    int may_allocate; /* the pool was awake every time */
} told;

static void on_sleep(tnr_pool pool, int device, tnr_sleep_event event, uint64_t generation,
                     void *user)
{
    told *to = user;
    void *ptr;
    to->events[event]++;
    to->pool = pool;
    to->device = device;
    to->generation = generation;
    to->may_allocate &=
        tnr_pool_malloc(&ptr, pool, 1 * MIB, device, NULL) == TNR_OK && tnr_free(ptr) == TNR_OK;
}

static void callbacks_and_generations(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=eager", NULL);
    told to = {.may_allocate = 1};
    tnr_pool pool;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    (void)unit_malloc(3 * MIB, NULL);
    assert_error(tnr_sleep_callback_add(NULL, NULL), TNR_ERR_INVALID_ARGUMENT, NULL);
    assert_ok(tnr_sleep_callback_add(on_sleep, &to));
    assert_int_equal(tnr_pool_generation(pool, 0), 0);
    assert_ok(tnr_pool_sleep(pool, 0, NULL));
    assert_int_equal(to.events[TNR_SLEEP_GOING], 1);
    assert_ptr_equal(to.pool, pool);
    assert_ok(tnr_pool_wake(pool, 0));
    assert_int_equal(to.events[TNR_SLEEP_AWAKE], 1);
    assert_int_equal(to.generation, 1);
    assert_int_equal(tnr_pool_generation(pool, 0), 1);
    assert_int_equal(tnr_pool_generation(NULL, 0), 0);
    assert_ok(tnr_device_sleep(0, NULL)); /* both pools */
    assert_int_equal(to.events[TNR_SLEEP_GOING], 3);
    assert_ok(tnr_device_wake(0));
    assert_int_equal(to.events[TNR_SLEEP_AWAKE], 3);
    assert_int_equal(tnr_pool_generation(pool, 0), 2);
    assert_int_equal(tnr_pool_generation(NULL, 0), 1);
    assert_null(to.pool); /* the default pool is the oldest, and the last of the walk */
    simcuda_fail("cuCtxSynchronize", 1, 0, CUDA_ERROR_UNKNOWN);
    assert_error(tnr_pool_sleep(pool, 0, NULL), TNR_ERR_DRIVER, "cuCtxSynchronize");
    simcuda_fail_clear();
    assert_int_equal(to.events[TNR_SLEEP_CANCELLED], 1);
    assert_true(to.may_allocate);
    assert_error(tnr_sleep_callback_remove(on_sleep, NULL), TNR_ERR_INVALID_ARGUMENT, "`user`");
    assert_error(tnr_sleep_callback_remove(NULL, &to), TNR_ERR_INVALID_ARGUMENT, NULL);
    assert_ok(tnr_sleep_callback_remove(on_sleep, &to));
    assert_error(tnr_sleep_callback_remove(on_sleep, &to), TNR_ERR_INVALID_ARGUMENT, NULL);
    assert_ok(tnr_pool_sleep(pool, 0, NULL));
    assert_int_equal(to.events[TNR_SLEEP_GOING], 4);
    for (int i = 0; i < 64; i++)
        assert_ok(tnr_sleep_callback_add(on_sleep, NULL));
    assert_error(tnr_sleep_callback_add(on_sleep, NULL), TNR_ERR_INVALID_ARGUMENT, "64");
    for (int i = 0; i < 64; i++)
        assert_ok(tnr_sleep_callback_remove(on_sleep, NULL));
}

/* A sleep is not over before its callbacks are, so they neither sleep nor wake. */
static void sleep_again(tnr_pool pool, int device, tnr_sleep_event event, uint64_t generation,
                        void *user)
{
    (void)event;
    (void)generation;
    int *refused = user;
    *refused += tnr_pool_sleep(pool, device, NULL) == TNR_ERR_BUSY &&
                strstr(tnr_last_error(), "callback") != NULL;
    *refused += tnr_device_wake(device) == TNR_ERR_BUSY;
    *refused += tnr_device_sleep(1, NULL) == TNR_ERR_BUSY;
    *refused += tnr_sleep_prepare(0, device) == TNR_OK; /* this may be done */
}

static void callbacks_do_not_sleep(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=eager", "DEVICES=2", NULL);
    int refused = 0;
    void *ptr = unit_malloc(3 * MIB, NULL);
    assert_ok(tnr_sleep_callback_add(sleep_again, &refused));
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    assert_int_equal(refused, 4);
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_int_equal(refused, 8);
    assert_ok(tnr_sleep_callback_remove(sleep_again, &refused));
    assert_ok(tnr_free(ptr));
}

/* Sleeping twice and waking twice is success, and nobody is told again. */
static void idempotent(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=eager", NULL);
    told to = {.may_allocate = 1};
    void *ptr = unit_malloc(3 * MIB, NULL);
    assert_ok(tnr_sleep_callback_add(on_sleep, &to));
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_ok(tnr_device_wake(0));
    assert_int_equal(to.events[TNR_SLEEP_AWAKE], 0);
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    uint64_t calls = simcuda_calls("cuMemUnmap");
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    assert_ok(tnr_device_sleep(0, NULL));
    assert_int_equal(simcuda_calls("cuMemUnmap"), calls);
    assert_int_equal(to.events[TNR_SLEEP_GOING], 1);
    assert_int_equal(unit_stats().sleeps, 1);
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_int_equal(to.events[TNR_SLEEP_AWAKE], 1);
    assert_int_equal(unit_stats().wakes, 1);
    assert_ok(tnr_sleep_callback_remove(on_sleep, &to));
    assert_ok(tnr_free(ptr));
}

/* ---- memory of others ----------------------------------------------------------------------- */

/* The memory of a pool that sleeps goes to another; the wake takes back what is idle there. */
static void wake_takes_idle_memory(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=eager", "MEMORY=64M", NULL);
    sleep_context_enter();
    tnr_pool guest;
    assert_ok(tnr_pool_create(&guest, 0, NULL));
    void *host_block = unit_malloc(50 * MIB, NULL);
    sleep_fill(host_block, 50 * MIB, 5, NULL);
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    void *block;
    assert_ok(tnr_pool_malloc(&block, guest, 60 * MIB, 0, NULL));
    sleep_fill(block, 60 * MIB, 6, NULL);
    assert_error(tnr_pool_wake(NULL, 0), TNR_ERR_OUT_OF_MEMORY, NULL);
    assert_error(tnr_pool_wake(NULL, 0), TNR_ERR_OUT_OF_MEMORY, NULL);
    sleep_check(block, 60 * MIB, 6);
    assert_ok(tnr_free(block));
    assert_ok(tnr_pool_wake(NULL, 0));
    sleep_check(host_block, 50 * MIB, 5);
    /* A limit that others have used up is an answer too. */
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    assert_ok(tnr_limit_set(40 * MIB, 0));
    assert_error(tnr_pool_wake(NULL, 0), TNR_ERR_LIMIT, NULL);
    assert_error(tnr_device_wake(0), TNR_ERR_LIMIT, NULL);
    assert_int_equal(sleep_device_bytes(), 0);
    assert_ok(tnr_limit_set(SIZE_MAX, 0));
    assert_ok(tnr_pool_wake(NULL, 0));
    sleep_check(host_block, 50 * MIB, 5);
    sleep_context_leave();
}

static tnr_pool sleepy_pool;

static int sleep_when_short(const tnr_oom_info *info, void *user)
{
    (void)user;
    return tnr_pool_sleep(sleepy_pool, info->device, NULL) == TNR_OK;
}

/* A callback for lack of memory may put pools to sleep: another one, or the one that asks. */
static void sleep_makes_room(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=eager", "MEMORY=64M", NULL);
    assert_ok(tnr_pool_create(&sleepy_pool, 0, NULL));
    void *cold, *block;
    assert_ok(tnr_pool_malloc(&cold, sleepy_pool, 40 * MIB, 0, NULL));
    tnr_oom_callback_set(sleep_when_short, NULL);
    block = unit_malloc(50 * MIB, NULL);
    assert_int_equal(sleep_stats(sleepy_pool).bytes_asleep, 40 * MIB);
    assert_ok(tnr_free(block));
    assert_ok(tnr_pool_wake(sleepy_pool, 0));
    assert_error(tnr_pool_malloc(&block, sleepy_pool, 50 * MIB, 0, NULL), TNR_ERR_ASLEEP, NULL);
    tnr_oom_callback_set(NULL, NULL);
    assert_ok(tnr_free(cold));
    assert_ok(tnr_pool_destroy(sleepy_pool));
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void ends_while_asleep(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2", "SCHEDULE=eager", NULL);
    sleep_context_enter();
    tnr_pool pool, second;
    void *a, *b, *c, *grows;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_create(&second, 0, NULL));
    assert_ok(tnr_pool_malloc(&a, pool, 20 * MIB, 0, NULL));
    assert_ok(tnr_pool_malloc(&b, pool, 600, 0, unit_stream(0)));
    assert_ok(tnr_pool_malloc(&c, second, 20 * MIB, 0, NULL));
    assert_ok(tnr_reserve(&grows, 64 * MIB, 0, NULL));
    assert_ok(tnr_commit(grows, 5 * MIB));
    sleep_fill(a, 20 * MIB, 1, NULL);
    assert_ok(tnr_device_sleep(0, NULL));
    assert_int_equal(sleep_pinned_bytes() > 0, 1);
    assert_error(tnr_pool_destroy(pool), TNR_ERR_BUSY, "2 live");
    assert_ok(tnr_free(a));
    assert_ok(tnr_free(b));
    assert_ok(tnr_pool_destroy(pool));
    assert_error(tnr_pool_wake(pool, 0), TNR_ERR_INVALID_POOL, "destroyed");
    (void)unit_stats();
    assert_error(tnr_shutdown(0), TNR_ERR_BUSY, NULL);
    assert_ok(tnr_shutdown(1)); /* with a live block and memory of the default pool asleep */
    assert_int_equal(sleep_pinned_bytes(), 0);
    sleep_context_leave();
}

/* Streams come and go meanwhile. */
static void streams_end_while_asleep(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=eager", NULL);
    sleep_context_enter();
    CUstream stream, next;
    assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    void *ptr = unit_malloc(7 * MIB, stream);
    sleep_fill(ptr, 7 * MIB, 1, stream);
    assert_ok(tnr_device_sleep(0, NULL));
    assert_ok(tnr_stream_destroying(0, stream));
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
    assert_ok(tnr_device_wake(0));
    sleep_check(ptr, 7 * MIB, 1);
    assert_ok(tnr_free(ptr));
    assert_int_equal(cuStreamCreate(&next, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_ptr_equal(unit_malloc(7 * MIB, next), ptr);
    assert_int_equal(unit_stats().reserved_bytes.current, 8 * MIB);
    sleep_context_leave();
}

static void wrong_arguments(void **state)
{
    (void)state;
    unit_start(NULL, "DEVICES=2", NULL);
    tnr_pool pool;
    tnr_sleep_options options = TNR_SLEEP_OPTIONS_INIT;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_error(tnr_pool_sleep(pool, 1, NULL), TNR_ERR_INVALID_DEVICE, "on device 0");
    assert_error(tnr_pool_wake(pool, 7), TNR_ERR_INVALID_DEVICE, NULL);
    assert_error(tnr_device_sleep(-1, NULL), TNR_ERR_INVALID_DEVICE, NULL);
    options.struct_bytes = 3;
    assert_error(tnr_pool_sleep(pool, 0, &options), TNR_ERR_INVALID_ARGUMENT, "INIT");
    options = (tnr_sleep_options)TNR_SLEEP_OPTIONS_INIT;
    options.content = (tnr_content)9;
    assert_error(tnr_device_sleep(0, &options), TNR_ERR_INVALID_ARGUMENT, NULL);
    int host = 0;
    assert_error(tnr_block_content_set(&host, TNR_CONTENT_KEEP), TNR_ERR_FOREIGN_POINTER, NULL);
    void *ptr = unit_malloc(100, NULL);
    assert_error(tnr_block_content_set(ptr, (tnr_content)3), TNR_ERR_INVALID_ARGUMENT, NULL);
    assert_ok(tnr_free(ptr));
    assert_error(tnr_block_content_set(ptr, TNR_CONTENT_KEEP), TNR_ERR_NOT_LIVE, NULL);
    assert_int_equal(tnr_pool_generation(NULL, 5), 0);
    /* Two devices sleep apart. */
    assert_ok(tnr_device_sleep(0, NULL));
    void *on_other;
    assert_ok(tnr_malloc(&on_other, 3 * MIB, 1, NULL));
    assert_ok(tnr_free(on_other));
    assert_ok(tnr_device_wake(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(memory_goes_back, unit_stop),
        cmocka_unit_test_teardown(empty_pools_wake_without_memory, unit_stop),
        cmocka_unit_test_teardown(what_lives_wakes_alone, unit_stop),
        cmocka_unit_test_teardown(sleeping_pools_serve_nobody, unit_stop),
        cmocka_unit_test_teardown(frees_go_on, unit_stop),
        cmocka_unit_test_teardown(work_is_waited_for, unit_stop),
        cmocka_unit_test_teardown(lent_memory_sleeps, unit_stop),
        cmocka_unit_test_teardown(callbacks_and_generations, unit_stop),
        cmocka_unit_test_teardown(callbacks_do_not_sleep, unit_stop),
        cmocka_unit_test_teardown(idempotent, unit_stop),
        cmocka_unit_test_teardown(wake_takes_idle_memory, unit_stop),
        cmocka_unit_test_teardown(sleep_makes_room, unit_stop),
        cmocka_unit_test_teardown(ends_while_asleep, unit_stop),
        cmocka_unit_test_teardown(streams_end_while_asleep, unit_stop),
        cmocka_unit_test_teardown(wrong_arguments, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
