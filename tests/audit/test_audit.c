/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit: what it says of every address that a graph can refer to, and what it leaves alone.
 *
 * Each test was seen to fail with a change in capture/graph/audit.c:
 *   own_and_kept      judge_address: kept blocks not asked for, or the graph's ranges
 *   freed_and_kept    the same; report_make: graphs not settled before
 *   loose, freed_and_unmapped    spot_look: is_mapped always 1; judge_address: any block is safe
 *   missing           judge_address: is_safe without regard to is_mapped
 *   shared            judge_address: the case left out
 *   extents           judge_finding: only the first address judged
 *   unread            nodes.c: a kernel that is not told not counted
 *   visitor_is_free   tnr_graph_audit: the visitor called inside the room
 *   faults            report_make: nothing freed on an error (a leak, seen by the validator's count
 *                     of metadata); tnr_graph_audit: the sums stored before the status is known
 */
#include "audited.h"

#include <pthread.h>
#include <string.h>

#include "base/host_memory.h"
#include "memory/device/device.h"

static tnr_stream stream;

static void start(const char *setting)
{
    audited_start(NULL, setting);
    stream = unit_stream(0);
}

/* ---- verdicts ------------------------------------------------------------------------------- */

/* What the capture handed out, freed or not, and what was there before: in every kind of node. */
static void test_own_and_kept(void **state)
{
    (void)state;
    start(NULL);
    char *weights = unit_malloc(MIB, stream), *input = unit_malloc(4 * MIB, stream);
    tnr_cuda_graph cuda_graph;
    audited_begin(stream, NULL, "step");
    char *scratch = unit_malloc(2 * MIB, stream);
    take_pointers(stream, scratch, weights + 512);
    assert_ok(tnr_free(scratch));
    char *output = unit_malloc(3 * MIB, stream);
    take_packed(stream, output + 8, weights + 1024);
    take_copy(stream, output + 4096, input, 100);
    take_set(stream, output + 8192, 100);
    tnr_graph graph = audited_end(stream, &cuda_graph);

    audit(cuda_graph, graph);
    assert_int_equal(seen.sums.nodes, 4);
    assert_int_equal(seen.sums.kernels, 2);
    assert_int_equal(seen.sums.copies, 1);
    assert_int_equal(seen.sums.sets, 1);
    assert_int_equal(seen.sums.others, 0);
    assert_int_equal(seen.sums.unread, 0);
    assert_int_equal(seen.sums.found, 7);
    assert_int_equal(seen.sums.unproved, 0);
    assert_int_equal(count_of(TNR_AUDIT_OWN), 4);
    assert_int_equal(count_of(TNR_AUDIT_KEPT), 3);

    const tnr_audit_finding *at = finding_at(weights + 512);
    assert_int_equal(at->verdict, TNR_AUDIT_KEPT);
    assert_int_equal(at->place, TNR_AUDIT_KERNEL);
    assert_int_equal(at->offset, 16);
    assert_string_equal(at->kernel, "taker");
    assert_int_equal(at->block, (uintptr_t)weights);
    assert_int_equal(at->bytes, MIB);
    assert_int_equal(at->owner, graph);
    assert_null(at->pool);
    at = finding_at(output + 8);
    assert_int_equal(at->verdict, TNR_AUDIT_OWN);
    assert_int_equal(at->offset, 0);
    assert_int_equal(at->block, (uintptr_t)output);
    assert_int_equal(at->owner, graph);
    assert_non_null(at->pool);
    at = finding_at(input);
    assert_int_equal(at->place, TNR_AUDIT_COPY);
    assert_int_equal(at->offset, 1);
    at = finding_at(output + 8192);
    assert_int_equal(at->place, TNR_AUDIT_SET);
    assert_null(at->kernel);

    assert_ok(tnr_free(output));
    audit(cuda_graph, graph); /* the graph needs it none the less */
    assert_int_equal(seen.sums.unproved, 0);
    assert_int_equal(finding_at(output + 8)->block, 0);
    audited_destroy(cuda_graph);
    assert_ok(tnr_free(weights));
    assert_ok(tnr_free(input));
    (void)unit_stats();
}

