/* SPDX-License-Identifier: Apache-2.0 */
/* What programs do with handles, threads and graphs every day, and the same with the one mistake
 * that is easily made there. */
#include <pthread.h>

#include "zoo.h"

enum { TURNS = 6, LINKS = 60, THREADS = 4, LAUNCHES = 8 };

static CUevent event_make(void)
{
    CUevent event;
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

/* A block that the second stream uses after its allocation. */
static CUdeviceptr made_and_used(void)
{
    CUdeviceptr block = make(the.a);
    wait_for(the.a, the.b);
    touch(block, the.b);
    return block;
}

static CUdeviceptr made_for_all(void)
{
    CUdeviceptr block = make(the.a);
    MUST(cuStreamSynchronize(the.a));
    return block;
}

/* ---- handles -------------------------------------------------------------------------------- */

/* An event is recorded for the use, and once more on another stream before it is waited for. */
void animal_event_recorded_again(void)
{
    CUevent event = event_make();
    CUdeviceptr block = made_and_used();
    MUST(cuEventRecord(event, the.b));
    if (the.is_wrong)
        MUST(cuEventRecord(event, the.c));
    MUST(cuStreamWaitEvent(the.a, event, 0));
    MUST(cuMemFreeAsync(block, the.a));
}

/* An event may be destroyed once it is waited for; its handle is another's then. */
void animal_event_destroyed(void)
{
    CUevent event = event_make();
    CUdeviceptr block = made_and_used();
    MUST(cuEventRecord(event, the.b));
    if (!the.is_wrong)
        MUST(cuStreamWaitEvent(the.a, event, 0));
    MUST(cuEventDestroy(event));
    MUST(cuStreamWaitEvent(the.a, event_make(), 0));
    MUST(cuMemFreeAsync(block, the.a));
}

/* A stream is destroyed while it works. To wait for the one that has its handle is not to wait. */
void animal_stream_handle_again(void)
{
    CUstream stream;
    CUdeviceptr block = made_for_all();
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    touch(block, stream);
    if (!the.is_wrong)
        MUST(cuStreamSynchronize(stream));
    MUST(cuStreamDestroy(stream));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamSynchronize(stream));
    MUST(cuMemFreeAsync(block, the.a));
}

/* A block goes from stream to stream. */
void animal_chain_of_streams(void)
{
    CUstream streams[LINKS];
    CUdeviceptr block = make(the.a);
    for (int i = 0; i < LINKS; i++) {
        MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        wait_for(i > 0 ? streams[i - 1] : the.a, streams[i]);
        touch(block, streams[i]);
    }
    wait_for(streams[LINKS - 1 - the.is_wrong], the.c);
    MUST(cuMemFreeAsync(block, the.c));
}

/* Blocking streams wait for the default stream, which waits for them: for what it was given by
 * then. */
void animal_default_stream_between(void)
{
    CUstream first, second;
    CUdeviceptr block, other = make(NULL);
    MUST(cuStreamCreate(&first, CU_STREAM_DEFAULT));
    MUST(cuStreamCreate(&second, CU_STREAM_DEFAULT));
    block = make(first);
    if (the.is_wrong)
        MUST(cuMemsetD8Async(other, 0, 64, NULL));
    touch(block, first);
    if (!the.is_wrong)
        MUST(cuMemsetD8Async(other, 0, 64, NULL));
    MUST(cuMemFreeAsync(block, second));
}

/* The stream that frees was never made to wait, for the allocation and for what came after it: one
 * wait is missing. */
void animal_free_of_a_hand_over(void)
{
    CUdeviceptr block = make(the.a);
    MUST(cuMemsetD8Async(block, 1, BYTES, the.a));
    if (!the.is_wrong)
        wait_for(the.a, the.b);
    MUST(cuMemFreeAsync(block, the.b));
}

/* The block goes from stream to stream, and a third one frees it: it lacks the wait for the second,
 * and with that it comes after the allocation, too. */
void animal_free_on_a_third_stream(void)
{
    CUdeviceptr block = make(the.a);
    wait_for(the.a, the.b);
    touch(block, the.b);
    if (!the.is_wrong)
        wait_for(the.b, the.c);
    MUST(cuMemFreeAsync(block, the.c));
}

/* A kernel is given an address right before the block, as arrays that begin at 1 are. */
void animal_pointer_before(void)
{
    CUdeviceptr first = make(the.a), block = make(the.a), before = block - 4;
    void *params[] = {&before, &block};
    wait_for(the.a, the.b);
    MUST(cuLaunchKernel(the.both, 1, 1, 1, 1, 1, 1, 0, the.b, params, NULL));
    MUST(cuMemFreeAsync(the.is_wrong ? block : first, the.a));
}

