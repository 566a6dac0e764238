/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs. Their nodes are read when a graph is instantiated or updated. A launch is one piece of
 * work that uses what the nodes name. Memory that was allocated in a capture is the graph's own,
 * has lives of its own, and is not followed. What happens inside, between the nodes, is not
 * followed either.
 *
 * A graph is given blocks, not addresses. So a launch after one of them was freed is found, even if
 * another block lies there by then. An event that a node records stands for the end of the launch.
 * An event that a node waits for stands for the beginning. If there are host functions, the host
 * may know of the launch at any time. All of this assumes more order than there is.
 *
 * If the program changes an executable's nodes one by one, the executable is no longer known: its
 * launches are counted as not read.
 */
#include <stdlib.h>

#include "check/findings.h"
#include "check/launch.h"
#include "check/python.h"
#include "check/rules.h"
#include "check/sole.h"
#include "check/words.h"
#include "handles.h"
#include "service.h"

enum { DEPTH_MAX = 32 };

/* An address that a node names. */
typedef struct mention {
    CUdeviceptr address;
    uint64_t serial; /* of the block; 0: what was there then is not followed */
    int is_certain;
    const char *kernel; /* null: a copy or a set */
} mention;

typedef struct executable {
    mention *mentions;
    size_t mentions_count, mentions_room;
    CUevent *events; /* those waited for, then those recorded */
    size_t waited_count, events_count, events_room;
    int has_host, is_unread, has_unseen;
    check_moment *last; /* of its latest launch: the next one waits for it */
} executable;

static handles executables = HANDLES_INIT; /* -> executable; under the lock of check_enter */

static void executable_end(executable *exec)
{
    if (exec == NULL)
        return;
    check_moment_drop(exec->last);
    free(exec->mentions);
    free(exec->events);
    free(exec);
}

static executable *executable_find(CUgraphExec exec)
{
    uint64_t found = 0;
    (void)handles_get(&executables, exec, &found);
    return (executable *)(uintptr_t)found;
}

/* ---- reading -------------------------------------------------------------------------------- */

static void mention_add(executable *to, CUdeviceptr address, int is_certain, const char *kernel)
{
    const check_block *block = check_block_live(address);
    if (block == NULL || (block->is_engine && !check_is_put_under()) ||
        service_of_address(address) == NULL)
        return;
    if (to->mentions_count == to->mentions_room) {
        size_t room = to->mentions_room * 2 + 16;
        mention *grown = realloc(to->mentions, room * sizeof(*grown));
        to->is_unread |= grown == NULL;
        if (grown == NULL)
            return;
        to->mentions = grown;
        to->mentions_room = room;
    }
    to->mentions[to->mentions_count++] = (mention){address, block->serial, is_certain, kernel};
}

static void event_add(executable *to, CUevent event, int is_wait)
{
    if (to->events_count == to->events_room) {
        size_t room = to->events_room * 2 + 4;
        CUevent *grown = realloc(to->events, room * sizeof(CUevent));
        to->is_unread |= grown == NULL;
        if (grown == NULL)
            return;
        to->events = grown;
        to->events_room = room;
    }
    to->events[to->events_count++] = event;
    if (!is_wait)
        return;
    /* To the end of those that are waited for. */
    to->events[to->events_count - 1] = to->events[to->waited_count];
    to->events[to->waited_count++] = event;
}

typedef struct kernel_reading {
    executable *exec;
    const char *name;
} kernel_reading;

static void kernel_words(void *user, const check_word *words, size_t count)
{
    const kernel_reading *self = user;
    for (size_t i = 0; i < count; i++)
        mention_add(self->exec, words[i].address, words[i].is_certain, self->name);
}

static void read_kernel(executable *to, CUgraphNode node)
{
    CUDA_KERNEL_NODE_PARAMS params = {.func = NULL};
    to->is_unread |= REAL(cuGraphKernelNodeGetParams_v2, (node, &params)) != CUDA_SUCCESS;
    const void *function = (const void *)params.func;
    if (function == NULL && params.kern != NULL) {
        check_kernel_known(params.kern);
        function = (const void *)params.kern;
    }
    check_layout_ask(function);
    if (function == NULL || !check_enter())
        return;
    kernel_reading self = {to, check_kernel_name(function)};
    to->is_unread |=
        !check_words_each(function, params.kernelParams, params.extra, kernel_words, &self);
    check_leave();
}

static void read_operands(executable *to, CUdeviceptr first, CUdeviceptr second)
{
    if (!check_enter())
        return;
    mention_add(to, first, 1, NULL);
    mention_add(to, second, 1, NULL);
    check_leave();
}

static void read_copy(executable *to, CUgraphNode node)
{
    CUDA_MEMCPY3D copy = {.WidthInBytes = 0};
    if (REAL(cuGraphMemcpyNodeGetParams, (node, &copy)) != CUDA_SUCCESS)
        to->is_unread = 1;
    else
        read_operands(to, copy.dstMemoryType == CU_MEMORYTYPE_HOST ? 0 : copy.dstDevice,
                      copy.srcMemoryType == CU_MEMORYTYPE_HOST ? 0 : copy.srcDevice);
}

static void read_set(executable *to, CUgraphNode node)
{
    CUDA_MEMSET_NODE_PARAMS set = {.dst = 0};
    if (REAL(cuGraphMemsetNodeGetParams, (node, &set)) != CUDA_SUCCESS)
        to->is_unread = 1;
    else
        read_operands(to, set.dst, 0);
}

