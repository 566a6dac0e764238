/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parked blocks, one at a time: whom their memory serves, what comes back and how, who waits, what
 * is refused meanwhile, and how they end.
 *
 * Lines changed in the library to see a test fail:
 *   stale_release_chunks without tnri_evicted_unmap_all: memory_goes_back
 *   unpark_unmap without tnri_event_wait: gets_other_chunks (unmapped under work); without the
 *   count: the same
 *   unpark_same always empty: serves_and_returns, in_turn
 *   tnr_unpark without streams_order; parked_donor_take or homings_order without
 *   tnri_execute_order: other_streams
 *   set_drain without tnri_parked_settle: sleeps
 *   parked_empty without tnri_evicted_pages: parts (addresses cannot be given back)
 *   arenas_free_all without tnri_parked_free_all: ends
 *   is_taken without PARKED: neighbours
 *   arena_prove without tnri_event_wait: given_back (unmapped under work)
 *   tnri_evicted_release without tnri_evicted_unmap_all: given_back_in_turn
 *   unpark_climb with TNRI_MOVES_ALL at once, or tnri_execute going on with less than all:
 *   parked_first
 *   tnri_plan_take_parked from the other end of its list: newest_gives_first
 *   tnri_release_parked leaving its walk early: given_back (the end waits for ever)
 */
#include "park_steps.h"

#include <stdio.h>

#include <tenure/capture.h>
#include <tenure/export.h>
#include <tenure/history.h>

#include "memory/device/device.h"

/* Blocks that begin near a parked one do not hide it. */
static void neighbours(void **state)
{
    (void)state;
    start(NULL, "SCHEDULE=lazy");
    tnr_stream stream = unit_stream(0);
    void *a = unit_malloc(256 * KIB, stream);
    park(a, 0, stream);
    unsigned char *b = unit_malloc(256 * KIB, stream);
    assert_ptr_equal(b, (unsigned char *)a + 256 * KIB);
    assert_ok(tnr_unpark(a, stream));
    park(a, 0, stream);
    assert_ok(tnr_free(a));
    assert_ok(tnr_free(b));
    end();
}

/* Nobody needs the memory: parking and unparking asks the driver for two events at most. */
static void untouched(void **state)
{
    (void)state;
    start(NULL, "SCHEDULE=lazy");
    tnr_stream stream = unit_stream(0);
    void *a = unit_malloc(16 * MIB, stream);
    sleep_fill(a, 16 * MIB, 1, stream);
    uint64_t maps = simcuda_calls("cuMemMap"), unmaps = simcuda_calls("cuMemUnmap");
    for (int i = 0; i < 3; i++) {
        park(a, 16 * MIB, stream);
        assert_int_equal(unit_stats().bytes_parked, 16 * MIB);
        assert_int_equal(unit_stats().bytes_parked_away, 0);
        assert_int_equal(unit_stats().bytes_live, 16 * MIB);
        assert_ok(tnr_unpark(a, stream));
        assert_int_equal(unit_stats().bytes_parked, 0);
    }
    assert_int_equal(simcuda_calls("cuMemMap"), maps);
    assert_int_equal(simcuda_calls("cuMemUnmap"), unmaps);
    assert_int_equal(unit_stats().parks, 3);
    assert_int_equal(unit_stats().unparks, 3);
    sleep_fill(a, 16 * MIB, 2, stream);
    assert_ok(tnr_free(a));
    end();
}

/* A new block gets the memory while the parked one's work is still queued; freed, the same memory
 * comes back to the same addresses: nothing is mapped and nobody waits. */
