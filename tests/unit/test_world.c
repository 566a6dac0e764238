/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The geometry of a world. Whatever is carved, freed, cut, claimed and given back, in any order:
 * records tile the spans, no two free neighbours stay apart, and the sums are right. After each
 * step tnri_world_validate walks everything.
 *
 * A world needs no driver: pages are "mapped" here by entering chunks in the page table.
 *
 * In tnri_record_merge, the half that looks below removed: random_geometry failed with "two free
 * records meet". In block_fit, the lead left out: alignment failed. In slabs_free, without
 * tnri_host_sheet_free, and in slab_make, sheets that are made one slab too early:
 * slabs_come_in_sheets failed.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"
#include "memory/arena/arena.h"
#include "memory/arena/bins.h"
#include "memory/arena/run.h"
#include "memory/arena/world_lend.h"
#include "memory/arena/world_move.h"
#include "memory/arena/world_validate.h"
#include "memory/device/chunk.h"
#include "miss/window.h"

#define PAGE (2 * MIB)
#define BASE ((uintptr_t)1 << 42)
enum { PAGES = 64 }; /* of the one span that the tests use */

static tnri_space space;
static tnri_arena *arena; /* only as the place of the world */
static tnri_world *world;
static tnri_chunk chunks[PAGES]; /* chunk i is mapped at page i, or nowhere */
static size_t stuck_count;

#define assert_valid()                                                                             \
    do {                                                                                           \
        const char *broken_ = tnri_world_validate(world);                                          \
        if (broken_ != NULL)                                                                       \
            fail_msg("line %d: %s", __LINE__, broken_);                                            \
    } while (0)

static int world_start(void **state)
{
    (void)state;
    int left;
    memset(&space, 0, sizeof(space));
    if (!tnri_space_create(&space, BASE, 16 * GIB, 21))
        return -1;
    arena = tnri_host_alloc(sizeof(*arena));
    world = &arena->worlds[TNRI_LARGE];
    tnri_world_create(world, arena, &space, 0, 8);
    if (!tnri_world_spares(world, 200))
        return -1;
    tnri_world_add_span(world, tnri_space_take(&space, PAGES * PAGE, &left));
    stuck_count = 0;
    return 0;
}

static int world_stop(void **state)
{
    (void)state;
    tnri_world_destroy(world);
    tnri_host_free(arena, sizeof(*arena));
    tnri_space_destroy(&space);
    return 0;
}

static void page_map(size_t page)
{
    chunks[page].pages = 1;
    chunks[page].page = page;
    space.pages[page] = &chunks[page];
}

static tnri_block *record_at(uintptr_t address)
{
    for (tnri_block *block = world->span_first[0]; block != NULL; block = block->above)
        if (address >= block->base && address < tnri_block_end(block))
            return block;
    return NULL;
}

/* Maps the pages [first, first + count), all in one hole, and makes them free. */
static tnri_block *pages_make(size_t first, size_t count)
{
    uintptr_t base = BASE + first * PAGE;
    tnri_block *hole = record_at(base);
    assert_int_equal(hole->state, TNRI_HOLE);
    tnri_block *claim = tnri_world_claim(world, hole, base, base + count * PAGE);
    assert_int_equal(claim->state, TNRI_PENDING);
    assert_int_equal(claim->base, base);
    assert_int_equal(claim->bytes, count * PAGE);
    for (size_t page = first; page < first + count; page++)
        page_map(page);
    return tnri_world_free(world, claim);
}

static tnri_block *carve(tnri_block *run, size_t bytes, size_t alignment)
{
    assert_int_equal(tnri_world_spares(world, TNRI_CARVE_RECORDS), 1);
    uintptr_t base = (run->base + alignment - 1) & ~(alignment - 1);
    assert_int_equal(tnri_block_map_prepare(&space.map, base, 0), 1);
    tnri_block *block = tnri_world_carve(world, run, bytes, alignment);
    assert_int_equal(block->base, base);
    assert_int_equal(block->bytes, bytes);
    return block;
}

