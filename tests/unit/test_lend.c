/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lending: a free run goes to another stream as it is, and comes back; nothing is mapped for it,
 * only the order between the streams is made. unit_stats validates everything after each step.
 *
 * In tnri_lend's lend_from, the order left out: the_borrower_waits failed (races), and so did
 * test_order.c, stolen_twice. In tnri_world_lend, the map not cleared: old_pointers_lead_nowhere
 * failed. In run_offer, the rest never taken along: a_small_rest_goes_along failed. In
 * is_span_border, always 0: random_loans failed. In others_lend, loans not charged:
 * streams_do_not_lend_for_ever failed. In plan_would_borrow, no look at
 * pages_missing: own_chunks_are_moved failed. In ladder_plan, no addresses had back:
 * loans_without_end_use_few_addresses failed. In tnri_world_find, the map searched from any other
 * place than the range's start or the end of what is lent below, and without tnri_world_owns:
 * a_search_reads_no_records_of_others failed. In give_back.c's journey_end, without
 * tnri_world_hole_unclaim: what_cannot_go_home_goes_later failed.
 */
#include "few.h"
#include "unit.h"

#include <string.h>
#include <sys/mman.h>

#include <tenure/lifetime.h>

#include "base/host_memory.h"
#include "memory/arena/arena.h"
#include "memory/arena/run.h"
#include "memory/arena/world_lend.h"
#include "memory/arena/world_move.h"
#include "memory/arena/world_retired.h"
#include "memory/arena/world_validate.h"
#include "memory/device/chunk.h"
#include "memory/pool/pool.h"

/* ---- through the library -------------------------------------------------------------------- */

static tnr_stream a, b, c;

static void start(const char *conf)
{
    unit_start(conf, NULL);
    a = unit_stream(0);
    b = unit_stream(0);
    c = unit_stream(0);
    assert_ok(tnr_stream_created(0, b)); /* so that its first allocation asks nothing of it */
}

/* Asserts that so many requests were lent, none moved anything, and nothing was mapped after
 * `mapped` calls. */
static void assert_lent(uint64_t count, uint64_t mapped)
{
    tnr_stats stats = unit_stats();
    assert_int_equal(stats.served[TNR_SERVED_LENT], count);
    assert_int_equal(stats.chunks_moved, 0);
    assert_int_equal(simcuda_calls("cuMemMap"), mapped);
}

static tnr_stream stream_of(const void *ptr)
{
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, ptr));
    return info.stream;
}

static void a_run_is_lent_and_comes_back(void **state)
{
    (void)state;
    start(NULL);
    void *first = unit_malloc(16 * MIB, a);
    uint64_t mapped = simcuda_calls("cuMemMap");
    assert_ok(tnr_free(first));
    uint64_t calls = simcuda_calls_total();
    uint64_t orders = simcuda_calls("cuStreamWaitEvent");
    void *second = unit_malloc(16 * MIB, b);
    assert_ptr_equal(second, first);
    assert_ptr_equal(stream_of(second), b);
    assert_lent(1, mapped);
    assert_int_equal(simcuda_calls("cuStreamWaitEvent"), orders + 1);
    assert_true(simcuda_calls_total() - calls < 8); /* the event, the order, the context */
    assert_ok(tnr_free(second));
    /* Its own now: nothing is asked of the driver. */
    calls = simcuda_calls_total();
    second = unit_malloc(16 * MIB, b);
    assert_ptr_equal(second, first);
    assert_int_equal(simcuda_calls_total(), calls);
    assert_ok(tnr_free(second));
    void *back = unit_malloc(16 * MIB, a);
    assert_ptr_equal(back, first);
    assert_ptr_equal(stream_of(back), a);
    assert_lent(2, mapped);
    assert_ok(tnr_free(back));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
}

/* From stream to stream, without coming back in between. */
static void a_run_is_lent_on(void **state)
{
    (void)state;
    start(NULL);
    void *first = unit_malloc(16 * MIB, a);
    uint64_t mapped = simcuda_calls("cuMemMap");
    assert_ok(tnr_free(first));
    for (int i = 1; i <= 12; i++) {
        void *block = unit_malloc(16 * MIB, i % 3 == 0 ? a : i % 3 == 1 ? b : c);
        assert_ptr_equal(block, first);
        assert_lent((uint64_t)i, mapped);
        assert_ok(tnr_free(block));
    }
}