static void serves_and_returns(void **state)
{
    (void)state;
    start("chunk_max_mb:4", "SCHEDULE=lazy");
    tnr_stream stream = unit_stream(0);
    void *a = unit_malloc(16 * MIB, stream);
    sleep_fill(a, 16 * MIB, 1, stream);
    uint64_t reserved = unit_stats().reserved_bytes.current;
    park(a, 16 * MIB, stream);
    void *b = unit_malloc(16 * MIB, stream);
    assert_ptr_not_equal(a, b);
    sleep_fill(b, 16 * MIB, 2, stream);
    tnr_stats stats = unit_stats();
    assert_int_equal(stats.reserved_bytes.current, reserved);
    assert_int_equal(stats.bytes_parked_away, 16 * MIB);
    assert_int_equal(stats.bytes_live, 32 * MIB);
    assert_true(simcuda_pending() > 0);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    sleep_check(b, 16 * MIB, 2);
    sleep_fill(b, 16 * MIB, 3, stream);
    assert_ok(tnr_free(b));
    uint64_t maps = simcuda_calls("cuMemMap");
    assert_ok(tnr_unpark(a, stream));
    assert_int_equal(simcuda_calls("cuMemMap"), maps);
    sleep_fill(a, 16 * MIB, 4, stream);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    sleep_check(a, 16 * MIB, 4);
    stats = unit_stats();
    assert_int_equal(stats.reserved_bytes.current, reserved);
    assert_int_equal(stats.bytes_parked_away, 0);
    assert_int_equal(stats.park_waits, 0);
    assert_ok(tnr_free(a));
    end();
}

/* The memory is still in use: other chunks come. Work from before is queued, so the host waits, and
 * that is counted; where it is over, it does not. */
static void gets_other_chunks(void **state)
{
    (void)state;
    for (int is_over = 0; is_over < 2; is_over++) {
        start(NULL, "SCHEDULE=lazy");
        tnr_stream stream = unit_stream(0);
        void *a = unit_malloc(16 * MIB, stream);
        sleep_fill(a, 16 * MIB, 1, stream);
        park(a, 16 * MIB, stream);
        void *b = unit_malloc(16 * MIB, stream);
        if (is_over)
            assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
        sleep_fill(b, 16 * MIB, 2, stream);
        assert_ok(tnr_unpark(a, stream));
        sleep_fill(a, 16 * MIB, 3, stream);
        assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
        sleep_check(a, 16 * MIB, 3);
        sleep_check(b, 16 * MIB, 2);
        tnr_stats stats = unit_stats();
        assert_int_equal(stats.park_waits, !is_over);
        assert_int_equal(stats.reserved_bytes.current, 32 * MIB);
        assert_ok(tnr_free(a));
        assert_ok(tnr_free(b));
        assert_ok(tnr_trim(NULL, 0, 0));
        assert_int_equal(sleep_device_bytes(), 0); /* no old mapping keeps anything */
        end();
        assert_int_equal(unit_stop(NULL), 0);
    }
}

/* Between streams: order is made on the device, both ways. */
static void other_streams(void **state)
{
    (void)state;
    start("lend:off", "SCHEDULE=lazy");
    tnr_stream one = unit_stream(0), two = unit_stream(0), user = unit_stream(0);
    void *a = unit_malloc(16 * MIB, one);
    sleep_fill(a, 16 * MIB, 1, one);
    CUevent event;
    assert_int_equal(cuEventCreate(&event, 0), CUDA_SUCCESS);
    assert_int_equal(cuEventRecord(event, one), CUDA_SUCCESS);
    assert_int_equal(cuStreamWaitEvent(user, event, 0), CUDA_SUCCESS);
    sleep_fill(a, 16 * MIB, 2, user);
    assert_int_equal(cuEventRecord(event, user), CUDA_SUCCESS);
    assert_int_equal(cuStreamWaitEvent(two, event, 0), CUDA_SUCCESS);
    sleep_fill(a, 8 * MIB, 2, two);
    assert_ok(tnr_record_use(a, two));
    park(a, 16 * MIB, user); /* after its own work, that of `user`, and the use on `two` */
    void *b = unit_malloc(16 * MIB, two);
    assert_int_equal(unit_stats().reserved_bytes.current, 16 * MIB);
    sleep_fill(b, 16 * MIB, 3, two);
    assert_ok(tnr_free(b));
    assert_ok(tnr_unpark(a, user));
    assert_int_equal(unit_stats().reserved_bytes.current, 16 * MIB);
    sleep_fill(a, 16 * MIB, 4, user);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    sleep_check(a, 16 * MIB, 4);
    assert_int_equal(unit_stats().park_waits, 0);
    assert_int_equal(cuEventDestroy(event), CUDA_SUCCESS);
    assert_ok(tnr_record_use(a, user));
    assert_ok(tnr_free(a));
    end();
}