static void carve_and_free(void **state)
{
    (void)state;
    assert_valid();
    tnri_block *run = pages_make(0, 4);
    assert_valid();
    assert_int_equal(run->bytes, 4 * PAGE);
    tnri_block *a = carve(run, 512, 512);
    tnri_block *b = carve(record_at(tnri_block_end(a)), 4096, 512);
    tnri_block *c = carve(record_at(tnri_block_end(b)), PAGE, 512);
    assert_valid();
    assert_int_equal(world->bytes_in[TNRI_LIVE], 512 + 4096 + PAGE);
    tnri_world_free(world, b);
    assert_valid();
    assert_int_equal(world->count_in[TNRI_FREE], 2);
    tnri_world_free(world, a); /* merges above */
    assert_valid();
    assert_int_equal(world->count_in[TNRI_FREE], 2);
    run = tnri_world_free(world, c); /* merges on both sides */
    assert_valid();
    assert_int_equal(run->bytes, 4 * PAGE);
    assert_int_equal(world->count_in[TNRI_FREE], 1);
    assert_int_equal(tnri_world_largest_free(world), 4 * PAGE);
    c = carve(run, 4 * PAGE, 512); /* exactly all of it */
    assert_int_equal(world->count_in[TNRI_FREE], 0);
    assert_int_equal(tnri_world_largest_free(world), 0);
    assert_valid();
}

static void alignment(void **state)
{
    (void)state;
    tnri_block *run = pages_make(1, 8);
    for (size_t align = 512; align <= 4 * MIB; align *= 2) {
        tnri_block *lead = carve(run, 512, 512);
        tnri_block *block = carve(record_at(tnri_block_end(lead)), 1536, align);
        assert_int_equal(block->base % align, 0);
        assert_valid();
        tnri_world_free(world, lead);
        run = tnri_world_free(world, block);
        assert_valid();
        assert_int_equal(run->bytes, 8 * PAGE);
    }
}

static void cut_uncut_and_hole(void **state)
{
    (void)state;
    tnri_block *run = pages_make(0, 8);
    tnri_block *stale = tnri_world_cut(world, run, 2, 3, 3);
    assert_int_equal(stale->state, TNRI_STALE);
    assert_int_equal(stale->slack, 3);
    assert_int_equal(world->bytes_in[TNRI_FREE], 5 * PAGE);
    assert_valid();
    tnri_world_uncut(world, stale);
    assert_valid();
    run = record_at(BASE);
    assert_int_equal(run->bytes, 8 * PAGE);
    stale = tnri_world_cut(world, run, 0, 8, 8); /* all of a run */
    assert_int_equal(world->count_in[TNRI_FREE], 0);
    assert_valid();
    for (size_t page = 0; page < 8; page++)
        space.pages[page] = NULL;
    tnri_world_hole(world, stale);
    assert_valid();
    assert_int_equal(world->count_in[TNRI_HOLE], 1); /* merged with the rest of the span */
}

static void no_stuck(tnri_arena *unused, tnri_block *stale, void *with)
{
    (void)unused;
    (void)stale;
    (void)with;
    fail_msg("nothing is stuck");
}

static void count_stuck(tnri_arena *of, tnri_block *stale, void *with)
{
    assert_ptr_equal(of, arena);
    assert_null(with);
    assert_int_equal(stale->state, TNRI_STALE);
    stuck_count++;
}

/* A window over free and hole pages, claimed from the middle of one record to the middle of
 * another, goes back to what it was. */
