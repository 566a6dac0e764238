/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices and drivers that lack something. A call that needs the missing thing is refused with
 * words that say what is missing. Everything else works.
 *
 * Entry points are taken out of the table of a library that runs, as an older driver would have
 * left them out; attributes of a device are refused when it is asked for them.
 *
 * With one of the three errors not known as that of a stream that is gone: in memory/stream/facts.c
 * streams_that_are_gone failed, in gpu/capturing.c streams_that_are_gone_do_not_capture.
 */
#include "unit.h"

#include <string.h>

#include <tenure/capture.h>
#include <tenure/sleep.h>

#include "gpu/capturing.h"
#include "gpu/cuda/driver.h"

/* Which question for an attribute is which, in the order in which the library asks. */
enum { ASKS_POSIX_FD = 4, ASKS_FABRIC = 5, ASKS_RDMA = 6 };

/* Starts on a device that does not know an attribute. */
static void start_without(uint64_t question, const char *conf)
{
    unit_settings(conf, "MEMORY=64M", NULL);
    simcuda_fail("cuDeviceGetAttribute", question, 0, CUDA_ERROR_INVALID_VALUE);
    assert_ok(tnr_init());
}

static void handles_that_a_device_lacks(void **state)
{
    (void)state;
    tnr_pool pool;
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    start_without(ASKS_POSIX_FD, NULL);
    assert_ok(tnr_free(unit_malloc(3 * MIB, NULL))); /* the default works everywhere */
    options.handle_type = TNR_HANDLE_POSIX_FD;
    assert_error(tnr_pool_create(&pool, 0, &options), TNR_ERR_INVALID_ARGUMENT,
                 "cannot export memory as file descriptors");
    start_without(ASKS_FABRIC, NULL);
    options.handle_type = TNR_HANDLE_FABRIC;
    assert_error(tnr_pool_create(&pool, 0, &options), TNR_ERR_INVALID_ARGUMENT,
                 "no fabric handles");
    start_without(ASKS_RDMA, NULL);
    options = (tnr_pool_options)TNR_POOL_OPTIONS_INIT;
    options.gpu_direct_rdma = 1;
    assert_error(tnr_pool_create(&pool, 0, &options), TNR_ERR_INVALID_ARGUMENT, "GPUDirect RDMA");
    assert_ok(tnr_free(unit_malloc(3 * MIB, NULL)));
    start_without(ASKS_RDMA, "gpu_direct_rdma:on");
    void *ptr;
    assert_error(tnr_malloc(&ptr, 1, 0, NULL), TNR_ERR_INVALID_ARGUMENT, "gpu_direct_rdma off");
}

/* And those that it has. */
static void handles_that_a_device_has(void **state)
{
    (void)state;
    static const tnr_handle_type types[] = {TNR_HANDLE_NONE, TNR_HANDLE_POSIX_FD};
    unit_start(NULL, "MEMORY=64M", NULL);
    for (size_t i = 0; i < 2; i++) {
        tnr_pool pool;
        void *ptr;
        tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
        options.handle_type = types[i];
        assert_ok(tnr_pool_create(&pool, 0, &options));
        assert_ok(tnr_pool_malloc(&ptr, pool, 3 * MIB, 0, NULL));
        assert_ok(tnr_free(ptr));
        assert_ok(tnr_pool_destroy(pool));
    }
}

/* Takes an entry point out of the table while `call` is made. */
#define WITHOUT(entry, call)                                                                       \
    do {                                                                                           \
        __typeof__(tnri_driver.entry) kept_ = tnri_driver.entry;                                   \
        tnri_driver.entry = NULL;                                                                  \
        call;                                                                                      \
        tnri_driver.entry = kept_;                                                                 \
    } while (0)

static void sleeping_without_copies(void **state)
{
    (void)state;
    tnr_pool pool;
    void *ptr;
    unit_start(NULL, "MEMORY=64M", NULL);
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc(&ptr, pool, 3 * MIB, 0, NULL));
    tnr_sleep_options keep = TNR_SLEEP_OPTIONS_INIT, discard = TNR_SLEEP_OPTIONS_INIT;
    keep.content = TNR_CONTENT_KEEP;
    discard.content = TNR_CONTENT_DISCARD;
#define REFUSED                                                                                    \
    assert_error(tnr_pool_sleep(pool, 0, &keep), TNR_ERR_DRIVER_TOO_OLD,                           \
                 "copying to pinned host memory")
    WITHOUT(cuMemHostAlloc, REFUSED);
    WITHOUT(cuMemFreeHost, REFUSED);
    WITHOUT(cuMemcpyDtoHAsync, REFUSED);
    WITHOUT(cuMemcpyHtoDAsync, REFUSED);
    WITHOUT(cuStreamSynchronize, REFUSED);
    assert_int_equal(unit_stats().bytes_live, 3 * MIB); /* awake, as before */
    WITHOUT(cuMemHostAlloc, assert_ok(tnr_pool_sleep(pool, 0, &discard)));
    assert_ok(tnr_pool_wake(pool, 0));
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_pool_destroy(pool));
}

