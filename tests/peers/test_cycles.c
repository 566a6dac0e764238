/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool that another device reaches and whose memory a network card has registered. It sleeps and
 * wakes a thousand times, and nothing changes or stays behind. Also: a registration that was not
 * taken back never leads to another's memory.
 *
 * A second mapping of the physical memory stands for the card. What it writes goes to the memory
 * that was there at the registration, whatever lies at the address by then.
 *
 * Lines of the library changed to see it fail:
 *   tnri_chunk_wake without tnri_pages_access: a_thousand_cycles
 *   cuMemRelease or tnri_chunk_count_released left out in tnri_chunk_sleep: the same
 *   gpu_direct_rdma not looked at in ladder_moves_max, tnri_release_idle or tnri_reclaim:
 *   an_old_registration
 */
#include "few.h"
#include "unit.h"

#include <string.h>

#include <cuda.h>
#include <tenure/lifetime.h>
#include <tenure/sleep.h>

/* ---- a card --------------------------------------------------------------------------------- */

enum { CHUNK = 2 << 20 };

/* A chunk at an address, as a card knows it. */
typedef struct registration {
    void *at;
    CUmemGenericAllocationHandle memory;
    CUdeviceptr seen; /* where the card reaches it; 0: it is not registered */
} registration;

static void context_enter(void)
{
    CUcontext context;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
}

