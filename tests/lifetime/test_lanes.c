/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes: a stream with several arenas hands its memory out as a stream with a single arena would.
 * Whatever is done to the stream is done to all of its arenas. Most tests have lanes used in turn
 * (lanes_forced), so that one thread sees two; the last ones make threads wait for each other.
 *
 * Each of these was taken out once:
 *   the call of ladder_serve_lanes in tnri_ladder_malloc: freed_in_one_served_by_the_other
 *   world_keeps_half in lender_offer: no_lane_strips_another
 *   `!is_lane` before tnri_event_order in donor_order: chunks_move_without_a_wait
 *   the loop over arenas in tnri_pools_capture, but for the first: captures_mark_every_lane
 *   the loop in tnri_pool_seal: the_end_of_the_stream_seals_every_lane
 *   the call of lanes_collect in ladder_retired: retired_in_one_served_to_the_other
 *   the index asked in lane_serve only if something was flushed: flushed_meanwhile_...
 *   the test of `others` in lane_move_on: one_tenant_stays_alone
 *   the beginning of a new window in tnri_lane_waited: who_meets_seldom_shares_a_lane
 *   the calls of lanes_check: who_comes_later_gets_the_free_lane
 *   `>` in is_emptier, replaced by `<`: who_comes_alone_gets_the_first_lane
 *   the last line of lane_move_on, but for `left`: idle_tenants_are_in_nobody_s_way
 */
#include "life.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include <tenure/capture.h>

#include "memory/arena/bins.h"
#include "memory/arena/count.h"
#include "memory/device/device.h"
#include "memory/pool/cache.h"
#include "memory/pool/lane.h"
#include "memory/pool/pool.h"
#include "see/snapshot/picture.h"

static tnri_arena *arena_of(const void *ptr)
{
    return tnri_block_map_at(&tnri_device_at(0)->space.map, (uintptr_t)ptr)->world->arena;
}

static tnr_stats stats_now(void)
{
    return unit_stats();
}

static uint64_t served(tnr_served how)
{
    return unit_stats().served[how];
}

/* Two lanes with a block each: the first two allocations open them. */
static void open_two(void **one, void **other, size_t bytes, tnr_stream stream)
{
    *one = unit_malloc(bytes, stream);
    *other = unit_malloc(bytes, stream);
    assert_ptr_not_equal(arena_of(*one), arena_of(*other));
    assert_true(tnri_lane_is_other(arena_of(*one), arena_of(*other)));
}

/* Work that is still queued does not matter: the order is the stream's, as within one arena. */
static void freed_in_one_served_by_the_other(void **state)
{
    (void)state;
    life_start("lanes_forced:2", "SCHEDULE=lazy", NULL);
    tnr_stream stream = life_streams[0];
    void *one = unit_malloc(8 * MIB, stream);
    const tnri_arena *arena = arena_of(one);
    life_fill(one, 8 * MIB, 1, stream);
    assert_ok(tnr_free(one));
    tnr_stats before = stats_now();
    for (int i = 0; i < 4; i++) {
        void *again = unit_malloc(8 * MIB, stream);
        assert_ptr_equal(again, one);
        assert_ptr_equal(arena_of(again), arena);
        life_fill(again, 8 * MIB, 2 + i, stream);
        assert_ok(tnr_free(again));
    }
    tnr_stats after = stats_now();
    assert_int_equal(after.arenas, 2);
    assert_int_equal(after.reserved_bytes.current, 8 * MIB);
    for (int kind = 0; kind < TNR_DRIVER_KIND_COUNT; kind++)
        assert_int_equal(after.driver_calls[kind], before.driver_calls[kind]);
    assert_int_equal(simcuda_violations(), 0);
}

/* A lane that borrows often gets memory of its own, and leaves the other what that one works with:
 * no chunk goes to and fro. */
static void no_lane_strips_another(void **state)
{
    (void)state;
    life_start("lanes_forced:2", NULL, NULL);
    for (int i = 0; i < 4000; i++) {
        void *ptr = unit_malloc(4096, life_streams[0]);
        assert_ok(tnr_free(ptr));
    }
    assert_int_equal(stats_now().arenas, 2);
    assert_int_equal(served(TNR_SERVED_LENT), 0);
    assert_int_equal(stats_now().reserved_bytes.current, 4 * MIB);
}