static void claim_and_unclaim(void **state)
{
    (void)state;
    pages_make(0, 2);
    pages_make(4, 2);
    pages_make(8, 1);
    tnri_block *first = record_at(BASE + PAGE);
    tnri_block *claim = tnri_world_claim(world, first, BASE + PAGE + 512, BASE + 8 * PAGE + 1024);
    assert_valid();
    assert_int_equal(claim->bytes, 7 * PAGE + 512);
    assert_int_equal(world->count_in[TNRI_PENDING], 1);
    tnri_world_unclaim(world, claim, no_stuck, NULL);
    assert_valid();
    assert_int_equal(world->count_in[TNRI_FREE], 3);
    assert_int_equal(world->bytes_in[TNRI_FREE], 5 * PAGE);
    assert_int_equal(record_at(BASE + 4 * PAGE)->bytes, 2 * PAGE);
    /* The same inside a single record of each kind. */
    claim = tnri_world_claim(world, record_at(BASE), BASE + 512, BASE + 1024);
    assert_valid();
    tnri_world_unclaim(world, claim, no_stuck, NULL);
    claim =
        tnri_world_claim(world, record_at(BASE + 20 * PAGE), BASE + 20 * PAGE, BASE + 22 * PAGE);
    assert_valid();
    tnri_world_unclaim(world, claim, no_stuck, NULL);
    assert_valid();
    assert_int_equal(world->bytes_in[TNRI_PENDING], 0);
    assert_int_equal(world->count_in[TNRI_FREE], 3);
}

static void what_is_stuck_becomes_stale(void **state)
{
    (void)state;
    pages_make(0, 1);
    tnri_block *claim = tnri_world_claim(world, record_at(BASE), BASE, BASE + 6 * PAGE);
    space.pages[2] = &tnri_mapping_refused;
    space.pages[3] = &tnri_mapping_refused;
    space.pages[5] = &tnri_mapping_refused;
    tnri_world_unclaim(world, claim, count_stuck, NULL);
    assert_valid();
    assert_int_equal(stuck_count, 2);
    assert_int_equal(world->bytes_in[TNRI_STALE], 3 * PAGE);
    assert_null(space.pages[2]);
    tnri_world_hole(world, record_at(BASE + 2 * PAGE));
    tnri_world_hole(world, record_at(BASE + 5 * PAGE));
    assert_valid();
    assert_int_equal(world->count_in[TNRI_HOLE], 1);
}

/* In tnri_world_spares, spares_promised left out: this failed. */
static void promised_records_are_kept(void **state)
{
    (void)state;
    size_t spares = world->spares_count;
    assert_int_equal(tnri_world_promise(world, spares), 1);
    (void)tnri_host_fail_at(1, 1);
    assert_int_equal(tnri_world_spares(world, 1), 0);
    assert_int_equal(tnri_world_promise(world, 1), 0);
    (void)tnri_host_fail_at(0, 0);
    assert_int_equal(world->spares_promised, spares);
    assert_int_equal(tnri_world_spares(world, 1), 1);
    assert_true(world->spares_count > spares);
    tnri_world_unpromise(world, spares);
    assert_int_equal(world->spares_promised, 0);
    assert_valid();
}

/* ---- planted mistakes ----------------------------------------------------------------------- */

static void check_broken(const char *text, int line)
{
    const char *broken = tnri_world_validate(world);
    if (broken == NULL || strstr(broken, text) == NULL)
        fail_msg("line %d: \"%s\", which does not say \"%s\"", line,
                 broken == NULL ? "nothing is broken" : broken, text);
}

/* With this value in the place the world is broken in the way that `text` names, and only then. */
#define PLANT(place, wrong, text)                                                                  \
    do {                                                                                           \
        __typeof__(place) kept_ = (place);                                                         \
        (place) = (wrong);                                                                         \
        check_broken(text, __LINE__);                                                              \
        (place) = kept_;                                                                           \
        assert_valid();                                                                            \
    } while (0)
#define PLANT_STATE(block, state, text) PLANT((block)->what, tnri_block_what(state, 0), text)

/* In pages 0 to 3 a live block, a binned one and the rest; 4 to 7 a hole; 8 and 9 lent; a hole. */
typedef struct planted {
    tnri_block *live, *binned, *rest, *hole, *lent, *last;
} planted;