static void read_event(executable *to, CUgraphNode node, int is_wait)
{
    CUevent event = NULL;
    CUresult result = is_wait ? REAL(cuGraphEventWaitNodeGetEvent, (node, &event))
                              : REAL(cuGraphEventRecordNodeGetEvent, (node, &event));
    if (result == CUDA_SUCCESS)
        event_add(to, event, is_wait);
    else
        to->has_unseen = 1;
}

static void read_graph(executable *to, CUgraph graph, unsigned depth);

static void read_node(executable *to, CUgraphNode node, unsigned depth)
{
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CUgraph child = NULL;
    if (REAL(cuGraphNodeGetType, (node, &type)) != CUDA_SUCCESS)
        to->is_unread = to->has_unseen = 1;
    switch ((int)type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        read_kernel(to, node);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        read_copy(to, node);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        read_set(to, node);
        break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        read_event(to, node, type == CU_GRAPH_NODE_TYPE_WAIT_EVENT);
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
        to->has_host = 1;
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        if (REAL(cuGraphChildGraphNodeGetGraph, (node, &child)) == CUDA_SUCCESS)
            read_graph(to, child, depth + 1);
        else
            to->is_unread = to->has_unseen = 1;
        break;
    case CU_GRAPH_NODE_TYPE_EMPTY:
        break;
    default: /* bodies, memory of the driver's own, semaphores and values that are waited for */
        to->is_unread = 1;
        to->has_unseen |= type != CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
                          type != CU_GRAPH_NODE_TYPE_MEM_FREE &&
                          type != CU_GRAPH_NODE_TYPE_CONDITIONAL;
        break;
    }
}

static void read_graph(executable *to, CUgraph graph, unsigned depth)
{
    size_t count = 0;
    CUgraphNode *nodes = NULL;
    CUresult result = REAL(cuGraphGetNodes, (graph, NULL, &count));
    if (result == CUDA_SUCCESS && count > 0 && depth < DEPTH_MAX)
        nodes = malloc(count * sizeof(CUgraphNode));
    if (nodes != NULL)
        result = REAL(cuGraphGetNodes, (graph, nodes, &count));
    if (result != CUDA_SUCCESS || (nodes == NULL && count > 0))
        to->is_unread = to->has_unseen = 1;
    else
        for (size_t i = 0; i < count; i++)
            read_node(to, nodes[i], depth);
    free(nodes);
}

/* ---- the calls ------------------------------------------------------------------------------ */

void check_instantiated(CUgraphExec exec, CUgraph graph)
{
    uint64_t before = 0;
    executable *fresh = calloc(1, sizeof(*fresh));
    check_sole_ends();
    if (fresh != NULL)
        read_graph(fresh, graph, 0);
    if (!check_enter()) {
        executable_end(fresh);
        return;
    }
    if (fresh == NULL || fresh->is_unread)
        check_words_blind();
    if (handles_take(&executables, exec, &before)) {
        executable *old = (executable *)(uintptr_t)before;
        if (fresh != NULL)
            fresh->last = check_moment_share(old->last);
        executable_end(old);
    }
    if (fresh != NULL)
        handles_set(&executables, exec, (uint64_t)(uintptr_t)fresh);
    check_leave();
}

/* Its nodes are others by now; its events may be. */
void check_exec_changed(CUgraphExec handle)
{
    if (!check_enter())
        return;
    executable *exec = executable_find(handle);
    check_words_blind();
    if (exec != NULL) {
        exec->is_unread = 1;
        exec->has_unseen |= exec->events_count > 0;
        exec->mentions_count = 0;
    }
    check_leave();
}

void check_exec_ends(CUgraphExec handle)
{
    uint64_t found = 0;
    if (!check_enter())
        return;
    if (handles_take(&executables, handle, &found))
        executable_end((executable *)(uintptr_t)found);
    check_leave();
}

static void launch_events(const executable *exec, const check_stream *stream)
{
    for (size_t i = exec->waited_count; i < exec->events_count; i++)
        check_event_set(exec->events[i], check_moment_of(stream));
}

static void launch_uses(const executable *exec, check_work *work, check_stack *stack)
{
    for (size_t i = 0; i < exec->mentions_count; i++) {
        const mention *one = &exec->mentions[i];
        work->touch.place = check_place_of("cuGraphLaunch", one->kernel, stack);
        check_use_of_graph(work, one->address, one->serial, one->is_certain);
    }
}

void check_graph_launched(CUgraphExec handle, CUstream on)
{
    check_work work;
    check_stack room, stack = {.count = 0};
    if (check_does(CHECK_REPORTS))
        stack = check_stack_copy(check_stack_whole(&room)); /* there are more places than one */
    check_name name = check_name_of(on);
    if (name.is_capturing || !check_enter())
        return;
    executable *exec = executable_find(handle);
    check_stream *stream = check_stream_find(&name);
    for (size_t i = 0; exec != NULL && stream != NULL && i < exec->waited_count; i++)
        check_stream_follow(stream, check_event_get(exec->events[i]));
    if (exec != NULL && stream != NULL)
        check_stream_follow(stream, exec->last);
    check_count_launch(exec != NULL && !exec->is_unread);
    if ((exec == NULL || exec->has_unseen) && check_unseen_means == NULL)
        check_unseen_means = "nodes of graphs that were not read";
    if (exec != NULL &&
        check_work_begin(&work, &name, check_place_of("cuGraphLaunch", NULL, &stack))) {
        launch_uses(exec, &work, &stack);
        launch_events(exec, work.stream);
        check_moment_drop(exec->last);
        exec->last = check_moment_of(work.stream);
        if (exec->has_host)
            check_host_saw(work.stream, work.stream->done);
    }
    check_leave();
}
