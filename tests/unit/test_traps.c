/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traps: what the settings guard, poison and canary find, that they find nothing else, and which
 * blocks they cover.
 *
 * Lines taken out, or changed, to see a test fail:
 *   tnri_plan_make_guard, `plan->at`: guard_ends_the_block
 *   tnri_plan_make_guard, `arena->guard_next`: guard_addresses_come_back_last
 *   guard_window, `+ tnri_page_bytes`: guard_leaves_the_pages_between
 *   tnri_guard_sweep, the collecting: guard_waits_for_recorded_uses (it stays mapped)
 *   arena_may_lend, `is_guard`: guard_memory_is_nobody_elses
 *   poison_look, the comparison of placements: poison_is_void_where_chunks_moved
 *   tnri_trap_freeing, tnri_poison_forget: poison_of_parts
 *   tnri_trap_served, tnri_poison_take after tnri_device_enter: poison_after_failures
 *   arena_list (sleeper.c), `holds = 0`: canary_after_a_sleep
 *   tnri_trap_fenced: poison_after_a_free_for_all, canary_after_a_free_for_all
 *   tnri_free_sync, fence_at_once: the same, poison_before_what_follows_the_free,
 *     traps_after_recorded_uses
 *   fence_at_once, `waits`: poison_before_what_follows_the_free
 *   fence_at_once, the moment until which it waits: poison_does_not_wait_for_ever (it hangs)
 *   last_work_make, `block->uses`: traps_after_recorded_uses
 *   tnri_canary_take, the look at `holds`: canary_goes_with_the_block
 *   stream_enter, the question for captures: a_capture_is_left_alone
 */
#include "traps.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tenure/capture.h>
#include <tenure/lifetime.h>
#include <tenure/sleep.h>

/* ---- guard ---------------------------------------------------------------------------------- */

