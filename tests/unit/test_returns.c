/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Returns. If a thread frees a block of an arena that it does not allocate from, it leaves the
 * block to the thread that does. Only the time that this takes shows it.
 *
 * Seen to fail with these lines changed in the library:
 *   left_to_who_allocates    returns.h, tnri_returns_put: 0 always; and cached.c, arena_malloc:
 *                            without tnri_returns_take
 *   large_ones_are_merged    cached.c, arena_malloc: the same
 *   what_is_asked_is_exact   arena.h, tnri_arena_enter: without tnri_arena_returns_shut
 *   nobody_returns_meanwhile returns.c, tnri_arena_returns_shut: releases the lock at its end
 *   peaks_are_exact          count.c, tnri_headroom_raise: without tnri_arena_take_back
 *   freed_twice              returns.h, tnri_block_return: `what` as it was
 *   freed_twice_at_once      returns.c, block_take_back: every entry counts
 *   no_more_than_are_listed  returns.h, tnri_returns_put: without the bound
 *   one_thread               returns.h, tnri_returns_put: whoever allocates here
 *   spent_worlds             returns.h, tnri_block_return: without regard to is_spent
 *   marks_are_kept           returns.h, tnri_block_return: without regard to marks
 *   an_owner_stays           returns.h, tnri_returns_put: takes the arena's lock as well
 *   given_again_by_an_owner  cached.c, arena_malloc_unbinned: without arena_malloc_returned
 *   taken_back_by_an_owner   cached.c, arena_malloc_returned: *ptr as it was
 *   threads_in_turn          returns.c, tnri_returns_hand_over: without tnri_arena_take_back
 *   places_are_kept          block_map.c, is_taken: BINNED blocks not THERE
 *   all_at_once              the same as nobody_returns_meanwhile
 */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include <tenure/history.h>

#include "api/library.h"
#include "memory/arena/returns.h"
#include "memory/arena/world_validate.h"
#include "memory/pool/donors.h"

enum { BYTES = 4096, FEW = 20, MANY = 200, OWNING = 1000, BATCH = TNRI_RETURNS_AT_ONCE };
enum { TURN = BATCH + 8, TURN_BYTES = 1024 };

typedef struct job {
    void **blocks;
    size_t count;
    tnr_status last;
} job;

static void *job_main(void *argument)
{
    job *self = argument;
    for (size_t i = 0; i < self->count; i++)
        self->last = tnr_free(self->blocks[i]);
    return NULL;
}

/* Frees blocks in a thread that ends. Returns what the last free did. */
static tnr_status freed_elsewhere(void **blocks, size_t count)
{
    job self = {blocks, count, TNR_OK};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, job_main, &self), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return self.last;
}

static tnri_arena *the_arena(void)
{
    return tnri_arena_walk(tnri_device_at(0)->pool_default, NULL);
}

/* Blocks that wait in the arena's list. */
static size_t returned(void)
{
    tnri_returns *returns = tnri_arena_returns(the_arena());
    return returns != NULL ? atomic_load(&returns->count) : 0;
}

static void blocks_make(void **blocks, size_t count, size_t bytes, tnr_stream stream)
{
    for (size_t i = 0; i < count; i++)
        blocks[i] = unit_malloc(bytes, stream);
}

static void left_to_who_allocates(void **state)
{
    (void)state;
    void *blocks[BATCH + 4];
    unit_start(NULL, NULL);
    tnr_stream stream = unit_stream(0);
    blocks_make(blocks, BATCH + 4, BYTES, stream);
    assert_ok(freed_elsewhere(blocks, BATCH + 4));
    assert_int_equal(returned(), BATCH + 4);
    void *again = unit_malloc(BYTES, stream); /* takes back as many as are taken at once */
    assert_int_equal(returned(), 4);
    int is_one = 0;
    for (int i = 0; i < BATCH + 4; i++)
        is_one |= blocks[i] == again;
    assert_int_equal(is_one, 1);
    tnr_stats stats = unit_stats();
    assert_int_equal(stats.served[TNR_SERVED_BIN], 1);
    assert_int_equal(stats.allocation[TNR_WORLD_ALL].current, 1);
}

/* Large blocks have one bin, and live on being merged: here two of them fit better than a larger
 * run that is free as well. */