/* Blocks in use one after the other share the same chunks, without a call about memory. */
static void in_turn(void **state)
{
    (void)state;
    enum { BLOCKS = 6 };
    start("chunk_max_mb:4", "SCHEDULE=lazy");
    tnr_stream stream = unit_stream(0);
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = unit_malloc(12 * MIB, stream);
        sleep_fill(blocks[i], 12 * MIB, (uint32_t)i, stream);
        park(blocks[i], 12 * MIB, stream);
    }
    assert_int_equal(unit_stats().reserved_bytes.current, 12 * MIB);
    uint64_t maps = simcuda_calls("cuMemMap"), unmaps = simcuda_calls("cuMemUnmap");
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < BLOCKS; i++) {
            assert_ok(tnr_unpark(blocks[i], stream));
            sleep_fill(blocks[i], 12 * MIB, (uint32_t)(10 * round + i), stream);
            if (i == 3) {
                assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
                sleep_check(blocks[i], 12 * MIB, (uint32_t)(10 * round + i));
            }
            park(blocks[i], 12 * MIB, stream);
            assert_int_equal(unit_stats().bytes_parked_away, (BLOCKS - 1) * 12 * MIB);
        }
    assert_int_equal(simcuda_calls("cuMemMap"), maps);
    assert_int_equal(simcuda_calls("cuMemUnmap"), unmaps);
    assert_int_equal(unit_stats().park_waits, 0);
    for (int i = 0; i < BLOCKS; i++)
        assert_ok(tnr_free(blocks[i]));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(sleep_device_bytes(), 0);
    end();
}

/* Other chunks come from parked blocks, if these have enough, and not from what is free: that was
 * freed by those who want as much again. If they have not, from what is free, and they keep theirs.
 */
static void parked_first(void **state)
{
    (void)state;
    for (int is_enough = 0; is_enough < 2; is_enough++) {
        size_t bytes = is_enough ? 16 * MIB : 8 * MIB;
        start("chunk_max_mb:4", "SCHEDULE=lazy");
        tnr_stream stream = unit_stream(0), other = unit_stream(0);
        void *a = unit_malloc(16 * MIB, stream);
        park(a, 16 * MIB, stream);
        void *b = unit_malloc(16 * MIB, stream), *c = unit_malloc(bytes, stream);
        void *own = unit_malloc(8 * MIB, stream), *others = unit_malloc(8 * MIB, other);
        assert_ok(tnr_free(own));
        assert_ok(tnr_free(others));
        assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
        uint64_t reserved = unit_stats().reserved_bytes.current;
        assert_int_equal(reserved, 32 * MIB + bytes);
        park(c, bytes, stream);
        assert_ok(tnr_unpark(a, stream));
        assert_int_equal(unit_stats().reserved_bytes.current, reserved);
        assert_int_equal(unit_stats().bytes_parked_away, is_enough ? 16 * MIB : 0);
        sleep_fill(a, 16 * MIB, 1, stream);
        if (is_enough) {
            own = unit_malloc(8 * MIB, stream);
            others = unit_malloc(8 * MIB, other);
            assert_int_equal(unit_stats().reserved_bytes.current, reserved);
            assert_ok(tnr_free(own));
            assert_ok(tnr_free(others));
        }
        assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
        sleep_check(a, 16 * MIB, 1);
        assert_ok(tnr_free(a));
        assert_ok(tnr_free(b));
        assert_ok(tnr_free(c));
        end();
        assert_int_equal(unit_stop(NULL), 0);
    }
}

/* Brings a block back for a while. 1 if it had no memory. */
static int have_back(void *ptr, tnr_stream stream)
{
    tnri_device *device;
    const tnri_space *space = tnri_space_of((uintptr_t)ptr, &device);
    int had_none = space->pages[tnri_page_of(space, (uintptr_t)ptr)] == NULL;
    assert_ok(tnr_unpark(ptr, stream));
    park(ptr, 8 * MIB, stream);
    return had_none;
}

/* Of blocks that are used in turn, with memory for half of them, the one that was parked last is
 * the last that is needed again: it gives first. Were it the first, nobody would ever have any. */
