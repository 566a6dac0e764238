/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches, allocations and frees as the checker and auto_record:seen look at them: from a stack of
 * 17 frames, as deep as an engine's, by eight operators whose stacks end at one depth.
 *
 * Some of these run under a script of 600 lines, whose frames its engine tells.
 *
 * A launch is of a kernel with 16 parameters, or with one structure of path.bytes_min bytes. Three
 * addresses, or path.bytes_max if that is not 0, are of blocks, others each time. An allocation is
 * one of Tenure's own, as engines make them. Another stream has memory, too, except in the programs
 * of a sole stream. It replaces one of path.live blocks, and has
 * path.bytes_min to path.bytes_max bytes. In a stale list every other address is of a block that
 * was freed: if an optimizer has fewer addresses than at the launch before, it leaves the old ones
 * in the rest. In a fresh list those blocks were allocated and freed since the launch before, as
 * gradients are.
 */
#include <stdlib.h>
#include <string.h>

#include <tenure/tenure.h>
#include <tenure/simcuda.h>

#include "paths.h"

enum { OPERATORS = 8, INSIDE = 3, OUTSIDE = 10, PARAMETERS = 16, ADDRESSES = 3, WORDS_MAX = 512 };
enum { SCRIPT_FRAMES = 8, SCRIPT_LINES = 600 };

/* What an operator does at the end of its stack. */
typedef struct operation {
    void (*act)(const struct operation *self);
    path_run *run;
    CUfunction kernel;
    uint64_t number;
} operation;

static CUfunction functions[OPERATORS];
static CUdeviceptr *blocks;

static void kernel_run(void *const *parameters)
{
    (void)parameters;
}

void sole_prepare(path_run *run)
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
    for (int i = 0; i < OPERATORS; i++) {
        path_apart();
        driver_check(cuModuleGetFunction(&functions[i], module, names[i]), "cuModuleGetFunction");
    }
    blocks = calloc(run->what->live, sizeof(*blocks));
    if (blocks == NULL)
        exit(1);
    for (size_t i = 0; i < run->what->live; i++)
        driver_check(cuMemAllocAsync(&blocks[i], 4096, run->streams[1]), "cuMemAllocAsync");
}

/* A second stream has memory. */
static void second_stream(path_run *run)
{
    CUdeviceptr block;
    driver_check(cuMemAllocAsync(&block, 4096, run->streams[2]), "cuMemAllocAsync");
}

void checked_prepare(path_run *run)
{
    sole_prepare(run);
    second_stream(run);
}

void stale_prepare(path_run *run)
{
    checked_prepare(run);
    for (size_t i = 0; i < run->what->live; i += 2)
        driver_check(cuMemFreeAsync(blocks[i], run->streams[1]), "cuMemFreeAsync");
}

/* A script runs, at another of its lines each time. */
static uint64_t script_line;

static size_t script_take(uintptr_t *frames, size_t room)
{
    size_t count = room < SCRIPT_FRAMES ? room : SCRIPT_FRAMES;
    for (size_t i = 0; i < count; i++)
        frames[i] = (uintptr_t)1 << (sizeof(uintptr_t) * 8 - 1) | (i == 0 ? script_line : 1000 + i);
    return count;
}

static void script_describe(tnr_frame_info *info, uintptr_t frame)
{
    *info = (tnr_frame_info){"step", "script.py", (int)(frame & INT32_MAX)};
}

void script_prepare(path_run *run)
{
    checked_prepare(run);
    if (tnr_frames_source_set(script_take, script_describe) != TNR_OK)
        exit(1);
}

static __attribute__((noinline)) void launch_do(const operation *what)
{
    static uint64_t words[WORDS_MAX];
    void *parameters[PARAMETERS] = {words};
    const path *how = what->run->what;
    size_t count = how->bytes_max > 0 ? how->bytes_max : ADDRESSES;
    for (size_t i = 0; i < count; i++)
        words[i] = blocks[(what->number * count + i) % how->live];
    for (int i = 1; i < PARAMETERS; i++)
        parameters[i] = &words[i];
    script_line = what->number % SCRIPT_LINES;
    driver_check(
        cuLaunchKernel(what->kernel, 1, 1, 1, 1, 1, 1, 0, what->run->streams[1], parameters, NULL),
        "cuLaunchKernel");
}

