/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that repeats itself moves its memory without the driver: chunks come back to addresses
 * at which they are still mapped, go home at the trough, and leave nothing mapped when they go.
 *
 * This happens only from the first trough on.
 *
 * Seen to fail: with tnri_cached_window_make always failing, or with tnri_window_cache_note empty,
 * the passes of repeated_moves map for ever, and so they do where no free looks for the trough.
 * With aliases_max:0 they do too, which no_aliases shows. With tnri_trough_keeps always 1, what
 * moves in before_the_trough stays mapped twice. Chunks stay away in little_goes_last with
 * TNRI_TROUGH_FINE 1; much_goes_last fails where tnri_world_bin looks before it has the block, and
 * both with TNRI_TROUGH_FIRST as large as TNRI_TROUGH_BLOCKS. The library ends the program, where
 * its assertions are compiled in, with either condition left out in tnri_window_cache_record.
 * forgotten_aliases_keep_no_memory fails where tnri_reclaim returns what is counted alone, and
 * trimming_removes_old_mappings where trim does, or ends when nothing is mapped, or removes none.
 * trimmed_while_a_window_is_made fails where tnri_stale_forget_aliases returns 1 always, and
 * while_access_changes where ladder_cached does not ask for is_changing.
 * parked_while_a_window_is_made fails where tnri_parked_release goes on with such a chunk, and
 * does not end where chunk_stay does not restore it, or where it is taken again at once.
 */
#include "unit.h"

#include <tenure/park.h>

#include "api/library.h"
#include "memory/arena/arena.h"
#include "memory/arena/world_move.h"
#include "memory/device/chunk.h"
#include "miss/stale.h"

enum { BLOCKS = 16, PASSES = 12 };

static uint64_t mapping_calls(void)
{
    return simcuda_calls("cuMemCreate") + simcuda_calls("cuMemMap") +
           simcuda_calls("cuMemSetAccess") + simcuda_calls("cuMemUnmap") +
           simcuda_calls("cuMemRelease");
}

/* Every second block freed, then larger ones, which only moves can serve; all freed at the end. */
static void pass(tnr_stream stream)
{
    void *blocks[BLOCKS], *large[BLOCKS / 4];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = unit_malloc(4 * MIB, stream);
    for (int i = 0; i < BLOCKS; i += 2)
        assert_ok(tnr_free(blocks[i]));
    for (int i = 0; i < BLOCKS / 4; i++)
        large[i] = unit_malloc(8 * MIB, stream);
    assert_ok(tnr_validate(0));
    for (int i = 0; i < BLOCKS / 4; i++)
        assert_ok(tnr_free(large[i]));
    for (int i = 1; i < BLOCKS; i += 2)
        assert_ok(tnr_free(blocks[i]));
}

/* An old mapping of the arena whose chunk is elsewhere now; null: there is none. Under its lock. */
static tnri_block *alias_any(tnri_arena *arena)
{
    for (int i = 0; i < TNRI_WORLDS; i++)
        for (tnri_block *alias = arena->worlds[i].aliases; alias != NULL; alias = alias->next)
            if (alias->world->space->aliases[tnri_page_of(alias->world->space, alias->base)])
                return alias;
    return NULL;
}

/* Mapping calls of the last pass of several, and that memory stays as it was after the first. */
static uint64_t last_pass(tnr_stream stream)
{
    uint64_t before = 0;
    pass(stream);
    uint64_t reserved = unit_stats().reserved_bytes.current;
    for (int i = 1; i < PASSES; i++) {
        before = mapping_calls();
        pass(stream);
    }
    assert_int_equal(unit_stats().reserved_bytes.current, reserved);
    assert_ok(tnr_validate(0));
    return mapping_calls() - before;
}

