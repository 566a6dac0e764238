/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that holds memory in the ways of test_waste.py: it knows nothing of Tenure, and its
 * kernels are registered with the simulated device.
 *
 *   check_waste BLOCK...     each with what is done with it
 *
 *   early, late, between, never   1 MiB and more that lie unused for LONG_MS: before the first use,
 *                                 after the last one, between two, and all the time
 *   steady                        is used all the time
 *   waited                        is used by a kernel that runs for as long; the host waits for it
 *   copied                        the same, and a copy to the host waits
 *   graph, set                    are used all the time: by a graph, by a set of bytes
 *   freed                         is used until it is freed, early
 *   left                          as late, and never freed
 *   small                         as never, of 64 KiB
 *
 * The program has TICKS of TICK_MS, and what is used all the time is used in each. Time passes
 * where the program says so and nowhere else, however busy the machine is: see clock_gettime.
 */
#include "must.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <tenure/simcuda.h>

enum { TICK_MS = 50, TICKS = 36, BEGIN = 2, END = TICKS - 2, MIB = 1 << 20, SMALL = 1 << 16 };
enum { LONG_MS = TICK_MS * (END - BEGIN) };

static CUfunction quick, slow;
static CUstream stream;

static _Atomic long passed_ms = 1000000;

/* Passes time: how the host sleeps, and how long a kernel takes. */
static void sleep_ms(int ms)
{
    atomic_fetch_add(&passed_ms, ms);
}

/* The C library's, for all that is in the process: the checker as well. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (clock != CLOCK_MONOTONIC)
        return (int)syscall(SYS_clock_gettime, clock, now);
    long ms = atomic_load(&passed_ms);
    *now = (struct timespec){ms / 1000, ms % 1000 * 1000000L};
    return 0;
}

static void quick_run(void *const *params)
{
    (void)params;
}

static void slow_run(void *const *params)
{
    (void)params;
    sleep_ms(LONG_MS);
}

static size_t accesses_none(void *const *params, simcuda_access *out, size_t room)
{
    (void)params, (void)out, (void)room;
    return 0;
}

static void use(CUfunction kernel, CUdeviceptr block, CUstream on)
{
    void *params[] = {&block};
    MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, on, params, NULL));
}

static void open_device(void)
{
    static const size_t bytes[] = {8};
    CUdevice device;
    CUcontext context;
    CUmodule module;
    if (simcuda_kernel_register("quick", 1, bytes, quick_run, accesses_none) != 0 ||
        simcuda_kernel_register("slow", 1, bytes, slow_run, accesses_none) != 0)
        exit(1);
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoadData(&module, "any image"));
    MUST(cuModuleGetFunction(&quick, module, "quick"));
    MUST(cuModuleGetFunction(&slow, module, "slow"));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

/* ---- places, one for each way ---------------------------------------------------------------- */

#define PLACE(name, bytes)                                                                         \
    static __attribute__((noinline)) void make_##name(CUdeviceptr *block)                          \
    {                                                                                              \
        MUST(cuMemAllocAsync(block, bytes, stream));                                               \
    }
PLACE(early, 2 * MIB)
PLACE(late, 3 * MIB)
PLACE(between, 4 * MIB)
PLACE(never, 5 * MIB)
PLACE(left, 6 * MIB)
PLACE(steady, 7 * MIB)
PLACE(waited, 8 * MIB)
PLACE(copied, 9 * MIB)
PLACE(graph, 10 * MIB)
PLACE(set, 11 * MIB)
PLACE(freed, 12 * MIB)
PLACE(small, SMALL)

typedef struct way {
    const char *name;
    void (*make)(CUdeviceptr *block);
    int first, last; /* the ticks in which it is used; in between in `every` */
    int every;       /* 0: in those two alone; they are 0: in none */
    CUdeviceptr block;
    int is_there;
} way;

static way ways[] = {
    {"early", make_early, END, TICKS, 1, 0, 0},
    {"late", make_late, 0, BEGIN, 1, 0, 0},
    {"between", make_between, BEGIN, END, 0, 0, 0},
    {"never", make_never, 0, 0, 0, 0, 0},
    {"left", make_left, 0, BEGIN, 1, 0, 0},
    {"steady", make_steady, 0, TICKS, 1, 0, 0},
    {"waited", make_waited, 0, 0, 0, 0, 0},
    {"copied", make_copied, 0, 0, 0, 0, 0},
    {"graph", make_graph, 0, 0, 0, 0, 0},
    {"small", make_small, 0, 0, 0, 0, 0},
    {"set", make_set, 0, 0, 0, 0, 0},
    {"freed", make_freed, 0, BEGIN, 1, 0, 0},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static int is_used_at(const way *one, int tick)
{
    if (one->last == 0)
        return 0;
    return one->every > 0 ? tick >= one->first && tick <= one->last
                          : tick == one->first || tick == one->last;
}

static CUgraphExec graph_of(CUdeviceptr block)
{
    void *params[] = {&block};
    return exec_of_one_kernel(quick, params, 0);
}

/* A kernel that takes long, and how the host waits for it. A copy that is no stream's waits for
 * what is on the default stream. */
static void use_long(const way *one, int is_copied)
{
    static char bytes[16];
    CUdeviceptr other;
    MUST(cuMemAlloc(&other, sizeof(bytes)));
    use(slow, one->block, is_copied ? NULL : stream);
    if (is_copied)
        MUST(cuMemcpyDtoH(bytes, other, sizeof(bytes)));
    else
        MUST(cuStreamSynchronize(stream));
    MUST(cuMemFreeAsync(one->block, stream));
}

static way *named(const char *name)
{
    for (int i = 0; i < WAYS; i++)
        if (ways[i].is_there && strcmp(ways[i].name, name) == 0)
            return &ways[i];
    return NULL;
}

static void go_on(CUgraphExec exec, const way *set, way *freed)
{
    for (int tick = 0; tick <= TICKS; tick++) {
        for (int i = 0; i < WAYS; i++)
            if (ways[i].is_there && is_used_at(&ways[i], tick))
                use(quick, ways[i].block, stream);
        if (freed != NULL && tick == BEGIN) {
            MUST(cuMemFreeAsync(freed->block, stream));
            freed->is_there = 0;
        }
        if (exec != NULL)
            MUST(cuGraphLaunch(exec, stream));
        if (set != NULL)
            MUST(cuMemsetD8Async(set->block, 1, 1, stream));
        MUST(cuStreamSynchronize(stream));
        sleep_ms(TICK_MS);
    }
}

int main(int argc, char **argv)
{
    open_device();
    for (int i = 0; i < WAYS; i++)
        for (int j = 1; j < argc; j++)
            ways[i].is_there |= strcmp(argv[j], ways[i].name) == 0;
    for (int i = 0; i < WAYS; i++)
        if (ways[i].is_there)
            ways[i].make(&ways[i].block);
    way *waited = named("waited"), *copied = named("copied"), *graph = named("graph");
    if (waited != NULL || copied != NULL) {
        use_long(waited != NULL ? waited : copied, copied != NULL);
        return 0;
    }
    go_on(graph == NULL ? NULL : graph_of(graph->block), named("set"), named("freed"));
    for (int i = 0; i < WAYS; i++)
        if (ways[i].is_there && strcmp(ways[i].name, "left") != 0)
            MUST(cuMemFreeAsync(ways[i].block, stream));
    use(quick, 0, stream);
    MUST(cuStreamSynchronize(stream));
    return 0;
}
