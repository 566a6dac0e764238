/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compaction: what it gives back, and that blocks keep addresses and contents, whatever their
 * sizes, on a full device too; what it leaves as it is; and what is told and noted of it.
 *
 * Lines changed in the library to see a test fail:
 *   set_replace without tnri_pool_set_drain: work_is_waited_for and most others
 *   record_stays: exports not looked at: exported_blocks; parked records as live ones:
 *   parked_blocks
 *   tnri_pool_stays, always null: pools_that_stay, graphs_replay
 *   scratch_copy that copies nothing: every_second_block and most others
 *   tnri_chunk_create_asleep without is_small: small_blocks_on_a_full_device
 *   chunk_replace goes by way of the host after is_asleep: the_way_forward_is_refused
 *   chunk_replace without tnri_replace_by_host: a_full_device, a_limit
 *   loose_compare, the other way round: the_least_in_use_comes_first
 *   tnri_chunk_exchange_check that refuses nothing: a_limit_that_was_lowered
 *   sleeper_needs_all, kept_count 0; kept_until of new chunks, or of all in pool_list, 0:
 *   the_way_forward_is_refused, the_way_back_from_the_host_is_refused
 *   pieces_fill without its case for a busy staging: the_way_forward_is_refused
 *   pieces_map that tries once: a_call_is_refused_once
 *   set_replace without tnri_chunks_release_refused: the_way_back_from_the_host_is_refused
 *   pieces_map without `placed`: traps_hold
 *   pieces_enter without the first tnri_pool_note_mapping: mappings_are_told
 *   has_other always 1: callbacks
 */
#include "sleep.h"
#include "few.h"

#include <string.h>

#include <tenure/capture.h>
#include <tenure/compact.h>
#include <tenure/export.h>
#include <tenure/history.h>
#include <tenure/park.h>
#include <tenure/trap.h>

enum { PAGE = 2 << 20, BLOCKS_MAX = 256 };

/* Requests from 8 MiB on are one chunk each. */
#define LARGE_CHUNKS "chunk_whole_mb:8"

/* A block of a test, with its own contents. */
typedef struct held {
    unsigned char *ptr;
    size_t bytes;
    uint32_t seed;
} held;

static held blocks[BLOCKS_MAX];
static size_t blocks_count;

static void start(const char *conf, const char *memory)
{
    unit_start(conf, memory, "SCHEDULE=lazy", "RACES=1", NULL);
    sleep_context_enter();
    blocks_count = 0;
}

static void end(void)
{
    assert_int_equal(simcuda_races(), 0);
    sleep_context_leave();
}

/* So many chunks of so many bytes side by side, all of them free. */
static void chunks_make(tnr_pool pool, size_t count, size_t bytes, tnr_stream stream)
{
    void *ptr[8];
    uint64_t chunks = sleep_stats(pool).segment.current;
    for (size_t i = 0; i < count; i++)
        assert_ok(tnr_pool_malloc(&ptr[i], pool, bytes, 0, stream));
    assert_int_equal(sleep_stats(pool).segment.current, chunks + count);
    for (size_t i = 0; i < count; i++)
        assert_ok(tnr_free(ptr[i]));
}

static void chunk_make(tnr_pool pool, size_t bytes, tnr_stream stream)
{
    chunks_make(pool, 1, bytes, stream);
}

static void hold(tnr_pool pool, size_t bytes, tnr_stream stream)
{
    held *block = &blocks[blocks_count];
    void *ptr;
    assert_ok(tnr_pool_malloc(&ptr, pool, bytes, 0, stream));
    *block = (held){ptr, bytes, (uint32_t)blocks_count++};
    sleep_fill(ptr, bytes, block->seed, stream);
}

static void drop(size_t i)
{
    assert_ok(tnr_free(blocks[i].ptr));
    blocks[i].ptr = NULL;
}

static void blocks_check(void)
{
    for (size_t i = 0; i < blocks_count; i++)
        if (blocks[i].ptr != NULL)
            sleep_check(blocks[i].ptr, blocks[i].bytes, blocks[i].seed);
}

