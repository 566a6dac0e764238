/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver from the future, over the simulated one: cuMemAlloc has a version of CUDA 99 with
 * arguments that nobody knows yet. It says when cuStreamQuery is called. It also plays the
 * functions of CUDA 13.0 to 13.3 that the simulated one lacks, as their documentation describes
 * them.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include <cuda.h>
#include <cudaTypedefs.h>

#include "boxes.h"

#undef cuGetProcAddress
#undef cuMemcpyBatchAsync

#define EXPORT(type, name) extern __typeof__(*(type)0) name

EXPORT(PFN_cuInit_v2000, cuInit);
EXPORT(PFN_cuDriverGetVersion_v2020, cuDriverGetVersion);
EXPORT(PFN_cuGetProcAddress_v12000, cuGetProcAddress_v2);
EXPORT(PFN_cuStreamQuery_v2000, cuStreamQuery);
CUresult cuMemAlloc_v3(CUdeviceptr *address, size_t bytes, unsigned what);
extern void (*newer_driver_asked)(void);

/* A function of the simulated device, by the C library's own dlsym: another one takes whoever asks
 * for what is there underneath. */
static void *simulated(const char *symbol)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    void *(*look_up)(void *, const char *) = NULL;
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]) && look_up == NULL; i++) {
        void *found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
        memcpy(&look_up, &found, sizeof(found));
    }
    return look_up(dlopen("libtenure_simcuda.so", RTLD_NOW | RTLD_NOLOAD), symbol);
}

/* Of the program, null if it does not want to know: called first by cuStreamQuery. */
void (*newer_driver_asked)(void);

CUresult CUDAAPI cuStreamQuery(CUstream stream)
{
    PFN_cuStreamQuery_v2000 query;
    void *symbol = simulated("cuStreamQuery");
    memcpy(&query, &symbol, sizeof(query));
    if (newer_driver_asked != NULL)
        newer_driver_asked();
    return query(stream);
}

CUresult CUDAAPI cuInit(unsigned flags)
{
    PFN_cuInit_v2000 init;
    void *symbol = simulated("cuInit");
    memcpy(&init, &symbol, sizeof(init));
    return init(flags);
}