static void a_large_rest_stays(void **state)
{
    (void)state;
    start("chunk_max_mb:2");
    unsigned char *first = unit_malloc(64 * MIB, a);
    uint64_t mapped = simcuda_calls("cuMemMap");
    assert_ok(tnr_free(first));
    assert_ptr_equal(unit_malloc(4 * MIB, b), first + 60 * MIB);
    assert_ptr_equal(unit_malloc(60 * MIB, a), first);
    assert_lent(1, mapped);
}

static void a_small_rest_goes_along(void **state)
{
    (void)state;
    start("chunk_max_mb:2");
    unsigned char *first = unit_malloc(16 * MIB, a);
    uint64_t mapped = simcuda_calls("cuMemMap");
    assert_ok(tnr_free(first));
    assert_ptr_equal(unit_malloc(4 * MIB, b), first);
    uint64_t calls = simcuda_calls_total();
    assert_ptr_equal(unit_malloc(8 * MIB, b), first + 4 * MIB);
    assert_int_equal(simcuda_calls_total(), calls);
    assert_ptr_equal(unit_malloc(4 * MIB, c), first + 12 * MIB); /* the rest, from b */
    assert_lent(2, mapped);
}

/* What a stream has borrowed goes on whole, so what was lent block by block comes home for one
 * wait, as the run that it was. */
static void what_was_lent_comes_home_whole(void **state)
{
    enum { BLOCKS = 16 };
    (void)state;
    start("chunk_max_mb:2");
    unsigned char *first = unit_malloc(64 * MIB, a);
    uint64_t mapped = simcuda_calls("cuMemMap");
    assert_ok(tnr_free(first));
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = unit_malloc(4 * MIB, b);
    uint64_t lent = unit_stats().served[TNR_SERVED_LENT];
    assert_true(lent > BLOCKS / 2);
    for (int i = 0; i < BLOCKS; i++)
        assert_ok(tnr_free(blocks[i]));
    uint64_t orders = simcuda_calls("cuStreamWaitEvent");
    assert_ptr_equal(unit_malloc(4 * MIB, a), first);
    assert_lent(lent + 1, mapped);
    assert_int_equal(simcuda_calls("cuStreamWaitEvent"), orders + 1);
    uint64_t calls = simcuda_calls_total();
    assert_ptr_equal(unit_malloc(60 * MIB, a), first + 4 * MIB);
    assert_int_equal(simcuda_calls_total(), calls);
}

/* Of several runs, what is borrowed goes first: the lender's own stays in one piece. */
static void what_is_borrowed_goes_first(void **state)
{
    (void)state;
    start("chunk_max_mb:2");
    unsigned char *first = unit_malloc(16 * MIB, a);
    assert_ok(tnr_free(first));
    assert_ptr_equal(unit_malloc(16 * MIB, b), first);
    unsigned char *own = unit_malloc(8 * MIB, b);
    assert_ok(tnr_free(own));
    assert_ok(tnr_free(first));
    uint64_t lent = unit_stats().served[TNR_SERVED_LENT];
    assert_ptr_equal(unit_malloc(6 * MIB, a), first); /* the 8 MiB would fit better */
    assert_int_equal(unit_stats().served[TNR_SERVED_LENT], lent + 1);
    uint64_t calls = simcuda_calls_total();
    assert_ptr_equal(unit_malloc(8 * MIB, b), own);
    assert_int_equal(simcuda_calls_total(), calls);
}

/* A request is not lent a chunk that it would hardly use. */
static void large_chunks_stay(void **state)
{
    (void)state;
    start("chunk_exact_mb:64");
    void *large = unit_malloc(64 * MIB, a); /* one chunk */
    assert_int_equal(unit_stats().chunks_created, 1);
    assert_ok(tnr_free(large));
    void *other = unit_malloc(2 * MIB, b);
    assert_int_equal(unit_stats().served[TNR_SERVED_LENT], 0);
    assert_ok(tnr_free(other));
    assert_ptr_equal(unit_malloc(64 * MIB, a), large);
}

/* A chunk belongs to one arena: one that is free but for a corner stays. */
static void chunks_are_lent_whole(void **state)
{
    (void)state;
    start("chunk_exact_mb:16");
    void *large = unit_malloc(16 * MIB, a);
    assert_ok(tnr_free(large));
    void *corner = unit_malloc(2 * MIB, a);
    uint64_t made = unit_stats().chunks_created;
    void *other = unit_malloc(8 * MIB, b);
    tnr_stats stats = unit_stats();
    assert_int_equal(stats.served[TNR_SERVED_LENT], 0);
    assert_true(stats.chunks_created > made);
    assert_ok(tnr_free(other));
    assert_ok(tnr_free(corner));
}

