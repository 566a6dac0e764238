/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures taken while memory moves, comes and goes: before and after every driver call that the
 * library makes for that, by the thread that makes the call. (The short calls that name a stream
 * are left out: they are made under its lock.) No lock is held then, so another thread could take a
 * picture at the same moment. Here a picture is taken at every such moment, in every run.
 *
 * Every picture must add up, and the files that are left in the folder that the first argument
 * names must have a history that leads to them, which another test checks.
 *
 * Lines changed in the library to see it fail:
 *   tnri_note_memory in run_donate, or in stale_untake: check_snapshot.py
 *   holds = 0 in run_donate: memory is counted twice
 *   holds = 1 in tnri_world_cut, or block_copy of STALE in world_copy: memory that goes back to the
 *     driver is missing (on_its_way_back)
 */
#include "unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <tenure/history.h>

#include "gpu/cuda/driver.h"
#include "log/history.h"
#include "see/snapshot/picture.h"

static const char *folder = ".";

/* What the hooks know. Owned by the only thread. */
static struct {
    tnri_driver_table driver; /* as it was */
    const char *name;         /* of the files; null: no pictures */
    int is_inside;            /* 1: the picture itself calls the driver */
    int taken;                /* pictures in this test */
    int in_flight;            /* of them those with memory on its way */
    int maps_until_failure;   /* 0: none fails */
    char broken[256];         /* the first thing that was wrong */
} seen;

/* ---- one picture ---------------------------------------------------------------------------- */

/* Memory that is on its way to new addresses is in what grows, and memory that goes back to the
 * driver is being released until the history says that it has gone; neither is forgotten. */
static void pool_check(const tnri_shown_pool *pool)
{
    uint64_t sure = pool->slack_bytes;
    for (int s = 0; s < TNRI_SHOWN_RELEASING; s++)
        sure += pool->bytes[s];
    uint64_t moving = pool->bytes[TNRI_SHOWN_RELEASING] + pool->bytes[TNRI_SHOWN_GROWING];
    uint64_t reserved = pool->reserved_bytes + pool->asleep_bytes;
    seen.in_flight += pool->bytes[TNRI_SHOWN_GROWING] > 0 || !pool->is_settled;
    if (sure > reserved + moving || reserved > sure + moving || (moving == 0 && sure != reserved))
        snprintf(seen.broken, sizeof(seen.broken),
                 "picture %d of %s: %llu bytes are reserved, %llu are in blocks, %llu move",
                 seen.taken, seen.name, (unsigned long long)reserved, (unsigned long long)sure,
                 (unsigned long long)moving);
}

/* Takes a picture, and leaves it in a file in one of the two formats. */
static void picture_here(void)
{
    if (seen.name == NULL || seen.is_inside || seen.broken[0] != '\0')
        return;
    seen.is_inside = 1;
    seen.taken++;
    tnri_picture picture;
    tnri_picture_still();
    tnri_history_lock_take();
    tnr_status status = tnri_picture_take(&picture, TNRI_SNAPSHOT_CALL);
    tnri_history_lock_release();
    if (status == TNR_OK) {
        for (size_t p = 0; p < picture.pools_count; p++)
            if (!picture.pools[p].is_ended)
                pool_check(&picture.pools[p]);
        tnri_picture_free(&picture);
        char path[512];
        snprintf(path, sizeof(path), "%s/%s-%03d.%s", folder, seen.name, seen.taken,
                 seen.taken % 4 == 0 ? "pickle" : "json");
        status = tnr_snapshot_write(path, TNR_SNAPSHOT_AUTO);
    }
    if (status != TNR_OK)
        snprintf(seen.broken, sizeof(seen.broken), "picture %d of %s: %s", seen.taken, seen.name,
                 tnr_last_error());
    seen.is_inside = 0;
}

/* ---- the calls ------------------------------------------------------------------------------ */

#define HOOK(name, parameters, arguments)                                                          \
    static CUresult CUDAAPI hook_##name parameters                                                 \
    {                                                                                              \
        picture_here();                                                                            \
        CUresult result = seen.driver.name arguments;                                              \
        picture_here();                                                                            \
        return result;                                                                             \
    }

HOOK(cuMemCreate,
     (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *properties,
      unsigned long long flags),
     (handle, bytes, properties, flags))
HOOK(cuMemRelease, (CUmemGenericAllocationHandle handle), (handle))
HOOK(cuMemUnmap, (CUdeviceptr address, size_t bytes), (address, bytes))
HOOK(cuMemSetAccess,
     (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count),
     (address, bytes, access, count))

static CUresult CUDAAPI hook_cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                                      CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    picture_here();
    CUresult result = CUDA_ERROR_UNKNOWN;
    if (seen.maps_until_failure == 0 || --seen.maps_until_failure > 0)
        result = seen.driver.cuMemMap(address, bytes, offset, handle, flags);
    picture_here();
    return result;
}

static void hooks_set(void)
{
    memset(&seen, 0, sizeof(seen));
    seen.driver = tnri_driver;
    tnri_driver.cuMemCreate = hook_cuMemCreate;
    tnri_driver.cuMemRelease = hook_cuMemRelease;
    tnri_driver.cuMemMap = hook_cuMemMap;
    tnri_driver.cuMemUnmap = hook_cuMemUnmap;
    tnri_driver.cuMemSetAccess = hook_cuMemSetAccess;
}

