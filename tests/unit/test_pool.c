/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools: apart from each other, with a limit of their own, reached by a handle or by routing a
 * thread, and recognised once they are dead.
 *
 * What was taken out, and what failed then:
 *   pool_destroy, the test of routed_threads: a_routed_pool_is_busy
 *   pool_destroy, the call of tnri_routes_sweep: a_thread_s_end_is_the_end_of_its_routes
 *   tnri_route, `pool` not atomic: a_thread_that_nobody_joins, under ThreadSanitizer
 *   tnri_routes_make, the call of sweep_locked: threads_that_end_routed_leave_nothing
 *   sweep_locked, the question whether the thread is gone: a_living_thread_keeps_its_pool
 *   tnri_thread_route, the test for null: null_routes_to_the_default_pools
 *   tnri_reclaim, the pool's excess: a_lowered_limit_takes_idle_memory_first
 *   trim, the device's memory given back instead of the pool's: one_pool_is_trimmed
 */
#include "unit.h"

#include <pthread.h>
#include <string.h>

#include "await.h"
#include "own_threads.h"

static tnr_pool pool_make(size_t limit)
{
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.limit_bytes = limit;
    options.name = "mine";
    tnr_pool pool = NULL;
    assert_ok(tnr_pool_create(&pool, 0, &options));
    assert_non_null(pool);
    return pool;
}

static tnr_pool pool_of(const void *ptr)
{
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, ptr));
    return info.pool;
}

static tnr_stats pool_stats(tnr_pool pool)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    assert_ok(tnr_stats_get(&stats, pool, 0));
    return stats;
}

static void pools_are_apart(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_pool a = pool_make(0);
    tnr_pool b = pool_make(0);
    void *in_a, *in_b, *in_default;
    assert_ok(tnr_pool_malloc(&in_a, a, 4096, 0, NULL));
    assert_ok(tnr_pool_malloc(&in_b, b, 4096, 0, NULL));
    assert_ok(tnr_pool_malloc(&in_default, NULL, 4096, 0, NULL));
    assert_ptr_equal(pool_of(in_a), a);
    assert_ptr_equal(pool_of(in_b), b);
    assert_null(pool_of(in_default));
    assert_ok(tnr_free(in_a));
    void *again;
    assert_ok(tnr_pool_malloc(&again, b, 4096, 0, NULL));
    assert_ptr_not_equal(again, in_a); /* never from another pool's free memory */
    assert_int_equal(pool_stats(a).bytes_live, 0);
    assert_int_equal(pool_stats(b).bytes_live, 8192);
    uint64_t sum = pool_stats(a).reserved_bytes.current + pool_stats(b).reserved_bytes.current;
    assert_int_equal(unit_stats().reserved_bytes.current, sum + 2 * MIB);
    assert_int_equal(unit_stats().pools, 3);
    assert_int_equal(pool_stats(a).pools, 1);
}

/* "allocated - freed == current, always", and chunks are counted by pool too. */
static void a_pool_s_own_counters(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_pool pool = pool_make(0);
    void *ptr;
    assert_ok(tnr_pool_malloc(&ptr, pool, 5 * MIB, 0, NULL));
    tnr_stats stats = pool_stats(pool);
    assert_int_equal(stats.reserved_bytes.current, 6 * MIB);
    assert_int_equal(stats.reserved_bytes.allocated - stats.reserved_bytes.freed, 6 * MIB);
    assert_int_equal(stats.segment.current, stats.chunks_created - stats.chunks_released);
    assert_true(stats.segment.current > 0);
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_trim(NULL, 0, 0));
    stats = pool_stats(pool);
    assert_int_equal(stats.reserved_bytes.current, 0);
    assert_int_equal(stats.reserved_bytes.peak, 6 * MIB);
    assert_int_equal(stats.reserved_bytes.allocated, stats.reserved_bytes.freed);
    assert_int_equal(stats.segment.current, 0);
    assert_true(stats.segment.peak > 0);
}

