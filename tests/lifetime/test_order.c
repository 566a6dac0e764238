/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order without asking the driver: what the program has announced, and the library's own waits, end
 * uses at once. What was not announced does not.
 *
 * Seen to fail with these lines changed in the library:
 *   a_mark_after_the_moment_is_not_covered  announce.c, tnr_event_recorded: "number = before ..."
 *                                 replaced by tnri_number_now()
 *   a_wait_after_the_moment_is_not_passed_on  stream.c, tnri_stream_clock_at: "waited <= moment"
 *                                 replaced by "1"
 *   a_record_after_the_wait_is_not_credited  announced.c, tnri_announced_get: the comparison of
 *                                 "announced" with "before" taken out
 *   a_forgotten_record_is_not_credited  announce.c, tnr_event_destroyed: "*link = old->next"; and
 *                                 without the program's own call, which is why it must call
 *   non_blocking_streams_have_no_such_rule  stream.c, stream_ask: "(flags & ...) == 0" taken out
 *   default_streams_of_two_threads  stream.c: what marks another thread's default stream through
 *                                 the legacy stream
 *   stolen_twice                  execute.c, donor_order: the call of tnri_event_order
 */
#include "life.h"
#include "few.h"

#include <pthread.h>

#define BYTES (4 * MIB)
#define FOLLOW "reuse:follow,cross_stream:off"

/* Stream 1 uses a block of stream 0 behind a gate that stays closed; the use is recorded. */
static void *block_used(tnr_stream own, tnr_stream user)
{
    void *block = unit_malloc(BYTES, own);
    life_gate_close(0, user);
    assert_ok(tnr_record_use(block, user));
    return block;
}

/* The block is freed, and its memory is there again at once, with no question to the driver. */
static void assert_ordered(void *block, tnr_stream own)
{
    tnr_stats before = unit_stats();
    uint64_t calls = simcuda_calls_total();
    assert_ok(tnr_free(block));
    assert_int_equal(unit_stats().blocks_retired, before.blocks_retired);
    assert_true(life_is_reused(block, BYTES, own));
    assert_int_equal(simcuda_calls_total(), calls);
    assert_int_equal(life_because(TNR_REUSE_ORDERED_BY_CLOCK),
                     before.freed_because[TNR_REUSE_ORDERED_BY_CLOCK] + 1);
}

static void assert_not_ordered(void *block, tnr_stream own)
{
    uint64_t ordered = life_because(TNR_REUSE_ORDERED_BY_CLOCK);
    assert_ok(tnr_free(block));
    assert_int_equal(unit_stats().blocks_retired, 1);
    assert_false(life_is_reused(block, BYTES, own));
    assert_int_equal(unit_stats().blocks_retired, 1);
    assert_int_equal(life_because(TNR_REUSE_ORDERED_BY_CLOCK), ordered);
}

/* ---- events --------------------------------------------------------------------------------- */

static void an_announced_wait_orders(void **state)
{
    (void)state;
    life_start(FOLLOW, NULL, NULL);
    void *block = block_used(life_streams[0], life_streams[1]);
    CUevent event = life_event();
    life_record(event, life_streams[1]);
    life_wait(life_streams[0], event);
    assert_ordered(block, life_streams[0]);
    assert_int_equal(simcuda_calls("cuEventQuery"), 0);
}

/* Nothing is asked of a stream before it has memory, or knows of one that has. */
static void what_need_not_be_told(void **state)
{
    (void)state;
    life_start(FOLLOW, NULL, NULL);
    CUevent event = life_event();
    assert_false(tnr_event_is_announced(event));
    assert_false(tnr_stream_is_asked(0, life_streams[0]));
    assert_false(tnr_stream_is_asked(0, life_streams[1]));
    uint64_t changes = tnr_asked_changes();
    life_record(event, life_streams[0]);
    assert_true(tnr_event_is_announced(event));
    life_wait(life_streams[1], event);
    assert_false(tnr_stream_is_asked(0, life_streams[1]));
    assert_int_equal(tnr_asked_changes(), changes);
    void *block;
    assert_ok(tnr_malloc(&block, BYTES, 0, life_streams[0]));
    assert_true(tnr_stream_is_asked(0, life_streams[0]));
    assert_true(tnr_asked_changes() > changes);
    changes = tnr_asked_changes();
    life_record(event, life_streams[0]);
    life_wait(life_streams[1], event);
    assert_true(tnr_stream_is_asked(0, life_streams[1]));
    assert_true(tnr_asked_changes() > changes);
    assert_false(tnr_stream_is_asked(0, life_streams[2]));
    assert_ok(tnr_record_use(block, life_streams[2]));
    assert_true(tnr_stream_is_asked(0, life_streams[2]));
    assert_true(tnr_stream_is_asked(7, life_streams[2])); /* nobody can tell */
    assert_string_equal(tnr_last_error(), "");
    tnr_event_destroyed(event);
    assert_false(tnr_event_is_announced(event));
    assert_ok(tnr_free(block));
}

