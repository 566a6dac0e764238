/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Returns. If a thread frees a block of an arena that it does not allocate from, it leaves the
 * block to the thread that does. Only the time that this takes shows it.
 *
 * Seen to fail with these lines changed in the library:
 *   left_to_who_allocates    returns.h, tnri_returns_put: 0 always; and cached.c, arena_malloc:
 *                            without tnri_returns_take
 *   what_is_asked_is_exact   arena.h, tnri_arena_enter: without tnri_arena_take_back (crashed)
 *   peaks_are_exact          count.c, tnri_headroom_raise: without tnri_arena_take_back
 *   freed_twice              returns.h, tnri_returns_put: `what` as it was (an assertion failed)
 *   no_more_than_are_listed  returns.h, tnri_returns_put: without the bound
 *   one_thread               returns.h, tnri_returns_put: whoever allocates here
 *   spent_worlds             returns.h, tnri_returns_put: without regard to is_spent
 *   marks_are_kept           returns.h, tnri_returns_put: without regard to marks
 *   given_again_by_an_owner  cached.c, arena_malloc_unbinned: without arena_malloc_returned
 *   taken_back_by_an_owner   cached.c, arena_malloc_returned: *ptr as it was
 *   threads_in_turn          returns.c, tnri_returns_hand_over: without tnri_arena_take_back
 *   places_are_kept          block_map.c, is_taken: BINNED blocks not THERE
 */
#include "unit.h"

#include <pthread.h>
#include <string.h>

#include <tenure/history.h>

#include "arena/returns.h"
#include "library/library.h"
#include "pool/givers.h"

enum { BYTES = 4096, FEW = 20, MANY = 200, OWNING = 1000 };

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
    const tnri_arena *arena = the_arena();
    return arena->returns != NULL ? arena->returns->count : 0;
}

static void blocks_make(void **blocks, size_t count, size_t bytes, tnr_stream stream)
{
    for (size_t i = 0; i < count; i++)
        blocks[i] = unit_malloc(bytes, stream);
}

static void left_to_who_allocates(void **state)
{
    (void)state;
    void *blocks[12];
    unit_start(NULL, NULL);
    tnr_stream stream = unit_stream(0);
    blocks_make(blocks, 12, BYTES, stream);
    assert_ok(freed_elsewhere(blocks, 12));
    assert_int_equal(returned(), 12);
    void *again = unit_malloc(BYTES, stream); /* takes back as many as are taken at once */
    assert_int_equal(returned(), 12 - TNRI_RETURNS_AT_ONCE);
    int is_one = 0;
    for (int i = 0; i < 12; i++)
        is_one |= blocks[i] == again;
    assert_int_equal(is_one, 1);
    tnr_stats stats = unit_stats();
    assert_int_equal(stats.served[TNR_SERVED_BIN], 1);
    assert_int_equal(stats.allocation[TNR_WORLD_ALL].current, 1);
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
    self->block = unit_malloc((self->count - 1) * BYTES, self->stream);
    return NULL;
}

/* Where threads allocate in turn, the second one finds what it freed merged, as the first would. */
static void threads_in_turn(void **state)
{
    (void)state;
    void *blocks[12];
    pthread_t thread;
    unit_start("bin_blocks:0", NULL);
    tnr_stream stream = unit_stream(0);
    blocks_make(blocks, 12, BYTES, stream);
    void *end = unit_malloc(BYTES, stream);
    turn second = {blocks, 12, stream, NULL};
    assert_int_equal(pthread_create(&thread, NULL, turn_main, &second), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(returned(), 0);
    assert_ptr_equal(second.block, blocks[0]);
    assert_ok(tnr_free(second.block));
    assert_ok(tnr_free(end));
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
    assert_null(arena->returns);
    assert_null(tnri_arena_walk(tnri_device_at(0)->pool_default, arena)->returns);
    assert_int_equal(unit_stats().allocation[TNR_WORLD_ALL].current, 0);
}

/* Who owned the lock allocates here, and owns it again later. */
static void an_owner(void **state)
{
    (void)state;
    void *blocks[4];
    unit_start(NULL, NULL);
    tnr_stream stream = unit_stream(0);
    for (int i = 0; i < OWNING; i++)
        assert_ok(tnr_free(unit_malloc(BYTES, stream)));
    blocks_make(blocks, 4, BYTES, stream);
    assert_ok(freed_elsewhere(blocks, 4));
    assert_int_equal(returned(), 4);
    for (int i = 0; i < OWNING; i++)
        assert_ok(tnr_free(unit_malloc(BYTES, stream)));
    assert_int_equal(unit_stats().allocation[TNR_WORLD_ALL].current, 0);
}

/* Returns a block as another thread would that has not taken the lock away from its owner. */
static void put_by_hand(void *block)
{
    tnri_arena *arena = the_arena();
    arena->allocator++; /* as if another thread allocated */
    tnri_lock_take(&arena->lock);
    tnri_block *record = tnri_block_map_at(&tnri_arena_space(arena)->map, (uintptr_t)block);
    assert_int_equal(tnri_returns_put(arena, record), 1);
    tnri_lock_release(&arena->lock);
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
    for (int i = 0; i < OWNING; i++) { /* turns, none of which is served otherwise than by a bin */
        void *other = unit_malloc(BYTES, stream);
        assert_ok(tnr_free(other));
    }
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
    void *block;
    unit_start(NULL, NULL);
    tnr_stream stream = unit_stream(0);
    for (int i = 0; i < OWNING; i++)
        assert_ok(tnr_free(unit_malloc(BYTES, stream)));
    block = unit_malloc(BYTES, stream);
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
    void *blocks[17];
    unit_start(NULL, NULL);
    tnr_stream stream = unit_stream(0);
    blocks_make(blocks + 1, 16, 2048, stream);
    blocks[0] = unit_malloc(1024, stream);
    assert_ok(freed_elsewhere(blocks, 17));
    char *other = unit_malloc(512, stream);
    assert_int_equal(returned(), 17 - TNRI_RETURNS_AT_ONCE);
    assert_ptr_equal(other, (char *)blocks[0] + 1024);
    assert_int_equal(unit_stats().allocation[TNR_WORLD_ALL].current, 1);
    assert_ptr_equal(unit_malloc(1024, stream), blocks[0]);
    assert_ok(tnr_free(blocks[0]));
    assert_ok(tnr_free(other));
    assert_int_equal(unit_stats().allocation[TNR_WORLD_ALL].current, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(threads_in_turn, unit_stop),
        cmocka_unit_test_teardown(left_to_who_allocates, unit_stop),
        cmocka_unit_test_teardown(what_is_asked_is_exact, unit_stop),
        cmocka_unit_test_teardown(peaks_are_exact, unit_stop),
        cmocka_unit_test_teardown(freed_twice, unit_stop),
        cmocka_unit_test_teardown(no_more_than_are_listed, unit_stop),
        cmocka_unit_test_teardown(one_thread, unit_stop),
        cmocka_unit_test_teardown(an_owner, unit_stop),
        cmocka_unit_test_teardown(taken_back_by_an_owner, unit_stop),
        cmocka_unit_test_teardown(given_again_by_an_owner, unit_stop),
        cmocka_unit_test_teardown(spent_worlds, unit_stop),
        cmocka_unit_test_teardown(marks_are_kept, unit_stop),
        cmocka_unit_test_teardown(places_are_kept, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
