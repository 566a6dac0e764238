/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growable blocks: addresses reserved once, memory committed under them from the start on.
 *
 * Lines taken out to see a test fail:
 *   tnri_world_extend, tnri_block_map_extend: interior_pointers_after_growth
 *   tnri_plan_commit_growth, tnri_arena_count_grown: grows_in_steps (the equation of the accounts)
 *   growable_reuse, the call in pool_reserve: addresses_are_used_again
 *   tnri_grow_is_idle, `bytes_in[TNRI_HOLE] == spans_bytes`: memory_serves_others_after_the_free
 *   tnri_growables_seal, the call in tnri_pool_seal: outlives_its_stream (the simulated device saw
 *   a destroyed stream being named)
 *   ladder_moves_max, the test of the seal: outlives_its_stream, too
 *   grow_request, `is_growing = 1`: threads_grow_their_own fails its count of TNR_ERR_BUSY
 *   tnri_grow_free_bare, the call in tnri_arena_free: without_memory
 *   tnri_ladder_take_span, the call of tnri_reclaim_addresses: addresses_without_memory_serve
 *   tnri_grow_prepare, `span->begun = span->bytes`: nothing_leads_to_it_after_its_pool
 */
#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>

#include <tenure/lifetime.h>
#include <tenure/range.h>

#include "memory/device/device.h"

static void *reserve(size_t bytes_max, tnr_stream stream)
{
    void *ptr = NULL;
    assert_ok(tnr_reserve(&ptr, bytes_max, 0, stream));
    assert_non_null(ptr);
    return ptr;
}

static tnr_block_info info_of(const void *ptr)
{
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, ptr));
    return info;
}

static void context_enter(void)
{
    CUcontext context;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
}

