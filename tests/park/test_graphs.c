/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parked blocks and graphs that refer to them: what is refused, and what an audit says.
 *
 * Lines changed in the library to see a test fail:
 *   parked_refuse as TNR_OK: graphs
 *   spot_look without PARKED: audited
 */
#include "park_steps.h"

#include <tenure/capture.h>

/* A graph that refers to a parked block is not launched, and replays once it is back. */
static void graphs(void **state)
{
    (void)state;
    start(NULL, "SCHEDULE=lazy");
    tnr_stream stream = unit_stream(0);
    void *a = unit_malloc(16 * MIB, stream);
    tnr_cuda_graph cuda;
    tnr_graph number;
    CUgraphExec exec;
    assert_ok(tnr_capture_begin(0, stream, NULL));
    assert_error(tnr_park(NULL, a, stream, TNR_CONTENT_DISCARD), TNR_ERR_CAPTURE, "captured");
    assert_int_equal(cuMemsetD32Async((CUdeviceptr)a, 7, 4 * MIB, stream), CUDA_SUCCESS);
    assert_ok(tnr_capture_end(&cuda, &number, 0, stream));
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, cuda, 0), CUDA_SUCCESS);
    assert_ok(tnr_graph_launch(number, exec, stream));
    park(a, 16 * MIB, stream);
    assert_error(tnr_graph_launch(number, exec, stream), TNR_ERR_PARKED, "refers to it");
    assert_error(tnr_free(a), TNR_ERR_PARKED, "graph refers");
    assert_error(tnr_free_sync(a), TNR_ERR_PARKED, "graph refers");
    void *b = unit_malloc(16 * MIB, stream);
    sleep_fill(b, 16 * MIB, 1, stream);
    assert_error(tnr_graph_launch(number, exec, stream), TNR_ERR_PARKED, NULL);
    assert_ok(tnr_free(b));
    assert_ok(tnr_unpark(a, stream));
    assert_ok(tnr_graph_launch(number, exec, stream));
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    assert_int_equal(((uint32_t *)a)[MIB], 7);
    assert_int_equal(cuGraphExecDestroy(exec), CUDA_SUCCESS);
    assert_int_equal(cuGraphDestroy(cuda), CUDA_SUCCESS);
    (void)simcuda_run(UINT64_MAX);
    park(a, 16 * MIB, stream); /* now nothing refers to it */
    assert_ok(tnr_free(a));
    end();
}

static void finding_check(const tnr_audit_finding *finding, void *user)
{
    assert_int_equal(finding->verdict, TNR_AUDIT_KEPT);
    assert_int_equal(finding->block, (uintptr_t)user);
}

static void audit_check(tnr_cuda_graph cuda, tnr_graph number, void *block)
{
    tnr_audit audit = {.struct_bytes = sizeof(audit)};
    assert_ok(tnr_graph_audit(&audit, cuda, number, finding_check, block));
    assert_int_equal(audit.found, 1);
    assert_int_equal(audit.proved, 1);
}

/* The addresses of a parked block stay the graph's, as those of a pool that sleeps: an audit says
 * the same whether others have its memory or nobody has taken it. */
static void audited(void **state)
{
    (void)state;
    start("chunk_max_mb:2", "SCHEDULE=lazy");
    tnr_stream stream = unit_stream(0);
    void *a = unit_malloc(8 * MIB, stream);
    tnr_cuda_graph cuda;
    tnr_graph number;
    assert_ok(tnr_capture_begin(0, stream, NULL));
    assert_int_equal(cuMemsetD32Async((CUdeviceptr)a, 7, 2 * MIB, stream), CUDA_SUCCESS);
    assert_ok(tnr_capture_end(&cuda, &number, 0, stream));
    audit_check(cuda, number, a);
    park(a, 8 * MIB, stream);
    audit_check(cuda, number, a);
    void *b = unit_malloc(8 * MIB, stream);
    assert_int_equal(unit_stats().bytes_parked_away, 8 * MIB);
    audit_check(cuda, number, a);
    assert_ok(tnr_unpark(a, stream));
    audit_check(cuda, number, a);
    assert_ok(tnr_free(b));
    assert_int_equal(cuGraphDestroy(cuda), CUDA_SUCCESS);
    (void)simcuda_run(UINT64_MAX);
    assert_ok(tnr_free(a));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(graphs, unit_stop),
        cmocka_unit_test_teardown(audited, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