/* Bytes of the pages that a live block has a part of. */
static size_t pages_in_use(void)
{
    static uintptr_t pages[4096];
    size_t count = 0;
    for (size_t i = 0; i < blocks_count; i++) {
        uintptr_t page = (uintptr_t)blocks[i].ptr / PAGE;
        for (; blocks[i].ptr != NULL && page * PAGE < (uintptr_t)blocks[i].ptr + blocks[i].bytes;
             page++) {
            size_t at = 0;
            while (at < count && pages[at] != page)
                at++;
            assert_true(at < 4096);
            pages[at] = page;
            count += at == count;
        }
    }
    return count * PAGE;
}

/* The pool holds what its blocks need, and the device agrees. */
static void check_tight(tnr_pool pool)
{
    tnr_stats stats = sleep_stats(pool);
    assert_int_equal(stats.reserved_bytes.current, pages_in_use());
    assert_int_equal(stats.bytes_asleep, 0);
    assert_int_equal(stats.segment.current, stats.segment.allocated - stats.segment.freed);
    assert_int_equal(sleep_device_bytes(), sleep_stats(NULL).reserved_bytes.current);
    blocks_check();
}

/* Chunks of 16 MiB, full of blocks of one size, every second of which is freed. */
static void make_strand(size_t chunks, size_t bytes, tnr_stream stream)
{
    size_t from = blocks_count;
    chunks_make(NULL, chunks, 16 * MIB, stream);
    for (size_t at = 0; at + bytes <= chunks * 16 * MIB; at += bytes)
        hold(NULL, bytes, stream);
    for (size_t i = from; i < blocks_count; i += 2)
        drop(i);
}

static void everything_else_works(void)
{
    size_t released;
    for (size_t i = 0; i < blocks_count; i++)
        if (blocks[i].ptr != NULL)
            drop(i);
    void *ptr = unit_malloc(24 * MIB, NULL);
    sleep_fill(ptr, 24 * MIB, 7, NULL);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    sleep_check(ptr, 24 * MIB, 7);
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_trim(&released, 0, 0));
    assert_int_equal(sleep_device_bytes(), 0);
}

/* ---- what goes back ------------------------------------------------------------------------- */

static void every_second_block(void **state)
{
    (void)state;
    static const size_t sizes[] = {2 * MIB, 4 * MIB, 5 * MIB, 1 * MIB};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t released;
        start(LARGE_CHUNKS, "MEMORY=256M");
        make_strand(4, sizes[i], unit_stream(0));
        assert_ok(tnr_trim(NULL, 0, 0));
        uint64_t held_before = sleep_stats(NULL).reserved_bytes.current;
        assert_ok(tnr_compact(&released, NULL, 0));
        check_tight(NULL);
        assert_int_equal(released, held_before - sleep_stats(NULL).reserved_bytes.current);
        assert_true((released > 0) == (sizes[i] > 1 * MIB));
        assert_ok(tnr_compact(&released, NULL, 0));
        assert_int_equal(released, 0);
        everything_else_works();
        end();
        assert_int_equal(unit_stop(NULL), 0);
    }
}

/* Blocks from some bytes to several pages, on two streams, freed at random: after each compaction
 * exactly the pages that blocks have are held. */
static void blocks_of_all_sizes(void **state)
{
    (void)state;
    uint64_t random = 5;
    start(LARGE_CHUNKS, "MEMORY=512M");
    tnr_stream streams[2] = {unit_stream(0), NULL};
    for (int round = 0; round < 12; round++) {
        chunk_make(NULL, 32 * MIB, streams[round % 2]);
        while (blocks_count < BLOCKS_MAX && blocks_count < (size_t)(round + 1) * 20) {
            size_t most = unit_below(&random, 3) == 0 ? 200 * KIB : 7 * MIB;
            hold(NULL, 1 + unit_below(&random, most), streams[unit_below(&random, 2)]);
        }
        for (size_t i = 0; i < blocks_count; i++)
            if (blocks[i].ptr != NULL && unit_below(&random, 3) == 0)
                drop(i);
        assert_ok(round % 2 == 0 ? tnr_compact(NULL, NULL, 0) : tnr_device_compact(NULL, 0));
        check_tight(NULL);
    }
    everything_else_works();
    end();
}