static void newest_gives_first(void **state)
{
    enum { BLOCKS = 8, ROOM = 4, ROUNDS = 6 };
    (void)state;
    start("chunk_max_mb:8", "SCHEDULE=eager");
    assert_ok(tnr_limit_set(ROOM * 8 * MIB, 0));
    tnr_stream stream = unit_stream(0);
    void *blocks[BLOCKS];
    for (int i = 0; i < ROOM; i++)
        blocks[i] = unit_malloc(8 * MIB, stream);
    for (int i = 0; i < ROOM; i++)
        park(blocks[i], 8 * MIB, stream);
    for (int i = ROOM; i < BLOCKS; i++) {
        blocks[i] = unit_malloc(8 * MIB, stream);
        park(blocks[i], 8 * MIB, stream);
    }
    int without = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            int had_none = have_back(blocks[i], stream);
            without += round >= 2 && had_none;
        }
    }
    assert_true(without <= 20); /* of 32 */
    for (int i = 0; i < BLOCKS; i++)
        assert_ok(tnr_free(blocks[i]));
    end();
}

/* A block that begins and ends inside chunks parks what it covers; a small one nothing. */
static void parts(void **state)
{
    (void)state;
    start("chunk_max_mb:2", "SCHEDULE=lazy");
    tnr_stream stream = unit_stream(0);
    void *before = unit_malloc(3 * MIB, stream);
    void *a = unit_malloc(10 * MIB, stream), *small = unit_malloc(KIB, stream);
    void *after = unit_malloc(3 * MIB, stream);
    size_t parked;
    sleep_fill(before, 3 * MIB, 1, stream);
    sleep_fill(after, 3 * MIB, 2, stream);
    assert_ok(tnr_park(&parked, a, stream, TNR_CONTENT_DISCARD));
    assert_int_equal(parked, 8 * MIB);
    assert_ok(tnr_park(&parked, small, stream, TNR_CONTENT_DISCARD));
    assert_int_equal(parked, 0);
    void *b = unit_malloc(8 * MIB, stream);
    assert_int_equal(unit_stats().bytes_parked_away, 8 * MIB);
    sleep_fill(b, 8 * MIB, 3, stream);
    assert_ok(tnr_free(a)); /* away, its work queued: edges are free, the rest is old mappings */
    assert_ok(tnr_free(small));
    assert_int_equal(unit_stats().bytes_parked, 0);
    a = unit_malloc(10 * MIB, stream);
    sleep_fill(a, 10 * MIB, 4, stream);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    sleep_check(before, 3 * MIB, 1);
    sleep_check(after, 3 * MIB, 2);
    sleep_check(a, 10 * MIB, 4);
    sleep_check(b, 8 * MIB, 3);
    end();
}

/* Memory goes back to the driver although a parked block still had it mapped. */
static void memory_goes_back(void **state)
{
    (void)state;
    start(NULL, "SCHEDULE=lazy");
    tnr_stream stream = unit_stream(0);
    void *a = unit_malloc(16 * MIB, stream);
    sleep_fill(a, 16 * MIB, 1, stream);
    park(a, 16 * MIB, stream);
    void *b = unit_malloc(16 * MIB, stream);
    sleep_fill(b, 16 * MIB, 2, stream);
    assert_ok(tnr_free(b));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(sleep_device_bytes(), 0);
    assert_int_equal(unit_stats().bytes_parked_away, 16 * MIB);
    assert_ok(tnr_limit_set(8 * MIB, 0));
    assert_error(tnr_unpark(a, stream), TNR_ERR_LIMIT, NULL);
    assert_error(tnr_unpark(a, stream), TNR_ERR_LIMIT, NULL);
    assert_ok(tnr_limit_set(SIZE_MAX, 0));
    assert_ok(tnr_unpark(a, stream));
    sleep_fill(a, 16 * MIB, 3, stream);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    sleep_check(a, 16 * MIB, 3);
    assert_int_equal(unit_stats().park_waits, 0);
    end();
}

/* What is parked goes to the driver once its work is over, after what is free: for who trims, and
 * for another pool that would be refused. It comes back as other memory. */
