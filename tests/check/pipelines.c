/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that are put together as real ones are: pools of events, rings of buffers, workers that
 * are joined, allocators of their own. The wrong one lacks one wait. */
#include "zoo.h"

enum { TURNS = 7, SLOTS = 3, WORKERS = 3, HALF = BYTES / 2 };

static CUevent event_make(void)
{
    CUevent event;
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

static void events_make(CUevent *events, int count)
{
    for (int i = 0; i < count; i++)
        events[i] = event_make();
}

static void order(CUstream first, CUstream second, CUevent event)
{
    MUST(cuEventRecord(event, first));
    MUST(cuStreamWaitEvent(second, event, 0));
}

/* Events come from a pool and are recorded again and again: the last turn waits for what another
 * event was recorded for. */
void animal_pipeline_event_pool(void)
{
    CUevent events[SLOTS];
    events_make(events, SLOTS);
    for (int i = 0; i < TURNS; i++) {
        CUdeviceptr block = make(the.a);
        order(the.a, the.b, events[i % SLOTS]);
        touch(block, the.b);
        MUST(cuEventRecord(events[i % SLOTS], the.b));
        int is_other = the.is_wrong && i == TURNS - 1;
        MUST(cuStreamWaitEvent(the.a, events[(i + is_other) % SLOTS], 0));
        MUST(cuMemFreeAsync(block, the.a));
    }
}

/* One block is handed out in halves, in turns, and freed when both are back. */
void animal_pipeline_halves(void)
{
    CUevent back[2];
    CUdeviceptr block = make(the.a);
    events_make(back, 2);
    order(the.a, the.b, event_make());
    order(the.a, the.c, event_make());
    for (int i = 0; i < TURNS; i++) {
        CUstream stream = i % 2 == 0 ? the.b : the.c;
        touch(block + (CUdeviceptr)(i % 2) * HALF, stream);
        MUST(cuEventRecord(back[i % 2], stream));
    }
    MUST(cuStreamWaitEvent(the.a, back[0], 0));
    if (!the.is_wrong)
        MUST(cuStreamWaitEvent(the.a, back[1], 0));
    MUST(cuMemFreeAsync(block, the.a));
}

static void host_notes(void *count)
{
    ++*(int *)count;
}

/* Two pinned buffers and two of the device; the host is told of each that is used up. */
void animal_pipeline_double_buffer(void)
{
    static int used_up;
    CUdeviceptr blocks[2] = {make(the.a), make(the.a)};
    CUevent filled[2], used[2];
    void *buffers[2];
    events_make(filled, 2);
    events_make(used, 2);
    for (int i = 0; i < 2; i++)
        MUST(cuMemHostAlloc(&buffers[i], BYTES, 0));
    for (int i = 0; i < TURNS; i++) {
        int slot = i % 2;
        if (i >= 2) {
            MUST(cuEventSynchronize(filled[slot]));
            MUST(cuStreamWaitEvent(the.a, used[slot], 0));
        }
        *(int *)buffers[slot] = i;
        MUST(cuMemcpyHtoDAsync(blocks[slot], buffers[slot], BYTES, the.a));
        order(the.a, the.b, filled[slot]);
        touch(blocks[slot], the.b);
        MUST(cuLaunchHostFunc(the.b, host_notes, &used_up));
        MUST(cuEventRecord(used[slot], the.b));
    }
    for (int slot = 0; slot < 2; slot++) {
        if (!the.is_wrong || slot == 1)
            MUST(cuStreamWaitEvent(the.a, used[slot], 0));
        MUST(cuMemFreeAsync(blocks[slot], the.a));
        if (the.is_wrong && slot == 0) /* the other one is in order, and this one by then */
            MUST(cuStreamWaitEvent(the.a, used[1], 0));
    }
    MUST(cuStreamSynchronize(the.a));
    MUST(cuStreamSynchronize(the.b));
}

/* A capture forks and joins; the executable runs on another stream. */
void animal_pipeline_graph_branches(void)
{
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr blocks[2] = {make(the.a), make(the.a)};
    MUST(cuStreamSynchronize(the.a));
    MUST(cuStreamBeginCapture(the.b, CU_STREAM_CAPTURE_MODE_RELAXED));
    order(the.b, the.c, event_make());
    touch(blocks[0], the.b);
    touch(blocks[1], the.c);
    order(the.c, the.b, event_make());
    MUST(cuStreamEndCapture(the.b, &graph));
    MUST(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < TURNS; i++)
        MUST(cuGraphLaunch(exec, the.c));
    if (!the.is_wrong)
        order(the.c, the.a, event_make());
    MUST(cuMemFreeAsync(blocks[1], the.a));
    order(the.c, the.a, event_make());
    MUST(cuMemFreeAsync(blocks[0], the.a));
    MUST(cuStreamSynchronize(the.c));
}

/* A stream that comes first among others does not wait for them. */
void animal_pipeline_priorities(void)
{
    int least, greatest;
    CUstream urgent;
    MUST(cuCtxGetStreamPriorityRange(&least, &greatest));
    MUST(cuStreamCreateWithPriority(&urgent, CU_STREAM_NON_BLOCKING, greatest));
    CUdeviceptr block = make(the.a);
    order(the.a, urgent, the.event);
    touch(block, urgent);
    if (!the.is_wrong)
        order(urgent, the.a, the.event);
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuStreamSynchronize(urgent));
}