static void a_pool_has_its_own_limit(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_pool pool = pool_make(8 * MIB);
    void *a, *b = &a;
    assert_ok(tnr_pool_malloc(&a, pool, 6 * MIB, 0, NULL));
    assert_error(tnr_pool_malloc(&b, pool, 4 * MIB, 0, NULL), TNR_ERR_LIMIT, "mine");
    assert_null(b);
    assert_int_equal(pool_stats(pool).limit_bytes, 8 * MIB);
    assert_int_equal(pool_stats(pool).reserved_bytes.current, 6 * MIB);
    assert_ok(tnr_pool_malloc(&b, pool, 2 * MIB, 0, NULL));
    (void)unit_malloc(32 * MIB, NULL); /* the default pool has none */
    assert_ok(tnr_free(a));
    assert_ok(tnr_pool_malloc(&a, pool, 3 * MIB, 0, unit_stream(0))); /* from its own idle memory */
    assert_true(pool_stats(pool).reserved_bytes.current <= 8 * MIB);
}

static void routing_nests(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_pool a = pool_make(0);
    tnr_pool b = pool_make(0);
    assert_error(tnr_pool_pop(a), TNR_ERR_INVALID_ARGUMENT, "pushed last");
    assert_ok(tnr_pool_push(a));
    assert_ptr_equal(pool_of(unit_malloc(1, NULL)), a);
    assert_ok(tnr_pool_push(b));
    assert_ptr_equal(pool_of(unit_malloc(1, NULL)), b);
    assert_error(tnr_pool_pop(a), TNR_ERR_INVALID_ARGUMENT, "pushed last");
    void *ptr;
    assert_ok(tnr_pool_malloc(&ptr, NULL, 1, 0, NULL)); /* whatever the routing */
    assert_null(pool_of(ptr));
    assert_ok(tnr_pool_pop(b));
    assert_ptr_equal(pool_of(unit_malloc(1, NULL)), a);
    assert_ok(tnr_pool_pop(a));
    assert_null(pool_of(unit_malloc(1, NULL)));
    for (int i = 0; i < 16; i++)
        assert_ok(tnr_pool_push(a));
    assert_error(tnr_pool_push(a), TNR_ERR_INVALID_ARGUMENT, "16 deep");
    assert_error(tnr_pool_push(NULL), TNR_ERR_INVALID_ARGUMENT, "16 deep");
    for (int i = 0; i < 16; i++)
        assert_ok(tnr_pool_pop(a));
}

/* Null within another routing, on every device, until it is popped; and where there is none. */
static void null_routes_to_the_default_pools(void **state)
{
    (void)state;
    unit_start(NULL, "DEVICES=2", NULL);
    tnr_pool a = pool_make(0);
    tnr_pool b;
    void *ptr;
    assert_ok(tnr_pool_create(&b, 1, NULL));
    assert_error(tnr_pool_pop(NULL), TNR_ERR_INVALID_ARGUMENT, "pushed last");
    assert_ok(tnr_pool_push(NULL));
    assert_null(pool_of(unit_malloc(1, NULL)));
    assert_ok(tnr_pool_push(a));
    assert_ok(tnr_pool_push(b));
    assert_ptr_equal(pool_of(unit_malloc(1, NULL)), a);
    assert_error(tnr_pool_pop(NULL), TNR_ERR_INVALID_ARGUMENT, "pushed last");
    assert_ok(tnr_pool_push(NULL));
    assert_null(pool_of(unit_malloc(1, NULL)));
    assert_ok(tnr_malloc(&ptr, 1, 1, NULL));
    assert_null(pool_of(ptr));
    assert_error(tnr_pool_pop(b), TNR_ERR_INVALID_ARGUMENT, "pushed last");
    assert_ok(tnr_pool_push(b)); /* for its device again, and not for the other */
    assert_ok(tnr_malloc(&ptr, 1, 1, NULL));
    assert_ptr_equal(pool_of(ptr), b);
    assert_null(pool_of(unit_malloc(1, NULL)));
    assert_ok(tnr_pool_pop(b));
    assert_ok(tnr_pool_pop(NULL));
    assert_ok(tnr_malloc(&ptr, 1, 1, NULL));
    assert_ptr_equal(pool_of(ptr), b);
    assert_ok(tnr_pool_pop(b));
    assert_ok(tnr_pool_pop(a));
    assert_null(pool_of(unit_malloc(1, NULL)));
    assert_ok(tnr_pool_pop(NULL));
}