static planted planted_make(void)
{
    planted p;
    p.live = carve(pages_make(0, 4), 4096, 512);
    p.binned = carve(p.live->above, 8192, 512);
    p.rest = p.binned->above;
    assert_int_equal(tnri_world_bin(world, p.binned), 1);
    tnri_block *run = pages_make(8, 2);
    assert_int_equal(tnri_world_promise_borrow(world), 1);
    p.lent = tnri_world_claim(world, run, run->base, tnri_block_end(run));
    tnri_world_lend(world, p.lent);
    tnri_world_unpromise_borrow(world);
    assert_int_equal(p.lent->state, TNRI_LENT);
    p.hole = p.lent->below;
    p.last = p.lent->above;
    assert_valid();
    return p;
}

static void broken_records_are_found(void **state)
{
    (void)state;
    planted p = planted_make();
    tnri_block *live = p.live;
    PLANT(live->world, NULL, "malformed");
    PLANT(live->bytes, 0, "malformed");
    PLANT(live->bytes, 4097, "malformed");
    PLANT_STATE(live, TNRI_UNUSED, "malformed");
    PLANT(live->bytes, 4096 + 512, "not neighbours");
    PLANT(p.binned->below, NULL, "not neighbours");
    PLANT_STATE(p.binned, TNRI_FREE, "two free records meet");
    PLANT_STATE(p.rest, TNRI_HOLE, "two hole records meet");
    PLANT_STATE(p.last, TNRI_LENT, "two lent records meet");
    PLANT_STATE(live, TNRI_HOLE, "does not consist of pages");
    PLANT_STATE(live, TNRI_STALE, "does not consist of pages");
    PLANT_STATE(live, TNRI_LENT, "does not consist of pages");
    PLANT(live->what, tnri_block_what(TNRI_LIVE, 4096), "more slack than bytes");
    PLANT(live->below, p.last, "not all there are");
    tnri_map_entry *entry = tnri_block_map_entry_make(&space.map, live->base, 0);
    assert_non_null(entry);
    uintptr_t kept = atomic_load(entry);
    atomic_store(entry, 0);
    check_broken("the map does not lead", __LINE__);
    atomic_store(entry, kept);
    assert_valid();
    PLANT(space.pages[1], NULL, "is not mapped");
    PLANT(space.pages[5], &chunks[5], "is mapped");
    PLANT(chunks[1].page, 7, "points to a chunk");
    PLANT(chunks[1].page, 0, "points to a chunk");
}

static void broken_lists_are_found(void **state)
{
    (void)state;
    planted p = planted_make();
    tnri_bins *bins = &world->bins;
    unsigned slot = tnri_bin_slot(p.binned->bytes);
    tnri_block *nothing = NULL;
    PLANT(p.rest->link, &nothing, "the index lists");
    PLANT(p.rest->what, tnri_block_what(TNRI_FREE, p.rest->slack + 1), "the index lists");
    uint64_t what = p.rest->what;
    tnri_index_remove(world->index, p.rest);
    p.rest->what = what;
    check_broken("the index holds 0 bytes in 0 runs", __LINE__);
    tnri_index_insert(world->index, p.rest);
    assert_valid();
    PLANT(world->holes, p.live, "the list of holes has a live record");
    PLANT(world->holes, world->holes->next, "holes");
    PLANT(world->lent, p.live, "the list of what is lent has a live record");
    PLANT(world->lent, NULL, "0 records are in the list of what is lent");
    PLANT(bins->words[slot / 64], 0, "bitmap of the bins is wrong");
    PLANT(bins->slots[slot], p.live, "the bins hold");
    PLANT(p.binned->uses, (struct tnri_uses *)p.live, "the bins hold");
    PLANT(bins->slots[slot], NULL, "0 binned");
    PLANT(bins->max, 0, "1 binned");
    PLANT(bins->slots[slot + 1], p.binned, "bitmap of the bins is wrong");
    bins->words[(slot + 1) / 64] |= (uint64_t)1 << (slot + 1) % 64;
    PLANT(bins->slots[slot + 1], p.binned, "the bins hold");
    bins->words[(slot + 1) / 64] &= ~((uint64_t)1 << (slot + 1) % 64);
    PLANT(world->spares, p.live, "a live record is listed as spare");
    PLANT(world->spares, world->spares->next, "spare were found");
}