static void given_back(void **state)
{
    (void)state;
    start("chunk_max_mb:4", "SCHEDULE=lazy");
    tnr_stream stream = unit_stream(0);
    size_t released;
    tnr_pool pool;
    void *other, *a = unit_malloc(100 * MIB, stream), *idle = unit_malloc(60 * MIB, unit_stream(0));
    sleep_fill(a, 100 * MIB, 1, stream);
    assert_ok(tnr_free(idle));
    park(a, 100 * MIB, stream);
    assert_ok(tnr_trim(&released, 100 * MIB, 0));
    assert_int_equal(released, 60 * MIB);
    assert_int_equal(unit_stats().bytes_parked_away, 0);
    assert_true(simcuda_pending() > 0);
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc(&other, pool, 200 * MIB, 0, stream));
    sleep_fill(other, 200 * MIB, 2, stream);
    assert_true(unit_stats().bytes_parked_away >= 44 * MIB);
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(unit_stats().bytes_parked_away, 100 * MIB);
    assert_int_equal(sleep_device_bytes(), 200 * MIB);
    assert_error(tnr_unpark(a, stream), TNR_ERR_OUT_OF_MEMORY, NULL);
    assert_ok(tnr_free(other));
    assert_ok(tnr_unpark(a, stream));
    sleep_fill(a, 100 * MIB, 3, stream);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    sleep_check(a, 100 * MIB, 3);
    assert_ok(tnr_free(a));
    assert_ok(tnr_pool_destroy(pool));
    end();
}

/* Memory that two blocks used in turn is mapped for both. */
static void given_back_in_turn(void **state)
{
    (void)state;
    start("chunk_max_mb:2", "SCHEDULE=lazy");
    tnr_stream stream = unit_stream(0), other = unit_stream(0);
    void *a = unit_malloc(8 * MIB, stream);
    sleep_fill(a, 8 * MIB, 1, stream);
    park(a, 8 * MIB, stream);
    void *b = unit_malloc(8 * MIB, other);
    sleep_fill(b, 8 * MIB, 2, other);
    assert_int_equal(unit_stats().bytes_parked_away, 8 * MIB);
    park(b, 8 * MIB, other);
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(sleep_device_bytes(), 0);
    assert_int_equal(unit_stats().bytes_parked_away, 16 * MIB);
    assert_ok(tnr_unpark(b, other));
    sleep_fill(b, 8 * MIB, 3, other);
    assert_ok(tnr_free(a));
    assert_ok(tnr_free(b));
    end();
}

/* It stays where somebody only wants less to be idle. A trim takes it, also while another stream
 * captures, since the work of its own is marked beside the capture. */
static void not_given_back(void **state)
{
    (void)state;
    start("release_threshold_mb:0,garbage_collection_threshold:0.1", "SCHEDULE=eager");
    tnr_stream stream = unit_stream(0), captured = unit_stream(0);
    void *a = unit_malloc(64 * MIB, stream), *b = unit_malloc(4 * MIB, stream);
    park(a, 64 * MIB, stream);
    assert_ok(tnr_free(b));
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    tnr_pool pool;
    void *c;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc(&c, pool, 32 * MIB, 0, captured));
    assert_ok(tnr_free(c));
    assert_ok(tnr_pool_destroy(pool));
    assert_int_equal(unit_stats().bytes_parked_away, 0);
    assert_ok(tnr_capture_begin(0, captured, NULL));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(sleep_device_bytes(), 0);
    assert_ok(tnr_capture_abort(0, captured));
    end();
}