/* ---- limits and giving back ----------------------------------------------------------------- */

static void the_limit_is_set_later(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_pool pool = pool_make(8 * MIB);
    void *a, *b;
    assert_ok(tnr_pool_malloc(&a, pool, 6 * MIB, 0, NULL));
    assert_error(tnr_pool_malloc(&b, pool, 4 * MIB, 0, NULL), TNR_ERR_LIMIT, "tnr_pool_limit_set");
    assert_ok(tnr_pool_limit_set(pool, 10 * MIB, 0));
    assert_int_equal(pool_stats(pool).limit_bytes, 10 * MIB);
    assert_ok(tnr_pool_malloc(&b, pool, 4 * MIB, 0, NULL));
    assert_ok(tnr_pool_limit_set(pool, 0, 0)); /* nothing more, and what is there stays */
    void *more;
    assert_error(tnr_pool_malloc(&more, pool, 1, 0, NULL), TNR_ERR_LIMIT, "mine");
    assert_int_equal(pool_stats(pool).reserved_bytes.current, 10 * MIB);
    assert_ok(tnr_free(a));
    assert_ok(tnr_pool_malloc(&a, pool, 6 * MIB, 0, NULL)); /* idle memory serves */
    assert_ok(tnr_pool_limit_set(pool, SIZE_MAX, 0));
    assert_int_equal(pool_stats(pool).limit_bytes, UINT64_MAX);
    assert_ok(tnr_pool_malloc(&more, pool, 40 * MIB, 0, NULL));

    assert_ok(tnr_pool_limit_set(NULL, 4 * MIB, 0)); /* the default pool's, and only its */
    assert_error(tnr_malloc(&b, 6 * MIB, 0, NULL), TNR_ERR_LIMIT, "default");
    assert_ok(tnr_pool_malloc(&b, pool, 6 * MIB, 0, NULL));
}

/* The pool's own excess is reclaimed with what a request needs, however much it is. */
static void a_lowered_limit_takes_idle_memory_first(void **state)
{
    (void)state;
    enum { STREAMS = 12 };
    unit_start("cross_stream:off,chunk_max_mb:2,address_space_gb:16", NULL);
    tnr_pool pool = pool_make(0);
    void *blocks[STREAMS];
    for (int i = 0; i < STREAMS; i++)
        assert_ok(tnr_pool_malloc(&blocks[i], pool, 4 * MIB, 0, unit_stream(0)));
    for (int i = 0; i < STREAMS; i++)
        assert_ok(tnr_free(blocks[i]));
    assert_int_equal(pool_stats(pool).reserved_bytes.current, STREAMS * 4 * MIB);
    assert_ok(tnr_pool_limit_set(pool, 4 * MIB, 0));
    assert_ok(tnr_pool_malloc(&blocks[0], pool, 2 * MIB, 0, NULL));
    assert_true(pool_stats(pool).reserved_bytes.current <= 4 * MIB);
    assert_int_equal(unit_stats().num_ooms, 0);
    assert_ok(tnr_free(blocks[0]));
}

static void one_pool_is_trimmed(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2", NULL);
    tnr_pool pool = pool_make(0);
    void *live, *idle;
    size_t released = 77;
    assert_ok(tnr_free(unit_malloc(20 * MIB, NULL))); /* idle, in the default pool */
    assert_ok(tnr_pool_malloc(&live, pool, 4 * MIB, 0, NULL));
    assert_ok(tnr_pool_malloc(&idle, pool, 16 * MIB, 0, NULL));
    assert_ok(tnr_pool_trim(&released, pool, 0, 0));
    assert_int_equal(released, 0); /* all of it is live */
    assert_ok(tnr_free(idle));
    assert_ok(tnr_pool_trim(&released, pool, 12 * MIB, 0));
    assert_int_equal(released, 8 * MIB);
    assert_int_equal(pool_stats(pool).reserved_bytes.current, 12 * MIB);
    assert_ok(tnr_pool_trim(NULL, pool, 0, 0));
    assert_int_equal(pool_stats(pool).reserved_bytes.current, 4 * MIB);
    assert_int_equal(unit_stats().reserved_bytes.current, 24 * MIB);
    assert_ok(tnr_pool_trim(&released, NULL, 0, 0));
    assert_int_equal(released, 20 * MIB);
    assert_int_equal(unit_stats().reserved_bytes.current, 4 * MIB);
    assert_ok(tnr_free(live));
}