static void context_leave(void)
{
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

/* Steps of many sizes, so that new memory begins and ends at chunks of every size. */
static void grows_in_steps(void **state)
{
    (void)state;
    unit_start("chunk_share:4,chunk_max_mb:16", "SCHEDULE=eager", NULL);
    context_enter();
    unsigned char *ptr = reserve(200 * MIB, NULL);
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
    uint64_t random = 7;
    size_t had = 0;
    for (size_t bytes = 1; bytes <= 200 * MIB; bytes += 1 + unit_below(&random, 9 * MIB)) {
        assert_ok(tnr_commit(ptr, bytes));
        tnr_block_info info = info_of(ptr);
        assert_ptr_equal(info.base, ptr);
        assert_int_equal(info.bytes_requested, bytes);
        assert_int_equal(info.bytes_reserved, 200 * MIB);
        assert_int_equal(info.bytes, (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB));
        tnr_stats stats = unit_stats();
        assert_int_equal(stats.bytes_live, bytes);
        assert_int_equal(stats.reserved_bytes.current, info.bytes);
        assert_int_equal(stats.allocation[TNR_WORLD_LARGE].current, 1);
        /* What was there before is still there; what is new can be written to its end. */
        for (size_t at = 0; at < had; at += 509 * KIB)
            assert_int_equal(ptr[at], (unsigned char)(at >> 10));
        assert_int_equal(cuMemsetD8((CUdeviceptr)(ptr + had), 0, bytes - had), CUDA_SUCCESS);
        for (size_t at = 0; at < bytes; at += 509 * KIB)
            ptr[at] = (unsigned char)(at >> 10);
        had = bytes;
    }
    assert_ok(tnr_free(ptr));
    assert_int_equal(unit_stats().bytes_live, 0);
    context_leave();
}

static void fewer_is_nothing(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *ptr = reserve(64 * MIB, NULL);
    assert_ok(tnr_commit(ptr, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
    assert_ok(tnr_commit(ptr, 5 * MIB));
    uint64_t calls = simcuda_calls_total();
    assert_ok(tnr_commit(ptr, 5 * MIB));
    assert_ok(tnr_commit(ptr, 3));
    assert_ok(tnr_commit(ptr, 0));
    assert_int_equal(info_of(ptr).bytes_requested, 5 * MIB);
    assert_ok(tnr_commit(ptr, 6 * MIB)); /* the third page has room for it */
    assert_int_equal(simcuda_calls_total(), calls);
    assert_int_equal(info_of(ptr).bytes_requested, 6 * MIB);
    assert_int_equal(unit_stats().bytes_slack, 0);
    assert_ok(tnr_free(ptr));
}

static void interior_pointers_after_growth(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    unsigned char *ptr = reserve(100 * MIB, NULL);
    assert_ok(tnr_commit(ptr, 3 * MIB));
    assert_ok(tnr_commit(ptr, 33 * MIB));
    assert_ok(tnr_commit(ptr, 34 * MIB + 1));
    for (size_t at = 0; at < 34 * MIB; at += 77 * KIB)
        assert_ptr_equal(info_of(ptr + at).base, ptr);
    tnr_block_info info;
    assert_error(tnr_block_get(&info, ptr + 36 * MIB), TNR_ERR_NOT_LIVE,
                 "lies in no live block of device 0");
    assert_error(tnr_free(ptr + 20 * MIB), TNR_ERR_INTERIOR_POINTER, NULL);
    assert_error(tnr_commit(ptr + 20 * MIB, 50 * MIB), TNR_ERR_INTERIOR_POINTER, "the block's");
    assert_ok(tnr_free(ptr));
    assert_error(tnr_free(ptr), TNR_ERR_NOT_LIVE, NULL);
    assert_error(tnr_commit(ptr, 1), TNR_ERR_NOT_LIVE, "freed before");
}

static void wrong_arguments(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    int host = 0;
    void *ptr = &host;
    assert_error(tnr_reserve(NULL, 1, 0, NULL), TNR_ERR_INVALID_ARGUMENT, "null");
    assert_error(tnr_reserve(&ptr, 1, 7, NULL), TNR_ERR_INVALID_DEVICE, NULL);
    assert_null(ptr);
    assert_error(tnr_reserve(&ptr, SIZE_MAX, 0, NULL), TNR_ERR_INVALID_SIZE, "EiB");
    assert_error(tnr_reserve(&ptr, TNR_BYTES_MAX, 0, NULL), TNR_ERR_ADDRESS_SPACE, "address_space");
    ptr = &host;
    assert_ok(tnr_reserve(&ptr, 0, 0, NULL));
    assert_null(ptr);
    assert_ok(tnr_commit(NULL, 0));
    assert_error(tnr_commit(NULL, 1), TNR_ERR_INVALID_ARGUMENT, NULL);
    assert_error(tnr_commit(&host, 1), TNR_ERR_FOREIGN_POINTER, NULL);
    void *block = unit_malloc(4 * MIB, NULL);
    assert_error(tnr_commit(block, 5 * MIB), TNR_ERR_INVALID_ARGUMENT, "tnr_reserve");
    ptr = reserve(64 * MIB, NULL);
    assert_error(tnr_commit(ptr, 64 * MIB + 1), TNR_ERR_INVALID_SIZE, "67108864");
    assert_error(tnr_commit(ptr, SIZE_MAX), TNR_ERR_INVALID_SIZE, NULL);
    assert_ok(tnr_commit(ptr, 64 * MIB));
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_free(block));
}

/* A block without memory is a block: it is counted, described, freed once, and keeps its pool. */
static void without_memory(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_pool pool;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_push(pool));
    void *ptr = reserve(64 * MIB, NULL);
    assert_ok(tnr_pool_pop(pool));
    tnr_block_info info = info_of(ptr);
    assert_ptr_equal(info.pool, pool);
    assert_int_equal(info.bytes, 0);
    assert_int_equal(info.bytes_reserved, 64 * MIB);
    assert_int_equal(unit_stats().allocation[TNR_WORLD_ALL].current, 1);
    assert_error(tnr_record_use(ptr, unit_stream(0)), TNR_ERR_NOT_LIVE, NULL);
    assert_error(tnr_pool_destroy(pool), TNR_ERR_BUSY, "1 live");
    assert_error(tnr_shutdown(0), TNR_ERR_BUSY, NULL);
    assert_ok(tnr_free(ptr));
    assert_error(tnr_free(ptr), TNR_ERR_NOT_LIVE, NULL);
    assert_error(tnr_block_get(&info, ptr), TNR_ERR_NOT_LIVE, NULL);
    assert_int_equal(unit_stats().allocation[TNR_WORLD_ALL].current, 0);
    (void)reserve(64 * MIB, NULL); /* and what is left is ended by force */
    assert_ok(tnr_pool_destroy(pool));
}

/* Running out leaves the block as it was, with its contents, and the next try can succeed. */
static void out_of_memory(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2", "MEMORY=64M", "SCHEDULE=eager", NULL);
    context_enter();
    unsigned char *ptr = reserve(100 * MIB, NULL);
    void *other = unit_malloc(30 * MIB, unit_stream(0));
    assert_ok(tnr_commit(ptr, 10 * MIB));
    assert_int_equal(cuMemsetD8((CUdeviceptr)ptr, 5, 10 * MIB), CUDA_SUCCESS);
    assert_error(tnr_commit(ptr, 40 * MIB), TNR_ERR_OUT_OF_MEMORY, "40.00 MiB");
    tnr_stats stats = unit_stats();
    assert_int_equal(stats.reserved_bytes.current, 40 * MIB);
    assert_int_equal(info_of(ptr).bytes_requested, 10 * MIB);
    assert_ok(tnr_limit_set(44 * MIB, 0));
    assert_error(tnr_commit(ptr, 15 * MIB), TNR_ERR_LIMIT, NULL);
    assert_ok(tnr_limit_set(SIZE_MAX, 0));
    assert_ok(tnr_free(other));
    assert_ok(tnr_commit(ptr, 60 * MIB)); /* with the memory of the freed block */
    for (size_t at = 0; at < 10 * MIB; at += 4 * KIB)
        assert_int_equal(ptr[at], 5);
    assert_int_equal(unit_stats().reserved_bytes.current, 60 * MIB);
    assert_ok(tnr_free(ptr));
    context_leave();
}

/* Idle chunks of other streams are taken before new ones, and the stream waits for theirs. */
static void takes_idle_chunks(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2", "SCHEDULE=lazy", "RACES=1", NULL);
    context_enter();
    tnr_stream a = unit_stream(0), b = unit_stream(0);
    void *block = unit_malloc(16 * MIB, a);
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)block, 1, 16 * MIB, a), CUDA_SUCCESS);
    assert_ok(tnr_free(block));
    void *ptr = reserve(64 * MIB, b);
    assert_ok(tnr_commit(ptr, 12 * MIB));
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)ptr, 2, 12 * MIB, b), CUDA_SUCCESS);
    tnr_stats stats = unit_stats();
    assert_int_equal(stats.chunks_moved, 6);
    assert_int_equal(stats.reserved_bytes.current, 16 * MIB);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(simcuda_races(), 0);
    assert_int_equal(*(unsigned char *)ptr, 2);
    assert_ok(tnr_free(ptr));
    context_leave();
}

