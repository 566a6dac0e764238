/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses and frees: what each call records, what it costs, how calls compose, and every error.
 *
 * Seen to fail with these lines taken out of the library:
 *   every_stream_is_respected     use.c, tnri_use_add: "use->stream != stream" replaced by "0"
 *   many_streams_are_respected    uses.c, use_is_inside: 1 always; 0 always: it never ends
 *   latest_mark_counts            use.c, tnri_use_add: "<= number" replaced by "== 0"
 *   record_stream_after_failed_free  retire.c: what puts the uses of a refused free back
 *   frees_in_host_functions       free.c, is_host_function: 0 always, or tnri_free_later without
 *                                 stuck_add
 *   frees_while_a_stream_is_recorded  tnri_lock_take for tnri_lock_try, in tnri_stream_is_after or
 *                                 stream_lock_to_keep; lock.h: STREAMS before STREAM
 *   calls_before_main_count       register.c, free_offer: without its look
 *   free_sync_covers_everything   collect.c, batch_fence: the call of proxy_follow_all
 */
#include "life.h"
#include "few.h"

#include <pthread.h>
#include <string.h>

#include "memory/device/upper.h"
#include "order/register.h"
#include "order/uses.h"

#define BYTES (4 * MIB)

/* A constructor of the program's, of which the linker says whether it runs before the library's.
 * What is called in it may be the first of this layer. */
__attribute__((constructor(101))) static void before_the_library(void)
{
    tnri_lifetime_register();
}

static void calls_before_main_count(void **state)
{
    (void)state;
    assert_ptr_equal(tnri_upper_of(TNRI_ROOM_ORDER), &tnri_order_upper);
}

/* ---- uses ----------------------------------------------------------------------------------- */

static void own_stream_is_no_use(void **state)
{
    (void)state;
    life_start(NULL, NULL, NULL);
    void *block = unit_malloc(BYTES, life_streams[0]);
    uint64_t calls = simcuda_calls_total();
    assert_ok(tnr_record_use(block, life_streams[0]));
    assert_ok(tnr_record_stream(block, life_streams[0]));
    assert_ok(tnr_free(block));
    assert_int_equal(simcuda_calls_total(), calls);
    assert_int_equal(life_because(TNR_REUSE_SAME_STREAM), 1);
    /* The legacy stream has two handles. */
    block = unit_malloc(BYTES, NULL);
    calls = simcuda_calls_total();
    assert_ok(tnr_record_use(block, CU_STREAM_LEGACY));
    assert_ok(tnr_free_on(block, CU_STREAM_LEGACY));
    assert_int_equal(simcuda_calls_total(), calls);
    assert_int_equal(life_because(TNR_REUSE_SAME_STREAM), 2);
}

static void every_stream_is_respected(void **state)
{
    (void)state;
    for (int last = 1; last <= 3; last++) {
        life_start("reuse:poll,cross_stream:off", NULL, NULL);
        unsigned char *block = unit_malloc(BYTES, life_streams[0]);
        for (int i = 1; i <= 3; i++) {
            life_gate_close(i, life_streams[i]);
            /* Interior pointers are fine. */
            assert_ok(tnr_record_use(block + (size_t)i * 1000, life_streams[i]));
        }
        assert_ok(tnr_free(block));
        for (int i = 1; i <= 3; i++)
            if (i != last)
                life_gate_open(i);
        simcuda_run(UINT64_MAX);
        assert_false(life_is_reused(block, BYTES, life_streams[0]));
        assert_int_equal(unit_stats().blocks_retired, 1);
        life_gate_open(last);
        simcuda_run(UINT64_MAX);
        assert_true(life_is_reused(block, BYTES, life_streams[0]));
        assert_int_equal(unit_stats().blocks_retired, 0);
        if (last < 3)
            assert_int_equal(life_stop(state), 0);
    }
}