static void guard_ends_the_block(void **state)
{
    (void)state;
    traps_start("guard:on", NULL);
    static const size_t sizes[] = {1, 512, 1000, 2 * MIB - 512, 2 * MIB, 2 * MIB + 1, 7 * MIB};
    char *blocks[sizeof(sizes) / sizeof(sizes[0])];
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        blocks[i] = unit_malloc(sizes[i], NULL);
        size_t bytes = (sizes[i] + 511) / 512 * 512;
        assert_int_equal((uintptr_t)(blocks[i] + bytes) % (2 * MIB), 0);
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t bytes = (sizes[i] + 511) / 512 * 512;
        assert_int_equal(fill(blocks[i], bytes, NULL), CUDA_SUCCESS);
        assert_int_equal(fill(blocks[i] + bytes, 1, NULL), CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(fill(blocks[i] + bytes + 2 * MIB - 1, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    }
    assert_int_equal(traps(0).guarded, sizeof(sizes) / sizeof(sizes[0]));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        assert_ok(tnr_free(blocks[i]));
    synchronize();
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
    simcuda_violations_clear(); /* the refused fills */
}

static void guard_aligned(void **state)
{
    (void)state;
    traps_start("guard:on", NULL);
    void *ptr;
    assert_ok(tnr_malloc_aligned(&ptr, 3000, MIB, 0, NULL));
    assert_int_equal((uintptr_t)ptr % MIB, 0);
    assert_int_equal(fill(ptr, 3072, NULL), CUDA_SUCCESS);
    assert_int_equal(traps(0).guarded, 1);
    assert_ok(tnr_malloc_aligned(&ptr, 3000, 8 * MIB, 0, NULL));
    assert_int_equal((uintptr_t)ptr % (8 * MIB), 0);
    assert_int_equal(unit_stats().bytes_live, 6000);
}

static void host_touch(void *ptr)
{
    *(volatile char *)ptr = 1;
}

static void guard_unmaps_at_the_free(void **state)
{
    (void)state;
    traps_start("guard:wait", "SCHEDULE=lazy");
    char *ptr = unit_malloc(5000, NULL);
    assert_int_equal(unit_in_child(host_touch, ptr, 1), 0);
    assert_int_equal(fill(ptr, 5000, NULL), CUDA_SUCCESS);
    assert_ok(tnr_free(ptr)); /* waits for the fill */
    assert_int_equal(simcuda_pending(), 0);
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
    assert_int_equal(fill(ptr, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_true(unit_in_child(host_touch, ptr, 1) < 0);
    simcuda_violations_clear();
}

static void guard_on_waits_for_nobody(void **state)
{
    (void)state;
    traps_start("guard:on", "SCHEDULE=lazy");
    char *ptr = unit_malloc(5000, NULL);
    assert_int_equal(fill(ptr, 5000, NULL), CUDA_SUCCESS);
    assert_ok(tnr_free(ptr));
    assert_int_not_equal(simcuda_pending(), 0);
    assert_int_not_equal(unit_stats().reserved_bytes.current, 0);
    synchronize();
    void *next = unit_malloc(100, NULL); /* any other call of the stream's sees to it */
    assert_int_equal(fill(ptr, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_ok(tnr_free(next));
    simcuda_violations_clear();
}

static void guard_addresses_come_back_last(void **state)
{
    (void)state;
    traps_start("guard:wait", NULL);
    enum { TIMES = 120 };
    void *seen[TIMES];
    for (int i = 0; i < TIMES; i++) {
        seen[i] = unit_malloc(1 * MIB, NULL);
        for (int k = 0; k < i; k++)
            assert_ptr_not_equal(seen[k], seen[i]);
        assert_ok(tnr_free(seen[i]));
    }
    for (int i = 0; i < 1000; i++)
        assert_ok(tnr_free(unit_malloc(1 * MIB, NULL))); /* round the addresses more than once */
    assert_int_equal(traps(0).unguarded, 0);
}

/* More blocks than the first span has room for: what is left of it are the pages between them. */
static void guard_leaves_the_pages_between(void **state)
{
    (void)state;
    enum { BLOCKS = 300 };
    traps_start("guard:on", "MEMORY=2G");
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = unit_malloc(512, NULL);
    assert_int_equal(traps(0).guarded, BLOCKS);
    for (int i = 0; i < BLOCKS; i++)
        assert_int_equal(fill(blocks[i] + 512, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < BLOCKS; i++)
        assert_ok(tnr_free(blocks[i]));
    simcuda_violations_clear();
}

/* A block that another stream uses, with and without a word. */
static void guard_waits_for_recorded_uses(void **state)
{
    (void)state;
    traps_start("guard:on", "SCHEDULE=lazy");
    tnr_stream side = unit_stream(0);
    void *ptr = unit_malloc(5000, NULL);
    assert_int_equal(fill(ptr, 5000, side), CUDA_SUCCESS);
    assert_ok(tnr_record_use(ptr, side));
    assert_ok(tnr_free(ptr));
    assert_int_not_equal(simcuda_pending(), 0);
    synchronize();
    assert_int_equal(fill(ptr, 5000, side), CUDA_SUCCESS); /* nobody came by */
    synchronize();
    for (int i = 0; i < 2; i++) { /* the first frees it, the second unmaps it */
        assert_ok(tnr_free(unit_malloc(5000, NULL)));
        synchronize();
    }
    assert_ok(tnr_free(unit_malloc(5000, NULL)));
    assert_int_equal(fill(ptr, 1, side), CUDA_ERROR_INVALID_VALUE);
}

static void guard_finds_the_missing_use(void **state)
{
    (void)state;
    traps_start("guard:wait", "SCHEDULE=lazy");
    tnr_stream side = unit_stream(0);
    void *ptr = unit_malloc(5000, NULL);
    assert_int_equal(fill(ptr, 5000, side), CUDA_SUCCESS);
    assert_ok(tnr_free(ptr)); /* its own stream has nothing to do with it */
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuCtxGetCurrent(&traps_context), CUDA_SUCCESS);
}

/* Nothing can be said of what a lost context has left. */
static int stop_lost(void **state)
{
    (void)state;
    simcuda_violations_clear();
    tnr_status ignored = tnr_shutdown(1);
    (void)ignored;
    (void)simcuda_reset();
    tnr_trap_callback_set(NULL, NULL);
    return 0;
}

static void guard_memory_is_nobody_elses(void **state)
{
    (void)state;
    traps_start("guard:on,trap_from_kb:1024", "SCHEDULE=lazy");
    tnr_stream side = unit_stream(0);
    char *guarded = unit_malloc(MIB, NULL); /* half a page is left before it */
    char *small = unit_malloc(100, NULL);
    char *other = unit_malloc(600 * KIB, side);
    uintptr_t page = (uintptr_t)guarded / (2 * MIB);
    assert_int_not_equal((uintptr_t)small / (2 * MIB), page);
    assert_int_not_equal((uintptr_t)other / (2 * MIB), page);
    assert_ok(tnr_configure("guard:off"));
    void *blocks[32];
    for (int i = 0; i < 32; i++) {
        blocks[i] = unit_malloc(300 * KIB, i % 2 ? side : NULL);
        assert_int_not_equal((uintptr_t)blocks[i] / (2 * MIB), page);
    }
    assert_ok(tnr_free(guarded)); /* as any block now */
    for (int i = 0; i < 32; i++)
        assert_ok(tnr_free(blocks[i]));
    assert_ok(tnr_free(small));
    assert_ok(tnr_free(other));
    synchronize();
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
}

static void guard_gives_way(void **state)
{
    (void)state;
    traps_start("guard:on,guard_mb:32", "MEMORY=64M");
    void *blocks[200];
    for (int i = 0; i < 200; i++)
        blocks[i] = unit_malloc(1000, NULL);
    tnr_traps_info info = traps(0);
    assert_int_equal(info.guarded, 16); /* 32 MiB */
    assert_int_equal(info.unguarded, 184);
    assert_int_equal(unit_stats().num_ooms, 0);
    for (int i = 0; i < 200; i++)
        assert_ok(tnr_free(blocks[i]));
}

static void guard_outlives_its_stream(void **state)
{
    (void)state;
    traps_start("guard:on", NULL);
    for (int i = 0; i < 20; i++) {
        CUstream stream;
        assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
        void *ptr = unit_malloc(1000, (tnr_stream)stream);
        void *late = unit_malloc(1000, (tnr_stream)stream);
        assert_ok(tnr_free(ptr));
        assert_ok(tnr_stream_destroying(0, (tnr_stream)stream));
        assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
        assert_ok(tnr_free(late));
    }
    synchronize();
    assert_ok(tnr_trim(NULL, 0, 0));
    tnr_stats stats = unit_stats();
    assert_int_equal(stats.reserved_bytes.current, 0);
    assert_true(stats.arenas < 10); /* they go from stream to stream */
}

/* ---- poison --------------------------------------------------------------------------------- */

static void poison_is_seen(void **state)
{
    (void)state;
    traps_start("poison:on", NULL);
    unsigned char *ptr = unit_malloc(100 * KIB, NULL);
    assert_ok(tnr_free(ptr));
    synchronize();
    assert_int_equal(ptr[0], 0xff);
    assert_int_equal(ptr[32 * KIB - 1], 0xff);
    assert_int_equal(ptr[100 * KIB - 1], 0xff);
    assert_int_equal(ptr[68 * KIB], 0xff);
    assert_int_not_equal(ptr[50 * KIB], 0xff); /* between the halves */
    assert_int_equal(traps(1).findings, 0);
}

static void poison_finds_a_late_write(void **state)
{
    (void)state;
    traps_start("poison:on", "SCHEDULE=lazy");
    char *ptr = unit_malloc(10000, NULL);
    assert_ok(tnr_free(ptr));
    assert_int_equal(fill(ptr + 5000, 3, NULL), CUDA_SUCCESS);
    char *again = unit_malloc(10000, NULL);
    assert_ptr_equal(again, ptr);
    assert_int_equal(fill(again, 10000, NULL), CUDA_SUCCESS); /* its owner may, from now on */
    assert_int_equal(traps(1).findings, 1);
    assert_int_equal(found_count, 1);
    assert_int_equal(found[0].is_overrun, 0);
    assert_ptr_equal(found[0].address, ptr + 5000);
    assert_int_equal(found[0].bytes_wrong, 3);
    assert_ptr_equal(found[0].block, ptr);
    assert_int_equal(found[0].bytes_requested, 10000);
    assert_non_null(strstr(found_text[0], "5000 bytes into a block that was freed"));
    assert_non_null(strstr(found_text[0], "should be ff, is 07 07 07\n"));
    assert_non_null(strstr(found_text[0], "allocated at\n"));
    assert_non_null(strstr(found_text[0], "freed at\n"));
    assert_non_null(strstr(found_text[0], "unit_traps"));
    assert_null(strstr(found_text[0], "libtenure.so"));
    assert_ok(tnr_free(again));
}

/* Blocks that are cut out of several that were freed, and leave some of their poison. */
static void poison_of_parts(void **state)
{
    (void)state;
    traps_start("poison:on,bin_blocks:0,trap_fill_kb:1", NULL);
    enum { BLOCKS = 16 };
    char *blocks[BLOCKS];
    uint64_t random = 5;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = unit_malloc(4096, NULL);
    for (int round = 0; round < 400; round++) {
        int i = (int)unit_below(&random, BLOCKS);
        if (blocks[i] == NULL) {
            size_t bytes = 512 + unit_below(&random, 9000);
            blocks[i] = unit_malloc(bytes, NULL);
            assert_int_equal(fill(blocks[i], bytes, NULL), CUDA_SUCCESS);
        } else {
            assert_ok(tnr_free(blocks[i]));
            blocks[i] = NULL;
        }
    }
    synchronize();
    assert_int_equal(traps(1).looks_missed, 0);
    assert_int_equal(found_count, 0);
    for (int i = 0; i < BLOCKS; i++) {
        assert_ok(tnr_free(blocks[i]));
        blocks[i] = NULL;
    }
    char *ptr = unit_malloc(8192, NULL);
    assert_ok(tnr_free(ptr));
    assert_int_equal(fill(ptr + 8191, 1, NULL), CUDA_SUCCESS);
    char *first = unit_malloc(4096, NULL);
    assert_ptr_equal(first, ptr);
    assert_int_equal(traps(1).findings, 0);
    assert_ptr_equal(unit_malloc(4096, NULL), ptr + 4096); /* the rest of the poison */
    (void)traps(1);
    assert_int_equal(found_count, 1);
    assert_ptr_equal(found[0].address, ptr + 8191);
    assert_ptr_equal(found[0].block, ptr);
}

static void poison_is_void_where_chunks_moved(void **state)
{
    (void)state;
    traps_start("poison:on,move_burst_ms:1000000", NULL);
    tnr_stream side = unit_stream(0);
    uint64_t random = 11;
    enum { BLOCKS = 24 };
    char *blocks[BLOCKS] = {NULL};
    for (int round = 0; round < 600; round++) {
        size_t i = unit_below(&random, BLOCKS);
        tnr_stream stream = i % 2 ? side : NULL;
        if (blocks[i] == NULL) {
            size_t bytes = MIB + unit_below(&random, 20 * MIB);
            blocks[i] = unit_malloc(bytes, stream);
            assert_int_equal(fill(blocks[i], bytes, stream), CUDA_SUCCESS);
        } else {
            assert_ok(tnr_free(blocks[i]));
            blocks[i] = NULL;
        }
        if (round % 100 == 99)
            assert_ok(tnr_trim(NULL, 0, 0));
    }
    synchronize();
    tnr_traps_info info = traps(1);
    assert_true(info.looks > 50);
    assert_int_equal(found_count, 0);
    assert_true(unit_stats().chunks_moved > 20);
    for (int i = 0; i < BLOCKS; i++)
        assert_ok(tnr_free(blocks[i]));
}

/* The free is for all streams, by its name or by the setting. Nothing else is called before the
 * memory is looked at: the fence is made in the free. */
static void poison_after_waiting(const char *settings, const char *schedule,
                                 tnr_status (*free_of)(void *))
{
    traps_start(settings, schedule);
    tnr_stream side = known_stream();
    unsigned char *ptr = unit_malloc(10000, NULL);
    synchronize(); /* then it may be used anywhere, as cudaMalloc's memory may */
    assert_int_equal(fill(ptr, 10000, side), CUDA_SUCCESS);
    assert_ok(free_of(ptr)); /* which side has time for */
    synchronize();
    assert_int_equal(ptr[0], 0xff);
    assert_int_equal(ptr[9999], 0xff);
    ptr[3] = 1;
    unsigned char *again = NULL;
    for (int i = 0; i < 400 && again != ptr; i++) /* until the chunk is full */
        again = unit_malloc(10000, NULL);
    assert_ptr_equal(again, ptr);
    (void)traps(1);
    assert_int_equal(found_count, 1);
    assert_ptr_equal(found[0].address, ptr + 3);
    assert_non_null(strstr(found_text[0], "freed at\n"));
}

static void poison_after_a_free_for_all(void **state)
{
    (void)state;
    poison_after_waiting("poison:on,trap_fill_kb:2", "SCHEDULE=random", tnr_free_sync);
    assert_int_equal(traps_stop(NULL), 0);
    poison_after_waiting("auto_record:all,poison:on,trap_fill_kb:2", "SCHEDULE=lazy", tnr_free);
}

/* cudaFree returns when the device is idle. A write that the program enqueues then comes after the
 * fill, on whichever stream. */
static void poison_before_what_follows_the_free(void **state)
{
    (void)state;
    traps_start("poison:on", "SCHEDULE=random");
    tnr_stream busy = known_stream();
    tnr_stream side = known_stream();
    char *ptr = unit_malloc(10000, NULL);
    synchronize();
    assert_int_equal(fill(ptr, 10000, busy), CUDA_SUCCESS);
    assert_ok(tnr_free_sync(ptr));
    assert_int_equal(simcuda_pending(), 0);
    assert_int_equal(fill(ptr + 20, 5, side), CUDA_SUCCESS);
    assert_int_equal(cuStreamSynchronize((CUstream)side), CUDA_SUCCESS);
    assert_ok(tnr_shutdown(1));
    assert_int_equal(found_count, 1);
    assert_ptr_equal(found[0].address, ptr + 20);
    assert_int_equal(found[0].bytes_wrong, 5);
}

static void host_wait(void *flag)
{
    while (atomic_load((_Atomic int *)flag) == 0)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* Work that waits for the host does not make the free hang. */
static void poison_does_not_wait_for_ever(void **state)
{
    (void)state;
    static _Atomic int flag;
    traps_start("poison:on", "SCHEDULE=threads");
    tnr_stream side = known_stream();
    atomic_store(&flag, 0);
    assert_int_equal(cuLaunchHostFunc((CUstream)side, host_wait, &flag), CUDA_SUCCESS);
    unsigned char *ptr = unit_malloc(10000, NULL);
    assert_ok(tnr_free_sync(ptr));
    atomic_store(&flag, 1);
    synchronize();
    assert_int_equal(ptr[0], 0xff);
}

/* Memory that other streams use is filled and looked at when they are through with it. */
static void traps_after_recorded_uses(void **state)
{
    (void)state;
    traps_start("poison:on,canary:on", "SCHEDULE=lazy");
    tnr_stream side = known_stream();
    char *ptr = unit_malloc(10000, NULL);
    synchronize();
    assert_int_equal(fill(ptr, 10004, side), CUDA_SUCCESS);
    assert_ok(tnr_record_use(ptr, side));
    assert_ok(tnr_free(ptr));
    assert_int_equal(cuStreamSynchronize(NULL), CUDA_SUCCESS); /* side has not begun */
    synchronize();
    assert_int_equal(traps(1).findings, 1); /* the overrun, which ran after the free */
    assert_ptr_equal(found[0].address, ptr + 10000);
    assert_non_null(strstr(found_text[0], "freed at\n"));
    assert_int_equal(fill(ptr + 7, 2, side), CUDA_SUCCESS); /* after its recorded end */
    synchronize();
    assert_ok(tnr_shutdown(1));
    assert_int_equal(found_count, 2);
    assert_ptr_equal(found[1].address, ptr + 7);
    assert_int_equal(simcuda_races(), 0);
}

/* What fails while memory is handed out must not make its owner's writes look late. */
static void poison_after_failures(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuCtxPushCurrent",  "cuCtxGetCurrent", "cuMemHostAlloc",
                                        "cuMemcpyDtoHAsync", "cuMemsetD8Async", "cuEventRecord"};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        traps_start("poison:on", NULL);
        char *ptr = unit_malloc(10000, NULL);
        assert_ok(tnr_free(ptr));
        assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
        simcuda_fail(calls[i], 1, 1, CUDA_ERROR_UNKNOWN);
        assert_ptr_equal(unit_malloc(10000, NULL), ptr);
        simcuda_fail_clear();
        assert_int_equal(cuCtxSetCurrent(traps_context), CUDA_SUCCESS);
        assert_int_equal(fill(ptr, 5000, NULL), CUDA_SUCCESS);
        assert_ok(tnr_configure("poison:off"));
        assert_ok(tnr_free(ptr)); /* its stains would stay */
        assert_ok(tnr_configure("poison:on"));
        assert_ptr_equal(unit_malloc(10000, NULL), ptr);
        (void)traps(1);
        assert_int_equal(found_count, 0);
        assert_int_equal(traps_stop(NULL), 0);
    }
    traps_start(NULL, NULL);
}

static void poison_switched_off_and_on(void **state)
{
    (void)state;
    traps_start("poison:on", NULL);
    void *ptr = unit_malloc(10000, NULL);
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_configure("poison:off"));
    assert_ptr_equal(unit_malloc(10000, NULL), ptr); /* nobody takes its poison out */
    assert_int_equal(fill(ptr, 10000, NULL), CUDA_SUCCESS);
    assert_ok(tnr_configure("poison:on"));
    assert_ok(tnr_free(ptr));
    assert_ptr_equal(unit_malloc(10000, NULL), ptr);
    (void)traps(1);
    assert_int_equal(found_count, 0);
}

/* ---- canary --------------------------------------------------------------------------------- */

static void canary_finds_an_overrun(void **state)
{
    (void)state;
    traps_start("canary:on", "SCHEDULE=lazy");
    char *clean = unit_malloc(512, NULL);
    char *ptr = unit_malloc(512, NULL); /* with no rounding to live in */
    assert_int_equal(fill(clean, 512, NULL), CUDA_SUCCESS);
    assert_int_equal(fill(ptr, 513, NULL), CUDA_SUCCESS);
    assert_ok(tnr_free(clean));
    assert_ok(tnr_free(ptr));
    (void)traps(1);
    assert_int_equal(found_count, 1);
    assert_int_equal(found[0].is_overrun, 1);
    assert_ptr_equal(found[0].address, ptr + 512);
    assert_int_equal(found[0].bytes_wrong, 1);
    assert_non_null(strstr(found_text[0], "0 bytes past the requested size"));
    assert_non_null(strstr(found_text[0], "should be ca, is 07\n"));
}

static void canary_goes_with_the_block(void **state)
{
    (void)state;
    traps_start("canary:on", NULL);
    void *ptr = unit_malloc(1000, NULL);
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, ptr));
    assert_int_equal(info.bytes_requested, 1000);
    assert_true(info.bytes >= 1064);
    size_t bytes = info.bytes;
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_configure("canary:off"));
    ptr = unit_malloc(bytes, NULL); /* all of it is the owner's */
    assert_int_equal(fill(ptr, bytes, NULL), CUDA_SUCCESS);
    assert_ok(tnr_configure("canary:on"));
    assert_ok(tnr_free(ptr));
    /* One that was allocated without has none. */
    assert_ok(tnr_configure("canary:off"));
    ptr = unit_malloc(1000, NULL);
    assert_int_equal(fill(ptr, 1024, NULL), CUDA_SUCCESS);
    assert_ok(tnr_configure("canary:on"));
    assert_ok(tnr_free(ptr));
    (void)traps(1);
    assert_int_equal(found_count, 0);
}

static void canary_after_waiting(const char *settings, const char *schedule,
                                 tnr_status (*free_of)(void *))
{
    traps_start(settings, schedule);
    tnr_stream side = known_stream();
    char *ptr = unit_malloc(700, NULL);
    synchronize();
    assert_int_equal(fill(ptr, 701, side), CUDA_SUCCESS);
    assert_ok(free_of(ptr));
    (void)traps(1);
    assert_int_equal(found_count, 1);
    assert_ptr_equal(found[0].address, ptr + 700);
    assert_non_null(strstr(found_text[0], "freed at\n"));
}

static void canary_after_a_free_for_all(void **state)
{
    (void)state;
    canary_after_waiting("canary:on", "SCHEDULE=random", tnr_free_sync);
    assert_int_equal(traps_stop(NULL), 0);
    canary_after_waiting("auto_record:all,canary:on", "SCHEDULE=lazy", tnr_free);
}

/* What is not kept over a sleep is no overrun; what is kept is one as before. */
static void canary_after_a_sleep(void **state)
{
    (void)state;
    for (int keeps = 0; keeps < 2; keeps++) {
        tnr_sleep_options options = TNR_SLEEP_OPTIONS_INIT;
        options.content = keeps ? TNR_CONTENT_KEEP : TNR_CONTENT_DISCARD;
        traps_start("canary:on,poison:on", NULL);
        char *ptr = unit_malloc(700, NULL);
        char *freed = unit_malloc(5000, NULL);
        assert_int_equal(fill(ptr, 701, NULL), CUDA_SUCCESS);
        assert_ok(tnr_free(freed));
        assert_ok(tnr_pool_sleep(NULL, 0, &options));
        assert_ok(tnr_pool_wake(NULL, 0));
        assert_ptr_equal(unit_malloc(5000, NULL), freed);
        assert_ok(tnr_free(ptr));
        (void)traps(1);
        assert_int_equal(found_count, keeps);
        if (keeps == 0)
            assert_int_equal(traps_stop(NULL), 0);
    }
}

static void canary_of_a_guarded_block(void **state)
{
    (void)state;
    traps_start("canary:on,guard:wait", NULL);
    char *ptr = unit_malloc(1000, NULL);
    assert_int_equal((uintptr_t)(ptr + 1024) % (2 * MIB), 0);
    assert_int_equal(fill(ptr, 1001, NULL), CUDA_SUCCESS);
    assert_ok(tnr_free(ptr));
    (void)traps(1);
    assert_int_equal(found_count, 1);
    assert_ptr_equal(found[0].address, ptr + 1000);
}

/* ---- all of them ---------------------------------------------------------------------------- */

static void which_blocks(void **state)
{
    (void)state;
    traps_start("guard:on,trap_from_kb:4,trap_to_kb:8,trap_every:3", NULL);
    for (int i = 0; i < 9; i++) {
        (void)unit_malloc(4095, NULL);
        (void)unit_malloc(8193, NULL);
    }
    assert_int_equal(traps(0).guarded, 0);
    for (int i = 0; i < 9; i++)
        (void)unit_malloc(i % 2 ? 4096 : 8192, NULL);
    assert_int_equal(traps(0).guarded, 3);
}

/* What is captured by another stream, and what is freed meanwhile, on a stream that may be drawn
 * into the capture by a wait of the program's. */
static void a_capture_is_left_alone(void **state)
{
    (void)state;
    traps_start("poison:on,canary:on", NULL);
    tnr_stream side = known_stream();
    char *before = unit_malloc(5000, side);
    char *other = unit_malloc(5000, NULL);
    tnr_cuda_graph graph = NULL;
    size_t nodes = 99;
    synchronize();
    uint64_t looks = traps(1).looks;
    uint64_t fills = simcuda_calls("cuMemsetD8Async");
    assert_ok(tnr_capture_begin(0, side, NULL));
    assert_ok(tnr_free(other));
    assert_ok(tnr_free(before));
    void *inside = unit_malloc(3000, side);
    assert_ok(tnr_free(inside));
    assert_ok(tnr_free(unit_malloc(3000, NULL)));
    assert_int_equal(simcuda_calls("cuMemsetD8Async"), fills);
    assert_ok(tnr_capture_end(&graph, NULL, 0, side));
    assert_int_equal(cuGraphGetNodes((CUgraph)graph, NULL, &nodes), CUDA_SUCCESS);
    assert_int_equal(nodes, 0);
    assert_int_equal(traps(1).looks, looks);
    assert_int_equal(found_count, 0);
    assert_int_equal(cuGraphDestroy((CUgraph)graph), CUDA_SUCCESS);
}

static void told_in_a_file(void **state)
{
    (void)state;
    char path[] = "/tmp/tenure_traps_XXXXXX";
    char conf[128];
    char text[4096] = "";
    int file = mkstemp(path);
    assert_true(file >= 0);
    snprintf(conf, sizeof(conf), "canary:on,trap_file:%s", path);
    traps_start(conf, NULL);
    tnr_trap_callback_set(NULL, NULL);
    char *ptr = unit_malloc(100, NULL);
    assert_int_equal(fill(ptr, 120, NULL), CUDA_SUCCESS);
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_shutdown(1)); /* waits for what was not looked at yet */
    assert_true(read(file, text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, "tenure: canary: 20 bytes at"));
    (void)close(file);
    (void)unlink(path);
}