/* Work that is still under way is waited for, and blocks of other pools stay where they are. */
static void work_is_waited_for(void **state)
{
    (void)state;
    tnr_pool other;
    size_t released;
    start(LARGE_CHUNKS, "MEMORY=256M");
    assert_ok(tnr_pool_create(&other, 0, NULL));
    chunk_make(other, 16 * MIB, NULL);
    hold(other, 2 * MIB, NULL);
    make_strand(2, 4 * MIB, unit_stream(0)); /* lazy: nothing has run yet */
    assert_true(simcuda_pending() > 0);
    assert_ok(tnr_compact(&released, NULL, 0));
    assert_true(released > 0);
    assert_int_equal(sleep_stats(other).reserved_bytes.current, 16 * MIB);
    blocks_check();
    assert_ok(tnr_device_compact(&released, 0));
    assert_int_equal(released, 14 * MIB);
    check_tight(NULL);
    end();
}

/* ---- without memory ------------------------------------------------------------------------- */

/* All of the device's memory is in chunks of 16 MiB, and not a page is left for a copy. */
static void start_full(const char *memory, size_t chunks, size_t bytes)
{
    start(LARGE_CHUNKS, memory);
    make_strand(chunks, bytes, NULL);
    assert_int_equal(sleep_device_bytes(), chunks * 16 * MIB);
}

static void a_full_device(void **state)
{
    (void)state;
    size_t released;
    start_full("MEMORY=64M", 4, 4 * MIB);
    uint64_t copies = simcuda_calls("cuMemcpyDtoHAsync");
    assert_ok(tnr_compact(&released, NULL, 0));
    assert_int_equal(released, 32 * MIB);
    /* Only the first chunk takes the way by the host: then there is memory. */
    assert_int_equal(simcuda_calls("cuMemcpyDtoHAsync") - copies, 2);
    check_tight(NULL);
    assert_int_equal(sleep_pinned_bytes(), 0);
    hold(NULL, 30 * MIB, NULL);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    check_tight(NULL);
    everything_else_works();
    end();
}

/* What replaces a chunk of small blocks counts as theirs, by the host too. */
static void small_blocks_on_a_full_device(void **state)
{
    (void)state;
    size_t released;
    start(LARGE_CHUNKS ",small_limit_kb:1024", "MEMORY=8M");
    chunk_make(NULL, 8 * MIB, unit_stream(0));
    tnr_stream stream = unit_stream(0);
    uint64_t lent = unit_stats().served[TNR_SERVED_LENT];
    hold(NULL, MIB, stream);
    assert_int_equal(unit_stats().served[TNR_SERVED_LENT], lent + 1);
    assert_ok(tnr_compact(&released, NULL, 0));
    assert_int_equal(released, 6 * MIB);
    assert_ok(tnr_validate(0)); /* compares the sizes */
    check_tight(NULL);
    end();
}

/* The chunk with the least in use comes first, so the way by the host is short. */
static void the_least_in_use_comes_first(void **state)
{
    (void)state;
    start(LARGE_CHUNKS, "MEMORY=32M");
    chunks_make(NULL, 2, 16 * MIB, NULL);
    for (int i = 0; i < 4; i++)
        hold(NULL, 4 * MIB, NULL);
    hold(NULL, 2 * MIB, NULL);
    hold(NULL, 14 * MIB, NULL);
    drop(1);
    drop(5);
    uint64_t copies = simcuda_calls("cuMemcpyDtoHAsync");
    assert_ok(tnr_compact(NULL, NULL, 0));
    assert_int_equal(simcuda_calls("cuMemcpyDtoHAsync") - copies, 1);
    check_tight(NULL);
    end();
}

/* The same where a limit leaves nothing. */
static void a_limit(void **state)
{
    (void)state;
    size_t released;
    start_full("MEMORY=256M", 4, 4 * MIB);
    assert_ok(tnr_limit_set(64 * MIB, 0));
    assert_ok(tnr_compact(&released, NULL, 0));
    assert_int_equal(released, 32 * MIB);
    check_tight(NULL);
    assert_true(sleep_stats(NULL).reserved_bytes.peak <= 64 * MIB);
    end();
}