/* More than lie in the list itself, in any order, and again and again. */
static void many_streams_are_respected(void **state)
{
    (void)state;
    enum { USERS = TNRI_USES_FEW + 5, ROUNDS = 300, WARM = 20 };
    tnr_stream users[USERS];
    uint64_t metadata = 0;
    life_start("reuse:poll,cross_stream:off", NULL, NULL);
    for (int i = 0; i < USERS; i++)
        users[i] = unit_stream(0);
    for (int round = 0; round < ROUNDS; round++) {
        int last = round % USERS;
        void *block = unit_malloc(BYTES, life_streams[0]);
        for (int i = 0; i < USERS; i++) {
            life_gate_close(i, users[i]);
            assert_ok(tnr_record_use(block, users[i]));
        }
        assert_ok(tnr_free(block));
        for (int i = 0; i < USERS; i++)
            if (i != last)
                life_gate_open(i);
        simcuda_run(UINT64_MAX);
        void *other = unit_malloc(BYTES, life_streams[0]); /* looks whether they are over */
        assert_ptr_not_equal(other, block);
        assert_int_equal(unit_stats().blocks_retired, 1);
        life_gate_open(last);
        simcuda_run(UINT64_MAX);
        assert_ok(tnr_free(unit_malloc(2 * BYTES, life_streams[0])));
        assert_int_equal(unit_stats().blocks_retired, 0);
        assert_ok(tnr_free(other));
        if (round == WARM)
            metadata = unit_stats().metadata_bytes;
    }
    assert_true(unit_stats().metadata_bytes <= metadata + 8 * KIB);
}

static void latest_mark_counts(void **state)
{
    (void)state;
    life_start("reuse:poll,cross_stream:off", NULL, NULL);
    void *block = unit_malloc(BYTES, life_streams[0]);
    assert_ok(tnr_record_use(block, life_streams[1]));
    life_gate_close(0, life_streams[1]);
    assert_ok(tnr_record_use(block, life_streams[1]));
    assert_ok(tnr_free(block));
    simcuda_run(UINT64_MAX);
    assert_false(life_is_reused(block, BYTES, life_streams[0]));
    life_gate_open(0);
    simcuda_run(UINT64_MAX);
    assert_true(life_is_reused(block, BYTES, life_streams[0]));
}

static void a_million_uses_take_no_memory(void **state)
{
    (void)state;
    life_start(NULL, "SCHEDULE=eager", NULL);
    void *block = unit_malloc(BYTES, life_streams[0]);
    simcuda_live live;
    for (int i = 0; i < 10; i++) {
        assert_ok(tnr_record_use(block, life_streams[1]));
        assert_ok(tnr_record_stream(block, life_streams[2]));
    }
    uint64_t metadata = unit_stats().metadata_bytes;
    assert_int_equal(simcuda_live_get(0, &live), 0);
    uint64_t events = live.events;
    uint64_t created = simcuda_calls("cuEventCreate");
    for (int i = 0; i < few_or(1000000, 20000); i++)
        assert_ok(tnr_record_use(block, life_streams[1]));
    for (int i = 0; i < 1000; i++)
        assert_ok(tnr_record_stream(block, life_streams[2]));
    assert_int_equal(unit_stats().metadata_bytes, metadata);
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.events, events);
    assert_int_equal(simcuda_calls("cuEventCreate"), created);
    assert_ok(tnr_free(block));
}

/* record_use and record_stream of one stream: the later end counts, whichever came first. */
static void uses_compose(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        life_start("reuse:poll,cross_stream:off", NULL, NULL);
        void *block = unit_malloc(BYTES, life_streams[0]);
        if (order == 0)
            assert_ok(tnr_record_use(block, life_streams[1]));
        assert_ok(tnr_record_stream(block, life_streams[1]));
        if (order == 1)
            assert_ok(tnr_record_use(block, life_streams[1]));
        life_gate_close(0, life_streams[1]);
        assert_ok(tnr_free(block));
        simcuda_run(UINT64_MAX);
        assert_false(life_is_reused(block, BYTES, life_streams[0]));
        life_gate_open(0);
        simcuda_run(UINT64_MAX);
        assert_true(life_is_reused(block, BYTES, life_streams[0]));
        if (order == 0)
            assert_int_equal(life_stop(state), 0);
    }
}

/* A free that fails leaves the block live, and what the streams do with it after that is covered by
 * the free that succeeds. */