/* Refused with nothing changed. `pool` is none of device 0. */
static void check_pool_refused(tnr_pool pool, int device, tnr_status status, const char *text)
{
    uint64_t reserved = unit_stats().reserved_bytes.current;
    size_t released = 77;
    assert_error(tnr_pool_limit_set(pool, 0, device), status, text);
    assert_error(tnr_pool_trim(&released, pool, 0, device), status, text);
    assert_int_equal(released, 0);
    assert_int_equal(unit_stats().reserved_bytes.current, reserved);
}

static void limits_and_trims_refuse(void **state)
{
    (void)state;
    unit_start(NULL, "DEVICES=2", NULL);
    tnr_pool gone = pool_make(0);
    tnr_pool elsewhere;
    assert_ok(tnr_pool_create(&elsewhere, 1, NULL));
    assert_ok(tnr_pool_destroy(gone));
    assert_ok(tnr_free(unit_malloc(20 * MIB, NULL)));
    check_pool_refused(gone, 0, TNR_ERR_INVALID_POOL, "destroyed");
    check_pool_refused(elsewhere, 0, TNR_ERR_INVALID_DEVICE, "device 1");
    check_pool_refused(elsewhere, 7, TNR_ERR_INVALID_DEVICE, "not on 7");
    check_pool_refused(NULL, 2, TNR_ERR_INVALID_DEVICE, "no device 2");
    check_pool_refused(NULL, -1, TNR_ERR_INVALID_DEVICE, NULL);
    uint64_t no_pool[64] = {1, 2, 3};
    check_pool_refused((tnr_pool)(void *)no_pool, 0, TNR_ERR_INVALID_POOL, "not a pool");
    (void)unit_malloc(40 * MIB, NULL); /* none of them has set a limit */
}

static void *allocate_unrouted(void *user)
{
    (void)user;
    assert_null(pool_of(unit_malloc(1, NULL)));
    return NULL;
}

static void routes_are_a_thread_s_own(void **state)
{
    (void)state;
    pthread_t thread;
    unit_start(NULL, NULL);
    tnr_pool pool = pool_make(0);
    assert_ok(tnr_pool_push(pool));
    assert_int_equal(pthread_create(&thread, NULL, allocate_unrouted, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(tnr_pool_pop(pool));
}

static void a_routed_pool_is_busy(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_pool pool = pool_make(0);
    assert_ok(tnr_pool_push(pool));
    assert_error(tnr_pool_destroy(pool), TNR_ERR_BUSY, "routed");
    void *ptr = unit_malloc(1, NULL);
    assert_ok(tnr_pool_pop(pool));
    assert_error(tnr_pool_destroy(pool), TNR_ERR_BUSY, "1 live block");
    assert_ptr_equal(pool_of(ptr), pool);
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_pool_destroy(pool));
}

/* Pushes what it is given, up to a null, and ends. */
static void *push_and_end(void *user)
{
    for (tnr_pool *pools = user; *pools != NULL; pools++)
        assert_ok(tnr_pool_push(*pools));
    return NULL;
}

static void thread_pushes(tnr_pool *pools)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, push_and_end, pools), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void a_thread_s_end_is_the_end_of_its_routes(void **state)
{
    (void)state;
    if (!unit_knows_the_gone())
        skip();
    unit_start(NULL, NULL);
    tnr_pool a = pool_make(0), b = pool_make(0), inner = pool_make(0);
    thread_pushes((tnr_pool[]){a, b, a, inner, NULL});
    assert_ok(tnr_pool_destroy(inner));
    assert_ok(tnr_pool_push(b));
    assert_ok(tnr_pool_destroy(a));
    assert_error(tnr_pool_destroy(b), TNR_ERR_BUSY, "1 thread is routed");
    assert_ok(tnr_pool_pop(b));
    assert_ok(tnr_pool_destroy(b));
    assert_int_equal(unit_stats().pools, 1);
}