static void repeated_moves(void **state)
{
    (void)state;
    unit_start("move_burst_ms:100000,chunk_exact_mb:2", "RACES=1", NULL);
    tnr_stream stream = unit_stream(0);
    assert_int_equal(last_pass(stream), 0);
    assert_true(unit_stats().chunks_moved > 0);
    assert_int_equal(simcuda_races(), 0);
    size_t released;
    assert_ok(tnr_trim(&released, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
    assert_int_equal(unit_stats().num_device_alloc, unit_stats().num_device_free);
}

/* Begins a window with an old mapping of an arena, as another thread might. *chunk is the chunk
 * that it is of, wherever that is now. */
static tnri_block *window_begin(tnri_chunk **chunk, tnri_arena *arena)
{
    tnri_arena_enter(arena);
    tnri_block *alias = alias_any(arena);
    assert_non_null(alias);
    tnri_world *world = alias->world;
    *chunk = world->space->aliases[tnri_page_of(world->space, alias->base)];
    assert_true(tnri_world_spares(world, TNRI_CARVE_RECORDS));
    tnri_block *window = tnri_world_claim(
        world, alias, alias->base, alias->base + (*chunk)->pages * tnri_page_bytes(world->space));
    tnri_arena_leave(arena);
    return window;
}

/* The other thread gives up. The window is still of the chunk. */
static void window_give_up(tnri_arena *arena, tnri_block *window, const tnri_chunk *chunk)
{
    tnri_world *world = window->world;
    tnri_arena_enter(arena);
    assert_ptr_equal(world->space->aliases[tnri_page_of(world->space, window->base)], chunk);
    (void)tnri_world_unclaim(world, window, tnri_stale_add_done, NULL);
    tnri_arena_leave(arena);
}

/* A chunk stays as long as another thread makes a window with one of its old mappings. */
static void trimmed_while_a_window_is_made(void **state)
{
    (void)state;
    size_t released;
    unit_start("move_burst_ms:100000,chunk_exact_mb:2", NULL);
    (void)last_pass(unit_stream(0));
    tnri_arena *arena = tnri_arena_walk(tnri_device_at(0)->pool_default, NULL);
    tnri_chunk *chunk;
    tnri_block *window = window_begin(&chunk, arena);
    assert_ok(tnr_trim(&released, 0, 0));
    /* And with it what lies in the same free run. */
    size_t bytes = chunk->pages * tnri_page_bytes(tnri_arena_space(arena));
    assert_in_range(atomic_load(&arena->account->reserved_bytes), bytes, 4 * bytes);
    window_give_up(arena, window, chunk);
    assert_ok(tnr_trim(&released, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
    assert_int_equal(unit_stats().num_device_alloc, unit_stats().num_device_free);
}

/* The same with a chunk of a parked block, which is its own as before. */
static void parked_while_a_window_is_made(void **state)
{
    (void)state;
    enum { BYTES = 64 * 1024 * 1024 }; /* all that the passes need */
    unit_start("move_burst_ms:100000,chunk_exact_mb:2", NULL);
    tnr_stream stream = unit_stream(0);
    (void)last_pass(stream);
    void *block = unit_malloc(BYTES, stream);
    assert_ok(tnr_park(NULL, block, stream, TNR_CONTENT_DISCARD));
    assert_ok(tnr_trim(NULL, BYTES, 0)); /* what is idle goes, so that parked memory is next */
    assert_int_equal(unit_stats().bytes_parked_away, 0);
    tnri_arena *arena = tnri_arena_walk(tnri_device_at(0)->pool_default, NULL);
    const tnri_space *space = tnri_arena_space(arena);
    tnri_chunk *chunk;
    tnri_block *window = window_begin(&chunk, arena);
    assert_in_range(tnri_page_address(space, chunk->page), (uintptr_t)block,
                    (uintptr_t)block + BYTES - 1);
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_in_range(atomic_load(&arena->account->reserved_bytes),
                    chunk->pages * tnri_page_bytes(space), BYTES - 1);
    assert_ptr_equal(space->pages[chunk->page], chunk);
    window_give_up(arena, window, chunk);
    assert_ok(tnr_unpark(block, stream));
    assert_int_equal(unit_stats().bytes_parked_away, 0);
    assert_ok(tnr_free(block));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
    assert_int_equal(unit_stats().num_device_alloc, unit_stats().num_device_free);
}

/* Nothing comes back to an old mapping while the access of peers changes. */
static void while_access_changes(void **state)
{
    (void)state;
    unit_start("move_burst_ms:100000,chunk_exact_mb:2", NULL);
    tnr_stream stream = unit_stream(0);
    assert_int_equal(last_pass(stream), 0);
    tnri_account *account = tnri_arena_walk(tnri_device_at(0)->pool_default, NULL)->account;
    uint64_t before = mapping_calls();
    atomic_store(&account->access.is_changing, 1);
    pass(stream);
    atomic_store(&account->access.is_changing, 0);
    assert_true(mapping_calls() > before);
    assert_int_equal(last_pass(stream), 0); /* and all is as before */
}

static void no_aliases(void **state)
{
    (void)state;
    unit_start("move_burst_ms:100000,chunk_exact_mb:2,aliases_max:0", NULL);
    assert_true(last_pass(unit_stream(0)) > 0);
}

/* What is kept is bounded, and the rest is unmapped. */
static void few_aliases(void **state)
{
    (void)state;
    unit_start("move_burst_ms:100000,chunk_exact_mb:2,aliases_max:4", "SCHEDULE=eager", NULL);
    (void)last_pass(unit_stream(0));
    tnr_stats stats = unit_stats();
    uint64_t chunks = stats.reserved_bytes.current / (2 * MIB);
    /* Those of one miss come on top until the next. */
    assert_true(stats.num_device_alloc - stats.num_device_free <= chunks + 4 + 4);
}

/* Mappings that there are besides one for each chunk of 2 MiB. */
static uint64_t old_mappings(void)
{
    tnr_stats stats = unit_stats();
    return stats.num_device_alloc - stats.num_device_free -
           stats.reserved_bytes.current / (2 * MIB);
}

/* Beside a block that stays live, which is most of all: nothing says that what moves comes back. */
static void beside_weights(const char *settings, int keeps)
{
    unit_start(settings, "SCHEDULE=eager", NULL);
    tnr_stream stream = unit_stream(0);
    void *weights = unit_malloc(256 * MIB, stream);
    for (int i = 0; i < 3; i++)
        pass(stream);
    assert_true(unit_stats().chunks_moved > 0);
    void *more = unit_malloc(512 * MIB, stream); /* a miss, which unmaps what may be */
    assert_int_equal(old_mappings() > 0, keeps);
    assert_ok(tnr_free(more));
    assert_ok(tnr_free(weights));
}

static void before_the_trough(void **state)
{
    (void)state;
    beside_weights("move_burst_ms:100000,chunk_exact_mb:2,chunk_max_mb:2", 0);
}

static void from_the_first(void **state)
{
    (void)state;
    beside_weights("move_burst_ms:100000,chunk_exact_mb:2,chunk_max_mb:2,aliases_from:first", 1);
}

/* Where access changes, aliases are forgotten, and stay mapped until somebody has the time. A chunk
 * that goes back meanwhile is memory that comes back with its last old mapping alone. */
static void memory_goes_beside_old_mappings(void)
{
    unit_start("move_burst_ms:100000,chunk_exact_mb:2,chunk_max_mb:2,aliases_from:first",
               "SCHEDULE=eager", "DEVICES=2", "MEMORY=72M", NULL);
    tnr_stream stream = unit_stream(0);
    pass(stream);
    assert_true(old_mappings() > 0);
    assert_ok(tnr_device_access_set(0, 1, TNR_ACCESS_READWRITE));
    assert_ok(tnr_configure("release_threshold_mb:0"));
    void *small = unit_malloc(5 * MIB, unit_stream(0)); /* a miss, after which what is idle goes */
    assert_true(unit_stats().reserved_bytes.current < 16 * MIB);
    assert_ok(tnr_free(small));
}

static void forgotten_aliases_keep_no_memory(void **state)
{
    (void)state;
    memory_goes_beside_old_mappings();
    void *large = unit_malloc(60 * MIB, unit_stream(0));
    assert_ok(tnr_free(large));
    assert_ok(tnr_validate(0));
}

static void trimming_removes_old_mappings(void **state)
{
    (void)state;
    memory_goes_beside_old_mappings();
    size_t released;
    assert_ok(tnr_trim(NULL, 1, 0)); /* what is idle goes, old mappings stay */
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
    assert_ok(tnr_trim(&released, 0, 0));
    assert_true(released > 16 * MIB);
    simcuda_live live;
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.mappings, 0);
}

static const tnri_arena *the_arena(void)
{
    return tnri_arena_walk(tnri_device_at(0)->pool_default, NULL);
}

/* Chunks of the only arena that are not at home. */
static size_t chunks_away(void)
{
    const tnri_arena *arena = the_arena();
    const tnri_space *space = tnri_arena_space(arena);
    size_t away = 0;
    for (int i = 0; i < TNRI_WORLDS; i++)
        for (const tnri_block *alias = arena->worlds[i].aliases; alias; alias = alias->next)
            for (size_t page = tnri_page_of(space, alias->base);
                 page < tnri_page_of(space, tnri_block_end(alias)); page++)
                away += space->aliases[page] != NULL &&
                        atomic_load(&space->aliases[page]->home) == page;
    return away;
}

/* Passes beside weights, in each of which chunks move: every second block is freed, then larger
 * ones come. The blocks go first, and of the large ones the last one last. Checks that in the end
 * all chunks are at home, and that the arena has seen nothing but the weights live. */
static void passes_beside_weights(const size_t *large_bytes, size_t count, int hits)
{
    unit_start("move_burst_ms:100000,chunk_exact_mb:2,chunk_max_mb:2", "SCHEDULE=eager", NULL);
    tnr_stream stream = unit_stream(0);
    void *weights = unit_malloc(256 * MIB, stream);
    for (int turn = 0; turn < 4096 / BLOCKS; turn++) { /* until the beginning is forgotten */
        void *blocks[BLOCKS], *large[3];
        for (int i = 0; i < BLOCKS; i++)
            blocks[i] = unit_malloc(4 * MIB, stream);
        for (int i = 0; i < BLOCKS; i += 2)
            assert_ok(tnr_free(blocks[i]));
        for (size_t i = 0; i < count; i++)
            large[i] = unit_malloc(large_bytes[i], stream);
        for (int i = 1; i < BLOCKS; i += 2)
            assert_ok(tnr_free(blocks[i]));
        if (turn == 4096 / BLOCKS - 1)
            assert_true(chunks_away() > 0);
        for (int i = 0; i < hits; i++) { /* a bin is used that serves now and then */
            assert_ok(tnr_free(large[0]));
            large[0] = unit_malloc(large_bytes[0], stream);
        }
        for (size_t i = 0; i < count; i++)
            assert_ok(tnr_free(large[i]));
    }
    assert_int_equal(chunks_away(), 0);
    assert_int_equal(the_arena()->trough.recent, 256 * MIB);
    assert_ok(tnr_validate(0));
    assert_ok(tnr_free(weights));
}

/* What is freed last is little beside the peak, as gradients are when the next step begins. */
static void little_goes_last(void **state)
{
    (void)state;
    passes_beside_weights((size_t[]){8 * MIB, 10 * MIB, 8 * MIB}, 3, 0);
}

/* What is freed last is much, and in a bin when the trough is looked for. */
static void much_goes_last(void **state)
{
    (void)state;
    passes_beside_weights((size_t[]){8 * MIB, 10 * MIB, 20 * MIB}, 3, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(repeated_moves, unit_stop),
        cmocka_unit_test_teardown(trimmed_while_a_window_is_made, unit_stop),
        cmocka_unit_test_teardown(parked_while_a_window_is_made, unit_stop),
        cmocka_unit_test_teardown(while_access_changes, unit_stop),
        cmocka_unit_test_teardown(no_aliases, unit_stop),
        cmocka_unit_test_teardown(few_aliases, unit_stop),
        cmocka_unit_test_teardown(before_the_trough, unit_stop),
        cmocka_unit_test_teardown(from_the_first, unit_stop),
        cmocka_unit_test_teardown(forgotten_aliases_keep_no_memory, unit_stop),
        cmocka_unit_test_teardown(trimming_removes_old_mappings, unit_stop),
        cmocka_unit_test_teardown(little_goes_last, unit_stop),
        cmocka_unit_test_teardown(much_goes_last, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