static void broken_totals_are_found(void **state)
{
    (void)state;
    (void)planted_make();
    for (int i = TNRI_FREE; i < TNRI_STATE_COUNT; i++) {
        PLANT(world->bytes_in[i], world->bytes_in[i] + 512, "the totals say");
        PLANT(world->count_in[i], world->count_in[i] + 1, "the totals say");
    }
    assert_string_equal(tnri_state_name(TNRI_STATE_COUNT), "?"); /* of a record that is broken */
    PLANT(world->spans_bytes, world->spans_bytes + PAGE, "the records tile");
    PLANT(world->borrowed_bytes, PAGE, "the records tile");
    PLANT(world->spans_own, 0, "of the wrong kind");
    PLANT(world->slabs_count, world->slabs_count + 1, "do not make");
    PLANT(world->spares_count, world->spares_count + 1, "do not make");
}

/* ---- random operations ---------------------------------------------------------------------- */

static tnri_block *records[4096];

/* The records of one state, in address order. */
static size_t records_of(unsigned state)
{
    size_t count = 0;
    for (tnri_block *block = world->span_first[0]; block != NULL; block = block->above)
        if (block->state == state && count < 4096)
            records[count++] = block;
    return count;
}

static void random_map(uint64_t *random)
{
    size_t holes = records_of(TNRI_HOLE);
    if (holes == 0)
        return;
    const tnri_block *hole = records[unit_below(random, holes)];
    size_t pages = hole->bytes / PAGE;
    size_t first = unit_below(random, pages);
    size_t count = 1 + unit_below(random, pages - first);
    if (count > 6)
        count = 6;
    pages_make((hole->base - BASE) / PAGE + first, count);
}

/* Cuts whole pages out of a free run, and takes them back or gives them away. */
static void random_cut(uint64_t *random)
{
    size_t runs = records_of(TNRI_FREE);
    if (runs == 0)
        return;
    tnri_block *run = records[unit_below(random, runs)];
    size_t first = (run->base - BASE + PAGE - 1) / PAGE;
    size_t end = (tnri_block_end(run) - BASE) / PAGE;
    if (end <= first)
        return;
    first += unit_below(random, end - first);
    size_t count = 1 + unit_below(random, end - first);
    tnri_block *stale = tnri_world_cut(world, run, first, count, count);
    assert_valid();
    if (unit_below(random, 2) == 0) {
        tnri_world_uncut(world, stale);
        return;
    }
    for (size_t page = first; page < first + count; page++)
        space.pages[page] = NULL;
    tnri_world_hole(world, stale);
}

/* Claims the best window for a size, and fills its holes or gives it back. */
static void random_claim(uint64_t *random)
{
    tnri_window window;
    size_t bytes = 512 * (1 + unit_below(random, 6 * PAGE / 512));
    if (!tnri_window_find(world, bytes, (size_t)512 << unit_below(random, 14), SIZE_MAX, &window))
        return;
    uintptr_t base = window.base;
    uintptr_t end = window.end;
    if (record_at(base)->state == TNRI_HOLE)
        base &= ~(PAGE - 1);
    if (record_at(end - 1)->state == TNRI_HOLE)
        end = (end + PAGE - 1) & ~(PAGE - 1);
    tnri_block *claim = tnri_world_claim(world, window.first, base, end);
    assert_valid();
    if (unit_below(random, 2) == 0) {
        tnri_world_unclaim(world, claim, no_stuck, NULL);
        return;
    }
    for (size_t page = (base - BASE) / PAGE; page * PAGE + BASE < end; page++)
        if (space.pages[page] == NULL)
            page_map(page);
    tnri_world_free(world, claim);
}

