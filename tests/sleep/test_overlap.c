/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory goes while copies run, and comes while copies run; what the driver refuses in the middle
 * of that; and that nothing is copied in vain where that can be known. Under the lazy schedule a
 * copy runs only when somebody waits for it. So a step that is done too early is seen: by the race
 * detector (a mapping goes and nobody knows that its copy is over), or in the contents.
 *
 * Lines changed in the library to see a test fail:
 *   tnri_sleeper_lower: contents_wait not called: memory_goes_while_copies_run
 *   tnri_sleeper_copy_out: all counted as copied, not what went through the ring: the same
 *   chunks_note without `before`: chunks_wait_for_all_their_contents
 *   tnri_sleeper_unmark not called: refused_in_the_middle (events left)
 *   set_go: staging waited for before set_lower: memory_goes_while_copies_run
 *   stretch_copy_in: all chunks woken first: memory_comes_while_copies_run
 *   tnri_carry_filled without tnri_crew_wait: memory_goes_and_comes_through_the_ring
 *   cursor_lower not called, slot_wait without its wait, chunk_lower before its contents are out
 *   (kept_until ignored in cursor_lower): memory_goes_and_comes_through_the_ring
 *   set_sink without tnri_sleeper_needs, contents_copy_in of all that is kept: asleep_by_half
 *   set_go: set_wait not called: refused_in_the_middle
 *   set_rouse: nothing done: short_wakes_copy_nothing
 */
#include "sleep.h"

#include <string.h>

#include "away/carry.h"
#include "gpu/cuda/driver.h"

/* ---- watching the driver's calls ------------------------------------------------------------ */

/* Bytes that the calls were about, in all and while copies were queued. */
typedef struct watched {
    uint64_t goes, goes_early, comes, comes_early;
} watched;

static watched seen;
static CUresult (*driver_unmap)(CUdeviceptr address, size_t bytes);
static CUresult (*driver_access)(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
                                 size_t count);

static CUresult CUDAAPI unmap_watched(CUdeviceptr address, size_t bytes)
{
    seen.goes += bytes;
    seen.goes_early += simcuda_pending() > 0 ? bytes : 0;
    return driver_unmap(address, bytes);
}

static CUresult CUDAAPI access_watched(CUdeviceptr address, size_t bytes,
                                       const CUmemAccessDesc *access, size_t count)
{
    seen.comes += bytes;
    seen.comes_early += simcuda_pending() > 0 ? bytes : 0;
    return driver_access(address, bytes, access, count);
}

/* The library's calls are watched from here on, until it ends. */
static void watch(void)
{
    memset(&seen, 0, sizeof(seen));
    driver_unmap = tnri_driver.cuMemUnmap;
    driver_access = tnri_driver.cuMemSetAccess;
    tnri_driver.cuMemUnmap = unmap_watched;
    tnri_driver.cuMemSetAccess = access_watched;
}

/* ---- blocks --------------------------------------------------------------------------------- */

enum { BLOCKS = 3, PIECES = 3 };

/* All but one piece, and the chunks at its borders. */
#define MOST_BYTES ((PIECES - 1) * TNRI_BUFFER_BYTES - 16 * MIB)

static unsigned char *blocks[BLOCKS];
static const size_t block_bytes = PIECES * TNRI_BUFFER_BYTES / BLOCKS;
static uint64_t reserved;

/* As many bytes as some pieces have, in chunks of 8 MiB. */
static void blocks_start(void)
{
    unit_start("chunk_max_mb:8,chunk_exact_mb:8,chunk_share:8", "SCHEDULE=lazy", "MEMORY=512M",
               "RACES=1", NULL);
    sleep_context_enter();
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = unit_malloc(block_bytes, NULL);
        sleep_fill(blocks[i], block_bytes, (uint32_t)i, NULL);
    }
    reserved = unit_stats().reserved_bytes.current;
    watch();
}

static void blocks_check(void)
{
    assert_int_equal(unit_stats().bytes_asleep, 0);
    assert_int_equal(sleep_device_bytes(), reserved);
    for (int i = 0; i < BLOCKS; i++)
        sleep_check(blocks[i], block_bytes, (uint32_t)i);
}

static void blocks_stop(void)
{
    assert_int_equal(simcuda_races(), 0);
    sleep_context_leave();
}

/* ---- tests ---------------------------------------------------------------------------------- */

/* All but the last piece's chunks go while copies are queued. */
static void memory_goes_while_copies_run(void **state)
{
    (void)state;
    blocks_start();
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    assert_int_equal(seen.goes, reserved);
    assert_true(seen.goes_early >= MOST_BYTES);
    assert_true(seen.goes_early < reserved);
    assert_int_equal(sleep_device_bytes(), 0);
    assert_ok(tnr_pool_wake(NULL, 0));
    blocks_check();
    blocks_stop();
}

