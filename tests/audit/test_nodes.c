/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading nodes, against a driver of this file's own: a table of functions that answer from plain
 * structures. So every form of a driver's answers can be tried, also forms that the simulated
 * device does not have. test_graphs.c reads real graphs of the simulated device.
 *
 * Each test was seen to fail with a change in capture/graph/nodes.c:
 *   asked_once        layout_get: nothing found; layout_ask: `first` left at 0; the table kept over
 *                     walks
 *   pointers          visit_bytes: words taken from the start of the parameter instead of where
 *                     they are aligned in the parameters
 *   nothing_silent    read_pointers: an empty list believed without a name; told: an answer that
 *                     is an error taken for one that is read
 *   packed            read_packed: the buffer's key asked for at extra[0] only
 *   libraries         param_ask: the CUkernel not asked
 *   copies            visit_side: offsets in rows and layers left out; extent_bytes: the layers'
 *                     height left out
 *   batches           read_batch: the loop ended after the first operation
 *   bodies            read_conditional: only the first body walked
 *   unknown           read_by_type: default counted as read
 *   errors            told: every error taken as "does not tell"
 */
#include "unit/unit.h"

#include <string.h>

#include "base/host_memory.h"
#include "gpu/cuda/driver.h"
#include "graph/nodes.h"

/* ---- a driver ------------------------------------------------------------------------------- */

enum { PARAMS_MAX = 8, NODES_MAX = 16 };

typedef struct kernel {
    const char *name; /* null: the driver does not know the handle */
    size_t count, offset[PARAMS_MAX], bytes[PARAMS_MAX];
} kernel;

typedef struct node {
    int type;
    CUresult answer; /* to the question for its parameters */
    CUDA_KERNEL_NODE_PARAMS kernel;
    CUDA_MEMCPY3D copy;
    CUDA_MEMSET_NODE_PARAMS set;
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch;
    struct graph *child;
    CUgraph *bodies;
    unsigned bodies_count;
} node;

typedef struct graph {
    node *nodes[NODES_MAX];
    size_t count;
} graph;

static CUresult answer_type; /* of cuGraphNodeGetType */
static int param_questions;