static void *push_pop_and_end(void *user)
{
    tnr_pool *pools = user;
    (void)push_and_end(user);
    assert_ok(tnr_pool_pop(pools[2]));
    assert_ok(tnr_pool_pop(pools[1]));
    return NULL;
}

/* Nobody joins it, so nothing but the kernel says that what it wrote is there. */
static void a_thread_that_nobody_joins(void **state)
{
    (void)state;
    if (!unit_knows_the_gone())
        skip();
    unit_start(NULL, NULL);
    tnr_pool a = pool_make(0), b = pool_make(0), pools[] = {a, b, a, NULL};
    int before = threads_count();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, push_pop_and_end, pools), 0);
    assert_int_equal(pthread_detach(thread), 0);
    await_true(threads_listed(1) <= before);
    assert_ok(tnr_pool_destroy(a));
    assert_ok(tnr_pool_destroy(b));
    assert_int_equal(unit_stats().pools, 1);
}

/* What a thread that lives on is told. */
typedef struct routed {
    tnr_pool pool;
    pthread_barrier_t barrier;
} routed;

static void *push_and_wait(void *user)
{
    routed *self = user;
    assert_ok(tnr_pool_push(self->pool));
    (void)pthread_barrier_wait(&self->barrier);
    (void)pthread_barrier_wait(&self->barrier);
    return NULL;
}

static void a_living_thread_keeps_its_pool(void **state)
{
    (void)state;
    pthread_t thread;
    routed self;
    unit_start(NULL, NULL);
    self.pool = pool_make(0);
    assert_int_equal(pthread_barrier_init(&self.barrier, NULL, 2), 0);
    assert_int_equal(pthread_create(&thread, NULL, push_and_wait, &self), 0);
    (void)pthread_barrier_wait(&self.barrier);
    for (int i = 0; i < 3; i++)
        assert_error(tnr_pool_destroy(self.pool), TNR_ERR_BUSY, "routed");
    (void)pthread_barrier_wait(&self.barrier);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(tnr_pool_destroy(self.pool));
    (void)pthread_barrier_destroy(&self.barrier);
}

/* Nobody destroys the pool that they are routed to. */
static void threads_that_end_routed_leave_nothing(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_pool pool = pool_make(0);
    uint64_t before = 0;
    for (int i = 0; i < 1000; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, push_and_end, (tnr_pool[]){pool, NULL}), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (i == 200)
            before = unit_stats().metadata_bytes;
    }
    uint64_t after = unit_stats().metadata_bytes;
    if (after > before + 64 * KIB)
        fail_msg("%llu bytes of metadata after 200 threads, %llu after 1,000",
                 (unsigned long long)before, (unsigned long long)after);
}

static void dead_pools_are_recognised(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_pool pool = pool_make(0);
    void *ptr, *other;
    assert_ok(tnr_pool_malloc(&ptr, pool, 3 * MIB, 0, NULL));
    assert_ok(tnr_pool_malloc(&other, pool, 100, 0, NULL));
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_free(other));
    assert_ok(tnr_pool_destroy(pool));
    simcuda_live live;
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.handles, 0); /* all of it went back */
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    void *none = &none;
    assert_error(tnr_pool_malloc(&none, pool, 1, 0, NULL), TNR_ERR_INVALID_POOL, "destroyed");
    assert_null(none);
    assert_error(tnr_pool_push(pool), TNR_ERR_INVALID_POOL, "destroyed");
    assert_error(tnr_pool_destroy(pool), TNR_ERR_INVALID_POOL, "destroyed");
    assert_error(tnr_stats_get(&stats, pool, 0), TNR_ERR_INVALID_POOL, "destroyed");
    assert_error(tnr_free(ptr), TNR_ERR_NOT_LIVE, NULL);
    tnr_block_info info;
    assert_error(tnr_block_get(&info, other), TNR_ERR_NOT_LIVE, NULL);
    uint64_t no_pool[64] = {1, 2, 3};
    assert_error(tnr_pool_destroy((tnr_pool)(void *)no_pool), TNR_ERR_INVALID_POOL, "not a pool");
    assert_error(tnr_pool_destroy(NULL), TNR_ERR_INVALID_POOL, "default pool");
    assert_int_equal(unit_stats().pools, 1);
    tnr_pool next = pool_make(0); /* and never under the old handle */
    assert_ptr_not_equal(next, pool);
}