/* More is mapped than a limit allows by now: what goes back could not be had again. */
static void a_limit_that_was_lowered(void **state)
{
    (void)state;
    size_t released;
    start_full("MEMORY=256M", 2, 4 * MIB);
    assert_ok(tnr_limit_set(8 * MIB, 0));
    assert_error(tnr_compact(&released, NULL, 0), TNR_ERR_LIMIT,
                 "16.00 MiB of pool \"default\" stay free in chunks that are in use");
    assert_int_equal(released, 0);
    assert_error(tnr_device_compact(&released, 0), TNR_ERR_LIMIT, NULL);
    assert_int_equal(released, 0);
    assert_int_equal(sleep_stats(NULL).reserved_bytes.current, 32 * MIB);
    blocks_check();
    assert_ok(tnr_limit_set(SIZE_MAX, 0));
    assert_ok(tnr_compact(&released, NULL, 0));
    check_tight(NULL);
    end();
}

/* No memory on the device, and no way by the host. */
static void no_memory_at_all(void **state)
{
    (void)state;
    size_t released;
    start_full("MEMORY=32M", 2, 4 * MIB);
    simcuda_fail("cuMemHostAlloc", 1, 1, CUDA_ERROR_OUT_OF_MEMORY);
    assert_error(tnr_compact(&released, NULL, 0), TNR_ERR_OUT_OF_MEMORY,
                 "16.00 MiB of pool \"default\" stay free in chunks that are in use");
    simcuda_fail_clear();
    assert_int_equal(released, 0);
    assert_int_equal(sleep_stats(NULL).reserved_bytes.current, 32 * MIB);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    blocks_check();
    assert_ok(tnr_compact(&released, NULL, 0));
    check_tight(NULL);
    end();
}

static unsigned shortages;

static int compact_and_retry(const tnr_oom_info *info, void *user)
{
    size_t released = 0;
    (void)user;
    shortages++;
    assert_ok(tnr_device_compact(&released, info->device));
    return released > 0;
}

/* A callback of a shortage may compact: what blocks pin serves the request. */
static void a_shortage_compacts(void **state)
{
    (void)state;
    start_full("MEMORY=64M", 4, 4 * MIB);
    void *ptr;
    shortages = 0;
    assert_error(tnr_malloc(&ptr, 24 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY,
                 "32.00 MiB are free inside chunks that live blocks have other parts of");
    tnr_oom_callback_set(compact_and_retry, NULL);
    hold(NULL, 24 * MIB, NULL);
    tnr_oom_callback_set(NULL, NULL);
    assert_int_equal(shortages, 1);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    check_tight(NULL);
    end();
}

/* ---- what the driver refuses ---------------------------------------------------------------- */

/* Whatever is refused once, the pool is awake, nothing is lost, and the next call does the rest. */
static void a_call_is_refused_once(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuCtxSynchronize",    "cuMemCreate",  "cuMemMap",
                                        "cuMemSetAccess",      "cuMemUnmap",   "cuMemcpyDtoDAsync",
                                        "cuStreamSynchronize", "cuMemRelease", "cuStreamCreate"};
    for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++)
        for (uint64_t nth = 1; nth <= (uint64_t)few_or(8, 2); nth++) {
            size_t released;
            start(LARGE_CHUNKS, "MEMORY=256M");
            make_strand(3, 4 * MIB, NULL);
            simcuda_fail(calls[c], nth, 0, CUDA_ERROR_UNKNOWN);
            tnr_status status = tnr_compact(&released, NULL, 0);
            assert_true(status == TNR_OK || status == TNR_ERR_DRIVER);
            simcuda_fail_clear();
            tnr_stats stats = sleep_stats(NULL);
            assert_int_equal(stats.reserved_bytes.current, 48 * MIB - released);
            assert_int_equal(stats.bytes_asleep, 0);
            assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
            blocks_check();
            assert_ok(tnr_trim(NULL, SIZE_MAX, 0)); /* what was refused goes now */
            assert_ok(tnr_compact(&released, NULL, 0));
            assert_ok(tnr_trim(NULL, 0, 0));
            check_tight(NULL);
            everything_else_works();
            end();
            assert_int_equal(unit_stop(NULL), 0);
        }
}