/* The wait is announced after the free: found when memory is short, still with no question. */
static void a_later_wait_orders(void **state)
{
    (void)state;
    life_start(FOLLOW, NULL, NULL);
    void *block = block_used(life_streams[0], life_streams[1]);
    assert_ok(tnr_free(block));
    CUevent event = life_event();
    life_record(event, life_streams[1]);
    assert_int_equal(unit_stats().blocks_retired, 1);
    life_wait(life_streams[0], event);
    assert_true(life_is_reused(block, BYTES, life_streams[0]));
    assert_int_equal(life_because(TNR_REUSE_ORDERED_BY_CLOCK), 1);
}

static void order_is_transitive(void **state)
{
    (void)state;
    life_start(FOLLOW, NULL, NULL);
    void *block = block_used(life_streams[0], life_streams[1]);
    CUevent first = life_event();
    CUevent second = life_event();
    life_record(first, life_streams[1]);
    life_wait(life_streams[2], first);
    life_record(second, life_streams[2]);
    life_wait(life_streams[0], second);
    assert_ordered(block, life_streams[0]);
}

/* The second event was recorded before its stream waited for the first. */
static void order_is_not_guessed(void **state)
{
    (void)state;
    life_start(FOLLOW, NULL, NULL);
    void *block = block_used(life_streams[0], life_streams[1]);
    CUevent first = life_event();
    CUevent second = life_event();
    life_record(second, life_streams[2]);
    life_record(first, life_streams[1]);
    life_wait(life_streams[2], first);
    life_wait(life_streams[0], second);
    assert_not_ordered(block, life_streams[0]);
}

static void a_use_after_the_event_is_not_covered(void **state)
{
    (void)state;
    life_start(FOLLOW, NULL, NULL);
    void *block = unit_malloc(BYTES, life_streams[0]);
    CUevent event = life_event();
    life_record(event, life_streams[1]);
    life_wait(life_streams[0], event);
    life_gate_close(0, life_streams[1]);
    assert_ok(tnr_record_use(block, life_streams[1]));
    assert_not_ordered(block, life_streams[0]);
}

/* What another thread records between the moment and the announcement. */
static void a_mark_after_the_moment_is_not_covered(void **state)
{
    (void)state;
    life_start(FOLLOW, NULL, NULL);
    void *block = unit_malloc(BYTES, life_streams[0]);
    CUevent event = life_event();
    tnr_moment before = tnr_moment_now();
    assert_int_equal(cuEventRecord(event, life_streams[1]), CUDA_SUCCESS);
    life_gate_close(0, life_streams[1]);
    assert_ok(tnr_record_use(block, life_streams[1])); /* the other thread */
    assert_ok(tnr_event_recorded(event, 0, life_streams[1], before));
    life_wait(life_streams[0], event);
    assert_not_ordered(block, life_streams[0]);
}

/* The same for a wait: the event was recorded before it. */
static void a_wait_after_the_moment_is_not_passed_on(void **state)
{
    (void)state;
    life_start(FOLLOW, NULL, NULL);
    void *block = block_used(life_streams[0], life_streams[1]);
    CUevent first = life_event();
    CUevent second = life_event();
    life_record(first, life_streams[1]);
    tnr_moment before = tnr_moment_now();
    assert_int_equal(cuEventRecord(second, life_streams[2]), CUDA_SUCCESS);
    life_wait(life_streams[2], first); /* the other thread */
    assert_ok(tnr_event_recorded(second, 0, life_streams[2], before));
    life_wait(life_streams[0], second);
    assert_not_ordered(block, life_streams[0]);
}