/* All but the first piece's chunks come while copies are queued. */
static void memory_comes_while_copies_run(void **state)
{
    (void)state;
    blocks_start();
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    memset(&seen, 0, sizeof(seen));
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_int_equal(seen.comes, reserved);
    assert_true(seen.comes_early >= MOST_BYTES);
    blocks_check();
    blocks_stop();
}

/* The same through the ring, which is short here: but for what its slots hold. */
static void memory_goes_and_comes_through_the_ring(void **state)
{
    (void)state;
    blocks_start();
    tnri_slot_bytes = MIB;
    tnr_sleep_options options = TNR_SLEEP_OPTIONS_INIT;
    options.pinned_bytes_max = 1;
    assert_ok(tnr_pool_sleep(NULL, 0, &options));
    assert_int_equal(seen.goes, reserved);
    assert_true(seen.goes_early >= MOST_BYTES);
    assert_int_equal(sleep_device_bytes(), 0);
    memset(&seen, 0, sizeof(seen));
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_true(seen.comes_early >= MOST_BYTES);
    blocks_check();
    tnri_slot_bytes = TNRI_SLOT_BYTES_MAX;
    blocks_stop();
}

/* Chunks that many blocks share, with kept and discarded ones in any order, and several pools. */
static void chunks_wait_for_all_their_contents(void **state)
{
    (void)state;
    enum { MANY = 90 };
    unit_start("chunk_max_mb:4,chunk_share:8", "SCHEDULE=lazy", "MEMORY=1G", "RACES=1", NULL);
    sleep_context_enter();
    tnr_pool pools[2] = {NULL, NULL};
    tnr_stream streams[2] = {unit_stream(0), unit_stream(0)};
    void *many[MANY];
    size_t bytes[MANY];
    int is_kept[MANY];
    uint64_t random = 5;
    assert_ok(tnr_pool_create(&pools[1], 0, NULL));
    for (int i = 0; i < MANY; i++) {
        tnr_stream stream = streams[unit_below(&random, 2)];
        bytes[i] = 4 + 4 * unit_below(&random, i % 3 == 0 ? 2 * MIB : 20 * KIB);
        is_kept[i] = unit_below(&random, 4) > 0;
        assert_ok(
            tnr_pool_malloc(&many[i], pools[unit_below(&random, 5) == 0], bytes[i], 0, stream));
        sleep_fill(many[i], bytes[i], (uint32_t)i, stream);
        assert_ok(
            tnr_block_content_set(many[i], is_kept[i] ? TNR_CONTENT_KEEP : TNR_CONTENT_DISCARD));
    }
    size_t bounds[] = {0, 3 * TNRI_BUFFER_BYTES};
    for (int round = 0; round < 2; round++) {
        tnr_sleep_options options = TNR_SLEEP_OPTIONS_INIT;
        options.pinned_bytes_max = bounds[round];
        assert_ok(tnr_device_sleep(0, &options));
        assert_int_equal(sleep_device_bytes(), 0);
        assert_ok(tnr_device_wake(0));
        for (int i = 0; i < MANY; i++)
            if (is_kept[i])
                sleep_check(many[i], bytes[i], (uint32_t)i);
    }
    assert_int_equal(simcuda_races(), 0);
    sleep_context_leave();
}

/* Copies are queued, some memory has gone, and then the driver refuses something: all comes back,
 * wherever that is. */
static void refused_in_the_middle(void **state)
{
    (void)state;
    static const struct {
        const char *call;
        uint64_t nth;
    } faults[] = {{"cuMemUnmap", 1},         {"cuMemUnmap", 9},    {"cuMemRelease", 4},
                  {"cuEventSynchronize", 3}, {"cuEventRecord", 2}, {"cuMemcpyDtoHAsync", 3}};
    enum { FAULTS = sizeof(faults) / sizeof(faults[0]) };
    blocks_start();
    tnri_slot_bytes = MIB;
    for (size_t i = 0; i < 2 * FAULTS; i++) {
        tnr_sleep_options options = TNR_SLEEP_OPTIONS_INIT;
        options.pinned_bytes_max = i / FAULTS; /* then through the ring */
        simcuda_fail(faults[i % FAULTS].call, faults[i % FAULTS].nth, 0, CUDA_ERROR_UNKNOWN);
        assert_error(tnr_device_sleep(0, &options), TNR_ERR_DRIVER, "cu");
        assert_int_equal(simcuda_fail_hits(), 1);
        simcuda_fail_clear();
        blocks_check();
        assert_int_equal(sleep_pinned_bytes(), 0);
    }
    assert_int_equal(unit_stats().sleeps, 0);
    tnri_slot_bytes = TNRI_SLOT_BYTES_MAX;
    blocks_stop();
}