/* What no lane has in one piece is put together of the chunks of both. */
static void chunks_move_without_a_wait(void **state)
{
    (void)state;
    life_start("lanes_forced:2,chunk_max_mb:2,cross_stream:off", "SCHEDULE=lazy", NULL);
    tnr_stream stream = life_streams[0];
    void *one, *other;
    open_two(&one, &other, 8 * MIB, stream);
    life_fill(one, 8 * MIB, 1, stream);
    life_fill(other, 8 * MIB, 2, stream);
    assert_ok(tnr_free(one));
    assert_ok(tnr_free(other));
    tnr_stats before = stats_now();
    void *both = unit_malloc(16 * MIB, stream);
    life_fill(both, 16 * MIB, 3, stream);
    tnr_stats after = stats_now();
    assert_int_equal(after.reserved_bytes.current, 16 * MIB);
    assert_int_equal(after.chunks_moved - before.chunks_moved, 4);
    assert_int_equal(after.served[TNR_SERVED_MOVED] - before.served[TNR_SERVED_MOVED], 1);
    assert_int_equal(after.served[TNR_SERVED_SHARED], 0);
    assert_int_equal(after.driver_calls[TNR_DRIVER_ORDER], before.driver_calls[TNR_DRIVER_ORDER]);
    const unsigned char *read = life_read(both, 16 * MIB, stream);
    simcuda_run(UINT64_MAX);
    assert_true(life_all(read, 16 * MIB, 3));
    assert_ok(tnr_free(both));
    assert_int_equal(simcuda_violations(), 0);
}

/* A block that another stream uses waits in its own lane, and is found from the other one. */
static void retired_in_one_served_to_the_other(void **state)
{
    (void)state;
    life_start("lanes_forced:2,reuse_mark_percent:0", "SCHEDULE=lazy", NULL);
    tnr_stream stream = life_streams[0];
    void *one, *other;
    open_two(&one, &other, 8 * MIB, stream);
    void *small = unit_malloc(512, stream); /* in the first lane; so the second is the next */
    life_fill(one, 8 * MIB, 1, life_streams[1]);
    assert_ok(tnr_record_use(one, life_streams[1]));
    assert_ok(tnr_free(one));
    assert_int_equal(stats_now().blocks_retired, 1);
    void *again = unit_malloc(8 * MIB, stream);
    assert_ptr_equal(again, one);
    assert_int_equal(served(TNR_SERVED_RETIRED), 1);
    life_fill(again, 8 * MIB, 2, stream);
    assert_ok(tnr_free(again));
    assert_ok(tnr_free(other));
    assert_ok(tnr_free(small));
    assert_int_equal(simcuda_violations(), 0);
}

/* Between the two times that another lane is asked, another thread may flush its bins, and what it
 * has freed becomes one run. Its memory must be found there then, though nothing is left to flush:
 * where the pool cannot grow and nothing moves, the request is refused else. */
static void flushed_meanwhile_served_to_the_other(void **state)
{
    (void)state;
    life_start("lanes_forced:2", NULL, NULL);
    tnr_stream stream = life_streams[0];
    void *one, *other;
    open_two(&one, &other, 8 * MIB, stream);
    tnri_arena *lender = arena_of(one), *borrower = arena_of(other);
    assert_ok(tnr_free(one)); /* into a bin */
    tnri_arena_enter(lender);
    assert_true(tnri_world_flush(&lender->worlds[TNRI_LARGE]));
    tnri_arena_leave(lender);
    tnri_request request = {4 * MIB, 4 * MIB, TNR_ALIGNMENT_DEFAULT};
    void *block = NULL;
    assert_true(tnri_lane_borrow(borrower, &request, TNR_SERVED_FLUSH, &block));
    assert_ptr_equal(arena_of(block), lender);
    assert_ok(tnr_free(block));
    assert_ok(tnr_free(other));
}

static void statistics_are_sums(void **state)
{
    (void)state;
    life_start("lanes_forced:3", NULL, NULL);
    void *blocks[12];
    for (size_t i = 0; i < 12; i++)
        blocks[i] = unit_malloc(1000 * (i + 1), life_streams[0]);
    tnr_stats stats = stats_now();
    assert_int_equal(stats.arenas, 3);
    assert_int_equal(stats.allocation[TNR_WORLD_ALL].current, 12);
    assert_int_equal(stats.requested_bytes[TNR_WORLD_ALL].current, 78000);
    assert_int_equal(stats.bytes_live, 78000);
    uint64_t ways = 0;
    for (int s = 0; s < TNR_SERVED_COUNT; s++)
        ways += stats.served[s];
    assert_int_equal(ways, 12);
    for (size_t i = 0; i < 12; i++)
        assert_ok(tnr_free(blocks[i]));
    stats = stats_now();
    assert_int_equal(stats.allocation[TNR_WORLD_ALL].freed, 12);
    assert_int_equal(stats.bytes_live, 0);
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(stats_now().reserved_bytes.current, 0);
}