static void random_geometry(void **state)
{
    (void)state;
    uint64_t random = 77;
    for (int step = 0; step < 4000; step++) {
        size_t count;
        tnri_block *block;
        assert_int_equal(tnri_world_spares(world, 80), 1);
        switch (unit_below(&random, 8)) {
        case 0:
            random_map(&random);
            break;
        case 1:
            random_cut(&random);
            break;
        case 2:
            random_claim(&random);
            break;
        case 3:
            count = records_of(TNRI_LIVE);
            if (count > 0 && (block = records[unit_below(&random, count)])->bytes < PAGE)
                (void)tnri_world_bin(world, block);
            break;
        case 4:
            if (unit_below(&random, 10) == 0)
                (void)tnri_world_flush(world);
            break;
        case 5:
            count = records_of(TNRI_LIVE);
            if (count > 0)
                tnri_world_free(world, records[unit_below(&random, count)]);
            break;
        default: {
            size_t bytes = 512 * (1 + unit_below(&random, unit_below(&random, 2) ? 20 : 9000));
            size_t align = (size_t)512 << unit_below(&random, 8);
            block = tnri_index_find(world->index, bytes + align - 512, SIZE_MAX);
            if (block != NULL)
                carve(block, bytes, align);
        }
        }
        assert_valid();
    }
}

/* One more slab; 0: no host memory. */
static int slab_add(void)
{
    return tnri_world_spares_more(world, world->spares_count + 1);
}

/* After the first slabs they lie in sheets of host memory, in order, and all of it is given back.
 * What lacks memory for a sheet has lost nothing. */
static void slabs_come_in_sheets(void **state)
{
    (void)state;
    enum { SHEET_SLABS = TNRI_HOST_SHEET_BYTES / sizeof(tnri_slab) };
    while (world->slabs_count < TNRI_SLABS_SINGLE)
        assert_int_equal(slab_add(), 1);
    uint64_t before = tnri_host_bytes();
    for (size_t i = 0; i < 2 * SHEET_SLABS; i++) {
        if (i % SHEET_SLABS == 0) {
            tnri_host_fail_at(1, 0);
            assert_int_equal(slab_add(), 0);
            assert_int_equal(tnri_host_fail_at(0, 0), 1);
            assert_int_equal(world->slabs_count, TNRI_SLABS_SINGLE + i);
        }
        assert_int_equal(slab_add(), 1);
        uintptr_t slab = (uintptr_t)world->slabs;
        assert_int_equal(slab % TNRI_HOST_SHEET_BYTES, i % SHEET_SLABS * sizeof(tnri_slab));
    }
    assert_valid();
    assert_int_equal(tnri_host_bytes() - before, 2 * TNRI_HOST_SHEET_BYTES);
    uint64_t full = tnri_host_bytes();
    tnri_world_destroy(world);
    assert_true(full - tnri_host_bytes() >=
                2 * TNRI_HOST_SHEET_BYTES + TNRI_SLABS_SINGLE * sizeof(tnri_slab));
    memset(world, 0, sizeof(*world));
    tnri_world_create(world, arena, &space, 0, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(carve_and_free, world_start, world_stop),
        cmocka_unit_test_setup_teardown(alignment, world_start, world_stop),
        cmocka_unit_test_setup_teardown(cut_uncut_and_hole, world_start, world_stop),
        cmocka_unit_test_setup_teardown(claim_and_unclaim, world_start, world_stop),
        cmocka_unit_test_setup_teardown(what_is_stuck_becomes_stale, world_start, world_stop),
        cmocka_unit_test_setup_teardown(promised_records_are_kept, world_start, world_stop),
        cmocka_unit_test_setup_teardown(slabs_come_in_sheets, world_start, world_stop),
        cmocka_unit_test_setup_teardown(broken_records_are_found, world_start, world_stop),
        cmocka_unit_test_setup_teardown(broken_lists_are_found, world_start, world_stop),
        cmocka_unit_test_setup_teardown(broken_totals_are_found, world_start, world_stop),
        cmocka_unit_test_setup_teardown(random_geometry, world_start, world_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