/* A moment that has not come yet covers nothing that is recorded later. */
static void moments_do_not_reach_ahead(void **state)
{
    (void)state;
    life_start(FOLLOW, NULL, NULL);
    void *block = unit_malloc(BYTES, life_streams[0]);
    CUevent event = life_event();
    tnr_moment far = tnr_moment_now() + 1000000;
    assert_int_equal(cuEventRecord(event, life_streams[1]), CUDA_SUCCESS);
    assert_ok(tnr_event_recorded(event, 0, life_streams[1], far));
    life_wait(life_streams[0], event);
    assert_ok(tnr_stream_synchronized(0, life_streams[1], far));
    assert_ok(tnr_device_synchronized(0, far));
    life_gate_close(0, life_streams[1]);
    assert_ok(tnr_record_use(block, life_streams[1]));
    assert_not_ordered(block, life_streams[0]);
}

/* Another thread uses the block and records the event again, between the wait and its announcement.
 * The wait was for the record before. */
static void a_record_after_the_wait_is_not_credited(void **state)
{
    for (int host = 0; host < 2; host++) {
        life_start(FOLLOW, NULL, NULL);
        void *block = unit_malloc(BYTES, life_streams[0]);
        CUevent event = life_event();
        life_record(event, life_streams[1]);
        tnr_moment before = tnr_moment_now();
        if (host)
            assert_int_equal(cuEventSynchronize(event), CUDA_SUCCESS);
        else
            assert_int_equal(cuStreamWaitEvent(life_streams[0], event, 0), CUDA_SUCCESS);
        life_gate_close(0, life_streams[1]);
        assert_ok(tnr_record_use(block, life_streams[1])); /* the other thread, until here: */
        life_record(event, life_streams[1]);
        if (host)
            tnr_event_synchronized(event, before);
        else
            assert_ok(tnr_stream_waited(event, 0, life_streams[0], before));
        assert_not_ordered(block, life_streams[0]);
        assert_int_equal(life_stop(state), 0);
    }
    life_start(NULL, NULL, NULL);
}

/* The event is recorded again on another stream, and the wait is announced before that is. The
 * other thread has forgotten the record before, as it must, so nothing is taken for granted. */
static void a_forgotten_record_is_not_credited(void **state)
{
    (void)state;
    life_start(FOLLOW, NULL, NULL);
    void *block = block_used(life_streams[0], life_streams[1]);
    CUevent event = life_event();
    life_record(event, life_streams[1]);
    /* The other thread, whose announcement comes last. */
    tnr_event_destroyed(event);
    assert_int_equal(cuEventRecord(event, life_streams[2]), CUDA_SUCCESS);
    life_wait(life_streams[0], event);
    assert_ok(tnr_event_recorded(event, 0, life_streams[2], tnr_moment_now()));
    assert_not_ordered(block, life_streams[0]);
}

static void a_destroyed_event_is_forgotten(void **state)
{
    (void)state;
    life_start(FOLLOW, NULL, NULL);
    void *block = block_used(life_streams[0], life_streams[1]);
    CUevent event = life_event();
    life_record(event, life_streams[1]);
    tnr_event_destroyed(event);
    tnr_event_destroyed(event);
    life_wait(life_streams[0], event); /* now unknown: ignored */
    assert_not_ordered(block, life_streams[0]);
}

/* ---- the host ------------------------------------------------------------------------------- */