static void *free_twice(void *block)
{
    assert_ok(tnr_free(block));
    assert_error(tnr_free(block), TNR_ERR_NOT_LIVE, "was freed before");
    return NULL;
}

/* A borrowed block goes back to its lane, whoever frees it, and only once. */
static void any_thread_frees_another_lane_s_block(void **state)
{
    (void)state;
    life_start("lanes_forced:2", NULL, NULL);
    for (size_t bytes = 4096; bytes <= 4 * MIB; bytes *= 32) {
        void *one = unit_malloc(bytes, life_streams[0]);
        tnri_arena *arena = arena_of(one);
        assert_ok(tnr_free(one));
        uint64_t live = tnri_arena_live_count(arena);
        void *borrowed = NULL;
        for (int i = 0; i < 2; i++) { /* in one of the two it is the other lane's turn */
            borrowed = unit_malloc(bytes, life_streams[0]);
            assert_ptr_equal(borrowed, one);
            if (i == 0)
                assert_ok(tnr_free(borrowed));
        }
        assert_int_equal(tnri_arena_live_count(arena), live + 1);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, free_twice, borrowed), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(tnri_arena_live_count(arena), live);
    }
}

/* Blocks of both lanes outlive their stream; a new stream takes both arenas over, and waits for
 * what the old one had been given. */
static void the_end_of_the_stream_seals_every_lane(void **state)
{
    (void)state;
    life_start("lanes_forced:2", "SCHEDULE=lazy", NULL);
    tnr_stream stream = life_stream(CU_STREAM_NON_BLOCKING);
    void *one, *other;
    open_two(&one, &other, 4 * MIB, stream);
    tnri_arena *arenas[2] = {arena_of(one), arena_of(other)};
    life_fill(one, 4 * MIB, 1, stream);
    life_fill(other, 4 * MIB, 2, stream);
    assert_ok(tnr_stream_destroying(0, stream));
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) {
        assert_non_null(arenas[i]->stream->seal);
        assert_false(tnri_lane_has_others(arenas[i]));
    }
    assert_ok(tnr_free(one));
    assert_ok(tnr_free(other));
    stream = life_stream(CU_STREAM_NON_BLOCKING);
    open_two(&one, &other, 4 * MIB, stream);
    life_fill(one, 4 * MIB, 3, stream);
    life_fill(other, 4 * MIB, 4, stream);
    assert_true(arena_of(one) == arenas[0] || arena_of(one) == arenas[1]);
    assert_true(arena_of(other) == arenas[0] || arena_of(other) == arenas[1]);
    assert_int_equal(stats_now().arenas, 2);
    assert_int_equal(stats_now().reserved_bytes.current, 8 * MIB);
    assert_ok(tnr_free(one));
    assert_ok(tnr_free(other));
    assert_ok(tnr_stream_destroying(0, stream));
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
    assert_int_equal(simcuda_violations(), 0);
}

/* While its stream is captured, a lane gives its idle memory to others by the mark that was made
 * before; no lane is opened meanwhile. */
static void captures_mark_every_lane(void **state)
{
    (void)state;
    life_start("lanes_forced:2,chunk_max_mb:2", NULL, NULL);
    tnr_stream stream = life_streams[0];
    void *one, *other;
    open_two(&one, &other, 8 * MIB, stream);
    tnri_arena *arenas[2] = {arena_of(one), arena_of(other)};
    assert_ok(tnr_free(one));
    assert_ok(tnr_free(other));
    void *alone = unit_malloc(512, life_streams[1]); /* takes a chunk */
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.mode = TNR_CAPTURE_RELAXED;
    assert_ok(tnr_capture_begin(0, stream, &options));
    assert_non_null(arenas[0]->stream->capture_mark);
    assert_non_null(arenas[1]->stream->capture_mark);
    uint64_t reserved = stats_now().reserved_bytes.current;
    void *taken = unit_malloc(14 * MIB, life_streams[1]);
    assert_int_equal(stats_now().reserved_bytes.current, reserved);
    assert_int_equal(stats_now().arenas, 4); /* three of streams, one of the graph */
    tnr_cuda_graph graph = NULL;
    assert_ok(tnr_capture_end(&graph, NULL, 0, stream));
    assert_null(arenas[0]->stream->capture_mark);
    assert_null(arenas[1]->stream->capture_mark);
    assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
    void *next = unit_malloc(512, life_streams[1]);
    assert_int_equal(stats_now().arenas, 5); /* now it gets its second lane */
    assert_ok(tnr_free(next));
    assert_ok(tnr_free(alone));
    assert_ok(tnr_free(taken));
    assert_int_equal(simcuda_violations(), 0);
}

