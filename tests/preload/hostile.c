/* SPDX-License-Identifier: Apache-2.0 */
/* Scenarios of programs that do what one should not, or seldom does. */
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine.h"
#include "scenarios.h"

/* The driver's codes are part of what must be the same. */
#define TELL(call) printf("%s: %d\n", #call, (int)(call))

void scenario_nulls(void)
{
    CUdeviceptr block;
    CUstream stream;
    CUgraph graph;
    size_t bytes = 0;
    engine_start(0);
    MUST(cu.cuMemAlloc(&block, 4096));
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TELL(cu.cuMemAlloc(NULL, 4096));
    TELL(cu.cuMemAlloc(NULL, 0));
    TELL(cu.cuMemAllocAsync(NULL, 4096, stream));
    TELL(cu.cuMemGetInfo(NULL, &bytes));
    TELL(cu.cuMemGetInfo(&bytes, NULL));
    TELL(cu.cuMemGetInfo(NULL, NULL));
    TELL(cu.cuMemGetAddressRange(NULL, NULL, block));
    TELL(cu.cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_CONTEXT, block));
    TELL(cu.cuPointerGetAttributes(0, NULL, NULL, block));
    TELL(cu.cuStreamCreate(NULL, 0));
    TELL(cu.cuEventCreate(NULL, 0));
    TELL(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    TELL(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    TELL(cu.cuStreamEndCapture(stream, &graph));
    TELL(cu.cuStreamEndCapture(stream, &graph));
    TELL(cu.cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
    TELL(cu.cuStreamBeginCapture(stream, (CUstreamCaptureMode)99));
    MUST(cu.cuMemFree(block));
    TELL(cu.cuMemFree(0));
}

void scenario_early(void)
{
    CUdeviceptr block = 1;
    CUdevice device;
    CUcontext context;
    size_t free_bytes, total;
    TELL(cu.cuMemAlloc(&block, 4096));
    TELL(cu.cuMemFree(4096));
    TELL(cu.cuMemGetInfo(&free_bytes, &total));
    TELL(cu.cuCtxSynchronize());
    MUST(cu.cuInit(0));
    TELL(cu.cuMemAlloc(&block, 4096)); /* no context */
    TELL(cu.cuMemGetInfo(&free_bytes, &total));
    MUST(cu.cuDeviceGet(&device, 0));
    MUST(cu.cuDevicePrimaryCtxRetain(&context, device));
    TELL(cu.cuMemAlloc(&block, 4096)); /* there is one, but not current */
    MUST(cu.cuCtxSetCurrent(context));
    TELL(cu.cuMemAlloc(&block, 4096));
    MUST(cu.cuMemFree(block));
    MUST(cu.cuCtxSetCurrent(NULL));
    TELL(cu.cuMemAlloc(&block, 4096)); /* not any more */
}

/* ---- after main ----------------------------------------------------------------------------- */

static CUdeviceptr left;
static int is_late;

static void late_work(const char *when)
{
    CUdeviceptr block;
    if (!is_late)
        return;
    MUST(cu.cuMemAlloc(&block, 70000));
    fill(block, 3, 70000, NULL);
    verify(block, 3, 70000, NULL);
    MUST(cu.cuMemFree(block));
    printf("%s: good\n", when);
    fflush(stdout);
}

static void late_exit(void)
{
    late_work("at exit");
}

__attribute__((destructor)) static void late_destructor(void)
{
    late_work("in a destructor");
    if (is_late)
        MUST(cu.cuMemFree(left));
}

void scenario_late(void)
{
    CHECK(atexit(late_exit) == 0);
    engine_start(0);
    MUST(cu.cuMemAlloc(&left, 1 << 20));
    is_late = 1;
}

/* ---- signals -------------------------------------------------------------------------------- */

enum { SLOTS = 64 };
static volatile CUdeviceptr slots[SLOTS];
static volatile sig_atomic_t freed;

/* Frees what the program has put there, wherever the signal has interrupted it. */
static void signal_free(int number)
{
    (void)number;
    for (int i = 0; i < SLOTS; i++)
        if (slots[i] != 0) {
            CUdeviceptr block = slots[i];
            slots[i] = 0;
            if (cu.cuMemFree(block) == CUDA_SUCCESS)
                freed = freed + 1;
            return;
        }
}

void scenario_signals(void)
{
    enum { WANTED = 150 };
    struct sigaction action = {.sa_handler = signal_free, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    int given = 0;
    engine_start(0);
    CUdeviceptr given_blocks[WANTED], own[16] = {0};
    /* Allocated before: the driver itself is not made for being interrupted by its own calls. */
    for (int i = 0; i < WANTED; i++)
        MUST(cu.cuMemAlloc(&given_blocks[i], (size_t)(i + 1) * 3000));
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (long round = 0; freed < WANTED; round++) {
        int at = (int)(round % 16);
        MUST(own[at] == 0 ? CUDA_SUCCESS : cu.cuMemFree(own[at]));
        MUST(cu.cuMemAlloc(&own[at], (size_t)(round % 9 + 1) * 40000));
        for (int i = 0; given < WANTED && i < SLOTS && slots[i] == 0; i++)
            slots[i] = given_blocks[given++];
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    for (int i = 0; i < 16; i++)
        MUST(cu.cuMemFree(own[i]));
    CUdeviceptr last; /* frees that were put off happen at the latest here */
    MUST(cu.cuMemAlloc(&last, 512));
    MUST(cu.cuMemFree(last));
}

/* ---- pointers of others --------------------------------------------------------------------- */

void scenario_mixed(void)
{
    CUdeviceptr block, other;
    void *host;
    unsigned type = 0;
    engine_start(0);
    MUST(cu.cuMemAlloc(&block, 100000));
    MUST(cu.cuMemAlloc(&other, 100000));
    MUST(cu.cuMemHostAlloc(&host, 4096, 0));
    TELL(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  (CUdeviceptr)(uintptr_t)host));
    printf("type %u\n", type);
    TELL(cu.cuMemFree((CUdeviceptr)(uintptr_t)&block));
    TELL(cu.cuMemFree(block + 4096));
    TELL(cu.cuMemFreeAsync((CUdeviceptr)(uintptr_t)&block, NULL));
    MUST(cu.cuMemFree(block));
    TELL(cu.cuMemFree(block));
    TELL(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block));
    TELL(cu.cuMemFreeHost((void *)(uintptr_t)other));
    MUST(cu.cuMemFreeHost(host));
    fill(other, 4, 100000, NULL);
    verify(other, 4, 100000, NULL);
    MUST(cu.cuMemFree(other));
}

/* ---- forks ---------------------------------------------------------------------------------- */

static void child_must_end_well(pid_t child)
{
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* CUDA does not work in the child, but nothing there may hang or crash. */
void scenario_forks(void)
{
    CUdeviceptr block, fresh;
    engine_start(0);
    MUST(cu.cuMemAlloc(&block, 1 << 20));
    fill(block, 8, 1 << 20, NULL);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        TELL(cu.cuMemAlloc(&fresh, 4096));
        TELL(cu.cuMemFree(block));
        TELL(cu.cuMemAllocAsync(&fresh, 4096, NULL));
        TELL(cu.cuMemFreeAsync(block, NULL));
        TELL(cu.cuCtxSynchronize());
        fflush(stdout);
        _exit(0);
    }
    child_must_end_well(child);
    MUST(cu.cuMemAlloc(&fresh, 1 << 20));
    verify(block, 8, 1 << 20, NULL);
    MUST(cu.cuMemFree(fresh));
    MUST(cu.cuMemFree(block));
}

/* A child from before the first call is a process like any other. */
void scenario_forks_early(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        scenario_basic();
        exit(0);
    }
    child_must_end_well(child);
    scenario_async();
}

/* ---- shortage ------------------------------------------------------------------------------- */

/* A device of 256 MiB, of which Tenure holds most, idle, when others want it: memory that the
 * program maps by hand, code, a graph. */
void scenario_shortage_others(void)
{
    static const CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr block, live;
    CUmodule module;
    CUgraph graph;
    CUgraphExec exec;
    engine_start(0);
    MUST(cu.cuMemAlloc(&live, 2 << 20));
    MUST(cu.cuMemAlloc(&block, 200 << 20));
    fill(live, 7, 2 << 20, NULL);
    MUST(cu.cuMemFree(block));
    TELL(cu.cuMemCreate(&handle, 150 << 20, &properties, 0));
    MUST(cu.cuMemRelease(handle));
    TELL(cu.cuMemCreate(&handle, (size_t)1 << 40, &properties, 0));
    MUST(cu.cuMemAlloc(&block, 100 << 20));
    MUST(cu.cuMemFree(block));
    TELL(cu.cuModuleLoadData(&module, "code"));
    MUST(cu.cuMemAlloc(&block, 100 << 20));
    MUST(cu.cuMemFree(block));
    MUST(cu.cuGraphCreate(&graph, 0));
    TELL(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    verify(live, 7, 2 << 20, NULL);
    MUST(cu.cuMemFree(live));
}

/* A device of 256 MiB. */
void scenario_shortage(void)
{
    enum { MANY = 64 };
    CUdeviceptr blocks[MANY], block;
    int got = 0;
    engine_start(0);
    TELL(cu.cuMemAlloc(&block, (size_t)1 << 40));
    TELL(cu.cuMemAlloc(&block, (size_t)-1));
    while (got < MANY && cu.cuMemAlloc(&blocks[got], 16 << 20) == CUDA_SUCCESS)
        got++;
    CHECK(got >= 14 && got <= 16);
    TELL(cu.cuMemAlloc(&block, 16 << 20));
    TELL(cu.cuMemAllocAsync(&block, 16 << 20, NULL));
    for (int i = 0; i < got; i++)
        MUST(cu.cuMemFree(blocks[i]));
    MUST(cu.cuMemAlloc(&block, 128 << 20));
    fill(block, 1, 128 << 20, NULL);
    verify(block + (100 << 20), 1, 4096, NULL);
    MUST(cu.cuMemFree(block));
}
