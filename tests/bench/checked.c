/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches as the checker and auto_record:seen look at them: from a stack of 17 frames, as deep as
 * an engine's, by eight operators whose stacks end at one depth; of a kernel with 16 parameters, or
 * with one structure of path.bytes_min bytes. Three addresses are of blocks, others each time.
 */
#include <stdlib.h>
#include <string.h>

#include <tenure/simcuda.h>

#include "paths.h"

enum { OPERATORS = 8, INSIDE = 3, OUTSIDE = 10, PARAMETERS = 16, ADDRESSES = 3, WORDS_MAX = 512 };

typedef struct launch {
    path_run *run;
    CUfunction kernel;
    uint64_t number;
} launch;

static CUfunction functions[OPERATORS];
static CUdeviceptr *blocks;

static void kernel_run(void *const *parameters)
{
    (void)parameters;
}

void checked_prepare(path_run *run)
{
    static char names[OPERATORS][16];
    static size_t bytes[PARAMETERS];
    CUmodule module;
    int has_structure = run->what->bytes_min > 0;
    for (int i = 0; i < PARAMETERS; i++)
        bytes[i] = has_structure ? run->what->bytes_min : i < ADDRESSES ? 8 : 4;
    for (int i = 0; i < OPERATORS; i++) {
        memcpy(names[i], "kernel_", 8);
        names[i][7] = (char)('0' + i);
        if (simcuda_kernel_register(names[i], has_structure ? 1 : PARAMETERS, bytes, kernel_run,
                                    NULL) != 0)
            exit(1);
    }
    driver_check(cuModuleLoadData(&module, "any image"), "cuModuleLoadData");
    for (int i = 0; i < OPERATORS; i++)
        driver_check(cuModuleGetFunction(&functions[i], module, names[i]), "cuModuleGetFunction");
    blocks = calloc(run->what->live, sizeof(*blocks));
    if (blocks == NULL)
        exit(1);
    for (size_t i = 0; i < run->what->live; i++)
        driver_check(cuMemAllocAsync(&blocks[i], 4096, run->streams[1]), "cuMemAllocAsync");
}

static __attribute__((noinline)) void launch_do(const launch *what)
{
    static uint64_t words[WORDS_MAX];
    void *parameters[PARAMETERS] = {words};
    for (size_t i = 0; i < ADDRESSES; i++)
        words[i] = blocks[(what->number * ADDRESSES + i) % what->run->what->live];
    for (int i = 1; i < PARAMETERS; i++)
        parameters[i] = &words[i];
    driver_check(
        cuLaunchKernel(what->kernel, 1, 1, 1, 1, 1, 1, 0, what->run->streams[1], parameters, NULL),
        "cuLaunchKernel");
}

static __attribute__((noinline)) void deeper(const launch *what, int levels)
{
    if (levels == 0)
        launch_do(what);
    else
        deeper(what, levels - 1);
    __asm__ volatile("" ::: "memory"); /* the call is no tail call */
}

#define OPERATOR(which)                                                                            \
    case which:                                                                                    \
        deeper(&(launch){run, functions[which], number}, INSIDE);                                  \
        __asm__ volatile("# " #which ::: "memory");                                                \
        break;

static __attribute__((noinline)) void operators(path_run *run, uint64_t number, int levels)
{
    if (levels > 0) {
        operators(run, number, levels - 1);
        __asm__ volatile("" ::: "memory");
        return;
    }
    switch (number % OPERATORS) {
        OPERATOR(0)
        OPERATOR(1)
        OPERATOR(2)
        OPERATOR(3)
        OPERATOR(4)
        OPERATOR(5)
        OPERATOR(6)
    default:
        OPERATOR(7)
    }
}

static void checked(path_run *run)
{
    for (uint64_t i = 0; i < run->operations; i++)
        operators(run, i, OUTSIDE);
}

void run_checked(path_run *run)
{
    path_counted(run, checked);
}