static void pictures_show_every_lane(void **state)
{
    (void)state;
    life_start("lanes_forced:2,history:light", NULL, NULL);
    void *one, *other;
    open_two(&one, &other, 4 * MIB, life_streams[0]);
    tnri_picture picture;
    tnri_picture_still();
    assert_ok(tnri_picture_take(&picture, TNRI_SNAPSHOT_CALL));
    assert_int_equal(picture.segments_count, 2);
    assert_int_equal(picture.segments[0].stream, picture.segments[1].stream);
    assert_int_not_equal(picture.segments[0].arena, picture.segments[1].arena);
    assert_int_equal(picture.segments[0].bytes + picture.segments[1].bytes, 8 * MIB);
    tnri_picture_free(&picture);
    assert_ok(tnr_free(one));
    assert_ok(tnr_free(other));
}

/* A pool goes with all lanes of all streams; sleeping pools are covered by the fuzzer. */
static void pools_end_with_their_lanes(void **state)
{
    (void)state;
    life_start("lanes_forced:4", NULL, NULL);
    tnr_pool pool;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    void *blocks[8];
    for (size_t i = 0; i < 8; i++)
        assert_ok(tnr_pool_malloc(&blocks[i], pool, MIB << (i % 3), 0, life_streams[i % 2]));
    assert_error(tnr_pool_destroy(pool), TNR_ERR_BUSY, "8 live blocks");
    for (size_t i = 0; i < 8; i++)
        assert_ok(tnr_free(blocks[i]));
    assert_ok(tnr_pool_destroy(pool));
    assert_int_equal(stats_now().reserved_bytes.current, 0);
}

/* ---- threads that meet ---------------------------------------------------------------------- */

/* A thread that allocates when it is told to, while the other one may hold the lock of its arena
 * and let it go when it has seen that the thread is on its way. */
typedef struct visitor {
    pthread_t thread;
    uint64_t number;   /* the thread's, after its first turn */
    _Atomic int turn;  /* the number of the allocation that is wanted; -1: the end */
    _Atomic int begun; /* the latest that began */
    _Atomic int done;
    _Atomic(tnri_arena *) arena; /* where the latest block was */
} visitor;

static void *visitor_run(void *argument)
{
    visitor *v = argument;
    v->number = tnri_thread_number();
    for (int turn = 1;; turn++) {
        int wanted;
        while ((wanted = atomic_load(&v->turn)) < turn && wanted >= 0)
            sched_yield();
        if (wanted < 0)
            return NULL;
        atomic_store(&v->begun, turn);
        void *ptr;
        assert_ok(tnr_malloc(&ptr, 4096, 0, life_streams[0]));
        atomic_store(&v->arena, arena_of(ptr));
        assert_ok(tnr_free(ptr));
        atomic_store(&v->done, turn);
    }
}

static void visitor_start(visitor *v)
{
    *v = (visitor){0};
    assert_int_equal(pthread_create(&v->thread, NULL, visitor_run, v), 0);
}

/* One allocation. It finds the lock of `held` taken, if that is not null. */
static void visitor_turn(visitor *v, tnri_arena *held)
{
    int turn = atomic_load(&v->turn) + 1;
    if (held != NULL)
        tnri_arena_enter(held);
    atomic_store(&v->turn, turn);
    while (atomic_load(&v->begun) < turn)
        sched_yield();
    if (held != NULL) {
        struct timespec nap = {0, 200000};
        nanosleep(&nap, NULL); /* long enough for it to wait some rounds */
        tnri_arena_leave(held);
    }
    while (atomic_load(&v->done) < turn)
        sched_yield();
}

static void visitor_end(visitor *v)
{
    atomic_store(&v->turn, -1);
    assert_int_equal(pthread_join(v->thread, NULL), 0);
}