CUresult CUDAAPI cuDriverGetVersion(int *version)
{
    *version = 99000;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v3(CUdeviceptr *address, size_t bytes, unsigned what)
{
    PFN_cuMemAlloc_v3020 second;
    void *symbol = simulated("cuMemAlloc_v2");
    memcpy(&second, &symbol, sizeof(second));
    return what != 7 ? CUDA_ERROR_INVALID_VALUE : second(address, bytes);
}

/* Declares `name` as the simulated function of the type. */
#define SIMULATED(type, name, symbol)                                                              \
    type name;                                                                                     \
    void *symbol_##name = simulated(symbol);                                                       \
    memcpy(&name, &symbol_##name, sizeof(name))

typedef void (*played_function)(void);

static CUresult begin_recapture(CUstream stream, CUstreamCaptureMode mode, CUgraph graph,
                                void *mismatched, void *data)
{
    SIMULATED(PFN_cuStreamBeginCaptureToGraph_v12030, begin, "cuStreamBeginCaptureToGraph");
    (void)data;
    return mismatched == NULL ? CUDA_ERROR_INVALID_VALUE
                              : begin(stream, graph, NULL, NULL, 0, mode);
}

static CUresult begin_graphics(CUstream stream, void *parameters)
{
    SIMULATED(PFN_cuStreamBeginCapture_v10010, begin, "cuStreamBeginCapture_v2");
    return parameters == NULL ? CUDA_ERROR_INVALID_VALUE
                              : begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
}

static CUresult end_graphics(CUstream stream)
{
    SIMULATED(PFN_cuStreamEndCapture_v10000, end, "cuStreamEndCapture");
    SIMULATED(PFN_cuGraphDestroy_v10000, destroy, "cuGraphDestroy");
    CUgraph graph = NULL;
    CUresult result = end(stream, &graph);
    return result == CUDA_SUCCESS ? destroy(graph) : result;
}

static CUresult copy_attributes(CUdeviceptr to, CUdeviceptr from, size_t bytes, void *attributes,
                                CUstream stream)
{
    SIMULATED(PFN_cuMemcpyAsync_v4000, copy, "cuMemcpyAsync");
    return attributes == NULL ? CUDA_ERROR_INVALID_VALUE : copy(to, from, bytes, stream);
}

static CUresult copy_batch(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
                           void *attributes, size_t *first, size_t attributes_count,
                           CUstream stream)
{
    CUresult result =
        first == NULL || attributes_count == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = copy_attributes(to[i], from[i], bytes[i], attributes, stream);
    return result;
}

static CUresult copy_batch_first(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
                                 void *attributes, size_t *first, size_t attributes_count,
                                 size_t *failed, CUstream stream)
{
    if (failed != NULL)
        *failed = SIZE_MAX;
    return copy_batch(to, from, bytes, count, attributes, first, attributes_count, stream);
}

/* Boxes of pointers alone, row by row. */
static CUresult box_batch(size_t count, const box *list, unsigned long long flags, CUstream stream)
{
    SIMULATED(PFN_cuMemcpyAsync_v4000, copy, "cuMemcpyAsync");
    CUresult result = flags != 0 || count == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    for (size_t i = 0; i < count; i++)
        for (size_t y = 0; y < list[i].height && result == CUDA_SUCCESS; y++)
            result = copy(list[i].to.address + y * list[i].to.row,
                          list[i].from.address + y * list[i].from.row, list[i].width, stream);
    return result;
}

static CUresult box_batch_first(size_t count, const box *list, size_t *failed,
                                unsigned long long flags, CUstream stream)
{
    *failed = SIZE_MAX;
    return box_batch(count, list, flags, stream);
}

static CUresult host_function(CUstream stream, CUhostFn function, void *data, unsigned mode)
{
    SIMULATED(PFN_cuLaunchHostFunc_v10000, launch, "cuLaunchHostFunc");
    return mode > 1 ? CUDA_ERROR_INVALID_VALUE : launch(stream, function, data);
}

static const struct {
    const char *name;
    int since;
    played_function function;
} played[] = {
    {"cuStreamBeginRecaptureToGraph", 13030, (played_function)begin_recapture},
    {"cuStreamBeginCaptureToCig", 13020, (played_function)begin_graphics},
    {"cuStreamEndCaptureToCig", 13020, (played_function)end_graphics},
    {"cuMemcpyWithAttributesAsync", 13020, (played_function)copy_attributes},
    {"cuMemcpyBatchAsync", 13000, (played_function)copy_batch},
    {"cuMemcpyBatchAsync", 12080, (played_function)copy_batch_first},
    {"cuMemcpy3DBatchAsync", 13000, (played_function)box_batch},
    {"cuMemcpy3DBatchAsync", 12080, (played_function)box_batch_first},
    {"cuLaunchHostFunc", 13020, (played_function)host_function},
};

CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **function, int version,
                                     cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    CUresult (*third)(CUdeviceptr *, size_t, unsigned) = cuMemAlloc_v3;
    PFN_cuGetProcAddress_v12000 second;
    void *own = simulated("cuGetProcAddress_v2");
    memcpy(&second, &own, sizeof(second));
    for (size_t i = 0; i < sizeof(played) / sizeof(played[0]); i++)
        if (strcmp(symbol, played[i].name) == 0 && version >= played[i].since) {
            memcpy(function, &played[i].function, sizeof(*function));
            return CUDA_SUCCESS;
        }
    if (strcmp(symbol, "cuMemAlloc") != 0 || version < 99000)
        return second(symbol, function, version, flags, status);
    memcpy(function, &third, sizeof(third));
    return CUDA_SUCCESS;
}