/* A pool that sleeps with parked blocks holds nothing; they are parked when it wakes. */
static void sleeps(void **state)
{
    (void)state;
    start(NULL, "SCHEDULE=lazy");
    tnr_stream stream = unit_stream(0);
    void *a = unit_malloc(16 * MIB, stream), *freed = unit_malloc(8 * MIB, stream);
    void *home = unit_malloc(32 * MIB, stream);
    park(a, 16 * MIB, stream);
    park(freed, 8 * MIB, stream);
    void *b = unit_malloc(24 * MIB, stream);
    sleep_fill(b, 24 * MIB, 2, stream);
    park(home, 32 * MIB, stream);
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    assert_int_equal(sleep_device_bytes(), 0);
    assert_error(tnr_unpark(a, stream), TNR_ERR_ASLEEP, NULL);
    assert_error(tnr_park(NULL, b, stream, TNR_CONTENT_DISCARD), TNR_ERR_ASLEEP, NULL);
    assert_ok(tnr_free(freed));
    (void)sleep_stats(NULL);
    assert_ok(tnr_pool_wake(NULL, 0));
    sleep_check(b, 24 * MIB, 2);
    assert_ok(tnr_free(b));
    assert_ok(tnr_unpark(a, stream));
    assert_ok(tnr_unpark(home, stream));
    sleep_fill(a, 16 * MIB, 3, stream);
    sleep_fill(home, 32 * MIB, 4, stream);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    sleep_check(a, 16 * MIB, 3);
    sleep_check(home, 32 * MIB, 4);
    assert_int_equal(unit_stats().reserved_bytes.current, 56 * MIB);
    end();
}

/* Pictures add up, which the library checks itself, and show a parked block with the memory that it
 * is to have; followers are told that addresses lost it and have it again. */
static void seen(void **state)
{
    (void)state;
    start("chunk_max_mb:2", "SCHEDULE=eager");
    tnr_stream stream = unit_stream(0);
    tnr_mapping told[64];
    uint64_t lost;
    assert_ok(tnr_history_set(1000, TNR_HISTORY_LIGHT));
    tnr_mappings_follow(1);
    void *a = unit_malloc(8 * MIB, stream);
    park(a, 8 * MIB, stream);
    void *b = unit_malloc(6 * MIB, stream);
    (void)tnr_mappings_take(told, &lost, 64);
    for (int i = 0; i < 3; i++) {
        assert_ok(tnr_snapshot_write("park_seen.json", TNR_SNAPSHOT_JSON));
        assert_ok(tnr_snapshot_write("park_seen.pickle", TNR_SNAPSHOT_PICKLE));
        if (i == 0)
            assert_ok(tnr_unpark(a, stream)); /* other chunks: b has the former ones */
        else if (i == 1)
            assert_ok(tnr_free(b));
    }
    size_t count = tnr_mappings_take(told, &lost, 64), gone = 0, came = 0;
    for (size_t i = 0; i < count; i++) {
        int is_inside = told[i].base - (uintptr_t)a < 8 * MIB;
        gone += is_inside && !told[i].is_mapped ? told[i].bytes : 0;
        came += is_inside && told[i].is_mapped ? told[i].bytes : 0;
    }
    assert_int_equal(gone, 6 * MIB);
    assert_int_equal(came, 6 * MIB);
    assert_int_equal(remove("park_seen.json"), 0);
    assert_int_equal(remove("park_seen.pickle"), 0);
    end();
}

