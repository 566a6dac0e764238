/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated device as the fuzzer uses it: its library is opened by path, the same that Tenure
 * opens, and nothing is linked against it.
 *
 * A kernel, `touch`, reads and writes blocks. It declares a whole block as touched, so that the
 * race detector sees all of it. In some blocks it really visits the first and last words, so that
 * contents are checked without the detector, too. It finds them with simcuda_memory_at, because
 * with TENURE_SIM_VIEW=1 nothing is mapped at the addresses of blocks.
 */
#ifndef TENURE_FUZZ_DEVICE_H
#define TENURE_FUZZ_DEVICE_H

#include <stdint.h>

#include <cuda.h>
#include <tenure/simcuda.h>

/* X(type of the table's entry, symbol, name in the table) */
#define FUZZ_DEVICE_LIST(X)                                                                        \
    X(CUresult (*)(unsigned), cuInit, init)                                                        \
    X(CUresult (*)(CUcontext *, CUdevice), cuDevicePrimaryCtxRetain, retain)                       \
    X(CUresult (*)(CUdevice), cuDevicePrimaryCtxRelease_v2, release)                               \
    X(CUresult (*)(CUcontext), cuCtxSetCurrent, set_current)                                       \
    X(CUresult (*)(CUcontext *), cuCtxGetCurrent, get_current)                                     \
    X(CUresult (*)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *,            \
                   unsigned long long),                                                            \
      cuMemCreate, memory_create)                                                                  \
    X(CUresult (*)(CUmemGenericAllocationHandle), cuMemRelease, memory_release)                    \
    X(CUresult (*)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long),                \
      cuMemAddressReserve, address_reserve)                                                        \
    X(CUresult (*)(CUdeviceptr, size_t), cuMemAddressFree, address_free)                           \
    X(CUresult (*)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long), \
      cuMemMap, memory_map)                                                                        \
    X(CUresult (*)(CUdeviceptr, size_t), cuMemUnmap, memory_unmap)                                 \
    X(CUresult (*)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t), cuMemSetAccess,          \
      memory_open)                                                                                 \
    X(CUresult (*)(void), cuCtxSynchronize, context_synchronize)                                   \
    X(CUresult (*)(CUstream *, unsigned), cuStreamCreate, stream_create)                           \
    X(CUresult (*)(CUstream), cuStreamDestroy_v2, stream_destroy)                                  \
    X(CUresult (*)(CUstream), cuStreamSynchronize, stream_synchronize)                             \
    X(CUresult (*)(CUstream, CUhostFn, void *), cuLaunchHostFunc, host_launch)                     \
    X(CUresult (*)(CUstream, CUevent, unsigned), cuStreamWaitEvent, stream_wait)                   \
    X(CUresult (*)(CUevent *, unsigned), cuEventCreate, event_create)                              \
    X(CUresult (*)(CUevent), cuEventDestroy_v2, event_destroy)                                     \
    X(CUresult (*)(CUevent, CUstream), cuEventRecord, event_record)                                \
    X(CUresult (*)(CUevent), cuEventQuery, event_query)                                            \
    X(CUresult (*)(CUevent), cuEventSynchronize, event_synchronize)                                \
    X(CUresult (*)(CUmodule *, const void *), cuModuleLoadData, module_load)                       \
    X(CUresult (*)(CUfunction *, CUmodule, const char *), cuModuleGetFunction, module_get)         \
    X(CUresult (*)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,         \
                   unsigned, CUstream, void **, void **),                                          \
      cuLaunchKernel, launch)                                                                      \
    X(CUresult (*)(CUdeviceptr, unsigned char, size_t, CUstream), cuMemsetD8Async, set)            \
    X(CUresult (*)(CUdeviceptr, CUdeviceptr, size_t, CUstream), cuMemcpyDtoDAsync_v2, copy)        \
    X(CUresult (*)(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *,                     \
                   const CUgraphNode **, size_t *),                                                \
      cuStreamGetCaptureInfo_v2, capture_info)                                                     \
    X(CUresult (*)(CUstream, CUgraphNode *, const CUgraphEdgeData *, size_t, unsigned),            \
      cuStreamUpdateCaptureDependencies_v2, capture_update)                                        \
    X(CUresult (*)(CUstream, CUgraph *), cuStreamEndCapture, capture_end)                          \
    X(CUresult (*)(CUgraphExec *, CUgraph, unsigned long long), cuGraphInstantiateWithFlags,       \
      graph_instantiate)                                                                           \
    X(CUresult (*)(CUgraphExec), cuGraphExecDestroy, graph_exec_destroy)                           \
    X(CUresult (*)(CUgraph), cuGraphDestroy, graph_destroy)                                        \
    X(int (*)(const char *, size_t, const size_t *, simcuda_kernel_run, simcuda_kernel_accesses),  \
      simcuda_kernel_register, kernel_register)                                                    \
    X(void (*)(const char *, uint64_t, int, CUresult), simcuda_fail, fail)                         \
    X(void (*)(void), simcuda_fail_clear, fail_clear)                                              \
    X(uint64_t (*)(void), simcuda_fail_hits, fail_hits)                                            \
    X(int (*)(void), simcuda_reset, reset)                                                         \
    X(CUresult (*)(unsigned long long *, const CUmemLocation *, CUdeviceptr), cuMemGetAccess,      \
      access_get)                                                                                  \
    X(void *(*)(CUdeviceptr), simcuda_memory_at, memory_at)                                        \
    X(int (*)(int, simcuda_live *), simcuda_live_get, live_get)                                    \
    X(uint64_t (*)(void), simcuda_violations, violations)                                          \
    X(const char *(*)(void), simcuda_violation_last, violation_last)                               \
    X(uint64_t (*)(void), simcuda_races, races)                                                    \
    X(const char *(*)(void), simcuda_race_last, race_last)                                         \
    X(uint64_t (*)(const char *), simcuda_calls, calls)                                            \
    X(void (*)(simcuda_report_function, void *), simcuda_races_callback, races_callback)           \
    X(void (*)(const char *), simcuda_origin, origin)                                              \
    X(int (*)(CUdeviceptr, size_t, const char *), simcuda_owner_begin, owner_begin)                \
    X(int (*)(CUdeviceptr), simcuda_owner_end, owner_end)                                          \
    X(void (*)(int), simcuda_owner_pause, owner_pause)                                             \
    X(void (*)(CUdeviceptr, size_t), simcuda_host_takes, host_takes)                               \
    X(uint64_t (*)(uint64_t), simcuda_run, run)                                                    \
    X(uint64_t (*)(CUstream, uint64_t), simcuda_run_stream, run_stream)                            \
    X(uint64_t (*)(void), simcuda_pending, pending)