/* After the free the memory is anybody's: first as chunks that move, then given back. */
static void memory_serves_others_after_the_free(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2", "SCHEDULE=eager", NULL);
    void *ptr = reserve(64 * MIB, NULL);
    assert_ok(tnr_commit(ptr, 32 * MIB));
    assert_ok(tnr_free(ptr));
    void *block = unit_malloc(20 * MIB, unit_stream(0));
    assert_int_equal(unit_stats().reserved_bytes.current, 32 * MIB);
    /* Part of the old one's memory is still at its addresses: those are not used again yet. */
    void *second = reserve(64 * MIB, NULL);
    assert_ptr_not_equal(second, ptr);
    assert_ok(tnr_commit(second, 12 * MIB));
    assert_int_equal(unit_stats().reserved_bytes.current, 32 * MIB);
    assert_ok(tnr_free(second));
    assert_ok(tnr_free(block));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
    assert_int_equal(unit_stats().chunks_stale, 0);
}

/* Reserving and freeing over and over costs neither addresses nor host memory. */
static void addresses_are_used_again(void **state)
{
    (void)state;
    unit_start("move_burst_ms:100000", "SCHEDULE=eager", NULL);
    uint64_t arenas = 0;
    for (int i = 0; i < 3000; i++) { /* of 64 MiB: far more than there are addresses */
        void *ptr = reserve(64 * MIB, i % 2 == 0 ? NULL : (tnr_stream)1);
        if (i % 3 != 0)
            assert_ok(tnr_commit(ptr, (size_t)(1 + i % 5) * 2 * MIB));
        assert_ok(tnr_free(ptr));
        tnr_stats stats = unit_stats();
        assert_true(stats.reserved_bytes.current <= 10 * MIB);
        if (i == 100)
            arenas = stats.arenas;
        if (i > 100)
            assert_int_equal(stats.arenas, arenas);
    }
}