static void large_ones_are_merged(void **state)
{
    (void)state;
    void *blocks[2];
    unit_start(NULL, NULL);
    tnr_stream stream = unit_stream(0);
    blocks_make(blocks, 2, 64 * MIB, stream);
    void *border = unit_malloc(2 * MIB, stream);
    void *larger = unit_malloc(256 * MIB, stream);
    assert_ok(tnr_free(larger));
    assert_ok(freed_elsewhere(blocks, 2));
    assert_int_equal(returned(), 2);
    uint64_t reserved = atomic_load(&the_arena()->account->reserved_bytes);
    void *both = unit_malloc(128 * MIB, stream);
    assert_ptr_equal(both, blocks[0] < blocks[1] ? blocks[0] : blocks[1]);
    assert_int_equal(atomic_load(&the_arena()->account->reserved_bytes), reserved);
    assert_ok(tnr_free(border));
}

typedef struct turn {
    void **blocks;
    size_t count;
    tnr_stream stream;
    void *block;
} turn;

/* Frees all blocks, then asks for as much as all but one of them had. */
static void *turn_main(void *argument)
{
    turn *self = argument;
    for (size_t i = 0; i < self->count; i++)
        assert_ok(tnr_free(self->blocks[i]));
    assert_int_equal(returned(), self->count);
    self->block = unit_malloc((self->count - 1) * TURN_BYTES, self->stream);
    return NULL;
}

/* Where threads allocate in turn, the second one finds what it freed merged, as the first would. It
 * is more than a request takes back that no bin serves. */