/* The pool is asleep. A wake that fails loses nothing, one that does not brings all back. */
static void check_asleep(const char *call)
{
    void *ptr;
    assert_non_null(strstr(tnr_last_error(), "the pool is asleep"));
    assert_error(tnr_malloc(&ptr, 1, 0, NULL), TNR_ERR_ASLEEP, NULL);
    assert_error(tnr_compact(NULL, NULL, 0), TNR_ERR_ASLEEP, NULL);
    assert_true(tnr_pool_wake(NULL, 0) != TNR_OK);
    simcuda_fail_clear();
    simcuda_fail(call, 2, 0, CUDA_ERROR_UNKNOWN);
    tnr_status again = tnr_pool_wake(NULL, 0);
    assert_true(again == TNR_OK || again == TNR_ERR_DRIVER);
    simcuda_fail_clear();
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    blocks_check();
    assert_int_equal(sleep_pinned_bytes(), 0);
    assert_ok(tnr_compact(NULL, NULL, 0));
    check_tight(NULL);
    everything_else_works();
    end();
}

/* What takes the place of a chunk is refused for good. */
static void the_way_forward_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *call;
        uint64_t nth; /* its first use after the old chunk has gone */
        CUresult result;
        tnr_status status;
    } calls[] = {
        {"cuMemMap", 3, CUDA_ERROR_UNKNOWN, TNR_ERR_DRIVER},
        {"cuMemMap", 4, CUDA_ERROR_UNKNOWN, TNR_ERR_DRIVER},
        {"cuMemSetAccess", 2, CUDA_ERROR_UNKNOWN, TNR_ERR_DRIVER},
        {"cuMemSetAccess", 3, CUDA_ERROR_UNKNOWN, TNR_ERR_DRIVER},
        {"cuMemSetAccess", 2, CUDA_ERROR_OUT_OF_MEMORY, TNR_ERR_OUT_OF_MEMORY},
        {"cuStreamSynchronize", 1, CUDA_ERROR_UNKNOWN, TNR_ERR_DRIVER},
    };
    for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++) {
        start(LARGE_CHUNKS, "MEMORY=256M");
        make_strand(3, 4 * MIB, NULL);
        simcuda_fail(calls[c].call, calls[c].nth, 1, calls[c].result);
        assert_error(tnr_compact(NULL, NULL, 0), calls[c].status, calls[c].call);
        check_asleep(calls[c].call);
        assert_int_equal(unit_stop(NULL), 0);
    }
}

/* The same by way of the host. */
static void the_way_back_from_the_host_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *call;
        uint64_t nth;
    } calls[] = {{"cuMemMap", 1},
                 {"cuMemSetAccess", 1},
                 {"cuMemCreate", 3},
                 {"cuMemcpyHtoDAsync", 1},
                 {"cuMemRelease", 1}};
    for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++) {
        start_full("MEMORY=54M", 3, 4 * MIB); /* and some for everything_else_works */
        simcuda_fail(calls[c].call, calls[c].nth, 1, CUDA_ERROR_UNKNOWN);
        tnr_status status = tnr_compact(NULL, NULL, 0);
        assert_int_equal(status, c == 4 ? TNR_ERR_OUT_OF_MEMORY : TNR_ERR_DRIVER);
        if (c < 4) {
            check_asleep(calls[c].call);
        } else { /* the chunk has come back before anything had gone */
            simcuda_fail_clear();
            assert_ok(tnr_compact(NULL, NULL, 0));
            check_tight(NULL);
            end();
        }
        assert_int_equal(unit_stop(NULL), 0);
    }
}

/* ---- what stays as it is -------------------------------------------------------------------- */

/* A chunk with a block that somebody else may have keeps its memory. */
static void exported_blocks(void **state)
{
    (void)state;
    tnr_pool pool;
    size_t released;
    tnr_export number;
    start(LARGE_CHUNKS ",handle_type:posix_fd", "MEMORY=256M");
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    for (int i = 0; i < 2; i++) {
        chunk_make(pool, 16 * MIB, NULL);
        hold(pool, 2 * MIB, NULL);
        hold(pool, 14 * MIB, NULL);
    }
    drop(1);
    drop(3);
    assert_ok(tnr_export_create(&number, blocks[0].ptr));
    assert_ok(tnr_compact(&released, pool, 0));
    assert_int_equal(released, 14 * MIB);
    assert_ok(tnr_export_close(number));
    assert_ok(tnr_compact(&released, pool, 0));
    assert_int_equal(released, 14 * MIB);
    check_tight(pool);
    end();
}