/* A copy begins four bytes before the block. */
void animal_begins_before(void)
{
    CUdeviceptr blocks[2];
    MUST(cuMemAlloc(&blocks[0], BYTES));
    MUST(cuMemAlloc(&blocks[1], BYTES));
    CUdeviceptr higher = blocks[blocks[0] < blocks[1]];
    MUST(cuMemsetD8(higher - 4 * (CUdeviceptr)the.is_wrong, 7, 64));
    MUST(cuCtxSynchronize());
}

/* The host has seen a free that waited for a value: what is enqueued now comes after it. */
void animal_value_and_free_seen(void)
{
    void *flag;
    CUdeviceptr value, block = make(the.a);
    MUST(cuMemHostAlloc(&flag, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    MUST(cuMemHostGetDevicePointer(&value, flag, 0));
    *(volatile unsigned *)flag = 1;
    wait_for(the.a, the.b);
    MUST(cuStreamWaitValue32(the.a, value, 1, CU_STREAM_WAIT_VALUE_GEQ));
    if (!the.is_wrong) {
        MUST(cuMemsetD8Async(block, 0, 64, the.b));
        MUST(cuStreamSynchronize(the.b));
    }
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuStreamSynchronize(the.a));
    if (the.is_wrong)
        MUST(cuMemsetD8Async(block, 0, 64, the.b));
}

/* ---- races ---------------------------------------------------------------------------------- */

/* One stream fills a block and another one copies it, in turns. What the fills must wait for is the
 * copy before. */
void animal_race_in_turns(void)
{
    CUdeviceptr block = made_for_all(), out = make(the.b);
    for (int i = 0; i < TURNS; i++) {
        MUST(cuMemsetD8Async(block, 1, BYTES, the.a));
        wait_for(the.a, the.b);
        MUST(cuMemcpyDtoDAsync(out, block, BYTES, the.b));
        if (!the.is_wrong)
            wait_for(the.b, the.a);
    }
    MUST(cuCtxSynchronize());
}

/* ---- threads -------------------------------------------------------------------------------- */

static CUdeviceptr shared;
static CUevent used[THREADS];
static CUstream streams_of[THREADS];
static CUgraph captured;

static void thread_run(void *(*function)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, NULL) != 0 || pthread_join(thread, NULL) != 0)
        exit(1);
}

static void *use_in_default_stream(void *unused)
{
    MUST(cuCtxSetCurrent(the.context));
    touch(shared, CU_STREAM_PER_THREAD);
    if (!the.is_wrong)
        MUST(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return unused;
}

/* That a thread has ended says nothing of its work. */
void animal_thread_joined(void)
{
    shared = made_for_all();
    thread_run(use_in_default_stream);
    MUST(cuMemFreeAsync(shared, the.a));
}

static void *use_and_record(void *number)
{
    int i = (int)(size_t)number, is_early = the.is_wrong && i == 2;
    MUST(cuCtxSetCurrent(the.context));
    for (int turn = 0; turn < TURNS; turn++) {
        if (is_early && turn == TURNS - 1)
            MUST(cuEventRecord(used[i], streams_of[i]));
        touch(shared, streams_of[i]);
    }
    if (!is_early)
        MUST(cuEventRecord(used[i], streams_of[i]));
    return NULL;
}

/* Threads launch at once, each on its stream. */
void animal_threads_at_once(void)
{
    pthread_t threads[THREADS];
    shared = made_for_all();
    for (int i = 0; i < THREADS; i++) {
        used[i] = event_make();
        MUST(cuStreamCreate(&streams_of[i], CU_STREAM_NON_BLOCKING));
    }
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, use_and_record, (void *)(size_t)i) != 0)
            exit(1);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        MUST(cuStreamWaitEvent(the.a, used[i], 0));
    MUST(cuMemFreeAsync(shared, the.a));
}

static void *capture(void *unused)
{
    MUST(cuCtxSetCurrent(the.context));
    MUST(cuStreamBeginCapture(the.b, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    touch(shared, the.b);
    MUST(cuStreamEndCapture(the.b, &captured));
    return unused;
}

/* A thread captures; the graph is launched by another. */
void animal_graph_of_a_thread(void)
{
    CUgraphExec exec;
    shared = made_for_all();
    thread_run(capture);
    MUST(cuGraphInstantiate(&exec, captured, 0));
    MUST(cuGraphLaunch(exec, the.b));
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(shared, the.a));
}

/* ---- graphs --------------------------------------------------------------------------------- */

static CUgraph graph_make(CUdeviceptr block)
{
    CUgraph graph;
    CUgraphNode node;
    CUDA_MEMSET_NODE_PARAMS set = {.dst = block, .elementSize = 1, .width = 64, .height = 1};
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, the.context));
    return graph;
}