/* Some of the contents have come through the ring and their memory has gone, when the driver
 * refuses both ways: what was not copied stays where it is, whatever a wake does that fails too. */
static void asleep_by_half(void **state)
{
    (void)state;
    blocks_start();
    tnri_slot_bytes = MIB;
    tnr_sleep_options options = TNR_SLEEP_OPTIONS_INIT;
    options.pinned_bytes_max = 1;
    simcuda_fail("cuMemUnmap", 5, 0, CUDA_ERROR_UNKNOWN);
    simcuda_fail("cuMemCreate", 1, 1, CUDA_ERROR_UNKNOWN);
    assert_error(tnr_pool_sleep(NULL, 0, &options), TNR_ERR_DRIVER, "cuMemUnmap");
    assert_non_null(strstr(tnr_last_error(), "is asleep"));
    assert_in_range(unit_stats().bytes_asleep, 4 * 8 * MIB, reserved - 8 * MIB);
    simcuda_fail_clear();
    for (int nth = 1; nth <= 3; nth++) {
        simcuda_fail("cuMemCreate", (uint64_t)nth, 0, CUDA_ERROR_UNKNOWN);
        assert_error(tnr_pool_wake(NULL, 0), TNR_ERR_DRIVER, "cuMemCreate");
        simcuda_fail_clear();
    }
    assert_ok(tnr_pool_wake(NULL, 0));
    blocks_check();
    tnri_slot_bytes = TNRI_SLOT_BYTES_MAX;
    blocks_stop();
}

/* The same, and the driver does not even tell whether the copies out are over: the pool is asleep,
 * and nothing is read from the pieces before it has told. */
static void the_copies_cannot_be_waited_for(void **state)
{
    (void)state;
    blocks_start();
    simcuda_fail("cuMemRelease", 4, 0, CUDA_ERROR_UNKNOWN);
    simcuda_fail("cuStreamSynchronize", 1, 1, CUDA_ERROR_UNKNOWN);
    assert_error(tnr_pool_sleep(NULL, 0, NULL), TNR_ERR_DRIVER, "cuMemRelease");
    assert_non_null(strstr(tnr_last_error(), "is asleep"));
    uint64_t in = simcuda_calls("cuMemcpyHtoDAsync");
    assert_error(tnr_pool_wake(NULL, 0), TNR_ERR_DRIVER, "cuStreamSynchronize");
    assert_int_equal(simcuda_calls("cuMemcpyHtoDAsync"), in);
    simcuda_fail_clear();
    assert_ok(tnr_pool_wake(NULL, 0));
    blocks_check();
    blocks_stop();
}

/* A wake that finds too little memory says so before it copies; what idle memory of another pool
 * it needs is taken before, too. */
static void short_wakes_copy_nothing(void **state)
{
    (void)state;
    blocks_start();
    tnr_pool guest;
    void *block;
    CUdeviceptr other;
    assert_ok(tnr_pool_create(&guest, 0, NULL));
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    uint64_t in = simcuda_calls("cuMemcpyHtoDAsync");
    assert_int_equal(cuMemAlloc(&other, 440 * MIB), CUDA_SUCCESS);
    assert_error(tnr_pool_wake(NULL, 0), TNR_ERR_OUT_OF_MEMORY, NULL);
    assert_int_equal(cuMemFree(other), CUDA_SUCCESS);
    assert_ok(tnr_limit_set(60 * MIB, 0));
    assert_error(tnr_pool_wake(NULL, 0), TNR_ERR_LIMIT, NULL);
    assert_ok(tnr_limit_set(SIZE_MAX, 0));
    assert_int_equal(simcuda_calls("cuMemcpyHtoDAsync"), in);
    assert_ok(tnr_pool_malloc(&block, guest, 440 * MIB, 0, NULL));
    assert_ok(tnr_free(block));
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_in_range(simcuda_calls("cuMemcpyHtoDAsync") - in, PIECES, PIECES + BLOCKS);
    for (int i = 0; i < BLOCKS; i++)
        sleep_check(blocks[i], block_bytes, (uint32_t)i);
    blocks_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(memory_goes_while_copies_run, unit_stop),
        cmocka_unit_test_teardown(memory_comes_while_copies_run, unit_stop),
        cmocka_unit_test_teardown(memory_goes_and_comes_through_the_ring, unit_stop),
        cmocka_unit_test_teardown(chunks_wait_for_all_their_contents, unit_stop),
        cmocka_unit_test_teardown(refused_in_the_middle, unit_stop),
        cmocka_unit_test_teardown(asleep_by_half, unit_stop),
        cmocka_unit_test_teardown(the_copies_cannot_be_waited_for, unit_stop),
        cmocka_unit_test_teardown(short_wakes_copy_nothing, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
