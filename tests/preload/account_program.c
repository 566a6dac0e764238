/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of the driver that takes memory of a device in the ways that an account tells apart,
 * one for each word that it reads. It answers each with a line, and ends with its input.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <cudaTypedefs.h>
#include <tenure/simcuda.h>

enum { MIB = 1 << 20, EVENTS = 128 };

static void *library;

static void *find(const char *name)
{
    void *symbol = dlsym(library, name);
    if (symbol == NULL) {
        fprintf(stderr, "no %s\n", name);
        exit(1);
    }
    return symbol;
}

/* Calls a function of the driver by its symbol and type, and ends the program if that fails. */
#define CALL(symbol, type, arguments)                                                              \
    do {                                                                                           \
        type function_;                                                                            \
        void *found_ = find(#symbol);                                                              \
        memcpy(&function_, &found_, sizeof(function_));                                            \
        CUresult result_ = function_ arguments;                                                    \
        if (result_ != CUDA_SUCCESS) {                                                             \
            fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #symbol, (int)result_);     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static CUstream stream;
static CUmodule module;
static CUfunction function;
static CUgraph graph;
static CUgraphExec executable;
static CUdeviceptr block;
static CUmemGenericAllocationHandle handle;
static CUevent events[EVENTS];

static void kernel_run(void *const *parameters)
{
    (void)parameters;
}

static void context_make(void)
{
    CUcontext context;
    CALL(cuDevicePrimaryCtxRetain, PFN_cuDevicePrimaryCtxRetain_v7000, (&context, 0));
    CALL(cuCtxSetCurrent, PFN_cuCtxSetCurrent_v4000, (context));
}

static void module_load(void)
{
    int (*add)(const char *, size_t, const size_t *, simcuda_kernel_run, simcuda_kernel_accesses);
    void *symbol = find("simcuda_kernel_register");
    memcpy(&add, &symbol, sizeof(add));
    if (add("nothing", 0, NULL, kernel_run, NULL) != 0)
        exit(1);
    CALL(cuModuleLoadData, PFN_cuModuleLoadData_v2000, (&module, "an image"));
    CALL(cuModuleGetFunction, PFN_cuModuleGetFunction_v2000, (&function, module, "nothing"));
}

static void launch(void)
{
    CALL(cuLaunchKernel, PFN_cuLaunchKernel_v4000,
         (function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    CALL(cuCtxSynchronize, PFN_cuCtxSynchronize_v2000, ());
}

static void graph_launch(void)
{
    CALL(cuStreamCreate, PFN_cuStreamCreate_v2000, (&stream, CU_STREAM_NON_BLOCKING));
    CALL(cuStreamBeginCapture_v2, PFN_cuStreamBeginCapture_v10010,
         (stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CALL(cuLaunchKernel, PFN_cuLaunchKernel_v4000,
         (function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    CALL(cuStreamEndCapture, PFN_cuStreamEndCapture_v10000, (stream, &graph));
    CALL(cuGraphInstantiateWithFlags, PFN_cuGraphInstantiateWithFlags_v11040,
         (&executable, graph, 0));
    CALL(cuGraphLaunch, PFN_cuGraphLaunch_v10000, (executable, stream));
    CALL(cuGraphLaunch, PFN_cuGraphLaunch_v10000, (executable, stream));
    CALL(cuCtxSynchronize, PFN_cuCtxSynchronize_v2000, ());
}

static void graph_end(void)
{
    CALL(cuGraphExecDestroy, PFN_cuGraphExecDestroy_v10000, (executable));
    CALL(cuGraphDestroy, PFN_cuGraphDestroy_v10000, (graph));
}

static void map_by_hand(void)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CALL(cuMemCreate, PFN_cuMemCreate_v10020, (&handle, 6 * MIB, &properties, 0));
}

static void unmap(void)
{
    CALL(cuMemRelease, PFN_cuMemRelease_v10020, (handle));
}

/* Nobody measures those. */
static void events_make(void)
{
    for (int i = 0; i < EVENTS; i++)
        CALL(cuEventCreate, PFN_cuEventCreate_v2000, (&events[i], CU_EVENT_DISABLE_TIMING));
}

static void allocate(void)
{
    CALL(cuMemAlloc_v2, PFN_cuMemAlloc_v3020, (&block, 8 * MIB));
}

static void give_back(void)
{
    CALL(cuMemFree_v2, PFN_cuMemFree_v3020, (block));
}

static void module_unload(void)
{
    CALL(cuModuleUnload, PFN_cuModuleUnload_v2000, (module));
}

static void reset(void)
{
    CALL(cuDevicePrimaryCtxReset_v2, PFN_cuDevicePrimaryCtxReset_v11000, (0));
}

static const struct {
    const char *word;
    void (*act)(void);
} acts[] = {
    {"context", context_make}, {"module", module_load},  {"launch", launch},
    {"graph", graph_launch},   {"map", map_by_hand},     {"events", events_make},
    {"allocate", allocate},    {"graph_end", graph_end}, {"unmap", unmap},
    {"unload", module_unload}, {"free", give_back},      {"reset", reset},
};

int main(void)
{
    char word[64];
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL)
        return 1;
    CALL(cuInit, PFN_cuInit_v2000, (0));
    while (scanf("%63s", word) == 1) {
        for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++)
            if (strcmp(word, acts[i].word) == 0)
                acts[i].act();
        printf("%s\n", word);
        fflush(stdout);
    }
    return 0;
}
