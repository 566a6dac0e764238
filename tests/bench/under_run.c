/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program pays for the driver's functions under `tenure run`, which stands before them:
 * events, waits and kernels of streams that Tenure knows, and of others.
 */
#include <stdlib.h>

#include "paths.h"

/* Both devices are served, as by a program with a thread and some memory on each: so every path
 * below is that of a process with several devices. Two blocks on streams[3] make that one of those
 * of which something will be asked. */
void preloaded_prepare(path_run *run)
{
    CUcontext context;
    CUdeviceptr memory;
    driver_check(cuMemAlloc(&memory, 1 << 20), "cuMemAlloc");
    driver_check(cuMemAllocAsync(&memory, 1 << 20, run->streams[3]), "cuMemAllocAsync");
    run->events = calloc(run->what->live, sizeof(*run->events));
    if (!run->events)
        exit(1);
    for (size_t i = 0; i < run->what->live; i++) {
        path_apart();
        driver_check(cuEventCreate(&run->events[i], CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    }
    driver_check(cuDevicePrimaryCtxRetain(&context, 1), "cuDevicePrimaryCtxRetain");
    driver_check(cuCtxPushCurrent(context), "cuCtxPushCurrent");
    driver_check(cuMemAlloc(&memory, 1 << 20), "cuMemAlloc");
    driver_check(cuCtxPopCurrent(NULL), "cuCtxPopCurrent");
}

static void records(path_run *run)
{
    for (uint64_t i = 0; i < run->operations; i++)
        driver_check(cuEventRecord(run->events[i % run->what->live], run->streams[1]),
                     "cuEventRecord");
}

static void records_default(path_run *run)
{
    for (uint64_t i = 0; i < run->operations; i++)
        driver_check(cuEventRecord(run->events[i % run->what->live], NULL), "cuEventRecord");
}

static void waits(path_run *run)
{
    for (uint64_t i = 0; i < run->operations; i++)
        driver_check(cuStreamWaitEvent(run->streams[2], run->events[i % run->what->live], 0),
                     "cuStreamWaitEvent");
}

static void records_asked(path_run *run)
{
    for (uint64_t i = 0; i < run->operations; i++)
        driver_check(cuEventRecord(run->events[i % run->what->live], run->streams[3]),
                     "cuEventRecord");
}

/* A stream with memory is followed by one without, and follows it. */
static void ring(path_run *run)
{
    for (uint64_t i = 0; i < run->operations; i++) {
        CUevent event = run->events[i % run->what->live];
        driver_check(cuEventRecord(event, run->streams[i % 2 == 0 ? 3 : 2]), "cuEventRecord");
        driver_check(cuStreamWaitEvent(run->streams[i % 2 == 0 ? 2 : 3], event, 0),
                     "cuStreamWaitEvent");
    }
}

static void kernels(path_run *run)
{
    for (uint64_t i = 0; i < run->operations; i++)
        (void)cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, run->streams[1], NULL, NULL);
}

void run_records(path_run *run)
{
    path_counted(run, records);
}

void run_records_default(path_run *run)
{
    path_counted(run, records_default);
}

void run_waits(path_run *run)
{
    run->operations = run->what->live;
    records(run);
    path_counted(run, waits);
}

void run_waits_asked(path_run *run)
{
    run->operations = run->what->live;
    records_asked(run);
    path_counted(run, waits);
}

void run_records_asked(path_run *run)
{
    path_counted(run, records_asked);
}

void run_ring(path_run *run)
{
    path_counted(run, ring);
}

void run_kernels(path_run *run)
{
    path_counted(run, kernels);
}