typedef struct fuzz_device {
    void *library;
    /* In the list's order. A pointer to a function type is spelled with typeof. */
#define FUZZ_DEVICE_ENTRY(type, symbol, name) __typeof__(type) name;
    FUZZ_DEVICE_LIST(FUZZ_DEVICE_ENTRY)
#undef FUZZ_DEVICE_ENTRY
    CUcontext contexts[2];
    CUfunction touch[2]; /* the kernel, in each device's context */
    int devices;
    /* 1: any driver, not the simulated device with its schedule. Gates hold the streams. */
    int is_gated;
    int is_certain;         /* gates open when the program says so and at no other time */
    int spins;              /* hold them by kernels, whatever the device has */
    unsigned stall_seconds; /* a call that takes longer has failed */
} fuzz_device;

/* What `touch` does to one block. */
typedef struct fuzz_touch {
    uint64_t address, bytes;
    uint64_t tag; /* written, or expected; 0: expected to be anything */
    uint32_t is_write;
    uint32_t is_visited; /* 0: declared only, its contents are left alone */
} fuzz_touch;

/* One launch: its only parameter. `step` is what wrong contents are reported with. */
typedef struct fuzz_launch {
    fuzz_touch touches[2]; /* bytes 0: nothing */
    uint64_t step;
} fuzz_launch;

/* Contents that were not what they had to be. */
typedef struct fuzz_mismatch {
    uint64_t count; /* the rest is about the first */
    uint64_t step, address, expected, found;
} fuzz_mismatch;
extern fuzz_mismatch fuzz_mismatches;

/* Opens the library. Initialises nothing, so the process may still fork. Returns 0, or -1 with a
 * sentence. */
int fuzz_device_open(fuzz_device *device, const char *path, char *error, size_t error_bytes);
/* Initialises it in this process and makes the contexts. The environment has been set. */
int fuzz_device_start(fuzz_device *device, int devices, char *error, size_t error_bytes);
/* Makes a device's context the current one. */
void fuzz_device_use(fuzz_device *device, int number);
CUresult fuzz_device_touch(fuzz_device *device, int number, CUstream stream, fuzz_launch *launch);

#endif