static void what_the_host_waited_for_is_over(void **state)
{
    (void)state;
    for (int way = 0; way < 5; way++) {
        life_start("reuse:poll,cross_stream:off", NULL, NULL);
        void *block = block_used(life_streams[0], life_streams[1]);
        CUevent event = life_event();
        CUevent second = life_event();
        life_record(event, life_streams[1]);
        life_wait(life_streams[2], event);
        life_record(second, life_streams[2]);
        tnr_moment began = tnr_moment_now();
        life_gate_open(0);
        switch (way) {
        case 0:
            assert_int_equal(cuStreamSynchronize(life_streams[1]), CUDA_SUCCESS);
            assert_ok(tnr_stream_synchronized(0, life_streams[1], began));
            break;
        case 1:
            assert_int_equal(cuEventSynchronize(event), CUDA_SUCCESS);
            tnr_event_synchronized(event, began);
            break;
        case 2: /* through the clock of the stream that was waited for */
            assert_int_equal(cuStreamSynchronize(life_streams[2]), CUDA_SUCCESS);
            assert_ok(tnr_stream_synchronized(0, life_streams[2], began));
            break;
        case 3: /* through the clock of the event */
            assert_int_equal(cuEventSynchronize(second), CUDA_SUCCESS);
            tnr_event_synchronized(second, began);
            break;
        default:
            assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
            assert_ok(tnr_device_synchronized(0, began));
        }
        uint64_t queries = simcuda_calls("cuEventQuery");
        assert_ok(tnr_free(block));
        assert_int_equal(unit_stats().blocks_retired, 0);
        assert_int_equal(life_because(TNR_REUSE_EVENT_DONE), 1);
        assert_int_equal(simcuda_calls("cuEventQuery"), queries);
        assert_int_equal(life_stop(state), 0);
    }
    life_start(NULL, NULL, NULL);
}

static void a_use_after_the_host_began_is_not_over(void **state)
{
    (void)state;
    life_start(FOLLOW, NULL, NULL);
    void *block = unit_malloc(BYTES, life_streams[0]);
    tnr_moment began = tnr_moment_now();
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    life_gate_close(0, life_streams[1]);
    assert_ok(tnr_record_use(block, life_streams[1])); /* another thread */
    assert_ok(tnr_stream_synchronized(0, life_streams[1], began));
    assert_ok(tnr_device_synchronized(0, began));
    assert_not_ordered(block, life_streams[0]);
}

/* What one device has done says nothing of another's work; nor of that of a stream that is met only
 * after the wait, in whatever object. */
static void a_device_speaks_for_itself(void **state)
{
    (void)state;
    life_start(FOLLOW, "DEVICES=2", NULL);
    assert_ok(tnr_stream_created(1, unit_stream(1)));
    void *block = block_used(life_streams[0], life_streams[1]);
    assert_ok(tnr_device_synchronized(1, tnr_moment_now()));
    assert_not_ordered(block, life_streams[0]);
    assert_int_equal(life_stop(state), 0);
    life_start(FOLLOW, NULL, NULL);
    tnr_stream gone = life_stream(CU_STREAM_NON_BLOCKING);
    block = unit_malloc(BYTES, life_streams[0]);
    assert_ok(tnr_record_use(block, gone));
    assert_ok(tnr_stream_destroying(0, gone));
    assert_int_equal(cuStreamDestroy(gone), CUDA_SUCCESS);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_ok(tnr_device_synchronized(0, tnr_moment_now()));
    assert_ok(tnr_free(block));
    assert_int_equal(unit_stats().blocks_retired, 0); /* of a stream that has ended, too */
    block = unit_malloc(BYTES, life_streams[0]);
    tnr_stream late = life_stream(CU_STREAM_NON_BLOCKING);
    life_gate_close(0, late);
    assert_ok(tnr_record_use(block, late));
    assert_not_ordered(block, life_streams[0]);
}

/* ---- default streams ------------------------------------------------------------------------ */

static void legacy_and_blocking_streams_are_ordered(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        life_start(FOLLOW, "RACES=1", NULL);
        tnr_stream legacy = way % 2 ? CU_STREAM_LEGACY : NULL;
        tnr_stream blocking = life_stream(CU_STREAM_DEFAULT);
        tnr_stream own = way / 2 ? legacy : blocking;
        tnr_stream user = way / 2 ? blocking : legacy;
        assert_ok(tnr_stream_created(0, own));
        void *block = unit_malloc(BYTES, own);
        life_gate_close(0, user);
        unsigned char *read = life_read(block, BYTES, user);
        assert_ok(tnr_record_use(block, user));
        assert_ordered(block, own);
        life_fill(block, BYTES, 9 + way, own); /* the memory may be that of the way before */
        life_gate_open(0);
        assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
        assert_false(life_all(read, BYTES, 9 + way));
        assert_int_equal(simcuda_races(), 0);
        assert_int_equal(life_stop(state), 0);
    }
    life_start(NULL, NULL, NULL);
}