/* The map knows a growable block by its first address, and a range by all of them, before memory
 * comes there. A pool's end leaves no way to their records, which it frees. */
static void nothing_leads_to_it_after_its_pool(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=eager", NULL);
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    for (int has_pages = 0; has_pages < 2; has_pages++) {
        tnr_pool pool;
        assert_ok(tnr_pool_create(&pool, 0, &options));
        assert_ok(tnr_pool_push(pool));
        char *ptr = reserve(200 * MIB, NULL);
        assert_ok(tnr_pool_pop(pool));
        if (has_pages)
            assert_ok(tnr_commit_range(ptr, 0, 2 * MIB));
        assert_ok(tnr_free(ptr));
        assert_ok(tnr_pool_destroy(pool));
        const tnri_block_map *map = &tnri_device_at(0)->space.map;
        for (size_t at = 0; at < 200 * MIB; at += 16 * MIB)
            assert_null(tnri_block_map_near(map, (uintptr_t)ptr + at));
        assert_int_equal(tnr_free(ptr), TNR_ERR_NOT_LIVE);
    }
}

/* The free is ordered after uses by other streams. */
static void free_with_uses(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2", "SCHEDULE=lazy", "RACES=1", NULL);
    context_enter();
    tnr_stream own = unit_stream(0), other = unit_stream(0);
    unsigned char *ptr = reserve(64 * MIB, own);
    assert_ok(tnr_commit(ptr, 4 * MIB));
    assert_ok(tnr_commit(ptr, 20 * MIB));
    assert_ok(tnr_record_use(ptr + 19 * MIB, own)); /* its own stream: nothing */
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)ptr + 19 * MIB, 1, MIB, other), CUDA_SUCCESS);
    assert_ok(tnr_record_use(ptr + 19 * MIB, other));
    assert_ok(tnr_free(ptr));
    tnr_stats stats = unit_stats();
    assert_int_equal(stats.blocks_retired, 1);
    assert_int_equal(stats.bytes_retired, 20 * MIB);
    void *block = unit_malloc(30 * MIB, own); /* cannot have it yet */
    assert_true(unit_stats().reserved_bytes.current >= 30 * MIB);
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)block, 2, 30 * MIB, own), CUDA_SUCCESS);
    assert_ok(tnr_trim(NULL, 0, 0)); /* waits for the use */
    assert_int_equal(unit_stats().reserved_bytes.current, 30 * MIB);
    assert_int_equal(simcuda_races(), 0);
    ptr = reserve(64 * MIB, own);
    assert_ok(tnr_commit(ptr, 2 * MIB));
    assert_ok(tnr_free_on(ptr, other));
    assert_ok(tnr_free(block));
    context_leave();
}