static void parked_blocks(void **state)
{
    (void)state;
    size_t released;
    start(LARGE_CHUNKS, "MEMORY=256M");
    tnr_stream stream = unit_stream(0);
    chunk_make(NULL, 16 * MIB, stream);
    hold(NULL, 8 * MIB, stream);
    hold(NULL, 2 * MIB, stream);
    assert_ok(tnr_park(NULL, blocks[0].ptr, stream, TNR_CONTENT_KEEP));
    assert_ok(tnr_compact(&released, NULL, 0));
    assert_int_equal(released, 0);
    assert_ok(tnr_unpark(blocks[0].ptr, stream));
    assert_ok(tnr_compact(&released, NULL, 0));
    assert_int_equal(released, 6 * MIB);
    check_tight(NULL);
    end();
}

static tnr_pool pool_with(tnr_pool_options options)
{
    tnr_pool pool;
    assert_ok(tnr_pool_create(&pool, 0, &options));
    return pool;
}

/* Pools whose memory others know are refused by name, and passed by. */
static void pools_that_stay(void **state)
{
    (void)state;
    size_t released;
    unit_start(LARGE_CHUNKS, "MEMORY=256M", "RDMA=1", "SCHEDULE=lazy", NULL);
    sleep_context_enter();
    blocks_count = 0;
    tnr_pool_options shared = TNR_POOL_OPTIONS_INIT;
    shared.is_shared = 1;
    shared.handle_type = TNR_HANDLE_POSIX_FD;
    tnr_pool_options cards = TNR_POOL_OPTIONS_INIT;
    cards.gpu_direct_rdma = 1;
    tnr_pool vouched;
    assert_ok(tnr_vouched_pool_create(&vouched, 0, NULL));
    tnr_pool pools[] = {pool_with(shared), pool_with(cards), vouched,
                        pool_with((tnr_pool_options)TNR_POOL_OPTIONS_INIT)};
    for (int i = 0; i < 4; i++) {
        chunk_make(pools[i], 16 * MIB, NULL);
        hold(pools[i], 2 * MIB, NULL);
    }
    assert_ok(tnr_memory_registered(blocks[3].ptr));
    for (int i = 0; i < 4; i++)
        assert_error(tnr_compact(&released, pools[i], 0), TNR_ERR_BUSY, "keeps its memory");
    assert_ok(tnr_device_compact(&released, 0));
    assert_int_equal(released, 0);
    assert_int_equal(sleep_device_bytes(), 4 * 16 * MIB);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    blocks_check();
    end();
}

static void sleeping_pools(void **state)
{
    (void)state;
    size_t released;
    start(LARGE_CHUNKS, "MEMORY=256M");
    make_strand(1, 4 * MIB, NULL);
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    assert_error(tnr_compact(&released, NULL, 0), TNR_ERR_ASLEEP, NULL);
    assert_ok(tnr_device_compact(&released, 0));
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_ok(tnr_compact(&released, NULL, 0));
    check_tight(NULL);
    assert_ok(tnr_pool_sleep(NULL, 0, NULL)); /* and what is compact sleeps */
    assert_int_equal(sleep_device_bytes(), 0);
    assert_ok(tnr_pool_wake(NULL, 0));
    check_tight(NULL);
    end();
}

/* ---- graphs --------------------------------------------------------------------------------- */

/* A graph that reads a block of the default pool, whose chunk is replaced, and memory of its own
 * pool, which stays. */
