/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs whose pickles PyTorch's memory viewer must open. Each has something that the viewer has
 * failed on: memory that moves and goes on the default stream alone, memory of ended streams in the
 * hands of others, more items than a function call may have arguments, several devices, nothing at
 * all. The files are left in the folder that the first argument names, as pickles and as JSON, and
 * another test checks both, and what `tenure snapshot convert` makes of the second.
 *
 * Lines changed in the library to see it fail (check_viewer.py, over these files):
 *   list_item in pickle.c that never begins anew: more items at once than a viewer takes
 *   NO_STREAM = 0: default-stream, where the viewer loses segments
 *   stream_latest not given to memory: adopted, likewise
 *   moment_put left out: off, likewise, and nothing, where a viewer finds no device
 *   slack = 0 in count_freed, trace->before not set in grow_back, tnri_note_grown only where there
 *     is more memory: stacks, where a block has two sizes
 *   tnri_note_begin left out of tnr_commit or tnr_free_sync: stacks, where one is missing
 *   device_free given to tnri_note_oom: stacks, where there was room
 */
#include "unit/unit.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/history.h>
#include <tenure/lifetime.h>

static const char *folder = ".";

static void write_both(const char *name)
{
    static const char *const ends[] = {"json", "pickle"};
    for (int i = 0; i < 2; i++) {
        char path[512];
        snprintf(path, sizeof(path), "%s/%s.%s", folder, name, ends[i]);
        assert_ok(tnr_snapshot_write(path, TNR_SNAPSHOT_AUTO));
    }
}

enum { PIECES = 8 };

/* Takes a run of four chunks at once and gives two of them back to the driver: what one record
 * says came is in two parts since. Not the first record, which the viewer never takes back. */
static void run_break(tnr_stream stream, void *kept[2])
{
    kept[0] = unit_malloc(4096, stream);
    assert_ok(tnr_free(unit_malloc(8 * MIB, stream)));
    kept[1] = unit_malloc(4 * MIB, stream);
    assert_ok(tnr_trim(NULL, 0, 0));
}

static void kept_free(void *kept[2])
{
    for (int i = 0; i < 2; i++)
        assert_ok(tnr_free(kept[i]));
}

static void on_the_default_stream(void **state)
{
    (void)state;
    unit_start("history:light,chunk_max_mb:2", NULL);
    void *kept[2];
    void *pieces[PIECES];
    run_break(NULL, kept);
    for (int i = 0; i < PIECES; i++)
        pieces[i] = unit_malloc(2 * MIB, NULL);
    for (int i = 0; i < PIECES; i += 2)
        assert_ok(tnr_free(pieces[i]));
    void *large = unit_malloc(8 * MIB, NULL); /* of what moves together */
    assert_true(unit_stats().chunks_moved > 0);
    write_both("default-stream-complete");
    assert_ok(tnr_history_set(0, TNR_HISTORY_OFF));
    write_both("off");
    assert_ok(tnr_free(large));
    for (int i = 1; i < PIECES; i += 2)
        assert_ok(tnr_free(pieces[i]));
    kept_free(kept);
}

static void of_streams_that_ended(void **state)
{
    (void)state;
    unit_start("history:light,chunk_max_mb:2", NULL);
    CUcontext context;
    CUstream gone;
    void *kept[2];
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    tnr_stream heir = unit_stream(0); /* before, so that it has another handle */
    run_break(gone, kept);
    assert_ok(tnr_stream_destroying(0, gone));
    assert_int_equal(cuStreamDestroy(gone), CUDA_SUCCESS);
    void *block = unit_malloc(MIB, heir);
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, kept[1]));
    assert_ptr_equal(info.stream, heir);
    write_both("adopted-complete");
    assert_ok(tnr_free(block));
    kept_free(kept);
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

static void of_two_devices(void **state)
{
    (void)state;
    unit_start("address_space_gb:16,history:full", "DEVICES=2", NULL);
    void *blocks[2][20];
    for (int device = 0; device < 2; device++)
        for (size_t i = 0; i < 20; i++)
            assert_ok(tnr_malloc(&blocks[device][i], (i + 1) * 300 * KIB, device,
                                 i % 2 == 0 ? NULL : unit_stream(device)));
    for (int device = 0; device < 2; device++)
        for (size_t i = 0; i < 20; i += 3)
            assert_ok(tnr_free(blocks[device][i]));
    write_both("two-devices-complete");
    for (int device = 0; device < 2; device++)
        for (size_t i = 0; i < 20; i++)
            if (i % 3 != 0)
                assert_ok(tnr_free(blocks[device][i]));
}