/* A block that its owner frees is nobody else's while the graph is there, and is afterwards. */
static void test_freed_and_kept(void **state)
{
    (void)state;
    start(NULL);
    char *weights = unit_malloc(4 * MIB, stream);
    tnr_cuda_graph cuda_graph;
    audited_begin(stream, NULL, NULL);
    take_pointers(stream, weights, weights + MIB);
    tnr_graph graph = audited_end(stream, &cuda_graph);
    assert_ok(tnr_free(weights));
    char *other = unit_malloc(4 * MIB, stream);
    assert_ptr_not_equal(other, weights);
    audit(cuda_graph, graph);
    assert_int_equal(seen.sums.found, 2);
    assert_int_equal(seen.sums.proved, 2);
    assert_int_equal(finding_at(weights)->verdict, TNR_AUDIT_KEPT);
    assert_int_equal(finding_at(weights)->block, (uintptr_t)weights);
    assert_int_equal(finding_at(weights)->bytes, 4 * MIB);
    audit(cuda_graph, 0); /* without regard to who keeps it */
    assert_int_equal(finding_at(weights)->verdict, TNR_AUDIT_FREED);
    assert_int_equal(finding_at(weights)->block, 0);
    /* The audit is the first to ask after the graph's end, and sees it. */
    tnr_audit sums = {.struct_bytes = sizeof(sums)};
    CUgraph another = NULL;
    assert_int_equal(cuGraphCreate(&another, 0), CUDA_SUCCESS);
    assert_int_equal(cuGraphDestroy(cuda_graph), CUDA_SUCCESS);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    (void)simcuda_run(UINT64_MAX);
    assert_error(tnr_graph_audit(&sums, another, graph, NULL, NULL), TNR_ERR_INVALID_GRAPH,
                 "ended");
    assert_int_equal(cuGraphDestroy(another), CUDA_SUCCESS);
    assert_ok(tnr_free(other));
}

/* A graph that was built node by node: nothing is kept for it until it is adopted. */
static void test_loose(void **state)
{
    (void)state;
    start(NULL);
    char *first = unit_malloc(MIB, stream), *second = unit_malloc(MIB, stream);
    CUgraph graph = NULL, child = NULL;
    CUgraphNode node;
    CUcontext context;
    CUDA_MEMSET_NODE_PARAMS set = {(CUdeviceptr)first, 0, 1, 1, 64, 1};
    assert_int_equal(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    assert_int_equal(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    assert_int_equal(cuGraphCreate(&child, 0), CUDA_SUCCESS);
    assert_int_equal(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, context), CUDA_SUCCESS);
    set.dst = (CUdeviceptr)second;
    assert_int_equal(cuGraphAddMemsetNode(&node, child, NULL, 0, &set, context), CUDA_SUCCESS);
    assert_int_equal(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child), CUDA_SUCCESS);

    audit(graph, 0);
    assert_int_equal(seen.sums.nodes, 3);
    assert_int_equal(seen.sums.children, 1);
    assert_int_equal(seen.sums.unproved, 2);
    assert_int_equal(finding_at(first)->verdict, TNR_AUDIT_LOOSE);
    assert_int_equal(finding_at(first)->block, (uintptr_t)first);
    assert_int_equal(finding_at(first)->owner, 0);
    assert_int_equal(finding_at(second)->depth, 1);
    assert_non_null(strstr(audit_text(graph, 0, TNR_AUDIT_TEXT), "does not hold for 2 addresses."));

    tnr_graph adopted;
    assert_ok(tnr_graph_adopt(&adopted, graph, 0, "built"));
    audit(graph, adopted);
    assert_int_equal(count_of(TNR_AUDIT_KEPT), 2);
    audit(graph, 0);
    assert_int_equal(count_of(TNR_AUDIT_LOOSE), 2);
    assert_ok(tnr_free(first));
    assert_ok(tnr_free(second));
    assert_int_equal(cuGraphDestroy(child), CUDA_SUCCESS);
    audited_destroy(graph);
}

