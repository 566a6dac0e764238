/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tnr_validate finds what is wrong, and names it. Mistakes are planted one at a time in a library
 * that works. Each must be found, and nothing must be found once it is taken out again. Mistakes in
 * the records of a world are in test_world.c.
 *
 * A comparison taken out of stats.c or of tnri_grow_validate makes the test fail that plants its
 * mistake.
 */
#include "unit.h"

#include <string.h>

#include <tenure/lifetime.h>

#include "memory/arena/arena.h"
#include "memory/pool/pool.h"

/* With this value in the place tnr_validate says `text`, and without it nothing. */
#define PLANT(place, wrong, text)                                                                  \
    do {                                                                                           \
        __typeof__(place) kept_ = (place);                                                         \
        (place) = (wrong);                                                                         \
        assert_error(tnr_validate(-1), TNR_ERR_INTERNAL, text);                                    \
        (place) = kept_;                                                                           \
        assert_ok(tnr_validate(-1));                                                               \
    } while (0)

static tnri_device *device;

/* The arena that a block is of. */
static tnri_arena *arena_of(const void *ptr)
{
    device = tnri_device_at(0);
    tnr_pool pool = NULL;
    while ((pool = tnri_pool_walk(device, pool)) != NULL)
        for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;)
            for (int w = 0; w < TNRI_WORLDS; w++)
                for (size_t i = 0; i < arena->worlds[w].spans_count; i++)
                    for (tnri_block *block = arena->worlds[w].span_first[i]; block != NULL;
                         block = block->above)
                        if (block->base == (uintptr_t)ptr && block->state == TNRI_LIVE) {
                            tnri_pool_drop(pool);
                            return arena;
                        }
    fail_msg("%p is no block", ptr);
    return NULL;
}

static void counts_of_an_arena(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *small = unit_malloc(1000, NULL);
    void *large = unit_malloc(3 * MIB, NULL);
    tnri_arena *arena = arena_of(small);
    for (int w = 0; w < TNRI_WORLDS; w++) {
        tnri_world *world = &arena->worlds[w];
        static const char *const text = "the counters of live blocks disagree with the records";
        PLANT(world->headroom.blocks, world->headroom.blocks - 1, text);
        PLANT(world->headroom.bytes, world->headroom.bytes - 512, text);
        PLANT(world->headroom.requested, world->headroom.requested - 1, text);
        PLANT(world->ever.blocks, 0, "more is live than was handed out");
        PLANT(world->ever.bytes, 0, "more is live than was handed out");
        PLANT(world->ever.requested, 0, "more is live than was handed out");
    }
    static const char *const text = "what is live in the two worlds is not what is live in both";
    PLANT(arena->headroom.blocks, arena->headroom.blocks + 1, text);
    PLANT(arena->headroom.bytes, arena->headroom.bytes + 512, text);
    PLANT(arena->headroom.requested, arena->headroom.requested + 1, text);
    PLANT(arena->stale_count, arena->stale_count + 1, "the queue of stale mappings");
    assert_ok(tnr_free(small));
    assert_ok(tnr_free(large));
}

/* As much is live as before, and more than ever was. */
static void peaks_of_an_arena(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *small = unit_malloc(1000, NULL);
    tnri_world *world = &arena_of(small)->worlds[TNRI_SMALL];
    tnri_count peak = world->peak;
    tnri_count headroom = world->headroom;
    for (int field = 0; field < 3; field++) {
        uint64_t *const peaks[] = {&world->peak.blocks, &world->peak.bytes, &world->peak.requested};
        uint64_t *const rooms[] = {&world->headroom.blocks, &world->headroom.bytes,
                                   &world->headroom.requested};
        *rooms[field] -= *peaks[field];
        *peaks[field] = 0;
        assert_error(tnr_validate(0), TNR_ERR_INTERNAL, "more is live than ever was");
        world->peak = peak;
        world->headroom = headroom;
        assert_ok(tnr_validate(0));
    }
    assert_ok(tnr_free(small));
}

static void sums_of_a_device(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *ptr = unit_malloc(3 * MIB, NULL);
    tnr_pool pool = arena_of(ptr)->pool;
    PLANT(device->reserved_bytes, device->reserved_bytes + 512, "the pools have");
    PLANT(pool->account.reserved_bytes, pool->account.reserved_bytes + 512, "the pools have");
    PLANT(pool->account.asleep_bytes, pool->account.asleep_bytes + 512, "reserved or asleep");
    assert_ok(tnr_free(ptr));
}

static void loans(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_stream streams[] = {unit_stream(0), unit_stream(0)};
    void *first = unit_malloc(16 * MIB, streams[0]);
    tnri_arena *lender = arena_of(first);
    assert_ok(tnr_free(first));
    void *second = unit_malloc(16 * MIB, streams[1]);
    assert_ptr_equal(second, first);
    tnr_pool pool = lender->pool;
    assert_int_equal(arena_of(second)->worlds[TNRI_LARGE].borrowed_bytes, 16 * MIB);
    /* Without the lender, which is the older one. */
    tnri_arena *borrower = tnri_arena_walk(pool, NULL);
    PLANT(borrower->next, NULL, "a stream has addresses that no other has lent");
    PLANT(pool->arenas, lender, "what streams have lent is not what others have borrowed");
    assert_ok(tnr_free(second));
}

static void growable_blocks(void **state)
{
    (void)state;
    void *bare, *grown;
    unit_start(NULL, NULL);
    assert_ok(tnr_reserve(&grown, 64 * MIB, 0, NULL));
    assert_ok(tnr_commit(grown, 3 * MIB));
    tnri_arena *arena = arena_of(grown);
    tnri_growable *growable = &arena->growable;
    PLANT(growable->bytes_max, 2 * MIB, "larger than it may be");
    PLANT(growable->base, growable->base + 512, "does not consist of its one span");
    arena->worlds[TNRI_LARGE].headroom.blocks--; /* a bare one counts, and has no record */
    growable->is_bare = 1;
    assert_error(tnr_validate(0), TNR_ERR_INTERNAL, "without memory has some");
    growable->is_bare = 0;
    arena->worlds[TNRI_LARGE].headroom.blocks++;
    assert_ok(tnr_validate(0));
    assert_ok(tnr_reserve(&bare, 64 * MIB, 0, NULL));
    tnri_map_entry *entry = tnri_block_map_entry(&device->space.map, (uintptr_t)bare);
    assert_non_null(entry);
    PLANT(*entry, 0, "the map does not lead to a growable block");
    assert_ok(tnr_free(grown));
    assert_ok(tnr_free(bare));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(counts_of_an_arena, unit_stop),
        cmocka_unit_test_teardown(peaks_of_an_arena, unit_stop),
        cmocka_unit_test_teardown(sums_of_a_device, unit_stop),
        cmocka_unit_test_teardown(loans, unit_stop),
        cmocka_unit_test_teardown(growable_blocks, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