static void context_leave(void)
{
    CUcontext popped;
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

static void card_register(registration *of, void *at)
{
    CUmemAccessDesc access = {0};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    of->at = at;
    assert_int_equal(cuMemRetainAllocationHandle(&of->memory, at), CUDA_SUCCESS);
    assert_int_equal(cuMemAddressReserve(&of->seen, CHUNK, 0, 0, 0), CUDA_SUCCESS);
    assert_int_equal(cuMemMap(of->seen, CHUNK, 0, of->memory, 0), CUDA_SUCCESS);
    assert_int_equal(cuMemSetAccess(of->seen, CHUNK, &access, 1), CUDA_SUCCESS);
}

static void card_forget(registration *of)
{
    assert_int_equal(cuMemUnmap(of->seen, CHUNK), CUDA_SUCCESS);
    assert_int_equal(cuMemAddressFree(of->seen, CHUNK), CUDA_SUCCESS);
    assert_int_equal(cuMemRelease(of->memory), CUDA_SUCCESS);
    of->seen = 0;
}

static void fill(void *ptr, int value, size_t bytes)
{
    assert_int_equal(cuMemsetD8((CUdeviceptr)ptr, (unsigned char)value, bytes), CUDA_SUCCESS);
}

/* The byte at an address. */
static int byte_at(const void *ptr)
{
    unsigned char found = 0;
    assert_int_equal(cuMemcpyDtoH(&found, (CUdeviceptr)ptr, 1), CUDA_SUCCESS);
    return found;
}

static void card_write(const registration *of, int value, size_t bytes)
{
    fill((void *)of->seen, value, bytes);
}

static tnr_pool card_pool(void)
{
    tnr_pool pool;
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.gpu_direct_rdma = 1;
    assert_ok(tnr_pool_create(&pool, 0, &options));
    return pool;
}

/* ---- cycles --------------------------------------------------------------------------------- */

enum { BLOCKS = 3 };

static registration card;
static int goings, wakings;

static void on_sleep(tnr_pool pool, int device, tnr_sleep_event event, uint64_t generation,
                     void *user)
{
    (void)pool, (void)device, (void)generation;
    if (event == TNR_SLEEP_GOING) {
        goings++;
        card_forget(&card);
    } else {
        wakings++;
        card_register(&card, user);
    }
}

static unsigned long long flags_at(const void *ptr, int device)
{
    unsigned long long flags = 0;
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    assert_int_equal(cuMemGetAccess(&flags, &location, (CUdeviceptr)ptr), CUDA_SUCCESS);
    return flags;
}

static void a_thousand_cycles(void **state)
{
    (void)state;
    unit_start("chunk_exact_mb:2,chunk_share:65536", "DEVICES=2", "RDMA=1", NULL);
    tnr_pool pool = card_pool();
    unsigned char *blocks[BLOCKS];
    simcuda_live before = {0}, now = {0}, asleep = {0};
    tnr_stats stats_before = {0}, stats = {0};
    uint64_t linux_before = 0;
    tnr_sleep_options options = TNR_SLEEP_OPTIONS_INIT;
    const int cycles = few_or(1000, 100);
    options.keep_backing = 1; /* else each sleep pins it anew, which takes the time */
    goings = wakings = 0;
    context_enter();
    for (int i = 0; i < BLOCKS; i++) {
        assert_ok(tnr_pool_malloc((void **)&blocks[i], pool, CHUNK, 0, NULL));
        fill(blocks[i], 10 + i, CHUNK);
    }
    for (int i = 1; i < BLOCKS; i++) /* what is kept takes the time */
        assert_ok(tnr_block_content_set(blocks[i], TNR_CONTENT_DISCARD));
    assert_ok(tnr_pool_access_set(pool, 0, 1, TNR_ACCESS_READWRITE));
    card_register(&card, blocks[1]);
    assert_ok(tnr_sleep_callback_add(on_sleep, blocks[1]));
    for (int cycle = 0; cycle < cycles; cycle++) {
        assert_ok(tnr_pool_sleep(pool, 0, &options));
        assert_int_equal(simcuda_live_get(-1, &asleep), 0);
        assert_int_equal(asleep.handles, 0); /* all is given back, what was registered too */
        assert_int_equal(asleep.mappings, 0);
        assert_ok(tnr_pool_wake(pool, 0));
        for (int i = 0; i < BLOCKS; i++)
            assert_int_equal(flags_at(blocks[i], 1), TNR_ACCESS_READWRITE);
        assert_int_equal(byte_at(blocks[0] + CHUNK - 1), 10);
        card_write(&card, cycle % 256, 64 * KIB); /* to the memory that is there now */
        assert_int_equal(byte_at(blocks[1]), cycle % 256);
        if (cycle == 10) {
            assert_int_equal(simcuda_live_get(-1, &before), 0);
            stats_before = unit_stats();
            linux_before = simcuda_linux_mappings();
        }
    }
    stats = unit_stats();
    assert_int_equal(simcuda_live_get(-1, &now), 0);
    assert_int_equal(simcuda_linux_mappings(), linux_before);
    assert_memory_equal(&now, &before, sizeof(now));
    assert_int_equal(stats.metadata_bytes, stats_before.metadata_bytes);
    assert_int_equal(stats.reserved_bytes.current, stats_before.reserved_bytes.current);
    assert_int_equal(stats.chunks_created - stats.chunks_released, BLOCKS);
    assert_int_equal(stats.sleeps, cycles);
    assert_int_equal(goings, cycles);
    assert_int_equal(wakings, cycles);
    assert_ok(tnr_sleep_callback_remove(on_sleep, blocks[1]));
    card_forget(&card);
    for (int i = 0; i < BLOCKS; i++)
        assert_ok(tnr_free(blocks[i]));
    assert_ok(tnr_pool_destroy(pool));
    context_leave();
}

/* ---- an old registration -------------------------------------------------------------------- */

/* A block is registered and freed, and the card is never told. Streams of the pool, other pools,
 * and a device that is full want memory, again and again; each time the card writes, and no block
 * but the pool's own at that address has it. */
static void an_old_registration(void **state)
{
    (void)state;
    enum { OTHERS = 6, ROUNDS = 20 };
    unit_start("move_burst_ms:1000000,chunk_exact_mb:2,chunk_share:65536", "RDMA=1", "MEMORY=48M",
               NULL);
    tnr_pool pool = card_pool(), other;
    tnr_stream streams[3] = {NULL, unit_stream(0), unit_stream(0)};
    registration old;
    uint64_t random = 9;
    void *first, *second, *none;
    context_enter();
    assert_ok(tnr_pool_create(&other, 0, NULL));
    assert_ok(tnr_pool_malloc(&first, pool, CHUNK, 0, streams[1]));
    assert_ok(tnr_pool_malloc(&second, pool, CHUNK, 0, streams[1]));
    card_register(&old, first);
    assert_ok(tnr_free(first));
    assert_ok(tnr_free(second));
    for (int round = 0; round < ROUNDS; round++) {
        struct {
            unsigned char *ptr;
            size_t bytes;
        } held[OTHERS] = {0};
        for (int i = 0; i < OTHERS; i++) {
            tnr_pool from = i % 3 == 0 ? pool : i % 3 == 1 ? other : NULL;
            held[i].bytes = 1 + unit_below(&random, 9 * MIB);
            tnr_status status = tnr_pool_malloc((void **)&held[i].ptr, from, held[i].bytes, 0,
                                                streams[unit_below(&random, 3)]);
            assert_true(status == TNR_OK || status == TNR_ERR_OUT_OF_MEMORY);
            if (status == TNR_OK)
                fill(held[i].ptr, 1 + i, held[i].bytes);
        }
        card_write(&old, 200, CHUNK);
        for (int i = 0; i < OTHERS; i++)
            for (size_t at = 0; held[i].ptr != NULL && at < held[i].bytes; at += 256 * KIB) {
                const unsigned char *byte = held[i].ptr + at;
                int is_there = (uintptr_t)byte - (uintptr_t)first < CHUNK;
                assert_int_equal(byte_at(byte), is_there ? 200 : 1 + i);
                assert_true(!is_there || i % 3 == 0);
            }
        assert_int_equal(byte_at(first), 200); /* it is still behind its address */
        for (int i = 0; i < OTHERS; i++)
            assert_ok(tnr_free(held[i].ptr));
        assert_ok(tnr_trim(NULL, 0, 0));
        assert_error(tnr_pool_malloc(&none, pool, 46 * MIB, 0, streams[2]), TNR_ERR_OUT_OF_MEMORY,
                     NULL); /* not for the pool's own want either */
        assert_int_equal(byte_at(first), 200);
    }
    card_forget(&old);
    assert_ok(tnr_pool_trim(NULL, pool, 0, 0)); /* by name it goes */
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
    context_leave();
}

#define CASE(test) cmocka_unit_test_teardown(test, unit_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_thousand_cycles),
        CASE(an_old_registration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