/* Blocks that grow, and blocks that wait for other streams, of sizes that are no multiple of what
 * is set aside; and what a limit refuses while the device has room. */
static void of_blocks_that_grow_and_wait(void **state)
{
    (void)state;
    unit_start("history:full", NULL);
    CUcontext context;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    tnr_stream own = unit_stream(0);
    tnr_stream other = unit_stream(0);
    void *growing[2];
    for (int i = 0; i < 2; i++) {
        assert_ok(tnr_reserve(&growing[i], 64 * MIB, 0, own));
        assert_ok(tnr_commit(growing[i], 3 * MIB - 5));
        assert_ok(tnr_commit(growing[i], 3 * MIB + 7)); /* within its last page */
        assert_ok(tnr_commit(growing[i], 9 * MIB + 5));
    }
    assert_ok(tnr_free(growing[0]));
    void *blocks[6];
    for (size_t i = 0; i < 6; i++) {
        blocks[i] = unit_malloc((i + 1) * MIB - 77, own);
        assert_int_equal(cuMemsetD8Async((CUdeviceptr)(uintptr_t)blocks[i], 1, MIB / 2, other),
                         CUDA_SUCCESS);
        assert_ok(tnr_record_use(blocks[i], other));
        assert_ok(i % 2 == 0 ? tnr_free(blocks[i]) : tnr_free_sync(blocks[i]));
        if (i == 2) { /* the first three wait no more */
            assert_int_equal(cuStreamSynchronize(other), CUDA_SUCCESS);
            assert_ok(tnr_trim(NULL, 0, 0));
            assert_int_equal(unit_stats().blocks_retired, 0);
        }
    }
    assert_in_range(unit_stats().blocks_retired, 1, 3);
    void *ptr;
    assert_ok(tnr_limit_set(unit_stats().reserved_bytes.current + 4 * MIB, 0));
    assert_error(tnr_malloc(&ptr, 100 * MIB, 0, own), TNR_ERR_LIMIT, NULL);
    write_both("stacks-complete");
    assert_ok(tnr_free(growing[1]));
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

static void of_many_blocks_and_records(void **state)
{
    (void)state;
    enum { BLOCKS = 3000 };
    static void *blocks[BLOCKS];
    unit_start("history:light", NULL);
    tnr_stream streams[] = {NULL, unit_stream(0)};
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = unit_malloc(512 * (1 + i % 7), streams[i % 2]);
    for (size_t i = 0; i < 2000; i++)
        assert_ok(tnr_free(unit_malloc(512, streams[i % 2])));
    write_both("many-complete");
    for (size_t i = 0; i < BLOCKS; i++)
        assert_ok(tnr_free(blocks[i]));
}

/* A default ring that is full. Only for the viewer itself (view.mjs): checking it takes a while,
 * and shows no more than a smaller one does. */
static void of_a_full_ring(void **state)
{
    (void)state;
    enum { BLOCKS = 64, PAIRS = 140000 };
    if (getenv("TENURE_VIEWER") == NULL)
        skip();
    void *blocks[BLOCKS] = {NULL};
    uint64_t random = 1;
    unit_start("history:light", NULL);
    tnr_stream streams[] = {NULL, unit_stream(0), unit_stream(0)};
    for (size_t i = 0; i < PAIRS; i++) {
        size_t at = (size_t)unit_below(&random, BLOCKS);
        assert_ok(tnr_free(blocks[at]));
        size_t most = i % 5 == 0 ? 8 * MIB : 100 * KIB;
        blocks[at] = unit_malloc(1 + unit_below(&random, most), streams[i % 3]);
    }
    write_both("ring");
    for (size_t i = 0; i < BLOCKS; i++)
        assert_ok(tnr_free(blocks[i]));
}

static void of_nothing(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    write_both("nothing");
}

/* What an earlier run left. */
static void files_remove(void)
{
    char pattern[512];
    glob_t found;
    snprintf(pattern, sizeof(pattern), "%s/*", folder);
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            unlink(found.gl_pathv[i]);
    globfree(&found);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(on_the_default_stream, unit_stop),
        cmocka_unit_test_teardown(of_streams_that_ended, unit_stop),
        cmocka_unit_test_teardown(of_two_devices, unit_stop),
        cmocka_unit_test_teardown(of_blocks_that_grow_and_wait, unit_stop),
        cmocka_unit_test_teardown(of_many_blocks_and_records, unit_stop),
        cmocka_unit_test_teardown(of_a_full_ring, unit_stop),
        cmocka_unit_test_teardown(of_nothing, unit_stop),
    };
    if (argc > 1) {
        folder = argv[1];
        if (mkdir(folder, 0777) != 0 && errno != EEXIST)
            return 2;
        files_remove();
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