/* A run of small blocks goes to large ones, and back. What was known of the blocks that lived there
 * is forgotten. */
static void old_pointers_lead_nowhere(void **state)
{
    (void)state;
    enum { SMALL = 64 };
    start("chunk_max_mb:2,bin_blocks:0");
    unsigned char *small[SMALL];
    for (int i = 0; i < SMALL; i++)
        small[i] = unit_malloc(64 * KIB, a);
    uint64_t mapped = simcuda_calls("cuMemMap");
    for (int i = 0; i < SMALL; i++)
        assert_ok(tnr_free(small[i]));
    unsigned char *large = unit_malloc(4 * MIB, b);
    assert_lent(1, mapped);
    int inside = 0;
    tnr_block_info info;
    for (int i = 0; i < SMALL; i++) {
        if (small[i] <= large || small[i] >= large + 4 * MIB)
            continue;
        inside++;
        assert_error(tnr_free(small[i]), TNR_ERR_INTERIOR_POINTER, "inside the block");
        assert_ok(tnr_block_get(&info, small[i]));
        assert_ptr_equal(info.base, large);
        assert_ptr_equal(info.stream, b);
    }
    assert_true(inside > SMALL / 2);
    assert_ok(tnr_free(large));
    for (int i = 0; i < SMALL; i++)
        if (small[i] != large)
            assert_error(tnr_free(small[i]), TNR_ERR_NOT_LIVE, "freed before");
    for (int i = 0; i < SMALL; i++)
        small[i] = unit_malloc(64 * KIB, a);
    assert_lent(2, mapped);
    for (int i = 0; i < SMALL; i++) {
        assert_ptr_equal(stream_of(small[i] + 1), a);
        assert_ok(tnr_free(small[i]));
    }
}

/* ---- when not ------------------------------------------------------------------------------- */

static void settings_decide(void **state)
{
    static const struct {
        const char *conf;
        tnr_served served;
    } cases[] = {{"lend:on", TNR_SERVED_LENT},
                 {"lend:off", TNR_SERVED_SHARED},
                 {"cross_stream:off", TNR_SERVED_GROWN},
                 {"move_percent:0,move_burst_ms:0", TNR_SERVED_GROWN}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        start(cases[i].conf);
        assert_ok(tnr_free(unit_malloc(16 * MIB, a)));
        uint64_t before = unit_stats().served[cases[i].served];
        (void)unit_malloc(16 * MIB, b);
        assert_int_equal(unit_stats().served[cases[i].served], before + 1);
        assert_int_equal(unit_stop(state), 0);
    }
    start(NULL);
}

/* Streams that want the same memory in turn do not lend it to each other for ever: once that has
 * cost as much as moves may cost, the pool grows. */
static void streams_do_not_lend_for_ever(void **state)
{
    enum { STREAMS = 6, TURNS = 3000, LOANS_LEAST = 300, LOANS_MOST = 1500 };
    (void)state;
    start("move_burst_ms:1,address_space_gb:16");
    tnr_stream streams[STREAMS];
    for (int i = 0; i < STREAMS; i++)
        streams[i] = unit_stream(0);
    (void)unit_malloc((size_t)4608 * MIB, c); /* beside which 16 MiB are little */
    uint64_t grown = 0;
    uint64_t calls = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        if (turn == 1)
            grown = unit_stats().served[TNR_SERVED_GROWN];
        if (turn == TURNS - STREAMS)
            calls = simcuda_calls_total();
        assert_ok(tnr_free(unit_malloc(16 * MIB, streams[turn % STREAMS])));
    }
    tnr_stats stats = unit_stats();
    assert_in_range(stats.served[TNR_SERVED_LENT], LOANS_LEAST, LOANS_MOST);
    assert_in_range(stats.served[TNR_SERVED_GROWN], grown + 1, grown + STREAMS - 1);
    assert_int_equal(stats.chunks_moved, 0);
    assert_int_equal(simcuda_calls_total(), calls);
}

/* What chunks leave behind in borrowed addresses goes home, so that loans without end and without a
 * trim use no more addresses than a few. */