/* The blocks of the list that are freed have been another's for a while. */
static __attribute__((noinline)) void fresh_do(const operation *what)
{
    const path *how = what->run->what;
    CUstream stream = what->run->streams[1];
    size_t from = (size_t)(what->number * how->bytes_max % how->live);
    for (size_t i = from; i < from + how->bytes_max; i += 2)
        driver_check(cuMemAllocAsync(&blocks[i], 4096, stream), "cuMemAllocAsync");
    for (size_t i = from; i < from + how->bytes_max; i += 2)
        driver_check(cuMemFreeAsync(blocks[i], stream), "cuMemFreeAsync");
    launch_do(what);
}

static void status_check(tnr_status status)
{
    if (status != TNR_OK)
        exit(1);
}

/* The sizes of mixes, each as often as its logarithm says, and always the same for one number. */
static size_t bytes_of(const path_run *run, uint64_t number)
{
    uint64_t bits = mixed(number, 1);
    size_t bytes = run->what->bytes_min;
    while (bytes * 2 <= run->what->bytes_max && (bits & 3) != 0) {
        bytes *= 2;
        bits >>= 2;
    }
    return bytes + bits % bytes;
}

static __attribute__((noinline)) void replace_do(const operation *what)
{
    path_run *run = what->run;
    void **block = &run->blocks[mixed(what->number, 0) % run->what->live];
    status_check(tnr_free(*block));
    status_check(
        tnr_malloc(block, bytes_of(run, what->number), 0, (tnr_stream)(void *)run->streams[1]));
}

static __attribute__((noinline)) void deeper(const operation *what, int levels)
{
    if (levels == 0)
        what->act(what);
    else
        deeper(what, levels - 1);
    __asm__ volatile("" ::: "memory"); /* the call is no tail call */
}

#define OPERATOR(which)                                                                            \
    case which:                                                                                    \
        deeper(&(operation){act, run, functions[which], number}, INSIDE);                          \
        __asm__ volatile("# " #which ::: "memory");                                                \
        break;

typedef void (*action)(const operation *self);

static __attribute__((noinline)) void operators(path_run *run, action act, uint64_t number,
                                                int levels)
{
    if (levels > 0) {
        operators(run, act, number, levels - 1);
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

static void launches(path_run *run)
{
    for (uint64_t i = 0; i < run->operations; i++)
        operators(run, launch_do, i, OUTSIDE);
}

void run_checked(path_run *run)
{
    path_counted(run, launches);
}

static void fresh_launches(path_run *run)
{
    for (uint64_t i = 0; i < run->operations; i++)
        operators(run, fresh_do, i, OUTSIDE);
}

void run_fresh(path_run *run)
{
    path_counted(run, fresh_launches);
}

void sole_replaced_prepare(path_run *run)
{
    for (size_t i = 0; i < run->what->live; i++)
        status_check(
            tnr_malloc(&run->blocks[i], bytes_of(run, i), 0, (tnr_stream)(void *)run->streams[1]));
}

void replaced_prepare(path_run *run)
{
    sole_replaced_prepare(run);
    second_stream(run);
}

static void replacements(path_run *run)
{
    for (uint64_t i = 0; i < run->operations; i++)
        operators(run, replace_do, i, OUTSIDE);
}

void run_replaced(path_run *run)
{
    path_counted(run, replacements);
}

/* Work of one of path.live streams, in turn, on a block that all of them use. The first of them
 * waits for it. */
static CUstream *forked;
static CUevent forked_event;

static void forks_do(path_run *run, uint64_t from, uint64_t count)
{
    for (uint64_t i = from; i < from + count; i++) {
        CUstream stream = forked[1 + i % (run->what->live - 1)];
        driver_check(cuMemsetD8Async(blocks[0], 1, 64, stream), "cuMemsetD8Async");
        driver_check(cuEventRecord(forked_event, stream), "cuEventRecord");
        driver_check(cuStreamWaitEvent(forked[0], forked_event, 0), "cuStreamWaitEvent");
    }
}

void forks_prepare(path_run *run)
{
    forked = calloc(run->what->live, sizeof(CUstream));
    blocks = calloc(1, sizeof(*blocks));
    if (forked == NULL || blocks == NULL)
        exit(1);
    for (size_t i = 0; i < run->what->live; i++)
        driver_check(cuStreamCreate(&forked[i], CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    driver_check(cuEventCreate(&forked_event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    driver_check(cuMemAlloc(&blocks[0], 4096), "cuMemAlloc");
    forks_do(run, 0, run->what->live);
}

static void forks(path_run *run)
{
    forks_do(run, 0, run->operations);
}

void run_forks(path_run *run)
{
    path_counted(run, forks);
}