/* Has a visitor allocate, as often as `turns` at most, until it is not in `home` any more. Each
 * time it finds the lock taken. */
static tnri_arena *visit(tnri_arena *home, int turns)
{
    visitor v;
    visitor_start(&v);
    atomic_store(&v.arena, home);
    for (int turn = 1; turn <= turns && atomic_load(&v.arena) == home; turn++)
        visitor_turn(&v, home);
    visitor_end(&v);
    return atomic_load(&v.arena);
}

/* How many tenants the arena has, the thread with that number (if it is not 0) being one. */
static int tenants_of(tnri_arena *arena, uint64_t number)
{
    int count = 0, is_one = number == 0;
    tnri_lock_take(&arena->pool->lock);
    for (int i = 0; i < TNRI_LANE_TENANTS; i++) {
        count += arena->lane.tenants[i].number != 0;
        is_one |= arena->lane.tenants[i].number == number;
    }
    tnri_lock_release(&arena->pool->lock);
    return is_one ? count : 0;
}

static void who_waits_too_long_gets_a_lane(void **state)
{
    (void)state;
    life_start("lanes_max:2", NULL, NULL);
    void *mine = unit_malloc(4096, life_streams[0]);
    tnri_arena *home = arena_of(mine);
    for (int i = 0; i < 10; i++) { /* alone: nothing happens */
        assert_ok(tnr_free(mine));
        mine = unit_malloc(4096, life_streams[0]);
    }
    assert_int_equal(stats_now().arenas, 1);
    tnri_arena *lane = visit(home, 100000);
    assert_true(lane == home || tnri_lane_is_other(lane, home)); /* its block may be borrowed */
    assert_int_equal(stats_now().arenas, 2);
    assert_ok(tnr_free(mine));
    mine = unit_malloc(4096, life_streams[0]);
    assert_ptr_equal(arena_of(mine), home); /* who was not in anybody's way stays */
    (void)visit(home, 200);
    assert_int_equal(stats_now().arenas, 2); /* and there are never more than lanes_max */
    assert_ok(tnr_free(mine));
}

/* Waits, but no more than three in some milliseconds. */
static void who_meets_seldom_shares_a_lane(void **state)
{
    (void)state;
    life_start("lanes_max:16", NULL, NULL);
    void *mine = unit_malloc(4096, life_streams[0]);
    tnri_arena *home = arena_of(mine);
    visitor v;
    visitor_start(&v);
    for (int i = 0; i < 12; i++) {
        if (i % 3 == 0) {
            struct timespec nap = {0, 50000000};
            nanosleep(&nap, NULL);
        }
        visitor_turn(&v, home);
    }
    visitor_end(&v);
    assert_int_equal(stats_now().arenas, 1);
    assert_ok(tnr_free(mine));
}

/* The lane of a thread that is gone is the next one's, again and again, however many there were. */
static void who_comes_later_gets_the_free_lane(void **state)
{
    (void)state;
    if (!unit_knows_the_gone())
        skip();
    life_start("lanes_max:2", NULL, NULL);
    void *mine = unit_malloc(4096, life_streams[0]);
    tnri_arena *home = arena_of(mine);
    (void)visit(home, 5000);
    assert_int_equal(stats_now().arenas, 2);
    tnri_arena *lane = atomic_load(&home->lane.next);
    for (int i = 0; i < 2 * TNRI_LANE_TENANTS; i++) {
        visitor v;
        visitor_start(&v);
        visitor_turn(&v, NULL);
        int in_lane = tenants_of(lane, v.number);
        int in_home = tenants_of(home, 0);
        visitor_end(&v);
        assert_int_equal(in_lane, 1);
        assert_int_equal(in_home, 1);
    }
    assert_ok(tnr_free(mine));
}

/* Threads that come one after the other do not wander from lane to lane, with memory in each. */
static void who_comes_alone_gets_the_first_lane(void **state)
{
    (void)state;
    life_start("lanes_max:2", NULL, NULL);
    void *mine = unit_malloc(4096, life_streams[0]);
    tnri_arena *home = arena_of(mine);
    (void)visit(home, 5000);
    assert_int_equal(stats_now().arenas, 2);
    tnri_lock_take(&home->pool->lock);
    for (int i = 0; i < TNRI_LANE_TENANTS; i++)
        home->lane.tenants[i] = (tnri_tenant){0}; /* as if this thread were gone */
    tnri_lock_release(&home->pool->lock);
    for (int i = 0; i < 4; i++) {
        visitor v;
        visitor_start(&v);
        visitor_turn(&v, NULL);
        int in_home = tenants_of(home, v.number);
        visitor_end(&v);
        assert_int_equal(in_home, 1);
    }
    assert_ok(tnr_free(mine));
}