static void loans_without_end_use_few_addresses(void **state)
{
    (void)state;
    start("chunk_max_mb:2,address_space_gb:8");
    assert_ok(tnr_limit_set(64 * MIB, 0));
    const tnr_stream streams[] = {a, b, c};
    uint64_t random = 7;
    size_t early = 0, late = 0;
    int rounds = getenv("TENURE_TEST_LONG") == NULL ? few_or(4000, 400) : 20000;
    for (int round = 0; round < rounds; round++) {
        void *block = NULL, *other = NULL;
        size_t bytes = (2 + 2 * unit_below(&random, 15)) * MIB;
        assert_ok(tnr_malloc(&block, bytes, 0, streams[unit_below(&random, 3)]));
        assert_ok(tnr_malloc(&other, 32 * MIB, 0, streams[unit_below(&random, 3)]));
        late = atomic_load(&tnri_device_of((uintptr_t)block)->space.used_bytes);
        if (round == 200)
            early = late;
        assert_ok(tnr_free(block));
        assert_ok(tnr_free(other));
        simcuda_run(UINT64_MAX);
    }
    assert_true(unit_stats().served[TNR_SERVED_LENT] > 100);
    assert_true(unit_stats().chunks_moved > 100);
    print_message("%zu MiB of addresses after 200 rounds, %zu in the end\n", early >> 20,
                  late >> 20);
    assert_true(late <= 2 * early);
}

static int promises_are_refused;

int __real_tnri_world_promise(tnri_world *world, size_t count);
int __wrap_tnri_world_promise(tnri_world *world, size_t count);

int __wrap_tnri_world_promise(tnri_world *world, size_t count)
{
    return !promises_are_refused && __real_tnri_world_promise(world, count);
}

/* Bytes in the default pool that are borrowed, and those on their way home. */
static size_t borrowed(size_t *pending)
{
    size_t bytes = 0;
    *pending = 0;
    for (tnri_arena *arena = NULL;
         (arena = tnri_arena_walk(tnri_device_at(0)->pool_default, arena)) != NULL;)
        for (int i = 0; i < TNRI_WORLDS; i++) {
            bytes += arena->worlds[i].borrowed_bytes;
            *pending += arena->worlds[i].bytes_in[TNRI_PENDING];
        }
    return bytes;
}

/* No host memory is there for the addresses' record at home: they stay a hole of the borrower, and
 * go with the next ones. */
static void what_cannot_go_home_goes_later(void **state)
{
    (void)state;
    start(NULL);
    size_t pending;
    assert_ok(tnr_free(unit_malloc(16 * MIB, a)));
    assert_ok(tnr_free(unit_malloc(16 * MIB, b)));
    assert_int_equal(borrowed(&pending), 16 * MIB);
    promises_are_refused = 1;
    tnr_status status = tnr_trim(NULL, 0, 0);
    promises_are_refused = 0;
    assert_ok(status);
    assert_int_equal(borrowed(&pending), 16 * MIB);
    assert_int_equal(pending, 0);
    (void)unit_stats();
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(borrowed(&pending), 0);
}

/* Memory of another pool, and of a growable block, is not lent. */
static void pools_and_growable_blocks_do_not_lend(void **state)
{
    (void)state;
    start(NULL);
    tnr_pool pool;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    void *block;
    assert_ok(tnr_pool_malloc(&block, pool, 16 * MIB, 0, a));
    assert_ok(tnr_free(block));
    assert_ok(tnr_reserve(&block, 64 * MIB, 0, a));
    assert_ok(tnr_commit(block, 16 * MIB));
    assert_ok(tnr_free(block));
    (void)unit_malloc(16 * MIB, b);
    assert_int_equal(unit_stats().served[TNR_SERVED_LENT], 0);
    assert_int_equal(unit_stats().served[TNR_SERVED_SHARED], 1);
    assert_ok(tnr_pool_destroy(pool));
}

/* Its own chunks are moved rather, because nothing has to wait for that. */
static void own_chunks_are_moved(void **state)
{
    (void)state;
    start("chunk_max_mb:2");
    void *hole = unit_malloc(2 * MIB, a);
    void *between = unit_malloc(2 * MIB, a);
    void *upper = unit_malloc(2 * MIB, a);
    void *end = unit_malloc(2 * MIB, a);
    assert_ok(tnr_free(unit_malloc(4 * MIB, b)));
    assert_ok(tnr_free(hole));
    assert_ok(tnr_free(upper));
    tnr_stats before = unit_stats();
    void *first = unit_malloc(4 * MIB, a);
    tnr_stats after = unit_stats();
    assert_int_equal(after.served[TNR_SERVED_MOVED], before.served[TNR_SERVED_MOVED] + 1);
    assert_int_equal(after.served[TNR_SERVED_LENT], before.served[TNR_SERVED_LENT]);
    assert_ok(tnr_free(first));
    assert_ok(tnr_free(between));
    assert_ok(tnr_free(end));
}