static void non_blocking_streams_have_no_such_rule(void **state)
{
    (void)state;
    life_start(FOLLOW, NULL, NULL);
    void *block = block_used(life_streams[0], NULL);
    assert_not_ordered(block, life_streams[0]);
    assert_int_equal(life_stop(state), 0);
    life_start(FOLLOW, NULL, NULL);
    block = block_used(NULL, life_streams[1]);
    assert_not_ordered(block, NULL);
    assert_int_equal(life_stop(state), 0);
    /* Two blocking streams are ordered with the legacy stream, not with each other. */
    life_start(FOLLOW, NULL, NULL);
    tnr_stream own = life_stream(CU_STREAM_DEFAULT);
    block = block_used(own, life_stream(CU_STREAM_DEFAULT));
    assert_not_ordered(block, own);
}

static CUcontext device_context;

typedef struct errand {
    void *block; /* given, or 0 and then made */
    unsigned char *read;
    pthread_barrier_t done, left; /* the thread has used the block; it may end */
} errand;

/* Uses the block on its own default stream, behind the gate, until it is freed. */
static void *use_on_own_stream(void *data)
{
    errand *e = data;
    assert_int_equal(cuCtxSetCurrent(device_context), CUDA_SUCCESS);
    if (e->block == NULL)
        e->block = unit_malloc(BYTES, CU_STREAM_PER_THREAD);
    else
        assert_ok(tnr_record_stream(e->block, CU_STREAM_PER_THREAD));
    life_gate_close(0, CU_STREAM_PER_THREAD);
    e->read = life_read(e->block, BYTES, CU_STREAM_PER_THREAD);
    pthread_barrier_wait(&e->done);
    pthread_barrier_wait(&e->left);
    return NULL;
}

/* Starts a thread, and returns when it has used its block. It lives until thread_leave. */
static pthread_t thread_use(errand *e)
{
    pthread_t thread;
    pthread_barrier_init(&e->done, NULL, 2);
    pthread_barrier_init(&e->left, NULL, 2);
    assert_int_equal(cuCtxGetCurrent(&device_context), CUDA_SUCCESS);
    assert_int_equal(pthread_create(&thread, NULL, use_on_own_stream, e), 0);
    pthread_barrier_wait(&e->done);
    return thread;
}

static void thread_leave(errand *e, pthread_t thread)
{
    pthread_barrier_wait(&e->left);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_barrier_destroy(&e->done);
    pthread_barrier_destroy(&e->left);
}

/* The handle is the same, the streams are not: a block of one thread's is not given to another, and
 * a use until the free is marked on the stream of the thread that recorded it, whoever frees. */
static void default_streams_of_two_threads(void **state)
{
    (void)state;
    life_start("reuse:poll,cross_stream:off", NULL, NULL);
    errand e = {0};
    pthread_t thread = thread_use(&e);
    assert_ok(tnr_free(e.block));
    assert_false(life_is_reused(e.block, BYTES, CU_STREAM_PER_THREAD));
    thread_leave(&e, thread);
    assert_int_equal(life_stop(state), 0);

    life_start("reuse:poll,cross_stream:off", NULL, NULL);
    e.block = unit_malloc(BYTES, life_streams[0]);
    life_fill(e.block, BYTES, 7, life_streams[0]);
    assert_int_equal(cuStreamSynchronize(life_streams[0]), CUDA_SUCCESS);
    thread_leave(&e, thread_use(&e));
    uint64_t waits = life_host_waits();
    assert_ok(tnr_free(e.block));
    simcuda_run(UINT64_MAX);
    assert_false(life_is_reused(e.block, BYTES, life_streams[0]));
    assert_int_equal(life_host_waits(), waits);
    life_gate_open(0);
    simcuda_run(UINT64_MAX);
    assert_true(life_is_reused(e.block, BYTES, life_streams[0]));
    assert_true(life_all(e.read, BYTES, 7));
}