static void record_stream_after_failed_free(void **state)
{
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        life_start("reuse:poll,cross_stream:off", NULL, NULL);
        void *block = unit_malloc(BYTES, life_streams[0]);
        assert_ok(tnr_record_stream(block, life_streams[1]));
        assert_ok(tnr_record_stream(block, life_streams[2]));
        simcuda_fail("cuEventRecord", 2, 0, CUDA_ERROR_UNKNOWN);
        assert_error(sync ? tnr_free_sync(block) : tnr_free(block), TNR_ERR_DRIVER, "");
        simcuda_fail_clear();
        tnr_block_info info;
        assert_ok(tnr_block_get(&info, block));
        life_gate_close(1, life_streams[1]);
        life_gate_close(2, life_streams[2]);
        assert_ok(tnr_free(block));
        life_gate_open(sync ? 1 : 2);
        simcuda_run(UINT64_MAX);
        assert_false(life_is_reused(block, BYTES, life_streams[0]));
        life_gate_open(sync ? 2 : 1);
        simcuda_run(UINT64_MAX);
        assert_true(life_is_reused(block, BYTES, life_streams[0]));
        if (sync == 0)
            assert_int_equal(life_stop(state), 0);
    }
}

/* ---- events of the program ------------------------------------------------------------------ */

static void keep_until_an_event(void **state)
{
    (void)state;
    life_start("reuse:poll,cross_stream:off", NULL, NULL);
    void *block = unit_malloc(BYTES, life_streams[0]);
    CUevent event = life_event();
    life_gate_close(0, life_streams[1]);
    life_record(event, life_streams[1]);
    assert_ok(tnr_keep_until(block, event));
    assert_ok(tnr_free(block));
    /* Recorded again, somewhere where it is over at once; then destroyed. Neither matters. */
    life_record(event, life_streams[2]);
    tnr_event_destroyed(event);
    life_event_destroy(event);
    simcuda_run(UINT64_MAX);
    assert_false(life_is_reused(block, BYTES, life_streams[0]));
    life_gate_open(0);
    simcuda_run(UINT64_MAX);
    assert_true(life_is_reused(block, BYTES, life_streams[0]));
}

/* Recorded again behind a gate: the block is kept until the record that was there at the call. */
static void keep_until_is_not_moved(void **state)
{
    (void)state;
    life_start("reuse:poll,cross_stream:off", NULL, NULL);
    void *block = unit_malloc(BYTES, life_streams[0]);
    CUevent event = life_event();
    life_record(event, life_streams[1]);
    assert_ok(tnr_keep_until(block, event));
    life_gate_close(0, life_streams[1]);
    life_record(event, life_streams[1]);
    assert_ok(tnr_free(block));
    simcuda_run(UINT64_MAX);
    assert_true(life_is_reused(block, BYTES, life_streams[0]));
}