/* ---- order ---------------------------------------------------------------------------------- */

static void the_borrower_waits(void **state)
{
    static const char *const schedules[] = {"SCHEDULE=lazy", "SCHEDULE=eager", "SCHEDULE=random"};
    (void)state;
    for (int s = 0; s < 3; s++) {
        unit_start(NULL, schedules[s], "RACES=1", NULL);
        a = unit_stream(0);
        b = unit_stream(0);
        CUcontext context;
        assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
        assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
        void *first = unit_malloc(16 * MIB, a);
        CUdeviceptr at = (CUdeviceptr)(uintptr_t)first;
        for (int i = 0; i < 8; i++) {
            tnr_stream stream = i % 2 == 0 ? a : b;
            void *block = i == 0 ? first : unit_malloc(16 * MIB, stream);
            assert_ptr_equal(block, first);
            assert_int_equal(cuMemsetD8Async(at, (unsigned char)i, 16 * MIB, (CUstream)stream),
                             CUDA_SUCCESS);
            assert_ok(tnr_free(block));
        }
        simcuda_run(UINT64_MAX);
        assert_int_equal(simcuda_races(), 0);
        assert_int_equal(unit_stats().served[TNR_SERVED_LENT], 7);
        assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
        assert_int_equal(unit_stop(state), 0);
    }
    start(NULL);
}

/* Memory that has been lent outlives the stream that it was lent by, and that which has it. */
static void streams_end(void **state)
{
    (void)state;
    start(NULL);
    void *first = unit_malloc(16 * MIB, a);
    assert_ok(tnr_free(first));
    void *block = unit_malloc(16 * MIB, b);
    assert_ptr_equal(block, first);
    assert_ok(tnr_stream_destroying(0, a));
    assert_ptr_equal(stream_of(block), b);
    assert_ok(tnr_free(block));
    assert_ok(tnr_stream_destroying(0, b));
    block = unit_malloc(16 * MIB, c); /* adopts one of them, or is lent it */
    assert_ptr_equal(block, first);
    assert_int_equal(unit_stats().chunks_moved, 0);
    assert_ok(tnr_free(block));
}

/* ---- the geometry --------------------------------------------------------------------------- */

#define PAGE (2 * MIB)
#define BASE ((uintptr_t)1 << 42)
enum { PAGES = 64, ARENAS = 3, OWNERS = 2, STEPS = 4000 };

static struct {
    tnri_space space;
    tnri_arena *arenas[ARENAS];
    tnri_chunk chunks[PAGES];
} g;

static tnri_world *world_of(size_t i)
{
    return &g.arenas[i]->worlds[TNRI_LARGE];
}

static void geometry_start(void)
{
    int left;
    memset(&g, 0, sizeof(g));
    assert_true(tnri_space_create(&g.space, BASE, 16 * GIB, 21));
    for (size_t i = 0; i < ARENAS; i++) {
        g.arenas[i] = tnri_host_alloc(sizeof(*g.arenas[i]));
        tnri_world_create(world_of(i), g.arenas[i], &g.space, 0, 8);
        assert_true(tnri_world_spares(world_of(i), 200));
    }
    for (size_t page = 0; page < PAGES; page++) {
        g.chunks[page].pages = 1;
        g.chunks[page].page = page;
        g.space.pages[page] = &g.chunks[page];
    }
    /* The first two have spans that touch, with memory under all of them. */
    for (size_t i = 0; i < OWNERS; i++) {
        tnri_world *world = world_of(i);
        tnri_span *span = tnri_space_take(&g.space, PAGES / OWNERS * PAGE, &left);
        uintptr_t base = span->base;
        assert_int_equal(base, BASE + i * (PAGES / OWNERS * PAGE));
        tnri_world_add_span(world, span);
        (void)tnri_world_free(world, tnri_world_claim(world, world->span_first[0], base,
                                                      base + PAGES / OWNERS * PAGE));
    }
}