/* ---- policies ------------------------------------------------------------------------------- */

static void poll_does_not_follow(void **state)
{
    (void)state;
    life_start("reuse:poll,cross_stream:off", NULL, NULL);
    void *block = block_used(life_streams[0], life_streams[1]);
    CUevent event = life_event();
    life_record(event, life_streams[1]);
    life_wait(life_streams[0], event);
    assert_not_ordered(block, life_streams[0]);
}

static void follow_does_not_wait(void **state)
{
    (void)state;
    life_start("reuse:follow,cross_stream:off,reuse_mark_percent:0", NULL, NULL);
    uint64_t waits = simcuda_calls("cuStreamWaitEvent");
    void *block = block_used(life_streams[0], life_streams[1]);
    assert_not_ordered(block, life_streams[0]);
    assert_int_equal(simcuda_calls("cuStreamWaitEvent"), waits);
}

/* 16 blocks are mapped; `retired` of them wait. Above the mark the stream is made to wait. */
static void wait_begins_above_the_mark(void **state)
{
    (void)state;
    for (int retired = 1; retired <= 3; retired++) {
        void *blocks[16];
        life_start("reuse:wait,cross_stream:off,reuse_mark_percent:15", NULL, NULL);
        for (int i = 0; i < 16; i++)
            blocks[i] = unit_malloc(BYTES, life_streams[0]);
        life_gate_close(0, life_streams[1]);
        for (int i = 0; i < retired; i++) {
            assert_ok(tnr_record_use(blocks[i], life_streams[1]));
            assert_ok(tnr_free(blocks[i]));
        }
        int above = retired * 100 > 15 * 16;
        assert_int_equal(life_is_reused(blocks[0], BYTES, life_streams[0]), above);
        assert_int_equal(life_because(TNR_REUSE_WAITED_ON_DEVICE), above);
        assert_int_equal(life_host_waits(), 0);
        /* Only as many as the request needed. */
        assert_int_equal(unit_stats().blocks_retired, retired - above);
        assert_int_equal(life_stop(state), 0);
    }
    life_start(NULL, NULL, NULL);
}

/* Having waited once, the stream is known to be ordered after all earlier uses of that stream. */
static void own_waits_are_remembered(void **state)
{
    (void)state;
    life_start("reuse:wait,cross_stream:off,reuse_mark_percent:0", NULL, NULL);
    void *early = unit_malloc(BYTES, life_streams[0]);
    void *late = unit_malloc(BYTES, life_streams[0]);
    life_gate_close(0, life_streams[1]);
    assert_ok(tnr_record_use(early, life_streams[1]));
    assert_ok(tnr_record_use(late, life_streams[1]));
    assert_ok(tnr_free(late));
    assert_true(life_is_reused(late, BYTES, life_streams[0]));
    assert_int_equal(life_because(TNR_REUSE_WAITED_ON_DEVICE), 1);
    assert_ordered(early, life_streams[0]);
}

/* RMM's race: memory of stream 0 goes to stream 1, then on to stream 2, while work of stream 0 is
 * unfinished. Stream 2 must be ordered after stream 0 too. */
static void stolen_twice(void **state)
{
    static const char *const schedules[] = {"SCHEDULE=lazy", "SCHEDULE=eager", "SCHEDULE=random"};
    (void)state;
    for (int i = 0; i < 6; i += few_or(1, 4)) {
        int s = i % 3;
        int lends = i < 3;
        life_start(lends ? "reuse:wait,cross_stream:wait" : "reuse:wait,cross_stream:wait,lend:off",
                   schedules[s], NULL);
        assert_ok(tnr_limit_set(8 * MIB, 0));
        void *first = unit_malloc(8 * MIB, life_streams[0]);
        life_fill(first, 8 * MIB, 1, life_streams[0]);
        life_gate_close(0, life_streams[0]);
        unsigned char *read = life_read(first, 8 * MIB, life_streams[0]);
        assert_ok(tnr_free(first));
        void *second = unit_malloc(8 * MIB, life_streams[1]);
        if (s != 2) /* with no work of its own on the memory, too */
            life_fill(second, 8 * MIB, 2, life_streams[1]);
        assert_ok(tnr_free(second));
        void *third = unit_malloc(8 * MIB, life_streams[2]);
        life_fill(third, 8 * MIB, 3, life_streams[2]);
        unsigned char *last = life_read(third, 8 * MIB, life_streams[2]);
        assert_int_equal(unit_stats().served[lends ? TNR_SERVED_LENT : TNR_SERVED_SHARED], 2);
        assert_int_equal(life_host_waits(), 0);
        simcuda_run(UINT64_MAX);
        assert_true(life_all(last, 8 * MIB, 0xee));
        life_gate_open(0);
        simcuda_run(UINT64_MAX);
        assert_true(life_all(read, 8 * MIB, 1));
        assert_true(life_all(last, 8 * MIB, 3));
        assert_int_equal(life_stop(state), 0);
    }
    life_start(NULL, NULL, NULL);
}