static void graphs_replay(void **state)
{
    (void)state;
    enum { BYTES = 4 << 20 };
    tnr_graph number;
    tnr_cuda_graph cuda;
    CUgraphExec exec;
    void *out;
    size_t released;
    start(LARGE_CHUNKS, "MEMORY=256M");
    tnr_stream stream = unit_stream(0);
    make_strand(2, BYTES, stream);
    assert_ok(tnr_capture_begin(0, stream, NULL));
    assert_error(tnr_compact(&released, NULL, 0), TNR_ERR_BUSY, "capture is under way");
    assert_ok(tnr_malloc(&out, 12 * MIB, 0, stream));
    assert_int_equal(cuMemcpyDtoDAsync((CUdeviceptr)out, (CUdeviceptr)blocks[1].ptr, BYTES, stream),
                     CUDA_SUCCESS);
    assert_ok(tnr_capture_end(&cuda, &number, 0, stream));
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, cuda, 0), CUDA_SUCCESS);
    tnr_graph_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_graph_get(&info, number));
    assert_error(tnr_compact(&released, info.pool, 0), TNR_ERR_BUSY, "graphs live");
    uint64_t graph_bytes = sleep_stats(info.pool).reserved_bytes.current;
    assert_ok(tnr_device_compact(&released, 0));
    assert_true(released > 0);
    assert_int_equal(sleep_stats(info.pool).reserved_bytes.current, graph_bytes);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cuMemsetD32Async((CUdeviceptr)out, 0, BYTES / 4, stream), CUDA_SUCCESS);
        assert_ok(tnr_graph_launch(number, exec, stream));
        assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
        sleep_check(out, BYTES, blocks[1].seed);
        assert_ok(tnr_device_compact(NULL, 0));
    }
    assert_ok(tnr_free(out));
    assert_int_equal(cuGraphExecDestroy(exec), CUDA_SUCCESS);
    assert_int_equal(cuGraphDestroy(cuda), CUDA_SUCCESS);
    (void)simcuda_run(UINT64_MAX);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    (void)simcuda_run(UINT64_MAX);
    assert_ok(tnr_device_compact(NULL, 0));
    check_tight(NULL);
    end();
}

/* ---- what is told --------------------------------------------------------------------------- */

static tnr_sleep_event told[8];
static unsigned told_count;

static void note_event(tnr_pool pool, int device, tnr_sleep_event event, uint64_t generation,
                       void *user)
{
    (void)pool;
    (void)device;
    (void)generation;
    assert_ptr_equal(user, told);
    assert_true(told_count < 8);
    told[told_count++] = event;
    assert_error(tnr_compact(NULL, NULL, 0), TNR_ERR_BUSY, "callback");
}

static void callbacks(void **state)
{
    (void)state;
    start(LARGE_CHUNKS, "MEMORY=256M");
    make_strand(1, 4 * MIB, NULL);
    told_count = 0;
    assert_ok(tnr_sleep_callback_add(note_event, told));
    assert_ok(tnr_compact(NULL, NULL, 0));
    assert_int_equal(told_count, 2);
    assert_int_equal(told[0], TNR_SLEEP_GOING);
    assert_int_equal(told[1], TNR_SLEEP_AWAKE);
    uint64_t generation = tnr_pool_generation(NULL, 0);
    assert_int_equal(generation, 1);
    assert_ok(tnr_compact(NULL, NULL, 0)); /* nothing to do: the memory is the same */
    assert_int_equal(told_count, 4);
    assert_int_equal(told[3], TNR_SLEEP_CANCELLED);
    assert_int_equal(tnr_pool_generation(NULL, 0), generation);
    assert_ok(tnr_sleep_callback_remove(note_event, told));
    end();
}

/* Who follows mappings is told that memory went, and what came where. */
static void mappings_are_told(void **state)
{
    (void)state;
    tnr_mapping seen[16];
    uint64_t lost;
    start(LARGE_CHUNKS, "MEMORY=256M");
    chunk_make(NULL, 16 * MIB, NULL);
    hold(NULL, 2 * MIB, NULL);
    hold(NULL, 4 * MIB, NULL);
    hold(NULL, 4 * MIB, NULL);
    drop(1);
    tnr_mappings_follow(1);
    assert_ok(tnr_compact(NULL, NULL, 0));
    size_t count = tnr_mappings_take(seen, &lost, 16);
    tnr_mappings_follow(0);
    assert_int_equal(count, 3);
    assert_int_equal(seen[0].is_mapped, 0);
    assert_int_equal(seen[0].base, (uintptr_t)blocks[0].ptr);
    assert_int_equal(seen[0].bytes, 16 * MIB);
    assert_int_equal(seen[1].is_mapped, 1);
    assert_int_equal(seen[1].base, (uintptr_t)blocks[0].ptr);
    assert_int_equal(seen[1].bytes, 2 * MIB);
    assert_int_equal(seen[2].base, (uintptr_t)blocks[2].ptr);
    assert_int_equal(seen[2].bytes, 4 * MIB);
    check_tight(NULL);
    end();
}