/* A launch, and the free of what it uses. */
static void launch_and_free(CUgraphExec exec, CUdeviceptr block)
{
    MUST(cuGraphLaunch(exec, the.b));
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
}

/* A graph in a graph. */
void animal_graph_child(void)
{
    CUgraph top;
    CUgraphNode node;
    CUgraphExec exec;
    CUdeviceptr block = made_for_all();
    MUST(cuGraphCreate(&top, 0));
    MUST(cuGraphAddChildGraphNode(&node, top, NULL, 0, graph_make(block)));
    MUST(cuGraphInstantiate(&exec, top, 0));
    launch_and_free(exec, block);
}

/* A copy of a graph that is gone. */
void animal_graph_clone(void)
{
    CUgraph clone;
    CUgraphExec exec;
    CUdeviceptr block = made_for_all();
    CUgraph graph = graph_make(block);
    MUST(cuGraphClone(&clone, graph));
    MUST(cuGraphDestroy(graph));
    MUST(cuGraphInstantiate(&exec, clone, 0));
    launch_and_free(exec, block);
}

/* The executable is given another block while it works: the first may not go yet. */
void animal_graph_updated_at_work(void)
{
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo info;
    CUdeviceptr first = made_for_all(), second = made_for_all();
    MUST(cuGraphInstantiate(&exec, graph_make(first), 0));
    MUST(cuGraphLaunch(exec, the.b));
    MUST(cuGraphExecUpdate(exec, graph_make(second), &info));
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(first, the.a));
    MUST(cuGraphLaunch(exec, the.b));
    wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(second, the.a));
}

/* An executable may be destroyed while it works; its work goes on. */
void animal_graph_gone_at_work(void)
{
    CUgraphExec exec;
    CUdeviceptr block = made_for_all();
    MUST(cuGraphInstantiate(&exec, graph_make(block), 0));
    MUST(cuGraphLaunch(exec, the.b));
    MUST(cuGraphExecDestroy(exec));
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
}

/* An upload touches nothing. */
void animal_graph_uploaded(void)
{
    CUgraphExec exec;
    CUdeviceptr block = made_for_all();
    MUST(cuGraphInstantiate(&exec, graph_make(block), 0));
    MUST(cuGraphUpload(exec, the.b));
    if (the.is_wrong)
        MUST(cuGraphLaunch(exec, the.b));
    MUST(cuMemFreeAsync(block, the.a));
}

/* ---- structures ----------------------------------------------------------------------------- */

typedef struct words {
    CUdeviceptr words[LARGE_WORDS];
} words;

/* The first words are where items begin and end, or a table of offsets; the one in the middle is
 * the address of what is done with them. */
static void structure_of_ranges(void (*fill)(words *given, int turn, int is_empty))
{
    enum { MIDDLE = 37 };
    words given = {{0}};
    unsigned word = MIDDLE;
    void *params[] = {&given, &word};
    for (int turn = 0; turn <= LAUNCHES; turn++) {
        fill(&given, turn, the.is_wrong && turn == LAUNCHES);
        given.words[MIDDLE] = make(the.a);
        (void)make(the.a);
        wait_for(the.a, the.b);
        MUST(cuLaunchKernel(the.large, 1, 1, 1, 1, 1, 1, 0, the.b, params, NULL));
    }
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(given.words[MIDDLE], the.a));
}

static void fill_range(words *given, int turn, int is_empty)
{
    given->words[0] = 1000 + (CUdeviceptr)turn;
    given->words[1] = given->words[0] + (is_empty ? 0 : 7);
}

/* Where it begins it ends. */
void animal_structure_empty_range(void)
{
    structure_of_ranges(fill_range);
}

static void fill_offsets(words *given, int turn, int is_empty)
{
    unsigned *offsets = (unsigned *)given->words;
    for (unsigned i = 1; i < 5; i++)
        offsets[i] = offsets[i - 1] + (is_empty && i == 3 ? 0 : 3 + (unsigned)turn);
}

/* Of a table of offsets two are the same: one item is empty. */
void animal_structure_empty_item(void)
{
    structure_of_ranges(fill_offsets);
}

static void fill_all(words *given, int turn, int is_empty)
{
    (void)is_empty;
    fill_range(given, turn, 0);
}

/* The same, where none is. */
void animal_structure_ranges(void)
{
    structure_of_ranges(fill_all);
}