/* An address whose block has gone, and one behind which there is no memory any more. */
static void test_freed_and_unmapped(void **state)
{
    (void)state;
    start(NULL);
    char *block = unit_malloc(64 * MIB, stream), *keeper = unit_malloc(MIB, stream);
    tnr_cuda_graph cuda_graph;
    assert_int_equal(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    take_set(stream, block + MIB, 1);
    take_pointers(stream, block, keeper);
    assert_int_equal(cuStreamEndCapture(stream, &cuda_graph), CUDA_SUCCESS);
    audit(cuda_graph, 0);
    assert_int_equal(count_of(TNR_AUDIT_LOOSE), 3);
    assert_ok(tnr_free(block));
    audit(cuda_graph, 0);
    assert_int_equal(count_of(TNR_AUDIT_FREED), 2);
    assert_int_equal(count_of(TNR_AUDIT_LOOSE), 1);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_ok(tnr_trim(NULL, 0, 0));
    audit(cuda_graph, 0);
    assert_int_equal(finding_at(block)->verdict, TNR_AUDIT_UNMAPPED);
    assert_int_equal(finding_at(block + MIB)->verdict, TNR_AUDIT_UNMAPPED);
    assert_int_equal(finding_at(keeper)->verdict, TNR_AUDIT_LOOSE);
    /* Adopted too late. */
    tnr_graph adopted;
    assert_ok(tnr_graph_adopt(&adopted, cuda_graph, 0, NULL));
    audit(cuda_graph, adopted);
    assert_int_equal(seen.sums.unproved, 2);
    assert_int_equal(finding_at(keeper)->verdict, TNR_AUDIT_KEPT);
    audited_destroy(cuda_graph);
    assert_ok(tnr_free(keeper));
}

/* Should memory ever be missing where a graph needs it, the audit says so and proves nothing: the
 * page table is made to say it. */
static void test_missing(void **state)
{
    (void)state;
    start(NULL);
    char *weights = unit_malloc(4 * MIB, stream);
    tnr_cuda_graph cuda_graph;
    audited_begin(stream, NULL, NULL);
    char *block = unit_malloc(4 * MIB, stream);
    take_pointers(stream, block, weights);
    tnr_graph graph = audited_end(stream, &cuda_graph);
    tnri_space *space = &tnri_device_at(0)->space;
    const char *const addresses[] = {block, weights};
    for (int i = 0; i < 2; i++) {
        struct tnri_chunk **page = &space->pages[tnri_page_of(space, (uintptr_t)addresses[i])];
        struct tnri_chunk *chunk = *page;
        *page = NULL;
        audit(cuda_graph, graph);
        *page = chunk;
        assert_int_equal(seen.sums.proved, 1);
        assert_int_equal(finding_at(addresses[i])->verdict, TNR_AUDIT_UNMAPPED);
    }
    assert_ok(tnr_free(block));
    assert_ok(tnr_free(weights));
    audited_destroy(cuda_graph);
}

/* Parameters hold numbers whose halves make an address of the device's range. Beyond all that was
 * ever dealt out they are numbers; up to there they are taken for addresses. */
static void test_far(void **state)
{
    (void)state;
    start(NULL);
    char *block = unit_malloc(MIB, stream);
    const tnri_space *space = &tnri_device_at(0)->space;
    char *far = (char *)space->base + space->used_bytes;
    char *near = far - 4096;
    tnr_cuda_graph cuda_graph;
    audited_begin(stream, NULL, NULL);
    take_pointers(stream, far, near);
    take_pointers(stream, far + 8, &far); /* and a host address, which is none of ours */
    tnr_graph graph = audited_end(stream, &cuda_graph);
    audit(cuda_graph, graph);
    assert_int_equal(seen.sums.found, 1);
    assert_int_equal(finding_at(near)->verdict, TNR_AUDIT_UNMAPPED);
    audited_destroy(cuda_graph);
    assert_ok(tnr_free(block));
}

/* Two graphs of one pool: what the first had freed is shared; its output is kept for the second. */
static void test_shared(void **state)
{
    (void)state;
    start(NULL);
    tnr_pool pool = NULL;
    tnr_cuda_graph first, second;
    assert_ok(tnr_graph_pool_create(&pool, 0, NULL));
    audited_begin(stream, pool, "first");
    char *scratch = unit_malloc(4 * MIB, stream);
    take_set(stream, scratch, MIB);
    char *output = unit_malloc(4 * MIB, stream);
    take_copy(stream, output, scratch, 100);
    assert_ok(tnr_free(scratch));
    tnr_graph first_number = audited_end(stream, &first);

    audited_begin(stream, pool, "second");
    take_pointers(stream, scratch + 512, output);
    tnr_graph second_number = audited_end(stream, &second);
    audit(second, second_number);
    assert_int_equal(seen.sums.found, 2);
    assert_int_equal(finding_at(output)->verdict, TNR_AUDIT_KEPT);
    assert_int_equal(finding_at(output)->owner, second_number);
    assert_ptr_equal(finding_at(output)->pool, pool);
    assert_int_equal(finding_at(scratch + 512)->verdict, TNR_AUDIT_SHARED);
    assert_int_equal(finding_at(scratch + 512)->owner, first_number);
    assert_int_equal(finding_at(scratch + 512)->is_safe, 0);
    audit(first, first_number);
    assert_int_equal(seen.sums.unproved, 0);
    assert_ok(tnr_free(output));
    audited_destroy(second);
    audited_destroy(first);
    assert_ok(tnr_pool_destroy(pool));
}

/* A set that begins in a block that is kept and ends in one that is not. */
static void test_extents(void **state)
{
    (void)state;
    start(NULL);
    enum { BYTES = 256 * 1024 };
    char *low = unit_malloc(BYTES, stream), *high = unit_malloc(BYTES, stream);
    if (low > high) {
        char *swap = low;
        low = high;
        high = swap;
    }
    assert_ptr_equal(low + BYTES, high);
    tnr_cuda_graph cuda_graph;
    audited_begin(stream, NULL, NULL);
    take_set(stream, low + 512, BYTES - 512);
    tnr_graph graph = audited_end(stream, &cuda_graph);
    audit(cuda_graph, graph);
    assert_int_equal(seen.sums.unproved, 0);
    audited_destroy(cuda_graph);

    audited_begin(stream, NULL, NULL);
    take_set(stream, low + 512, BYTES - 511);
    graph = audited_end(stream, &cuda_graph);
    audit(cuda_graph, graph);
    assert_int_equal(seen.sums.found, 1);
    assert_int_equal(seen.sums.unproved, 1);
    assert_int_equal(finding_at(high)->verdict, TNR_AUDIT_LOOSE);
    assert_int_equal(finding_at(high)->block, (uintptr_t)high);
    audited_destroy(cuda_graph);
    assert_ok(tnr_free(low));
    assert_ok(tnr_free(high));
}

/* ---- what the driver does not tell ---------------------------------------------------------- */

static void test_unread(void **state)
{
    (void)state;
    start("MISSING=cuFuncGetParamInfo");
    char *block = unit_malloc(MIB, stream);
    tnr_cuda_graph cuda_graph;
    audited_begin(stream, NULL, "half");
    take_pointers(stream, block, block);
    take_packed(stream, block, NULL);
    tnr_graph graph = audited_end(stream, &cuda_graph);
    audit(cuda_graph, graph);
    assert_int_equal(seen.sums.kernels, 2);
    assert_int_equal(seen.sums.unread, 1);
    assert_int_equal(seen.sums.found, 1);
    assert_int_equal(seen.sums.proved, 1);
    const char *text = audit_text(cuda_graph, graph, TNR_AUDIT_TEXT);
    assert_non_null(strstr(text, "NOT proved"));
    assert_non_null(strstr(text, "the driver does not tell what 1 node refers to."));
    assert_non_null(strstr(text, "not read: node 0, kernel taker\n"));
    text = audit_text(cuda_graph, graph, TNR_AUDIT_JSON);
    assert_non_null(strstr(text, "\"is_proved\": false"));
    audited_destroy(cuda_graph);
    assert_ok(tnr_free(block));
}

/* ---- the pool asleep ------------------------------------------------------------------------ */

/* The addresses stay the graph's; that there is no memory behind them is what launches are refused
 * for. */
static void test_asleep(void **state)
{
    (void)state;
    start(NULL);
    tnr_pool pool = NULL;
    tnr_cuda_graph cuda_graph;
    assert_ok(tnr_graph_pool_create(&pool, 0, NULL));
    audited_begin(stream, pool, NULL);
    char *block = unit_malloc(4 * MIB, stream);
    take_set(stream, block, MIB);
    tnr_graph graph = audited_end(stream, &cuda_graph);
    audit(cuda_graph, graph);
    audited before = seen;
    assert_ok(tnr_pool_sleep(pool, 0, NULL));
    audit(cuda_graph, graph);
    assert_memory_equal(&seen, &before, sizeof(seen));
    assert_int_equal(seen.sums.proved, 1);
    assert_ok(tnr_pool_wake(pool, 0));
    audit(cuda_graph, graph);
    assert_memory_equal(&seen, &before, sizeof(seen));
    assert_ok(tnr_free(block));
    audited_destroy(cuda_graph);
    assert_ok(tnr_pool_destroy(pool));
}

/* ---- the call itself ------------------------------------------------------------------------ */

static void test_refused(void **state)
{
    (void)state;
    start(NULL);
    CUgraph graph = NULL;
    tnr_audit sums = {.struct_bytes = sizeof(sums)}, untouched = sums;
    assert_int_equal(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    assert_error(tnr_graph_audit(&sums, NULL, 0, NULL, NULL), TNR_ERR_INVALID_ARGUMENT,
                 "cuda_graph is null");
    assert_error(tnr_graph_audit(NULL, graph, 0, NULL, NULL), TNR_ERR_INVALID_ARGUMENT,
                 "struct_bytes");
    sums.struct_bytes--;
    assert_error(tnr_graph_audit(&sums, graph, 0, NULL, NULL), TNR_ERR_INVALID_ARGUMENT,
                 "struct_bytes");
    sums.struct_bytes++;
    assert_error(tnr_graph_audit(&sums, graph, 4711, NULL, NULL), TNR_ERR_INVALID_GRAPH, "4711");
    assert_error(tnr_graph_audit_write(NULL, 0, TNR_AUDIT_TEXT, 1), TNR_ERR_INVALID_ARGUMENT,
                 "cuda_graph is null");
    assert_error(tnr_graph_audit_write(graph, 0, (tnr_audit_format)2, 1), TNR_ERR_INVALID_ARGUMENT,
                 "2 is not a format");
    assert_memory_equal(&sums, &untouched, sizeof(sums));
    audit(graph, 0); /* a graph without nodes, before anything was allocated */
    assert_int_equal(seen.sums.nodes, 0);
    assert_non_null(strstr(audit_text(graph, 0, TNR_AUDIT_TEXT), "0 nodes: 0 kernels"));
    assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
}

/* What the visitor does from another thread needs the room; with it taken, this would not end. */
static void *get_graph(void *number)
{
    tnr_graph_info info = {.struct_bytes = sizeof(info)};
    return tnr_graph_get(&info, *(tnr_graph *)number) == TNR_OK ? number : NULL;
}

static void visit_and_ask(const tnr_audit_finding *finding, void *user)
{
    pthread_t thread;
    void *got = NULL;
    (void)finding;
    assert_int_equal(pthread_create(&thread, NULL, get_graph, user), 0);
    assert_int_equal(pthread_join(thread, &got), 0);
    assert_ptr_equal(got, user);
}

static void test_visitor_is_free(void **state)
{
    (void)state;
    start(NULL);
    tnr_cuda_graph cuda_graph;
    tnr_audit sums = {.struct_bytes = sizeof(sums)};
    audited_begin(stream, NULL, NULL);
    char *block = unit_malloc(MIB, stream);
    take_set(stream, block, 1);
    tnr_graph graph = audited_end(stream, &cuda_graph);
    assert_ok(tnr_graph_audit(&sums, cuda_graph, graph, visit_and_ask, &graph));
    assert_int_equal(sums.found, 1);
    assert_ok(tnr_free(block));
    audited_destroy(cuda_graph);
}

/* ---- failures ------------------------------------------------------------------------------- */

/* One audit under a fault: it fails and leaves the sums alone, or says what it always says. */
static int audit_with_fault(tnr_cuda_graph cuda_graph, tnr_graph graph, const tnr_audit *usual)
{
    tnr_audit sums = {.struct_bytes = sizeof(sums)}, untouched = sums;
    tnr_status status = tnr_graph_audit(&sums, cuda_graph, graph, NULL, NULL);
    if (status == TNR_OK)
        assert_memory_equal(&sums, usual, sizeof(sums));
    else
        assert_memory_equal(&sums, &untouched, sizeof(sums));
    return status == TNR_OK;
}

static void test_faults(void **state)
{
    (void)state;
    start(NULL);
    char *weights = unit_malloc(MIB, stream);
    tnr_cuda_graph cuda_graph;
    audited_begin(stream, NULL, NULL);
    char *block = unit_malloc(MIB, stream);
    take_set(stream, block, 1);
    take_pointers(stream, block, weights);
    take_packed(stream, block + 512, weights + 512);
    tnr_graph graph = audited_end(stream, &cuda_graph);
    audit(cuda_graph, graph);
    tnr_audit usual = seen.sums;
    assert_int_equal(usual.unproved + usual.unread, 0);
    uint64_t host = tnri_host_bytes();
    unsigned failed = 0, n = 1;
    for (uint64_t hit = 1; hit > 0; n++) {
        (void)tnri_host_fail_at(n, 0);
        failed += !audit_with_fault(cuda_graph, graph, &usual);
        hit = tnri_host_fail_at(0, 0);
        assert_true(n < 1000);
    }
    assert_in_range(failed, 5, n); /* nodes, findings, extents, spans, pools at least */
    assert_int_equal(tnri_host_bytes(), host);
    simcuda_calls_reset();
    assert_true(audit_with_fault(cuda_graph, graph, &usual));
    uint64_t calls = simcuda_calls_total();
    assert_in_range(calls, 10, 1000);
    failed = 0;
    for (n = 1; n <= calls; n++) {
        simcuda_fail("*", n, 0, CUDA_ERROR_UNKNOWN);
        failed += !audit_with_fault(cuda_graph, graph, &usual);
        simcuda_fail_clear();
    }
    assert_in_range(failed, calls / 2, calls);
    assert_int_equal(tnri_host_bytes(), host);
    audit(cuda_graph, graph);
    assert_memory_equal(&seen.sums, &usual, sizeof(usual));
    assert_ok(tnr_free(block));
    assert_ok(tnr_free(weights));
    audited_destroy(cuda_graph);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, audited_stop)
    const struct CMUnitTest tests[] = {TEST(test_own_and_kept), TEST(test_freed_and_kept),
                                       TEST(test_loose),        TEST(test_freed_and_unmapped),
                                       TEST(test_far),          TEST(test_missing),
                                       TEST(test_shared),       TEST(test_extents),
                                       TEST(test_unread),       TEST(test_asleep),
                                       TEST(test_refused),      TEST(test_visitor_is_free),
                                       TEST(test_faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
