/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one thread does while another is inside a call, at the one moment that matters. The library
 * reaches the driver through a table. A test puts a function of its own there. That function lets a
 * second thread do its whole step before the call goes on. So these interleavings are the same in
 * every run.
 *
 * Seen to fail with these lines changed in the library:
 *   an_adopted_donor_is_not_credited  execute.c, tnri_execute_order: "giver" in the call of
 *                                 tnri_stream_follow replaced by "donor->stream"
 *   a_use_until_a_free_after_the_end_of_its_stream  stream.c, stream_seal: "stream->spare = NULL"
 */
#include "life.h"

#include <pthread.h>

#include "gpu/cuda/driver.h"

#define BYTES (4 * MIB)
#define OWN (life_streams[0])
#define OTHER (life_streams[1])
#define THIRD (life_streams[2])

/* ---- a second thread's step ----------------------------------------------------------------- */

static CUcontext device_context;
static void (*intruder_step)(void); /* null once it has run */

static void *intruder_run(void *step)
{
    assert_int_equal(cuCtxSetCurrent(device_context), CUDA_SUCCESS);
    (*(void (**)(void))step)();
    return NULL;
}

static void intrude(void)
{
    pthread_t thread;
    void (*step)(void) = intruder_step;
    intruder_step = NULL;
    if (step == NULL)
        return;
    assert_int_equal(pthread_create(&thread, NULL, intruder_run, &step), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* A wait on the device, after which the second thread takes its step. */
static CUresult CUDAAPI wait_and_intrude(CUstream stream, CUevent event, unsigned flags)
{
    CUresult result = cuStreamWaitEvent(stream, event, flags);
    intrude();
    return result;
}

/* The library's next cuStreamWaitEvent is followed by a step of a second thread. The end of the
 * library, which is the end of every test, forgets the table. */
static void intrude_after_wait(void (*step)(void))
{
    assert_int_equal(cuCtxGetCurrent(&device_context), CUDA_SUCCESS);
    intruder_step = step;
    tnri_driver.cuStreamWaitEvent = wait_and_intrude;
}

/* ---- donors --------------------------------------------------------------------------------- */

static void *adopted; /* a block of the stream that took the donor over */

static void step_adopt(void)
{
    adopted = unit_malloc(MIB / 2, THIRD);
}

/* Stream 0 takes the memory that a destroyed stream left, and waits for that stream's end. At the
 * same time stream 2 becomes the owner of what is left. Nothing of stream 2 is waited for. */
static void an_adopted_donor_is_not_credited(void **state)
{
    (void)state;
    life_start("reuse:wait,cross_stream:wait,reuse_mark_percent:100,lend:off,chunk_max_mb:4", NULL,
               NULL);
    tnr_stream donor = life_stream(CU_STREAM_NON_BLOCKING);
    void *used = unit_malloc(BYTES, OWN);
    assert_ok(tnr_free(unit_malloc(8 * MIB, donor)));
    assert_ok(tnr_stream_created(0, donor));
    assert_ok(tnr_stream_destroying(0, donor));
    assert_int_equal(cuStreamDestroy(donor), CUDA_SUCCESS);

    life_gate_close(0, THIRD);
    assert_ok(tnr_record_use(used, THIRD));
    intrude_after_wait(step_adopt);
    void *taken = unit_malloc(BYTES, OWN);
    assert_null(intruder_step);
    assert_int_equal(unit_stats().served[TNR_SERVED_SHARED], 1);

    assert_ok(tnr_free(used));
    assert_int_equal(unit_stats().blocks_retired, 1);
    assert_int_equal(life_because(TNR_REUSE_ORDERED_BY_CLOCK), 0);
    assert_ok(tnr_free(taken));
    assert_ok(tnr_free(adopted));
}

/* ---- streams that end ----------------------------------------------------------------------- */

/* A use until the free, of a stream that is destroyed before without a word: it ends at the seal,
 * and the handle, which is another stream's by then, is not named, although the stream has an event
 * that is ready to be recorded. */
static void a_use_until_a_free_after_the_end_of_its_stream(void **state)
{
    (void)state;
    life_start("reuse:poll,cross_stream:off", NULL, NULL);
    tnr_stream ending = life_stream(CU_STREAM_NON_BLOCKING);
    void *other = unit_malloc(BYTES, OWN);
    for (int i = 0; i < 3; i++)
        assert_ok(tnr_record_use(other, ending));
    void *block = unit_malloc(BYTES, OWN);
    assert_ok(tnr_record_stream(block, ending));
    (void)life_read(block, BYTES, ending);
    assert_int_equal(cuStreamSynchronize(ending), CUDA_SUCCESS);
    assert_int_equal(cuStreamDestroy(ending), CUDA_SUCCESS);
    assert_ptr_equal(life_stream(CU_STREAM_NON_BLOCKING), ending);
    tnr_stream third = life_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(tnr_stream_created(0, third));
    assert_ok(tnr_stream_destroying(0, third)); /* threads forget what they remember */
    assert_ok(tnr_stream_created(0, ending));   /* its id tells that it is another one */
    life_gate_close(0, ending);
    assert_ok(tnr_free(block));
    simcuda_run(UINT64_MAX);
    assert_true(life_is_reused(block, BYTES, OWN));
    life_gate_open(0);
    assert_ok(tnr_free(other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_use_until_a_free_after_the_end_of_its_stream, life_stop),
        cmocka_unit_test_teardown(an_adopted_donor_is_not_credited, life_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