static void threads_in_turn(void **state)
{
    (void)state;
    void *blocks[TURN];
    pthread_t thread;
    unit_start("bin_blocks:0", NULL);
    tnr_stream stream = unit_stream(0);
    blocks_make(blocks, TURN, TURN_BYTES, stream);
    void *end = unit_malloc(TURN_BYTES, stream);
    turn second = {blocks, TURN, stream, NULL};
    assert_int_equal(pthread_create(&thread, NULL, turn_main, &second), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(returned(), 0);
    assert_ptr_equal(second.block, blocks[0]);
    assert_ok(tnr_free(second.block));
    assert_ok(tnr_free(end));
}

/* Who has entered an arena is alone with it. */
static void nobody_returns_meanwhile(void **state)
{
    (void)state;
    void *block;
    unit_start(NULL, NULL);
    block = unit_malloc(BYTES, unit_stream(0));
    assert_ok(freed_elsewhere(&block, 1));
    tnri_arena *arena = the_arena();
    tnri_arena_enter(arena);
    size_t waiting = returned();
    int is_shut = atomic_load(&tnri_arena_returns(arena)->lock.taken);
    tnri_arena_leave(arena);
    assert_int_equal(waiting, 0);
    assert_true(is_shut);
    assert_false(atomic_load(&tnri_arena_returns(arena)->lock.taken));
}

/* Whoever looks sees no block that is freed, whatever waits. */
static void what_is_asked_is_exact(void **state)
{
    (void)state;
    void *blocks[40];
    unit_start(NULL, NULL);
    blocks_make(blocks, 40, BYTES, unit_stream(0));
    assert_ok(freed_elsewhere(blocks, 30));
    assert_int_equal(returned(), 30);
    tnr_stats stats = unit_stats();
    assert_int_equal(stats.allocation[TNR_WORLD_ALL].current, 10);
    assert_int_equal(stats.bytes_live, 10 * BYTES);
    assert_int_equal(stats.freed_because[TNR_REUSE_SAME_STREAM], 30);
    assert_int_equal(returned(), 0);
    assert_ok(freed_elsewhere(blocks + 30, 10));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
}

/* What bins serve meanwhile does not come on top of what waits. */
static void peaks_are_exact(void **state)
{
    (void)state;
    void *blocks[10];
    unit_start(NULL, NULL);
    tnr_stream stream = unit_stream(0);
    blocks_make(blocks, 10, 2 * BYTES, stream);
    for (int i = 0; i < 10; i++)
        assert_ok(tnr_free(blocks[i]));
    blocks_make(blocks, 10, BYTES, stream);
    assert_ok(freed_elsewhere(blocks, 10));
    assert_int_equal(returned(), 10);
    blocks_make(blocks, 10, 2 * BYTES, stream);
    tnr_stats stats = unit_stats();
    assert_int_equal(stats.served[TNR_SERVED_BIN], 10);
    assert_int_equal(stats.allocation[TNR_WORLD_ALL].peak, 10);
    assert_int_equal(stats.allocated_bytes[TNR_WORLD_ALL].peak, 20 * BYTES);
    assert_int_equal(stats.requested_bytes[TNR_WORLD_SMALL].peak, 20 * BYTES);
}

static void freed_twice(void **state)
{
    (void)state;
    void *block;
    unit_start(NULL, NULL);
    block = unit_malloc(BYTES, unit_stream(0));
    assert_ok(freed_elsewhere(&block, 1));
    assert_int_equal(returned(), 1);
    assert_int_equal(freed_elsewhere(&block, 1), TNR_ERR_NOT_LIVE);
    assert_error(tnr_free(block), TNR_ERR_NOT_LIVE, "freed before");
    assert_int_equal(unit_stats().allocation[TNR_WORLD_ALL].current, 0);
}

static void put_by_hand(void *block);

/* The block's owner frees it, too, and saw it live before it was returned: the entry is for nothing
 * then, also when the block has been handed out again. */
static void freed_twice_at_once(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_stream stream = unit_stream(0);
    void *block = unit_malloc(BYTES, stream);
    tnri_block *record = tnri_block_map_at(&tnri_arena_space(the_arena())->map, (uintptr_t)block);
    put_by_hand(block);
    record->what = tnri_block_what(TNRI_LIVE, 0); /* as the owner still saw it */
    assert_ok(tnr_free(block));
    assert_ptr_equal(unit_malloc(BYTES, stream), block);
    assert_int_equal(returned(), 1);
    assert_int_equal(unit_stats().allocation[TNR_WORLD_ALL].current, 1);
    assert_int_equal(returned(), 0);
    put_by_hand(block); /* twice in the list, once returned */
    record->what = tnri_block_what(TNRI_LIVE, 0);
    put_by_hand(block);
    assert_int_equal(returned(), 2);
    assert_int_equal(unit_stats().allocation[TNR_WORLD_ALL].current, 0);
}

static void no_more_than_are_listed(void **state)
{
    (void)state;
    void *blocks[MANY];
    unit_start(NULL, NULL);
    blocks_make(blocks, MANY, BYTES, unit_stream(0));
    assert_ok(freed_elsewhere(blocks, MANY));
    assert_int_equal(returned(), TNRI_RETURNS_MAX);
    assert_int_equal(unit_stats().allocation[TNR_WORLD_ALL].current, 0);
}

/* Nor does one with several streams, the locks of which it does not own yet. */
static void one_thread(void **state)
{
    (void)state;
    void *blocks[2][FEW];
    unit_start(NULL, NULL);
    for (int i = 0; i < 2; i++)
        blocks_make(blocks[i], FEW, BYTES, unit_stream(0));
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < FEW; k++)
            assert_ok(tnr_free(blocks[i][k]));
    tnri_arena *arena = the_arena();
    assert_null(tnri_arena_returns(arena));
    assert_null(tnri_arena_returns(tnri_arena_walk(tnri_device_at(0)->pool_default, arena)));
    assert_int_equal(unit_stats().allocation[TNR_WORLD_ALL].current, 0);
}

/* So many turns in a row that the thread owns the arena's lock. */
static void turns_make(tnr_stream stream)
{
    for (int i = 0; i < OWNING; i++)
        assert_ok(tnr_free(unit_malloc(BYTES, stream)));
}

/* Who owned the lock allocates here, and owns it again later. */
static void an_owner(void **state)
{
    (void)state;
    void *blocks[4];
    unit_start(NULL, NULL);
    tnr_stream stream = unit_stream(0);
    turns_make(stream);
    blocks_make(blocks, 4, BYTES, stream);
    assert_ok(freed_elsewhere(blocks, 4));
    assert_int_equal(returned(), 4);
    turns_make(stream);
    assert_int_equal(unit_stats().allocation[TNR_WORLD_ALL].current, 0);
}