static void peers_reach_it(void **state)
{
    (void)state;
    unit_start(LARGE_CHUNKS, "MEMORY=256M", "DEVICES=2", NULL);
    sleep_context_enter();
    blocks_count = 0;
    assert_ok(tnr_pool_access_set(NULL, 0, 1, TNR_ACCESS_READWRITE));
    make_strand(2, 4 * MIB, NULL);
    assert_ok(tnr_compact(NULL, NULL, 0));
    for (size_t i = 1; i < blocks_count; i += 2) {
        unsigned long long flags = 0;
        CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1};
        assert_int_equal(cuMemGetAccess(&flags, &location, (CUdeviceptr)blocks[i].ptr),
                         CUDA_SUCCESS);
        assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    }
    sleep_context_leave();
}

static unsigned findings;

static void note_finding(const tnr_trap_finding *finding, void *user)
{
    (void)finding;
    (void)user;
    findings++;
}

/* Poison and canaries are copied along: a late write is found after a compaction too, and nothing
 * else. */
static void traps_hold(void **state)
{
    (void)state;
    tnr_traps_info info = {.struct_bytes = sizeof(info)};
    start(LARGE_CHUNKS ",poison:on,canary:on", "MEMORY=256M");
    findings = 0;
    tnr_trap_callback_set(note_finding, NULL);
    chunk_make(NULL, 16 * MIB - 64, NULL); /* and a canary */
    hold(NULL, 3 * MIB + 100, NULL);
    hold(NULL, 600 * KIB, NULL);
    hold(NULL, 4 * MIB, NULL);
    unsigned char *freed = blocks[1].ptr;
    drop(1);
    drop(2);
    assert_ok(tnr_compact(NULL, NULL, 0));
    check_tight(NULL);
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)freed + 64, 1, 3, NULL), CUDA_SUCCESS);
    assert_ptr_equal(unit_malloc(600 * KIB, NULL), freed);
    assert_ok(tnr_traps_get(&info, 1));
    assert_int_equal(findings, 1);
    assert_ok(tnr_free(freed));
    drop(0);
    assert_ok(tnr_traps_get(&info, 1));
    assert_int_equal(findings, 1);
    tnr_trap_callback_set(NULL, NULL);
    sleep_context_leave();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_second_block, unit_stop),
        cmocka_unit_test_teardown(blocks_of_all_sizes, unit_stop),
        cmocka_unit_test_teardown(work_is_waited_for, unit_stop),
        cmocka_unit_test_teardown(a_full_device, unit_stop),
        cmocka_unit_test_teardown(small_blocks_on_a_full_device, unit_stop),
        cmocka_unit_test_teardown(the_least_in_use_comes_first, unit_stop),
        cmocka_unit_test_teardown(a_limit, unit_stop),
        cmocka_unit_test_teardown(a_limit_that_was_lowered, unit_stop),
        cmocka_unit_test_teardown(no_memory_at_all, unit_stop),
        cmocka_unit_test_teardown(a_shortage_compacts, unit_stop),
        cmocka_unit_test_teardown(a_call_is_refused_once, unit_stop),
        cmocka_unit_test_teardown(the_way_forward_is_refused, unit_stop),
        cmocka_unit_test_teardown(the_way_back_from_the_host_is_refused, unit_stop),
        cmocka_unit_test_teardown(exported_blocks, unit_stop),
        cmocka_unit_test_teardown(parked_blocks, unit_stop),
        cmocka_unit_test_teardown(pools_that_stay, unit_stop),
        cmocka_unit_test_teardown(sleeping_pools, unit_stop),
        cmocka_unit_test_teardown(graphs_replay, unit_stop),
        cmocka_unit_test_teardown(callbacks, unit_stop),
        cmocka_unit_test_teardown(mappings_are_told, unit_stop),
        cmocka_unit_test_teardown(peers_reach_it, unit_stop),
        cmocka_unit_test_teardown(traps_hold, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
