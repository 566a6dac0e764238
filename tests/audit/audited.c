/* SPDX-License-Identifier: Apache-2.0 */
/* See audited.h. */
#include "audited.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

audited seen;

/* A structure with a pointer in it, as kernels take them. */
typedef struct span {
    uint64_t count;
    const void *second;
    uint64_t more;
} span;

static CUfunction taker;

static void taker_run(void *const *params)
{
    (void)params;
}

/* ---- start and end -------------------------------------------------------------------------- */

void audited_start(const char *conf, const char *setting)
{
    static const size_t bytes[] = {sizeof(void *), sizeof(span), sizeof(uint32_t)};
    CUcontext context = NULL;
    CUmodule module = NULL;
    unit_start(conf, setting, NULL);
    (void)unit_stream(0); /* retains the context */
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    assert_int_equal(simcuda_kernel_register("taker", 3, bytes, taker_run, NULL), 0);
    assert_int_equal(cuModuleLoadData(&module, "any image"), CUDA_SUCCESS);
    assert_int_equal(cuModuleGetFunction(&taker, module, "taker"), CUDA_SUCCESS);
}

int audited_stop(void **state)
{
    CUcontext popped;
    while (cuCtxPopCurrent(&popped) == CUDA_SUCCESS && popped != NULL)
        continue;
    (void)audit_text(NULL, 0, TNR_AUDIT_TEXT); /* gives its memory back */
    return unit_stop(state);
}

/* ---- work ----------------------------------------------------------------------------------- */

void take_pointers(tnr_stream stream, const void *first, const void *second)
{
    span with = {7, second, 11};
    uint32_t number = 9;
    void *params[] = {&first, &with, &number};
    assert_int_equal(cuLaunchKernel(taker, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL),
                     CUDA_SUCCESS);
}

void take_packed(tnr_stream stream, const void *first, const void *second)
{
    struct {
        const void *first;
        span with;
        uint32_t number, unused;
    } packed = {first, {7, second, 11}, 9, 0};
    size_t bytes = offsetof(__typeof__(packed), unused);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_BUFFER_POINTER, &packed,
                     CU_LAUNCH_PARAM_END};
    assert_int_equal(cuLaunchKernel(taker, 1, 1, 1, 32, 1, 1, 0, stream, NULL, extra),
                     CUDA_SUCCESS);
}

void take_set(tnr_stream stream, void *at, size_t bytes)
{
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)at, 5, bytes, stream), CUDA_SUCCESS);
}

void take_copy(tnr_stream stream, void *to, const void *from, size_t bytes)
{
    assert_int_equal(cuMemcpyDtoDAsync((CUdeviceptr)to, (CUdeviceptr)from, bytes, stream),
                     CUDA_SUCCESS);
}

void audited_begin(tnr_stream stream, tnr_pool pool, const char *name)
{
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.pool = pool;
    options.name = name;
    assert_ok(tnr_capture_begin(0, stream, &options));
}

tnr_graph audited_end(tnr_stream stream, tnr_cuda_graph *cuda_graph)
{
    tnr_graph graph = 0;
    assert_ok(tnr_capture_end(cuda_graph, &graph, 0, stream));
    assert_non_null(*cuda_graph);
    return graph;
}

void audited_destroy(tnr_cuda_graph cuda_graph)
{
    assert_int_equal(cuGraphDestroy(cuda_graph), CUDA_SUCCESS);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    (void)simcuda_run(UINT64_MAX); /* destructors of user objects */
    assert_ok(tnr_trim(NULL, 0, 0));
}

/* ---- audits --------------------------------------------------------------------------------- */

static void audit_note(const tnr_audit_finding *finding, void *user)
{
    audited *to = user;
    assert_true(to->count < AUDITED_MAX);
    to->findings[to->count++] = *finding;
}

void audit(tnr_cuda_graph cuda_graph, tnr_graph graph)
{
    memset(&seen, 0, sizeof(seen));
    seen.sums.struct_bytes = sizeof(seen.sums);
    assert_ok(tnr_graph_audit(&seen.sums, cuda_graph, graph, audit_note, &seen));
    assert_int_equal(seen.sums.found, seen.count);
    assert_int_equal(seen.sums.found, seen.sums.proved + seen.sums.unproved);
    assert_int_equal(seen.sums.nodes,
                     seen.sums.kernels + seen.sums.copies + seen.sums.sets + seen.sums.others);
    size_t safe = 0;
    for (size_t i = 0; i < seen.count; i++)
        safe += seen.findings[i].is_safe != 0;
    assert_int_equal(seen.sums.proved, safe);
    assert_int_equal(safe, count_of(TNR_AUDIT_OWN) + count_of(TNR_AUDIT_KEPT));
}

const tnr_audit_finding *finding_at(const void *address)
{
    const tnr_audit_finding *found = NULL;
    for (size_t i = 0; i < seen.count; i++) {
        if (seen.findings[i].address == (uintptr_t)address) {
            assert_null(found);
            found = &seen.findings[i];
        }
    }
    assert_non_null(found);
    return found;
}

size_t count_of(tnr_audit_verdict verdict)
{
    size_t count = 0;
    for (size_t i = 0; i < seen.count; i++)
        count += seen.findings[i].verdict == verdict;
    return count;
}

const char *audit_text(tnr_cuda_graph cuda_graph, tnr_graph graph, tnr_audit_format format)
{
    static char *text;
    free(text);
    text = NULL;
    if (cuda_graph == NULL)
        return NULL;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_ok(tnr_graph_audit_write(cuda_graph, graph, format, fileno(file)));
    long bytes = (long)lseek(fileno(file), 0, SEEK_CUR);
    assert_true(bytes > 0);
    text = calloc(1, (size_t)bytes + 1);
    assert_non_null(text);
    assert_int_equal(pread(fileno(file), text, (size_t)bytes, 0), bytes);
    fclose(file);
    return text;
}