static void captures_without_what_they_need(void **state)
{
    (void)state;
    tnr_graph graph;
    tnr_pool pool;
    tnr_audit audit = {.struct_bytes = sizeof(audit)};
    unit_start(NULL, "MEMORY=64M", NULL);
    tnr_stream stream = unit_stream(0);
    CUgraph cuda = NULL;
    assert_int_equal(cuGraphCreate(&cuda, 0), CUDA_SUCCESS);
#define BEGIN_REFUSED                                                                              \
    assert_error(tnr_capture_begin(0, stream, NULL), TNR_ERR_DRIVER_TOO_OLD, "captures need")
    WITHOUT(cuStreamGetCaptureInfo, BEGIN_REFUSED);
    WITHOUT(cuGraphNodeGetDependencies, BEGIN_REFUSED);
    WITHOUT(cuThreadExchangeStreamCaptureMode, BEGIN_REFUSED);
    WITHOUT(cuGraphRetainUserObject, BEGIN_REFUSED);
    WITHOUT(cuGraphRetainUserObject,
            assert_error(tnr_graph_pool_create(&pool, 0, NULL), TNR_ERR_DRIVER_TOO_OLD, "CUDA"));
    WITHOUT(cuGraphRetainUserObject,
            assert_error(tnr_graph_adopt(&graph, cuda, 0, NULL), TNR_ERR_DRIVER_TOO_OLD, "CUDA"));
    WITHOUT(cuGraphRetainUserObject, assert_error(tnr_capture_attach(&graph, 0, stream, NULL),
                                                  TNR_ERR_DRIVER_TOO_OLD, "CUDA"));
    WITHOUT(cuGraphGetNodes, assert_error(tnr_graph_audit(&audit, cuda, 0, NULL, NULL),
                                          TNR_ERR_DRIVER_TOO_OLD, NULL));
    WITHOUT(cuGraphNodeGetType, assert_error(tnr_graph_audit(&audit, cuda, 0, NULL, NULL),
                                             TNR_ERR_DRIVER_TOO_OLD, NULL));
    assert_ok(tnr_graph_audit(&audit, cuda, 0, NULL, NULL));
    assert_int_equal(cuGraphDestroy(cuda), CUDA_SUCCESS);
}

/* What the driver says of itself, where it has no words. */
static void errors_without_names(void **state)
{
    (void)state;
    void *ptr;
    unit_start(NULL, "MEMORY=64M", NULL);
    static const CUresult errors[] = {CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_ILLEGAL_ADDRESS};
    for (size_t i = 0; i < 2; i++) {
        simcuda_fail("cuMemCreate", 1, 0, errors[i]);
        assert_error(tnr_malloc(&ptr, MIB, 0, NULL), TNR_ERR_DRIVER, NULL);
        assert_int_equal(tnr_last_driver_result(), errors[i]);
    }
    simcuda_fail("cuMemCreate", 1, 0, (CUresult)12345);
    assert_error(tnr_malloc(&ptr, MIB, 0, NULL), TNR_ERR_DRIVER, "an unknown driver error (12345)");
    assert_ok(tnr_malloc(&ptr, MIB, 0, NULL));
    assert_ok(tnr_free(ptr));
}

/* A stream that the driver does not know any more, in each of its words for it. */
static void streams_that_are_gone(void **state)
{
    (void)state;
    static const CUresult errors[] = {CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_CONTEXT_IS_DESTROYED,
                                      CUDA_ERROR_INVALID_CONTEXT};
    unit_start(NULL, "MEMORY=64M", NULL);
    (void)unit_malloc(MIB, NULL);
    for (size_t i = 0; i < 3; i++) {
        void *ptr = &ptr;
        tnr_stream stream = unit_stream(0);
        simcuda_fail("cuStreamGetId", 1, 0, errors[i]);
        assert_error(tnr_malloc(&ptr, MIB, 0, stream), TNR_ERR_INVALID_STREAM, "is not a stream");
        assert_null(ptr);
        assert_int_equal(tnr_last_driver_result(), errors[i]);
        assert_ok(tnr_malloc(&ptr, MIB, 0, stream));
        assert_ok(tnr_free(ptr));
    }
}

/* The same of one that is asked whether it captures, while another does: it does not. */
static void streams_that_are_gone_do_not_capture(void **state)
{
    (void)state;
    static const CUresult errors[] = {CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_CONTEXT_IS_DESTROYED,
                                      CUDA_ERROR_INVALID_CONTEXT};
    unit_start(NULL, "MEMORY=64M", NULL);
    tnr_cuda_graph cuda;
    tnr_graph graph;
    tnr_stream captured = unit_stream(0), stream = unit_stream(0);
    assert_ok(tnr_free(unit_malloc(MIB, stream)));
    assert_ok(tnr_capture_begin(0, captured, NULL));
    assert_true(tnri_stream_is_capturing(captured));
    for (size_t i = 0; i < 3; i++) {
        simcuda_fail("cuStreamIsCapturing", 1, 0, errors[i]);
        assert_false(tnri_stream_is_capturing(stream));
    }
    simcuda_fail("cuStreamIsCapturing", 1, 0, CUDA_ERROR_UNKNOWN);
    assert_true(tnri_stream_is_capturing(stream)); /* who could tell? */
    assert_ok(tnr_capture_end(&cuda, &graph, 0, captured));
    assert_int_equal(cuGraphDestroy(cuda), CUDA_SUCCESS);
    simcuda_run(UINT64_MAX); /* tells of the graph's end, before the device goes */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(handles_that_a_device_lacks, unit_stop),
        cmocka_unit_test_teardown(handles_that_a_device_has, unit_stop),
        cmocka_unit_test_teardown(sleeping_without_copies, unit_stop),
        cmocka_unit_test_teardown(captures_without_what_they_need, unit_stop),
        cmocka_unit_test_teardown(errors_without_names, unit_stop),
        cmocka_unit_test_teardown(streams_that_are_gone, unit_stop),
        cmocka_unit_test_teardown(streams_that_are_gone_do_not_capture, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