/* A thread that only frees leaves the lock to its owner. */
static void an_owner_stays(void **state)
{
    (void)state;
    void *blocks[BATCH];
    unit_start(NULL, NULL);
    tnr_stream stream = unit_stream(0);
    turns_make(stream);
    blocks_make(blocks, BATCH, BYTES, stream);
    assert_ok(freed_elsewhere(blocks, 1)); /* makes the list */
    turns_make(stream);
    uintptr_t owner = atomic_load(&the_arena()->lock.owner); /* 0 where the kernel lacks a call */
    assert_ok(freed_elsewhere(blocks + 1, BATCH - 1));
    assert_int_equal(returned(), BATCH - 1); /* the first came back when the peak was raised */
    assert_int_equal(atomic_load(&the_arena()->lock.owner), owner);
}

/* Returns a block as another thread would. */
static void put_by_hand(void *block)
{
    tnri_arena *arena = the_arena();
    tnri_block *record = tnri_block_map_at(&tnri_arena_space(arena)->map, (uintptr_t)block);
    uintptr_t allocator = atomic_load(&arena->allocator);
    atomic_store(&arena->allocator, allocator + 1); /* as if another thread allocated */
    assert_int_equal(tnri_returns_put(arena, record, block), 1);
    atomic_store(&arena->allocator, allocator);
}

/* An owner may find what was returned before the lock was its own. */
static void taken_back_by_an_owner(void **state)
{
    (void)state;
    void *block;
    unit_start(NULL, NULL);
    tnr_stream stream = unit_stream(0);
    block = unit_malloc(BYTES, stream);
    assert_ok(freed_elsewhere(&block, 1));
    assert_int_equal(returned(), 1);
    turns_make(stream); /* none of which is served otherwise than by a bin */
    block = unit_malloc(BYTES, stream);
    put_by_hand(block);
    void *none = block; /* a request that nobody can serve finds it first */
    assert_error(tnr_malloc(&none, 512 * GIB, 0, stream), TNR_ERR_OUT_OF_MEMORY, "");
    assert_null(none);
    assert_int_equal(returned(), 0);
    assert_ptr_equal(unit_malloc(BYTES, stream), block);
}

/* And is what the next request of its size gets. */
static void given_again_by_an_owner(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_stream stream = unit_stream(0);
    turns_make(stream);
    void *block = unit_malloc(BYTES, stream);
    put_by_hand(block);
    assert_ptr_equal(unit_malloc(BYTES, stream), block);
    assert_int_equal(returned(), 0);
}

/* A miss finds what was freed in an arena that had nothing to give. */
static void spent_worlds(void **state)
{
    (void)state;
    void *block;
    unit_start("address_space_gb:40", NULL);
    block = unit_malloc(BYTES, unit_stream(0));
    tnri_arena *arena = the_arena();
    for (int i = 0; i < 2; i++)
        (void)unit_malloc(BYTES, unit_stream(0)); /* looks in vain */
    assert_int_equal(arena->worlds[TNRI_SMALL].is_spent, 1);
    assert_ok(freed_elsewhere(&block, 1));
    assert_int_equal(arena->worlds[TNRI_SMALL].is_spent, 0);
    uint64_t reserved = unit_stats().reserved_bytes.current;
    (void)unit_malloc(BYTES, unit_stream(0));
    assert_int_equal(unit_stats().reserved_bytes.current, reserved);
}

/* What a history knows of a block stays with it until it is told of the free. */
static void marks_are_kept(void **state)
{
    (void)state;
    void *block;
    unit_start(NULL, NULL);
    assert_ok(tnr_history_set(0, TNR_HISTORY_LIGHT));
    block = unit_malloc(BYTES, unit_stream(0));
    assert_ok(tnr_history_set(0, TNR_HISTORY_OFF));
    assert_ok(freed_elsewhere(&block, 1));
    assert_int_equal(returned(), 0);
    assert_int_equal(unit_stats().allocation[TNR_WORLD_ALL].current, 0);
}

/* A block that waits keeps its entry in the block map: it is handed out again without one. Here it
 * is alone in its part of 32 KiB, until another one begins there. */
static void places_are_kept(void **state)
{
    (void)state;
    void *blocks[BATCH + 1];
    unit_start(NULL, NULL);
    tnr_stream stream = unit_stream(0);
    blocks_make(blocks + 1, BATCH, 1024, stream);
    blocks[0] = unit_malloc(1024, stream);
    assert_ok(freed_elsewhere(blocks, BATCH + 1));
    char *other = unit_malloc(512, stream); /* takes all of them back but the first */
    assert_int_equal(returned(), 1);
    assert_ptr_equal(other, (char *)blocks[0] + 1024);
    assert_int_equal(unit_stats().allocation[TNR_WORLD_ALL].current, 1);
    assert_ptr_equal(unit_malloc(1024, stream), blocks[0]);
    assert_ok(tnr_free(blocks[0]));
    assert_ok(tnr_free(other));
    assert_int_equal(unit_stats().allocation[TNR_WORLD_ALL].current, 0);
}