/* The block's stream ends before the block: it still grows, and is freed as usual. */
static void outlives_its_stream(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2", "SCHEDULE=eager", NULL);
    context_enter();
    CUstream stream;
    assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    void *ptr = reserve(64 * MIB, stream);
    assert_ok(tnr_commit(ptr, 4 * MIB));
    void *idle = unit_malloc(20 * MIB, NULL);
    assert_ok(tnr_free(idle));
    assert_ok(tnr_stream_destroying(0, stream));
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
    assert_ok(tnr_commit(ptr, 8 * MIB));
    assert_int_equal(info_of(ptr).bytes, 8 * MIB);
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
    assert_ptr_equal(reserve(64 * MIB, NULL), ptr); /* and its addresses go on */
    context_leave();
}

static void *commit_on_a_thread(void *data)
{
    return tnr_commit(data, 8 * MIB) == TNR_OK ? data : NULL;
}

/* The per-thread default stream of one thread cannot be named by another, which may commit all the
 * same. */
static void grows_from_another_thread(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2", "SCHEDULE=eager", NULL);
    void *idle = unit_malloc(20 * MIB, NULL);
    assert_ok(tnr_free(idle));
    void *ptr = reserve(64 * MIB, (tnr_stream)2);
    pthread_t thread;
    void *result;
    assert_int_equal(pthread_create(&thread, NULL, commit_on_a_thread, ptr), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, ptr);
    assert_int_equal(unit_stats().chunks_moved, 0);
    assert_ok(tnr_commit(ptr, 12 * MIB));
    assert_int_equal(unit_stats().chunks_moved, 2);
    assert_ok(tnr_free(ptr));
}

/* ---- threads -------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 60 };

static void *shared_block;
static _Atomic int busy_count;

/* Each thread grows a cache of its own, fights over one that all share, and allocates beside. */
static void *thread_grow(void *data)
{
    uint64_t random = (uint64_t)(uintptr_t)data;
    for (int round = 0; round < ROUNDS; round++) {
        void *ptr = NULL;
        void *block = NULL;
        if (tnr_reserve(&ptr, 64 * MIB, 0, (tnr_stream)2) != TNR_OK)
            return NULL;
        for (size_t bytes = 1; bytes < 24 * MIB; bytes += 1 + unit_below(&random, 6 * MIB)) {
            if (tnr_commit(ptr, bytes) != TNR_OK)
                return NULL;
            ((volatile unsigned char *)ptr)[bytes - 1] = (unsigned char)round;
            if (block != NULL && tnr_free(block) != TNR_OK)
                return NULL;
            if (tnr_malloc(&block, 1 + unit_below(&random, 3 * MIB), 0, (tnr_stream)2) != TNR_OK)
                return NULL;
        }
        tnr_status status = tnr_commit(shared_block, (size_t)(round + 1) * MIB);
        if (status == TNR_ERR_BUSY)
            atomic_fetch_add(&busy_count, 1);
        else if (status != TNR_OK)
            return NULL;
        if (tnr_free(ptr) != TNR_OK || tnr_free(block) != TNR_OK)
            return NULL;
    }
    return data;
}

static void threads_grow_their_own(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2", "SCHEDULE=eager", NULL);
    context_enter();
    shared_block = reserve(64 * MIB, NULL);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, thread_grow, (void *)(i + 1)), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, (void *)(i + 1));
    }
    assert_true(info_of(shared_block).bytes_requested <= ROUNDS * MIB);
    assert_ok(tnr_free(shared_block));
    tnr_stats stats = unit_stats();
    assert_int_equal(stats.allocation[TNR_WORLD_ALL].current, 0);
    context_leave();
}

/* ---- a free while it grows ------------------------------------------------------------------ */