/* Stages that hand a block on; the last one frees it. */
void animal_pipeline_stages(void)
{
    CUevent handed[2];
    events_make(handed, 2);
    for (int i = 0; i < TURNS; i++) {
        CUdeviceptr block = make(the.a);
        order(the.a, the.b, handed[0]);
        touch(block, the.b);
        if (the.is_wrong && i == TURNS - 1)
            MUST(cuStreamWaitEvent(the.c, handed[0], 0));
        else
            order(the.b, the.c, handed[1]);
        MUST(cuMemFreeAsync(block, the.c));
    }
}

/* A list grows: what it had is copied on another stream. */
void animal_pipeline_growing(void)
{
    CUdeviceptr block = make(the.a);
    for (int i = 0; i < TURNS; i++) {
        CUdeviceptr more = make(the.a);
        order(the.a, the.b, the.event);
        MUST(cuMemcpyDtoDAsync(more, block, BYTES, the.b));
        if (!the.is_wrong || i < TURNS - 1)
            order(the.b, the.a, the.event);
        MUST(cuMemFreeAsync(block, the.a));
        block = more;
    }
    order(the.b, the.a, the.event);
    MUST(cuMemFreeAsync(block, the.a));
}

/* Workers read one block, and are joined by one event after the other. */
void animal_pipeline_workers(void)
{
    CUstream workers[WORKERS];
    CUdeviceptr block = make(the.a);
    MUST(cuEventRecord(the.event, the.a));
    for (int i = 0; i < WORKERS; i++) {
        MUST(cuStreamCreate(&workers[i], CU_STREAM_NON_BLOCKING));
        MUST(cuStreamWaitEvent(workers[i], the.event, 0));
        touch(block, workers[i]);
    }
    for (int i = 0; i < WORKERS; i++)
        if (!the.is_wrong || i != 1)
            order(workers[i], the.a, the.event);
    MUST(cuMemFreeAsync(block, the.a));
    for (int i = 0; i < WORKERS; i++)
        MUST(cuStreamSynchronize(workers[i]));
}

/* A pool of the program's own. */
void animal_pipeline_pool(void)
{
    CUmemoryPool pool;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    MUST(cuMemPoolCreate(&pool, &props));
    for (int i = 0; i < TURNS; i++) {
        CUdeviceptr block;
        MUST(cuMemAllocFromPoolAsync(&block, BYTES, pool, the.a));
        order(the.a, the.b, the.event);
        touch(block, the.b);
        if (!the.is_wrong || i < TURNS - 1)
            order(the.b, the.a, the.event);
        MUST(cuMemFreeAsync(block, the.a));
    }
    MUST(cuStreamSynchronize(the.b));
    MUST(cuMemPoolDestroy(pool));
}

/* A ring of slots: they are filled again when they have been read. */
static void ring_run(const CUdeviceptr *slots, CUdeviceptr out)
{
    CUevent filled[SLOTS], read[SLOTS];
    events_make(filled, SLOTS);
    events_make(read, SLOTS);
    for (int i = 0; i < TURNS; i++) {
        int slot = i % SLOTS;
        if (i >= SLOTS && (!the.is_wrong || i < TURNS - 1))
            MUST(cuStreamWaitEvent(the.a, read[slot], 0));
        MUST(cuMemsetD8Async(slots[slot], 1, HALF, the.a));
        order(the.a, the.b, filled[slot]);
        MUST(cuMemcpyDtoDAsync(out, slots[slot], HALF, the.b));
        MUST(cuEventRecord(read[slot], the.b));
    }
    MUST(cuStreamSynchronize(the.b));
}

void animal_pipeline_ring(void)
{
    CUdeviceptr slots[SLOTS], out = make(the.b);
    for (int i = 0; i < SLOTS; i++)
        slots[i] = make(the.a);
    ring_run(slots, out);
}

/* The same in addresses that the program has reserved and mapped itself. */
void animal_pipeline_mapped(void)
{
    CUdeviceptr base, slots[SLOTS];
    CUmemGenericAllocationHandle memory;
    size_t unit;
    CUmemAllocationProp props = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = props.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    MUST(cuMemGetAllocationGranularity(&unit, &props, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    size_t bytes = ((SLOTS + 1) * (size_t)HALF + unit - 1) / unit * unit;
    MUST(cuMemAddressReserve(&base, bytes, 0, 0, 0));
    MUST(cuMemCreate(&memory, bytes, &props, 0));
    MUST(cuMemMap(base, bytes, 0, memory, 0));
    MUST(cuMemSetAccess(base, bytes, &access, 1));
    for (int i = 0; i < SLOTS; i++)
        slots[i] = base + (CUdeviceptr)i * HALF;
    ring_run(slots, base + (CUdeviceptr)SLOTS * HALF);
    MUST(cuMemUnmap(base, bytes));
    MUST(cuMemRelease(memory));
    MUST(cuMemAddressFree(base, bytes));
}
