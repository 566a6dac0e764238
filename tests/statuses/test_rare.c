/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statuses that the manual names and that need a meeting of two things: another thread in the
 * middle of its call, a stream that was destroyed untold while a capture is under way, a system
 * that refuses a thread. The misuse table and the tests of each concept come to all others.
 *
 * Each call is refused with the status and its sentence, and succeeds once what was in its way is
 * gone.
 *
 * Lines of the library changed to see it fail:
 *   tnri_unpark_begin without is_returning: one_unparks_at_a_time (threads without end)
 *   cut_now without arenas_missed: streams_come_faster_than_a_picture (the sums are wrong)
 *   tnri_pool_set_drain that does not look at the result: a_capture_that_is_not_followed
 */
#include "unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cuda.h>
#include <tenure/tenure.h>

#include "miss/park.h"
#include "log/history.h"

/* ---- another thread, in the middle of a call ------------------------------------------------- */

static void *parked; /* unparked by another thread while this one unparks it; null: nothing */

static void *unpark(void *stream)
{
    assert_error(tnr_unpark(parked, stream), TNR_ERR_BUSY, "another call is unparking");
    return NULL;
}

tnr_status __real_tnri_unpark_fill(tnri_parked *self);
tnr_status __wrap_tnri_unpark_fill(tnri_parked *self);
tnr_status __wrap_tnri_unpark_fill(tnri_parked *self)
{
    pthread_t thread;
    if (parked != NULL) {
        assert_int_equal(pthread_create(&thread, NULL, unpark, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    return __real_tnri_unpark_fill(self);
}

static void one_unparks_at_a_time(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *ptr = unit_malloc(8 * MIB, NULL);
    assert_ok(tnr_park(NULL, ptr, NULL, TNR_CONTENT_KEEP));
    parked = ptr;
    assert_ok(tnr_unpark(ptr, NULL));
    parked = NULL;
    assert_ok(tnr_free(ptr));
}

static int makes_arenas; /* between the list of a picture's arenas and its moment */

uint64_t __real_tnri_gate_cut_begin(void);
uint64_t __wrap_tnri_gate_cut_begin(void);
uint64_t __wrap_tnri_gate_cut_begin(void)
{
    if (makes_arenas)
        assert_ok(tnr_free(unit_malloc(MIB, unit_stream(0))));
    return __real_tnri_gate_cut_begin();
}

static void streams_come_faster_than_a_picture(void **state)
{
    (void)state;
    char path[] = "/tmp/tenure-rare-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    unit_start(NULL, NULL);
    assert_ok(tnr_free(unit_malloc(MIB, NULL)));
    makes_arenas = 1;
    assert_error(tnr_snapshot_write(path, TNR_SNAPSHOT_JSON), TNR_ERR_BUSY, "faster than");
    makes_arenas = 0;
    assert_ok(tnr_snapshot_write(path, TNR_SNAPSHOT_JSON));
    (void)unlink(path);
    (void)close(file);
}

/* ---- captures ------------------------------------------------------------------------------- */

static CUcontext context_enter(void)
{
    CUcontext context;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    return context;
}

static void context_leave(void)
{
    CUcontext popped;
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

/* A stream with freed memory of a tag's pool, destroyed untold; its handle is the next one's. */
static CUstream successor_make(tnr_pool pool)
{
    CUstream gone, next, told;
    void *ptr;
    assert_int_equal(cuStreamCreate(&told, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_ok(tnr_stream_created(0, told));
    assert_int_equal(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_ok(tnr_pool_malloc(&ptr, pool, 32 * MIB, 0, gone));
    assert_ok(tnr_free(ptr));
    assert_int_equal(cuStreamDestroy(gone), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&next, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_ptr_equal(next, gone);
    assert_ok(tnr_stream_destroying(0, told)); /* threads ask about handles once more */
    assert_int_equal(cuStreamDestroy(told), CUDA_SUCCESS);
    return next;
}

/* Only the whole device can say that such a stream's work is over, and a capture forbids asking. */
static void nothing_is_proved_idle_while_capturing(void **state)
{
    (void)state;
    tnr_pool pool;
    tnr_cuda_graph graph;
    void *ptr;
    size_t released;
    unit_start(NULL, NULL);
    (void)context_enter();
    tnr_stream captured = unit_stream(0);
    assert_ok(tnr_tag_pool(&pool, "rare", TNR_CONTENT_DEFAULT));
    for (int i = 0; i < 3; i++) {
        CUstream next = successor_make(pool);
        assert_ok(tnr_capture_begin(0, captured, NULL));
        assert_ok(tnr_pool_malloc(&ptr, pool, MIB, 0, next)); /* here it is noticed */
        if (i == 0)
            assert_error(tnr_trim(&released, 0, 0), TNR_ERR_CAPTURE, NULL);
        else if (i == 1)
            assert_error(tnr_pool_trim(&released, pool, 0, 0), TNR_ERR_CAPTURE, NULL);
        else
            assert_error(tnr_tag_trim(&released, "rare", 0, 0), TNR_ERR_CAPTURE, NULL);
        assert_ok(tnr_capture_end(&graph, NULL, 0, captured));
        assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
        assert_ok(tnr_free(ptr));
        assert_ok(tnr_trim(&released, 0, 0));
        assert_true(released >= 32 * MIB);
        assert_ok(tnr_stream_destroying(0, next));
        assert_int_equal(cuStreamDestroy(next), CUDA_SUCCESS);
    }
    context_leave();
}

/* The wait for the device makes somebody else's capture invalid. */
static void a_capture_that_is_not_followed(void **state)
{
    (void)state;
    CUgraph graph = NULL;
    unit_start(NULL, NULL);
    (void)context_enter();
    tnr_stream captured = unit_stream(0);
    void *ptr = unit_malloc(4 * MIB, NULL);
    assert_int_equal(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    assert_error(tnr_device_sleep(0, NULL), TNR_ERR_CAPTURE, "cuCtxSynchronize");
    assert_int_equal(cuStreamEndCapture(captured, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_ok(tnr_device_sleep(0, NULL));
    assert_int_equal(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    assert_ok(tnr_device_wake(0)); /* which waits for its own copies alone */
    assert_int_equal(cuStreamEndCapture(captured, &graph), CUDA_SUCCESS);
    assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
    assert_ok(tnr_free(ptr));
    context_leave();
}

/* An event that a capture has recorded since, untold, is a place in a graph. */
static void an_event_of_a_capture(void **state)
{
    (void)state;
    CUevent event;
    tnr_cuda_graph graph;
    unit_start(NULL, NULL);
    (void)context_enter();
    tnr_stream stream = unit_stream(0);
    void *ptr = unit_malloc(4 * MIB, NULL);
    assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    tnr_moment before = tnr_moment_now();
    assert_int_equal(cuEventRecord(event, stream), CUDA_SUCCESS);
    assert_ok(tnr_event_recorded(event, 0, stream, before));
    assert_ok(tnr_keep_until(ptr, event));
    assert_ok(tnr_capture_begin(0, stream, NULL));
    assert_int_equal(cuEventRecord(event, stream), CUDA_SUCCESS);
    assert_error(tnr_keep_until(ptr, event), TNR_ERR_CAPTURE, "being captured");
    assert_ok(tnr_capture_end(&graph, NULL, 0, stream));
    assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
    before = tnr_moment_now();
    assert_int_equal(cuEventRecord(event, stream), CUDA_SUCCESS);
    assert_ok(tnr_event_recorded(event, 0, stream, before));
    assert_ok(tnr_keep_until(ptr, event));
    assert_int_equal(cuEventDestroy(event), CUDA_SUCCESS);
    assert_ok(tnr_free(ptr));
    context_leave();
}

/* ---- handles that the driver does not know any more ------------------------------------------ */

static void forget(void)
{
    simcuda_fail("cuEventRecord", 1, 1, CUDA_ERROR_INVALID_HANDLE);
}

/* As of a stream that was destroyed untold. */
static void a_use_that_cannot_be_marked(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *ptr = unit_malloc(4 * MIB, NULL);
    assert_ok(tnr_record_stream(ptr, unit_stream(0)));
    forget();
    assert_error(tnr_free_sync(ptr), TNR_ERR_INVALID_STREAM, "It may have been destroyed");
    assert_error(tnr_free(ptr), TNR_ERR_INVALID_STREAM, "It may have been destroyed");
    simcuda_fail_clear();
    assert_ok(tnr_free_sync(ptr));
}

/* The same of Tenure's own stream, as of a context that was reset: what waits for all streams
 * cannot be seen to be over. */
static void an_end_that_cannot_be_marked(void **state)
{
    (void)state;
    void *ptr;
    tnr_pool pool;
    unit_start(NULL, NULL);
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc(&ptr, pool, 4 * MIB, 0, unit_stream(0)));
    assert_ok(tnr_free_sync(ptr));
    forget();
    assert_error(tnr_pool_destroy(pool), TNR_ERR_INVALID_STREAM, NULL);
    assert_error(tnr_device_end(0, 0), TNR_ERR_INVALID_STREAM, NULL);
    simcuda_fail_clear();
    assert_ok(tnr_validate(-1));
    assert_ok(tnr_pool_destroy(pool));
    assert_ok(tnr_device_end(0, 0));
}

/* ---- what the system refuses ----------------------------------------------------------------- */

static int has_no_threads;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *argument), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *argument), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *argument), void *argument)
{
    return has_no_threads ? EAGAIN : __real_pthread_create(thread, attributes, run, argument);
}

static void no_thread_to_answer(void **state)
{
    (void)state;
    char folder[] = "/tmp/tenure-rare-XXXXXX", conf[96];
    assert_non_null(mkdtemp(folder));
    snprintf(conf, sizeof(conf), "handle_type:posix_fd,control_dir:%s", folder);
    unit_start(conf, NULL, NULL);
    void *ptr = unit_malloc(4 * MIB, NULL);
    has_no_threads = 1;
    assert_error(tnr_publish(NULL, "w", ptr, NULL), TNR_ERR_TRANSPORT, "refuses a");
    has_no_threads = 0;
    assert_ok(tnr_publish(NULL, "w", ptr, NULL));
    assert_ok(tnr_unpublish("w"));
    assert_ok(tnr_free(ptr));
    snprintf(conf, sizeof(conf), "%s/w.published", folder);
    assert_int_equal(unlink(conf), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* ---- frames ---------------------------------------------------------------------------------- */

static size_t frames_take(uintptr_t *frames, size_t room)
{
    (void)frames;
    (void)room;
    return 0;
}

static void frames_describe(tnr_frame_info *info, uintptr_t frame)
{
    (void)info;
    (void)frame;
}

static void frames_of_another(tnr_frame_info *info, uintptr_t frame)
{
    frames_describe(info, frame);
}

/* The process has them for ever, so this is the last test. */
static void one_interpreter(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    assert_ok(tnr_frames_source_set(frames_take, frames_describe));
    assert_error(tnr_frames_source_set(frames_take, frames_of_another), TNR_ERR_BUSY, "another");
    assert_ok(tnr_frames_source_set(NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(one_unparks_at_a_time, unit_stop),
        cmocka_unit_test_teardown(streams_come_faster_than_a_picture, unit_stop),
        cmocka_unit_test_teardown(nothing_is_proved_idle_while_capturing, unit_stop),
        cmocka_unit_test_teardown(a_capture_that_is_not_followed, unit_stop),
        cmocka_unit_test_teardown(an_event_of_a_capture, unit_stop),
        cmocka_unit_test_teardown(a_use_that_cannot_be_marked, unit_stop),
        cmocka_unit_test_teardown(an_end_that_cannot_be_marked, unit_stop),
        cmocka_unit_test_teardown(no_thread_to_answer, unit_stop),
        cmocka_unit_test_teardown(one_interpreter, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
