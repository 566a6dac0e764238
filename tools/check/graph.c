/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs. Their nodes are read when a graph is instantiated or updated, and a node when it is
 * changed in an executable. A launch is one piece of work that uses what the nodes name. Memory
 * that was allocated in a capture is the graph's own, has lives of its own, and is not followed
 * inside of graphs (rules.c has its use outside). What happens between the nodes is not followed
 * either, but for the order that events of nodes make with work outside: parts.h.
 *
 * A graph is given blocks, not addresses. So a launch after one of them was freed is found, even if
 * another block lies there by then. If a node leads to freed memory when it is read, it was given
 * the block that was freed. If there are host functions, the host may know of the launch at any
 * time: that assumes more order than there is.
 */
#include <stdlib.h>

#include "check/findings.h"
#include "check/launch.h"
#include "check/parts.h"
#include "check/python.h"
#include "check/rules.h"
#include "check/sole.h"
#include "check/visible.h"
#include "check/words.h"
#include "handles.h"
#include "service.h"

enum { DEPTH_MAX = 32 };

/* An address that a node names. */
typedef struct mention {
    CUgraphNode node;
    CUdeviceptr address;
    uint64_t serial;    /* of the block */
    const char *kernel; /* null: a copy or a set */
    const check_part *part;
    uint8_t is_certain;
    uint8_t is_off; /* the node is there, and does nothing */
} mention;

typedef struct executable {
    mention *mentions;
    size_t mentions_count, mentions_room;
    check_parts parts;
    uint8_t has_host, is_unread, has_unseen;
    uint8_t is_open;    /* a node waits for a value in memory, or for a semaphore */
    uint8_t is_polled;  /* a node writes memory that the host can read */
    uint8_t has_nested; /* there are child graphs, */
    uint8_t is_updated; /* or it has been updated: then nodes are not known by their handles */
    check_moment *last; /* of its latest launch: the next one waits for it */
} executable;

/* Reads the nodes of a graph. */
typedef struct reader {
    executable *to;
    CUgraphNode node;
    const char *kernel; /* whose parameters are being read */
} reader;

static handles executables = HANDLES_INIT; /* -> executable; under the lock of check_enter */

static void executable_end(executable *exec)
{
    if (exec == NULL)
        return;
    check_moment_drop(exec->last);
    check_parts_end(&exec->parts);
    free(exec->parts.events);
    free(exec->mentions);
    free(exec);
}

static executable *executable_find(CUgraphExec exec)
{
    uint64_t found = 0;
    (void)handles_get(&executables, exec, &found);
    return (executable *)(uintptr_t)found;
}

/* ---- lists ---------------------------------------------------------------------------------- */

/* Without memory the executable is not known whole. */
static void mention_put(executable *to, const mention *one)
{
    if (to->mentions_count == to->mentions_room) {
        size_t room = to->mentions_room * 2 + 8;
        mention *grown = realloc(to->mentions, room * sizeof(*grown));
        if (grown == NULL) {
            to->is_unread = to->has_unseen = 1;
            return;
        }
        to->mentions = grown;
        to->mentions_room = room;
    }
    to->mentions[to->mentions_count++] = *one;
}