static void bad_options(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    tnr_pool pool = (tnr_pool)&options;
    assert_error(tnr_pool_create(NULL, 0, &options), TNR_ERR_INVALID_ARGUMENT, "null");
    options.struct_bytes = 8;
    assert_error(tnr_pool_create(&pool, 0, &options), TNR_ERR_INVALID_ARGUMENT, "version");
    assert_null(pool);
    options = (tnr_pool_options)TNR_POOL_OPTIONS_INIT;
    options.handle_type = (tnr_handle_type)17;
    assert_error(tnr_pool_create(&pool, 0, &options), TNR_ERR_INVALID_ARGUMENT, NULL);
    options.handle_type = (tnr_handle_type)-1;
    assert_error(tnr_pool_create(&pool, 0, &options), TNR_ERR_INVALID_ARGUMENT, NULL);
    assert_error(tnr_pool_create(&pool, 7, NULL), TNR_ERR_INVALID_DEVICE, "no device 7");
    assert_error(tnr_pool_create(&pool, -1, NULL), TNR_ERR_INVALID_DEVICE, NULL);
    options.handle_type = TNR_HANDLE_NONE;
    assert_ok(tnr_pool_create(&pool, 0, &options));
    void *ptr;
    assert_ok(tnr_pool_malloc(&ptr, pool, 1, 0, NULL));
    tnr_device_info device = {.struct_bytes = sizeof(device)};
    assert_ok(tnr_device_get(&device, 0));
    options.handle_type = TNR_HANDLE_FABRIC;
    if (!device.has_fabric)
        assert_error(tnr_pool_create(&pool, 0, &options), TNR_ERR_INVALID_ARGUMENT, "fabric");
    static char longest[500];
    memset(longest, 'n', sizeof(longest) - 1);
    options = (tnr_pool_options)TNR_POOL_OPTIONS_INIT;
    options.name = longest;
    assert_ok(tnr_pool_create(&pool, 0, &options));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(pools_are_apart, unit_stop),
        cmocka_unit_test_teardown(a_pool_s_own_counters, unit_stop),
        cmocka_unit_test_teardown(a_pool_has_its_own_limit, unit_stop),
        cmocka_unit_test_teardown(routing_nests, unit_stop),
        cmocka_unit_test_teardown(null_routes_to_the_default_pools, unit_stop),
        cmocka_unit_test_teardown(the_limit_is_set_later, unit_stop),
        cmocka_unit_test_teardown(a_lowered_limit_takes_idle_memory_first, unit_stop),
        cmocka_unit_test_teardown(one_pool_is_trimmed, unit_stop),
        cmocka_unit_test_teardown(limits_and_trims_refuse, unit_stop),
        cmocka_unit_test_teardown(routes_are_a_thread_s_own, unit_stop),
        cmocka_unit_test_teardown(a_routed_pool_is_busy, unit_stop),
        cmocka_unit_test_teardown(a_thread_s_end_is_the_end_of_its_routes, unit_stop),
        cmocka_unit_test_teardown(a_thread_that_nobody_joins, unit_stop),
        cmocka_unit_test_teardown(a_living_thread_keeps_its_pool, unit_stop),
        cmocka_unit_test_teardown(threads_that_end_routed_leave_nothing, unit_stop),
        cmocka_unit_test_teardown(dead_pools_are_recognised, unit_stop),
        cmocka_unit_test_teardown(bad_options, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