/* The wait behind such a theft is order that uses profit from. */
static void thefts_are_remembered(void **state)
{
    for (int lends = 0; lends < 2; lends++) {
        life_start("reuse:follow,cross_stream:off", NULL, NULL);
        assert_ok(tnr_stream_created(0, life_streams[0]));
        assert_ok(tnr_stream_created(0, life_streams[1]));
        void *used = unit_malloc(BYTES, life_streams[1]);
        assert_ok(tnr_configure(lends ? "reuse:wait,cross_stream:wait,lend:on"
                                      : "reuse:wait,cross_stream:wait,lend:off"));
        assert_ok(tnr_limit_set(12 * MIB, 0));
        void *first = unit_malloc(8 * MIB, life_streams[0]);
        life_gate_close(0, life_streams[0]);
        assert_ok(tnr_record_use(used, life_streams[0]));
        assert_ok(tnr_free(first));
        void *second = unit_malloc(8 * MIB, life_streams[1]);
        assert_int_equal(unit_stats().served[lends ? TNR_SERVED_LENT : TNR_SERVED_SHARED], 1);
        assert_ordered(used, life_streams[1]);
        assert_ok(tnr_free(second));
        assert_int_equal(life_stop(state), 0);
    }
    life_start(NULL, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(an_announced_wait_orders, life_stop),
        cmocka_unit_test_teardown(what_need_not_be_told, life_stop),
        cmocka_unit_test_teardown(a_later_wait_orders, life_stop),
        cmocka_unit_test_teardown(order_is_transitive, life_stop),
        cmocka_unit_test_teardown(order_is_not_guessed, life_stop),
        cmocka_unit_test_teardown(a_use_after_the_event_is_not_covered, life_stop),
        cmocka_unit_test_teardown(a_mark_after_the_moment_is_not_covered, life_stop),
        cmocka_unit_test_teardown(a_wait_after_the_moment_is_not_passed_on, life_stop),
        cmocka_unit_test_teardown(moments_do_not_reach_ahead, life_stop),
        cmocka_unit_test_teardown(a_record_after_the_wait_is_not_credited, life_stop),
        cmocka_unit_test_teardown(a_forgotten_record_is_not_credited, life_stop),
        cmocka_unit_test_teardown(a_destroyed_event_is_forgotten, life_stop),
        cmocka_unit_test_teardown(what_the_host_waited_for_is_over, life_stop),
        cmocka_unit_test_teardown(a_use_after_the_host_began_is_not_over, life_stop),
        cmocka_unit_test_teardown(a_device_speaks_for_itself, life_stop),
        cmocka_unit_test_teardown(legacy_and_blocking_streams_are_ordered, life_stop),
        cmocka_unit_test_teardown(non_blocking_streams_have_no_such_rule, life_stop),
        cmocka_unit_test_teardown(default_streams_of_two_threads, life_stop),
        cmocka_unit_test_teardown(poll_does_not_follow, life_stop),
        cmocka_unit_test_teardown(follow_does_not_wait, life_stop),
        cmocka_unit_test_teardown(wait_begins_above_the_mark, life_stop),
        cmocka_unit_test_teardown(own_waits_are_remembered, life_stop),
        cmocka_unit_test_teardown(stolen_twice, life_stop),
        cmocka_unit_test_teardown(thefts_are_remembered, life_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