static void refused(void **state)
{
    (void)state;
    start("chunk_max_mb:2", "SCHEDULE=lazy");
    tnr_stream stream = unit_stream(0);
    char *a = unit_malloc(16 * MIB, stream);
    void *grows;
    tnr_export export;
    assert_error(tnr_park(NULL, &a, stream, TNR_CONTENT_DISCARD), TNR_ERR_FOREIGN_POINTER, NULL);
    assert_error(tnr_park(NULL, a + MIB, stream, TNR_CONTENT_DISCARD), TNR_ERR_INTERIOR_POINTER,
                 "inside");
    assert_error(tnr_park(NULL, a, stream, (tnr_content)7), TNR_ERR_INVALID_ARGUMENT, "policy");
    assert_error(tnr_unpark(a, stream), TNR_ERR_NOT_LIVE, "not parked");
    assert_error(tnr_park(NULL, a, (tnr_stream)0x77, TNR_CONTENT_DISCARD), TNR_ERR_INVALID_STREAM,
                 NULL);
    assert_ok(tnr_reserve(&grows, 32 * MIB, 0, stream));
    assert_ok(tnr_commit(grows, 8 * MIB));
    assert_error(tnr_park(NULL, grows, stream, TNR_CONTENT_DISCARD), TNR_ERR_INVALID_ARGUMENT,
                 "tnr_reserve");
    assert_ok(tnr_export_create(&export, a));
    assert_error(tnr_park(NULL, a, stream, TNR_CONTENT_DISCARD), TNR_ERR_INVALID_ARGUMENT,
                 "processes");
    assert_ok(tnr_export_close(export));
    park(a, 16 * MIB, stream);
    assert_error(tnr_park(NULL, a, stream, TNR_CONTENT_DISCARD), TNR_ERR_PARKED, NULL);
    assert_error(tnr_record_use(a, unit_stream(0)), TNR_ERR_PARKED, NULL);
    assert_error(tnr_export_create(&export, a), TNR_ERR_PARKED, NULL);
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, a + MIB));
    assert_ptr_equal(info.base, a);
    assert_ok(tnr_free(a));
    assert_error(tnr_free(a), TNR_ERR_NOT_LIVE, NULL);
    assert_error(tnr_unpark(a, stream), TNR_ERR_NOT_LIVE, NULL);
    tnr_pool pool;
    assert_ok(tnr_vouched_pool_create(&pool, 0, NULL));
    void *kept;
    assert_ok(tnr_pool_malloc(&kept, pool, 8 * MIB, 0, stream));
    assert_error(tnr_park(NULL, kept, stream, TNR_CONTENT_DISCARD), TNR_ERR_INVALID_ARGUMENT,
                 "addresses");
    end();
}

/* Pools and the library end with parked blocks, by force. */
static void ends(void **state)
{
    (void)state;
    start(NULL, "SCHEDULE=lazy");
    tnr_stream stream = unit_stream(0);
    tnr_pool pool;
    void *a, *b, *c;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc(&a, pool, 16 * MIB, 0, stream));
    sleep_fill(a, 16 * MIB, 1, stream);
    park(a, 16 * MIB, stream);
    assert_ok(tnr_pool_malloc(&b, pool, 8 * MIB, 0, stream));
    assert_error(tnr_pool_destroy(pool), TNR_ERR_BUSY, "2 live blocks");
    assert_ok(tnr_free(a));
    assert_ok(tnr_free(b));
    assert_ok(tnr_pool_destroy(pool));
    assert_int_equal(sleep_device_bytes(), 0);
    a = unit_malloc(16 * MIB, stream);
    park(a, 16 * MIB, stream);
    assert_error(tnr_free_on((char *)a + MIB, stream), TNR_ERR_INTERIOR_POINTER, NULL);
    assert_ok(tnr_free_on(a, unit_stream(0)));
    a = unit_malloc(16 * MIB, stream);
    park(a, 16 * MIB, stream);
    assert_ok(tnr_free_sync(a));
    a = unit_malloc(16 * MIB, stream);
    sleep_fill(a, 16 * MIB, 1, stream);
    assert_ok(tnr_record_use(a, unit_stream(0)));
    park(a, 16 * MIB, stream);
    b = unit_malloc(8 * MIB, stream);
    c = unit_malloc(16 * MIB, stream);
    park(c, 16 * MIB, stream);
    (void)b;
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(neighbours, unit_stop),
        cmocka_unit_test_teardown(untouched, unit_stop),
        cmocka_unit_test_teardown(serves_and_returns, unit_stop),
        cmocka_unit_test_teardown(gets_other_chunks, unit_stop),
        cmocka_unit_test_teardown(other_streams, unit_stop),
        cmocka_unit_test_teardown(in_turn, unit_stop),
        cmocka_unit_test_teardown(parked_first, unit_stop),
        cmocka_unit_test_teardown(newest_gives_first, unit_stop),
        cmocka_unit_test_teardown(parts, unit_stop),
        cmocka_unit_test_teardown(memory_goes_back, unit_stop),
        cmocka_unit_test_teardown(given_back, unit_stop),
        cmocka_unit_test_teardown(given_back_in_turn, unit_stop),
        cmocka_unit_test_teardown(not_given_back, unit_stop),
        cmocka_unit_test_teardown(sleeps, unit_stop),
        cmocka_unit_test_teardown(seen, unit_stop),
        cmocka_unit_test_teardown(refused, unit_stop),
        cmocka_unit_test_teardown(ends, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