/* What the node named is named no more. */
static void node_forget(executable *exec, CUgraphNode node)
{
    size_t kept = 0;
    for (size_t i = 0; i < exec->mentions_count; i++)
        if (exec->mentions[i].node != node)
            exec->mentions[kept++] = exec->mentions[i];
    exec->mentions_count = kept;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

/* Between check_enter and check_leave. */
static void mention_add(const reader *self, CUdeviceptr address, int is_certain)
{
    const check_block *block = check_block_at(address);
    if (block == NULL || block->is_graph || (block->is_engine && !check_is_put_under()) ||
        service_of_address(address) == NULL)
        return;
    if (!block->is_live && check_is_live(address)) /* of what is not followed */
        return;
    mention_put(self->to, &(mention){.node = self->node,
                                     .address = address,
                                     .serial = block->serial,
                                     .kernel = self->kernel,
                                     .is_certain = is_certain != 0});
}

static void kernel_words(void *user, const check_word *words, size_t count)
{
    const reader *self = user;
    for (size_t i = 0; i < count; i++)
        mention_add(self, words[i].address, words[i].is_certain);
}

static void read_kernel(reader *self, const CUDA_KERNEL_NODE_PARAMS *params)
{
    const void *function = (const void *)params->func;
    if (function == NULL && params->kern != NULL) {
        check_kernel_known(params->kern);
        function = (const void *)params->kern;
    }
    check_layout_ask(function);
    if (function == NULL || !check_enter())
        return;
    self->kernel = check_kernel_name(function);
    unsigned read =
        check_words_each(function, params->kernelParams, params->extra, kernel_words, self);
    self->to->is_unread |= (read & CHECK_WORDS_READ) == 0;
    self->to->is_polled |= (read & CHECK_WORDS_VISIBLE) != 0;
    check_leave();
}

static void read_operands(reader *self, check_span to, check_span from)
{
    if (!check_enter())
        return;
    self->kernel = NULL;
    if (to.bytes > 0)
        mention_add(self, to.address, 1);
    if (from.bytes > 0)
        mention_add(self, from.address, 1);
    self->to->is_polled |= to.bytes > 0 && check_is_visible(to.address);
    check_leave();
}

static void read_set(reader *self, const CUDA_MEMSET_NODE_PARAMS *set)
{
    size_t row = set->width * set->elementSize;
    int is_empty = row == 0 || set->height == 0;
    read_operands(self,
                  (check_span){set->dst, is_empty ? 0 : (set->height - 1) * set->pitch + row, 0},
                  (check_span){0, 0, 0});
}

static void read_values(reader *self, unsigned count, const CUstreamBatchMemOpParams *list)
{
    for (unsigned i = 0; i < count; i++) {
        int operation = (int)list[i].operation;
        if (operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES ||
            operation == CU_STREAM_MEM_OP_BARRIER)
            continue;
        int is_wait = operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
                      operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
        check_span at = {list[i].writeValue.address, sizeof(cuuint32_t), 0}, none = {0, 0, 0};
        self->to->is_open |= is_wait != 0;
        read_operands(self, is_wait ? none : at, is_wait ? at : none);
    }
}

static void read_event(reader *self, CUevent event, int is_wait)
{
    if (!check_parts_event(&self->to->parts, self->node, event, is_wait))
        self->to->has_unseen = 1;
}

static void is_not_read(reader *self)
{
    self->to->is_unread = self->to->has_unseen = 1;
}

/* ---- graphs --------------------------------------------------------------------------------- */

static void ask_kernel(reader *self)
{
    CUDA_KERNEL_NODE_PARAMS params = {.func = NULL};
    if (REAL(cuGraphKernelNodeGetParams_v2, (self->node, &params)) == CUDA_SUCCESS)
        read_kernel(self, &params);
    else
        self->to->is_unread = 1;
}

static void ask_copy(reader *self)
{
    CUDA_MEMCPY3D copy = {.WidthInBytes = 0};
    if (REAL(cuGraphMemcpyNodeGetParams, (self->node, &copy)) == CUDA_SUCCESS)
        read_operands(self, check_to_of_3d(&copy), check_from_of_3d(&copy));
    else
        self->to->is_unread = 1;
}

static void ask_set(reader *self)
{
    CUDA_MEMSET_NODE_PARAMS set = {.dst = 0};
    if (REAL(cuGraphMemsetNodeGetParams, (self->node, &set)) == CUDA_SUCCESS)
        read_set(self, &set);
    else
        self->to->is_unread = 1;
}

static void ask_event(reader *self, int is_wait)
{
    CUevent event = NULL;
    CUresult result = is_wait ? REAL(cuGraphEventWaitNodeGetEvent, (self->node, &event))
                              : REAL(cuGraphEventRecordNodeGetEvent, (self->node, &event));
    if (result == CUDA_SUCCESS)
        read_event(self, event, is_wait);
    else
        self->to->has_unseen = 1;
}

static void ask_values(reader *self)
{
    CUDA_BATCH_MEM_OP_NODE_PARAMS params = {.count = 0};
    if (REAL(cuGraphBatchMemOpNodeGetParams, (self->node, &params)) == CUDA_SUCCESS)
        read_values(self, params.count, params.paramArray);
    else
        is_not_read(self);
}

static void read_graph(executable *to, CUgraph graph, unsigned depth);

static void read_child(executable *to, CUgraphNode node, unsigned depth)
{
    CUgraph child = NULL;
    to->has_nested = 1;
    if (REAL(cuGraphChildGraphNodeGetGraph, (node, &child)) == CUDA_SUCCESS)
        read_graph(to, child, depth + 1);
    else
        to->is_unread = to->has_unseen = 1;
}

static void read_node(executable *to, CUgraphNode node, unsigned depth)
{
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    reader self = {to, node, NULL};
    if (REAL(cuGraphNodeGetType, (node, &type)) != CUDA_SUCCESS)
        is_not_read(&self);
    switch ((int)type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        ask_kernel(&self);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        ask_copy(&self);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        ask_set(&self);
        break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        ask_event(&self, type == CU_GRAPH_NODE_TYPE_WAIT_EVENT);
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        ask_values(&self);
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
        to->has_host = 1;
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        read_child(to, node, depth);
        break;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        to->is_open = 1;
        break;
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
        break;
    default: /* bodies, and memory of the driver's own */
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
    CUgraphNode *nodes = depth < DEPTH_MAX ? check_graph_nodes(graph, &count) : NULL;
    if (nodes == NULL && (count > 0 || depth == DEPTH_MAX))
        to->is_unread = to->has_unseen = 1;
    for (size_t i = 0; i < count && nodes != NULL; i++)
        read_node(to, nodes[i], depth);
    free(nodes);
}

/* ---- executables that are made and changed -------------------------------------------------- */

static void executable_part(executable *exec)
{
    check_parts_make(&exec->parts);
    for (size_t i = 0; i < exec->mentions_count; i++)
        exec->mentions[i].part = check_parts_find(&exec->parts, exec->mentions[i].node);
}

void check_instantiated(CUgraphExec exec, CUgraph graph)
{
    uint64_t before = 0;
    executable *fresh = calloc(1, sizeof(*fresh));
    check_sole_ends();
    if (fresh != NULL) {
        read_graph(fresh, graph, 0);
        if (check_does(CHECK_REPORTS))
            check_parts_read(&fresh->parts, graph);
    }
    if (!check_enter()) {
        executable_end(fresh);
        return;
    }
    if (fresh != NULL)
        executable_part(fresh);
    if (fresh == NULL || fresh->is_unread)
        check_words_blind();
    if (handles_take(&executables, exec, &before)) {
        executable *old = (executable *)(uintptr_t)before;
        if (fresh != NULL) {
            fresh->last = check_moment_share(old->last);
            fresh->is_updated = 1;
        }
        executable_end(old);
    }
    if (fresh != NULL)
        handles_set(&executables, exec, (uint64_t)(uintptr_t)fresh);
    check_leave();
}

/* The node is what was read into `from`. Where nodes are not known by their handles, what the
 * executable uses is not known any more. */
static void exec_change(CUgraphExec handle, CUgraphNode node, executable *from)
{
    if (check_enter()) {
        executable *exec = executable_find(handle);
        if (from->is_unread)
            check_words_blind();
        if (exec != NULL && (exec->has_nested || exec->is_updated || from->has_nested)) {
            exec->is_unread = 1;
            exec->has_unseen |= exec->parts.events_count > 0;
            exec->mentions_count = 0;
            check_words_blind();
        } else if (exec != NULL) {
            node_forget(exec, node);
            for (size_t i = 0; i < from->mentions_count; i++) {
                from->mentions[i].part = check_parts_find(&exec->parts, node);
                mention_put(exec, &from->mentions[i]);
            }
            for (size_t i = 0; i < from->parts.events_count; i++)
                check_parts_event_set(&exec->parts, node, from->parts.events[i].event);
            exec->is_open |= from->is_open;
            exec->is_polled |= from->is_polled;
            exec->is_unread |= from->is_unread;
            exec->has_unseen |= from->has_unseen;
        }
        check_leave();
    }
    free(from->mentions);
    free(from->parts.events);
}

void check_exec_kernel(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
    executable fresh = {.mentions = NULL};
    read_kernel(&(reader){&fresh, node, NULL}, params);
    exec_change(exec, node, &fresh);
}

void check_exec_copy(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy)
{
    executable fresh = {.mentions = NULL};
    read_operands(&(reader){&fresh, node, NULL}, check_to_of_3d(copy), check_from_of_3d(copy));
    exec_change(exec, node, &fresh);
}

void check_exec_set(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *set)
{
    executable fresh = {.mentions = NULL};
    read_set(&(reader){&fresh, node, NULL}, set);
    exec_change(exec, node, &fresh);
}

void check_exec_values(CUgraphExec exec, CUgraphNode node, unsigned count,
                       const CUstreamBatchMemOpParams *list)
{
    executable fresh = {.mentions = NULL};
    read_values(&(reader){&fresh, node, NULL}, count, list);
    exec_change(exec, node, &fresh);
}

void check_exec_event(CUgraphExec exec, CUgraphNode node, CUevent event, int is_wait)
{
    executable fresh = {.mentions = NULL};
    read_event(&(reader){&fresh, node, NULL}, event, is_wait);
    exec_change(exec, node, &fresh);
}

void check_exec_child(CUgraphExec exec, CUgraphNode node)
{
    executable fresh = {.has_nested = 1};
    exec_change(exec, node, &fresh);
}

void check_exec_changed(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *params)
{
    const CUstreamBatchMemOpParams *values = params->memOp.paramArray;
    CUDA_KERNEL_NODE_PARAMS kernel = {.func = params->kernel.func,
                                      .kern = params->kernel.kern,
                                      .kernelParams = params->kernel.kernelParams,
                                      .extra = params->kernel.extra};
    CUDA_MEMSET_NODE_PARAMS set = {.dst = params->memset.dst,
                                   .pitch = params->memset.pitch,
                                   .elementSize = params->memset.elementSize,
                                   .width = params->memset.width,
                                   .height = params->memset.height};
    switch ((int)params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        check_exec_kernel(exec, node, &kernel);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        check_exec_copy(exec, node, &params->memcpy.copyParams);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        check_exec_set(exec, node, &set);
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        check_exec_values(exec, node, params->memOp.count, values);
        break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        check_exec_event(exec, node, params->eventWait.event, 1);
        break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        check_exec_event(exec, node, params->eventRecord.event, 0);
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        break; /* of such nodes only that they are there is known, and they were before */
    default:
        check_exec_child(exec, node);
        break;
    }
}

void check_exec_enabled(CUgraphExec handle, CUgraphNode node, int is_enabled)
{
    if (!check_enter())
        return;
    executable *exec = executable_find(handle);
    int is_known = exec != NULL && !exec->has_nested && !exec->is_updated;
    for (size_t i = 0; is_known && i < exec->mentions_count; i++)
        if (exec->mentions[i].node == node)
            exec->mentions[i].is_off = !is_enabled;
    check_leave();
    if (exec != NULL && !is_known)
        check_exec_child(handle, node);
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

/* ---- launches ------------------------------------------------------------------------------- */

static void launch_uses(const executable *exec, const check_work *work, check_stack *stack)
{
    for (size_t i = 0; i < exec->mentions_count; i++) {
        const mention *one = &exec->mentions[i];
        if (one->is_off)
            continue;
        check_work part = *work;
        part.touch.place = check_place_of("cuGraphLaunch", one->kernel, stack);
        if (one->part != NULL) {
            part.stream = one->part->stream;
            part.touch.index = part.stream->index;
            part.touch.number = part.stream->done;
        }
        check_use_of_graph(&part, one->address, one->serial, one->is_certain);
    }
}

/* What the launch waits for. */
static void launch_begin(const executable *exec, check_stream *stream, const check_place *place)
{
    if (exec == NULL || exec->has_unseen)
        check_unseen_note("the program launches graphs with nodes that were not read", place, 0);
    if (exec == NULL || stream == NULL)
        return;
    if (exec->is_open || exec->has_unseen) {
        check_stream_open(stream);
        check_unseen_note(check_means_values, place, stream->name);
    }
    check_stream_follow(stream, exec->last);
    check_parts_begin(&exec->parts, stream);
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
    const check_place *place = check_place_of("cuGraphLaunch", NULL, &stack);
    launch_begin(exec, check_stream_find(&name), place);
    check_count_launch(exec != NULL && !exec->is_unread);
    if (exec != NULL && check_work_begin(&work, &name, place)) {
        launch_uses(exec, &work, &stack);
        check_parts_record(&exec->parts, work.stream);
        check_moment_drop(exec->last);
        exec->last = check_moment_of(work.stream);
        if (exec->has_host)
            check_host_saw(work.stream, work.stream->done);
        else if (exec->is_polled)
            check_host_may_poll(work.stream, 1);
    }
    check_leave();
}