static void keep_until_errors(void **state)
{
    (void)state;
    life_start(NULL, "DEVICES=2", NULL);
    void *block = unit_malloc(BYTES, life_streams[0]);
    CUevent event = life_event();
    assert_error(tnr_keep_until(block, event), TNR_ERR_INVALID_EVENT, "never announced");
    assert_error(tnr_keep_until(block, NULL), TNR_ERR_INVALID_EVENT, "never announced");
    assert_error(tnr_keep_until(NULL, event), TNR_ERR_INVALID_ARGUMENT, "null pointer");
    assert_error(tnr_event_recorded(NULL, 0, life_streams[0], tnr_moment_now()),
                 TNR_ERR_INVALID_EVENT, "event is null");
    assert_error(tnr_event_recorded(event, 7, life_streams[0], tnr_moment_now()),
                 TNR_ERR_INVALID_DEVICE, "7");
    /* An event of the other device. */
    CUevent foreign;
    CUcontext popped;
    CUcontext other;
    tnr_stream stream = unit_stream(1);
    assert_int_equal(cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(other), CUDA_SUCCESS);
    assert_int_equal(cuEventCreate(&foreign, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    assert_int_equal(cuEventRecord(foreign, stream), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
    assert_ok(tnr_event_recorded(foreign, 1, stream, tnr_moment_now()));
    tnr_event_destroyed(foreign);
    assert_error(tnr_keep_until(block, foreign), TNR_ERR_INVALID_EVENT, "never announced");
    assert_int_equal(cuEventDestroy(foreign), CUDA_SUCCESS);
    assert_ok(tnr_free(block));
    assert_int_equal(life_because(TNR_REUSE_SAME_STREAM), 1); /* it was left as it was */
}

/* ---- frees ---------------------------------------------------------------------------------- */

static void free_on_another_stream(void **state)
{
    (void)state;
    life_start("reuse:poll,cross_stream:off", NULL, NULL);
    unsigned char *block = unit_malloc(BYTES, life_streams[0]);
    assert_error(tnr_free_on(block + 512, life_streams[1]), TNR_ERR_INTERIOR_POINTER, "inside");
    assert_int_equal(simcuda_calls("cuEventRecord"), 0);
    life_gate_close(0, life_streams[1]);
    assert_ok(tnr_free_on(block, life_streams[1]));
    assert_ok(tnr_free_on(NULL, life_streams[1]));
    assert_false(life_is_reused(block, BYTES, life_streams[0]));
    assert_error(tnr_free_on(block, life_streams[1]), TNR_ERR_NOT_LIVE, "");
    life_gate_open(0);
    simcuda_run(UINT64_MAX);
    assert_true(life_is_reused(block, BYTES, life_streams[0]));
}

static void free_sync_covers_everything(void **state)
{
    (void)state;
    for (int held = 0; held < LIFE_STREAMS + 2; held++) {
        life_start("reuse:poll,cross_stream:off", NULL, NULL);
        tnr_stream stream = held < LIFE_STREAMS    ? life_streams[held]
                            : held == LIFE_STREAMS ? life_stream(CU_STREAM_DEFAULT)
                                                   : CU_STREAM_LEGACY;
        /* Known: by an allocation, by an announcement, or as a blocking stream not at all. */
        void *one = unit_malloc(BYTES, life_streams[1]);
        assert_ok(tnr_stream_created(0, life_streams[2]));
        assert_ok(tnr_stream_created(0, life_streams[3]));
        void *block = unit_malloc(BYTES, life_streams[0]);
        life_gate_close(0, stream);
        uint64_t recorded = simcuda_calls("cuEventRecord");
        assert_ok(tnr_free_sync(block));
        assert_int_equal(simcuda_calls("cuEventRecord"), recorded);
        assert_false(life_is_reused(block, BYTES, life_streams[0]));
        simcuda_run(UINT64_MAX);
        assert_false(life_is_reused(block, BYTES, life_streams[0]));
        assert_int_equal(life_host_waits(), 0);
        life_gate_open(0);
        simcuda_run(UINT64_MAX);
        assert_true(life_is_reused(block, BYTES, life_streams[0]));
        assert_ok(tnr_free(one));
        if (held < LIFE_STREAMS + 1)
            assert_int_equal(life_stop(state), 0);
    }
}

/* The events recorded for a batch do not grow with the batch. */
static uint64_t batch_events(int frees)
{
    void *blocks[300];
    life_start("reuse:poll,cross_stream:off", "SCHEDULE=eager", NULL);
    for (int i = 0; i < LIFE_STREAMS; i++)
        (void)unit_malloc(BYTES, life_streams[i]);
    for (int i = 0; i < frees; i++)
        blocks[i] = unit_malloc(2 * MIB, life_streams[i % LIFE_STREAMS]);
    uint64_t recorded = simcuda_calls("cuEventRecord");
    for (int i = 0; i < frees; i++)
        assert_ok(tnr_free_sync(blocks[i]));
    assert_int_equal(simcuda_calls("cuEventRecord"), recorded);
    assert_int_equal(unit_stats().blocks_retired, frees);
    (void)unit_malloc(BYTES, life_streams[0]);
    assert_int_equal(unit_stats().blocks_retired, 0);
    return simcuda_calls("cuEventRecord") - recorded;
}

static void free_sync_shares_events(void **state)
{
    uint64_t few = batch_events(2);
    assert_int_equal(life_stop(state), 0);
    uint64_t many = batch_events(300);
    assert_true(few > 0);
    assert_int_equal(many, few);
}

static void *own_default_stream(void *unused)
{
    (void)unused;
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    void *block = unit_malloc(BYTES, CU_STREAM_PER_THREAD);
    return block;
}

/* Another thread has memory on its own default stream, which only it can name. The host must not
 * wait for the device because of that: the legacy stream stands for it. */
static void free_sync_waits_on_no_host(void **state)
{
    (void)state;
    life_start("reuse:poll,cross_stream:off", "DEADLOCK_MS=200", NULL);
    pthread_t thread;
    void *theirs;
    assert_int_equal(pthread_create(&thread, NULL, own_default_stream, NULL), 0);
    assert_int_equal(pthread_join(thread, &theirs), 0);
    void *block = unit_malloc(BYTES, life_streams[0]);
    life_gate_close(0, life_streams[1]);
    assert_ok(tnr_free_sync(block));
    (void)unit_malloc(BYTES, life_streams[0]);
    assert_int_equal(life_host_waits(), 0);
    assert_ok(tnr_free(theirs));
}

/* ---- errors --------------------------------------------------------------------------------- */

typedef tnr_status (*record_call)(const void *ptr, tnr_stream stream);

static void uses_of_wrong_blocks(void **state)
{
    static const record_call calls[] = {tnr_record_use, tnr_record_stream};
    (void)state;
    life_start("reuse:poll", "DEVICES=2", NULL);
    int local;
    for (int i = 0; i < 2; i++) {
        void *block = unit_malloc(BYTES, life_streams[0]);
        assert_error(calls[i](NULL, life_streams[1]), TNR_ERR_INVALID_ARGUMENT, "null");
        assert_error(calls[i](&local, life_streams[1]), TNR_ERR_FOREIGN_POINTER, "allocated");
        assert_ok(tnr_free(block));
        assert_error(calls[i](block, life_streams[1]), TNR_ERR_NOT_LIVE, "");
        assert_error(calls[i](block, life_streams[0]), TNR_ERR_NOT_LIVE, "");
    }
    assert_int_equal(unit_stats().blocks_retired, 0);
    assert_error(tnr_free_sync(&local), TNR_ERR_FOREIGN_POINTER, "");
    assert_ok(tnr_free_sync(NULL));
}

static void uses_by_wrong_streams(void **state)
{
    static const record_call calls[] = {tnr_record_use, tnr_record_stream};
    (void)state;
    life_start("reuse:poll", "DEVICES=2", NULL);
    tnr_stream foreign = unit_stream(1);
    for (int i = 0; i < 4; i++) {
        void *block = unit_malloc(BYTES, life_streams[0]);
        tnr_stream gone = life_stream(CU_STREAM_NON_BLOCKING);
        if (i >= 2) /* known before */
            assert_ok(tnr_stream_created(0, gone));
        assert_ok(tnr_stream_destroying(0, gone));
        assert_int_equal(cuStreamDestroy(gone), CUDA_SUCCESS);
        assert_error(calls[i % 2](block, foreign), TNR_ERR_INVALID_STREAM, "device 0");
        assert_error(calls[i % 2](block, gone), TNR_ERR_INVALID_STREAM, "destroyed");
        simcuda_violations_clear(); /* asking about a destroyed handle is one */
        assert_int_equal(tnr_last_driver_result(), CUDA_ERROR_INVALID_HANDLE);
        assert_ok(tnr_free(block));
        assert_int_equal(life_because(TNR_REUSE_SAME_STREAM), (uint64_t)i + 1);
    }
    assert_error(tnr_stream_created(0, foreign), TNR_ERR_INVALID_STREAM, "device 0");
    assert_error(tnr_stream_created(9, foreign), TNR_ERR_INVALID_DEVICE, "9");
    assert_error(tnr_stream_destroying(9, foreign), TNR_ERR_INVALID_DEVICE, "9");
    assert_error(tnr_stream_destroying(0, NULL), TNR_ERR_INVALID_STREAM, "default");
    assert_error(tnr_stream_waited(NULL, 9, foreign, 0), TNR_ERR_INVALID_DEVICE, "9");
    assert_error(tnr_stream_synchronized(0, foreign, 0), TNR_ERR_INVALID_STREAM, "device 0");
    assert_error(tnr_device_synchronized(9, 0), TNR_ERR_INVALID_DEVICE, "9");
}

static void retired_blocks_are_not_live(void **state)
{
    (void)state;
    life_start("reuse:poll,cross_stream:off", NULL, NULL);
    for (int sync = 0; sync < 2; sync++) {
        unsigned char *block = unit_malloc(BYTES, life_streams[0]);
        tnr_block_info info;
        life_gate_close(sync, life_streams[1]);
        assert_ok(tnr_record_use(block, life_streams[1]));
        assert_ok(sync ? tnr_free_sync(block) : tnr_free(block));
        assert_int_equal(unit_stats().blocks_retired, (uint64_t)sync + 1);
        assert_error(tnr_free(block), TNR_ERR_NOT_LIVE, "");
        assert_error(tnr_free_sync(block), TNR_ERR_NOT_LIVE, "");
        assert_error(tnr_free_on(block, life_streams[1]), TNR_ERR_NOT_LIVE, "");
        assert_error(tnr_free(block + 512), TNR_ERR_NOT_LIVE, "");
        assert_error(tnr_record_use(block, life_streams[2]), TNR_ERR_NOT_LIVE, "");
        assert_error(tnr_record_stream(block + 512, life_streams[2]), TNR_ERR_NOT_LIVE, "");
        assert_error(tnr_block_get(&info, block), TNR_ERR_NOT_LIVE, "");
        assert_int_equal(unit_stats().blocks_retired, (uint64_t)sync + 1);
    }
    assert_int_equal(unit_stats().bytes_retired, 2 * BYTES);
    assert_int_equal(unit_stats().active_bytes[0].current, 2 * BYTES);
    assert_int_equal(unit_stats().allocated_bytes[0].current, 0);
}

/* A free in a host function of a stream. */
typedef struct free_inside {
    void *block;
    tnr_status (*free)(void *ptr);
    tnr_status status, again;
} free_inside;

static void CUDA_CB host_function(void *of)
{
    free_inside *self = of;
    self->status = self->free(self->block);
    self->again = self->free(self->block);
}

/* In a host function the driver permits no call: what the free would have marked is marked when the
 * memory is wanted. Until then, and until the streams are done, it is nobody's. */
static void frees_in_host_functions(void **state)
{
    (void)state;
    life_start("reuse:poll,cross_stream:off", NULL, NULL);
    for (int sync = 0; sync < 2; sync++) {
        free_inside inside = {unit_malloc(BYTES, life_streams[0]), sync ? tnr_free_sync : tnr_free,
                              TNR_ERR_INTERNAL, TNR_OK};
        assert_ok(tnr_record_stream(inside.block, life_streams[1]));
        assert_ok(tnr_record_stream(inside.block, life_streams[2]));
        life_gate_close(2 * sync, life_streams[1]);
        life_gate_close(2 * sync + 1, life_streams[2]);
        unsigned char *read = life_read(inside.block, BYTES, life_streams[2]);
        life_fill(inside.block, BYTES, 7, life_streams[0]);
        assert_int_equal(cuLaunchHostFunc(life_streams[0], host_function, &inside), CUDA_SUCCESS);
        assert_int_equal(cuStreamSynchronize(life_streams[0]), CUDA_SUCCESS);
        assert_ok(inside.status);
        assert_int_equal(inside.again, TNR_ERR_NOT_LIVE);
        assert_int_equal(unit_stats().blocks_retired, 1);
        assert_int_equal(unit_stats().bytes_retired, BYTES);
        assert_false(life_is_reused(inside.block, BYTES, life_streams[0]));
        assert_int_equal(unit_stats().blocks_retired, 1);
        life_gate_open(2 * sync);
        assert_false(life_is_reused(inside.block, BYTES, life_streams[0]));
        life_gate_open(2 * sync + 1);
        simcuda_run(UINT64_MAX);
        assert_true(life_all(read, BYTES, 7));
        assert_true(life_is_reused(inside.block, BYTES, life_streams[0]));
        assert_int_equal(unit_stats().blocks_retired, 0);
    }
}

static void CUDA_CB free_here(void *of)
{
    free_inside *self = of;
    self->status = self->free(self->block);
}

static void *free_in_a_thread(void *of)
{
    free_here(of);
    return NULL;
}

/* As a driver's thread does it: the call that waits for the function is another thread's. */
static void CUDA_CB free_elsewhere(void *of)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, free_in_a_thread, of), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Frees a block of stream 0 with a use of stream 1, in a host function that runs while the driver
 * records an event on `locked`: the calling thread is inside of that stream's lock, and owns it. */
static void free_while_recording(CUhostFn function, tnr_stream locked, int is_ordered)
{
    free_inside inside = {unit_malloc(BYTES, life_streams[0]), tnr_free, TNR_ERR_INTERNAL, TNR_OK};
    void *other = unit_malloc(BYTES, life_streams[3]);
    for (int i = 0; i < 100; i++)
        assert_ok(tnr_record_use(other, locked));
    life_gate_close(0, life_streams[2]);
    assert_ok(tnr_record_use(inside.block, life_streams[1]));
    CUevent event = life_event();
    tnr_stream last = is_ordered ? life_streams[1] : life_streams[3];
    life_record(event, last);
    life_wait(life_streams[0], event);
    assert_int_equal(cuLaunchHostFunc(life_streams[2], function, &inside), CUDA_SUCCESS);
    life_gate_open(0);
    assert_int_equal(inside.status, TNR_ERR_INTERNAL);
    assert_ok(tnr_record_use(other, locked));
    assert_ok(inside.status);
    assert_error(tnr_free(inside.block), TNR_ERR_NOT_LIVE, "");
    assert_ok(tnr_validate(0));
    assert_true(life_is_reused(inside.block, BYTES, life_streams[0]));
    assert_int_equal(unit_stats().blocks_retired, 0);
}

/* A call of the driver may wait for a host function, under a stream's lock. No free in that
 * function waits for the lock. */
static void frees_while_a_stream_is_recorded(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        life_start(NULL, "SCHEDULE=eager", NULL);
        free_while_recording((i & 1) != 0 ? free_elsewhere : free_here, life_streams[(i & 2) != 0],
                             (i & 4) != 0);
        assert_int_equal(life_stop(state), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_before_main_count), /* before others register */
        cmocka_unit_test_teardown(own_stream_is_no_use, life_stop),
        cmocka_unit_test_teardown(every_stream_is_respected, life_stop),
        cmocka_unit_test_teardown(many_streams_are_respected, life_stop),
        cmocka_unit_test_teardown(latest_mark_counts, life_stop),
        cmocka_unit_test_teardown(a_million_uses_take_no_memory, life_stop),
        cmocka_unit_test_teardown(uses_compose, life_stop),
        cmocka_unit_test_teardown(record_stream_after_failed_free, life_stop),
        cmocka_unit_test_teardown(keep_until_an_event, life_stop),
        cmocka_unit_test_teardown(keep_until_is_not_moved, life_stop),
        cmocka_unit_test_teardown(keep_until_errors, life_stop),
        cmocka_unit_test_teardown(free_on_another_stream, life_stop),
        cmocka_unit_test_teardown(free_sync_covers_everything, life_stop),
        cmocka_unit_test_teardown(free_sync_shares_events, life_stop),
        cmocka_unit_test_teardown(free_sync_waits_on_no_host, life_stop),
        cmocka_unit_test_teardown(uses_of_wrong_blocks, life_stop),
        cmocka_unit_test_teardown(uses_by_wrong_streams, life_stop),
        cmocka_unit_test_teardown(retired_blocks_are_not_live, life_stop),
        cmocka_unit_test_teardown(frees_in_host_functions, life_stop),
        cmocka_unit_test_teardown(frees_while_a_stream_is_recorded, life_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