int main(void)
{
#define TRAP(name) cmocka_unit_test_teardown(name, traps_stop)
    const struct CMUnitTest tests[] = {
        TRAP(guard_ends_the_block),
        TRAP(guard_aligned),
        TRAP(guard_unmaps_at_the_free),
        TRAP(guard_on_waits_for_nobody),
        TRAP(guard_addresses_come_back_last),
        TRAP(guard_leaves_the_pages_between),
        TRAP(guard_waits_for_recorded_uses),
        cmocka_unit_test_teardown(guard_finds_the_missing_use, stop_lost),
        TRAP(guard_memory_is_nobody_elses),
        TRAP(guard_gives_way),
        TRAP(guard_outlives_its_stream),
        TRAP(poison_is_seen),
        TRAP(poison_finds_a_late_write),
        TRAP(poison_of_parts),
        TRAP(poison_is_void_where_chunks_moved),
        TRAP(poison_after_a_free_for_all),
        TRAP(poison_before_what_follows_the_free),
        TRAP(poison_does_not_wait_for_ever),
        TRAP(traps_after_recorded_uses),
        TRAP(poison_after_failures),
        TRAP(poison_switched_off_and_on),
        TRAP(canary_finds_an_overrun),
        TRAP(canary_goes_with_the_block),
        TRAP(canary_after_a_free_for_all),
        TRAP(canary_after_a_sleep),
        TRAP(canary_of_a_guarded_block),
        TRAP(which_blocks),
        TRAP(a_capture_is_left_alone),
        TRAP(told_in_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