static void geometry_stop(void)
{
    for (size_t i = ARENAS; i-- > 0;) {
        tnri_world_destroy(world_of(i));
        tnri_host_free(g.arenas[i], sizeof(*g.arenas[i]));
    }
    tnri_space_destroy(&g.space);
}

static void geometry_validate(void)
{
    size_t free = 0;
    size_t borrowed = 0;
    for (size_t i = 0; i < ARENAS; i++) {
        const char *broken = tnri_world_validate(world_of(i));
        if (broken != NULL)
            fail_msg("world %zu: %s", i, broken);
        free += world_of(i)->bytes_in[TNRI_FREE] + world_of(i)->bytes_in[TNRI_LIVE];
        borrowed += world_of(i)->borrowed_bytes;
        /* Ranges that touch have become one, but for those of two spans. */
        for (size_t r = world_of(i)->spans_own; r < world_of(i)->spans_count; r++)
            for (size_t q = world_of(i)->spans_own; q < world_of(i)->spans_count; q++) {
                const tnri_block *last = world_of(i)->span_first[r];
                while (last->above != NULL)
                    last = last->above;
                uintptr_t end = tnri_block_end(last);
                assert_true(end != world_of(i)->span_first[q]->base ||
                            end == BASE + PAGES / OWNERS * PAGE);
            }
    }
    assert_int_equal(free, PAGES * PAGE);
    assert_int_equal(borrowed, world_of(0)->bytes_in[TNRI_LENT] + world_of(1)->bytes_in[TNRI_LENT]);
}

/* The free run of a world that contains a page; null: none. */
static tnri_block *free_at(size_t i, size_t page)
{
    tnri_block *found = tnri_world_find(world_of(i), NULL, BASE + page * PAGE);
    return found != NULL && found->state == TNRI_FREE ? found : NULL;
}

static void lend_pages(size_t from, size_t to, tnri_block *run, size_t page, size_t pages)
{
    tnri_world *giver = world_of(from);
    tnri_world *taker = world_of(to);
    assert_true(tnri_world_promise_borrow(giver) && tnri_world_promise_borrow(taker));
    assert_true(tnri_world_spares(giver, 4) && tnri_world_spares(taker, 4));
    uintptr_t base = BASE + page * PAGE;
    tnri_block *pending = tnri_world_claim(giver, run, base, base + pages * PAGE);
    tnri_world_unpromise_borrow(giver);
    tnri_world_unpromise_borrow(taker);
    tnri_world_lend(giver, pending);
    tnri_block *received = tnri_world_receive(taker, base, pages * PAGE);
    assert_true(received->base <= base && tnri_block_end(received) >= base + pages * PAGE);
    assert_int_equal(received->state, TNRI_FREE);
}

/* Any pages that are free somewhere go anywhere else, while other pages are live. */
static void random_loans(void **state)
{
    (void)state;
    geometry_start();
    uint64_t random = 7;
    tnri_block *live[16] = {NULL};
    for (int step = 0; step < STEPS; step++) {
        size_t slot = unit_below(&random, 16);
        size_t from = unit_below(&random, ARENAS);
        size_t page = unit_below(&random, PAGES);
        tnri_block *run = free_at(from, page);
        if (unit_below(&random, 4) == 0 && live[slot] != NULL) {
            (void)tnri_world_free(live[slot]->world, live[slot]);
            live[slot] = NULL;
        } else if (unit_below(&random, 4) == 0 && live[slot] == NULL && run != NULL) {
            assert_true(tnri_world_spares(world_of(from), 4));
            assert_true(tnri_block_map_prepare(&g.space.map, run->base, 0));
            live[slot] = tnri_world_carve(world_of(from), run, PAGE, TNR_ALIGNMENT_DEFAULT);
        } else if (run != NULL) {
            size_t to = (from + 1 + unit_below(&random, ARENAS - 1)) % ARENAS;
            size_t pages = (tnri_block_end(run) - (BASE + page * PAGE)) / PAGE;
            lend_pages(from, to, run, page, 1 + unit_below(&random, pages));
        }
        geometry_validate();
    }
    for (size_t slot = 0; slot < 16; slot++)
        if (live[slot] != NULL)
            (void)tnri_world_free(live[slot]->world, live[slot]);
    /* All comes back, and is one run again. */
    for (size_t i = 0; i < ARENAS; i++)
        for (size_t page = 0; page < PAGES; page++) {
            size_t owner = page / (PAGES / OWNERS);
            tnri_block *run = i == owner ? NULL : free_at(i, page);
            if (run != NULL)
                lend_pages(i, owner, run, page, 1);
        }
    geometry_validate();
    for (size_t i = 0; i < ARENAS; i++) {
        assert_int_equal(world_of(i)->count_in[TNRI_FREE], i < OWNERS);
        assert_int_equal(world_of(i)->count_in[TNRI_LENT], 0);
        assert_int_equal(world_of(i)->spans_count, i < OWNERS);
    }
    geometry_stop();
}