static void *growing_block;
static tnr_status busy_status;

/* Called in the middle of a commit that has found no memory. */
static int free_it(const tnr_oom_info *info, void *user)
{
    (void)info;
    (void)user;
    busy_status = tnr_commit(growing_block, 3 * MIB);
    return tnr_free(growing_block) == TNR_OK;
}

static void freed_while_it_grows(void **state)
{
    (void)state;
    for (int committed = 0; committed <= 1; committed++) {
        unit_start("chunk_max_mb:2", "MEMORY=32M", "SCHEDULE=eager", NULL);
        growing_block = reserve(64 * MIB, NULL);
        if (committed)
            assert_ok(tnr_commit(growing_block, 2 * MIB));
        void *full = unit_malloc(committed ? 30 * MIB : 32 * MIB, unit_stream(0));
        tnr_oom_callback_set(free_it, NULL);
        tnr_status status = tnr_commit(growing_block, 4 * MIB);
        tnr_oom_callback_set(NULL, NULL);
        assert_int_equal(busy_status, TNR_ERR_BUSY);
        assert_true(status == TNR_ERR_NOT_LIVE || status == TNR_ERR_OUT_OF_MEMORY);
        assert_int_equal(unit_stats().allocation[TNR_WORLD_ALL].current, 1);
        assert_error(tnr_free(growing_block), TNR_ERR_NOT_LIVE, NULL);
        assert_ok(tnr_free(full));
        assert_ok(tnr_trim(NULL, 0, 0));
        assert_int_equal(unit_stats().reserved_bytes.current, 0);
        assert_int_equal(unit_stop(NULL), 0);
    }
}

/* Addresses that streams have no memory for any more serve a block, as they serve an allocation:
 * each stream took the chunks of the one before. */
static void addresses_without_memory_serve(void **state)
{
    enum { STREAMS = 6 };
    (void)state;
    unit_start("chunk_max_mb:2,address_space_gb:8", NULL);
    for (size_t i = 0; i < STREAMS; i++) {
        assert_ok(tnr_limit_set((8 + 4 * i) * MIB, 0));
        assert_ok(tnr_free(unit_malloc((8 + 4 * i) * MIB, unit_stream(0))));
        simcuda_run(UINT64_MAX);
    }
    tnri_space *space = &tnri_device_at(0)->space;
    assert_int_equal(atomic_load(&space->used_bytes), (size_t)STREAMS << 30);
    unsigned char *ptr = reserve((size_t)4 << 30, NULL);
    assert_ok(tnr_commit(ptr, 4 * MIB));
    assert_ok(tnr_validate(0));
    assert_ok(tnr_free(ptr));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(grows_in_steps, unit_stop),
        cmocka_unit_test_teardown(fewer_is_nothing, unit_stop),
        cmocka_unit_test_teardown(interior_pointers_after_growth, unit_stop),
        cmocka_unit_test_teardown(wrong_arguments, unit_stop),
        cmocka_unit_test_teardown(without_memory, unit_stop),
        cmocka_unit_test_teardown(out_of_memory, unit_stop),
        cmocka_unit_test_teardown(takes_idle_chunks, unit_stop),
        cmocka_unit_test_teardown(memory_serves_others_after_the_free, unit_stop),
        cmocka_unit_test_teardown(addresses_are_used_again, unit_stop),
        cmocka_unit_test_teardown(addresses_without_memory_serve, unit_stop),
        cmocka_unit_test_teardown(nothing_leads_to_it_after_its_pool, unit_stop),
        cmocka_unit_test_teardown(free_with_uses, unit_stop),
        cmocka_unit_test_teardown(outlives_its_stream, unit_stop),
        cmocka_unit_test_teardown(grows_from_another_thread, unit_stop),
        cmocka_unit_test_teardown(threads_grow_their_own, unit_stop),
        cmocka_unit_test_teardown(freed_while_it_grows, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