/* ---- all at once ---------------------------------------------------------------------------- */

enum { PASSED = 20000, PLACES = 128, SIZES = 7 };

/* Blocks on their way from the thread that allocates to the one that frees. */
typedef struct stage {
    _Atomic(void *) places[PLACES]; /* null: free */
    atomic_int is_over, looks;
} stage;

static void *freeing_main(void *argument)
{
    stage *on = argument;
    for (int i = 0; i < PASSED; i++) {
        void *block;
        while ((block = atomic_exchange(&on->places[i % PLACES], NULL)) == NULL)
            sched_yield();
        assert_ok(tnr_free(block));
    }
    return NULL;
}

static void *looking_main(void *argument)
{
    stage *on = argument;
    tnri_arena *arena = the_arena();
    while (!atomic_load(&on->is_over)) {
        tnr_stats stats = {.struct_bytes = sizeof(stats)};
        assert_ok(tnr_stats_get(&stats, NULL, 0));
        tnri_arena_enter(arena);
        for (int i = 0; i < TNRI_WORLDS; i++)
            assert_null(tnri_world_validate(&arena->worlds[i]));
        tnri_arena_leave(arena);
        if (atomic_fetch_add(&on->looks, 1) % 8 == 0)
            assert_ok(tnr_trim(NULL, 0, 0));
    }
    return NULL;
}

static void all_at_once(void **state)
{
    (void)state;
    static stage on;
    pthread_t freeing, looking;
    uint64_t random = 1;
    unit_start(NULL, NULL);
    tnr_stream stream = unit_stream(0);
    assert_ok(tnr_free(unit_malloc(BYTES, stream))); /* makes the arena */
    assert_int_equal(pthread_create(&freeing, NULL, freeing_main, &on), 0);
    assert_int_equal(pthread_create(&looking, NULL, looking_main, &on), 0);
    while (atomic_load(&on.looks) == 0) /* on a busy machine it came when all was over */
        sched_yield();
    for (int i = 0; i < PASSED; i++) {
        size_t bytes = (size_t)BYTES << 2 * unit_below(&random, SIZES); /* 4 KiB to 16 MiB */
        void *block = unit_malloc(i % 16 == 0 ? bytes : BYTES, stream);
        while (atomic_load(&on.places[i % PLACES]) != NULL)
            sched_yield();
        atomic_store(&on.places[i % PLACES], block);
    }
    assert_int_equal(pthread_join(freeing, NULL), 0);
    atomic_store(&on.is_over, 1);
    assert_int_equal(pthread_join(looking, NULL), 0);
    assert_int_equal(unit_stats().allocation[TNR_WORLD_ALL].current, 0);
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(threads_in_turn, unit_stop),
        cmocka_unit_test_teardown(left_to_who_allocates, unit_stop),
        cmocka_unit_test_teardown(large_ones_are_merged, unit_stop),
        cmocka_unit_test_teardown(what_is_asked_is_exact, unit_stop),
        cmocka_unit_test_teardown(nobody_returns_meanwhile, unit_stop),
        cmocka_unit_test_teardown(peaks_are_exact, unit_stop),
        cmocka_unit_test_teardown(freed_twice, unit_stop),
        cmocka_unit_test_teardown(freed_twice_at_once, unit_stop),
        cmocka_unit_test_teardown(no_more_than_are_listed, unit_stop),
        cmocka_unit_test_teardown(one_thread, unit_stop),
        cmocka_unit_test_teardown(an_owner, unit_stop),
        cmocka_unit_test_teardown(an_owner_stays, unit_stop),
        cmocka_unit_test_teardown(taken_back_by_an_owner, unit_stop),
        cmocka_unit_test_teardown(given_again_by_an_owner, unit_stop),
        cmocka_unit_test_teardown(spent_worlds, unit_stop),
        cmocka_unit_test_teardown(marks_are_kept, unit_stop),
        cmocka_unit_test_teardown(places_are_kept, unit_stop),
        cmocka_unit_test_teardown(all_at_once, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