/* Enters a live record that nobody may read, as if its world were just being destroyed. */
static void gone_enter(char *page, uintptr_t address)
{
    assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
    tnri_block *gone = (tnri_block *)page;
    assert_true(tnri_block_map_prepare(&g.space.map, address, 0));
    *gone = (tnri_block){
        .base = address, .bytes = PAGE, .state = TNRI_LIVE, .world = world_of(ARENAS - 1)};
    tnri_block_map_put(&g.space.map, tnri_block_map_entry(&g.space.map, address), gone);
    assert_int_equal(mprotect(page, 4096, PROT_NONE), 0);
}

/* Records of others are read under their lock only: their world may be ending. Neither what lies
 * below the span is read, nor what is lent, nor what was borrowed until just now. */
static void a_search_reads_no_records_of_others(void **state)
{
    (void)state;
    geometry_start();
    char *pages = mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    size_t mine = PAGES / OWNERS; /* the first page of the second span */
    gone_enter(pages, BASE + (mine - 1) * PAGE);
    tnri_block *whole = free_at(1, mine + 5);
    assert_non_null(whole);
    assert_int_equal(whole->base, BASE + mine * PAGE);
    lend_pages(1, 2, whole, mine + 2, 2);
    gone_enter(pages + 4096, BASE + (mine + 3) * PAGE);
    assert_int_equal(free_at(1, mine)->base, BASE + mine * PAGE);
    assert_int_equal(free_at(1, mine + 9)->base, BASE + (mine + 4) * PAGE);
    tnri_block *lent = tnri_world_find(world_of(1), NULL, BASE + (mine + 3) * PAGE + 1);
    assert_int_equal(lent->state, TNRI_LENT);
    assert_int_equal(free_at(2, mine + 3)->base, BASE + (mine + 2) * PAGE);
    lend_pages(2, 1, free_at(2, mine + 2), mine + 2, 2);
    gone_enter(pages + 2 * 4096, BASE + PAGE);
    assert_null(tnri_world_find(world_of(2), NULL, BASE + (mine + 2) * PAGE));
    /* Nor is the map asked about an address that it does not have. */
    assert_null(tnri_world_find(world_of(1), NULL, 512));
    assert_null(tnri_world_find(world_of(1), NULL, BASE + 16 * GIB));
    assert_null(tnri_world_find(world_of(1), NULL, UINTPTR_MAX));
    geometry_stop();
    assert_int_equal(munmap(pages, 3 * 4096), 0);
}

static int setup(void **state)
{
    (void)state;
    return 0;
}

int main(void)
{
#define LEND_TEST(name) cmocka_unit_test_setup_teardown(name, setup, unit_stop)
    const struct CMUnitTest tests[] = {
        LEND_TEST(a_run_is_lent_and_comes_back),
        LEND_TEST(a_run_is_lent_on),
        LEND_TEST(a_large_rest_stays),
        LEND_TEST(a_small_rest_goes_along),
        LEND_TEST(what_was_lent_comes_home_whole),
        LEND_TEST(what_is_borrowed_goes_first),
        LEND_TEST(large_chunks_stay),
        LEND_TEST(chunks_are_lent_whole),
        LEND_TEST(old_pointers_lead_nowhere),
        LEND_TEST(settings_decide),
        LEND_TEST(streams_do_not_lend_for_ever),
        LEND_TEST(loans_without_end_use_few_addresses),
        LEND_TEST(what_cannot_go_home_goes_later),
        LEND_TEST(pools_and_growable_blocks_do_not_lend),
        LEND_TEST(own_chunks_are_moved),
        LEND_TEST(the_borrower_waits),
        LEND_TEST(streams_end),
        cmocka_unit_test(random_loans),
        cmocka_unit_test(a_search_reads_no_records_of_others),
    };
    return cmocka_run_group_tests_name("lend", tests, NULL, NULL);
}