static CUresult CUDAAPI fake_nodes(CUgraph of, CUgraphNode *nodes, size_t *count)
{
    const graph *from = (const graph *)of;
    for (size_t i = 0; nodes != NULL && i < from->count && i < *count; i++)
        nodes[i] = (CUgraphNode)from->nodes[i];
    *count = from->count;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI fake_type(CUgraphNode of, CUgraphNodeType *type)
{
    *type = (CUgraphNodeType)((const node *)of)->type;
    return answer_type;
}

/* Answers as the node says. */
#define FAKE_GET(function, structure, field)                                                       \
    static CUresult CUDAAPI function(CUgraphNode of, structure *out)                               \
    {                                                                                              \
        const node *from = (const node *)of;                                                       \
        if (from->answer == CUDA_SUCCESS)                                                          \
            *out = from->field;                                                                    \
        return from->answer;                                                                       \
    }
FAKE_GET(fake_kernel, CUDA_KERNEL_NODE_PARAMS, kernel)
FAKE_GET(fake_copy, CUDA_MEMCPY3D, copy)
FAKE_GET(fake_set, CUDA_MEMSET_NODE_PARAMS, set)
FAKE_GET(fake_batch, CUDA_BATCH_MEM_OP_NODE_PARAMS, batch)

static CUresult CUDAAPI fake_child(CUgraphNode of, CUgraph *child)
{
    *child = (CUgraph)((const node *)of)->child;
    return ((const node *)of)->answer;
}

static CUresult CUDAAPI fake_any(CUgraphNode of, CUgraphNodeParams *params)
{
    const node *from = (const node *)of;
    assert_int_equal(params->type, 0);
    params->type = (CUgraphNodeType)from->type;
    params->conditional.size = from->bodies_count;
    params->conditional.phGraph_out = from->bodies;
    return from->answer;
}

static CUresult param_info(const kernel *of, size_t index, size_t *offset, size_t *bytes)
{
    param_questions++;
    if (of->name == NULL || index >= of->count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = of->offset[index];
    *bytes = of->bytes[index];
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI fake_func_info(CUfunction of, size_t index, size_t *offset, size_t *bytes)
{
    return param_info((const kernel *)of, index, offset, bytes);
}

static CUresult CUDAAPI fake_kernel_info(CUkernel of, size_t index, size_t *offset, size_t *bytes)
{
    return param_info((const kernel *)of, index, offset, bytes);
}

static CUresult CUDAAPI fake_func_name(const char **name, CUfunction of)
{
    *name = ((const kernel *)of)->name;
    return *name == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult CUDAAPI fake_kernel_name(const char **name, CUkernel of)
{
    *name = ((const kernel *)of)->name;
    return *name == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static int begin(void **state)
{
    (void)state;
    answer_type = CUDA_SUCCESS;
    tnri_driver = (tnri_driver_table){.cuGraphGetNodes = fake_nodes,
                                      .cuGraphNodeGetType = fake_type,
                                      .cuGraphKernelNodeGetParams = fake_kernel,
                                      .cuGraphMemcpyNodeGetParams = fake_copy,
                                      .cuGraphMemsetNodeGetParams = fake_set,
                                      .cuGraphBatchMemOpNodeGetParams = fake_batch,
                                      .cuGraphChildGraphNodeGetGraph = fake_child,
                                      .cuGraphNodeGetParams = fake_any,
                                      .cuFuncGetParamInfo = fake_func_info,
                                      .cuKernelGetParamInfo = fake_kernel_info,
                                      .cuFuncGetName = fake_func_name,
                                      .cuKernelGetName = fake_kernel_name};
    return 0;
}

static int end(void **state)
{
    (void)state;
    memset(&tnri_driver, 0, sizeof(tnri_driver));
    return 0;
}

/* ---- walks ---------------------------------------------------------------------------------- */

enum { FOUND_MAX = 64 };

static tnri_node_address found[FOUND_MAX];
static size_t found_count;
static struct {
    tnri_nodes_sums sums;
    uint64_t after[64]; /* stays 0: the list of unread nodes ends where it should */
} told;
#define sums told.sums

static tnr_status note(void *user, const tnri_node_address *address)
{
    (void)user;
    assert_true(found_count < FOUND_MAX);
    found[found_count++] = *address;
    return TNR_OK;
}

static tnr_status walk(graph *of)
{
    found_count = 0;
    memset(&sums, 0, sizeof(sums));
    return tnri_nodes_walk((CUgraph)of, 1, note, NULL, &sums);
}

/* Walks a graph of one node. */
static void walk_one(node *only)
{
    graph one = {{only}, 1};
    assert_ok(walk(&one));
    assert_int_equal(sums.nodes, 1);
}

/* The same, with what is inside it. */
static void walk_one_whole(node *only)
{
    graph one = {{only}, 1};
    assert_ok(walk(&one));
}

static void assert_found(size_t i, tnr_audit_place place, size_t offset, uintptr_t address,
                         size_t bytes)
{
    assert_true(i < found_count);
    assert_int_equal(found[i].place, place);
    assert_int_equal(found[i].offset, offset);
    assert_int_equal(found[i].address, address);
    assert_int_equal(found[i].bytes, bytes);
}

/* ---- kernels -------------------------------------------------------------------------------- */

typedef struct mixed {
    uint32_t count;
    uint64_t first;
    uint32_t more;
    uint64_t second;
} mixed;

/* Words are taken where they are aligned for the kernel, in structures too, and nowhere else. */
static void test_pointers(void **state)
{
    (void)state;
    kernel taker = {"taker", 4, {0, 8, 40, 44}, {8, 32, 4, 20}};
    uint64_t pointer = 0x1000;
    mixed middle;
    uint32_t small = 0x4000;
    /* Lies at 44: 4 bytes up to the next word, whose value is 0x6000, and 8 bytes that are 0. */
    uint32_t odd[5] = {0x5000, 0x6000, 0, 0, 0};
    void *params[] = {&pointer, &middle, &small, odd};
    node launch = {.kernel = {.func = (CUfunction)&taker, .kernelParams = params}};
    memset(&middle, 0, sizeof(middle)); /* its padding, too */
    middle.count = 7;
    middle.first = 0x2000;
    middle.more = 8;
    middle.second = 0x3000;
    walk_one(&launch);
    assert_int_equal(sums.kernels, 1);
    assert_int_equal(sums.unread, 0);
    assert_int_equal(found_count, 6);
    assert_found(0, TNR_AUDIT_KERNEL, 0, 0x1000, 1);
    assert_found(1, TNR_AUDIT_KERNEL, 8, 7, 1);
    assert_found(2, TNR_AUDIT_KERNEL, 16, 0x2000, 1);
    assert_found(3, TNR_AUDIT_KERNEL, 24, 8, 1);
    assert_found(4, TNR_AUDIT_KERNEL, 32, 0x3000, 1);
    assert_found(5, TNR_AUDIT_KERNEL, 48, 0x6000, 1);
    assert_string_equal(found[0].kernel, "taker");
}

/* The keys of the packed form come in any order; what it has beyond whole words is nothing. */
static void test_packed(void **state)
{
    (void)state;
    kernel taker = {"taker", 2, {0, 8}, {8, 8}};
    uint64_t buffer[4] = {0x1000, 0, 0x3000, 0x4000};
    size_t bytes = 3 * 8 + 7;
    void *size_first[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_BUFFER_POINTER,
                          buffer, CU_LAUNCH_PARAM_END};
    void *size_last[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE,
                         &bytes, CU_LAUNCH_PARAM_END};
    void **both[] = {size_first, size_last};
    for (int i = 0; i < 2; i++) {
        node launch = {.kernel = {.func = (CUfunction)&taker, .extra = both[i]}};
        walk_one(&launch);
        assert_int_equal(sums.unread, 0);
        assert_int_equal(found_count, 2);
        assert_found(0, TNR_AUDIT_KERNEL, 0, 0x1000, 1);
        assert_found(1, TNR_AUDIT_KERNEL, 16, 0x3000, 1);
        assert_string_equal(found[1].kernel, "taker");
    }
    void *no_size[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_END};
    void *no_buffer[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    void *strange[] = {CU_LAUNCH_PARAM_BUFFER_SIZE,
                       &bytes,
                       CU_LAUNCH_PARAM_BUFFER_POINTER,
                       buffer,
                       (void *)77,
                       NULL,
                       CU_LAUNCH_PARAM_END};
    void **bad[] = {no_size, no_buffer, strange};
    for (int i = 0; i < 3; i++) {
        node launch = {.kernel = {.func = (CUfunction)&taker, .extra = bad[i]}};
        walk_one(&launch);
        assert_int_equal(sums.unread, 1);
        assert_int_equal(found_count, 0);
    }
}

/* Kernels of libraries are CUkernels, and say so in a field of its own. */
static void test_libraries(void **state)
{
    (void)state;
    kernel taker = {"library_taker", 1, {0}, {8}};
    uint64_t pointer = 0x1000;
    void *params[] = {&pointer};
    node launch = {.kernel = {.kern = (CUkernel)&taker, .kernelParams = params}};
    walk_one(&launch);
    assert_int_equal(sums.unread, 0);
    assert_int_equal(found_count, 1);
    assert_found(0, TNR_AUDIT_KERNEL, 0, 0x1000, 1);
    assert_string_equal(found[0].kernel, "library_taker");
    tnri_driver.cuKernelGetName = NULL; /* a driver that does not tell names */
    walk_one(&launch);
    assert_int_equal(sums.unread, 0);
    assert_int_equal(found_count, 1);
    assert_null(found[0].kernel);
}

/* The driver is asked once for each kernel of a graph, whose nodes come in any order, and again by
 * the next walk: the handle may be another kernel's by then. */
static void test_asked_once(void **state)
{
    (void)state;
    kernel one = {"one", 2, {0, 8}, {8, 8}};
    kernel other = {"other", 1, {8}, {8}}; /* of a library */
    kernel untold = {NULL, 1, {0}, {8}};
    uint64_t words[] = {0x1000, 0x2000};
    void *params[] = {&words[0], &words[1]};
    node first = {.kernel = {.func = (CUfunction)&one, .kernelParams = params}};
    node second = {.kernel = {.kern = (CUkernel)&other, .kernelParams = params}};
    node third = {.kernel = {.func = (CUfunction)&untold, .kernelParams = params}};
    graph all = {{&first, &second, &third, &first, &second, &third, &first}, 7};
    param_questions = 0;
    assert_ok(walk(&all));
    assert_int_equal(param_questions, 3 + 2 + 1);
    assert_int_equal(sums.unread, 2);
    assert_int_equal(found_count, 2 + 1 + 2 + 1 + 2);
    assert_found(1, TNR_AUDIT_KERNEL, 8, 0x2000, 1);
    assert_found(2, TNR_AUDIT_KERNEL, 8, 0x1000, 1);
    assert_found(4, TNR_AUDIT_KERNEL, 8, 0x2000, 1);
    one = (kernel){"later", 1, {16}, {8}};
    assert_ok(walk(&all));
    assert_int_equal(param_questions, 3 + 2 + 1 + 2 + 2 + 1);
    assert_int_equal(found_count, 1 + 1 + 1 + 1 + 1);
    assert_found(0, TNR_AUDIT_KERNEL, 16, 0x1000, 1);
    for (uint64_t at = 1; at <= 3; at++) { /* the nodes, the first kernel, its places */
        (void)tnri_host_fail_at(at, 0);
        assert_error(walk(&all), TNR_ERR_HOST_MEMORY, "no host memory");
        (void)tnri_host_fail_at(0, 0);
    }
}

/* Kernels that the driver does not tell, or not all of, are unread. */
static void test_nothing_silent(void **state)
{
    (void)state;
    kernel taker = {"taker", 2, {0, 8}, {8, 8}};
    kernel empty = {"empty", 0, {0}, {0}};
    kernel unknown = {NULL, 1, {0}, {8}};
    uint64_t pointer = 0x1000;
    void *params[] = {&pointer, NULL};
    node launch = {.kernel = {.func = (CUfunction)&taker, .kernelParams = params}};
    walk_one(&launch); /* the second parameter is not told */
    assert_int_equal(sums.unread, 1);
    assert_int_equal(sums.first[0].type, CU_GRAPH_NODE_TYPE_KERNEL);
    assert_string_equal(sums.first[0].kernel, "taker");
    assert_int_equal(found_count, 1);
    launch.kernel.kernelParams = NULL; /* nothing is told of a kernel that takes something */
    walk_one(&launch);
    assert_int_equal(sums.unread, 1);
    launch.kernel.func = (CUfunction)&empty;
    walk_one(&launch); /* one that takes nothing */
    assert_int_equal(sums.unread, 0);
    launch.kernel.kernelParams = params;
    walk_one(&launch);
    assert_int_equal(sums.unread, 0);
    assert_int_equal(found_count, 0);
    launch.kernel.func = (CUfunction)&unknown;
    walk_one(&launch); /* the end of its list and a handle that is wrong look the same */
    assert_int_equal(sums.unread, 1);
    launch.kernel.func = NULL;
    walk_one(&launch); /* neither handle */
    assert_int_equal(sums.unread, 1);
    launch.kernel.func = (CUfunction)&taker;
    params[1] = &pointer;
    walk_one(&launch);
    assert_int_equal(sums.unread, 0);
    launch.answer = CUDA_ERROR_NOT_SUPPORTED;
    walk_one(&launch);
    assert_int_equal(sums.unread, 1);
    assert_null(sums.first[0].kernel);
    launch.answer = CUDA_SUCCESS;
    tnri_driver.cuFuncGetParamInfo = NULL; /* before CUDA 12.4 */
    walk_one(&launch);
    assert_int_equal(sums.unread, 1);
    tnri_driver.cuGraphKernelNodeGetParams = NULL;
    walk_one(&launch);
    assert_int_equal(sums.unread, 1);
    assert_int_equal(sums.kernels, 1);
}

/* ---- copies and sets ------------------------------------------------------------------------ */

/* Both ends, of every type; the first byte touched, and how far the last one is. */
static void test_copies(void **state)
{
    (void)state;
    node copy = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    copy.copy = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = 0x10000,
                                .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .dstDevice = 0x20000,
                                .WidthInBytes = 100,
                                .Height = 1,
                                .Depth = 1};
    walk_one(&copy);
    assert_int_equal(sums.copies, 1);
    assert_int_equal(found_count, 2);
    assert_found(0, TNR_AUDIT_COPY, 0, 0x20000, 100);
    assert_found(1, TNR_AUDIT_COPY, 1, 0x10000, 100);
    assert_null(found[0].kernel);

    /* 3 layers of 4 rows of 100 bytes, of rows of 256 bytes and layers of 8 rows; the first is at
     * column 5, row 6, layer 7. */
    copy.copy.srcPitch = 256;
    copy.copy.srcHeight = 8;
    copy.copy.srcXInBytes = 5;
    copy.copy.srcY = 6;
    copy.copy.srcZ = 7;
    copy.copy.dstPitch = 100;
    copy.copy.dstHeight = 4;
    copy.copy.Height = 4;
    copy.copy.Depth = 3;
    walk_one(&copy);
    assert_int_equal(found_count, 2);
    assert_found(0, TNR_AUDIT_COPY, 0, 0x20000, 3 * 4 * 100);
    assert_found(1, TNR_AUDIT_COPY, 1, 0x10000 + 5 + (6 + 7 * 8) * 256, (2 * 8 + 3) * 256 + 100);

    copy.copy = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_HOST,
                                .srcHost = (const void *)0x30000,
                                .srcDevice = 0x99999,
                                .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                                .dstDevice = 0x99999,
                                .WidthInBytes = 8,
                                .Height = 1,
                                .Depth = 1};
    walk_one(&copy);
    assert_int_equal(sums.unread, 0);
    assert_int_equal(found_count, 1);
    assert_found(0, TNR_AUDIT_COPY, 1, 0x30000, 8);
    copy.copy.dstMemoryType = (CUmemorytype)9;
    walk_one(&copy); /* a type that is newer */
    assert_int_equal(sums.unread, 1);
    assert_int_equal(found_count, 1);
    copy.answer = CUDA_ERROR_INVALID_VALUE;
    walk_one(&copy);
    assert_int_equal(sums.unread, 1);
    assert_int_equal(found_count, 0);
}

static void test_sets(void **state)
{
    (void)state;
    node set = {.type = CU_GRAPH_NODE_TYPE_MEMSET,
                .set = {.dst = 0x5000, .elementSize = 4, .width = 10, .height = 1}};
    walk_one(&set);
    assert_int_equal(sums.sets, 1);
    assert_int_equal(found_count, 1);
    assert_found(0, TNR_AUDIT_SET, 0, 0x5000, 40);
    set.set.height = 3;
    set.set.pitch = 64;
    walk_one(&set);
    assert_found(0, TNR_AUDIT_SET, 0, 0x5000, 2 * 64 + 40);
    set.answer = CUDA_ERROR_NOT_SUPPORTED;
    walk_one(&set);
    assert_int_equal(sums.unread, 1);
}

static void test_batches(void **state)
{
    (void)state;
    CUstreamBatchMemOpParams ops[5];
    memset(ops, 0, sizeof(ops));
    ops[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    ops[0].waitValue.address = 0x1000;
    ops[1].operation = CU_STREAM_MEM_OP_BARRIER;
    ops[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    ops[2].writeValue.address = 0x2000;
    ops[3].operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
    ops[4].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[4].writeValue.address = 0x3000;
    node batch = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, .batch = {NULL, 5, ops, 0}};
    walk_one(&batch);
    assert_int_equal(sums.others, 1);
    assert_int_equal(sums.unread, 0);
    assert_int_equal(found_count, 3);
    assert_found(0, TNR_AUDIT_SET, 0, 0x1000, 4);
    assert_found(1, TNR_AUDIT_SET, 2, 0x2000, 8);
    assert_found(2, TNR_AUDIT_SET, 4, 0x3000, 4);
    ops[1].operation = (CUstreamBatchMemOpType)99;
    walk_one(&batch); /* an operation that is newer */
    assert_int_equal(sums.unread, 1);
    tnri_driver.cuGraphBatchMemOpNodeGetParams = NULL;
    walk_one(&batch);
    assert_int_equal(sums.unread, 1);
    assert_int_equal(found_count, 0);
}

/* ---- graphs in graphs ----------------------------------------------------------------------- */

static node set_at(uintptr_t address)
{
    return (node){.type = CU_GRAPH_NODE_TYPE_MEMSET,
                  .set = {.dst = address, .elementSize = 1, .width = 1, .height = 1}};
}

static void test_children(void **state)
{
    (void)state;
    node deepest = set_at(0x3000), before = set_at(0x2000), after = set_at(0x4000);
    graph inner = {{&deepest}, 1};
    node child_inner = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .child = &inner};
    graph middle = {{&before, &child_inner, &after}, 3};
    node child = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .child = &middle};
    node first = set_at(0x1000), last = set_at(0x5000);
    graph outer = {{&first, &child, &last}, 3};
    static const unsigned depths[] = {0, 1, 2, 1, 0}, numbers[] = {0, 2, 4, 5, 6};
    assert_ok(walk(&outer));
    assert_int_equal(sums.nodes, 7);
    assert_int_equal(sums.children, 2);
    assert_int_equal(sums.sets, 5);
    assert_int_equal(sums.others, 2);
    assert_int_equal(sums.unread, 0);
    assert_int_equal(found_count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_found(i, TNR_AUDIT_SET, 0, 0x1000 * (i + 1), 1);
        assert_int_equal(found[i].depth, depths[i]);
        assert_int_equal(found[i].node, numbers[i]);
    }
    child_inner.answer = CUDA_ERROR_NOT_SUPPORTED;
    assert_ok(walk(&outer));
    assert_int_equal(sums.unread, 1);
    assert_int_equal(sums.first[0].node, 3);
    assert_int_equal(sums.first[0].depth, 1);
    assert_int_equal(found_count, 4);
    /* A graph that contains itself cannot be; the walk would still end. */
    child_inner.answer = CUDA_SUCCESS;
    child_inner.child = &middle;
    graph loop = {{&child_inner}, 1};
    middle = loop;
    assert_ok(walk(&loop));
    assert_int_equal(sums.unread, 1);
}

static void test_bodies(void **state)
{
    (void)state;
    node one = set_at(0x1000), two = set_at(0x2000);
    graph first = {{&one}, 1}, second = {{&two}, 1};
    CUgraph bodies[] = {(CUgraph)&first, (CUgraph)&second};
    node condition = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL, .bodies = bodies, .bodies_count = 2};
    graph whole = {{&condition}, 1};
    assert_ok(walk(&whole));
    assert_int_equal(sums.nodes, 3);
    assert_int_equal(sums.children, 2);
    assert_int_equal(sums.unread, 0);
    assert_int_equal(found_count, 2);
    assert_int_equal(found[1].address, 0x2000);
    assert_int_equal(found[1].depth, 1);
    bodies[0] = NULL;
    assert_ok(walk(&whole)); /* one of them is not told */
    assert_int_equal(sums.unread, 1);
    assert_int_equal(found_count, 1);
    condition.bodies = NULL;
    walk_one(&condition);
    assert_int_equal(sums.unread, 1);
    tnri_driver.cuGraphNodeGetParams = NULL; /* before CUDA 13.2 */
    walk_one(&condition);
    assert_int_equal(sums.unread, 1);
    assert_int_equal(sums.first[0].type, CU_GRAPH_NODE_TYPE_CONDITIONAL);
}

/* ---- the rest ------------------------------------------------------------------------------- */

static void test_unknown(void **state)
{
    (void)state;
    static const int silent[] = {CU_GRAPH_NODE_TYPE_HOST,
                                 CU_GRAPH_NODE_TYPE_EMPTY,
                                 CU_GRAPH_NODE_TYPE_WAIT_EVENT,
                                 CU_GRAPH_NODE_TYPE_EVENT_RECORD,
                                 CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL,
                                 CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT,
                                 CU_GRAPH_NODE_TYPE_MEM_ALLOC,
                                 CU_GRAPH_NODE_TYPE_MEM_FREE};
    for (size_t i = 0; i < sizeof(silent) / sizeof(silent[0]); i++) {
        node other = {.type = silent[i]};
        walk_one(&other);
        assert_int_equal(sums.others, 1);
        assert_int_equal(sums.unread, 0);
    }
    node newer = {.type = 4711};
    graph many = {{0}, 0};
    while (many.count < NODES_MAX)
        many.nodes[many.count++] = &newer;
    graph wrap = many;
    node child = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .child = &many};
    wrap.nodes[NODES_MAX - 1] = &child;
    assert_ok(walk(&wrap)); /* more than are told one by one */
    assert_int_equal(sums.unread, 2 * NODES_MAX - 1);
    assert_int_equal(sums.first[TNRI_UNREAD_MAX - 1].type, 4711);
    for (size_t i = 0; i < sizeof(told.after) / sizeof(told.after[0]); i++)
        assert_int_equal(told.after[i], 0);
    graph empty = {{0}, 0};
    assert_ok(walk(&empty));
    assert_int_equal(sums.nodes, 0);
}

static tnr_status stop_at_second(void *user, const tnri_node_address *address)
{
    (void)address;
    return ++*(int *)user == 2 ? TNR_ERR_BUSY : TNR_OK;
}

/* Errors that say more than "I do not tell" end the walk, as do the visitor's. */
static void test_errors(void **state)
{
    (void)state;
    node set = set_at(0x1000);
    graph three = {{&set, &set, &set}, 3};
    int visits = 0;
    memset(&sums, 0, sizeof(sums));
    assert_int_equal(tnri_nodes_walk((CUgraph)&three, 0, stop_at_second, &visits, &sums),
                     TNR_ERR_BUSY);
    assert_int_equal(visits, 2);
    set.answer = CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_error(walk(&three), TNR_ERR_DRIVER, "cuGraphMemsetNodeGetParams");
    set.answer = CUDA_SUCCESS;
    answer_type = CUDA_ERROR_UNKNOWN;
    assert_error(walk(&three), TNR_ERR_DRIVER, "cuGraphNodeGetType");
    answer_type = CUDA_SUCCESS;
    (void)tnri_host_fail_at(1, 0);
    assert_error(walk(&three), TNR_ERR_HOST_MEMORY, "3 nodes");
    assert_int_equal(tnri_host_fail_at(0, 0), 1);
}

/* ---- every kind of node --------------------------------------------------------------------- */

/* One of each, with two addresses or more. */
typedef struct kinds {
    kernel described;
    mixed parameter;
    void *pointers[1], *packed[5];
    size_t packed_bytes;
    CUstreamBatchMemOpParams ops[2];
    node set;
    graph inner;
    CUgraph bodies[1];
    node all[6];
} kinds;

enum { KINDS = 6 };

static void kinds_make(kinds *k)
{
    memset(k, 0, sizeof(*k));
    k->described = (kernel){.name = "step", .count = 1, .bytes = {sizeof(mixed)}};
    k->parameter.first = 0x1000; /* what is between them stays 0 */
    k->parameter.second = 0x2000;
    k->pointers[0] = &k->parameter;
    k->packed_bytes = sizeof(mixed);
    void *const packed[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &k->parameter,
                            CU_LAUNCH_PARAM_BUFFER_SIZE, &k->packed_bytes, CU_LAUNCH_PARAM_END};
    memcpy(k->packed, packed, sizeof(packed));
    for (int i = 0; i < 2; i++) {
        k->ops[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        k->ops[i].writeValue.address = 0x1000;
    }
    k->set = set_at(0x1000);
    k->inner = (graph){{&k->set, &k->set}, 2};
    k->bodies[0] = (CUgraph)&k->inner;
    k->all[0] = (node){.type = CU_GRAPH_NODE_TYPE_KERNEL,
                       .kernel = {.func = (CUfunction)&k->described, .kernelParams = k->pointers}};
    k->all[1] = (node){.type = CU_GRAPH_NODE_TYPE_KERNEL,
                       .kernel = {.func = (CUfunction)&k->described, .extra = k->packed}};
    k->all[2] = (node){.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                       .copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = 0x1000,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = 0x2000,
                                .WidthInBytes = 4,
                                .Height = 1,
                                .Depth = 1}};
    k->all[3] = (node){.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, .batch = {NULL, 2, k->ops, 0}};
    k->all[4] = (node){.type = CU_GRAPH_NODE_TYPE_GRAPH, .child = &k->inner};
    k->all[5] =
        (node){.type = CU_GRAPH_NODE_TYPE_CONDITIONAL, .bodies = k->bodies, .bodies_count = 1};
}

/* A visitor's error ends the walk at once, whatever kind of node it is in. */
static void test_stops(void **state)
{
    (void)state;
    kinds k;
    kinds_make(&k);
    for (size_t i = 0; i < KINDS; i++) {
        walk_one_whole(&k.all[i]);
        assert_int_equal(found_count, 2);
        assert_int_equal(sums.unread, 0);
        for (int stop = 1; stop <= 2; stop++) {
            graph one = {{&k.all[i], &k.all[i]}, 2};
            int visits = 2 - stop; /* stop_at_second stops at the first, or the second */
            memset(&sums, 0, sizeof(sums));
            assert_int_equal(tnri_nodes_walk((CUgraph)&one, 0, stop_at_second, &visits, &sums),
                             TNR_ERR_BUSY);
            assert_int_equal(visits, 2);
        }
    }
}

/* Errors of the driver end it too, and name the call. */
static void test_errors_of_kinds(void **state)
{
    (void)state;
    static const char *const calls[KINDS] = {
        "cuGraphKernelNodeGetParams",    "cuGraphKernelNodeGetParams",
        "cuGraphMemcpyNodeGetParams",    "cuGraphBatchMemOpNodeGetParams",
        "cuGraphChildGraphNodeGetGraph", "cuGraphNodeGetParams"};
    kinds k;
    kinds_make(&k);
    for (size_t i = 0; i < KINDS; i++) {
        graph one = {{&k.all[i]}, 1};
        k.all[i].answer = CUDA_ERROR_ILLEGAL_ADDRESS;
        assert_error(walk(&one), TNR_ERR_DRIVER, calls[i]);
        assert_int_equal(found_count, 0);
    }
}

/* A driver that lacks a call: what it would have told is unread, and never silently nothing. */
static void test_an_older_driver(void **state)
{
    (void)state;
    kinds k;
    kinds_make(&k);
    tnri_driver_table whole = tnri_driver;
    for (size_t i = 0; i < KINDS; i++) {
        tnri_driver = whole;
        if (i < 2)
            tnri_driver.cuGraphKernelNodeGetParams = NULL;
        else if (i == 2)
            tnri_driver.cuGraphMemcpyNodeGetParams = NULL;
        else if (i == 3)
            tnri_driver.cuGraphBatchMemOpNodeGetParams = NULL;
        else if (i == 4)
            tnri_driver.cuGraphChildGraphNodeGetGraph = NULL;
        else
            tnri_driver.cuGraphNodeGetParams = NULL;
        walk_one_whole(&k.all[i]);
        assert_int_equal(sums.unread, 1);
        assert_int_equal(found_count, 0);
    }
    tnri_driver = whole;
    tnri_driver.cuGraphMemsetNodeGetParams = NULL;
    walk_one(&k.set);
    assert_int_equal(sums.unread, 1);
    tnri_driver = whole;
    tnri_driver.cuFuncGetParamInfo = NULL; /* the array of pointers has no length then */
    walk_one(&k.all[0]);
    assert_int_equal(sums.unread, 1);
    tnri_driver = whole;
    tnri_driver.cuFuncGetName = NULL;
    walk_one(&k.all[0]);
    assert_int_equal(sums.unread, 0);
    assert_null(found[0].kernel);
    /* Of libraries. */
    k.all[0].kernel.func = NULL;
    k.all[0].kernel.kern = (CUkernel)&k.described;
    tnri_driver = whole;
    tnri_driver.cuKernelGetParamInfo = NULL;
    tnri_driver.cuKernelGetName = NULL;
    walk_one(&k.all[0]);
    assert_int_equal(sums.unread, 1);
    tnri_driver = whole;
    graph one = {{&k.all[0]}, 1};
    tnri_driver.cuGraphNodeGetType = NULL;
    assert_error(walk(&one), TNR_ERR_DRIVER, "cuGraphNodeGetType"); /* an audit asks before */
}

/* Answers that cannot be right are unread as well. */
static void test_odd_answers(void **state)
{
    (void)state;
    kinds k;
    kinds_make(&k);
    k.all[3].batch.paramArray = NULL;
    walk_one(&k.all[3]);
    assert_int_equal(sums.unread, 1);
    k.all[3].batch.count = 0; /* nothing is all that there is */
    walk_one(&k.all[3]);
    assert_int_equal(sums.unread, 0);
    k.all[5].bodies_count = 0;
    walk_one(&k.all[5]);
    assert_int_equal(sums.unread, 1);
    k.packed[0] = CU_LAUNCH_PARAM_END; /* no buffer: no size either */
    walk_one(&k.all[1]);
    assert_int_equal(found_count, 0);
    /* A copy of nothing still names its addresses, and one from nowhere does not. */
    for (int i = 0; i < 3; i++) {
        CUDA_MEMCPY3D *copy = &k.all[2].copy;
        copy->WidthInBytes = i != 0;
        copy->Height = i != 1;
        copy->Depth = i != 2;
        walk_one(&k.all[2]);
        assert_int_equal(found_count, 2);
        assert_int_equal(found[0].bytes, 1);
    }
    k.all[2].copy.srcDevice = 0;
    walk_one(&k.all[2]);
    assert_int_equal(found_count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pointers, begin, end),
        cmocka_unit_test_setup_teardown(test_packed, begin, end),
        cmocka_unit_test_setup_teardown(test_libraries, begin, end),
        cmocka_unit_test_setup_teardown(test_asked_once, begin, end),
        cmocka_unit_test_setup_teardown(test_nothing_silent, begin, end),
        cmocka_unit_test_setup_teardown(test_copies, begin, end),
        cmocka_unit_test_setup_teardown(test_sets, begin, end),
        cmocka_unit_test_setup_teardown(test_batches, begin, end),
        cmocka_unit_test_setup_teardown(test_children, begin, end),
        cmocka_unit_test_setup_teardown(test_bodies, begin, end),
        cmocka_unit_test_setup_teardown(test_unknown, begin, end),
        cmocka_unit_test_setup_teardown(test_errors, begin, end),
        cmocka_unit_test_setup_teardown(test_stops, begin, end),
        cmocka_unit_test_setup_teardown(test_errors_of_kinds, begin, end),
        cmocka_unit_test_setup_teardown(test_an_older_driver, begin, end),
        cmocka_unit_test_setup_teardown(test_odd_answers, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