static void watch(const char *name)
{
    seen.name = name;
    seen.taken = 0;
    seen.in_flight = 0;
}

/* Ends the pictures: there were some, of memory on its way, and nothing was wrong. */
static void watched(void)
{
    seen.name = NULL;
    if (seen.broken[0] != '\0')
        fail_msg("%s", seen.broken);
    assert_true(seen.taken > 0);
    assert_true(seen.in_flight > 0);
}

static int hooks_remove(void **state)
{
    if (tnri_driver.cuMemMap == hook_cuMemMap)
        tnri_driver = seen.driver;
    return unit_stop(state);
}

/* ---- tests ---------------------------------------------------------------------------------- */

enum { PIECES = 8 };

/* Leaves every second of eight pages of a stream free. */
static void holes_make(void **pieces, tnr_stream stream)
{
    for (int i = 0; i < PIECES; i++)
        pieces[i] = unit_malloc(2 * MIB, stream);
    for (int i = 0; i < PIECES; i += 2)
        assert_ok(tnr_free(pieces[i]));
}

static void pieces_free(void **pieces)
{
    for (int i = 1; i < PIECES; i += 2)
        assert_ok(tnr_free(pieces[i]));
}

/* One stream's own memory: whole pages of it gather where they are needed together. */
static void within_a_stream(void **state)
{
    (void)state;
    unit_start("history:light,chunk_max_mb:2", NULL);
    tnr_stream stream = unit_stream(0);
    void *pieces[PIECES];
    holes_make(pieces, stream);
    hooks_set();
    watch("within");
    void *large = unit_malloc(8 * MIB, stream);
    watched();
    assert_int_equal(unit_stats().chunks_moved, 4);
    assert_ok(tnr_free(large));
    pieces_free(pieces);
}

/* Another stream's, some of which had been freed in pieces; and new memory for the rest. */
static void between_streams(void **state)
{
    (void)state;
    unit_start("history:light,chunk_max_mb:2", NULL);
    tnr_stream stream = unit_stream(0);
    void *pieces[PIECES];
    holes_make(pieces, unit_stream(0));
    void *block = unit_malloc(5 * MIB, stream);
    hooks_set();
    watch("between");
    void *large = unit_malloc(14 * MIB, stream);
    watched();
    assert_true(unit_stats().chunks_moved >= 4);
    assert_true(unit_stats().served[TNR_SERVED_GROWN] >= 1);
    assert_ok(tnr_free(block));
    assert_ok(tnr_free(large));
    pieces_free(pieces);
}

/* A move that fails half way: what was taken goes back to where it was. */
static void a_move_that_fails(void **state)
{
    (void)state;
    unit_start("history:light,chunk_max_mb:2", NULL);
    tnr_stream stream = unit_stream(0);
    void *pieces[PIECES];
    holes_make(pieces, unit_stream(0));
    void *own[PIECES];
    holes_make(own, stream);
    hooks_set();
    watch("failed");
    seen.maps_until_failure = 6;
    void *large;
    assert_error(tnr_malloc(&large, 20 * MIB, 0, stream), TNR_ERR_DRIVER, NULL);
    assert_int_equal(seen.maps_until_failure, 0);
    large = unit_malloc(20 * MIB, stream);
    watched();
    assert_ok(tnr_free(large));
    pieces_free(own);
    pieces_free(pieces);
}

/* Memory that goes back to the driver, old mappings that go away, and a pool that ends. */
static void on_its_way_back(void **state)
{
    (void)state;
    unit_start("history:light,chunk_max_mb:2", NULL);
    tnr_pool pool;
    tnr_stream streams[] = {unit_stream(0), unit_stream(0)};
    void *pieces[PIECES];
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    holes_make(pieces, streams[0]);
    void *large = unit_malloc(8 * MIB, streams[1]);
    void *block;
    assert_ok(tnr_pool_malloc(&block, pool, 7 * MIB, 0, streams[0]));
    assert_ok(tnr_free(block));
    assert_ok(tnr_free(large));
    hooks_set();
    watch("back");
    assert_ok(tnr_trim(NULL, 10 * MIB, 0));
    assert_ok(tnr_pool_destroy(pool));
    pieces_free(pieces);
    assert_ok(tnr_trim(NULL, 0, 0));
    watched();
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
}

/* A growable block, with memory of another stream and new memory. */
static void under_a_growable_block(void **state)
{
    (void)state;
    unit_start("history:light,chunk_max_mb:2", NULL);
    void *pieces[PIECES];
    void *growing;
    holes_make(pieces, unit_stream(0));
    assert_ok(tnr_reserve(&growing, 64 * MIB, 0, unit_stream(0)));
    hooks_set();
    watch("growing");
    assert_ok(tnr_commit(growing, 3 * MIB));
    assert_ok(tnr_commit(growing, 13 * MIB));
    assert_ok(tnr_free(growing));
    watched();
    pieces_free(pieces);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(within_a_stream, hooks_remove),
        cmocka_unit_test_teardown(between_streams, hooks_remove),
        cmocka_unit_test_teardown(a_move_that_fails, hooks_remove),
        cmocka_unit_test_teardown(on_its_way_back, hooks_remove),
        cmocka_unit_test_teardown(under_a_growable_block, hooks_remove),
    };
    if (argc > 1) {
        folder = argv[1];
        if (mkdir(folder, 0777) != 0 && errno != EEXIST)
            return 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