/* Both lanes have a tenant that lives, and one of them never comes again: who waits for the other
 * finds its way to that one's lane, and stays. */
static void idle_tenants_are_in_nobody_s_way(void **state)
{
    (void)state;
    life_start("lanes_max:2", NULL, NULL);
    void *mine = unit_malloc(4096, life_streams[0]);
    tnri_arena *home = arena_of(mine);
    (void)visit(home, 5000);
    tnri_arena *lane = atomic_load(&home->lane.next);
    visitor first, second;
    visitor_start(&first);
    visitor_turn(&first, NULL);
    int is_apart = tenants_of(lane, first.number) == 1;
    visitor_start(&second);
    visitor_turn(&second, NULL);
    tnri_arena *busy = tenants_of(lane, second.number) > 0 ? lane : home;
    tnri_arena *idle = busy == lane ? home : lane;
    for (int i = 0; i < 200 && tenants_of(idle, second.number) == 0; i++)
        visitor_turn(&second, busy);
    int in_busy = tenants_of(busy, 0);
    for (int i = 0; i < 50; i++)
        visitor_turn(&second, NULL);
    int in_idle = tenants_of(idle, second.number);
    visitor_end(&second);
    visitor_end(&first);
    assert_true(is_apart);
    assert_int_equal(in_busy, 1);
    assert_int_equal(in_idle, 2);
    assert_ok(tnr_free(mine));
}

/* The thread that allocates is the only one here; the other only frees, and would follow it. */
static void one_tenant_stays_alone(void **state)
{
    (void)state;
    life_start("lanes_max:16", NULL, NULL);
    void *first;
    assert_ok(tnr_malloc(&first, 4096, 0, life_streams[0]));
    tnri_arena *home = arena_of(first);
    tnri_lock_take(&home->pool->lock);
    for (int i = 0; i < TNRI_LANE_TENANTS; i++)
        home->lane.tenants[i] = (tnri_tenant){0}; /* as if this thread had only freed */
    tnri_lock_release(&home->pool->lock);
    assert_ptr_equal(visit(home, 100), home);
    assert_int_equal(stats_now().arenas, 1);
    assert_ok(tnr_free(first));
}

static void one_is_off(void **state)
{
    (void)state;
    life_start("lanes_max:1", NULL, NULL);
    void *mine = unit_malloc(4096, life_streams[0]);
    assert_ptr_equal(visit(arena_of(mine), 100), arena_of(mine));
    assert_int_equal(stats_now().arenas, 1);
    assert_ok(tnr_free(mine));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(freed_in_one_served_by_the_other, life_stop),
        cmocka_unit_test_teardown(no_lane_strips_another, life_stop),
        cmocka_unit_test_teardown(chunks_move_without_a_wait, life_stop),
        cmocka_unit_test_teardown(retired_in_one_served_to_the_other, life_stop),
        cmocka_unit_test_teardown(flushed_meanwhile_served_to_the_other, life_stop),
        cmocka_unit_test_teardown(statistics_are_sums, life_stop),
        cmocka_unit_test_teardown(any_thread_frees_another_lane_s_block, life_stop),
        cmocka_unit_test_teardown(the_end_of_the_stream_seals_every_lane, life_stop),
        cmocka_unit_test_teardown(captures_mark_every_lane, life_stop),
        cmocka_unit_test_teardown(pictures_show_every_lane, life_stop),
        cmocka_unit_test_teardown(pools_end_with_their_lanes, life_stop),
        cmocka_unit_test_teardown(who_waits_too_long_gets_a_lane, life_stop),
        cmocka_unit_test_teardown(who_meets_seldom_shares_a_lane, life_stop),
        cmocka_unit_test_teardown(who_comes_later_gets_the_free_lane, life_stop),
        cmocka_unit_test_teardown(who_comes_alone_gets_the_first_lane, life_stop),
        cmocka_unit_test_teardown(idle_tenants_are_in_nobody_s_way, life_stop),
        cmocka_unit_test_teardown(one_tenant_stays_alone, life_stop),
        cmocka_unit_test_teardown(one_is_off, life_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
