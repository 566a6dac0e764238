/* SPDX-License-Identifier: Apache-2.0 */
/* Scenarios: graphs that run, and what lives until they have. */
#include "graph.h"

#include <pthread.h>
#include <string.h>

/* ---- independence --------------------------------------------------------------------------- */

static void exec_is_a_copy(void)
{
    CUgraph graph = graph_new();
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    chunk_clear(at);
    CUgraphNode first = node_set(graph, at, 1, 16, NULL, 0);
    CUgraphExec exec = exec_new(graph);
    (void)node_set(graph, at + 64, 2, 16, &first, 1);
    CUDA_MEMSET_NODE_PARAMS other = {at, 0, 9, 1, 16, 1};
    expect("change", cu.GraphMemsetNodeSetParams(first, &other), CUDA_SUCCESS);
    expect("launch", cu.GraphLaunch(exec, stream), CUDA_SUCCESS);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_number("as_it_was", byte_at(at), 1);
    expect_number("added_later", byte_at(at + 64), 0);
    expect("destroy_node", cu.GraphDestroyNode(first), CUDA_SUCCESS);
    expect("destroy", cu.GraphDestroy(graph), CUDA_SUCCESS);
    chunk_clear(at);
    expect("launch_again", cu.GraphLaunch(exec, stream), CUDA_SUCCESS);
    expect("sync_again", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_number("still", byte_at(at), 1);
    expect("destroy_exec", cu.GraphExecDestroy(exec), CUDA_SUCCESS);
}

static void exec_destroyed_while_it_runs(void)
{
    CUgraph graph = graph_new();
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    struct gate *gate = gate_new();
    chunk_clear(at);
    CUgraphNode first = node_set(graph, at, 1, 16, NULL, 0);
    (void)node_copy(graph, at + 64, at, 16, &first, 1);
    CUgraphExec exec = exec_new(graph);
    gate_close(gate, stream);
    expect("launch", cu.GraphLaunch(exec, stream), CUDA_SUCCESS);
    watch_start(gate, RETURNS_MS);
    expect("destroy_exec", cu.GraphExecDestroy(exec), CUDA_SUCCESS);
    expect("destroy", cu.GraphDestroy(graph), CUDA_SUCCESS);
    expect_yes("waited", watch_stop(gate), 0);
    expect("query", cu.StreamQuery(stream), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_number("ran", byte_at(at + 64), 1);
}

static void instantiate_arguments(void)
{
    CUgraph graph = graph_new();
    CUgraphExec exec = NULL;
    CUDA_GRAPH_INSTANTIATE_PARAMS params;
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    expect("null_graph", cu.GraphInstantiateWithFlags(&exec, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    expect("flags", cu.GraphInstantiateWithFlags(&exec, graph, 64), CUDA_ERROR_INVALID_VALUE);
    expect("empty", cu.GraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    expect("launch_empty", cu.GraphLaunch(exec, stream), CUDA_SUCCESS);
    expect("upload", cu.GraphUpload(exec, stream), CUDA_SUCCESS);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect("free", cu.GraphExecDestroy(exec), CUDA_SUCCESS);
    memset(&params, 0, sizeof(params));
    params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    params.hUploadStream = stream;
    params.result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
    expect("params", cu.GraphInstantiateWithParams(&exec, graph, &params), CUDA_SUCCESS);
    expect_number("result", params.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
    expect(
        "flag_auto_free",
        cu.GraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH),
        CUDA_SUCCESS);
    expect("flag_upload",
           cu.GraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD),
           CUDA_ERROR_INVALID_VALUE);
    observe("flag_device",
            cu.GraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH));
    expect(
        "flag_priority",
        cu.GraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY),
        CUDA_SUCCESS);
    params.flags = 64;
    expect("params_flags", cu.GraphInstantiateWithParams(&exec, graph, &params),
           CUDA_ERROR_INVALID_VALUE);
    expect_number("params_flags_result", params.result_out, CUDA_GRAPH_INSTANTIATE_ERROR);
}

/* ---- order ---------------------------------------------------------------------------------- */

/* A launch comes after what is in its stream before it, and before what comes later. */
static void launch_order(void)
{
    CUgraph graph = graph_new();
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream separate = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    struct gate *gate = gate_new();
    (void)node_copy(graph, at + 64, at, 16, NULL, 0);
    (void)node_copy(graph, at + 128, at, 16, NULL, 0);
    CUgraphExec exec = exec_new(graph);
    CUgraphExec other = exec_new(graph);
    gate_close(gate, stream);
    need("set", cu.MemsetD8Async(at, 6, 16, stream));
    expect("launch", cu.GraphLaunch(exec, stream), CUDA_SUCCESS);
    need("set", cu.MemsetD8Async(at, 7, 16, stream));
    expect("query", cu.StreamQuery(stream), CUDA_ERROR_NOT_READY);
    watch_start(gate, RETURNS_MS);
    expect("other_exec", cu.GraphLaunch(other, separate), CUDA_SUCCESS);
    expect("other_sync", cu.StreamSynchronize(separate), CUDA_SUCCESS);
    expect_yes("other_waited", watch_stop(gate), 0);
    gate_open(gate);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_number("first", byte_at(at + 64), 6);
    expect_number("second", byte_at(at + 128), 6);
    expect_number("later", byte_at(at), 7);
}

/* Launches of one executable graph wait for each other, whatever their streams are. */
static void launches_of_one_exec(void)
{
    CUgraph graph = graph_new();
    CUstream first = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream second = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    struct gate *gate = gate_new();
    (void)node_set(graph, at, 1, 16, NULL, 0);
    CUgraphExec exec = exec_new(graph);
    gate_close(gate, first);
    expect("launch", cu.GraphLaunch(exec, first), CUDA_SUCCESS);
    watch_start(gate, RETURNS_MS);
    expect("launch_again", cu.GraphLaunch(exec, second), CUDA_SUCCESS);
    expect_yes("call_waited", watch_stop(gate), 0);
    watch_start(gate, WAITS_MS);
    expect("sync_second", cu.StreamSynchronize(second), CUDA_SUCCESS);
    expect_yes("sync_waited", watch_stop(gate), 1);
    expect("sync", cu.StreamSynchronize(first), CUDA_SUCCESS);
}

/* What of a graph comes before what: a diamond of copies. */
static void edges_order_nodes(void)
{
    CUgraph graph = graph_new();
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraphNode middle[2];
    CUgraphNode top = node_set(graph, at, 1, 16, NULL, 0);
    middle[0] = node_copy(graph, at + 64, at, 16, &top, 1);
    middle[1] = node_copy(graph, at + 128, at, 16, &top, 1);
    CUgraphNode bottom = node_set(graph, at, 2, 16, middle, 2);
    (void)node_store(graph, at + 192, 77, &bottom, 1);
    CUgraphExec exec = exec_new(graph);
    for (unsigned i = 0; i < 20; i++) {
        need("clear", cu.MemsetD8Async(at, 0, CHUNK, stream));
        need("launch", cu.GraphLaunch(exec, stream));
    }
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_number("left", byte_at(at + 64), 1);
    expect_number("right", byte_at(at + 128), 1);
    expect_number("bottom", byte_at(at), 2);
    expect_number("stored", byte_at(at + 192), 77);
}

static void launch_in_default_stream(void)
{
    CUgraph graph = graph_new();
    CUstream blocking = stream_new(CU_STREAM_DEFAULT);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    struct gate *gate = gate_new();
    (void)node_set(graph, at, 1, 16, NULL, 0);
    (void)node_set(graph, at + 64, 1, 16, NULL, 0);
    CUgraphExec exec = exec_new(graph);
    gate_close(gate, blocking);
    expect("launch", cu.GraphLaunch(exec, NULL), CUDA_SUCCESS);
    CUevent done = event_new(CU_EVENT_DISABLE_TIMING);
    need("record", cu.EventRecord(done, CU_STREAM_LEGACY));
    expect("behind_blocking", cu.EventQuery(done), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    expect("sync", cu.StreamSynchronize(NULL), CUDA_SUCCESS);
    expect_number("byte", byte_at(at), 1);
}

/* ---- events --------------------------------------------------------------------------------- */

static void graph_records_event(void)
{
    CUgraph graph = graph_new();
    CUgraphNode node = NULL;
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream waiting = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    struct gate *gate = gate_new();
    chunk_clear(at);
    CUgraphNode set = node_set(graph, at, 4, 16, NULL, 0);
    need("record node", cu.GraphAddEventRecordNode(&node, graph, &set, 1, event));
    CUgraphExec exec = exec_new(graph);
    expect("before", cu.EventQuery(event), CUDA_SUCCESS);
    gate_close(gate, stream);
    expect("launch", cu.GraphLaunch(exec, stream), CUDA_SUCCESS);
    expect("after_launch", cu.EventQuery(event), CUDA_ERROR_NOT_READY);
    expect("wait", cu.StreamWaitEvent(waiting, event, 0), CUDA_SUCCESS);
    need("copy", cu.MemcpyDtoDAsync(at + 64, at, 16, waiting));
    expect("waiting", cu.StreamQuery(waiting), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    expect("sync", cu.EventSynchronize(event), CUDA_SUCCESS);
    need("sync all", cu.CtxSynchronize());
    expect("query", cu.EventQuery(event), CUDA_SUCCESS);
    expect_number("waited_for_the_node", byte_at(at + 64), 4);
}

static void graph_waits_for_event(void)
{
    CUgraph graph = graph_new();
    CUgraphNode node = NULL;
    CUstream recording = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    struct gate *gate = gate_new();
    need("wait node", cu.GraphAddEventWaitNode(&node, graph, NULL, 0, event));
    (void)node_copy(graph, at + 64, at, 16, &node, 1);
    CUgraphExec exec = exec_new(graph);
    expect("unrecorded", cu.GraphLaunch(exec, stream), CUDA_SUCCESS);
    expect("unrecorded_sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    gate_close(gate, recording);
    need("set", cu.MemsetD8Async(at, 8, 16, recording));
    need("record", cu.EventRecord(event, recording));
    expect("launch", cu.GraphLaunch(exec, stream), CUDA_SUCCESS);
    expect("query", cu.StreamQuery(stream), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_number("copied", byte_at(at + 64), 8);
}

/* It is the record that was there at the launch, not the one when the node runs. */
static void graph_waits_for_the_record_at_the_launch(void)
{
    CUgraph graph = graph_new();
    CUgraphNode node = NULL;
    CUstream recording = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    struct gate *first = gate_new();
    struct gate *second = gate_new();
    need("wait node", cu.GraphAddEventWaitNode(&node, graph, NULL, 0, event));
    CUgraphExec exec = exec_new(graph);
    gate_close(first, stream);
    expect("launch", cu.GraphLaunch(exec, stream), CUDA_SUCCESS);
    gate_close(second, recording);
    need("record", cu.EventRecord(event, recording));
    gate_open(first);
    watch_start(second, RETURNS_MS);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_yes("waited_for_the_later_record", watch_stop(second), 0);
    gate_open(second);
    need("sync all", cu.CtxSynchronize());
}

/* ---- host nodes ----------------------------------------------------------------------------- */

static CUresult inside;
static unsigned host_calls;

static void CUDA_CB host_function(void *data)
{
    CUevent event = NULL;
    inside = cu.EventCreate(&event, 0);
    host_calls += *(const unsigned *)data;
}

static void host_nodes(void)
{
    CUgraph graph = graph_new();
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    static unsigned step = 3;
    CUDA_HOST_NODE_PARAMS got;
    CUgraphNode node = node_host(graph, host_function, &step, NULL, 0);
    CUDA_HOST_NODE_PARAMS null = {NULL, NULL};
    expect("get", cu.GraphHostNodeGetParams(node, &got), CUDA_SUCCESS);
    expect_yes("same", got.fn == host_function && got.userData == &step, 1);
    expect("null_function", cu.GraphAddHostNode(&node, graph, NULL, 0, &null),
           CUDA_ERROR_INVALID_VALUE);
    CUgraphExec exec = exec_new(graph);
    need("launch", cu.GraphLaunch(exec, stream));
    need("launch", cu.GraphLaunch(exec, stream));
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_number("calls", host_calls, 6);
    expect("call_inside", inside, CUDA_ERROR_NOT_PERMITTED);
}

/* ---- updates -------------------------------------------------------------------------------- */

static void exec_updates(void)
{
    CUgraph graph = graph_new();
    CUgraph same = graph_new();
    CUgraph larger = graph_new();
    CUgraph kinds = graph_new();
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraphExecUpdateResultInfo info;
    chunk_clear(at);
    CUgraphNode set = node_set(graph, at, 1, 16, NULL, 0);
    CUgraphNode store = node_store(graph, at + 64, 2, &set, 1);
    CUgraphNode set2 = node_set(same, at, 3, 16, NULL, 0);
    (void)node_store(same, at + 64, 4, &set2, 1);
    CUgraphNode set3 = node_set(larger, at, 3, 16, NULL, 0);
    CUgraphNode store3 = node_store(larger, at + 64, 4, &set3, 1);
    (void)node_empty(larger, &store3, 1);
    CUgraphNode set4 = node_set(kinds, at, 3, 16, NULL, 0);
    (void)node_set(kinds, at + 64, 4, 4, &set4, 1);
    CUgraphExec exec = exec_new(graph);
    memset(&info, 0, sizeof(info));
    expect("same", cu.GraphExecUpdate(exec, same, &info), CUDA_SUCCESS);
    expect_number("same_result", info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    expect("larger", cu.GraphExecUpdate(exec, larger, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    expect_number("larger_result", info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    expect_yes("larger_node", info.errorNode != NULL, 0);
    expect("kinds", cu.GraphExecUpdate(exec, kinds, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    expect_number("kinds_result", info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    expect_yes("kinds_node", info.errorNode != NULL, 1);
    need("launch", cu.GraphLaunch(exec, stream));
    need("sync", cu.StreamSynchronize(stream));
    expect_number("set", byte_at(at), 3);
    expect_number("stored", byte_at(at + 64), 4);
    uint32_t value = 5;
    CUdeviceptr there = at + 128;
    void *pointers[2] = {&there, &value};
    CUDA_KERNEL_NODE_PARAMS params = store_params();
    params.kernelParams = pointers;
    expect("node_params", cu.GraphExecKernelNodeSetParams(exec, store, &params), CUDA_SUCCESS);
    expect("node_params_of_set", cu.GraphExecKernelNodeSetParams(exec, set, &params),
           CUDA_ERROR_INVALID_VALUE);
    need("launch", cu.GraphLaunch(exec, stream));
    need("sync", cu.StreamSynchronize(stream));
    expect_number("stored_there", byte_at(at + 128), 5);
}

/* ---- user objects --------------------------------------------------------------------------- */

static int destroyed;
static CUresult in_destructor;
static pthread_t destroyer;

static void CUDA_CB destructor(void *data)
{
    CUevent event = NULL;
    (void)data;
    in_destructor = cu.EventCreate(&event, 0);
    destroyer = pthread_self();
    __atomic_store_n(&destroyed, 1, __ATOMIC_RELEASE);
}

static CUuserObject user_object(unsigned count)
{
    CUuserObject object = NULL;
    need("user object", cu.UserObjectCreate(&object, &destroyed, destructor, count,
                                            CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    return object;
}

static void user_object_arguments(void)
{
    CUuserObject object = NULL;
    CUgraph graph = graph_new();
    const unsigned flags = CU_USER_OBJECT_NO_DESTRUCTOR_SYNC;
    expect("null_out", cu.UserObjectCreate(NULL, NULL, destructor, 1, flags),
           CUDA_ERROR_INVALID_VALUE);
    expect("null_destructor", cu.UserObjectCreate(&object, NULL, NULL, 1, flags),
           CUDA_ERROR_INVALID_VALUE);
    expect("no_references", cu.UserObjectCreate(&object, NULL, destructor, 0, flags),
           CUDA_ERROR_INVALID_VALUE);
    expect("no_flags", cu.UserObjectCreate(&object, NULL, destructor, 1, 0),
           CUDA_ERROR_INVALID_VALUE);
    object = user_object(1);
    expect("retain_none", cu.UserObjectRetain(object, 0), CUDA_ERROR_INVALID_VALUE);
    expect("release_none", cu.UserObjectRelease(object, 0), CUDA_ERROR_INVALID_VALUE);
    expect("retain_null", cu.UserObjectRetain(NULL, 1), CUDA_ERROR_INVALID_VALUE);
    expect("graph_none", cu.GraphRetainUserObject(graph, object, 0, 0), CUDA_ERROR_INVALID_VALUE);
    expect("graph_flags", cu.GraphRetainUserObject(graph, object, 1, 8), CUDA_ERROR_INVALID_VALUE);
    expect("graph_null", cu.GraphRetainUserObject(NULL, object, 1, 0), CUDA_ERROR_INVALID_VALUE);
    expect("graph_retain", cu.GraphRetainUserObject(graph, object, 1, 0), CUDA_SUCCESS);
    observe("graph_release_too_many", cu.GraphReleaseUserObject(graph, object, 2));
    expect("release", cu.UserObjectRelease(object, 1), CUDA_SUCCESS);
    observe_yes("destroyed", flag_awaited(&destroyed, 100));
}

static void user_object_destroyed(void)
{
    CUuserObject object = user_object(1);
    expect("retain", cu.UserObjectRetain(object, 2), CUDA_SUCCESS);
    expect("release", cu.UserObjectRelease(object, 2), CUDA_SUCCESS);
    expect_yes("yet", flag_awaited(&destroyed, 50), 0);
    expect("release_last", cu.UserObjectRelease(object, 1), CUDA_SUCCESS);
    expect_yes("destroyed", flag_awaited(&destroyed, RETURNS_MS), 1);
    expect("call_inside", in_destructor, CUDA_ERROR_NOT_PERMITTED);
    observe_yes("another_thread", pthread_equal(destroyer, pthread_self()) == 0);
}

/* Graph, clone and executable graph hold it each; and a launch that runs. */
static void user_object_holders(void)
{
    CUgraph graph = graph_new();
    CUgraph clone = NULL;
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    struct gate *gate = gate_new();
    CUuserObject object = user_object(1);
    (void)node_set(graph, at, 1, 16, NULL, 0);
    expect("move", cu.GraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE),
           CUDA_SUCCESS);
    expect("clone", cu.GraphClone(&clone, graph), CUDA_SUCCESS);
    CUgraphExec exec = exec_new(graph);
    expect("destroy", cu.GraphDestroy(graph), CUDA_SUCCESS);
    expect_yes("after_graph", flag_awaited(&destroyed, 50), 0);
    gate_close(gate, stream);
    expect("launch", cu.GraphLaunch(exec, stream), CUDA_SUCCESS);
    expect("destroy_clone", cu.GraphDestroy(clone), CUDA_SUCCESS);
    expect_yes("after_clone", flag_awaited(&destroyed, 50), 0);
    expect("destroy_exec", cu.GraphExecDestroy(exec), CUDA_SUCCESS);
    expect_yes("while_it_runs", flag_awaited(&destroyed, 100), 0);
    gate_open(gate);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_yes("after_launch", flag_awaited(&destroyed, RETURNS_MS), 1);
}

/* Does a child's copy hold what the child held, and does a later retain reach an exec? */
static void user_object_of_child(void)
{
    CUgraph graph = graph_new();
    CUgraph child = graph_new();
    CUgraphNode node = NULL;
    CUuserObject object = user_object(1);
    expect("move", cu.GraphRetainUserObject(child, object, 1, CU_GRAPH_USER_OBJECT_MOVE),
           CUDA_SUCCESS);
    expect("add", cu.GraphAddChildGraphNode(&node, graph, NULL, 0, child), CUDA_SUCCESS);
    expect("destroy_child", cu.GraphDestroy(child), CUDA_SUCCESS);
    expect_yes("held_by_node", !flag_awaited(&destroyed, 50), 1);
    CUgraphExec exec = exec_new(graph);
    expect("destroy_node", cu.GraphDestroyNode(node), CUDA_SUCCESS);
    expect_yes("held_by_exec", !flag_awaited(&destroyed, 50), 1);
    expect("destroy_exec", cu.GraphExecDestroy(exec), CUDA_SUCCESS);
    expect_yes("destroyed", flag_awaited(&destroyed, RETURNS_MS), 1);
    expect("destroy", cu.GraphDestroy(graph), CUDA_SUCCESS);
    expect_yes("at_last", flag_awaited(&destroyed, RETURNS_MS), 1);
}

static void user_object_of_graph_only(void)
{
    CUgraph graph = graph_new();
    CUgraphExec exec = exec_new(graph);
    CUuserObject object = user_object(1);
    expect("retain", cu.GraphRetainUserObject(graph, object, 2, 0), CUDA_SUCCESS);
    expect("release_own", cu.UserObjectRelease(object, 1), CUDA_SUCCESS);
    expect_yes("held", flag_awaited(&destroyed, 50), 0);
    expect("release_one", cu.GraphReleaseUserObject(graph, object, 1), CUDA_SUCCESS);
    expect_yes("still", flag_awaited(&destroyed, 50), 0);
    expect("release_other", cu.GraphReleaseUserObject(graph, object, 1), CUDA_SUCCESS);
    expect_yes("exec_does_not_hold", flag_awaited(&destroyed, RETURNS_MS), 1);
    expect("destroy_exec", cu.GraphExecDestroy(exec), CUDA_SUCCESS);
}

/* An update exchanges what is held. */
static void user_object_after_update(void)
{
    CUgraph graph = graph_new();
    CUgraph other = graph_new();
    CUgraphExecUpdateResultInfo info;
    CUuserObject object = user_object(1);
    need("move", cu.GraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    CUgraphExec exec = exec_new(graph);
    need("destroy", cu.GraphDestroy(graph));
    expect_yes("held", flag_awaited(&destroyed, 50), 0);
    expect("update", cu.GraphExecUpdate(exec, other, &info), CUDA_SUCCESS);
    observe_yes("let_go", flag_awaited(&destroyed, 500));
    expect("destroy_exec", cu.GraphExecDestroy(exec), CUDA_SUCCESS);
    expect_yes("at_last", flag_awaited(&destroyed, RETURNS_MS), 1);
}

static int destroyed_by_now(void)
{
    return __atomic_exchange_n(&destroyed, 0, __ATOMIC_ACQ_REL) != 0;
}

/* A graph, or an executable graph alone, that holds the only reference to a user object. */
static CUgraph graph_holding(void)
{
    CUgraph graph = graph_new();
    (void)node_empty(graph, NULL, 0);
    need("move", cu.GraphRetainUserObject(graph, user_object(1), 1, CU_GRAPH_USER_OBJECT_MOVE));
    return graph;
}

static CUgraphExec exec_holding(void)
{
    CUgraph graph = graph_holding();
    CUgraphExec exec = exec_new(graph);
    need("destroy", cu.GraphDestroy(graph));
    return exec;
}

/* Does a destructor run inside the call that lets the last reference go, and in which thread? */
static void user_object_when(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    struct gate *gate = gate_new();
    expect("release", cu.UserObjectRelease(user_object(1), 1), CUDA_SUCCESS);
    observe_yes("in_release", destroyed_by_now());
    (void)flag_awaited(&destroyed, 100);
    (void)destroyed_by_now();
    expect("destroy", cu.GraphDestroy(graph_holding()), CUDA_SUCCESS);
    observe_yes("in_destroy", destroyed_by_now());
    (void)flag_awaited(&destroyed, 100);
    (void)destroyed_by_now();
    expect("destroy_exec", cu.GraphExecDestroy(exec_holding()), CUDA_SUCCESS);
    observe_yes("in_destroy_exec", destroyed_by_now());
    (void)flag_awaited(&destroyed, 100);
    (void)destroyed_by_now();
    CUgraphExec exec = exec_holding();
    gate_close(gate, stream);
    need("launch", cu.GraphLaunch(exec, stream));
    need("destroy exec", cu.GraphExecDestroy(exec));
    gate_open(gate);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    observe_yes("in_sync", __atomic_load_n(&destroyed, __ATOMIC_ACQUIRE) != 0);
    expect_yes("after_launch", flag_awaited(&destroyed, RETURNS_MS), 1);
    observe_yes("another_thread", pthread_equal(destroyer, pthread_self()) == 0);
}

/* ---- what is gone or switched off ----------------------------------------------------------- */

static void launch_with_event_destroyed(void)
{
    CUgraph graph = graph_new();
    CUgraphNode node = NULL;
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    need("record node", cu.GraphAddEventRecordNode(&node, graph, NULL, 0, event));
    CUgraphExec exec = exec_new(graph);
    expect("destroy", cu.EventDestroy(event), CUDA_SUCCESS);
    observe("launch", cu.GraphLaunch(exec, stream));
    observe("sync", cu.StreamSynchronize(stream));
}

static void node_switched_off(void)
{
    CUgraph graph = graph_new();
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    chunk_clear(at);
    CUgraphNode first = node_set(graph, at, 1, 16, NULL, 0);
    (void)node_set(graph, at + 64, 1, 16, &first, 1);
    CUgraphExec exec = exec_new(graph);
    expect("off", cu.GraphNodeSetEnabled(exec, first, 0), CUDA_SUCCESS);
    need("launch", cu.GraphLaunch(exec, stream));
    need("sync", cu.StreamSynchronize(stream));
    expect_number("not_run", byte_at(at), 0);
    expect_number("run", byte_at(at + 64), 1);
    expect("on", cu.GraphNodeSetEnabled(exec, first, 1), CUDA_SUCCESS);
    need("launch", cu.GraphLaunch(exec, stream));
    need("sync", cu.StreamSynchronize(stream));
    expect_number("run_again", byte_at(at), 1);
}

const struct scenario graph_launch_scenarios[] = {
    {"exec_is_a_copy", exec_is_a_copy, 0},
    {"exec_destroyed_while_it_runs", exec_destroyed_while_it_runs, 0},
    {"instantiate_arguments", instantiate_arguments, 0},
    {"launch_order", launch_order, 0},
    {"launches_of_one_exec", launches_of_one_exec, 0},
    {"edges_order_nodes", edges_order_nodes, 0},
    {"launch_in_default_stream", launch_in_default_stream, 0},
    {"graph_records_event", graph_records_event, 0},
    {"graph_waits_for_event", graph_waits_for_event, 0},
    {"graph_waits_for_the_record_at_the_launch", graph_waits_for_the_record_at_the_launch, 0},
    {"host_nodes", host_nodes, 0},
    {"exec_updates", exec_updates, 0},
    {"user_object_arguments", user_object_arguments, 0},
    {"user_object_destroyed", user_object_destroyed, 0},
    {"user_object_holders", user_object_holders, 0},
    {"user_object_of_child", user_object_of_child, 0},
    {"user_object_of_graph_only", user_object_of_graph_only, 0},
    {"user_object_after_update", user_object_after_update, 0},
    {"user_object_when", user_object_when, 0},
    {"launch_with_event_destroyed", launch_with_event_destroyed, 0},
    {"node_switched_off", node_switched_off, 0},
    {NULL, NULL, 0},
};
