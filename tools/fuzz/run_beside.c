/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures of another thread. It begins one on a stream of its own and leaves it open while the
 * program goes on, and ends it when it is told to. In both turns it allocates in the capture, and
 * frees: nothing of it lives in between. One thread works at a time, so equal seeds still give
 * equal programs.
 */
#include "run.h"

#include <pthread.h>

enum { WORK_BYTES = 3 << 20 };

static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t told;
    int is_asked, is_done; /* to go on, and that it has */
    fuzz_run *run;
    int device;
    tnr_capture_mode mode;
    CUstream stream;
    const char *failed; /* the call that failed first, with: */
    tnr_status status;
    char error[256];
} beside = {.lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER};

static int succeeded(tnr_status status, const char *call)
{
    if (status == TNR_OK || beside.failed != NULL)
        return status == TNR_OK;
    beside.failed = call;
    beside.status = status;
    snprintf(beside.error, sizeof(beside.error), "%s", tnr_last_error());
    return 0;
}

static int driver_did(CUresult result, const char *call)
{
    return succeeded(result == CUDA_SUCCESS ? TNR_OK : TNR_ERR_DRIVER, call);
}

/* Memory may be short. */
static void work(void)
{
    void *at = NULL;
    tnr_status status = tnr_malloc(&at, WORK_BYTES, beside.device, beside.stream);
    if (status == TNR_ERR_OUT_OF_MEMORY || status == TNR_ERR_LIMIT || status == TNR_ERR_ASLEEP)
        return;
    if (!succeeded(status, "tnr_malloc"))
        return;
    (void)driver_did(beside.run->device->set((CUdeviceptr)at, 1, WORK_BYTES, beside.stream),
                     "cuMemsetD8Async");
    (void)succeeded(tnr_free(at), "tnr_free");
}

static void begin(void)
{
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.mode = beside.mode;
    fuzz_device_use(beside.run->device, beside.device);
    if (driver_did(beside.run->device->stream_create(&beside.stream, CU_STREAM_NON_BLOCKING),
                   "cuStreamCreate") &&
        succeeded(tnr_capture_begin(beside.device, beside.stream, &options), "tnr_capture_begin"))
        work();
}

static void end(void)
{
    tnr_cuda_graph made = NULL;
    tnr_graph number;
    work();
    if (succeeded(tnr_capture_end(&made, &number, beside.device, beside.stream), "tnr_capture_end"))
        (void)driver_did(beside.run->device->graph_destroy(made), "cuGraphDestroy");
    (void)succeeded(tnr_stream_destroying(beside.device, beside.stream), "tnr_stream_destroying");
    (void)driver_did(beside.run->device->stream_destroy(beside.stream), "cuStreamDestroy");
}

static void beside_done(void)
{
    beside.is_asked = 0;
    beside.is_done = 1;
    (void)pthread_cond_broadcast(&beside.told);
}

static void *beside_be(void *data)
{
    (void)data;
    (void)pthread_mutex_lock(&beside.lock);
    begin();
    beside_done();
    while (!beside.is_asked)
        (void)pthread_cond_wait(&beside.told, &beside.lock);
    end();
    beside_done();
    (void)pthread_mutex_unlock(&beside.lock);
    return NULL;
}

static void beside_wait(void)
{
    while (!beside.is_done)
        (void)pthread_cond_wait(&beside.told, &beside.lock);
    beside.is_done = 0;
    if (beside.failed != NULL)
        run_fail(beside.run, FUZZ_VERDICT_SAFETY, "status",
                 "%s of another thread, which captures, gave %s: %s", beside.failed,
                 tnr_status_name(beside.status), beside.error);
}

/* A thread that may not end the capture: Tenure must say so. */
static void end_wrongly(fuzz_run *run)
{
    tnr_cuda_graph made = NULL;
    tnr_graph number;
    tnr_status status = tnr_capture_end(&made, &number, beside.device, beside.stream);
    run_hash(run, (uint64_t)status);
    if (status != TNR_OK)
        run_fail(run, FUZZ_VERDICT_CAUGHT, "status", "%s: %s", tnr_status_name(status),
                 tnr_last_error());
}

int run_beside(fuzz_run *run, const fuzz_op *op)
{
    if (op->kind == FUZZ_BESIDE_END && op->is_illegal) {
        end_wrongly(run);
        return 0;
    }
    (void)pthread_mutex_lock(&beside.lock);
    if (op->kind == FUZZ_BESIDE_END) {
        run->model.beside = 0;
        beside.is_asked = 1;
        (void)pthread_cond_broadcast(&beside.told);
        beside_wait();
        (void)pthread_mutex_unlock(&beside.lock);
        (void)pthread_join(beside.thread, NULL);
        return 1;
    }
    beside.run = run;
    beside.device = op->device;
    beside.mode = (tnr_capture_mode)op->n;
    beside.failed = NULL;
    int is_there = pthread_create(&beside.thread, NULL, beside_be, NULL) == 0;
    if (is_there) {
        run->model.beside = op->device + 1;
        run->model.besides++;
        beside_wait();
    }
    (void)pthread_mutex_unlock(&beside.lock);
    return is_there;
}
