/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The zoo's races: what no rule of the checker's finds, and the simulated device sees. Each meets
 * three times, at one place.
 */
#include "zoo.h"

#include <stdint.h>
#include <string.h>

#include <tenure/simcuda.h>

enum { ROUNDS = 3 };

static void __attribute__((noinline)) first_writes(CUdeviceptr block, CUstream stream)
{
    MUST(cuMemsetD8Async(block, 1, BYTES, stream));
}

static void __attribute__((noinline)) second_writes(CUdeviceptr block, CUstream stream)
{
    MUST(cuMemsetD8Async(block + 4096, 2, 4096, stream));
}

/* Two streams write one block that lives. */
void animal_race_of_sets(void)
{
    CUdeviceptr block = make(the.a);
    for (int i = 0; i < ROUNDS; i++) {
        if (i > 0 || !the.is_wrong)
            MUST(cuCtxSynchronize());
        else
            wait_for(the.a, the.b);
        first_writes(block, the.a);
        if (!the.is_wrong)
            wait_for(the.a, the.b);
        second_writes(block, the.b);
        __asm__ volatile("" : "+r"(i)); /* a loop that is unrolled has several calls for one */
    }
    MUST(cuCtxSynchronize());
    MUST(cuMemFreeAsync(block, the.a));
}

/* A kernel that finds the block in memory of the device, where no launch shows it. */
static void reach_run(void *const *params)
{
    (void)params;
}

static size_t reach_accesses(void *const *params, simcuda_access *out, size_t capacity)
{
    CUdeviceptr table, block;
    memcpy(&table, params[0], sizeof(table));
    memcpy(&block, simcuda_memory_at(table), sizeof(block));
    if (capacity > 0)
        out[0] = (simcuda_access){block, BYTES, 0};
    return 1;
}

static CUfunction reach_make(void)
{
    static const size_t bytes[] = {8};
    CUmodule module;
    CUfunction reach;
    if (simcuda_kernel_register("reach", 1, bytes, reach_run, reach_accesses) != 0)
        exit(1);
    MUST(cuModuleLoadData(&module, "any image"));
    MUST(cuModuleGetFunction(&reach, module, "reach"));
    return reach;
}

static void __attribute__((noinline)) reach_block(CUfunction reach, CUdeviceptr table)
{
    void *params[] = {&table};
    MUST(cuLaunchKernel(reach, 1, 1, 1, 1, 1, 1, 0, the.b, params, NULL));
}

static void __attribute__((noinline)) fill_block(CUdeviceptr block)
{
    MUST(cuMemsetD8Async(block, 3, BYTES, the.a));
}

/* Freed while the kernel may use it, and written by who gets the memory next. */
void animal_race_through_memory(void)
{
    CUfunction reach = reach_make();
    CUdeviceptr table;
    MUST(cuMemAlloc(&table, BYTES));
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr block = make(the.a), next;
        MUST(cuMemcpyHtoD(table, &block, sizeof(block)));
        MUST(cuCtxSynchronize()); /* the device asks at the launch what the kernel will touch */
        reach_block(reach, table);
        if (!the.is_wrong)
            wait_for(the.b, the.a);
        MUST(cuMemFreeAsync(block, the.a));
        next = make(the.a);
        fill_block(next);
        MUST(cuCtxSynchronize());
        MUST(cuMemFreeAsync(next, the.a));
    }
    MUST(cuMemFree(table));
}

/* Two nodes of a graph, between which an edge is missing. */
void animal_race_in_a_graph(void)
{
    CUdeviceptr block;
    CUgraph graph;
    CUgraphNode nodes[2];
    CUgraphExec exec;
    CUDA_MEMSET_NODE_PARAMS set = {.elementSize = 1, .width = BYTES, .height = 1};
    MUST(cuMemAlloc(&block, BYTES));
    set.dst = block;
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddMemsetNode(&nodes[0], graph, NULL, 0, &set, the.context));
    MUST(cuGraphAddMemsetNode(&nodes[1], graph, nodes, the.is_wrong ? 0 : 1, &set, the.context));
    MUST(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < ROUNDS; i++)
        MUST(cuGraphLaunch(exec, the.a));
    MUST(cuCtxSynchronize());
    MUST(cuGraphExecDestroy(exec));
    MUST(cuGraphDestroy(graph));
    MUST(cuMemFree(block));
}
